"""Pictures: every line is its own curve, every band its own quantiles."""

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib import pyplot as plt

import overlaps as ov
from overlaps.results import plotting
from overlaps.results.plotting.styles import LABELS, mark, resolved
from overlaps.results.plotting.units import partners_of

LINE = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5)
START = ov.State.from_overlaps(LINE, Q=[[1.0]], R=[[0.0]], T=[[1.0]])


def test_one_call_draws_labelled_axes_and_a_second_one_draws_on_top(results):
    theory, sim = results
    ax = theory.plot()
    assert len(ax) == 2 and all("alpha" in a.get_xlabel() and a.get_ylabel() for a in ax)
    lines = [len(a.lines) for a in ax]
    assert lines == [1, 3 + 4 + 2]  # Q upper triangle, R, and v because it is trained
    colors = [line.get_color() for line in ax[1].lines]
    assert sim.plot(ax=ax, marker="s") is ax
    assert [len(a.lines) for a in ax] == [2, 18]
    for a, b in zip(colors, [line.get_color() for line in ax[1].lines[9:]], strict=True):
        np.testing.assert_array_equal(a, b)  # markers in the colour of their lines
    assert len(ax[1].collections) == 9  # bands
    single = plt.figure().add_subplot()
    assert theory.plot(ax=single) is single and len(single.lines) == 1
    plt.close("all")


@pytest.fixture
def drawn():
    """Results with K != M, a trained second layer and runs whose quantiles are no mirror images of each other."""
    model = ov.committee_machine(2, 3, eta=1.0, eta_v=0.3, v=[0.5, 1.5], v_star=[1.0, 0.5, 2.0])
    start = ov.State.from_overlaps(
        model, Q=[[0.5, 0.1], [0.1, 0.3]], R=[[0.1, 0.2, 0.0], [0.05, -0.1, 0.3]], T=np.diag([1.0, 0.8, 0.6])
    )
    times = np.linspace(0, 3, 4)
    yield ov.solve(model, start, times), ov.simulate(model, N=50, alpha=times, rng=1, start=start, runs=5)
    plt.close("all")


def curves_of(result):
    """What has to be drawn, by its label."""
    Q, R, v = result.Q, result.R, result.v
    return (
        {f"$Q_{{{i + 1}{j + 1}}}$": Q[..., i, j] for i in range(2) for j in range(i, 2)}
        | {f"$R_{{{k + 1}{m + 1}}}$": R[..., k, m] for k in range(2) for m in range(3)}
        | {f"$v_{{{k + 1}}}$": v[..., k] for k in range(2)}
    )


def test_every_line_is_its_own_curve(drawn):
    """Student index before teacher index, each number as it is."""
    theory, sim = drawn
    axes = theory.plot()
    np.testing.assert_array_equal(axes[0].lines[0].get_xydata(), np.transpose([theory.alpha, theory.eps_g]))
    assert axes[0].lines[0].get_label().startswith("ODE") and "generalisation error" in axes[0].get_ylabel()
    assert [text.get_text() for text in axes[1].get_legend().get_texts()] == list(curves_of(theory))
    for line, (label, curve) in zip(axes[1].lines, curves_of(theory).items(), strict=True):
        assert line.get_label() == label
        np.testing.assert_array_equal(line.get_xydata(), np.transpose([theory.alpha, curve]))
    sim.plot(ax=axes)
    assert axes[0].lines[1].get_label() == "SGD, N = 50"
    runs = [sim.eps_g, *curves_of(sim).values()]
    for line, curve in zip([axes[0].lines[1], *axes[1].lines[11:]], runs, strict=True):
        np.testing.assert_allclose(line.get_xydata(), np.transpose([sim.alpha, curve.mean(axis=0)]), rtol=1e-14)


