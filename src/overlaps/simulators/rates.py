"""Learning rates and decays of each step of a run, and how many samples it takes."""

import numpy as np

from .._base import check

# Steps whose rates are looked up at once: a call of Python in some thousand steps does not show, and the table stays in
# the cache.
ROWS = 2**12


class Rates:
    """Rows (eta, eta_v, eta kappa, eta_v kappa_v) of the steps from ``first`` on, and factors of the label noise.

    Step n happens at alpha = n / N, the quotient of integers.  ``take`` ends where the batch size, ``batch``, changes:
    the next call begins with another one.
    """

    def __init__(self, model, N, first, pace=None):
        self.model, self.N, self.step, self.pace = model, N, int(first), pace
        kappa, kappa_v = model.weight_decay
        row = model.eta, model.eta_v, model.eta * kappa, model.eta_v * kappa_v
        self.rows = np.tile(np.array(row, dtype=float), (ROWS, 1))
        self.cuts = [] if pace is None else [first_step(knot, N) for knot in pace.batch_jumps]
        self.batch = self._batch()

    def _batch(self):
        factor = 1.0 if self.pace is None else self.pace.factors(self.step / self.N)[4]
        return round(self.model.batch_size * factor)

    def left(self, limit):
        """(at most ``limit`` steps of one batch size, whether this ``batch`` differs from the step before)."""
        before, self.batch = self.batch, self._batch() if self.cuts else self.batch
        later = [cut for cut in self.cuts if cut > self.step]
        return min(int(limit), ROWS, *(cut - self.step for cut in later[:1])), self.batch != before

    def take(self, n):
        """Rates (n, 4) and factors of the noise (n,) or None of the next n steps."""
        if self.pace is None:
            self.step += n
            return self.rows[:n], None
        eta, eta_v, noise, decay, _ = self.pace.steps(self.step, n, self.N)
        self.step += n
        rows = np.array(self.rows[:n])
        for column, factor in zip(rows.T, (eta, eta_v, eta * decay, eta_v * decay), strict=True):
            column *= factor
        return rows, noise if self.pace.noisy else None


def first_step(knot, N):
    """The first step whose time n / N does not lie before the knot."""
    n = int(np.rint(knot * N)) - 1
    while n / N < knot:
        n += 1
    return n


def check_batches(model, pace):
    """Refuse a schedule of the batch size that does not give whole batches."""
    f = pace.named.get("batch_size")
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
