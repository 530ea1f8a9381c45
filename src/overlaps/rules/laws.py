"""Nodes of a continuous noise: an average over its law as an integral over panels on which the integrand is smooth.

The variable is t, with t = 0 at the median. On a side where the law has no end, xi = median + scale sinh(t), and
weights are given by the density. On a side with an end, u = 1 / (1 + exp(2 sinh |t|)) falls to 1e-300. There u is the
distance from the end, with weights given by the density; or, if the density diverges at the end (beta laws, arcsine),
u is the probability beyond xi, and xi is a quantile.
"""

from typing import NamedTuple

import numpy as np

from .._base.jit import jit
from ..gaussian.quadrature import legendre
from ..gaussian.tables import tabulate


class LawOptions(NamedTuple):
    """Tunable numbers of averages over a continuous noise."""

    # Largest |t| on a side without end, where xi is e^60 scales: beyond it, a law with tails like xi^-1.5 has e-13 of
    # its probability.
    reach: float = 60.0
    extra_reach: float = 4.0  # added for every other size of quadrature, so that an infinite second moment is detected
    end: float = 6.5  # largest |t| on a side with an end, where u = 1e-289
    first_edges: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # ends |t| of panels before bisection
    # Change of probability, mean and mean square by halving a panel, above which the panel is halved. Far below, the
    # panels of densities with errors of 1e-12 are halved without end; far above, kinks of a density cause errors of
    # 1e-8.
    panel_tol: float = 1e-11
    sum_tol: float = 1e-9  # accepted deviation of the sum of probabilities from 1
    max_panels: int = 150  # limits the time; laws that need more are refused
    # Nodes in each panel at the first size of quadrature, and their increase with the size: odd and even numbers
    # alternate, so that two sizes do not agree by symmetry. The numbers repeat after ``sizes`` sizes.
    nodes: int = 16
    more_nodes: int = 3
    sizes: int = 4


LAWS = LawOptions()


class Law(NamedTuple):
    """A continuous noise and panels (n, 2) of t; ``quantiles`` are used where densities cannot be integrated."""

    noise: object
    median: float
    scale: float
    finite: tuple  # whether the lower and the upper side have an end
    quantiles: bool
    panels: np.ndarray

    def at(self, t):
        """Values xi of the noise at t, and their probabilities per dt."""
        return _at(self.noise, self.median, self.scale, self.finite, self.quantiles, t)

    def nodes(self, size):
        """Values and probabilities at the Gauss nodes of a size of quadrature, without negligible ones."""
        (x, p), lengths = panel_nodes(size), np.diff(self.panels)
        xi, density = self.at(self.panels[:, :1] + lengths * x)
        xi, weight = xi.ravel(), (density * lengths * p).ravel()
        # Weighted with xi^4, because forces may grow like xi^2.
        used = weight * np.maximum(np.abs(xi - self.median) / self.scale, 1.0) ** 4 > 1e-25
        return xi[used], weight[used]

    def arrays(self):
        """Arrays for ``_rule.noise_nodes``: (median, scale), edges of panels, asinh((xi - median) / scale) and density.

        The last two are functions of t in one table.
        """
        low, high = self.panels[0, 0], self.panels[-1, 1]

        def asinh_xi(t):
            return np.arcsinh((self.at(np.clip(t, low, high))[0] - self.median) / self.scale)

        def density(t):
            return np.where((low <= t) & (t <= high), self.at(np.clip(t, low, high))[1], 0.0)

        edges = np.append(self.panels[:, 0], high)
        table = tabulate((asinh_xi, density), f"the noise {shown(self.noise)}", LAWS.panel_tol).data
        return np.array([self.median, self.scale]), edges, table


def panel_nodes(size):
    """Nodes and weights in each panel; they differ between sizes, so that breaks of the force are detected."""
    return legendre(LAWS.nodes + LAWS.more_nodes * (size % LAWS.sizes))


def shown(noise):
    """A frozen law as text, such as beta(0.1, 0.1)."""
    name = getattr(getattr(noise, "dist", noise), "name", None) or type(noise).__name__
    given = [f"{x:g}" for x in getattr(noise, "args", ())]
    given += [f"{key}={x:g}" for key, x in getattr(noise, "kwds", {}).items()]
    return f"{name}({', '.join(given)})"


