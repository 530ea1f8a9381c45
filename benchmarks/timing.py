"""Shared by the benchmarks: the time of one call, as the best of several repetitions."""

from time import perf_counter


def seconds(call, repeat=5, least=0.05):
    """Time of one call, the least over repetitions of at least ``least`` seconds each (noise only adds)."""
    call()
    number = 1
    while True:
        start = perf_counter()
        for _ in range(number):
            call()
        spent = perf_counter() - start
        if spent > least:
            break
        number *= 2
    best = spent / number
    for _ in range(repeat - 1):
        start = perf_counter()
        for _ in range(number):
            call()
        best = min(best, (perf_counter() - start) / number)
    return best


def human(t):
    """Seconds in a readable unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if t >= size:
            return f"{t / size:.3g} {unit}"
    return f"{t / 1e-9:.3g} ns"
