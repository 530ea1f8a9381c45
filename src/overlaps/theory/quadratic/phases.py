r"""Plateau, escape, end of learning and learning-rate bounds of quadratic networks.

Notation of this module: h = eta / (2 K), c0 = 1 + 2/M, c2 = (K + 4)/(K + 2), and u = q (K + 2)/K for students
Q = q I; on the plateau of gradient flow u = 1.  Without overlap with the teacher (R = 0),

.. math:: dq/d\alpha = q\,[8h(1-u) + 16h^2(c_0 + \sigma^2 - 2u + c_2 u^2)], \qquad d\ln R/d\alpha = 4h(c_0 - u).

:func:`plateau` explains the parameters of all functions. Learning rates are twice those of Bocchi et al. (2026),
arXiv:2604.03068; all is at N -> infinity, and derived here where no equation of theirs is named. Where zero error is
needed, K < M raises a ``ValueError``, and so does an eta at which the quantity does not exist.
"""

from typing import NamedTuple

import numpy as np

from ..._base import ArrayLike, Floats, check

__all__ = [
    "PlateauRates", "escape_amplitude", "escape_law", "eta_descent", "eta_escape", "eta_optimal", "eta_plateau",
    "eta_solution", "final_descent", "noise_floor", "plateau", "solution_rate", "sphere_eta_escape", "sphere_plateau",
]  # fmt: skip


class PlateauRates(NamedTuple):
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


class QuadraticNetwork(NamedTuple):
    """Widths, learning rate and noise of a quadratic network, and h, c0, c2 of the module docstring."""

    K: int
    M: int
    eta: float
    noise: float
    gradient_flow: bool
    h: float
    c0: float
    c2: float
    second: float  # weight of the terms of order eta^2

    @classmethod
    def checked(cls, K, M, eta=1.0, noise=0.0, gradient_flow=False):
        """From arguments of public functions."""
        K, M = check.count("K", K), check.count("M", M)
        eta, noise = check.number("eta", eta, above=0), check.number("noise", noise, least=0)
        flow, h = check.flag("gradient_flow", gradient_flow), eta / (2 * K)
        return cls(K, M, eta, noise, flow, h, 1 + 2 / M, (K + 4) / (K + 2), 0.0 if flow else 16 * h**2)

    def norms(self, b=1):
        """Stable and unstable u of the plateau at finite eta, for batches of size b: those of eta / b."""
        limit = b * eta_plateau(self.K, self.M, noise=self.noise)
        if self.eta > limit:
            raise ValueError(
                f"eta = {self.eta:g} is above {'' if b == 1 else f'{b} '}eta_plateau = {limit:.8g}: the students' norm "
                "diverges and there is no plateau. Expected a smaller eta (bounds: eta_plateau, eta_solution)."
            )
        h, c0, c2 = self.h / b, self.c0 + self.noise**2, self.c2
        b = 1 + 4 * h
        root = np.sqrt(max(b * b - 8 * h * c2 * (1 + 2 * h * c0), 0.0))
        # written without cancellation at small h
        return float(2 * (1 + 2 * h * c0) / (b + root)), float((b + root) / (4 * h * c2))

    def norms_from(self, q0, b=1):
        """Stable and unstable u, and the u of a start with norm q0, which has to be below the unstable one."""
        stable, unstable = self.norms(b)
        u0 = q0 * (self.K + 2) / self.K
        if u0 >= unstable:
            raise ValueError(
                f"q0 = {q0:g} is beyond the unstable norm {unstable * self.K / (self.K + 2):.6g}; expected a smaller "
                "q0 (or a smaller eta): from there the students' norm diverges."
            )
        return stable, unstable, u0

    def stability(self):
        """Distance 1 - eta/eta_solution to the limit of stability, > 0."""
        limit = eta_solution(self.K, self.M)
        if self.eta >= limit:
            raise ValueError(
                f"eta = {self.eta:g}; expected less than eta_solution = {limit:g}: the solutions are unstable."
            )
        return 1 - self.eta / limit

    def spread(self, u):
        """E Delta^2 lambda_k^2 / q of a student at R = 0, Q = q I with q = uK/(K+2), label noise included."""
        return self.c0 + self.noise**2 - 2 * u + self.c2 * u**2

    def around(self, q):
        """E Delta^2 without noise at R = 0, Q = q I, and the rate of the shape of Q."""
        K, delta = self.K, 1 - q
        error = delta**2 + 2 * q**2 / K + 2 / self.M
        noisy = error + self.noise**2 - 8 * delta * q / K + 24 * q**2 / K**2
        return error, 8 * self.h * (delta - 4 * q / K) + self.second * noisy


