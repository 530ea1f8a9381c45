"""Compilation that is put off: kernels run as plain Python until compiling them pays.

Compiling the kernels of one curve takes ten to thirty seconds; the curve itself takes a fraction of a second without.
A kernel with a ``cost`` therefore begins as a ``LazyKernel``: a call from Python runs it uncompiled, together with all
kernels that it calls, until compiled code is available (from another kernel or from the disk) or until the time spent
without it exceeds that of its compilation.  Both are estimated, by ``cost`` from the sizes of the arguments and by
``COMPILATION``, not measured, so that the same program does the same each time.  Then the kernel becomes numba's own
dispatcher, for good: later calls cost nothing more.  ``OVERLAPS_JIT=always`` in the environment compiles every kernel
at its first call, as :func:`reproducible` does.

The steps of an integrator with its flow and closure are compiled by the same rule (``accounts``).

The Python form may raise an arithmetic error where machine code returns inf or nan; the call is then repeated with
compiled code.  For this reason a kernel with a ``cost`` fills its outputs and never reads them.
"""

import os
from contextlib import AbstractContextManager, ExitStack
from threading import local
from types import FunctionType, SimpleNamespace
from typing import NamedTuple

import numpy as np
from numba import typeof
from numba.extending import is_jitted

from .folders import PACKAGE
from .numba_internals import Kernel, lock


class LazyLimits(NamedTuple):
    """Limits of the estimated seconds of uncompiled calls, above which a kernel is compiled, and estimates."""

    # Limit for one call. Doubled: single calls wait longer for Python than for the compiler.
    max_call: float = 0.3
    # Seconds of estimated calls per second of estimated compilation. Sessions take at most 2.0 times as long as with
    # the better choice in hindsight (tests/whole/test_accounts.py), and so up to twice the value; halved: 5.3 times.
    # A session of many curves loses this share of a compilation.
    max_ratio: float = 0.4
    operation: float = 1.5e-7  # one operation on scalars in a loop
    numpy_call: float = 1.5e-6


LAZY_LIMITS = LazyLimits()
# Estimated seconds of the compilation of a kernel with all that it calls, by module and name.
COMPILATION = {
    "_dop853.advance": 7.2, "_bdf.advance": 9.7, "_bdf.newton_iteration": 8.0,
    "_flow.flow_of_few": 1.2, "_flow.flow_of_many": 1.3, "_erf.erf_closure": 4.0, "_relu.relu_closure": 11.0,
    "_quadratic.linear_closure": 1.7, "_quadratic.quadratic_closure": 1.7, "_numeric.numeric_closure": 6.0,
    "_quadrature.fill_tables": 3.6,
}  # fmt: skip
OTHER_COMPILATION = 3.0

if hasattr(os, "register_at_fork"):  # a process that is forked while a thread compiles would wait for ever
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


# whether kernels may run uncompiled, and the number of open ``reproducible`` blocks, which forbid it
policy = SimpleNamespace(is_lazy=os.environ.get("OVERLAPS_JIT", "auto") != "always", strict=0)


class _TimeSpent(local):
    seconds = 0.0  # that this thread has spent on uncompiled kernels, estimated


time_spent = _TimeSpent()


def compile_eagerly():
    """From here on every kernel is compiled at its first call: for batches and pools."""
    policy.is_lazy = False


def is_lazy():
    """Whether kernels may run as Python until compiling them pays."""
    return policy.is_lazy and not policy.strict


def reproducible() -> AbstractContextManager[object]:
    """The same call gives the same numbers to the last bit, in all processes, whatever was called before.

    Kernels run as plain Python first and are compiled when that pays, somewhere in the middle of a session; both agree
    up to rounding, 1e-14 of the overlaps, which a plateau lets grow. From this call on every kernel is compiled before
    it runs, as with ``OVERLAPS_JIT=always`` in the environment of a process: the first call of a kind then takes the
    seconds of its compilation, once per machine.

    The last digits (1e-14 of the overlaps) may change with another processor, and with other versions of the libraries
    beneath.

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
        policy.strict += 1
    ending.callback(_released)
    return ending


def _released():
    with lock:
        policy.strict -= 1


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
    too_long = kernel.seconds > LAZY_LIMITS.max_ratio * compilation_seconds(kernel)
    if kernel.on_disk or seconds > LAZY_LIMITS.max_call or too_long:
        return None
    kernel.seconds += seconds
    time_spent.seconds += seconds
    if kernel.python_form is None:
        kernel.python_form = python_form(kernel)
    return kernel.python_form


def is_compiled(kernel, signature):
    """Whether machine code of a kernel for a signature is in memory or on the disk."""
    return in_memory(kernel, signature) or (kernel.cache is not None and kernel.cache.holds(signature))


def in_memory(kernel, signature):
    """Whether machine code of a kernel for a signature is in memory."""
    return tuple(getattr(signature, "args", signature)) in kernel.overloads


def compilation_seconds(kernel):
    """Estimated seconds of the compilation of a kernel with all that it calls."""
    name = f"{kernel.py_func.__module__.rpartition('.')[2]}.{kernel.py_func.__name__}"
    return COMPILATION.get(name, OTHER_COMPILATION)


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
            if is_jitted(value):
                copies[name] = _python_form(getattr(value, "python", None) or value.py_func)
            elif isinstance(value, FunctionType) and value.__module__.partition(".")[0] == PACKAGE:
                copies[name] = _python_form(value)
    return _globals_by_module[module]


def small(*_):
    """Cost of a function that takes microseconds."""
    return 1e-5
