"""Checkpoint of a sweep: a file with one line for each finished point, from which a sweep is resumed or extended.

A line is a JSON object: the function, digests of its code and of its inputs, the seed of the sweep, the point, its
value as a base64 pickle, and the CRC-32 of all before. A line does not depend on the other lines, their order or the
other points of the grid, so damage affects single lines, and a sweep may be extended. Each line is written to the disk
before the next point is started; a killed process loses at most one line.

The format is text to which lines are only appended, not a database, because it is a single file that any tool can read
while the sweep runs. It requires no locks, which network file systems lack, and no connection, which must not cross a
fork.
"""

import base64
import io
import json
import os
import pickle
import zlib
from contextlib import contextmanager
from typing import NamedTuple
from weakref import WeakSet

from .._base import check, warn
from .contents import changes, contents
from .described import described, described_items

try:
    import fcntl
except ImportError:  # not a POSIX system: the user must not write one file from two processes
    fcntl = None  # type: ignore[assignment]


class LineFormat(NamedTuple):
    """Format of the lines of a checkpoint."""

    version: int = 2
    begin: bytes = b'{"overlaps sweep": '  # beginning of every line
    checksum: bytes = b', "check": '  # before the last entry of every line, the CRC-32 of all before it


LINE = LineFormat()


@contextmanager
def open_checkpoint(path, function, identity, rng, points, seeds):
    """Yield ({index: value} of the finished points, function (index, value) that appends one).

    Parameters
    ----------
    path : path-like or None
        The file; None for no checkpoint. Values are pickles: open only trusted files.
    function, identity, rng
        The function, its name and fixed arguments, and the seed of the sweep. A file contains points of one function
        and one seed.
    points, seeds : list of dict, list
        Arguments of the points, and the spawn keys of their seeds (or None).

    Raises
    ------
    ValueError
        The file is not a checkpoint, belongs to another sweep (the message names the difference), or is in use. Then
        nothing is unpickled, and the file remains unchanged.

    Warns
    -----
    RuntimeWarning
        Points were computed by another version of the function; lines cannot be read, and points are missing; a value
        could not be written (the sweep still returns it).
    """
    if path is None:
        yield {}, lambda index, value: None
        return
    if not isinstance(path, str | bytes | os.PathLike):  # open() would take an integer for a file descriptor
        raise check.refused("checkpoint", path, "the path of a file.")
    try:
        sweep = {"overlaps sweep": LINE.version, "function": described(identity), "rng": described(rng)}
        sweep["contents"] = contents(function)
        # every line contains its sweep and its point, so that points may be in any order
        entries = [
            sweep | {"point": described_items(point), "seed": seed} for point, seed in zip(points, seeds, strict=True)
        ]
    except Exception as error:  # pickle raises PicklingError, TypeError or AttributeError
        raise ValueError(
            f"checkpoint = {str(path)!r}, but the grid or the function's fixed arguments cannot be pickled ({error}); "
            "expected numbers, arrays, models, states, results and functions that can be imported."
        ) from error
    with open(path, "a+b", buffering=0) as file:
        _lock(file, path)
        yield _finished(file, path, sweep, [_key(entry) for entry in entries]), _Appender(file, path, entries)


class _Appender:
    """Append finished points to the file; warn once if a value cannot be written."""

    def __init__(self, file, path, entries):
        self.file, self.path, self.entries = file, path, entries
        self.stopped = self.warned = False

    def __call__(self, index, value):
        if self.stopped:
            return
        try:
            line = _line(self.entries[index], value)
        except Exception as error:  # pickling may raise any exception
            if not self.warned:
                self.warned = True
                point = self.entries[index]["point"]
                self._warn(f"the value at {point} cannot be pickled ({error}); it and others like it")
            return
        try:
            _write(self.file, line)
        except OSError as error:
            # no further attempts and only one warning, because a full disk remains full
            self.stopped = True
            self._warn(f"writing stopped ({error}); values from that at {self.entries[index]['point']} on")

    def _warn(self, values):
        warn(
            f"checkpoint = {str(self.path)!r}: {values} are kept in memory only. The sweep goes on, but if it is "
            "resumed, they are computed again." + check.see("howto/cluster", "Interrupted and resumed")
        )


# --- lines -----------------------------------------------------------------------------------------------------------


def _line(entry, value):
    body = json.dumps(entry | {"value": base64.b64encode(pickle.dumps(value)).decode()})[:-1].encode()
    return body + LINE.checksum + b"%d}\n" % zlib.crc32(body)


def _key(entry):
    """Return a unique key of a point."""
    return json.dumps([entry.get("point"), entry.get("seed")])


