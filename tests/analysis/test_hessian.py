"""The Hessian from overlaps against second differences of the error of explicit weights, written down another way."""

import dataclasses

import numpy as np
import pytest

import overlaps as ov
from overlaps.theory import quadratic

TWO_BLOCKS = ov.Spectrum(s=[2.0, 0.5], p=[1 / 3, 2 / 3])


# E[g(x) g*(y)] of two fields of variances a, b and covariance c, each by a formula that the library does not use


def arcsine(a, b, c):
    """Saad and Solla (1995)."""
    return 2 / np.pi * np.arcsin(c / np.sqrt((1 + a) * (1 + b)))


def arc_cosine(a, b, c):
    """Cho and Saul (2009), eq. (6) at n = 1."""
    angle = np.arccos(np.clip(c / np.sqrt(a * b), -1, 1))
    return np.sqrt(a * b) / (2 * np.pi) * (np.sin(angle) + (np.pi - angle) * np.cos(angle))


def tanh_tanh(a, b, c):
    """Gauss-Hermite in two independent variables."""
    x, weight = np.polynomial.hermite_e.hermegauss(40)
    weight = weight / np.sqrt(2 * np.pi)
    a, b, c = (np.asarray(z)[..., None, None] for z in (a, b, c))
    rest = np.sqrt(np.maximum(b - c * c / a, 0.0))
    values = np.tanh(np.sqrt(a) * x[:, None]) * np.tanh(c / np.sqrt(a) * x[:, None] + rest * x)
    return np.einsum("...ij,i,j->...", values, weight, weight)


KERNELS = {
    "erf": (ov.erf, arcsine),
    "linear": (ov.linear, lambda a, b, c: c),
    "quadratic": (ov.quadratic, lambda a, b, c: a * b + 2 * c * c),
    "relu": (ov.relu, arc_cosine),
    "tanh": (ov.tanh, tanh_tanh),
}


def error(kernel, fields, w):
    """eps_g (...) of fields (..., K + M, N) over independent unit Gaussians, with signed second layers."""
    S = fields @ np.swapaxes(fields, -1, -2)
    variances = np.diagonal(S, axis1=-2, axis2=-1)
    G = kernel(variances[..., :, None], variances[..., None, :], S)
    return np.einsum("...i,...ij,...j->...", w, G, w) / 2


def explicit(kernel, W, W_star, scale, v, v_star, with_v, h):
    """Hessian over (W, v) by differences of fourth order of the error, in all pairs of coordinates."""
    K, N = W.shape
    n = K * N + (K if with_v else 0)

    def value(steps):
        """Error (n,) after steps (n, parameters)."""
        fields = np.concatenate([W + steps[:, : K * N].reshape(-1, K, N), np.tile(W_star, (len(steps), 1, 1))], axis=1)
        students = v + steps[:, K * N :] if with_v else np.tile(v, (len(steps), 1))
        return error(kernel, fields * scale, np.hstack([students, np.tile(-v_star, (len(steps), 1))]))

    H, unit = np.zeros((n, n)), h * np.eye(n)
    stencil = ((1, 2 / 3), (-1, -2 / 3), (2, -1 / 12), (-2, 1 / 12))
    for i in range(n):
        for a, weight_a in stencil:
            for b, weight_b in stencil:
                H[i] += weight_a * weight_b * value(a * unit[i] + b * unit)
    return H / h**2


def draw(name, spectrum, N, with_v, rng):
    activation, kernel = KERNELS[name]
    v, v_star = np.array([0.7, -0.4]), np.array([1.1, 0.6, -0.5])
    model = ov.committee_machine(
        2, 3, activation=activation, spectrum=spectrum, v=v, v_star=v_star, eta=0.3, eta_v=0.2 if with_v else 0.0
    )
    W, W_star = rng.standard_normal((2, N)), rng.standard_normal((3, N))
    scale = np.sqrt(np.repeat(spectrum.s, np.round(N * spectrum.p).astype(int)))
    state = ov.State.from_weights(model, W=W, W_star=W_star)
    return model, state, (kernel, W / np.sqrt(N), W_star / np.sqrt(N), scale, v, v_star, with_v)


# truncation h^4 times sixth derivatives, and rounding 1e-16 / h^2; tanh is a sum of error functions to 1e-5
TOLERANCE = {
    "tanh": (2e-2, 1e-4),
    "erf": (1e-2, 1e-7),
    "linear": (1e-2, 1e-10),
    "quadratic": (1e-2, 1e-10),
    "relu": (4e-3, 1e-6),
}


@pytest.mark.parametrize("spectrum", [ov.isotropic(), TWO_BLOCKS], ids=["isotropic", "two blocks"])
@pytest.mark.parametrize("with_v", [False, True], ids=["first layer", "both layers"])
@pytest.mark.parametrize("name", [name for name in TOLERANCE if name != "tanh"])
def test_all_eigenvalues_are_those_of_explicit_weights(name, with_v, spectrum, rng):
    N, (h, tolerance) = 18, TOLERANCE[name]
    model, state, weights = draw(name, spectrum, N, with_v, rng)
    expected = np.linalg.eigvalsh(explicit(*weights, h))
    found = ov.hessian(model, state)
    bulk = np.repeat(found.bulk.ravel(), np.repeat(found.multiplicities(N), 2).astype(int))
    np.testing.assert_allclose(np.sort(np.append(bulk, found.outliers)), expected, atol=tolerance * abs(expected).max())
    assert found.negative(N) == np.sum(expected < -10 * tolerance)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "N"), [("erf", 48), ("quadratic", 30), ("relu", 36), ("tanh", 12)])
