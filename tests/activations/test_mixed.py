"""Students and teachers of different families, against recursions with Stein's lemma in 60 digits."""

import itertools
from functools import cache

import mpmath as mp
import numpy as np
import pytest
from helpers import few, workspace
from oracles import mp_orthant

import overlaps as ov
from overlaps.activations._erf import erf_closure
from overlaps.activations._quadratic import quadratic_closure
from overlaps.activations._relu import relu_closure
from overlaps.activations.bound import LearningNumbers
from overlaps.activations.families import FamiliesClosure, parts_of
from overlaps.flow.binding import bind_numeric

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


# ---- Oracle: E[prod of powers, steps, signs and delta functions] by Stein's lemma in 60 digits -----------------------


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
    """Lists for g and for g' of (coefficient, power, kind, scale)."""
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


WITH_SLOW_ONES = [  # orthants of four fields at 60 digits take seconds
    pytest.param(*pair, marks=pytest.mark.slow) if parts_of(pair[0]).kink and parts_of(pair[1]).amplitudes else pair
    for pair in PAIRS
]


@few("kind", ["generic", "parallel", "plane"], quick=1)
@pytest.mark.parametrize(("student", "teacher"), WITH_SLOW_ONES, ids=str)
def test_C_against_60_digits(student, teacher, kind, rng):
    K = 2
    S, w = covariance(kind, K, 1, rng), np.array([1.1, -0.7, 0.9])
    f = bind_numeric(student, teacher, LearningNumbers(K, 1, 1.0, 1.0, 0.3, True))
    assert isinstance(f, FamiliesClosure)
    expected = mp_C(student, teacher, S, w, K, 0.3)
    # rounding of sums of about 1e3 points; students 1e-6 apart: rounding of S over their distance
    limit = 1e-9 if kind == "parallel" and parts_of(student).kink else 1e-13
    np.testing.assert_allclose(evaluate(f, S, w, K)[2], expected, rtol=0, atol=limit * np.abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["generic", "parallel", "plane"])
def test_cones_of_three_students_against_60_digits(kind, rng):
    K, student, teacher = 3, LEAKY, ov.polynomial([0.3, 0.0, 0.5, 0.2])
    S, w = covariance(kind, K, 1, rng), np.array([1.1, -0.7, 0.6, 0.9])
    expected = mp_C(student, teacher, S, w, K, 0.3)
    found = evaluate(bind_numeric(student, teacher, LearningNumbers(K, 1, 1.0, 1.0, 0.3, True)), S, w, K)[2]
    limit = 1e-9 if kind == "parallel" else 1e-13
    np.testing.assert_allclose(found, expected, rtol=0, atol=limit * np.abs(expected).max())


@pytest.mark.parametrize("student", [LEAKY, STEEP, QUAD], ids=str)
def test_the_scale_of_a_polynomial_teacher_is_that_of_its_field(student, rng):
    """p(c z) of a field z is p of a field c z: nothing changes but B, which takes a factor of c."""
    K, M, c, coefficients = 3, 2, 1.3, np.array([0.3, -0.2, 0.5, 0.2, 0.1])
    S, w = covariance("generic", K, M, rng), np.array([1.1, -0.7, 0.6, 0.9, -0.4])
    found = []
    for scale in (1.0, c):
        row = np.r_[np.ones(K), np.full(M, 1 / scale)]
        teacher = ov.polynomial(coefficients * scale ** np.arange(5))
        f = bind_numeric(student, teacher, LearningNumbers(K, M, 0.7, 1.0, 0.3, True))
        found.append(evaluate(f, S * np.outer(row, row), w, K))
    A, B, *rest = found[1]
    for x, y in zip((A, B / c, *rest), found[0], strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-12 * np.abs(y).max())


