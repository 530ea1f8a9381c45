"""The engine of ``solve_many``: chunks of trajectories in threads, compiled; ``evolve`` does those that need Python.

There are two call paths.  On the compiled path ``advance_batch`` steps a trajectory with the machine code of ``solve``,
the same ``advance``, so that its result is that of ``solve``, to the last bit.  On the Python path ``evolve``
does all, as ``solve`` would.  ``_Jobs.reasons`` decides before anything runs: it is a sentence for the
compiled path (which becomes part of ``Batch.method``), None for the other.  The Python path is for closures that
compiled code cannot call, callable ``stop``, schedules with functions, other methods, students that are equal at the
start, and starts on the boundary of the positive semi-definite matrices.

The compiled path ends as ``STATUS.finished`` or as ``STATUS.needs_python``.  A step that needs a check (``_steps``: a
level of eps_g, divergence, lost positivity, parallel kinks) gives ``needs_python``: the compiled result is discarded,
and ``evolve`` integrates that trajectory from its start, because only ``evolve`` interprets such a step and composes
the message.

Ownership.  ``_Jobs`` holds the arrays of the whole batch.  ``records`` (b, n, size + 1) are packed overlaps at the
output times, or their sums over blocks, followed by the accumulated error of eps_g; nan where there are none.
``ends`` (b, size + 1) and ``end`` (b,) are the last state of each and its time.  ``status`` (b,) is
``STATUS.unfinished`` until a trajectory is ``finished``, ``message`` and ``errors`` give the reason if one is not.  A
chunk of trajectories is one job of the pool.  Inside, those with one schedule and equally many groups of blocks form
one call of ``advance_batch``, with arrays of its own, which are copied into the batch when it returns: no two threads
write to one entry, and nothing depends on their number.

Python runs between chunks, and never inside one: ``advance_batch`` releases the GIL.  ``halt[0] = 1``, set when Ctrl-C
or an error ends the pool, is read each time ``advance`` returns, ``STEP_CHECKS.max_evaluations`` or an output time
apart; the current trajectory then stays unfinished.  ``add_errors`` stores the reason for those that an exception
ended.

Some objects are checked or made once for many trajectories: starts for each pair of a start and a spectrum (``_once``);
rates for the choice of a method for each start, spectrum and v* (``_methods``); packed starts for each pair in a chunk
(``_advance_batch``). A batch of ten thousand that differ in eta alone then costs its integration, not its preparation.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from .._base import bar, check
from .._base.lazy_compilation import compile_eagerly
from .._base.parallel import run_all
from ..activations.bound import outputs
from ..activations.kernel_closure import KernelClosure
from ..flow import flow_for
from ..flow.binding import bind
from ..flow.closure import check_domain
from ..flow.psd import far_from_singular, singular
from ..flow.system import System, blocks_last, fastest_rate, fastest_rates, rates, weights_of
from ..flow.velocity import compiled_schedule
from ..models.features import check_features
from ..models.schedule import ScheduleEvaluator
from ..models.start import all_fit, checked_start, duplicate_units, output_times
from ._batch import STATUS, Outcome, Problems, advance_batch, compile_batch
from ._dop853 import STATE
from ._steps import Control
from .dop853 import DOP853
from .evolve import checked_controls, closure_note, evolve, no_overlap_note
from .failure import FAILURE, allowed_negative_eigenvalue, diverged
from .finite_steps import FiniteSteps, checked_step
from .methods import NOT_STIFF, check_model, check_options, choose_method, solver_class, stiff
from .run import end_sentence
from .simd import run_simd, simd_closure
from .stop import check_level


class ChunkOptions(NamedTuple):
    """Largest numbers of trajectories in one job of a thread."""

    # Below some ten, the overhead of jobs dominates; above some hundred, the progress bar stands still and threads wait
    # for the last one.
    max_trajectories: int = 64
    # With SIMD lanes, some of which are idle at the end of a chunk.
    max_simd_trajectories: int = 1024


CHUNKS = ChunkOptions()


def evolve_batch(
    models, starts, alpha, *, threads=None, stop=None, method="auto", rtol=1e-8, atol=None, blocks=True, max_memory=4e9,
    progress=False, schedule=None, simd=None, step=None, **options,
):  # fmt: skip
    """Integrate many problems of one shape; parameters as in :func:`overlaps.solve_many`.

    Everything is checked, and the memory allocated, before the first step; the result is the fields of a ``Batch``.
    """
    compile_eagerly()
    if isinstance(models, list | tuple) and not models:
        raise check.refused("models", models, "at least one model.")
    named = {name: options.pop(name, False) for name in ("late", "certify")} | {"step": step}
    _check_features(models, schedule, named, blocks)
    models, starts, schedules = paired(models, starts, schedule)
    if step is not None:
        step = checked_step(step, method=method, rtol=rtol, atol=atol, simd=simd or None, **options)
        method, simd, options = FiniteSteps, False, {}
    given_atol, (rtol, atol, stop) = atol, checked_controls(rtol, atol, stop)
    if step is not None:
        rtol = atol = 0.0
    check_level(stop, models)
    times = output_times(alpha, starts[0].alpha, step=step)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    evaluators: dict[int, Any] = {}
    for i, (model, one) in enumerate(zip(models, schedules, strict=True)):
        name = f"schedule[{i}]" if isinstance(schedule, list | tuple) else "schedule"
        _check_schedule(evaluators, model, one, times, name)
    skipped = int(np.ravel(alpha)[0] != times[0])
    work = _Jobs(models, starts, schedules, evaluators, times, skipped, stop, rtol, atol, method, options, blocks, simd)
    work.given_atol, work.step = given_atol, step
    threads = cores if threads is None else check.count("threads", threads)
    work.allocate(threads, check.number("max_memory", max_memory, above=0))
    largest = CHUNKS.max_trajectories if work.simd is None else CHUNKS.max_simd_trajectories
    size = int(np.clip(len(models) // (4 * threads), 1, largest))
    jobs = {i: partial(work.run, i, min(i + size, len(models))) for i in range(0, len(models), size)}
    with bar(progress, len(models), "trajectories") as tick, ThreadPoolExecutor(threads) as pool:
        finished = tick and (lambda done: tick(min(done * size, len(models))))
        try:
            failed = run_all(jobs, pool, finished, halt=partial(work.halt.fill, 1)).errors
        finally:
            work.halt[0] = 1  # running jobs end at the next pause
    work.add_errors({i: error for first, error in failed.items() for i in range(first, min(first + size, len(models)))})
    return work.solutions(tuple(schedules) if isinstance(schedule, list | tuple) else schedule)


def _check_features(models, schedule, options, blocks):
    """Refuse features that solve_many does not support; models of one batch differ from the first in numbers only."""
    first = models[0] if isinstance(models, list | tuple) else models
    for one in schedule if isinstance(schedule, list | tuple) else (schedule,):
        check_features("solve_many", first, one, name="models[0]", blocks=check.flag("blocks", blocks), **options)


def _check_schedule(evaluators, model, schedule, times, name):
    """Refuse an invalid schedule before any integration; store its evaluator and largest factor of eta."""
    if schedule is None:
        return
    try:
        evaluator = ScheduleEvaluator(model, schedule)
        if id(schedule) not in evaluators:
            evaluators[id(schedule)] = evaluator, evaluator.probe(times[0], times[-1])[0]
    except ValueError as error:
        raise ValueError(str(error).replace("schedule", name, 1)) from None


def paired(models, starts, schedule=None):
    """Lists of models, starts and schedules of equal length; a single one is repeated.

    One compiled call needs arrays of one shape and one closure: the message names the first model that differs, and in
    which property.
    """
    lists = [list(x) if isinstance(x, list | tuple) else [x] for x in (models, starts, schedule)]
    models, starts, schedules = lists
    if not schedules:
        raise ValueError("schedule is empty; expected at least one.")
    for name, values, single in (("models", models, check.model), ("starts", starts, check.state)):
        if not values:
            raise ValueError(f"{name} is empty; expected at least one.")
        for i, value in enumerate(values):
            single(value, f"{name}[{i}]" if len(values) > 1 else name)
    n = max(map(len, lists))
    if {*map(len, lists)} - {1, n}:
        kinds = zip(("models", "starts", "schedules"), lists, strict=True)
        lengths = " and ".join(f"{len(values)} {name}" for name, values in kinds if len(values) != 1)
        raise ValueError(f"there are {lengths}; expected equal numbers, or one of each.")
    models, starts, schedules = (x * (n // len(x)) for x in lists)
    for i, start in enumerate(starts):
        if start.alpha != starts[0].alpha:
            raise ValueError(
                f"starts[{i}] belongs to alpha = {start.alpha:g}, starts[0] to {starts[0].alpha:g}; expected one time."
            )
    first = models[0]
    for i, model in enumerate(models):
        for name, value_of in COMMON_PROPERTIES.items():
            if model is not first and value_of(model) != value_of(first):
                raise ValueError(
                    f"models[{i}] has {name} = {value_of(model)}, models[0] {value_of(first)}; expected models of "
                    "equal K, M, n_classes, L and activations, with all second layers trained or none. ov.sweep takes "
                    "others."
                )
    return models, starts, schedules


COMMON_PROPERTIES = {
    name.rpartition(".")[2]: attrgetter(name)
    for name in ("K", "M", "n_classes", "spectrum.L", "activation", "teacher_activation", "trains_v")
}


class _Jobs:
    """The problems of a batch and the arrays for their solutions; ``run`` solves one chunk of them.

    The calling thread makes it, with everything checked and compiled; other threads call ``run`` only.
    """

    def __init__(
        self, models, starts, schedules, evaluators, times, skipped, stop, rtol, atol, method, options, blocks, simd
    ):  # fmt: skip
        self.models, self.schedules, self.times, self.skipped, self.stop = models, schedules, times, skipped, stop
        self.evaluators = {id(None): (None, 1.0), **evaluators}
        self.rtol, self.atol, self.options, self.blocks = rtol, atol, options, check.flag("blocks", blocks)
        self.given_atol = self.step = None  # atol and step of the caller
        checked_starts: dict[Any, Any] = {}
        one_by_one = not all_fit(models, starts)
        self.starts = [_once(checked_starts, i, models[i], x) for i, x in enumerate(starts)] if one_by_one else starts
        self.automatic = isinstance(method, str) and method == "auto"
        self.solver = None if self.automatic else solver_class(method)
        pairs = {_key(*pair): pair for pair in zip(models, self.starts, strict=True)}
        self.covariances = {key: model.field_covariance(start) for key, (model, start) in pairs.items()}
        bound = bind(models[0])
        self.kernel, self.closed = bound.compiled, isinstance(bound, KernelClosure)
        self._check_options()
        self._check_starts()
        self.simd = simd_closure(simd, models, bound, times)
        if self.kernel is not None:
            for n in {len(model.groups) for model in models if self.simd is None or model.spherical}:
                self.compiled(n)
        # Python checks a closure with a period from time to time
        by_python = self.kernel is None or bound.period > 0 or callable(stop) or self.solver not in (None, DOP853)
        self.reasons = [None] * len(models) if by_python else self._methods()
        self._leave_to_python(pairs)
        self.halt = np.zeros(1, np.int64)

    def _check_options(self):
        """Refuse options and models that the solvers do not take."""
        span = self.times[-1] - self.times[0] or np.inf
        if self.solver is not None:
            check_options(self.solver, self.options, span)
            for i, model in enumerate(self.models):
                check_model(self.solver, model, f"models[{i}]")
        if self.kernel is not None:
            check_options(DOP853, self.options, span)

    def _check_starts(self):
        """Refuse starts at which the closure is not defined; each different one is checked once."""
        models, every = self.models, self.kernel is None or self.models[0].n_classes > 0
        to_check = {i if every else id(x): (models[i if every else 0], x) for i, x in enumerate(self.starts)}
        for model, start in to_check.values():
            check_domain(model, self.covariances[_key(model, start)], start.v)

    def _leave_to_python(self, pairs):
        """Remove the reason for the compiled path where the start, or a schedule, needs Python."""
        first = self.models[0]
        regular = [False] * len(pairs)
        if first.n_classes == 0:
            regular = far_from_singular(np.array([*self.covariances.values()]))
        special_start = {
            key: not is_regular and (duplicate_units(*pair) is not None or singular(self.covariances[key], first.K))
            for (key, pair), is_regular in zip(pairs.items(), regular, strict=True)
        }
        evaluators = {key: evaluator for key, (evaluator, _) in self.evaluators.items() if evaluator is not None}
        calls_python = {key for key, evaluator in evaluators.items() if evaluator.program.functions}
        for i, pair in enumerate(zip(self.models, self.starts, strict=True)):
            if special_start[_key(*pair)] or id(self.schedules[i]) in calls_python:
                self.reasons[i] = None

    def compiled(self, groups):
        """The compiled steps of one trajectory, with as many groups of blocks."""
        return compile_batch(flow_for(self.models[0].spectrum.L, self.models[0].K, groups), self.kernel)

    def _methods(self):
        """Why the explicit method is chosen for each trajectory, or None where another method is.

        "auto" calls ``choose_method`` as ``solve`` does.  Its result depends on the fastest rate, eta times a number
        that depends on the start, the spectrum and v* only: it is computed once for each of these.
        """
        if not self.automatic:
            return [""] * len(self.models)
        span, systems, reasons = self.times[-1] - self.times[0], {}, []
        decays = [max(rates(model)[3], 0.0) + model.drift for model in self.models]
        # the fastest rate is 2 (eta h + decays) with h of the start, the spectrum and the teacher's second layer
        pairs = zip(self.models, self.starts, strict=True)
        keys = [(_key(model, start), id(model.spectrum), model.v_star.tobytes()) for model, start in pairs]
        first = dict(zip(reversed(keys), reversed(range(len(keys))), strict=True))
        models, starts = ([x[i] for i in first.values()] for x in (self.models, self.starts))
        if self.simd is not None:
            S = [self.covariances[_key(*pair)] for pair in zip(models, starts, strict=True)]
            h = fastest_rates(models, starts, S) / 2
        else:
            half_rates = [fastest_rate(System(*pair)) / 2 for pair in zip(models, starts, strict=True)]
            h = [(x - decays[i]) / self.models[i].eta for x, i in zip(half_rates, first.values(), strict=True)]
        h_of_key = dict(zip(first, h, strict=True))
        for i, key in enumerate(keys):
            model, largest_factor = self.models[i], self.evaluators[id(self.schedules[i])][1]
            rate = 2 * (model.eta * h_of_key[key] + decays[i])
            if stiff(span, self.rtol, max(largest_factor, 1e-300) * rate):
                if key not in systems:
                    systems[key] = System(model, self.starts[i])
                name, reason = choose_method(systems[key], span, self.rtol, rate, largest_factor)
                reasons.append(reason if name == "DOP853" else None)
            else:
                reasons.append(NOT_STIFF)
        return reasons

    def allocate(self, threads, max_memory):
        """Allocate arrays for all records: those of the batch, and of each thread.

        A thread needs one trajectory at all its stops with all blocks; the batch stores sums over blocks unless
        ``blocks`` is true.  ``ValueError`` before anything is integrated, with the bytes needed, if they exceed
        ``max_memory``.
        """
        b, n, packing = len(self.models), self.times.size - self.skipped, System(self.models[0], self.starts[0]).packing
        self.packing, self.record_packing = packing, packing if self.blocks else packing.summed
        need = 8 * (b * (n + 1) * (self.record_packing.size + 1) + threads * self.times.size * (packing.size + 2))
        if need > max_memory:
            hint = " blocks=False keeps Q, R, v only." if self.blocks and packing.shape[0] > 1 else ""
            raise ValueError(
                f"{b} trajectories of {n} records take {need / 1e9:.3g} GB; expected below max_memory = "
                f"{max_memory / 1e9:.3g} GB. Take fewer output times, solve several smaller batches, or "
                f"raise max_memory.{hint}"
            )
        self.records = np.full((b, n, self.record_packing.size + 1), np.nan)
        self.ends, self.end = np.full((b, self.record_packing.size + 1), np.nan), np.zeros(b)
        self.success, self.nfev, self.status = np.zeros(b, bool), np.zeros(b, np.int64), np.zeros(b, np.int64)
        self.method, self.solvers = ["not begun"] * b, [self.solver or DOP853] * b
        self.message, self.errors = ["interrupted before it was finished; it has no records."] * b, {}

    def run(self, first, last):
        """Solve the problems first ... last - 1: those on the compiled path together, then, one by one, all others.

        The others are trajectories with ``reasons`` None and those that ended as ``STATUS.needs_python``.
        """
        together: dict[Any, list[int]] = {}
        for i in range(first, last):
            if self.reasons[i] is not None:
                model = self.models[i]
                alone = self.simd is None or model.spherical
                # schedules by identity, because comparing equal ones costs more than it saves
                together.setdefault((id(self.schedules[i]), len(model.groups), alone), []).append(i)
        for (key, groups, alone), indices in together.items():
            self._advance_batch(indices, self.evaluators[key][0], groups, alone)
        left = [i for i in range(first, last) if self.status[i] != STATUS.finished and not self.halt[0]]
        self.add_errors(run_all({i: partial(self._evolve, i) for i in left}).errors)

    def add_errors(self, errors):
        """Store the exception that ended them for trajectories that are not finished.

        A trajectory that was finished before another failed keeps its records.
        """
        for i, error in errors.items():
            if self.status[i] != STATUS.finished:
                self.errors[i], self.message[i] = error, f"{type(error).__name__}: {error}"

    def _advance_batch(self, indices, evaluator, groups, alone):
        """Solve trajectories with one schedule by compiled steps; those that Python must solve stay unfinished."""
        problems, control, first_step = self._problems(indices), self._control(), float(self._option("first_step", 0))
        knots = np.array([]) if evaluator is None else evaluator.inside(self.times[0], self.times[-1])
        times = np.array(self.times), np.append(knots, self.times[-1]), self.skipped
        records = np.full((len(indices), *self.records.shape[1:]), np.nan)
        nfev, status = np.zeros((2, len(indices)), np.int64)
        rest = compiled_schedule(evaluator), control, first_step, self.blocks, *times, self.halt
        n_r = self.record_packing.shape[0] * self.record_packing.crossed
        if alone:
            advance_batch(*self.compiled(groups), problems, *rest, Outcome(records, nfev, status), np.zeros(1, STATE))
            last = np.column_stack([records[:, -1], np.full(len(indices), self.times[-1])])
        else:
            last = run_simd(self.simd, problems, *rest, Outcome(records, nfev, status))
        for row, i in enumerate(indices):
            if status[row] in (STATUS.finished, STATUS.stopped, STATUS.diverged):
                model, (last_record, (end, *divergence)) = self.models[i], np.split(last[row], [records.shape[2]])
                message = f"stop condition met at alpha = {end:.6g}."
                if status[row] == STATUS.finished:
                    message = end_sentence(self.times) + self._note(model, problems.S[row], problems.w[row])
                    message += no_overlap_note(model, self.starts[i], self.times[self.skipped :], records[row, :, :n_r])
                elif status[row] == STATUS.diverged:
                    alpha, size = divergence[:2]
                    message = f"stopped at alpha = {alpha:.6g}: {diverged(size, model.eta)}"
                self._write(i, records[row], last_record, end, nfev[row], status[row] != STATUS.diverged, message)
                self.method[i] = DOP853.__name__ + self.reasons[i]

    def _problems(self, indices):
        """Arrays of trajectories for compiled steps.

        Each trajectory has entries of its own in S and w: the flow overwrites those that move, the rest is constant.
        """
        pairs = [(self.models[i], self.starts[i]) for i in indices]
        models, first, packed = [model for model, _ in pairs], pairs[0][0], {}
        for model, x in pairs:
            # packed once, because a sweep over eta has one start for thousands of models
            if _key(model, x) not in packed:
                y = self.packing.pack(x.q, model.rows(x), x.v)
                packed[_key(model, x)] = y, blocks_last(model._static_overlaps(x)), self.covariances[_key(model, x)]
        y, tau, S = (np.array(x) for x in zip(*(packed[_key(*pair)] for pair in pairs), strict=True))
        closures = [*map(bind, models)] if first.n_classes else [bind(first)] * len(indices)
        w = np.array([[*x.v, *model.second_layers] for model, x in pairs])
        parameters = np.array([closure.compiled_parameters() for closure in closures])
        s, p = (np.array(x) for x in zip(*map(weights_of, models), strict=True))
        numbers = np.array([_numbers(bind(x), x, *fields) for x, *fields in zip(models, S, w, strict=True)])
        units = first.K, first.teacher_activation.code, first.trains_v
        return Problems(*units, numbers, s, p, tau, S, w, parameters, y)

    def _control(self):
        """Limits of compiled steps; ``max_overlap`` is relative to the start."""
        # SciPy raises smaller rtol with a warning; here without one, because there may be thousands of trajectories
        rtol = max(self.rtol, 100 * np.finfo(float).eps)
        level, kinked = -np.inf if self.stop is None else self.stop, bind(self.models[0]).kinked
        slack, max_step = allowed_negative_eigenvalue(rtol), float(self._option("max_step", np.inf))
        return Control(rtol, self.atol, max_step, FAILURE.divergence_factor, kinked, level, slack)

    def _option(self, name, default):
        return self.options.get(name) or default

    def _note(self, model, S, w):
        """Message about the accuracy of the closure at the end; empty for closed forms."""
        if self.closed:
            return ""
        bound = bind(model)
        values = outputs(S, model.K)
        bound(S, w[: S.shape[1]], *values)
        return closure_note(bound, values[2])

    def _evolve(self, i):
        """Solve one trajectory by ``evolve``, as ``solve`` does, and write its records into the batch.

        If it stops early, ``evolve`` records fewer than all output times, and the time at which it stopped; the rows
        left over are nan, and the last state is written into ``ends``.
        """

        def halt(alpha):
            if self.halt[0]:
                raise KeyboardInterrupt

        controls = {"step": self.step}
        if self.step is None:
            method = "auto" if self.automatic else self.solver
            controls = {"method": method, "rtol": self.rtol, "atol": self.given_atol, **self.options}
        solution = evolve(
            self.models[i], self.starts[i], self.times[self.skipped :], stop=self.stop, blocks=self.blocks,
            progress=halt, schedule=self.schedules[i], **controls,
        )  # fmt: skip
        overlaps = zip(solution.q, self.models[i].rows(solution), solution.v, strict=True)
        packed = [self.record_packing.pack(*x) for x in overlaps]
        rows = np.column_stack([packed, solution.eps_error])
        at = np.isin(solution.alpha, self.times[self.skipped :])
        records = np.full_like(self.records[i], np.nan)
        records[: np.sum(at)] = rows[at]
        self._write(i, records, rows[-1], solution.alpha[-1], solution.nfev, solution.success, solution.message)
        self.method[i], self.solvers[i] = solution.method, solution.solver

    def _write(self, i, records, last, end, nfev, success, message):
        """Write one finished trajectory into the arrays; ``status`` last, because other threads read it."""
        self.records[i], self.ends[i], self.end[i], self.nfev[i] = records, last, end, nfev
        self.success[i], self.message[i], self.status[i] = success, message, STATUS.finished

    def solutions(self, schedule):
        """The fields of a Batch; if every trajectory failed, the first reason is raised."""
        if len(self.errors) == len(self.models):
            error = self.errors[0]
            kind = ValueError if isinstance(error, ValueError) else RuntimeError
            raise kind(f"no trajectory succeeded; number 0: {self.message[0]}") from error
        n, different = len(self.starts), self.starts
        if all(x is self.starts[0] for x in self.starts):
            different = self.starts[:1]
        names = ["v", "tau", "T"] if different[0].h is None else ["v", "tau", "T", "h", "nu"]
        stacked = {name: np.array([getattr(x, name) for x in different]) for name in names}
        constants = {name: np.broadcast_to(x, (n, *x.shape[1:])) for name, x in stacked.items()}
        return SimpleNamespace(
            models=tuple(self.models), alpha=self.times[self.skipped :], records=self.records, ends=self.ends,
            end=self.end, start_v=constants.pop("v"), **constants, success=self.success, message=tuple(self.message),
            nfev=self.nfev, method=tuple(self.method), solver=tuple(self.solvers), rtol=self.rtol, atol=self.atol,
            blocks=self.blocks, schedule=schedule, step=self.step,
        )  # fmt: skip


def _key(model, start):
    """Key of objects that are prepared once for many problems: the start, and the model where it has classes.

    Models of one shape differ in numbers only, which a packed start does not contain; it contains the means of classes.
    """
    return id(start), id(model) if model.n_classes else None


def _numbers(bound, model, S, w):
    """The row of ``Problems.rates`` of one trajectory."""
    return *rates(model), model.drift, *model.weight_decay, bound.gradient_rate, bound.error_size(S, w), 0.0


def _once(starts, i, model, start):
    """The start on its model; each pair of a start and a spectrum, or a model with classes, is checked once."""
    key = _key(model, start), id(model.spectrum), type(model)
    if key not in starts:
        try:
            starts[key] = checked_start(model, start)
        except ValueError as error:
            raise ValueError(f"starts[{i}]: {str(error).removeprefix('start: ')}") from None
    return starts[key]
