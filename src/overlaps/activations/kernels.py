"""The registry of closed forms: what a student activation brings, and what the library's bring, by code.

A new activation enters here, or from outside of the package through :class:`overlaps.Activation`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .._base import check
from ..gaussian.two_point import CODES
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

__all__ = ["KERNELS", "Kernels"]

TABLE = LINEAR, QUADRATIC, RELU, ERF, SIGN = tuple(CODES.tolist())  # plain integers, as users see them


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
        ``closure(S, w, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv)`` fills A (K, K), B (K, M), dv (K,)
        and, if ``second_order``, C (K, K); it returns eps_g.  ``teacher`` is the code of the teacher's activation, -1
        for the student's own where that has none.
    teachers : tuple of int
        Codes of the library's activations that ``closure`` takes as teachers, beside the student's own: 0 linear,
        1 quadratic, 2 relu, 3 erf, 4 sign.  All others are left to quadrature.
    derivatives : callable, optional
        ``derivatives(S, w, K, teacher, eta, eta_v, noise, second_order, dA, dB, dC, ddv)`` fills the derivatives
        (d, K, K), (d, K, M), (d, K, K), (d, K) along Q_ij, i <= j, then R_km, then v_k.  Without
        it they are taken by differences.
    differences : callable, optional
        ``differences(Z, v, x, t, weight, eta, second_order, A, G, C)``, the closure of an odd function in the
        differences of students and teachers (:mod:`overlaps.flow.differences`), for ``solve(..., late=True)``.
    room : callable, optional
        ``room(n)``, numbers of workspace that compiled integrators then keep behind ``w`` (n,) for the ``closure`` of n
        fields. From Python it gets ``w`` alone: a closure that needs room takes it from there, or makes its own.
    lanes : callable, optional
        The closure of many states side by side, of students and teachers of this function (``_lanes`` has its
        arguments): batches of small networks are stepped in vector registers.
    share : callable, optional
        ``share(S, w, K, teacher, eta, noise, C, i, m)`` fills part i of m of C. From 40 students on, C is then filled
        by as many threads as numba may use (``NUMBA_NUM_THREADS``), and steps are made from Python.

    Raises
    ------
    ValueError
        Something that cannot be called, or unknown codes.

    Notes
    -----
    As exact as what is brought; nothing is checked but its shape.

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
        if not isinstance(self.teachers, tuple) or any(code not in TABLE for code in self.teachers):
            raise check.refused("teachers", self.teachers, f"a tuple of codes out of {TABLE}.")


KERNELS = {
    LINEAR: Kernels(linear_closure, TABLE, linear_derivatives, linear_differences, simd=linear_simd),
    QUADRATIC: Kernels(quadratic_closure, TABLE, quadratic_derivatives, quadratic_differences, simd=quadratic_simd),
    RELU: Kernels(relu_closure, TABLE[:-1], relu_derivatives),
    ERF: Kernels(erf_closure, TABLE, erf_derivatives, erf_differences, erf_workspace, erf_C_chunk, erf_simd),
}
