r"""Plateau, escape, end of learning and learning-rate bounds of quadratic networks.

Notation of this module: h = eta / (2 K), c0 = 1 + 2/M, c2 = (K + 4)/(K + 2), and u = q (K + 2)/K for students
Q = q I; on the plateau of gradient flow u = 1.  Without overlap with the teacher (R = 0),

.. math:: dq/d\alpha = q\,[8h(1-u) + 16h^2(c_0 + \sigma^2 - 2u + c_2 u^2)], \qquad d\ln R/d\alpha = 4h(c_0 - u).
"""

from typing import NamedTuple

import numpy as np

from ..._base import check
from ..._base.types import ArrayLike, Floats

__all__ = [
    "Plateau",
    "escape_amplitude",
    "escape_law",
    "eta_descent",
    "eta_escape",
    "eta_optimal",
    "eta_plateau",
    "eta_solution",
    "final_descent",
    "noise_floor",
    "plateau",
    "solution_rate",
]


class Plateau(NamedTuple):
    """The plateau of a quadratic network; rates are per unit alpha, negative ones decay. Made by :func:`plateau`.

    Attributes
    ----------
    q : float
        Norm of the students, Q = q I; K/(K + 2) in gradient flow.
    eps_g : float
        Generalisation error.
    escape : float
        Growth rate of R.
    trace : float
        Rate of a deviation of tr Q.
    shape : float
        Rate of a traceless deviation of Q, e.g. of the overlaps between students (K >= 2): they decay.
    """

    q: float
    eps_g: float
    escape: float
    trace: float
    shape: float


def plateau(K: int, M: int, *, eta: float, noise: float = 0.0, gradient_flow: bool = False) -> "Plateau":
    r"""Fixed point R = 0, Q = q I before the teacher is found, and the rates around it.

    In gradient flow, :math:`q = K/(K+2)` with rates :math:`4\eta/(KM)` (escape), :math:`-4\eta/K` (trace),
    :math:`-8\eta/(K(K+2))` (shape). At finite eta, :math:`q = uK/(K+2)` with the smaller root u of
    :math:`2hc_2u^2 - (1+4h)u + 1 + 2h(c_0+\sigma^2) = 0`.

    Parameters
    ----------
    K, M : int
        Widths of student and teacher.
    eta : float
        Learning rate, below :func:`eta_plateau`.
    noise : float
        Standard deviation of the label noise.
    gradient_flow : bool
        Drop the terms of order eta^2.

    Returns
    -------
    Plateau

    Raises
    ------
    ValueError
        No plateau exists at this eta: the norm diverges.

    Notes
    -----
    Exact for N -> infinity. The gradient-flow values are those of Bocchi et al. (2026), arXiv:2604.03068, (9), (10),
    (11) = (35), (12) = (36), with the sign of omega_Q corrected; finite eta is derived here.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> quadratic.plateau(6, 3, eta=0.2, gradient_flow=True).q
    0.75
    >>> round(quadratic.plateau(3, 3, eta=0.2).escape, 6)
    0.078798
    """
    K, M, eta, noise = checked(K, M, eta, noise)
    h, c0, c2 = eta / (2 * K), 1 + 2 / M, (K + 4) / (K + 2)
    second = 0.0 if check.flag("gradient_flow", gradient_flow) else 16 * h**2
    u = 1.0 if gradient_flow else _roots(K, M, eta, noise)[0]
    q = u * K / (K + 2)
    delta = 1 - q
    error = delta**2 + 2 * q**2 / K + 2 / M  # E Delta^2 without noise
    return Plateau(
        q=q,
        eps_g=error / 2,
        escape=4 * h * (c0 - u),
        trace=u * (-8 * h + 2 * second * (c2 * u - 1)),
        shape=8 * h * (delta - 4 * q / K) + second * (error + noise**2 - 8 * delta * q / K + 24 * q**2 / K**2),
    )


