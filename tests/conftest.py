"""Fixtures shared by all tests."""

import gc
import os
import signal

# read by libraries when they are loaded, so before NumPy, and inherited by workers: with a worker on each core the
# threads of small matrix products only wait for each other (up to ten times the CPU time)
os.environ.setdefault("OMP_NUM_THREADS", "1")
# what a test compiles it should use; tests of lazy compilation set it otherwise, in processes of their own
os.environ.setdefault("OVERLAPS_JIT", "always")

import matplotlib
import numpy as np
import pytest

import overlaps as ov
from overlaps._base.lazy_compilation import policy

matplotlib.use("agg")
os.environ["OVERLAPS_QUIET"] = "1"  # tests compile without a word

CLOSED = {"erf": ov.erf, "linear": ov.linear, "quadratic": ov.quadratic}


gc.disable()  # of modules, tests and their parameters nothing is garbage


def pytest_collection_finish():
    """Walks through all that collection left, in search of garbage, took a tenth of the suite's time."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def ctrl_c():
    """Tests press Ctrl-C; a shell that starts pytest in the background lets it ignore that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def compilation_as_before():
    """A plain call of ov.reproducible() holds until a process ends; here it ends with its test."""
    yield
    policy.strict = 0


@pytest.fixture
def rng():
    """Seeded generator: a failure can be repeated."""
    return np.random.default_rng(20240817)


@pytest.fixture(params=CLOSED)
def activation(request):
    """Every student activation with a closed-form closure."""
    return CLOSED[request.param]


@pytest.fixture(params=CLOSED)
def teacher_activation(request):
    """Every teacher activation with a closed-form closure."""
    return CLOSED[request.param]
