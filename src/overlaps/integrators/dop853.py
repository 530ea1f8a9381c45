"""Explicit Runge-Kutta method of order 8 with control of the error of eps_g."""

import numpy as np
from scipy import integrate

from ..flow.system import System
from ._dop853 import difference_error, eps_g_error
from .compiled_steps import RungeKutta
from .solver import FlowSolver, Traits

__all__ = ["DOP853"]


class DOP853(FlowSolver, integrate.DOP853):
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
        As in ``scipy.integrate.DOP853``; equations other than the flow of the overlaps are integrated as by SciPy.

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

    traits = Traits(estimates_error=True, compiled_steps=RungeKutta)

    @property
    def requested_tolerances(self):
        """The tolerances rtol and atol as requested."""
        return self.rtol, float(self.base_atol)

    @property
    def kernel(self):
        """The compiled closure for compiled steps, or None."""
        return self.system.kernel if self.system is not None and type(self) is DOP853 else None

    def _step_impl(self):
        result = super()._step_impl()
        self.error += self._step_error
        return result

    def _estimate_error_norm(self, K, h, scale):
        norm = super()._estimate_error_norm(K, h, scale)
        system, self._step_error = self.system, 0.0
        if system is None:
            return norm
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