def _entry(line):
    """Return the object in a line, or None if it is damaged."""
    body, _, check = line.rstrip(b"\n").rpartition(LINE.checksum)
    if not body.startswith(LINE.begin) or check != b"%d}" % zlib.crc32(body):
        return None
    try:
        return json.loads(body + b"}")
    except (ValueError, RecursionError):  # not written by this library, although the checksum is correct
        return None


def _finished(file, path, sweep, keys):
    """Return {index: value} of the points in the file, and cut off an incomplete line at its end."""
    requested = set(keys)
    latest, changed, sound, damaged, line = {}, {}, 0, 0, b""
    file.seek(0)
    reader = io.BufferedReader(file)
    for line in reader:
        entry = _entry(line)
        if entry is None:
            damaged += line.endswith(b"\n")
            continue
        _check_same(entry, sweep, path)
        sound += 1
        if (key := _key(entry)) in requested:
            latest[key] = entry.get("value")  # the last line of a point counts
            changed[key] = changes(entry["contents"], sweep["contents"]) if entry.get("contents") else []
    reader.detach()  # otherwise it would close the file
    torn = not line.endswith(b"\n") and _entry(line) is None
    if damaged and not sound or torn and not sound and not line.startswith(LINE.begin[: len(line)]):
        raise ValueError(
            f"checkpoint = {str(path)!r} was not written by a sweep of this version, or is damaged from end to end; "
            "expected a new path or the checkpoint of this sweep. Nothing was changed."
        )
    values = {}
    for i in (i for i, key in enumerate(keys) if key in latest):
        try:
            values[i] = pickle.loads(base64.b64decode(latest[keys[i]]))
        except Exception:  # its class was moved or removed
            damaged += 1
    end = file.seek(0, os.SEEK_END)
    if torn:
        # an interruption left an incomplete line, to which the next one would be appended
        file.truncate(end - len(line))
    elif end and not line.endswith(b"\n"):
        _write(file, b"\n")
    _warn_changed(path, [names for names in changed.values() if names])
    if damaged and len(values) < len(keys):
        warn(
            f"checkpoint = {str(path)!r}: {damaged} of its points cannot be read (damaged lines, or classes that no "
            f"longer exist); the {sound} undamaged ones are used, missing points are computed again."
            + check.see("howto/cluster", "Interrupted and resumed")
        )
    return values


def _warn_changed(path, changed):
    """Warn once of all points that another version of the function has computed."""
    if changed:
        unique = list(dict.fromkeys(name for names in changed for name in names))
        listed = ", ".join(unique[:5]) + (f" and {len(unique) - 5} more" if unique[5:] else "")
        warn(
            f"checkpoint = {str(path)!r}: {len(changed)} of its points were computed by another form of the function; "
            f"what changed is {listed}. Their values are used unchanged, missing points are computed by the present "
            "form. To compute all points anew, give this sweep another path."
            + check.see("howto/cluster", "Interrupted and resumed")
        )


def _check_same(entry, sweep, path):
    """Refuse a file of another sweep; the message names the difference."""
    if entry["overlaps sweep"] != LINE.version:
        raise ValueError(
            f"checkpoint = {str(path)!r} has format {entry['overlaps sweep']}; this version reads {LINE.version}. "
            "Upgrade."
        )
    for name in ("function", "rng"):
        old, new = (json.dumps(x.get(name)) for x in (entry, sweep))
        if old != new:
            raise ValueError(
                f"checkpoint = {str(path)!r} belongs to another sweep: its {name} is {_short(old)}, now {_short(new)}. "
                "Give this sweep a new path, or repeat the one in the file. Nothing was changed."
            )


def _short(text):
    return text if len(text) <= 200 else text[:197] + "..."


def _write(file, data):
    """Append all data, or nothing if the disk is full or Ctrl-C is pressed."""
    end = file.seek(0, os.SEEK_END)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]
        # compared with a point, which may take minutes, synchronising is cheap, and no finished point is lost
        os.fsync(file.fileno())
    except BaseException:
        # remove the incomplete line, because the next one would be appended to it
        file.truncate(end)
        raise


def _lock(file, path):
    """Lock the file, and refuse it if another sweep of this or another process uses it.

    The lock belongs to the open file. It remains if this process opens and closes the file elsewhere, and ends with the
    process. Forked workers close the inherited file, so that they do not hold the lock.
    """
    if fcntl is None:
        return  # type: ignore[unreachable]  # on Windows
    _locked.add(file)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        raise ValueError(
            f"checkpoint = {str(path)!r} is in use by another process, or by another sweep of this one; "
            "wait for it, or give this sweep its own file."
        ) from None
    except OSError:  # a file system without locks: the user must not write one file from two sweeps
        pass


def _close_inherited():
    while _locked:
        _locked.pop().close()


_locked: WeakSet[io.FileIO] = WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited)