def test_larger_networks(name, N, rng):
    model, state, weights = draw(name, TWO_BLOCKS, N, False, rng)
    h, tolerance = TOLERANCE[name]
    expected = np.linalg.eigvalsh(explicit(*weights, h))
    found = ov.hessian(model, state)
    values = [found.outliers]
    if np.all(N * model.spectrum.p >= 5):
        values.append(np.repeat(found.bulk.ravel(), np.repeat(found.multiplicities(N), 2).astype(int)))
        np.testing.assert_allclose(np.sort(np.concatenate(values)), expected, atol=tolerance * abs(expected).max())
    else:  # an eigenspace smaller than the span: the block has copies of its bulk
        gap = np.abs(expected[:, None] - np.append(found.outliers, found.bulk)).min(axis=1)
        assert gap.max() < tolerance * abs(expected).max()


def test_quadratic_weights_to_rounding(rng):
    """The closed form in the weights, any second layers."""
    W, W_star = rng.standard_normal((3, 15)), rng.standard_normal((2, 15))
    model = ov.quadratic_network(3, 2, eta=0.1, v=[0.2, -0.5, 0.3], v_star=[0.3, 0.9])
    found = ov.hessian(model, ov.State.from_weights(model, W=W, W_star=W_star))
    weights = quadratic.hessian(W / np.sqrt(15), W_star / np.sqrt(15), v=model.v, v_star=model.v_star)
    values = np.sort(np.append(found.outliers, np.repeat(found.bulk, 10)))
    np.testing.assert_allclose(values, np.linalg.eigvalsh(weights), atol=1e-13)


@pytest.mark.parametrize(("K", "M", "r", "s"), [(3, 2, 1, 1), (4, 2, 0, 2), (2, 3, 2, 0), (3, 2, 0, 0)])
def test_stationary_points_of_quadratic_networks(K, M, r, s):
    """Every type has the spectrum of its closed form, counted with multiplicity."""
    N = 12
    W, W_star = quadratic.stationary_point(N, K, M, r, s, rng=1)
    model = ov.quadratic_network(K, M, eta=0.1)
    found = ov.hessian(model, ov.State.from_weights(model, W=np.sqrt(N) * W, W_star=np.sqrt(N) * W_star))
    values = np.sort(np.append(found.outliers, np.repeat(found.bulk, N - K - M)))
    expected = np.repeat(*map(np.array, zip(*quadratic.stationary_spectrum(N, K, M, r, s), strict=True)))
    np.testing.assert_allclose(values, expected, atol=1e-12)
    assert found.negative(N) == np.sum(expected < -1e-12)


def test_modes_are_what_weights_do(rng):
    """dQ, dR along an eigenvector are those of weights moved along that eigenvector of the explicit Hessian."""
    N = 14
    W, W_star = rng.standard_normal((2, N)) / np.sqrt(N), rng.standard_normal((1, N)) / np.sqrt(N)
    model = ov.quadratic_network(2, 1, eta=0.1)
    found = ov.hessian(model, ov.State.from_weights(model, W=np.sqrt(N) * W, W_star=np.sqrt(N) * W_star))
    _, vectors = np.linalg.eigh(quadratic.hessian(W, W_star))
    dW = vectors[:, -1].reshape(2, N)  # the largest eigenvalue is an outlier
    dQ, dR = dW @ W.T + W @ dW.T, dW @ W_star.T
    sign = np.sign(dR[0, 0] * found.dR[-1, 0, 0])
    np.testing.assert_allclose(sign * found.dQ[-1], dQ, atol=1e-12)
    np.testing.assert_allclose(sign * found.dR[-1], dR, atol=1e-12)


def test_gradient_flow_is_the_hessian_in_the_overlaps():
    """Where the gradient vanishes, an outlier x of eps_g is a mode of the gradient flow with rate -eta x."""
    model = ov.committee_machine(2, 2, eta=0.5, gradient_flow=True)
    ones = np.ones((2, 2))
    guess = ov.State.from_overlaps(model, Q=0.4 * ones, R=0.3 * ones, T=np.eye(2))
    plateau = ov.fixed_point(model, guess).state
    rate = ov.linearise(model, plateau).rate
    found = ov.hessian(model, plateau)
    assert rate > 0
    np.testing.assert_allclose(found.outliers[0], -rate / model.eta, rtol=1e-9)
    specialises = found.dR[0]
    np.testing.assert_allclose(specialises[0], -specialises[1], atol=1e-9)


