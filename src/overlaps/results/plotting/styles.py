"""Style of figures: sizes, colours, axes and legends, and settings for papers and slides."""

from functools import cache
from importlib import resources
from typing import NamedTuple

import numpy as np

from ..._base import check


class Labels(NamedTuple):
    """Labels of axes."""

    error: str = r"generalisation error $\epsilon_g$"
    time: str = r"learning time $\alpha$ = steps / $N$"


class Layout(NamedTuple):
    """When axes are logarithmic, curves end, and panels are stacked."""

    log_ratio: float = 30.0  # ratio of the largest to the smallest positive number above which an axis is logarithmic
    resolved_ratio: float = 10.0  # a curve that fell to its floor is drawn again above this many floors
    stacked_below: float = 5.0  # width of a figure in inches below which its panels are stacked vertically


LABELS, LAYOUT = Labels(), Layout()


class Style(dict):
    """Settings of matplotlib for a ``with`` statement; ``plt.style.use`` accepts them, too."""

    def __init__(self, settings):
        super().__init__(settings)
        self._contexts = []

    def __enter__(self):
        from matplotlib import rc_context

        self._contexts.append(rc_context(self))
        self._contexts[-1].__enter__()
        return self

    def __exit__(self, *error):
        self._contexts.pop().__exit__(*error)


def style(width: str = "column", *, dark: bool = False) -> Style:
    """Return a style of matplotlib for figures of one or two columns, on white paper or on dark slides.

    Figures of results made with it have its width (the panels of one column are stacked vertically) and letters of 8
    points. The colour-blind can distinguish all colours, also those of the user's lines. The same styles go by name:
    ``plt.style.use("overlaps.column")``, ``"overlaps.page"``, ``["overlaps.page", "overlaps.dark"]``.

    Parameters
    ----------
    width : {"column", "page"}
        3.4 inches (one column of a journal) or 7 inches (two columns).
    dark : bool
        Whether the figure is light on dark.

    Returns
    -------
    Style
        A dictionary of settings, for a ``with`` statement, ``plt.style.use``, ``plt.style.context`` or
        ``plt.rcParams.update``.

    Raises
    ------
    ValueError
        The width is unknown.

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
    width = check.choice("width", width, ("column", "page"))
    return Style(_settings(width) | (_settings("dark") if check.flag("dark", dark) else {}))


@cache
def _settings(name):
    """Return the settings of a style file, which ``plt.style.use("overlaps.<name>")`` reads as well."""
    from matplotlib import rc_params_from_file

    path = resources.files("overlaps") / f"{name}.mplstyle"
    return dict(rc_params_from_file(str(path), use_default_template=False))


def hues(ax):
    """Return the colours of the students, repeated cyclically, for light or dark axes."""
    return _settings("dark" if _is_dark(ax) else "column")["axes.prop_cycle"].by_key()["color"]


def faint_opacity(ax):
    """Return the opacity of faint curves and bands, larger on a dark background."""
    return 0.45 if _is_dark(ax) else 0.25


def _is_dark(ax):
    return np.mean(_ink(ax)) > 0.5


def grey(ax, strength=0.35):
    """Return a grey: this fraction of the colour of the text, mixed with black or white for the background."""
    ink = _ink(ax)
    return tuple(strength * ink + (1 - strength) * np.round(1 - np.mean(ink)))


def _ink(ax):
    """Return the colour of the text (3,)."""
    from matplotlib.colors import to_rgb

    return np.array(to_rgb(ax.yaxis.label.get_color()))


def new_axes(figure, rows=1, columns=1, **options):
    """Return new Axes with a grid, in an array."""
    axes = np.ravel(figure.subplots(rows, columns, **options))
    for ax in axes:
        ax.grid(alpha=0.25)
    return axes


def single_axes(ax):
    """Return the given Axes, or the Axes of a new figure."""
    from matplotlib import pyplot as plt

    return new_axes(plt.figure(figsize=figure_size(5.5, 4.0), layout="constrained"))[0] if ax is None else ax


def pair_of_axes(ax):
    """Return the given axes, or a new pair, unchanged and as an array."""
    from matplotlib import pyplot as plt

    if ax is None:
        width, height = figure_size(10.0, 4.0)
        stacked = width < LAYOUT.stacked_below
        shape, height = ((2, 1), height + 2.0) if stacked else ((1, 2), height)
        ax = new_axes(plt.figure(figsize=(width, height), layout="constrained"), *shape, sharex=stacked)
        ax[0].xaxis.label.set_visible(not stacked)
    axes = np.array(ax, dtype=object, ndmin=1)
    if not axes.size or not all(hasattr(a, "plot") for a in axes):
        raise check.refused("ax", ax, "matplotlib Axes, or a pair of them such as plt.subplots(1, 2)[1].")
    return ax, axes


def figure_size(width, height):
    """Return the size of a new figure in inches: that of the user's style if it sets one, or the given size."""
    from matplotlib import rcParams, rcParamsDefault

    chosen = rcParams["figure.figsize"]
    return (width, height) if chosen == rcParamsDefault["figure.figsize"] else tuple(chosen)


