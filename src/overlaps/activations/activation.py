"""Activations: a function, its derivatives, and the method for its Gaussian integrals."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from .._base import ArrayLike, Function, Numbers, check
from ..gaussian.tables import polynomial_table, tabulate
from ..gaussian.two_point import NUMERIC
from .kernels import CODES, KERNELS, Kernels
from .polynomials import Polynomial
from .sums import ScaledSum


@dataclass(frozen=True)
class Activation:
    r"""A scalar function g with its derivatives, and how its Gaussian integrals are computed.

    .. math:: E[g(a)h(b)], \quad E[g'(a)h'(b)], \quad E[g''(a)h(b)], \quad E[g'(a)g'(b)h(c)k(d)]

    Parameters
    ----------
    name : str
        Short name, shown in reprs and stored in files.
    g, dg : callable
        Vectorised g(x) and g'(x).
    d2g : callable, optional
        Vectorised g''(x), where it exists as a function.
    code : int
        Code of the closed-form integrals inside the kernels; -1 means that integrals are computed numerically.
    mixture : ScaledSum, optional
        g as a sum of scaled closed-form functions, whose integrals are then used for everything.
    second_order : {"auto", "tensor", "pairs", "mixture", "sobol"}
        Method for the matrix C of a numeric activation, see :meth:`from_function`.
    tolerance : float
        Largest accepted error of C, relative to its largest entry.
    kinks : tuple of float
        Points where g' jumps.
    kernels : Kernels, optional
        Closed forms of a function of the user; by default the forms of ``code``.

    Raises
    ------
    ValueError
        A name that is no string, functions that are not callable, an unknown code or method, kinks that are no numbers.

    Notes
    -----
    Exact for the codes of the kernels (erf, relu, linear, quadratic), their finite mixtures and polynomials, in every
    pair of student and teacher; numerical otherwise. Users call :meth:`from_function`, which checks the functions too.

    References
    ----------
    Saad and Solla (1995), Phys. Rev. E 52, 4225 (erf); the other closed forms are derived where the kernels are.

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.erf, float(ov.quadratic(3.0)), float(ov.quadratic.dg(3.0))
    (erf, 9.0, 6.0)
    """

    name: str
    g: Callable[..., Any]
    dg: Callable[..., Any]
    d2g: Callable[..., Any] | None = None
    code: int = NUMERIC
    mixture: ScaledSum | None = None
    second_order: str = "auto"
    tolerance: float = 1e-2
    kinks: tuple[float, ...] = ()
    kernels: Kernels | None = None

    learning: ClassVar[Any] = None  # the ``Rule`` for which a placeholder stands; None for activations

    def __post_init__(self):
        if not isinstance(self.name, str):
            raise check.refused("name", self.name, "a string, shown in reprs and stored in files.")
        for role in ("g", "dg"):
            if not callable(getattr(self, role)) and self.mixture is None:
                raise check.refused(role, getattr(self, role), "a function of one array.")
        known = (NUMERIC, CODES.erf, CODES.relu, CODES.linear, CODES.quadratic, CODES.sign)
        if check.axes("code", self.code) or self.code not in known:
            raise check.refused("code", self.code, f"one of {known}. Try -1: numerical integrals.")
        check.choice("second_order", self.second_order, ("auto", "tensor", "pairs", "mixture", "sobol"))
        check.number("tolerance", self.tolerance, above=0, hint="0.01 by default.")
        kinks = check.array("kinks", self.kinks, ("n",), "Try (0.0,) for a kink at the origin, () for none.")
        object.__setattr__(self, "kinks", tuple(kinks.tolist()))
        if not isinstance(self.kernels, Kernels | None):
            raise check.refused("kernels", self.kernels, "a Kernels instance, or None.")

    def __repr__(self):
        return self.name

    def __call__(self, x: ArrayLike) -> Numbers:
        """g(x)."""
        return self.g(x if isinstance(x, float) else check.floats("x", x))

    @property
    def closed_forms(self) -> Any:
        """The :class:`Kernels` of a student with this activation: its own or the library's; None if there are none."""
        return self.kernels or KERNELS.get(self.code)

    @property
    def closed_sum(self) -> Any:
        """The ``ScaledSum`` of closed-form functions that the activation is by construction, or None."""
        return ScaledSum(self.code) if self.code != NUMERIC else self.mixture

    @cached_property
    def table(self):
        """Table of g, g' and, if given, g'' for the kernels; computed once."""
        if isinstance(self.g, Polynomial):
            return polynomial_table(self.g.coefficients)
        return tabulate((self.g, self.dg) if self.d2g is None else (self.g, self.dg, self.d2g), self.name)

    @property
    def compiled(self) -> Any:
        """Argument of the kernels of simulators: the code, or the array of the table."""
        return self.table.data if self.code == NUMERIC else self.code

    def __getstate__(self):
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_function(
        cls,
        g: Function,
        dg: Function,
        d2g: Function | None = None,
        *,
        name: str | None = None,
        second_order: Literal["auto", "tensor", "pairs", "mixture", "sobol"] = "auto",
        tolerance: float = 1e-2,
        kernels: Any = None,
    ) -> "Activation":
        r"""Activation from any smooth function, whose Gaussian integrals are numerical or given by ``kernels``.

        Parameters
        ----------
        g, dg : callable
            Vectorised g(x) and g'(x): arrays in, arrays of the same shape out.
        d2g : callable, optional
            Vectorised g''(x).  Without it Stein's lemma is used,
            :math:`E[g''(a) h(b)] = (E[a g'(a) h(b)] - S_{ab} E[g'(a) h'(b)]) / S_{aa}`.
        name : str, optional
            Name in reprs and files; the function's own by default.
        second_order : {"auto", "tensor", "pairs", "mixture", "sobol"}
            Method for the four-point integrals of C.  "tensor": all fields at once, K + M <= 4.  "pairs": two fields by
            quadrature and the others in Hermite modes.  "mixture": odd sigmoids as sums of four error functions, with
            errors of about 1e-5.  "sobol": 4 x 2^13 scrambled Sobol points, about 1e-3.  "auto" chooses "tensor" for
            K + M <= 3, "mixture" for odd sigmoids with K + M > 4, "sobol" where the student or the teacher is piecewise
            linear, and "pairs" otherwise.
        tolerance : float
            Refuse C when its estimated error exceeds this fraction of its largest entry.  The default, 0.01, accepts a
            C that is far less accurate than ``rtol`` of :func:`solve`: 7e-3 for tanh with K + M = 3 at field variances
            of 10.  ``tolerance=1e-6`` is reached at variances of order one.
        kernels : Kernels, optional
            Closed forms for students with this activation and the teachers in ``kernels.teachers``; see the page on
            extending.

        Returns
        -------
        Activation

        Raises
        ------
        ValueError
            Functions that are not vectorised, not real, not finite on [-9, 9], or not the derivatives of one another.

        Notes
        -----
        Two-point integrals (A, B, dv, eps_g) are accurate to 1e-8, or refused: with a kink or large variances (above 60
        for tanh) the midpoint rule does not converge.  Functions with kinks can be simulated but not integrated.
        Piecewise-linear functions have closed forms: :data:`relu`, :func:`leaky_relu`, :data:`absolute`.

        Examples
        --------
        >>> import numpy as np, overlaps as ov
        >>> def softplus(x):
        ...     return np.logaddexp(0.0, x)
        >>> def sigmoid(x):
        ...     return 1 / (1 + np.exp(-x))
        >>> ov.Activation.from_function(softplus, sigmoid)
        softplus
        """
        for role, function in (("g", g), ("dg", dg), ("d2g", d2g)):
            if role != "d2g" or function is not None:
                check_vectorised(role, function)
        _check_derivative("dg", "g", g, dg)
        if d2g is not None:
            _check_derivative("d2g", "dg", dg, d2g)
        name = getattr(g, "__name__", "function") if name is None else name
        return cls(name, g, dg, d2g, second_order=second_order, tolerance=tolerance, kernels=kernels)


