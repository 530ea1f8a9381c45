"""Finite steps: golden numbers, explicit vectors, SGD, limits, edges of stability in closed form, bad input."""

import math

import numpy as np
import oracles
import pytest
from oracles import erf_i3, erf_i4

import overlaps as ov
from overlaps.models.schedule import ScheduleEvaluator
from overlaps.simulators.mixed import Samples
from overlaps.simulators.steps import Rates

I2 = np.eye(2)
OVERLAPS = {"Q": I2 / 2, "R": [[0.3, 0.05], [0.1, 0.2]], "T": I2}
TWO = ov.Spectrum(s=[1.6, 0.4], p=[0.5, 0.5])


def base(**numbers):
    """Two erf units, and a start."""
    model = ov.committee_machine(2, 2, **numbers)
    return model, ov.State.from_overlaps(model, **OVERLAPS)


def generic(spectrum=TWO, seed=3, K=2, **numbers):
    """Units with different readouts on several eigenspaces, and a start whose overlaps all differ."""
    v = [0.8, -0.6, 0.5][:K]
    model = ov.committee_machine(K, 2, v=v, v_star=[0.7, 0.5], spectrum=spectrum, **numbers)
    X = np.random.default_rng(seed).standard_normal((spectrum.L, K + 2, 9)) / 4
    joint = X @ X.swapaxes(1, 2)
    return model, ov.State.from_blocks(model, q=joint[:, :K, :K], r=joint[:, :K, K:], t=joint[:, K:, K:])


def units(activation, Q, R, T, **numbers):
    """One student and one teacher."""
    model = ov.committee_machine(1, 1, activation=activation, **numbers)
    return model, ov.State.from_overlaps(model, Q=[[Q]], R=[[R]], T=[[T]])


# numbers of two independent programs, at the steps of the first tuple ------------------------------------------------

GOLDEN = [
    ({"eta": 1.2, "noise": 0.3}, 1.0, (1, 2, 5, 12), [0.29949355935, 0.228352275535, 0.133830738235, 0.102929516306]),
    ({"eta": 0.9, "noise": 0.3}, 4.0, (1, 2, 5, 12), [0.56723058239, 0.316131143409, 0.135798725588, 0.129235392284]),
    (
        {"eta": 2.0, "gradient_flow": True}, 1.0, (1, 2, 5, 10, 20),
        [0.081717249115, 0.023955889329, 0.014792966602, 0.011076940848, 0.004908227999],
    ),
]  # fmt: skip


@pytest.mark.parametrize("numbers, step, at, eps_g", GOLDEN)
def test_golden_numbers(numbers, step, at, eps_g):
    """Digits as printed, of a NumPy program and of a prototype that shared the closure only."""
    traj = ov.solve(*base(**numbers), (0.0, at[-1] * step), step=step)
    assert np.allclose(traj.eps_g[list(at)], eps_g, rtol=0, atol=1e-11)
    assert len(traj) == at[-1] + 1 and traj.method == f"finite steps of {step:g}" and traj.success


def test_golden_numbers_of_a_perceptron():
    """The rule has jumps, and one step of eta kappa turns the student by a finite angle."""
    model = ov.learner(ov.rules.perceptron(), eta=1.0)
    start = ov.State.from_overlaps(model, Q=[[1.0]], R=[[0.2]], T=[[1.0]])
    eps_g = [0.4359057832, 0.2705972957, 0.2019829725, 0.1652072071, 0.1431329956, 0.1287759519, 0.1188236485]
    assert np.allclose(ov.solve(model, start, (0, 12), step=2.0).eps_g, eps_g, rtol=0, atol=1e-10)


def test_a_staircase():
    """Target nu_1 + nu_1 nu_2: the second direction is met one step after the first, never in the same."""

    def force(lam, nu, xi, theta, S, F, G):
        z = lam[0] + 0.5
        delta = math.erf(z / math.sqrt(2)) - nu[0] - nu[0] * nu[1]
        F[0] = -math.sqrt(2 / math.pi) * math.exp(-z * z / 2) * delta

    model = ov.learner(ov.Rule(force, K=1, M=2), eta=0.5)
    start = ov.State.from_overlaps(model, Q=[[1.0]], R=[[0.0, 0.0]], T=I2)
    R = [
        [0.53000706, 0.0],
        [0.90789059, -0.05482418],
        [1.15851758, -0.11701455],
        [1.32660432, -0.17073166],
    ]
    found = ov.solve(model, start, (0, 8), step=2.0).R[1:, 0]
    assert np.allclose(found, R, rtol=0, atol=1e-7)  # the rule is averaged by quadrature, to 1e-8


