"""Curves against the learning time: solutions, runs, results through several tasks."""

import numpy as np

from ..._base import check
from .looks import ERROR, axis, grey, hues, legend, mark, panels
from .units import draw_line, draw_overlaps, draw_runs


def plot(result, ax=None, plateaus=False, xscale=None, **style):
    r"""Draw eps_g (left) and the overlaps Q, R, v (right) of a Trajectory or an Ensemble against alpha.

    A trajectory is drawn as lines.  Runs are drawn as markers at their mean, with a band between the 16 % and 84 %
    quantiles when there are several.  Each student has a hue: full for R with its own teacher in the assignment
    of largest sum of R_kj^2 / (Q_kk T_jj) at the last record, faint for the others; Q_kk is dashed (hollow markers),
    Q_kj grey.  Above K M = 16 the hues are those of the kinds, and bands reach from the smallest to the largest of
    the others.

    Parameters
    ----------
    result : Trajectory or Ensemble
        The result to draw.
    ax : Axes or pair of Axes, optional
        A new figure by default; a single Axes receives eps_g only.  Axes that hold nothing yet are scaled; labels and
        a legend are given where there are none.
    plateaus : bool
        Mark the height of each plateau from its begin to its end, with its number of growing modes.
    xscale : {"linear", "log"}, optional
        Scale of alpha; by default logarithmic where most records are early.
    **style
        Passed to matplotlib's ``plot``.

    Returns
    -------
    Axes or array of Axes
        As passed in, or the new pair.

    Raises
    ------
    ValueError
        ``ax`` is no Axes, or ``xscale`` no scale.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import overlaps as ov
    >>> model = ov.committee_machine(1, 1, eta=0.5)
    >>> axes = ov.solve(model, model.random_start(N=1000, rng=1), (0, 10)).plot()
    >>> axes[0].get_xlabel()
    'learning time $\\alpha$ = steps / $N$'
    >>> matplotlib.pyplot.close("all")
    """
    # test: tests/results/test_plotting.py::test_bands_lie_between_their_quantiles
    ax, axes = panels(ax)
    marked = result.plateaus() if check.flag("plateaus", plateaus) else []
    label = style.pop("label", None) or name(result)
    draw = draw_runs if result.is_ensemble else draw_line
    axis(axes[0], result.alpha, result.eps_g, ERROR, xscale)
    draw(axes[0], result.alpha, result.eps_g, label=label, **style)
    if getattr(result, "test_error", None) is not None:
        draw(axes[0], result.alpha, result.test_error, label="error on fresh samples", marker="x", linestyle="none")
    for plateau in marked:
        mark(axes[0], plateau)
    legend(axes[0])
    for panel in axes[1:]:
        draw_overlaps(panel, result, xscale, **style)
    return ax


def plot_stages(result, ax=None, plateaus=False, xscale=None, **style):
    """Draw the errors on all tasks (left) and the overlaps (right) of a result through Stages or of Mixed tasks.

    Parameters
    ----------
    result : StagedTrajectory, StagedEnsemble, MixedTrajectory or MixedEnsemble
        The result to draw; switches are marked.
    ax : Axes or pair of Axes, optional
        A new figure by default; a single Axes receives the errors only.
    plateaus : bool
        Mark the plateaus of each stage, as :func:`plot` does.
    xscale : {"linear", "log"}, optional
        Scale of alpha.
    **style
        Passed to matplotlib's ``plot``.

    Returns
    -------
    Axes or array of Axes
        As passed in, or the new pair.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import overlaps as ov
    >>> tasks = [ov.committee_machine(1, 2, eta=0.5, v_star=v_star) for v_star in ([1.0, 0.0], [0.0, 1.0])]
    >>> stages = ov.Stages(tasks, until=[5.0, 10.0])
    >>> axes = ov.solve(stages, tasks[0].random_start(N=1000, rng=1), (0, 10)).plot()
    >>> [line.get_label() for line in axes[0].get_lines()[:2]]
    ['task 1', 'task 2']
    >>> matplotlib.pyplot.close("all")
    """
    ax, axes = panels(ax)
    draw = draw_runs if result.is_ensemble else draw_line
    marked = result.plateaus() if check.flag("plateaus", plateaus) else []
    errors = np.array([result.error(i) for i in range(len(result.model))])
    axis(axes[0], result.alpha, errors, ERROR, xscale)
    named, colours = {line.get_label() for line in axes[0].lines}, hues(axes[0])
    for i, curve in enumerate(errors):
        text = f"task {i + 1}"
        look = {"color": colours[i % len(colours)], "label": None if text in named else text}
        draw(axes[0], result.alpha, curve, **look | style)
    for plateau in marked:
        mark(axes[0], plateau)
    legend(axes[0])
    for panel in axes[1:]:
        draw_overlaps(panel, result, xscale, **style)
    for panel in axes:
        for switch in getattr(result.model, "until", ())[:-1]:
            panel.axvline(switch, color=grey(panel, 0.3), linewidth=1, zorder=0)
    return ax


def name(result):
    """Name of a result in a legend."""
    return f"SGD, N = {result.N}" if result.is_ensemble else "ODE, N → ∞"
