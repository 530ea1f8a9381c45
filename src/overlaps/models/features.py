"""Features of learning problems, and the functions and other features that do not support them.

``REFUSED`` is the only table of combinations that are not supported. A public function calls ``check_features`` with
its own name. Two features that exclude each other are entered once, under either of them. Add new features and
functions here: ``tests/whole/test_features.py`` tests every pair of features with every function, and the page "What
works with what" prints the table.
"""

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from .._base import check

__all__ = ["FEATURES", "FUNCTIONS", "HINTS", "REFUSED", "applies", "check_features", "features_of", "supported"]


class Problem(NamedTuple):
    """The tasks that are learned at one time, their schedule, and the options of the call."""

    tasks: tuple  # models
    combinations: tuple  # how tasks are combined: "Mixed", "heads", "Stages", "low_rank", "pull", "distilled"
    schedule: tuple  # names of the numbers with a schedule
    options: dict[str, Any]


class Feature(NamedTuple):
    """A feature: its words in messages, and a test whether a :class:`Problem` has it."""

    words: str
    is_in: Callable[[Problem], bool]


def _task(words, has):
    return Feature(words, lambda x: any(has(task) for task in x.tasks))


def _combination(name, words):
    return Feature(words, lambda x: name in x.combinations)


def _scheduled(name):
    return Feature(f"a schedule on {name}", lambda x: name in x.schedule)


def _option(words, name, default):
    return Feature(words, lambda x: x.options.get(name, default) is not default)


def _rule(words, has):
    return _task(words, lambda m: m.rule is not None and has(m.rule))


# All features, by the name that the tables below use.
FEATURES = {
    "noise": _task("label noise (noise > 0)", lambda m: m.noise > 0),
    "decay": _task("weight decay (weight_decay > 0)", lambda m: m.weight_decay[0] > 0),
    "batches": _task("batches (batch_size > 1)", lambda m: m.batch_size > 1),
    "flow": _task("a gradient flow (gradient_flow=True)", lambda m: m.gradient_flow),
    "sphere": _task("students of fixed norm (constraint='sphere')", lambda m: m.spherical),
    "drift": _task("teachers that drift (drift > 0)", lambda m: m.drift > 0),
    "trained_v": _task("a trained second layer (eta_v > 0, eta_theta > 0)", lambda m: m.trains_v),
    "rule": _rule("a rule of learning in place of a squared loss (ov.learner)", lambda rule: True),
    "overlaps": _rule("a rule that reads the overlaps (uses_overlaps=True)", lambda rule: rule.uses_overlaps),
    "tokens": _rule("several inputs in a sample (tokens > 1)", lambda rule: rule.tokens > 1),
    "tokens_by_block": _rule("a token_covariance for each eigenspace", lambda rule: rule.by_block),
    "classes": _task("inputs in classes", lambda m: m.n_classes > 0),
    "ratios": _task(
        "classes whose variances differ between eigenspaces", lambda m: m.n_classes > 0 and len(m.groups) > 1
    ),
    "biases": _task("trained biases (ov.biased)", lambda m: m.n_classes > 0 and np.any(m.constant_inputs)),
    "latents": _task("a teacher of latents", lambda m: m.latent_teacher),
    "several": _task("several eigenvalues of the inputs (L > 1)", lambda m: m.spectrum.L > 1),
    "blind": _task("an eigenspace without variance (s = 0)", lambda m: m.spectrum.s.min() == 0),
    "kinked": _task("units with a kink (relu)", lambda m: m.activation.kinks != ()),
    "Mixed": _combination("Mixed", "tasks mixed in one step (ov.Mixed)"),
    "heads": _combination("heads", "a second layer for each task (heads=)"),
    "low_rank": _combination("low_rank", "trained directions (ov.low_rank)"),
    "pull": _combination("pull", "directions that are pulled (pull=, ov.memory)"),
    "distilled": _combination("distilled", "a frozen student that teaches (ov.distill)"),
    "Stages": _combination("Stages", "tasks in a row (ov.Stages)"),
    **{f"{name}(alpha)": _scheduled(name) for name in ("eta", "eta_v", "noise", "weight_decay", "batch_size", "s")},
    "late": _option("late=True", "late", False),
    "sums": _option("blocks=False", "blocks", True),
    "stop": _option("stop=", "stop", None),
    "certify": _option("certify=True", "certify", False),
    "step": _option("finite steps (step=)", "step", None),
}

STRUCTURED = "method = 'structured'"  # a method that supports less than its function
ROWS = "simulate(rows=)"  # an option of this kind


