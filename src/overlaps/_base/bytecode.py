"""Bytecode as text that is the same in every process: without places of sources, comments and docstrings."""

from types import CodeType


def of_code(code):
    """Texts that tell code, and the functions inside it, from other code; they hang on the version of Python."""
    yield code.co_code.hex()
    yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_argcount))
    documented = code.co_consts and isinstance(code.co_consts[0], str)
    for const in code.co_consts[1:] if documented else code.co_consts:
        if isinstance(const, CodeType):
            yield from of_code(const)
        else:  # the order of a frozenset hangs on the process
            yield repr(sorted(const, key=repr)) if isinstance(const, frozenset) else repr(const)
