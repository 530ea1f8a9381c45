"""The flow linearised around a state: rates, modes, stability."""

from typing import Any, ClassVar, NamedTuple

import numpy as np

from .._base import Floats, Immutable, by_name, check
from ..flow.closure import check_domain
from ..flow.jacobian import jacobian_of
from ..flow.system import System
from ..models import Model, State
from ..models.features import check_features
from ..models.state import of_state
from .kinked import Differences, learned


class EigenvalueOptions(NamedTuple):
    """Tunable numbers of the computation of eigenvalues."""

    # Largest number of order parameters for dense linear algebra, which takes seconds there; its time grows as the
    # cube. Above, the Arnoldi method finds the leading eigenvalues.
    max_dense: int = 3000
    arnoldi_count: int = 6  # Default number of eigenvalues of the Arnoldi method.
    arnoldi_restarts: int = 10  # Restarts of the Arnoldi method; fewer: fewer eigenvalues converge.
    # Eigenvalues below this fraction of the Jacobian count as zero: rounding gives flat directions either sign.
    zero_tol: float = 1e-9


EIGENVALUES = EigenvalueOptions()


def bound(model, state, name="state", who="linearise"):
    """(System, packed y) of a checked state, for the function ``who``."""
    check_features(who, model)
    check.state(state, name, "State.from_overlaps(model, Q=, R=, T=) or traj[-1]")
    state = state.on(model)
    check_domain(model, model.field_covariance(state), state.v)
    system = System(model, state)
    return system, system.pack(state)


def check_dense(n):
    """Refuse more order parameters than dense linear algebra can treat."""
    if n > EIGENVALUES.max_dense:
        raise ValueError(
            f"the state has {n} order parameters; expected at most {EIGENVALUES.max_dense} for dense linear algebra. "
            "Merge blocks of the spectrum, or follow the trajectory with ov.solve."
        )


class Linearisation(Immutable):
    """Eigenvalues and modes of the flow at a state; made by :func:`linearise`, with the equations there.

    Attributes
    ----------
    model, state : Model, State
        The model that was linearised, and the state there.
    eigenvalues : ndarray, shape (n,)
        By real part, largest first; real if all are. Units of 1/alpha.
    dq, dr, dv : ndarray, shape (n, L, K, K), (n, L, K, M), (n, K)
        Right eigenvectors, in the arrays of :class:`overlaps.State`; of inputs in classes also dm, shape (n, L, K, C).
    residual : float
        Largest ``|dy/dalpha|`` at the state: zero at a fixed point.
    floor : float
        Real parts below it count as zero.
    dimension : int
        Number of order parameters, hence of eigenvalues.
    message : str
        For kinked units at perfect learning: the eigenvalues are of second order. Empty otherwise.
    """

    model: Model
    state: State
    eigenvalues: np.ndarray
    dq: np.ndarray
    dr: np.ndarray
    dv: np.ndarray
    residual: float
    floor: float
    dimension: int
    dm: np.ndarray | None = None
    message: str = ""

    @property
    def rate(self) -> float:
        """Largest real part: the escape rate of a plateau, or minus the slowest decay rate of an attractor."""
        return float(self.eigenvalues[0].real)

    @property
    def unstable(self) -> int:
        """Number of growing modes (among those computed)."""
        return int(np.sum(self.eigenvalues.real > self.floor))

    @property
    def dQ(self) -> Floats:
        """Modes in Q, sum_l s_l dq^l (n, K, K)."""
        return np.tensordot(self.dq, self.state.s, axes=(1, 0))

    @property
    def dR(self) -> Floats:
        """Modes in R, sum_l dr^l (n, K, M)."""
        return self.dr.sum(axis=1)

    shows: ClassVar[str] = "{0.unstable} growing modes of {0.dimension}, rate={0.rate:.6g}, residual={0.residual:.1e}"


