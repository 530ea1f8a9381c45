"""Trajectories between their records."""

import dataclasses

import numpy as np
import pytest
from scipy.integrate import RK45

import overlaps as ov


class MyRK45(RK45):
    """A solver of the user's."""


@pytest.mark.slow
@pytest.mark.parametrize("method", [MyRK45, "RK23", "structured", "exponential", "auto"])
def test_at_integrates_with_the_solver_of_the_trajectory(method, results, tmp_path):
    model, start = results[0].model, results[1].start(0)
    traj = ov.solve(model, start, [0.0, 1.0, 3.0], method=method, rtol=1e-6)
    exact = ov.solve(model, start, [0.0, 2.0], rtol=1e-10)[1]
    np.testing.assert_allclose(traj.at(2.0).Q, exact.Q, rtol=1e-4)
    traj.save(tmp_path / "run.npz")
    found = ov.load(tmp_path / "run.npz")
    assert found.at(1.0) == traj[1]
    if method is not MyRK45:
        assert found == traj and found.at(2.0) == traj.at(2.0)
        return
    with pytest.raises(ValueError, match=r"lies between records.*MyRK45.*solver=TheClass"):
        found.at(2.0)
    assert dataclasses.replace(found, solver=MyRK45).at(2.0) == traj.at(2.0)
