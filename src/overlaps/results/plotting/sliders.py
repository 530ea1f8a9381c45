"""Sliders for the parameters of a result and its figure, in a notebook or in a window."""

import inspect
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from io import BytesIO
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ..._base import check
from .panels import Panels
from .styles import figure_size, new_axes


class SliderOptions(NamedTuple):
    """Options of the sliders of ``explore``."""

    # Seconds for a result and its figure above which the figure changes only when a slider is released. Halved: fewer
    # functions follow a moving slider; doubled: the figure lags behind the slider.
    slow_seconds: float = 0.1
    notebook_steps: int = 100  # steps of a continuous slider in a notebook
    png_level: int = 1  # compression of pictures for a notebook, 0 to 9; 1 takes half of the time of the default 6
    message_width: int = 60  # characters in a line of a message


SLIDERS = SliderOptions()


class View:
    """Sliders and the figure that they control; made by :func:`overlaps.explore`.

    Attributes
    ----------
    params : dict
        Values of the parameters, as set by the sliders.
    result : object
        The result for ``params``, or if these were refused, the last one before.
    message : str
        Why the parameters were refused, or why the result is not complete; empty otherwise.
    figure, axes, controls : Figure, tuple of Axes, dict
        The figure, its axes, and the slider of each parameter.
    """

    def __init__(self, function, ranges, params, panels):
        self.params, self.result, self.message = params, None, ""
        self._function, self._ranges, self._note, self._ignore_sliders = function, ranges, None, True
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        self._sliders = (_Notebook if hasattr(shell, "kernel") else _Window)(ranges, params, panels, self._on_change)
        self.figure, self.axes, self.controls = self._sliders.figure, self._sliders.axes, self._sliders.controls
        self.figure.view = self  # without a reference the sliders of a window would be deleted
        self._refresh()

    def set(self, **values: Any) -> None:
        """Set parameters, within the ranges of their sliders or outside, and draw their result."""
        for name in values:
            check.choice("the parameter", name, tuple(self.params))
        self._ignore_sliders = True
        for name, value in values.items():
            if _fits(self._ranges[name], value):
                self._sliders.set_value(name, value)
        self.params |= values
        self._refresh()

    def _on_change(self, name, value):
        if not self._ignore_sliders:
            self.params[name] = value
            self._refresh()

    def _refresh(self):
        start_time = perf_counter()
        try:
            result = self._function(**self.params)
        except ValueError as refusal:  # the last curve remains
            self.message = str(refusal)
        else:
            if not hasattr(result, "plot"):
                raise TypeError(f"f returned {check.shown(result)}; expected a result with a method plot(ax=).")
            if self.result is None and hasattr(result, "eps_g"):
                self.axes[0].set_yscale("log")
            self.result, complete = result, np.all(getattr(result, "success", True))
            self.message = "" if complete else str(result.message)
            self._note = None
            self._sliders.panels.clear()
            result.plot(ax=self.axes if len(self.axes) > 1 else self.axes[0])
        self._show_message()
        self._sliders.draw(perf_counter() - start_time > SLIDERS.slow_seconds)
        self._ignore_sliders = False

    def __repr__(self):
        return f"View({', '.join(f'{name}={value!r}' for name, value in self.params.items())})"

    def _ipython_display_(self):
        """Show nothing more below a cell: the sliders are displayed when they are made."""

    def _show_message(self):
        if self._note is not None:
            self._note.remove()
        ax, text = self.axes[0], textwrap.fill(self.message, SLIDERS.message_width)
        box = {"facecolor": ax.get_facecolor(), "edgecolor": "C3", "alpha": 0.9} if text else None
        self._note = ax.text(0.03, 0.04, text, transform=ax.transAxes, fontsize="small", bbox=box, zorder=10)


class _Window:
    """Sliders of matplotlib below the figure."""

    def __init__(self, ranges, params, panels, on_change):
        from matplotlib import pyplot as plt
        from matplotlib.widgets import Slider

        (width, height), below = figure_size(5.5 * panels, 4.0), 0.35 * len(ranges)
        self.figure: Any = plt.figure(figsize=(width, height + below), layout="constrained")
        subfigures: Any = self.figure.subfigures(2, 1, height_ratios=[height, below])
        upper, lower = subfigures
        self.axes = tuple(new_axes(upper, 1, panels))
        self.controls, self._ranges, self._slow, self._pending = {}, ranges, False, lambda: None
        slider_axes = lower.subplots(len(ranges), 1, squeeze=False)[:, 0]
        for ax, (name, values) in zip(slider_axes, ranges.items(), strict=True):
            (low, high), step = ((0, len(values) - 1), 1) if isinstance(values, list) else (values, None)
            self.controls[name] = Slider(ax, name, low, high, valinit=low, valstep=step, initcolor="none")
            self.set_value(name, params[name])
            self.controls[name].on_changed(partial(self._changed, name, on_change))
            self.controls[name].drawon = False  # it is drawn with the curves
        self.panels = Panels(self.figure, self.axes, tuple(slider_axes))
        self.figure.canvas.mpl_connect("button_release_event", self._released)

    def set_value(self, name, value):
        values = self._ranges[name]
        self.controls[name].set_val(values.index(value) if isinstance(values, list) else np.clip(value, *values))
        self._value(name)

    def _value(self, name):
        slider, values = self.controls[name], self._ranges[name]
        if isinstance(values, list):
            slider.valtext.set_text(str(values[int(slider.val)]))
        return values[int(slider.val)] if isinstance(values, list) else float(slider.val)

    def _changed(self, name, on_change, _):
        self._pending = partial(on_change, name, self._value(name))
        if self._slow and self.controls[name].drag_active:
            self.panels.draw_on_copy()
        else:
            self._released()

    def _released(self, event=None):
        pending, self._pending = self._pending, lambda: None
        pending()

    def draw(self, slow):
        self._slow = slow
        self.panels.draw()


