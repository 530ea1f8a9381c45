"""The engine of ``solve_many``: chunks of trajectories in threads, compiled; what needs Python goes by ``evolve``.

A trajectory goes one of two ways.  By the compiled way ``advance_batch`` steps it with the machine code of ``solve``,
the
same ``begin`` and ``advance``, so that its digits are those of ``solve``.  By the way of Python ``evolve`` does all, as
``solve`` would.  ``_Jobs.why`` decides before anything runs: a sentence for the compiled way (it becomes part of
``Batch.method``), None for the other.  Python's way is for closures that compiled code cannot call, callable ``stop``,
schedules with functions, other methods, students that begin equal and starts on the boundary of their cone.

The compiled way ends as FINISHED or as BY_PYTHON.  A step worth a look (``_steps``: a level of eps_g, divergence, lost
positivity, parallel kinks) is BY_PYTHON: the compiled part is thrown away, and ``evolve`` integrates that trajectory
from its start, because ``evolve`` alone knows what such a step means and words the message.

Who owns what.  ``_Jobs`` holds the arrays of the whole batch.  ``records`` (b, n, size + 1) are packed overlaps at the
output times, or their sums over blocks, with the account of the error of eps_g behind them; nan where there are none.
``ends`` (b, size + 1) and ``end`` (b,) are the last state of each and its time.  ``state`` (b,) is 0 until a trajectory
is FINISHED, ``message`` and ``errors`` say why one is not.  A chunk of at most CHUNK trajectories is one job of the
pool.  Inside, those with one schedule and equally many groups of blocks form one call of ``advance_batch``, with
arrays of
its own, which are copied into the batch when it returns: no two threads write to one place, and nothing depends on
their number.

Python looks between chunks, and never inside one: ``advance_batch`` releases the GIL.  ``halt[0] = 1``, set when
Ctrl-C or
an error ends the pool, is read at each pause of a march, LARGEST evaluations or an output time apart; the trajectory
under way then stays at state 0.  ``lose`` gives the reason to those that an exception took with it.

Some things are checked or made once for many: starts for each pair of a start and a spectrum (``_once``); rates for the
choice of a method for each start, spectrum and v* (``_methods``); packed starts for each pair in a chunk
(``_advance_batch``). A batch of ten thousand that differ in eta alone then costs its integration, not its preparation.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

import numpy as np

from .._base import bar, check
from .._base.lazy_compilation import compile_eagerly
from .._base.parallel import run_all
from ..activations.bound import KernelClosure, outputs
from ..flow import flow_for
from ..flow.closure import bind, check_domain
from ..flow.psd import far_from_singular, singular
from ..flow.system import System, blocks_last, fastest_rate, fastest_rates, rates, weights_of
from ..flow.velocity import compiled_schedule
from ..models.features import check_features
from ..models.schedule import ScheduleEvaluator
from ..models.start import all_fit, checked_start, duplicate_units, output_times
from ._batch import FINISHED, Outcome, Problems, advance_batch, ready_all
from ._steps import Control
from .dop853 import DOP853
from .evolve import checked_controls, closure_note, evolve
from .methods import NOT_STIFF, check_model, check_options, choose_method, solver_class, stiff
from .run import DIVERGED, allowed_negative_eigenvalue, diverged, end_sentence
from .simd import DIVERGENT, STOPPED, run_simd, simd_closure
from .stop import check_level

# Trajectories that a thread takes at a time, at most.  Below some ten, jobs cost what they do; above some hundred, the
# progress bar stands still and threads wait for the last one.
# Side by side they share a loop, whose lanes idle at the end of a chunk.
CHUNK, WIDE = 64, 1024


def evolve_batch(
    models, starts, alpha, *, threads=None, stop=None, method="auto", rtol=1e-8, atol=None, blocks=True, max_memory=4e9,
    progress=False, schedule=None, simd=None, **options,
):  # fmt: skip
    """Integrate many problems of one shape; parameters as in :func:`overlaps.solve_many`.

    Everything is checked, and the memory asked for, before the first step; the result is the fields of a ``Batch``.
    """
    compile_eagerly()
    if isinstance(models, list | tuple) and not models:
        raise check.refused("models", models, "at least one model.")
    _check_features(models, schedule, {name: options.pop(name, False) for name in ("late", "certify")}, blocks)
    models, starts, schedules = paired(models, starts, schedule)
    given, (rtol, atol, stop) = atol, checked_controls(rtol, atol, stop)
    check_level(stop, models)
    times, every_step = output_times(alpha, starts[0].alpha)
    if every_step:
        raise ValueError(f"alpha = {alpha}; expected an array of output times, which all trajectories share.")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    evaluators: dict[int, Any] = {}
    for i, (model, one) in enumerate(zip(models, schedules, strict=True)):
        name = f"schedule[{i}]" if isinstance(schedule, list | tuple) else "schedule"
        _check_schedule(evaluators, model, one, times, name)
    skipped = int(np.ravel(alpha)[0] != times[0])
    work = _Jobs(models, starts, schedules, evaluators, times, skipped, stop, rtol, atol, method, options, blocks, simd)
    work.given = given
    threads = cores if threads is None else check.count("threads", threads)
    work.allocate(threads, check.number("max_memory", max_memory, above=0))
    size = int(np.clip(len(models) // (4 * threads), 1, CHUNK if work.simd is None else WIDE))
    jobs = {i: partial(work.run, i, min(i + size, len(models))) for i in range(0, len(models), size)}
    with bar(progress, len(models), "trajectories") as tick, ThreadPoolExecutor(threads) as pool:
        finished = tick and (lambda done: tick(min(done * size, len(models))))
        try:
            failed = run_all(jobs, pool, finished, halt=partial(work.halt.fill, 1)).errors
        finally:
            work.halt[0] = 1  # what is under way stops at the next pause
    work.lose({i: error for first, error in failed.items() for i in range(first, min(first + size, len(models)))})
    return work.solutions(tuple(schedules) if isinstance(schedule, list | tuple) else schedule)


def _check_features(models, schedule, options, blocks):
    """Refuse what solve_many does not support; models of one batch have the features of the first, but for numbers."""
    first = models[0] if isinstance(models, list | tuple) else models
    for one in schedule if isinstance(schedule, list | tuple) else (schedule,):
        check_features("solve_many", first, one, name="models[0]", blocks=check.flag("blocks", blocks), **options)


def _check_schedule(evaluators, model, schedule, times, name):
    """Refuse a schedule that is none before any integration; keep its evaluator and largest factor of eta."""
    if schedule is None:
        return
    try:
        evaluator = ScheduleEvaluator(model, schedule)
        if id(schedule) not in evaluators:
            evaluators[id(schedule)] = evaluator, evaluator.probe(times[0], times[-1])[0]
    except ValueError as error:
        raise ValueError(str(error).replace("schedule", name, 1)) from None


def paired(models, starts, schedule=None):
    """Lists of models, starts and schedules of equal length; one alone serves all.

    One compiled call needs arrays of one shape and one closure: the first model that differs is named, with what.
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
        for what, of in SHAPE.items():
            if model is not first and of(model) != of(first):
                raise ValueError(
                    f"models[{i}] has {what} = {of(model)}, models[0] {of(first)}; expected models of equal K, M, "
                    "n_classes, L and activations, with all second layers trained or none. ov.sweep takes others."
                )
    return models, starts, schedules


