"""Starts whose fields have a singular covariance: sums of others stay sums, and digits that nobody has are named."""

import numpy as np
import pytest
import scipy.integrate
from helpers import few

import overlaps as ov
from overlaps.flow.psd import PSDProjection, singular
from overlaps.flow.system import System
from overlaps.models.start import duplicate_units

SPECTRUM = ov.Spectrum([2.1, 0.9, 0.3], [0.2, 0.5, 0.3])
METHODS = ["DOP853", "structured"]


def start_of(model, W, W_star):
    """The start of weights (L, K, n), (L, M, n), block by block."""
    q, r, t = (x @ y.swapaxes(1, 2) for x, y in ((W, W), (W, W_star), (W_star, W_star)))
    return ov.State.from_blocks(model, q=q, r=r, t=t)


def weights(rng, K, M, n, L=1):
    return rng.normal(size=(L, K, n)) / np.sqrt(n), rng.normal(size=(L, M, n)) / np.sqrt(n)


def saddle(T=0.8, u=0.3, eta=0.4):
    """A quadratic student along its teacher a + b nu^2, b < 0, in a gradient flow, and u = Q / T of it in closed form.

    On the line w = c w*, c' = -2 eta c (3 T (c^2 - b) - a), which is logistic in u = c^2. Off it, the square of the
    distance grows as exp(-8 eta T b alpha): rounding would become of order one at alpha = 50.
    """
    a, b = 1.3, -0.3
    model = ov.committee_machine(
        1, 1, activation=ov.quadratic, teacher_activation=ov.polynomial([a, 0.0, b]), eta=eta, gradient_flow=True
    )
    start = ov.State.from_overlaps(model, Q=[[u * T]], R=[[np.sqrt(u) * T]], T=[[T]])
    rest = (a + 3 * T * b) / (3 * T)

    def exact(alpha):
        return rest / (1 + (rest / u - 1) * np.exp(-4 * eta * (a + 3 * T * b) * alpha))

    return model, start, exact


@few(("method", "u"), [("DOP853", 0.3), ("DOP853", 0.07), ("DOP853", 0.37), ("structured", 0.3)], quick=1)
def test_a_student_along_its_teacher_stays_there_and_its_run_says_that_this_is_unstable(method, u):
    model, start, exact = saddle(u=u)
    alpha = np.array([3.7, 20.0, 65.0])
    with pytest.warns(RuntimeWarning, match="depends on rounding of the start"):
        traj = ov.solve(model, start, alpha, method=method)
    np.testing.assert_allclose(traj.Q[:, 0, 0] / 0.8, exact(alpha), rtol=1e-6)  # rtol 1e-8, and what steps add up
    assert len(traj) == 3 and not traj.success
    assert traj.eps_floor[0] < 1e-5 * traj.eps_g[0] and traj.eps_floor[-1] > 0.01 * traj.eps_g[-1]


@pytest.mark.slow
def test_a_batch_and_a_custom_solver_do_the_same():
    model, start, exact = saddle()
    alpha, said = [20.0, 50.0], "depends on rounding of the start"
    with pytest.warns(RuntimeWarning, match=said):
        alone = ov.solve(model, start, alpha)
    with pytest.warns(RuntimeWarning, match=said):
        batch = ov.solve_many(model, [start, start], alpha)
    assert np.array_equal(batch[1].Q, alone.Q) and batch[1].message == alone.message
    with pytest.warns(RuntimeWarning, match=said):
        other = ov.solve(model, start, alpha, method=scipy.integrate.RK45, rtol=1e-6)
    np.testing.assert_allclose(other.Q, alone.Q, rtol=1e-5)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@few("rtol", [1e-6, 1e-8, 1e-10], quick=1)
def test_rounding_does_not_decide_whether_an_unstable_start_is_named(rtol):
    """The second run leaves the line at every scale of the problem, though errors of its steps push it back there."""
    rng = np.random.default_rng(5)
    for T, u, eta in zip(*rng.uniform([[0.5], [0.05], [0.2]], [[1.5], [0.6], [0.7]], (3, 6)), strict=True):
        model, start, exact = saddle(T, u, eta)
        traj = ov.solve(model, start, [12 / (eta * T), 25 / (eta * T)], rtol=rtol)  # 1e-15 exp(60)
        assert not traj.success and "depends on rounding of the start" in traj.message
        np.testing.assert_allclose(traj.Q[:, 0, 0] / T, exact(traj.alpha), rtol=100 * rtol)