def test_bands_lie_between_their_quantiles(drawn):
    sim = drawn[1]
    axes = sim.plot()
    bands = [*axes[0].collections, *axes[1].collections]
    for band, curve in zip(bands, [sim.eps_g, *curves_of(sim).values()], strict=True):
        corners = band.get_paths()[0].vertices
        for i, alpha in enumerate(sim.alpha):
            heights = corners[corners[:, 0] == alpha, 1]
            ends = np.sort(curve[:, i])
            # five runs: the levels 0.16 and 0.84 lie 0.64 steps from the lowest and highest run
            low, high = ends[0] + 0.64 * (ends[1] - ends[0]), ends[-1] - 0.64 * (ends[-1] - ends[-2])
            assert heights.min() == pytest.approx(low, abs=1e-12) and heights.max() == pytest.approx(high, abs=1e-12)


def test_many_curves_share_one_label_for_each_family():
    model = ov.committee_machine(3, 4, eta=0.5)
    axes = ov.solve(model, model.random_start(N=100, rng=1), [0.0, 1.0]).plot()
    labels = [text.get_text() for text in axes[1].get_legend().get_texts()]
    own = [x for x in labels if x.startswith("$R_")]
    assert len(own) == 3 and set(labels) == {*own, "$Q_{11}$", "$Q_{22}$", "$Q_{33}$", "$Q_{kj}$", "$R$, others"}
    plt.close("all")


def test_each_student_has_a_hue_and_its_own_teacher():
    """The first student has learned the second teacher, the third the first, the second none: the rest is faint."""
    model = ov.committee_machine(3, 2, eta=0.2)
    R = [[0.05, -0.6], [0.02, 0.01], [0.5, 0.3]]
    start = ov.State.from_overlaps(model, Q=np.diag([0.7, 0.3, 0.9]) + 0.1, R=R, T=[[1.0, 0.2], [0.2, 2.0]])
    axes = ov.solve(model, start, [0.0, 0.01, 0.02]).plot()
    lines = {line.get_label(): line for line in axes[1].lines}
    faint = {label: lines[label].get_alpha() for label in lines if label.startswith("$R_")}
    assert faint == {"$R_{12}$": 1.0, "$R_{31}$": 1.0} | dict.fromkeys(
        ["$R_{11}$", "$R_{21}$", "$R_{22}$", "$R_{32}$"], 0.25
    )
    hues = [lines[f"$Q_{{{k}{k}}}$"].get_color() for k in (1, 2, 3)]
    assert len(set(hues)) == 3 and [lines[f"$R_{{{k}{j}}}$"].get_color() for k, j in ("12", "21", "31")] == hues
    assert all(lines[f"$Q_{{{k}{k}}}$"].get_linestyle() == "--" for k in (1, 2, 3))
    plt.close("all")


def test_partners_are_the_best_assignment_by_hand():
    """The largest angle alone would give both students the first teacher; lengths of students and teachers cancel."""
    model = ov.committee_machine(2, 2, eta=0.2)
    for lengths in ([1.0, 1.0], [3.0, 0.5]):
        cosines = np.array([[0.6, 0.5], [0.55, 0.1]])  # .25 + .3025 by exchange, .36 + .01 in order
        w, t = np.array(lengths), np.array([0.4, 2.0])
        start = ov.State.from_overlaps(model, Q=np.diag(w**2), R=cosines * np.outer(w, t), T=np.diag(t**2))
        assert partners_of(ov.solve(model, start, [0.0])) == {0: 1, 1: 0}


def test_many_units_are_summarised():
    """Above K M = 16: own curves, and the band between the smallest and the largest of the others."""
    model = ov.committee_machine(6, 4, eta=0.2)
    traj = ov.solve(model, model.random_start(N=200, rng=3), [0.0, 0.5, 2.0])
    ax = traj.plot()[1]
    partners = partners_of(traj)
    assert len(ax.lines) == 6 + 4 and len(set(partners.values())) == 4
    drawn = [line.get_ydata() for line in ax.lines]
    wanted = [traj.Q[:, k, k] for k in range(6)] + [traj.R[:, k, partners[k]] for k in range(6) if k in partners]
    np.testing.assert_array_equal(drawn, wanted)
    off = traj.Q[:, *np.triu_indices(6, 1)]
    free = np.full((6, 4), True)
    free[list(partners), list(partners.values())] = False
    for band, curves in zip(ax.collections, (off, traj.R[:, free]), strict=True):
        corners = band.get_paths()[0].vertices
        for alpha, row in zip(traj.alpha, curves, strict=True):
            heights = corners[corners[:, 0] == alpha, 1]
            assert heights.min() == row.min() and heights.max() == row.max()
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["$Q_{kk}$", "$Q_{kj}$", "$R$, own", "$R$, others"]
    plt.close("all")


