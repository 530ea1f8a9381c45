"""Students of fixed norm at finite N, against explicit projected SGD, one variable in closed form, and runs."""

import numpy as np
import pytest
from helpers import few
from scipy.integrate import solve_ivp
from scipy.special import ndtri

import overlaps as ov
from overlaps.analysis.fixed_norms import mean_of_scaling, second_derivative
from overlaps.analysis.noise_covariance import FieldPoints, Increments, product_covariance
from overlaps.analysis.unknowns import Unknowns
from overlaps.flow.jacobian import Jacobian

HE3 = ov.polynomial([0, -3, 0, 1])
BLOCKS = ov.Spectrum([2.0, 0.5], [0.25, 0.75])
PARTS = dict(
    q=[[[0.2, 0.05], [0.05, 0.1]], [[0.3, 0.0], [0.0, 0.4]]], r=[[[0.1], [0.02]], [[0.05], [0.1]]], t=[[[0.3]], [[0.6]]]
)


def two(**options):
    """Two students, one teacher and two eigenvalues."""
    options = dict(activation=ov.quadratic, eta=0.1, eta_v=0.2, noise=0.3, v=[0.7, 0.4], batch_size=2) | options
    model = ov.committee_machine(2, 1, constraint="sphere", spectrum=BLOCKS, **options)
    return model, ov.State.from_blocks(model, **PARTS)


def one(R, g=ov.quadratic, eta=0.04, **options):
    """One student and one teacher of norm one."""
    model = ov.committee_machine(1, 1, activation=g, eta=eta, constraint="sphere", **options)
    return model, ov.State.from_overlaps(model, Q=[[1.0]], R=[[R]], T=[[1.0]])


def scaled(y, change, system, norms):
    """Overlaps y + change after every student is scaled to its norm, block by block."""
    q, r, v = system.unpack(y + change)
    f = np.sqrt(norms / np.einsum("lkk->k", q))
    return system.packing.pack(q * np.outer(f, f), r * f[:, None], v)


def test_second_order_of_the_scaling(rng):
    """The even part of the scaling of y + u, for u of either sign: a difference of second order."""
    model, start = two()
    unknowns = Unknowns(model, start, False)
    system = unknowns.system
    y, u, h = system.pack(start), rng.normal(size=unknowns.size), 1e-3
    sphere, norms = Jacobian(system, y).sphere, np.einsum("lkk->k", start.q)
    both = [scaled(y, x * u, system, norms) for x in (h, -h)]
    # truncation of order (h u / norm)^2, rounding 1e-16 / h^2
    found, known = mean_of_scaling(sphere, np.outer(u, u)), (sum(both) / 2 - y) / h**2
    np.testing.assert_allclose(found, known, rtol=1e-4, atol=1e-8)
    P = unknowns.at(y).noise(np.eye(y.size)[None])[0]  # of white increments: P P^T
    moved = np.transpose([(scaled(y, h * e, system, norms) - scaled(y, -h * e, system, norms)) / (2 * h)
                          for e in np.eye(y.size)])  # fmt: skip
    np.testing.assert_allclose(P, moved @ moved.T, atol=1e-4)


def test_second_derivative_of_the_flow_on_spheres(rng):
    """Along one direction, against differences of the flow itself; norms change on the way."""
    model, start = two()
    unknowns = Unknowns(model, start, False)
    system = unknowns.system
    y, d, h = system.pack(start), rng.normal(size=unknowns.size), 1e-3
    tangent, free = unknowns.at(y), Unknowns(ov.committee_machine(
        2, 1, spectrum=BLOCKS, activation=ov.quadratic, eta=0.1, eta_v=0.2, noise=0.3, v=[0.7, 0.4], batch_size=2
    ), start, False).system  # fmt: skip

    def bend(system):
        return (system.rhs(0.0, y + h * d) - 2 * system.rhs(0.0, y) + system.rhs(0.0, y - h * d)) / h**2

    sphere = tangent.jacobian.sphere
    found = second_derivative(sphere, bend(free), tangent.jacobian.free(), np.outer(d, d))
    np.testing.assert_allclose(found, bend(system), rtol=1e-4, atol=1e-8)  # (h d / norm)^2, and 1e-16 / h^2


