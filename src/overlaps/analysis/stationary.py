"""All fixed points of the flow that a search from many starts finds: plateaus, solutions and other saddles."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .._base import ArrayLike, Immutable, Rng, check, quietly
from ..dynamics import solve
from ..flow.closure import generalisation_error
from ..flow.jacobian import jacobian
from ..flow.system import System
from ..models import Model, State
from ..models.features import check_features
from ..stability.fixed_points import fixed_point, possible
from ..stability.linear import growing_rates
from .curvature import HessianSpectrum, hessian

__all__ = ["StationaryPoint", "stationary_points"]


class SearchOptions(NamedTuple):
    """Tunable numbers of the search for fixed points."""

    # Difference of eps_g, relative to that of students without weights, below which two points with equally many
    # growing modes are one.
    eps_g_tol: float = 1e-6
    # Largest squared norm of a student over the largest teacher's. Longer students are saturated and still grow.
    max_norm_ratio: float = 1e3
    # Rate, relative to the fastest, below which a rate is zero: degenerate points are accurate to about sqrt(1e-14),
    # and so are their rates.
    zero_tol: float = 1e-7
    flow_time: float = 300.0  # eta alpha for which a quarter of the starts follows the flow, to reach attractors.
    # Angle by which aligned students are separated, because the closure has no derivative at kinked aligned units.
    # Smaller: the Hessian has rounding; larger: it belongs to another point.
    separation_angle: float = 1e-4
    # Step along a mode of rate zero, relative to the overlaps. Smaller: the search returns to the same point; larger:
    # it may find another family.
    family_step: float = 1e-2
    # Least component of the neighbour's distance along the mode, in units of the step. Below, the mode is not tangent
    # to the family (up to .07 by the curvature). Larger: where overlaps end on one side, some tangent modes are missed.
    family_tol: float = 0.2


SEARCH = SearchOptions()


class StationaryPoint(Immutable):
    """One fixed point of the flow, or one manifold of them; see :func:`overlaps.analysis.stationary.stationary_points`.

    Attributes
    ----------
    state : State
        Order parameters; one representative of those that differ by a permutation of the units or a rotation.
    eps_g : float
        Generalisation error.
    rates : ndarray, shape (n,)
        Growing rates of the flow of the overlaps per unit alpha, largest first: none at an attractor. nan where the
        closure has no derivative.
    flat : int
        Modes of rate zero; -1 where the closure has no derivative.
    dimension : int
        Dimension of the manifold of fixed points in the overlaps, spanned by flat modes; -1 as above.
    hessian : HessianSpectrum or None
        Hessian of eps_g there over all weights, on spheres also along the students. At finite learning rate the
        gradient of eps_g does not quite vanish. Where kinked students are aligned with another unit, it is taken at
        students turned by 1e-4, and its eigenvalues are accurate to about 1e-4; None where the closure has no
        derivatives there either.
    found : int
        Number of starts that ended there. If points were found only once or twice, the list may be incomplete.
    """

    state: State
    eps_g: float
    rates: np.ndarray
    flat: int
    dimension: int
    hessian: HessianSpectrum | None
    found: int

    @property
    def growing(self):
        """Number of growing modes of the overlaps; -1 where it is unknown."""
        return -1 if np.any(np.isnan(self.rates)) else len(self.rates)

    @property
    def descending(self):
        """Number of negative outliers and bulk eigenvalues of the Hessian: 0 at a local minimum; -1 without one.

        A bulk eigenvalue counts once, whatever its multiplicity; aligned students, too, are classified by it.
        """
        if self.hessian is None:
            return -1
        values = np.append(self.hessian.outliers, self.hessian.bulk)
        tol = 10 * SEARCH.separation_angle if self.flat < 0 else SEARCH.zero_tol
        return int(np.sum(values < -tol * np.max(np.abs(values))))

    @property
    def rate(self):
        """Fastest escape rate; zero at an attractor."""
        return float(self.rates[0]) if len(self.rates) else 0.0

    def __repr__(self):
        modes = f"{self.growing} growing modes, dimension {self.dimension}, rate={self.rate:.4g}"
        if self.flat < 0:  # the flow of the overlaps is not smooth there; eps_g as a function of the weights may be
            modes = f"aligned units: no rates, {self.descending} descending eigenvalues of the Hessian"
            modes = modes if self.hessian is not None else "aligned units: no rates, no Hessian"
        return f"StationaryPoint(eps_g={self.eps_g:.6g}, {modes}, found={self.found})"


def stationary_points(
    model: Model, *, T: ArrayLike | None = None, starts: int | Sequence[State] = 200, rng: Rng = 0
) -> "list[StationaryPoint]":
    r"""Search for all fixed points of the flow, stable or not: plateaus, solutions, and the saddles between.

    Newton's method (:func:`overlaps.fixed_point`) starts from random overlaps. Many of them have a symmetry, because
    saddles do: equal students, equal overlaps with several teachers, zero students, or students in the teachers' span.
    A quarter of the starts first follows the flow, to an attractor. Points that differ by permutations or rotations of
    the units are listed once. The list is in the order of eps_g.

    Parameters
    ----------
    model : Model
        Isotropic inputs. ``gradient_flow=True`` finds the stationary points of eps_g; at a finite rate fixed points
        shift, split (equal students and merely equivalent ones) and vanish. With ``constraint="sphere"`` random
        starts have students of norm one; given starts have their own norms.
    T : array_like, shape (M, M), optional
        Teacher overlaps; orthonormal by default.
    starts : int or sequence of State
        Number of random starts, or the starts themselves, such as the records of a trajectory.
    rng : int or numpy.random.Generator
        Seed or generator of the starts.

    Raises
    ------
    ValueError
        Bad input; several eigenvalues of the inputs.

    Notes
    -----
    Each point is exact to rounding; the completeness of the list is *heuristic*: ``found`` is the number of times that
    each was found. Two points that agree in eps_g and in the number of growing modes count as one. Where kinked
    students are aligned with each other or with a teacher, eps_g has second derivatives over the weights, but not over
    the overlaps: these determine the angle theta as the root of 1 - cos^2, and two aligned relus give
    ``pi - pi theta^2 / 2 + |theta|^3 / 3``. Such points have a Hessian and no rates (``descending`` is 0 at minima);
    Newton's method finds them by chance only, because it needs the missing derivatives.

    References
    ----------
    Quadratic networks: all types are known, :func:`overlaps.theory.quadratic.stationary_points`. Saad and Solla (1995),
    Phys. Rev. E 52, 4225, and Biehl, Riegler and Wöhler (1996), J. Phys. A 29, 4769, for the symmetric plateau.

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.committee_machine(2, 2, eta=1.0, gradient_flow=True)
    >>> [(round(x.eps_g, 6), x.growing) for x in ov.theory.stationary_points(model, starts=30)]
    [(0.0, 0), (0.011611, 1)]
    """
    check_features("theory.stationary_points", model)
    T = np.eye(model.M) if T is None else check.array("T", T, (model.M, model.M))
    if np.iterable(starts):
        starts = [check.state(start, f"starts[{i}]") for i, start in enumerate(starts)]
    else:
        rng = check.generator(rng)
        starts = [_start(model, T, rng) for _ in range(check.count("starts", starts))]
        with quietly():  # attractors have large basins under the flow and small ones under Newton's method
            starts[::4] = [solve(model, start, [0.0, SEARCH.flow_time / model.eta])[-1] for start in starts[::4]]
    states = [state for state in (search(model, guess) for guess in starts) if state is not None]
    return [_point(model, kind, count) for kind, count in _distinct(model, T, states)]


def _start(model, T, rng):
    """Overlaps of random students with a random symmetry and random dimensions outside the teachers' span."""
    K, M = model.K, model.M
    root = _root(T)  # weights of the teachers
    if rng.random() < 0.2:
        return _state(model, rng.integers(-1, 2, size=(K, M)) @ root, root, rng)  # students are sums of +-teachers
    rank = rng.integers(0, M + 1)  # rank of the overlaps with teachers
    R = rng.standard_normal((K, rank)) @ rng.standard_normal((rank, M)) / np.sqrt(M * max(rank, 1))
    if rng.random() < 0.3:
        R = R[:, rng.integers(0, M, size=M)]  # teachers of one group have equal overlaps
    W = np.hstack([R @ np.linalg.pinv(root), rng.standard_normal((K, rng.integers(0, K + 1)))])
    W *= rng.choice([0.3, 1.0, 1.7]) * np.sqrt(np.trace(T) / M)
    if rng.random() < 0.4:
        W = W[rng.integers(0, K, size=K)]  # students of one group are equal
    if rng.random() < 0.3 and not model.activation.kinks:
        W[rng.random(K) < 0.4] = 0.0
    return _state(model, W, root, rng)


