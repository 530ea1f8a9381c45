"""Exponents of measured curves, with an error and the window in which they hold."""

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ..._base import ArrayLike, check


class FitOptions(NamedTuple):
    """Tunable numbers of the search for a window."""

    points_per_decade: int = 16  # Points of the grid on which windows begin and end.
    min_points: int = 8  # Fewest points of a curve.
    min_window_points: int = 5  # Fewest points of the curve in a window; three always lie on a parabola.
    min_slope: float = 1e-10  # Least slope to which a drift is relative; smaller slopes are rounding.


FIT = FitOptions()


class Fit(NamedTuple):
    """A power law amplitude * alpha^-exponent of a curve in a window; made by :func:`fit`.

    Attributes
    ----------
    exponent : float
        Positive where the curve falls.
    error : float
        Error of the exponent: its drift across the window and the standard error of the slope, added in quadrature.
    window : tuple of float
        First and last alpha.
    clean : bool
        Whether the drift is a small fraction of the exponent. If not, no power law was found: the other fields
        describe the straightest window of the curve.
    amplitude : float
        Value of the straight line at alpha = 1.
    """

    exponent: float
    error: float
    window: tuple[float, float]
    clean: bool
    amplitude: float


def fit(alpha: ArrayLike, eps: ArrayLike, *, decades: float = 1.0, drift: float = 0.05) -> Fit:
    r"""Power-law exponent of any curve, with its error and the window in which it holds.

    .. math:: \ln\epsilon \simeq \ln A - \nu \ln\alpha

    All windows of at least ``decades`` are tried on a grid of 16 points per decade. The *drift* of a window is the
    change of slope across it, of a parabola and among its thirds, whichever is larger. The result is a straight
    line through the points of the curve in the longest window whose drift is at most ``drift`` times its slope, or else
    in the window of least relative drift.

    *Heuristic*. The error includes the drift of the slope; for noisy points the drift is partly noise, and the error
    too large. The statistical error assumes independent points. Windows hold at least five points of the curve. A
    trajectory is ``fit(traj.alpha[1:], traj.eps_g[1:])``, a simulation ``fit(runs.alpha[1:], runs.mean("eps_g")[1:])``.

    Parameters
    ----------
    alpha : array_like, shape (n,)
        Increasing times > 0: learning times, steps, samples, tokens, parameters, or compute; n >= 8.
    eps : array_like, shape (n,)
        Errors > 0, in any units. A known floor has to be subtracted before (``law.error(inf)``).
    decades : float
        Least length of a window.
    drift : float
        Largest change of slope across a clean window, relative to the slope.

    Raises
    ------
    ValueError
        Fewer than 8 points; times that do not increase or are not positive; errors that are not positive and finite;
        less than ``decades`` of data.

    Examples
    --------
    The log of a training run, two columns of a text file:

    >>> import io, numpy as np, overlaps as ov
    >>> steps = np.geomspace(10, 1e5, 200)
    >>> loss = 3 * steps**-0.7 * np.exp(0.05 * np.random.default_rng(1).standard_normal(200))
    >>> log = io.StringIO()  # any path
    >>> np.savetxt(log, np.transpose([steps, loss]), header="step loss")
    >>> _ = log.seek(0)
    >>> steps, loss = np.loadtxt(log, unpack=True)
    >>> found = ov.theory.scaling.fit(steps, loss)
    >>> found.clean, round(found.exponent, 2), round(found.error, 3)
    (True, 0.7, 0.012)
    """
    alpha, eps = check.array("alpha", alpha, ("n",)), check.array("eps", eps, ("n",))
    decades, drift = check.number("decades", decades, above=0), check.number("drift", drift, above=0)
    if alpha.size < FIT.min_points or eps.size != alpha.size:
        raise ValueError(
            f"alpha has {alpha.size} points and eps {eps.size}; expected as many of both, at least {FIT.min_points}."
        )
    if not (alpha[0] > 0 and np.all(np.diff(alpha) > 0)):
        raise ValueError("alpha does not increase from a number > 0. Leave out the start: alpha[1:], eps[1:].")
    if eps.min() <= 0:
        raise ValueError(f"eps = {eps.min():.6g} at the lowest; expected errors > 0, whose logarithm is fitted.")
    x, y = np.log(alpha), np.log(eps)
    step = np.log(10) / FIT.points_per_decade
    grid = x[0] + step * np.arange(int((x[-1] - x[0]) / step + 1e-9) + 1)
    least = int(np.ceil(decades * FIT.points_per_decade - 1e-9))
    if grid.size <= least:
        raise ValueError(
            f"alpha spans {(x[-1] - x[0]) / np.log(10):.3g} decades; expected at least decades = {decades:g}."
        )
    window, change, clean = _straightest(grid, np.interp(grid, x, y), x, least, drift)
    inside = (x >= window[0] - 1e-9) & (x <= window[1] + 1e-9)
    (slope, intercept), covariance = np.polyfit(x[inside], y[inside], 1, cov=True)
    error, amplitude = np.hypot(change, np.sqrt(covariance[0, 0])), np.exp(intercept)
    return Fit(float(-slope), float(error), tuple(np.exp(window).tolist()), clean, float(amplitude))


def _straightest(grid, y, x, least, drift):
    """(ends, drift, whether it is small) of the longest window with small drift, or of the one with least drift."""
    step = grid[1] - grid[0]
    before, upto = np.searchsorted(x, grid - 1e-9), np.searchsorted(x, grid + 1e-9)  # points of the curve
    best, ends, moved = np.inf, (grid[0], grid[-1]), np.inf
    for length in range(grid.size - 1, least - 1, -1):
        slope, change = _bend(sliding_window_view(y, length + 1), step)
        relative = change / np.maximum(np.abs(slope), FIT.min_slope)
        relative[upto[length:] - before[: grid.size - length] < FIT.min_window_points] = np.inf
        i = int(np.argmin(relative))
        if relative[i] < best:
            best, ends, moved = relative[i], (grid[i], grid[i + length]), float(change[i])
        if best <= drift:
            break
    return ends, moved, bool(best <= drift)


def _bend(pieces, step):
    """Slope and its change across each window of ``pieces`` (n, points): of a parabola, and among the three thirds.

    The thirds detect curves that bend in the same way at both ends, whose parabola is straight.
    """
    n = pieces.shape[1]
    x = step * (np.arange(n) - (n - 1) / 2)
    _, slope, curvature = np.linalg.pinv(np.vander(x, 3, increasing=True)) @ pieces.T
    third = n // 3
    centred = x[:third] - x[:third].mean()
    slopes = [pieces[:, i : i + third] @ centred / (centred @ centred) for i in (0, (n - third) // 2, n - third)]
    return slope, np.maximum(np.abs(2 * curvature * np.ptp(x)), 1.5 * np.ptp(slopes, axis=0))
