"""Trained biases: golden numbers, a rule with offsets, SGD with explicit biases, invariances and bad input."""

import math
from dataclasses import replace

import numpy as np
import pytest

import overlaps as ov

SPECTRUM = ov.Spectrum([1.6, 0.4], [0.25, 0.75])


def unit(activation, Q, R, b, b_star, rate, **numbers):
    """One unit with a bias, and one teacher."""
    network = ov.committee_machine(1, 1, activation=activation, **numbers)
    state = ov.State.from_overlaps(network, Q=[[Q]], R=[[R]], T=[[1.0]])
    return ov.biased(network, state, b=[b], b_star=[b_star], rate=rate)


def pair(activation="erf", rate=0.5, b=(0.2, -0.3), b_star=(0.4, 0.1), **numbers):
    """Two units of unequal second layers on two eigenvalues; the problem without and with biases."""
    numbers = {"eta": 0.3, "v": [0.6, 0.4], "v_star": [0.9, 1.1], "spectrum": SPECTRUM} | numbers
    network = ov.committee_machine(2, 2, activation=activation, **numbers)
    state = network.random_start(N=200, rng=3)
    return network, state, *ov.biased(network, state, b=b, b_star=b_star, rate=rate)


@pytest.mark.parametrize("activation, arguments, alpha, golden", [
    ("erf", (0.6, 0.2, 0.0, 0.7, 0.5, 0.8), 6.0, (0.560507697193, 0.714805707612, 0.430394016767)),
    ("relu", (0.6, 0.2, 0.2, 0.4, 0.5, 0.3), 4.0, (0.624270380007, 0.585185124623, 0.330523755736)),
])  # fmt: skip
def test_golden_numbers(activation, arguments, alpha, golden):
    """Digits of a quadrature of the force, and of SGD with explicit weights and biases."""
    *arguments, eta = arguments
    traj = ov.solve(*unit(activation, *arguments, eta=eta), [0.0, alpha], rtol=1e-11)
    found = traj.Q[-1, 0, 0], traj.R[-1, 0, 0], traj.biases[-1, 0]
    assert found == pytest.approx(golden, abs=2e-10)


def with_offset_and_readout(lam, nu, xi, theta, S, F, G):
    """Bias and readout of one unit, its theta; the second student is a dummy that never moves."""
    delta = theta[1] * math.erf((lam[0] + theta[0]) / math.sqrt(2)) - 0.8 * math.erf((nu[0] + 0.5) / math.sqrt(2))
    slope = math.sqrt(2 / math.pi) * math.exp(-((lam[0] + theta[0]) ** 2) / 2)
    F[0] = G[0] = -theta[1] * slope * delta
    G[1] = -math.erf((lam[0] + theta[0]) / math.sqrt(2)) * delta


def test_a_dummy_student_of_a_rule_has_the_second_parameter():
    """The same flow by quadrature of a force, to its tolerance of 1e-8, relative to averages of order one."""
    rule = ov.Rule(with_offset_and_readout, K=2, M=1)
    learner = ov.learner(rule, eta=0.9, eta_theta=0.9, theta=[0.1, 0.6])
    start = ov.State.from_overlaps(learner, Q=np.diag([0.5, 0.0]), R=[[0.3], [0.0]], T=[[1.0]])
    one = ov.solve(learner, start, [0.0, 6.0], rtol=1e-10)
    model, start = unit("erf", 0.5, 0.3, 0.1, 0.5, 0.9, eta=0.9, eta_v=0.9, v=[0.6], v_star=[0.8])
    two = ov.solve(model, start, [0.0, 6.0], rtol=1e-10)
    assert [*one.v[-1]] == pytest.approx([two.biases[-1, 0], two.v[-1, 0]], abs=1e-9)
    assert [*one.v[-1]] == pytest.approx([0.354105425012, 0.741233520919], abs=1e-9)
    assert one.Q[-1, 0, 0] == pytest.approx(two.Q[-1, 0, 0], abs=1e-9)


