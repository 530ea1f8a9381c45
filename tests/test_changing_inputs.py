"""Variances of the inputs under a schedule: an independent program, identities, Stages, SGD, bad input."""

import dataclasses

import numpy as np
import pytest
from helpers import few

import overlaps as ov

TIGHT = {"rtol": 1e-11, "atol": 1e-13}
S = ov.Schedule
SPECTRUM = ov.Spectrum(s=[1.0, 1.0], p=[0.4, 0.6])
LABELS = ov.committee_machine(1, 1, v=[1.0], eta=1.2, teacher_activation="sign", spectrum=SPECTRUM)
START = ov.State.from_blocks(LABELS, q=[[[0.3]], [[0.5]]], r=[[[0.05]], [[0.0]]], t=[[[0.9]], [[0.0]]])


@pytest.mark.parametrize(("factor", "expected"), [
    (S([0, 4], [0, 1.5], "constant"),
     [3.271166136851, .266949080382, 1.670301998392, .073485380678, .129115750766]),
    (S([0, 4], [1.5, 0], "constant"),
     [2.990440661836, .376578669545, 1.609989782286, .061533081678, .143534963525]),
    (S([0, 8], [0, 1.5]), [3.205848614339, .235627631865, 1.657120993829, .070494362386, .123331560678]),
])  # fmt: skip
def test_an_independent_program(factor, expected):
    """Easy then hard, hard then easy, a ramp: overlaps at 8, errors on both test sets."""
    traj = ov.solve(LABELS, START, [0.0, 8.0], schedule={"s": (None, factor)}, **TIGHT)
    found = [*traj.q[1].ravel(), traj.r[1, 0, 0, 0], *(traj.classification_error(s)[1] for s in ([1, 0], [1, 1.5]))]
    assert np.allclose(found, expected, atol=1e-9, rtol=0)


def test_both_variances_move():
    model = ov.committee_machine(1, 1, v=[1.0], eta=1.0, noise=0.2, spectrum=SPECTRUM)
    start = ov.State.from_blocks(model, q=[[[0.3]], [[0.5]]], r=[[[0.05]], [[0.1]]], t=[[[0.4]], [[0.6]]])
    factors = S.from_function(lambda x: 1 + np.sin(x) / 2), S([0, 8], [1.5, 0.5])
    traj = ov.solve(model, start, [8.0], schedule={"s": factors}, **TIGHT)
    assert np.allclose(traj.q.ravel(), [0.371798663551, 0.555031381368], atol=1e-9)
    assert np.allclose(traj.r.ravel(), [0.377526688297, 0.562761410041], atol=1e-9)


def network(s=(0.5, 1.7), seed=2, **options):
    """K = 2, M = 3, a trained second layer, decay, batches; and a start with overlaps that all differ."""
    numbers = {"v": [0.7, -0.4], "v_star": [0.6, -0.3, 0.5], "eta": 0.9, "eta_v": 0.4, "noise": 0.2}
    numbers |= {"weight_decay": (0.1, 0.05), "batch_size": 2, "spectrum": ov.Spectrum(s=s, p=[0.4, 0.6])}
    model = ov.committee_machine(2, 3, **numbers | options)
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((2, 5, 9)) / 3
    joint = X @ X.swapaxes(1, 2) / 2
    return model, ov.State.from_blocks(model, q=joint[:, :2, :2], r=joint[:, :2, 2:], t=joint[:, 2:, 2:])


def test_factors_of_one_change_nothing():
    model, start = network()
    plain = ov.solve(model, start, [0.0, 1.0, 3.0], **TIGHT)
    for factors in (S.constant(1.0), (None, S.constant(1.0)), (None, None)):
        traj = ov.solve(model, start, [0.0, 1.0, 3.0], schedule={"s": factors}, **TIGHT)
        for name in ("q", "r", "v", "Q", "R", "S", "eps_g"):
            assert np.allclose(getattr(traj, name), getattr(plain, name), atol=1e-10)


