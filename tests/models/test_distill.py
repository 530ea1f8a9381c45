"""Students that teach: an independent program, limits, chains of stages, SGD, bad input."""

import dataclasses
import pickle

import numpy as np
import pytest
from helpers import few

import overlaps as ov

TIGHT = {"rtol": 1e-11, "atol": 1e-13}
FIRST = ov.committee_machine(2, 2, eta=0.8, noise=0.3)
Q1, R1, T = [[0.5, 0.1], [0.1, 0.4]], [[0.2, 0.05], [0.1, 0.15]], [[1.0, 0.2], [0.2, 0.9]]
START = ov.State.from_overlaps(FIRST, Q=Q1, R=R1, T=T)
SECOND = ov.committee_machine(3, 2, v=[0.7, 0.6, 0.5], eta=0.8, eta_v=0.3, noise=0.1)
Q2 = [[0.3, 0.05, 0.0], [0.05, 0.4, 0.02], [0.0, 0.02, 0.35]]


@pytest.fixture(scope="module")
def record():
    return ov.solve(FIRST, START, [10.0], **TIGHT)[0]


def test_an_independent_program(record):
    """The first student, and the one it teaches at two weights of its labels: errors on truth and frozen student."""
    expected = [0.757827798647, 0.366332372627, 0.749755836474]
    expected += [0.641873532511, 0.463520711957, 0.498946054927, 0.596196860339]
    assert np.allclose([*record.Q[np.triu_indices(2)], *record.R.ravel()], expected, atol=1e-9)
    rows = {
        0.7: ([0.043141932587, 0.024021495418], [0.034615163263, 0.008490655617]),
        1.0: ([0.052630870274, 0.037222070640], [0.031192421295, 0.006295498234]),
    }
    for weight, (truth, frozen) in rows.items():
        traj = ov.solve(*ov.distill(SECOND, record, Q=Q2, weight=weight), [5.0, 20.0], **TIGHT)
        assert np.allclose(traj.against([0, 0, 1, 1]), truth, atol=1e-9)
        assert np.allclose(traj.against([1, 1, 0, 0]), frozen, atol=1e-9)
        if weight == 0.7:
            assert np.allclose(traj.v[1], [0.788113533540, 0.642445897120, 0.552101073651], atol=1e-9)
            assert np.allclose(
                traj.Q[1, [0, 0, 2], [0, 1, 2]], [0.771505671776, 0.504510043050, 0.584393477583], atol=1e-9
            )


def test_weight_zero_is_no_frozen_student(record):
    """Further rows that are not read change nothing."""
    taught = ov.solve(*ov.distill(SECOND, record, Q=Q2, weight=0.0), [5.0, 20.0], **TIGHT)
    begin = ov.State.from_overlaps(SECOND, Q=Q2, R=np.zeros((3, 2)), T=T)
    alone = ov.solve(SECOND, begin, [5.0, 20.0], **TIGHT)
    assert np.allclose(alone.eps_g, [0.035902227882, 0.012640888573], atol=1e-9)
    assert np.allclose(taught.Q, alone.Q, atol=1e-10) and np.allclose(taught.R[..., 2:], alone.R, atol=1e-10)


@pytest.mark.parametrize("spectrum", [ov.isotropic(), ov.Spectrum(s=[0.5, 1.7], p=[0.4, 0.6])], ids=["1", "2"])
def test_a_copy_of_its_own_labels_does_not_move(spectrum):
    """T' and S are exactly singular; without noise there is nothing to learn, with the truth in the labels there is."""
    model = ov.committee_machine(2, 2, v=[0.8, -0.6], v_star=[0.9, 0.5], eta=0.8, spectrum=spectrum)
    record = ov.solve(model, model.random_start(N=500, rng=3), [3.0])[0]
    still = ov.solve(*ov.distill(model, record, Q="copy"), [0.0, 4.0])
    assert np.allclose(still.q[1], record.q, atol=1e-14) and still.eps_g.max() < 1e-14
    on = ov.solve(*ov.distill(model, record, Q="copy", weight=0.0), [0.0, 4.0], **TIGHT)
    same = ov.solve(model, dataclasses.replace(record, alpha=0.0), [0.0, 4.0], **TIGHT)
    assert np.allclose(on.Q, same.Q, atol=1e-9)


