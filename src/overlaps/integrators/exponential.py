"""Exponential midpoint step: the flow solved exactly over a step whose closure is frozen at its middle."""

from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import OdeSolver

from ..flow import rotate, rotate_back
from ..flow.system import system_of
from ._exponential import advance_blocks
from .bdf import StructuredBDF

__all__ = ["ExponentialMidpoint"]


class ExponentialOptions(NamedTuple):
    """Tunable numbers of the step control."""

    # Factors of the step size, as in SciPy's Runge-Kutta methods: safety, the least and the largest change at once.
    safety: float = 0.9
    min_factor: float = 0.2
    max_factor: float = 5.0
    # Fraction of the tolerance that one step may use, because errors of some tens of steps add up. Halved: 1.4 times as
    # many steps.
    tolerance_fraction: float = 0.1
    rounding: float = 1e-15  # rounding of eps_g, a difference of overlaps of order one


OPTIONS = ExponentialOptions()


class ExponentialMidpoint(OdeSolver):
    r"""Second-order integrator whose step is not limited by large eigenvalues of the inputs.

    With A = V diag(a) V^T, B, C frozen, the flow is linear and solvable exactly in the eigenbasis of A; with
    :math:`z_i = s_l h a_i`, :math:`\varphi(z) = (e^z - 1)/z`,

    .. math::
        r_i &\leftarrow e^{z_i} r_i + h \varphi(z_i) (B \tau^l)_i \\
        q_{ij} &\leftarrow e^{z_i + z_j} q_{ij} + X_{ij} + X_{ji}
            + h^2 \varphi(z_i) \varphi(z_j) (B \tau^l B^T)_{ij} + h s_l p_l \varphi(z_i + z_j) C_{ij}, \\
        X_{ij} &= e^{z_i} h \varphi(z_j) (r B^T)_{ij}.

    A step uses the closure at its start up to its middle, and the closure there for the full step. Used through
    ``overlaps.solve(..., method="exponential")``.

    Parameters
    ----------
    fun : callable
        The method ``rhs`` of a ``System``.
    t0, y0, t_bound
        Times and packed state, as in ``scipy.integrate.OdeSolver``.
    rtol, atol : float
        Tolerances on (Q, R, v), the arguments of the closure, and of eps_g relative to itself.
    max_step, first_step : float, optional
        As in ``scipy.integrate.RK45``.

    Raises
    ------
    ValueError
        ``fun`` is not the flow of the overlaps, or a bad option.

    Notes
    -----
    The error estimate, the full step against its two halves with the closures of start and middle and of start and
    end, is of first order, the result of second: the estimate is an upper bound, and the global error is proportional
    to the tolerance. Blocks that relax within a step follow its closure; the closure of the end shows how far they lag
    behind a slowly falling eps_g. Measured: eps_g keeps 1.5 rtol relative to itself at all times (linear, beta = 0.1 to
    2, L = 64 to 256, down to 1e-9); the escape from a plateau multiplies errors (erf, K = M = 2, beta = 1.5, L = 64:
    5.5 rtol at alpha = 40, below rtol from 100 to 1e5). The number of steps grows as 1/sqrt(rtol): good for figures,
    slow for reference values.
    A second layer that is trained moves by the explicit midpoint rule. Not exact: a numerical integrator.

    References
    ----------
    Hochbruck and Ostermann (2010), Acta Numerica 19, 209.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5, spectrum=ov.power_law(beta=1.0, L=100))
    >>> start = model.random_start(N=1000, rng=1)
    >>> rough = ov.solve(model, start, [0.0, 10.0], method="exponential", rtol=1e-4)
    >>> bool(np.isclose(rough.eps_g[-1], ov.solve(model, start, [0.0, 10.0]).eps_g[-1], rtol=0.01))
    True
    """

    one_step = by_blocks = True
    estimates_error = True  # adds up the errors of eps_g of its steps
    late_solver = StructuredBDF  # for late times, because the error of this step is measured in Q and R
    t: float
    y: np.ndarray
    _frozen: Any  # closure at (t, y), or None

    def __init__(
        self, fun, t0, y0, t_bound, *, rtol=1e-4, atol=1e-8, max_step=np.inf, first_step=None, vectorized=False
    ):
        super().__init__(fun, t0, y0, t_bound, vectorized)
        self.system, self.h_abs = system_of(fun), first_step
        fraction = OPTIONS.tolerance_fraction
        self.rtol, self.atol, self.max_step = fraction * rtol, fraction * atol, max_step
        self._frozen = None
        self.error = 0.0  # accumulated error of eps_g, relative to it
        if first_step is None:
            g, rate = self._arguments(self.y), self._arguments(self.fun(self.t, self.y))
            scale = self.atol + self.rtol * np.abs(g).max()
            self.h_abs = np.sqrt(scale * max(scale, np.abs(g).max())) / max(np.abs(rate).max(), 1e-300)

    def _arguments(self, y):
        """The arguments (Q, R, v) of the closure at y, or their velocities from dy, as one vector."""
        return self.system.packing.arguments(y, self.system.model.spectrum.s)

    def _freeze(self, y, t):
        self.nfev += 1
        self.system.at(t)
        return FrozenFlow(self.system, y)

    def _step_impl(self):
        least = 10 * np.abs(np.nextafter(self.t, np.inf) - self.t)
        h = min(max(self.h_abs, least), self.max_step)
        if self._frozen is None:
            self._frozen = self._freeze(self.y, self.t)
        error = np.inf
        while error > 1:
            if not h >= least:
                return False, self.TOO_SMALL_STEP
            t_new = min(self.t + h, self.t_bound)
            h = t_new - self.t
            y_new, error, end = self._try(h)
            error = error if np.isfinite(error) else OPTIONS.safety**2 / OPTIONS.min_factor**2
            factor = OPTIONS.safety / np.sqrt(max(error, 1e-300))
            h *= min(max(factor, OPTIONS.min_factor), OPTIONS.max_factor)
        self.t, self.y, self.h_abs = t_new, y_new, h
        self._frozen = end  # the closure at the end is the one at the start of the next step
        self.error += self._step_error
        return True, None

    def _try(self, h):
        """Result of a step h, its error in units of the tolerance, and the closure at its end.

        The second half is computed twice more, with the closures of the middle and of the end: blocks that relax
        within a step follow the last closure, and only the second shows by how much they lag behind it.
        """
        t = self.t
        half = self._frozen.advance(self.y, h / 2, t + h / 4)
        middle = self._freeze(half, t + h / 2)
        y_new = middle.advance(self.y, h, t + h / 2)
        end = self._freeze(y_new, t + h)
        g_new = self._arguments(y_new)
        scale = self.atol + self.rtol * np.abs(g_new).max()
        error = self._step_error = 0.0
        for frozen in (middle, end):
            other = frozen.advance(half, h / 2, t + 3 * h / 4)
            change = abs(self.system.change_of_eps_g(other - y_new))
            eps_g_error = change / (10 * self.rtol * max(end.eps_g, 0.0) + OPTIONS.rounding)
            error = np.fmax(error, np.fmax(np.abs(g_new - self._arguments(other)).max() / scale, eps_g_error))
            self._step_error = max(self._step_error, change / max(end.eps_g, OPTIONS.rounding))
        return y_new, error, end


