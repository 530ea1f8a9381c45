r"""Law of the random time at which SGD at finite N leaves a plateau.

The noise of the whole transient acts like an extra variance of the growing modes at the start. In law, SGD leaves the
plateau like the equations of N -> infinity from a random start, moved along one direction for each growing mode.
"""

from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicSpline
from scipy.linalg import schur, solve_continuous_lyapunov
from scipy.special import ndtri
from scipy.stats import qmc

from .._base import Immutable, Rng, by_name, check, quietly
from ..dynamics import solve, solve_many
from ..flow.closure import generalisation_error
from ..flow.jacobian import jacobian
from ..models import Model, State
from ..models.features import check_features
from ..models.state import of_state
from ..results.curves import first_below
from ..stability.equator import hidden_reason, on_equator
from ..stability.fixed_points import fixed_point
from ..stability.linear import growing_rates
from ..stability.symmetry import is_even, mean_overlaps
from .generic_plateau import random_mean
from .linear_noise import PathCoefficients, checked_size, start_covariance
from .noise_covariance import FieldPoints
from .transport import Path
from .unknowns import Unknowns

__all__ = ["EscapeLaw", "escape"]


class EscapeOptions(NamedTuple):
    """Tunable numbers of the law of the escape."""

    # Rate, relative to the fastest, below which a mode does not grow. Growing modes oscillate if their imaginary part
    # exceeds this fraction of the growth.
    growth_tol: float = 1e-6
    # Velocity, relative to overlaps and eta, below which the symmetric path has reached the plateau. Smaller: rounding
    # may break the symmetry before.
    rest_tol: float = 1e-5
    plateau_tol: float = 1e-6  # The same for the change of the fixed point from one doubling of the time to the next.
    height_tol: float = 0.2  # Largest relative distance of eps_g on the path from that of the fixed point found.
    max_doublings: int = 14  # Doublings of the time 1/eta; a path that still moves has no plateau.
    # Growth times of the path. Longer: rounding breaks its symmetry; laws of 8 and of 40 agree to 1e-6.
    path_length: int = 20
    table_size: int = 25  # Values of ln |x| at which the equations are solved; times in between are interpolated.
    n_midpoints: int = 2**12  # Midpoints of the law of x where one mode grows.
    n_sobol: int = 2**10  # Points of the law of x where several modes grow; the mean has an error of about std/32.
    # Relative error of averages of four forces of a learning rule. Kappa is accurate to about ten times this.
    moment_tol: float = 1e-3
    # Relative difference of the velocity from its average over the students above which students are not equivalent.
    equivalence_tol: float = 1e-2
    window_length: float = 6  # Growth times of a window, in which all starts are integrated together.
    window_fraction: float = 0.125  # Least length of a window over the time since the start: windows grow with time.
    n_grid: int = 64  # Intervals of a window at whose ends eps_g is compared with the level.
    max_windows: int = 100  # The search for a level ends after these windows: 2e6 growth times.
    # Relative change of eps_g in a window below which the curve may be at rest. Larger: rates are computed more often.
    still_tol: float = 1e-9


ESCAPE = EscapeOptions()


