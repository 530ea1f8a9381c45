"""How the numbers on the pages come about: the names that their tags use (``tests/whole/test_docs.py``).

    <!-- check: eta_critical(2) == 4.614 -->

holds a number of the paragraph in which, or below which, it stands to what this file computes.  An expression may give
a list; ``+- 0.02`` or ``+- 30%`` is the tolerance, else half a unit of the last digit; ``check slow:`` is left to the
long suite.
"""

import warnings
from pathlib import Path

import numpy as np
import scipy.integrate
import scipy.optimize

import overlaps as ov
from overlaps.manifold.weights import random_weights
from overlaps.theory import late_time, linear, quadratic

HE3 = {3: 1.0}


def eta_critical(M):
    """Largest stable learning rate of perfect learning, erf, K = M, by eigenvalues of the flow."""
    model = ov.committee_machine(M, M, normalised=True, eta=1.0)
    return float(ov.critical_eta(model, ov.State.from_overlaps(model, Q=np.eye(M), R=np.eye(M), T=np.eye(M))))


def share_of_first_order(L, levels, end):
    """eps_1 / eps_g where eps_g has fallen to each level; gradient flow, beta = 1, K = M = 2."""
    spectrum = ov.power_law(beta=1.0, L=L)
    model = ov.committee_machine(2, 2, eta=0.1, normalised=True, gradient_flow=True, spectrum=spectrum)
    start = model.random_start(N=9000, rng=1, student_scale=0.01, teacher="ideal")
    traj = ov.solve(model, start, np.r_[0.0, np.geomspace(1e3, end, 120)], late=True)
    records = [int(np.argmax(traj.eps_g < level)) for level in levels]
    assert traj.eps_g[-1] < min(levels)
    states = [dict(zip("xy", late_time.differences(traj[i]), strict=True)) for i in records]
    return [
        late_time.first_order(0.0, spectrum, 2, eta=0.1, **state) / traj.eps_g[i]
        for i, state in zip(records, states, strict=True)
    ]


def percent_of_eps_g(method):
    """Error of eps_g that SciPy's solver leaves at rtol 1e-6, atol 1e-9, in a decay after a plateau."""
    model = ov.committee_machine(2, 2, eta=1.5)
    start = ov.State.from_overlaps(model, Q=0.5 * np.eye(2), R=[[0.1, 0], [0, 0.2]], T=np.eye(2))
    exact = ov.solve(model, start, [150.0], rtol=1e-12, late=True).eps_g[0]
    times, solver = [30.0, 60.0, 90.0, 120.0, 150.0], getattr(scipy.integrate, method)
    return 100 * abs(ov.solve(model, start, times, method=solver, rtol=1e-6, atol=1e-9).eps_g[-1] / exact - 1)


def forgetting():
    """Errors on (second task, first task before, first task after) it is learned; the page's example."""
    tasks = [ov.committee_machine(2, 2, eta=1.0, v_star=v_star) for v_star in ([1.0, 0.0], [0.0, 1.0])]
    T, R = [[1.0, 0.4], [0.4, 1.0]], [[0.1, 0.02], [0.03, 0.08]]
    start = ov.State.from_overlaps(tasks[0], Q=0.2 * np.eye(2), R=R, T=T)
    first = ov.solve(tasks[0], start, [30.0])
    after = ov.solve(tasks[1], first[0], [60.0])[0]
    forgotten = ov.closure(tasks[0], after.Q, after.R, after.T).eps_g
    return [ov.closure(tasks[1], after.Q, after.R, after.T).eps_g, first.eps_g[0], forgotten]


def replay():
    """Mean error of two tasks at 20 for half of each, the best constant share, and the best schedule found."""
    tasks = [ov.committee_machine(2, 2, v_star=v, eta=0.8, eta_v=0.4, noise=0.2) for v in ([1.0, 0.0], [0.0, 0.8])]
    Q, R, T = [[0.5, 0.1], [0.1, 0.4]], [[0.2, 0.05], [0.1, 0.15]], [[1.0, 0.3], [0.3, 0.9]]
    start = ov.State.from_overlaps(tasks[0], Q=Q, R=R, T=T)
    found = ov.Schedule(np.linspace(0, 20, 9), [0, 0, 0, 0, 1, 1, 0.637, 0.643, 0.204])  # of the gallery's search

    def mean(shares):
        traj = ov.solve(ov.Mixed(tasks, shares, heads=[[0.7, 0.4], [0.3, -0.5]]), start, [20.0])
        return (traj.error(0)[0] + traj.error(1)[0]) / 2

    return [mean([0.5, 0.5]), min(mean([x, 1 - x]) for x in (0.41, 0.43, 0.45)), mean(found)]


