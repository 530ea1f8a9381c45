"""Models and schedules in words and arrays: what a file keeps of them, and how they are made again from it."""

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any

import numpy as np

from .._base import Immutable, check
from ..activations import Activation
from ..activations import library as activations
from ..activations.rule import again
from ..models import LowRank, Mixed, Schedule

FORMAT = 2
ROLES = "activation", "teacher_activation"
PARTS = {*ROLES, "spectrum", "features"}  # of a model, beside its numbers and arrays
PROBES = np.array([-1.5, -0.5, 0.25, 1.0])  # where a file keeps the values of a function, to know it again
MAKERS: dict[str, Any] = {"leaky_relu": activations.leaky_relu, "polynomial": activations.polynomial}


class Refused(Exception):
    """A sound file that cannot be read with this model, or without one."""


def described(model):
    """Record of a model for a file, or of mixed tasks: (entries of the header, arrays)."""
    if isinstance(model, Mixed):
        headers, parts = zip(*map(described, model.models), strict=True)
        arrays = {f"task{i}/{name}": x for i, part in enumerate(parts) for name, x in part.items()}
        shares = schedule_recipe(model.shares) if model.schedules else model.shares.tolist()
        return {"mixed": list(headers), "shares": shares, "readouts": _listed(model.heads)}, arrays
    if isinstance(model, LowRank):
        header, arrays = described(model.model)
        return header | {"low_rank": [model.rank, model.eta_a]}, arrays
    spectrum = model.spectrum
    values = {f.name: getattr(model, f.name) for f in fields(model) if f.name not in PARTS}
    arrays = {f"model.{name}": x for name, x in values.items() if isinstance(x, np.ndarray)}
    arrays |= {"spectrum.s": spectrum.s, "spectrum.p": spectrum.p}
    if spectrum.basis is not None:
        arrays["spectrum.basis"] = spectrum.basis
    common = {f.name for f in fields(Immutable.kinds["Model"])}
    # absent in early files, too, are those that are None
    numbers = {name: x for name, x in values.items() if x is not None and not isinstance(x, np.ndarray)}
    for name in ("drift", "frozen"):  # not in early files
        if not numbers[name]:
            del numbers[name]
    header = {
        "kinds": {"model": type(model).__name__, "spectrum": type(spectrum).__name__},
        "model": {x: number for x, number in numbers.items() if x in common}
        | {role: _label(getattr(model, role)) for role in ROLES},
        "recipes": {role: recipe for role in ROLES if (recipe := _recipe(getattr(model, role)))},
        "probes": {role: np.ravel(getattr(model, role)(PROBES)).tolist() for role in ROLES if model.rule is None},
        "spectrum": spectrum.name,
    }
    if special := {x: number for x, number in numbers.items() if x not in common}:
        header["manifold"] = special
    if hasattr(model, "features"):
        header["features"] = model.features.name if model.features.named else f"function {model.features.name}"
    return header, arrays


def model_text(model):
    """All that a file keeps of a model, as JSON: for the attributes of a data set."""
    header, arrays = described(model)
    return json.dumps({"format": FORMAT, **header, "arrays": {name: x.tolist() for name, x in arrays.items()}})


def model_from_text(text):
    """The model of :func:`model_text`; refuses user functions, which a text cannot hold."""
    header = json.loads(text)
    try:
        return model_from_header(header, {name: np.array(x) for name, x in header["arrays"].items()})
    except Refused:
        first = header.get("mixed", [header])[0]
        name = first["features"] if "features" in first else first["model"]["activation"]
        raise ValueError(
            f"the model has a function of the user ({name} or its partner), which a text cannot hold; make the model "
            "as it was made then."
        ) from None


