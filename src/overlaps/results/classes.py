"""Classes of results that other packages define, by name; results are made by functions, never by users."""

from typing import Any

from .._base import Immutable
from ..stability import CriticalEta

ELSEWHERE = (
    "Closure", "CovariatesEnsemble", "CriticalEta", "EscapeLaw", "FixedPoint", "Fluctuations", "HessianSpectrum",
    "Linearisation", "ManifoldEnsemble", "OptimalSchedule", "Plateau", "StationaryPoint", "Sweep",
)  # fmt: skip


def of_other_packages(name: str) -> Any:
    """``__getattr__`` of the package: the class of this name, for ``isinstance`` and annotations."""
    if name == "CriticalEta":  # a float
        return CriticalEta
    if name in ELSEWHERE:
        return Immutable.kinds[name]
    raise AttributeError(f"module 'overlaps.results' has no attribute {name!r}; dir(overlaps.results) shows all.")
