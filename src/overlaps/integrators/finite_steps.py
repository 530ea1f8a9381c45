"""Finite steps: batches of a number of samples proportional to N, an exact map of the overlaps in place of a flow."""

import numpy as np

from .._base import check
from ..flow.system import system_of
from ..models.features import FEATURES
from .solver import FlowSolver, Traits


def checked_step(step, *, method="auto", rtol=1e-8, atol=None, **options):
    """The step, checked; refuse whatever controls an integration."""
    defaults = {"method": "auto", "rtol": 1e-8}
    for name, value in {"method": method, "rtol": rtol, "atol": atol, **options}.items():
        if repr(value) != repr(defaults.get(name)):
            raise ValueError(
                f"{name} = {check.shown(value)} does not support {FEATURES['step'].words}: steps are the dynamics, and "
                f"nothing is integrated; expected {name} left out."
            )
    return check.number("step", step, above=0, hint="A step takes step * N samples.")


class FiniteSteps(FlowSolver):
    r"""Steps of length ``step`` in alpha: all samples at the old weights, their gradients added.

    With the velocity :math:`\dot w = G w + B w^*` of the mean weights, :math:`G = s_l A - \eta \kappa`, a step h gives

    .. math::
        r^l \mathrel{+}= h\, \dot r^l, \qquad
        q^l \mathrel{+}= h\, \dot q^l + h^2 \big[ (G q^l + B r^{lT}) G^T + \dot r^l B^T \big], \qquad
        v \mathrel{+}= h\, \dot v

    with the velocities of the flow: its noise :math:`s_l p_l C` is that of h N independent samples, and the last term
    is the square of the mean step. On spheres, students are scaled back to their norms. Exact for N -> infinity; for
    linear units at finite batches Bordelon and Pehlevan (2022), arXiv:2106.02713, have the same recursion.
    """

    t: float
    y: np.ndarray
    nfev: int
    scipy_class = "OdeSolver"
    traits = Traits(interpolates=True, discrete=True)

    def __init__(self, fun, t0, y0, t_bound, vectorized=False, *, step, rtol=0.0, atol=0.0):
        super().__init__(fun, t0, y0, t_bound, vectorized)
        self.system, self.length, self.error = system_of(fun), step, 0.0
        self.outputs: np.ndarray = np.zeros(0)

    @classmethod
    def kernel_of(cls, system):
        """None: a step costs one evaluation of the closure."""
        return None

    def _step_impl(self):
        t, half = self.t + self.length, self.length / 2
        self.y, self.nfev = self._after(), self.nfev + 1
        near = self.outputs[np.searchsorted(self.outputs, t - half) :][:1]  # output times are met to the last bit
        self.t = float(near[0]) if near.size and near[0] < t + half else t
        return True, None

    def _after(self):
        """The packed overlaps after a step."""
        system, y, h = self.system, self.y, self.length
        system.at(self.t)
        system.eps_g = system.close(np.ascontiguousarray(y))
        A, B, C, dv = system.scaled(system.A, system.B, system.C, system.dv)
        change = system.velocity(y, A, B, C, dv, (max(system.decay, 0.0), system.decay_v, 0.0))
        (q, r, v), (dq, dr, dv) = map(system.packing.unpack, (y, change))
        G, B = system.generator(A, B)
        new = q + h * dq + h**2 * ((G @ q + B @ r.mT) @ G.mT + dr @ B.mT)
        r = r + h * dr
        if system.model.spherical:
            scale = np.sqrt(np.einsum("lkk->k", q) / np.einsum("lkk->k", new))
            new, r = new * np.outer(scale, scale), r * scale[:, None]
        return system.packing.pack(new, r, v + h * dv)