def curricula():
    """Mean error on easy and hard inputs: easy then hard, hard then easy, mixed, easy between 1.75 and 5.75 hard."""
    common = {"v": [1.0], "eta": 1.2, "teacher_activation": "sign"}
    hard, easy = (
        ov.committee_machine(1, 1, spectrum=ov.Spectrum(s=[1.0, u], p=[0.4, 0.6]), **common) for u in (1.5, 0.0)
    )
    start = ov.State.from_blocks(hard, q=[[[0.3]], [[0.5]]], r=[[[0.05]], [[0.0]]], t=[[[0.9]], [[0.0]]])
    step = ov.Schedule([0.0, 4.0], [1.0, 0.0], "constant")
    back = ov.Schedule([0.0, 1.75, 5.75], [0.0, 1.0, 0.0], "constant")
    early = ov.Schedule([0.0, 4.0], [0.0, 1.0], "constant")
    found = []
    for shares in (early, step, [0.5, 0.5], back):
        traj = ov.solve(ov.Mixed([hard, easy], shares), start, [8.0])
        found.append((traj.classification_error([1.0, 0.0])[0] + traj.classification_error([1.0, 1.5])[0]) / 2)
    return found


def height_of_plateau():
    """eps_g where it falls most slowly, in the example of the first page."""
    model = ov.committee_machine(2, 2, eta=0.6)
    start = ov.State.from_overlaps(model, Q=np.diag([0.5, 0.4]), R=np.diag([0.02, 0.03]), T=np.eye(2))
    traj = ov.solve(model, start, np.linspace(5, 100, 200))
    return traj.eps_g[np.argmin(np.abs(np.diff(np.log(traj.eps_g))))]


def bayes_thresholds():
    """Where equal readouts of He_3 are metastable, optimal, and no longer unlearned."""
    law = ov.static.EqualReadouts(noise=0.5**0.5, activation=HE3)
    return [law.informed_from, law.threshold, law.uninformed_until]


def dropped_correlations():
    """What the exact channel leaves out at q = 0.1 and 0.9: two equal features of He_3, Delta = 1/2."""
    teacher = ov.static.HierarchicalTeacher(v2=[0.5, 0.5], noise=0.5**0.5, activation=HE3, channel="exact")
    return [teacher.information([q, q]).cross for q in (0.1, 0.9)]


def explicit_evaluations():
    """Evaluations of DOP853 in a unit of alpha after the first steps: erf, K = M = 2, beta = 1, L = 512, eta = 0.1."""
    model = ov.committee_machine(2, 2, eta=0.1, spectrum=ov.power_law(beta=1.0, L=512))
    start = model.random_start(N=512_000, rng=1)
    first, last = (ov.solve(model, start, [alpha], method="DOP853").nfev for alpha in (10.0, 40.0))
    return (last - first) / 30


def late_linear_unit(beta, L, method="structured", rtol=1e-8, levels=(1e-4, 1e-6, 1e-8)):
    """(Solution of a linear unit from zero overlap at the times at which eps_g is ``levels``, exact eps_g there)."""
    spectrum = ov.power_law(beta=beta, L=L)
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5, spectrum=spectrum)
    p = spectrum.p[:, None, None]
    start = ov.State.from_blocks(model, q=0 * p, r=0 * p, t=p)
    mu, c = linear.modes(spectrum, 0.5)

    def exact(log_alpha):
        return float(c @ np.exp(-mu * np.exp(log_alpha))) / 2

    times = [scipy.optimize.brentq(lambda x, level=level: exact(x) - level, -9.0, 40.0, rtol=1e-14) for level in levels]
    return ov.solve(model, start, np.exp(times), method=method, rtol=rtol), np.array([exact(x) for x in times])


def superfluous_students(alpha):
    """eps_g of K = 3 students of one noisy teacher (eta 0.2, sigma 0.3) over the floor of two that are switched off."""
    model = ov.committee_machine(3, 1, eta=0.2, noise=0.3)
    Q = np.diag([1.0, 1e-3, 1e-3]) + 1e-4 * np.outer([0, 1, 1], [0, 1, 1])
    start = ov.State.from_overlaps(model, Q=Q, R=np.eye(3, 1), T=[[1.0]])
    return ov.solve(model, start, alpha).eps_g / (0.2 * 0.3**2 / (2 * np.pi) * (2 + 3**-0.5))


