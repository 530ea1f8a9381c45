"""Spiked random features: one step, conditional coefficients, fixed point, limits, finite sizes, bad input."""

import dataclasses
import math
import pickle
import types

import numpy as np
import pytest
from helpers import agrees
from oracles import ridge_draw
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import erf as erf_function
from scipy.stats import norm

import overlaps as ov
from overlaps.static import SpikedRandomFeatures
from overlaps.static.spiked import ridge as _ridge
from overlaps.static.spiked.averages import QUADRATURE, hermite_moments
from overlaps.static.spiked.conditional import conditional
from overlaps.static.spiked.one_step import one_step, student_moments


def erf(x):
    return erf_function(x / np.sqrt(2))


def density(z):
    return math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)


def linear(x):
    return np.asarray(x, dtype=float)


def model(student=np.tanh, target=np.sin, r=1.2, c=1.1, gamma=0.9, beta=0.8, **options):
    return SpikedRandomFeatures(student, target, r=r, c=c, gamma=gamma, beta=beta, **options)


# one gradient step ----------------------------------------------------------------------------------------------------

STEPS = [
    (np.tanh, np.sin, 2, 1, 0.5, (2.167324752, 0.6780321444, 1.674602683)),
    (erf, erf, 1.5, 4, 1, (0.5363354984, 0.8902353670, 1.009233008)),
    (np.sin, np.tanh, 3, 2, 2, (0.6832721791, 0.8065138027, 1.088622310)),
]


@pytest.mark.parametrize("student, target, eta, alpha0, beta, golden", STEPS)
def test_golden_steps(student, target, eta, alpha0, beta, golden):
    step = one_step(student, target, eta_tilde=eta, alpha0=alpha0, beta=beta)
    assert np.allclose([step.r, step.gamma, step.c], golden, rtol=4e-10, atol=0)  # ten digits are given
    there = SpikedRandomFeatures.after_one_step(student, target, eta_tilde=eta, alpha0=alpha0, beta=beta)
    assert (there.r, there.gamma, there.c, there.step) == (step.r, step.gamma, step.c, step)
    other = one_step(student, target, eta_tilde=eta / beta, alpha0=alpha0, beta=beta, scaling="p")
    assert np.allclose([other.r, other.gamma, other.c], [step.r, step.gamma, step.c], rtol=1e-15)


def test_moments_of_activations():
    assert np.allclose(student_moments(np.tanh), [0.6057055096, 0.09752373809], rtol=2e-10)
    exact = math.exp(-0.5), (1 + math.exp(-2)) / 2 - math.exp(-1)
    assert np.allclose(student_moments(np.sin), exact, rtol=1e-13)
    exact = 1 / math.sqrt(math.pi), 2 / math.pi / math.sqrt(3) - 1 / math.pi
    assert np.allclose(student_moments(erf), exact, rtol=1e-12)
    assert np.allclose(student_moments(ov.erf), exact, rtol=1e-12)
    # a student with kinks, through its derivative: P(|z| < 1)
    clip = ov.Activation("clip", lambda x: np.clip(x, -1, 1), lambda x: (np.abs(x) < 1).astype(float))
    p = 2 * norm.cdf(1) - 1
    assert np.allclose(student_moments(clip, (-1, 1)), [p, p * (1 - p)], rtol=1e-13)
    values = hermite_moments(np.sign, "target", (0.0,))
    assert np.allclose(values, [0, math.sqrt(2 / math.pi), 0, 1], atol=1e-14)


def test_limits_of_the_step():
    options = {"eta_tilde": 1.5, "beta": 0.7}
    tau, h1, h1_star = 1.5 / 0.7, student_moments(np.tanh)[0], math.exp(-0.5)
    population = one_step(np.tanh, np.sin, alpha0=math.inf, **options)
    assert (population.gamma, population.c) == (1.0, 1.0) and population.r == pytest.approx(tau * h1 * h1_star)
    late = one_step(np.tanh, np.sin, alpha0=1e9, **options)
    assert np.allclose([late.r, late.gamma, late.c], [population.r, 1, 1], rtol=2e-9)
    assert one_step(np.tanh, lambda x: -np.sin(x), alpha0=math.inf, **options).gamma == -1.0
    none = SpikedRandomFeatures.after_one_step(np.tanh, np.sin, alpha0=0, **options)
    assert (none.r, none.c) == (0.0, 1.0)
    assert none.solve(alpha=1.0, lam=0.1).m == 0
    even = one_step(np.tanh, lambda x: np.cos(x) - math.exp(-0.5), alpha0=2.0, **options)
    assert even.gamma == 0.0 and even.r > 0
    noisy = one_step(np.tanh, np.sin, alpha0=2.0, noise=0.3, **options)
    assert noisy.h2_star == pytest.approx((1 - math.exp(-2)) / 2 + 0.09, rel=1e-13)


def test_noise_of_the_step_and_of_the_readout():
    options = {"eta_tilde": 1.5, "alpha0": 2.0, "beta": 1.0}
    both = SpikedRandomFeatures.after_one_step(np.tanh, np.sin, noise=0.3, **options)
    readout = SpikedRandomFeatures.after_one_step(np.tanh, np.sin, noise=0.3, step_noise=0.0, **options)
    clean = SpikedRandomFeatures.after_one_step(np.tanh, np.sin, **options)
    assert both.c > readout.c == clean.c
    assert readout.noise == both.noise == 0.3


# conditional coefficients ---------------------------------------------------------------------------------------------


def by_quadrature(student, target, r, c, gamma, k, points, student_points):
    """The seven functions at one k, by adaptive integration of their definitions."""
    rho = math.sqrt(1 - gamma**2)

    def average(f, at):
        inside = sorted({z for z in at if abs(z) < 10})
        return quad(lambda z: f(z) * density(z), -10, 10, points=inside or None, limit=500, epsabs=1e-13)[0]

    a = [(t - r * k) / math.sqrt(c) for t in student_points]
    b = [(t - gamma * k) / rho for t in points]
    mu0 = average(lambda z: student(r * k + math.sqrt(c) * z), a)
    mu1 = average(lambda z: z * student(r * k + math.sqrt(c) * z), a) / math.sqrt(c)
    second = average(lambda z: student(r * k + math.sqrt(c) * z) ** 2, a)
    dmu0 = average(lambda z: (z * z - 1) * student(r * k + math.sqrt(c) * z), a) / (2 * c)
    h = average(lambda z: target(gamma * k + rho * z), b)
    h1 = average(lambda z: z * target(gamma * k + rho * z), b)
    hh = average(lambda z: target(gamma * k + rho * z) ** 2, b)
    return mu0, mu1, second - mu0**2 - c * mu1**2, k * mu1 + 0.3 * dmu0, h, h1, hh


