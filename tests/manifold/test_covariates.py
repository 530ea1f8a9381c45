"""Given covariances of inputs and latents: golden numbers, committee and manifold as special cases, SGD on samples."""

import dataclasses

import numpy as np
import pytest
from manifolds import manifold, random_weights

import overlaps as ov
from overlaps.manifold.realisation import second_moments

OMEGA = [[1.2, 0.3, 0.0], [0.3, 0.8, 0.1], [0.0, 0.1, 1.0]]
PHI, PSI = [[0.5, 0.1], [0.2, 0.4], [-0.1, 0.3]], [[1.0, 0.2], [0.2, 0.9]]
SMALL = dict(W=[[1, 0.5, -0.3], [-0.2, 0.8, 0.6]], W_star=[[1.1, -0.4], [0.3, 0.9]])


def small(**options):
    options = dict(eta=0.2, eta_v=0.1, v=[0.6, 0.4], v_star=[0.9, 0.7]) | options
    return ov.gaussian_covariates(OMEGA, PHI, PSI, 2, 2, **options)


def images(rng, n=600, N=30, D=12):
    """A data set that is not Gaussian: inputs of two layers of latents with heavy tails, of an own scale and mean."""
    C = rng.laplace(size=(n, D)) @ rng.standard_normal((D, D)) / np.sqrt(D) + 0.3
    X = np.tanh(C @ rng.standard_normal((D, 2 * N)) / np.sqrt(D)) @ rng.standard_normal((2 * N, N)) / np.sqrt(2 * N)
    return np.maximum(X, -0.2), C


def test_golden_numbers():
    """Three inputs and two latents, integrated by a program that shares nothing with this one."""
    model, start = small()
    np.testing.assert_allclose(model.spectrum.s, [1.3668072311, 1.0143066305, 0.6188861384], rtol=0, atol=1e-10)
    same, state = start(**SMALL)
    assert same is model
    np.testing.assert_allclose(state.tau.sum(0), [[0.1583, 0.0462], [0.0462, 0.1458]], rtol=1e-12)
    np.testing.assert_allclose(state.T, [[0.589, 0.09], [0.09, 0.4635]], rtol=1e-12)
    traj = ov.solve(model, state, [0, 1, 10], rtol=1e-11)
    np.testing.assert_allclose(traj.eps_g, [0.1399260819, 0.1395300641, 0.1373053929], rtol=0, atol=1e-9)
    R = [[0.2503186074, 0.1304607948], [-0.0768664472, 0.1635199797]]
    np.testing.assert_allclose(traj.R[-1], R, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("N", "D", "moments"), [(30, 12, "ge"), (18, 30, "exact")])
def test_the_hidden_manifold_is_a_case(rng, N, D, moments):
    limit, weights = manifold(ratio=D / N, latent_scale=1.3, features="relu"), random_weights(rng, N, D)
    Omega, Phi = second_moments("relu", weights["F"], moments, 1.3)
    options = {x: getattr(limit, x) for x in ("eta", "eta_v", "v", "v_star")}
    model, start = ov.gaussian_covariates(Omega, Phi, 1.3**2 * np.eye(D), 2, 2, **options)
    pairs = limit.realisation(**weights, moments=moments), start(W=weights["W"], W_star=weights["W_star"])
    one, other = (ov.solve(*pair, [0, 1, 10], rtol=1e-11) for pair in pairs)
    for name in ("Q", "R", "T", "v", "eps_g"):
        np.testing.assert_allclose(getattr(other, name), getattr(one, name), rtol=0, atol=1e-9)


def test_a_teacher_that_sees_the_inputs_is_a_committee_machine(rng):
    root = rng.standard_normal((20, 8))  # of rank 8: twelve directions that nobody sees
    Sigma = root @ root.T / 8
    committee = ov.committee_machine(2, 3, eta=0.3, noise=0.1, spectrum=ov.Spectrum.from_covariance(Sigma))
    model, start = ov.gaussian_covariates(Sigma, Sigma, Sigma, 2, 3, eta=0.3, noise=0.1)
    W, W_star = rng.standard_normal((2, 20)), rng.standard_normal((3, 20))
    (_, here), there = start(W=W, W_star=W_star), ov.State.from_weights(committee, W=W, W_star=W_star)
    for name in ("q", "r", "tau", "T"):
        np.testing.assert_allclose(getattr(here, name), getattr(there, name), rtol=0, atol=1e-12)
    assert model.spectrum.s[-1] == 0 and not here.r[-1].any() and not here.tau[-1].any()


