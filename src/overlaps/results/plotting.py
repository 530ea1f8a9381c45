"""Pictures of results.  The only module that draws; matplotlib is imported at the first plot."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from .._base import check

__all__ = [
    "approach",
    "compare",
    "eigenvalues",
    "fluctuations",
    "plot",
    "plot_batch",
    "plot_fluctuations",
    "plot_stages",
    "schedule",
]

LOG_RANGE = 30.0  # a positive curve that spans more than this factor is drawn on a log axis
SINGLE = 16  # products K M up to which every overlap is a curve; above, those between units are bands
NAMED = 4  # faint overlaps of one kind up to which each has its entry in the legend; above, they share one
OURS = "overlaps"  # mark of a legend that a later call replaces; one without it is the user's
ERROR = r"generalisation error $\epsilon_g$"
TIME = r"learning time $\alpha$ = steps / $N$"
# one for each student, then again: Okabe and Ito (2008), told apart by the colour-blind, their yellow in wine
HUES = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#882255"


def plot(result, ax=None, plateaus=False, xscale=None, **style):
    r"""Draw eps_g (left) and the overlaps Q, R, v (right) of a Trajectory or an Ensemble against alpha.

    A trajectory is drawn as lines.  Runs are drawn as markers at their mean, with a band between the 16 % and 84 %
    quantiles when there are several.  Each student has a hue: full for R with its own teacher, that of the assignment
    of largest sum of R_kj^2 / (Q_kk T_jj) at the last record, faint for the others; Q_kk is dashed (hollow markers),
    Q_kj grey.  Above K M = 16 the hues are those of the kinds, and bands reach from the smallest to the largest of
    the others.

    Parameters
    ----------
    result : Trajectory or Ensemble
        What to draw.
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
    ax, axes = _panels(ax)
    marked = result.plateaus() if check.flag("plateaus", plateaus) else []
    label = style.pop("label", None) or _name(result)
    draw = _draw_runs if result.is_ensemble else _draw_line
    _axis(axes[0], result.alpha, result.eps_g, ERROR, xscale)
    draw(axes[0], result.alpha, result.eps_g, label=label, **style)
    if getattr(result, "test_error", None) is not None:
        draw(axes[0], result.alpha, result.test_error, label="error on fresh samples", marker="x", linestyle="none")
    for plateau in marked:
        _mark(axes[0], plateau)
    _legend(axes[0])
    for panel in axes[1:]:
        _draw_overlaps(panel, result, xscale, **style)
    return ax


def plot_stages(result, ax=None, **style):
    """Draw the errors on all tasks (left) and the overlaps (right) of a result through Stages, and the switches.

    Parameters
    ----------
    result : StagedTrajectory or StagedEnsemble
        What to draw.
    ax : Axes or pair of Axes, optional
        A new figure by default; a single Axes receives the errors only.
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
    ax, axes = _panels(ax)
    draw = _draw_runs if result.is_ensemble else _draw_line
    errors = np.array([result.error(i) for i in range(len(result.model))])
    _axis(axes[0], result.alpha, errors, ERROR)
    named = {line.get_label() for line in axes[0].lines}
    for i, curve in enumerate(errors):
        text = f"task {i + 1}"
        look = {"color": HUES[i % len(HUES)], "label": None if text in named else text}
        draw(axes[0], result.alpha, curve, **look | style)
    _legend(axes[0])
    for panel in axes[1:]:
        _draw_overlaps(panel, result, **style)
    for panel in axes:
        for switch in result.model.until[:-1]:
            panel.axvline(switch, color="0.7", linewidth=1, zorder=0)
    return ax


def plot_fluctuations(result, ax=None, band=2.0, **style):
    r"""Draw the equations as lines, the means of SGD at finite N dashed, and bands of +- ``band`` standard deviations.

    Runs drawn on the same axes lie on their bands: ``ax = runs.plot(); fluct.plot(ax=ax)``.

    Parameters
    ----------
    result : Fluctuations
        What to draw.
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
    panels = np.atleast_1d(axes)
    label = f"mean, ± {band:g} std at N = {result.N}"
    color, partners = panels[0].get_lines()[before].get_color(), _partners(result.trajectory)
    _draw_expansion(panels, result, band, color, label, partners)
    return axes


