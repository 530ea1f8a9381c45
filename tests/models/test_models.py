"""Models, spectra and starts: defaults, the law of random overlaps, bad input."""

import dataclasses
import pickle
import re

import numpy as np
import pytest

import overlaps as ov
from overlaps import configuration
from overlaps.models.state import block_overlaps
from overlaps.simulators.direct import weights_with_overlaps

MACHINE_OF_TWO = ov.committee_machine(2, 2, eta=0.5)
EXAMPLE = {
    "ov": ov,
    "model": MACHINE_OF_TWO,
    "Q": 0.3 * np.eye(2),
    "R": 0.1 * np.eye(2),
    "T": np.eye(2),
    "q": 0.3 * np.eye(2)[None],
    "r": 0.1 * np.eye(2)[None],
    "t": np.eye(2)[None],
}


def test_defaults_and_conventions():
    soft = ov.committee_machine(3, 2, eta=0.5)
    np.testing.assert_array_equal(soft.v, np.ones(3))
    np.testing.assert_array_equal(soft.v_star, np.ones(2))
    assert soft.teacher_activation is ov.erf and soft.spectrum == ov.isotropic()
    normal = ov.committee_machine(3, 2, eta=0.5, normalised=True)
    np.testing.assert_allclose(normal.v, np.sqrt(2) / 3)
    np.testing.assert_allclose(normal.v_star, 1 / np.sqrt(2))
    quadratic = ov.quadratic_network(4, 2, eta=0.5)
    np.testing.assert_allclose(quadratic.v, 1 / 4)
    np.testing.assert_allclose(quadratic.v_star, 1 / 2)
    assert dataclasses.replace(soft, eta=0.1).eta == 0.1
    assert ov.committee_machine(1, 1, eta=1, weight_decay=0.2).weight_decay == (0.2, 0.2)


@pytest.mark.parametrize("name", ["erf", "relu", "tanh", "linear", "quadratic", "absolute"])
def test_activations_go_by_name_everywhere(name, tmp_path):
    g = getattr(ov, name)
    both = dict(activation=name, teacher_activation=name)
    (tmp_path / "run.toml").write_text(
        f'[model]\nK = 2\nM = 3\neta = 0.4\nactivation = "{name}"\n[solve]\nalpha = [0.0, 1.0]'
    )
    models = [
        ov.committee_machine(2, 3, eta=0.4, activation=name),
        ov.committee_machine(2, 3, eta=0.4, teacher_activation=name),
        ov.quadratic_network(2, 3, eta=0.4, teacher_activation=name),
        ov.hidden_manifold(2, 3, features="sign", ratio=0.5, nodes=3, eta=0.2, **both),
        ov.gaussian_mixture(2, weights=[0.4, 0.6], labels=[1, -1], means=np.eye(2, 8), eta=0.1, activation=name),
        dataclasses.replace(ov.committee_machine(2, 3, eta=0.4), **both),
        configuration.read(tmp_path / "run.toml")["model"],
    ]
    assert all(model.teacher_activation is g for model in models)
    assert [model.activation is g for model in models] == [True, name == "erf", name == "quadratic", *[True] * 4]
    assert models[0] == ov.committee_machine(2, 3, eta=0.4, activation=g) == models[-1]


def test_records_print_compare_and_pickle():
    model = ov.committee_machine(
        2, 2, eta=0.5, noise=0.1, spectrum=ov.power_law(beta=1.0, L=3), teacher_activation=ov.relu
    )
    start = model.random_start(N=30, rng=0)
    for record in (model, start, model.spectrum, ov.erf):
        assert "\n" not in repr(record) and "object at" not in repr(record)
        assert pickle.loads(pickle.dumps(record)) == record
    assert "erf/relu" in repr(model) and "noise=0.1" in repr(model) and "power_law(beta=1, L=3)" in repr(model)
    assert model != dataclasses.replace(model, eta=0.6)
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.eta = 1.0
    with pytest.raises(ValueError, match="read-only"):
        model.v[0] = 2.0


