"""Explicit Runge-Kutta method of order 8 with control of the error of eps_g."""

from typing import Any

import numpy as np

from ..flow.system import System
from ._dop853 import INTERPOLANT, bound_of_step, difference_error, eps_g_error, reach, rounding_error
from .compiled_steps import RungeKutta
from .solver import FlowSolver, Traits

__all__ = ["DOP853"]


class DOP853(FlowSolver):
    r"""SciPy's DOP853 that keeps the error of eps_g below rtol eps_g as well.

    A step of the overlaps that errs by dQ, dR, dv changes the generalisation error by

    .. math:: d\epsilon_g = -\frac{1}{\eta} \left( \tfrac12 \mathrm{tr}\, A\, dQ + \mathrm{tr}\, B^T dR \right)
              - \frac{1}{\eta_v}\, \dot v \cdot dv

    because A and B are the mean Hessian of the loss, up to the learning rate. It costs no evaluation. Where eps_g is
    small, errors that are small relative to Q and R would otherwise dominate it. Learning rules have no such A and B:
    there the change is computed as a difference, at one more evaluation a step.

    Parameters
    ----------
    fun, t0, y0, t_bound, **options
        As in :class:`scipy.integrate.DOP853`; equations other than the flow of the overlaps are integrated as by SciPy
        (``solve_ivp`` takes the class ``solver.with_scipy(DOP853)``).

    Notes
    -----
    The local error of eps_g is bounded; a plateau amplifies it like any other. Below eps_g = 1e-15 / rtol the rounding
    of Q and R, summed over the steps, dominates (``solve(..., late=True)`` avoids it); changes below rounding cost few
    steps. ``solve`` makes the same steps in compiled code if the closure is compiled.

    References
    ----------
    Hairer, Norsett and Wanner (1993), Solving Ordinary Differential Equations I, section II.5.
    """

    def __init__(self, fun, t0, y0, t_bound, **options):
        super().__init__(fun, t0, y0, t_bound, **options)
        owner = getattr(fun, "__self__", None)
        self.system = owner if isinstance(owner, System) else None
        # error of eps_g, relative to it: accumulated, and of the last step
        self.error = self._step_error = 0.0
        self.outputs: np.ndarray = np.zeros(0)  # output times
        self.reach = INTERPOLANT.first_reach  # see ``DOP853Real``
        self._polynomial: Any = None  # of the last step

    t: Any
    y: Any
    f: Any
    h_abs: float
    t_bound: float
    t_old: float
    max_step: float
    rtol: float
    atol: Any
    base_atol: Any
    scipy_class = "DOP853"
    traits = Traits(interpolates=True, estimates_error=True, compiled_steps=RungeKutta, one_step=True, adjustable=True)

    @property
    def requested_tolerances(self):
        """The tolerances rtol and atol as requested."""
        return self.rtol, float(self.base_atol)

    @classmethod
    def kernel_of(cls, system):
        """The compiled closure of a system for compiled steps, or None."""
        return system.kernel if cls is DOP853 else None

    def _step_impl(self):
        """One step; again if its polynomial is too inaccurate for the ``outputs`` inside, as ``_dop853.advance``."""
        outputs, end = self.outputs, self.t_bound
        t, y, f, proposed = self.t, self.y, self.f, self.h_abs
        following = np.searchsorted(outputs, t, side="right")
        while True:
            self.t_bound = bound_of_step(outputs, following, t, min(self.h_abs, self.max_step), self.reach, end)
            success, message = super()._step_impl()
            landed, self.t_bound = self.t == self.t_bound, end
            if not success or np.searchsorted(outputs, self.t) == following:
                break
            self.t_old = t
            self._polynomial = super()._dense_output_impl()
            error = self._polynomial_error(y)
            self.reach = reach(error, self.t - t, min(self.h_abs, self.max_step))
            if error <= 1.0:
                break
            self.t, self.y, self.f, proposed = t, y, f, self.h_abs
        if success and landed:
            self.h_abs = max(self.h_abs, proposed)
        if following < len(outputs) and self.t in outputs:
            self.reach = min(1.0, INTERPOLANT.recovery * self.reach)
        self.error += self._step_error
        return success, message

    def _dense_output_impl(self):
        known = self._polynomial is not None and (self._polynomial.t_old, self._polynomial.t) == (self.t_old, self.t)
        return self._polynomial if known else super()._dense_output_impl()

    def _polynomial_error(self, before):
        """Error of the polynomial of the last step, in units of the tolerances: ``_dop853.interpolation_error``."""
        last, factor, system = self._polynomial.F[-1], INTERPOLANT.safety * INTERPOLANT.peak, self.system
        error = factor * np.max(np.abs(last) / (self.atol + self.rtol * np.maximum(np.abs(self.y), np.abs(before))))
        if system is None:
            return error
        eps_g, h = self._end_eps_g, self.t - self.t_old
        if system.error_size:
            system.close(self.y)
            change, noise = system.change_of_eps_g(factor * last), system.closure.averaging_error
            return max(error, difference_error(change, self.rtol, eps_g, system.error_size, noise)[0])
        rounding = rounding_error(h * system.u, eps_g, system.S, system.A, system.B, system.model.eta)
        return max(error, factor * abs(system.change_of_eps_g(last)) / (self.rtol * eps_g + rounding))

    def _estimate_error_norm(self, K, h, scale):
        norm = super()._estimate_error_norm(K, h, scale)
        system, self._step_error = self.system, 0.0
        if system is None:
            return norm
        self._end_eps_g = system.eps_g
        if system.error_size:
            fifth, third = (np.sum(np.square(K.T @ E / scale)) for E in (self.E5, self.E3))
            factor = abs(h) * np.sqrt(fifth / (fifth + 0.01 * third)) if fifth > 0 else 0.0
            change, noise = system.change_of_eps_g(factor * (K.T @ self.E5)), system.closure.averaging_error
            error, self._step_error = difference_error(change, self.rtol, system.eps_g, system.error_size, noise)
            return max(norm, error)
        fifth, third = (system.change_of_eps_g(K.T @ E) for E in (self.E5, self.E3))
        now = system.eps_g, system.S, system.A, system.B, system.model.eta
        error, self._step_error = eps_g_error(fifth, third, h, system.u, self.rtol, *now)
        return max(norm, error)
