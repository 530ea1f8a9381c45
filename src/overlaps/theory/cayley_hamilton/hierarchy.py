"""Solutions of the hierarchy of order parameters: the flow of the library with moments in place of blocks.

Multiplication by s is a matrix H in place of diag(s).  With x^(j) = sum_l phi_j(s_l) x^l for the plain overlaps
x = q, r, t and for x = p, and s phi_j = sum_i H_ji phi_i,

    dx^(j) = sum_i H_ji u(x)^(i) - decay,    u_r = A r + B t,    u_q = A q + q A^T + B r^T + r B^T + p C

where u is the flow of ``overlaps.flow`` at s = 1.  Moments are packed as blocks are there.

[WR] is Worschech and Rosenow (2024), arXiv:2410.09005.
"""

from dataclasses import fields, replace
from typing import Any

import numpy as np

from ..._base import ArrayLike, Floats, Function, PathLike, check, warn
from ...flow import flow
from ...flow.system import System, blocks_last
from ...integrators.evolve import evolve
from ...integrators.methods import check_options, solver_class
from ...integrators.solver import traits_of
from ...models import Model, State, isotropic
from ...models.features import check_features
from ...results.trajectory import Solved, Trajectory
from .bases import Moments, PolynomialBasis, polynomial_basis

__all__ = ["MomentTrajectory", "solve"]

# Default of ``limit``: up to this many eigenvalues powers of s give six digits of eps_g, for beta <= 1.5. With 12
# eigenvalues no digit is left.
MAX_EIGENVALUES = 8


class MomentSystem(System):
    """The flow in moments, for ``integrate``: packed like a System, with moments in place of blocks."""

    kernel = None  # compiled steps implement the flow in blocks only
    polynomial = False  # moments are no blocks with tolerances of their own

    def __init__(self, model, start, basis):
        super().__init__(model, start)
        self.basis = basis
        self.t = np.ascontiguousarray(basis.moments(start).t)
        self.source = blocks_last(self.t)
        # Q and R = sum_i H_0i (q, r)^(i) are the one block of a system with isotropic inputs, which has the closure
        isotropic_model = replace(model, spectrum=isotropic())
        one_block = State.from_overlaps(isotropic_model, Q=start.Q, R=start.R, T=start.T, v=start.v)
        self.fields = System(isotropic_model, one_block)
        self.closure = self.fields.closure
        self.S, self.A, self.B = self.fields.S, self.fields.A, self.fields.B
        self.C, self.dv = self.fields.C, self.fields.dv
        self.ones, of_r = np.ones(model.spectrum.L), np.arange(self.packing.entries)[:, None] < model.K * model.M
        self.decays = np.where(of_r, self.decay + model.drift, 2 * self.decay)

    def pack(self, state):
        """State -> y."""
        return super().pack(self.basis.moments(state))

    def state(self, y, alpha=0.0):
        """Y -> State at time alpha."""
        q, r, v = self.unpack(y)
        return replace(self.basis.state(Moments(q, r, self.t, self.start.T, v)), alpha=alpha)

    def moments(self, y):
        """View (entries, L) of the moments in y, in front of the second layer."""
        return y[: self.packing.entries * self.shape[0]].reshape(-1, self.shape[0])

    def block(self, y):
        """Q and R, packed like one block, and the second layer."""
        moments = self.moments(y)
        return np.append(moments @ self.basis.multiplication[0], y[moments.size :])

    def close(self, y):
        """Evaluate the closure at y into the work arrays; return eps_g."""
        return self.fields.close(self.block(y))

    def change_of_eps_g(self, dy):
        """First-order change of eps_g by a change dy of the packed moments, at the last evaluation."""
        return self.fields.change_of_eps_g(self.block(dy))

    def rhs(self, _, y):
        """dy/dalpha; the flow is autonomous."""
        y = np.ascontiguousarray(y)  # finite differences of SciPy pass columns
        self.eps_g = self.close(y)
        dy = np.empty_like(y)
        flow(
            y, self.ones, self.basis.p, self.source, self.A, self.B, self.C, self.dv,
            0.0, self.decay_v, self.second_order, self.model.trains_v, dy, 0.0,
        )  # fmt: skip
        self.moments(dy)[:] = self.moments(dy) @ self.basis.multiplication.T - self.decays * self.moments(y)
        return dy


