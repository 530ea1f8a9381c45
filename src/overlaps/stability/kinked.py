r"""Perfect learning of kinked units, where the flow has no Jacobian: it is linear in the overlaps of the differences.

Students :math:`w_k = w^*_k + d_k` with small d_k have :math:`\Delta = \sum_j v_j g'(\nu_j)\, d_j \cdot x/\sqrt N`, a
regression on the features g'(nu_j) x.  The component of d_k in the span of the teachers decays like gradient flow.  The
rest has overlaps of second order, :math:`P^l = d P_l d^T/N`, whose fields do not depend on nu:

.. math:: \frac{dP^l}{d\alpha} = -\eta s_l (G P^l + P^l G) + \frac{\eta^2}{b} s_l p_l H\Big[\sum_m s_m P^m\Big], \qquad
   G_{kj} = v_k v_j E[g'_k g'_j], \quad H[S]_{kl} = v_k v_l \sum_{ij} v_i v_j E[g'_k g'_l g'_i g'_j] S_{ij}

g' = mean + half sgn, so that averages are means of products of signs: arcsines and orthant probabilities.
"""

from itertools import combinations

import numpy as np
import scipy

from ..activations.kernels import CODES
from ..gaussian.orthants import orthants


def learned(model, state):
    """Whether kinked students are their teachers, one by one and as functions: v_k w_k = v*_m w*_m, v_k v*_m > 0."""
    g = model.activation
    kinked = g.kinks == (0.0,) and g.closed_sum is not None and g.closed_sum.code == CODES.relu
    if not kinked or model.teacher_activation != g or model.K != model.M or model.n_classes:
        return False
    if model.latent_teacher or any(model.weight_decay) or model.drift or model.constraint is not None:
        return False
    students, teachers = state.v * np.sqrt(np.diag(state.Q)), model.v_star * np.sqrt(np.diag(state.T))
    if np.any(students == 0) or np.any(teachers == 0):
        return False
    cosine = state.R * np.multiply.outer(state.v / students, model.v_star / teachers)
    _, partner = scipy.optimize.linear_sum_assignment(-cosine)
    scale = model.v_star[partner] / state.v
    q, r, t = (x[model.spectrum.s > 0] for x in state.plain)  # a block without variance does not matter
    order = np.ix_(range(len(t)), partner, partner)
    same = np.abs(q - np.multiply.outer(scale, scale) * t[order]), np.abs(r - scale[:, None] * t[:, partner])
    size = np.max(np.abs(q), axis=(1, 2), initial=0.0)[:, None, None]
    # at a smaller sin^2 of their angle student and teacher are equal; overlaps do not resolve smaller angles
    aligned_sin2_tol = 1e-9
    return bool(np.all(scale > 0) and all(np.all(x <= aligned_sin2_tol * size) for x in same))


class Differences:
    """The linear flow of the overlaps P (L, K, K) of the differences, for a model at a state that has been learned."""

    def __init__(self, model, state):
        self.model, self.s, self.p = model, model.spectrum.s, model.spectrum.p
        above, below = model.activation.dg(np.array([1.0, -1.0]))
        mean, half = (above + below) / 2, (above - below) / 2
        scale = np.sqrt(np.diag(state.Q))
        correlation, K, v = np.clip(state.Q / np.multiply.outer(scale, scale), -1, 1), model.K, state.v
        np.fill_diagonal(correlation, 1.0)  # exactly: the arcsine turns a rounding error of 1e-16 into 1e-8
        signs = 2 / np.pi * np.arcsin(correlation)
        self.G = np.multiply.outer(v, v) * (mean**2 + half**2 * signs)
        self.four = np.empty((K, K, K, K))  # v_k v_l v_i v_j E[g'_k g'_l g'_i g'_j]
        for index in np.ndindex(self.four.shape):
            pairs = sum(_signs(x, correlation, signs) for x in combinations(index, 2))
            value = mean**4 + (mean * half) ** 2 * pairs + half**4 * _signs(index, correlation, signs)
            self.four[index] = np.prod(v[list(index)]) * value

    def eta_critical(self):
        """Learning rate at which the differences stop decaying: b/<s> over the largest eigenvalue of H relative to G.

        Summed over the eigenspaces with s_l, the condition for the leading eigenvalue to vanish is H[S] eta/b <s> =
        G S + S G. Both sides are symmetric maps of S, and the right one is positive.
        """
        K = self.model.K
        unit = np.eye(K)
        loss = np.kron(self.G, unit) + np.kron(unit, self.G)
        largest = scipy.linalg.eigh(self.four.reshape(K * K, K * K), loss, eigvals_only=True)[-1]
        return float(self.model.batch_size / (self.s @ self.p * largest))

    def modes(self, eta):
        """Eigenvalues (n,) and modes (n, L, K, K) of the flow at this learning rate, largest first."""
        K, L = self.model.K, self.s.size
        upper = np.triu_indices(K)
        unknowns = upper[0].size * L
        P = np.zeros((unknowns, L, K, K))  # one unit change per entry
        P[:, :, *upper] = np.eye(unknowns).reshape(unknowns, L, -1)
        P = np.maximum(P, P.swapaxes(2, 3))
        rate = -eta * self.s[:, None, None] * (self.G @ P + P @ self.G)
        if not self.model.gradient_flow:
            noise = np.einsum("abij,nlij,l->nab", self.four, P, self.s, optimize=True)
            rate += eta**2 / self.model.batch_size * (self.s * self.p)[:, None, None] * noise[:, None]
        values, vectors = np.linalg.eig(rate[:, :, *upper].reshape(unknowns, -1).T)
        order = np.lexsort((-values.imag, -values.real))
        matrices = np.zeros((unknowns, L, K, K), dtype=vectors.dtype)
        matrices[:, :, *upper] = vectors.T[order].reshape(unknowns, L, -1)
        matrices[:, :, upper[1], upper[0]] = matrices[:, :, *upper]
        return values[order], matrices


def _signs(index, correlation, signs):
    """E of the product of the signs of two or four fields, equal ones among them."""
    rest = sorted({k for k in index if index.count(k) % 2})
    if len(rest) < 4:
        return signs[tuple(rest)] if rest else 1.0
    pairs = [correlation[pair] for pair in combinations(rest, 2)]
    return 16 * orthants(*pairs)[0] - 1 - sum(signs[pair] for pair in combinations(rest, 2))