def _state(model, W, root, rng):
    """The state of given weights; zero students are replaced where kinks or spheres need a norm."""
    empty = ~W.any(axis=1) & (bool(model.activation.kinks) or model.spherical)
    W[empty] = rng.standard_normal(W.shape)[empty]
    if model.spherical:
        W = W / np.linalg.norm(W, axis=1, keepdims=True)
    return State.from_overlaps(model, Q=W @ W.T, R=W[:, : len(root)] @ root, T=root @ root)


def _root(T):
    """Symmetric root of T: weights of teachers with these overlaps."""
    values, vectors = np.linalg.eigh(T)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def search(model, guess):
    """The fixed point that Newton's method finds, or None."""
    with quietly():  # most random guesses do not converge
        try:
            point = fixed_point(model, guess)
        except ValueError:
            if not model.activation.kinks:
                raise
            return None  # aligned students: no derivative at the guess
    grown = np.max(np.diag(point.state.Q)) > SEARCH.max_norm_ratio * np.max(np.diag(point.state.T))
    return point.state if point.converged and not grown else None


def _distinct(model, T, states):
    """(state of least norm, number of times found) for each distinct point, in the order of eps_g."""
    S, v = np.array([x.S for x in states]), np.array([x.v for x in states])
    zero_students = np.zeros((1, model.K + model.M, model.K + model.M))
    zero_students[0, model.K :, model.K :] = T
    tolerance = SEARCH.eps_g_tol * max(generalisation_error(model, zero_students, model.v[None])[0], 1e-300)
    errors = generalisation_error(model, S, v) if states else np.zeros(0)
    kinds: list[list] = []  # (eps_g, growing modes, states)
    for i in np.argsort(errors):
        growing = len(growing_rates(model, states[i], SEARCH.zero_tol))
        for eps_g, modes, members in kinds:
            if abs(eps_g - errors[i]) <= tolerance and modes == growing:
                members.append(states[i])
                break
        else:
            kinds.append([errors[i], growing, [states[i]]])
    return [(min(members, key=lambda x: np.trace(x.Q)), len(members)) for _, _, members in kinds]


