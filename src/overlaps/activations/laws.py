"""Nodes of a continuous noise: an average over its law as an integral over panels on which the integrand is smooth.

The variable is t, with t = 0 at the median. A half of the law without end has xi = median + scale sinh(t) and the
density of the law. In a half with an end, u = 1 / (1 + exp(2 sinh |t|)) falls to 1e-300: u is a distance from the end,
again with the density, or, where the density diverges there (beta laws, arcsine), the probability beyond xi, so that
xi is a quantile.
"""

from typing import NamedTuple

import numpy as np

from .._base.jit import jit
from ..gaussian.quadrature import legendre
from ..gaussian.tables import tabulate

# Ends of t of a half without end: xi reaches e^60 scales, beyond which a law with tails like xi^-1.5 has e-13 of its
# probability. Every other size of quadrature goes a little further.
REACH = 60.0
FURTHER = 4.0  # a second moment that is infinite grows with the reach
END = 6.5  # of t of a half with an end, at u = 1e-289
STARTS = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])  # ends of panels before any is halved
# Change of probability, mean and mean square by halving a panel, from which it is halved again. Below, densities that
# are known to 1e-12 would be halved for ever; above, kinks of a density would be seen in integrals to 1e-8.
HALVED = 1e-11
NORMED = 1e-9  # deviation from 1 of the sum of probabilities that is accepted
MOST_PANELS = 150  # more cost more than the integral is worth
# Nodes in each panel at the first size of quadrature, and how many more at each of the next: odd and even, so that two
# sizes do not agree by symmetry. The fifth size begins again.
NODES, MORE_NODES, SIZES = 16, 3, 4


class Law(NamedTuple):
    """A continuous noise and the panels (n, 2) of t that are integrated; ``quantiles`` where densities fail."""

    noise: object
    median: float
    scale: float
    finite: tuple  # whether the lower and the upper half have an end
    quantiles: bool
    panels: np.ndarray

    def at(self, t):
        """Values xi of the noise at t, and their probabilities per dt."""
        return _at(self.noise, self.median, self.scale, self.finite, self.quantiles, t)

    def nodes(self, size):
        """Values and probabilities at the Gauss nodes of a size of quadrature, without those that count for nothing."""
        (x, p), lengths = panel_rule(size), np.diff(self.panels)
        xi, density = self.at(self.panels[:, :1] + lengths * x)
        xi, weight = xi.ravel(), (density * lengths * p).ravel()
        used = weight * np.maximum(np.abs(xi - self.median) / self.scale, 1.0) ** 4 > 1e-25  # forces may grow like xi^2
        return xi[used], weight[used]

    def table(self):
        """The array for ``_rule.noise_nodes``: edges of panels, asinh((xi - median) / scale) and density as a table."""
        low, high = self.panels[0, 0], self.panels[-1, 1]

        def place(t):
            return np.arcsinh((self.at(np.clip(t, low, high))[0] - self.median) / self.scale)

        def density(t):
            return np.where((low <= t) & (t <= high), self.at(np.clip(t, low, high))[1], 0.0)

        edges = np.append(self.panels[:, 0], high)
        table = tabulate((place, density), f"the noise {shown(self.noise)}", HALVED).data
        return np.concatenate([[self.median, self.scale, len(edges)], edges, table])


def panel_rule(size):
    """The rule in each panel, other nodes at each size of quadrature: they disagree where the force breaks."""
    return legendre(NODES + MORE_NODES * (size % SIZES))


def shown(noise):
    """A frozen law in words: beta(0.1, 0.1)."""
    name = getattr(getattr(noise, "dist", noise), "name", None) or type(noise).__name__
    given = [f"{x:g}" for x in getattr(noise, "args", ())]
    given += [f"{key}={x:g}" for key, x in getattr(noise, "kwds", {}).items()]
    return f"{name}({', '.join(given)})"


