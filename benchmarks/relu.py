"""Cost of the matrix C of relu students, one thread, against a literal port of the formula.

The port evaluates E[theta(a) theta(b) c_+ d_+] for each of the K^2 n^2 quadruples by itself, with the same orthant
integral; the library evaluates one integral per set of four different fields and serves up to six pairs (a, b) from it.
"""

import math

import numpy as np
from timing import row, show

from overlaps._base.jit import jit
from overlaps.activations._relu import relu_C
from overlaps.gaussian.orthants import arcsine, complement, orthants
from overlaps.gaussian.two_point import ERF, RELU

PART = "Closure and right-hand side"
PI = math.pi


@jit
def _two(rac, rad, rcd):
    """E[theta(a) c_+ d_+] of three fields, equal ones included."""
    P3 = 0.125 + (arcsine(rac) + arcsine(rad) + arcsine(rcd)) / (4 * PI)
    return rcd * P3 + (complement(rcd) + rad * complement(rac) + rac * complement(rad)) / (4 * PI)


@jit
def literal_I4(r, a, b, c, d):
    """E[theta(a) theta(b) c_+ d_+] of unit fields with correlations r."""
    if a == b:
        return _two(r[a, c], r[a, d], r[c, d])
    if c == a or d == a:
        return _two(r[b, c], r[b, d], r[c, d])
    if c == b or d == b:
        return _two(r[a, c], r[a, d], r[c, d])
    rab, rac, rad, rbc, rbd, rcd = r[a, b], r[a, c], r[a, d], r[b, c], r[b, d], r[c, d]
    kappa = ((rac - rab * rbc) * rbd + (rbc - rab * rac) * rad) / complement(rab)
    if c == d:
        P3 = 0.125 + (arcsine(rab) + arcsine(rac) + arcsine(rbc)) / (4 * PI)
        return P3 + (rac * complement(rac) + rbc * complement(rbc) + kappa) / (4 * PI)
    P4, pab, pac, pad, pbc, pbd, pcd = orthants(rab, rac, rad, rbc, rbd, rcd)
    total = complement(rcd) * pcd + rad * complement(rac) * pac + rac * complement(rad) * pad
    total += rbd * complement(rbc) * pbc + rbc * complement(rbd) * pbd + kappa * pab
    return rcd * P4 + total / (2 * PI)


@jit
def literal_C(S, w, K, eta, noise, C):
    n = S.shape[0]
    sigma, r = np.empty(n), np.empty((n, n))
    for i in range(n):
        sigma[i] = math.sqrt(S[i, i])
    for i in range(n):
        for j in range(n):
            r[i, j] = 1.0 if i == j else S[i, j] / (sigma[i] * sigma[j])
    for a in range(K):
        for b in range(K):
            total = noise * noise * (0.25 + arcsine(r[a, b]) / (2 * PI))
            for c in range(n):
                for d in range(n):
                    total += w[c] * w[d] * sigma[c] * sigma[d] * literal_I4(r, a, b, c, d)
            C[a, b] = eta * eta * w[a] * w[b] * total


def states(K, rng):
    """A random state and a late one: each student within 1e-3 of its teacher."""
    X = rng.normal(size=(2 * K, 4 * K)) / np.sqrt(4 * K)
    late = X.copy()
    late[:K] = X[K:] + 1e-3 * X[:K]
    return X @ X.T, late @ late.T


def rows():
    rng = np.random.default_rng(0)
    for K in (2, 4, 8):
        S, late = states(K, rng)
        w, C, port = np.concatenate([np.ones(K), -np.ones(K)]), np.empty((K, K)), np.empty((K, K))
        baselines = {
            "literal port": lambda: literal_C(S, w, K, 0.5, 0.25, port),
            "late state": lambda: relu_C(late, w, K, RELU, 0.5, 0.25, C),
            "erf teachers": lambda: relu_C(S, w, K, ERF, 0.5, 0.25, C),
        }
        yield row(PART, f"C, relu, K = M = {K}", lambda: relu_C(S, w, K, RELU, 0.5, 0.25, C), baselines)
        relu_C(S, w, K, RELU, 0.5, 0.25, C)
        assert np.allclose(C, port, rtol=1e-12, atol=1e-14)


if __name__ == "__main__":
    show(rows())
