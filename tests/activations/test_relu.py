"""Relu students: the closure and its matrix C, against mpmath, plane geometry and sampling."""

import mpmath as mp
import numpy as np
import pytest
from helpers import assert_sampled, closure, covariance, few, samples
from oracles import mp_orthant
from scipy.special import erf

from overlaps.activations import _relu
from overlaps.activations._erf import erf_closure
from overlaps.gaussian.two_point import ERF, LINEAR, QUADRATIC, RELU

TEACHERS = {"linear": LINEAR, "quadratic": QUADRATIC, "relu": RELU, "erf": ERF}


# ---- Oracle: orthant moments in 60 digits by Stein's lemma -----------------------------------------------------------


def mp_moment(S, power, step):
    """E[prod_i z_i^power_i prod_(i in step) theta(z_i)] for a covariance S (list of lists of mpf)."""
    field = next((i for i, p in enumerate(power) if p), None)
    if field is None:
        return mp_orthant(S, [i for i, on in enumerate(step) if on])
    rest = [p - (i == field) for i, p in enumerate(power)]
    total = mp.mpf(0)
    for j, p in enumerate(rest):
        if not S[field][j]:
            continue
        if p:
            lowered = [q - (i == j) for i, q in enumerate(rest)]
            total += S[field][j] * p * mp_moment(S, lowered, step)
        elif step[j]:  # delta(z_j): condition on z_j = 0
            given = [[S[a][b] - S[a][j] * S[j][b] / S[j][j] for b in range(len(S))] for a in range(len(S))]
            off = [on and i != j for i, on in enumerate(step)]
            total += S[field][j] * mp_moment(given, rest, off) / mp.sqrt(2 * mp.pi * S[j][j])
    return total


def _term(S, steps, factors):
    """E[prod_(i in steps) theta(i) prod_(activation, c in factors) g(c)], repeated indices included."""
    n = len(S)
    S = [row[:] for row in S]
    power, step, signs = [0] * n, [i in steps for i in range(n)], []
    for code, c in factors:
        if code == ERF:  # erf(z / sqrt 2) = 2 E[theta(z + xi)] - 1: a new field
            S = [row + [row[c]] for row in S] + [S[c] + [S[c][c] + 1]]
            power, step = power + [0], step + [True]
            signs.append(len(S) - 1)
        else:
            power[c] += 2 if code == QUADRATIC else 1
            step[c] = step[c] or code == RELU
    total = mp.mpf(0)
    for subset in range(2 ** len(signs)):
        on = [not (i in signs and subset >> signs.index(i) & 1) for i in range(len(S))]
        weight = mp.mpf(1)
        for s in signs:
            weight *= 2 if on[s] else -1
        keep = [i for i in range(len(S)) if step[i] and on[i]]
        total += weight * mp_moment(S, power, [i in keep for i in range(len(S))])
    return total


def mp_C(S, w, K, teacher, noise=0.0, raised=0.0, digits=60):
    """C for eta = 1; ``raised`` is added to the variances, for a singular S that is exact in floating point."""
    with mp.workdps(digits):
        n = len(S)
        S = [[mp.mpf(float(S[i, j])) + (raised if i == j else 0) for j in range(n)] for i in range(n)]
        code = [RELU if i < K else teacher for i in range(n)]
        w = [mp.mpf(float(x)) for x in w]
        C = mp.zeros(K)
        for k in range(K):
            for j in range(k + 1):
                total = mp.mpf(float(noise)) ** 2 * _term(S, (k, j), [])
                for c in range(n):
                    for d in range(c + 1):
                        total += (2 - (c == d)) * w[c] * w[d] * _term(S, (k, j), [(code[c], c), (code[d], d)])
                C[k, j] = C[j, k] = w[k] * w[j] * total
        return np.array(C.tolist(), dtype=float)


# ---- Helpers ---------------------------------------------------------------------------------------------------------


def relu_C(S, w, K, teacher=RELU, noise=0.0):
    return closure(_relu.relu_closure, S, w, K, teacher, noise=noise)[2]


def relu_square(S, u, K):
    """E[theta(k) theta(l) (sum_c u_c relu(z_c))^2]."""
    sigma, r, s, arcsin = _relu.geometry(S)
    square = np.zeros((K, K))
    _relu.relu_square(r, s, arcsin, u * sigma, K, len(u), square)
    return square


