"""What a model may have, and who takes it: the table of ``check`` against every verb, called."""

import dataclasses
import re

import numpy as np
import pytest

import overlaps as ov
from overlaps._base import check
from overlaps.theory import cayley_hamilton, linear, plateau

TWO = ov.Spectrum([1.6, 0.4], [0.5, 0.5])
PAIR = np.array([[1.0, -0.5], [-0.5, 0.7]])


def machine(K=2, **options):
    return ov.committee_machine(K, 2, **(dict(spectrum=TWO, eta=0.3) | options))


def mixture(**options):
    return ov.gaussian_mixture(2, gram=[PAIR, 0.5 * PAIR], spectrum=TWO, labels=[1, -1], eta=0.3, **options)


MODELS = {
    "rule": lambda: ov.learner(ov.rules.hinge(0.7), eta=0.3, spectrum=TWO),
    "classes": lambda: mixture(weights=[0.3, 0.7]),
    "latents": lambda: ov.hidden_manifold(2, 2, ratio=0.5, nodes=4, eta=0.3),
    "sphere": lambda: machine(constraint="sphere"),
    "drift": lambda: machine(drift=0.02),
    "trained_v": lambda: machine(eta_v=0.2),
    "flow": lambda: machine(gradient_flow=True),
    "decay": lambda: machine(weight_decay=0.1),
    "batches": lambda: machine(batch_size=3),
    "groups": lambda: mixture(weights=[0.3, 0.7], ratios=[[1.0, 0.5], [0.7, 1.2]]),
}


def start(model):
    return model.random_start(N=400, rng=1)


def one_linear(model):
    """The same with one linear student and teacher."""
    if model.C or model.rule is not None:
        return model
    return dataclasses.replace(model, v=[0.8], v_star=[0.9], activation=ov.linear, teacher_activation=ov.linear)


def closure(model):
    means = {} if not model.C else {"means": [0.1, -0.2], "label": 1.0}
    return ov.closure(model, np.eye(model.K), np.full((model.K, model.M), 0.1), np.eye(model.M), **means)


SHORT = [0.0, 0.1]
CALLS = {
    "solve": lambda m: ov.solve(m, start(m), SHORT),
    "solve_many": lambda m: ov.solve_many([m, m], start(m), SHORT),
    "simulate": lambda m: ov.simulate(m, N=40, alpha=SHORT, rng=1),
    "closure": closure,
    "compress": lambda m: ov.compress(m, start(m), 9),
    "linearise": lambda m: ov.linearise(m, start(m)),
    "fixed_point": lambda m: ov.fixed_point(m, start(m), max_iterations=1),
    "critical_eta": lambda m: ov.critical_eta(m, start(m)),
    "hessian": lambda m: ov.hessian(m, start(m)),
    "fluctuations": lambda m: ov.fluctuations(ov.solve(m, start(m), SHORT), N=400),
    "optimal_schedule": lambda m: ov.optimal_schedule(m, start(m), 1.0, knots=2, maxiter=1, bounds=(0.1, 1.0)),
    "Stages": lambda m: ov.Stages([m, m], [1.0, 2.0]),
    "Mixed": lambda m: ov.Mixed([m, m], [0.4, 0.6]),
    "taught": lambda m: ov.taught(m, start(m)),
    "low_rank": lambda m: ov.low_rank(m, start(m), a=np.full((m.K, 1), 0.3), X=[[0.5]], eta_a=0.1),
    "theory.escape": lambda m: ov.theory.escape(m, "random", 400, 1.0),
    "theory.stationary_points": lambda m: ov.theory.stationary_points(m, starts=1, rng=1),
    "theory.plateau.plateau_state": lambda m: plateau.plateau_state(m, start(m)),
    "theory.cayley_hamilton.solve": lambda m: cayley_hamilton.solve(m, start(m), SHORT),
    "theory.linear.reduce": lambda m: linear.reduce(m, start(m)),
    "theory.linear.seen_again": lambda m: linear.seen_again(m, start(m), 2.0, SHORT),
    "method = 'structured'": lambda m: ov.solve(m, start(m), SHORT, method="structured"),
    "method = 'exponential'": lambda m: ov.solve(m, start(m), SHORT, method="exponential", rtol=1e-3),
    "method = 'reduced'": lambda m: ov.simulate(m, N=40, alpha=SHORT, rng=1, method="reduced"),
}


OF_NUMBERS = (
    "taught",  # beside teachers that drift, in words of its own
    "low_rank",
    "critical_eta",
    "fixed_point",
    "theory.escape",
    "theory.stationary_points",
)  # may refuse these states


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("verb", CALLS)
def test_who_knows_what(verb):
    """Refused where the table says so, in its words; done elsewhere."""
    for feature, (has, words, refused) in check.UNKNOWN.items():
        model = MODELS[feature]()
        model = one_linear(model) if verb in check.LINEAR else model
        assert has(model)
        if verb in refused or (feature == "groups" and verb in check.UNKNOWN["classes"][2]):
            words = words if verb in refused else "inputs in classes"
            with pytest.raises(ValueError, match=re.escape(f"has {words}, unknown to {verb}; it is known to solve, ")):
                CALLS[verb](model)
            continue
        try:
            CALLS[verb](model)
        except (ValueError, RuntimeError) as error:
            assert verb in OF_NUMBERS and "unknown to" not in str(error), (verb, feature, error)


def test_every_verb_of_the_table_is_called():
    assert set(CALLS) == {*check.VERBS, *(verb for _, _, refused in check.UNKNOWN.values() for verb in refused)}
    assert set(MODELS) == set(check.UNKNOWN)