def mp_sum(S, *lists):
    """E[f_1 f_2 ...] for functions given as (field, list of terms)."""
    fields = [field for field, _ in lists]
    total = mp.mpf(0)
    for combination in itertools.product(*(entries for _, entries in lists)):
        factors = [(field, *term[1:]) for field, term in zip(fields, combination, strict=True)]
        total += mp.fprod(mp.mpf(term[0]) for term in combination) * mp_product(S, factors)
    return total


@each_pair
def test_first_order_against_60_digits(student, teacher, rng):
    """Dv and eps_g by definition, A and B through E[F_k z_b] = sum_j A_kj Q_jb + sum_m B_km R_bm (Stein)."""
    K, M, eta, eta_v = 2, 2, 0.7, 0.3
    S, w = covariance("generic", K, M, rng), np.array([1.1, -0.7, 0.9, -0.4])
    bound = bind_numeric(student, teacher, LearningNumbers(K, M, eta, eta_v, 0.3, False))
    A, B, _, dv, eps_g = evaluate(bound, S, w, K)
    (g, dg), (h, _) = terms(student), terms(teacher)
    functions, z = [(c, g if c < K else h) for c in range(K + M)], [(1.0, 1, "", 1)]
    with mp.workdps(40):
        Smp = [[mp.mpf(float(x)) for x in row] for row in S]
        gg = np.array([[mp_sum(Smp, f, k) for f in functions] for k in functions], dtype=float)
        forces = [[mp_sum(Smp, (k, dg), f, (b, z)) for f in functions] for k in range(K) for b in range(K + M)]
    forces = -eta * w[:K, None] * (np.array(forces, dtype=float) @ w).reshape(K, K + M)
    # rounding of a few terms of order one
    np.testing.assert_allclose(np.concatenate([A, B], axis=1) @ S, forces, rtol=0, atol=1e-13)
    np.testing.assert_allclose(dv, -eta_v * gg[:K] @ w, rtol=0, atol=1e-13)
    assert eps_g == pytest.approx(0.5 * w @ gg @ w, rel=1e-12)


SQUARE = ov.polynomial([0.0, 0.0, 1.0])


@pytest.mark.parametrize(
    ("student", "teacher", "kernel", "code"),
    [
        (ov.relu, SQUARE, relu_closure, ov.quadratic.code),
        (ov.erf, SQUARE, erf_closure, ov.quadratic.code),
        (SQUARE, ov.relu, quadratic_closure, ov.relu.code),
        (SQUARE, ov.erf, quadratic_closure, ov.erf.code),
    ],
    ids=["relu", "erf", "student relu", "student erf"],
)
def test_a_square_as_a_polynomial_and_as_a_kernel(student, teacher, kernel, code, rng):
    # closed forms from Stein's lemma in the kernels, sectors, cones and Mehler sums here; ten cones of three students
    K, M = 5, 3
    S, w = covariance("generic", K, M, rng), np.concatenate([rng.uniform(0.5, 1.5, K), rng.uniform(-1.5, -0.5, M)])
    f = bind_numeric(student, teacher, LearningNumbers(K, M, 0.5, 1.0, 0.3, True))
    assert isinstance(f, FamiliesClosure)
    found = evaluate(f, S, w, K)
    expected = evaluate(lambda S, w, *out: kernel(S, w, workspace(S), K, code, 0.5, 1.0, 0.3, True, *out), S, w, K)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-12 * np.abs(y).max())


def test_C_of_an_affine_student_is_a_second_moment():
    # quadrature left eigenvalues of -1e-7 here
    K, M = 3, 2
    for seed in range(5):
        X = np.random.default_rng(seed).standard_normal((K + M, 7))
        S = X @ X.T / 7
        for student in (AFFINE, ov.leaky_relu(1.0)):
            model = ov.committee_machine(K, M, activation=student, teacher_activation=ov.erf, eta=1.0)
            C = ov.closure(model, S[:K, :K], S[:K, K:], S[K:, K:]).C
            # g' is constant, so all entries are equal: two eigenvalues are zero, to rounding
            assert np.linalg.eigvalsh(C)[0] > -1e-14 * np.abs(C).max()


