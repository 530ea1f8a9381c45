"""Explicit Runge-Kutta of order 8 whose error control knows what the overlaps are for: eps_g."""

import numpy as np
from scipy import integrate

from ..flow.system import System
from ._dop853 import judge, judge_change
from .compiled_steps import RungeKutta

__all__ = ["DOP853"]


class DOP853(integrate.DOP853):
    r"""SciPy's DOP853 that keeps the error of eps_g below rtol eps_g as well.

    A step of the overlaps that errs by dQ, dR, dv changes the generalisation error by

    .. math:: d\epsilon_g = -\frac{1}{\eta} \left( \tfrac12 \mathrm{tr}\, A\, dQ + \mathrm{tr}\, B^T dR \right)
              - \frac{1}{\eta_v}\, \dot v \cdot dv

    because A and B are the mean Hessian of the loss, up to the learning rate: the number is there for nothing. Where
    eps_g is small, errors that Q and R of order one do not show would otherwise spoil it. Rules of learning have no
    such A and B: there the change is a difference, one more evaluation a step.

    Parameters
    ----------
    fun, t0, y0, t_bound, **options
        As in ``scipy.integrate.DOP853``; other equations than the flow of the overlaps are integrated as SciPy does.

    Notes
    -----
    The local error of eps_g is bounded; a plateau amplifies it like any other. Below eps_g = 1e-15 / rtol the rounding
    of Q and R, summed over the steps, takes over (``solve(..., late=True)`` goes on); what is hidden by it costs
    few steps. ``solve`` makes the same steps in compiled code where the closure is.

    References
    ----------
    Hairer, Norsett and Wanner (1993), Solving Ordinary Differential Equations I, section II.5.
    """

    def __init__(self, fun, t0, y0, t_bound, **options):
        super().__init__(fun, t0, y0, t_bound, **options)
        owner = getattr(fun, "__self__", None)
        self.system = owner if isinstance(owner, System) else None
        # of eps_g, relative to it: the sum of what the steps leave, and the last of them
        self.error = self._share = 0.0

    compiled_steps = RungeKutta
    accounts = True  # adds up what its steps leave in eps_g

    @property
    def asked(self):
        """The tolerances asked for."""
        return self.rtol, float(self.base_atol)

    @property
    def kernel(self):
        """The compiled closure with which steps can be made in bursts, or None."""
        return self.system.kernel if self.system is not None and type(self) is DOP853 else None

    def _step_impl(self):
        result = super()._step_impl()
        self.error += self._share
        return result

    def _estimate_error_norm(self, K, h, scale):
        norm = super()._estimate_error_norm(K, h, scale)
        system, self._share = self.system, 0.0
        if system is None:
            return norm
        if system.error_size:
            fifth, third = (np.sum(np.square(K.T @ E / scale)) for E in (self.E5, self.E3))
            part = abs(h) * np.sqrt(fifth / (fifth + 0.01 * third)) if fifth > 0 else 0.0
            change, noise = system.change_of_eps_g(part * (K.T @ self.E5)), system.closure.averaging_error
            error, self._share = judge_change(change, self.rtol, system.eps_g, system.error_size, noise)
            return max(norm, error)
        fifth, third = (system.change_of_eps_g(K.T @ E) for E in (self.E5, self.E3))
        now = system.eps_g, system.S, system.A, system.B, system.model.eta
        error, self._share = judge(fifth, third, h, system.u, self.rtol, *now)
        return max(norm, error)