def relu_I4(S, a, b, c, d):
    """E[theta(a) theta(b) relu(c) relu(d)] from squares of sums: the production code, one quadruple at a time."""
    e = np.eye(len(S))
    n = len(S)
    both = relu_square(S, e[c] + e[d], n) - relu_square(S, e[c], n) - relu_square(S, e[d], n)
    return 0.5 * both[max(a, b), min(a, b)]


GOLDEN_Q, GOLDEN_R = np.array([[1, 0.25], [0.25, 0.75]]), np.array([[0.5, 0.125], [-0.25, 0.375]])
GOLDEN_S = np.block([[GOLDEN_Q, GOLDEN_R], [GOLDEN_R.T, np.eye(2)]])
GOLDEN_W = np.array([1.0, 0.5, -1.0, 0.75])
GOLDEN_S4 = np.array(
    [[1, 0.25, 0.5, -0.125], [0.25, 1, 0.375, 0.25], [0.5, 0.375, 1.5, 0.125], [-0.125, 0.25, 0.125, 0.75]]
)
GOLDEN = {  # A by rows, B by rows, C00 C01 C11, dv, eps_g, to 15 digits
    ("relu", "relu"): """
        -0.273289958590946 -0.0741518436673336 -0.0741518436673336 -0.0935600719076280
        0.166666666666667 -0.101229953939019 0.0508481563326664 -0.0602390136839871
        0.225245421373415 0.0959138121227222 0.0588901455118558
        -0.442296660833646 -0.496038736248865 0.561641746084718""",
    ("relu", "erf"): """
        -0.282991076860386 -0.0741518436673336 -0.0741518436673336 -0.106488102480515
        0.141047395886939 -0.105785546915204 0.0705236979434695 -0.0528927734576022
        0.222900119369664 0.0974147893872397 0.0654896535861226
        -0.488457066396302 -0.543479009238752 0.620680162127905""",
    ("relu", "linear"): """
        -0.282991076860386 -0.0741518436673336 -0.0741518436673336 -0.106488102480515
        0.250000000000000 -0.187500000000000 0.125000000000000 -0.0937500000000000
        0.320047492742358 0.129206054494513 0.104033910742630
        -0.399933075554440 -0.659241151108879 1.11087057555444""",
    ("relu", "quadratic"): """
        -0.280653524436159 -0.0741518436673336 -0.0741518436673336 -0.0710989448089722
        0.199471140200716 -0.0374008387876343 -0.0575823582452226 -0.0647801530258754
        0.508851160749729 0.161049701614256 0.132265726657329
        -0.408262040202178 -0.327036549387841 1.76559723934166""",
    ("erf", "relu"): """
        -0.109808177452210 -0.0858417925943208 -0.0858417925943208 0.00639072549967338
        0.141047395886939 -0.105785546915204 0.0753930043865134 -0.0565447532898851
        0.0835642728593419 0.0324448234250442 0.0181584711548308
        -0.261395895233036 -0.386520240465647 0.481338829415275""",
}


# ---- Regular states --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("student", "teacher"), GOLDEN)
def test_closure_golden(student, teacher):
    kernel = {"relu": _relu.relu_closure, "erf": erf_closure}[student]
    A, B, C, dv, eps_g = closure(kernel, GOLDEN_S, GOLDEN_W, 2, TEACHERS[teacher], eta=0.5, noise=0.25)
    found = np.concatenate([A.ravel(), B.ravel(), C[np.triu_indices(2)], dv, [eps_g]])
    # golden numbers are printed with 15 digits
    np.testing.assert_allclose(found, np.array(GOLDEN[student, teacher].split(), dtype=float), rtol=1e-12)
    assert np.array_equal(C, C.T)


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ((0, 1, 2, 3), 0.102488671644534),
        ((0, 0, 2, 3), 0.126334765745600),
        ((0, 1, 2, 2), 0.407076170203363),
        ((0, 1, 0, 3), 0.0843420016827175),
        ((0, 1, 0, 1), 0.226654938922271),
        ((0, 0, 0, 3), 0.108020484538319),
    ],
)
def test_I4_golden(index, expected):
    assert relu_I4(GOLDEN_S4, *index) == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("K", "M"), [(2, 2), (4, 1)])
