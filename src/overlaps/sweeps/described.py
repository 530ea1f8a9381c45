"""Values as JSON, equal for equal values in every process: plain values unchanged, others by a digest."""

import hashlib
import json
import pickle
from dataclasses import fields, is_dataclass

import numpy as np

from .._base import Immutable, check


def described(value, other=None):
    """Return JSON for a value.

    ``other`` describes values that are neither plain, arrays nor ``Immutable``; by default the digest of their pickle.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [described(x, other) for x in value]
    if isinstance(value, tuple):
        return {"tuple": [described(x, other) for x in value]}
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return {"dict": described_items(value, other)}
    if isinstance(value, set | frozenset):
        return {"set": sorted(json.dumps(described(x, other)) for x in value)}
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return _digested(type(value).__qualname__, f"{value.dtype.str} {value.shape} ".encode() + value.tobytes())
    if isinstance(value, Immutable):  # its pickle would contain cached properties
        name = check.shown(value) if other is None else named(value)
        return _digested(name, json.dumps(list(_fields(value, other).values())).encode())
    if other is not None:
        return other(value)
    return _digested(getattr(value, "__qualname__", type(value).__qualname__), pickle.dumps(value, protocol=5))


def described_items(items, other=None):
    """Return JSON for values by name."""
    return {name: described(items[name], other) for name in sorted(items)}


def described_fields(value, other):
    """Return JSON for any other dataclass, such as an activation; None for other values."""
    return _fields(value, other) if is_dataclass(value) and not isinstance(value, type) else None


def named(value):
    """Return the name of a value, or of its type."""
    kind = value if hasattr(value, "__qualname__") else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def _fields(value, other):
    return {f.name: described(getattr(value, f.name), other) for f in fields(value) if f.compare}


def _digested(name, content):
    return {"what": name, "digest": hashlib.sha256(content).hexdigest()[:32]}
