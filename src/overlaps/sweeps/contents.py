"""What a function computes with beside its arguments, so that a checkpoint can say that it is another one now.

A digest for each part: the code of the function, and of those of its module that it calls; the values in its closure,
its defaults, and the globals that it reads. Of functions of other modules, and of objects of other kinds than numbers,
texts, arrays, records and collections of them, the name alone counts.
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

PYTHON, CODE = "Python", "the code of "  # bytecode of different versions cannot be compared
LIBRARY = __name__.partition(".")[0]
CHANGING = {"add", "append", "clear", "extend", "insert", "pop", "popitem", "remove", "setdefault", "sort", "update"}


def contents(function: Any) -> dict[str, str]:
    """{what it is: digest} of all parts of a function that a user wrote; nothing for functions of the library."""
    first = _written(function)
    if not first or first[0].__module__.partition(".")[0] == LIBRARY:
        return {}
    own = {first[0].__module__, "__main__"}
    found, met = {PYTHON: f"{sys.version_info[0]}.{sys.version_info[1]}"}, set(map(id, first))

    def digest(name, value):
        with suppress(RecursionError):  # a list that holds itself
            text = found.get(name, "") + (value if isinstance(value, str) else json.dumps(described(value, other)))
            found[name] = hashlib.sha256(text.encode()).hexdigest()[:12]  # of namesakes one after the other

    def other(value):
        """A value that is not plain: its name, and the code behind it where it is of the user's module."""
        if isinstance(value, bytes | complex):
            return repr(value)
        if isinstance(value, dict):  # of other names than texts
            return sorted(json.dumps([described(x, other) for x in item]) for item in value.items())
        reached = [x for x in _written(value) if x.__module__ in own and id(x) not in met]
        met.update(map(id, reached))
        first.extend(reached)
        return described_fields(value, other) or named(value)

    for one in first:  # which grows
        name, code = one.__qualname__, one.__code__
        read, changed = _used(code)
        digest(CODE + name, "\n".join(of_code(code)))
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
    """What differs, in words."""
    comparable = old.get(PYTHON) == new.get(PYTHON)
    names = [x for x in {**new, **old} if x != PYTHON and (comparable or not x.startswith(CODE))]
    return [x for x in names if old.get(x) != new.get(x)]


def _written(value: Any) -> list[FunctionType]:
    """The functions in Python that a callable consists of."""
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
    """Names of outer variables that code reads as globals, and of those that it changes: a log is no input."""
    steps = [(x.opname, x.argval) for x in dis.get_instructions(code)]
    read = {name for step, name in steps if step in ("LOAD_GLOBAL", "LOAD_NAME")}
    changed = {name for step, name in steps if step in ("STORE_GLOBAL", "STORE_DEREF")}
    for (step, name), after, (later, _) in zip(steps, steps[1:], steps[2:], strict=False):
        if step in ("LOAD_GLOBAL", "LOAD_DEREF") and (
            after[1] in CHANGING or later in ("STORE_SUBSCR", "DELETE_SUBSCR")
        ):
            changed.add(name)
    for const in filter(inspect.iscode, code.co_consts):
        inner = _used(const)
        read, changed = read | inner[0], changed | inner[1]
    return read, changed
