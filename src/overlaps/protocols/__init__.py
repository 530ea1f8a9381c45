"""Optimal schedules of the learning rate: exact gradients of an error by the schedule, and a search along them.

``_adjoint`` integrates the flow on a fixed grid and the discrete adjoint of the same steps backwards, ``control``
applies it to a model, a start and knots, ``optimal`` searches, ``shares`` does the same for the shares of mixed tasks.
The class ``Schedule`` is in ``models``.
"""

from .control import schedule_gradient
from .optimal import OptimalSchedule, greedy_schedule, optimal_schedule
from .shares import OptimalShares

__all__ = ["OptimalSchedule", "OptimalShares", "greedy_schedule", "optimal_schedule", "schedule_gradient"]
