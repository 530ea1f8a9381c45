"""The linear-noise expansion against closed forms, published numbers, other quadrature and the reduced simulator."""

from dataclasses import replace
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from helpers import few
from scipy import stats
from scipy.linalg import expm, solve_continuous_lyapunov

import overlaps as ov
from overlaps.analysis import linear_noise, transport
from overlaps.analysis.noise_covariance import FieldPoints, Increments, product_covariance
from overlaps.analysis.transport import Path
from overlaps.analysis.unknowns import Unknowns
from overlaps.flow.system import System

BLOCKS = ov.Spectrum([2.0, 1.0, 0.2], [0.2, 0.3, 0.5])
PARTS = dict(
    q=[[[0.3, 0.05], [0.05, 0.1]], [[0.1, 0.0], [0.0, 0.3]], [[0.3, 0.1], [0.1, 0.2]]],
    r=[[[0.1], [0.02]], [[0.05], [0.1]], [[0.1], [-0.1]]],
    t=[[[0.2]], [[0.4]], [[0.3]]],
)


def quadratic(noise=0.1):
    model = ov.committee_machine(2, 1, activation=ov.quadratic, v=[0.5, 0.5], v_star=[1.0], eta=0.1, noise=noise)
    return model, ov.State.from_overlaps(model, Q=[[1.0, 0.2], [0.2, 0.8]], R=[[0.3], [-0.1]], T=[[1.0]])


def linear():
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5)
    return model, ov.State.from_overlaps(model, Q=[[0.5]], R=[[0.2]], T=[[1.0]])


def erf(**options):
    options = {"eta": 1.0, "eta_v": 0.5, "noise": 0.3, "v": [1.0, 0.8]} | options
    model = ov.committee_machine(2, 1, **options)
    return model, ov.State.from_overlaps(model, Q=[[0.5, 0.1], [0.1, 0.4]], R=[[0.3], [0.1]], T=[[0.8]])


def noise(model, y, unknowns, points=2**14):
    tangent = unknowns.at(y)
    rule = FieldPoints.of(model, points, np.random.default_rng(1))
    products = product_covariance(model, rule, tangent.S, tangent.v)[0]
    return Increments(unknowns)(unknowns.blocks(y), tangent.C, products), tangent


def test_golden_covariance_of_a_step():
    """Exact by Wick's theorem, in the order Q00, Q01, Q11, R00, R10; D, c and J f to ten digits."""
    model, state = quadratic()
    unknowns = Unknowns(model, state, False)
    y = unknowns.system.pack(state)
    D, tangent = noise(model, y, unknowns)
    order = [2, 3, 4, 0, 1]
    golden = [
        [0.7587673304, 0.1548567672, 0.2073996256, 0.1870611200, -0.0052953600],
        [0.1548567672, 0.2116043296, 0.1154176752, -0.0009845600, 0.0398750800],
        [0.2073996256, 0.1154176752, 0.3950089392, 0.0440426800, -0.0486207600],
        [0.1870611200, -0.0009845600, 0.0440426800, 0.1216470000, 0.0023290000],
        [-0.0052953600, 0.0398750800, -0.0486207600, 0.0023290000, 0.0740310000],
    ]
    assert np.allclose(D[np.ix_(order, order)], golden, rtol=0, atol=1e-9)
    steps = tangent._steps()
    assert np.allclose(steps[order], [0.2864, 0.08032, 0.19816, 0.0, 0.0], rtol=0, atol=1e-9)
    bend = tangent.dense() @ unknowns.system.rhs(0.0, y)
    assert np.allclose(bend[order], [0.058668352, 0.021772624, 0.03707472, 0.0094968, -0.0029368], rtol=0, atol=1e-9)


def test_golden_curves():
    """To the tolerance 1e-8 of the solution, which the sums of a hundred steps multiply."""
    model, state = quadratic()
    fluct = ov.fluctuations(ov.solve(model, state, [0.0, 2.0, 10.0], rtol=1e-11), 1000)
    N, ode = fluct.N, fluct.trajectory.eps_g
    assert np.allclose(N * fluct.std("eps_g") ** 2, [0.0, 0.11917877672, 0.886171481444], rtol=1e-7)
    assert np.allclose(N * (fluct.mean("eps_g") - ode), [0.0, 0.282968829778, 1.852042136692], rtol=1e-7)
    Q, R = N * fluct.covariance("Q")[1], N * fluct.covariance("R")[1]
    found = [Q[0, 0, 0, 0], Q[0, 1, 0, 1], R[0, 0, 0, 0], N * fluct.covariance("Q", "R")[1, 0, 0, 0, 0]]
    assert np.allclose(found, [0.7856754275, 0.2239299790, 0.2781169885, 0.3431797874], rtol=1e-7)
    shift = [-2.427396923973, 1.722292276090, 0.517989721180, -1.844276082183, 0.805407878956]
    found = N * np.concatenate([
        (fluct.mean("Q") - fluct.trajectory.Q)[2][np.triu_indices(2)], (fluct.mean("R") - fluct.trajectory.R)[2, :, 0]
    ])  # fmt: skip
    assert np.allclose(found, shift, rtol=1e-7)
    assert 0 <= fluct.error < 1e-7


def test_one_linear_unit_without_noise():
    """The chain of eps_g is a product of independent factors: its moments are known at every N."""
    model, state = linear()
    alpha = np.array([0.0, 0.5, 1.0, 3.0])
    fluct = ov.fluctuations(ov.solve(model, state, alpha, rtol=1e-11), 200)
    eps_g, g = fluct.trajectory.eps_g, 0.5 * (2 - 0.5)
    assert np.allclose(fluct.N * fluct.std("eps_g") ** 2, 2 * g**2 * alpha * eps_g**2, rtol=1e-7)
    mean = eps_g * (1 + alpha / fluct.N * (2 * 0.5**2 - g**2 / 2))
    assert np.allclose(fluct.mean("eps_g"), mean, rtol=1e-9)
    assert np.isclose(fluct.std("eps_g")[2] ** 2 * fluct.N, 0.0759339826, rtol=1e-8)


