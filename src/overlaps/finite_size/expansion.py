"""Fluctuations of SGD at finite N around the equations: covariance and mean along a trajectory."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from .._base import Floats, Immutable, Rng, check, warn
from ..models import Mixed, Model
from ..models.features import check_features
from ..models.state import gram
from ..results import files, labelled, plotting
from ..results.trajectory import Trajectory
from .noise import SCRAMBLES, FieldPoints, Increments, product_covariance, teachers
from .transport import Path, extrapolate, propagate
from .unknowns import Unknowns

# Numbers that fluctuate. Above, each matrix of a path has more than 32 MB, and the model is refused with a remedy.
LARGEST = 2000
# Intervals between nodes to begin with. They are halved where splines miss their middles; fewer would miss a narrow
# escape altogether.
NODES = 16
MOST_NODES = {True: 1000, False: 120}
# Halvings of an interval. With more, nodes gather where a sampled integral jumps, and splines amplify rounding of J.
HALVINGS = 10
# Splines of sampled integrals may be this much worse: nodes that follow the sampling error are wasted.
SAMPLED = 10.0
ROUGH = 100.0  # times the rounding of C at which its products are rough: no nodes are spent on that
# With more than FEW unknowns an accuracy of COARSE is enough: finer matrices cost too much.
FEW, COARSE = 24, 1e-5
# Below this tr C / eta^2 the derivatives of C cancel: E[F F h h] is taken from sample points instead.
VANISHING = 1e-6
# Variance relative to the largest overlap. Above, the expansion is no small correction any more, and the result warns.
LARGE = 0.05
# Relative error of std("eps_g"). Below, it is less than that of the spread of 200 runs, 1/sqrt(400); above, runs say as
# much, and four scrambles, which miss heavy tails together, may say half of the error: the result warns.
INEXACT = 0.05


@dataclass(frozen=True, eq=False, repr=False)
class Fluctuations(Immutable):
    """Mean, covariance and bands of SGD at one N; made by :func:`fluctuations`, with the equations there.

    Attributes
    ----------
    trajectory : Trajectory
        The solution of the equations, N -> infinity.
    N : int
        Input dimension.
    start : str
        "fixed" or "random".
    covariances, shifts : ndarray, shape (n, d, d), (n, d)
        N times the covariance and N times the shift of the mean of all unknowns, in the order of the packed overlaps.
    gradients, bends : ndarray, shape (n, d), (n,)
        Gradient of eps_g, and its second derivative contracted with the covariance.
    error : float
        Relative error of std("eps_g") at the last time: quadrature and transport.
    """

    trajectory: Trajectory
    N: int
    start: str
    covariances: np.ndarray
    shifts: np.ndarray
    gradients: np.ndarray
    bends: np.ndarray
    error: float

    @property
    def model(self) -> Model:
        """The model that was learned."""
        return self.trajectory.model

    @property
    def alpha(self) -> Floats:
        """Learning times (n,) of the trajectory."""
        return self.trajectory.alpha

    def __len__(self) -> int:
        return self.alpha.size

    def mean(self, name: str) -> Floats:
        """Mean over runs, to order 1/N, of the ``name`` "Q" (n, K, K), "R" (n, K, M), "v" (n, K) or "eps_g" (n,)."""
        rows, shape = self._rows(name)
        shift = np.einsum("nad,nd->na", rows, self.shifts)
        if name == "eps_g":
            shift = shift + self.bends[:, None] / 2
        return getattr(self.trajectory, name) + shift.reshape(shape) / self.N

    def covariance(self, a: str, b: str | None = None) -> Floats:
        """Covariance over runs at this N of two of the names, (n, shape of a, shape of b); of one with itself."""
        (left, shape), (right, other) = self._rows(a, "a"), self._rows(a if b is None else b, "b")
        return (np.einsum("nad,nde,nbe->nab", left, self.covariances, right) / self.N).reshape(*shape, *other[1:])

    def std(self, name: str) -> Floats:
        """Standard deviation over runs at this N of the curve ``name``; shapes as in :meth:`mean`."""
        rows, shape = self._rows(name)
        variance = np.einsum("nad,nde,nae->na", rows, self.covariances, rows) / self.N
        return np.sqrt(np.maximum(variance, 0.0)).reshape(shape)

    def at_N(self, N: int) -> "Fluctuations":
        """The same at another N, without new integrals; raises ``ValueError`` for an N that does not fit the model."""
        return _warned(replace(self, N=checked_size(self.model, N)))

    save = files.save
    to_pandas = labelled.frame_of_fluctuations
    plot = plotting.plot_fluctuations

    def _rows(self, name, argument="name"):
        """Rows (n or 1, entries, d) that read a name off the unknowns, and the shape of the curve."""
        check.choice(argument, name, ("Q", "R", "v", "eps_g"))
        n, (K, M) = len(self), (self.model.K, self.model.M)
        if name == "eps_g":
            return self.gradients[:, None, :], (n,)
        arguments = Unknowns(self.model, self.trajectory[0], self.start == "random").arguments
        triangle, crossed = K * (K + 1) // 2, K * M
        if name == "R":
            rows = arguments[triangle : triangle + crossed]
        elif name == "v" and self.model.trains_v:
            rows = arguments[triangle + crossed :][: self.trajectory.v[0].size]
        elif name == "v":
            rows = np.zeros((self.trajectory.v[0].size, arguments.shape[1]))
        else:
            place, (i, j) = np.zeros((K, K), int), np.triu_indices(K)
            place[i, j] = place[j, i] = np.arange(triangle)
            rows = arguments[place.ravel()]
        return np.broadcast_to(rows, (n, *rows.shape)), getattr(self.trajectory, name).shape

    def __repr__(self):
        size = f"N={self.N}, alpha {self.alpha[0]:g}..{self.alpha[-1]:g}, n={len(self)}, start={self.start!r}"
        return f"{type(self).__name__}({self.model}, {size}, error={self.error:.1e})"


def fluctuations(
    trajectory: Trajectory, N: int, *, start: Literal["fixed", "random"] = "fixed", points: int = 2**14, rng: Rng = 0
) -> "Fluctuations":
    r"""Mean and covariance of SGD at input dimension N around a solution of the equations, without simulation.

    .. math:: {\rm Cov}(y) = \Sigma/N, \quad \dot\Sigma = J\Sigma + \Sigma J^T + D, \qquad
       \langle y\rangle = y_{\rm ODE} + m_1/N, \quad
       \dot m_1 = J m_1 + \tfrac12 f'' : \Sigma + c - \tfrac12 J f

    with J the Jacobian of the flow f, D the covariance of what one step adds to the overlaps, c what the steps add to
    the mean beyond the flow (lengths of the inputs, pairs of samples in a batch, decay), and -Jf/2 the difference of
    steps of 1/N and a continuous time.

    Parameters
    ----------
    trajectory : Trajectory
        From :func:`overlaps.solve`, with the overlaps of the blocks, of SGD (no ``gradient_flow``) without a schedule.
        Fluctuations begin at its first record.
    N : int
        Input dimension, above K + M and such that the blocks p_l N are whole.
    start : {"fixed", "random"}
        Overlaps of all runs at the first record are those of the trajectory ("fixed", as in ``simulate(start=...)``),
        or those of Gaussian weights, teachers included, of which the trajectory holds the mean ("random": the law of
        ``model.random_start`` for a trajectory from q^l = student_scale^2 p_l 1, r^l = 0, t^l = p_l 1).
    points : int
        Points of the integrals in D: quadrature exact for polynomial activations where eight times as many suffice,
        else scrambled Sobol points.
    rng : int or numpy.random.Generator
        Seed of the scrambling.

    Returns
    -------
    Fluctuations
        ``mean``, ``std``, ``covariance`` of "Q", "R", "v", "eps_g"; ``at_N``, ``plot``, ``error``.

    Raises
    ------
    ValueError
        Before any work: a gradient flow (it has no noise of SGD), a hidden manifold (weights, features and latents
        fluctuate together), directions of low rank, a schedule, a trajectory that failed or has no blocks, an N that
        does not fit, more than 2000 unknowns; a rule of learning whose force has no fourth moments.
    KeyboardInterrupt
        Ctrl-C: no part of an answer is of use.

    Warns
    -----
    RuntimeWarning
        The variance of some combination of overlaps exceeds 0.05 of the largest overlap: runs leave a plateau at
        different times and their law is not Gaussian; :func:`overlaps.theory.escape_time.escape` has that law. Or
        ``error`` exceeds 0.05: more ``points`` lower it, by their root at least.

    Notes
    -----
    Asymptotic: relative errors are O(1/N) while fluctuations are small. Where the gradient of eps_g vanishes (perfect
    solutions without noise) std("eps_g") is 0, while the true one is of order 1/N, and mean("eps_g") is the curvature
    term. Below eps_g of about 1e-11 rounding hides the noise of the steps.

    Students with a kink that are parallel to another unit have no second derivative: means are nan from there on. They
    are nan, too, from where units other than erf, linear or quadratic are so nearly parallel (lowest eigenvalue of
    their covariance about 0.01 of the largest) that differences would leave the possible overlaps. Where derivatives of
    the closure need differences (``tanh``, ``polynomial``, user functions) they limit the accuracy. Rules of learning
    (:class:`overlaps.Rule`) are averaged at the nodes of their own quadrature, to 1e-5, and their derivatives are
    differences.

    References
    ----------
    Derived here; the expansion is van Kampen's, Stochastic Processes in Physics and Chemistry, chapter X. The
    chain of the overlaps is the one of the reduced simulator.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5)
    >>> start = ov.State.from_overlaps(model, Q=[[0.5]], R=[[0.2]], T=[[1.0]])
    >>> fluct = ov.fluctuations(ov.solve(model, start, [0.0, 1.0]), 400)
    >>> float(fluct.std("eps_g")[-1].round(6)), float((fluct.mean("eps_g") - fluct.trajectory.eps_g)[-1].round(6))
    (0.013778, 0.000142)
    """
    model, N = checked_trajectory(trajectory, N)
    check.choice("start", start, ("fixed", "random"))
    points, rng = check.count("points", points, least=64), check.generator(rng)
    unknowns = Unknowns(model, trajectory[0], start == "random")
    if unknowns.size > LARGEST:
        raise ValueError(
            f"the model has {unknowns.size} fluctuating overlaps; expected at most {LARGEST}. Merge eigenvalues of the "
            "spectrum, or simulate."
        )
    work = _Expansion(unknowns, Path(trajectory, unknowns.packing.pack), FieldPoints.of(model, points, rng))
    Sigma = start_covariance(unknowns) if start == "random" else np.zeros((unknowns.size,) * 2)
    result = _warned(Fluctuations(trajectory, N, start, *work.run(trajectory.alpha, Sigma)))
    if result.error > INEXACT:
        more = f"take points = {8 * points}, or " if model.rule is None else ""
        known = f"fluctuations: std('eps_g') at alpha = {result.alpha[-1]:.6g} is known to {result.error:.1%} only"
        warn(f"{known}: .error, of sampled fields; {more}simulate." + check.see("finite_size", "Without simulation"))
    return result


class PathCoefficients:
    """J and D along a path, tabulated at nodes."""

    def __init__(self, unknowns, path, rule):
        self.unknowns, self.path, self.rule = unknowns, path, rule
        self.increments, goal = Increments(unknowns), rule.goal
        self.goal = max(goal, COARSE) if unknowns.size > FEW else goal
        self.nodes, self.tangents, values = self._tabulated()
        curves = _spline, self._curve, self._curve, _spline
        self.J, self.D, self.groups, self.size = (f(self.nodes, x) for f, x in zip(curves, values, strict=True))

    def _table(self, places):
        """Times and tangents there, with J, D/tr C, the same of each group of points, and ln tr C."""
        times, unknowns = self.path.time(places), self.unknowns
        tangents = [unknowns.at(y) for y in self.path.at(times)]
        values = []
        for tangent in tangents:
            size = max(np.trace(tangent.C), 0.0) + unknowns.model.eta**2 * tangent.floor
            products = product_covariance(unknowns.model, self.rule, tangent.S, tangent.v)
            tangent.products = products[0]
            forces = None if self.rule.exact or unknowns.model.rule is not None else tangent.force_products()
            if forces is not None:  # what remains to be sampled is of third order in eta
                resolved = 1 / (1 + VANISHING * unknowns.model.eta**2 / size)
                block = products[:, : len(forces), : len(forces)]
                block += resolved * (forces - block)
            D, *groups = self.increments(unknowns.blocks(tangent.y), tangent.C, products) / size
            values.append((tangent.dense(), D, np.array(groups), np.log(size)))
        return [(t, x, *v) for t, x, v in zip(times.tolist(), tangents, values, strict=True)]

    def _tabulated(self):
        """(times, tangents, coefficients) at nodes, more of them where splines through the others miss them."""
        last = len(self.path.steps) - 1
        places = np.linspace(0, last, NODES + 1) if last else np.zeros(1)
        rows = dict(zip(places, self._table(places), strict=True))
        open_ = list(zip(places, places[1:], strict=False))
        while open_ and len(rows) < MOST_NODES[self.rule.exact]:
            times, _, *before = zip(*(rows[x] for x in sorted(rows)), strict=True)
            new = np.array([(a + b) / 2 for a, b in open_])
            missed, tabulated = np.zeros(len(new)), self._table(new)
            middles, tangents, *values = zip(*tabulated, strict=True)
            size, floors = np.exp(values[3]), np.array([tangent.floor for tangent in tangents])
            # integrals that are sampled differ by more than their splines from the true ones
            sampled = size / (size + ROUGH * self.unknowns.model.eta**2 * floors) / SAMPLED
            curves = (_spline, 1.0), (self._curve, 1.0 if self.rule.exact else sampled)  # of J and D
            for (curve, weight), nodes, between in zip(curves, before, values, strict=False):
                known = np.array(nodes)
                gap = np.abs(curve(np.array(times), known)(np.array(middles)) - np.array(between))
                missed = np.maximum(missed, weight * np.max(gap, axis=(1, 2)) / max(np.max(np.abs(known)), 1e-300))
            rows.update(zip(new, tabulated, strict=True))
            wide = np.diff(open_, axis=1)[:, 0] > last / NODES / 2**HALVINGS
            halves = zip(new, open_, wide & (missed > self.goal), strict=True)
            open_ = [half for m, (a, b), more in halves if more for half in ((a, m), (m, b))]
        nodes, tangents, *values = zip(*(rows[x] for x in sorted(rows)), strict=True)
        return np.array(nodes), tangents, [np.array(x) for x in values]

    def _curve(self, times, values):
        """Through the covariances of steps: sampled ones of kinked units are rough, which a spline would amplify."""
        from scipy.interpolate import PchipInterpolator  # here: an import that every process would pay

        model = self.unknowns.model
        rough = bool(model.activation.kinks or any(x.kinks for x in teachers(model))) and len(times) > 1
        return PchipInterpolator(times, values, axis=0) if rough else _spline(times, values)

    def __call__(self, times, D=None, source=None):
        """J, D (m, n, n), the given ``D`` in place of the mean ones, and the source of the mean (m, n) or None."""
        noise = np.exp(self.size(times))[:, None, None] * (self.D if D is None else D)(times)
        return self.J(times), noise, None if source is None else source(times)


class _Expansion(PathCoefficients):
    """One computation: coefficients at nodes along the path, then the covariance, then the mean."""

    def run(self, alpha, Sigma):
        """Covariances, shifts, gradients, bends at alpha, and the error."""
        records = [self.unknowns.at(y) for y in self.path.at(alpha)]
        gradients = np.array([t.gradient() for t in records])
        mesh = np.union1d(alpha, self.nodes)
        places, at_nodes = np.searchsorted(mesh, alpha), np.searchsorted(mesh, self.nodes)
        shifts, error, Sigmas = np.zeros((1, len(Sigma))), 0.0, Sigma[None]
        if len(mesh) > 1:
            Sigmas, error = extrapolate(lambda level: propagate(mesh, level, self, Sigma), self.goal)
            rows = zip(self.tangents, Sigmas[at_nodes], self.J(self.nodes), strict=True)
            shifts = self._shifts(mesh, np.array([t.drive(x, J)[0] for t, x, J in rows]), Sigma)
            error = max(error, self._error(mesh, Sigma, gradients[-1]))
        bends = [t.curvature(x)[-1] for t, x in zip(records, Sigmas[places], strict=True)]
        return Sigmas[places], shifts[places], gradients, np.array(bends), error

    def _shifts(self, mesh, source, Sigma):
        """The mean at order 1/N on the mesh; nan from where its source is none."""
        sound = np.isfinite(source).all(axis=1)
        good = len(sound) if sound.all() else int(np.argmin(sound))
        shifts = np.full((len(mesh), len(Sigma)), np.nan)
        shifts[0] = 0.0
        if good > 1:
            reached = mesh <= self.nodes[good - 1]
            terms = partial(self, source=_spline(self.nodes[:good], source[:good]))
            run = lambda level: propagate(mesh[reached], level, terms, Sigma, shifts[0])  # noqa: E731
            shifts[reached] = extrapolate(run, self.goal)[0]
        return shifts

    def _error(self, mesh, Sigma, gradient):
        """Spread of the std of eps_g at the end over the groups of points, relative, and halved."""
        if self.rule.exact:
            return 0.0
        groups = [partial(self, D=lambda t, g=g: self.groups(t)[:, g]) for g in range(SCRAMBLES)]
        stds = [np.sqrt(max(gradient @ propagate(mesh, 0, x, Sigma)[-1] @ gradient, 0.0)) for x in groups]
        return float(np.std(stds, ddof=1) / max(np.mean(stds), 1e-300) / 2)


def _spline(times, values):
    """Quintic spline through values (m, ...) at increasing times; one value is a constant."""
    from scipy.interpolate import make_interp_spline

    if len(times) == 1:
        return lambda t: np.repeat(values, len(t), axis=0)
    return make_interp_spline(times, values, k=min(5, len(times) - 1))


def start_covariance(unknowns):
    """N times the covariance (n, n) of the overlaps of Gaussian weights with the start's mean overlaps."""
    start, model = unknowns.system.start, unknowns.model
    S = gram(*start.plain)
    K, M, L, p = model.K, model.M, unknowns.L, model.spectrum.p
    entries = [(k, K + m) for k in range(K) for m in range(M)] + [*zip(*np.triu_indices(K), strict=True)]
    entries += [(K + i, K + j) for i, j in unknowns.pairs] if unknowns.teachers else []
    a, b = np.array(entries).T
    scale = np.where((a < K) & (b >= K), unknowns.s[:, None], 1.0)
    S = np.divide(S, np.sqrt(p)[:, None, None], out=np.zeros_like(S), where=p[:, None, None] > 0)
    covariances = S[:, a[:, None], a] * S[:, b[:, None], b] + S[:, a[:, None], b] * S[:, b[:, None], a]
    covariances *= scale[:, :, None] * scale[:, None, :]
    moving, first = K * M + K * (K + 1) // 2, unknowns.packing.size
    place = np.r_[np.arange(moving) * L, first + np.arange(len(entries) - moving) * L]
    Sigma = np.zeros((unknowns.size,) * 2)
    for block, values in enumerate(covariances):
        Sigma[np.ix_(place + block, place + block)] = values
    return Sigma


