"""Derivatives of the closure: finite differences, high-precision second derivatives of eps_g, and identities."""

import itertools

import mpmath as mp
import numpy as np
import pytest
from helpers import workspace

from overlaps.activations import _first_order, _relu_derivatives, kernels
from overlaps.activations.bound import LearningNumbers
from overlaps.activations.finite_differences import DERIVATIVES, central_differences
from overlaps.activations.sums import PiecewiseLinearClosure
from overlaps.gaussian.two_point import ERF, LINEAR, QUADRATIC, RELU, two_point, two_point_derivatives

CODES = {"linear": LINEAR, "quadratic": QUADRATIC, "relu": RELU, "erf": ERF}
CLOSURES = {name: kernels.KERNELS[code].closure for name, code in CODES.items()}
KERNELS = {name: kernels.KERNELS[code].derivatives for name, code in CODES.items()}
ETA, ETA_V, NOISE = 0.4, 0.7, 0.3
SIZES = list(itertools.product((1, 2, 3), repeat=2))
each_pair = pytest.mark.parametrize(("student", "teacher"), list(itertools.product(CODES, repeat=2)))


def random_state(rng, K, M, distance=None):
    """Random S and w; with ``distance`` the students are copies of the teachers plus noise of that size."""
    n = K + M
    W = rng.standard_normal((n, n + 3)) / np.sqrt(n + 3)
    if distance is not None:
        W[:K] = W[K + np.arange(K) % M] + distance * rng.standard_normal((K, n + 3)) / np.sqrt(n + 3)
    return W @ W.T, rng.uniform(0.5, 1.5, n) * rng.choice([-1, 1], n)


def unknowns(K, M):
    """Order of the unknowns: ("S", i, j) for the upper triangle of Q and for R, ("v", k)."""
    Q = [("S", i, j) for i in range(K) for j in range(i, K)]
    R = [("S", i, K + m) for i in range(K) for m in range(M)]
    return Q + R + [("v", k) for k in range(K)]


def moved(S, w, unknown, step):
    S, w = S.copy(), w.copy()
    if unknown[0] == "v":
        w[unknown[1]] += step
    else:
        _, i, j = unknown
        S[i, j] += step
        if i != j:
            S[j, i] += step
    return S, w


def closure_arrays(student, teacher, S, w, K):
    M = len(w) - K
    A, B, C, dv = np.zeros((K, K)), np.zeros((K, M)), np.zeros((K, K)), np.zeros(K)
    eps_g = CLOSURES[student](S, w, workspace(S), K, CODES[teacher], ETA, ETA_V, NOISE, True, A, B, C, dv)
    return A, B, C, dv, np.array(eps_g)


def derivative_arrays(student, teacher, S, w, K, second_order=True, fill=np.nan):
    M = len(w) - K
    d = K * (K + 1) // 2 + K * M + K
    shapes = (d, K, K), (d, K, M), (d, K, K), (d, K)
    dA, dB, dC, ddv = (np.full(shape, fill) for shape in shapes)  # nan: every entry has to be written
    KERNELS[student](S, w, K, CODES[teacher], ETA, ETA_V, NOISE, second_order, dA, dB, dC, ddv)
    deps = np.full(d, fill)
    _first_order.eps_derivatives(S, w, K, CODES[student], CODES[teacher], deps)
    return dA, dB, dC, ddv, deps


def finite_differences(student, teacher, S, w, K, h):
    """Central differences of sixth order."""
    out = []
    for unknown in unknowns(K, len(w) - K):
        slope = [0.0] * 5
        for m, c in ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60)):
            ahead = closure_arrays(student, teacher, *moved(S, w, unknown, m * h), K)
            behind = closure_arrays(student, teacher, *moved(S, w, unknown, -m * h), K)
            slope = [x + c * (p - q) / h for x, p, q in zip(slope, ahead, behind, strict=True)]
        out.append(slope)
    return [np.array(x) for x in zip(*out, strict=True)]


