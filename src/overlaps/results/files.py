"""Saving and loading results: one .npz with arrays and a JSON header."""

import json
import os
import uuid
import zipfile
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from .._base import check
from .._base.record import Record
from .._base.types import PathLike
from .._base.version import __version__
from ..activations import library as activations
from ..integrators.methods import solver_class
from ..models import Schedule, Stages

__all__ = ["load", "save"]

FORMAT = 2
ROLES = "activation", "teacher_activation"
PARTS = {*ROLES, "spectrum", "features"}  # of a model, beside its numbers and arrays
PROBES = np.array([-1.5, -0.5, 0.25, 1.0])  # where a file keeps the values of a function, to know it again
# shapes of the arrays of results: runs, times, blocks L, units K and M, dimensions N and D; no runs in a Trajectory
SHAPES = {
    "alpha": "t", "v": "rtK", "q": "rtLKK", "r": "rtLKM", "Q": "rtKK", "R": "rtKM", "tau": "rLMM", "T": "rMM",
    "eps_late": "t", "floor_late": "t", "eps_error": "t", "error_Q": "tKK", "error_R": "tKM", "error_v": "tK",
    "error_eps_g": "t", "error_mean_fields": "tKC",
    "records": "rtz", "ends": "rz", "end": "r", "start_v": "rK", "success": "r", "nfev": "r",
    "m": "rtLKC", "h": "rLMC", "nu": "rMC",
    "test_error": "rt", "test_error_se": "rt", "W": "rKN", "W_star": "rMD", "F": "rND",
    "final_W": "rKN",
}  # fmt: skip
WEIGHTS = {"W", "W_star", "F"}
BARE = {"State", "FixedPoint"}  # records without a model
KINDS = {"success": "b", "nfev": "i"}  # of arrays that do not hold floats
MAKERS: dict[str, Any] = {"leaky_relu": activations.leaky_relu, "polynomial": activations.polynomial}


def save(result: Any, path: PathLike) -> None:
    """Write a result, a sweep, a state or a fixed point to one ``.npz`` file; it appears complete, or not at all.

    Parameters
    ----------
    result : Trajectory, Batch, Ensemble, one of these through Stages, Sweep, State or FixedPoint
        What to keep: arrays as they are, everything else as JSON. ``traj.save(path)`` is the same.
    path : path-like
        Where; ``.npz`` is added where it is missing.

    Raises
    ------
    ValueError
        Something that no file holds, or no path.
    FileNotFoundError
        There is no such folder.

    Examples
    --------
    >>> import os, tempfile, overlaps as ov
    >>> model = ov.committee_machine(2, 1, eta=0.5)
    >>> start = model.random_start(N=100, rng=1)
    >>> path = os.path.join(tempfile.mkdtemp(), "start.npz")
    >>> ov.save(start, path)
    >>> ov.load(path) == start
    True
    """
    if not has_file(result):
        raise ValueError(
            f"result = {check.shown(result)}; expected a Trajectory, a Batch, an Ensemble, a Sweep, a State or a "
            "FixedPoint."
        )
    path = _path(path)
    path = path if path.suffix == ".npz" else path.with_name(path.name + ".npz")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"path = {path}: there is no folder {path.parent}. Make it first, or choose another.")
    head, arrays = contents(result)
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
    try:
        with open(temporary, "xb") as file:  # with the permissions that any new file gets
            np.savez_compressed(file, header=json.dumps(head), **arrays)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def has_file(result):
    """Whether a file can hold this."""
    kinds = hasattr(result, "model"), hasattr(result, "models"), hasattr(result, "_to_file"), _bare(result)
    return isinstance(result, Record) and any(kinds)


def _bare(result):
    """Whether a record stands without a model: states, and what holds one."""
    return type(result).__name__ in BARE


