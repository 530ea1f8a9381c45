r"""Plateaus: slow passages of a curve near a saddle of the flow, with its height and its growing modes.

Along a curve :math:`|d\ln\epsilon_g/d\ln\alpha|` has a minimum wherever the curve is slow.  Not every minimum is a
plateau: the inflection of the first descent and the slow end of learning have minima, too.  A passage is a plateau if
Newton's method finds a saddle of the same height with growing modes, from the record or from its averages over groups
of students.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .._base import Floats, Immutable, quietly
from ..flow.closure import generalisation_error
from ..models import Model, State
from .fixed_points import fixed_point
from .linear import growing_rates
from .symmetry import averaged, in_words, partitions


class PlateauCriteria(NamedTuple):
    """Tunable numbers of the definition of a plateau."""

    # |d ln eps_g / d ln alpha| below which a curve may be on a plateau. Doubled: slopes up to that of 1/alpha count.
    max_slope: float = 0.5
    height_tol: float = 0.2  # Relative distance of eps_g from the saddle's up to which a record is on the plateau.
    # Slopes are read where eps_g exceeds eps_floor by this factor. Smaller: minima of rounding are searched, too.
    min_floor_ratio: float = 10
    growth_tol: float = 1e-9  # Rate, relative to the largest modulus, above which a mode grows; below, it is rounding.
    tie_tol: float = 0.1  # Relative difference of distances up to which the more symmetric saddle precedes the nearer.
    same_height_tol: float = 1e-6  # Relative difference of eps_g below which two saddles are one.


CRITERIA = PlateauCriteria()


class Plateau(Immutable):
    """A slow passage of a curve near a saddle of the flow; made by ``traj.plateaus()`` and :func:`overlaps.plateau`.

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
    """The saddle with growing modes nearest to a record, at a height between ``lowest`` and ``highest``; or None.

    Where several modes grow, Newton's method from the record alone fails or finds another saddle; from averages over
    groups of students it converges.  If an attractor is nearer to the record, the curve ends there: None.  Where the
    noise of SGD lets differences of students grow slowly, saddles of lower symmetry are as close to the curve as the
    symmetric one.
    """
    candidates, given = [], model.field_covariance(state)
    for guess in [*(averaged(model, state, groups) for groups in partitions(state)), state]:
        with quietly():  # guesses that do not converge are skipped
            try:
                point = fixed_point(model, guess)
            except ValueError:  # a closure without derivatives at this guess: aligned kinked units
                continue
        if point.converged:
            fields = model.field_covariance(point.state)
            height = float(generalisation_error(model, fields[None], point.state.v[None])[0])
            if lowest - CRITERIA.height_tol * height <= height <= highest + CRITERIA.height_tol * height:
                distance = np.linalg.norm(fields - given) + np.linalg.norm(point.state.v - state.v)
                candidates.append((distance, height, point.state))
    if not candidates:
        return None
    nearest = min(distance for distance, _, _ in candidates)
    _, height, state_there = next(x for x in candidates if x[0] <= (1 + CRITERIA.tie_tol) * nearest)
    rates = growing_rates(model, state_there, CRITERIA.growth_tol)
    return Plateau((np.nan, np.nan), height, state_there, rates) if rates.size else None


def find(
    model: Model, alpha: Floats, eps_g: Floats, floor: Floats, state_at: Callable[[int], State]
) -> "list[Plateau]":
    """Plateaus of a curve eps_g (n,) above its ``floor`` (n,) at times alpha (n,); ``state_at(i)`` is record i."""
    # without the start, where the logarithm of the time since the start is infinite
    late = np.flatnonzero(alpha > alpha[0])
    since, alpha, eps_g, floor = alpha[late] - alpha[0], alpha[late], eps_g[late], floor[late]
    if alpha.size < 3:
        return []
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.abs(np.gradient(np.log(eps_g), np.log(since)))
    # records near rounding count as steep, because rounding has minima of its own
    slope[~(eps_g > CRITERIA.min_floor_ratio * floor)] = np.inf
    inner = slope[1:-1]
    slow = np.flatnonzero((inner < CRITERIA.max_slope) & (inner <= slope[:-2]) & (inner < slope[2:])) + 1
    if not slow.size:
        return []
    # a passage ends where the curve is steepest before the next one
    steepest = [int(i + np.argmax(slope[i:j])) for i, j in pairwise(slow)]
    passages: list[Plateau | None] = []
    starts: list[int] = []
    plateaus = []
    stretch = np.cumsum(slope >= CRITERIA.max_slope)  # constant on each slow stretch of the curve
    for i, low, high in zip(slow, [0, *steepest], [*steepest, alpha.size - 1], strict=True):
        # the whole slow stretch, because the curve may be slowest in its descent and reach the saddle later
        heights = eps_g[low : high + 1][(stretch == stretch[i])[low : high + 1]]
        passage = saddle(model, state_at(int(late[i])), heights.min(), heights.max())
        if not passages or not _same_saddle(passage, passages[-1]):
            starts.append(low)
            passages.append(passage)
    for plateau, low, high in zip(passages, starts, [*starts, alpha.size - 1][1:], strict=True):
        if plateau is None:
            continue
        distance = np.abs(eps_g[low : high + 1] - plateau.height)
        on_plateau = np.flatnonzero(distance <= CRITERIA.height_tol * plateau.height) + low
        begin, end = float(alpha[on_plateau[0]]), float(alpha[on_plateau[-1]])
        if plateau.growing < 0 or (end - begin) * plateau.rates[0] >= 1:  # at least one growth time long
            plateaus.append(replace(plateau, alpha=(begin, end)))
    return plateaus


def _same_saddle(a, b):
    """Whether two passages are at the same saddle, or both at none."""
    if a is None or b is None:
        return a is b
    return a.growing == b.growing and abs(a.height - b.height) <= CRITERIA.same_height_tol * a.height