def escape_amplitude(
    K: int, M: int, *, eta: float, q0: float, noise: float = 0.0, gradient_flow: bool = False
) -> float:
    r"""Factor a in R(alpha) = a R(0) exp(escape alpha), for small R from Q(0) = q0 I.

    The students' norm moves to the plateau first, and R grows with it:

    .. math:: a = \Big[\frac{u_1}{u_0}\,\frac{u_2-u_0}{u_2-u_1}\Big]^{1/(4hc_2u_2)} \to \sqrt{q/q_0}
              \quad (\eta \to 0)

    with :math:`u_0` the start and :math:`u_1 < u_2` the stable and unstable norms.

    Parameters
    ----------
    K, M, eta, noise, gradient_flow
        As in :func:`plateau`.
    q0 : float
        Initial norm, > 0 and below the unstable one.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        q0 lies beyond the unstable norm, where the students diverge; or no plateau exists.

    Notes
    -----
    Asymptotic: R -> 0, after the transient of the norm. Derived here.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> quadratic.escape_amplitude(2, 1, eta=0.1, q0=2.0, gradient_flow=True)  # q = 1/2: sqrt(0.5 / 2)
    0.5
    """
    K, M, eta, noise = checked(K, M, eta, noise)
    q0 = check.number("q0", q0, above=0)
    if check.flag("gradient_flow", gradient_flow):
        return float(np.sqrt(K / (K + 2) / q0))
    h, c2 = eta / (2 * K), (K + 4) / (K + 2)
    stable, unstable = _roots(K, M, eta, noise)
    u0 = q0 * (K + 2) / K
    if u0 >= unstable:
        raise ValueError(
            f"q0 = {q0:g} is beyond the unstable norm {unstable * K / (K + 2):.6g}; expected a smaller q0 "
            "(or a smaller eta): from there the students' norm diverges."
        )
    ratio = stable / u0 * (unstable - u0) / (unstable - stable)
    return float(ratio ** (1 / (4 * h * c2 * unstable)))


def escape_law(
    alpha: ArrayLike,
    K: int,
    M: int,
    *,
    eta: float,
    eps: float,
    q0: float | None = None,
    noise: float = 0.0,
    gradient_flow: bool = False,
) -> Floats:
    r"""Mean eps_g at the beginning of the escape, over starts R(0) ~ N(0, eps^2), Q(0) = q0 I.

    .. math:: \langle\epsilon_g\rangle = \epsilon_g^{\rm plateau}
              - g\,KM\epsilon^2 a^2 e^{2\omega\alpha}, \qquad g \to \frac{2}{KM} \quad (\eta \to 0)

    with the escape rate omega and the amplitude a of :func:`escape_amplitude`. At finite eta, g also contains the
    response of tr Q to the growing R.

    Parameters
    ----------
    alpha : array_like
        Times.
    K, M, eta, noise, gradient_flow
        As in :func:`plateau`.
    eps : float
        Standard deviation of the initial overlaps.
    q0 : float, optional
        Initial norm; by default that of the plateau (a = 1), as in Bocchi et al. (2026), eq. (13).

    Returns
    -------
    ndarray
        Shape of alpha.

    Notes
    -----
    Asymptotic: eps -> 0 at fixed eps exp(omega alpha) << 1, after the transient of the norm. Bocchi et al. (2026),
    arXiv:2604.03068, eq. (13), is the gradient flow from the plateau; its t is alpha eta_paper / K. The rest is derived
    here.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> law = quadratic.escape_law([0.0, 10.0], 3, 3, eta=0.2, eps=1e-3)
    >>> law[1] < law[0]
    np.True_
    """
    state = plateau(K, M, eta=eta, noise=noise, gradient_flow=gradient_flow)
    eps = check.number("eps", eps, least=0)
    alpha = check.array("alpha", alpha, (...,))
    h, q = eta / (2 * K), state.q
    second = 0.0 if gradient_flow else 16 * h**2
    amplitude = 1.0
    if q0 is not None:
        amplitude = escape_amplitude(K, M, eta=eta, q0=q0, noise=noise, gradient_flow=gradient_flow)
    delta = 1 - q
    # P = R R^T drives tr Q, which answers at the rate 2 omega of P; the error is E Delta^2 = 2 eps_g
    source = 16 * h / M + second * (4 * (delta - q) / M - 16 * q / (K * M) + 8 / M**2)
    response = source / (2 * state.escape - state.trace)
    gain = 4 / (K * M) - response * (4 * q / K - 2 * delta) / K
    return state.eps_g - gain / 2 * K * M * eps**2 * amplitude**2 * np.exp(2 * state.escape * alpha)


