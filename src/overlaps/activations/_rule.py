"""The closure of any force, a first-class function: averages over the fields, nodes by nodes.

Behind w (n,) lie HEAD numbers, of which the last is the number of tokens whose fields S holds (1, but for
``closure_of_groups``), and arrays (``packed``): the numbers of the rule, values of the noise with their probabilities
(or the rule of its panels), planes on which the force breaks, cuts of a continuous noise, its law, the root of the
tokens' covariance, and the rule of quadrature. A sample of T tokens has the fields lam (T K,), nu (T M,), token by
token.
"""

import math
from functools import cached_property

import numpy as np
from numba import typeof, types
from numba.extending import typeof_impl

from .._base.jit import MATRIX, REAL, VECTOR, jit, jit_user
from .._base.lazy_compilation import has_entry_points
from ..gaussian.iterated import cut, nodes
from ..gaussian.tables import read
from .bound import CLOSURE
from .laws import proper

FORCE = types.void(VECTOR, VECTOR, REAL, VECTOR, MATRIX, VECTOR, VECTOR)  # (lam, nu, xi, theta, S, F, G)
ERROR = REAL(VECTOR, VECTOR, VECTOR)  # (lam, nu, theta)
CHANCE = types.void(VECTOR, VECTOR, VECTOR)  # (nu, theta, p)
BY_TOKENS = {  # of the functions of a user, where a sample has several tokens: lam (T, K), nu (T, M), F (T, K)
    "force": types.void(MATRIX, MATRIX, REAL, VECTOR, MATRIX, MATRIX, VECTOR),
    "error": REAL(MATRIX, MATRIX, VECTOR),
    "chance": types.void(MATRIX, VECTOR, VECTOR),
}
FUNCTIONS = tuple(types.FunctionType(x) for x in (FORCE, ERROR, CHANCE))
SIGNATURE = REAL(*FUNCTIONS, *CLOSURE.args[:3], *CLOSURE.args[4:])  # a rule has no code of a teacher's function

HEAD = 5
DROPPED = 1e-15  # eigenvalue of the fields' correlations, relative to the largest, that is rounding
FAINT = 1e-25  # probability of a node of a continuous noise that is left out: forces may be large there
CLOSE = 1e-13  # difference of asinh((xi - median) / scale) and t, relative, that is rounding


def flat(role, function, T, K, M):
    """A function of a user that sees the fields token by token, as one of the fields in a row."""

    def force(lam, nu, xi, theta, S, F, G):
        function(lam.reshape((T, K)), nu.reshape((T, M)), xi, theta, S, F.reshape((T, K)), G)

    def error(lam, nu, theta):
        return function(lam.reshape((T, K)), nu.reshape((T, M)), theta)

    def chance(nu, theta, p):
        function(nu.reshape((T, M)), theta, p)

    return jit_user({"force": force, "error": error, "chance": chance}[role])


def packed(by_chance, normal, units_of, quadrature, *arrays):
    """One array of all that the kernel needs, each with its shape before it: in the order of ``opened``."""
    points, weights, given, width, x, p = quadrature
    parts = [np.atleast_2d(part) for part in (*arrays, x, p, weights, points)]
    return np.concatenate([[by_chance, normal, given, width, units_of], *(np.r_[x.shape, x.ravel()] for x in parts)])


@jit
def part(w, at):
    """The array (rows, columns) at a place of w, and the place behind it."""
    array, at = np.empty((int(w[at]), int(w[at + 1]))), at + 2
    for i in range(len(array)):
        for j in range(array.shape[1]):
            array[i, j] = w[at]
            at += 1
    return array, at


@jit
def root_of(S):
    """A root (n, n) of the fields' covariance, and its left inverse.

    Correlations are decomposed: a student may be much smaller than a teacher. Their symmetric root is smooth in S, and
    so are errors of the quadrature. Eigenvectors jump where eigenvalues meet, as they do if R_km = 0: an integrator
    would follow the jumps of the errors with ever shorter steps.
    """
    n = S.shape[0]
    scaled, root, inverse = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if S[i, i] * S[j, j] > 0.0:
                scaled[i, j] = S[i, j] / math.sqrt(S[i, i] * S[j, j])
    values, vectors = np.linalg.eigh(scaled)
    for a in range(n):
        if values[a] > DROPPED * values[n - 1] or values[a] != values[a]:  # nan is handed on
            for i in range(n):
                for j in range(n if not S[i, i] <= 0.0 else 0):
                    root[i, j] += vectors[i, a] * vectors[j, a] * math.sqrt(S[i, i] * values[a])
                    inverse[j, i] += vectors[i, a] * vectors[j, a] / math.sqrt(S[i, i] * values[a])
    return root, inverse


