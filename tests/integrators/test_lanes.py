"""Batches side by side in vector registers are the trajectories of ``solve`` up to rounding, and know no company."""

import dataclasses
import re
import warnings

import numpy as np
import pytest

import overlaps as ov
import overlaps.integrators.many
from overlaps.activations.bound import LANES
from overlaps.activations.kernels import KERNELS

ALPHA = np.linspace(0.0, 12.0, 7)
S = ov.Schedule


def random_covariance(rng, n, size):
    X = rng.normal(size=(n, n + 1)) * size
    return X @ X.T


@pytest.mark.parametrize("g", [ov.erf, ov.quadratic, ov.linear], ids=lambda g: g.name)
@pytest.mark.parametrize("size", [0.2, 3.0])
def test_closures_of_lanes_are_those_of_one_state(g, size):
    """Against the kernel that ``ov.closure`` calls, whose text shares nothing; wide fields take the far arcsines."""
    K, M, rng = 2, 3, np.random.default_rng(4)
    n, eta, eta_v, noise = K + M, 0.7, 0.3, rng.uniform(0.1, 0.5, LANES)
    fields = np.array([random_covariance(rng, n, size) for _ in range(LANES)])
    v, v_star = rng.uniform(-1, 1, (LANES, K)), rng.uniform(-1, 1, (LANES, M))
    w = np.ascontiguousarray(np.hstack([v, -v_star]).T)
    H, C, room = np.zeros((n, n, LANES)), np.zeros((K, K, LANES)), np.zeros(((n + 3) ** 2, LANES))
    gradient, eps_g = np.zeros((n, LANES)), np.zeros(LANES)
    covariances = np.ascontiguousarray(fields.transpose(1, 2, 0))
    KERNELS[g.code].lanes(covariances, w, K, noise**2, True, H, gradient, C, eps_g, room)
    for l in range(LANES):
        model = ov.committee_machine(
            K, M, activation=g, v=v[l], v_star=v_star[l], eta=eta, eta_v=eta_v, noise=noise[l]
        )  # fmt: skip
        x = fields[l]
        one = ov.closure(model, x[:K, :K], x[:K, K:], x[K:, K:])
        pairs = (
            (-eta * H[:K, :K, l], one.A), (-eta * H[:K, K:, l], one.B), (eta**2 * C[..., l], one.C),
            (-eta_v * gradient[:K, l], one.dv), (eps_g[l], one.eps_g),
        )  # fmt: skip
        for mine, other in pairs:  # sums of 15 terms of the size of the overlaps
            np.testing.assert_allclose(mine, other, rtol=1e-12, atol=1e-14 * max(1.0, np.max(np.abs(one.C))))


def problems(b, K, M, L, g=ov.erf, rng=0, fast=0.6, **learning):
    """Models of every rate up to ``fast``, noise, batch and second layer, from random weights."""
    rng = np.random.default_rng(rng)
    spectrum = ov.Spectrum(rng.uniform(0.4, 2.0, L), rng.dirichlet(np.full(L, 4.0)))
    model = ov.committee_machine(K, M, activation=g, spectrum=spectrum, eta=0.3, **learning)
    lists = {
        "eta": rng.uniform(0.05, fast, b), "noise": rng.uniform(0, 0.4, b),
        "batch_size": rng.integers(1, 4, b).tolist(),
        "gradient_flow": (rng.random(b) < 0.2).tolist(), "v": rng.uniform(0.3, 0.8, (b, K)),
        "v_star": rng.uniform(0.3, 1.0, (b, M)), "drift": rng.choice([0.0, 0.02], b),
    }  # fmt: skip
    models = [
        dataclasses.replace(model, **dict(zip(lists, row, strict=True))) for row in zip(*lists.values(), strict=True)
    ]
    X = rng.normal(size=(b, L, K + M, 9)) / 3
    starts = [
        ov.State.from_blocks(one, q=q[:, :K, :K], r=q[:, :K, K:], t=q[:, K:, K:])
        for one, q in zip(models, X @ X.swapaxes(-1, -2), strict=True)
    ]
    return models, starts


