"""View of objects in notebooks: a small table, a matrix, a curve, in plain HTML and SVG.

No plotting library is loaded for it, because a notebook shows the result of every cell.
"""

import html
from typing import NamedTuple

import numpy as np


class ViewSize(NamedTuple):
    """Sizes of the elements."""

    curve_width: int = 240  # px
    curve_height: int = 60  # px
    max_matrix: int = 4  # rows or columns up to which entries of a matrix are shown


VIEW = ViewSize()


def table(title, rows):
    """A heading and two columns; values that begin with "<" are taken as HTML."""
    left = "style='text-align:left'"
    cells = [f"<tr><th {left}>{html.escape(name)}</th><td {left}>{_cell(x)}</td></tr>" for name, x in rows.items()]
    return f"<div><b>{html.escape(title)}</b><table>{''.join(cells)}</table></div>"


def _cell(value):
    return value if str(value).startswith("<") else html.escape(str(value))


def numbers(array):
    """A small array on one line, with four digits."""
    array = np.asarray(array)
    if array.ndim == 0:
        return f"{array.item():.4g}"
    return f"[{', '.join(map(numbers, array))}]"


def matrix(array):
    """A small matrix as a table; the shape of a larger one."""
    array = np.atleast_2d(array)
    if max(array.shape) > VIEW.max_matrix:
        return f"{array.shape[0]} x {array.shape[1]}"
    rows = ("".join(f"<td>{x:.4g}</td>" for x in row) for row in array)
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def curve(x, y):
    """A line against x, logarithmic in y if all values are positive."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    finite = np.isfinite(y)
    if finite.sum() < 2:
        return "no curve"
    x, y = x[finite], y[finite]
    ends = f"{y[0]:.3g} → {y[-1]:.3g}"
    y = np.log(y) if y.min() > 0 else y
    width, height = VIEW.curve_width, VIEW.curve_height
    pick = np.unique(np.linspace(0, x.size - 1, min(x.size, width)).astype(int))
    across = (x[pick] - x[0]) / (x[-1] - x[0]) * (width - 4) + 2
    down = height - 2 - (y[pick] - y.min()) / (np.ptp(y) or 1) * (height - 4)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, down, strict=True))
    return (
        f"<svg width='{width}' height='{height}' role='img' aria-label='{ends}'><polyline points='{points}' "
        f"fill='none' stroke='#1f77b4' stroke-width='1.5'/></svg><br>{ends}"
    )
