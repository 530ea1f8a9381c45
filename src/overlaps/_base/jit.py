"""The one place where compilation policy is decided.

``error_model="numpy"``: a division by zero gives inf or nan, as in NumPy, and the loops stay free of branches.
Machine code is cached by content (``kernel_cache``): a kernel compiles once per user, and again when it, or a kernel
that it reaches, is edited.  Where no folder can be written it is compiled in each process instead.
``no_reference_counting=True`` is for kernels that make no arrays: numba then counts no references, which costs a
kernel that hands on
ten arrays 0.1 us, as much as the arithmetic of small networks.  Room that such a kernel needs belongs to its caller.
Kernels fill arrays entry by entry (``flow.copy``): with ``y[:] = x`` numba compiles the text of an error about unequal
shapes, which takes seconds, in every process that compiles one.
``fast=True`` allows fused multiply-adds and reordered sums but keeps nan and inf: a diverging run must show itself.
``nogil=True``: simulators may run in threads.
``cost``: estimated seconds of a call without compilation, a function of the arguments.  Calls from Python then run as
Python until compilation pays (``lazy_compilation``); ``python`` is an equivalent function for that, usually of NumPy.

Where compiling takes long, one line on standard error says so, once in a process; ``OVERLAPS_QUIET=1`` in the
environment keeps it silent.
"""

import gc
import os
import sys
from threading import Timer
from time import perf_counter

import numpy as np
from numba import njit, types
from numba.core import event

from .folders import PACKAGE, UNWRITABLE, fault, writable
from .kernel_cache import KernelCache, content
from .lazy_compilation import Kernel, has_entry_points, lock, make_lazy

# what kernels with declared types are compiled for
REAL, INT, BOOL = types.float64, types.int64, types.boolean
VECTOR, MATRIX, CUBE, INTS = (types.Array(t, n, "C") for t, n in ((REAL, 1), (REAL, 2), (REAL, 3), (INT, 1)))

FAST = {"contract", "arcp", "nsz", "reassoc"}


def jit(function=None, *, fast=False, inline=False, no_reference_counting=False, cost=None, python=None):
    """Compile a module-level function with the options above."""
    if function is None:
        return lambda f: jit(
            f, fast=fast, inline=inline, no_reference_counting=no_reference_counting, cost=cost, python=python
        )
    options = {"error_model": "numpy", "fastmath": FAST if fast else False, "nogil": True}
    options |= {"inline": "always" if inline else "never", "_nrt": not no_reference_counting}
    kernel = njit(**options)(function)
    if hasattr(kernel, "compile"):  # without compilation kernels are plain functions
        kernel.__class__ = Kernel
        kernel._cache = KernelCache(kernel)
        kernel.python = python
        if cost is not None:
            make_lazy(kernel, cost)
    return kernel


_made: dict = {}
# Kernels that ``made`` remembers. Below, rules that are made again compile again; above, code that nobody needs stays.
REMEMBERED = 256


def jit_user(function, *use):
    """A kernel of a function that a user wrote, or that another function made: one for all of the same content.

    ``use`` sets apart kernels that are compiled for different arguments.
    """
    kernel = njit(error_model="numpy", nogil=True)(function)
    if not hasattr(kernel, "compile"):
        return kernel
    kernel.__class__ = Kernel
    try:
        key = content(kernel), *use
    except TypeError:  # it reads what has no fingerprint
        return kernel
    with lock:
        if len(_made) > REMEMBERED:
            del _made[next(iter(_made))]
        return _made.setdefault(key, kernel)


@jit(inline=True, python=lambda x: x)
def unsigned_index(x):
    """An index that never counts from the end, as its type says.  With others numba asks at every use whether it does.

    Sums with signed integers are signed again.
    """
    return np.uint64(x)


def typed_namedtuple(cls):
    """Give a named tuple, whose annotations are types of numba, its own such type, as ``type``: kernels take it."""
    parts = [*cls.__annotations__.values()]
    same = len({*parts}) == 1
    cls.type = types.NamedUniTuple(parts[0], len(parts), cls) if same else types.NamedTuple(parts, cls)
    return cls


def compile_once(kernel, signature):
    """Compile a kernel for its one signature, or read it from the disk, unless that was done; no other may follow.

    Threads may ask at once: the one lock makes the others wait, where without it the second would find the kernel
    closed to compilation before the first has filled it.
    """
    with lock:  # without compilation kernels are plain functions
        if hasattr(kernel, "compile") and not has_entry_points(kernel, signature):
            kernel.compile(signature)
            kernel.disable_compile()


def cache_folder(kernel):
    """Folder where compiled kernels are kept, or None where none can be written, or nothing is compiled."""
    stats = getattr(kernel, "stats", None)  # without compilation kernels are plain functions
    return None if stats is None else stats.cache_path


# while it takes long --------------------------------------------------------------------------------------------------

# Seconds of compilation in a process. Above, a sentence says why nothing seems to happen; below, it would only disturb.
PATIENCE = 1.0


class _Watch(event.Listener):
    """Counts the kernels of this package that were compiled, not found in the cache, and the seconds that it took.

    No garbage is looked for meanwhile: a compiler makes a million objects, few of them garbage.
    """

    def __init__(self):
        self.count, self.seconds, self.depth, self.began, self.timer, self.collects = 0, 0.0, 0, 0.0, None, False

    def on_start(self, event):
        """A kernel, or one that another one calls, begins to compile."""
        kernel = event.data["dispatcher"]
        self.depth += 1
        self.count += (kernel.py_func.__module__ or "").partition(".")[0] == PACKAGE
        if self.depth == 1:
            self.began, self.collects = perf_counter(), gc.isenabled()
            gc.disable()
            if self.count and not said and os.environ.get("OVERLAPS_QUIET", "0") == "0":
                self.timer = Timer(max(PATIENCE - self.seconds, 0.0), _say, [isinstance(kernel._cache, KernelCache)])
                self.timer.daemon = True
                self.timer.start()

    def on_end(self, event):
        """It is done."""
        self.depth -= 1
        if self.depth == 0:
            if self.collects:
                gc.enable()
            self.seconds += perf_counter() - self.began
            if self.timer is not None:
                self.timer.cancel()


said: list[str] = []
watch = _Watch()
event.register("numba:compile", watch)


def _say(known):
    """Why nothing seems to happen; ``known`` are kernels of the library, which the disk keeps where it can."""
    if known:
        kept = f"in every process, as {fault() or UNWRITABLE} (NUMBA_CACHE_DIR)"
        known = "once per machine; 'python -m overlaps warm' does it ahead" if writable() else kept
    if not said:
        said.append(f"overlaps: compiling kernels, {known or 'in every process, for they hold a function of yours'}.")
        print(said[0], file=sys.stderr, flush=True)