def contents(result):
    """What a file keeps of a result: (header, arrays)."""
    if hasattr(result, "_to_file"):  # which says so itself
        own, inner = result._to_file()
        return {"format": FORMAT, "version": __version__, "kind": type(result).__name__, "result": own}, inner
    arrays: dict[str, Any] = {}
    header: dict[str, Any] = {}
    for f in fields(result):
        value = getattr(result, f.name)
        if isinstance(value, np.ndarray):
            shared = f.name in WEIGHTS and value.strides[0] == 0  # one copy of what all runs share
            arrays[f.name] = value[:1] if shared else value
        elif f.name not in ("model", "models", "solver", "schedule", "parts", "state") and (f.compare or _bare(result)):
            header[f.name] = value
    head: dict[str, Any] = {"format": FORMAT, "version": __version__, "kind": type(result).__name__, "result": header}
    if _bare(result):
        if hasattr(result, "state"):
            head["state"], inner = contents(result.state)
            arrays |= {f"state/{x}": value for x, value in inner.items()}
        return head, arrays
    if hasattr(result, "parts"):
        stages = result.model
        head |= {"until": stages.until.tolist(), "heads": None if stages.heads is None else stages.heads.tolist()}
        for role, items in (("stages", map(_described, stages.models)), ("parts", map(contents, result.parts))):
            head[role], named = zip(*items, strict=True)
            arrays |= {f"{role}{i}/{x}": value for i, own in enumerate(named) for x, value in own.items()}
        return head, arrays
    if getattr(result, "schedule", None) is not None:
        head["schedule"] = _schedule_recipe(result.schedule)
    several = getattr(result, "models", None)
    if several is None:
        described, of_model = _described(result.model)
        head |= described
    else:
        described, parts = zip(*map(_described, several), strict=True)
        head["models"], of_model = described, {x: np.array([part[x] for part in parts]) for x in parts[0]}
    solver = getattr(result, "solver", None)
    if isinstance(solver, tuple):
        head["solver"] = [_solver_name(x) for x in solver]
    elif hasattr(result, "solver"):
        head["solver"] = _solver_name(solver)
    return head, arrays | of_model


def _described(model):
    """What a file keeps of a model: (entries of the header, arrays)."""
    spectrum = model.spectrum
    values = {f.name: getattr(model, f.name) for f in fields(model) if f.name not in PARTS}
    arrays = {f"model.{name}": x for name, x in values.items() if isinstance(x, np.ndarray)}
    arrays |= {"spectrum.s": spectrum.s, "spectrum.p": spectrum.p}
    if spectrum.basis is not None:
        arrays["spectrum.basis"] = spectrum.basis
    common = {f.name for f in fields(Record.kinds["Model"])}
    # absent in early files, too, are those that are None
    numbers = {name: x for name, x in values.items() if x is not None and not isinstance(x, np.ndarray)}
    if not model.drift:
        del numbers["drift"]  # which early files do not know
    head = {
        "kinds": {"model": type(model).__name__, "spectrum": type(spectrum).__name__},
        "model": {x: number for x, number in numbers.items() if x in common}
        | {role: _label(getattr(model, role)) for role in ROLES},
        "recipes": {role: recipe for role in ROLES if (recipe := _recipe(getattr(model, role)))},
        "probes": {role: np.ravel(getattr(model, role)(PROBES)).tolist() for role in ROLES},
        "spectrum": spectrum.name,
    }
    if own := {x: number for x, number in numbers.items() if x not in common}:
        head["manifold"] = own
    if hasattr(model, "features"):
        head["features"] = model.features.name if model.features.named else f"function {model.features.name}"
    return head, arrays


def model_text(model):
    """All that a file keeps of a model, as JSON: for the attributes of a data set."""
    head, arrays = _described(model)
    return json.dumps({"format": FORMAT, **head, "arrays": {name: x.tolist() for name, x in arrays.items()}})


def model_from_text(text):
    """The model of :func:`model_text`; refuses user functions, which a text cannot hold."""
    head = json.loads(text)
    try:
        return _model(head, {name: np.array(x) for name, x in head["arrays"].items()})
    except _Refused:
        name = head["features"] if "features" in head else head["model"]["activation"]
        raise ValueError(
            f"the model has a function of the user ({name} or its partner), which a text cannot hold; make the model "
            "as it was made then."
        ) from None


def _kinds(head):
    """Names of the records that model and spectrum are; early files tell by what they hold, and by a name."""
    if "kinds" in head:
        return head["kinds"]
    limit = head.get("limit", head["spectrum"].startswith("hidden_manifold("))
    model = "HiddenManifold" if "manifold" in head else "Model"
    return {"model": model, "spectrum": "LimitSpectrum" if limit else "Spectrum"}


