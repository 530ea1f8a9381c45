r"""Linear students that train only N_l of their N components: scaling with the number of features.

The other N - N_l weights keep their random values.  Gradient flow; weights w* ~ N(0, 1), w ~ N(0, student_scale^2).
With a power-law spectrum the error saturates at a level ~ N_l^-beta in the eigenbasis of the inputs, and in a random
basis too, while it falls like alpha^(-beta/(1+beta)) before.  For K, M > 1 the same holds with the effective learning
rate and variance of :mod:`overlaps.theory.linear`.  Numbers out of range raise a ``ValueError`` that names them.

References
----------
Worschech and Rosenow (2024), arXiv:2410.09005, called [WR] below, Sec. 4 and App. B.3.
"""

import numpy as np
from scipy.optimize import brentq

from .._base import ArrayLike, Floats, check, public_dir
from ..models.spectrum import EIGENVALUE_TOL, Spectrum
from ..models.start import warn_coarse_step
from .linear.eigenmodes import checked_spectrum, linear_unit
from .linear.flow import decay_sum, integral_error, power_law_units

__all__ = ["asymptote", "error", "error_covariance", "error_haar", "exponent", "haar_ratio", "power_law_error"]
__dir__ = public_dir(__name__)


def error(
    spectrum: Spectrum, eta: float, alpha: ArrayLike, *, N_l: int, N: int | None = None, student_scale: float = 1.0
) -> Floats:
    r"""Mean error when the components along the N_l largest eigenvalues are trained.

    .. math:: \epsilon_g = \frac{1+\sigma_J^2}{2N}
       \Big[\sum_{k \le N_l} s_k e^{-2\eta s_k\alpha} + \sum_{k > N_l} s_k\Big]

    *Asymptotic* in eta: terms of order eta^2 are dropped, and where eta max(s) / N > 0.05 a ``RuntimeWarning`` is
    issued: SGD at finite N is not close to gradient flow. Exact in N and N_l. Source: [WR], Eq. (10) = (78), from the
    overlaps (76), (77); at alpha = inf (71), from (69), (70). The sums of (71) and (78) start at N_l + 1.

    Parameters
    ----------
    spectrum : Spectrum
        Eigenvalue l has multiplicity n_l = p_l N.
    eta : float
        Learning rate.
    alpha : array_like
        Times >= 0, steps / N; inf gives the asymptote.
    N_l : int
        Number of trained components, 1 to N.
    N : int, optional
        Input dimension; the number of eigenvalues by default.
    student_scale : float
        Standard deviation of the initial weights.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> spectrum = ov.power_law(beta=1.0, L=256)
    >>> ov.theory.features.error(spectrum, 0.05, [0, 1e3, np.inf], N_l=50, student_scale=0.01).round(7)
    array([0.50005  , 0.0048468, 0.0048458])
    """
    alpha = check.times("alpha", alpha)
    model = linear_unit(spectrum, eta)
    s = np.sort(np.repeat(spectrum.s, spectrum.block_sizes(spectrum.L if N is None else N)))[::-1]
    N_l = trained(N_l, s.size)
    scale = check.number("student_scale", student_scale, least=0)
    warn_coarse_step(model, s.size)
    rates = np.where(np.arange(s.size) < N_l, 2 * model.eta * s, 0.0)
    return decay_sum(rates, 0.5 * (1 + scale**2) * s / s.size, alpha)