def test_along_a_trajectory():
    model = ov.committee_machine(3, 2, eta=0.3)
    trajectory = ov.solve(model, model.random_start(N=300, rng=4), np.linspace(0, 60, 7))
    path = ov.hessian(model, trajectory)
    assert len(path) == 7 and path.outliers.shape == (7, 15) and path.bulk.shape == (7, 1, 3)
    one = ov.hessian(model, trajectory[3])
    np.testing.assert_array_equal(path[3].outliers, one.outliers)
    np.testing.assert_allclose(path.eps_g, trajectory.eps_g, rtol=1e-12)
    assert path.negative(100).shape == (7,) and path[-1].negative(100) == path.negative(100)[-1]


def test_rates_and_noise_do_not_matter(rng):
    model, state, _ = draw("erf", ov.isotropic(), 18, True, rng)
    other = dataclasses.replace(model, eta=3.0, eta_v=0.01, noise=1.0, batch_size=5)
    np.testing.assert_allclose(ov.hessian(other, state).outliers, ov.hessian(model, state).outliers, rtol=1e-12)


def test_density_is_one_and_finds_the_bulk(rng):
    model, state, _ = draw("quadratic", TWO_BLOCKS, 18, False, rng)
    found = ov.hessian(model, state)
    x = np.linspace(2 * found.outliers[0] - 1, 2 * found.outliers[-1] + 1, 40001)
    for N in (None, 90):
        np.testing.assert_allclose(np.trapezoid(found.density(x, N), x), 1.0, rtol=1e-6)
    # without outliers the mean is that of the bulk: sum_l p_l s_l tr H / K
    mean = model.spectrum.p @ found.bulk.mean(axis=1)
    np.testing.assert_allclose(np.trapezoid(x * found.density(x), x), mean, atol=1e-6)
    np.testing.assert_allclose(found.negative_fraction, model.spectrum.p @ np.mean(found.bulk < 0, axis=1))


def test_density_of_outliers_is_their_number(rng):
    """Between eigenvalues: how many of the K N lie there; with the default width where the whole bulk is one point."""
    model, state, _ = draw("erf", TWO_BLOCKS, 18, False, rng)
    found, N = ov.hessian(model, state), 45
    above = np.append(found.bulk.max(), found.outliers[found.outliers > found.bulk.max()])
    i = np.argmax(np.diff(above))  # the widest gap, of 16 peaks to either side of its middle
    x = np.linspace((above[i] + above[i + 1]) / 2, above[-1] + 1, 20001)
    weight = np.trapezoid(found.density(x, N, width=(above[i + 1] - above[i]) / 32), x)
    assert above.size > 2 and weight == pytest.approx((above.size - 1 - i) / (2 * N), rel=1e-6)
    plain = ov.quadratic_network(2, 1, eta=0.1)
    plateau = ov.State.from_overlaps(plain, Q=np.eye(2) / 2, R=np.zeros((2, 1)), T=[[1.0]])
    flat, x = ov.hessian(plain, plateau), np.linspace(-3, 3, 6001)
    assert np.ptp(flat.bulk) < 1e-12
    np.testing.assert_allclose(np.trapezoid(flat.density(x), x), 1.0, rtol=1e-9)


def test_negative_eigenvalues_are_a_fraction_of_all():
    """Small students of one sign of v see a downhill everywhere, those of the other uphill: half of all, at large N."""
    model = ov.committee_machine(
        2,
        1,
        activation=ov.quadratic,
        v=[0.7, -0.4],
        v_star=[1.3],
        eta=0.1,
        spectrum=ov.Spectrum([2.0, 0.0], [0.3, 0.7]),
    )
    state = ov.State.from_blocks(
        model, q=[0.1 * np.eye(2), 0.2 * np.eye(2)], r=[[[0.1], [0.05]], [[0.0], [0.0]]], t=[[[0.5]], [[0.4]]]
    )
    found, N = ov.hessian(model, state), 10**7
    assert found.negative_fraction == pytest.approx(found.negative(N) / (2 * N), abs=1e-6)
    assert found.negative_fraction == pytest.approx(0.15)


def test_what_is_refused(rng):
    model, state, _ = draw("erf", TWO_BLOCKS, 18, False, rng)
    found = ov.hessian(model, state)
    with pytest.raises(ValueError, match=r"N = 12 leaves 4 dimensions .* N >= 15"):
        found.multiplicities(12)
    assert len(found) == 1  # of three outliers and more
    with pytest.raises(TypeError, match="one state"):
        found[0]
    relu = ov.committee_machine(1, 1, activation=ov.relu, eta=0.1)
    learned = ov.State.from_overlaps(relu, Q=[[1.0]], R=[[1.0]], T=[[1.0]])
    with pytest.raises(ValueError, match="aligned"):
        ov.hessian(relu, learned)
    with pytest.raises(ValueError, match="state"):
        ov.hessian(relu, 3)
    wide = ov.committee_machine(2, 3, eta=0.1, spectrum=ov.power_law(beta=1.0, L=700))
    with pytest.raises(ValueError, match="the state has 7000 order parameters"):
        ov.hessian(wide, wide.random_start(N=7000, rng=rng))