class MomentTrajectory(Solved, kw_only=True):
    """Solution of the hierarchy, made by :func:`solve`; compares with :class:`overlaps.results.Trajectory`.

    Attributes
    ----------
    model : Model
        The learning problem.
    alpha : ndarray, shape (n,)
        Learning times, steps / N.
    Q, R, v, eps_g : ndarray, shape (n, K, K), (n, K, M), (n, K), (n,)
        Order parameters and generalisation error.
    q, r : ndarray, shape (n, L, K, K), (n, L, K, M)
        Moments of the plain overlaps in ``basis``: Q^(j) and R^(j), j < L, for "monomial".
    t, T : ndarray, shape (L, M, M), (M, M)
        Moments of the teachers, constant, and the covariance of their fields.
    basis : PolynomialBasis
        The basis of the moments.
    success, message, nfev, method, rtol, atol
        As in :class:`overlaps.results.Trajectory`.
    """

    q: np.ndarray
    r: np.ndarray
    t: np.ndarray
    basis: PolynomialBasis

    @property
    def Q(self) -> Floats:
        """Covariance of the student fields, sum_i H_0i q^(i) (n, K, K)."""
        return np.einsum("j,...jab->...ab", self.basis.multiplication[0], self.q)

    @property
    def R(self) -> Floats:
        """Covariance of student and teacher fields, sum_i H_0i r^(i) (n, K, M)."""
        return np.einsum("j,...jab->...ab", self.basis.multiplication[0], self.r)

    def __getitem__(self, i: int) -> State:
        """State at record ``i``, in the spectral basis, with log10(basis.condition) digits less."""
        i = check.index("i", i, len(self))
        return replace(self.basis.state(Moments(self.q[i], self.r[i], self.t, self.T, self.v[i])), alpha=self.alpha[i])

    def spectral(self) -> Trajectory:
        """Trajectory in the spectral basis: block overlaps, with log10(basis.condition) digits less."""
        states = [self[i] for i in range(len(self))]
        q, r = (np.array([getattr(state, name) for state in states]) for name in ("q", "r"))
        common = {f.name: getattr(self, f.name) for f in fields(Solved) if f.init}
        return Trajectory(q=q, r=r, tau=states[0].tau, **common)

    def save(self, path: PathLike) -> None:
        """Write :meth:`spectral` to the file ``path`` (``.npz``); :func:`overlaps.load` reads it."""
        self.spectral().save(path)

    def to_xarray(self) -> Any:
        """Label the arrays of :meth:`spectral`."""
        return self.spectral().to_xarray()

    def __repr__(self):
        return super().__repr__().replace("(", f"({self.basis.name}, ", 1)


