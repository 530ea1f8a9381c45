"""Runs described by a TOML file: model, start, times, output.  ``python -m overlaps run config.toml``.

Each table of the file contains the arguments of one function: ``[model]`` and ``[spectrum]`` those of the function
that ``kind`` names, ``[schedule]`` those of :class:`overlaps.Schedule`, ``[start]`` those of ``model.random_start`` or
:meth:`overlaps.State.from_overlaps`, ``[solve]`` those of :func:`overlaps.solve` and ``[simulate]`` those of
:func:`overlaps.simulate`.
"""

import inspect
import shutil
import tomllib
from contextlib import contextmanager
from pathlib import Path
from types import NoneType
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np

import overlaps as ov
from overlaps._base import check
from overlaps._base.signatures import advice
from overlaps._base.version import versions
from overlaps.activations.library import named

__all__ = ["TEMPLATE", "read", "run", "schema"]

# functions that a file names in a table, or for an activation with a parameter
MAKERS: dict[str, dict[str, Any]] = {
    "model": {f.__name__: f for f in (ov.committee_machine, ov.quadratic_network, ov.hidden_manifold)},
    "spectrum": {f.__name__: f for f in (ov.isotropic, ov.power_law)},
    "activation": {"leaky_relu": ov.leaky_relu, "polynomial": ov.polynomial},
}


class SizeLimits(NamedTuple):
    """Largest sizes in a file, checked before arrays of these sizes exhaust the memory."""

    times: int = 10**7  # output times of one run, all of which are recorded
    K: int = 10**4
    M: int = 10**4
    L: int = 10**6
    nodes: int = 10**4
    runs: int = 10**6


SIZE_LIMITS = SizeLimits()

# a file that ``overlaps init`` prints
TEMPLATE = """\
#:schema ./overlaps.schema.json
# overlaps run run.toml; for completion in an editor: overlaps schema > overlaps.schema.json

[model]                    # kind = "committee_machine" (the default), "quadratic_network" or "hidden_manifold"
K = 2
M = 2
activation = "erf"         # or { leaky_relu = 0.1 }, { polynomial = [0, 0, 1] }; teacher_activation likewise
eta = 0.5

# [spectrum]               # of the inputs; left out: isotropic
# kind = "power_law"
# beta = 1.0
# L = 20

[start]                    # model.random_start; kind = "overlaps" takes Q, R, T instead
N = 1000
rng = 1

[solve]
alpha = [0.0, 300.0]       # an interval; a list of times; or { from = 1.0, to = 1e4, n = 200, log = true }

# [simulate]               # SGD from the same start
# N = 1000
# rng = 2
# runs = 5
# alpha = { from = 0.0, to = 300.0, n = 31 }

[output]
folder = "overlaps-run"    # below this file
"""


def read(path):
    r"""Read a configuration and return the arguments for ``solve`` and ``simulate``.

    Parameters
    ----------
    path : path-like
        A TOML file.

    Returns
    -------
    dict
        ``model``, ``start``, ``solve`` and ``simulate`` (keyword arguments, or None if the table is missing) and
        ``folder``, the folder for the results.

    Raises
    ------
    ValueError
        The file is not TOML; a table or a key is unknown (the message names it and lists the known ones); a value is
        invalid; a size exceeds the memory; the folder is not below that of the file, or contains anything but an
        earlier run.
    FileNotFoundError
        The file does not exist.

    Examples
    --------
    >>> import pathlib, tempfile, overlaps.configuration
    >>> path = pathlib.Path(tempfile.mkdtemp(), "run.toml")
    >>> text = '[model]\nK = 1\nM = 1\neta = 0.5\n[start]\nN = 1000\nrng = 1\n[solve]\nalpha = [0.0, 1.0]'
    >>> _ = path.write_text(text)
    >>> overlaps.configuration.read(path)["model"]
    Model(K=1, M=1, erf, isotropic(), eta=0.5)
    """
    path = Path(path)
    with _bounded(path):
        return _read(path)


