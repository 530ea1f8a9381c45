"""Plateaus by name: the saddle that curves wait at, against known saddles, curves that do not wait, and simulations."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import few

import overlaps as ov
from overlaps.analysis import generic_plateau
from overlaps.analysis.generic_plateau import random_mean
from overlaps.results.curves import first_below
from overlaps.stability import plateaus
from overlaps.stability.plateaus import find
from overlaps.stability.symmetry import averaged, equal_readouts, equivalent

EARLIER = {  # K, eta: height and rate of the saddle for teachers drawn at N = 800 with rng=1, from an earlier program
    (2, 0.5): (0.0137218807, 0.0309514467),
    (3, 0.5): (0.0311597676, 0.0201598802),
    (4, 0.5): (0.0586693393, 0.0142403917),
    (3, 0.1): (0.0211440228, 0.0044497505),
}


def curve(K, eta, seed, *, M=None, end=None, N=800, **options):
    model = ov.committee_machine(K, M or K, eta=eta, **options)
    return ov.solve(model, model.random_start(N=N, rng=seed), (0, end or 1000 / eta * 0.5))


@few("K, eta", EARLIER, quick=1)
def test_saddles_of_an_earlier_program(K, eta):
    traj = curve(K, eta, 1)
    (plateau,) = traj.plateaus()
    assert (plateau.height, plateau.rates[0]) == pytest.approx(EARLIER[K, eta], rel=1e-8)
    assert plateau.growing == (K - 1) ** 2 and plateau.escape == 1 / plateau.rates[0]
    begin, end = plateau.alpha
    inside = (traj.alpha > begin) & (traj.alpha < end)
    assert np.all(np.abs(traj.eps_g[inside] / plateau.height - 1) < 0.201)
    # without the trajectory, from the same start: the same saddle, permuted at most
    alone = ov.plateau(traj.model, traj[0])
    assert alone.height == pytest.approx(plateau.height, rel=1e-9) and alone.growing == plateau.growing


@pytest.mark.slow
@pytest.mark.parametrize("K, eta", [(2, 0.1), (2, 0.5), (3, 0.1), (3, 0.5), (4, 0.1), (4, 0.5), (6, 0.1), (6, 0.5)])
def test_random_starts_meet_one_plateau(K, eta):
    for seed in range(25):
        traj = curve(K, eta, seed, N=1000, end=(1500 if K > 4 else 500) / eta)
        (plateau,) = traj.plateaus()
        # six students at this rate: the noise lets their K - 1 differences grow as well
        assert plateau.growing == (K - 1) ** 2 + (5 if (K, eta) == (6, 0.5) else 0)
        assert plateau.height == pytest.approx(ov.plateau(traj.model, traj[0]).height, abs=1e-8)


@few("K, seed, growing", [(2, 87, 1), (6, 5, 30)], quick=1)
def test_shoulders_and_neighbours(K, seed, growing):
    """A curve that is slowest before it comes near the saddle; and a saddle of lower symmetry beside the plateau."""
    traj = curve(K, 0.5, seed, N=1000, end=1000 if K == 2 else 3000)
    (plateau,) = traj.plateaus()
    assert plateau.growing == growing
    assert plateau.height == pytest.approx(ov.plateau(traj.model, traj[0]).height, abs=1e-8)


def test_curves_that_do_not_wait_have_no_plateau():
    """Linear students, one student, a rate above that of the plateau, a spectrum on which the curve goes on falling."""
    still = [
        curve(2, 0.5, 1, activation=ov.linear), curve(1, 0.5, 1), curve(3, 2.5, 1),
        *(curve(2, 0.5, seed, spectrum=ov.power_law(beta=1.0, L=8)) for seed in (1, 2)),
    ]  # fmt: skip
    assert [traj.plateaus() for traj in still] == [[]] * len(still)


@pytest.mark.parametrize("begun", [0.0, 730.0])
def test_a_curve_waits_for_a_growth_time_or_passes_by(begun):
    """One curve through the height of a saddle, stretched in time; only time since its start counts."""
    model = ov.committee_machine(2, 2, eta=0.7)
    known = ov.plateau(model, ov.State.from_overlaps(model, Q=np.diag([0.4, 0.6]), R=np.full((2, 2), 0.1), T=np.eye(2)))
    x = np.linspace(0.0, 1.0, 60)
    eps_g = known.height * (1.02 - 0.05 * x - 0.13 * (2 * x - 1) ** 3)  # near the saddle all the time, slow half-way

    def found(growth_times):
        alpha = begun + x * growth_times / known.rates[0]
        return find(model, alpha, eps_g, 1e-15 * eps_g, lambda i: known.state)

    assert found(0.9) == []
    (plateau,) = found(1.4)
    assert plateau.height == pytest.approx(known.height, rel=1e-10) and plateau.growing == known.growing
    begin, end = plateau.alpha
    assert begun <= begin < begun + 0.1 / known.rates[0] and end == pytest.approx(begun + 1.4 / known.rates[0])


def test_cascades_are_named_one_by_one():
    traj = curve(3, 0.2, 2, activation=ov.relu, end=500.0)
    first, second = traj.plateaus()
    assert (first.growing, second.growing) == (4, 1) and first.alpha[1] <= second.alpha[0]
    assert second.height == pytest.approx(0.0283187, rel=1e-5)  # where Newton's method from a record ends as well
    wide = curve(2, 0.2, 2, M=4, end=7500).plateaus()  # the second saddle is within 20 % of the first
    assert len(wide) == 2 and wide[0].alpha[1] == pytest.approx(wide[1].alpha[0], rel=0.02)


def test_records_far_apart_show_the_same_plateaus():
    traj = curve(3, 0.5, 1)
    sparse = ov.solve(traj.model, traj[0], [0.0, 1000.0])
    for one, other in zip(traj.plateaus(), sparse.plateaus(), strict=True):
        assert one.height == pytest.approx(other.height, rel=1e-9) and one.alpha == pytest.approx(other.alpha, rel=0.01)


def test_units_of_the_inputs_and_blocks_do_not_matter():
    """Splitting an eigenspace, a block without directions, an order of the students."""
    t = np.array([[[0.6, 0.02], [0.02, 0.5]], [[0.4, -0.05], [-0.05, 0.5]]])
    q, r = 0.8 * np.array([0.55 * np.eye(2), 0.45 * np.eye(2)]), np.zeros((2, 2, 2))
    r[:, 0, 0], r[:, 1, 1] = 0.001, 0.002

    def found(spectrum, q, r, t):
        model = ov.committee_machine(2, 2, eta=0.4, spectrum=spectrum)
        (plateau,) = ov.solve(model, ov.State.from_blocks(model, q=q, r=r, t=t), (0, 800.0)).plateaus()
        return plateau

    two = ov.Spectrum([1.15, 0.85], [0.55, 0.45])
    first = found(two, q, r, t)
    split = ov.Spectrum([1.15, 0.85, 0.85, 0.0], [0.55, 0.45 * 0.375, 0.45 * 0.625, 0.0])
    parts = [np.array([x[0], 0.375 * x[1], 0.625 * x[1], 0 * x[0]]) for x in (q, r, t)]
    order = [1, 0]
    for other in (found(split, *parts), found(two, q[:, order][:, :, order], r[:, order], t)):
        assert other.height == pytest.approx(first.height, rel=1e-9) and other.growing == first.growing
        np.testing.assert_allclose(other.rates, first.rates, rtol=1e-7)


def test_batches_and_simulations_name_the_same_saddle():
    model = ov.committee_machine(2, 2, eta=0.5)
    start = ov.State.from_overlaps(model, Q=0.5 * np.eye(2), R=[[0.05, 0.0], [0.0, 0.03]], T=np.eye(2))
    height = ov.plateau(model, start).height
    batch = ov.solve_many([model] * 2, start, np.linspace(0, 300, 10))
    runs = ov.simulate(model, N=500, alpha=np.geomspace(1, 300, 40), rng=3, runs=4, start=start)
    found = [*batch.plateaus(), runs.plateaus()]
    assert [len(x) for x in found] == [1, 1, 1]
    np.testing.assert_allclose([x[0].height for x in found], height, rtol=1e-8)


@pytest.mark.slow
def test_times_of_runs_and_laws_of_batches():
    model = ov.committee_machine(2, 2, eta=0.5)
    start = ov.State.from_overlaps(model, Q=0.5 * np.eye(2), R=[[0.05, 0.0], [0.0, 0.03]], T=np.eye(2))
    runs = ov.simulate(model, N=200, alpha=np.linspace(0, 240, 81), rng=3, runs=4, start=start)
    level = 0.004
    times = runs.escape(level)
    for time, run in zip(times, runs.eps_g, strict=True):
        if np.isnan(time):
            assert run.min() >= level
        else:
            i = np.argmax(run < level)
            assert runs.alpha[i - 1] <= time <= runs.alpha[i] and np.all(run[:i] >= level)
    assert 0 < np.isfinite(times).sum() and np.all(np.isnan(runs.escape(1e-9)))
    np.testing.assert_array_equal(runs.escape(runs.plateaus()[0].height / 2), runs.escape())
    with pytest.raises(ValueError, match="has no plateau"):
        ov.simulate(model, N=50, alpha=[0, 1, 2, 3], rng=1, start=start).escape()
    other = ov.State.from_overlaps(model, Q=0.5 * np.eye(2), R=[[0.05, 0.0], [0.0, 0.05]], T=np.eye(2))
    batch = ov.solve_many([model] * 2, [start, other], [0.0, 1.0])
    laws = batch.escape(10**4, level, points=64)
    assert laws[1] == batch[1].escape(10**4, level, points=64) and laws[0].mean != laws[1].mean
    with pytest.raises(ValueError, match="does not support blocks=False"):
        ov.solve_many([model], start, [0.0, 1.0], blocks=False).escape(100)


def test_the_first_time_below_a_level():
    """Of a curve with a closed form, between records that are far apart, and at the edges."""
    alpha = np.linspace(0, 20, 21)
    curve = 1 / (1 + np.exp(alpha - 9.3))
    for level in (0.7, 0.31, 1e-3):
        assert first_below(alpha, curve, level) == pytest.approx(9.3 + np.log(1 / level - 1), abs=5e-3)
    assert first_below(alpha, curve, 2.0) == 0.0 and np.isnan(first_below(alpha, curve, 1e-9))
    assert first_below(alpha, np.where(alpha < 7, 0.5, 0.0), 0.1) == pytest.approx(6.0, abs=0.1)  # log of 0


def test_the_message_of_a_fixed_point_names_its_symmetry_and_its_modes():
    """The recipe of a small diagonal leads to equal students for K = 3; the average of a record does not."""
    model = ov.committee_machine(3, 3, eta=0.6)
    ones = np.ones((3, 3))
    equal = ov.fixed_point(model, ov.State.from_overlaps(model, Q=0.4 * ones, R=0.3 * ones, T=np.eye(3)))
    assert "all students equal, " in equal.message and "9 growing modes" not in ov.plateau(model).__repr__()
    plateau = ov.plateau(model)
    met = ov.fixed_point(model, plateau.state)
    assert "all students equivalent, 4 growing modes" in met.message and plateau.height < 0.0375
    learned = ov.fixed_point(model, ov.State.from_overlaps(model, Q=np.eye(3), R=np.eye(3), T=np.eye(3)))
    assert "no two students equivalent, 0 growing modes" in learned.message


def test_a_generic_start_meets_the_first_of_two_saddles():
    """Students that keep a symmetry leave the first along a mode of this symmetry: against random starts at N = 10^12.

    Their teachers' norms differ from one by 1e-6, and so do heights, relatively.
    """
    model = ov.committee_machine(3, 1, eta=0.25, spectrum=ov.Spectrum([3.0], [1.0]), v=[1.0, 1.0, 0.5])
    every = ov.plateau(model, all=True)
    waits = ov.solve(model, model.random_start(N=10**12, rng=1), (0, 1000)).plateaus()
    assert [x.growing for x in every] == [x.growing for x in waits] == [2, 2]
    np.testing.assert_allclose([x.height for x in every], [x.height for x in waits], rtol=2e-5)
    first = ov.plateau(model)
    assert first.height == every[0].height and np.isnan([*first.alpha, *every[1].alpha]).all()
    assert ov.plateau(ov.committee_machine(1, 1, eta=0.5), all=True) == []


@few("v", [[1.0, 0.6, 0.3], [1.0, 0.5]], quick=1)
def test_students_without_a_symmetry_meet_a_plateau(v):
    """Where all second layers differ: against random starts at N = 10^10, whose heights differ by 1e-5."""
    model = ov.committee_machine(len(v), 2, eta=0.75, v=v)
    (found,) = ov.plateau(model, all=True)
    (plateau,) = ov.solve(model, model.random_start(N=10**10, rng=3), (0, 2000)).plateaus()
    assert found.height == pytest.approx(plateau.height, rel=1e-4) and found.growing == plateau.growing


@pytest.mark.slow
def test_later_plateaus_depend_on_the_direction():
    """Nine modes grow at three rates: which saddle is next is a matter of the draw, as it is for random starts."""
    options = {"v_star": [0.58, 0.64, 1.1]}
    model = ov.committee_machine(4, 3, eta=0.666, **options)
    moved = [ov.plateau(model, all=True, rng=rng) for rng in range(3)]
    drawn = [curve(4, 0.666, rng, M=3, end=3e4, N=10**10, **options).plateaus() for rng in range(6)]
    for curves in (moved, drawn):
        heights = [[round(x.height, 4) for x in plateaus] for plateaus in curves]
        assert {x[0] for x in heights} == {0.0441} and len({tuple(x) for x in heights}) > 1


def test_generic_starts_are_those_of_moved_weights(monkeypatch, rng):
    """The overlaps of explicit weights W + e (a W + b W*) in each eigenspace, with the same random a, b."""
    monkeypatch.setattr(generic_plateau, "CURVE", generic_plateau.CURVE._replace(perturbation=0.3))
    N, halves = 40, np.repeat([0, 1], 20)
    model = ov.committee_machine(3, 2, eta=0.3, spectrum=ov.Spectrum([1.7, 0.4], [0.5, 0.5]))
    W, W_star = rng.standard_normal((3, N)), rng.standard_normal((2, N))
    state = ov.State.from_weights(model, W=W, W_star=W_star)
    moved = generic_plateau._perturbed(model, state, np.random.default_rng(7))
    draws = np.random.default_rng(7)
    a, b = draws.standard_normal((2, 3, 3)), draws.standard_normal((2, 3, 2))
    for l, s in enumerate(model.spectrum.s):
        # overlaps of students and teachers hold the eigenvalue, changes are as large as the students are
        size = np.sqrt(np.diag(state.q[l]))[:, None]
        W[:, halves == l] += 0.3 * (a[l] @ W[:, halves == l] + s * size * b[l] @ W_star[:, halves == l])
    known = ov.State.from_weights(model, W=W, W_star=W_star)
    for name in "qr":
        np.testing.assert_allclose(getattr(moved, name), getattr(known, name), rtol=0, atol=1e-13)
    np.testing.assert_array_equal(moved.tau, state.tau)


def test_averages_are_those_over_all_permutations(rng):
    """Against the mean over the permuted states, in groups and with several blocks."""
    from itertools import permutations

    model = ov.committee_machine(4, 2, eta=0.3, v=[1.0, 0.5, 1.0, 1.0], spectrum=ov.Spectrum([1.7, 0.4], [0.5, 0.5]))
    state = model.random_start(N=60, rng=rng)
    orders = [[a, 1, b, c] for a, b, c in permutations((0, 2, 3))]
    mean = averaged(model, state, equal_readouts(state.v))
    np.testing.assert_allclose(mean.q, np.mean([state.q[:, o][:, :, o] for o in orders], axis=0), rtol=0, atol=1e-15)
    np.testing.assert_allclose(mean.r, np.mean([state.r[:, o] for o in orders], axis=0), rtol=0, atol=1e-15)
    assert equivalent(mean) == [[0, 2, 3], [1]] and equivalent(state) == [[0], [1], [2], [3]]


def test_mean_overlaps_of_random_weights_are_those_of_a_large_draw(rng):
    """At N = 10^8, where the overlaps of a draw are off their mean by 1e-4 of it."""
    model = ov.committee_machine(3, 2, eta=0.3, spectrum=ov.Spectrum([1.7, 0.4], [0.3, 0.7]))
    mean, drawn = random_mean(model, 0.7), model.random_start(N=10**8, rng=rng, student_scale=0.7)
    for one, other in zip(mean.plain, drawn.plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=6e-4)


def test_bad_input():
    traj = curve(2, 0.5, 1, end=20.0)
    with pytest.raises(ValueError, match="start"):
        ov.plateau(traj.model, "symmetric")
    with pytest.raises(ValueError, match="no plateau"):
        ov.plateau(ov.committee_machine(1, 1, eta=0.5))
    slower = ov.solve(traj.model, traj[0], (0, 5.0), schedule=ov.Schedule.step([2.0], [0.5]))
    with pytest.raises(ValueError, match="schedule"):
        slower.plateaus()
    with pytest.raises(ValueError, match="blocks"):
        ov.solve(traj.model, traj[0], (0, 5.0), blocks=False).plateaus()


def test_a_rule_waits_at_the_plateau_of_the_descent_that_it_is():
    """Feedback through the weights of the output: the same saddle, by the closure of a rule."""
    rule, descent = ov.rules.feedback_alignment([1.0, 1.0], [1.0, 1.0]), ov.committee_machine(2, 2, eta=0.7)
    found, known = ov.plateau(ov.learner(rule, theta=[1.0, 1.0], eta=0.7)), ov.plateau(descent)
    assert np.isclose(found.height, known.height, rtol=1e-10)
    assert np.allclose(found.growing, known.growing, rtol=1e-7)  # derivatives of a rule are differences


def test_students_of_other_second_layers_are_not_equivalent():
    model = ov.committee_machine(2, 1, v=[0.7, 0.4], eta=0.5)
    same = ov.State.from_overlaps(model, Q=[[0.5, 0.2], [0.2, 0.5]], R=[[0.1], [0.1]], T=[[1.0]])
    assert equivalent(same) == [[0], [1]]
    for v in (0.4, 0.0):
        assert equivalent(dataclasses.replace(same, v=np.full(2, v))) == [[0, 1]]


def test_the_nearest_saddle_is_nearest_in_second_layers_as_well(monkeypatch):
    """Two saddles of equal overlaps: the first that Newton's method finds is further away."""
    model = ov.committee_machine(2, 2, eta=0.5, eta_v=0.3)
    at = ov.State.from_overlaps(model, Q=[[0.5, 0.2], [0.2, 0.5]], R=np.full((2, 2), 0.3), T=np.eye(2), v=[0.7, 0.7])
    saddles = [dataclasses.replace(at, v=np.full(2, v)) for v in (0.2, 0.6)]
    found = iter(saddles)
    monkeypatch.setattr(
        plateaus, "fixed_point", lambda model, guess: SimpleNamespace(converged=True, state=next(found))
    )
    assert plateaus.saddle(model, at, 0.0, np.inf).state is saddles[1]
