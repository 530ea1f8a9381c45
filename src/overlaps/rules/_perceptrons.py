"""Rules for one student and one teacher in closed form: forces, and closures with the signature of all others.

Derived with Q = J^2, rho = R / sqrt(Q T), theta the angle of the weights, sigma = sgn nu flipped with probability p,
m = 1 - 2 p. Forces read the numbers of their rule behind theta. Values of the noise are signs.
"""

import math
from typing import NamedTuple

import numpy as np

from .._base.jit import jit
from ..gaussian.quadrature import graded
from ..gaussian.shifted import Phi, both, phi
from ..gaussian.tables import read


class PerceptronOptions(NamedTuple):
    """Numbers of the closed forms and of their one-dimensional sums."""

    hazard_fraction_from: float = 10.0  # argument from which the hazard of the normal law is a continued fraction
    series_angle: float = 0.05  # angle below which theta - sin cos is a series, because the difference loses digits
    max_exponent: float = 300.0  # clips factors, because the product of two larger ones overflows
    # Accuracy exp(-digits) of the trapezoid rule. With twice the digits, steps are half as long.
    digits: float = 36.0
    phi_zero_height: float = 2.8  # imaginary part of the zeros of Phi next to the real axis
    max_strip: float = 6.0  # half-width of the strip of analyticity in use; beyond it, the normal density grows
    max_log: float = 11.9  # |log(s / scale)| where tables of robust rules end


