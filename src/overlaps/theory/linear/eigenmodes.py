r"""Linear students at any learning rate: modes, error, stability, and the exact mean of SGD at finite N.

With :math:`m_l = |P_l (w - w^*)|^2/N`, the block distances of student and teacher,

.. math:: \epsilon_g = \tfrac12 \sum_l s_l m_l, \qquad
   \frac{dm_l}{d\alpha} = -2\eta s_l m_l + \eta^2 s_l p_l \Big(\sum_k s_k m_k + \sigma^2\Big),

a diagonal plus a rank-one matrix, whose eigenvalues solve a secular equation.

[WR] is Worschech and Rosenow (2024), arXiv:2410.09005.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import wrightomega

from ..._base import ArrayLike, Floats, Numbers, check
from ...activations.library import linear as linear_activation
from ...models import Model, Spectrum, State, committee_machine
from ...models.features import check_features
from ...models.start import warn_coarse_step
from ...models.state import of_state
from . import _secular

__all__ = [
    "Modes", "amplitude", "error", "eta_critical", "limit_error", "modes", "optimal_error", "optimal_eta", "reduce",
    "sgd_mean", "tracking_error",
]  # fmt: skip


class Modes(NamedTuple):
    r"""Exponentials of the mean error of a linear student, fastest first; made by :func:`modes`.

    .. math:: \langle\epsilon_g\rangle = \frac{1+\sigma_J^2}{2} \sum_j c_j e^{-2\eta\mu_j\alpha}

    Attributes
    ----------
    mu : ndarray, shape (L,)
        Rates in units of 2 eta; they interlace with the eigenvalues, s_1 > mu_1 > s_2 > ... > s_L > mu_L.
    c : ndarray, shape (L,)
        Amplitudes; their sum is the mean eigenvalue. Positive below the critical learning rate.
    """

    mu: np.ndarray
    c: np.ndarray


def modes(spectrum: Spectrum, eta: float) -> "Modes":
    r"""Rates and amplitudes of the error of a linear student, at any learning rate.

    .. math:: 1 = \frac{\eta}{2} \sum_l \frac{p_l s_l^2}{s_l - \mu_j}, \qquad
       c_j = \frac{2}{\eta}\, \frac{2/\eta - \langle s \rangle}{\mu_j \sum_l p_l s_l^2/(s_l - \mu_j)^2}

    *Exact* for N -> infinity. L = 1e5 takes a few seconds. Source: [WR], Eq. (6) = (56), with the polynomial (54), (55)
    and the coefficients (57). Its eigenvalues and prefactor are misprinted: mu_k = -eig(A1 + eta U/2), eps_g = (1 +
    sigma_J^2)/(2 - eta) sum_k b_k mu_k exp(-2 eta mu_k alpha). The secular form is derived here; c_k = 2 b_k mu_k / (2
    - eta).

    Parameters
    ----------
    spectrum : Spectrum
        Equal eigenvalues are merged, blocks with s = 0 or p = 0 left out: they add no mode.
    eta : float
        Learning rate (effective one, see :func:`reduce`). The last mu is 0 at :func:`eta_critical` and negative above.

    Examples
    --------
    >>> import overlaps as ov
    >>> mu, c = ov.theory.linear.modes(ov.power_law(beta=1.0, L=3), eta=1.0)
    >>> mu.round(4), c.round(4)
    (array([1.4438, 0.4638, 0.2221]), array([0.4707, 0.3023, 0.227 ]))
    """
    model = linear_unit(spectrum, eta)
    D, w = _flow(model)
    delta, amplitudes, _ = _decompose(D, w, model.spectrum.s * model.spectrum.p)
    return Modes(delta[::-1] / (2 * model.eta), amplitudes[::-1])


def error(
    spectrum: Spectrum, eta: float, alpha: ArrayLike, *, student_scale: float = 1.0, noise: float = 0.0,
    m0: ArrayLike | None = None,
) -> Floats:  # fmt: skip
    r"""Mean generalisation error of a linear student trained by one-pass SGD, for N -> infinity.

    .. math:: \langle\epsilon_g\rangle = \frac12 \sum_j a_j e^{-2\eta\mu_j\alpha}
       + \frac{\sigma^2}{2} \sum_j d_j\, \frac{1 - e^{-2\eta\mu_j\alpha}}{2\eta\mu_j}, \qquad
       d_j = \frac{4}{\sum_l p_l s_l^2/(s_l - \mu_j)^2}, \quad
       a_j = \frac{d_j}{2\eta} \sum_l \frac{s_l m_l(0)}{s_l - \mu_j}

    *Exact* for N -> infinity, at any L and eta. For K, M > 1 use the effective learning rate and variance of
    :func:`reduce`; with ``normalised=True`` these are eta M/K and sigma_J^2 M/K. Source: [WR], Eq. (6): the solution
    (45) of the linear equations (5) = (26), which are (24), (25) = (28), (29) for the error (23). The noise is derived
    here.

    Parameters
    ----------
    spectrum : Spectrum
        Eigenvalues and weights.
    eta : float
        Learning rate; at or above :func:`eta_critical` the error does not decay, and the formula still holds.
    alpha : array_like
        Times >= 0, steps / N; may be inf.
    student_scale : float
        Standard deviation sigma_J of the initial weights: m_l(0) = (1 + sigma_J^2) p_l on average.
    noise : float
        Standard deviation of the label noise.
    m0 : array_like, shape (L,), optional
        Block distances of the start, instead of their mean; :func:`reduce` computes them from a State.

    Examples
    --------
    >>> import overlaps as ov
    >>> spectrum = ov.power_law(beta=0.5, L=6)
    >>> ov.theory.linear.error(spectrum, 0.8, [0, 0.5, 10], student_scale=0.5).round(10)
    array([0.625     , 0.2910386 , 0.00276106])
    """
    alpha = check.times("alpha", alpha)
    model = linear_unit(spectrum, eta, noise)
    start = model.spectrum.s * start_blocks(model.spectrum, student_scale, m0)
    D, w = _flow(model)
    delta, a, d = _decompose(D, w, start)
    return _curve(alpha, delta, delta, a, d, model.noise)


def limit_error(spectrum: Spectrum, eta: float, *, noise: float) -> float:
    r"""Error that label noise leaves for alpha -> infinity.

    .. math:: \epsilon_\infty = \frac{\eta\langle s\rangle\sigma^2}{2(2 - \eta\langle s\rangle)}

    *Exact* for N -> infinity; derived here.

    Parameters
    ----------
    spectrum, eta, noise
        As in :func:`error`; eta below :func:`eta_critical`, else there is no limit (``ValueError``).

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.theory.linear.limit_error(ov.isotropic(), 1.0, noise=2.0)
    2.0
    """
    model = _below_critical(spectrum, eta, noise)
    return 0.25 * model.eta * model.spectrum.mean * model.noise**2 * amplitude(spectrum, eta)


def eta_critical(spectrum: Spectrum, *, N: int | None = None) -> float:
    r"""Learning rate at which the mean error stops to decay: 2 / <s>, or less at finite N.

    .. math:: \eta_c = \frac{2}{\langle s\rangle} \quad (N \to \infty), \qquad
       1 = \frac{\eta_c}{2} \sum_l \frac{p_l s_l}{1 - \eta_c s_l/N}

    *Exact*; derived here. For K, M > 1 the value belongs to the effective learning rate of :func:`reduce`.

    Parameters
    ----------
    spectrum : Spectrum
        For N -> infinity eta_c depends on its mean only: 2 for every power law.
    N : int, optional
        Input dimension. Where max(s)/N is of order one (L ~ N) the finite-N value is much lower than 2.

    Examples
    --------
    >>> import overlaps as ov
    >>> spectrum = ov.power_law(beta=1.0, L=128)
    >>> round(ov.theory.linear.eta_critical(spectrum), 10), round(ov.theory.linear.eta_critical(spectrum, N=128), 4)
    (2.0, 1.0013)
    """
    spectrum = checked_spectrum(spectrum)
    if N is None:
        return 2 / spectrum.mean
    spectrum.block_sizes(N)
    positive = spectrum.p * spectrum.s > 0
    s, p = spectrum.s[positive], spectrum.p[positive]
    u = s / s.max()
    # the variable is y = eta max(s) / N; the upper bound is the threshold of the top block alone
    top = (1 + 1e-9) / (1 + 0.5 * N * p[u == 1].sum())
    threshold = brentq(lambda y: 0.5 * N * y * np.sum(p * u / (1 - y * u)) - 1, 0, top, xtol=1e-16, rtol=1e-14)
    return float(threshold * N / s.max())


def amplitude(spectrum: Spectrum, eta: float) -> float:
    r"""Factor 2 / (2 - eta <s>) by which a finite learning rate raises the power law of gradient flow.

    .. math:: \epsilon_g(\alpha) \to \frac{2}{2 - \eta\langle s\rangle}\,\epsilon_{g,\mathrm{flow}}(\alpha)

    *Asymptotic*: inside the power-law window (:func:`overlaps.theory.linear.window`) of a large L. From the renewal
    equation eps = eps_flow + k * eps, whose kernel k of integral eta <s>/2 decays faster than eps_flow; derived here.

    Parameters
    ----------
    spectrum, eta
        As in :func:`limit_error`.

    Examples
    --------
    >>> import overlaps as ov
    >>> round(ov.theory.linear.amplitude(ov.power_law(beta=1.0, L=100), eta=1.5), 10)
    4.0
    """
    model = _below_critical(spectrum, eta)
    return 2 / (2 - model.eta * model.spectrum.mean)


def sgd_mean(
    spectrum: Spectrum, eta: float, steps: ArrayLike, *, N: int, student_scale: float = 1.0, noise: float = 0.0,
    m0: ArrayLike | None = None, batch_size: int = 1,
) -> Floats:  # fmt: skip
    r"""Mean error of SGD itself at finite N, over samples (and initial weights).

    .. math:: m_l \leftarrow \Big(1 - \frac{2\eta s_l}{N} + \Big(1 + \frac1B\Big)\frac{\eta^2 s_l^2}{N^2}\Big) m_l
       + \frac{\eta^2}{NB} s_l p_l \Big(\sum_k s_k m_k + \sigma^2\Big)

    Diagonalised like :func:`error`, so that any number of steps costs the same. *Exact* at any N, L and eta (Wick's
    theorem for one Gaussian input); derived here. Needed wherever L ~ N, where the largest eigenvalue is a finite
    fraction of N: with eta max(s) / N > 0.05 a ``RuntimeWarning`` is issued: the ODE is not the limit of this mean.

    Parameters
    ----------
    spectrum, eta, student_scale, noise, m0
        As in :func:`error`.
    steps : array_like of int
        Numbers of steps >= 0; alpha = steps / N.
    N : int
        Input dimension; the blocks n_l = p_l N must be integers.
    batch_size : int
        Samples B in one step.

    Examples
    --------
    >>> import overlaps as ov
    >>> spectrum = ov.power_law(beta=0.5, L=6)
    >>> ov.theory.linear.sgd_mean(spectrum, 0.8, [0, 30, 10**6], N=60, student_scale=0.5, noise=0.1).round(6)
    array([0.625   , 0.299817, 0.003501])
    """
    steps = check.times("steps", steps)
    if not np.all(steps == np.rint(steps)):
        raise ValueError("steps contains fractions; expected whole numbers of steps, alpha = steps / N.")
    model = linear_unit(spectrum, eta, noise)
    model.spectrum.block_sizes(N)
    warn_coarse_step(model, N)
    s, p, rate = model.spectrum.s, model.spectrum.p, model.eta * model.spectrum.s / N
    B = check.count("batch_size", batch_size)
    start = s * start_blocks(model.spectrum, student_scale, m0)
    delta, a, d = _decompose(rate * (2 - (1 + 1 / B) * rate), model.eta**2 / (N * B) * p * s**2, start)
    return _curve(steps, -np.log1p(-delta), delta, a, d, model.noise)


@of_state
def reduce(model: Model, start: State) -> tuple[float, Floats]:
    r"""Effective learning rate and block distances of a linear model with any K, M, v, v*.

    .. math:: \eta_{\rm eff} = \eta \sum_k v_k^2, \qquad
       m_l = \Big|P_l \Big(\sum_k v_k w_k - \sum_m v^*_m w^*_m\Big)\Big|^2/N
           = v^T q^l v - 2 v^T r^l v^* + v^{*T} t^l v^*

    Only the sum of the students matters: it learns the sum of the teachers. With ``normalised=True`` the effective
    learning rate is eta M/K; random weights have m_l = (sigma_J^2 sum v^2 + sum v*^2) p_l on average. *Exact*. Both
    are the ``eta`` and ``m0`` (L,) of :func:`error`, :func:`sgd_mean` and :func:`overlaps.theory.linear.flow_error`.

    Parameters
    ----------
    model : Model
        Linear activations, fixed second layer, no weight decay, batch size 1; others raise a ``ValueError``.
    start : State
        Initial overlaps.

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.committee_machine(3, 2, activation=ov.linear, normalised=True, eta=0.6)
    >>> eta, m0 = ov.theory.linear.reduce(model, model.random_start(N=100, rng=1))
    >>> round(eta, 10), m0.shape
    (0.4, (1,))
    """
    check_features("theory.linear.reduce", model)
    start = check.state(start).on(model)
    if not (model.activation == model.teacher_activation == linear_activation):
        raise ValueError(f"{model} is not linear; expected activation=ov.linear for student and teacher.")
    q, r, t = start.plain
    v, v_star = start.v, model.v_star
    # zero where rounding makes a learned block negative
    return model.eta * float(v @ v), np.maximum(v @ q @ v - 2 * (v @ r @ v_star) + v_star @ t @ v_star, 0.0)


# --- the best learning rate of a unit, and the error behind a drifting teacher ---------------------------------------


def _distance(alpha, m0, noise, batch_size):
    alpha = check.times("alpha", alpha)
    m0, noise = check.number("m0", m0, above=0), check.number("noise", noise, least=0)
    batch = check.number("batch_size", batch_size, above=0)
    if noise == 0:
        return m0 * np.exp(-batch * alpha), noise, batch
    x0 = noise**2 / m0
    x = wrightomega(batch * alpha + x0 + np.log(x0))  # solves x + ln x = the argument
    return noise**2 / x, noise, batch


def optimal_error(alpha: ArrayLike, *, m0: float, noise: float, batch_size: float = 1) -> Numbers:
    r"""Least generalisation error of one linear unit on isotropic inputs at time alpha, over all learning rates.

    .. math::
        \epsilon_g = m/2, \qquad m' = -2\eta m + \eta^2 (m + \sigma^2)/b, \qquad
        m = \frac{\sigma^2}{x}, \quad x + \ln x = b\alpha + x_0 + \ln x_0, \quad x_0 = \sigma^2/m_0

    Exact: the flow of one variable preserves the order of its solutions, so that the greedy rate :func:`optimal_eta` is
    globally optimal. It falls as sigma^2 / (2 b alpha); the best constant rate loses a logarithm. Several units:
    :func:`reduce`. Derived here; the Hamilton-Jacobi-Bellman equation holds for its value function.

    Parameters
    ----------
    m0 : float
        Q - 2 R + T at the start.
    alpha, noise, batch_size
        As in :func:`error` and :func:`sgd_mean`.

    Examples
    --------
    >>> import overlaps as ov
    >>> float(2 * ov.theory.linear.optimal_error(10.0, m0=0.9, noise=0.5).round(9))
    0.035488252
    """
    return _distance(alpha, m0, noise, batch_size)[0] / 2


def optimal_eta(alpha: ArrayLike, *, m0: float, noise: float, batch_size: float = 1) -> Numbers:
    r"""The learning rate that attains :func:`optimal_error` at every time.

    .. math:: \eta^*(\alpha) = \frac{b\, m}{m + \sigma^2} \to \frac1\alpha

    Exact; the constant b without noise. It has the shape of alpha.

    Parameters
    ----------
    alpha, m0, noise, batch_size
        As in :func:`optimal_error`.

    Examples
    --------
    >>> import overlaps as ov
    >>> float(ov.theory.linear.optimal_eta(1000.0, m0=0.9, noise=0.5).round(9))
    0.001006951
    """
    m, noise, batch = _distance(alpha, m0, noise, batch_size)
    return batch * m / (m + noise**2)


def tracking_error(
    spectrum: Spectrum, eta: ArrayLike, drift: float, *, noise: float = 0.0, batch_size: float = 1,
    t: ArrayLike | None = None,
) -> Numbers:  # fmt: skip
    r"""Stationary generalisation error of a linear unit behind a drifting teacher.

    .. math::
        2 \epsilon_g = \frac{\sum_l \frac{\delta\, s_l t_l}{\eta s_l + \delta} + \kappa \sigma^2}{1 - \kappa}, \qquad
        \kappa = \frac{\eta}{2b} \sum_l p_l s_l

    Exact for N -> infinity: with :math:`r^l = \eta s_l^2 t_l/(\eta s_l + \delta)` the block distances are :math:`m_l =
    \delta t_l/(\eta s_l + \delta) + (\eta p_l/2b)(2\epsilon_g + \sigma^2)`. Small rates lag behind the teacher, large
    ones add noise of the steps: the best one is finite even for sigma = 0. Several units as in :func:`reduce`. Derived
    here; for isotropic inputs :math:`[2\delta t/(\eta + \delta) + \eta\sigma^2]/(2(2 - \eta))` at b = 1. Source: Biehl
    and Schwarze (1993), J. Phys. A 26, 2651, for drifting teachers.

    Parameters
    ----------
    spectrum, noise, batch_size
        As in :func:`sgd_mean`.
    eta : array_like
        Learning rates, 0 < eta < 2 b / sum_l p_l s_l: at others the error is not stationary (``ValueError``).
    drift : float
        Rate delta > 0 of the drift, as in :func:`overlaps.committee_machine`.
    t : array_like, shape (L,), optional
        Teacher overlaps W* P_l W*^T / N of the blocks; p_l by default, as for w* ~ N(0, 1).

    Examples
    --------
    >>> import overlaps as ov
    >>> float(ov.theory.linear.tracking_error(ov.isotropic(), 0.5, 0.05).round(10))
    0.0606060606
    """
    s, p = check.spectrum(spectrum).s, spectrum.p
    drift, noise = check.number("drift", drift, above=0), check.number("noise", noise, least=0)
    batch = check.number("batch_size", batch_size, above=0)
    t = p if t is None else check.array("t", t, s.shape)
    rates = check.array("eta", eta, (...,))
    limit = 2 * batch / float(p @ s)
    if np.any(rates <= 0) or np.any(rates >= limit):
        raise check.refused("eta", eta, f"0 < eta < {limit:g}, where the error is stationary.")
    kappa = rates / limit
    lag = (drift * s * t / (rates[..., None] * s + drift)).sum(axis=-1)
    return ((lag + kappa * noise**2) / (1 - kappa) / 2)[()]


# --- shared by the modules of this theory ----------------------------------------------------------------------------


def start_blocks(spectrum, student_scale, m0):
    """Block distances of the start (L,): those given, or their mean (1 + student_scale^2) p."""
    scale = check.number("student_scale", student_scale, least=0)
    if m0 is None:
        return (1 + scale**2) * spectrum.p
    m0 = check.array("m0", m0, (spectrum.L,))
    if np.any(m0 < 0) or np.any((m0 > 0) & (spectrum.p == 0)):
        raise ValueError("m0 = |P_l (w - w*)|^2 / N expected: >= 0, and 0 in blocks without directions (p_l = 0).")
    return m0


def checked_spectrum(spectrum):
    """A spectrum with at least one direction of positive variance."""
    if check.spectrum(spectrum).mean == 0:
        raise ValueError("all eigenvalues with weight are zero; expected inputs that are not constant.")
    return spectrum


def linear_unit(spectrum, eta, noise=0.0):
    """The model with these arguments, checked."""
    return committee_machine(
        1, 1, activation=linear_activation, spectrum=checked_spectrum(spectrum), eta=eta, noise=noise
    )


def _below_critical(spectrum, eta, noise=0.0):
    model, limit = linear_unit(spectrum, eta, noise), eta_critical(spectrum)
    if model.eta >= limit:
        raise ValueError(
            f"eta = {model.eta:g} is not below the critical value 2/<s> = {limit:.6g}: the error does not decay. "
            "Try a smaller eta, or linear.error and ov.solve, which accept any."
        )
    return model


def _flow(model):
    """Diagonal D and weights w of the flow."""
    s = model.spectrum.s
    return 2 * model.eta * s, model.eta**2 * model.spectrum.p * s**2


def _decompose(D, w, start):
    """Rates delta ascending, amplitudes of sum_l s_l m_l, and its response to unit noise; start is s_l m_l(0)."""
    order = np.flatnonzero(w > 0)
    order = order[np.argsort(D[order], kind="stable")]
    D, w, start = D[order], w[order], start[order]
    first = np.flatnonzero(np.diff(D, prepend=-np.inf) > 0)  # merge equal poles
    w, start = np.add.reduceat(w, first), np.add.reduceat(start, first)
    delta, norm, overlap = _secular.roots(np.ascontiguousarray(D[first]), w, start)
    return delta, overlap / norm, 1 / norm


def _curve(time, rate, delta, a, d, noise):
    """Half the sum of a exp(-rate t) + noise^2 d (1 - exp(-rate t))/delta, at every time."""
    marginal = delta == 0  # these modes integrate the noise without decay
    safe = np.where(marginal, 1.0, delta)

    def at(t):
        x = np.where(marginal, 0.0, rate * t)
        from_noise = noise**2 * (d @ np.where(marginal, t, -np.expm1(-x) / safe)) if noise > 0 else 0.0
        return 0.5 * (a @ np.exp(-x)) + 0.5 * from_noise

    with np.errstate(over="ignore", invalid="ignore"):  # above the critical learning rate the error overflows to inf
        return np.reshape([at(t) for t in time.flat], time.shape)[()]