def model_from_header(header, data):
    """The model that a header and arrays describe."""
    if "mixed" in header:
        models = [model_from_header(task, inside(data, f"task{i}/")) for i, task in enumerate(header["mixed"])]
        shares = header["shares"]
        return Mixed(models, schedule_of(shares, None) if isinstance(shares, dict) else shares, header["readouts"])
    if "low_rank" in header:
        return LowRank(model_from_header(_network(header), data), *header["low_rank"])
    options = dict(header["model"])
    for role in ROLES:
        maker, parameter = header.get("recipes", {}).get(role, (None, None))  # not in early files
        if maker == "rule":
            options[role] = again(*parameter).activation
            continue
        options[role] = replace(MAKERS[maker](parameter), name=options[role]) if maker else _activation(options[role])
    options["weight_decay"] = tuple(options["weight_decay"])
    kinds = {part: Immutable.kinds[name] for part, name in _kinds(header).items()}
    spectrum = data["spectrum.s"], data["spectrum.p"], header["spectrum"], data.get("spectrum.basis")
    options |= {"spectrum": kinds["spectrum"](*spectrum), "v": data["model.v"], "v_star": data["model.v_star"]}
    arrays = inside(data, "model.")
    options |= {f.name: arrays[f.name] for f in fields(kinds["model"]) if f.name in arrays}
    if header.get("features", "").startswith("function "):
        where = check.see("howto/share", "Files")
        raise Refused(f"the file names the features {header['features']!r}; pass load(path, model=...).{where}")
    options |= {"features": header["features"]} if "features" in header else {}
    return kinds["model"](**options, **header.get("manifold", {}))


def models_of(header, data, models):
    """The models of a Batch; spectra that are equal become one."""
    headers: list = header["models"]
    known: dict[bytes, Any] = {}
    if models is not None and (not isinstance(models, list | tuple) or len(models) != len(headers)):
        raise Refused(f"model = {check.shown(models)}; expected the {len(headers)} models of the batch, as a sequence.")
    restored = []
    for i, entry in enumerate(headers):
        arrays = {name: data[name][i] for name in data if name.startswith(("model.", "spectrum."))}
        model = model_from_header(entry, arrays) if models is None else models[i]
        check_same(model, entry, arrays)
        # batches share spectra: one object for all models with the same eigenvalues, as it was before the file
        restored.append(replace(model, spectrum=known.setdefault(arrays["spectrum.s"].tobytes(), model.spectrum)))
    return tuple(restored)


def check_same(model, header, data):
    """Refuse a model that differs in anything the file knows of it."""
    if "mixed" in header:
        same = isinstance(model, Mixed) and len(model) == len(header["mixed"])
        if not same or any(header[x] != described(model)[0][x] for x in ("shares", "readouts")):
            raise Refused(f"model = {check.shown(model)}; expected the Mixed that was saved.")
        for i, (task, part) in enumerate(zip(model.models, header["mixed"], strict=True)):
            check_same(task, part, inside(data, f"task{i}/"))
        return
    if "low_rank" in header:
        if not isinstance(model, LowRank) or [model.rank, model.eta_a] != header["low_rank"]:
            raise Refused(f"model = {check.shown(model)}; expected the LowRank that was saved.")
        check_same(model.model, _network(header), data)
        return
    given, arrays = described(model)
    given = json.loads(json.dumps(given))
    kind = _kinds(header)["model"]
    if kind != type(model).__name__:
        raise Refused(f"model = {check.shown(model)}; expected the {kind} that was saved.")
    for part in ("model", "recipes", "manifold", "features", "kinds", "probes"):
        if part not in header or part not in given:  # early files
            continue
        old, new = header[part], given[part]
        if part != "probes" and old != new:
            differ = [x for x in {**old, **new} if old.get(x) != new.get(x)] if isinstance(old, dict) else [part]
            one, other = ((x[differ[0]] if isinstance(x, dict) else x) for x in (old, new))
            raise Refused(
                f"the model has {differ[0]} = {other!r}, the file {one!r}; expected the model that was saved."
            )
        for role in old if part == "probes" else ():
            if not np.allclose(old[role], new[role], rtol=1e-9, atol=1e-12, equal_nan=True):
                raise Refused(f"the {role} of the model is not that of the file, where it is {old[role]} at {PROBES}.")
    for name in {**arrays, **{x: 0 for x in data if x.startswith(("model.", "spectrum."))}}:
        if name not in arrays:
            raise Refused(f"the file has {name}, and the model has none; expected the model that was saved.")
        one, other = data.get(name), arrays[name]
        if one is None or one.shape != other.shape or not np.allclose(one, other, rtol=1e-10, atol=0):
            raise Refused(
                f"the model has {name} = {check.shown(other)}, the file {check.shown(one)}; expected the model that "
                "was saved."
            )