@few("batch", [1, 3], quick=1)
def test_covariance_of_a_step_is_that_of_samples(batch):
    """One step of SGD with explicit inputs in three blocks: what the chapter calls u, drawn 4e5 times.

    Standard errors of a covariance are about sqrt(2 / n) = 0.2 % of the product of the two scales.
    """
    model = ov.committee_machine(2, 1, eta=1.2, noise=0.3, v=[1.0, 0.7], eta_v=0.4, spectrum=BLOCKS, batch_size=batch)
    state = ov.State.from_blocks(model, **PARTS)
    unknowns = Unknowns(model, state, False)
    D, _ = noise(model, unknowns.system.pack(state), unknowns)
    rng, n, s, p, v = np.random.default_rng(5), 400_000, BLOCKS.s, BLOCKS.p, model.v
    plain = [
        np.block([[q, r], [r.T, t]])
        for q, r, t in zip(*map(np.array, (PARTS["q"], PARTS["r"], PARTS["t"])), strict=True)
    ]
    h = [rng.standard_normal((n, 3)) @ np.linalg.cholesky(a * S).T for a, S in zip(s, plain, strict=True)]
    total = sum(h)
    delta = ov.erf.g(total[:, :2]) @ v - ov.erf.g(total[:, 2:]) @ [1.0] - 0.3 * rng.standard_normal(n)
    F = -1.2 * v * ov.erf.dg(total[:, :2]) * delta[:, None]
    r = [s[l] * F[:, k] * h[l][:, 2] for k in range(2) for l in range(3)]
    q = [
        F[:, i] * h[l][:, j] + F[:, j] * h[l][:, i] + s[l] * p[l] / batch * F[:, i] * F[:, j]
        for i, j in ((0, 0), (0, 1), (1, 1)) for l in range(3)
    ]  # fmt: skip
    u = np.array([*r, *q, *(-0.4 * ov.erf.g(total[:, :2]) * delta[:, None]).T])
    sampled = np.cov(u) / batch
    scale = np.sqrt(np.outer(np.diag(sampled), np.diag(sampled)))
    assert np.max(np.abs(D - sampled) / scale) < 0.02  # heavy tails: products of four fields, 5 standard errors


def test_splitting_an_eigenvalue_changes_nothing():
    """Two equal eigenvalues with any ratio of the overlaps are one: exact, here to the tolerance of the solution."""
    learning = dict(activation=ov.quadratic, eta=0.1, noise=0.2, v=[0.6, 0.4], weight_decay=0.1, batch_size=2)
    whole = ov.committee_machine(2, 1, spectrum=ov.Spectrum([1.5, 0.5], [0.4, 0.6]), **learning)
    split = ov.committee_machine(2, 1, spectrum=ov.Spectrum([1.5, 0.5, 0.5], [0.4, 0.18, 0.42]), **learning)
    q, r, t = (np.array(PARTS[x])[:2] for x in "qrt")
    share = np.array([1.0, 0.7, 0.3])[:, None, None]  # not in the ratio of p
    starts = (
        ov.State.from_blocks(whole, q=q, r=r, t=t),
        ov.State.from_blocks(split, q=q[[0, 1, 1]] * share, r=r[[0, 1, 1]] * share, t=t[[0, 1, 1]] * share),
    )
    one, two = (
        ov.fluctuations(ov.solve(m, s, [0.0, 3.0], rtol=1e-11), 1000)
        for m, s in zip((whole, split), starts, strict=True)
    )
    for name in ("Q", "R", "eps_g"):
        assert np.allclose(one.std(name), two.std(name), rtol=1e-7, atol=1e-12)
        shifts = [1000 * (x.mean(name) - getattr(x.trajectory, name)) for x in (one, two)]
        assert np.allclose(*shifts, rtol=1e-6, atol=1e-7)


def test_larger_inputs_with_smaller_weights_change_nothing():
    """Inputs times sqrt(a), all weights by sqrt(a), eta and decay by a: the same SGD, with random starts and teachers.

    Exact; both are found to the tolerance of the solution.
    """
    a, learning = 1.7, dict(activation=ov.quadratic, noise=0.2, v=[0.6, 0.4], v_star=[0.8], batch_size=2)
    found = []
    for b in (1.0, a):
        spectrum = ov.Spectrum(b * np.array([2.1, 0.4]), [0.3, 0.7])
        model = ov.committee_machine(2, 1, spectrum=spectrum, eta=0.1 / b, weight_decay=0.3 * b, **learning)
        start = ov.State.from_blocks(model, **{x: np.array(PARTS[x])[:2] / b for x in "qrt"})
        fluct = ov.fluctuations(ov.solve(model, start, [0.0, 3.0], rtol=1e-11), 700, start="random")
        found.append([f(x) for x in ("Q", "R", "eps_g") for f in (fluct.std, fluct.mean)])
    for one, two in zip(*found, strict=True):
        assert np.allclose(one, two, rtol=1e-8, atol=1e-12)


def test_blocks_students_and_teachers_may_be_numbered_in_any_order():
    """With random starts and two random teachers, whose overlaps fluctuate as well."""
    X, v, v_star = np.random.default_rng(3).normal(size=(3, 4, 7)) / 4, np.array([0.6, 0.4]), np.array([0.8, -0.5])
    s, p, S, found = np.array([2.1, 0.4, 0.9]), np.array([0.3, 0.5, 0.2]), X @ X.swapaxes(1, 2), []
    for blocks, a in (([0, 1, 2], slice(None)), ([1, 2, 0], slice(None, None, -1))):
        learning = dict(activation=ov.quadratic, eta=0.1, noise=0.2, v=v[a], v_star=v_star[a], weight_decay=0.1)
        model = ov.committee_machine(2, 2, spectrum=ov.Spectrum(s[blocks], p[blocks]), batch_size=2, **learning)
        q, r, t = (x[blocks][:, a, a] for x in (S[:, :2, :2], S[:, :2, 2:], S[:, 2:, 2:]))
        start = ov.State.from_blocks(model, q=q, r=r, t=t)
        fluct = ov.fluctuations(ov.solve(model, start, [0.0, 3.0], rtol=1e-11), 700, start="random")
        at = {"Q": (..., a, a), "R": (..., a, a), "eps_g": ...}
        found.append([f(x)[at[x]] for x in at for f in (fluct.std, fluct.mean)])
    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-8, atol=1e-12)