# explicit vectors ----------------------------------------------------------------------------------------------------


def erf_closure(model, Q, R, T, v):
    """A, B, C, dv of erf units by the integrals of Saad and Solla (1995), with E[F z^T] = (A B) S."""
    S, w, K = np.block([[Q, R], [R.T, T]]), np.concatenate([v, -model.v_star]), len(v)
    n = range(len(w))
    moments = np.array([[sum(w[i] * w[c] * erf_i3(S, i, j, c) for c in n) for j in n] for i in range(K)])
    AB = -model.eta * np.linalg.solve(S, moments.T).T  # E[F z^T] = (A B) S
    C = [
        [
            model.eta**2 * w[i] * w[k] * (
                sum(w[a] * w[b] * erf_i4(S, i, k, a, b) for a in n for b in n)
                + model.noise**2 * oracle_i2(S, i, k)
            )
            for k in range(K)
        ]
        for i in range(K)
    ]  # fmt: skip
    dv = [-model.eta_v * sum(w[c] * two(S, i, c) for c in n) for i in range(K)]
    return AB[:, :K], AB[:, K:], np.array(C), np.array(dv)


def two(S, i, j):
    """E[g_i g_j]."""
    return 2 / np.pi * np.arcsin(S[i, j] / np.sqrt((1 + S[i, i]) * (1 + S[j, j])))


def oracle_i2(S, i, j):
    """E[g_i' g_j']."""
    return 2 / np.pi / np.sqrt((1 + S[i, i]) * (1 + S[j, j]) - S[i, j] ** 2)


def vectors(model, start, n, step):
    """Q, R, v of n steps of explicit vectors: noise is a new direction, orthogonal to all earlier ones."""
    s, p, (kappa, kappa_v) = model.spectrum.s, model.spectrum.p, model.weight_decay
    q, r, t = start.plain
    K, v, records = model.K, np.array(start.v), []
    roots = [np.linalg.cholesky(np.block([[a, b], [b.T, c]])) for a, b, c in zip(q, r, t, strict=True)]
    W, W_star = [x[:K] for x in roots], [x[K:] for x in roots]
    for _ in range(n):
        Q, R, T = (
            sum(x * a @ b[:, : a.shape[1]].T for x, a, b in zip(s, *pair, strict=True))
            for pair in ((W, W), (W_star, W), (W_star, W_star))
        )
        records.append((Q, R.T, v))
        A, B, C, dv = erf_closure(model, Q, R.T, T, v)
        before = sum(np.sum(x**2, axis=1) for x in W)
        values, frame = np.linalg.eigh(C)
        for l in range(len(s)):
            old = np.pad(W_star[l], ((0, 0), (0, W[l].shape[1] - W_star[l].shape[1])))
            mean = W[l] + step * (s[l] * (A @ W[l] + B @ old) - model.eta * kappa * W[l])
            noise = np.sqrt(step * s[l] * p[l] / model.batch_size) * frame * np.sqrt(np.maximum(values, 0))
            W[l] = mean if model.gradient_flow else np.hstack([mean, noise])
        if model.spherical:
            factor = np.sqrt(before / sum(np.sum(x**2, axis=1) for x in W))
            W = [factor[:, None] * x for x in W]
        v = v + step * (dv - model.eta_v * kappa_v * v)
    return [np.array(x) for x in zip(*records, strict=True)]


CASES = {
    "decay and v": {"eta": 0.9, "eta_v": 0.5, "noise": 0.2, "weight_decay": (0.1, 0.3)},
    "sphere": {"eta": 0.9, "noise": 0.2, "constraint": "sphere"},
    "batches": {"eta": 0.9, "noise": 0.2, "batch_size": 3},
    "population": {"eta": 2.1, "gradient_flow": True},
    "spike": {"eta": 0.9, "noise": 0.2, "spectrum": ov.Spectrum(s=[1.0, 2.5], p=[1.0, 0.0])},
    "three students": {"eta": 0.9, "noise": 0.2, "K": 3},
}


