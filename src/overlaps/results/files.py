"""Saving and loading results: one .npz with arrays and a JSON header."""

import json
import os
import uuid
import zipfile
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from .._base.record import Record
from .._base.version import __version__
from ..activations import library as activations
from ..activations.polynomials import Polynomial

__all__ = ["load", "save"]

FORMAT = 1
ROLES = "activation", "teacher_activation"
MAKERS = {"leaky_relu": activations.leaky_relu, "polynomial": activations.polynomial}


def save(result, path):
    """Write a Trajectory or an Ensemble; the file appears complete or not at all."""
    path = _path(path)
    path = path if path.suffix == ".npz" else path.with_name(path.name + ".npz")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"path = {path}: there is no folder {path.parent}. Make it first, or choose another.")
    arrays: dict[str, Any] = {}
    header: dict[str, Any] = {}
    for f in fields(result):
        value = getattr(result, f.name)
        if isinstance(value, np.ndarray):
            arrays[f.name] = value
        elif f.compare and f.name != "model":
            header[f.name] = value
    model, spectrum = result.model, result.model.spectrum
    arrays |= {"model.v": model.v, "model.v_star": model.v_star, "spectrum.s": spectrum.s, "spectrum.p": spectrum.p}
    if spectrum.basis is not None:
        arrays["spectrum.basis"] = spectrum.basis
    plain = ("eta", "eta_v", "noise", "weight_decay", "batch_size", "gradient_flow")
    head = {
        "format": FORMAT,
        "version": __version__,
        "kind": type(result).__name__,
        "result": header,
        "model": {name: getattr(model, name) for name in plain}
        | {role: _label(getattr(model, role)) for role in ROLES},
        "recipes": {role: recipe for role in ROLES if (recipe := _recipe(getattr(model, role)))},
        "spectrum": spectrum.name,
    }
    if model.latent_teacher:
        head["features"] = model.features.name if model.features.named else f"function {model.features.name}"
        head["manifold"] = {name: getattr(model, name) for name in ("ratio", "nodes", "latent_scale")}
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
    try:
        with open(temporary, "xb") as file:  # with the permissions that any new file gets
            np.savez_compressed(file, header=json.dumps(head), **arrays)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _path(path):
    try:
        return Path(path)
    except TypeError:
        raise ValueError(f"path = {path!r}; expected a path, such as 'run.npz'.") from None


def _recipe(activation):
    """How to make an activation with parameters again: (function, parameter), or None."""
    g = activation.g
    if getattr(activations, activation.name, None) == activation:
        return None
    recipe: tuple[str, Any]
    if isinstance(g, activations.Hinge):
        recipe = ("leaky_relu", g.below)
    elif isinstance(g, Polynomial):
        recipe = ("polynomial", g.coefficients)
    else:
        return None
    made = MAKERS[recipe[0]](recipe[1])
    return recipe if replace(made, name=activation.name) == activation else None


def _label(activation):
    """The name of an activation; that of a user function cannot be taken for a built-in one."""
    known = getattr(activations, activation.name, activation)
    return activation.name if known == activation or _recipe(activation) else f"function {activation.name}"


def load(path, *, model=None):
    """Read a result written by ``save``.

    Parameters
    ----------
    path : path-like
        The ``.npz`` file.
    model : Model, optional
        Needed when an activation or the features of the saved model are a user function, which a file cannot hold.
        Parameters of ``leaky_relu`` and ``polynomial`` are in the file.

    Returns
    -------
    Trajectory or Ensemble
        Equal to the one saved.

    Raises
    ------
    ValueError
        Not a file of this library, a newer format, or an unknown activation.
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
    if not zipfile.is_zipfile(path) and path.exists():
        raise ValueError(f"{path} was not written by overlaps, or is damaged; expected an .npz file made by save.")
    with np.load(path, allow_pickle=False) as data:
        if "header" not in data:
            raise ValueError(f"{path} was not written by overlaps (no header).")
        head = json.loads(str(data["header"]))
        if head["format"] > FORMAT:
            raise ValueError(
                f"{path} has format {head['format']} (overlaps {head['version']}); this version reads up to {FORMAT}. "
                "Upgrade overlaps."
            )
        kind = Record.kinds[head["kind"]]
        arrays = {f.name: data[f.name] for f in fields(kind) if f.name in data}
        if model is None:
            model = _model(head, data)
    return kind(model=model, **arrays, **head["result"])


def _model(head, data):
    options = dict(head["model"])
    for role in ROLES:
        maker, parameter = head.get("recipes", {}).get(role, (None, None))  # not in early files
        options[role] = replace(MAKERS[maker](parameter), name=options[role]) if maker else _activation(options[role])
    options["weight_decay"] = tuple(options["weight_decay"])
    options |= {
        "spectrum": Record.kinds["Spectrum"](
            data["spectrum.s"], data["spectrum.p"], head["spectrum"], data.get("spectrum.basis")
        ),
        "v": data["model.v"],
        "v_star": data["model.v_star"],
    }
    if "manifold" not in head:
        return Record.kinds["Model"](**options)
    if head["features"].startswith("function "):
        raise ValueError(f"the file names the features {head['features']!r}; pass load(path, model=...).")
    return Record.kinds["HiddenManifold"](**options, features=head["features"], **head["manifold"])


def _activation(name):
    known = getattr(activations, name, None)
    if isinstance(known, activations.Activation):
        return known
    raise ValueError(f"the file names the activation {name!r}, which is not built in; pass load(path, model=...).")