def plateau(K: int, M: int, *, eta: float, noise: float = 0.0, gradient_flow: bool = False) -> "PlateauRates":
    r"""Fixed point R = 0, Q = q I before the teacher is found, and the rates around it.

    In gradient flow, :math:`q = K/(K+2)` with rates :math:`4\eta/(KM)` (escape), :math:`-4\eta/K` (trace),
    :math:`-8\eta/(K(K+2))` (shape). At finite eta, :math:`q = uK/(K+2)` with the smaller root u of
    :math:`2hc_2u^2 - (1+4h)u + 1 + 2h(c_0+\sigma^2) = 0`. Exact. The gradient-flow values are (9), (10), (11) = (35),
    (12) = (36) of Bocchi et al. with the sign of omega_Q corrected.

    Parameters
    ----------
    K, M : int
        Widths of student and teacher.
    eta : float
        Learning rate, below :func:`eta_plateau`; for the end of learning, below :func:`eta_solution`.
    noise : float
        Standard deviation sigma of the label noise.
    gradient_flow : bool
        Drop the terms of order eta^2.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> quadratic.plateau(6, 3, eta=0.2, gradient_flow=True).q
    0.75
    >>> round(quadratic.plateau(3, 3, eta=0.2).escape, 6)
    0.078798
    """
    net = QuadraticNetwork.checked(K, M, eta, noise, gradient_flow)
    u = 1.0 if net.gradient_flow else net.norms()[0]
    q = u * net.K / (net.K + 2)
    error, shape = net.around(q)
    trace = u * (-8 * net.h + 2 * net.second * (net.c2 * u - 1))
    return PlateauRates(q, error / 2, 4 * net.h * (net.c0 - u), trace, shape)


def escape_amplitude(
    K: int, M: int, *, eta: float, q0: float, noise: float = 0.0, gradient_flow: bool = False
) -> float:
    r"""Factor a in R(alpha) = a R(0) exp(escape alpha), for small R from Q(0) = q0 I.

    The students' norm moves to the plateau first, and R grows with it. With :math:`u_0` the start and
    :math:`u_1 < u_2` the stable and unstable norms,

    .. math:: a = \Big[\frac{u_1}{u_0}\,\frac{u_2-u_0}{u_2-u_1}\Big]^{1/(4hc_2u_2)} \to \sqrt{q/q_0}
              \quad (\eta \to 0) .

    Asymptotic: R -> 0, after the transient of the norm.

    Parameters
    ----------
    K, M, eta, noise, gradient_flow
        As in :func:`plateau`.
    q0 : float
        Initial norm, > 0 and below the unstable one, beyond which the students diverge.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> quadratic.escape_amplitude(2, 1, eta=0.1, q0=2.0, gradient_flow=True)  # q = 1/2: sqrt(0.5 / 2)
    0.5
    """
    K, _, _, _, gradient_flow, *_ = net = QuadraticNetwork.checked(K, M, eta, noise, gradient_flow)
    q0 = check.number("q0", q0, above=0)
    if gradient_flow:
        return float(np.sqrt(K / (K + 2) / q0))
    stable, unstable, u0 = net.norms_from(q0)
    ratio = stable / u0 * (unstable - u0) / (unstable - stable)
    return float(ratio ** (1 / (4 * net.h * net.c2 * unstable)))


