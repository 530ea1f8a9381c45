"""Every record of the library pickles, copies, prints in one line; files written by version 0.1.0 load."""

import ast
import copy
import dataclasses
import inspect
import pickle
import pkgutil
import subprocess
import sys
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import overlaps as ov
from overlaps._base import immutable
from overlaps.static.bayes.channel import Channel
from overlaps.static.bayes.correlation import correlation_of
from overlaps.static.bayes.student import train_student
from overlaps.theory import quadratic
from overlaps.theory.cayley_hamilton import hierarchy as cayley_hamilton

DATA = Path(__file__).parents[1] / "data"


def softplus(x):
    return np.logaddexp(0.0, x)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def double(x):
    return 2 * x


def fails_at_two(x):
    if x == 2:
        raise ValueError("no")
    return float(x)


def partly_failed_sweep():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return ov.sweep(fails_at_two, {"x": [1, 2, 3]})


def plateau(model):
    return ov.fixed_point(model, ov.State.from_overlaps(model, Q=0.4 * np.ones((2, 2)), R=0.3 * np.ones((2, 2)), T=TWO))


def critical_rate():
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5)
    return ov.critical_eta(model, ov.State.from_overlaps(model, Q=[[1.0]], R=[[1.0]], T=[[1.0]]))


def distance_of_runs():
    runs = ov.simulate(MODEL, N=40, alpha=[0, 1, 2, 4, 8, 16], rng=1, runs=2)
    return ov.tlog_rmse([ov.solve(MODEL, runs.start(i), runs.alpha) for i in range(2)], runs)


TWO = np.eye(2)
MODEL = ov.committee_machine(
    2, 2, eta=0.5, eta_v=0.1, noise=0.1, weight_decay=(0.1, 0.0), spectrum=ov.power_law(beta=1.0, L=2)
)
START = MODEL.random_start(N=100, rng=1)
START_APART = ov.State.from_overlaps(
    ov.committee_machine(2, 2, eta=0.5), Q=0.5 * TWO, R=[[0.05, 0.0], [0.0, 0.03]], T=TWO
)
LEARNABLE = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5, noise=0.5)
LEARNABLE = LEARNABLE, LEARNABLE.random_start(N=100, rng=1)
MANIFOLD = ov.hidden_manifold(2, 2, ratio=0.5, eta=0.2)
COVARIATES = ov.gaussian_covariates(*[0.1 * np.eye(3)] * 3, 1, 1, eta=0.2)[0]
MIXTURE = ov.gaussian_mixture(2, gram=np.eye(2)[None], weights=[0.5, 0.5], labels=[1, -1], eta=0.2)
FLOW = ov.committee_machine(2, 2, eta=0.5, gradient_flow=True)
TASKS = [ov.committee_machine(1, 1, eta=0.5), ov.committee_machine(1, 1, eta=0.3)]
STAGES, MIXED = ov.Stages(TASKS, [1.0, 2.0]), ov.Mixed(TASKS, [0.4, 0.6])
TASK_START = TASKS[0].random_start(N=100, rng=1)
ADAPTED = ov.low_rank(TASK_START, a=[[0.3]], X=[[0.5]])
TEACHER = ov.static.HierarchicalTeacher(beta=1.0, k=6, noise=0.5, activation={3: 1.0})
SUBCRITICAL = ov.static.SubcriticalPowerLaw(beta=0.25, gamma=1.0, noise=0.5**0.5, activation={3: 1.0})

