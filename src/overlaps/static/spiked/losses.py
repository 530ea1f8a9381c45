"""Convex losses of a readout that classifies: proximal maps in the margin y yhat, and labels y = sign(target)."""

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.optimize import bisect
from scipy.special import expit, ndtr

from ..._base import check
from .averages import function_of, kinks_of

LossName: TypeAlias = Literal["square", "logistic", "hinge"]
CLASSIFIER_ERRORS = "wrong", "train_wrong", "test_loss", "train_loss"  # fields of results with a loss


class Loss(NamedTuple):
    """A convex loss l(m) of the margin m = y yhat.

    ``proximal(m0, V)`` is m = argmin (m - m0)^2 / (2V) + l(m), (118) of Cui et al. (2024), arXiv:2402.04980, and the
    stiffness (1 - dm/dm0) / V = l'' / (1 + V l''); ``kinks(V)`` are the m0 at which these are not smooth.
    ``smoothed(m, h)`` are value, slope and curvature of the loss; a kink is smoothed over a width h.
    """

    value: Callable[[Any], Any]
    proximal: Callable[[Any, Any], tuple[Any, Any]]
    kinks: Callable[[Any], tuple]
    smoothed: Callable[[Any, float], tuple[Any, Any, Any]]


def _square(m0, V):
    return (m0 + V) / (1 + V), 1 / (1 + V) + 0 * m0


def _logistic(m0, V):
    """The root of m - m0 - V / (1 + e^m) in [m0, m0 + V]; the slope is between 1 and 1 + V/4."""
    m0, V = np.broadcast_arrays(m0, V)
    low, high = m0, m0 + V
    m = np.clip(0.0, low, high)
    # Newton's iterations; a step that would leave the bracket is replaced by a bisection
    for _ in range(80):
        force = expit(-m)
        gap = m - m0 - V * force
        low, high = np.where(gap < 0, m, low), np.where(gap > 0, m, high)
        new = m - gap / (1 + V * force * (1 - force))
        new = np.where((new < low) | (new > high), (low + high) / 2, new)
        change = np.abs(new - m)
        m = new
        if np.all(change <= 1e-14 * (1 + np.abs(m))):
            break
    curvature = expit(m) * expit(-m)
    return m, curvature / (1 + V * curvature)


def _hinge(m0, V):
    m = np.where(m0 < 1 - V, m0 + V, np.maximum(m0, 1.0))
    return m, np.where((m0 > 1 - V) & (m0 < 1), 1 / V, 0.0)


def _square_smoothed(m, h):
    return (1 - m) ** 2 / 2, m - 1, np.ones_like(m)


def _logistic_smoothed(m, h):
    return np.logaddexp(0, -m), -expit(-m), expit(m) * expit(-m)


def _hinge_smoothed(m, h):
    x = (1 - m) / h
    return h * np.logaddexp(0, x), -expit(x), expit(x) * expit(-x) / h


LOSSES = {
    "square": Loss(lambda m: (1 - m) ** 2 / 2, _square, lambda V: (), _square_smoothed),
    "logistic": Loss(lambda m: np.logaddexp(0, -m), _logistic, lambda V: (), _logistic_smoothed),
    "hinge": Loss(lambda m: np.maximum(1 - m, 0.0), _hinge, lambda V: (1 - V, np.ones_like(V)), _hinge_smoothed),
}


class SignLabels:
    """The labels y = sign(target): positions of the sign changes, and averages over Gaussian inputs."""

    def __init__(self, target, breakpoints=()):
        f = function_of(target, "target")
        sides = np.array([x + s * 1e-9 for x in kinks_of(target, breakpoints, "breakpoints") for s in (-1, 1)])
        # changes of sign of the target are searched in [-9, 9] on two grids of these many points
        end, sizes = 9.0, (4000, 12000)
        grids = [np.sort(np.append(np.linspace(-end, end, n) + 1e-3 * math.pi, sides)) for n in sizes]
        changes = [np.flatnonzero(np.diff(np.asarray(f(x), dtype=float) > 0)) for x in grids]
        if len(changes[0]) != len(changes[1]):
            raise ValueError(
                f"target = {check.shown(target)} changes its sign more often than {sizes[0]} points in [-9, 9] "
                "resolve; expected a target whose sign, the label, changes at isolated points."
            )

        def sign(t):
            return 1.0 if f(np.array([t]))[0] > 0 else -1.0

        self.zeros = np.array([bisect(sign, *grids[1][i : i + 2], xtol=1e-14) for i in changes[1]])
        ends = np.concatenate([[-end - 1], self.zeros, [end + 1]])
        signs = np.where(np.asarray(f((ends[1:] + ends[:-1]) / 2), dtype=float) > 0, 1.0, -1.0)
        self.first, self.jumps = signs[0], np.diff(signs)

    def __call__(self, x):
        """The label of each x = theta . input."""
        return np.concatenate([[self.first], self.first + np.cumsum(self.jumps)])[np.searchsorted(self.zeros, x)]

    def averages(self, mean, spread):
        """E[y] and E[z y] of labels at mean + spread z, z ~ N(0, 1)."""
        first, linear = np.full(np.shape(mean), self.first), np.zeros(np.shape(mean))
        for zero, jump in zip(self.zeros, self.jumps, strict=True):
            t = (mean - zero) / np.maximum(spread, 1e-300)
            first += jump * ndtr(t)
            linear += jump * np.exp(-0.5 * np.minimum(t * t, 1e4)) / math.sqrt(2 * math.pi)
        return first, linear
