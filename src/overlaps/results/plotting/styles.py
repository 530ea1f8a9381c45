"""How pictures look: sizes, hues, axes and legends, and a style for papers and slides."""

import numpy as np

from ..._base import check

LOG_RANGE = 30.0  # a positive curve that spans more than this factor is drawn on a log axis
NARROW = 5.0  # inches, below which the two panels of a picture stand one above the other
OURS = "overlaps"  # mark of a legend that a later call replaces; one without it is the user's
ERROR = r"generalisation error $\epsilon_g$"
TIME = r"learning time $\alpha$ = steps / $N$"
# one for each student, then again: Okabe and Ito (2008), told apart by the colour-blind, their yellow in wine on white
ON_LIGHT = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#882255"
ON_DARK = "#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#5D6BD8", "#FFFFFF", "#D55E00"
SIZES = {"column": (3.4, 2.4), "page": (7.0, 2.8)}  # inches: one column of a journal, and both
WRITTEN = "text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"


class Style(dict):
    """Settings of matplotlib that hold inside a ``with`` statement; ``plt.style.use`` takes them, too."""

    def __init__(self, settings):
        super().__init__(settings)
        self._inside = []

    def __enter__(self):
        from matplotlib import rc_context

        self._inside.append(rc_context(self))
        self._inside[-1].__enter__()
        return self

    def __exit__(self, *error):
        self._inside.pop().__exit__(*error)


def style(width: str = "column", *, dark: bool = False) -> Style:
    """Make a style of matplotlib for pictures of one column or of both, on white paper or on dark slides.

    Pictures of results that are made in it have its width (the panels of one column stand one above the other) and
    letters of 8 points; the colour-blind tell all colours apart, also on users' own lines.

    Parameters
    ----------
    width : {"column", "page"}
        3.4 inches, one column of a journal, or 7 inches, both.
    dark : bool
        Light on dark.

    Returns
    -------
    Style
        A dictionary of settings, for a ``with`` statement, ``plt.style.use``, ``plt.style.context`` or
        ``plt.rcParams.update``.

    Raises
    ------
    ValueError
        Another width.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import overlaps as ov
    >>> model = ov.committee_machine(2, 2, eta=0.5)
    >>> with ov.style("column"):
    ...     axes = ov.solve(model, model.random_start(N=1000, rng=1), (0, 10)).plot()
    >>> axes[0].figure.get_size_inches()
    array([3.4, 4.4])
    >>> matplotlib.pyplot.close("all")
    """
    # test: tests/results/test_styles.py::test_pictures_take_their_size_from_the_style
    size = SIZES[check.choice("width", width, tuple(SIZES))]
    ink, paper, colours = ("#E6E6E6", "#111111", ON_DARK) if check.flag("dark", dark) else ("k", "w", ON_LIGHT)
    return Style({
        "figure.figsize": size, "figure.dpi": 150, "savefig.dpi": 300, "figure.constrained_layout.use": True,
        "font.size": 8, "axes.titlesize": 8, "axes.labelsize": 8, "xtick.labelsize": 7, "ytick.labelsize": 7,
        "legend.fontsize": 7, "legend.frameon": False, "lines.linewidth": 1.2, "lines.markersize": 3,
        "axes.linewidth": 0.6, "xtick.major.width": 0.6, "ytick.major.width": 0.6, "grid.linewidth": 0.5,
        "pdf.fonttype": 42, "axes.prop_cycle": f"cycler('color', {list(colours)})",
        "figure.facecolor": paper, "axes.facecolor": paper, **dict.fromkeys(WRITTEN, ink),
    })  # fmt: skip


def hues(ax):
    """Colours of the students, for light or dark axes."""
    return ON_DARK if np.mean(_ink(ax)) > 0.5 else ON_LIGHT


def faint(ax):
    """Opacity of what stands back: a dark background takes more of a hue."""
    return 0.45 if np.mean(_ink(ax)) > 0.5 else 0.25


