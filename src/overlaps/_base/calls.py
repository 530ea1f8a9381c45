"""Calls of users: arguments that go by name, the line that a warning points to, and Ctrl-C."""

import functools
import inspect
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

from . import check

Called = TypeVar("Called", bound=Callable[..., Any])
LIBRARY = str(Path(__file__).parents[1]) + os.sep


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
    while frame.f_back is not None and frame.f_code.co_filename.startswith(LIBRARY):
        frame, level = frame.f_back, level + 1
    return level


def undisturbed(call: Callable[[], Any]) -> Any:
    """The answer of compiled code, for which Ctrl-C waits.

    In the Python with which numba hands functions to machine code it would end in a TypeError, and the run be lost.
    """
    with interrupts(wait=True):
        return call()


@contextmanager
def interrupts(wait: bool = False) -> Iterator[list]:
    """Yield a list that fills when Ctrl-C is pressed, even if that is caught inside; it goes on, or ``wait``s."""
    pressed: list[tuple] = []
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(previous):
        yield pressed
        return

    def handler(*came):
        pressed.append(came)
        if not wait:
            previous(*came)

    signal.signal(signal.SIGINT, handler)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, previous)
        if wait and pressed:
            previous(*pressed[0])
