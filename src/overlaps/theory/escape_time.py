r"""When SGD at finite N leaves a plateau: the law of a random time.

The noise of the whole transient counts once, as an extra variance of the growing part of the start: in law SGD leaves
like the equations of N -> infinity do, from a start that is moved along as many directions as modes grow.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicSpline
from scipy.linalg import schur, solve_continuous_lyapunov
from scipy.special import ndtri
from scipy.stats import qmc

from .._base import Immutable, Rng, check, quietly
from ..dynamics import solve, solve_many
from ..finite_size.expansion import PathCoefficients, checked_size, start_covariance
from ..finite_size.noise import FieldPoints
from ..finite_size.transport import Path
from ..finite_size.unknowns import Unknowns
from ..flow.closure import generalisation_error
from ..flow.jacobian import jacobian
from ..generic_plateau import random_mean
from ..models import Model, State
from ..models.features import check_features
from ..results.curves import first_below
from ..stability.fixed_points import fixed_point
from ..stability.linear import growing_rates
from ..stability.symmetry import is_even, mean_overlaps

__all__ = ["EscapeLaw", "escape"]

# Rate relative to the fastest. Below, a mode does not grow; imaginary parts above this share of the growth oscillate.
FLAT = 1e-6
# Velocity relative to overlaps and eta. Below, the symmetric path has come to the plateau; above, it is followed
# further.
REST = 1e-5
SETTLED = 1e-6  # relative change of the plateau that Newton's method finds, from one doubling to the next
NEAR = 0.2  # eps_g of the path, relative to the plateau's, up to which it is where Newton's method says
# Doublings of the time in which a plateau is looked for; a path that still moves then has none.
DOUBLINGS = 14
LENGTH = 20  # growth times of the path: with more, rounding breaks its symmetry; laws of 8 and of 40 agree to 1e-6
# Values of ln |x| at which the equations are solved, between which the time is interpolated.
TABLE = 25
DRAWS = 2**12  # midpoints of the law of x
MOMENTS = 1e-3  # relative error of averages of four forces of a rule: kappa needs no more
ALIKE = 1e-2  # relative difference of the velocity from its average over the students, where these are treated alike
SEVERAL = 2**10  # points of it where several modes grow
WINDOW, GRID = 6, 64  # growth times for which all draws are followed at once, and times at which eps_g is looked at
LONGER = 0.125  # of the time since the start: later windows are longer, so that slow falls take no more of them
# Windows after which a level is not waited for any longer: 2e6 growth times.
WINDOWS = 100
STILL = 1e-9  # relative change of eps_g in a window, or rtol. Below, the curve may have come to rest.


@dataclass(frozen=True, eq=False, repr=False)
class EscapeLaw(Immutable):
    """Law of the time at which eps_g falls below a level; made by :func:`escape`, with the equations there.

    Attributes
    ----------
    N, level : int, float
        Input dimension, and the error that is waited for.
    rate, modes : float, int
        Largest growth rate on the plateau, and how many modes grow.
    kappa : float
        Variance that the noise of the transient adds to the growing part of the start, in units of the variance
        of random weights; the mean over modes.
    plateau : float
        eps_g of the plateau.
    times : ndarray, shape (n,)
        Equally likely times in increasing order.
    """

    N: int
    level: float
    rate: float
    modes: int
    kappa: float
    plateau: float
    times: np.ndarray
    shows = "N={0.N}, level={0.level:g}, {0.modes} modes, rate={0.rate:.6g}, mean={0.mean:.6g}, std={0.std:.3g}"

    @property
    def mean(self):
        """Mean time."""
        return float(self.times.mean())

    @property
    def std(self):
        """Standard deviation of the time over runs."""
        return float(self.times.std())

    def quantile(self, q):
        """Quantiles at levels ``q`` in [0, 1]."""
        return np.quantile(self.times, check.array("q", q, (...,)))

    @classmethod
    def of(cls, trajectory, N, level=None, **options):
        """The law for the first record of a trajectory; see :func:`escape`."""
        return escape(trajectory.model, trajectory[0], N, level, **options)


def escape(
    model: Model,
    start: State | str,
    N: int,
    level: float | None = None,
    *,
    student_scale: float = 1.0,
    points: int = 2**14,
    rng: Rng = 0,
) -> "EscapeLaw":
    r"""Law of the time at which eps_g of SGD at input dimension N falls below a level beneath the plateau.

    .. math:: T_{\rm SGD} = T_{\rm ODE}\big({\rm start} + e_0\zeta/\sqrt N\big) \ \text{in law}, \quad
       \zeta \sim N(0, \kappa), \qquad
       \kappa = \int_0^\infty e^{-\Lambda\alpha} G D G^T e^{-\Lambda^T\alpha} d\alpha, \quad
       \dot G = \Lambda G - GJ, \quad e_0 = \Sigma_0G_0^T(G_0\Sigma_0G_0^T)^{-1}

    along the path of the start averaged over the symmetries of the students, which ends on the plateau. There G spans
    the left invariant subspace of all growing modes, :math:`GJ = \Lambda G`, and is carried back; Sigma_0/N is the
    covariance of random weights, along which the start is moved. Random starts add :math:`G_0\Sigma_0G_0^T` to kappa.

    Parameters
    ----------
    model : Model
        With students of equal second layers. Rules of learning shall treat their units alike.
    start : "random" or State
        Random weights of students (of variance student_scale^2) and teachers; or overlaps met exactly by all runs.
    N : int
        Input dimension.
    level : float, optional
        eps_g to fall below, under the plateau's; half of it by default.
    student_scale : float
        Standard deviation of random student weights.
    points, rng : int, int or numpy.random.Generator
        As in :func:`overlaps.fluctuations`.

    Raises
    ------
    ValueError
        Models that :func:`overlaps.fluctuations` refuses; no plateau on the symmetric path, no growing mode there
        ("nothing to escape from"), or modes that oscillate; a level above the plateau; a level under the error at which
        curves come to rest, or given up after 2e6 growth times, with the eps_g and alpha reached.
    KeyboardInterrupt
        Ctrl-C: no part of an answer is of use.

    Notes
    -----
    Asymptotic, with errors of order ln N/sqrt(N) relative to 1/lambda: against runs of random starts the mean comes out
    late by .07 to .09 of 1/lambda at N = 200 and 1000 (the equations alone: .2). From a symmetric start the equations
    never escape, SGD does. Where several modes grow the time depends on the direction of zeta among them: the law is
    taken from 1024 quasi-random draws, with an error of the mean of about std/32. Modes slower than 1e-6 of the fastest
    eigenvalue are flat, not growing. Of rules (:class:`overlaps.Rule`) permutations are the only symmetry, and kappa is
    known to about 1e-2. Derived here.

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.committee_machine(2, 2, eta=1.5)
    >>> law = ov.theory.escape(model, "random", 1000, 0.0173, points=1024)
    >>> law.modes, round(law.rate, 8)
    (1, 0.076364)
    """
    check_features("theory.escape", model)
    N = checked_size(model, N)
    level = None if level is None else check.number("level", level, above=0)
    scale = check.number("student_scale", student_scale, least=0)
    points, rng = check.count("points", points, least=64), check.generator(rng)
    if isinstance(start, str):
        check.choice("start", start, ("random",), "Or a State.")
    else:
        start = check.state(start).on(model)
        if not start.sees_inputs:
            raise ValueError("start has a teacher that acts on latents; expected one that acts on the inputs x.")
    drawn = random_mean(model, scale)
    base = drawn if isinstance(start, str) else replace(start, alpha=0.0)
    if np.ptp(base.v) > 1e-12 * np.max(np.abs(base.v)):
        raise ValueError("the students have different second layers; expected equal v: no symmetry holds a plateau.")
    reference = _symmetric(model, base)
    _check_alike(model, reference)
    plateau = _plateau(model, reference)
    error = _error(model, plateau)
    level = error / 2 if level is None else level
    if level >= error:
        raise ValueError(f"level = {level:g}; expected below the error of the plateau, {error:.6g}.")
    unknowns = Unknowns(model, reference, False)
    pack = unknowns.system.pack
    rates, left = _growing(unknowns, pack(plateau))
    modes, rate = len(left), float(np.linalg.eigvals(rates).real.max())
    end = LENGTH / rate
    G0, kappa = _noise(model, reference, unknowns, end, rates, left, FieldPoints.of(model, points, rng, MOMENTS))
    Sigma = start_covariance(Unknowns(model, drawn if scale else random_mean(model, 1.0), False))
    c0 = G0 @ Sigma @ G0.T
    variance, shift = (c0 + kappa, np.zeros(modes)) if isinstance(start, str) else (
        kappa, G0 @ (pack(base) - pack(reference))
    )  # fmt: skip
    # of all changes with this growing part the likeliest among random weights: others may be overlaps of no vectors
    e0 = Sigma @ G0.T @ np.linalg.inv(c0)
    times = _Times(model, base, unknowns, e0, shift, level, rate, N)
    root = np.linalg.cholesky(variance / N)
    if modes == 1:
        z = ndtri((np.arange(DRAWS) + 0.5) / DRAWS)
        exits = times.of_one(shift[0] + root[0, 0] * z)
    else:
        z = ndtri(qmc.Sobol(modes, seed=rng).random(SEVERAL))
        exits = times(shift + z @ root.T)
    return EscapeLaw(N, level, rate, modes, float(np.trace(np.linalg.solve(c0, kappa)) / modes), error, np.sort(exits))


def _symmetric(model, state):
    """The state averaged over permutations of the students, and over their signs where g is even."""
    q, r = _over_students(model, state.q, state.r)
    return replace(state, q=q, r=r, v=np.full_like(state.v, state.v.mean()), alpha=0.0)


def _check_alike(model, reference):
    """Refuse rules that drive equal units in different ways: no symmetry holds their plateau."""
    system = Unknowns(model, reference, False).system
    dy = system.rhs(0.0, system.pack(reference))
    q, r, v = system.unpack(dy)
    v = np.mean(v, axis=-1, keepdims=True) + 0 * v
    q, r = _over_students(model, q, r)
    if np.max(np.abs(dy - system.packing.pack(q, r, v))) > ALIKE * np.max(np.abs(dy)):
        raise ValueError(f"{model} drives equal students in different ways; expected a rule that treats them alike.")


def _over_students(model, q, r):
    """Overlaps q (L, K, K), r (L, K, M) averaged over all permutations of the students, and signs that do nothing."""
    return mean_overlaps(q, r, [np.arange(model.K)], [is_even(model)])


def _plateau(model, reference):
    """The fixed point that the symmetric path ends on.

    Newton's method finds it long before the path is at rest, by when rounding would have broken the symmetry: it is the
    one found from two doublings of the time in a row, and near.
    """
    unknowns, state, length, before = Unknowns(model, reference, False), reference, 1.0 / model.eta, None
    pack, begin = unknowns.system.pack, 0.0
    for _ in range(DOUBLINGS):
        with quietly():  # what it says becomes an error, or asks for more time
            path = solve(model, state, [length - begin])
            if not path.success:
                raise ValueError(f"the symmetric path ends on no plateau: {path.message}")
            begin, state = length, _symmetric(model, path[0])
            point = fixed_point(model, state)
        y = pack(state)
        rest = np.max(np.abs(unknowns.system.rhs(0.0, y))) < REST * model.eta * np.max(np.abs(y))
        if rest and not point.converged:
            raise ValueError(f"the symmetric path comes to rest at no fixed point: {point.message}")
        reached, settled = _error(model, state), _error(model, point.state) if point.converged else np.nan
        if abs(reached - settled) <= NEAR * settled:
            y = pack(point.state)
            if rest or (before is not None and np.max(np.abs(y - before)) < SETTLED * np.max(np.abs(y))):
                return point.state
            before = y
        else:
            before = None
        length *= 2
    raise ValueError(
        f"the symmetric path does not come to rest before alpha = {length:g}: no plateau that SGD would have to leave."
    )


def _error(model, state):
    return float(generalisation_error(model, state.S[None], state.v[None])[0])


def _growing(unknowns, y):
    """Growing modes on the plateau: Lambda (n_u, n_u), and W (n_u, n) with W J = Lambda W.

    Invariant subspaces by ordered Schur forms: eigenvectors of equal rates come out of ``eig`` as good as dependent.
    """
    J = jacobian(unknowns.system, y)
    values = np.linalg.eigvals(J)
    least = FLAT * np.max(np.abs(values))
    growing = values[values.real > least]
    if not growing.size:
        raise ValueError("no mode grows on the plateau that the symmetric path ends on: nothing to escape from.")
    if np.max(np.abs(growing.imag)) > FLAT * growing.real.max():
        raise ValueError("the growing modes of the plateau oscillate; no law of the escape is known.")

    def subspace(matrix):
        _, Z, n = schur(matrix, output="real", sort=lambda real, imaginary=0.0: np.real(real) > least)
        return Z[:, :n]

    V, U = subspace(J), subspace(J.T)
    W = np.linalg.solve(U.T @ V, U.T)
    return W @ J @ V, W


def _noise(model, reference, unknowns, end, rates, left, rule):
    """G (n_u, n) at the start, in an orthonormal basis, and kappa (n_u, n_u) in the same."""
    path = solve(model, reference, [0.0, end])

    def pack(q, r, v):  # rounding that has grown is taken off: it is no part of the path
        return unknowns.packing.pack(*_over_students(model, q, r), v)

    terms = PathCoefficients(unknowns, Path(path, pack), rule)
    modes, n = left.shape

    def velocity(alpha, x):
        G = x[: modes * n].reshape(modes, n)
        J, D, _ = terms(np.array([alpha]))
        return -np.concatenate([(G @ J[0]).ravel(), (G @ D[0] @ G.T).ravel()])

    G, kappa = left, solve_continuous_lyapunov(rates, left @ terms(np.array([end]))[1][0] @ left.T)
    for span in pairwise(np.linspace(end, 0.0, LENGTH + 1)):
        run = solve_ivp(velocity, span, np.concatenate([G.ravel(), kappa.ravel()]), rtol=1e-8, atol=1e-10)
        G, kappa = (x.reshape(modes, -1) for x in np.split(run.y[:, -1], [modes * n]))
        # another basis of the same space: that of the plateau becomes all but parallel where modes grow at other rates
        basis, weights = np.linalg.qr(G.T)
        G, kappa = basis.T, np.linalg.solve(weights.T, np.linalg.solve(weights.T, kappa).T)
    return G, (kappa + kappa.T) / 2


class _Times:
    """T_ODE at starts with the growing part x."""

    def __init__(self, model, base, unknowns, e0, shift, level, rate, N):
        self.model, self.base, self.e0, self.shift = model, base, e0, shift
        self.rtol = float(np.clip(1e-4 / np.sqrt(N), 1e-12, 1e-6))  # of what is of order 1/sqrt(N) and grows
        self.system, self.level, self.rate = unknowns.system, level, rate

    def __call__(self, x):
        """Times from the starts with growing parts x (n, n_u)."""
        y = self.system.pack(self.base) + (x - self.shift) @ self.e0.T
        states = [replace(self.system.state(row), v=self.base.v) for row in y]
        exits, waiting, end = np.full(len(x), np.nan), np.arange(len(x)), 0.0
        for _ in range(WINDOWS):  # what has left is not followed any further
            grid = end + np.linspace(0.0, max(WINDOW / self.rate, LONGER * end), GRID + 1)
            batch, end = solve_many(self.model, states, grid, rtol=self.rtol), grid[-1]
            gone = np.any(batch.eps_g < self.level, axis=1)
            exits[waiting[gone]] = [first_below(grid, row, self.level) for row in batch.eps_g[gone]]
            waiting, left = waiting[~gone], np.flatnonzero(~gone)
            if not waiting.size:
                return exits
            states = [batch[int(j)][-1] for j in left]
            self._check_falling(batch, left, end)
        raise ValueError(
            f"level = {self.level:g}: the search for it was given up at alpha = {end:.6g}, where eps_g is still "
            f"{batch.eps_g[left, -1].max():.6g}, and moves. Expected a higher level; or solve, with stop = level."
        )

    def _check_falling(self, batch, left, end):
        """Refuse levels under an error at which a curve has come to rest: nothing moves, and no mode grows."""
        first, last = batch.eps_g[left][:, [0, -1]].T
        if not np.all(np.isfinite(last)):
            raise ValueError(f"level = {self.level:g} is not reached: {batch.message[left[~np.isfinite(last)][0]]}")
        for j in left[np.abs(last - first) <= max(STILL, self.rtol) * first][:1]:
            state = batch[int(j)][-1]
            if not growing_rates(self.model, state, FLAT).size:
                raise ValueError(
                    f"level = {self.level:g} is not reached: the search was given up at alpha = {end:.6g}, where eps_g "
                    f"has come to rest at {_error(self.model, state):.6g}. Expected a higher level, or less noise."
                )

    def of_one(self, x):
        """Times at many growing parts x (m,) of one mode, from a table on both sides of zero."""
        exits = np.empty_like(x)
        for sign in (1.0, -1.0):
            side = sign * x > 0
            if not side.any():
                continue
            u = np.log(np.abs(x[side]))
            grid = np.linspace(np.min(u) - 1, np.max(u), TABLE)  # longer than the one draw that a side may have
            exits[side] = CubicSpline(grid, self(sign * np.exp(grid)[:, None]))(u)
        return exits
