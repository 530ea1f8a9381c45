"""Cost of the matrix C of relu students, one thread, against a literal port of the formula.

The port evaluates E[theta(a) theta(b) c_+ d_+] for each of the K^2 n^2 quadruples by itself, with the same orthant
integral; the library evaluates one integral per set of four different fields and serves up to six pairs (a, b) from it.

    python benchmarks/relu.py
"""

import math
import time

import numpy as np

from overlaps._base.jit import jit
from overlaps.activations._relu import relu_C
from overlaps.gaussian.orthants import arcsine, complement, orthants
from overlaps.gaussian.two_point import ERF, LINEAR, QUADRATIC, RELU

TARGET = {2: 1.5, 4: 40.0, 8: 900.0}  # microseconds
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


def microseconds(function, *args, repeats=15):
    """Best mean time of a call."""
    function(*args)
    count, elapsed = 1, 0.0
    while elapsed < 0.02:
        count *= 2
        start = time.perf_counter()
        for _ in range(count):
            function(*args)
        elapsed = time.perf_counter() - start
    best = elapsed / count
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(count):
            function(*args)
        best = min(best, (time.perf_counter() - start) / count)
    return 1e6 * best


def states(K, rng):
    """A random state and a late one: each student within 1e-3 of its teacher."""
    X = rng.normal(size=(2 * K, 4 * K)) / np.sqrt(4 * K)
    late = X.copy()
    late[:K] = X[K:] + 1e-3 * X[:K]
    return X @ X.T, late @ late.T


def main():
    rng = np.random.default_rng(0)
    print("relu students, matrix C, microseconds per call from Python, one thread")
    print(
        "(random and late state, literal port and its ratio to the library, other teachers; all but late: random state)"
    )
    print(f"{'K=M':>4}{'sets':>7}{'target':>9}{'random':>10}{'late':>10}{'literal':>11}{'ratio':>7}", end="")
    print(f"{'linear':>9}{'quadratic':>11}{'erf':>9}")
    for K in (1, 2, 4, 8):
        n = 2 * K
        sets = sum(math.comb(n - 1 - j, 2) * j for j in range(K))  # i < j < K, j < k < l
        S, late = states(K, rng)
        w, C, port = np.concatenate([np.ones(K), -np.ones(K)]), np.empty((K, K)), np.empty((K, K))
        literal = microseconds(literal_C, S, w, K, 0.5, 0.25, port)
        random, aligned = (microseconds(relu_C, X, w, K, RELU, 0.5, 0.25, C) for X in (S, late))
        relu_C(S, w, K, RELU, 0.5, 0.25, C)
        assert np.allclose(C, port, rtol=1e-12, atol=1e-14)
        mixed = [microseconds(relu_C, S, w, K, teacher, 0.5, 0.25, C) for teacher in (LINEAR, QUADRATIC, ERF)]
        print(
            f"{K:4d}{sets:7d}{TARGET.get(K, '-'):>9}{random:10.2f}{aligned:10.2f}{literal:11.2f}"
            f"{literal / random:7.1f}{mixed[0]:9.2f}{mixed[1]:11.2f}{mixed[2]:9.2f}"
        )


if __name__ == "__main__":
    main()
