"""Every public argument: a value that is not one is refused by its name, or taken.

Public signatures are walked: each argument in turn becomes one of forty values that users send by mistake, the others
stay good.  Good values go by the names of arguments, which mean the same everywhere; ``OWN`` has those that do not.
"""

import gc
import inspect
import re
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from matplotlib import pyplot as plt
from scipy import stats

import overlaps as ov
from overlaps._base import check

HOSTILE = [
    None, True, False, "1", "", "é", b"1", object(), [], (), {}, {1}, {"a": 1}, [[1], [1, 2]],
    [None], ["1"], [b"1"], [1j], [[]], 1j, np.nan, np.inf, -np.inf, -1, -0.5, 10**400, -(10**400), Fraction(10**400, 3),
    Decimal("1e999"), date(2020, 1, 1), np.datetime64("2020-01-01"), np.timedelta64(1, "s"), np.array(1 + 1j),
    np.ma.array([1.0, 2.0], mask=[True, False]), np.array(["1"]), np.zeros((0, 0)), np.full((2, 2), np.nan),
    1e308, Ellipsis, NotImplemented, slice(2), ValueError("x"), iter([1.0]),
]  # fmt: skip
assert len(HOSTILE) >= 40


def public():
    """{name: callable} of all that users import, with the other constructors of classes; records have makers."""
    from overlaps import static, theory

    rooms = {
        "ov": ov,
        "ov.static": static,
        "ov.theory": theory,
        "ov.rules": ov.rules,
        "ov.memory": ov.memory,
        "ov.latents": ov.latents,
        "ov.covariates": ov.covariates,
    }
    rooms |= {f"ov.theory.{x}": getattr(theory, x) for x in dir(theory) if inspect.ismodule(getattr(theory, x))}
    found = {}
    for room, module in rooms.items():
        for name in getattr(module, "__all__", dir(module)):
            item = getattr(module, name)
            if name.startswith("_") or inspect.ismodule(item) or not callable(item):
                continue
            if not inspect.isclass(item):
                found[f"{room}.{name}"] = item
                continue
            made = [x for x, f in vars(item).items() if isinstance(f, classmethod) and not x.startswith("_")]
            found |= {f"{room}.{name}.{x}": getattr(item, x) for x in made}
            if name in MAKERS:
                found[f"{room}.{name}"] = item
    found["ov.explore"] = explore
    for thing in THINGS:
        own = [x for x in dir(thing) if not x.startswith("_") and inspect.isfunction(getattr(type(thing), x, None))]
        found |= {f"{type(thing).__name__}.{x}": getattr(thing, x) for x in own if x not in PLUMBING}
    found["Trajectory.animate"] = TRAJECTORY.animate
    return {name: f for name, f in found.items() if name not in ELSEWHERE}


def explore(f, *, panels=1, eta=(0.1, 1.0)):
    """Sliders of one parameter, whose name is the user's."""
    return ov.explore(f, panels=panels, eta=eta)


def teacher():
    return ov.static.HierarchicalTeacher(v2=[1.0], noise=0.5, activation={3: 1.0})


def srf():
    return ov.static.SpikedRandomFeatures(np.tanh, np.sin, r=1.2, gamma=0.9, c=1.1, beta=0.8)


def mean_of(lam, nu, theta):
    """A function of the fields, as users write them."""
    return lam[0] * nu[1]


def towards_teacher(lam, nu, xi, theta, S, F, G):
    """Hebb's rule for a linear teacher."""
    F[0] = nu[0]


