"""Saving and loading results: one .npz file with arrays and a JSON header."""

import json
import os
import uuid
import zipfile
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from .._base import Immutable, PathLike, by_name, check
from .._base.version import __version__
from ..integrators.methods import solver_class
from ..models import LowRank, Stages, previous_student
from .descriptions import (
    FILE_FORMAT,
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

KINDS_WITHOUT_MODEL = {"State", "FixedPoint"}
MAX_HEADER_BYTES = 2**28  # longer headers are refused; halved: that of a sweep of a million points just fits


@by_name('ov.save(result, "run.npz")')
def save(result: Any, path: PathLike) -> None:
    """Write a result, a sweep, a state or a fixed point to one ``.npz`` file, completely or not at all.

    Parameters
    ----------
    result : Trajectory, Batch, Ensemble, result of Stages, Fluctuations, Sweep, State or FixedPoint
        The result to save: arrays unchanged, everything else as JSON. ``traj.save(path)`` is the same.
    path : path-like
        Path of the file; ``.npz`` is added if it is missing.

    Raises
    ------
    ValueError
        The object cannot be saved, the path is invalid, or it has the suffix of another format, such as ``.csv``.
    FileNotFoundError
        The folder does not exist.

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
        kinds = "a Trajectory, a Batch, an Ensemble, Fluctuations, a Sweep, a State or a FixedPoint."
        raise check.refused("result", result, kinds)
    path = _path(path)
    # suffixes of other formats, which are refused; any other suffix is part of the name: run_eta0.5
    foreign = (
        ".csv .tsv .txt .json .npy .pkl .pickle .mat .h5 .hdf5 .nc .xlsx .parquet .feather .zarr .toml .yaml .png .pdf "
        ".svg .zip .gz"
    )
    if path.suffix.lower() in foreign.split():
        raise check.refused(
            "path", str(path), "a name that ends in .npz; for tables there are to_pandas and to_xarray."
        )
    path = path if path.suffix == ".npz" else path.with_name(path.name + ".npz")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"path = {path}: there is no folder {path.parent}. Make it first, or choose another.")
    header, arrays = contents(result)
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
    try:
        with open(temporary, "xb") as file:  # unlike tempfile, with the permissions of any new file
            np.savez_compressed(file, header=json.dumps(header | {"arrays": [*arrays]}), **arrays)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def has_file(result):
    """Whether a file can contain this object: results have a method ``save`` or ``_to_file``."""
    kind = type(result)
    saves = getattr(kind, "save", None) is save or hasattr(kind, "_to_file")
    return isinstance(result, Immutable) and (saves or kind.__name__ in KINDS_WITHOUT_MODEL)


def contents(result):
    """Return the contents of a file for a result: (header, arrays)."""
    kind = type(result).__name__
    header: dict[str, Any] = {"format": FILE_FORMAT, "version": __version__, "kind": kind}
    if hasattr(result, "_to_file"):
        header["result"], arrays = result._to_file()
        return header, arrays
    arrays, values = {}, {}
    has_model = kind not in KINDS_WITHOUT_MODEL
    other_entries = {"model", "models", "solver", "schedule", "parts", "state", "trajectory"}
    for f in fields(result):
        value = getattr(result, f.name)
        if isinstance(value, np.ndarray):
            # weights that are equal in all runs are one array broadcast over the runs, with stride 0
            arrays[f.name] = value[:1] if f.name in ("W", "W_star", "F") and value.strides[0] == 0 else value
        elif f.name not in other_entries and (f.compare or not has_model):
            values[f.name] = value
    header["result"] = values
    if not has_model:
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
        for name, items in (("stages", map(described, stages.models)), ("parts", map(contents, result.parts))):
            header[name], folders = zip(*items, strict=True)
            arrays |= {f"{name}{i}/{x}": value for i, folder in enumerate(folders) for x, value in folder.items()}
        return header, arrays
    if getattr(result, "schedule", None) is not None:
        header["schedule"] = schedule_recipe(result.schedule)
    models = getattr(result, "models", None)
    if models is None:
        entry, of_model = described(result.model)
        header |= entry
    else:
        header["models"], of_models = zip(*map(described, models), strict=True)
        of_model = {name: np.array([of_one[name] for of_one in of_models]) for name in of_models[0]}
    solver = getattr(result, "solver", None)
    if isinstance(solver, tuple):
        header["solver"] = [_solver_name(x) for x in solver]
    elif hasattr(result, "solver"):
        header["solver"] = _solver_name(solver)
    return header, arrays | of_model


def _solver_name(solver):
    """Return the name by which ``solve`` accepts an integrator, or None."""
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


@by_name('ov.load("run.npz")')
def load(path: PathLike, *, model: Any = None, schedule: Any = None) -> Any:
    """Read a result written by ``save``.

    Parameters
    ----------
    path : path-like
        The ``.npz`` file.
    model : Model, or sequence of Model for a Batch, or Stages, optional
        Required if an activation or the features of the saved model are a user function, because a file cannot contain
        it; the parameters of ``leaky_relu`` and ``polynomial`` are in the file. The model is compared with the saved
        sizes, rates, second layers, spectrum, names of functions and their values at a few points.
    schedule : Schedule or dict, or sequence of them for a Batch with one for each trajectory, optional
        Required if the schedule contains a user function; the rest of it is compared with the file.

    Returns
    -------
    Trajectory, Batch, Ensemble, StagedTrajectory, StagedEnsemble, Fluctuations, Sweep, State or FixedPoint
        Equal to the saved one, except for ``solver`` if that was a class defined by the user.

    Raises
    ------
    ValueError
        The file was not written by this library, is damaged (the message gives the place) or has a newer format; an
        activation is unknown; the model is not the saved one.
    FileNotFoundError
        The file does not exist.

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
    """Return the result in an open file; its header is read and checked before any other array."""
    try:
        header = json.loads(str(data["header"]))
        format_, version = int(header["format"]), str(header["version"])
    except (LookupError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"{path} was not written by overlaps, or its header is damaged ({_reason(error)}).") from error
    # in newer formats the same names may have another meaning; older files are read, although some entries are missing
    if format_ > FILE_FORMAT:
        raise ValueError(
            f"{path} has format {format_} (overlaps {version}); this version reads up to {FILE_FORMAT}. "
            "Upgrade overlaps."
        )
    if missing := {*header.get("arrays", ())} - {*data.keys()}:
        raise ValueError(f"{path} is damaged: no entry {', '.join(map(repr, sorted(missing)))}.")
    try:
        return restored(header, data, model, schedule)
    except Refused as refused:
        raise ValueError(f"{path}: {refused}") from None
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError, MemoryError) as error:
        raise ValueError(f"{path} is damaged: {_reason(error)}.") from error


