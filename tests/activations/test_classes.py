"""Closures of fields with means: golden numbers, quadrature, sampling, and the centred closure as a limit."""

import numpy as np
import pytest
from helpers import few
from scipy.special import ndtr

import overlaps as ov
from overlaps.activations.bound import LearningNumbers
from overlaps.activations.classes import Classes, ClassesClosure, NumericClassesClosure
from overlaps.flow.binding import bind

MU, LABEL = [0.5, -0.3, 0.8], 0.25
S = np.array([[0.9, 0.2, 0.3], [0.2, 0.7, -0.1], [0.3, -0.1, 1.1]])
LEARNING = {"v": [0.6, -0.4], "v_star": [0.7], "eta": 0.5, "eta_v": 0.3, "noise": 0.2}
BLOCKS = {"Q": S[:2, :2], "R": S[:2, 2:], "T": S[2:, 2:]}
CLOSED = ov.linear, ov.quadratic, ov.relu, ov.erf
LEAKY = ov.leaky_relu(0.3)
GOLDEN = {
    ov.erf.name: (
        [0.0538027993, -0.0367375508], [-0.0600031814, 0.0385932451, -0.0319880400], [0.0558461535, -0.0397483005],
        [0.0101400169, -0.0062439199, 0.0047702256], [-0.0010997449, -0.0029269139], 0.1278617262,
    ),
    ov.relu.name: (
        [0.1053591823, -0.0395886324], [-0.0308151723, 0.0341328393, -0.0682216534], [0.1214032860, -0.0373569453],
        [0.0443854298, -0.0114301726, 0.0103389608], [0.0681934898, 0.0379744579], 0.3580355510,
    ),
    ov.quadratic.name: (
        [0.177, 0.29128], [-0.1716, 0.024, -0.6904], [0.588, 0.1904],
        [2.171087784, 0.164490096, 0.9696472384], [0.05763, 0.438678], 2.198278,
    ),
}  # fmt: skip


def parts(c):
    upper = np.triu_indices(2)
    return c.f, c.A[upper], c.B[:, 0], c.C[upper], c.dv, c.eps_g


@pytest.mark.parametrize("activation", [ov.erf, ov.relu, ov.quadratic], ids=str)
def test_golden_numbers(activation):
    model = ov.committee_machine(2, 1, activation=activation, **LEARNING)
    found = parts(ov.closure(model, **BLOCKS, means=MU, label=LABEL))
    for value, golden in zip(found, GOLDEN[activation.name], strict=True):
        assert value == pytest.approx(golden, abs=6e-11)  # ten printed digits


@pytest.mark.parametrize("student", [*CLOSED, LEAKY, ov.absolute], ids=str)
@pytest.mark.parametrize("teacher", [*CLOSED, LEAKY, ov.absolute], ids=str)
def test_without_means_it_is_the_centred_closure(student, teacher):
    model = ov.committee_machine(2, 1, activation=student, teacher_activation=teacher, **LEARNING)
    shifted, centred = ov.closure(model, **BLOCKS, means=np.zeros(3)), ov.closure(model, **BLOCKS)
    for name in ("A", "B", "C", "dv", "eps_g"):
        assert np.allclose(getattr(shifted, name), getattr(centred, name), rtol=1e-13, atol=1e-14)
    assert centred.f is None


@pytest.mark.parametrize("student", [ov.linear, ov.quadratic, ov.erf], ids=str)
@pytest.mark.parametrize("teacher", [ov.linear, ov.quadratic, ov.erf], ids=str)
def test_smooth_pairs_against_gauss_hermite(student, teacher):
    model = ov.committee_machine(2, 1, activation=student, teacher_activation=teacher, **LEARNING)
    u, p = np.polynomial.hermite_e.hermegauss(60)  # erf: 1e-12 at variances of order one
    x = np.stack([a.ravel() for a in np.meshgrid(u, u, u, indexing="ij")])
    p = (p[:, None, None] * p[:, None] * p).ravel() / p.sum() ** 3
    check_against(model, np.array(MU)[:, None] + np.linalg.cholesky(S) @ x, p, 1e-11)


