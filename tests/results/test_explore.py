"""Sliders: what is drawn is the result at the parameters they show, in windows and in notebooks."""

import builtins
import time
from io import BytesIO

import IPython
import numpy as np
import pytest
from helpers import few
from IPython.core.formatters import DisplayFormatter
from matplotlib import pyplot as plt
from matplotlib.backend_bases import MouseEvent
from PIL import Image

import overlaps as ov
from overlaps.results.plotting.panels import Panels

START = ov.State.from_overlaps(
    ov.committee_machine(2, 2, eta=1.0), Q=[[0.5, 0.1], [0.1, 0.4]], R=[[0.1, 0.0], [0.0, 0.05]], T=np.eye(2)
)


def curve(eta, noise=0.25, activation="erf"):
    return ov.solve(ov.committee_machine(2, 2, eta=eta, noise=noise, activation=activation), START, (0, 5))


RANGES = {"eta": (0.1, 2.0), "noise": (0, 1), "activation": ["erf", "linear"]}


class Kernel:
    """What IPython answers where a kernel runs."""

    kernel = None


@pytest.fixture(params=["window", "notebook"])
def place(request, monkeypatch):
    """Sliders of matplotlib, and those of a process in which a kernel runs."""
    if request.param == "notebook":
        monkeypatch.setattr(IPython, "get_ipython", Kernel)
        monkeypatch.setattr(IPython.display, "display", lambda *_: None)
    yield request.param
    plt.close("all")


def assert_drawn(view, **params):
    assert view.params == params and view.message == ""
    direct = curve(**params)
    np.testing.assert_array_equal(view.axes[0].lines[0].get_xydata(), np.transpose([direct.alpha, direct.eps_g]))
    np.testing.assert_array_equal(view.result.eps_g, direct.eps_g)


@few("place", ["notebook", "window"], indirect=True)
def test_what_is_set_is_drawn(place):
    view = ov.explore(curve, **RANGES)
    assert_drawn(view, eta=1.05, noise=0.25, activation="erf")  # the middle, the default, the first
    view.set(eta=1.2)
    assert_drawn(view, eta=1.2, noise=0.25, activation="erf")
    view.set(noise=0.7, activation="linear")
    assert_drawn(view, eta=1.2, noise=0.7, activation="linear")
    view.set(eta=2.5, activation="erf")  # beyond the slider, which stays at its end
    assert_drawn(view, eta=2.5, noise=0.7, activation="erf")
    control = view.controls["eta"]
    assert (control.val if place == "window" else control.value) == 2.0


def test_sliders_move_the_curve(place):
    figures = plt.get_fignums()
    view = ov.explore(curve, **RANGES)
    if place == "window":
        view.controls["eta"].set_val(0.4)
        view.controls["activation"].set_val(1)
        assert view.controls["activation"].valtext.get_text() == "linear"
    else:
        before = bytes(view._sliders._image.value)
        view.controls["eta"].value = 0.4
        view.controls["activation"].value = "linear"
        assert bytes(view._sliders._image.value) != before and before.startswith(b"\x89PNG")
        assert plt.get_fignums() == figures  # none that a cell would show once more
    assert_drawn(view, eta=0.4, noise=0.25, activation="linear")


@few("place", ["notebook", "window"], indirect=True)
def test_the_message_of_what_is_refused_stands_in_the_figure_and_the_last_curve_stays(place):
    view = ov.explore(curve, **RANGES)
    view.set(eta=0.3)
    drawn, kept = view.axes[0].lines[0].get_xydata().copy(), view.result
    for eta, words in ((-1.0, "eta = -1.0"), ("fast", "eta = 'fast'")):
        view.set(eta=eta)
        assert words in view.message and view.params["eta"] == eta and view.result is kept
        (note,) = [text.get_text() for text in view.axes[0].texts]
        assert " ".join(note.split()) == view.message
        np.testing.assert_array_equal(view.axes[0].lines[0].get_xydata(), drawn)
    view.set(eta=0.4)
    assert_drawn(view, eta=0.4, noise=0.25, activation="erf")
    assert [text.get_text() for text in view.axes[0].texts] == [""]