def _solver_name(solver):
    """Name by which ``solve`` knows an integrator, or None."""
    name = getattr(solver, "__name__", None)
    return name if name and _known_solver(name) is solver else None


def _known_solver(name):
    try:
        return solver_class(name)
    except ValueError:
        return None


def _path(path):
    try:
        return Path(path)
    except TypeError:
        raise ValueError(f"path = {path!r}; expected a path, such as 'run.npz'.") from None


def _recipe(activation):
    """How to make an activation with parameters again: (function, parameter), or None."""
    recipe = getattr(activation.g, "recipe", None)
    if recipe is None or getattr(activations, activation.name, None) == activation:
        return None
    made = MAKERS[recipe[0]](recipe[1])
    return recipe if replace(made, name=activation.name) == activation else None


def _label(activation):
    """The name of an activation; that of a user function cannot be taken for a built-in one."""
    known = getattr(activations, activation.name, activation)
    return activation.name if known == activation or _recipe(activation) else f"function {activation.name}"


def _schedule_recipe(schedule):
    """How to make a schedule again, a dict or a tuple of them; of a function the knots only."""
    if schedule is None:
        return None
    if isinstance(schedule, list | tuple):
        return {"each": [_schedule_recipe(one) for one in schedule]}
    if isinstance(schedule, dict):
        return {"named": {name: _schedule_recipe(f) for name, f in schedule.items()}}
    numbers = {"kind": schedule.kind, "knots": schedule.knots.tolist(), "values": schedule.values.tolist()}
    return numbers | {"factors": [_schedule_recipe(f) for f in schedule.factors]}


def _schedule(recipe, given):
    """The schedule of a file: made from its recipe, or the one that was given and agrees with it."""
    if given is not None:
        if recipe is None or _schedule_recipe(given) != recipe:
            raise _Refused(f"schedule = {check.shown(given)} is not the one that was saved: {check.shown(recipe)}.")
        return tuple(given) if isinstance(given, list) else given
    if recipe is None:
        return None
    if "each" in recipe:
        return tuple(_schedule(one, None) for one in recipe["each"])
    if "named" in recipe:
        return {name: _schedule(f, None) for name, f in recipe["named"].items()}
    if recipe["kind"] == "function":
        raise _Refused("the schedule is a user function, which a file cannot hold; pass load(path, schedule=...).")
    factors = tuple(_schedule(f, None) for f in recipe["factors"])
    return Schedule(recipe["knots"], recipe["values"], recipe["kind"], factors)


def load(path: PathLike, *, model: Any = None, schedule: Any = None) -> Any:
    """Read a result written by ``save``.

    Parameters
    ----------
    path : path-like
        The ``.npz`` file.
    model : Model, or sequence of Model for a Batch, or Stages, optional
        Needed when an activation or the features of the saved model are a user function, which a file cannot hold.
        Parameters of ``leaky_relu`` and ``polynomial`` are in the file. It has to agree with all that the file knows:
        sizes, rates, second layers, spectrum, names of functions and their values at a few points.
    schedule : Schedule or dict, or sequence of them for a Batch that has one for each, optional
        Needed when the schedule contains a user function; it has to agree with the rest that the file knows.

    Returns
    -------
    Trajectory, Batch, Ensemble, StagedTrajectory, StagedEnsemble, Sweep, State or FixedPoint
        Equal to the one saved (but for ``solver``, where that was a class of the user's).

    Raises
    ------
    ValueError
        Not a file of this library, damaged (the message says where), a newer format, an unknown activation, a model
        that is not the one saved.
    FileNotFoundError
        No such file.

    Examples
    --------
    >>> import os, tempfile, overlaps as ov
    >>> model = ov.committee_machine(1, 1, eta=0.5)
    >>> traj = ov.solve(model, model.random_start(N=100, rng=1), (0, 1))
    >>> path = os.path.join(tempfile.mkdtemp(), "run.npz")
    >>> traj.save(path)
    >>> ov.load(path) == traj
    True
    """
    path = _path(path)
    several = model if isinstance(model, list | tuple) else getattr(model, "models", None)
    for one in several if several is not None else [] if model is None else [model]:
        check.model(one, classes=True)
    data = _arrays(path)
    try:
        head = json.loads(str(data.pop("header")))
        written = int(head["format"]), str(head["version"])
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{path} was not written by overlaps, or its header is damaged ({_said(error)}).") from error
    if written[0] > FORMAT:
        raise ValueError(
            f"{path} has format {written[0]} (overlaps {written[1]}); this version reads up to {FORMAT}. "
            "Upgrade overlaps."
        )
    try:
        return restored(head, data, model, schedule)
    except _Refused as refused:
        raise ValueError(f"{path}: {refused}") from None
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path} is damaged: {_said(error)}.") from error