@pytest.mark.parametrize("case", CASES)
def test_explicit_vectors(case):
    """Both are exact; 1e-12 is the rounding of ten steps."""
    model, start = generic(**CASES[case])
    traj = ov.solve(model, start, (0, 15), step=1.5)
    for found, expected in zip((traj.Q, traj.R, traj.v), vectors(model, start, 11, 1.5), strict=True):
        assert np.allclose(found, expected, rtol=1e-11, atol=1e-12)


# SGD -----------------------------------------------------------------------------------------------------------------


def explicit_sgd(model, start, N, step, n, runs, seed):
    """Q and R (runs, n + 1, ...) of SGD in NumPy, with batches of step N samples and their gradients added."""
    rng, b = np.random.default_rng(seed), round(step * N)
    whole = model.replace(eta=b * model.eta, eta_v=b * model.eta_v)
    records = []
    for _ in range(runs):
        basis = np.linalg.qr(rng.standard_normal((N, model.K + model.M)))[0].T
        weights = np.sqrt(N) * np.linalg.cholesky(start.S) @ basis
        W, W_star, v = weights[: model.K], weights[model.K :], np.array(start.v)
        records.append([(W @ W.T / N, W @ W_star.T / N)])
        for _ in range(n):
            X, xi = rng.standard_normal((1, b, N)), model.noise * rng.standard_normal((1, b))
            W, v = oracles.sgd(whole, W, W_star, v, X, xi)[:2]
            records[-1].append((W @ W.T / N, W @ W_star.T / N))
    return [np.array([[x[i] for x in run] for run in records]) for i in range(2)]


@pytest.mark.parametrize("N, runs", [(100, 20), pytest.param(1000, 30, marks=pytest.mark.slow)])
def test_sgd_in_explicit_weights(N, runs):
    """Three standard errors, or 2/N: finite batches have corrections of order 1/N."""
    model, start = base(eta=1.2, noise=0.3)
    traj = ov.solve(model, start, (0, 3), step=1.0)
    for found, expected in zip(explicit_sgd(model, start, N, 1.0, 3, runs, 5), (traj.Q, traj.R), strict=True):
        error = found.std(axis=0, ddof=1) / np.sqrt(runs)
        assert np.all(np.abs(found.mean(axis=0) - expected) <= 3 * error + 2 / N)


def test_simulate_makes_the_steps_of_explicit_weights():
    """One law: means of 100 runs of both at N = 30, far from the equations, to four standard errors."""
    model, start = base(eta=1.2, noise=0.3)
    runs = ov.simulate(model, N=30, alpha=(0, 1), rng=1, start=start, runs=100, step=0.5)
    found, other = runs.Q, explicit_sgd(model, start, 30, 0.5, 2, 100, 2)[0]
    error = np.sqrt((found.var(axis=0) + other.var(axis=0)) / 100)
    assert runs.alpha.tolist() == [0.0, 0.5, 1.0] and runs.step == 0.5 and runs.method == "direct"
    assert np.all(np.abs(found.mean(axis=0) - other.mean(axis=0)) <= 4 * error + 1e-9)


def manifold(nodes):
    """A hidden manifold whose start is nearly that of N -> infinity, on any number of nodes."""
    numbers = {"eta": 1.5, "noise": 0.1, "nodes": nodes, "v": [1.0, 0.8], "v_star": [0.9, 1.1]}
    model = ov.hidden_manifold(2, 2, features="sign", ratio=0.5, **numbers)
    return ov.solve(model, model.random_start(N=10**16, rng=1), (0, 8), step=2.0)


def test_nodes_of_a_hidden_manifold_give_one_step_less_exactly():
    """Overlaps after n steps are polynomials of degree 2n in s, which m Gauss nodes average up to 2m - 1.

    Starts at N = 10^16 differ by 1e-8, which a step multiplies by less than 30.
    """
    exact = manifold(16).Q
    for nodes in (2, 3):
        error = np.abs(manifold(nodes).Q - exact).max(axis=(1, 2))
        assert np.all(error[:nodes] < 1e-5) and error[nodes] > 3e-4


