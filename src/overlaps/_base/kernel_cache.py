"""Where compiled kernels are kept: by the content they are compiled from, not by the place of their sources.

numba keys its cache on the folder of a source file and on the text of that one file.  A second checkout, a new virtual
environment or a container then compiles everything again, and an edit of a kernel is not noticed by the kernels of
other files that it was compiled into.  Here the name of a file is a fingerprint of the kernel: its bytecode and
constants, its options, the values of the globals that it reads, and the same of every kernel that it reaches.
Comments, moved lines and other paths change nothing; an edit changes everything that it is part of.

One file holds one kernel for one signature and one processor, ``<name>-<kernel>-<signature and processor>.nbc``.  It is
written beside its place and moved there, so that processes may share the folder; versions of a kernel lie side by side.
Behind the machine code stands its checksum: run with a flipped bit, it would end the process, or change its digits.
"""

import hashlib
import os
import pickle
import sys
import time
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType, SimpleNamespace

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]
import llvmlite
import numba
import numpy as np
from numba.core import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, dumps
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher

from . import folders, partial_compilation
from .bytecode import of_code
from .folders import PACKAGE, folder

ABI = getattr(sys, "abiflags", "")  # Python without its global lock has objects of another layout
VERSIONS = f"{numba.__version__} {llvmlite.__version__} {np.__version__} {sys.version_info[:2]}{ABI}"
# of numba, which change machine code; that of SVML calls functions which another process may not have loaded
KNOBS = "OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "ENABLE_AVX", "BOUNDSCHECK", "USING_SVML"
KNOWN = PACKAGE, "numpy", "math", "cmath", "builtins", "numba"  # what a name stands for in them never changes
DIGITS = 24  # of a fingerprint, in a file's name: 96 bits
SUM = 32  # bytes of a checksum
# Seconds that a process waits while another compiles what it wants. Below, both compile; above, a process that was
# stopped keeps the others waiting. Who has waited in vain waits for nothing more: a kernel is part of others.
WAIT = 60
waiting = SimpleNamespace(ended=False)


# the fingerprint ------------------------------------------------------------------------------------------------------


def fingerprint(kernel):
    """Bytes that tell a kernel, and all that is compiled into it, from any other."""
    known = vars(kernel).get("_fingerprint")
    if known is None:
        found = set()
        _collect(kernel, found)
        knobs = " ".join(f"{k}={getattr(config, k, None)}" for k in KNOBS)
        known = hashlib.sha256(f"{VERSIONS} {knobs} {_name(kernel)}".encode() + b"".join(sorted(found))).digest()
        kernel._fingerprint = known
    return known


def _name(kernel):
    return f"{kernel.py_func.__module__}.{kernel.py_func.__qualname__}"


def _collect(kernel, found):
    """Add to ``found`` the names and contents of the kernel and of those that it reaches; some have one name."""
    content, reached = _of_kernel(kernel)
    entry = _name(kernel).encode() + b"\0" + content
    if entry not in found:
        found.add(entry)
        for other in reached:
            _collect(other, found)


def _of_kernel(kernel):
    """(Hash of the kernel's own content, kernels that it names)."""
    if "_content" not in vars(kernel):
        function = kernel.py_func
        options = sorted((k, sorted(v) if isinstance(v, set) else v) for k, v in kernel.targetoptions.items())
        texts, reached = [repr(options), *of_code(function.__code__)], []
        for key in sorted(_names(function.__code__)):
            if key in function.__globals__:
                texts.append(key + "=" + _of_value(function.__globals__[key], reached))
        for value in (*(cell.cell_contents for cell in function.__closure__ or ()), *(function.__defaults__ or ())):
            texts.append(_of_value(value, reached))
        kernel._content = hashlib.sha256("\n".join(texts).encode()).digest(), reached
    return kernel._content


def content(kernel):
    """Bytes that tell a kernel, and all that it reaches, from others of this process, namesakes among them."""
    if isinstance(kernel._cache, KernelCache):
        return fingerprint(kernel)
    digest, reached = _of_kernel(kernel)
    return hashlib.sha256(digest + b"".join(content(x) for x in reached if x is not kernel)).digest()


def _names(code):
    """Names of globals that the code reads; names of attributes stand among them and do no harm."""
    return {*code.co_names}.union(*(_names(const) for const in code.co_consts if isinstance(const, CodeType)))


def _of_value(value, reached):
    """Text for the value of a global; kernels are added to ``reached``.  A value of an unknown kind is an error."""
    if isinstance(value, Dispatcher):
        reached.append(value)
        return _name(value)
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{hashlib.sha256(np.ascontiguousarray(value)).hexdigest()}"
    if isinstance(value, (tuple, list)):
        return type(value).__name__ + "(" + ",".join(_of_value(x, reached) for x in value) + ")"
    if value is None or isinstance(value, (bool, int, float, complex, str, np.generic)):
        return type(value).__name__ + repr(value)
    if isinstance(value, FunctionType) and _package(value.__module__) == PACKAGE:
        module = sys.modules[value.__module__]  # overloaded for kernels, by functions of its module
        reached += [other for other in vars(module).values() if isinstance(other, Dispatcher)]
        return _source(module)
    if isinstance(value, ModuleType) and _package(value.__name__) in KNOWN:
        return _source(value) if _package(value.__name__) == PACKAGE else value.__name__
    if isinstance(value, numba.types.WrapperAddressProtocol):  # in this process: numba keeps no such code
        return f"address {value.__wrapper_address__()}"
    if isinstance(value, numba.types.Type):
        return f"{value}{_fields(value)}"
    named = isinstance(value, (BuiltinFunctionType, FunctionType, type))
    if isinstance(value, np.ufunc) or named and _package(value.__module__) in KNOWN:
        name = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}"
        return name + " ".join(getattr(value, "_fields", ()))  # of a named tuple
    raise TypeError(f"a kernel reads a global of type {type(value).__name__}, whose content has no fingerprint")


