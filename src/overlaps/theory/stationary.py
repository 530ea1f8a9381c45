"""All fixed points of the flow that a search from many starts finds: the map of plateaus of a network."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._base import ArrayLike, Immutable, Rng, check, quietly
from ..dynamics import solve
from ..flow.closure import generalisation_error
from ..flow.jacobian import jacobian
from ..flow.system import System
from ..landscape.curvature import HessianSpectrum, hessian
from ..models import Model, State
from ..models.features import check_features
from ..stability.fixed_points import fixed_point, possible
from ..stability.linear import growing_rates

__all__ = ["StationaryPoint", "stationary_points"]

# Difference of eps_g, relative to students without weights. Below, two points with equally many growing modes are one.
SAME = 1e-6
# Squared norm relative to the largest teacher's. Above, units are saturated on their way to infinity and not at rest.
GROWN = 1e3
# Rate relative to the fastest. Below, it is zero: degenerate points are known to about sqrt(1e-14), and so are their
# rates.
FLAT = 1e-7
LATER = 300.0  # eta alpha that a quarter of the starts follows the flow
# Angle by which aligned students are set apart, where the Hessian of kinked units has no derivative. Smaller angles
# show rounding, larger ones another point.
TURN = 1e-4
# Step along a mode of rate zero, relative to the overlaps. Smaller, the search falls back to the same point; larger, it
# may meet another family.
MOVE = 1e-2
# Share of a step along a mode that its neighbour keeps. Below, it lies beside the family, up to .07 by the curvature;
# larger, where overlaps end on one side, modes that were found together hide each other.
ALONG = 0.2


@dataclass(frozen=True, eq=False, repr=False)
class StationaryPoint(Immutable):
    """One fixed point of the flow, or one manifold of them; made by :func:`stationary_points`.

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
        Dimension of the manifold of fixed points in the overlaps: flat modes along which they go on; -1 as above.
    hessian : HessianSpectrum or None
        Hessian of eps_g there over all weights, on spheres along the students, too. At finite learning rate the
        gradient of eps_g does not quite vanish.
        Where kinked students are aligned with another unit it belongs to students turned by 1e-4, and eigenvalues are
        known to about as much; None where a closure has no derivatives there either.
    found : int
        How many starts ended there. Points found once or twice say that the list may not be complete.
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
        """Number of growing modes of the overlaps; -1 where it is not known."""
        return -1 if np.any(np.isnan(self.rates)) else len(self.rates)

    @property
    def descending(self):
        """Number of negative outliers and bulk eigenvalues of the Hessian: 0 at a local minimum; -1 without one.

        A bulk eigenvalue counts once, whatever its multiplicity; aligned students, too, are classified by it.
        """
        if self.hessian is None:
            return -1
        values = np.append(self.hessian.outliers, self.hessian.bulk)
        return int(np.sum(values < -(10 * TURN if self.flat < 0 else FLAT) * np.max(np.abs(values))))

    @property
    def rate(self):
        """Fastest escape rate; zero at an attractor."""
        return float(self.rates[0]) if len(self.rates) else 0.0

    def __repr__(self):
        known = f"{self.growing} growing modes, dimension {self.dimension}, rate={self.rate:.4g}"
        if self.flat < 0:  # the flow of the overlaps is not smooth there, eps_g over the weights may be
            known = f"aligned units: no rates, {self.descending} descending eigenvalues of the Hessian"
            known = known if self.hessian is not None else "aligned units: no rates, no Hessian"
        return f"StationaryPoint(eps_g={self.eps_g:.6g}, {known}, found={self.found})"


def stationary_points(
    model: Model, *, T: ArrayLike | None = None, starts: int | Sequence[State] = 200, rng: Rng = 0
) -> "list[StationaryPoint]":
    r"""Search for all fixed points of the flow, stable or not: plateaus, solutions, and the saddles between.

    Newton's method (:func:`overlaps.fixed_point`) from random overlaps, many of them with equal students, students that
    treat teachers alike, students without weights or without a part orthogonal to the teachers: saddles are symmetric.
    A quarter of the starts follows the flow first, to an attractor.
    Points that differ by permutations or rotations of the units are listed once. The list is in the order of eps_g.

    Parameters
    ----------
    model : Model
        Isotropic inputs. ``gradient_flow=True`` finds the stationary points of eps_g; at a finite rate fixed points
        shift, split (equal students and merely equivalent ones) and vanish. With ``constraint="sphere"`` random
        starts have students of norm one; starts of one's own keep their norms.
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
    Each point is exact to rounding; that the list is complete is *heuristic*: ``found`` says how often each was met.
    Two points that agree in eps_g and in the number of growing modes count as one. Where kinked students are aligned
    with each other or with a teacher, eps_g has second derivatives over the weights, but not over the overlaps, whose
    flow knows the angle theta as the root of 1 - cos^2: two aligned relus give ``pi - pi theta^2 / 2 + |theta|^3 / 3``.
    Such points have a Hessian and no rates (``descending`` says whether they are minima); Newton's method, which needs
    the derivatives that are missing, meets them by chance only.

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
        with quietly():  # attractors have small basins of Newton's method, and large ones of the flow
            starts[::4] = [solve(model, start, [0.0, LATER / model.eta])[-1] for start in starts[::4]]
    states = [state for state in (_search(model, guess) for guess in starts) if state is not None]
    return [_point(model, kind, count) for kind, count in _distinct(model, T, states)]


def _start(model, T, rng):
    """Overlaps of random students, of a random symmetry and a random number of directions off the teachers' space."""
    K, M = model.K, model.M
    root = _root(T)  # weights of the teachers
    if rng.random() < 0.2:
        return _state(model, rng.integers(-1, 2, size=(K, M)) @ root, root, rng)  # students have learned whole teachers
    rank = rng.integers(0, M + 1)  # directions of the teachers' space that are seen
    R = rng.standard_normal((K, rank)) @ rng.standard_normal((rank, M)) / np.sqrt(M * max(rank, 1))
    if rng.random() < 0.3:
        R = R[:, rng.integers(0, M, size=M)]  # teachers of one group are treated alike
    W = np.hstack([R @ np.linalg.pinv(root), rng.standard_normal((K, rng.integers(0, K + 1)))])
    W *= rng.choice([0.3, 1.0, 1.7]) * np.sqrt(np.trace(T) / M)
    if rng.random() < 0.4:
        W = W[rng.integers(0, K, size=K)]  # students of one group are equal
    if rng.random() < 0.3 and not model.activation.kinks:
        W[rng.random(K) < 0.4] = 0.0
    return _state(model, W, root, rng)


