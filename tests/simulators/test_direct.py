"""Direct SGD: against an obvious implementation step by step, and against the ODE at two sizes."""

import dataclasses

import numpy as np
import pytest
from helpers import few
from oracles import sgd

import overlaps as ov
from overlaps.simulators import _sgd
from overlaps.simulators.direct import kept_norms


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch_size": 3, "weight_decay": (0.5, 0.2), "eta_v": 0.6, "noise": 0.3},
        {"weight_decay": (40.0, 0.0)},  # a factor of 0.7 in each step: the scale of the weights is renewed
        {"weight_decay": (40.0 / 0.3, 0.0), "noise": 0.3},  # no weight survives a step
        {"constraint": "sphere", "batch_size": 2, "weight_decay": (0.0, 0.2), "eta_v": 0.6, "noise": 0.3},
    ],
)
def test_compiled_steps_are_the_obvious_ones(activation, teacher_activation, options, rng):
    model = ov.committee_machine(
        3, 2, activation=activation, teacher_activation=teacher_activation, v=[0.3, 0.2, -0.4], eta=0.3, **options
    )
    N, steps = 40, 60
    W, W_star = rng.standard_normal((3, N)), rng.standard_normal((2, N))
    X = rng.standard_normal((steps, model.batch_size, N))
    xi = model.noise * rng.standard_normal(X.shape[:2])
    expected_W, expected_v = sgd(model, W, W_star, model.v, X, xi)
    factor, v = np.ones(1), np.array(model.v)
    kappa, kappa_v = model.weight_decay
    codes = activation.code, teacher_activation.code
    rates = np.tile([model.eta, model.eta_v, model.eta * kappa, model.eta_v * kappa_v], (steps, 1))
    _sgd.direct_steps(W, factor, W_star, v, model.v_star, X, xi, *codes, rates, kept_norms(model, W))
    # order of summation, amplified over 60 steps
    np.testing.assert_allclose(factor[0] * W, expected_W, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(v, expected_v, rtol=1e-10, atol=1e-11)


def deviation(model, start, N, runs, seed, alpha=3.0):
    """Root mean square distance of (Q, R, v) from the ODE, over runs and entries, and its gradient-flow counterpart."""
    times = [0.5 * alpha, alpha]
    sim = ov.simulate(model, N=N, alpha=times, rng=seed, start=start, runs=runs, method="direct")
    assert sim.success

    def distance(m):
        theory = ov.solve(m, start, times)
        gaps = [getattr(sim, x) - getattr(theory, x) for x in ("Q", "R", "v")]
        gaps = np.concatenate([g.reshape(runs, -1) for g in gaps], axis=1)
        return np.sqrt(np.mean(gaps**2)), np.abs(gaps.mean(axis=0))

    return distance(model), distance(dataclasses.replace(model, gradient_flow=True))


def assert_approaches_the_ode(model, start, sizes, runs, seed=11, factor=2.0):
    """Distance ~ 1/sqrt(N), small, and much larger without the O(eta^2) term."""
    (small, mean_small), _ = deviation(model, start, sizes[0], runs, seed)
    (large, mean_large), (wrong, mean_wrong) = deviation(model, start, sizes[1], runs, seed + 1)
    # 5/sqrt(N runs) bounds the mean of runs with fluctuations of order one in units of 1/sqrt(N)
    scale = max(1.0, np.sqrt(small**2 * sizes[0]))
    assert np.all(mean_large < 5 * scale / np.sqrt(sizes[1] * runs) + 3 / sizes[1])
    # the ratio of two rms values over runs x entries, of which about 2 runs are independent: 35 % at four sigma
    expected = np.sqrt(sizes[1] / sizes[0])
    assert expected / factor < small / large < expected * factor
    # dropping the O(eta^2) term is seen: the mean of the runs leaves that theory by far more than its own error
    assert wrong > 1.5 * large and mean_wrong.max() > 5 * scale / np.sqrt(sizes[1] * runs) + 3 / sizes[1]


@few("noise, eta_v", [(0.0, 0.0), (0.5, 0.5)], quick=1)
@few("activation", ["erf", "linear", "quadratic"], indirect=True)
def test_sgd_approaches_the_ode(activation, noise, eta_v):
    v = {"quadratic": [0.5, 0.3]}.get(activation.name, [1.0, 0.6])
    eta = {"erf": 1.5, "linear": 0.5, "quadratic": 0.4}[activation.name]
    model = ov.committee_machine(2, 2, activation=activation, v=v, v_star=[0.5, 0.4], eta=eta, eta_v=eta_v, noise=noise)
    start = ov.State.from_overlaps(
        model, Q=[[0.6, 0.1], [0.1, 0.4]], R=[[0.3, 0.0], [-0.1, 0.2]], T=[[1, 0.1], [0.1, 0.8]]
    )
    assert_approaches_the_ode(model, start, (100, 900), runs=12)


@pytest.mark.slow
def test_sgd_on_a_spectrum_and_with_batches_approaches_the_ode():
    model = ov.committee_machine(
        2, 1, eta=1.5, spectrum=ov.power_law(beta=0.5, L=4), batch_size=2, weight_decay=0.05, noise=0.8
    )
    start = model.random_start(N=100, rng=4)
    # the theory of SGD at size N starts from the same blocks; a quarter of the directions each
    assert_approaches_the_ode(model, start, (100, 900), runs=12)


@pytest.mark.slow
@pytest.mark.parametrize(
    "student, teacher",
    [
        ("erf", "erf"),
        ("quadratic", "quadratic"),
        ("erf", "linear"),
        ("relu", "relu"),
        ("relu", "erf"),
        ("erf", "relu"),
        ("tanh", "tanh"),
        ("absolute", "relu"),
    ],
)
def test_sgd_of_every_pair_approaches_the_ode(student, teacher):
    model = ov.committee_machine(
        3,
        2,
        activation=getattr(ov, student),
        teacher_activation=getattr(ov, teacher),
        v=[0.5, 0.4, 0.3],
        v_star=[0.5, 0.4],
        eta={"quadratic": 0.4, "relu": 1.2, "absolute": 0.5}.get(student, 2.0),
        eta_v=0.3,
        noise=0.5,
    )
    start = ov.State.from_overlaps(
        model, Q=0.5 * np.eye(3), R=[[0.3, 0.0], [-0.1, 0.2], [0.1, 0.1]], T=[[1, 0.1], [0.1, 0.8]]
    )
    # 128 runs at N = 500 know the mean as well as 16 at 4000, for an eighth of the cost
    assert_approaches_the_ode(model, start, (125, 500), runs=128, factor=1.6)


def test_a_user_function_runs_as_plain_python(rng):
    """The same stream through the interpreted step: erf written by hand against the compiled erf."""
    mine = dataclasses.replace(ov.erf, name="mine", code=-1)
    options = dict(v=[1.0, 0.5], eta=0.7, eta_v=0.2, noise=0.2, batch_size=2, weight_decay=0.1)
    a = ov.committee_machine(2, 2, **options)
    b = ov.committee_machine(2, 2, activation=mine, teacher_activation=mine, **options)
    start = a.random_start(N=50, rng=1)
    runs = [ov.simulate(m, N=50, alpha=[0, 2], rng=3, start=start, method="direct") for m in (a, b)]
    np.testing.assert_allclose(runs[0].q, runs[1].q, rtol=1e-10)
    np.testing.assert_allclose(runs[0].v, runs[1].v, rtol=1e-10)


def test_single_precision_costs_only_rounding(rng):
    """The same inputs in both precisions over 2000 steps."""
    model = ov.committee_machine(2, 2, eta=0.5, eta_v=0.2, weight_decay=0.01)
    N = 200
    X = rng.standard_normal((2000, 1, N)).astype("float32")
    W, W_star = rng.standard_normal((2, N)).astype("float32"), rng.standard_normal((2, N)).astype("float32")
    ends = []
    for dtype in ("float32", "float64"):
        w, factor, v = W.astype(dtype), np.ones(1), np.ones(2)
        options = ov.erf.code, ov.erf.code, np.tile([0.5, 0.2, 0.005, 0.002], (2000, 1))
        inputs = X.astype(dtype), np.zeros((2000, 1))
        _sgd.direct_steps(w, factor, W_star.astype(dtype), v, model.v_star, *inputs, *options, np.zeros(0))
        w = factor * w.astype(float)
        ends.append((w @ w.T / N, v))
    # 2000 roundings of 3e-8 in each of 200 weights, each a random walk: 1.3e-6 in a weight, 1e-7 in an overlap
    np.testing.assert_allclose(ends[0][0], ends[1][0], atol=1e-6)
    np.testing.assert_allclose(ends[0][1], ends[1][1], atol=1e-6)
    assert not np.array_equal(ends[0][0], ends[1][0])
    single = ov.simulate(model, N=50, alpha=[0, 3], rng=1, method="direct", dtype="float32", runs=2)
    assert single.success and single.q.dtype == float


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("rate", [1e-8, 3e-4])
def test_weak_decay_is_exact_in_either_precision(rate, dtype):
    """Without readout nothing is learned: Q = (1 - eta kappa / N)^(2 steps) Q(0), here a factor of 1e-8 a step."""
    N, steps = 50, 20_000
    model = ov.committee_machine(2, 1, eta=1.0, v=[0.0, 0.0], weight_decay=(rate * N, 0.0))
    runs = ov.simulate(model, N=N, alpha=[0, steps / N], rng=1, method="direct", dtype=dtype)
    expected = np.exp(2 * steps * np.log1p(-rate))
    # the documented 1e-6; the larger rate renews the scale of the weights 8 times, each time with one rounding
    np.testing.assert_allclose(runs.Q[0, 1], expected * runs.Q[0, 0], rtol=1e-6)


def test_diverging_weights_end_the_record():
    model = ov.committee_machine(1, 1, activation=ov.quadratic, eta=8.0)
    with pytest.warns(RuntimeWarning, match="diverged"):
        sim = ov.simulate(model, N=400, alpha=np.arange(0.0, 50.0), rng=1, runs=2, method="direct")
    assert not sim.success and len(sim) == 2
    reached = np.isfinite(sim.Q[:, :, 0, 0])
    assert np.all(reached[:, 0]) and not np.any(reached[:, -1])
    np.testing.assert_array_equal(np.isfinite(sim.eps_g), reached)
