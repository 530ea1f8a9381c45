"""Bytecode as text that is the same in every process: without source positions, comments and docstrings."""

from types import CodeType


def of_code(code):
    """Texts that identify code and the functions inside it; they depend on the version of Python."""
    yield code.co_code.hex()
    yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_argcount))
    documented = code.co_consts and isinstance(code.co_consts[0], str)
    for const in code.co_consts[1:] if documented else code.co_consts:
        if isinstance(const, CodeType):
            yield from of_code(const)
        else:  # sorted, because the order of a frozenset depends on the process
            yield repr(sorted(const, key=repr)) if isinstance(const, frozenset) else repr(const)
