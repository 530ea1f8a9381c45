"""Ridge regression on conditional Gaussian features: its fixed point, for one or several blocks of neurons.

Pairs of blocks are packed: the upper triangle of a symmetric (B, B) matrix, then B numbers of single blocks. With the
functions S = (mu1_b mu1_c, mu2_b^2) and their multiplicities w (2 off the diagonal, else 1),

    V(k) = S . (w v),   v = (V1, V2),      Vh = kappa E[S den],   den = 1 / (1 + V),      v = response(Vh).

These are (18), (19), (20) of Cui et al. (2024), arXiv:2402.04980, Result 3.3, and (155), (156) for blocks, without the
traces of large matrices. Models of the rows differ in the response of the resolvent, v(Vh) and its derivative; see
blocks.py.

The direction 1_b, all ones on block b, is that of the function mu0_b. Among p = beta d directions its response to the
data is like that of the others, T = p V2_b; as d -> infinity the ridge on it costs nothing, and mu0_b is fitted freely.
"""

import math
from typing import NamedTuple

import numpy as np


class RidgeOptions(NamedTuple):
    """Tunable numbers of the fixed point of ridge regression."""

    # Error and step of log v at which Newton's method ends.
    newton_tol: float = 1e-13
    # Error above which there is no solution; rounding may stop Newton's method between the two.
    residual_tol: float = 1e-11
    # Relative difference of two forms of the least objective above which the readout norms are lost by rounding.
    objective_tol: float = 1e-6
    # Plain iterations before Newton's method.
    plain_iterations: int = 3
    # Longer steps of log v are shortened to this length.
    max_step: float = 5.0
    max_halvings: int = 30
    # Fraction of E[sigma^2] in mu0 below which there is no spike.
    min_spike: float = 1e-20


RIDGE = RidgeOptions()


class Response(NamedTuple):
    """Response of the rows at one Vh: v and its derivative, and T with its derivative in each direction."""

    v: np.ndarray  # packed (V1, V2)
    D: np.ndarray  # dv / dVh, packed; a direction off the diagonal changes both entries
    T: np.ndarray  # theta = T thh: (B, B)
    dT: np.ndarray  # (directions, *T.shape)


class BlockPairs:
    """Indices of packed pairs of B blocks, and multiplicities w."""

    def __init__(self, B):
        self.B, self.rows, self.columns = B, *np.triu_indices(B)
        self.pairs = self.rows.size
        self.w = np.concatenate([np.where(self.rows == self.columns, 1.0, 2.0), np.ones(B)])
        self.positive = self.w == 1.0
        self.diagonal = np.flatnonzero(self.rows == self.columns)

    def pack(self, matrix, vector):
        """One vector of a symmetric matrix (B, B) over the pairs and a vector (B,)."""
        return np.concatenate([matrix[self.rows, self.columns], vector])

    def unpack(self, packed):
        """The matrix (B, B) and the vector (B,) of a packed one."""
        matrix = np.empty((self.B, self.B))
        matrix[self.rows, self.columns] = matrix[self.columns, self.rows] = packed[: self.pairs]
        return matrix, packed[self.pairs :]

    def coordinates(self, v):
        """Variables of Newton's method: logarithms of the positive entries, correlations of the others."""
        if self.B == 1:
            return np.log(v)
        root = np.sqrt(v[self.diagonal])
        x = v / self.pack(np.outer(root, root), np.ones(self.B))
        x[self.positive] = np.log(v[self.positive])
        return x

    def values(self, x):
        """The packed v of its coordinates."""
        if self.B == 1:
            return np.exp(x)
        root = np.exp(0.5 * x[self.diagonal])
        v = x * self.pack(np.outer(root, root), np.ones(self.B))
        v[self.positive] = np.exp(x[self.positive])
        return v

    def slopes(self, v):
        """Matrix dv / dx."""
        if self.B == 1:
            return np.diag(v)
        root = np.sqrt(v[self.diagonal])
        P = np.diag(np.where(self.positive, v, self.pack(np.outer(root, root), np.ones(self.B))))
        off = np.flatnonzero(~self.positive)
        # an entry off the diagonal is its correlation times the root of both diagonal entries, hence the factor 1/2
        for ends in (self.rows, self.columns):
            P[off, self.diagonal[ends[off]]] = 0.5 * v[off]
        return P


