"""The covariance of the increments of the overlaps by one sample, from integrals over K + M fields for any L.

With phi = (F_a h_c, F_a F_c, -eta_v g_a Delta), h the fields of students and teachers, the increment of one sample is
linear in phi and in the contributions of single blocks to h. For a learning rule the last entries are eta_theta G_a.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..activations.polynomials import Polynomial
from ..flow.binding import bind
from ..gaussian.iterated import MAX_VARIABLES, settled_size
from ..gaussian.quadrature import gauss_hermite, sobol, tensor
from ..gaussian.two_point import LINEAR, QUADRATIC
from ..models import Mixed

upper = cache(np.triu_indices)  # cached, because NumPy takes as long for it as for the sums that use it


class IntegralOptions(NamedTuple):
    """Tunable numbers of the averages over fields."""

    # Groups of Sobol points, scrambled independently: their spread estimates the error. Twice as many would estimate
    # the error better, from groups of half the size.
    scrambles: int = 4
    # Relative error of splines and steps, for exact and for sampled integrals.
    exact_tol: float = 1e-8
    sampled_tol: float = 1e-3
    # Relative error of moments of four forces of a learning rule, at least 100 times the tolerance of the rule for up
    # to four fields, and at least this tolerance for more.
    moment_tol: float = 1e-6
    # Nodes of an exact grid, relative to ``points``, above which points are sampled instead. With half as many, fourth
    # moments of polynomial forces would be sampled more often, with errors of 10 %; with twice as many a grid may take
    # minutes.
    max_grid_factor: int = 8
    # States after which the nodes of a learning rule are compared with the next size again. Half: more comparisons.
    check_period: int = 20


INTEGRALS = IntegralOptions()


def degree(activation):
    """Degree of a polynomial activation, or None."""
    if isinstance(activation.g, Polynomial):
        return len(activation.g.coefficients) - 1
    return {LINEAR: 1, QUADRATIC: 2}.get(activation.code)


@dataclass(frozen=True)
class FieldPoints:
    """Points z (groups, d, P), weights (P,) of normal fields; ``exact`` for the covariances of polynomials.

    ``tol`` is the relative error of splines and steps of quantities computed from the integrals.
    """

    z: Any
    weight: Any
    exact: bool
    tol: float

    @classmethod
    def of(cls, model, points, rng, moment_tol=INTEGRALS.moment_tol):
        """Gauss-Hermite nodes if few of them are exact, otherwise Sobol points; for learning rules ``RulePoints``."""
        if model.rule is not None:
            return RulePoints(model, moment_tol)
        d, degrees = model.K + model.M, [degree(x) for x in (model.activation, *teachers(model))]
        if None not in degrees:
            # F has the degree of g' Delta, and products of four F have the highest degree; m nodes are exact to 2 m - 1
            m = 2 * (max(degrees[0] - 1, 0) + max(degrees)) + 1
            if m**d <= INTEGRALS.max_grid_factor * points:
                z, weight = tensor(gauss_hermite(m), d)
                return cls(z[None], weight, True, INTEGRALS.exact_tol)
        size = max(int(np.log2(points / INTEGRALS.scrambles)), 1)
        normal = [sobol(d, size, child).T.copy() for child in rng.spawn(INTEGRALS.scrambles)]
        return cls(np.array(normal), np.full(2**size, 2.0**-size), False, INTEGRALS.sampled_tol)

    def moments(self, model, S, v):
        """E[phi] and E[phi phi^T] of each group."""
        values, vectors = np.linalg.eigh(S)
        # The symmetric root, because S may be singular, and it is continuous along a path.
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        return [_mean_moments(model, root @ z, self.weight, v) for z in self.z]


class RulePoints:
    """``FieldPoints`` for a learning rule: the nodes of its closure, in a size checked for fourth moments of forces."""

    def __init__(self, model, moment_tol):
        fields = model.rule.tokens * (model.K + model.M)
        if fields > MAX_VARIABLES or model.rule.others is not None or model.rule.by_block:
            raise ValueError(
                f"the rule {model.rule!r} has {fields} fields; expected at most {MAX_VARIABLES}, without others= and "
                "with one token_covariance, for fourth moments. Simulate: ov.simulate(model, N=, alpha=, rng=, runs=)."
            )
        self.bound, self.size, self.calls = bind(model), 0, 0
        arrays, sampled = model.rule.sizes
        self.exact, self.count = not sampled, len(arrays)
        self.moment_tol = max(moment_tol, (100 if fields <= 4 else 1) * model.rule.tolerance)
        limit = INTEGRALS.sampled_tol
        self.tol = min(10 * self.moment_tol, limit) if self.exact and fields <= 4 else limit

    def moments(self, model, S, v):
        """E[phi] and E[phi phi^T] of each group; an error if they do not converge."""
        w = np.append(v, -model.v_star)
        if not self.exact:  # size 0 contains all scrambles
            return [self._at(i, model, S, w) for i in range(1, self.count)]
        if self.calls % INTEGRALS.check_period == 0:
            self._choose_size(model, S, w)
        self.calls += 1
        # the larger of two sizes that agree, if the tolerance is below that of sampled integrals
        return [self._at(self.size + (self.tol < INTEGRALS.sampled_tol), model, S, w)]

    def _choose_size(self, model, S, w):
        size, gaps = settled_size(lambda i: self._at(i, model, S, w), self.count, self.size, [self.moment_tol] * 2)
        if size is None:
            raise ValueError(
                f"averages of four forces of the rule {model.rule.name!r} do not converge: sizes differ by "
                f"{max(gaps):.1g}, expected {self.moment_tol:.0e}. Fluctuations need fourth moments: bound the force."
            )
        self.size = size

    def _at(self, size, model, S, w):
        h, F, G, weight = self.bound.samples(size, S, w)
        F, (i, j), c = model.eta * F, upper(model.K), model.rule.token_covariance
        products = np.einsum("ak...,an...->kn...", F, h).reshape(-1, len(weight))
        squares = np.einsum("ab,ak...,bk...->k...", c, F[:, i], F[:, j])
        phi = np.concatenate([products, squares, model.eta_v * G]) * np.sqrt(weight)
        return phi @ np.sqrt(weight), phi @ phi.T


def product_covariance(model, points, S, v):
    """Cov(phi) at fields of covariance S and second layer v, from all points and then from each group.

    The order of phi is F_a h_c (K, K + M), the triangle of F_a F_c, and -eta_v g_a Delta (K). Label noise is averaged
    exactly.
    """
    moments = points.moments(model, S, v)
    first, second = (np.mean(x, axis=0) for x in zip(*moments, strict=True))
    return np.array([y - np.outer(x, x) for x, y in [(first, second), *moments]])


def _mean_moments(model, h, weight, v):
    """Moments of phi; for mixed tasks the means, weighted by the shares, of the moments of the tasks.

    A second layer of one task changes only in samples of that task.
    """
    if not isinstance(model, Mixed):
        return _moments(model, h, weight, v)
    K, heads = model.K, np.reshape(v, (-1, model.K))
    first = K * len(h) + K * (K + 1) // 2
    size = first + heads.size
    mean, second = np.zeros(size), np.zeros((size, size))
    for i, (task, task_weight) in enumerate(zip(model.models, model.shares, strict=True)):
        head = i if len(heads) > 1 else 0
        entries = np.r_[:first, first + head * K + np.arange(K)]
        one, two = _moments(task, h, weight, heads[head])
        mean[entries] += task_weight * one
        second[np.ix_(entries, entries)] += task_weight * two
    return mean, second


def teachers(model):
    """The activation of the teacher of each task."""
    return [task.teacher_activation for task in model.tasks]


def _moments(model, h, weight, v):
    """E[phi] and E[phi phi^T] at fields h (d, P); the average of phi = a + x b + x^2 c over label noise x is exact."""
    K, (i, j), variance = model.K, upper(model.K), model.noise**2
    first, last = K * len(h), K * len(h) + len(i)  # entries first, ..., last - 1 are the squares F_a F_c
    n = last + K * model.trains_v
    g = model.activation.g(h[:K])
    slope = -model.eta * v[:, None] * model.activation.dg(h[:K])
    delta = v @ g - model.v_star @ model.teacher_activation.g(h[K:])
    one = np.empty((n, h.shape[1]))  # a / Delta; for the squares a contains Delta^2
    one[:first] = (slope[:, None] * h).reshape(first, -1)
    one[last:] = -model.eta_v * g[: n - last]
    squares = slope[i] * slope[j]
    one[first:last] = squares * delta
    a = one * delta
    mean, second, root = np.zeros(last + K), np.zeros((last + K, last + K)), np.sqrt(weight)
    a *= root  # products of an array with itself take half the time
    mean[:n], second[:n, :n] = a @ root, a @ a.T
    if variance > 0:
        one[first:last] *= 2  # now ``one`` is -b
        one *= root
        c = squares * root
        mean[first:last] += variance * (c @ root)
        # the even powers of x in phi phi^T: x^2 in b b^T and a c^T, and x^4 with mean 3 variance^2 in c c^T
        second[:n, :n] += variance * (one @ one.T)
        mixed = variance * (a @ c.T)
        second[:n, first:last] += mixed
        second[first:last, :n] += mixed.T
        second[first:last, first:last] += 3 * variance**2 * (c @ c.T)
    return mean, second


class Increments:
    """D = Cov(u)/b from Cov(phi), for one set of unknowns."""

    def __init__(self, unknowns):
        self.unknowns, model = unknowns, unknowns.model
        self.s, self.p, self.V = np.array(model.spectrum.s), np.array(model.spectrum.p), unknowns.V
        K, M, (i, j) = model.K, model.M, upper(model.K)
        # each entry of y is the sum of products F_a h_b in one block: one product for r, two for q
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
        """D (..., n, n) from s_l S^l (L, d, d), C and one or several Cov(phi)."""
        model, L, entries = self.unknowns.model, len(self.s), len(self.terms)
        b, determined = model.batch_size, self.fractions(blocks)
        # u = U phi for the fields in blocks as determined by the total fields; their residuals are independent of phi
        U, products_of_blocks = np.zeros((entries, L, self.size)), np.einsum("eab,lbc->elac", self.terms, determined)
        U[..., : self.terms[0].size] = self.scale[..., None] * products_of_blocks.reshape(entries, L, -1)
        # the square of a step enters q alone, by its mean, because fluctuations of |x|^2 are of higher order in 1/N
        U[self.squares[0], :, self.squares[1]] = self.s * self.p / b
        U = U.reshape(entries * L, -1)
        if model.trains_v:
            U = np.concatenate([U, np.eye(self.size)[-self.V :]])
        n, D = len(U), np.zeros(products.shape[:-2] + (self.unknowns.size,) * 2)
        D[..., :n, :n] = U @ products @ U.T
        if L > 1:
            factors = self.terms, self.terms, C, self.residual_covariance(blocks, determined)
            rest = np.einsum("eab,fcd,ac,bdlm->elfm", *factors, optimize=True)
            rest = rest * self.scale[..., None, None] * self.scale
            D[..., : entries * L, : entries * L] += rest.reshape(entries * L, -1)
        return D / b

    def fractions(self, blocks):
        """G_l = s_l S^l S^+ (L, d, d): E[h^l | h] = G_l h, the contribution of a block to given total fields h."""
        if len(blocks) == 1:
            return np.eye(blocks.shape[1])[None]
        return blocks @ np.linalg.pinv(blocks.sum(axis=0), rcond=1e-12, hermitian=True)

    def residual_covariance(self, blocks, determined):
        """Covariance (d, d, L, L) of the residuals h^l - G_l h."""
        L = len(blocks)
        rest = -np.einsum("lbc,mdc->bdlm", blocks, determined)  # s_l S^l S^+ S G_m^T
        rest[:, :, np.arange(L), np.arange(L)] += np.moveaxis(blocks, 0, -1)
        return rest