@each_pair
@pytest.mark.parametrize(("distance", "share", "tolerance"), [(None, 0.02, 1e-9), (0.3, 0.02, 1e-8)])
def test_finite_differences(student, teacher, distance, share, tolerance, rng):
    # A step of 2 % of the smallest eigenvalue (the distance to the nearest singularity of relu) has a truncation error
    # (0.02)^6 = 6e-11 times a constant of order one; rounding adds 1e-15 / h, and h >= 1e-6 in the aligned states.
    for K, M in SIZES:
        S, w = random_state(rng, K, M, distance)
        h = share * np.linalg.eigvalsh(S)[0]
        exact = derivative_arrays(student, teacher, S, w, K)
        difference = finite_differences(student, teacher, S, w, K, h)
        for x, y in zip(exact, difference, strict=True):
            np.testing.assert_allclose(x, y, rtol=0, atol=tolerance * (1 + np.abs(y).max()), err_msg=f"K={K}, M={M}")


@each_pair
def test_finite_differences_with_zero_readout(student, teacher, rng):
    S, w = random_state(rng, 3, 2)
    w[1] = 0.0
    exact = derivative_arrays(student, teacher, S, w, 3)
    difference = finite_differences(student, teacher, S, w, 3, 0.02 * np.linalg.eigvalsh(S)[0])
    for x, y in zip(exact, difference, strict=True):  # errors as above
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-9 * (1 + np.abs(y).max()))


def of_pieces(student, teacher, S, w, K):
    """Derivatives of units a x + b relu(x), given by (a, b), and a function for their arrays A, B, C, dv."""
    closure = PiecewiseLinearClosure(student, teacher, LearningNumbers(K, len(w) - K, ETA, ETA_V, NOISE, True))
    return closure.derivatives(S, w, exact=True), closure.arrays


@pytest.mark.parametrize(
    ("student", "teacher"), [((0.3, 0.7), (-0.4, 1.3)), ((-1.0, 2.0), (-1.0, 2.0)), ((0.6, -0.9), (1.3, 0.0))]
)
def test_piecewise_linear_units(student, teacher, rng):
    for K, M in ((1, 2), (2, 2), (3, 2)):
        S, w = random_state(rng, K, M)
        h = 0.02 * np.linalg.eigvalsh(S)[0]
        exact, arrays = of_pieces(student, teacher, S, w, K)
        places = [(u[1], u[2] if u[0] == "S" else None) for u in unknowns(K, M)]
        difference = central_differences(arrays, S, w, places, (h, h), DERIVATIVES.sixth_order)
        for i, x in zip((0, 1, 2, 3), exact, strict=True):  # errors as above
            np.testing.assert_allclose(x, difference[i], rtol=0, atol=1e-9 * (1 + np.abs(x).max()), err_msg=f"K={K}")


def test_parallel_teachers_are_one(rng):
    """Of the derivatives by Q and v, where parallel students would have none."""
    S, w = random_state(rng, 2, 1)
    field = np.array([0, 1, 2, 2]), np.array([1.0, 1.0, 1.0, 0.7])
    S2 = S[np.ix_(field[0], field[0])] * np.outer(field[1], field[1])
    one, _ = of_pieces((0.3, 0.7), (-0.4, 1.3), S, w, 2)
    two, _ = of_pieces((0.3, 0.7), (-0.4, 1.3), S2, np.array([*w[:2], w[2] - 0.7 * 0.9, 0.9]), 2)
    for i in (0, 2, 3):
        np.testing.assert_allclose(two[i][[0, 1, 2, -2, -1]], one[i][[0, 1, 2, -2, -1]], rtol=0, atol=1e-13)


@pytest.mark.parametrize("student", CODES)
def test_four_students(student, rng):
    # the smallest case in which a relu quadruple of four students occurs in the derivatives
    S, w = random_state(rng, 4, 2)
    exact = derivative_arrays(student, student, S, w, 4)
    difference = finite_differences(student, student, S, w, 4, 0.02 * np.linalg.eigvalsh(S)[0])
    for x, y in zip(exact, difference, strict=True):  # errors as above
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-9 * (1 + np.abs(y).max()))


