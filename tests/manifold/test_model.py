"""The limit of the hidden manifold: published numbers, the papers' density form, random weights, bad input."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from manifolds import largest_difference, limit_start, random_weights, two_by_two
from oracles import erf_i3, erf_i4

import overlaps as ov
from overlaps.flow.system import System
from overlaps.manifold.marchenko_pastur import feature_eigenvalues, mp_gauss


def test_published_nodes():
    # ten digits of an independent implementation
    x, w = mp_gauss(0.5, 3)
    np.testing.assert_allclose(x, [0.3285384586, 1.2646582901, 2.4068032513], rtol=0, atol=6e-11)
    np.testing.assert_allclose(w, [0.4483782840, 0.4158442807, 0.1357774353], rtol=0, atol=6e-11)
    spectrum = two_by_two(nodes=3).spectrum
    np.testing.assert_allclose(spectrum.s, [0.3633802276, 0.7816883851, 1.9735931731, 3.4278173036], rtol=0, atol=6e-11)
    np.testing.assert_allclose(spectrum.p, [0.5, 0.2241891420, 0.2079221404, 0.0678887176], rtol=0, atol=6e-11)
    tau = limit_start(two_by_two(nodes=3)).tau[:, 0, 0] / 1.05
    np.testing.assert_allclose(tau, [0, 0.1875602938, 0.6695978441, 0.4160814068], rtol=0, atol=6e-11)
    relu = two_by_two("relu", 2.0, nodes=2)
    np.testing.assert_allclose(relu.spectrum.s, [0.2158450569, 0.5908450569], rtol=0, atol=6e-11)
    np.testing.assert_allclose(relu.spectrum.p, [2 / 3, 1 / 3], rtol=1e-14)
    np.testing.assert_allclose(limit_start(relu).tau[:, 0, 0] / 1.05, [1 / 24, 1 / 12], rtol=1e-13)


@pytest.mark.parametrize("features", ["sign", "erf", "relu", "linear", np.tanh])
@pytest.mark.parametrize("ratio", [0.5, 1.0, 3.0])
def test_variance_of_an_input_and_what_it_hides_of_the_teacher(features, ratio):
    model = two_by_two(features, ratio)
    start, f = limit_start(model, (0.05, 0.05)), model.features
    assert model.spectrum.mean == pytest.approx(f.c - f.a**2, abs=1e-13)
    seen = model.spectrum.s > 0
    unseen = start.T - np.sum((start.tau[seen].T / model.spectrum.s[seen]).T, axis=0)
    if features == "linear" and ratio <= 1:
        np.testing.assert_allclose(unseen, 0, atol=1e-13)  # x determines c
    else:
        assert np.linalg.eigvalsh(unseen)[0] > 1e-3


def density_form(S, K, v, v_star, eta, features, ratio, rho, r, sigma, teachers):
    """(S41), (S43), (S46), (S47) of Bae and Jeong, as printed but for the misprints that the module lists.

    One entry per eigenvalue rho (D,) of F^T F / N: r (D, K, M), sigma (D, K, K), teachers W~W~ (D, M, M).
    """
    Q, R, T = S[:K, :K], S[:K, K:], S[K:, K:]
    M, a, b, c = len(T), features.a, features.b, features.c
    students, fields = range(K), range(K + M)
    d = (c - a**2 - b**2) * ratio + b**2 * rho
    w = np.concatenate([v, -np.array(v_star)])

    def I3(k, x, y):
        return erf_i3(S, k, x, y)

    dr, dsigma, dW = np.zeros_like(r), np.zeros_like(sigma), np.zeros((K, K))
    noise = np.zeros((K, K))
    for k in students:
        row, rows = np.zeros_like(r[:, 0]), np.zeros_like(sigma[:, 0])  # the brackets of (S41) and (S46), for all m, l
        for j in students:
            if j == k:
                continue
            det = Q[j, j] * Q[k, k] - Q[k, j] ** 2
            own = v[j] * (Q[j, j] * I3(k, k, j) - Q[k, j] * I3(k, j, j)) / det
            other = v[j] * (Q[k, k] * I3(k, j, j) - Q[k, j] * I3(k, k, j)) / det
            row += own * r[:, k] + other * r[:, j]
            rows += own * sigma[:, k] + other * sigma[:, j]
        row += v[k] * r[:, k] * I3(k, k, k) / Q[k, k]
        rows += v[k] * sigma[:, k] * I3(k, k, k) / Q[k, k]
        for n in range(M):
            det = Q[k, k] * T[n, n] - R[k, n] ** 2
            own = v_star[n] * (T[n, n] * I3(k, k, K + n) - R[k, n] * I3(k, K + n, K + n)) / det
            other = v_star[n] * (Q[k, k] * I3(k, K + n, K + n) - R[k, n] * I3(k, k, K + n)) / det
            row -= own * r[:, k] + other * (b * rho / d)[:, None] * teachers[:, n]
            rows -= own * sigma[:, k] + other * (b * rho / d)[:, None] * r[:, :, n]
        dr[:, k] = -eta / ratio * v[k] * d[:, None] * row
        dsigma[:, k] += -eta / ratio * v[k] * d[:, None] * rows
        dsigma[:, :, k] += -eta / ratio * v[k] * d[:, None] * rows
        for l in students:
            dW[k, l] -= eta * v[k] * sum(w[x] * I3(k, l, x) for x in fields)
            dW[k, l] -= eta * v[l] * sum(w[x] * I3(l, k, x) for x in fields)
            four = sum(w[x] * w[y] * erf_i4(S, k, l, x, y) for x in fields for y in fields)
            noise[k, l] = eta**2 * v[k] * v[l] * four
    dW += (c - a**2) * noise
    dsigma += ((c - a**2 - b**2) * rho + b**2 / ratio * rho**2)[:, None, None] * noise
    g2 = 2 / np.pi * np.arcsin(S / np.sqrt(np.outer(1 + np.diag(S), 1 + np.diag(S))))
    dv = -eta * g2[:K] @ w
    return dr, dsigma, dW, dv


def test_density_form_of_the_papers(rng):
    # the papers' quantities from their definitions: projections on the eigenvectors psi of F^T F / N, length sqrt(D)
    K, M, N, D, eta = 3, 2, 10, 7, 0.3
    weights = random_weights(rng, N, D, K, M)
    W, W_star, F = weights.values()
    v, v_star = rng.standard_normal(K), rng.standard_normal(M)
    model = ov.hidden_manifold(K, M, features="erf", ratio=D / N, v=v, v_star=v_star, eta=eta, eta_v=eta)
    model, state = model.realisation(**weights)
    rho, psi = np.linalg.eigh(F.T @ F / N)
    rho, psi = rho[::-1], psi[:, ::-1] * np.sqrt(D)
    students, teachers = W @ F / np.sqrt(N) @ psi / np.sqrt(D), W_star @ psi / np.sqrt(D)
    r = np.einsum("kt,mt->tkm", students, teachers)
    sigma = np.einsum("kt,jt->tkj", students, students)
    W_star_2 = np.einsum("mt,nt->tmn", teachers, teachers)
    b, zeta = model.features.b, model.features.zeta
    np.testing.assert_allclose(state.R, b * r.mean(axis=0), rtol=1e-13)  # (S34)
    np.testing.assert_allclose(state.Q, zeta * W @ W.T / N + b**2 * sigma.mean(axis=0), rtol=1e-13)  # (S42)
    system = System(model, state)
    dq, dr, dv = system.unpack(system.rhs(0.0, system.pack(state)))
    paper = density_form(state.S, K, v, v_star, eta, model.features, D / N, rho, r, sigma, W_star_2)
    # rounding: numbers of order one, times N or D / b in r and sigma
    np.testing.assert_allclose(D / b * dr[:D], paper[0], rtol=0, atol=1e-13)
    np.testing.assert_allclose(N * rho[:, None, None] * dq[:D], paper[1], rtol=0, atol=1e-13)
    np.testing.assert_allclose(dq.sum(axis=0), paper[2], rtol=0, atol=1e-14)
    np.testing.assert_allclose(dv, paper[3], rtol=0, atol=1e-14)
    assert not np.any(dr[D:])


CLOSURES = {  # at alpha = 0: A, B, C, dv; ten digits of an independent implementation
    "erf": (
        [[-0.0088032460, -0.0153811912], [-0.0153811912, -0.0120707968]],
        [[0.0255224222, 0.0203090300], [0.0303759868, 0.0243218481]],
        [[0.0015761353, 0.0015820643], [0.0015820643, 0.0022158225]],
        [-0.0239648944, -0.0316874568],
    ),
    "relu": (
        [[-0.0056334998, -0.0127507194], [-0.0127507194, -0.0111512030]],
        [[0.0219367463, 0.0157892945], [0.0248340019, 0.0214366771]],
        [[0.0025753813, 0.0017226398], [0.0017226398, 0.0037769033]],
        [-0.0072844404, -0.0161312225],
    ),
}

CURVES = {  # at alpha = 0, 1, 10, 100: Q00, Q01, Q11, R00, R01, R10, R11, v0, v1, eps_g
    "erf": """
        1 .05 1.1 .1336901522 .0038197186 .0057295780 .1814366351 .45 .55 .2744126195
        .9872930392 .0171679850 1.0786042360 .1640416215 .0220841449 .0406782176 .2055617514
            .4288095478 .5216086497 .2511150275
        1.0009664084 .0041668162 1.0751880025 .3524786243 .1416805919 .2593319498 .3507988605
            .3751160389 .4355599165 .1655186876
        1.1008837607 .5198067475 1.1572751483 .6641885856 .3500540584 .5785261777 .5363648145
            .5047779038 .5502477278 .0808865559
    """,
    "relu": """
        1 .05 1.1 .1336901522 .0038197186 .0057295780 .1814366351 .45 .55 .3163965579
        .9992725726 .0218980584 1.0845224587 .1613080426 .0181845770 .0349723182 .2032565421
            .4447094558 .5365237131 .3030632593
        1.1430641087 -.0227781061 1.1871341159 .3829345645 .1291855067 .2545186216 .3712634329
            .4743439532 .5261968963 .2223613690
        1.6297454 .3713160 1.6377059 .9102770 .1687430 .4877570 .7607082 .5188862 .5190199 .1182814
    """,
}


@pytest.mark.parametrize("student", [ov.erf, ov.relu])
def test_published_trajectories(student):
    model = two_by_two(activation=student)
    start = limit_start(model)
    assert model.spectrum.mean == pytest.approx(1, abs=1e-14)
    total = start.tau.sum(axis=0)
    np.testing.assert_allclose(total, [[1.336901522, 0.0381971863], [0.0381971863, 1.2095775675]], rtol=0, atol=6e-10)
    unseen = start.T - np.sum(start.tau / model.spectrum.s[:, None, None], axis=0)
    np.testing.assert_allclose(unseen, [[0.3196135277, 0.0091318151], [0.0091318151, 0.2891741441]], rtol=0, atol=6e-11)
    closure = ov.closure(model, start.Q, start.R, start.T)
    for name, value in zip(("A", "B", "C", "dv"), CLOSURES[student.name], strict=True):
        np.testing.assert_allclose(getattr(closure, name), value, rtol=0, atol=6e-11)
    traj = ov.solve(model, start, [0, 1, 10, 100])
    Q, R = traj.Q.reshape(4, 4)[:, [0, 1, 3]], traj.R.reshape(4, 4)
    found = np.column_stack([Q, R, traj.v, traj.eps_g])
    expected = np.array(CURVES[student.name].split(), dtype=float).reshape(4, 10)
    # rtol 1e-8 of solve; the published relu curve was integrated to 1e-6 only
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-8 if student is ov.erf else 1e-6)


@pytest.mark.parametrize(
    ("features", "ratio", "student", "alignment", "until"),
    [
        ("sign", 0.5, ov.erf, 0.1, 100),
        ("sign", 0.5, ov.relu, 0.1, 100),
        ("sign", 0.1, ov.erf, 0.02, 100),  # eigenvalues to 115: less alignment is possible
        ("sign", 2.0, ov.erf, 0.1, 100),
        ("erf", 0.5, ov.erf, 0.1, 100),
        ("linear", 0.5, ov.erf, 0.1, 10),  # the slowest: 3e-8 at alpha = 100, 3e-10 with 24 nodes
    ],
)
def test_sixteen_nodes_are_enough(features, ratio, student, alignment, until):
    alpha = [1, 3, 10, 30, 100]
    few, many = (
        ov.solve(model, limit_start(model, (alignment, alignment)), alpha, rtol=1e-11)
        for model in (two_by_two(features, ratio, activation=student, nodes=n) for n in (16, 160))
    )
    assert largest_difference(few, many, until) < 1e-9  # far above the integrator's own 1e-12
    coarse = two_by_two(features, ratio, activation=student, nodes=2)
    assert largest_difference(ov.solve(coarse, limit_start(coarse, 2 * (alignment,)), alpha), many, until) > 1e-5


def test_features_without_linear_part():
    with pytest.warns(RuntimeWarning, match="no linear part") as caught:
        model = two_by_two("abs")
    assert len(caught) == 1
    variant = replace(model, eta=0.1)  # says nothing again
    traj = ov.solve(variant, variant.random_start(N=100, rng=1), [0, 5])
    assert not np.any(traj.R)


def test_a_symmetric_start_is_reported():
    model = ov.hidden_manifold(3, 1, features="sign", ratio=0.5, eta=0.2)
    P = np.eye(3) + 0.1
    with pytest.warns(RuntimeWarning, match="students 0 and 1 are exchanged"):
        start = model.limit_start(P=P, T=[[1.0]])
    traj = ov.solve(model, start, [0, 20.0])
    np.testing.assert_allclose(traj.R[-1], traj.R[-1, 0, 0], rtol=1e-12)  # as the warning says
    with pytest.warns(RuntimeWarning, match="students 0 and 2"):
        model.limit_start(P=P, T=[[1.0]], alignment=[[0.1], [0.2], [0.1]])
    model.limit_start(P=P, T=[[1.0]], v=[1.0, 0.9, 0.8])  # each of the three tells them apart
    model.limit_start(P=P, T=[[1.0]], alignment=[[0.1], [0.2], [0.3]])
    model.limit_start(P=P + np.diag([0, 0.1, 0.2]), T=[[1.0]])


@pytest.mark.slow
@pytest.mark.parametrize(("N", "ratio"), [(400, 0.5), (60, 2.0), (40, 0.3)])
def test_mean_and_variance_of_random_starts(N, ratio):
    # the smallest nodes have less than one direction: their law is approximate, its mean is not
    model, n, scale, sigma = two_by_two("relu", ratio, nodes=6, latent_scale=1.2), 1500, 0.7, 1.2
    rng = np.random.default_rng(5)
    starts = [model.random_start(N=N, rng=rng, student_scale=scale) for _ in range(n)]
    s, p = model.spectrum.s, model.spectrum.p
    mu, b = feature_eigenvalues(ratio, 6)[0], model.features.b
    expected = {
        "q": scale**2 * p[:, None, None] * np.eye(2),
        "r": np.zeros((len(p), 2, 2)),
        "tau": (b**2 * mu * p / ratio)[:, None, None] * sigma**2 * np.eye(2),
        "T": sigma**2 * np.eye(2),
        "Q": scale**2 * (s @ p) * np.eye(2),
    }
    for name, mean in expected.items():
        drawn = np.array([getattr(start, name) for start in starts])
        error = drawn.std(axis=0) / np.sqrt(n)
        assert np.all(np.abs(drawn.mean(axis=0) - mean) < 4.5 * error + 1e-15), name
    whole = p * N > 3  # here the law is exact: variances as of p_l N directions
    q = np.array([start.q for start in starts])[:, whole]
    T = np.array([start.T for start in starts])
    # a sample variance of n draws of a Wishart entry has a relative error sqrt((2 + 12 / directions) / n) < 0.07
    np.testing.assert_allclose(q[:, :, 0, 0].var(axis=0), 2 * scale**4 * p[whole] / N, rtol=0.3)
    np.testing.assert_allclose(q[:, :, 0, 1].var(axis=0), scale**4 * p[whole] / N, rtol=0.3)
    np.testing.assert_allclose(T[:, 0, 1].var(), sigma**4 / (ratio * N), rtol=0.3)


def test_mean_of_random_starts_whose_nodes_have_few_directions():
    """E q^l = sigma^2 p_l, although p_l N is no integer, and smaller than the number of units for most nodes."""
    model, scale, rng = two_by_two("relu", 0.7, nodes=5), 0.6, np.random.default_rng(5)
    drawn = np.array([model.random_start(N=13, rng=rng, student_scale=scale).q for _ in range(300)])
    mean = scale**2 * model.spectrum.p[:, None, None] * np.eye(2)
    assert np.any(np.abs(13 * model.spectrum.p % 1 - 0.5) < 0.3)
    assert np.all(np.abs(drawn.mean(axis=0) - mean) < 4.5 * drawn.std(axis=0) / np.sqrt(300) + 1e-15)


@pytest.mark.slow
@pytest.mark.parametrize(("N", "D"), [(400, 200), (200, 300)])
def test_law_of_random_starts_is_that_of_random_weights(N, D):
    runs, model = 300, two_by_two(ratio=D / N)
    rng = np.random.default_rng(11)

    def observables(model, start):
        traj = ov.solve(model, start, [0, 1, 5, 20], rtol=1e-7)
        rows = [traj.Q[:, 0, 0], traj.Q[:, 0, 1], traj.R[:, 0, 0], traj.R[:, 1, 0], traj.v[:, 0], traj.eps_g]
        return np.concatenate([*rows, traj.R[:, 0, 0] ** 2])

    drawn = np.array([observables(model, model.random_start(N=N, rng=rng)) for _ in range(runs)])
    genuine = np.array([observables(*model.realisation(**random_weights(rng, N, D), nodes=45)) for _ in range(runs)])
    error = np.sqrt((drawn.var(axis=0) + genuine.var(axis=0)) / runs) + 1e-12
    assert np.max(np.abs(drawn.mean(axis=0) - genuine.mean(axis=0)) / error) < 4.5  # of 28 dependent statistics
    # v at alpha = 0 is a constant; the others: relative error of a ratio of two standard deviations ~ 1/sqrt(runs)
    spread = np.std(genuine, axis=0) > 1e-9
    ratio = drawn.std(axis=0)[spread][:23] / genuine.std(axis=0)[spread][:23]
    assert np.max(np.abs(ratio - 1)) < 4.5 / np.sqrt(runs)


def test_second_moment_correction():
    # sign: the inputs do not change, the teacher's fields grow
    unit, wide = (two_by_two("sign", latent_scale=s) for s in (1.0, 2.0))
    starts = [model.random_start(N=1000, rng=3) for model in (unit, wide)]
    np.testing.assert_allclose(wide.spectrum.s, unit.spectrum.s, rtol=1e-14)
    for name, factor in (("q", 1), ("r", 2), ("tau", 4), ("T", 4)):
        np.testing.assert_allclose(getattr(starts[1], name), factor * getattr(starts[0], name), rtol=1e-13)
    np.testing.assert_allclose(limit_start(wide, (0, 0)).tau, 4 * limit_start(unit, (0, 0)).tau, rtol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize(
    "features, alpha, nodes, least, most",
    [
        ("sign", 100.0, 16, 0.0, 1e-7),
        ("linear", 100.0, 16, 0.0, 1e-7),
        ("sign", 1000.0, 16, 0.0, 1e-8),
        ("relu", 1000.0, 16, 0.0, 1e-7),
        ("erf", 1000.0, 16, 1e-4, 2e-3),
        ("linear", 1000.0, 16, 0.01, 0.1),  # no zeta under the spectrum: eigenvalues down to zero at D = N
        ("linear", 1000.0, 64, 0.0, 1e-6),
    ],
)
def test_nodes_that_a_spectrum_needs(features, alpha, nodes, least, most):
    """The documented accuracy of the nodes of the limit: largest error of Q, R against 128 of them."""
    found = []
    for n in (nodes, 128):
        model = ov.hidden_manifold(
            2, 2, features=features, ratio=1.0, nodes=n, eta=0.2, eta_v=0.2, v=[0.45, 0.55], v_star=[0.9, 0.7]
        )
        start = model.limit_start(
            P=[[1, 0.05], [0.05, 1.1]], T=[[1.05, 0.03], [0.03, 0.95]], alignment=np.diag([0.1, 0.15])
        )
        end = ov.solve(model, start, [alpha], rtol=1e-10)
        found.append(np.concatenate([end.Q[-1], end.R[-1]]))
    assert least <= np.abs(found[0] - found[1]).max() <= most


def test_models_are_values(tmp_path):
    model = two_by_two("relu", 0.7, nodes=8, latent_scale=1.5, noise=0.1)
    assert repr(model) == (
        "HiddenManifold(K=2, M=2, erf, hidden_manifold(relu, ratio=0.7, nodes=8, latent_scale=1.5), "
        "eta=0.2, eta_v=0.2, noise=0.1)"
    )
    assert pickle.loads(pickle.dumps(model)) == model
    assert replace(model, eta=0.1) != model == replace(model, eta=0.2)
    # the limit spectrum follows; that of a realisation does not
    assert replace(model, nodes=4) == two_by_two("relu", 0.7, nodes=4, latent_scale=1.5, noise=0.1)
    start = model.random_start(N=300, rng=1)
    traj = ov.solve(model, start, [0, 1, 2])
    traj.save(tmp_path / "limit.npz")
    assert ov.load(tmp_path / "limit.npz") == traj


def test_fixed_points_are_those_of_the_flow():
    model = ov.hidden_manifold(1, 1, features="erf", ratio=0.5, nodes=4, eta=0.5)
    end = ov.solve(model, model.random_start(N=1000, rng=2), [300.0], rtol=1e-10)[-1]
    point = ov.fixed_point(model, end)
    assert point.converged
    rest = ov.solve(model, point.state, [305.0], rtol=1e-10)[-1]
    np.testing.assert_allclose(rest.Q, point.state.Q, rtol=0, atol=1e-8)
    assert np.max(ov.linearise(model, point.state).eigenvalues.real) < 1e-10  # the flow led there


def test_the_solvers_agree():
    model = two_by_two(ratio=0.2)
    start = model.random_start(N=500, rng=1)
    explicit, implicit = (ov.solve(model, start, [10, 200], method=m, rtol=1e-8) for m in ("DOP853", "structured"))
    assert largest_difference(explicit, implicit) < 1e-6  # rtol times the growth of errors on the way


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ratio": 0.0}, "ratio = 0.0; expected a finite number > 0"),
        ({"ratio": -1.0}, "ratio"),
        ({"nodes": 0}, "nodes = 0; expected an integer >= 1"),
        ({"nodes": 2.5}, "nodes = 2.5"),
        ({"features": "sgn"}, "expected one of .sign., .erf., .relu., .linear., .abs."),
        ({"latent_scale": -1.0}, "latent_scale = -1.0"),
        ({"eta": 0.0}, "eta = 0.0"),
        ({"v": [1.0, 1.0, 1.0]}, "v has shape"),
        ({"normalised": True, "v": [1.0, 1.0]}, "normalised=True"),
        ({"spectrum": ov.isotropic()}, r"spectrum = isotropic\(\); expected none"),
    ],
)
def test_bad_models(options, message):
    with pytest.raises(ValueError, match=message):
        ov.hidden_manifold(2, 2, **{"ratio": 0.5, "eta": 0.2} | options)
    with pytest.raises(TypeError, match="got rate = 0.1; expected some of"):
        ov.hidden_manifold(2, 2, ratio=0.5, eta=0.2, rate=0.1)


def test_bad_limits():
    model, one = two_by_two(), np.eye(2)
    with pytest.raises(ValueError, match="P has shape"):
        model.limit_start(P=np.eye(3), T=one)
    with pytest.raises(ValueError, match="alignment has shape"):
        model.limit_start(P=one, T=one, alignment=[0.1, 0.1])
    for bad in ({"P": -one, "T": one}, {"P": one, "T": [[1, 2], [2, 1]]}, {"P": one, "T": one, "alignment": 2 * one}):
        with pytest.raises(ValueError, match="not positive semi-definite"):
            model.limit_start(**bad)
    with pytest.raises(ValueError, match="q is not symmetric"):
        model.limit_start(P=[[1, 0.1], [0, 1]], T=one)
    with pytest.raises(ValueError, match="N = 0"):
        model.random_start(N=0, rng=1)
    with pytest.raises(ValueError, match="teacher = 'ideal'; expected 'random'"):
        model.random_start(N=100, rng=1, teacher="ideal")


def test_states_of_another_kind_of_teacher():
    model = two_by_two()
    L = model.spectrum.L
    for make in (
        lambda: ov.State.from_overlaps(model, Q=np.eye(2), R=np.zeros((2, 2)), T=np.eye(2)),
        lambda: ov.State.from_blocks(model, q=[np.eye(2)] * L, r=np.zeros((L, 2, 2)), t=[np.eye(2)] * L),
        lambda: ov.State.from_weights(model, W=np.ones((2, 10)), W_star=np.ones((2, 10))),
    ):
        with pytest.raises(ValueError, match="acts on the latents"):
            make()
    start = limit_start(model)
    more = replace(start, T=0.6 * start.T)  # the inputs would show more than there is
    with pytest.raises(ValueError, match="T - sum_l tau"):
        ov.solve(model, more, [0, 1])
