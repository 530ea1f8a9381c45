"""The flow of a model from a start, in its overlaps."""

from functools import cached_property
from typing import Any

import numpy as np

from ..gaussian.two_point import LINEAR, QUADRATIC
from ._flow import SPHERE, gather, gather_groups, tightening
from .binding import bind
from .closure import rounding_floor
from .differential_equation import DifferentialEquation
from .packing import Packing
from .psd import PSDProjection, singular
from .velocity import ERROR_ROUNDING, Constants, Work


class System(DifferentialEquation):
    """dy/dalpha = rhs(alpha, y) for the packed overlaps, with its work arrays."""

    def __init__(self, model, start, evaluator=None, duplicate_units: Any = None, *, keep_psd=False):
        self.model, self.start, self.evaluator, self.duplicate_units = model, start, evaluator, duplicate_units
        static = model.second_layers
        K, M, L = model.K, static.size, model.spectrum.L
        self.shape = L, K, M  # M static rows: teachers, and the centroids of inputs in classes
        self.packing = Packing(L, K, M, model.trains_v, start.v.size)
        self.s, self.p = weights_of(model)
        *_, self.decay, self.decay_v, self.second_order = rates(model)
        self.source = blocks_last(model._static_overlaps(start))
        self.S = model.field_covariance(start).copy()
        self.w = np.concatenate([np.ravel(start.v), static])
        if keep_psd and singular(self.S, K, duplicate_units):
            self.psd = PSDProjection(self)
        self.closure = self._bound()
        self._evaluate = self.closure.__call__  # the lookup would take a tenth of the time of a small closure
        G = self.groups = len(self.S) // (K + M)
        self.A, self.B, self.C = np.zeros((G * K, K)), np.zeros((G * K, M)), np.zeros((G * K, K))
        self.dv = np.zeros(start.v.size)
        self.dS, self.dw = np.zeros_like(self.S), np.zeros_like(self.w)

    def _bound(self):
        return bind(self.model)

    @property
    def constants(self):
        """The numbers of the flow at the rates of the model, for compiled code."""
        model, source = self.model, np.array(self.source)
        eta, eta_v, noise, decay, decay_v, second_order = rates(model)
        return Constants(
            model.K, model.teacher_activation.code, eta, eta_v, noise, self.s, self.p, source, decay, decay_v,
            second_order, model.trains_v, model.drift, self.closure.gradient_rate, self.error_size,
            self.closure.averaging_error,
        )  # fmt: skip

    @cached_property
    def error_size(self):
        """Size of the terms that cancel in eps_g at the start, if A and B are not its gradient; otherwise 0."""
        model, start = self.model, self.start
        w = np.concatenate([np.ravel(start.v), model.second_layers])
        if self.closure.gradient_rate < np.inf:
            return 0.0
        return max(self.closure.error_size(model.field_covariance(start), w), 0.0)

    @property
    def work(self):
        """The work arrays for compiled code, with the current parameters of the closure."""
        parameters = self.closure.compiled_parameters()
        return Work(self.S, self.w, parameters, self.A, self.B, self.C, self.dv, self.dS, self.dw)

    @property
    def kernel(self):
        """The closure for compiled code; a closure by quadrature is available after its first evaluation."""
        evaluator = self.evaluator
        steppable = self.duplicate_units is None and (evaluator is None or not evaluator.program.functions)
        return self.closure.compiled if steppable else None

    def pack(self, state):
        """State -> y."""
        return self.packing.pack(state.q, self.model.rows(state), state.v)

    def unpack(self, y):
        """Arrays (q, r, v) of y, which may have leading axes: y (..., size)."""
        return self._with_v(self.packing.unpack(y))

    def _with_v(self, parts):
        (q, r, v), layer = parts, self.start.v
        shape = *v.shape[:-1], *layer.shape
        return q, r, v.reshape(shape) if self.model.trains_v else np.broadcast_to(layer, shape)

    def sums(self, y):
        """Sums over blocks of y, in the layout ``packing.summed``."""
        return self.packing.sums(y, self.model.spectrum.s)

    def unpack_sums(self, y):
        """Arrays q, r, v of one block, Q and R, from sums y (..., size)."""
        return self._with_v(self.packing.summed.unpack(y))

    def close_sums(self, y):
        """``close``, at sums over blocks."""
        gather(y, np.ones(1), *self.shape[1:], self.model.trains_v, self.S, self.w)
        return self._evaluate(self.S, self.w, self.A, self.B, self.C, self.dv)

    def _gather(self, y, S, w):
        """Fill the closure's arguments S and w from packed overlaps, or from a change of them."""
        _, K, M = self.shape
        gather_groups(y, self.s, self.p, K, M, self.model.trains_v, S, w)

    def close(self, y):
        """Evaluate the closure at y into the work arrays; return eps_g."""
        self._gather(y, self.S, self.w)
        eps_g = self._evaluate(self.S, self.w, self.A, self.B, self.C, self.dv)
        if self.duplicate_units is not None:
            K = self.shape[1]
            for i in range(0, len(self.A), K):
                A, B, C = (x[i : i + K] for x in (self.A, self.B, self.C))
                A[:], B[:], C[:], self.dv[:] = self.duplicate_units.average(A, B, C, self.dv)
        return eps_g

    def generator(self, A, B):
        """G (L, K, K) and B (L, K, M) of the mean velocity G w + B w* of the weights in each block, for given A, B."""
        (L, K, M), number = self.shape, np.zeros(self.shape[0], int)
        if self.groups > 1:
            number = self.p[L:].astype(int)
        A, B = A.reshape(-1, K, K)[number], B.reshape(-1, K, M)[number]
        return self.s[:, None, None] * A - max(self.decay, 0.0) * np.eye(K), B

    @property
    def explicit(self):
        """Whether there is no structured Jacobian."""
        return False

    def no_jacobian_reason(self):
        """Why the closure has no derivatives at the y of the last ``close``, or an empty string."""
        return self.closure.no_jacobian_reason(self.S)

    def derivatives(self, exact):
        """Derivatives dA, dB, dC, ddv of the closure by its arguments, at the y of the last ``close``."""
        if self.groups > 1:
            raise ValueError(f"the flow has no structured Jacobian here: {self.no_jacobian_reason()}.")
        changes = self.closure.derivatives(self.S, self.w, exact=exact)
        changes = changes if self.duplicate_units is None else self.duplicate_units.average(*changes)
        frozen = 0 if self.model.trains_v else self.dv.size
        return tuple(x[: len(x) - frozen] for x in changes)

    def rounding(self):
        """Rounding error of eps_g at the last evaluation."""
        return rounding_floor(self.model, self.S[None], self.w[None, : self.model.K])[0]

    @property
    def slopes(self):
        """(A, B, dv, rate, rate_v): minus the gradients of eps_g by S and v times two rates, at the last evaluation."""
        return self.A, self.B, self.dv, self.closure.gradient_rate, self.model.eta_v or np.inf

    def change_of_eps_g(self, dy):
        """First-order change of eps_g by a change dy of the packed overlaps, at the last evaluation.

        d eps_g = (1/2) tr H dS with the mean Hessian H = -(A, B) / eta; E[g Delta] = -dv / eta_v. If A, B are no
        gradient of eps_g, the change is a difference of two evaluations, or 0 if rounding dominates them.
        """
        if self.closure.gradient_rate == np.inf and not self.error_size:
            return 0.0
        self._gather(dy, self.dS, self.dw)
        if self.error_size:
            return self._difference_of_eps_g()
        K, (*slopes, slope_v, rate, rate_v) = self.shape[1], self.slopes
        A, B, dS = (x.reshape(self.groups, -1, x.shape[1]) for x in (*slopes, self.dS))
        change = -(np.sum(A * dS[:, :K, :K]) / 2 + np.sum(B * dS[:, :K, K:])) / rate
        return change - slope_v @ self.dw[: slope_v.size] / rate_v if self.model.trains_v else change

    def _difference_of_eps_g(self):
        """The same as a difference of two evaluations, for the changes dS and dw: ``velocity.difference_of_eps_g``."""
        K, n = self.shape[1], self.dS.shape[1]
        dS = self.dS.copy()
        dS.reshape(-1, n, n)[:, K:, K:] = 0.0  # teachers do not change: their entries of dS may contain anything
        before = self.closure.error_at(self.S, self.w)
        after = self.closure.error_at(self.S + dS, self.w + self.dw)
        if max(abs(before), abs(after)) < ERROR_ROUNDING * self.error_size:
            return self.error_size * np.max(np.abs(dS)) / np.max(np.abs(self.S))
        return after - before

    def tightening(self, y):
        """Factor on the tolerances that keeps eps_g as accurate as the overlaps."""
        eps_g, G = self.close(y), self.groups
        groups = zip(*(np.split(x, G) for x in (self.S, self.A, self.B)), strict=True)
        controls = self.closure.gradient_rate, self.sensitive, self.error_size
        return min(tightening(eps_g, *arrays, *controls) for arrays in groups)

    @property
    def polynomial(self):
        """Whether the closure is a polynomial of few overlaps, whose rounding does not accumulate during a run."""
        return {self.model.activation.code, self.model.teacher_activation.code} <= {LINEAR, QUADRATIC}

    @property
    def sensitive(self):
        """Value of eps_g, in units of its gradient times the overlaps, below which tolerances fall; empirical."""
        return 1e-2 if self.polynomial else 1e-3

    @property
    def tolerance_fractions(self):
        """Factors (n,) on the absolute tolerance for the entries of y.

        They are p_l max(1, <s>/s_l) for q^l and s_l times that for r^l, so that the errors of all blocks contribute the
        same fraction of eps_g. With erf and relu they are 1, because errors are then accumulated rounding, which
        smaller steps do not reduce.
        """
        if not self.polynomial:
            return np.ones(self.packing.size)
        spectrum = self.model.spectrum
        r = np.where(spectrum.p > 0, spectrum.p, 1.0) * np.maximum(spectrum.s, spectrum.mean)
        q = r / np.where(spectrum.s > 0, spectrum.s, spectrum.mean)
        triangle, crossed = self.packing.triangle, self.packing.crossed
        rest = np.ones(self.packing.size - self.packing.entries * r.size)
        return np.concatenate([np.tile(r, crossed), np.tile(q, triangle), rest])

    def rhs(self, alpha, y):
        """dy/dalpha."""
        self.at(alpha)
        y = np.ascontiguousarray(y)  # SciPy's finite differences pass columns of an array
        self.eps_g = self.close(y)
        A, B, C, dv = self.scaled(self.A, self.B, self.C, self.dv)
        return self.velocity(y, A, B, C, dv, (self.decay, self.decay_v, self.model.drift))


