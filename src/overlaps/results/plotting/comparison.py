"""Comparison of solutions, fluctuations at finite N and runs, in one figure and against N."""

from collections.abc import Sequence
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..._base import check
from .curves import name, plot
from .styles import LABELS, axis, faint_opacity, grey, hues, legend, mark, pair_of_axes, single_axes
from .units import draw_error, draw_overlaps, has_few_units, partners_of, units

DASHES: tuple[Any, ...] = "-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1))  # with eight colours, forty different lines


def plot_fluctuations(result: Any, ax: Any = None, band: float = 2.0, **style: Any) -> Any:
    r"""Draw the solution as lines, the means of SGD at finite N dashed, and bands of +- ``band`` standard deviations.

    Runs can be drawn on the same axes: ``ax = runs.plot(); fluct.plot(ax=ax)``.

    Parameters
    ----------
    result : Fluctuations
        The result to draw.
    ax : Axes or pair of Axes, optional
        A new figure by default; a single Axes receives eps_g only.
    band : float
        Half width of the bands in standard deviations.
    **style
        Passed to matplotlib's ``plot`` for the lines.

    Returns
    -------
    Axes or array of Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import overlaps as ov
    >>> model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5)
    >>> start = ov.State.from_overlaps(model, Q=[[0.5]], R=[[0.2]], T=[[1.0]])
    >>> axes = ov.fluctuations(ov.solve(model, start, (0, 5)), 400).plot()
    >>> len(axes[0].collections), len(axes[1].collections)
    (1, 2)
    >>> matplotlib.pyplot.close("all")
    """
    band = check.number("band", band, above=0)
    before = 0 if ax is None else len(np.atleast_1d(ax)[0].lines)
    axes = plot(result.trajectory, ax=ax, **style)
    drawn = np.atleast_1d(axes)
    color, partners = drawn[0].get_lines()[before].get_color(), partners_of(result.trajectory)
    _draw_expansion(drawn, result, band, color, f"± {band:g} standard deviations", partners)
    drawn[0].get_lines()[-1].set_label(f"mean at N = {result.N}, predicted")
    legend(drawn[0])
    return axes


def compare(
    *results: Any,
    labels: Sequence[str] | None = None,
    ax: Any = None,
    plateaus: bool = False,
    xscale: str | None = None,
    yscale: str | None = None,
) -> Any:
    r"""Draw theory, error bars of finite N and SGD of one network in one figure with a legend.

    The error of each result has a colour, and that of each solution a line of its own (solid, dashed, ...). Runs have
    markers at their mean and quantile bands as in :meth:`Trajectory.plot`, fluctuations dashed means with bands of two
    standard deviations. Beside one solution, the overlaps have the colours of students in all results; of several
    solutions, the overlaps have the colour of the result, Q dashed and R solid.

    Parameters
    ----------
    *results : Trajectory, Ensemble or Fluctuations
        Results of networks with the same numbers of students and teachers.
    labels : sequence of str, optional
        One for each result; by default ODE, SGD or mean, with N.
    ax : Axes or pair of Axes, optional
        A new figure by default; a single Axes receives eps_g only.
    plateaus : bool
        Mark the plateaus of all solutions, as in :meth:`Trajectory.plot`.
    xscale, yscale : {"linear", "log"}, optional
        Scales of alpha and of the error, as in :meth:`Trajectory.plot`.

    Returns
    -------
    Axes or array of Axes
        The given axes, or the new pair.

    Raises
    ------
    ValueError
        There is no result, a result has another kind or size, or there is not one label for each result.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import overlaps as ov
    >>> model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5)
    >>> start = ov.State.from_overlaps(model, Q=[[0.5]], R=[[0.2]], T=[[1.0]])
    >>> theory = ov.solve(model, start, [0, 1, 2])
    >>> runs = ov.simulate(model, N=200, alpha=theory.alpha, rng=1, runs=4, start=start)
    >>> axes = ov.compare(theory, ov.fluctuations(theory, 200), runs)
    >>> [text.get_text() for text in axes[0].get_legend().get_texts()]
    ['ODE, N → ∞', 'SGD, N = 200', 'mean, ± 2 std at N = 200']
    >>> matplotlib.pyplot.close("all")
    """
    labels = _compared(results, labels)
    ax, axes = pair_of_axes(ax)
    kinds = ["expansion" if hasattr(x, "trajectory") else "runs" if x.is_ensemble else "solution" for x in results]
    partners = partners_of(results[0].trajectory if kinds[0] == "expansion" else results[0])
    several, colours = max(map(kinds.count, ("expansion", "solution"))) > 1, hues(axes[0])
    markers, dashes = cycle("os^Dv"), cycle(DASHES)
    # fluctuations are drawn last, because their bands are cut at the limits of the other curves
    for i in sorted(range(len(results)), key=lambda i: kinds[i] == "expansion"):
        result, color = results[i], colours[i % len(colours)]
        hue = color if several else None
        if kinds[i] == "expansion":
            axis(axes[0], result.alpha, result.mean("eps_g"), LABELS.error, xscale, yscale)
            _draw_expansion(axes, result, 2.0, color, labels[i], partners, hue)
            continue
        style = {"marker": next(markers)} if kinds[i] == "runs" else {}
        line = style or {"linestyle": next(dashes)}
        axis(axes[0], result.alpha, result.eps_g, LABELS.error, xscale, yscale)
        draw_error(axes[0], result, color=color, label=labels[i], **line)
        for plateau in result.plateaus() if check.flag("plateaus", plateaus) and not result.is_ensemble else []:
            mark(axes[0], plateau)
        for panel in axes[1:]:
            draw_overlaps(panel, result, xscale, partners, hue, **style)
    legend(axes[0], handlelength=2.6)  # long enough for all dashes
    return ax


