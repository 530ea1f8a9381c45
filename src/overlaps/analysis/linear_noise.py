"""Fluctuations of SGD at finite N around the equations: covariance and mean along a trajectory."""

from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from .._base import Floats, Immutable, Rng, by_name, check, warn
from ..models import Mixed, Model
from ..models.features import check_features
from ..models.state import gram
from ..results import files, labelled, plotting
from ..results.trajectory import Trajectory
from .noise_covariance import INTEGRALS, FieldPoints, Increments, product_covariance, teachers
from .transport import Path, extrapolate, propagate
from .unknowns import Unknowns


class ExpansionOptions(NamedTuple):
    """Tunable numbers of the expansion."""

    # Largest number of fluctuating variables: an error above. Each matrix of a path then has 32 MB; twice as many, 128
    # MB.
    max_unknowns: int = 2000
    # First intervals between nodes of a path, halved where a spline misses their middles. Half as many would miss short
    # escapes.
    intervals: int = 16
    # Nodes of a path at most, for exact and for sampled integrals. Twice as many double the time of difficult paths.
    max_nodes: int = 1000
    max_sampled_nodes: int = 120
    # Halvings of an interval at most. With more, nodes accumulate at jumps of sampled integrals, and splines amplify
    # the rounding errors of J.
    max_halvings: int = 10
    # Factor on the tolerance of splines of sampled integrals. Smaller factors resolve the sampling error with nodes.
    sampled_tol_factor: float = 10.0
    # Multiple of the rounding error of C below which its products are treated as rounding and need no more nodes.
    rounding_factor: float = 100.0
    # With more unknowns than this the tolerance is at least ``coarse_tol``, because finer paths cost too much time.
    max_fine_unknowns: int = 24
    coarse_tol: float = 1e-5
    # Value of tr C / eta^2 below which E[F F h h] is computed at sample points, because derivatives of C lose digits
    # there by cancellation.
    min_resolved_C: float = 1e-6
    # Variance relative to the largest overlap above which results warn: there the expansion is no small correction.
    max_variance: float = 0.05
    # Relative error of std("eps_g") above which results warn: the error of the spread of 200 runs is as large,
    # 1/sqrt(400). The stated error may be half of the true one, because four scrambles all miss heavy tails.
    max_std_error: float = 0.05
    # Variance of eps_g, relative to the largest one that its gradient and the covariance allow, below which it vanishes
    # to first order. Smaller: rounding counts as a variance; larger: eps_g that is nearly independent counts as zero.
    min_variance: float = 1e-16
    # Second-order change of eps_g, relative to gradient times covariance, below which it is rounding of differences.
    min_bend: float = 1e-10


EXPANSION = ExpansionOptions()


