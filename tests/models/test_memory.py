"""Directions that pull on each other: golden numbers, an oracle of all overlaps, programs, limits, bad input."""

import numpy as np
import oracles
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import overlaps as ov

TIGHT = {"rtol": 1e-11, "atol": 1e-13}
MODEL = ov.committee_machine(2, 2, eta=1.0, noise=0.3)
STATE = ov.State.from_overlaps(MODEL, Q=[[0.5, 0.1], [0.1, 0.4]], R=[[0.3, 0.05], [0.1, 0.2]], T=np.eye(2))
LINEAR = ov.committee_machine(1, 1, activation="linear", eta=0.6, noise=0.5)
ONE = ov.State.from_overlaps(LINEAR, Q=[[0.5]], R=[[0.2]], T=[[1.0]])
UNIT = np.eye(2)


def pulled_families():
    """Weights and their average pull on each other, and teachers on both; in displacements from the start."""
    D = np.array([[-0.3, 0.2], [0.4, -0.5]])
    of_start, of_teachers = D.sum(axis=1, keepdims=True), np.concatenate([0.1 * UNIT, np.full((2, 2), -0.05)])
    pull = np.concatenate([np.kron(np.concatenate([D, of_start], axis=1), UNIT), of_teachers], axis=1)
    read, write = np.kron([[1, 0]], UNIT), np.kron([[1], [0]], UNIT)
    return ov.low_rank(MODEL, STATE, a=read, X=np.zeros((4, 4)), write=write, pull=pull)


def two_eigenvalues():
    model = LINEAR.replace(spectrum=ov.Spectrum([1.6, 0.4], [0.5, 0.5]))
    state = ov.State.from_blocks(model, q=[[[0.5]], [[0.3]]], r=[[[0.1]], [[0.05]]], t=[[[1.0]], [[0.6]]])
    return ov.memory.momentum(model, state, 1.0, direct=0.5)


def power_law():
    """Dimension-adapted Nesterov acceleration from zero weights."""
    model = LINEAR.replace(eta=1.0, noise=0.1, spectrum=ov.power_law(beta=1.0, L=16))
    zero = np.zeros((16, 1, 1))
    state = ov.State.from_blocks(model, q=zero, r=zero, t=model.spectrum.p[:, None, None])
    return ov.memory.momentum(model, state, lambda alpha: 4 / (1 + alpha), direct=0.1, gain=0.1)