def test_relu_C_against_60_digits(K, M):
    rng = np.random.default_rng(K)
    S, w = covariance(rng, K + M, 6), rng.normal(size=K + M)
    # a few roundings of terms O(1)
    np.testing.assert_allclose(relu_C(S, w, K, noise=0.3), mp_C(S, w, K, RELU, noise=0.3), atol=5e-15)


@pytest.mark.slow
@pytest.mark.parametrize(("teacher", "K", "M"), [("linear", 3, 2), ("quadratic", 3, 2), ("erf", 2, 1)])
def test_mixed_C_against_60_digits(teacher, K, M):
    rng = np.random.default_rng(7)
    S, w = covariance(rng, K + M, 6), rng.normal(size=K + M)
    expected = mp_C(S, w, K, TEACHERS[teacher], noise=0.3)
    np.testing.assert_allclose(relu_C(S, w, K, TEACHERS[teacher], noise=0.3), expected, atol=1e-14)


@pytest.mark.slow
def test_erf_teacher_many_units_against_60_digits():
    rng = np.random.default_rng(8)
    S, w = covariance(rng, 5, 6), rng.normal(size=5)
    np.testing.assert_allclose(relu_C(S, w, 3, ERF), mp_C(S, w, 3, ERF), atol=1e-14)


@few("teacher", TEACHERS, quick=1)
def test_closure_against_sampling(teacher):
    rng = np.random.default_rng(11)
    K, M, noise = 3, 3, 0.4
    S, w = covariance(rng, K + M, 8), rng.normal(size=K + M)
    g = {
        "linear": lambda x: x,
        "quadratic": np.square,
        "relu": lambda x: np.maximum(x, 0),
        "erf": lambda x: erf(x / np.sqrt(2)),
    }[teacher]

    def delta(z):
        return np.maximum(z[:, :K], 0) @ w[:K] + g(z[:, K:]) @ w[K:]

    z, F = samples(S, w, K, lambda x: x > 0, delta, noise, 300_000, rng)
    A, B, C, dv, eps_g = closure(_relu.relu_closure, S, w, K, TEACHERS[teacher], noise=noise)
    assert_sampled(C, F[:, :, None] * F[:, None, :])
    assert_sampled(A @ S[:K] + B @ S[K:], F[:, :, None] * z[:, None, :])  # Stein
    assert_sampled(dv, -np.maximum(z[:, :K], 0) * delta(z)[:, None])
    assert_sampled(eps_g, 0.5 * delta(z) ** 2)


# ---- Nearly aligned states: C is a tiny difference of terms O(1) -----------------------------------------------------


def aligned(rng, teacher_of, M, eps):
    """Students = their teachers + eps noise; weights of the students of one teacher add up to the teacher's."""
    W = rng.normal(size=(M, 6)) / np.sqrt(6)
    students = W[teacher_of] + eps * rng.normal(size=(len(teacher_of), 6)) / np.sqrt(6)
    X = np.vstack([students, W])
    w = np.concatenate([1.0 / np.bincount(teacher_of)[teacher_of], -np.ones(M)])
    return X @ X.T, w


@pytest.mark.slow
@pytest.mark.parametrize("eps", [1e-1, 1e-3, 1e-5])
def test_relu_C_near_alignment(eps):
    S, w = aligned(np.random.default_rng(1), np.array([0, 1]), 2, eps)
    expected = mp_C(S, w, 2, RELU)
    # absolute: rounding of terms O(1), although |C| = O(eps^2) goes down to 1e-10
    np.testing.assert_allclose(relu_C(S, w, 2), expected, atol=2e-15, rtol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("teacher_of", "M", "eps"),
    [
        ([0, 1], 2, 1e-2),
        ([0, 1], 2, 1e-4),
        ([0, 1, 2], 3, 1e-3),
        ([0, 0, 1, 1], 2, 1e-3),
        ([0, 0, 0], 1, 1e-2),
        ([0, 0, 0], 1, 1e-3),
    ],
)
def test_relu_C_near_alignment_more_units(teacher_of, M, eps):
    S, w = aligned(np.random.default_rng(2), np.array(teacher_of), M, eps)
    # redundant students a, b are parallel to eps: theta(a) theta(b) turns rounding of S into 1e-16 / eps
    np.testing.assert_allclose(relu_C(S, w, len(teacher_of)), mp_C(S, w, len(teacher_of), RELU), atol=3e-14)


