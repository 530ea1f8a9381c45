"""Models and schedules as JSON and arrays: their descriptions in files, and their reconstruction."""

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any

import numpy as np

from .._base import Immutable, check
from ..activations import Activation
from ..activations import library as activations
from ..models import LowRank, Mixed, Schedule
from ..models.memory import VaryingPull
from ..rules.rule import again

FILE_FORMAT = 2  # version of the format that this version writes
PROBES = np.array([-1.5, -0.5, 0.25, 1.0])  # arguments at which a file contains the values of a function, to compare
MAKERS: dict[str, Any] = {"leaky_relu": activations.leaky_relu, "polynomial": activations.polynomial}


class Refused(Exception):
    """An undamaged file cannot be read with this model, or without a model."""


def described(model):
    """Describe a model, or mixed tasks, for a file: (entries of the header, arrays)."""
    if isinstance(model, Mixed):
        headers, of_tasks = zip(*map(described, model.models), strict=True)
        arrays = {f"task{i}/{name}": x for i, task in enumerate(of_tasks) for name, x in task.items()}
        shares = schedule_recipe(model.shares) if model.schedules else model.shares.tolist()
        return {"mixed": list(headers), "shares": shares, "readouts": _listed(model.heads)}, arrays
    if isinstance(model, LowRank):
        (header, arrays), (recipes, memory) = described(model.model), _memory(model)
        return header | {"low_rank": [model.rank, model.eta_a, *recipes]}, arrays | memory
    spectrum, roles = model.spectrum, ("activation", "teacher_activation")
    values = {f.name: getattr(model, f.name) for f in fields(model) if f.name not in {*roles, "spectrum", "features"}}
    arrays = {f"model.{name}": x for name, x in values.items() if isinstance(x, np.ndarray)}
    arrays |= {"spectrum.s": spectrum.s, "spectrum.p": spectrum.p}
    if spectrum.basis is not None:
        arrays["spectrum.basis"] = spectrum.basis
    common = {f.name for f in fields(Immutable.kinds["Model"])}
    # None, and zeros of "drift" and "frozen", are left out, because early files do not contain them
    numbers = {name: x for name, x in values.items() if x is not None and not isinstance(x, np.ndarray)}
    for name in ("drift", "frozen"):
        if not numbers[name]:
            del numbers[name]
    header = {
        "kinds": {"model": type(model).__name__, "spectrum": type(spectrum).__name__},
        "model": {x: number for x, number in numbers.items() if x in common}
        | {role: _label(getattr(model, role)) for role in roles},
        "recipes": {role: recipe for role in roles if (recipe := _recipe(getattr(model, role)))},
        "probes": {role: np.ravel(getattr(model, role)(PROBES)).tolist() for role in roles if model.rule is None},
        "spectrum": spectrum.name,
    }
    if special := {x: number for x, number in numbers.items() if x not in common}:
        header["manifold"] = special
    if hasattr(model, "features"):
        header["features"] = model.features.name if model.features.named else f"function {model.features.name}"
    return header, arrays


def model_text(model):
    """Return the description of a model as JSON, for the attributes of a dataset."""
    header, arrays = described(model)
    return json.dumps({"format": FILE_FORMAT, **header, "arrays": {name: x.tolist() for name, x in arrays.items()}})


def model_from_text(text):
    """Return the model of :func:`model_text`; user functions are refused, because a text cannot contain them."""
    header = json.loads(text)
    try:
        return model_from_header(header, {name: np.array(x) for name, x in header["arrays"].items()})
    except Refused:
        first = header.get("mixed", [header])[0]
        name = first["features"] if "features" in first else first["model"]["activation"]
        name += " or its partner, or a pull" if "low_rank" in header else " or its partner"
        raise ValueError(
            f"the model has a function of the user ({name}), which a text cannot contain; construct the model by the "
            "original call."
        ) from None


