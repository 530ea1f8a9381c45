"""What all benchmarks share: a row is a task, timed in turns with its baselines, by the CPU time that it takes.

Other work on the machine changes all of a round alike, so that ratios within one round hold where times do not.  Every
round also times a yardstick, arithmetic that no change of the library touches: ``cost``, the time in units of it, is
what two runs of the benchmarks may be compared by.
"""

import math
import os
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from time import process_time

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy: threads that wait for each other spend CPU time

from overlaps._base.jit import jit

LEAST = 0.005  # seconds that a timing takes at least
BUDGET = 0.25  # seconds after which no further round begins
ROUNDS = 30  # at most


@jit
def arithmetic(n):
    """The yardstick: roots and arcsines, one after the other."""
    total = 0.5
    for i in range(n):
        total = math.asin(math.sqrt(abs(total - i / n)) * 0.9)
    return total


def yardstick():
    """About a millisecond of it."""
    return arithmetic(50_000)


def cpu():
    """CPU seconds of this process and of those that it started."""
    children = getrusage(RUSAGE_CHILDREN)
    return process_time() + children.ru_utime + children.ru_stime


def spent(call, number=1):
    """CPU seconds of a number of calls."""
    began = cpu()
    for _ in range(number):
        call()
    return cpu() - began


def calls(call):
    """How many calls take ``LEAST`` seconds; the first one, which may compile, does not count."""
    call()
    number = 1
    while (time := spent(call, number)) < LEAST:
        number *= min(max(2, math.ceil(1.2 * LEAST / max(time, 1e-5))), 1000)
    return number


def row(part, name, task, baselines=None, *, per=1, note="", budget=BUDGET, once=False):
    """Times of a task and its baselines, one after the other in each round, as a dictionary for a file of JSON.

    Parameters
    ----------
    part, name : str
        Where the row stands, and what was done; together they find it in another run.
    task : callable
        Without arguments.
    baselines : dict of str to callable or (callable, per)
        What the time is compared with.
    per : float
        Calls, steps or curves in the task; times are those of one.
    note : str
        What else there is to say.
    budget : float
        CPU seconds after which no further round begins.
    once : bool
        Whether the task is done a single time, its first call included.
    """
    tasks = {"": (yardstick, 1), name: (task, per)}
    for key, value in (baselines or {}).items():
        tasks[key] = value if isinstance(value, tuple) else (value, per)
    numbers = {key: 1 if once and key else calls(call) for key, (call, _) in tasks.items()}
    rounds, began = {key: [] for key in tasks}, cpu()
    while len(rounds[""]) < (1 if once else ROUNDS) and (not rounds[""] or cpu() - began < budget):
        for key, (call, each) in tasks.items():
            rounds[key].append(spent(call, numbers[key]) / numbers[key] / each)
    own = rounds[name]
    return {
        "part": part,
        "name": name,
        "seconds": min(own),
        "cost": median(x / y for x, y in zip(own, rounds[""], strict=True)),
        "rounds": len(own),
        "baselines": {
            key: {"seconds": min(times), "ratio": median(y / x for x, y in zip(own, times, strict=True))}
            for key, times in rounds.items()
            if key not in ("", name)
        },
        "note": note,
    }


def human(t):
    """Seconds in a readable unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if t >= 0.9995 * size:
            return f"{t / size:.3g} {unit}"
    return f"{t / 1e-9:.3g} ns"


def ratio(x):
    """A ratio in three digits at most."""
    return f"{x:.0f}×" if x >= 99.5 else f"{x:.2g}×"


def cells(found):
    """Name, time, baselines, note: a row as it is shown."""
    against = ", ".join(f"{key} {ratio(x['ratio'])}" for key, x in found["baselines"].items())
    return found["name"], human(found["seconds"]), against, found["note"]


def show(rows):
    """Print rows as they come; return them."""
    kept = []
    for found in rows:
        if not kept or kept[-1]["part"] != found["part"]:
            print(f"\n{found['part']}", flush=True)
        name, time, against, note = cells(found)
        print(f"  {name:58s} {time:>9s}   {against}{'   ' if against and note else ''}{note}", flush=True)
        kept.append(found)
    return kept
