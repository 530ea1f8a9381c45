"""SGD by a rule at finite N, direct and reduced, against the flow: means of runs within their standard errors."""

import numpy as np
import pytest
from helpers import few
from scipy import stats

import overlaps as ov
from overlaps.simulators._force import fill_overlaps

R = ov.rules
TWO = ov.Spectrum(s=[1.6, 0.4], p=[0.5, 0.5])
BLOCKS = dict(q=[[[0.5]], [[0.3]]], r=[[[0.1]], [[0.05]]], t=[[[0.5]], [[0.6]]])


def committee(lam, nu, xi, theta, S, F, G):
    """Feedback through fixed weights, noisy labels, a trained second layer: two units, one teacher."""
    delta = theta[0] * np.tanh(lam[0]) + theta[1] * np.tanh(lam[1]) - np.tanh(nu[0]) - 0.3 * xi
    for k in range(2):
        F[k] = -(0.7 if k == 0 else -0.5) * delta / np.cosh(lam[k]) ** 2
        G[k] = -np.tanh(lam[k]) * delta


CASES = {
    "hebb, decay": (lambda: R.hebb(0.1), dict(eta=0.7, weight_decay=0.3)),
    "perceptron": (lambda: R.perceptron(0.1), dict(eta=1.0)),
    "adatron, batch": (lambda: R.adatron(0.05), dict(eta=1.2, batch_size=3)),
    "hinge": (lambda: R.hinge(), dict(eta=0.6)),
    "logistic": (lambda: R.logistic(), dict(eta=1.5)),
    "logistic labels, decay": (lambda: R.logistic(1.5), dict(eta=1.0, weight_decay=0.2)),
    "least squares, sphere": (lambda: R.least_squares(0.1), dict(eta=0.5, constraint="sphere")),
    "Cauchy, drift": (lambda: R.residual(stats.cauchy(scale=0.5)), dict(eta=0.4, drift=0.1)),
    "clipped Student": (lambda: R.residual(stats.t(3, scale=0.6), 0.8), dict(eta=0.5)),
    "optimal": (lambda: R.optimal(), dict(eta=0.8)),
    "AdaGrad": (lambda: R.adagrad_norm(R.logistic(), b0=0.5), dict(eta=1.2, eta_theta=0.7)),
    "line search": (lambda: R.line_search(0.6), dict(eta=1.0)),
}
COMMITTEES = {  # of two students
    "feedback alignment": (lambda: R.feedback_alignment([0.7, -0.5], [0.8], noise=0.2), dict(eta=0.8, eta_theta=0.4)),
    "node perturbation": (lambda: R.node_perturbation([0.7, -0.5], [0.8], noise=0.2), dict(eta=0.4, eta_theta=0.3)),
    "dropout": (lambda: R.dropout(2, 1, 0.8), dict(eta=0.6)),
    "offsets": (lambda: R.offsets(2, [0.7]), dict(eta=0.8, eta_theta=0.5)),
    "logistic committee": (lambda: R.logistic_committee(2, 1, beta=2.0), dict(eta=0.9)),
    "signs": (lambda: R.sign_committee(2), dict(eta=0.5)),
}
USUAL = "hebb, decay", "adatron, batch", "least squares, sphere", "clipped Student"  # quick: each has more than a rule


def problem(name, method="direct"):
    """Model and start of a case."""
    make, options = (CASES | COMMITTEES)[name]
    if method == "reduced":
        options = {key: value for key, value in options.items() if key != "drift"}
    isotropic = name == "line search" or name in COMMITTEES
    model = ov.learner(make(), spectrum=None if isotropic else TWO, **options)
    if name in COMMITTEES:
        return model, ov.State.from_overlaps(model, Q=[[0.5, 0.1], [0.1, 0.4]], R=[[0.2], [0.1]], T=[[1.0]])
    if isotropic:
        return model, ov.State.from_overlaps(model, Q=[[0.8]], R=[[0.3]], T=[[1.1]])
    return model, ov.State.from_blocks(model, **BLOCKS)


