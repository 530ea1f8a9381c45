"""Results of solutions and simulated runs, with files, labelled arrays and figures.

``curves`` contains the common base classes. ``files``, ``labelled`` and ``plotting`` do not depend on the classes of
results; they use their attributes. Only ``plotting`` imports matplotlib, at the first figure.
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
