"""What works with what: every pair of features with every function, by the table and by numbers found otherwise.

A refused cell raises a ValueError that names both sides. A supported cell agrees with itself where a feature has values
that change nothing, and with SGD, whose code shares no formula with the flow, where it has generic ones.
"""

import itertools
import re

import numpy as np
import pytest
import settings

import overlaps as ov
from overlaps.models.features import FEATURES, FUNCTIONS, IMPLIED, REFUSED, applies, features_of, problems, supported
from overlaps.theory import cayley_hamilton, linear, plateau

TIMES = [0.0, 0.3, settings.END]
ROWS = np.random.default_rng(1).standard_normal((200, settings.SIZE))
SLOW = "tokens", "tokens_by_block"  # a closure of four fields by quadrature takes milliseconds
# What a feature changes beside itself, so that a neutral value of one takes the other away.
SAME = {
    frozenset(pair)
    for pair in (
        *(("noise", "noise(alpha)"), ("decay", "weight_decay(alpha)"), ("trained_v", "eta_v(alpha)")),
        *(("several", "blind"), ("several", "ratios"), ("blind", "ratios"), ("batches", "batch_size(alpha)")),
        *itertools.combinations(("classes", "ratios", "latents"), 2), ("several", "latents"), ("blind", "latents"),
        *itertools.combinations(("rule", "overlaps", *SLOW), 2), ("several", SLOW[1]), ("blind", SLOW[1]),
        *((name, "kinked") for name in ("rule", "overlaps", *SLOW)), 
        ("rule", "trained_v"), ("rule", "eta_v(alpha)"), ("rule", "Stages"),
        ("Mixed", "heads"), ("Mixed", "distilled"), ("heads", "distilled"), ("Stages", "distilled"), ("low_rank",
        "distilled"),
        ("Mixed", "Stages"), ("heads", "Stages"), ("low_rank", "heads"),
        ("low_rank", "pull"), ("distilled", "pull"),
    )
}  # fmt: skip
# Weight decay pulls at trained directions, not at the frozen weights beside them.
NOT_NEUTRAL = {("low_rank", "decay"), ("low_rank", "weight_decay(alpha)")}


def solve(model, start, schedule, options, method=None, **more):
    if "step" not in options:
        more["method"] = method or "DOP853"
    elif method is None:  # finite steps have neither method nor tolerances
        more = {}
    else:
        more["method"] = method
    return ov.solve(model, start, TIMES, schedule=schedule, **options, **more)


def solve_many(model, start, schedule, options, **more):
    options = {name: x for name, x in options.items() if name != "stop"}
    return ov.solve_many([model, model], start, TIMES, schedule=schedule, **options, **more)[1]


def simulated(model, start, schedule, options, method="direct"):
    start = None if "latents" in features_of(problems(model)[0]) else start
    more = {"alpha": TIMES, "rng": 1, "step": options.get("step")}
    return ov.simulate(model, N=settings.SIZE, start=start, method=method, schedule=schedule, **more)


def on_rows(model, start, schedule, options):
    options = {"step": options.get("step")}
    options |= {} if "rule" in features_of(problems(model)[0]) else {"rows_test": ROWS[:50]}
    return ov.simulate(model, N=settings.SIZE, alpha=TIMES, rng=1, start=start, schedule=schedule, rows=ROWS, **options)


def closure(model, start, *_):
    means = {"means": np.full(model.K + model.M, 0.1), "label": 0.3} if getattr(model, "n_classes", 0) else {}
    return ov.closure(model, start.Q, start.R, start.T, **means)


def escape(model, start, schedule, options):
    if (schedule or options) and hasattr(model, "tasks"):  # a result of stages has no such method
        return solve(model, start, schedule, options).escape(400)
    return ov.theory.escape(model, start, 400)


def product(lam, nu, theta):
    return lam[0] * nu[0]


CALLS = {
    "solve": solve,
    "solve_many": solve_many,
    "method = 'structured'": lambda *x: solve(*x, method="structured"),
    "simulate": simulated,
    "method = 'reduced'": lambda *x: simulated(*x, method="reduced"),
    "simulate(rows=)": on_rows,
    "closure": closure,
    "field_average": lambda m, s, f, o: (
        ov.field_average(solve(m, s, f, o), product) if f else ov.field_average(s, product, model=m)
    ),
    "linearise": lambda m, s, f, o: ov.linearise(m, s),
    "fixed_point": lambda m, s, f, o: ov.fixed_point(m, s, max_iterations=1),
    "critical_eta": lambda m, s, f, o: ov.critical_eta(m, s),
    "plateaus": lambda *x: solve(*x).plateaus(),
    "plateau": lambda m, s, f, o: ov.plateau(m, s),
    "fluctuations": lambda *x: ov.fluctuations(solve(*x), settings.SIZE, points=64),
    "theory.escape": escape,
    "hessian": lambda m, s, f, o: ov.hessian(m, solve(m, s, f, o) if f else s),
    "optimal_schedule": lambda m, s, f, o: ov.optimal_schedule(m, s, settings.END, knots=2, maxiter=1),
    "compress": lambda m, s, f, o: ov.compress(m, s, 9),
    "theory.stationary_points": lambda m, s, f, o: ov.theory.stationary_points(m, starts=1, rng=1),
    "theory.minima": lambda m, s, f, o: ov.theory.minima(m, starts=1, rng=1),
    "theory.plateau.plateau_state": lambda m, s, f, o: plateau.plateau_state(m, s),
    "theory.cayley_hamilton.solve": lambda m, s, f, o: cayley_hamilton.solve(m, s, TIMES),
    "theory.linear.reduce": lambda m, s, f, o: linear.reduce(m, s),
    "theory.linear.multi_pass": lambda m, s, f, o: linear.multi_pass(m, s, 2.0, TIMES),
}
# What no table has to say: arguments of another kind than a constructor takes.
NOT_TOGETHER = re.compile(
    " is not supported: |expected a Model such as|the teachers of the model|unexpected keyword|'Stages'"
)


