r"""Plateaus by name: slow passages of a curve near a saddle of the flow, with its height and its growing modes.

Along a curve :math:`|d\ln\epsilon_g/d\ln\alpha|` has a minimum wherever the curve waits.  Not every wait is a plateau:
the inflection of the first descent and the slow end of learning have minima, too.  A passage is named if Newton's
method finds a saddle there, from the record or from its averages over groups of students, that has its height and
growing modes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from .._base import Floats, Immutable, quietly
from ..flow.closure import generalisation_error
from ..models import Model, State
from .fixed_points import fixed_point
from .linear import growing_rates
from .symmetry import averaged, in_words, partitions

SLOW = 0.5  # |d ln eps_g / d ln alpha| below which a curve may be waiting; above, it follows at least a square root
NEAR = 0.2  # eps_g, relative to the saddle's, up to which a record is on the plateau; further away it passes by
CLEAR = 10  # eps_floor from which eps_g is a curve; below, every wiggle of rounding is a minimum
GROWING = 1e-9  # rate, relative to the largest modulus, above which a mode grows; below, it is rounding of a flat one
ALIKE = 0.1  # difference of distances, relative, below which the more symmetric saddle is named; above, the nearer one
SAME = 1e-6  # relative difference of eps_g below which two saddles are one


@dataclass(frozen=True, eq=False, repr=False)
class Plateau(Immutable):
    """Where a curve waits near a saddle of the flow; made by ``traj.plateaus()`` and :func:`overlaps.plateau`.

    Attributes
    ----------
    alpha : tuple of float
        Begin and end: times between which eps_g is near the height, up to a fifth; nan without a trajectory.
    height : float
        eps_g of the saddle.
    state : State
        The saddle itself, a fixed point of the flow.
    rates : ndarray, shape (n,)
        Growing rates of its modes per unit alpha, largest first (real parts); one nan where kinked units are aligned
        and the flow has no derivatives.
    """

    alpha: tuple
    height: float
    state: State
    rates: Floats

    @property
    def growing(self) -> int:
        """Number of growing modes; -1 where they are not known."""
        return -1 if np.isnan(self.rates).any() else self.rates.size

    @property
    def escape(self) -> float:
        """Time in which the fastest mode grows by a factor e; nan where it is not known."""
        return float(1 / self.rates[0])

    def __repr__(self):
        when = "" if np.isnan(self.alpha[0]) else f" from alpha = {self.alpha[0]:.4g} to {self.alpha[1]:.4g}"
        counted = f"{self.growing} growing mode{'s' * (self.growing != 1)}"
        modes = "aligned units: rates unknown" if self.growing < 0 else counted
        rate = "" if self.growing < 0 else f", the fastest at rate {self.rates[0]:.4g}"
        return f"plateau at eps_g = {self.height:.6g}{when}: {in_words(self.state)}; {modes}{rate}"


def saddle(model: Model, state: State, lowest: float, highest: float) -> "Plateau | None":
    """The saddle with growing modes nearest to a record, at a height that the curve has nearby; None without one.

    Newton's method from the record alone fails or finds another saddle where several modes grow; from averages over
    groups of students it converges.  An attractor nearer to the record says that the curve ends here and does not wait.
    Where the noise of SGD lets differences of students grow slowly, saddles of lower symmetry lie beside the symmetric
    one, as far from the curve.
    """
    candidates, given = [], model.field_covariance(state)
    for guess in [*(averaged(model, state, groups) for groups in partitions(state)), state]:
        with quietly():  # no convergence is an answer here
            try:
                point = fixed_point(model, guess)
            except ValueError:  # a closure without derivatives at this guess: aligned kinked units
                continue
        if point.converged:
            fields = model.field_covariance(point.state)
            height = float(generalisation_error(model, fields[None], point.state.v[None])[0])
            if lowest - NEAR * height <= height <= highest + NEAR * height:
                distance = np.linalg.norm(fields - given) + np.linalg.norm(point.state.v - state.v)
                candidates.append((distance, height, point.state))
    if not candidates:
        return None
    nearest = min(distance for distance, _, _ in candidates)
    _, height, state_there = next(x for x in candidates if x[0] <= (1 + ALIKE) * nearest)
    rates = growing_rates(model, state_there, GROWING)
    return Plateau((np.nan, np.nan), height, state_there, rates) if rates.size else None


def find(
    model: Model, alpha: Floats, eps_g: Floats, floor: Floats, state_at: Callable[[int], State]
) -> "list[Plateau]":
    """Plateaus of a curve eps_g (n,) above its ``floor`` (n,) at times alpha (n,); ``state_at(i)`` is record i."""
    # the logarithm of the time since the start: the start itself has none
    late = np.flatnonzero(alpha > alpha[0])
    since, alpha, eps_g, floor = alpha[late] - alpha[0], alpha[late], eps_g[late], floor[late]
    if alpha.size < 3:
        return []
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.abs(np.gradient(np.log(eps_g), np.log(since)))
    # rounding wiggles: what is not clearly above it counts as falling steeply
    slope[~(eps_g > CLEAR * floor)] = np.inf
    inner = slope[1:-1]
    slow = np.flatnonzero((inner < SLOW) & (inner <= slope[:-2]) & (inner < slope[2:])) + 1
    if not slow.size:
        return []
    # a passage ends where the curve is steepest on its way to the next one
    steepest = [int(i + np.argmax(slope[i:j])) for i, j in pairwise(slow)]
    passages: list[Plateau | None] = []
    starts: list[int] = []
    plateaus = []
    stretch = np.cumsum(slope >= SLOW)  # a number for each time that the curve slows down
    for i, low, high in zip(slow, [0, *steepest], [*steepest, alpha.size - 1], strict=True):
        # slowest in its first descent, a curve may reach the saddle later, as slow as one that waits
        waits = eps_g[low : high + 1][(stretch == stretch[i])[low : high + 1]]
        passage = saddle(model, state_at(int(late[i])), waits.min(), waits.max())
        if not passages or not _same_saddle(passage, passages[-1]):
            starts.append(low)
            passages.append(passage)
    for plateau, low, high in zip(passages, starts, [*starts, alpha.size - 1][1:], strict=True):
        if plateau is None:
            continue
        near = np.flatnonzero(np.abs(eps_g[low : high + 1] - plateau.height) <= NEAR * plateau.height) + low
        begin, end = float(alpha[near[0]]), float(alpha[near[-1]])
        if plateau.growing < 0 or (end - begin) * plateau.rates[0] >= 1:  # shorter than a growth time it passes by
            plateaus.append(replace(plateau, alpha=(begin, end)))
    return plateaus


def _same_saddle(a, b):
    """Whether two passages wait at the same saddle, or neither at one."""
    if a is None or b is None:
        return a is b
    return a.growing == b.growing and abs(a.height - b.height) <= SAME * a.height
