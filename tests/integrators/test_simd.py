"""Batches side by side in vector registers are the trajectories of ``solve`` up to rounding, and know no company."""

import dataclasses
import os
import re
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest
from helpers import few

import overlaps as ov
import overlaps.integrators.batch
from overlaps.activations.bound import SIMD_WIDTH
from overlaps.activations.kernels import KERNELS
from overlaps.flow.system import System, fastest_rate, fastest_rates
from overlaps.integrators import _simd

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
    n, eta, eta_v, noise = K + M, 0.7, 0.3, rng.uniform(0.1, 0.5, SIMD_WIDTH)
    fields = np.array([random_covariance(rng, n, size) for _ in range(SIMD_WIDTH)])
    v, v_star = rng.uniform(-1, 1, (SIMD_WIDTH, K)), rng.uniform(-1, 1, (SIMD_WIDTH, M))
    w = np.ascontiguousarray(np.hstack([v, -v_star]).T)
    H, C, room = np.zeros((n, n, SIMD_WIDTH)), np.zeros((K, K, SIMD_WIDTH)), np.zeros(((n + 3) ** 2, SIMD_WIDTH))
    gradient, eps_g = np.zeros((n, SIMD_WIDTH)), np.zeros(SIMD_WIDTH)
    covariances = np.ascontiguousarray(fields.transpose(1, 2, 0))
    KERNELS[g.code].simd(covariances, w, K, noise**2, True, H, gradient, C, eps_g, room)
    for l in range(SIMD_WIDTH):
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
        "eta": rng.uniform(fast / 12, fast, b), "noise": rng.uniform(0, 0.4, b),
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


@few("name", CASES, quick=4)
def test_lanes_are_solve_up_to_rounding(name):
    """The same steps, so that only sums in another order differ; evaluations are the same but for a rare rejection."""
    shape, options = CASES[name]
    models, starts = problems(40, **shape)
    if "schedule" in options:
        models = [dataclasses.replace(model, gradient_flow=False) for model in models]
    options = {"alpha": ALPHA} | options
    batch, one = (ov.solve_many(models, starts, simd=simd, **options) for simd in (True, False))
    assert batch.success.all() and batch.message == one.message and batch.method == one.method
    assert np.mean(batch.nfev != one.nfev) <= 0.05
    for curve in ("Q", "R", "v", "eps_g"):  # rounding, amplified along twelve units of time
        x, y = getattr(batch, curve), getattr(one, curve)
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11 * np.max(np.abs(y)))
    assert batch[3].R.shape == one[3].R.shape and type(batch[3]) is type(one[3])


@pytest.mark.parametrize("name", ["plain", "both layers", "quadratic", "schedule"])
def test_company_order_and_threads_change_no_bit(name):
    shape, options = CASES[name]
    models, starts = problems(2 * SIMD_WIDTH + 9, **shape)
    if "schedule" in options:
        models = [dataclasses.replace(model, gradient_flow=False) for model in models]
    options = {"alpha": ALPHA, "simd": True} | options
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
    batch, one = (ov.solve_many(models, starts, ALPHA, stop=level, simd=simd) for simd in (True, False))
    met = batch.end < ALPHA[-1]
    assert 10 < met.sum() < 60 and batch.message == one.message and batch.success.all()
    np.testing.assert_allclose(batch.end, one.end, rtol=1e-9)  # rounding of eps_g over its slope
    assert np.array_equal(np.isnan(batch.eps_g), np.isnan(one.eps_g))
    i = int(np.flatnonzero(met & (batch.end > 1.0))[0])
    assert batch[i].alpha[-1] == batch.end[i] and batch[i].eps_g[-1] == pytest.approx(level, rel=1e-11)
    there = ov.solve(models[i], starts[i], [batch.end[i]])
    np.testing.assert_allclose(batch[i].Q[-1], there.Q[-1], rtol=1e-7)  # another last step, of tolerance 1e-8


