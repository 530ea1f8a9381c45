"""Learners in everything that exists: flows, solvers, batches, fixed points, files; and what refuses them, by name."""

import copy
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from helpers import few
from numba import njit
from scipy import stats

import overlaps as ov
from overlaps.analysis.noise_covariance import FieldPoints, product_covariance
from overlaps.flow.system import System

R = ov.rules
TWO = ov.Spectrum(s=[1.6, 0.4], p=[0.5, 0.5])
BLOCKS = dict(q=[[[0.5]], [[0.3]]], r=[[[0.1]], [[0.05]]], t=[[[0.5]], [[0.6]]])
PLAIN = dict(Q=[[1.0]], R=[[0.2]], T=[[1.0]])
FOUR = dict(Q=[[0.5, 0.1], [0.1, 0.4]], R=[[0.2, 0.05], [0.1, 0.15]], T=[[1.0, 0.2], [0.2, 0.9]])
WEDGE = [[1, 0, 0], [0, 1, 0]]
CAUCHY, NORMAL, STUDENT = stats.cauchy(scale=0.5), stats.norm(scale=0.5), stats.t(3, scale=0.6)


def perceptron(lam, nu, xi, theta, S, F, G):
    F[0] = np.sign(nu[0]) if lam[0] * nu[0] < 0 else 0.0


def wrong(lam, nu, theta):
    return 1.0 if lam[0] * nu[0] < 0 else 0.0


def by_hand(**options):
    return ov.Rule(perceptron, K=1, M=1, error=wrong, breaks=WEDGE, **options)


def model_and_start(rule, **options):
    model = ov.learner(rule, spectrum=TWO, **options)
    return model, ov.State.from_blocks(model, **BLOCKS)


# Q and R at alpha = 4 and 12 from a Runge-Kutta method of order 8 at 1e-11 that shares nothing with the library
FLOWS = {
    "hebb": (lambda: R.hebb(0.1), dict(eta=0.7, weight_decay=0.3),
             (4.66574210456, 9.34318608056, 1.70918195034, 2.65434561071)),
    "perceptron": (lambda: R.perceptron(), dict(eta=1.0),
                   (0.945860781588, 1.3609405124, 0.81828963919, 1.09992282741)),
    "perceptron by hand": (by_hand, dict(eta=1.0), (0.945860781588, 1.3609405124, 0.81828963919, 1.09992282741)),
    "adatron": (lambda: R.adatron(0.05), dict(eta=1.2, batch_size=3),
                (0.175606766645, 0.0583209758167, 0.334287245154, 0.21575459093)),
    "hinge": (lambda: R.hinge(), dict(eta=0.6), (2.34673737232, 4.69102488203, 1.32689336015, 2.08327671959)),
    "logistic": (lambda: R.logistic(), dict(eta=1.5), (3.66295543956, 8.60426475914, 1.71736417918, 2.85775585757)),
    "labels": (lambda: R.logistic(1.5), dict(eta=1.0, weight_decay=0.1),
               (0.977858196618, 1.19977507479, 0.74559447527, 0.916979679574)),
    "least squares": (lambda: R.least_squares(0.1), dict(eta=0.5),
                      (0.568456098515, 0.592680242122, 0.578548606883, 0.639112360588)),
    "Cauchy": (lambda: R.residual(CAUCHY), dict(eta=0.4),
               (0.941043268065, 1.18853641973, 0.751776681305, 0.982463076072)),
    "clipped normal": (lambda: R.residual(NORMAL, 0.7), dict(eta=0.6),
                       (0.878704307375, 1.06959299056, 0.835203707328, 1.00868355796)),
    "clipped Student": (lambda: R.residual(STUDENT, 0.8), dict(eta=0.5),
                        (0.845632701952, 1.07724830925, 0.771420238378, 0.985926038842)),
}  # fmt: skip


@pytest.mark.parametrize("name", FLOWS)
def test_golden_flows(name):
    make, options, known = FLOWS[name]
    model, start = model_and_start(make(), **options)
    traj = ov.solve(model, start, [4.0, 12.0])
    np.testing.assert_allclose([*traj.Q[:, 0, 0], *traj.R[:, 0, 0]], known, rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    "rule, eta, at, known",
    [
        (lambda: R.perceptron(0.1), 1.0, [4, 12], (0.75716541905, 0.804877791236, 0.62265121862, 0.710033769837)),
        (lambda: R.optimal(), 1.0, [2, 6], (16.2790614786, 22.4044963965, 3.25581229573, 4.48089927929)),
    ],
)
def test_golden_flows_of_isotropic_inputs(rule, eta, at, known):
    model = ov.learner(rule(), eta=eta)
    traj = ov.solve(model, ov.State.from_overlaps(model, **PLAIN), at)
    np.testing.assert_allclose([*traj.Q[:, 0, 0], *traj.R[:, 0, 0]], known, rtol=0, atol=1e-7)