def checked_trajectory(trajectory, N):
    """The model of a trajectory whose fluctuations are known, and N."""
    if hasattr(trajectory, "model"):
        blocks = hasattr(trajectory, "tau")
        check_features("fluctuations", trajectory.model, getattr(trajectory, "schedule", None), blocks=blocks)
    check.kind("trajectory", trajectory, Trajectory, "ov.solve(model, start, (0, 100)), with blocks=True")
    model = trajectory.model
    if isinstance(model, Mixed):
        differ = [len({getattr(task, name) for task in model.models}) > 1 for name in ("eta", "eta_v")]
        forgets = np.dot([differ[0], differ[1] or model.heads is not None], model.weight_decay)
        if forgets or model.schedules or np.any(model.ratios != 1):
            raise ValueError(
                "fluctuations of mixed tasks with eigenvalues of their own, shares that change, or rates or heads of "
                "their own under weight decay, whose steps differ by task, are not known; expected none. Simulate."
            )
    if not trajectory.success:
        raise ValueError(f"the trajectory did not succeed ({trajectory.message}); expected one that did.")
    if not trajectory[0].sees_inputs:
        raise ValueError("the teacher acts on latents; expected one that acts on the inputs x.")
    return model, checked_size(model, N)


def checked_size(model, N):
    """N, if it splits into blocks and is larger than the units are many."""
    N = check.count("N", N)
    if N <= model.K + model.M:
        raise ValueError(f"N = {N}; expected N > K + M = {model.K + model.M}.")
    model.spectrum.block_sizes(N)
    return N


def _warned(result):
    """The result, with a warning where fluctuations are no small correction."""
    largest = np.linalg.eigvalsh(result.covariances)[:, -1] / result.N
    large = largest > LARGE * np.max(np.abs(result.trajectory.S), axis=(1, 2))
    if np.any(large):
        warn(
            f"fluctuations: from alpha = {result.alpha[np.argmax(large)]:.6g} on, the variance at N = {result.N} "
            f"exceeds {LARGE:g} of the largest overlap. Runs leave a plateau at different times, and their law is not "
            "Gaussian: ov.theory.escape(model, start, N, level) knows it; or take a larger N."
            + check.see("finite_size", "Without simulation")
        )
    return result
