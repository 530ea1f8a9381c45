"""Late times in the differences of students and teachers: against the overlaps, 60 digits, exact decays."""

import dataclasses

import mpmath as mp
import numpy as np
import pytest
from helpers import few
from scipy.integrate import DOP853, Radau
from scipy.linalg import expm

import overlaps as ov
from overlaps.flow.differences import DifferenceSystem, path_nodes
from overlaps.flow.jacobian import Jacobian
from overlaps.flow.late_transition import can_transition, transition_error
from overlaps.flow.system import System
from overlaps.integrators.run import integrate

SPECTRUM = ov.power_law(beta=1.0, L=3)


def near_teacher(model, delta, rng, frame=None, N=30):
    """(state, U, F W*) of students F W* + U, U of standard deviation delta."""
    frame = np.eye(model.K) if frame is None else frame
    W_star = rng.standard_normal((model.M, N))
    U = delta * rng.standard_normal((model.K, N))
    learned = frame @ W_star
    return ov.State.from_weights(model, W=learned + U, W_star=W_star), U, learned


def drive(system, y, times, rtol=1e-10, method=DOP853):
    """Packed states at the times, the first of which belongs to y."""
    options = {"rtol": rtol, "atol": 1e-4 * rtol}
    run = integrate(system, y, np.asarray(times, float), every_step=False, method=method, options=options)
    assert run.success
    return np.array(run.y)


def plain_velocity(system, y):
    """Return dD (L, K, K), de (L, K, K) per unit alpha."""
    return system.differences(system.rhs(0.0, y))


# the right-hand side --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.1, 0.01])
@pytest.mark.parametrize("options", [{}, {"gradient_flow": True}, {"batch_size": 3}])
def test_same_flow_as_the_overlaps(activation, delta, options, rng):
    """The flow of q, r, transformed linearly to D = q - r/s - r^T/s + tau/s^2 and e = r - tau/s."""
    order = [2, 0, 1]
    v_star = np.array([1.0, 0.7, 1.2])
    frame = np.eye(3)[order]
    v = v_star[order]
    if activation is ov.erf:  # an odd unit may have learned a teacher with both signs reversed
        frame[1] *= -1
        v[1] *= -1
    model = ov.committee_machine(3, 3, activation=activation, spectrum=SPECTRUM, v=v, v_star=v_star, eta=0.3, **options)
    start, _, _ = near_teacher(model, delta, rng, frame)
    overlaps, system = System(model, start), DifferenceSystem(model, start, frame)
    y = system.pack(start)
    dq, dr, _ = overlaps.unpack(overlaps.rhs(0.0, overlaps.pack(start)))
    s = SPECTRUM.s[:, None, None]
    de = dr @ frame.T
    dD = dq - (de + de.swapaxes(1, 2)) / s
    got_D, got_e = plain_velocity(system, y)
    # dD is a sum of rounded terms of this size: 1e-13 of its largest entry at delta = 0.1
    terms = np.max(s) * np.max(np.abs(overlaps.A)) * np.max(np.abs(start.tau / s**2)) / np.min(s)
    np.testing.assert_allclose(got_D, dD, rtol=0, atol=1e-15 * terms)
    np.testing.assert_allclose(got_e, de, rtol=0, atol=1e-15 * terms)
    assert np.max(np.abs(dD)) > 1e-4 * delta**2 * terms  # not lost in the tolerance
    eps_g = ov.closure(model, start.Q, start.R, start.T, start.v).eps_g
    assert system.close(y) == pytest.approx(eps_g, rel=1e-15 / delta**2)
    np.testing.assert_allclose(system.S, start.S, atol=1e-14)
    for got, expected in zip(system.unpack(y), (start.q, start.r, start.v), strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-14)
    assert system.state(y).on(model) == system.state(y)


