"""Many jobs, here or on workers: what finished is kept, what failed is worded; parts of one task in threads."""

import atexit
import multiprocessing
import os
import pickle
import tempfile
import threading
import time
import traceback
import uuid
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from . import lazy_compilation
from .signatures import interrupts

# Seconds after which a worker that Ctrl-C has hit takes its next job. The process that hands out jobs was hit as well,
# and has said by then that no more are wanted.
PRESSED = 0.2
WORKER_DIED = (
    " A worker process died: killed, out of memory, or its script starts the pool outside of"
    " `if __name__ == '__main__':`, or the function lives in an interactive session."
)


class Finished(NamedTuple):
    """Results of jobs, by their index; those in neither were interrupted or not begun."""

    results: dict[Any, Any]
    errors: dict[Any, BaseException]


def run_all(jobs, executor=None, tick=None, *, keep=None, cut=None, halt=None, needed=False):
    """Run ``{index: function of no argument}`` in turn, or on an executor, and keep what finished.

    An exception, a dead worker and Ctrl-C cost the jobs that they hit. ``tick(n)`` is told how many are done,
    ``keep(index, value)`` each value at once. ``cut(value)`` says whether a value is the part that Ctrl-C left of one:
    it is kept, and nothing is begun after it. ``halt()`` ends jobs under way, which are waited for then. ``needed``
    raises what happened where no value came out of it; at once where the first job fails here: all jobs share its
    arguments.
    """
    results: dict[Any, Any] = {}
    errors: dict[Any, BaseException] = {}

    def collect(i, value, error):
        """Keep one outcome; whether Ctrl-C was pressed meanwhile."""
        stopped = isinstance(error, KeyboardInterrupt)
        if error is None or (stopped and cut is not None and value is not None):
            results[i] = value
            # a run that Ctrl-C cut short is kept as far as it came, and ends the others all the same
            stopped = stopped or (cut is not None and cut(value))
            if keep is not None:
                keep(i, value)
        elif not stopped:
            errors[i] = error
        if tick is not None:
            tick(len(results) + len(errors))
        return stopped

    try:
        if executor is not None:
            _on_workers(executor, jobs, collect, halt)
        else:
            for i, job in jobs.items():
                # before anything is finished an error is the caller's: a wrong argument fails at once, with its own
                # traceback
                first = needed and not results
                if collect(i, *((job(), None) if first else evaluate(job))):
                    break
    except KeyboardInterrupt:
        if needed and not results:
            raise
    if needed and not results:
        raise errors[min(errors)] if errors else KeyboardInterrupt
    return Finished(results, errors)


def worded(said, errors, first, comma=", "):
    """The sentence ``said``, with the number of errors and the first of them, which ``first(index)`` places."""
    if errors:
        i, error = min(errors.items())
        said = f"{said}{comma}{len(errors)} failed, the first {first(i)}: {type(error).__name__}: {error}".rstrip(".")
    return said + "." + (WORKER_DIED if any(isinstance(x, BrokenExecutor) for x in errors.values()) else "")


def evaluate(job):
    """(value, exception or None) of a job, here or in a worker: nothing that happens in it leaves it.

    Where Ctrl-C was pressed the exception is KeyboardInterrupt, beside what a job made of it that caught it.
    """
    value = None
    with interrupts() as pressed:
        try:
            value, error = job(), None
        except KeyboardInterrupt as interrupt:
            error = interrupt
        except (Exception, SystemExit) as raised:
            error = _portable(raised)
    return value, KeyboardInterrupt() if pressed else error


def _on_worker(job, stop):
    """A job in a worker; ``stop`` is a file that says, once it is there, that no more are wanted."""
    lazy_compilation.compile_eagerly()  # a job has the same digits in whatever worker it is evaluated
    if stop is None:
        return evaluate(job)
    _end_with_parent(os.getpid())
    if stop.exists():
        return None, KeyboardInterrupt()
    value, error = evaluate(job)
    if isinstance(error, KeyboardInterrupt):
        time.sleep(PRESSED)
    return value, error


@cache
def _end_with_parent(process):
    """End this worker when its parent is gone: a pool that was killed sends no more, and waits for no value."""
    parent, above = multiprocessing.parent_process(), os.getppid()
    if parent is None:
        return

    def watch():  # forked workers hold each other's pipes open, workers of a fork server have another parent
        while parent.is_alive() and os.getppid() == above:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, name="overlaps-parent", daemon=True).start()


def _portable(error):
    """The exception with its traceback as a note; one that does not survive pickling would break a process pool."""
    note = "".join(traceback.format_exception(error)).rstrip()
    try:
        # an exception that cannot travel would break the pool, and hide what happened
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(note)
    return error.with_traceback(None)


def _on_workers(executor, jobs, collect, halt):
    """The jobs on the workers of an executor, outcomes in the order in which they finish.

    Ctrl-C cancels what has not begun, and waits for the rest, whose values would be lost; the second one leaves it.
    """
    futures: dict[Any, int] = {}
    # a pool hands out more jobs than it cancels, and these ask for this file
    processes = isinstance(executor, ProcessPoolExecutor)
    stop = Path(tempfile.gettempdir(), f"overlaps-{uuid.uuid4().hex}.stop") if processes else None
    try:
        for i, job in jobs.items():
            try:
                futures[executor.submit(_on_worker, job, stop)] = i
            except BrokenExecutor as error:
                collect(i, None, error)
        for future in as_completed(dict(futures)):
            collect(futures[future], *_collected(future))
            del futures[future]
    except KeyboardInterrupt:
        if stop is not None:
            with suppress(OSError):
                stop.touch()
            atexit.register(stop.unlink, missing_ok=True)  # not now: after a second Ctrl-C they ask later
        if halt is not None:
            halt()
        for future in as_completed([x for x in futures if not x.cancel()]):
            value, error = _collected(future)
            if not isinstance(error, BrokenExecutor):  # a worker that died of the same Ctrl-C
                collect(futures[future], value, error)
        raise


def _collected(future):
    try:
        return future.result()
    except KeyboardInterrupt:
        raise
    except BaseException as raised:  # the worker died, the value does not pickle, the client was closed
        return None, raised


def in_threads(task, parts):
    """Do task(0), ..., task(parts - 1) in threads, the last one in this."""
    futures = [_threads(os.getpid()).submit(task, i) for i in range(parts - 1)]
    try:
        # the last part here, in the thread that would wait otherwise
        task(parts - 1)
    finally:
        for future in futures:
            future.result()


@cache
def _threads(process):
    """The threads of a process: a forked child does not inherit its parent's."""
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="overlaps")
