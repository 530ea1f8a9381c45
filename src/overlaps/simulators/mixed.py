"""Samples of several tasks, and inputs whose variances change: what both simulators do beside their steps."""

import numpy as np

from ..models import LowRank, Mixed
from . import _mixed
from .rates import Rates

__all__ = ["Samples"]


class Samples:
    """The task of each sample, and the scale of its input in each block.

    Tasks are drawn from a stream of their own, one uniform number a sample: in shares (1, 0, ...) a run equals one of
    the first task, digit by digit.
    """

    def __init__(self, model, rng, N, first, pace):
        self.model, self.N, self.pace, self.step = model, N, pace, int(first)
        self.mixed, self.adapts = isinstance(model, Mixed), isinstance(model, LowRank)
        self.tasks = model.models if self.mixed else (model,)
        self.noises = np.array([task.noise for task in self.tasks])
        ratios = model.ratios if self.mixed else [None]
        self.ratios = np.array([np.ones(model.spectrum.L) if x is None else x for x in ratios])
        self.scaled = any(x is not None for x in ratios) or (pace is not None and pace.variances is not None)
        if not self.mixed:
            return
        self.rng = rng.spawn(1)[0]
        self.rates = [Rates(task, N, first, pace) for task in self.tasks]
        self.v_star = np.array([task.v_star for task in self.tasks])
        self.teachers = tuple(task.teacher_activation.compiled for task in self.tasks)
        if len({type(x) for x in self.teachers}) > 1:
            raise ValueError(
                "teachers of mixed tasks have closed forms in some only; expected all or none to simulate."
            )

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
        if self.pace is not None and self.pace.variances is not None:
            u = u * self.pace.variances(steps / self.N)[:, None]
        return which, np.sqrt(u)

    def noise(self, which, normals):
        """Label noise (n, batch) from normals, or from own ones where the first task has none."""
        if self.noises[0] == 0 and np.any(self.noises):
            normals = self.rng.standard_normal(which.shape)
        return self.noises[which] * normals

    def _common(self, which, V):
        """Functions, rates and room of steps on several tasks."""
        (n, b), K = which.shape, V.shape[1]
        room = tuple(np.empty((b, width)) for width in (self.v_star.shape[1], K, K, K))
        rows = np.array([rates.take(n)[0] for rates in self.rates])
        return self.v_star, self.model.activation.compiled, self.teachers, rows, room

    def direct(self, W, factor, W_star, V, X, xi, which):
        """Steps on explicit weights."""
        _mixed.direct_steps(W, factor, W_star, V, X, xi, which, *self._common(which, V))

    def reduced(self, frame, V, root_s, x, xi, which, first):
        """Steps in frame coordinates."""
        _mixed.frame_steps(frame, V, root_s, x, xi, which, first, self.N, *self._common(which, V))

    def _network(self, rank, batch):
        """Network, functions and room of steps of directions."""
        base = self.model.model
        K, rows = base.K, base.K + base.M
        sizes = (batch, rank), (batch, rows), (batch, K), (batch, rank), K, K
        functions = base.activation.compiled, base.teacher_activation.compiled
        return np.array(base.v), np.array(base.v_star), *functions, tuple(np.empty(x) for x in sizes)

    def direct_low_rank(self, W, factor, W_star, a, X, xi, rates):
        """Steps in directions, on explicit weights."""
        _mixed.direct_low_rank(W, factor, W_star, a, X, xi, rates, *self._network(len(W), X.shape[1]))

    def reduced_low_rank(self, frame, a, root_s, x, xi, first, rates):
        """The same in frame coordinates."""
        _mixed.frame_low_rank(frame, a, root_s, x, xi, first, rates, self.N, *self._network(a.shape[1], xi.shape[1]))
