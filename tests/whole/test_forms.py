"""Forms that kernels have for a process without compiled code: NumPy expressions in place of their loops."""

import importlib
import math
import pkgutil
from functools import cache
from types import FunctionType

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

import overlaps as ov
from overlaps._base.lazy_compilation import python_form
from overlaps.activations import _quadrature
from overlaps.activations._erf import erf_workspace
from overlaps.gaussian.tables import tabulate
from overlaps.gaussian.two_point import ERF, LINEAR, QUADRATIC, RELU

TOLERANCE = 1e-14  # of the natural size: sums of up to some hundred terms in another order


@cache
def kernels():
    """All kernels of the package, by name."""
    modules = [importlib.import_module(m.name) for m in pkgutil.walk_packages(ov.__path__, "overlaps.")]
    found = (x for m in modules if not m.__name__.endswith("__main__") for x in vars(m).values())
    return {
        x.py_func.__name__: x
        for x in found
        if isinstance(x, Dispatcher) and x.py_func.__module__.startswith("overlaps")
    }


def forms():
    return {name: kernel for name, kernel in kernels().items() if kernel.python is not None}


def loops(function, worlds):
    """The text of a kernel itself as Python, with that of all kernels that it calls."""
    module = function.__module__
    if module not in worlds:
        worlds[module] = dict(function.__globals__)
        for name, value in function.__globals__.items():
            if isinstance(value, Dispatcher) or (
                isinstance(value, FunctionType) and value.__module__.startswith("overlaps")
            ):
                worlds[module][name] = loops(getattr(value, "py_func", value), worlds)
    return FunctionType(function.__code__, worlds[module], None, function.__defaults__, function.__closure__)


# Random arguments of each kernel: (arguments, numbers of those that are filled, of those that are updated, size).
# The size is that of the terms that are added up where these may cancel, else None: of the largest entry of an output.


def shapes(rng):
    return int(rng.integers(1, 4)), int(rng.integers(1, 4)), int(rng.integers(1, 40))


def vector(rng):
    return rng.normal(size=rng.integers(1, 50))


def _unsigned_index(rng):
    return (int(rng.integers(50)),), (), (), None


def _copy(rng):
    x = vector(rng)
    return (x, np.empty_like(x)), (1,), (), None


def _clear(rng):
    return (vector(rng),), (0,), (), 1.0


def _add(rng):
    x = vector(rng)
    return (rng.normal(), x, rng.normal(size=x.size)), (), (2,), None


def _mix(rng):
    n, L = int(rng.integers(1, 10)), int(rng.integers(1, 30))
    x, at = rng.normal(size=100), rng.integers(0, 70, size=n)
    return (rng.normal(size=n), x, at, rng.normal(size=L)), (), (3,), None


def _total(rng):
    x = vector(rng)
    return (x,), (), (), np.abs(x).sum()


def _dot(rng):
    x = vector(rng)
    y = rng.normal(size=x.size)
    return (x, y), (), (), np.abs(x * y).sum()


