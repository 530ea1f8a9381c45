"""What holds for every model, spectrum and start: positivity, symmetries, and no nan that calls itself a success.

Examples are drawn by hypothesis from a fixed sequence (``derandomize``), so that a run can be repeated anywhere.
"""

import dataclasses
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

import overlaps as ov
from overlaps.manifold.weights import random_weights
from overlaps.theory.cayley_hamilton import hierarchy as cayley_hamilton

ODD = {"erf": ov.erf, "linear": ov.linear, "tanh": ov.tanh}
EVEN = {"quadratic": ov.quadratic, "absolute": ov.absolute}
OTHER = {"relu": ov.relu, "leaky_relu": ov.leaky_relu(0.3)}
SMOOTH = ("erf", "linear", "quadratic", "tanh")
ACTIVATIONS = ODD | EVEN | OTHER
KINKED = ("relu", "leaky_relu", "absolute")
METHODS = ("auto", "structured", "DOP853", "RK45", "BDF", "LSODA", "Radau")

# examples are seeds of random numbers: shrinking them says nothing and takes long
drawn = {"deadline": None, "derandomize": True, "phases": [Phase.generate]}
few, some = settings(max_examples=30, **drawn), settings(max_examples=60, **drawn)
seeds = st.integers(0, 2**32 - 1)


@st.composite
def spectra(draw, largest=4):
    kind = draw(st.sampled_from(["isotropic", "power law", "any", "with zeros"]))
    if kind == "isotropic":
        return ov.isotropic()
    L = draw(st.integers(1, largest))
    if kind == "power law":
        return ov.power_law(beta=draw(st.floats(0.1, 2.0)), L=L)
    rng = np.random.default_rng(draw(seeds))
    s, p = rng.exponential(size=L + 1), rng.dirichlet(np.ones(L + 1))
    if kind == "with zeros":
        s[draw(st.integers(0, L - 1))] = 0.0
        p[-1] = 0.0
    return ov.Spectrum(s, p / p.sum())


RATES, SCALES = st.floats(0.01, 1.5), st.sampled_from([1e-3, 0.1, 1.0, 3.0])


@st.composite
def problems(draw, activations=tuple(ACTIVATIONS), eta=RATES, scale=SCALES):
    """(model, start): weights of some rank, so that students may be parallel, equal, or combinations of teachers."""
    student = draw(st.sampled_from(activations))
    # numeric rules serve a tanh beside a teacher that has no error functions; they have their own tests
    teacher = draw(st.sampled_from([x for x in activations if student != "tanh" or x in ("erf", "linear", "tanh")]))
    teacher = student if teacher == "tanh" else teacher
    K, M = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    rng = np.random.default_rng(draw(seeds))
    model = ov.committee_machine(
        K,
        M,
        activation=ACTIVATIONS[student],
        teacher_activation=ACTIVATIONS[teacher],
        spectrum=draw(spectra()),
        v=rng.uniform(-1, 1, K),
        v_star=rng.uniform(-1, 1, M),
        eta=draw(eta),
        eta_v=draw(st.sampled_from([0.0, 0.3])),
        noise=draw(st.sampled_from([0.0, 0.5])),
        weight_decay=draw(st.sampled_from([0.0, 0.1])),
        batch_size=draw(st.sampled_from([1, 3])),
        gradient_flow=draw(st.booleans()),
    )
    L, rank = model.spectrum.L, draw(st.integers(1, 6))
    X = rng.standard_normal((L, K + M, rank)) / np.sqrt(rank * L)
    X[:, :K] *= draw(scale)
    joint = X @ X.swapaxes(1, 2)
    start = ov.State.from_blocks(model, q=joint[:, :K, :K], r=joint[:, :K, K:], t=joint[:, K:, K:])
    lowest = np.diag(start.Q).min()
    assume(student not in KINKED or lowest > 1e-9)  # a kinked student without direction is refused
    return model, start


def max_ratio(steps):
    """A stop condition that is never met and interrupts, as Ctrl-C would, what is too stiff for its solver."""
    left = iter(range(steps))

    def stop(alpha, state):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return 1.0

    return stop


