"""Linear students on data seen again: printed digits, Marchenko-Pastur's law, drawn data sets, limits, identities."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import overlaps as ov
from overlaps.theory import linear
from overlaps.theory.linear.companion import companion, edge

POWER = ov.power_law(beta=1.0, L=16)
STEEP = ov.Spectrum([2.3, 0.7, 0.2], [0.2, 0.3, 0.5])


def problem(spectrum, q, r, t=None, *, eta, noise=0.3, kappa=0.0, v=1.0, v_star=1.0, batch_size=1):
    """Model and start whose plain overlaps are q p, r p, t p in the units of the output."""
    model = ov.committee_machine(
        1, 1, activation=ov.linear, spectrum=spectrum, eta=eta, noise=noise, weight_decay=kappa, v=[v], v_star=[v_star],
        batch_size=batch_size,
    )  # fmt: skip
    p = spectrum.p
    q, r, t = (np.asarray(x * p)[:, None, None] for x in (q, r, 1.0 if t is None else t))
    return model, ov.State.from_blocks(model, q=q, r=r, t=t)


def marchenko_pastur(ratio, n=400):
    """Eigenvalues and weights of a sample covariance of unit inputs, midpoints in the angle (exact to rounding)."""
    c = 1 / ratio
    theta = np.pi * (np.arange(n) + 0.5) / n
    s = 1 + c + 2 * np.sqrt(c) * np.cos(theta)
    weight = 4 * c * np.sin(theta) ** 2 / (2 * c * s * n)
    return (s, weight) if ratio >= 1 else (np.append(s, 0.0), np.append(weight, 1 - ratio))


# printed and independent numbers --------------------------------------------------------------------------------------

ISOTROPIC = dict(q=0.6, r=0.1, eta=0.8)
GOLDEN = {
    "flow": (ov.isotropic(), ISOTROPIC | {"kappa": 0.05}, 2.0, [1, 4, 16], {}, dict(
        R=[0.525878979047, 0.810927157079, 0.908699981609], Q=[0.508827350654, 0.759475248764, 0.895451569993],
        eps_g=[0.228534696280, 0.068810467303, 0.039025803388], train=[0.143452797657, 0.037190506479, 0.024992310980],
    )),
    "sgd": (ov.isotropic(), ISOTROPIC | {"kappa": 0.05}, 2.0, [1, 4, 16], dict(method="sgd"), dict(
        eps_g=[0.326975730097, 0.102379226810, 0.054021465374], train=[0.260215679963, 0.068365006380, 0.040508845724],
    )),
    "descent": (ov.isotropic(), ISOTROPIC | {"kappa": 0.05}, 2.0, [1, 4, 16], dict(method="descent", step=0.4), dict(
        R=[0.593640000000, 0.825958976871, 0.909657226060], Q=[0.583971616000, 0.781817187445, 0.897213021104],
        eps_g=[0.198345808000, 0.064949616851, 0.038949284492], train=[0.108028288000, 0.034978396909, 0.024931553300],
    )),
    "interpolation": (ov.isotropic(), ISOTROPIC, 0.5, [1, 4, 16], {}, dict(
        R=[0.404511227446, 0.518732477319, 0.548627176058], Q=[0.650473582711, 0.813196937303, 0.885189114312],
        eps_g=[0.420725563909, 0.387865991332, 0.393967381098], train=[0.047672599923, 0.003267243112, 0.000017618671],
    )),
    "interpolating sgd": (ov.isotropic(), ISOTROPIC, 0.5, [1, 4, 16], dict(method="sgd"), dict(
        eps_g=[0.452959206360, 0.391041577743, 0.393983894525], train=[0.111462995093, 0.007469311702, 0.000035645535],
    )),
    "power law": (POWER, dict(q=0.5, r=0.1, eta=0.6, kappa=0.02), 2.0, [1, 20, 100], {}, dict(
        R=[0.812920940365, 0.959444120854, 0.972879408154], Q=[0.814226265260, 0.969242908396, 0.995333272511],
        eps_g=[0.094192192265, 0.025177333344, 0.024787228102], train=[0.109685542800, 0.032312303832, 0.025912238979],
    )),
    "power law, descent": (
        POWER, dict(q=0.5, r=0.1, eta=0.4, kappa=0.02), 2.0, [0.125, 3.125, 25], dict(method="descent", step=0.05),
        dict(
        R=[0.410326937345, 0.874328007926, 0.956182671738], Q=[0.448160888800, 0.875240734671, 0.964582089709],
        eps_g=[0.313753507055, 0.063292359409, 0.026108373116], train=[0.335657743682, 0.076942425350, 0.033932450567],
    )),
    "power law, sgd": (POWER, dict(q=0.5, r=0.1, eta=0.4, kappa=0.02), 2.0, [1, 4, 16], dict(method="sgd"), dict(
        eps_g=[0.148253209821, 0.073264917208, 0.039409753281], train=[0.165933584524, 0.086782124322, 0.048924983538],
    )),
}  # fmt: skip


@pytest.mark.parametrize("case", GOLDEN)
def test_printed_numbers(case):
    """Twelve digits that another program printed, by nodes of Marchenko-Pastur's law or another contour."""
    spectrum, setting, ratio, alpha, options, expected = GOLDEN[case]
    curve = linear.multi_pass(*problem(spectrum, **setting), ratio, alpha, **options)
    for name, numbers in expected.items():
        np.testing.assert_allclose(getattr(curve, name), numbers, rtol=0, atol=3e-12)


