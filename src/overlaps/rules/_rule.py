"""The closure of any force, a first-class function: averages over the fields as sums over nodes.

A sample of T tokens has the fields lam (T K,), nu (T M,), token by token.
"""

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numba import typeof, types
from numba.extending import typeof_impl

from .._base.jit import MATRIX, REAL, VECTOR, jit, jit_user
from .._base.lazy_compilation import in_memory
from ..activations.bound import CLOSURE
from ..gaussian.iterated import cut, nodes
from ..gaussian.packed import matrix, vector
from ..gaussian.tables import read
from .laws import proper


class Signatures(NamedTuple):
    """Signatures of the functions of a rule."""

    force: object  # (lam, nu, xi, theta, S, F, G)
    error: object  # (lam, nu, theta)
    chance: object  # (nu, theta, p)


class RuleArrays(NamedTuple):
    """Numbers of the arrays in the parameters of ``rule_closure``, which are (nan,) where a state was refused."""

    # whether probabilities depend on the fields, number of normal noises, given coordinates and largest width of panels
    # (``nodes``), number of tokens whose fields S contains: 1 except in ``closure_of_groups``
    kind: int = 0
    numbers: int = 1  # of the rule
    values: int = 2  # of the noise
    chances: int = 3
    planes: int = 4  # on which the force breaks
    cuts: int = 5  # of a continuous noise
    scale: int = 6  # median and scale of its law, edges of its panels, its table: ``laws.Law.arrays``
    edges: int = 7
    table: int = 8
    tokens: int = 9  # root of their covariance
    points: int = 10  # the quadrature
    weights: int = 11
    x: int = 12  # nodes in each panel
    p: int = 13


class NodeLimits(NamedTuple):
    """Tunable numbers of the nodes of fields and noise."""

    # Eigenvalue of the correlations of the fields, relative to the largest, below which it is a rounding error and is
    # set to zero.
    min_eigenvalue: float = 1e-15
    # Probability below which nodes of a continuous noise are left out; it is small because forces may be large there.
    min_probability: float = 1e-25
    solve_tol: float = 1e-13  # relative difference of asinh((xi - median) / scale) and t that is a rounding error


SIGNATURES = Signatures(
    types.void(VECTOR, VECTOR, REAL, VECTOR, MATRIX, VECTOR, VECTOR),
    REAL(VECTOR, VECTOR, VECTOR),
    types.void(VECTOR, VECTOR, VECTOR),
)
# Signatures of the functions of a user for samples of several tokens: lam (T, K), nu (T, M), F (T, K).
TOKEN_SIGNATURES = Signatures(
    types.void(MATRIX, MATRIX, REAL, VECTOR, MATRIX, MATRIX, VECTOR),
    REAL(MATRIX, MATRIX, VECTOR),
    types.void(MATRIX, VECTOR, VECTOR),
)
# Signature of ``rule_closure``: three functions, then the arguments of a closure without the code of the teacher.
AVERAGE_SIGNATURE = REAL(*map(types.FunctionType, SIGNATURES), *CLOSURE.args[:4], *CLOSURE.args[5:])
ARRAY = RuleArrays()
NODE_LIMITS = NodeLimits()


def flat(role, function, T, K, M):
    """A user's function of fields (T, K) and (T, M), as a function of the same fields in one dimension."""

    def force(lam, nu, xi, theta, S, F, G):
        function(lam.reshape((T, K)), nu.reshape((T, M)), xi, theta, S, F.reshape((T, K)), G)

    def error(lam, nu, theta):
        return function(lam.reshape((T, K)), nu.reshape((T, M)), theta)

    def chance(nu, theta, p):
        function(nu.reshape((T, M)), theta, p)

    return jit_user({"force": force, "error": error, "chance": chance}[role])


