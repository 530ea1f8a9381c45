"""Compilation that is put off: kernels run as plain Python until compiling them pays.

Compiling the kernels of one curve takes ten to thirty seconds; the curve itself takes a fraction of a second without.
A kernel with a ``cost`` therefore begins as a ``LazyKernel``: a call from Python runs it uncompiled, together with all
kernels that it calls, until compiled code is available (from another kernel or from the disk) or until the estimated
time without it exceeds a limit.  This time is estimated by ``cost`` from the sizes of the arguments, not measured, so
that the same program does the same each time.  Then the kernel becomes numba's own dispatcher, for good: later calls
cost nothing more.  ``OVERLAPS_JIT=always`` in the environment compiles every kernel at its first call, as
:func:`reproducible` does.

The Python form may raise an arithmetic error where machine code returns inf or nan; the call is then repeated with
compiled code.  For this reason a kernel with a ``cost`` fills its outputs and never reads them.
"""

import os
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import cache
from types import FunctionType, SimpleNamespace
from typing import NamedTuple

import numpy as np
from numba import typeof, types
from numba.core.compiler_lock import global_compiler_lock as lock  # the lock of all compilation by numba
from numba.core.dispatcher import Dispatcher
from numba.core.registry import CPUDispatcher
from numba.core.sigutils import normalize_signature

from . import partial_compilation
from .folders import PACKAGE
from .signatures import interrupts


class LazyLimits(NamedTuple):
    """Limits of the estimated seconds of uncompiled calls, above which a kernel is compiled, and estimates."""

    # Limit for one call. Doubled: single calls wait longer for Python than for the compiler.
    max_call: float = 0.3
    # Limit for all calls of one kernel. Compilation takes about as long. Halved: more short runs wait for the compiler.
    max_total: float = 3.0
    operation: float = 1.5e-7  # one operation on scalars in a loop
    numpy_call: float = 1.5e-6


LAZY_LIMITS = LazyLimits()

if hasattr(os, "register_at_fork"):  # a process that is forked while a thread compiles would wait for ever
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


# seconds that this process has spent on uncompiled kernels (threads may lose some of them), whether kernels may run
# uncompiled, and the number of open ``reproducible`` blocks, which forbid it
time_spent = SimpleNamespace(seconds=0.0, is_lazy=os.environ.get("OVERLAPS_JIT", "auto") != "always", strict=0)


def compile_eagerly():
    """From here on every kernel is compiled at its first call: for batches and pools."""
    time_spent.is_lazy = False


def is_lazy():
    """Whether kernels may run as Python until compiling them pays."""
    return time_spent.is_lazy and not time_spent.strict


def reproducible() -> AbstractContextManager[object]:
    """The same call gives the same numbers to the last bit, in all processes that share a cache of kernels.

    Kernels run as plain Python first and are compiled when that pays, somewhere in the middle of a session; both agree
    up to rounding, 1e-14 of the overlaps, which a plateau lets grow. From this call on every kernel is compiled before
    it runs, as with ``OVERLAPS_JIT=always`` in the environment of a process: the first call of a kind then takes the
    seconds of its compilation, once per machine.

    The last digits (1e-14 of the overlaps) may change with another processor, with other versions of the libraries
    beneath, and with a cache that was emptied and filled again by other first calls.

    Returns
    -------
    context manager
        ``with ov.reproducible():`` ends it behind the block; as a plain call it holds until the process ends.

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.committee_machine(1, 1, eta=0.5)
    >>> start = model.random_start(N=100, rng=1)
    >>> with ov.reproducible():
    ...     one, two = (ov.solve(model, start, (0, 1)) for _ in range(2))
    >>> one == two
    True
    """
    ending = ExitStack()
    with lock:
        time_spent.strict += 1
    ending.callback(_released)
    return ending


def _released():
    with lock:
        time_spent.strict -= 1


