"""Saving and loading results: one .npz with arrays and a JSON header."""

import json
import os
import uuid
import zipfile
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from .._base import Immutable, PathLike, check
from .._base.version import __version__
from ..integrators.methods import solver_class
from ..models import LowRank, Stages, previous_student
from .descriptions import (
    FORMAT,
    Arrays,
    Refused,
    check_same,
    described,
    inside,
    model_from_header,
    models_of,
    schedule_of,
    schedule_recipe,
)  # fmt: skip
from .field_table import letters_of

FORMATS = "csv tsv txt json npy pkl pickle mat h5 hdf5 nc xlsx parquet feather zarr toml yaml png pdf svg zip gz"
WEIGHTS = {"W", "W_star", "F"}
FOREIGN = {f".{x}" for x in FORMATS.split()}  # endings of other formats; any other is part of the name: run_eta0.5
BARE = {"State", "FixedPoint"}  # records without a model
HEADER = 2**28  # bytes of the longest one that is read: a sweep of a million points has half of that
SAVED = "a Trajectory, a Batch, an Ensemble, Fluctuations, a Sweep, a State or a FixedPoint"
ELSEWHERE = {"model", "models", "solver", "schedule", "parts", "state", "trajectory"}  # in entries of their own
KINDS = {"success": "b", "nfev": "i"}  # of arrays that do not hold floats


