"""Students and teachers of different families: against 40-digit Stein recursions, quadrature and each other."""

import itertools
from functools import cache

import mpmath as mp
import numpy as np
import pytest
from test_relu import mp_orthant

import overlaps as ov
from overlaps.activations._mixed import MixedClosure
from overlaps.activations._parts import parts_of
from overlaps.activations.numeric import bind_numeric

QUAD, CUBE, AFFINE = ov.polynomial([0.3, -0.4, 0.5]), ov.polynomial([0.2, 0.5, 0.0, 0.15]), ov.polynomial([0.4, 1.2])
LEAKY, STEEP = ov.leaky_relu(0.2), ov.Activation("erf(1.5x)", None, None, mixture=ov.tanh.mixture._replace(
    amplitudes=(0.8,), scales=(1.5,), error=0.0))  # fmt: skip
PAIRS = [
    (QUAD, ov.relu),
    (CUBE, LEAKY),
    (AFFINE, ov.absolute),
    (QUAD, ov.erf),
    (CUBE, STEEP),
    (AFFINE, ov.erf),
    (ov.relu, CUBE),
    (LEAKY, QUAD),
    (ov.absolute, AFFINE),
    (LEAKY, ov.quadratic),
    (ov.erf, CUBE),
    (STEEP, QUAD),
    (ov.erf, AFFINE),
    (LEAKY, ov.erf),
    (ov.absolute, STEEP),
]
each_pair = pytest.mark.parametrize(("student", "teacher"), PAIRS, ids=str)


# ---- Oracle: E[prod of powers, steps, signs and delta functions] by Stein's lemma in 40 digits ------------------------


def mp_product(S, factors):
    """E[prod_i z_i^power_i prod kinds] of fields with covariance S; factors: (field, power, kind, scale).

    Kinds: "" nothing, "step" theta(z), and of the field z + xi / scale, xi an independent N(0, 1), its "sign" and its
    "delta".
    """
    n = len(S)
    S = [list(row) for row in S]
    power, steps, signs, deltas = [0] * n, set(), [], []
    for field, p, kind, scale in factors:
        power[field] += p
        if kind == "step":
            steps.add(field)
        elif kind:
            S = [row + [row[field]] for row in S] + [S[field] + [S[field][field] + 1 / mp.mpf(scale) ** 2]]
            power.append(0)
            (signs if kind == "sign" else deltas).append(len(S) - 1)
    weight = mp.mpf(1)
    for d in deltas:
        weight /= mp.sqrt(2 * mp.pi * S[d][d])
        S = given(S, d)
    total = mp.mpf(0)
    for subset in itertools.product((False, True), repeat=len(signs)):
        on = [s for s, chosen in zip(signs, subset, strict=True) if chosen]
        sign = mp.mpf(2) ** len(on) * (-1) ** (len(signs) - len(on))
        total += sign * mp_moment(S, tuple(power), tuple(sorted(steps | set(on))))
    return weight * total


def given(S, j):
    """Covariance given z_j = 0."""
    n = range(len(S))
    return [[S[a][b] - S[a][j] * S[j][b] / S[j][j] for b in n] for a in n]


def mp_moment(S, power, steps):
    """E[prod_i z_i^power_i prod_(j in steps) theta(z_j)]."""
    covariances = {(): S}

    def conditioned(fields):
        if fields not in covariances:
            covariances[fields] = given(conditioned(fields[:-1]), fields[-1])
        return covariances[fields]

    @cache
    def moment(power, steps, fixed):
        C = conditioned(fixed)
        i = next((i for i, p in enumerate(power) if p), None)
        if i is None:
            return mp_orthant(C, list(steps))
        rest = tuple(p - (i == j) for j, p in enumerate(power))
        total = mp.mpf(0)
        for j, p in enumerate(rest):
            if p:
                total += C[i][j] * p * moment(tuple(q - (k == j) for k, q in enumerate(rest)), steps, fixed)
            elif j in steps:  # delta(z_j) unless a power of z_j kills it
                fewer = tuple(s for s in steps if s != j)
                total += C[i][j] / mp.sqrt(2 * mp.pi * C[j][j]) * moment(rest, fewer, (*fixed, j))
        # theta(z_j) z_j^p with p > 0: the delta function of its derivative vanishes
        return total

    return moment(power, steps, ())