def test_covariance_of_a_projected_step():
    """One step with explicit inputs in two blocks, scaled back: 2e5 samples, errors of .5 % of the scales."""
    model, start = two(activation=ov.erf, eta=1.2, batch_size=1)
    unknowns = Unknowns(model, start, False)
    y = unknowns.system.pack(start)
    tangent, points = unknowns.at(y), FieldPoints.of(model, 2**14, np.random.default_rng(1))
    products = product_covariance(model, points, tangent.S, tangent.v)
    D = tangent.noise(Increments(unknowns)(unknowns.blocks(y), tangent.C, products))[0]
    rng, n, N = np.random.default_rng(5), 200_000, 1e6
    plain = [np.block([[q, r], [r.T, t]]) for q, r, t in zip(*start.plain, strict=True)]
    h = [rng.standard_normal((n, 3)) @ np.linalg.cholesky(s * S).T for s, S in zip(BLOCKS.s, plain, strict=True)]
    total = sum(h)
    delta = ov.erf.g(total[:, :2]) @ model.v - ov.erf.g(total[:, 2]) - 0.3 * rng.standard_normal(n)
    F = -1.2 * model.v * ov.erf.dg(total[:, :2]) * delta[:, None]
    q = np.array([S[:2, :2] + (F[:, :, None] * x[:, None, :2] + x[:, :2, None] * F[:, None]
                  + s * p * F[:, :, None] * F[:, None]) / N
                  for S, x, s, p in zip(plain, h, BLOCKS.s, BLOCKS.p, strict=True)])  # fmt: skip
    r = np.array([s * (S[:2, 2] + F * x[:, 2:] / N) for S, x, s in zip(plain, h, BLOCKS.s, strict=True)])
    f = np.sqrt(np.einsum("lkk->k", start.q) / np.einsum("lnkk->nk", q))
    q, r = q * f[:, :, None] * f[:, None], r * f
    u = N * np.concatenate([[r[l][:, k] for k in range(2) for l in range(2)],
                            [q[l][:, i, j] for i, j in ((0, 0), (0, 1), (1, 1)) for l in range(2)],
                            -0.2 / N * (ov.erf.g(total[:, :2]) * delta[:, None]).T])  # fmt: skip
    sampled = np.cov(u)
    scale = np.sqrt(np.outer(np.diag(sampled), np.diag(sampled)))
    assert np.max(np.abs(D - sampled) / scale) < 0.02  # four errors: products of four fields
    assert np.max(np.abs(unknowns.at(y).jacobian.sphere.reads @ D)) < 1e-14  # norms do not move


def test_one_variable_by_quadrature():
    """Phase retrieval on the sphere: R alone moves. Its noise, and its mean to order 1/N, from exact steps.

    The step is R' = (R + F nu/N) / sqrt(1 + 2 F lambda/N + F^2 |x|^2/N^2), |x|^2 = N - 2 + lambda^2 + z^2 on average.
    """
    eta, x, w = 0.06, *np.polynomial.hermite_e.hermegauss(12)  # polynomials of degree 16 and less at order 1/N^2
    (lam, z), weight = np.meshgrid(x, x), np.outer(w, w) / w.sum() ** 2

    def moments(R):
        nu = R * lam + np.sqrt(1 - R**2) * z
        F = -2 * eta * lam * (lam**2 - nu**2)
        u = F * nu - R * (2 * F * lam + F**2) / 2
        D = np.sum(weight * u**2) - np.sum(weight * u) ** 2

        def mean(e):
            return np.sum(
                weight * (R + e * F * nu) / np.sqrt(1 + e * (2 * F * lam + F**2 * (1 + e * (lam**2 + z**2 - 2))))
            )

        e = 1e-4
        return D, (mean(e) + mean(-e) - 2 * R) / (2 * e**2)  # rounding 1e-16 / e^2; the next order e^2

    def velocity(alpha, y):
        R, V, m = y
        a = 4 * eta * (1 - 6 * eta)
        f, df, ddf = a * R * (1 - R**2), a * (1 - 3 * R**2), -6 * a * R
        D, c = moments(R)
        return [f, 2 * df * V + D, df * m + ddf * V / 2 + c - df * f / 2]

    R, V, m = solve_ivp(velocity, (0, 4), [0.3, 0, 0], rtol=1e-9, atol=1e-12).y[:, -1]
    model, start = one(0.3, eta=eta)
    fluct = ov.fluctuations(ov.solve(model, start, [0.0, 4.0], rtol=1e-11), 1000)
    assert fluct.trajectory.R[-1, 0, 0] == pytest.approx(R, rel=1e-8)
    assert 1000 * fluct.std("R")[-1, 0, 0] ** 2 == pytest.approx(V, rel=1e-6)
    assert 1000 * (fluct.mean("R")[-1, 0, 0] - R) == pytest.approx(m, rel=1e-5)
    # eps_g = 2 (1 - R^2), T = Q = 1
    assert fluct.std("eps_g")[-1] == pytest.approx(4 * R * fluct.std("R")[-1, 0, 0], rel=1e-8)
    assert 1000 * (fluct.mean("eps_g") - fluct.trajectory.eps_g)[-1] == pytest.approx(-4 * R * m - 2 * V, rel=1e-5)
    assert fluct.std("Q").max() < 1e-9  # a root of rounding