def high_precision_velocity(model, D, e, tau):
    """dD, de (L, K, K) and eps_g from the closed forms in Q, R, T, differences of numbers of order one in 60 digits."""
    K, code, w = model.K, model.activation.name, [mp.mpf(x) for x in (*model.v, *-model.v_star)]
    eta, s, p = mp.mpf(model.eta), [mp.mpf(x) for x in model.spectrum.s], [mp.mpf(x) for x in model.spectrum.p]
    D, e, tau = ([mp.matrix([[mp.mpf(x) for x in row] for row in block]) for block in array] for array in (D, e, tau))
    blocks, fields = range(len(s)), range(2 * K)
    r = [e[l] + tau[l] / s[l] for l in blocks]
    q = [D[l] + (e[l] + e[l].T) / s[l] + tau[l] / s[l] ** 2 for l in blocks]
    S = mp.zeros(2 * K)
    for l in blocks:
        S[:K, :K] += s[l] * q[l]
        S[:K, K:] += r[l]
        S[K:, :K] += r[l].T
        S[K:, K:] += tau[l] / s[l]

    def two_point(a, b, c):
        if code == "erf":
            root = mp.sqrt((1 + a) * (1 + b) - c * c)
            return (
                mp.asin(c / mp.sqrt((1 + a) * (1 + b))) * 2 / mp.pi,
                2 / mp.pi / root,
                -2 / mp.pi * c / (1 + a) / root,
            )
        return (c, mp.mpf(1), mp.mpf(0)) if code == "linear" else (a * b + 2 * c * c, 4 * c, 2 * b)

    def square(X):
        return mp.fsum(w[i] * w[j] * two_point(X[i, i], X[j, j], X[i, j])[0] for i in fields for j in fields)

    def second_order(k, j):  # E[g'_k g'_j Delta^2]
        if code == "linear":
            return square(S)
        if code == "erf":
            pair = mp.matrix([[1 + S[k, k], S[k, j]], [S[k, j], 1 + S[j, j]]])
            h = mp.matrix([[S[i, k], S[i, j]] for i in fields])
            return 2 / mp.pi / mp.sqrt(mp.det(pair)) * square(S - h * pair**-1 * h.T)
        G = S * mp.diag(w)
        trace, GG = mp.fsum(G[i, i] for i in fields), G * G
        X = (trace**2 + 2 * mp.fsum(GG[i, i] for i in fields)) * S + 4 * trace * G * S + 8 * GG * S
        return 4 * X[k, j]

    H = mp.zeros(K, 2 * K)
    C = mp.zeros(K)
    for i in range(K):
        for j in fields:
            f = two_point(S[i, i], S[j, j], S[i, j])
            H[i, j] += w[i] * w[j] * f[1]
            H[i, i] += w[i] * w[j] * f[2]
        for j in range(K):
            C[i, j] = eta**2 * w[i] * w[j] * second_order(i, j)
    A, B = -eta * H[:, :K], -eta * H[:, K:]
    de = [s[l] * A * r[l] + B * tau[l] for l in blocks]
    half = [s[l] * A * q[l] + B * r[l].T for l in blocks]
    dD = [half[l] + half[l].T + s[l] * p[l] * C - (de[l] + de[l].T) / s[l] for l in blocks]
    as_array = [np.array(x.tolist(), dtype=float) for x in (*dD, *de)]
    return np.array(as_array[: len(s)]), np.array(as_array[len(s) :]), float(square(S) / 2)


@pytest.mark.parametrize("delta", [1e-1, 1e-2, 1e-4, 1e-6, 1e-10, 1e-16])
def test_rounding_accuracy_at_any_difference(activation, delta, rng):
    """Against 60 digits; measured 1.4e-15 at worst, in every block."""
    v = [1.0, 0.5]
    spectrum = ov.Spectrum(s=[1.5, 0.5])
    model = ov.committee_machine(2, 2, activation=activation, spectrum=spectrum, v=v, v_star=v, eta=0.25)
    start, _, _ = near_teacher(model, 0.01, rng, N=8)
    system = DifferenceSystem(model, start, np.eye(2))
    y = system.pack(start)
    y *= (delta / system.size(y)) ** system.power
    with mp.workdps(60):
        dD, de, eps_g = high_precision_velocity(model, *system.differences(y), system.tau)
    got_D, got_e = plain_velocity(system, y)
    for got, expected in [*zip(got_D, dD, strict=True), *zip(got_e, de, strict=True)]:
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-14 * np.max(np.abs(expected)))
    assert system.close(y) == pytest.approx(eps_g, rel=5e-15)