@jit
def root_of(S):
    """A root (n, n) of the fields' covariance, and its left inverse.

    The correlations are decomposed because a student may be much smaller than a teacher. Their symmetric root is smooth
    in S, and so are the errors of the quadrature. A root from eigenvectors alone would jump where eigenvalues meet, for
    instance at R_km = 0, and an integrator would resolve the jumps of the errors with ever shorter steps.
    """
    n = S.shape[0]
    scaled, root, inverse = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if S[i, i] * S[j, j] > 0.0:
                scaled[i, j] = S[i, j] / math.sqrt(S[i, i] * S[j, j])
    values, vectors = np.linalg.eigh(scaled)
    for a in range(n):
        if values[a] > NODE_LIMITS.min_eigenvalue * values[n - 1] or values[a] != values[a]:  # nan propagates
            for i in range(n):
                for j in range(n if not S[i, i] <= 0.0 else 0):
                    root[i, j] += vectors[i, a] * vectors[j, a] * math.sqrt(S[i, i] * values[a])
                    inverse[j, i] += vectors[i, a] * vectors[j, a] / math.sqrt(S[i, i] * values[a])
    return root, inverse


@jit
def root_of_all(root, tokens, K, extra):
    """A root of the covariance of the fields of all tokens, lam (T K,), nu (T M,), and of extra fields of variance 1.

    The columns are those of ``root``, token by token.
    """
    n, T = root.shape[0], tokens.shape[0]
    full = np.eye(T * n + extra)
    for a in range(T):
        for i in range(n):
            row = a * K + i if i < K else T * K + a * (n - K) + i - K
            for b in range(T):
                for j in range(n):
                    full[row, b * n + j] = tokens[a, b] * root[i, j]
    return full


@jit
def whitened_planes(planes, root):
    """Planes c . z = t of the fields z = root u as planes of u, divided by the size of the terms of c . z."""
    m, d = len(planes), len(root)
    forms, offsets = np.zeros((m, d)), np.zeros(m)
    for i in range(m):
        size = 0.0
        for j in range(d):
            for l in range(d):
                forms[i, j] += planes[i, l] * root[l, j]
                size += (planes[i, l] * root[l, j]) ** 2
        if size > 0.0:
            for j in range(d):
                forms[i, j] /= math.sqrt(size)
            offsets[i] = planes[i, d] / math.sqrt(size)
    return forms, offsets


@jit
def solved(table, target, low, high):
    """The t in [low, high] at which the first function of a table, which increases, equals the target."""
    t = min(max(target, low), high)
    # Where the law has no end, the function is t.
    if abs(read(table, 0, t) - target) < NODE_LIMITS.solve_tol * (1.0 + abs(t)):
        return t
    for _ in range(60):
        t = 0.5 * (low + high)
        if read(table, 0, t) < target:
            low = t
        else:
            high = t
    return t


@jit
def noise_nodes(z, cuts, law, x, p, positions, edges, xs, ps):
    """Fill nodes of a continuous noise (``laws.Law.arrays``), cut at xi = c . z + t; return their number."""
    (median, scale), ends, table = law
    n, count = ends.size, 0
    for i in range(len(cuts)):
        position = cuts[i, z.size]
        for l in range(z.size):
            position += cuts[i, l] * z[l]
        positions[i] = solved(table, math.asinh((position - median) / scale), ends[0], ends[n - 1])
    for panel in range(n - 1):
        for k in range(cut(z, 0, cuts, positions, ends[panel], ends[panel + 1], edges) - 1):
            h = edges[k + 1] - edges[k]
            for b in range(x.size):
                t = edges[k] + h * x[b]
                xs[count] = median + scale * math.sinh(read(table, 0, t))
                ps[count] = h * p[b] * read(table, 1, t)
                count += ps[count] > NODE_LIMITS.min_probability
    return count