def test_means_of_linear_students_are_those_of_a_recursion():
    """Of SGD itself, for Gaussian inputs in two blocks, batches, decay; what 1/N^2 adds is 1e-3 of the shift."""
    N, b, eta, kappa, sigma, v, v_star = 3000, 3, 0.7, 0.3, 0.4, np.array([0.8, 0.5]), 1.2
    s, p = np.array([1.6, 0.3]), np.array([0.4, 0.6])
    model = ov.committee_machine(
        2, 1, activation=ov.linear, eta=eta, noise=sigma, v=v, v_star=[v_star], weight_decay=kappa, batch_size=b,
        spectrum=ov.Spectrum(s, p),
    )  # fmt: skip
    q, r, t = (np.array(PARTS[x])[:2] for x in "qrt")
    fluct = ov.fluctuations(ov.solve(model, ov.State.from_blocks(model, q=q, r=r, t=t), [0.0, 1.2], rtol=1e-11), N)
    r, t, a, s = r[:, :, 0], t[:, 0, 0], 1 - eta * kappa / N, s[:, None]
    for _ in range(round(1.2 * N)):  # w += -eta v (d.x - noise) x / N^(1/2) with d = v.w - v_star w_star
        d_star, d_w = r @ v - v_star * t, q @ v - v_star * r
        m = d_w @ v - v_star * d_star
        pull = a * eta / N * s[:, :, None] * v[:, None] * d_w[:, None]
        single = p * s[:, 0] * (s[:, 0] @ m + sigma**2) + 2 * s[:, 0] ** 2 * m / N
        noise = eta**2 / N * (single + (b - 1) * s[:, 0] ** 2 * m / N) / b
        q = a**2 * q - pull - pull.swapaxes(1, 2) + noise[:, None, None] * np.outer(v, v)
        r = a * r - eta / N * s * v * d_star[:, None]
    ode = fluct.trajectory.Q[-1]
    wanted = np.einsum("l,lij", s[:, 0], q) - ode
    assert np.allclose(fluct.mean("Q")[-1] - ode, wanted, rtol=0, atol=5e-3 * np.abs(wanted).max())


def test_random_starts_have_the_covariance_of_wishart_matrices():
    """20000 draws of Gaussian weights in three blocks, N = 20: standard errors of a covariance are 1 % of its scale."""
    model = ov.committee_machine(2, 1, eta=0.5, spectrum=BLOCKS)
    p = np.array(BLOCKS.p)[:, None, None]
    mean = ov.State.from_blocks(model, q=0.49 * p * np.eye(2), r=np.zeros((3, 2, 1)), t=p * np.ones((1, 1)))
    fluct = ov.fluctuations(ov.solve(model, mean, [0.0]), 20000, start="random", points=256)
    weights = np.random.default_rng(3).standard_normal((20000, 3, 20)) * np.array([0.7, 0.7, 1.0])[:, None]
    S = np.einsum("xan,n,xbn->xab", weights, np.repeat(BLOCKS.s, [4, 6, 10]), weights) / 20
    for name, values in (("Q", S[:, :2, :2].reshape(-1, 4)), ("R", S[:, :2, 2])):
        found, size = np.cov(values.T) / 1000, values.shape[1]
        scale = np.sqrt(np.outer(np.diag(found), np.diag(found)))
        assert np.max(np.abs(fluct.covariance(name)[0].reshape(size, size) - found) / scale) < 0.05


def test_singular_overlaps_and_the_path_are_smooth():
    """Equal students: S has no Cholesky factor. Symmetric points make their fluctuations equal, to the quadrature."""
    model = ov.committee_machine(2, 1, eta=0.8, noise=0.2)
    start = ov.State.from_overlaps(model, Q=0.4 * np.ones((2, 2)), R=0.2 * np.ones((2, 1)), T=[[1.0]])
    fluct = ov.fluctuations(ov.solve(model, start, [0.0, 1.0]), 1000)
    std = fluct.std("R")[1, :, 0]
    assert np.isclose(std[0], std[1], rtol=2e-2) and np.all(np.isfinite(fluct.mean("eps_g")))
    assert 0 < fluct.error < 0.02


def test_error_covers_what_more_points_change():
    model, start = erf()
    traj = ov.solve(model, start, [0.0, 2.0])
    few, many = (ov.fluctuations(traj, 500, points=n, rng=4) for n in (2**9, 2**13))
    gap = abs(few.std("eps_g")[-1] / many.std("eps_g")[-1] - 1)
    assert gap < 3 * few.error and many.error < few.error < 0.05


@pytest.mark.slow
def test_polynomials_of_five_fields_are_exact_in_any_order():
    """16,807 nodes know their fourth moments; as many points miss several percent, and say so."""
    rng, v, v_star = np.random.default_rng(3), np.array([0.7, 1.1, -0.6]), np.array([0.9, -0.5])
    X, found = rng.normal(size=(5, 9)) / 4, []
    for order in ([0, 1, 2], [2, 0, 1]):
        model = ov.committee_machine(3, 2, activation=ov.quadratic, v=v[order], v_star=v_star, eta=0.02, noise=0.2)
        Y = np.concatenate([X[order], X[3:]])
        S = Y @ Y.T
        start = ov.State.from_overlaps(model, Q=S[:3, :3], R=S[:3, 3:], T=S[3:, 3:])
        found.append(ov.fluctuations(ov.solve(model, start, [0.0, 1.5]), 900))
    assert found[0].error < 1e-6 and found[1].std("eps_g")[1] == pytest.approx(found[0].std("eps_g")[1], rel=1e-7)
    assert ov.fluctuations(found[0].trajectory, 900, points=2**10).error > 0.02


