"""Simulated runs: samples drawn in blocks, steps until a record is due, an end at nan or Ctrl-C that keeps the rest."""

import numpy as np

from ..integrators.run import DIVERGED


class Blocks:
    """Samples drawn in blocks and taken in pieces; the stream does not depend on how it is cut."""

    left: tuple = ()

    def draw(self, batch):
        """Arrays (length, batch, ...) of the next block."""
        raise NotImplementedError

    def take(self, steps, changed, batch):
        """The next entries of each array of ``draw``, at most ``steps``; all of them are new if ``changed``."""
        if changed or not self.left or len(self.left[0]) == 0:
            self.left = self.draw(batch)
        taken = tuple(x[:steps] for x in self.left)
        self.left = tuple(x[steps:] for x in self.left)
        return taken


def largest(record):
    """The largest of the overlaps and second layers of a record; infinite where one is no number."""
    return max(np.max(np.abs(part), initial=0.0) if np.all(np.isfinite(part)) else np.inf for part in record)


def follow(steps, step, record, tick=None, size=largest):
    """Records at the given step counts; fewer after Ctrl-C, and none after one that has diverged, which is nan.

    ``step(limit)`` makes at most that many steps and returns how many; ``record()`` returns a tuple of arrays, whose
    ``size`` may grow as in ``solve``: beyond that nothing is learned any more.
    """
    records, most = [], DIVERGED * max(1.0, size(record()))
    done = 0
    try:
        for target in steps:
            while done < target:
                if tick is not None:
                    tick(done)  # before the steps: an interruption here loses none
                done += step(target - done)
            records.append(record())
            if size(records[-1]) > most:
                records[-1] = tuple(np.full_like(part, np.nan) for part in records[-1])
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
