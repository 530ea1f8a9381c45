"""A, B, C, dv and eps_g against quadrature, sampling, Stein's lemma and published digits."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import closure_by_average, expectation, random_overlaps

import overlaps as ov
from overlaps.flow.binding import bind

GOLDEN = {  # eta = 0.5, noise = 0.25, eta_v = 1: A, B, (C00, C01, C11), dv, eps_g, each found by 30-digit integration
    ("erf", "erf"): (
        [-0.114776552910994, -0.0858417925943208, -0.0858417925943208, 0.00972217571848136],
        [0.164374518416400, -0.119600029692503, 0.0858417925943208, -0.0651256621724508],
        [0.0859704240472688, 0.0324281000484685, 0.0169120561332354],
        [-0.244996672034775, -0.407995890706631],
        0.464835305323093,
    ),
    ("linear", "linear"): (
        [-0.5, -0.25, -0.25, -0.125],
        [0.5, -0.375, 0.25, -0.1875],
        [0.6953125, 0.34765625, 0.173828125],
        [-0.71875, -1.15625],
        1.359375,
    ),
    ("quadratic", "quadratic"): (
        [-3.125, -0.25, -0.25, -0.9375],
        [1.0, -0.1875, -0.25, -0.28125],
        [16.732421875, 3.69921875, 2.49609375],
        [-2.7109375, -1.6171875],
        2.96484375,
    ),
    ("erf", "relu"): (
        [-0.109808177452210, -0.0858417925943208, -0.0858417925943208, 0.00639072549967338],
        [0.141047395886939, -0.105785546915204, 0.0753930043865134, -0.0565447532898851],
        [0.0835642728593419, 0.0324448234250442, 0.0181584711548308],
        [-0.261395895233036, -0.386520240465647],
        0.481338829415275,
    ),
    ("quadratic", "erf"): (
        [-3.375, -0.25, -0.25, -1.0625],
        [0.0, 0.0, 0.0, 0.0],
        [19.1812688216574, 3.04678522869018, 1.85277548187949],
        [-3.4375, -1.71875],
        2.40885416666667,
    ),
}
Q0, R0 = [[1, 0.25], [0.25, 0.75]], [[0.5, 0.125], [-0.25, 0.375]]


@pytest.mark.parametrize("pair", GOLDEN, ids="/".join)
def test_golden_numbers(pair):
    student, teacher = (getattr(ov, name) for name in pair)
    model = ov.committee_machine(
        2,
        2,
        activation=student,
        teacher_activation=teacher,
        v=[1, 0.5],
        v_star=[1, -0.75],
        eta=0.5,
        eta_v=1,
        noise=0.25,
    )
    c = ov.closure(model, Q0, R0, np.eye(2))
    A, B, C, dv, eps_g = GOLDEN[pair]
    got = np.concatenate([c.A.ravel(), c.B.ravel(), c.C[np.triu_indices(2)], c.dv, [c.eps_g]])
    # the digits are given to 15 figures
    np.testing.assert_allclose(got, np.concatenate([A, B, C, dv, [eps_g]]), rtol=1e-12, atol=1e-15)


def _model(activation, teacher_activation, K, M, rng):
    return ov.committee_machine(
        K,
        M,
        activation=activation,
        teacher_activation=teacher_activation,
        v=rng.uniform(0.5, 1.5, K),
        v_star=rng.uniform(-1, 1, M),
        eta=0.7,
        eta_v=0.3,
        noise=0.4,
    )


def test_closure_is_its_definition(activation, teacher_activation, rng):
    """All five quantities by a product rule over the joint fields, derivatives of F written out."""
    for K, M in [(1, 1), (2, 1), (1, 2)]:
        model = _model(activation, teacher_activation, K, M, rng)
        Q, R, T = random_overlaps(rng, K, M)
        c = ov.closure(model, Q, R, T)
        S = np.block([[Q, R], [R.T, T]])
        truth = closure_by_average(model, S, model.v, lambda f, S=S: expectation(f, S, n=48))
        # 48 nodes: the rule is exact for polynomials and 1e-11 for erf at these variances
        for got, expected in zip((c.A, c.B, c.C, c.dv, c.eps_g), truth, strict=True):
            np.testing.assert_allclose(got, expected, atol=2e-10)


@pytest.mark.slow
def test_larger_networks_against_sampling(activation, teacher_activation, rng):
    K, M, n = 3, 4, 400_000
    model = _model(activation, teacher_activation, K, M, rng)
    Q, R, T = random_overlaps(rng, K, M)
    c = ov.closure(model, Q, R, T)
    z = np.linalg.cholesky(np.block([[Q, R], [R.T, T]])) @ rng.standard_normal((K + M, n))
    errors = []

    def average(f):
        values = f(z)
        errors.append(values.std(axis=1) / np.sqrt(n))
        return values.mean(axis=1)

    truth = closure_by_average(model, None, model.v, average)
    deviation = [np.ravel(a - b) for a, b in zip((c.A, c.B, c.C, c.dv, c.eps_g), truth, strict=True)]
    # five standard errors for each of 45 numbers; constants have none, hence the floor
    assert np.all(np.abs(np.concatenate(deviation)) < 5 * errors[0] + 1e-12)


def test_steins_identities(activation, teacher_activation, rng):
    """E[F lambda^T] = A Q + B R^T and E[F nu^T] = A R + B T: A and B are exactly what the flow needs."""
    K, M = 2, 1
    model = _model(activation, teacher_activation, K, M, rng)
    Q, R, T = random_overlaps(rng, K, M)
    c = ov.closure(model, Q, R, T)

    def F_z(z):
        delta = model.v @ activation.g(z[:K]) - model.v_star @ teacher_activation.g(z[K:])
        F = -model.eta * model.v[:, None] * activation.dg(z[:K]) * delta
        return (F[:, None] * z[None]).reshape(-1, z.shape[1])

    left = expectation(F_z, np.block([[Q, R], [R.T, T]]), n=48).reshape(K, K + M)
    np.testing.assert_allclose(left[:, :K], c.A @ Q + c.B @ R.T, atol=2e-10)
    np.testing.assert_allclose(left[:, K:], c.A @ R + c.B @ T, atol=2e-10)


def test_permuting_units_permutes_the_closure(activation, teacher_activation, rng):
    model = _model(activation, teacher_activation, 3, 2, rng)
    Q, R, T = random_overlaps(rng, 3, 2)
    k, m = [2, 0, 1], [1, 0]
    other = dataclasses.replace(model, v=model.v[k], v_star=model.v_star[m])
    c = ov.closure(model, Q, R, T)
    d = ov.closure(other, Q[np.ix_(k, k)], R[np.ix_(k, m)], T[np.ix_(m, m)])
    for a, b in [(c.A[np.ix_(k, k)], d.A), (c.B[np.ix_(k, m)], d.B), (c.C[np.ix_(k, k)], d.C), (c.dv[k], d.dv)]:
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-15)  # the order of the sums changes the last digits


def test_perfect_student_does_not_move(activation):
    model = ov.committee_machine(2, 2, activation=activation, v=[1.0, -0.5], v_star=[1.0, -0.5], eta=0.5, eta_v=1)
    T = np.array([[1.0, 0.2], [0.2, 1.5]])
    c = ov.closure(model, T, T, T)
    # F vanishes sample by sample, so A Q + B R^T, C, dv and eps_g do; sums of order-one terms cancel to rounding
    np.testing.assert_allclose(c.A @ T + c.B @ T, 0, atol=1e-13)
    for x in (c.C, c.dv, c.eps_g):
        np.testing.assert_allclose(x, 0, atol=1e-13)


def test_C_scales_with_eta_squared_and_noise_adds_its_own_term(activation, rng):
    Q, R, T = random_overlaps(rng, 2, 2)

    def make(eta, noise):
        model = ov.committee_machine(2, 2, activation=activation, eta=eta, noise=noise)
        return ov.closure(model, Q, R, T).C

    np.testing.assert_allclose(make(0.5, 0.0), 0.25 * make(1.0, 0.0), rtol=1e-13)
    slopes = expectation(
        lambda z: (activation.dg(z)[:, None] * activation.dg(z)[None]).reshape(4, -1), Q, n=60
    ).reshape(2, 2)
    np.testing.assert_allclose(make(1.0, 0.3) - make(1.0, 0.0), 0.09 * slopes, atol=1e-10)


@pytest.mark.parametrize("variance", [1e-8, 1.0, 1e4, 1e8])
def test_erf_closure_at_extreme_variances(variance):
    """One student on one teacher, R = Q = T: delta vanishes, whatever the scale."""
    model = ov.committee_machine(1, 1, eta=1.0, eta_v=1.0)
    c = ov.closure(model, [[variance]], [[variance]], [[variance]])
    assert abs(c.eps_g) < 1e-15 and abs(c.C[0, 0]) < 1e-15
    assert c.A[0, 0] == pytest.approx(-2 / np.pi / np.sqrt(1 + 2 * variance), rel=1e-12)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    student=st.sampled_from(["erf", "linear", "quadratic", "relu", "tanh"]),
    teacher=st.sampled_from(["erf", "linear", "quadratic", "relu"]),
    K=st.integers(1, 4),
    M=st.integers(1, 3),
    rank=st.integers(1, 8),
    scale=st.floats(1e-3, 30.0),
    seed=st.integers(0, 2**32 - 1),
)
def test_second_moments_stay_second_moments(student, teacher, K, M, rank, scale, seed):
    """C = E[F F^T] is positive semi-definite, A is a Hessian, eps_g an error: at any covariance, also singular ones."""
    rng = np.random.default_rng(seed)
    X = scale * rng.standard_normal((K + M, rank)) / np.sqrt(rank)
    S = X @ X.T
    model = ov.committee_machine(
        K, M, activation=getattr(ov, student), teacher_activation=getattr(ov, teacher), v=rng.uniform(-1, 1, K), eta=1.0
    )
    if student == "relu" and np.diag(S)[:K].min() < 1e-6 * np.diag(S).max():
        return  # a student of (nearly) zero norm is refused
    c = ov.closure(model, S[:K, :K], S[:K, K:], S[K:, K:])
    size = max(np.abs(c.C).max(), 1e-300)
    # three parallel relu fields: the integral is Hoelder-1/2 in S, so rounding of S moves C by up to 3e-9
    assert np.linalg.eigvalsh(c.C)[0] > -1e-8 * size
    assert c.eps_g > -1e-12 * max(1.0, np.trace(S) ** 2)
    # the student block of the Hessian, divided by the common eta
    np.testing.assert_allclose(c.A, c.A.T, rtol=1e-12, atol=1e-14)
    assert np.all(np.isfinite(c.B)) and np.all(np.isfinite(c.dv))


BAD = [
    (dict(Q=np.eye(3)), "Q has shape"),
    (dict(R=np.zeros((2, 3))), "R has shape"),
    (dict(T=[[1, 0], [0, np.nan]]), "T contains nan"),
    (dict(Q=[[1, 0.5], [0.2, 1]]), "not symmetric"),
    (dict(R=2 * np.eye(2)), "positive semi-definite"),
    (dict(Q=-np.eye(2)), "positive semi-definite"),
    (dict(v=[1.0]), "v has shape"),
]


@pytest.mark.parametrize("change, words", BAD, ids=[words for _, words in BAD])
def test_bad_overlaps_are_refused(change, words):
    model = ov.committee_machine(2, 2, eta=0.5)
    with pytest.raises(ValueError, match=words):
        ov.closure(model, **(dict(Q=np.eye(2), R=np.zeros((2, 2)), T=np.eye(2)) | change))


def test_all_pairs_named_in_the_documentation_exist():
    every = [ov.erf, ov.linear, ov.quadratic, ov.relu]
    for student, teacher in itertools.product(every[:3], every):
        model = ov.committee_machine(1, 1, activation=student, teacher_activation=teacher, eta=1.0)
        assert np.isfinite(ov.closure(model, [[1.0]], [[0.5]], [[1.0]]).eps_g)


@pytest.mark.slow
@pytest.mark.parametrize("teacher", ["erf", "relu"])
def test_threads_fill_the_same_C(teacher, rng):
    """Parts of C by several threads against the kernel of one; no entry knows how many threads there are."""
    model = ov.committee_machine(
        5, 3, eta=0.7, noise=0.3, teacher_activation=getattr(ov, teacher), v=rng.uniform(0.5, 2, 5)
    )
    Q, R, T = random_overlaps(rng, 5, 3)
    S = np.block([[Q, R], [R.T, T]])
    w = np.concatenate([model.v, -model.v_star])
    bound = bind(model)
    alone = bound.arrays(S, w)
    parts = []
    for bound._threads in (2, 3, 20):
        found = bound.arrays(S, w)
        parts.append(found[2])
        for x, y in zip(found, alone, strict=True):
            assert x == pytest.approx(y, rel=1e-13, abs=1e-16)  # sums in another order
    assert np.array_equal(parts[0], parts[1]) and np.array_equal(parts[0], parts[2])


def test_many_students_take_several_threads(monkeypatch):
    """From K = 40 on, where C is wanted; compiled steps call the kernel of one thread."""
    monkeypatch.setattr("numba.config.NUMBA_NUM_THREADS", 3)
    threads = [
        bind(ov.committee_machine(K, 2, eta=0.1, gradient_flow=gradient_flow))._threads
        for K, gradient_flow in ((39, False), (40, False), (40, True))
    ]
    assert threads == [1, 3, 1]
    assert bind(ov.committee_machine(40, 2, eta=0.1)).compiled is None
    monkeypatch.setattr("numba.config.NUMBA_NUM_THREADS", 1)
    assert bind(ov.committee_machine(40, 2, eta=0.1)).compiled is bind(ov.committee_machine(39, 2, eta=0.1)).compiled


@pytest.mark.parametrize("units", ["erf", "tanh"])
def test_values_of_many_states_are_those_of_each(units, rng):
    """In a compiled loop of 25 states, and one by one where no kernel is compiled for one (three states)."""
    model = ov.committee_machine(3, 2, activation=units, eta=0.7, noise=0.3, eta_v=0.4, v=[1.0, 0.6, -0.3])
    S = np.array([np.block([[Q, R], [R.T, T]]) for Q, R, T in (random_overlaps(rng, 3, 2) for _ in range(25))])
    w, bound = np.append(model.v, -model.v_star) * rng.uniform(0.5, 1.5, (25, 1)), bind(model)
    alone = [(*bound.arrays(*x), bound.error_at(*x)) for x in zip(S, w, strict=True)]
    for n in (3, 25):
        for x, y in zip(bound.values(S[:n], w[:n]), zip(*alone[:n], strict=True), strict=True):
            np.testing.assert_allclose(x, np.array(y), rtol=1e-13, atol=1e-16)
    np.testing.assert_allclose(bound.errors(S, w), [x[-1] for x in alone], rtol=1e-13)