POPULATION = ov.static.SpikedRandomFeatures.after_one_step(np.tanh, np.sin, eta_tilde=1.0, alpha0=np.inf, beta=0.8)
MODEL = ov.committee_machine(2, 2, eta=0.3)
START = ov.State.from_overlaps(MODEL, Q=0.5 * np.eye(2), R=0.1 * np.eye(2) + 0.02, T=np.eye(2))
ONE = ov.committee_machine(1, 1, activation=ov.linear, eta=0.3)
FLOW = ov.committee_machine(1, 1, activation=ov.erf, eta=0.3)
PERFECT = ov.State.from_overlaps(ONE, Q=[[1.0]], R=[[1.0]], T=[[1.0]])
TRAJECTORY = ov.solve(MODEL, START, [0.0, 0.1, 0.2])
THINGS = (
    MODEL,
    START,
    TRAJECTORY,
    MODEL.spectrum,
    ov.Schedule([0.0, 1.0], [1.0, 0.5]),
    srf(),
    teacher(),
    ov.theory.scaling.Law(1.0, 1.0, L=4, eta=0.1),
    ov.solve_many(MODEL, [START, START], [0.0, 0.1]),
    ov.simulate(MODEL, N=20, alpha=[0.0, 0.1, 0.2], rng=1, runs=2),
    ov.linearise(MODEL, START),
    ov.Stages([MODEL, MODEL], until=[1.0, 2.0]),
    ov.fluctuations(TRAJECTORY, N=50, points=64),
)  # methods are walked
W, T = np.array([[0.3, 0.2, 0.1], [-0.2, 0.4, 0.3]]), np.array([[1.0, 0.2], [0.2, 0.8]])

