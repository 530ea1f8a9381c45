"""Warnings of the library, and callers inside it that do not want them."""

import warnings
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from .calls import outside

_quiet = ContextVar("quiet", default=False)


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
