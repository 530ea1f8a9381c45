"""Bounds on the test error of spiked random features, whatever the number of samples."""

import math
from typing import Any, NamedTuple

import numpy as np

from ..._base import ArrayLike, Function, check, minimum
from ...activations.activation import Activation
from .conditional import conditional
from .one_step import student_moments, target_moments
from .ridge import Features, explained, strong_ridge

__all__ = ["Bounds", "RateBounds", "bounds", "bounds_over_rate"]


class SpikeScanOptions(NamedTuple):
    """Spikes r at which the bounds are evaluated before their minima are refined."""

    # First grid, evenly spaced in log r. With half as many points a second minimum may be missed.
    points: int = 48
    first_min: float = 0.05
    first_max: float = 8.0
    # While a minimum is at an end of the grid, this many spikes are added there, until it extends beyond these limits.
    added_points: int = 8
    min_spike: float = 1e-3
    max_spike: float = 30.0


class Bounds(NamedTuple):
    """Test errors: with infinitely strong ridge, of the best function of the whole basis, of the best linear one."""

    upper: float
    lower: float
    linear: float


class RateBounds(NamedTuple):
    """Smallest bounds over the learning rate, with their spikes r and tau = ``r / (h1 |h1*|)``.

    ``message``: whether both are minima, or which bound still falls at the smallest or largest spike of the scan.
    """

    upper: float
    lower: float
    r_upper: float
    r_lower: float
    tau_upper: float
    tau_lower: float
    message: str = "both are minima"


def bounds(model: Any, d: float = math.inf) -> Bounds:
    r"""Bounds on the test error of spiked random features at their spike, for any number of samples.

    .. math::
        U &= E[hh] - \frac{E[h\mu_0]^2}{E[\mu_0^2]}, \\
        L &= E[hh] - v^\top G^{-1} v - \frac{E[\mu_1 h_1]^2}{E[\mu_1^2]}, \qquad
        G = {\rm Gram}(\mu_0, k\mu_1),\ v = (E[h \mu_0], E[h k \mu_1])

    U is the error of the ridge as lam -> infinity, hence an upper bound on the error at the best lam. L is the error of
    the best function in the span of mu0(k), k mu1(k) and mu1(k) times the orthogonal direction; it is reached as
    alpha/beta -> infinity, beta -> infinity. Several blocks of neurons span more functions.

    At finite d the fluctuations of the p = beta d neurons given k do not average out. They cost a readout of mean
    :math:`m_b` on block b the error :math:`m_b^2 E[c_b \mu_{1,b}^2 + \mu_{2,b}^2] / (\rho_b p)` if it is constant
    there, and never less than :math:`m_b^2 E[\mu_{2,b}^2] / (\rho_b p)`. U and L are least squares with these costs.

    *Asymptotic*, d -> infinity: exact there, for any width. At finite d, L bounds the error of
    :meth:`SpikedRandomFeatures.solve` for any alpha and lam at this d and beta, and U is the error of the best readout
    that is constant on each block, nearly reached by a ridge 1 << lam << n. *Heuristic*, like that error. Both bounds
    vanish, and learning can be perfect, if gamma = 1 and mu0(k) is proportional to the target: sigma = erf(x/sqrt 2)
    learns erf(w x/sqrt 2) at r = w sqrt(1 + c). Source: Cui et al. (2024), arXiv:2402.04980, (26) and (27) for gamma =
    1; gamma < 1 is derived here.

    Parameters
    ----------
    model : SpikedRandomFeatures
        Label noise adds its variance to all three numbers.
    d : float
        Input dimension; infinite by default.

    Returns
    -------
    Bounds

    Raises
    ------
    ValueError
        A d at which a block has less than one neuron.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> model = ov.static.SpikedRandomFeatures(np.tanh, np.sin, r=1.2, gamma=0.9, c=1.1, beta=1.0)
    >>> [round(x, 6) for x in model.bounds()]
    [0.107305, 0.01337, 0.064453]
    """
    table = model.coefficients
    features = Features(table)
    neurons = model.neurons(d)
    least = features.S[features.packing.pairs :] @ table.weight / neurons
    linear = model.variances * (features.mu1**2 @ table.weight) / neurons
    upper, lower = basis_bounds(features, model.noise, model.bias, least + linear, least)
    return Bounds(upper, lower, linear_error(table, model.noise, model.bias))