@few("place", ["notebook", "window"], indirect=True)
def test_a_result_that_failed_is_drawn_with_its_message(place):
    view = ov.explore(curve, **RANGES)
    with pytest.warns(RuntimeWarning, match="diverge"):
        view.set(eta=2.5, activation="linear")
    assert "the overlaps diverge" in view.message and not view.result.success
    np.testing.assert_array_equal(view.axes[0].lines[0].get_ydata(), view.result.eps_g)


@few("place", ["notebook", "window"], indirect=True)
def test_slow_results_wait_for_the_release(place):
    """A tenth of a second: a result of .15 s is computed once, after the drag, a fast one at every move."""
    calls = []

    def slow(eta, wait):
        calls.append(eta)
        time.sleep(wait)
        return curve(eta)

    view = ov.explore(slow, eta=(0.1, 2.0), wait=[0.15, 0.0])
    if place == "notebook":
        assert not view.controls["eta"].continuous_update
        view._sliders.draw(False)
        assert view.controls["eta"].continuous_update
        return
    slider, canvas = view.controls["eta"], view.figure.canvas
    canvas.draw()

    def mouse(name, share):
        x, y = slider.ax.transAxes.transform([share, 0.5])
        canvas.callbacks.process(name, MouseEvent(name, canvas, x, y, button=1))

    calls.clear()
    mouse("button_press_event", 0.5)
    for share in (0.6, 0.7, 0.8):
        mouse("motion_notify_event", share)
    assert calls == []
    mouse("button_release_event", 0.8)
    assert len(calls) == 1 and calls[0] == pytest.approx(0.1 + 0.8 * 1.9, abs=0.02) and view.params["eta"] == calls[0]


def whole(view):
    """The figure as a file: everything is drawn. Sliders follow below 400 pixels; they fill the width of the text."""
    view.figure.savefig(file := BytesIO(), format="raw", dpi=view.figure.dpi)
    return np.frombuffer(file.getvalue(), np.uint8).reshape(*view.figure.canvas.get_width_height()[::-1], 4).astype(int)


@few("place, panels", [("notebook", 2), ("notebook", 1), ("window", 1), ("window", 2)], indirect=["place"])
def test_moves_draw_what_a_whole_drawing_draws(place, panels):
    """Pixel by pixel: small moves on kept axes, one that changes an axis, a refusal, and a failure."""
    view = ov.explore(curve, panels=panels, eta=(0.1, 2.0), activation=["erf", "linear"])
    canvas, kept = view.figure.canvas, 0
    for params in ({"eta": 1.07}, {"eta": 1.06}, {"eta": -1.0}, {"eta": 0.2, "activation": "linear"}):
        still = view._sliders.panels._still
        view.set(**params)
        kept += view._sliders.panels._still is still
        drawn = np.array(canvas.buffer_rgba())
        # the layout of matplotlib moves axes by 1e-6 of the figure when it is repeated
        assert np.max(np.abs(whole(view)[:400] - drawn[:400])) <= 1, params
        canvas.draw()
    assert 2 <= kept <= 3  # some moves drew only the curves
    if place == "notebook":
        picture = np.asarray(Image.open(BytesIO(bytes(view._sliders._image.value))).convert("RGBA"))
        np.testing.assert_array_equal(picture, drawn)


