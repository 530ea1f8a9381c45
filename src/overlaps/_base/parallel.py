"""Many jobs, in this process or on workers, with the results and errors of all; chunks of one task in threads."""

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

# Seconds that a worker waits after Ctrl-C before its next job. Ctrl-C also reaches the process that submits jobs, which
# cancels them within this time. Much shorter: workers may start cancelled jobs.
INTERRUPT_DELAY = 0.2


class Finished(NamedTuple):
    """Results and errors of jobs, by their index; jobs in neither were interrupted or not begun."""

    results: dict[Any, Any]
    errors: dict[Any, BaseException]


def run_all(jobs, executor=None, tick=None, *, keep=None, cut=None, halt=None, needed=False):
    """Run ``{index: function of no argument}`` in turn, or on an executor, and return all results and errors.

    An exception, a dead worker or Ctrl-C ends only the jobs in which it occurs. ``tick(n)`` is called with the number
    of jobs done, ``keep(index, value)`` with each value at once. ``cut(value)`` is true for a value that Ctrl-C
    truncated: it is a result, and no job starts after it. ``halt()`` ends running jobs, which are then waited for.
    ``needed`` raises the error if there is no result; at once if the first job fails in this process, because all jobs
    share its arguments.
    """
    results: dict[Any, Any] = {}
    errors: dict[Any, BaseException] = {}

    def collect(i, value, error):
        """Store one outcome; return whether Ctrl-C was pressed meanwhile."""
        stopped = isinstance(error, KeyboardInterrupt)
        if error is None or (stopped and cut is not None and value is not None):
            results[i] = value
            # a run that Ctrl-C truncated is a result up to there, and still ends the other jobs
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
                # before the first result an error is raised at once, because a wrong argument fails in all jobs
                first = needed and not results
                if collect(i, *((job(), None) if first else evaluate(job))):
                    break
    except KeyboardInterrupt:
        if needed and not results:
            raise
    if needed and not results:
        raise errors[min(errors)] if errors else KeyboardInterrupt
    return Finished(results, errors)


def worded(message, errors, first, comma=", "):
    """The message, with the number of errors and the first of them, at the position ``first(index)``."""
    if errors:
        i, error = min(errors.items())
        message = f"{message}{comma}{len(errors)} failed, the first {first(i)}: {type(error).__name__}: {error}"
        message = message.rstrip(".")
    died = (
        " A worker process died: killed, out of memory, or its script starts the pool outside of"
        " `if __name__ == '__main__':`, or the function lives in an interactive session."
    )
    return message + "." + (died if any(isinstance(x, BrokenExecutor) for x in errors.values()) else "")


def evaluate(job):
    """(value, exception or None) of a job, in this process or in a worker; it raises nothing.

    If Ctrl-C was pressed, the exception is KeyboardInterrupt, even if the job caught it and returned a value.
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
    """Evaluate a job in a worker, unless the file ``stop`` exists: then the jobs are cancelled."""
    lazy_compilation.compile_eagerly()  # so that results do not depend on the worker, to the last bit
    if stop is None:
        return evaluate(job)
    _end_with_parent(os.getpid())
    if stop.exists():
        return None, KeyboardInterrupt()
    value, error = evaluate(job)
    if isinstance(error, KeyboardInterrupt):
        time.sleep(INTERRUPT_DELAY)
    return value, error


@cache
def _end_with_parent(process):
    """End this worker when its parent has ended, because a killed pool submits no job and reads no value."""
    parent, above = multiprocessing.parent_process(), os.getppid()
    if parent is None:
        return

    def watch():  # polls, because forked workers hold each other's pipes open, and a fork server is another parent
        while parent.is_alive() and os.getppid() == above:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, name="overlaps-parent", daemon=True).start()


def _portable(error):
    """The exception with its traceback as a note, replaced by a RuntimeError if it cannot be pickled."""
    note = "".join(traceback.format_exception(error)).rstrip()
    try:
        # an exception that cannot be pickled would break the pool, and its message would be lost
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(note)
    return error.with_traceback(None)


def _on_workers(executor, jobs, collect, halt):
    """Run the jobs on the workers of an executor and collect outcomes in the order in which they finish.

    Ctrl-C cancels jobs that have not begun, and waits for the rest, whose values would be lost; a second Ctrl-C does
    not wait.
    """
    futures: dict[Any, int] = {}
    # a pool has queued more jobs than it can cancel; these test whether this file exists
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
            atexit.register(stop.unlink, missing_ok=True)  # not now, because jobs may test it after a second Ctrl-C
        if halt is not None:
            halt()
        for future in as_completed([x for x in futures if not x.cancel()]):
            value, error = _collected(future)
            if not isinstance(error, BrokenExecutor):  # else the same Ctrl-C ended the worker
                collect(futures[future], value, error)
        raise


def _collected(future):
    try:
        return future.result()
    except KeyboardInterrupt:
        raise
    except BaseException as raised:  # the worker died, the value cannot be pickled, or the client was closed
        return None, raised


def in_threads(task, n):
    """Call task(0), ..., task(n - 1) in threads, the last one in this thread."""
    futures = [_threads(os.getpid()).submit(task, i) for i in range(n - 1)]
    try:
        task(n - 1)
    finally:
        for future in futures:
            future.result()


@cache
def _threads(process):
    """The thread pool of a process; a forked child does not inherit the threads of its parent."""
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="overlaps")