EQUAL = "K", "M", "n_classes", "spectrum.L", "activation", "teacher_activation", "trains_v"
SHAPE = {name.rpartition(".")[2]: attrgetter(name) for name in EQUAL}


class _Jobs:
    """The problems of a batch and the arrays that take their solutions; ``run`` is one chunk of them.

    Made in the calling thread, with everything checked and compiled; threads call ``run`` only.
    """

    def __init__(
        self, models, starts, schedules, evaluators, times, skipped, stop, rtol, atol, method, options, blocks, simd
    ):  # fmt: skip
        self.models, self.schedules, self.times, self.skipped, self.stop = models, schedules, times, skipped, stop
        self.evaluators = {id(None): (None, 1.0), **evaluators}
        self.rtol, self.atol, self.options, self.blocks = rtol, atol, options, check.flag("blocks", blocks)
        self.given = None  # atol as it was given
        checked_starts: dict[Any, Any] = {}
        one_by_one = not all_fit(models, starts)
        self.starts = [_once(checked_starts, i, models[i], x) for i, x in enumerate(starts)] if one_by_one else starts
        self.automatic = isinstance(method, str) and method == "auto"
        self.solver = None if self.automatic else solver_class(method)
        if self.solver is not None:
            check_options(self.solver, options, times[-1] - times[0] or np.inf)
            for i, model in enumerate(models):
                check_model(self.solver, model, f"models[{i}]")
        bound = bind(models[0])
        self.kernel, self.closed = bound.compiled, isinstance(bound, KernelClosure)
        # a closure with a period is watched by Python, now and then
        by_python = self.kernel is None or bound.period > 0 or callable(stop) or self.solver not in (None, DOP853)
        every = self.kernel is None or models[0].n_classes > 0
        pairs = {_key(*pair): pair for pair in zip(models, self.starts, strict=True)}
        self.covariances = {key: model.field_covariance(start) for key, (model, start) in pairs.items()}
        to_check = {i if every else id(x): (models[i if every else 0], x) for i, x in enumerate(self.starts)}
        for model, start in to_check.values():
            check_domain(model, self.covariances[_key(model, start)], start.v)
        self.simd = simd_closure(simd, models, bound, times)
        if self.kernel is not None:
            check_options(DOP853, options, times[-1] - times[0] or np.inf)
            for n in {len(model.groups) for model in models if self.simd is None or model.spherical}:
                self.compiled(n)
        self.why = [None] * len(models) if by_python else self._methods()
        classes = models[0].n_classes > 0
        free = [False] * len(pairs) if classes else far_from_singular(np.array([*self.covariances.values()]))
        apart = {
            key: not alone and (duplicate_units(*pair) is not None or singular(self.covariances[key], models[0].K))
            for (key, pair), alone in zip(pairs.items(), free, strict=True)
        }
        calls_python = {
            key
            for key, (evaluator, _) in self.evaluators.items()
            if evaluator is not None and evaluator.program.functions
        }
        for i, pair in enumerate(zip(models, self.starts, strict=True)):
            if apart[_key(*pair)] or id(schedules[i]) in calls_python:
                self.why[i] = None
        self.halt = np.zeros(1, np.int64)

    def compiled(self, groups):
        """The compiled steps of one trajectory, with as many groups of blocks."""
        return ready_all(flow_for(self.models[0].spectrum.L, self.models[0].K, groups), self.kernel)

    def _methods(self):
        """Why the explicit method is right for each trajectory, or None where it is another one's.

        "auto" asks ``choose_method`` as ``solve`` does.  Its answer hangs on the fastest rate, eta times a number that
        the start, the spectrum and v* decide: found once for each of these, whatever the number of learning rates.
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
            of = [fastest_rate(System(*pair)) / 2 for pair in zip(models, starts, strict=True)]
            h = [(x - decays[i]) / self.models[i].eta for x, i in zip(of, first.values(), strict=True)]
        slowest = dict(zip(first, h, strict=True))
        for i, key in enumerate(keys):
            model, largest = self.models[i], self.evaluators[id(self.schedules[i])][1]
            rate = 2 * (model.eta * slowest[key] + decays[i])
            if stiff(span, self.rtol, max(largest, 1e-300) * rate):
                if key not in systems:
                    systems[key] = System(model, self.starts[i])
                name, why = choose_method(systems[key], span, self.rtol, rate, largest)
                reasons.append(why if name == "DOP853" else None)
            else:
                reasons.append(NOT_STIFF)
        return reasons

    def allocate(self, threads, most):
        """Arrays for all records, if there is room for them: of the batch, and of each thread at work.

        A thread needs one trajectory at all its stops, whole; the batch keeps sums over blocks where no more is wanted.
        ``ValueError`` before anything is integrated, with the bytes that it would take.
        """
        b, n, packing = len(self.models), self.times.size - self.skipped, System(self.models[0], self.starts[0]).packing
        self.packing, self.kept = packing, packing if self.blocks else packing.summed
        need = 8 * (b * (n + 1) * (self.kept.size + 1) + threads * self.times.size * (packing.size + 2))
        if need > most:
            hint = " blocks=False keeps Q, R, v only." if self.blocks and packing.shape[0] > 1 else ""
            raise ValueError(
                f"{b} trajectories of {n} records take {need / 1e9:.3g} GB; expected below max_memory = "
                f"{most / 1e9:.3g} GB. Take fewer output times, send parts, or raise max_memory.{hint}"
            )
        self.records = np.full((b, n, self.kept.size + 1), np.nan)
        self.ends, self.end = np.full((b, self.kept.size + 1), np.nan), np.zeros(b)
        self.success, self.nfev, self.state = np.zeros(b, bool), np.zeros(b, np.int64), np.zeros(b, np.int64)
        self.method, self.solvers = ["not begun"] * b, [self.solver or DOP853] * b
        self.message, self.errors = ["interrupted before it was finished; it has no records."] * b, {}

    def run(self, first, last):
        """Solve the problems first ... last - 1: those of the compiled way together, then, one by one, all others.

        The second part takes what the first left: trajectories with ``why`` None and those that ended BY_PYTHON.
        """
        together: dict[Any, list[int]] = {}
        for i in range(first, last):
            if self.why[i] is not None:
                model = self.models[i]
                alone = self.simd is None or model.spherical
                # schedules by identity: equal ones of two objects would be found together, but comparing them costs
                # more than it saves
                together.setdefault((id(self.schedules[i]), len(model.groups), alone), []).append(i)
        for (key, groups, alone), indices in together.items():
            self._advance_batch(indices, self.evaluators[key][0], groups, alone)
        left = [i for i in range(first, last) if self.state[i] != FINISHED and not self.halt[0]]
        self.lose(run_all({i: partial(self._evolve, i) for i in left}).errors)

    def lose(self, errors):
        """Say of trajectories that are not finished which exception ended them.

        One that was finished before a neighbour failed keeps its records: nothing that is computed is lost.
        """
        for i, error in errors.items():
            if self.state[i] != FINISHED:
                self.errors[i], self.message[i] = error, f"{type(error).__name__}: {error}"

    def _advance_batch(self, indices, evaluator, groups, alone):
        """The compiled steps of those with one schedule; ``state`` says which of them they have finished.

        Each trajectory has rows of its own in S and w: the flow overwrites what moves, the rest is constant.
        """
        pairs = [(self.models[i], self.starts[i]) for i in indices]
        models, first, packed = [model for model, _ in pairs], pairs[0][0], {}
        for model, x in pairs:
            # a sweep over eta has one start for thousands of models: packed once
            if _key(model, x) not in packed:
                y = self.packing.pack(x.q, model.rows(x), x.v)
                packed[_key(model, x)] = y, blocks_last(model._static_overlaps(x)), self.covariances[_key(model, x)]
        y, tau, S = (np.array(x) for x in zip(*(packed[_key(*pair)] for pair in pairs), strict=True))
        closures = [*map(bind, models)] if first.n_classes else [bind(first)] * len(indices)  # numbers behind w
        w = np.array([f.extended([*x.v, *model.second_layers]) for f, (model, x) in zip(closures, pairs, strict=True)])
        s, p = (np.array(x) for x in zip(*map(weights_of, models), strict=True))
        level = -np.inf if self.stop is None else self.stop
        max_step, first_step = (float(self.options.get(x) or y) for x, y in (("max_step", np.inf), ("first_step", 0)))
        # below, SciPy raises rtol with a warning; here without a word for each of thousands
        rtol = max(self.rtol, 100 * np.finfo(float).eps)  # as SciPy
        control = Control(
            rtol, self.atol, max_step, DIVERGED, closures[0].kinked, level, allowed_negative_eigenvalue(rtol)
        )
        stops = (
            self.times if evaluator is None else np.union1d(self.times, evaluator.inside(self.times[0], self.times[-1]))
        )
        places = np.searchsorted(stops, self.times[self.skipped :])
        records = np.full((len(indices), *self.records.shape[1:]), np.nan)
        nfev, state = np.zeros((2, len(indices)), np.int64)
        numbers = np.array([_numbers(bind(x), x, *fields) for x, *fields in zip(models, S, w, strict=True)])
        problems = Problems(first.K, first.teacher_activation.code, first.trains_v, numbers, s, p, tau, S, w, y)
        rest = compiled_schedule(evaluator), control, first_step, self.blocks, np.array(stops), places, self.halt
        if alone:
            advance_batch(*self.compiled(groups), problems, *rest, Outcome(records, nfev, state))
            last = np.column_stack([records[:, -1], np.full(len(indices), self.times[-1])])
        else:
            last = run_simd(self.simd, problems, *rest, Outcome(records, nfev, state))
        for row, i in enumerate(indices):
            if state[row] in (FINISHED, STOPPED, DIVERGENT):
                kept, (end, *reason) = np.split(last[row], [records.shape[2]])
                said = f"stop condition met at alpha = {end:.6g}."
                if state[row] == FINISHED:
                    said = end_sentence(self.times) + self._note(models[row], S[row], w[row])
                elif state[row] == DIVERGENT:
                    said = f"stopped at alpha = {reason[0]:.6g}: {diverged(reason[1], models[row].eta)}"
                self._keep(i, records[row], kept, end, nfev[row], state[row] != DIVERGENT, said)
                self.method[i] = DOP853.__name__ + self.why[i]

    def _note(self, model, S, w):
        """Message of the closure about itself at the end; closed forms say nothing."""
        if self.closed:
            return ""
        bound = bind(model)
        values = outputs(S, model.K)
        bound(S, w[: S.shape[1]], *values)
        return closure_note(bound, values[2])

    def _evolve(self, i):
        """The way of ``solve``: one trajectory by ``evolve``, with its records brought into the rows of the batch.

        ``evolve`` may record less than all output times, where it stops early, and one time more, where it stopped; the
        rows left over are nan, and the last state goes into ``ends``.
        """

        def halt(alpha):
            if self.halt[0]:
                raise KeyboardInterrupt

        method = "auto" if self.automatic else self.solver
        solution = evolve(
            self.models[i], self.starts[i], self.times[self.skipped :], method=method,
            rtol=self.rtol, atol=self.given, stop=self.stop, blocks=self.blocks, progress=halt,
            schedule=self.schedules[i], **self.options,
        )  # fmt: skip
        packed = [self.kept.pack(*x) for x in zip(solution.q, self.models[i].rows(solution), solution.v, strict=True)]
        rows = np.column_stack([packed, solution.eps_error])
        at = np.isin(solution.alpha, self.times[self.skipped :])
        records = np.full_like(self.records[i], np.nan)
        records[: np.sum(at)] = rows[at]
        self._keep(i, records, rows[-1], solution.alpha[-1], solution.nfev, solution.success, solution.message)
        self.method[i], self.solvers[i] = solution.method, solution.solver

    def _keep(self, i, records, last, end, nfev, success, message):
        """Write one finished trajectory into the arrays of the batch; ``state`` last, which others read."""
        self.records[i], self.ends[i], self.end[i], self.nfev[i] = records, last, end, nfev
        self.success[i], self.message[i], self.state[i] = success, message, FINISHED

    def solutions(self, schedule):
        """The fields of a Batch; where every trajectory failed there is none, and the first reason is raised."""
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
            blocks=self.blocks, schedule=schedule,
        )  # fmt: skip


def _key(model, start):
    """Differences of problems that were prepared once for many: the start, and the model where it has classes.

    Models of one shape differ in numbers only, which no packed start holds; means of classes are part of the start.
    """
    return id(start), id(model) if model.n_classes else None


def _numbers(bound, model, S, w):
    """The row of ``Problems.rates``."""
    w = w[: S.shape[1]]
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