@jit
def unpacked(S, w, parameters, K):
    """Arguments of ``average``, the fields' left inverse, the rotation R, the root of tokens.

    The first tuple holds theta, the number of units and S of one token, which are arguments of the force.
    """
    by_chance, extra, given, width, T = vector(parameters, ARRAY.kind)
    numbers, values = vector(parameters, ARRAY.numbers), vector(parameters, ARRAY.values)
    chances = vector(parameters, ARRAY.chances).copy()  # filled where they depend on the fields
    planes, cuts = matrix(parameters, ARRAY.planes), matrix(parameters, ARRAY.cuts)
    tokens, points = matrix(parameters, ARRAY.tokens), matrix(parameters, ARRAY.points)
    weights, x, p = vector(parameters, ARRAY.weights), vector(parameters, ARRAY.x), vector(parameters, ARRAY.p)
    law = vector(parameters, ARRAY.scale), vector(parameters, ARRAY.edges), vector(parameters, ARRAY.table)
    token_root, inverse = root_of(S)
    root = root_of_all(token_root, tokens, K, int(extra))
    forms, offsets = whitened_planes(planes, root)
    points, mass, R = nodes(forms, offsets, points, weights, int(given), width, x, p)
    units, token_S = of_one_token(S, K, int(T))
    theta = np.empty(units + numbers.size)
    for k in range(theta.size):
        theta[k] = w[k] if k < units else numbers[k - units]
    inner = values, chances  # for a cut law: the nodes in each panel
    if len(cuts) > 0:
        m = (law[1].size + len(cuts)) * inner[0].size
        values, chances = np.empty(m), np.empty(m)
    noise = by_chance > 0, values, chances, cuts, law, *inner, np.empty(len(cuts)), np.empty(len(cuts) + 2)
    return (theta, units, token_S), (points, mass, root @ R.T), noise, inverse, R, tokens


@jit
def of_one_token(S, K, T):
    """Number of units and field covariance of one token, from S of the fields lam (T K,), nu (T M,) of T tokens."""
    units, n = K // T, S.shape[0] // T
    token_S = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            token_S[i, j] = S[i if i < units else K + i - units, j if j < units else K + j - units]
    return units, token_S


@jit(no_reference_counting=True)
def average(force, error, chance, S, theta, nodes, noise, scratch, second_order, P, C, g, samples):
    """Add E[F u^T] to P (T K, d), the triangle of E[F F^T] to C (T K, T K), E[G] to g; return E[error].

    The first len(samples) nodes and values of the noise fill the rows (z, F, G, weight) of ``samples``.
    """
    points, weights, root = nodes
    by_chance, values, chances, cuts, law, x, p, positions, edges = noise
    row, z, F, G = scratch
    d, m, count, eps_g = z.size, values.size, 0, 0.0
    n = F.size // G.size * S.shape[0]
    lam, nu = z[: F.size], z[F.size : n]
    for i in range(len(points)):
        for a in range(d):
            z[a] = 0.0
            for j in range(d):
                z[a] += root[a, j] * points[i, j]
        if by_chance:
            chance(nu, theta, chances)
            if not proper(chances):
                P[:], C[:], g[:] = np.nan, np.nan, np.nan
                return np.nan
        elif len(cuts) > 0:
            m = noise_nodes(z, cuts, law, x, p, positions, edges, values, chances)
        eps_g += weights[i] * error(lam, nu, theta)
        for c in range(m):
            F[:], G[:] = 0.0, 0.0
            force(lam, nu, z[n] if d > n else values[c], theta, S, F, G)
            weight = weights[i] * chances[c]
            for k in range(G.size):
                g[k] += weight * G[k]
            for k in range(F.size):
                for j in range(d):
                    P[k, j] += weight * F[k] * points[i, j]
                for j in range(k + 1 if second_order else 0):
                    C[k, j] += weight * F[k] * F[j]
            if count < len(samples):
                row[-1] = weight
                for j in range(row.size):
                    samples[count, j] = row[j]
                count += 1
    return eps_g


@jit
def scratch_of(nodes, noise, R, size, units, sampled):
    """Arrays that ``average`` fills: scratch, P and C of the fields of all tokens, and samples if ``sampled``."""
    d, row = len(R), np.empty(len(R) + size + units + 1)
    scratch = row, row[:d], row[d : d + size], row[d + size : -1]
    samples = np.zeros((len(nodes[0]) * noise[1].size if sampled else 0, row.size))
    return scratch, np.zeros((size, d)), np.zeros((size, size)), samples


