"""Continuous laws of the initial readout: letters that stand for them, convergence, draws of p letters, bad input."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from overlaps.static import SpikedRandomFeatures, simulate_one_step
from overlaps.static.spiked.letters import gauss_letters, law_of

STEP = {"student": np.tanh, "target": np.sin, "eta_tilde": 3.0, "alpha0": 8.0}
POINT = {"alpha": 2.0, "lam": 0.1}
TILTED = stats.norm(0.5, 0.8)


def after(law, beta=1.0, **options):
    return SpikedRandomFeatures.after_one_step(**STEP, beta=beta, readout=law, **options)


@pytest.mark.parametrize("law", ["gaussian", "uniform", TILTED, stats.expon()])
def test_rule_against_adaptive_integration(law):
    """Averages of even functions that level off, as those of a saturating student do."""
    t, weight = gauss_letters(law_of(law), 12)
    frozen = law_of(law)
    for f in (lambda x: math.tanh(x) ** 2, lambda x: x * x / (1 + x * x), lambda x: math.exp(-x * x)):
        halves = [quad(lambda x, f=f: f(x) * frozen.pdf(x), *ends, epsabs=1e-12)[0] for ends in ((-40, 0), (0, 40))]
        assert sum(map(lambda x, w, f=f: w * f(x), t, weight)) == pytest.approx(sum(halves), rel=1e-6)
    assert weight.sum() == pytest.approx(1, rel=1e-12) and np.all(t > 0)


@pytest.mark.slow
@pytest.mark.parametrize("rows, beta", [("iid", 1.0), ("orthonormal", 0.7)])
@pytest.mark.parametrize("law", ["gaussian", "uniform", TILTED])
def test_convergence_in_the_number_of_letters(law, rows, beta):
    """Each two letters more gain at least a factor of five, down to 1e-6."""
    errors = [after(law, beta, rows=rows, letters=n).solve(**POINT, d=400).mse for n in (4, 6, 8, 12)]
    gaps = np.abs(np.array(errors[:3]) / errors[3] - 1)
    assert gaps[0] < 3e-3 and gaps[1] < gaps[0] / 5 + 1e-7 and gaps[2] < 1e-5


def test_many_letters_at_equal_weights_are_the_law():
    """Midpoints of 14 equal parts of a uniform law: second order, 1/14^2."""
    ends = np.sqrt(3) * (np.arange(14) + 0.5) / 14
    model = after(tuple(ends), rows="orthonormal", beta=0.7)
    theory = after("uniform", rows="orthonormal", beta=0.7).solve(**POINT, d=300)
    assert model.solve(**POINT, d=300).mse == pytest.approx(theory.mse, rel=2 / 14**2)


@pytest.mark.parametrize(
    "law, rows, beta, d, draws",
    [
        ("gaussian", "iid", 1.0, 80, 30),
        ("uniform", "orthonormal", 0.7, 80, 30),
        pytest.param(TILTED, "iid", 1.4, 200, 12, marks=pytest.mark.slow),
        pytest.param("gaussian", "orthonormal", 0.7, 300, 10, marks=pytest.mark.slow),
    ],
)
def test_draws_with_as_many_letters_as_neurons(law, rows, beta, d, draws):
    """4 standard errors, and 3 % for other terms of order 1/d."""
    model = after(law, beta, rows=rows)
    theory, runs = model.solve(**POINT, d=d), model.simulate(**POINT, d=d, rng=1, draws=draws)
    for name in ("mse", "q2"):
        expected = np.sum(getattr(theory, name))
        assert abs(runs.mean(name) - expected) < 4 * runs.error(name) + 0.03 * expected, name


def test_networks_with_as_many_letters_as_neurons():
    """One spike for all, t_i times a vector: measured r and c of t = 1; the network within 10 % of its features."""
    runs = simulate_one_step(**STEP, beta=1.0, readout=TILTED, **POINT, d=100, rng=2, draws=12, paired=True)
    model = after(TILTED)
    assert runs.r.shape == runs.c.shape == (12, 1)
    assert runs.r.mean() == pytest.approx(model.step.r, rel=0.05)  # 1/sqrt(d) in each draw
    assert runs.c.mean() == pytest.approx(model.step.c, abs=0.03)  # 1/d: the part of noise in the spike
    assert runs.mean() == pytest.approx(runs.srf.mean(), rel=0.1)
    again = simulate_one_step(
        **STEP, beta=0.1, readout=tuple(TILTED.ppf((np.arange(6) + 0.5) / 6)), **POINT, d=60, rng=2, draws=2
    )
    law = simulate_one_step(**STEP, beta=0.1, readout=TILTED, **POINT, d=60, rng=2, draws=2)
    assert np.allclose(law.mse, again.mse, rtol=1e-12)  # six neurons, six letters


def test_laws_that_cannot_be():
    with pytest.raises(ValueError, match="a law without density"):
        after(stats.poisson(2.0))
    with pytest.raises(ValueError, match="mass is"):
        after(stats.cauchy())
    with pytest.raises(ValueError, match="readout = 'normal'"):
        after("normal")
    with pytest.raises(ValueError, match="fractions"):
        after("gaussian", fractions=(0.5, 0.5))
    with pytest.raises(ValueError, match="letters = 0"):
        after("gaussian", letters=0)
    model = after("gaussian")
    for call in (lambda: model.solve(**POINT), lambda: model.curve([1.0], 0.1), model.bounds):
        with pytest.raises(ValueError, match="d = inf with a continuous law"):
            call()
    with pytest.raises(ValueError, match="a law without density"):
        simulate_one_step(**STEP, beta=1.0, readout=stats.poisson(2.0), **POINT, d=20, rng=1)