def test_hidden_manifold_agrees_with_its_runs():
    """Eight realisations at N = 300, each against its own spectrum: the mean within four standard errors, or 4/N."""
    model = ov.hidden_manifold(2, 2, features="sign", ratio=0.5, eta=0.4, eta_v=0.1, noise=0.1)
    runs = ov.simulate(model, N=300, alpha=(0, 6), rng=1, runs=8, step=2.0)
    pairs = [runs.realisation(i) for i in range(8)]
    difference = runs.eps_g - [ov.solve(*pair, (0, 6), step=2.0).eps_g for pair in pairs]
    error = difference.std(axis=0, ddof=1) / np.sqrt(8)
    assert np.all(np.abs(difference.mean(axis=0)) <= 4 * error + 4 / 300)


# limits and invariances ----------------------------------------------------------------------------------------------


def test_short_steps_are_the_flow():
    """The deviation is of first order: half of it at half the step, to 5 %."""
    model, start = base(eta=1.2, noise=0.3)
    flow = ov.solve(model, start, [4.0]).Q
    errors = [np.abs(ov.solve(model, start, [4.0], step=h).Q - flow).max() for h in (0.05, 0.025, 0.0125)]
    assert errors[0] < 0.03 and np.allclose(np.divide(errors[:-1], errors[1:]), 2, rtol=0.05)


def test_population_depends_on_eta_step_only():
    """Gradients without noise: 1e-12 is rounding."""
    model, start = generic(eta=0.7, gradient_flow=True)
    one = ov.solve(model, start, (0, 30), step=3.0)
    other = ov.solve(model.replace(eta=4.2), start.on(model.replace(eta=4.2)), (0, 5), step=0.5)
    assert np.allclose(one.Q, other.Q, rtol=0, atol=1e-12) and np.allclose(one.R, other.R, rtol=0, atol=1e-12)


def test_permuted_students_and_split_eigenspaces():
    """The same curve, up to rounding: students in another order, and an eigenspace as two of half its weight."""
    model, start = generic(eta=0.9, noise=0.2, eta_v=0.4)
    traj = ov.solve(model, start, (0, 10), step=2.0)
    order = [1, 0]
    swapped = start.replace(q=start.q[:, order][:, :, order], r=start.r[:, order], v=start.v[order])
    found = ov.solve(model.replace(v=model.v[order]), swapped, (0, 10), step=2.0)
    assert np.allclose(found.Q, traj.Q[:, order][:, :, order], rtol=0, atol=1e-12)
    half = np.array([0.5, 0.5, 1.0])[:, None, None]
    finer = model.replace(spectrum=ov.Spectrum(s=[1.6, 1.6, 0.4], p=[0.25, 0.25, 0.5]))
    q, r, t = (half * x[[0, 0, 1]] for x in start.plain)
    found = ov.solve(finer, ov.State.from_blocks(finer, q=q, r=r, t=t), (0, 10), step=2.0)
    assert np.allclose(found.Q, traj.Q, rtol=0, atol=1e-12) and np.allclose(found.v, traj.v, rtol=0, atol=1e-12)


# closed forms ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [0.5, 2.0, 50.0])
def test_linear_unit(step):
    """With h = eta step: m' = [(1 - h)^2 + h^2/step] m + h^2 noise^2/step for the squared distance m."""
    h, noise = 0.9 * 2 * step / (1 + step), 0.3
    traj = ov.solve(*units("linear", 0.7, 0.2, 1.1, eta=h / step, noise=noise), (0, 40 * step), step=step)
    m = [0.7 - 0.4 + 1.1]
    for _ in range(40):
        m.append(((1 - h) ** 2 + h**2 / step) * m[-1] + h**2 * noise**2 / step)
    assert np.allclose(2 * traj.eps_g, m, rtol=1e-12)