def test_power_law_has_mean_one_and_the_right_exponent():
    spectrum = ov.power_law(beta=0.7, L=50)
    assert spectrum.mean == pytest.approx(1.0)
    slope = np.polyfit(np.log(np.arange(1, 51)), np.log(spectrum.s), 1)[0]
    assert slope == pytest.approx(-1.7)


def test_overlaps_of_weights():
    model = ov.committee_machine(2, 1, eta=0.5, spectrum=ov.Spectrum([3.0, 0.5], [0.25, 0.75]))
    rng = np.random.default_rng(0)
    W, W_star = rng.standard_normal((2, 8)), rng.standard_normal((1, 8))
    state = ov.State.from_weights(model, W=W, W_star=W_star)
    covariance = np.diag([3.0] * 2 + [0.5] * 6)
    np.testing.assert_allclose(state.Q, W @ covariance @ W.T / 8)
    np.testing.assert_allclose(state.R, W @ covariance @ W_star.T / 8)
    np.testing.assert_allclose(state.T, W_star @ covariance @ W_star.T / 8)
    np.testing.assert_allclose(state.tau[1], 0.25 * W_star[:, 2:] @ W_star[:, 2:].T / 8)
    np.testing.assert_allclose(state.r[0], 3 * W[:, :2] @ W_star[:, :2].T / 8)
    q, r, t = state.plain
    assert ov.State.from_blocks(model, q=q, r=r, t=t).Q == pytest.approx(state.Q)


@pytest.mark.slow
def test_random_start_has_the_law_of_random_weights():
    """First two moments of the overlaps over many draws: means 0 or sigma^2 p_l, variances as for explicit weights."""
    model = ov.committee_machine(2, 1, eta=0.5, spectrum=ov.Spectrum([2.0, 0.5, 0.2], [0.1, 0.4, 0.5]))
    N, draws, scale = 20, 4000, 0.7  # the first block has two coordinates, fewer than K + M
    rng = np.random.default_rng(5)
    starts = [model.random_start(N=N, rng=rng, student_scale=scale).plain for _ in range(draws)]
    sizes = model.spectrum.block_sizes(N)
    weights = [
        block_overlaps(scale * rng.standard_normal((2, N)), rng.standard_normal((1, N)), sizes) for _ in range(draws)
    ]
    for a, b in zip(zip(*starts, strict=True), zip(*weights, strict=True), strict=True):
        a, b = np.array(a), np.array(b)
        for moment in (1, 2):
            gap = np.mean(a**moment - b**moment, axis=0)
            error = np.sqrt((np.var(a**moment, axis=0) + np.var(b**moment, axis=0)) / draws)
            assert np.all(np.abs(gap) < 4.5 * error)  # 42 comparisons, seeded


def test_mean_of_few_dimensions():
    """E q^l = sigma^2 p_l and E t^l = p_l for blocks with more, as many, and fewer dimensions than units."""
    model, N, scale = (
        ov.committee_machine(2, 3, eta=0.05, spectrum=ov.Spectrum([1.4, 0.6, 0.2], [0.2, 0.3, 0.5])),
        10,
        0.7,
    )
    rng, p = np.random.default_rng(7), model.spectrum.p[:, None, None]
    drawn = [model.random_start(N=N, rng=rng, student_scale=scale).plain for _ in range(300)]
    means = scale**2 * p * np.eye(2), np.zeros((3, 2, 3)), p * np.eye(3)
    for values, mean in zip(map(np.array, zip(*drawn, strict=True)), means, strict=True):
        assert np.all(np.abs(values.mean(axis=0) - mean) < 4.5 * values.std(axis=0) / np.sqrt(300))


@pytest.mark.slow
def test_variance_of_teacher_moments():
    """Var T_mn = (1 + delta_mn) <s^2> / N."""
    model = ov.committee_machine(1, 2, eta=0.1, spectrum=ov.power_law(beta=0.5, L=4))
    rng = np.random.default_rng(1)
    T = np.array([model.random_start(N=400, rng=rng).T for _ in range(3000)])
    expected = np.mean(model.spectrum.s**2) / 400
    # relative error of a variance from 3000 draws: sqrt(2/3000) = 2.6 %
    assert T[:, 0, 1].var() == pytest.approx(expected, rel=0.12)
    assert T[:, 0, 0].var() == pytest.approx(2 * expected, rel=0.12)