def _compared(results, labels):
    """Check the results of a comparison and return one label for each; default labels are unique."""
    if not results:
        raise ValueError("compare() was called without results; expected trajectories, ensembles and fluctuations.")
    for i, x in enumerate(results):
        curves = hasattr(x, "animate") and not hasattr(x.model, "models")
        if not curves and not hasattr(x, "trajectory"):
            kinds = "a Trajectory, an Ensemble or Fluctuations"
            raise ValueError(f"results[{i}] is a {type(x).__name__}; expected {kinds} (for a Batch use batch[i]).")
        sizes = [(y.model.K, y.model.M) for y in (results[0], x)]
        if sizes[0] != sizes[1]:
            raise ValueError(f"results[{i}] has (K, M) = {sizes[1]}, results[0] has {sizes[0]}; expected the same.")
    if labels is None:
        names = [f"mean, ± 2 std at N = {x.N}" if hasattr(x, "trajectory") else name(x) for x in results]
        return [f"{x} ({names[: i + 1].count(x)})" if names.count(x) > 1 else x for i, x in enumerate(names)]
    texts = isinstance(labels, list | tuple) and all(isinstance(x, str) for x in labels)
    if not texts or len(labels) != len(results):
        raise check.refused("labels", labels, f"{len(results)} of them, a text for each result.")
    return list(labels)


def _draw_expansion(axes, result, band, color, label, partners, hue=None):
    """Draw dashed means and bands of standard deviations; of many units only those of a student and its teacher."""
    names = ["eps_g", "Q", "R", *(["v"] if result.model.trains_v else [])]
    means, stds = (SimpleNamespace(model=result.model, **{n: f(n) for n in names}) for f in (result.mean, result.std))
    _band(axes[0], result.alpha, means.eps_g, band * stds.eps_g, color, positive=True, label=label)
    for panel in axes[1:]:
        axis(panel, result.alpha, None, "overlaps")
        for mean, std in zip(*(units(panel, x, partners, hue) for x in (means, stds)), strict=True):
            if mean.matched or has_few_units(result.model):
                _band(panel, result.alpha, mean.curve, band * std.curve, mean.style["color"])


def _band(ax, alpha, mean, half, color, positive=False, label=None):
    low, high = mean - half, mean + half
    if positive and ax.get_yscale() == "log":  # a band that reaches zero is cut at the lower limit of the axis
        low = np.maximum(low, ax.get_ylim()[0])
    ax.plot(alpha, mean, color=color, linestyle="--", linewidth=1)
    ax.fill_between(alpha, low, high, color=color, alpha=0.8 * faint_opacity(ax), linewidth=0, label=label)


