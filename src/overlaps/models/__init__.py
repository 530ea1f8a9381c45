"""The setting: inputs (``spectrum``), order parameters (``state``), their law at the start (``start``), and the model.

A new data model is a new ``Spectrum`` and a start, and nothing else. ``schedule`` says what changes while students
learn: factors on the numbers of a model, in ``_schedule`` for compiled code; ``stages`` puts models in an order,
``mixed`` in one step.
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
