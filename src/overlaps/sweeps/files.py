"""Sweeps in files: values that are results, arrays, numbers, texts, and lists or dicts of them."""

from typing import Any

import numpy as np

from .._base import check
from ..results.descriptions import inside
from ..results.files import contents, has_file, restored

PLAIN = str, int, float, bool, type(None)  # JSON gives these back as they were
COLLECTIONS: dict[str, Any] = {"list": list, "tuple": tuple}


def item_of(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    """JSON for a value at the place ``name``; its arrays join ``arrays``, under numbers: keys may hold any sign."""
    if type(value) in PLAIN:
        return {"plain": value}
    if isinstance(value, np.ndarray | np.generic | complex) and np.asarray(value).dtype.kind in "biufcU":
        arrays[number := f"{len(arrays)}"] = np.asarray(value)
        return {"array" if isinstance(value, np.ndarray) else "scalar": number}
    for kind, maker in COLLECTIONS.items():
        if type(value) is maker:
            return {kind: [item_of(x, f"{name}.{i}", arrays) for i, x in enumerate(value)]}
    if type(value) is dict and all(isinstance(key, str) for key in value):
        return {"dict": {key: item_of(x, f"{name}.{key}", arrays) for key, x in value.items()}}
    if has_file(value):
        header, content = contents(value)
        folder = f"{len(arrays)}/"
        arrays |= {folder + key: x for key, x in content.items()}
        return {"record": header, "at": folder}
    raise ValueError(
        f"{name} = {check.shown(value)}; expected results that have a file of their own, numbers, arrays, texts, and "
        "lists or dicts of them. Pickle anything else, or sweep with checkpoint=."
    )


def value_of(item: Any, data: dict[str, np.ndarray]) -> Any:
    """The value that :func:`item_of` put down."""
    ((kind, what), *_) = item.items()
    if kind == "plain":
        return what
    if kind == "array":
        return data[what]
    if kind == "scalar":
        return data[what][()]
    if kind == "dict":
        return {key: value_of(x, data) for key, x in what.items()}
    if kind == "record":
        return restored(what, inside(data, item["at"]))
    return COLLECTIONS[kind](value_of(x, data) for x in what)
