"""How often the sign of the output differs from the label's, for inputs in classes."""

from functools import cache

import numpy as np
from scipy.special import erfinv, ndtr

from .._base import check
from ..gaussian.quadrature import panels, sobol
from ..gaussian.shifted import both
from ..gaussian.two_point import ERF, LINEAR, NUMERIC, RELU

REACH = 9.0  # standard deviations
PARTS = 6  # pieces of each panel of the integral over one field, 16 nodes each
SCRAMBLES, LOG2_POINTS = 8, 12  # of Sobol points, each taken with its opposite


def misclassified(bound, S, v):
    """Probability (n,) that the sign of the output is wrong, a tie counted one half, and its standard error (n,).

    At what a closure of inputs in classes sees, S (n, ...), and second layers v (n, K).
    """
    weights, labels, _ = bound.classes
    means, V = bound.fields(S)
    K, M, code = bound.learning.K, means.shape[2] - bound.learning.K, bound.student.code
    if M or np.any(labels == 0):
        raise ValueError(
            f"M = {M} teachers and labels = {check.shown(labels.tolist())}; expected labels of "
            "either sign and no teacher: otherwise there is no sign to be right about."
        )
    signs = np.sign(labels)
    if code == LINEAR or (K == 1 and code != NUMERIC) or (K == 2 and code in (ERF, RELU)):
        records = zip(means, V, v, strict=True)
        above = np.array([[_exact(code, m, C, w) for m, C in zip(*classes, strict=True)] for *classes, w in records])
        return np.where(signs > 0, 1 - above, above) @ weights, np.zeros(len(v))
    wrong = np.array([_sampled(bound.student.g, weights, *x, signs) for x in zip(means, V, v, strict=True)])
    return wrong.mean(axis=1), wrong.std(axis=1, ddof=1) / np.sqrt(SCRAMBLES)


def _exact(code, m, V, v):
    """P(output > 0) + P(output = 0) / 2."""
    if code == LINEAR:
        return _positive(v @ m, v @ V @ v)
    if len(v) == 1:
        return _of_one(code, m[0], V[0, 0], v[0])
    order = np.argsort(np.abs(v))  # of the smaller second layer the integral, of the other the probability
    return _of_two(code, m[order], V[np.ix_(order, order)], v[order])


def _positive(mean, variance):
    """P(x > 0) + P(x = 0) / 2 of x ~ N(mean, variance)."""
    return ndtr(mean / np.sqrt(variance)) if variance > 0 else 0.5 * (1 + np.sign(mean))


def _of_one(code, mean, variance, v):
    """The same of v g(x)."""
    if code in (ERF, LINEAR):
        return _positive(np.sign(v) * mean, variance)
    return 0.5 + 0.5 * np.sign(v) * (_positive(mean, variance) if code == RELU else 1.0)


def _of_two(code, m, V, v):
    """The same of v_1 g(a) + v_2 g(b), |v_1| <= |v_2|: an integral over a of what b does given a."""
    if v[0] == 0.0 or V[0, 0] <= 0.0:
        constant = 0.0 if v[0] == 0.0 else v[0] * (max(m[0], 0.0) if code == RELU else 2 * ndtr(m[0]) - 1)
        if constant == 0.0:
            return _of_one(code, m[1], V[1, 1], v[1]) if v[1] else 0.5
    sa = np.sqrt(max(V[0, 0], 1e-300))
    edges = np.unique(np.clip([-REACH, -m[0] / sa, REACH], -REACH, REACH))
    z, weight = (x[0] for x in panels(edges[None], PARTS))
    a = m[0] + sa * z
    mean, root = m[1] + V[0, 1] / sa * z, np.sqrt(max(V[1, 1] - V[0, 1] ** 2 / sa**2, 1e-300))
    if code == ERF:  # g(b) > t where v_2 > 0, g(b) < t otherwise; |t| <= 1
        t = np.clip(-v[0] / v[1] * (2 * ndtr(a) - 1), -1.0, 1.0)
        above = ndtr((mean - np.sqrt(2) * erfinv(t)) / root)
        return float(weight @ (above if v[1] > 0 else 1 - above))
    t = -v[0] / v[1] * np.maximum(a, 0.0)  # b_+ > t where v_2 > 0, b_+ < t otherwise
    above = np.where(t < 0, 1.0, ndtr((mean - t) / root))
    likely = above if v[1] > 0 else np.where(t > 0, 1 - above, 0.0)
    scale = np.sqrt(max(V[1, 1], 1e-300))
    silent = both(-m[0] / sa, -m[1] / scale, np.clip(V[0, 1] / (sa * scale), -1.0, 1.0))[0]
    return float(weight @ likely + 0.5 * silent)


@cache
def _points(K):
    """Standard normal points (scrambles, 2 points, K)."""
    z = np.array([sobol(K, LOG2_POINTS, seed) for seed in range(SCRAMBLES)])
    return np.concatenate([z, -z], axis=1)


def _sampled(g, weights, means, V, v, signs):
    """Fraction of wrong signs in each scramble of points (scrambles,)."""
    total = np.zeros(SCRAMBLES)
    for pi, m, C, sign in zip(weights, means, V, signs, strict=True):
        values, vectors = np.linalg.eigh(C)
        fields = m + _points(len(m)) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
        right = np.sign(sign * (g(fields) @ v))
        total += pi * 0.5 * (1 - right).mean(axis=1)
    return total