@pytest.mark.slow
@pytest.mark.parametrize("teacher", ["random", "ideal"])
def test_orthonormal_students(teacher):
    """A random frame: one overlap with a vector of length sqrt(N) has the moments of one entry of a unit vector."""
    model = ov.committee_machine(3, 2, eta=0.1, spectrum=ov.Spectrum(s=[1.6, 0.4], p=[0.5, 0.5]))
    N, n, draws = 12, 6, 4000
    rng = np.random.default_rng(3)
    states = [
        model.random_start(N=N, rng=rng, teacher=teacher, students="orthonormal", student_scale=0.7)
        for _ in range(draws)
    ]
    for state in states[:5]:
        np.testing.assert_allclose(state.q, np.tile(0.49 * 0.5 * np.eye(3), (2, 1, 1)), atol=1e-14)
    # plain r^l = 0.7 n u . w*/N with a unit vector u of n entries: w* = sqrt(n) e (ideal), or Gaussian
    u = np.array([state.plain[1] for state in states]) * N / (0.7 * np.sqrt(n))
    fourth = 3 / (n * (n + 2)) if teacher == "ideal" else 3
    second = 1 / n if teacher == "ideal" else 1
    u = u / (np.sqrt(n) if teacher == "ideal" else 1)
    # 12 entries times 4000 draws, correlated within a draw: relative errors of 2 % (second) and 6 % (fourth), 4 sigma
    np.testing.assert_allclose(np.mean(u**2, axis=0), second, rtol=0.09)
    np.testing.assert_allclose(np.mean(u**4), fourth, rtol=0.06)
    with pytest.raises(ValueError, match="students = 'orthonormal' needs K = 3"):
        model.random_start(N=4, rng=0, students="orthonormal")


@pytest.mark.slow
def test_ideal_teacher():
    model = ov.committee_machine(2, 3, eta=0.1, spectrum=ov.power_law(beta=0.5, L=4))
    rng = np.random.default_rng(2)
    draws = [model.random_start(N=20, rng=rng, teacher="ideal", student_scale=0.3) for _ in range(2000)]
    np.testing.assert_allclose(draws[0].plain[2], np.broadcast_to(np.eye(3) / 4, (4, 3, 3)), atol=1e-12)
    q = np.mean([d.q for d in draws], axis=0)
    np.testing.assert_allclose(q, np.broadcast_to(0.09 / 4 * np.eye(2), q.shape), atol=1.5e-3)  # 5 standard errors
    r = np.array([d.plain[1] for d in draws])
    # r_km = 0.3 sqrt(p_l / N) times a standard normal
    assert r.var() == pytest.approx(0.09 / 4 / 20, rel=0.05)
    with pytest.raises(ValueError, match="teacher = 'ideal' needs M = 3"):
        model.random_start(N=8, rng=0, teacher="ideal")


def test_weights_meet_the_overlaps_exactly():
    model = ov.committee_machine(2, 2, eta=0.5, spectrum=ov.Spectrum([2.0, 0.5, 0.0], [0.1, 0.4, 0.5]))
    start = model.random_start(N=20, rng=3)
    W, W_star = weights_with_overlaps(start, model.spectrum.block_sizes(40), np.random.default_rng(1))
    again = ov.State.from_weights(model, W=W, W_star=W_star)
    for name in ("q", "r", "tau", "T"):
        np.testing.assert_allclose(getattr(again, name), getattr(start, name), atol=1e-14)
    full = model.random_start(N=40, rng=3)  # four directions in the first block do not fit in two coordinates
    with pytest.raises(ValueError, match="block 0 has n_l = 2"):
        weights_with_overlaps(full, model.spectrum.block_sizes(20), np.random.default_rng(1))


