"""Frozen dataclasses with arrays: equality, checked fields, and a registry of the classes by name."""

from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import Any, ClassVar, dataclass_transform

import numpy as np


def _same(a, b):
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.array_equal(a, b, equal_nan=np.result_type(a, b).kind in "fc")
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return False
    if type(a) is type(b) and isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if type(a) is type(b) and isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(x, b[key]) for key, x in a.items())
    return a == b or (a != a and b != b)  # nan equals nan here


def read_only(array):
    """A read-only view of the array."""
    view = array.view()
    view.setflags(write=False)
    return view


class Kinds(dict):
    """Every class derived from ``Immutable`` by name, for checks and files."""

    def __init__(self):
        super().__init__()
        self.later: list[str] = []  # modules that are imported when an unknown name is looked up

    def __missing__(self, name):
        while self.later and name not in self:
            import_module(self.later.pop())
        if name not in self:
            raise KeyError(name)
        return self[name]

    def complete(self):
        """Import all modules of ``later``."""
        while self.later:
            import_module(self.later.pop())


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
class Immutable:
    """Base class whose subclasses are frozen dataclasses, without a decorator.

    Two objects are equal if all their fields are; ``shows`` is their text, or that of dataclasses with ``repr=True``.
    """

    shows: ClassVar[str] = ""  # a format for ``str.format`` with the object as argument 0

    def __repr__(self):
        return f"{type(self).__name__}({self.shows.format(self)})"

    def __eq__(self, other):
        if type(self) is not type(other):
            return NotImplemented
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self) if f.compare)

    __hash__ = None

    def __setstate__(self, state):
        # pickles, by which objects return from workers, lose NumPy's read-only flag
        self.__dict__.update({x: read_only(a) if isinstance(a, np.ndarray) else a for x, a in state.items()})

    def _set(self, **checked: Any) -> None:
        """Replace fields by checked values; only for ``__post_init__``, because the object is frozen afterwards."""
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    kinds: ClassVar[Kinds] = Kinds()

    def __init_subclass__(cls, *, repr: bool = False, kw_only: bool = False, **options: Any) -> None:
        super().__init_subclass__(**options)
        dataclass(frozen=True, eq=False, repr=repr, kw_only=kw_only)(cls)
        Immutable.kinds.setdefault(cls.__name__, cls)