def escape_law(
    alpha: ArrayLike, K: int, M: int, *, eta: float, eps: float, q0: float | None = None, noise: float = 0.0,
    gradient_flow: bool = False,
) -> Floats:  # fmt: skip
    r"""Mean eps_g at the beginning of the escape, over starts R(0) ~ N(0, eps^2), Q(0) = q0 I.

    .. math:: \langle\epsilon_g\rangle = \epsilon_g^{\rm plateau}
              - g\,KM\epsilon^2 a^2 e^{2\omega\alpha}, \qquad g \to \frac{2}{KM} \quad (\eta \to 0)

    with the escape rate omega and the amplitude a of :func:`escape_amplitude`. At finite eta, g also contains the
    response of tr Q to the growing R. Asymptotic: eps -> 0 at fixed eps exp(omega alpha) << 1, after the transient of
    the norm. (13) of Bocchi et al. is the gradient flow from the plateau; their t is alpha eta_paper / K.

    Parameters
    ----------
    alpha : array_like
        Times.
    K, M, eta, noise, gradient_flow
        As in :func:`plateau`.
    eps : float
        Standard deviation of the initial overlaps.
    q0 : float, optional
        Initial norm; by default the plateau's (a = 1).

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> law = quadratic.escape_law([0.0, 10.0], 3, 3, eta=0.2, eps=1e-3)
    >>> law[1] < law[0]
    np.True_
    """
    K, M, eta, noise, gradient_flow, *_ = net = QuadraticNetwork.checked(K, M, eta, noise, gradient_flow)
    options = {"eta": eta, "noise": noise, "gradient_flow": gradient_flow}
    state = plateau(K, M, **options)
    eps, alpha = check.number("eps", eps, least=0), check.array("alpha", alpha, (...,))
    amplitude = 1.0 if q0 is None else escape_amplitude(K, M, q0=q0, **options)
    q, delta = state.q, 1 - state.q
    # P = R R^T drives tr Q, which responds at the rate 2 omega of P; the error is E Delta^2 = 2 eps_g
    source = 16 * net.h / M + net.second * (4 * (delta - q) / M - 16 * q / (K * M) + 8 / M**2)
    response = source / (2 * state.escape - state.trace)
    gain = 4 / (K * M) - response * (4 * q / K - 2 * delta) / K
    return state.eps_g - gain / 2 * K * M * eps**2 * amplitude**2 * np.exp(2 * state.escape * alpha)


def eta_plateau(K: int, M: int, *, noise: float = 0.0) -> float:
    r"""Learning rate above which the norm diverges before the teacher is found: no plateau exists. Exact.

    .. math:: \eta = \frac{K}{2}\,
       \frac{\sqrt{(c_2-1)^2 + (c_0+\sigma^2)c_2 - 1} - (c_2-1)}{(c_0+\sigma^2)c_2 - 1}

    Parameters
    ----------
    K, M, noise
        As in :func:`plateau`.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> round(quadratic.eta_plateau(20, 3), 12)
    10.0
    """
    net = QuadraticNetwork.checked(K, M, noise=noise)
    K, c0, c2 = net.K, net.c0 + net.noise**2, net.c2
    return float(K / 2 * (np.sqrt((c2 - 1) ** 2 + c0 * c2 - 1) - (c2 - 1)) / (c0 * c2 - 1))


def eta_solution(K: int, M: int) -> float:
    r"""Learning rate K M / (2 (M + 2)) above which the zero-error solutions are linearly unstable. Exact.

    Parameters
    ----------
    K, M
        As in :func:`plateau`; K >= M.

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

    Exact for R -> 0. It may exceed :func:`eta_solution` (wide students); learning then does not end: see
    :func:`eta_optimal`. The fastest half-loss time, from overlaps of 0.01, is at 0.9 of it.

    Parameters
    ----------
    K, M, noise
        As in :func:`plateau`.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> round(quadratic.eta_escape(1, 1), 8)
    0.15236893
    """
    K, _, _, noise, *_ = net = QuadraticNetwork.checked(K, M, noise=noise)
    c0, c2 = net.c0, net.c2
    w0, slope = (c0 - 1) / (4 * (c0 * c2 - 1)), noise**2 / (c0 * c2 - 1)  # w = w0 - slope h
    a = 2 * c2 * slope**2 + 4 * slope + 2 * (c0 + noise**2)
    b = 1 - 4 * w0 + slope - 4 * c2 * w0 * slope
    c = 2 * c2 * w0**2 - w0
    return float(K * (np.sqrt(b * b - 4 * a * c) - b) / a)


