"""Compilation policy of all kernels.

``error_model="numpy"``: a division by zero gives inf or nan, as in NumPy, and the loops stay free of branches.
Machine code is cached by content (``kernel_cache``): a kernel compiles once per user, and again when it, or a kernel
that it reaches, is edited.  If no folder can be written it is compiled in each process instead.
``no_reference_counting=True``: numba counts no references.  Counting costs a kernel that passes on ten arrays 0.1 us,
as much as the arithmetic of small networks.  Such kernels cannot allocate; the caller passes work arrays.
Kernels fill arrays entry by entry (``flow.copy``), because numba compiles ``y[:] = x`` with an error message about
unequal shapes, which takes seconds in every process that compiles it.
``fast=True`` allows fused multiply-adds and reordered sums but preserves nan and inf, by which divergence is detected.
``nogil=True``: simulators may run in threads.
``cost``: estimated seconds of a call without compilation, a function of the arguments.  Calls from Python then run as
Python until compilation pays (``lazy_compilation``); ``python`` is an equivalent function for that, usually of NumPy.

If compilation takes long, one line is printed on standard error, once in a process, unless ``OVERLAPS_QUIET=1`` in the
environment.
"""

import gc
import os
import sys
from threading import Timer
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numba import njit, types
from numba.core import event

from .folders import PACKAGE, UNWRITABLE, why_unsafe, writable
from .kernel_cache import KernelCache, content
from .lazy_compilation import in_memory, make_lazy
from .numba_internals import Kernel, Pipeline, counting, lock, set_cache, tried

# types of kernels with declared signatures
REAL, INT, BOOL = types.float64, types.int64, types.boolean
VECTOR, MATRIX, CUBE, INTS = (types.Array(t, n, "C") for t, n in ((REAL, 1), (REAL, 2), (REAL, 3), (INT, 1)))

FAST_MATH = {"contract", "arcp", "nsz", "reassoc"}


class JITOptions(NamedTuple):
    """Tunable numbers of compilation."""

    # Kernels of user functions that ``jit_user`` stores. Halved: equal functions that are made again compile again;
    # doubled: unused code stays in memory.
    max_user_kernels: int = 256
    # Seconds of compilation in a process before a message on standard error.
    message_delay: float = 1.0


JIT_OPTIONS = JITOptions()


def jit(function=None, *, fast=False, inline=False, no_reference_counting=False, cost=None, python=None):
    """Compile a module-level function with the options above."""
    if function is None:
        return lambda f: jit(
            f, fast=fast, inline=inline, no_reference_counting=no_reference_counting, cost=cost, python=python
        )
    options = {"error_model": "numpy", "fastmath": FAST_MATH if fast else False, "nogil": True}
    options |= {"inline": "always" if inline else "never", **counting(not no_reference_counting)}
    kernel = njit(pipeline_class=Pipeline, **options)(function)
    if hasattr(kernel, "compile"):  # with NUMBA_DISABLE_JIT kernels are plain functions
        kernel.__class__ = Kernel
        set_cache(kernel, KernelCache(kernel))
        kernel.python = python
        if cost is not None:
            make_lazy(kernel, cost)
    return kernel


_user_kernels: dict = {}


def jit_user(function, *use):
    """A kernel of a function that a user wrote, or that another function made; functions of equal content share it.

    ``use`` distinguishes kernels that are compiled for different arguments.
    """
    kernel = njit(error_model="numpy", nogil=True, pipeline_class=Pipeline)(function)
    if not hasattr(kernel, "compile"):
        return kernel
    kernel.__class__ = Kernel
    try:
        key = content(kernel), *use
    except TypeError:  # it reads a global without a fingerprint
        return kernel
    with lock:
        if len(_user_kernels) > JIT_OPTIONS.max_user_kernels:
            del _user_kernels[next(iter(_user_kernels))]
        return _user_kernels.setdefault(key, kernel)


@jit(inline=True, python=lambda x: x)
def unsigned_index(x):
    """An index of unsigned type, for which numba omits the test for negative indices at every use.

    Sums with signed integers are signed again.
    """
    return np.uint64(x)


def typed_namedtuple(cls):
    """Add the numba type of a named tuple, whose annotations are numba types, as its attribute ``type``."""
    field_types = [*cls.__annotations__.values()]
    uniform = len({*field_types}) == 1
    cls.type = (
        types.NamedUniTuple(field_types[0], len(field_types), cls) if uniform else types.NamedTuple(field_types, cls)
    )
    return cls


def compile_once(kernel, signature):
    """Compile a kernel for its one signature, or read it from the disk, unless that was done; no other may follow.

    Threads may call it at once: without the lock the second thread could find the kernel closed to compilation before
    the first has compiled it.
    """
    with lock:  # with NUMBA_DISABLE_JIT kernels are plain functions
        if hasattr(kernel, "compile") and not in_memory(kernel, signature):
            kernel.compile(signature)
            kernel.disable_compile()


def cache_folder(kernel):
    """Folder of the compiled kernels, or None if it cannot be written, or nothing is compiled."""
    stats = getattr(kernel, "stats", None)  # with NUMBA_DISABLE_JIT kernels are plain functions
    return None if stats is None else stats.cache_path


# message on standard error --------------------------------------------------------------------------------------------


class _CompilationListener(event.Listener):
    """Counts the kernels of this package that are compiled, not read from the cache, and the seconds of compilation.

    Garbage collection is off meanwhile, because a compiler makes a million objects, few of them garbage.
    """

    def __init__(self):
        self.count, self.seconds, self.depth, self.began, self.timer, self.collects = 0, 0.0, 0, 0.0, None, False

    def on_start(self, event):
        """Called when the compilation of a kernel, or of one that it calls, begins."""
        kernel = event.data["dispatcher"]
        self.depth += 1
        self.count += (kernel.py_func.__module__ or "").partition(".")[0] == PACKAGE
        if self.depth == 1:
            self.began, self.collects = perf_counter(), gc.isenabled()
            gc.disable()
            if self.count and not messages and os.environ.get("OVERLAPS_QUIET", "0") == "0":
                delay, is_cached = JIT_OPTIONS.message_delay - self.seconds, kernel.cache is not None
                self.timer = Timer(max(delay, 0.0), _print_message, [is_cached])
                self.timer.daemon = True
                self.timer.start()

    def on_end(self, event):
        """Called when the compilation ends."""
        self.depth -= 1
        if self.depth == 0:
            if self.collects:
                gc.enable()
            self.seconds += perf_counter() - self.began
            if self.timer is not None:
                self.timer.cancel()


messages: list[str] = []
watch = _CompilationListener()
event.register("numba:compile", watch)


def _print_message(is_cached):
    """Print that kernels are being compiled; kernels of the library are cached on the disk if a folder is writable."""
    when, fault = "in every process, because they contain one of your functions", tried.fault or why_unsafe()
    if is_cached and writable() and not fault:
        when = "once per machine; 'python -m overlaps warm' does it ahead"
    elif is_cached:
        when = f"in every process, because {fault or f'{UNWRITABLE} (NUMBA_CACHE_DIR)'}"
    if not messages:
        messages.append(f"overlaps: compiling kernels, {when}.")
        print(messages[0], file=sys.stderr, flush=True)