def _state(model, W, root, rng):
    """The state of weights; kinked students need a norm, those on spheres have norm one."""
    empty = ~W.any(axis=1) & (bool(model.activation.kinks) or model.spherical)
    W[empty] = rng.standard_normal(W.shape)[empty]
    if model.spherical:
        W = W / np.linalg.norm(W, axis=1, keepdims=True)
    return State.from_overlaps(model, Q=W @ W.T, R=W[:, : len(root)] @ root, T=root @ root)


def _root(T):
    """Symmetric root of T: weights of teachers with these overlaps."""
    values, vectors = np.linalg.eigh(T)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def _search(model, guess):
    """The fixed point that Newton's method finds, or None."""
    with quietly():  # that most random guesses lead nowhere is no news
        try:
            point = fixed_point(model, guess)
        except ValueError:
            if not model.activation.kinks:
                raise
            return None  # aligned students: no derivative at the guess
    grown = np.max(np.diag(point.state.Q)) > GROWN * np.max(np.diag(point.state.T))
    return point.state if point.converged and not grown else None


def _distinct(model, T, states):
    """One state of each kind, with least norm, with the number of times it was found, in the order of eps_g."""
    S, v = np.array([x.S for x in states]), np.array([x.v for x in states])
    nothing = np.zeros((1, model.K + model.M, model.K + model.M))
    nothing[0, model.K :, model.K :] = T
    tolerance = SAME * max(generalisation_error(model, nothing, model.v[None])[0], 1e-300)
    errors = generalisation_error(model, S, v) if states else np.zeros(0)
    kinds: list[list] = []  # (eps_g, growing modes, states)
    for i in np.argsort(errors):
        growing = len(growing_rates(model, states[i], FLAT))
        for eps_g, modes, members in kinds:
            if abs(eps_g - errors[i]) <= tolerance and modes == growing:
                members.append(states[i])
                break
        else:
            kinds.append([errors[i], growing, [states[i]]])
    return [(min(members, key=lambda x: np.trace(x.Q)), len(members)) for _, _, members in kinds]


def _point(model, state, count):
    """The record of a fixed point."""
    eps_g = float(max(generalisation_error(model, state.S[None], state.v[None])[0], 0.0))
    rates = growing_rates(model, state, FLAT)
    if np.any(np.isnan(rates)):
        return StationaryPoint(state, eps_g, rates, -1, -1, _beside(model, state), count)
    flat, dimension = _manifold(model, state)
    return StationaryPoint(state, eps_g, rates, flat, dimension, hessian(model, state), count)


def _beside(model, state):
    """Hessian where every student has got a small part of its own, orthogonal to everything; None without one."""
    Q = state.Q + TURN**2 * np.diag(np.diag(state.Q))
    try:
        return hessian(model, State.from_overlaps(model, Q=Q, R=state.R, T=state.T, v=state.v))
    except ValueError:
        return None


def _manifold(model, state):
    """Number of modes of rate zero, and of those along which the fixed points go on: move, solve again, compare."""
    system = System(model, state)
    y = system.pack(state)
    _, sizes, modes = np.linalg.svd(jacobian(system, y))
    modes = modes[sizes <= FLAT * sizes[0]]
    step, moves = MOVE * float(np.linalg.norm(y)), [np.zeros(len(modes))]
    for mode in (*modes, *-modes):  # overlaps may end on one side
        neighbour = _search(model, system.state(possible(system, y + step * mode)))
        if neighbour is not None and step > 0:
            moves.append(modes @ (system.pack(neighbour) - y) / step)
    norms = model.K if model.spherical else 0  # other spheres, other points: no modes of one problem
    rank = int(np.linalg.matrix_rank(np.array(moves), tol=ALONG))
    return len(modes) - norms, max(rank - norms, 0)
