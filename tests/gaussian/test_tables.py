"""Tables of functions: against the functions themselves, where they are smooth, kinked, fast, or end."""

import numpy as np
import pytest
from scipy.special import ndtr

from overlaps.gaussian.tables import polynomial_table, read, read_array, read_both, respond, tabulate
from overlaps.gaussian.two_point import ERF, slope, value


def gelu(x):
    return x * ndtr(x)


def gelu_dg(x):
    return ndtr(x) + x * np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)


FUNCTIONS = {
    "gelu": (gelu, gelu_dg),
    "tanh": (np.tanh, lambda x: 1 / np.cosh(x) ** 2),
    "fast": (lambda x: np.sin(20 * x), lambda x: 20 * np.cos(20 * x)),
    "kinked": (lambda x: np.maximum(x - 0.3, 0.0), lambda x: np.where(x > 0.3, 1.0, 0.0)),
    "growing": (np.sinh, np.cosh),
    "ending": (lambda x: np.exp(x * x / 2.25), lambda x: x / 1.125 * np.exp(x * x / 2.25)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tables_are_their_functions(name, rng):
    functions = FUNCTIONS[name]
    table = tabulate(functions, name)
    x = rng.normal(size=4000) * np.repeat([1e-3, 0.3, 2.0, 6.0], 1000)
    for number, f in enumerate(functions):
        found, expected = np.array([read(table.data, number, z) for z in x]), f(x)
        # relative to the largest value at arguments up to this size and in the panel, which may double the argument;
        # a rounded argument moves a value by its slope
        order = np.argsort(np.abs(x))
        size = np.empty_like(x)
        size[order] = np.maximum.accumulate(np.abs(expected[order]))
        rounding = 2e-14 * np.abs(x) * np.abs(functions[1](x)) * (1 + np.abs(x) if name == "ending" else 1.0)
        assert np.all(np.abs(found - expected) <= 3e-13 * size + rounding), number
        together = read_array(table.data, x, 2)[number]  # sums the same series by powers
        assert np.all(np.abs(together - found) <= 3e-13 * size + rounding), number
    assert table.error < 2e-13
    assert read_both(table.data, 0.7) == (read(table.data, 0, 0.7), read(table.data, 1, 0.7))


def test_tables_end_where_the_function_does():
    assert 30 < tabulate(FUNCTIONS["ending"], "ending").reach < 40  # exp(x^2 / 2.25) overflows at x = 40
    assert 600 < tabulate(FUNCTIONS["growing"], "growing").reach < 711
    table = tabulate(FUNCTIONS["ending"], "ending")
    assert np.isnan(read(table.data, 0, 1.01 * table.reach)) and np.isnan(read(table.data, 0, np.nan))


def test_noise_cannot_be_tabulated(rng):
    with pytest.raises(ValueError, match="noisy cannot be tabulated"):
        tabulate([lambda x: np.tanh(x) + 1e-9 * rng.random(np.shape(x))] * 2, "noisy")


@pytest.mark.parametrize("degree", [0, 3, 11, 13])
def test_polynomials_have_no_end(degree, rng):
    c = np.polynomial.Polynomial(rng.normal(size=degree + 1))
    table = polynomial_table(c.coef)
    for x in (-50.0, -0.3, 0.0, 2.5):
        for number in range(3):
            f = c.deriv(number) if number else c
            size = np.abs(f.coef) @ np.maximum(abs(x), 1e-300) ** np.arange(len(f.coef))
            # 20 roundings; above degree 11 panels, within which x^13 grows by 2^13
            assert abs(read(table.data, number, x) - f(x)) <= (1e-11 if degree > 11 else 5e-15) * (size + 1e-6)


def test_a_code_responds_as_the_closed_form():
    assert respond(ERF, 0.7) == (value(ERF, 0.7), slope(ERF, 0.7))
