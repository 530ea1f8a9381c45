"""Which change of the learning rate is best: exact gradients of an error by the schedule, and a search along them.

``_adjoint`` integrates the flow on a fixed grid and the discrete adjoint of the same steps backwards; ``control`` binds
it to a model, a start and knots; ``optimal`` searches, ``shares``
does both for shares of mixed tasks. Schedules themselves live with the models.
"""

from .control import schedule_gradient
from .optimal import OptimalSchedule, greedy_schedule, optimal_schedule
from .shares import OptimalShares

__all__ = ["OptimalSchedule", "OptimalShares", "greedy_schedule", "optimal_schedule", "schedule_gradient"]
