"""Cost of the closure matrix C and of the whole right-hand side, against the printed formula taken literally.

Kernel times are taken inside compiled loops, so Python's call overhead is not in them; it is in the last column.  The
right-hand side in a compiled loop is what compiled integrators call: sums over blocks, closure with its room, flow.
"""

import math

import numpy as np
from numba import njit
from timing import human, seconds

import overlaps as ov
from overlaps.activations._erf import erf_C, erf_closure, erf_room
from overlaps.flow import flow, gather
from overlaps.flow.system import System
from overlaps.gaussian.two_point import ERF


@njit(error_model="numpy")
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


@njit(error_model="numpy")
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


@njit
def many_printed(S, w, K, C, times):
    for _ in range(times):
        printed_C(S, w, K, 0.1, C)


@njit
def many_C(S, w, K, C, times):
    n = S.shape[0]
    work = np.empty((5, n * (n + 1) // 2))
    for _ in range(times):
        erf_C(S, w, K, ERF, 0.1, 0.0, C, work)


@njit
def many_closures(S, w, K, A, B, C, dv, times):
    for _ in range(times):
        erf_closure(S, w, K, ERF, 0.1, 0.0, 0.0, True, A, B, C, dv)


@njit
def many_rhs(y, s, p, tau, S, w, A, B, C, dv, dy, times):
    K, M = B.shape
    for _ in range(times):
        gather(y, s, K, M, False, S, w)
        erf_closure(S, w, K, ERF, 0.1, 0.0, 0.0, True, A, B, C, dv)
        flow(y, s, p, tau, A, B, C, dv, 0.0, 0.0, 1.0, False, dy, 0.0)


def main():
    print("erf, one thread; kernels without Python's call, right-hand side as SciPy calls it\n")
    print(
        f"{'K=M':>4} {'C':>10} {'printed formula':>16} {'ratio':>7} {'closure / C':>12} "
        f"{'whole rhs':>10} {'from Python':>12}"
    )
    rng = np.random.default_rng(1)
    for K in (1, 2, 4, 8, 16, 40):
        model = ov.committee_machine(K, K, eta=0.1, normalised=True)
        start = model.random_start(N=10 * K, rng=rng, student_scale=0.9)
        S, w = start.S, np.concatenate([model.v, -model.v_star])
        A, B, C, dv = np.zeros((K, K)), np.zeros((K, K)), np.zeros((K, K)), np.zeros(K)
        times = max(1, 20000 // K**4)
        t_C = seconds(lambda: many_C(S, w, K, C, times)) / times
        literal = np.zeros((K, K))
        t_printed = seconds(lambda: many_printed(S, w, K, literal, times), repeat=3) / times
        assert np.allclose(C, literal, rtol=1e-9, atol=1e-13)
        t_closure = seconds(lambda: many_closures(S, w, K, A, B, C, dv, times)) / times
        system = System(model, start)
        y = system.pack(start)
        t_rhs = seconds(lambda: system.rhs(0.0, y))
        roomy, one, dy = np.append(w, np.zeros(erf_room(2 * K))), np.ones(1), np.empty_like(y)
        arrays = y, one, one, np.array(system.source), system.S, roomy, A, B, C, dv, dy
        t_compiled = seconds(lambda: many_rhs(*arrays, times)) / times
        assert np.allclose(dy, system.rhs(0.0, y), rtol=1e-12, atol=1e-15)
        print(
            f"{K:4d} {human(t_C):>10} {human(t_printed):>16} {t_printed / t_C:6.1f}x {t_closure / t_C:11.2f}x "
            f"{human(t_compiled):>10} {human(t_rhs):>12}"
        )


def every_activation():
    """Closure with C, and whole right-hand side, as SciPy calls them; relu's literal port is in benchmarks/relu.py."""
    print("\nwhole right-hand side from Python, of which the closure (A, B, C, dv, eps_g); K=M as above\n")
    print(
        f"{'K=M':>4}"
        + "".join(f"{name + ' closure':>18} {'rhs':>9}" for name in ("erf", "relu", "linear", "quadratic"))
    )
    for K in (1, 2, 4, 8, 16, 40):
        row = f"{K:4d}"
        for activation in (ov.erf, ov.relu, ov.linear, ov.quadratic):
            if activation is ov.relu and K > 16:
                row += f"{'-':>18} {'-':>9}"  # a second per evaluation
                continue
            model = ov.committee_machine(K, K, activation=activation, eta=0.1, normalised=True)
            system = System(model, model.random_start(N=10 * K, rng=1, student_scale=0.9))
            y = system.pack(system.start)
            closure, rhs = seconds(lambda: system.close(y)), seconds(lambda: system.rhs(0.0, y))
            row += f"{human(closure):>18} {human(rhs):>9}"
        print(row)


if __name__ == "__main__":
    main()
    every_activation()