NAMES = ("mu0", "mu1", "mu2_squared", "u", "h", "h1", "hh")
PAIRS = [
    (np.tanh, np.sin, 1.2, 1.1, 0.9, (), ()),
    (np.tanh, lambda x: x**3 - 3 * x, 4.0, 2.0, -0.4, (), ()),
    (np.sin, np.sign, 0.8, 1.3, 0.99, (0.0,), ()),
    (ov.relu, lambda x: np.where(x > 0.3, 1.0, -1.0), 0.7, 0.6, 0.7, (0.3,), (0.0,)),
    (np.sign, lambda x: np.abs(x - 1) - np.abs(x + 1), 2.0, 0.5, 0.999, (-1.0, 1.0), (0.0,)),
]


@pytest.mark.parametrize("student, target, r, c, gamma, points, student_points", PAIRS)
def test_coefficients_against_adaptive_integration(student, target, r, c, gamma, points, student_points):
    table = conditional(student, target, r, c, gamma, points, student_points, kap=0.3)
    k = np.array([-3.0, -0.73, 0.0, 0.301, 1.9])
    found = table.at(k)
    exact = [by_quadrature(student, target, r, c, gamma, x, points, student_points) for x in k]
    for name, values in zip(NAMES, np.transpose(exact), strict=True):
        # adaptive integration promises 1e-13 of values up to 10
        assert np.allclose(getattr(found, name), values, rtol=1e-11, atol=1e-12), name
    assert found.weight is None and table.weight.sum() == pytest.approx(1, rel=1e-13)
    assert np.allclose([table.weight @ table.k, table.weight @ table.k**2], [0, 1], atol=1e-13)
    assert np.array_equal(table.at(table.k[5:9]).mu0, table.mu0[5:9])


def test_coefficients_in_closed_form():
    r, c, gamma = 1.3, 0.8, 0.6
    table = conditional(erf, np.sign, r, c, gamma)
    k, close = table.k, {"rtol": 0, "atol": 1e-13}
    assert np.allclose(table.mu0, erf_function(r * k / np.sqrt(2 * (1 + c))), **close)
    assert np.allclose(table.mu1, np.sqrt(2 / np.pi / (1 + c)) * np.exp(-((r * k) ** 2) / 2 / (1 + c)), **close)
    t = gamma * k / 0.8
    assert np.allclose(table.h, erf(t), **close) and np.allclose(table.hh, 1, **close)
    assert np.allclose(table.h1, np.sqrt(2 / np.pi) * np.exp(-t * t / 2), **close)
    table = conditional(np.sin, np.sin, r, c, 1.0)
    k = table.k
    assert np.allclose(table.mu0, np.exp(-c / 2) * np.sin(r * k), **close)
    assert np.allclose(table.mu1, np.exp(-c / 2) * np.cos(r * k), **close)
    second = (1 - np.exp(-2 * c) * np.cos(2 * r * k)) / 2
    assert np.allclose(table.mu2_squared, second - table.mu0**2 - c * table.mu1**2, **close)
    assert np.all(table.mu2_squared >= 0)
    assert np.array_equal(table.h, np.sin(k)) and not np.any(table.h1) and np.allclose(table.hh, table.h**2, rtol=1e-15)
    straight = conditional(linear, np.sin, r, c, gamma)
    assert np.max(straight.mu2_squared) < 1e-28  # no cancellation: exactly linear features have nothing left
    assert np.allclose(straight.mu0, r * straight.k, **close) and np.allclose(straight.mu1, 1, **close)


@pytest.mark.parametrize(
    "gamma", [0.0, 0.5, 0.99, 0.999999, 1 - 1e-9, 1 - 1e-13, 1.0, -1.0, -0.5, -0.99, -0.999999, 1e-9 - 1]
)
def test_rule_over_k_follows_sharp_steps(gamma):
    table = conditional(np.tanh, np.sign, 1.2, 1.1, gamma)
    # E[h^2] is the arcsine law of two signs with correlation gamma^2
    assert table.weight @ table.h**2 == pytest.approx(2 / np.pi * math.asin(gamma**2), abs=3e-11)
    total = gamma * (table.weight @ (table.k * table.h)) + table.source.rho * (table.weight @ table.h1)
    assert total == pytest.approx(math.sqrt(2 / np.pi), rel=1e-10)  # E[z sign(z)]


def test_moments_over_k_by_sampling(rng):
    table = conditional(np.tanh, np.sin, 1.2, 1.1, 0.7)
    k, z, s = rng.standard_normal((3, 400_000))
    x, y = np.tanh(1.2 * k + math.sqrt(1.1) * z), np.sin(0.7 * k + math.sqrt(0.51) * s)
    samples = {
        "mean": (x * y, table.weight @ (table.mu0 * table.h)),
        "slope": (x * z * y * s / math.sqrt(1.1), table.weight @ (table.mu1 * table.h1)),
        "features": (x * x, table.weight @ (table.mu0**2 + 1.1 * table.mu1**2 + table.mu2_squared)),
        "labels": (y * y, table.weight @ table.hh),
    }
    for name, (values, theory) in samples.items():
        assert abs(values.mean() - theory) < 5 * values.std() / math.sqrt(values.size), name


def test_steep_functions_are_resolved():
    """No jump, but far steeper than the first grid: E[target(x) erf(y)], with y integrated in closed form."""
    gamma, r, c = 0.8, 1.2, 1.1
    table = conditional(erf, lambda x: np.tanh(12 * x), r, c, gamma)
    slope = r * gamma  # Cov(x, y) for x ~ N(0, 1); y has the variance r^2 + c
    scale = slope / math.sqrt(1 + r * r + c - slope**2)
    exact = 2 * quad(lambda x: math.tanh(12 * x) * erf(scale * x) * density(x), 0, 9, epsabs=1e-13, limit=200)[0]
    assert table.weight @ (table.h * table.mu0) == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize("target", [np.sin, np.sign])
def test_large_tables_are_made_in_pieces(monkeypatch, target):
    whole = model(target=target, r=3.0, c=5.0).solve(alpha=1.3, lam=0.05)
    monkeypatch.setattr("overlaps.static.spiked.averages.QUADRATURE", QUADRATURE._replace(chunk=1000))
    pieces = model(target=target, r=3.0, c=5.0).solve(alpha=1.3, lam=0.05)
    assert pieces.mse == pytest.approx(whole.mse, rel=1e-12) and pieces.theta == pytest.approx(whole.theta, rel=1e-9)