def compare(*results: Any, labels: Sequence[str] | None = None, ax: Any = None, xscale: str | None = None) -> Any:
    r"""Draw theory, error bars of finite N and SGD of one network in one figure; its legend says which is which.

    Overlaps keep their colours: each solution has lines (the first thin, later ones broad and pale), runs have markers
    at their mean and quantile bands as in :meth:`Trajectory.plot`, and fluctuations have dashed means with bands of
    two standard deviations.

    Parameters
    ----------
    *results : Trajectory, Ensemble or Fluctuations
        Of networks with the same numbers of students and teachers.
    labels : sequence of str, optional
        One for each result; by default ODE, SGD or mean, with N.
    ax : Axes or pair of Axes, optional
        A new figure by default; a single Axes receives eps_g only.
    xscale : {"linear", "log"}, optional
        Scale of alpha.

    Returns
    -------
    Axes or array of Axes
        As passed in, or the new pair.

    Raises
    ------
    ValueError
        No result, one of another kind or size, or not one label for each.

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
    ax, axes = _panels(ax)
    at_N = [hasattr(result, "trajectory") for result in results]
    partners = _partners(results[0].trajectory if at_N[0] else results[0])
    seen = {True: 0, False: 0}
    for i in np.argsort(at_N, kind="stable"):  # bands of fluctuations are cut at the edge of what is drawn before
        result, color = results[i], HUES[i % len(HUES)]
        if at_N[i]:
            _axis(axes[0], result.alpha, result.mean("eps_g"), ERROR, xscale)
            _draw_expansion(axes, result, 2.0, color, labels[i], partners)
            continue
        n = seen[result.is_ensemble]
        seen[result.is_ensemble] += 1
        style = {"marker": "os^Dv"[n % 5]} if result.is_ensemble else {"linewidth": 4, "alpha": 0.35} if n else {}
        _axis(axes[0], result.alpha, result.eps_g, ERROR, xscale)
        draw = _draw_runs if result.is_ensemble else _draw_line
        draw(axes[0], result.alpha, result.eps_g, color=color, label=labels[i], **style)
        for panel in axes[1:]:
            _draw_overlaps(panel, result, xscale, partners, **style)
    _legend(axes[0])
    return ax


def _compared(results, labels):
    """One label for each result of a comparison, no two of them alike by default."""
    if not results:
        raise ValueError("compare() came without results; expected trajectories, ensembles and fluctuations.")
    for i, x in enumerate(results):
        if not hasattr(x, "trajectory") and (getattr(x, "_picture", None) != "plot" or hasattr(x, "models")):
            kinds = "a Trajectory, an Ensemble or Fluctuations"
            raise ValueError(f"results[{i}] is a {type(x).__name__}; expected {kinds} (of a Batch take batch[i]).")
        sizes = [(y.model.K, y.model.M) for y in (results[0], x)]
        if sizes[0] != sizes[1]:
            raise ValueError(f"results[{i}] has (K, M) = {sizes[1]}, results[0] has {sizes[0]}; expected the same.")
    if labels is None:
        names = [f"mean, ± 2 std at N = {x.N}" if hasattr(x, "trajectory") else _name(x) for x in results]
        return [f"{x} ({names[: i + 1].count(x)})" if names.count(x) > 1 else x for i, x in enumerate(names)]
    texts = isinstance(labels, list | tuple) and all(isinstance(x, str) for x in labels)
    if not texts or len(labels) != len(results):
        raise ValueError(f"labels = {check.shown(labels)}; expected {len(results)} of them, a text for each result.")
    return list(labels)


def _draw_expansion(axes, result, band, color, label, partners):
    """Means dashed, and bands of so many standard deviations; of many units those of each and its own teacher."""
    names = ["eps_g", "Q", "R", *(["v"] if result.model.trains_v else [])]
    means, stds = (SimpleNamespace(model=result.model, **{n: f(n) for n in names}) for f in (result.mean, result.std))
    _draw_band(axes[0], result.alpha, means.eps_g, band * stds.eps_g, color, positive=True, label=label)
    _legend(axes[0])
    for panel in axes[1:]:
        _axis(panel, result.alpha, None, "overlaps")
        for mean, std in zip(_overlaps(means, partners), _overlaps(stds, partners), strict=True):
            if mean.own or _single(result.model):
                _draw_band(panel, result.alpha, mean.curve, band * std.curve, mean.look["color"])


def _draw_band(ax, alpha, mean, half, color, positive=False, label=None):
    low, high = mean - half, mean + half
    if positive and ax.get_yscale() == "log":  # a band that reaches zero is cut at the lower edge of the picture
        low = np.maximum(low, ax.get_ylim()[0])
    ax.plot(alpha, mean, color=color, linestyle="--", linewidth=1)
    ax.fill_between(alpha, low, high, color=color, alpha=0.2, linewidth=0, label=label)


def schedule(best, ax=None, **style):
    r"""Draw the learning rate of an OptimalSchedule against the learning time, and the best constant one.

    Parameters
    ----------
    best : OptimalSchedule
        What was found.
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
    ax = _new_axes(ax)
    _axis(ax, best.trajectory.alpha, None, r"learning rate $\eta$", "linear")
    (line,) = ax.plot(best.trajectory.alpha, best.eta, **{"label": "optimum"} | style)
    ax.axhline(best.constant[0], color=line.get_color(), linestyle="--", linewidth=1, label="best constant")
    _legend(ax)
    return ax


