"""Saving and loading results: one .npz with arrays and a JSON header."""

import json
import os
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from . import activations
from .feature_map import NAMED, feature_map
from .hidden_manifold import HiddenManifold
from .manifold_ensemble import ManifoldEnsemble
from .models import Model
from .spectrum import Spectrum
from .trajectory import Ensemble, Trajectory

__all__ = ["load", "save"]

FORMAT = 1
KINDS = {kind.__name__: kind for kind in (Trajectory, Ensemble, ManifoldEnsemble)}


def save(result, path):
    """Write a Trajectory or an Ensemble; the file appears complete or not at all."""
    from . import __version__

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
        | {"activation": model.activation.name, "teacher_activation": model.teacher_activation.name},
        "spectrum": spectrum.name,
    }
    if isinstance(model, HiddenManifold):
        head["features"] = model.features.name if model.features.named else f"function {model.features.name}"
        head["manifold"] = {name: getattr(model, name) for name in ("ratio", "nodes", "latent_scale")}
    path = Path(path)
    path = path if path.suffix == ".npz" else path.with_name(path.name + ".npz")
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez_compressed(file, header=json.dumps(head), **arrays)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def load(path, *, model=None):
    """Read a result written by ``save``.

    Parameters
    ----------
    path : path-like
        The ``.npz`` file.
    model : Model, optional
        Needed when an activation or the features of the saved model are a user function, which a file cannot hold.

    Returns
    -------
    Trajectory or Ensemble
        Equal to the one saved.

    Raises
    ------
    ValueError
        Not a file of this library, a newer format, or an unknown activation.

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
    with np.load(path, allow_pickle=False) as data:
        if "header" not in data:
            raise ValueError(f"{path} was not written by overlaps (no header).")
        head = json.loads(str(data["header"]))
        if head["format"] > FORMAT:
            raise ValueError(
                f"{path} has format {head['format']} (overlaps {head['version']}); this version reads up to {FORMAT}. "
                "Upgrade overlaps."
            )
        kind = KINDS[head["kind"]]
        arrays = {f.name: data[f.name] for f in fields(kind) if f.name in data}
        if model is None:
            model = _model(head, data)
    return kind(model=model, **arrays, **head["result"])


def _model(head, data):
    options = dict(head["model"])
    for name in ("activation", "teacher_activation"):
        options[name] = _activation(options[name])
    options["weight_decay"] = tuple(options["weight_decay"])
    options |= {
        "spectrum": Spectrum(data["spectrum.s"], data["spectrum.p"], head["spectrum"], data.get("spectrum.basis")),
        "v": data["model.v"],
        "v_star": data["model.v_star"],
    }
    if "manifold" not in head:
        return Model(**options)
    if head["features"] not in NAMED:
        raise ValueError(f"the file names the features {head['features']!r}; pass load(path, model=...).")
    return HiddenManifold(**options, features=feature_map(head["features"]), **head["manifold"])


def _activation(name):
    known = getattr(activations, name, None)
    if isinstance(known, activations.Activation):
        return known
    raise ValueError(f"the file names the activation {name!r}, which is not built in; pass load(path, model=...).")