def _network(header):
    """The header of the network of a LowRank."""
    return {name: x for name, x in header.items() if name != "low_rank"}


def _listed(heads):
    return None if heads is None else heads.tolist()


class Arrays(Mapping):
    """Arrays of a file by name, each read when it is asked for: one that no result has costs nothing."""

    def __init__(self, names, read):
        self._names, self._read = dict.fromkeys(names), cache(read)

    def __getitem__(self, name):
        if name not in self._names:
            raise KeyError(name)
        return self._read(name)

    def __iter__(self):
        return iter(self._names)

    def __len__(self):
        return len(self._names)


def inside(data, folder):
    """The arrays of one folder of a file."""
    names = [name.removeprefix(folder) for name in data if name.startswith(folder)]
    return Arrays(names, lambda name: data[folder + name])


def _kinds(header):
    """Names of the records that model and spectrum are; early files tell by what they hold, and by a name."""
    if "kinds" in header:
        return header["kinds"]
    limit = header.get("limit", header["spectrum"].startswith("hidden_manifold("))
    model = "HiddenManifold" if "manifold" in header else "Model"
    return {"model": model, "spectrum": "LimitSpectrum" if limit else "Spectrum"}


def _recipe(activation):
    """How to make an activation with parameters again: (function, parameter), or None."""
    if activation.learning is not None:
        return ("rule", activation.learning.recipe) if activation.learning.recipe else None
    recipe = getattr(activation.g, "recipe", None)
    if recipe is None or getattr(activations, activation.name, None) == activation:
        return None
    # a function of the user may carry the name of one of ours: it is known again by what the recipe makes
    made = MAKERS[recipe[0]](recipe[1])
    return recipe if replace(made, name=activation.name) == activation else None


def _label(activation):
    """The name of an activation; a user function's cannot be taken for a built-in one."""
    known = getattr(activations, activation.name, activation)
    return activation.name if known == activation or _recipe(activation) else f"function {activation.name}"


def _activation(name):
    known = getattr(activations, name, None)
    if isinstance(known, Activation):
        return known
    where = check.see("howto/share", "Files")
    raise Refused(
        f"the file names the activation or rule {name!r}, which is not built in; pass load(path, model=...).{where}"
    )


def schedule_recipe(schedule):
    """How to make a schedule again, a dict or a tuple of them; of a function the knots only."""
    if schedule is None:
        return None
    if isinstance(schedule, list | tuple):
        return {"each": [schedule_recipe(one) for one in schedule]}
    if isinstance(schedule, dict):
        return {"named": {name: schedule_recipe(f) for name, f in schedule.items()}}
    numbers = {"kind": schedule.kind, "knots": schedule.knots.tolist(), "values": schedule.values.tolist()}
    return numbers | {"factors": [schedule_recipe(f) for f in schedule.factors]}


def schedule_of(recipe, given):
    """The schedule of a file: made from its recipe, or the one that was given and agrees with it."""
    if given is not None:
        if recipe is None or schedule_recipe(given) != recipe:
            raise Refused(f"schedule = {check.shown(given)} is not the one that was saved: {check.shown(recipe)}.")
        return tuple(given) if isinstance(given, list) else given
    if recipe is None:
        return None
    if "each" in recipe:
        return tuple(schedule_of(one, None) for one in recipe["each"])
    if "named" in recipe:
        return {name: schedule_of(f, None) for name, f in recipe["named"].items()}
    if recipe["kind"] == "function":
        raise Refused("the schedule is a user function, which a file cannot hold; pass load(path, schedule=...).")
    factors = tuple(schedule_of(f, None) for f in recipe["factors"])
    return Schedule(recipe["knots"], recipe["values"], recipe["kind"], factors)
