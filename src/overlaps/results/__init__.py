"""Results of solutions and simulated runs, with files, labelled arrays and figures; ``ov.results`` has their classes.

``curves`` contains the common base classes. ``files``, ``labelled`` and ``plotting`` do not depend on the classes of
results; they use their attributes. Only ``plotting`` imports matplotlib, at the first figure.
"""

from .._base import public_dir
from .batch import Batch
from .classes import ELSEWHERE, of_other_packages
from .composite import (
    LowRankEnsemble,
    LowRankTrajectory,
    MixedEnsemble,
    MixedTrajectory,
    StagedEnsemble,
    StagedTrajectory,
)
from .discrepancy import Discrepancy
from .ensemble import Ensemble
from .trajectory import SummedTrajectory, Trajectory

__all__ = [
    "Batch", "Discrepancy", "Ensemble", "LowRankEnsemble", "LowRankTrajectory", "MixedEnsemble", "MixedTrajectory",
    "StagedEnsemble", "StagedTrajectory", "SummedTrajectory", "Trajectory", *ELSEWHERE,
]  # fmt: skip
__dir__ = public_dir(__name__)
__getattr__ = of_other_packages