def error_covariance(Sigma: ArrayLike, eta: float, alpha: ArrayLike, *, N_l: int, student_scale: float = 1.0) -> Floats:
    r"""Mean error when the first N_l coordinates are trained on inputs of any covariance.

    .. math:: \epsilon_g = \frac{1+\sigma_J^2}{2N} \Big[
       \mathrm{tr}\big(e^{-2\eta\tilde\Sigma\alpha} (\tilde\Sigma + \Sigma_\times\Sigma_\times^T\tilde\Sigma^{-1})\big)
       + \mathrm{tr}\big(\hat\Sigma - \Sigma_\times^T\tilde\Sigma^{-1}\Sigma_\times\big)\Big], \qquad
       \Sigma = \begin{pmatrix} \tilde\Sigma & \Sigma_\times \\ \Sigma_\times^T & \hat\Sigma \end{pmatrix}

    The trained weights also compensate the frozen ones, as far as their inputs are correlated.
    *Asymptotic* in eta, exact otherwise; it warns as :func:`error`. The time dependence is derived here; alpha = inf is
    the printed asymptote. Source: [WR], the blocks (82), the solution (84) with its limit (85), and the asymptote (88)
    from (86), (87).

    Parameters
    ----------
    Sigma : array_like, shape (N, N)
        Covariance of the inputs, positive semi-definite.
    eta, alpha, N_l, student_scale
        As in :func:`error`.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> ov.theory.features.error_covariance([[1.0, 0.5], [0.5, 1.0]], 0.01, [0, np.inf], N_l=1, student_scale=0.0)
    array([0.5   , 0.1875])
    """
    alpha = check.times("alpha", alpha)
    spectrum = Spectrum.from_covariance(Sigma)  # checks Sigma
    Sigma = np.asarray(Sigma, dtype=float)
    N = len(Sigma)
    N_l, scale = trained(N_l, N), check.number("student_scale", student_scale, least=0)
    model = linear_unit(spectrum, eta)
    warn_coarse_step(model, N)
    d, V = np.linalg.eigh(Sigma[:N_l, :N_l])
    g = np.sum((V.T @ Sigma[:N_l, N_l:]) ** 2, axis=1)
    positive = d > EIGENVALUE_TOL * spectrum.s.max()  # directions without variance have no cross-covariance either
    d, explained = d[positive], g[positive] / d[positive]
    frozen = max(np.trace(Sigma[N_l:, N_l:]) - explained.sum(), 0.0)
    weight = 0.5 * (1 + scale**2) / N * np.append(d + explained, frozen)
    return decay_sum(2 * model.eta * np.append(d, 0.0), weight, alpha)


def error_haar(spectrum: Spectrum, *, N_l: int, N: int | None = None, student_scale: float = 1.0) -> float:
    r"""Asymptotic error when N_l coordinates of a random (Haar) basis are trained.

    .. math:: \epsilon_\infty = \frac{1+\sigma_J^2}{2}\, \frac{N_l}{N}\, \xi, \qquad \sum_k \frac{s_k}{s_k+\xi} = N_l

    *Asymptotic*: N, N_l -> infinity at fixed ratio (free compression), with corrections of order 1/N_l: below the mean
    over sampled rotations by 1.3, 1.8, 2.2 % at N = 256, N_l = 50, beta = 1, 1.5, 2, about half of it at N_l = 100.
    Derived here; it replaces an average over rotations of :func:`error_covariance` at alpha = inf. Source: [WR], Figs.
    15 and 16, for the question.

    Parameters
    ----------
    spectrum, N_l, N, student_scale
        As in :func:`error`.

    Examples
    --------
    >>> import overlaps as ov
    >>> round(ov.theory.features.error_haar(ov.power_law(beta=1.0, L=64), N_l=16, student_scale=0.1), 10)
    0.0351216515
    """
    spectrum = checked_spectrum(spectrum)
    N = spectrum.L if N is None else check.count("N", N)
    ratio, scale = trained(N_l, N) / N, check.number("student_scale", student_scale, least=0)
    return float(0.5 * (1 + scale**2) * ratio * haar_root(spectrum, ratio))


def asymptote(beta: float, N: int, N_l: ArrayLike, *, student_scale: float = 1.0, half_integer: bool = True) -> Floats:
    r"""Error left in the eigenbasis for alpha -> infinity, as a power law in N_l.

    .. math:: \epsilon_\infty \simeq \frac{1+\sigma_J^2}{2}\, \frac{s_1}{\beta N}\,
       \big[(N_l + \tfrac12)^{-\beta} - (N + \tfrac12)^{-\beta}\big]

    *Asymptotic* in N_l. At N = 256, beta = 1 it is 4e-5 (N_l = 50) to 5e-6 (N_l = 200) higher than :func:`error` at
    alpha = inf; as printed, 1.2 % to 0.4 %. Source: [WR], Eq. (74), the sum (72) as an integral; the prefactor of (73)
    is misprinted.

    Parameters
    ----------
    beta : float
        Exponent of the spectrum, > 0.
    N : int
        Input dimension = number of eigenvalues.
    N_l, student_scale
        As in :func:`error`; several N_l at once, too.
    half_integer : bool
        False: the printed limits N_l and N, whose sum would begin with half of the term N_l.

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.theory.features.asymptote(1.0, 256, [50, 200], student_scale=0.01).round(6)
    array([0.004846, 0.000332])
    """
    _, s, scale = power_law_units(beta, check.count("N", N), 1.0, 0.0, student_scale)
    for n in np.asarray(N_l, dtype=object).flat:
        trained(n, N)
    n_l = np.asarray(N_l, dtype=int)
    shift = 0.5 if check.flag("half_integer", half_integer) else 0.0
    return (scale / beta * ((n_l + shift) ** -float(beta) - (N + shift) ** -float(beta)))[()]


