"""
Solutions of quadratic networks fill manifolds
==============================================

K quadratic students represent all quadratic forms at K = N, and the dimension of the manifold of zero-error weights has
a closed form. If v has both signs, pairs of students outside the teacher's space can cancel each other, and the
dimension grows with N. Bocchi et al. (2026), arXiv:2604.03068, Figures 5 and 6; unequal v and T, and both signs, are
derived here.
"""

import numpy as np
from matplotlib import pyplot as plt

from overlaps.theory import quadratic

# %%
# Ranks of explicit tangents
# --------------------------
# The dimension of the functions is the rank of the derivative of :math:`W^T W` at random weights; the dimension of the
# solutions is the rank of all tangents at a solution, in which students equal teachers or vanish, rotated at random.
N = 8


def rank(rows):
    """Rank of a list of matrices, each of them one vector."""
    return int(np.linalg.matrix_rank(np.array([row.ravel() for row in rows]), tol=1e-9)) if len(rows) else 0


def rotations(v):
    """Generators X of all linear maps that keep sum_k v_k lambda_k^2."""
    K = len(v)
    turns = ((np.outer(a, b) - np.outer(b, a)) / v[:, None] for i, a in enumerate(np.eye(K)) for b in np.eye(K)[:i])
    return list(turns)


def degrees(K, rng):
    """Rank of the derivative of W^T W at random weights."""
    W = rng.standard_normal((K, N))
    units = np.eye(K * N).reshape(-1, K, N)
    return rank([W.T @ X + X.T @ W for X in units])


def solutions(K, M, rng, uneven):
    """Rank of the tangents at a solution: students equal teachers or vanish, rotated at random."""
    v = rng.uniform(0.5, 2.0, K) if uneven else np.full(K, 1 / K)
    v_star = rng.uniform(0.5, 2.0, M) if uneven else np.full(M, 1 / M)
    teachers = rng.standard_normal((M, N)) if uneven else np.eye(M, N)
    root = np.linalg.qr(rng.standard_normal((K, K)))[0][:, :M] * np.sqrt(v_star)
    W = root @ teachers / np.sqrt(v)[:, None]
    assert quadratic.eps_g(W, teachers, v=v, v_star=v_star) < 1e-20
    found = quadratic.solution_dimension(N, K, M, v=v, v_star=v_star, T=teachers @ teachers.T)
    return rank([X @ W for X in rotations(v)]), found


def cancelling(n, pairs, rng):
    """The same for one teacher and students of v = +1 and -1, beyond the one that has learned, in n dimensions."""
    v = np.r_[1.0, np.tile([1.0, -1.0], pairs)]
    W = np.zeros((v.size, n))
    W[0, 0] = 1.0
    W[1::2, 1:] = W[2::2, 1:] = rng.standard_normal((pairs, n - 1))
    assert quadratic.eps_g(W, np.eye(1, n), v=v, v_star=[1.0]) < 1e-20
    isotropic = np.linalg.svd(W[:, 1:])[0][:, :pairs]
    tangents = [X @ W for X in rotations(v)] + [np.outer(a, b) for a in isotropic.T for b in np.eye(n)[1:]]
    return rank(tangents), quadratic.solution_dimension(n, v.size, 1, v=v)


# %%
# Dots on closed forms
# --------------------
# Left: degrees of freedom. Middle: the manifold of solutions against K, for M orthonormal teachers; unequal v and
# teachers with overlaps (crosses) change nothing. Right: v of both signs.
rng = np.random.default_rng(1)
widths = np.arange(1, 13)
fig, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
pairs = [(degrees(K, rng), quadratic.degrees_of_freedom(N, int(K))) for K in widths]
axes[0].plot(widths, [x[1] for x in pairs], "C0-", widths, [x[0] for x in pairs], "C0o", ms=5, mfc="none")
axes[0].axvline(N, color="0.6", lw=0.8, ls=":")
axes[0].set(xlabel="K", ylabel="degrees of freedom", title=f"functions, N = {N}")
for i, M in enumerate((1, 2, 4)):
    some = widths[widths >= M]
    plain, uneven = ([solutions(int(K), M, rng, x) for K in some] for x in (False, True))
    axes[1].plot(some, [x[1] for x in plain], f"C{i}-", label=f"M = {M}")
    axes[1].plot(some, [x[0] for x in plain], f"C{i}o", ms=5, mfc="none")
    axes[1].plot(some, [x[0] for x in uneven], f"C{i}x", ms=4)
    pairs += plain + uneven
axes[1].set(xlabel="K", ylabel="dimension of the solutions", title="v > 0; crosses: any T, v, v*")
axes[1].legend(frameon=False)
sizes = np.arange(6, 19, 2)
for i, number in enumerate((0, 1, 2, 3)):
    found = [cancelling(int(n), number, rng) for n in sizes]
    axes[2].plot(sizes, [x[1] for x in found], f"C{i}-", label=f"K = {1 + 2 * number}, {number} pairs")
    axes[2].plot(sizes, [x[0] for x in found], f"C{i}o", ms=5, mfc="none")
    pairs += found
axes[2].set(xlabel="N", ylabel="dimension of the solutions", title="v of both signs, M = 1")
axes[2].legend(frameon=False)
fig.savefig("quadratic_manifolds.png", dpi=150)

# %%
# The checks
# ----------
print(f"{len(pairs)} ranks, of which {sum(a == b for a, b in pairs)} are as in closed form")
assert len(pairs) > 80 and all(a == b for a, b in pairs)