def test_who_cannot_be_kept_on_the_boundary_says_who_can():
    """LSODA steps from a state of its own."""
    model, start, _ = saddle()
    with pytest.warns(RuntimeWarning, match=r"lost positivity.*method='DOP853'"):
        traj = ov.solve(model, start, [65.0], method="LSODA")
    assert not traj.success


@pytest.mark.parametrize("n", [2, 3, 9])
def test_the_way_back_is_short_and_keeps_norms_and_teachers(n):
    """Overlaps moved by an error are Gram matrices again, changed by no more than a few errors."""
    rng = np.random.default_rng(n)
    model = ov.committee_machine(3, 2, eta=0.5, spectrum=SPECTRUM)
    W, W_star = weights(rng, 3, 2, n, L=3)
    W[:, 2] = 0.7 * W[:, 0] - 1.4 * W_star[:, 1]
    start = start_of(model, W, W_star)
    system, error = System(model, start), 1e-7
    y = system.pack(start)
    moved = y + error * rng.uniform(-1, 1, y.size)
    system.close(moved)
    psd = PSDProjection(system)
    assert psd.needs_projection() == (np.linalg.eigvalsh(system.S)[0] < 0)
    near = psd.project(moved)
    plain = model.plain_overlaps(system.state(near))
    assert np.all(np.linalg.eigvalsh(plain)[:, 0] > -1e-13)
    assert np.max(np.abs(near - moved)) < 20 * error
    np.testing.assert_allclose(*(np.einsum("lkk->lk", system.unpack(x)[0]) for x in (near, moved)), rtol=1e-14)
    np.testing.assert_allclose(psd.project(near), near, rtol=0, atol=1e-13)


def test_whose_fields_are_sums_of_others():
    rng = np.random.default_rng(7)
    model = ov.committee_machine(3, 2, activation=ov.relu, eta=0.5, v=[0.4, 1.3, 0.4])
    W, W_star = weights(rng, 3, 2, 12)

    def found(W, W_star):
        start = start_of(model, W, W_star)
        return singular(model.field_covariance(start), model.K, duplicate_units(model, start))

    assert not found(W, W_star)
    assert found(W[:, [0, 1, 0]] * [[1.0], [1.0], [1.7]], W_star)
    assert found(np.concatenate([W[:, :2], W_star[:, :1] - 0.3 * W[:, :1]], axis=1), W_star)
    assert found(*(x[:, :, :4] for x in (W, W_star)))
    assert found(W[:, [0, 0, 2]], W_star)  # with other second layers they part
    assert not found(W[:, [0, 1, 0]], W_star)  # equal students stay so
    assert not found(W * [[1.0], [0.0], [1.0]], W_star)  # a student without weights is no sum
    assert not found(W, W_star[:, [0, 0]])  # teachers may be what they like
    assert System(model, start_of(model, W, W_star), keep_psd=True).psd is None


@pytest.mark.parametrize("heads", [None, [[0.4, 1.3], [0.9, -0.6]]])
def test_tasks_with_eigenvalues_of_their_own_start_from_students_in_the_span_of_teachers(heads):
    """A run from there, a start next to it and one of more tasks, two of which are one, agree."""
    rng = np.random.default_rng(4)
    spectra = SPECTRUM, ov.Spectrum([0.7, 1.9, 0.4], [0.2, 0.5, 0.3])
    tasks = [
        ov.committee_machine(2, 3, v=[0.7, 1.1], v_star=v_star, eta=0.3, eta_v=0.2, noise=0.3, spectrum=spectrum)
        for v_star, spectrum in zip(([1.2, 0.5, -0.3], [0.2, 0.8, 0.4]), spectra, strict=True)
    ]
    _, W_star = weights(rng, 2, 3, 9, L=3)
    W, off = rng.normal(size=(2, 3)) @ W_star, 1e-7 * rng.normal(size=(3, 2, 9))
    again = None if heads is None else [heads[0], heads[1], heads[1]]
    two, three = ov.Mixed(tasks, [0.4, 0.6], heads=heads), ov.Mixed([*tasks, tasks[1]], [0.4, 0.25, 0.35], heads=again)
    start = start_of(tasks[0], W, W_star)
    found = ov.solve(two, start, [1.3, 4.1])
    near = ov.solve(two, start_of(tasks[0], W + off, W_star), [1.3, 4.1])
    assert found.success and np.all(found.eps_floor < 1e-6 * found.eps_g)
    np.testing.assert_allclose(found.Q, near.Q, rtol=1e-5)
    if heads is None:  # heads of equal tasks move apart in their shares
        np.testing.assert_allclose(ov.solve(three, start, [1.3, 4.1]).Q, found.Q, rtol=1e-7)