def solve(
    model: Model,
    start: State,
    alpha: ArrayLike,
    *,
    basis: str = "orthonormal",
    limit: int = MAX_EIGENVALUES,
    method: str | type = "DOP853",
    rtol: float = 1e-8,
    atol: float | None = None,
    stop: float | Function | None = None,
    **options: Any,
) -> "MomentTrajectory":
    r"""Integrate the hierarchy of moments instead of the block overlaps.

    .. math::
        dr^{(j)}/d\alpha &= \sum_i H_{ji}\,(A r^{(i)} + B t^{(i)}) \\
        dq^{(j)}/d\alpha &= \sum_i H_{ji}\,(A q^{(i)} + q^{(i)} A^T + B r^{(i)T} + r^{(i)} B^T + p^{(i)} C)

    with the closure A, B, C of :func:`overlaps.closure`. For monomials, :math:`H x` is :math:`x^{(1)}, \ldots,
    x^{(L-1)}, -\sum_j c_j x^{(j)}`: the printed equations and their closure. Exact for N -> infinity: equal to
    :func:`overlaps.solve` up to rounding. Rounding is multiplied by the condition of the basis and by the growth on a
    plateau. With powers, at rtol 1e-12 (K = M = 2, eta = 0.5, alpha <= 200), eps_g is wrong by about 1e-8 at L = 8,
    1e-5 at L = 10 and 0.1 at L = 12 for beta = 1 (rounding has no law: within a factor of ten), while the orthonormal
    basis agrees with the spectral one to 1e-10 at L = 14, and to 1e-9 at L = 64. Source: [WR], Eq. (4) and below. A
    failing integration returns the times that were reached, with ``success=False``.

    Parameters
    ----------
    model, start, alpha, stop
        As in :func:`overlaps.solve`; the teacher acts on x.
    basis : str
        "orthonormal", "monomial" or "scaled"; see :func:`polynomial_basis`.
    limit : int
        Number of eigenvalues above which the two bases of powers are refused. A larger limit shows their errors.
    method : str or OdeSolver class
        Any name known to :func:`scipy.integrate.solve_ivp`, or a subclass of :class:`scipy.integrate.OdeSolver`.
    rtol, atol : float
        Tolerances on the moments; atol is min(1e-12, 1e-4 rtol) by default.
    **options
        Passed to the SciPy solver.

    Raises
    ------
    ValueError
        Powers with L > limit; equal eigenvalues; a teacher that does not act on x; an integrator that needs the
        spectral basis; and as :func:`overlaps.solve`.

    Warns
    -----
    RuntimeWarning
        Once, with the message, when the integration did not succeed.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> from overlaps.theory import cayley_hamilton
    >>> model = ov.committee_machine(2, 2, eta=0.5, spectrum=ov.power_law(beta=1.0, L=4))
    >>> start = model.random_start(N=400, rng=1)
    >>> paper = cayley_hamilton.solve(model, start, [0, 10], basis="monomial")
    >>> bool(np.allclose(paper.Q, ov.solve(model, start, [0, 10]).Q, rtol=0, atol=1e-7))
    True
    >>> paper.q.shape  # Q^(0), ..., Q^(3)
    (2, 4, 2, 2)
    """
    check_features("theory.cayley_hamilton.solve", model)
    start = check.state(start).on(model)
    L, limit, solver = model.spectrum.L, check.count("limit", limit), solver_class(method)
    rounding = (
        "Rounding hides the small eigenvalues in moments of powers of s (a Vandermonde matrix). Use "
        "basis='orthonormal', or the spectral basis, overlaps.solve."
    )
    if check.choice("basis", basis, ("monomial", "scaled", "orthonormal")) != "orthonormal" and L > limit:
        raise ValueError(
            f"basis = {check.shown(basis)} with L = {L} eigenvalues; expected L <= {limit}, where float64 suffices. "
            f"{rounding} limit={L} runs it all the same."
        )
    polynomials = polynomial_basis(model.spectrum, basis)
    if traits_of(solver).by_blocks:
        raise ValueError(
            f"method = {check.shown(method)} uses the structure of the spectral basis; expected a solver of "
            "scipy.integrate (DOP853; BDF or Radau for stiff problems). Or use overlaps.solve."
        )
    check_options(solver, options)
    controls = {"method": solver, "rtol": rtol, "atol": atol, "stop": stop, "late": False}
    system = MomentSystem(model, start, polynomials)
    solution = evolve(model, start, alpha, system, progress=False, **controls, **options)
    if not solution.success:
        if basis != "orthonormal":
            solution.message += f" {rounding}"
        warn(solution.message + check.see("power_law", "The hierarchy of moments"))
    common = {name: x for name, x in vars(solution).items() if name in MomentTrajectory.__dataclass_fields__}
    return MomentTrajectory(basis=polynomials, t=system.t, **common)