@jit
def root_of_all(root, tokens, K, extra):
    """A root of the covariance of the fields of all tokens, lam (T K,), nu (T M,), and of extra fields of variance 1.

    Columns are those of ``root`` for one token after the other.
    """
    n, T = root.shape[0], tokens.shape[0]
    whole = np.eye(T * n + extra)
    for a in range(T):
        for i in range(n):
            row = a * K + i if i < K else T * K + a * (n - K) + i - K
            for b in range(T):
                for j in range(n):
                    whole[row, b * n + j] = tokens[a, b] * root[i, j]
    return whole


@jit
def across(planes, root):
    """Planes (c, t) of the fields, c . z = t, as planes of z = root u, relative to the size of terms of c . z."""
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
    """The t between the ends at which the first function of a table, which grows, is the target."""
    t = min(max(target, low), high)
    if abs(read(table, 0, t) - target) < CLOSE * (1.0 + abs(t)):  # in a half without end it is t itself
        return t
    for _ in range(60):
        t = 0.5 * (low + high)
        if read(table, 0, t) < target:
            low = t
        else:
            high = t
    return t


@jit
def noise_nodes(z, cuts, law, x, p, places, edges, xs, ps):
    """Nodes of a continuous noise (``laws.Law.table``), cut where c . z + t says; return their number."""
    median, scale, n = law[0], law[1], int(law[2])
    table, count = law[3 + n :], 0
    for i in range(len(cuts)):
        place = cuts[i, z.size]
        for l in range(z.size):
            place += cuts[i, l] * z[l]
        places[i] = solved(table, math.asinh((place - median) / scale), law[3], law[2 + n])
    for panel in range(3, n + 2):
        for k in range(cut(z, 0, cuts, places, law[panel], law[panel + 1], edges) - 1):
            h = edges[k + 1] - edges[k]
            for b in range(x.size):
                t = edges[k] + h * x[b]
                xs[count] = median + scale * math.sinh(read(table, 0, t))
                ps[count] = h * p[b] * read(table, 1, t)
                count += ps[count] > FAINT
    return count


@jit
def opened(S, w, K):
    """What ``average`` takes of the arrays behind w (n,), the fields' left inverse, the turn R, the root of tokens.

    Of the first, theta, units and S are those of one token, which the force sees.
    """
    n = S.shape[0]
    by_chance, extra, given, width, at = w[n] > 0.0, int(w[n + 1]), int(w[n + 2]), w[n + 3], n + HEAD
    numbers, at = part(w, at)
    values, at = part(w, at)
    chances, at = part(w, at)
    planes, at = part(w, at)
    cuts, at = part(w, at)
    law, at = part(w, at)
    tokens, at = part(w, at)
    x, at = part(w, at)
    p, at = part(w, at)
    weights, at = part(w, at)
    points = w[at + 2 : at + 2 + weights.size * int(w[at + 1])].reshape(weights.size, int(w[at + 1]))  # may be large
    token_root, inverse = root_of(S)
    root = root_of_all(token_root, tokens, K, extra)
    forms, offsets = across(planes, root)
    points, mass, R = nodes(forms, offsets, points, weights[0], given, width, x[0], p[0])
    units, seen = of_one_token(S, K, int(w[n + 4]))
    xs, ps, theta = values[0], chances[0], np.empty(units + numbers.size)
    for k in range(theta.size):
        theta[k] = w[k] if k < units else numbers[0, k - units]
    inner = xs, ps  # of a cut law: nodes in each of its panels
    if len(cuts) > 0:
        m = (int(law[0, 2]) + len(cuts)) * inner[0].size
        xs, ps = np.empty(m), np.empty(m)
    noise = by_chance, xs, ps, cuts, law[0], *inner, np.empty(len(cuts)), np.empty(len(cuts) + 2)
    return (theta, units, seen), (points, mass, root @ R.T), noise, inverse, R, tokens


@jit
def of_one_token(S, K, T):
    """Units and field covariance of a token, where S is that of all fields of T tokens, lam (T K,) before nu (T M,)."""
    units, n = K // T, S.shape[0] // T
    seen = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            seen[i, j] = S[i if i < units else K + i - units, j if j < units else K + j - units]
    return units, seen