# ---- Exactly singular covariances ------------------------------------------------------------------------------------


def plane_I4(phi, a, b, c, d):
    """E[theta(a) theta(b) c_+ d_+] of unit fields at the angles phi of a plane: an arc and E[radius^2] = 2."""
    turn = (phi[[a, b, c, d]] - phi[a] + np.pi) % (2 * np.pi) - np.pi
    low, high = turn.max() - np.pi / 2 + phi[a], turn.min() + np.pi / 2 + phi[a]
    if high <= low:
        return 0.0
    ends = np.sin(2 * high - phi[c] - phi[d]) - np.sin(2 * low - phi[c] - phi[d])
    return (0.5 * (high - low) * np.cos(phi[c] - phi[d]) + 0.25 * ends) / np.pi


def plane_C(phi, w, K):
    n = range(len(phi))
    square = [[sum(w[c] * w[d] * plane_I4(phi, a, b, c, d) for c in n for d in n) for b in range(K)] for a in range(K)]
    return np.outer(w[:K], w[:K]) * square


@pytest.mark.parametrize("case", ["generic", "teacher on student", "teacher opposite", "students equal", "opposite"])
def test_rank_two_is_plane_geometry(case):
    rng = np.random.default_rng(3)
    for _ in range(30):
        phi, w = rng.uniform(0, 2 * np.pi, 5), rng.normal(size=5)
        if case.startswith("teacher"):
            phi[3] = phi[0] + (np.pi if case == "teacher opposite" else 0.0)
        elif case != "generic":
            phi[1] = phi[0] + (np.pi if case == "opposite" else 0.0)
        S = np.cos(phi[:, None] - phi)
        # two boundaries at an angle x amplify the rounding of S by 1/x; x > 2e-3 here
        np.testing.assert_allclose(relu_C(S, w, 3), plane_C(phi, w, 3), atol=1e-13, rtol=1e-13)


def test_rank_one_is_a_line():
    rng = np.random.default_rng(4)
    size, w = rng.normal(size=5), rng.normal(size=5)
    size[4] = 0.0
    size[:4] = 2.0 ** np.round(size[:4]) * np.sign(size[:4])  # powers of two: S, and the correlations +-1, are exact
    S = np.outer(size, size)
    expected = np.zeros((3, 3))
    for side in (1.0, -1.0):
        error = w @ np.maximum(side * size, 0.0)
        on = side * size[:3] > 0
        expected += 0.5 * error**2 * np.outer(on * w[:3], on * w[:3])
    np.testing.assert_allclose(relu_C(S, w, 3), expected, atol=1e-14)


def mp_I4_of_vectors(vectors):
    """I4 of fields given exactly; variances raised by 1e-36, which moves it by 1e-18 at most, make them independent."""
    with mp.workdps(130):
        X = [[mp.mpf(x) for x in v] for v in vectors]
        S = [[mp.fdot(x, y) + (mp.mpf(10) ** -36 if x is y else 0) for y in X] for x in X]
        return float(_term(S, (0, 1), [(RELU, 2), (RELU, 3)]))


def dependent(case, rng):
    """Four fields with a linear relation that holds exactly: components and factors are integers / 8."""
    a, b, c, d = (rng.integers(-16, 17, size=5) / 8 for _ in range(4))
    return {
        "rank 3": [np.append(x[:3], [0, 0]) for x in (a, b, c, d)],
        "c = a": [a, b, a, d],
        "c = -a": [a, b, -a, d],
        "c = 1.25 d": [a, b, 1.25 * d, d],
        "c in span(a, b)": [a, b, a - 0.5 * b, d],
        "c, d in span(a, b)": [a, b, a - 0.5 * b, 0.25 * a + b],
        "c = 1.5 a, d = 0.25 b": [a, b, 1.5 * a, 0.25 * b],
        "a = 1.25 b": [1.25 * b, b, c, d],
        "a = -1.25 b": [-1.25 * b, b, c, d],
    }[case]


