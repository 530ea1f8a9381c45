"""Unknowns: the packed overlaps, with those of the teachers if these are random, and the flow around them."""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..activations.finite_differences import DERIVATIVES
from ..flow.jacobian import Jacobian
from ..flow.mixed import MixedSystem, is_mixed
from ..flow.system import System
from ..gaussian.two_point import ERF
from ..models.state import gram
from .fixed_norms import mean_of_scaling, second_derivative
from .noise_covariance import degree, teachers


class DifferenceOptions(NamedTuple):
    """Tunable numbers of numerical derivatives of the closure."""

    # Step of second differences, relative to the largest variance. Half: four times the rounding error; double: a
    # truncation error 64 times as large.
    second_step: float = 2e-2
    # Largest step, relative to the distance from the boundary of positive semi-definite S. Double: closures lose
    # accuracy near the boundary.
    boundary_fraction: float = 0.3
    # Smallest step of second differences, relative to the largest variance: none is computed with a smaller one,
    # because its rounding error is too large.
    min_second_step: float = 1e-3
    # Second difference of order 6: weight of the centre; (multiple of the step, weight) of its neighbours.
    centre: float = -49 / 18
    neighbours: tuple = (1, 3 / 2), (-1, 3 / 2), (2, -3 / 20), (-2, -3 / 20), (3, 1 / 90), (-3, 1 / 90)


DIFFERENCES = DifferenceOptions()


class Unknowns:
    """z = (y, t): the packed overlaps y of a ``System`` and, with ``teachers``, the triangle of the plain t^l."""

    def __init__(self, model, start, teachers):
        self.model, self.teachers = model, teachers
        self.system = (MixedSystem if is_mixed(model) else System)(model, start)
        self.packing, self.s = self.system.packing, np.array(model.spectrum.s)
        self.K, self.M, self.L = model.K, model.M, model.spectrum.L
        self.V = self.packing.readouts  # entries of v; for several tasks of all second layers
        self.upper = np.triu_indices(self.M)
        self.pairs = list(zip(*self.upper, strict=True))
        self.size = self.packing.size + teachers * self.L * len(self.pairs)
        arguments = self.packing.reading(self.s)
        if teachers:
            arguments = np.block([
                [arguments, np.zeros((len(arguments), self.size - self.packing.size))],
                [np.zeros((len(self.pairs), self.packing.size)), np.kron(np.eye(len(self.pairs)), self.s)],
            ])  # fmt: skip
        self.arguments = arguments  # maps z to (triangle of Q, R, v, triangle of T)

    def blocks(self, y):
        """s_l S^l (L, K + M, K + M) at packed overlaps y."""
        q, r, _ = self.system.unpack(y)
        s, tau = self.s[:, None, None], self.system.start.tau
        return gram(s * q, r, tau / np.where(s > 0, s, 1.0))

    def at(self, y):
        """The flow linearised at y."""
        return Tangent(self, y)

    def directions(self, vectors):
        """Changes dS (m, d, d) and dw (m, d) of the closure's arguments along vectors (m, d_g)."""
        K, M, triangle, entries = self.K, self.M, self.packing.triangle, self.packing.entries
        dS, dw = np.zeros((len(vectors), K + M, K + M)), np.zeros((len(vectors), self.V + M))
        i, j = self.packing.upper
        dS[:, i, j] = dS[:, j, i] = vectors[:, :triangle]
        dS[:, :K, K:] = vectors[:, triangle:entries].reshape(-1, K, M)
        dS[:, K:, :K] = np.swapaxes(dS[:, :K, K:], 1, 2)
        last = entries
        if self.model.trains_v:
            dw[:, : self.V], last = vectors[:, entries : entries + self.V], entries + self.V
        if self.teachers:
            i, j = self.upper
            dS[:, K + i, K + j] = dS[:, K + j, K + i] = vectors[:, last:]
        return dS, dw


