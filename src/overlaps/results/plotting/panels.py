"""Axes whose curves are replaced again and again: what stays is drawn once, and curves on a copy of it."""

from typing import NamedTuple

import numpy as np


class Limits(NamedTuple):
    """When the limits of an axis change, in fractions of their span on the scale of the axis."""

    overhang: float = 0.01  # what curves may exceed the limits that their first drawing had, margins included
    filled: float = 0.5  # below this fraction an axis fits closely again; larger: axes jump more often
    excess: float = 0.25  # beyond curves that have left an axis; halved: the next move leaves it again


LIMITS = Limits()


class Panels:
    """Axes of a figure that show one result after the other.

    Curves, texts and legends are ``animated``: matplotlib leaves them out of a drawing of the figure, after which its
    pixels are kept. As long as no axis changes, new curves are drawn on these pixels. To make this frequent, axes keep
    their limits while curves fit.

    Parameters
    ----------
    figure : Figure
        Its canvas should be able to copy pixels, as those of Agg are; otherwise the figure is always drawn whole.
    axes : tuple of Axes
        Axes of the results.
    others : tuple of Axes
        Axes of sliders, which move as well.
    """

    def __init__(self, figure, axes, others=()):
        self._figure, self._axes, self._others = figure, axes, others
        self._limits, self._still = [], None
        if figure.canvas.supports_blit:
            for artist in sum(map(_added, others), []):
                artist.set_animated(True)
            figure.canvas.mpl_connect("draw_event", self._keep)

    def clear(self):
        """Remove what plots have added; scales, labels and limits stay."""
        self._limits = [(ax.get_xlim(), ax.get_ylim()) for ax in self._axes]
        for ax in self._axes:
            for artist in _added(ax):
                artist.remove()
            ax.containers.clear()
            ax.set_title("")
            ax.set_prop_cycle(None)
            ax.relim()
            ax.xaxis.stale = ax.yaxis.stale = False  # reading limits sets it; from here on it means a change by a plot

    def draw(self):
        """Draw what a plot has added since ``clear``; everything if an axis has changed."""
        changed = False
        for i, ax in enumerate(self._axes):
            changed |= ax.xaxis.stale or ax.yaxis.stale  # labels, ticks or scales
            for name, old in zip("xy", self._limits[i], strict=True) if self._still and self._limits else ():
                changed |= _change_limits(ax, name, old)
            for artist in [*_added(ax), ax.title, *ax.spines.values()]:  # spines lie on curves
                artist.set_animated(self._figure.canvas.supports_blit)
        self._limits = []  # without a further ``clear``, the curves stay
        self.draw_on_copy(changed)

    def draw_on_copy(self, changed=False):
        """Draw what moves on the pixels of what stays; everything if that has changed or was not drawn."""
        canvas = self._figure.canvas
        if changed or self._still is None:
            canvas.draw_idle()
            return
        canvas.restore_region(self._still)
        self._draw_moving()
        canvas.blit(self._figure.bbox)

    def _keep(self, event):
        if not event.canvas.is_saving():  # a file contains everything already
            self._still = event.canvas.copy_from_bbox(self._figure.bbox)
            self._draw_moving()

    def _draw_moving(self):
        for ax in (*self._axes, *self._others):
            for artist in sorted(ax.get_children(), key=lambda artist: artist.get_zorder()):
                if artist.get_animated():
                    ax.draw_artist(artist)


def _change_limits(ax, name, old):
    """Whether the limits of an axis change, because curves leave the old ones or fill too little of them."""
    new = getattr(ax, f"get_{name}lim")()
    if new == old or not getattr(ax, f"get_autoscale{name}_on")():
        return new != old
    transform = getattr(ax, f"{name}axis").get_transform()
    (low, high), (least, largest) = (transform.transform(np.array(x)) for x in (old, new))
    overhang, span = LIMITS.overhang * (high - low), largest - least
    below, above = least < low - overhang, largest > high + overhang
    change = below or above or span < LIMITS.filled * (high - low)
    if change:
        ends = np.array([least - LIMITS.excess * span * below, largest + LIMITS.excess * span * above])
    getattr(ax, f"set_{name}lim")(transform.inverted().transform(ends) if change else old, auto=None)
    return change


def _added(ax):
    """Return everything that a plot adds to axes."""
    legend = ax.get_legend()
    added = [*ax.lines, *ax.collections, *ax.patches, *ax.images, *ax.texts, *ax.tables, *ax.artists]
    return added if legend is None else [*added, legend]