@jit
def rule_closure(force, error, chance, S, w, parameters, K, eta, eta_v, noise, second_order, A, B, C, dv):
    """Fill A, B = E[F u^T] L^-1 for fields z = L u, C = E[F F^T], dv = E[G], times rates; return E[error].

    ``force`` adds to F and G, which are zero before. For tokens with the covariance c = r r^T, z^a = sum_b r_ab L u^b,
    so that sum_a E[F^a z^aT] = sum_ab r_ab E[F^a u^bT] L^T; and C = sum_ab c_ab E[F^a F^bT].
    """
    n = S.shape[0]
    dv[:] = 0.0
    if not parameters[0] >= 0.0:  # the state was refused in Python
        A[:], B[:], C[:], dv[:] = np.nan, np.nan, np.nan, np.nan
        return np.nan
    (theta, units, token_S), nodes, law, inverse, R, r = unpacked(S, w, parameters, K)
    scratch, P, square, samples = scratch_of(nodes, law, R, len(r) * K, units, False)
    eps_g = average(force, error, chance, token_S, theta, nodes, law, scratch, second_order, P, square, dv, samples)
    P, c, T = P @ R, r @ r.T, len(r)
    for k in range(K):
        dv[k] *= eta_v
        for j in range(k + 1):
            total = 0.0
            for a in range(T):
                for b in range(T):
                    total += c[a, b] * square[max(a * K + k, b * K + j), min(a * K + k, b * K + j)]
            C[k, j] = C[j, k] = eta * eta * total
        for i in range(n):
            total = 0.0
            for a in range(T):
                for b in range(T):
                    for j in range(n):
                        total += r[a, b] * P[a * K + k, b * n + j] * inverse[j, i]
            if i < K:
                A[k, i] = eta * total
            else:
                B[k, i - K] = eta * total
    return eps_g


@jit
def rule_samples(force, error, chance, S, w, parameters, K):
    """Rows (z, F, G, weight) of all nodes, for averages other than those of the closure."""
    (theta, units, token_S), nodes, law, _, R, r = unpacked(S, w, parameters, K)
    scratch, P, square, samples = scratch_of(nodes, law, R, len(r) * K, units, True)
    average(force, error, chance, token_S, theta, nodes, law, scratch, False, P, square, np.zeros(K), samples)
    return samples


@jit
def no_force(lam, nu, xi, theta, S, F, G):
    """No force, for averages of another function."""


@jit
def no_error(lam, nu, theta):
    """The error of a rule that records none."""
    return 0.0


@jit
def no_chance(nu, theta, p):
    """Leave p unchanged, for probabilities that do not depend on the fields."""


class _Address(types.WrapperAddressProtocol):
    """A compiled kernel as a pointer, because code that calls it directly takes seconds longer to compile."""

    def __init__(self, kernel, signature):
        compiled = kernel.overloads[signature.args]
        self.kernel, self.type = kernel, types.FunctionType(signature)  # the reference keeps the code alive
        self.address = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cfunc_wrapper_name)

    def __wrapper_address__(self):
        return self.address

    def signature(self):
        """The signature of the kernel."""
        return self.type.signature


class TypedArguments(tuple):
    """Argument of steps in place of an activation, with its numba type cached."""

    @cached_property
    def type(self):
        """The type of the tuple."""
        return typeof(tuple(self))

    @property
    def eigenvalues(self):
        """Eigenvalues in the overlaps that the force reads, to be changed in place; empty if it reads none."""
        return self[6]


@typeof_impl.register(TypedArguments)
@typeof_impl.register(_Address)
def _type_of(value, context):
    return value.type  # cached: inferring it at each call takes longer than the steps of a short run


def kernel(closure):
    """A closure that contains functions of the user, compiled for the signature of all closures."""
    compiled = jit_user(closure)
    if hasattr(compiled, "compile") and not in_memory(compiled, CLOSURE):
        compiled.compile(CLOSURE.args)
    return compiled


def pointer(kernel, signature):
    """A kernel as a pointer, so that compiled code calls it without being compiled together with it."""
    if not hasattr(kernel, "compile"):
        return kernel
    if not in_memory(kernel, signature):
        kernel.compile(signature.args)
    return _Address(kernel, signature)