def sparse_inputs(share, N=200, runs=20, alpha=10):
    """eps_g of theory, Gaussian SGD, and SGD on rows of standardised 0/1 entries: erf, K = M = 1, eta = 0.5."""
    rng = np.random.default_rng(1)
    rows, fresh = ((rng.random((2, 4000, N)) < share) - share) / np.sqrt(share * (1 - share))
    model = ov.committee_machine(1, 1, eta=0.5)  # independent entries of variance 1: the covariance is 1
    found = []
    for seed in range(runs):
        w, teacher = rng.standard_normal((2, N))
        start = ov.State.from_weights(model, W=w[None], W_star=teacher[None])
        theory = ov.solve(model, start, [float(alpha)]).eps_g[-1]
        gaussian = ov.simulate(model, N=N, alpha=[0, alpha], rng=seed, start=start).eps_g[0, -1]
        for x in rows[rng.permutation(len(rows))[: alpha * N]]:
            field = w @ x / np.sqrt(N)
            delta = ov.erf.g(field) - ov.erf.g(teacher @ x / np.sqrt(N))
            w -= 0.5 * delta * ov.erf.dg(field) * x / np.sqrt(N)
        gap = ov.erf.g(fresh @ w / np.sqrt(N)) - ov.erf.g(fresh @ teacher / np.sqrt(N))
        found.append((theory, gaussian, np.mean(gap**2) / 2))
    return np.mean(found, axis=0)


def collapse_ratio(beta):
    """Ratio of the two constants C of eps = C k_c d / n, He_3, Delta = 1/2."""
    return np.divide(*ov.static.PowerLawLimit(beta=beta, noise=0.5**0.5, activation=HE3).collapse)


def percents_of_large_batches():
    """Least and largest change of the test error by the exact correction: tanh learns sin, beta = 1, alpha0 = inf."""
    change = []
    for eta_tilde in (1.0, 2.0, 4.0, 6.0):
        model = ov.static.SpikedRandomFeatures.after_one_step(
            np.tanh, np.sin, eta_tilde=eta_tilde, alpha0=np.inf, beta=1.0
        )
        for lam in (0.01, 0.1, 1.0):
            alpha = np.array([0.5, 0.7, 1, 1.5, 2, 3, 5, 10])
            exact = ov.static.large_batch_network(model).curve(alpha, lam).mse
            change.append(100 * (exact / model.curve(alpha, lam).mse - 1))
    return [np.min(change), np.max(change)]


def percent_of_a_finite_batch():
    """Change of the test error from spiked features to the network: tanh learns sin after few samples of the step."""
    model = ov.static.SpikedRandomFeatures.after_one_step(np.tanh, np.sin, eta_tilde=3, alpha0=0.5, beta=1)
    found = ov.static.finite_batch_network(model, alpha=2.0, lam=0.1)
    return 100 * found.change / (found.mse - found.change)


