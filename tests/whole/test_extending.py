"""An activation, an integrator and a data model from outside of the package, as docs/extending.md shows them."""

import ast
import pickle
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.integrate

import overlaps as ov
from overlaps.activations import Kernels
from overlaps.activations.kernel_closure import KernelClosure
from overlaps.activations.numeric import NumericClosure
from overlaps.flow.binding import bind
from overlaps.flow.jacobian import jacobian
from overlaps.flow.late_transition import can_transition
from overlaps.flow.system import System

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()
BLOCKS = re.findall(r"^```\{code-cell\}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)


def page():
    """What the page defines: functions, classes and the two activations; what it runs is left to test_docs.py."""
    nodes = [node for block in BLOCKS for node in ast.parse(block).body]
    names = [ast.unparse(node.targets[0]) if isinstance(node, ast.Assign) else "" for node in nodes]
    kept = [node for node, name in zip(nodes, names, strict=True) if isinstance(node, DEFINITIONS) or "sine" in name]
    namespace = {}
    exec(compile(ast.Module(kept, []), "extending.md", "exec"), namespace)
    return SimpleNamespace(**namespace)


PAGE_CODE = page()
SINE, NUMERIC = PAGE_CODE.sine, PAGE_CODE.numeric_sine
LEARNING = {"v": [0.8, 1.1], "v_star": [-0.9], "eta": 0.5, "eta_v": 0.3, "noise": 0.2}


def network(activation=SINE, K=2, M=1, **learning):
    return ov.committee_machine(K, M, activation=activation, **{**LEARNING, **learning})


def state(model, spread=1.0):
    return ov.State.from_overlaps(model, Q=[[0.9 * spread, 0.1], [0.1, 0.6]], R=[[0.3], [-0.2]], T=[[0.8]], v=model.v)


def test_the_closure_of_the_page_is_that_of_quadrature():
    # the tensor rule for C stops at a relative difference of 1e-6, the two-point rule at 1e-8
    model, checked = network(), network(NUMERIC)
    assert isinstance(bind(model), KernelClosure) and isinstance(bind(checked), NumericClosure)
    start = state(model)
    found, expected = (ov.closure(x, start.Q, start.R, start.T, start.v) for x in (model, checked))
    for name, atol in {"A": 1e-8, "B": 1e-8, "dv": 1e-8, "eps_g": 1e-8, "C": 1e-6}.items():
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=0, atol=atol, err_msg=name)


def test_solve_goes_the_way_of_quadrature():
    model, alpha = network(K=2), [0, 1, 3]
    found, expected = (ov.solve(x, state(x), alpha, rtol=1e-7) for x in (model, network(NUMERIC)))
    assert found.success and expected.success
    for name in ("Q", "R", "v"):  # C by quadrature to 1e-6, twice
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=0, atol=2e-6)


def test_structured_steps_and_the_integrator_of_the_page_reach_what_scipy_reaches():
    model = network(spectrum=PAGE_CODE.spiked_covariance(30.0, 0.05))
    start, alpha = model.random_start(N=400, rng=1), [0, 1, 2]
    truth = ov.solve(model, start, alpha, method=scipy.integrate.LSODA, rtol=1e-10, atol=1e-12)
    structured = ov.solve(model, start, alpha, method="structured", rtol=1e-8)
    runs = [ov.solve(model, start, alpha, method=PAGE_CODE.RungeKutta4, length=h) for h in (0.04, 0.02)]
    errors = [max(np.abs(getattr(x, n) - getattr(truth, n)).max() for n in "QRv") for x in (structured, *runs)]
    assert structured.success and all(x.success for x in runs)
    assert errors[0] < 1e-7  # global error of BDF: a few rtol times what the dynamics amplify
    assert 10 < errors[1] / errors[2] < 25  # order four: 16, so the class was what stepped, with the step asked for
    assert errors[2] < 1e-6


def test_linearise_knows_the_rates_of_quadrature_and_of_the_flow_itself():
    model, checked = network(), network(NUMERIC)
    found, expected = (ov.linearise(x, state(x)).eigenvalues for x in (model, checked))
    # finite differences: the error of the integrals, 1e-8, over a step of 0.02
    np.testing.assert_allclose(np.sort_complex(found), np.sort_complex(expected), rtol=0, atol=1e-6)
    system = System(model, state(model))
    y, h = system.pack(system.start), 1e-5
    flow = np.array([(system.rhs(0, y + h * e) - system.rhs(0, y - h * e)) / (2 * h) for e in np.eye(y.size)]).T
    np.testing.assert_allclose(jacobian(system, y), flow, rtol=0, atol=1e-8)  # h^2, and rounding over h


@pytest.mark.parametrize("method", ["reduced", "direct"])
def test_simulate_follows_the_theory(method):
    model = network(spectrum=PAGE_CODE.spiked_covariance(5.0, 0.1), eta=0.3)
    N = 400
    start = model.random_start(N=N, rng=1)
    theory = ov.solve(model, start, [0, 1, 2])
    runs = ov.simulate(model, N=N, alpha=theory.alpha, rng=2, start=start, runs=6, method=method)
    for name in ("Q", "R"):
        gap = np.abs(runs.mean(name) - getattr(theory, name))[1:]
        # five standard errors of six runs, and a bias of order 1/N in the overlaps
        assert np.all(gap < 5 * runs.standard_error(name)[1:] + 10 / N), name


