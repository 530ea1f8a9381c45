"""Values of sweeps in files: results, arrays, numbers, texts, and lists or dicts of them."""

from typing import Any

import numpy as np

from .._base import check
from ..results.descriptions import inside
from ..results.files import contents, has_file, restored

COLLECTIONS: dict[str, Any] = {"list": list, "tuple": tuple}


def item_of(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    """Return JSON for the value called ``name``, and add its arrays to ``arrays``.

    Arrays are named by numbers, because keys of dicts may contain any character.
    """
    if type(value) in (str, int, float, bool, type(None)):  # JSON preserves these types
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
    """Return the value that :func:`item_of` described."""
    ((kind, entry), *_) = item.items()
    if kind == "plain":
        return entry
    if kind == "array":
        return data[entry]
    if kind == "scalar":
        return data[entry][()]
    if kind == "dict":
        return {key: value_of(x, data) for key, x in entry.items()}
    if kind == "record":
        return restored(entry, inside(data, item["at"]))
    return COLLECTIONS[kind](value_of(x, data) for x in entry)