CASES = ["rank 3", "c = a", "c = -a", "c = 1.25 d", "c in span(a, b)", "c, d in span(a, b)", "c = 1.5 a, d = 0.25 b"]


@pytest.mark.slow
@pytest.mark.parametrize("case", [*CASES, "a = 1.25 b", "a = -1.25 b"])
def test_dependent_fields_against_130_digits(case):
    rng = np.random.default_rng(5)
    for _ in range(2):
        X = np.array(dependent(case, rng))
        # S is exact here; rounded by 1e-16 it would move I4 by 1e-8 where a and b are parallel
        assert relu_I4(X @ X.T, 0, 1, 2, 3) == pytest.approx(mp_I4_of_vectors(X), abs=1e-14)


@pytest.mark.parametrize("teacher", ["linear", "quadratic", pytest.param("erf", marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", ["plane", "c = -a"])
def test_mixed_C_of_dependent_students(teacher, case):
    X = np.random.default_rng(20).integers(-16, 17, size=(4, 4)) / 8  # S is exact
    X[2] = X[0] - 0.5 * X[1] if case == "plane" else -X[0]
    S, w, code = X @ X.T, np.array([0.5, 1.0, -1.0, -0.5]), TEACHERS[teacher]
    # a plane: the root of a determinant rounded to 1e-16 enters at second order; opposite a, c: exact limits
    expected = mp_C(S, w, 3, code, raised=1e-36, digits=130)
    np.testing.assert_allclose(relu_C(S, w, 3, code), expected, atol=1e-13 * np.abs(expected).max())


@pytest.mark.parametrize("K", [1, 2, 3, 4])
def test_students_equal_to_teachers_feel_nothing(K):
    rng = np.random.default_rng(K)
    S, v = covariance(rng, K, K + 1), rng.normal(size=K)
    C = relu_C(np.block([[S, S], [S, S]]), np.concatenate([v, -v]), K)
    np.testing.assert_allclose(C, 0.0, atol=1e-14)  # rounding of 4 K^2 terms O(1)


@pytest.mark.parametrize("teacher", TEACHERS)
def test_equal_units_act_as_one(teacher):
    """Two equal students, or teachers, are one unit with the sum of their weights."""
    rng = np.random.default_rng(6)
    code = TEACHERS[teacher]
    S, w = covariance(rng, 4, 6), rng.normal(size=4)
    small = relu_C(S, w, 2, code, noise=0.3) / np.outer(w[:2], w[:2])
    split = np.array([0, 0, 1, 2, 3])  # student 0 twice
    weights = np.array([0.25 * w[0], 0.75 * w[0], *w[1:]])
    large = relu_C(S[np.ix_(split, split)], weights, 3, code, noise=0.3) / np.outer(weights[:3], weights[:3])
    np.testing.assert_allclose(large, small[np.ix_([0, 0, 1], [0, 0, 1])], atol=1e-13)
    split = np.array([0, 1, 2, 3, 3])  # last teacher twice
    weights = np.array([*w[:3], 0.25 * w[3], 0.75 * w[3]])
    large = relu_C(S[np.ix_(split, split)], weights, 2, code, noise=0.3) / np.outer(w[:2], w[:2])
    np.testing.assert_allclose(large, small, atol=1e-13)


@pytest.mark.parametrize("teacher", TEACHERS)
def test_teacher_of_zero_variance_contributes_nothing(teacher):
    rng = np.random.default_rng(9)
    S, w = covariance(rng, 4, 6), rng.normal(size=4)
    S[3] = S[:, 3] = 0.0
    np.testing.assert_allclose(
        relu_C(S, w, 2, TEACHERS[teacher]), relu_C(S[:3, :3], w[:3], 2, TEACHERS[teacher]), atol=1e-14
    )


def test_overshoot_is_clipped():
    S, w = np.ones((3, 3)), np.array([0.5, 1.0, -1.5])
    S[0, 2] = S[2, 0] = 1.0 + 1e-9
    # correlations beyond 1 count as 1: three equal fields, weights that add up to nothing
    np.testing.assert_allclose(relu_C(S, w, 2), 0.0, atol=1e-15)