def projected_sgd(model, start, N, steps, runs, rng):
    """Overlaps Q, R and errors of explicit SGD in ``runs`` copies, erf units, norms restored after each step."""
    K, s = model.K, np.repeat(model.spectrum.s, np.rint(model.spectrum.p * N).astype(int))
    W, W_star = [], []
    for q, r, t in zip(*start.plain, strict=True):
        S = np.block([[q, r], [r.T, t]])
        n = int(np.sum(s == model.spectrum.s[len(W)]))
        frames = np.linalg.qr(rng.standard_normal((runs, n, len(S))))[0]
        rows = np.sqrt(N) * np.linalg.cholesky(S) @ frames.swapaxes(1, 2)
        W.append(rows[:, :K])
        W_star.append(rows[:, K:])
    W, W_star = np.concatenate(W, axis=2), np.concatenate(W_star, axis=2)
    norms = np.sum(W**2, axis=2, keepdims=True)
    for _ in range(steps):
        x = np.sqrt(s) * rng.standard_normal((runs, N))
        lam, nu = (np.einsum("rkn,rn->rk", w, x) / np.sqrt(N) for w in (W, W_star))
        delta = ov.erf.g(lam) @ model.v - ov.erf.g(nu) @ model.v_star - model.noise * rng.standard_normal(runs)
        W = W - model.eta * (model.v * ov.erf.dg(lam) * delta[:, None])[:, :, None] * x[:, None] / np.sqrt(N)
        W *= np.sqrt(norms / np.sum(W**2, axis=2, keepdims=True))
    return (np.einsum("rkn,n,rmn->rkm", W, s, w) / N for w in (W, W_star))


def test_explicit_projected_sgd():
    """NumPy, N = 40, one unit of time: covariances of 1500 runs are known to 4 %, and the expansion to 1/N."""
    model, start = two(activation=ov.erf, eta=1.5, eta_v=0.0, batch_size=1)
    fluct = ov.fluctuations(ov.solve(model, start, [0.0, 1.0]), 40, points=2**12)
    Q, R = projected_sgd(model, start, 40, 40, 1500, np.random.default_rng(2))
    for name, values in (("Q", Q), ("R", R)):
        flat, K = values.reshape(1500, -1), fluct.covariance(name)[1]
        known = K.reshape(flat.shape[1], -1)
        scale = np.sqrt(np.outer(np.diag(known), np.diag(known)))
        assert np.max(np.abs(np.cov(flat.T) - known) / scale) < 3.5 * np.sqrt(2 / 1500) + 1 / 40
        error = flat.std(axis=0) / np.sqrt(1500)
        assert np.max(np.abs(flat.mean(axis=0) - fluct.mean(name)[1].ravel()) / error) < 3.5


