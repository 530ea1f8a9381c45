"""Times that are asked for: an interval, or points on the axis alpha = steps / N."""

import numpy as np

from .._base import check


def output_times(alpha, begin):
    """(times with the start first, whether every step is recorded) of an interval or an array of output times.

    Everything begins at the time of the start, ``begin``.
    """
    if isinstance(alpha, tuple):
        if len(alpha) != 2:
            raise ValueError(f"alpha is a tuple of length {len(alpha)}; expected (from, to), or an array of times.")
        first, last = (check.number("alpha", a, least=0) for a in alpha)
        if not last > first:
            raise ValueError(f"alpha = {alpha}; expected an interval with from < to.")
        if first != begin:
            raise ValueError(f"alpha = {alpha} begins at {first:g}; {_begins(begin, first)}")
        return np.array([first, last]), True
    times = np.atleast_1d(check.floats("alpha", alpha, "times >= 0"))
    times = check.array("alpha", times, ("n",), "Try np.linspace(0, 100, 201).")
    if times.size == 0 or times[0] < 0 or np.any(np.diff(times) <= 0):
        raise ValueError("alpha must be an increasing array of times >= 0 with at least one entry.")
    if times[0] < begin:
        raise ValueError(f"alpha begins at {times[0]:g}; {_begins(begin, times[0])}")
    return (times if times[0] == begin else np.concatenate([[begin], times])), False


def _begins(begin, first):
    return (
        f"the start belongs to time {begin:g}, expected nothing before it and intervals from there on. A state that is "
        f"meant to begin elsewhere: dataclasses.replace(state, alpha={first:g})."
    )
