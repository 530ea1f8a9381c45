"""Closed forms, one module per subject, loaded when first used: ``ov.theory.quadratic.eta_solution(3, 3)``."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .._base import public_dir

if TYPE_CHECKING:
    from ..analysis.escape_time import escape
    from ..analysis.minima import minima
    from ..analysis.stationary import stationary_points
    from . import cayley_hamilton, features, late_time, linear, plateau, quadratic, rules, scaling

__all__ = [
    "cayley_hamilton", "escape", "features", "late_time", "linear", "minima", "plateau", "quadratic", "rules",
    "scaling", "stationary_points",
]  # fmt: skip
__dir__ = public_dir(__name__)
_FUNCTION_MODULES = {
    "escape": "..analysis.escape_time",
    "minima": "..analysis.minima",
    "stationary_points": "..analysis.stationary",
}  # the other names are modules


def __getattr__(name: str) -> Any:
    if name in _FUNCTION_MODULES:
        return getattr(import_module(_FUNCTION_MODULES[name], __name__), name)
    if name in __all__:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}.")
