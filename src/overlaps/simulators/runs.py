"""SGD at finite N for a comparison with the theory: same model, same start, same times."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, TypeVar, Unpack, overload

import numpy as np

from .._base import ArrayLike, Function, Rng, bar, by_name, check, warn
from .._base.parallel import run_all, worded
from ..models import LowRank, Mixed, Model, Schedule, ScheduleEvaluator, Stages, State
from ..models.features import check_features
from ..models.start import on_switches, output_times, warn_coarse_step, whole_steps
from ..results.composite import LowRankEnsemble, MixedEnsemble, StagedEnsemble, shown_times
from ..results.ensemble import Ensemble
from .dispatch import SIMULATORS, dispatch
from .steps import check_batches, first_step, streams

__all__ = ["simulate"]


class RunOptions(TypedDict, total=False):
    """Keywords of ``simulate`` for all models, for type checkers."""

    start: State | Sequence[State] | None
    method: Literal["auto", "reduced", "direct"]
    runs: int
    progress: bool
    executor: Executor | None
    student_scale: float
    dtype: Literal["float64", "float32"] | None
    schedule: Schedule | dict[str, Schedule] | None
    keep_weights: bool
    step: float | None


class RowOptions(RunOptions, total=False):
    """Keywords of models whose inputs have a spectrum."""

    rows: ArrayLike | None
    rows_test: ArrayLike | None
    replace: bool
    weights: tuple[ArrayLike, ArrayLike] | None


class LatentOptions(RunOptions, total=False):
    """Keywords of models whose teachers act on latents: given covariances, or a hidden manifold."""

    weights: Any
    samples: Function | None
    latents: Function | None
    center: bool
    chunk: int
    moments: Literal["ge", "exact"]
    normalise_rows: bool
    share_features: bool
    test: int | None


Times: TypeAlias = tuple[float, float] | ArrayLike
Runs = TypeVar("Runs", covariant=True)


class Recorded(Protocol[Runs]):
    """A model with another kind of data and its own class of results."""

    @property
    def record(self) -> type[Runs]: ...


@overload
def simulate(model: Stages, *, N: int, alpha: Times, rng: Rng, **options: Unpack[RunOptions]) -> StagedEnsemble: ...
@overload
def simulate(model: LowRank, *, N: int, alpha: Times, rng: Rng, **options: Unpack[RunOptions]) -> LowRankEnsemble: ...
@overload
def simulate(model: Mixed, *, N: int, alpha: Times, rng: Rng, **options: Unpack[RunOptions]) -> MixedEnsemble: ...
@overload
def simulate(model: Recorded[Runs], *, N: int, alpha: Times, rng: Rng, **options: Unpack[LatentOptions]) -> Runs: ...
@overload
def simulate(model: Model, *, N: int, alpha: Times, rng: Rng, **options: Unpack[RowOptions]) -> Ensemble: ...


@by_name("ov.simulate(model, N=1000, alpha=[0.0, 1.0], rng=1)")  # type: ignore[misc]  # a Recorded is a Model
def simulate(
    model: Model | Stages | Mixed | LowRank,
    *,
    N: int,
    alpha: tuple[float, float] | ArrayLike,
    rng: Rng,
    start: State | Sequence[State] | None = None,
    method: Literal["auto", "reduced", "direct"] = "auto",
    runs: int = 1,
    progress: bool = False,
    executor: Executor | None = None,
    student_scale: float = 1.0,
    dtype: Literal["float64", "float32"] | None = None,
    schedule: Schedule | dict[str, Schedule] | None = None,
    keep_weights: bool = False,
    step: float | None = None,
    **data: Any,
) -> Any:
    r"""One-pass SGD at finite input dimension N, on Gaussian inputs with the covariance of the model.

    Each step draws a fresh sample (or a batch) and updates
    :math:`w_k \mathrel{+}= F_k\, x/\sqrt N`, :math:`F_k = -\eta v_k g'(\lambda_k)\Delta`, and v if it is trained.
    Inputs are :math:`x \sim N(0, \Sigma)` also if the spectrum was estimated from data, or ``rows=`` of the data.

    Parameters
    ----------
    model : Model, Stages or Mixed
        The learning problem. :class:`Stages` are tasks in sequence; in :class:`Mixed` each sample is of one task, drawn
        from a separate stream. ``gradient_flow`` has no meaning here and is ignored.
    N : int
        Input dimension; every block n_l = p_l N of the spectrum must be an integer.
    alpha : tuple of two floats, or array_like
        An interval (from, to), recorded at 201 equidistant times; or increasing times. Time begins at ``start.alpha``
        (0 for random starts): an interval begins there, and no time may lie before it. Times are rounded to steps.
    rng : int or numpy.random.Generator
        Seed, from which generators of NumPy's SFC64 are made, or a generator of any kind. Run i uses its i-th spawned
        child, for any number of runs and workers.
    start : State or list of State, optional
        Overlaps to start from (one for all runs, or one per run, all at the same time); the weights have exactly these
        overlaps. By default every run draws a ``random_start``. A hidden manifold takes ``start`` for "reduced" only,
        otherwise ``weights``.
    method : {"auto", "reduced", "direct"}
        "direct" uses explicit weights and inputs: cost of one step ~ b N (K + M) for b samples, or tokens. "reduced"
        draws the overlaps from the same law without weights: cost ~ L (K + M) (K + b) K at any N, and L (K + M)^2 for
        b = 1. "auto" is "reduced" if all blocks are larger than K + M,
        and "direct" otherwise, as well as for the hidden manifold, for ``dtype="float32"``, for directions with a pull
        (``ov.memory``) and for teachers that drift: these leave the frame of "reduced", and records have T at its
        stationary value. For the hidden manifold
        "reduced" is the Gaussian law at the eigenvalues of the limit: no features, and starts are States.
    runs : int
        Independent runs.
    progress : bool
        Show a progress bar.
    executor : concurrent.futures.Executor, optional
        Executor to which the runs are submitted; results do not depend on it.
    student_scale : float
        Standard deviation of the initial student weights when ``start`` is drawn.
    dtype : {"float64", "float32"}
        Precision of explicit weights and inputs: "float32" means "direct". Single precision saves little time, more on
        the hidden manifold, where it is the default. Latents are always drawn in double precision.
    schedule : Schedule or dict, optional
        As in :func:`overlaps.solve`; step n has the factors at alpha = n / N. Batch sizes must be integers, so a factor
        of the batch size must be piecewise constant.
    keep_weights : bool
        Store the students at the last record, in the coordinates of the inputs: ``runs.final_weights(i)``. Implies
        "direct".
    step : float, optional
        Finite steps as in :func:`overlaps.solve`: each takes round(step N) times ``batch_size`` samples, whose mean
        gradient is multiplied by step N. Implies "direct".
    **data
        Options of the data of the model. **Inputs with a spectrum** may be the rows of a data set:

        - rows : array_like, shape (n, N). Each sample is one of these rows instead of a Gaussian vector; everything
          else is that of direct SGD. Overlaps, and eps_g of Gaussian fields, are those for the spectrum of the model,
          as from ``Spectrum.from_covariance(data=rows)``; a warning if the rows have other second moments.
        - rows_test : array_like, shape (n', N). Rows on which ``runs.test_error``, without label noise, and its
          standard error ``runs.test_error_se`` are measured at every record; none by default, and none for rules.
        - replace : bool, True. Draw with replacement; or each row at most once, which limits the number of steps.
        - weights : (W, W_star), (K, N) and (M, N). Weights at the start of all runs, in place of ``start``, which has
          their overlaps only. Weights with the same overlaps may learn rows that are not Gaussian otherwise.

        The **hidden manifold** has

        - weights : (W, W_star, F), or list of such tuples. Students (K, N), teachers (M, D) and features (N, D) of all
          runs, or of each. By default every run draws them (``overlaps.manifold.weights.random_weights``).
        - latents : callable ``(rng, n, D) -> (n, D)``, e.g. from :mod:`overlaps.latents`; N(0, latent_scale^2) by
          default.
        - center : bool, True. Subtract the mean of the inputs (a, for normalised rows of F). Without it no equation in
          alpha describes the run, see :func:`overlaps.manifold.feature_map.statistics`.
        - chunk : int, 1024. Samples drawn and multiplied at once. For latents that are mixtures results depend on it
          as on the seed.
        - moments : {"ge", "exact"}. Second moments of the inputs in the recorded Q and R: Gaussian equivalence (the
          default), or closed forms.
        - normalise_rows : bool, True. Scale the rows of a given F to squared length D, as the theory assumes.
        - share_features : bool, False. Draw F once, for all runs: 20 runs at N = 1000, D = 500 store 4 MB of features
          instead of 80. If the tuples in a list of ``weights`` contain the same array F, it is stored once.
        - test : int. Number of fresh samples on which ``runs.test_error`` and its standard error
          ``runs.test_error_se`` are measured at every record, one set for each run, from a separate stream; 0 for none.
          By default 4096 if ``latents`` are given and 0 otherwise: ``runs.eps_g`` is the error of Gaussian fields with
          the recorded overlaps, which equals the error of the network for Gaussian latents only.

        **Given covariances** (:func:`overlaps.gaussian_covariates`) have ``chunk`` and ``test`` as above (4096 if
        ``samples`` are given) and

        - weights : (W, W_star), or list of such pairs. By default every run draws them.
        - samples : callable ``(rng, n) -> (X, C)``, inputs (n, N) and latents (n, D), e.g. the rows of a data set,
          :func:`overlaps.manifold.covariates.rows`; Gaussian pairs with the model's covariances by default.

    Returns
    -------
    Ensemble, or ManifoldEnsemble for the hidden manifold, CovariatesEnsemble for given covariances, or StagedEnsemble
    for Stages
        Arrays with a leading run axis. If a run diverged, was interrupted or failed (its worker died), its remaining
        records are nan, ``success`` is False and ``message`` has the reason; the other runs are complete.
        ``runs.start(i)`` or ``runs.realisation(i)`` is the start of the ODE for a comparison with run i.

    Raises
    ------
    ValueError
        Bad input, before any step; options for the data of another kind of model. Errors of the runs (a user function)
        are raised if no run finished.
    TypeError
        An unknown option.

    Warns
    -----
    RuntimeWarning
        If eta max(s) / N > 0.05, if a run did not reach the end, or for features with a mean and ``center=False``. If
        the first and second moments of the fields of latents or samples differ from those of the model, and if at the
        end ``test_error`` differs from ``eps_g`` by more than 10 % (and 5 standard errors).

    Notes
    -----
    Exact in law at finite N, for both methods, without approximation. Q, R, v approach the ODE as 1 / sqrt(N). On the
    hidden manifold the weights are exact; the fields are Gaussian with the recorded Q and R for D -> infinity.

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.committee_machine(2, 2, eta=0.5)
    >>> ov.simulate(model, N=100, alpha=[0, 1, 2], rng=1, runs=3).eps_g.shape
    (3, 3)
    """
    N, runs = check.count("N", N), check.count("runs", runs)
    step = step if step is None else check.number("step", step, above=0)
    check_features("simulate" if data.get("rows") is None else "simulate(rows=)", model, schedule, step=step)
    if isinstance(model, Stages):
        options = {"method": method, "runs": runs, "progress": progress, "executor": executor, "dtype": dtype}
        options["step"] = step
        options |= {"student_scale": student_scale, "keep_weights": keep_weights}
        return _simulate_stages(model, N, alpha, rng, start, schedule, options | data)
    check.choice("method", method, ("auto", *SIMULATORS))
    if dtype is not None:
        check.choice("dtype", dtype, ("float64", "float32"))
    keep_weights = check.flag("keep_weights", keep_weights)
    if method == "reduced":
        check_features("method = 'reduced'", model, schedule, step=step)
    if method == "reduced" and (keep_weights or dtype == "float32"):
        option = "keep_weights=True" if keep_weights else "dtype = 'float32'"
        raise ValueError(f"{option} with method = 'reduced', which has no weights; expected method='direct'.")
    check.executor(executor)
    check.number("student_scale", student_scale, least=0)
    begin, steps, alpha = recorded_steps(alpha, N, _common_time(start), step)
    batched = model if step is None else in_batches(model, N, step)
    children = streams(rng, runs)
    evaluator, largest_eta = None, 1.0
    if schedule is not None:
        evaluator = ScheduleEvaluator(model, schedule)
        check_batches(batched, evaluator)
        largest_eta = evaluator.probe(begin / N, max(alpha[-1], (begin + 1) / N))[0]
    given = {"evaluator": evaluator, "keep_weights": keep_weights or None, "stride": step and round(step * N)}
    controls = {name: value for name, value in given.items() if value is not None}
    spec = dispatch(model, data)(batched, N, children, start, method, student_scale, dtype, **controls, **data)
    for task in model.tasks if step is None else ():
        warn_coarse_step(task, N, largest_eta)
    with bar(progress, runs * int(steps[-1]), "steps") as tick:
        results, errors = _map_runs(spec.run, batched, spec.starts, N, steps, children, tick, executor)
    records, outcome = _outcome(model, results, errors, alpha, runs, step)
    outcome |= {"model": model, "alpha": alpha[: records[0].shape[1]], "N": N, "method": spec.method, "step": step}
    return spec.collect(records, spec.starts, schedule=schedule, **outcome)


def in_batches(model, N, step):
    """The model whose single step is a finite one: the samples of step N steps at once, their gradients added."""
    n = step * N
    if round(n) < 1:
        raise ValueError(
            f"step = {step:g} at N = {N} is a batch of {n:.3g} samples; expected at least one, or no step."
        )
    if isinstance(model, Mixed):
        return model.replace(models=[in_batches(task, N, step) for task in model.models])
    if isinstance(model, LowRank):
        return model.replace(model=in_batches(model.model, N, step), eta_a=n * model.eta_a)
    return model.replace(eta=n * model.eta, eta_v=n * model.eta_v, batch_size=round(n) * model.batch_size)


def _simulate_stages(stages, N, alpha, rng, start, schedule, options):
    """Runs through all stages; each stage starts from the last overlaps of the one before, with new random numbers."""
    if stages.models[0].latent_teacher:
        raise ValueError("Stages of hidden manifolds cannot be simulated: overlaps do not determine the weights.")
    time, step = _common_time(start), options["step"]
    requested, rngs = recorded_steps(alpha, N, time, step)[2], iter(streams(rng, len(stages)))

    ensembles: list[Any] = []

    def switch_time(switch):
        return first_step(switch, N) / N if step is None else float(switch)

    grid = np.r_[time, requested[requested > time]]
    if step is not None:
        grid = on_switches(grid, step, stages.until)
        requested = grid[-requested.size :]
    for segment in stages.in_turn(start, grid, requested, schedule, ensembles, switch_time):
        model, start, times, scheduled = segment
        ensembles.append(simulate(model, N=N, alpha=times, rng=next(rngs), start=start, schedule=scheduled, **options))
    return StagedEnsemble(model=stages, alpha=shown_times(ensembles, requested), parts=tuple(ensembles))


def recorded_steps(alpha, N, begin=0.0, step=None):
    """(Steps before the start, further steps to record, their times) for an interval or an array of times."""
    times = output_times(alpha, begin, step=step)
    if times[-1] * N > check.LIMITS.max_integer:
        raise ValueError(
            f"alpha = {times[-1]:g} at N = {N:g} takes {times[-1] * N:.3g} steps; expected less than 2^63 = 9.2e18."
        )
    first = np.rint(begin * N).astype(np.int64)
    if step is not None:
        shown = slice(int(not isinstance(alpha, tuple) and np.ravel(alpha)[0] != begin), None)
        return first, whole_steps(times, step)[shown], times[shown]
    if isinstance(alpha, tuple):
        steps = np.unique(np.rint(times * N).astype(np.int64)) - first
        return first, steps, (first + steps) / N
    steps = np.rint((times if np.ravel(alpha)[0] == begin else times[1:]) * N).astype(np.int64) - first
    if np.any(np.diff(steps) <= 0):
        raise ValueError(f"some times in alpha are closer than one step, 1/N = {1 / N:g}; expected a coarser array.")
    return first, steps, (first + steps) / N


def _common_time(start):
    """The time at which all runs begin."""
    states = start if isinstance(start, list | tuple) else [start]
    begins = sorted({getattr(state, "alpha", 0.0) for state in states}) or [0.0]
    if len(begins) > 1:
        raise ValueError(
            f"the states in start belong to times from {begins[0]:g} to {begins[-1]:g}; expected one time for all "
            "runs. state.replace(alpha=...) moves a state."
        )
    return begins[0]


def _map_runs(simulator, model, starts, N, steps, children, tick, executor):
    """({run: its records}, {run: exception}); runs that Ctrl-C interrupted before their start are in neither."""
    last = int(steps[-1])

    def ticker(i):  # progress of run i, in this process only
        return None if tick is None or executor is not None else lambda n: tick(i * last + n)

    pairs = enumerate(zip(starts, children, strict=True))
    jobs = {i: partial(simulator, model, start, N, steps, child, ticker(i)) for i, (start, child) in pairs}
    finished = tick and (lambda done: tick(done * last))
    return run_all(jobs, executor, finished, cut=partial(_interrupted, n=len(steps)), needed=True)


def _interrupted(result, n):
    """Whether the arrays of a run end early without the nan that marks divergence."""
    q = result[0]
    return len(q) < n and (len(q) == 0 or bool(np.all(np.isfinite(q[-1]))))


def _outcome(model, results, errors, alpha, runs, step):
    """The records of all runs, padded with nan, and ``success`` and ``message``."""
    empty = [x[:0] for x in next(iter(results.values()))]
    arrays = [results.get(i, empty) for i in range(runs)]
    diverged = sum(not np.all(np.isfinite(q)) for q, *_ in arrays)
    cut = sum(_interrupted(x, len(alpha)) for x in arrays) - len(errors)
    message = f"{runs} runs reached alpha = {alpha[-1]:g}."
    if diverged or cut or errors:
        eta = f"eta = {model.eta:g}" if step is None else f"eta * step = {model.eta * step:g}"
        unstable = f" ({eta} is probably above the stability limit; lower it)" if diverged else ""
        if diverged and getattr(model.rule, "by_chance", False):
            unstable = unstable.replace(";", ", or chance does not return probabilities;")
        message = f"{runs} runs: {diverged} diverged{unstable}, {cut} interrupted or not begun"
        message = worded(message, errors, lambda i: f"is run {i}")
        warn(message + " Their missing records are nan." + check.see("start", "When something is wrong"))
    records = [np.stack([_padded(x, max(map(len, of_runs))) for x in of_runs]) for of_runs in zip(*arrays, strict=True)]
    return records, {"success": not (diverged or cut or errors), "message": message}


def _padded(records, n):
    """Records (m, ...) padded with nan to (n, ...)."""
    return np.concatenate([records, np.full((n - len(records), *records.shape[1:]), np.nan)])