def eta_descent(K: int, M: int) -> float:
    r"""Learning rate of the fastest end of learning: above it, the noise of SGD slows the last descent.

    .. math:: \eta_{\rm descent} = \eta_{\rm solution} \cdot
              \begin{cases} \tfrac12 & K = M \\
              \dfrac{4}{3 + m + \sqrt{(3+m)^2 - 16m}}, \quad m = \dfrac{2}{M+2} & K > M \end{cases}

    It maximises the decay rate of :func:`solution_rate` if K = M, and minimises :func:`final_descent` at given alpha if
    K > M, where the factor lies between 2/3 and 3/4. Asymptotic: alpha -> infinity, without label noise.

    Parameters
    ----------
    K, M
        As in :func:`plateau`; K >= M.

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

    The lesser of :func:`eta_escape` and :func:`eta_descent`, well below :func:`eta_solution`, where errors do not
    decay. Heuristic: a compromise of two asymptotic optima. For the half-loss time alone see :func:`eta_fastest`.

    Parameters
    ----------
    K, M, noise
        As in :func:`plateau`; K >= M. The noise changes the escape; at the end it leaves :func:`noise_floor`.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> round(quadratic.eta_optimal(20, 3) / quadratic.eta_solution(20, 3), 3)
    0.705
    """
    return min(eta_escape(K, M, noise=noise), eta_descent(K, M))


def solution_rate(K: int, M: int, *, eta: float, gradient_flow: bool = False) -> float:
    r"""Rate of eps_g near the zero-error solutions, :math:`-\frac{8\eta}{KM}(1 - \eta/\eta_{\rm solution})`.

    The slowest exponential of the linearised flow, exact; positive where it is unstable. With K = M it is the end of
    learning, with K > M the end is algebraic (:func:`final_descent`).

    Parameters
    ----------
    K, M, eta, gradient_flow
        As in :func:`plateau`; K >= M.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> quadratic.solution_rate(3, 3, eta=0.9)  # eta_solution
    -0.0
    """
    (K, M), limit, eta = realisable(K, M), eta_solution(K, M), check.number("eta", eta, above=0)
    return -8 * eta / (K * M) * (1 - (0.0 if check.flag("gradient_flow", gradient_flow) else eta / limit))


def final_descent(
    alpha: ArrayLike, K: int, M: int, *, eta: float, noise: float = 0.0, gradient_flow: bool = False
) -> Floats:
    r"""End of learning of an overparametrised network, K > M: algebraic, not exponential.

    .. math:: \epsilon_g \simeq \frac{(K-M)K^2(M+2)}{64(K+2)(\eta\alpha)^2}
              \Big[1 + \frac{2\eta/K}{1-\eta/\eta_{\rm solution}}\Big] + \epsilon_\infty

    The K - M unused directions of the student are flat to second order: their variance b obeys
    db/dalpha = -(8 eta/K^2) (K+2)/(M+2) b^2. The bracket is the noise of SGD; it is 1 in gradient flow. The last term
    is the :func:`noise_floor`, zero without label noise and in gradient flow. Asymptotic: alpha -> infinity, small
    noise, leading order, with corrections of relative order 1/(eta alpha).

    Parameters
    ----------
    alpha : array_like
        Times, > 0.
    K, M, eta, noise, gradient_flow
        As in :func:`plateau`; K > M.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> round(float(quadratic.final_descent(100.0, 6, 3, eta=0.2)), 6)
    0.002834
    """
    K, M = realisable(K, M)
    if K == M:
        raise ValueError(f"K = M = {K} ends exponentially, at the rate solution_rate(K, M, eta=...); expected K > M.")
    _, _, eta, noise, gradient_flow, *_ = net = QuadraticNetwork.checked(K, M, eta, noise, gradient_flow)
    bracket = 1.0 if gradient_flow else 1 + 2 * eta / K / net.stability()
    floor = 0.0 if gradient_flow else noise_floor(K, M, eta=eta, noise=noise)
    alpha = check.array("alpha", alpha, (...,))
    if np.any(alpha <= 0):
        raise ValueError(f"alpha has the entry {alpha.min():g}; expected times > 0: the law holds at late times.")
    return (K - M) * K**2 * (M + 2) / (64 * (K + 2) * (eta * alpha) ** 2) * bracket + floor


