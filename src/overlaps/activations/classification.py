"""Probability that the sign of the output differs from that of the label, for inputs in classes."""

from functools import cache
from typing import NamedTuple

import numpy as np
import scipy

from .._base import check
from ..gaussian.quadrature import panels, sobol
from ..gaussian.shifted import both
from ..gaussian.two_point import ERF, LINEAR, NUMERIC, RELU


class ClassificationOptions(NamedTuple):
    """Tunable numbers of the probability of a wrong sign."""

    half_width: float = 9.0  # range of the integral over one field, in standard deviations
    subpanels: int = 6  # number in each panel between kinks, with 16 nodes each
    scrambles: int = 8  # sets of Sobol points; their spread is the standard error
    log2_points: int = 12  # in each scramble; every point is used with its opposite


CLASSIFICATION = ClassificationOptions()


def misclassified(bound, S, v):
    """Probability (n,) that the sign of the output is wrong, a tie counted one half, and its standard error (n,).

    S (n, ...) are covariances as for ``bound``, a closure of inputs in classes, and v (n, K) second layers.
    """
    weights, labels, _ = bound.classes
    means, V = bound.fields(S)
    K, M, code = bound.learning.K, means.shape[2] - bound.learning.K, bound.student.code
    if M or np.any(labels == 0):
        raise ValueError(
            f"M = {M} teachers and labels = {check.shown(labels.tolist())}; expected labels of "
            "both signs and no teacher, because the error counts wrong signs."
        )
    signs = np.sign(labels)
    if code == LINEAR or (K == 1 and code != NUMERIC) or (K == 2 and code in (ERF, RELU)):
        states = zip(means, V, v, strict=True)
        above = np.array([[_exact(code, m, Vc, w) for m, Vc in zip(*classes, strict=True)] for *classes, w in states])
        return np.where(signs > 0, 1 - above, above) @ weights, np.zeros(len(v))
    wrong = np.array([_sampled(bound.student.g, weights, *x, signs) for x in zip(means, V, v, strict=True)])
    return wrong.mean(axis=1), wrong.std(axis=1, ddof=1) / np.sqrt(CLASSIFICATION.scrambles)


def _exact(code, m, V, v):
    """P(output > 0) + P(output = 0) / 2."""
    if code == LINEAR:
        return _positive(v @ m, v @ V @ v)
    if len(v) == 1:
        return _one_unit(code, m[0], V[0, 0], v[0])
    order = np.argsort(np.abs(v))  # integrate over the field of the smaller second layer
    return _two_units(code, m[order], V[np.ix_(order, order)], v[order])


def _positive(mean, variance):
    """P(x > 0) + P(x = 0) / 2 of x ~ N(mean, variance)."""
    return scipy.special.ndtr(mean / np.sqrt(variance)) if variance > 0 else 0.5 * (1 + np.sign(mean))


def _one_unit(code, mean, variance, v):
    """P(v g(x) > 0) + P(v g(x) = 0) / 2."""
    if code in (ERF, LINEAR):
        return _positive(np.sign(v) * mean, variance)
    return 0.5 + 0.5 * np.sign(v) * (_positive(mean, variance) if code == RELU else 1.0)


def _two_units(code, m, V, v):
    """P(y > 0) + P(y = 0) / 2 of y = v_1 g(a) + v_2 g(b), |v_1| <= |v_2|: integral over a of P given a."""
    if v[0] == 0.0 or V[0, 0] <= 0.0:
        constant = 0.0 if v[0] == 0.0 else v[0] * (max(m[0], 0.0) if code == RELU else 2 * scipy.special.ndtr(m[0]) - 1)
        if constant == 0.0:
            return _one_unit(code, m[1], V[1, 1], v[1]) if v[1] else 0.5
    sa, end = np.sqrt(max(V[0, 0], 1e-300)), CLASSIFICATION.half_width
    edges = np.unique(np.clip([-end, -m[0] / sa, end], -end, end))
    z, weight = (x[0] for x in panels(edges[None], CLASSIFICATION.subpanels))
    a = m[0] + sa * z
    mean, root = m[1] + V[0, 1] / sa * z, np.sqrt(max(V[1, 1] - V[0, 1] ** 2 / sa**2, 1e-300))
    if code == ERF:  # g(b) > t where v_2 > 0, g(b) < t otherwise; |t| <= 1
        t = np.clip(-v[0] / v[1] * (2 * scipy.special.ndtr(a) - 1), -1.0, 1.0)
        above = scipy.special.ndtr((mean - np.sqrt(2) * scipy.special.erfinv(t)) / root)
        return float(weight @ (above if v[1] > 0 else 1 - above))
    t = -v[0] / v[1] * np.maximum(a, 0.0)  # b_+ > t where v_2 > 0, b_+ < t otherwise
    above = np.where(t < 0, 1.0, scipy.special.ndtr((mean - t) / root))
    right = above if v[1] > 0 else np.where(t > 0, 1 - above, 0.0)
    scale = np.sqrt(max(V[1, 1], 1e-300))
    silent = both(-m[0] / sa, -m[1] / scale, np.clip(V[0, 1] / (sa * scale), -1.0, 1.0))[0]
    return float(weight @ right + 0.5 * silent)


@cache
def _points(K):
    """Standard normal points (scrambles, 2 points, K)."""
    z = np.array([sobol(K, CLASSIFICATION.log2_points, seed) for seed in range(CLASSIFICATION.scrambles)])
    return np.concatenate([z, -z], axis=1)


def _sampled(g, weights, means, V, v, signs):
    """Fraction of wrong signs in each scramble of points (scrambles,)."""
    total = np.zeros(CLASSIFICATION.scrambles)
    for pi, m, Vc, sign in zip(weights, means, V, signs, strict=True):
        values, vectors = np.linalg.eigh(Vc)
        fields = m + _points(len(m)) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
        right = np.sign(sign * (g(fields) @ v))
        total += pi * 0.5 * (1 - right).mean(axis=1)
    return total
