"""Tasks and classes of samples, and changing variances of inputs, for the steps of both simulators."""

import numpy as np

from ..models import LowRank, Mixed
from . import _mixed
from .steps import Rates

__all__ = ["Samples"]


class Samples:
    """The task of each sample, and the scale of its input in each block.

    Tasks are drawn from a separate stream, one uniform number for each sample: with shares (1, 0, ...) a run equals one
    of the first task alone to the last bit.
    """

    def __init__(self, model, rng, N, first, evaluator, stride=1):
        self.model, self.N, self.evaluator, self.step, self.stride = model, N, evaluator, int(first), stride
        self.mixed, self.adapts = isinstance(model, Mixed), isinstance(model, LowRank)
        self.noises = np.array([task.noise for task in model.tasks])
        self.ratios = model.ratios if self.mixed else np.ones((1, model.spectrum.L))
        self.scaled = np.any(self.ratios != 1) or (evaluator is not None and evaluator.variances is not None)
        if not self.mixed:
            return
        self.rng = rng.spawn(1)[0]
        self.rates = [Rates(task, N, first, evaluator, stride) for task in model.tasks]
        self.v_star = np.array([task.v_star for task in model.tasks])
        self.teachers = tuple(task.teacher_activation.compiled for task in model.tasks)
        if len({type(x) for x in self.teachers}) > 1:
            raise ValueError("some teachers of mixed tasks have closed forms; expected all or none to simulate.")

    def take(self, n, batch):
        """(task (n, batch), factors on inputs (n, batch, L) or None) of the next n steps."""
        steps = self.step + self.stride * np.arange(n)
        which, self.step = np.zeros((n, batch), dtype=np.int64), self.step + n * self.stride
        if self.mixed:
            edges = np.cumsum(self.model.at(steps / self.N), axis=0)[:-1, :, None]
            which[:] = np.sum(self.rng.random((n, batch)) >= edges, axis=0)
        if not self.scaled:
            return which, None
        u = self.ratios[which]
        if self.evaluator is not None and self.evaluator.variances is not None:
            u = u * self.evaluator.variances(steps / self.N)[:, None]
        return which, np.sqrt(u)

    def step_inputs(self, rates, xi, labels, rows):
        """(rates, tasks, factors on ``rows`` inputs, deviations of the labels) of steps with the noise xi (n, batch).

        With several tasks xi are normal numbers, which each task multiplies by its noise; if the first task has no
        noise, other normal numbers replace xi.
        """
        (numbers, factor), (which, scales) = rates.take(len(xi)), self.take(len(xi), rows)
        if self.mixed:
            silent = self.noises[0] == 0 and np.any(self.noises)
            xi = self.noises[which] * (self.rng.standard_normal(which.shape) if silent else xi)
        return numbers, which, scales, labels + (xi if factor is None else factor[:, None] * xi)

    def segments(self, n, scales, student, block):
        """Split n steps with factors ``scales`` on inputs into segments (first, last + 1) of constant eigenvalues.

        These are single steps if a rule reads overlaps and the variances change, all n steps otherwise. ``student`` is
        the activation or rule as the steps take it; ``block`` (n,) is the eigenspace of each of its eigenvalues.
        """
        if scales is None or not getattr(student, "eigenvalues", np.empty(0)).size:
            yield 0, n
            return
        for t in range(n):
            student.eigenvalues[:] = (self.model.spectrum.s * scales[t, 0] ** 2)[block]
            yield t, t + 1

    @property
    def has_own_steps(self):
        """Whether the steps are those of ``_mixed``: several tasks, or low-rank directions."""
        return self.mixed or self.adapts

    def direct(self, W, factor, W_star, v, X, xi, which, rows):
        """Steps on explicit weights."""
        pulls, times = np.zeros((0, 0, 0)), (self.step - len(which) + np.arange(len(which))) / self.N
        if "pull" in self.model.combinations:
            pulls = np.array([self.model.pulled(t) for t in times])
        _mixed.direct_steps(W, factor, W_star, X, xi, pulls, *self._arguments(np.atleast_2d(v), which, rows))

    def reduced(self, frame, v, root_s, inputs, xi, which, rows, first):
        """Steps in frame coordinates."""
        arguments = self._arguments(np.atleast_2d(v), which, rows)
        _mixed.frame_steps(frame, root_s, inputs, xi, first, first + len(which), self.N, *arguments)

    def _arguments(self, V, which, rows):
        """(V, task, work, scratch) for the steps; ``rows`` are the rates of the steps of a single task."""
        (n, b), (K, width) = which.shape, V.shape
        if self.adapts:
            base = self.model.model
            functions = base.activation.compiled, base.teacher_activation.compiled
            to = V if self.model.write is None else np.ascontiguousarray(self.model.write.T)
            task = np.array(base.v), np.array(base.v_star), *functions, rows, to
            static, scratch = base.K + base.M, (np.empty(K), np.empty(K), np.empty((b, K)))
        else:
            rates = np.array([rates.take(n)[0] for rates in self.rates])
            task = which, self.v_star, self.model.activation.compiled, self.teachers, rates
            static, scratch = self.v_star.shape[1], (np.empty((b, width)),)
        return V, task, (np.empty((b, static)), np.empty((b, width)), np.empty((b, width))), scratch


class ClassDraws:
    """Classes of samples, drawn from a separate stream.

    ``centroids`` (C, n) are the class means in some coordinates, ``block`` (n,) the eigenspace of each coordinate.
    """

    def __init__(self, model, rng, centroids, block):
        self.rng, self.edges = rng, np.cumsum(model.weights)[:-1]
        self.labels, self.centroids = model.labels, centroids
        self.roots = np.sqrt(model.ratios)[:, block] if np.any(model.ratios != 1) else None

    def enter_frame(self, x, s):
        """``enter`` for coordinates x (steps, L, b, d) in frames, where centroids use the first coordinates of a block.

        On entry the Gaussian term is in units of its standard deviation sqrt(s), on exit in units of the inputs.
        """
        steps, L, b, _ = x.shape
        c = self._classes((steps, b))
        n = self.centroids.shape[1] // L
        x *= np.sqrt(s)[:, None, None]
        if self.roots is not None:
            x *= np.swapaxes(self.roots[c][..., ::n], 1, 2)[..., None]
        x[..., :n] += np.swapaxes(self.centroids[c].reshape(steps, b, L, n), 1, 2)
        return self.labels[c]

    def _classes(self, shape):
        return np.searchsorted(self.edges, self.rng.random(shape), side="right")

    def enter(self, X):
        """Assign centred samples X (..., n) to classes and add the class means in place; return the labels (...,)."""
        c = self._classes(X.shape[:-1])
        if self.roots is not None:
            X *= self.roots[c]
        X += self.centroids[c]
        return self.labels[c]