@pytest.mark.filterwarnings("ignore:.*shrunk to norm zero:RuntimeWarning")
@pytest.mark.parametrize(("method", "rtol"), [("DOP853", 1e-8), ("structured", 1e-8), ("structured", 1e-12)])
def test_a_student_that_vanishes_on_the_line_of_its_teacher_is_named(method, rtol):
    """Every method ends when u = v a - v* b, with u' = -eta v^2 u / 2 while the unit is active, reaches -v* b."""
    v, a, v_star, b, eta = -0.45359, 0.34801, 1.18328, 0.83415, 18.2
    model = ov.committee_machine(
        2, 1, activation=ov.relu, v=[v, -0.23788], v_star=[v_star], eta=eta, gradient_flow=True
    )
    w = np.array([a, -0.42708])
    start = ov.State.from_overlaps(model, Q=np.outer(w, w), R=w[:, None] * b, T=[[b**2]])
    traj = ov.solve(model, start, [0.05, 0.7], method=method, rtol=rtol)
    assert not traj.success and "student 0 has shrunk to norm zero" in traj.message
    end = 2 / (eta * v**2) * np.log(1 - v * a / (v_star * b))
    assert float(traj.message.split()[4].strip(":")) == pytest.approx(end, rel=1e-3)


@pytest.mark.filterwarnings("error")
@few(("method", "rtol"), [("DOP853", 1e-8), ("DOP853", 1e-10), ("structured", 1e-10)], quick=1)
def test_a_student_that_learns_to_the_last_digit_succeeds_and_its_floor_is_a_number(method, rtol):
    """From the line of its teacher eps_g falls to rounding, or to 0: no digit decides it, and no floor is beyond 1."""
    # of eight draws the three whose second run ended elsewhere by more than a hundred roundings, or at an exact 0
    for v, eta, u in np.random.default_rng(3).uniform([0.5, 0.2, 0.2], [1.2, 1.4, 3.0], (8, 3))[5:]:
        model = ov.committee_machine(3, 1, activation=ov.linear, v=[v, 0.83, 0.71], eta=eta / (v**2 + 1.2), eta_v=0.1)
        w = np.array([u, 0.6, -1.3])
        start = ov.State.from_overlaps(model, Q=np.outer(w, w) * 0.9, R=w[:, None] * 0.9, T=[[0.9]])
        traj = ov.solve(model, start, np.array([0.1, 60.0, 150.0, 400.0]) / model.eta, method=method, rtol=rtol)
        # INVISIBLE roundings of overlaps of order one, 1e-12, are the largest errors of eps_g that steps let pass
        assert traj.success and np.all(traj.eps_g[1:] < 1e-11) and np.all(traj.eps_floor[1:] < 1e-10)
        assert np.all(traj.eps_g[1:] < 10 * traj.eps_floor[1:] + 1e-15)


@pytest.mark.filterwarnings("error")
@few("rtol", [1e-7, 1e-8], quick=1)
@pytest.mark.parametrize("method", ["structured", "Radau"])
def test_errors_of_the_steps_are_no_lost_digits(method, rtol):
    """Off the line of its teacher eps_g is linear, on it quadratic: steps of the second run leave the line by atol."""
    model = ov.committee_machine(
        1, 1, activation=ov.quadratic, v=[0.73134865], v_star=[1.31639473], eta=0.11692869, gradient_flow=True
    )
    b = np.sqrt(0.4677)
    w = 0.03358 / b
    start = ov.State.from_overlaps(model, Q=[[w * w]], R=[[w * b]], T=[[b * b]])
    traj, exact = (
        ov.solve(model, start, [15.695, 22.577], method=solver, rtol=to)
        for solver, to in ((method, rtol), ("DOP853", 1e-12))
    )
    assert traj.success
    # errors of single steps are rtol; a hundred of them, and eps_g falls by 4e4 between the records
    np.testing.assert_allclose(traj.eps_g, exact.eps_g, rtol=100 * rtol)