class EscapeLaw(Immutable):
    """Law of the time at which eps_g falls below a level; see :func:`overlaps.analysis.escape_time.escape`.

    Attributes
    ----------
    N, level : int, float
        Input dimension, and the level of eps_g that ends the plateau.
    rate, modes : float, int
        Largest growth rate on the plateau, and how many modes grow.
    kappa : float
        Variance that the noise of the transient adds to the growing component of the start, in units of the variance
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
        """The law for the first record of a trajectory; see :func:`overlaps.analysis.escape_time.escape`."""
        return escape(trajectory.model, trajectory[0], N, level, **options)


@of_state
@by_name('ov.theory.escape(model, "random", 1000)')
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
        With students of equal second layers. A learning rule has to treat its units alike. By default that of the
        state, ``escape(state, N)``.
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
        Models that :func:`overlaps.fluctuations` refuses; one student at R = 0 where no overlap grows to first order
        (information exponent of 3 or more), or where the noise of the steps holds it (eta too large); no plateau on the
        symmetric path, no mode that grows ("expected one that grows"), or oscillating ones; a level above the plateau;
        a level under the error at which curves become stationary, or not reached after 2e6 growth times, with the eps_g
        and alpha of the end.
    KeyboardInterrupt
        Ctrl-C: there is no partial result.

    Notes
    -----
    One student whose flow keeps R = 0 leaves from there: even units, and targets and rules of information exponent 2,
    on the sphere (``constraint="sphere"``) or free.

    Asymptotic, with errors of order ln N/sqrt(N) relative to 1/lambda: against runs of random starts the mean comes out
    late by .07 to .09 of 1/lambda at N = 200 and 1000 (the equations alone: .2). From a symmetric start SGD escapes,
    the equations never do. Where several modes grow the time depends on the direction of zeta among them: the law is
    taken from 1024 quasi-random draws, with an error of the mean of about std/32. Modes slower than 1e-6 of the fastest
    eigenvalue are flat, not growing. For learning rules (:class:`overlaps.Rule`) permutations are the only symmetry,
    and kappa is accurate to about 1e-2. Derived here.

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
        raise ValueError("the students have different second layers; expected equal v, which make a plateau.")
    signs = is_even(model) or on_equator(model, base) is not None
    reference = _symmetric(model, base, signs)
    if model.K > 1:
        _check_equivalent(model, reference, signs)
    plateau = _plateau(model, reference, signs)
    error = _error(model, plateau)
    level = error / 2 if level is None else level
    if level >= error:
        raise ValueError(f"level = {level:g}; expected below the error of the plateau, {error:.6g}.")
    unknowns = Unknowns(model, reference, False)
    pack = unknowns.system.pack
    if model.K == 1 and signs and (reason := hidden_reason(model, plateau)):
        raise ValueError(f"{reason}.")
    rates, left = _growing(unknowns, pack(plateau))
    modes, rate = len(left), float(np.linalg.eigvals(rates).real.max())
    end, field_points = ESCAPE.path_length / rate, FieldPoints.of(model, points, rng, ESCAPE.moment_tol)
    G0, kappa = _noise(model, reference, unknowns, end, rates, left, field_points, signs)
    Sigma = start_covariance(Unknowns(model, drawn if scale else random_mean(model, 1.0), False))
    c0 = G0 @ Sigma @ G0.T
    variance, shift = (c0 + kappa, np.zeros(modes)) if isinstance(start, str) else (
        kappa, G0 @ (pack(base) - pack(reference))
    )  # fmt: skip
    # the most likely change of random weights with a given growing component; other changes may be overlaps of no
    # vectors
    e0 = Sigma @ G0.T @ np.linalg.inv(c0)
    times = _Times(model, base, unknowns, e0, shift, level, rate, N)
    root = np.linalg.cholesky(variance / N)
    if modes == 1:
        z = ndtri((np.arange(ESCAPE.n_midpoints) + 0.5) / ESCAPE.n_midpoints)
        exits = times.interpolated(shift[0] + root[0, 0] * z)
    else:
        z = ndtri(qmc.Sobol(modes, seed=rng).random(ESCAPE.n_sobol))
        exits = times(shift + z @ root.T)
    return EscapeLaw(N, level, rate, modes, float(np.trace(np.linalg.solve(c0, kappa)) / modes), error, np.sort(exits))


def _symmetric(model, state, signs):
    """The state averaged over permutations of the students, and over their ``signs``."""
    q, r = _over_students(model, state.q, state.r, signs)
    return replace(state, q=q, r=r, v=np.full_like(state.v, state.v.mean()), alpha=0.0)


def _check_equivalent(model, reference, signs):
    """Refuse learning rules that drive equal units in different ways: their plateau is not symmetric."""
    system = Unknowns(model, reference, False).system
    dy = system.rhs(0.0, system.pack(reference))
    q, r, v = system.unpack(dy)
    v = np.mean(v, axis=-1, keepdims=True) + 0 * v
    q, r = _over_students(model, q, r, signs)
    if np.max(np.abs(dy - system.packing.pack(q, r, v))) > ESCAPE.equivalence_tol * np.max(np.abs(dy)):
        raise ValueError(f"{model} drives equal students in different ways; expected a rule that treats them alike.")


def _over_students(model, q, r, signs):
    """Overlaps q (L, K, K), r (L, K, M) averaged over permutations of the students, and over ``signs`` if true.

    That is where g is even, and for one student on the equator.
    """
    return mean_overlaps(q, r, [np.arange(model.K)], [signs])


def _plateau(model, reference, signs):
    """The fixed point at the end of the symmetric path, averaged over the ``signs`` of students, too.

    Rounding breaks the symmetry of the path before it is at rest. The plateau is therefore the fixed point that
    Newton's method finds from two successive doublings of the time, if eps_g of the path is close to its own.
    """
    unknowns, state, length, before = Unknowns(model, reference, False), reference, 1.0 / model.eta, None
    pack, begin = unknowns.system.pack, 0.0
    for _ in range(ESCAPE.max_doublings):
        with quietly():  # failures raise below, or the time is doubled
            path = solve(model, state, [length - begin])
            if not path.success:
                raise ValueError(f"the symmetric path ends on no plateau: {path.message}")
            begin, state = length, _symmetric(model, path[0], signs)
            point = fixed_point(model, state)
        y = pack(state)
        at_rest = np.max(np.abs(unknowns.system.rhs(0.0, y))) < ESCAPE.rest_tol * model.eta * np.max(np.abs(y))
        if at_rest and not point.converged:
            raise ValueError(f"the symmetric path does not end at a fixed point: {point.message}")
        reached, height = _error(model, state), _error(model, point.state) if point.converged else np.nan
        if abs(reached - height) <= ESCAPE.height_tol * height:
            y = pack(point.state)
            if at_rest or (before is not None and np.max(np.abs(y - before)) < ESCAPE.plateau_tol * np.max(np.abs(y))):
                return point.state
            before = y
        else:
            before = None
        length *= 2
    raise ValueError(
        f"the symmetric path is not stationary before alpha = {length:g}; expected a plateau that SGD leaves."
    )


def _error(model, state):
    return float(generalisation_error(model, state.S[None], state.v[None])[0])


def _growing(unknowns, y):
    """Growing modes on the plateau: Lambda (n_u, n_u), and W (n_u, n) with W J = Lambda W.

    Invariant subspaces by ordered Schur forms, because eigenvectors of equal rates from ``eig`` are nearly dependent.
    """
    J = jacobian(unknowns.system, y)
    values = np.linalg.eigvals(J)
    least = ESCAPE.growth_tol * np.max(np.abs(values))
    growing = values[values.real > least]
    if not growing.size:
        raise ValueError("no mode grows on the plateau at the end of the symmetric path; expected one that grows.")
    if np.max(np.abs(growing.imag)) > ESCAPE.growth_tol * growing.real.max():
        raise ValueError("the growing modes of the plateau oscillate; no law of the escape is known.")

    def subspace(matrix):
        _, Z, n = schur(matrix, output="real", sort=lambda real, imaginary=0.0: np.real(real) > least)
        return Z[:, :n]

    V, U = subspace(J), subspace(J.T)
    W = np.linalg.solve(U.T @ V, U.T)
    return W @ J @ V, W


def _noise(model, reference, unknowns, end, rates, left, field_points, signs):
    """G (n_u, n) at the start, in an orthonormal basis, and kappa (n_u, n_u) in the same."""
    path = solve(model, reference, [0.0, end])

    def pack(q, r, v):  # averaged again: removes rounding, which grows along the path
        return unknowns.packing.pack(*_over_students(model, q, r, signs), v)

    terms = PathCoefficients(unknowns, Path(path, pack), field_points)
    modes, n = left.shape

    def velocity(alpha, x):
        G = x[: modes * n].reshape(modes, n)
        J, D, _ = terms(np.array([alpha]))
        return -np.concatenate([(G @ J[0]).ravel(), (G @ D[0] @ G.T).ravel()])

    G, kappa = left, solve_continuous_lyapunov(rates, left @ terms(np.array([end]))[1][0] @ left.T)
    for span in pairwise(np.linspace(end, 0.0, ESCAPE.path_length + 1)):
        run = solve_ivp(velocity, span, np.concatenate([G.ravel(), kappa.ravel()]), rtol=1e-8, atol=1e-10)
        G, kappa = (x.reshape(modes, -1) for x in np.split(run.y[:, -1], [modes * n]))
        # orthonormalise: the basis becomes nearly parallel where modes grow at different rates
        basis, weights = np.linalg.qr(G.T)
        G, kappa = basis.T, np.linalg.solve(weights.T, np.linalg.solve(weights.T, kappa).T)
    return G, (kappa + kappa.T) / 2


class _Times:
    """Times T_ODE from starts with given growing components x."""

    def __init__(self, model, base, unknowns, e0, shift, level, rate, N):
        self.model, self.base, self.e0, self.shift = model, base, e0, shift
        self.rtol = float(np.clip(1e-4 / np.sqrt(N), 1e-12, 1e-6))  # 1e-4 of the growing component, of order 1/sqrt(N)
        self.system, self.level, self.rate = unknowns.system, level, rate

    def __call__(self, x):
        """Times from the starts with growing components x (n, n_u)."""
        y = self.system.pack(self.base) + (x - self.shift) @ self.e0.T
        states = [replace(self.system.state(row), v=self.base.v) for row in y]
        exits, waiting, end = np.full(len(x), np.nan), np.arange(len(x)), 0.0
        for _ in range(ESCAPE.max_windows):  # each window continues only the curves that are still above the level
            window = max(ESCAPE.window_length / self.rate, ESCAPE.window_fraction * end)
            grid = end + np.linspace(0.0, window, ESCAPE.n_grid + 1)
            batch, end = solve_many(self.model, states, grid, rtol=self.rtol), grid[-1]
            below = np.any(batch.eps_g < self.level, axis=1)
            exits[waiting[below]] = [first_below(grid, row, self.level) for row in batch.eps_g[below]]
            waiting, left = waiting[~below], np.flatnonzero(~below)
            if not waiting.size:
                return exits
            states = [batch[int(j)][-1] for j in left]
            self._check_falling(batch, left, end)
        raise ValueError(
            f"level = {self.level:g}: the search for it ended at alpha = {end:.6g}, where eps_g is "
            f"{batch.eps_g[left, -1].max():.6g} and still changes. Expected a higher level; or solve with stop=level."
        )

    def _check_falling(self, batch, left, end):
        """Refuse levels below the error at which a curve is stationary: a fixed point without growing modes."""
        first, last = batch.eps_g[left][:, [0, -1]].T
        if not np.all(np.isfinite(last)):
            raise ValueError(f"level = {self.level:g} is not reached: {batch.message[left[~np.isfinite(last)][0]]}")
        for j in left[np.abs(last - first) <= max(ESCAPE.still_tol, self.rtol) * first][:1]:
            state = batch[int(j)][-1]
            if not growing_rates(self.model, state, ESCAPE.growth_tol).size:
                raise ValueError(
                    f"level = {self.level:g} is not reached: the search ended at alpha = {end:.6g}, where eps_g "
                    f"is stationary at {_error(self.model, state):.6g}. Expected a higher level, or less noise."
                )

    def interpolated(self, x):
        """Times at the growing components x (m,) of one mode, interpolated from a table on each side of zero."""
        exits = np.empty_like(x)
        for sign in (1.0, -1.0):
            side = sign * x > 0
            if not side.any():
                continue
            u = np.log(np.abs(x[side]))
            grid = np.linspace(np.min(u) - 1, np.max(u), ESCAPE.table_size)  # - 1: a side may have a single value
            exits[side] = CubicSpline(grid, self(sign * np.exp(grid)[:, None]))(u)
        return exits