@pytest.mark.parametrize("frequency", [3.0, 10.0, 25.1, 50.3, 100.0, 100.53, 201.0])
def test_fast_oscillations_are_not_aliased(frequency):
    """Resolved, or refused: grids that nest would agree on a slow wave instead."""
    try:
        table = conditional(np.tanh, lambda x: np.sin(frequency * x), 1.2, 1.1, 1.0)
    except ValueError as error:
        assert frequency > 60 and "two quadrature rules differ" in str(error)
    else:
        exact = frequency * math.exp(-(frequency**2) / 2)  # E[k sin(frequency k)]
        assert table.weight @ (table.k * table.h) == pytest.approx(exact, abs=1e-12)
        assert table.weight @ table.hh == pytest.approx((1 - math.exp(-2 * frequency**2)) / 2, rel=1e-12)
    try:
        h1, vs = student_moments(lambda x: np.sin(frequency * x))
    except ValueError as error:
        assert frequency > 60 and "grid" in str(error) or "two quadrature rules differ" in str(error)
    else:
        exact = frequency**2 * (1 + math.exp(-2 * frequency**2)) / 2
        assert h1**2 + vs == pytest.approx(exact, rel=1e-10)


# fixed point ----------------------------------------------------------------------------------------------------------

GOLDEN = [
    (np.tanh, np.sin, 1.2, 1.1, 0.9, 1.3, 0.8, 0.05,
     (0.09193475235, 0.02847826586, 1.019831370, 0.03863972006, 0.2801054231,
      0.2416068493, 0.2771565820, 3.277126737, 5.333427574)),
    (np.tanh, np.tanh, 0.65, 1.08, 0.56, 2, 1, 0.01,
     (0.1756421917, 0.04928734092, 0.9824627417, -0.0003433621285, 0.6381701995,
      0.6872360538, 1.220188756, 2.245685712, 6.417059067)),
    (erf, np.sign, 2, 1.2, 0.85, 0.5, 0.5, 0.1,
     (0.5646646896, 0.1145159490, 1.056257497, 0.007326110216, 0.2243654559,
      1.039266824, 0.7936651830, 5.857419711, 5.862742685)),
    (erf, np.sin, 1.5, 1, 1, 3, 2, 0.001,
     (0.02500766615, 0.007914799951, 0.8908992372, 0.4429605535, 0,
      0.03637090016, 0.4578888411, 5.607623655, 46.19108041)),
    (np.sin, np.tanh, 0.8, 1.3, 0.7, 0.4, 1.5, 0.2,
     (0.1992447970, 0.03063169773, 1.361383671, -0.01007391102, 0.1315404804,
      0.1263403486, 0.05868383371, 4.767457612, 4.199111983)),
]  # fmt: skip
ORDER = ("mse", "train", "m", "theta", "psi", "q1", "q2", "V1", "V2")


@pytest.mark.parametrize("student, target, r, c, gamma, alpha, beta, lam, golden", GOLDEN)
def test_golden_errors_and_order_parameters(student, target, r, c, gamma, alpha, beta, lam, golden):
    solution = model(student, target, r, c, gamma, beta).solve(alpha=alpha, lam=lam)
    found = [getattr(solution, name) for name in ORDER]
    assert np.allclose(found, golden, rtol=6e-10, atol=1e-13)  # ten digits are given
    assert solution.converged and solution.residual < 1e-13 and solution.iterations <= 8
    assert all(isinstance(x, float) for x in found)


def test_golden_learning_curve():
    there = SpikedRandomFeatures.after_one_step(np.tanh, np.sin, eta_tilde=3, alpha0=20, beta=1)
    curve = there.curve([0.2, 0.9, 1.6, 2.3, 3.0], lam=0.1)
    golden = [0.048482902, 0.042503929, 0.037311328, 0.034304665, 0.032518208]
    assert np.allclose(curve.mse, golden, atol=6e-10)
    assert curve.theta[3] == pytest.approx(0.0666, abs=1e-4)


TABLE = [  # target, eta_tilde, alpha0, beta, alpha, lam, mse, train: theory, to the digits given
    (np.sin, 2, 2, 1, 0.5, 0.1, 0.1725, 0.0258),
    (np.sin, 2, 2, 1, 0.5, 0.001, 0.3101, 0.00017),
    (np.sin, 2, 2, 1, 2.0, 0.1, 0.1199, 0.0522),
    (np.sin, 2, 2, 1, 2.0, 0.001, 0.1594, 0.0417),
    (np.sign, 1.5, 4, 0.5, 0.4, 0.05, 0.6608, 0.0534),
    (np.sign, 1.5, 4, 0.5, 1.5, 0.05, 0.5891, 0.2294),
    (np.tanh, 3, 1, 2, 0.5, 0.01, 0.1710, 0.00056),
    (np.tanh, 3, 1, 2, 3.0, 0.01, 0.0742, 0.0142),
    (np.sin, 6, 8, 2, 1.0, 0.1, 0.0550, 0.0160),
    (np.sin, 6, 8, 2, 3.0, 1.0, 0.0501, 0.0384),
    (np.tanh, 1, 0.5, 1, 1.6, 0.01, 0.2051, 0.0380),
    (np.tanh, 1, 0.5, 1, 3.0, 0.01, 0.1409, 0.0646),
]


@pytest.mark.parametrize("target, eta, alpha0, beta, alpha, lam, mse, train", TABLE)
def test_table_of_networks(target, eta, alpha0, beta, alpha, lam, mse, train):
    there = SpikedRandomFeatures.after_one_step(np.tanh, target, eta_tilde=eta, alpha0=alpha0, beta=beta)
    found = there.solve(alpha=alpha, lam=lam)
    assert abs(found.mse - mse) < 6e-5 and abs(found.train - train) < (6e-6 if train < 1e-3 else 6e-5)


def hermite_tables(student, target, r, c, gamma, n=120):
    """The coefficients from their definitions, by Gauss-Hermite rules of n nodes."""
    k, w = np.polynomial.hermite_e.hermegauss(n)
    w = w / w.sum()
    x, y = student(r * k[:, None] + math.sqrt(c) * k), target(gamma * k[:, None] + math.sqrt(1 - gamma**2) * k)
    mu0, mu1 = x @ w, x @ (w * k) / math.sqrt(c)
    return k, w, mu0, mu1, x**2 @ w - mu0**2 - c * mu1**2, y @ w, y @ (w * k), y**2 @ w