def test_many_units_of_several_runs_are_summarised_by_their_means():
    model = ov.committee_machine(6, 4, eta=0.2)
    runs = ov.simulate(model, N=50, alpha=[0.0, 0.5, 2.0], rng=3, runs=3)
    (band,) = (x for x in runs.plot()[1].collections if x.get_label() == "$Q_{kj}$")
    curves, corners = runs.Q.mean(axis=0)[:, *np.triu_indices(6, 1)], band.get_paths()[0].vertices
    for alpha, row in zip(runs.alpha, curves, strict=True):
        heights = corners[corners[:, 0] == alpha, 1]
        np.testing.assert_allclose([heights.min(), heights.max()], [row.min(), row.max()], rtol=1e-14)
    plt.close("all")


def test_given_axes_are_labelled_and_scaled_and_what_was_set_stays(drawn):
    theory, sim = drawn
    decay = ov.solve(LINE, START, np.linspace(0, 20, 50))
    bare, labelled, limited, used = plt.figure().subplots(1, 4)
    decay.plot(ax=bare)
    assert bare.get_xlabel() == LABELS.time and "generalisation" in bare.get_ylabel() and bare.get_yscale() == "log"
    assert [text.get_text() for text in bare.get_legend().get_texts()] == ["ODE, N → ∞"]
    labelled.set(xlabel="time", ylabel="error")
    labelled.plot([0, 1], [0, 1], label="mine")
    mine = labelled.legend(title="kept")
    decay.plot(ax=labelled)
    assert (labelled.get_xlabel(), labelled.get_ylabel()) == ("time", "error") and labelled.get_legend() is mine
    assert labelled.get_yscale() == "linear"  # it held a line already
    limited.set_ylim(0, 2)
    decay.plot(ax=limited)
    assert limited.get_yscale() == "linear" and limited.get_ylim() == (0, 2)
    decay.plot(ax=used, xscale="log")
    assert used.get_xscale() == "log"
    with pytest.raises(ValueError, match="xscale = 'symlog'"):
        decay.plot(xscale="symlog")
    pair = plt.figure().subplots(1, 2)
    theory.plot(ax=pair)
    sim.plot(ax=pair)
    assert [text.get_text() for text in pair[1].get_legend().get_texts()] == list(curves_of(theory))  # named once
    assert [text.get_text() for text in pair[0].get_legend().get_texts()] == ["ODE, N → ∞", "SGD, N = 50"]
    plt.close("all")


def test_plateaus_are_marked_on_request():
    model = ov.committee_machine(2, 2, eta=0.5)
    traj = ov.solve(model, model.random_start(N=800, rng=1), (0, 250))
    (plateau,) = traj.plateaus()
    ax = plt.figure().add_subplot()
    traj.plot(ax=ax, plateaus=True)
    np.testing.assert_array_equal(ax.lines[1].get_xydata(), np.transpose([plateau.alpha, [plateau.height] * 2]))
    assert [(text.get_text(), text.get_fontsize()) for text in ax.texts] == [("1 unstable direction", 7.0)]
    assert len(ax.get_legend().get_texts()) == 1
    with pytest.raises(ValueError, match="plateaus = 'yes'"):
        traj.plot(plateaus="yes")
    plt.close("all")


def test_compared_solutions_have_their_plateaus_marked_on_request():
    models = [ov.committee_machine(2, 2, eta=eta) for eta in (0.5, 0.8)]
    curves = [ov.solve(model, model.random_start(N=800, rng=1), (0, 250)) for model in models]
    runs = ov.simulate(models[0], N=800, alpha=[0, 100], rng=1, runs=2, start=curves[0][0])
    ax = plt.figure().add_subplot()
    ov.compare(runs, *curves, ax=ax, plateaus=True)
    expected = [place.height for curve in curves for place in curve.plateaus()]
    assert len(expected) == 2 and [line.get_ydata()[0] for line in ax.lines if line.get_linewidth() == 0.8] == expected
    with pytest.raises(ValueError, match="plateaus = 1"):
        ov.compare(*curves, plateaus=1)
    plt.close("all")


