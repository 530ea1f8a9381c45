"""A pre-activation bias trained together with the readout."""

import dataclasses
import math

import numpy as np

from ..._base import check
from ..._base.search import minimum
from .solutions import LearnedOffset

REACH, POINTS = 4.0, 41  # biases looked at by default


def learn_offset(model, *, alpha, lam, d=math.inf, loss=None, offsets=None):
    r"""A bias s in every neuron, sigma(w.x + s), trained together with the readout on the same samples.

    .. math:: \min_{s, a}\ \sum_\mu l(y_\mu, \hat y_\mu) + \frac\lambda2 |a|^2 = p\,\min_s e(s), \qquad
              e(s) = \kappa\,\epsilon_{\rm train}(s) + \frac\lambda2\, q_2(s)

    :meth:`SpikedRandomFeatures.solve` gives the readout at each s, whose least objective e(s) does not fluctuate as d
    -> infinity: the s that training selects is the least of e. (For ridge regression twice this objective.)
    *Asymptotic*, as the readouts. The objective need not be convex in s: only the lowest of those looked at is refined,
    to about 1e-6, while training by gradients may end in another minimum. For an odd student and an odd target s and -s
    are equally good. Cui et al. state that the free energy is stationary in s. With little data the bias that fits the
    training samples best may well raise the test error. Source: Cui et al. (2024), arXiv:2402.04980, Appendix C.8:
    (130), (131), and the bound (132).

    Parameters
    ----------
    model : SpikedRandomFeatures
        Its own ``offset`` is added to s.
    alpha, lam, d, loss
        As in :meth:`SpikedRandomFeatures.solve`.
    offsets : array_like, shape (n,), optional
        Biases s to look at before the best is refined, at least 3; by default 41 from -4 to 4.

    Returns
    -------
    LearnedOffset

    Raises
    ------
    ValueError
        Fewer than 3 biases, and what the model refuses.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> target = lambda x: x + 0.5 * (x**2 - 1)
    >>> model = ov.static.SpikedRandomFeatures(np.tanh, target, r=1.5, gamma=0.9, beta=1.0)
    >>> found = model.learn_offset(alpha=6.0, lam=0.5)
    >>> found.message, bool(found.solution.mse < model.solve(alpha=6.0, lam=0.5).mse)
    ('the least of the objective', True)
    """
    shifts = np.linspace(-REACH, REACH, POINTS) if offsets is None else check.array("offsets", offsets, ("n",))
    shifts = np.unique(shifts)
    if shifts.size < 3:
        raise ValueError(f"offsets = {check.shown(offsets)}; expected at least 3 biases to look at.")

    def solution(s):
        shifted = dataclasses.replace(model, offset=np.asarray(model.offset) + s)
        return shifted.solve(alpha=alpha, lam=lam, d=d, loss=loss)

    def objective(found):
        value = (found.train if loss is None else found.train_loss) * alpha / model.beta
        return value + lam * np.sum(found.q2) / (1 if loss is None else 2)

    found = [solution(s) for s in shifts]
    values = np.array([objective(x) for x in found])
    bounds = np.array([x.model.bounds(d).lower for x in found])
    if not np.any(np.isfinite(values)):
        raise ValueError(f"offsets = {check.shown(offsets)}: no readout converged at any of them; try a larger lam.")

    def bound(s):
        return dataclasses.replace(model, offset=np.asarray(model.offset) + s).bounds(d).lower

    where, _, i = minimum(lambda s: objective(solution(s)), shifts, values, xatol=1e-6, ends=False)
    message = "the least of the objective"
    if not 0 < i < shifts.size - 1:
        message = f"the objective still falls at the {'largest' if i else 'smallest'} bias looked at"
    lower_at, lower, _ = minimum(bound, shifts, bounds, xatol=1e-6, ends=False)
    best = found[i] if where == shifts[i] else solution(where)
    return LearnedOffset(where, objective(best), best, shifts, values, lower, lower_at, message)
