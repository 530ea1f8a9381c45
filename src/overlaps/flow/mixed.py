"""The flow of tasks mixed in one step, and of inputs whose variances change: a weighted mean of flows."""

from typing import Any

import numpy as np

from .._base import check
from ..activations.bound import Bound
from ..models import LowRank, Mixed
from ._flow import finish, flow_for, gather
from .binding import bind
from .closure import rounding_floor
from .system import System

__all__ = ["MixedClosure", "MixedSystem", "is_mixed"]


def _worst(name):
    """Property that is the largest one of the tasks; of messages, one that is not empty if there is any."""
    return property(lambda self: max(getattr(closure, name) for closure in self.closures))


class MixedClosure(Bound):
    """Mean of the closures of tasks, weighted by ``shares``.

    w = (v, static rows); with ``heads`` v contains the second layers of all tasks, one after the other. If the
    covariances of the tasks differ, S is (n (K + M), K + M), one matrix below the other, and so are A, B, C, which are
    then not averaged. The decay of the second layer is included in dv, because each head decays in the samples of its
    own task. ``slopes`` are minus the gradients of the mean error by S and v.
    """

    def __init__(self, model):
        self.model, self.tasks = model, model.tasks
        self.closures = [bind(task) for task in self.tasks]
        first = self.closures[0]
        super().__init__(first.student, first.teacher, first.learning)
        self.kinked, self.by_quadrature = first.kinked, any(x.by_quadrature for x in self.closures)
        self.separate = isinstance(model, Mixed) and model.heads is not None
        self.shares, self.decay_factor = np.ones(1), 1.0  # decay_factor is that of a schedule on weight_decay
        self.slopes = None

    error, chance, accuracy, averaging_error, message = map(
        _worst, ("error", "chance", "accuracy", "averaging_error", "message")
    )

    @property
    def gradient_rate(self):
        """That of each task; inf for a learning rule, which need not descend the error."""
        return self.closures[0].gradient_rate

    def error_size(self, S, w):
        """That of the only task: learning rules cannot be mixed, but their eigenvalues may change by a schedule."""
        return self.closures[0].error_size(S, w)

    def error_at(self, S, w):
        """The mean error."""
        tasks = zip(self.shares, self.split(S, w), strict=True)
        return sum(weight * closure.error_at(S_i, w_i) for weight, (closure, _, _, S_i, w_i) in tasks)

    def split(self, S, w):
        """(closure, task, slice of its second layer in v, its S, its w) of each task."""
        K, n = self.learning.K, len(self.closures)
        f = S.shape[1]
        for i, (closure, task) in enumerate(zip(self.closures, self.tasks, strict=True)):
            readout = slice(i * K, (i + 1) * K) if self.separate else slice(0, K)
            own = np.ascontiguousarray(S[i * f : (i + 1) * f]) if len(S) == n * f else S
            yield closure, task, readout, own, np.concatenate([w[readout], task.second_layers])

    def __call__(self, S, w, A, B, C, dv):
        """Fill A, B, C, dv; return the mean error."""
        K, stacked, eps_g = self.learning.K, len(A) > self.learning.K or len(self.closures) == 1, 0.0
        dv[:] = 0.0
        for x in (A, B, C):
            x[:] = 0.0
        gradient, self.slopes = np.zeros_like(dv), []
        for i, (closure, task, readout, S_i, w_i) in enumerate(self.split(S, w)):
            weight = self.shares[i]
            if weight == 0.0 and not stacked:
                self.slopes.append((0.0 * A, 0.0 * B))
                continue
            a, b, c, d = np.zeros((K, K)), np.zeros(B[:K].shape), np.zeros((K, K)), np.zeros(K)
            eps_g += weight * closure(S_i, w_i, a, b, c, d)
            rows = slice(i * K, (i + 1) * K) if stacked else slice(0, K)
            scale = 1.0 if stacked else weight
            for x, of_task in ((A, a), (B, b), (C, c)):
                x[rows] += scale * of_task
            self.slopes.append((weight / task.eta * a, weight / task.eta * b))
            if task.trains_v:
                gradient[readout] += weight / task.eta_v * d
            dv[readout] += weight * (d - self._decay_v(task) * w_i[:K])
        self.slopes.append(gradient)
        return eps_g

    def _decay_v(self, task):
        return self.decay_factor * task.eta_v * task.weight_decay[1]

    def check(self, S, w):
        """Raise ``ValueError`` if the closure of a task is undefined or not accurate enough."""
        for closure, _, _, S_i, w_i in self.split(S, w):
            closure.check(S_i, w_i)

    def no_jacobian_reason(self, S, least=1e-5):
        """Why there are no derivatives at S, or an empty string."""
        S = S[: S.shape[1]]
        return next((x for closure in self.closures if (x := closure.no_jacobian_reason(S, least))), "")

    def derivatives(self, S, w, *, exact):
        """Mean of the tasks' derivatives along (triangle of Q, R, v); each head depends on its own task only."""
        K, M = self.learning.K, S.shape[1] - self.learning.K
        first, V = K * (K + 1) // 2 + K * M, len(w) - M
        total = tuple(np.zeros((first + V, *shape)) for shape in ((K, K), (K, M), (K, K), (V,)))
        for weight, (closure, task, readout, S_i, w_i) in zip(self.shares, self.split(S, w), strict=True):
            *changes, ddv = closure.derivatives(S_i, w_i, exact=exact)
            rows = np.r_[0:first, first + np.arange(V)[readout]]
            for x, of_task in zip(total, changes, strict=False):
                x[rows] += weight * of_task
            ddv[first:] -= self._decay_v(task) * np.eye(K)
            total[3][np.ix_(rows, np.arange(V)[readout])] += weight * ddv
        return total

    def scale_noise(self, factor):
        """Set ``factor`` times the label noise of each task."""
        for closure, task in zip(self.closures, self.tasks, strict=True):
            closure.change(noise=factor * task.noise)


