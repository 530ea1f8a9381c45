"""Backward differentiation for many eigenvalues: SciPy's BDF with an exact Newton solve in O(L)."""

from typing import Any, NamedTuple

import numpy as np
import scipy

from ..flow.jacobian import Jacobian
from ..flow.system import system_of
from ._bdf import BDF_OPTIONS
from .compiled_steps import Backward
from .solver import FlowSolver, Traits

__all__ = ["StructuredBDF"]


class ToleranceOptions(NamedTuple):
    """Tunable numbers of the tolerances of a step."""

    # Fraction of the tolerance that the global error aims at. Doubled: plateaus amplify errors beyond the tolerance;
    # halved: steps become shorter without need.
    fraction: float = 0.25
    # Newton corrections below this fraction of the largest overlap are rounding and end the iteration.
    rounding: float = 1e-14
    # Least tolerances of a step. Smaller: Newton corrections are dominated by the rounding of overlaps of order one.
    min_rtol: float = 2e-13
    min_atol: float = 1e-14
    # Least relative tolerance of a step for a small eps_g, for general and for polynomial activations.
    min_rtol_late: float = 1e-12
    min_rtol_late_polynomial: float = 1e-13
    # Tolerance of Newton's iteration in units of the local error. Larger: its error shows in the error estimate;
    # smaller: it iterates on rounding at rtol 1e-8 (SciPy's sqrt(rtol) gains nothing here).
    newton: float = 0.01


TOLERANCE = ToleranceOptions()