@pytest.mark.parametrize("sigma", [1e-9, 4e-8, 4e-4, 9e-3, 0.04, 0.1, 0.2])
def test_number_of_nodes(sigma, rng):
    """The nodes chosen are enough, and one fewer is not: E[(g(a + d) - g(a))^2] with d = sigma xi as the integral."""
    model = ov.committee_machine(1, 1, eta=1.0)
    start, _, _ = near_teacher(model, 0.1, rng)
    system = DifferenceSystem(model, start, [[1.0]])
    system.close(system.pack(start))

    def value(rule):
        Z = np.array([[1.0, 0.3], [0.3, 1.0]])  # E[d d], E[d a], E[a a] in units of sigma
        return system._differences(Z, start.v, sigma, *rule, 1.0, True, system.A, system.B, system.C)

    def gauss(n):
        x, weight = np.polynomial.legendre.leggauss(n)
        return (x + 1) / 2, weight / 2

    n = len(path_nodes(sigma)[0])
    error = abs(value(gauss(n)) / value(gauss(12)) - 1)
    assert error < 2e-15
    if n > 2:
        assert abs(value(gauss(n - 1)) / value(gauss(12)) - 1) > 10 * error + 1e-15


# exact decays ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spectrum", [ov.isotropic(), ov.power_law(beta=0.7, L=5)])
def test_linear_network_to_1e_minus_25(spectrum, rng):
    """D_l obeys dD_l = -2 eta s_l D_l + eta^2 s_l p_l sum_k s_k D_k: a matrix exponential."""
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.8, spectrum=spectrum)
    start, U, _ = near_teacher(model, 0.02, rng)
    s, p = spectrum.s, spectrum.p
    D0 = np.sum(U.reshape(spectrum.L, -1) ** 2, axis=1) / U.size
    generator = -2 * model.eta * np.diag(s) + model.eta**2 * np.outer(s * p, s)
    slowest = np.max(np.linalg.eigvals(generator).real)
    times = np.linspace(0, np.log(1e-22) / slowest, 6)
    system = DifferenceSystem(model, start)
    eps_g = system.errors(drive(system, system.pack(start), times))
    exact = [s @ expm(generator * alpha) @ D0 / 2 for alpha in times]
    assert exact[-1] < 1e-25
    # 2 rtol |log x| = 5e-9 is what the scaled flow promises
    np.testing.assert_allclose(eps_g, exact, rtol=5e-9)


@pytest.mark.slow
def test_erf_decays_at_the_linearised_rate():
    """K = M = 2, T = 1: eps_g ~ exp(2 mu alpha), mu/a the larger eigenvalue of the matrix for the overlaps e.

    With D = 0, de/dalpha = -a [[1/3, w/4], [w/4, 1]] (e_11, e_12), w = sqrt 3, a = 2 eta/(sqrt 3 pi): section on late
    times of the theory of power-law spectra, at L = 1.
    """
    model = ov.committee_machine(2, 2, eta=0.5)
    W = np.array([[0.98, 0.006], [0.006, 0.98]])  # students in the span of the teachers, where decay is slowest
    start = ov.State.from_overlaps(model, Q=W @ W.T, R=W, T=np.eye(2))
    system = DifferenceSystem(model, start)
    times = np.arange(0.0, 6001.0, 100.0)
    y = drive(system, system.pack(start), times)
    eps_g = system.errors(y)
    w = np.sqrt(3)
    mu = -np.min(np.linalg.eigvalsh([[1 / 3, w / 4], [w / 4, 1.0]])) * 2 * model.eta / (w * np.pi)
    assert np.all(np.diff(eps_g) < 0) and np.all(eps_g > 0)
    # the next mode decays with 2 - w = 0.268 less its part of order eta, this one with 0.240: it is felt for long
    late = (eps_g < 1e-12) & (eps_g > 1e-22)
    assert late.sum() > 4
    np.testing.assert_allclose(np.diff(np.log(eps_g[late])) / 100, 2 * mu, rtol=1e-2)
    assert eps_g[-1] < 1e-100
    assert system.rhs(0.0, y[-1])[0] / y[-1, 0] == pytest.approx(mu, rel=1e-6)