def test_inputs_scaled_by_c_are_weights_scaled_by_c_at_another_rate():
    """Rate eta c^2 for weights of c w, the second layer's as it is; decay per rate, so that it is the same per step."""
    c = 1.3
    model, start = network(weight_decay=(0.1, 0.0))
    scaled = ov.solve(model, start, [0.0, 2.0], schedule={"s": S.constant(c**2)}, **TIGHT)
    q, r, t = start.plain
    other = dataclasses.replace(model, eta=c**2 * model.eta, weight_decay=(0.1 / c**2, 0.0))
    begin = ov.State.from_blocks(other, q=c**2 * q, r=c**2 * r, t=c**2 * t)
    expected = ov.solve(other, begin, [0.0, 2.0], **TIGHT)
    for name in ("Q", "R", "v", "eps_g"):
        assert np.allclose(getattr(scaled, name), getattr(expected, name), atol=1e-10)
    assert np.allclose(scaled.T, expected.T, atol=1e-12) and scaled.T.shape == (2, 3, 3)


def test_no_variance_freezes_a_block_and_loses_nothing():
    model, start = network(weight_decay=0.0)
    traj = ov.solve(model, start, [0.0, 1.0, 2.0, 3.0], schedule={"s": (None, S.step([1.0, 2.0], [0.0, 1.0]))}, **TIGHT)
    assert np.array_equal(traj.q[1, 1], traj.q[2, 1]) and np.array_equal(traj.r[1, 1], traj.r[2, 1])
    assert not np.allclose(traj.r[2, 1], traj.r[3, 1]) and not np.allclose(traj.r[1, 0], traj.r[2, 0])
    # records are those after the jump, and what begins at their states has the variances of the model again
    assert np.allclose(traj.T[1], start.plain[2][0] * 0.5) and np.allclose(traj[1].on(model).T, start.T)
    again = ov.solve(model, traj[1], [3.0], schedule={"s": (None, S.step([1.0, 2.0], [0.0, 1.0]))}, **TIGHT)
    assert np.allclose(again.R[0], traj.R[3], atol=1e-10)
    assert np.allclose(traj.at(1.5).q, traj.at(1.5).q) and traj.at(1.5).alpha == 1.5


def test_stages_with_other_eigenvalues_are_the_same():
    model, start = network()
    other, _ = network(s=(0.5 * 0.3, 1.7 * 2.2))
    staged = ov.solve(ov.Stages([model, other], [1.0, 3.0]), start, [0.5, 1.0, 3.0], **TIGHT)
    factors = S.step([1.0], [0.3]), S.step([1.0], [2.2])
    traj = ov.solve(model, start, [0.5, 1.0, 3.0], schedule={"s": factors}, **TIGHT)
    for name in ("Q", "R", "v", "eps_g"):
        assert np.allclose(getattr(traj, name), getattr(staged, name), atol=1e-10)


def test_states_of_records_have_the_overlaps_of_the_records(tmp_path):
    """Of solutions, runs and stop functions, and from a file; what begins there begins with the model's variances."""
    model, start = network()
    schedule = {"s": (S([0, 2], [1.4, 0.3]), S([0, 2], [0.6, 1.7]))}
    traj = ov.solve(model, start, [0.5, 1.5], schedule=schedule, **TIGHT)
    runs = ov.simulate(model, N=50, alpha=[0, 1], rng=1, runs=2, start=start, schedule=schedule)
    states = (
        (traj[0], traj.S[0]),
        (traj.at(1.5), traj.S[1]),
        (runs.start(1), runs.S[1, 0]),
        (runs.state(0, 1), runs.S[0, 1]),
    )
    for state, fields in states:
        assert np.allclose(state.S, fields, rtol=0, atol=1e-14) and state.sees_inputs
        assert np.allclose(state.on(model).T, start.T, rtol=0, atol=1e-14) and state.on(model).factors is None
    ov.save(traj[1], tmp_path / "state.npz")
    assert ov.load(tmp_path / "state.npz") == traj[1] != start
    level = (traj.Q[0, 0, 0] + traj.Q[1, 0, 0]) / 2
    ended = ov.solve(model, traj[0], (0.5, 1.5), schedule=schedule, stop=lambda _, state: state.Q[0, 0] - level)
    assert abs(ended.Q[-1, 0, 0] - level) < 1e-9
    staged = ov.simulate(ov.Stages([model] * 2, [0.5, 1.0]), N=50, alpha=[1.0], rng=1, start=start, schedule=schedule)
    assert np.allclose(staged.parts[1].start().q, staged.parts[0].q[0, -1], rtol=0, atol=1e-12)


