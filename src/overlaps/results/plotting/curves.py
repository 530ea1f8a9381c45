"""Curves against the learning time: solutions, runs, several tasks, batches, learning rates, Hessian eigenvalues."""

from typing import Any

import numpy as np

from ..._base import check
from .styles import LABELS, axis, grey, hues, legend, mark, pair_of_axes, single_axes
from .units import draw_error, draw_line, draw_overlaps, draw_runs


def plot(
    result: Any,
    ax: Any = None,
    plateaus: bool = False,
    xscale: str | None = None,
    yscale: str | None = None,
    **style: Any,
) -> Any:
    r"""Draw eps_g (left) and the overlaps Q, R, v (right) of a Trajectory or an Ensemble against alpha.

    For several tasks (Stages or Mixed), the errors on all of them are drawn, and the switches are marked.

    A trajectory is drawn as lines; on a logarithmic axis eps_g ends where it falls to ``eps_floor``.  Runs are drawn as
    markers at their mean, and several runs also as a band between the 16 % and 84 % quantiles.  Each student has a
    colour, which is full for R with its own teacher and faint for R with the others.  The own teachers are those of the
    assignment with the largest sum of R_kj^2 / (Q_kk T_jj) at the last record.  Q_kk is dashed (hollow markers), Q_kj
    grey.  Above K M = 16 each kind of overlap has a colour, and a band from the smallest to the largest replaces
    overlaps other than those of a student with itself or its teacher.

    Parameters
    ----------
    result : Trajectory or Ensemble, also of Stages or Mixed tasks
        The result to draw.
    ax : Axes or pair of Axes, optional
        A new figure by default; on a single Axes only the errors are drawn.  Empty Axes are scaled; labels and a legend
        are added if there are none.
    plateaus : bool
        Mark the height of each plateau from its begin to its end, with its number of unstable directions.
    xscale : {"linear", "log"}, optional
        Scale of alpha; by default logarithmic if most records are early.
    yscale : {"linear", "log"}, optional
        Scale of the errors; by default logarithmic if they differ by more than a factor 30.
    **style
        Passed to matplotlib's ``plot``.

    Returns
    -------
    Axes or array of Axes
        The given axes, or the new pair.

    Raises
    ------
    ValueError
        ``ax`` is not an Axes, or ``xscale`` or ``yscale`` is not a scale.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import overlaps as ov
    >>> model = ov.committee_machine(1, 1, eta=0.5)
    >>> axes = ov.solve(model, model.random_start(N=1000, rng=1), (0, 10)).plot()
    >>> axes[0].get_xlabel()
    'learning time $\\alpha$ = steps / $N$'
    >>> tasks = [ov.committee_machine(1, 2, eta=0.5, v_star=v_star) for v_star in ([1.0, 0.0], [0.0, 1.0])]
    >>> stages = ov.Stages(tasks, until=[5.0, 10.0])
    >>> axes = ov.solve(stages, tasks[0].random_start(N=1000, rng=1), (0, 10)).plot()
    >>> [line.get_label() for line in axes[0].get_lines()[:2]]
    ['task 1', 'task 2']
    >>> matplotlib.pyplot.close("all")
    """
    ax, axes = pair_of_axes(ax)
    found_plateaus = result.plateaus() if check.flag("plateaus", plateaus) else []
    draw = draw_runs if result.is_ensemble else draw_line
    tasks = range(len(result.model)) if hasattr(result.model, "models") else ()
    errors = np.array([result._error_on(i) for i in tasks] or [result.eps_g])
    axis(axes[0], result.alpha, errors, LABELS.error, xscale, yscale)
    drawn, colours = {line.get_label() for line in axes[0].lines}, hues(axes[0])
    for i in tasks:
        label = None if f"task {i + 1}" in drawn else f"task {i + 1}"
        draw(axes[0], result.alpha, errors[i], **{"color": colours[i % len(colours)], "label": label} | style)
    if not tasks:
        draw_error(axes[0], result, **{"label": name(result)} | style)
    if getattr(result, "test_error", None) is not None:
        draw(axes[0], result.alpha, result.test_error, label="error on fresh samples", marker="x", linestyle="none")
    for plateau in found_plateaus:
        mark(axes[0], plateau)
    legend(axes[0])
    for panel in axes[1:]:
        draw_overlaps(panel, result, xscale, **style)
    for panel in axes:
        for switch in getattr(result.model, "until", ())[:-1]:
            panel.axvline(switch, color=grey(panel, 0.3), linewidth=1, zorder=0)
    return ax


def name(result):
    """Return the name of a result in a legend."""
    return f"SGD, N = {result.N}" if result.is_ensemble else "ODE, N → ∞"


