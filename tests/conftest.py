"""Fixtures shared by all tests."""

import matplotlib
import numpy as np
import pytest

import overlaps as ov

matplotlib.use("agg")

CLOSED = {"erf": ov.erf, "linear": ov.linear, "quadratic": ov.quadratic}


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