def test_starts_of_other_kinds():
    spectrum = ov.Spectrum(s=[0.5, 1.7], p=[0.4, 0.6])
    model = ov.committee_machine(2, 3, eta=0.5, spectrum=spectrum)
    state = model.random_start(N=500, rng=1)
    fresh = ov.distill(model, state)[1]
    assert np.allclose(fresh.q, spectrum.p[:, None, None] * np.eye(2)) and not fresh.r.any()
    Q = np.array([[0.5, 0.1], [0.1, 0.3]])
    assert np.allclose(ov.distill(model, state, Q=Q)[1].Q, Q)
    blocks = np.array([0.2 * Q, 0.7 * Q])
    new, given = ov.distill(model, state, Q=blocks, weight=0.4)
    assert np.array_equal(given.q, blocks) and new.M == 5
    assert np.allclose(given.plain[2][:, :2, :2], state.q) and np.allclose(given.T[2:, 2:], state.T)
    assert np.allclose(given.T[:2, 2:], state.R) and np.allclose(new.v_star, [0.4, 0.4, 0.6, 0.6, 0.6])


def test_hard_labels_of_one_unit():
    """The label is the sign of the frozen student's output, also with a negative second layer."""
    model = ov.committee_machine(1, 1, v=[-0.7], teacher_activation=ov.sign, eta=1.0)
    state = ov.State.from_overlaps(model, Q=[[0.8]], R=[[-0.5]], T=[[1.2]])
    new, start = ov.distill(model, state, Q=[[0.4]], weight=1.0)
    assert np.array_equal(new.v_star, [-1.0, 0.0])
    assert ov.solve(new, start, [5.0]).success


@few("method", ["direct", "reduced"], quick=1)
def test_simulators(record, method):
    """Within three standard errors; weak to strong, K2 > K1."""
    model, start = ov.distill(SECOND, record, Q=Q2, weight=0.7)
    traj = ov.solve(model, start, [0.0, 2.0, 5.0])
    runs = ov.simulate(model, N=400, alpha=traj.alpha, rng=2, runs=30, start=start, method=method)
    for name in ("Q", "R", "v", "eps_g"):
        gap = np.abs(runs.mean(name) - getattr(traj, name))[1:]
        assert np.all(gap < 3 * runs.standard_error(name)[1:])


def test_stages(record, tmp_path):
    """Generations in a row are the pairs chained by hand; files and pickles keep them."""
    fresh = [[0.4, 0.05], [0.05, 0.3]]
    stages = ov.Stages([FIRST] * 4, [10.0, 15.0, 18.0, 20.0], teacher=(None, ov.previous_student, ov.previous_student,
    None),
                       students=(None, fresh, "copy", None))  # fmt: skip
    traj = ov.solve(stages, START, [5.0, 10.0, 15.0, 18.0, 20.0], **TIGHT)
    second = ov.solve(*ov.distill(FIRST, record, Q=fresh), [5.0], **TIGHT)
    third = ov.solve(*ov.distill(FIRST, ov_true(second[0]), Q="copy"), [3.0], **TIGHT)
    last = ov.solve(FIRST, dataclasses.replace(ov_true(third[0]), alpha=18.0), [20.0], **TIGHT)
    assert np.allclose(traj.R[2], second.R[0, :, 2:], atol=1e-9) and np.allclose(traj.Q[3], third.Q[0], atol=1e-9)
    assert np.allclose(traj.R[4], last.R[0], atol=1e-9) and traj.R.shape == (5, 2, 2)
    assert np.allclose(traj.task_error(0)[2], second.against([0, 0, 1, 1]), atol=1e-9)
    assert traj.parts[1].model.M == 4 and np.isclose(traj.at(16.0).alpha, 16.0)
    traj.save(tmp_path / "generations.npz")
    again = ov.load(tmp_path / "generations.npz")
    assert again == traj and np.array_equal(again.task_error(0), traj.task_error(0))
    assert pickle.loads(pickle.dumps(stages)) == stages
    assert len(traj.plot()) == 2 and traj.to_pandas().shape[0] == 5
    runs = ov.simulate(stages, N=100, alpha=[0, 12, 20], rng=1, runs=2, start=START)
    assert runs.task_error(0).shape == (2, 3)
    trained = dataclasses.replace(FIRST, eta_v=0.3)
    with pytest.raises(ValueError, match="trained second layers"):
        own = ov.Stages([trained] * 2, [1.0, 2.0], teacher=(None, ov.previous_student), students=(None, "copy"))
        ov.simulate(own, N=100, alpha=[0, 2], rng=1, runs=2, start=START)


