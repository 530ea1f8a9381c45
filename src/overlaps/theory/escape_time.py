r"""When SGD at finite N leaves a plateau: the law of a random time.

The noise of the whole transient counts once, as an extra variance of the growing part of the start: in law SGD leaves
like the equations of N -> infinity do, from a start that is moved along one direction.
"""

import warnings
from dataclasses import dataclass, replace

import numpy as np
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicSpline
from scipy.linalg import eig
from scipy.special import ndtri

from .._base import check
from .._base.record import Record
from .._base.types import Rng
from ..finite_size.expansion import Coefficients, checked_size, start_covariance
from ..finite_size.noise import Rule, degree
from ..finite_size.transport import Path
from ..finite_size.unknowns import Unknowns
from ..flow.closure import generalisation_error
from ..flow.jacobian import jacobian
from ..gaussian.two_point import QUADRATIC
from ..models.model import Model
from ..models.state import State
from ..solve import solve
from ..stability.fixed_points import fixed_point

__all__ = ["EscapeLaw", "escape"]

SAME = 1e-6  # relative difference of growth rates that are one
REST = 1e-5  # largest velocity near the plateau, relative to overlaps and eta; later rounding breaks symmetries
DOUBLINGS = 14  # of the time in which a plateau is looked for
TABLE = 25  # values of ln |x| at which the equations are solved
LINEAR = 1e-6  # x, relative to the largest, below which the time is a logarithm
DRAWS = 2**12  # midpoints of the law of x
SEVERAL = 2**8  # points of it where several modes grow


