"""Styles: sizes, colours that differ for every eye and from their background, and pictures that follow."""

import matplotlib
import numpy as np
import pytest
from helpers import few
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb

import overlaps as ov
from overlaps.results.plotting import styles

MODEL = ov.committee_machine(2, 2, eta=0.5)
TRAJ = ov.solve(MODEL, MODEL.random_start(N=800, rng=1), (0, 250))
# what dichromats see, in linear rgb: Machado, Oliveira and Fernandes (2009), IEEE TVCG 15, 1291, severity 1
EYES = {
    "trichromat": np.eye(3),
    "protanope": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranope": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanope": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]])


def linear(colour):
    c = np.array(to_rgb(colour))
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIELAB at daylight, where 2.3 is a just noticeable difference."""
    x = XYZ @ np.clip(rgb, 0, 1) / [0.95047, 1, 1.08883]
    f = np.where(x > 0.008856, np.cbrt(x), 7.787 * x + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(one, other):
    """That of the Web Content Accessibility Guidelines, 1 to 21."""
    low, high = sorted(XYZ[1] @ linear(c) for c in (one, other))
    return (high + 0.05) / (low + 0.05)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("eye", EYES)
def test_every_eye_tells_the_colours_apart(eye, dark):
    """Six just noticeable differences at least, as far as those of Okabe and Ito's own set are for tritanopes."""
    with ov.style(dark=dark):
        colours = [entry["color"] for entry in plt.rcParams["axes.prop_cycle"]]
        paper, ink = plt.rcParams["axes.facecolor"], plt.rcParams["text.color"]
    seen = [lab(np.array(EYES[eye]) @ linear(c)) for c in colours]
    gaps = [np.linalg.norm(a - b) for i, a in enumerate(seen) for b in seen[:i]]
    assert len(set(colours)) == 8 and min(gaps) > 6 * 2.3
    # graphics ask for 3; two of Okabe and Ito's have 2.2 on white
    assert min(contrast(c, paper) for c in colours) > (4 if dark else 2.2) and contrast(ink, paper) > 15


def test_pictures_take_their_size_from_the_style():
    sizes = {}
    for width in ("column", "page"):
        with ov.style(width):
            axes = TRAJ.plot()
            sizes[width] = axes[0].figure.get_size_inches().tolist()
            assert plt.subplots()[0].get_size_inches()[0] == sizes[width][0]
            boxes = [panel.get_position() for panel in axes]
            stacked = boxes[0].y0 > boxes[1].y0
            assert stacked == (width == "column") and stacked != (boxes[0].x0 < boxes[1].x0)
            assert ov.solve_many([MODEL] * 2, TRAJ[0], [0.0, 1.0]).plot().figure.get_size_inches()[0] < 7.1
    assert sizes == {"column": [3.4, 4.4], "page": [7.0, 2.8]}
    assert TRAJ.plot()[0].figure.get_size_inches().tolist() == [10, 4]


def test_a_style_holds_inside_and_is_taken_by_matplotlib():
    style, before = ov.style("page", dark=True), dict(matplotlib.rcParams)
    with style, ov.style("column"):
        assert plt.rcParams["figure.figsize"] == [3.4, 2.4]
        with style, style:  # entered twice
            assert plt.rcParams["axes.facecolor"] == "#111111"
        assert plt.rcParams["figure.figsize"] == [3.4, 2.4]
    with plt.style.context(style):
        assert plt.rcParams["figure.figsize"] == [7.0, 2.8]
    assert dict(matplotlib.rcParams) == before
    with pytest.raises(ValueError, match="width = 'columns'"):
        ov.style("columns")
    with pytest.raises(ValueError, match="dark"):
        ov.style(dark="yes")


@pytest.mark.parametrize("width", ["column", "page"])
def test_styles_go_by_name(width):
    """Matplotlib finds the files of an installed package; dark replaces colours only."""
    for names, options in (([f"overlaps.{width}"], {}), ([f"overlaps.{width}", "overlaps.dark"], {"dark": True})):
        with plt.style.context("default"):
            plt.style.use(names)
            by_name = dict(plt.rcParams)
        with plt.style.context("default"), ov.style(width, **options):
            assert dict(plt.rcParams) == by_name
    assert set(ov.style(width, dark=True)) == set(ov.style(width))
    column, page = ov.style("column"), ov.style("page")
    assert {key for key in page if page[key] != column[key]} == {"figure.figsize"} and set(page) == set(column)


