"""Bad input: one table of what is refused, with which exception, in which words, and before any work is done.

A row is (what is wrong, call, exception, words that the message must contain): the argument, what came, and what was
expected or what to try.  A new public function enters by a few rows of its own.
"""

import dataclasses
import json
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

import overlaps as ov
from overlaps._base import check
from overlaps._base.signatures import quietly, warn
from overlaps.manifold import latents
from overlaps.manifold import sgd as manifold_sgd
from overlaps.models.start import random_start
from overlaps.results import plotting
from overlaps.results.discrepancy import log_times
from overlaps.static.bayes.correlation import correlation_of
from overlaps.static.bayes.student import train_student
from overlaps.theory import cayley_hamilton, features, late_time, linear, plateau, quadratic

NAN, INF = np.nan, np.inf
MASKED = np.ma.array([0.0, 1.0, 2.0], mask=[False, False, True])
ONE, TWO, EMPTY = np.eye(1), np.eye(2), np.zeros((0, 0))


def machine(K=2, M=2, eta=0.5, **options):
    return ov.committee_machine(K, M, eta=eta, **options)


def state(model, Q=TWO, R=0.1 * TWO, T=TWO, **options):
    return ov.State.from_overlaps(model, Q=Q, R=R, T=T, **options)


def softplus(x):
    return np.logaddexp(0.0, x)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def identity(x):
    return x


def teacher(**options):
    given = {"v2", "beta"} & set(options)
    return ov.static.HierarchicalTeacher(
        **({} if given else dict(beta=1.0, k=5)) | dict(noise=0.3, activation=HE3) | options
    )


def law(**options):
    return ov.static.PowerLawLimit(**(dict(beta=1.0, noise=0.3, activation=HE3) | options))


def subcritical(**options):
    return ov.static.SubcriticalPowerLaw(**(dict(beta=0.2, gamma=1.0, noise=0.9, activation=HE3) | options))


def equal(**options):
    return ov.static.EqualReadouts(**(dict(noise=0.5, activation=HE3) | options))


def student(given=None, **options):
    return train_student(given or teacher(), **(dict(d=8, n=50, width=2, rng=1, steps=5) | options))


def hidden(**options):
    return ov.hidden_manifold(2, 1, **(dict(ratio=0.5, nodes=3, eta=0.2) | options))


def srf(**options):
    return ov.static.SpikedRandomFeatures(np.tanh, np.sin, **(dict(r=1.2, c=1.1, gamma=0.9, beta=0.8) | options))


def stepped(student=np.tanh, target=np.sin, **options):
    options = dict(eta_tilde=2.0, alpha0=1.0, beta=0.5) | options
    return ov.static.SpikedRandomFeatures.after_one_step(student, target, **options)


def steps(**options):
    given = {"indices": 1, "eta_tilde": 1.5, "alpha0": 8, "beta": 1.0} | options
    return ov.static.SpikedSubspace.after_steps(np.tanh, np.sin, **given)


def one_step(**options):
    options = dict(eta_tilde=2.0, alpha0=2.0, beta=1.0, alpha=1.0, lam=0.1, d=20, rng=1, draws=1) | options
    return ov.static.simulate_one_step(np.tanh, np.sin, **options)


def HE2(x):
    return x**2 - 1


HE3 = {3: 1.0}  # the correlation function of He_3 / sqrt(6)
MODEL = machine()
SINGLE = machine(1, 1)
RELU = machine(1, 1, activation=ov.relu)
LINEAR = machine(1, 1, activation=ov.linear)
COLOURED = machine(1, 1, spectrum=ov.power_law(beta=1.0, L=4))
GOOD = state(MODEL)
OTHER = state(SINGLE, ONE, 0 * ONE, ONE)
PERFECT = state(LINEAR, ONE, ONE, ONE)
MATRIX = ov.Spectrum.from_covariance([[2.0, 0.5], [0.5, 1.0]])
TRAJECTORY = ov.solve(MODEL, GOOD, [0.0, 1.0, 2.0])
RUNS = ov.simulate(SINGLE, N=40, alpha=[0, 1], rng=1, runs=2)
SINGLE_RUN = ov.simulate(SINGLE, N=40, alpha=[0, 1], rng=1)
SWEEP = ov.sweep(identity, {"x": [1, 2]})
TEXTS = ov.sweep(str, [{"object": 1}, {"object": 2}])
SHAPES = ov.sweep(np.ones, {"shape": [2, 3]})
MANIFOLD = hidden()
WEIGHTS = manifold_sgd.random_weights(MANIFOLD, N=20, rng=1)
SRF = srf()
START = COLOURED.random_start(N=40, rng=1)
UNBOUND = ov.State(q=[ONE], r=[ONE], tau=[ONE], T=ONE, v=[1.0])
LATENT = ov.hidden_manifold(1, 1, ratio=0.5, nodes=3, eta=0.2).random_start(N=40, rng=1)


def solve(alpha=(0, 1), start=GOOD, model=MODEL, **options):
    return ov.solve(model, start, alpha, **options)


def simulate(model=SINGLE, **options):
    return ov.simulate(model, **(dict(N=40, alpha=(0, 1), rng=1) | options))


def manifold(**options):
    return simulate(MANIFOLD, **(dict(N=20) | options))


def hierarchy(model=COLOURED, start=START, alpha=(0, 1), **options):
    return cayley_hamilton.solve(model, start, alpha, **options)


def closure(model=MODEL, Q=TWO, R=0 * TWO, T=TWO, **options):
    return ov.closure(model, Q, R, T, **options)