def test_the_golden_flow_of_phase_retrieval():
    """A smooth force of the user, to the eight digits that are printed."""

    def force(lam, nu, xi, theta, S, F, G):
        F[0] = -2 * lam[0] * (lam[0] ** 2 - nu[0] ** 2)

    model = ov.learner(ov.Rule(force, K=1, M=1), eta=0.04)
    traj = ov.solve(model, ov.State.from_overlaps(model, Q=[[0.8]], R=[[0.3]], T=[[1.0]]), [4.0, 12.0])
    known = [0.60569756, 0.78728397, 0.41192307, 0.77990381]
    np.testing.assert_allclose([*traj.Q[:, 0, 0], *traj.R[:, 0, 0]], known, rtol=0, atol=2e-8)


def test_feedback_alignment_flow_and_closure():
    model = ov.learner(R.feedback_alignment([0.7, -0.5], [0.8, 0.6], noise=0.2), eta=0.8, eta_theta=0.4)
    traj = ov.solve(model, ov.State.from_overlaps(model, **FOUR), [6.0])
    np.testing.assert_allclose(traj.v[0], [0.396748712381, -0.163598833472], rtol=0, atol=1e-7)
    known = [1.290784255495, -0.599191465332, 0.740198779924]
    np.testing.assert_allclose(traj.Q[0][np.triu_indices(2)], known, rtol=0, atol=1e-7)
    rule = R.feedback_alignment([0.7, -0.5], [0.8, 0.6], noise=0.2)
    model = ov.learner(rule, theta=[0.3, -0.2], eta=1.0, eta_theta=1.0)
    at = dict(Q=[[0.9, 0.2], [0.2, 0.7]], R=[[0.3, 0.1], [-0.1, 0.25]], T=[[1.1, 0.15], [0.15, 0.8]])
    c = ov.closure(model, **at)
    A = [[-0.083427471933449, 0.049901410002504], [0.053465796431254, -0.022179507704971]]
    B = [[0.180524373495338, 0.144794552782735], [-0.134963121815954, -0.110311751893979]]
    np.testing.assert_allclose(c.A, A, rtol=0, atol=1e-10)
    np.testing.assert_allclose(c.B, B, rtol=0, atol=1e-10)
    known = [0.075376572582557, -0.050192736226729, 0.040882306411712]
    np.testing.assert_allclose(c.C[np.triu_indices(2)], known, rtol=0, atol=1e-10)
    np.testing.assert_allclose(c.dv, [0.017397997289798, 0.060547242043772], rtol=0, atol=1e-10)
    assert c.eps_g == pytest.approx(0.180297451468792, abs=1e-10)


def test_node_perturbation_has_the_drift_of_descent_and_more_noise():
    """Its closed form is 2 C + tr(C); the force at the nodes of a quadrature, noise summed, gives the same."""
    rule = R.node_perturbation([0.6, -0.9], [0.8], noise=0.3)
    at = dict(Q=[[0.9, 0.2], [0.2, 0.7]], R=[[0.3], [-0.1]], T=[[1.1]])
    model = ov.learner(rule, eta=0.7, eta_theta=0.4)
    np.testing.assert_array_equal(model.v, [0.6, -0.9])
    descent = ov.committee_machine(2, 1, v=[0.6, -0.9], v_star=[0.8], noise=0.3, eta=0.7, eta_v=0.4)
    found, known = ov.closure(model, **at), ov.closure(descent, **at)
    by_force = ov.closure(ov.learner(replace(rule, closed=None), eta=0.7, eta_theta=0.4), **at)
    for c in (found, by_force):
        for name in ("A", "B", "dv", "eps_g"):
            np.testing.assert_allclose(getattr(c, name), getattr(known, name), rtol=0, atol=1e-8)
        np.testing.assert_allclose(c.C, 2 * known.C + np.trace(known.C) * np.eye(2), rtol=0, atol=1e-8)
    with pytest.raises(ValueError, match="v has 7 entries; expected at most 6"):
        R.node_perturbation(np.ones(7), [1.0])