# fmt: off
MAKERS = (
    "Activation", "Spectrum", "Schedule", "State", "Stages", "Law", "EqualReadouts", "HierarchicalTeacher",
    "PowerLawLimit", "SubcriticalPowerLaw", "SpikedRandomFeatures", "SpikedSubspace",
    "Rule",
)
# fmt: on
PLUMBING = {  # methods that rooms call, users do not
    *(
        "settle",
        "plain_overlaps",
        "split_rows",
        "rows",
        "field_covariance",
        "source",
        "of_groups",
        "on",
        "begin",
        "enter",
        "in_turn",
        "segments",
        "scheduled",
        "rescaled",
        "under",
    ),
    *("neurons", "response", "trained", "frozen", "final_weights", "plot", "animate"),
    *("classification_error", "classification_error_se"),
}
ELSEWHERE = {  # why they are not walked
    "ov.theory.rules.LateLaw": "made by theory.rules.law",
}
HEAVY = {  # tenths of a second for each value that is taken
    *(
        "SpikedRandomFeatures.learn_offset",
        "Trajectory.escape",
        "ov.Rule",
        "ov.field_average",
        "ov.compare",
        "ov.fluctuations",
    ),
    *("ov.static.best_step", "ov.static.bounds_over_rate", "ov.theory.escape"),
    *(
        f"ov.rules.{x}"
        for x in (
            "adagrad_norm",
            "dropout",
            "feedback_alignment",
            "line_search",
            "logistic_committee",
            "patches",
            "attention",
        )
    ),
    *("ov.rules.offsets", "ov.rules.sign_committee"),
}
NAMED_OTHERWISE = {
    *(("ov.covariates.gaussian", "Omega"), ("ov.Spectrum", "basis"), ("ov.optimal_schedule", "initial")),
    *(("ov.Rule", x) for x in ("numbers", "closed", "recipe", "theta")),  # of the library's own rules
}  # two sizes differ: either may be wrong
GOOD = {
    "K": 2, "M": 2, "N": 50, "L": 4, "D": 10, "eta": 0.3, "beta": 1.0, "alpha": [0.0, 0.1], "rng": 1, "model": MODEL,
    "start": START, "state": START, "spectrum": ov.Spectrum([1.5, 0.5]), "T": T, "T2": 0.3, "noise": 0.2, "x": [0.5],
    "Q": 0.5 * np.eye(2), "R": 0.1 * np.eye(2), "g": np.tanh, "dg": lambda x: 1 / np.cosh(x) ** 2, "nodes": 5,
    "horizon": 1.0, "knots": [0.0, 1.0], "values": [1.0, 0.5], "schedule": ov.Schedule([0.0, 1.0], [1.0, 0.5]),
    "trajectory": TRAJECTORY, "student": np.tanh, "target": np.sin, "gamma": 0.9, "r": 1.2, "lam": 0.1, "d": 20,
    "nu": 2.0, "alpha0": 2.0, "eta_tilde": 1.0, "W": W, "W_star": W, "v": [0.7, 0.6], "v2": [1.0], "q0": 0.5, "s": 1,
    "eps": 0.1, "rate": 0.1, "student_scale": 0.1, "exponent": 1.0, "activation": {3: 1.0}, "teacher": teacher(),
    "means": [-1.0, 1.0], "weights": [0.3, 0.7], "theory": TRAJECTORY, "simulation": TRAJECTORY, "times": [0.1],
    "guess": START, "models": MODEL, "starts": START, "until": [1.0], "f": np.cos, "function": abs, "orders": [1, 2],
    "rule": ov.rules.perceptron(), "law": stats.cauchy(scale=0.5), "clip": 0.7, "keep": 0.8, "b": [0.7, 0.4],
    "k": 3, "rho0": 0.1, "path": "kept.npz", "alphas": [0.5, 1.0], "power": 0.5, "tau": 2.0,
    "steps": 10, "name": "Q", "a": "Q", "run": 0, "i": 0, "feature": 0, "q": 0.5, "strength": 0.1, "v_star": [1.0, 0.6],
}  # fmt: skip
S2 = ov.Spectrum([1.5, 0.5])
SPIKED = {"beta": 0.8, "alpha": 1.0, "r": 1.2}
OWN = {
    "ov.Activation": {"name": "mine", "dg": lambda x: 1 / np.cosh(x) ** 2},
    "ov.Schedule.cosine": {"end": 1.0},
    "ov.Schedule.power": {"scale": 1.0},
    "ov.Schedule.polynomial": {"end": 1.0},
    "ov.Schedule.warmup": {"length": 1.0},
    "ov.Schedule.step": {"times": [0.5], "values": [0.3]},
    "ov.Spectrum.from_covariance": {"Sigma": np.eye(2)},
    "ov.Spectrum": {"s": [1.5, 0.5]},
    "ov.Stages": {"models": [MODEL, MODEL], "until": [1.0, 2.0]},
    "ov.State.from_overlaps": {"R": GOOD["R"], "T": T},
    "ov.State.from_weights": {"W_star": W},
    "ov.State.from_blocks": {"q": [0.5 * np.eye(2)], "r": [GOOD["R"]], "t": [T]},
    "ov.State": {"q": [0.5 * np.eye(2)], "r": [GOOD["R"]], "tau": [T], "factors": [0.7]},
    "ov.critical_eta": {"model": ONE, "state": PERFECT},
    "ov.fluctuations": {"points": 64},
    "ov.fixed_point": {"tol": 1e-3},
    "ov.Rule": {"force": towards_teacher, "K": 1, "M": 1, "name": "mine"},
    "ov.random_features": {"W": W.T, "covariance": np.ones(3), "teacher": [0.3, 0.2, 0.1]},
    "ov.rules.logistic_committee": {"beta": 2.0},
    "ov.rules.offsets": {"offset": [0.3, -0.1]},
    "ov.rules.episode": {"T": 3, "at_least": 2, "penalty": 0.4, "bonus": 0.1},
    "ov.rules.attention": {"T": 2, "token_covariance": [[1.0, 0.3], [0.3, 1.0]]},
    "ov.rules.patches": {"activation": "erf", "T": 2},
    "ov.rules.pair": {"rho": 0.4},
    "ov.theory.rules.episode_points": {"rule": ov.rules.episode(4, penalty=1.0)},
    "ov.static.large_batch_network": {"model": POPULATION},
    "ov.theory.rules.clipping_gain": {"law": stats.norm(scale=0.5)},
    "Ensemble.state": {"run": 0, "i": 0},
    "Ensemble.escape": {"level": 0.3},
    "Trajectory.at": {"alpha": 0.1},
    "HierarchicalTeacher.information": {"q": [0.5]},
    "HierarchicalTeacher.curve": {"nu": (1.0, 10.0), "points": 3},
    "Law.asymptote": {"alpha": [5.0]},
    "Law.frontier": {"compute": [4.0], "exact": True},
    "Trajectory.animate": {"frames": 2},
    "Law.terms": {"alpha": [5.0]},
    "ov.compress": {"state": START},
    "ov.field_average": {"states": TRAJECTORY, "f": mean_of},
    "ov.save": {"result": TRAJECTORY},
    "ov.closure": {"R": GOOD["R"], "T": T},
    "ov.cite": {"result": TRAJECTORY},
    "Law.sgd_mean": {"N": 48},
    "ov.gaussian_covariates": {"Omega": np.eye(3), "Phi": np.eye(3), "Psi": np.eye(3)},
    "ov.gaussian_mixture": {"labels": [-1, 1], "means": [[0.1, 0.2], [0.3, -0.1]]},
    "ov.hidden_manifold": {"ratio": 0.5, "nodes": 3},
    "ov.optimal_schedule": {"knots": 2, "maxiter": 1},
    "ov.greedy_schedule": {"knots": 2},
    "ov.polynomial": {"coefficients": [0.0, 1.0]},
    "ov.sweep": {"grid": {"x": [1, 2]}, "function": lambda x: x},
    "ov.simulate": {"N": 20},
    "ov.tlog_rmse": {"simulation": ov.simulate(MODEL, N=20, alpha=[0.0, 0.1, 0.2], rng=1)},
    "ov.static.HierarchicalTeacher": {"v2": [1.0], "activation": {3: 1.0}},
    "ov.static.SubcriticalPowerLaw": {"beta": 0.2},
    "ov.static.SpikedSubspace": {"r": [[1.2, 0.3]], "gamma": [[0.5, 0.4]], "beta": 0.8},
    "ov.static.SpikedSubspace.after_steps": {"indices": 2},
    "ov.static.best_step": {"lam": 0.1, "d": 50, "rates": [0.5, 1.0, 2.0], **SPIKED},
    "ov.low_rank": {"a": [[0.8], [0.6]], "X": [[1.0]]},
    "ov.explore": {"f": lambda eta: TRAJECTORY},
    "ov.theory.quadratic.eta_fastest": {"K": 1, "M": 1, "starts": 1, "rtol": 0.1},
    "ov.theory.stationary_points": {"model": FLOW, "starts": 2},
    "ov.theory.minima": {"model": FLOW, "starts": 2},
    "ov.learner": {"rule": ov.rules.perceptron()},
    "ov.static.sample_posterior": {"steps": 4, "warmup": 0, "leapfrog": 1},
    "ov.static.train_student": {"n": 20, "width": 2, "steps": 1},
    "ov.theory.escape": {"level": 0.01, "points": 64},
    "ov.static.simulate_one_step": {"draws": 1, **SPIKED},
    "ov.latents.kl_monte_carlo": {"means": [[-1.0], [1.0]]},
    "ov.latents.mixture": {"kind": "shared"},
    "ov.latents.uniform_means": {"A": 1.0, "m": 2},
    "ov.theory.cayley_hamilton.characteristic_polynomial": {"s": [1.5, 0.5]},
    "ov.theory.cayley_hamilton.companion_matrix": {"s": [1.5, 0.5]},
    "ov.theory.cayley_hamilton.jacobi_matrix": {"s": [1.5, 0.5], "p": [0.5, 0.5]},
    "ov.theory.cayley_hamilton.order_parameters": {"order": 1},
    "ov.theory.linear.multi_pass": {"model": ONE, "start": PERFECT, "ratio": 2.0, "nodes": 8},
    "ov.theory.linear.reduce": {"model": ONE, "start": PERFECT},
    "ov.theory.linear.sgd_mean": {"steps": 10},
    "ov.theory.linear.optimal_error": {"m0": 1.0},
    "ov.theory.linear.optimal_eta": {"m0": 1.0},
    "ov.theory.linear.tracking_error": {"drift": 0.1},
    "ov.theory.plateau.escape_matrix": {"T2": T},
    "ov.theory.plateau.escape_rates": {"T2": T},
    "ov.theory.plateau.moments": {"c": [0.3, 0.2]},
    "ov.theory.features.error_covariance": {"Sigma": np.eye(4)},
    "ov.theory.quadratic.final_descent": {"K": 3, "alpha": [1.0, 2.0]},
    "ov.theory.scaling.fit": {"alpha": np.geomspace(1, 1e4, 50), "eps": np.geomspace(1, 1e4, 50) ** -0.5},
}
OWN |= {f"ov.static.{x}": {"model": srf(), **SPIKED} for x in ("gaussian_rows", "simulate_srf")}
OWN |= {
    f"ov.covariates.{x}": {"X": W.T, "Omega": np.eye(3), "Phi": np.eye(3), "Psi": np.eye(3)}
    for x in ("from_data", "gaussian", "rows")
}
GOOD |= {"N_l": 2, "S": np.eye(2)}
OWN |= {
    f"SpikedRandomFeatures.{x}": {"alpha": 1.0}
    for x in ("optimal_lam", "solve", "simulate", "learn_offset", "spectrum")
}
OWN |= {
    f"ov.theory.quadratic.{x}": {"r": 1, "s": 1}
    for x in ("flat_directions", "stationary_eps_g", "stationary_point", "stationary_spectrum")
}


