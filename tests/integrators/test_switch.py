"""Steps that go on in compiled code: the loop over SciPy's solvers hands over between two steps."""

from types import SimpleNamespace

import numpy as np
import pytest
from helpers import few

import overlaps as ov
from overlaps._base import accounts, lazy_compilation
from overlaps.flow import flow
from overlaps.flow.system import System
from overlaps.integrators import compiled_steps


@pytest.fixture
def switch(monkeypatch):
    """``switch(n)``: runs begin in Python and turn to compiled steps after n of theirs; the times at which they did."""
    turned: list[float] = []

    def noted(prepare):
        return lambda self: turned.append(float(self.solver.t)) or prepare(self)

    def at(n):
        asked = iter(range(10**9))
        for kind in (compiled_steps.RungeKutta, compiled_steps.Backward):
            monkeypatch.setattr(kind, "due", classmethod(lambda cls, integrator: next(asked) > n))
            monkeypatch.setattr(kind, "pays", classmethod(lambda cls, integrator: cls.due(integrator)))
            monkeypatch.setattr(kind, "prepare", noted(kind.prepare))
        turned.clear()
        return turned

    return at


def two(activation=ov.erf, **rest):
    model = ov.committee_machine(2, 2, activation=activation, eta=0.7, noise=0.1, **rest)
    Q, R = [[0.5, 0.1], [0.1, 0.4]], [[0.1, 0.02], [0.03, 0.12]]
    return model, ov.State.from_overlaps(model, Q=Q, R=R, T=[[1.0, 0.2], [0.2, 0.9]])


def power():
    model = ov.committee_machine(2, 2, eta=0.2, spectrum=ov.power_law(beta=1.0, L=12))
    return model, model.random_start(N=1200, rng=1)


TIMES = np.array([0.0, 0.3, 0.7, 5.0, 20.0, 21.0, 40.0])
JUMPS = ov.Schedule([0.0, 4.0, 12.0, 40.0], [1.0, 0.4, 0.8, 0.8], "constant")
CASES = {
    "output times": (two(), TIMES, {}),
    "every step": (two(), (0.0, 30.0), {}),
    "relu": (two(ov.relu), TIMES, {}),
    "second layer": (two(eta_v=0.3), TIMES, {}),
    "knots": (two(), TIMES, {"schedule": ov.Schedule([0.0, 4.0, 9.0, 30.0], [1.0, 0.4, 0.8, 0.5])}),
    "jumps": (two(), TIMES, {"schedule": JUMPS}),
    "stop": (two(), (0.0, 90.0), {"stop": 0.02}),
    "function": (two(), (0.0, 90.0), {"stop": lambda alpha, state: alpha + state.r.sum() - 30.7}),
    "mixed": (power(), TIMES, {"method": "DOP853"}),
    "structured": (power(), (0.0, 1e3), {"method": "structured"}),
    "structured, times": (power(), 10 * TIMES, {"method": "structured"}),
    "structured, jumps": (power(), TIMES, {"method": "structured", "schedule": JUMPS}),
}  # fmt: skip


@few("n", [0, 3, 7], quick=1)
@pytest.mark.parametrize("case", CASES)
def test_a_run_that_turns_to_compiled_steps_is_the_compiled_run(case, n, switch):
    """At output times both are right to what rtol allows; lengths of steps hang on estimates that are part rounding."""
    problem, alpha, options = CASES[case]
    expected = ov.solve(*problem, alpha, **options)
    turned = switch(n)
    got = ov.solve(*problem, alpha, **options)
    assert max(turned) > 0 or n == 0
    assert got.success and got.message == expected.message and len(got) == len(expected)
    np.testing.assert_allclose(got.alpha, expected.alpha, rtol=0 if isinstance(alpha, np.ndarray) else 1e-3)
    last = slice(None) if isinstance(alpha, np.ndarray) else slice(-1, None)
    # rounding where steps are those of the other run; a step of BDF feels it through the tests of Newton's iteration
    tight = case not in ("stop", "function") and options.get("method") != "structured"
    for a, b in ((got.Q, expected.Q), (got.R, expected.R), (got.v, expected.v)):
        np.testing.assert_allclose(a[last], b[last], rtol=0, atol=1e-11 if tight else 1e-8)
    assert abs(got.nfev - expected.nfev) <= 0.05 * expected.nfev  # a jump costs the loop in Python a first step


def test_ctrl_c_at_the_turn_keeps_what_was_computed(switch, monkeypatch):
    problem, expected, turned = two(), ov.solve(*two(), TIMES), switch(12)

    def pressed(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(compiled_steps.RungeKutta, "advance", pressed)
    with pytest.warns(RuntimeWarning, match="interrupted"):
        got = ov.solve(*problem, TIMES)
    assert not got.success and turned[-1] > 0 and 1 < len(got) < len(expected)
    np.testing.assert_allclose(got.Q, expected.Q[: len(got)], rtol=0, atol=1e-11)


@pytest.mark.parametrize("kind", [compiled_steps.RungeKutta, compiled_steps.Backward])
def test_a_run_is_compiled_in_its_middle_when_that_pays(kind, monkeypatch):
    """The account of a path is that of its runs: steps, and the kernels that they call."""
    monkeypatch.setattr(lazy_compilation.policy, "is_lazy", True)
    monkeypatch.setattr(lazy_compilation, "LAZY_LIMITS", lazy_compilation.LazyLimits(max_ratio=1.0))
    monkeypatch.setattr(accounts, "is_compiled", lambda *kernel: False)
    monkeypatch.setattr(accounts, "_stored", {})
    monkeypatch.setattr(accounts, "_spent", {})
    monkeypatch.setattr(accounts.folders, "write", lambda *_: None)
    monkeypatch.setattr(kind, "begun", set())
    closure = System(*two()).kernel
    integrator = SimpleNamespace(system=SimpleNamespace(flow=flow), kernel=closure)
    assert not kind.pays(integrator)
    total = sum(map(lazy_compilation.compilation_seconds, (flow, closure, *(k for k, _ in kind.compiled_functions))))
    before = lazy_compilation.time_spent.seconds
    monkeypatch.setattr(lazy_compilation.time_spent, "seconds", before + total - 1.5 * kind.step_seconds)
    assert not kind.due(integrator) and kind.due(integrator)
    monkeypatch.setattr(kind, "begun", {(flow, closure)})
    assert kind.pays(integrator)


@pytest.mark.parametrize("budget", [1, 40])
def test_digits_do_not_depend_on_when_compiled_steps_return(budget, monkeypatch):
    """They return after a time, with one step whose records Python evaluates, by the same operations."""
    model = ov.committee_machine(2, 2, eta=0.2, spectrum=ov.power_law(beta=1.0, L=8))
    start = model.random_start(N=800, rng=2)
    runs = {"method": "structured"}, {"method": "DOP853"}
    once = [ov.solve(model, start, (0, 100), **run) for run in runs]
    monkeypatch.setattr(compiled_steps.CompiledSteps, "limited", lambda self, _: budget)
    for run, before in zip(runs, once, strict=True):
        again = ov.solve(model, start, (0, 100), **run)
        assert np.array_equal(again.q, before.q) and np.array_equal(again.r, before.r)
        assert np.array_equal(again.eps_g, before.eps_g) and again.nfev == before.nfev