@pytest.mark.slow
def test_the_force_of_feedback_alignment_sees_noisy_labels():
    """In both layers: the flow knows of the noise in the second one only through fluctuations."""
    rule = R.feedback_alignment([0.7, -0.5], [0.8], activation="linear", noise=0.2)
    F, G, theta = np.zeros(2), np.zeros(2), np.array([0.3, -0.2])
    lam, nu, xi = np.array([0.9, 0.4]), np.array([1.1]), 1.7
    getattr(rule.force, "py_func", rule.force)(lam, nu, xi, theta, np.eye(3), F, G)
    delta = theta @ lam - 0.8 * nu[0] - 0.2 * xi
    np.testing.assert_allclose([F, G], [[-0.7 * delta, 0.5 * delta], -lam * delta], rtol=1e-14)


@pytest.mark.slow
def test_feedback_alignment_is_its_force():
    """The closed form against quadrature of the force that SGD uses, five fields by Sobol points: 1e-3."""
    rule = R.feedback_alignment([0.7, -0.5], [0.8], noise=0.2)
    at = dict(Q=[[0.9, 0.2], [0.2, 0.7]], R=[[0.3], [-0.1]], T=[[1.1]])
    one, other = (
        ov.closure(ov.learner(x, theta=[0.3, -0.2], eta=1.0, eta_theta=1.0), **at)
        for x in (rule, replace(rule, closed=None, tolerance=1e-6))
    )
    for name in ("A", "B", "C", "dv"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=0, atol=1e-6)


@pytest.mark.parametrize("K, M", [(2, 1), (1, 2)])
def test_dropout_is_the_mean_of_masked_descents(K, M):
    """In closed form against the force at the nodes of a quadrature, to its 1e-8; without masks it is descent."""
    S, rule = np.array([[0.9, 0.2, 0.3], [0.2, 0.7, -0.1], [0.3, -0.1, 1.1]]), R.dropout(K, M, 0.7)
    rules = (rule, replace(rule, closed=None)), (R.dropout(K, M, 1.0), None)
    for models in ([x and ov.learner(x, eta=0.6) or ov.committee_machine(K, M, eta=0.6) for x in two] for two in rules):
        found, known = (ov.closure(model, Q=S[:K, :K], R=S[:K, K:], T=S[K:, K:]) for model in models)
        for name in ("A", "B", "C", "dv", "eps_g"):
            np.testing.assert_allclose(getattr(found, name), getattr(known, name), rtol=0, atol=1e-8)


def test_dropout_without_masks_has_the_fourth_moments_of_descent():
    """Covariances of products of forces and fields in one sample, of units by Sobol points, which leave 0.6 %."""
    S = np.array([[0.9, 0.2, 0.3], [0.2, 0.7, -0.1], [0.3, -0.1, 1.1]])
    found, known = (
        product_covariance(model, FieldPoints.of(model, 2**12, np.random.default_rng(1)), S, np.ones(2))[0, :9, :9]
        for model in (ov.learner(R.dropout(2, 1, 1.0), eta=0.6), ov.committee_machine(2, 1, eta=0.6))
    )
    np.testing.assert_allclose(found, known, rtol=0, atol=1e-2 * np.abs(known).max())


def test_dropout_has_the_plateau_of_descent_where_all_units_are_seen():
    """K = M = 2, whose integrals over four fields took minutes; noise of masks lowers the rate of escape."""
    whole, known = (
        ov.plateau(ov.learner(R.dropout(2, 2, 1.0), eta=0.5)),
        ov.plateau(ov.committee_machine(2, 2, eta=0.5)),
    )
    assert whole.height == pytest.approx(known.height, rel=1e-9)
    np.testing.assert_allclose(whole.rates, known.rates, rtol=1e-6)  # slopes of rules are differences
    masked = ov.plateau(ov.learner(R.dropout(2, 2, 0.98), eta=0.5))
    assert masked.growing == 1 and 0.8 * known.rates[0] < masked.rates[0] < known.rates[0]


def test_dropout_flow():
    model = ov.learner(R.dropout(2, 1, 0.8), eta=0.6)
    start = ov.State.from_overlaps(model, Q=FOUR["Q"], R=[[0.2], [0.1]], T=[[1.0]])
    traj = ov.solve(model, start, [6.0], rtol=1e-7)
    known = [0.3144279547, 0.0194279903, 0.2461891455]
    np.testing.assert_allclose(traj.Q[0][np.triu_indices(2)], known, rtol=0, atol=1e-7)
    np.testing.assert_allclose(traj.R[0, :, 0], [0.412356720, 0.329198469], rtol=0, atol=1e-7)


