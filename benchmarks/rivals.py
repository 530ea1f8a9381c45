"""The same curves and steps by programs of SciPy and numba, diffrax, and PyTorch, as one would write them there.

diffrax and PyTorch are optional (``pip install diffrax torch``); without them their rows have one baseline less.
All are for erf, with second layers of ones, isotropic inputs and no noise.
"""

import math
from importlib.util import find_spec

import numpy as np
from rhs import printed_C
from scipy.integrate import solve_ivp

from overlaps._base.jit import jit


@jit
def printed_velocity(y, T, K, eta, dy):
    """Fill dy for y = (R, Q): Saad and Solla's equations with I_3 and I_4 as printed; w is -1 for teachers."""
    n = K + T.shape[0]
    S, w, C = np.empty((n, n)), np.ones(n), np.empty((K, K))
    w[K:], S[K:, K:], S[:K, K:] = -1.0, T, y[: K * (n - K)].reshape((K, n - K))
    S[:K, :K], S[K:, :K] = y[K * (n - K) :].reshape((K, K)), S[:K, K:].T
    printed_C(S, w, K, eta, C)
    drift = np.zeros((K, n))  # -eta E[Delta g'_i z_j], by one I_3 for each field k of Delta
    for i in range(K):
        for j in range(n):
            for k in range(n):
                root = math.sqrt((1 + S[i, i]) * (1 + S[k, k]) - S[i, k] ** 2)
                third = (S[j, k] * (1 + S[i, i]) - S[i, j] * S[i, k]) / (1 + S[i, i])
                drift[i, j] -= eta * w[k] * 2 / math.pi * third / root
    at = 0
    for i in range(K):
        for j in range(K, n):
            dy[at] = drift[i, j]
            at += 1
    for i in range(K):
        for j in range(K):
            dy[at] = drift[i, j] + drift[j, i] + C[i, j]
            at += 1


def scipy_curve(start, eta, alpha, rtol):
    """A function that makes the curve by ``solve_ivp`` and a compiled right-hand side; Q at the last time."""
    K, dy, T = start.K, np.empty(start.K * (start.M + start.K)), np.array(start.T)

    def velocity(t, y):
        printed_velocity(y, T, K, eta, dy)
        return dy

    y = np.concatenate([start.R.ravel(), start.Q.ravel()])

    def run():
        span = (0.0, alpha[-1])
        found = solve_ivp(velocity, span, y, method="DOP853", t_eval=alpha, rtol=rtol, atol=1e-4 * rtol)
        return found.y[K * start.M :, -1].reshape(K, K)

    return run


def diffrax_curve(start, eta, alpha, rtol):
    """The same by diffrax, compiled by JAX, with C by tilted measures as in this library; None without diffrax."""
    if find_spec("diffrax") is None:
        return None
    import diffrax
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    K, T = start.K, jnp.array(start.T)
    w = jnp.array([1.0] * K + [-1.0] * start.M)
    ww = jnp.outer(w, w)

    def velocity(t, state, args):
        R, Q = state
        S = jnp.block([[Q, R], [R.T, T]])
        s = jnp.diag(S)
        one = 1 + s
        root = 1 / jnp.sqrt(jnp.outer(one, one) - S * S)
        H = 2 / jnp.pi * (ww * root - jnp.diag(w / one * ((S * root) @ w)))
        A, B = -eta * H[:K, :K], -eta * H[:K, K:]
        a, b = S[:K, None], S[None, :K]
        first, det = one[:K, None], 1 + s[:K, None] + s[None, :K] + jnp.outer(s[:K], s[:K]) - Q * Q
        e = a / jnp.sqrt(first)[..., None] + 0 * b
        f = (b - (Q / first)[..., None] * a) * jnp.sqrt(first / det)[..., None]
        St = S - e[..., :, None] * e[..., None, :] - f[..., :, None] * f[..., None, :]
        norm = 1 / jnp.sqrt(1 + jnp.diagonal(St, axis1=-2, axis2=-1))
        angles = jnp.arcsin(St * norm[..., :, None] * norm[..., None, :])
        C = eta**2 * ww[:K, :K] * (2 / jnp.pi) ** 2 * jnp.sum(ww * angles, axis=(-2, -1)) / jnp.sqrt(det)
        return A @ R + B @ T, A @ Q + Q @ A.T + B @ R.T + R @ B.T + C

    @jax.jit
    def solve(state):
        return diffrax.diffeqsolve(
            diffrax.ODETerm(velocity), diffrax.Dopri8(), 0.0, alpha[-1], None, state,
            saveat=diffrax.SaveAt(ts=jnp.array(alpha)), max_steps=100_000,
            stepsize_controller=diffrax.PIDController(rtol=rtol, atol=1e-4 * rtol),
        ).ys  # fmt: skip

    state = jnp.array(start.R), jnp.array(start.Q)
    return lambda: np.asarray(solve(state)[1][-1])


def curves(start, eta, alpha, rtol=1e-8):
    """Functions that make a curve, by the name of their library."""
    found = {"SciPy and numba": scipy_curve, "diffrax": diffrax_curve}
    made = {name: make(start, eta, np.asarray(alpha, float), rtol) for name, make in found.items()}
    return {name: run for name, run in made.items() if run is not None}


def torch_steps(K, N, count, dtype):
    """A function that makes SGD steps of K erf students of K teachers by PyTorch, in one thread, without autograd."""
    import torch

    torch.set_num_threads(1)
    precision, unit = getattr(torch, dtype), 1 / math.sqrt(N)
    weights = torch.randn(2 * K, N, dtype=precision)
    W = weights[:K]  # a view: its steps change ``weights``

    def run():
        for _ in range(count):
            x = torch.randn(N, dtype=precision)
            fields = weights @ x * unit
            g = torch.erf(fields / math.sqrt(2)) / K
            delta = g[:K].sum() - g[K:].sum()
            force = delta * math.sqrt(2 / math.pi) / K * torch.exp(-0.5 * fields[:K] ** 2)
            W.addr_(force, x, alpha=-0.1 * unit)

    return run


def steps(K, N, count):
    """Functions that make SGD steps, with their number, by the name of their library and its precision."""
    if find_spec("torch") is None:
        return {}
    return {f"PyTorch {dtype}": (torch_steps(K, N, count, dtype), count) for dtype in ("float64", "float32")}