@pytest.mark.parametrize("step, critical", [(0.5, 0.297547791), (2.0, 0.358591658), (50.0, 0.380901756)])
def test_critical_step_of_a_power_law(step, critical):
    """(h/step) sum_l s_l p_l/(2 - h s_l) = 1: the error falls at .98 of this h and grows at 1.02."""
    spectrum = ov.power_law(beta=1.0, L=8)
    s, p = spectrum.s, spectrum.p
    assert abs(critical / step * np.sum(s * p / (2 - critical * s)) - 1) < 1e-6  # digits of ``critical``
    for factor, falls in ((0.98, True), (1.02, False)):
        numbers = {"activation": "linear", "spectrum": spectrum, "eta": factor * critical / step}
        model = ov.committee_machine(1, 1, **numbers)
        start = ov.State.from_blocks(model, q=p[:, None, None], r=0 * p[:, None, None], t=p[:, None, None])
        early, late = ov.solve(model, start, [100 * step, 150 * step], step=step).eps_g
        assert (late < early) == falls


def descent(start, step, n, gradient):
    """Plain overlaps (n + 1, L, K, K) of gradient descent in explicit weights, of few coordinates."""
    q, r, t = start.plain
    rows = [np.linalg.cholesky(np.block([[a, b], [b.T, c]])) for a, b, c in zip(q, r, t, strict=True)]
    W, W_star = (np.array([x[part] for x in rows]) for part in (slice(start.K), slice(start.K, None)))
    records = [W @ W.mT]
    for _ in range(n):
        W = W - step * gradient(W, W_star)
        records.append(W @ W.mT)
    return np.array(records)


def test_mixed_tasks_with_other_eigenvalues():
    """Linear units: the mean gradient is sum_i pi_i s^i_l v (v W - v*_i W*) at any N."""
    shares, spectra = [0.7, 0.3], ([1.6, 0.4], [0.5, 1.2])
    numbers = {"activation": "linear", "eta": 0.3, "gradient_flow": True}
    tasks = [
        ov.committee_machine(2, 2, v_star=v_star, spectrum=ov.Spectrum(s=s, p=[0.5, 0.5]), **numbers)
        for v_star, s in zip(([0.9, 0.2], [0.1, 1.1]), spectra, strict=True)
    ]
    start = generic(eta=1.0)[1].on(tasks[0])
    v = start.v

    def gradient(W, W_star):
        parts = [
            share * np.array(s)[:, None, None] * v[:, None] * (v @ W - task.v_star @ W_star)[:, None]
            for share, s, task in zip(shares, spectra, tasks, strict=True)
        ]
        return 0.3 * sum(parts)

    traj = ov.solve(ov.Mixed(tasks, shares), start, (0, 12), step=1.5)
    assert np.allclose(traj.q, descent(start, 1.5, 8, gradient), rtol=0, atol=1e-12)


def test_classes_with_other_variances():
    """Linear units, centred classes: the mean gradient is s_l sum_c pi_c rho_cl (w - w*), other rates in each block."""
    weights, ratios = np.array([0.3, 0.7]), np.array([[1.0, 0.7], [0.6, 1.2]])
    model = ov.gaussian_mixture(
        1, 1, weights=weights, labels=[0.0, 0.0], gram=np.zeros((2, 2, 2)), ratios=ratios, spectrum=TWO,
        activation="linear", teacher_activation="linear", eta=0.3, gradient_flow=True,
    )  # fmt: skip
    zeros = np.zeros((2, 1, 2))
    q, r, t = (x[:, :1, :1] for x in generic(eta=1.0)[1].plain)
    start = ov.State.from_blocks(model, q=q, r=r, t=t, m=zeros, n=zeros)
    rate = 0.3 * (TWO.s * (weights @ ratios))[:, None, None]
    traj = ov.solve(model, start, (0, 12), step=1.5)
    assert len(model.groups) == 2
    assert np.allclose(traj.q, descent(start, 1.5, 8, lambda W, W_star: rate * (W - W_star)), rtol=0, atol=1e-12)


def cubic(x, c, n):
    """The map of an aligned quadratic unit, n steps."""
    orbit = [x]
    for _ in range(n):
        orbit.append((1 + c) * orbit[-1] - c * orbit[-1] ** 3)
    return np.array(orbit)