def _read(path):
    try:
        tables = tomllib.loads(path.read_text(encoding="utf8"))
    except ValueError as error:  # wrong syntax, wrong encoding, or a number with thousands of digits
        raise ValueError(f"{path} is no TOML: {error}.") from None
    _check_keys("the file", tables, ("model", "spectrum", "schedule", "start", "solve", "simulate", "output"))
    limits = SIZE_LIMITS._asdict()
    for name in tables:
        if not isinstance(tables[name], dict):
            raise check.refused(name, tables[name], f"a table, [{name}].")
        for key in {"K", "M", "L", "nodes", "runs"} & tables[name].keys():
            if check.count(key, tables[name][key]) > limits[key]:
                raise ValueError(f"{key} = {tables[name][key]} of [{name}]; expected at most {limits[key]}.")
    for name, example in {"model": "K = 2, M = 2, eta = 0.5", "solve": "alpha = [0.0, 100.0]"}.items():
        if name not in tables and not (name == "solve" and "simulate" in tables):
            raise ValueError(f"{path} has no table [{name}]; expected one, such as {example}.")
    model = _model(dict(tables["model"]), tables.get("spectrum"))
    schedule = _schedule(tables["schedule"]) if "schedule" in tables else None
    config = {"model": model, "start": _start(model, dict(tables.get("start", {})))}
    for name, function in (("solve", ov.solve), ("simulate", ov.simulate)):
        if name not in tables:
            config[name] = None
            continue
        _check_keys(f"[{name}]", tables[name], _arguments(function))
        config[name] = tables[name] | {"alpha": _times(f"[{name}]", tables[name])}
        config[name] |= {} if schedule is None else {"schedule": schedule}
    output = tables.get("output", {})
    _check_keys("[output]", output, ("folder",))
    folder = output.get("folder", path.stem)
    if not isinstance(folder, str):
        raise check.refused("folder", folder, "the name of a folder, as a text.", after=" of [output]")
    config["folder"] = _folder(path, folder)
    return config


@contextmanager
def _bounded(path):
    """Raise a ValueError with a clear message if the file is nested too deeply or requires too much memory."""
    try:
        yield
    except RecursionError:
        raise ValueError(f"{path} is nested too deep; expected tables of lists.") from None
    except MemoryError as error:
        raise ValueError(f"{path} requires more memory than is available: {error}. Try smaller sizes.") from None


def _folder(path, name):
    """Return the folder for the results.

    It is below that of the file, because the file may come from another person, and it is empty or contains an earlier
    run.
    """
    folder, parent = path.parent / name, path.parent.resolve()
    if parent not in folder.resolve().parents:
        raise ValueError(
            f"folder = {name!r} of [output]; expected the name of a folder below that of the file, {parent}."
        )
    if not folder.exists():
        return folder
    if not folder.is_dir():
        raise ValueError(f"folder = {str(folder)!r} is a file; expected a folder, or an unused name.")
    files = [*folder.iterdir()]
    if files and not (folder / "config.toml").is_file():
        raise ValueError(
            f"folder = {str(folder)!r} contains other files, and no config.toml of a run; choose another name."
        )
    if links := [file.name for file in files if file.is_symlink()]:
        raise ValueError(
            f"folder = {str(folder)!r} contains the link {links[0]}; expected files that a run has written."
        )
    return folder


def run(path, *, progress=True):
    r"""Execute a configuration and write all results to one folder.

    Parameters
    ----------
    path : path-like
        A TOML file, see :func:`read`.
    progress : bool
        Show progress bars.

    Returns
    -------
    dict
        ``trajectory`` and ``runs``, None if the table is missing, and ``folder``.

    Raises
    ------
    ValueError
        As :func:`read`, before anything is computed; the folder contains results of another configuration.

    Notes
    -----
    The folder contains ``config.toml`` (a copy of the file), ``trajectory.npz`` and ``runs.npz``
    (:func:`overlaps.load`), ``figure.png`` and ``versions.txt``.

    Examples
    --------
    >>> import pathlib, tempfile, overlaps.configuration
    >>> path = pathlib.Path(tempfile.mkdtemp(), "run.toml")
    >>> text = '[model]\nK = 1\nM = 1\neta = 0.5\n[start]\nN = 1000\nrng = 1\n[solve]\nalpha = [0.0, 1.0]'
    >>> _ = path.write_text(text)
    >>> result = overlaps.configuration.run(path, progress=False)
    >>> sorted(file.name for file in result["folder"].iterdir())
    ['config.toml', 'figure.png', 'trajectory.npz', 'versions.txt']
    """
    with _bounded(path):
        return _run(Path(path), progress)