class MixedSystem(System):
    """``System`` for tasks of a :class:`overlaps.Mixed` and for eigenvalues with a schedule; it runs in Python.

    ``varying`` are the factors u (n, L) on the eigenvalues for each task, or None if all tasks have those of the first.
    All arrays are in units of the first task's eigenvalues. A task therefore contributes u_l times its flow to block l.
    """

    kernel = None
    held: np.ndarray | None = None  # fixed shares, in place of those at each time
    pull: Any = None  # that of directions on each other

    def __init__(self, model, start, evaluator=None, duplicate_units=None, *, keep_psd=False):
        self.etas = np.array([task.eta for task in model.tasks])
        self.ratios = model.ratios if isinstance(model, Mixed) else np.ones((1, model.spectrum.L))
        changing = np.any(self.ratios != 1) or (evaluator is not None and evaluator.variances is not None)
        self.varying = self.ratios if changing else None
        super().__init__(model, start, evaluator, duplicate_units, keep_psd=keep_psd)
        (L, K, M), n = self.shape, len(self.etas)
        if self.varying is not None:
            self.S = np.tile(self.S, (n, 1))
            self.A, self.B, self.C = np.zeros((n * K, K)), np.zeros((n * K, M)), np.zeros((n * K, K))
            self.groups, self.dS = n, np.zeros_like(self.S)
        self.first = self.packing.entries * L
        self.at(start.alpha)

    def _bound(self):
        return (LowRankClosure if isinstance(self.model, LowRank) else MixedClosure)(self.model)

    def at(self, alpha):
        """Set the shares, the factors and the decay at alpha."""
        super().at(alpha)
        model, closure, evaluator = self.model, self.closure, self.evaluator
        t = min(alpha, self.edge)
        closure.shares = np.ones(1) if not isinstance(model, Mixed) else model.at(t) if self.held is None else self.held
        decay = 1.0 if evaluator is None else evaluator.factors(t)[3]
        if self.varying is not None:
            u = None if evaluator is None else evaluator.variances
            self._vary(self.ratios if u is None else self.ratios * u([t]))
        if not model.spherical:
            self.decay = self.u * decay * model.weight_decay[0] * float(closure.shares @ self.etas)
        closure.decay_factor, self.decay_v = decay, 0.0
        self.pull = model.pulled(t) if "pull" in model.combinations else None
        if self.pull is not None and not np.all(np.isfinite(self.pull)):
            self.refusal = (
                f"the pull at alpha = {alpha:g} is {check.shown(self.pull.tolist())}; expected finite numbers."
            )

    def state(self, y, alpha=0.0):
        """``System.state``, with the factors of the schedule on the eigenvalues at alpha."""
        state, evaluator = super().state(y, alpha), self.evaluator
        changing = evaluator is not None and evaluator.variances is not None
        return state.under(evaluator.variances(np.array([alpha]))[0]) if changing else state

    def _set_noise(self, factor):
        self.closure.scale_noise(factor)

    def _vary(self, u):
        """Set factors u (n, L) on the eigenvalues, and the covariances of the teacher fields that follow from them."""
        if not np.all(np.isfinite(u) & (u >= 0)):
            self.refusal = f"the schedule gives the factors {u.tolist()} on s; expected finite ones >= 0."
            u = np.full_like(u, np.nan)
        (_, K, M), s = self.shape, self.model.spectrum.s
        T = np.einsum("il,mnl->imn", u / np.where(s > 0, s, np.inf), self.source)
        self.varying, self.S.reshape(len(u), K + M, K + M)[:, K:, K:] = u, T

    def _gather(self, y, S, w):
        """Fill the closure's arguments S and w from packed overlaps, or from a change of them."""
        L, K, M = self.shape
        for i in range(self.groups):
            own = S[i * (K + M) : (i + 1) * (K + M)]
            scaled = y if self.varying is None else (y[: self.first].reshape(-1, L) * self.varying[i]).ravel()
            gather(scaled, self.s, K, M, False, own, w)
        if self.model.trains_v:
            w[: self.dv.size] = y[self.first :]

    def velocity(self, y, A, B, C, dv, decays=(0.0, 0.0, 0.0), *, second_order=None, source=None):
        """``System.velocity``; A, B, C of tasks with different eigenvalues are stacked one below the other."""
        (L, K, M), end, (decay, decay_v, drift) = self.shape, self.first, decays
        kernel, dy = flow_for(L, K), np.empty(y.size)
        constants = self.s, self.p, self.source if source is None else source
        rest = self.second_order if second_order is None else second_order, False
        if self.varying is None:
            kernel(y, *constants, A, B, C, dv, decay, 0.0, *rest, dy, drift)
        else:
            of_task, crossed = np.empty_like(dy), K * M * L
            kappa = max(decay, 0.0)  # ``finish`` below keeps norms on spheres, after all tasks were added
            dy[:crossed], dy[crossed:end] = -(kappa + drift) * y[:crossed], -2 * kappa * y[crossed:end]
            for i, (weight, u) in enumerate(zip(self.closure.shares, self.varying, strict=True)):
                closure = (x[i * K : (i + 1) * K] for x in (A, B, C))
                kernel(y, *constants, *closure, dv, 0.0, 0.0, *rest, of_task, 0.0)
                dy[:end] += weight * (of_task[:end].reshape(-1, L) * u).ravel()
            finish(y, L, K, M, dv, decay, 0.0, False, dy)
        if self.pull is not None:
            dy[:end] += self._pulled(y)
        if self.model.trains_v:
            dy[end:] = dv - decay_v * y[end:]
        return dy

    def generator(self, A, B):
        """``System.generator``: the mean over tasks, if they have different eigenvalues."""
        if self.varying is None:
            return super().generator(A, B)
        weights, n = self.closure.shares[:, None] * self.varying, self.groups
        A, B = (np.einsum("il,ijk->ljk", weights, x.reshape(n, -1, x.shape[1])) for x in (A, B))
        return self.s[:, None, None] * A - max(self.decay, 0.0) * np.eye(A.shape[1]), B

    def _pulled(self, y):
        """Velocity of the packed overlaps by the pull (D, E): D r + E tau/s, and h + h^T with h = D q + E r^T/s."""
        q, r, v = self.packing.unpack(y)
        D, E = np.hsplit(self.pull, [self.shape[1]])
        of_static = E / np.where(self.s > 0, self.s, np.inf)[:, None, None]
        h = D @ q + of_static @ r.mT
        return self.packing.pack(h + h.mT, D @ r + of_static @ np.moveaxis(self.source, -1, 0), v)[: self.first]

    def unit_fields(self, S):
        """Those of the network; directions are no units, and may vanish or be parallel."""
        if not isinstance(self.model, LowRank):
            return super().unit_fields(S)
        return self.model.model.K, self.closure._adapted(S, self.w)[2]

    def rounding(self):
        """Rounding error of the mean error at the last evaluation."""
        tasks = self.closure.split(self.S, self.w)
        floors = [rounding_floor(task, S[None], w[None, : task.K])[0] for _, task, _, S, w in tasks]
        return float(self.closure.shares @ floors)

    @property
    def slopes(self):
        """``System.slopes``; those of tasks with different eigenvalues are stacked one below the other."""
        *slopes, gradient = self.closure.slopes
        together = sum if self.varying is None else np.concatenate
        return *map(together, zip(*slopes, strict=True)), gradient, 1.0, 1.0

    @property
    def explicit(self):
        """Whether there is no structured Jacobian."""
        return self.varying is not None or isinstance(self.model, LowRank)

    def no_jacobian_reason(self):
        """Why there is no structured Jacobian, or an empty string."""
        return (
            "eigenvalues differ between tasks or change" if self.varying is not None else super().no_jacobian_reason()
        )


