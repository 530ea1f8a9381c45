"""What works with what: features of a problem against the functions of the library, and against each other.

``REFUSED`` is the one place that refuses features. A function calls ``check_features`` with its own name; two features
that exclude each other stand in it once and refuse each other wherever they meet. New features and functions are
entered here: ``tests/whole/test_features.py`` walks every pair of features with every function, and the page "What
works with what" prints the table.
"""

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

from .._base import check

__all__ = ["FEATURES", "FUNCTIONS", "HINTS", "REFUSED", "applies", "check_features", "features_of", "supported"]


class Problem(NamedTuple):
    """The tasks that are learned at one time, and what is asked of them."""

    tasks: tuple  # models
    kinds: tuple  # what holds the tasks together: "Mixed", "heads", "Stages", "low_rank"
    schedule: tuple  # names of the numbers that change
    options: dict[str, Any]


class Feature(NamedTuple):
    """A feature: its words in messages, and whether a :class:`Problem` has it."""

    words: str
    present: Callable[[Problem], bool]


def _task(words, has):
    return Feature(words, lambda x: any(has(task) for task in x.tasks))


def _kind(name, words):
    return Feature(words, lambda x: name in x.kinds)


def _factor(name):
    return Feature(f"a schedule on {name}", lambda x: name in x.schedule)


def _option(words, name, usual):
    return Feature(words, lambda x: x.options.get(name, usual) is not usual)


def _rule(words, has):
    return _task(words, lambda m: m.rule is not None and has(m.rule))


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
    "latents": _task("a teacher of latents", lambda m: m.latent_teacher),
    "several": _task("several eigenvalues of the inputs (L > 1)", lambda m: m.spectrum.L > 1),
    "blind": _task("an eigenspace without variance (s = 0)", lambda m: m.spectrum.s.min() == 0),
    "kinked": _task("units with a kink (relu)", lambda m: m.activation.kinks != ()),
    "Mixed": _kind("Mixed", "tasks mixed in one step (ov.Mixed)"),
    "heads": _kind("heads", "a second layer for each task (heads=)"),
    "low_rank": _kind("low_rank", "trained directions (ov.low_rank)"),
    "distilled": _kind("distilled", "a frozen student that teaches (ov.distill)"),
    "Stages": _kind("Stages", "tasks in a row (ov.Stages)"),
    **{f"{name}(alpha)": _factor(name) for name in ("eta", "eta_v", "noise", "weight_decay", "batch_size", "s")},
    "late": _option("late=True", "late", False),
    "sums": _option("blocks=False", "blocks", True),
    "stop": _option("stop=", "stop", None),
    "certify": _option("certify=True", "certify", False),
}

METHODS = "method = 'structured'", "method = 'exponential'"
LINEAR = "theory.linear.reduce", "theory.linear.multi_pass"
STATIONARY, SADDLE = "theory.stationary_points", "theory.plateau.plateau_state"
HIERARCHY = "theory.cayley_hamilton.solve"
FIXED = "linearise", "fixed_point", "critical_eta"
FUNCTIONS = (
    "solve", "solve_many", *METHODS, "simulate", "method = 'reduced'", "closure", "field_average", *FIXED, "plateaus",
    "plateau", "fluctuations", "theory.escape", "hessian", "optimal_schedule", "compress", STATIONARY, SADDLE,
    HIERARCHY, *LINEAR,
)  # fmt: skip
# Those that take the model of one task at one time; of SGD at finite N; of equations that do not change with time.
SINGLE = (
    "solve_many", "closure", "field_average", *FIXED, "plateau", "theory.escape", "hessian", "compress", STATIONARY,
    SADDLE,
    HIERARCHY, *LINEAR,
)  # fmt: skip
SMALL, CONSTANT = ("fluctuations", "theory.escape"), ("plateaus", "fluctuations", "theory.escape")