def refused_rightly(error, *names):
    """Whether supported features are refused for another one that comes with them, or for arguments of another kind."""
    known = {*names}.union(*(IMPLIED.get(name, ()) for name in names))
    named = [x for x in FEATURES if FEATURES[x].words in str(error)]
    return not {*named} <= known if named else bool(NOT_TOGETHER.search(str(error)))


@pytest.mark.filterwarnings("ignore:eta max")
def test_the_table_is_complete():
    assert FEATURES.keys() == settings.FEATURES.keys() and {*FUNCTIONS} == CALLS.keys()
    assert REFUSED.keys() <= FEATURES.keys()
    assert {x for names in REFUSED.values() for x in names} <= {*FEATURES, *FUNCTIONS}
    for name, make in ((name, settings.build(name)) for name in FEATURES):
        model, _, schedule, options = make
        found = features_of(problems(model, schedule, **options)[0])
        implied = {*IMPLIED.get(name, ()), *(("several",) if name == "latents" else ())}
        numbers = {"eta_v(alpha)": "trained_v", "noise(alpha)": "noise"}
        numbers |= {"weight_decay(alpha)": "decay", "batch_size(alpha)": "batches"}
        assert {*found} == {name, *implied} | ({numbers[name]} if name in numbers else set()), name


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("first", FEATURES)
def test_what_is_refused_is_refused_by_name(first):
    """Every pair of features, and of each supported pair every function that does not support one of the two."""
    for second in [*FEATURES][: [*FEATURES].index(first) + 1]:
        together = first == second or supported(first, second)
        try:
            built = settings.build(first, second)
        except (ValueError, TypeError) as other:  # no constructor takes the two, or what comes with one of them
            assert refused_rightly(other, first, second) or not together, other
            continue
        if not {first, second} <= {*features_of(problems(built[0], built[2], **built[3])[0])}:
            continue  # one kind of data or rule replaces another
        if not together:
            with pytest.raises(ValueError, match="is not supported: ") as refusal:
                solve(*built)
            assert len([x for x in FEATURES if FEATURES[x].words in str(refusal.value)]) >= 2, refusal.value
            continue
        for who in FUNCTIONS:
            refused = [x for x in (first, second) if not supported(x, who) and applies(x, who)]
            if not refused or not (applies(first, who) and applies(second, who)):
                continue
            if {first, second} & {*SLOW} and who in ("plateaus", "fluctuations", "theory.escape"):
                continue  # which begin with a curve
            with pytest.raises(ValueError, match=re.escape(who) + " does not support|is not supported: ") as refusal:
                CALLS[who](*built)
            assert any(x.words in str(refusal.value) for x in FEATURES.values()), refusal.value


MAY_NOT_FIT = "critical_eta", "plateau", "theory.escape", "theory.plateau.plateau_state"  # these states, by a reason


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(  # curves of rules that meet no plateau take long
    "who", [pytest.param(x, marks=[pytest.mark.slow] * (x == "plateau")) for x in FUNCTIONS]
)
def test_what_is_supported_is_done(who):
    """Every function answers for every single feature that it supports, or refuses this state for another reason."""
    units = (lambda x: setattr(x, "activation", "linear")) if "linear" in who else None
    for name in FEATURES:
        if name in SLOW or not supported(name, who) or not applies(name, who):
            continue
        try:
            CALLS[who](*settings.build(name, change=units))
        except ValueError as error:
            if refused_rightly(error, name):
                continue
            assert who in MAY_NOT_FIT or SPECIAL.search(str(error)) or "linear" in who, (name, error)
            assert "support" not in str(error), (name, error)


def compared(x):
    """What answers have in common: overlaps and errors at all times."""
    M = min(x.R.shape[-1], 2)
    return np.concatenate([np.ravel(y) for y in (x.eps_g, x.Q, x.R[..., -M:])])


def neutral_pairs():
    for name in settings.NEUTRAL:
        for other in FEATURES:
            if other != name and supported(name, other) and frozenset((name, other)) not in SAME | {()}:
                if (name, other) not in NOT_NEUTRAL:
                    slow = pytest.mark.slow if {name, other} & {*SLOW} else ()
                    yield pytest.param(name, other, marks=slow, id=f"{name}-{other}")


