"""Q, R and v in one picture: a hue for each student, full for its own teacher, bands where units are many."""

from dataclasses import dataclass

import numpy as np

from .styles import axis, faint, grey, hues, legend

FEW = 16  # products K M up to which every overlap is a curve; above, those between units are bands
COLUMNS = 4  # of the legend, which then needs one to three rows above the curves
NAMED = 4  # faint overlaps of one kind up to which each has its entry in the legend; above, they share one


@dataclass
class Curve:
    """One curve: its kind (Q, R, m or v), whether it belongs to one student and its teacher, its label, its look."""

    kind: str
    matched: bool
    curve: np.ndarray
    label: str | None
    look: dict


def partners_of(result):
    """Teacher of each student that has one: the assignment of largest sum of R_kj^2 / (Q_kk T_jj) at the last record.

    Runs that start alike may leave a plateau towards different teachers; the sum is their mean.
    """
    from scipy.optimize import linear_sum_assignment

    T = getattr(result, "parts", [result])[-1].T
    Q, R = (np.asarray(x)[..., -1, :, :] for x in (result.Q, result.R))
    T = T[..., T.shape[-1] - R.shape[-1] :, T.shape[-1] - R.shape[-1] :]  # frozen students stand before the teachers
    norms = np.diagonal(Q, axis1=-2, axis2=-1)[..., :, None] * np.diagonal(T, axis1=-2, axis2=-1)[..., None, :]
    with np.errstate(all="ignore"):  # students at zero, and runs that diverged, have no angle
        score = np.nan_to_num(R**2 / norms, posinf=0.0)
    return dict(zip(*linear_sum_assignment(score.mean(axis=tuple(range(score.ndim - 2))), maximize=True), strict=True))


def units(ax, result, partners=None):
    """The overlaps worth a curve: Q upper triangle, R, means of classes, and v when it moves."""
    partners = partners_of(result) if partners is None else partners
    model, Q, R = result.model, result.Q, result.R
    colours = [hues(ax)[k % len(hues(ax))] for k in range(R.shape[-2])]
    hued, apart = [{"color": x, "linestyle": "--", "markerfacecolor": "none"} for x in colours], {"color": grey(ax)}
    curves = [
        Curve("Q", i == j, curve, rf"$Q_{{{i + 1}{j + 1}}}$", hued[i] if i == j else apart)
        for i, j, curve in _entries(Q)
        if i <= j
    ]
    for i, m, curve in _entries(R):
        mine = bool(partners.get(i) == m)
        look = {"color": colours[i], "alpha": 1.0 if mine else faint(ax)}
        curves.append(Curve("R", mine, curve, rf"$R_{{{i + 1}{m + 1}}}$", look))
    if getattr(result, "m", None) is not None:
        for i, c, curve in _entries(result.mean_fields):
            look = {"color": colours[i], "linestyle": "-."}
            curves.append(Curve("m", c == 0, curve, rf"$m_{{{i + 1}{c + 1}}}$", look))
    if model.trains_v and result.v.ndim == 2 + result.is_ensemble:
        looks = [{"color": x, "linestyle": ":"} for x in colours]
        curves += [Curve("v", True, result.v[..., i], rf"$v_{{{i + 1}}}$", look) for i, look in enumerate(looks)]
    return curves


def few(model):
    """Whether every overlap has a curve of its own."""
    return model.K * max(model.M, 1) <= FEW


def draw_overlaps(ax, result, xscale=None, partners=None, **style):
    """Draw each overlap, or those between units as bands; name each once, and the many of a kind together."""
    draw = draw_runs if result.is_ensemble else draw_line
    entries, single, colours = units(ax, result, partners), few(result.model), hues(ax)
    named = {artist.get_label() for artist in [*ax.lines, *ax.collections]}
    axis(ax, result.alpha, None, "overlaps", xscale)
    style = {key: x for key, x in style.items() if key not in ("color", "c", "label")}  # markers sit on their lines
    for number, kind in enumerate(dict.fromkeys(entry.kind for entry in entries)):
        alike = [entry for entry in entries if entry.kind == kind]
        matched, others = ([x for x in alike if x.matched is mine] for mine in (True, False))
        shared = len(others) > (1 if kind == "Q" else NAMED)  # the greys cannot be told apart
        texts = {"own": rf"${kind}$, own" if others else f"${kind}$", "others": rf"${kind}$, others"}
        for entry in alike if single else matched:
            text = texts["own" if entry.matched else "others"]
            text = entry.label if single and (entry.matched or not shared) else text
            look = entry.look if single else entry.look | {"color": colours[number], "linewidth": 0.8}
            if result.is_ensemble:  # markers alone
                look = {key: x for key, x in look.items() if key != "linestyle"}
            dim = {"alpha": look.get("alpha", 1.0) * style["alpha"]} if "alpha" in style else {}
            draw(ax, result.alpha, entry.curve, **look | {"label": None if text in named else text} | style | dim)
            named.add(text)
        if others and not single:
            curves = np.array([x.curve.mean(axis=0) if result.is_ensemble else x.curve for x in others])
            text = None if texts["others"] in named else texts["others"]
            low, high = curves.min(axis=0), curves.max(axis=0)
            ax.fill_between(result.alpha, low, high, color=colours[number], alpha=faint(ax), linewidth=0, label=text)
    legend(ax, ncols=COLUMNS, fontsize="small", frameon=True, edgecolor="none", handlelength=1.4, columnspacing=1.0)
    _headroom(ax, entries)


def _headroom(ax, entries):
    """Make room above the curves for the rows of the legend, unless somebody has set limits."""
    values, texts = np.concatenate([x.curve[np.isfinite(x.curve)] for x in entries]), ax.get_legend().get_texts()
    rows = 1.6 / 72 * sum(text.get_fontsize() for text in texts[::COLUMNS])  # inches
    share = min(0.5, rows * ax.figure.dpi / ax.get_window_extent().height)
    if values.size:  # of runs that reached no record all is nan
        ax.update_datalim([(0.0, values.max() + share / (1 - share) * np.ptp(values))], updatex=False)


def _entries(x):
    """(i, c, curve) of arrays (..., n, K, C)."""
    return [(i, c, x[..., i, c]) for i in range(x.shape[-2]) for c in range(x.shape[-1])]


def draw_line(ax, alpha, curve, /, **style):
    """A solution."""
    ax.plot(alpha, curve, **style)


def draw_runs(ax, alpha, curves, /, **style):
    """Runs: markers at their mean, and a band between quantiles."""
    style = {"marker": "o", "markersize": 3.5, "linestyle": "none", "markevery": max(1, len(alpha) // 25)} | style
    (line,) = ax.plot(alpha, curves.mean(axis=0), **style)
    if len(curves) > 1:
        low, high = np.quantile(curves, [0.16, 0.84], axis=0)
        ax.fill_between(alpha, low, high, color=line.get_color(), alpha=0.2 * (line.get_alpha() or 1), linewidth=0)