@each_pair
def test_first_order_in_eta_leaves_C_alone(student, teacher, rng):
    S, w = random_state(rng, 2, 3)
    full = derivative_arrays(student, teacher, S, w, 2)
    flow = derivative_arrays(student, teacher, S, w, 2, second_order=False, fill=7.0)
    assert np.all(flow[2] == 7.0)
    for i in (0, 1, 3):
        np.testing.assert_array_equal(flow[i], full[i])


def test_table_is_the_derivative_of_two_point(rng):
    # Each entry through a difference of the table below it: dp/dsab, dp/dsaa, dp/dsbb, dq/dsaa and its mirror.
    # Variances and determinant of order one, h = 1e-2: truncation and rounding both near 1e-12.
    def slope(f, h, entry, point, axis):
        total = 0.0
        for m, c in ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60)):
            step = np.zeros(3)
            step[axis] = m * 1e-2
            total += c * (two_point(f, h, *(point + step))[entry] - two_point(f, h, *(point - step))[entry]) / 1e-2
        return total

    for f, h in itertools.product(CODES.values(), repeat=2):
        point = np.array([1.3, 0.9, rng.uniform(-0.5, 0.5)])
        exact = two_point_derivatives(f, h, *point)
        diagonal = ((1, 0), (1, 1), (2, 0), (3, 1))  # (entry, variance)
        expected = [slope(f, h, 1, point, 2)] + [2 * slope(f, h, entry, point, axis) for entry, axis in diagonal]
        np.testing.assert_allclose(exact, expected, rtol=0, atol=1e-9)


def mp_pair(f, h, saa, sbb, sab):
    """E[f(a) h(b)] in high precision; the only integral of eps_g."""
    if CODES[f] < CODES[h]:
        return mp_pair(h, f, sbb, saa, sab)
    if f == h == "erf":
        return 2 / mp.pi * mp.asin(sab / mp.sqrt((1 + saa) * (1 + sbb)))
    if f == h == "relu":
        angle = mp.acos(sab / mp.sqrt(saa * sbb))
        return mp.sqrt(saa * sbb) * (mp.sin(angle) + (mp.pi - angle) * mp.cos(angle)) / (2 * mp.pi)
    if f == h == "quadratic":
        return saa * sbb + 2 * sab**2
    if (f, h) == ("erf", "linear"):
        return sab * mp.sqrt(2 / (mp.pi * (1 + saa)))
    if (f, h) == ("erf", "relu"):
        return sab / mp.sqrt(2 * mp.pi * (1 + saa))
    if (f, h) == ("relu", "quadratic"):
        return mp.sqrt(saa / (2 * mp.pi)) * (sbb + sab**2 / saa)
    if (f, h) == ("relu", "linear"):
        return sab / 2
    return sab if f == h == "linear" else mp.mpf(0)


def mp_eps(names, x, w):
    """eps_g with the overlaps in a dictionary (i, j) -> S_ij, i <= j."""
    n = len(w)
    total = mp.mpf(0)
    for i in range(n):
        # E[g(a)^2] of relu: the two-field formula has an infinite slope at a = b
        same = x[i, i] / 2 if names[i] == "relu" else mp_pair(names[i], names[i], x[i, i], x[i, i], x[i, i])
        total += w[i] ** 2 * same / 2
        for j in range(i):
            total += w[i] * w[j] * mp_pair(names[j], names[i], x[j, j], x[i, i], x[j, i])
    return total


def mp_slope(function, variables, unknown, h):
    """Central difference in one entry of a dictionary of variables."""
    ahead, behind = dict(variables), dict(variables)
    ahead[unknown] += h
    behind[unknown] -= h
    return (function(ahead) - function(behind)) / (2 * h)