def eta_plateau(K: int, M: int, *, noise: float = 0.0) -> float:
    r"""Learning rate above which the norm diverges before the teacher is found: no plateau exists.

    .. math:: \eta = \frac{K}{2}\,
       \frac{\sqrt{(c_2-1)^2 + (c_0+\sigma^2)c_2 - 1} - (c_2-1)}{(c_0+\sigma^2)c_2 - 1}

    Parameters
    ----------
    K, M, noise
        As in :func:`plateau`.

    Returns
    -------
    float

    Notes
    -----
    Exact for N -> infinity; derived here. Bocchi et al.'s eta is half of it.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> round(quadratic.eta_plateau(20, 3), 12)
    10.0
    """
    K, M, _, noise = checked(K, M, 1.0, noise)
    c0, c2 = 1 + 2 / M + noise**2, (K + 4) / (K + 2)
    return float(K / 2 * (np.sqrt((c2 - 1) ** 2 + c0 * c2 - 1) - (c2 - 1)) / (c0 * c2 - 1))


def eta_solution(K: int, M: int) -> float:
    r"""Learning rate above which the zero-error solutions are unstable.

    .. math:: \eta_{\rm solution} = \frac{K M}{2(M + 2)}

    Parameters
    ----------
    K, M : int
        Widths of student and teacher, K >= M.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        K < M: no zero-error solution exists.

    Notes
    -----
    Exact for N -> infinity (linear stability); derived here. Bocchi et al.'s eta is half of it.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> quadratic.eta_solution(6, 3)
    1.8
    """
    K, M = realisable(K, M)
    return K * M / (2 * (M + 2))


def eta_escape(K: int, M: int, *, noise: float = 0.0) -> float:
    r"""Learning rate of the fastest escape from the plateau, in the limit of small initial overlaps.

    At the maximum of 4h(c0 - u), w = hu and h obey

    .. math:: 4(c_0c_2-1)\,w = c_0 - 1 - 4h\sigma^2, \qquad 2c_2w^2 - (1+4h)w + h + 2h^2(c_0+\sigma^2) = 0.

    It may exceed :func:`eta_solution` (wide students), so that learning does not end: see :func:`eta_optimal`. The
    fastest half-loss time, from overlaps of 0.01, is at 0.9 of it.

    Parameters
    ----------
    K, M, noise
        As in :func:`plateau`.

    Returns
    -------
    float

    Notes
    -----
    Exact for N -> infinity and R -> 0; derived here. Bocchi et al.'s eta is half of it.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> round(quadratic.eta_escape(1, 1), 8)
    0.15236893
    """
    K, M, _, noise = checked(K, M, 1.0, noise)
    c0, c2 = 1 + 2 / M, (K + 4) / (K + 2)
    w0, slope = (c0 - 1) / (4 * (c0 * c2 - 1)), noise**2 / (c0 * c2 - 1)  # w = w0 - slope h
    a = 2 * c2 * slope**2 + 4 * slope + 2 * (c0 + noise**2)
    b = 1 - 4 * w0 + slope - 4 * c2 * w0 * slope
    c = 2 * c2 * w0**2 - w0
    return float(K * (np.sqrt(b * b - 4 * a * c) - b) / a)


def eta_descent(K: int, M: int) -> float:
    r"""Learning rate of the fastest end of learning: above it, the noise of SGD slows the last descent down.

    .. math:: \eta_{\rm descent} = \eta_{\rm solution} \cdot
              \begin{cases} \tfrac12 & K = M \\
              \dfrac{4}{3 + m + \sqrt{(3+m)^2 - 16m}}, \quad m = \dfrac{2}{M+2} & K > M \end{cases}

    It maximises the decay rate of :func:`solution_rate` if K = M, and minimises :func:`final_descent` at given alpha if
    K > M, where the factor lies between 2/3 and 3/4.

    Parameters
    ----------
    K, M : int
        Widths of student and teacher, K >= M.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        K < M: no zero-error solution exists.

    Notes
    -----
    Asymptotic (alpha -> infinity, without label noise); derived here. Bocchi et al.'s eta is half of it.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> quadratic.eta_descent(3, 3), round(quadratic.eta_descent(20, 3), 3)
    (0.45, 4.232)
    """
    limit, m = eta_solution(K, M), 2 / (M + 2)
    return limit / 2 if K == M else float(limit * 4 / (3 + m + np.sqrt((3 + m) ** 2 - 16 * m)))