class Fluctuations(Immutable):
    """Mean, covariance and bands of SGD at one N; see :func:`overlaps.fluctuations`, which makes it, for the equations.

    Attributes
    ----------
    trajectory : Trajectory
        The solution of the equations, N -> infinity.
    N : int
        Input dimension.
    start : str
        "fixed" or "random".
    covariances, shifts : ndarray, shape (n, d, d), (n, d)
        N times the covariance and N times the shift of the mean of all unknowns, ordered as the packed overlaps.
    gradients, bends : ndarray, shape (n, d), (n,)
        Gradient of eps_g, and its second derivative contracted with the covariance.
    error : float
        Relative error of std("eps_g") at the last time, from quadrature and transport.
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
        """The model of the trajectory."""
        return self.trajectory.model

    @property
    def alpha(self) -> Floats:
        """Learning times (n,) of the trajectory."""
        return self.trajectory.alpha

    def __len__(self) -> int:
        return self.alpha.size

    def mean(self, name: str) -> Floats:
        """Mean over runs, to order 1/N, of the ``name`` "Q" (n, K, K), "R" (n, K, M), "v" (n, K) or "eps_g" (n,)."""
        linear, shape = self._linear_map(name)
        shift = np.einsum("nad,nd->na", linear, self.shifts)
        if name == "eps_g":
            shift = shift + self.bends[:, None] / 2
        return getattr(self.trajectory, name) + shift.reshape(shape) / self.N

    def covariance(self, a: str, b: str | None = None) -> Floats:
        """Covariance over runs at this N of two names (n, shape of a, shape of b); ``b`` is ``a`` by default."""
        (left, shape), (right, other) = self._linear_map(a, "a"), self._linear_map(a if b is None else b, "b")
        return (np.einsum("nad,nde,nbe->nab", left, self.covariances, right) / self.N).reshape(*shape, *other[1:])

    def std(self, name: str) -> Floats:
        """Standard deviation over runs at this N of the curve ``name``; shapes as in :meth:`mean`."""
        linear, shape = self._linear_map(name)
        variance = np.einsum("nad,nde,nae->na", linear, self.covariances, linear) / self.N
        return np.sqrt(np.maximum(variance, 0.0)).reshape(shape)

    def at_N(self, N: int) -> "Fluctuations":
        """The result at another N, without new integrals; raises ``ValueError`` for an N impossible for the model."""
        return _warn_if_large(replace(self, N=checked_size(self.model, N)))

    save = files.save
    to_pandas = labelled.frame_of_fluctuations
    to_xarray = labelled.from_fluctuations
    plot = plotting.plot_fluctuations

    def _linear_map(self, name, argument="name"):
        """Matrices (n, entries, d) from the unknowns to ``name``, and the shape of the curve."""
        check.choice(argument, name, ("Q", "R", "v", "eps_g"))
        n, (K, M) = len(self), (self.model.K, self.model.M)
        if name == "eps_g":
            return self.gradients[:, None, :], (n,)
        arguments = Unknowns(self.model, self.trajectory[0], self.start == "random").arguments
        triangle, crossed = K * (K + 1) // 2, K * M
        if name == "R":
            linear = arguments[triangle : triangle + crossed]
        elif name == "v" and self.model.trains_v:
            linear = arguments[triangle + crossed :][: self.trajectory.v[0].size]
        elif name == "v":
            linear = np.zeros((self.trajectory.v[0].size, arguments.shape[1]))
        else:
            index, (i, j) = np.zeros((K, K), int), np.triu_indices(K)
            index[i, j] = index[j, i] = np.arange(triangle)
            linear = arguments[index.ravel()]
        return np.broadcast_to(linear, (n, *linear.shape)), getattr(self.trajectory, name).shape

    def __repr__(self):
        size = f"N={self.N}, alpha {self.alpha[0]:g}..{self.alpha[-1]:g}, n={len(self)}, start={self.start!r}"
        return f"{type(self).__name__}({self.model}, {size}, error={self.error:.1e})"


@by_name("ov.fluctuations(traj, N=1000)")
def fluctuations(
    trajectory: Trajectory, N: int, *, start: Literal["fixed", "random"] = "fixed", points: int = 2**14, rng: Rng = 0
) -> "Fluctuations":
    r"""Mean and covariance of SGD at input dimension N around a solution of the equations, without simulation.

    .. math:: {\rm Cov}(y) = \Sigma/N, \quad \dot\Sigma = J\Sigma + \Sigma J^T + D, \qquad
       \langle y\rangle = y_{\rm ODE} + m_1/N, \quad
       \dot m_1 = J m_1 + \tfrac12 f'' : \Sigma + c - \tfrac12 J f

    with J the Jacobian of the flow f, D the covariance of the increments of the overlaps in one step, c the terms of
    the mean increment beyond the flow (lengths of the inputs, pairs of samples in a batch, decay), and -Jf/2 the
    difference between steps of 1/N and continuous time.

    Parameters
    ----------
    trajectory : Trajectory
        From :func:`overlaps.solve`, with the overlaps of the blocks, of SGD (no ``gradient_flow``) without a schedule.
        Fluctuations begin at its first record.
    N : int
        Input dimension, above K + M and with integer blocks p_l N.
    start : {"fixed", "random"}
        With "fixed" the overlaps of all runs at the first record are those of the trajectory, as in
        ``simulate(start=...)``. With "random" they are those of Gaussian weights, teachers included, and the trajectory
        has their mean: the law of ``model.random_start`` for a trajectory from q^l = student_scale^2 p_l 1, r^l = 0,
        t^l = p_l 1.
    points : int
        Points of the integrals in D: for polynomial activations exact quadrature if eight times as many suffice,
        otherwise scrambled Sobol points.
    rng : int or numpy.random.Generator
        Seed of the scrambling.

    Returns
    -------
    Fluctuations
        ``mean``, ``std``, ``covariance`` of "Q", "R", "v", "eps_g"; ``at_N``, ``plot``, ``error``.

    Raises
    ------
    ValueError
        Before the computation: a gradient flow (without the noise of SGD), a hidden manifold (weights, features and
        latents fluctuate together), directions of low rank, a schedule, a trajectory that failed or has no blocks, an N
        that is impossible for the model, more than 2000 unknowns; a learning rule whose force has no fourth moments.
    KeyboardInterrupt
        Ctrl-C; there is no partial result.

    Warns
    -----
    RuntimeWarning
        If the variance of some combination of overlaps exceeds 0.05 of the largest overlap: runs leave a plateau at
        different times and their law is not Gaussian; :func:`overlaps.analysis.escape_time.escape` computes that law.
        If ``error`` exceeds 0.05: it falls at least as the root of ``points``. If eps_g has no slope along the
        fluctuations at the last time: a student of fixed norm at R = 0.

    Notes
    -----
    Students of fixed norm (``constraint="sphere"``): J, D and f are those of the steps with their projection, so that
    :math:`\sum_l q^l_{kk}` has no variance, and c has a contribution of the second order of the projection.

    Asymptotic: relative errors are O(1/N) while fluctuations are small. Where the gradient of eps_g vanishes (perfect
    solutions without noise) std("eps_g") is 0, while the true one is of order 1/N, and mean("eps_g") is the curvature
    term. Below eps_g of about 1e-11 rounding hides the noise of the steps.

    Students with a kink that are parallel to another unit have no second derivative: means are nan from that time on.
    They are nan, too, once units other than erf, linear or quadratic are so nearly parallel (lowest eigenvalue of their
    covariance about 0.01 of the largest) that differences would leave the set of possible overlaps. If derivatives of
    the closure are differences (``tanh``, ``polynomial``, user functions), they limit the accuracy. Learning rules
    (:class:`overlaps.Rule`) are averaged at the nodes of their quadrature, to 1e-5, and their derivatives are
    differences.

    References
    ----------
    Derived for this library; the expansion is van Kampen's, Stochastic Processes in Physics and Chemistry, chapter X.
    The Markov chain of the overlaps is that of the reduced simulator.

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
    if unknowns.size > EXPANSION.max_unknowns:
        raise ValueError(
            f"the model has {unknowns.size} fluctuating overlaps; expected at most {EXPANSION.max_unknowns}. Merge "
            "eigenvalues of the spectrum, or simulate."
        )
    work = _Expansion(unknowns, Path(trajectory, unknowns.packing.pack), FieldPoints.of(model, points, rng))
    Sigma = start_covariance(unknowns) if start == "random" else np.zeros((unknowns.size,) * 2)
    result = _warn_if_flat(_warn_if_large(Fluctuations(trajectory, N, start, *work.run(trajectory.alpha, Sigma))))
    if result.error > EXPANSION.max_std_error:
        more = f"take points = {8 * points}, or " if model.rule is None else ""
        error = f"fluctuations: std('eps_g') at alpha = {result.alpha[-1]:.6g} has an error of {result.error:.1%}"
        advice = f"because fields are sampled: {more}simulate." + check.see("finite_size", "Without simulation")
        warn(f"{error} (.error), {advice}")
    return result