def restored(head, data, model=None, schedule=None):
    """The result that a header and arrays describe."""
    kind = Record.kinds[head["kind"]]
    if hasattr(kind, "_from_file"):
        return kind._from_file(head["result"], data)
    names = {f.name for f in fields(kind)}
    values = head["result"] | {name: data[name] for name in names & data.keys()}
    if head["kind"] in BARE:
        if "state" in names:
            values["state"] = restored(head["state"], inside(data, "state/"), None, None)
        return kind(**values)
    if "parts" in names:
        return _staged(kind, head, data, model, schedule)
    if "schedule" in names:
        values["schedule"] = _schedule(head.get("schedule"), schedule)
    if "models" in names:
        values = {name: tuple(x) if isinstance(x, list) else x for name, x in values.items()}
        values |= {"models": _models(head, data, model), "solver": tuple(map(_known_solver, head["solver"]))}
    else:
        values["model"] = _model(head, data) if model is None else model
        _check_model(values["model"], head, data)
        if "solver" in names:  # early files have its name in a sentence only
            values["solver"] = _known_solver(head.get("solver", values["method"].split(" ")[0]))
    result = kind(**values)
    _check_result(result)
    return result


def _staged(kind, head, data, stages, schedule):
    """A result through Stages: its models and its parts, each as if it stood alone."""
    if stages is not None and not (isinstance(stages, Stages) and len(stages) == len(head["stages"])):
        raise _Refused(f"model = {check.shown(stages)}; expected the Stages that were saved.")
    models = []
    for i, own in enumerate(head["stages"]):
        arrays = inside(data, f"stages{i}/")
        models.append(_model(own, arrays) if stages is None else stages.models[i])
        _check_model(models[-1], own, arrays)
    stages = Stages(models, head["until"], head["heads"])
    first = stages.index(inside(data, "parts0/")["alpha"][0])
    parts = []
    for k, part in enumerate(head["parts"]):
        given = None if schedule is None else stages.paced(first + k, schedule)
        parts.append(restored(part, inside(data, f"parts{k}/"), stages.models[first + k], given))
    return kind(model=stages, alpha=data["alpha"], parts=tuple(parts))


def inside(data, folder):
    """The arrays of one folder of a file."""
    return {name.removeprefix(folder): x for name, x in data.items() if name.startswith(folder)}


class _Refused(Exception):
    """A sound file that cannot be read with this model, or without one."""


def _said(error):
    return f"no entry {error}" if isinstance(error, KeyError) else str(error).rstrip(".") or type(error).__name__


def _arrays(path):
    """Everything in the file, by name."""
    if path.exists() and not zipfile.is_zipfile(path):
        raise ValueError(f"{path} was not written by overlaps, or is damaged; expected an .npz file made by save.")
    with open(path, "rb") as file:
        try:
            with np.load(file, allow_pickle=False) as data:
                return {name: data[name] for name in data.files}
        except Exception as error:  # zipfile, zlib and NumPy raise some ten types for damaged bytes
            raise ValueError(f"{path} is damaged: {_said(error)}.") from error


def _models(head, data, models):
    """The models of a Batch; spectra that are equal become one."""
    heads: list = head["models"]
    known: dict[bytes, Any] = {}
    if models is not None and (not isinstance(models, list | tuple) or len(models) != len(heads)):
        raise _Refused(f"model = {check.shown(models)}; expected the {len(heads)} models of the batch, as a sequence.")
    found = []
    for i, own in enumerate(heads):
        arrays = {name: x[i] for name, x in data.items() if name.startswith(("model.", "spectrum."))}
        model = _model(own, arrays) if models is None else models[i]
        _check_model(model, own, arrays)
        found.append(replace(model, spectrum=known.setdefault(arrays["spectrum.s"].tobytes(), model.spectrum)))
    return tuple(found)


