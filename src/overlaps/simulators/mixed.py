"""Samples of several tasks or classes, and inputs whose variances change: beside the steps of both simulators."""

import numpy as np

from ..models import LowRank, Mixed
from . import _mixed
from .steps import Rates

__all__ = ["Samples"]


class Samples:
    """The task of each sample, and the scale of its input in each block.

    Tasks are drawn from a stream of their own, one uniform number a sample: in shares (1, 0, ...) a run equals one of
    the first task, digit by digit.
    """

    def __init__(self, model, rng, N, first, evaluator):
        self.model, self.N, self.evaluator, self.step = model, N, evaluator, int(first)
        self.mixed, self.adapts = isinstance(model, Mixed), isinstance(model, LowRank)
        self.noises = np.array([task.noise for task in model.tasks])
        self.ratios = model.ratios if self.mixed else np.ones((1, model.spectrum.L))
        self.scaled = np.any(self.ratios != 1) or (evaluator is not None and evaluator.variances is not None)
        if not self.mixed:
            return
        self.rng = rng.spawn(1)[0]
        self.rates = [Rates(task, N, first, evaluator) for task in model.tasks]
        self.v_star = np.array([task.v_star for task in model.tasks])
        self.teachers = tuple(task.teacher_activation.compiled for task in model.tasks)
        if len({type(x) for x in self.teachers}) > 1:
            raise ValueError("some teachers of mixed tasks have closed forms; expected all or none to simulate.")

    def take(self, n, batch):
        """(task (n, batch), factors on inputs (n, batch, L) or None) of the next n steps."""
        steps = self.step + np.arange(n)
        which, self.step = np.zeros((n, batch), dtype=np.int64), self.step + n
        if self.mixed:
            edges = np.cumsum(self.model.at(steps / self.N), axis=0)[:-1, :, None]
            which[:] = np.sum(self.rng.random((n, batch)) >= edges, axis=0)
        if not self.scaled:
            return which, None
        u = self.ratios[which]
        if self.evaluator is not None and self.evaluator.variances is not None:
            u = u * self.evaluator.variances(steps / self.N)[:, None]
        return which, np.sqrt(u)

    def of_steps(self, rates, xi, labels, rows):
        """(rates, tasks, factors on ``rows`` inputs, deviations of the labels) of steps with the noise xi (n, batch).

        Tasks scale noise that comes as normals, or own normals where the first task has no noise.
        """
        (numbers, factor), (which, scales) = rates.take(len(xi)), self.take(len(xi), rows)
        if self.mixed:
            silent = self.noises[0] == 0 and np.any(self.noises)
            xi = self.noises[which] * (self.rng.standard_normal(which.shape) if silent else xi)
        return numbers, which, scales, labels + (xi if factor is None else factor[:, None] * xi)

    def pieces(self, n, scales, student, block):
        """(First, last + 1) of n steps with factors ``scales`` on inputs; of single ones where a rule reads overlaps.

        ``student`` is what steps take for an activation; the eigenspaces of its eigenvalues are ``block`` (n,).
        """
        if scales is None or not getattr(student, "eigenvalues", np.empty(0)).size:
            yield 0, n
            return
        for t in range(n):
            student.eigenvalues[:] = (self.model.spectrum.s * scales[t, 0] ** 2)[block]
            yield t, t + 1

    @property
    def steps_of_their_own(self):
        """Whether samples are of several tasks, or move directions."""
        return self.mixed or self.adapts

    def direct(self, W, factor, W_star, v, X, xi, which, rows):
        """Steps on explicit weights."""
        _mixed.direct_steps(W, factor, W_star, X, xi, *self._arguments(np.atleast_2d(v), which, rows))

    def reduced(self, frame, v, root_s, x, xi, which, rows, first):
        """Steps in frame coordinates."""
        arguments = self._arguments(np.atleast_2d(v), which, rows)
        _mixed.frame_steps(frame, root_s, x, xi, first, first + len(which), self.N, *arguments)

    def _arguments(self, V, which, rows):
        """(V, task, work, scratch) as the steps take them; ``rows`` are the rates of the steps of a single task."""
        (n, b), (K, width) = which.shape, V.shape
        if self.adapts:
            base = self.model.model
            functions = base.activation.compiled, base.teacher_activation.compiled
            task = np.array(base.v), np.array(base.v_star), *functions, rows
            static, scratch = base.K + base.M, (np.empty(K), np.empty(K), np.empty((b, K)))
        else:
            rates = np.array([rates.take(n)[0] for rates in self.rates])
            task = which, self.v_star, self.model.activation.compiled, self.teachers, rates
            static, scratch = self.v_star.shape[1], (np.empty((b, width)),)
        return V, task, (np.empty((b, static)), np.empty((b, width)), np.empty((b, width))), scratch


class Draws:
    """Classes of samples, from a stream of their own.

    ``centroids`` (C, n) are the class means in some coordinates, ``block`` (n,) tells of each the eigenspace.
    """

    def __init__(self, model, rng, centroids, block):
        self.rng, self.edges = rng, np.cumsum(model.weights)[:-1]
        self.labels, self.centroids = model.labels, centroids
        self.roots = np.sqrt(model.ratios)[:, block] if np.any(model.ratios != 1) else None

    def enter_frame(self, x, s):
        """The same for coordinates x (steps, L, b, d) in frames: centroids lie in the first of each block.

        The Gaussian part comes in units of its standard deviation, sqrt(s), and leaves in units of the inputs.
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
        """Put centred samples X (..., n) into classes, in place; return their labels (...,)."""
        c = self._classes(X.shape[:-1])
        if self.roots is not None:
            X *= self.roots[c]
        X += self.centroids[c]
        return self.labels[c]