def model_from_header(header, data):
    """Return the model that a header and arrays describe."""
    if "mixed" in header:
        models = [model_from_header(task, inside(data, f"task{i}/")) for i, task in enumerate(header["mixed"])]
        shares = header["shares"]
        return Mixed(models, schedule_of(shares, None) if isinstance(shares, dict) else shares, header["readouts"])
    if "low_rank" in header:
        (rank, eta_a, *recipes), arrays = header["low_rank"], inside(data, "low_rank.")
        network = model_from_header(_network(header), data)
        return LowRank(network, rank, eta_a, arrays.get("write"), _pull(recipes, arrays))
    options = dict(header["model"])
    for role in ("activation", "teacher_activation"):
        maker, parameter = header.get("recipes", {}).get(role, (None, None))  # missing in early files
        if maker == "rule":
            options[role] = again(*parameter).activation
            continue
        options[role] = replace(MAKERS[maker](parameter), name=options[role]) if maker else _activation(options[role])
    options["weight_decay"] = tuple(options["weight_decay"])
    kinds = {field: Immutable.kinds[name] for field, name in _kinds(header).items()}
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
    """Return the models of a Batch; equal spectra become one object."""
    headers: list = header["models"]
    known: dict[bytes, Any] = {}
    if models is not None and (not isinstance(models, list | tuple) or len(models) != len(headers)):
        raise Refused(f"model = {check.shown(models)}; expected the {len(headers)} models of the batch, as a sequence.")
    restored = []
    for i, entry in enumerate(headers):
        arrays = {name: data[name][i] for name in data if name.startswith(("model.", "spectrum."))}
        model = model_from_header(entry, arrays) if models is None else models[i]
        check_same(model, entry, arrays)
        restored.append(replace(model, spectrum=known.setdefault(arrays["spectrum.s"].tobytes(), model.spectrum)))
    return tuple(restored)


def check_same(model, header, data):
    """Refuse a model that differs from its description in the file."""
    if "mixed" in header:
        same = isinstance(model, Mixed) and len(model) == len(header["mixed"])
        if not same or any(header[x] != described(model)[0][x] for x in ("shares", "readouts")):
            raise Refused(f"model = {check.shown(model)}; expected the Mixed that was saved.")
        for i, (task, entry) in enumerate(zip(model.models, header["mixed"], strict=True)):
            check_same(task, entry, inside(data, f"task{i}/"))
        return
    if "low_rank" in header:
        given, arrays = described(model) if isinstance(model, LowRank) else ({}, {})
        saved, arrays = inside(data, "low_rank."), inside(arrays, "low_rank.")
        same = given.get("low_rank") == header["low_rank"] and {*arrays} == {*saved}
        if not same or not all(x.shape == saved[i].shape and np.allclose(x, saved[i]) for i, x in arrays.items()):
            raise Refused(f"model = {check.shown(model)}; expected the LowRank that was saved.")
        check_same(model.model, _network(header), data)
        return
    given, arrays = described(model)
    given = json.loads(json.dumps(given))
    kind = _kinds(header)["model"]
    if kind != type(model).__name__:
        raise Refused(f"model = {check.shown(model)}; expected the {kind} that was saved.")
    for entry in ("model", "recipes", "manifold", "features", "kinds", "probes"):
        if entry not in header or entry not in given:  # early files
            continue
        saved, new = header[entry], given[entry]
        if entry != "probes" and saved != new:
            differ = [x for x in {**saved, **new} if saved.get(x) != new.get(x)] if isinstance(saved, dict) else [entry]
            of_file, of_model = ((x[differ[0]] if isinstance(x, dict) else x) for x in (saved, new))
            raise Refused(
                f"the model has {differ[0]} = {of_model!r}, the file {of_file!r}; expected the model that was saved."
            )
        for role in saved if entry == "probes" else ():
            if not np.allclose(saved[role], new[role], rtol=1e-9, atol=1e-12, equal_nan=True):
                raise Refused(
                    f"the {role} of the model is not that of the file, where it is {saved[role]} at {PROBES}."
                )
    for name in {**arrays, **{x: 0 for x in data if x.startswith(("model.", "spectrum."))}}:
        if name not in arrays:
            raise Refused(f"the file has {name}, and the model has none; expected the model that was saved.")
        saved, new = data.get(name), arrays[name]
        if saved is None or saved.shape != new.shape or not np.allclose(saved, new, rtol=1e-10, atol=0):
            raise Refused(
                f"the model has {name} = {check.shown(new)}, the file {check.shown(saved)}; expected the model that "
                "was saved."
            )


