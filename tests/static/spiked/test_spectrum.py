"""Spectrum of the features: matrices, the Marchenko-Pastur law, and identities of the resolvent."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import overlaps as ov
from overlaps.static import SpikedRandomFeatures
from overlaps.static.spiked import edges
from overlaps.static.spiked import resolvent as resolvents
from overlaps.static.spiked.draws import initial_rows
from overlaps.static.spiked.resolvent import Law, newton, resolvent

NODES = np.linspace(-9, 9, 400)  # trapezoid rule for N(0, 1), exponentially accurate for tanh
WEIGHTS = np.exp(-(NODES**2) / 2) / np.sum(np.exp(-(NODES**2) / 2))


def features(r, c, beta, student=np.tanh, **options):
    return SpikedRandomFeatures(student, np.sin, r=r, c=c, gamma=0.9, beta=beta, **options)


def sampled_eigenvalues(model, alpha, d, seed):
    """Eigenvalues of X^T X / p, ascending, and the realised sum of mu0(k)^2."""
    p, n = round(model.beta * d), round(alpha * d)
    rng = np.random.default_rng(seed)
    rows = np.sqrt(model.c) * initial_rows("sphere" if model.rows == "iid" else model.rows, p, d, rng)
    rows[:, 0] += model.r
    x = rng.standard_normal((n, d))
    X = model.student(x @ rows.T)
    gram = X.T @ X if p <= n else X @ X.T
    return np.linalg.eigvalsh(gram) / p, np.sum(model.coefficients.at(x[:, 0]).mu0 ** 2)


CASES = [  # r, c, alpha, beta, upper edge printed, mean and sd of the top eigenvalue at d = 1600
    (1.2, 1.1, 1.5, 1.0, 2.43, 688.7, 13.3),
    (2.0, 1.3, 0.8, 0.5, 1.83, 584.9, 12.3),
]


@pytest.mark.parametrize("alpha", [1.5, 0.5])
def test_mean_eigenvalue_is_the_variance_of_the_features_given_k(alpha):
    """By Gauss-Hermite in k and in the bulk; masses and distributions on bulks above zero and down to it."""
    r, c, beta = 1.2, 1.1, 0.8
    z, p = np.polynomial.hermite_e.hermegauss(80)
    p = p / p.sum()
    values = np.tanh(r * z[:, None] + np.sqrt(c) * z)
    found = SpikedRandomFeatures(np.tanh, np.sin, r=r, gamma=0.9, c=c, beta=beta).spectrum(alpha=alpha, points=100)
    mean = alpha / beta * p @ (values**2 @ p - (values @ p) ** 2)
    assert found.weight @ found.x == pytest.approx(mean, rel=1e-5)  # small eigenvalues, where n < p, weigh little
    assert found.mass == pytest.approx(1, abs=1e-3) and found.atom == max(0.0, 1 - alpha / beta)
    assert found.cdf_at(found.x) == pytest.approx(found.cdf, abs=1e-12)
    assert found.density_at(found.x[::9]) == pytest.approx(found.density[::9], rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("r, c, alpha, beta, edge, mean, sd", CASES)
def test_published_numbers(r, c, alpha, beta, edge, mean, sd):
    spectrum = features(r, c, beta).spectrum(alpha=alpha)
    assert spectrum.converged and abs(spectrum.mass - 1) < 1e-9
    assert_allclose(spectrum.edges[0, 1], edge, atol=0.01)  # printed from a density cut at 1e-4
    assert_allclose(spectrum.outlier(1600), (mean, sd), atol=0.06)  # digits printed
    assert spectrum.finite_outliers().size == 0


@pytest.mark.slow
@pytest.mark.parametrize("r, c, alpha, beta", [case[:4] for case in CASES])
def test_eigenvalues_of_matrices(r, c, alpha, beta):
    model, d, draws = features(r, c, beta), 400, 10
    spectrum = model.spectrum(alpha=alpha)
    quantiles = np.array([0.1, 0.3, 0.5, 0.7, 0.9, 0.97])
    at = np.interp(quantiles, spectrum.cdf, spectrum.x)
    counts, ends, gaps = [], [], []
    for seed in range(draws):
        values, square = sampled_eigenvalues(model, alpha, d, seed)
        bulk = values[:-1]
        counts.append(np.searchsorted(bulk, at) / values.size)
        ends.append((bulk[0], bulk[-1]))
        mean, sd = spectrum.outlier(d)
        assert abs(values[-1] - mean) < 4 * sd
        gaps.append(values[-1] - mean - (square - mean_square(model) * alpha * d))
    # the cdf fluctuates as the sampled k do, 1/sqrt(n) a draw; its bias is a few eigenvalues
    error = np.std(counts, axis=0, ddof=1) / np.sqrt(draws)
    assert np.all(np.abs(np.mean(counts, axis=0) - quantiles) < 4 * error + 3 / (beta * d)) and np.all(error < 0.012)
    # soft edges: the last eigenvalues stay inside by about d^(-2/3) of the edge
    low, high = np.mean(ends, axis=0)
    assert 0.93 * spectrum.edges[0, 1] < high < 1.01 * spectrum.edges[0, 1]
    assert 0.95 * spectrum.edges[0, 0] < low < 1.6 * spectrum.edges[0, 0]
    # beyond the realised sum of mu0(k)^2, what is left of the largest eigenvalue is small against its O(1) correction
    assert abs(np.mean(gaps)) < 4 * np.std(gaps, ddof=1) / np.sqrt(draws) + 0.05
    assert np.std(gaps) < 0.1 * sd


def mean_square(model):
    return model.coefficients.weight @ model.coefficients.mu0**2


@pytest.mark.slow
@pytest.mark.parametrize("alpha, beta", [(2.0, 0.5), (0.3, 0.4), (1.0, 1.0), (0.5, 2.0)])
def test_moments_of_a_product_of_wisharts(alpha, beta):
    """sigma(x) = x: the bulk of X = x W0^T is a free product of two Marchenko-Pastur laws, whatever the spike."""
    spectrum = features(0.5, 1.0, beta, ov.linear).spectrum(alpha=alpha)
    found = [spectrum.weight @ spectrum.x**j for j in (1, 2, 3)]
    # S-transforms multiply: the moment series psi solves psi = (1 + psi)(1 + beta psi)(1 + psi p/n) (n/p) t, order by
    # order in t
    psi, one = np.zeros(4), np.eye(4)[0]
    for _ in range(3):
        right = np.convolve(np.convolve(one + psi, one + beta * psi), one + beta / alpha * psi)
        psi = np.concatenate([[0.0], alpha / beta * right[:3]])
    assert_allclose(found, psi[1:], rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(
    "r, c, alpha, beta, student",
    [
        (1.2, 1.1, 1.5, 1.0, np.tanh),
        (0.0, 1.0, 1.5, 2.0, np.tanh),
        (0.7, 1.2, 0.5, 1.0, np.sin),
        (3.0, 1.0, 9, 0.3, np.sin),
    ],
)
def test_stieltjes_transform_of_the_density_is_V2(r, c, alpha, beta, student):
    """(1/p) tr (K + lam)^-1 at lam > 0 from the fixed point of the test error, atom included."""
    model = features(r, c, beta, student)
    spectrum = model.spectrum(alpha=alpha, points=800)
    assert spectrum.converged
    assert_allclose(spectrum.atom, max(0, 1 - alpha / beta), atol=1e-15)
    for lam in (0.3, 3.0):
        total = spectrum.atom / lam + np.sum(spectrum.weight / (spectrum.x + lam))
        assert_allclose(total, model.solve(alpha=alpha, lam=lam).V2, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("alpha, beta", [(1.5, 1.0), (0.5, 1.0), (1.0, 1.0)])
def test_density_is_the_limit_of_the_complexresolvent(alpha, beta):
    """Positive, zero outside the edges, a square root inside, equal to the smoothed density but for O(eps)."""
    model = features(1.2, 1.1, beta, np.sin)
    spectrum = model.spectrum(alpha=alpha, points=1600)  # spacing well below the width of the Lorentzian
    low, high = spectrum.edges[0]
    assert np.all(spectrum.density > 0)
    assert_allclose(spectrum.density_at(spectrum.x[100::200]), spectrum.density[100::200], rtol=1e-9)
    assert np.all(spectrum.density_at([1.001 * high, 2 * high]) == 0)
    if low > 0:
        assert spectrum.density_at(0.999 * low) == 0
    near = spectrum.density_at(high * (1 - np.array([1e-6, 1e-8])))
    assert_allclose(near[0] / near[1], 10, rtol=1e-3)
    x, eps = np.array([0.3 * high, 0.7 * high]), 1e-6
    law = Law(model, alpha)
    v, converged = resolvent(law, x)
    assert np.all(converged) and np.all(v[0].imag > 0)
    F, _ = law(v, -x)
    assert np.max(np.abs(F)) < 1e-11
    # the measure itself, smoothed by a Lorentzian
    smooth = spectrum.weight @ (0.05 / ((x - spectrum.x[:, None]) ** 2 + 0.05**2))
    smooth += spectrum.atom * 0.05 / (x**2 + 0.05**2)
    assert_allclose(newton(law, v, -(x + 0.05j))[0][1].imag, smooth, rtol=1e-7)
    assert_allclose(newton(law, v, -(x + 1j * eps))[0][1].imag / np.pi, spectrum.density_at(x), rtol=1e-4)


@pytest.mark.parametrize("root", [np.nan, 1.0])
def test_every_interval_of_the_bulk_is_found(monkeypatch, root):
    """Where Newton's method finds nothing, or a double root in the bulk, here a point of the scan: brackets are halved.

    Of two intervals, and of one that begins at zero.
    """
    monkeypatch.setattr(edges, "root_near", lambda law, v, scale: root)
    for known in ([[1.3, 2.1], [5.2, 7.9]], [[0.0, 3.4]]):
        low, high = np.transpose(known)
        inside = lambda law, x: (np.any((x[:, None] >= low) & (x[:, None] < high), axis=1), np.zeros((2, x.size)))  # noqa: B023, E731
        monkeypatch.setattr(edges, "inside", inside)
        assert_allclose(edges.bulk_edges(SimpleNamespace(largest=20.0)), known, rtol=1e-11)


@pytest.mark.slow
def test_hard_edge_at_equal_sizes():
    """N = p: density x^(-1/2) at zero (with features that keep their variance at all k)."""
    spectrum = features(1.2, 1.1, 1.0, np.sin).spectrum(alpha=1.0)
    assert spectrum.edges[0, 0] == 0 and spectrum.atom == 0
    near = spectrum.density_at([1e-12, 1e-10])
    assert_allclose(near[0] / near[1], 10, rtol=1e-6)


@pytest.mark.slow
def test_samples_of_large_k_fill_the_gap():
    """N < p with tanh: features of saturated samples are nearly equal, so the bulk reaches down to zero."""
    model = features(1.2, 1.1, 1.0)
    spectrum = model.spectrum(alpha=0.5)
    assert spectrum.edges.shape == (1, 2) and spectrum.edges[0, 0] == 0 and spectrum.converged
    draws = [sampled_eigenvalues(model, 0.5, 400, seed)[0] for seed in range(10)]
    parts = [np.mean(values < 0.01) / 2 for values in draws]  # half of all eigenvalues are zero
    assert abs(spectrum.cdf_at(0.01) - 0.5 - np.mean(parts)) < 4 * np.std(parts) / 3
    assert np.mean(parts) > 6 * np.std(parts) / 3 and min(values[0] for values in draws) < 0.004


@pytest.mark.slow
def test_no_outlier_without_spike():
    assert features(0.0, 1.0, 1.0).spectrum(alpha=1.0, points=50).outlier(1000) is None


@pytest.mark.parametrize(
    "rows",
    [{}, {"rows": "orthonormal"}, {"bulk": np.repeat([0.4, 1.4], [40, 60])}],
    ids=["iid", "orthonormal", "given"],
)
def test_equations_at_a_positive_penalty_are_those_of_the_test_error(rows):
    """And their Jacobian is that of differences of second order."""
    model = features(1.2, 1.1, 0.8, **rows)
    point = model.solve(alpha=1.5, lam=0.3)
    law, v, h = Law(model, 1.5), np.array([[point.V1], [point.V2]]), 1e-5
    F, J = law(v, np.array([0.3]))
    assert_allclose(F, 0, atol=1e-11)
    for i, e in enumerate(h * np.eye(2)[:, :, None]):
        change = (law(v + e, np.array([0.3]))[0] - law(v - e, np.array([0.3]))[0])[:, 0] / (2 * h)
        assert any(np.allclose(change, x, rtol=1e-7, atol=1e-9) for x in (J[0, i], J[0, :, i]))


@pytest.mark.slow
@pytest.mark.parametrize("r, c, alpha, beta", [(1.2, 1.1, 1.5, 0.8), (2.0, 1.3, 0.8, 0.5)])
def test_orthonormal_rows_have_a_spectrum_of_their_own(r, c, alpha, beta):
    """Matrices, and the resolvent of the test error; independent rows reach far beyond (2.63 for 1.70)."""
    model, d = features(r, c, beta, rows="orthonormal"), 600
    spectrum = model.spectrum(alpha=alpha, points=200)
    assert spectrum.converged and spectrum.edges.shape == (1, 2)
    total = spectrum.atom / 0.3 + np.sum(spectrum.weight / (spectrum.x + 0.3))
    assert_allclose(total, model.solve(alpha=alpha, lam=0.3).V2, rtol=1e-9)
    values, _ = sampled_eigenvalues(model, alpha, d, 1)
    # one draw: the cdf fluctuates by 1/sqrt(n), soft edges lie d^(-2/3) inside
    for q in (0.1, 0.3, 0.5, 0.7, 0.9):
        assert abs(spectrum.cdf_at(np.quantile(values, q)) - q) < 0.03
    assert 0.95 * spectrum.top < values[-2] < 1.01 * spectrum.top
    mean, sd = spectrum.outlier(d)
    assert abs(values[-1] - mean) < 4 * sd
    assert features(r, c, beta).spectrum(alpha=alpha, points=50).top > 1.2 * spectrum.top


@pytest.mark.slow
def test_large_spikes_are_resolved(monkeypatch):
    """The rule over k follows the spike: a finer one changes nothing."""
    spectrum = features(7.0, 1.1, 0.8).spectrum(alpha=1.5, points=50)
    monkeypatch.setattr(resolvents, "RESOLVENT", resolvents.RESOLVENT._replace(relative_step=0.2))
    finer = features(7.0, 1.1, 0.8).spectrum(alpha=1.5, points=50)
    # samples of rare k, whose features are nearly equal, are few: they move the edge by 1e-4
    assert_allclose(spectrum.top, finer.top, rtol=5e-4)


@pytest.mark.slow
def test_polynomial_students_have_no_upper_edge(monkeypatch):
    model = features(0.5, 1.1, 0.8, lambda x: x + 0.1 * x**3)
    spectrum = model.spectrum(alpha=1.5, points=100)
    assert spectrum.edges[-1, 1] == np.inf and np.isfinite(spectrum.top) and "inf]" in repr(spectrum)
    assert spectrum.finite_outliers().size == 0 and spectrum.converged
    values, _ = sampled_eigenvalues(model, 1.5, 400, 0)
    mean, sd = spectrum.outlier(400)
    assert abs(values[-1] - mean) < 4 * sd  # n E[mu0^2] is beyond the bulk, whose end grows like a power of log n
    quantiles = np.quantile(values, [0.2, 0.5, 0.8, 0.95])
    assert_allclose(spectrum.cdf_at(quantiles), [0.2, 0.5, 0.8, 0.95], atol=0.02)  # one draw
    assert spectrum.cdf_at(1e9) == pytest.approx(1, abs=1e-3)
    # what is cut off does not matter: without the inner samples' tail nothing inside changes
    monkeypatch.setattr(resolvents, "RESOLVENT", resolvents.RESOLVENT._replace(max_k=6.0))
    assert_allclose(model.spectrum(alpha=1.5, points=100).cdf_at(quantiles), spectrum.cdf_at(quantiles), atol=1e-3)


@pytest.mark.parametrize(
    "student, unbounded",
    [(np.tanh, False), (np.sin, False), (ov.linear, False), (ov.relu, False), (lambda x: x * np.abs(x), True)],
)
def test_which_features_have_a_bound(student, unbounded):
    options = {} if isinstance(student, ov.Activation) else {"student_breakpoints": (0.0,)}
    assert Law(features(0.7, 1.2, 0.8, student, **options), 1.5).unbounded is unbounded


@pytest.mark.parametrize("rows, kap", [("iid", 0.0), ("iid", 1.3), ("orthonormal", -0.8)])
def test_condition_of_finite_outliers_is_the_determinant_of_the_readout(rows, kap):
    """At lam > 0 the same expression is the determinant of the (m, theta) system over its first entry."""
    model = features(1.5, 1.3, 0.7, rows=rows, kap=kap)
    law, lam = Law(model, 1.1), 0.4
    table, point = model.coefficients, model.solve(alpha=1.1, lam=lam)
    dmu0 = np.array([np.tanh(1.5 * k + np.sqrt(1.3) * NODES) @ (WEIGHTS * (NODES**2 - 1)) for k in table.k]) / 2.6
    u = table.k * table.mu1 + kap * dmu0
    den = table.weight / (1 + table.mu1**2 * point.V1 + table.mu2_squared * point.V2)
    Gam = model.beta * model.c * point.V2
    own = 1 - Gam * law.kappa * (den @ table.mu1**2) if rows == "orthonormal" else 1.0
    K = law.kappa * Gam / own
    A = np.array([[den @ table.mu0**2, den @ (table.mu0 * u)], [K * (den @ (table.mu0 * u)), 1 + K * (den @ u**2)]])
    assert_allclose(law.determinant(np.array([[point.V1], [point.V2]]))[0], own * np.linalg.det(A) / A[0, 0], rtol=1e-9)


BLOCKS = {"r": (0.7, 2.5), "c": (1.0, 1.6), "gamma": 0.9, "fractions": (0.4, 0.6)}
TWO_VALUES = np.repeat([0.5, 1.5], 50)  # of W0 W0^T; farther apart they all but leave a gap, which takes more points
SEVERAL = {
    "independent": {"beta": 1.0, **BLOCKS},
    "orthonormal": {"beta": 0.6, "rows": "orthonormal", **BLOCKS},
    "given": {"beta": 0.8, "r": 1.2, "c": 1.1, "gamma": 0.9, "bulk": TWO_VALUES},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SEVERAL)
def test_blocks_and_given_rows(name):
    """The resolvent of the test error at lam > 0; one draw, whose cdf fluctuates by 1/sqrt(n); its top eigenvalue."""
    model, alpha, d = SpikedRandomFeatures(np.tanh, np.sin, **SEVERAL[name]), 1.5, 400
    spectrum = model.spectrum(alpha=alpha, points=100)
    assert spectrum.converged and abs(spectrum.mass - 1) < 1e-6
    for lam in (0.02, 0.3, 2.0):
        total = spectrum.atom / lam + np.sum(spectrum.weight / (spectrum.x + lam))
        assert_allclose(total, np.sum(model.solve(alpha=alpha, lam=lam).V2), rtol=1e-6)
    rng, p = np.random.default_rng(3), round(model.beta * d)
    kind = {"independent": "sphere", "orthonormal": "orthonormal", "given": TWO_VALUES}[name]
    letter = (np.arange(p) >= 0.4 * p).astype(int) if np.ndim(model.r) else np.zeros(p, int)
    rows = np.sqrt(np.atleast_1d(model.c))[letter][:, None] * initial_rows(kind, p, d, rng)
    rows[:, 0] += np.atleast_1d(model.r)[letter]
    X = np.tanh(rng.standard_normal((round(alpha * d), d)) @ rows.T)
    values = np.linalg.eigvalsh(X.T @ X / p)
    for q in (0.1, 0.3, 0.5, 0.7, 0.9):
        assert abs(spectrum.cdf_at(np.quantile(values, q)) - q) < 0.015
    outlier = spectrum.outlier(d)
    assert abs(values[-1] - outlier.mean) < 4 * outlier.sd


def test_outlier_of_blocks():
    """Mean over 60 small matrices."""
    model, alpha, d, found = SpikedRandomFeatures(np.tanh, np.sin, **SEVERAL["independent"]), 1.0, 60, []
    rng, letter = np.random.default_rng(0), (np.arange(60) >= 24).astype(int)
    for _ in range(60):
        rows = np.sqrt(model.c)[letter][:, None] * initial_rows("sphere", 60, d, rng)
        rows[:, 0] += model.r[letter]
        X = np.tanh(rng.standard_normal((60, d)) @ rows.T)
        found.append(np.linalg.eigvalsh(X.T @ X / 60)[-1])
    spectrum = ov.static.spiked.spectrum.FeatureSpectrum(model, alpha, *[None] * 8, True)
    outlier = spectrum.outlier(d)
    assert abs(np.mean(found) - outlier.mean) < 4 * outlier.sd / np.sqrt(60)


def test_principal_functions_are_mixed_by_samples():
    """Rows that are all spike: X^T X is a sum of squares of two functions of k; its largest eigenvalue, sampled."""
    r, alpha, d, draws = np.array([0.5, 2.0]), 2.0, 200, 3000
    model = SpikedRandomFeatures(np.tanh, np.sin, r=r, c=1e-10, gamma=0.9, beta=1.0, fractions=[0.3, 0.7])
    f = np.sqrt([0.3, 0.7])[:, None] * np.tanh(r[:, None] * NODES)
    vectors = np.linalg.eigh((f * WEIGHTS) @ f.T)[1]
    k = np.random.default_rng(2).standard_normal((draws, round(alpha * d)))
    F = vectors.T @ (np.sqrt([0.3, 0.7])[:, None] * np.tanh(r[:, None] * k[:, None]))
    sums = F @ F.swapaxes(1, 2)
    mixing = (
        np.linalg.eigvalsh(sums)[:, -1] - sums[:, 1, 1]
    )  # what is left of the sum of the strongest function's squares
    spectrum = ov.static.spiked.spectrum.FeatureSpectrum(model, alpha, *[None] * 8, True)
    first = alpha * d * np.linalg.eigvalsh((f * WEIGHTS) @ f.T)[-1]
    # four standard errors, and what the next order of 1/n leaves
    found = spectrum.outlier(d).mean - first
    assert found == pytest.approx(mixing.mean(), abs=4 * mixing.std() / np.sqrt(draws) + 0.02 * mixing.mean())
    # of a standard deviation: 1/sqrt(2 draws), 1.3 %
    assert spectrum.outlier(d).sd == pytest.approx(np.linalg.eigvalsh(sums)[:, -1].std(), rel=0.06)
    assert mixing.mean() > 20 * mixing.std() / np.sqrt(draws)


def test_bad_input():
    model = features(1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="alpha = 0"):
        model.spectrum(alpha=0)
    with pytest.raises(ValueError, match="points = 3"):
        model.spectrum(alpha=1.0, points=3)
    with pytest.raises(ValueError, match="expected x > 0"):
        model.spectrum(alpha=1.0, points=50).density_at([0.0, 1.0])