@pytest.mark.slow
def test_power_law_handed_over_early_and_late():
    """To 1e-22 on eight eigenvalues: a later change of variables, another method, the overlaps themselves."""
    model = ov.committee_machine(2, 2, eta=0.5, spectrum=ov.power_law(beta=1.0, L=8))
    start = model.random_start(N=800, rng=3)
    traj = ov.solve(model, start, [400.0, 800.0, 1200.0], rtol=1e-12)
    first, second, _ = (DifferenceSystem(model, traj[i]) for i in range(3))
    early = drive(first, first.pack(traj[0]), [400.0, 800.0, 1200.0, 4000.0, 10000.0], method=Radau)
    eps_g = first.errors(early)
    # 1e-12 in Q and R is 2e-8 of eps_g = 7e-5 in the end: the overlaps are what limits the comparison
    np.testing.assert_allclose(eps_g[:3], traj.eps_g, rtol=1e-6)
    late = drive(second, second.pack(traj[1]), [800.0, 4000.0, 10000.0], rtol=1e-8)
    np.testing.assert_allclose(second.errors(late[1:]), eps_g[3:], rtol=1e-6)
    assert 0 < eps_g[-1] < 1e-20


@few("v", [[1.0, 1.0], [0.5, 1.0]], quick=1)
def test_quadratic_network_in_an_orthogonal_frame(v):
    """Two students that end in a rotated frame: different handovers and frames agree down to 1e-20."""
    v_star = [1.0, 0.7] if v[0] == 0.5 else v
    spectrum = ov.power_law(beta=0.5, L=2)  # several rates: learning ends away from the first frame
    model = ov.committee_machine(2, 2, activation=ov.quadratic, v=v, v_star=v_star, eta=0.02, spectrum=spectrum)
    traj = ov.solve(model, model.random_start(N=100, rng=1), [260.0, 300.0], rtol=1e-12)
    ends = []
    for i in range(2):
        system = DifferenceSystem(model, traj[i])
        F = system.frame
        np.testing.assert_allclose(F.T @ np.diag(v) @ F, np.diag(v_star), atol=1e-14)
        assert np.abs(F).min() > 0.04  # no permutation
        y, alpha, eps_g = system.pack(traj[i]), traj.alpha[i], []
        while len(eps_g) == 0 or eps_g[-1] > 1e-20:
            target = 100 * (alpha // 100 + 1)
            y = drive(system, y, [alpha, target])[-1]
            before = system.close(y)
            system, y = system.realigned(y)
            assert system.close(y) == pytest.approx(before, rel=1e-6)
            alpha, eps_g = target, [*eps_g, before]
        ends.append(eps_g[-1])
    assert 0 < ends[0] < 1e-20
    assert ends[0] == pytest.approx(ends[1], rel=1e-5)


@pytest.mark.parametrize("v", [[0.5, 1.5], [1.2, 0.7]])
def test_a_new_frame_changes_no_overlap(v, rng):
    """Of unequal second layers and eigenvalues, where a rotation and its inverse differ."""
    model = ov.committee_machine(2, 2, activation=ov.quadratic, v=v, v_star=v, eta=0.02, spectrum=SPECTRUM)
    root, c, s = np.sqrt(v), np.cos(0.06), np.sin(0.06)
    start, _, _ = near_teacher(model, 0.03, rng, np.array([[c, s], [-s, c]]) * root / root[:, None], N=300)
    system = DifferenceSystem(model, start, np.eye(2))
    y = system.pack(start)
    turned, z = system.realigned(y)
    assert turned is not system and np.abs(turned.frame - np.eye(2)).max() > 1e-2
    for found, wanted in zip(turned.unpack(z), (start.q, start.r, start.v), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-14)
    assert turned.close(z) == pytest.approx(system.close(y), rel=1e-12)


# the structured BDF ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.05, 1e-12])
def test_structured_newton_solve_is_the_dense_one(activation, delta, rng):
    """(1 - c J) x = b with J by central differences of the flow, in units of x: both have errors of about 1e-8."""
    model = ov.committee_machine(2, 2, activation=activation, spectrum=SPECTRUM, eta=0.25)
    start, _, _ = near_teacher(model, 0.05, rng)
    system = DifferenceSystem(model, start, np.eye(2))
    y = system.pack(start)
    y *= (delta / system.size(y)) ** system.power
    unit = system.unit(y)
    h = 1e-4
    J = np.empty((y.size, y.size))
    for i in range(y.size):
        dy = np.zeros(y.size)
        dy[i] = h * unit[i]
        J[:, i] = (system.rhs(0.0, y + dy) - system.rhs(0.0, y - dy)) / unit / (2 * h)
    c, b = 2.0, rng.standard_normal(y.size)
    newton = 1.0 - c * Jacobian(system, y)
    expected = np.linalg.solve(np.eye(y.size) - c * J, b)
    np.testing.assert_allclose(newton.solve(unit * b) / unit, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@pytest.mark.slow
def test_structured_late_times_on_many_eigenvalues():
    """512 eigenvalues to 1e-25, linear student, gradient flow: eps_g = sum_l s_l D_l exp(-2 eta s_l alpha) / 2."""
    spectrum = ov.power_law(beta=1.0, L=512)
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5, gradient_flow=True, spectrum=spectrum)
    start = model.random_start(N=5120, rng=1)
    q, r, t = (x[:, 0, 0] for x in start.plain)
    alpha = np.array([1e3, 1e4, 4e4])
    late = ov.solve(model, start, alpha, method="structured", late=True)
    decay = np.exp(-2 * model.eta * spectrum.s * alpha[:, None])
    exact = decay @ (spectrum.s * (q - 2 * r + t)) / 2
    assert late.success and exact[-1] < 1e-25
    # 2 rtol |log x| = 6e-7 for x = 1e-13, from BDF as from any method
    np.testing.assert_allclose(late.eps_g, exact, rtol=1e-6)


@pytest.mark.slow
def test_methods_agree_at_late_times():
    """The structured BDF and DOP853 on erf with every term, down to 1e-20; and eps_g = 0 where float64 ends."""
    model = ov.committee_machine(2, 2, eta=0.5, spectrum=ov.power_law(beta=1.0, L=8))
    start = model.random_start(N=800, rng=3)
    alpha = [1200.0, 3000.0, 6000.0]
    explicit = ov.solve(model, start, alpha, method="DOP853", rtol=1e-8, late=True)
    structured = ov.solve(model, start, [*alpha, 1e8], method="structured", rtol=1e-7, late=True)
    assert structured.success and explicit.eps_g[-1] < 1e-12
    np.testing.assert_allclose(structured.eps_g[:3], explicit.eps_g, rtol=1e-6)
    assert 0 <= structured.eps_g[3] < 1e-200


# handing over ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_divergence_of_the_differences_is_told():
    model = ov.committee_machine(1, 1, activation=ov.quadratic, eta=0.5)
    start = ov.State.from_overlaps(model, Q=[[1.0]], R=[[0.999]], T=[[1.0]])
    with pytest.warns(RuntimeWarning, match="blow up in finite time"):
        traj = ov.solve(model, start, np.linspace(0, 1, 6), method="structured", late=True)
    assert not traj.success and len(traj) == 4 and np.isfinite(traj.eps_g).all()
    assert "too large): try a smaller eta." in traj.message  # and no other method: this was the structured one


def test_handover_error_bounds_what_rounding_leaves(rng):
    model = ov.committee_machine(2, 2, eta=0.5)
    for delta in (1e-2, 1e-4, 1e-6):
        start, U, _ = near_teacher(model, delta, rng)
        frame, _ = can_transition(model, start)
        system = DifferenceSystem(model, start, frame)
        D, _ = system.differences(system.pack(start))
        exact = np.sum(U**2) / U.shape[1]
        error = abs(np.trace(D[0]) / exact - 1)
        # rounding of the sums over 30 coordinates adds to the rounding of the result
        assert error < 10 * transition_error(start, frame)
        variance = np.trace(start.Q + 2 * np.abs(start.R) + start.T)
        assert transition_error(start, frame) == pytest.approx(1.1e-16 * variance / exact, rel=0.02 + 1e-14 / delta**2)


def test_students_are_matched_with_signs(rng):
    v_star = np.array([0.7, 1.0, 1.2])
    frame = np.array([[0, 0, 1.0], [-1.0, 0, 0], [0, 1.0, 0]])
    model = ov.committee_machine(3, 3, v=frame @ v_star, v_star=v_star, eta=0.1, spectrum=SPECTRUM)
    start, _, _ = near_teacher(model, 0.01, rng, frame)
    got, sentence = can_transition(model, start)
    np.testing.assert_array_equal(got, frame)
    assert "differ by 0.0" in sentence


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"activation": ov.relu, "teacher_activation": ov.relu}, "relu"),
        ({"teacher_activation": ov.linear}, "activations differ"),
        ({"eta_v": 0.1}, "second layer"),
        ({"noise": 0.1}, "noise"),
        ({"weight_decay": 0.1}, "weight_decay"),
        ({"weight_decay": (0.03, 0.0)}, "weight_decay = 0.03"),
        ({"v_star": [1.0, 0.9]}, "does not reproduce"),
    ],
)
def test_settings_without_a_specialised_fixed_point(change, reason, rng):
    model = ov.committee_machine(2, 2, eta=0.5)
    start, _, _ = near_teacher(model, 0.01, rng)
    assert can_transition(model, start)[0] is not None
    changed = dataclasses.replace(model, **change)
    frame, sentence = can_transition(changed, start)
    assert frame is None and reason in sentence
    with pytest.raises(ValueError, match=reason):
        DifferenceSystem(changed, start)