def neutral(name, other):
    """Two problems with the feature ``other``: without ``name``, and with values of it that change nothing."""
    changed, base = (*settings.NEUTRAL[name], *settings.NOTHING)[:2]
    try:
        return settings.build(other, change=base), settings.build(other, change=changed)
    except (ValueError, TypeError) as error:
        assert refused_rightly(error, name, other), error
        return None


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name, other", [*neutral_pairs()])
def test_values_that_change_nothing(name, other):
    """To 1e-7: rtol 1e-10 in both runs, and values of 1e-9 (noise, squared) to 1e-13."""
    if (pair := neutral(name, other)) is None:
        return
    try:
        one, two = (solve(*x, rtol=1e-10) for x in pair)
    except ValueError as error:
        assert refused_rightly(error, name, other), error
        return
    assert one.success and two.success
    assert np.allclose(compared(one), compared(two), rtol=1e-7, atol=1e-9)


def of_closure(x):
    return np.concatenate([x.A.ravel(), x.B[:, -2:].ravel(), x.C.ravel(), [x.eps_g]])


def eigenvalues(x):
    return np.sort_complex(np.asarray(x.eigenvalues))


# What answers of a function have in common; sizes differ where a feature adds rows, students or blocks.
ANSWERS = {
    "solve_many": compared,
    "method = 'structured'": compared,
    "closure": of_closure,
    "field_average": np.ravel,
    "linearise": eigenvalues,
    "hessian": lambda x: np.sort(np.ravel(x.outliers)),
    "plateaus": lambda x: np.array([one.height for one in x]),
    "fluctuations": lambda x: x.std("eps_g"),
    "optimal_schedule": lambda x: np.array([x.value]),
}
# Differences and quadrature; elsewhere steps that are chosen anew in each run, at rtol 1e-8.
TOLERANCE = {"fluctuations": 1e-4, "optimal_schedule": 1e-4, "linearise": 1e-5}
# Means of one class are no mean over classes. With a frozen student the first teacher is another one, a kinked student
# begins aligned with its copy, and sample points of more fields are others.
INCOMPARABLE = {("closure", "classes"), ("closure", "biases")} | {
    (who, "distilled") for who in ("field_average", "linearise", "hessian", "fluctuations")
}
# Refusals that depend on more than two features, or on an argument.
SPECIAL = re.compile(
    "steps of these mixed tasks|no optimum without an upper bound|expected 'shares' for ov.Mixed|aligned with another"
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", settings.NEUTRAL)
@pytest.mark.parametrize("who", ANSWERS)
def test_values_that_change_nothing_in_other_functions(who, name):
    """Every function that has an answer for both problems gives one and the same."""
    if (who, name) in INCOMPARABLE:
        return
    for other in FEATURES:
        pair = frozenset((name, other))
        if other == name or not supported(name, other) or pair in SAME or (name, other) in NOT_NEUTRAL:
            continue
        if pair & {*SLOW} or not all(supported(x, who) and applies(x, who) for x in pair):
            continue
        if (problems_of_two := neutral(name, other)) is None:
            continue
        try:
            one, two = (ANSWERS[who](CALLS[who](*x)) for x in problems_of_two)
        except ValueError as error:  # of another feature that comes with one of the two
            assert refused_rightly(error, name, other) or SPECIAL.search(str(error)), error
            continue
        if one.shape == two.shape:
            tolerance = TOLERANCE.get(who, 1e-6)
            assert np.allclose(one, two, rtol=tolerance, atol=tolerance * np.max(np.abs(one), initial=0.0)), (
                other,
                one,
                two,
            )


def against_sgd():
    """Pairs that both the flow and a simulator support, and whose answers do not come from features of solve alone."""
    for first, second in itertools.combinations_with_replacement(FEATURES, 2):
        names = {first, second}
        if not names & {"flow", "latents", "late", "sums", "stop", "certify"} and supported(first, second):
            yield pytest.param(first, second, id=f"{first}-{second}")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("first, second", [*against_sgd()])
def test_generic_values_agree_with_sgd(first, second):
    """Mean overlaps of 40 runs at N = 1200, whose steps share no formula with the flow.

    Within five standard errors, or 4/N: corrections of order 1/N have a factor of order one.
    """
    try:
        model, start, schedule, options = settings.build(first, second)
    except (ValueError, TypeError) as other:
        assert refused_rightly(other, first, second), other
        return
    reduced = all(supported(x, "method = 'reduced'") for x in (first, second))
    step = options.get("step")
    N, method = (1200, "reduced") if reduced else (240, "direct")
    try:
        theory = solve(model, start, schedule, options)
        runs = ov.simulate(
            model, N=N, alpha=TIMES, rng=7, start=start, method=method, schedule=schedule, runs=40, step=step
        )
    except ValueError as error:
        assert refused_rightly(error, first, second), error
        return
    for name in ("Q", "R", "v", "eps_g"):
        found, expected = runs.mean(name), getattr(theory, name)
        allowed = np.maximum(5 * runs.standard_error(name), 4 / N * max(1.0, np.max(np.abs(expected))))
        assert np.all(np.abs(found - expected) <= allowed), (name, found - expected, allowed)