class FrozenFlow:
    """The flow with A, B, C, dv as they are at y: linear, with an exact solution."""

    def __init__(self, system, y):
        self.system = system
        self.eps_g = system.close(y)
        finite = np.isfinite(self.eps_g) and np.all(np.isfinite(system.A))
        self.a, self.V = np.linalg.eigh(system.A if finite else np.eye(len(system.A)))
        self.a *= 1.0 if finite else np.nan  # the step is then rejected
        self.B = self.V.T @ system.B
        self.C = self.V.T @ system.C @ self.V
        self.dv = np.array(system.dv)

    def advance(self, y, h, alpha):
        """Y after h, with the numbers of the model as they are at alpha."""
        system, V = self.system, self.V
        system.at(alpha)
        a, B, C, dv = system.scaled(self.a, self.B, self.C, self.dv)
        L, K, M = system.shape
        r, q, new_r, new_q = (np.empty((K, n, L)) for n in (M, K, M, K))
        rotate(y, V, r, q)
        s, p = system.s, system.p
        C = system.second_order * C if system.second_order > 0 else np.zeros_like(C)  # a gradient flow has none
        advance_blocks(r, q, s, p, system.source, a, B, C, system.decay, system.model.drift, h, new_r, new_q)
        new = np.empty_like(y)
        rotate_back(new_r, new_q, V, new)
        if system.model.trains_v:
            z = -system.decay_v * h
            n = dv.size
            new[-n:] = np.exp(z) * y[-n:] + h * (np.expm1(z) / z if z else 1.0) * dv
        return new