def test_states_that_cannot_be_handed_over(rng):
    model = ov.committee_machine(2, 2, eta=0.5)
    start, _, _ = near_teacher(model, 0.5, rng)
    assert "specialised" in can_transition(model, start)[1]
    with pytest.raises(ValueError, match="teacher's output"):
        DifferenceSystem(model, start, 0.9 * np.eye(2))
    wide = ov.committee_machine(3, 2, eta=0.5)
    assert "K = 3" in can_transition(wide, wide.random_start(N=50, rng=1))[1]
    one = np.eye(2)
    with pytest.raises(ValueError, match="equal up to the rounding"):
        DifferenceSystem(model, ov.State.from_overlaps(model, Q=one, R=one, T=one))
    latent = dataclasses.replace(start, T=1.5 * start.T)
    assert "act on x" in can_transition(model, latent)[1]


def test_directions_without_variance_stay_as_they_are(rng):
    spectrum = ov.Spectrum(s=[1.5, 0.5, 0.0], p=[0.4, 0.4, 0.2])
    model = ov.committee_machine(2, 2, eta=0.5, spectrum=spectrum)
    start, _, _ = near_teacher(model, 0.01, rng)
    system = DifferenceSystem(model, start)
    y = drive(system, system.pack(start), [0.0, 500.0])[-1]
    q, r, _ = system.unpack(y)
    np.testing.assert_array_equal(q[2], start.q[2])
    np.testing.assert_array_equal(r[2], 0.0)
    assert 0 < system.close(y) < 1e-9


def test_the_least_floor_is_that_of_the_smallest_difference():
    """A difference below 1e-100 counts as this: eps_floor = E[g'^2] 1e-200, with g' = 1."""
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=1.0)
    start = ov.State.from_overlaps(model, Q=[[1.0]], R=[[0.3]], T=[[1.0]])
    late = ov.solve(model, start, [0.0, 480.0], late=True)
    assert late.success and late.eps_g[-1] < 1e-205
    assert late.eps_floor[-1] == pytest.approx(1e-200, rel=1e-6, abs=0.0)
