"""Backward differentiation for many eigenvalues: SciPy's BDF with an exact Newton solve in O(L)."""

from typing import Any

import numpy as np
from scipy.integrate import BDF
from scipy.sparse import csc_matrix

from ..flow.jacobian import Jacobian
from ..flow.system import system_of
from ._bdf import STALE
from .compiled_steps import Backward

__all__ = ["StructuredBDF"]
# Part of the tolerance that the global error aims at. Above, plateaus would multiply it beyond the tolerance; below,
# steps become shorter without need.
SHARE = 0.25
# Newton corrections below 1e-14 of the largest overlap are rounding: do not iterate on them.
ROUNDING = 1e-14
# The least tolerances of a step: below, Newton corrections drown in the rounding of overlaps of order one.
LEAST_RTOL, LEAST_ATOL = 2e-13, 1e-14
TIGHTEST, TIGHTEST_POLYNOMIAL = 1e-12, 1e-13  # relative tolerance per step that a small eps_g may lead to
# Of the local error. Above, what Newton's iteration leaves shows in the error estimate; below, it iterates on rounding
# at rtol 1e-8 (SciPy's sqrt(rtol) gains nothing here).
NEWTON_TOLERANCE = 0.01


class StructuredBDF(BDF):
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
        As in ``scipy.integrate.BDF``; ``rtol`` and ``atol`` are what the global error of Q and R should keep.

    Raises
    ------
    ValueError
        ``fun`` is not the flow of the overlaps.

    Notes
    -----
    A local error tol per step makes the global error of a method of order 5 proportional to tol^(5/6), so BDF runs with
    tol = (rtol/4)^(6/5). Measured: the errors of Q and R then stay below rtol for rtol from 1e-5 to 1e-8, whatever L;
    the escape from a plateau multiplies them as it multiplies any error (``certify=True`` says by how much). Rounding
    in Newton's iteration keeps them above 1e-10 or so: below rtol = 1e-10 the steps stay as they are. As eps_g falls
    far below the overlaps of which it is the difference, tol falls with it, to 1e-12, and eps_g is left with an
    absolute error of about 5e-14. Where student and teacher are linear or quadratic, every block has a share of the
    absolute tolerance, p_l max(1, <s>/s_l) for q^l and s_l times that for r^l, and tol falls to 1e-13: a linear unit
    (eta = 0.5, rtol 1e-8, beta = 0.1 to 2, L = 16 to 4096) then has relative errors of eps_g below 2e-8, 6e-8, 1e-6 at
    1e-4, 1e-6, 1e-8, whatever L. Erf and relu gain nothing by it: their error is accumulated rounding.
    ``Trajectory.eps_floor`` says what a run has left. An interpolated output time is as accurate as a step.

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

    # test: tests/integrators/test_bdf.py::test_bdf_agrees_with_dop853_on_random_settings
    # test: tests/integrators/test_bdf.py::test_linear_units_keep_rtol_at_any_number_of_eigenvalues

    interpolates = True  # its dense output is the polynomial that it steps with
    internal = ("jac", "jac_sparsity")  # options of BDF that are not the user's
    by_blocks = True
    compiled_steps = Backward
    accounts = True  # adds up what its steps leave in eps_g
    least_rtol = LEAST_RTOL ** (1 / 1.2) / SHARE  # 1e-10: smaller ones make the same steps
    newton_tol: float
    fun: Any
    D: np.ndarray
    n_equal_steps: int
    error_const: np.ndarray
    rtol: float
    atol: Any

    def __init__(self, fun, t0, y0, t_bound, *, rtol=1e-8, atol=1e-12, **options):
        self.system, self.asked = system_of(fun), (rtol, atol)
        self.tolerance_fractions = self.system.tolerance_fractions
        # order 5 with a local error of tol per step has a global error of order tol^(5/6)
        rtol, atol = max((SHARE * rtol) ** 1.2, LEAST_RTOL), max(atol * rtol**0.2, LEAST_ATOL)
        # an empty sparse Jacobian keeps BDF from allocating a dense identity matrix; ours takes its place below
        super().__init__(fun, t0, y0, t_bound, rtol=rtol, atol=atol, jac=csc_matrix((len(y0), len(y0))), **options)
        self.newton_tol = max(self.newton_tol, NEWTON_TOLERANCE)
        # BDF's step passes ``I - c * J`` to ``lu``.  Jacobian answers to this expression, with the number 1 for I:
        # the alternative is a copy of SciPy's step method, which would not follow its corrections.
        self.jac, self.lu, self.solve_lu = self._jacobian, self._factorised, self._correction
        self.trial = self.corrected = t0
        self.scheduled = 1.0, 1.0  # factors of the rates in the last Jacobian
        self.fun = self._timed(self.fun)
        self.I, self.J = 1.0, self.jac(self.t, self.y)
        self.rtol_start, self.atol_start = self.rtol, float(self.atol)
        self.least_factor = min((TIGHTEST_POLYNOMIAL if self.system.polynomial else TIGHTEST) / self.rtol_start, 1.0)
        self.D, self.atol = self.D.view(_Serial), (self.atol_start * self.tolerance_fractions).view(_Serial)
        # of eps_g, relative to it: the sum of what the steps leave, and the last of them
        self.error = self._share = 0.0

    @property
    def kernel(self):
        """The compiled closure with which steps can be made in bursts, or None."""
        # rules of quadrature are tested in Python, and a Jacobian by differences is most of the work
        smooth = type(self) is StructuredBDF and not self.system.closure.by_quadrature
        return self.system.kernel if smooth else None

    @property
    def tolerances(self):
        """Control of compiled steps, see ``_bdf.advance``."""
        tolerances = self.rtol_start, self.atol_start, self.least_factor, LEAST_ATOL
        return *tolerances, self.newton_tol, ROUNDING, self.system.sensitive

    def _step_impl(self):
        """One step, with tolerances that follow eps_g where it is a small difference of the overlaps."""
        factor = max(self.system.tightening(self.y), self.least_factor)
        self.rtol = factor * self.rtol_start
        self._refresh()
        atol = max(factor * self.atol_start, LEAST_ATOL)
        self.atol = (atol * self.system.unit(self.y) * self.tolerance_fractions).view(_Serial)
        result = super()._step_impl()
        self._add_error()
        return result

    def _refresh(self):
        """Take a new Jacobian where the rates have moved away from the last one's."""
        if self.system.evaluator is None:
            return
        self.system.at(self.t)
        if any(abs(now - then) > STALE * then for now, then in zip(self._rates(), self.scheduled, strict=True)):
            self.J, self.LU = self.jac(self.t, self.y), None

    def _rates(self):
        return self.system.u, self.system.u_v

    def _add_error(self):
        """Add the error of eps_g that the step left, from the local error of the overlaps that BDF estimates."""
        system = self.system
        if self.n_equal_steps > 0:  # a change of step or order has rescaled D: the last share is taken again
            eps_g = system.close(self.y)
            change = system.change_of_eps_g(self.error_const[self.order] * np.asarray(self.D[self.order + 1]))
            self._share = abs(change) / max(eps_g, LEAST_ATOL)
        self.error += self._share

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
        """Correction of a Newton iteration; exactly 0 once it is negligible: a tenth of what is accepted, or rounding.

        At a fixed point corrections are rounding, which has no rate of convergence: BDF would call it divergence and
        shorten its steps without end.  A correction of 0 it takes for converged.  The first correction of a step
        is kept whatever its size is above the tolerance: the error estimate is made of it.
        """
        x = newton_matrix.solve(b)
        y = np.abs(self.y)
        negligible = 0.1 * self.newton_tol * (np.asarray(self.atol) + self.rtol * y)
        if self.trial == self.corrected:
            unit = self.system.unit(self.y) * self.tolerance_fractions
            negligible = np.maximum(negligible, ROUNDING * unit * np.max(y / unit))
        self.corrected = self.trial
        # written so that nan, of a matrix that is not finite, is no convergence
        return np.zeros_like(x) if np.all(np.abs(x) <= negligible) else x

    def _timed(self, fun):
        """The right-hand side, remembering the time of its last call: the end of the step that is tried."""

        def timed(t, y):
            self.trial = t
            return fun(t, y)

        return timed


class _Serial(np.ndarray):
    """Array whose products and norms do without BLAS; to other NumPy functions it is a plain array.

    BDF takes products with its table of differences D and norms relative to atol.  BLAS spreads such a product, of a
    few n numbers, over threads: where the cores are busy with other runs, the integration became far slower.
    """

    def __array_function__(self, function, types, args, kwargs):
        args = [np.asarray(x) if isinstance(x, _Serial) else x for x in args]
        if function is np.dot:
            return np.einsum("ij,j...->i...", *args)
        if function is np.linalg.norm:
            return np.sqrt(np.einsum("i,i->", *args, *args))
        return function(*args, **kwargs)