def terms(activation):
    """G and g' as lists of (coefficient, power, kind, scale)."""
    if activation.code == ov.quadratic.code:
        return [(1.0, 2, "", 1)], [(2.0, 1, "", 1)]
    if hasattr(activation.g, "coefficients"):
        c = activation.g.coefficients
        g, dg = ([(x, p, "", 1) for p, x in enumerate(y) if x] for y in (c, [p * x for p, x in enumerate(c)][1:]))
        return g, dg
    if activation in (ov.erf, STEEP):
        amplitude, scale = (1.0, 1.0) if activation is ov.erf else (0.8, 1.5)
        return [(amplitude, 0, "sign", scale)], [(2 * amplitude, 0, "delta", scale)]
    below = float(activation.dg(-1.0))
    g = [(below, 1, "", 1), (1.0 - below, 1, "step", 1)]
    return g, [(c, 0, kind, s) for c, _, kind, s in g]


def mp_C(student, teacher, S, w, K, noise):
    """C for eta = 1 from its definition; a tiny multiple of the identity makes a singular S definite."""
    with mp.workdps(60):
        n = len(S)
        S = [[mp.mpf(float(S[i, j])) + (mp.mpf(10) ** -45 if i == j else 0) for j in range(n)] for i in range(n)]
        (g, slope), (h, _) = terms(student), terms(teacher)
        C = mp.zeros(K)
        for k in range(K):
            for j in range(k + 1):
                total = mp.mpf(0)
                for a, b in itertools.product(slope, slope):
                    outer = [(k, *a[1:]), (j, *b[1:])]
                    ab = mp.mpf(a[0]) * b[0]
                    total += ab * mp.mpf(noise) ** 2 * mp_product(S, outer)
                    for c in range(n):
                        for d in range(c + 1):
                            pair = itertools.product(g if c < K else h, g if d < K else h)
                            inner = sum(
                                mp.mpf(x[0]) * y[0] * mp_product(S, [*outer, (c, *x[1:]), (d, *y[1:])]) for x, y in pair
                            )
                            total += (2 - (c == d)) * ab * w[c] * w[d] * inner
                C[k, j] = C[j, k] = w[k] * w[j] * total
        return np.array(C.tolist(), dtype=float)


def covariance(kind, K, M, rng):
    """Fields with unequal variances: in general position, nearly parallel, or all in one plane (S singular)."""
    X = rng.standard_normal((K + M, 2 if kind == "plane" else K + M + 1))
    if kind == "parallel":  # two students within 1e-6 of one line, a teacher within 1e-5
        X[1] = 1.3 * X[0] + 1e-6 * X[1]
        X[K] = 0.7 * X[0] + 1e-5 * X[K]
    S = X @ X.T / 4
    return np.round(S * 2.0**40) / 2.0**40 if kind == "plane" else S


def evaluate(f, S, w, K):
    A, B, C, dv = np.zeros((K, K)), np.zeros((K, len(w) - K)), np.zeros((K, K)), np.zeros(K)
    eps_g = f(S, w, A, B, C, dv)
    return A, B, C, dv, eps_g


SLOW = [  # orthants of four fields at 60 digits
    pytest.param(student, teacher, marks=pytest.mark.slow if {student, teacher} & {ov.erf, STEEP} else ())
    for student, teacher in PAIRS
    if parts_of(student).kink and parts_of(teacher).amplitudes
]


@pytest.mark.parametrize("kind", ["generic", "parallel", "plane"])
@pytest.mark.parametrize(
    ("student", "teacher"), [p for p in PAIRS if p[1] not in (ov.erf, STEEP) or not parts_of(p[0]).kink] + SLOW, ids=str
)
def test_C_against_60_digits(student, teacher, kind, rng):
    K = 2
    S, w = covariance(kind, K, 1, rng), np.array([1.1, -0.7, 0.9])
    f = bind_numeric(student, teacher, K, 1.0, 1.0, 0.3, True)
    assert isinstance(f, MixedClosure)
    expected = mp_C(student, teacher, S, w, K, 0.3)
    # rounding of sums of about 1e3 points; students 1e-6 apart: rounding of S over their distance
    limit = 1e-9 if kind == "parallel" and parts_of(student).kink else 1e-13
    np.testing.assert_allclose(evaluate(f, S, w, K)[2], expected, rtol=0, atol=limit * np.abs(expected).max())


@pytest.mark.parametrize("kind", ["generic", "parallel", "plane"])
def test_cones_of_three_students_against_60_digits(kind, rng):
    K, student, teacher = 3, LEAKY, ov.polynomial([0.3, 0.0, 0.5, 0.2])
    S, w = covariance(kind, K, 1, rng), np.array([1.1, -0.7, 0.6, 0.9])
    expected = mp_C(student, teacher, S, w, K, 0.3)
    found = evaluate(bind_numeric(student, teacher, K, 1.0, 1.0, 0.3, True), S, w, K)[2]
    limit = 1e-9 if kind == "parallel" else 1e-13
    np.testing.assert_allclose(found, expected, rtol=0, atol=limit * np.abs(expected).max())