def _package(module):
    return (module or "").partition(".")[0]


def _fields(typ):
    """Names of the parts of a type that is a named tuple, or holds one: numba's name of it tells their types only."""
    inner = "".join(_fields(part) for part in getattr(typ, "types", ()))
    return f"{typ.fields}{inner}" if isinstance(typ, numba.types.BaseNamedTuple) else inner


def _source(module):
    return hashlib.sha256(Path(module.__file__).read_bytes()).hexdigest()


# the files ------------------------------------------------------------------------------------------------------------


class _Impl(CompileResultCacheImpl):
    """Treatment of machine code by numba before it is written and after it is read."""

    def __init__(self, kernel):
        code = kernel.py_func.__code__
        self._lineno, self._locator = code.co_firstlineno, SimpleNamespace(_py_file=code.co_filename)  # for warnings


class KernelCache(FunctionCache):
    """The cache of one kernel; nothing is read or computed before the kernel is wanted."""

    kind, rebuild = "", staticmethod(CompileResult._rebuild)

    def __init__(self, kernel):
        self._name, self._py_func, self._kernel = repr(kernel.py_func), kernel.py_func, kernel
        self._impl, self.whole = _Impl(kernel), self
        self.enable()

    @cached_property
    def partial_cache(self):
        """The cache of the same kernel as a part of others."""
        return PartCache(self)

    @property
    def _cache_path(self):
        return folder()

    @cached_property
    def _stem(self):
        name = self._py_func.__qualname__.replace("<", "").replace(">", "")
        return f"{name}-{fingerprint(self._kernel).hex()[:DIGITS]}"

    def file(self, sig, context):
        """Path of the machine code for a signature on this processor, whether it is there or not."""
        kind = str(sig) + "".join(map(_fields, getattr(sig, "args", sig)))
        key = hashlib.sha256(repr((kind, context.codegen().magic_tuple())).encode()).hexdigest()
        return Path(folder(), f"{self._stem}-{key[:DIGITS]}{self.kind}.nbc")

    def holds(self, sig):
        """Whether machine code for a signature lies on the disk."""
        return folder() is not None and self.file(sig, self._kernel.targetctx).exists()

    @contextmanager
    def sole(self, sig):
        """Others that want the same code wait for it, and find it on the disk: processes that begin together."""
        kept = not self._enabled or folder() is None or self.holds(sig)
        lock = None if kept else f"{self.file(sig, self._kernel.targetctx)}.lock"
        claim = lock and _claim(lock)
        try:
            yield
        finally:
            if claim:
                with suppress(OSError):
                    os.unlink(lock)
                claim.close()

    def flush(self):
        """Forget what is kept of this kernel, for every signature."""
        for path in Path(folder()).glob(f"{self._stem}-*.nbc") if folder() else ():
            path.unlink(missing_ok=True)

    def _load_overload(self, sig, context):
        if not self._enabled or folder() is None:
            return None
        path = self.file(sig, context)
        try:
            data = folders.read(path)
        except OSError:  # none, or of no use now, as when too many files are open: it stays where it is
            return None
        if not _sound(data):
            return None
        try:
            result = self.rebuild(context, *pickle.loads(data[:-SUM]))
        except Exception:  # of a numba that builds it otherwise, or for want of memory: the kernel is compiled anew
            return None
        with suppress(OSError):
            os.utime(path)  # ``prune`` goes by it
        return result

    def _save_overload(self, sig, data):
        if not self._enabled or folder() is None or not self._impl.check_cachable(data):
            return
        code = dumps(self._impl.reduce(data))
        with suppress(OSError):  # a full disk, or a folder that vanished: this kernel serves this process only
            folders.write(self.file(sig, self._kernel.targetctx), code + hashlib.sha256(code).digest())


class PartCache(KernelCache):
    """The cache of one kernel as a part of those that call it: the whole kernel serves them as well."""

    kind, rebuild = "-part", staticmethod(partial_compilation.rebuild)

    def __init__(self, whole):
        super().__init__(whole._kernel)
        self.whole = whole

    def holds(self, sig):
        """Whether code that callers can use lies on the disk."""
        return self.whole.holds(sig) or super().holds(sig)

    def _load_overload(self, sig, context):
        return self.whole._load_overload(sig, context) or super()._load_overload(sig, context)


def _claim(path):
    """A locked file, or None: where nothing can be written, or the folder knows no locks, or none came in time.

    The system frees what a process leaves behind that was killed.
    """
    end = time.monotonic() + (0 if waiting.ended else WAIT)
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
                waiting.ended = True
                break
            time.sleep(0.02)
        except OSError:
            break
    file.close()
    return None


def _sound(data):
    """Whether the checksum at the end is that of what stands before it."""
    return hashlib.sha256(data[:-SUM]).digest() == data[-SUM:]


def kernel_files():
    """All compiled kernels that are kept, also for other versions and other checkouts."""
    return sorted(Path(folder()).glob("*.nbc")) if folder() else []