@pytest.mark.slow
@pytest.mark.parametrize("N", [100, 400])
@pytest.mark.parametrize("case", ["blocks", "relu", "random"])
def test_runs_on_spheres(case, N):
    """300 runs of the reduced simulator: standard deviations within four of their errors, 1/sqrt(600), and 1/N."""
    if case == "random":
        model = ov.committee_machine(2, 2, eta=1.0, noise=0.1, constraint="sphere")
        start = ov.State.from_overlaps(model, Q=np.eye(2), R=np.zeros((2, 2)), T=np.eye(2))
    else:
        model, start = two(activation=ov.relu if case == "relu" else ov.erf, eta=0.5, eta_v=0.3)
    alpha, runs = [0.0, 1.0, 4.0], 300
    fluct = ov.fluctuations(ov.solve(model, start, alpha), N, start="random" if case == "random" else "fixed")
    begin = None if case == "random" else start
    sgd = ov.simulate(model, N=N, alpha=alpha, rng=5, start=begin, runs=runs, method="reduced")
    for name in ("Q", "R", "v", "eps_g"):
        x, std, mean = getattr(sgd, name)[:, 1:], fluct.std(name)[1:], fluct.mean(name)[1:]
        moving = std > 1e-8
        spread, shift = np.std(x, axis=0, ddof=1)[moving], (np.mean(x, axis=0) - mean)[moving]
        assert np.all(np.abs(spread / std[moving] - 1) < 4 / np.sqrt(2 * runs) + 4 / N)
        assert np.all(np.abs(shift) < 4 * std[moving] / np.sqrt(runs))
    assert np.ptp(np.einsum("xnlkk->xnk", sgd.q), axis=1).max() < 1e-12  # every run keeps its norms


@few("start", ["fixed", "random"])
def test_times_from_the_equator_in_closed_form(start):
    """R^2 is a logistic curve of the rate 2 lambda = 8 eta (1 - 6 eta), and D of R is 48 eta^2 at R = 0.

    So kappa = D/(2 lambda), and T(x) = ln[(1 - x^2)/x^2]/(2 lambda) to eps_g = 1, R^2 = 1/2, with x of
    variance (1 + kappa)/N or kappa/N.
    """
    model, equator = one(0.0)
    law = ov.theory.escape(model, "random" if start == "random" else equator, 500, points=64)
    rate, kappa = 4 * 0.04 * (1 - 0.24), 0.24 / (1 - 0.24)
    assert law.modes == 1 and law.rate == pytest.approx(rate, rel=1e-9) and law.kappa == pytest.approx(kappa, rel=1e-6)
    assert law.plateau == pytest.approx(2.0) and law.level == pytest.approx(1.0)
    x = ndtri((np.arange(4096) + 0.5) / 4096) * np.sqrt((kappa + (start == "random")) / 500)
    x = x[np.abs(x) < np.sqrt(0.5)]
    times = np.sort(np.log((1 - x**2) / x**2) / (2 * rate))
    np.testing.assert_allclose(law.times[-len(times) :], times, rtol=1e-4)
    assert ov.solve(model, equator, [0.0, 1.0]).escape(500, points=64).mean == pytest.approx(
        ov.theory.escape(model, equator, 500, points=64).mean
    )


