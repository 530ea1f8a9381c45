"""Steps of a run: rates, samples drawn in blocks, records that are due, an end at nan or Ctrl-C that keeps the rest."""

import numpy as np

from .._base import check
from ..integrators.run import RUN_OPTIONS

# Steps whose rates are looked up at once: a call of Python in some thousand steps does not show, and the table stays in
# the cache.
ROWS = 2**12


class Rates:
    """Rows (eta, eta_v, eta kappa, eta_v kappa_v) of the steps from ``first`` on, and factors of the label noise.

    Step n happens at alpha = n / N, the quotient of integers.  ``take`` ends where the batch size, ``batch``, changes:
    the next call begins with another one.
    """

    def __init__(self, model, N, first, evaluator=None):
        self.model, self.N, self.step, self.evaluator = model, N, int(first), evaluator
        kappa, kappa_v = model.weight_decay
        row = model.eta, model.eta_v, model.eta * kappa, model.eta_v * kappa_v
        self.rows = np.tile(np.array(row, dtype=float), (ROWS, 1))
        self.cuts = [] if evaluator is None else [first_step(knot, N) for knot in evaluator.batch_jumps]
        self.batch = self._batch()

    def _batch(self):
        return round(
            self.model.batch_size * (1.0 if self.evaluator is None else self.evaluator.factors(self.step / self.N)[4])
        )

    def left(self, limit):
        """(at most ``limit`` steps of one batch size, whether this ``batch`` differs from the step before)."""
        before, self.batch = self.batch, self._batch() if self.cuts else self.batch
        later = [cut for cut in self.cuts if cut > self.step]
        return min(int(limit), ROWS, *(cut - self.step for cut in later[:1])), self.batch != before

    def take(self, n):
        """Rates (n, 4) and factors of the noise (n,) or None of the next n steps."""
        if self.evaluator is None:
            self.step += n
            return self.rows[:n], None
        eta, eta_v, noise, decay, _ = self.evaluator.steps(self.step, n, self.N)
        self.step += n
        rows = np.array(self.rows[:n])
        for column, factor in zip(rows.T, (eta, eta_v, eta * decay, eta_v * decay), strict=True):
            column *= factor
        return rows, noise if self.evaluator.noisy else None


def first_step(knot, N):
    """The first step whose time n / N does not lie before the knot."""
    n = int(np.rint(knot * N)) - 1
    while n / N < knot:
        n += 1
    return n


def check_batches(model, evaluator):
    """Refuse a schedule of the batch size that does not give whole batches."""
    f = evaluator.named.get("batch_size")
    for piece in () if f is None else f.pieces:
        if piece.kind != "constant":
            raise ValueError(
                f"schedule['batch_size'] = {check.shown(f)}; expected pieces of kind 'constant', since a step takes a "
                "whole number of samples. solve takes any positive factor."
            )
    for knot in () if f is None else (-np.inf, *f.knots):
        batch = model.batch_size * f(knot)
        if batch < 1 or abs(batch - round(batch)) > 1e-9 * batch:
            raise ValueError(
                f"schedule['batch_size'] makes the batch {batch:g} from alpha = {max(knot, 0.0):g} on; expected an "
                "integer >= 1."
            )


class Chunks:
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
    records, most = [], RUN_OPTIONS.divergence_factor * max(1.0, size(record()))
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