def sums(model, start, ratio, remaining):
    """R, Q and the training error (3, n) of inputs of one variance as averages over one law.

    ``remaining(x)`` is the share (n, nodes) of the start that is left where x is an eigenvalue with the penalty.
    """
    s, w = marchenko_pastur(ratio)
    v, v_star, noise, variance = model.v[0], model.v_star[0], model.noise, model.spectrum.s[0]
    q, r, t = (x[0, 0, 0] * y for x, y in zip(start.plain, (v**2, v * v_star, v_star**2), strict=True))
    s = s * variance
    x = s + model.weight_decay[0] / v**2
    f = remaining(x)
    g = (1 - f) / x
    u = s * g
    R = variance * ((f * r + u * t) @ w)
    Q = variance * ((f**2 * q + 2 * f * u * r + u**2 * t + noise**2 / ratio * s * g**2) @ w)
    rest = (s * (f**2 * q + 2 * f * (u - 1) * r + (u - 1) ** 2 * t)) @ w
    train = (rest + noise**2 * (1 - 1 / ratio + (1 - u) ** 2 @ w / ratio)) / 2
    return R / (v * v_star), Q / v**2, train


@pytest.mark.parametrize("ratio", [0.37, 1.0, 2.6])
def test_isotropic_inputs_follow_marchenko_and_pastur(ratio):
    """Everything is an average over one law; a = 1 has its edge at zero."""
    eta, alpha = 0.7, np.array([0.0, 0.9, 7.0, 40.0])
    model, start = problem(ov.isotropic(), 0.6, 0.15, 1.3, eta=eta, noise=0.4, kappa=0.13)
    curve = linear.multi_pass(model, start, ratio, alpha)
    R, Q, train = sums(model, start, ratio, lambda x: np.exp(-eta * np.multiply.outer(alpha, x)))
    np.testing.assert_allclose(curve.Q, Q, rtol=1e-12)
    np.testing.assert_allclose(curve.R, R, rtol=1e-12)
    np.testing.assert_allclose(curve.train, train, rtol=1e-11)


def test_descent_under_a_strong_penalty_follows_marchenko_and_pastur():
    """Steps of nearly the largest size: powers decay slowly at the edge of the data, and explode right beyond it.

    A contour that reaches further, by the penalty, loses all digits; this one leaves the 1e-10 that nodes aim at.
    """
    ratio, variance, kappa, v, counts = 2.6, 1.7, 4.7, 0.9, np.array([1, 40, 600])
    model, start = problem(
        ov.Spectrum([variance], [1.0]), 0.6, 0.15, 1.3, eta=0.8, noise=0.35, kappa=kappa, v=v, v_star=1.4
    )
    step = 0.999 * 2 / (variance * (1 + ratio**-0.5) ** 2 + kappa / v**2)
    alpha = counts * step / (model.eta * v**2)
    curve = linear.multi_pass(model, start, ratio, alpha, method="descent", step=step)
    known = sums(model, start, ratio, lambda x: (1 - step * x) ** counts[:, None])
    np.testing.assert_allclose([curve.R, curve.Q, curve.train], known, rtol=1e-10)


