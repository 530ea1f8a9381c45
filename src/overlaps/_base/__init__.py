"""Ground floor, no science: compilation policy, checks of input, records, progress bars, the version.

``check`` words every refusal: it names the argument, what came, what was expected, what to try. ``record`` gives frozen
records equality and a registry by name, ``Immutable.kinds``. ``jit`` is the one place where compilation policy is
decided.
"""

from .immutable import Immutable, read_only
from .search import minimum
from .signatures import bar, by_name, public_dir, quietly, warn
from .types import ArrayLike, Floats, Function, Integers, Numbers, PathLike, Rng

__all__ = [
    "ArrayLike", "Floats", "Function", "Integers", "Numbers", "PathLike", "Immutable", "Rng", "bar", "by_name",
    "public_dir",
    "minimum", "quietly", "read_only", "warn",
]  # fmt: skip