def restored(header, data, model=None, schedule=None):
    """Return the result that a header and arrays describe."""
    kind = Immutable.kinds[header["kind"]]
    if hasattr(kind, "_from_file"):
        return kind._from_file(header["result"], data)
    names = {f.name for f in fields(kind)}
    values = header["result"] | {name: data[name] for name in names & data.keys()}
    if header["kind"] in KINDS_WITHOUT_MODEL:
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
        if "solver" in names:  # in early files its name is the first word of ``method``
            values["solver"] = _known_solver(header.get("solver", values["method"].split(" ")[0]))
    result = kind(**values)
    _check_result(result)
    return result


def _staged(kind, header, data, stages, schedule):
    """Return a result of Stages; its models and the results of its stages are read like single ones."""
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
    results = []
    for k, entry in enumerate(header["parts"]):
        of_stage = None if schedule is None else stages.scheduled(first + k, schedule)
        model = None if stages.teacher[first + k] else stages.models[first + k]  # frozen students are in the file
        results.append(restored(entry, inside(data, f"parts{k}/"), model, of_stage))
    return kind(model=stages, alpha=data["alpha"], parts=tuple(results))


def _reason(error):
    return f"no entry {error}" if isinstance(error, KeyError) else str(error).rstrip(".") or type(error).__name__


@contextmanager
def _arrays(path):
    """Open the file and yield its arrays by name."""
    if path.exists() and not zipfile.is_zipfile(path):
        raise ValueError(f"{path} was not written by overlaps, or is damaged; expected an .npz file made by save.")
    with open(path, "rb") as file:
        try:
            data = np.load(file, allow_pickle=False)
        except Exception as error:  # zipfile, zlib and NumPy raise about ten types of exceptions for damaged bytes
            raise ValueError(f"{path} is damaged: {_reason(error)}.") from error

        def read(name):
            try:
                if name == "header" and data.zip.getinfo("header.npy").file_size > MAX_HEADER_BYTES:
                    raise ValueError(f"a header of more than {MAX_HEADER_BYTES} bytes")
                return data[name]
            except Exception as error:  # the same types of exceptions
                raise ValueError(_reason(error)) from error

        yield Arrays(data.files, read)


def _check_result(result):
    """Refuse fields of wrong type or shape, and unexpected nan or inf."""
    model = result.models[0] if hasattr(result, "models") else result.model
    ensemble = getattr(result, "is_ensemble", False)
    has_runs = ensemble or hasattr(result, "models")
    sizes = {"K": model.K, "M": model.M, "L": model.spectrum.L, "t": result.alpha.size}
    dtype_kinds = {"success": "b", "nfev": "i"}  # floats otherwise
    if has_runs:
        sizes |= {"r": len(result), "N": getattr(result, "N", 0)}
    for f in fields(result):
        value = getattr(result, f.name)
        if f.compare and not isinstance(value, f.type):  # type: ignore[arg-type]
            raise TypeError(f"{f.name} = {check.shown(value)}")
        if not isinstance(value, np.ndarray):
            continue
        letters = letters_of(f.name, value, has_runs)
        shape = tuple(sizes.setdefault(x, n) for x, n in zip(letters, value.shape, strict=False))
        if value.shape != shape or len(shape) != len(letters) or value.dtype.kind != dtype_kinds.get(f.name, "f"):
            raise ValueError(f"{f.name} is of shape {value.shape} and type {value.dtype}")
        unreached = f.name.endswith("_late") or f.name.startswith("error_") or f.name in ("records", "ends")
        unreached |= ensemble and not result.success and "rt" in letters
        if np.any(np.isinf(value)) or (np.any(np.isnan(value)) and not unreached):
            raise ValueError(f"{f.name} contains nan or inf")
    if np.any(np.diff(result.alpha) <= 0) or np.any(result.alpha < 0):
        raise ValueError("alpha does not increase from 0 on")