def finite_spectrum(tables, D, F, H, alpha, beta, lam, steps=4000):
    """The fixed point with the eigenvalues D of one matrix and projections F, H; plain iteration of all equations."""
    k, w, mu0, mu1, mu2, h, h1, hh = tables
    kappa, u = alpha / beta, k * mu1
    V1, V2, q1, q2, th, m, psi = np.mean(D) / lam, 1 / lam, 0.0, 0.0, 0.0, 0.0, 0.0
    for _ in range(steps):
        before = np.array([V1, V2, q1, q2, th, m, psi])
        den = 1 / (1 + mu1**2 * V1 + mu2 * V2)
        m = w @ (mu0 * (h - th * u) * den) / (w @ (mu0**2 * den))
        C = m * mu0 + th * u
        R = hh - 2 * C * h + C**2 - 2 * mu1 * psi * h1 + mu1**2 * q1 + mu2 * q2
        Vh1, Vh2 = kappa * w @ (mu1**2 * den), kappa * w @ (mu2 * den)
        qh1, qh2 = kappa * w @ (mu1**2 * R * den**2), kappa * w @ (mu2 * R * den**2)
        thh, psih = kappa * w @ (u * (h - C) * den), kappa * w @ (mu1 * h1 * den)
        S = lam + Vh1 * D + Vh2
        V1, V2 = np.mean(D / S), np.mean(1 / S)
        th, psi = 0.5 * (th + beta * thh * np.mean(F / S)), beta * psih * np.mean(H / S)
        inner = qh1 * D + qh2 + beta * (thh**2 * F + psih**2 * H)
        q1, q2 = np.mean(D * inner / S**2), np.mean(inner / S**2)
        now = np.array([V1, V2, q1, q2, th, m, psi])
        if np.max(np.abs(now - before)) < 1e-12 * np.max(np.abs(now)):
            break
    return w @ R, w @ (R * den**2), m, th, psi, q1, q2, V1, V2


@pytest.mark.slow
@pytest.mark.parametrize("d, p, alpha, lam", [(1000, 500, 0.6, 0.05), (1000, 500, 2.0, 0.01), (400, 800, 1.0, 0.1)])
def test_spectrum_of_one_matrix(rng, d, p, alpha, lam):
    r, c, gamma, beta = 1.2, 1.1, 0.9, p / d
    W0 = rng.standard_normal((p, d))
    W0 /= np.linalg.norm(W0, axis=1, keepdims=True)
    D, F = np.zeros(p), np.zeros(p)
    for j in range(6):  # each of six columns in turn is the part along the spike
        rest = np.delete(W0, j, axis=1)
        values, U = np.linalg.eigh(c * rest @ rest.T)
        D, F = D + values / 6, F + c * d * (U.T @ W0[:, j]) ** 2 / 6
    H = D * d / (d - 1)  # the mean over all directions orthogonal to the spike
    D, H = np.maximum(D, 0), np.maximum(H, 0)
    oracle = finite_spectrum(hermite_tables(np.tanh, np.sin, r, c, gamma), D, F, H, alpha, beta, lam)
    solution = model(r=r, c=c, gamma=gamma, beta=beta).solve(alpha=alpha, lam=lam)
    found = np.array([getattr(solution, name) for name in ORDER])
    # spectra of single matrices fluctuate by 1/d; F, an average of 6 chi-squares per index, by 1/sqrt(6 p)
    tolerance = np.array([1.5, 3, 1.5, 60, 3, 6, 6, 3, 3]) / d
    assert np.all(np.abs(found / oracle - 1) < tolerance), (found / oracle - 1).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("alpha, beta, lam", [(1.3, 0.8, 1.0), (1.0, 1.0, 1e-2), (0.5, 2.0, 0.1), (3.0, 0.5, 1e-3)])
def test_marchenko_pastur_by_plain_iteration(alpha, beta, lam):
    """V1 and V2 by the printed iteration with g from the quadratic equation, and moments of the law by integration."""
    here = model(beta=beta)
    table, c, kappa = here.coefficients, 1.1, alpha / beta
    V1, V2 = c / lam, 1 / lam
    for _ in range(5000):
        den = table.weight / (1 + table.mu1**2 * V1 + table.mu2_squared * V2)
        Vh1, Vh2 = kappa * den @ table.mu1**2, kappa * den @ table.mu2_squared
        z = (lam + Vh2) / (c * Vh1)
        g = np.max(np.roots([beta * z, z + 1 - beta, -1]))
        V1, V2 = (1 - z * g) / Vh1, g / (c * Vh1)
    solution = here.solve(alpha=alpha, lam=lam)
    # 1 - z g in this form loses digits
    assert np.allclose([solution.V1, solution.V2], [V1, V2], rtol=1e-11)
    low, high = (1 - math.sqrt(beta)) ** 2, (1 + math.sqrt(beta)) ** 2
    bulk = {}
    for power in (0, 1, 2):  # x^power / (lam + Vh1 c x + Vh2)^2 over the law of Y Y^T / d, in x = cos

        def integrand(t, power=power):
            x = 0.5 * (low + high) + 0.5 * (high - low) * math.cos(t)
            rho = (0.5 * (high - low) * math.sin(t)) ** 2 / (2 * math.pi * beta * x) if x > 0 else 0.0
            return rho * (c * x) ** power / (lam + Vh1 * c * x + Vh2) ** 2

        atom = max(0.0, 1 - 1 / beta) / (lam + Vh2) ** 2 if power == 0 else 0.0
        bulk[power] = quad(integrand, 0, math.pi, epsabs=0, epsrel=1e-11)[0] + atom
    D = _ridge.marchenko_pastur(c, beta, lam)(np.array([Vh1, Vh2])).D
    assert np.allclose(D, [[-bulk[2], -bulk[1]], [-bulk[1], -bulk[0]]], rtol=1e-9)


SETTINGS = [(0.5, 1.0, 0.1), (1.0, 1.0, 1e-4), (2.0, 1.0, 1e-2), (1.0, 3.0, 0.5), (2.0, 0.4, 3.0)]


def test_newtons_method_takes_the_steps_that_it_counts():
    """It converges quadratically: each residual is near the square of the one before, the third below rounding."""
    here = model(np.tanh, np.sin, 1.2, 1.1, 0.9, 0.8)
    steps = [here.solve(alpha=1.3, lam=0.05, iterations=n) for n in (1, 2, 3)]
    assert [x.iterations for x in steps] == [1, 2, 3] and [x.converged for x in steps] == [False, False, True]
    assert steps[1].residual < steps[0].residual ** 2 and steps[2].residual < 1e-12
    # one step more to see that nothing moves
    last = here.solve(alpha=1.3, lam=0.05)
    assert last.iterations == 4 and np.isclose(last.mse, steps[2].mse, rtol=1e-12)