def rates(model):
    """Numbers of the learning rule for the kernels: eta, eta_v, noise, decay, decay_v, second_order (see ``flow``)."""
    eta, eta_v, (kappa, kappa_v) = model.eta, model.eta_v, model.weight_decay
    decay = SPHERE if model.spherical else eta * kappa
    return eta, eta_v, model.noise, decay, eta_v * kappa_v, 0.0 if model.gradient_flow else 1.0 / model.batch_size


def weights_of(model):
    """Eigenvalues s and weights p, copied: numba compiles kernels anew for read-only arrays.

    If there are several groups of blocks, p is followed by the group of each block.
    """
    number = np.zeros(model.spectrum.L)
    for i, blocks in enumerate(model.groups):
        number[blocks] = i
    return np.array(model.spectrum.s), np.append(model.spectrum.p, number if len(model.groups) > 1 else ())


def blocks_last(x):
    """Array (L, M, M) -> (M, M, L), a contiguous copy: numba compiles kernels anew for other memory layouts."""
    return np.array(np.moveaxis(x, 0, -1), order="C")


def fastest_rate(system):
    """Estimate of the largest relaxation rate, 2 (max(s) |A| + weight decay + drift).

    A changes with the overlaps: the estimate is the larger one at the start and for students equal to teachers.
    """
    model, start = system.model, system.start
    system.close(system.pack(start))
    largest = np.abs(np.linalg.eigvalsh(system.A.reshape(-1, model.K, model.K))).max()
    bound = system.closure
    if not bound.by_quadrature and system.groups == 1 and not model.n_classes and bound.gradient_rate < np.inf:
        # at the end of learning A is often larger
        A, B, C, dv = (np.zeros_like(x) for x in (system.A, system.B, system.C, system.dv))
        bound(as_teachers(model, start), system.w, A, B, C, dv)
        largest = max(largest, np.abs(np.linalg.eigvalsh(A)).max())
    return 2 * (model.spectrum.s.max() * largest + max(system.decay, 0.0) + model.drift)


