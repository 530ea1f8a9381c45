"""Kernels of polynomial activations: Adam on samples, residuals of a posterior sampler, and the law of a label.

The law of a label is a density on a grid of y. It gives the Fisher information about one feature and the entropy.
"""

import math
from typing import NamedTuple

import numpy as np

from ..._base.jit import jit


class KernelOptions(NamedTuple):
    """Constants of the kernels."""

    # decay rates of the two means and the regulariser of Adam, as published
    decay1: float = 0.9
    decay2: float = 0.999
    epsilon: float = 1e-8
    # Fraction of the largest p below which p and its derivative are rounding errors and are left out.
    min_relative_density: float = 1e-11


KERNELS = KernelOptions()


@jit
def polynomial(c, z):
    """(sigma, sigma') of the polynomial with coefficients c, lowest first."""
    value, slope = 0.0, 0.0
    for i in range(c.size - 1, -1, -1):
        slope = slope * z + value
        value = value * z + c[i]
    return value, slope


@jit
def adam(parameters, gradient, first, second, rate, correction1, correction2):
    """One update of all entries in place."""
    x, g, m, h = parameters.ravel(), gradient.ravel(), first.ravel(), second.ravel()
    for i in range(x.size):
        m[i] = KERNELS.decay1 * m[i] + (1 - KERNELS.decay1) * g[i]
        h[i] = KERNELS.decay2 * h[i] + (1 - KERNELS.decay2) * g[i] * g[i]
        x[i] -= rate * (m[i] * correction1) / (math.sqrt(h[i] * correction2) + KERNELS.epsilon)


@jit
def train(X, y, batches, c, U, a, moments_U, moments_a, step, steps, rate, readout_rate):
    """Adam on E[(yhat - y)^2]/2 over the given batches (indices of samples), with a rate that falls as a cosine.

    U (K, d) has unit rows, yhat = sum_j a_j sigma(U_j.x); the rate of a is ``readout_rate`` times that of U. Returns
    the number of steps done since the start.
    """
    size, K = batches.shape[1], a.size
    outer, da = np.empty((size, K)), np.empty(K)
    for batch in batches:
        sample, target = X[batch], y[batch]
        Z = np.dot(sample, U.T)
        da[:] = 0.0
        for b in range(size):
            error = -target[b]
            for j in range(K):
                Z[b, j], outer[b, j] = polynomial(c, Z[b, j])
                error += a[j] * Z[b, j]
            error /= size
            for j in range(K):
                da[j] += error * Z[b, j]
                outer[b, j] *= error * a[j]
        dU = np.dot(outer.T, sample)
        step += 1
        now = 0.5 * rate * (1 + math.cos(math.pi * step / steps))
        correction1, correction2 = 1 / (1 - KERNELS.decay1**step), 1 / (1 - KERNELS.decay2**step)
        adam(U, dU, moments_U[0], moments_U[1], now, correction1, correction2)
        adam(a, da, moments_a[0], moments_a[1], readout_rate * now, correction1, correction2)
        for j in range(K):
            norm = math.sqrt(np.dot(U[j], U[j]))
            for i in range(U.shape[1]):
                U[j, i] /= norm
    return step


@jit
def respond(Z, c, v, y):
    """Sum of squares of r = v.sigma(z) - y over the samples; every z_i of Z is replaced by r v_i sigma'(z_i)."""
    total = 0.0
    for b in range(y.size):
        r = -y[b]
        for i in range(v.size):
            value, slope = polynomial(c, Z[b, i])
            r += v[i] * value
            Z[b, i] = v[i] * slope
        total += r * r
        for i in range(v.size):
            Z[b, i] *= r
    return total


@jit
def fisher(p, dp, out):
    """Sum of dp^2 / p over each row."""
    for c in range(p.shape[0]):
        cutoff = 0.0
        for n in range(p.shape[1]):
            cutoff = max(cutoff, p[c, n])
        cutoff *= KERNELS.min_relative_density
        total = 0.0
        for n in range(p.shape[1]):
            if p[c, n] > cutoff:
                total += dp[c, n] * dp[c, n] / p[c, n]
        out[c] = total


@jit
def label_entropy(p, out):
    """Sum of -p ln p over each row."""
    for c in range(p.shape[0]):
        total = 0.0
        for n in range(p.shape[1]):
            if p[c, n] > 0:
                total -= p[c, n] * math.log(p[c, n])
        out[c] = total


@jit
def bin_labels(known, x, weight, rest, v, c, dy, out):
    """Histograms of the labels v.sigma(known + rest xi) of two features, weighted by 1 and by each xi."""
    middle = out.shape[2] // 2
    for n in range(known.shape[0]):
        for a in range(x.size):
            for b in range(x.size):
                w = weight[a] * weight[b]
                y = v[0] * polynomial(c, known[n, 0] + rest[0, 0] * x[a] + rest[0, 1] * x[b])[0]
                y += v[1] * polynomial(c, known[n, 1] + rest[1, 0] * x[a] + rest[1, 1] * x[b])[0]
                y = y / dy + middle
                i = int(math.floor(y))
                if w > 1e-14 and 0 <= i < out.shape[2] - 1:
                    above = w * (y - i)
                    out[0, n, i] += w - above
                    out[0, n, i + 1] += above
                    out[1, n, i] += x[a] * (w - above)
                    out[1, n, i + 1] += x[a] * above
                    out[2, n, i] += x[b] * (w - above)
                    out[2, n, i + 1] += x[b] * above
