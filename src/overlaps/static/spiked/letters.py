"""Letters of the initial readout: distinct values t_b with their fractions, and continuous laws as quadratures."""

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh_tridiagonal

from ..._base import check
from ...gaussian.quadrature import legendre


class LetterOptions(NamedTuple):
    """Tunable numbers of the quadrature of a continuous law."""

    # Gauss-Legendre panels under the density.
    panels: int = 400
    # Probability of each tail of the law that is cut off.
    tail: float = 1e-15
    # Error of the mass of the density above which the law is refused.
    mass_tol: float = 1e-9


LETTERS = LetterOptions()


def merged_letters(readout, fractions):
    """Distinct absolute values of the initial readout's letters, ascending, and their fractions.

    An odd activation makes t and -t one letter: the signs of those readout components are flipped.
    """
    values = check.array(
        "readout", readout, ("B",), "It lists the values t_b of sqrt(p) a_i, such as (1.0,).", filled=True
    )
    fractions = checked_fractions("readout", values.size, fractions)
    distinct, index = np.unique(np.round(np.abs(values), 14), return_inverse=True)
    return distinct, np.bincount(index, weights=fractions)


def law_of(readout):
    """The continuous law of a readout, one of SciPy's or a name; None for a sequence of letters."""
    from scipy import stats  # imported here because it takes longer than the package

    if isinstance(readout, str):
        hint = "Or a frozen law of scipy.stats, or a sequence of letters."
        name = check.choice("readout", readout, ("gaussian", "uniform"), hint)  # both with mean square one
        return stats.norm() if name == "gaussian" else stats.uniform(-math.sqrt(3), 2 * math.sqrt(3))
    if not hasattr(readout, "rvs"):
        return None
    if not isinstance(getattr(readout, "dist", None), stats.rv_continuous):
        raise ValueError(
            f"readout = {check.shown(readout)} is a law without density; expected a frozen continuous one such as "
            "scipy.stats.norm(), or a sequence of letters with their fractions."
        )
    return readout


def gauss_letters(law, count):
    """Gauss's quadrature in t^2 / (E[t^2] + t^2) under a law of t: letters t > 0 and their weights, (count,) each.

    With an odd student, errors are averages of functions that are even and smooth in t. With a saturating student these
    functions become constant at large t.
    """
    low, high = law.ppf(LETTERS.tail), law.isf(LETTERS.tail)
    ends = np.unique(np.concatenate([np.linspace(low, high, LETTERS.panels + 1), [0.0] if low < 0 < high else []]))
    x, weight = legendre(16)
    t = np.ravel(ends[:-1, None] + np.diff(ends)[:, None] * x)
    weight = np.ravel(np.diff(ends)[:, None] * weight) * law.pdf(t)
    if not abs(weight.sum() - 1) < LETTERS.mass_tol:
        raise ValueError(
            f"readout = {check.shown(law)} has a density that a quadrature of {t.size} points cannot integrate: its "
            f"mass is {weight.sum():.6g}; expected a bounded density without heavy tails."
        )
    square = weight @ (t * t)
    x = t * t / (square + t * t)
    basis, a, b = np.sqrt(weight / weight.sum())[:, None], [], []
    for _ in range(count):  # Lanczos
        vector = x * basis[:, -1]
        a.append(vector @ basis[:, -1])
        for _ in range(2):
            vector = vector - basis @ (basis.T @ vector)
        b.append(np.linalg.norm(vector))
        basis = np.column_stack([basis, vector / b[-1]])
    nodes, vectors = eigh_tridiagonal(a, b[:-1])
    return np.sqrt(square * nodes / (1 - nodes)), vectors[0] ** 2


def letters_of_law(law, p):
    """One letter for each of p neurons: the law's quantiles."""
    return law.ppf((np.arange(p) + 0.5) / p)


def checked_fractions(name, size, fractions):
    """Fractions of neurons, positive and of sum one; equal ones by default."""
    if fractions is None:
        return np.full(size, 1 / size)
    values = check.array("fractions", fractions, ("B",), hint="One for each block.")
    if values.size != size or np.any(values <= 0) or abs(values.sum() - 1) > 1e-12:
        raise check.refused("fractions", fractions, f"{size} positive numbers of sum 1, one for each entry of {name}.")
    return values / values.sum()