def solve(model, start, alpha, **options):
    """A solution, as far as max_ratio goes, and the warnings that came with it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        return ov.solve(model, start, alpha, stop=max_ratio(400), **options), caught


def joint(q, r, t):
    return np.block([[q, r], [np.swapaxes(r, -1, -2), t]]) if q.ndim == 2 else np.stack(
        [joint(*x) for x in zip(q, r, np.broadcast_to(t, (len(q), *t.shape[-2:])), strict=True)]
    )  # fmt: skip


def assert_positive(matrices, tolerance):
    """No eigenvalue below -tolerance times the largest trace: errors of an integration are relative to that."""
    size = np.max(np.trace(matrices, axis1=-2, axis2=-1), initial=1e-300)
    assert np.all(np.linalg.eigvalsh(matrices) >= -tolerance * size)


def assert_sound(traj, tolerance):
    """What every record of a solution fulfils, whether the integration reached its end or not."""
    for name in ("alpha", "q", "r", "v", "Q", "R", "eps_g", "eps_floor"):
        assert np.all(np.isfinite(getattr(traj, name))), name
    assert np.all(traj.eps_g >= 0) and np.all(np.diff(traj.alpha) > 0)
    np.testing.assert_array_equal(traj.q, np.swapaxes(traj.q, -1, -2))
    for q, r in zip(traj.q, traj.r, strict=True):
        assert_positive(joint(q, r, traj.tau), tolerance)
    assert_positive(traj.S, tolerance)


# the closure ----------------------------------------------------------------------------------------------------------


@some
@given(problems())
def test_closures_are_finite_symmetric_and_positive(problem):
    """A is a Hessian, C = E[F F^T] a second moment, eps_g an error."""
    model, start = problem
    c = ov.closure(model, start.Q, start.R, start.T)
    for name in ("A", "B", "C", "dv", "eps_g"):
        assert np.all(np.isfinite(getattr(c, name))), name
    np.testing.assert_allclose(c.A, c.A.T, rtol=1e-10, atol=1e-13 * (1 + np.abs(c.A).max()))
    np.testing.assert_allclose(c.C, c.C.T, rtol=1e-10, atol=1e-13 * (1 + np.abs(c.C).max()))
    # parallel kinked fields: the integral is Hoelder-1/2 in Q, so that rounding moves C by up to 1e-8
    assert_positive(c.C, 1e-7)
    assert c.eps_g >= -1e-12 * (1 + np.trace(start.S) ** 2)


@pytest.mark.slow
@some
@given(problems(), st.randoms(use_true_random=False))
def test_permuting_units_permutes_the_closure(problem, random):
    model, start = problem
    k, m = random.sample(range(model.K), model.K), random.sample(range(model.M), model.M)
    turned = dataclasses.replace(model, v=model.v[k], v_star=model.v_star[m])
    c = ov.closure(model, start.Q, start.R, start.T)
    d = ov.closure(turned, start.Q[k][:, k], start.R[k][:, m], start.T[m][:, m])
    for expected, found in ((c.A[k][:, k], d.A), (c.B[k][:, m], d.B), (c.C[k][:, k], d.C), (c.dv[k], d.dv)):
        # parallel kinked fields turn rounding of 1e-16 into 1e-8
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8 * (1 + np.abs(expected).max()))
    assert d.eps_g == pytest.approx(c.eps_g, rel=1e-8, abs=1e-12 * (1 + np.trace(start.S) ** 2))


# the flow -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@some
@given(problems())
def test_overlaps_stay_those_of_real_vectors(problem):
    model, start = problem
    traj, caught = solve(model, start, (0.0, 2.0), rtol=1e-6)
    assert_sound(traj, 1e-5)  # the integration error of the overlaps, relative to the largest
    assert traj.success != bool(caught) and traj.message.endswith(".")
    if traj.success:
        assert traj.alpha[-1] == 2.0


@pytest.mark.slow
@few
@given(problems(activations=KINKED, eta=st.floats(0.01, 0.5)), st.sampled_from(["DOP853", "structured"]))
def test_students_with_a_kink_reach_the_end_or_lose_their_direction(problem, method):
    """A gradient flow may shrink a norm to zero, where it ends: it says so in time, and does not creep towards it."""
    model, start = problem
    traj, _ = solve(dataclasses.replace(model, gradient_flow=True), start, (0.0, 2.0), rtol=1e-6, method=method)
    assert traj.success or "norm zero" in traj.message
    assert_sound(traj, 1e-5)


@pytest.mark.slow
@few
@given(problems(activations=SMOOTH, eta=st.floats(0.01, 0.5)), st.sampled_from(["DOP853", "structured"]))
def test_solutions_are_as_accurate_as_they_say(problem, method):
    """A second run at rtol / 100: without a long plateau errors stay far below the limit of 1000 rtol."""
    traj, _ = solve(*problem, [0.5, 2.0], rtol=1e-6, method=method, certify=True)
    assume(traj.message.startswith("reached"))
    size = max(1.0, np.abs(traj.S).max())
    assert traj.success and max(np.abs(x).max() for x in traj.certified[:3]) < 1e-4 * size


def moved(model, start, q=None, r=None, tau=None, T=None, v=None, **changes):
    """The same learning problem in another description."""
    model = dataclasses.replace(model, **changes)
    new = {"q": q, "r": r, "tau": tau, "T": T, "v": v}
    arrays = {name: getattr(start, name) if x is None else x for name, x in new.items()}
    return model, ov.State(**arrays)


def ends(*pairs):
    """Final states of several descriptions of one problem, all of which reach alpha = 1."""
    results = [solve(*pair, [0.0, 1.0], rtol=1e-9, method="DOP853", certify=True)[0] for pair in pairs]
    assume(all(traj.success for traj in results))
    return [traj[-1] for traj in results]


def assert_close(found, expected):
    # rtol 1e-9 with steps that rounding may change, amplified by the flow over alpha = 1 (growth below 100)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * (1 + np.abs(expected).max()))


tame = problems(eta=st.floats(0.01, 0.5), scale=st.sampled_from([0.3, 1.0]))


@pytest.mark.slow
@few
@given(tame, st.randoms(use_true_random=False))
def test_units_and_blocks_may_be_numbered_in_any_order(problem, random):
    model, start = problem
    k, m, l = (random.sample(range(n), n) for n in (model.K, model.M, model.spectrum.L))
    turned = moved(
        model,
        start,
        q=start.q[l][:, k][:, :, k],
        r=start.r[l][:, k][:, :, m],
        tau=start.tau[l][:, m][:, :, m],
        T=start.T[m][:, m],
        v=start.v[k],
        spectrum=ov.Spectrum(model.spectrum.s[l], model.spectrum.p[l]),
        v_star=model.v_star[m],
    )
    end, other = ends(problem, turned)
    assert_close(other.q, end.q[l][:, k][:, :, k])
    assert_close(other.r, end.r[l][:, k][:, :, m])
    assert_close(other.v, end.v[k])


@pytest.mark.slow
@few
@given(
    problems(activations=("erf", "linear", "tanh", "quadratic", "absolute"), eta=st.floats(0.01, 0.5)),
    st.lists(st.sampled_from([-1.0, 1.0]), min_size=3, max_size=3),
)
def test_the_sign_of_a_unit_means_nothing(problem, signs):
    """(w, v) -> (-w, -v) for odd students, w -> -w for even ones: the same output, hence the same learning."""
    model, start = problem
    sign = np.array(signs[: model.K])
    odd = model.activation.name in ODD
    flipped = moved(
        model,
        start,
        q=start.q * sign[:, None] * sign,
        r=start.r * sign[:, None],
        v=start.v * (sign if odd else 1.0),
    )
    end, other = ends(problem, flipped)
    assert_close(other.Q, end.Q * sign[:, None] * sign)
    assert_close(other.R, end.R * sign[:, None])
    assert_close(other.v, end.v * (sign if odd else 1.0))


@pytest.mark.slow
@few
@given(tame, st.floats(0.05, 0.95), st.integers(0, 3))
def test_equal_eigenvalues_may_be_split_or_merged(problem, share, which):
    model, start = problem
    l = which % model.spectrum.L
    s, p = model.spectrum.s, model.spectrum.p
    parts = np.ones(len(s) + 1)
    parts[l], parts[l + 1] = share, 1 - share

    def split(x, scaled=True):
        doubled = np.insert(x, l, x[l], axis=0)
        return doubled * parts.reshape(-1, *[1] * (doubled.ndim - 1)) if scaled else doubled

    blocks = {name: split(getattr(start, name)) for name in ("q", "r", "tau")}
    apart = moved(model, start, **blocks, spectrum=ov.Spectrum(split(s, False), split(p)))
    end, other = ends(problem, apart)
    for name in ("Q", "R", "v"):
        assert_close(getattr(other, name), getattr(end, name))
    merged = other.q.copy()
    merged[l] += merged[l + 1]
    assert_close(np.delete(merged, l + 1, axis=0), end.q)


@pytest.mark.slow
@few
@given(tame)
def test_a_student_of_weight_zero_learns_nothing_and_teaches_nothing(problem):
    """A unit with v_k = 0 and eta_v = 0 keeps its direction, and the others do not notice it."""
    model, start = problem
    model = dataclasses.replace(model, eta_v=0.0, weight_decay=0.0)
    K = model.K
    q = np.zeros((start.L, K + 1, K + 1))
    q[:, :K, :K] = start.q
    q[:, K, K] = 0.5
    r = np.concatenate([start.r, np.zeros((start.L, 1, model.M))], axis=1)
    wider = moved(model, start, q=q, r=r, v=np.append(start.v, 0.0))[1]
    end, other = ends((model, start), (dataclasses.replace(model, v=np.append(model.v, 0.0)), wider))
    assert_close(other.q[:, :K, :K], end.q)
    assert_close(other.r[:, :K], end.r)
    np.testing.assert_allclose(other.q[:, K, K], 0.5, rtol=1e-12)


# success --------------------------------------------------------------------------------------------------------------

wild = problems(eta=st.sampled_from([1e-6, 0.3, 5.0, 100.0]), scale=st.sampled_from([1e-4, 1.0, 30.0, 1e3]))


@pytest.mark.slow
@some
@given(wild, st.sampled_from(METHODS), st.sampled_from([1e-3, 1.0, 30.0]), st.booleans())
def test_nothing_integrated_is_nan_and_calls_itself_a_success(problem, method, last, every_step):
    model, start = problem
    alpha = (0.0, last) if every_step else [0.0, last / 2, last]
    traj, caught = solve(model, start, alpha, method=method, rtol=1e-4, atol=1e-8)
    assert_sound(traj, 1e-3)
    if traj.success:
        assert traj.alpha[-1] == last and len(traj) > 1
    else:
        ours = [w for w in caught if issubclass(w.category, RuntimeWarning) and traj.message in str(w.message)]
        assert len(ours) == 1 and traj.alpha[-1] < last


@pytest.mark.slow
@some
@given(wild, st.sampled_from(["reduced", "direct"]), seeds)
def test_nothing_simulated_is_nan_and_calls_itself_a_success(problem, method, seed):
    model, _ = problem
    model = dataclasses.replace(model, spectrum=ov.power_law(beta=1.0, L=2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        runs = ov.simulate(model, N=20, alpha=[0, 1, 4], rng=seed, runs=2, method=method)
    finite = [np.isfinite(getattr(runs, x)).reshape(2, len(runs.alpha), -1).all(axis=2) for x in ("Q", "R", "v")]
    reached = np.all(finite, axis=0)
    assert runs.success == bool(reached.all() and len(runs.alpha) == 3)
    assert np.all(reached[:, 0]) and np.all(np.diff(reached.astype(int), axis=1) <= 0)  # nan to the end
    assert_positive(runs.S[reached], 1e-12)
    # where the weights are finite, eps_g is a number, if only infinity
    assert np.all(runs.eps_g[reached] >= 0)


@pytest.mark.slow
@some
@given(problems(activations=SMOOTH, eta=st.floats(0.05, 3.0)))
def test_fixed_points_and_rates_say_whether_they_are_known(problem):
    model, guess = problem
    rates = ov.linearise(model, guess)
    assert np.all(np.isfinite(rates.eigenvalues)) and np.isfinite(rates.residual)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        point = ov.fixed_point(model, guess, max_iterations=10)
    named = any("fixed_point" in str(w.message) for w in caught)
    assert point.converged or named  # one that is found may be named, too: students that vanish or grow without bound
    assert np.isfinite(point.residual) or not point.converged
    if point.converged:
        assert ov.linearise(model, point.state).residual <= 1.01 * point.residual + 1e-14
        assert_positive(point.state.S, 1e-7)


# descriptions of a start ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@few
@given(problems(), st.integers(1, 12))
def test_compression_keeps_the_order_parameters(problem, extra):
    model, start = problem
    small, begin = ov.compress(model, start, model.K + model.M + extra)
    for name in ("Q", "R", "T", "v"):
        expected = getattr(start.on(model), name)
        np.testing.assert_allclose(getattr(begin, name), expected, rtol=1e-9, atol=1e-10 * (1 + np.abs(expected).max()))
    assert small.spectrum.p.sum() == pytest.approx(1, abs=1e-12)
    assert small.spectrum.mean == pytest.approx(model.spectrum.mean, rel=1e-10)
    s = model.spectrum.s
    assert np.all((small.spectrum.s >= s.min()) & (small.spectrum.s <= s.max() * (1 + 1e-12)))


@pytest.mark.slow
@few
@given(problems())
def test_files_hold_everything(problem):
    model, start = problem
    traj, _ = solve(model, start, [0.0, 0.1])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.npz"
        traj.save(path)
        assert ov.load(path) == traj


# the hidden manifold --------------------------------------------------------------------------------------------------


@st.composite
def manifolds(draw):
    """(model, start): the limit spectrum with a random start, or the realisation of random weights."""
    K, M = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    rng = np.random.default_rng(draw(seeds))
    model = ov.hidden_manifold(
        K,
        M,
        activation=draw(st.sampled_from([ov.erf, ov.relu, ov.linear])),
        features=draw(st.sampled_from(["sign", "erf", "relu", "linear"])),
        ratio=draw(st.sampled_from([0.25, 1.0, 1.5])),
        nodes=draw(st.integers(1, 6)),
        latent_scale=draw(st.sampled_from([1.0, 0.5])),
        v=rng.uniform(-1, 1, K),
        v_star=rng.uniform(-1, 1, M),
        eta=draw(st.floats(0.01, 0.5)),
        noise=draw(st.sampled_from([0.0, 0.5])),
    )
    N = 4 * draw(st.integers(5, 15))
    if draw(st.booleans()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # small N mean coarse steps of SGD, which is not run here
            return model, model.random_start(N=N, rng=rng)
    weights = random_weights(model, N=N, rng=rng)
    return model.realisation(**weights._asdict(), moments=draw(st.sampled_from(["ge", "exact"])))


@pytest.mark.slow
@few
@given(manifolds(), st.sampled_from(["DOP853", "structured"]))
def test_overlaps_on_the_manifold_stay_those_of_fields(problem, method):
    """The teacher acts on latents: [[q, r], [r^T, tau]] and [[Q, R], [R^T, T]] are covariances all the same."""
    model, start = problem
    traj, caught = solve(model, start, (0.0, 2.0), rtol=1e-6, method=method)
    assert_sound(traj, 1e-5)
    assert traj.success != bool(caught)
    assert traj.success and traj.alpha[-1] == 2.0
    # what the inputs cannot show of the teacher keeps a variance >= 0
    seen = start.s > 0
    shown = np.sum(start.tau[seen] / start.s[seen, None, None], axis=0)
    assert np.linalg.eigvalsh(start.T - shown)[0] >= -1e-8 * np.trace(start.T)


@few
@given(manifolds())
def test_no_error_is_below_what_the_inputs_hide(problem):
    """A linear student and teacher: eps_g >= (v*.(T - sum_l tau^l / s_l).v*) / 2, the part of y not linear in x."""
    model, start = problem
    linear = {"activation": ov.linear, "teacher_activation": ov.linear, "noise": 0.0}
    model = dataclasses.replace(model, **linear)
    seen = start.s > 0
    hidden = start.T - np.sum(start.tau[seen] / start.s[seen, None, None], axis=0)
    floor = model.v_star @ hidden @ model.v_star / 2
    traj, _ = solve(model, start, (0.0, 10.0), rtol=1e-8)
    assert np.all(traj.eps_g >= floor - 1e-8 * (1 + floor))


# the Cayley-Hamilton hierarchy ----------------------------------------------------------------------------------------


@pytest.mark.slow
@few
@given(
    problems(activations=("erf", "linear", "quadratic"), eta=st.floats(0.01, 0.5), scale=st.sampled_from([0.3, 1.0]))
)
def test_the_hierarchy_of_moments_is_the_spectral_flow(problem):
    model, start = problem
    s, p = model.spectrum.s, model.spectrum.p
    # distinct eigenvalues with weight; those of rounding size would cost digits that float64 does not have
    assume(len(set(s)) == len(s) and np.all(p > 1e-2) and np.all(np.diff(np.sort(s)) > 1e-2 * s.max()))
    times, options = [0.0, 0.5, 1.0], dict(rtol=1e-9, method="DOP853")
    spectral, _ = solve(model, start, times, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        moments = cayley_hamilton.solve(model, start, times, stop=max_ratio(400), **options)
    assume(spectral.success and moments.success)
    for name in ("Q", "R", "v", "eps_g"):
        assert_close(getattr(moments, name), getattr(spectral, name))


# spiked random features -----------------------------------------------------------------------------------------------

FUNCTIONS = st.sampled_from([np.tanh, np.sin, ov.erf, ov.linear])
POSITIVE = st.floats(-1.0, 1.0).map(lambda x: 10**x)


@pytest.mark.slow
@few
@given(
    FUNCTIONS, FUNCTIONS, st.floats(0.0, 3.0), st.floats(-1.0, 1.0), POSITIVE, POSITIVE, POSITIVE,
    st.floats(-4.0, 2.0), st.sampled_from([0.0, 0.5]),
)  # fmt: skip
def test_ridge_errors_are_above_what_any_readout_leaves(student, target, r, gamma, c, beta, alpha, log_lam, noise):
    """Above the lower bound for every penalty; at the best penalty also below the upper one."""
    model = ov.static.SpikedRandomFeatures(student, target, r=r, gamma=gamma, c=c, beta=beta, noise=noise)
    result = model.solve(alpha=alpha, lam=10**log_lam)
    assert result.converged
    bounds = model.bounds()
    size = 1 + noise**2  # targets are of order one; the fixed point is known to 1e-11
    assert noise**2 - 1e-9 <= bounds.lower <= bounds.upper + 1e-9
    assert result.mse >= bounds.lower - 1e-8 * size and result.train >= -1e-9
    best = model.optimal_lam(alpha)
    assert best.mse <= min(result.mse, bounds.upper) + 1e-7 * size
    assert best.mse >= bounds.lower - 1e-8 * size


# the Bayes-optimal teacher --------------------------------------------------------------------------------------------


@few
@given(
    st.integers(1, 30), st.floats(0.05, 2.0), st.sampled_from([{3: 1.0}, {3: 0.5, 5: 0.5}, {4: 1.0}, ov.tanh, ov.relu]),
    st.floats(-1.0, 3.0), seeds, st.sampled_from([0.0, 0.7]),
)  # fmt: skip
def test_bayes_solutions_are_solutions(k, noise, activation, log_nu, seed, beta):
    rng = np.random.default_rng(seed)
    v2 = rng.dirichlet(np.ones(k)) + 1e-3 if beta else np.ones(k)
    teacher = ov.static.HierarchicalTeacher(v2=v2, noise=noise, activation=activation, normalise=True)
    nu = 10**log_nu * k
    result = teacher.solve(nu=nu)
    assert result.converged and result.residual < 1e-9
    assert np.all((result.q >= 0) & (result.q < 1)) and result.k_c == np.sum(result.q > 0)
    assert 0 <= result.eps <= teacher.g.total * (1 + 1e-12)
    # stronger features are known better, more data never hurt, and the order of the features means nothing
    order = np.argsort(teacher.v2)
    assert np.all(np.diff(result.q[order]) >= -1e-12)
    assert teacher.solve(nu=2 * nu).eps <= result.eps * (1 + 1e-12)
    turned = dataclasses.replace(teacher, v2=teacher.v2[order]).solve(nu=nu)
    np.testing.assert_allclose(turned.q, result.q[order], rtol=1e-9, atol=1e-12)
    phi = [point.phi for point in result.solutions]
    assert result.phi == max(phi)