def gaps(model, start, N, runs, method, seed=4):
    """(Mean of runs - flow) in standard errors, of Q, R and, if they move, theta, at alpha = 1 and 3."""
    found = ov.simulate(model, N=N, alpha=[0.0, 1.0, 3.0], rng=seed, start=start, runs=runs, method=method)
    known = ov.solve(model, start, [0.0, 1.0, 3.0], rtol=1e-6)
    names = ["Q", "R"] if not model.trains_v else ["Q", "R", "v"]
    names = names[1:] if model.spherical else names
    results = []
    for name in names:
        x, y = getattr(found, name)[:, 1:], getattr(known, name)[1:]
        moves = np.std(x, axis=0, ddof=1) > 0  # entries of theta that a rule has no use for
        results.append(((np.mean(x, axis=0) - y) / (np.std(x, axis=0, ddof=1) / np.sqrt(runs)))[moves])
    return np.concatenate(results)


@few("name", sorted([*CASES, *COMMITTEES], key=lambda name: name not in USUAL), quick=len(USUAL))
@pytest.mark.parametrize("method, N, runs", [("direct", 200, 30), ("reduced", 1000, 30)])
def test_sgd_follows_the_flow(name, method, N, runs):
    """Within three standard errors, which one of 150 numbers misses by chance: seeds are fixed."""
    assert np.max(np.abs(gaps(*problem(name, method), N, runs, method))) < 3


@pytest.mark.slow
@pytest.mark.parametrize("name", [*CASES, *COMMITTEES])
@pytest.mark.parametrize(
    "method, N, runs", [("direct", 500, 64), ("direct", 1000, 64), ("reduced", 2000, 200), ("reduced", 8000, 64)]
)
def test_sgd_follows_the_flow_at_two_sizes(name, method, N, runs):
    """Within three standard errors: of 64 runs and more, one of 300 numbers misses by chance."""
    seed = N + 10 * [*CASES, *COMMITTEES].index(name)  # inputs of its own for each rule
    seed += (name, N) == ("AdaGrad", 2000)  # 3.3 errors in one of 864 numbers; within 2 with the next four seeds
    assert np.max(np.abs(gaps(*problem(name, method), N, runs, method, seed=seed))) < 3


@pytest.mark.slow
def test_a_vote_of_three():
    """Integrals by Sobol points jump as the breaks pass points: steps are not to vanish there, and eps_floor knows."""
    model = ov.learner(R.sign_committee(3), eta=0.4, spectrum=TWO, batch_size=2)
    X = np.random.default_rng(0).normal(size=(2, 4, 4))
    S = X @ X.swapaxes(1, 2) / 8
    start = ov.State.from_blocks(model, q=S[:, :3, :3], r=S[:, :3, 3:], t=S[:, 3:, 3:])
    flow = ov.solve(model, start, [0.0, 1.0, 3.0])
    assert flow.success and flow.rtol == 1e-4 and "by Sobol points" in flow.message, flow.message
    runs = ov.simulate(model, N=4000, alpha=[0.0, 1.0, 3.0], rng=5, start=start, runs=100, method="reduced")
    for name in ("Q", "R"):
        x, y = getattr(runs, name)[:, 1:], getattr(flow, name)[1:]
        # three standard errors, and what the integrals are good for
        assert np.all(np.abs(np.mean(x, axis=0) - y) < 3 * np.std(x, axis=0, ddof=1) / 10 + 1e-3 * np.max(np.abs(y)))
    # other points would give another curve, this far away at most: those of one scramble of four are twice as bad
    # and steps at rtol 1e-4 count 10 rtol of what cancels in eps_g, since this error is not in their control
    assert np.all(flow.eps_floor[1:] > 1e-4 * flow.eps_g[1:]) and np.all(flow.eps_floor < 5e-3 * flow.eps_g)