@dataclass(frozen=True, eq=False, repr=False)
class EscapeLaw(Record):
    """Law of the time at which eps_g falls below a level; made by :func:`escape`, with the equations there.

    Attributes
    ----------
    N, level : int, float
        Input dimension, and the error that is waited for.
    rate, modes : float, int
        Growth rate on the plateau, and how many modes have it.
    kappa : float
        Variance that the noise of the transient adds to the growing part of the start, in units of that of random
        weights.
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

    def __repr__(self):
        return (
            f"EscapeLaw(N={self.N}, level={self.level:g}, {self.modes} modes, rate={self.rate:.6g}, "
            f"mean={self.mean:.6g}, std={self.std:.3g})"
        )


def escape(
    model: Model, start: State, N: int, level: float, *, student_scale: float = 1.0, points: int = 2**14, rng: Rng = 0
) -> "EscapeLaw":
    r"""Law of the time at which eps_g of SGD at input dimension N falls below a level beneath the plateau.

    .. math:: T_{\rm SGD} = T_{\rm ODE}\big({\rm start} + e_0\zeta/\sqrt N\big) \ \text{in law}, \quad
       \zeta \sim N(0, \kappa), \qquad
       \kappa = \int_0^\infty e^{-2\lambda\alpha} G D G^T d\alpha, \quad \dot G = -G(J - \lambda), \quad
       e_0 = G_0^T(G_0G_0^T)^{-1}

    along the path of the start averaged over the symmetries of the students, which ends on the plateau; lambda is the
    growth rate there, and G its left eigenvectors carried back.

    Parameters
    ----------
    model : Model
        With students of equal second layers.
    start : "random" or State
        Random weights of students (of variance student_scale^2) and teachers; or overlaps met exactly by all runs.
    N : int
        Input dimension.
    level : float
        eps_g to fall below, under that of the plateau.
    student_scale : float
        Standard deviation of random student weights.
    points, rng : int, int or numpy.random.Generator
        As in :func:`overlaps.fluctuations`.

    Returns
    -------
    EscapeLaw
        ``rate``, ``modes``, ``kappa``, ``plateau``, ``mean``, ``std``, ``quantile(q)``.

    Raises
    ------
    ValueError
        Models that :func:`overlaps.fluctuations` refuses; no plateau on the symmetric path, no growing mode there
        ("nothing to escape from"), or several that are not those of quadratic networks, for which no law is
        established; a level above the plateau; a level that is never reached, with the eps_g that is.

    Notes
    -----
    Asymptotic, with errors of order ln N/sqrt(N) relative to 1/lambda: against runs of random starts the mean comes out
    late by .07 to .09 of 1/lambda at N = 200 and 1000 (the equations alone: .2). From a symmetric start the equations
    never escape, SGD does. Derived here.

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.committee_machine(2, 2, eta=1.5)
    >>> law = ov.theory.escape(model, "random", 1000, 0.0173, points=1024)
    >>> law.modes, round(law.rate, 8)
    (1, 0.076364)
    """
    check.needs(model, "theory.escape")
    N = checked_size(model, N)
    level, scale = check.number("level", level, above=0), check.number("student_scale", student_scale, least=0)
    points, rng = check.count("points", points, least=64), check.generator(rng)
    if isinstance(start, str):
        check.choice("start", start, ("random",), "Or a State.")
    else:
        start = check.state(start).on(model)
        if not start.sees_inputs:
            raise ValueError("start has a teacher that acts on latents; expected one that acts on the inputs x.")
    drawn = _random_mean(model, scale)
    base = drawn if isinstance(start, str) else replace(start, alpha=0.0)
    reference = _symmetric(model, base)
    end, plateau = _plateau(model, reference)
    error = float(generalisation_error(model, plateau.S[None], plateau.v[None])[0])
    if level >= error:
        raise ValueError(f"level = {level:g}; expected below the error of the plateau, {error:.6g}.")
    unknowns = Unknowns(model, reference, False)
    pack = unknowns.system.pack
    rate, left = _growing(model, unknowns, pack(plateau))
    modes = len(left)
    G0, kappa = _noise(model, reference, unknowns, end, rate, left, points, rng, pack(plateau))
    c0 = G0 @ start_covariance(Unknowns(model, drawn, False)) @ G0.T
    variance, shift = (c0 + kappa, np.zeros(modes)) if isinstance(start, str) else (
        kappa, G0 @ (pack(base) - pack(reference))
    )  # fmt: skip
    e0 = G0.T @ np.linalg.inv(G0 @ G0.T)
    times = _Times(model, base, unknowns, e0, shift, level, rate, end)
    root = np.linalg.cholesky(variance / N)
    if modes == 1:
        z = ndtri((np.arange(DRAWS) + 0.5) / DRAWS)
        found = times.of_one(shift[0] + root[0, 0] * z)
    else:
        from scipy.stats import qmc

        z = ndtri(qmc.Sobol(modes, seed=rng).random(SEVERAL))
        found = np.array([times(shift + root @ x) for x in z])
    unit = float(np.trace(kappa) / np.trace(c0)) if np.trace(c0) > 0 else np.inf
    return EscapeLaw(N, level, rate, modes, unit, error, np.sort(found))


def _random_mean(model, scale):
    """Mean overlaps of random weights."""
    p, K, M = np.array(model.spectrum.p)[:, None, None], model.K, model.M
    r = np.zeros((len(p), K, M))
    return State.from_blocks(model, q=scale**2 * p * np.eye(K), r=r, t=p * np.eye(M))


def _symmetric(model, state):
    """The state averaged over permutations of the students, and over their signs where g is even."""
    if np.ptp(state.v) > 1e-12 * np.max(np.abs(state.v)):
        raise ValueError("the students have different second layers; expected equal v: no symmetry holds a plateau.")
    K, q = model.K, state.q
    diagonal = np.einsum("lii->l", q) / K
    apart = (q.sum(axis=(1, 2)) - K * diagonal) / max(K * (K - 1), 1)
    r = np.broadcast_to(state.r.mean(axis=1, keepdims=True), state.r.shape)
    x = np.linspace(0.1, 3.0, 8)
    if np.allclose(model.activation.g(x), model.activation.g(-x)):
        apart, r = 0 * apart, np.zeros_like(r)
    one = np.eye(K)
    return replace(state, q=diagonal[:, None, None] * one + apart[:, None, None] * (1 - one), r=r, alpha=0.0)


def _plateau(model, reference):
    """When the symmetric path has come to rest, and the plateau, polished in the overlaps that move."""
    unknowns = Unknowns(model, reference, False)
    length, state = 1.0 / model.eta, reference
    for _ in range(DOUBLINGS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # what it says becomes an error
            path = solve(model, reference, [length])
        if not path.success:
            raise ValueError(f"the symmetric path ends on no plateau: {path.message}")
        state = path[0]
        y = unknowns.system.pack(state)
        if np.max(np.abs(unknowns.system.rhs(0.0, y))) < REST * model.eta * np.max(np.abs(y)):
            found = fixed_point(model, replace(_symmetric(model, state), alpha=0.0))
            if not found.converged:
                raise ValueError(f"the symmetric path comes to rest at no fixed point: {found.message}")
            return length, found.state
        length *= 2
    raise ValueError(
        f"the symmetric path does not come to rest before alpha = {length:g}: no plateau that SGD would have to leave."
    )


def _growing(model, unknowns, y):
    """Growth rate on the plateau, and the left eigenvectors (n_u, n) of its modes."""
    values, left, right = eig(jacobian(unknowns.system, y), left=True)
    rate = float(values.real.max())
    if rate <= SAME * np.max(np.abs(values)):
        raise ValueError("no mode grows on the plateau that the symmetric path ends on: nothing to escape from.")
    if np.max(np.abs(values.imag[values.real > rate * (1 - SAME)])) > SAME * rate:
        raise ValueError("the growing modes of the plateau oscillate; no law of the escape is known.")
    chosen = values.real > rate * (1 - SAME)
    growing = int(np.sum(values.real > SAME * np.max(np.abs(values))))
    several = model.activation.code == QUADRATIC and degree(model.teacher_activation) == 2
    if growing > 1 and not several:
        raise ValueError(
            f"{growing} modes grow on the plateau; the law of the escape is established for one, and for quadratic "
            "networks. Simulate: ov.simulate(model, N=, alpha=, rng=, runs=)."
        )
    L, E = left[:, chosen].real, right[:, chosen].real
    return rate, np.linalg.solve(E.T @ L, L.T)


def _noise(model, reference, unknowns, end, rate, left, points, rng, y_plateau):
    """G (n_u, n) at the start, and kappa (n_u, n_u)."""
    path = solve(model, reference, [0.0, end])
    terms = Coefficients(unknowns, Path(path, unknowns.packing.pack), Rule.of(model, points, rng))
    modes, n = left.shape

    def velocity(alpha, x):
        G = x[: modes * n].reshape(modes, n)
        J, D, _ = terms(np.array([alpha]))
        return np.concatenate([
            (-G @ (J[0] - rate * np.eye(n))).ravel(), (-np.exp(-2 * rate * alpha) * G @ D[0] @ G.T).ravel()
        ])  # fmt: skip

    last = terms(np.array([end]))[1][0]
    tail = left @ last @ left.T * np.exp(-2 * rate * end) / (2 * rate)
    run = solve_ivp(velocity, (end, 0.0), np.concatenate([left.ravel(), tail.ravel()]), rtol=1e-8, atol=1e-10)
    G, kappa = np.split(run.y[:, -1], [modes * n])
    kappa = kappa.reshape(modes, modes)
    return G.reshape(modes, n), (kappa + kappa.T) / 2


class _Times:
    """T_ODE at starts with the growing part x."""

    def __init__(self, model, base, unknowns, e0, shift, level, rate, end):
        self.model, self.base, self.e0, self.shift = model, base, e0, shift
        self.system, self.level, self.rate, self.end = unknowns.system, level, rate, end

    def __call__(self, x):
        """The time from the start with growing part x (n_u,)."""
        y = self.system.pack(self.base) + self.e0 @ (x - self.shift)
        size = float(np.linalg.norm(self.e0 @ x)) + 1e-300
        length = self.end + (30 + max(0.0, -np.log(size))) / self.rate
        start = replace(self.system.state(y), v=self.base.v)
        traj = solve(self.model, start, [0.0, length], stop=self.level)
        if traj.eps_g[-1] > self.level * (1 + 1e-6):
            raise ValueError(
                f"level = {self.level:g} is not reached: eps_g is {traj.eps_g[-1]:.6g} at alpha = {length:.6g}. "
                "Expected a higher level, or less noise."
            )
        return traj.alpha[-1]

    def of_one(self, x):
        """Times at many growing parts x (m,) of one mode, from a table on both sides of zero."""
        found = np.empty_like(x)
        for sign in (1.0, -1.0):
            side = sign * x > 0
            if not side.any():
                continue
            large = np.max(np.abs(x[side]))
            least = max(np.min(np.abs(x[side])), LINEAR * large)
            grid = np.linspace(np.log(least), np.log(large), TABLE)
            table = CubicSpline(grid, [self(np.array([sign * size])) for size in np.exp(grid).tolist()])
            u = np.log(np.abs(x[side]))
            found[side] = table(np.maximum(u, grid[0])) + np.maximum(grid[0] - u, 0.0) / self.rate
        return found
