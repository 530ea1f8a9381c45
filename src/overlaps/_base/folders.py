"""The folder of compiled kernels, and files in it that no other user can have written.

What lies there is machine code and pickles: whoever can write it runs code in the name of the reader.  So the folder is
made for its owner alone, and used only where it, and what leads to it from the user's home or from the folder that the
user named, belongs to this user or to root and nobody else may write there; each file likewise, when it is opened.
A path that is not absolute would be another folder in each working directory, and is none.
"""

import os
import stat
import sys
import uuid
from contextlib import suppress
from functools import cache
from pathlib import Path

from numba.core import config

try:
    import grp
    import pwd
except ImportError:  # not a POSIX system: the folder lies in the user's profile, whose rights the system keeps
    grp = pwd = None  # type: ignore[assignment]

PACKAGE = __name__.partition(".")[0]
OTHERS = stat.S_IWGRP | stat.S_IWOTH  # rights to write of those who are not the owner
UNWRITABLE = "no cache folder can be written"
NO_LINK = getattr(os, "O_NOFOLLOW", 0)


@cache
def folder():
    """Folder of all kernels: in NUMBA_CACHE_DIR, or in the user's cache; None where none is safe, or of any use."""
    path, why = place(), fault()
    if why and os.environ.get("OVERLAPS_QUIET", "0") == "0":
        said = f"compiled kernels are neither read nor kept, as {why}; make the folder yours alone, or name another one"
        print(f"overlaps: {said} (NUMBA_CACHE_DIR).", file=sys.stderr, flush=True)
    return str(path) if writable() or (path and not why and any(path.glob("*.nbc"))) else None


@cache
def writable():
    """Whether kernels that are compiled now will be found by later processes."""
    path = place()
    if path is None or fault():
        return False
    try:
        for part in (*reversed(path.parents), path):
            if not part.exists():
                part.mkdir(mode=0o700, exist_ok=True)
        probe = path / f"probe-{uuid.uuid4().hex}"
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        probe.unlink()
    except OSError:
        return False
    return not fault()  # what was not there before may have been made by another one meanwhile


def place():
    """Where the folder would be, whether it is safe or not; None where no absolute path is known."""
    usual = {"nt": ("AppData", "Local"), "darwin": ("Library", "Caches")}
    home = Path(os.path.expanduser("~"), *usual.get(os.name, usual.get(sys.platform, (".cache",))))
    path = Path(_top() or home, PACKAGE, "kernels")
    return path if path.is_absolute() else None


def _top():
    """The folder for caches that the user named, or None."""
    named = config.CACHE_DIR, os.environ.get("XDG_CACHE_HOME"), os.name == "nt" and os.environ.get("LOCALAPPDATA")
    return next((Path(x) for x in named if x and os.path.isabs(x)), None)


def fault():
    """Why the folder cannot be trusted, in a few words; nothing where it can, or where there is none."""
    path, top, home = place(), _top(), Path(os.path.expanduser("~"))
    if path is None or pwd is None:
        return ""
    with suppress(OSError):  # a folder that is not there, or cannot be seen, holds nothing that could be read
        for part in reversed([path, *(x for x in path.parents if x.is_relative_to(top or home))]):
            found = part.stat()
            if not (_ours(part.lstat()) and _ours(found)):
                return f"{part} belongs to another user"
            # in a home like /tmp nobody can replace what another one owns
            if not (_sole(found) or (part != top and part == home and found.st_mode & stat.S_ISVTX)):
                return f"others may write to {part}"
    return ""


def _ours(found):
    """Whether a file or a folder belongs to this user or to root."""
    return found.st_uid in (os.geteuid(), 0)


def _sole(found):
    """Whether only its owner may write it; a group of the owner alone, which many systems make, is the owner."""
    if not found.st_mode & OTHERS:
        return True
    if found.st_mode & stat.S_IWOTH:
        return False
    try:
        owner, group = pwd.getpwuid(found.st_uid), grp.getgrgid(found.st_gid)
    except KeyError:
        return False
    return owner.pw_gid == group.gr_gid and owner.pw_name == group.gr_name and {*group.gr_mem} <= {owner.pw_name}


def read(path):
    """Bytes of a file, which is this user's or root's; FileNotFoundError for one of anybody else, or a link."""
    with open(os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | NO_LINK), "rb") as file:
        found = os.fstat(file.fileno())
        if pwd is not None and not (_ours(found) and _sole(found)):
            raise FileNotFoundError(f"{path} can be written by others")
        return file.read()


def write(path, data):
    """Put a file into its place at once, with rights that no umask widens."""
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
    try:
        with open(os.open(part, flags, 0o644), "wb") as file:
            file.write(data)
        os.replace(part, path)
    except OSError:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def claim(path):
    """An open file to hold a lock on, whose contents stay as they are; not what a link leads to."""
    return open(os.open(path, os.O_CREAT | os.O_RDWR | NO_LINK, 0o600), "r+b", buffering=0)
