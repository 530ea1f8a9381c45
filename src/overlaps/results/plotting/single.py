"""Results that fill one Axes: batches, best schedules, spectra of the Hessian."""

import numpy as np

from ..._base import check
from .looks import ERROR, axis, grey, legend, mark, single_axes

WRITTEN = 4  # trajectories of a batch up to which the growing modes of plateaus are written; of more they overlap


def plot_batch(batch, ax=None, cmap="viridis", plateaus=False, xscale=None, **style):
    """Draw eps_g of all trajectories of a Batch against alpha, coloured in their order.

    Parameters
    ----------
    batch : Batch
        The result to draw.
    ax : Axes, optional
        A new figure by default.
    cmap : str or Colormap
        Colours, from the first trajectory to the last.
    plateaus : bool
        Mark the heights of all plateaus from begin to end, of few trajectories with their numbers of growing modes.
    xscale : {"linear", "log"}, optional
        Scale of alpha.
    **style
        Passed to matplotlib's ``LineCollection``.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import dataclasses, overlaps as ov
    >>> model = ov.committee_machine(1, 1, eta=0.5)
    >>> models = [dataclasses.replace(model, eta=eta) for eta in (0.2, 0.5, 1.0)]
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
    marked = batch.plateaus() if check.flag("plateaus", plateaus) else []
    axis(ax, batch.alpha, batch.eps_g, ERROR, xscale)
    ax.add_collection(lines)
    for plateau in sum(marked, []):
        mark(ax, plateau, text=len(batch) <= WRITTEN)
    ax.autoscale_view()
    return ax


def schedule(best, ax=None, **style):
    r"""Draw the learning rate of an OptimalSchedule against the learning time, and the best constant one.

    Parameters
    ----------
    best : OptimalSchedule
        The result to draw.
    ax : Axes, optional
        A new one by default.
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
    """Draw a Hessian spectrum: outliers as lines and bulk as bands against alpha, or one state's along one axis.

    Negative outliers are red.  The bands reach over the eigenspaces of the inputs, one for each eigenvalue of H_KK.

    Parameters
    ----------
    spectrum : HessianSpectrum
        Of a state or a trajectory (:func:`overlaps.hessian`).
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
