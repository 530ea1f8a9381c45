"""Tasks mixed in one step: an independent program, limits in which they are one task, SGD, controls, bad input."""

import dataclasses

import numpy as np
import pytest
from helpers import few

import overlaps as ov
from overlaps.analysis.noise_covariance import FieldPoints, product_covariance
from overlaps.flow.mixed import MixedSystem
from overlaps.flow.system import System
from overlaps.protocols.shares import Search

T = [[1, 0.3], [0.3, 0.9]]
HEADS = [[0.7, 0.4], [0.3, -0.5]]
TIGHT = {"rtol": 1e-11, "atol": 1e-13}


def task(v_star, **options):
    numbers = {"v": [0.7, 0.4], "eta": 0.8, "eta_v": 0.4, "noise": 0.2}
    return ov.committee_machine(2, 2, v_star=v_star, **numbers | options)


FIRST, SECOND = task([1.0, 0.0]), task([0.0, 0.8])
START = ov.State.from_overlaps(FIRST, Q=[[0.5, 0.1], [0.1, 0.4]], R=[[0.2, 0.05], [0.1, 0.15]], T=T)


def blocks(model, seed=1):
    """A start on two eigenspaces, with overlaps that all differ."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((2, 4, 9)) / 3
    joint = X @ X.swapaxes(1, 2) / 2
    return ov.State.from_blocks(model, q=joint[:, :2, :2], r=joint[:, :2, 2:], t=joint[:, 2:, 2:])


GOLDEN = {  # Q11 Q12 Q22, R11 R12 R21 R22, v, errors of both tasks; at 5 and at 20, or at 20
    "shared": [
        [.537207983344, .115809814664, .419675966556, .571203186712, .255284859515, .311296715450, .270788144926,
         .640278873170, .371665744436, .059116750867, .091953931986],
        [.799176908656, .299995277861, .502485663218, .812050186233, .380450961214, .454709128934, .353676416147,
         .651366405191, .367285706407, .025916012399, .097076887688],
    ],
    "own": [
        [.598749695570, .147766554884, .354016012327, .625925993273, .241309830697, .295058556590, .049866268127,
         .687608436101, .375267749624, .301245262849, -.441126880115, .053210477199, .105167034747],
        [.991796297167, .263832496797, .430939590842, .945309026403, .487892749213, .418512345757, -.212579970965,
         .798205338322, .403974564266, .378995035242, -.414485865243, .005461047160, .049172302197],
    ],
    "rates": [
        [1.193509782708, .042941649404, .744642353040, .979253354113, .633694152239, .385461693374, -.442748976368,
         .806657833519, .409339918281, .405555920402, -.400399005173, .009968642687, .035600396958],
    ],
    "schedule": [
        [.977163946122, .072360506298, .496802122961, .878566119599, .630217172775, .350978958181, -.384805689253,
         .771020484114, .410880441565, .452488686748, -.456715926577, .013099918405, .021279629390],
    ],
}  # fmt: skip
MODELS = {
    "shared": ov.Mixed([FIRST, SECOND], [0.7, 0.3]),
    "own": ov.Mixed([FIRST, SECOND], [0.7, 0.3], heads=HEADS),
    "rates": ov.Mixed([FIRST, task([0, 0.8], eta=1.6, eta_v=0.8, noise=0.5)], [0.7, 0.3], heads=HEADS),
    "schedule": ov.Mixed([FIRST, SECOND], ov.Schedule([0, 20], [1, 0]), heads=HEADS),
}


def numbers(traj, n):
    """As the rows of GOLDEN."""
    Q = traj.Q[n][np.triu_indices(2)]
    return np.concatenate([Q, traj.R[n].ravel(), traj.v[n].ravel(), [traj.task_error(0)[n], traj.task_error(1)[n]]])


@pytest.mark.parametrize("name", GOLDEN)
def test_an_independent_program(name):
    """Fixed numbers, to the 1e-9 that its integrator and this one leave."""
    rows = GOLDEN[name]
    traj = ov.solve(MODELS[name], START, [5.0, 20.0][-len(rows) :], **TIGHT)
    for n, row in enumerate(rows):
        assert np.allclose(numbers(traj, n), row, atol=1e-9, rtol=0)
    shares = MODELS[name].at(traj.alpha)
    assert np.allclose(traj.eps_g, shares[0] * traj.task_error(0) + shares[1] * traj.task_error(1), rtol=1e-14)


@pytest.mark.parametrize("heads", [None, HEADS])
def test_implicit_steps(heads):
    """The Jacobian is the mean of the tasks', heads of their own included: no step fails, and the curve is the same."""
    mixed = ov.Mixed([FIRST, SECOND], [0.7, 0.3], heads)
    found, expected = (ov.solve(mixed, START, [3.0], method=x, rtol=1e-9) for x in ("structured", "DOP853"))
    assert found.success and found.nfev < 700
    assert np.allclose(found.R, expected.R, atol=1e-8) and np.allclose(found.v, expected.v, atol=1e-8)


