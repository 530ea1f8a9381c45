"""Learning rate of one giant step that minimises the test error of the trained readout."""

import math
from typing import Any, Literal, NamedTuple

import numpy as np

from ..._base import ArrayLike, Function, Immutable, check, minimum
from ...activations.activation import Activation
from .features import SpikedRandomFeatures
from .solving import dimension

__all__ = ["BestStep", "best_step"]


class RateScanOptions(NamedTuple):
    """Default learning rates of the scan, by the spikes r that they make."""

    points: int = 40
    # Weakest and strongest spike; minima outside are reported as such.
    min_spike: float = 0.02
    max_spike: float = 8.0
    # r sqrt(d) of the weakest spike at finite d.
    min_scaled_spike: float = 0.1


class BestStep(Immutable):
    """Learning rate with the least test error; made by :func:`overlaps.static.best_step`.

    Attributes
    ----------
    eta_tilde, mse, lam : float
        Best learning rate, test error and ridge penalty there.
    model : SpikedRandomFeatures
        The features after that step.
    rates, errors : ndarray, shape (n,)
        Learning rates of the scan, ascending, and their test errors.
    message : str
        Whether it is a minimum, or which end of the scan is best.
    """

    eta_tilde: float
    mse: float
    lam: float
    model: SpikedRandomFeatures
    rates: np.ndarray
    errors: np.ndarray
    message: str
    shows = "eta_tilde={0.eta_tilde:.6g}, mse={0.mse:.6g}, lam={0.lam:.6g}, {0.message!r}"


def best_step(
    student: Activation | Function,
    target: Activation | Function,
    *,
    alpha0: float,
    beta: float,
    alpha: float,
    lam: float | None = None,
    d: float = math.inf,
    scaling: Literal["d", "p"] = "d",
    rates: ArrayLike | None = None,
    **options: Any,
) -> "BestStep":
    r"""Learning rate of one giant step that minimises the test error of the ridge readout.

    .. math:: \min_{\tilde\eta}\ E(y - \hat y)^2 \qquad \mbox{at } \alpha_0 = n_0/d,\ \alpha = n/d,\ \beta = p/d

    Larger rates make larger spikes r, which change the functions that the network can learn along its spike. With few
    samples of the step they also make a larger bulk c, which is noise. *Asymptotic* at d = infinity, *heuristic* at
    finite d, like the errors. The minimum is that of the spiked random features; the network itself differs by some
    per cent (page "One giant gradient step"). The rate is good to about 1e-5, relative. Only the best rate of the scan
    is refined. Source: Cui et al. (2024), arXiv:2402.04980, section 4.3 and (28), who choose the rate for the bounds.

    Parameters
    ----------
    student, target : Activation or callable
        sigma, odd, and sigma_*, of zero mean.
    alpha0, beta, scaling : float, float, {"d", "p"}
        The step, as in :meth:`SpikedRandomFeatures.after_one_step`; alpha0 > 0.
    alpha, lam : float
        Samples of the readout n/d, and ridge penalty; by default the best penalty at each rate.
    d : float
        Input dimension, as in :meth:`SpikedRandomFeatures.solve`.
    rates : array_like, shape (n,), optional
        Learning rates of the scan before the best is refined, at least 3; by default for spikes up to r = 8.
    **options
        As in :meth:`SpikedRandomFeatures.after_one_step`.

    Raises
    ------
    ValueError
        No step (alpha0 = 0), fewer than 3 rates, rates that are not positive, or arguments that the step refuses.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> best = ov.static.best_step(np.tanh, np.sin, alpha0=2, beta=1, alpha=2, lam=0.1, d=500)
    >>> round(best.eta_tilde, 2), round(best.mse, 4), best.message
    (2.42, 0.1192, 'a minimum')
    """
    if check.axes("alpha0", alpha0) == 0 and alpha0 == 0:
        raise ValueError("alpha0 = 0 is no step; expected samples alpha0 = n0/d > 0 from which a rate can be learned.")

    def after(eta_tilde):
        step = {"eta_tilde": eta_tilde, "alpha0": alpha0, "beta": beta, "scaling": scaling}
        return SpikedRandomFeatures.after_one_step(student, target, **step, **options)

    def error(eta_tilde):
        model = after(eta_tilde)
        solution = model.optimal_lam(alpha, d) if lam is None else model.solve(alpha=alpha, lam=lam, d=d)
        return solution.mse if math.isfinite(solution.mse) else math.inf

    if rates is None:
        unit = np.max(np.abs(after(1.0).r))  # spikes grow like the rate
        scan = RateScanOptions()
        lowest = scan.min_spike if math.isinf(dimension(after(1.0), d)) else scan.min_scaled_spike / math.sqrt(d)
        rates = np.geomspace(min(lowest, scan.min_spike), scan.max_spike, scan.points) / unit
    rates = np.sort(check.array("rates", rates, ("n",)))
    if rates.size < 3 or rates[0] <= 0:
        raise check.refused("rates", rates, "at least 3 learning rates > 0.")
    errors = np.array([error(x) for x in rates])
    rate, mse, i = minimum(error, rates, errors, rtol=1e-6, ends=False)
    message = "a minimum"
    if not 0 < i < rates.size - 1:
        message = f"the error still falls at the {'largest' if i else 'smallest'} rate of the scan"
    model = after(rate)
    penalty = model.optimal_lam(alpha, d).lam if lam is None else float(lam)
    return BestStep(rate, mse, penalty, model, rates, errors, message)