def fluctuations(ensembles, ax=None):
    """Draw N times the variance over runs of every Q, R (and v) against N, at the last record.

    Overlaps of SGD fluctuate like 1 / sqrt(N), so the curves are constant. The relative error bars are those of a
    variance estimated from the same number of Gaussian samples, sqrt(2 / (runs - 1)).

    Parameters
    ----------
    ensembles : sequence of Ensemble
        The same model at several N, with at least two runs each.
    ax : Axes, optional
        A new figure by default.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        An ensemble has a single run.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import overlaps as ov
    >>> from overlaps.results.plotting import fluctuations
    >>> model = ov.committee_machine(1, 1, eta=0.5)
    >>> sims = [ov.simulate(model, N=N, alpha=[0, 1], rng=1, runs=2) for N in (50, 100)]
    >>> fluctuations(sims).get_xlabel()
    'input dimension $N$'
    >>> matplotlib.pyplot.close("all")
    """
    ax = single_axes(ax)
    ensembles = sorted(ensembles, key=lambda e: e.N)
    if any(len(e) < 2 for e in ensembles):
        raise ValueError("one run has no variance; every ensemble needs runs >= 2.")
    N = np.array([e.N for e in ensembles])
    families = [units(ax, e, partners_of(ensembles[-1])) for e in ensembles]
    relative = np.sqrt(2 / (np.array([len(e) for e in ensembles]) - 1))
    for entries in zip(*families, strict=True):
        scaled = N * np.array([entry.curve[:, -1].var(ddof=1) for entry in entries])
        style = entries[0].style | {"marker": "o", "markersize": 4, "capsize": 2}
        ax.errorbar(N, scaled, relative * scaled, label=entries[0].label, **style)
    ax.set(xscale="log", xlabel="input dimension $N$", ylabel=r"$N \times$ variance over runs")
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False, ncols=2, fontsize="small")
    return ax


def approach(ensembles, theory, ax=None, **style):
    """Draw the root-mean-square distance of single runs from the ODE against N, and the law 1 / sqrt(N).

    The mean is over runs, entries of Q and R, and the records after the start.

    Parameters
    ----------
    ensembles : sequence of Ensemble
        The same model at several N, from one start.
    theory : Trajectory
        Solution from that start, recorded at times that include those of the ensembles.
    ax : Axes, optional
        A new figure by default.
    **style
        Passed to matplotlib's ``plot``.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        The theory is not recorded at the times of the runs.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import overlaps as ov
    >>> from overlaps.results.plotting import approach
    >>> model = ov.committee_machine(1, 1, eta=0.5)
    >>> start = model.random_start(N=50, rng=1)
    >>> sims = [ov.simulate(model, N=N, alpha=[0, 1], rng=1, start=start) for N in (50, 100)]
    >>> approach(sims, ov.solve(model, start, [0, 1])).get_xscale()
    'log'
    >>> matplotlib.pyplot.close("all")
    """
    ax = single_axes(ax)
    ensembles = sorted(ensembles, key=lambda e: e.N)
    N = np.array([e.N for e in ensembles])
    distances = np.array([distance(e, theory) for e in ensembles])
    ax.loglog(N, distances, **{"marker": "o", "label": "SGD"} | style)
    guide = np.sqrt(np.exp(np.mean(np.log(distances**2 * N))) / N)
    ax.loglog(N, guide, color=grey(ax, 0.4), linestyle="--", zorder=0, label=r"$\propto N^{-1/2}$")
    ax.set(xlabel="input dimension $N$", ylabel="rms distance of $Q$, $R$ from the ODE")
    ax.legend(frameon=False)
    return ax


def distance(ensemble, theory):
    """Root-mean-square distance of single runs from the ODE, over runs, entries of Q and R, and records."""
    # SGD is recorded at whole steps, so the nearest time of the theory differs by at most half a step
    later = ensemble.alpha > ensemble.alpha[0]
    at = [int(np.argmin(np.abs(theory.alpha - a))) for a in ensemble.alpha[later]]
    if np.max(np.abs(theory.alpha[at] - ensemble.alpha[later])) > 0.51 / ensemble.N:
        raise ValueError(f"theory is not recorded at the times of runs at N = {ensemble.N}; solve it on their alpha.")
    differences = [(getattr(ensemble, x)[:, later] - getattr(theory, x)[at]).ravel() for x in ("Q", "R")]
    return np.sqrt(np.mean(np.concatenate(differences) ** 2))
