"""Ground floor, no science: compilation policy, checks of input, records, progress bars, the version.

``check`` words every refusal: it names the argument, what came, what was expected, what to try. ``record`` gives frozen
records equality and a registry by name, ``Record.kinds``. ``jit`` is the one place where compilation policy is decided.
"""

from .calls import bar, by_name, door, quietly, warn
from .record import Record, read_only
from .search import minimum
from .types import ArrayLike, Floats, Function, Integers, Numbers, PathLike, Rng

__all__ = [
    "ArrayLike", "Floats", "Function", "Integers", "Numbers", "PathLike", "Record", "Rng", "bar", "by_name", "door",
    "minimum", "quietly", "read_only", "warn",
]  # fmt: skip
