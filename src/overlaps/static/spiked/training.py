"""Readouts trained on given rows at finite size: ridge regression or a convex loss, and their errors."""

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve

from .losses import LOSSES


class TrainingOptions(NamedTuple):
    """Tunable numbers of trained readouts."""

    # Samples whose features are in memory at once.
    chunk: int = 2048
    # Widths over which the hinge is smoothed, one after the other; Newton's method starts from the minimum before.
    hinge_widths: tuple[float, ...] = (1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3)


TRAINING = TrainingOptions()


def in_chunks(setup, theta, n, rng):
    """Chunks (x, y) of n samples."""
    for start in range(0, n, TRAINING.chunk):
        m = min(TRAINING.chunk, n - start)
        x = rng.standard_normal((m, setup.d))
        yield x, np.asarray(setup.target(x @ theta), dtype=float) + setup.noise * rng.standard_normal(m)


def ridge(X, y, lam):
    """Argmin |y - X a|^2 + lam |a|^2, by the smaller of the two Gram matrices."""
    n, p = X.shape
    gram = X.T @ X if n >= p else X @ X.T
    gram[np.diag_indices_from(gram)] += lam
    return solve(gram, X.T @ y, assume_a="pos") if n >= p else X.T @ solve(gram, y, assume_a="pos")


def convex(X, y, lam, loss, bias):
    """Argmin sum l(y (X a + b0)) + (lam/2) |a|^2 by Newton's method, and b0 (zero without a bias)."""
    X = np.column_stack([X, np.ones(len(X))]) if bias else X
    penalty = np.full(X.shape[1], lam)
    penalty[X.shape[1] - bias :] = 0.0
    a = np.zeros(X.shape[1])
    for width in TRAINING.hinge_widths if loss is LOSSES["hinge"] else TRAINING.hinge_widths[-1:]:

        def objective(a, width=width):
            value, slope, curvature = loss.smoothed(y * (X @ a), width)
            return value.sum() + penalty @ a**2 / 2, X.T @ (y * slope) + penalty * a, curvature

        values, gain, fraction = objective(a), math.inf, 1.0
        while gain > 1e-10 * values[0] and fraction > 1e-9:
            value, gradient, curvature = values
            hessian = (X.T * curvature) @ X
            hessian[np.diag_indices_from(hessian)] += penalty + 1e-12
            step = solve(hessian, gradient, assume_a="pos")
            gain, fraction = gradient @ step, 1.0
            while (values := objective(a - fraction * step))[0] > value - 1e-4 * fraction * gain and fraction > 1e-9:
                fraction /= 2
            a = a - fraction * step
    return (a[:-1], a[-1]) if bias else (a, 0.0)


def readouts(setup, W, theta, train_rng, test_rng):
    """Readouts (m, p) at the points (n, lam), and their errors (m,) on the training samples and on one test set.

    Errors are squared errors; with a loss also its mean and the fraction of wrong signs.
    """

    def features(x):
        return setup.student(x @ W.T + setup.offset) / math.sqrt(setup.p)

    chunks = [(features(x), y) for x, y in in_chunks(setup, theta, max(setup.n), train_rng)]
    X, y = (np.concatenate(arrays) for arrays in zip(*chunks, strict=True))
    A, b0 = np.empty((len(setup.n), setup.p)), np.zeros(len(setup.n))
    for i, (n, lam) in enumerate(zip(setup.n, setup.lam, strict=True)):
        if setup.loss:
            A[i], b0[i] = convex(X[:n], signs(y[:n]), lam, LOSSES[setup.loss], setup.bias)
            continue
        mean_X, mean_y = (X[:n].mean(axis=0), y[:n].mean()) if setup.bias else (0.0, 0.0)
        A[i] = ridge(X[:n] - mean_X, y[:n] - mean_y, lam)
        b0[i] = mean_y - np.sum(mean_X * A[i])  # an unpenalised bias amounts to centring
    train = [error_sums(setup, y[:n], X[:n] @ a + b) / n for n, a, b in zip(setup.n, A, b0, strict=True)]
    test = np.zeros((len(A), 3 if setup.loss else 1))
    for x, y in in_chunks(setup, theta, setup.test, test_rng):
        predicted = b0 + features(x) @ A.T
        test += [error_sums(setup, y, column) / setup.test for column in predicted.T]
    errors = dict(zip(("mse", "test_loss", "wrong"), test.T, strict=False))  # without a loss the first ones only
    return A, errors | dict(zip(("train", "train_loss", "train_wrong"), np.transpose(train), strict=False))


def signs(y):
    """Labels of a classifier."""
    return np.where(y > 0, 1.0, -1.0)


def error_sums(setup, y, predicted):
    """Sums over samples of squared errors, and with a loss of its values and of wrong signs."""
    if not setup.loss:
        return np.array([np.sum((y - predicted) ** 2)])
    margin = signs(y) * predicted
    return np.array([np.sum((1 - margin) ** 2), np.sum(LOSSES[setup.loss].value(margin)), np.sum(margin < 0)])


def readout_overlaps(A, bulk, v, zeta):
    """m, theta, psi, q1, q2 of readouts A (n, p) on rows of this bulk; sums over all neurons.

    theta is along the first of the directions v (R, d) of the spikes, psi along the first of the directions zeta (J, d)
    of the target orthogonal to them.
    """
    root = math.sqrt(len(bulk))
    readout = A @ bulk / root
    return {
        "m": A.sum(axis=1) / root,
        "theta": readout @ v[0],
        "psi": readout @ zeta[0] if len(zeta) else np.zeros(len(A)),
        "q1": np.sum((readout - readout @ v.T @ v) ** 2, axis=1),
        "q2": np.sum(A**2, axis=1) / len(bulk),
    }