def test_equal_tasks_are_one_task():
    """With weight decay, batches, a spectrum: any shares of twice the same; heads that begin equal then differ."""
    spectrum = ov.Spectrum(s=[0.5, 1.7], p=[0.4, 0.6])
    one = task([0.9, -0.4], spectrum=spectrum, weight_decay=(0.1, 0.3), batch_size=3, drift=0.0)
    start = blocks(one)
    alone = ov.solve(one, start, [0.0, 2.0, 6.0], **TIGHT)
    for shares in ([0.3, 0.7], [1.0, 0.0], ov.Schedule([0, 3, 6], [0.2, 0.9, 0.4])):
        both = ov.solve(ov.Mixed([one, one], shares), start, [0.0, 2.0, 6.0], **TIGHT)
        for name in ("q", "r", "v", "eps_g"):
            assert np.allclose(getattr(both, name), getattr(alone, name), atol=1e-9)
        assert np.array_equal(both.task_error(0), both.task_error(1))
    own = ov.solve(ov.Mixed([one, one], [0.5, 0.5], heads=[one.v, one.v]), start, [0.0, 2.0], **TIGHT)
    assert np.allclose(own.v[:, 0], own.v[:, 1], atol=1e-12)  # half of the samples each: slower than alone
    assert np.abs(own.v[1, 0] - start.v).max() < 0.9 * np.abs(alone.v[1] - start.v).max()


def test_eigenvalues_of_their_own():
    """One share of 1 is the flow on that task's inputs, in units of the first task's; s = 0 in the second only."""
    s = [0.5, 1.7], [1.3, 0.0]
    tasks = [
        task(v, spectrum=ov.Spectrum(s=x, p=[0.4, 0.6])) for v, x in zip(([1.0, -0.2], [0.3, 0.8]), s, strict=True)
    ]
    start = blocks(tasks[0])
    q, r, t = start.plain
    there = ov.State.from_blocks(tasks[1], q=q, r=r, t=t, v=start.v)
    alone = ov.solve(tasks[1], there, [0.0, 4.0], **TIGHT)
    mixed = ov.solve(ov.Mixed(tasks, [0.0, 1.0]), start, [0.0, 4.0], **TIGHT)
    assert np.allclose(mixed.q, alone.q, atol=1e-10) and np.allclose(mixed.task_error(1), alone.eps_g, atol=1e-10)
    assert np.allclose(mixed.r[1, 0] / 0.5, alone.r[1, 0] / 1.3, atol=1e-10)
    assert np.array_equal(mixed.r[1, 1], start.r[1])  # frozen where the task has no variance
    half, pieces = ov.Mixed(tasks, [0.5, 0.5]), ov.Mixed(tasks, ov.Schedule([0, 2], [0.5, 0.5]))
    known, found = (ov.solve(x, start, [0.0, 4.0], **TIGHT) for x in (half, pieces))
    for name in ("q", "r", "v", "eps_g"):  # a schedule that changes nothing
        assert np.allclose(getattr(found, name), getattr(known, name), atol=1e-12)
    with pytest.raises(ValueError, match="eigenvalues differ"):
        ov.solve(ov.Mixed(tasks, [0.5, 0.5]), start, [1.0], method="structured")
    with pytest.raises(ValueError, match="expected the task with all variances first"):
        ov.Mixed(tasks[::-1], [0.5, 0.5])