class FunctionGroups(NamedTuple):
    """Names of functions and of methods, by a property that they share."""

    fixed_points: tuple[str, ...] = "linearise", "fixed_point", "critical_eta"
    finite_N: tuple[str, ...] = "fluctuations", "theory.escape"  # for SGD at finite N
    autonomous: tuple[str, ...] = "plateaus", *finite_N  # for equations that do not change with time
    linear: tuple[str, ...] = "theory.linear.reduce", "theory.linear.multi_pass"
    theory: tuple[str, ...] = (
        "theory.stationary_points", "theory.minima", "theory.plateau.plateau_state", "theory.cayley_hamilton.solve",
        *linear,
    )  # fmt: skip
    # They take the model of a single task, neither mixed nor in stages.
    single_task: tuple[str, ...] = (
        "solve_many", "closure", "field_average", *fixed_points, "plateau", "theory.escape", "hessian", "compress",
        *theory,
    )  # fmt: skip
    # They take options that are features; they take schedules, or results with one.
    options: tuple[str, ...] = "solve", "solve_many", STRUCTURED, *autonomous
    schedules: tuple[str, ...] = *options, "simulate", "method = 'reduced'", ROWS, "field_average", "hessian"


GROUPS = FunctionGroups()
# All functions, and the methods that support less than their function.
FUNCTIONS = (
    "solve", "solve_many", STRUCTURED, "simulate", "method = 'reduced'", ROWS, "closure", "field_average",
    *GROUPS.fixed_points, "plateaus", "plateau", "fluctuations", "theory.escape", "hessian", "optimal_schedule",
    "compress", *GROUPS.theory,
)  # fmt: skip

# Functions and other features that do not support a feature.
REFUSED: dict[str, tuple[str, ...]] = {
    "noise": ("rule", "late"),
    "decay": ("sphere", "late", "theory.minima", "theory.linear.reduce"),
    "batches": ("theory.linear.reduce",),
    "flow": ("critical_eta", *GROUPS.finite_N),
    "sphere": (
        "classes", "Mixed", "low_rank", "distilled", "late", STRUCTURED, "optimal_schedule",
        *GROUPS.theory[1:],
    ),
    "drift": (
        "classes", "latents", "Mixed", "distilled", "low_rank", "late", "method = 'reduced'", *GROUPS.finite_N,
        "theory.minima", "theory.plateau.plateau_state", *GROUPS.linear,
    ),
    "trained_v": ("low_rank", "late", "theory.plateau.plateau_state", *GROUPS.linear),
    "several": ("theory.stationary_points", "theory.minima"),
    "rule": (
        "classes", "latents", "Mixed", "low_rank", "distilled", "late", "hessian", "optimal_schedule",
        *GROUPS.theory,
    ),
    "tokens": (ROWS,),
    "tokens_by_block": ("s(alpha)", "sums", "closure", STRUCTURED, "fluctuations", "compress"),
    "classes": (
        "Mixed", "low_rank", "distilled", "Stages", "s(alpha)", "late", "sums", ROWS, "field_average",
        *GROUPS.finite_N, "hessian", "optimal_schedule", *GROUPS.theory,
    ),
    "ratios": ("latents", STRUCTURED, "compress"),
    "biases": ("latents", "compress"),
    "latents": ("Mixed", "low_rank", "distilled", "s(alpha)", "late", ROWS, *GROUPS.finite_N, *GROUPS.theory[1:]),
    "kinked": ("late",),
    "distilled": ("late",),
    "Mixed": ("low_rank", "late", "sums", "certify", ROWS, "plateaus", *GROUPS.single_task),
    "low_rank": (
        "Stages", "late", "sums", "certify", STRUCTURED, ROWS, "plateaus", "fluctuations", "optimal_schedule",
        *GROUPS.single_task,
    ),
    "pull": ("method = 'reduced'",),
    "Stages": ("late", "sums", "certify", ROWS, "fluctuations", *GROUPS.single_task),
    "eta(alpha)": GROUPS.autonomous,
    "eta_v(alpha)": GROUPS.autonomous,
    "noise(alpha)": ("late", *GROUPS.autonomous),
    "weight_decay(alpha)": ("late", *GROUPS.autonomous),
    "batch_size(alpha)": GROUPS.autonomous,
    "s(alpha)": ("late", "sums", "solve_many", STRUCTURED, ROWS, "hessian", *GROUPS.autonomous),
    "late": ("sums", "solve_many"),
    "sums": ("plateaus", *GROUPS.finite_N),
    "certify": ("solve_many",),
    "step": ("drift", "pull", "late", "certify", STRUCTURED, "method = 'reduced'", "plateaus", *GROUPS.finite_N),
}  # fmt: skip
# Features that a feature includes.
IMPLIED = {
    "overlaps": ("rule",),
    "tokens": ("rule",),
    "tokens_by_block": ("rule", "tokens", "several"),
    "ratios": ("classes", "several"),
    "biases": ("classes", "several", "blind"),
    "blind": ("several",),
    "heads": ("Mixed",),
    "pull": ("low_rank",),
}
# Reason or advice for a pair of features, or of a feature and a function, at the end of the message.
HINTS = {
    ("decay", "sphere"): "The projection cancels it at every step; expected weight_decay = 0, or (0, kappa_v).",
    ("noise", "rule"): "The noise of a learner is that of its rule, noise= of ov.Rule.",
    ("classes", "s(alpha)"): "Classes have variances of their own, ratios=.",
    ("biases", "compress"): "Compress first: ov.biased(*ov.compress(model, state, nodes), ...).",
    ("drift", "distilled"): "The overlaps of a frozen student with teachers that drift would decay.",
    ("drift", "low_rank"): "The overlaps of frozen students with teachers that drift would decay.",
    ("trained_v", "low_rank"): "Expected eta_v = 0; the amplitudes are trained instead.",
    ("sums", "late"): "late=True needs the overlaps of every block.",
    ("tokens_by_block", "closure"): "The closure depends on the overlaps of each block; use ov.solve.",
    ("several", "theory.stationary_points"): (
        "Expected L = 1; elsewhere ov.fixed_point from guesses, such as slow records of a curve."
    ),
    ("several", "theory.minima"): "Expected L = 1.",
    ("decay", "theory.minima"): "Its minima are those of eps_g; expected weight_decay = 0.",
    ("flow", "critical_eta"): "The stability of a gradient flow does not depend on eta.",
    ("latents", ROWS): "ov.gaussian_covariates takes samples=.",
    ("s(alpha)", "hessian"): "hessian(traj[i]) is that of a record at the eigenvalues of the model.",
    **dict.fromkeys(
        product((name for name in FEATURES if name.endswith("(alpha)")), GROUPS.autonomous),
        "Fixed points move with it; solve without. A model with the numbers of a constant schedule has the same curve: "
        "model.replace(eta=...).",
    ),
    **{("sums", x): "Solve with blocks=True, or record the time that matters." for x in GROUPS.autonomous},
    **{(name, "late"): "late=True expects perfect learning: docs/integration.md, 'Late times'." for name in REFUSED},
}


