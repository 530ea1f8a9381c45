"""Names of types in signatures: full types for type checkers, short names in ``help``."""

from typing import TYPE_CHECKING, Any, TypeAlias

__all__ = ["ArrayLike", "Floats", "Function", "Integers", "Numbers", "PathLike", "Rng"]

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    PathLike: TypeAlias = str | os.PathLike[str]
    Function: TypeAlias = Callable[..., Any]
    Floats: TypeAlias = NDArray[np.float64]
    Integers: TypeAlias = NDArray[np.int64]
    Numbers: TypeAlias = Any  # a number for a number, an array for an array
    Rng: TypeAlias = int | np.random.Generator | np.random.SeedSequence
else:

    def _named(name, doc):  # in module builtins, because such a class is printed without its module
        return type(name, (), {"__doc__": doc, "__module__": "builtins"})

    ArrayLike = _named("ArrayLike", "Any argument of :func:`numpy.asarray`.")
    Floats = _named("Floats", "An array of float64.")
    Integers = _named("Integers", "An array of int64.")
    Numbers = _named("Numbers", "A number for a number, an array for an array.")
    PathLike = _named("PathLike", "A string or an ``os.PathLike``.")
    Function = _named("Function", "Any callable.")
    Rng = _named("Rng", "A seed, a :class:`numpy.random.Generator` or a :class:`~numpy.random.SeedSequence`.")
