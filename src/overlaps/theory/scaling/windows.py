"""Exponents of measured curves, with an error and the window in which they hold."""

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ..._base import ArrayLike, check

PER_DECADE = 16
POINTS = 8
INSIDE = 5  # points of the curve in a window: a parabola through three says nothing
FLAT = 1e-10  # smaller slopes are rounding: a drift is taken relative to no less


class Fit(NamedTuple):
    """A power law amplitude * alpha^-exponent of a curve in a window; made by :func:`fit`.

    Attributes
    ----------
    exponent : float
        Positive where the curve falls.
    error : float
        Of the exponent: its drift across the window and the standard error of the slope, added in quadrature.
    window : tuple of float
        First and last alpha.
    clean : bool
        Whether the drift is a small share of the exponent. Where it is not, no power law was found: the numbers
        describe the straightest piece of the curve.
    amplitude : float
        Error at alpha = 1 of the straight line.
    """

    exponent: float
    error: float
    window: tuple[float, float]
    clean: bool
    amplitude: float


def fit(alpha: ArrayLike, eps: ArrayLike, *, decades: float = 1.0, drift: float = 0.05) -> Fit:
    r"""Power-law exponent of any curve, with an honest error and the window to which it belongs.

    .. math:: \ln\epsilon \simeq \ln A - \nu \ln\alpha

    All windows of at least ``decades`` are tried on a grid of 16 points per decade. The *drift* of a window is the
    change of slope across it, of a parabola and among its thirds, whichever is larger. The longest window whose drift
    is at most ``drift`` times its slope is taken, else the one of least relative drift; there a straight line through
    the points of the curve is the answer.

    *Heuristic*. The error contains what a straight line hides, a slope that is still changing; for noisy points that
    change is partly noise, and the error cautious. The statistical part takes the points for independent. Windows hold
    at least five points of the curve. A trajectory is ``fit(traj.alpha[1:], traj.eps_g[1:])``, a simulation
    ``fit(runs.alpha[1:], runs.mean("eps_g")[1:])``.

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
    if alpha.size < POINTS or eps.size != alpha.size:
        raise ValueError(
            f"alpha has {alpha.size} points and eps {eps.size}; expected as many of both, at least {POINTS}."
        )
    if not (alpha[0] > 0 and np.all(np.diff(alpha) > 0)):
        raise ValueError("alpha does not increase from a number > 0. Leave out the start: alpha[1:], eps[1:].")
    if eps.min() <= 0:
        raise ValueError(f"eps = {eps.min():.6g} at the lowest; expected errors > 0, whose logarithm is fitted.")
    x, y = np.log(alpha), np.log(eps)
    step = np.log(10) / PER_DECADE
    grid = x[0] + step * np.arange(int((x[-1] - x[0]) / step + 1e-9) + 1)
    least = int(np.ceil(decades * PER_DECADE - 1e-9))
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
    """(ends, drift, whether it is small) of the longest window with small drift, or of that with the least."""
    step = grid[1] - grid[0]
    before, upto = np.searchsorted(x, grid - 1e-9), np.searchsorted(x, grid + 1e-9)  # points of the curve
    best, ends, moved = np.inf, (grid[0], grid[-1]), np.inf
    for length in range(grid.size - 1, least - 1, -1):
        slope, change = _bend(sliding_window_view(y, length + 1), step)
        relative = change / np.maximum(np.abs(slope), FLAT)
        relative[upto[length:] - before[: grid.size - length] < INSIDE] = np.inf
        i = int(np.argmin(relative))
        if relative[i] < best:
            best, ends, moved = relative[i], (grid[i], grid[i + length]), float(change[i])
        if best <= drift:
            break
    return ends, moved, bool(best <= drift)


def _bend(pieces, step):
    """Slope and its change across each of some windows (n, points): of a parabola, and among the three thirds.

    A curve that bends alike at both ends has a straight parabola.
    """
    n = pieces.shape[1]
    place = step * (np.arange(n) - (n - 1) / 2)
    _, slope, curvature = np.linalg.pinv(np.vander(place, 3, increasing=True)) @ pieces.T
    third = n // 3
    near = place[:third] - place[:third].mean()
    slopes = [pieces[:, i : i + third] @ near / (near @ near) for i in (0, (n - third) // 2, n - third)]
    return slope, np.maximum(np.abs(2 * curvature * np.ptp(place)), 1.5 * np.ptp(slopes, axis=0))