class Features:
    """Tables (B, n) of the conditional coefficients and the packed functions S, with weights over k."""

    def __init__(self, table):
        self.weight, self.h, self.hh = table.weight, table.h, table.hh
        self.h1 = np.atleast_2d(table.h1)  # one row for each direction of the target that is orthogonal to the spikes
        self.mu0, self.mu1, self.u = (np.atleast_2d(x) for x in (table.mu0, table.mu1, table.u))
        mu2 = np.atleast_2d(table.mu2_squared)
        self.packing = BlockPairs(len(self.mu0))
        self.across = (self.mu1[:, None] * self.h1).reshape(-1, self.weight.size)
        self.S = np.concatenate([self.mu1[self.packing.rows] * self.mu1[self.packing.columns], mu2])
        total = (self.mu0**2 + mu2) @ self.weight
        self.spiked = (self.mu0**2) @ self.weight > RIDGE.min_spike * total

    def means(self, bias):
        """Functions that the readout fits freely because of the spike: mu0 of each block, and 1 for a trained bias."""
        means = self.mu0[self.spiked]
        return np.concatenate([means, np.ones((1, means.shape[1]))]) if bias else means

    def charged(self, cost, bias):
        """Costs of the functions of :meth:`means`, given those of each block's mu0 (B,) or a common one."""
        return np.append(np.broadcast_to(cost, self.packing.B)[self.spiked], [0.0] * bias)


class RidgeFit(NamedTuple):
    """Solution of the fixed point; packed v and q, shape (B,) otherwise."""

    mse: float
    train: float
    m: np.ndarray
    theta: np.ndarray
    psi: np.ndarray
    b0: float
    v: np.ndarray
    q: np.ndarray
    converged: bool
    residual: float
    iterations: int


def susceptibilities(features, response, kappa, start, iterations):
    """Newton's method with step halving for v: v, its response, E[S S^T den^2], residual and number of iterations."""
    packing, weight, S = features.packing, features.weight, features.S
    w = packing.w

    def image(v):
        den = 1 / (1 + (w * v) @ S)
        weighted = S * (weight * den)
        return response(kappa * weighted.sum(axis=1)), weighted * den, bool(np.all(den > 0))

    v = start
    if v is None:
        v = response(np.zeros(S.shape[0])).v
        for _ in range(RIDGE.plain_iterations):
            v = image(v)[0].v
    x = packing.coordinates(v)
    answer, squares, _ = image(v)
    error = x - packing.coordinates(answer.v)
    count, change, stalled = 0, math.inf, False
    while count < iterations and change > RIDGE.newton_tol and not stalled:  # nan ends the loop
        count += 1
        image_slopes = answer.D @ (kappa * (squares @ S.T) * w) @ packing.slopes(v)  # with the opposite sign
        step = np.linalg.solve(np.eye(v.size) + np.linalg.solve(packing.slopes(answer.v), image_slopes), error)
        # a step of log v may be hundreds, and v would leave the range of float64
        step *= min(1.0, RIDGE.max_step / np.max(np.abs(step)))
        size = np.max(np.abs(error))
        for _ in range(RIDGE.max_halvings):
            v = packing.values(x - step)
            answer, squares, positive = image(v)
            error = x - step - packing.coordinates(answer.v)
            # where a denominator is negative, the equations have other solutions
            if positive and np.max(np.abs(error)) <= max(size, RIDGE.newton_tol):
                break
            step /= 2
        x = x - step
        residual, length, before = np.max(np.abs(error)), np.max(np.abs(step)), change
        change = max(residual, length)
        stalled = residual <= RIDGE.newton_tol and length >= before  # near interpolation steps are rounding
    return v, answer, squares, float(np.max(np.abs(error))), count