@pytest.mark.parametrize("pair", [(SINE, ov.erf), (ov.erf, SINE), (SINE, NUMERIC)], ids=str)
def test_pairs_that_an_activation_does_not_bring_are_left_to_quadrature(pair):
    student, teacher = pair
    model = network(student, teacher_activation=teacher)
    start = state(model)
    found = ov.closure(model, start.Q, start.R, start.T, start.v)
    # eps_g of three fields by Gauss-Hermite: 60 nodes are more than sines and error functions of these variances need
    x, p = np.polynomial.hermite_e.hermegauss(60)
    fields = np.einsum("ij,jabc->iabc", np.linalg.cholesky(start.S), np.array(np.meshgrid(x, x, x, indexing="ij")))
    output = np.tensordot(model.v, student.g(fields[:2]), 1) - model.v_star[0] * teacher.g(fields[2])
    p = p / p.sum()
    eps_g = np.einsum("abc,a,b,c->", output**2, p, p, p) / 2
    assert found.eps_g == pytest.approx(eps_g, rel=1e-7)
    assert isinstance(bind(model), NumericClosure)


def test_what_is_brought_beside_the_closure_is_used():
    asked = []

    def closure(S, w, parameters, K, teacher, *rest):
        return ov.erf.closed_forms.closure(S, w, parameters, K, ov.erf.code, *rest)

    def derivatives(S, w, K, teacher, *rest):
        asked.append(teacher)
        ov.erf.closed_forms.derivatives(S, w, K, ov.erf.code, *rest)

    forms = ov.erf.closed_forms
    kernels = Kernels(closure, (ov.erf.code,), derivatives, forms.differences, forms.workspace)
    mine = ov.Activation("mine", ov.erf.g, ov.erf.dg, ov.erf.d2g, kernels=kernels)
    models = [ov.committee_machine(2, 2, activation=g, eta=0.5) for g in (mine, ov.erf)]
    start = ov.State.from_overlaps(models[0], Q=np.eye(2), R=[[0.98, 0.02], [0.0, 0.97]], T=np.eye(2))
    rates = [ov.linearise(x, start).eigenvalues for x in models]
    np.testing.assert_array_equal(*rates)
    assert asked == [-1]  # the student's own function has no code
    late = [ov.solve(x, start, [0, 100, 1000], late=True) for x in models]
    assert late[0].eps_g[-1] < 1e-18 and "differences" in late[0].message
    # one closure is called from Python, the other in compiled steps: rounding of Q, R is 1e-11 of eps_g there
    np.testing.assert_allclose(late[0].eps_g, late[1].eps_g, rtol=1e-9)
    assert isinstance(
        bind(ov.committee_machine(1, 1, activation=mine, teacher_activation=ov.erf, eta=1.0)), KernelClosure
    )


def even_differences(*_):
    raise AssertionError("an even function has no differences with a student opposite to its teacher")


def test_late_times_do_not_take_an_even_function_for_an_odd_one():
    cosine = ov.Activation("cosine", np.cos, PAGE_CODE.minus_sin, kernels=Kernels(even_differences, (), None, max))
    for g, sign in ((cosine, 1), (cosine, -1), (ov.erf, -1)):
        model = ov.committee_machine(1, 1, activation=g, v=[1.0], v_star=[sign * 1.0], eta=0.5)
        near = ov.State.from_overlaps(model, Q=[[1.0]], R=[[sign * 0.999]], T=[[1.0]])
        assert (can_transition(model, near)[0] is None) == (g is cosine and sign == -1)


def outside_closure(S, w, parameters, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
    return np.nan


def test_a_record_goes_to_other_processes_and_says_what_is_wrong_with_it():
    activation = ov.Activation("outside", np.sin, np.cos, kernels=Kernels(outside_closure), kinks=[0.5, 1])
    again = pickle.loads(pickle.dumps(activation))
    assert again == activation and again.kinks == (0.5, 1.0) and hash(again) == hash(activation)
    with pytest.raises(ValueError, match=r"closure = None; expected a function"):
        Kernels(None)
    with pytest.raises(ValueError, match="derivatives = 3; expected a function"):
        Kernels(outside_closure, derivatives=3)
    with pytest.raises(ValueError, match=r"teachers = \(7,\); expected a tuple of codes"):
        Kernels(outside_closure, teachers=(7,))
    with pytest.raises(ValueError, match="kernels = .*expected a Kernels instance"):
        ov.Activation("outside", np.sin, np.cos, kernels=outside_closure)
    with pytest.raises(ValueError, match="kinks"):
        ov.Activation("outside", np.sin, np.cos, kinks=("nowhere",))


def test_the_library_says_where_its_functions_kink():
    for g in (ov.relu, ov.absolute, ov.leaky_relu(0.3), ov.erf, ov.tanh, ov.linear, ov.leaky_relu(1.0)):
        h = 1e-9
        jump = abs(g.dg(np.array(h)) - g.dg(np.array(-h))) > 1e-3
        assert (0.0 in g.kinks) == jump


@pytest.mark.parametrize("teacher", [ov.erf, ov.linear], ids=repr)
def test_a_closure_without_its_workspace_gives_nan_and_writes_nowhere(teacher):
    """A user may call the library's closures from others: machine code does not see where an array ends."""
    S, w, arrays = np.eye(3), np.ones(3), (np.zeros((2, 2)), np.zeros((2, 1)), np.zeros((2, 2)), np.zeros(2))
    with ov.reproducible():
        for size in (0, ov.erf.closed_forms.workspace(3) - 1):
            assert np.isnan(
                ov.erf.closed_forms.closure(S, w, np.zeros(size), 2, teacher.code, *3 * [1.0], True, *arrays)
            )
    assert not any(map(np.any, arrays))
