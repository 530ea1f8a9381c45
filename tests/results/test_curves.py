"""What solutions and runs have in common: arrays that cannot be changed, errors, statistics."""

import dataclasses
import pickle

import numpy as np
import pytest

import overlaps as ov


def test_results_are_read_only_here_and_after_a_worker(results, tmp_path):
    manifold = ov.simulate(ov.hidden_manifold(2, 2, ratio=0.5, eta=0.2), N=20, alpha=[0, 1], rng=1, runs=2)
    for result in (*results, manifold):
        result.save(tmp_path / "run.npz")
        for copy in (result, pickle.loads(pickle.dumps(result)), ov.load(tmp_path / "run.npz")):
            names = [f.name for f in dataclasses.fields(copy) if isinstance(getattr(copy, f.name), np.ndarray)]
            assert {"alpha", "v", "T"} < set(names)
            for name in (*names, "eps_g"):
                with pytest.raises(ValueError, match="read-only"):
                    getattr(copy, name)[...] = 0.0
    model = pickle.loads(pickle.dumps(results[0].model))
    with pytest.raises(ValueError, match="read-only"):
        model.v[...] = 0.0


def test_a_changed_copy_has_an_error_of_its_own(results):
    traj = results[0]
    before = traj.eps_g
    changed = dataclasses.replace(traj, v=2 * traj.v)
    expected = ov.closure(traj.model, traj.Q[-1], traj.R[-1], traj.T, 2 * traj.v[-1]).eps_g
    assert changed.eps_g[-1] == pytest.approx(expected, rel=1e-12) and changed.eps_g[-1] != before[-1]


def test_final_weights_are_a_network_with_the_last_error():
    """Fresh inputs, 4 standard errors: of both layers, which have moved."""
    model = ov.committee_machine(
        2, 1, eta=0.3, eta_v=5.0, noise=0.2, v=[1.4, 0.6], spectrum=ov.Spectrum([1.6, 0.4], [0.4, 0.6])
    )
    W_star = np.random.default_rng(3).standard_normal((1, 20))
    start = ov.State.from_weights(model, W=0.3 * np.random.default_rng(4).standard_normal((2, 20)), W_star=W_star)
    runs = ov.simulate(model, N=20, alpha=[0, 1, 9], rng=1, runs=2, start=start, method="direct", keep_weights=True)
    for run in range(2):
        W, v = runs.final_weights(run)
        Q = W * np.repeat(model.spectrum.s, [8, 12]) @ W.T / 20
        lam = np.random.default_rng(5).standard_normal((100_000, 2)) @ np.linalg.cholesky(Q).T
        found = (ov.erf.g(lam) @ v) ** 2
        S = runs.Q[run, -1] / np.sqrt(np.outer(1 + np.diag(runs.Q[run, -1]), 1 + np.diag(runs.Q[run, -1])))
        wanted = runs.v[run, -1] @ (2 / np.pi * np.arcsin(S)) @ runs.v[run, -1]
        assert abs(found.mean() - wanted) < 4 * found.std() / np.sqrt(100_000)
        assert np.abs(v - runs.v[run, 0]).max() > 0.1


def test_statistics_of_runs(results):
    _, sim = results
    np.testing.assert_allclose(sim.mean("Q"), sim.Q.mean(axis=0))
    np.testing.assert_allclose(sim.standard_error("eps_g"), sim.eps_g.std(axis=0, ddof=1) / np.sqrt(3))
    low, high = sim.quantile("R", [0.0, 1.0])
    assert np.all(low <= sim.mean("R")) and np.all(sim.mean("R") <= high)
    np.testing.assert_allclose(sim.std("v"), np.sqrt(((sim.v - sim.v.mean(axis=0)) ** 2).sum(axis=0) / 2))
    one = ov.simulate(sim.model, N=100, alpha=[0, 1], rng=1)
    for statistic in (one.standard_error, one.std):
        with pytest.raises(ValueError, match="runs >= 2"):
            statistic("Q")


def test_tables_have_one_row_for_each_record(results):
    pytest.importorskip("pandas")
    traj, sim = results
    table, runs = traj.to_pandas(), sim.to_pandas()
    assert len(table) == len(traj) and len(runs) == len(sim) * sim.alpha.size
    one = runs[(runs.run == 1) & (runs.alpha == sim.alpha[-1])]
    assert one.R_12.item() == sim.R[1, -1, 0, 1] and one.Q_12.item() == sim.Q[1, -1, 0, 1]
    assert "Q_21" not in runs and table.eps_g.iloc[-1] == traj.eps_g[-1]
    wide = ov.committee_machine(11, 1, eta=0.1)
    names = set(ov.solve(wide, wide.random_start(N=100, rng=1), [0.0]).to_pandas().columns)
    assert {"Q_1_11", "Q_11_11", "R_11_1"} <= names and len(names) == 2 + 66 + 11 + 11