def test_offset_flow():
    model = ov.learner(R.offsets(1, [0.7]), eta=0.8, eta_theta=0.5)
    traj = ov.solve(model, ov.State.from_overlaps(model, Q=[[0.6]], R=[[0.2]], T=[[1.0]]), [6.0])
    found = [traj.Q[0, 0, 0], traj.R[0, 0, 0], traj.v[0, 0]]
    np.testing.assert_allclose(found, [0.560507697193, 0.714805707612, 0.430394016767], rtol=0, atol=1e-7)


def linear_regression(lam, nu, xi, theta, S, F, G):
    F[0] = -(lam[0] - nu[0] - 0.3 * xi)


def test_adagrad_norm_flow():
    rule = R.adagrad_norm(ov.Rule(linear_regression, K=1, M=1, noise="normal"), b0=0.5)
    model, start = model_and_start(rule, eta=1.0, eta_theta=1.0)
    assert start.v == pytest.approx(0.25)
    traj = ov.solve(model, start, [6.0])
    found = [traj.Q[0, 0, 0], traj.R[0, 0, 0], traj.v[0, 0]]
    np.testing.assert_allclose(found, [1.033809062811, 1.002488539223, 2.835147392622], rtol=0, atol=1e-7)


@pytest.mark.slow
def test_adagrad_norm_of_a_closed_rule_is_that_of_its_force():
    closed = R.adagrad_norm(R.logistic(1.5), b0=0.6, mean_eigenvalue=1.7)
    by_force = R.adagrad_norm(replace(R.logistic(1.5), closed=None), b0=0.6, mean_eigenvalue=1.7)
    known, found = (ov.solve(*model_and_start(rule, eta=1.3, eta_theta=0.8), [0.0, 3.0]) for rule in (closed, by_force))
    for name in ("Q", "R", "v"):
        np.testing.assert_allclose(getattr(found, name), getattr(known, name), rtol=0, atol=1e-7)


@pytest.mark.slow
def test_adagrad_norm_gathers_squared_gradients_of_inputs():
    """Of the mean eigenvalue 1.7: theta grows by 1.7 E[F^2] = 1.7 (Q - 2 R + T + sigma^2)."""
    rule = R.adagrad_norm(ov.Rule(linear_regression, K=1, M=1, noise="normal"), mean_eigenvalue=1.7)
    c = ov.closure(ov.learner(rule, eta=0.9, eta_theta=0.8), Q=[[0.8]], R=[[0.5]], T=[[1.2]])
    assert c.dv[0] == pytest.approx(0.8 * 1.7 * (0.8 - 1.0 + 1.2 + 0.09), rel=1e-9)


def test_a_line_search_descends_fastest():
    """Its decrease of s^2 is s^4 / (s^2 + sigma^2): more than that of constant rates on either side."""
    at = dict(Q=[[0.8]], R=[[0.5]], T=[[1.2]])
    s2 = 0.8 - 1.0 + 1.2
    c = ov.closure(ov.learner(R.line_search(0.6), eta=1.0), **at)
    rate = s2 / (s2 + 0.36)
    np.testing.assert_allclose([c.A[0, 0], c.B[0, 0]], [-rate, rate], rtol=1e-9)
    assert c.C[0, 0] == pytest.approx(rate**2 * (s2 + 0.36), rel=1e-9)


# what assumed gradient descent of the recorded error --------------------------------------------------------------


@few("scale", [1e-9, 1.0, 1e3], quick=1)
def test_the_recorded_error_costs_no_evaluations(scale):
    """A and B are no gradient of it: an error control that took them for one made 854 evaluations of 158."""

    def error(lam, nu, theta):
        return scale if lam[0] * nu[0] < 0 else 0.0

    rule = ov.Rule(perceptron, K=1, M=1, error=error, breaks=WEDGE)
    model, start = model_and_start(rule, eta=1.0)
    for method in ("DOP853", "structured"):
        known = ov.solve(*model_and_start(by_hand(), eta=1.0), [12.0], method=method)
        traj = ov.solve(model, start, [12.0], method=method)
        assert traj.nfev == known.nfev
        assert traj.eps_g[-1] == pytest.approx(scale * known.eps_g[-1], rel=1e-9)


def test_a_rule_without_an_error_records_nan():
    model, start = model_and_start(ov.Rule(perceptron, K=1, M=1, breaks=WEDGE), eta=1.0)
    assert np.isnan(ov.solve(model, start, [1.0]).eps_g).all()


