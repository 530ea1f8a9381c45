r"""Quadratic networks whose students keep their norms (``constraint="sphere"``).

The projection takes from every student half the relative growth of its norm: with the notation of
:mod:`overlaps.theory.quadratic.phases`, students Q = q I and overlaps R -> 0,

.. math:: \mu = 4h(1-u) + 8h^2(c_0 + \sigma^2 - 2u + c_2 u^2), \qquad d\ln R/d\alpha = 4h(c_0 - u) - \mu.
"""

from ..._base import check
from .phases import Network, Plateau

__all__ = ["sphere_eta_escape", "sphere_plateau"]


def sphere_plateau(
    K: int, M: int, *, eta: float, q: float = 1.0, noise: float = 0.0, gradient_flow: bool = False
) -> Plateau:
    r"""Plateau R = 0, Q = q I of students on spheres, and the rates around it.

    .. math:: \frac{d\ln R}{d\alpha} = \frac{8h}{M} - 8h^2(c_0 + \sigma^2 - 2u + c_2 u^2), \qquad
              h = \frac{\eta}{2K}, \quad u = \frac{K+2}{K}\,q

    with :math:`c_0 = 1 + 2/M`, :math:`c_2 = (K+4)/(K+2)`. Without the noise of SGD it is :math:`4\eta/(KM)`, the rate
    of free students, at every norm; the noise slows it down. For q = 1 the bracket is :math:`2/K + 2/M + 8/K^2 +
    \sigma^2`. Exact for N -> infinity and R -> 0; derived here.

    Parameters
    ----------
    K, M, eta, noise, gradient_flow
        As in :func:`plateau`.
    q : float
        Squared norm of the students.

    Returns
    -------
    Plateau
        ``trace`` is 0: norms do not move. A negative ``escape`` says that teachers are never found.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> free, sphere = quadratic.plateau(3, 3, eta=0.2), quadratic.sphere_plateau(3, 3, eta=0.2)
    >>> round(free.escape, 6), round(sphere.escape, 6)
    (0.078798, 0.069136)
    """
    K, M, _, noise, gradient_flow = net = Network.checked(K, M, eta, noise, gradient_flow)
    q = check.number("q", q, above=0)
    h, delta, second = net.h, 1 - q, 0.0 if gradient_flow else 1.0
    error = delta**2 + 2 * q**2 / K + 2 / M  # E Delta^2 without noise
    mu = 4 * h * (delta - 2 * q / K) + 8 * second * h**2 * _spread(K, M, q, noise)
    shape = 8 * h * (delta - 4 * q / K) + 16 * second * h**2 * (error + noise**2 - 8 * delta * q / K + 24 * q**2 / K**2)
    return Plateau(q, error / 2, 4 * h * (delta + 2 / M - 2 * q / K) - mu, 0.0, shape - 2 * mu)


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
    K, M, _, noise, _ = Network.checked(K, M, noise=noise)
    return float(K / (M * _spread(K, M, check.number("q", q, above=0), noise)))


def _spread(K, M, q, noise):
    """The bracket: E Delta^2 lambda_k^2 / q of a student on the plateau, with label noise."""
    u = q * (K + 2) / K
    return 1 + 2 / M + noise**2 - 2 * u + (K + 4) / (K + 2) * u**2