CASES = {
    "plain": (dict(K=2, M=2, L=1), {}),
    "both layers": (dict(K=1, M=3, L=2, eta_v=0.2), {}),
    "decay, sums": (dict(K=3, M=2, L=3, weight_decay=0.05), {"blocks": False}),
    "quadratic": (dict(K=2, M=1, L=1, g=ov.quadratic, fast=0.1, eta_v=0.05, weight_decay=(0.03, 0.1)), {}),
    "linear": (dict(K=2, M=2, L=2, g=ov.linear), {"rtol": 1e-10}),
    "steps": (dict(K=2, M=2, L=2), {"first_step": 1e-2, "max_step": 0.3}),
    "without the start": (dict(K=2, M=2, L=1), {"alpha": ALPHA[2:]}),
    "schedule": (
        dict(K=2, M=3, L=2, eta_v=0.1, weight_decay=(0.05, 0.02)),
        {
            "schedule": {
                "eta": S.warmup(2.0) * S.step([3.3], [0.5]), "noise": S.power(0.5, scale=2.0),
                "eta_v": S.step([1.7, 4.0], [2.0, 0.5]), "weight_decay": S.cosine(4.0, last=0.2),
                "batch_size": S.step([2.5], [1.5]),
            }
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_lanes_are_solve_up_to_rounding(name):
    """The same steps, so that only sums in another order differ; evaluations are the same but for a rare rejection."""
    shape, options = CASES[name]
    models, starts = problems(40, **shape)
    if "schedule" in options:
        models = [dataclasses.replace(model, gradient_flow=False) for model in models]
    options = {"alpha": ALPHA} | options
    many, one = (ov.solve_many(models, starts, lanes=lanes, **options) for lanes in (True, False))
    assert many.success.all() and many.message == one.message and many.method == one.method
    assert np.mean(many.nfev != one.nfev) <= 0.05
    for curve in ("Q", "R", "v", "eps_g"):  # rounding, amplified along twelve units of time
        x, y = getattr(many, curve), getattr(one, curve)
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11 * np.max(np.abs(y)))
    assert many[3].R.shape == one[3].R.shape and type(many[3]) is type(one[3])


@pytest.mark.parametrize("name", ["plain", "both layers", "quadratic", "schedule"])
def test_company_order_and_threads_change_no_bit(name):
    shape, options = CASES[name]
    models, starts = problems(2 * LANES + 9, **shape)
    if "schedule" in options:
        models = [dataclasses.replace(model, gradient_flow=False) for model in models]
    options = {"alpha": ALPHA, "lanes": True} | options
    whole = ov.solve_many(models, starts, threads=1, **options)
    order = np.random.default_rng(1).permutation(len(models))
    turned = ov.solve_many([models[i] for i in order], [starts[i] for i in order], threads=2, **options)
    alone = ov.solve_many(models[7:8], starts[7:8], **options)
    assert np.array_equal(turned.records, whole.records[order]) and np.array_equal(turned.nfev, whole.nfev[order])
    assert np.array_equal(alone.records[0], whole.records[7])


def test_the_level_is_met_where_solve_meets_it():
    """At the end eps_g is the level, and the curve of ``solve`` at that time is the same."""
    models, starts = problems(60, K=2, M=2, L=2)
    level = float(np.median(ov.solve_many(models, starts, ALPHA).eps_g[:, 3]))
    many, one = (ov.solve_many(models, starts, ALPHA, stop=level, lanes=lanes) for lanes in (True, False))
    met = many.end < ALPHA[-1]
    assert 10 < met.sum() < 60 and many.message == one.message and many.success.all()
    np.testing.assert_allclose(many.end, one.end, rtol=1e-9)  # rounding of eps_g over its slope
    assert np.array_equal(np.isnan(many.eps_g), np.isnan(one.eps_g))
    i = int(np.flatnonzero(met & (many.end > 1.0))[0])
    assert many[i].alpha[-1] == many.end[i] and many[i].eps_g[-1] == pytest.approx(level, rel=1e-11)
    there = ov.solve(models[i], starts[i], [many.end[i]])
    np.testing.assert_allclose(many[i].Q[-1], there.Q[-1], rtol=1e-7)  # another last step, of tolerance 1e-8


def worded(batch):
    """Messages without the size of what diverges: at a time of blowing up it hangs on the last digits."""
    return [re.sub(r"overlap\| = [^)]*", "", said) for said in batch.message]


def test_what_fails_fails_with_the_words_of_solve():
    """Most of the rates diverge, which lanes find out; one overflows at once, and is handed over."""
    model = ov.quadratic_network(2, 1, eta=0.1)
    models = [dataclasses.replace(model, eta=eta) for eta in [*np.linspace(0.1, 8.0, 20), 1e140]]
    start = model.random_start(N=1200, rng=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        many, one = (ov.solve_many(models, start, ALPHA, method="DOP853", lanes=lanes) for lanes in (True, False))
    lost = ~many.success
    assert 5 < lost.sum() < 21 and "diverge" in many.message[-2]
    assert np.array_equal(lost, ~one.success) and worded(many) == worded(one)
    np.testing.assert_allclose(many.records[lost], one.records[lost], rtol=1e-9, atol=1e-12)  # the account, too
    np.testing.assert_allclose(many.ends[:-1], one.ends[:-1], rtol=1e-9, atol=1e-12)
    assert np.array_equal(many.end, one.end)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        many, one = (ov.solve_many(models[1:-1], start, [5.0, 9.0], lanes=lanes) for lanes in (True, False))
    assert np.array_equal(many.end, one.end) and worded(many) == worded(one)
    np.testing.assert_allclose(many.ends, one.ends, rtol=1e-9, atol=1e-12)  # without a record, the start


def test_the_shape_decides_and_nothing_else(monkeypatch):
    seen = []
    monkeypatch.setattr(overlaps.integrators.many, "side_by_side", lambda *x: seen.append(1) or side_by_side(*x))
    from overlaps.integrators.lanes import side_by_side

    def taken(model, b=2 * LANES, **options):
        seen.clear()
        ov.solve_many([model] * b, model.random_start(N=1200, rng=1), [0.0, 0.1], **options)
        return bool(seen)

    erf, relu = ov.committee_machine(2, 2, eta=0.3), ov.committee_machine(1, 1, eta=0.3, activation=ov.relu)
    wide = ov.committee_machine(7, 6, eta=0.1)
    assert taken(erf) and not taken(erf, b=2 * LANES - 1) and not taken(erf, lanes=False) and taken(erf, 3, lanes=True)
    assert not taken(relu) and not taken(wide, 64) and not taken(erf, stop=lambda alpha, state: 1.0)
    assert not taken(dataclasses.replace(erf, constraint="sphere"))
    for model, words in ((relu, "1 relu students"), (wide, "7 erf students, 6 erf teachers and 1 eigen")):
        with pytest.raises(ValueError, match=f"lanes = True with {words}.*expected .*Leave it out"):
            taken(model, lanes=True)
    with pytest.raises(ValueError, match="lanes = 2"):
        taken(erf, lanes=2)


def errors_against_tight(count, rng):
    """Largest relative errors of eps_g of lanes and of ``solve`` at rtol 1e-8, against rtol 1e-12."""
    models, starts = problems(count, K=2, M=2, L=1, rng=rng)
    tight = ov.solve_many(models, starts, ALPHA, rtol=1e-12, lanes=False).eps_g
    return [
        np.max(np.abs(ov.solve_many(models, starts, ALPHA, lanes=lanes).eps_g / tight - 1), axis=1)
        for lanes in (True, False)
    ]


def no_worse(mine, other):
    assert mine.max() <= 1.01 * other.max() and np.median(mine) <= 1.01 * np.median(other)


def test_lanes_are_as_accurate_as_solve():
    no_worse(*errors_against_tight(50, 2))


@pytest.mark.slow
def test_lanes_are_as_accurate_as_solve_on_a_thousand_settings():
    no_worse(*errors_against_tight(1000, 3))