@pytest.mark.parametrize("c", [0.9, 1.1, 1.25])
def test_phase_retrieval_is_a_cubic_map(c):
    """R = x for w = x w*, and the part across the teacher is multiplied by 1 + h (2 - 6 Q), h = c/6."""
    h = c / 6
    traj = ov.solve(*units("quadratic", 0.09, 0.3, 1.0, eta=1.0, gradient_flow=True), (0, 40 * h), step=h)
    assert np.allclose(traj.R[:, 0, 0], cubic(0.3, c, 40), rtol=0, atol=1e-11)
    assert traj.success and np.allclose(traj.Q, traj.R**2, rtol=1e-12)
    traj = ov.solve(*units("quadratic", 0.59, 0.3, 1.0, eta=1.0, gradient_flow=True), (0, 10 * h), step=h)
    across, Q = (traj.Q - traj.R**2).ravel(), traj.Q.ravel()
    assert np.allclose(across[1:], (1 + h * (2 - 6 * Q[:-1])) ** 2 * across[:-1], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("s, critical", [([1.0], 3.4758652923), ([1.6, 0.4], 2.1724158077)])
def test_edge_of_stability(s, critical):
    """At 2 over the largest eigenvalue of ov.hessian: below, the error vanishes; above, weights repeat after two steps.

    The largest eigenvalue is in the bulk: a part across the teachers is multiplied by 1 + step s A, which has the
    eigenvalue -1 there. Overlaps do not see the sign, so that they come to rest.
    """
    T, p = np.array([[1.0, 0.2], [0.2, 0.9]]), np.full(len(s), 1 / len(s))
    model = ov.committee_machine(2, 2, eta=1.0, v=[1, 0.8], v_star=[1, 0.8], spectrum=ov.Spectrum(s=s, p=p))
    model = model.replace(gradient_flow=True)

    def blocks(x):
        return p[:, None, None] * x

    curvature = ov.hessian(model, ov.State.from_blocks(model, q=blocks(T), r=blocks(T), t=blocks(T)))
    h = 2 / max(curvature.bulk.max(), curvature.outliers.max())
    assert abs(h / critical - 1) < 1e-10
    start = ov.State.from_blocks(model, q=blocks(T + 0.02 * I2), r=blocks(0.99 * T), t=blocks(T))
    times = [600, 601]
    below, above = (ov.solve(model, start, np.multiply(times, f * h), step=f * h) for f in (0.98, 1.02))
    assert below.eps_g.max() < 1e-12 and np.allclose(above.eps_g, 0.00192238, rtol=0, atol=1e-8)
    factors = 1 + 1.02 * h * s[0] * np.linalg.eigvalsh(ov.closure(above[1]).A)
    assert np.allclose(above.Q[0], above.Q[1], rtol=0, atol=1e-9) and abs(factors[0] + 1) < 1e-9


# overlaps that rounding makes indefinite ------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:reached alpha")
def test_an_unstable_direction_without_any_part_is_reported():
    """At c = 1.7 the aligned orbit has period six, and the part across it grows from rounding."""
    h = 1.7 / 6
    traj = ov.solve(*units("quadratic", 0.09, 0.3, 1.0, eta=1.0, gradient_flow=True), (0, 400 * h), step=h)
    assert np.all(np.isfinite(traj.Q)) and np.all(traj.Q >= traj.R**2 - 1e-12)
    assert not traj.success and "depends on rounding of the start" in traj.message


@pytest.mark.filterwarnings("ignore:reached alpha")
@pytest.mark.parametrize("mixed", [False, True])
def test_lost_positivity_is_restored(mixed):
    """From a part across the teacher that is not rounding, and becomes smaller than that before it grows again."""
    h = 1.7 / 6
    model, start = units("quadratic", 0.59, 0.3, 1.0, eta=1.0, gradient_flow=True)
    traj = ov.solve(ov.Mixed([model, model], [0.4, 0.6]) if mixed else model, start, (0, 400 * h), step=h)
    assert len(traj) == 401 and np.all(traj.Q >= traj.R**2 - 1e-12)


# interface ------------------------------------------------------------------------------------------------------------


def test_records():
    """An interval has all steps; other times are whole numbers of steps; ``at`` makes the steps again."""
    model, start = base(eta=0.9, noise=0.3)
    traj = ov.solve(model, start, (0, 12), step=0.3)
    assert np.allclose(traj.alpha, 0.3 * np.arange(41), rtol=1e-14) and traj.step == 0.3 and traj.nfev == 40
    sparse = ov.solve(model, start, [0.9, 0.3 * 7, 12.0], step=0.3)
    assert sparse.alpha.tolist() == [0.9, 0.3 * 7, 12.0] and np.array_equal(sparse.Q, traj.Q[[3, 7, 40]])
    assert sparse.at(1.5).Q.tolist() == traj[5].Q.tolist() and sparse.at(12.0) == sparse[2]
    later = ov.solve(traj[5], (1.5, 12.0), step=0.3)
    assert np.allclose(later.Q, traj.Q[5:], rtol=0, atol=1e-14)
    summed = ov.solve(model, start, (0, 12), step=0.3, blocks=False)
    assert np.array_equal(summed.Q, traj.Q)
    for wrong in (lambda: ov.solve(model, start, [0.9, 1.0], step=0.3), lambda: sparse.at(1.0)):
        with pytest.raises(ValueError, match="expected a whole number of steps, such as (0.9|1.2) or 1.2"):
            wrong()


def test_stop_at_a_whole_step():
    """Where eps_g, or a function, changes sign between two steps, the run ends at the second."""
    model, start = base(eta=0.9, noise=0.3)
    traj = ov.solve(model, start, (0, 12), step=1.5)
    stopped = ov.solve(model, start, (0, 12), step=1.5, stop=0.2)
    n = int(np.argmax(traj.eps_g < 0.2))
    assert n > 1 and stopped.stopped and np.array_equal(stopped.alpha, traj.alpha[: n + 1])
    assert np.array_equal(stopped.eps_g, traj.eps_g[: n + 1])
    stopped = ov.solve(model, start, (0, 12), step=1.5, stop=lambda alpha, state: alpha - 4.0)
    assert stopped.alpha[-1] == 4.5 and stopped.status == 1


def test_schedules_and_stages():
    """A step has the factor at its beginning, and a stage of constant numbers is a model with these."""
    model, start = base(eta=0.9, noise=0.3)
    half, f = model.replace(eta=0.45), ov.Schedule.step([3.2], [0.5])
    scheduled = ov.solve(model, start, (0, 8), step=0.8, schedule=f)
    first = ov.solve(model, start, (0, 3.2), step=0.8)
    second = ov.solve(half, first[-1].on(half), (first.alpha[-1], 8.0), step=0.8)
    expected = np.concatenate([first.Q, second.Q[1:]])
    assert np.allclose(scheduled.Q, expected, rtol=0, atol=1e-14)
    stages = ov.Stages([model, half], [4 * 0.8, 8.0])
    for alpha in ((0, 8), 0.8 * np.arange(11)):
        traj = ov.solve(stages, start, alpha, step=0.8)
        assert np.allclose(traj.Q, expected, rtol=0, atol=1e-14) and traj.stage.tolist() == [0] * 4 + [1] * 7
    runs = ov.simulate(stages, N=50, alpha=(0, 8), rng=1, start=start, step=0.8)
    assert runs.alpha.tolist() == traj.alpha.tolist() and runs.stage.tolist() == traj.stage.tolist()
    with pytest.raises(ValueError, match="until = 3 is 3.75 steps"):
        ov.solve(ov.Stages([model, half], [3.0, 8.0]), start, (0, 8), step=0.8)
    inside = ov.solve(model, start, (0, 8), step=0.8, schedule=ov.Schedule.step([3.0], [0.5]))
    assert np.array_equal(inside.Q, scheduled.Q)  # a factor that changes within a step acts from the next on
    assert 0.3 * 3 != 0.9  # a switch is one record, although its time is rounded otherwise
    traj = ov.solve(ov.Stages([model, half], [0.9, 3.0]), start, (0, 3), step=0.3)
    assert len(traj) == 11 and traj.alpha[3] == 0.9 and traj.stage.tolist() == [0] * 3 + [1] * 8


def test_schedules_of_runs():
    """Rates, batches and tasks of SGD are those at the beginning of each of its steps: they change at the fourth."""
    model, start = base(eta=0.9, noise=0.3)
    f = ov.Schedule.step([2.4], [0.0])
    R = ov.simulate(model, N=50, alpha=(0, 8), rng=1, start=start, step=0.8, schedule=f).R[0]
    assert np.all(R[2] != R[3]) and np.all(R[3:] == R[3])
    evaluator = ScheduleEvaluator(model, {"batch_size": ov.Schedule.step([2.4], [3.0])})
    rates = Rates(model, 50, 0, evaluator, stride=40)
    assert rates.left(100) == (3, False) and rates.batch == 1
    rates.take(3)
    assert rates.left(100) == (100, True) and rates.batch == 3
    mixed = ov.Mixed([model, model.replace(eta=0.4)], ov.Schedule.step([2.4], [0.0]))
    tasks = Samples(mixed, np.random.default_rng(1), 50, 0, None, stride=40).take(6, 4)[0]
    assert tasks.tolist() == [[0] * 4] * 3 + [[1] * 4] * 3


def test_batches_of_problems_and_files(tmp_path):
    """``solve_many`` calls ``solve``; files have the steps."""
    model, start = base(eta=0.9, noise=0.3)
    models = [model, model.replace(eta=1.1)]
    batch = ov.solve_many(models, start, (0, 6), step=1.5)
    one = ov.solve(models[1], start, (0, 6), step=1.5)
    assert np.array_equal(batch.Q[1], one.Q) and batch[1] == one and batch.method[0] == "finite steps of 1.5"
    assert "2106.02713" in ov.cite(one) and "2106.02713" not in ov.cite(one.model)
    for result in (one, batch, ov.simulate(model, N=40, alpha=(0, 6), rng=1, step=1.5)):
        ov.save(result, tmp_path / "result.npz")
        assert ov.load(tmp_path / "result.npz") == result and result.step == 1.5


def test_divergence_names_the_edge():
    """Of the mean gradient, in the units of the Hessian."""
    with pytest.warns(RuntimeWarning, match=r"eta \* step = 3 is probably above 2/sharpness"):
        traj = ov.solve(*units("linear", 0.5, 0.1, 1.0, eta=1.5, gradient_flow=True), (0, 400), step=2.0)
    assert not traj.success and len(traj) > 10
    with pytest.warns(RuntimeWarning, match=r"eta \* step = 4.5 is probably above the stability limit"):
        ov.simulate(base(eta=1)[0].replace(activation="linear", eta=3.0), N=30, alpha=(0, 150), rng=1, step=1.5)


REFUSED = {
    "method": "DOP853", "rtol": 1e-9, "atol": 1e-10, "max_step": 0.1, "late": True, "certify": True,
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_controls_an_integration_is_refused(name):
    """By name, before any step."""
    with pytest.raises(ValueError, match="finite steps"):
        ov.solve(*base(eta=0.9), (0, 6), step=1.5, **{name: REFUSED[name]})


def test_wrong_steps():
    """Drifting teachers, methods without samples, fewer samples than one, results of another kind."""
    model, start = base(eta=0.9)
    traj = ov.solve(model, start, (0, 6), step=1.5)
    wrong = [
        (lambda: ov.solve(model.replace(drift=0.1), start, (0, 6), step=1.5), "drift"),
        (lambda: ov.solve(model, start, (0, 6), step=0.0), "step = 0"),
        (lambda: ov.solve_many([model], start, (0, 6), step=1.5, simd=True), "simd = True"),
        (lambda: ov.simulate(model, N=50, alpha=(0, 6), rng=1, step=1.5, method="reduced"), "reduced"),
        (lambda: ov.simulate(model, N=50, alpha=(0, 6), rng=1, step=0.01), "a batch of 0.5 samples"),
        (lambda: ov.simulate(model, N=50, alpha=[0, 1], rng=1, step=1.5), "alpha = 1 is 0.666667 steps"),
        (traj.plateaus, "finite steps"),
        (lambda: ov.fluctuations(traj, 100), "finite steps"),
        (lambda: traj.escape(100), "finite steps"),
    ]
    for call, message in wrong:
        with pytest.raises(ValueError, match=message):
            call()