@pytest.mark.slow
def test_error_bars_are_those_of_a_variance(drawn):
    model, start = drawn[1].model, drawn[1].start(0)
    sims = [ov.simulate(model, N=N, alpha=[0, 2], rng=N, start=start, runs=runs) for N, runs in ((90, 3), (30, 6))]
    ax = plotting.fluctuations(sims)
    assert [container.get_label() for container in ax.containers] == list(curves_of(drawn[0]))
    for container, one, other in zip(ax.containers, *(curves_of(sim).values() for sim in sims), strict=True):
        line, _, (bars,) = container.lines
        variances = [30 * other[:, -1].var(ddof=1), 90 * one[:, -1].var(ddof=1)]
        np.testing.assert_allclose(line.get_xydata(), np.transpose([[30, 90], variances]), rtol=1e-12)
        lengths = [np.ptp(segment[:, 1]) for segment in bars.get_segments()]
        # a variance from n samples of a Gaussian has the relative standard deviation sqrt(2 / (n - 1))
        np.testing.assert_allclose(lengths, [2 * (2 / 5) ** 0.5 * variances[0], 2 * variances[1]], rtol=1e-12)


def test_log_axes_where_they_help():
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5)
    start = ov.State.from_overlaps(model, Q=[[1.0]], R=[[0.0]], T=[[1.0]])
    decay = ov.solve(model, start, np.linspace(0, 20, 50)).plot()
    assert decay[0].get_yscale() == "log" and decay[0].get_xscale() == "linear"
    early = ov.solve(model, start, np.logspace(-3, 1, 50)).plot()
    assert early[0].get_xscale() == "log"
    flat = ov.solve(model, start, np.linspace(0, 1, 50)).plot()
    assert flat[0].get_yscale() == "linear"
    plt.close("all")


def test_finite_size_plots():
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5, noise=0.5)
    start = ov.State.from_overlaps(model, Q=[[0.5]], R=[[0.2]], T=[[1.0]])
    sims = [ov.simulate(model, N=N, alpha=[0, 1, 2], rng=N, start=start, runs=20) for N in (400, 100)]
    theory = ov.solve(model, start, [0, 1, 2])
    ax = plotting.fluctuations(sims)
    N, scaled = ax.containers[0].lines[0].get_data()
    np.testing.assert_array_equal(N, [100, 400])  # sorted
    assert scaled[1] == pytest.approx(400 * sims[0].Q[:, -1, 0, 0].var(ddof=1))
    ax = plotting.approach(sims, theory)
    sizes, gaps = ax.lines[0].get_data()
    by_hand = np.concatenate([(sims[1].Q - theory.Q)[:, 1:].ravel(), (sims[1].R - theory.R)[:, 1:].ravel()])
    assert gaps[0] == pytest.approx(np.sqrt(np.mean(by_hand**2)))
    guide = ax.lines[1].get_ydata()
    assert guide[0] / guide[1] == pytest.approx(2.0)  # sqrt(400 / 100)
    with pytest.raises(ValueError, match="solve it on their alpha"):
        plotting.approach(sims, ov.solve(model, start, [0, 1.5]))
    with pytest.raises(ValueError, match="runs >= 2"):
        plotting.fluctuations([ov.simulate(model, N=100, alpha=[0, 1], rng=1)])
    plt.close("all")


