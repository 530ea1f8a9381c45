"""Fixed points of the order-parameter equations, and the flow linearised around them."""

import warnings
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import lstsq
from scipy.optimize import brentq
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs

from .._base import check
from .._base.record import Record
from ..activations.closure import check_domain
from ..flow.jacobian import Jacobian, jacobian
from ..flow.system import System
from ..models.model import Model
from ..models.state import State

__all__ = ["FixedPoint", "Linearisation", "critical_eta", "fixed_point", "linearise"]

DENSE = 3000  # dimension up to which all eigenvalues are computed
LEADING = 6  # eigenvalues looked for beyond
RESTARTS = 10  # of the Arnoldi method
FACTOR = 1.25  # between successive learning rates tried
FOLLOW = 0.5  # largest change of a fixed point from one learning rate to the next, relative
END = 1e-9  # step in log(eta) at which a fixed point that cannot be followed has ended
ZERO = 1e-9  # modulus of an eigenvalue, relative to the Jacobian, that counts as zero
SAME = 1e-12  # relative difference below which students are equal
FLOOR = 1e-14  # velocity, relative to its terms, that is rounding


def _bound(model, state):
    """(System, packed y) of a checked state."""
    check.model(model)
    check.state(state, "state", "State.from_overlaps(model, Q=, R=, T=) or traj[-1]")
    state = state.on(model)
    check_domain(model, state.S, state.v)
    system = System(model, state)
    return system, system.pack(state)