def test_covariances_of_data_are_those_of_its_rows(rng):
    X, C = images(rng)
    Omega, Phi, Psi = ov.covariates.from_data(X, C)
    both = np.cov(np.hstack([X, C]).T, bias=True)
    np.testing.assert_allclose(np.block([[Omega, Phi], [Phi.T, Psi]]), both, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(ov.covariates.from_data(X)[2], ov.covariates.from_data(X)[0])
    x, c = ov.covariates.rows(X, C)(np.random.default_rng(1), 50)
    assert all(np.any(np.all(np.isclose(row, X - X.mean(0)), axis=1)) for row in x)
    pairs = np.argmin(np.linalg.norm(x[:, None] - (X - X.mean(0)), axis=2), axis=1)
    np.testing.assert_allclose(c, (C - C.mean(0))[pairs], rtol=0, atol=1e-13)
    raw = ov.covariates.from_data(X, C, centre=False)
    np.testing.assert_allclose(raw[1], X.T @ C / len(X), rtol=0, atol=1e-13)
    # Gaussian pairs have these covariances too, up to 5 standard errors of 40,000
    x, c = ov.covariates.gaussian(Omega, Phi, Psi)(rng, 40_000)
    drawn = np.hstack([x, c]).T @ np.hstack([x, c]) / len(x)
    scale = np.sqrt(np.outer(np.diag(both), np.diag(both)))
    assert np.max(np.abs(drawn - both) / scale) < 5 * np.sqrt(2 / 40_000)


@pytest.mark.filterwarnings("ignore:the samples")  # a few, always the same
def test_runs_on_data_are_the_literal_loop(rng):
    """Same samples, one at a time, in this order; labels of a teacher of the latents."""
    X, C = images(rng, n=40)
    X, C = X - X.mean(0), C - C.mean(0)
    model, _ = ov.gaussian_covariates(*ov.covariates.from_data(X, C), 2, 3, eta=0.4, eta_v=0.6)
    W, W_star = rng.standard_normal((2, 30)), rng.standard_normal((3, 12))

    def replayed(rng, n):
        return X[:n], C[:n]

    runs = ov.simulate(
        model, N=30, alpha=[0, 1], rng=1, weights=(W, W_star), samples=replayed, chunk=30, test=0, keep_weights=True
    )
    w, v = W.copy(), np.array(model.v)
    for x, c in zip(X[:30], C[:30], strict=True):
        lam, nu = w @ x / np.sqrt(30), W_star @ c / np.sqrt(12)
        delta = v @ ov.erf(lam) - model.v_star @ ov.erf(nu)
        dw = -model.eta * np.outer(v * model.activation.dg(lam) * delta, x) / np.sqrt(30)
        w, v = w + dw, v - model.eta_v / 30 * ov.erf(lam) * delta
    W_end, v_end = runs.final_weights(0)
    np.testing.assert_allclose(W_end, w, rtol=1e-10, atol=1e-13)  # order of summation
    np.testing.assert_allclose(v_end, v, rtol=1e-11)
    np.testing.assert_allclose(runs.Q[0, -1], w @ model.Omega @ w.T / 30, rtol=1e-9)
    np.testing.assert_allclose(runs.R[0, -1], w @ model.Phi @ W_star.T / np.sqrt(360), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(runs.T[0], W_star @ model.Psi @ W_star.T / 12, rtol=1e-12)


def test_gaussian_samples_follow_the_theory_and_have_its_error(rng):
    X, C = images(rng, N=60)
    model, _ = ov.gaussian_covariates(*ov.covariates.from_data(X, C), 2, 2, eta=0.5, eta_v=0.3)
    # 30 runs of N = 60: what one run fluctuates by, 1/sqrt(N), becomes 0.024, and O(1/N) = 0.017 is the bias left
    weights = rng.standard_normal((2, 60)), rng.standard_normal((2, 12))
    runs = ov.simulate(model, N=60, alpha=[0, 5, 20], rng=3, runs=30, weights=weights, test=2000)
    theory = ov.solve(*runs.realisation(0), runs.alpha)
    gap = np.abs(runs.mean("eps_g") - theory.eps_g)
    assert np.all(gap[1:] < 4 * runs.standard_error("eps_g")[1:] + theory.eps_g[1:] / 60)
    assert theory.eps_g[-1] < 0.7 * theory.eps_g[0]
    excess = np.mean(runs.test_error - runs.eps_g, axis=0) / np.sqrt(np.mean(runs.test_error_se**2, axis=0) / 30)
    assert np.all(np.abs(excess) < 4)
    with pytest.raises(ValueError, match="weights=\\(W, W_star\\), or neither"):
        ov.simulate(model, N=60, alpha=1.0, rng=1, start=runs.realisation(0)[1])


def test_samples_of_other_moments_are_named(rng):
    X, C = images(rng)
    model, _ = ov.gaussian_covariates(*ov.covariates.from_data(X, C), 2, 2, eta=0.1)
    twice = ov.covariates.rows(2 * X, C)
    with pytest.warns(RuntimeWarning) as record:
        ov.simulate(model, N=30, alpha=[0, 20], rng=1, samples=twice)
    first, second = (str(warning.message) for warning in record)
    assert "the samples rows(n=600, N=30, D=12) change the moments of the fields by up to" in first
    assert "test_error = " in second and "eps_g = " in second and record[0].filename == __file__


def test_values_files_and_compression(rng, tmp_path):
    X, C = images(rng, N=60)
    model, start = ov.gaussian_covariates(*ov.covariates.from_data(X, C), 1, 2, eta=0.1)
    slower = dataclasses.replace(model, eta=0.05)
    assert slower.spectrum is model.spectrum and slower.eta == 0.05
    runs = ov.simulate(
        slower, N=60, alpha=[0, 1, 2], rng=1, runs=2, samples=ov.covariates.rows(X, C), keep_weights=True
    )
    runs.save(tmp_path / "runs.npz")
    again = ov.load(tmp_path / "runs.npz")
    assert again == runs and type(again) is ov.results.CovariatesEnsemble and again.model == slower
    full, small = (ov.solve(*runs.realisation(1, nodes=n), runs.alpha) for n in (None, 40))
    assert small.model.spectrum.L == 40
    np.testing.assert_allclose(small.eps_g, full.eps_g, rtol=0, atol=1e-9)
    with pytest.raises(ValueError, match="without the eigenvectors of Omega"):
        small.model.start(W=runs.W[0], W_star=runs.W_star[0])
    state = model.random_start(N=60, rng=1, student_scale=0.5)
    assert state.K == 1 and state.M == 2 and 0 < state.Q[0, 0] < 10
    assert repr(model) == "GaussianCovariates(K=1, M=2, erf, gaussian_covariates(N=60, D=12), eta=0.1)"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (dict(Omega=OMEGA[:2]), r"Omega has shape \(2, 3\); expected a square matrix"),
        (dict(Omega=np.triu(OMEGA)), "Omega is not symmetric"),
        (dict(Phi=PHI[:2]), r"Phi has shape \(2, 2\); expected \(3, D\)"),
        (dict(Psi=np.eye(3)), r"Psi has shape \(3, 3\); expected \(2, 2\)"),
        (dict(Psi=[[1, 2], [0, 1]]), "Psi is not symmetric"),
        (dict(Phi=2 * np.array(PHI)), r"\[\[Omega, Phi\], \[Phi\^T, Psi\]\] is not positive semi-definite"),
        (dict(Phi=np.full((3, 2), np.nan)), "Phi contains nan"),
        (dict(spectrum=ov.isotropic()), r"spectrum = isotropic\(\); expected none"),
        (dict(drift=0.1), "drift = 0.1; expected none"),
    ],
)
def test_bad_covariances(change, words):
    given = dict(Omega=OMEGA, Phi=PHI, Psi=PSI, K=2, M=2, eta=0.2) | change
    with pytest.raises(ValueError, match=words):
        ov.gaussian_covariates(**given)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(N=4), "N = 4; expected N = 3"),
        (dict(weights=(np.ones((2, 3)), np.ones((2, 3)))), r"W_star has shape \(2, 3\); expected \(2, 2\)"),
        (dict(weights=np.ones((2, 3))), r"expected \(W, W_star\)"),
        (dict(samples=3), r"samples = 3; expected a callable \(rng, n\)"),
        (dict(samples=lambda rng, n: np.ones((n, 3))), "expected a pair"),
        (dict(samples=lambda rng, n: (np.ones((n, 2)), np.ones((n, 2)))), r"X of samples\(rng, .*expected numbers"),
        (dict(samples=lambda rng, n: (np.ones((n, 3)), np.full((n, 2), np.nan))), "C of samples.* nan"),
        (dict(method="reduced"), "method = 'reduced'; expected 'auto' or 'direct'"),
        (dict(latents=ov.latents.gaussian()), "latents belong to HiddenManifold"),
        (dict(test=1), "test = 1; expected at least 2"),
    ],
)
def test_bad_runs(options, words):
    with pytest.raises(ValueError, match=words):
        ov.simulate(small()[0], **dict(N=3, alpha=[0, 1], rng=1) | options)


def test_bad_data():
    for given, words in (
        (dict(X=[1.0, 2.0]), "X has shape"),
        (dict(X=np.ones((3, 2)), C=np.ones((2, 1))), "C has shape"),
        (dict(X=np.ones((0, 2))), "expected samples as rows"),
        (dict(X=np.ones((3, 2)), centre=1), "centre = 1; expected True or False"),
    ):
        with pytest.raises(ValueError, match=words):
            ov.covariates.from_data(**given)