MACHINE = dict(K=2, M=2, eta=0.5)
BAD_MODELS = [
    (dict(K=0), "K = 0"),
    (dict(K=1.5), "K = 1.5"),
    (dict(M=True), "M = True"),
    (dict(eta=0.0), "eta = 0.0"),
    (dict(eta=-1.0), "eta = -1.0"),
    (dict(eta=np.nan), "eta = nan"),
    (dict(eta="fast"), "eta = 'fast'"),
    (dict(eta_v=-0.1), "eta_v"),
    (dict(noise=-0.1), "noise = -0.1.*standard deviation"),
    (dict(noise=np.inf), "noise = inf"),
    (dict(weight_decay=-1.0), "weight_decay"),
    (dict(weight_decay=(1.0, 2.0, 3.0)), "weight_decay"),
    (dict(batch_size=0), "batch_size"),
    (dict(batch_size=2.5), "batch_size"),
    (dict(gradient_flow="yes"), "gradient_flow"),
    (dict(v=[1.0]), "v has shape"),
    (dict(v=[1.0, np.nan]), "v contains nan"),
    (dict(v_star=[1.0, 2.0, 3.0]), "v_star has shape"),
    (dict(normalised=True, v=[1.0, 1.0]), "normalised"),
    (dict(activation=np.tanh), "activation"),
    (dict(teacher_activation="elu"), r"teacher_activation = 'elu'; expected one of 'erf', .*from_function\(g, dg\)"),
    (dict(spectrum=[1.0, 2.0]), "spectrum"),
]


@pytest.mark.parametrize("change, words", BAD_MODELS, ids=[f"{c}" for c, _ in BAD_MODELS])
def test_bad_models_are_refused(change, words):
    with pytest.raises(ValueError, match=words):
        ov.committee_machine(**(MACHINE | change))


BY_PLACE = [
    (
        lambda model: ov.power_law(1.5, 20),
        "power_law() got 1.5, 20 by position; expected beta, L by name: ov.power_law(",
    ),
    (lambda model: model.random_start(1000), "random_start() got 1000 by position; expected N, rng, student_scale, "),
    (lambda model: ov.committee_machine(2, 2, ov.erf), "got erf by position; expected activation, teacher_activation"),
    (lambda model: ov.quadratic_network(2, 2, 0.3), "got 0.3 by position; expected eta, v, v_star by name"),
    (
        lambda model: ov.simulate(model, 50, [0, 1]),
        "got 50, [0, 1] by position; expected N, alpha, rng, start ... by name",
    ),
    (lambda model: ov.State.from_overlaps(model, [[0.3]]), "from_overlaps() got [[0.3]] by position; expected Q, R, T"),
    (lambda model: ov.State.from_blocks(model, [[0.3]]), "from_blocks() got [[0.3]] by position; expected q, r, t"),
]


@pytest.mark.parametrize("call, words", BY_PLACE)
def test_arguments_by_place_are_answered_with_the_right_call(call, words):
    with pytest.raises(TypeError, match=re.escape(words)) as found:
        call(ov.committee_machine(2, 2, eta=0.5))
    eval(str(found.value).split("by name: ")[1][:-1], EXAMPLE)  # which runs as it stands


def test_warnings_of_starts_point_to_the_line_of_the_user():
    steep = ov.committee_machine(2, 2, eta=0.5, spectrum=ov.power_law(beta=1.0, L=40))
    with pytest.warns(RuntimeWarning, match="one step moves") as record:
        steep.random_start(N=40, rng=1)
    assert record[0].filename == __file__