def halves(nodes=40):
    """Nodes and weights of N(MU, S): Gauss-Legendre on either side of every kink, to 8.5 standard deviations."""
    x, p = np.polynomial.legendre.leggauss(nodes)
    lines = []
    for mean, width in zip(MU, 8.5 * np.sqrt(np.diag(S)), strict=True):
        parts = [((b - a) / 2 * x + (a + b) / 2, (b - a) / 2 * p) for a, b in ((mean - width, 0), (0, mean + width))]
        lines.append([np.concatenate(values) for values in zip(*parts, strict=True)])
    z = np.stack([a.ravel() for a in np.meshgrid(*(x for x, _ in lines), indexing="ij")])
    weight = np.einsum("i,j,k->ijk", *(p for _, p in lines)).ravel()
    moved = z - np.array(MU)[:, None]
    density = np.exp(-np.sum(moved * np.linalg.solve(S, moved), axis=0) / 2)
    return z, weight * density / np.sqrt(np.linalg.det(2 * np.pi * S))


PAIRS = (
    (LEAKY, LEAKY),
    (ov.absolute, ov.relu),
    (LEAKY, ov.erf),
    (ov.erf, LEAKY),
    (ov.quadratic, LEAKY),
)


@pytest.mark.parametrize("student, teacher", PAIRS, ids=str)
def test_kinks_against_quadrature_on_either_side(student, teacher):
    model = ov.committee_machine(2, 1, activation=student, teacher_activation=teacher, **LEARNING)
    check_against(model, *halves(), 1e-10)