def basis_bounds(features, noise, bias=False, cost=0.0, least=0.0):
    """U with the costs ``cost`` of the mu0, and L with the costs ``least``."""
    root = np.sqrt(features.weight)
    basis = np.concatenate([features.means(bias), features.u])
    rest = float(features.weight @ features.hh) + noise**2
    charged = np.append(features.charged(least, bias), np.zeros(len(features.u)))
    rest -= explained((basis * root).T, features.h * root, charged)
    rest -= sum(explained((features.mu1 * root).T, h1 * root) for h1 in features.h1)
    return strong_ridge(features, noise, bias, cost), max(rest, 0.0)


def linear_error(table, noise, bias=False):
    """Error of the best linear predictor, E[sigma_*^2] - |E[z sigma_*]|^2; with a bias the mean is subtracted, too."""
    slopes = np.concatenate([np.atleast_2d(table.k.T * table.h), np.atleast_2d(table.h1)]) @ table.weight
    mean = table.weight @ table.h if bias else 0.0
    return float(table.weight @ table.hh - mean**2 - slopes @ slopes) + noise**2


def bounds_over_rate(
    student: Activation | Function,
    target: Activation | Function,
    *,
    noise: float = 0.0,
    breakpoints: ArrayLike = (),
    student_breakpoints: ArrayLike = (),
) -> "RateBounds":
    r"""Smallest bounds over the learning rate of one step on infinitely many samples.

    .. math:: \min_r U(r), \quad \min_r L(r) \qquad \mbox{at } \gamma = c = 1, \quad r = \tau\, h_1 |h_1^*|

    *Asymptotic*, d -> infinity, n0/d -> infinity. Minima over r to 1e-6 relative: spikes from 0.05 to 8 are scanned,
    and more, down to about 0.001 and up to about 40, until the minimum is inside. There is no minimum for a target that
    jumps with a saturating student, because larger spikes are always better, nor for a linear target, because smaller
    ones are; ``message`` reports this. Source: Cui et al. (2024), arXiv:2402.04980, (28).

    Parameters
    ----------
    student, target : Activation or callable
        sigma, odd, and sigma_star, of zero mean.
    noise : float
        Standard deviation of the label noise.
    breakpoints, student_breakpoints : sequence of float
        Jumps and kinks, as in :class:`SpikedRandomFeatures`.

    Raises
    ------
    ValueError
        A target without linear part, whose direction one step does not learn.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> best = ov.static.bounds_over_rate(np.tanh, np.sin)
    >>> round(best.upper, 6), round(best.r_upper, 2), round(best.r_lower, 2)
    (0.008401, 1.97, 0.59)
    """
    noise = check.number("noise", noise, least=0, hint="noise is a standard deviation.")
    h1 = student_moments(student, student_breakpoints)[0]
    h1_star, second = target_moments(target, breakpoints)
    if abs(h1_star) <= 1e-12 * math.sqrt(second):
        raise ValueError(
            f"target = {check.shown(target)} has no linear part, E[z sigma_*(z)] = {h1_star:.2g}: one step learns "
            "nothing; expected a target such as np.sin or np.sign."
        )

    def bounds_at(r):
        table = conditional(student, target, r, 1.0, 1.0, breakpoints, student_breakpoints)
        return basis_bounds(Features(table), noise)

    grid, values = _scanned(bounds_at)
    minima = (minimum(lambda r, i=i: bounds_at(r)[i], grid, values[:, i], rtol=1e-6) for i in (0, 1))
    (r_upper, upper, _), (r_lower, lower, _) = minima
    ends = [f"the {name} bound still falls at r = {grid[i]:.3g}, the {text} spike of the scan"
            for name, i in zip(("upper", "lower"), np.argmin(values, axis=0), strict=True)
            for end, text in ((0, "smallest"), (len(grid) - 1, "largest")) if i == end]  # fmt: skip
    rate = h1 * abs(h1_star)
    message = "; ".join(ends) or "both are minima"
    return RateBounds(upper, lower, r_upper, r_lower, r_upper / rate, r_lower / rate, message)


def _scanned(bounds_at):
    """Spikes and both bounds there; the grid is extended until it contains both minima or reaches its limits."""
    scan = SpikeScanOptions()
    computed = {r: bounds_at(r) for r in np.geomspace(scan.first_min, scan.first_max, scan.points)}
    while True:
        grid = np.sort([*computed])
        values = np.array([computed[r] for r in grid])
        lowest, factors = np.argmin(values, axis=0), (grid[1] / grid[0]) ** np.arange(1, scan.added_points + 1)
        if 0 in lowest and grid[0] > scan.min_spike:
            added = grid[0] / factors
        elif len(grid) - 1 in lowest and grid[-1] < scan.max_spike:
            added = grid[-1] * factors
        else:
            return grid, values
        computed |= {r: bounds_at(r) for r in added}
