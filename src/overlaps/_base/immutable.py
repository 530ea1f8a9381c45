"""Frozen records that hold arrays: equality, checked fields, and all kinds of them by name."""

from dataclasses import fields
from importlib import import_module
from typing import Any, ClassVar

import numpy as np


def _same(a, b):
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(a, b, equal_nan=np.result_type(a, b).kind in "fc")
    if type(a) is type(b) and isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if type(a) is type(b) and isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(x, b[key]) for key, x in a.items())
    return a == b or (a != a and b != b)  # nan is itself


def read_only(array):
    """The array, as a view that cannot be written to."""
    view = array.view()
    view.setflags(write=False)
    return view


class Kinds(dict):
    """Every record of the library by name: who checks, saves or loads one asks here."""

    def __init__(self):
        super().__init__()
        self.later: list[str] = []  # rooms that are loaded when a name is first asked for

    def __missing__(self, name):
        while self.later and name not in self:
            import_module(self.later.pop())
        if name not in self:
            raise KeyError(name)
        return self[name]

    def complete(self):
        """Load the rooms that were left for later."""
        while self.later:
            import_module(self.later.pop())


class Immutable:
    """Base of the frozen dataclasses: two records are equal when all their fields are, and ``shows`` is their text."""

    shows: ClassVar[str] = ""  # in the notation of ``str.format``, of the record 0

    def __repr__(self):
        return f"{type(self).__name__}({self.shows.format(self)})"

    def __eq__(self, other):
        if type(self) is not type(other):
            return NotImplemented
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self) if f.compare)

    __hash__ = None

    def __setstate__(self, state):
        # NumPy forgets the flag in pickles, which is how records come back from workers
        self.__dict__.update({x: read_only(a) if isinstance(a, np.ndarray) else a for x, a in state.items()})

    def _set(self, **checked: Any) -> None:
        """Put checked values in place of what came; for ``__post_init__``, afterwards a record does not change."""
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    kinds: ClassVar[Kinds] = Kinds()

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        Immutable.kinds.setdefault(cls.__name__, cls)