def test_stages_of_mixtures():
    """Shares of 0 and 1 in a row are Stages; a schedule with a jump is the same."""
    ends, times = [2.0, 5.0], [0.0, 1.0, 2.0, 5.0]
    pure = ov.solve(ov.Stages([FIRST, SECOND], ends), START, times, **TIGHT)
    mixtures = [ov.Mixed([FIRST, SECOND], shares) for shares in ([1, 0], [0, 1])]
    staged = ov.solve(ov.Stages(mixtures, ends), START, times, **TIGHT)
    jump = ov.solve(ov.Mixed([FIRST, SECOND], ov.Schedule([0, 2], [1, 0], "constant")), START, times, **TIGHT)
    for name in ("Q", "R", "v"):
        assert np.allclose(getattr(staged, name), getattr(pure, name), atol=1e-10)
        assert np.allclose(getattr(jump, name), getattr(pure, name), atol=1e-10)
    for stage in range(2):  # each stage mixes both tasks, with shares of 0 and 1
        for task in range(2):
            assert np.allclose(staged.task_error(stage, task), pure.task_error(task), atol=1e-10)
    with pytest.raises(ValueError, match=r"j = None for stage 1, .*task_error\(1, j\), one of its 2 tasks"):
        staged.task_error(1)
    with pytest.raises(ValueError, match=r"j = 0 for stage 1, .*expected task_error\(1\)"):
        pure.task_error(1, 0)
    assert np.allclose(jump.eps_g, pure.eps_g, atol=1e-10)
    replay = ov.solve(ov.Stages([FIRST, mixtures[1], MODELS["shared"]], [2.0, 3.0, 5.0]), START, times)
    assert replay.success and replay.task_error(2, 1).shape == replay.task_error(0).shape == (4,)
    runs = ov.simulate(ov.Stages(mixtures, ends), N=100, alpha=times, rng=1, runs=2, start=START)
    assert runs.task_error(0, 1).shape == (2, 4)


def test_shares_that_change_are_the_limit_of_constant_pieces():
    """Averages of a linear share on pieces: the error falls as their square."""
    linear = ov.Schedule([0, 6], [0.9, 0.2])
    exact = ov.solve(ov.Mixed([FIRST, SECOND], linear), START, [6.0], **TIGHT).R
    gaps = []
    for n in (2, 4, 8):
        edges = np.linspace(0, 6, n + 1)
        pieces = ov.Schedule(
            edges[:-1], [linear((a + b) / 2) for a, b in zip(edges, edges[1:], strict=False)], "constant"
        )
        gaps.append(np.abs(ov.solve(ov.Mixed([FIRST, SECOND], pieces), START, [6.0], **TIGHT).R - exact).max())
    assert 3.3 < gaps[0] / gaps[1] < 4.7 and 3.6 < gaps[1] / gaps[2] < 4.4


def test_a_constant_share_is_a_number():
    one, other = (ov.Mixed([FIRST, SECOND], x) for x in (ov.Schedule.constant(0.3), [0.3, 0.7]))
    assert np.array_equal(one.at([0.0, 7.0]), other.at([0.0, 7.0]))


def everything_of_its_own():
    """Heads, rates, noise (none in the first), eigenvalues, teachers' activation; batches and decay for both."""
    common = {"batch_size": 2, "weight_decay": (0.1, 0.2)}
    one = task([1.0, 0.0], spectrum=ov.Spectrum(s=[0.5, 1.5], p=[0.5, 0.5]), **common | {"noise": 0.0})
    other = task([0.3, 0.8], spectrum=ov.Spectrum(s=[1.5, 0.2], p=[0.5, 0.5]), eta=1.2, eta_v=0.7,
                 teacher_activation=ov.sign, **common)  # fmt: skip
    return ov.Mixed([one, other], ov.Schedule([0, 3], [0.8, 0.3]), heads=HEADS), blocks(one)


@few("method", ["direct", "reduced"], quick=1)
def test_simulators(method):
    """Within three standard errors; what is of order 1/N is a tenth of one."""
    mixed, start = everything_of_its_own()
    traj = ov.solve(mixed, start, [0.0, 1.0, 3.0])
    runs = ov.simulate(mixed, N=400, alpha=traj.alpha, rng=4, runs=30, start=start, method=method)
    for name in ("Q", "R", "v", "eps_g"):
        gap = np.abs(runs.mean(name) - getattr(traj, name))[1:]
        assert np.all(gap < 3 * runs.standard_error(name)[1:])
    own = runs.task_error(1)
    assert np.all(
        np.abs(own.mean(axis=0) - traj.task_error(1))[1:] < 3 * own.std(axis=0, ddof=1)[1:] / np.sqrt(len(own))
    )