class PathCoefficients:
    """J and D along a path, tabulated at nodes."""

    def __init__(self, unknowns, path, points):
        self.unknowns, self.path, self.points = unknowns, path, points
        self.increments, tol = Increments(unknowns), points.tol
        self.tol = max(tol, EXPANSION.coarse_tol) if unknowns.size > EXPANSION.max_fine_unknowns else tol
        self.nodes, self.tangents, values = self._tabulated()
        curves = _spline, self._curve, self._curve, _spline
        self.J, self.D, self.groups, self.size = (f(self.nodes, x) for f, x in zip(curves, values, strict=True))

    def _table(self, positions):
        """Times and tangents at positions on the path, with J, D/tr C, D/tr C of each group of points, and ln tr C."""
        times, unknowns = self.path.time(positions), self.unknowns
        tangents = [unknowns.at(y) for y in self.path.at(times)]
        values = []
        for tangent in tangents:
            size = max(np.trace(tangent.C), 0.0) + unknowns.model.eta**2 * tangent.rounding_scale
            products = product_covariance(unknowns.model, self.points, tangent.S, tangent.v)
            tangent.products = products[0]
            forces = None if self.points.exact or unknowns.model.rule is not None else tangent.force_products()
            if forces is not None:  # only terms of third order in eta remain sampled
                resolved = 1 / (1 + EXPANSION.min_resolved_C * unknowns.model.eta**2 / size)
                block = products[:, : len(forces), : len(forces)]
                block += resolved * (forces - block)
            D, *groups = tangent.noise(self.increments(unknowns.blocks(tangent.y), tangent.C, products)) / size
            values.append((tangent.dense(), D, np.array(groups), np.log(size)))
        return [(t, x, *v) for t, x, v in zip(times.tolist(), tangents, values, strict=True)]

    def _tabulated(self):
        """(times, tangents, coefficients) at nodes, refined until splines interpolate the middles of all intervals."""
        last = len(self.path.steps) - 1
        positions = np.linspace(0, last, EXPANSION.intervals + 1) if last else np.zeros(1)
        entries = dict(zip(positions, self._table(positions), strict=True))
        intervals = list(zip(positions, positions[1:], strict=False))
        max_nodes = EXPANSION.max_nodes if self.points.exact else EXPANSION.max_sampled_nodes
        shortest = last / EXPANSION.intervals / 2**EXPANSION.max_halvings
        while intervals and len(entries) < max_nodes:
            times, _, *before = zip(*(entries[x] for x in sorted(entries)), strict=True)
            new = np.array([(a + b) / 2 for a, b in intervals])
            error, tabulated = np.zeros(len(new)), self._table(new)
            middles, tangents, *values = zip(*tabulated, strict=True)
            size, rounding = np.exp(values[3]), np.array([tangent.rounding_scale for tangent in tangents])
            # the sampling error of D exceeds the error of its spline
            sampled = size / (size + EXPANSION.rounding_factor * self.unknowns.model.eta**2 * rounding)
            sampled = sampled / EXPANSION.sampled_tol_factor
            curves = (_spline, 1.0), (self._curve, 1.0 if self.points.exact else sampled)  # J and D
            for (curve, weight), nodes, exact in zip(curves, before, values, strict=False):
                known = np.array(nodes)
                gap = np.abs(curve(np.array(times), known)(np.array(middles)) - np.array(exact))
                error = np.maximum(error, weight * np.max(gap, axis=(1, 2)) / max(np.max(np.abs(known)), 1e-300))
            entries.update(zip(new, tabulated, strict=True))
            divisible = np.diff(intervals, axis=1)[:, 0] > shortest
            halves = zip(new, intervals, divisible & (error > self.tol), strict=True)
            intervals = [half for m, (a, b), more in halves if more for half in ((a, m), (m, b))]
        nodes, tangents, *values = zip(*(entries[x] for x in sorted(entries)), strict=True)
        return np.array(nodes), tangents, [np.array(x) for x in values]

    def _curve(self, times, values):
        """Interpolation of the covariances of steps; monotone for kinked units, whose sampled covariances are rough."""
        from scipy.interpolate import PchipInterpolator  # here, because this import is slow

        model = self.unknowns.model
        rough = bool(model.activation.kinks or any(x.kinks for x in teachers(model))) and len(times) > 1
        return PchipInterpolator(times, values, axis=0) if rough else _spline(times, values)

    def __call__(self, times, D=None, source=None):
        """J and D (m, n, n), and the source of the mean (m, n) or None; ``D`` replaces the mean over groups."""
        noise = np.exp(self.size(times))[:, None, None] * (self.D if D is None else D)(times)
        return self.J(times), noise, None if source is None else source(times)


