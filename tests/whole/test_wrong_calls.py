"""A hundred calls that hands type: typos, swapped arguments, text, floats, words of other libraries.

Each is answered by an error of the stated type whose message has the words that lead to the right call.
"""

import dataclasses
import inspect

import numpy as np
import pytest

import overlaps as ov

V, T = ValueError, TypeError
TWO = np.eye(2)
MODEL = ov.committee_machine(2, 2, eta=0.5)
START = ov.State.from_overlaps(MODEL, Q=TWO / 2, R=TWO / 10, T=TWO)
TRAJ = ov.solve(MODEL, START, [0.0, 0.5, 1.0])
RUNS = ov.simulate(MODEL, N=40, alpha=[0, 1], rng=1, runs=2)
BARE = START.replace(model=None)


def machine(K=2, M=2, **options):
    return ov.committee_machine(K, M, **({"eta": 0.5} | options))


def state(**overlaps):
    return ov.State.from_overlaps(MODEL, **({"Q": TWO, "R": 0 * TWO, "T": TWO} | overlaps))


def solve(model=MODEL, start=START, alpha=(0, 1), **options):
    return ov.solve(model, start, alpha, **options)


def simulate(**options):
    return ov.simulate(MODEL, **({"N": 40, "alpha": [0, 1], "rng": 1} | options))


