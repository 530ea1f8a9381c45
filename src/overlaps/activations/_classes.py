"""Closure of inputs in classes: fields with means, averaged over the classes.

Centroids are further static rows behind the teachers.  A row of S (n, n), n = K + M + n_classes, contains the
covariances of a field with the K + M fields and its means in all classes.  Column M + c of B is pi_c E_c[F_k], the
drive by a centroid: means enter as overlaps with centroids, like covariances as overlaps with teachers.  Eigenspaces
whose variances differ between classes in the same way form a group; S, A, B, C stack one block for each group.

With Delta_0 = sum_i l_i z_i + w_i f_i(z_i) - y, the terms of first order in eta are mean gradient and mean Hessian,

    slope_i = E[(l_i + w_i f_i') Delta_0],  gradient_i = E[f_i Delta_0],
    H_ij = E[(l_i + w_i f_i') (l_j + w_j f_j')] + [i = j] w_i E[f_i'' Delta_0].

Units are functions f with codes; piecewise-linear ones also have a linear term l_i z_i (``shape_of``).  The linear
terms are one more Gaussian field Y = sum_i l_i z_i, whose mean is subtracted from y and which enters by E[Y f] = E[Y]
E[f] + Cov(Y, z) E[f']. C = E[F F^T] follows from these for linear and quadratic students (Stein's lemma), for erf by
tilting the measure, for relu from a smooth integral in two dimensions (``_class_relu``).
"""

import math
from typing import NamedTuple

import numpy as np

from .._base.jit import jit
from ..gaussian.packed import matrix, vector
from ..gaussian.shifted import one_point, product, shifted_pair, shifted_self
from ..gaussian.two_point import ERF, LINEAR, QUADRATIC, RELU
from ._class_relu import relu_class_C


class ClassArrays(NamedTuple):
    """Numbers of the arrays in the parameters of ``classes_closure``."""

    units: int = 0  # rows (code of f, a, b) of students and of teachers, units a z + b f(z)
    weights: int = 1  # the arrays of ``Classes``
    labels: int = 2
    ratios: int = 3
    x: int = 4  # nodes and weights of the integrals in C of relu students
    p: int = 5


ARRAY = ClassArrays()


@jit
def _functions(mu, S, w, y, K, student, teacher, H, slope, gradient):
    """Fill H (n, n), slope (n,), gradient (n,) of units without linear terms; return eps_g."""
    n = mu.size
    eps_g = 0.5 * y * y
    for i in range(n):
        f = student if i < K else teacher
        g, dg, d2g, _, _ = one_point(f, mu[i], S[i, i])
        gg, dd, hg, gdg = shifted_self(f, mu[i], S[i, i])
        slope[i], gradient[i] = w[i] * gdg - y * dg, w[i] * gg - y * g
        H[i, i] = w[i] * (w[i] * (dd + hg) - y * d2g)
        eps_g += w[i] * (0.5 * w[i] * gg - y * g)
    for i in range(n):
        f = student if i < K else teacher
        for j in range(i):
            h = student if j < K else teacher
            gg, dd, hg, gh, dg, gd = shifted_pair(f, h, mu[i], mu[j], S[i, i], S[j, j], S[i, j])
            both = w[i] * w[j]
            H[i, j] = H[j, i] = both * dd
            H[i, i] += both * hg
            H[j, j] += both * gh
            slope[i] += w[j] * dg
            slope[j] += w[i] * gd
            gradient[i] += w[j] * gg
            gradient[j] += w[i] * gg
            eps_g += both * gg
    for i in range(n):
        slope[i] *= w[i]
    return eps_g


@jit
def class_first_order(mu, S, w, linear, y, K, student, teacher, H, slope, gradient, moment):
    """Fill H (n, n), slope, gradient and, for units with linear terms, E[z_i Delta_0] (n,); return eps_g."""
    n, mixed = mu.size, False
    for i in range(n):
        y -= linear[i] * mu[i]
        mixed = mixed or linear[i] != 0.0
    eps_g = _functions(mu, S, w, y, K, student, teacher, H, slope, gradient)
    moment[:] = 0.0
    if not mixed:
        return eps_g
    mean_slope, mean = np.empty(n), -y
    for i in range(n):
        g, dg, d2g, d3g, _ = one_point(student if i < K else teacher, mu[i], S[i, i])
        cov = 0.0
        for j in range(n):
            cov += S[i, j] * linear[j]
        mean_slope[i], mean = linear[i] + w[i] * dg, mean + w[i] * g
        slope[i] += w[i] * cov * d2g
        gradient[i] += cov * dg
        H[i, i] += w[i] * cov * d3g
        eps_g += cov * (w[i] * dg + 0.5 * linear[i])
    for i in range(n):
        slope[i] += linear[i] * mean
        moment[i] = mu[i] * mean
        for j in range(n):
            moment[i] += S[i, j] * mean_slope[j]
            without = (mean_slope[i] - linear[i]) * (mean_slope[j] - linear[j])
            H[i, j] += mean_slope[i] * mean_slope[j] - without
    return eps_g


@jit
def _square(mu, S, w, linear, y, K, student, teacher):
    """E[Delta_0^2]."""
    for i in range(mu.size):
        y -= linear[i] * mu[i]
    total = y * y
    for i in range(mu.size):
        f, cov = student if i < K else teacher, 0.0
        for j in range(mu.size):
            cov += S[i, j] * linear[j]
        g, dg, _, _, _ = one_point(f, mu[i], S[i, i])
        total += w[i] * (w[i] * shifted_self(f, mu[i], S[i, i])[0] + 2 * (cov * dg - y * g)) + linear[i] * cov
        for j in range(i):
            h = student if j < K else teacher
            total += 2 * w[i] * w[j] * product(f, h, mu[i], mu[j], S[i, i], S[j, j], S[i, j])
    return total