class Kernel(CPUDispatcher):
    """Numba's dispatcher, with stored results for compiled code that takes it as a first-class function.

    Numba looks up each such function twice at each call, which takes longer than the steps of a short run.
    """

    called = False  # by a kernel that is being compiled

    def compile(self, sig):
        """Code for a signature, with entry points or only for its callers; no other process compiles it meanwhile.

        Ctrl-C waits for the end of this kernel, because between LLVM and the Python around it, it would end the
        process.
        """
        args = tuple(normalize_signature(sig)[0])
        with lock, interrupts(wait=True, kernel=True):
            partial, self.called = self.called, False
            if args in self.overloads and partial or has_entry_points(self, args):
                return super().compile(sig)
            self.overloads.pop(args, None)
            saved = self._compiler, self._cache
            try:
                if partial_compilation.supported():
                    self._compiler = partial_compilation.Compiler(self, partial)
                if partial:
                    self._cache = getattr(self._cache, "partial_cache", self._cache)
                with getattr(self._cache, "locked", nullcontext)(sig):
                    return super().compile(sig)
            finally:
                self._compiler, self._cache = saved

    def get_call_template(self, args, kws):
        """Numba's template for a kernel that calls this one; constants and variables share one compiled form."""
        with lock:
            self.called = partial_compilation.supported()
            try:
                return super().get_call_template(tuple(map(types.unliteral, args)), kws)
            finally:
                self.called = False

    def add_overload(self, cres):
        """Add a compile result; a partial one is for callers, so Python and pointers do not find it."""
        if partial_compilation.is_partial(cres):
            self.overloads[tuple(cres.signature.args)] = cres
        else:
            super().add_overload(cres)
            partial_compilation.bind_constants(cres)

    def get_compile_result(self, sig):
        """Machine code for a signature; callers pass the same object each time."""
        stored = vars(self).setdefault("_compile_results", {})
        if id(sig) not in stored:
            if not has_entry_points(self, sig) and self._can_compile:
                self.compile(sig)
            compiled = super().get_compile_result(sig)
            compiled.library.get_pointer_to_function = cache(compiled.library.get_pointer_to_function)
            stored[id(sig)] = compiled, sig  # sig stays alive, so that no other object gets its id
        return stored[id(sig)][0]


class LazyKernel(Kernel):
    """A kernel that is not compiled yet; another thread may make it a :class:`Kernel` in the middle of a call."""

    cost = None  # stays None in an unpickled kernel, which is compiled at once

    def __call__(self, *args):
        form = _uncompiled_form(self, args)
        if form is not None:
            try:
                with np.errstate(all="ignore"):
                    return form(*args)
            except (ArithmeticError, ValueError):  # machine code returns inf or nan
                pass
        with lock:
            self.__class__ = Kernel
        return self(*args)


def make_lazy(kernel, cost):
    """Make a kernel run in Python first."""
    kernel.__class__ = LazyKernel
    # attributes of the kernel, not of the class, because another thread may change the class
    kernel.cost, kernel.seconds, kernel.last, kernel.on_disk, kernel.python_form = cost, 0.0, 0.0, None, None


def _uncompiled_form(kernel, args):
    """The Python function for this call, with its estimated seconds counted, or None to compile the kernel."""
    if kernel.cost is None or not is_lazy():
        return None
    if kernel.on_disk is None or kernel.overloads:
        kernel.on_disk = is_compiled(kernel, tuple(typeof(x) for x in args))
    kernel.last = seconds = kernel.cost(*args)
    if kernel.on_disk or seconds > LAZY_LIMITS.max_call or kernel.seconds > LAZY_LIMITS.max_total:
        return None
    kernel.seconds += seconds
    time_spent.seconds += seconds
    if kernel.python_form is None:
        kernel.python_form = python_form(kernel)
    return kernel.python_form


def is_compiled(kernel, signature):
    """Whether machine code of a kernel for a signature is in memory or on the disk."""
    return has_entry_points(kernel, signature) or kernel._cache.complete_cache.holds(signature)


def has_entry_points(kernel, signature):
    """Whether machine code of a kernel for a signature is in memory with entry points, not only for its callers."""
    cres = kernel.overloads.get(tuple(getattr(signature, "args", signature)))
    return cres is not None and not partial_compilation.is_partial(cres)


_globals_by_module: dict[str, dict] = {}


def python_form(kernel):
    """The Python function of a kernel, or its ``python`` function, with Python forms of the kernels that it calls."""
    with lock:
        return _python_form(kernel.python or kernel.py_func)


def _python_form(function):
    names = _module_globals(function.__module__, function.__globals__)
    copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _module_globals(module, names):
    """The globals of a module with the Python form of each kernel in its place."""
    if module not in _globals_by_module:
        copies = _globals_by_module[module] = dict(names)
        for name, value in names.items():
            if isinstance(value, Dispatcher):
                copies[name] = _python_form(getattr(value, "python", None) or value.py_func)
            elif isinstance(value, FunctionType) and value.__module__.partition(".")[0] == PACKAGE:
                copies[name] = _python_form(value)
    return _globals_by_module[module]


def small(*_):
    """Cost of a function that takes microseconds."""
    return 1e-5
