"""The reduced simulator: path by path against explicit weights, in law against direct SGD, exact linear moments."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import few
from scipy.linalg import qr
from scipy.stats import ks_2samp

import overlaps as ov
from overlaps.simulators import _reduced, direct, reduced
from overlaps.simulators.reduced import reduced_run
from overlaps.simulators.steps import Rates

RULE = {"noise": 0.3, "eta_v": 0.7, "weight_decay": (0.8, 0.4)}
SPHERES = RULE | {"weight_decay": (0.0, 0.4), "constraint": "sphere"}
SMOOTH = ov.Activation.from_function(np.tanh, lambda x: 1 / np.cosh(x) ** 2)


def forces(model, W, W_star, v, x, xi):
    """F (runs, b, K), fields lam and errors delta of the samples."""
    lam, nu = (x @ w.swapaxes(-1, -2) / np.sqrt(x.shape[2]) for w in (W, W_star))
    delta = np.einsum("rk,rbk->rb", v, model.activation.g(lam)) - model.teacher_activation.g(nu) @ model.v_star - xi
    return -model.eta * v[:, None] * model.activation.dg(lam) * delta[:, :, None], lam, delta


def direct_step(model, W, W_star, v, x, xi):
    """One step of SGD as the equations say it, for many runs: W (runs, K, N), v (runs, K), x (runs, b, N)."""
    N, b = W.shape[2], x.shape[1]
    kappa, kappa_v = model.weight_decay
    F, lam, delta = forces(model, W, W_star, v, x, xi)
    dW = F.swapaxes(1, 2) @ x / (b * np.sqrt(N))
    dv = -model.eta_v / (b * N) * np.einsum("rbk,rb->rk", model.activation.g(lam), delta)
    if model.spherical:
        new = W + dW
        return new * np.sqrt(np.sum(W**2, 2) / np.sum(new**2, 2))[:, :, None], (1 - model.eta_v * kappa_v / N) * v + dv
    return (1 - model.eta * kappa / N) * W + dW, (1 - model.eta_v * kappa_v / N) * v + dv


def overlaps_of(W, W_star, sizes):
    """Plain block overlaps q (runs, L, K, K) and r (runs, L, K, M) of weights W (runs, K, N)."""
    edges, N = np.concatenate([[0], np.cumsum(sizes)]), W.shape[2]
    parts = [slice(a, b) for a, b in zip(edges[:-1], edges[1:], strict=True)]
    q = [W[:, :, part] @ W[:, :, part].swapaxes(1, 2) / N for part in parts]
    r = [W[:, :, part] @ W_star[:, part].T / N for part in parts]
    return np.stack(q, axis=1), np.stack(r, axis=1)


def blocks(sizes, s):
    """Spectrum with these block sizes at N = sum(sizes)."""
    return ov.Spectrum(s=s, p=np.array(sizes) / sum(sizes))


# name: N, K, M, options of the model, and what is special about the initial weights
CASES = {
    "isotropic": (30, 3, 2, RULE, ""),
    "duplicated teacher": (30, 2, 2, RULE, "duplicated"),
    "student = teacher": (30, 2, 2, RULE, "aligned"),
    "zero students": (20, 2, 2, RULE, "zero"),
    "N = K + M + 1": (3, 1, 1, RULE, "zero"),
    "N = K + M": (5, 3, 2, RULE, ""),
    "M < N < K + M": (4, 3, 2, RULE, ""),
    "N < M": (2, 2, 3, RULE, ""),
    "blocks": (24, 2, 2, RULE | {"spectrum": blocks([1, 2, 3, 18], [2.0, 0.0, 1.5, 0.5])}, ""),
    "batch": (20, 2, 2, RULE | {"batch_size": 3}, ""),
    "batch > dof": (6, 2, 2, RULE | {"batch_size": 4}, "duplicated"),
    "spheres": (16, 3, 2, SPHERES | {"batch_size": 2, "spectrum": blocks([3, 5, 8], [2.0, 1.0, 0.3])}, ""),
    "batch, blocks": (16, 3, 1, RULE | {"batch_size": 3, "spectrum": blocks([3, 5, 8], [2.0, 1.0, 0.3])}, ""),
}


@pytest.fixture
def short_runs(monkeypatch):
    """Thousands of runs of a few steps: frames of a start are found once, and little more is drawn than is used.

    Other blocks of draws are another order of the same law.
    """
    found, frames = {}, reduced.frames

    def once(start, s, sizes, joint):
        key = id(start), *sizes
        if key not in found:
            found[key] = start, frames(start, s, sizes, joint)
        return [part.copy() for part in found[key][1]]

    monkeypatch.setattr(reduced, "frames", once)
    monkeypatch.setattr(reduced, "REDUCED", reduced.REDUCED._replace(chunk_normals=2**8))


def make(case, seed, **options):
    """Model, initial weights W, W_star and State of a case."""
    N, K, M, own, special = CASES[case]
    rng = np.random.default_rng(seed)
    v, v_star = np.linspace(1.0, 0.6, K), np.linspace(0.8, 1.0, M)
    model = ov.committee_machine(K, M, v=v, v_star=v_star, **({"eta": 1.5} | own | options))
    W, W_star = 0.7 * rng.standard_normal((K, N)), rng.standard_normal((M, N))
    if special == "duplicated":
        W_star[1] = W_star[0]
    if special == "aligned":
        W[:] = W_star[:K]
    if special == "zero":
        W[:] = 0
    return model, W, W_star, ov.State.from_weights(model, W=W, W_star=W_star)


class Machine:
    """The parts of the simulator that a test drives step by step."""

    def __init__(self, model, start, N, steps, rng):
        s, self.sizes = np.array(model.spectrum.s), model.spectrum.block_sizes(N)
        self.teachers, self.students = reduced.frames(start, s, self.sizes)
        self.v = np.array(start.v)
        self.spaces = reduced._spaces(self.sizes, model.K, model.M)
        drawn = [reduced.draw(rng, model.batch_size, self.spaces, model.noise) for _ in range(steps)]
        self.x, self.outside, self.noise = (np.concatenate(parts)[:steps] for parts in zip(*drawn, strict=True))
        self.drawn = self.x.copy()  # the steps overwrite x
        self.v, functions = reduced.step_arguments(model, self.v)
        self._advance = reduced._stepper(model, N, s, self.teachers, self.students, self.v, functions)
        self.rates = Rates(model, N, 0)

    def step(self, t):
        """Make step t."""
        self._advance((self.x, self.outside, np.ones((1, 1, 1))), self.noise, t, t + 1, self.rates.take(1)[0])

    def rest(self, t, e, F):
        """The rows (b, .) outside the frame that step t stands for, along any orthonormal vectors, of forces F (b, K).

        b > n rows have the directions of the forces in common: F = Q U with a positive diagonal of U, rows Q B.
        A student that no sample moves has no direction.
        """
        B, moves = self.outside[t, e], F.any(axis=0)
        if len(F) <= len(B):
            return B
        Q, (directions, U) = np.zeros_like(F), np.linalg.qr(F[:, moves])
        Q[:, moves] = directions * np.where(np.diag(U) < 0, -1.0, 1.0)
        return Q @ B

    def coordinates(self, e):
        """Coordinates (M + K, M + K) of teachers and students in eigenspace e, one unit per row."""
        d = self.students.shape[1] - 1
        H = np.zeros((d, d))
        H[: self.teachers.shape[1], : self.teachers.shape[2]] = self.teachers[e]
        H[:, self.teachers.shape[2] :] = self.students[e, :-1]
        return H.T


def frame_of(coordinates, rows):
    """Orthonormal frame (d, n) with coordinates @ frame = rows: both have the same triangular factor up to signs.

    With the better determined units first, so that nearly dependent units cost no accuracy.
    """
    inner, triangle, order = qr(coordinates.T, mode="economic", pivoting=True)
    outer, same = np.linalg.qr(rows.T[:, order])
    signs = np.where(np.diag(triangle) * np.diag(same) < 0, -1.0, 1.0)
    return inner * signs @ outer.T


# --- one step ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("activation", [ov.erf, ov.relu, ov.quadratic, SMOOTH], ids=str)
def test_path_of_explicit_weights(case, activation):
    follow_the_path(case, activation, 100)


@pytest.mark.parametrize("case", ["batch, blocks", "batch > dof"])
def test_path_of_a_batch(case):
    follow_the_path(case, ov.erf, 12)


def follow_the_path(case, activation, steps):
    """Inputs in R^N with the drawn coordinates in an explicit frame: direct SGD makes the same overlaps."""
    options = {"eta": 0.05, "eta_v": 0.05} if activation is ov.quadratic else {}  # stable
    model, W, W_star, start = make(case, seed=1, activation=activation, **options)
    N, d = W.shape[1], model.K + model.M
    machine = Machine(model, start, N, steps, np.random.default_rng(2))
    W, v = W[None], np.array(model.v)[None]
    edges, moved = np.concatenate([[0], np.cumsum(machine.sizes)]), 0.0
    for t in range(steps):
        x, rests = np.empty((model.batch_size, N)), []
        for e, (a, b) in enumerate(zip(edges[:-1], edges[1:], strict=True)):
            used, root = machine.spaces[0][e], np.sqrt(model.spectrum.s[e])
            rows = np.concatenate([W_star[:, a:b], W[0, :, a:b]]) / np.sqrt(N)
            frame = frame_of(machine.coordinates(e)[:, used], rows)
            rests.append(root * np.linalg.svd(frame)[2][len(frame) :])  # an orthonormal basis of the rest
            assert not machine.drawn[t, e, :, :d][:, ~used].any()
            x[:, a:b] = root * machine.drawn[t, e, :, :d][:, used] @ frame
        F = forces(model, W, W_star, v, x[None], machine.noise[t][None])[0][0]  # of the parts in the frames alone
        for e, (a, b) in enumerate(zip(edges[:-1], edges[1:], strict=True)):
            rest = machine.rest(t, e, F)
            assert not rest[:, len(rests[e]) :].any()
            x[:, a:b] += rest[:, : len(rests[e])] @ rests[e][: rest.shape[1]]
        machine.step(t)
        W, v = direct_step(model, W, W_star, v, x[None], machine.noise[t][None])
        q, r = overlaps_of(W, W_star, machine.sizes)
        got_q, got_r = reduced.frame_overlaps(machine.teachers, machine.students, model.spectrum.s)
        # rounding 1e-16 per step; a frame vector that barely carries a unit is only known to 1e-13
        np.testing.assert_allclose(got_q, q[0], rtol=0, atol=1e-12 * np.abs(q).max())
        np.testing.assert_allclose(got_r, model.spectrum.s[:, None, None] * r[0], rtol=0, atol=1e-12 * np.abs(r).max())
        np.testing.assert_allclose(machine.v, v[0], rtol=0, atol=1e-12)
        moved = max(moved, np.abs(got_r - start.r).max())
    asleep = not (start.q.any() or activation.dg(np.zeros(1))[0])  # relu and quadratic students of zero weight
    assert asleep or moved > 1e-3


@pytest.mark.parametrize("sizes", [[9, 4], [5, 2]])
def test_products_of_the_vectors_outside_are_those_of_gaussian_vectors(sizes):
    """E[z_i.z_j] = n delta_ij and E[(z_i.z_j)^2] = n, or n (n + 2) for i = j, in the n dimensions outside the frame."""
    spaces = reduced._spaces(np.array(sizes), 2, 1)
    rng, same = np.random.default_rng(3), np.eye(2)
    z = np.concatenate([reduced.draw(rng, 4, spaces, 0.3)[1] for _ in range(30)])[:4000]
    assert z.shape == (4000, 2, 2, 2)
    gram = z @ z.swapaxes(2, 3)
    for n, found in zip(sizes, np.moveaxis(gram, 1, 0), strict=True):
        n = max(n - 3, 0)
        for values, mean in ((found, n * same), (found**2, n + (n * n + n) * same)):
            assert np.all(np.abs(values.mean(axis=0) - mean) <= 4.5 * values.std(axis=0) / np.sqrt(4000))


TOKENS = [[1.0, 0.6, -0.3], [0.6, 1.0, 0.1], [-0.3, 0.1, 1.0]]
UNEQUAL = blocks([3, 5], [1.6, 0.7])
BATCHES = {  # b, and a model in two blocks of 3 and 5 coordinates
    "fewer than students": (2, "committee", {"v": [1.0, 0.7, 0.5]}),
    "as many as students": (2, "committee", {"v": [1.0, 0.6]}),
    "more than students": (5, "committee", {"v": [1.0, 0.6]}),
    "more than N": (30, "committee", {"v": [1.0, 0.6]}),
    "a student without force": (5, "committee", {"v": [0.0, 0.8]}),
    "variances by class": (6, "classes", {}),
    "tokens": (4, "tokens", {"token_covariance": TOKENS}),
    "tokens by block": (4, "tokens", {"token_covariance": [TOKENS, 0.7 * np.eye(3) + 0.3]}),
    "Mixed": (6, "mixed", {}),
}


def with_batches(b, kind, options):
    """A model of this kind with batches of b samples, and a start."""
    learning = {"eta": 3.0, "batch_size": b, "spectrum": UNEQUAL, "noise": 0.2}
    if kind == "tokens":
        del learning["noise"]
        model = ov.learner(ov.rules.attention(3, options["token_covariance"]), **learning)
    elif kind == "classes":
        model = ov.gaussian_mixture(
            2, 1, gram=0.3 * np.tile(np.eye(2), (2, 1, 1)), weights=[0.3, 0.7], labels=[0.5, -0.4], v_star=[0.8],
            ratios=[[0.5, 2.0], [1.5, 0.4]], **learning,
        )  # fmt: skip
    else:
        model = ov.committee_machine(len(options.get("v", [1, 1])), 1, v_star=[0.9], **learning, **options)
    if kind == "mixed":
        other = dataclasses.replace(model, spectrum=ov.Spectrum(s=[0.4, 2.0], p=UNEQUAL.p))
        model = ov.Mixed([model, other], shares=[0.5, 0.5])
    return model, model.random_start(N=8, rng=1)


@few("case, runs", [("variances by class", 150), ("tokens", 150), *((case, 1500) for case in BATCHES)], quick=2)
@pytest.mark.filterwarnings("ignore:eta max")
@pytest.mark.usefixtures("short_runs")
def test_moments_of_a_batch_are_those_of_direct_sgd(case, runs, monkeypatch):
    """Means and second moments of all overlaps after one step in 8 dimensions, in two samples of runs.

    Within four standard errors: there are four hundred of them.
    """
    monkeypatch.setattr(direct, "DIRECT", direct.DIRECT._replace(chunk_normals=1))
    model, start = with_batches(*BATCHES[case])
    samples = []
    for method in ("direct", "reduced"):
        ends = ov.simulate(model, N=8, alpha=[1 / 8], rng=2, start=start, runs=runs, method=method)
        samples.append(np.concatenate([ends.q.reshape(runs, -1), ends.r.reshape(runs, -1)], axis=1))
    samples = np.array(samples) - samples[0].mean(axis=0)
    moments = np.concatenate([samples, samples**2, samples * np.roll(samples, 1, axis=2)], axis=2)
    error = np.hypot(*moments.std(axis=1, ddof=1)) / np.sqrt(runs)
    assert np.all(np.abs(np.subtract(*moments.mean(axis=1))) <= 4 * error + 1e-12)


@pytest.mark.parametrize("K, samples, T", [(3, 2, 1), (2, 7, 1), (2, 4, 3), (3, 1, 2), (4, 9, 1)])
def test_rows_are_absorbed_at_once(K, samples, T):
    """Gram matrix (H + F^T x)(H + F^T x)^T + U^T B B^T U with U from NumPy's factor of root^T c F, up to rounding."""
    rng, M, rows = np.random.default_rng(5), 2, samples * T
    n, outside = min(rows, K), np.tril(rng.standard_normal((min(rows, K),) * 2))
    students = np.triu(rng.standard_normal((M + K + 1, K)), -M)
    students[-1] = 0
    x, F = rng.standard_normal((rows, M + K + 1)), rng.standard_normal((rows, K))
    F[:, -1] *= rows != 7  # a student without force
    root = np.linalg.cholesky(0.6 * np.eye(T) + 0.4)
    D = np.kron(np.eye(samples), root).T @ (x[:, -1:] * F)
    U = np.linalg.qr(D)[1] if rows > K else D
    U = U * (np.where(np.diag(U) < 0, -1.0, 1.0)[:, None] if rows > K else 1.0)
    inside = students[:-1] + 0.3 * x[:, :-1].T @ F
    expected = inside.T @ inside + 0.09 * U.T @ outside @ outside.T @ U
    _reduced.absorb_rows(students, x, outside, root, M, 0.3, F, _reduced.work_arrays(rows, K, n))
    np.testing.assert_allclose(students.T @ students, expected, rtol=0, atol=1e-13 * np.abs(expected).max())
    np.testing.assert_allclose(students[:M], inside[:M], rtol=0, atol=1e-13 * np.abs(expected).max())
    assert not np.tril(students[M:], -1).any()