def _run(path, progress):
    config = _read(path)
    folder, copy = config["folder"], config["folder"] / "config.toml"
    if copy.exists() and copy.read_bytes() != path.read_bytes():
        raise ValueError(
            f"folder = {folder} contains the results of another configuration; choose another, or remove it."
        )
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, copy)
    (folder / "versions.txt").write_text(versions() + "\n")
    result = {"trajectory": None, "runs": None, "folder": folder}
    axes: Any = None
    if config["solve"] is not None:
        result["trajectory"] = traj = ov.solve(config["model"], config["start"], progress=progress, **config["solve"])
        traj.save(folder / "trajectory.npz")
        axes = traj.plot()
    if config["simulate"] is not None:
        start = {} if config["start"] is None else {"start": config["start"]}
        result["runs"] = runs = ov.simulate(config["model"], progress=progress, **start, **config["simulate"])
        runs.save(folder / "runs.npz")
        axes = runs.plot() if axes is None else runs.plot(ax=axes, marker="o", markersize=3, linestyle="none")
    axes[0].figure.savefig(folder / "figure.png", dpi=150)
    return result


def _check_keys(where, table, known):
    for name in table:
        if name not in known:
            raise ValueError(f"{where} has the key {name!r}; {advice(name, sorted(known))}.")


