"""Teachers of signs: closed forms, quadrature with the jump integrated exactly, limits, SGD, and what is refused."""

import numpy as np
import pytest
from scipy.special import erf

import overlaps as ov

ONE = {"v": [1.0], "v_star": [1.0], "eta": 1.0, "eta_v": 1.0, "teacher_activation": ov.sign}
PAIR = {"Q": [[0.9, 0.2], [0.2, 0.7]], "R": [[0.3], [-0.1]], "T": [[1.1]]}


def pair(teacher=ov.sign, **options):
    units = {"v": [0.6, -0.4], "v_star": [0.8], "noise": 0.3, "eta": 1.0, "eta_v": 1.0}
    return ov.committee_machine(2, 1, teacher_activation=teacher, **units | options)


def test_one_student():
    """Closed forms for K = M = 1, evaluated by an independent program."""
    found = ov.closure(ov.committee_machine(1, 1, **ONE), [[0.8]], [[0.5]], [[1.2]])
    expected = -0.347297651531, 0.460641900512, 0.369902233514, -0.072203548852, 0.425604660179
    assert np.allclose([found.A[0, 0], found.B[0, 0], found.C[0, 0], found.dv[0], found.eps_g], expected, atol=1e-12)


def test_two_students():
    """The same at K = 2 with noise; signs and second layers that differ show transposes."""
    found = ov.closure(pair(), **PAIR)
    assert np.allclose(found.A[np.triu_indices(2)], [-0.115207862820, 0.085545274290, -0.057527185119], atol=1e-12)
    assert np.allclose(found.B[:, 0], [0.216075915878, -0.149373524773], atol=1e-12)
    assert np.allclose(found.C[np.triu_indices(2)], [0.097702641141, -0.060898592146, 0.045790717510], atol=1e-12)
    assert np.allclose(found.dv, [-0.053634844377, 0.028198086994], atol=1e-12)
    assert found.eps_g == pytest.approx(0.302336800687, abs=1e-12)


@pytest.mark.parametrize("activation", [ov.erf, ov.tanh, ov.linear, ov.quadratic], ids=str)
def test_against_quadrature_with_the_jump_integrated_exactly(activation):
    """E[sgn nu | lambda] is an error function of the fields, which Gauss and Hermite integrate to rounding."""
    Q, R, T = np.array(PAIR["Q"]), np.array(PAIR["R"])[:, 0], 1.1
    v, v_star, noise, eta, eta_v = np.array([0.6, -0.4]), 0.8, 0.3, 0.7, 0.3
    x, w = np.polynomial.hermite_e.hermegauss(90)
    z = np.linalg.cholesky(Q) @ np.array([a.ravel() for a in np.meshgrid(x, x)])
    p = np.outer(w, w).ravel() / (2 * np.pi)
    mean, rest = np.linalg.solve(Q, R) @ z, T - R @ np.linalg.solve(Q, R)
    label = erf(mean / np.sqrt(2 * rest))
    g, dg = activation(z), activation.dg(z)
    deviation, square = v @ g - v_star * label, (v @ g) ** 2 - 2 * v_star * (v @ g) * label + v_star**2 + noise**2
    C = eta**2 * np.einsum("k,j,kn,jn,n->kj", v, v, dg, dg, p * square)
    found = ov.closure(pair(activation=activation, eta=eta, eta_v=eta_v), **PAIR)
    # tanh is a sum of error functions to 1e-5; its Gauss-Hermite error is smaller
    limit = 3e-5 if activation == ov.tanh else 1e-11
    assert np.allclose(found.C, C, atol=limit, rtol=0)
    assert np.allclose(found.dv, -eta_v * (g * deviation) @ p, atol=limit, rtol=0)
    assert found.eps_g == pytest.approx((square - noise**2) @ p / 2, abs=limit)
    density = 2 * np.exp(-(mean**2) / (2 * rest)) / np.sqrt(2 * np.pi * rest)  # E[2 delta(nu) | lambda]
    assert np.allclose(found.B[:, 0], eta * v * v_star * ((dg * density) @ p), atol=limit, rtol=0)


def test_a_steep_erf_is_a_poor_substitute():
    """Erf(gain x) is erf for weights longer by the gain: A, B converge like 1/gain^2, C and eps_g like 1/gain."""
    exact, found = ov.closure(pair(), **PAIR), []
    for gain in (1e2, 1e4, 1e6):
        steep = {"Q": PAIR["Q"], "R": gain * np.array(PAIR["R"]), "T": gain**2 * np.array(PAIR["T"])}
        near = ov.closure(pair(ov.erf), **steep)
        found.append([np.abs(near.B * gain - exact.B).max(), np.abs(near.C - exact.C).max()])
    found = np.array(found)
    assert np.all(found[1, 0] < 1e-8) and 80 < found[0, 1] / found[1, 1] < 120 and found[2, 1] < 1e-6


@pytest.mark.parametrize("M", [1, 2, 3])
@pytest.mark.parametrize("activation", [ov.erf, ov.linear], ids=str)
def test_derivatives_are_those_of_the_closure(activation, M):
    """Closed forms against differences of sixth order, through C of several signs."""
    from overlaps.activations.bound import Bound
    from overlaps.flow.binding import bind

    rng = np.random.default_rng(M)
    X = rng.standard_normal((2 + M, 6))
    S, w = X @ X.T / 6, rng.uniform(0.5, 1.0, 2 + M)
    model = ov.committee_machine(2, M, activation=activation, teacher_activation=ov.sign, eta=0.7, eta_v=0.4, noise=0.2)
    bound = bind(model)
    for closed, differences in zip(
        bound.derivatives(S, w, exact=True), Bound._exact_derivatives(bound, S, w), strict=True
    ):
        assert np.allclose(closed, differences, atol=1e-8)


