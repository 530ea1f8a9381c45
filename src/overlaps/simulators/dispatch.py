"""Choice of the simulator by the kind of data of a model; here for Gaussian inputs with a spectrum."""

from collections.abc import Callable
from functools import partial, singledispatch
from inspect import Parameter, signature
from typing import Any, NamedTuple

import numpy as np

from .._base import Immutable, check, quietly
from ..models import LowRank, Mixed, State
from ..models.schedule import teachers_at
from ..results.composite import LowRankEnsemble, MixedEnsemble
from ..results.ensemble import Ensemble
from .direct import direct_run
from .reduced import reduced_run
from .rows import Rows

# A simulator is a function (model, start, N, steps, rng, tick) -> q, r, v.  Add new ones here.
SIMULATORS: dict[str, Callable] = {"direct": direct_run, "reduced": reduced_run}


class SimulationSpec(NamedTuple):
    """Specification of the runs of one model, for ``simulate``."""

    method: str  # name of the simulator in the result
    run: Callable  # (model, start, N, steps, rng, tick) -> arrays (n, ...)
    starts: list  # one for each run
    collect: Callable  # (arrays (runs, n, ...), starts, **fields) -> the result of all runs


@singledispatch
def specify(
    model: Any, N, children, start, method, student_scale, dtype, evaluator=None, *, rows=None, rows_test=None,
    replace=True, weights=None, keep_weights=False, stride=None,
):  # fmt: skip
    """The :class:`SimulationSpec` of a model, after all checks that are possible before the runs.

    For models with another kind of data register a function for their class: ``@specify.register(MyModel)``. Its
    keyword-only parameters are the options of the data, which ``simulate`` accepts for this class.
    """
    if model.latent_teacher:
        raise ValueError(
            "the teacher acts on latents, whose law is not part of this model; expected the model that has them: "
            "ov.simulate(ov.hidden_manifold(...), latents=...)."
        )
    sizes = model.spectrum.block_sizes(N)
    if model.n_classes:
        model.check_size(N)
    if weights is not None:
        weights, start = _start_of_weights(model, N, weights, start)
    rows = Rows.checked(model, N, rows, rows_test, replace, weights)
    if method == "reduced" and rows is not None:
        raise ValueError("rows= with method = 'reduced', which has no inputs; expected method='direct'.")
    if method == "auto":
        smallest, units = sizes[sizes > 0].min(), model.K + model.second_layers.size
        pulled = "pull" in model.combinations
        explicit = (model.drift, pulled, keep_weights, dtype == "float32", rows is not None, stride is not None)
        method = "direct" if any(explicit) or smallest <= units else "reduced"
    run = partial(SIMULATORS[method], evaluator=evaluator)
    if method == "direct":
        run = partial(run, dtype=dtype or "float64", keep=keep_weights, rows=rows, stride=stride or 1)
    return SimulationSpec(method, run, starts_of(model, start, N, children, student_scale), ensemble)


def _start_of_weights(model, N, weights, start):
    """Weights (W, W_star), checked, and their State."""
    if start is not None:
        raise ValueError("start= and weights= are given; expected one of them: weights have their own overlaps.")
    if not isinstance(weights, tuple | list) or len(weights) != 2:
        raise check.refused("weights", weights, "a pair (W, W_star) of arrays (K, N) and (M, N).")
    W, W_star = (check.array(*x) for x in (("W", weights[0], (model.K, N)), ("W_star", weights[1], (model.M, N))))
    return (W, W_star), State.from_weights(model, W=W, W_star=W_star)


def dispatch(model, data):
    """The function that specifies runs of this model; raise an error if it does not take the options in ``data``."""
    specify_model = specify.dispatch(type(model))
    unknown = [name for name in data if name not in _options(specify_model)]
    if unknown:
        Immutable.kinds.complete()  # import all model classes, so that the message can name those with these options
        named, takes = ", ".join(unknown), ", ".join(_options(specify_model)) or "none beside those of every model"
        owners = [x.__name__ for x, other in specify.registry.items() if set(unknown) <= _options(other).keys()]
        owned = f"{named} belong to {' or '.join(owners)}" if owners else f"simulate has no option {named}"
        error = ValueError if owners else TypeError
        raise error(f"{owned}; expected for a {type(model).__name__}: {takes}.")
    return specify_model


def _options(function):
    options = {name: x for name, x in signature(function).parameters.items() if x.kind is Parameter.KEYWORD_ONLY}
    for name in ("keep_weights", "stride"):  # of simulate, no options of the data
        options.pop(name, None)
    return options


def ensemble(records, starts, **common):
    """The result of runs that begin at States: q, r, v of all runs, with the teachers' constants."""
    (q, r, v, *rest), model = records, common["model"]
    final = rest.pop()[:, 0] if len(rest) % 2 else None
    names = ("tau", "T", "h", "nu") if model.n_classes else ("tau", "T")
    fields: dict[str, Any] = {name: np.stack([getattr(state, name) for state in starts]) for name in names}
    fields |= model.split_rows(r) | {"final_W": final} | dict(zip(("test_error", "test_error_se"), rest, strict=False))
    kind: Any = {Mixed: MixedEnsemble, LowRank: LowRankEnsemble}.get(type(model), Ensemble)
    fields["T"] = teachers_at(model, fields["tau"], fields["T"], common["schedule"], common["alpha"])
    return kind(q=q, v=v, **fields, **common)


def starts_of(model, start, N, children, student_scale):
    """A State for each run: the given ones, checked and bound to the model, or one random start per run."""
    if isinstance(model, LowRank) and start is None:
        raise ValueError("start is None; expected the start that ov.low_rank returns beside the model.")
    if isinstance(model, Mixed | LowRank):
        return [model.enter(x) for x in starts_of(model.tasks[0], start, N, children, student_scale)]
    if start is None:
        with quietly():  # simulate warns of coarse steps once
            return [model.random_start(N=N, rng=child, student_scale=student_scale) for child in children]
    if isinstance(start, list | tuple):
        if len(start) != len(children):
            raise ValueError(f"start has {len(start)} states; expected one, or runs = {len(children)} of them.")
        return [check.state(s, f"start[{i}]").on(model) for i, s in enumerate(start)]
    return [check.state(start).on(model)] * len(children)