def test_teachers_without_variance_contribute_their_value_at_zero():
    S, w = np.diag([1.3, 0.7, 0.0]), np.array([1.0, -0.6, 0.8])
    for student, teacher in PAIRS:
        found = evaluate(bind_numeric(student, teacher, LearningNumbers(2, 1, 1.0, 1.0, 0.3, True)), S, w, 2)
        constant = ov.polynomial([float(sum(x[0] for x in terms(teacher)[0] if x[1] == 0 and not x[2]))])
        expected = evaluate(bind_numeric(student, constant, LearningNumbers(2, 1, 1.0, 1.0, 0.3, True)), S, w, 2)
        for i in (0, 2, 3, 4):
            np.testing.assert_allclose(found[i], expected[i], rtol=0, atol=1e-13)


def test_students_with_a_kink_and_zero_norm_are_refused():
    for teacher in (CUBE, ov.erf):
        with pytest.raises(ValueError, match="zero norm"):
            bind_numeric(LEAKY, teacher, LearningNumbers(1, 1, 1.0, 1.0, 0.0, True)).check(
                np.diag([0.0, 1.0]), np.array([1.0, -1.0])
            )


@pytest.mark.parametrize(
    "S", [np.full((3, 3), np.nan), np.diag([-1e-3, 1.0, 1.0]), np.eye(3) - 1.5 * np.eye(3)[[1, 2, 0]]]
)
def test_states_that_are_only_tried_raise_nothing(S):
    # an integrator probes such states and shortens its step where the answer is nan; warnings are errors here
    S = 0.5 * (S + S.T)
    for student, teacher in [*PAIRS, (CUBE, QUAD)]:
        evaluate(
            bind_numeric(student, teacher, LearningNumbers(2, 1, 1.0, 1.0, 0.3, True)), S, np.array([1.1, -0.7, 0.9]), 2
        )


@pytest.mark.slow
def test_relu_students_of_a_cubic_teacher_follow_sgd():
    model = ov.committee_machine(2, 1, activation=ov.relu, teacher_activation=CUBE, eta=0.3, noise=0.1)
    start = model.random_start(N=3000, rng=1)
    alpha = [0.0, 2.0, 6.0]
    traj, runs = ov.solve(model, start, alpha), ov.simulate(model, N=3000, alpha=alpha, rng=2, start=start, runs=6)
    deviation = runs.mean("eps_g") - traj.eps_g
    # six runs of relative spread 1/sqrt(N): four standard errors of a mean that is itself O(1)
    assert np.all(np.abs(deviation) < 4 * np.std(runs.eps_g, axis=0, ddof=1) / np.sqrt(6) + 10 / 3000)


TURNED = ov.Activation("-.8 erf(-1.5x)", None, None, mixture=STEEP.mixture._replace(amplitudes=(-0.8,), scales=(-1.5,)))


@pytest.mark.parametrize("other", [CUBE, LEAKY, ov.erf, STEEP], ids=str)
def test_an_odd_term_may_be_written_with_either_sign(other):
    X = np.random.default_rng(5).normal(size=(4, 6))
    S, learning = X @ X.T / 6, {"v": [0.6, -0.9], "v_star": [0.8, 0.45], "eta": 0.37, "eta_v": 0.23, "noise": 0.41}
    for one, turned in (((STEEP, other), (TURNED, other)), ((other, STEEP), (other, TURNED))):
        models = (ov.committee_machine(2, 2, activation=g, teacher_activation=h, **learning) for g, h in (one, turned))
        x, y = (ov.closure(model, S[:2, :2], S[:2, 2:], S[2:, 2:]) for model in models)
        for name in ("A", "B", "C", "dv", "eps_g"):
            np.testing.assert_allclose(getattr(y, name), getattr(x, name), rtol=0, atol=1e-13)
