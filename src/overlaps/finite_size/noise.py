"""The covariance of what one sample adds to the overlaps, from integrals over K + M fields, whatever L.

With phi = (F_a h_c, F_a F_c, -eta_v g_a Delta), h the fields of students and teachers, the increment of one sample is
linear in phi and in the parts of h that lie in single blocks. Of a rule, the last entries are eta_theta G_a.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ..activations.polynomials import Polynomial
from ..flow.closure import bind
from ..gaussian.iterated import MOST, settled_size
from ..gaussian.quadrature import gauss_hermite, sobol, tensor
from ..gaussian.two_point import LINEAR, QUADRATIC
from ..models import Mixed

upper = cache(np.triu_indices)  # NumPy takes as long for it as for the sums that it serves
SCRAMBLES = 4  # of Sobol points: their spread is the error
EXACT, SAMPLED = 1e-8, 1e-3  # relative error of splines and of steps, where integrals are exact and sampled
# what moments of four forces of a rule are held to, or a hundred times its own tolerance; beyond four fields that
SETTLED = 1e-6
# Nodes of an exact grid, over the points that were asked for. Below, polynomials are sampled where few more nodes would
# be exact, and fourth moments of forces have tails that points miss by 10 %; above, a grid costs minutes.
WORTH, PERIOD = 8, 20  # PERIOD: states after which nodes of rules are compared with the next size again


def degree(activation):
    """Degree of a polynomial activation, or None."""
    if isinstance(activation.g, Polynomial):
        return len(activation.g.coefficients) - 1
    return {LINEAR: 1, QUADRATIC: 2}.get(activation.code)


@dataclass(frozen=True)
class FieldPoints:
    """Points z (groups, d, P), weights (P,) of normal fields; ``exact`` for the covariances of polynomials.

    ``goal`` is the relative error that is asked of what is made of the integrals.
    """

    z: Any
    weight: Any
    exact: bool
    goal: float

    @classmethod
    def of(cls, model, points, rng, settled=SETTLED):
        """Gauss-Hermite where that is exact with this many points, Sobol points otherwise; of a rule its own."""
        if model.rule is not None:
            return Forces(model, settled)
        d, degrees = model.K + model.M, [degree(x) for x in (model.activation, *teachers(model))]
        if None not in degrees:
            # F has the degree of g' Delta, products of four F are the highest; m nodes are exact to 2 m - 1
            m = 2 * (max(degrees[0] - 1, 0) + max(degrees)) + 1
            if m**d <= WORTH * points:
                z, weight = tensor(gauss_hermite(m), d)
                return cls(z[None], weight, True, EXACT)
        size = max(int(np.log2(points / SCRAMBLES)), 1)
        normal = [sobol(d, size, child).T.copy() for child in rng.spawn(SCRAMBLES)]
        return cls(np.array(normal), np.full(2**size, 2.0**-size), False, SAMPLED)

    def moments(self, model, S, v):
        """E[phi] and E[phi phi^T] of each group."""
        values, vectors = np.linalg.eigh(S)
        # the symmetric root: S may be singular, and factors with a sign or an order of their own would jump on a path
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        return [_mean_moments(model, root @ z, self.weight, v) for z in self.z]


class Forces:
    """The same for a rule of learning: at the nodes of its closure, whose size is tested for these moments anew."""

    def __init__(self, model, settled):
        fields = model.rule.tokens * (model.K + model.M)
        if fields > MOST or model.rule.others is not None or model.rule.by_block:
            raise ValueError(
                f"the rule {model.rule!r} sees {fields} fields; expected at most {MOST}, whose fourth moments "
                "are known, no others= and one token_covariance. Simulate: ov.simulate(model, N=, alpha=, rng=, runs=)."
            )
        self.bound, self.size, self.calls = bind(model), 0, 0
        arrays, chancy = model.rule.sizes
        self.exact, self.count = not chancy, len(arrays)
        self.settled = max(settled, (100 if fields <= 4 else 1) * model.rule.tolerance)
        self.goal = min(10 * self.settled, SAMPLED) if self.exact and fields <= 4 else SAMPLED

    def moments(self, model, S, v):
        """E[phi] and E[phi phi^T] of each group; refused where they do not settle."""
        w = np.append(v, -model.v_star)
        if not self.exact:  # the first size is all scrambles at once
            return [self._at(i, model, S, w) for i in range(1, self.count)]
        if self.calls % PERIOD == 0:
            self._settle(model, S, w)
        self.calls += 1
        # the better of two that agree, where more is asked for than that they do
        return [self._at(self.size + (self.goal < SAMPLED), model, S, w)]

    def _settle(self, model, S, w):
        size, gaps = settled_size(lambda i: self._at(i, model, S, w), self.count, self.size, [self.settled] * 2)
        if size is None:
            raise ValueError(
                f"averages of four forces of the rule {model.rule.name!r} do not settle: sizes differ by "
                f"{max(gaps):.1g}, expected {self.settled:.0e}. Fluctuations need fourth moments: bound the force."
            )
        self.size = size

    def _at(self, size, model, S, w):
        h, F, G, weight = self.bound.samples(size, S, w)
        F, (i, j), c = model.eta * F, upper(model.K), model.rule.token_covariance
        products = np.einsum("ak...,an...->kn...", F, h).reshape(-1, len(weight))
        squares = np.einsum("ab,ak...,bk...->k...", c, F[:, i], F[:, j])
        phi = np.concatenate([products, squares, model.eta_v * G]) * np.sqrt(weight)
        return phi @ np.sqrt(weight), phi @ phi.T


def product_covariance(model, rule, S, v):
    """Cov(phi) at fields of covariance S and second layer v, of all points and then of each group.

    The order of phi is F_a h_c (K, K + M), the triangle of F_a F_c, and -eta_v g_a Delta (K). Label noise is averaged
    exactly.
    """
    moments = rule.moments(model, S, v)
    first, second = (np.mean(x, axis=0) for x in zip(*moments, strict=True))
    return np.array([y - np.outer(x, x) for x, y in [(first, second), *moments]])


def _mean_moments(model, h, weight, v):
    """Moments of a sample that is of one of several tasks: means of their moments, and not of their covariances.

    A head of its own moves in its samples alone.
    """
    if not isinstance(model, Mixed):
        return _moments(model, h, weight, v)
    K, heads = model.K, np.reshape(v, (-1, model.K))
    first = K * len(h) + K * (K + 1) // 2
    size = first + heads.size
    mean, second = np.zeros(size), np.zeros((size, size))
    for i, (task, share) in enumerate(zip(model.models, model.shares, strict=True)):
        head = i if len(heads) > 1 else 0
        rows = np.r_[:first, first + head * K + np.arange(K)]
        one, two = _moments(task, h, weight, heads[head])
        mean[rows] += share * one
        second[np.ix_(rows, rows)] += share * two
    return mean, second


def teachers(model):
    """The activations of teachers, of every task."""
    return [task.teacher_activation for task in model.tasks]


def _moments(model, h, weight, v):
    """E[phi] and E[phi phi^T] at fields h (d, P): phi = a + x b + x^2 c, x the label noise, is averaged exactly."""
    K, (i, j), variance = model.K, upper(model.K), model.noise**2
    first, last = K * len(h), K * len(h) + len(i)  # of the rows that are squares
    n = last + K * model.trains_v
    g = model.activation.g(h[:K])
    slope = -model.eta * v[:, None] * model.activation.dg(h[:K])
    delta = v @ g - model.v_star @ model.teacher_activation.g(h[K:])
    one = np.empty((n, h.shape[1]))  # phi / Delta without noise; the squares have another factor of Delta
    one[:first] = (slope[:, None] * h).reshape(first, -1)
    one[last:] = -model.eta_v * g[: n - last]
    squares = slope[i] * slope[j]
    # F_a F_c has Delta twice: with the factor below they are the square, as the rows of products are one
    one[first:last] = squares * delta
    a = one * delta
    mean, second = np.zeros(last + K), np.zeros((last + K, last + K))
    mean[:n], second[:n, :n] = a @ weight, (a * weight) @ a.T
    if variance > 0:
        one[first:last] *= 2  # b is minus this
        c = squares * weight
        mean[first:last] += variance * c.sum(axis=1)
        # x has mean zero: of phi phi^T the even powers are left, x^2 from b b^T and from a c^T, x^4 = 3 from c c^T
        second[:n, :n] += variance * ((one * weight) @ one.T)
        mixed = variance * (a @ c.T)
        second[:n, first:last] += mixed
        second[first:last, :n] += mixed.T
        second[first:last, first:last] += 3 * variance**2 * (c @ squares.T)
    return mean, second


class Increments:
    """Assembles D = Cov(u)/b from Cov(phi), for one layout of unknowns."""

    def __init__(self, unknowns):
        self.unknowns, model = unknowns, unknowns.model
        self.s, self.p, self.V = np.array(model.spectrum.s), np.array(model.spectrum.p), unknowns.V
        K, M, (i, j) = model.K, model.M, upper(model.K)
        # each entry of y is the sum of products F_a h_b in one block: one of them for r, two for q
        of_r, of_q = np.arange(K * M), K * M + np.arange(len(i))
        self.terms = np.zeros((K * M + len(i), K, K + M))
        self.terms[of_r, of_r // M, K + of_r % M] = 1
        self.terms[of_q, i, j] += 1
        self.terms[of_q, j, i] += 1
        self.scale = np.ones((len(self.terms), len(self.s)))
        self.scale[of_r] = self.s
        self.squares = of_q, K * (K + M) + np.arange(len(i))
        self.size = K * (K + M) + len(i) + self.V

    def __call__(self, blocks, C, products):
        """D (..., n, n) from s_l S^l (L, d, d), C and Cov(phi), or several of them."""
        model, L, entries = self.unknowns.model, len(self.s), len(self.terms)
        b, determined = model.batch_size, self.shares(blocks)
        # u = U phi for what the total fields determine; the rest is independent of phi and comes behind
        U, parts = np.zeros((entries, L, self.size)), np.einsum("eab,lbc->elac", self.terms, determined)
        U[..., : self.terms[0].size] = self.scale[..., None] * parts.reshape(entries, L, -1)
        # the square of a step enters q alone, and as its mean: fluctuations of |x|^2 are of lower order
        U[self.squares[0], :, self.squares[1]] = self.s * self.p / b
        U = U.reshape(entries * L, -1)
        if model.trains_v:
            U = np.concatenate([U, np.eye(self.size)[-self.V :]])
        n, D = len(U), np.zeros(products.shape[:-2] + (self.unknowns.size,) * 2)
        D[..., :n, :n] = U @ products @ U.T
        if L > 1:
            free = self.terms, self.terms, C, self.free_covariance(blocks, determined)
            rest = np.einsum("eab,fcd,ac,bdlm->elfm", *free, optimize=True) * self.scale[..., None, None] * self.scale
            D[..., : entries * L, : entries * L] += rest.reshape(entries * L, -1)
        return D / b

    def shares(self, blocks):
        """G_l = s_l S^l S^+ (L, d, d): the part of h^l that the total fields determine."""
        if len(blocks) == 1:
            return np.eye(blocks.shape[1])[None]
        return blocks @ np.linalg.pinv(blocks.sum(axis=0), rcond=1e-12, hermitian=True)

    def free_covariance(self, blocks, determined):
        """Covariance (d, d, L, L) of what the total fields leave free in single blocks."""
        L = len(blocks)
        rest = -np.einsum("lbc,mdc->bdlm", blocks, determined)  # s_l S^l S^+ S G_m^T
        rest[:, :, np.arange(L), np.arange(L)] += np.moveaxis(blocks, 0, -1)
        return rest
