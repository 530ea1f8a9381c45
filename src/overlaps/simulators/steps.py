"""Steps of a run: rates, samples drawn in chunks, records at given steps, and an early end at nan or Ctrl-C."""

import numpy as np

from .._base import check
from ..integrators.failure import FAILURE

# Steps whose rates are computed in one call. With half as many, calls in Python take more time in total; with twice as
# many, the table may leave the cache. It does not change results.
STEPS_PER_CALL = 2**13


def streams(rng, n):
    """Independent generators, n in number, spawned from a seed or from a Generator.

    SFC64 takes three quarters of the time of NumPy's default to draw normals, most of the time of direct SGD. A
    Generator of the user keeps its kind.
    """
    generator = check.generator(rng)
    if not isinstance(rng, np.random.Generator | np.random.BitGenerator):
        generator = np.random.Generator(np.random.SFC64(generator.bit_generator.seed_seq))
    return generator.spawn(n)


class Rates:
    """Rows (eta, eta_v, eta kappa, eta_v kappa_v) of the steps from ``first`` on, and factors of the label noise.

    Step n happens at alpha = n / N, the quotient of integers; finite steps advance n by their ``stride``.  All steps of
    one call of ``take`` have the same batch size ``batch``, because ``left`` limits their number at a change.
    """

    def __init__(self, model, N, first, evaluator=None, stride=1):
        self.model, self.N, self.step, self.evaluator, self.stride = model, N, int(first), evaluator, stride
        kappa, kappa_v = model.weight_decay
        row = model.eta, model.eta_v, model.eta * kappa, model.eta_v * kappa_v
        self.rows = np.tile(np.array(row, dtype=float), (STEPS_PER_CALL, 1))
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
        left = (-((self.step - cut) // self.stride) for cut in later[:1])
        return min(int(limit), STEPS_PER_CALL, *left), self.batch != before

    def take(self, n):
        """Rates (n, 4) and factors of the noise (n,) or None of the next n steps."""
        first, self.step = self.step, self.step + n * self.stride
        if self.evaluator is None:
            return self.rows[:n], None
        eta, eta_v, noise, decay, _ = self.evaluator.steps(first, n, self.N, self.stride)
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
    """Raise an error for a schedule of the batch size that does not give integer batches."""
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
    """Samples drawn in chunks and taken a few at a time; the samples do not depend on how many are taken at once."""

    left: tuple = ()

    def draw(self, batch):
        """Arrays (length, batch, ...) of the next chunk."""
        raise NotImplementedError

    def take(self, steps, changed, batch):
        """The next entries, at most ``steps``, of each array of ``draw``; from a new chunk if ``changed``."""
        if changed or not self.left or len(self.left[0]) == 0:
            self.left = self.draw(batch)
        taken = tuple(x[:steps] for x in self.left)
        self.left = tuple(x[steps:] for x in self.left)
        return taken


def largest(record):
    """Largest absolute value of the arrays of a record; infinite if one of them is not finite."""
    sizes = [np.abs(x).max(initial=0.0) for x in record]
    return max(sizes) if np.isfinite(sum(sizes)) else np.inf


def follow(steps, step, record, tick=None, size=largest):
    """Records at the given step counts; fewer after Ctrl-C, and the last one is nan if the run diverged.

    ``step(limit)`` makes at most ``limit`` steps and returns their number; ``record()`` returns a tuple of arrays. The
    run has diverged if their ``size`` exceeds the limit of ``solve``.
    """
    records, limit = [], FAILURE.divergence_factor * max(1.0, size(record()))
    done = 0
    try:
        for target in steps:
            while done < target:
                if tick is not None:
                    tick(done)  # before the steps, so that an interruption here loses none
                done += step(target - done)
            records.append(record())
            if size(records[-1]) > limit:
                records[-1] = tuple(np.full_like(x, np.nan) for x in records[-1])
                break
    except KeyboardInterrupt:
        pass
    return records


def stacked(records, *shapes):
    """One array (n, *shape) for each array of the n records."""
    return tuple(np.reshape([record[i] for record in records], (len(records), *x)) for i, x in enumerate(shapes))


def finite_weights(W, factor, v):
    """The weights ``factor[0] W`` in double precision; all nan if the run has diverged."""
    diverged = not np.all(np.isfinite(W)) or not np.all(np.isfinite(v))
    return np.full(W.shape, np.nan) if diverged else factor[0] * W.astype(float)
