"""Cache of compiled kernels on the disk, keyed by the content of a kernel instead of the path of its source.

numba keys its cache by the folder of a source file and by the text of that one file.  A second checkout, a new virtual
environment or a container then compiles everything again, and an edit of a kernel does not invalidate the kernels of
other files that it was compiled into.  Here the name of a file is a fingerprint of the kernel: its bytecode and
constants, its options, the values of the globals that it reads, and the same of every kernel that it reaches.
Comments, moved lines and other paths do not change it; an edit of a kernel changes it for all kernels that reach it.

One file holds one kernel for one signature and one processor, ``<name>-<kernel>-<signature and processor>.nbc``.  It is
written under another name and then renamed, so that processes may share the folder; versions of a kernel coexist.
A checksum follows the machine code, because code with a flipped bit would crash the process or change results.
numba's own cache has an index instead of names, no checksum, and raises an error if the index cannot be read.
"""

import hashlib
import os
import sys
import time
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import NamedTuple

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]
import llvmlite
import numba
import numpy as np
from numba import config
from numba.extending import is_jitted

from . import folders, numba_internals
from .bytecode import of_code
from .folders import PACKAGE, folder


class CacheOptions(NamedTuple):
    """Numbers and names of the cache."""

    digits: int = 24  # length of a fingerprint in the name of a file: 96 bits
    layout: int = 2  # increased when code that is compiled or stored in another way must not be found
    checksum_bytes: int = 32
    # Seconds that a process waits while another compiles the same kernel. Smaller: both compile; larger: a suspended
    # process makes others wait. After one timeout a process waits no more, because it needs many kernels.
    lock_timeout: float = 60
    # With the ABI flags, because Python without its global lock has another layout of objects.
    versions: str = " ".join(
        (
            numba.__version__,
            llvmlite.__version__,
            np.__version__,
            f"{sys.version_info[:2]}{getattr(sys, 'abiflags', '')}",
        )
    )
    # Settings of numba that change machine code: code for SVML calls functions that another process may not have.
    settings: tuple = "OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "ENABLE_AVX", "BOUNDSCHECK", "USING_SVML"
    # Packages whose names never change their meaning.
    stable_packages: tuple = PACKAGE, "numpy", "math", "cmath", "builtins", "numba"


CACHE = CacheOptions()
waiting = SimpleNamespace(timed_out=False)


# the fingerprint ------------------------------------------------------------------------------------------------------


def fingerprint(kernel):
    """Bytes that identify a kernel and everything that is compiled into it."""
    digest = vars(kernel).get("_fingerprint")
    if digest is None:
        found = set()
        _collect(kernel, found)
        settings = " ".join(
            (str(CACHE.layout), CACHE.versions, *(f"{k}={getattr(config, k, None)}" for k in CACHE.settings))
        )
        digest = hashlib.sha256(f"{settings} {_name(kernel)}".encode() + b"".join(sorted(found))).digest()
        kernel._fingerprint = digest
    return digest


def _name(kernel):
    return f"{kernel.py_func.__module__}.{kernel.py_func.__qualname__}"


def _collect(kernel, found):
    """Add to ``found`` the names and contents of the kernel and of those that it reaches; names need not be unique."""
    content, reached = _of_kernel(kernel)
    entry = _name(kernel).encode() + b"\0" + content
    if entry not in found:
        found.add(entry)
        for other in reached:
            _collect(other, found)


def _of_kernel(kernel):
    """(Hash of the kernel's content without its callees, kernels that it names)."""
    if "_content" not in vars(kernel):
        function = kernel.py_func
        options = sorted(
            (k, sorted(v) if isinstance(v, set) else v) for k, v in numba_internals.options(kernel).items()
        )
        texts, reached = [repr(options), *of_code(function.__code__)], []
        for key in sorted(_names(function.__code__)):
            if key in function.__globals__:
                texts.append(key + "=" + _of_value(function.__globals__[key], reached))
        for value in (*(cell.cell_contents for cell in function.__closure__ or ()), *(function.__defaults__ or ())):
            texts.append(_of_value(value, reached))
        kernel._content = hashlib.sha256("\n".join(texts).encode()).digest(), reached
    return kernel._content


def content(kernel):
    """Bytes that identify a kernel and all that it reaches in this process, also among kernels of one name."""
    if isinstance(getattr(kernel, "cache", None), KernelCache):
        return fingerprint(kernel)
    digest, reached = _of_kernel(kernel)
    return hashlib.sha256(digest + b"".join(content(x) for x in reached if x is not kernel)).digest()


def _names(code):
    """Names of globals that the code reads; it includes names of attributes, which does no harm."""
    return {*code.co_names}.union(*(_names(const) for const in code.co_consts if isinstance(const, CodeType)))


