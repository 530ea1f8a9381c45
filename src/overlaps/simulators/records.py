"""Records of simulated runs: step until a record is due, stop at nan, keep what there is on Ctrl-C."""

import numpy as np


def follow(steps, step, record, tick=None):
    """Records at the given step counts; fewer after Ctrl-C, and none after one with nan.

    ``step(limit)`` makes at most that many steps and returns how many; ``record()`` returns a tuple of arrays.
    """
    records = []
    done = 0
    try:
        for target in steps:
            while done < target:
                if tick is not None:
                    tick(done)  # before the steps: an interruption here loses none
                done += step(target - done)
            records.append(record())
            if not all(np.all(np.isfinite(part)) for part in records[-1]):
                break
    except KeyboardInterrupt:
        pass
    return records


def stacked(records, *shapes):
    """One array (n, *shape) for each part of the n records."""
    return tuple(np.reshape([record[i] for record in records], (len(records), *x)) for i, x in enumerate(shapes))


def sound(W, factor, v):
    """The weights ``factor[0] W`` in double precision, or nothing but nan when the run has diverged."""
    diverged = not np.all(np.isfinite(W)) or not np.all(np.isfinite(v))
    return np.full(W.shape, np.nan) if diverged else factor[0] * W.astype(float)
