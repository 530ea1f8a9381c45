"""The closure of any force, a first-class function: averages over the fields, nodes by nodes.

Behind w (n,) lie HEAD numbers and the arrays that they measure (``packed``): the numbers of the rule, values of the
noise with their probabilities, planes on which the force breaks, cuts of a continuous noise, the rule of quadrature,
and the root of the tokens' covariance. A sample of T tokens has the fields lam (T K,), nu (T M,), token by token.
"""

import math
from functools import cached_property

import numpy as np
from numba import float64, njit, typeof, types
from numba.extending import typeof_impl

from .._base.jit import jit
from ..gaussian.iterated import cut, nodes
from ..gaussian.tables import read
from .bound import CLOSURE

VECTOR, MATRIX = float64[::1], float64[:, ::1]
FORCE = types.void(VECTOR, VECTOR, float64, VECTOR, MATRIX, VECTOR, VECTOR)  # (lam, nu, xi, theta, S, F, G)
ERROR = float64(VECTOR, VECTOR, VECTOR)  # (lam, nu, theta)
CHANCE = types.void(VECTOR, VECTOR, VECTOR)  # (nu, theta, p)
BY_TOKENS = {  # of the functions of a user, where a sample has several tokens: lam (T, K), nu (T, M), F (T, K)
    "force": types.void(MATRIX, MATRIX, float64, VECTOR, MATRIX, MATRIX, VECTOR),
    "error": float64(MATRIX, MATRIX, VECTOR),
    "chance": types.void(MATRIX, VECTOR, VECTOR),
}
FUNCTIONS = tuple(types.FunctionType(x) for x in (FORCE, ERROR, CHANCE))
SIGNATURE = float64(*FUNCTIONS, *CLOSURE.args[:3], *CLOSURE.args[4:])  # a rule has no code of a teacher's function

HEAD = 12
DROPPED = 1e-15  # eigenvalue of the fields' correlations, relative to the largest, that is rounding
FAINT = 1e-25  # probability of a node of a continuous noise that is left out: forces may be large there
PANEL = 1.8  # length of panels of a continuous noise, in t = asinh((xi - median) / scale)


def flat(role, function, T, K, M):
    """A function of a user that sees the fields token by token, as one of the fields in a row."""

    def force(lam, nu, xi, theta, S, F, G):
        function(lam.reshape((T, K)), nu.reshape((T, M)), xi, theta, S, F.reshape((T, K)), G)

    def error(lam, nu, theta):
        return function(lam.reshape((T, K)), nu.reshape((T, M)), theta)

    def chance(nu, theta, p):
        function(nu.reshape((T, M)), theta, p)

    return njit(error_model="numpy", nogil=True)({"force": force, "error": error, "chance": chance}[role])


def packed(numbers, values, chances, by_chance, normal, planes, cuts, law, rule, tokens):
    """One array of all that the kernel needs: see the order in ``rule_closure``."""
    points, weights, given, width, x, p = rule
    sizes = numbers.size, values.size, by_chance, normal, len(planes), len(cuts), law.size, given, len(points), x.size
    parts = numbers, values, chances, planes.ravel(), cuts.ravel(), law, x, p, weights, points.ravel(), tokens.ravel()
    return np.concatenate([[*sizes, width, len(tokens)], *parts])


@jit
def root_of(S):
    """A root (n, n) of the fields' covariance, and its left inverse.

    Correlations are decomposed: a student may be much smaller than a teacher.
    """
    n = S.shape[0]
    scaled, root, inverse = np.empty((n, n)), np.zeros((n, n)), np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            sizes = S[i, i] * S[j, j]
            scaled[i, j] = S[i, j] / math.sqrt(sizes) if sizes > 0.0 else 0.0
    values, vectors = np.linalg.eigh(scaled)
    for a in range(n):
        if values[a] > DROPPED * values[n - 1]:
            for i in range(n):
                size = math.sqrt(S[i, i])
                root[i, a] = size * vectors[i, a] * math.sqrt(values[a])
                inverse[a, i] = vectors[i, a] / (size * math.sqrt(values[a])) if size > 0.0 else 0.0
    return root, inverse


@jit
def root_of_all(root, tokens, K, extra):
    """A root of the covariance of the fields of all tokens, lam (T K,), nu (T M,), and of extra fields of variance 1.

    Columns are those of ``root`` for one token after the other.
    """
    n, T = root.shape[0], tokens.shape[0]
    whole = np.zeros((T * n + extra, T * n + extra))
    for a in range(T):
        for i in range(n):
            row = a * K + i if i < K else T * K + a * (n - K) + i - K
            for b in range(T):
                for j in range(n):
                    whole[row, b * n + j] = tokens[a, b] * root[i, j]
    for a in range(T * n, T * n + extra):
        whole[a, a] = 1.0
    return whole