def eta_optimal(K: int, M: int, *, noise: float = 0.0) -> float:
    r"""Largest useful learning rate: beyond it the escape from the plateau, or the end of learning, becomes slower.

    .. math:: \eta_{\rm optimal} = \min(\eta_{\rm escape}, \eta_{\rm descent})

    Well below :func:`eta_solution`, where errors do not decay: runs at this rate converge.

    Parameters
    ----------
    K, M : int
        Widths of student and teacher, K >= M.
    noise : float
        Standard deviation of the label noise, as it acts on the escape; what it leaves in the end is
        :func:`noise_floor`.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        K < M: no zero-error solution exists; :func:`eta_escape` has an answer.

    Notes
    -----
    Heuristic: a compromise of two asymptotic optima, derived here. From overlaps of 0.01, the time to eps_g = 1e-3 is
    within 5 % of the shortest one (K, M = 3, 3 and 6, 3). For the half-loss time alone see :func:`eta_fastest`. Bocchi
    et al.'s eta is half of it.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> round(quadratic.eta_optimal(20, 3) / quadratic.eta_solution(20, 3), 3)
    0.705
    """
    # test: tests/theory/quadratic/test_phases.py::test_learning_at_eta_optimal_is_nearly_the_fastest
    return min(eta_escape(K, M, noise=noise), eta_descent(K, M))


def solution_rate(K: int, M: int, *, eta: float, gradient_flow: bool = False) -> float:
    r"""Rate of eps_g near the zero-error solutions, :math:`-\frac{8\eta}{KM}(1 - \eta/\eta_{\rm solution})`.

    The slowest exponential of the linearised flow; positive where it is unstable. With K = M it is the end of learning,
    with K > M the end is algebraic (:func:`final_descent`).

    Parameters
    ----------
    K, M : int
        Widths of student and teacher, K >= M.
    eta : float
        Learning rate.
    gradient_flow : bool
        Drop the terms of order eta^2.

    Returns
    -------
    float
        Per unit alpha.

    Raises
    ------
    ValueError
        K < M: no zero-error solution exists; eta that is not positive.

    Notes
    -----
    Exact for N -> infinity; derived here.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> quadratic.solution_rate(3, 3, eta=0.9)  # eta_solution
    -0.0
    """
    K, M = realisable(K, M)
    eta = check.number("eta", eta, above=0)
    return -8 * eta / (K * M) * (1 - (0.0 if check.flag("gradient_flow", gradient_flow) else eta / eta_solution(K, M)))


def final_descent(
    alpha: ArrayLike, K: int, M: int, *, eta: float, noise: float = 0.0, gradient_flow: bool = False
) -> Floats:
    r"""End of learning of an overparametrised network, K > M: algebraic, not exponential.

    .. math:: \epsilon_g \simeq \frac{(K-M)K^2(M+2)}{64(K+2)(\eta\alpha)^2}
              \Big[1 + \frac{2\eta/K}{1-\eta/\eta_{\rm solution}}\Big] + \epsilon_\infty

    The K - M unused directions of the student are flat to second order: their variance b obeys
    db/dalpha = -(8 eta/K^2) (K+2)/(M+2) b^2. The bracket is the noise of SGD; it is 1 in gradient flow. The last term
    is the :func:`noise_floor`, zero without label noise and in gradient flow.

    Parameters
    ----------
    alpha : array_like
        Times, > 0.
    K, M : int
        Widths, K > M.
    eta : float
        Learning rate, below :func:`eta_solution`.
    noise, gradient_flow
        As in :func:`plateau`.

    Returns
    -------
    ndarray
        eps_g, of the shape of alpha.

    Raises
    ------
    ValueError
        K <= M, eta above the stability limit, or times that are not positive.

    Notes
    -----
    Asymptotic: alpha -> infinity, small noise, leading order, with corrections of relative order 1/(eta alpha). Derived
    here.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> round(float(quadratic.final_descent(100.0, 6, 3, eta=0.2)), 6)
    0.002834
    """
    K, M = realisable(K, M)
    if K == M:
        raise ValueError(f"K = M = {K} ends exponentially, at the rate solution_rate(K, M, eta=...); expected K > M.")
    K, M, eta, noise = checked(K, M, eta, noise)
    gradient_flow = check.flag("gradient_flow", gradient_flow)
    bracket = 1.0 if gradient_flow else 1 + 2 * eta / K / _stability(K, M, eta)
    floor = 0.0 if gradient_flow else noise_floor(K, M, eta=eta, noise=noise)
    alpha = check.array("alpha", alpha, (...,))
    if np.any(alpha <= 0):
        raise ValueError(f"alpha has the entry {alpha.min():g}; expected times > 0: the law holds at late ones.")
    return (K - M) * K**2 * (M + 2) / (64 * (K + 2) * (eta * alpha) ** 2) * bracket + floor