@jit
def _erf_C(mu, S, w, linear, y, K, teacher, eta, noise, C):
    """g'_a g'_b = (2/pi) exp(-(z_a^2 + z_b^2)/2) tilts N(mu, S) into a narrower Gaussian with another mean.

    One field after the other: z_a^2 / 2 subtracts S_.a S_a. / (1 + S_aa) from S and S_.a mu_a / (1 + S_aa) from mu,
    with the factor exp(-mu_a^2 / 2 (1 + S_aa)) / sqrt(1 + S_aa).
    """
    n = mu.size
    m, V, row, factor = np.empty(n), np.empty((n, n)), np.empty(n), 0.0
    for a in range(K):
        for b in range(a + 1):
            for i in range(n):  # m[:] = mu takes seconds to compile
                m[i], factor = mu[i], 2 / math.pi
                for j in range(n):
                    V[i, j] = S[i, j]
            for c in (a, b):
                s, mean = 1.0 + V[c, c], m[c]
                for i in range(n):
                    row[i] = V[c, i]
                factor *= math.exp(-0.5 * mean * mean / s) / math.sqrt(s)
                for i in range(n):
                    m[i] -= row[i] * mean / s
                    for j in range(n):
                        V[i, j] -= row[i] * row[j] / s
            square = _square(m, V, w, linear, y, K, ERF, teacher) + noise * noise
            C[a, b] = C[b, a] = eta * eta * w[a] * w[b] * factor * square


@jit
def _quadratic_C(mu, S, w, K, H, slope, square, eta, C):
    """4 eta^2 v_k v_l E[z_k z_l (Delta_0^2 + noise^2)] for any teacher, by Stein's lemma; ``square`` = E[(.)]."""
    n = mu.size
    b, SH = np.zeros(n), np.zeros((K, n))
    for k in range(n):
        for i in range(n):
            b[k] += 2 * S[k, i] * slope[i]
            for j in range(n):
                if k < K:
                    SH[k, j] += S[k, i] * H[i, j]
    for k in range(K):
        for l in range(k + 1):
            total = square * (S[k, l] + mu[k] * mu[l]) + mu[k] * b[l] + mu[l] * b[k]
            for i in range(n):
                total += 2 * SH[k, i] * S[i, l]
            C[k, l] = C[l, k] = 4 * eta * eta * w[k] * w[l] * total


@jit
def classes_closure(S, w, parameters, K, code, eta, eta_v, noise, second_order, A, B, C, dv):
    """Fill A, B, C, dv, averaged over the classes; return eps_g.  ``code`` is unused."""
    rows = S.shape[1]
    groups, units, ratios = S.shape[0] // rows, matrix(parameters, ARRAY.units), matrix(parameters, ARRAY.ratios)
    pi, labels = vector(parameters, ARRAY.weights), vector(parameters, ARRAY.labels)
    student, teacher, n_classes = int(units[0, 0]), int(units[1, 0]), pi.size
    n = rows - n_classes
    mu, V, H = np.empty(n), np.empty((n, n)), np.empty((n, n))
    slope, gradient, moment, Cc = np.empty(n), np.empty(n), np.empty(n), np.zeros((K, K))
    linear, weight = np.empty(n), np.empty(n)
    for i in range(n):
        kind = 0 if i < K else 1
        linear[i], weight[i] = units[kind, 1] * w[i], units[kind, 2] * w[i]
    A[:], B[:], C[:], dv[:], eps_g = 0.0, 0.0, 0.0, 0.0, 0.0
    for c in range(n_classes):
        y = labels[c]
        mu[:], V[:] = 0.0, 0.0
        for g in range(groups):
            ratio = ratios[c, g]
            for i in range(n):
                mu[i] += S[g * rows + i, n + c]
                for j in range(n):
                    V[i, j] += ratio * S[g * rows + i, j]
        class_eps = class_first_order(mu, V, weight, linear, y, K, student, teacher, H, slope, gradient, moment)
        eps_g += pi[c] * class_eps
        if second_order:
            loss = 2 * class_eps + noise * noise
            if student == ERF:
                _erf_C(mu, V, weight, linear, y, K, teacher, eta, noise, Cc)
            elif student == RELU:
                nodes, weights = vector(parameters, ARRAY.x), vector(parameters, ARRAY.p)
                relu_class_C(mu, V, weight, linear, y, K, teacher, eta, noise, nodes, weights, Cc)
            elif student == QUADRATIC:
                _quadratic_C(mu, V, weight, K, H, slope, loss, eta, Cc)
            elif student == LINEAR:
                for k in range(K):
                    for l in range(K):
                        Cc[k, l] = eta * eta * weight[k] * weight[l] * loss
            else:
                Cc[:] = math.nan
        for k in range(K):
            dv[k] -= eta_v * pi[c] * (units[0, 1] * moment[k] + units[0, 2] * gradient[k])
            for g in range(groups):
                factor = pi[c] * ratios[c, g]
                for j in range(K):
                    A[g * K + k, j] -= eta * factor * H[k, j]
                    C[g * K + k, j] += factor * Cc[k, j]
                for j in range(K, n):
                    B[g * K + k, j - K] -= eta * factor * H[k, j]
                B[g * K + k, n - K + c] = -eta * pi[c] * slope[k]
    return eps_g