def as_teachers(model, start):
    """Covariance of the fields if student k equals teacher k mod M."""
    unit = np.concatenate([np.arange(model.K) % model.M, np.arange(model.M)])
    return start.T[unit[:, None], unit]


def fastest_rates(models, starts, S):
    """``fastest_rate`` / eta of many starts with the covariances S (b, n, n), without decays, shape (b,).

    All models have closed forms and differ in numbers only. No System is constructed.
    """
    first, bound = models[0], bind(models[0], second_order=False)
    K, M = first.K, first.M
    A, rest = np.zeros((len(S), 2, K, K)), (np.zeros((K, M)), np.zeros((K, K)), np.zeros(K))
    for model, start, fields, out in zip(models, starts, S, A, strict=True):
        w = np.append(start.v, model.second_layers)
        bound(fields, w, out[0], *rest)
        bound(as_teachers(model, start), w, out[1], *rest)
    largest_s = np.array([model.spectrum.s.max() for model in models])
    return 2 * largest_s * np.abs(np.linalg.eigvalsh(A)).max(axis=(1, 2)) / first.eta


def system_of(fun):
    """The system of which ``fun`` is the method ``rhs``; the solvers of this library need its structure."""
    system = getattr(fun, "__self__", None)
    if not isinstance(system, DifferentialEquation):
        raise ValueError(
            f"fun = {fun!r}; expected the flow of the overlaps. Call overlaps.solve(model, start, alpha, method=...), "
            "or take a solver of scipy.integrate for other equations."
        )
    return system
