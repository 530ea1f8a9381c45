"""A file of finished points, one line each: what a killed or extended sweep takes up again.

A line is a JSON object: the function, digests of its code and of what it reads, the seed of the sweep, the point, and
its value as a base64 pickle, closed by the CRC-32 of what stands before. A line says all that is needed to use it:
nothing depends on the lines before, on the order, or on the other points of the grid, so damage costs the lines it
hits, and a sweep may grow. A line is on the disk before the next point is taken up; a killed process loses at most the
line it was writing.

Lines of text that are only ever appended were preferred to a database: one file without companions, which any tool
reads while the sweep runs, and which needs neither locks that network file systems lack nor a connection that must not
cross a fork.
"""

import base64
import io
import json
import os
import pickle
import zlib
from contextlib import contextmanager
from weakref import WeakSet

from .._base import check, warn
from .contents import changes, contents
from .described import described, described_items

try:
    import fcntl
except ImportError:  # not a POSIX system: two processes on one file are the user's care
    fcntl = None  # type: ignore[assignment]

FORMAT = 2
BEGIN = b'{"overlaps sweep": '  # every line begins so
CHECK = b', "check": '  # before the last entry of every line, the CRC-32 of all before it


@contextmanager
def open_checkpoint(path, function, identity, rng, points, seeds):
    """Yield ({index: value} of the finished points, function (index, value) that appends one).

    Parameters
    ----------
    path : path-like or None
        The file; None keeps nothing. Values are pickles: open only files that you trust.
    function, identity, rng
        The function, what names it, and the seed of the sweep: a file holds points of one function and one seed.
    points, seeds : list of dict, list
        Arguments of the points, and of their own seeds the places below the sweep's (or None).

    Raises
    ------
    ValueError
        The file is no checkpoint, belongs to another sweep (the message names the difference), or is in use by another
        one. Nothing is unpickled then, and the file is as it was.

    Warns
    -----
    RuntimeWarning
        Points whose function had another content; lines that cannot be read, if points are missing; a value that could
        not be written (it is not lost: the sweep has it).
    """
    if path is None:
        yield {}, lambda index, value: None
        return
    if not isinstance(path, str | bytes | os.PathLike):  # open() takes an integer for a file that is already open
        raise check.refused("checkpoint", path, "the path of a file.")
    try:
        sweep = {"overlaps sweep": FORMAT, "function": described(identity), "rng": described(rng)}
        sweep["contents"] = contents(function)
        places = ({"point": described_items(point), "seed": seed} for point, seed in zip(points, seeds, strict=True))
        # every line names its sweep and its point: a file can be resumed after any interruption, whatever the order of
        # points
        entries = [sweep | place for place in places]
    except Exception as error:  # pickle raises PicklingError, TypeError or AttributeError
        raise ValueError(
            f"checkpoint = {str(path)!r}, but the grid or the function's fixed arguments cannot be pickled ({error}); "
            "expected numbers, arrays, records and functions that can be imported."
        ) from error
    with open(path, "a+b", buffering=0) as file:
        _lock(file, path)
        yield _finished(file, path, sweep, [_place(entry) for entry in entries]), _Appender(file, path, entries)


class _Appender:
    """Write finished points; what cannot be written is said once and is the caller's to keep."""

    def __init__(self, file, path, entries):
        self.file, self.path, self.entries = file, path, entries
        self.stopped = self.warned = False

    def __call__(self, index, value):
        if self.stopped:
            return
        try:
            line = _line(self.entries[index], value)
        except Exception as error:  # whatever an object raises that does not pickle
            if not self.warned:
                self.warned = True
                self._warn(f"the value at {self.entries[index]['point']} cannot be pickled ({error}); it and its like")
            return
        try:
            _write(self.file, line)
        except OSError as error:
            # a full disk does not become empty between two points: no more attempts, one warning
            self.stopped = True
            self._warn(f"writing stopped ({error}); values from that at {self.entries[index]['point']} on")

    def _warn(self, what):
        warn(
            f"checkpoint = {str(self.path)!r}: {what} are kept in memory only. The sweep goes on, but one that resumes "
            "it would compute them again." + check.see("howto/cluster", "Interrupted and resumed")
        )