@pytest.mark.parametrize("alpha, beta, lam", SETTINGS)
def test_the_minimum_of_the_objective_has_slope_q2(alpha, beta, lam):
    # d/dlam min_a [sum (y - yhat)^2 + lam |a|^2] = |a|^2, that is d(kappa train + lam q2)/dlam = q2
    here = model(beta=beta, noise=0.2)

    def objective(x):
        solution = here.solve(alpha=alpha, lam=math.exp(x))
        return alpha / beta * solution.train + math.exp(x) * solution.q2

    x, h = math.log(lam), 2e-3
    slope = (8 * (objective(x + h) - objective(x - h)) - objective(x + 2 * h) + objective(x - 2 * h)) / (12 * h)
    # fourth-order differences: h^4 and rounding 1e-15 / h
    assert slope / lam == pytest.approx(here.solve(alpha=alpha, lam=lam).q2, rel=1e-8)


# limits and invariants ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.9, 1.0])
def test_random_features_do_not_see_gamma(gamma):
    solution = model(r=0.0, c=1.0, gamma=gamma).solve(alpha=1.3, lam=0.05)
    assert solution.mse == pytest.approx(0.3315804706, rel=2e-10) and solution.m == 0
    # an infinitesimal spike still has norm sqrt(p) r: another limit
    assert model(r=1e-3, c=1.0, gamma=1.0).solve(alpha=1.3, lam=0.05).mse < 0.16


def test_published_values_of_small_spikes_and_random_features():
    assert model(r=1e-3, c=1.0, gamma=0.9).solve(alpha=1.3, lam=0.05).mse != pytest.approx(0.3315804706, rel=0.1)
    plain = model(r=0.0, c=1.1, gamma=0.3)
    for alpha, mse, train in ((0.4, 0.4567, 0.0208), (1.3, 0.3372, 0.0913)):
        solution = plain.solve(alpha=alpha, lam=0.05)
        assert abs(solution.mse - mse) < 6e-5 and abs(solution.train - train) < 6e-5


def test_strong_ridge_reaches_the_bound():
    for c, gamma, bound in ((1.0, 1.0, 0.01801106), (1.1, 0.9, 0.1073049)):
        here = model(c=c, gamma=gamma, beta=1.0)
        # V falls like 1/lam, and so does the distance from the bound
        assert here.solve(alpha=2, lam=1e9).mse == pytest.approx(bound, rel=5e-7)
        table = here.coefficients
        overlap, square = table.weight @ (table.h * table.mu0), table.weight @ table.mu0**2
        upper = table.weight @ table.hh - overlap**2 / square
        assert _ridge.strong_ridge(here._levels[0], 0.0) == pytest.approx(upper, rel=1e-12)
        assert here.solve(alpha=2, lam=1e9).m == pytest.approx(overlap / square, rel=1e-8)


def test_many_samples_and_a_wide_network_reach_the_whole_basis():
    assert model(c=1.0, gamma=1.0, beta=300.0).solve(alpha=3e4, lam=0.1).mse == pytest.approx(0.0049575, abs=6e-8)
    assert model(c=1.1, gamma=0.9, beta=300.0).solve(alpha=3e4, lam=0.1).mse == pytest.approx(0.0135564, abs=6e-8)


def test_perfect_learning():
    here = model(erf, erf, r=math.sqrt(2), c=1.0, gamma=1.0, beta=1.0)
    assert here.solve(alpha=1.0, lam=0.1).mse == pytest.approx(0, abs=1e-14)
    best = here.optimal_lam(1.0)
    assert best.lam == math.inf and abs(best.mse) < 1e-14


@pytest.mark.parametrize("scale", [-1.0, 0.3, 20.0])
def test_scale_and_sign_of_the_student(scale):
    one = model().solve(alpha=1.3, lam=0.05)
    other = model(lambda x: scale * np.tanh(x)).solve(alpha=1.3, lam=0.05 * scale**2)
    assert np.allclose([other.mse, other.train, other.m * scale], [one.mse, one.train, one.m], rtol=1e-11)


def test_sign_of_spike_and_alignment():
    one, other = (model(r=r, gamma=g).solve(alpha=1.3, lam=0.05) for r, g in ((1.2, 0.9), (-1.2, -0.9)))
    # the same problem with v -> -v, which changes the sign of b too
    assert np.allclose([other.mse, other.m, -other.theta], [one.mse, one.m, one.theta], rtol=1e-12)


def test_aligned_spike_has_no_orthogonal_part():
    solution = model(gamma=1.0).solve(alpha=1.3, lam=0.05)
    assert solution.psi == 0


def test_linear_student():
    solution = model(linear).solve(alpha=1.3, lam=0.05)
    assert solution.converged and 0 < solution.train < solution.mse
    # with a linear target too, infinite data leave what p < d random directions miss of the orthogonal part
    assert model(linear, linear, beta=0.8).solve(alpha=1e7, lam=1e-3).mse == pytest.approx(0.19 * 0.2, rel=1e-6)
    assert model(linear, linear, beta=1.5).solve(alpha=1e7, lam=1e-3).mse < 1e-6


@pytest.mark.parametrize("alpha", [1e3, 1e5, 1e7])
def test_readout_norm_of_a_linear_network(alpha):
    """|a|^2/p = theta (W^T W)^-1 theta = (1 - gamma^2) / (c (beta - 1)): along the spike it is free."""
    solution = model(linear, linear, beta=1.5).solve(alpha=alpha, lam=1e-3)
    assert solution.q2 == pytest.approx(0.19 / (1.1 * 0.5), rel=2 * 1e-3 + 1 / alpha)  # lam and 1/alpha of finite data
    assert solution.mse < 1e-6


def test_sharp_fixed_points_are_resolved():
    """A bulk so narrow that den(k) = 1/(1 + V) has peaks of width sqrt(c): closed forms of sin on a dense grid."""
    r, c, gamma, beta = 3.0, 0.01, 0.9, 0.8
    k = np.linspace(-9, 9, 40_001)
    weight = np.exp(-(k**2) / 2) / np.sum(np.exp(-(k**2) / 2))
    mu0, mu1 = math.exp(-c / 2) * np.sin(r * k), math.exp(-c / 2) * np.cos(r * k)
    rest = (1 - math.exp(-2 * c) * np.cos(2 * r * k)) / 2 - mu0**2 - c * mu1**2
    s = 1 - gamma**2
    h, h1 = math.exp(-s / 2) * np.sin(gamma * k), math.sqrt(s) * math.exp(-s / 2) * np.cos(gamma * k)
    hh = (1 - math.exp(-2 * s) * np.cos(2 * gamma * k)) / 2
    dense = _ridge.Features(
        types.SimpleNamespace(weight=weight, mu0=mu0, mu1=mu1, mu2_squared=rest, u=k * mu1, h=h, h1=h1, hh=hh)
    )
    here = model(np.sin, np.sin, r=r, c=c, gamma=gamma, beta=beta)
    for alpha, lam in ((1.5, 0.1), (0.5, 1e-4), (0.5, 1e-9)):
        exact = _ridge.fit(dense, here.response(lam), lam=lam, kappa=alpha / beta, beta=beta, noise=0.0, iterations=100)
        # rest is a difference of numbers of order one, 1e-16 of 5e-5
        assert here.solve(alpha=alpha, lam=lam).mse == pytest.approx(exact.mse, rel=1e-7), (alpha, lam)


