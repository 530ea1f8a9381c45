"""One run, described in a file: model, start, times, what to keep.  ``python -m overlaps run config.toml``.

Each table of the file is the list of arguments of one function: ``[model]`` of the maker that ``kind`` names,
``[spectrum]`` likewise, ``[schedule]`` of :class:`overlaps.Schedule`, ``[start]`` of ``model.random_start`` or
:meth:`overlaps.State.from_overlaps`, ``[solve]`` of :func:`overlaps.solve`, ``[simulate]`` of
:func:`overlaps.simulate`.
"""

import inspect
import shutil
import tomllib
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import overlaps as ov
from overlaps._base import check
from overlaps._base.version import versions
from overlaps.activations.library import named

__all__ = ["read", "run"]

MODELS = {f.__name__: f for f in (ov.committee_machine, ov.quadratic_network, ov.hidden_manifold)}
SPECTRA = {f.__name__: f for f in (ov.isotropic, ov.power_law)}
STARTS = ("random", "overlaps", "blocks", "limit")
PARAMETRIC: dict[str, Any] = {"leaky_relu": ov.leaky_relu, "polynomial": ov.polynomial}
TABLES = ("model", "spectrum", "schedule", "start", "solve", "simulate", "output")
MOST = 10**7  # output times of one run
# Largest sizes. Matrices of K and M, arrays of the others are made before anything could say that they fill the memory.
SIZES = {"K": 10**4, "M": 10**4, "L": 10**6, "nodes": 10**4, "runs": 10**6}
SET_HERE = {"model", "start", "spectrum", "schedule", "progress", "executor", "learning", "options", "data", "cls"}