# linear stability -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Linearisation(Record):
    """Eigenvalues and modes of the flow at a state; made by :func:`linearise`, with the equations there.

    Attributes
    ----------
    model, state : Model, State
        What was linearised, and where.
    eigenvalues : ndarray, shape (n,)
        By real part, largest first; real if all are. Units of 1/alpha.
    dq, dr, dv : ndarray, shape (n, L, K, K), (n, L, K, M), (n, K)
        Right eigenvectors, in the arrays of :class:`State`.
    residual : float
        Largest ``|dy/dalpha|`` at the state: zero at a fixed point.
    floor : float
        Real parts below it count as zero.
    dimension : int
        Number of order parameters, hence of eigenvalues.
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

    @property
    def rate(self):
        """Largest real part: the escape rate of a plateau, or minus the slowest decay rate of an attractor."""
        return float(self.eigenvalues[0].real)

    @property
    def unstable(self):
        """Number of growing modes (among those computed)."""
        return int(np.sum(self.eigenvalues.real > self.floor))

    @property
    def dQ(self):
        """Modes in Q, sum_l s_l dq^l (n, K, K)."""
        return np.tensordot(self.dq, self.state.s, axes=(1, 0))

    @property
    def dR(self):
        """Modes in R, sum_l dr^l (n, K, M)."""
        return self.dr.sum(axis=1)

    def __repr__(self):
        return (
            f"Linearisation({self.unstable} growing modes of {self.dimension}, rate={self.rate:.6g}, "
            f"residual={self.residual:.1e})"
        )


def linearise(model, state, *, count=None):
    r"""Linearise the flow of the order parameters at a state: rates, modes, stability.

    .. math:: y = (r^l, q^l, v), \qquad \frac{d\,\delta y}{d\alpha} = J\,\delta y, \qquad J = D + F G

    D acts inside the blocks (closure frozen); F G, of rank at most K(K+1)/2 + KM + K, is the response of the closure.

    Parameters
    ----------
    model : Model
        What is learned and how.
    state : State
        Where; a fixed point (:func:`fixed_point`) if the eigenvalues are to mean stability.
    count : int, optional
        Number of eigenvalues, largest real part first. All by default; 6 where there are more than 3000 of them. Then
        the Arnoldi method finds them, at O(L) per step, and fewer than ``count`` where they crowd (slow blocks, zero
        modes): the growing modes of a plateau stand out, and are found.

    Returns
    -------
    Linearisation
        ``eigenvalues``, modes ``dq``, ``dr``, ``dv``; ``rate``, ``unstable``, ``residual``.

    Raises
    ------
    ValueError
        Bad input; a closure that has no derivative at this state: aligned relu units (students equal to each other or
        to a teacher), user functions whose finite differences do not settle.
    RuntimeError
        The Arnoldi method did not converge.

    Notes
    -----
    Exact for erf, linear, quadratic and relu students (analytic derivatives of the closure). Other activations are
    differenced: about 1e-9 for those in closed form (``ov.tanh``, ``ov.polynomial``), otherwise limited by their
    quadrature, 1e-6 for A and B, and to 1e-4 where the Arnoldi method is used.

    A growing mode need not be reachable from a given start: equal students, for instance, stay equal. Directions that
    the flow conserves have eigenvalue zero.

    References
    ----------
    Biehl, Riegler and Wöhler (1996), J. Phys. A 29, 4769 (escape from plateaus); Worschech and Rosenow (2024),
    arXiv:2410.09005 (escape rates for power-law spectra).

    Examples
    --------
    Noise-free perfect learning of one linear unit: eps_g decays at the rate eta (2 - eta).

    >>> import overlaps as ov
    >>> model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5)
    >>> solution = ov.State.from_overlaps(model, Q=[[1.0]], R=[[1.0]], T=[[1.0]])
    >>> ov.linearise(model, solution).eigenvalues
    array([-0.5 , -0.75])
    """
    system, y = _bound(model, state)
    n = y.size
    if count is None:
        count = n if n <= DENSE else LEADING
    count = check.count("count", count)
    if count > n:
        raise ValueError(f"count = {count}; the state has {n} order parameters, expected count <= {n}.")
    derivative = Jacobian(system, y)
    if n <= DENSE or count > n - 2:
        values, vectors = np.linalg.eig(derivative.dense())
    else:
        values, vectors = _leading(system, y, derivative, count)
    first = np.lexsort((-values.imag, -values.real))[:count]
    values, vectors = values[first], vectors.T[first]
    if not np.any(values.imag):
        values, vectors = values.real, vectors.real
    residual, floor = float(np.max(np.abs(system.rhs(0.0, y)))), float(ZERO * derivative.scale)
    dq, dr, dv = _matrices(system, vectors)
    return Linearisation(model, system.start, values, dq, dr, dv, residual, floor, n)


def _matrices(system, vectors):
    """Packed eigenvectors (n, size) as arrays dq, dr, dv."""
    parts = [system.unpack(part) for part in (vectors.real, vectors.imag)]
    dq, dr, dv = (x + 1j * y if np.iscomplexobj(vectors) else x for x, y in zip(*parts, strict=True))
    return dq, dr, dv if system.model.trains_v else np.zeros_like(dv)


def _leading(system, y, derivative, count):
    """The leading eigenvalues and vectors as far as they converge: ``count`` of them, or fewer.

    A few products find how far to the right the spectrum reaches; solving with J - sigma just beyond that then tells
    eigenvalues apart that are close to each other on the scale of the fastest rate.
    """
    n, product = y.size, derivative.operator()
    v0 = np.random.default_rng(0).standard_normal(n)  # the same answer every time
    try:
        edge = eigs(product, k=1, which="LR", ncv=20, tol=1e-3, maxiter=100, v0=v0, return_eigenvectors=False)[0].real
    except ArpackNoConvergence:
        edge = 0.0  # slow modes crowd there: nothing stands out on the right
    sigma = max(1.05 * edge, ZERO * derivative.scale)
    factorised = derivative.factorised(1 / sigma)

    def inverse(b):
        return factorised.solve(np.ascontiguousarray(b.ravel(), float)) / -sigma

    options = dict(sigma=sigma, OPinv=LinearOperator((n, n), matvec=inverse, dtype=float), maxiter=RESTARTS, v0=v0)
    try:
        return eigs(product, k=count, ncv=min(n - 1, max(4 * count, 40)), **options)
    except ArpackNoConvergence as failure:
        if failure.eigenvalues.size:
            return failure.eigenvalues, failure.eigenvectors
        raise RuntimeError(
            f"no eigenvalue of {n} converged in {RESTARTS} restarts of the Arnoldi method: expected leading ones apart "
            f"from each other. Merge blocks of the spectrum to stay below {DENSE} order parameters."
        ) from failure


# fixed points ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class FixedPoint(Record):
    """Where the flow stops, and how well that is known; made by :func:`fixed_point`.

    Attributes
    ----------
    state : State
        Order parameters of the fixed point.
    residual : float
        Largest ``|dy/dalpha|`` that is left.
    converged : bool
        Whether that is below the tolerance, at overlaps of real vectors.
    iterations : int
        Newton steps taken.
    message : str
        A sentence about it.
    """

    state: State
    residual: float
    converged: bool
    iterations: int
    message: str

    def __repr__(self):
        word = "converged" if self.converged else "NOT converged"
        return f"FixedPoint({self.state}, {word}, residual={self.residual:.1e}, iterations={self.iterations})"


def fixed_point(model, guess, *, tol=1e-12, max_iterations=100):
    r"""Find a fixed point of the flow near a guess, stable or not, by Newton's method.

    .. math:: \frac{dy}{d\alpha}(y) = 0, \qquad \text{step } \delta y = -J^+ \frac{dy}{d\alpha}

    The pseudo-inverse takes the shortest of all Newton steps: along directions that the flow conserves (J is singular
    there, and fixed points form manifolds) the guess is kept. Steps that do not reduce the velocity are halved.

    Parameters
    ----------
    model : Model
        What is learned and how.
    guess : State
        Where to search. T and tau are kept. Symmetries are kept too, up to rounding: from students that are
        equivalent to each other Newton's method finds a symmetric plateau, which no generic trajectory would stay at;
        from a state near student = teacher the specialised fixed point. At finite eta there are two plateaus: one of
        equal students (start with Q_kj = Q_kk), which keep together under their common noise, and one of students that
        are merely equivalent, Q_kj < Q_kk by an amount of order eta, where trajectories wait.
    tol : float
        Largest ``|dy/dalpha|`` accepted, relative to the size of the Jacobian times the largest overlap.
    max_iterations : int
        Largest number of Newton steps.

    Returns
    -------
    FixedPoint
        ``state``, ``residual`` = largest ``|dy/dalpha|``, ``converged``, ``iterations``, ``message``.

    Raises
    ------
    ValueError
        Bad input, or a closure without derivative at the guess (:func:`linearise`).

    Warns
    -----
    RuntimeWarning
        The velocity did not vanish, or the overlaps found are not positive semi-definite; ``converged`` is False.

    Notes
    -----
    Exact up to rounding; quadratic convergence. At finite eta there are two plateaus, of equal and of merely equivalent
    students; following the second in eta by continuation may fall onto the first, the end of a trajectory does not. At
    a degenerate fixed point (one that is approached algebraically,
    e.g. more quadratic students than teachers) convergence is linear and the overlaps are known to about sqrt(tol).

    References
    ----------
    Saad and Solla (1995), Phys. Rev. E 52, 4225; Biehl, Riegler and Wöhler (1996), J. Phys. A 29, 4769 (plateaus).

    Examples
    --------
    The symmetric plateau of two erf students in the limit of small eta, from students with equal overlaps:

    >>> import numpy as np, overlaps as ov
    >>> model = ov.committee_machine(2, 2, eta=0.5, gradient_flow=True)
    >>> ones = np.ones((2, 2))
    >>> plateau = ov.fixed_point(model, ov.State.from_overlaps(model, Q=0.4 * ones, R=0.3 * ones, T=np.eye(2)))
    >>> plateau.state.Q[0, 0].round(12)
    np.float64(0.333333333333)
    >>> ov.linearise(model, plateau.state).unstable
    1
    """
    tol = check.number("tol", tol, above=0)
    max_iterations = check.count("max_iterations", max_iterations)
    system, y = _bound(model, guess)
    _check_dense(y.size)
    y, velocity, size, iterations, obstacle = _newton(system, y, max_iterations)
    state, residual = system.state(y), float(np.max(np.abs(velocity)))
    message = f"largest |dy/dalpha| = {residual:.1e} after {iterations} Newton steps"
    converged = bool(residual <= tol * size)
    if not converged:
        message += (
            f", expected below {tol * size:.1e}: no fixed point was found. Start nearer to one (the slowest point "
            "of a trajectory), or lower eta: plateaus can cease to exist when it is large." + obstacle
        )
    else:
        try:
            state = state.on(model)
        except ValueError as refusal:
            converged, message = False, message + f", at overlaps of no real vectors: {refusal}"
    if not converged:
        warnings.warn(f"fixed_point: {message}", RuntimeWarning, stacklevel=2)
    return FixedPoint(state, residual, converged, iterations, message)


def _newton(system, y, max_iterations):
    """Damped Newton steps of least norm until rounding stops them, or a point at which the closure has no derivative.

    (y, velocity, size of its terms, steps, what stopped them early).
    """
    tied = _ties(system)
    free, copies = np.unique(tied, return_inverse=True)
    y = _possible(system, y)[tied]
    obstacle = ""
    for iteration in range(max_iterations + 1):
        velocity = system.rhs(0.0, y)
        try:
            derivative = Jacobian(system, y)
        except ValueError as refusal:
            if iteration == 0:  # the guess itself is at fault
                raise
            obstacle = f" Newton's steps ended where {refusal}"
            break
        speed, size = np.linalg.norm(velocity[free]), derivative.scale * np.max(np.abs(y), initial=1e-300)
        if iteration == max_iterations or speed <= FLOOR * size:
            break
        J = np.zeros((free.size, free.size))
        np.add.at(J.T, copies, derivative.dense()[free].T)  # tied students move together
        if not np.all(np.isfinite(J)):
            obstacle = " Newton's steps ended where overlaps leave the range of floating-point numbers."
            break
        step = -lstsq(J, velocity[free], cond=ZERO)[0][copies]
        for damping in 0.5 ** np.arange(20):
            trial = _possible(system, y + damping * step)[tied]
            if np.linalg.norm(system.rhs(0.0, trial)[free]) < (1 - 0.25 * damping) * speed:
                break
        else:
            break
        y = trial
    return y, velocity, size, iteration, obstacle


def _ties(system):
    """Positions (n,) in the packed vector where each entry is to be read if equal students are the same student.

    Equal students stay equal under the flow.  Their overlaps are at the boundary of what is possible, where Newton
    steps that change them one by one lead outside.
    """
    start = system.start
    rows = np.concatenate([start.q, start.r], axis=2)
    if system.model.trains_v or np.ptp(start.v):
        rows = np.concatenate([rows, np.tile(start.v[:, None], (start.L, 1, 1))], axis=2)
    apart = np.max(np.abs(rows[:, :, None] - rows[:, None]), axis=(0, 3))
    first = np.argmax(apart <= SAME * np.max(np.abs(rows), initial=0.0), axis=1)
    q, r, v = system.unpack(np.arange(system.pack(start).size, dtype=float))
    v = v[first] if system.model.trains_v else []
    return system.packing.pack(q[:, first[:, None], first], r[:, first], v).astype(int)


def _possible(system, y):
    """The nearest overlaps of real vectors at the same r: q - r tau^+ r^T cut at its negative eigenvalues.

    Solutions without noise (student = teacher) lie on this boundary, which Newton steps overshoot.
    """
    q, r, v = system.unpack(y)
    explained = r @ np.linalg.pinv(system.start.tau, rcond=1e-12, hermitian=True) @ r.swapaxes(1, 2)
    values, vectors = np.linalg.eigh(q - explained)
    if np.all(values >= 0):
        return y
    q = explained + (vectors * np.maximum(values, 0.0)[:, None]) @ vectors.swapaxes(1, 2)
    return system.packing.pack(q, r, v)


def _check_dense(n):
    if n > DENSE:
        raise ValueError(
            f"the state has {n} order parameters; expected at most {DENSE} for dense linear algebra. Merge blocks of "
            "the spectrum, or follow the trajectory with ov.solve."
        )


# learning rates -------------------------------------------------------------------------------------------------------


def critical_eta(model, state, *, search=None):
    r"""Learning rate at which a fixed point loses linear stability.

    .. math:: \max_{\lambda \ne 0} \mathrm{Re}\, \lambda(J(\eta_c)) = 0

    The noise of SGD, the term C of order eta^2, destabilises what gradient flow would reach. From ``model.eta`` on
    the learning rate is raised while the fixed point is stable, or lowered while it is not, until that changes.

    Parameters
    ----------
    model : Model
        What is learned and how. The ratio eta_v / eta is kept (it matters only where a pair of complex eigenvalues
        crosses); weight decays scale with eta as they do in the model.
    state : State
        A fixed point at ``model.eta``. If it is one at every eta (student = teacher without noise) it stays put,
        otherwise it is followed by :func:`fixed_point`.
    search : tuple of two floats, optional
        Range of eta; (1e-3, 1e3) times ``model.eta`` by default.

    Returns
    -------
    float
        eta_c, the nearest one to ``model.eta`` in that direction, to about 1e-12 relative. With label noise or weight
        decay a fixed point can end there instead, by moving to infinity or by meeting an unstable one; this is found
        to about 1e-5 or better.

    Raises
    ------
    ValueError
        Bad input; a gradient flow; a state that is no fixed point; no change of stability in the range searched (a
        plateau is unstable at every eta).

    Notes
    -----
    Exact up to rounding. Eigenvalues that vanish at ``model.eta`` belong to manifolds of fixed points and conserved
    directions and are left out; a fixed point that is unstable only by nonlinear terms along them counts as stable.
    A fixed point that merges with another one and hands its stability on (a pitchfork: much noise erases what was
    specialised) is followed onto the other one.

    References
    ----------
    Bocchi et al. (2026), arXiv:2604.03068 (quadratic networks; their learning rate is half of this one).

    Examples
    --------
    A linear unit diverges above eta = 2 / <s>, <s> the mean eigenvalue of the inputs:

    >>> import overlaps as ov
    >>> model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5)
    >>> solution = ov.State.from_overlaps(model, Q=[[1.0]], R=[[1.0]], T=[[1.0]])
    >>> round(ov.critical_eta(model, solution), 10)
    2.0
    """
    system, y = _bound(model, state)
    _check_dense(y.size)
    if model.gradient_flow:
        raise ValueError(
            "the model is a gradient flow, whose stability does not depend on eta; expected gradient_flow=False."
        )
    low, high = (1e-3 * model.eta, 1e3 * model.eta) if search is None else _interval(search, model.eta)
    branch = _Branch(model, system.start)
    before, stable = model.eta, branch.rate(model.eta) <= 0
    factor = FACTOR if stable else 1 / FACTOR
    while low <= (after := before * factor) <= high:
        rate = branch.rate(after, follow=FOLLOW)
        if np.isnan(rate):  # too far for one step, unless steps vanish: then the fixed point ends here
            if abs(np.log(factor)) < END:
                return before
            factor **= 0.3
        elif (rate <= 0) != stable:
            return float(brentq(branch.rate, *sorted((before, after)), xtol=1e-300, rtol=1e-13))
        else:
            before, factor = after, float(np.clip(factor**1.5, 1 / FACTOR, FACTOR))
    word, change = ("stable", "it may be stable at every eta") if stable else ("unstable", "plateaus are, at every eta")
    tried = sorted((model.eta, before))
    raise ValueError(
        f"the fixed point is {word} for all eta tried in [{tried[0]:.4g}, {tried[1]:.4g}]; {change}. Widen "
        f"search=(low, high) = ({low:.4g}, {high:.4g}) if you know better."
    )


def _interval(search, eta):
    ends = check.array("search", search, (2,), f"Give (low, high) around model.eta = {eta:g}.")
    low, high = (check.number("search", float(x), above=0) for x in ends)
    if not low <= eta <= high:
        raise ValueError(f"search = {search}; expected low <= model.eta = {eta:g} <= high.")
    return low, high


class _Branch:
    """A fixed point as a function of eta, with the number of zero modes it has at the start."""

    def __init__(self, model, state):
        self.model, self.known = model, {model.eta: state}
        system, y = _bound(model, state)
        derivative = Jacobian(system, y)
        residual = np.max(np.abs(system.rhs(0.0, y)))
        if residual > 1e-8 * derivative.scale * np.max(np.abs(y)):
            raise ValueError(
                f"the state is no fixed point at eta = {model.eta:g}: largest |dy/dalpha| = {residual:.1e}. "
                "Find one with ov.fixed_point(model, state) first."
            )
        self.zeros = np.sum(np.abs(np.linalg.eigvals(derivative.dense())) < ZERO * derivative.scale)

    def rate(self, eta, follow=np.inf):
        """Largest real part in units of eta, zero modes left out; nan if the fixed point is not found.

        It has to be within the fraction ``follow`` of its size of the one at the nearest eta known.
        """
        model = replace(self.model, eta=eta, eta_v=eta / self.model.eta * self.model.eta_v)
        nearest = self.known[min(self.known, key=lambda known: abs(np.log(known / eta)))]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            point = fixed_point(model, nearest)  # no step at all if the state is a fixed point at this eta as well
        system, y = _bound(model, point.state) if point.converged else (None, np.nan)
        known = System(model, nearest).pack(nearest)
        if not np.max(np.abs(y - known)) <= follow * np.max(np.abs(known)):
            return np.nan
        self.known[eta] = point.state
        values = np.linalg.eigvals(jacobian(system, y))
        values = values[np.argsort(np.abs(values))][self.zeros :]
        return float(np.max(values.real)) / eta
