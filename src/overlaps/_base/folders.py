"""The folder of compiled kernels, and files in it that no other user can have written.

It contains machine code and pickles, so anybody who can write to it can run code as the reader.  For this reason the
folder is made for its owner alone.  It is used only if it, and all folders that lead to it from the user's home or from
the folder that the user named, belong to this user or to root and cannot be written by others; each file likewise, when
it is opened.  A relative path is ignored, because it would be another folder in each working directory.
"""

import os
import stat
import sys
import uuid
from contextlib import suppress
from functools import cache
from pathlib import Path

from numba import config

try:
    import grp
    import pwd
except ImportError:  # not a POSIX system: the folder is in the user's profile, which the system protects
    grp = pwd = None  # type: ignore[assignment]

PACKAGE = __name__.partition(".")[0]
UNWRITABLE = "no cache folder is writable"


@cache
def folder():
    """Folder of all kernels: in NUMBA_CACHE_DIR, or in the user's cache; None if it is not safe or of no use."""
    path, fault = folder_path(), why_unsafe()
    if fault and os.environ.get("OVERLAPS_QUIET", "0") == "0":
        message = f"compiled kernels are not cached, because {fault}"
        message += "; make it your own and writable for you only, or choose another folder"
        print(f"overlaps: {message} (NUMBA_CACHE_DIR).", file=sys.stderr, flush=True)
    return str(path) if writable() or (path and not fault and any(path.glob("*.nbc"))) else None


@cache
def writable():
    """Whether later processes will find kernels that are compiled now."""
    path = folder_path()
    if path is None or why_unsafe():
        return False
    try:
        for directory in (*reversed(path.parents), path):
            if not directory.exists():
                directory.mkdir(mode=0o700, exist_ok=True)
        probe = path / f"probe-{uuid.uuid4().hex}"
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        probe.unlink()
    except OSError:
        return False
    return not why_unsafe()  # again, because another user may have made a missing folder meanwhile


def folder_path():
    """Path of the folder, whether it is safe or not; None if no absolute path is known."""
    usual = {"nt": ("AppData", "Local"), "darwin": ("Library", "Caches")}
    home = Path(os.path.expanduser("~"), *usual.get(os.name, usual.get(sys.platform, (".cache",))))
    path = Path(_top() or home, PACKAGE, "kernels")
    return path if path.is_absolute() else None


def _top():
    """The folder for caches that the user named, or None."""
    named = config.CACHE_DIR, os.environ.get("XDG_CACHE_HOME"), os.name == "nt" and os.environ.get("LOCALAPPDATA")
    return next((Path(x) for x in named if x and os.path.isabs(x)), None)


def why_unsafe():
    """Why the folder cannot be trusted, in a few words; "" if it can, or if there is none."""
    path, top, home = folder_path(), _top(), Path(os.path.expanduser("~"))
    if path is None or pwd is None:
        return ""
    with suppress(OSError):  # nothing can be read from a folder that does not exist or cannot be listed
        for directory in reversed([path, *(x for x in path.parents if x.is_relative_to(top or home))]):
            status = directory.stat()
            if not (_is_own(directory.lstat()) and _is_own(status)):
                return f"{directory} belongs to another user"
            # in a home with the sticky bit, like /tmp, users cannot replace files of others
            sticky_home = directory != top and directory == home and status.st_mode & stat.S_ISVTX
            if not (_only_owner_writes(status) or sticky_home):
                return f"others may write to {directory}"
    return ""


def _is_own(status):
    """Whether a file or a folder belongs to this user or to root."""
    return status.st_uid in (os.geteuid(), 0)


def _only_owner_writes(status):
    """Whether only its owner may write it; a group with the owner as its only member counts as the owner."""
    if not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return True
    if status.st_mode & stat.S_IWOTH:
        return False
    try:
        owner, group = pwd.getpwuid(status.st_uid), grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    return owner.pw_gid == group.gr_gid and owner.pw_name == group.gr_name and {*group.gr_mem} <= {owner.pw_name}


def read(path):
    """Bytes of a file of this user or root; FileNotFoundError for a file of another user, or a link."""
    with open(os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)), "rb") as file:
        status = os.fstat(file.fileno())
        if pwd is not None and not (_is_own(status) and _only_owner_writes(status)):
            raise FileNotFoundError(f"{path} is writable for others")
        return file.read()


def write(path, data):
    """Write a file atomically, with mode 0644 or stricter."""
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
    try:
        with open(os.open(temporary, flags, 0o644), "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def claim(path):
    """An open file for a lock; its contents do not change, and links are not followed."""
    return open(os.open(path, os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), 0o600), "r+b", buffering=0)