@few("method", ["structured", "BDF", "LSODA", "Radau"], quick=2)
def test_solvers_agree(method):
    for rule in (R.perceptron(0.1), by_hand()):
        model, start = model_and_start(rule, eta=1.0)
        known, found = ov.solve(model, start, [12.0]), ov.solve(model, start, [12.0], method=method)
        np.testing.assert_allclose(found.Q, known.Q, rtol=1e-5)  # of rtol 1e-8 summed over the steps
        np.testing.assert_allclose(found.R, known.R, rtol=1e-5)


def test_a_rule_that_is_no_gradient_has_no_structured_method():
    model = ov.learner(R.feedback_alignment([0.7, -0.5], [1.0, 1.0]), theta=[0.3, 0.2], eta=0.8, eta_theta=0.4)
    start = ov.State.from_overlaps(model, **FOUR)
    system = System(model, start)
    system.close(system.pack(start.on(model)))
    assert "A is not symmetric" in system.no_jacobian_reason()
    known = ov.solve(model, start, [6.0])
    found = ov.solve(model, start, [6.0], method="structured")  # an inexact Newton matrix: the same digits
    np.testing.assert_allclose(found.Q, known.Q, rtol=1e-5)


def test_fixed_point_and_its_rates():
    """Least squares: R* = B T, eigenvalues -eta and eta^2 - 2 eta, by differences of a rule by quadrature."""

    def squares(lam, nu, xi, theta, S, F, G):
        F[0] = np.sign(nu[0]) - lam[0]

    for rule in (R.least_squares(), ov.Rule(squares, K=1, M=1, breaks=[[0, 1, 0]])):
        model = ov.learner(rule, eta=0.5)
        guess = ov.State.from_overlaps(model, Q=[[0.8]], R=[[0.7]], T=[[1.0]])
        point = ov.fixed_point(model, guess)
        R0 = math.sqrt(2 / math.pi)
        Q0 = (4 / math.pi + 0.5 * (1 - 4 / math.pi)) / 1.5
        assert point.state.R[0, 0] == pytest.approx(R0, abs=1e-9)
        assert point.state.Q[0, 0] == pytest.approx(Q0, abs=1e-9)
        rates = np.sort(ov.linearise(model, point.state).eigenvalues.real)
        np.testing.assert_allclose(rates, [-0.75, -0.5], rtol=0, atol=1e-8)


def test_many_are_each():
    models = [ov.learner(R.hinge(), eta=eta, spectrum=TWO) for eta in (0.3, 0.6, 0.9)]
    hand = [ov.learner(by_hand(), eta=eta, spectrum=TWO) for eta in (0.3, 0.6)]
    for batch in (models, hand):
        start = ov.State.from_blocks(batch[0], **BLOCKS)
        many = ov.solve_many(batch, start, [0.0, 2.0])
        for i, model in enumerate(batch):
            np.testing.assert_array_equal(many.Q[i], ov.solve(model, start, [0.0, 2.0]).Q)


def test_schedules_stages_and_compression():
    model, start = model_and_start(R.hinge(), eta=0.6)
    half = ov.Schedule.piecewise([1.0], [1.0, 0.5]) if hasattr(ov.Schedule, "piecewise") else None
    if half is not None:
        one = ov.solve(model, start, [2.0], schedule=half)
        middle = ov.solve(model, start, [1.0])[-1]
        two = ov.solve(replace(model, eta=0.3), middle, [2.0])
        np.testing.assert_allclose(one.Q[-1], two.Q[-1], rtol=1e-7)
    with pytest.raises(ValueError, match="noise is 0 in the model"):
        ov.solve(model, start, [1.0], schedule={"noise": ov.Schedule.cosine(3.0)})
    wide = ov.learner(R.logistic(), eta=0.5, spectrum=ov.power_law(beta=1.0, L=60))
    begin = wide.random_start(N=600, rng=3)
    small, moved = ov.compress(wide, begin, 40)
    assert isinstance(small, ov.Learner) and small.rule is wide.rule
    np.testing.assert_allclose(ov.solve(small, moved, [2.0]).Q, ov.solve(wide, begin, [2.0]).Q, rtol=1e-7)
    stages = ov.Stages([model, replace(model, eta=0.2)], until=[1.0, 2.0])
    assert ov.solve(stages, start, [0.0, 2.0]).success
    with pytest.raises(ValueError, match="differ in activation"):
        ov.Stages([model, ov.learner(R.hebb(), eta=0.2, spectrum=TWO)], until=[1.0, 2.0])