def random_start(seed):
    """A model and a start of some kind that is singular, with generic numbers."""
    rng = np.random.default_rng(seed)
    K, M, L = (int(rng.integers(*x)) for x in ((2, 4), (1, 4), (1, 4)))
    student, teacher = rng.choice([ov.erf, ov.quadratic, ov.linear, ov.relu], 2)
    v = rng.uniform(0.4, 1.2, K)
    s, p = rng.uniform(0.3, 2.0, L), rng.dirichlet(np.full(L, 3.0))
    limit = 2 / (np.sum(v**2) * (s @ p)) / (6 if student is ov.quadratic else 1)
    model = ov.committee_machine(
        K, M, activation=student, teacher_activation=teacher, v=v, v_star=rng.normal(size=M), noise=rng.uniform(0, 0.5),
        spectrum=ov.Spectrum(s, p), eta=limit * rng.uniform(0.1, 3.0), gradient_flow=bool(rng.random() < 0.3),
    )  # fmt: skip
    kind = rng.integers(4)
    W, W_star = weights(rng, K, M, max(1, (K + M) // (2 * L)) if kind == 0 else K + M + 3, L)
    if kind == 1:
        W = rng.normal(size=(K, M)) @ W_star
    elif kind > 1:
        W[:, 1] = W[:, 0] * (1.0 if kind == 2 else rng.uniform(-2, 2))
    return model, start_of(model, np.sqrt(p)[:, None, None] * W, np.sqrt(p)[:, None, None] * W_star), 8 / model.eta


SAID = (
    "depends on rounding of the start",
    "the tolerance is not met",
    "norm zero",
    "diverge",
    "blow up",
    "parallel",
)


def assert_sound(seed, settings):
    """Methods and tolerances agree to 1e-5 of eps_g, or say why not; none is stopped by what rounding made of zero."""
    model, start, span = random_start(seed)
    runs = [ov.solve(model, start, [span / 9, span], method=method, rtol=rtol) for method, rtol in settings]
    for run in runs:
        assert run.success or any(x in run.message for x in SAID), (seed, run.message)
    found = [run for run in runs if run.success]
    if len(found) > 1:
        eps_g, floor = np.array([run.eps_g for run in found]), np.max([run.eps_floor for run in found], axis=0)
        assert np.all(np.ptp(eps_g, axis=0) < 1e-5 * eps_g[0] + 10 * floor), seed


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(8))
def test_singular_starts_are_followed_or_named(seed):
    assert_sound(seed, [("DOP853", 1e-8), ("DOP853", 1e-10)])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_singular_starts_are_followed_or_named(seed):
    assert_sound(seed, [(method, rtol) for method in METHODS for rtol in (1e-8, 1e-10, 1e-12)][:5])


def test_the_twin_of_a_start_differs_in_its_norms_by_rounding():
    model, start, _ = saddle()
    system = System(model, start)
    y = system.pack(start)
    (q, r, _), (moved, r_moved, _) = (system.unpack(x) for x in (y, PSDProjection(system).perturb(y)))
    assert q[0, 0, 0] < moved[0, 0, 0] < q[0, 0, 0] * (1 + 1e-14) and np.array_equal(r, r_moved)


@few("method", ["DOP853", "RK45"], quick=1)
@few("activation", [ov.absolute, ov.relu, ov.leaky_relu(-0.4)], quick=1)
def test_parallel_students_with_a_kink_part_as_the_tolerance_says(activation, method):
    """Their angle grows like the root of time, which a first step of the usual length jumps over: 1e-5 of eps_g.

    Against the structured integrator; 10 rtol, as errors of steps add up and grow with eps_g.
    """
    model = ov.committee_machine(2, 2, activation=activation, eta=1.3, v=[1.1, 0.8])
    start = ov.State.from_weights(
        model, W=[[0.7, -0.4, 0.9], [0.21, -0.12, 0.27]], W_star=[[1.1, 0.2, -0.3], [-0.4, 0.9, 0.6]]
    )
    alpha = [0.01, 0.2, 1.7]
    exact = ov.solve(model, start, alpha, method="structured", rtol=1e-10)
    traj = ov.solve(model, start, alpha, method=method, rtol=1e-7)
    np.testing.assert_allclose(traj.eps_g, exact.eps_g, rtol=1e-6)