@each_pair
def test_first_order_against_second_derivatives_of_eps_g(student, teacher, rng):
    # A, B and dv are first derivatives of eps_g (Price), so their derivatives are second ones: differences of eps_g
    # alone, 60 digits and h = 1e-15, exact to 1e-28.  What remains is rounding in double precision.
    K, M = 2, 1
    S, w = random_state(rng, K, M)
    names = [student] * K + [teacher] * M
    with mp.workdps(60):
        h = mp.mpf(10) ** -15
        variables = {("S", i, j): mp.mpf(S[i, j]) for i in range(3) for j in range(i, 3)}
        variables |= {("v", k): mp.mpf(w[k]) for k in range(3)}

        def eps(x):
            return mp_eps(names, {key[1:]: x[key] for key in x if key[0] == "S"}, [x["v", k] for k in range(3)])

        def second(u, other):
            return float(mp_slope(lambda x: mp_slope(eps, x, other, h), variables, u, h))

        order = unknowns(K, M)
        A, B, dv = np.empty((7, 2, 2)), np.empty((7, 2, 1)), np.empty((7, 2))
        for row, u in enumerate(order):
            for i in range(K):
                A[row, i, i] = -2 * ETA * second(u, ("S", i, i))
                A[row, i, 1 - i] = -ETA * second(u, ("S", 0, 1))
                B[row, i, 0] = -ETA * second(u, ("S", i, 2))
                dv[row, i] = -ETA_V * second(u, ("v", i))
        deps = [float(mp_slope(eps, variables, u, h)) for u in order]
    exact = derivative_arrays(student, teacher, S, w, K)
    for x, y in zip((exact[0], exact[1], exact[3], exact[4]), (A, B, dv, deps), strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-13 * (1 + np.abs(y).max()))


def mp_erf_C(S, w, K):
    """E[g'_a g'_b Delta^2] from I_4 as printed by Saad and Solla (1995)."""

    def i4(a, b, c, d):
        L4 = (1 + S[a, a]) * (1 + S[b, b]) - S[a, b] ** 2
        L0 = L4 * S[c, d] - S[b, c] * S[b, d] * (1 + S[a, a]) - S[a, c] * S[a, d] * (1 + S[b, b])
        L0 += S[a, b] * S[a, c] * S[b, d] + S[a, b] * S[a, d] * S[b, c]
        L1 = L4 * (1 + S[c, c]) - S[b, c] ** 2 * (1 + S[a, a]) - S[a, c] ** 2 * (1 + S[b, b])
        L1 += 2 * S[a, b] * S[a, c] * S[b, c]
        L2 = L4 * (1 + S[d, d]) - S[b, d] ** 2 * (1 + S[a, a]) - S[a, d] ** 2 * (1 + S[b, b])
        L2 += 2 * S[a, b] * S[a, d] * S[b, d]
        return 4 / mp.pi**2 / mp.sqrt(L4) * mp.asin(L0 / mp.sqrt(L1 * L2))

    def pair(a, b):
        noise = NOISE**2 * 2 / mp.pi / mp.sqrt((1 + S[a, a]) * (1 + S[b, b]) - S[a, b] ** 2)
        fields = range(len(w))
        return noise + sum(w[c] * w[d] * i4(a, b, c, d) for c in fields for d in fields)

    return [[pair(a, b) for b in range(K)] for a in range(K)]