def _network(header):
    """Return the header of the network of a LowRank."""
    return {name: x for name, x in header.items() if name != "low_rank"}


def _memory(model):
    """Describe write and pull of a LowRank: (recipe of a schedule in a list, arrays); a function by a few values."""
    pull, named = model.pull, [f for f in model.schedules if all(piece.function is None for piece in f.pieces)]
    arrays = {"write": model.write, "pull": pull}
    if callable(pull):
        arrays["pull"] = np.array([model.pulled(t) for t in PROBES[2:]])
    if named:
        arrays |= {"fixed": pull.fixed, "varying": pull.varying}
    return [*map(schedule_recipe, named)], {f"low_rank.{name}": x for name, x in arrays.items() if x is not None}


def _pull(recipes, arrays):
    """Return the pull of a LowRank that a file describes."""
    if recipes:
        return VaryingPull(arrays["fixed"], arrays["varying"], schedule_of(recipes[0], None))
    pull = arrays.get("pull")
    if pull is not None and pull.ndim == 3:
        raise Refused("the pull is a function of the user, which is not in the file; pass load(path, model=...).")
    return pull


def _listed(heads):
    return None if heads is None else heads.tolist()


class Arrays(Mapping):
    """Arrays of a file by name, each read at its first use."""

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
    """Return the arrays of one folder of a file."""
    names = [name.removeprefix(folder) for name in data if name.startswith(folder)]
    return Arrays(names, lambda name: data[folder + name])


def _kinds(header):
    """Return the names of the classes of model and spectrum; for early files they follow from other entries."""
    if "kinds" in header:
        return header["kinds"]
    limit = header.get("limit", header["spectrum"].startswith("hidden_manifold("))
    model = "HiddenManifold" if "manifold" in header else "Model"
    return {"model": model, "spectrum": "LimitSpectrum" if limit else "Spectrum"}


def _recipe(activation):
    """Return how to construct an activation with parameters: (function, parameter), or None."""
    if activation.learning is not None:
        return ("rule", activation.learning.recipe) if activation.learning.recipe else None
    recipe = getattr(activation.g, "recipe", None)
    if recipe is None or getattr(activations, activation.name, None) == activation:
        return None
    # a user function may have the name of a built-in one, so the result of the recipe is compared
    constructed = MAKERS[recipe[0]](recipe[1])
    return recipe if replace(constructed, name=activation.name) == activation else None


def _label(activation):
    """Return the name of an activation; that of a user function is prefixed, to differ from built-in names."""
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
    """Return how to construct a schedule, a dict or a tuple of schedules; for a user function only its knots."""
    if schedule is None:
        return None
    if isinstance(schedule, list | tuple):
        return {"each": [schedule_recipe(one) for one in schedule]}
    if isinstance(schedule, dict):
        return {"named": {name: schedule_recipe(f) for name, f in schedule.items()}}
    numbers = {"kind": schedule.kind, "knots": schedule.knots.tolist(), "values": schedule.values.tolist()}
    return numbers | {"factors": [schedule_recipe(f) for f in schedule.factors]}


def schedule_of(recipe, given):
    """Return the schedule of a file: constructed from its recipe, or the given one if it agrees with the recipe."""
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
        raise Refused("the schedule is a user function, which a file cannot contain; pass load(path, schedule=...).")
    factors = tuple(schedule_of(f, None) for f in recipe["factors"])
    return Schedule(recipe["knots"], recipe["values"], recipe["kind"], factors)
