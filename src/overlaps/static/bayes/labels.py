"""The exact law of a label given the known parts of the fields: Fisher information and entropy power."""

import itertools
import math
from typing import NamedTuple

import numpy as np
from scipy.fft import irfft, next_fast_len

from ..._base import check
from ...gaussian.quadrature import gauss_hermite, trapezoid
from ._polynomial import KERNELS, fisher, label_entropy

__all__ = ["Information", "LabelLaw"]


class Grids(NamedTuple):
    """Grids of the label's characteristic function and of the known parts of the fields."""

    damped: float  # tau sqrt(Delta) up to which the characteristic function is tabulated
    known: float  # half width of the grid of V, in standard deviations
    step: float  # its step


class LabelOptions(NamedTuple):
    """Tunable numbers of the law of a label."""

    # One and two features are integrated, to ten digits.
    integrated: Grids = Grids(7.5, 7.5, 0.1)
    # More features are sampled, to 1e-5. With a smaller ``damped``, p oscillates in its tails.
    sampled: Grids = Grids(6.5, 6.0, 0.25)
    # Half width of the grid of a field, in standard deviations.
    field_range: float = 9.0
    # Independent sets of conditionings; their spread is the error bar.
    replicas: int = 4
    # Vectors V drawn for each conditioning, among which the stratification chooses.
    pool: int = 1024
    # Largest number of points of y, and of different readouts; above, time and memory are too large.
    max_label_points: int = 2**18
    max_readouts: int = 200


LABELS = LabelOptions()


class Information(NamedTuple):
    """Information of a label about the features, all known up to their overlaps q.

    Attributes
    ----------
    h, h_err : ndarray, shape (k,)
        Fisher information of a label about the known part of each field, in the order of v2, and its standard error.
    power, power_err : float
        Entropy power e^(2H) / (2 pi e) of a label, which the Gaussian channel replaces by Delta + eps.
    cross : float
        Largest ``|G_ij| / sqrt(G_ii G_jj)`` of the information matrix, neglected by diagonal overlaps.
    """

    h: np.ndarray
    h_err: np.ndarray
    power: float
    power_err: float
    cross: float