def _point(model, state, count):
    """The StationaryPoint of a fixed point."""
    eps_g = float(max(generalisation_error(model, state.S[None], state.v[None])[0], 0.0))
    rates = growing_rates(model, state, SEARCH.zero_tol)
    if np.any(np.isnan(rates)):
        return StationaryPoint(state, eps_g, rates, -1, -1, separated_hessian(model, state), count)
    flat, dimension = _manifold(model, state)
    return StationaryPoint(state, eps_g, rates, flat, dimension, hessian(model, state), count)


def separated_hessian(model, state):
    """Hessian where every student has an additional small component, orthogonal to all others; None without one."""
    Q = state.Q + SEARCH.separation_angle**2 * np.diag(np.diag(state.Q))
    try:
        return hessian(model, State.from_overlaps(model, Q=Q, R=state.R, T=state.T, v=state.v))
    except ValueError:
        return None


def _manifold(model, state):
    """Number of modes of rate zero, and dimension of the family of fixed points: step along each, solve again."""
    system = System(model, state)
    y = system.pack(state)
    _, sizes, modes = np.linalg.svd(jacobian(system, y))
    modes = modes[sizes <= SEARCH.zero_tol * sizes[0]]
    step, moves = SEARCH.family_step * float(np.linalg.norm(y)), [np.zeros(len(modes))]
    for mode in (*modes, *-modes):  # overlaps may end on one side
        neighbour = search(model, system.state(possible(system, y + step * mode)))
        if neighbour is not None and step > 0:
            moves.append(modes @ (system.pack(neighbour) - y) / step)
    norms = model.K if model.spherical else 0  # changes of the norms are no modes on fixed spheres
    rank = int(np.linalg.matrix_rank(np.array(moves), tol=SEARCH.family_tol))
    return len(modes) - norms, max(rank - norms, 0)