def test_a_data_set_brings_its_model(results):
    pytest.importorskip("xarray")
    from overlaps.results.labelled import model_of

    for result in results:
        data = result.to_xarray()
        assert model_of(data) == result.model and data.attrs.get("N") == getattr(result, "N", None)
    with pytest.raises(ValueError, match="no attribute model_json"):
        model_of(type(data)(data.data_vars))
    sine = dataclasses.replace(results[0].model, activation=ov.Activation.from_function(np.sin, np.cos, name="sine"))
    start = sine.random_start(N=100, rng=1)
    with pytest.raises(ValueError, match="function of the user .*sine"):
        model_of(ov.solve(sine, start, [0.0]).to_xarray())


def test_slopes_are_those_of_a_known_curve():
    """A linear unit in gradient flow: eps_g = exp(-2 alpha) / 2, so d ln eps_g / d ln alpha = -2 alpha."""
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=1.0, gradient_flow=True)
    start = ov.State.from_overlaps(model, Q=[[0.0]], R=[[0.0]], T=[[1.0]])
    times = np.geomspace(0.1, 3.0, 60)
    traj = ov.solve(start, times)
    # second order in the logarithmic distance h of the records: 2 alpha h^2 / 6 of the third derivative
    h = np.log(times[1] / times[0])
    np.testing.assert_allclose(traj.slope()[1:-1], -2 * times[1:-1], rtol=h**2 / 5)
    inside = (times >= 0.5) & (times <= 2.0)
    line = np.polyfit(np.log(times[inside]), np.log(traj.eps_g[inside]), 1)
    assert traj.slope((0.5, 2.0)) == pytest.approx(line[0], rel=1e-10) and -4 < line[0] < -1
    runs = ov.simulate(model, N=50, alpha=[1.0, 2.0, 3.0], rng=1, runs=2)
    assert runs.slope().shape == (2, 3) and runs.slope((1.0, 3.0)).shape == (2,)
    assert np.isnan(ov.solve(start, [0.0, 1.0, 2.0]).slope()[0])  # the logarithm of the time 0
    for call, words in ((lambda: traj.slope((5.0, 9.0)), "two or more"), (lambda: traj.slope(3.0), r"\(2,\)")):
        with pytest.raises(ValueError, match=words):
            call()
    with pytest.raises(ValueError, match="three or more"):
        ov.solve(start, [1.0]).slope()


def test_status_is_that_of_scipy():
    """0 at the last time, 1 where the condition was met, -1 where it failed, in single results and in batches."""
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=1.0, gradient_flow=True)
    start = ov.State.from_overlaps(model, Q=[[0.0]], R=[[0.0]], T=[[1.0]])
    done, stopped = ov.solve(start, [1.0, 2.0]), ov.solve(start, [1.0, 2.0], stop=0.1)
    assert (done.status, stopped.status) == (0, 1) and stopped.success
    diverging = ov.committee_machine(1, 1, activation=ov.quadratic, eta=2.0)
    with pytest.warns(RuntimeWarning):
        failed = ov.solve(diverging, start.replace(q=[[[0.5]]], model=None), (0, 200))
    assert failed.status == -1 and not failed.success
    batch = ov.solve_many(model, [start, start.replace(q=[[[1.0]]], r=[[[1.0]]])], [1.0, 2.0], stop=0.1)
    assert batch.status.tolist() == [1, 1] and batch[0] == stopped
    assert ov.solve_many(model, start, [1.0, 2.0]).status.tolist() == [0]
    stages = ov.solve(ov.Stages([model, model], [1.0, 2.0]), start, [0.1, 2.0], stop=0.1)
    assert stages.status == 1 and stages.alpha[-1] == pytest.approx(np.log(5) / 2, abs=1e-6)
    assert ov.simulate(model, N=50, alpha=[0, 1], rng=1).status == 0


def test_an_interval_has_201_times_everywhere():
    model = ov.committee_machine(2, 2, eta=0.5)
    start = model.random_start(N=100, rng=1)
    stages, times = ov.Stages([model, model.replace(eta=0.3)], [1.0, 4.0]), np.linspace(0.0, 4.0, 201)
    results = [ov.solve(x, start, (0, 4)) for x in (model, stages)]
    results += [ov.solve_many(model, start, (0, 4)), ov.simulate(model, N=100, alpha=(0, 4), rng=1, start=start)]
    for result in results:
        np.testing.assert_allclose(result.alpha, times, rtol=0, atol=0.005)  # runs: whole steps of 1/100
    every = ov.solve(model, start, (0, 4), every_step=True)
    assert len(every) < 100 and every.alpha[-1] == 4.0 and np.ptp(np.diff(every.alpha)) > 0
    np.testing.assert_allclose(every.Q[-1], results[0].Q[-1], rtol=1e-7)
    assert len(ov.solve(stages, start, (0, 4), every_step=True)) < 150