# --- lines -----------------------------------------------------------------------------------------------------------


def _line(entry, value):
    body = json.dumps(entry | {"value": base64.b64encode(pickle.dumps(value)).decode()})[:-1].encode()
    return body + CHECK + b"%d}\n" % zlib.crc32(body)


def _place(entry):
    """Name of a point, which tells it from the others."""
    return json.dumps([entry.get("point"), entry.get("seed")])


def _entry(line):
    """The object in a line, or None if it is damaged."""
    body, _, check = line.rstrip(b"\n").rpartition(CHECK)
    if not body.startswith(BEGIN) or check != b"%d}" % zlib.crc32(body):
        return None
    try:
        return json.loads(body + b"}")
    except (ValueError, RecursionError):  # not of this library, whatever its checksum
        return None


def _finished(file, path, sweep, places):
    """{index: value} of the points in the file; what a kill left at its end is cut off."""
    wanted = set(places)
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
        if (place := _place(entry)) in wanted:
            latest[place] = entry.get("value")  # the last one of a point holds
            changed[place] = changes(entry["contents"], sweep["contents"]) if entry.get("contents") else []
    reader.detach()  # it would close the file
    torn = not line.endswith(b"\n") and _entry(line) is None
    if damaged and not sound or torn and not sound and not line.startswith(BEGIN[: len(line)]):
        raise ValueError(
            f"checkpoint = {str(path)!r} was not written by a sweep of this version, or is damaged from end to end; "
            "expected a new path or the checkpoint of this sweep. Nothing was changed."
        )
    values = {}
    for i in (i for i, place in enumerate(places) if place in latest):
        try:
            values[i] = pickle.loads(base64.b64decode(latest[places[i]]))
        except Exception:  # a class that has moved or is gone
            damaged += 1
    end = file.seek(0, os.SEEK_END)
    if torn:
        # a line that an interruption cut in two; what follows would be appended to it
        file.truncate(end - len(line))
    elif end and not line.endswith(b"\n"):
        _write(file, b"\n")
    _tell(path, [what for what in changed.values() if what])
    if damaged and len(values) < len(places):
        warn(
            f"checkpoint = {str(path)!r}: {damaged} of its points cannot be read (damaged lines, or classes that are "
            f"gone); the {sound} sound ones are kept, what is missing is computed again."
            + check.see("howto/cluster", "Interrupted and resumed")
        )
    return values


def _tell(path, changed):
    """One warning for the points that an earlier form of the function has computed."""
    if changed:
        names = list(dict.fromkeys(name for what in changed for name in what))
        what = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if names[5:] else "")
        warn(
            f"checkpoint = {str(path)!r}: {len(changed)} of its points were computed by another form of the function; "
            f"what changed is {what}. Their values are kept as they are, what is missing is computed by that of now. "
            "To compute all points anew, give this sweep another path."
            + check.see("howto/cluster", "Interrupted and resumed")
        )


def _check_same(entry, sweep, path):
    """Say what differs between the sweep in the file and this one."""
    if entry["overlaps sweep"] != FORMAT:
        raise ValueError(
            f"checkpoint = {str(path)!r} has format {entry['overlaps sweep']}; this version reads {FORMAT}. Upgrade."
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
    """Append all of the data, or nothing when the disk is full or Ctrl-C comes."""
    end = file.seek(0, os.SEEK_END)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]
        # a point takes minutes, a line that the system has not written is lost with it
        os.fsync(file.fileno())
    except BaseException:
        # half a line is worse than none: the next one would be appended to it
        file.truncate(end)
        raise


def _lock(file, path):
    """Refuse a second sweep, of this process or of another.

    A lock of an open file stays when this process reads the file elsewhere and closes it. It ends with the process,
    however that ends: workers that are forked while it is held close what they inherit.
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
    except OSError:  # a file system without locks: two sweeps on one file are the user's care
        pass


def _close_inherited():
    while _locked:
        _locked.pop().close()


_locked: WeakSet[io.FileIO] = WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited)