def blocks(rng):
    """K, M, L, and y packed; a spectrum (s, p, tau)."""
    K, M, L = shapes(rng)
    n = (K * M + K * (K + 1) // 2) * L
    tau = rng.normal(size=(M, M, L))
    return K, M, L, rng.normal(size=n), rng.uniform(0.1, 3.0, L), rng.uniform(0.1, 2.0, L), tau + tau.swapaxes(0, 1)


def symmetric(rng, K):
    A = rng.normal(size=(K, K))
    return A + A.T


def _flow_of_many(rng):
    K, M, L, y, s, p, tau = blocks(rng)
    trains_v = bool(rng.integers(2))
    y = np.append(y, rng.normal(size=K)) if trains_v else y
    decay = (0.0, 0.7, -1.0)[rng.integers(2)]
    args = (
        y, s, p, tau, symmetric(rng, K), rng.normal(size=(K, M)), symmetric(rng, K), rng.normal(size=K), decay, 0.3,
        (0.0, 1.7)[rng.integers(2)], trains_v, np.empty_like(y), (0.0, 0.6)[rng.integers(2)],
    )  # fmt: skip
    return args, (12,), (), None


def _rotate(rng):
    K, M, L, y, *_ = blocks(rng)
    V = np.linalg.qr(rng.normal(size=(K, K)))[0]
    return (y, V, np.empty((K, M, L)), np.empty((K, K, L))), (2, 3), (), None


def _rotate_back(rng):
    K, M, L, y, *_ = blocks(rng)
    V = np.linalg.qr(rng.normal(size=(K, K)))[0]
    q = rng.normal(size=(K, K, L))
    return (rng.normal(size=(K, M, L)), q + q.swapaxes(0, 1), V, y), (3,), (), None


def divisors(rng, K, L):
    single, pair = rng.uniform(0.2, 1.0, (K, L)), rng.uniform(0.2, 1.0, (K * (K + 1) // 2, L))
    return single, pair


def _divide(rng):
    K, M, L, _, s, *_ = blocks(rng)
    single, pair = divisors(rng, K, L)
    return (s, -rng.uniform(0.1, 2.0, K), 0.7, 0.3, 0.2, single, pair), (5, 6), (), None


def _moments(rng):
    K, M, L, _, s, p, tau = blocks(rng)
    q = rng.normal(size=(K, K, L))
    filled = [np.empty(x) for x in ((K, K, M), (K, M, M), (K, K, K), (K, K, M), (K, K))]
    args = (
        rng.normal(size=(K, M, L)), q + q.swapaxes(0, 1), s, p, tau, rng.normal(size=(K, M)), 0.7,
        *divisors(rng, K, L), *filled,
    )  # fmt: skip
    return args, (9, 10, 11, 12, 13), (), None


def _solve_blocks(rng):
    K, M, L, _, s, *_ = blocks(rng)
    x_q = rng.normal(size=(K, K, L))
    args = (
        rng.normal(size=(K, M, L)), x_q + x_q.swapaxes(0, 1), s, rng.normal(size=(K, M)), 0.7, *divisors(rng, K, L),
        np.empty((K, M)), np.empty((K, K)),
    )  # fmt: skip
    return args, (7, 8), (0, 1), None


def _add_coupling(rng):
    K, M, L, _, s, p, tau = blocks(rng)
    q, x_q = rng.normal(size=(2, K, K, L))
    args = (
        rng.normal(size=(K, M, L)), q + q.swapaxes(0, 1), s, p, tau, rng.normal(size=(K, M)), 0.7, *divisors(rng, K, L),
        symmetric(rng, K), rng.normal(size=(K, M)), symmetric(rng, K), rng.normal(size=(K, M, L)),
        x_q + x_q.swapaxes(0, 1),
    )  # fmt: skip
    return args, (), (12, 13), None


@cache
def tables():
    """Of functions with and without a second derivative: growing, with a kink, bounded."""
    softplus = lambda x: np.logaddexp(0.0, x), lambda x: 1 / (1 + np.exp(-x))
    kinked = lambda x: np.maximum(x, 0.3 * x), lambda x: np.where(x > 0, 1.0, 0.3)
    smooth = np.tanh, lambda x: 1 - np.tanh(x) ** 2, lambda x: -2 * np.tanh(x) * (1 - np.tanh(x) ** 2)
    return [tabulate(functions, "a function").data for functions in (softplus, kinked, smooth)]


def table(rng):
    return tables()[rng.integers(len(tables()))]


def modes_of(f, sigma, n):
    values, modes = np.empty((3, 2 * n)), np.empty((3, n))
    _quadrature.fill_modes(f, sigma, n, values, modes)
    return values, modes


def _fill_modes(rng):
    n = int(rng.integers(8, 65))
    return (table(rng), rng.uniform(0.05, 1.5), n, np.empty((3, 2 * n)), np.empty((3, n))), (3, 4), (), None


def _same(rng):
    f, sigma, n = table(rng), rng.uniform(0.3, 1.5), int(rng.integers(8, 65))
    return (f, sigma, n, modes_of(f, sigma, n)[0]), (), (), None


def fields(rng):
    """Variances and covariance of two fields, the larger variance first; at times equal or apart."""
    saa, rho = rng.uniform(0.3, 2.0), (rng.uniform(-0.9, 0.9), 1.0, 0.0)[rng.integers(3)]
    sbb = saa * rng.uniform(0.1, 1.0)
    return saa, sbb, rho * math.sqrt(saa * sbb)


def _mehler_pair(rng):
    (saa, sbb, sab), n, f, h = fields(rng), int(rng.integers(8, 65)), table(rng), table(rng)
    return (f, h, saa, sbb, sab, modes_of(f, math.sqrt(saa), n)[1], modes_of(h, math.sqrt(sbb), n)[1]), (), (), None


def _plane_pair(rng):
    return (table(rng), table(rng), *fields(rng), int(rng.integers(20, 33))), (), (), None


def _erf_closure(rng):
    K, M, _ = shapes(rng)
    n = K + M
    X = rng.normal(size=(n, n + 2))
    w, room = rng.normal(size=n), np.zeros(erf_workspace(n))
    teacher = (ERF, ERF, LINEAR, QUADRATIC, RELU)[rng.integers(5)]
    arrays = np.empty((K, K)), np.empty((K, M)), np.empty((K, K)), np.empty(K)
    args = X @ X.T / n, w, room, K, teacher, 0.7, 0.3, 0.4, bool(rng.integers(2)), *arrays
    return args, (9, 10, 12, *((11,) if args[8] else ())), (), None


ARGUMENTS = {name[1:]: make for name, make in globals().items() if name.startswith("_") and name[1:] in forms()}

WORKSPACES = {"erf_closure": (2,)}  # arguments that may contain anything afterwards


def test_every_form_is_tested_here():
    assert {*ARGUMENTS} == {*forms()} and len(ARGUMENTS) >= 15


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_form_gives_what_its_kernel_gives(name, compiled, rng):
    """Outputs are nan before: a form that reads what it fills shows it."""
    kernel, form = forms()[name], python_form(forms()[name])
    reference = kernel if compiled else loops(kernel.py_func, {})
    for _ in range(12):
        args, filled, updated, size = ARGUMENTS[name](rng)
        for i in filled:
            args[i][...] = np.nan
        mine, its = ([np.array(x) if isinstance(x, np.ndarray) else x for x in args] for _ in range(2))
        with np.errstate(all="ignore"):
            answers = form(*mine), reference(*its)
        got, expected = ([*(x[i] for i in (*filled, *updated)), a] for x, a in zip((mine, its), answers, strict=True))
        for a, b in zip(got, expected, strict=True):
            if b is None:
                assert a is None
                continue
            a, b = np.array(a, float), np.array(b, float)
            np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
            np.testing.assert_allclose(a, b, rtol=0, atol=TOLERANCE * (size or np.nanmax(np.abs(b))))
        for i in {*range(len(args))} - {*filled, *updated, *WORKSPACES.get(name, ())}:  # the rest is left alone
            np.testing.assert_array_equal(mine[i], args[i])
