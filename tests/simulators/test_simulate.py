"""The verb simulate: starts and records, workers, interruptions, and what is refused."""

import dataclasses
import os
import signal
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import overlaps as ov
from overlaps.simulators.dispatch import SIMULATORS
from overlaps.simulators.reduced import reduced_run


def test_the_first_record_is_the_start_and_eps_g_is_exact(rng):
    model = ov.committee_machine(2, 2, eta=0.5, spectrum=ov.power_law(beta=1.0, L=3))
    start = model.random_start(N=30, rng=rng)
    sim = ov.simulate(model, N=300, alpha=[0.0, 1.0], rng=1, start=start, runs=2)
    for name in ("Q", "R"):
        np.testing.assert_allclose(getattr(sim, name)[:, 0], np.stack([getattr(start, name)] * 2), atol=1e-13)
    np.testing.assert_allclose(sim.T, np.stack([start.T] * 2), atol=1e-13)
    c = ov.closure(model, sim.Q[1, 1], sim.R[1, 1], sim.T[1])
    assert sim.eps_g[1, 1] == pytest.approx(c.eps_g, rel=1e-13)
    assert sim.start(1).Q == pytest.approx(start.Q)


def test_runs_do_not_depend_on_workers_records_or_their_number():
    model = ov.committee_machine(2, 2, eta=0.5, noise=0.1)
    options = dict(N=50, rng=7, method="direct")
    three = ov.simulate(model, alpha=[0, 1, 2], runs=3, **options)
    with ThreadPoolExecutor(2) as pool:
        parallel = ov.simulate(model, alpha=[0, 1, 2], runs=3, executor=pool, **options)
    assert three == parallel
    fewer = ov.simulate(model, alpha=[0, 0.3, 1.7, 2], runs=2, **options)
    np.testing.assert_array_equal(fewer.q[:, -1], three.q[:2, -1])
    other = ov.simulate(model, alpha=[0, 1, 2], runs=3, N=50, rng=8, method="direct")
    assert not np.array_equal(other.q, three.q)
    assert len({x.tobytes() for x in three.q[:, 0]}) == 3  # every run draws its own start


def test_times_are_whole_steps_and_intervals_start_where_they_say():
    model = ov.committee_machine(1, 1, eta=0.5)
    np.testing.assert_allclose(ov.simulate(model, N=30, alpha=[0.02, 0.99], rng=1).alpha, [1 / 30, 1.0])
    start = dataclasses.replace(model.random_start(N=30, rng=1), alpha=5.0)
    interval = ov.simulate(model, N=30, alpha=(5.0, 7.0), rng=1, start=start)
    assert interval.alpha[0] == 5.0 and interval.alpha[-1] == 7.0 and interval.state(0, -1).alpha == 7.0
    assert np.all(np.diff(interval.alpha) > 0)
    assert interval.start(0).alpha == 5.0
    np.testing.assert_allclose(interval.start(0).Q, start.Q, rtol=1e-12)
    fresh = dataclasses.replace(start, alpha=0.0)  # the flow is autonomous: two units of time, the same random numbers
    same = ov.simulate(model, N=30, alpha=[0.0, 2.0], rng=1, start=fresh)
    np.testing.assert_array_equal(same.q[:, -1], interval.q[:, -1])
    later = ov.simulate(model, N=30, alpha=[6.0, 7.0], rng=1, start=start)
    np.testing.assert_array_equal(later.q[:, -1], interval.q[:, -1])
    for wrong, options in ((r"begins at 4; .* time 5", {"alpha": [4.0, 7.0], "start": start}),
                           (r"times from 0 to 5", {"alpha": [7.0], "start": [start, fresh], "runs": 2}),
                           (r"begins at 5; .* time 0", {"alpha": (5.0, 7.0)})):  # fmt: skip
        with pytest.raises(ValueError, match=wrong):
            ov.simulate(model, N=30, rng=1, **options)


MODEL = ov.committee_machine(2, 1, eta=0.5)


def dies_in_run_2(model, start, N, steps, rng, tick=None, **options):
    """A run whose worker is killed, after the others had the time to finish."""
    if start.Q[0, 0] == 0.2:
        time.sleep(0.5)
        os._exit(1)
    return reduced_run(model, start, N, steps, rng, **options)