def test_interpolation_peak_at_n_equal_p():
    alphas = np.linspace(0.4, 1.6, 25)
    curve = model(beta=1.0).curve(alphas, lam=1e-6)
    assert alphas[np.argmax(curve.mse)] == pytest.approx(1.0, abs=1e-9)
    assert np.all(curve.train[alphas < 0.9] < 3e-5) and np.all(curve.train[alphas > 1.1] > 1e-3)


def test_label_noise():
    clean, noisy = model(), model(noise=0.5)
    # the labels' variance adds to the test error, and fitting it costs more
    assert noisy.solve(alpha=1.3, lam=0.05).mse - 0.25 > clean.solve(alpha=1.3, lam=0.05).mse
    # the noise enters through hh alone: errors are affine in its variance
    errors = [model(noise=x).solve(alpha=1.3, lam=0.05).mse for x in (0.0, 1.0, math.sqrt(2))]
    assert errors[2] - errors[1] == pytest.approx(errors[1] - errors[0], rel=1e-11)
    assert noisy.solve(alpha=1.3, lam=1e10).mse == pytest.approx(clean.solve(alpha=1.3, lam=1e10).mse + 0.25, rel=1e-8)


@pytest.mark.parametrize("d", [np.inf, 90.0])
def test_a_constant_beside_the_target_moves_the_bias_alone(d):
    bump = lambda x: x + 0.5 * (x * x - 1)  # noqa: E731
    here, there = (
        model(np.tanh, lambda x, a=a: bump(x) + a, bias=True, noise=0.3).solve(alpha=1.7, lam=0.2, d=d)
        for a in (0.0, 0.7)
    )
    k = np.array([-1.2, 0.3, 2.1])
    np.testing.assert_allclose(there.C(k), here.C(k) + 0.7, rtol=1e-9)
    assert there.b0 == pytest.approx(here.b0 + 0.7, rel=1e-9) and there.mse == pytest.approx(here.mse, rel=1e-9)


def test_what_odd_features_cannot_see_is_left_to_the_bias():
    """An even target beside features without a spike: at any penalty its variance and that of the noise are left."""
    blind = model(np.tanh, lambda x: 0.5 * (x * x - 1) + 0.7, r=0.0, bias=True, noise=0.3)
    best = blind.optimal_lam(1.7, d=90)
    assert best.lam == math.inf and best.mse == pytest.approx(0.5 + 0.09, rel=1e-9)


def test_bias_absorbs_the_mean_of_the_target():
    options = {"bias": True, "noise": 0.1}
    one = model(target=np.sin, **options).solve(alpha=1.3, lam=0.05)
    other = model(target=lambda x: np.sin(x) + 5.0, **options).solve(alpha=1.3, lam=0.05)
    assert np.allclose([other.mse, other.train, other.m], [one.mse, one.train, one.m], rtol=1e-9)
    assert one.b0 == pytest.approx(0, abs=1e-12) and other.b0 == pytest.approx(5, rel=1e-12)
    # an odd problem does not need the bias, another one does
    assert one.mse == pytest.approx(model(noise=0.1).solve(alpha=1.3, lam=0.05).mse, rel=1e-12)
    bump = model(target=np.abs, **options)
    assert bump.breakpoints == (0.0,)
    with_bias = bump.solve(alpha=2.0, lam=0.5)
    centred = model(target=lambda x: np.abs(x) - math.sqrt(2 / math.pi), breakpoints=(0.0,), noise=0.1)
    assert with_bias.b0 > 0.3 and with_bias.mse == pytest.approx(centred.solve(alpha=2.0, lam=0.5).mse, rel=0.3)
    assert bump.optimal_lam(2.0).lam == math.inf


# numerics -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha, beta", [(1.0, 1.0), (0.5, 1.0), (2.0, 1.0), (1.0, 0.3), (5.0, 5.0), (0.1, 4.0)])
def test_newton_needs_few_iterations(alpha, beta):
    for lam in (1.0, 1e-2, 1e-4, 1e-6, 1e-8):
        solution = model(beta=beta).solve(alpha=alpha, lam=lam)
        assert solution.converged and solution.iterations <= 15


def test_small_penalties_are_continuous():
    """The ridgeless limit is reached linearly in lam for n > p (for n < p saturated samples make it slower)."""
    for beta in (0.5, 1.0, 1.5):
        errors = [model(beta=beta).solve(alpha=2.0, lam=lam).mse for lam in (1e-9, 1e-10)]
        assert errors[0] == pytest.approx(errors[1], rel=1e-6)


def test_ends_of_the_formulas():
    # students without a linear part: x = c Vh1 = 0, the resolvent is 1 / (lam + Vh2)
    here = model(lambda x: x**2 - 1, lambda x: x**3 - 3 * x, r=0.0, c=1.0, beta=1.7)
    solution = here.solve(alpha=1.0, lam=0.1)
    table, kappa = here.coefficients, 1 / 1.7
    assert np.max(np.abs(table.mu1)) < 1e-13
    V2 = np.max(np.roots([2 * 0.1, 0.1 + 2 * (kappa - 1), -1]))  # V2 (lam + 2 kappa / (1 + 2 V2)) = 1
    assert solution.V2 == pytest.approx(V2, rel=1e-12) and solution.V1 == pytest.approx(V2, rel=1e-12)
    wide = model(beta=1e7).solve(alpha=1.0, lam=1.0)
    assert wide.converged and wide.mse > 0
    narrow = model(beta=1e-6).solve(alpha=1.0, lam=1e-3)
    assert narrow.converged and narrow.mse == pytest.approx(0.1073049, rel=1e-4)  # only the spike is left


