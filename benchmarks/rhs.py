"""Cost of the closure matrix C and of the whole right-hand side, against the printed formula taken literally.

Kernel times are taken inside compiled loops, so Python's calls are not in them.  The right-hand side in a compiled loop
is what compiled integrators call: sums over blocks, closure with its room, flow.
"""

import math

import numpy as np
from timing import row, show

import overlaps as ov
from overlaps._base.jit import jit
from overlaps.activations._erf import erf_C, erf_closure, erf_workspace
from overlaps.flow import flow, gather
from overlaps.flow.system import System
from overlaps.gaussian.two_point import ERF

PART = "Closure and right-hand side"


@jit
def printed_I4(C):
    """I_4 of Saad and Solla (1995) of four fields with covariance C (4, 4), as printed."""
    L4 = (1 + C[0, 0]) * (1 + C[1, 1]) - C[0, 1] ** 2
    L0 = L4 * C[2, 3] - C[1, 2] * C[1, 3] * (1 + C[0, 0]) - C[0, 2] * C[0, 3] * (1 + C[1, 1])
    L0 += C[0, 1] * C[0, 2] * C[1, 3] + C[0, 1] * C[0, 3] * C[1, 2]
    L1 = L4 * (1 + C[2, 2]) - C[1, 2] ** 2 * (1 + C[0, 0]) - C[0, 2] ** 2 * (1 + C[1, 1])
    L1 += 2 * C[0, 1] * C[0, 2] * C[1, 2]
    L2 = L4 * (1 + C[3, 3]) - C[1, 3] ** 2 * (1 + C[0, 0]) - C[0, 3] ** 2 * (1 + C[1, 1])
    L2 += 2 * C[0, 1] * C[0, 3] * C[1, 3]
    return 4 / math.pi**2 / math.sqrt(L4) * math.asin(L0 / math.sqrt(L1 * L2))


@jit
def printed_C(S, w, K, eta, C):
    """The literal port: fill the covariance of each quadruple and call I_4, as the published programs do."""
    n = S.shape[0]
    quadruple = np.empty((4, 4))
    index = np.empty(4, dtype=np.int64)
    for a in range(K):
        for b in range(K):
            total = 0.0
            for c in range(n):
                for d in range(n):
                    index[0], index[1], index[2], index[3] = a, b, c, d
                    for i in range(4):
                        for j in range(4):
                            quadruple[i, j] = S[index[i], index[j]]
                    total += w[c] * w[d] * printed_I4(quadruple)
            C[a, b] = eta**2 * w[a] * w[b] * total


@jit
def many_printed(S, w, K, C, times):
    for _ in range(times):
        printed_C(S, w, K, 0.1, C)


@jit
def many_C(S, w, K, C, work, times):
    for _ in range(times):
        erf_C(S, w, K, ERF, 0.1, 0.0, C, work)


@jit
def many_rhs(y, s, p, tau, S, w, work, A, B, C, dv, dy, second_order, times):
    K, M = B.shape
    for _ in range(times):
        gather(y, s, K, M, False, S, w)
        erf_closure(S, w, work, K, ERF, 0.1, 0.0, 0.0, second_order > 0, A, B, C, dv)
        flow(y, s, p, tau, A, B, C, dv, 0.0, 0.0, second_order, False, dy, 0.0)


def setting(K, activation=ov.erf, **options):
    model = ov.committee_machine(K, K, activation=activation, eta=0.1, normalised=True, **options)
    return model, model.random_start(N=10 * K, rng=1, student_scale=0.9)


def matrix(K):
    """C of erf students."""
    model, start = setting(K)
    S, w, C, literal = start.S, np.concatenate([model.v, -model.v_star]), np.zeros((K, K)), np.zeros((K, K))
    times = max(1, 20000 // K**4)
    baselines = {}
    if K <= 40:
        baselines["literal port"] = lambda: many_printed(S, w, K, literal, times)
    work = np.empty((5, K * (2 * K + 1)))
    name = f"C, erf, K = M = {K}"
    found = row(PART, name, lambda: many_C(S, w, K, C, work, times), baselines, per=times, once=K > 40)
    assert K > 40 or np.allclose(C, literal, rtol=1e-9, atol=1e-13)
    return found


def compiled(K, gradient_flow=False):
    """The whole right-hand side in compiled code, and as SciPy calls it."""
    model, start = setting(K, gradient_flow=gradient_flow)
    system = System(model, start)
    y, one = system.pack(start), np.ones(1)
    work, dy = np.zeros(erf_workspace(2 * K)), np.empty_like(y)
    arrays = y, one, one, system.source, system.S, system.w, work, system.A, system.B, system.C, system.dv, dy
    times, second_order = max(1, 20000 // K**4), float(not gradient_flow)
    name = f"right-hand side, erf, K = M = {K}{', gradient flow' * gradient_flow}"
    python = {"called from Python": (lambda: system.rhs(0.0, y), 1)}
    found = row(PART, name, lambda: many_rhs(*arrays, second_order, times), python, per=times)
    assert np.allclose(dy, system.rhs(0.0, y), rtol=1e-12, atol=1e-15)
    return found


def from_python(K, activation):
    model, start = setting(K, activation)
    system = System(model, start)
    y = system.pack(start)
    return row(PART, f"the same from Python, {activation.name}, K = M = {K}", lambda: system.rhs(0.0, y), budget=0.2)


def rows():
    for K in (1, 2, 4, 8, 16, 40, 100, 200):
        yield matrix(K)
    for K in (2, 4, 8):
        yield compiled(K)
    yield compiled(200, gradient_flow=True)
    for activation in (ov.linear, ov.quadratic, ov.relu):
        yield from_python(4, activation)


if __name__ == "__main__":
    show(rows())