PERCEPTRON = PerceptronOptions()
# Nodes u > 0 and weights, in panels that shrink towards 0, where integrands have layers.
HALF_LINE = tuple(np.array(x[len(x) // 2 :]) for x in graded(24))


@jit(no_reference_counting=True)
def logistic(x):
    """1 / (1 + e^-x)."""
    return 1.0 / (1.0 + math.exp(-x)) if x > -700.0 else 0.0


@jit(no_reference_counting=True)
def hazard(x):
    """phi(x) / Phi(x)."""
    if x > -PERCEPTRON.hazard_fraction_from:
        return phi(x) / Phi(x)
    y = tail = -x
    for n in range(20, 0, -1):
        tail = y + n / tail
    return tail


@jit(no_reference_counting=True)
def angles(S):
    """(J, sqrt T, angle, sine of the angle, cosine of the angle)."""
    c, r = math.sqrt(max(S[0, 0] * S[1, 1] - S[0, 1] * S[0, 1], 0.0)), S[0, 1]
    theta, size = math.atan2(c, r), math.hypot(c, r)
    if size == 0.0:
        return math.sqrt(S[0, 0]), math.sqrt(S[1, 1]), 0.5 * math.pi, 1.0, 0.0
    return math.sqrt(S[0, 0]), math.sqrt(S[1, 1]), theta, c / size, r / size


@jit(no_reference_counting=True)
def angle_excess(theta):
    """Theta - sin(theta) cos(theta)."""
    if theta < PERCEPTRON.series_angle:
        square = theta * theta
        return 2 / 3 * theta * square * (1 - square / 5 * (1 - 2 * square / 21))
    return theta - math.sin(theta) * math.cos(theta)


def closed(moments):
    """The closure of a rule without theta from (a, b, c) = moments(J, sqrt T, angle, sine, cosine, numbers)."""
    moments = jit(moments)

    def closure(S, w, parameters, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
        J, root_t, angle, sin, cos = angles(S)
        a, b, c = moments(J, root_t, angle, sin, cos, parameters)
        A[0, 0], B[0, 0], C[0, 0], dv[0] = eta * a, eta * b, eta * eta * c, 0.0
        return angle / math.pi

    closure.__name__ = moments.__name__
    closure.__qualname__ = f"closed.{moments.__name__}"  # the symbol in machine code must be unique
    return jit(closure)


@jit
def wrong(lam, nu, theta):
    """0/1 error of one student and one teacher."""
    return 1.0 if lam[0] * nu[0] < 0.0 else 0.0


@jit
def distance(lam, nu, theta):
    """Half the squared difference of the fields."""
    return (lam[0] - nu[0]) ** 2 / 2


@jit
def hebb_force(lam, nu, xi, theta, S, F, G):
    F[0] = xi * np.sign(nu[0])


@closed
def hebb(J, root_t, angle, sin, cos, numbers):
    return 0.0, (1 - 2 * numbers[0]) * math.sqrt(2 / math.pi) / root_t, 1.0


@jit
def perceptron_force(lam, nu, xi, theta, S, F, G):
    F[0] = (xi * np.sign(nu[0]) - np.sign(lam[0])) / 2


@closed
def perceptron(J, root_t, angle, sin, cos, numbers):
    p, one = numbers[0], 1 / math.sqrt(2 * math.pi)
    return -one / J, (1 - 2 * p) * one / root_t, p + (1 - 2 * p) * angle / math.pi


@jit
def adatron_force(lam, nu, xi, theta, S, F, G):
    F[0] = -lam[0] if xi * nu[0] * lam[0] < 0.0 else 0.0


@closed
def adatron(J, root_t, angle, sin, cos, numbers):
    p = numbers[0]
    m = (1 - 2 * p) / math.pi
    return -p - m * angle, m * J / root_t * sin, J * J * (p + m * angle_excess(angle))


@jit
def hinge_force(lam, nu, xi, theta, S, F, G):
    F[0] = np.sign(nu[0]) if np.sign(nu[0]) * lam[0] < theta[1] else 0.0


@closed
def hinge(J, root_t, angle, sin, cos, numbers):
    h, sin = numbers[0] / J, max(sin, 1e-300)
    a = -2 * phi(h) / J * Phi(cos * h / sin)
    b = 2 * Phi(h / sin) / math.sqrt(2 * math.pi) / root_t
    return a, b, 1 - 2 * both(0.0, -h, cos)[0]


@jit
def logistic_force(lam, nu, xi, theta, S, F, G):
    label = xi * np.sign(nu[0])
    F[0] = label * logistic(-label * lam[0])


@closed
def logistic_sign(J, root_t, angle, sin, cos, numbers):
    slope = square = 0.0
    for i in range(len(HALF_LINE[0])):
        u, p = HALF_LINE[0][i], HALF_LINE[1][i]
        down = logistic(-J * u)
        right = Phi(cos / max(sin, 1e-300) * u)
        slope += 2 * p * down * (1 - down)
        square += 2 * p * (right * down * down + (1 - right) * (1 - down) ** 2)
    return -slope, 1 / math.sqrt(2 * math.pi) / root_t, square


@jit
def chance_logistic(nu, theta, p):
    """Label 1 with probability logistic(beta nu)."""
    p[0] = logistic(theta[1] * nu[0])
    p[1] = 1 - p[0]


@jit
def logistic_label_force(lam, nu, xi, theta, S, F, G):
    F[0] = xi * logistic(-xi * lam[0])


@jit(no_reference_counting=True)
def step_for(slope, pole=math.pi):
    """Step of a trapezoid rule for f(slope u) with normal weight; f has poles at +- i pole, the logistic at i pi."""
    strip = min(PERCEPTRON.max_strip, 0.95 * pole / max(slope, 1e-300))
    return 2 * math.pi * strip / (PERCEPTRON.digits + strip * strip / 2)


@jit(no_reference_counting=True)
def mean_slope(slope):
    """E[s'(slope u)] of the logistic function s."""
    h, total = step_for(slope), 0.0
    for i in range(int(8.6 / h) + 1):
        weight = h * phi(i * h) * (1.0 if i == 0 else 2.0)
        total += weight * logistic(slope * i * h) * logistic(-slope * i * h)
    return total


@jit(no_reference_counting=True)
def bounded_exp(x):
    """exp(x), with x clipped so that the product of two does not overflow."""
    return math.exp(min(max(x, -PERCEPTRON.max_exponent), PERCEPTRON.max_exponent))


@closed
def logistic_logistic(J, root_t, angle, sin, cos, numbers):
    steep, square = numbers[0] * root_t, 0.0
    h, k = step_for(max(J, abs(steep * cos))), step_for(abs(steep * sin))
    m = int(8.6 / k) + 1
    weights, powers = np.empty(2 * m + 1), np.empty(2 * m + 1)
    for j in range(-m, m + 1):
        weights[m + j], powers[m + j] = k * phi(j * k), bounded_exp(-steep * sin * j * k)
    for i in range(int(8.6 / h) + 1):  # C = 2 E[s(beta nu) s(-lambda)^2], at u and -u
        down, power, mean = logistic(-J * i * h), bounded_exp(-steep * cos * i * h), 0.0
        for j in range(2 * m + 1):
            mean += weights[j] / (1 + power * powers[j])
        square += (h if i == 0 else 2 * h) * phi(i * h) * (down * down * mean + (1 - down) ** 2 * (1 - mean))
    return -mean_slope(J), numbers[0] * mean_slope(abs(steep)), square


@jit
def least_squares_force(lam, nu, xi, theta, S, F, G):
    F[0] = xi * np.sign(nu[0]) - lam[0]


@closed
def least_squares(J, root_t, angle, sin, cos, numbers):
    b = (1 - 2 * numbers[0]) * math.sqrt(2 / math.pi) / root_t
    return -1.0, b, 1 - 2 * b * J * root_t * cos + J * J


@jit
def optimal_force(lam, nu, xi, theta, S, F, G):
    J, root_t, angle, sin, cos = angles(S)
    label = np.sign(nu[0])
    F[0] = J * sin / cos * label * hazard(label * cos * lam[0] / (J * max(sin, 1e-300)))


@closed
def optimal(J, root_t, angle, sin, cos, numbers):
    steep = cos / max(sin, 1e-300)
    h, H, i = step_for(steep, PERCEPTRON.phi_zero_height), 0.0, 0
    while i * h < 8.6 and steep * i * h < 10.0:  # beyond x = 10, phi(x)^2 is negligible
        x, tail = steep * i * h, Phi(-steep * i * h)
        H += (h if i == 0 else 2 * h) * phi(i * h) * phi(x) ** 2 / (tail * (1 - tail))
        i += 1
    c = J * J * (sin / cos) ** 2 * H
    factor = cos * c * root_t / J / (J * root_t * sin) ** 2
    return -factor * J * root_t * cos, factor * J * J, c


@jit
def residual_force(lam, nu, xi, theta, S, F, G):
    D, clip = lam[0] - nu[0] - xi, theta[1]
    F[0] = -np.sign(D) if clip == 0.0 else -min(max(D, -clip), clip)


@jit
def residual(S, w, parameters, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
    """Parameters: clip, scale of the law, and the table of (a, E[psi^2]) as functions of log(s / scale)."""
    square = max(S[0, 0] - 2 * S[0, 1] + S[1, 1], 0.0)
    x = min(max(math.log(max(square, 1e-300)) / 2 - math.log(parameters[1]), -PERCEPTRON.max_log), PERCEPTRON.max_log)
    a, c = read(parameters[2:], 0, x), read(parameters[2:], 1, x)
    A[0, 0], B[0, 0], C[0, 0], dv[0] = -eta * a, eta * a, eta * eta * c, 0.0
    return square / 2