def test_teachers_that_are_parallel_are_one():
    """Their angle stays zero, and the derivatives of C along it are none: those of one teacher with the sum."""
    from overlaps.flow.binding import bind

    one = pair(v_star=[0.8], noise=0.0)
    two = ov.committee_machine(2, 2, teacher_activation=ov.sign, v=one.v, v_star=[0.5, 0.3], eta=1.0, eta_v=1.0)
    S = np.block([[np.array(PAIR["Q"]), np.array(PAIR["R"])], [np.array(PAIR["R"]).T, np.array(PAIR["T"])]])
    place = [0, 1, 2, 2]
    SS = np.ascontiguousarray(S[np.ix_(place, place)])
    dC = bind(one).derivatives(S, np.array([0.6, -0.4, -0.8]), exact=True)[2]
    both = bind(two).derivatives(SS, np.array([0.6, -0.4, -0.5, -0.3]), exact=True)[2]
    assert np.allclose(dC[3:5], both[[3, 5]] + both[[4, 6]], atol=1e-12)
    assert np.allclose(dC[:3], both[:3], atol=1e-12)


@pytest.mark.slow
def test_simulators_agree_and_count_the_wrong_signs():
    """Eigenvalues that are not one and a trained v; the error of the classifier by counting signs."""
    model = ov.committee_machine(1, 1, spectrum=ov.Spectrum(s=[0.5, 1.6], p=[0.4, 0.6]), **ONE)
    start = ov.State.from_blocks(model, q=[[[0.3]], [[0.5]]], r=[[[0.05]], [[0.0]]], t=[[[0.9]], [[0.3]]])
    traj = ov.solve(model, start, [0.0, 1.0, 4.0])
    for method in ("direct", "reduced"):
        runs = ov.simulate(model, N=300, alpha=traj.alpha, rng=3, runs=40, start=start, method=method)
        for name in ("Q", "R", "v", "eps_g"):
            gap = runs.mean(name)[1:] - getattr(traj, name)[1:]
            assert np.all(np.abs(gap) < 3 * runs.standard_error(name)[1:] + 3 / 300)  # O(1/N) of finite size
    rng, state = np.random.default_rng(1), traj[-1]
    for s in (None, [2.0, 0.3]):
        weights = model.spectrum.s if s is None else np.array(s)
        q, r, t = state.plain
        S = np.einsum("l,lij->ij", weights, np.block([[q, r], [r.swapaxes(1, 2), t]]))
        x, y = np.linalg.cholesky(S) @ rng.standard_normal((2, 400_000))
        assert traj.classification_error(s)[-1] == pytest.approx(np.mean(x * y < 0), abs=4 * 0.5 / np.sqrt(400_000))
    assert runs.classification_error([2.0, 0.3]).shape == (40, 3)
    turned = ov.committee_machine(1, 1, **ONE | {"v_star": [-1.0]}, spectrum=model.spectrum)
    assert ov.solve(turned, start, [0.0]).classification_error() == pytest.approx(1 - traj.classification_error()[:1])


def test_the_probability_of_a_wrong_sign():
    model = ov.committee_machine(1, 1, **ONE)
    start = ov.State.from_overlaps(model, Q=[[0.8]], R=[[0.5]], T=[[1.2]])
    assert ov.solve(model, start, [0.0]).classification_error()[0] == pytest.approx(0.329530527325, abs=1e-12)


def test_bad_input():
    model = ov.committee_machine(1, 1, **ONE)
    with pytest.raises(ValueError, match="activation = sign.*rules.perceptron"):
        ov.committee_machine(1, 1, activation="sign", eta=1.0)
    with pytest.raises(ValueError, match="T_mm = 0"):
        ov.closure(model, [[0.8]], [[0.0]], [[0.0]])
    with pytest.raises(ValueError, match="teacher of signs with students of relu"):
        ov.closure(ov.committee_machine(1, 1, **ONE | {"activation": ov.relu}), [[0.8]], [[0.5]], [[1.2]])
    with pytest.raises(ValueError, match="no closed forms of this pair"):
        classes = ov.gaussian_mixture(1, 1, gram=[[[1.0]]], weights=[1.0], labels=[0.0], v_star=[1.0], eta=1.0,
                                      teacher_activation=ov.sign)  # fmt: skip
        ov.closure(classes, [[0.8]], [[0.5]], [[1.2]], means=[0.1, 0.2])
    start = ov.State.from_overlaps(model, Q=[[0.8]], R=[[0.5]], T=[[1.2]])
    traj = ov.solve(model, start, [0.0])
    with pytest.raises(ValueError, match=r"s has shape \(2,\)"):
        traj.classification_error([1.0, 2.0])
    with pytest.raises(ValueError, match="variances >= 0"):
        traj.classification_error([-1.0])
    with pytest.raises(ValueError, match="K = M = 1"):
        ov.solve(pair(), ov.State.from_overlaps(pair(), **PAIR), [0.0]).classification_error()


def test_a_negative_readout_turns_the_answer_over():
    """One unit with v < 0 beside a teacher: a million draws, of which a wrong share of 0.6 is known to 0.0005."""
    model = ov.committee_machine(1, 1, activation=ov.linear, v=[-0.7], v_star=[1.3], eta=0.3)
    start = ov.State.from_overlaps(model, Q=[[0.8]], R=[[0.3]], T=[[1.2]])
    fields = np.random.default_rng(1).standard_normal((10**6, 2)) @ np.linalg.cholesky(start.S).T
    wrong = np.mean(-0.7 * fields[:, 0] * 1.3 * fields[:, 1] < 0)
    assert ov.solve(model, start, [0.0]).classification_error()[0] == pytest.approx(wrong, abs=2e-3)