def schema():
    """Return the JSON schema of a configuration, with which editors complete and check a file.

    Returns
    -------
    dict
        Tables, their keys, and the types of the values as the signatures of the functions have them. Values that
        depend on each other, such as shapes, are checked by :func:`read` only.

    Examples
    --------
    >>> from overlaps.configuration import schema
    >>> schema()["properties"]["model"]["properties"]["eta"]
    {'type': 'number'}
    """
    models, spectra = MAKERS["model"], MAKERS["spectrum"]
    parametrised = _table({"leaky_relu": {"type": "number"}, "polynomial": {"type": "array"}})
    activation = {"anyOf": [{"type": "string"}, parametrised]}
    model = _keys(*models.values()) | {"kind": {"enum": [*models]}, "activation": activation}
    starts = (ov.Model.random_start, ov.State.from_overlaps, ov.State.from_blocks)
    limit: dict[str, dict] = {name: {} for name in _arguments(ov.hidden_manifold(1, 1, ratio=1.0, eta=1.0).limit_start)}
    start = limit | _keys(*starts) | {"kind": {"enum": ["random", "overlaps", "blocks", "limit"]}}
    number, schedule = {"type": "number"}, _table(_keys(ov.Schedule))
    grid = _table({"from": number, "to": number, "n": {"type": "integer"}, "log": {"type": "boolean"}}, "from to n")
    times = {"alpha": {"anyOf": [{"type": "array"}, number, grid]}}
    tables = {
        "model": _table(model | {"teacher_activation": activation}),
        "spectrum": _table(_keys(*spectra.values()) | {"kind": {"enum": [*spectra]}}),
        "schedule": {"anyOf": [schedule, {"type": "object", "additionalProperties": schedule}]},
        "start": _table(start),
        "solve": _table(_keys(ov.solve) | times, "alpha"),
        "simulate": _table(_keys(ov.simulate) | times, "alpha"),
        "output": _table({"folder": {"type": "string"}}),
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | _table(tables, "model")


def _table(properties, required=""):
    names = {"required": required.split()} if required else {}
    return {"type": "object", "properties": properties, "additionalProperties": False} | names


def _keys(*functions):
    """Return the schema of each argument of some functions that a table may contain."""
    return {
        name: _schema_of(get_type_hints(inspect.unwrap(function)).get(name))
        for function in functions
        for name in sorted(_arguments(function))
    }


def _schema_of(hint):
    """Return the schema of a type; {} for types that TOML does not have, such as arrays of any shape."""
    if get_origin(hint) is Literal:
        return {"enum": [*get_args(hint)]}
    names = {float: "number", int: "integer", bool: "boolean", str: "string"}
    if get_origin(hint) is tuple:
        return {"type": "array"}
    kinds = [_schema_of(x) for x in get_args(hint) if x is not NoneType]
    if not kinds:
        return {"type": names[hint]} if hint in names else {}
    return {} if {} in kinds else kinds[0] if len(kinds) == 1 else {"anyOf": kinds}


def _arguments(function):
    """Return the arguments of a function that its table may contain; other tables and the program set the rest."""
    others = {"model", "start", "spectrum", "schedule", "progress", "executor", "learning", "options", "data", "cls"}
    return {x for x in inspect.signature(function).parameters if x not in others}


def _call(where, function, table, known=None):
    """Call the function with a table; errors name the missing or unknown key."""
    _check_keys(where, table, known or _arguments(function))
    try:
        return function(**table)
    except TypeError as error:
        raise ValueError(f"{where}: {error}.") from None


def _model(table, spectrum):
    makers, spectra = MAKERS["model"], MAKERS["spectrum"]
    kind = check.choice("kind of [model]", table.pop("kind", "committee_machine"), makers)
    for role in {"activation", "teacher_activation"} & table.keys():
        table[role] = _activation(role, table[role])
    known = _arguments(makers[kind]) | (_arguments(ov.committee_machine) if kind != "committee_machine" else set())
    if spectrum is not None:
        arguments = dict(spectrum)
        maker = spectra[check.choice("kind of [spectrum]", arguments.pop("kind", "power_law"), spectra)]
        table["spectrum"], known = _call("[spectrum]", maker, arguments), known | {"spectrum"}
    return _call("[model]", makers[kind], table, known)


def _schedule(table):
    """Return one schedule, or a dict of them by name: [schedule.noise]."""
    if all(isinstance(x, dict) for x in table.values()):
        return {name: _call(f"[schedule.{name}]", ov.Schedule, x) for name, x in table.items()}
    return _call("[schedule]", ov.Schedule, table)


def _activation(role, value):
    """Return the activation with a name, "erf", or with a parameter in a table, { leaky_relu = 0.1 }."""
    makers = MAKERS["activation"]
    if isinstance(value, dict) and len(value) == 1 and (name := next(iter(value))) in makers:
        return makers[name](value[name])
    in_a_file = "in a file { leaky_relu = 0.1 } or { polynomial = [0, 0, 1] }; custom functions require a script"
    return named(role, value, in_a_file)


def _start(model, table):
    """Return the state that [start] describes; None without such a table, because simulations can draw a start."""
    if not table:
        return None
    kind = check.choice("kind of [start]", table.pop("kind", "random"), ("random", "overlaps", "blocks", "limit"))
    if kind in ("random", "limit"):
        maker = getattr(model, f"{kind}_start", None)
        if maker is None:
            raise ValueError(f"kind = {kind!r} of [start]; expected another for {model}: only manifolds have a limit.")
        return _call("[start]", maker, table)
    maker = getattr(ov.State, f"from_{kind}")
    return _call("[start]", lambda **table: maker(model, **table), table, _arguments(maker))


def _times(where, table):
    """Return the output times: a list, two numbers for an interval, or { from, to, n, log } for n times."""
    if "alpha" not in table:
        raise ValueError(f"{where} has no alpha; expected times, such as [0.0, 100.0] for an interval.")
    alpha = table["alpha"]
    if not isinstance(alpha, dict):
        return tuple(alpha) if isinstance(alpha, list) and len(alpha) == 2 else alpha
    _check_keys(f"alpha of {where}", alpha, ("from", "to", "n", "log"))
    if missing := [x for x in ("from", "to", "n") if x not in alpha]:
        raise ValueError(f"alpha of {where} has no {missing[0]!r}; expected from, to and n.")
    begin, end = (check.number(x, alpha[x], least=0) for x in ("from", "to"))
    n = check.count("n", alpha["n"], 2)
    if n > SIZE_LIMITS.times:
        raise ValueError(f"n = {n} times of {where}; expected at most {SIZE_LIMITS.times}: all of them are recorded.")
    if not check.flag("log", alpha.get("log", False)):
        return np.linspace(begin, end, n)
    if begin == 0:
        raise ValueError(f"alpha of {where} has from = 0 and log = true; expected from > 0.")
    return np.geomspace(begin, end, n)
