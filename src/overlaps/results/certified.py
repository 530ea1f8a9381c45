"""A second run with tighter tolerances, and what it says of the first."""

from dataclasses import replace

import numpy as np

from ..integrators.evolve import evolve
from .trajectory import SummedTrajectory, Trajectory

__all__ = ["FACTOR", "certified", "solution"]

TIGHTER = 100.0  # by which the tolerances of the second run are smaller
LEAST = 1e-13  # relative tolerance of the second run: rounding does not allow less
FACTOR = 1000.0  # of rtol: errors that no plateau of the random settings of the tests makes of it
FLOORS = 10.0  # of eps_floor, by which eps_g may differ beyond: rounding adds up over the steps


def certified(traj, start, options):
    """The trajectory with ``error``, and without success where it missed its tolerance by more than FACTOR."""
    late = traj.eps_late is not None
    blocks = late or traj.model.classes is not None  # what the second run is asked for
    rtol, atol = max(traj.rtol / TIGHTER, LEAST), traj.atol / TIGHTER
    controls = {
        "method": traj.solver,
        "rtol": rtol,
        "atol": atol,
        "late": late,
        "blocks": blocks,
        "schedule": traj.schedule,
    }
    names = ("Q", "R", "v") if traj.model.classes is None else ("Q", "R", "v", "mean_fields")
    found = evolve(traj.model, start, traj.alpha, **controls, **options)
    other = solution(traj.model, found, blocks, traj.schedule)
    n, error = len(other), {}
    for name in names:
        mine = getattr(traj, name)
        error[name] = np.full(mine.shape, np.nan)
        error[name][:n] = mine[:n] - getattr(other, name)
    least, size = np.maximum(traj.eps_floor, np.finfo(float).tiny), max(1.0, np.max(np.abs(traj.S)))
    change, allowed = np.full(len(traj), np.nan), FACTOR * traj.rtol
    change[:n] = traj.eps_g[:n] - other.eps_g
    error["eps_g"] = change / np.maximum(traj.eps_g, least)
    result = replace(traj, nfev=traj.nfev + found.nfev, **{f"error_{name}": x for name, x in error.items()})
    if not traj.success:
        return result
    if not found.success:
        said = f"the second run, at rtol {rtol:.1g}, {found.message}"
    else:
        overlaps = max(np.max(np.abs(error[name]), initial=0.0) for name in names) / size
        missed = np.abs(change) > allowed * traj.eps_g + FLOORS * least
        if overlaps <= allowed and not np.any(missed):
            return result
        at = traj.alpha[np.argmax(missed)] if np.any(missed) else None
        worst = (
            f"those of eps_g first at alpha = {at:.6g}" if overlaps <= allowed else f"{overlaps:.1g} in the overlaps"
        )
        said = f"errors exceed {FACTOR:g} rtol ({worst})"
    return replace(result, success=False, message=f"{traj.message} But not certified: {said}. Try a smaller rtol.")


def solution(model, found, blocks, schedule):
    """A Trajectory, or a SummedTrajectory, of what ``evolve`` found."""
    parts = found._asdict() | {"schedule": schedule}
    if blocks:
        return Trajectory(model=model, **parts)
    for name in ("tau", "m", "h", "nu"):
        del parts[name]
    return SummedTrajectory(model=model, Q=parts.pop("q")[:, 0], R=parts.pop("r")[:, 0], **parts)
