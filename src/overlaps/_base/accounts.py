"""When the steps of an integrator are compiled: once runs without it have cost as much as it would.

A path is an integrator with a flow and a closure.  Its account is what runs along it have cost so far without compiled
steps, estimated, not measured.  It is compared with the estimated compilation of those of its kernels that are neither
in memory nor on the disk.  Whatever follows, a session then takes about twice the time that the better choice at its
start would have taken, at most.  Accounts are stored beside the kernels, because many short sessions are as long as
one: ``<names>-<fingerprint>.spent`` holds seconds.  If two processes add at once, the seconds of one are lost.
"""

import atexit
import hashlib
from contextlib import suppress
from pathlib import Path

from . import folders, kernel_cache, lazy_compilation
from .lazy_compilation import compilation_seconds, is_compiled, time_spent

_spent: dict[str, float] = {}  # seconds by path, of this process and of those before it
_stored: dict[str, float] = {}  # the contents of the files


class Account:
    """The account of one run; all runs of a path share its seconds.

    Parameters
    ----------
    kernels : iterable
        Pairs of kernel and signature, which are compiled together.
    """

    def __init__(self, kernels):
        kernels = tuple(kernels)
        missing = sum(compilation_seconds(kernel) for kernel, sig in kernels if not is_compiled(kernel, sig))
        self.limit, self.mark = lazy_compilation.LAZY_LIMITS.max_ratio * missing, time_spent.seconds
        self.path = "-".join([*(kernel.py_func.__name__ for kernel, _ in kernels), _identity(kernels)])
        if self.path not in _spent:
            _spent[self.path] = _stored[self.path] = _read(self.path)

    def add(self, seconds):
        """Add a step: what its kernels were estimated at meanwhile, and seconds of the Python around them."""
        now, before = time_spent.seconds, _spent.get(self.path, 0.0)
        _spent[self.path], self.mark = before + now - self.mark + seconds, now
        if int(_spent[self.path]) > int(before):
            _store(self.path)

    def pays(self, ahead=0.0):
        """Whether compilation pays, for what was spent and what is certain to follow; the account then ends."""
        if _spent.get(self.path, 0.0) + ahead < self.limit:
            return False
        _spent.pop(self.path, None)
        with suppress(OSError):
            _file(self.path).unlink()
        return True


def _identity(kernels):
    """Text that changes with the content of the kernels; kernels of users, which are not cached, count as new ones."""
    parts = [bytes(str(id(k)), "ascii") if k.cache is None else kernel_cache.fingerprint(k) for k, _ in kernels]
    return hashlib.sha256(b"".join(parts)).hexdigest()[: kernel_cache.CACHE.digits]


def _file(path):
    """The file of an account; OSError without a folder."""
    if kernel_cache.folder() is None:
        raise FileNotFoundError(folders.UNWRITABLE)
    return Path(kernel_cache.folder(), f"{path}.spent")


def _read(path):
    """Seconds in the file of an account; 0 without a file, or where it holds no number."""
    with suppress(OSError, ValueError):
        return max(0.0, float(folders.read(_file(path))))
    return 0.0


def _store(path):
    """Write the file of an account; where nothing can be written, accounts are those of the process."""
    with suppress(OSError):
        folders.write(_file(path), f"{_spent[path]:.3f}".encode())
        _stored[path] = _spent[path]


@atexit.register
def _store_all():
    for path in [path for path, seconds in _spent.items() if seconds != _stored.get(path)]:
        _store(path)


def account_files():
    """The files of all accounts, also for other versions and other checkouts."""
    return sorted(Path(kernel_cache.folder()).glob("*.spent")) if kernel_cache.folder() else []