@pytest.mark.slow
@pytest.mark.parametrize("case", ["isotropic", "duplicated teacher", "blocks", "batch, blocks"])
def test_one_step_identities_over_a_long_run(case):
    """Overlaps propagated by Q' = (1-c)^2 Q + (1-c)(F lam^T + lam F^T)/N + F x^T x F^T/N^2, R' = (1-c) R + F nu^T/N."""
    model, W, W_star, start = make(case, seed=3, eta=0.8)
    N, M, b, steps = W.shape[1], model.M, model.batch_size, 10_000
    machine = Machine(model, start, N, steps, np.random.default_rng(4))
    s = model.spectrum.s
    c, c_v = model.eta * model.weight_decay[0] / N, model.eta_v * model.weight_decay[1] / N
    q, r, _ = (part.copy() for part in start.plain)
    v = np.array(model.v)
    for t in range(steps):
        # fields by eigenspace, (L, b, M + K), from the drawn coordinates
        parts = np.stack(
            [machine.drawn[t, e, :, : M + model.K] @ machine.coordinates(e).T * np.sqrt(s[e]) for e in range(len(s))]
        )
        nu, lam = parts[:, :, :M], parts[:, :, M:]
        g, dg = model.activation.g(lam.sum(0)), model.activation.dg(lam.sum(0))
        delta = g @ v - model.teacher_activation.g(nu.sum(0)) @ model.v_star - machine.noise[t]
        F = -model.eta * v * dg * delta[:, None] / (b * N)
        rows = [np.hstack([machine.drawn[t, e, :, :-1], machine.rest(t, e, F)]) for e in range(len(s))]
        gram = np.array([x @ x.T for x in rows])  # x_i . x_j / s, all of it, also outside the frame
        cross = F.T @ lam
        q = (1 - c) ** 2 * q + (1 - c) * (cross + cross.swapaxes(1, 2)) + s[:, None, None] * (F.T @ gram @ F)
        r = (1 - c) * r + F.T @ nu
        v = (1 - c_v) * v - model.eta_v / (b * N) * delta @ g
        machine.step(t)
        if t % 100 == 99:
            got_q, got_r = reduced.frame_overlaps(machine.teachers, machine.students, s)
            # 1e4 roundings of 1e-16, forgotten at the rate of weight decay and learning
            np.testing.assert_allclose(got_q, q, rtol=0, atol=1e-12 * np.abs(q).max())
            np.testing.assert_allclose(got_r, s[:, None, None] * r, rtol=0, atol=1e-12 * np.abs(r).max())
            np.testing.assert_allclose(machine.v, v, rtol=0, atol=1e-12)