def test_other_sizes_and_names():
    model, start = erf()
    fluct = ov.fluctuations(ov.solve(model, start, [0.0, 1.0]), 400, points=1024)
    larger = fluct.at_N(1600)
    for name in ("Q", "R", "v", "eps_g"):
        assert np.allclose(larger.std(name), fluct.std(name) / 2, rtol=1e-12)
        shifts = [x.mean(name) - getattr(x.trajectory, name) for x in (larger, fluct)]
        assert np.allclose(4 * shifts[0], shifts[1], rtol=1e-9, atol=1e-14)
        assert np.allclose(np.sqrt(np.einsum("n...aa->n...a", _square(fluct, name))), _flat(fluct.std(name)), rtol=1e-9)
    mixed = fluct.covariance("v", "eps_g")
    assert mixed.shape == (2, 2) and np.allclose(mixed, fluct.covariance("eps_g", "v"))
    with pytest.raises(ValueError, match="expected one of 'Q', 'R', 'v', 'eps_g'"):
        fluct.std("W")
    with pytest.raises(ValueError, match="expected N > K"):
        fluct.at_N(3)


@pytest.mark.parametrize("eta_v", [0.0, 0.4])
def test_second_layers_of_several_blocks_and_random_teachers(eta_v):
    """Their rows lie between those of R and of T: v is known at the start, overlaps are not, and moves later."""
    model = ov.committee_machine(1, 1, activation=ov.linear, v=[0.7], eta=0.6, eta_v=eta_v, noise=0.2, spectrum=TWO)
    traj = ov.solve(model, ov.State.from_blocks(model, **STARTS), [0.0, 0.01])
    found = ov.fluctuations(traj, 400, start="random", points=64).std("v")
    assert found.shape == (2, 1) and found[0] == 0 and (found[1] > 0) == (eta_v > 0)


def _flat(x):
    return x.reshape(len(x), -1)


def _square(fluct, name):
    found = fluct.covariance(name)
    size = int(np.sqrt(found[0].size))
    return found.reshape(len(found), size, size)


def test_the_table_holds_equations_means_and_deviations():
    pytest.importorskip("pandas")
    model, start = quadratic()
    found = ov.fluctuations(ov.solve(model, start, [0, 0.5, 2]), N=70)
    table = found.to_pandas()
    assert len(table) == 3 and table.eps_g.tolist() == found.trajectory.eps_g.tolist()
    for name, values in (("mean", found.mean), ("std", found.std)):
        np.testing.assert_array_equal(table[f"eps_g_{name}"], values("eps_g"))
        np.testing.assert_array_equal(table[f"Q_12_{name}"], values("Q")[:, 1, 0])
        np.testing.assert_array_equal(table[f"R_21_{name}"], values("R")[:, 1, 0])


def test_the_dataset_holds_means_and_deviations_and_files_bring_them_back(tmp_path):
    pytest.importorskip("xarray")
    model, start = quadratic()
    found = ov.fluctuations(ov.solve(model, start, [0, 0.5, 2]), N=70)
    data = found.to_xarray()
    assert data.attrs["N"] == 70 and data.attrs["start"] == "fixed" and data.Q_std.dims == ("alpha", "k", "k2")
    for name in ("eps_g", "Q", "R", "v"):
        np.testing.assert_array_equal(data[f"{name}_mean"], found.mean(name))
        np.testing.assert_array_equal(data[f"{name}_std"].sel(alpha=2.0), found.std(name)[2])
    found.save(tmp_path / "bands.npz")
    assert ov.load(tmp_path / "bands.npz").to_xarray().identical(data)


def test_the_plot_shows_means_and_bands():
    model, start = linear()
    fluct = ov.fluctuations(ov.solve(model, start, (0.0, 4.0)), 100)
    left, right = fluct.plot(band=1.0)
    (band,) = left.collections
    edges = band.get_paths()[0].vertices
    half = fluct.std("eps_g").max()
    top = np.argmax(fluct.mean("eps_g") + fluct.std("eps_g"))
    assert np.isclose(edges[:, 1].max(), (fluct.mean("eps_g") + fluct.std("eps_g"))[top]) and half > 0
    dashed = [line for line in left.get_lines() if line.get_linestyle() == "--"]
    assert np.allclose(dashed[0].get_ydata(), fluct.mean("eps_g"))
    assert len(right.collections) == 2
    plt.close("all")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda m, s: (ov.solve(replace(m, gradient_flow=True), s, [0.0, 1.0]), 100), "support a gradient flow"),
        (lambda m, s: (ov.solve(m, s, [0.0, 1.0], schedule=ov.Schedule.cosine(2.0)), 100), "schedule"),
        (lambda m, s: (ov.solve(m, s, [0.0, 1.0], blocks=False), 100), "does not support blocks=False"),
        (lambda m, s: (ov.solve(m, s, [0.0, 1.0]), 3), "expected N > K"),
        (lambda m, s: (ov.solve(m, s, [0.0, 1.0]), 10.5), "expected an integer"),
        (lambda m, s: (3, 100), "trajectory = 3"),
        (lambda m, s: (ov.solve(*ov.low_rank(m, s, a=[[0.5], [0.2]], X=[[1]]), [1]), 100), "trained directions"),
    ],
)  # fmt: skip
def test_refusals(change, match):
    model, start = erf(eta_v=0.0)
    with pytest.raises(ValueError, match=match):
        ov.fluctuations(*change(model, start))


def test_an_unknown_start_and_a_hidden_manifold_are_refused():
    model, start = erf()
    traj = ov.solve(model, start, [0.0, 1.0])
    with pytest.raises(ValueError, match="expected 'fixed' or 'random'"):
        ov.fluctuations(traj, 100, start="gaussian")
    manifold = ov.hidden_manifold(2, 1, ratio=0.5, eta=0.2)
    path = ov.solve(manifold, manifold.random_start(N=200, rng=1), [0.0, 0.5])
    with pytest.raises(ValueError, match="fluctuations does not support a teacher of latents"):
        ov.fluctuations(path, 100)