def errors_of_a_mixture():
    """Closed form and fresh samples, then Gaussian latents: erf, N = 400, alpha = 30, one component for a sample."""
    model = ov.hidden_manifold(
        2, 2, activation=ov.erf, features="sign", ratio=0.5, eta=0.2, eta_v=0.2, v=[0.45, 0.55], v_star=[0.9, 0.7]
    )
    law = ov.latents.mixture(kind="shared", means=[7.98, 0.20], standardise="population")
    options = dict(N=400, alpha=[0, 30], runs=3, weights=random_weights(model, N=400, rng=2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # that the theory does not hold
        mixed = ov.simulate(model, rng=7, latents=law, **options)
    gaussian = ov.simulate(model, rng=3, **options)
    return [mixed.mean("eps_g")[-1], mixed.mean("test_error")[-1], gaussian.mean("eps_g")[-1]]


def definitions(script):
    """Names that a script of the gallery defines in its first cell; those behind it compute and draw."""
    path = Path(__file__).parents[1] / "examples" / script
    first = "".join(path.read_text().split("# %%")[:2])
    names = {"__name__": script}
    exec(compile(first, path, "exec"), names)
    return names


def errors_on_digits(student, features):
    """Largest |ODE / true error - 1| to alpha = 5 in percent, then true error, ODE, closed form at alpha = 20."""
    example = definitions("plot_digits_covariates.py")
    functions = example["FEATURES"][features], example["STUDENTS"][student]
    theory, runs, _ = example["learn"](example["images"](), *functions, np.random.default_rng(4))
    true = runs.mean("test_error")
    early = np.max(np.abs(theory.eps_g / true - 1)[runs.alpha <= 5])
    return [100 * early, true[-1], theory.eps_g[-1], runs.mean("eps_g")[-1]]


def error_of_a_generator():
    """Largest |ODE / true error - 1| in percent, erf and relu students."""
    learn = definitions("plot_generator_covariates.py")["learn"]
    pairs = [learn(student, np.random.default_rng(3)) for student in (ov.erf, ov.relu)]
    return 100 * max(np.max(np.abs(theory.eps_g / runs.mean("test_error") - 1)) for theory, runs in pairs)


def means_of_a_standardised_mixture():
    """E relu of two equal components at +-9 and of a Gaussian, and E sign of weights 0.8, 0.2; variance one."""
    x = np.linspace(-6.0, 6.0, 240_001)

    def mean(f, p):
        mu = np.array([-9.0, 9.0])
        shift, scale = p @ mu, np.sqrt(1 + p @ mu**2 - (p @ mu) ** 2)
        parts = [w * np.exp(-((scale * x + shift - m) ** 2) / 2) for w, m in zip(p, mu, strict=True)]
        return scipy.integrate.trapezoid(f(x) * sum(parts) * scale / np.sqrt(2 * np.pi), x)

    def relu(x):
        return np.maximum(x, 0)

    gaussian = scipy.integrate.trapezoid(relu(x) * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi), x)
    return [mean(relu, np.array([0.5, 0.5])), gaussian, mean(np.sign, np.array([0.8, 0.2]))]


def critical_rate_of_erf(K):
    """Where perfect learning of a soft committee machine, K = M, becomes unstable."""
    model = ov.committee_machine(K, K, eta=0.5)
    return ov.critical_eta(model, ov.State.from_overlaps(model, Q=np.eye(K), R=np.eye(K), T=np.eye(K)))


def first_width_beyond():
    """First K at which the fastest escape lies above the limit of stability, M = 3."""
    return next(K for K in range(3, 99) if quadratic.eta_escape(K, 3) > quadratic.eta_solution(K, 3))


def slope_of_log_n(eta):
    """Growth of the half-loss time of the equations per unit of log N at N = 1e7 to 1e10: quadratic, K = 4, M = 2."""
    model = ov.quadratic_network(4, 2, eta=eta)
    start = {"rng": 3, "students": "orthonormal", "teacher": "ideal"}
    times = [quadratic.half_loss_time(model, model.random_start(N=N, **start)) for N in (10**7, 10**10)]
    return np.diff(times)[0] / np.log(1e3)


def turns_of_frames(eta, N, alpha, runs=100):
    """Mean of |S(alpha) - S(0)|: SGD of a quadratic network from random weights, K = 4, M = 2."""
    model = ov.quadratic_network(4, 2, eta=eta)
    runs = ov.simulate(model, N=N, alpha=[0.0, alpha], rng=1, runs=runs, method="reduced")
    first, last = np.moveaxis(quadratic.polar(runs.R), 1, 0)
    return np.linalg.norm(last - first, axis=(1, 2)).mean()


def spread_while_leaving(N):
    """Standard deviation of eps_g over 300 runs, over the predicted one, on a plateau and while it is left."""
    model, alpha = ov.committee_machine(2, 2, eta=1.5), np.array([0.0, 10.0, 40.0, 60.0, 70.0])
    start = ov.State.from_overlaps(model, Q=np.diag([0.5, 0.4]), R=np.diag([0.02, 0.03]), T=np.eye(2))
    predicted = ov.fluctuations(ov.solve(model, start, alpha), N).std("eps_g")
    runs = ov.simulate(model, N=N, alpha=alpha, rng=1, runs=300, start=start, method="reduced")
    return runs.eps_g.std(axis=0, ddof=1)[1:] / predicted[1:]


def few_directions(N):
    """Std and mean of eps_g over 1000 runs by the predicted ones, at alpha = 2 and 8: 16 eigenvalues, N / 16 each."""
    model = ov.committee_machine(
        1, 1, activation=ov.linear, eta=0.5, noise=0.1, spectrum=ov.power_law(beta=1.0, L=16)
    )  # fmt: skip
    p, alpha = model.spectrum.p[:, None, None], np.array([0.0, 2.0, 8.0])
    start = ov.State.from_blocks(model, q=p / 4, r=0 * p, t=p)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # fluctuations are large, and a step is no small one
        predicted = ov.fluctuations(ov.solve(model, start, alpha), N, start="random")
        eps_g = ov.simulate(model, N=N, alpha=alpha, rng=1, runs=1000, student_scale=0.5).eps_g
    std, mean = eps_g.std(axis=0, ddof=1) / predicted.std("eps_g"), eps_g.mean(axis=0) / predicted.mean("eps_g")
    return [*std[1:], *mean[1:]]