def plot_batch(batch, ax=None, cmap="viridis", **style):
    """Draw eps_g of all trajectories of a Batch against alpha, coloured in their order.

    Parameters
    ----------
    batch : Batch
        What to draw.
    ax : Axes, optional
        A new figure by default.
    cmap : str or Colormap
        Colours, from the first trajectory to the last.
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

    ax = _new_axes(ax)
    curves = np.stack([np.broadcast_to(batch.alpha, batch.eps_g.shape), batch.eps_g], axis=-1)
    style = {"linewidths": 1.0, "alpha": max(0.15, min(1.0, 20 / len(batch)))} | style
    lines = LineCollection(list(curves), array=np.arange(len(batch)), cmap=cmap, **style)
    _axis(ax, batch.alpha, batch.eps_g, ERROR)
    ax.add_collection(lines)
    ax.autoscale_view()
    return ax


def fluctuations(ensembles, ax=None):
    """Draw N times the variance over runs of every Q, R (and v) against N, at the last record.

    Overlaps of SGD fluctuate like 1 / sqrt(N), so the curves are flat; error bars are those of a variance estimated
    from that many runs of a Gaussian, relative sqrt(2 / (runs - 1)).

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
        An ensemble of one run.

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
    ax = _new_axes(ax)
    ensembles = sorted(ensembles, key=lambda e: e.N)
    if any(len(e) < 2 for e in ensembles):
        raise ValueError("one run has no variance; every ensemble needs runs >= 2.")
    N = np.array([e.N for e in ensembles])
    families = [_overlaps(e, _partners(ensembles[-1])) for e in ensembles]
    relative = np.sqrt(2 / (np.array([len(e) for e in ensembles]) - 1))
    for entries in zip(*families, strict=True):
        scaled = N * np.array([entry.curve[:, -1].var(ddof=1) for entry in entries])
        look = entries[0].look | {"marker": "o", "markersize": 4, "capsize": 2}
        ax.errorbar(N, scaled, relative * scaled, label=entries[0].label, **look)
    ax.set(xscale="log", xlabel="input dimension $N$", ylabel=r"$N \times$ variance over runs")
    ax.set_ylim(bottom=0)
    ax.grid(alpha=0.25)
    ax.legend(frameon=False, ncols=2, fontsize="small")
    return ax


