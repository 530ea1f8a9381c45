"""Spikes in several directions: conditional Gaussian coefficients, and the spikes after giant gradient steps."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline

from ..._base import check
from ...gaussian.quadrature import gauss_hermite, trapezoid
from .averages import QUADRATURE, check_growth, function_of, hermite_parts, kinks_of, spacing
from .conditional import Coefficients


class DirectionOptions(NamedTuple):
    """Tunable numbers of product quadratures over several directions."""

    # Largest number of directions of the spikes, and of the target; numbers of nodes grow exponentially with it.
    max_rank: int = 3
    # First step of the grid over k in each direction, and the ratio of successive steps.
    step: float = 0.5
    step_ratio: float = 0.7
    # Nodes of smaller weight, relative to the largest, are left out.
    min_weight: float = 1e-18
    # Gauss-Hermite nodes for each direction of the target at the first step.
    target_nodes: int = 12
    # With more points k than this, functions of the neurons are splines on a grid of this many points.
    spline_points: int = 20_000
    # Values of the target in one table above which a model is refused, and in memory at once.
    max_values: int = 4 * 10**8
    chunk: int = 2**22


DIRECTIONS = DirectionOptions()


def product_quadrature(nodes, weight, rank):
    """Nodes (n, rank) and weights of E[f(k)], k ~ N(0, 1) in ``rank`` dimensions; negligible nodes are left out."""
    product = np.ones(())
    for _ in range(rank):
        product = np.multiply.outer(product, weight)
    indices = np.argwhere(product > DIRECTIONS.min_weight * product.max())
    weights = np.atleast_1d(product[tuple(indices.T)])
    return nodes[indices], weights / weights.sum()


class SeveralSpikes(NamedTuple):
    """Functions and spikes of the tables; k has one column for each direction of the spikes."""

    student: Callable
    target: Callable
    r: np.ndarray  # (B, rank)
    c: np.ndarray  # (B,)
    gamma: np.ndarray  # (m, rank)
    kinks: tuple

    @property
    def beyond_spikes(self):
        """H (m, J): components of the target's directions orthogonal to the spikes, theta = gamma v + H zeta."""
        values, vectors = np.linalg.eigh(np.eye(len(self.gamma)) - self.gamma @ self.gamma.T)
        independent = values > 1e-13
        return vectors[:, independent] * np.sqrt(values[independent])

    def quadrature(self, step) -> tuple[Any, Any]:
        """Points k (n, rank) and weights."""
        k, weight = trapezoid(DIRECTIONS.step * step)
        return product_quadrature(k, weight, self.r.shape[1])

    def check_size(self, size):
        """Refuse tables that would take minutes."""
        if size > DIRECTIONS.max_values:
            raise ValueError(
                f"target: {len(self.gamma)} indices, {self.beyond_spikes.shape[1]} directions beside {len(self.r[0])} "
                f"of the spikes take {size:.1g} values; expected at most {DIRECTIONS.max_values:g}. Try fewer "
                "directions or indices, alpha0=math.inf, smaller spikes, or a target without jumps or kinks."
                + check.see("spiked", "Several directions, several steps")
            )

    def table(self, k, weight, step):
        """All functions at the points k, integrated over the other directions with this relative step."""
        mu0, mu1, _, mu2 = self.of_neurons(self.student, k, step)
        mu1 = mu1 / np.sqrt(self.c)[:, None]
        u = (mu1[:, None] * k.T).reshape(-1, len(k))
        h, h1, hh = self.of_target(k, step)
        return Coefficients(k, weight, mu0, mu1, mu2, u, h, h1, hh, self, step)

    def of_neurons(self, f, k, step):
        """Averages of f over z, (4, B, n), as :func:`.averages.hermite_parts`; splines if there are many points."""
        of_blocks = []
        for r, c in zip(self.r, self.c, strict=True):
            inputs, options = k @ r, (math.sqrt(c), self.kinks, 2 * spacing(c) * step)
            if len(k) <= DIRECTIONS.spline_points:
                of_blocks.append(hermite_parts(f, inputs, *options))
                continue
            x = np.linspace(inputs.min(), inputs.max() + 1e-9, DIRECTIONS.spline_points)  # error h^4 / 100
            of_blocks.append([CubicSpline(x, values)(inputs) for values in hermite_parts(f, x, *options)])
        return np.swapaxes(of_blocks, 0, 1)

    def of_target(self, k, step):
        """Mean h (n,), linear parts h1 (J, n) and second moment hh (n,) of the target at the points k."""
        H = self.beyond_spikes
        nodes, weight = gauss_hermite(math.ceil(DIRECTIONS.target_nodes / step))
        zeta, weight = product_quadrature(nodes, weight, H.shape[1])
        self.check_size(len(k) * len(weight))
        moments = np.concatenate([weight[:, None], weight[:, None] * zeta], axis=1)
        chunks = []
        for chunk in np.array_split(k, max(1, len(k) * len(weight) // DIRECTIONS.chunk)):
            z = (chunk @ self.gamma.T)[:, None] + zeta @ H.T
            y = np.broadcast_to(np.asarray(self.target(*np.moveaxis(z, -1, 0)), dtype=float), z.shape[:2])
            chunks.append(np.column_stack([y @ moments, y**2 @ weight]))
        averages = np.concatenate(chunks).T
        return averages[0], averages[1:-1], averages[-1]

    def resolved(self):
        """A table whose integrals agree with a coarser table's to 1e-8."""
        before, step = None, 1.0
        for _ in range(QUADRATURE.max_refinements + 2):
            table = self.table(*self.quadrature(step), step)
            of_student = np.concatenate([table.mu0, table.u, table.mu2_squared, table.mu1])
            functions = np.concatenate([of_student, table.h[None], table.h1, table.hh[None]]) * np.sqrt(table.weight)
            gram, size = functions @ functions.T, len(of_student)
            if before is not None:
                length = np.sqrt(np.diag(gram))
                length = np.maximum(length, 1e-6 * length.max())  # a function may vanish but for rounding
                error = np.abs(gram - before) / np.outer(length, length)
                if np.max(error) <= QUADRATURE.tol:
                    return table
            before, step = gram, step * DIRECTIONS.step_ratio
        role = "student" if np.max(error[:size, :size]) > QUADRATURE.tol else "target"
        raise ValueError(
            f"{role}: integrals over k and the target's directions differ by {np.max(error):.1e} (relative) "
            f"between two rules, expected {QUADRATURE.tol:g}. With several directions functions must be smooth: no "
            "jumps or kinks." + check.see("spiked", "Cases not covered")
        )


def several_spikes(student, target, r, c, gamma):
    """The checked functions of a model as :class:`SeveralSpikes`."""
    kinks, f = kinks_of(student, (), "student"), function_of(student, "student")
    if not callable(target):
        raise check.refused("target", target, f"a function of {len(gamma)} arrays.")
    for j in range(len(gamma)):
        check_growth("target", lambda x, j=j: target(*(x if i == j else 0.5 * x for i in range(len(gamma)))), 1.0)
    check_growth("student", f, math.sqrt(np.max(np.sum(r**2, axis=1) + c)))
    return SeveralSpikes(f, target, r, c, gamma, kinks)


class GiantSteps(NamedTuple):
    """Spikes (B, D) of the blocks between steps, and c (B,); the first coordinates are the target's directions."""

    S: np.ndarray
    c: np.ndarray

    def basis(self):
        """Spikes (B, R) in an orthonormal basis (R, D) of their span."""
        left, size, right = np.linalg.svd(self.S, full_matrices=False)
        rank = int(np.sum(size > 1e-9 * max(size.max(), 1.0)))
        if rank > DIRECTIONS.max_rank:
            raise ValueError(
                f"readout leaves spikes in {rank} directions, one for each of {len(self.S)} letters; expected at most "
                f"{DIRECTIONS.max_rank}. Try fewer letters, or one step."
                + check.see("spiked", "Several directions, several steps")
            )
        sign = np.where(left[:, :rank].sum(axis=0) < 0, -1.0, 1.0)
        return left[:, :rank] * size[:rank] * sign, right[:rank] * sign[:, None]

    def step(self, f, derivative, target, m, tau, weight, alpha0, noise):
        """After a step of rates tau (B,); the network's output is the sum over blocks of weight mu0."""
        r, basis = self.basis()
        spikes = several_spikes(f, target, r, self.c, basis[:, :m].T)
        table = spikes.resolved()
        # E[sigma'], sqrt(c) E[sigma''], and the variance of sigma' that is not linear in z
        mu1, curvature, _, left = spikes.of_neurons(derivative, table.k, table.step)
        F = weight @ table.mu0
        e, square = table.h - F, table.hh - 2 * F * table.h + F**2 + noise**2
        on_spikes, beyond = mu1 * table.weight @ (e[:, None] * table.k), mu1 * table.weight @ table.h1.T
        H = spikes.beyond_spikes
        zeta = (H / np.sum(H**2, axis=0)).T @ (np.eye(m, basis.shape[1]) - basis[:, :m].T @ basis)
        values, vectors = np.linalg.eigh((mu1 * (table.weight * square)) @ mu1.T / alpha0)
        noise_spikes = vectors * np.sqrt(np.maximum(values, 0.0))
        S = np.hstack([self.S + tau[:, None] * (on_spikes @ basis + beyond @ zeta), tau[:, None] * noise_spikes])
        bulk = (curvature**2 + left) @ (table.weight * square) / alpha0
        scaled = np.sqrt(self.c) * (1 + tau * (curvature @ (table.weight * e)) / np.sqrt(self.c))
        return GiantSteps(S, scaled**2 + tau**2 * bulk)