def mp_relu_C(S, w, K):
    """E[theta(a) theta(b) Delta^2] for two students and one teacher: closed forms of three fields."""
    n = len(w)
    r = {(i, j): S[i, j] / mp.sqrt(S[i, i] * S[j, j]) for i in range(n) for j in range(n)}
    s = {key: mp.sqrt(1 - r[key] ** 2) if key[0] != key[1] else mp.mpf(0) for key in r}
    u = [w[i] * mp.sqrt(S[i, i]) for i in range(n)]

    def P2(a, b):
        return mp.mpf(1) / 2 if a == b else mp.mpf(1) / 4 + mp.asin(r[a, b]) / (2 * mp.pi)

    def P3(a, b, c):
        return mp.mpf(1) / 8 + (mp.asin(r[a, b]) + mp.asin(r[a, c]) + mp.asin(r[b, c])) / (4 * mp.pi)

    def product(a, c, d):  # E[theta(a) c_+ d_+]
        if c == d:
            return mp.mpf(1) / 2 if a == c else P2(a, c) + r[a, c] * s[a, c] / (2 * mp.pi)
        if a in (c, d):
            return r[c, d] * P2(c, d) + s[c, d] / (2 * mp.pi)
        return r[c, d] * P3(a, c, d) + (s[c, d] + r[a, d] * s[a, c] + r[a, c] * s[a, d]) / (4 * mp.pi)

    def four(a, b, c, d):
        if a == b or a in (c, d):
            return product(b, c, d)
        if b in (c, d):
            return product(a, c, d)
        kappa = 2 * r[a, c] * r[b, c] - r[a, b] * (r[a, c] ** 2 + r[b, c] ** 2)  # c = d, the only other field
        return P3(a, b, c) + (r[a, c] * s[a, c] + r[b, c] * s[b, c] + kappa / s[a, b]) / (4 * mp.pi)

    fields = range(n)
    return [
        [NOISE**2 * P2(a, b) + sum(u[c] * u[d] * four(a, b, c, d) for c in fields for d in fields) for b in range(K)]
        for a in range(K)
    ]


@pytest.mark.parametrize(("name", "truth"), [("erf", mp_erf_C), ("relu", mp_relu_C)])
@pytest.mark.parametrize(("distance", "tolerance"), [(None, 1e-13), (0.1, 1e-11)])
def test_C_against_high_precision(name, truth, distance, tolerance, rng):
    # 60 digits and h = 1e-20: the difference is exact.  In double precision conditioning on an aligned field costs
    # 1 / (1 - correlation^2), about 1e2 at distance 0.1, once for each field that is fixed.
    K, M = 2, 1
    S, w = random_state(rng, K, M, distance)
    with mp.workdps(60):
        h = mp.mpf(10) ** -20
        S_mp, w_mp = mp.matrix(S.tolist()), [mp.mpf(x) for x in w]

        def C(S, w):
            X = truth(S, w, K)
            return np.array([[ETA**2 * w[a] * w[b] * X[a][b] for b in range(K)] for a in range(K)])

        expected = []
        for u in unknowns(K, M):
            sides = []
            for step in (h, -h):
                S_new, w_new = S_mp.copy(), list(w_mp)
                if u[0] == "v":
                    w_new[u[1]] += step
                else:
                    S_new[u[1], u[2]] += step
                    S_new[u[2], u[1]] = S_new[u[1], u[2]]
                sides.append(C(S_new, w_new))
            expected.append(((sides[0] - sides[1]) / (2 * h)).astype(float))
    exact = derivative_arrays(name, name, S, w, K)[2]
    np.testing.assert_allclose(exact, expected, rtol=0, atol=tolerance * (1 + np.abs(expected).max()))


@pytest.mark.parametrize("teacher", CODES)
def test_euler_homogeneity_of_relu(teacher, rng):
    # z_k -> t z_k, v_k -> v_k / t leaves the student's output alone: eps_g is invariant, every index k of A, B and C
    # has weight -1, dv_k has weight 1.  The closure itself is from its own kernels; only rounding remains.
    K, M = 3, 2
    S, w = random_state(rng, K, M)
    derivatives = derivative_arrays("relu", teacher, S, w, K)
    A, B, C, dv, _ = closure_arrays("relu", teacher, S, w, K)
    for k in range(K):
        scale = np.zeros(len(derivatives[0]))
        for u, unknown in enumerate(unknowns(K, M)):
            if unknown[0] == "v":
                scale[u] = -w[k] if unknown[1] == k else 0.0
            else:
                scale[u] = S[unknown[1:]] * unknown[1:].count(k)
        index = np.arange(K) == k
        expected = -A * (index[:, None] + 1.0 * index), -B * index[:, None], -C * (index[:, None] + 1.0 * index)
        for x, y in zip(derivatives, (*expected, dv * index, np.zeros(())), strict=True):
            np.testing.assert_allclose(np.tensordot(scale, x, 1), y, rtol=0, atol=1e-13)