REFUSED: dict[str, tuple[str, ...]] = {  # functions and other features that do not support a feature
    "noise": ("rule", "late"),
    "decay": ("sphere", "late", LINEAR[0]),
    "batches": LINEAR[:1],
    "flow": ("critical_eta", *SMALL),
    "sphere": (
        "classes", "Mixed", "low_rank", "distilled", "late", *METHODS, *SMALL, "optimal_schedule", SADDLE, HIERARCHY,
        *LINEAR,
    ),
    "drift": (
        "classes", "latents", "Mixed", "distilled", "low_rank", "late", "method = 'reduced'", *SMALL, SADDLE, *LINEAR,
    ),
    "trained_v": ("low_rank", "late", SADDLE, *LINEAR),
    "several": (STATIONARY,),
    "rule": (
        "classes", "latents", "Mixed", "low_rank", "distilled", "late", METHODS[1], "hessian", "optimal_schedule",
        STATIONARY, SADDLE, HIERARCHY, *LINEAR,
    ),
    "tokens_by_block": ("s(alpha)", "sums", "closure", *METHODS, "fluctuations", "compress"),
    "classes": (
        "Mixed", "low_rank", "distilled", "Stages", "s(alpha)", "late", "sums", "field_average", *SMALL, "hessian",
        "optimal_schedule", STATIONARY, SADDLE, HIERARCHY, *LINEAR,
    ),
    "ratios": ("latents", *METHODS, "compress"),
    "latents": ("Mixed", "low_rank", "distilled", "s(alpha)", "late", *SMALL, SADDLE, HIERARCHY, *LINEAR),
    "kinked": ("late",),
    "distilled": ("late",),
    "Mixed": ("low_rank", "late", "sums", "certify", "plateaus", *SINGLE),
    "low_rank": (
        "Stages", "late", "sums", "certify", *METHODS, "plateaus", "fluctuations", "optimal_schedule", *SINGLE,
    ),
    "Stages": ("late", "sums", "certify", "fluctuations", *SINGLE),
    "eta(alpha)": CONSTANT,
    "eta_v(alpha)": CONSTANT,
    "noise(alpha)": ("late", *CONSTANT),
    "weight_decay(alpha)": ("late", *CONSTANT),
    "batch_size(alpha)": CONSTANT,
    "s(alpha)": ("late", "sums", "solve_many", *METHODS, "hessian", *CONSTANT),
    "late": ("sums", "solve_many"),
    "sums": ("plateaus", *SMALL),
    "certify": ("solve_many",),
}  # fmt: skip
STEADY = (
    "Fixed points move with it; solve without. A model with the numbers of a constant schedule has the same curve: "
    "dataclasses.replace(model, eta=...)."
)
IMPLIED = {  # features that come with a feature
    "overlaps": ("rule",),
    "tokens": ("rule",),
    "tokens_by_block": ("rule", "tokens", "several"),
    "ratios": ("classes", "several"),
    "blind": ("several",),
    "heads": ("Mixed",),
}
OPTIONS = "late", "sums", "stop", "certify"
TAKE_OPTIONS = "solve", "solve_many", *METHODS, *CONSTANT
TAKE_SCHEDULES = *TAKE_OPTIONS, "simulate", "method = 'reduced'", "field_average", "hessian"
MOVING = [name for name in FEATURES if name.endswith("(alpha)")]
HINTS = {  # of pairs: why, or what to try
    ("decay", "sphere"): "The projection undoes it at every step; expected weight_decay = 0, or (0, kappa_v).",
    ("noise", "rule"): "The noise of a learner is that of its rule, noise= of ov.Rule.",
    ("classes", "s(alpha)"): "Classes have variances of their own, ratios=.",
    ("drift", "distilled"): "A frozen student stays, and its overlaps with teachers that drift would decay.",
    ("drift", "low_rank"): "Frozen students stay, and their overlaps with teachers that drift would decay.",
    ("trained_v", "low_rank"): "Expected eta_v = 0, beside trained amplitudes.",
    ("sums", "late"): "late=True goes on from the overlaps of every block.",
    ("tokens_by_block", "closure"): "The closure depends on the overlaps of each block: ov.solve.",
    ("several", STATIONARY): "Expected L = 1; elsewhere ov.fixed_point from guesses, such as slow records of a curve.",
    ("flow", "critical_eta"): "The stability of a gradient flow does not depend on eta.",
    ("low_rank", METHODS[0]): "Try 'DOP853', or 'LSODA' of SciPy.",
    ("s(alpha)", "hessian"): "hessian(model, traj[i]) is that of a record at the eigenvalues of the model.",
    **{(name, x): STEADY for name in MOVING for x in CONSTANT},
    **{("sums", x): "Solve with blocks=True, or record the time that matters." for x in CONSTANT},
    **{(name, "late"): "late=True expects perfect learning: docs/integration.md, 'Late times'." for name in REFUSED},
}
INSTEAD = (
    dict.fromkeys(METHODS, "Try 'DOP853', or 'LSODA' of SciPy.")
    | dict.fromkeys(SMALL, "Simulate: ov.simulate(model, N=, alpha=, rng=, runs=).")
    | {"method = 'reduced'": "Try 'direct'.", "solve_many": "Call ov.solve, or ov.sweep over it."}
)