def test_axes_stay_while_curves_fit_and_fill_half_of_them():
    ax = plt.figure().add_subplot()
    ax.margins(0)
    panels = Panels(ax.figure, (ax,))

    def limits(least, largest):
        panels.clear()
        ax.plot([0, 1], [least, largest])
        panels.draw()
        return ax.get_ylim()

    assert limits(0, 8) == (0, 8)
    assert limits(1, 7) == limits(2, 6.1) == (0, 8)
    assert limits(2, 5.9) == (2, 5.9)  # less than half
    assert limits(2, 6.9) == pytest.approx((2, 6.9 + 4.9 / 4))  # a quarter in excess where it was left
    ax.set_yscale("log")
    assert limits(1, 1e4) == pytest.approx((1 / 10, 1e5))  # decades: both ends were left
    assert limits(1, 10**3.1) == pytest.approx((1 / 10, 1e5))
    assert limits(1, 10**2.9) == pytest.approx((1, 10**2.9))
    ax.set_ylim(0.5, 2.0)
    assert limits(1e-3, 1e3) == (0.5, 2.0)  # those of the user
    plt.close("all")


@few("change", ["set_xlabel", "set_title", "set_xticks"])
def test_what_a_plot_of_the_user_changes_is_drawn(change):
    """Titles, labels and ticks that depend on a parameter."""

    class Result:
        def __init__(self, a):
            self.a = a

        def plot(self, ax):
            ax.plot([0, 1], [0, self.a])
            ax.errorbar([0, 1], [0, 1], 0.1, label="bars")
            ax.legend()
            getattr(ax, change)([0, self.a] if change == "set_xticks" else f"a = {self.a}")

    view = ov.explore(Result, a=[0.5, 0.6, 0.7])
    for a in (0.6, 0.7):
        view.set(a=a)
        drawn = np.array(view.figure.canvas.buffer_rgba())
        assert np.max(np.abs(whole(view)[:400] - drawn[:400])) <= 1
        assert len(view.axes[0].get_legend().get_texts()) == 1
    plt.close("all")


@few("place", ["notebook", "window"], indirect=True)
def test_the_error_is_logarithmic_and_nothing_stands_below_a_cell(place):
    view = ov.explore(curve, panels=2, **RANGES)
    assert [ax.get_yscale() for ax in view.axes] == ["log", "linear"]
    assert repr(view) == "View(eta=1.05, noise=0.25, activation='erf')"
    shown, _ = DisplayFormatter().format(view)
    assert shown == {}
    view.axes[0].set_yscale("linear")
    view.set(eta=0.5)
    assert view.axes[0].get_yscale() == "linear"  # as the user has chosen


@few("place", ["notebook", "window"], indirect=True)
def test_two_panels_show_the_overlaps(place):
    view = ov.explore(curve, panels=2, eta=(0.1, 2.0))
    assert len(view.axes) == 2 and len(view.axes[1].lines) == 7 and view.axes[1].get_ylabel() == "overlaps"


@few("place", ["notebook", "window"], indirect=True)
def test_bad_input(place, monkeypatch):
    for ranges, words in (
        ({}, "without parameters"), ({"eta": (2.0, 0.1)}, "eta = "), ({"eta": [0.1]}, "two choices"),
        ({"eta": 0.5}, "eta = 0.5"), ({"eta": (0.1, "2")}, "expected numbers"),
        ({"panels": 0, "eta": (1, 2)}, "panels"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            ov.explore(curve, **ranges)
    with pytest.raises(TypeError, match=r"f returned 0.5; expected a result with a method plot"):
        ov.explore(lambda eta: 0.5, eta=(0.1, 2.0))
    view = ov.explore(curve, **RANGES)
    with pytest.raises(ValueError, match="'rate'; expected one of 'eta', 'noise', 'activation'"):
        view.set(rate=0.5)
    with pytest.raises(RuntimeError):  # a fault of the function is not a refusal

        def broken(eta):
            raise RuntimeError

        ov.explore(broken, eta=(0.1, 2.0))


def test_a_notebook_without_ipywidgets_names_the_extra(monkeypatch):
    monkeypatch.setattr(IPython, "get_ipython", Kernel)
    there = builtins.__import__

    def missing(name, *rest):
        if name == "ipywidgets":
            raise ImportError(name)
        return there(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r'pip install "overlaps\[explore\]"'):
        ov.explore(curve, **RANGES)
