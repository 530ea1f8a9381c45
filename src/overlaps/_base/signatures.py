"""Helpers of public functions: names in ``dir``, arguments by name, warnings, progress bars, Ctrl-C."""

import contextlib
import functools
import inspect
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from . import check

Called = TypeVar("Called", bound=Callable[..., Any])
# Files of the library, and contextlib, whose frames lie between those of the library at a ``with``.
OWN_FILES = str(Path(__file__).parents[1]) + os.sep, contextlib.__file__
_quiet = ContextVar("quiet", default=False)


def public_dir(name):
    """``__dir__`` of the module of this name: its ``__all__`` and the dunder names, without its helpers."""
    return lambda: [*sys.modules[name].__all__, *(x for x in vars(sys.modules[name]) if x.startswith("__"))]


def by_name(example: str) -> Callable[[Called], Called]:
    """Decorator: positional arguments where names are expected are refused, with an example of the right call."""

    def decorate(function: Called) -> Called:
        parameters = inspect.signature(function).parameters.values()
        n_positional = sum(x.kind is x.POSITIONAL_OR_KEYWORD for x in parameters)
        names = [x.name for x in parameters if x.kind is x.KEYWORD_ONLY]

        @functools.wraps(function)
        def call(*args, **named):
            if len(args) > n_positional:
                given = ", ".join(check.shown(x) for x in args[n_positional:])
                listed = ", ".join(names[:4]) + (" ..." if len(names) > 4 else "")
                raise TypeError(f"{function.__name__}() got {given} by place; expected {listed} by name: {example}.")
            return function(*args, **named)

        return cast(Called, call)

    return decorate


def outside() -> int:
    """Level, for ``warnings.warn`` of the caller, of the first frame outside the library."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(OWN_FILES):
        frame, level = frame.f_back, level + 1
    return level


def warn(message):
    """Warn, with the line outside the library from which the call comes."""
    if not _quiet.get():
        warnings.warn(message, RuntimeWarning, stacklevel=outside())


@contextmanager
def quietly():
    """Suppress warnings of the library and of NumPy in this thread, for callers that handle them, such as searches.

    ``warnings.catch_warnings`` changes the filters of the whole process: if two threads leave it in the order in which
    they entered, the filters of the first, which ignore warnings, stay for good.
    """
    before = _quiet.set(True)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _quiet.reset(before)


@contextmanager
def bar(show, total, unit):
    """Yield a function of the amount done so far, or None without a bar; a callable ``show`` replaces the bar."""
    if callable(show):
        yield show
        return
    if not check.flag("progress", show):
        yield None
        return
    from tqdm.auto import tqdm

    form = "{desc}{percentage:3.0f}%|{bar}| {n:.6g}/{total:.6g} {unit} [{elapsed}<{remaining}]"
    with tqdm(total=total, unit=unit, bar_format=form) as tq:

        def tick(done):
            tq.update(done - tq.n)

        yield tick


def undisturbed(call: Callable[[], Any]) -> Any:
    """The result of a call of compiled code; Ctrl-C waits for its end.

    Without waiting, Ctrl-C in the Python code by which numba passes functions to machine code would raise a TypeError
    there, and the run would be lost.
    """
    with interrupts(wait=True):
        return call()


@contextmanager
def interrupts(wait: bool = False, kernel: bool = False) -> Iterator[list]:
    """Yield a list that is filled when Ctrl-C is pressed, even if the block catches it; with ``wait`` it comes later.

    ``wait`` delays Ctrl-C until the end of the block.  With ``kernel``, blocks may be nested, and Ctrl-C waits for the
    end of the innermost.
    """
    now = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(now):
        yield []
        return
    previous, pressed = getattr(now, "kernel", (now, []))

    def handler(*came):
        pressed.append(came)
        if not wait:
            previous(*came)

    if kernel:
        handler.kernel = previous, pressed
    signal.signal(signal.SIGINT, handler)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, now)
        if wait and pressed:
            pressed[1:] = []  # once, even if it was pressed several times
            previous(*pressed.pop())