def worded(batch):
    """Messages without the size of what diverges: at a time of blowing up it hangs on the last digits."""
    return [re.sub(r"overlap\| = [^)]*", "", said) for said in batch.message]


@pytest.mark.slow
def test_what_fails_fails_with_the_words_of_solve():
    """Most of the rates diverge, which lanes find out; one overflows at once, and is handed over."""
    model = ov.quadratic_network(2, 1, eta=0.1)
    models = [dataclasses.replace(model, eta=eta) for eta in [*np.linspace(0.1, 8.0, 20), 1e140]]
    start = model.random_start(N=1200, rng=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        batch, one = (ov.solve_many(models, start, ALPHA, method="DOP853", simd=simd) for simd in (True, False))
    lost = ~batch.success
    assert 5 < lost.sum() < 21 and "diverge" in batch.message[-2]
    assert np.array_equal(lost, ~one.success) and worded(batch) == worded(one)
    np.testing.assert_allclose(batch.records[lost], one.records[lost], rtol=1e-9, atol=1e-12)  # the account, too
    np.testing.assert_allclose(batch.ends[:-1], one.ends[:-1], rtol=1e-9, atol=1e-12)
    assert np.array_equal(batch.end, one.end)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        batch, one = (ov.solve_many(models[1:-1], start, [5.0, 9.0], simd=simd) for simd in (True, False))
    assert np.array_equal(batch.end, one.end) and worded(batch) == worded(one)
    np.testing.assert_allclose(batch.ends, one.ends, rtol=1e-9, atol=1e-12)  # without a record, the start


def test_growth_beyond_all_bounds_ends_as_in_solve():
    """Linear units above eta = 2: Q - 2R + T = 1.6 exp((eta^2 - 2 eta) alpha), 10^10 before the last time."""
    etas = np.linspace(2.5, 3.0, 20)
    models = [ov.committee_machine(1, 1, activation=ov.linear, eta=eta) for eta in etas]
    start = ov.State.from_overlaps(models[0], Q=[[1.0]], R=[[0.2]], T=[[1.0]])
    with pytest.warns(RuntimeWarning, match="20 of 20 trajectories did not succeed"):
        batch = ov.solve_many(models, start, [0.0, 5.0, 20.0], simd=True)
    for i in (0, 9, 19):
        with pytest.warns(RuntimeWarning, match="the overlaps diverge"):
            alone = ov.solve(models[i], start, [0.0, 5.0, 20.0])
        assert batch[i].message == alone.message and batch.nfev[i] == alone.nfev
        np.testing.assert_allclose(batch[i].Q, alone.Q, rtol=1e-12)
        reached = float(re.search(r"alpha = ([\d.]+):", batch.message[i]).group(1))
        rate = etas[i] ** 2 - 2 * etas[i]
        # the last step before 10^10 is shorter than a tenth of the way there
        assert 0.9 * np.log(1e10 / 1.6) < rate * reached <= np.log(1e10 / 1.6)


@pytest.mark.parametrize("words", ["lost positivity", "the step size vanished"])
def test_failures_that_lanes_leave_to_solve(words):
    """Teachers that push harder than their norms allow, of every third; times whose last digit is longer than steps."""
    models, starts = problems(33, K=2, M=2, L=2, weight_decay=0.02)
    times = np.linspace(0.0, 60.0, 7)
    if words == "lost positivity":
        starts = [x if i % 3 else dataclasses.replace(x, tau=3 * x.tau) for i, x in enumerate(starts)]
    else:
        times, starts = 1e16 + times, [dataclasses.replace(x, alpha=1e16) for x in starts]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        batch, one = (ov.solve_many(models, starts, times, method="DOP853", simd=simd) for simd in (True, False))
    lost = ~one.success
    assert 11 <= lost.sum() < 33 and np.array_equal(batch.success, one.success) and batch.message == one.message
    assert all(words in said for said, there in zip(batch.message, lost, strict=True) if there)
    for x, y in ((batch.records, one.records), (batch.ends, one.ends), (batch.end, one.end)):
        assert np.array_equal(x[lost], y[lost], equal_nan=True)
    models, starts = ([x for x, there in zip(xs, lost, strict=True) if not there] for xs in (models, starts))
    sound = ov.solve_many(models, starts, times, method="DOP853", simd=True)
    assert np.array_equal(batch.records[~lost], sound.records)  # who fails beside them changes no bit


def test_the_shape_decides_and_nothing_else(monkeypatch):
    seen = []
    monkeypatch.setattr(overlaps.integrators.batch, "run_simd", lambda *x: seen.append(1) or run_simd(*x))
    from overlaps.integrators.simd import run_simd

    def taken(model, b=2 * SIMD_WIDTH, **options):
        seen.clear()
        ov.solve_many([model] * b, model.random_start(N=1200, rng=1), [0.0, 0.1], **options)
        return bool(seen)

    erf, relu = ov.committee_machine(2, 2, eta=0.3), ov.committee_machine(1, 1, eta=0.3, activation=ov.relu)
    wide = ov.committee_machine(7, 6, eta=0.1)
    assert (
        taken(erf) and not taken(erf, b=2 * SIMD_WIDTH - 1) and not taken(erf, simd=False) and taken(erf, 3, simd=True)
    )
    assert not taken(relu) and not taken(wide, 64) and not taken(erf, stop=lambda alpha, state: 1.0)
    assert not taken(dataclasses.replace(erf, constraint="sphere"))
    for model, words in ((relu, "1 relu students"), (wide, "7 erf students, 6 erf teachers and 1 eigen")):
        with pytest.raises(ValueError, match=f"simd = True with {words}.*expected .*Leave it out"):
            taken(model, simd=True)
    with pytest.raises(ValueError, match="simd = 2"):
        taken(erf, simd=2)


def test_the_method_of_each_is_that_of_solve():
    """Rates of relaxation come from one loop over closures, without a System for each; half of them are stiff."""
    models, starts = problems(8, K=2, M=3, L=2, weight_decay=0.05)
    one = [fastest_rate(System(*pair)) for pair in zip(models, starts, strict=True)]
    h = fastest_rates(models, starts, np.array([start.S for start in starts]))
    batch = [x * y.eta + 2 * (y.eta * y.weight_decay[0] + y.drift) for x, y in zip(h, models, strict=True)]
    np.testing.assert_allclose(batch, one, rtol=1e-13)
    times = [0.0, 250 * 1e-3**-0.2 / np.median(one)]  # where the costs of both methods are equal
    batch = ov.solve_many(models, starts, times, rtol=1e-3, simd=True)
    alone = [ov.solve(*pair, times, rtol=1e-3).method for pair in zip(models, starts, strict=True)]
    assert list(batch.method) == alone and sum("structured" in method.lower() for method in alone) == 4


def test_stops_of_python_progress_and_memory_are_those_of_the_other_way(capsys):
    """A callable ``stop`` takes its trajectories out of the lanes; chunks are counted, room is refused, both ways."""
    models, starts = problems(6, K=2, M=1, L=2)
    goal = float(np.median(ov.solve_many(models, starts, ALPHA, simd=False).Q[:, 3, 0, 0]))
    ways = [
        ov.solve_many(
            models, starts, ALPHA, simd=simd, threads=3, stop=lambda alpha, x: x.Q[0, 0] - goal, progress=True
        )
        for simd in (True, False)
    ]
    for x, y in zip(*((way.records, way.end, way.nfev) for way in ways), strict=True):
        assert np.array_equal(x, y, equal_nan=True)
    assert ways[0].message == ways[1].message and any("stop condition met" in said for said in ways[0].message)
    ov.solve_many(models, starts, ALPHA, simd=True, threads=3, progress=True)
    bars = capsys.readouterr().err.strip().split("\n")
    assert len(bars) == 3 and all("6/6 trajectories" in bar.split("\r")[-1] for bar in bars)
    for simd in (True, False):
        with pytest.raises(ValueError, match=r"6 trajectories of 7 records take 6.*e-06 GB; .* raise max_memory"):
            ov.solve_many(models, starts, ALPHA, simd=simd, threads=3, max_memory=1e3)


FRESH = """
import dataclasses, warnings, numpy as np, overlaps as ov
warnings.simplefilter("ignore", RuntimeWarning)
model = ov.committee_machine(2, 3, eta=0.3, eta_v=0.1)
models = [dataclasses.replace(model, noise=x) for x in np.linspace(0.0, 0.4, 9000)]
print("begun", flush=True)
batch = ov.solve_many(models, model.random_start(N=1200, rng=1), np.linspace(0.0, 2000.0, 6), threads=3, progress=True)
lost = ~batch.success
print(lost.sum(), np.isnan(batch.eps_g[lost]).all(), np.isfinite(batch.eps_g[~lost]).all(), {*batch.message})
"""


@pytest.mark.slow
def test_ctrl_c_in_a_fresh_process_keeps_what_the_bar_has_counted():
    """Chunks in three threads, with kernels from the disk: what is finished is kept, and the rest says so."""
    with subprocess.Popen(
        [sys.executable, "-c", FRESH], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:  # fmt: skip
        assert process.stdout.readline() == "begun\n"
        told = ""
        while not re.search(r"[1-9]\d*/9000", told):  # a first chunk is done
            told += process.stderr.read(1) or pytest.fail(f"ended before a chunk was done: {told}")
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    lost, silent, finite, messages = said.split(maxsplit=3)
    assert process.returncode == 0 and 0 < int(lost) < 9000 and silent == finite == "True"
    assert "interrupted before it was finished" in messages and "reached alpha = 2000" in messages


@pytest.mark.slow
def test_without_compilation_batches_go_one_by_one():
    """``simd=True`` asks for a shape, which is right; nothing is compiled, and digits are those of the other way."""
    code = """
import numpy as np, overlaps as ov
model = ov.committee_machine(2, 1, eta=0.3)
start = model.random_start(N=1200, rng=1)
one, other = (ov.solve_many([model] * 2, start, [0.0, 0.3], simd=simd) for simd in (True, False))
print(np.array_equal(one.records, other.records), one.success.all())
"""
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "True True\n"


def any_problems(rng, b=10):
    """A batch of any shape that lanes take, its output times and options: a third under a schedule, or to a level."""
    g, (K, M, L) = (ov.erf, ov.erf, ov.linear, ov.quadratic)[rng.integers(4)], rng.integers(1, [7, 7, 9]).tolist()
    while g is not ov.erf and L * K * (K + 2 * M + 1) // 2 > 128:
        L -= 1
    scheduled, stopped, trained, decays = rng.random(4) < [0.35, 0.35, 0.5, 0.5]
    fast = {"erf": 1.0, "linear": 0.5 / K, "quadratic": 0.08 / K}[g.name]
    learning = {
        "eta_v": 0.2 * fast * (trained or scheduled), "weight_decay": (0.05, 0.03) if decays or scheduled else 0.0,
    }  # fmt: skip
    models, starts = problems(b, K, M, L, g, rng.integers(10**6), fast, **learning)
    options = {"alpha": np.linspace(0.0, rng.choice([12.0, 40.0, 100.0]), 7), "method": "DOP853"}
    if scheduled:
        models = [dataclasses.replace(model, gradient_flow=False) for model in models]
        options |= CASES["schedule"][1]
    if stopped:  # no value that a curve has at an output time
        options["stop"] = 1.01 * float(np.nanmedian(ov.solve_many(models, starts, simd=False, **options).eps_g[:, 3]))
    return models, starts, options


def errors_against_tight(batch, tight):
    """Largest error of each trajectory, relative: of eps_g, of Q and R in units of the largest, of where it ended.

    eps_g is a sum of terms as large as at the start, of which the rounding is left out.
    """
    error = np.maximum(np.abs(batch.eps_g - tight.eps_g) - 1e-15 * tight.eps_g[:, :1], 0.0)
    errors = [np.nanmax(error / tight.eps_g, axis=1), np.abs(batch.end - tight.end) / tight.alpha[-1]]
    for x, y in ((batch.Q, tight.Q), (batch.R, tight.R)):
        size = np.nanmax(np.abs(y), axis=(1, 2, 3))
        errors.append(np.nanmax(np.abs(x - y), axis=(1, 2, 3)) / size)
    return np.array(errors)


def no_worse(batches, seed):
    """At rtol 1e-8, against 1e-12: the distribution of errors, and nearly each by itself.

    At the limit of stability rounding decides which steps are rejected, and 1e-11 of the errors.  A stop is located by
    steps of other lengths, a lane's single one and those of ``stop.Crossing``, which differ by a hundredth of rtol.
    """
    rng, found = np.random.default_rng(seed), []
    for _ in range(batches):
        models, starts, options = any_problems(rng)
        batch, one, tight = (
            ov.solve_many(models, starts, simd=simd, rtol=rtol, **options)
            for simd, rtol in ((True, 1e-8), (False, 1e-8), (False, 1e-12))
        )
        assert np.array_equal(batch.success, one.success) and worded(batch) == worded(one)
        assert np.array_equal(np.isnan(batch.eps_g), np.isnan(one.eps_g))
        found.append([errors_against_tight(batch, tight)[:, one.success] for batch in (batch, one)])
    batch, one = np.concatenate(found, axis=-1)
    assert batch.shape[1] >= 0.98 * 10 * batches
    mine, other = (np.quantile(errors, [0.5, 0.9, 1.0], axis=1) for errors in (batch, one))
    assert np.all(mine <= 1.01 * other + [2e-11, 1e-10, 2e-11, 2e-11])
    assert np.mean(batch <= 1.01 * one + 1e-10) >= 0.99


@pytest.mark.slow
def test_lanes_are_as_accurate_as_solve():
    no_worse(2, 2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*trajectories did not succeed:RuntimeWarning")  # some of the rates diverge
def test_lanes_are_as_accurate_as_solve_on_a_thousand_settings():
    no_worse(100, 3)


def test_rates_of_a_batch_are_those_of_solve_with_second_layers_of_their_own():
    """Neither second layer is one, and K = M: students and teachers cannot stand for each other."""
    model = ov.committee_machine(2, 2, eta=0.4, v=[0.7, -1.3], v_star=[1.6, 0.5])
    starts = [model.random_start(N=50, rng=i) for i in range(4)]
    one = [fastest_rate(System(model, start)) for start in starts]
    batch = fastest_rates([model] * 4, starts, np.array([start.S for start in starts]))
    np.testing.assert_allclose(0.4 * batch, one, rtol=1e-13)


def test_positivity_is_tested_with_the_slack_on_the_diagonal():
    """Every SIMD state on its own: lowest eigenvalues above and below minus the slack times the trace."""
    slack, rng = 1e-3, np.random.default_rng(3)
    frame = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    lowest = np.where(np.arange(SIMD_WIDTH) % 2, -0.5, -2.0) * slack * 1.9
    values = np.array([lowest, 0.6 - lowest, np.full(SIMD_WIDTH, 1.3)])  # with a trace of 1.9
    covariances = np.ascontiguousarray(np.einsum("ia,al,ja->ijl", frame, values, frame))
    sound = np.ones(SIMD_WIDTH)
    _simd.positive(covariances, slack, np.zeros_like(covariances), sound)
    assert np.array_equal(sound, (lowest > -slack * 1.9).astype(float))