def fit(features, response, *, lam, kappa, beta, noise, bias=False, d=math.inf, start=None, iterations=100):
    """Order parameters, test and training error of the ridge readout.

    The least objective, min |y - X a|^2 + lam |a|^2, equals y (y - X a). Only the first form depends on the readout
    norms q: a difference of the two shows that q is lost by rounding, which happens for nearly dependent blocks.
    """
    packing, weight = features.packing, features.weight
    with np.errstate(all="ignore"):
        try:
            v, answer, squares, residual, count = susceptibilities(features, response, kappa, start, iterations)
        except np.linalg.LinAlgError:
            residual, count = math.nan, iterations
    if not residual <= RIDGE.residual_tol:
        return failed(packing, residual, count)
    den = 1 / (1 + (packing.w * v) @ features.S)
    free, u, T, dT = costs(features, answer, bias, beta, d)
    psih = kappa * (features.across @ (weight * den))
    mean, m, theta, b0, thh = mean_predictor(features, free, u, T[: len(u), : len(u)], kappa, den, bias)
    fields = np.concatenate([thh, psih])
    psi = T[len(u) :] @ fields
    left = features.hh + noise**2 - 2 * mean * features.h + mean**2 - 2 * psi @ features.across
    # changes of the readout norms: q = -D kappa E[S R den^2] + M, with R = left + S . (w q)
    M = -np.einsum("b,jbc,c->j", fields, dT, fields) / packing.w
    system = np.eye(v.size) + kappa * (answer.D @ (squares @ features.S.T)) * packing.w
    q = np.linalg.solve(system, M - kappa * answer.D @ (squares @ left))
    R = left + (packing.w * q) @ features.S
    mse, train = float(weight @ R), float(weight @ (R * den**2))
    labels = features.hh + noise**2
    least = kappa * (weight @ (den * (labels - mean * features.h - psi @ features.across)))
    gap = abs(kappa * train + lam * np.sum(q[packing.pairs :]) - least)
    rounding = 1e-12 * kappa * (weight @ (den * labels))  # larger than the objective if learning is perfect
    if not gap <= RIDGE.objective_tol * abs(least) + rounding:
        return failed(packing, residual, count)
    return RidgeFit(mse, train, m, theta, psi, b0, v, q, True, residual, count)


def failed(packing, residual, count):
    """A fit that failed: all numbers are nan."""
    per_block, packed = np.full(packing.B, math.nan), np.full(packing.w.size, math.nan)
    order = per_block, per_block, per_block, math.nan, packed, packed
    return RidgeFit(math.nan, math.nan, *order, False, residual, count)


def misfit(features, response, kappa, v):
    """Largest relative change of v by the fixed-point map of other features, such as those on a finer grid over k."""
    den = 1 / (1 + (features.packing.w * v) @ features.S)
    image = response(kappa * (features.S @ (features.weight * den))).v
    return float(np.max(np.abs(features.packing.coordinates(image) - features.packing.coordinates(v))))


def costs(features, answer, bias, beta, d):
    """Functions fitted freely (j, n), functions u with a ridge on their directions, T and dT of u and psi.

    At finite d the mu0 are the first of the functions u.
    """
    packing, (T, dT), u = features.packing, answer[2:], features.u
    directions = np.eye(len(features.h1))  # psi = beta V1 psih in each direction of the target, apart from theta
    T_psi = [np.kron(beta * packing.unpack(x)[0], directions) for x in (answer.v, *answer.D.T)]
    T, dT = block_diagonal(T, T_psi[0]), np.array([block_diagonal(*x) for x in zip(dT, T_psi[1:], strict=True)])
    if math.isinf(d):
        return features.means(bias), u, T, dT
    p, pairs = beta * d, packing.pairs
    dT = np.array([block_diagonal(np.diag(p * x), y) for x, y in zip(answer.D[pairs:].T, dT, strict=True)])
    free = np.ones((int(bias), features.weight.size))
    return free, np.concatenate([features.mu0, u]), block_diagonal(np.diag(p * answer.v[pairs:]), T), dT


def block_diagonal(a, b):
    """The block-diagonal matrix of two matrices."""
    joint = np.zeros((len(a) + len(b),) * 2)
    joint[: len(a), : len(a)], joint[len(a) :, len(a) :] = a, b
    return joint