@each_pair
def test_permuting_units(student, teacher, rng):
    # Another numbering of units changes the order of sums, hence rounding only.
    K, M = 3, 2
    S, w = random_state(rng, K, M)
    students, teachers = np.array([2, 0, 1]), np.array([1, 0])
    p = np.concatenate([students, K + teachers])
    original = derivative_arrays(student, teacher, S, w, K)
    permuted = derivative_arrays(student, teacher, np.ascontiguousarray(S[np.ix_(p, p)]), w[p], K)
    order = unknowns(K, M)
    match = []
    for unknown in order:
        image = tuple(int(p[i]) for i in unknown[1:])
        match.append(order.index((unknown[0], *sorted(image))))
    dA, dB, dC, ddv, deps = (x[match] for x in original)
    expected = (
        dA[:, students][:, :, students],
        dB[:, students][:, :, teachers],
        dC[:, students][:, :, students],
        ddv[:, students],
        deps,
    )
    for x, y in zip(permuted, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-12 * (1 + np.abs(y).max()))


@each_pair
def test_two_copies_of_a_teacher(student, teacher, rng):
    # They act as one teacher with the sum of the weights, although S is singular: rounding of parallel fields, 1e-8 at
    # worst in a single angle of relu, must cancel.
    K = 3
    S, w = random_state(rng, K, 2)
    both = np.array([0, 1, 2, 3, 4, 4])
    w_both = np.append(w[:4], [0.4 * w[4], 0.6 * w[4]])
    one = derivative_arrays(student, teacher, S, w, K)
    two = derivative_arrays(student, teacher, np.ascontiguousarray(S[np.ix_(both, both)]), w_both, K)
    order = unknowns(K, 2)
    merged = [order.index(u if u[0] == "v" else ("S", u[1], min(u[2], 4))) for u in unknowns(K, 3)]
    for i in (0, 2, 3, 4):
        summed = np.zeros_like(one[i])
        np.add.at(summed, merged, two[i])
        np.testing.assert_allclose(summed, one[i], rtol=0, atol=1e-11 * (1 + np.abs(one[i]).max()))


@each_pair
def test_fourth_derivatives_are_symmetric(student, teacher, rng):
    # dA_ij/dQ_kl and dA_kl/dQ_ij are the same fourth derivative of the loss
    K = 3
    S, w = random_state(rng, K, 2)
    dA = derivative_arrays(student, teacher, S, w, K)[0]
    pairs = [(i, j) for i in range(K) for j in range(i, K)]
    for u, v in itertools.product(range(len(pairs)), repeat=2):
        counted = [2.0 if i == j else 1.0 for i, j in (pairs[u], pairs[v])]  # a unit change of Q_ii is half of a pair
        np.testing.assert_allclose(counted[0] * dA[u][pairs[v]], counted[1] * dA[v][pairs[u]], rtol=0, atol=1e-13)


def test_relu_alignment(rng):
    # the student nearest to any other unit, two students or student and teacher; teachers may coincide
    W = rng.standard_normal((4, 9))
    W[3] = W[2]
    S = W @ W.T
    sine = np.sqrt(1 - (S / np.sqrt(np.outer(np.diag(S), np.diag(S)))) ** 2 + np.eye(4))
    np.testing.assert_allclose(_relu_derivatives.relu_alignment(S, 2), sine[:2].min(), rtol=1e-12)
    W[1] = 2 * W[3] + 1e-7 * np.linalg.norm(W[3]) * np.array([1.0] + [0.0] * 8)
    S = W @ W.T
    # s ~ 1e-7 from overlaps rounded at 1e-16 has a relative error of 1e-16 / s^2 = 1e-2
    perpendicular = np.linalg.norm(W[1] - W[3] * (W[1] @ W[3]) / (W[3] @ W[3])) / np.linalg.norm(W[1])
    np.testing.assert_allclose(_relu_derivatives.relu_alignment(S, 2), perpendicular, rtol=0.1)