def presses_ctrl_c_in_run_2(model, start, N, steps, rng, tick=None, **options):
    if start.Q[0, 0] == 0.2:
        os.kill(os.getpid(), signal.SIGINT)  # reaches the main thread, which waits for results
        time.sleep(0.5)
    return reduced_run(model, start, N, steps, rng, **options)


def fails_in_run_2(model, start, N, steps, rng, tick=None, **options):
    if start.Q[0, 0] == 0.2:
        raise ZeroDivisionError("as a user's latents may")
    return reduced_run(model, start, N, steps, rng, **options)


def four_runs(monkeypatch, simulator, executor):
    """Four runs with a simulator of the test's; the third has a start by which it is known."""
    monkeypatch.setitem(SIMULATORS, "reduced", simulator)
    starts = [ov.State.from_overlaps(MODEL, Q=x * np.eye(2), R=[[0.1], [0.0]], T=[[1.0]]) for x in (0.5, 0.4, 0.2, 0.3)]
    options = dict(N=50, alpha=[0, 1, 2], rng=1, start=starts, runs=4)
    with pytest.warns(RuntimeWarning, match="Their missing records are nan") as caught:
        found = ov.simulate(MODEL, method="reduced", executor=executor, **options)
    monkeypatch.undo()
    assert len(caught) == 1 and not found.success and len(found) == 4 and found.message in str(caught[0].message)
    return found, ov.simulate(MODEL, method="reduced", **options)


def finished(found, whole):
    """Which runs are all there; the others are all nan."""
    there = np.isfinite(found.Q).all(axis=(1, 2, 3))
    for name in ("Q", "R", "v", "eps_g"):
        np.testing.assert_array_equal(getattr(found, name)[there], getattr(whole, name)[there])
        assert np.isnan(getattr(found, name)[~there]).all()
    return np.flatnonzero(there).tolist()


@pytest.mark.slow
def test_a_dead_worker_loses_no_finished_run(monkeypatch):
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        found, whole = four_runs(monkeypatch, dies_in_run_2, pool)
    there = finished(found, whole)
    assert 2 not in there and {0, 1} <= set(there)
    assert "A worker process died" in found.message and "BrokenProcessPool" in found.message


def test_ctrl_c_keeps_the_runs_that_workers_finished(monkeypatch):
    with ThreadPoolExecutor(1) as pool:
        found, whole = four_runs(monkeypatch, presses_ctrl_c_in_run_2, pool)
    # the third was under way, and is waited for
    assert finished(found, whole) == [0, 1, 2] and "0 diverged" in found.message and "1 interrupted" in found.message


@pytest.mark.parametrize("threads", [0, 2])
def test_a_run_that_raises_loses_itself_only(monkeypatch, threads):
    with ThreadPoolExecutor(2) as pool:
        found, whole = four_runs(monkeypatch, fails_in_run_2, pool if threads else None)
    assert finished(found, whole) == [0, 1, 3]
    assert "1 failed, the first is run 2: ZeroDivisionError: as a user's latents may." in found.message


@pytest.mark.parametrize("threads", [0, 2])
def test_what_every_run_raises_is_raised(monkeypatch, threads):
    def fails(*job, **options):
        raise ZeroDivisionError("always")

    monkeypatch.setitem(SIMULATORS, "reduced", fails)
    with ThreadPoolExecutor(2) as pool, pytest.raises(ZeroDivisionError, match="always"):
        ov.simulate(MODEL, N=50, alpha=[0, 1], rng=1, runs=3, executor=pool if threads else None)


BAD = [
    (dict(N=0), "N = 0"),
    (dict(N=10.5), "N = 10.5"),
    (dict(runs=0), "runs = 0"),
    (dict(method="exact"), "method = 'exact'"),
    (dict(alpha=[0.0, 0.001]), "closer than one step"),
    (dict(alpha=(2.0, 1.0)), "from < to"),
    (dict(start=[]), "start has 0 states"),
    (dict(student_scale=-1.0), "student_scale"),
    (dict(dtype="float16"), "dtype = 'float16'"),
]


