"""States and results carry their model; it is neither compared, nor saved, nor pickled."""

import copy
import pickle

import numpy as np
import pytest

import overlaps as ov
from overlaps.sweeps.described import described

MODEL = ov.committee_machine(2, 2, eta=0.5, noise=0.1)
START = ov.State.from_overlaps(MODEL, Q=[[0.5, 0.1], [0.1, 0.4]], R=[[0.2, 0.0], [0.05, 0.1]], T=np.eye(2))
TRAJ = ov.solve(MODEL, START, [0.0, 1.0, 2.0])
POWER = ov.committee_machine(1, 1, eta=0.2, spectrum=ov.power_law(beta=1.0, L=8))
MANY = POWER.random_start(N=80, rng=1)
LINEAR = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5)
SOLUTION = ov.State.from_overlaps(LINEAR, Q=[[1.0]], R=[[1.0]], T=[[1.0]])

FUNCTIONS = {
    "closure": (ov.closure, START, {}),
    "hessian": (ov.hessian, TRAJ[1], {}),
    "hessian of a trajectory": (ov.hessian, TRAJ, {}),
    "linearise": (ov.linearise, START, {}),
    "fixed_point": (ov.fixed_point, SOLUTION, {}),
    "critical_eta": (ov.critical_eta, SOLUTION, {}),
    "plateau": (ov.plateau, START, {}),
    "compress": (ov.compress, MANY, {"nodes": 3}),
    "compression_error": (ov.compression_error, MANY, {"nodes": 3, "alpha": [1.0]}),
    "low_rank": (ov.low_rank, START, {"a": [[0.3], [0.2]], "X": [[0.5]]}),
    "solve": (ov.solve, TRAJ[2], {"alpha": [3.0]}),
    "reduce": (ov.theory.linear.reduce, SOLUTION, {}),
    "plateau_state": (ov.theory.plateau.plateau_state, START, {}),
}


def same(a, b):
    return np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_state_alone_is_a_state_and_its_model(name):
    function, state, options = FUNCTIONS[name]
    alone, both = function(state, **options), function(state.model, state, **options)
    pairs = zip(alone, both, strict=True) if type(alone) is tuple else [(alone, both)]
    assert all(same(*pair) for pair in pairs)


def test_all_ways_to_make_a_state_give_it_the_model():
    tasks = [ov.committee_machine(1, 2, eta=0.5, v_star=v_star) for v_star in ([1.0, 0.0], [0.0, 1.0])]
    runs = ov.simulate(MODEL, N=40, alpha=[0, 1], rng=1, runs=2)
    mixed = ov.solve(ov.Mixed(tasks, [0.5, 0.5]), tasks[0].random_start(N=100, rng=1), [0.0, 1.0])
    staged = ov.solve(ov.Stages(tasks, [1.0, 2.0]), tasks[0].random_start(N=100, rng=1), [0.5, 2.0])
    adapted, begin = ov.low_rank(START, a=[[0.3], [0.2]], X=[[0.5]])
    weights = ov.State.from_weights(LINEAR, W=np.ones((1, 9)), W_star=np.ones((1, 9)))
    seen = []
    ov.solve(MODEL, START, [1.0], stop=lambda alpha, state: seen.append(state.model) or 1.0)
    for state, model in (
        (START, MODEL), (MANY, POWER), (weights, LINEAR), (TRAJ[1], MODEL), (TRAJ.at(0.7), MODEL),
        (runs.start(0), MODEL), (runs.state(1, -1), MODEL), (mixed[1], mixed.model), (begin, adapted),
        (staged[0], tasks[0]), (staged[1], tasks[1]), (ov.fixed_point(SOLUTION).state, LINEAR),
        (ov.plateau(MODEL).state, MODEL), (ov.compress(MANY, 3)[1], ov.compress(MANY, 3)[0]),
        (START.replace(alpha=1.0), MODEL), (copy.copy(START), MODEL), (copy.deepcopy(START), MODEL),
    ):  # fmt: skip
        assert state.model is model or state.model == model
    assert seen and all(model is MODEL for model in seen)


def test_a_given_model_is_used_in_place_of_that_of_the_state():
    """A is proportional to eta, C to its square: at twice the rate twice the drift."""
    other = MODEL.replace(eta=1.0)
    np.testing.assert_allclose(ov.closure(other, START).A, 2 * ov.closure(START).A, rtol=1e-14)
    assert ov.solve(other, START, [1.0])[0].model is other and START.model is MODEL


def test_the_model_does_not_enter_comparison_files_pickles_and_digests(tmp_path):
    bare = START.replace(model=None)
    assert bare == START and bare.model is None and described(bare) == described(START)
    assert repr(bare) == repr(START) and bare._repr_html_() == START._repr_html_()
    again = pickle.loads(pickle.dumps(START))
    assert again == START and again.model is None
    assert pickle.dumps(START) == pickle.dumps(bare)  # functions and the basis of the inputs stay here
    own = ov.Activation.from_function(lambda x: x + np.sin(x) / 3, lambda x: 1 + np.cos(x) / 3)
    model = ov.committee_machine(1, 1, activation=own, eta=0.1)
    start = model.random_start(N=50, rng=1)
    assert pickle.loads(pickle.dumps(start)) == start  # the model does not pickle
    ov.save(start, tmp_path / "start.npz")
    assert ov.load(tmp_path / "start.npz") == start and ov.load(tmp_path / "start.npz").model is None
    with pytest.raises(ValueError, match=r"closure\(\) of a state without a model.*state.on\(model\)"):
        ov.closure(again)
    assert ov.closure(again.on(MODEL)) == ov.closure(START)


def test_a_copy_of_another_size_has_no_model():
    smaller = START.replace(r=START.r[..., :1], tau=START.tau[..., :1, :1], T=START.T[:1, :1])
    assert smaller.M == 1 and smaller.model is None


def test_equal_models_have_equal_hashes():
    again = ov.committee_machine(2, 2, eta=0.5, noise=0.1)
    others = [again.replace(eta=0.1), again.replace(v=[1.0, 2.0]), again.replace(activation=ov.relu), POWER]
    assert again == MODEL and hash(again) == hash(MODEL) and len({MODEL, again, *others}) == 5
    zeros = [MODEL.replace(v_star=[zero, 1.0]) for zero in (0.0, -0.0)]
    assert zeros[0] == zeros[1] and hash(zeros[0]) == hash(zeros[1])
    for model in (ov.hidden_manifold(1, 1, ratio=0.5, eta=0.2), ov.learner(ov.rules.hinge(0.7), eta=0.3)):
        assert hash(model) == hash(model.replace(eta=model.eta))


def test_dir_shows_what_users_want():
    for thing, wanted in ((MODEL, {"eta", "K", "replace", "random_start"}), (START, {"Q", "R", "model", "replace"}),
                          (TRAJ, {"Q", "eps_g", "plateaus", "slope", "status", "to_pandas", "certified"})):  # fmt: skip
        shown = {x for x in dir(thing) if not x.startswith("_")}
        assert wanted < shown and len(shown) < 40
        assert not shown & {"kinds", "shows", "is_state", "is_ensemble", "split_rows", "eps_late", "m", "hides"}
    assert "m" in dir(
        ov.gaussian_mixture(1, gram=[[[1.0]]], weights=[1.0], labels=[1], eta=0.2).random_start(N=9, rng=1)
    )
