"""Numbers outside what a function knows come with a sign: a refusal, a warning, or ``converged=False``."""

import numpy as np
import pytest

import overlaps as ov


def test_overlaps_whose_products_are_no_numbers_are_refused_by_the_closure():
    model = ov.committee_machine(1, 1, eta=0.3)
    with pytest.raises(ValueError, match=r"Q, R, T: the largest overlap is 1e\+100; expected below 1e\+70"):
        ov.closure(model, [[1e100]], [[0.3]], [[1.4]])


def test_kinked_students_that_vanish_are_no_fixed_point():
    """An even student learns nothing of an odd teacher but to vanish, where its gradient has no direction."""
    model = ov.committee_machine(
        1, 1, activation=ov.absolute, teacher_activation=ov.tanh, eta=0.3, gradient_flow=True, v_star=[-0.7]
    )
    guess = ov.State.from_overlaps(model, Q=[[0.4]], R=[[0.07]], T=[[1.2]])
    with pytest.warns(RuntimeWarning, match="zero norm"):
        found = ov.fixed_point(model, guess)
    assert not found.converged


def test_gradients_of_diverging_schedules_warn():
    model = ov.committee_machine(2, 1, activation=ov.quadratic, eta=0.9)
    start = model.random_start(N=200, rng=1)
    with pytest.warns(RuntimeWarning, match="the overlaps diverge under this schedule"):
        value, gradient = ov.schedule_gradient(model, start, ov.Schedule([0.0, 2.0], [1.3, 1.1]), 2.0)
    assert np.isnan(value) and np.all(np.isnan(gradient))


def test_terms_before_the_power_laws_begin_warn():
    law = ov.theory.scaling.Law(1.0, 0.3, L=64, eta=0.5, noise=0.1)
    with pytest.warns(RuntimeWarning, match="before the power laws begin"):
        law.terms(1e-10, 10)