@pytest.mark.parametrize("eta_v", [0.0, 0.3])
def test_the_jacobian_is_that_of_differences_of_the_flow(eta_v):
    """By students, readouts and two random teachers on two eigenvalues: a flow of its own at every shifted start."""
    model = ov.committee_machine(
        2, 2, eta=0.7, eta_v=eta_v, noise=0.2, v=[1.3, 0.6], v_star=[0.8, -0.5], spectrum=ov.Spectrum([2.0, 0.5])
    )
    X = np.random.default_rng(4).normal(size=(2, 4, 9)) / 4
    joint = X @ X.swapaxes(1, 2)
    start = ov.State.from_blocks(model, q=joint[:, :2, :2], r=joint[:, :2, 2:], t=joint[:, 2:, 2:])
    unknowns = Unknowns(model, start, True)
    y, (i, j), h = unknowns.system.pack(start), unknowns.upper, 1e-4
    z = np.concatenate([y, np.moveaxis(start.plain[2], 0, -1)[i, j].ravel()])

    def flow(z):
        t = np.zeros((2, 2, 2))
        t[:, i, j] = t[:, j, i] = z[y.size :].reshape(-1, 2).T
        s = model.spectrum.s[:, None, None]
        moved = replace(start, tau=s**2 * t, T=np.sum(s * t, axis=0))
        return np.append(System(model, moved).rhs(0.0, z[: y.size]), np.zeros(z.size - y.size))

    slopes = np.array([(flow(z + h * e) - flow(z - h * e)) / (2 * h) for e in np.eye(z.size)]).T
    # differences of second order, of a flow of size one with third derivatives of a few
    assert np.allclose(unknowns.at(y).dense(), slopes, rtol=0, atol=1e-7)


@pytest.mark.parametrize("teachers", [False, True])
def test_the_gradient_of_the_error_is_that_of_its_differences(teachers):
    """By all that fluctuates: overlaps of two blocks, readouts at a rate of their own, random teachers."""
    model = ov.committee_machine(
        2, 1, eta=0.7, eta_v=0.3, v=[1.3, 0.6], v_star=[0.8], spectrum=ov.Spectrum([2.1, 0.4], [0.3, 0.7])
    )
    start = ov.State.from_blocks(model, **{x: np.array(PARTS[x])[:2] for x in "qrt"})
    unknowns = Unknowns(model, start, teachers)
    y = unknowns.system.pack(start)
    z, h = np.append(y, np.ravel(start.plain[2]) if teachers else []), 1e-5

    def error(z):
        q, r, v = unknowns.system.unpack(np.ascontiguousarray(z[: y.size]))
        t = z[y.size :] if teachers else np.ravel(start.plain[2])
        s = model.spectrum.s
        return ov.closure(model, np.tensordot(s, q, 1), r.sum(axis=0), [[s @ t]], v).eps_g

    slopes = [(error(z + h * e) - error(z - h * e)) / (2 * h) for e in np.eye(z.size)]
    # differences of second order; of the closure by the teachers in the gradient itself, 1e-9
    assert np.allclose(unknowns.at(y).gradient(), slopes, rtol=0, atol=1e-8)


def test_large_fluctuations_are_large_in_units_of_the_overlaps():
    """Weights of variance 4: a variance 2 4^2 / N is 0.05 times 4 at N = 160."""
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5)
    mean = ov.State.from_overlaps(model, Q=[[4.0]], R=[[0.0]], T=[[4.0]])
    traj = ov.solve(model, mean, [0.0])
    quiet = ov.fluctuations(traj, 180, start="random")  # a warning would fail the test
    assert np.isclose(quiet.std("Q")[0, 0, 0] ** 2, 32 / 180)
    with pytest.warns(RuntimeWarning, match="exceeds 0.05"):
        ov.fluctuations(traj, 140, start="random")


def test_a_deviation_that_is_hardly_known_says_so_once(monkeypatch):
    """Few points: the error is stated with a remedy that helps; at another N, or with more points, nothing is said."""
    model, start = erf(activation=ov.relu, eta=0.4, eta_v=0.2)
    traj = ov.solve(model, start, [0.0, 0.7, 3.0])
    with pytest.warns(RuntimeWarning) as said:
        rough = ov.fluctuations(traj, 1000, points=128)
    (sentence,) = (str(x.message) for x in said)
    assert f"std('eps_g') at alpha = 3 has an error of {rough.error:.1%}" in sentence
    assert "points = 1024, or" in sentence
    rough.at_N(500)  # a warning would fail the test
    better = ov.fluctuations(traj, 1000, points=1024)
    assert better.error < 0.05 < rough.error < 0.5
    known = ov.fluctuations(traj, 1000).std("eps_g")[-1]  # to better.error / 4 or so
    assert abs(rough.std("eps_g")[-1] / known - 1) < 3 * rough.error  # of a normal law
    monkeypatch.setattr(linear_noise, "EXPANSION", linear_noise.EXPANSION._replace(max_std_error=0.0))
    rule = ov.learner(ov.rules.hinge(0.7), eta=0.6)  # which has no use for points
    flow = ov.solve(rule, ov.State.from_overlaps(rule, Q=[[0.8]], R=[[0.3]], T=[[1.1]]), [0.0, 0.7])
    with pytest.warns(RuntimeWarning, match="because fields are sampled: simulate"):
        ov.fluctuations(flow, 1000)


@few("student, points", [(ov.relu, 2**14), (ov.absolute, 2**10), (ov.leaky_relu(0.2), 2**10)], quick=2)
def test_the_error_covers_what_a_split_of_a_block_changes(student, points):
    """Equal in exact arithmetic: nodes of rough integrals move with the steps, by less than the stated error."""
    model = [
        ov.committee_machine(1, 2, activation=student, v_star=[0.7, 1.1], eta=0.5, noise=0.2, spectrum=ov.Spectrum(*x))
        for x in (([1.7, 0.6], [0.4, 0.6]), ([1.7, 0.6, 1.7], [0.3, 0.6, 0.1]))
    ]
    S = np.array(
        [[[0.3, 0.1, -0.1], [0.1, 0.4, 0.05], [-0.1, 0.05, 0.5]], [[0.5, 0.1, 0.2], [0.1, 0.6, 0], [0.2, 0, 0.7]]]
    )
    parts = S, np.array([0.35 * S[0], S[1], 0.65 * S[0]])
    one, two = (
        ov.fluctuations(
            ov.solve(m, ov.State.from_blocks(m, q=x[:, :1, :1], r=x[:, :1, 1:], t=x[:, 1:, 1:]), [0.0, 0.8, 3.0]),
            10**4, points=points,
        )
        for m, x in zip(model, parts, strict=True)
    )  # fmt: skip
    change = abs(one.std("eps_g")[-1] / two.std("eps_g")[-1] - 1)
    assert 1e-9 < change < min(one.error, two.error) < 0.05


