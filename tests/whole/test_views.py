"""What a notebook or a terminal shows of a record: numbers where they are few, a curve, nothing that breaks a page."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

import overlaps as ov
from overlaps._base import html

MODEL = ov.committee_machine(2, 1, eta=0.5, noise=0.1, v=[1.0, 0.5])
START = ov.State.from_overlaps(MODEL, Q=[[0.5, 0.125], [0.125, 0.4]], R=[[0.2], [1 / 3]], T=[[1.5]])
SINE = ov.Activation.from_function(np.sin, np.cos, name="<b>")


class Tags(HTMLParser):
    """Opened and closed tags have to match."""

    def __init__(self, text):
        super().__init__()
        self.open, self.data = [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        if tag != "br":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.data.append(data)


def test_a_state_shows_its_order_parameters_where_they_are_few():
    assert repr(START) == ("State(L=1, K=2, M=1, Q=[[0.5, 0.125], [0.125, 0.4]], R=[[0.2], [0.3333]], T=[[1.5]])")
    assert "alpha=2, Q=" in repr(ov.solve(MODEL, START, [2.0])[-1])
    wide = ov.committee_machine(5, 5, eta=0.5)
    many = wide.random_start(N=100, rng=1)
    assert repr(many) == "State(L=1, K=5, M=5)" and "5 x 5" in many._repr_html_()


@pytest.mark.parametrize(
    ("make", "shown"),
    [
        (lambda: MODEL, ["2 erf units, second layer [1, 0.5]", "isotropic()", "0.1"]),
        (lambda: START, ["0.125", "0.3333", "1.5"]),
        (lambda: ov.solve(MODEL, START, (0, 2)), ["reached alpha = 2.", "0 … 2", "DOP853"]),
        (lambda: ov.simulate(MODEL, N=20, alpha=[0, 1], rng=1, runs=3, start=START), ["3 at N = 20", "reduced"]),
        (lambda: ov.committee_machine(2, 1, activation=SINE, eta=1.0), ["<b> units"]),
    ],
)
def test_notebooks_show_a_table(make, shown):
    said = " ".join(Tags(make()._repr_html_()).data)
    for text in shown:
        assert text in said


def test_the_curve_is_that_of_the_record():
    """Heights on the picture are logarithms of the values, on one straight line."""
    y = np.geomspace(1.0, 1e-6, 50)
    picture = html.curve(np.arange(50), y)
    points = np.array([p.split(",") for p in re.search("points='(.*?)'", picture)[1].split()], float)
    assert np.abs(np.diff(points, axis=0, n=2)).max() < 0.21  # coordinates are rounded to 0.1 px
    assert points[0, 1] == 2 and points[-1, 1] == html.VIEW.curve_height - 2  # y grows downwards
    assert "1 → 1e-06" in picture
    assert html.curve([0, 1], [np.nan, 1.0]) == "no curve"
    Tags(html.curve([0.0, 1.0], [0.0, 0.0]))  # a constant, and nothing to take the logarithm of