def law_of(noise, reach=LAWS.reach):
    """The law of a continuous noise up to |t| = ``reach``; ``ValueError`` if its probabilities do not sum to 1."""
    median, scale = float(noise.median()), float(noise.ppf(0.75) - noise.ppf(0.25)) / 2
    finite, total = tuple(map(bool, np.isfinite(noise.support()))), np.nan
    ends = [LAWS.end if end else reach for end in finite]
    sides = [np.array([*(x for x in LAWS.first_edges if x < end), end]) for end in ends]
    edges = np.concatenate([-sides[0][::-1], [0.0], sides[1]])
    for quantiles in (False, True)[: 1 + any(finite)]:
        law = Law(noise, median, scale, finite, quantiles, np.stack([edges[:-1], edges[1:]], axis=1))
        panels = _refined(law)
        if panels is not None:
            law = law._replace(panels=panels)
            total = np.sum(_moments(law, panels)[0])
            if abs(total - 1) <= LAWS.sum_tol:
                return law
    found = f"the probabilities sum to {total:.10g}" if np.isfinite(total) else "the density is not smooth on panels"
    raise ValueError(
        f"noise = {shown(noise)}: {found}; expected a law whose density, or quantile function, is known to 1e-9 "
        "and has few kinks. Give the noise as (values, probabilities), or scipy.stats its own pdf, ppf and isf."
    )


@jit(no_reference_counting=True)
def proper(p):
    """Whether p are probabilities."""
    total, negative = 0.0, False
    for i in range(p.size):
        total += p[i]
        negative |= p[i] < 0.0
    return not negative and abs(total - 1.0) < LAWS.sum_tol  # False for nan


def _at(noise, median, scale, finite, quantiles, t):
    t = np.asarray(t, dtype=float)
    xi = median + scale * np.sinh(t)
    density = scale * np.cosh(t)
    by_density = np.ones(t.shape, bool)
    sides = zip((t < 0, t >= 0), finite, noise.support(), (noise.ppf, noise.isf), strict=True)
    with np.errstate(all="ignore"):
        for side, has_end, end, quantile in sides:
            if not has_end:
                continue
            growth = np.exp(2 * np.sinh(np.abs(t[side])))
            u, slope = 1 / (1 + growth), 2 * np.cosh(t[side]) * growth / (1 + growth) ** 2
            if quantiles:
                xi[side], density[side], by_density[side] = quantile(u), slope, False
            else:
                xi[side], density[side] = end - 2 * (end - median) * u, 2 * abs(end - median) * slope
        density[by_density] *= noise.pdf(xi[by_density])
    return xi, density


def _moments(law, panels):
    """Integrals (3, n) over each panel of 1, x / sqrt(1 + x^2) and x^2 at x = (xi - median) / scale."""
    x, p = legendre(LAWS.nodes)
    lengths = np.diff(panels)
    xi, density = law.at(panels[:, :1] + lengths * x)
    y = (xi - law.median) / law.scale
    with np.errstate(all="ignore"):  # a density may diverge, or be inf
        return np.sum(np.stack([np.ones_like(y), y / np.sqrt(1 + y * y), y * y]) * (density * lengths * p), axis=-1)


def _refined(law):
    """Panels halved until the moments of halves agree; None if there are too many panels or moments are infinite."""
    todo, done = law.panels, np.zeros((0, 2))
    moments = _moments(law, todo)
    while len(todo) and np.all(np.isfinite(moments)):
        middle = todo.mean(axis=1)
        halves = np.stack([todo[:, 0], middle, middle, todo[:, 1]], axis=1).reshape(-1, 2)
        of_halves = _moments(law, halves)
        gaps = np.abs(of_halves.reshape(3, -1, 2).sum(axis=2) - moments) / np.maximum(np.abs(moments), 1.0)
        good = np.all(gaps <= LAWS.panel_tol, axis=0)
        done = np.concatenate([done, todo[good]])
        todo, moments = halves[np.repeat(~good, 2)], of_halves[:, np.repeat(~good, 2)]
        if len(done) + len(todo) > LAWS.max_panels:
            return None
    return None if len(todo) else done[np.argsort(done[:, 0])]