@few(
    "rule",
    [
        lambda: R.hinge(0.7),
        lambda: R.logistic(1.5),
        lambda: R.residual(STUDENT, 0.8),
        lambda: R.offsets(1, [0.7]),
        lambda: R.adagrad_norm(R.logistic(), b0=0.5),
        lambda: R.feedback_alignment([0.7], [0.8], noise=0.2),
        lambda: R.node_perturbation([0.7], [0.8], activation="relu", noise=0.2),
    ],
    quick=4,
)
def test_files_and_pickles_know_rules_by_name(rule, tmp_path):
    model, start = model_and_start(rule(), eta=0.6)
    assert pickle.loads(pickle.dumps(model)).rule == model.rule
    traj = ov.solve(model, start, [0.0, 1.0])
    traj.save(tmp_path / "run.npz")
    loaded = ov.load(tmp_path / "run.npz")
    assert loaded.model.rule == model.rule and loaded == traj


def test_files_keep_a_record_without_the_force(tmp_path):
    model, start = model_and_start(by_hand(), eta=0.6)
    traj = ov.solve(model, start, [0.0, 1.0])
    traj.save(tmp_path / "run.npz")
    assert pickle.loads(pickle.dumps(model)).rule == model.rule  # by the name of the function in its module
    with pytest.raises(ValueError, match=r"pass load\(path, model=...\)"):
        ov.load(tmp_path / "run.npz")
    np.testing.assert_array_equal(ov.load(tmp_path / "run.npz", model=model).Q, traj.Q)


def test_a_force_inside_a_function_needs_njit_to_go_to_another_process():
    def make(c, decorate):
        @decorate
        def force(lam, nu, xi, theta, S, F, G):
            F[0] = c * nu[0] - lam[0]

        return ov.learner(ov.Rule(force, K=1, M=1), eta=0.5)

    plain, compiled = make(2.0, lambda f: f), make(2.0, njit)
    with pytest.raises(pickle.PicklingError, match="rule 'force' has no name in a module; expected .* numba.njit"):
        pickle.dumps(plain)
    found = pickle.loads(pickle.dumps(compiled))
    assert ov.closure(found, **PLAIN).B[0, 0] == pytest.approx(1.0)  # eta c
    assert ov.closure(copy.deepcopy(plain), **PLAIN).B[0, 0] == pytest.approx(1.0)


def test_late_times_refuse_a_rule():
    model, start = model_and_start(R.perceptron(), eta=0.6)
    with pytest.raises(ValueError, match="late=True with a rule of learning"):
        ov.solve(model, start, [1.0], late=True)


@pytest.mark.parametrize(
    "call",
    [
        lambda model, start: ov.hessian(model, start),
        lambda model, start: ov.optimal_schedule(model, start, 2.0),
        lambda model, start: ov.theory.stationary_points(model),
    ],
)
def test_theories_of_the_squared_loss_refuse_by_name(call):
    model, start = model_and_start(R.perceptron(), eta=0.6)
    with pytest.raises(ValueError, match="a rule of learning in place of a squared loss"):
        call(model, start)


def test_descent_of_a_squared_loss_is_the_library():
    """Rules of a committee of error functions and of relu units, with a break at lambda_k = 0."""

    def descent(lam, nu, xi, theta, S, F, G):
        delta = 0.6 * max(lam[0], 0.0) + 0.9 * max(lam[1], 0.0) - max(nu[0], 0.0) - 0.3 * xi
        F[0] = -0.6 * delta if lam[0] > 0 else 0.0
        F[1] = -0.9 * delta if lam[1] > 0 else 0.0

    rule = ov.Rule(descent, K=2, M=1, noise=([1, -1], [0.5, 0.5]), breaks=np.eye(3, 4))
    known = ov.committee_machine(2, 1, activation=ov.relu, v=[0.6, 0.9], eta=1.0, noise=0.3)
    at = dict(Q=[[0.9, 0.2], [0.2, 0.7]], R=[[0.3], [-0.1]], T=[[1.1]])
    one, other = ov.closure(known, **at), ov.closure(ov.learner(rule, eta=1.0), **at)
    for name in ("A", "B", "C"):
        np.testing.assert_allclose(getattr(other, name), getattr(one, name), rtol=0, atol=1e-7)


def test_equal_eigenvalues_may_be_one_block_or_two():
    merged = ov.Spectrum(s=[1.6, 0.4], p=[0.5, 0.5])
    split = ov.Spectrum(s=[1.6, 0.4, 1.6], p=[0.2, 0.5, 0.3])
    parts = dict(q=[[[0.2]], [[0.3]], [[0.3]]], r=[[[0.07]], [[0.05]], [[0.03]]], t=[[[0.35]], [[0.6]], [[0.15]]])
    for rule in (R.adatron(0.05), by_hand()):
        one, two = (ov.learner(rule, eta=0.9, weight_decay=0.1, spectrum=x) for x in (merged, split))
        known = ov.solve(one, ov.State.from_blocks(one, **BLOCKS), [0.0, 4.0])
        found = ov.solve(two, ov.State.from_blocks(two, **parts), [0.0, 4.0])
        np.testing.assert_allclose([found.Q[-1], found.R[-1]], [known.Q[-1], known.R[-1]], rtol=1e-7)  # rtol 1e-8


