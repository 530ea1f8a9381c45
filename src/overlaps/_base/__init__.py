"""Base layer, no science: compilation policy, checks of input, frozen dataclasses, progress bars, the version.

``check`` composes every error message: the argument, its value, what was expected, what to try. ``immutable`` gives
frozen dataclasses equality and a registry by name, ``Immutable.kinds``. ``jit`` sets the compilation policy.
"""

from .immutable import Immutable, read_only
from .search import minimum
from .signatures import bar, by_name, public_dir, quietly, warn
from .types import ArrayLike, Floats, Function, Integers, Numbers, PathLike, Rng

__all__ = [
    "ArrayLike", "Floats", "Function", "Integers", "Numbers", "PathLike", "Immutable", "Rng", "bar",
    "by_name", "public_dir", "minimum", "quietly", "read_only", "warn",
]  # fmt: skip