def test_curve_continues_and_agrees_with_single_points():
    here = model()
    alphas, lams = np.linspace(0.2, 3.0, 8), np.geomspace(0.01, 1.0, 8)
    curve = here.curve(alphas, lams)
    assert len(curve) == 8 and np.all(curve.converged) and np.array_equal(curve.lam, lams)
    for i, (alpha, lam) in enumerate(zip(alphas, lams, strict=True)):
        solution = here.solve(alpha=alpha, lam=lam)
        # Newton stops at 1e-13 of log V, from different sides
        assert np.allclose([getattr(curve, x)[i] for x in ORDER], [getattr(solution, x) for x in ORDER], rtol=1e-10)


def test_non_convergence_is_reported(monkeypatch):
    cut = model().solve(alpha=0.8, lam=1e-8, iterations=1)
    assert not cut.converged and cut.residual > 1e-3 and cut.iterations == 1
    assert all(math.isnan(getattr(cut, name)) for name in ORDER)
    assert "not converged" in repr(cut)
    whole = _ridge.susceptibilities
    calls = []

    def fails_in_between(*args):
        calls.append(args)
        v, here, squares, residual, count = whole(*args)
        return v, here, squares, 1.0 if len(calls) in (2, 3) else residual, count

    monkeypatch.setattr(_ridge, "susceptibilities", fails_in_between)
    curve = model().curve([0.5, 1.0, 2.0], lam=0.1)
    assert curve.converged.tolist() == [True, False, True]  # the second point is tried twice
    assert np.isnan(curve.mse[1]) and np.all(np.isfinite(curve.mse[[0, 2]])) and "1 not converged" in repr(curve)


def test_optimal_penalty():
    here = model(noise=0.3)
    best = here.optimal_lam(2.0)
    brute = minimize_scalar(
        lambda x: here.solve(alpha=2.0, lam=math.exp(x)).mse, bounds=(-6, 6), method="bounded", options={"xatol": 1e-9}
    )
    assert best.mse == pytest.approx(brute.fun, rel=1e-12)
    assert math.log(best.lam) == pytest.approx(brute.x, abs=1e-5)  # flat: the root of rounding
    grid = np.geomspace(1e-6, 1e6, 49)
    assert best.mse <= np.min(here.curve(np.full(49, 2.0), grid).mse)
    # mu0 = target: only noise is left to fit
    assert model(erf, erf, r=math.sqrt(2), c=1.0, gamma=1.0, noise=0.3).optimal_lam(1.0).lam == math.inf
    perfect = model(erf, erf, r=math.sqrt(2), c=1.0, gamma=1.0).optimal_lam(1.0)
    assert perfect.lam == math.inf and 0 <= perfect.mse < 1e-15


def test_learned_function():
    here = model()
    solution = here.solve(alpha=1.3, lam=0.05)
    k = np.array([[-1.0, 0.0], [0.5, 2.0]])
    mean, table = solution.C(k), here.coefficients
    assert mean.shape == k.shape and mean[0, 1] == pytest.approx(0, abs=1e-14)
    assert solution.C(0.5) == pytest.approx(mean[1, 0], rel=1e-14)
    # the fixed point's own equation, E[mu0 (h - C) den] = 0
    den = table.weight / (1 + table.mu1**2 * solution.V1 + table.mu2_squared * solution.V2)
    assert den @ (table.mu0 * (table.h - solution.C(table.k))) == pytest.approx(0, abs=1e-13)


# records and bad input ------------------------------------------------------------------------------------------------


def test_records():
    here = model()
    assert repr(here) == "SpikedRandomFeatures(tanh, sin, r=1.2, c=1.1, gamma=0.9, beta=0.8)"
    assert dataclasses.replace(here, beta=2.0).beta == 2.0 and here == model() and here != model(r=1.3)
    assert repr(model(kap=-0.25)).endswith("beta=0.8, kap=-0.25)")
    solution = here.solve(alpha=1.3, lam=0.05)
    assert repr(solution) == "SpikedSolution(alpha=1.3, lam=0.05, mse=0.0919348, train=0.0284783)"
    assert pickle.loads(pickle.dumps(solution)) == solution
    with pytest.raises(dataclasses.FrozenInstanceError):
        here.beta = 1.0
    assert repr(here.curve([1.0, 2.0], 0.1)) == "SpikedCurve(2 points, mse 0.07672 to 0.09124)"
    library = model(ov.tanh, ov.erf)
    assert library.solve(alpha=1.0, lam=0.1).mse == model(np.tanh, erf).solve(alpha=1.0, lam=0.1).mse


@pytest.mark.parametrize(
    "options, message",
    [
        ({"gamma": 1.1}, "gamma"),
        ({"gamma": math.nan}, "gamma"),
        ({"beta": 0.0}, "beta"),
        ({"c": 0.0}, "c = "),
        ({"c": -1.0}, "c = "),
        ({"r": math.inf}, "r = "),
        ({"r": 1e5}, "a table needs"),
        ({"noise": -0.1}, "noise"),
        ({"fractions": (1.0,)}, "fractions"),
        ({"rows": "gaussian"}, "rows"),
        ({"rows": "orthonormal", "beta": 1.5}, "beta"),
        ({"target": lambda x: np.tanh(x) + 0.1}, "target has the mean 0.1"),
        ({"target": np.abs}, "target has the mean 0.797"),
        ({"target": np.cosh}, "target has the mean"),
        ({"target": math.sin}, "target fails on an array"),
        ({"target": lambda x: np.exp(x * x / 4.2) * x}, "target grows too fast"),
        ({"student": lambda x: np.sinh(x), "r": 3.0}, "student grows too fast"),
        ({"student": lambda x: np.sinh(x) ** 3, "r": 300.0}, "student grows too fast"),
        ({"student": "tanh"}, "student"),
        ({"breakpoints": "zero"}, "breakpoints"),
        ({"breakpoints": (math.nan,)}, "breakpoints"),
    ],
)
def test_bad_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        model(**options)


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sign(x),
        lambda x: np.where(x > 0.25, 1.0, -1.0) - 0.1,
        lambda x: np.abs(x) - math.sqrt(2 / math.pi),
        lambda x: np.tanh(x) + 0.05 * np.maximum(x - 1.5, 0),
        lambda x: np.round(x),
    ],
)
def test_undeclared_jumps_and_kinks_are_refused(f, gamma):
    with pytest.raises(ValueError, match=r"target .* breakpoints=\(t_1"):
        conditional(np.tanh, f, 1.2, 1.1, gamma)
    with pytest.raises(ValueError, match=r"student .* student_breakpoints=\(t_1"):
        conditional(f, np.sin, 1.2, 1.1, gamma)


