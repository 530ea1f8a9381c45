"""An append-only file of finished points: what a killed sweep resumes from.

The file is a line that names it, then records: length and CRC-32, then a pickle. The first record describes the sweep,
each further one is (index, value) of a finished point. A record is on the disk before the next point is taken up, so a
killed process loses at most the record it was writing; that torn tail is cut off when the file is opened again.
"""

import fcntl
import io
import os
import pickle
import struct
import zlib
from contextlib import contextmanager

import numpy as np

from .._base import check

__all__ = ["open_checkpoint"]

try:
    import fcntl
except ImportError:  # not a POSIX system: two processes on one file are the user's care
    fcntl = None  # type: ignore[assignment]

MAGIC = b"overlaps sweep 1\n"
FRAME = struct.Struct("<QI")  # length, CRC-32


@contextmanager
def open_checkpoint(path, header):
    """Yield ({index: value} of the finished points, function that appends one).

    Parameters
    ----------
    path : path-like or None
        The file; None keeps nothing. It holds pickles: open only files that you trust.
    header : dict
        Description of the sweep: ``function``, ``rng``, ``product`` and ``grid`` (dict of lists).

    Raises
    ------
    ValueError
        The file is no checkpoint, belongs to another sweep (the message names the difference), or is in use by another
        process.
    """
    if path is None:
        yield {}, lambda index, value: None
        return
    if not isinstance(path, str | bytes | os.PathLike):  # open() takes an integer for a file that is already open
        raise ValueError(f"checkpoint = {check.shown(path)}; expected the path of a file.")
    try:
        first = pickle.dumps(header)
    except Exception as error:  # pickle raises PicklingError, TypeError or AttributeError
        raise ValueError(
            f"checkpoint = {str(path)!r}, but the grid or the function's fixed arguments cannot be pickled ({error}); "
            "expected numbers, arrays, records and functions that can be imported."
        ) from error
    with open(path, "a+b", buffering=0) as file:
        _lock(file, path)
        records = list(_records(file, path))
        if records:
            _check_same(records[0], pickle.loads(first), path)  # both after pickling: lists stay lists, -0.0 stays -0.0
        else:
            _write(file, MAGIC + _framed(first))

        def append(index, value):
            _write(file, _framed(pickle.dumps((index, value))))

        yield dict(records[1:]), append


def _framed(payload):
    return FRAME.pack(len(payload), zlib.crc32(payload)) + payload


def _write(file, data):
    """Append all of the data, or nothing when the disk is full or Ctrl-C comes."""
    end = file.seek(0, os.SEEK_END)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]
        os.fsync(file.fileno())
    except BaseException:
        file.truncate(end)
        raise


def _lock(file, path):
    """Refuse a second process. A POSIX lock is not inherited by workers and ends with its process, however it ends."""
    if fcntl is None:
        return
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        raise ValueError(
            f"checkpoint = {str(path)!r} is in use by another process; wait for it, or give this sweep its own file."
        ) from None


def _records(file, path):
    """Unpickle the records; cut off a torn tail, pass over a damaged one (its point is computed again)."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    reader = io.BufferedReader(file)
    begun = reader.read(len(MAGIC))
    if begun != MAGIC[: len(begun)]:
        raise ValueError(
            f"checkpoint = {str(path)!r} was not written by a sweep (or by a newer version); expected a new path or "
            "the checkpoint of this sweep. Nothing was changed."
        )
    complete, end = 0, len(begun)
    while end + FRAME.size <= size:
        length, check = FRAME.unpack(reader.read(FRAME.size))
        end += FRAME.size + length
        if length == 0 or end > size:
            break
        payload = reader.read(length)
        if zlib.crc32(payload) == check:
            yield pickle.loads(payload)
        elif complete == 0 and end < size:
            raise ValueError(f"checkpoint = {str(path)!r} is damaged: its header cannot be read. Nothing was changed.")
        elif complete == 0:
            break  # killed while the header was written
        complete = end
    reader.detach()
    file.truncate(complete)


def _check_same(saved, wanted, path):
    """Say what differs between the sweep in the file and this one."""
    difference = next(_differences(saved, wanted), None)
    if difference:
        raise ValueError(
            f"checkpoint = {str(path)!r} belongs to another sweep: {difference}. Give this sweep a new path, or repeat "
            "the one in the file."
        )


def _differences(saved, wanted):
    for name in ("function", "rng"):
        if not _equal(saved[name], wanted[name]):
            yield f"its {name} is {check.shown(saved[name])}, now {check.shown(wanted[name])}"
    old, new = saved["grid"], wanted["grid"]
    if list(old) != list(new):
        yield f"its grid has the parameters {', '.join(old)}, now {', '.join(new)}"
        return
    if saved["product"] != wanted["product"]:
        kinds = {True: "a product of lists", False: "a list of points"}
        yield f"its grid is {kinds[saved['product']]}, now {kinds[wanted['product']]}"
    for name in old:
        if len(old[name]) != len(new[name]):
            yield f"its grid has {len(old[name])} values of {name}, now {len(new[name])}"
        for i, (a, b) in enumerate(zip(old[name], new[name], strict=False)):
            if not _equal(a, b):
                yield f"its grid has {name}[{i}] = {check.shown(a)}, now {check.shown(b)}"


def _equal(a, b):
    """Equality of anything that pickles: by its pickle (nan, objects without an equality of their own), or by value."""
    if pickle.dumps(a) == pickle.dumps(b):
        return True
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    if isinstance(a, list | tuple) and type(a) is type(b):
        return len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    return bool(a == b)