def problems(model: Any, schedule: Any = None, **options: Any) -> list[Problem]:
    """What is learned at one time: one problem, or one for each stage."""
    names = tuple(schedule) if isinstance(schedule, dict) else () if schedule is None else ("eta",)
    if "Stages" in model.combinations:
        stages = [problem for stage in model.models for problem in problems(stage, schedule, **options)]
        return [x._replace(kinds=(*x.kinds, *model.combinations)) for x in stages]
    tasks = (model.model,) if "low_rank" in model.combinations else model.tasks
    kinds = {*model.combinations}.union(*(task.combinations for task in tasks))
    return [Problem(tuple(tasks), tuple(kinds), names, options)]


def features_of(problem: Problem) -> list[str]:
    """Names of the features that a problem has."""
    return [name for name, feature in FEATURES.items() if feature.present(problem)]


def supported(name: str, who: str) -> bool:
    """Whether a function supports a feature, or two features go together, with those that come with them."""
    pairs = product((name, *IMPLIED.get(name, ())), (who, *IMPLIED.get(who, ())))
    return not any(b in REFUSED.get(a, ()) or a in REFUSED.get(b, ()) for a, b in pairs)


def applies(name: str, who: str) -> bool:
    """Whether a function has a say about a feature: schedules and options belong to functions that take them."""
    if name in OPTIONS:
        return who in TAKE_OPTIONS
    return who in TAKE_SCHEDULES or not name.endswith("(alpha)")


def check_features(who: str | None, model: Any, schedule: Any = None, *, name: str = "model", **options: Any) -> Any:
    """The model; refused where two of its features, or one and ``who``, a function or a feature, do not go together.

    ``options`` are those of the call that are features: late, blocks, stop, certify.
    """
    if not hasattr(model, "combinations"):
        check.model(model, name)
    for problem in problems(model, schedule, **options):
        found = features_of(problem)
        pairs = [] if who is None else [(feature, who) for feature in found]
        pairs += [(feature, other) for i, feature in enumerate(found) for other in found[:i]]
        for feature, other in pairs:
            if not supported(feature, other):
                raise ValueError(_sentence(feature, other, f"{name} = {check.shown(model)}", found))
    return model


def _sentence(feature, other, subject, found):
    """The refusal of a feature by a function or by another feature."""
    words = FEATURES[feature].words
    hint = HINTS.get((feature, other)) or HINTS.get((other, feature)) or INSTEAD.get(other, "")
    if other in FEATURES:
        hint = hint or "Expected one without the other."
        return f"{words} with {FEATURES[other].words} is not supported: {subject}. {hint}"
    able = [x for x in FUNCTIONS if all(supported(one, x) for one in found)]
    return f"{other} does not support {words}: {subject}. {hint and hint + ' '}Supported by {', '.join(able)}."
