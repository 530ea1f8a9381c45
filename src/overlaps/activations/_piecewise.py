"""Closure of piecewise-linear units g_i(x) = a_i x + b_i relu(x): relu, linear, leaky relu, |x|, in any mixture.

Delta = rho + y splits into relu units rho = sum_c w_c b_c relu(z_c) and one Gaussian field y = sum_c w_c a_c z_c, and
g_i' = a_i + b_i theta(z_i).  So E[g_k' g_l' Delta^2] needs E[theta(k) theta(l) Delta^2], whose diagonal is
E[theta(k) Delta^2], and E[Delta^2] = 2 eps_g.  The coefficients a, b (n,) belong to the units, students first.
"""

import math

import numpy as np

from .._base.jit import jit
from ..gaussian.two_point import RELU, SQRT_2PI
from ._first_order import descend, mean_hessian
from ._relu import geometry, relu_square
from ._relu_teachers import add_erf, add_linear, partial_arcsines


@jit
def piecewise_linear_C(S, w, K, a, b, eta, noise, eps_g, C):
    """C_kl = eta^2 v_k v_l E[(a_k + b_k theta_k)(a_l + b_l theta_l)(Delta^2 + noise^2)]."""
    n = S.shape[0]
    sigma, r, s, arcsin = geometry(S)
    u, cov, square = np.empty(n), np.empty(n), np.empty((K, K))
    variance = 0.0
    for c in range(n):
        u[c] = w[c] * b[c] * sigma[c]
        cov[c] = 0.0
        for d in range(n):
            cov[c] += S[c, d] * w[d] * a[d]
        variance += w[c] * a[c] * cov[c]
        # A field without variance counts as independent of all others, as in ``geometry``.
        cov[c] = cov[c] / sigma[c] if sigma[c] > 0.0 else 0.0
    relu_square(r, s, arcsin, u, K, n, square)
    add_linear(cov, variance, K, n, r, s, arcsin, u, square)
    noise2 = noise * noise
    for k in range(K):
        for j in range(k + 1):
            # The four terms of (a_k + b_k theta_k)(a_l + b_l theta_l).
            total = a[k] * a[j] * (2.0 * eps_g + noise2)
            total += a[j] * b[k] * (square[k, k] + 0.5 * noise2) + a[k] * b[j] * (square[j, j] + 0.5 * noise2)
            total += b[k] * b[j] * (square[k, j] + noise2 * (0.25 + arcsin[k, j] / (2 * math.pi)))
            C[k, j] = C[j, k] = eta * eta * w[k] * w[j] * total


@jit
def piecewise_linear_closure(S, w, parameters, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
    """The closure of units with the parameters (a, b): relu units of weight w b plus linear terms."""
    n = S.shape[0]
    a, b = parameters[:n], parameters[n:]
    H, gradient = np.empty(S.shape), np.empty(n)
    mean_hessian(S, w * b, K, RELU, RELU, H, gradient)
    eps_g = 0.0
    for i in range(n):
        linear, mixed = 0.0, 0.0  # E[z_i sum_c w_c a_c z_c], E[z_i sum_c w_c b_c relu(z_c)]
        for j in range(n):
            H[i, j] += w[i] * w[j] * (a[i] * a[j] + 0.5 * (a[i] * b[j] + b[i] * a[j]))
            linear += S[i, j] * w[j] * a[j]
            mixed += 0.5 * S[i, j] * w[j] * b[j]
        gradient[i] = a[i] * (linear + mixed) + b[i] * (0.5 * linear + gradient[i])
        eps_g += 0.5 * w[i] * gradient[i]
    descend(H, gradient, K, eta, eta_v, A, B, dv)
    if second_order:
        piecewise_linear_C(S, w, K, a, b, eta, noise, eps_g, C)
    return eps_g


@jit
def kinked_erf_square(S, w, K, a, b):
    """E[theta(k) theta(l) (2 G Y + Y^2)] (K, K), G = sum_i v_i (a z_i + b relu(z_i)), Y = sum_m w_m erf(z_m / sqrt 2).

    With a Gaussian field y: E[theta(k) theta(l) y erf(d)] = (1/sqrt(2 pi)) (y_d / 2 + (y_d asin(r_kl.d)
    + y_k asin(r_ld.k) + y_l asin(r_kd.l)) / pi), where y_d and y_k are covariances with unit fields.
    """
    n = S.shape[0]
    sigma, r, s, arcsin = geometry(S)
    square = np.zeros((K, K))
    add_erf(S, w, K, sigma, r, s, arcsin, b * w * sigma, square)
    cov = np.zeros(n)
    for c in range(n):
        for i in range(K):
            cov[c] += a * w[i] * S[i, c]
        cov[c] /= sigma[c] if c < K else math.sqrt(1.0 + S[c, c])
    for k in range(K):
        for l in range(k + 1):
            for m in range(K, n):
                # erf(z / sqrt 2) is the mean of sign(z + xi) over xi ~ N(0, 1); z + xi has this standard deviation.
                scale = math.sqrt(1.0 + S[m, m])
                rkm, rlm = S[k, m] / (sigma[k] * scale), S[l, m] / (sigma[l] * scale)
                arc_k, arc_l, arc_m, _ = partial_arcsines(r[k, l], rkm, rlm)
                moment = 0.5 * cov[m] + (cov[m] * arc_m + cov[k] * arc_k + cov[l] * arc_l) / math.pi
                square[k, l] += 2 * w[m] * moment * (1.0 / SQRT_2PI)
            square[l, k] = square[k, l]
    return square