class _Expansion(PathCoefficients):
    """Coefficients at nodes along the path, then the covariance, then the mean."""

    def run(self, alpha, Sigma):
        """Covariances, shifts, gradients and second derivatives of eps_g at alpha, and the error."""
        records = [self.unknowns.at(y) for y in self.path.at(alpha)]
        gradients = np.array([t.gradient() for t in records])
        mesh = np.union1d(alpha, self.nodes)
        at_records, at_nodes = np.searchsorted(mesh, alpha), np.searchsorted(mesh, self.nodes)
        shifts, error, Sigmas = np.zeros((1, len(Sigma))), 0.0, Sigma[None]
        if len(mesh) > 1:
            Sigmas, error = extrapolate(lambda level: propagate(mesh, level, self, Sigma), self.tol)
            nodes = zip(self.tangents, Sigmas[at_nodes], self.J(self.nodes), strict=True)
            shifts = self._shifts(mesh, np.array([t.mean_source(x, J)[0] for t, x, J in nodes]), Sigma)
            error = max(error, self._error(mesh, Sigma, gradients[-1]))
        bends = [t.curvature(x)[-1] for t, x in zip(records, Sigmas[at_records], strict=True)]
        return Sigmas[at_records], shifts[at_records], gradients, np.array(bends), error

    def _shifts(self, mesh, source, Sigma):
        """The mean at order 1/N on the mesh; nan from the first node on whose source is not finite."""
        finite = np.isfinite(source).all(axis=1)
        good = len(finite) if finite.all() else int(np.argmin(finite))
        shifts = np.full((len(mesh), len(Sigma)), np.nan)
        shifts[0] = 0.0
        if good > 1:
            reached = mesh <= self.nodes[good - 1]
            terms = partial(self, source=_spline(self.nodes[:good], source[:good]))
            run = lambda level: propagate(mesh[reached], level, terms, Sigma, shifts[0])  # noqa: E731
            shifts[reached] = extrapolate(run, self.tol)[0]
        return shifts

    def _error(self, mesh, Sigma, gradient):
        """Half of the relative spread of the std of eps_g at the end over the groups of points."""
        if self.points.exact:
            return 0.0
        groups = [partial(self, D=lambda t, g=g: self.groups(t)[:, g]) for g in range(INTEGRALS.scrambles)]
        stds = [np.sqrt(max(gradient @ propagate(mesh, 0, x, Sigma)[-1] @ gradient, 0.0)) for x in groups]
        return float(np.std(stds, ddof=1) / max(np.mean(stds), 1e-300) / 2)