def test_sgd_with_replacement_is_one_pass_learning_on_the_spectrum_of_the_data():
    """Without a penalty and for a > 1; the Volterra equation is solved here by the modes of a rank-one matrix."""
    ratio, eta, noise, alpha = 2.7, 0.9, 0.35, np.array([0.4, 3.0, 12.0])
    s, w = marchenko_pastur(ratio, 200)
    curve = linear.multi_pass(
        *problem(ov.isotropic(), 0.6, 0.15, 1.3, eta=eta, noise=noise), ratio, alpha, method="sgd"
    )
    data = ov.Spectrum(s, w / w.sum())
    left, start = noise**2 * (1 - 1 / ratio), (0.6 - 0.3 + 1.3 + noise**2 / (ratio * s)) * data.p
    one_pass = linear.error(data, eta, alpha, noise=np.sqrt(left), m0=start)
    np.testing.assert_allclose(curve.train, one_pass + left / 2, rtol=1e-11)


def drawn(spectrum, N, ratio, model, start, rng):
    """A data set, its labels, a student and a teacher with exactly the overlaps of the start."""
    sizes = spectrum.block_sizes(N)
    X = rng.standard_normal((round(ratio * N), N)) * np.sqrt(np.repeat(spectrum.s, sizes))
    q, r, t = (x[:, 0, 0] * N for x in start.plain)
    w, w_star = np.zeros(N), np.zeros(N)
    for l, block in enumerate(np.split(np.arange(N), np.cumsum(sizes)[:-1])):
        frame = np.linalg.qr(rng.standard_normal((block.size, 2)))[0]
        w_star[block] = frame[:, 0] * np.sqrt(t[l])
        along = r[l] / np.sqrt(t[l])
        w[block] = frame @ [along, np.sqrt(q[l] - along**2)]
    y = X @ w_star / np.sqrt(N) + model.noise * rng.standard_normal(len(X))
    return X, y, w, w_star


def test_flow_on_drawn_data_sets():
    """Ten data sets at N = 200, whose mean is off by O(1/N): within three standard errors and a share of 1/N."""
    rng, N, ratio, alpha, kappa = np.random.default_rng(3), 200, 1.4, np.array([0.7, 5.0]), 0.05
    model, start = problem(STEEP, 0.6, 0.2, 1.2, eta=0.6, noise=0.5, kappa=kappa)
    curve = linear.multi_pass(model, start, ratio, alpha)
    found = []
    for _ in range(10):
        X, y, w0, w_star = drawn(STEEP, N, ratio, model, start, rng)
        e, U = np.linalg.eigh(X.T @ X / len(X))
        f = np.exp(-0.6 * np.multiply.outer(alpha, e + kappa))
        w = (f * (U.T @ w0) + (1 - f) / (e + kappa) * (U.T @ (X.T @ y) * np.sqrt(N) / len(X))) @ U.T
        s = np.repeat(STEEP.s, STEEP.block_sizes(N))
        test = (s * (w - w_star) ** 2).sum(1) / (2 * N)
        found.append([test, ((w @ X.T / np.sqrt(N) - y) ** 2).mean(1) / 2])
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(10)
    assert np.all(np.abs(mean - [curve.eps_g, curve.train]) < 3 * error + 0.5 / N)


@pytest.mark.slow
def test_descent_and_sgd_on_drawn_data_sets():
    rng, N, ratio, eta, kappa, b = np.random.default_rng(5), 400, 1.4, 0.6, 0.05, 2
    model, start = problem(STEEP, 0.6, 0.2, 1.2, eta=eta, noise=0.5, kappa=kappa, batch_size=b)
    alpha = np.array([1.5, 6.0])
    s = np.repeat(STEEP.s, STEEP.block_sizes(N))
    for method, options in (("descent", {"step": 0.3}), ("sgd", {})):
        curve, found = linear.multi_pass(model, start, ratio, alpha, method=method, **options), []
        for _ in range(16):
            X, y, w, w_star = drawn(STEEP, N, ratio, model, start, rng)
            record, steps = [], np.rint(alpha * (eta / 0.3 if method == "descent" else N)).astype(int)
            for k in range(1, steps[-1] + 1):
                if method == "descent":
                    w = w - 0.3 * (X.T @ (X @ w / np.sqrt(N) - y) * np.sqrt(N) / len(X) + kappa * w)
                else:
                    rows = rng.integers(len(X), size=b)
                    delta = X[rows] @ w / np.sqrt(N) - y[rows]
                    w = w - eta / np.sqrt(N) * delta @ X[rows] / b - eta * kappa / N * w
                if k in steps:
                    delta = X @ w / np.sqrt(N) - y
                    record.append([(s * (w - w_star) ** 2).sum() / (2 * N), (delta @ delta) / (2 * len(X))])
            found.append(record)
        mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(16)
        assert np.all(np.abs(mean - np.transpose([curve.eps_g, curve.train])) < 3 * error + 1 / N), method