def test_a_plateau_is_left_with_a_warning():
    """From a start without asymmetry the growing mode holds nothing but noise."""
    model = ov.committee_machine(2, 2, eta=1.5)
    start = ov.State.from_overlaps(model, Q=np.eye(2), R=[[0.01, 0.0], [0.0, 0.01]], T=np.eye(2))
    traj = ov.solve(model, start, np.linspace(0.0, 60.0, 13))
    with pytest.warns(RuntimeWarning, match=r"compute it by .*escape"):
        ov.fluctuations(traj, 100, points=256)


def test_aligned_kinks_have_no_mean_but_a_deviation():
    model = ov.committee_machine(2, 2, activation=ov.relu, eta=0.2)
    start = ov.State.from_overlaps(model, Q=np.diag([1.0, 0.5]), R=[[1.0, 0.0], [0.0, 0.3]], T=np.eye(2))
    fluct = ov.fluctuations(ov.solve(model, start, [0.0]), 200, start="random", points=256)
    assert np.isnan(fluct.mean("eps_g")).all() and np.isfinite(fluct.std("Q")).all()


def test_noise_of_late_steps_is_no_rounding():
    """Without label noise: one slow mode is left, whose relative changes are independent, from eps_g 2e-7 to 2e-10.

    The variance of ln eps_g then grows along a line; the faster modes and rounding bend it by 1 %.
    """
    model = ov.committee_machine(1, 1, eta=1.0)
    start = ov.State.from_overlaps(model, Q=[[0.5]], R=[[0.3]], T=[[1.0]])
    alpha = [0.0, 40.0, 50.0, 60.0, 70.0]
    fluct = ov.fluctuations(ov.solve(model, start, alpha, rtol=1e-10, atol=1e-14), 400)
    variance = 400 * (fluct.std("eps_g")[1:] / fluct.trajectory.eps_g[1:]) ** 2
    line = variance[0] + np.arange(4) * (variance[1] - variance[0])
    assert np.allclose(variance, line, rtol=0.03) and line[-1] > 1.2 * line[0]


def test_chunks_of_matrices_are_transported_as_one(monkeypatch):
    """Constant coefficients: records of covariance and mean at unequal times against one exponential of Van Loan's."""
    rng, mesh = np.random.default_rng(8), np.array([0.3, 0.5, 1.4, 1.9])
    J, D, Sigma = rng.normal(size=(3, 3)), np.diag([0.7, 0.2, 0.4]), np.diag([0.3, 0.5, 0.1])
    source, mean = rng.normal(size=3), rng.normal(size=3)
    constant = lambda times: [np.repeat(x[None], len(times), axis=0) for x in (J, D, source)]  # noqa: E731
    # chunks of 5 of 12 steps, 4 in each interval
    monkeypatch.setattr(transport, "TRANSPORT", transport.TRANSPORT._replace(chunk_numbers=5 * 9))
    covariances, means = (transport.propagate(mesh, 2, constant, Sigma, x) for x in (None, mean))
    for t, found, at in zip(mesh - mesh[0], covariances, means, strict=True):
        E = expm(t * np.block([[-J, D], [np.zeros((3, 3)), J.T]]))
        assert np.allclose(found, E[3:, 3:].T @ (Sigma @ E[3:, 3:] + E[:3, 3:]), rtol=1e-12)
        E = expm(t * np.block([[J, source[:, None]], [np.zeros((1, 4))]]))
        assert np.allclose(at, E[:3, :3] @ mean + E[:3, 3], rtol=1e-12)


def test_propagators_of_matrices_of_all_sizes(rng):
    """One stack, from steps too short to see to long ones, against an exponential and what its integrals solve."""
    sizes, h = np.array([0.03, 1.0, 40.0]), np.array([0.3, 0.7, 0.2])
    J = sizes[:, None, None] * (rng.normal(size=(3, 3, 3)) - 2 * np.eye(3))
    D = np.array([x @ x.T for x in rng.normal(size=(3, 3, 3))])
    _, S = transport.propagators(J, h)
    for at, drift, noise, S, E, G in zip(h, J, D, S, *transport.propagators(J, h, D), strict=True):  # noqa: B020
        np.testing.assert_allclose(E, expm(at * drift), rtol=1e-9, atol=1e-13)
        np.testing.assert_allclose(S, np.linalg.solve(drift, E - np.eye(3)), rtol=1e-9, atol=1e-12)
        change = E @ noise @ E.T - noise
        np.testing.assert_allclose(G, solve_continuous_lyapunov(drift, change), rtol=1e-9, atol=1e-12)


def test_the_path_is_the_trajectory():
    model, start = erf()
    traj = ov.solve(model, start, [0.0, 1.0, 2.0])
    packed = Path(traj, Unknowns(model, start, False).packing.pack).at(np.array([0.0, 1.0, 2.0]))
    again = np.array([Unknowns(model, start, False).system.pack(traj[i]) for i in range(3)])
    assert np.allclose(packed, again, rtol=1e-7)


# long tests: the reduced simulator is exact in law -------------------------------------------------------------------


def compare(model, start, N, runs, alpha=(0.0, 1.0, 4.0), random=False):
    """Ratios of standard deviations and shifts in standard errors, at the times after the start."""
    alpha = np.array(alpha)
    fluct = ov.fluctuations(ov.solve(model, start, alpha), N, start="random" if random else "fixed")
    sgd = ov.simulate(model, N=N, alpha=alpha, rng=11, start=None if random else start, runs=runs, method="reduced")
    ratios, shifts = [], []
    for name in ("Q", "R", "v", "eps_g"):
        values = getattr(sgd, name)[:, 1:].reshape(runs, -1)
        theory, mean = fluct.std(name)[1:].ravel(), fluct.mean(name)[1:].ravel()
        moving = theory > 0
        spread = values.std(axis=0, ddof=1)[moving]
        ratios += (spread / theory[moving]).tolist()
        shifts += ((values.mean(axis=0) - mean)[moving] / (spread / np.sqrt(runs))).tolist()
    return np.array(ratios), np.array(shifts)