def problems(model: Any, schedule: Any = None, **options: Any) -> list[Problem]:
    """The problem of a model, or one for each stage."""
    names = tuple(schedule) if isinstance(schedule, dict) else () if schedule is None else ("eta",)
    if "Stages" in model.combinations:
        stages = [problem for stage in model.models for problem in problems(stage, schedule, **options)]
        return [x._replace(combinations=(*x.combinations, *model.combinations)) for x in stages]
    tasks = (model.model,) if "low_rank" in model.combinations else model.tasks
    combinations = {*model.combinations}.union(*(task.combinations for task in tasks))
    return [Problem(tuple(tasks), tuple(combinations), names, options)]


def features_of(problem: Problem) -> list[str]:
    """Names of the features that a problem has."""
    return [name for name, feature in FEATURES.items() if feature.is_in(problem)]


def supported(name: str, who: str) -> bool:
    """Whether a function supports a feature, or two features can be combined, with all features that they include."""
    pairs = product((name, *IMPLIED.get(name, ())), (who, *IMPLIED.get(who, ())))
    return not any(b in REFUSED.get(a, ()) or a in REFUSED.get(b, ()) for a, b in pairs)


def applies(name: str, who: str) -> bool:
    """Whether a function can meet a feature: schedules and options occur only in functions that take them."""
    if name in ("late", "sums", "stop", "certify"):
        return who in GROUPS.options
    if name == "step":
        return who in (*GROUPS.options, "simulate", "method = 'reduced'", ROWS)
    return who in GROUPS.schedules or not name.endswith("(alpha)")


def check_features(who: str | None, model: Any, schedule: Any = None, *, name: str = "model", **options: Any) -> Any:
    """Return the model, or raise ``ValueError`` if two of its features exclude each other or ``who`` excludes one.

    ``who`` is the name of a function or a feature; ``options`` are the options of the call that are features: late,
    blocks, stop, certify, step.
    """
    if not hasattr(model, "combinations"):
        check.model(model, name)
    for problem in problems(model, schedule, **options):
        found = features_of(problem)
        pairs = [] if who is None else [(feature, who) for feature in found]
        pairs += [(feature, other) for i, feature in enumerate(found) for other in found[:i]]
        for feature, other in pairs:
            if not supported(feature, other):
                raise ValueError(_message(feature, other, f"{name} = {check.shown(model)}", found))
    return model


def _message(feature, other, subject, found):
    """Message of the error: ``other``, a function or a feature, does not support ``feature``."""
    words = FEATURES[feature].words
    alternatives = (  # for a function without a hint of its own
        dict.fromkeys((STRUCTURED,), "Try 'DOP853', or 'LSODA' of SciPy.")
        | dict.fromkeys(GROUPS.finite_N, "Simulate: ov.simulate(model, N=, alpha=, rng=, runs=).")
        | {"method = 'reduced'": "Try 'direct'.", "solve_many": "Call ov.solve, or ov.sweep over it."}
    )
    hint = HINTS.get((feature, other)) or HINTS.get((other, feature)) or alternatives.get(other, "")
    if other in FEATURES:
        hint = hint or "Expected one without the other."
        return f"{words} with {FEATURES[other].words} is not supported: {subject}. {hint}"
    able = [x for x in FUNCTIONS if all(supported(one, x) for one in found)]
    return f"{other} does not support {words}: {subject}. {hint and hint + ' '}Supported by {', '.join(able)}."