def test_a_batch_divides_the_noise_and_a_sphere_keeps_the_norm():
    for rule in (R.hinge(), by_hand()):
        model, start = model_and_start(rule, eta=0.6, batch_size=4)
        slow, _ = model_and_start(rule, eta=0.6)
        c, d = System(model, start), System(slow, start)
        y = c.pack(start)
        flow = [x.rhs(0.0, y) for x in (c, d)]
        np.testing.assert_allclose((flow[1] - flow[0])[2:], 0.75 * TWO.s * TWO.p * d.C[0, 0], rtol=1e-12)
        round_, _ = model_and_start(rule, eta=0.6, constraint="sphere")
        traj = ov.solve(round_, start, [0.0, 5.0])
        assert np.trace(traj.q[-1].sum(axis=0)) == pytest.approx(0.8, rel=1e-9)


def test_averages_along_a_trajectory():
    model, start = model_and_start(R.adatron(), eta=1.0)
    traj = ov.solve(model, start, [0.0, 1.0, 3.0])
    np.testing.assert_allclose(ov.field_average(traj, wrong, breaks=WEDGE), traj.eps_g, rtol=1e-9)
    np.testing.assert_allclose(ov.field_average(traj[-1], wrong, model=model, breaks=WEDGE), traj.eps_g[-1:], rtol=1e-9)
    with pytest.raises(ValueError, match="do not converge"):
        ov.field_average(traj, wrong)


def squares(lam, nu, theta):
    """Half the squared error of one linear unit with this readout, for a teacher of readout 1.3."""
    return (theta[0] * lam[0] - 1.3 * nu[0]) ** 2 / 2


def test_averages_know_the_readout_of_each_record():
    model = ov.committee_machine(1, 1, activation=ov.linear, v=[0.7], v_star=[1.3], eta=0.4, eta_v=0.3)
    traj = ov.solve(model, ov.State.from_overlaps(model, Q=[[0.6]], R=[[0.2]], T=[[0.9]]), [0.0, 2.0])
    np.testing.assert_allclose(
        ov.field_average(traj, squares), traj.eps_g, rtol=1e-9
    )  # means settle to 1e-8 of their size


def test_norms_that_vanish_are_named():
    """AdaTron with noisy labels: Q falls below what atol resolves while the angle is settled at .207584773."""
    model = ov.learner(R.adatron(0.1), eta=1.0)
    start = ov.State.from_overlaps(model, **PLAIN)
    with pytest.warns(RuntimeWarning, match="norm"):
        traj = ov.solve(model, start, np.linspace(0, 400.0, 41))
    assert not traj.success and "norm fell below" in traj.message
    settled = traj.eps_g[(traj.alpha >= 60) & (traj.alpha <= 150)]
    np.testing.assert_allclose(settled, 0.207584773, rtol=0, atol=1e-6)


def test_hebb_follows_teachers_that_drift():
    """dR/dalpha = eta sqrt(2/pi) - (delta + decay) R at T = 1; decay is eta times the weight decay."""
    eta, delta, decay, alpha = 0.7, 0.13, 0.7 * 0.2, np.array([0.0, 1.3, 9.0])
    model = ov.learner(ov.rules.hebb(), eta=eta, drift=delta, weight_decay=0.2)
    start = ov.State.from_overlaps(model, Q=[[0.5]], R=[[0.3]], T=[[1.0]])
    rest = eta * np.sqrt(2 / np.pi) / (delta + decay)
    expected = rest + (0.3 - rest) * np.exp(-(delta + decay) * alpha)
    np.testing.assert_allclose(ov.solve(model, start, alpha).R[:, 0, 0], expected, rtol=1e-7)