CASES = {
    "erf": (*erf(), 400),
    "erf, batches, decay": (*erf(batch_size=4, weight_decay=0.2, eta=1.5, eta_v=0.0), 200),
    "quadratic": (*quadratic(), 400),
    "relu": (*erf(activation=ov.relu, eta=0.4, eta_v=0.2), 300),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", [*CASES, "blocks", "linear blocks"])
def test_standard_deviations_and_means_of_the_reduced_simulator(case):
    """1500 runs: a standard deviation is known to 1.8 %, so that single ratios stay within 8 %, their mean within 3 %.

    Heavy tails of quadratic units double that. Means agree within 4 standard errors of the runs.
    """
    if "blocks" in case:
        g = ov.linear if "linear" in case else ov.erf
        options = dict(activation=g, eta=0.8, noise=0.2, batch_size=2, weight_decay=0.1)
        model = ov.committee_machine(2, 1, spectrum=BLOCKS, **options)
        start, N = ov.State.from_blocks(model, **PARTS), 200
    else:
        model, start, N = CASES[case]
    ratios, shifts = compare(model, start, N, 1500)
    assert np.all(np.abs(ratios - 1) < 0.08)
    assert abs(ratios.mean() - 1) < 0.03
    assert np.all(np.abs(shifts) < 4)


@pytest.mark.slow
def test_means_at_small_N():
    """4000 runs at N = 60, where the shift of a single mean is several standard errors: without a term it is missed."""
    model, start = linear()
    alpha = [0.0, 1.0, 4.0]
    fluct = ov.fluctuations(ov.solve(model, start, alpha), 60)
    sgd = ov.simulate(model, N=60, alpha=alpha, rng=2, start=start, runs=4000, method="reduced")
    for name in ("Q", "R", "eps_g"):
        found, error = sgd.mean(name)[1:].ravel(), sgd.standard_error(name)[1:].ravel()
        assert np.all(np.abs(found - fluct.mean(name)[1:].ravel()) < 4 * error)


@pytest.mark.slow
def test_random_starts_and_teachers():
    model = ov.committee_machine(2, 2, eta=1.0, noise=0.1)
    start = ov.State.from_overlaps(model, Q=np.eye(2), R=np.zeros((2, 2)), T=np.eye(2))
    ratios, shifts = compare(model, start, 200, 1500, random=True)
    assert np.all(np.abs(ratios - 1) < 0.08) and abs(ratios.mean() - 1) < 0.03
    assert np.all(np.abs(shifts) < 4)


@pytest.mark.slow
def test_stationary_fluctuations_of_the_specialised_state():
    """Label noise keeps the overlaps moving for ever: 60 runs of length 500, recorded every 5 after the first 100.

    Times 5 apart are correlated; 4800 records of 60 runs are worth about 1000, a standard deviation known to 2.5 %.
    """
    model = ov.committee_machine(2, 2, eta=0.6, noise=0.3)
    start = ov.State.from_overlaps(model, Q=[[0.95, 0.0], [0.0, 0.9]], R=[[0.9, 0.0], [0.0, 0.85]], T=np.eye(2))
    fluct = ov.fluctuations(ov.solve(model, start, [0.0, 400.0]), 200)
    alpha = np.r_[0.0, np.arange(100.0, 500.0, 5.0)]
    sgd = ov.simulate(model, N=200, alpha=alpha, rng=1, start=start, runs=60, method="reduced")
    for name in ("Q", "R"):
        values = getattr(sgd, name)[:, 1:]
        spread = values.std(axis=(0, 1), ddof=1)
        assert np.all(np.abs(spread / fluct.std(name)[-1] - 1) < 0.08)
    assert abs(sgd.eps_g[:, 1:].mean() / fluct.mean("eps_g")[-1] - 1) < 0.03


# rules of learning -------------------------------------------------------------------------------------------------

TWO = ov.Spectrum(s=[1.6, 0.4], p=[0.5, 0.5])
STARTS = dict(q=[[[0.5]], [[0.3]]], r=[[[0.1]], [[0.05]]], t=[[[0.5]], [[0.6]]])


def regression(lam, nu, xi, theta, S, F, G):
    delta = theta[0] * lam[0] - 0.9 * nu[0] - 0.3 * xi
    F[0], G[0] = -theta[0] * delta, -lam[0] * delta


def squares(lam, nu, theta):
    return (theta[0] * lam[0] - 0.9 * nu[0]) ** 2 / 2


@pytest.mark.parametrize(
    "start, noise", [("fixed", 0.0), *(pytest.param(x, 0.3, marks=pytest.mark.slow) for x in ("fixed", "random"))]
)
def test_a_rule_that_descends_the_squared_loss_fluctuates_like_the_library(start, noise):
    """By its integrals and differences of eps_g here, by moments of polynomials and A, B as its gradient there."""
    options = dict(eta=0.7, spectrum=TWO, weight_decay=0.2, batch_size=3)
    rule = ov.Rule(regression, K=1, M=1, error=squares, noise="normal" if noise else ([0.0], [1.0]))
    models = (
        ov.learner(rule, theta=[0.8], eta_theta=0.4, **options),
        ov.committee_machine(1, 1, activation=ov.linear, v=[0.8], v_star=[0.9], noise=noise, eta_v=0.4, **options),
    )
    found, known = (
        ov.fluctuations(ov.solve(model, ov.State.from_blocks(model, **STARTS), [0.0, 1.0]), 100, start=start)
        for model in models
    )
    assert found.error < 1e-4
    for name in ("Q", "R", "v", "eps_g"):  # splines through tables to 1e-5, see ``RulePoints.tol``
        np.testing.assert_allclose(found.std(name), known.std(name), rtol=1e-5, atol=1e-9)
        np.testing.assert_allclose(found.mean(name), known.mean(name), rtol=1e-6)


@pytest.mark.slow  # the largest rule has 55 million nodes, which take 8 GB
def test_the_noise_of_heavy_forces_is_refused():
    """E[F^4] of squared residuals under Student's t with three degrees of freedom is infinite, E[F^2] is not."""

    def squared(lam, nu, xi, theta, S, F, G):
        F[0] = -(lam[0] - nu[0] - xi)

    rule = ov.Rule(squared, K=1, M=1, noise=stats.t(3, scale=0.4), tolerance=1e-4)
    model = ov.learner(rule, eta=0.3)
    with pytest.raises(ValueError, match="averages of four forces of the rule 'squared' do not converge"):
        product_covariance(model, FieldPoints.of(model, 64, None), np.array([[0.8, 0.5], [0.5, 1.2]]), np.zeros(1))


def sees_overlaps(lam, nu, xi, theta, S, F, G):
    F[0] = (0.5 + S[0, 1]) * (np.tanh(nu[0] + theta[0]) - 0.6 * lam[0] + 0.4 * xi)
    G[0] = 0.2 * lam[0] * nu[0] - 0.3 * theta[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hinge", "adatron, batch", "labels, decay", "sees overlaps"])
def test_fluctuations_of_rules_are_those_of_runs(name):
    """At N = 40, where the means are off the flow by up to nine standard errors."""
    rule, options = {
        "hinge": (ov.rules.hinge(0.7), dict(eta=0.6)),
        "adatron, batch": (ov.rules.adatron(0.05), dict(eta=1.2, batch_size=3)),
        "labels, decay": (ov.rules.logistic(1.5), dict(eta=1.0, weight_decay=0.2)),
        "sees overlaps": (
            ov.Rule(sees_overlaps, K=1, M=1, noise=([-1, 1], [0.5, 0.5]), uses_overlaps=True, error=squares),
            dict(eta=0.9, eta_theta=0.5, theta=[0.2]),
        ),
    }[name]
    model, runs = ov.learner(rule, spectrum=TWO, **options), 3000
    start = ov.State.from_blocks(model, **STARTS)
    fluct = ov.fluctuations(ov.solve(model, start, [0.0, 1.0, 3.0]), 40)
    found = ov.simulate(model, N=40, alpha=[0.0, 1.0, 3.0], rng=7, start=start, runs=runs, method="reduced")
    for curve in ("Q", "R", "eps_g", *["v"] * model.trains_v):
        x, mean, std = getattr(found, curve)[:, 1:], fluct.mean(curve)[1:], fluct.std(curve)[1:]
        errors = np.std(x, axis=0) / np.sqrt(runs)
        # three standard errors, and what is of order 1/N^2: at most a tenth of the shift at this N
        assert np.max(np.abs(np.mean(x, axis=0) - mean) / errors) < 3.5
        # of order 1/N, and 1/sqrt(2 runs) of the estimate
        np.testing.assert_allclose(np.std(x, axis=0, ddof=1), std, rtol=1 / 40 + 3 / np.sqrt(2 * runs))


@pytest.mark.slow
def test_fluctuations_of_tokens():
    """Two tokens with c_12 = 0.6 and two eigenvalues, against 400 runs: standard deviations to 4.5 of their errors."""
    model = ov.learner(ov.rules.pair(0.6), eta=0.3, spectrum=ov.Spectrum(s=[1.6, 0.4], p=[0.5, 0.5]))
    start = ov.State.from_blocks(model, q=[[[0.5]], [[0.3]]], r=[[[0.1]], [[0.05]]], t=[[[0.5]], [[0.6]]])
    found = ov.fluctuations(ov.solve(model, start, [0.0, 1.0]), N=1000)
    runs = ov.simulate(model, N=1000, alpha=[0.0, 1.0], rng=1, start=start, runs=400)
    for name in ("Q", "R"):
        spread = np.std(getattr(runs, name)[:, 1], axis=0, ddof=1)
        np.testing.assert_allclose(found.std(name)[1], spread, rtol=4.5 / np.sqrt(2 * 400))
    with pytest.raises(ValueError, match=r"episode\(5, at_least=5\) has 10 fields; expected at most 8"):
        episodes = ov.learner(ov.rules.episode(5), eta=0.3)
        begin = ov.State.from_overlaps(episodes, Q=[[1.0]], R=[[0.2]], T=[[1.0]])
        ov.fluctuations(ov.solve(episodes, begin, [0.0, 1.0]), N=1000)


@pytest.mark.parametrize("reason", [dict(tokens=9), dict(others=abs), dict(by_block=True)])
def test_rules_whose_fourth_moments_are_not_known_are_refused(reason):
    """Each reason alone."""
    rule = SimpleNamespace(**{"tokens": 1, "others": None, "by_block": False} | reason)
    with pytest.raises(ValueError, match="expected at most 8, without others="):
        FieldPoints.of(SimpleNamespace(rule=rule, K=1, M=1), 64, np.random.default_rng(1))


def test_nodes_do_not_gather_where_a_sampled_covariance_jumps():
    """Students with a kink: nodes 6e-15 apart once made splines of J blow up, std .028 where SGD has .0062.

    Against 400 runs, to four errors of a standard deviation, 1/sqrt(800).
    """
    model = ov.committee_machine(2, 2, eta=0.3, noise=0.2, activation=ov.relu, eta_v=0.2, weight_decay=0.05)
    Q, R, T = [[0.6, 0.1], [0.1, 0.8]], [[0.2, -0.1], [0.05, 0.3]], [[1.0, 0.1], [0.1, 0.9]]
    start = ov.State.from_overlaps(model, Q=Q, R=R, T=T)
    std = ov.fluctuations(ov.solve(model, start, [0.0, 0.3]), 400, points=2**12).std("eps_g")[-1]
    runs = ov.simulate(model, N=400, alpha=[0.0, 0.3], rng=3, start=start, runs=400, method="reduced")
    assert std == pytest.approx(runs.eps_g[:, -1].std(), rel=0.14)