def ov_true(state):
    """The state with its true teachers alone."""
    return dataclasses.replace(state, r=state.r[..., 2:], tau=state.tau[:, 2:, 2:], T=state.T[2:, 2:])


def test_bad_input(record):
    for model, options, message in (
        (SECOND, {"weight": 1.5}, "weight = 1.5; expected a finite number >= 0 and <= 1"),
        (SECOND, {"Q": "copy"}, "'copy' of K = 2 units for a model of K = 3"),
        (SECOND, {"Q": "same"}, "expected one of 'copy'|expected 'copy'"),
        (SECOND, {"Q": np.eye(2)}, "Q has shape"),
        (ov.committee_machine(2, 3, eta=0.5), {}, "M = 3"),
        (ov.committee_machine(2, 2, eta=0.5, teacher_activation=ov.relu), {}, "expected one activation"),
        (ov.committee_machine(2, 2, eta=0.5, teacher_activation=ov.sign), {}, "hard labels"),
    ):
        with pytest.raises(ValueError, match=message):
            ov.distill(model, record, **options)
    for teacher, students, message in (
        ((ov.previous_student, None), ("copy", None), "none in stage 0"),
        ((None, ov.previous_student), None, "expected both or none"),
        ((None, ov.previous_student), (None,), r"students = \(None,\); expected .* for each of 2 stages"),
        ((None, "previous"), (None, "copy"), "expected None or ov.previous_student"),
    ):
        with pytest.raises(ValueError, match=message):
            ov.Stages([FIRST] * 2, [1.0, 2.0], teacher=teacher, students=students)
    drifting = dataclasses.replace(FIRST, drift=0.3)
    for call in (
        lambda: ov.distill(drifting, record),
        lambda: ov.Stages([FIRST, drifting], [1.0, 2.0], teacher=[None, ov.previous_student], students=[None, "copy"]),
        lambda: ov.low_rank(drifting, record, a=[[0.2], [0.1]], X=[[1.0]]),
        lambda: dataclasses.replace(ov.low_rank(FIRST, record, a=[[0.2], [0.1]], X=[[1.0]])[0], model=drifting),
    ):
        with pytest.raises(ValueError, match="teachers that drift .* The overlaps of (a )?frozen students? .* decay"):
            call()
    # teachers may drift before students are frozen
    assert ov.Stages([drifting, FIRST], [1.0, 2.0], teacher=[None, ov.previous_student], students=[None, "copy"]).K == 2
    with pytest.raises(ValueError, match="v_star has shape"):
        ov.solve(FIRST, START, [1.0]).against([1.0])


def test_students_of_the_stages_are_saved_where_students_teach(tmp_path):
    """Q of new students, "copy" and None come back; stages of teachers save none."""
    new = [[0.4, 0.05], [0.05, 0.3]]
    teaching = ov.Stages(
        [FIRST] * 3,
        [1.0, 2.0, 3.0],
        teacher=(None, ov.previous_student, ov.previous_student),
        students=(None, new, "copy"),
    )
    plain = ov.Stages([FIRST] * 2, [1.0, 2.0])
    for stages in (teaching, plain):
        traj = ov.solve(stages, START, [1.5, 2.0])
        traj.save(tmp_path / "stages.npz")
        again = ov.load(tmp_path / "stages.npz")
        assert again.model == stages and np.array_equal(again.Q, traj.Q)