def grey(ax, strength=0.35):
    """A mixture of the colour of the writing, with that share, and of the background that it is made for."""
    ink = _ink(ax)
    return tuple(strength * ink + (1 - strength) * np.round(1 - np.mean(ink)))


def _ink(ax):
    from matplotlib.colors import to_rgb

    return np.array(to_rgb(ax.yaxis.label.get_color()))


def single_axes(ax):
    """The Axes given, or the Axes of a new figure."""
    from matplotlib import pyplot as plt

    if ax is None:
        ax = plt.subplots(figsize=figure_size(5.5, 4.0), layout="constrained")[1]
        ax.grid(alpha=0.25)
    return ax


def pair_of_axes(ax):
    """The return value, and the Axes to draw on: those given, or a new pair."""
    from matplotlib import pyplot as plt

    if ax is None:
        width, height = figure_size(10.0, 4.0)
        stacked = width < NARROW
        shape, height = ((2, 1), height + 2.0) if stacked else ((1, 2), height)
        _, ax = plt.subplots(*shape, figsize=(width, height), sharex=stacked, layout="constrained")
        ax[0].xaxis.label.set_visible(not stacked)
        for panel in ax:
            panel.grid(alpha=0.25)
    axes = np.array(ax, dtype=object, ndmin=1)
    if not axes.size or not all(hasattr(a, "plot") for a in axes):
        raise check.refused("ax", ax, "matplotlib Axes, or a pair of them such as plt.subplots(1, 2)[1].")
    return ax, axes


def figure_size(width, height):
    """Inches of a new figure: those that the user's style sets, or ours."""
    from matplotlib import rcParams, rcParamsDefault

    chosen = rcParams["figure.figsize"]
    return (width, height) if chosen == rcParamsDefault["figure.figsize"] else tuple(chosen)


def mark(ax, plateau, text=True):
    """A thin line at the height of a plateau, from its begin to its end, with its number of growing modes."""
    colour = grey(ax, 0.7)
    ax.plot(plateau.alpha, [plateau.height] * 2, color=colour, linewidth=0.8)
    if text:
        words = "rates unknown" if plateau.growing < 0 else f"{plateau.growing} growing"
        # under the line, which a curve reaches from above
        place = {"xytext": (2, -3), "va": "top", "textcoords": "offset points", "fontsize": 7, "color": colour}
        ax.annotate(words, (plateau.alpha[0], plateau.height), **place)


def axis(ax, alpha, curve, label, xscale=None):
    """Scale axes that hold nothing yet and that nobody has scaled; label those without labels."""
    xscale = None if xscale is None else check.choice("xscale", xscale, ("linear", "log"))
    positive = alpha[alpha > 0]
    # several decades of recorded times, most of them early: the solver's own steps or a logspace
    early = positive.size > 2 and positive[-1] / np.median(positive) > LOG_RANGE
    if xscale or (early and _free(ax, "x")):
        ax.set_xscale(xscale or "log")
    if curve is not None:
        visible = curve[curve > 0]
        if visible.size and visible.max() / visible.min() > LOG_RANGE and _free(ax, "y"):
            ax.set_yscale("log")
    if not ax.get_xlabel():
        ax.set_xlabel(TIME)
    if not ax.get_ylabel():
        ax.set_ylabel(label)


def _free(ax, name):
    """Whether an axis is as matplotlib made it: linear, without limits, and nothing drawn along it."""
    drawn = any(x.has_data() for x in getattr(ax, f"get_shared_{name}_axes")().get_siblings(ax))
    return not drawn and getattr(ax, f"get_{name}scale")() == "linear" and getattr(ax, f"get_autoscale{name}_on")()


def legend(ax, **style):
    """The legend of what is drawn by now, in place of an earlier one of ours."""
    old = ax.get_legend()
    if (old is None or old.get_gid() == OURS) and ax.get_legend_handles_labels()[1]:
        ax.legend(**{"frameon": False} | style).set_gid(OURS)