# One row for each kind of record: how one comes about, and a change that dataclasses.replace (or _replace) accepts.
RECORDS = {
    "Activation": (lambda: ov.erf, dict(name="mine")),
    "Activation of a function": (lambda: ov.Activation.from_function(softplus, sigmoid), dict(tolerance=0.1)),
    "Activation in pieces": (lambda: ov.leaky_relu(0.1), dict(name="mine")),
    "Activation polynomial": (lambda: ov.polynomial([0, -3, 0, 1]), dict(name="mine")),
    "Spectrum": (lambda: ov.Spectrum([2.0, 0.5], [0.2, 0.8]), dict(name="mine")),
    "Spectrum of a matrix": (lambda: ov.Spectrum.from_covariance([[2.0, 0.5], [0.5, 1.0]]), dict(name="mine")),
    "State": (lambda: START, dict(v=[1.0, 2.0])),
    "Schedule": (
        lambda: ov.Schedule.cosine(9.0) * ov.Schedule.warmup(1.0),
        dict(factors=(ov.Schedule.cosine(9.0), ov.Schedule.warmup(2.0))),
    ),
    "OptimalSchedule": (lambda: ov.optimal_schedule(*LEARNABLE, 2.0, knots=3), dict(value=1.0)),
    "State without eigenvalues": (lambda: dataclasses.replace(START, s=None), dict(s=[1.0, 2.0])),
    "Model": (lambda: MODEL, dict(eta=0.1)),
    "Learner": (lambda: ov.learner(ov.rules.hinge(0.7), eta=0.3), dict(eta=0.1)),
    "Rule": (lambda: ov.rules.hinge(0.7), dict(name="mine")),
    "MultiPass": (lambda: ov.theory.linear.multi_pass(*LEARNABLE, 2.0, [1.0, 3.0]), dict(error_estimate=1.0)),
    "Plateau of a curve": (
        lambda: ov.solve(ov.committee_machine(2, 2, eta=0.5), START_APART, (0, 300)).plateaus()[0],
        dict(height=0.1),
    ),
    "GaussianMixture": (lambda: MIXTURE, dict(eta=0.1)),
    "CriticalEta": (critical_rate, dict(eta=1.0)),
    "Closure": (lambda: ov.closure(MODEL, TWO, 0.1 * TWO, TWO), dict(eps_g=0.0)),
    "Trajectory": (lambda: ov.solve(MODEL, START, [0.0, 0.5, 1.0]), dict(message="mine")),
    "SummedTrajectory": (lambda: ov.solve(MODEL, START, [0.0, 0.5], blocks=False), dict(message="mine")),
    "StagedTrajectory": (lambda: ov.solve(STAGES, TASK_START, [0.5, 1.5]), dict(alpha=np.array([0.5]))),
    "MixedTrajectory": (lambda: ov.solve(MIXED, TASK_START, [0.5, 1.5]), dict(message="mine")),
    "LowRankTrajectory": (lambda: ov.solve(*ADAPTED, [0.5, 1.5]), dict(message="mine")),
    "StagedEnsemble": (lambda: ov.simulate(STAGES, N=40, alpha=[0, 2], rng=1, runs=2), dict(alpha=np.array([0.0]))),
    "MixedEnsemble": (lambda: ov.simulate(MIXED, N=40, alpha=[0, 1], rng=1, runs=2), dict(message="mine")),
    "LowRankEnsemble": (
        lambda: ov.simulate(ADAPTED[0], N=40, alpha=[0, 1], rng=1, runs=2, start=ADAPTED[1]), dict(message="mine")
    ),
    "Batch": (lambda: ov.solve_many([MODEL] * 2, START, [0.0, 0.5]), dict(rtol=1e-3)),
    "Ensemble": (lambda: ov.simulate(MODEL, N=40, alpha=[0, 1], rng=1, runs=2), dict(message="mine")),
    "Sweep": (lambda: ov.sweep(double, {"x": [1, 2]}), dict(function="mine")),
    "FixedPoint": (lambda: plateau(FLOW), dict(message="mine")),
    "HessianSpectrum": (lambda: ov.hessian(FLOW, plateau(FLOW).state), dict(eps_g=1.0)),
    "StationaryPoint": (
        lambda: ov.theory.stationary_points(FLOW, starts=[plateau(FLOW).state])[0],
        dict(found=7),
    ),
    "Minimum": (lambda: ov.theory.minima(FLOW, starts=1)[0], dict(share=0.5)),
    "Mixed": (
        lambda: ov.Mixed([MODEL, dataclasses.replace(MODEL, noise=0.3)], [0.4, 0.6]),
        dict(shares=[0.3, 0.7]),
    ),
    "Stages": (lambda: ov.Stages([MODEL, dataclasses.replace(MODEL, eta=0.1)], [1.0, 2.0]), dict(until=[1.0, 3.0])),
    "LowRank": (
        lambda: ov.low_rank(FLOW, START_APART, a=[[0.3], [0.2]], X=[[0.5]])[0],
        dict(eta_a=0.2),
    ),
    "LowRank with a memory": (
        lambda: ov.memory.schedule_free(FLOW, START_APART)[0], dict(pull=np.zeros((4, 8))),
    ),
    "Fluctuations": (lambda: ov.fluctuations(ov.solve(*LEARNABLE, [0.0, 0.5]), 100), dict(N=200)),
    "EscapeLaw": (
        lambda: ov.theory.escape(ov.committee_machine(2, 2, eta=1.5), "random", 1000, 0.0173, points=256),
        dict(level=0.01),
    ),
    "Selection": (lambda: ov.theory.quadratic.selected(4, 2, eta=0.3), dict(kappa=1.0)),
    "Law": (lambda: ov.theory.scaling.Law(1.0, 0.3, L=8, eta=0.5), dict(noise=0.1)),
    "Linearisation": (lambda: ov.linearise(FLOW, plateau(FLOW).state), dict(floor=1.0)),
    "HierarchicalTeacher": (lambda: TEACHER, dict(noise=0.1)),
    "BayesSolution": (lambda: TEACHER.solve(nu=20.0), dict(eps=0.0)),
    "BayesCurve": (lambda: TEACHER.curve((1, 100), points=5), dict(k_c=np.zeros(5))),
    "PowerLawLimit": (lambda: ov.static.PowerLawLimit(beta=1.0, noise=0.5, activation={3: 1.0}), dict(noise=0.1)),
    "SubcriticalPowerLaw": (lambda: SUBCRITICAL, dict(noise=0.8)),
    "EqualReadouts": (lambda: ov.static.EqualReadouts(noise=0.5, activation=ov.relu), dict(noise=0.1)),
    "Correlation": (lambda: correlation_of({3: 1.0}), dict(c=(0.0, 0.0, 0.0, 2.0))),
    "PosteriorSample": (
        lambda: ov.static.sample_posterior(TEACHER, d=2, nu=1e-9, rng=1, steps=200, chains=2), dict(d=1)
    ),
    "Information": (lambda: TEACHER.information(np.full(6, 0.5)), dict(power=1.0)),
    "StudentRun": (lambda: train_student(TEACHER, d=8, n=50, width=2, rng=1, steps=5), dict(n=1)),
    "HiddenManifold": (lambda: MANIFOLD, dict(eta=0.1)),
    "ManifoldEnsemble": (lambda: ov.simulate(MANIFOLD, N=20, alpha=[0, 1], rng=1, runs=2), dict(message="mine")),
    "GaussianCovariates": (lambda: COVARIATES, dict(eta=0.1)),
    "CovariatesEnsemble": (
        lambda: ov.simulate(COVARIATES, N=3, alpha=[0, 1], rng=1, runs=2, test=9, keep_weights=True),
        dict(message="mine"),
    ),
    "Rows": (lambda: ov.covariates.rows(np.eye(3)), dict(C=np.ones((3, 1)))),
    "Gaussian pairs": (lambda: ov.covariates.gaussian(*[0.1 * np.eye(3)] * 3), dict(N=2)),
    "Discrepancy": (distance_of_runs, dict(alpha=None)),
    "SpikedRandomFeatures": (
        lambda: ov.static.SpikedRandomFeatures(np.tanh, np.sin, r=1.2, c=1.1, gamma=0.9, beta=0.8), dict(noise=0.1)
    ),
    "SpikedSubspace": (
        lambda: ov.static.SpikedSubspace(np.tanh, np.multiply, r=[[1.0]], gamma=[[0.5]] * 2, beta=1.0), dict(noise=0.1)
    ),
    "SpikedClassifier": (
        lambda: ov.static.SpikedRandomFeatures(np.tanh, np.sign, r=1.2, gamma=0.9, beta=0.8).solve(
            alpha=1.0, lam=0.1, loss="logistic"
        ),
        dict(message="mine"),
    ),
    "PolynomialBasis": (lambda: cayley_hamilton.polynomial_basis(MODEL.spectrum), dict(name="mine")),
    "MomentTrajectory": (lambda: cayley_hamilton.solve(MODEL, START, [0.0, 1.0]), dict(message="mine")),
    # named tuples
    "Phase": (lambda: SUBCRITICAL.phase(2.0), dict(lam=1.0)),
    "ScalingLaw": (lambda: ov.static.PowerLawLimit(beta=1.0, noise=0.5, activation={3: 1.0}).leading(9.0), dict(eps=0)),
    "FixedPoint of the teacher": (lambda: TEACHER.solve(nu=20.0).solutions[0], dict(eps=0.0)),
    "Jump": (lambda: Channel(correlation_of({3: 1.0})).jumps[0], dict(lam=1.0)),
    "PlateauRates": (lambda: quadratic.plateau(3, 2, eta=0.1), dict(q=1.0)),
    "FlatDirections": (lambda: quadratic.flat_directions(12, 4, 2, 0, 2), dict(choices=1)),
    "RiccatiSolution": (lambda: quadratic.riccati_flow(TWO, [[0.1], [0.2]], [0.0, 1.0], eta=0.1), dict(alpha=None)),
}  # fmt: skip