def test_a_level_of_an_error_that_no_rule_records_is_refused():
    """Otherwise nan passes for a level that is met at the start; a function of the state stops, as before."""
    model, start = model_and_start(ov.Rule(perceptron, K=1, M=1, breaks=WEDGE), eta=1.0)
    for call in (
        lambda: ov.solve(model, start, [1.0], stop=0.1),
        lambda: ov.solve_many(model, [start, start], [1.0], stop=0.1),
        lambda: ov.solve(ov.Stages([model, model], until=[1.0, 2.0]), start, [2.0], stop=0.1),
    ):
        with pytest.raises(
            ValueError, match=r"stop = 0.1 is a level of eps_g, and the rule 'perceptron' has no error="
        ):
            call()
    assert ov.solve(model, start, [5.0], stop=lambda alpha, state: state.R[0, 0] - 0.3).alpha[-1] < 5.0


def descend_plainly(lam, nu, xi, theta, S, F, G):
    F[0] = nu[0] - lam[0]


def half_square(lam, nu, theta):
    return (nu[0] - lam[0]) ** 2 / 2


SQUARED = ov.Rule(descend_plainly, K=1, M=1, error=half_square, name="squared loss")


@pytest.mark.parametrize("eta", [0.5, 1.0])
@few("method", ["DOP853", "structured", "LSODA", "RK45", "Radau", "BDF", "RK23"], quick=4)
def test_the_floor_of_a_recorded_error_holds(method, eta):
    """A linear unit by hand: eps_g = 0.8 exp(-(2 eta - eta^2) alpha), down to rounding, and at eta = 1 beyond."""
    model = ov.learner(SQUARED, eta=eta)
    start, times = ov.State.from_overlaps(model, **PLAIN), np.arange(0.0, 41.0, 5.0)
    traj = ov.solve(model, start, times, method=method)
    exact = 0.8 * np.exp(-(2 * eta - eta**2) * times)
    assert traj.success and np.all(np.abs(traj.eps_g - exact) <= traj.eps_floor)
    if hasattr(traj.solver, "estimates_error"):  # the floor says something: a tenth down to 1e-11, rounding below
        assert np.all(traj.eps_floor < 0.1 * exact + 1e-12)


def test_recorded_errors_are_under_control_in_closed_form_too():
    """A perceptron whose angle becomes small, which multiplies errors of Q and R, against smaller tolerances."""
    model = ov.learner(R.optimal(), eta=1.0)
    start = ov.State.from_overlaps(model, **PLAIN)
    traj, fine = (ov.solve(model, start, [30.0, 1000.0], rtol=rtol, method="DOP853") for rtol in (1e-8, 1e-12))
    assert np.all(np.abs(traj.eps_g - fine.eps_g) <= traj.eps_floor + fine.eps_floor)
    np.testing.assert_allclose(traj.eps_g, fine.eps_g, rtol=1e-6)


def test_differences_of_the_recorded_error_are_its_differential(rng):
    """By hand: d eps_g = dQ/2 - dR; what the teachers' part of the room holds does not enter."""
    model = ov.learner(SQUARED, spectrum=TWO, eta=0.5)
    system = System(model, ov.State.from_blocks(model, **BLOCKS))
    y = system.pack(system.start)
    system.closure.check(system.S, system.w)
    system.close(y)
    system.dS[:] = 7.0
    dy = 1e-6 * rng.standard_normal(y.size)
    q, r, _ = system.unpack(dy)
    expected = np.einsum("l,lij->", TWO.s, q) / 2 - r.sum()
    assert system.change_of_eps_g(dy) == pytest.approx(expected, rel=1e-8, abs=1e-15)


def descend_two(lam, nu, xi, theta, S, F, G):
    F[0] = nu[0] - lam[0] - 0.5 * lam[1]
    F[1] = 0.5 * F[0]


def half_square_of_two(lam, nu, theta):
    return (nu[0] - lam[0] - 0.5 * lam[1]) ** 2 / 2


@pytest.mark.slow  # as for one field, which is quick; here sums over 64,000 nodes round, too
@pytest.mark.parametrize("method", ["DOP853", "structured"])
def test_the_floor_of_a_recorded_error_holds_for_three_fields(method):
    model = ov.learner(ov.Rule(descend_two, K=2, M=1, error=half_square_of_two), eta=0.5)
    named = ov.committee_machine(2, 1, activation=ov.linear, v=[1.0, 0.5], eta=0.5)
    at = dict(Q=FOUR["Q"], R=[[0.2], [0.1]], T=[[1.0]])
    traj = ov.solve(model, ov.State.from_overlaps(model, **at), [0.0, 5.0, 10.0, 20.0], method=method)
    known = ov.solve(named, ov.State.from_overlaps(named, **at), [0.0, 5.0, 10.0, 20.0], rtol=1e-13, method="DOP853")
    assert np.all(np.abs(traj.eps_g - known.eps_g) <= traj.eps_floor + known.eps_floor)