CALLS = [
    # rules
    (lambda: ov.rules.logistic_committee(2, 2), T, ["misses beta", "logistic_committee(2, 2, beta=1.5)"]),
    (lambda: ov.rules.episode(), T, ["misses T", "episode(4)"]),
    # models
    (lambda: ov.committee_machine(2, 2), T, ["misses eta", "eta=0.5"]),
    (lambda: ov.committee_machine(2, eta=0.5), T, ["misses M", "committee_machine(2, 2"]),
    (lambda: ov.committee_machine(2, 2, 0.5), T, ["0.5 by position", "by name"]),
    (lambda: ov.committee_machine(2, 2, ov.relu, eta=0.5), T, ["relu by position", "activation"]),
    (lambda: ov.committee_machine(2, 2, lr=0.1), T, ["got lr = 0.1", "expected eta="]),
    (lambda: ov.committee_machine(2, 2, learning_rate=0.1), T, ["learning_rate", "expected eta="]),
    (lambda: machine(sigma=0.1), T, ["sigma = 0.1", "expected noise="]),
    (lambda: machine(normalized=True), T, ["normalized", "expected normalised="]),
    (lambda: machine(act="relu"), T, ["act = 'relu'", "expected activation="]),
    (lambda: machine(activaton="relu"), T, ["activaton", "expected activation="]),
    (lambda: machine(batch=10), T, ["batch = 10", "expected batch_size="]),
    (lambda: machine(wd=0.1), T, ["wd = 0.1", "expected weight_decay="]),
    (lambda: machine(covariance=TWO), T, ["covariance", "expected spectrum="]),
    (lambda: machine(n_hidden=3), T, ["n_hidden = 3", "expected K="]),
    (lambda: machine(device="cuda"), T, ["device = 'cuda'", "expected some of K, M"]),
    (lambda: machine(activation="Relu"), V, ["activation = 'Relu'", "'relu'"]),
    (lambda: machine(activation=np.tanh), V, ["activation = <ufunc", "from_function"]),
    (lambda: machine(spectrum=TWO), V, ["spectrum", "ov.isotropic()"]),
    (lambda: machine(K="2"), V, ["K = '2'", "integer"]),
    (lambda: machine(K=2.0), V, ["K = 2.0", "integer"]),
    (lambda: machine(K=0), V, ["K = 0", ">= 1"]),
    (lambda: machine(eta="0.5"), V, ["eta = '0.5'", "number > 0"]),
    (lambda: machine(eta=[0.1, 0.2]), V, ["eta = [0.1, 0.2]", "number > 0"]),
    (lambda: machine(eta=-0.5), V, ["eta = -0.5", "positive"]),
    (lambda: machine(noise=-1), V, ["noise = -1", "standard deviation"]),
    (lambda: machine(batch_size=0.5), V, ["batch_size = 0.5", "integer"]),
    (lambda: machine(gradient_flow=1), V, ["gradient_flow = 1", "True or False"]),
    (lambda: machine(constraint="spherical"), V, ["constraint = 'spherical'", "'sphere'"]),
    (lambda: machine(v=[1.0, 1.0, 1.0]), V, ["v has shape (3,)", "(2,)"]),
    (lambda: ov.quadratic_network(2, 2, 0.1), T, ["0.1 by position", "eta"]),
    (lambda: ov.quadratic_network(2, 2, lr=0.1), T, ["lr = 0.1", "expected eta="]),
    (lambda: ov.power_law(1.0, 100), T, ["1.0, 100 by position", "beta, L"]),
    (lambda: ov.power_law(exponent=1.0, L=100), T, ["exponent", "expected beta="]),
    (lambda: ov.isotropic(100), T, ["100 by position", "ov.isotropic()"]),
    (lambda: ov.Spectrum.from_covariance(TWO, center=True), T, ["center", "expected centre="]),
    (lambda: ov.Spectrum(eigenvalues=[1.0]), T, ["unexpected keyword", "eigenvalues"]),  # bare
    (lambda: MODEL.replace(lr=0.1), T, ["lr = 0.1", "expected eta="]),
    (lambda: MODEL.replace(K=3), T, ["K = 3", "its constructor takes"]),
    (lambda: MODEL.replace(teacher="relu"), T, ["teacher = 'relu'", "teacher_activation"]),
    (lambda: MODEL.replace(eta=0), V, ["eta = 0", "> 0"]),
    (lambda: MODEL.lr, AttributeError, ["'lr'", "expected eta"]),
    (lambda: setattr(MODEL, "eta", 0.1), dataclasses.FrozenInstanceError, ["cannot assign", "'eta'"]),
    (lambda: ov.Stages([MODEL, MODEL]), T, ["missing", "'until'"]),  # bare
    (lambda: ov.Mixed([MODEL], [1.0]), V, ["models = ", "two models"]),
    (lambda: ov.Mixed([MODEL, MODEL], [0.5, 0.6]), V, ["shares", "sum is 1"]),
    (lambda: ov.Schedule([0, 1]), T, ["missing", "'values'"]),  # bare
    # starts
    (lambda: MODEL.random_start(1000), T, ["1000 by position", "N=1000, rng=1"]),
    (lambda: MODEL.random_start(N=1000), T, ["misses rng", "rng=1"]),
    (lambda: MODEL.random_start(N=1000, seed=1), T, ["seed = 1", "expected rng="]),
    (lambda: MODEL.random_start(N=1000, random_state=1), T, ["random_state", "expected rng="]),
    (lambda: MODEL.random_start(dim=1000, rng=1), T, ["dim = 1000", "expected N="]),
    (lambda: MODEL.random_start(N=1e3, rng=1), V, ["N = 1000.0", "integer"]),
    (lambda: MODEL.random_start(N=1000, rng="1"), V, ["rng = '1'", "seed"]),
    (lambda: ov.State.from_overlaps(Q=TWO, R=TWO, T=TWO), T, ["misses model", "from_overlaps(model"]),
    (lambda: ov.State.from_overlaps(MODEL, TWO, TWO, TWO), T, ["by position", "Q=Q, R=R, T=T"]),
    (lambda: state(Q=np.eye(3)), V, ["Q has shape (3, 3)", "(2, 2)"]),
    (lambda: state(R=2 * TWO), V, ["positive semi-definite", "signs and scales"]),
    (lambda: state(Q="eye"), V, ["Q = 'eye'", "real numbers"]),
    (lambda: ov.State.from_weights(MODEL, W=np.ones((2, 9)), Wstar=np.ones((2, 9))), T, ["Wstar", "expected W_star="]),
    (lambda: START.replace(time=1.0), T, ["time = 1.0", "expected alpha="]),
    # solve
    (lambda: ov.solve(MODEL, START), T, ["misses alpha", "(0, 100)"]),
    (lambda: ov.solve(MODEL), T, ["misses start, alpha", "ov.solve(model, start"]),
    (lambda: ov.solve(START, MODEL, (0, 1)), V, ["model = State", "a Model first"]),
    (lambda: ov.solve(MODEL, (0, 1), START), V, ["start = (0, 1)", "a State"]),
    (lambda: ov.solve(MODEL, START, t_span=(0, 1)), T, ["t_span", "expected alpha="]),
    (lambda: solve(t_eval=[0, 1]), T, ["t_eval", "expected alpha="]),
    (lambda: solve(lr=0.1), T, ["lr = 0.1", "model.replace(eta="]),
    (lambda: solve(eta=0.1), T, ["eta = 0.1", "model.replace(eta="]),
    (lambda: solve(noise=0.1), T, ["noise = 0.1", "model.replace(noise="]),
    (lambda: solve(tol=1e-6), T, ["tol = 1e-06", "expected rtol="]),
    (lambda: solve(solver="RK45"), T, ["solver = 'RK45'", "expected method="]),
    (lambda: solve(events=len), T, ["events", "expected stop="]),
    (lambda: solve(dense_output=True), T, ["dense_output", "expected every_step="]),
    (lambda: solve(verbose=True), T, ["verbose", "expected progress="]),
    (lambda: ov.solve(MODEL, START, (0, 1), "RK45"), T, ["'RK45' by position", "method"]),
    (lambda: solve(method="rk45"), V, ["method = 'rk45'", "DOP853"]),
    (lambda: solve(method="euler"), V, ["method = 'euler'", "structured"]),
    (lambda: solve(alpha="100"), V, ["alpha = '100'", "real numbers"]),
    (lambda: solve(alpha=(100, 0)), V, ["alpha = (100, 0)", "from < to"]),
    (lambda: solve(alpha=(0, 1, 2)), V, ["length 3", "(from, to)"]),
    (lambda: solve(alpha=[2.0, 1.0]), V, ["increasing array", "alpha"]),
    (lambda: solve(alpha=[0, 1], every_step=True), V, ["every_step = True", "interval (from, to)"]),
    (lambda: solve(rtol="1e-8"), V, ["rtol = '1e-8'", "1e-8"]),
    (lambda: solve(start="random"), V, ["start = 'random'", "random_start"]),
    (lambda: solve(model="erf"), V, ["model = 'erf'", "committee_machine"]),
    (lambda: ov.solve_many([MODEL], [START]), T, ["misses alpha", "solve_many(models"]),
    (lambda: ov.solve_many([MODEL], [START], [0, 1], n_jobs=2), T, ["n_jobs", "expected threads="]),
    (lambda: ov.solve_many(MODEL, [START, BARE, START.replace(alpha=1.0)], [1.0, 2.0]), V, ["starts[2]", "one time"]),
    # simulate
    (lambda: ov.simulate(MODEL, 100, (0, 1)), T, ["100, (0, 1) by position", "N=1000"]),
    (lambda: ov.simulate(MODEL, N=100, alpha=(0, 1)), T, ["misses rng", "rng=1"]),
    (lambda: ov.simulate(MODEL, N=100, alpha=(0, 1), seed=1), T, ["seed = 1", "expected rng="]),
    (lambda: simulate(n_runs=3), T, ["n_runs = 3", "expected runs="]),
    (lambda: simulate(runs="3"), V, ["runs = '3'", "integer"]),
    (lambda: simulate(steps=100), T, ["no option steps", "expected"]),
    (lambda: simulate(n_jobs=2), T, ["n_jobs = 2", "expected executor="]),
    (lambda: simulate(dtype="float16"), V, ["dtype = 'float16'", "'float32'"]),
    # results
    (lambda: TRAJ.loss, AttributeError, ["'loss'", "expected eps_g"]),
    (lambda: TRAJ.t, AttributeError, ["'t'", "expected alpha"]),
    (lambda: TRAJ.to_dataframe(), AttributeError, ["to_dataframe", "expected to_pandas"]),
    (lambda: TRAJ.at("end"), V, ["alpha = 'end'", "One time"]),
    (lambda: TRAJ.at(2.0), V, ["alpha = 2", "covers [0, 1]"]),
    (lambda: TRAJ[5], IndexError, ["i = 5", "from -3 to 2"]),
    (lambda: TRAJ[0.5], T, ["i = 0.5", "integer"]),
    (lambda: TRAJ.slope((5, 9)), V, ["window = (5, 9)", "[0, 1]"]),
    (lambda: RUNS.mean("loss"), V, ["name = 'loss'", "eps_g"]),
    (lambda: TRAJ.save("run.csv"), V, ["run.csv", "to_pandas"]),
    # states
    (lambda: ov.hessian(), T, ["misses model, state", "ov.hessian(state)"]),
    (lambda: ov.hessian(MODEL), T, ["misses state", "ov.hessian(state)"]),
    (lambda: ov.hessian(START, MODEL), V, ["model = State", "hessian(state, ...)"]),
    (lambda: ov.hessian(BARE), V, ["without a model", "state.on(model)"]),
    (lambda: ov.hessian(MODEL, START.Q), V, ["state = array", "a State"]),
    (lambda: ov.linearise(START, 3), T, ["3 by position", "count"]),
    (lambda: ov.fixed_point(START, maxiter=10), T, ["maxiter = 10", "expected max_iterations="]),
    (lambda: ov.fixed_point(MODEL, x0=START), T, ["x0 = State", "expected guess="]),
    (lambda: ov.critical_eta(START, search=0.5), V, ["search", "(2,)"]),
    (lambda: ov.closure(MODEL, START.Q), V, ["R = None", "(2, 2)"]),
    (lambda: ov.closure(START, START.Q, START.R, START.T), V, ["state and R, T", "ov.closure(state)"]),
    (lambda: ov.plateau(MODEL, seed=1), T, ["seed = 1", "expected rng="]),
    (lambda: ov.compress(START), T, ["misses nodes", "ov.compress(state, 48)"]),
    # names
    (lambda: ov.linearize, AttributeError, ["'linearize'", "ov.linearise"]),
    (lambda: ov.Trajectory, AttributeError, ["'Trajectory'", "ov.results.Trajectory"]),
    (lambda: ov.sweep(len, params={"x": [1]}), T, ["params", "expected grid="]),
    (lambda: ov.sweep(len, {"x": 1}), V, ["grid['x'] = 1", "Try [1]"]),
]  # fmt: skip


@pytest.mark.parametrize("call, kind, words", CALLS)
def test_a_wrong_call_is_answered(call, kind, words):
    with pytest.raises(kind) as found:
        call()
    for word in words:
        assert word in str(found.value)


def test_few_answers_are_those_of_python():
    """Constructors of dataclasses that are called directly: Spectrum, Stages, Schedule."""
    bare = [words for _, kind, words in CALLS if kind is T and {"missing", "unexpected keyword"} & {*words}]
    assert len(CALLS) >= 100 and len(bare) <= 5


def test_seeds_are_required_where_results_depend_on_them():
    """Where seeds have a default it is 0; functions that draw have none: equal runs would pass for independent."""
    drawing = (ov.simulate, ov.Model.random_start, ov.static.sample_posterior, ov.static.train_student)
    assert all(inspect.signature(f).parameters["rng"].default is inspect.Parameter.empty for f in drawing)
    integrating = (ov.theory.escape, ov.fluctuations, ov.plateau, ov.theory.stationary_points)
    assert all(inspect.signature(f).parameters["rng"].default == 0 for f in integrating)