def _of_value(value, reached):
    """Text for the value of a global; kernels are added to ``reached``.  A value of an unsupported type is an error."""
    if is_jitted(value):
        reached.append(value)
        return _name(value)
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{hashlib.sha256(np.ascontiguousarray(value)).hexdigest()}"
    if isinstance(value, (tuple, list)):
        fields = " ".join(getattr(value, "_fields", ()))  # fields of a named tuple
        return f"{type(value).__name__}{fields}(" + ",".join(_of_value(x, reached) for x in value) + ")"
    if value is None or isinstance(value, (bool, int, float, complex, str, np.generic)):
        return type(value).__name__ + repr(value)
    if isinstance(value, FunctionType) and _package(value.__module__) == PACKAGE:
        module = sys.modules[value.__module__]  # a function with an overload for kernels in its module
        reached += [other for other in vars(module).values() if is_jitted(other)]
        return _source(module)
    if isinstance(value, ModuleType) and _package(value.__name__) in CACHE.stable_packages:
        return _source(value) if _package(value.__name__) == PACKAGE else value.__name__
    if isinstance(value, numba.types.WrapperAddressProtocol):  # valid in this process only; numba does not cache it
        return f"address {value.__wrapper_address__()}"
    if isinstance(value, numba.types.Type):
        return f"{value}{_fields(value)}"
    named = isinstance(value, (BuiltinFunctionType, FunctionType, type))
    if isinstance(value, np.ufunc) or named and _package(value.__module__) in CACHE.stable_packages:
        name = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}"
        return name + " ".join(getattr(value, "_fields", ()))  # the fields of the class of a named tuple
    raise TypeError(f"a kernel reads a global of type {type(value).__name__}, whose content has no fingerprint")


def _package(module):
    return (module or "").partition(".")[0]


def _fields(typ):
    """Names of the fields of a type that is a named tuple, or contains one; numba's name of it has their types only."""
    inner = "".join(_fields(x) for x in getattr(typ, "types", ()))
    return f"{typ.fields}{inner}" if isinstance(typ, numba.types.BaseNamedTuple) else inner


def _source(module):
    return hashlib.sha256(Path(module.__file__).read_bytes()).hexdigest()


# the files ------------------------------------------------------------------------------------------------------------


class KernelCache:
    """The cache of one kernel, with the methods of numba's; nothing is read or computed before the kernel is needed."""

    def __init__(self, kernel):
        self.kernel = kernel

    @property
    def cache_path(self):
        """The folder, or None if nothing can be kept."""
        return None if numba_internals.why_unsupported() else folder()

    @cached_property
    def _stem(self):
        name = self.kernel.py_func.__qualname__.replace("<", "").replace(">", "")
        return f"{name}-{fingerprint(self.kernel).hex()[: CACHE.digits]}"

    def file(self, sig):
        """Path of the code for a signature on this processor, whether it is there or not; None without a folder."""
        processor = numba_internals.processor(self.kernel)
        if processor is None or folder() is None:
            return None
        kind = str(sig) + "".join(map(_fields, getattr(sig, "args", sig)))
        key = hashlib.sha256(repr((kind, processor)).encode()).hexdigest()
        return Path(folder(), f"{self._stem}-{key[: CACHE.digits]}.nbc")

    def holds(self, sig):
        """Whether machine code for a signature is on the disk."""
        path = self.file(sig)
        return path is not None and path.exists()

    @contextmanager
    def locked(self, sig):
        """Lock a signature: other processes that need the same code wait, and then find it on the disk."""
        path = self.file(sig)
        lock = None if path is None or path.exists() else f"{path}.lock"
        claim = lock and _claim(lock)
        try:
            yield
        finally:
            if claim:
                with suppress(OSError):
                    os.unlink(lock)
                claim.close()

    def load_overload(self, sig, _):
        """Machine code for a signature, or None: numba then compiles it."""
        path = self.file(sig)
        if path is None:
            return None
        try:
            data = folders.read(path)
        except OSError:  # no file, or none that can be read now, such as with too many open files
            return None
        code, checksum = data[: -CACHE.checksum_bytes], data[-CACHE.checksum_bytes :]
        if hashlib.sha256(code).digest() != checksum:
            return None
        try:
            result = numba_internals.unpack(self.kernel, code)
        except Exception:  # from another numba, or without enough memory: the kernel is compiled again
            return None
        with suppress(OSError):
            os.utime(path)  # ``prune`` uses the time of the last use
        return result

    def save_overload(self, sig, result):
        """Write machine code for a signature."""
        path = self.file(sig)
        code = None if path is None or numba_internals.why_unsupported() else numba_internals.pack(result)
        if code is not None:
            with suppress(OSError):  # on a full disk, or in a deleted folder, the kernel serves this process only
                folders.write(path, code + hashlib.sha256(code).digest())

    def flush(self):
        """Delete the files of this kernel, for every signature."""
        for path in Path(folder()).glob(f"{self._stem}-*.nbc") if folder() else ():
            path.unlink(missing_ok=True)


def _claim(path):
    """A locked file, or None if nothing can be written, the file system has no locks, or the time is over.

    The system releases the locks of killed processes.
    """
    end = time.monotonic() + (0 if waiting.timed_out else CACHE.lock_timeout)
    try:
        file = folders.claim(path)
    except OSError:
        return None
    while fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except BlockingIOError:
            if time.monotonic() >= end:
                waiting.timed_out = True
                break
            time.sleep(0.02)
        except OSError:
            break
    file.close()
    return None


def kernel_files():
    """The files of all compiled kernels, also for other versions and other checkouts."""
    return sorted(Path(folder()).glob("*.nbc")) if folder() else []