def spheres(kind):
    """Students of fixed norm, by descent or by a rule, and the same on eigenvalues that have other values."""
    model, start = network(weight_decay=(0.0, 0.05), constraint="sphere")
    if kind == "rule":
        model = ov.learner(ov.rules.perceptron(), eta=0.9, spectrum=model.spectrum, constraint="sphere")
        q, r, t = (x[:, :1, :1] for x in start.plain)
        start = ov.State.from_blocks(model, q=q, r=r, t=t)
    return model, start, dataclasses.replace(model, spectrum=ov.Spectrum(s=[0.5 * 0.3, 1.7 * 2.2], p=[0.4, 0.6]))


@pytest.mark.parametrize("kind", ["network", "rule"])
def test_spheres_are_kept_where_variances_change(kind):
    """|w_k|^2 / N stays, Q does not; eigenvalues of a second stage give the same, by compiled steps on fixed ones."""
    model, start, other = spheres(kind)
    factors = {"s": (S.step([1.0], [0.3]), S.step([1.0], [2.2]))}
    tight = {"rtol": 1e-9, "atol": 1e-12}
    traj = ov.solve(model, start, [0.5, 1.0, 2.0], schedule=factors, **tight)
    assert np.allclose(np.einsum("nlkk->nk", traj.q), np.einsum("lkk->k", start.q), rtol=0, atol=1e-12)
    assert np.ptp(traj.Q[:, 0, 0]) > 0.1
    staged = ov.solve(ov.Stages([model, other], [1.0, 3.0]), start, [0.5, 1.0, 2.0], **tight)
    for name in ("Q", "R", "v"):
        assert np.allclose(getattr(traj, name), getattr(staged, name), rtol=0, atol=1e-8)


@few("method", ["reduced", "direct"], quick=1)
def test_projected_sgd_where_variances_change(method):
    """Within four standard errors, about 1e-2."""
    model, start, _ = spheres("network")
    schedule = {"s": (S([0, 2], [1.4, 0.3]), S([0, 1], [0.6, 1.7], "constant"))}
    traj = ov.solve(model, start, [2.0], schedule=schedule)
    runs = ov.simulate(model, N=500, alpha=[2.0], rng=2, runs=30, start=start, method=method, schedule=schedule)
    for name in ("Q", "R", "v", "eps_g"):
        assert np.all(np.abs(runs.mean(name) - getattr(traj, name)) < 4 * runs.standard_error(name)), name


def test_integrals_say_how_far_they_are_known():
    """As without a schedule; a closure that stands for those of tasks had said nothing of theirs."""
    model = ov.committee_machine(1, 1, activation=ov.tanh, eta=0.5)
    start = ov.State.from_overlaps(model, Q=[[0.8]], R=[[0.3]], T=[[1.1]])
    plain, one = (ov.solve(model, start, [0.1], schedule=x) for x in (None, {"s": S.constant(1.0)}))
    assert "Estimated error of C at the end: " in plain.message == one.message