def approach(ensembles, theory, ax=None, **style):
    """Draw the root-mean-square distance of single runs from the ODE against N, beside its law 1 / sqrt(N).

    The mean is over runs, entries of Q and R, and the records after the start.

    Parameters
    ----------
    ensembles : sequence of Ensemble
        The same model at several N, from one start.
    theory : Trajectory
        The ODE from that start, recorded at times that include those of the ensembles.
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
    ax = _new_axes(ax)
    ensembles = sorted(ensembles, key=lambda e: e.N)
    N = np.array([e.N for e in ensembles])
    gaps = np.array([distance(e, theory) for e in ensembles])
    ax.loglog(N, gaps, **{"marker": "o", "label": "SGD"} | style)
    guide = np.sqrt(np.exp(np.mean(np.log(gaps**2 * N))) / N)
    ax.loglog(N, guide, color="0.6", linestyle="--", zorder=0, label=r"$\propto N^{-1/2}$")
    ax.set(xlabel="input dimension $N$", ylabel="rms distance of $Q$, $R$ from the ODE")
    ax.grid(alpha=0.25)
    ax.legend(frameon=False)
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
    ax = _new_axes(ax)
    style = {"linewidth": 1.2} | style
    if spectrum.outliers.ndim == 1:
        values = spectrum.outliers
        span = np.ptp(np.append(values, spectrum.bulk))
        x = np.linspace(*(np.append(values, spectrum.bulk).min() - 0.05 * span, values.max() + 0.05 * span), 1001)
        ax.fill_between(x, spectrum.density(x), color="0.75", label="bulk")
        for sign, color in ((values >= 0, "C0"), (values < 0, "C3")):
            ax.vlines(values[sign], 0, 0.3 * ax.get_ylim()[1], color=color, **style)
        ax.set(xlabel="eigenvalues of the Hessian", ylabel="density", ylim=(0, None))
    else:
        _axis(ax, spectrum.alpha, None, "eigenvalues of the Hessian")
        for k, band in enumerate(np.moveaxis(spectrum.bulk, 2, 0)):
            line = dict(color="0.75", linewidth=3, label=None if k else "bulk", zorder=0)
            ax.fill_between(spectrum.alpha, band.min(axis=1), band.max(axis=1), **line)
        for i, curve in enumerate(spectrum.outliers.T):
            ax.plot(spectrum.alpha, curve, **{"color": "C0", "label": None if i else "outliers"} | style)
            below = np.where(curve < 0, curve, np.nan)
            ax.plot(spectrum.alpha, below, **{"color": "C3"} | style | {"label": "negative" if i == 0 else None})
    _legend(ax)
    return ax


def distance(ensemble, theory):
    """Root-mean-square distance of single runs from the ODE, over runs, entries of Q and R, and records."""
    # recorded times of SGD are whole steps: the nearest time of the theory is at most half a step away
    later = ensemble.alpha > ensemble.alpha[0]
    at = [int(np.argmin(np.abs(theory.alpha - a))) for a in ensemble.alpha[later]]
    if np.max(np.abs(theory.alpha[at] - ensemble.alpha[later])) > 0.51 / ensemble.N:
        raise ValueError(
            f"theory is not recorded at the times of the runs at N = {ensemble.N}; solve it on their alpha."
        )
    gaps = [(getattr(ensemble, x)[:, later] - getattr(theory, x)[at]).ravel() for x in ("Q", "R")]
    return np.sqrt(np.mean(np.concatenate(gaps) ** 2))


def _new_axes(ax):
    from matplotlib import pyplot as plt

    if ax is None:
        ax = plt.subplots(figsize=(5.5, 4), layout="constrained")[1]
        ax.grid(alpha=0.25)
    return ax


def _panels(ax):
    """What to return, and the Axes to draw on: those given, or a new pair."""
    from matplotlib import pyplot as plt

    if ax is None:
        _, ax = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
        for panel in ax:
            panel.grid(alpha=0.25)
    axes = np.array(ax, dtype=object, ndmin=1)
    if not axes.size or not all(hasattr(a, "plot") for a in axes):
        raise ValueError(
            f"ax = {check.shown(ax)}; expected matplotlib Axes, or a pair of them such as plt.subplots(1, 2)[1]."
        )
    return ax, axes


@dataclass
class _Overlap:
    """One curve: its kind (Q, R, m or v), whether it belongs to one student and its teacher, its label, its look."""

    kind: str
    own: bool
    curve: np.ndarray
    label: str | None
    look: dict


def _partners(result):
    """Teacher of each student that has one: the assignment of largest sum of R_kj^2 / (Q_kk T_jj) at the last record.

    Runs that start alike may leave a plateau towards different teachers; the sum is their mean.
    """
    from scipy.optimize import linear_sum_assignment

    T = getattr(result, "parts", [result])[-1].T
    Q, R = (np.asarray(x)[..., -1, :, :] for x in (result.Q, result.R))
    norms = np.diagonal(Q, axis1=-2, axis2=-1)[..., :, None] * np.diagonal(T, axis1=-2, axis2=-1)[..., None, :]
    with np.errstate(all="ignore"):  # students at zero, and runs that diverged, have no angle
        score = np.nan_to_num(R**2 / norms, posinf=0.0)
    return dict(zip(*linear_sum_assignment(score.mean(axis=tuple(range(score.ndim - 2))), maximize=True), strict=True))


def _overlaps(result, partners=None):
    """The overlaps worth a curve: Q upper triangle, R, means of classes, and v when it moves."""
    partners = _partners(result) if partners is None else partners
    model, Q, R = result.model, result.Q, result.R
    K, M = model.K, model.M
    hues = [HUES[k % len(HUES)] for k in range(K)]
    own, grey = [{"color": hue, "linestyle": "--", "markerfacecolor": "none"} for hue in hues], {"color": "0.65"}
    found = []
    for i in range(K):
        for j in range(i, K):
            found.append(_Overlap("Q", i == j, Q[..., i, j], rf"$Q_{{{i + 1}{j + 1}}}$", own[i] if i == j else grey))
    for i in range(K):
        for m in range(M):
            mine = bool(partners.get(i) == m)
            look = {"color": hues[i], "alpha": 1.0 if mine else 0.25}
            found.append(_Overlap("R", mine, R[..., i, m], rf"$R_{{{i + 1}{m + 1}}}$", look))
    if getattr(result, "m", None) is not None:
        for i, c, curve in _entries(result.mean_fields):
            look = {"color": hues[i], "linestyle": "-."}
            found.append(_Overlap("m", c == 0, curve, rf"$m_{{{i + 1}{c + 1}}}$", look))
    if model.trains_v:
        looks = [{"color": hue, "linestyle": ":"} for hue in hues]
        found += [_Overlap("v", True, result.v[..., i], rf"$v_{{{i + 1}}}$", looks[i]) for i in range(K)]
    return found


def _single(model):
    return model.K * max(model.M, 1) <= SINGLE


def _draw_overlaps(ax, result, xscale=None, partners=None, **style):
    """Draw each overlap, or those between units as bands; name each once, and the many of a kind together."""
    draw = _draw_runs if result.is_ensemble else _draw_line
    entries, single = _overlaps(result, partners), _single(result.model)
    named = {artist.get_label() for artist in [*ax.lines, *ax.collections]}
    _axis(ax, result.alpha, None, "overlaps", xscale)
    style = {key: x for key, x in style.items() if key not in ("color", "c", "label")}  # markers sit on their lines
    for number, kind in enumerate(dict.fromkeys(entry.kind for entry in entries)):
        alike = [entry for entry in entries if entry.kind == kind]
        own, others = ([x for x in alike if x.own is mine] for mine in (True, False))
        shared = len(others) > (1 if kind == "Q" else NAMED)  # the greys cannot be told apart
        texts = {"own": rf"${kind}$, own" if others else f"${kind}$", "others": rf"${kind}$, others"}
        for entry in alike if single else own:
            text = entry.label
            if not single or (shared and not entry.own):
                text = texts["own" if entry.own else "others"]
            look = entry.look if single else entry.look | {"color": HUES[number], "linewidth": 0.8}
            if result.is_ensemble:  # markers alone
                look = {key: x for key, x in look.items() if key != "linestyle"}
            faint = {"alpha": look.get("alpha", 1.0) * style["alpha"]} if "alpha" in style else {}
            draw(ax, result.alpha, entry.curve, **look | {"label": None if text in named else text} | style | faint)
            named.add(text)
        if others and not single:
            curves = np.array([x.curve.mean(axis=0) if result.is_ensemble else x.curve for x in others])
            text = None if texts["others"] in named else texts["others"]
            low, high = curves.min(axis=0), curves.max(axis=0)
            ax.fill_between(result.alpha, low, high, color=HUES[number], alpha=0.25, linewidth=0, label=text)
    _legend(ax, ncols=2, fontsize="small", frameon=True, framealpha=0.7, edgecolor="none", handlelength=1.4)


def _entries(x):
    """(i, c, curve) of arrays (..., n, K, C)."""
    return [(i, c, x[..., i, c]) for i in range(x.shape[-2]) for c in range(x.shape[-1])]


def _draw_line(ax, alpha, curve, /, **style):
    ax.plot(alpha, curve, **style)


def _draw_runs(ax, alpha, curves, /, **style):
    style = {"marker": "o", "markersize": 3.5, "linestyle": "none", "markevery": max(1, len(alpha) // 25)} | style
    (line,) = ax.plot(alpha, curves.mean(axis=0), **style)
    if len(curves) > 1:
        low, high = np.quantile(curves, [0.16, 0.84], axis=0)
        ax.fill_between(alpha, low, high, color=line.get_color(), alpha=0.2 * (line.get_alpha() or 1), linewidth=0)


def _mark(ax, plateau):
    """A thin line at the height of a plateau, from its begin to its end, with its number of growing modes."""
    ax.plot(plateau.alpha, [plateau.height] * 2, color="0.3", linewidth=0.8)
    text = "rates unknown" if plateau.growing < 0 else f"{plateau.growing} growing"
    place = {"xytext": (3, 3), "textcoords": "offset points", "fontsize": 7, "color": "0.3"}
    ax.annotate(text, (plateau.alpha[0], plateau.height), **place)


def _axis(ax, alpha, curve, label, xscale=None):
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


def _legend(ax, **style):
    """The legend of what is drawn by now, in place of an earlier one of ours."""
    old = ax.get_legend()
    if (old is None or old.get_gid() == OURS) and ax.get_legend_handles_labels()[1]:
        ax.legend(**{"frameon": False} | style).set_gid(OURS)


def _name(result):
    return f"SGD, N = {result.N}" if result.is_ensemble else "ODE, N → ∞"
