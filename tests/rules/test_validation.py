"""What a user declares of a rule is tried: indices, writes, random numbers, S, theta, probabilities."""

import numpy as np
import pytest
from numba import njit
from scipy import stats

import overlaps as ov

SIGNS = [1.0, -1.0]


def plain(lam, nu, xi, theta, S, F, G):
    F[0] = nu[0] - lam[0] + xi


def at_the_end(lam, nu, xi, theta, S, F, G):
    F[-1] = nu[-1] - lam[-1] + xi


def reads_beyond(lam, nu, xi, theta, S, F, G):
    F[0] = lam[1] - lam[0]


def writes_beyond(lam, nu, xi, theta, S, F, G):
    F[0] = F[3] = lam[0]


def column_beyond(lam, nu, xi, theta, S, F, G):
    F[0] = lam[0] * S[0, 2]  # in memory that is S[1, 0]


@njit
def difference(lam):
    return lam[1] - lam[0]


def through_another(lam, nu, xi, theta, S, F, G):
    F[0] = difference(lam)


def shifts_lam(lam, nu, xi, theta, S, F, G):
    lam[0] -= nu[0] + xi
    F[0] = -lam[0]


def shifts_theta(lam, nu, xi, theta, S, F, G):
    theta[0] += 1.0
    F[0] = theta[0]


def draws(lam, nu, xi, theta, S, F, G):
    F[0] = np.random.normal() - lam[0]  # noqa: NPY002


def follows_overlaps(lam, nu, xi, theta, S, F, G):
    F[0] = (nu[0] - lam[0]) * (0.5 + S[0, 1])


def seldom(lam, nu, xi, theta, S, F, G):
    F[0] = nu[0] - lam[0]
    if S[0, 0] > 50.0:
        F[0] = 0.0


def error_beyond(lam, nu, theta):
    return nu[1] ** 2


def error_that_writes(lam, nu, theta):
    nu[0] = 0.0
    return lam[0] ** 2


def chance_beyond(nu, theta, p):
    p[0] = p[1] = 0.5
    p[2] = 0.0


def chance_of_theta(nu, theta, p):
    p[0] = 5.0 if theta[0] > 3 else 0.5
    p[1] = 1 - p[0]


def tokens_beyond(lam, nu, xi, theta, S, F, G):
    for a in range(2):
        F[a, 0] = nu[a, 0] - lam[a, 1]  # in memory that is lam[1, 0]


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(force=reads_beyond), r"force has an index beyond its arrays: index 1 .* Expected lam \(1,\), nu \(1,\)"),
        (dict(force=writes_beyond), "force has an index beyond its arrays: index 3"),
        (dict(force=column_beyond), "force has an index beyond its arrays: index 2"),
        (dict(force=through_another), "force has an index beyond its arrays: index 1"),
        (dict(force=tokens_beyond, tokens=2), "force has an index beyond its arrays: index 1"),
        (dict(error=error_beyond), "error has an index beyond its arrays"),
        (dict(noise=(SIGNS, chance_beyond)), "chance has an index beyond its arrays"),
        (dict(force=shifts_lam, noise=(SIGNS, [0.5, 0.5])), r"force changes lam; .* x = lam.copy\(\)"),
        (dict(force=shifts_theta), "force changes theta; expected it to fill F and G"),
        (dict(error=error_that_writes), "error changes nu; expected a number"),
        (dict(force=draws), "it draws random numbers"),
        (dict(force=follows_overlaps, uses_overlaps=False), "uses_overlaps = False, but the force 'follows_overlaps'"),
    ],
)
def test_what_a_rule_must_not_do(options, message):
    with pytest.raises(ValueError, match=message):
        ov.Rule(**{"force": plain, "K": 1, "M": 1, **options})


def test_guards_of_compiled_code_notice_what_python_cannot_run(monkeypatch):
    """Without the Python form, as for functions that only numba knows."""
    from overlaps.rules import validation

    monkeypatch.setattr(validation, "python_form", lambda function: None)
    for force, message in ((reads_beyond, "reads beyond its arrays"), (writes_beyond, "force writes beyond F")):
        with pytest.raises(ValueError, match=message):
            ov.Rule(force, K=1, M=1)


def test_negative_indices_count_from_the_end():
    ov.Rule(at_the_end, K=2, M=1)


def test_whether_a_force_reads_the_overlaps_is_found_out():
    """By its code, where no call tells; what is declared stays."""
    found = [ov.Rule(force, K=1, M=1).uses_overlaps for force in (plain, follows_overlaps, seldom)]
    assert found == [False, True, True]
    assert ov.Rule(plain, K=1, M=1, uses_overlaps=True).uses_overlaps
    assert ov.rules.optimal().uses_overlaps and not ov.rules.hebb().uses_overlaps


def test_probabilities_are_checked_at_the_state():
    model = ov.learner(ov.Rule(plain, K=1, M=1, noise=(SIGNS, chance_of_theta)), eta=1.0, theta=[4.0])
    with pytest.raises(ValueError, match=r"chance fills \[ 5. -4.\] at nu = .*, theta = \[4.\]; expected"):
        ov.closure(model, Q=[[0.5]], R=[[0.1]], T=[[1.0]])


def growing(lam, nu, xi, theta, S, F, G):
    F[0], G[0] = nu[0] - lam[0] + xi, 1.0


def test_a_run_ends_where_probabilities_are_none(recwarn):
    """Theta = 1 + alpha reaches 3 at alpha = 2; runs of SGD end with nan."""
    model = ov.learner(ov.Rule(growing, K=1, M=1, noise=(SIGNS, chance_of_theta)), eta=0.5, eta_theta=1.0, theta=[1.0])
    start = ov.State.from_overlaps(model, Q=[[0.5]], R=[[0.1]], T=[[1.0]])
    traj = ov.solve(model, start, [0, 5.0])
    assert not traj.success and "chance fills [ 5. -4.]" in traj.message
    assert traj.message.startswith("stopped at alpha = 2:")
    runs = ov.simulate(model, N=50, alpha=[0, 1.5, 5.0], rng=1, start=start)
    assert np.isfinite(runs.Q[0, 1, 0, 0]) and np.isnan(runs.Q[0, 2, 0, 0])
    assert "chance does not return probabilities" in runs.message


@pytest.mark.parametrize(
    "make",
    [
        lambda: ov.rules.feedback_alignment([0.7], [0.8]),
        lambda: ov.rules.offsets(1, [0.7]),
        lambda: ov.rules.node_perturbation([1.0], [0.8]),
        lambda: ov.rules.adagrad_norm(ov.rules.hebb()),
        lambda: ov.Rule(growing, K=1, M=1, noise=stats.norm()),
    ],
)
def test_adagrad_needs_theta_for_itself(make):
    with pytest.raises(ValueError, match="has a theta of its own, where adagrad_norm stores"):
        ov.rules.adagrad_norm(make())
