"""How the runs of a model are made: one plan for inputs with a spectrum, one more for each other kind of data."""

from collections.abc import Callable
from functools import partial, singledispatch
from inspect import Parameter, signature
from typing import Any, NamedTuple

import numpy as np

from .._base import Immutable, check, quietly
from ..models import LowRank, Mixed
from ..models.features import check_features
from ..models.schedule import teachers_at
from ..results.composite import LowRankEnsemble, MixedEnsemble
from ..results.ensemble import Ensemble
from .direct import direct_run
from .reduced import reduced_run

# A simulator is a function (model, start, N, steps, rng, tick) -> q, r, v.  A new one enters here.
SIMULATORS: dict[str, Callable] = {"direct": direct_run, "reduced": reduced_run}


class SimulationSpec(NamedTuple):
    """Plan by which ``simulate`` runs a model."""

    method: str  # by this name in the record
    run: Callable  # (model, start, N, steps, rng, tick) -> arrays (n, ...)
    starts: list  # one for each run
    collect: Callable  # (arrays (runs, n, ...), starts, **fields) -> the record of all runs


@singledispatch
def specify(model: Any, N, children, start, method, student_scale, dtype, evaluator=None, *, keep_weights=False):
    """The Plan of a model, after every check that can be made before the runs.

    A model with data of its own registers its class: ``@plan.register(MyModel)``. The options of the data are the
    keywords of what it registers, and ``simulate`` takes them.
    """
    if model.latent_teacher:
        raise ValueError(
            "the teacher acts on latents, whose law the model does not know; expected the model that has them: "
            "ov.simulate(ov.hidden_manifold(...), latents=...)."
        )
    sizes = model.spectrum.block_sizes(N)
    if model.n_classes:
        model.check_size(N)
    if method == "reduced":
        check_features("method = 'reduced'", model)
    if method == "auto":
        smallest, units = sizes[sizes > 0].min(), model.K + model.second_layers.size
        fits = not (model.drift or keep_weights or dtype == "float32") and smallest > units
        method = "reduced" if fits else "direct"
    run = partial(SIMULATORS[method], evaluator=evaluator)
    run = partial(run, dtype=dtype or "float64", keep=keep_weights) if method == "direct" else run
    return SimulationSpec(method, run, starts_of(model, start, N, children, student_scale), ensemble)


def dispatch(model, data):
    """The function that plans runs of this model, once it is known to take the options in ``data``."""
    specify_model = specify.dispatch(type(model))
    unknown = [name for name in data if name not in _options(specify_model)]
    if unknown:
        Immutable.kinds.complete()  # of which some have options of their own
        named, takes = ", ".join(unknown), ", ".join(_options(specify_model)) or "none beside those of every model"
        owners = [x.__name__ for x, other in specify.registry.items() if set(unknown) <= _options(other).keys()]
        owned = f"{named} belong to {' or '.join(owners)}" if owners else f"simulate has no option {named}"
        error = ValueError if owners else TypeError
        raise error(f"{owned}; expected for a {type(model).__name__}: {takes}.")
    return specify_model


def _options(function):
    options = {name: x for name, x in signature(function).parameters.items() if x.kind is Parameter.KEYWORD_ONLY}
    options.pop("keep_weights", None)  # one of simulate
    return options


def ensemble(records, starts, **common):
    """The record of runs that begin at States: q, r, v of all of them, with the teachers' constants."""
    (q, r, v, *final), model = records, common["model"]
    names = ("tau", "T", "h", "nu") if model.n_classes else ("tau", "T")
    parts: dict[str, Any] = {name: np.stack([getattr(state, name) for state in starts]) for name in names}
    parts |= model.split_rows(r) | {"final_W": final[0][:, 0] if final else None}
    kind: Any = {Mixed: MixedEnsemble, LowRank: LowRankEnsemble}.get(type(model), Ensemble)
    parts["T"] = teachers_at(model, parts["tau"], parts["T"], common["schedule"], common["alpha"])
    return kind(q=q, v=v, **parts, **common)


def starts_of(model, start, N, children, student_scale):
    """A State for each run: given ones on the model, or one drawn for each."""
    if isinstance(model, LowRank) and start is None:
        raise ValueError("start is None; expected the start that ov.low_rank returns beside the model.")
    if isinstance(model, Mixed | LowRank):
        return [model.enter(x) for x in starts_of(model.tasks[0], start, N, children, student_scale)]
    if start is None:
        with quietly():  # of a coarse step, which simulate gives once
            return [model.random_start(N=N, rng=child, student_scale=student_scale) for child in children]
    if isinstance(start, list | tuple):
        if len(start) != len(children):
            raise ValueError(f"start has {len(start)} states; expected one, or runs = {len(children)} of them.")
        return [check.state(s, f"start[{i}]").on(model) for i, s in enumerate(start)]
    return [check.state(start).on(model)] * len(children)