def _spline(times, values):
    """Quintic spline through values (m, ...) at increasing times; a constant for one value."""
    from scipy.interpolate import make_interp_spline

    if len(times) == 1:
        return lambda t: np.repeat(values, len(t), axis=0)
    return make_interp_spline(times, values, k=min(5, len(times) - 1))


def start_covariance(unknowns):
    """N times the covariance (n, n) of the overlaps of Gaussian weights with the mean overlaps of the start."""
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
    position = np.r_[np.arange(moving) * L, first + np.arange(len(entries) - moving) * L]
    Sigma = np.zeros((unknowns.size,) * 2)
    for block, values in enumerate(covariances):
        Sigma[np.ix_(position + block, position + block)] = values
    return Sigma


def checked_trajectory(trajectory, N):
    """The model of a trajectory and N, after checking that the expansion supports them."""
    if hasattr(trajectory, "model"):
        blocks = hasattr(trajectory, "tau")
        schedule, step = (getattr(trajectory, name, None) for name in ("schedule", "step"))
        check_features("fluctuations", trajectory.model, schedule, blocks=blocks, step=step)
    check.kind("trajectory", trajectory, Trajectory, "ov.solve(model, start, (0, 100)), with blocks=True")
    model = trajectory.model
    if isinstance(model, Mixed):
        differ = [len({getattr(task, name) for task in model.models}) > 1 for name in ("eta", "eta_v")]
        forgets = np.dot([differ[0], differ[1] or model.heads is not None], model.weight_decay)
        if forgets or model.schedules or np.any(model.ratios != 1):
            raise ValueError(
                "the steps of these mixed tasks differ by task: different eigenvalues, shares that change, or "
                "different rates or heads with weight decay. fluctuations does not support this: use ov.simulate."
            )
    if not trajectory.success:
        raise ValueError(f"the trajectory did not succeed ({trajectory.message}); expected one that did.")
    if not trajectory[0].sees_inputs:
        raise ValueError("the teacher acts on latents; expected one that acts on the inputs x.")
    return model, checked_size(model, N)


def checked_size(model, N):
    """N, after checking that it splits into blocks and is larger than K + M."""
    N = check.count("N", N)
    if N <= model.K + model.M:
        raise ValueError(f"N = {N}; expected N > K + M = {model.K + model.M}.")
    model.spectrum.block_sizes(N)
    return N


def _warn_if_flat(result):
    """Warn if eps_g at the end has no slope along the fluctuations, as at R = 0; return the result."""
    gradient, Sigma = result.gradients[-1], result.covariances[-1]
    size = gradient @ gradient * np.trace(Sigma)
    if size > 0 and gradient @ Sigma @ gradient <= EXPANSION.min_variance * size:
        bends = abs(result.bends[-1]) > EXPANSION.min_bend * np.linalg.norm(gradient) * np.trace(Sigma)
        bend = "its mean is predicted" if bends else "its mean is that of the equations to order 1/N"
        warn(
            f"fluctuations: at alpha = {result.alpha[-1]:.6g} eps_g has no slope along the fluctuations, as for one "
            "student at R = 0. std('eps_g') is 0 there to first order, the true one of order 1/N or, for an "
            f"information exponent k, N^(-k/2); {bend}. std and covariances of Q, R and v are predicted."
            + check.see("finite_size", "Without simulation")
        )
    return result


def _warn_if_large(result):
    """Warn if fluctuations are no small correction; return the result."""
    largest = np.linalg.eigvalsh(result.covariances)[:, -1] / result.N
    large = largest > EXPANSION.max_variance * np.max(np.abs(result.trajectory.S), axis=(1, 2))
    if np.any(large):
        warn(
            f"fluctuations: from alpha = {result.alpha[np.argmax(large)]:.6g} on, the variance at N = {result.N} "
            f"exceeds {EXPANSION.max_variance:g} of the largest overlap. Runs leave a plateau at different times, and "
            "their law is not Gaussian: compute it by ov.theory.escape(model, start, N, level), or take a larger N."
            + check.see("finite_size", "Without simulation")
        )
    return result
