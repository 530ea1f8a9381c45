"""Distance of simulated runs from a theory: its definition, records thinned to logarithmic times, bad arguments."""

import dataclasses

import numpy as np
import pytest

import overlaps as ov
from overlaps.results import discrepancy


@pytest.fixture(scope="module")
def pair():
    model = ov.committee_machine(2, 2, eta=0.5)
    start = model.random_start(N=500, rng=2)
    runs = ov.simulate(model, N=500, alpha=discrepancy.log_times(20, n=12), rng=1, runs=2, start=start)
    return ov.solve(model, start, runs.alpha), runs


def test_tlog_rmse_is_its_definition(pair):
    theory, runs = pair
    d, printed = ov.tlog_rmse(theory, runs), ov.tlog_rmse(theory, runs, variant="printed_abs")
    assert d.alpha.size == 12 and d.alpha[0] == pytest.approx(0.1)
    for name in ("Q", "R", "v", "eps_g"):
        x, y = getattr(theory, name), getattr(runs, name)
        for run in range(2):
            squares = [(y[run, i] - x[i]) ** 2 for i in range(1, 13)]  # the start is left out
            np.testing.assert_allclose(getattr(d, name)[run], np.sqrt(sum(squares) / 12), rtol=1e-13)
            assert d.mean(name)[run] == pytest.approx(np.mean(np.sqrt(sum(squares) / 12)), rel=1e-13)
            roots = [np.sqrt(np.abs(y[run, i] ** 2 - x[i] ** 2)) for i in range(1, 13)]
            np.testing.assert_allclose(getattr(printed, name)[run], sum(roots) / 12, rtol=1e-13)


def test_a_constant_shift_is_its_own_distance_at_any_times(pair):
    theory, runs = pair
    copies = dataclasses.replace(
        runs, q=np.stack([theory.q + 0.03] * 2), r=np.stack([theory.r] * 2), v=np.stack([theory.v - 0.2] * 2)
    )
    for times in (None, [0.1, 3.0], [20.0]):
        d = ov.tlog_rmse([theory, theory], copies, times=times)
        np.testing.assert_allclose(d.Q, 0.03, rtol=1e-10)
        np.testing.assert_allclose(d.v, 0.2, rtol=1e-10)
        assert np.all(d.R == 0)


def test_without_teachers_there_is_nothing_between_students_and_them():
    model = ov.gaussian_mixture(2, gram=[[[1, -1], [-1, 1]]], weights=[0.5, 0.5], labels=[1, -1], eta=0.5)
    runs = ov.simulate(model, N=100, alpha=[0, 1], rng=1)
    d = ov.tlog_rmse(ov.solve(model, runs.start(), runs.alpha), runs)
    assert d.R.size == 0 and d.mean("R") == pytest.approx([0.0]) and d.mean("Q")[0] > 0 and "nan" not in repr(d)


def test_equidistant_records_are_thinned_to_log_times():
    model = ov.committee_machine(1, 1, eta=0.5)
    runs = ov.simulate(model, N=100, alpha=(0, 100), rng=1)
    chosen = ov.tlog_rmse(ov.solve(model, runs.start(), runs.alpha), runs).alpha
    # 60 points in log: below 0.5, the spacing of records, none is left; above, gaps grow with the times
    assert chosen[0] == 0.5 and chosen[-1] == 100 and len(set(chosen)) == len(chosen) < 60
    assert np.median(np.diff(chosen)[-5:]) > 5 * np.diff(chosen)[0]


def test_log_times_have_equal_ratios():
    times = discrepancy.log_times(7.0, first=0.3, n=6)
    assert times[0] == 0 and times[1] == 0.3 and times[-1] == 7.0 and len(times) == 7
    np.testing.assert_allclose(times[2:] / times[1:-1], (7.0 / 0.3) ** 0.2, rtol=1e-12)


def test_bad_distances_are_refused(pair):
    theory, runs = pair
    with pytest.raises(ValueError, match="variant = 'mse'"):
        ov.tlog_rmse(theory, runs, variant="mse")
    with pytest.raises(ValueError, match="theory has 3 trajectories"):
        ov.tlog_rmse([theory] * 3, runs)
    with pytest.raises(ValueError, match="Pass simulation.alpha to solve"):
        ov.tlog_rmse(ov.solve(theory.model, theory[0], [0, 1, 2]), runs)
    with pytest.raises(ValueError, match="the end of the simulation"):
        ov.tlog_rmse(theory, runs, times=[1.0, 30.0])
    with pytest.raises(ValueError, match="alpha_max"):
        discrepancy.log_times(0.05)