def noise_floor(K: int, M: int, *, eta: float, noise: float) -> float:
    r"""Error that label noise leaves for alpha -> infinity; eps_g does not count the noise of the labels itself.

    .. math:: \epsilon_\infty = \frac{\eta\sigma^2}{K\,(1 - \eta/\eta_{\rm solution})}

    Exact for K = M. For K > M it is the leading order in the noise, whose square also drives the unused directions.

    Parameters
    ----------
    K, M, eta, noise
        As in :func:`plateau`; K >= M.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> round(quadratic.noise_floor(6, 3, eta=0.2, noise=0.3), 6)
    0.003375
    """
    K, _, eta, noise, *_ = net = QuadraticNetwork.checked(K, M, eta, noise)
    return eta * noise**2 / (K * net.stability())


def realisable(K, M):
    """K and M, checked to have a zero-error solution."""
    K, M = check.count("K", K), check.count("M", M)
    if K < M:
        raise ValueError(
            f"K = {K} < M = {M}: no zero-error solution exists; expected K >= M. The least error of a narrow student "
            "is stationary_eps_g(K, M, 0, K)."
        )
    return K, M


# on spheres -----------------------------------------------------------------------------------------------------------


def sphere_plateau(
    K: int, M: int, *, eta: float, q: float = 1.0, noise: float = 0.0, gradient_flow: bool = False
) -> PlateauRates:
    r"""Plateau R = 0, Q = q I of students that keep their norms (``constraint="sphere"``), and the rates around it.

    The projection takes half the relative growth of its norm, mu, from each student; u is (K + 2) q/K at every rate.

    .. math:: \mu = 4h(1-u) + 8h^2(c_0 + \sigma^2 - 2u + c_2 u^2), \qquad
              \frac{d\ln R}{d\alpha} = 4h(c_0 - u) - \mu = \frac{8h}{M} - 8h^2(c_0 + \sigma^2 - 2u + c_2 u^2)

    Exact for R -> 0. Without the noise of SGD it is :math:`4\eta/(KM)`, the rate of free students, at every norm; the
    noise slows it down. For q = 1 the bracket is :math:`2/K + 2/M + 8/K^2 + \sigma^2`. ``trace`` is 0: norms are
    constant. If ``escape`` is negative, teachers are never found.

    Parameters
    ----------
    K, M, eta, noise, gradient_flow
        As in :func:`plateau`.
    q : float
        Squared norm of the students.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> free, sphere = quadratic.plateau(3, 3, eta=0.2), quadratic.sphere_plateau(3, 3, eta=0.2)
    >>> round(free.escape, 6), round(sphere.escape, 6)
    (0.078798, 0.069136)
    """
    net, q = QuadraticNetwork.checked(K, M, eta, noise, gradient_flow), check.number("q", q, above=0)
    u, (error, shape) = q * (net.K + 2) / net.K, net.around(q)
    mu = 4 * net.h * (1 - u) + net.second / 2 * net.spread(u)
    return PlateauRates(q, error / 2, 4 * net.h * (net.c0 - u) - mu, 0.0, shape - 2 * mu)


def sphere_eta_escape(K: int, M: int, *, q: float = 1.0, noise: float = 0.0) -> float:
    r"""Learning rate of the fastest escape of students on spheres.

    .. math:: \eta = \frac{K}{M}\, \frac1{c_0 + \sigma^2 - 2u + c_2 u^2}, \qquad
              \frac{d\ln R}{d\alpha} = \frac{2\eta}{KM}

    Above twice this rate teachers are never found. Exact for N -> infinity and R -> 0; derived here. It may lie above
    :func:`eta_solution`, which is the limit of stability of the solutions on spheres of norm q = 1, too.

    Parameters
    ----------
    K, M, q, noise
        As in :func:`sphere_plateau`.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> eta = quadratic.sphere_eta_escape(3, 3)
    >>> round(eta, 6), round(quadratic.sphere_plateau(3, 3, eta=eta).escape, 6)
    (0.45, 0.1)
    """
    net, q = QuadraticNetwork.checked(K, M, noise=noise), check.number("q", q, above=0)
    return float(net.K / (net.M * net.spread(q * (net.K + 2) / net.K)))
