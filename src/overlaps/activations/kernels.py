"""Registry of the closed forms of the library's activations, by code.

Add a new activation here, or from outside of the package through :class:`overlaps.Activation`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from .._base import check
from ..gaussian import two_point
from ._erf import erf_C_chunk, erf_closure, erf_derivatives, erf_workspace
from ._erf_differences import erf_differences
from ._quadratic import (
    linear_closure,
    linear_derivatives,
    linear_differences,
    quadratic_closure,
    quadratic_derivatives,
    quadratic_differences,
)
from ._relu import relu_closure
from ._relu_derivatives import relu_derivatives
from ._simd import erf_simd, linear_simd, quadratic_simd

__all__ = ["KERNELS", "Kernels", "erf_closure", "erf_workspace"]


class ActivationCodes(NamedTuple):
    """Codes of activations in closed form, as the plain integers that users see."""

    linear: int
    quadratic: int
    relu: int
    erf: int
    sign: int


CODES = ActivationCodes(*two_point.CODES.tolist())


@dataclass(frozen=True)
class Kernels:
    r"""Closed forms of a student activation, as functions that fill arrays.

    With fields z of covariance S (n, n), the K students first, signed second layers w (n,), and the error
    :math:`\Delta = \sum_c w_c g_c(z_c)` of a sample without noise,

    .. math:: H_{kj} = w_k w_j E[g_k' g_j'] + \delta_{kj} w_k E[g_k'' \Delta], \quad (A, B) = -\eta H, \quad
              dv_k = -\eta_v E[g_k \Delta], \quad
              C_{kl} = \eta^2 w_k w_l E[g_k' g_l' (\Delta^2 + \mathrm{noise}^2)], \quad \epsilon_g = E[\Delta^2]/2 .

    Parameters
    ----------
    closure : callable
        ``closure(S, w, parameters, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv)`` fills A (K, K),
        B (K, M), dv (K,) and, if ``second_order``, C (K, K); it returns eps_g.  ``parameters`` is a scratch array, see
        ``workspace``.  ``teacher`` is the code of the teacher's activation, or -1 for the student's own activation if
        that has no code.
    teachers : tuple of int
        Codes of the library's activations that ``closure`` accepts as teachers, beside the student's own: 0 linear,
        1 quadratic, 2 relu, 3 erf, 4 sign.  Other teachers are integrated by quadrature.
    derivatives : callable, optional
        ``derivatives(S, w, K, teacher, eta, eta_v, noise, second_order, dA, dB, dC, ddv)`` fills the derivatives
        (d, K, K), (d, K, M), (d, K, K), (d, K) along Q_ij, i <= j, then R_km, then v_k.  Without it, finite
        differences are used.
    differences : callable, optional
        ``differences(Z, v, x, t, weight, eta, second_order, A, G, C)``, the closure of an odd function in the
        differences of students and teachers (:mod:`overlaps.flow.differences`), for ``solve(..., late=True)``.
    workspace : callable, optional
        ``workspace(n)`` is the least length of ``parameters`` for n fields; without it, ``parameters`` is empty.
    chunk : callable, optional
        ``chunk(S, w, K, teacher, eta, noise, C, i, m)`` fills chunk i of m of C. From 40 students on, C is then filled
        by as many threads as numba may use (``NUMBA_NUM_THREADS``), and the integrator runs in Python.
    simd : callable, optional
        The closure of SIMD_WIDTH states at once, with students and teachers of this function (see ``_simd`` for the
        arguments): batches of small networks then use vector instructions.

    Raises
    ------
    ValueError
        Something that cannot be called, or unknown codes.

    Notes
    -----
    As exact as the functions given here, of which only the types are checked.

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.relu.closed_forms.teachers, ov.relu.closed_forms.differences is None, ov.tanh.closed_forms is None
    ((0, 1, 2, 3), True, True)
    """

    closure: Callable[..., Any]
    teachers: tuple = ()
    derivatives: Callable[..., Any] | None = None
    differences: Callable[..., Any] | None = None
    workspace: Callable[..., Any] | None = None
    chunk: Callable[..., Any] | None = None
    simd: Callable[..., Any] | None = None

    def __post_init__(self):
        for role in ("closure", "derivatives", "differences", "workspace", "chunk", "simd"):
            value = getattr(self, role)
            if not callable(value) and (value is not None or role == "closure"):
                raise check.refused(role, value, "a function that fills arrays.")
        if not isinstance(self.teachers, tuple) or any(code not in CODES for code in self.teachers):
            raise check.refused("teachers", self.teachers, f"a tuple of codes out of {tuple(CODES)}.")


KERNELS = {
    CODES.linear: Kernels(linear_closure, tuple(CODES), linear_derivatives, linear_differences, simd=linear_simd),
    CODES.quadratic: Kernels(
        quadratic_closure, tuple(CODES), quadratic_derivatives, quadratic_differences, simd=quadratic_simd
    ),
    CODES.relu: Kernels(relu_closure, CODES[:-1], relu_derivatives),
    CODES.erf: Kernels(
        erf_closure, tuple(CODES), erf_derivatives, erf_differences, erf_workspace, erf_C_chunk, erf_simd
    ),
}