class _Notebook:
    """Sliders of ipywidgets above the figure."""

    def __init__(self, ranges, params, panels, on_change):
        try:
            import ipywidgets
        except ImportError as missing:
            raise ImportError('sliders of a notebook need ipywidgets: pip install "overlaps[explore]".') from missing
        from IPython.display import display
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        # a figure of pyplot would be shown a second time below the cell
        self.figure: Any = Figure(figsize=figure_size(5.5 * panels, 4.0), layout="constrained")
        FigureCanvasAgg(self.figure)  # it is the canvas of the figure from now on
        self.axes = tuple(new_axes(self.figure, 1, panels))
        self.panels = Panels(self.figure, self.axes)
        # a fixed width, because some pages stretch images
        size = {"width": f"{self.figure.bbox.width:.0f}px", "max_width": "100%"}
        self.controls, self._image = {}, ipywidgets.Image(format="png", layout=size)
        for name, values in ranges.items():
            if isinstance(values, list):
                slider = ipywidgets.SelectionSlider(options=values, description=name)
            else:
                low, high = values
                step = (high - low) / SLIDERS.notebook_steps
                slider = ipywidgets.FloatSlider(min=low, max=high, step=step, description=name, readout_format=".4g")
            self.controls[name] = slider
            self.set_value(name, params[name])
            slider.observe(lambda change, name=name: on_change(name, change["new"]), "value")
        display(ipywidgets.VBox([*self.controls.values(), self._image]))

    def set_value(self, name, value):
        self.controls[name].value = value

    def draw(self, slow):
        from matplotlib.image import imsave

        for slider in self.controls.values():
            slider.continuous_update = not slow
        self.panels.draw()
        buffer, options = BytesIO(), {"compress_level": SLIDERS.png_level}
        imsave(buffer, self.figure.canvas.buffer_rgba(), format="png", pil_kwargs=options)
        self._image.value = buffer.getvalue()


def explore(f: Callable[..., Any], /, *, panels: int = 1, **ranges: Any) -> View:
    """Draw the result of a function, with a slider for each parameter.

    In a notebook the sliders are ipywidgets, of the extra ``overlaps[explore]``; elsewhere they are those of
    matplotlib. The figure is updated while a slider moves, or if a result takes more than a tenth of a second, when the
    slider is released. Axes keep their limits while the curves fit, and an error has a logarithmic axis at first. If
    the function raises a ValueError, its message is shown, and the last curve remains.

    Parameters
    ----------
    f : callable
        ``f(**parameters)`` returns any object with a method ``plot(ax=)``: a Trajectory, an Ensemble, a Batch ...
    panels : int
        Number of axes: 2 for results that draw the error and the overlaps.
    **ranges
        For each parameter a pair ``(low, high)`` of numbers, or a list or range of choices, such as ``K=range(1, 7)``.
        A slider begins at the default of ``f`` if it is in the range, otherwise in the middle of a pair or at the first
        choice.

    Returns
    -------
    View
        ``view.set(eta=1.2)``, ``view.params``, ``view.result``, ``view.message``, ``view.figure``, ``view.axes``.

    Raises
    ------
    ValueError
        There is no parameter, or a range is invalid.
    TypeError
        The result of ``f`` has no method ``plot``.
    ImportError
        ipywidgets is not installed, in a notebook.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import overlaps as ov
    >>> start = ov.State.from_overlaps(ov.committee_machine(1, 1, eta=1.0), Q=[[0.5]], R=[[0.1]], T=[[1.0]])
    >>> def curve(eta, noise):
    ...     return ov.solve(ov.committee_machine(1, 1, eta=eta, noise=noise), start, (0, 20))
    >>> view = ov.explore(curve, eta=(0.1, 2.0), noise=(0, 1))
    >>> view.set(eta=1.2)
    >>> view.params, view.result.success
    ({'eta': 1.2, 'noise': 0.5}, True)
    >>> view.set(eta=-1.0)
    >>> view.message
    'eta = -1.0; expected ...
    >>> matplotlib.pyplot.close("all")
    """
    panels = check.count("panels", panels)
    if not callable(f):
        raise check.refused("f", f, "a function of the parameters that returns a result.")
    if not ranges:
        raise ValueError("explore() was called without parameters; expected some by name, such as eta=(0.1, 2.0).")
    sliders, params, arguments = {}, {}, inspect.signature(f).parameters
    for name, given in ranges.items():
        values = sliders[name] = _range(name, given)
        begin = values[0] if isinstance(values, list) else (values[0] + values[1]) / 2
        default = arguments[name].default if name in arguments else begin
        inside = _fits(values, default) and (isinstance(values, list) or values[0] <= default <= values[1])
        params[name] = default if inside else begin
    return View(f, sliders, params, panels)


def _range(name, given):
    """Return the ends (low, high) of a continuous slider, or a list of choices."""
    pair = isinstance(given, tuple) and len(given) == 2 and all(_fits((), x) for x in given)
    if pair and given[0] < given[1]:
        return given
    choices = check.array(name, given, ("choices",)) if isinstance(given, np.ndarray) else given
    if isinstance(choices, list | range | np.ndarray) and len(choices) > 1:
        return list(choices)
    raise check.refused(name, given, "numbers (low, high), or a list of two choices or more.")


def _fits(values, value):
    """Whether a slider can be set to a value; a continuous one is set to the nearer end if the value is outside."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return value in values if isinstance(values, list) else number and bool(np.isfinite(value))