def check_vectorised(role, function):
    """Refuse a function that does not map an array of floats to one of the same shape, entry by entry."""
    if not callable(function):
        raise check.refused(role, function, "a function of one array. Pass the function itself.")
    x = np.linspace(-9.0, 9.0, 1200).reshape(3, 400)
    try:
        values = np.asarray(function(x))
        values = values if np.iscomplexobj(values) else values.astype(float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{role} fails on an array of shape (3, 400): {error}. "
            f"Expected a vectorised function; try np.vectorize({role})."
        ) from error
    if np.iscomplexobj(values):
        raise ValueError(
            f"{role} has complex values, such as {values.flat[0]:.3g}; expected real ones. "
            f"Try lambda x: np.real({role}(x)), if the real part is meant."
        )
    if values.shape != x.shape:
        raise ValueError(
            f"{role} turns shape (3, 400) into {values.shape}; expected the same shape. "
            f"A constant derivative is np.full_like(x, c, dtype=float)."
        )
    if not np.all(np.isfinite(values)):
        where = x[~np.isfinite(values)][0]
        raise ValueError(f"{role} is not finite at x = {where:.6g}; expected finite values on [-9, 9].")


def _check_derivative(role, of, function, derivative):
    """Compare increments of the function with Simpson's rule for its derivative, cell by cell.

    A wrong derivative deviates in nearly all cells and is refused.  A kink deviates in one cell, by less than the cell
    width times the jump of the slope, and is accepted.  A jump of the function deviates by more and is refused.
    """
    x = np.linspace(-9.0, 9.0, 1201)
    width = x[1] - x[0]
    slopes = np.stack([derivative(x[:-1]), derivative(x[:-1] + 0.5 * width), derivative(x[1:])])
    gap = np.abs(np.diff(function(x)) - width / 6 * (slopes[0] + 4 * slopes[1] + slopes[2]))
    size = np.max(np.abs(slopes), axis=0)
    scale = size + 1e-3 * np.max(size) + 1e-12 * np.max(np.abs(function(x)))
    wrong = gap > 1e-5 * width * scale
    jump = gap > 1.01 * width * np.ptp(slopes, axis=0) + 1e-5 * width * scale
    if np.mean(wrong) > 0.02 or np.any(jump):
        worst = np.argmax(np.where(jump, gap, 0.0) if np.any(jump) else gap / scale)
        slope = np.diff(function(x[worst : worst + 2]))[0] / width
        reason = f"{of} jumps there" if np.mean(wrong) <= 0.02 else f"{role} is not its derivative"
        raise ValueError(
            f"{role}({x[worst]:.4g}) = {slopes[0, worst]:.6g}, but {of} rises at the rate {slope:.6g}: {reason}. "
            f"Expected {role} = d{of}/dx of a continuous {of}. Correct {role}"
            f"{'' if role == 'dg' else ' or leave it out; piecewise linear are ov.relu, ov.leaky_relu, ov.absolute'}."
        )