def good(name, f):
    """Arguments that are taken."""
    known = inspect.signature(f).parameters
    own = {x: value for x, value in OWN.get(name, {}).items() if x in known}
    needed = [x.name for x in known.values() if x.default is x.empty and x.kind not in (2, 4)]
    return {x: own[x] if x in own else GOOD[x] for x in dict.fromkeys([*needed, *own])}


def refused_badly(name, f, argument, value, given):
    """What is wrong with the answer to one hostile value, or None."""
    try:
        f(**given | {argument: value})
    except (ValueError, TypeError, IndexError) as error:
        said = str(error)
        return (
            None
            if re.search(rf"(?<![a-z_]){re.escape(argument)}(?![a-z])", said)
            else f"does not name it: {said[:120]}"
        )
    except FileNotFoundError as error:  # by its path
        return None if str(value) in str(error) else f"does not name it: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:120]}"


SEVERAL = {"ov.compare": [ov.solve(MODEL, START, [0.0, 0.1])]}  # results that come without a name
ROOMS = sorted({name.rpartition(".")[0] for name in public()})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "values", [pytest.param(HOSTILE[::8], id="few"), pytest.param(HOSTILE, marks=pytest.mark.slow, id="all")]
)
@pytest.mark.parametrize("room", [*ROOMS, pytest.param(None, marks=pytest.mark.slow, id="heavy")])
def test_every_argument_has_a_door(room, values, tmp_path, monkeypatch):
    """Forty values in the place of each argument of each function: taken, or refused by its name."""
    monkeypatch.chdir(tmp_path)  # a text may be the path of a checkpoint
    ov.save(TRAJECTORY, "kept.npz")
    badly = []
    for name, f in public().items():
        if (name in HEAVY) != (room is None) or room not in (None, name.rpartition(".")[0]):
            continue
        f, given = partial(f, *SEVERAL.get(name, ())), good(name, f)
        f(**given)
        for x in inspect.signature(f).parameters.values():
            if x.kind in (x.VAR_POSITIONAL, x.VAR_KEYWORD):
                continue
            for value in values:
                found = refused_badly(name, f, x.name, value, given)
                if found and (name, x.name) not in NAMED_OTHERWISE:
                    badly.append(f"{name}({x.name}={check.shown(value)}): {found}")
    plt.close("all")
    if room == "Trajectory":
        gc.collect()  # films that were never drawn warn when they go: here, not at the end of the session
    assert not badly, "\n".join(badly)