class LowRankClosure(MixedClosure):
    """The closure of a network, for the trained directions of its students; w = (amplitudes a, second layers)."""

    def __init__(self, model):
        super().__init__(model.model)
        self.model = model
        self.learning = self.learning._replace(K=model.rank)

    def _adapted(self, S, w):
        """(a, map P from all fields to the network's, covariance of the network's fields)."""
        model = self.model
        a = w[: model.model.K * model.rank].reshape(-1, model.rank)
        P = model.places(a)
        return a, P, np.ascontiguousarray(P @ S @ P.T)

    def split(self, S, w):
        """The network, as the only task: its closure, model, amplitudes in v, and arguments."""
        base = self.model.model
        layers = np.concatenate([base.v, -base.v_star])
        yield self.closures[0], base, slice(0, base.K * self.model.rank), self._adapted(S, w)[2], layers

    def __call__(self, S, w, A, B, C, dv):
        """Fill A, B, C of the directions, and dv with the velocity of a; return the error."""
        base, (a, P, fields) = self.model.model, self._adapted(S, w)
        K, rank = a.shape
        A0, B0, C0, rest = np.zeros((K, K)), np.zeros((K, base.M)), np.zeros((K, K)), np.zeros(K)
        eps_g = self.closures[0](fields, np.concatenate([base.v, -base.v_star]), A0, B0, C0, rest)
        AB = np.concatenate([A0, B0], axis=1)
        to = a.T if self.model.write is None else self.model.write
        A[:], B[:], C[:] = to @ A0 @ a, to @ AB, to @ C0 @ to.T
        gradient = (AB @ (P @ S)[:, :rank]).ravel() / base.eta  # minus the gradient of the error by a
        dv[:] = self.model.eta_a * (gradient - self.decay_factor * base.weight_decay[1] * a.ravel())
        self.slopes = [(a.T @ A0 @ a / base.eta, a.T @ AB / base.eta), gradient]  # whatever forces are written by
        return eps_g

    def no_jacobian_reason(self, S, least=0.0):
        """Why there are no derivatives."""
        return "directions of low rank have no structured Jacobian"


def is_mixed(model, evaluator=None):
    """Whether a model needs a :class:`MixedSystem`."""
    return isinstance(model, Mixed | LowRank) or (evaluator is not None and evaluator.variances is not None)