def test_three_leaky_students_against_quadrature():
    """Two other students inside of C, and labels alone."""
    eta, v, noise = 0.3, np.array([0.5, 0.4, -0.6]), 0.1
    model = ov.gaussian_mixture(
        3, gram=[[[4.0]]], weights=[1.0], labels=[LABEL], activation=LEAKY, v=v, eta=eta, eta_v=0.2, noise=noise
    )
    rows, w = np.block([[S, np.array(MU)[:, None]], [np.array(MU), 4.0]]), np.append(v, 0.0)
    A, f, C, dv = bind(model).arrays(rows, w)
    z, p = halves()
    error, slope = v @ LEAKY.g(z) - LABEL, v[:, None] * LEAKY.dg(z)
    F = -eta * slope * error
    assert f[:, 0] == pytest.approx(F @ p, abs=1e-11) and dv == pytest.approx(
        -0.2 * (LEAKY.g(z) * error) @ p, abs=1e-11
    )
    assert A @ S == pytest.approx((F * p) @ z.T - np.outer(F @ p, MU), abs=1e-11)
    assert C == pytest.approx(eta**2 * (slope * (error**2 + noise**2) * p) @ slope.T, abs=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("teacher", CLOSED, ids=str)
def test_relu_against_samples(teacher):
    model = ov.committee_machine(2, 1, activation=ov.relu, teacher_activation=teacher, **LEARNING)
    n = 2_000_000
    z = np.array(MU)[:, None] + np.linalg.cholesky(S) @ np.random.default_rng(2).standard_normal((3, n))
    # standard deviations of the averages are at most 2 / sqrt(n) = 1.4e-3, of the quadratic teacher 8e-3
    check_against(model, z, np.full(n, 1 / n), 2.5e-2 if teacher == ov.quadratic else 4e-3)


def check_against(model, z, p, tolerance):
    found = ov.closure(model, **BLOCKS, means=MU, label=LABEL)
    g, h, v, eta = model.activation, model.teacher_activation, model.v, model.eta
    error = v @ g.g(z[:2]) - model.v_star @ h.g(z[2:]) - LABEL
    slope = v[:, None] * g.dg(z[:2])
    F = -eta * slope * error
    assert found.eps_g == pytest.approx(p @ error**2 / 2, abs=tolerance)
    assert found.f == pytest.approx(F @ p, abs=tolerance)
    assert found.dv == pytest.approx(-model.eta_v * (g.g(z[:2]) * error) @ p, abs=tolerance)
    C = eta**2 * (slope * (error**2 + model.noise**2) * p) @ slope.T
    assert found.C == pytest.approx(C, abs=tolerance)
    # Stein: E[F z^T] - f mu^T = (A, B) S
    moved = (F * p) @ z.T - np.outer(F @ p, MU)
    assert np.hstack([found.A, found.B]) @ S == pytest.approx(moved, abs=3 * tolerance)


def test_relu_rule_is_accurate_where_units_nearly_align():
    """C of nearly parallel students against their limit: the same unit twice."""
    model = ov.committee_machine(2, 1, activation=ov.relu, **LEARNING)
    for gap in (1e-2, 1e-4, 1e-8):
        Q = np.array([[0.9, 0.9 - gap], [0.9 - gap, 0.9]])
        c = ov.closure(model, Q, [[0.3], [0.3]], [[1.1]], means=[0.5, 0.5, 0.8], label=LABEL)
        assert c.C[0, 1] / c.C[0, 0] == pytest.approx(-0.4 / 0.6, abs=3 * gap**0.5)  # first order in their angle


THREE = ov.gaussian_mixture(
    3, gram=[[[4.0]]], weights=[1.0], labels=[1.0], activation=ov.relu, v=[0.5, 0.4, -0.6], eta=0.3, noise=0.1
)


def second_moments_by_hand(Q, mu):
    """E[g'_k g'_l (Delta_0^2 + noise^2)] of three relu units: z_2 in closed form, z_0 and z_1 on graded panels."""
    x, p = np.polynomial.legendre.leggauss(24)
    s1, slope = np.sqrt(Q[1, 1]), Q[[0, 2], 1] / Q[1, 1]
    rest = Q[[0, 2]][:, [0, 2]] - np.outer(slope, Q[1, [0, 2]])  # of z_0 and z_2 given z_1
    s0, tie = np.sqrt(rest[0, 0]), rest[0, 1] / rest[0, 0]
    s2 = np.sqrt(max(rest[1, 1] - tie * rest[0, 1], 0.0))
    # panels shrink by factors of 4 towards z_1 = 0 and towards where z_2 = 0
    near = [c + side * 4 * s1 * 0.25 ** np.arange(28) for c in (0.0, mu[1] - mu[2] / slope[1]) for side in (-1, 1)]
    edges = np.unique(np.concatenate([*near, np.linspace(-9, 9, 13) * s1 + mu[1]]))
    z1 = ((edges[1:] + edges[:-1]) / 2 + (edges[1:] - edges[:-1]) / 2 * x[:, None]).ravel()
    w1 = ((edges[1:] - edges[:-1]) / 2 * p[:, None]).ravel() * np.exp(-(((z1 - mu[1]) / s1) ** 2) / 2) / s1
    m0, total = mu[0] + slope[0] * (z1 - mu[1]), np.zeros((3, 3))
    low, high = m0 - 9 * s0, m0 + 9 * s0
    for a, b in ((low, np.clip(0, low, high)), (np.clip(0, low, high), high)):
        z0 = (a + b)[:, None] / 2 + (b - a)[:, None] / 2 * x
        weight = w1[:, None] * (b - a)[:, None] / 2 * p * np.exp(-(((z0 - m0[:, None]) / s0) ** 2) / 2) / s0
        m2 = (mu[2] + slope[1] * (z1 - mu[1]))[:, None] + tie * (z0 - m0[:, None])
        h = m2 / s2 if s2 > 1e-12 else np.copysign(40.0, m2)
        P, d = ndtr(h), s2 * np.exp(-h * h / 2) / np.sqrt(2 * np.pi)
        D = 0.5 * np.maximum(z0, 0) + 0.4 * np.maximum(z1, 0)[:, None] - 1.0
        tail = -1.2 * D * (m2 * P + d) + 0.36 * ((m2**2 + s2**2) * P + m2 * d)
        square, above = D * D + 0.01 + tail, (D * D + 0.01) * P + tail  # ``above`` where z_2 > 0
        on = (z0 > 0) * 1.0, (z1 > 0)[:, None] * np.ones_like(z0)
        for k in range(3):
            for l in range(3):
                factors = [on[i] for i in {k, l} - {2}]
                total[k, l] += np.sum(weight * (above if 2 in (k, l) else square) * np.prod(factors, axis=0))
    return total / (2 * np.pi)


@pytest.mark.parametrize("mean", [0.4, -0.4])
@pytest.mark.parametrize("gap", [1e-2, 1e-4, 1e-8, 0.0])
def test_aligned_units_leave_the_error_of_C_within_its_estimate(gap, mean):
    """Units 1 and 2 aligned up to ``gap``: both outside, both inside, one of each; with equal and other means."""
    Q, mu = np.array([[0.5, 0.1, 0.1], [0.1, 0.5, 0.5], [0.1, 0.5, 0.5]]), np.array([0.5, 0.4, mean])
    Q[1, 2] = Q[2, 1] = 0.5 * (1 - gap)
    bound, S, w, C = bind(THREE), np.block([[Q, mu[:, None]], [mu, 4.0]]), np.array([*THREE.v, 0.0]), np.empty((3, 3))
    bound(S, w, np.empty((3, 3)), np.empty((3, 1)), C, np.empty(3))
    expected = 0.09 * np.outer(w[:3], w[:3]) * second_moments_by_hand(Q, mu)
    assert np.abs(C - expected).max() < 1.1 * bound.error + 1e-10  # C sqrt(rounding), where fields are one
    assert bound.error < 1e-11


@pytest.mark.parametrize("seed", [8, 9])
def test_the_error_of_C_is_estimated_where_the_rule_is_coarse(seed):
    """Means of several standard deviations: the estimate is the difference from a rule of 150 nodes, to a tenth."""
    rng = np.random.default_rng(seed)
    X, mu = rng.normal(size=(3, 4)), 3 * rng.normal(size=3)
    S, w = np.block([[X @ X.T / 3, mu[:, None]], [mu, 40.0]]), np.array([0.5, 0.4, -0.6, 0.0])
    classes = Classes(np.array([1.0]), np.array([LABEL]), np.array([[1.0]]))
    bound = ClassesClosure(ov.relu, ov.relu, LearningNumbers(3, 1, 0.3, 0.2, 0.1, True), classes)
    C = np.empty((3, 3))
    bound(S, w, np.empty((3, 3)), np.empty((3, 1)), C, np.empty(3))
    estimate = bound.error
    bound.parameters = bound._numbers(150)
    assert estimate == pytest.approx(np.abs(C - bound.arrays(S, w)[2]).max(), rel=0.1) and estimate > 1e-12


def test_quadrature_of_classes_is_their_closed_form():
    """Two classes, two groups of eigenspaces: where both are known. 40 nodes in each dimension, 1e-9 of C."""
    rule, means = (
        LearningNumbers(2, 3, 0.5, 0.3, 0.2, True),
        np.array([[[0.4, -0.1], [0.3, 0.2], [-0.2, 0.5]], [[0.1, 0.6]] * 3]),
    )
    classes = Classes(np.array([0.3, 0.7]), np.array([0.25, -1.0]), np.array([[1.0, 0.5], [2.0, 1.0]]))
    rows = [np.block([[0.5 * (1 + g) * S, means[g]], [means[g].T, 3 * np.eye(2)]]) for g in range(2)]
    SS, w = np.vstack(rows), np.array([0.6, -0.4, -0.7, 0.0, 0.0])
    for pair in ((ov.erf, ov.erf), (ov.quadratic, ov.linear), (ov.linear, ov.erf)):
        exact, summed = (kind(*pair, rule, classes) for kind in (ClassesClosure, NumericClassesClosure))
        for one, other in zip(exact.arrays(SS, w), summed.arrays(SS, w), strict=True):
            np.testing.assert_allclose(other, one, rtol=0, atol=1e-9)
        assert summed.errors(SS[None], w[None]) == pytest.approx(exact.errors(SS[None], w[None]), abs=1e-11)


@pytest.mark.parametrize("activation", [ov.tanh, ov.polynomial([0.1, 1.0, 0.2, 0.1])], ids=["tanh", "cubic"])
def test_functions_without_closed_forms(activation):
    model = ov.committee_machine(2, 1, activation=activation, teacher_activation=ov.erf, **LEARNING)
    u, p = np.polynomial.hermite_e.hermegauss(60)
    x = np.stack([a.ravel() for a in np.meshgrid(u, u, u, indexing="ij")])
    p = (p[:, None, None] * p[:, None] * p).ravel() / p.sum() ** 3
    # poles of tanh at a distance of pi / 2: rules of 40 and 60 nodes leave 1e-6
    check_against(model, np.array(MU)[:, None] + np.linalg.cholesky(S) @ x, p, 2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("activation", [ov.tanh, LEAKY, ov.absolute], ids=str)
def test_sgd_on_inputs_in_classes(activation):
    learning = {"v": [0.6, 0.4], "v_star": [0.7], "eta": 0.5, "eta_v": 0.2, "weights": [0.4, 0.6], "labels": [1, -1]}
    model = ov.gaussian_mixture(2, 1, gram=[[[1, -0.5], [-0.5, 1]]], activation=activation, **learning)
    start = model.random_start(N=1000, rng=1)
    runs = ov.simulate(model, N=1000, alpha=[0, 2, 10], rng=1, runs=6, start=start)
    theory = ov.solve(model, start, runs.alpha)
    for name in ("Q", "R", "mean_fields", "v", "eps_g"):
        gap = np.sqrt(np.mean((runs.mean(name) - getattr(theory, name))[1:] ** 2))
        assert gap < max(3 * np.sqrt(np.mean(runs.standard_error(name)[1:] ** 2)), 0.004)


def test_errors_name_what_came():
    words = "activation = {}.* is not smooth.* fields that have means; expected smooth functions"
    for name, *pair in (("leaky_relu", LEAKY, ov.tanh), ("relu", ov.tanh, ov.relu)):
        model = ov.committee_machine(2, 1, activation=pair[0], teacher_activation=pair[1], **LEARNING)
        with pytest.raises(ValueError, match=words.format(name)):
            ov.closure(model, **BLOCKS, means=MU)
    model = ov.committee_machine(2, 1, activation=ov.tanh, **LEARNING)
    with pytest.raises(ValueError, match="label = 1 without means"):
        ov.closure(model, **BLOCKS, label=1.0)
    with pytest.raises(ValueError, match="averages of tanh .* do not converge"):
        ov.closure(model, 400 * S[:2, :2], 400 * S[:2, 2:], 400 * S[2:, 2:], means=MU)
    many = ov.committee_machine(5, 1, activation=ov.tanh, eta=0.5)
    with pytest.raises(ValueError, match="6 fields of tanh that have means; expected at most 4"):
        ov.closure(many, np.eye(5), np.zeros((5, 1)), [[1.0]], means=np.zeros(6))


KINKED = {"relu": ov.relu, "leaky_relu": ov.leaky_relu(0.3), "absolute": ov.absolute}


@pytest.mark.parametrize("name", KINKED)
def test_perfect_students_of_other_readouts_see_two_fields(name):
    """Q = R = T: the error is that of units with second layers v - v* and no teacher, whose fields are not singular."""
    rng = np.random.default_rng(5)
    gram, common = np.zeros((1, 1, 1)), {"activation": KINKED[name], "weights": [1.0], "labels": [0.3], "eta": 0.37}
    for _ in range(20):
        X, mean, v, v_star = rng.normal(size=(2, 5)) / 2, rng.normal(size=2), *rng.uniform(0.2, 1.5, size=(2, 2))
        T, w = X @ X.T, v - v_star
        alone = ov.gaussian_mixture(2, gram=gram, v=w, **common)
        model = ov.gaussian_mixture(2, 2, gram=gram, v=v, v_star=v_star, **common)
        c = ov.closure(model, T, T, T, means=np.tile(mean, 2), label=0.4)
        plain = ov.closure(alone, T, np.zeros((2, 0)), np.zeros((0, 0)), means=mean, label=0.4)
        # the root of rounding where units coincide
        np.testing.assert_allclose(c.C, plain.C * np.outer(v / w, v / w), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", KINKED)
def test_perfect_students_have_no_error_and_no_noise(name, rng):
    X, mean, v = rng.normal(size=(2, 5)) / 2, rng.normal(size=2), [0.7, 1.3]
    common = {"activation": KINKED[name], "weights": [1.0], "labels": [0.0], "eta": 0.37}
    model = ov.gaussian_mixture(2, 2, gram=np.zeros((1, 1, 1)), v=v, v_star=v, **common)
    c = ov.closure(model, *[X @ X.T] * 3, means=np.tile(mean, 2), label=0.0)
    np.testing.assert_allclose([c.eps_g, *c.f, *np.ravel(c.C)], 0.0, rtol=0, atol=2e-14)


@pytest.mark.parametrize("name", KINKED)
@few(("K", "M", "rank"), [(2, 1, 1), (2, 2, 2), (3, 1, 2)], quick=1)
def test_coplanar_fields_are_limits_of_others(name, K, M, rank):
    rng, n = np.random.default_rng(K + 7 * rank), K + M
    common = {"activation": KINKED[name], "gram": np.zeros((1, 1, 1)), "weights": [1.0], "labels": [0.3], "eta": 0.37}
    for _ in range(4):
        X, mean = rng.normal(size=(n, rank)), rng.normal(size=n)
        model = ov.gaussian_mixture(K, M, v=rng.normal(size=K), v_star=rng.normal(size=M), **common)

        def C(extra, X=X, mean=mean, model=model):
            S = X @ X.T + extra * np.eye(n)
            return ov.closure(model, S[:K, :K], S[:K, K:], S[K:, K:], means=mean, label=0.4).C

        # kinks that coincide part by the root of what parts the fields; the rule itself is good to 1e-5 there
        np.testing.assert_allclose(C(0.0), C(1e-8), rtol=0, atol=1e-3 * np.abs(C(0.0)).max())