def test_theory_fluctuations_and_runs_in_one_figure():
    """Each curve once, under its name, in the order given; matched as in the first result."""
    model = ov.committee_machine(2, 2, activation=ov.linear, eta=0.4, noise=0.3)
    start = ov.State.from_overlaps(
        model, Q=[[0.5, 0.1], [0.1, 0.3]], R=[[0.1, 0.3], [0.2, 0.05]], T=np.diag([1.0, 0.7])
    )
    theory = ov.solve(model, start, np.linspace(0, 2, 5))
    fluct = ov.fluctuations(theory, 300)
    runs = ov.simulate(model, N=300, alpha=theory.alpha, rng=1, runs=3, start=start)
    error, overlaps = ov.compare(theory, fluct, runs, labels=["equations", "expansion", "SGD"])
    curves = {line.get_label(): line.get_ydata() for line in error.lines}
    np.testing.assert_array_equal(curves["equations"], theory.eps_g)
    np.testing.assert_allclose(curves["SGD"], runs.eps_g.mean(axis=0), rtol=1e-14)
    assert {text.get_text() for text in error.get_legend().get_texts()} == {"equations", "expansion", "SGD"}
    means = [line.get_ydata() for line in error.lines if line.get_label() not in curves or line.get_linestyle() == "--"]
    np.testing.assert_array_equal(means, [fluct.mean("eps_g")])
    (band,) = [x for x in error.collections if x.get_label() == "expansion"]
    heights = band.get_paths()[0].vertices
    top = heights[heights[:, 0] == 2.0, 1].max()
    assert top == pytest.approx(fluct.mean("eps_g")[-1] + 2 * fluct.std("eps_g")[-1], rel=1e-12)
    assert len(overlaps.lines) == 3 * (3 + 4)
    assert [x.get_text() for x in overlaps.get_legend().get_texts()][-4:] == [f"$R_{{{x}}}$" for x in (11, 12, 21, 22)]
    plt.close("all")


def test_compared_results_have_names_of_their_own(drawn):
    theory, sim = drawn
    error, _ = ov.compare(theory, sim, theory)
    labels = [text.get_text() for text in error.get_legend().get_texts()]
    assert sorted(labels) == ["ODE, N → ∞ (1)", "ODE, N → ∞ (2)", "SGD, N = 50"]
    small = ov.solve(LINE, START, [0.0, 1.0])
    for given, options, message in (
        ([], {}, "without results"),
        ([theory, small], {}, r"results\[1\] has \(K, M\) = \(1, 1\)"),
        ([theory, 3.0], {}, r"results\[1\] is a float"),
        ([theory, sim], {"labels": ["one"]}, "expected 2 of them"),
    ):
        with pytest.raises(ValueError, match=message):
            ov.compare(*given, **options)
    plt.close("all")


def test_compared_solutions_have_equal_lines_of_their_own(drawn):
    """Hue and dash differ, width and opacity do not; the overlaps have the colours of their results."""
    theory, sim = drawn
    error, overlaps = ov.compare(theory, sim, *[theory] * 6)
    solutions = [line for line in error.lines if line.get_label().startswith("ODE")]
    assert len({(line.get_color(), str(line._dash_pattern)) for line in solutions}) == len(solutions) == 7
    assert len({line.get_linestyle() for line in solutions[:4]}) == 4
    assert {(line.get_linewidth(), line.get_alpha()) for line in solutions} == {(plt.rcParams["lines.linewidth"], None)}
    assert len(error.collections) == 1  # the quantiles of the runs
    colours = [line.get_color() for line in error.lines]
    assert len(overlaps.lines) == 8 * 11
    for i, colour in enumerate(colours):
        lines = overlaps.lines[11 * i : 11 * (i + 1)]
        assert {line.get_color() for line in lines} == {colour}
        if colour == error.lines[1].get_color():
            continue  # runs: markers
        assert [line.get_linestyle() for line in lines] == ["--"] * 3 + ["-"] * 6 + [":"] * 2
        assert [line.get_alpha() for line in lines[:3]] == [None, None, 0.25]  # Q_12 is faint
    legend = overlaps.get_legend()
    kinds = ["$Q_{kk}$", "$Q_{kj}$", "$R$, own", "$R$, others", "$v_k$"]
    assert [text.get_text() for text in legend.get_texts()] == kinds
    assert all(len(set(handle.get_color())) == 1 for handle in legend.legend_handles)  # grey
    one, beside = ov.compare(theory, sim)[1], theory.plot()[1]
    assert [line.get_color() for line in one.lines[:11]] == [line.get_color() for line in beside.lines]
    plt.close("all")