BAD_SPECTRA = [
    (lambda: ov.Spectrum(s=[1.0, -0.1]), "s >= 0"),
    (lambda: ov.Spectrum(s=[1.0, 2.0], p=[0.5, 0.4]), "sum to 0.9"),
    (lambda: ov.Spectrum(s=[1.0, 2.0], p=[1.5, -0.5]), "p >= 0"),
    (lambda: ov.Spectrum(s=[1.0, 2.0], p=[1.0]), "p has shape"),
    (lambda: ov.Spectrum(s=[[1.0]]), "s has shape"),
    (lambda: ov.Spectrum(s=[]), "s is empty"),
    (lambda: ov.Spectrum(s=[1.0, np.inf]), "s contains nan or inf"),
    (lambda: ov.power_law(beta=0.0, L=4), "beta = 0.0"),
    (lambda: ov.power_law(beta=1.0, L=0), "L = 0"),
    (lambda: ov.power_law(beta=1.0, L=7).block_sizes(100), "try N = 98"),
    (lambda: ov.Spectrum(s=[2.0, 1.0], p=[1 / 3, 2 / 3]).block_sizes(4), "try N = 3"),
    (lambda: ov.isotropic().block_sizes(0), "N = 0"),
    (lambda: ov.quadratic_network(2, 2, eta=0.1, normalised=True), "normalised"),
]


@pytest.mark.parametrize("make, words", BAD_SPECTRA, ids=[words for _, words in BAD_SPECTRA])
def test_bad_spectra_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


TWO = np.eye(2)
BAD_STATES = [
    (dict(Q=np.eye(3)), "Q has shape"),
    (dict(Q=[[1, 0], [0.1, 1]]), "Q is not symmetric"),
    (dict(Q=[[1, 2], [2, 1]]), "positive semi-definite"),
    (dict(R=1.5 * TWO), "positive semi-definite"),
    (dict(T=-TWO), "positive semi-definite"),
    (dict(T=[[np.nan, 0], [0, 1]]), "T contains nan"),
    (dict(Q="unknown"), "not an array"),
    (dict(v=[1.0, 2.0, 3.0]), "v has shape"),
]


@pytest.mark.parametrize("change, words", BAD_STATES, ids=[f"{c}" for c, _ in BAD_STATES])
def test_bad_states_are_refused(change, words):
    model = ov.committee_machine(2, 2, eta=0.5)
    with pytest.raises(ValueError, match=words):
        ov.State.from_overlaps(model, **(dict(Q=TWO, R=0 * TWO, T=TWO) | change))


def test_states_that_do_not_fit_the_spectrum_are_refused():
    model = ov.committee_machine(1, 1, eta=0.5, spectrum=ov.power_law(beta=1.0, L=3))
    with pytest.raises(ValueError, match="from_blocks"):
        ov.State.from_overlaps(model, Q=[[1]], R=[[0]], T=[[1]])
    with pytest.raises(ValueError, match="q has shape"):
        ov.State.from_blocks(model, q=np.ones((2, 1, 1)), r=np.zeros((3, 1, 1)), t=np.ones((3, 1, 1)))
    with pytest.raises(ValueError, match="block 1"):
        r = np.zeros((3, 1, 1))
        r[1] = 5
        ov.State.from_blocks(model, q=np.ones((3, 1, 1)), r=r, t=np.ones((3, 1, 1)))
    with pytest.raises(ValueError, match="try N = 12"):
        ov.State.from_weights(model, W=np.ones((1, 11)), W_star=np.ones((1, 11)))
    with pytest.raises(ValueError, match="same N"):
        ov.State.from_weights(model, W=np.ones((1, 12)), W_star=np.ones((1, 9)))
    with pytest.raises(ValueError, match="eigenvalues"):
        ov.State(q=np.ones((1, 1, 1)), r=np.zeros((1, 1, 1)), tau=np.ones((1, 1, 1)), T=TWO[:1, :1], v=[1.0]).Q  # noqa: B018
    for options, words in [(dict(teacher="perfect"), "ideal"), (dict(student_scale=-1), "student_scale")]:
        with pytest.raises(ValueError, match=words):
            model.random_start(N=30, rng=0, **options)


def test_a_coarse_step_warns():
    model = ov.committee_machine(1, 1, eta=1.0, spectrum=ov.power_law(beta=1.0, L=10))
    with pytest.warns(RuntimeWarning, match=r"eta max\(s\) / N"):
        model.random_start(N=20, rng=0)
