"""Message while kernels compile: one line on standard error, once in a process, if it takes long.

``OVERLAPS_QUIET=1`` in the environment keeps it silent.
"""

import gc
import os
import sys
from threading import Timer
from time import perf_counter

from numba.core import event

from .keeping import writable

# Seconds of compilation in a process. Above, a sentence says why nothing seems to happen; below, it would only disturb.
PATIENCE = 1.0
PACKAGE = __name__.partition(".")[0]


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
                self.timer = Timer(max(PATIENCE - self.seconds, 0.0), _say, [writable()])
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


def _say(kept):
    kept = "once per machine" if kept else "in every process, as no cache folder can be written (NUMBA_CACHE_DIR)"
    if not said:
        ahead = "'python -m overlaps warm' does it ahead"
        said.append(f"overlaps: compiling kernels, {kept}: half a minute to a minute; {ahead}.")
        print(said[0], file=sys.stderr, flush=True)
