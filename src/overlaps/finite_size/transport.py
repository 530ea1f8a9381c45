"""Linear transport of a covariance and a mean along the path of the equations: symmetric steps, extrapolated.

A step takes J, D and the source of the mean at its middle and is exact for constant ones: e^{hJ} by squaring, so that
fast decays cost nothing.  Its error has even powers of h only, hence Romberg's extrapolation over halved steps.
"""

import numpy as np

from ..integrators.evolve import evolve

# Of |J| h. Steps are halved until they lie below, where TERMS terms of the exponential suffice, and squared back
# afterwards.
SMALL = 0.25
TERMS = 10  # of it: the first one left out is below 1e-14
# Levels of halved steps at most, for Romberg's extrapolation; where they do not agree by then, the difference is the
# error that is stated.
LEVELS = 9
TOGETHER = 2**21  # numbers in matrices that are squared at once


class Path:
    """The solution of the equations at any times, recorded anew with the trajectory's own solver and tolerances."""

    def __init__(self, trajectory, pack):
        self.trajectory, self.pack = trajectory, pack
        self.first, self.last = float(trajectory.alpha[0]), float(trajectory.alpha[-1])
        self.steps = self._run((self.first, self.last)).alpha if self.last > self.first else np.array([self.first])

    def _run(self, alpha):
        traj = self.trajectory
        solution = evolve(traj.model, traj[0], alpha, method=traj.solver or "auto", rtol=traj.rtol, atol=traj.atol)
        if not solution.success:
            raise ValueError(f"the trajectory could not be followed again: {solution.message}")
        return solution

    def at(self, times):
        """Packed overlaps (n, n_y) at increasing times."""
        solution = self._run(np.asarray(times if len(times) and times[-1] > self.first else [self.first]))
        return np.array([self.pack(q, r, v) for q, r, v in zip(solution.q, solution.r, solution.v, strict=True)])

    def time(self, place):
        """Times at fractional numbers of the solver's step: dense where the solution moves."""
        return np.interp(place, np.arange(len(self.steps)), self.steps)


def propagators(J, D, h):
    """e^{hJ}, int_0^h e^{sJ} ds and int_0^h e^{sJ} D e^{sJ^T} ds for stacks J, D (m, n, n) and h (m,)."""
    size = np.max(np.abs(J).sum(axis=2) * h[:, None], initial=0.0)
    squarings = max(0, int(np.ceil(np.log2(max(size, 1e-300) / SMALL))))
    h = h[:, None, None] / 2**squarings
    Z, identity = J * h, np.eye(J.shape[1])
    E, S, G = np.zeros_like(J) + identity, np.zeros_like(J) + identity, D.copy()
    power, term = E.copy(), D
    for k in range(1, TERMS + 1):
        power = power @ Z / k
        E, S = E + power, S + power / (k + 1)
        term = Z @ term
        term = (term + np.swapaxes(term, 1, 2)) / (k + 1)
        G = G + term
    S, G = S * h, G * h
    for _ in range(squarings):
        S, G = S + E @ S, G + E @ G @ np.swapaxes(E, 1, 2)
        E = E @ E
    return E, S, G


def propagate(mesh, level, coefficients, Sigma, mean=None):
    """Sigma, or with a ``mean`` that instead, at the times of the mesh, with 2^level steps in each of its intervals.

    ``coefficients(times)`` gives J, D (m, n, n) and the source of the mean (m, n), or None, there.
    """
    fine = 2**level
    edges = np.append((mesh[:-1, None] + np.diff(mesh)[:, None] * (np.arange(fine) / fine)).ravel(), mesh[-1])
    h, middles = np.diff(edges), (edges[1:] + edges[:-1]) / 2
    chunk = max(1, TOGETHER // Sigma.size)
    records = [Sigma if mean is None else mean]
    for first in range(0, len(h), chunk):
        part = slice(first, first + chunk)
        J, D, source = coefficients(middles[part])
        for k, (E, S, G) in enumerate(zip(*propagators(J, D, h[part]), strict=True)):
            if mean is None:
                Sigma = E @ Sigma @ E.T + G
            else:
                mean = E @ mean + S @ source[k]
            if (first + k + 1) % fine == 0:
                records.append((Sigma + Sigma.T) / 2 if mean is None else mean)
    return np.array(records)


def extrapolate(run, goal):
    """Romberg's table of ``run(level)`` (m, ...) until one more level changes it by less than goal; and that change."""
    row: list = []
    change = np.inf
    for level in range(LEVELS):
        new = [run(level)]
        for k, old in enumerate(row, 1):
            new.append(new[-1] + (new[-1] - old) / (4**k - 1))
        if row:
            axes = tuple(range(1, new[-1].ndim))
            size, gap = (np.max(np.abs(x), axis=axes) for x in (new[-1], new[-1] - row[-1]))
            before, change = change, float(np.max(np.divide(gap, size, out=np.zeros_like(gap), where=size > 0)))
            if change <= goal:
                return new[-1], change
            if level > 3 and change > before:  # rounding
                return row[-1], before
        row = new
    return row[-1], change