class LabelLaw:
    r"""Density of a label given the known parts of all fields, by its characteristic function.

    .. math::
        p(y|V) = \frac{1}{2\pi} \int d\tau\, e^{-i \tau y - \Delta \tau^2/2} \prod_i \chi_i(\tau), \qquad
        \chi_i = E_\xi\, e^{i \tau v_i \sigma(\sqrt{q_i} V_i + \sqrt{1-q_i}\, \xi)}

    The information about feature i is integrated over all nodes of V_i; all other V are drawn, stratified by the
    variance of the label given V.

    Parameters
    ----------
    g : Correlation
        A finite Hermite sum; sigma has all its coefficients positive.
    v : ndarray, shape (groups,)
        Readouts v_i > 0 of groups of equal features.
    group : ndarray of int, shape (k,)
        Group of each feature.
    Delta : float
        Variance of the noise.
    reference : ndarray, shape (groups,)
        Overlaps at which the conditionings are chosen; they serve all overlaps.
    samples : int
        Conditionings in each of four replicas; one and two features need none.
    rng : numpy.random.Generator
    grids : Grids, optional
        Grids other than the default ones.
    """

    def __init__(self, g, v, group, Delta, reference, samples, rng, grids=None):
        self.sigma, self.v, self.group = g.polynomial, v, group
        degrees = np.flatnonzero(g.c) % 2
        self.parity = 0 if np.ptp(degrees) else 1 - 2 * int(degrees[0])  # parity of sigma; 0: neither even nor odd
        damped, known, spacing = grids or (LABELS.integrated if group.size < 3 else LABELS.sampled)
        self.V, self.weight = trapezoid(spacing, known)
        reach, top = np.linspace(-7, 7, 1401), damped / math.sqrt(Delta)
        largest = np.abs(self._sigma(reach[np.abs(reach) <= known])).max()
        self.dy = math.pi / top
        size = 2 * next_fast_len(max(128, math.ceil((v.max() * largest + 8 * math.sqrt(Delta + g.total)) / self.dy)))
        if size > LABELS.max_label_points or v.size > LABELS.max_readouts:
            raise ValueError(
                f"the exact channel needs {size} values of the label and {v.size} different readouts here; expected at "
                f"most {LABELS.max_label_points} and {LABELS.max_readouts}. Try channel='gaussian', or more noise."
                + check.see("bayes", "Where the equations fail")
            )
        self.tau = np.linspace(0, top, size // 2 + 1)
        self.damping = np.exp(-0.5 * Delta * self.tau**2)
        slope = np.polynomial.polynomial.polyder(self.sigma)
        steep = np.abs(np.polynomial.polynomial.polyval(reach[np.abs(reach) < 6.5], slope)).max()
        self.steps = np.minimum(0.1, 2 / (top * v * steep))
        self.waves: tuple = (None,)
        self.first = np.array([np.argmax(group == i) for i in range(v.size)])
        self.given, self.given_weight = self._conditionings(reference, samples, rng)
        self.replicas = self.given.shape[1]

    def _sigma(self, z):
        return np.polynomial.polynomial.polyval(z, self.sigma)

    def _conditionings(self, reference, samples, rng):
        """Nodes of V for each (group, replica, conditioning, feature), and the weights of the conditionings."""
        k, nodes, groups = self.group.size, self.V.size, self.v.size
        if k == 1:
            return np.zeros((1, 1, 1, 1), dtype=np.uint8), np.ones(1)
        if k == 2:
            return np.tile(np.arange(nodes)[:, None], (groups, 1, 1, 2)), self.weight
        xi, p = gauss_hermite(3 * self.sigma.size)
        known, rest = (np.sqrt(x)[:, None, None] for x in (reference, 1 - reference))
        values = self._sigma(known * self.V[:, None] + rest * xi)
        variance = self.v[:, None] ** 2 * (values**2 @ p - (values @ p) ** 2)  # label given V, (groups, nodes)
        given = np.empty((groups, LABELS.replicas, samples, k), dtype=np.uint8)
        edges = np.cumsum(self.weight)[:-1]
        for r in range(LABELS.replicas):
            pool = np.searchsorted(edges, rng.random((LABELS.pool * samples, k))).astype(np.uint8)
            total = sum(variance[i][pool[:, j]] for j, i in enumerate(self.group))
            for i, j in enumerate(self.first):
                order = np.argsort(total - variance[i][pool[:, j]], kind="stable").reshape(samples, LABELS.pool)
                given[i, r] = pool[order[np.arange(samples), rng.integers(LABELS.pool, size=samples)]]
        return given, np.full(samples, 1 / samples)

    def table(self, i, q):
        """Factor chi and its derivative in the known part of the field, (nodes, tau), for group i at overlap q."""
        half = self.V[self.V.size // 2 :] if self.parity else self.V
        known, rest, v = math.sqrt(q) * half, math.sqrt(1 - q), self.v[i]
        step = min(self.steps[i], rest / 3)
        if rest * half.size > 1:  # one grid for all nodes
            n = math.ceil(LABELS.field_range / step)
            z = LABELS.field_range / n * np.arange(0 if self.parity else -n, n + 1)
            kernels = gaussian_kernels(z, known[:, None], rest)
            even = odd = kernels
            if self.parity:  # cos(v sigma tau) is even in z; sin has the parity of sigma
                mirrored = gaussian_kernels(-z, known[:, None], rest)
                kernels[:, 0] /= 2
                mirrored[:, 0] /= 2
                even, odd = kernels + mirrored, kernels + self.parity * mirrored
            total = even[: half.size].sum(axis=1)
            if self.waves[0] != (i, n):  # otherwise the waves of the last call are used again
                wave = waves(v * self.tau[1] * self._sigma(z), self.tau.size)
                self.waves = (i, n), wave.real.copy(), wave.imag.copy()
            both = (even @ self.waves[1] + 1j * (odd @ self.waves[2])).reshape(2, half.size, -1)
            chi, slope = both / total[:, None]
        else:  # kernels narrower than the spacing of V
            xi, p = trapezoid(step / rest, LABELS.field_range)
            kernel = np.stack([p, p * xi / rest])
            chi, slope = np.empty((2, half.size, self.tau.size), dtype=complex)
            for a, x in enumerate(known):
                chi[a], slope[a] = kernel @ waves(v * self.tau[1] * self._sigma(x + rest * xi), self.tau.size)
        if not self.parity:
            return chi, slope
        chi_left, slope_left = chi[:0:-1], slope[:0:-1]
        if self.parity < 0:
            chi_left, slope_left = chi_left.conj(), slope_left.conj()
        return np.concatenate([chi_left, chi]), np.concatenate([-slope_left, slope])

    def information(self, q, replica):
        """Information h about every group at overlaps q (groups,)."""
        tables = [self.table(i, x) for i, x in enumerate(q)]
        return np.array([self._over_labels(fisher, i, replica, tables, (tables[i][1],)) for i in range(self.v.size)])

    def entropy(self, q, replica):
        """H at overlaps q (groups,)."""
        tables = [self.table(i, x) for i, x in enumerate(q)]
        return self._over_labels(label_entropy, 0, replica, tables, ()) + math.log(self.dy)

    def cross(self, q):
        """Largest correlation of the scores of two features, at overlaps q (groups,)."""
        k = self.group.size
        if k == 1 or self.parity > 0:  # diagonal by the symmetry w_i -> -w_i
            return 0.0
        tables = [self.table(i, x) for i, x in enumerate(q)]
        # at most two of each group, by symmetry
        pair = [j for j in range(k) if np.sum(self.group[:j] == self.group[j]) < 2]
        vectors, weight = self._joint()
        G = np.zeros((len(pair), len(pair)))
        for chunk in np.array_split(np.arange(len(vectors)), math.ceil(len(vectors) / 32)):
            chi = [tables[b][0][vectors[chunk, j]] for j, b in enumerate(self.group)]
            before = list(itertools.accumulate(chi, np.multiply, initial=self.damping))
            after = list(itertools.accumulate(chi[::-1], np.multiply, initial=1.0))[::-1]
            slopes = [tables[self.group[j]][1][vectors[chunk, j]] for j in pair]
            p = irfft(before[-1])
            d = np.array([irfft(before[j] * after[j + 1] * x) for j, x in zip(pair, slopes, strict=True)])
            resolved = p > KERNELS.min_relative_density * p.max(axis=1, keepdims=True)
            d *= np.sqrt(weight[chunk][:, None] / np.where(resolved, p, np.inf))
            d = d.reshape(len(pair), -1)
            G += d @ d.T
        size = np.sqrt(np.diag(G))
        np.fill_diagonal(G, 0.0)
        return float(np.max(np.abs(G) / np.outer(size, size)))

    def _joint(self):
        """Nodes of all features together, and their weights."""
        if self.group.size > 2:
            vectors = self.given[0].reshape(-1, self.group.size)
            return vectors, np.full(len(vectors), 1 / len(vectors))
        weight = np.outer(self.weight, self.weight)
        vectors = np.argwhere(weight > 1e-14)
        return vectors, weight[tuple(vectors.T)]

    def _over_labels(self, functional, i, replica, tables, slope):
        """Mean over V of a functional of p(y|V), its derivative: all nodes of group i, conditionings of the others."""
        product = np.tile(self.damping.astype(complex), (self.given_weight.size, 1))
        for j, b in enumerate(self.group):
            if j != self.first[i]:
                product *= tables[b][0][self.given[i, replica, :, j]]
        middle = self.V.size // 2 if self.parity else 0
        total, values = 0.0, np.empty(self.given_weight.size)
        for a in range(middle, self.V.size):
            functional(*(irfft(product * x[a]) for x in (tables[i][0], *slope)), values)
            multiplicity = 2 if self.parity and a > middle else 1
            total += multiplicity * self.weight[a] * (self.given_weight @ values)
        return total


def waves(angle, count):
    """exp(i n angle), n < count, (angles, count), as products of two short tables, which is faster."""
    short = math.isqrt(count - 1) + 1
    fine, coarse = (np.exp(1j * np.multiply.outer(angle, n)) for n in (np.arange(short), np.arange(0, count, short)))
    return (coarse[:, :, None] * fine[:, None, :]).reshape(len(angle), -1)[:, :count]


def gaussian_kernels(z, known, rest):
    """Kernels exp(-(z - known)^2 / (2 rest^2)), followed by their derivatives in ``known``."""
    distance = (z - known) / rest
    kernel = np.exp(-0.5 * distance**2)
    return np.concatenate([kernel, kernel * distance / rest])