@jit
def across(planes, root):
    """Planes (c, t) of the fields, c . z = t, as planes of z = root u."""
    m, d = len(planes), root.shape[0]
    forms, offsets = np.zeros((m, d)), np.zeros(m)
    for i in range(m):
        size = 0.0
        for l in range(d):
            variance = 0.0
            for j in range(d):
                forms[i, j] += planes[i, l] * root[l, j]
                variance += root[l, j] * root[l, j]
            size += planes[i, l] * planes[i, l] * variance
        for j in range(d):
            forms[i, j] /= math.sqrt(size) if size > 0.0 else 1.0
        offsets[i] = planes[i, d] / math.sqrt(size) if size > 0.0 else 0.0
    return forms, offsets


@jit
def noise_nodes(z, cuts, law, x, p, places, edges, xs, ps):
    """Nodes of a continuous noise, cut where c . z + t says; return their number."""
    median, scale, low, high = law[0], law[1], law[2], law[3]
    for i in range(len(cuts)):
        place = cuts[i, z.size]
        for l in range(z.size):
            place += cuts[i, l] * z[l]
        places[i] = math.asinh((place - median) / scale)
    count = 0
    for k in range(cut(z, 0, cuts, places, low, high, edges) - 1):
        parts = int(math.ceil((edges[k + 1] - edges[k]) / PANEL))
        h = (edges[k + 1] - edges[k]) / max(parts, 1)
        for part in range(parts):
            for b in range(x.size):
                t = edges[k] + h * (part + x[b])
                xs[count] = median + scale * math.sinh(t)
                ps[count] = h * p[b] * read(law[4:], 0, t)
                count += ps[count] > FAINT
    return count


@jit
def opened(S, w, K):
    """Arrays behind w (n,), with nodes: the root that ``see`` takes, its left inverse, turn R, root of tokens."""
    n, at = S.shape[0], S.shape[0] + HEAD
    numbers, m, by_chance, extra = int(w[n]), int(w[n + 1]), w[n + 2] > 0.0, int(w[n + 3])
    T = int(w[n + 11])
    d = T * n + extra
    theta = np.empty(K + numbers)
    for k in range(K):
        theta[k] = w[k]
    for k in range(numbers):
        theta[K + k] = w[at + k]
    at += numbers
    values, chances = w[at : at + m].copy(), w[at + m : at + 2 * m].copy()
    at += 2 * m
    rows, cut_rows, size = int(w[n + 4]), int(w[n + 5]), int(w[n + 6])
    planes = w[at : at + rows * (d + 1)].copy().reshape(rows, d + 1)
    at += rows * (d + 1)
    cuts = w[at : at + cut_rows * (T * n + 1)].copy().reshape(cut_rows, T * n + 1)
    at += cut_rows * (T * n + 1)
    law = w[at : at + size]
    given, count, q = int(w[n + 7]), int(w[n + 8]), int(w[n + 9])
    at += size
    x, p = w[at : at + q], w[at + q : at + 2 * q]
    at += 2 * q
    weights, points = w[at : at + count], w[at + count : at + count * (1 + d)].reshape(count, d)
    at += count * (1 + d)
    tokens = w[at : at + T * T].copy().reshape(T, T)
    own, inverse = root_of(S)
    root = root_of_all(own, tokens, K, extra)
    forms, offsets = across(planes, root)
    points, weights, R = nodes(forms, offsets, points, weights, given, w[n + 10], x, p)
    if cut_rows > 0:
        m = (int((law[3] - law[2]) / PANEL) + 2 + cut_rows) * q
        values, chances = np.empty(m), np.empty(m)
    law_nodes = cuts, law, x, p, np.empty(cut_rows), np.empty(cut_rows + 2)
    return theta, points, weights, root @ R.T, values, chances, by_chance, law_nodes, inverse, R, tokens


@jit(bare=True)
def see(points, i, root, z):
    """Fill the fields at node i, lam (T K,) before nu (T M,)."""
    for a in range(z.size):
        z[a] = 0.0
        for j in range(z.size):
            z[a] += root[a, j] * points[i, j]