@pytest.mark.slow
@pytest.mark.parametrize("N", [200, 1000])
@pytest.mark.parametrize("case", ["phase retrieval", "blocks", "rule", "two"])
@pytest.mark.parametrize("start", ["fixed", "random"])
def test_sgd_escapes_from_the_equator(case, N, start):
    """Mean time of 300 runs within three errors, and what the law leaves out for random starts, .09 of 1/rate."""
    if case == "rule":  # correlation loss of he2, as in ``theory.rules.escape``

        def force(lam, nu, xi, theta, S, F, G):
            F[0] = (nu[0] ** 2 - 1) * lam[0]

        def error(lam, nu, theta):
            return 2 - (lam[0] ** 2 - 1) * (nu[0] ** 2 - 1)

        model, end = ov.learner(ov.Rule(force, K=1, M=1, error=error), eta=0.1, constraint="sphere"), 60
    elif case == "two":
        model, end = ov.committee_machine(2, 2, eta=1.0, constraint="sphere"), 250
    else:
        more = dict(spectrum=ov.Spectrum([1.6, 0.4], [0.5, 0.5]), noise=0.2, batch_size=2) if case == "blocks" else {}
        model, end = one(0.0, **more)[0] if not more else ov.committee_machine(
            1, 1, activation=ov.quadratic, eta=0.04, constraint="sphere", **more), 80  # fmt: skip
    p = np.array(model.spectrum.p)[:, None, None]
    equator = ov.State.from_blocks(model, q=p * np.eye(model.K), r=0 * p * np.ones((model.K, model.M)),
                                   t=p * np.eye(model.M))  # fmt: skip
    begin = "random" if start == "random" else equator
    law = ov.theory.escape(model, begin, N, points=2**12)
    alpha, runs = np.arange(0, end + 0.25, 0.5), 300
    sgd = ov.simulate(model, N=N, alpha=alpha, rng=3, start=None if start == "random" else equator, runs=runs,
                      method="reduced")  # fmt: skip
    times = np.nan_to_num(sgd.escape(law.level), nan=end)
    expected, error = np.minimum(law.times, end).mean(), times.std() / np.sqrt(runs)
    assert abs(times.mean() - expected) < 3 * error + 0.09 * (start == "random") / law.rate


def test_plateau_of_phase_retrieval():
    plateau = ov.plateau(one(0.0)[0])
    assert plateau.rates == pytest.approx([0.1216], rel=1e-8) and plateau.height == pytest.approx(2.0)
    assert "one student, R = 0; 1 growing mode" in repr(plateau)
    model, start = one(1e-6)
    (waited,) = ov.solve(model, start, (0, 250)).plateaus()
    assert waited.height == pytest.approx(2.0) and waited.growing == 1


def test_what_no_mode_leaves_is_refused_by_its_reason():
    """He3: nothing to first order, also from R = .05 above the threshold 96 eta, whose saddle is no plateau."""
    for R in (0.0, 0.05):
        model, start = one(R, HE3, 0.0005)
        with pytest.raises(ValueError, match="the information exponent of the target is 3 or more.*random_start"):
            ov.theory.escape(model, start, 1000)
    with pytest.raises(ValueError, match="no plateau: no overlap grows to first order at R = 0"):
        ov.plateau(model)
    model, start = one(0.0, eta=0.2)  # above 1/6
    for call in (lambda: ov.plateau(model), lambda: ov.theory.escape(model, "random", 1000)):
        with pytest.raises(ValueError, match="R = 0 is stable: at eta = 0.2 the noise of the steps is stronger"):
            call()


@few("g, bend", [(ov.quadratic, True), (HE3, False)])
def test_errors_at_the_equator_vanish_to_first_order(g, bend):
    """R scatters, with the variance of a linear process; eps_g has a mean by its curvature, or none at order 1/N."""
    eta = 0.04 if bend else 0.0005
    model, start = one(0.0, g, eta)
    with pytest.warns(RuntimeWarning, match="no slope along the fluctuations") as said:
        fluct = ov.fluctuations(ov.solve(model, start, [0.0, 5.0]), 1000)
    assert ("its mean is predicted" in str(said[0].message)) == bend
    x, w = np.polynomial.hermite_e.hermegauss(12)
    (lam, nu), weight = np.meshgrid(x, x), np.outer(w, w) / w.sum() ** 2
    F = -eta * model.activation.dg(lam) * (model.activation.g(lam) - model.activation.g(nu))
    D, C = np.sum(weight * F**2 * nu**2), np.sum(weight * F**2)
    rate = 0.1216 if bend else -C / 2  # of R: that of the plateau, or the noise alone
    variance = D * np.expm1(2 * rate * 5) / (2 * rate)
    assert 1000 * fluct.std("R")[-1, 0, 0] ** 2 == pytest.approx(variance, rel=1e-5)
    assert fluct.std("eps_g")[-1] == 0
    shift = 1000 * (fluct.mean("eps_g") - fluct.trajectory.eps_g)[-1]
    assert shift == pytest.approx(-2 * variance * bend, rel=1e-6, abs=1e-9)
