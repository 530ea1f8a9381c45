"""Results: records of solutions and runs, with files, labels and pictures.

``curves`` holds what all have in common. ``files``, ``labelled`` and ``plotting`` know no class of records: they ask
the record. matplotlib is imported by ``plotting`` only, at the first picture.
"""

from .batch import Batch
from .composite import MixedEnsemble, MixedTrajectory, StagedEnsemble, StagedTrajectory
from .discrepancy import Discrepancy, tlog_rmse
from .ensemble import Ensemble
from .files import load
from .trajectory import SummedTrajectory, Trajectory

__all__ = [
    "Batch", "Discrepancy", "Ensemble", "MixedEnsemble", "MixedTrajectory", "StagedEnsemble", "StagedTrajectory",
    "SummedTrajectory", "Trajectory", "load", "tlog_rmse",
]  # fmt: skip