def save(result: Any, path: PathLike) -> None:
    """Write a result, a sweep, a state or a fixed point to one ``.npz`` file; it appears complete, or not at all.

    Parameters
    ----------
    result : Trajectory, Batch, Ensemble, one of these through Stages, Fluctuations, Sweep, State or FixedPoint
        The result to keep: arrays as they are, everything else as JSON. ``traj.save(path)`` is the same.
    path : path-like
        Where; ``.npz`` is added where it is missing.

    Raises
    ------
    ValueError
        Something that no file holds, no path, or the ending of another format, such as ``.csv``.
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
        raise check.refused("result", result, SAVED + ".")
    path = _path(path)
    if path.suffix.lower() in FOREIGN:
        raise check.refused(
            "path", str(path), "a name that ends in .npz; for tables there are to_pandas and to_xarray."
        )
    path = path if path.suffix == ".npz" else path.with_name(path.name + ".npz")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"path = {path}: there is no folder {path.parent}. Make it first, or choose another.")
    header, arrays = contents(result)
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
    try:
        with open(temporary, "xb") as file:  # with the permissions that any new file gets
            np.savez_compressed(file, header=json.dumps(header), **arrays)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def has_file(result):
    """Whether a file can hold this: results say so by their methods; much else has a model, too."""
    kind = type(result)
    return isinstance(result, Immutable) and (
        getattr(kind, "save", None) is save or hasattr(kind, "_to_file") or _bare(result)
    )


def _bare(result):
    """Whether a record stands without a model: states, and what holds one."""
    return type(result).__name__ in BARE


def contents(result):
    """Record of a result for a file: (header, arrays)."""
    if hasattr(result, "_to_file"):  # which says so itself
        entry, inner = result._to_file()
        return {"format": FORMAT, "version": __version__, "kind": type(result).__name__, "result": entry}, inner
    arrays: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for f in fields(result):
        value = getattr(result, f.name)
        if isinstance(value, np.ndarray):
            # weights that all runs share are one array broadcast over the runs: stride 0
            arrays[f.name] = value[:1] if f.name in WEIGHTS and value.strides[0] == 0 else value
        elif f.name not in ELSEWHERE and (f.compare or _bare(result)):
            values[f.name] = value
    header: dict[str, Any] = {"format": FORMAT, "version": __version__, "kind": type(result).__name__, "result": values}
    if _bare(result):
        if hasattr(result, "state"):
            header["state"], inner = contents(result.state)
            arrays |= {f"state/{x}": value for x, value in inner.items()}
        return header, arrays
    if hasattr(result, "trajectory"):
        header["trajectory"], inner = contents(result.trajectory)
        return header, arrays | {f"trajectory/{x}": value for x, value in inner.items()}
    if hasattr(result, "parts"):
        stages = result.model
        header |= {"until": stages.until.tolist(), "heads": None if stages.heads is None else stages.heads.tolist()}
        if any(stages.teacher):
            header["students"] = [x if isinstance(x, str | None) else x.tolist() for x in stages.students]
        for role, items in (("stages", map(described, stages.models)), ("parts", map(contents, result.parts))):
            header[role], named = zip(*items, strict=True)
            arrays |= {f"{role}{i}/{x}": value for i, entry in enumerate(named) for x, value in entry.items()}
        return header, arrays
    if getattr(result, "schedule", None) is not None:
        header["schedule"] = schedule_recipe(result.schedule)
    models = getattr(result, "models", None)
    if models is None:
        entry, of_model = described(result.model)
        header |= entry
    else:
        entry, parts = zip(*map(described, models), strict=True)
        header["models"], of_model = entry, {x: np.array([part[x] for part in parts]) for x in parts[0]}
    solver = getattr(result, "solver", None)
    if isinstance(solver, tuple):
        header["solver"] = [_solver_name(x) for x in solver]
    elif hasattr(result, "solver"):
        header["solver"] = _solver_name(solver)
    return header, arrays | of_model


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
        parsed = Path(path)
    except TypeError:
        parsed = Path()
    if not parsed.name:
        raise check.refused("path", path, "a path, such as 'run.npz'.")
    return parsed


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
    Trajectory, Batch, Ensemble, StagedTrajectory, StagedEnsemble, Fluctuations, Sweep, State or FixedPoint
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
    model_given = model.model if isinstance(model, LowRank) else model
    models = model if isinstance(model, list | tuple) else getattr(model_given, "models", None)
    for one in models if models is not None else [] if model is None else [model_given]:
        check.model(one)
    with _arrays(path) as data:
        return _read(path, data, model, schedule)


def _read(path, data, model, schedule):
    """The result in an open file; its header is read and checked before any other array."""
    try:
        header = json.loads(str(data["header"]))
        written = int(header["format"]), str(header["version"])
    except (LookupError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"{path} was not written by overlaps, or its header is damaged ({_reason(error)}).") from error
    # newer files may mean something else by the same names; older ones are read, entry by entry where they lack some
    if written[0] > FORMAT:
        raise ValueError(
            f"{path} has format {written[0]} (overlaps {written[1]}); this version reads up to {FORMAT}. "
            "Upgrade overlaps."
        )
    try:
        return restored(header, data, model, schedule)
    except Refused as refused:
        raise ValueError(f"{path}: {refused}") from None
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError, MemoryError) as error:
        raise ValueError(f"{path} is damaged: {_reason(error)}.") from error


def restored(header, data, model=None, schedule=None):
    """The result that a header and arrays describe."""
    kind = Immutable.kinds[header["kind"]]
    if hasattr(kind, "_from_file"):
        return kind._from_file(header["result"], data)
    names = {f.name for f in fields(kind)}
    values = header["result"] | {name: data[name] for name in names & data.keys()}
    if header["kind"] in BARE:
        if "state" in names:
            values["state"] = restored(header["state"], inside(data, "state/"), None, None)
        return kind(**values)
    if "trajectory" in names:
        values["trajectory"] = restored(header["trajectory"], inside(data, "trajectory/"), model, schedule)
        result = kind(**values)
        _check_result(result)
        return result
    if "parts" in names:
        return _staged(kind, header, data, model, schedule)
    if "schedule" in names:
        values["schedule"] = schedule_of(header.get("schedule"), schedule)
    if "models" in names:
        values = {name: tuple(x) if isinstance(x, list) else x for name, x in values.items()}
        values |= {"models": models_of(header, data, model), "solver": tuple(map(_known_solver, header["solver"]))}
    else:
        if isinstance(model, list | tuple):
            raise Refused(f"model = {check.shown(model)}; expected one Model.")
        values["model"] = model_from_header(header, data) if model is None else model
        check_same(values["model"], header, data)
        if "solver" in names:  # early files have its name in a sentence only
            values["solver"] = _known_solver(header.get("solver", values["method"].split(" ")[0]))
    result = kind(**values)
    _check_result(result)
    return result


def _staged(kind, header, data, stages, schedule):
    """A result through Stages: its models and its parts, each as if it stood alone."""
    if stages is not None and not (isinstance(stages, Stages) and len(stages) == len(header["stages"])):
        raise Refused(f"model = {check.shown(stages)}; expected the Stages that were saved.")
    models = []
    for i, entry in enumerate(header["stages"]):
        arrays = inside(data, f"stages{i}/")
        models.append(model_from_header(entry, arrays) if stages is None else stages.models[i])
        check_same(models[-1], entry, arrays)
    students = header.get("students")
    teacher = None if students is None else [None if x is None else previous_student for x in students]
    stages = Stages(models, header["until"], header["heads"], teacher, students)
    first = stages.index(inside(data, "parts0/")["alpha"][0])
    parts = []
    for k, part in enumerate(header["parts"]):
        given = None if schedule is None else stages.scheduled(first + k, schedule)
        entry = None if stages.teacher[first + k] else stages.models[first + k]  # frozen students are in the file
        parts.append(restored(part, inside(data, f"parts{k}/"), entry, given))
    return kind(model=stages, alpha=data["alpha"], parts=tuple(parts))


def _reason(error):
    return f"no entry {error}" if isinstance(error, KeyError) else str(error).rstrip(".") or type(error).__name__


@contextmanager
def _arrays(path):
    """Everything in the file, by name."""
    if path.exists() and not zipfile.is_zipfile(path):
        raise ValueError(f"{path} was not written by overlaps, or is damaged; expected an .npz file made by save.")
    with open(path, "rb") as file:
        try:
            data = np.load(file, allow_pickle=False)
        except Exception as error:  # zipfile, zlib and NumPy raise some ten types for damaged bytes
            raise ValueError(f"{path} is damaged: {_reason(error)}.") from error

        def read(name):
            try:
                if name == "header" and data.zip.getinfo("header.npy").file_size > HEADER:
                    raise ValueError(f"a header of more than {HEADER} bytes")
                return data[name]
            except Exception as error:  # as above
                raise ValueError(_reason(error)) from error

        yield Arrays(data.files, read)


def _check_result(result):
    """Refuse fields of another type or shape, and numbers that no result has."""
    model = result.models[0] if hasattr(result, "models") else result.model
    ensemble = getattr(result, "is_ensemble", False)
    many = ensemble or hasattr(result, "models")
    sizes = {"K": model.K, "M": model.M, "L": model.spectrum.L, "t": result.alpha.size}
    if many:
        sizes |= {"r": len(result), "N": getattr(result, "N", 0)}
    for f in fields(result):
        value = getattr(result, f.name)
        if f.compare and not isinstance(value, f.type):  # type: ignore[arg-type]
            raise TypeError(f"{f.name} = {check.shown(value)}")
        if not isinstance(value, np.ndarray):
            continue
        letters = letters_of(f.name, value, many)
        shape = tuple(sizes.setdefault(x, n) for x, n in zip(letters, value.shape, strict=False))
        if value.shape != shape or len(shape) != len(letters) or value.dtype.kind != KINDS.get(f.name, "f"):
            raise ValueError(f"{f.name} is of shape {value.shape} and type {value.dtype}")
        unreached = f.name.endswith("_late") or f.name.startswith("error_") or f.name in ("records", "ends")
        unreached |= ensemble and not result.success and "rt" in letters
        if np.any(np.isinf(value)) or (np.any(np.isnan(value)) and not unreached):
            raise ValueError(f"{f.name} contains nan or inf")
    if np.any(np.diff(result.alpha) <= 0) or np.any(result.alpha < 0):
        raise ValueError("alpha does not increase from 0 on")