@pytest.mark.parametrize("activation", [ov.erf, ov.relu, ov.quadratic, SMOOTH], ids=str)
@pytest.mark.parametrize("batch_size", [1, 3])
def test_a_student_that_knows_the_rule_stays(activation, batch_size):
    eta = 0.05 if activation is ov.quadratic else 0.5  # stable
    model = ov.committee_machine(2, 2, activation=activation, eta=eta, eta_v=eta, batch_size=batch_size)
    T = [[1.0, 0.3], [0.3, 0.8]]
    start = ov.State.from_overlaps(model, Q=T, R=T, T=T)
    q, r, v = reduced_run(model, start, 100, [3000], np.random.default_rng(0))
    # errors of one rounding in the fields, 1e-16, over 3000 steps of a stable fixed point
    np.testing.assert_allclose(q[0, 0], T, rtol=0, atol=1e-13)
    np.testing.assert_allclose(r[0, 0], T, rtol=0, atol=1e-13)
    np.testing.assert_allclose(v[0], model.v, rtol=0, atol=1e-13)


# --- exact moments ----------------------------------------------------------------------------------------------------


def linear_moments(model, start, N, steps):
    """Exact E[q], E[r] (L,) of a linear K = M = 1 model at size N: Gaussian fourth moments, no limit.

    With u = w - w*, u^T x^l x^l^T x^l.. in blocks: E[(u.x)^2 |x^l|^2] = s_l n_l sum_k s_k |u_k|^2 + 2 s_l^2 |u_l|^2.
    """
    s, sizes, b = model.spectrum.s, model.spectrum.block_sizes(N), model.batch_size
    q, r, t = (part[:, 0, 0].copy() for part in start.plain)
    c, h = model.eta * model.weight_decay[0] / N, model.eta / N
    for _ in range(steps):
        d = q - 2 * r + t  # |u_l|^2 / N
        same = s * sizes * (s @ d + model.noise**2) + 2 * s**2 * d  # two factors x from one sample of the batch
        other = s**2 * d  # from two samples
        q = (1 - c) ** 2 * q - 2 * (1 - c) * h * s * (q - r) + h**2 * (same / b + (1 - 1 / b) * other)
        r = (1 - c) * r - h * s * (r - t)
    return q, r


