"""What users meet of any call: public names, arguments by name, warnings of their own line, progress bars, Ctrl-C."""

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
LIBRARY = str(Path(__file__).parents[1]) + os.sep
OURS = LIBRARY, contextlib.__file__  # whose frames lie between ours where a ``with`` begins
_quiet = ContextVar("quiet", default=False)


def public_dir(name):
    """``__dir__`` of the module of this name: its ``__all__`` and what every module has, but none of its helpers."""
    return lambda: [*sys.modules[name].__all__, *(x for x in vars(sys.modules[name]) if x.startswith("__"))]


def by_name(example: str) -> Callable[[Called], Called]:
    """Decorator: arguments by place where names are expected are refused with the right call."""

    def decorate(function: Called) -> Called:
        parameters = inspect.signature(function).parameters.values()
        places = sum(x.kind is x.POSITIONAL_OR_KEYWORD for x in parameters)
        names = [x.name for x in parameters if x.kind is x.KEYWORD_ONLY]

        @functools.wraps(function)
        def call(*args, **named):
            if len(args) > places:
                came = ", ".join(check.shown(x) for x in args[places:])
                listed = ", ".join(names[:4]) + (" ..." if len(names) > 4 else "")
                raise TypeError(f"{function.__name__}() got {came} by place; expected {listed} by name: {example}.")
            return function(*args, **named)

        return cast(Called, call)

    return decorate


def outside() -> int:
    """Level, for ``warnings.warn`` of the caller, of the first line that is not the library's."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(OURS):
        frame, level = frame.f_back, level + 1
    return level


def warn(message):
    """Warn the line outside the library that it comes from."""
    if not _quiet.get():
        warnings.warn(message, RuntimeWarning, stacklevel=outside())


@contextmanager
def quietly():
    """Nothing inside warns, in this thread: for callers to whom no convergence, say, is an answer.

    ``warnings.catch_warnings`` changes the filters of the whole process: when two threads leave it in the order in
    which they came, those of the first, which ignore, stay for good.
    """
    before = _quiet.set(True)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _quiet.reset(before)


@contextmanager
def bar(show, total, unit):
    """Yield a function of the amount done so far (None when no bar is wanted); a function takes the bar's place."""
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
    """The answer of compiled code, for which Ctrl-C waits.

    In the Python with which numba hands functions to machine code it would end in a TypeError, and the run be lost.
    """
    with interrupts(wait=True):
        return call()


@contextmanager
def interrupts(wait: bool = False, kernel: bool = False) -> Iterator[list]:
    """Yield a list that fills when Ctrl-C is pressed, even if that is caught inside; it goes on, or ``wait``s.

    With ``kernel``, blocks may lie in blocks, and it waits for the end of the innermost.
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
            pressed[1:] = []  # once, however often it was pressed
            previous(*pressed.pop())