def _model(head, data):
    options = dict(head["model"])
    for role in ROLES:
        maker, parameter = head.get("recipes", {}).get(role, (None, None))  # not in early files
        options[role] = replace(MAKERS[maker](parameter), name=options[role]) if maker else _activation(options[role])
    options["weight_decay"] = tuple(options["weight_decay"])
    kinds = {part: Record.kinds[name] for part, name in _kinds(head).items()}
    spectrum = data["spectrum.s"], data["spectrum.p"], head["spectrum"], data.get("spectrum.basis")
    options |= {"spectrum": kinds["spectrum"](*spectrum), "v": data["model.v"], "v_star": data["model.v_star"]}
    options |= {name.removeprefix("model."): x for name, x in data.items() if name.startswith("model.")}
    if head.get("features", "").startswith("function "):
        raise _Refused(f"the file names the features {head['features']!r}; pass load(path, model=...).")
    options |= {"features": head["features"]} if "features" in head else {}
    return kinds["model"](**options, **head.get("manifold", {}))


def _check_model(model, head, data):
    """Refuse a model that differs in anything the file knows of it."""
    described, arrays = _described(model)
    described = json.loads(json.dumps(described))
    kind = _kinds(head)["model"]
    if kind != type(model).__name__:
        raise _Refused(f"model = {check.shown(model)}; expected the {kind} that was saved.")
    for part in ("model", "recipes", "manifold", "features", "kinds", "probes"):
        if part not in head or part not in described:  # early files
            continue
        old, new = head[part], described[part]
        if part != "probes" and old != new:
            differ = [x for x in {**old, **new} if old.get(x) != new.get(x)] if isinstance(old, dict) else [part]
            one, other = ((x[differ[0]] if isinstance(x, dict) else x) for x in (old, new))
            raise _Refused(
                f"the model has {differ[0]} = {other!r}, the file {one!r}; expected the model that was saved."
            )
        for role in old if part == "probes" else ():
            if not np.allclose(old[role], new[role], rtol=1e-9, atol=1e-12, equal_nan=True):
                raise _Refused(f"the {role} of the model is not that of the file, where it is {old[role]} at {PROBES}.")
    for name in {**arrays, **{x: 0 for x in data if x.startswith(("model.", "spectrum."))}}:
        one, other = data.get(name), arrays.get(name)
        if one is None or other is None or one.shape != other.shape or not np.allclose(one, other, rtol=1e-10, atol=0):
            raise _Refused(
                f"the model has {name} = {check.shown(other)}, the file {check.shown(one)}; expected the model that "
                "was saved."
            )


def _check_result(result):
    """Refuse fields of another type or shape, and numbers that no result has."""
    model = result.models[0] if hasattr(result, "models") else result.model
    many = result.is_ensemble or hasattr(result, "models")
    sizes = {"K": model.K, "M": model.M, "L": model.spectrum.L, "t": result.alpha.size}
    if many:
        sizes |= {"r": len(result), "N": getattr(result, "N", 0)}
    for f in fields(result):
        value = getattr(result, f.name)
        if f.compare and not isinstance(value, f.type):  # type: ignore[arg-type]
            raise TypeError(f"{f.name} = {check.shown(value)}")
        if not isinstance(value, np.ndarray):
            continue
        letters = SHAPES[f.name] if many else SHAPES[f.name].removeprefix("r")
        shape = tuple(sizes.setdefault(x, n) for x, n in zip(letters, value.shape, strict=False))
        if value.shape != shape or len(shape) != len(letters) or value.dtype.kind != KINDS.get(f.name, "f"):
            raise ValueError(f"{f.name} is of shape {value.shape} and type {value.dtype}")
        unreached = f.name.endswith("_late") or f.name.startswith("error_") or f.name in ("records", "ends")
        unreached |= result.is_ensemble and not result.success and "rt" in letters
        if np.any(np.isinf(value)) or (np.any(np.isnan(value)) and not unreached):
            raise ValueError(f"{f.name} contains nan or inf")
    if np.any(np.diff(result.alpha) <= 0) or np.any(result.alpha < 0):
        raise ValueError("alpha does not increase from 0 on")


def _activation(name):
    known = getattr(activations, name, None)
    if isinstance(known, activations.Activation):
        return known
    raise _Refused(f"the file names the activation {name!r}, which is not built in; pass load(path, model=...).")