@pytest.mark.parametrize("method", ["direct", "reduced"])
@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_shares_of_one_and_nothing_reproduce_the_first_task(method, noise):
    """The same draws in kernels that are compiled apart: the digits agree to rounding, which the steps carry on."""
    first = dataclasses.replace(FIRST, noise=noise, weight_decay=(0.1, 0.3), batch_size=3)
    second = dataclasses.replace(first, v_star=[0.1, 0.7], noise=0.4, eta=1.3)
    options = {"N": 60, "alpha": [0, 1, 2], "rng": 1, "runs": 2, "start": START, "method": method}
    alone, mixed = ov.simulate(first, **options), ov.simulate(ov.Mixed([first, second], [1, 0]), **options)
    for name in ("q", "r", "v"):
        np.testing.assert_allclose(getattr(mixed, name), getattr(alone, name), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("method", ["direct", "reduced"])
def test_shares_of_nothing_and_one_reproduce_the_second_task(method):
    """Its own teacher, rate and noise, from the same draws: the digits agree to rounding."""
    first = dataclasses.replace(FIRST, noise=0.2, weight_decay=(0.1, 0.3), batch_size=3)
    second = dataclasses.replace(first, v_star=[0.1, 0.7], noise=0.4, eta=1.3)
    options = {"N": 60, "alpha": [0, 1, 2], "rng": 1, "runs": 2, "start": START, "method": method}
    alone, mixed = ov.simulate(second, **options), ov.simulate(ov.Mixed([first, second], [0, 1]), **options)
    for name in ("q", "r", "v"):
        np.testing.assert_allclose(getattr(mixed, name), getattr(alone, name), rtol=1e-11, atol=1e-12)


OPPOSED = task([1.0, 0.0], batch_size=2), task([-0.9, 0.8], noise=0.4, batch_size=2)
OWN = [FIRST, task([0, 0.8], eta=1.3, eta_v=0.7, noise=0.5, teacher_activation=ov.sign)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "mixed",
    [
        ov.Mixed(OPPOSED, [0.5, 0.5]),
        pytest.param(ov.Mixed(OWN, [0.6, 0.4], heads=HEADS), marks=pytest.mark.slow),
        pytest.param(ov.Mixed(OWN, [0.6, 0.4]), marks=pytest.mark.slow),
    ],
    ids=["opposed tasks", "heads, rates and teachers", "rates and teachers"],
)
def test_fluctuations_mix_second_moments(mixed):
    """The covariance of a sample is larger than the mean of the tasks' covariances; 400 runs of SGD."""
    traj = ov.solve(mixed, START, [0.0, 0.5, 1.0])
    found = ov.fluctuations(traj, 300)
    runs = ov.simulate(mixed, N=300, alpha=traj.alpha, rng=2, runs=400, start=START, method="reduced")
    error = 1 / np.sqrt(2 * 400)  # of a standard deviation, relative
    for name in ("Q", "R", "v", "eps_g"):
        assert found.std(name).shape == getattr(traj, name).shape
        assert np.all(np.abs(runs.std(name)[1:] / found.std(name)[1:] - 1) < 4 * error)
        gap = runs.mean(name) - found.mean(name)
        assert np.all(np.abs(gap)[1:] < 4 * runs.standard_error(name)[1:])


def test_fluctuations_of_equal_tasks_are_those_of_one():
    """Decay of both layers included; two heads that begin equal are two halves of what one learns."""
    one = task([1.0, 0.0], weight_decay=(0.2, 0.3))
    alone, same = (ov.solve(x, START, [0.0, 1.0]) for x in (one, ov.Mixed([one] * 2, [0.3, 0.7])))
    one, both = (ov.fluctuations(x, 300, points=64) for x in (alone, same))  # the same points
    for name in ("covariances", "shifts", "gradients"):
        assert np.allclose(getattr(one, name), getattr(both, name), rtol=1e-8, atol=1e-9)


def test_samples_of_tasks_in_another_order_have_the_same_covariance():
    """With heads, which move in the samples of their own task: their rows change places."""
    one, two = task([0.9, 0.3], activation=ov.linear), task([-0.4, 0.8], activation=ov.linear, noise=0.5)
    here, there = (
        product_covariance(mixed, FieldPoints.of(mixed, 64, np.random.default_rng(1)), START.S, np.ravel(mixed.heads))[
            0
        ]
        for mixed in (ov.Mixed([one, two], [0.3, 0.7], HEADS), ov.Mixed([two, one], [0.7, 0.3], HEADS[::-1]))
    )
    order = np.r_[: len(here) - 4, len(here) - 2 : len(here), len(here) - 4 : len(here) - 2]
    np.testing.assert_allclose(there[np.ix_(order, order)], here, rtol=0, atol=1e-12)
    assert np.abs(np.diagonal(here)).min() > 1e-3


def test_fluctuations_that_are_not_known():
    own, decaying = everything_of_its_own()[0].models[1], dataclasses.replace(FIRST, weight_decay=(0.0, 0.1))
    wide = ov.Mixed([dataclasses.replace(own, spectrum=ov.Spectrum(s=[2.0, 1.0], p=[0.5, 0.5])), own], [0.5, 0.5])
    for mixed, start in (
        (MODELS["schedule"], START),
        (ov.Mixed([decaying] * 2, [0.5, 0.5], heads=HEADS), START),
        (wide, blocks(wide.models[0])),
    ):
        with pytest.raises(ValueError, match="the steps of these mixed tasks differ by task"):
            ov.fluctuations(ov.solve(mixed, start, [0.0, 0.1]), 300)


@few("mean", [False, True], quick=1)
def test_gradient_of_shares(mean):
    """Against central differences: three tasks, heads, spectra and rates of their own, decay."""
    mixed, start = everything_of_its_own()
    third = dataclasses.replace(mixed.models[0], v_star=[-0.5, 0.6], eta=0.5)
    mixed = ov.Mixed([*mixed.models, third], [0.3, 0.3, 0.4], heads=[*HEADS, [0.5, 0.6]])
    weights, knots = [0.5, 0.3, 0.2], np.array([0.0, 0.8, 2.0])
    search = Search(mixed, start, knots, weights, mean)
    shares = np.random.default_rng(3).dirichlet([2, 2, 2], 3)
    gradient = search.gradient(shares)[1]
    step = 1e-4 * np.random.default_rng(4).standard_normal(shares.shape)
    ahead, behind = search.run(shares + step), search.run(shares - step)
    assert np.sum(gradient * step) == pytest.approx((ahead - behind) / 2, rel=1e-6)  # third order of 1e-4
    constant = ov.solve(mixed, start, [2.0], **TIGHT)
    value = Search(mixed, start, np.linspace(0, 2, 9), weights, False).run(np.tile(mixed.shares, (9, 1)))
    assert value == pytest.approx(sum(w * constant.task_error(i)[0] for i, w in enumerate(weights)), rel=1e-7)


def test_gradient_of_the_mean_error_by_shares():
    """The same for two tasks, over a horizon that is not 1; and the mean itself by the trapezoidal rule."""
    mixed, knots = MODELS["shared"], np.array([0.0, 0.3])
    search, shares = Search(mixed, START, knots, [0.6, 0.9], True), np.array([[0.7, 0.3], [0.7, 0.3]])
    value, gradient = search.gradient(shares)
    step = 1e-4 * np.array([[0.3, -0.8], [0.5, 0.4]])
    ahead, behind = search.run(shares + step), search.run(shares - step)
    assert np.sum(gradient * step) == pytest.approx((ahead - behind) / 2, rel=1e-6)  # third order of 1e-4
    traj = ov.solve(mixed, START, np.linspace(0, 0.3, 101), **TIGHT)
    mean = np.trapezoid(0.6 * traj.task_error(0) + 0.9 * traj.task_error(1), traj.alpha) / 0.3
    assert value == pytest.approx(mean, rel=1e-6)  # the square of a step of 0.003


@pytest.mark.slow
def test_best_shares():
    """Never above the best constant ones, between 0 and 1, and what an adaptive integration says."""
    best = ov.optimal_schedule(MODELS["own"], START, 3.0, control="shares", knots=3)
    assert best.success and best.value <= best.constant[1] and np.all((best.shares >= 0) & (best.shares <= 1))
    again = ov.solve(ov.Mixed([FIRST, SECOND], best.schedule, heads=HEADS), START, [3.0])
    assert again.task_error(0)[0] / 2 + again.task_error(1)[0] / 2 == pytest.approx(best.value, rel=1e-5)
    with pytest.raises(ValueError, match="expected 'shares' for ov.Mixed"):
        ov.optimal_schedule(MODELS["own"], START, 3.0)


def test_best_shares_follow_the_order_of_the_tasks():
    """Of one readout, for a weighted sum of errors; the value is what an adaptive integration says."""
    models = [dataclasses.replace(FIRST, v_star=x, v=FIRST.v, noise=0.6) for x in ([0.9, 0.2], [0.7, -0.4])]
    weights, found = np.array([1.3, 1.0]), []
    for order in ([0, 1], [1, 0]):
        mixed = ov.Mixed([models[i] for i in order], np.array([0.3, 0.7])[order])
        found.append(ov.optimal_schedule(mixed, START, 2.0, control="shares", knots=3, weights=weights[order]))
    one, other = found
    assert one.success and other.success and one.value == pytest.approx(other.value, rel=1e-8)
    np.testing.assert_allclose(one.shares, other.shares[:, ::-1], rtol=0, atol=1e-3)  # values are flat at their minimum
    again = ov.solve(ov.Mixed(models, one.schedule), START, [2.0], **TIGHT)
    errors = [again.task_error(i)[0] for i in range(2)]
    assert weights @ errors == pytest.approx(one.value, rel=1e-5)


def test_the_constant_shares_of_three_tasks_are_equal():
    """Whatever shares the model has: their errors are those of an adaptive integration."""
    tasks = [task(v) for v in ([1.0, 0.0], [0.0, 0.8], [0.5, -0.5])]
    search = Search(ov.Mixed(tasks, [0.2, 0.3, 0.5]), START, np.array([0.0, 0.7, 2.0]), None, False)
    shares, value = search.constant()
    equal = ov.solve(ov.Mixed(tasks, [1 / 3] * 3), START, [2.0], **TIGHT)
    np.testing.assert_allclose(shares, 1 / 3, rtol=1e-15)
    assert value == pytest.approx(np.mean([equal.task_error(i)[0] for i in range(3)]), rel=1e-6)


def test_rounding_of_equal_tasks_is_that_of_one():
    mixed, one = MixedSystem(ov.Mixed([FIRST] * 2, [0.3, 0.7]), START), System(FIRST, START)
    for system in (mixed, one):
        system.close(system.pack(START))
    assert mixed.rounding() == pytest.approx(one.rounding(), rel=1e-12, abs=0)


def test_the_floor_of_equal_tasks_is_that_of_one():
    """Rounding of four tasks in their shares; numbers of steps may differ."""
    four, one = (ov.solve(model, START, [0.0, 1.0]) for model in (ov.Mixed([FIRST] * 4, [0.1, 0.2, 0.3, 0.4]), FIRST))
    np.testing.assert_allclose(four.eps_floor[0], one.eps_floor[0], rtol=0.3)


@pytest.mark.slow
def test_three_tasks_on_the_simplex():
    tasks = [task(v) for v in ([1.0, 0.0], [0.0, 0.8], [0.5, -0.5])]
    mixed = ov.Mixed(tasks, [0.3, 0.3, 0.4], heads=[[0.7, 0.4], [0.3, -0.5], [0.4, 0.4]])
    best = ov.optimal_schedule(mixed, START, 5.0, control="shares", knots=3, maxiter=40, tol=1e-4)
    assert np.allclose(best.shares.sum(axis=1), 1) and best.shares.min() >= 0 and best.value < best.constant[1]


def test_bad_input():
    for wrong, message in (
        (([FIRST], [1.0]), "expected two models or more"),
        ((FIRST, [1.0]), "expected two models or more"),
        (([FIRST, SECOND], [0.5, 0.6]), "whose sum is 1"),
        (([FIRST, SECOND], [1.5, -0.5]), "whose sum is 1"),
        (([FIRST, SECOND], [0.5, 0.3, 0.2]), "shares has shape"),
        (([FIRST, SECOND], ov.Schedule([0, 5], [0.5, 1.5])), "whose sum is 1"),
        (([FIRST, SECOND], [ov.Schedule.constant(0.5), ov.Schedule([0, 5], [0.5, 0.4])]), "at alpha"),
        (([FIRST, SECOND], [0.5, 0.5], [[1.0, 1.0]]), "heads has shape"),
        (([FIRST, dataclasses.replace(SECOND, batch_size=2)], [0.5, 0.5]), "differ in batch_size"),
        (([FIRST, dataclasses.replace(SECOND, weight_decay=0.1)], [0.5, 0.5]), "differ in weight_decay"),
        (([FIRST, task([0, 1], activation=ov.linear)], [0.5, 0.5]), "differ in activation"),
        (([FIRST, task([0, 1], constraint="sphere")], [0.5, 0.5]), "with tasks mixed in one step"),
        (([FIRST, task([0, 1], drift=0.1)], [0.5, 0.5]), "with tasks mixed in one step"),
    ):
        with pytest.raises(ValueError, match=message):
            ov.Mixed(*wrong)
    for name in ("late", "certify"):
        with pytest.raises(ValueError, match=f"{name}=True with "):
            ov.solve(MODELS["shared"], START, [1.0], **{name: True})
    own = ov.solve(MODELS["own"], START, [1.0])
    with pytest.raises(ValueError, match="expected heads="):
        ov.solve(MODELS["shared"], own[0], [2.0])
    with pytest.raises(IndexError, match="i = 2"):
        own.task_error(2)
    with pytest.raises(ValueError, match="plateaus does not support tasks mixed in one step"):
        own.plateaus()
    with pytest.raises(ValueError, match="initial has shape"):
        ov.optimal_schedule(MODELS["own"], START, 0.1, control="shares", knots=2, initial=[0.5, 0.5])
    with pytest.raises(ValueError, match="differ in heads"):
        ov.Stages([FIRST, MODELS["own"]], [1.0, 2.0])
    with pytest.raises(ValueError, match="expected a Model|does not support tasks mixed"):
        ov.fixed_point(MODELS["shared"], START)
    again = ov.solve(MODELS["own"], own[0], [2.0], **TIGHT)  # a record goes on with its heads
    assert np.allclose(again.R, ov.solve(MODELS["own"], START, [2.0], **TIGHT).R, atol=1e-7)


@few("name", MODELS, quick=2)
def test_files_labels_tables_and_pictures(name, tmp_path):
    """A result comes back equal, with its shares, heads and schedules; arrays of heads have an axis of tasks."""
    import matplotlib

    matplotlib.use("agg")
    traj = ov.solve(MODELS[name], START, [0.0, 1.0, 2.0])
    runs = ov.simulate(MODELS[name], N=60, alpha=traj.alpha, rng=1, runs=2, start=START)
    for result in (traj, runs):
        result.save(tmp_path / "result.npz")
        again = ov.load(tmp_path / "result.npz")
        assert again == result and np.array_equal(again.task_error(1), result.task_error(1))
        data = result.to_xarray()
        assert data.error.dims == ("task", *data.eps_g.dims)
        assert ov.results.labelled.model_of(data) == result.model
        table = result.to_pandas()
        assert np.array_equal(table["error_2"], result.task_error(1).ravel())
        own = result.model.heads is not None
        assert np.array_equal(
            table["v_2_1" if own else "v_2"], (result.v[..., 1, 0] if own else result.v[..., 1]).ravel()
        )
        axes = result.plot()
        assert [line.get_label() for line in axes[0].get_lines()[:2]] == ["task 1", "task 2"]
        matplotlib.pyplot.close("all")
    with pytest.raises(ValueError, match="expected the Mixed that was saved"):
        traj.save(tmp_path / "result.npz")
        ov.load(tmp_path / "result.npz", model=ov.Mixed([FIRST, SECOND], [0.6, 0.4]))


@few("change", [{"eta": 0.5}, {"eta_v": 0.3}], ids=["eta", "eta_v"])
def test_fluctuations_know_no_decay_at_rates_that_differ(change):
    tasks = [dataclasses.replace(task, weight_decay=0.1) for task in (FIRST, SECOND)]
    apart = [tasks[0], dataclasses.replace(tasks[1], **change)]
    equal, other = (ov.solve(ov.Mixed(models, [0.3, 0.7]), START, [0.0, 0.1]) for models in (tasks, apart))
    assert np.all(np.isfinite(ov.fluctuations(equal, 500, points=64).std("Q")))
    with pytest.raises(ValueError, match="rates or heads with weight decay"):
        ov.fluctuations(other, 500, points=64)