@pytest.mark.slow
@pytest.mark.parametrize(
    "N, sizes, s, batch_size",
    [
        (2, [2], [1.0], 1),
        (6, [6], [1.0], 1),
        (6, [6], [1.0], 4),
        (3, [3], [1.0], 3),
        (8, [1, 2, 5], [2.0, 0.5, 0.8], 2),
    ],
)
@pytest.mark.usefixtures("short_runs")
def test_mean_of_a_linear_student_is_exact_at_finite_size(N, sizes, s, batch_size):
    model = ov.committee_machine(
        1,
        1,
        activation=ov.linear,
        eta=0.6,
        noise=0.5,
        weight_decay=0.3,
        batch_size=batch_size,
        spectrum=blocks(sizes, s),
    )
    rng = np.random.default_rng(6)
    start = ov.State.from_weights(model, W=rng.standard_normal((1, N)), W_star=rng.standard_normal((1, N)))
    steps, runs = 2 * N, 3000
    records = [reduced_run(model, start, N, [steps], stream) for stream in rng.spawn(runs)]
    q, r = np.array([x[0][0, :, 0, 0] for x in records]), np.array([x[1][0, :, 0, 0] for x in records])
    mean_q, mean_r = linear_moments(model, start, N, steps)
    for got, mean in ((q, mean_q), (r, model.spectrum.s * mean_r)):
        error = got.std(axis=0) / np.sqrt(runs)
        assert np.all(np.abs(got.mean(axis=0) - mean) < 4.5 * error)  # 4.5 standard errors: p < 1e-5 each
        assert np.all(error < 0.05 * np.abs(mean).max())  # sharp enough to see a degree of freedom