# limits and invariances -----------------------------------------------------------------------------------------------


def test_endless_data_is_one_pass_learning():
    model, start = problem(STEEP, 0.6, 0.2, eta=0.8)
    eta, m0 = linear.reduce(model, start)
    alpha = np.array([0.5, 4.0, 30.0])
    flow, sgd = (linear.multi_pass(model, start, 1e9, alpha, method=method) for method in ("flow", "sgd"))
    np.testing.assert_allclose(flow.eps_g, linear.flow_error(STEEP, eta, alpha, m0=m0), rtol=0, atol=1e-8)
    np.testing.assert_allclose(sgd.eps_g, linear.error(STEEP, eta, alpha, m0=m0, noise=0.3), rtol=0, atol=1e-8)
    np.testing.assert_allclose(sgd.train, sgd.eps_g + 0.3**2 / 2, rtol=0, atol=1e-8)


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(st.floats(0.2, 5.0), st.sampled_from(["flow", "descent", "sgd"]), st.floats(0.0, 0.4))
def test_invariances(ratio, method, kappa):
    """Splitting a block, a block without weight, v and v*, units of the inputs: the same numbers."""
    options, alpha = {"step": 0.12} if method == "descent" else {}, 0.12 / 0.3 * np.array([0, 2, 11])

    def curve(spectrum, q=0.6, r=0.2, t=1.2, **changes):
        setting = dict(eta=0.3, kappa=kappa) | changes
        return linear.multi_pass(*problem(spectrum, q, r, t, **setting), ratio, alpha, method=method, **options)

    first = curve(STEEP)
    c, v, v_star = 1.7, 0.6, -1.4
    same = {
        "split": curve(ov.Spectrum([2.3, 0.7, 0.7, 0.2, 5.0], [0.2, 0.1, 0.2, 0.5, 0.0])),
        "readouts": curve(
            STEEP, 0.6 / v**2, 0.2 / (v * v_star), 1.2 / v_star**2, v=v, v_star=v_star, eta=0.3 / v**2,
            kappa=kappa * v**2,
        ),
    }  # fmt: skip
    if method == "flow":  # where a step has no length of its own
        scaled = ov.Spectrum(STEEP.s * c, STEEP.p)
        same["units"] = curve(scaled, 0.6 / c, 0.2 / c, 1.2 / c, eta=0.3 / c, kappa=kappa * c)
    for name, other in same.items():
        for x in ("eps_g", "train"):
            np.testing.assert_allclose(getattr(other, x), getattr(first, x), rtol=1e-9, atol=1e-11, err_msg=name)
    np.testing.assert_allclose(same["readouts"].Q * v**2, first.Q, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(same["readouts"].R * v * v_star, first.R, rtol=1e-9, atol=1e-11)


def test_large_batches_are_gradient_flow():
    setting = dict(q=0.6, r=0.2, t=1.2, eta=0.5, kappa=0.1)
    flow = linear.multi_pass(*problem(STEEP, **setting), 1.3, [1.0, 9.0])
    for b, most in ((10**4, 1e-4), (10**8, 1e-8)):
        sgd = linear.multi_pass(*problem(STEEP, **setting, batch_size=b), 1.3, [1.0, 9.0], method="sgd")
        assert 0 < np.max(np.abs(sgd.train - flow.train)) < most


def test_the_error_estimate_covers_the_error():
    """With eight nodes the estimate lies above the distance from the converged numbers."""
    model, start = problem(POWER, 0.5, 0.1, eta=0.6)
    exact = linear.multi_pass(model, start, 2.0, [1.0, 50.0])
    assert exact.error_estimate < 1e-10
    for nodes in (8, 12, 18):
        rough = linear.multi_pass(model, start, 2.0, [1.0, 50.0], nodes=nodes)
        distance = max(np.max(np.abs(getattr(rough, x) - getattr(exact, x))) for x in ("R", "Q", "train"))
        assert distance < rough.error_estimate < 1


def test_companion_transform_and_edge_of_drawn_data():
    """m(z) is the trace of a resolvent; the largest eigenvalue fluctuates by N^(-2/3)."""
    N, ratio = 1000, 2.0
    X = np.random.default_rng(7).standard_normal((int(N * ratio), N)) * np.sqrt(
        np.repeat(STEEP.s, STEEP.block_sizes(N))
    )
    e = np.linalg.eigvalsh(X.T @ X / len(X))
    z = np.array([-0.5 + 0.1j, 0.4 + 0.6j, 3.0 + 0.5j])
    m = [(np.sum(1 / (e - x)) - (len(X) - N) / x) / len(X) for x in z]
    np.testing.assert_allclose(companion(STEEP.s, STEEP.p, 1 / ratio, z), m, rtol=0.01)
    assert e[-1] == pytest.approx(edge(STEEP.s, STEEP.p, 1 / ratio), rel=5 * N ** (-2 / 3))


# bad input ------------------------------------------------------------------------------------------------------------


def test_rates_of_batches_diverge_beyond_three_times_those_of_one_sample():
    for share in (0.9, 1.001):
        model, start = problem(STEEP, 0.6, 0.2, eta=share * 3 * 2.0 / STEEP.mean, batch_size=3)
        if share > 1:
            with pytest.raises(ValueError, match="eta = .*expected below"):
                linear.multi_pass(model, start, 2.0, [1.0], method="sgd")
        else:
            assert 0 < linear.multi_pass(model, start, 2.0, [1.0], method="sgd", nodes=40).eps_g[0] < 10


def test_problems_outside_this_theory_are_refused():
    model, start = problem(STEEP, 0.6, 0.2, eta=0.5)
    for change, words in (
        (dict(ratio=0.0), "ratio"),
        (dict(alpha=[-1.0]), "alpha"),
        (dict(alpha=[np.inf]), "alpha"),
        (dict(method="momentum"), "method"),
        (dict(step=0.1), "step"),
        (dict(method="descent"), "step"),
        (dict(method="descent", step=0.1, alpha=[0.33]), "multiples of step/eta"),
        (dict(method="descent", step=5.0, alpha=[10.0]), "largest eigenvalue"),
        (dict(nodes=2), "nodes"),
    ):
        with pytest.raises(ValueError, match=words):
            linear.multi_pass(**(dict(model=model, start=start, ratio=2.0, alpha=[1.0]) | change))
    fast, start_fast = problem(STEEP, 0.6, 0.2, eta=2.0 / STEEP.mean * 1.001)
    with pytest.raises(ValueError, match="eta = .*expected below"):
        linear.multi_pass(fast, start_fast, 2.0, [1.0], method="sgd")
    erf = ov.committee_machine(1, 1, eta=0.5)
    with pytest.raises(ValueError, match="activation=ov.linear"):
        linear.multi_pass(erf, ov.State.from_overlaps(erf, Q=[[1.0]], R=[[0.1]], T=[[1.0]]), 2.0, [1.0])


def test_steps_of_descent_are_refused_from_where_they_diverge():
    """The largest eigenvalue of unit inputs is (1 + 1/sqrt(ratio))^2; weight decay, in units of v^2, adds to it."""
    ratio, kappa, v = 3.0, 0.4, 0.7
    most = 2 / ((1 + ratio**-0.5) ** 2 + kappa / v**2)
    model, start = problem(ov.isotropic(), 0.6, 0.1, eta=0.8, kappa=kappa, v=v)
    for share in (0.98, 1.02):
        step = share * most
        alpha = [40 * step / (model.eta * v**2)]
        if share > 1:
            with pytest.raises(ValueError, match="where gradient descent diverges"):
                linear.multi_pass(model, start, ratio, alpha, method="descent", step=step, nodes=40)
        else:
            assert linear.multi_pass(model, start, ratio, alpha, method="descent", step=step, nodes=40).Q[0] < 3