@pytest.mark.parametrize("change, words", BAD, ids=[f"{c}" for c, _ in BAD])
def test_bad_arguments_are_refused(change, words):
    model = ov.committee_machine(1, 1, eta=0.5)
    with pytest.raises(ValueError, match=words):
        ov.simulate(model, **(dict(N=100, alpha=(0, 1), rng=1) | change))


def test_blocks_that_do_not_divide_are_refused():
    model = ov.committee_machine(1, 1, eta=0.5, spectrum=ov.power_law(beta=1.0, L=7))
    with pytest.raises(ValueError, match="try N = 98"):
        ov.simulate(model, N=100, alpha=(0, 1), rng=1)


def test_single_precision_means_explicit_weights():
    """Precision is that of weights: "auto" then takes the simulator that has some."""
    model = ov.committee_machine(1, 1, eta=0.5)
    runs = {x: ov.simulate(model, N=40, alpha=[0, 1], rng=1, dtype=x) for x in (None, "float64", "float32")}
    assert [run.method for run in runs.values()] == ["reduced", "reduced", "direct"]
    explicit = ov.simulate(model, N=40, alpha=[0, 1], rng=1, dtype="float32", method="direct")
    np.testing.assert_array_equal(runs["float32"].Q, explicit.Q)


@pytest.mark.parametrize("dense", [False, True])
def test_kept_weights_have_the_last_overlaps(dense, rng):
    root = rng.standard_normal((12, 20))
    spectrum = ov.Spectrum.from_covariance(root @ root.T / 20) if dense else ov.Spectrum([2.0, 0.5], [0.25, 0.75])
    model = ov.committee_machine(2, 1, eta=0.1, eta_v=0.2, spectrum=spectrum)
    options = dict(N=12, alpha=[0, 1, 3], rng=1, runs=2, method="direct")
    runs = ov.simulate(model, keep_weights=True, **options)
    Sigma = root @ root.T / 20 if dense else np.diag(np.repeat([2.0, 0.5], [3, 9]))
    for run in range(2):
        W, v = runs.final_weights(run)
        np.testing.assert_allclose(W @ Sigma @ W.T / 12, runs.Q[run, -1], rtol=1e-10, atol=1e-12)
        np.testing.assert_array_equal(v, runs.v[run, -1])
    plain = ov.simulate(model, **options)
    np.testing.assert_array_equal(plain.Q, runs.Q)
    with pytest.raises(ValueError, match="simulate with keep_weights=True"):
        plain.final_weights()
    with pytest.raises(ValueError, match="keep_weights=True with method = 'reduced'"):
        ov.simulate(model, keep_weights=True, **options | {"method": "reduced"})
    large = ov.committee_machine(2, 1, eta=0.3)
    assert ov.simulate(large, N=100, alpha=[0, 0.1], rng=1, keep_weights=True).method == "direct"


def test_a_state_of_a_run_has_the_readout_of_its_record():
    model = ov.committee_machine(2, 1, v=[0.7, -0.4], eta=0.3, eta_v=0.5)
    runs = ov.simulate(model, N=30, alpha=[0.0, 0.5, 1.0], rng=1, runs=2)
    state = runs.state(1, 2)
    assert np.array_equal(state.v, runs.v[1, 2]) and not np.array_equal(state.v, model.v)
    np.testing.assert_allclose([state.Q, state.S[:2, :2]], 2 * [runs.Q[1, 2]], rtol=1e-12)


@pytest.mark.parametrize("method", ["direct", "reduced"])
def test_a_seed_is_an_sfc64_and_a_generator_is_used_as_it_is(method):
    model = ov.committee_machine(1, 1, eta=0.5)

    def run(rng):
        return ov.simulate(model, N=20, alpha=[0, 1], rng=rng, method=method).Q

    assert np.array_equal(run(3), run(np.random.Generator(np.random.SFC64(3))))
    own = np.random.default_rng(3)
    assert np.array_equal(run(np.random.default_rng(3)), run(own)) and not np.array_equal(run(3), run(own))
    assert not np.array_equal(run(own), run(own))  # it spawns other children each time