def variance_over_sizes(sizes, runs, steps_of):
    """N Var / steps-per-N of all entries of Q and R for each size, (len(sizes), entries)."""
    model = ov.committee_machine(2, 2, eta=1.0, noise=0.2)
    start = ov.State.from_overlaps(model, Q=[[0.6, 0.1], [0.1, 0.4]], R=[[0.3, 0], [-0.1, 0.2]], T=np.eye(2))
    rows = []
    for N in sizes:
        steps = steps_of(N)
        ends = [reduced_run(model, start, N, [steps], stream)[:2] for stream in np.random.default_rng(N).spawn(runs)]
        flat = np.array([np.concatenate([q[0, 0][np.triu_indices(2)], r[0, 0].ravel()]) for q, r in ends])
        rows.append(flat.var(axis=0) * N**2 / steps)
    # one step, sampled: N^2 Var[(F lam^T + lam F^T + F F^T) / N] with |x|^2 = N, Var[F nu^T / N]
    z = np.random.default_rng(1).standard_normal((400_000, 5)) @ np.diag([1, 1, 1, 1, 0.2])
    h = z[:, :4] @ np.linalg.cholesky(start.S).T
    F = -model.eta * model.activation.dg(h[:, :2]) * (model.activation.g(h) @ [1, 1, -1, -1] - z[:, 4])[:, None]
    jump = F[:, :, None] * h[:, None, :2]
    jump = jump + jump.swapaxes(1, 2) + F[:, :, None] * F[:, None, :]
    moves = np.concatenate([jump[:, *np.triu_indices(2)], (F[:, :, None] * h[:, None, 2:]).reshape(-1, 4)], axis=1)
    return np.array(rows), moves.var(axis=0)