@few("method, N", [("direct", 200), ("reduced", 5000)], quick=1)
def test_a_force_of_the_user_with_parameters(method, N):
    rule = ov.Rule(committee, K=2, M=1, noise=([1, -1], [0.5, 0.5]), tolerance=1e-4)
    model = ov.learner(rule, theta=[0.6, -0.2], eta=0.7, eta_theta=0.4)
    start = ov.State.from_overlaps(model, Q=[[0.5, 0.1], [0.1, 0.4]], R=[[0.2], [0.1]], T=[[1.0]])
    assert np.max(np.abs(gaps(model, start, N, 30, method))) < 3


def test_both_simulators_give_a_force_the_overlaps():
    """A force of overlaps alone moves weights along x whatever x is: R stays, and Q grows by F^2."""

    def reads(lam, nu, xi, theta, S, F, G):
        F[0] = S[0, 1] + 0.1 * S[0, 0]

    rule = ov.Rule(reads, K=1, M=1, uses_overlaps=True)
    model = ov.learner(rule, eta=0.5, spectrum=TWO)
    start = ov.State.from_blocks(model, **BLOCKS)
    known = ov.solve(model, start, [0.0, 1.0])
    for method in ("direct", "reduced"):
        found = ov.simulate(model, N=400, alpha=[0.0, 1.0], rng=2, start=start, runs=12, method=method).Q[:, 1, 0, 0]
        assert abs(np.mean(found) - known.Q[1, 0, 0]) < 4.5 * np.std(found, ddof=1) / np.sqrt(12)
        assert known.Q[1, 0, 0] > known.Q[0, 0, 0] + 0.01


@few("method", ["reduced", "direct"], quick=1)
def test_forces_read_the_overlaps_of_the_moment(method):
    """On inputs whose variances change, with batches: their overlaps at the start would give other rates."""
    model = ov.learner(R.line_search(0.4), eta=1.0, spectrum=TWO, batch_size=2)
    start = ov.State.from_blocks(model, **BLOCKS)
    schedule = {"s": (ov.Schedule([0, 3], [0.25, 2.0]), ov.Schedule.step([1.0], [3.0]))}
    known = ov.solve(model, start, [3.0], schedule=schedule)
    found = ov.simulate(model, N=200, alpha=[3.0], rng=2, start=start, runs=10, method=method, schedule=schedule)
    for name in ("Q", "R"):  # within four standard errors, 2e-2
        assert np.all(np.abs(found.mean(name) - getattr(known, name)) < 4 * found.standard_error(name))


def test_no_warning_of_a_coarse_step():
    """The measure eta max(s) / N is that of the squared loss; warnings are errors here."""
    model = ov.learner(R.hebb(), eta=20.0, spectrum=TWO)
    ov.simulate(model, N=100, alpha=[0.0, 0.1], rng=1)


def test_labels_that_depend_on_the_teacher():
    """Logistic labels: the mean of 40 small runs beside the flow, to 5 of its standard errors and 1/N."""
    model = ov.learner(R.logistic(1.5), eta=1.0)
    start = ov.State.from_overlaps(model, Q=[[0.8]], R=[[0.3]], T=[[1.1]])
    known = ov.solve(model, start, [0.0, 3.0]).R[-1, 0, 0]
    R_ = ov.simulate(model, N=100, alpha=[0.0, 3.0], rng=1, start=start, runs=40).R[:, -1, 0, 0]
    assert abs(R_.mean() - known) < 5 * R_.std() / np.sqrt(40) + 1 / 100


def test_overlaps_of_weights_are_weighted_by_the_eigenvalues():
    """All pairs of two students, stored with a factor, and three teachers."""
    rng = np.random.default_rng(4)
    W, W_star, s = rng.normal(size=(2, 7)), rng.normal(size=(3, 7)), rng.uniform(0.2, 2.0, 7)
    S, unused = np.zeros((5, 5)), np.zeros(1)
    fill_overlaps((unused,) * 5 + (S, s), W, 0.7, W_star)
    fields = np.vstack([0.7 * W, W_star])
    np.testing.assert_allclose(S, fields * s @ fields.T / 7, rtol=1e-13)
