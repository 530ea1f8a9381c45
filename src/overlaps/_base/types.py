"""Names of types in signatures: what comes in, what goes out."""

import os
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["ArrayLike", "Floats", "Function", "Integers", "Numbers", "PathLike", "Rng"]

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Numbers: TypeAlias = Any  # a number for a number, an array for an array
Rng: TypeAlias = int | np.random.Generator | np.random.SeedSequence
PathLike: TypeAlias = str | os.PathLike[str]
Function: TypeAlias = Callable[..., Any]