class Tangent:
    """The flow around one point: Jacobian, gradient of eps_g, and contributions of second derivatives to the mean."""

    def __init__(self, unknowns, y):
        self.unknowns, self.system, self.y = unknowns, unknowns.system, np.ascontiguousarray(y)
        self.v = self.system.unpack(self.y)[2]
        self.eps_g = self.system.close(self.y)
        self.S, self.w = self.system.S.copy(), self.system.w.copy()
        self.A, self.B, self.C = self.system.A.copy(), self.system.B.copy(), self.system.C.copy()
        self.dv = self.system.dv.copy()
        # at nodes of a path: Cov(phi), for learning rules, and the first argument of ``noise``, for spheres
        self.products = self.D = np.zeros((0, 0))
        *slopes, rate, rate_v = self.system.slopes
        self.slopes = [x / y for x, y in zip(slopes, (rate, rate, rate_v), strict=True)]
        self.rounding = self.system.rounding()

    @cached_property
    def jacobian(self):
        """Jacobian of the flow; at parallel units with kinks that of a state close to it."""
        try:
            return Jacobian(self.system, self.y)
        except ValueError:
            return Jacobian(self.system, self.y, exact=False)

    @property
    def rounding_scale(self):
        """Size of eps_g, and of C / eta^2, below which rounding errors matter."""
        return 100 * float(self.rounding)

    def _values(self, S, w):
        """A, B, C, dv and eps_g (m, .) in one vector for each of S (m, d, d), w (m, .)."""
        return np.concatenate([x.reshape(len(S), -1) for x in self.system.closure.values(S, w)], axis=1)

    def _along(self, dS, dw, steps, weights):
        """Sums (m, .) of the closure's vector at multiples of steps (m,) along dS, dw (m, ...): (multiple, weight)."""
        at = np.multiply.outer(steps, np.array([n for n, _ in weights], float)).ravel()
        dS, dw = (np.repeat(x, len(weights), axis=0) for x in (dS, dw))
        values = self._values(self.S + at[:, None, None] * dS, self.w + at[:, None] * dw)
        return np.einsum("mjx,j->mx", values.reshape(len(steps), len(weights), -1), [c for _, c in weights])

    def _split(self, values):
        """A, B, C, dv and eps_g from one vector."""
        K, M = self.unknowns.K, self.unknowns.M
        A, B, C, dv, eps_g = np.split(values, np.cumsum([K * K, K * M, K * K, self.unknowns.V]))
        return A.reshape(K, K), B.reshape(K, M), C.reshape(K, K), dv, eps_g[0]

    @cached_property
    def along_teachers(self):
        """Derivatives (M (M + 1) / 2, ...) of the closure's vector along the triangle of T, by differences."""
        K, (i, j), at = self.unknowns.K, self.unknowns.upper, np.arange(len(self.unknowns.pairs))
        dS = np.zeros((len(at), *self.S.shape))
        dS[at, K + i, K + j] = dS[at, K + j, K + i] = 1.0
        return self._derivatives_along(dS, np.zeros((len(at), len(self.w))))

    def _derivatives_along(self, dS, dw):
        """Derivatives (m, .) of the closure's vector along changes (m, ...) of its arguments, by differences."""
        relative = DERIVATIVES.quadrature_step if self.system.closure.by_quadrature else DERIVATIVES.step
        steps = np.full(len(dS), relative * np.max(np.diag(self.S)))
        if not np.isfinite(self.system.closure.gradient_rate):
            reach = [DIFFERENCES.boundary_fraction * self._distance_to_boundary(x) / 3 for x in dS]
            steps = np.minimum(steps, reach)
        weights = [(sign * n, sign * c) for n, c in DERIVATIVES.sixth_order for sign in (1, -1)]
        return self._along(dS, dw, steps, weights) / steps[:, None]

    def force_products(self):
        """Cov(F_a h_b, F_c h_d) (K d, K d) from C and its derivatives, without an integral; None for units with kinks.

        E[F_a F_c h_b h_d] = C_ac S_bd + 2 dC_ac[X], X the symmetric part of S_b S_d^T: Gaussian integration by parts.
        """
        u, model = self.unknowns, self.system.model
        if model.activation.kinks or any(x.kinks for x in teachers(model)) or self.system.closure.by_quadrature:
            return None
        K, S, d = u.K, self.S, len(self.S)
        along_T = np.array([self._split(x)[2] for x in self.along_teachers])
        dC = np.zeros((d, d, K, K))  # derivatives by S_ij at fixed S_ji
        i, j = u.packing.upper
        n = len(i)
        dC[i, j] = self.jacobian.changes[2][:n]
        dC[:K, K:] = self.jacobian.changes[2][n : n + K * u.M].reshape(K, u.M, K, K)
        m, k = u.upper
        dC[K + m, K + k] = along_T
        dC = (dC + np.swapaxes(dC, 0, 1)) / 2
        second = np.einsum("ac,bd->abcd", self.C, S) + 2 * np.einsum("ib,jd,ijac->abcd", S, S, dC)
        mean = (np.concatenate([self.A, self.B], axis=1) @ S).ravel()
        return second.reshape(K * d, K * d) - np.outer(mean, mean)

    def _flow(self, y, source, A, B, C, dv):
        """The flow of overlaps y with these coefficients, without decay."""
        y, *arrays = (np.ascontiguousarray(x) for x in (y, A, B, C, dv))
        return self.system.velocity(y, *arrays, source=source)

    def dense(self):
        """J (n, n) of dz/dalpha; the flow of teachers is zero."""
        return self.on_spheres(self._free(), np.eye(self.unknowns.size))

    def on_spheres(self, change, dz):
        """Changes (n, m) of the velocity along dz (n, m); ``change`` are those without the constraint of spheres."""
        sphere, n = self.jacobian.sphere, self.y.size
        return change if sphere is None else np.concatenate([sphere.projected(change[:n], dz[:n]), change[n:]])

    def noise(self, D):
        """Covariances (m, n, n) of the increments of one step, from those without the constraint of spheres, D."""
        if self.jacobian.sphere is None:
            return D
        self.D = D[0]
        P = self.on_spheres(np.eye(self.unknowns.size), np.zeros(D.shape[-2:]))
        return P @ D @ P.T

    def _free(self):
        """``dense`` without the constraint of spheres."""
        u, system = self.unknowns, self.system
        J = self.jacobian.free()
        if not u.teachers:
            return J
        n, L = len(J), u.L
        full = np.zeros((u.size, u.size))
        full[:n, :n] = J
        for p, ((i, j), change) in enumerate(zip(u.pairs, self.along_teachers, strict=True)):
            column = n + p * L + np.arange(L)
            full[:n, column] = np.outer(self._flow(self.y, system.source, *self._split(change)[:4]), u.s)
            for k in range(u.K):
                for m, other in {(j, i), (i, j)}:  # dr_km / dalpha contains s_l^2 B_ki t_im
                    full[(k * u.M + m) * L + np.arange(L), column] += u.s**2 * self.B[k, other]
        return full

    def gradient(self):
        """Gradient (n,) of eps_g, from A and B, which contain the mean Hessian of Delta^2 / 2."""
        u = self.unknowns
        if not np.isfinite(self.system.closure.gradient_rate):
            changes = u.directions(np.eye(len(u.arguments)))
            return self._derivatives_along(*changes)[:, -1] @ u.arguments
        i, j = u.packing.upper
        A, B, layer = self.slopes
        slopes = [-np.where(i == j, 0.5, 1.0) * A[i, j], -B.ravel()]
        if self.system.model.trains_v:
            slopes.append(-layer)
        if u.teachers:
            slopes.append(self.along_teachers[:, -1])
        return np.concatenate(slopes) @ u.arguments

    def curvature(self, Sigma):
        """Second derivative of the closure's vector contracted with the covariance Sigma (n, n) of z."""
        u = self.unknowns
        sizes, vectors = np.linalg.eigh(u.arguments @ Sigma @ u.arguments.T)
        positive = sizes > 1e-13 * sizes[-1] if sizes[-1] > 0 else np.zeros(len(sizes), bool)
        dS, dw = u.directions(vectors.T[positive])
        steps = np.array([self._step(x) for x in dS])
        centre = self._values(self.S[None], self.w[None])[0]
        if np.any(steps == 0.0):
            return np.full_like(centre, np.nan)
        if not len(steps):
            return np.zeros_like(centre)
        bends = DIFFERENCES.centre * centre + self._along(dS, dw, steps, DIFFERENCES.neighbours)
        return sizes[positive] / steps**2 @ bends

    def _step(self, dS):
        """Step of the second difference along dS; 0 if S is too close to the boundary of the PSD matrices."""
        model, scale = self.system.model, np.max(np.diag(self.S))
        g = model.activation, *teachers(model)
        if all(degree(x) is not None for x in g):
            return 0.3 * scale  # any step: differences of polynomials of low degree are exact
        if all(x.code == ERF or degree(x) is not None for x in g):
            return DIFFERENCES.second_step * scale  # analytic for S that are not positive semi-definite, too
        h = (2 if self.system.closure.by_quadrature else 1) * DIFFERENCES.second_step * scale
        h = min(h, DIFFERENCES.boundary_fraction * self._distance_to_boundary(dS) / 3)
        return h if h > DIFFERENCES.min_second_step * scale else 0.0

    def _distance_to_boundary(self, dS):
        """Largest |t| for which S + t dS is positive semi-definite with either sign of t."""
        values, vectors = np.linalg.eigh(self.S)
        if values[0] <= 1e-12 * values[-1]:
            return 0.0
        root = vectors / np.sqrt(values)
        return 1 / max(np.max(np.abs(np.linalg.eigvalsh(root.T @ dS @ root))), 1e-300)

    def mean_source(self, Sigma, J):
        """(source of the mean (n,) at order 1/N, contracted second derivative of eps_g) with this covariance."""
        u, system = self.unknowns, self.system
        n, L = self.y.size, u.L
        curvature = self._split(self.curvature(Sigma))
        changes = list(zip(*self.jacobian.changes, strict=True))
        changes += [self._split(x)[:4] for x in self.along_teachers] if u.teachers else []
        second = self._flow(self.y, system.source, *curvature[:4])
        for covariance, change in zip(u.arguments @ Sigma, changes, strict=True):
            source = np.zeros_like(system.source)
            for (i, j), dt in zip(u.pairs if u.teachers else (), covariance[n:].reshape(-1, L), strict=u.teachers):
                source[i, j] = source[j, i] = u.s**2 * dt
            A, B, C, dv = change
            second += 2 * self._flow(covariance[:n], source, A, B, np.zeros_like(C), np.zeros_like(dv))
        steps, sphere = self._steps(), self.jacobian.sphere
        if sphere is not None:
            free = self._flow(self.y, system.source, self.A, self.B, self.C, self.dv)
            steps = sphere.projected(steps[:, None], np.zeros((n, 1)))[:, 0]
            steps += mean_of_scaling(sphere, self.D[:n, :n] + np.outer(free, free))
            second = second_derivative(sphere, second, self._free()[:n], Sigma)
        velocity = system.rhs(0.0, self.y)
        result = np.zeros(u.size)
        result[:n] = second / 2 + steps - J[:n, :n] @ velocity / 2
        return result, curvature[-1]

    def _steps(self):
        """The vector c (n_y,): the terms of the mean increment of one step beyond the flow."""
        u, model = self.unknowns, self.system.model
        K, b = u.K, model.batch_size
        blocks = u.blocks(self.y)  # s_l S^l
        scaled = u.s[:, None, None] * blocks
        AB = np.concatenate([self.A, self.B], axis=1)
        change = self._along_inputs(scaled) if model.rule is None else self._with_inputs(scaled, AB)
        c = 2 / b * change + (1 - 1 / b) * u.s[:, None, None] * (AB @ blocks @ AB.T)
        decay = self.system.decay
        if decay > 0:
            H = (AB @ blocks)[:, :, :K]
            c += decay**2 * self.system.unpack(self.y)[0] - decay * (H + np.swapaxes(H, 1, 2))
        return self.system.packing.pack(c, np.zeros((u.L, K, u.M)), np.zeros(u.V))

    def _along_inputs(self, scaled):
        """Derivatives (L, K, K) of C along the changes ``scaled`` (L, d, d) of S."""
        u, K, (i, j), (m, n) = self.unknowns, self.unknowns.K, self.unknowns.packing.upper, self.unknowns.upper
        entries = np.concatenate([scaled[:, i, j], scaled[:, :K, K:].reshape(u.L, -1)], axis=1)
        along_T = np.array([self._split(x)[2] for x in self.along_teachers])
        change = np.tensordot(entries, self.jacobian.changes[2][: entries.shape[1]], axes=1)
        return change + np.tensordot(scaled[:, K + m, K + n], along_T, axes=1)

    def _with_inputs(self, scaled, AB):
        """``_along_inputs`` from E[F_a F_c h_b h_d], for forces that depend on overlaps, at constant overlaps in F."""
        K, d = self.unknowns.K, len(self.S)
        mean = (AB @ self.S).ravel()
        products = (self.products[: K * d, : K * d] + np.outer(mean, mean)).reshape(K, d, K, d)
        inverse = np.linalg.pinv(self.S, rcond=1e-12, hermitian=True)
        inner = inverse @ scaled @ inverse
        return (np.einsum("abcd,lbd->lac", products, inner) - np.einsum("ac,bd,lbd->lac", self.C, self.S, inner)) / 2