@pytest.mark.slow
@pytest.mark.usefixtures("short_runs")
def test_fluctuations_are_those_of_independent_steps():
    """After few steps, Var = steps Var(one step), up to O(1/N) from |x|^2/N and from the drift of the state."""
    runs = 2000
    scaled, one = variance_over_sizes([10**3, 10**6], runs, lambda N: 5)
    # 4.5 sigma of a variance with the kurtosis (about 10) of single steps over 5 steps, plus drift 5/N
    np.testing.assert_allclose(scaled, [one, one], rtol=4.5 * np.sqrt((2 + 10 / 5) / runs) + 5 / 1000)


@pytest.mark.slow
def test_fluctuations_shrink_as_one_over_n():
    runs = 400
    scaled, one = variance_over_sizes([10**2, 10**3, 10**4, 10**5], runs, lambda N: N // 50)
    # alpha = 0.02: 4.5 sigma of a variance (more at N = 100, where two steps are far from Gaussian), and O(alpha) drift
    excess = np.array([10 / 2, 10 / 20, 0, 0])
    assert np.all(np.abs(scaled / one - 1) < (4.5 * np.sqrt((2 + excess) / runs) + 0.06)[:, None])


@pytest.mark.slow
@pytest.mark.usefixtures("short_runs")
def test_mean_differs_from_the_ode_as_one_over_n():
    """N (mean - ODE) is the same at N and 2 N, up to O(1/N), and not zero."""
    model = ov.committee_machine(1, 1, eta=3.5)  # the shift grows faster with eta than its noise does
    start = ov.State.from_overlaps(model, Q=[[0.5]], R=[[0.3]], T=[[1.0]])
    theory = ov.solve(model, start, [1.0])
    runs, gap, error = 12_000, {}, {}
    for N in (20, 40):
        records = [reduced_run(model, start, N, [N], stream) for stream in np.random.default_rng(N).spawn(runs)]
        ends = np.array([[q[0, 0, 0, 0], r[0, 0, 0, 0]] for q, r, _ in records])
        gap[N] = N * (ends.mean(axis=0) - [theory.Q[0, 0, 0], theory.R[0, 0, 0]])
        error[N] = N * ends.std(axis=0) / np.sqrt(runs)
    assert np.all(np.abs(gap[40]) > 5 * error[40])
    # 4 standard errors, and the next order: a relative 5/N
    allowed = 4 * np.hypot(error[20], error[40]) + 5 / 20 * np.abs(gap[40])
    assert np.all(np.abs(gap[20] - gap[40]) < allowed) and np.all(allowed < np.abs(gap[40]))


# --- law --------------------------------------------------------------------------------------------------------------

# name: case and what is changed in its model
LAWS = {case: (case, {}) for case in CASES} | {
    "relu, erf teacher": ("isotropic", {"activation": ov.relu, "teacher_activation": ov.erf}),
    "quadratic": ("isotropic", {"activation": ov.quadratic, "eta": 0.03, "eta_v": 0.03}),
    "tanh, no noise, first layer": ("isotropic", {"activation": SMOOTH, "noise": 0, "eta_v": 0, "weight_decay": 0}),
    "relu, blocks": ("blocks", {"activation": ov.relu}),
    "quadratic, batch": ("batch", {"activation": ov.quadratic, "eta": 0.1, "eta_v": 0.1}),
}


def statistics(model, q, r, v):
    """All that is compared at one time: entries of q, r (runs, L, ..), v, and joint functions: an error, the angles."""
    runs = len(q)
    error = np.einsum("rk,rj,rlkj->r", v, v, q) - 2 * np.einsum("rk,rlkm,m->r", v, r, model.v_star)
    Q_kk = np.einsum("l,rlkk->rk", model.spectrum.s, q)
    angles = r.sum(axis=1) / np.sqrt(Q_kk)[:, :, None]
    parts = q[:, :, *np.triu_indices(model.K)], r, v, error, angles
    return np.concatenate([part.reshape(runs, -1) for part in parts], axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.usefixtures("short_runs")
def test_law_of_direct_sgd(law):
    """Kolmogorov-Smirnov at two times and on the increments between them: 1e-3 with Bonferroni's correction."""
    case, options = LAWS[law]
    model, W_0, W_star, start = make(case, seed=6, **options)
    N, runs, times = W_0.shape[1], 2000, [1, 40]  # nothing shows the law of |x| like a first step
    sizes, s = model.spectrum.block_sizes(N), model.spectrum.s
    rng = np.random.default_rng(7)
    W, v = np.repeat(W_0[None], runs, axis=0), np.repeat(model.v[None], runs, axis=0)
    direct = []
    for t in range(1, times[-1] + 1):
        x = np.repeat(np.sqrt(s), sizes) * rng.standard_normal((runs, model.batch_size, N))
        W, v = direct_step(model, W, W_star, v, x, model.noise * rng.standard_normal((runs, model.batch_size)))
        if t in times:
            q, r = overlaps_of(W, W_star, sizes)
            direct.append(statistics(model, q, s[:, None, None] * r, v))
    records = [reduced_run(model, start, N, times, stream) for stream in rng.spawn(runs)]
    q, r, v = (np.array([record[i] for record in records]) for i in range(3))
    found = [statistics(model, q[:, i], r[:, i], v[:, i]) for i in range(2)]
    pairs = [(direct[0], found[0]), (direct[1], found[1]), (direct[1] - direct[0], found[1] - found[0])]
    # rounded, because constants (v that is not trained, a teacher that is not seen) differ by rounding only
    p = [ks_2samp(*np.round(np.stack([a[:, i], b[:, i]]), 9)).pvalue for a, b in pairs for i in range(a.shape[1])]
    assert min(p) > 1e-3 / len(p)


# --- what the function promises ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_the_first_record_is_the_start(case):
    model, W, _, start = make(case, seed=8)
    q, r, v = reduced_run(model, start, W.shape[1], [0], np.random.default_rng(0))
    np.testing.assert_allclose(q[0], start.q, rtol=0, atol=1e-14 * max(1, np.abs(start.q).max()))
    np.testing.assert_allclose(r[0], start.r, rtol=0, atol=1e-14 * max(1, np.abs(start.r).max()))
    np.testing.assert_array_equal(v[0], start.v)


def test_units_of_very_different_norms_are_equally_precise():
    model = ov.committee_machine(2, 2, eta=0.5)
    D = np.diag([1e-9, 1e-3, 1.0, 1e3])
    S = D @ np.array([[1, 0.3, 0.2, -0.5], [0.3, 1, 0.1, 0.4], [0.2, 0.1, 1, 0], [-0.5, 0.4, 0, 1]]) @ D
    start = ov.State.from_overlaps(model, Q=S[:2, :2], R=S[:2, 2:], T=S[2:, 2:])
    q, r, _ = reduced_run(model, start, 100, [0], np.random.default_rng(0))
    np.testing.assert_allclose(q[0, 0], S[:2, :2], rtol=1e-14)  # a few roundings of every entry
    np.testing.assert_allclose(r[0, 0], S[:2, 2:], rtol=1e-14)


def test_dead_and_empty_blocks():
    """Where s_l = 0 weights feel their decay alone, by exactly (1 - eta kappa / N)^2 per step; p_l = 0 is no block."""
    model, W, _, start = make("blocks", seed=9)
    q, r, _ = reduced_run(model, start, 24, [500], np.random.default_rng(0))
    decay = 1 - model.eta * model.weight_decay[0] / 24
    np.testing.assert_allclose(q[0, 1], decay**1000 * start.q[1], rtol=1e-12)  # 1000 roundings
    assert not r[0, 1].any()
    model = ov.committee_machine(1, 1, eta=1.0, spectrum=ov.Spectrum(s=[1.0, 3.0], p=[1.0, 0.0]))
    start = model.random_start(N=100, rng=1)
    q, r, _ = reduced_run(model, start, 100, [100], np.random.default_rng(0))
    assert not q[0, 1].any() and not r[0, 1].any() and abs(q[0, 0, 0, 0] - start.q[0, 0, 0]) > 0.01


@pytest.mark.parametrize("case", ["isotropic", "batch, blocks"])
def test_records_do_not_change_the_process(case):
    model, W, _, start = make(case, seed=10)
    last = 10_000  # several drawn blocks
    few = reduced_run(model, start, W.shape[1], [last], np.random.default_rng(3))
    many = reduced_run(
        model, start, W.shape[1], np.r_[0, 1:50, 777, 5000:5020, last, last + 9], np.random.default_rng(3)
    )
    for a, b in zip(few, many, strict=True):
        np.testing.assert_array_equal(a[0], b[-2])


def test_user_functions_take_the_same_path_as_their_closed_form():
    named = ov.Activation("named", ov.erf.g, ov.erf.dg)
    assert named.code != ov.erf.code
    ends = []
    for activation in (ov.erf, named):
        model, W, _, start = make("batch, blocks", seed=11, activation=activation)
        ends.append(reduced_run(model, start, W.shape[1], [300], np.random.default_rng(4)))
    for a, b in zip(*ends, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)  # erf of two libraries, over 300 steps


@pytest.mark.parametrize("activation", [ov.quadratic, ov.Activation("square", np.square, lambda x: 2 * x)], ids=str)
def test_divergence_ends_with_nan(activation):
    model = ov.committee_machine(2, 2, activation=activation, eta=50.0)
    start = ov.State.from_overlaps(model, Q=np.eye(2), R=np.zeros((2, 2)), T=np.eye(2))
    q, r, v = reduced_run(model, start, 50, np.arange(0, 10_000, 100), np.random.default_rng(0))
    assert 1 < len(q) == len(r) == len(v) < 100
    assert np.isfinite(q[:-1]).all() and np.isfinite(r[:-1]).all()
    assert np.isnan(q[-1]).all() and np.isnan(r[-1]).all() and np.isnan(v[-1]).all()


def test_an_interrupted_run_returns_what_it_has():
    model, _, _, start = make("isotropic", seed=12)
    seen = []

    def tick(done):
        seen.append(done)
        if done > 5000:
            raise KeyboardInterrupt

    steps = np.arange(0, 10**6, 100)
    q, r, v = reduced_run(model, start, 30, steps, np.random.default_rng(0), tick)
    assert np.all(np.diff(seen) > 0) and 5000 < seen[-1] < 20_000
    assert len(q) == len(r) == len(v) == seen[-1] // 100 + 1
    full = reduced_run(model, start, 30, steps[: len(q)], np.random.default_rng(0))
    np.testing.assert_array_equal(q, full[0])


def impossible(q=((1.0,),), r=((0.5,),), t=((1.0,),)):
    """A start of K = M = 1 that no weights have, without the checks of State."""
    return SimpleNamespace(q=np.array([q]), r=np.array([r]), tau=np.array([t]), v=np.ones(1), K=1, m=None)


@pytest.mark.parametrize(
    "start, N, message",
    [
        (impossible(r=((1.1,),)), 10, "eigenvalue -0.1;.*positive semi-definite"),
        (impossible(q=((-1.0,),)), 10, "positive semi-definite"),
        (impossible(q=((0.0,),)), 10, "positive semi-definite"),
        (impossible(), 1, "n_l = 1 coordinates but overlaps of rank 2.*larger N"),
    ],
)
def test_impossible_starts_are_refused(start, N, message):
    with pytest.raises(ValueError, match=message):
        reduced_run(ov.committee_machine(1, 1, eta=0.5), start, N, [10], np.random.default_rng(0))


def test_frames_hold_the_covariance_of_all_fields():
    """Teachers of latents, too, of which inputs see a part: what they do not see is one more block."""
    model = ov.hidden_manifold(2, 3, features="relu", ratio=0.4, nodes=3, eta=0.3)
    start = model.random_start(N=60, rng=1)
    s, sizes, joint = np.array(model.spectrum.s), reduced._sizes(model, 60), model.plain_overlaps(start)
    s, sizes, joint = reduced._with_unseen(start, s, sizes, joint)
    teachers, students = reduced.frames(start, s, sizes, joint)
    rows = np.zeros((len(s), 5, students.shape[1]))
    rows[:, :2], rows[:, 2:, : teachers.shape[1]] = students.swapaxes(1, 2), teachers.swapaxes(1, 2)
    np.testing.assert_allclose(np.einsum("l,lij,lkj->ik", s, rows, rows), start.S, rtol=0, atol=1e-12)
