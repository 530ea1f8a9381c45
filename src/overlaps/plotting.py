"""Pictures of results.  The only module that draws; matplotlib is imported at the first plot."""

import numpy as np

from .trajectory import Ensemble

__all__ = ["plot"]

LOG_RANGE = 30.0  # a positive curve that spans more than this factor is drawn on a log axis


def plot(result, ax=None, **style):
    """Draw eps_g (left) and the overlaps Q, R, v (right) of a Trajectory or an Ensemble against alpha.

    A trajectory is drawn as lines.  Runs are drawn as markers at their mean, with a band between the 16 % and 84 %
    quantiles when there are several.

    Parameters
    ----------
    result : Trajectory or Ensemble
        What to draw.
    ax : Axes or pair of Axes, optional
        A new figure by default; a single Axes receives eps_g only.
    **style
        Passed to matplotlib's ``plot``.

    Returns
    -------
    Axes or array of Axes
        As passed in, or the new pair.
    """
    from matplotlib import pyplot as plt

    fresh = ax is None
    if fresh:
        _, ax = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    axes = np.atleast_1d(ax)
    label = style.pop("label", None)
    draw = _draw_runs if isinstance(result, Ensemble) else _draw_line
    draw(axes[0], result.alpha, result.eps_g, label=label or _name(result), **style)
    if fresh:
        _axis(axes[0], result.alpha, result.eps_g, r"generalisation error $\epsilon_g$")
    axes[0].legend(frameon=False)
    if axes.size > 1:
        # each overlap keeps its colour in every result, so that markers sit on their lines
        for curve, text, color in _overlaps(result):
            draw(axes[1], result.alpha, curve, label=text if fresh else None, **style | {"color": color})
        if fresh:
            _axis(axes[1], result.alpha, None, "overlaps")
            axes[1].legend(frameon=False, ncols=2, fontsize="small")
    return ax


def _overlaps(result):
    """(curve, label, colour) of the overlaps worth a line: Q upper triangle, R, and v when it moves."""
    from matplotlib import colormaps

    Q, R = result.Q, result.R
    K, M = result.model.K, result.model.M
    shades = {"Q": "Blues", "R": "Oranges", "v": "Greens"}
    groups = {
        "Q": [(Q[..., i, j], rf"$Q_{{{i + 1}{j + 1}}}$") for i in range(K) for j in range(i, K)],
        "R": [(R[..., i, m], rf"$R_{{{i + 1}{m + 1}}}$") for i in range(K) for m in range(M)],
        "v": [(result.v[..., i], rf"$v_{{{i + 1}}}$") for i in range(K)] if result.model.trains_v else [],
    }
    for name, curves in groups.items():
        tones = colormaps[shades[name]](np.linspace(0.9, 0.4, len(curves)))
        many = len(curves) > 8  # one legend entry per family when every entry would be a wall of text
        for i, ((curve, text), tone) in enumerate(zip(curves, tones, strict=True)):
            yield curve, (rf"${name}$" if i == 0 else None) if many else text, tone


def _draw_line(ax, alpha, curve, **style):
    ax.plot(alpha, curve, **style)


def _draw_runs(ax, alpha, curves, **style):
    style = {"marker": "o", "markersize": 3.5, "linestyle": "none", "markevery": max(1, len(alpha) // 25)} | style
    (line,) = ax.plot(alpha, curves.mean(axis=0), **style)
    if len(curves) > 1:
        low, high = np.quantile(curves, [0.16, 0.84], axis=0)
        ax.fill_between(alpha, low, high, color=line.get_color(), alpha=0.2, linewidth=0)


def _axis(ax, alpha, curve, label):
    positive = alpha[alpha > 0]
    # several decades of recorded times, most of them early: the solver's own steps or a logspace
    if positive.size > 2 and positive[-1] / np.median(positive) > LOG_RANGE:
        ax.set_xscale("log")
    if curve is not None:
        visible = curve[curve > 0]
        if visible.size and visible.max() / visible.min() > LOG_RANGE:
            ax.set_yscale("log")
    ax.set_xlabel(r"learning time $\alpha$ = steps / $N$")
    ax.set_ylabel(label)
    ax.grid(alpha=0.25)


def _name(result):
    return f"SGD, N = {result.N}" if isinstance(result, Ensemble) else "ODE, N → ∞"