def test_curves_end_where_rounding_begins():
    """At the first error of the size of its floor, until it is far above; the axis keeps all times."""
    traj = ov.solve(LINE, START, np.linspace(0, 80, 41))
    shown = traj.plot()[0]
    seen = np.isfinite(shown.lines[0].get_ydata())
    last = int(np.argmin(seen)) - 1
    assert 10 < last < 30 and not seen[last + 1 :].any() and traj.eps_g[last + 1] <= traj.eps_floor[last + 1]
    np.testing.assert_array_equal(shown.lines[0].get_ydata()[: last + 1], traj.eps_g[: last + 1])
    assert shown.get_xlim()[1] > 80 and shown.get_ylim()[0] > 1e-16
    np.testing.assert_array_equal(ov.compare(traj, traj)[0].lines[1].get_ydata(), shown.lines[0].get_ydata())
    linear = traj.plot(yscale="linear")[0]
    assert linear.get_yscale() == "linear" and np.isfinite(linear.lines[0].get_ydata()).all()
    errors = np.array([2, 0.5, 9, 11, 5, 1, 9, 30.0])  # the floor is 1: hidden from 1 or below until above 10
    result = SimpleNamespace(is_ensemble=False, eps_floor=np.ones(8), eps_g=errors, alpha=np.arange(8.0))
    np.testing.assert_array_equal(resolved(result, True), [2, np.nan, np.nan, 11, 5, np.nan, np.nan, 30])
    plt.close("all")


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_scales_are_those_asked_for(drawn, scale):
    theory, sim = drawn
    batch = ov.solve_many([LINE] * 2, START, [0.0, 1.0])
    panels = [theory.plot(xscale=scale, yscale=scale)[0], ov.compare(theory, sim, xscale=scale, yscale=scale)[0]]
    for ax in (*panels, batch.plot(xscale=scale, yscale=scale)):
        assert (ax.get_xscale(), ax.get_yscale()) == (scale, scale)
    with pytest.raises(ValueError, match="yscale = 'symlog'; expected 'linear' or 'log'"):
        theory.plot(yscale="symlog")
    plt.close("all")


@pytest.mark.parametrize("begin, end, sides", [(10, 20, ("left", "bottom")), (70, 90, ("right", "top"))])
def test_names_of_plateaus_keep_clear_of_the_curve(begin, end, sides):
    """Above the line on the left, below it on the right; several directions, one, and unknown rates."""
    ax = plt.figure().add_subplot()
    ax.plot([0, 100], [1, 0])
    for growing, height in ((4, 0.2), (1, 0.5), (-1, 0.8)):
        mark(ax, SimpleNamespace(alpha=(begin, end), height=height, growing=growing))
    assert [text.get_text() for text in ax.texts] == ["4 unstable directions", "1 unstable direction", "rates unknown"]
    for text in ax.texts:
        assert (text.get_ha(), text.get_va()) == sides and text.xy[0] == (begin if sides[0] == "left" else end)
    plt.close("all")


def test_names_of_plateaus_keep_clear_of_each_other():
    """The second lies on the other side of the line, the third is left out."""
    ax = plt.figure().add_subplot()
    ax.plot([0, 100], [1, 0])
    for growing in (1, 2, 3):
        mark(ax, SimpleNamespace(alpha=(30, 60), height=0.5, growing=growing))
    assert [(text.get_text(), text.get_ha()) for text in ax.texts] == [
        ("1 unstable direction", "left"),
        ("2 unstable directions", "right"),
    ]
    assert len(ax.lines) == 4
    plt.close("all")


def test_outliers_of_a_path_are_red_where_they_are_negative():
    model = ov.committee_machine(2, 2, eta=0.7, gradient_flow=True)
    path = ov.hessian(model, ov.solve(model, model.random_start(N=1000, rng=1), np.linspace(0, 70, 8)))
    lines = path.plot().lines
    assert len(lines) == 2 * path.outliers.shape[1] and np.any(path.outliers < 0) and np.any(path.outliers > 0)
    for curve, line, red in zip(path.outliers.T, lines[::2], lines[1::2], strict=True):
        np.testing.assert_array_equal(line.get_ydata(), curve)
        np.testing.assert_array_equal(red.get_ydata(), np.where(curve < 0, curve, np.nan))
        assert (line.get_color(), red.get_color()) == ("C0", "C3")
    plt.close("all")
