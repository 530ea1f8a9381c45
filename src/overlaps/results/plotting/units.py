"""Q, R and v in one figure: a colour for each student, full for its own teacher; bands if there are many units."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .styles import axis, faint_opacity, grey, hues, legend, resolved


class OverlapFigure(NamedTuple):
    """Limits of a figure of overlaps."""

    max_curves: int = 16  # K M up to which every overlap has a curve; with more, overlaps between units are bands
    max_entries: int = 4  # faint overlaps of one kind up to which each has an entry in the legend; more share one
    legend_columns: int = 4  # the legend then has one to three lines above the curves


FIGURE = OverlapFigure()
# names of several overlaps of one kind: of a student with itself or its teacher (or class 1), and all others
NAMES = {
    "Q": ("$Q_{kk}$", "$Q_{kj}$"),
    "R": ("$R$, own", "$R$, others"),
    "m": ("$m_{k1}$", "$m$, others"),
    "v": ("$v_k$", ""),
}


@dataclass
class Curve:
    """One curve: its kind (Q, R, m or v), whether it belongs to one student and its teacher, its label and style."""

    kind: str
    matched: bool
    curve: np.ndarray
    label: str | None
    style: dict


def partners_of(result):
    """Return the teacher of each student: the assignment with the largest sum of R_kj^2 / (Q_kk T_jj) at the end.

    For runs the mean of the sum is used, because equal starts may leave a plateau towards different teachers.
    """
    from scipy.optimize import linear_sum_assignment

    T = getattr(result, "parts", [result])[-1].T
    Q, R = (np.asarray(x)[..., -1, :, :] for x in (result.Q, result.R))
    T = T[..., T.shape[-1] - R.shape[-1] :, T.shape[-1] - R.shape[-1] :]  # the teachers follow the frozen students
    norms = np.diagonal(Q, axis1=-2, axis2=-1)[..., :, None] * np.diagonal(T, axis1=-2, axis2=-1)[..., None, :]
    with np.errstate(all="ignore"):  # the angle is undefined for students at zero and runs that diverged
        score = np.nan_to_num(R**2 / norms, posinf=0.0)
    return dict(zip(*linear_sum_assignment(score.mean(axis=tuple(range(score.ndim - 2))), maximize=True), strict=True))


def units(ax, result, partners=None, hue=None):
    """Return the curves of a figure: the upper triangle of Q, R, means of classes, and v if it is trained.

    All have the colour ``hue`` if it is given, otherwise each student has one.
    """
    partners = partners_of(result) if partners is None else partners
    model, Q, R = result.model, result.Q, result.R
    colours = [hue or hues(ax)[k % len(hues(ax))] for k in range(R.shape[-2])]
    norm_styles = [{"color": x, "linestyle": "--", "markerfacecolor": "none"} for x in colours]
    between = {"color": grey(ax)} if hue is None else norm_styles[0] | {"alpha": faint_opacity(ax)}
    curves = [
        Curve("Q", i == j, curve, rf"$Q_{{{i + 1}{j + 1}}}$", norm_styles[i] if i == j else between)
        for i, j, curve in _entries(Q)
        if i <= j
    ]
    for i, m, curve in _entries(R):
        own = bool(partners.get(i) == m)
        style = {"color": colours[i], "alpha": 1.0 if own else faint_opacity(ax)}
        curves.append(Curve("R", own, curve, rf"$R_{{{i + 1}{m + 1}}}$", style))
    if getattr(result, "m", None) is not None:
        for i, c, curve in _entries(result.mean_fields):
            style = {"color": colours[i], "linestyle": "-."}
            curves.append(Curve("m", c == 0, curve, rf"$m_{{{i + 1}{c + 1}}}$", style))
    if model.trains_v and result.v.ndim == 2 + result.is_ensemble:
        styles = [{"color": x, "linestyle": ":"} for x in colours]
        curves += [Curve("v", True, result.v[..., i], rf"$v_{{{i + 1}}}$", style) for i, style in enumerate(styles)]
    return curves


def has_few_units(model):
    """Whether every overlap has a curve of its own."""
    return model.K * max(model.M, 1) <= FIGURE.max_curves


def draw_overlaps(ax, result, xscale=None, partners=None, hue=None, **style):
    """Draw every overlap, or overlaps between many units as bands; each label appears once in the legend.

    With a ``hue`` all curves have this colour, and the legend names kinds of overlaps.
    """
    draw = draw_runs if result.is_ensemble else draw_line
    entries, single, colours = units(ax, result, partners, hue), has_few_units(result.model), hues(ax)
    named = {artist.get_label() for artist in [*ax.lines, *ax.collections]}
    axis(ax, result.alpha, None, "overlaps", xscale)
    # colours and labels are fixed, so that runs and solutions of an overlap match
    style = {key: x for key, x in style.items() if key not in ("color", "c", "label")}
    for number, kind in enumerate(dict.fromkeys(entry.kind for entry in entries)):
        of_kind = [entry for entry in entries if entry.kind == kind]
        matched, others = ([x for x in of_kind if x.matched is own] for own in (True, False))
        # others of Q share an entry of the legend because all are grey
        shared = len(others) > (1 if kind == "Q" else FIGURE.max_entries)
        color, (own, other) = hue or colours[number], NAMES[kind]
        # in the legend of kinds, own overlaps come first
        for entry in matched if not single else [*matched, *others] if hue else of_kind:
            text = own if entry.matched else other
            text = entry.label if single and not hue and (entry.matched or not shared) else text
            line_style = entry.style if single else entry.style | {"color": color, "linewidth": 0.8}
            if result.is_ensemble:  # only markers
                line_style = {key: x for key, x in line_style.items() if key != "linestyle"}
            opacity = {"alpha": line_style.get("alpha", 1.0) * style["alpha"]} if "alpha" in style else {}
            label = {"label": None if text in named else text}
            draw(ax, result.alpha, entry.curve, **line_style | label | style | opacity)
            named.add(text)
        if others and not single:
            curves = np.array([x.curve.mean(axis=0) if result.is_ensemble else x.curve for x in others])
            text = None if other in named else other
            band = {"color": color, "alpha": faint_opacity(ax), "linewidth": 0, "label": text}
            ax.fill_between(result.alpha, curves.min(axis=0), curves.max(axis=0), **band)
    options = {"frameon": True, "edgecolor": "none", "handlelength": 1.4, "columnspacing": 1.0}
    drawn = legend(ax, ncols=FIGURE.legend_columns, fontsize="small", **options)
    for handle in drawn.legend_handles if drawn and hue and single else []:
        handle.set_color(grey(ax, 0.8))  # kinds of overlaps are those of all results
    _extend_above(ax, entries)


def _extend_above(ax, entries):
    """Extend the data limits above the curves by the height of the legend; limits that the user has set remain."""
    values, texts = np.concatenate([x.curve[np.isfinite(x.curve)] for x in entries]), ax.get_legend().get_texts()
    height = 1.6 / 72 * sum(text.get_fontsize() for text in texts[:: FIGURE.legend_columns])  # inches
    fraction = min(0.5, height * ax.figure.dpi / ax.get_window_extent().height)
    if values.size:  # it is empty if no run reached a record
        ax.update_datalim([(0.0, values.max() + fraction / (1 - fraction) * np.ptp(values))], updatex=False)


def _entries(x):
    """Return (i, c, curve) for all entries of an array (..., n, K, C)."""
    return [(i, c, x[..., i, c]) for i in range(x.shape[-2]) for c in range(x.shape[-1])]


def draw_error(ax, result, **style):
    """Draw eps_g of a solution or of runs; the axis of alpha also covers times where it is not resolved."""
    draw = draw_runs if result.is_ensemble else draw_line
    draw(ax, result.alpha, resolved(result, ax.get_yscale() == "log"), **style)
    ax.update_datalim([(result.alpha[-1], 1.0)], updatey=False)


def draw_line(ax, alpha, curve, /, **style):
    """Draw a curve of a solution."""
    ax.plot(alpha, curve, **style)


def draw_runs(ax, alpha, curves, /, **style):
    """Draw a curve of runs: markers at their mean, and a band between quantiles."""
    style = {"marker": "o", "markersize": 3.5, "linestyle": "none", "markevery": max(1, len(alpha) // 25)} | style
    (line,) = ax.plot(alpha, curves.mean(axis=0), **style)
    if len(curves) > 1:
        low, high = np.quantile(curves, [0.16, 0.84], axis=0)
        opacity = 0.8 * faint_opacity(ax) * (line.get_alpha() or 1)
        ax.fill_between(alpha, low, high, color=line.get_color(), alpha=opacity, linewidth=0)