def mark(ax, plateau, text=True):
    """Draw a line at the height of a plateau, from its begin to its end, with its number of unstable directions."""
    colour = grey(ax, 0.7)
    ax.plot(plateau.alpha, [plateau.height] * 2, color=colour, linewidth=0.8)
    label = f"{plateau.growing} unstable direction{'s' * (plateau.growing != 1)}"
    label = "rates unknown" if plateau.growing < 0 else label
    # a falling curve comes from above on the left and leaves to below on the right
    sides = [(plateau.alpha[0], (2, 3), "left", "bottom"), (plateau.alpha[1], (-2, -3), "right", "top")]
    ax.autoscale_view()
    middle = (ax.transData - ax.transAxes).transform([(x, plateau.height) for x in plateau.alpha])[:, 0].mean()
    others = [other.get_window_extent() for other in ax.texts]
    for x, xytext, ha, va in (sides if middle < 0.5 else sides[::-1]) if text else ():
        options = {"textcoords": "offset points", "fontsize": 7, "color": colour}
        note = ax.annotate(label, (x, plateau.height), xytext, ha=ha, va=va, **options)
        box = note.get_window_extent()
        if ax.bbox.containsx(box.x0) and ax.bbox.containsx(box.x1) and not box.count_overlaps(others):
            break
        note.remove()  # if it collides on both sides, the line alone remains


def resolved(result, log):
    """Return eps_g; for a solution on a logarithmic axis nan where it is rounding.

    A curve that has fallen to its ``eps_floor`` is shown again when it exceeds the floor by a factor.
    """
    if not log or result.is_ensemble:
        return result.eps_g
    eps_g, floor, index = result.eps_g, result.eps_floor, np.arange(result.alpha.size)
    fell, rose = (
        np.maximum.accumulate(np.where(there, index, -1))
        for there in (eps_g <= floor, eps_g > LAYOUT.resolved_ratio * floor)
    )
    return np.where(fell > rose, np.nan, eps_g)


def axis(ax, alpha, curve, label, xscale=None, yscale=None):
    """Set the given scales, those of empty axes that the user has not scaled, and missing labels."""
    for name, scale in (("x", xscale), ("y", yscale)):
        if scale is not None:
            ax.set(**{f"{name}scale": check.choice(f"{name}scale", scale, ("linear", "log"))})
    positive = alpha[alpha > 0]
    # several decades of recorded times, most of them early: steps of the solver, or logarithmic times
    early = positive.size > 2 and positive[-1] / np.median(positive) > LAYOUT.log_ratio
    if xscale is None and early and _is_unset(ax, "x"):
        ax.set_xscale("log")
    if yscale is None and curve is not None:
        visible = curve[curve > 0]
        if visible.size and visible.max() / visible.min() > LAYOUT.log_ratio and _is_unset(ax, "y"):
            ax.set_yscale("log")
    if not ax.get_xlabel():
        ax.set_xlabel(LABELS.time)
    if not ax.get_ylabel():
        ax.set_ylabel(label)


def _is_unset(ax, name):
    """Whether an axis is as matplotlib created it: linear, without limits and without data."""
    drawn = any(x.has_data() for x in getattr(ax, f"get_shared_{name}_axes")().get_siblings(ax))
    return not drawn and getattr(ax, f"get_{name}scale")() == "linear" and getattr(ax, f"get_autoscale{name}_on")()


def legend(ax, **style):
    """Draw the legend of all labelled curves and return it; it replaces an earlier one of this package."""
    old, group = ax.get_legend(), "overlaps"  # a legend without this group id is the user's, and is kept
    if (old is None or old.get_gid() == group) and ax.get_legend_handles_labels()[1]:
        new = ax.legend(**{"frameon": False} | style)
        new.set_gid(group)
        return new
    return None
