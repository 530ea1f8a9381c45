"""One point of a sweep, here or in a worker: its value, or what went wrong; parts of one task in threads."""

import os
import pickle
import signal
import threading
import traceback
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from .tiers import settle

__all__ = ["WORKER_DIED", "evaluate", "in_threads", "run_here", "run_pool"]

WORKER_DIED = (
    " A worker process died: killed, out of memory, or its script starts the pool outside of"
    " `if __name__ == '__main__':`, or the function lives in an interactive session."
)


def evaluate(function, point, seed):
    """(value, None) or (None, exception); runs in the worker, and nothing that happens in a point leaves it."""
    settle()  # a point has the same digits in whatever worker it is evaluated
    extra = {} if seed is None else {"rng": np.random.default_rng(seed)}
    with _interrupts() as seen:
        try:
            value, error = function(**point, **extra), None
        except KeyboardInterrupt as interrupt:
            value, error = None, interrupt
        except (Exception, SystemExit) as raised:
            value, error = None, _portable(raised)
        if seen:  # solve and simulate turn Ctrl-C into a partial result, which is no value of this point
            value, error = None, KeyboardInterrupt()
    return value, error


def _portable(error):
    """The exception with its traceback as a note; one that does not survive pickling would break a process pool."""
    note = "".join(traceback.format_exception(error)).rstrip()
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(note)
    return error.with_traceback(None)


@contextmanager
def _interrupts():
    """Yield a list that fills when Ctrl-C is pressed, even if the interrupt is caught by the function called."""
    seen: list[int] = []
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(previous):
        yield seen
        return

    def handler(number, frame):
        seen.append(number)
        previous(number, frame)

    signal.signal(signal.SIGINT, handler)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, previous)


def run_here(jobs, keep):
    """Evaluate ``{index: (function, point, seed)}`` in a loop; ``keep(index, value, error)`` takes each outcome."""
    for i, job in jobs.items():
        value, error = evaluate(*job)
        if isinstance(error, KeyboardInterrupt):
            raise error
        keep(i, value, error)


def run_pool(executor, jobs, keep):
    """The same on the workers of an executor, outcomes in the order in which they finish."""
    futures: dict[Any, int] = {}
    try:
        for i, job in jobs.items():
            try:
                futures[executor.submit(evaluate, *job)] = i
            except BrokenExecutor as error:
                keep(i, None, error)
        for future in as_completed(futures):
            _collect(futures.pop(future), future, keep)
    except KeyboardInterrupt:
        for future in futures:
            future.cancel()
        for future, i in futures.items():  # finished, but not collected when the interrupt came
            if future.done() and not future.cancelled() and future.exception() is None:
                _collect(i, future, keep)
        raise


def _collect(i, future, keep):
    try:
        value, error = future.result()
    except KeyboardInterrupt:
        raise
    except BaseException as raised:  # the worker died, the value does not pickle, the client was closed
        value, error = None, raised
    if not isinstance(error, KeyboardInterrupt):  # Ctrl-C reached the worker: the point is missing
        keep(i, value, error)


def in_threads(task, parts):
    """Do task(0), ..., task(parts - 1) in threads, the last one in this."""
    futures = [_threads(os.getpid()).submit(task, i) for i in range(parts - 1)]
    try:
        task(parts - 1)
    finally:
        for future in futures:
            future.result()


@cache
def _threads(process):
    """The threads of a process: those of the parent do not live on in one that was forked."""
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="overlaps")
