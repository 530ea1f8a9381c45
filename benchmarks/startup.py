"""The first solve in a new process: with an empty cache, as Python and compiled at once, and with kernels kept."""

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from timing import row, show

PART = "Start-up, a new process"
SOURCE = str(Path(find_spec("overlaps").origin).parents[1])
SOLVE = """
import overlaps as ov
model = ov.committee_machine(2, 2, activation=ov.{0}, eta=0.2)
ov.solve(model, model.random_start(N=1000, rng=1), [1.0])
"""

MANY = """
for i in range(600):
    ov.solve(model, model.random_start(N=1000, rng=1), (0, 100.0 + 1e-3 * i))
"""

ESTIMATE = """
from time import process_time
import overlaps as ov
from overlaps._base import lazy_compilation
model = ov.committee_machine(2, 2, activation=ov.{0}, eta=0.2)
start = model.random_start(N=1000, rng=1)
begin = process_time()
ov.solve(model, start, (0, 100.0))
print(f"{{lazy_compilation.time_spent.seconds:.3f}} s estimated, {{process_time() - begin:.3f}} s of CPU")
"""


def process(code, cache, jit="auto"):
    """Run it with kernels kept in this folder."""
    paths = os.pathsep.join([SOURCE, os.environ.get("PYTHONPATH", "")])
    env = os.environ | {"NUMBA_CACHE_DIR": cache, "OVERLAPS_QUIET": "1", "OVERLAPS_JIT": jit, "PYTHONPATH": paths}
    subprocess.run([sys.executable, "-c", code], env=env, check=True)


def rows():
    imports = "import numba, numpy, scipy.integrate, scipy.optimize, scipy.special, scipy.stats"
    with tempfile.TemporaryDirectory() as folder:
        for name in ("erf", "relu"):
            cache, code = os.path.join(folder, name), SOLVE.format(name)
            yield row(PART, f"first solve, {name}, nothing compiled", lambda: process(code, cache), once=True)
            yield row(PART, f"first solve, {name}, compiled", lambda: process(code, cache, "always"), once=True)
            baselines = {"import of NumPy, SciPy, numba": lambda: process(imports, cache)}
            yield row(PART, f"first solve, {name}, kernels kept", lambda: process(code, cache), baselines, budget=1.0)
        cache, code = os.path.join(folder, "many"), SOLVE.format("erf") + MANY
        warm = {"kernels kept": lambda: process(code, cache)}
        yield row(PART, "600 curves, erf, nothing compiled", lambda: process(code, cache), warm, once=True)


def estimates():
    """Seconds that uncompiled kernels of a first curve are charged with, beside the CPU that the whole curve takes."""
    for name in ("erf", "relu"):
        with tempfile.TemporaryDirectory() as cache:
            print(f"first curve, {name}: ", end="", flush=True)
            process(ESTIMATE.format(name), cache)


if __name__ == "__main__":
    show(rows())
    estimates()
