"""Readouts of a model: at one point, along a curve, at the best penalty or bias, on grids refined to convergence."""

import math
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np

from ..._base import ArrayLike, check, minimum
from . import ridge
from .losses import LossName
from .model import Spiked
from .solutions import LearnedOffset, OptimalLam, SpikedCurve, SpikedSolution


class SolvingOptions(NamedTuple):
    """Tunable numbers of readouts of a model."""

    # Number of grids over k, each about twice as fine as the one before.
    max_levels: int = 9
    # Change of V1, V2 on the next finer grid above which that grid is used.
    resolution_tol: float = 1e-10
    # log10 of lam over the bulk's variance, scanned for the optimum in steps of one.
    min_log10_lam: float = -9.0
    max_log10_lam: float = 9.0
    # Default scan of biases: half width and number of points.
    max_offset: float = 4.0
    offset_points: int = 41


SOLVING = SolvingOptions()


def resolved(model: Spiked, alpha, lam, d, start=None, iterations=100):
    """The fixed point on a sufficiently fine grid; den(k) = 1/(1 + V(k)) may be far sharper than the tables."""
    kappa, rows, levels = alpha / model.beta, model.response(lam), model._levels
    options = {"lam": lam, "kappa": kappa, "beta": model.beta, "noise": model.noise, "bias": model.bias, "d": d}
    misfit = math.nan
    for n in range(SOLVING.max_levels // model.spikes.shape[1]):
        fit = ridge.fit(levels[n], rows, **options, start=start, iterations=iterations)
        if not fit.converged:
            return fit
        start, misfit = fit.v, ridge.misfit(levels[n + 1], rows, kappa, fit.v)
        if misfit <= SOLVING.resolution_tol:
            return fit
    return ridge.failed(levels[0].packing, misfit, fit.iterations)


def warm_started(model, alpha, lam, d, start):
    """The fixed point from a neighbouring one, or else from the default start, and the start of the next search."""
    fit = resolved(model, alpha, lam, d, start)
    if not fit.converged and start is not None:
        fit = resolved(model, alpha, lam, d)
    return fit, fit.v if fit.converged else None


def order_parameters(model, fit):
    """Order parameters, bias and status of a fit, by name: numbers for one block."""
    packing = model._levels[0].packing
    (V1, V2), (q1, q2) = packing.unpack(fit.v), packing.unpack(fit.q)
    theta, psi = fit.theta, fit.psi
    if np.ndim(model.r) == 2:
        theta, psi = theta.reshape(packing.B, -1), psi.reshape(packing.B, -1)
    order = {"m": fit.m, "theta": theta, "psi": psi, "q1": q1, "q2": q2, "V1": V1, "V2": V2}
    if np.ndim(model.r) == 0:
        order = {name: float(x.item()) for name, x in order.items()}
    status = {"b0": fit.b0, "converged": fit.converged, "residual": fit.residual, "iterations": fit.iterations}
    return order | status


def solution_of(model, alpha, lam, d, fit):
    """The public result of a fit."""
    return SpikedSolution(model, alpha, lam, d, mse=fit.mse, train=fit.train, **order_parameters(model, fit))


def dimension(model, d):
    """The checked input dimension: every block has a neuron."""
    model.neurons(d)
    return float(d)


def positive_alpha(alpha):
    """The checked sample size n/d."""
    return check.number("alpha", alpha, above=0, hint="alpha is the number of readout samples over d, n/d.")


def positive_lam(lam):
    """The checked ridge penalty."""
    return check.number("lam", lam, above=0, hint="lam is the ridge penalty of sum (y - yhat)^2 + lam |a|^2; try 1e-8.")


def learn_offset(
    model: Any, *, alpha: float, lam: float, d: float = math.inf,
    loss: LossName | None = None, offsets: ArrayLike | None = None,
) -> LearnedOffset:  # fmt: skip
    r"""A bias s in every neuron, sigma(w.x + s), trained together with the readout on the same samples.

    .. math:: \min_{s, a}\ \sum_\mu l(y_\mu, \hat y_\mu) + \frac\lambda2 |a|^2 = p\,\min_s e(s), \qquad
              e(s) = \kappa\,\epsilon_{\rm train}(s) + \frac\lambda2\, q_2(s)

    :meth:`SpikedRandomFeatures.solve` gives the readout at each s. Its least objective e(s) does not fluctuate as d ->
    infinity, so that training selects the minimum of e. (For ridge regression the objective is twice this one.)
    *Asymptotic*, like the readouts. The objective need not be convex in s: only the best point of the scan is refined,
    to about 1e-6, and training by gradients may end in another minimum. For an odd student and an odd target s and -s
    are equally good. Cui et al. state that the free energy is stationary in s. With little data the bias that fits the
    training samples best may increase the test error. Source: Cui et al. (2024), arXiv:2402.04980, Appendix C.8:
    (130), (131), and the bound (132).

    Parameters
    ----------
    model : SpikedRandomFeatures
        Its own ``offset`` is added to s.
    alpha, lam, d, loss
        As in :meth:`SpikedRandomFeatures.solve`.
    offsets : array_like, shape (n,), optional
        Biases s of the scan before the best is refined, at least 3; by default 41 from -4 to 4.

    Returns
    -------
    LearnedOffset

    Raises
    ------
    ValueError
        Fewer than 3 biases, or arguments that the model refuses.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> target = lambda x: x + 0.5 * (x**2 - 1)
    >>> model = ov.static.SpikedRandomFeatures(np.tanh, target, r=1.5, gamma=0.9, beta=1.0)
    >>> found = model.learn_offset(alpha=6.0, lam=0.5)
    >>> found.message, bool(found.solution.mse < model.solve(alpha=6.0, lam=0.5).mse)
    ('the least of the objective', True)
    """
    default = np.linspace(-SOLVING.max_offset, SOLVING.max_offset, SOLVING.offset_points)
    shifts = np.unique(default if offsets is None else check.array("offsets", offsets, ("n",)))
    if shifts.size < 3:
        raise check.refused("offsets", offsets, "at least 3 biases.")

    def solution(s):
        shifted = replace(model, offset=np.asarray(model.offset) + s)
        return shifted.solve(alpha=alpha, lam=lam, d=d, loss=loss)

    def objective(readout):
        value = (readout.train if loss is None else readout.train_loss) * alpha / model.beta
        return value + lam * np.sum(readout.q2) / (1 if loss is None else 2)

    readouts = [solution(s) for s in shifts]
    values = np.array([objective(x) for x in readouts])
    bounds = np.array([x.model.bounds(d).lower for x in readouts])
    if not np.any(np.isfinite(values)):
        raise ValueError(f"offsets = {check.shown(offsets)}: no readout converged at any of them; try a larger lam.")

    def bound(s):
        return replace(model, offset=np.asarray(model.offset) + s).bounds(d).lower

    where, _, i = minimum(lambda s: objective(solution(s)), shifts, values, xatol=1e-6, ends=False)
    message = "the least of the objective"
    if not 0 < i < shifts.size - 1:
        message = f"the objective still falls at the {'largest' if i else 'smallest'} bias of the scan"
    lower_at, lower, _ = minimum(bound, shifts, bounds, xatol=1e-6, ends=False)
    best = readouts[i] if where == shifts[i] else solution(where)
    return LearnedOffset(where, objective(best), best, shifts, values, lower, lower_at, message)


class Solvable(Spiked):
    """A model with readouts at a point, along a curve and at the best penalty, for spikes in any directions."""

    def solve(self, *, alpha: float, lam: float, d: float = math.inf, iterations: int = 100) -> SpikedSolution:
        """Test and training error, and order parameters, of ridge regression.

        Parameters
        ----------
        alpha : float
            Samples, n/d > 0.
        lam : float
            Ridge penalty > 0 of the objective ``sum (y - yhat)^2 + lam |a|^2`` (no factor 1/n).
        d : float
            Input dimension, as in :meth:`SpikedRandomFeatures.solve`.
        iterations : int
            Most Newton iterations.

        Returns
        -------
        SpikedSolution
            ``theta`` has shape (B, R), ``psi`` (B, J), or are numbers. If the iteration fails, ``converged`` is False
            and the numbers are nan.
        """
        alpha, lam, d = positive_alpha(alpha), positive_lam(lam), dimension(self, d)
        fit = resolved(self, alpha, lam, d, iterations=check.count("iterations", iterations))
        return solution_of(self, alpha, lam, d, fit)

    def curve(self, alphas: ArrayLike, lam: ArrayLike, d: float = math.inf) -> SpikedCurve:
        """Solutions at several sample sizes, each started from the one before.

        Parameters
        ----------
        alphas : array_like, shape (n,)
            Samples, n/d > 0.
        lam : float or array_like, shape (n,)
            Ridge penalty > 0, common or one for each point.
        d : float
            Input dimension, as in ``solve``.

        Raises
        ------
        ValueError
            alphas or lam that are not positive, or of different lengths.

        Examples
        --------
        >>> import numpy as np, overlaps as ov
        >>> model = ov.static.SpikedRandomFeatures(np.tanh, np.sin, r=1.2, gamma=0.9, beta=1.0)
        >>> model.curve([0.5, 1.0, 2.0], lam=0.1).mse.round(6).tolist()
        [0.096505, 0.083744, 0.068]
        """
        alphas = check.array("alphas", alphas, ("n",), "At least one value n/d > 0.", filled=True)
        lams = check.array("lam", lam, alphas.shape if check.axes("lam", lam) else ())
        lams = np.broadcast_to(lams, alphas.shape)
        d = dimension(self, d)
        start, points = None, []
        for alpha, one in zip(alphas.tolist(), lams.tolist(), strict=True):
            fit, start = warm_started(self, positive_alpha(alpha), positive_lam(one), d, start)
            points.append(solution_of(self, alpha, one, d, fit))
        stacked = {x.name: np.array([getattr(point, x.name) for point in points]) for x in fields(SpikedCurve)[1:]}
        return SpikedCurve(self, **stacked)

    def optimal_lam(self, alpha: float, d: float = math.inf) -> OptimalLam:
        """Ridge penalty with the least test error: the best of 18 decades, refined. *Asymptotic*, like the solution.

        Parameters
        ----------
        alpha : float
            Samples, n/d > 0.
        d : float
            Input dimension, as in ``solve``.

        Returns
        -------
        OptimalLam
            ``lam`` is infinite if no finite penalty is better than the limit. The readout then uses the mean activation
            mu0 alone, and ``mse`` is the upper bound of Cui et al., eq. (26); at finite d the readout is zero.

        Examples
        --------
        >>> import numpy as np, overlaps as ov
        >>> model = ov.static.SpikedRandomFeatures(np.tanh, np.sin, r=1.2, gamma=0.9, beta=1.0)
        >>> best = model.optimal_lam(2.0)
        >>> bool(best.mse < model.solve(alpha=2.0, lam=0.1).mse)
        True
        """
        alpha, d = positive_alpha(alpha), dimension(self, d)
        table = self._levels[0]
        variance = np.sum(table.S[table.packing.positive] @ table.weight)  # fluctuations given k
        decades = np.arange(SOLVING.min_log10_lam, SOLVING.max_log10_lam + 0.01)
        logs = decades * math.log(10) + math.log(max(variance, 1e-300))
        start: np.ndarray | None = None

        def error(log_lam):
            nonlocal start
            fit, start = warm_started(self, alpha, math.exp(log_lam), d, start)
            return fit.mse if math.isfinite(fit.mse) else math.inf

        log_lam, mse, best = minimum(error, logs, xatol=1e-7, ends=False)
        if math.isinf(d):
            fitted, limit = "mu0 alone", ridge.strong_ridge(table, self.noise, self.bias)
        else:
            mean = table.weight @ table.h if self.bias else 0.0
            fitted, limit = "nothing", float(table.weight @ table.hh - mean**2 + self.noise**2)
        rounding = 1e-9 * limit + 1e-10 * (table.weight @ table.hh)
        if best == len(logs) - 1 or mse >= limit - rounding:
            message = f"no finite lam is better than lam -> infinity, where {fitted} is fitted"
            return OptimalLam(math.inf, limit, message)
        message = "minimum at a finite lam" if best else "lam -> 0 is best: this is the least lam searched"
        return OptimalLam(math.exp(log_lam), mse, message)