def test_recorded_errors_of_rules_are_controlled_as_without_a_schedule():
    """By differences, as A and B are no gradient; compiled steps and those in Python round differently."""
    model = ov.learner(ov.rules.logistic(1.5), eta=1.0)
    start = ov.State.from_overlaps(model, Q=[[0.8]], R=[[0.3]], T=[[1.1]])
    plain, one = (ov.solve(model, start, [3.0], schedule=x) for x in (None, {"s": S.constant(1.0)}))
    assert np.allclose(one.eps_g, plain.eps_g, rtol=1e-9) and np.allclose(
        one.eps_error, plain.eps_error, rtol=1e-5, atol=0
    )


@pytest.mark.parametrize("inputs", [{}, {"s": (S([0, 2], [1.0, 0.4]), None)}], ids=["", "inputs"])
def test_mixtures_under_a_schedule(inputs):
    """Tasks that differ in noise, with inputs, rates, decay and noise that change: one task of the mean variance."""
    model, start = network()
    noises = np.array([0.2, 0.5])
    model = dataclasses.replace(model, weight_decay=(0.2, 0.35), noise=np.sqrt([0.3, 0.7] @ noises**2))
    factors = {"eta": S([0, 2], [1.0, 0.5]), "noise": S([0, 2], [1.0, 0.4]), "weight_decay": S([0, 2], [1.3, 0.1])}
    both = inputs | factors
    alone = ov.solve(model, start, [0.0, 2.0], schedule=both, **TIGHT)
    tasks = ov.Mixed([dataclasses.replace(model, noise=noise) for noise in noises], [0.3, 0.7])
    mixed = ov.solve(tasks, start, [0.0, 2.0], schedule=both, **TIGHT)
    for name in ("q", "r", "v", "S", "eps_g"):
        assert np.allclose(getattr(mixed, name), getattr(alone, name), atol=1e-10)
    runs = ov.simulate(ov.Mixed([model, model], [0.3, 0.7]), N=50, alpha=[0, 1], rng=1, runs=2, schedule=both)
    assert runs.success and runs.T.shape == ((2, 2, 3, 3) if inputs else (2, 3, 3))


@few("method", ["direct", "reduced"], quick=1)
def test_simulators(method):
    """Within three standard errors and the O(1/N) of finite size, through a jump and a block without variance."""
    model, start = network()
    schedule = {"s": (S([0, 1, 2], [1.0, 0.0, 2.0], "constant"), S([0, 3], [0.5, 1.5])), "eta": S([0, 3], [1.0, 0.5])}
    traj = ov.solve(model, start, [0.0, 1.0, 3.0], schedule=schedule)
    runs = ov.simulate(model, N=400, alpha=traj.alpha, rng=3, runs=30, start=start, method=method, schedule=schedule)
    for name in ("Q", "R", "v", "eps_g"):
        gap = np.abs(runs.mean(name) - getattr(traj, name))[1:]
        assert np.all(gap < 3 * runs.standard_error(name)[1:])
    assert np.allclose(runs.T, traj.T, atol=1e-12)


def test_files_and_labels(tmp_path):
    pytest.importorskip("xarray")
    model, start = network()
    schedule = {"s": (None, S([0, 2], [1.0, 0.3]))}
    for result in (
        ov.solve(model, start, [0.0, 1.0], schedule=schedule),
        ov.simulate(model, N=50, alpha=[0, 1], rng=1, runs=2, start=start, schedule=schedule),
    ):
        result.save(tmp_path / "result.npz")
        again = ov.load(tmp_path / "result.npz")
        assert again == result and np.array_equal(again.eps_g, result.eps_g)
        assert result.to_xarray()["T"].dims[-3:] == ("alpha", "m", "m2")


def copied(lam, nu, xi, theta, S, F, G):
    """A force for two tokens."""
    F[0, 0], F[1, 0] = nu[0, 0] - lam[0, 0], nu[1, 0] - lam[1, 0]


