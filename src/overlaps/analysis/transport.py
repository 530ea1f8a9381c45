"""Linear transport of a covariance and a mean along the path of the equations: symmetric steps, extrapolated.

A step uses J, D and the source of the mean at its middle and is exact for constant coefficients. It computes e^{hJ} by
squaring, so that fast decays need no shorter steps.  Its error has even powers of h only, so that Romberg's
extrapolation over halved steps applies.
"""

from typing import NamedTuple

import numpy as np

from ..integrators.evolve import evolve


class TransportOptions(NamedTuple):
    """Tunable numbers of the transport of covariance and mean."""

    # Largest |J| h for the series of the exponential; longer steps are halved and squared. Half: one squaring more;
    # double: the series needs three terms more.
    max_step_norm: float = 0.25
    # Terms of the series: the first one omitted is below 1e-14.
    exponential_terms: int = 10
    # Levels of halved steps in Romberg's extrapolation at most. If they do not agree by then, the stated error is their
    # difference; one level more doubles the time.
    max_levels: int = 9
    # Numbers in the stack of matrices that are squared at once (16 MB). Double: twice the memory.
    chunk_numbers: int = 2**21


TRANSPORT = TransportOptions()


class Path:
    """The solution of the equations at any times, computed anew with the solver and tolerances of the trajectory."""

    def __init__(self, trajectory, pack):
        self.trajectory, self.pack = trajectory, pack
        self.first, self.last = float(trajectory.alpha[0]), float(trajectory.alpha[-1])
        self.steps = self._run((self.first, self.last)).alpha if self.last > self.first else np.array([self.first])

    def _run(self, alpha):
        traj = self.trajectory
        solution = evolve(traj.model, traj[0], alpha, method=traj.solver or "auto", rtol=traj.rtol, atol=traj.atol)
        if not solution.success:
            raise ValueError(f"the trajectory could not be computed again: {solution.message}")
        return solution

    def at(self, times):
        """Packed overlaps (n, n_y) at increasing times."""
        solution = self._run(np.asarray(times if len(times) and times[-1] > self.first else [self.first]))
        return np.array([self.pack(q, r, v) for q, r, v in zip(solution.q, solution.r, solution.v, strict=True)])

    def time(self, position):
        """Times at fractional indices of the solver's steps, which are dense where the solution changes fast."""
        return np.interp(position, np.arange(len(self.steps)), self.steps)


def propagators(J, h, D=None):
    """e^{hJ}, and the integral over s from 0 to h of e^{sJ} D e^{sJ^T} or, without D, of e^{sJ}; stacks J, D, h."""
    size = np.max(np.abs(J).sum(axis=2) * h[:, None], initial=0.0)
    squarings = max(0, int(np.ceil(np.log2(max(size, 1e-300) / TRANSPORT.max_step_norm))))
    h = h[:, None, None] / 2**squarings
    Z, E = J * h, np.zeros_like(J) + np.eye(J.shape[1])
    power, integral = E.copy(), E.copy() if D is None else D.copy()
    term = integral
    for k in range(1, TRANSPORT.exponential_terms + 1):
        power = power @ Z / k
        E = E + power
        if D is None:
            term = power / (k + 1)
        else:
            term = Z @ term
            term = (term + np.swapaxes(term, 1, 2)) / (k + 1)
        integral = integral + term
    integral = integral * h
    for _ in range(squarings):
        shifted = E @ integral
        integral = integral + (shifted if D is None else shifted @ np.swapaxes(E, 1, 2))
        E = E @ E
    return E, integral


def propagate(mesh, level, coefficients, Sigma, mean=None):
    """Sigma, or ``mean`` if it is given, at the times of the mesh, with 2^level steps in each of its intervals.

    ``coefficients(times)`` returns J, D (m, n, n) and the source of the mean (m, n), or None.
    """
    fine = 2**level
    edges = np.append((mesh[:-1, None] + np.diff(mesh)[:, None] * (np.arange(fine) / fine)).ravel(), mesh[-1])
    h, middles = np.diff(edges), (edges[1:] + edges[:-1]) / 2
    chunk = max(1, TRANSPORT.chunk_numbers // Sigma.size)
    records = [Sigma if mean is None else mean]
    for first in range(0, len(h), chunk):
        steps = slice(first, first + chunk)
        J, D, source = coefficients(middles[steps])
        for k, (E, X) in enumerate(zip(*propagators(J, h[steps], D if mean is None else None), strict=True)):
            if mean is None:
                Sigma = E @ Sigma @ E.T + X
            else:
                mean = E @ mean + X @ source[k]
            if (first + k + 1) % fine == 0:
                records.append((Sigma + Sigma.T) / 2 if mean is None else mean)
    return np.array(records)


def extrapolate(run, tol):
    """Romberg's table of ``run(level)`` (m, ...) until one more level changes it by at most tol; and that change."""
    row: list = []
    change = np.inf
    for level in range(TRANSPORT.max_levels):
        new = [run(level)]
        for k, old in enumerate(row, 1):
            new.append(new[-1] + (new[-1] - old) / (4**k - 1))
        if row:
            axes = tuple(range(1, new[-1].ndim))
            size, gap = (np.max(np.abs(x), axis=axes) for x in (new[-1], new[-1] - row[-1]))
            before, change = change, float(np.max(np.divide(gap, size, out=np.zeros_like(gap), where=size > 0)))
            if change <= tol:
                return new[-1], change
            if level > 3 and change > before:  # rounding errors dominate
                return row[-1], before
        row = new
    return row[-1], change