def test_everything_shows_on_a_dark_background():
    """Every line and every text differs from the background."""
    with ov.style(dark=True):
        early = ov.solve(MODEL, TRAJ[0], [0.0, 5.0, 10.0])
        runs = ov.simulate(MODEL, N=100, alpha=early.alpha, rng=1, runs=3, start=TRAJ[0])
        axes = [*TRAJ.plot(plateaus=True), *ov.compare(early, ov.fluctuations(early, 500), runs)]
        for ax in axes:
            texts = [ax.xaxis.label, *ax.texts, *ax.get_legend().get_texts()]
            for colour in [line.get_color() for line in ax.lines] + [text.get_color() for text in texts]:
                assert contrast(colour, ax.get_facecolor()) > 2, colour
    for dark, panels in ((True, axes), (False, [plt.figure().add_subplot()])):
        cycle = ov.style(dark=dark)["axes.prop_cycle"].by_key()["color"]
        assert [styles.hues(ax) for ax in panels] == [cycle] * len(panels)


def test_plateaus_of_batches_and_stages_are_marked():
    other = ov.committee_machine(2, 2, eta=0.5, v_star=[1.5, 0.5])
    stages = ov.Stages([MODEL, other], until=[250.0, 500.0])
    staged = ov.solve(stages, TRAJ[0], (0, 500))
    named = staged.plateaus()
    first = TRAJ.plateaus()[0]
    assert named[0].height == pytest.approx(first.height, rel=1e-8) and named[0].alpha[1] < 250
    ax = staged.plot(plateaus=True)[0]
    marks = [line.get_ydata()[0] for line in ax.lines if len(line.get_ydata()) == 2 and line.get_linewidth() == 0.8]
    assert marks == [plateau.height for plateau in named]
    batch = ov.solve_many([MODEL] * 2, TRAJ[0], np.linspace(0, 250, 26))
    ax = batch.plot(plateaus=True, xscale="log")
    assert ax.get_xscale() == "log" and [line.get_ydata()[0] for line in ax.lines] == pytest.approx([first.height] * 2)
    assert [text.get_text() for text in ax.texts] == ["1 unstable direction"] * 2


@few("K", [4, 1, 2, 3], quick=1)
@pytest.mark.parametrize("style", [{}, ov.style("column"), ov.style("page", dark=True)], ids=["own", "column", "page"])
def test_legends_of_overlaps_cover_no_curve(K, style):
    """Of students that leave their plateau in turn, whose curves fill the panel from edge to edge; runs beside them."""
    model = ov.committee_machine(K, K, eta=0.3)
    start = model.random_start(N=1000, rng=1)
    traj = ov.solve(model, start, np.linspace(0, 600, 61))
    runs = ov.simulate(model, N=100, alpha=[0.0, 20.0, 40.0], rng=1, start=start)
    with plt.rc_context(style):
        one, pair = traj.plot()[1], traj.plot()
        runs.plot(ax=pair)
    for ax in (one, pair[1]):
        ax.figure.draw_without_rendering()
        box = ax.get_legend().get_window_extent()
        assert [line for line in ax.lines if _crosses(line, box)] == []
        low, high = ax.get_ylim()
        drawn = np.concatenate([line.get_ydata() for line in ax.lines])
        assert np.ptp(drawn) > 0.6 * (high - low)  # most of the height is the curves'
    one.set_ylim(0, 1)
    runs.plot(ax=[pair[0], one])
    assert one.get_ylim() == (0, 1)


def test_runs_that_reached_no_record_are_drawn():
    """All is nan: there is nothing that a legend could cover."""
    model = ov.committee_machine(2, 2, activation=ov.relu, eta=4.0)
    start = ov.State.from_overlaps(model, Q=1.3 * np.eye(2), R=0.2 * np.eye(2), T=np.eye(2))
    with pytest.warns(RuntimeWarning, match="2 diverged"):
        runs = ov.simulate(model, N=100, alpha=[50.0, 100.0], runs=2, rng=1, start=start)
    assert np.all(np.isnan(runs.Q)) and runs.plot()[1].get_legend() is not None


def _crosses(line, box):
    return line.get_path().transformed(line.get_transform()).intersects_bbox(box, filled=False)