def noise_floor(K: int, M: int, *, eta: float, noise: float) -> float:
    r"""Error that label noise leaves for alpha -> infinity.

    .. math:: \epsilon_\infty = \frac{\eta\sigma^2}{K\,(1 - \eta/\eta_{\rm solution})}

    Parameters
    ----------
    K, M : int
        Widths of student and teacher, K >= M.
    eta : float
        Learning rate, below :func:`eta_solution`.
    noise : float
        Standard deviation sigma of the label noise.

    Returns
    -------
    float
        eps_g, which does not count the noise of the labels itself.

    Raises
    ------
    ValueError
        K < M, or eta above the stability limit.

    Notes
    -----
    Exact for K = M and N -> infinity. For K > M the leading order in the noise, whose square also keeps the unused
    directions of the student alive: at noise 0.3 the floor is within 0.1 % of it for K, M, eta = 6, 3, 0.2 and within
    3 % for 5, 2, 0.6. Derived here.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> round(quadratic.noise_floor(6, 3, eta=0.2, noise=0.3), 6)
    0.003375
    """
    # test: tests/theory/quadratic/test_phases.py::test_label_noise_leaves_a_floor
    K, M, eta, noise = checked(K, M, eta, noise)
    return eta * noise**2 / (K * _stability(K, M, eta))


def realisable(K, M):
    """K and M, with a zero-error solution."""
    K, M = check.count("K", K), check.count("M", M)
    if K < M:
        raise ValueError(
            f"K = {K} < M = {M}: no zero-error solution exists; expected K >= M. The best a narrow student does is "
            "stationary_eps_g(K, M, 0, K)."
        )
    return K, M


def _stability(K, M, eta):
    """Distance 1 - eta/eta_solution to the limit of stability, > 0."""
    limit = eta_solution(K, M)
    if eta >= limit:
        raise ValueError(f"eta = {eta:g}; expected less than eta_solution = {limit:g}: the solutions are unstable.")
    return 1 - eta / limit


def checked(K, M, eta, noise):
    """The numbers of a setting, in range."""
    K, M = check.count("K", K), check.count("M", M)
    return K, M, check.number("eta", eta, above=0), check.number("noise", noise, least=0)


def _roots(K, M, eta, noise):
    """Stable and unstable u of the plateau at finite eta."""
    limit = eta_plateau(K, M, noise=noise)
    if eta > limit:
        raise ValueError(
            f"eta = {eta:g} is above eta_plateau = {limit:.8g}: the students' norm diverges and there is no plateau. "
            "Expected a smaller eta (bounds: eta_plateau, eta_solution)."
        )
    h, c0, c2 = eta / (2 * K), 1 + 2 / M + noise**2, (K + 4) / (K + 2)
    b = 1 + 4 * h
    root = np.sqrt(max(b * b - 8 * h * c2 * (1 + 2 * h * c0), 0.0))
    stable = 2 * (1 + 2 * h * c0) / (b + root)  # no difference of close numbers at small h
    return float(stable), float((b + root) / (4 * h * c2))