def mean_predictor(features, f, u, T, kappa, den, bias):
    """C(k) = x f + theta u, with E[f (h - C) den] = 0, theta = T thh, thh = kappa E[u (h - C) den].

    f are the free functions mu0 and 1; theta is the readout along u = k mu1; at finite d the mu0 are the first of u.
    u and h are projected orthogonally to f for theta, because u of a linear student is proportional to mu0.
    """
    root = np.sqrt(features.weight * den)
    length = np.linalg.norm(f * root, axis=1)
    left, scale, right = orthonormal((f * root).T / length)
    across, h = (u * root).T, features.h * root
    for _ in range(2):  # the second time against rounding
        across, h = across - left @ (left.T @ across), h - left @ (left.T @ h)
    hessian, gradient = kappa * T @ (across.T @ across), kappa * T @ (across.T @ h)
    theta = np.linalg.solve(np.eye(len(u)) + hessian, gradient)
    rest = features.h - theta @ u
    x = right.T @ (left.T @ (rest * root) / scale) / length  # least norm, if mu0 of blocks are proportional
    C, thh = x @ f + theta @ u, kappa * across.T @ (h - across @ theta)
    return C, *by_blocks(features, x, theta, bias), thh


def by_blocks(features, free, theta, bias):
    """Means m (B,) of a readout, theta, bias; means with a cost are the first entries of theta, others are free."""
    B, b0 = features.packing.B, float(free[-1]) if bias else 0.0
    if len(theta) > len(features.u):
        return theta[:B], theta[B:], b0
    m = np.zeros(B)
    m[features.spiked] = free[: len(free) - bias]
    return m, theta, b0


def strong_ridge(features, noise, bias=False, cost=0.0):
    """Test error of the best readout that is constant on each block: the ridge at large lam, as d -> infinity."""
    root = np.sqrt(features.weight)
    rest = float(features.weight @ features.hh) + noise**2
    rest -= explained((features.means(bias) * root).T, features.h * root, features.charged(cost, bias))
    return max(rest, 0.0)  # perfect learning leaves rounding


def explained(f, h, cost=()):
    """|h|^2 - min |h - f x|^2 - sum cost x^2, for columns of f whose lengths may differ by many orders."""
    charged = np.flatnonzero(cost)
    penalty = np.zeros((charged.size, f.shape[1]))
    penalty[np.arange(charged.size), charged] = np.sqrt(np.asarray(cost, dtype=float)[charged])
    f, h = np.concatenate([f, penalty]), np.concatenate([h, np.zeros(charged.size)])
    return float(np.sum((h @ orthonormal(f / np.linalg.norm(f, axis=0))[0]) ** 2))


def orthonormal(f):
    """Singular vectors (n, m), values (m,) and vectors (m, columns) of f; those at rounding level are left out."""
    if not f.shape[1]:
        return f, np.ones(0), np.ones((0, 0))
    left, size, right = np.linalg.svd(f, full_matrices=False)
    independent = size > 1e-13
    return left[:, independent], size[independent], right[independent]


def marchenko_pastur(c, beta, lam):
    """Response of one block with rows uniform on the sphere, every quantity as a sum of positive terms.

    With x = c Vh1, s = lam + Vh2 and g the Stieltjes transform of the Marchenko-Pastur law at z = s / x,
    V2 = g / x solves  beta x s V2^2 + (s + (1 - beta) x) V2 - 1 = 0, which is regular at x = 0.
    """

    def response(Vh):
        x, s = c * Vh[0], lam + Vh[1]
        b = s + (1 - beta) * x
        root = math.sqrt(b * b + 4 * beta * x * s)
        V2 = 2 / (b + root) if b >= 0 else (root - b) / (2 * beta * x * s)
        inner = 1 + beta * x * V2
        i0, i1 = V2 * inner / root, c * V2 / (root * inner)  # E[1/S^2], E[D/S^2], E[D^2/S^2]
        i2 = c * (i1 / inner**2 + c * beta * V2**2 / inner**2)
        factor = c * beta
        return Response(
            np.array([c * V2 / inner, V2]),
            -np.array([[i2, i1], [i1, i0]]),
            np.array([[factor * V2]]),
            -factor * np.array([i1, i0]).reshape(2, 1, 1),
        )

    return response