V = ValueError
TABLE = [
    # spectra
    ("eigenvalues below zero", lambda: ov.Spectrum([1.0, -0.1]), V, ["s >= 0", "-0.1"]),
    ("no eigenvalues", lambda: ov.Spectrum([]), V, ["s is empty", "at least one"]),
    ("infinite eigenvalue", lambda: ov.Spectrum([1.0, INF]), V, ["s contains nan or inf"]),
    ("complex eigenvalues", lambda: ov.Spectrum(np.array([1j])), V, ["s = ", "not an array of real numbers", "(L,)"]),
    ("eigenvalues as text", lambda: ov.Spectrum(["1", "2"]), V, ["s = ['1', '2']", "not an array of real numbers"]),
    ("eigenvalues as a number", lambda: ov.Spectrum(1.0), V, ["s has shape ()", "expected (L,)"]),
    ("weights of another length", lambda: ov.Spectrum([1.0, 2.0], [1.0]), V, ["p has shape (1,)", "expected (2,)"]),
    ("weights below zero", lambda: ov.Spectrum([1.0, 2.0], [1.5, -0.5]), V, ["p >= 0", "p = -0.5"]),
    ("weights that do not sum to one", lambda: ov.Spectrum([1.0, 2.0], [0.5, 0.4]), V, ["p sum to 0.9", "p / p.sum()"]),
    ("a basis that is none", lambda: ov.Spectrum([1.0], basis=2 * TWO), V, ["basis", "orthonormal"]),
    ("eigenvalues with a numbered name", lambda: ov.Spectrum([1.0], name=1), V, ["name = 1", "expected a string"]),
    ("centre by text", lambda: ov.Spectrum.from_covariance(data=TWO, centre="yes"), V, ["centre = 'yes'", "True"]),
    ("power law without decay", lambda: ov.power_law(beta=0, L=4), V, ["beta = 0", "> 0"]),
    ("power law of half an eigenvalue", lambda: ov.power_law(beta=1.0, L=0.5), V, ["L = 0.5", "integer >= 1"]),
    ("neither matrix nor data", lambda: ov.Spectrum.from_covariance(), V, ["neither", "Sigma", "data="]),
    ("matrix and data", lambda: ov.Spectrum.from_covariance(TWO, data=TWO), V, ["both", "Sigma", "data="]),
    ("covariance not symmetric", lambda: ov.Spectrum.from_covariance([[1, 0.5], [0.1, 1]]), V, ["Sigma", "symmetric"]),
    ("covariance not positive", lambda: ov.Spectrum.from_covariance([[1, 2], [2, 1]]), V, ["Sigma", "-1", "positive"]),
    ("covariance not square", lambda: ov.Spectrum.from_covariance(np.ones((3, 2))), V, ["Sigma", "(3, 2)", "data="]),
    ("covariance with nan", lambda: ov.Spectrum.from_covariance(NAN * TWO), V, ["Sigma contains nan"]),
    ("one sample", lambda: ov.Spectrum.from_covariance(data=[[1.0, 2.0]]), V, ["data", "(1, 2)", "at least 2"]),
    ("data of one axis", lambda: ov.Spectrum.from_covariance(data=[1.0, 2.0]), V, ["data has shape (2,)", "(n, N)"]),
    ("too much shrinkage", lambda: ov.Spectrum.from_covariance(TWO, shrinkage=2), V, ["shrinkage = 2", "<= 1"]),
    ("negative rank", lambda: ov.Spectrum.from_covariance(TWO, rank=-1), V, ["rank = -1", ">= 0"]),
    ("blocks that do not divide", lambda: COLOURED.spectrum.block_sizes(10), V, ["N = 10", "try N = "]),
    ("N is no integer", lambda: ov.isotropic().block_sizes(10.0), V, ["N = 10.0", "integer >= 1"]),
    ("another N than the matrix", lambda: MATRIX.block_sizes(4), V, ["N = 4", "N = 2", "eigenvectors"]),
    # activations
    ("g is no function", lambda: ov.Activation.from_function("tanh", np.tanh), V, ["g = 'tanh'", "function"]),
    ("wrong derivative", lambda: ov.Activation.from_function(softplus, np.tanh), V, ["dg", "not its derivative"]),
    ("not vectorised", lambda: ov.Activation.from_function(float, sigmoid), V, ["g fails", "np.vectorize(g)"]),
    ("another shape", lambda: ov.Activation.from_function(np.ravel, np.ones_like), V, ["g turns shape", "same shape"]),
    ("not finite", lambda: ov.Activation.from_function(lambda x: x + INF, sigmoid), V, ["g is not finite", "x = -9"]),
    ("unknown rule", lambda: ov.Activation.from_function(softplus, sigmoid, second_order="best"), V,
     ["second_order = 'best'", "auto", "sobol"]),
    ("no tolerance", lambda: ov.Activation.from_function(softplus, sigmoid, tolerance="x"), V, ["tolerance = 'x'"]),
    ("name is no text", lambda: ov.Activation.from_function(softplus, sigmoid, name=3), V, ["name = 3", "string"]),
    ("record without functions", lambda: ov.Activation("mine", None, None), V, ["g = None", "function"]),
    ("code of no kernel", lambda: dataclasses.replace(ov.erf, code=99), V, ["code = 99", "expected one of"]),
    ("polynomial without coefficients", lambda: ov.polynomial([]), V, ["coefficients = []", "c_0"]),
    ("polynomial of text", lambda: ov.polynomial("abc"), V, ["coefficients = 'abc'", "finite numbers"]),
    ("slope is no number", lambda: ov.leaky_relu("steep"), V, ["slope = 'steep'", "finite number"]),
    ("slope is a truth value", lambda: ov.leaky_relu(True), V, ["slope = True", "finite number"]),
    # models
    ("no students", lambda: machine(K=0), V, ["K = 0", "integer >= 1"]),
    ("K is no integer", lambda: machine(K=2.0), V, ["K = 2.0", "integer"]),
    ("M is a truth value", lambda: machine(M=True), V, ["M = True", "integer"]),
    ("eta zero", lambda: machine(eta=0), V, ["eta = 0", "> 0"]),
    ("eta nan", lambda: machine(eta=NAN), V, ["eta = nan", "finite"]),
    ("eta complex", lambda: machine(eta=1j), V, ["eta = 1j", "> 0"]),
    ("eta an array", lambda: machine(eta=np.array([0.1, 0.2])), V, ["eta = array", "number > 0"]),
    ("eta_v below zero", lambda: machine(eta_v=-0.1), V, ["eta_v = -0.1", ">= 0"]),
    ("noise below zero", lambda: machine(noise=-0.1), V, ["noise = -0.1", "standard deviation"]),
    ("weight decay as text", lambda: machine(weight_decay="0.1"), V, ["weight_decay = '0.1'", "number >= 0"]),
    ("three weight decays", lambda: machine(weight_decay=(1, 2, 3)), V, ["weight_decay = (1, 2, 3)", "pair"]),
    ("half a batch", lambda: machine(batch_size=0.5), V, ["batch_size = 0.5", "integer >= 1"]),
    ("gradient flow of another kind", lambda: machine(gradient_flow="yes"), V, ["gradient_flow = 'yes'", "True"]),
    ("v of another length", lambda: machine(v=[1.0]), V, ["v has shape (1,)", "expected (2,)"]),
    ("v ragged", lambda: machine(v=[[1], [1, 2]]), V, ["v = [[1], [1, 2]]", "real numbers"]),
    ("v_star complex", lambda: machine(v_star=np.array([1j, 1.0])), V, ["v_star", "not an array of real numbers"]),
    ("normalised twice", lambda: machine(normalised=True, v=[1.0, 1.0]), V, ["normalised=True", "left out"]),
    ("activation that is not here", lambda: machine(activation="elu"), V, ["activation = 'elu'", "'erf'", "'tanh'"]),
    ("activation of NumPy", lambda: machine(activation=np.tanh), V, ["activation", "from_function"]),
    ("eigenvalues for a spectrum", lambda: machine(spectrum=[1.0]), V, ["spectrum = [1.0]", "ov.isotropic()"]),
    ("a variant that is none", lambda: dataclasses.replace(MODEL, eta=-1.0), V, ["eta = -1.0", "> 0"]),
    ("normalised by text", lambda: machine(normalised="yes"), V, ["normalised = 'yes'", "True or False"]),
    ("quadratic network of another activation", lambda: ov.quadratic_network(2, 2, eta=0.1, activation=ov.erf), V,
     ["activation = erf", "committee_machine(K, M, activation=...)", "teacher_activation="]),
    ("normalised quadratic network", lambda: ov.quadratic_network(2, 2, eta=0.1, normalised=True), V,
     ["normalised=True", "committee_machine"]),
    # states
    ("Q of another K", lambda: state(MODEL, Q=np.eye(3)), V, ["Q has shape (3, 3)", "expected (2, 2)"]),
    ("Q not symmetric", lambda: state(MODEL, Q=[[1, 0], [0.1, 1]]), V, ["Q is not symmetric"]),
    ("Q complex", lambda: state(MODEL, Q=1j * TWO), V, ["Q = ", "not an array of real numbers"]),
    ("R too large", lambda: state(MODEL, R=1.5 * TWO), V, ["not positive semi-definite", "-0.5", "check signs"]),
    ("T with nan", lambda: state(MODEL, T=NAN * TWO), V, ["T contains nan"]),
    ("v of another K in a state", lambda: state(MODEL, v=[1.0]), V, ["v has shape (1,)", "expected (2,)"]),
    ("overlaps of many blocks", lambda: state(COLOURED, ONE, ONE, ONE), V, ["L = 4 blocks", "from_blocks"]),
    ("blocks that are too few", lambda: ov.State.from_blocks(COLOURED, q=[ONE], r=[ONE], t=[ONE]), V,
     ["q has shape (1, 1, 1)", "expected (4, 1, 1)"]),
    ("weights of one axis", lambda: ov.State.from_weights(SINGLE, W=np.ones(5), W_star=np.ones((1, 5))), V,
     ["W has shape (5,)", "(1, N)"]),
    ("weights of two sizes", lambda: ov.State.from_weights(SINGLE, W=np.ones((1, 4)), W_star=np.ones((1, 5))), V,
     ["W has 4 columns", "W_star 5", "same N"]),
    ("weights of no size", lambda: ov.State.from_weights(SINGLE, W=np.ones((1, 0)), W_star=np.ones((1, 0))), V,
     ["N = 0", "integer >= 1"]),
    ("kernel arrays of two sizes", lambda: dataclasses.replace(GOOD, q=[np.eye(3)]), V, ["q has shape", "(1, 2, 2)"]),
    ("negative eigenvalues of a state", lambda: dataclasses.replace(UNBOUND, s=[-1.0]), V, ["s = [-1.0]", ">= 0"]),
    ("no blocks", lambda: ov.State(q=np.zeros((0, 1, 1)), r=np.zeros((0, 1, 1)), tau=np.zeros((0, 1, 1)), T=ONE, v=[1]),
     V, ["r has shape (0, 1, 1)", "at least one block"]),
    ("plain overlaps without eigenvalues", lambda: UNBOUND.plain, V, ["has no eigenvalues", "s="]),
    ("overlaps of inputs that vanish", lambda: state(machine(1, 1, spectrum=ov.Spectrum([0.0])), ONE, 0 * ONE, ONE), V,
     ["variance s = 0", "from_blocks"]),
    ("a state on nothing", lambda: GOOD.on(None), V, ["model = None", "expected a Model", "committee_machine"]),
    ("overlaps of no model", lambda: state(None), V, ["model = None", "expected a Model"]),
    ("blocks of a number", lambda: ov.State.from_blocks(3, q=[ONE], r=[ONE], t=[ONE]), V, ["model = 3", "a Model"]),
    ("weights of no model", lambda: ov.State.from_weights("m", W=ONE, W_star=ONE), V, ["model = 'm'", "a Model"]),
    ("random start of no model", lambda: random_start(None, N=9, rng=1), V, ["model = None", "a Model"]),
    ("random start seeded by text", lambda: MODEL.random_start(N=9, rng="x"), V, ["rng = 'x'", "seed"]),
    ("random start seeded below zero", lambda: MODEL.random_start(N=9, rng=-1), V, ["rng = -1", "integer >= 0"]),
    ("random start of the old generator", lambda: MODEL.random_start(N=9, rng=np.random.RandomState(1)), V,
     ["rng = RandomState", "Generator"]),
    ("a state without eigenvalues", lambda: UNBOUND.Q, V, ["has no eigenvalues", "state.on(model)"]),
    ("a state of another model", lambda: OTHER.on(MODEL), V, ["(1, 1, 1)", "the model expects (1, 2, 2)"]),
    ("random start in half a dimension", lambda: MODEL.random_start(N=0.5, rng=1), V, ["N = 0.5", "integer"]),
    ("random start of another teacher", lambda: MODEL.random_start(N=9, rng=1, teacher="best"), V,
     ["teacher = 'best'", "'ideal'"]),
    ("random start of negative size", lambda: MODEL.random_start(N=9, rng=1, student_scale=-1), V,
     ["student_scale = -1", ">= 0"]),
    ("ideal teacher in small blocks", lambda: machine(1, 3).random_start(N=2, rng=1, teacher="ideal"), V,
     ["M = 3", "smallest has 2", "larger N"]),
    # closure
    ("closure of no model", lambda: closure("model"), V, ["model = 'model'", "expected a Model", "committee_machine"]),
    ("closure of a state", lambda: closure(GOOD), V, ["closure() got a state and R, T", "ov.closure(state)"]),
    ("closure at another shape", lambda: closure(R=np.zeros((2, 3))), V, ["R has shape (2, 3)", "expected (2, 2)"]),
    ("closure at no overlaps", lambda: closure(R=2 * TWO), V, ["[[Q, R], [R^T, T]]", "not positive semi-definite"]),
    ("closure at nan", lambda: closure(v=[NAN, 1.0]), V, ["v contains nan"]),
    ("relu without direction", lambda: closure(RELU, 0 * ONE, 0 * ONE, ONE), V, ["ReLU", "zero norm", "student_scale"]),
    # solve
    ("solve no model", lambda: solve(model="m"), V, ["model = 'm'", "expected a Model", "committee_machine"]),
    ("solve swapped", lambda: ov.solve(GOOD, MODEL, (0, 1)), V, ["model = State", "expected a Model"]),
    ("start of nothing", lambda: solve(start=None), V, ["start = None", "expected a State", "model.random_start"]),
    ("start of weights", lambda: solve(start=np.ones((2, 9))), V, ["start = array", "expected a State"]),
    ("start of a trajectory", lambda: solve(start=TRAJECTORY), V, ["start = Trajectory", "expected a State"]),
    ("rtol of everything", lambda: solve(rtol=1.0), V, ["rtol = 1", "below 1"]),
    ("stop that returns nothing", lambda: solve(stop=lambda alpha, state: None), V, ["stop returned None", "number"]),
    ("stop that answers yes or no", lambda: solve(stop=lambda alpha, state: state.R[0, 0] > 0.5), V,
     ["stop returned False", "changes sign", "- 0.5"]),
    ("stop of one argument", lambda: solve(stop=lambda state: 1.0), V, ["stop(state)", "(alpha, state)"]),
    ("option that is misspelt", lambda: solve(tol=1e-6), TypeError, ["got tol = 1e-06", "expected rtol="]),
    ("times among the options", lambda: solve(t_eval=[0, 1]), TypeError, ["got t_eval", "expected alpha="]),
    ("events among the options", lambda: solve(events=len), TypeError, ["got events", "expected stop="]),
    ("Jacobian for the structured solver", lambda: solve(method="structured", jac=len), V, ["no option jac"]),
    ("largest step nan", lambda: solve(max_step=NAN), V, ["max_step = nan", "> 0"]),
    ("first step as text", lambda: solve(first_step="x"), V, ["first_step = 'x'", "> 0"]),
    ("first step nan", lambda: solve(first_step=NAN), V, ["first_step = nan", "> 0"]),
    ("late by text", lambda: solve(late="yes"), V, ["late = 'yes'", "True or False"]),
    ("progress by number", lambda: solve(progress=2), V, ["progress = 2", "True or False"]),
    ("start of another model", lambda: solve(start=OTHER), V, ["(L, K, M) = (1, 1, 1)", "expects (1, 2, 2)"]),
    ("interval backwards", lambda: solve((3.0, 1.0)), V, ["alpha = (3.0, 1.0)", "from < to"]),
    ("interval of three", lambda: solve((0, 1, 2)), V, ["alpha", "length 3", "(from, to)"]),
    ("interval from before the start", lambda: solve((-1, 1)), V, ["alpha = -1", ">= 0"]),
    ("interval that begins later", lambda: solve((1, 2)), V, ["begins at 1", "time 0", "state.replace(alpha=1)"]),
    ("times before the start", lambda: solve([0.5], dataclasses.replace(GOOD, alpha=1.0)), V,
     ["begins at 0.5", "time 1", "state.replace(alpha=0.5)"]),
    ("schedule that is a number", lambda: solve(schedule=0.5), V, ["schedule = 0.5", "ov.Schedule.cosine"]),
    ("schedule of an unknown number", lambda: solve(schedule={"kappa": ov.Schedule.constant()}), V,
     ["schedule = 'kappa'", "'weight_decay'"]),
    ("schedule below zero", lambda: solve(schedule=ov.Schedule.from_function(lambda a: 0.5 - a)), V,
     ["factor of eta", "alpha = 0.5", ">= 0"]),
    ("batches of halves", lambda: simulate(schedule={"batch_size": ov.Schedule.constant(1.5)}), V,
     ["the batch 1.5", "integer >= 1"]),
    ("interval without end", lambda: solve((0, INF)), V, ["alpha = inf", "finite"]),
    ("times that decrease", lambda: solve([0.0, 2.0, 1.0]), V, ["alpha", "increasing", ">= 0"]),
    ("no times", lambda: solve([]), V, ["alpha", "at least one"]),
    ("times as text", lambda: solve("10"), V, ["alpha = ", "not an array of real numbers"]),
    ("times in two axes", lambda: solve([[0, 1]]), V, ["alpha has shape (1, 2)", "np.linspace"]),
    ("rtol zero", lambda: solve(rtol=0.0), V, ["rtol = 0.0", "> 0"]),
    ("rtol nan", lambda: solve(rtol=NAN), V, ["rtol = nan", "> 0"]),
    ("atol of two numbers", lambda: solve(atol=[1e-9, 1e-8]), V, ["atol = [1e-09, 1e-08]", "number > 0"]),
    ("unknown method", lambda: solve(method="Euler"), V, ["method = 'Euler'", "DOP853", "structured"]),
    ("method is no solver", lambda: solve(method=dict), V, ["method = <class 'dict'>", "OdeSolver"]),
    ("stop below zero", lambda: solve(stop=-1.0), V, ["stop = -1.0", "eps_g falls below it"]),
    ("stop that is nan", lambda: solve(stop=lambda alpha, state: NAN), V, ["stop returned nan", "changes sign"]),
    ("late where nothing is learned", lambda: solve(model=machine(noise=0.1), late=True), V,
     ["late=True with label noise", "noise=0.1", "perfect learning"]),
    ("relu start without direction", lambda: solve(model=RELU, start=state(RELU, 0 * ONE, 0 * ONE, ONE)), V,
     ["ReLU", "zero norm"]),
    ("state at a time not reached", lambda: TRAJECTORY.at(5.0), V, ["alpha = 5", "[0, 2]"]),
    ("state at two times", lambda: TRAJECTORY.at([0.5, 1.0]), V, ["alpha = [0.5, 1.0]", "One time"]),
    ("record that is not there", lambda: TRAJECTORY[7], IndexError, ["i = 7", "from -3 to 2"]),
    ("several records", lambda: TRAJECTORY[0:2], TypeError, ["i = slice(0, 2, None)", "one record"]),
    ("no axes", lambda: TRAJECTORY.plot(ax=3), V, ["ax = 3", "Axes"]),
    # simulate
    ("simulate no model", lambda: ov.simulate("m", N=40, alpha=1, rng=1), V, ["model = 'm'", "expected a Model"]),
    ("simulate from a number", lambda: simulate(start=3), V, ["start = 3", "expected a State", "random_start"]),
    ("simulate from text", lambda: simulate(start="x"), V, ["start = 'x'", "expected a State"]),
    ("simulate from weights", lambda: simulate(start=np.ones((1, 40))), V, ["start = array", "expected a State"]),
    ("simulate from a mixed list", lambda: simulate(start=[OTHER, 3], runs=2), V, ["start[1] = 3", "expected a State"]),
    ("method in a list", lambda: simulate(method=["direct"]), V, ["method = ['direct']", "'auto'"]),
    ("workers as a number", lambda: simulate(executor=4), V, ["executor = 4", "ProcessPoolExecutor(4)"]),
    ("single precision without weights", lambda: simulate(method="reduced", dtype="float32"), V,
     ["dtype = 'float32'", "method='direct'"]),
    ("precision as a type", lambda: simulate(dtype=np.float32), V, ["dtype = ", "'float32'"]),
    ("runs seeded by text", lambda: simulate(rng="x"), V, ["rng = 'x'", "seed"]),
    ("runs seeded by halves", lambda: simulate(rng=1.5), V, ["rng = 1.5", "seed"]),
    ("runs seeded below zero", lambda: simulate(rng=-1), V, ["rng = -1", "integer >= 0"]),
    ("runs of the old generator", lambda: simulate(rng=np.random.RandomState(1)), V,
     ["rng = RandomState", "Generator"]),
    ("runs seeded by truth", lambda: simulate(rng=True), V, ["rng = True", "seed"]),
    ("scale beside a start", lambda: simulate(start=OTHER, student_scale="x"), V, ["student_scale = 'x'", ">= 0"]),
    ("no input dimension", lambda: simulate(N=0), V, ["N = 0", "integer >= 1"]),
    ("input dimension as text", lambda: simulate(N="40"), V, ["N = '40'", "integer"]),
    ("blocks of no whole size", lambda: simulate(COLOURED, N=30), V, ["N = 30", "try N = "]),
    ("half a run", lambda: simulate(runs=0.5), V, ["runs = 0.5", "integer >= 1"]),
    ("times closer than a step", lambda: simulate(alpha=[0, 0.001]), V, ["alpha", "closer than one step", "0.025"]),
    ("simulation backwards", lambda: simulate(alpha=(2, 1)), V, ["alpha = (2, 1)", "from < to"]),
    ("unknown simulator", lambda: simulate(method="exact"), V, ["method = 'exact'", "'auto'", "direct"]),
    ("unknown precision", lambda: simulate(dtype="float16"), V, ["dtype = 'float16'", "'float32'"]),
    ("too few starts", lambda: simulate(start=[OTHER], runs=2), V, ["start has 1 states", "runs = 2"]),
    ("start of another size", lambda: simulate(start=GOOD), V, ["(1, 2, 2)", "model expects (1, 1, 1)"]),
    ("students of negative size", lambda: simulate(student_scale=-1), V, ["student_scale = -1", ">= 0"]),
    ("run that is not there", lambda: RUNS.state(5, 0), IndexError, ["run = 5", "from -2 to 1"]),
    ("start of a run that is not there", lambda: RUNS.start(2), IndexError, ["run = 2", "from -2 to 1"]),
    ("mean of nothing", lambda: RUNS.mean("W"), V, ["name = 'W'", "eps_g"]),
    ("quantile of nothing", lambda: RUNS.quantile("W", 0.5), V, ["name = 'W'", "eps_g"]),
    ("quantile beyond one", lambda: RUNS.quantile("Q", 50), V, ["q = 50", "between 0 and 1"]),
    ("error of one run", lambda: SINGLE_RUN.standard_error("Q"), V, ["one run", "runs >= 2"]),
    ("fluctuations of one run", lambda: plotting.fluctuations([SINGLE_RUN]), V, ["one run", "runs >= 2"]),
    ("theory at other times", lambda: plotting.approach(
        [RUNS], dataclasses.replace(TRAJECTORY, alpha=np.array([0, 5, 9]))), V,
     ["theory is not recorded", "N = 40", "alpha"]),
    # compress
    ("compress no model", lambda: ov.compress("m", START, 5), V, ["model = 'm'", "expected a Model"]),
    ("compress nothing", lambda: ov.compress(COLOURED, None, 5), V, ["state = None", "expected a State"]),
    ("compress swapped", lambda: ov.compress(START, COLOURED, 5), V, ["model = State", "expected a Model"]),
    ("error of no nodes", lambda: ov.compression_error(COLOURED, START, None, [1.0]), V, ["nodes = None", "integer"]),
    ("horizon of no length", lambda: ov.compress(COLOURED, START, 3, until=0), V, ["until = 0", "> 0"]),
    ("too few nodes", lambda: ov.compress(COLOURED, COLOURED.random_start(N=40, rng=1), 1), V, ["nodes = 1", "3"]),
    ("nodes in halves", lambda: ov.compress(COLOURED, COLOURED.random_start(N=40, rng=1), 3.5), V, ["nodes = 3.5"]),
    ("state of another spectrum", lambda: ov.compress(COLOURED, OTHER, 3), V, ["(1, 1, 1)", "expects (4, 1, 1)"]),
    # stability
    ("Hessian at a matrix", lambda: ov.hessian(MODEL, TWO), V, ["state = ", "expected a State", "Trajectory"]),
    ("Hessian of another model", lambda: ov.hessian(MODEL, OTHER), V, ["(1, 1, 1)", "expects (1, 2, 2)"]),
    ("orthonormal students in small blocks", lambda: machine(3, 1).random_start(N=2, rng=1, students="orthonormal"), V,
     ["K = 3", "smallest has 2", "larger N"]),
    ("linearised matrix", lambda: ov.linearise(MODEL, TWO), V, ["state = ", "expected a State", "traj[-1]"]),
    ("linearised by a state", lambda: ov.linearise(GOOD, MODEL), V, ["model = State", "expected a Model"]),
    ("linearised another model", lambda: ov.linearise(MODEL, OTHER), V, ["(1, 1, 1)", "expects (1, 2, 2)"]),
    ("no eigenvalues wanted", lambda: ov.linearise(MODEL, GOOD, count=0), V, ["count = 0", "integer >= 1"]),
    ("too many eigenvalues", lambda: ov.linearise(MODEL, GOOD, count=8), V, ["count = 8", "7 order parameters"]),
    ("tolerance zero", lambda: ov.fixed_point(MODEL, GOOD, tol=0), V, ["tol = 0", "> 0"]),
    ("no iterations", lambda: ov.fixed_point(MODEL, GOOD, max_iterations=0), V, ["max_iterations = 0", ">= 1"]),
    ("guess is no state", lambda: ov.fixed_point(MODEL, None), V, ["guess = None", "expected a State"]),
    ("critical eta of a flow", lambda: ov.critical_eta(machine(1, 1, gradient_flow=True), OTHER), V,
     ["a gradient flow (gradient_flow=True)", "does not depend on eta"]),
    ("critical eta at no fixed point", lambda: ov.critical_eta(SINGLE, OTHER), V, ["no fixed point", "fixed_point"]),
    ("search of three", lambda: ov.critical_eta(LINEAR, PERFECT, search=(0.1, 0.2, 0.6)), V, ["search", "(2,)"]),
    ("search ragged", lambda: ov.critical_eta(LINEAR, PERFECT, search=[[1], [1, 2]]), V, ["search", "real numbers"]),
    ("search elsewhere", lambda: ov.critical_eta(LINEAR, PERFECT, search=(1, 2)), V, ["search = (1, 2)", "0.5"]),
    # sweep
    ("function is none", lambda: ov.sweep(3, {"x": [1]}), V, ["function = 3", "callable"]),
    ("no grid", lambda: ov.sweep(identity, {}), V, ["grid = {}", "neither may be empty"]),
    ("grid is a list", lambda: ov.sweep(identity, [1, 2]), V, ["grid = [1, 2]", "list of dicts"]),
    ("axis is a number", lambda: ov.sweep(identity, {"x": 0.5}), V, ["grid['x'] = 0.5", "Try [0.5]"]),
    ("axis is empty", lambda: ov.sweep(identity, {"x": []}), V, ["grid['x'] is empty", "at least one"]),
    ("names that differ", lambda: ov.sweep(identity, [{"x": 1}, {"y": 1}]), V, ["grid[1]", "['y']", "['x']"]),
    ("names that do not fit", lambda: ov.sweep(identity, {"y": [1]}), V, ["identity(x)", "['y']"]),
    ("seed below zero", lambda: ov.sweep(identity, {"x": [1]}, rng=-1), V, ["rng = -1", "seed"]),
    ("executor is a number", lambda: ov.sweep(identity, {"x": [1]}, executor=4), V, ["executor = 4", "Executor"]),
    ("checkpoint is a number", lambda: ov.sweep(identity, {"x": [1]}, checkpoint=1), V, ["checkpoint = 1", "path"]),
    ("checkpoint of another kind", lambda: ov.sweep(identity, {"x": [1]}, checkpoint=__file__), V,
     ["checkpoint", "not written by a sweep", "Nothing was changed"]),
    ("values that are text", lambda: TEXTS.array(), V, ["type str", "numbers", "sweep.array(lambda"]),
    ("values of two shapes", lambda: SHAPES.array(), V, ["differ in shape", "(2,)", "(3,)"]),
    ("getter is a number", lambda: SWEEP.array(3), V, ["getter = 3", "function"]),
    ("two indices of one axis", lambda: SWEEP[0, 1], IndexError, ["2 indices", "expected 1", "('x',)"]),
    # static
    ("teacher without readouts", lambda: teacher(v2=None), V, ["neither v2 nor beta", "beta=... with k=..."]),
    ("readouts of other sum", lambda: teacher(v2=[0.5, 0.1]), V, ["v2 sums to 0.6", "normalise=True"]),
    ("readouts that vanish", lambda: teacher(v2=[1.0, 0.0]), V, ["v2 has 1 entries <= 0", "Drop the zeros"]),
    ("readouts of another width", lambda: teacher(v2=[1.0], k=2), V, ["k = 2", "v2 has 1 entries"]),
    ("width in halves", lambda: teacher(beta=1.0, k=2.5), V, ["k = 2.5", "integer >= 1"]),
    ("readouts that grow", lambda: teacher(beta=-1.0, k=2), V, ["beta = -1.0", ">= 0"]),
    ("noise of a teacher below zero", lambda: teacher(noise=-1), V, ["noise = -1", "standard deviation"]),
    ("no activation", lambda: teacher(activation=None), V, ["activation = None", "dictionary"]),
    ("activation of degree two", lambda: teacher(activation={2: 1.0}), V, ["degree 2", "allow_degree2=True"]),
    ("activation of degree one", lambda: teacher(activation=ov.linear), V, ["linear", "degree 3", "ov.tanh"]),
    ("negative coefficients", lambda: teacher(activation={3: -1.0}), V, ["{3: -1.0}", "c_l >= 0"]),
    ("activation that jumps", lambda: teacher(activation=np.sign), V, ["sign", "smooth", "ov.relu"]),
    ("degrees that are none", lambda: teacher(remove=("a",)), V, ["remove = ('a',)", "degrees >= 0"]),
    ("no data", lambda: teacher().solve(nu=0), V, ["nu = 0", "samples over the input dimension"]),
    ("data in an array", lambda: teacher().solve(nu=[1.0, 2.0]), V, ["nu = [1.0, 2.0]", "number > 0"]),
    ("unknown selection", lambda: teacher().solve(nu=1.0, selection="best"), V, ["selection = 'best'", "informed"]),
    ("negative signal", lambda: teacher().m(-1.0), V, ["lam", "negative", ">= 0"]),
    ("curve to a point", lambda: teacher().curve(5.0), V, ["nu has shape ()", "(from, to)"]),
    ("curve that falls", lambda: teacher().curve(s=[2.0, 1.0]), V, ["s does not increase", "np.geomspace"]),
    ("curve of one point", lambda: teacher().curve((1, 10), points=1), V, ["points = 1", ">= 2"]),
    ("curve to perfection", lambda: teacher(noise=0.0).curve((1, 100)), V, ["beyond k = 5", "add noise"]),
    ("feature that is not there", lambda: teacher().window(7), V, ["feature = 7", "0 to 4"]),
    ("feature by truth value", lambda: teacher().window(True), V, ["feature = True", "0 to 4"]),
    ("cut beyond the width", lambda: teacher().solve(nu=9.0).cut(9), V, ["k_s = 9", "np.arange(6)"]),
    ("correlation beyond one", lambda: correlation_of(HE3)(2.0), V, ["q = ", "between 0 and 1"]),
    ("law without noise", lambda: law(noise=0), V, ["noise = 0", "HierarchicalTeacher"]),
    ("leading law of slow decay", lambda: law(beta=0.3).leading(1.0), V, ["beta = 0.3", "SubcriticalPowerLaw"]),
    ("law of no data", lambda: law().leading(-1.0), V, ["nu = -1.0", "> 0"]),
    ("profile at the front's origin", lambda: law().profile(0.0), V, ["x = ", "> 0", "above zero"]),
    ("refined law of no width", lambda: law().refined(1.0, k=0), V, ["k = 0", "integer >= 1"]),
    ("subcritical above one half", lambda: subcritical(beta=0.5), V, ["beta = 0.5", "PowerLawLimit"]),
    ("subcritical of no width", lambda: subcritical(gamma=0), V, ["gamma = 0", "k/d"]),
    ("subcritical of no data", lambda: subcritical().solve(0), V, ["alpha = 0", "samples over d^2"]),
    ("subcritical of no signal", lambda: subcritical().phase(0), V, ["lam = 0", "> 0"]),
    ("equal readouts without noise", lambda: equal(noise=0), V, ["noise = 0", "HierarchicalTeacher"]),
    ("perfect overlap", lambda: equal().data(1.0), V, ["q = ", "0 < q < 1"]),
    ("potential at no data", lambda: equal().potential(0.5, NAN), V, ["A = nan", ">= 0"]),
    ("student of no teacher", lambda: student(MODEL), V, ["teacher = Model", "HierarchicalTeacher"]),
    ("student of another start", lambda: student(start="best"), V, ["start = 'best'", "'random'"]),
    ("student seeded by text", lambda: student(rng="x"), V, ["rng = 'x'", "seed"]),
    ("student without samples", lambda: student(n=0), V, ["n = 0", "integer >= 1"]),
    # linear theory
    ("modes of eigenvalues", lambda: linear.modes([1.0], 0.5), V, ["spectrum = [1.0]", "expected a Spectrum"]),
    ("modes without learning", lambda: linear.modes(ov.isotropic(), 0), V, ["eta = 0", "> 0"]),
    ("error at text", lambda: linear.error(ov.isotropic(), 0.5, "x"), V, ["alpha = 'x'", ">= 0"]),
    ("error before the start", lambda: linear.error(ov.isotropic(), 0.5, -1.0), V, ["alpha", "negative", ">= 0"]),
    ("error of another start", lambda: linear.error(ov.isotropic(), 0.5, 1.0, m0=[1.0, 1.0]), V,
     ["m0 has shape (2,)", "(1,)"]),
    ("limit of an unstable rate", lambda: linear.limit_error(ov.isotropic(), 3.0, noise=0.1), V, ["eta = 3", "2"]),
    ("mean of negative steps", lambda: linear.sgd_mean(ov.isotropic(), 0.1, -1, N=10), V, ["steps", ">= 0"]),
    ("critical rate in half a dimension", lambda: linear.eta_critical(ov.isotropic(), N=0.5), V, ["N = 0.5"]),
    ("reduce no model", lambda: linear.reduce(None, OTHER), V, ["model = None", "expected a Model"]),
    ("reduce from nowhere", lambda: linear.reduce(LINEAR, None), V, ["start = None", "expected a State"]),
    ("reduce what is not linear", lambda: linear.reduce(SINGLE, OTHER), V, ["not linear", "ov.linear"]),
    ("flow at an object", lambda: linear.flow_error(ov.isotropic(), 0.5, MODEL), V, ["alpha = Model", ">= 0"]),
    ("flow of negative weights", lambda: linear.flow_overlaps(ov.isotropic(), 0.5, 1.0, student_scale=-1), V,
     ["student_scale = -1", ">= 0"]),
    ("integral without decay", lambda: linear.integral_error(0.0, 10, 0.5, 1.0), V, ["beta = 0.0", "> 0"]),
    ("integral with ends by text", lambda: linear.integral_error(1.0, 10, 0.5, 1.0, end_terms="x"), V,
     ["end_terms = 'x'", "True or False"]),
    ("bound as printed or not", lambda: linear.integral_bound(1.0, 10, printed=2), V, ["printed = 2", "True or False"]),
    ("window of no eigenvalues", lambda: linear.window(1.0, 0, 0.5), V, ["L = 0", "integer >= 1"]),
    # trainable features
    ("more features than directions", lambda: features.error(COLOURED.spectrum, 0.1, 1.0, N_l=9), V,
     ["N_l = 9", "N = 4"]),
    ("features of eigenvalues", lambda: features.error([1.0], 0.1, 1.0, N_l=1), V, ["spectrum = [1.0]", "a Spectrum"]),
    ("features of no covariance", lambda: features.error_covariance([[1, 2], [2, 1]], 0.1, 1.0, N_l=1), V,
     ["not positive semi-definite"]),
    ("features of a random basis in halves", lambda: features.error_haar(COLOURED.spectrum, N_l=1.5), V, ["N_l = 1.5"]),
    ("asymptote of text", lambda: features.asymptote(1.0, 100, "x"), V, ["N_l = 'x'", "integer"]),
    ("asymptote of nothing", lambda: features.asymptote(1.0, 100, None), V, ["N_l = None", "integer"]),
    ("asymptote by halves or not", lambda: features.asymptote(1.0, 100, 10, half_integer=2), V, ["half_integer = 2"]),
    ("power law at nan", lambda: features.power_law_error(1.0, 100, 0.5, NAN, N_l=10), V, ["alpha", "nan", ">= 0"]),
    ("ratio without decay", lambda: features.haar_ratio(0), V, ["beta = 0", "> 0"]),
    ("feature exponent of text", lambda: features.exponent("x"), V, ["beta = 'x'", "> 0"]),
    # plateau
    ("plateau of no covariance", lambda: plateau.plateau([[1, 2], [2, 1]]), V, ["T", "not positive semi-definite"]),
    ("plateau of a vector", lambda: plateau.plateau([1.0]), V, ["T has shape (1,)", "(M, M)"]),
    ("plateau without a teacher", lambda: plateau.plateau(TWO, v_star=0.0), V, ["v_star is zero"]),
    ("plateau of half a student", lambda: plateau.symmetric_plateau(2, K=1.5), V, ["K = 1.5", "integer"]),
    ("plateau of correlated teachers", lambda: plateau.symmetric_plateau(2, D1=3.0), V, ["D1 = 3", "covariance"]),
    ("moments of text", lambda: plateau.moments("x", TWO), V, ["c = 'x'", "(M,)"]),
    ("moments of another size", lambda: plateau.moments([0.5], TWO), V, ["T has shape (2, 2)", "(..., 1, 1)"]),
    ("teacher moments of no state", lambda: plateau.teacher_moments(None, [1]), V, ["state = None", "a State"]),
    ("teacher moments of one order", lambda: plateau.teacher_moments(START, 1), V, ["orders has shape ()", "[1, 2]"]),
    ("plateau state of no model", lambda: plateau.plateau_state(None, START), V, ["model = None", "a Model"]),
    ("plateau state from nowhere", lambda: plateau.plateau_state(COLOURED, None), V, ["start = None", "a State"]),
    ("plateau state of relu", lambda: plateau.plateau_state(RELU, OTHER), V, ["relu", "expected erf"]),
    ("curvature of nan", lambda: plateau.curvature(NAN * TWO), V, ["T contains nan"]),
    ("escape of another moment", lambda: plateau.escape_matrix(TWO, ONE, eta=0.1), V,
     ["T2 has shape (1, 1)", "(2, 2)"]),
    ("escape without learning", lambda: plateau.escape_rates(TWO, TWO, eta=0), V, ["eta = 0", "> 0"]),
    ("escape time of text", lambda: plateau.escape_time(2, eta=0.1, T2="x"), V, ["T2 = 'x'", "> 0"]),
    ("length without growth", lambda: plateau.length(0.0, N=100, student_scale=1.0), V, ["rate = 0.0", "> 0"]),
    ("wide committee without learning", lambda: plateau.wide_escape_time(9, eta=-1.0, T2=2.0), V, ["eta = -1.0"]),
    ("second moment without decay", lambda: plateau.second_moment(beta=0, L=9), V, ["beta = 0", "> 0"]),
    # late times
    ("late matrices of unequal layers", lambda: late_time.matrices(2, eta=0.1, v=1.0, v_star=2.0), V,
     ["v = 1", "v_star = 2", "learnable"]),
    ("late generator of eigenvalues", lambda: late_time.generator([1.0], 2, eta=0.1), V, ["spectrum = [1.0]"]),
    ("late generator by text", lambda: late_time.generator(ov.isotropic(), 2, eta=0.1, gradient_flow="x"), V,
     ["gradient_flow = 'x'", "True or False"]),
    ("late errors of another mean", lambda: late_time.first_order(1.0, ov.Spectrum([2.0]), 2, eta=0.1), V,
     ["mean 2", "expected 1"]),
    ("late errors at text", lambda: late_time.first_order("x", ov.isotropic(), 2, eta=0.1), V, ["alpha = 'x'"]),
    ("late errors before the start", lambda: late_time.first_order(-1.0, ov.isotropic(), 2, eta=0.1), V,
     ["alpha", "negative"]),
    ("late slope for ever", lambda: late_time.local_slope(INF, ov.isotropic(), 2, eta=0.1), V, ["alpha", "finite"]),
    ("late differences of nothing", lambda: late_time.differences(None), V, ["state = None", "a State"]),
    ("late differences without eigenvalues", lambda: late_time.differences(UNBOUND), V, ["a state with eigenvalues"]),
    ("late overlaps of text", lambda: late_time.second_order("x", TWO, TWO), V, ["Q = 'x'", "real numbers"]),
    ("late overlaps of two sizes", lambda: late_time.second_order(TWO, ONE, TWO), V, ["(2, 2), (1, 1), (2, 2)"]),
    ("late rates of half a unit", lambda: late_time.relaxation_rates(1.5), V, ["M = 1.5", "integer"]),
    ("late exponent without decay", lambda: late_time.exponent(0), V, ["beta = 0", "> 0"]),
    # the Cayley-Hamilton hierarchy
    ("hierarchy of no model", lambda: hierarchy(None), V, ["model = None", "a Model"]),
    ("hierarchy from nowhere", lambda: hierarchy(start=None), V, ["start = None", "a State"]),
    ("hierarchy on the manifold", lambda: hierarchy(MANIFOLD, MANIFOLD.random_start(N=20, rng=1)), V,
     ["teacher of latents", "Supported by solve"]),
    ("hierarchy in another basis", lambda: hierarchy(basis="best"), V, ["basis = 'best'", "'orthonormal'"]),
    ("hierarchy of too many powers", lambda: hierarchy(machine(1, 1, spectrum=ov.power_law(beta=1.0, L=9)),
     machine(1, 1, spectrum=ov.power_law(beta=1.0, L=9)).random_start(N=90, rng=1), basis="monomial"), V,
     ["L = 9", "L <= 8", "orthonormal"]),
    ("hierarchy by another structure", lambda: hierarchy(method="structured"), V, ["'structured'", "spectral basis"]),
    ("hierarchy of everything", lambda: hierarchy(rtol=2.0), V, ["rtol = 2", "below 1"]),
    ("hierarchy with a misspelt option", lambda: hierarchy(tol=1e-6), V, ["no option tol", "max_step"]),
    ("hierarchy that stops at nothing", lambda: hierarchy(stop=lambda a, s: None), V, ["stop returned None"]),
    ("late differences of latents", lambda: late_time.differences(LATENT), V, ["does not act on x", "Try"]),
    ("order parameters of latents", lambda: cayley_hamilton.order_parameters(LATENT, 1), V, ["depends on more", "Use"]),
    ("order parameters of nothing", lambda: cayley_hamilton.order_parameters(None, 1), V, ["state = None", "a State"]),
    ("order parameters of half a level", lambda: cayley_hamilton.order_parameters(START, 0.5), V, ["order = 0.5"]),
    ("equal eigenvalues", lambda: cayley_hamilton.companion_matrix([1.0, 1.0]), V, ["distinct", "Merge"]),
    ("basis by number", lambda: cayley_hamilton.polynomial_basis(ov.power_law(beta=1.0, L=3), 2), V, ["name = 2"]),
    ("noise of steps", lambda: steps(noise=None), V, ["noise = None", "standard deviation"]),
    ("imaginary rates of steps", lambda: steps(eta_tilde=1j), V, ["eta_tilde = 1j", "real numbers"]),
    ("noise of one step", lambda: stepped(noise="a"), V, ["noise = 'a'; expected a finite"]),
    ("noise of the gradient", lambda: stepped(step_noise=-0.2), V, ["step_noise = -0.2"]),
    ("huge kink", lambda: srf(breakpoints=10**400), V, ["breakpoints = 1000", "jumps and kinks"]),
    ("degrees of text", lambda: equal(remove="a"), V, ["remove = 'a'", "(0, 1, 2)"]),
    ("degrees by truth value", lambda: equal(remove=[True]), V, ["remove = [True]", "degrees >= 0"]),
    ("fractional degree", lambda: equal(remove=1.5), V, ["remove = 1.5", "degrees >= 0"]),
    ("features by array", lambda: teacher(v2=[0.7, 0.3], k=np.array([3, 4])), V, ["k = array([3, 4])", "integer"]),
    ("normalise by array", lambda: teacher(v2=[0.7, 0.3], normalise=TWO), V, ["normalise = ", "True or False"]),
    ("polynomials of no spectrum", lambda: cayley_hamilton.polynomial_basis(None), V,
     ["spectrum = None", "a Spectrum"]),
    # the hidden manifold
    ("manifold without latents", lambda: hidden(ratio=0), V, ["ratio = 0", "D / N"]),
    ("manifold of no nodes", lambda: hidden(nodes=0), V, ["nodes = 0", "integer >= 1"]),
    ("manifold of unknown features", lambda: hidden(features="sin"), V, ["features = 'sin'", "sign", "function"]),
    ("manifold of constant features", lambda: hidden(features=np.ones_like), V, ["constant", "varies"]),
    ("manifold of an array", lambda: hidden(features=TWO), V, ["features = ", "function"]),
    ("manifold of latents that vanish", lambda: hidden(latent_scale=0), V, ["latent_scale = 0", "> 0"]),
    ("manifold of latents without scale", lambda: hidden(latent_scale=None), V, ["latent_scale = None", "> 0"]),
    ("manifold with kinks of a name", lambda: hidden(kinks=(1.0,)), V, ["kinks = (1.0,)", "user function"]),
    ("limit start of other students", lambda: MANIFOLD.limit_start(P=ONE, T=ONE), V, ["P has shape (1, 1)", "(2, 2)"]),
    ("limit start of impossible overlaps", lambda: MANIFOLD.limit_start(P=[[1, 0], [0, 2]], T=-ONE), V,
     ["not positive semi-definite"]),
    ("manifold start in half a dimension", lambda: MANIFOLD.random_start(N=0.5, rng=1), V, ["N = 0.5", "integer"]),
    ("manifold start seeded by text", lambda: MANIFOLD.random_start(N=9, rng="x"), V, ["rng = 'x'", "seed"]),
    ("manifold start of ideal teachers", lambda: MANIFOLD.random_start(N=9, rng=1, teacher="ideal"), V,
     ["teacher = 'ideal'", "'random'", "limit_start"]),
    ("overlaps on the manifold", lambda: state(MANIFOLD, TWO, TWO, TWO), V, ["acts on the latents", "limit_start"]),
    ("realisation of another F", lambda: MANIFOLD.realisation(**WEIGHTS._replace(F=np.ones((20, 3)))._asdict()), V,
     ["W_star has shape (1, 10)"]),
    ("realisation of other moments", lambda: MANIFOLD.realisation(**WEIGHTS._asdict(), moments="x"), V,
     ["moments = 'x'", "'ge' or 'exact'"]),
    ("realisation normalised by text", lambda: MANIFOLD.realisation(**WEIGHTS._asdict(), normalise_rows="x"), V,
     ["normalise_rows = 'x'", "True or False"]),
    ("manifold weights of a committee", lambda: manifold_sgd.random_weights(MODEL, N=9, rng=1), V,
     ["model = Model", "hidden_manifold"]),
    ("manifold weights in thirds", lambda: manifold_sgd.random_weights(MANIFOLD, N=21, rng=1), V, ["N = 21", "Try N"]),
    ("manifold runs from overlaps", lambda: manifold(start=GOOD), V, ["start=", "weights=(W, W_star, F)"]),
    ("manifold runs from an array", lambda: manifold(weights=TWO), V, ["weights = array", "(W, W_star, F)"]),
    ("manifold runs from too few weights", lambda: manifold(weights=[WEIGHTS], runs=2), V, ["1 tuples", "runs = 2"]),
    ("manifold runs without weights", lambda: manifold(method="reduced", test=64), V,
     ["method = 'reduced'", "'direct'"]),
    ("manifold runs of latents by name", lambda: manifold(latents="mixture"), V, ["latents = 'mixture'", "callable"]),
    ("manifold runs of latents of a size", lambda: manifold(latents=lambda rng, n, D: np.ones(D)), V,
     ["latents(rng, 2, 10) has shape (10,)", "(2, 10)"]),
    ("manifold runs of latents at nan", lambda: manifold(latents=lambda rng, n, D: np.full((n, D), NAN)), V,
     ["latents(rng, 2, 10)", "nan"]),
    ("manifold runs centred by text", lambda: manifold(center="x"), V, ["center = 'x'", "True or False"]),
    ("manifold runs in no blocks", lambda: manifold(chunk=0), V, ["chunk = 0", "integer >= 1"]),
    ("manifold runs normalised by number", lambda: manifold(normalise_rows=2), V, ["normalise_rows = 2"]),
    ("committee with latents", lambda: simulate(latents=len, center=False), V, ["latents, center", "HiddenManifold"]),
    # latents and distances
    ("latents without scale", lambda: latents.gaussian(0), V, ["scale = 0", "> 0"]),
    ("mixture of another kind", lambda: latents.mixture(kind="own", means=[1.0]), V, ["kind = 'own'", "'shared'"]),
    ("mixture kind by array", lambda: latents.mixture(kind=TWO, means=[1.0]), V, ["kind = array", "'shared'"]),
    ("mixture standardised by text", lambda: latents.mixture(kind="shared", means=[1.0], standardise="x"), V,
     ["standardise = 'x'", "'population'"]),
    ("mixture of odd weights", lambda: latents.mixture(kind="shared", means=[1.0, 2.0], weights=[0.5, 0.6]), V,
     ["weights", "1.1"]),
    ("mixture of vectors of no shape", lambda: latents.mixture(kind="shared_vector", means=[1.0]), V, ["(m, D)"]),
    ("mixture of a paper by text", lambda: latents.paper([1.0], standardised="x"), V, ["standardised = 'x'", "True"]),
    ("means seeded by text", lambda: latents.uniform_means(1.0, 2, rng="x"), V, ["rng = 'x'", "seed"]),
    ("divergence of vectors", lambda: latents.kl_divergence([1.0], kind="shared_vector"), V, ["kl_monte_carlo"]),
    ("divergence of one sample", lambda: latents.kl_monte_carlo([[1.0]], rng=1, samples=1), V, ["samples = 1"]),
    ("log times backwards", lambda: log_times(0.01), V, ["alpha_max = 0.01", "> 0.1"]),
    ("distance from nothing", lambda: ov.tlog_rmse(None, RUNS), V, ["theory = None", "Trajectory"]),
    ("distance of nothing", lambda: ov.tlog_rmse(TRAJECTORY, None), V, ["simulation = None", "overlaps.simulate"]),
    ("distance from too few", lambda: ov.tlog_rmse([TRAJECTORY] * 3, RUNS), V, ["3 trajectories", "one for each of 2"]),
    ("distance at other times", lambda: ov.tlog_rmse(TRAJECTORY, RUNS), V, ["recorded at 3 times", "simulation.alpha"]),
    ("distance of another kind", lambda: ov.tlog_rmse(TRAJECTORY, RUNS, variant="abs"), V,
     ["variant = 'abs'", "'rmse'"]),
    # spiked random features
    ("spike of no width", lambda: srf(beta=0), V, ["beta = 0", "width"]),
    ("spike beyond the target", lambda: srf(gamma=1.5), V, ["gamma = 1.5", "-1 <= gamma <= 1"]),
    ("spike without bulk", lambda: srf(c=0), V, ["c = 0", "variance"]),
    ("spike at nan", lambda: srf(r=NAN), V, ["r = nan", "finite"]),
    ("spike with bias by text", lambda: srf(bias="yes"), V, ["bias = 'yes'", "True or False"]),
    ("spike of other rows", lambda: srf(rows="x"), V, ["rows = 'x'", "'iid' or 'orthonormal'"]),
    ("spike of wide orthonormal rows", lambda: srf(rows="orthonormal", beta=2.0), V, ["beta = 2.0", "beta <= 1"]),
    ("spike of a target with a mean", lambda: ov.static.SpikedRandomFeatures(np.tanh, np.cos, r=1, gamma=1, beta=1), V,
     ["target has the mean 0.6", "Subtract it"]),
    ("spike of no student", lambda: ov.static.SpikedRandomFeatures("tanh", np.sin, r=1, gamma=1, beta=1), V,
     ["student = 'tanh'", "function"]),
    ("spikes that are equal", lambda: srf(r=[1.0, -1.0]), V, ["equal blocks", "Merge"]),
    ("spikes of odd fractions", lambda: srf(r=[1.0, 2.0], fractions=[0.5, 0.6]), V, ["fractions", "sum 1"]),
    ("step of an even student", lambda: stepped(np.cos), V, ["student", "is not odd", "np.tanh"]),
    ("step backwards", lambda: stepped(eta_tilde=-1), V, ["eta_tilde = -1", ">= 0"]),
    ("step on negative data", lambda: stepped(alpha0=-1), V, ["alpha0 = -1", ">= 0"]),
    ("step of data in an array", lambda: stepped(alpha0=TWO), V, ["alpha0 = array", "number >= 0"]),
    ("step in other units", lambda: stepped(scaling="n"), V, ["scaling = 'n'", "'d' or 'p'"]),
    ("step of negative noise", lambda: stepped(step_noise=-1), V, ["step_noise = -1", "standard deviation"]),
    ("step of no readout", lambda: stepped(readout=[]), V, ["readout has shape (0,), no entries", "(1.0,)"]),
    ("step of fractions alone", lambda: stepped(fractions=[1.0]), V, ["without readout", "letters"]),
    ("ridge of no data", lambda: SRF.solve(alpha=0, lam=0.1), V, ["alpha = 0", "> 0"]),
    ("ridge without penalty", lambda: SRF.solve(alpha=1.0, lam=0), V, ["lam = 0", "> 0"]),
    ("ridge in no steps", lambda: SRF.solve(alpha=1.0, lam=0.1, iterations=0), V, ["iterations = 0", ">= 1"]),
    ("curve of one number", lambda: SRF.curve(1.0, 0.1), V, ["alpha"]),
    ("curve of negative data", lambda: SRF.curve([-1.0, 1.0], 0.1), V, ["alpha", "> 0"]),
    ("curve of penalties that do not fit", lambda: SRF.curve([1.0, 2.0], [0.1, 0.1, 0.1]), V, ["lam", "(3,)"]),
    ("best penalty of no data", lambda: SRF.optimal_lam(0), V, ["alpha = 0", "> 0"]),
    ("best penalty of text", lambda: SRF.optimal_lam("x"), V, ["alpha = 'x'", "> 0"]),
    ("spectrum of no data", lambda: SRF.spectrum(alpha=0), V, ["alpha = 0", "n/d"]),
    ("spectrum of few points", lambda: SRF.spectrum(alpha=1.0, points=3), V, ["points = 3", ">= 16"]),
    ("spikes in four directions", lambda: ov.static.SpikedSubspace(np.tanh, lambda x: x, r=np.ones((1, 4)),
     gamma=np.zeros((1, 4)), beta=1.0), V, ["4 directions", "1 to 3"]),
    ("bounds of an even target", lambda: ov.static.bounds_over_rate(np.tanh, HE2), V, ["no linear part", "np.sin"]),
    ("bounds of negative noise", lambda: ov.static.bounds_over_rate(np.tanh, np.sin, noise=-1), V, ["noise = -1"]),
    ("bounds of no target", lambda: ov.static.bounds_over_rate(np.tanh, None), V, ["target = None", "function"]),
    ("network correction of no model", lambda: ov.static.large_batch_network(None), V, ["model = None", "one block"]),
    ("network correction of no step", lambda: ov.static.large_batch_network(SRF), V, ["no step", "after_one_step"]),
    ("Gaussian rows of no data", lambda: ov.static.gaussian_rows(stepped(), alpha=0, lam=0.1), V, ["alpha = 0"]),
    ("Gaussian rows of no model", lambda: ov.static.gaussian_rows(3, alpha=1.0, lam=0.1), V, ["model = 3"]),
    ("experiment without a model", lambda: ov.static.simulate_srf(None, alpha=1.0, lam=0.1, d=9, rng=1), V,
     ["model = None", "a SpikedRandomFeatures"]),
    ("experiment of other rows", lambda: SRF.simulate(alpha=1.0, lam=0.1, d=9, rng=1, rows="x"), V, ["rows = 'x'"]),
    ("experiment in one dimension", lambda: SRF.simulate(alpha=1.0, lam=0.1, d=1, rng=1), V, ["d = 1", ">= 2"]),
    ("experiment without samples", lambda: SRF.simulate(alpha=[], lam=0.1, d=9, rng=1), V, ["alpha = []", "at least"]),
    ("experiment of objects", lambda: SRF.simulate(alpha=MODEL, lam=0.1, d=9, rng=1), V, ["alpha = Model", "number"]),
    ("experiment on other hands", lambda: SRF.simulate(alpha=1.0, lam=0.1, d=9, rng=1, executor=4), V,
     ["executor = 4"]),
    ("step and experiment of shapes", lambda: one_step(alpha=[1, 2], lam=[1, 2, 3]), V, ["(2,)", "(3,)", "broadcast"]),
    ("step and experiment of no readout", lambda: one_step(readout=()), V, ["readout has shape (0,), no entries"]),
    ("step and experiment by text", lambda: one_step(paired="x"), V, ["paired = 'x'", "True or False"]),
    ("step and experiment in other units", lambda: one_step(scaling="n"), V, ["scaling = 'n'", "'d' or 'p'"]),
    ("step and experiment of Gaussian rows", lambda: one_step(alpha0=INF, rows="gaussian"), V, ["alpha0 = inf"]),
    ("step and experiment seeded by text", lambda: one_step(rng="x"), V, ["rng = 'x'", "seed"]),
    ("step and experiment without draws", lambda: one_step(draws=0), V, ["draws = 0", ">= 1"]),
    # quadratic networks
    ("polar factor of text", lambda: quadratic.polar("x"), V, ["R = 'x'", "(..., K, M)"]),
    ("polar factor of a vector", lambda: quadratic.polar([1.0]), V, ["R has shape (1,)", "(..., K, M)"]),
    ("polar factor of nothing", lambda: quadratic.polar([[0.0], [0.0]]), V, ["R has rank 0", "random_start"]),
    ("more teachers than students", lambda: quadratic.polar([[1.0, 0.0]]), V, ["K = 1 < M = 2", "K >= M"]),
    ("solution of no frame", lambda: quadratic.solution_weights([[1.0], [1.0]], ONE), V, ["S^T S", "polar(R)"]),
    ("solution of other teachers", lambda: quadratic.solution_weights([[0.6], [0.8]], np.eye(2, 3)), V,
     ["W_star has shape (2, 3)", "(1, N)"]),
    ("distance to no solution", lambda: quadratic.distance(TWO, TWO[:, :1], [[3.0], [4.0]]), V, ["S^T S", "polar(R)"]),
    ("distance of other shapes", lambda: quadratic.distance(ONE, ONE, [[0.6], [0.8]]), V, ["(1, 1)", "(..., 2, 2)"]),
    ("start of no vectors", lambda: quadratic.conserves_polar(TWO, 3 * TWO), V, ["positive semi-definite"]),
    ("flow without learning", lambda: quadratic.riccati_flow(ONE, 0.1 * ONE, [0, 1], eta=0), V, ["eta = 0", "> 0"]),
    ("flow without accuracy", lambda: quadratic.riccati_flow(ONE, 0.1 * ONE, [0, 1], eta=0.1, rtol=-1), V,
     ["rtol = -1", "> 0"]),
    ("flow without end", lambda: quadratic.riccati_flow(ONE, 0.1 * ONE, [1e6], eta=0.1), V, ["overflows", "at most"]),
    ("weights of two dimensions", lambda: quadratic.eps_g(TWO, np.eye(1, 3)), V, ["W_star has shape (1, 3)", "(M, 2)"]),
    ("gradient at nan", lambda: quadratic.gradient([[NAN]], ONE), V, ["W contains nan"]),
    ("hessian of a vector", lambda: quadratic.hessian([1.0], ONE), V, ["W has shape (1,)", "(K, N)"]),
    ("teachers that do not fit", lambda: quadratic.stationary_points(1, 2, 2), V, ["N = 1 < M = 2", "N >= M"]),
    ("no stationary point", lambda: quadratic.stationary_point(10, 3, 2, 5, 1), V, ["(r, s) = (5, 1)", "r + s <= K"]),
    ("stationary point of text", lambda: quadratic.stationary_point(9, 3, 2, 1, 1, rng="x"), V, ["rng = 'x'", "seed"]),
    ("stationary point of many teachers", lambda: quadratic.stationary_eps_g(6, 3, 0, 4), V, ["(0, 4)", "s <= M"]),
    ("spectrum at no point", lambda: quadratic.stationary_spectrum(5, 2, 1, 1, 1), V, ["(1, 1)", "stationary_points"]),
    ("flat directions of no type", lambda: quadratic.flat_directions(12, 4, 2, 0, -1), V, ["s = -1", ">= 0"]),
    ("no dimensions", lambda: quadratic.degrees_of_freedom(0, 3), V, ["N = 0", ">= 1"]),
    ("solutions of a narrow student", lambda: quadratic.solution_dimension(12, 1, 2), V, ["K = 1", "no zero-error"]),
    ("no plateau", lambda: quadratic.plateau(3, 3, eta=100.0), V, ["eta = 100", "eta_plateau = 0.92"]),
    ("escape from too far", lambda: quadratic.escape_amplitude(2, 1, eta=0.1, q0=1e5), V, ["q0 = 100000", "smaller"]),
    ("escape from nowhere", lambda: quadratic.escape_law([0.0], 3, 3, eta=0.1, eps=-1), V, ["eps = -1", ">= 0"]),
    ("escape at nan", lambda: quadratic.escape_law([NAN], 3, 3, eta=0.1, eps=1e-3), V, ["alpha contains nan"]),
    ("end before the beginning", lambda: quadratic.final_descent([-1, 1], 6, 3, eta=0.1), V, ["alpha", "-1", "> 0"]),
    ("end of no surplus", lambda: quadratic.final_descent(1.0, 3, 3, eta=0.1), V, ["K = M = 3", "K > M"]),
    ("end of an unstable solution", lambda: quadratic.final_descent(1.0, 6, 3, eta=5.0), V, ["eta = 5", "1.8"]),
    ("rate without learning", lambda: quadratic.solution_rate(3, 3, eta=0), V, ["eta = 0", "> 0"]),
    ("bound of negative noise", lambda: quadratic.eta_plateau(3, 3, noise=-1), V, ["noise = -1", ">= 0"]),
    ("bound of half a student", lambda: quadratic.eta_escape(1.5, 2), V, ["K = 1.5", "integer"]),
    ("time without end", lambda: quadratic.half_loss_time(MODEL, GOOD, alpha_max=-1), V, ["alpha_max = -1", "> 0"]),
    ("mean over no starts", lambda: quadratic.eta_fastest(1, 1, eps=0.1, rng=1, starts=0), V, ["starts = 0", ">= 1"]),
    ("mean over starts of text", lambda: quadratic.eta_fastest(1, 1, eps=0.1, rng="x"), V, ["rng = 'x'", "seed"]),
    ("rate of the paper as text", lambda: quadratic.eta_from_paper("x"), V, ["eta = 'x'", "number > 0"]),
    ("distance of text", lambda: quadratic.distance("x", ONE, ONE), V, ["Q = 'x'", "(..., 1, 1)"]),
    ("distance of complex overlaps", lambda: quadratic.distance(ONE, 1j * ONE, ONE), V, ["R = ", "(..., 1, 1)"]),
    *[
        (f"{name} with text for a flag", call, V, ["gradient_flow = 'no'", "True or False"])
        for name, call in {
            "quadratic plateau": lambda: quadratic.plateau(3, 2, eta=0.1, gradient_flow="no"),
            "escape": lambda: quadratic.escape_amplitude(3, 2, eta=0.1, q0=1, gradient_flow="no"),
            "escape law": lambda: quadratic.escape_law([0.0], 3, 2, eta=0.1, eps=0.1, gradient_flow="no"),
            "rate": lambda: quadratic.solution_rate(3, 2, eta=0.1, gradient_flow="no"),
            "end": lambda: quadratic.final_descent(1.0, 3, 2, eta=0.1, gradient_flow="no"),
        }.items()
    ],
    # numbers that are none, or that no array holds
    ("masked times", lambda: solve(MASKED), V, ["alpha has 1 masked", "Leave them out"]),
    ("masked overlaps", lambda: state(MODEL, Q=np.ma.array(TWO, mask=TWO)), V, ["Q has 2 masked", "filled"]),
    ("masked readout", lambda: machine(K=3, v=MASKED), V, ["v has 1 masked"]),
    ("masked times of a theory", lambda: linear.error(ov.isotropic(), 0.1, MASKED), V, ["alpha has 1 masked"]),
    ("dates", lambda: solve(np.array(["2026-01-01", "2026-01-02"], dtype="M8[D]")), V, ["alpha = ", "real numbers"]),
    ("spans of time", lambda: solve(np.array([0, 1], dtype="m8[s]")), V, ["alpha = ", "real numbers"]),
    ("an interval of time", lambda: solve((0, np.timedelta64(1, "s"))), V, ["alpha = ", "finite number"]),
    ("a list of dates", lambda: solve([np.datetime64("2026-01-01")]), V, ["alpha = ", "real numbers"]),
    ("dates of a theory", lambda: linear.error(ov.isotropic(), 0.1, np.array([0], dtype="M8[D]")), V,
     ["alpha = ", "real numbers"]),
    ("complex times of a theory", lambda: linear.error(ov.isotropic(), 0.1, np.array([1j])), V, ["alpha = ", "real"]),
    ("text among objects", lambda: solve(np.array([0, "1"], dtype=object)), V, ["alpha = ", "real numbers"]),
    ("a rate beyond floats", lambda: machine(eta=10**400), V, ["eta = 1000", "finite number > 0"]),
    ("a rate of 5000 digits", lambda: machine(eta=10**5000), V, ["eta = a int", "finite number > 0"]),
    ("a time beyond floats", lambda: solve([0, 10**400]), V, ["alpha = ", "real numbers"]),
    ("an end beyond floats", lambda: solve((0, 10**400)), V, ["alpha = 1000", "finite number"]),
    ("a size beyond integers", lambda: MODEL.random_start(N=2**63, rng=1), V, ["N = 9223372036854775808", "2^63"]),
    ("steps beyond integers", lambda: simulate(alpha=[0, 1e18], N=1000), V, ["alpha = 1e+18 at N = 1000", "2^63"]),
    ("an interval of such steps", lambda: simulate(alpha=(0, 1e18), N=1000), V, ["takes 1e+21 steps", "2^63"]),
    ("runs by a span of time", lambda: simulate(runs=np.timedelta64(1, "s")), V, ["runs = ", "integer"]),
    ("compression until text", lambda: ov.compress(COLOURED, COLOURED.random_start(N=40, rng=1), 99, until="x"), V,
     ["until = 'x'", "finite number > 0"]),
    ("theory that is not there", lambda: ov.theory.cubic, AttributeError, ["'cubic'", "it has", "quadratic"]),
]  # fmt: skip