def power_law_error(
    beta: float, N: int, eta: float, alpha: ArrayLike, *, N_l: int, student_scale: float = 1.0, end_terms: bool = False
) -> Floats:
    r"""Error in time and features, sums replaced by integrals: :func:`asymptote` plus the decay of N_l modes.

    .. math:: \epsilon_g \simeq \frac{1+\sigma_J^2}{2}\, \frac{s_1}{N} \Big\{ \frac{N_l^{-\beta} - N^{-\beta}}{\beta}
       + \frac{\zeta^{-b}}{1+\beta} \Big[\Gamma\Big(b, \frac{\zeta}{N_l^{1+\beta}}\Big) - \Gamma(b, \zeta)\Big]\Big\}

    *Asymptotic* in N_l and eta. *Corrected*: printed with N in place of N_l in the first gamma function, which lets the
    frozen modes decay and counts them twice at alpha = 0. Source: [WR], Eq. (11) = (79).

    Parameters
    ----------
    beta, N, N_l, student_scale
        As in :func:`asymptote` (its half-integer limits are used here).
    eta, alpha, end_terms
        As in :func:`overlaps.theory.linear.integral_error`.

    Examples
    --------
    >>> import overlaps as ov
    >>> round(float(ov.theory.features.power_law_error(1.0, 256, 0.05, 1e3, N_l=50, student_scale=0.01)), 5)
    0.00485
    """
    N_l = trained(N_l, check.count("N", N))
    decaying = integral_error(beta, N, eta, alpha, student_scale=student_scale, end_terms=end_terms, last=N_l)
    return decaying + asymptote(beta, N, N_l, student_scale=student_scale)


def haar_ratio(beta: float) -> float:
    r"""Error in a random basis over that in the eigenbasis, for power-law spectra and 1 << N_l << N.

    .. math:: \beta \Big(\frac{\phi}{\sin\phi}\Big)^{1+\beta}, \qquad \phi = \frac{\pi}{1+\beta}

    The exponent in N_l is the same. *Asymptotic*; derived here.

    Parameters
    ----------
    beta : float
        Exponent of the spectrum, > 0.

    Examples
    --------
    >>> import overlaps as ov
    >>> [round(ov.theory.features.haar_ratio(beta), 2) for beta in (0.3, 0.75, 1.0, 1.5)]
    [1.61, 2.18, 2.47, 3.01]
    """
    phi = np.pi / (1 + exponent(beta))
    return float(beta * (phi / np.sin(phi)) ** (1 + beta))


def exponent(beta: float) -> float:
    r"""Exponent of the power law in the number of features, :math:`\epsilon_\infty \sim N_l^{-\beta}`: beta itself.

    In time it is smaller, beta/(1+beta) (:func:`overlaps.theory.linear.exponent`).

    Parameters
    ----------
    beta : float
        Exponent of the spectrum, > 0.

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.theory.features.exponent(0.3)
    0.3
    """
    return check.number("beta", beta, above=0)


def haar_root(spectrum, ratio):
    """The root xi of sum_l p_l s_l/(s_l + xi) = ratio; 0 where every direction with variance is trained."""
    s, p = spectrum.s, spectrum.p
    if ratio >= p[s > 0].sum() * (1 - 1e-14):
        return 0.0
    # the sum lies between p_top s_1/(s_1 + xi) and <s>/xi; in log xi, because xi spans decades
    low = s[s > 0].min() * 1e-16
    return np.exp(brentq(lambda x: p @ (s / (s + np.exp(x))) - ratio, np.log(low), np.log(s.max() / ratio), xtol=1e-15))


def trained(N_l, N):
    """N_l, checked to lie in 1..N."""
    N_l = check.count("N_l", N_l)
    if N_l > N:
        raise ValueError(f"N_l = {N_l}; expected at most N = {N}, the number of components that can be trained.")
    return N_l