@jit
def rule_closure(force, error, chance, S, w, K, eta, eta_v, noise, second_order, A, B, C, dv):
    """Fill A, B = E[F u^T] L^-1 for fields z = L u, C = E[F F^T], dv = E[G], times rates; return E[error].

    ``force`` fills F and G, which come as zeros. Of tokens with the covariance c = r r^T, z^a = sum_b r_ab L u^b: what
    enters is F r, since sum_a E[F^a z^aT] = sum_b E[(F r)^b u^bT] L^T and sum_ab c_ab F^a F^bT = (F r) (F r)^T.
    """
    n = S.shape[0]
    if not w[n] >= 0.0:  # refused
        A[:], B[:], C[:], dv[:] = np.nan, np.nan, np.nan, np.nan
        return np.nan
    theta, points, weights, root, values, chances, by_chance, law_nodes, inverse, R, tokens = opened(S, w, K)
    T, d, m, (cuts, law, x, p, places, edges) = len(tokens), root.shape[0], values.size, law_nodes
    z, F, G, mixed = np.empty(d), np.empty(T * K), np.empty(K), np.empty(T * K)
    lam, nu, P, g, eps_g = z[: T * K], z[T * K : T * n], np.zeros((T * K, d)), np.zeros(K), 0.0
    for k in range(K):
        for j in range(K):
            C[k, j] = 0.0
    for i in range(len(points)):
        see(points, i, root, z)
        if by_chance:
            chance(nu, theta, chances)
        elif len(cuts) > 0:
            m = noise_nodes(z, cuts, law, x, p, places, edges, values, chances)
        eps_g += weights[i] * error(lam, nu, theta)
        for c in range(m):
            F[:], G[:] = 0.0, 0.0
            force(lam, nu, z[T * n] if d > T * n else values[c], theta, S, F, G)
            weight = weights[i] * chances[c]
            for k in range(K):
                g[k] += weight * G[k]
            for b in range(T):
                for k in range(K):
                    mixed[b * K + k] = 0.0
                    for a in range(T):
                        mixed[b * K + k] += tokens[a, b] * F[a * K + k]
                    for j in range(d):
                        P[b * K + k, j] += weight * mixed[b * K + k] * points[i, j]
                if second_order:
                    for k in range(K):
                        for j in range(k, K):
                            C[k, j] += weight * mixed[b * K + k] * mixed[b * K + j]
    P = P @ R
    for k in range(K):
        dv[k] = eta_v * g[k]
        for j in range(k, K):
            C[k, j] = C[j, k] = eta * eta * C[k, j]
        for i in range(n):
            total = 0.0
            for b in range(T):
                for j in range(n):
                    total += P[b * K + k, b * n + j] * inverse[j, i]
            if i < K:
                A[k, i] = eta * total
            else:
                B[k, i - K] = eta * total
    return eps_g


@jit
def rule_samples(force, chance, S, w, K):
    """(Fields (T n, P), F (T K, P), G (K, P), weights (P,)) at all nodes: other averages than those of the closure."""
    theta, points, weights, root, values, chances, by_chance, law_nodes, _, _, tokens = opened(S, w, K)
    n, own, m, (cuts, law, x, p, places, edges) = len(tokens) * S.shape[0], len(tokens) * K, values.size, law_nodes
    z, F, G, ends = np.empty(root.shape[0]), np.empty(own), np.empty(K), (n, n + own, n + own + K)
    lam, nu = z[:own], z[own:n]
    found, count = np.empty((len(points) * values.size, ends[2] + 1)), 0
    for i in range(len(points)):
        see(points, i, root, z)
        if by_chance:
            chance(nu, theta, chances)
        elif len(cuts) > 0:
            m = noise_nodes(z, cuts, law, x, p, places, edges, values, chances)
        for c in range(m):
            F[:], G[:] = 0.0, 0.0
            force(lam, nu, z[n] if z.size > n else values[c], theta, S, F, G)
            row = found[count]
            row[:n], row[n : ends[1]], row[ends[1] : ends[2]] = z[:n], F, G
            row[ends[2]] = weights[i] * chances[c]
            count += 1
    found = np.ascontiguousarray(found[:count].T)
    return found[:n], found[n : ends[1]], found[ends[1] : ends[2]], found[ends[2]]


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


class Told(tuple):
    """Argument of steps in the place of an activation; numba is told its type once."""

    @cached_property
    def type(self):
        """The type of the tuple."""
        return typeof(tuple(self))


@typeof_impl.register(Told)
@typeof_impl.register(_Address)
def _type_of(value, context):
    return value.type  # numba would make it anew at each call, which takes longer than the steps of a short run


def pointer(kernel, signature):
    """A kernel as compiled code calls it without being compiled together with it."""
    if not hasattr(kernel, "compile"):
        return kernel
    if signature.args not in kernel.overloads:
        kernel.compile(signature.args)
    return _Address(kernel, signature)
