"""Laws of escape times: published quantiles, the closed theory of quadratic networks, refusals, and SGD."""

import numpy as np
import pytest
from scipy.stats import kstest

import overlaps as ov
from overlaps.theory import quadratic

PLATEAU = 0.0346277364  # eps_g of erf, K = M = 2, eta = 1.5


def erf():
    return ov.committee_machine(2, 2, eta=1.5)


def symmetric(model):
    return ov.State.from_overlaps(model, Q=np.eye(2), R=np.zeros((2, 2)), T=np.eye(2))


@pytest.mark.slow
def test_law_from_a_symmetric_start():
    """Rate and plateau to their digits; quantiles of lambda T within 0.04 of those found with sampled kappa.

    kappa is exact here: the growing mode lies in R, whose noise follows from C and its derivatives.
    """
    model = erf()
    law = ov.theory.escape(model, symmetric(model), 1000, PLATEAU / 2, points=1024)
    assert (
        law.modes == 1 and np.isclose(law.rate, 0.0763639978, rtol=1e-8) and np.isclose(law.plateau, PLATEAU, rtol=1e-8)
    )
    assert abs(law.kappa - 0.304) < 0.006
    found = law.rate * law.quantile([0.05, 0.25, 0.5, 0.75, 0.95])
    assert np.all(np.abs(found - [4.38, 4.93, 5.48, 6.23, 7.84]) < 0.04)
    assert abs(law.rate * law.mean - 5.653) < 0.08 and law.std > 0


@pytest.mark.slow
def test_law_from_a_start_off_the_symmetry():
    model, R = erf(), [[0.03, -0.01], [-0.02, 0.01]]
    start = ov.State.from_overlaps(model, Q=[[1.02, 0.01], [0.01, 0.97]], R=R, T=np.eye(2))
    law = ov.theory.escape(model, start, 1000, PLATEAU / 2, points=1024)
    found = law.rate * law.quantile([0.05, 0.25, 0.5, 0.75, 0.95])
    assert np.all(np.abs(found - [3.71, 4.04, 4.34, 4.77, 5.91]) < 0.05)


@pytest.mark.slow
def test_kappa_of_quadratic_networks():
    """Six modes: the adjoint along the path against the law of the selected solution."""
    model = ov.quadratic_network(3, 2, eta=0.5, noise=0.3)
    start = ov.State.from_overlaps(model, Q=np.eye(3), R=0.01 * np.eye(3)[:, :2], T=np.eye(2))
    law, selection = (
        ov.theory.escape(model, start, 10**4, 0.3, points=1024),
        quadratic.selected(3, 2, eta=0.5, noise=0.3),
    )
    assert law.modes == 6 and np.isclose(law.rate, selection.rate, rtol=1e-8)
    assert np.isclose(law.kappa, selection.kappa / selection.amplitude**2, rtol=1e-4)


def test_refusals():
    model = erf()
    start = symmetric(model)
    with pytest.raises(ValueError, match="below the error of the plateau"):
        ov.theory.escape(model, start, 1000, 0.1)
    with pytest.raises(ValueError, match="no SGD noise"):
        ov.theory.escape(ov.committee_machine(2, 2, eta=1.0, gradient_flow=True), start, 1000, 0.01)
    with pytest.raises(ValueError, match="nothing to escape from"):
        ov.theory.escape(ov.committee_machine(1, 1, eta=1.0, noise=0.2), "random", 1000, 1e-6, points=64)
    with pytest.raises(ValueError, match="equal v"):
        unequal = ov.committee_machine(2, 2, eta=1.0, v=[1.0, 0.5])
        ov.theory.escape(unequal, symmetric(unequal), 1000, 0.01)
    with pytest.raises(ValueError, match="established for one"):
        ov.theory.escape(ov.committee_machine(3, 3, eta=0.5), "random", 1000, 0.01, points=64)


@pytest.mark.slow
def test_law_of_sgd():
    """150 runs of the reduced simulator at N = 400 from the symmetric start: means within 3 standard errors and 0.2.

    The law has an error of order ln N/sqrt(N) relative to 1/lambda, 0.07 to 0.09 at N = 200 and 1000.
    """
    model = erf()
    law = ov.theory.escape(model, symmetric(model), 400, PLATEAU / 2)
    alpha = np.linspace(0.0, 150.0, 601)
    runs = ov.simulate(model, N=400, alpha=alpha, rng=3, start=symmetric(model), runs=150, method="reduced")
    below = runs.eps_g < PLATEAU / 2
    assert below.any(axis=1).all()
    times = alpha[np.argmax(below, axis=1)]
    assert law.rate * abs(times.mean() - law.mean) < 0.2 + 3 * law.rate * law.std / np.sqrt(150)
    assert law.rate * abs(np.median(times) - law.quantile(0.5)) < 0.2
    assert kstest(times, lambda t: np.searchsorted(law.times, t) / law.times.size).pvalue > 1e-3