GOLDEN = {  # of a program that integrates all overlaps of the vectors themselves (DOP853, rtol 1e-11)
    "average": (
        lambda: ov.memory.average(MODEL, STATE, 0.5), [2, 6, 12, 20],
        [0.100386898249, 0.054213701087, 0.05084538932, 0.047533932113],
    ),
    "heavy ball": (
        lambda: ov.memory.momentum(MODEL, STATE, 2.0), [1, 3, 6, 12, 20],
        [0.191460963783, 0.089163716451, 0.057857701048, 0.051110419242, 0.048093998774],
    ),
    "pulls": (pulled_families, [2, 6, 12], [0.078145966481, 0.038535770256, 0.031332682588]),
    "schedule-free": (
        lambda: ov.memory.schedule_free(MODEL, STATE), [2, 6, 12], [0.130605722554, 0.053645514933, 0.040475735102],
    ),
    "linear": (two_eigenvalues, [1, 3, 6, 12], [0.451614139929, 0.168150776758, 0.086984949482, 0.072441786623]),
    "power law": (
        power_law, [0.3, 1, 3, 10], np.array([0.67221412855, 0.33080277164, 0.15938607161, 0.05230058086]) / 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_numbers(name):
    """To 1e-11, the accuracy of that program; its error of the average deviates by 1.4e-11 from rtol 1e-13."""
    pair, alpha, eps_g = GOLDEN[name]
    traj = ov.solve(*pair(), np.array(alpha, float), **TIGHT)
    np.testing.assert_allclose(traj.eps_g, eps_g, rtol=0, atol=1e-11)
    if name == "average":
        own = [0.161666543687, 0.036602948968, 0.029537031212, 0.028063515439]
        np.testing.assert_allclose(traj.reading_error([0, 1]), own, rtol=0, atol=2e-11)


def generic():
    """K = 2, M = 3, three directions, two eigenvalues, batches; every matrix without zeros or symmetry."""
    spectrum = ov.Spectrum(s=[0.5, 1.7], p=[0.4, 0.6])
    model = ov.committee_machine(2, 3, activation="quadratic", v=[0.7, -0.4], v_star=[0.6, -0.3, 0.5], eta=0.15,
                                 noise=0.2, spectrum=spectrum, batch_size=2)  # fmt: skip
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((2, 8, 12)) / 6
    return model, rows @ rows.swapaxes(1, 2), *(rng.uniform(-0.6, 0.6, n) for n in ((2, 3), (3, 2), (3, 8)))


def gram_flow(model, gram, read, write, pull, alpha):
    """Overlaps (L, 8, 8) of directions, frozen students and teachers: dG = M G + G M^T + s p write C write^T."""
    P = np.zeros((5, 8))
    P[:2, :3], P[:, 3:] = read, np.eye(5)
    s, p = model.spectrum.s, model.spectrum.p

    def rhs(t, y):
        G, change = y.reshape(gram.shape), np.empty_like(gram)
        S = P @ np.tensordot(s, G, 1) @ P.T
        # polynomials of degree six in the fields: four nodes of each are exact
        A, B, C, _, _ = oracles.closure_by_average(model, S, model.v, lambda f: oracles.expectation(f, S, n=4))
        for l in range(2):
            M = np.zeros((8, 8))
            M[:3] = s[l] * write @ np.concatenate([A, B], axis=1) @ P + pull(t)
            change[l] = M @ G[l] + G[l] @ M.T
            change[l, :3, :3] += s[l] * p[l] * write @ C @ write.T / model.batch_size
        return change.ravel()

    return solve_ivp(rhs, (0, alpha), gram.ravel(), "DOP853", rtol=1e-11, atol=1e-13).y[:, -1].reshape(gram.shape)


def test_an_oracle_that_has_all_overlaps():
    """Plain overlaps of all rows, without eigenvalues in them and without displacements; averages by quadrature."""
    model, gram, read, write, pull = generic()

    def at(alpha):
        return (1 + 0.4 * np.sin(alpha)) * pull

    state = ov.State.from_blocks(model, q=gram[:, 3:5, 3:5], r=gram[:, 3:5, 5:], t=gram[:, 5:, 5:])
    pair = ov.low_rank(model, state, a=read, X=gram[:, :3, :3], G=gram[:, :3, 3:], write=write, pull=at)
    end = ov.solve(*pair, [0.0, 1.5], **TIGHT)[1]
    expected = gram_flow(model, gram, read, write, at, 1.5)
    np.testing.assert_allclose(end.q, expected[:, :3, :3], rtol=0, atol=1e-9)
    np.testing.assert_allclose(end.r / model.spectrum.s[:, None, None], expected[:, :3, 3:], rtol=0, atol=1e-9)
    assert np.abs(expected - gram)[:, :3].max() > 0.1


def weights(N, rng):
    """Weights (W, W_star) in random directions, with exactly the overlaps of STATE."""
    joint = np.block([[STATE.Q, STATE.R], [STATE.R.T, STATE.T]])
    rows = np.sqrt(N) * np.linalg.cholesky(joint) @ np.linalg.qr(rng.standard_normal((N, 4)))[0].T
    return rows[:2], rows[2:]


def program(name, N, steps, rng):
    """SGD with a memory as programs write it: Q and R of the network, and the error of what is evaluated."""
    w, teacher = weights(N, rng)
    x = other = w.copy()
    if name == "heavy ball":
        other = np.zeros_like(w)
    for n in range(1, steps + 1):
        inputs = rng.standard_normal(N)
        at = 0.9 * x + 0.1 * other if name == "schedule-free" else x
        lam, nu = at @ inputs / np.sqrt(N), teacher @ inputs / np.sqrt(N)
        delta = np.sum(MODEL.activation.g(lam)) - np.sum(MODEL.activation.g(nu)) - MODEL.noise * rng.standard_normal()
        gradient = np.outer(MODEL.activation.dg(lam) * delta, inputs) / np.sqrt(N)
        if name == "average":
            x = x - MODEL.eta * gradient
            other = (1 - 0.5 / N) * other + 0.5 / N * x
        elif name == "heavy ball":
            beta, lr = 1 - 2.0 / N, MODEL.eta * 2.0 / N
            other = beta * other - lr * gradient
            x = x + other
        elif name == "schedule-free":
            other = other - MODEL.eta * gradient
            x = x + (other - x) / (N + n)
        else:
            x = x - MODEL.eta * gradient - 0.3 / N * (x - w)
    at = 0.9 * x + 0.1 * other if name == "schedule-free" else x
    shown = {"average": other, "schedule-free": x}.get(name, at)
    error = ov.closure(MODEL, shown @ shown.T / N, shown @ teacher.T / N, UNIT).eps_g
    return np.append(at @ np.concatenate([at, teacher]).T / N, error)


PROGRAMS = {
    "average": (lambda: ov.memory.average(MODEL, STATE, 0.5), [0, 1]),
    "heavy ball": (lambda: ov.memory.momentum(MODEL, STATE, 2.0), [1, 0]),
    "schedule-free": (lambda: ov.memory.schedule_free(MODEL, STATE), [1, 0]),
    "anchor": (lambda: ov.memory.anchor(MODEL, STATE, 0.3), [1]),
}


@pytest.mark.parametrize("N, runs, alpha", [(100, 30, 2.0), pytest.param(600, 30, 4.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_users(name, N, runs, alpha):
    """Within three standard errors: Q and R of the network, and the error of the average where there is one."""
    pair, family = PROGRAMS[name]
    traj = ov.solve(*pair(), [0.0, alpha])
    rng = np.random.default_rng(4)
    found = np.array([program(name, N, round(alpha * N), rng) for _ in range(runs)])
    expected = np.append(np.concatenate([traj.Q[1], traj.R[1]], axis=1), traj.reading_error(family)[1])
    error = found.std(axis=0, ddof=1) / np.sqrt(runs)
    assert np.all(np.abs(found.mean(axis=0) - expected) < 3 * error)


SIMULATED = {
    **{name: pair for name, (pair, _) in PROGRAMS.items()},
    "pulls": pulled_families,
    "blocks": two_eigenvalues,
}


@pytest.mark.parametrize("N", [200, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SIMULATED)
def test_simulate(name, N):
    """Explicit weights, within three standard errors, of the network, all directions and another reader of them."""
    model, start = SIMULATED[name]()
    traj = ov.solve(model, start, [0.0, 3.0])
    runs = ov.simulate(model, N=N, alpha=traj.alpha, rng=1, runs=30, start=start)
    assert runs.method == "direct"
    a = np.full(runs.a.shape[-2:], 0.3)
    pairs = [(getattr(runs, x), getattr(traj, x)) for x in ("Q", "R", "u", "eps_g")]
    for found, expected in [*pairs, (runs.reading_error(a), traj.reading_error(a))]:
        error = found.std(axis=0, ddof=1)[1] / np.sqrt(30)
        assert np.all(np.abs(found.mean(axis=0)[1] - expected[1]) < 3 * error)


def step(pair, alpha=3.0, **options):
    return ov.solve(*pair, [alpha], **options, **TIGHT)


def test_students_learn_as_without_an_average():
    """One vector more changes nothing for the others, on blocks with batches and a schedule."""
    model, gram, *_ = generic()
    state = ov.State.from_blocks(model, q=gram[:, 3:5, 3:5], r=gram[:, 3:5, 5:], t=gram[:, 5:, 5:])
    options = {"schedule": ov.Schedule.step([1.0], [0.4])}
    one, two = step((model, state), **options), step(ov.memory.average(model, state, 0.7), **options)
    np.testing.assert_allclose(two.S, one.S, rtol=0, atol=1e-9)  # two integrations, of different tolerances


@pytest.mark.parametrize("gradient_flow, angle", [(True, 1.0), (False, 1e-7)])
def test_directions_are_no_units(gradient_flow, angle):
    """A unit of norm zero has no kinked gradient, parallel ones take a second run; displacements are both at first."""
    model = MODEL.replace(activation="relu", gradient_flow=gradient_flow)
    Q = [[0.5, 0.5 * (1 - angle)], [0.5 * (1 - angle), 0.5]]
    state = ov.State.from_overlaps(model, Q=Q, R=[[0.3, 0.2], [0.3, 0.2]], T=UNIT)
    one, two = ov.solve(model, state, [3.0]), ov.solve(*ov.memory.average(model, state, 0.7), [3.0])
    assert two.success
    assert abs(two.eps_g[0] - one.eps_g[0]) < one.eps_floor[0] + two.eps_floor[0]


def test_fast_memories_are_none():
    """The difference falls like 1/c."""
    plain = ov.solve(MODEL, STATE, [1.0]).eps_g[0]
    for make, row in ((ov.memory.average, [0, 1]), (ov.memory.momentum, [1, 0])):
        gaps = [abs(ov.solve(*make(MODEL, STATE, c), [1.0]).reading_error(row)[0] - plain) for c in (30.0, 60.0)]
        assert gaps[1] < 0.01 and 1.8 < gaps[0] / gaps[1] < 2.2


def test_arguments_that_say_what_holds_without_them():
    """The same digits with write = a^T and a pull of zeros, in equations and explicit weights."""
    a, X = np.array([[0.4, -0.3], [0.2, 0.5]]), [[0.7, 0.2], [0.2, 0.9]]
    for memory in ({"write": a.T}, {"pull": np.zeros((2, 6))}, {"pull": lambda alpha: np.zeros((2, 6))}):
        one, two = (ov.low_rank(MODEL, STATE, a=a, X=X, **x) for x in ({}, memory))
        for call in (
            lambda model, start: ov.solve(model, start, [1.0]),
            lambda model, start: ov.simulate(model, N=50, alpha=[1.0], rng=1, start=start, method="direct"),
        ):
            assert np.array_equal(call(*one).u, call(*two).u)


def test_a_weight_decay_is_a_pull_to_zero():
    """Of w, by D = E = -eta kappa in the columns of the direction and of the frozen weights."""
    kappa = 0.3
    pull = -MODEL.eta * kappa * np.concatenate([UNIT, UNIT, 0 * UNIT], axis=1)
    pair = ov.low_rank(MODEL, STATE, a=UNIT, X=np.zeros((2, 2)), pull=pull)
    whole = step((MODEL.replace(weight_decay=kappa), STATE))
    np.testing.assert_allclose(step(pair).S, whole.S, rtol=0, atol=1e-9)


def test_closed_forms_of_linear_units():
    """Twice eps_g: the floor of SGD eta sigma^2/(2 - eta), of its average c/(c + eta) of it; without noise means."""
    floor, pair = 0.6 * 0.25 / 1.4, ov.memory.average(LINEAR, ONE, 0.25)
    end = ov.solve(*pair, [80.0], rtol=1e-9)
    assert 2 * end.eps_g[0] == pytest.approx(floor, rel=1e-8)
    # errors of steps are measured by eps_g alone
    assert 2 * end.reading_error([0, 1])[0] == pytest.approx(floor * 0.25 / 0.85, rel=1e-6)
    held = ov.solve(*ov.memory.anchor(LINEAR, ONE, 0.2), [60.0])  # between anchor and teacher
    assert held.R[0, 0, 0] == pytest.approx((0.6 * 1.0 + 0.2 * 0.2) / 0.8, rel=1e-8)
    flow = LINEAR.replace(gradient_flow=True)
    traj = step(ov.memory.momentum(flow, ONE, 1.3, direct=0.5, gain=0.7))
    decay = expm(3.0 * np.array([[-0.5 * 0.6, 0.7], [-0.6, -1.3]]))[0, 0]
    assert traj.eps_g[0] == pytest.approx(decay**2 * (0.5 + 1.0 - 2 * 0.2) / 2, rel=1e-9)


@pytest.mark.parametrize("c", [1.0, *(pytest.param(c, marks=pytest.mark.slow) for c in (0.1, 10.0))])
def test_a_heavy_ball_has_the_floor_and_the_largest_rate_of_sgd(c):
    """For every c: floors of two eigenvalues (closed form), and eta = 2 of isotropic linear units without noise."""
    s, p, eta = np.array([1.6, 0.4]), np.array([0.5, 0.5]), 0.6
    model = LINEAR.replace(spectrum=ov.Spectrum(s, p))
    state = ov.State.from_blocks(model, q=[[[0.5]], [[0.3]]], r=[[[0.1]], [[0.05]]], t=[[[1.0]], [[0.6]]])
    end = ov.solve(*ov.memory.momentum(model, state, c), [50.0 + 50 / c], rtol=1e-7)
    # m_l = (eta p_l / 2) (sum_l s_l m_l + sigma^2)
    assert 2 * end.eps_g[0] == pytest.approx(eta / 2 * (s @ p) * 0.25 / (1 - eta / 2 * (s @ p)), rel=1e-6)
    for eta, grows in ((1.9, False), (2.1, True)):
        model = LINEAR.replace(eta=eta, noise=0.0)
        traj = ov.solve(*ov.memory.momentum(model, ONE, c), [10 + 20 / c, 20 + 40 / c], rtol=1e-6)
        assert (traj.eps_g[1] > traj.eps_g[0]) == grows


def test_the_order_of_directions_is_a_name():
    model, gram, read, write, pull = generic()
    state = ov.State.from_blocks(model, q=gram[:, 3:5, 3:5], r=gram[:, 3:5, 5:], t=gram[:, 5:, 5:])
    order = np.array([2, 0, 1])
    rows = np.r_[order, 3:8]
    one = {"a": read, "X": gram[:, :3, :3], "G": gram[:, :3, 3:], "write": write, "pull": pull}
    two = {"a": read[:, order], "X": gram[:, order][:, :, order], "G": gram[:, order, 3:], "write": write[order]}
    ends = [step(ov.low_rank(model, state, **x)) for x in (one, {**two, "pull": pull[order][:, rows]})]
    np.testing.assert_allclose(ends[1].u, ends[0].u[:, order][:, :, order], rtol=0, atol=1e-10)


def test_equal_families_are_not_equal_students():
    """Families that begin equal separate; copies of one student are merged elsewhere by the same overlaps."""
    traj = step(ov.memory.average(MODEL, STATE, 0.5))
    assert "Equal students" not in traj.message and abs(traj.reading_error([0, 1])[0] - traj.eps_g[0]) > 0.01
    twins = ov.State.from_overlaps(MODEL, Q=np.full((2, 2), 0.5), R=np.full((2, 2), 0.2), T=UNIT)
    assert "Equal students" in ov.solve(MODEL, twins, [1.0]).message
    with pytest.raises(ValueError, match="students that differ"):  # families of those would separate by rounding
        ov.memory.average(MODEL, twins, 0.5)


def test_the_time_is_that_of_the_record():
    """An average that begins in the middle of a run; a rate 1/alpha is finite there."""
    record = ov.solve(MODEL, STATE, [0.0, 2.0], **TIGHT)[1]
    model, start = ov.memory.average(record, lambda alpha: 1 / alpha)
    assert start.alpha == 2.0
    traj = ov.solve(model, start, [2.0, 5.0], **TIGHT)
    assert traj.eps_g[1] == pytest.approx(step((MODEL, STATE), 5.0).eps_g[0], abs=1e-10)
    assert traj.reading_error([0, 1])[0] == traj.eps_g[0] != traj.eps_g[1]


def test_steps_end_at_knots_of_a_rate():
    """A rate that jumps is two runs in a row."""
    jump = ov.Schedule([0.0, 1.0], [0.2, 3.0], "constant")
    whole = step(ov.memory.momentum(MODEL, STATE, rate=jump))
    first = ov.solve(*ov.memory.momentum(MODEL, STATE, 0.2), [1.0], **TIGHT)[0]
    later = ov.memory.momentum(MODEL, STATE, 3.0)[0]
    second = ov.solve(later, first.replace(model=None), [3.0], **TIGHT)
    assert whole.eps_g[0] == pytest.approx(second.eps_g[0], abs=1e-11)


def test_readers():
    """One number for each family, or amplitudes; those of the model give its error."""
    traj = ov.solve(*ov.memory.schedule_free(MODEL, STATE, beta=0.7), [0.0, 2.0])
    a = np.kron([[0.7, 0.3]], UNIT)
    for same in ([0.7, 0.3], a, a.tolist()):
        np.testing.assert_allclose(traj.reading_error(same), traj.eps_g, rtol=1e-14)
    for wrong in ([1.0], np.eye(3), [np.nan, 0.0], "0"):
        with pytest.raises(ValueError, match="a has shape|a contains nan|a = '0'"):
            traj.reading_error(wrong)


def half(alpha):
    return 0.5


def test_files_and_text(tmp_path):
    """Numbers and schedules are in the file; of a function its values are, to compare."""
    path = tmp_path / "run.npz"
    for rate, kept in ((0.5, True), (ov.Schedule([0.0, 1.0], [0.5, 0.6]), True), (half, False)):
        model, start = ov.memory.average(MODEL, STATE, rate=rate)
        traj = ov.solve(model, start, [0.0, 1.0])
        traj.save(path)
        assert ov.load(path, model=model) == traj
        for other in (0.4, ov.Schedule([0.0, 1.0], [0.5, 0.7]), lambda alpha: 0.5 + 0.1 * alpha):
            with pytest.raises(ValueError, match="expected the LowRank that was saved"):
                ov.load(path, model=ov.memory.average(MODEL, STATE, rate=other)[0])
        if kept:
            assert ov.load(path) == traj and ov.results.labelled.model_of(traj.to_xarray()) == model
        else:
            with pytest.raises(ValueError, match=r"pull is a function of the user.*load\(path, model="):
                ov.load(path)
            with pytest.raises(ValueError, match="or a pull., which a text"):
                ov.results.labelled.model_of(traj.to_xarray())
    assert repr(model).endswith("rank=4, eta_a=0, write, pull(alpha))") and "0.5" in repr(
        ov.memory.average(MODEL, STATE, 0.5)[0].pull
    )


def test_bad_input():

    def low_rank(**memory):
        return ov.low_rank(MODEL, STATE, a=UNIT, X=np.zeros((2, 2)), **memory)

    blind = MODEL.replace(spectrum=ov.Spectrum([1.0, 0.0], [0.5, 0.5]))
    blocks = ov.State.from_blocks(blind, q=[UNIT / 2] * 2, r=[0 * UNIT] * 2, t=[UNIT / 2] * 2)
    E = np.concatenate([np.zeros((2, 4)), UNIT], axis=1)

    def nan_later(alpha):
        return E if alpha == 0 else np.nan * E

    for call, message in (
        (lambda: low_rank(write=np.zeros((1, 2))), "write has shape"),
        (
            lambda: low_rank(pull=np.zeros((2, 2))),
            r"pull has shape \(2, 2\); expected \(2, 6\).*frozen students, teachers",
        ),
        (lambda: low_rank(pull=np.full((2, 6), np.nan)), "pull contains nan"),
        (lambda: low_rank(pull=lambda alpha: E.T), r"pull\(0\) has shape"),
        (lambda: low_rank(pull=nan_later), r"pull\(0.5\) contains nan"),
        (lambda: ov.low_rank(blind, blocks, a=UNIT, X=np.zeros((2, 2)), pull=E), "an eigenvalue of the inputs is 0"),
        (lambda: ov.memory.average(MODEL, STATE, -0.1), "rate = -0.1; expected a finite number >= 0"),
        (lambda: ov.memory.average(MODEL, STATE, lambda alpha: 1 / alpha), r"rate\(0\) = .*inf.*Try 1/\(1 \+ alpha\)"),
        (lambda: ov.memory.momentum(MODEL, STATE, 1.0, direct=np.nan), "direct = nan"),
        (lambda: ov.memory.momentum(MODEL, STATE, 1.0, gain=-1.0), "gain = -1.0"),
        (lambda: ov.memory.schedule_free(MODEL, STATE, beta=1.1), "beta = 1.1"),
        (lambda: ov.memory.schedule_free(MODEL, STATE, first=0.0), "first = 0.0"),
        (lambda: ov.memory.anchor(MODEL, STATE, "strong"), "strength = 'strong'"),
        (lambda: ov.memory.anchor(MODEL.replace(weight_decay=0.1), STATE, 0.1), "weight_decay = .*expected 0"),
        (lambda: ov.memory.anchor(MODEL.replace(eta_v=0.1), STATE, 0.1), "Expected eta_v = 0"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    model, start = ov.memory.average(MODEL, STATE, 0.5)
    with pytest.raises(
        ValueError, match="method = 'reduced' does not support directions that are pulled.*Try 'direct'"
    ):
        ov.simulate(model, N=100, alpha=[1.0], rng=1, start=start, method="reduced")
    with pytest.raises(ValueError, match=r"pull\(\d"):  # a schedule is checked on the whole interval, and so is a pull
        late = ov.memory.average(MODEL, STATE, lambda alpha: 0.5 if alpha < 2 else np.inf)
        ov.solve(*late, [4.0], schedule=ov.Schedule.constant(0.5))
    with pytest.warns(RuntimeWarning, match="stopped at alpha = .* the pull at alpha"):
        cut = ov.solve(*late, [1.0, 4.0])
    assert not cut.success and len(cut) == 1  # what was computed is kept