def test_models_refuse_undeclared_jumps_too():
    with pytest.raises(ValueError, match="target .* breakpoints"):
        model(target=lambda x: np.sign(x))
    with pytest.raises(ValueError, match="student .* student_breakpoints"):
        model(lambda x: np.sign(x))


def test_declared_jumps_agree_with_known_ones():
    known = model(target=np.sign).solve(alpha=1.0, lam=0.1)
    declared = model(target=lambda x: np.where(x > 0, 1.0, -1.0), breakpoints=(0.0,)).solve(alpha=1.0, lam=0.1)
    assert declared.mse == pytest.approx(known.mse, rel=1e-13)
    harmless = model(breakpoints=(-0.4, 0.7)).solve(alpha=1.0, lam=0.1)  # none is there
    assert harmless.mse == pytest.approx(model().solve(alpha=1.0, lam=0.1).mse, rel=1e-10)
    assert model(target=np.sign, gamma=1.0).breakpoints == (0.0,)
    hinge = model(ov.leaky_relu(0.2), bias=True)
    assert hinge.student_breakpoints == (0.0,)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"student": np.cos}, "student .* not odd"),
        ({"student": ov.relu}, "student .* not odd"),
        ({"student": lambda x: np.tanh(x) + 1e-6 * x**2}, "student .* not odd"),
        ({"student": np.sign}, "student .* jumps"),
        ({"student": lambda x: np.clip(x, -1, 1)}, "student"),
        ({"student": lambda x: np.clip(x, -1, 1), "student_breakpoints": (-1, 1)}, "student .* kinks"),
        ({"target": lambda x: x**2}, "target has the mean 1"),
        ({"eta_tilde": -1.0}, "eta_tilde"),
        ({"alpha0": -1.0}, "alpha0"),
        ({"alpha0": math.nan}, "alpha0"),
        ({"beta": 0}, "beta"),
        ({"scaling": "n"}, "scaling"),
        ({"fractions": (0.5, 0.5)}, "fractions"),
    ],
)
def test_bad_steps(options, message):
    good = {"student": np.tanh, "target": np.sin, "eta_tilde": 1.0, "alpha0": 2.0, "beta": 1.0}
    arguments = {**good, **options}
    student, target = arguments.pop("student"), arguments.pop("target")
    with pytest.raises(ValueError, match=message):
        SpikedRandomFeatures.after_one_step(student, target, **arguments)


def test_bad_points():
    here = model()
    for alpha, lam, name in ((0, 1, "alpha"), (-1, 1, "alpha"), (1, 0, "lam"), (1, -0.1, "lam"), (1, math.nan, "lam")):
        with pytest.raises(ValueError, match=name):
            here.solve(alpha=alpha, lam=lam)
        with pytest.raises(ValueError, match=name):
            here.curve([alpha], lam)
    with pytest.raises(ValueError, match="alpha"):
        here.optimal_lam(0.0)
    with pytest.raises(ValueError, match="lam has shape"):
        here.curve([1.0, 2.0], [0.1])
    with pytest.raises(ValueError, match="alphas"):
        here.curve([], 0.1)
    with pytest.raises(ValueError, match="iterations"):
        here.solve(alpha=1.0, lam=0.1, iterations=0)


# finite size ----------------------------------------------------------------------------------------------------------


SIMULATIONS = [
    # target, r, c, gamma, beta, alpha, lam, noise, bias, d, draws
    (np.tanh, 0.793, 1.087, 0.694, 2.0, 3.0, 0.01, 0.0, False, 400, 8),
    (np.sin, 0.926, 1.084, 0.794, 1.0, 2.0, 0.1, 0.0, False, 500, 10),
    (np.sin, 1.2, 1.1, 0.9, 0.8, 0.5, 0.1, 0.3, False, 500, 10),
    (np.sign, 1.711, 1.219, 0.847, 0.5, 1.5, 0.05, 0.0, False, 500, 10),
    (np.sin, 0.0, 1.1, 0.9, 0.8, 1.3, 0.05, 0.0, False, 500, 10),
    (lambda x: 1 + np.sin(x) + 0.5 * (x**2 - 1), 1.2, 1.1, 0.9, 0.8, 1.3, 0.2, 0.1, True, 500, 10),
]


@pytest.mark.slow
@pytest.mark.parametrize("target, r, c, gamma, beta, alpha, lam, noise, bias, d, draws", SIMULATIONS)
def test_explicit_ridge_regression(rng, target, r, c, gamma, beta, alpha, lam, noise, bias, d, draws):
    p = round(beta * d)
    options = {"r": np.full(p, r), "c": np.full(p, c), "gamma": gamma, "alpha": alpha, "lam": lam, "d": d}
    here = model(np.tanh, target, r, c, gamma, beta, noise=noise, bias=bias)
    solution = here.solve(alpha=alpha, lam=lam, d=d)
    test, train, *_ = zip(
        *(ridge_draw(rng, np.tanh, target, noise=noise, bias=bias, **options) for _ in range(draws)), strict=True
    )
    assert agrees(test, solution.mse), (np.mean(test), solution.mse)
    assert agrees(train, solution.train), (np.mean(train), solution.train)


@pytest.mark.slow
def test_order_parameters_of_explicit_ridge_regression(rng):
    r, c, gamma, beta, alpha, lam, d = 1.2, 1.1, 0.9, 0.8, 2.0, 0.05, 500
    p = round(beta * d)
    options = {"r": np.full(p, r), "c": np.full(p, c), "gamma": gamma, "alpha": alpha, "lam": lam, "d": d}
    rows = []
    for _ in range(10):
        *_, a, W0 = ridge_draw(rng, np.tanh, np.sin, **options)
        B = math.sqrt(c) * W0
        overlaps = a @ B  # in units where a is sqrt(p) times smaller than in the order parameters
        rows.append([a.sum() / math.sqrt(p), overlaps[0], overlaps[1], np.sum(overlaps[1:] ** 2), np.sum(a**2)])
    rows = np.array(rows) * np.array([1, math.sqrt(1 / p), math.sqrt(1 / p), 1 / p, 1 / p])
    solution = model(r=r, c=c, gamma=gamma, beta=beta).solve(alpha=alpha, lam=lam, d=d)
    theory = [getattr(solution, x) for x in ("m", "theta", "psi", "q1", "q2")]
    for name, values, exact in zip(("m", "theta", "psi", "q1", "q2"), rows.T, theory, strict=True):
        assert agrees(values, exact), (name, values.mean(), values.std() / math.sqrt(10), exact)
    assert abs(theory[1]) > 5 * rows[:, 1].std() / math.sqrt(10)  # theta is seen, and does not vanish
