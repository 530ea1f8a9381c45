"""Linear students on random features: least squares, the full model, SGD on the features, a random basis."""

import numpy as np
import pytest

import overlaps as ov


def generic(D=7, V=4, seed=3):
    """Features, a covariance with correlations, a teacher, a student: no number is special."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(D, D))
    return rng.normal(size=(D, V)), root @ root.T / D, rng.normal(size=D), rng.normal(size=V)


def risk(w, W, Sigma, teacher):
    """Error of weights w (..., V) over all inputs."""
    gap = np.asarray(w) @ W.T / np.sqrt(W.shape[1]) - teacher / np.sqrt(len(teacher))
    return np.einsum("...i,ij,...j->...", gap, Sigma, gap) / 2


def test_what_features_miss_is_the_residual_of_least_squares():
    W, Sigma, teacher, student = generic()
    model, start = ov.random_features(W=W, covariance=Sigma, teacher=teacher, student=student, eta=0.1, noise=0.3)
    root = np.linalg.cholesky(Sigma).T
    best, *_ = np.linalg.lstsq(root @ W / np.sqrt(4), root @ teacher / np.sqrt(7), rcond=None)
    assert model.noise**2 / 2 == pytest.approx(risk(best, W, Sigma, teacher) + 0.3**2 / 2, rel=1e-12)
    eps_g = ov.solve(model, start, [0.0]).eps_g[0]
    assert eps_g + model.noise**2 / 2 - 0.3**2 / 2 == pytest.approx(risk(student, W, Sigma, teacher), rel=1e-12)


def test_flow_of_the_equations_is_that_of_the_weights():
    """Gradient flow of w, whose matrix exponential shares nothing with the blocks."""
    from scipy.linalg import expm

    W, Sigma, teacher, student = generic()
    pair = ov.random_features(W=W, covariance=Sigma, teacher=teacher, student=student, eta=0.2, gradient_flow=True)
    Omega, target = W.T @ Sigma @ W, W.T @ Sigma @ teacher * np.sqrt(4 / 7)
    best = np.linalg.solve(Omega, target)
    w = best + expm(-0.2 * 3.0 * Omega) @ (student - best)
    eps_g = ov.solve(*pair, [0.0, 3.0], rtol=1e-11).eps_g[-1]
    assert eps_g == pytest.approx(risk(w, W, Sigma, teacher) - pair[0].noise ** 2 / 2, rel=1e-7)


@pytest.mark.parametrize("orthogonal", [True, False])
def test_as_many_features_as_inputs_miss_nothing(orthogonal):
    """Orthogonal ones are the full model in other coordinates; others are another descent to the same end."""
    W, Sigma, teacher, student = generic(6, 6)
    W = np.linalg.qr(W)[0] if orthogonal else W
    model, start = ov.random_features(W=W, covariance=Sigma, teacher=teacher, student=student, eta=0.3)
    assert model.noise < 1e-12
    if orthogonal:
        full = ov.committee_machine(1, 1, activation="linear", spectrum=ov.Spectrum.from_covariance(Sigma), eta=0.3)
        state = ov.State.from_weights(full, W=[W @ student], W_star=[teacher])
        one, two = (ov.solve(*x, [0.0, 2.0, 20.0], rtol=1e-10) for x in ((full, state), (model, start)))
        assert np.allclose(one.eps_g, two.eps_g, rtol=1e-7, atol=0)


def test_features_may_be_exchanged():
    W, Sigma, teacher, student = generic()
    order = [2, 0, 3, 1]
    one, two = (
        ov.random_features(W=W[:, i], covariance=Sigma, teacher=teacher, student=student[i], eta=0.05)
        for i in ([0, 1, 2, 3], order)
    )
    assert np.allclose(*(ov.solve(*x, [0.0, 5.0], rtol=1e-10).eps_g for x in (one, two)), rtol=1e-7, atol=0)


def test_independent_inputs_are_given_by_their_variances():
    W, _, teacher, _ = generic()
    s = np.arange(1.0, 8.0) ** -1.2
    one, two = (ov.random_features(W=W, covariance=x, teacher=teacher, eta=0.3) for x in (s, np.diag(s)))
    assert np.allclose(one[0].spectrum.s, two[0].spectrum.s) and one[0].noise == pytest.approx(two[0].noise)


@pytest.mark.parametrize("V", [12, pytest.param(48, marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore:eta max")
def test_sgd_on_the_features(V):
    """Many runs of explicit SGD against the exact mean at this V, and simulated runs: within three standard errors."""
    D, eta, noise, steps, runs = 3 * V, 0.15, 0.2, 6 * V, 800
    model, start = ov.random_features(alpha=0.8, beta=0.4, V=V, D=D, rng=3, eta=eta, noise=noise)
    j = np.arange(1.0, D + 1)
    W, scale, teacher = np.random.default_rng(3).standard_normal((D, V)), j**-0.8, j**-0.4
    rng, w = np.random.default_rng(1), np.zeros((runs, V))
    for _ in range(steps):
        x = scale * rng.standard_normal((runs, D))
        z = x @ W / np.sqrt(V)
        delta = np.sum(w * z, axis=1) - x @ teacher - noise * rng.standard_normal(runs)
        w -= eta * delta[:, None] * z
    losses = risk(w, W, np.diag(scale**2), teacher * np.sqrt(D))
    rate, m0 = ov.theory.linear.reduce(model, start)
    mean = ov.theory.linear.sgd_mean(model.spectrum, rate, [steps], N=V, noise=model.noise, m0=m0)[0]
    floor = (model.noise**2 - noise**2) / 2
    assert abs(losses.mean() - mean - floor) < 3 * losses.std() / np.sqrt(runs)
    sgd = ov.simulate(model, N=V, alpha=[0.0, 6.0], rng=1, runs=80, start=start)
    assert abs(sgd.mean("eps_g")[-1] - mean) < 3 * sgd.standard_error("eps_g")[-1]


@pytest.mark.parametrize("alpha, beta", [(0.8, 0.4), (1.0, 0.7), (0.8, 1.1)])
def test_the_floor_is_that_of_a_random_basis(alpha, beta):
    """The mean of 30 draws against the limit, within three standard errors and 1 % of finite size; scaled to one."""
    D, V = 200, 50
    law, j = ov.theory.scaling.Law(2 * alpha - 1, beta, L=D, eta=0.1), np.arange(1.0, D + 1)
    floors = [
        ov.random_features(alpha=alpha, beta=beta, V=V, D=D, rng=i, eta=0.1)[0].noise ** 2 for i in range(30)
    ]  # fmt: skip
    limit = 2 * law.random_basis(V) * np.sum(j ** (-2 * alpha - 2 * beta))
    assert abs(np.mean(floors) - limit) < 3 * np.std(floors) / np.sqrt(30) + 0.01 * limit


def test_bad_input_is_refused():
    W, Sigma, teacher, _ = generic()
    with pytest.raises(ValueError, match="got W, alpha; expected W, covariance and teacher, or alpha, beta, V, D and"):
        ov.random_features(W=W, alpha=1.0, eta=0.1)
    with pytest.raises(ValueError, match="got neither"):
        ov.random_features(eta=0.1)
    with pytest.raises(ValueError, match=r"teacher has shape \(6,\)"):
        ov.random_features(W=W, covariance=Sigma, teacher=teacher[:6], eta=0.1)
    with pytest.raises(ValueError, match="covariance .*semi-definite"):
        ov.random_features(W=W, covariance=-Sigma, teacher=teacher, eta=0.1)
    with pytest.raises(ValueError, match="covariance = .*variances >= 0"):
        ov.random_features(W=W, covariance=-(teacher**2), teacher=teacher, eta=0.1)
    with pytest.raises(ValueError, match=r"student has shape \(3,\)"):
        ov.random_features(W=W, covariance=Sigma, teacher=teacher, student=[1, 2, 3], eta=0.1)