@pytest.fixture(scope="module")
def records():
    return {name: make() for name, (make, _) in RECORDS.items()}


def parts(record):
    """The fields that make a record what it is; a rule of the library is what its recipe makes."""
    if isinstance(record, ov.Rule) and record.recipe:
        return {"recipe": record.recipe, "name": record.name, "tolerance": record.tolerance}
    if getattr(record, "learning", None) is not None:  # stands for a rule in a model
        return {"learning": record.learning}
    if dataclasses.is_dataclass(record):
        return {f.name: getattr(record, f.name) for f in dataclasses.fields(record) if f.compare}
    return record._asdict()


def same(a, b):
    """Equality of records and of what they hold, without their own __eq__: nothing is compared with itself."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return type(a) is type(b) and a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
    if dataclasses.is_dataclass(a) or hasattr(a, "_asdict"):
        return type(a) is type(b) and same(parts(a), parts(b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, BaseException):
        return type(a) is type(b) and a.args == b.args
    return bool(a == b)


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("clone", [lambda x: pickle.loads(pickle.dumps(x)), copy.copy, copy.deepcopy])
def test_a_copy_is_equal_and_a_changed_one_is_not(name, clone, records):
    record = records[name]
    again = clone(record)
    # copy.copy hands back a tuple, and the rules of the library are kept by their recipe
    assert again is not record or isinstance(record, tuple | ov.Rule)
    assert same(again, record) and repr(again) == repr(record)
    change = RECORDS[name][1]
    other = dataclasses.replace(again, **change) if dataclasses.is_dataclass(again) else again._replace(**change)
    assert not same(other, record)
    assert all(same(parts(other)[x], value) for x, value in parts(record).items() if x not in change and x != "k")
    if type(record).__eq__ not in (object.__eq__, tuple.__eq__):
        assert again == record and other != record


@pytest.mark.parametrize("name", RECORDS)
def test_records_do_not_change_and_print_in_one_line(name, records):
    record = records[name]
    field = next(iter(parts(record)))
    with pytest.raises((dataclasses.FrozenInstanceError, AttributeError)):
        setattr(record, field, None)
    text = repr(record)
    assert "object at 0x" not in text
    if not isinstance(record, tuple):  # those show all their arrays
        assert "\n" not in text and len(text) < 300


def test_arrays_of_checked_records_are_read_only(records):
    for array in (records["State"].q, records["Spectrum"].s, records["Model"].v, records["HierarchicalTeacher"].v2):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0


def test_a_sweep_with_failed_points_survives_pickling():
    result = partly_failed_sweep()
    again = pickle.loads(pickle.dumps(result))
    assert same(again, result) and not again.success
    assert "fails_at_two" in again.errors[1].__notes__[0]  # the traceback of the worker


def test_every_public_record_has_a_row(records):
    """A new dataclass in one of the public lists has to enter the table (Python itself looks after named tuples)."""
    kinds = {type(record) for record in records.values()}
    theories = [m.name for m in pkgutil.iter_modules(ov.theory.__path__, "overlaps.theory.")]
    for module in map(import_module, ["overlaps", "overlaps.results", "overlaps.static", *theories]):
        for name in getattr(module, "__all__", []):
            thing = getattr(module, name)
            if inspect.isclass(thing) and dataclasses.is_dataclass(thing):
                assert thing in kinds, f"{thing.__module__}.{name} has no row in RECORDS"


@pytest.mark.slow
def test_a_fresh_process_knows_every_record_by_name():
    """Rooms are loaded when first used: files of their records, and ``traj.escape``, must find them all the same."""
    sources = [ast.parse(path.read_text()) for path in Path(ov.__file__).parent.rglob("*.py")]
    classes = [node for tree in sources for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    names = [node.name for node in classes if any("Immutable" in ast.unparse(base) for base in node.bases)]
    assert {"EscapeLaw", "Plateau", "Sweep"} <= set(names)
    script = "import overlaps, sys\nfrom overlaps._base.immutable import Immutable\n"
    script += "[Immutable.kinds[x] for x in sys.argv[1:]]"
    subprocess.run([sys.executable, "-c", script, *names], check=True)


# files of version 0.1.0 -----------------------------------------------------------------------------------------------


def archived_model():
    spectrum = ov.Spectrum([2.0, 0.5], [1 / 3, 2 / 3])
    return ov.committee_machine(
        2, 1, eta=0.5, eta_v=0.1, noise=0.1, weight_decay=(0.1, 0.05), batch_size=2, spectrum=spectrum
    )


def archived_start(model):
    block = np.array([[0.3, 0.1], [0.1, 0.2]])
    return ov.State.from_blocks(
        model, q=[block, 0.5 * block], r=[[[0.1], [0.0]], [[-0.1], [0.05]]], t=[[[0.4]], [[0.6]]], v=[0.9, 1.1]
    )


def archived_trajectory():
    model = archived_model()
    return ov.solve(model, archived_start(model), [0.0, 1.0, 5.0], method="DOP853")


def archived_ensemble():
    model = archived_model()
    start, rng = archived_start(model), np.random.default_rng(1)  # what a seed was in that version
    return ov.simulate(model, N=30, alpha=[0, 1, 2], rng=rng, start=start, runs=2, method="direct")


ARCHIVED = {"trajectory-0.1.0.npz": archived_trajectory, "ensemble-0.1.0.npz": archived_ensemble}


@pytest.mark.parametrize("name", ARCHIVED)
def test_files_of_version_0_1_0_load_and_are_what_is_computed_today(name):
    """Read what version 0.1.0 wrote, in the folder tests, with

        from test_records import ARCHIVED
        for name, compute in ARCHIVED.items():
            compute().save(f"data/{name}")

    The files stay as they are: later versions have to read them.
    """  # noqa: D400
    stored, fresh = ov.load(DATA / name), ARCHIVED[name]()
    assert type(stored) is type(fresh) and stored.success
    assert stored.model == fresh.model == archived_model()
    assert {f.name for f in dataclasses.fields(stored)} == {f.name for f in dataclasses.fields(fresh)}
    # 1e-8 relative was asked of the integration; the same steps of SGD differ by rounding only, on any CPU
    rtol = 1e-7 if isinstance(fresh, ov.results.Trajectory) else 1e-10
    for field in ("alpha", "q", "r", "v", "tau", "T", "eps_g", "Q", "R"):
        np.testing.assert_allclose(getattr(stored, field), getattr(fresh, field), rtol=rtol, atol=1e-12, err_msg=field)


def test_a_kind_is_found_wherever_it_is_defined(monkeypatch):
    """Rooms are loaded from the last, until one brings the name; those before stay for later."""
    kinds = immutable.Kinds()
    kinds.later = ["first", "second", "third"]
    monkeypatch.setattr(immutable, "import_module", lambda room: kinds.update({f"kind of the {room}": room}))
    assert kinds["kind of the second"] == "second" and kinds.later == ["first"] and len(kinds) == 2
    with pytest.raises(KeyError, match="another"):
        kinds["another"]
    assert kinds["kind of the first"] == "first" and not kinds.later