def explicit(N, alpha, runs, *, v, v_star, g, dg, eta, eta_v, rate, noise, decay, batch, b, b_star, state):
    """Biases, readouts, Q, R (runs, ...) of SGD on weights with these biases, whose code shares nothing."""
    rng, ends = np.random.default_rng(5), []
    n = np.rint(SPECTRUM.p * N).astype(int)
    scale = np.repeat(np.sqrt(SPECTRUM.s), n)
    for _ in range(runs):
        W, W_star = np.zeros((2, 2, N))
        for block, edge in zip(range(2), np.cumsum(n) - n, strict=True):
            q, r, t = (x[block] for x in state.plain)
            values, vectors = np.linalg.eigh(np.block([[q, r], [r.T, t]]))
            frame = np.linalg.qr(rng.standard_normal((n[block], 4)))[0].T * np.sqrt(N)
            rows = vectors * np.sqrt(np.maximum(values, 0)) @ frame
            W[:, edge : edge + n[block]], W_star[:, edge : edge + n[block]] = rows[:2], rows[2:]
        bias, readout = np.array(b), np.array(v)
        for _ in range(round(alpha * N)):
            X = scale * rng.standard_normal((batch, N))
            lam, nu = X @ W.T / np.sqrt(N) + bias, X @ W_star.T / np.sqrt(N) + b_star
            delta = g(lam) @ readout - g(nu) @ v_star - noise * rng.standard_normal(batch)
            F = -readout * dg(lam) * delta[:, None]
            step_v = -(g(lam) * delta[:, None]).mean(axis=0)
            W += eta * F.T @ X / (batch * np.sqrt(N)) - eta * decay / N * W
            bias = bias + rate / N * F.mean(axis=0) - eta * decay / N * bias
            readout = readout + eta_v / N * (step_v - decay * readout)
        S = W * scale
        ends.append((bias, readout, S @ S.T / N, S @ (W_star * scale).T / N))
    return [np.array(x) for x in zip(*ends, strict=True)]


KINDS = {"erf": ov.erf, "relu": ov.relu, "quadratic": ov.quadratic, "linear": ov.linear}