class Exploded(Exception):
    """Raised where the work would begin."""


@pytest.fixture
def no_work(monkeypatch):
    """Let every integration, simulation, training run and sweep fail as soon as it begins."""

    def explode(*_, **__):
        raise Exploded

    for module, *names in (
        ("integrators.run", "_steps"),
        ("simulators.runs", "_map_runs"),
        ("sweeps.grid", "run_all"),
        ("static.bayes.student", "train"),
        ("static.bayes.sampler", "leap"),
        ("static.spiked.simulation", "network_draw"),
        ("static.spiked.features", "srf_draw"),
        ("static.spiked.ridge", "fit"),
    ):
        for name in names:
            monkeypatch.setattr(sys.modules[f"overlaps.{module}"], name, explode)


@pytest.mark.parametrize("call, exception, words", [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_bad_input_is_refused_before_any_work(call, exception, words, no_work):
    with pytest.raises(exception) as caught:
        call()
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert "\n" not in message and message[-1] in ".)", message


@pytest.mark.parametrize(
    "work",
    [
        lambda: solve(),
        lambda: solve([0.0, 1.0], method="BDF"),
        lambda: simulate(),
        lambda: simulate(executor=ThreadPoolExecutor(1)),
        lambda: ov.sweep(identity, {"x": [1]}),
        lambda: student(),
        lambda: hierarchy(),
        lambda: manifold(),
        lambda: SRF.solve(alpha=1.0, lam=0.1),
        lambda: SRF.simulate(alpha=1.0, lam=0.1, d=9, rng=1),
        lambda: one_step(),
        lambda: ov.compression_error(COLOURED, COLOURED.random_start(N=40, rng=1), 3, [1.0]),
        lambda: quadratic.half_loss_time(SINGLE, OTHER),
    ],
)
def test_good_input_would_have_begun_the_work(work, no_work):
    """The table means nothing if the work is not where it is stopped."""
    with pytest.raises(Exploded):
        work()


def test_numbers_of_other_kinds_are_taken_for_what_they_are():
    half = Fraction(1, 2)
    assert machine(eta=half) == machine(eta=0.5) and machine(eta=np.float32(0.5)) == machine(eta=0.5)
    assert machine(v=[half, 1]) == machine(v=np.ma.array([0.5, 1.0])) == machine(v=[0.5, 1])  # nothing is masked
    assert machine(K=np.int64(2), v=np.array([True, False])) == machine(v=[1, 0])
    # arrays without axes, of NumPy and of others: loops over files and labelled arrays give them
    xarray = pytest.importorskip("xarray")
    for kind in (np.array, xarray.DataArray):
        assert machine(eta=kind(0.5), K=kind(2), gradient_flow=kind(True)) == machine(eta=0.5, gradient_flow=True)
        assert np.array_equal(
            ov.solve(machine(), state(machine()), [0, 1])[kind(1)].q, ov.solve(machine(), state(machine()), [1])[0].q
        )
    for wrong in (np.ma.masked, np.array("0.5"), np.array(1j), np.array([0.5]), np.array(True)):
        with pytest.raises(ValueError, match="eta = .*expected a finite number > 0"):
            machine(eta=wrong)


def test_a_covariance_that_was_rounded_to_single_precision_is_averaged_with_its_transpose():
    X = np.random.default_rng(1).normal(size=(200, 12))
    Sigma = (X.T @ X / 200 + np.triu(np.full((12, 12), 3e-8))).astype(np.float32)
    with pytest.raises(ValueError, match=r"not symmetric .* float32\? .*\(Sigma \+ Sigma.T\) / 2"):
        ov.Spectrum.from_covariance(Sigma)
    assert ov.Spectrum.from_covariance((Sigma + Sigma.T) / 2).L == 12
    with pytest.raises(ValueError, match=r"Sigma_kj = Sigma_jk\.$"):  # no rounding
        ov.Spectrum.from_covariance(np.triu(Sigma))


def test_the_table_has_no_row_twice():
    names = [row[0] for row in TABLE]
    assert len(set(names)) == len(names) >= 300


def test_files_that_are_none_of_ours_say_so(tmp_path):
    (tmp_path / "text.npz").write_text("alpha, eps_g")
    with pytest.raises(ValueError, match=r"text\.npz was not written by overlaps, or is damaged"):
        ov.load(tmp_path / "text.npz")
    with pytest.raises(ValueError, match=r"path = 3; expected a path"):
        ov.load(3)
    with pytest.raises(FileNotFoundError, match=r"nowhere\.npz"):
        ov.load(tmp_path / "nowhere.npz")
    np.savez(tmp_path / "foreign.npz", x=1)
    with pytest.raises(ValueError, match=r"foreign\.npz was not written by overlaps"):
        ov.load(tmp_path / "foreign.npz")
    np.savez(tmp_path / "future.npz", header=json.dumps({"format": 99, "version": "9.0"}))
    with pytest.raises(ValueError, match=r"format 99 \(overlaps 9\.0\).*Upgrade"):
        ov.load(tmp_path / "future.npz")


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"path = .*nowhere.run\.npz: there is no folder .*nowhere\. Make it"):
        TRAJECTORY.save(tmp_path / "nowhere" / "run")
    with pytest.raises(ValueError, match="path = 3; expected a path"):
        TRAJECTORY.save(3)
    assert not any(tmp_path.iterdir())


def test_silence_belongs_to_the_thread_that_asked_for_it():
    """Two threads that leave it in the order in which they came; another one hears, inside and after."""
    come, leave = [threading.Event() for _ in range(2)], [threading.Event() for _ in range(2)]
    filters = list(warnings.filters)

    def silent(i):
        with quietly():
            warn("not heard")
            come[i].set()
            leave[i].wait(10)

    with ThreadPoolExecutor(2) as pool:
        for i in range(2):
            pool.submit(silent, i)
            assert come[i].wait(10)
        with pytest.warns(RuntimeWarning, match="heard by all"):
            warn("heard by all")
        for event in leave:
            event.set()
    with pytest.warns(RuntimeWarning, match="heard later"):
        warn("heard later")
    assert warnings.filters == filters


# the least that is said to be enough ----------------------------------------------------------------------------------


def least(name, number, call, finite):
    return pytest.param(name, number, call, finite, id=f"{call.__name__} {name}")


def sample_posterior(steps):
    teacher = ov.static.HierarchicalTeacher(v2=[1.0], noise=1.0, activation={3: 1.0})
    with quietly():
        return ov.static.sample_posterior(teacher, d=6, nu=4, rng=1, steps=steps, warmup=2, leapfrog=1)


def feature_spectrum(points):
    model = ov.static.SpikedRandomFeatures(np.tanh, np.sin, r=1.2, gamma=0.9, beta=1.0)
    return model.spectrum(alpha=1.5, points=points)


def fluctuations(points):
    model = ov.committee_machine(1, 1, activation=ov.tanh, eta=0.5)
    start = ov.State.from_overlaps(model, Q=[[0.5]], R=[[0.2]], T=[[1.0]])
    return ov.fluctuations(ov.solve(model, start, [0.0, 0.5]), 400, points=points)


def kl_monte_carlo(samples):
    return latents.kl_monte_carlo([[0.3, -0.4], [0.2, 0.1]], rng=1, samples=samples)


LEAST = [
    least("steps", 4, sample_posterior, lambda x: x.draws),
    least("points", 16, feature_spectrum, lambda x: x.density),
    least("points", 64, fluctuations, lambda x: x.std("eps_g")),
    least("samples", 2, kl_monte_carlo, np.array),
]


@pytest.mark.parametrize(("name", "number", "call", "finite"), LEAST)
def test_the_least_number_is_enough_and_one_less_is_refused(name, number, call, finite):
    assert np.all(np.isfinite(finite(call(number))))
    with pytest.raises(ValueError, match=f"{name} = {number - 1}; expected"):
        call(number - 1)


def test_the_block_that_is_named_is_the_worst_in_units_of_its_trace():
    """Rounding of a large block, 1e-9 of its trace, excuses no small one."""
    large, small = 1e3 * np.diag([1.0, -1e-9]), np.diag([1.0, -1e-7])
    with pytest.raises(ValueError, match=r"X \(block 1\) is not positive semi-definite: its lowest .* -1e-07"):
        check.positive_semidefinite("X", np.array([large, small]), "")
    check.positive_semidefinite("X", np.array([large, 0.01 * large]), "")