@of_state
@by_name("ov.linearise(state)")
def linearise(model: Model, state: State, *, count: int | None = None) -> "Linearisation":
    r"""Linearise the flow of the order parameters at a state: rates, modes, stability.

    .. math:: y = (r^l, q^l, v), \qquad \frac{d\,\delta y}{d\alpha} = J\,\delta y, \qquad J = D + F G

    D acts inside the blocks (closure frozen); F G, of rank at most K(K+1)/2 + KM + K, is the response of the closure.
    Exact for erf, linear, quadratic and relu students (analytic derivatives of the closure). Other activations are
    differenced: about 1e-9 for those in closed form (``ov.tanh``, ``ov.polynomial``), otherwise limited by their
    quadrature, 1e-6 for A and B, and to 1e-4 where the Arnoldi method is used.

    Students with a kink (relu, leaky relu, ``|x|``) that have learned all teachers have no Jacobian: their distance d
    from the teachers is a square root of overlaps. To leading order the overlaps d d^T/N outside the teachers' span
    obey a linear flow; its eigenvalues and modes (``dq``, with ``dr`` = 0) are returned, with a ``message``.

    A growing mode need not be reachable from a given start: equal students, for instance, stay equal. Directions that
    the flow conserves have eigenvalue zero.

    Source: Biehl, Riegler and Wöhler (1996), J. Phys. A 29, 4769 (escape from plateaus); Worschech and Rosenow (2024),
    arXiv:2410.09005 (escape rates for power-law spectra).

    Parameters
    ----------
    model : Model
        The learning problem; that of the state by default, ``linearise(state)``.
    state : State
        Where; a fixed point (:func:`fixed_point`) if the eigenvalues are to mean stability.
    count : int, optional
        Number of eigenvalues, largest real part first. All by default; 6 where there are more than 3000 of them. Then
        the Arnoldi method finds them, at O(L) per step. It finds fewer than ``count`` where eigenvalues are close to
        each other (slow blocks, zero modes); the growing modes of a plateau are isolated and are found.

    Returns
    -------
    Linearisation
        ``eigenvalues``, modes ``dq``, ``dr``, ``dv``; ``rate``, ``unstable``, ``residual``.

    Raises
    ------
    ValueError
        Bad input; a closure that has no derivative at this state: aligned relu units (students equal to each other, or
        some of them to a teacher), user functions whose finite differences do not converge.
    RuntimeError
        The Arnoldi method did not converge.

    Examples
    --------
    Noise-free perfect learning of one linear unit: eps_g decays at the rate eta (2 - eta).

    >>> import overlaps as ov
    >>> model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5)
    >>> solution = ov.State.from_overlaps(model, Q=[[1.0]], R=[[1.0]], T=[[1.0]])
    >>> ov.linearise(solution).eigenvalues
    array([-0.5 , -0.75])
    """
    system, y = bound(model, state)
    if learned(model, system.start):
        return _of_differences(system, y, count)
    n = y.size
    if count is None:
        count = n if n <= EIGENVALUES.max_dense else EIGENVALUES.arnoldi_count
    count = check.count("count", count)
    if count > n:
        raise ValueError(f"count = {count}; the state has {n} order parameters, expected count <= {n}.")
    derivative = jacobian_of(system, y)
    if n <= EIGENVALUES.max_dense or count > n - 2:
        values, vectors = np.linalg.eig(derivative.dense())
    else:
        values, vectors = _leading(system, y, derivative, count)
    first = np.lexsort((-values.imag, -values.real))[:count]
    values, vectors = values[first], vectors.T[first]
    if not np.any(values.imag):
        values, vectors = values.real, vectors.real
    residual, floor = float(np.max(np.abs(system.rhs(0.0, y)))), float(EIGENVALUES.zero_tol * derivative.scale)
    dq, rows, dv = _matrices(system, vectors)
    named: dict[str, Any] = {f"d{name}": x for name, x in model.split_rows(rows).items()}
    return Linearisation(model, system.start, values, dq, dv=dv, residual=residual, floor=floor, dimension=n, **named)


def _of_differences(system, y, count):
    """Linearisation for kinked units at perfect learning: the flow of the overlaps of their differences."""
    model, start = system.model, system.start
    values, dq = Differences(model, start).modes(model.eta)
    n = values.size
    count = n if count is None else check.count("count", count)
    if count > n:
        raise ValueError(f"count = {count}; the differences have {n} overlaps, expected count <= {n}.")
    residual, floor = float(np.max(np.abs(system.rhs(0.0, y)))), float(EIGENVALUES.zero_tol * np.max(np.abs(values)))
    dr, dv = np.zeros((count, *start.r.shape)), np.zeros((count, model.K))
    message = "perfect learning of units with a kink: the modes are overlaps of differences, of second order in them"
    return Linearisation(model, start, values[:count], dq[:count], dr, dv, residual, floor, n, message=message)


def growing_rates(model, state, least):
    """Growth rates above ``least`` times the fastest; one nan where kinked students are aligned with another unit."""
    try:
        modes = linearise(model, state)
    except ValueError:
        return np.array([np.nan])
    if modes.message:  # at perfect learning of kinked units the modes belong to differences, not to overlaps
        return np.array([np.nan])
    values = modes.eigenvalues
    return np.array(values.real[values.real > least * np.max(np.abs(values))])


def _matrices(system, vectors):
    """Packed eigenvectors (n, size) as arrays dq, dr, dv."""
    real_and_imaginary = [system.unpack(x) for x in (vectors.real, vectors.imag)]
    dq, dr, dv = (x + 1j * y if np.iscomplexobj(vectors) else x for x, y in zip(*real_and_imaginary, strict=True))
    return dq, dr, dv if system.model.trains_v else np.zeros_like(dv)


def _leading(system, y, derivative, count):
    """The leading eigenvalues and vectors that converge: ``count`` of them, or fewer.

    A few products find the right end of the spectrum. Shift-invert with sigma just beyond it then separates eigenvalues
    that are close to each other on the scale of the fastest rate.
    """
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs  # a slow import, which few need

    n, product = y.size, derivative.operator()
    v0 = np.random.default_rng(0).standard_normal(n)  # a fixed seed: reproducible results
    try:
        edge = eigs(product, k=1, which="LR", ncv=20, tol=1e-3, maxiter=100, v0=v0, return_eigenvectors=False)[0].real
    except ArpackNoConvergence:
        edge = 0.0  # no isolated eigenvalue on the right: many slow modes near zero
    sigma = max(1.05 * edge, EIGENVALUES.zero_tol * derivative.scale)
    factorised = derivative.factorised(1 / sigma)

    def inverse(b):
        return factorised.solve(np.ascontiguousarray(b.ravel(), float)) / -sigma

    restarts, operator = EIGENVALUES.arnoldi_restarts, LinearOperator((n, n), matvec=inverse, dtype=float)
    options = dict(sigma=sigma, OPinv=operator, maxiter=restarts, v0=v0)
    try:
        return eigs(product, k=count, ncv=min(n - 1, max(4 * count, 40)), **options)
    except ArpackNoConvergence as failure:
        if failure.eigenvalues.size:
            return failure.eigenvalues, failure.eigenvectors
        raise RuntimeError(
            f"no eigenvalue of {n} converged in {restarts} restarts of the Arnoldi method: expected isolated leading "
            f"ones. Merge blocks of the spectrum to stay below {EIGENVALUES.max_dense} order parameters."
        ) from failure