class StructuredBDF(FlowSolver):
    r"""SciPy's BDF for the flow of the overlaps, with the Newton equations solved exactly at a cost linear in L.

    .. math:: (1 - c J)\, x = b, \qquad J = D + F G

    D, the flow at frozen closure, is block diagonal and becomes diagonal in the eigenbasis of A; F G, of rank
    K(K+1)/2 + KM (+ K), is the closure's response to dQ, dR (, dv) and is solved for by Woodbury's formula. A
    factorisation and a solve both cost O(L K^2 (K + M)), as much as the right-hand side: the sums over blocks that the
    small matrix needs are the same for all columns of F, which are never formed. Step control, order and error
    estimate are SciPy's. ``solve`` makes the same steps in compiled code where the closure and the schedules are.

    Parameters
    ----------
    fun : callable
        The method ``rhs`` of a ``System``; used through ``overlaps.solve(..., method="structured")``.
    t0, y0, t_bound, **options
        As in :class:`scipy.integrate.BDF`; ``rtol`` and ``atol`` are tolerances of the global error of Q and R.

    Raises
    ------
    ValueError
        ``fun`` is not the flow of the overlaps.

    Notes
    -----
    A local error tol per step makes the global error of a method of order 5 proportional to tol^(5/6), so BDF runs with
    tol = (rtol/4)^(6/5). Measured: the errors of Q and R then stay below rtol for rtol from 1e-5 to 1e-8, whatever L;
    the escape from a plateau multiplies them as it multiplies any error (``certify=True`` measures this). Rounding
    in Newton's iteration keeps them above 1e-10 or so: below rtol = 1e-10 the steps stay as they are. As eps_g falls
    far below the overlaps of which it is the difference, tol falls with it, to 1e-12, and eps_g is left with an
    absolute error of about 5e-14. Where student and teacher are linear or quadratic, every block has a fraction of the
    absolute tolerance, p_l max(1, <s>/s_l) for q^l and s_l times that for r^l, and tol falls to 1e-13: a linear unit
    (eta = 0.5, rtol 1e-8, beta = 0.1 to 2, L = 16 to 4096) then has relative errors of eps_g below 2e-8, 6e-8, 1e-6 at
    1e-4, 1e-6, 1e-8, whatever L. Erf and relu gain nothing by it: their error is accumulated rounding.
    ``Trajectory.eps_floor`` estimates the error of a run. An interpolated output time is as accurate as a step.

    Not exact: a numerical integrator, whose error the tolerances control.

    References
    ----------
    Shampine and Reichelt (1997), SIAM J. Sci. Comput. 18, 1; Hairer and Wanner (1996), Solving Ordinary Differential
    Equations II.

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5, spectrum=ov.power_law(beta=1.0, L=100))
    >>> traj = ov.solve(model, model.random_start(N=1000, rng=1), [0.0, 1e5], method="structured")
    >>> traj.method, traj.nfev < 5000  # an explicit method would need millions
    ('StructuredBDF', True)
    """

    scipy_class = "BDF"
    traits = Traits(
        interpolates=True,  # its dense output is the polynomial that it steps with
        by_blocks=True, estimates_error=True, internal=("jac", "jac_sparsity"),
        least_rtol=TOLERANCE.min_rtol ** (1 / 1.2) / TOLERANCE.fraction,  # 1e-10: smaller ones make the same steps
        compiled_steps=Backward, multistep=True, adjustable=True,
    )  # fmt: skip
    newton_tol: float
    fun: Any
    D: np.ndarray
    n_equal_steps: int
    error_const: np.ndarray
    rtol: float
    atol: Any

    def __init__(self, fun, t0, y0, t_bound, *, rtol=1e-8, atol=1e-12, **options):
        self.system, self.requested_tolerances = system_of(fun), (rtol, atol)
        self.tolerance_fractions = self.system.tolerance_fractions
        # order 5 with a local error of tol per step has a global error of order tol^(5/6)
        atol = max(atol * rtol**0.2, TOLERANCE.min_atol)
        rtol = max((TOLERANCE.fraction * rtol) ** 1.2, TOLERANCE.min_rtol)
        # an empty sparse Jacobian prevents BDF from allocating a dense identity matrix; it is replaced below
        jac = scipy.sparse.csc_matrix((len(y0), len(y0)))
        super().__init__(fun, t0, y0, t_bound, rtol=rtol, atol=atol, jac=jac, **options)
        self.newton_tol = max(self.newton_tol, TOLERANCE.newton)
        # BDF's step passes ``I - c * J`` to ``lu``.  Jacobian implements this expression, with the number 1 for I;
        # the alternative, a copy of SciPy's step method, would miss later corrections there.
        self.jac, self.lu, self.solve_lu = self._jacobian, self._factorised, self._correction
        self.trial = self.corrected = t0
        self.scheduled = 1.0, 1.0  # factors of the rates in the last Jacobian
        self.fun = self._timed(self.fun)
        self.I, self.J = 1.0, self.jac(self.t, self.y)
        self.rtol_start, self.atol_start = self.rtol, float(self.atol)
        late = TOLERANCE.min_rtol_late_polynomial if self.system.polynomial else TOLERANCE.min_rtol_late
        self.least_factor = min(late / self.rtol_start, 1.0)
        self.D, self.atol = self.D.view(_Serial), (self.atol_start * self.tolerance_fractions).view(_Serial)
        # error of eps_g, relative to it: accumulated, and of the last step
        self.error = self._step_error = 0.0

    @classmethod
    def kernel_of(cls, system):
        """The compiled closure of a system for compiled steps, or None."""
        # quadratures are tested in Python, and a Jacobian by differences is most of the work
        return system.kernel if cls is StructuredBDF and not system.closure.by_quadrature else None

    @property
    def tolerances(self):
        """Control of compiled steps, see ``_bdf.advance``."""
        tolerances = self.rtol_start, self.atol_start, self.least_factor, TOLERANCE.min_atol
        return *tolerances, self.newton_tol, TOLERANCE.rounding, self.system.sensitive

    def _step_impl(self):
        """One step, with tolerances that follow eps_g where it is a small difference of the overlaps."""
        factor = max(self.system.tightening(self.y), self.least_factor)
        self.rtol = factor * self.rtol_start
        self._refresh()
        atol = max(factor * self.atol_start, TOLERANCE.min_atol)
        self.atol = (atol * self.system.unit(self.y) * self.tolerance_fractions).view(_Serial)
        result = super()._step_impl()
        self._add_error()
        return result

    def _dense_output_impl(self):
        """SciPy's polynomial, its terms added in the order of ``_bdf.interpolate``.

        Compiled steps return after a time; digits must not depend on which of both evaluates a record.
        """
        polynomial = super()._dense_output_impl()
        D = np.asarray(polynomial.D)

        def value(t):
            y, p = np.multiply.outer(D[0], np.ones_like(t)), 1.0
            for row, shift, length in zip(D[1:], polynomial.t_shift, polynomial.denom, strict=True):
                p = p * ((t - shift) / length)
                y = y + np.multiply.outer(row, p)
            return y

        polynomial._call_impl = value
        return polynomial

    def _refresh(self):
        """Compute a new Jacobian if the rates differ too much from those in the last one."""
        if self.system.evaluator is None:
            return
        self.system.at(self.t)
        limit, pairs = BDF_OPTIONS.stale_rate, zip(self._rates(), self.scheduled, strict=True)
        if any(abs(now - then) > limit * then for now, then in pairs):
            self.J, self.LU = self.jac(self.t, self.y), None

    def _rates(self):
        return self.system.u, self.system.u_v

    def _add_error(self):
        """Add the error of eps_g of the step, from the local error of the overlaps that BDF estimates."""
        system = self.system
        if self.n_equal_steps > 0:  # otherwise D is rescaled, and the error of the step before is added again
            eps_g = system.close(self.y)
            change = system.change_of_eps_g(self.error_const[self.order] * np.asarray(self.D[self.order + 1]))
            self._step_error = abs(change) / max(eps_g, TOLERANCE.min_atol)
        self.error += self._step_error

    def _jacobian(self, t, y):
        """Jacobian at y; at the last accepted point where the closure is not finite at y."""
        self.njev += 1
        self.system.at(t)
        self.scheduled = self._rates()
        finite = np.isfinite(self.system.close(y)) and np.all(np.isfinite(self.system.A))
        return Jacobian(self.system, y if finite else self.y, exact=False)

    def _factorised(self, newton_matrix):
        """Count a factorisation; the expression ``I - c * J`` made it."""
        self.nlu += 1
        return newton_matrix

    def _correction(self, newton_matrix, b):
        """Correction of a Newton iteration; exactly 0 if it is below a tenth of the tolerance, or rounding.

        At a fixed point corrections are rounding, which has no rate of convergence: BDF would call it divergence and
        shorten its steps without end.  It takes a correction of 0 for convergence.  The first correction of a step is
        compared with the tolerance only, not with rounding, because the error estimate uses it.
        """
        x = newton_matrix.solve(b)
        y = np.abs(self.y)
        negligible = 0.1 * self.newton_tol * (np.asarray(self.atol) + self.rtol * y)
        if self.trial == self.corrected:
            unit = self.system.unit(self.y) * self.tolerance_fractions
            negligible = np.maximum(negligible, TOLERANCE.rounding * unit * np.max(y / unit))
        self.corrected = self.trial
        # this comparison makes nan, from a matrix that is not finite, no convergence
        return np.zeros_like(x) if np.all(np.abs(x) <= negligible) else x

    def _timed(self, fun):
        """The right-hand side; it stores the time of its last call, the end of the step that is tried."""

        def timed(t, y):
            self.trial = t
            return fun(t, y)

        return timed


class _Serial(np.ndarray):
    """Array whose products and norms do not use BLAS; other NumPy functions treat it as a plain array.

    BDF takes products with its table of differences D and norms relative to atol.  BLAS distributes such a product, of
    a few n numbers, over threads, which is far slower if the cores are busy with other runs.
    """

    def __array_function__(self, function, types, args, kwargs):
        args = [np.asarray(x) if isinstance(x, _Serial) else x for x in args]
        if function is np.dot:
            return np.einsum("ij,j...->i...", *args)
        if function is np.linalg.norm:
            return np.sqrt(np.einsum("i,i->", *args, *args))
        return function(*args, **kwargs)