def plot_batch(
    batch: Any,
    ax: Any = None,
    cmap: Any = "viridis",
    plateaus: bool = False,
    xscale: str | None = None,
    yscale: str | None = None,
    **style: Any,
) -> Any:
    """Draw eps_g of all trajectories of a Batch against alpha, coloured by their order.

    Parameters
    ----------
    batch : Batch
        The result to draw.
    ax : Axes, optional
        A new figure by default.
    cmap : str or Colormap
        Colours, from the first trajectory to the last.
    plateaus : bool
        Mark the heights of all plateaus from begin to end, for up to four trajectories with the numbers of unstable
        directions.
    xscale, yscale : {"linear", "log"}, optional
        Scales of alpha and of eps_g, as in :meth:`Trajectory.plot`.
    **style
        Passed to matplotlib's ``LineCollection``.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import overlaps as ov
    >>> model = ov.committee_machine(1, 1, eta=0.5)
    >>> models = [model.replace(eta=eta) for eta in (0.2, 0.5, 1.0)]
    >>> batch = ov.solve_many(models, model.random_start(N=1000, rng=1), [0, 1, 2, 4, 8])
    >>> len(batch.plot().collections[0].get_segments())
    3
    >>> matplotlib.pyplot.close("all")
    """
    from matplotlib.collections import LineCollection

    ax = single_axes(ax)
    curves = np.stack([np.broadcast_to(batch.alpha, batch.eps_g.shape), batch.eps_g], axis=-1)
    style = {"linewidths": 1.0, "alpha": max(0.15, min(1.0, 20 / len(batch)))} | style
    lines = LineCollection(list(curves), array=np.arange(len(batch)), cmap=cmap, **style)
    found_plateaus = batch.plateaus() if check.flag("plateaus", plateaus) else []
    axis(ax, batch.alpha, batch.eps_g, LABELS.error, xscale, yscale)
    ax.add_collection(lines)
    # plateaus of more trajectories are not annotated, because annotations would overlap
    max_annotated = 4
    for plateau in sum(found_plateaus, []):
        mark(ax, plateau, text=len(batch) <= max_annotated)
    ax.autoscale_view()
    return ax


def schedule(best, ax=None, **style):
    r"""Draw the learning rate of an OptimalSchedule against the learning time, and the best constant one.

    Parameters
    ----------
    best : OptimalSchedule
        The result to draw.
    ax : Axes, optional
        A new figure by default.
    **style
        Passed to matplotlib's ``plot``.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import overlaps as ov
    >>> model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5, noise=0.5)
    >>> start = ov.State.from_overlaps(model, Q=[[0.1]], R=[[0.1]], T=[[1.0]])
    >>> ov.optimal_schedule(model, start, 5.0, knots=6).plot().get_ylabel()
    'learning rate $\\eta$'
    >>> matplotlib.pyplot.close("all")
    """
    ax = single_axes(ax)
    axis(ax, best.trajectory.alpha, None, r"learning rate $\eta$", "linear")
    (line,) = ax.plot(best.trajectory.alpha, best.eta, **{"label": "optimum"} | style)
    ax.axhline(best.constant[0], color=line.get_color(), linestyle="--", linewidth=1, label="best constant")
    legend(ax)
    return ax


def eigenvalues(spectrum, ax=None, **style):
    """Draw a Hessian spectrum: for a trajectory outliers as lines and bulk as bands, for a state its density.

    Negative outliers are red.  Each eigenvalue of H_KK has one band, which covers the eigenspaces of the inputs.

    Parameters
    ----------
    spectrum : HessianSpectrum
        Spectrum of a state or of a trajectory (:func:`overlaps.hessian`).
    ax : Axes, optional
        A new figure by default.
    **style
        Passed to matplotlib's ``plot`` for the outliers.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import overlaps as ov
    >>> model = ov.committee_machine(2, 2, eta=0.5)
    >>> traj = ov.solve(model, model.random_start(N=1000, rng=1), (0, 10))
    >>> ov.hessian(model, traj).plot().get_ylabel()
    'eigenvalues of the Hessian'
    >>> matplotlib.pyplot.close("all")
    """
    ax = single_axes(ax)
    style = {"linewidth": 1.2} | style
    if spectrum.outliers.ndim == 1:
        values = spectrum.outliers
        span = np.ptp(np.append(values, spectrum.bulk))
        x = np.linspace(*(np.append(values, spectrum.bulk).min() - 0.05 * span, values.max() + 0.05 * span), 1001)
        ax.fill_between(x, spectrum.density(x), color=grey(ax, 0.25), label="bulk")
        for sign, color in ((values >= 0, "C0"), (values < 0, "C3")):
            ax.vlines(values[sign], 0, 0.3 * ax.get_ylim()[1], color=color, **style)
        ax.set(xlabel="eigenvalues of the Hessian", ylabel="density", ylim=(0, None))
    else:
        axis(ax, spectrum.alpha, None, "eigenvalues of the Hessian")
        for k, band in enumerate(np.moveaxis(spectrum.bulk, 2, 0)):
            line = dict(color=grey(ax, 0.25), linewidth=3, label=None if k else "bulk", zorder=0)
            ax.fill_between(spectrum.alpha, band.min(axis=1), band.max(axis=1), **line)
        for i, curve in enumerate(spectrum.outliers.T):
            ax.plot(spectrum.alpha, curve, **{"color": "C0", "label": None if i else "outliers"} | style)
            below = np.where(curve < 0, curve, np.nan)
            ax.plot(spectrum.alpha, below, **{"color": "C3"} | style | {"label": "negative" if i == 0 else None})
    legend(ax)
    return ax
