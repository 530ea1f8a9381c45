"""Rules for samples of several inputs, one student and one teacher: forces, and their closures in closed form.

Forces read the fields of all tokens in one array, and the numbers of the rule behind theta.
"""

import math

import numpy as np

from .._base.jit import jit
from ._perceptrons import closed


@jit(no_reference_counting=True)
def tail(n, trials, wrong):
    """P(at least n successes) in independent trials that fail with the probability ``wrong``."""
    if n <= 0 or (wrong <= 0.0 and n <= trials):
        return 1.0
    total = 0.0
    for s in range(n, trials + 1):
        ways = math.lgamma(trials + 1.0) - math.lgamma(s + 1.0) - math.lgamma(trials - s + 1.0)
        failures = (trials - s) * math.log(wrong) if s < trials else 0.0
        total += math.exp(ways + s * math.log1p(-wrong) + failures)
    return total


@jit(no_reference_counting=True)
def rewards(wrong, T, least, penalty, bonus):
    """(E r for a right answer, E r for a wrong one, E r^2) in an episode of T answers."""
    if_right, if_wrong = tail(least - 1, T - 1, wrong), tail(least, T - 1, wrong)
    square = (1 - wrong) * (if_right * (1 + bonus) ** 2 + (1 - if_right) * (bonus - penalty) ** 2)
    square += wrong * (if_wrong + (1 - if_wrong) * penalty**2)
    return if_right - (1 - if_right) * penalty + bonus, if_wrong - (1 - if_wrong) * penalty, square


@jit
def episode_force(lam, nu, xi, theta, S, F, G):
    T, right = lam.size, 0
    for a in range(T):
        right += lam[a] * nu[a] > 0.0
    reward = 1.0 if right >= theta[2] else -theta[3]
    for a in range(T):
        F[a] = np.sign(lam[a]) * (reward + (theta[4] if lam[a] * nu[a] > 0.0 else 0.0)) / T


@closed
def episode(J, root_t, angle, sin, cos, numbers):
    """The numbers are T, the required number of right answers, penalty, bonus."""
    T, one = int(numbers[0]), 1 / math.sqrt(2 * math.pi)
    right, wrong, square = rewards(angle / math.pi, T, int(numbers[1]), numbers[2], numbers[3])
    return (right + wrong) * one / J, (right - wrong) * one / root_t, square / T


@jit
def pair_force(lam, nu, xi, theta, S, F, G):
    F[0] = lam[1] - lam[0] ** 3 / 3
    F[1] = lam[0] - lam[1] ** 3 / 3


@jit
def pair(S, w, parameters, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
    """Moments of two normal fields by Wick's theorem; the parameter is the correlation of the two views."""
    Q, rho = S[0, 0], parameters[0]
    single = Q - 2 * rho * Q * Q + 5 * Q**3 / 3
    cross = rho * Q - 2 * Q * Q + (3 * rho + 2 * rho**3) * Q**3 / 3
    A[0, 0], B[0, 0], C[0, 0], dv[0] = 2 * eta * (rho - Q), 0.0, 2 * eta * eta * (single + rho * cross), 0.0
    return (1 - rho) * Q


@jit
def pair_error(lam, nu, theta):
    return (lam[0] - lam[1]) ** 2 / 2


@jit(no_reference_counting=True)
def attended(fields):
    """Mean of the fields with softmax weights, the sum of exp(field - largest field), the largest field."""
    total = mean = 0.0
    top = fields[0]
    for a in range(1, fields.size):
        top = max(top, fields[a])
    for a in range(fields.size):
        weight = math.exp(fields[a] - top)
        total += weight
        mean += weight * fields[a]
    return mean / total, total, top


@jit
def attention_force(lam, nu, xi, theta, S, F, G):
    out, total, top = attended(lam)
    delta = out - attended(nu)[0]
    for a in range(lam.size):
        F[a] = -delta * math.exp(lam[a] - top) / total * (1 + lam[a] - out)


@jit
def attention_error(lam, nu, theta):
    return (attended(lam)[0] - attended(nu)[0]) ** 2 / 2
