"""SGD on the hidden manifold: against a literal loop, against the ODE of its own weights, and on other latents."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import manifolds
import numpy as np
import pytest
from helpers import few
from manifolds import Replayed, manifold

import overlaps as ov
from overlaps.manifold import latents
from overlaps.manifold.realisation import second_moments
from overlaps.manifold.weights import given_weights, random_weights
from overlaps.results import discrepancy


@pytest.mark.parametrize("batch_size", [1, 3])
def test_a_seed_is_one_run_whatever_is_drawn_at_once(batch_size):
    """With label noise: neither inputs nor noise hang on the size of the blocks, or on each other."""
    quiet, loud = (manifold(noise=noise, batch_size=batch_size) for noise in (0.0, 0.7))
    options = dict(N=30, alpha=[0, 2], rng=1, dtype="float64")
    few, many = (ov.simulate(loud, chunk=chunk, **options) for chunk in (12, 1200))
    np.testing.assert_allclose(few.Q, many.Q, rtol=1e-12)  # matrix products of other widths
    np.testing.assert_allclose(few.v, many.v, rtol=1e-12)
    assert np.abs(few.Q - ov.simulate(quiet, chunk=12, **options).Q).max() > 1e-3


MINE = dataclasses.replace(ov.erf, name="mine", code=-1)  # as a user brings it

# the runs ------------------------------------------------------------------------------------------------------------

MEAN = {"sign": 0.0, "relu": 1 / np.sqrt(2 * np.pi), "tanh": 0.0}
FUNCTION = {"sign": np.sign, "relu": lambda u: np.maximum(u, 0), "tanh": np.tanh}


@pytest.mark.filterwarnings("ignore:the latents")  # a few, always the same
@pytest.mark.parametrize(
    "name, activation, options",
    [
        ("sign", ov.erf, {}),
        ("relu", ov.relu, {"batch_size": 3, "weight_decay": (0.5, 0.2)}),
        ("tanh", MINE, {"batch_size": 2}),
    ],
    ids=["sign erf", "relu relu in batches", "user functions"],
)
def test_runs_are_the_literal_loop(name, activation, options, rng):
    """Same latents, one vector at a time; Q and R from second moments that are averages over many latents."""
    N, D, steps = 40, 20, 50
    model = manifold(activation, np.tanh if name == "tanh" else name, eta=0.4, eta_v=0.6, **options)
    batch, (kappa, kappa_v) = model.batch_size, model.weight_decay
    W, W_star, F = start = random_weights(model, N=N, rng=rng)
    c = rng.standard_normal((steps * batch, D))
    sim = ov.simulate(
        model,
        N=N,
        alpha=[0, steps / N],
        rng=1,
        weights=start,
        latents=Replayed(c),
        chunk=steps * batch,
        dtype="float64",
        test=0,
    )
    w, v = W.copy(), np.array(model.v)
    for sample in c.reshape(steps, batch, D):
        dw, dv = 0.0, 0.0
        for latent in sample:
            x = FUNCTION[name](F @ latent / np.sqrt(D)) - MEAN[name]
            lam, nu = w @ x / np.sqrt(N), W_star @ latent / np.sqrt(D)
            delta = v @ model.activation.g(lam) - model.v_star @ model.teacher_activation.g(nu)
            dw = dw - model.eta * np.outer(v * model.activation.dg(lam) * delta, x) / np.sqrt(N) / batch
            dv = dv - model.eta_v / N * model.activation.g(lam) * delta / batch
        w, v = (1 - model.eta * kappa / N) * w + dw, (1 - model.eta_v * kappa_v / N) * v + dv
    b, zeta = model.features.b, model.features.zeta
    Omega, Phi = zeta * np.eye(N) + b**2 * F @ F.T / D, b * F / np.sqrt(D)
    np.testing.assert_allclose(sim.v[0, -1], v, rtol=1e-11)  # order of summation over 50 steps
    np.testing.assert_allclose(sim.Q[0, -1], w @ Omega @ w.T / N, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(sim.R[0, -1], w @ Phi @ W_star.T / np.sqrt(N * D), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(sim.T[0], W_star @ W_star.T / D, rtol=1e-13)


@pytest.mark.parametrize(
    "law",
    [None, latents.mixture(kind="elementwise", means=[-1.0, 2.0], standardise="population")],
    ids=["normal", "mixture"],
)
def test_the_stream_does_not_depend_on_records_workers_or_number_of_runs(law):
    model = manifold(noise=0.2)
    options = dict(N=50, rng=7, latents=law, chunk=64)  # 100 steps cross a block in the middle of an interval
    three = ov.simulate(model, alpha=[0, 1, 2], runs=3, **options)
    other = ov.simulate(model, alpha=[0, 0.26, 1.3, 1.98, 2], runs=2, **options)
    np.testing.assert_array_equal(other.v[:, -1], three.v[:2, -1])
    # overlaps of all records are one matrix product, whose rounding depends on its shape
    np.testing.assert_allclose(other.Q[:, -1], three.Q[:2, -1], rtol=1e-13, atol=1e-14)
    with ThreadPoolExecutor(2) as pool:
        assert ov.simulate(model, alpha=[0, 1, 2], runs=3, executor=pool, **options) == three
    assert len({x.tobytes() for x in three.F}) == 3  # every run draws its own weights
    again = ov.simulate(model, alpha=[0, 1, 2], runs=3, weights=[three.weights(i) for i in range(3)], **options)
    np.testing.assert_allclose(again.Q, three.Q, rtol=1e-12)  # rows of F normalised a second time
    longer = ov.simulate(model, alpha=[0, 2, 5], **options)
    np.testing.assert_array_equal(longer.v[0, 1], three.v[0, -1])
    assert not np.array_equal(ov.simulate(model, alpha=[0, 1, 2], **options | {"rng": 8}).v[0], three.v[0])


@pytest.mark.parametrize("features", ["sign", "relu"])
def test_both_precisions_see_one_stream(features):
    """The same run in both: they part by rounding only."""
    model = manifold(features=features, noise=0.1)
    weights = random_weights(model, N=200, rng=1)
    single, double = (
        ov.simulate(model, N=200, alpha=[0, 5, 10], rng=2, weights=weights, dtype=dtype)
        for dtype in ("float32", "float64")
    )
    # 2000 roundings of 6e-8 in 200 weights of order one, and a sign feature in 1e7 falls on the other side: about 1e-4
    # in single weights, 1e-5 in overlaps and much less in v
    for name, atol in (("Q", 2e-4), ("R", 2e-4), ("v", 5e-5)):
        np.testing.assert_allclose(getattr(single, name), getattr(double, name), atol=atol)
    assert not np.array_equal(single.Q[:, 1:], double.Q[:, 1:])
    assert single.Q.dtype == double.Q.dtype == float
    default = ov.simulate(model, N=200, alpha=[0, 5, 10], rng=2, weights=weights)
    assert default == single


@few("student, dtype", [(g, x) for g in (ov.erf, MINE) for x in ("float64", "float32")], quick=3, ids=str)
def test_weak_decay_is_exact_in_either_precision(student, dtype):
    """Without readout nothing is learned: Q = (1 - eta kappa / N)^(2 steps) Q(0), here a factor of 1e-8 a step."""
    N, steps, rate = 40, 4_000, 1e-8
    model = manifold(student, eta=0.4, eta_v=0.0, v=[0.0, 0.0], weight_decay=(rate * N / 0.4, 0.0))
    runs = ov.simulate(model, N=N, alpha=[0, steps / N], rng=1, dtype=dtype)
    # nothing but the scale of the weights changes, and that is kept in double precision
    np.testing.assert_allclose(runs.Q[0, 1] / runs.Q[0, 0] - 1, -2 * rate * steps, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:the latents")
def test_every_input_is_centred_by_its_own_mean(rng):
    """Rows of F of other lengths, which the exact moments allow: each sees a mean E relu(d z) = d / sqrt(2 pi)."""
    N, D = 40, 20
    model = manifold(ov.relu, features="relu", eta_v=0.6)
    W, W_star, F = random_weights(model, N=N, rng=rng)
    length, c = rng.uniform(0.2, 2, N), rng.standard_normal((2, D))
    weights = W, W_star, F * length[:, None]
    options = dict(latents=Replayed(c), chunk=2, dtype="float64", moments="exact", normalise_rows=False, test=0)
    runs = ov.simulate(model, N=N, alpha=[0, 1 / N], rng=1, weights=weights, **options)
    x = np.maximum(weights[2] @ c[0] / np.sqrt(D), 0) - length / np.sqrt(2 * np.pi)
    g = np.maximum(W @ x / np.sqrt(N), 0)
    delta = model.v @ g - model.v_star @ np.maximum(W_star @ c[0] / np.sqrt(D), 0)
    np.testing.assert_allclose(runs.v[0, -1], model.v - model.eta_v / N * g * delta, rtol=1e-13)
    assert np.any(g > 0)


def test_diverging_weights_end_the_record():
    model = manifold(ov.quadratic, eta=15.0, eta_v=0.0)
    with pytest.warns(RuntimeWarning, match="diverged"), np.errstate(over="ignore", invalid="ignore"):
        runs = ov.simulate(model, N=2000, alpha=np.arange(0.0, 4.0, 0.5), rng=1, chunk=256)
    assert not runs.success and np.isfinite(runs.Q[0, 0]).all() and np.isnan(runs.Q[0, -1]).all()


@pytest.mark.parametrize("features, ratio, student", [("sign", 0.5, ov.erf), ("relu", 2.0, ov.relu)])
def test_reduced_runs_follow_the_equations_without_weights(features, ratio, student):
    """Of sign features 36 % of the inputs, and of relu ones more of the teachers, are not linear in what is seen."""
    model = manifold(student, features=features, ratio=ratio, nodes=4)
    start = model.random_start(N=1000, rng=1)
    unseen = start.T - np.tensordot(1 / model.spectrum.s, start.tau, axes=1)
    assert np.linalg.eigvalsh(unseen)[0] > 0.2
    runs = ov.simulate(model, N=1000, alpha=[0, 0.5, 2, 10], rng=1, runs=8, start=start, method="reduced")
    theory = ov.solve(model, start, runs.alpha)
    assert runs.method == "reduced" and np.allclose(runs.start(3).q, start.q, rtol=0, atol=1e-13)
    for name in ("Q", "R", "v", "eps_g"):
        gap = np.sqrt(np.mean((runs.mean(name) - getattr(theory, name))[1:] ** 2))
        assert gap < 3 * np.sqrt(np.mean(runs.standard_error(name)[1:] ** 2))


@pytest.mark.slow
def test_reduced_runs_scatter_as_those_with_weights():
    """Standard deviations at alpha = 1 of runs from random starts: of 60 each, known to 10 %."""
    model, spread = manifold(nodes=4), {}
    for method in ("reduced", "direct"):
        options = {} if method == "reduced" else {"dtype": "float64"}
        runs = ov.simulate(model, N=200, alpha=[0, 1], rng=2, runs=60, method=method, **options)
        spread[method] = [np.std(getattr(runs, name)[:, 1], axis=0) for name in ("Q", "R", "v")]
    for one, other in zip(*spread.values(), strict=True):
        assert np.abs(np.log(one / other)).max() < 0.55  # four standard errors of a ratio


BAD = [
    (dict(N=101), r"N = 101 .* D = 50.5 .* Try N = 100"),
    (dict(start=1), "start= gives overlaps on the nodes"),
    (dict(method="reduced", latents=ov.latents.gaussian()), "latents with method = 'reduced'"),
    (dict(method="reduced", keep_weights=True), "keep_weights=True with method = 'reduced'"),
    (dict(dtype="float16"), "dtype = 'float16'"),
    (dict(chunk=0), "chunk = 0"),
    (dict(test=-1), "test = -1"),
    (dict(test=1), "test = 1; expected at least 2"),
    (dict(test=True), "test = True"),
    (dict(center="yes"), "center = 'yes'"),
    (dict(moments="gaussian"), "moments = 'gaussian'"),
    (dict(latents=3), "latents = 3"),
    (dict(latents=lambda rng, n, D: np.zeros((D, n))), r"latents\(rng, 2, 50\) has shape \(50, 2\)"),
    (dict(latents=lambda rng, n, D: np.full((n, D), np.nan)), "contains nan"),
    (dict(weights=1), "weights = 1"),
    (dict(weights=(np.zeros((2, 100)), np.zeros((2, 50)))), "weights = "),
    (dict(weights=[(np.zeros((2, 100)), np.zeros((2, 50)), np.zeros((100, 50)))] * 2), "weights has 2 tuples"),
    (dict(weights=(np.zeros((2, 90)), np.zeros((2, 50)), np.ones((100, 50)))), "W has shape"),
    (dict(weights=(np.zeros((2, 100)), np.zeros((2, 40)), np.ones((100, 50)))), "W_star has shape"),
    (dict(weights=(np.zeros((2, 100)), np.zeros((2, 70)), np.ones((100, 70)))), "ratio=0.7"),
]


@pytest.mark.parametrize("change, words", BAD, ids=[words for _, words in BAD])
def test_bad_arguments_are_refused(change, words):
    with pytest.raises(ValueError, match=words):
        ov.simulate(manifold(), **(dict(N=100, alpha=(0, 1), rng=1) | change))


def test_latents_that_turn_bad_in_a_run_are_refused():
    def fails_later(rng, n, D):
        return np.full((n, D), 0.0 if n == 2 else np.inf)

    with pytest.raises(ValueError, match="contains nan or inf"):
        ov.simulate(manifold(), N=100, alpha=(0, 1), rng=1, latents=fails_later)


@pytest.mark.parametrize(
    "option", [{"latents": latents.gaussian()}, {"center": False}, {"chunk": 5}, {"moments": "exact"}, {"test": 9}]
)
def test_options_of_the_manifold_are_refused_elsewhere(option):
    owners = "HiddenManifold" + " or GaussianCovariates" * (list(option)[0] in ("chunk", "test"))
    with pytest.raises(ValueError, match=f"{list(option)[0]} belong to {owners}; expected for a Model: rows"):
        ov.simulate(ov.committee_machine(1, 1, eta=0.5), N=100, alpha=(0, 1), rng=1, **option)


# theory and simulation -----------------------------------------------------------------------------------------------


def rms(x):
    return float(np.sqrt(np.mean(np.square(x))))


def distances(runs, theory):
    """Root mean square over times and entries of (mean of the runs - theory), for Q, R, v."""
    return np.array([rms(runs.mean(name) - getattr(theory, name)) for name in ("Q", "R", "v")])


@pytest.mark.slow
@pytest.mark.parametrize("features", ["erf", "relu", "linear", "sign"])
def test_small_networks_follow_the_ode_of_their_own_weights(features):
    """Every run against its own theory: the mean gap over 8 runs vanishes, and not without the term C."""
    model = manifold(features=features, ratio=0.5, eta=2.0, noise=1.0)
    runs = ov.simulate(model, N=300, alpha=[0, 1, 3], rng=4, runs=8, moments="exact")
    gaps, wrong = [], []
    for run in range(8):
        own, start = runs.realisation(run, nodes=40)
        for found, m in ((gaps, own), (wrong, dataclasses.replace(own, gradient_flow=True))):
            theory = ov.solve(m, start, runs.alpha)
            found.append(
                np.concatenate([(getattr(runs, x)[run] - getattr(theory, x))[1:].ravel() for x in ("Q", "R", "v")])
            )
    gaps, wrong = np.array(gaps), np.array(wrong)
    error = gaps.std(axis=0, ddof=1) / np.sqrt(8)
    # 20 correlated numbers with 7 degrees of freedom: 6 standard errors, and O(1/N) of the finite size
    allowed = 6 * error + 2 / 300
    assert np.all(np.abs(gaps.mean(axis=0)) < allowed)
    assert np.any(np.abs(wrong.mean(axis=0)) > 2 * allowed)


# rms distances of the mean of three runs: twice what three runs of this size and length have shown
TOLERANCE = {"erf": [0.012, 0.009, 0.008], "relu": [0.034, 0.024, 0.014]}


@pytest.mark.slow
@pytest.mark.parametrize("name", TOLERANCE)
def test_sgd_follows_the_ode_in_both_layers(name):
    model = manifold(getattr(ov, name))
    weights = random_weights(model, N=1000, rng=1)
    runs = ov.simulate(model, N=1000, alpha=(0, 100), rng=11, runs=3, weights=weights)
    own, start = runs.realisation(0, nodes=60)
    right = distances(runs, ov.solve(own, start, runs.alpha))
    assert np.all(right < TOLERANCE[name]), right
    no_noise = distances(runs, ov.solve(dataclasses.replace(own, gradient_flow=True), start, runs.alpha))
    assert no_noise[0] > 2.5 * TOLERANCE[name][0], no_noise  # the theory without C is excluded
    if name == "erf":  # so is a learning rate that is wrong by 5 % (for relu it moves Q by less than the runs do)
        faster = distances(runs, ov.solve(dataclasses.replace(own, eta=1.05 * model.eta), start, runs.alpha))
        assert faster[0] > 1.5 * right[0], (faster, right)


@pytest.mark.slow
@pytest.mark.parametrize("name, centred, uncentred", [("erf", 0.012, 0.025), ("relu", 0.03, 0.15)])
def test_inputs_have_to_be_centred(name, centred, uncentred):
    """Largest deviation of the mean of 3 runs from the ODE: about 0.006 (erf), 0.014 (relu) where centred."""
    model = manifold(getattr(ov, name), features="relu")
    options = dict(N=800, alpha=(0, 30), rng=2, runs=3, weights=random_weights(model, N=800, rng=1))
    right = ov.simulate(model, **options)
    with pytest.warns(RuntimeWarning, match="center=False"):
        wrong = ov.simulate(model, center=False, **options)
    theory = ov.solve(*right.realisation(0, nodes=60), right.alpha)
    for x in ("Q", "R", "v"):
        assert np.abs(right.mean(x) - getattr(theory, x)).max() < centred
        assert np.abs(wrong.mean(x) - getattr(theory, x)).max() > uncentred


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the latents")
@pytest.mark.parametrize("name", ["erf", "relu"])
def test_standardised_mixtures_follow_the_gaussian_theory_and_others_do_not(name):
    model = manifold(getattr(ov, name))
    options = dict(N=500, alpha=discrepancy.log_times(20), weights=random_weights(model, N=500, rng=3))
    means = latents.uniform_means(9.0, 2, rng=6)
    laws = {
        "gaussian": None,
        "elementwise": latents.mixture(kind="elementwise", means=means / 3, standardise="population"),
        "paper": latents.paper(means),
        "shared": latents.mixture(kind="shared", means=means, standardise="population"),
        "raw": latents.mixture(kind="elementwise", means=means),
    }
    found, theory = {}, None
    for i, (key, law) in enumerate(laws.items()):
        count = 4 if key in ("shared", "raw") else 16  # what is wrong by a factor of five needs fewer
        runs = ov.simulate(model, rng=i, runs=count, latents=law, test=0, **options)
        theory = theory or ov.solve(*runs.realisation(0, nodes=60), runs.alpha)
        found[key] = {x: ov.tlog_rmse(theory, runs).mean(x).mean() for x in ("Q", "R", "v")}
    for x, baseline in found["gaussian"].items():
        for key in ("elementwise", "paper"):
            # any means: the distance is that of Gaussian latents, whose mean over 16 runs scatters by about 15 %
            assert 0.6 < found[key][x] / baseline < 1.6, (key, x, found)
    # neither a shift of every vector that unit variance leaves, nor a variance that nobody told the theory, is forgiven
    assert found["shared"]["Q"] > 5 * found["gaussian"]["Q"] and found["raw"]["Q"] > 5 * found["gaussian"]["Q"], found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the latents", "ignore:at alpha")  # at the wrong scale
@pytest.mark.parametrize("name, near, far", [("erf", [0.02, 0.015, 0.01], 0.05), ("relu", [0.08, 0.07, 0.02], 0.2)])
def test_the_variance_of_a_centred_mixture_is_a_latent_scale(name, near, far):
    """Means +-2: the theory at scale sqrt(5) holds (rms, twice the scatter of 2 runs), that at scale 1 does not."""
    law = latents.mixture(kind="elementwise", means=[-2.0, 2.0])
    assert law.mean == 0 and law.variance == 5
    apart = {}
    for scale in (1.0, np.sqrt(law.variance)):
        model = manifold(getattr(ov, name), latent_scale=scale)
        weights = random_weights(model, N=800, rng=1)  # the same for both
        runs = ov.simulate(model, N=800, alpha=(0, 30), rng=3, runs=2, weights=weights, latents=law)
        apart[scale] = distances(runs, ov.solve(*runs.realisation(0, nodes=60), runs.alpha))
    assert np.all(apart[np.sqrt(5)] < near), apart
    assert np.all(apart[1.0] > far), apart
    # Gaussian latents of that scale are the default of the corrected model: they do no better
    own = ov.simulate(model, N=800, alpha=(0, 30), rng=4, runs=2, weights=weights)
    assert np.all(distances(own, ov.solve(*own.realisation(0, nodes=60), own.alpha)) < near)


def manifold_sgd(W, v, v_star, X, nu, eta):
    """One-pass SGD on rows of X with teacher fields nu; both layers, erf units."""
    W, v, N = W.copy(), np.array(v), W.shape[1]
    for x, y in zip(X, ov.erf(nu) @ v_star, strict=True):
        lam = W @ x / np.sqrt(N)
        delta = v @ ov.erf(lam) - y
        W -= eta * np.outer(v * ov.erf.dg(lam) * delta, x) / np.sqrt(N)
        v -= eta / N * ov.erf(lam) * delta
    return W, v


@pytest.mark.slow
def test_sgd_on_wide_latents_follows_the_corrected_theory(rng):
    # latents +-1.2 + N(0, 1), independent: not Gaussian, of standard deviation 1.56
    N, D, shift, alpha = 400, 200, 1.2, 10
    scales = np.sqrt(1 + shift**2), 1.0
    deviations = {scale: [] for scale in scales}
    for _ in range(4):
        weights = manifolds.random_weights(rng, N, D)
        W, W_star, F = weights.values()
        c = shift * rng.choice([-1.0, 1.0], (alpha * N, D)) + rng.standard_normal((alpha * N, D))
        X, nu = np.sign(c @ F.T / np.sqrt(D)), c @ W_star.T / np.sqrt(D)
        W, v = manifold_sgd(W, *manifolds.SECOND_LAYERS.values(), X, nu, 0.2)
        Omega, Phi = second_moments("sign", F, "exact", scales[0])
        end = np.concatenate([(W @ Omega @ W.T / N).ravel(), (W @ Phi @ W_star.T / np.sqrt(N * D)).ravel(), v])
        for scale in scales:
            one = ov.solve(*manifolds.two_by_two(latent_scale=scale).realisation(**weights, nodes=45), [alpha])[-1]
            deviations[scale].append(end - np.concatenate([one.Q.ravel(), one.R.ravel(), one.v]))
    corrected, naive = (np.abs(np.mean(deviations[scale], axis=0)) for scale in scales)
    # one run is off by 1/sqrt(N) = 0.05, up to factors below one; the mean of four by half as much
    assert np.max(corrected) < 0.03
    assert np.min(naive[4:8]) > 0.1  # R


def test_weights_of_runs_that_share_features_keep_one_array_and_refusals_name_what_is_wrong(rng):
    model = ov.hidden_manifold(2, 3, features="sign", ratio=0.25, eta=0.3)
    F, N = rng.normal(size=(40, 10)), 40
    several = [(rng.normal(size=(2, N)), rng.normal(size=(3, 10)), F) for _ in range(3)]
    given = given_weights(model, N, several, 3)
    assert given[0].F is given[1].F is given[2].F and not np.array_equal(given[0].W, given[1].W)
    W, W_star, _ = several[0]
    for wrong, said in (((W, W_star, F[:36]), "F has shape .36, 10."), ((W, W_star[:, :9], F), "F has shape .40, 10.")):
        with pytest.raises(ValueError, match=said):
            given_weights(model, N, wrong, 1)


def test_the_scale_of_random_students_scales_their_weights():
    """The same random numbers: Q by its square, R by itself, teachers not at all."""
    model = manifold()
    one, small = (ov.simulate(model, N=30, alpha=[0], rng=3, student_scale=scale) for scale in (1.0, 0.2))
    np.testing.assert_allclose(small.Q[:, 0], 0.04 * one.Q[:, 0], rtol=1e-5)  # in single precision
    np.testing.assert_allclose(small.R[:, 0], 0.2 * one.R[:, 0], rtol=1e-5)
    np.testing.assert_allclose(small.T, one.T, rtol=1e-12)