@pytest.mark.parametrize("N", [100, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.parametrize("activation", ["erf", *(pytest.param(x, marks=pytest.mark.slow) for x in KINDS if x != "erf")])
def test_sgd_with_explicit_biases(activation, N):
    """Both layers, two eigenvalues, noise, decay and batches: within three standard errors, or 3/N of finite size."""
    numbers = {"eta": 0.3, "eta_v": 0.2, "noise": 0.1}
    _, state, model, start = pair(activation, weight_decay=0.05, batch_size=2, **numbers)
    g, alpha = KINDS[activation], 1.0 if activation == "quadratic" else 2.0
    traj = ov.solve(model, start, [0.0, alpha])
    ends = explicit(
        N, alpha, 40, v=[0.6, 0.4], v_star=[0.9, 1.1], g=g.g, dg=g.dg, rate=0.5, decay=0.05, batch=2, b=[0.2, -0.3],
        b_star=[0.4, 0.1], state=state, **numbers,
    )  # fmt: skip
    for runs, theory in zip(ends, (traj.biases[-1], traj.v[-1], traj.Q[-1], traj.R[-1]), strict=True):
        error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
        assert np.all(np.abs(runs.mean(axis=0) - theory) < np.maximum(3 * error, 3 / N))


@pytest.mark.parametrize("method", ["direct", "reduced"])
@pytest.mark.parametrize("N", [40, pytest.param(400, marks=pytest.mark.slow)])
def test_both_simulators_have_a_constant_input_beside_the_others(method, N):
    """Starts are met exactly, biases are learned as by the equations: within three standard errors, or 3/N."""
    _, state, model, start = pair(eta_v=0.2, noise=0.1)
    traj = ov.solve(model, start, [0.0, 2.0])
    runs = ov.simulate(model, N=N, alpha=[0.0, 2.0], rng=2, runs=40, start=start, method=method)
    assert np.allclose(runs.biases[:, 0], [0.2, -0.3], rtol=0, atol=1e-12)
    assert np.allclose(runs.Q[:, 0], state.Q, rtol=0, atol=1e-12)
    for name in ("biases", "v", "Q", "R"):
        gap, error = runs.mean(name)[-1] - getattr(traj, name)[-1], runs.standard_error(name)[-1]
        assert np.all(np.abs(gap) < np.maximum(3 * error, 3 / N)), name
    assert ov.simulate(model, N=N, alpha=[0.0, 0.1], rng=2, start=start).method == "reduced"


def test_steps_of_direct_runs_are_those_of_n_inputs():
    """A bias that learns alone: v g'(b) F/N in each step, exactly, with weights that are zero."""
    model, start = unit("linear", 0.0, 0.0, 0.3, 0.0, 0.7, eta=1e-9, v_star=[1e-9])
    for method in ("direct", "reduced"):
        runs = ov.simulate(model, N=20, alpha=[0.0, 1.0], rng=1, start=start, method=method)
        assert runs.biases[0, -1, 0] == pytest.approx(0.3 * (1 - 0.7 / 20) ** 20, rel=1e-6)


def test_kept_weights_are_those_of_the_inputs():
    """Weights (K, N) have the recorded overlaps, with eigenvectors of the covariance that are not the axes."""
    basis = np.linalg.qr(np.random.default_rng(5).standard_normal((40, 40)))[0]
    network = ov.committee_machine(2, 1, eta=0.3, spectrum=ov.Spectrum([1.6, 0.4], [0.5, 0.5], basis=basis))
    model, start = ov.biased(network, network.random_start(N=40, rng=1), b=[0.1, 0.2], b_star=[0.3], rate=0.4)
    runs = ov.simulate(model, N=40, alpha=[0.0, 1.0], rng=1, start=start, keep_weights=True)
    W, Sigma = runs.final_weights()[0], basis @ np.diag(np.repeat([1.6, 0.4], 20)) @ basis.T
    assert W.shape == (2, 40) and np.allclose(W @ Sigma @ W.T / 40, runs.Q[0, -1], rtol=0, atol=1e-12)


def test_biases_that_are_zero_and_stay_zero_are_none():
    network, state, model, start = pair(rate=1e-9, b=(0, 0), b_star=None, eta_v=0.2)
    one, two = (ov.solve(*x, [0.0, 5.0], rtol=1e-10) for x in ((network, state), (model, start)))
    for name in ("Q", "R", "v", "eps_g"):
        assert np.allclose(getattr(one, name), getattr(two, name), rtol=0, atol=1e-10)
    assert np.all(np.abs(two.biases) < 1e-8)  # moved by rate alpha at most


def test_units_may_be_exchanged():
    *_, model, start = pair(b=(0.2, -0.3))
    *_, other, _ = pair(v=[0.4, 0.6])
    swapped = {name: getattr(start, name)[:, ::-1] for name in ("r", "m")} | {"q": start.q[:, ::-1, ::-1]}
    one = ov.solve(model, start, [0.0, 3.0])
    two = ov.solve(other, replace(start, v=start.v[::-1], **swapped), [0.0, 3.0])
    assert np.allclose(one.biases, two.biases[:, ::-1], rtol=0, atol=1e-9)
    assert np.allclose(one.eps_g, two.eps_g, rtol=0, atol=1e-9)


def test_a_flip_of_all_fields_flips_the_biases():
    """Of an odd function: weights, labels and biases change their signs together."""
    *_, model, start = pair()
    *_, other, begin = pair(b=(-0.2, 0.3), b_star=(-0.4, -0.1))
    one, two = ov.solve(model, start, [0.0, 3.0]), ov.solve(other, begin, [0.0, 3.0])
    assert np.allclose(one.biases, -two.biases, rtol=0, atol=1e-9)


def test_classes_with_biases_are_classes_with_shifted_means():
    """A bias of all students in all classes is the mean of a field in each class; labels alone, without a teacher."""
    mixture = ov.gaussian_mixture(
        2, gram=[[[2.25, -2.25], [-2.25, 2.25]]], weights=[0.4, 0.6], labels=[1, -1], v=[0.6, 0.4], eta=0.5
    )
    state = mixture.random_start(N=1000, rng=1)
    model, start = ov.biased(mixture, state, b=[0.3, -0.2], rate=0.4)
    runs = ov.simulate(model, N=400, alpha=[0.0, 3.0], rng=1, runs=20, start=start)
    traj = ov.solve(model, start, [0.0, 3.0])
    assert np.allclose(start.m.sum(axis=0) - state.m.sum(axis=0), [[0.3, 0.3], [-0.2, -0.2]])
    gap = np.abs(runs.mean("biases")[-1] - traj.biases[-1])
    assert np.all(gap < 4 * runs.standard_error("biases")[-1])


def test_files_and_batches_have_biases(tmp_path):
    *_, model, start = pair()
    traj = ov.solve(model, start, [0.0, 1.0])
    traj.save(tmp_path / "run.npz")
    assert np.array_equal(ov.load(tmp_path / "run.npz").biases, traj.biases)
    assert np.allclose(ov.solve_many([model] * 2, start, [0.0, 1.0])[1].biases, traj.biases, rtol=0, atol=1e-12)
    assert traj.plateaus() == [] and "a constant input" in repr(model)


def test_bad_input_is_refused():
    network, state, model, start = pair()
    with pytest.raises(ValueError, match=r"b has shape \(3,\)"):
        ov.biased(network, state, b=[0, 0, 0], rate=0.5)
    with pytest.raises(ValueError, match="rate = 0; expected .* 1e-6 keeps biases fixed"):
        ov.biased(network, state, b=[0, 0], rate=0)
    with pytest.raises(ValueError, match="has biases; expected one without"):
        ov.biased(model, start, b=[0, 0], rate=0.5)
    with pytest.raises(ValueError, match="fixed norm.* is not supported"):
        ov.biased(replace(network, constraint="sphere"), state, b=[0, 0], rate=0.5)
    with pytest.raises(ValueError, match=r"Compress first: ov.biased\(\*ov.compress"):
        ov.compress(model, start, 9)
    with pytest.raises(AttributeError, match="biases: the units of this model have none"):
        _ = ov.solve(network, state, [0.0]).biases
