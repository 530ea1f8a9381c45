"""Digests of the contents of a function, with which a checkpoint detects changes.

Digests are computed for the code of the function and of the functions of its module that it calls, for the values in
its closure, its defaults, and the globals that it reads. Functions of other modules, and objects other than numbers,
texts, arrays, models, states, results and collections of these, are represented by their names.
"""

import dis
import functools
import hashlib
import inspect
import json
import sys
from contextlib import suppress
from types import CodeType, FunctionType
from typing import Any

from .._base.bytecode import of_code
from .described import described, described_fields, named

PYTHON = "Python"  # name of the digest of the version; bytecode of different versions cannot be compared


def contents(function: Any) -> dict[str, str]:
    """Return {description: digest} of the contents of a user's function; empty for functions of the library."""
    functions = _written(function)
    if not functions or functions[0].__module__.partition(".")[0] == __name__.partition(".")[0]:
        return {}
    modules = {functions[0].__module__, "__main__"}
    found, visited = {PYTHON: f"{sys.version_info[0]}.{sys.version_info[1]}"}, set(map(id, functions))

    def digest(name, value):
        with suppress(RecursionError):  # a list that contains itself
            # digests of several objects with one name are combined
            text = found.get(name, "") + (value if isinstance(value, str) else json.dumps(described(value, other)))
            found[name] = hashlib.sha256(text.encode()).hexdigest()[:12]

    def other(value):
        """Describe any other value by its name; functions of the user's modules in it are added to ``functions``."""
        if isinstance(value, bytes | complex):
            return repr(value)
        if isinstance(value, dict):  # its keys are not all strings
            return sorted(json.dumps([described(x, other) for x in item]) for item in value.items())
        reached = [x for x in _written(value) if x.__module__ in modules and id(x) not in visited]
        visited.update(map(id, reached))
        functions.extend(reached)
        return described_fields(value, other) or named(value)

    for one in functions:  # digest() extends the list during the loop
        name, code = one.__qualname__, one.__code__
        read, changed = _used(code)
        digest(f"the code of {name}", "\n".join(of_code(code)))
        for variable, cell in zip(code.co_freevars, one.__closure__ or (), strict=True):
            if variable not in changed:
                with suppress(ValueError):  # not assigned yet
                    digest(f"{variable} in the closure of {name}", [cell.cell_contents])
        if one.__defaults__ or one.__kwdefaults__:
            digest(f"the defaults of {name}", [one.__defaults__, one.__kwdefaults__])
        for variable in sorted((read - changed) & one.__globals__.keys()):
            if f"the global {variable}" not in found:
                digest(f"the global {variable}", [one.__globals__[variable]])
    return found


def changes(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """Return the descriptions of all contents that differ."""
    comparable = old.get(PYTHON) == new.get(PYTHON)
    names = [x for x in {**new, **old} if x != PYTHON and (comparable or not x.startswith("the code of "))]
    return [x for x in names if old.get(x) != new.get(x)]


def _written(value: Any) -> list[FunctionType]:
    """Return the Python functions of a callable."""
    if isinstance(value, functools.partial):
        return _written(value.func)
    if isinstance(value, FunctionType):
        return [value]
    for inner in ("__func__", "__wrapped__", "py_func"):  # methods, caches, kernels
        if isinstance(getattr(value, inner, None), FunctionType):
            return [getattr(value, inner)]
    kind = value if isinstance(value, type) else type(value)
    return [x for x in vars(kind).values() if isinstance(x, FunctionType)] if callable(value) else []


def _used(code: CodeType) -> tuple[set[str], set[str]]:
    """Return the names of the globals that code reads, and of outer variables that it changes.

    Variables that the function changes, such as a log, are not among its inputs.
    """
    mutating = set("add append clear extend insert pop popitem remove setdefault sort update".split())
    steps = [(x.opname, x.argval) for x in dis.get_instructions(code)]
    read = {name for step, name in steps if step in ("LOAD_GLOBAL", "LOAD_NAME")}
    changed = {name for step, name in steps if step in ("STORE_GLOBAL", "STORE_DEREF")}
    for (step, name), (_, attribute), (later, _) in zip(steps, steps[1:], steps[2:], strict=False):
        if step in ("LOAD_GLOBAL", "LOAD_DEREF") and (
            attribute in mutating or later in ("STORE_SUBSCR", "DELETE_SUBSCR")
        ):
            changed.add(name)
    for const in filter(inspect.iscode, code.co_consts):
        inner = _used(const)
        read, changed = read | inner[0], changed | inner[1]
    return read, changed