def read(path):
    r"""Read a configuration: what ``solve`` and ``simulate`` are to be called with.

    Parameters
    ----------
    path : path-like
        A TOML file.

    Returns
    -------
    dict
        ``model``, ``start``, ``solve`` and ``simulate`` (keyword arguments, or None where the table is missing) and
        ``folder``, where the results go.

    Raises
    ------
    ValueError
        No TOML, a table or a key that is not known (the message names it and lists those that are), a bad value, sizes
        beyond the memory; a folder that is not below that of the file, or that holds anything but an earlier run.
    FileNotFoundError
        No such file.

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
    except ValueError as error:  # of its grammar, its encoding, or a number of thousands of digits
        raise ValueError(f"{path} is no TOML: {error}.") from None
    _known("the file", tables, TABLES)
    for name in tables:
        if not isinstance(tables[name], dict):
            raise check.refused(name, tables[name], f"a table, [{name}].")
        for key in SIZES.keys() & tables[name].keys():
            if check.count(key, tables[name][key]) > SIZES[key]:
                raise ValueError(f"{key} = {tables[name][key]} of [{name}]; expected at most {SIZES[key]}.")
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
        _known(f"[{name}]", tables[name], _arguments(function))
        config[name] = tables[name] | {"alpha": _times(f"[{name}]", tables[name])}
        config[name] |= {} if schedule is None else {"schedule": schedule}
    output = tables.get("output", {})
    _known("[output]", output, ("folder",))
    folder = output.get("folder", path.stem)
    if not isinstance(folder, str):
        raise check.refused("folder", folder, "the name of a folder, as a text.", after=" of [output]")
    config["folder"] = _folder(path, folder)
    return config


@contextmanager
def _bounded(path):
    """What asks for more than the machine has is refused in words."""
    try:
        yield
    except RecursionError:
        raise ValueError(f"{path} is nested too deep; expected tables of lists.") from None
    except MemoryError as error:
        raise ValueError(f"{path} asks for more than the memory holds: {error}. Try smaller sizes.") from None


def _folder(path, name):
    """The folder of the results: below that of the file, which may come from somebody else, and free or our own."""
    folder, home = path.parent / name, path.parent.resolve()
    if home not in folder.resolve().parents:
        raise ValueError(
            f"folder = {name!r} of [output]; expected the name of a folder below that of the file, {home}."
        )
    if not folder.exists():
        return folder
    if not folder.is_dir():
        raise ValueError(f"folder = {str(folder)!r} is a file; expected a folder, or a name that is free.")
    inside = [*folder.iterdir()]
    if inside and not (folder / "config.toml").is_file():
        raise ValueError(
            f"folder = {str(folder)!r} holds other files, and no config.toml of a run; choose another name."
        )
    if links := [file.name for file in inside if file.is_symlink()]:
        raise ValueError(f"folder = {str(folder)!r} holds the link {links[0]}; expected files that a run has written.")
    return folder


def run(path, *, progress=True):
    r"""Do what a configuration says and keep all of it in one folder.

    Parameters
    ----------
    path : path-like
        A TOML file, see :func:`read`.
    progress : bool
        Show progress bars.

    Returns
    -------
    dict
        ``trajectory`` and ``runs``, None where there was none, and ``folder``.

    Raises
    ------
    ValueError
        As :func:`read`, before anything is computed; a folder that holds other results.

    Notes
    -----
    The folder holds ``config.toml`` (the file as it was), ``trajectory.npz`` and ``runs.npz`` (:func:`overlaps.load`),
    ``figure.png`` and ``versions.txt``.

    Examples
    --------
    >>> import pathlib, tempfile, overlaps.configuration
    >>> path = pathlib.Path(tempfile.mkdtemp(), "run.toml")
    >>> text = '[model]\nK = 1\nM = 1\neta = 0.5\n[start]\nN = 1000\nrng = 1\n[solve]\nalpha = [0.0, 1.0]'
    >>> _ = path.write_text(text)
    >>> made = overlaps.configuration.run(path, progress=False)
    >>> sorted(file.name for file in made["folder"].iterdir())
    ['config.toml', 'figure.png', 'trajectory.npz', 'versions.txt']
    """
    with _bounded(path):
        return _run(Path(path), progress)


def _run(path, progress):
    config = _read(path)
    folder, kept = config["folder"], config["folder"] / "config.toml"
    if kept.exists() and kept.read_bytes() != path.read_bytes():
        raise ValueError(f"folder = {folder} holds the results of another configuration; choose another, or remove it.")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, kept)
    (folder / "versions.txt").write_text(versions() + "\n")
    result = {"trajectory": None, "runs": None, "folder": folder}
    axes: Any = None
    if config["solve"] is not None:
        result["trajectory"] = traj = ov.solve(config["model"], config["start"], progress=progress, **config["solve"])
        traj.save(folder / "trajectory.npz")
        axes = traj.plot()
    if config["simulate"] is not None:
        drawn = {} if config["start"] is None else {"start": config["start"]}
        result["runs"] = runs = ov.simulate(config["model"], progress=progress, **drawn, **config["simulate"])
        runs.save(folder / "runs.npz")
        axes = runs.plot() if axes is None else runs.plot(ax=axes, marker="o", markersize=3, linestyle="none")
    axes[0].figure.savefig(folder / "figure.png", dpi=150)
    return result


def _known(where, table, known):
    for name in table:
        if name not in known:
            raise ValueError(f"{where} has the key {name!r}; expected some of {', '.join(sorted(known))}.")


def _arguments(function):
    return {x for x in inspect.signature(function).parameters if x not in SET_HERE}


def _call(where, function, table, known=None):
    """The function, called with a table; what is missing or unknown is named."""
    _known(where, table, known or _arguments(function))
    try:
        return function(**table)
    except TypeError as error:
        raise ValueError(f"{where}: {error}.") from None


def _model(table, spectrum):
    kind = check.choice("kind of [model]", table.pop("kind", "committee_machine"), MODELS)
    for role in {"activation", "teacher_activation"} & table.keys():
        table[role] = _activation(role, table[role])
    known = _arguments(MODELS[kind]) | (_arguments(ov.committee_machine) if kind != "committee_machine" else set())
    if spectrum is not None:
        arguments = dict(spectrum)
        maker = SPECTRA[check.choice("kind of [spectrum]", arguments.pop("kind", "power_law"), SPECTRA)]
        table["spectrum"], known = _call("[spectrum]", maker, arguments), known | {"spectrum"}
    return _call("[model]", MODELS[kind], table, known)


def _schedule(table):
    """One schedule, or one for each name: [schedule.noise]."""
    if all(isinstance(x, dict) for x in table.values()):
        return {name: _call(f"[schedule.{name}]", ov.Schedule, x) for name, x in table.items()}
    return _call("[schedule]", ov.Schedule, table)


def _activation(role, value):
    """By name, "erf"; with a parameter as a table, { leaky_relu = 0.1 }."""
    if isinstance(value, dict) and len(value) == 1 and (name := next(iter(value))) in PARAMETRIC:
        return PARAMETRIC[name](value[name])
    in_a_file = "in a file { leaky_relu = 0.1 } or { polynomial = [0, 0, 1] }; a function of your own takes a script"
    return named(role, value, in_a_file)


def _start(model, table):
    """The state that [start] describes; None where there is no such table, for simulations that draw their own."""
    if not table:
        return None
    kind = check.choice("kind of [start]", table.pop("kind", "random"), STARTS)
    if kind in ("random", "limit"):
        maker = getattr(model, f"{kind}_start", None)
        if maker is None:
            raise ValueError(f"kind = {kind!r} of [start]; expected another for {model}: only manifolds have a limit.")
        return _call("[start]", maker, table)
    maker = getattr(ov.State, f"from_{kind}")
    return _call("[start]", lambda **table: maker(model, **table), table, _arguments(maker))


def _times(where, table):
    """Output times: a list of times; two numbers for an interval; or { from, to, n, log } for n times."""
    if "alpha" not in table:
        raise ValueError(f"{where} has no alpha; expected times, such as [0.0, 100.0] for an interval.")
    alpha = table["alpha"]
    if not isinstance(alpha, dict):
        return tuple(alpha) if isinstance(alpha, list) and len(alpha) == 2 else alpha
    _known(f"alpha of {where}", alpha, ("from", "to", "n", "log"))
    if missing := [x for x in ("from", "to", "n") if x not in alpha]:
        raise ValueError(f"alpha of {where} has no {missing[0]!r}; expected from, to and n.")
    begin, end = (check.number(x, alpha[x], least=0) for x in ("from", "to"))
    n = check.count("n", alpha["n"], 2)
    if n > MOST:
        raise ValueError(f"n = {n} times of {where}; expected at most {MOST}: all of them are kept.")
    if not check.flag("log", alpha.get("log", False)):
        return np.linspace(begin, end, n)
    if begin == 0:
        raise ValueError(f"alpha of {where} has from = 0 and log = true; expected from > 0.")
    return np.geomspace(begin, end, n)
