"""Trajectories between their records."""

import dataclasses

import numpy as np
import pytest
from scipy.integrate import RK45

import overlaps as ov
from overlaps.flow import closure


class MyRK45(RK45):
    """A solver of the user's."""


@pytest.mark.slow
@pytest.mark.parametrize("method", [MyRK45, "RK23", "structured", "auto"])
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


@pytest.mark.slow
def test_two_methods_differ_by_no_more_than_their_floors():
    """Where rounding of overlaps of order one is all that is left: it adds up over the steps of both."""
    spectrum = ov.Spectrum(s=[3.48, 2.65, 1.04, 0.7], p=[0.2, 0.31, 0.28, 0.21])
    model = ov.committee_machine(2, 1, activation=ov.quadratic, spectrum=spectrum, v_star=[1.74], eta=0.0082)
    f, size, along = np.array([1.0, 1.48]), [0.105, 0.106, 0.0987, 0.13], [-0.096, -0.0244, 0.0516, 0.0779]
    q, r = np.multiply.outer(size, np.outer(f, f)), np.multiply.outer(along, f)[:, :, None]
    start = ov.State.from_blocks(model, q=q, r=r, t=np.array([0.291, 0.333, 0.313, 0.261])[:, None, None])
    runs = [
        ov.solve(model, start, [125.0], method=method, rtol=rtol)
        for method, rtol in (("DOP853", 1e-8), ("DOP853", 1e-10), ("DOP853", 1e-12), ("structured", 1e-10))
    ]
    eps_g, floors = (np.array([getattr(run, name)[-1] for run in runs]) for name in ("eps_g", "eps_floor"))
    assert np.ptp(eps_g) > 1e-13 and np.all(np.abs(eps_g - eps_g[:, None]) <= floors + floors[:, None])
    assert np.all(floors < 1e-4 * eps_g)


def test_the_floor_of_many_records_is_that_of_each(monkeypatch):
    """In chunks, of which the last is shorter."""
    model = ov.committee_machine(2, 1, eta=0.5, v=[1.0, 0.7])
    start = ov.State.from_overlaps(model, Q=0.5 * np.eye(2), R=[[0.2], [0.1]], T=[[1.0]])
    traj = ov.solve(model, start, np.linspace(0, 10, 50))
    whole = traj.eps_floor
    monkeypatch.setattr(closure, "CHUNK", 7)
    np.testing.assert_array_equal(traj.eps_floor, whole)