def test_bad_input():
    model, start = network()
    for factors, message in (
        ((S.constant(1.0),), "L = 2"),
        (0.5, "expected a Schedule, or a tuple"),
        ((0.5, None), r"schedule\['s'\]\[0\]"),
        (S.from_function(lambda x: 1 - x), "least factor of s is -1"),
    ):
        with pytest.raises(ValueError, match=message):
            ov.solve(model, start, [2.0], schedule={"s": factors})
    dark, begin = network(s=(0.5, 0.0))
    with pytest.raises(ValueError, match=r"s\[1\] is 0"):
        ov.solve(dark, begin, [1.0], schedule={"s": (None, S.constant(2.0))})
    assert ov.solve(dark, begin, [1.0], schedule={"s": (S.constant(2.0), None)}).success
    classes = ov.gaussian_mixture(1, gram=[[[1.0, -1.0], [-1.0, 1.0]]], weights=[0.5, 0.5], labels=[1, -1], eta=0.1)
    with pytest.raises(ValueError, match="a schedule on s with inputs in classes"):
        ov.solve(
            classes, ov.State.from_overlaps(classes, Q=[[1.0]], m=[[0.1, -0.1]]), [1.0], schedule={"s": S.constant(2.0)}
        )
    one, hidden = {"schedule": {"s": S.constant(2.0)}}, ov.hidden_manifold(1, 1, ratio=0.5, nodes=3, eta=0.5)
    with pytest.raises(ValueError, match="a schedule on s with a teacher of latents"):
        ov.solve(hidden, hidden.random_start(N=60, rng=1), [1.0], **one)
    tokens = ov.Rule(copied, K=1, M=1, tokens=2, token_covariance=[np.eye(2), [[1, 0.3], [0.3, 1]]])
    seen = ov.learner(tokens, eta=0.5, spectrum=SPECTRUM)
    with pytest.raises(ValueError, match="a schedule on s with a token_covariance for each eigenspace"):
        ov.solve(seen, seen.random_start(N=60, rng=1), [1.0], **one)
    with pytest.raises(ValueError, match="'structured' does not support a schedule on s"):
        ov.solve(model, start, [1.0], method="structured", **one)
    with pytest.raises(ValueError, match="solve_many does not support a schedule on s"):
        ov.solve_many([model], [start], [1.0], **one)
    plain = ov.committee_machine(2, 2, eta=0.5)
    with pytest.raises(ValueError, match="a schedule on s with late=True|late=True with a schedule on s"):
        ov.solve(plain, plain.random_start(N=100, rng=1), [1.0], late=True, **one)


def test_one_factor_for_all_leaves_a_block_without_variance_alone():
    spectrum = ov.Spectrum([1.7, 0.0, 0.6], [0.3, 0.2, 0.5])
    model = ov.committee_machine(1, 1, eta=0.7, noise=0.2, spectrum=spectrum)
    factor = S([0.0, 2.0], [1.0, 1.7])
    one, each = (
        ov.solve(model, model.random_start(N=50, rng=3), [0.9, 2.7], schedule={"s": given}, **TIGHT)
        for given in (factor, (factor, None, factor))
    )
    certified = ov.solve(model, model.random_start(N=50, rng=3), [0.9, 2.7], schedule={"s": factor}, certify=True)
    np.testing.assert_allclose(certified.Q, one.Q, rtol=1e-7)
    assert np.all(certified.error_Q < 1e-6)  # of rtol 1e-8: the second run knows the same eigenvalues
    assert np.array_equal(one.q, each.q) and np.array_equal(one.Q, each.Q)


def test_sums_over_blocks_that_change_are_refused():
    model, start = network()
    with pytest.raises(ValueError, match="blocks=False with a schedule on s"):
        ov.solve(model, start, [0.0, 2.0], schedule={"s": S([0, 2], [1.0, 1.7])}, blocks=False)