def law_of(noise, reach=REACH):
    """The law of a continuous noise up to a ``reach``; ``ValueError`` where its probabilities do not sum to 1."""
    median, scale = float(noise.median()), float(noise.ppf(0.75) - noise.ppf(0.25)) / 2
    finite, total = tuple(map(bool, np.isfinite(noise.support()))), np.nan
    ends = [END if end else reach for end in finite]
    starts = [np.append(STARTS[STARTS < end], end) for end in ends]
    edges = np.concatenate([-starts[0][::-1], [0.0], starts[1]])
    for quantiles in (False, True)[: 1 + any(finite)]:
        law = Law(noise, median, scale, finite, quantiles, np.stack([edges[:-1], edges[1:]], axis=1))
        panels = _halved(law)
        if panels is not None:
            law = law._replace(panels=panels)
            total = np.sum(_moments(law, panels)[0])
            if abs(total - 1) <= NORMED:
                return law
    found = f"the probabilities sum to {total:.10g}" if np.isfinite(total) else "the density is not smooth on panels"
    raise ValueError(
        f"noise = {shown(noise)}: {found}; expected a law whose density, or quantile function, is known to 1e-9 "
        "and has few kinks. Give the noise as (values, probabilities), or scipy.stats its own pdf, ppf and isf."
    )


@jit(no_reference_counting=True)
def proper(p):
    """Whether these are probabilities."""
    total, negative = 0.0, False
    for i in range(p.size):
        total += p[i]
        negative |= p[i] < 0.0
    return not negative and abs(total - 1.0) < NORMED  # a nan fails, too


def _at(noise, median, scale, finite, quantiles, t):
    t = np.asarray(t, dtype=float)
    xi = median + scale * np.sinh(t)
    density = scale * np.cosh(t)
    by_density = np.ones(t.shape, bool)
    halves = zip((t < 0, t >= 0), finite, noise.support(), (noise.ppf, noise.isf), strict=True)
    with np.errstate(all="ignore"):
        for half, closed, end, quantile in halves:
            if not closed:
                continue
            growth = np.exp(2 * np.sinh(np.abs(t[half])))
            u, slope = 1 / (1 + growth), 2 * np.cosh(t[half]) * growth / (1 + growth) ** 2
            if quantiles:
                xi[half], density[half], by_density[half] = quantile(u), slope, False
            else:
                xi[half], density[half] = end - 2 * (end - median) * u, 2 * abs(end - median) * slope
        density[by_density] *= noise.pdf(xi[by_density])
    return xi, density


def _moments(law, panels):
    """Integrals (3, n) over each panel of 1, x / sqrt(1 + x^2) and x^2 at x = (xi - median) / scale."""
    x, p = legendre(NODES)
    lengths = np.diff(panels)
    xi, density = law.at(panels[:, :1] + lengths * x)
    y = (xi - law.median) / law.scale
    with np.errstate(all="ignore"):  # a density may diverge, or be inf
        return np.sum(np.stack([np.ones_like(y), y / np.sqrt(1 + y * y), y * y]) * (density * lengths * p), axis=-1)


def _halved(law):
    """Panels halved until halves agree with the whole; None where that takes too many, or numbers are not finite."""
    todo, done = law.panels, np.zeros((0, 2))
    whole = _moments(law, todo)
    while len(todo) and np.all(np.isfinite(whole)):
        middle = todo.mean(axis=1)
        halves = np.stack([todo[:, 0], middle, middle, todo[:, 1]], axis=1).reshape(-1, 2)
        parts = _moments(law, halves)
        gaps = np.abs(parts.reshape(3, -1, 2).sum(axis=2) - whole) / np.maximum(np.abs(whole), 1.0)
        good = np.all(gaps <= HALVED, axis=0)
        done = np.concatenate([done, todo[good]])
        todo, whole = halves[np.repeat(~good, 2)], parts[:, np.repeat(~good, 2)]
        if len(done) + len(todo) > MOST_PANELS:
            return None
    return None if len(todo) else done[np.argsort(done[:, 0])]
