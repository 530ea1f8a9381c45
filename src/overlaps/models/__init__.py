"""The learning problem: inputs (``spectrum``), order parameters (``state``), their initial law (``start``), the model.

A new data model needs only a ``Spectrum`` and a start. ``schedule`` contains factors on the numbers of a model that
change during learning, ``_schedule`` the same for compiled code. ``stages`` is a sequence of models, ``mixed`` a
mixture of models in each step. ``features`` is the table of features and functions that do not support them.
"""

from ._schedule import factors, reached
from .frozen import LowRank, previous_student
from .mixed import Mixed
from .model import Model, committee_machine, quadratic_network
from .schedule import Schedule, ScheduleEvaluator
from .spectrum import Spectrum, isotropic, power_law
from .stages import Stages
from .state import State

__all__ = [
    "LowRank", "Mixed", "Model", "ScheduleEvaluator", "Schedule", "Spectrum", "Stages", "State", "committee_machine",
    "factors",
    "isotropic", "power_law", "previous_student", "quadratic_network", "reached",
]  # fmt: skip