@jit(no_reference_counting=True)
def average(force, error, chance, S, theta, nodes, noise, scratch, second_order, P, C, g, samples):
    """Add E[F u^T] to P (T K, d), the triangle of E[F F^T] to C (T K, T K), E[G] to g; return E[error].

    ``samples`` (m, all) takes the row (z, F, G, weight) of every node and value of the noise, as far as it has rows.
    """
    points, weights, root = nodes
    by_chance, values, chances, cuts, law, x, p, places, edges = noise
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
            m = noise_nodes(z, cuts, law, x, p, places, edges, values, chances)
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
    """What ``average`` fills: scratch, P, C of the components of all tokens, and samples if they are asked for."""
    d, row = len(R), np.empty(len(R) + size + units + 1)
    scratch = row, row[:d], row[d : d + size], row[d + size : -1]
    samples = np.zeros((len(nodes[0]) * noise[1].size if sampled else 0, row.size))
    return scratch, np.zeros((size, d)), np.zeros((size, size)), samples


@jit
def rule_closure(force, error, chance, S, w, K, eta, eta_v, noise, second_order, A, B, C, dv):
    """Fill A, B = E[F u^T] L^-1 for fields z = L u, C = E[F F^T], dv = E[G], times rates; return E[error].

    ``force`` fills F and G, which come as zeros. Of tokens with the covariance c = r r^T, z^a = sum_b r_ab L u^b, so
    that sum_a E[F^a z^aT] = sum_ab r_ab E[F^a u^bT] L^T; and C = sum_ab c_ab E[F^a F^bT].
    """
    n = S.shape[0]
    dv[:] = 0.0
    if not w[n] >= 0.0:  # refused
        A[:], B[:], C[:], dv[:] = np.nan, np.nan, np.nan, np.nan
        return np.nan
    (theta, units, seen), nodes, law, inverse, R, r = opened(S, w, K)
    scratch, P, square, samples = scratch_of(nodes, law, R, len(r) * K, units, False)
    eps_g = average(force, error, chance, seen, theta, nodes, law, scratch, second_order, P, square, dv, samples)
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
def rule_samples(force, error, chance, S, w, K):
    """Rows (z, F, G, weight) of all nodes: for averages other than those of the closure."""
    (theta, units, seen), nodes, law, _, R, r = opened(S, w, K)
    scratch, P, square, samples = scratch_of(nodes, law, R, len(r) * K, units, True)
    average(force, error, chance, seen, theta, nodes, law, scratch, False, P, square, np.zeros(K), samples)
    return samples


@jit
def no_force(lam, nu, xi, theta, S, F, G):
    """The force where an average of another function is wanted."""


@jit
def no_error(lam, nu, theta):
    """The error of a rule that records none."""
    return 0.0


@jit
def no_chance(nu, theta, p):
    """Probabilities that do not depend on the fields are filled beforehand."""


class _Address(types.WrapperAddressProtocol):
    """A compiled kernel as a pointer: what calls it directly would be optimised together with it, for seconds."""

    def __init__(self, kernel, signature):
        compiled = kernel.overloads[signature.args]
        self.kernel, self.type = kernel, types.FunctionType(signature)  # which shall outlive its code
        self.place = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cfunc_wrapper_name)

    def __wrapper_address__(self):
        return self.place

    def signature(self):
        """The signature of the kernel."""
        return self.type.signature


class TypedArguments(tuple):
    """Argument of steps in the place of an activation; numba is told its type once."""

    @cached_property
    def type(self):
        """The type of the tuple."""
        return typeof(tuple(self))

    @property
    def eigenvalues(self):
        """Those of the inputs in the overlaps that the force reads, to be changed in place; empty if it reads none."""
        return self[6]


@typeof_impl.register(TypedArguments)
@typeof_impl.register(_Address)
def _type_of(value, context):
    return value.type  # numba would make it anew at each call, which takes longer than the steps of a short run


def kernel(closure):
    """A closure that is made of functions, compiled as all others are."""
    compiled = jit_user(closure)
    if hasattr(compiled, "compile") and not has_entry_points(compiled, CLOSURE):
        compiled.compile(CLOSURE.args)
    return compiled


def pointer(kernel, signature):
    """A kernel as compiled code calls it without being compiled together with it."""
    if not hasattr(kernel, "compile"):
        return kernel
    if not has_entry_points(kernel, signature):
        kernel.compile(signature.args)
    return _Address(kernel, signature)
