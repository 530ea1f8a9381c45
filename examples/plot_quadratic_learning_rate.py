r"""
The best rate of a quadratic network grows with its width
=========================================================

The time until the error has halved is shortest near the optimum of the escape rate, and three closed forms bound it:
eta_escape (fastest escape from the plateau), eta_solution (zero-error solutions become unstable), eta_plateau (the
norm diverges). The optimum grows with the width K, in the end as K. Learning rates of the loss :math:`\Delta^2/2`,
twice those of Bocchi et al. (2026), arXiv:2604.03068.
"""

from itertools import pairwise

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov
from overlaps.theory import quadratic


# %%
# Times against the rate, and the best rate against the width
# -----------------------------------------------------------
# K = M = 3 and overlaps of size 0.01 at the start for the times; ``quadratic.eta_fastest`` searches the optimum for
# wider students.
def half_loss_curve(K, M, etas, eps, starts):
    R = eps * np.random.default_rng(5).standard_normal((starts, K, M))
    times = np.empty((len(etas), starts))
    for i, eta in enumerate(etas):
        model = ov.quadratic_network(K, M, eta=eta)
        for j, r in enumerate(R):
            start = ov.State.from_overlaps(model, Q=np.eye(K), R=r, T=np.eye(M))
            times[i, j] = quadratic.half_loss_time(model, start, alpha_max=3000.0)
    return times


M, eps = 3, 0.01
etas = np.array([0.04, 0.1, 0.2, 0.3, 0.4, 0.48, 0.52, 0.56, 0.6, 0.66, 0.72, 0.8, 0.86])
times = half_loss_curve(3, M, etas, eps, starts=20)
bounds = [f(3, M) for f in (quadratic.eta_escape, quadratic.eta_solution, quadratic.eta_plateau)]
widths = np.unique(np.geomspace(3, 300, 40).astype(int))
measured = {K: quadratic.eta_fastest(K, M, eps=eps, rng=1, starts=3, rtol=0.03)[0] for K in (3, 6, 10, 16, 24, 40)}

# %%
# Three bounds
# ------------
# Left: half-loss times of 20 starts, as published. Right: rates over K. From K = 15 on the fastest escape lies above
# eta_solution, where students do not learn, and the measured optimum saturates at nine tenths of eta_solution.
# eta_optimal is the minimum of eta_escape and of the rate with the fastest convergence at the end.
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.errorbar(etas, times.mean(1), times.std(1), fmt="o-", ms=4, capsize=2)
names = [r"$\eta_{\rm escape}$", r"$\eta_{\rm solution}$", r"$\eta_{\rm plateau}$"]
for i, (eta, name) in enumerate(zip(bounds, names, strict=True)):
    left.axvline(eta, color=f"C{i + 1}", ls="--", lw=1.2, label=f"{name} = {eta:.3f}")
left.set(yscale="log", xlabel=r"learning rate $\eta$", ylabel=r"$\alpha_{1/2}$, half-loss time", ylim=(10, 400))
left.legend(frameon=False, loc="lower left")
left.set_title("K = M = 3, 20 starts", fontsize="medium")
for i, f in enumerate((quadratic.eta_escape, quadratic.eta_solution, quadratic.eta_plateau)):
    right.plot(widths, [f(K, M) / K for K in widths], f"C{i + 1}", label=names[i])
right.plot(widths, [quadratic.eta_optimal(K, M) / K for K in widths], "k:", label=r"$\eta_{\rm optimal}$")
right.plot(list(measured), [eta / K for K, eta in measured.items()], "ko", ms=4, label="measured, overlaps 0.01")
limit = 1 / (2 * np.sqrt(1 + 2 / M))
right.axhline(limit, color="C1", lw=0.8, ls=":")
right.set(xscale="log", xlabel="student width K", ylabel=r"$\eta / K$", ylim=(0, 0.9))
right.legend(frameon=False, loc="upper left", ncols=2)
right.set_title("M = 3", fontsize="medium")
fig.savefig("quadratic_learning_rate.png", dpi=150)

# %%
# The checks
# ----------
escape, solution, plateau = bounds
mean = times.mean(1)
best = etas[np.argmin(mean)]
print("half-loss times:", ", ".join(f"{t:.1f} (eta = {e:g})" for e, t in zip(etas, mean, strict=True)))
print(f"fastest on the grid: eta = {best:g}; bounds {escape:.4f} < {solution:.4f} < {plateau:.4f}")
assert 0.8 * escape < best < escape < solution < plateau
ratios = {K: eta / quadratic.eta_escape(K, 3) for K, eta in measured.items()}
print("measured optimum / eta_escape:", {K: round(x, 3) for K, x in ratios.items()})
assert all(0.82 < ratios[K] < 1 for K in (3, 6, 10))
powers = [np.log(measured[b] / measured[a]) / np.log(b / a) for a, b in pairwise(measured)]
print("exponents of the measured optimum in K:", np.round(powers, 2), "; published: linear")
assert powers[0] > 1.2 and abs(powers[-1] - 1) < 0.1
shares = {K: eta / quadratic.eta_solution(K, 3) for K, eta in measured.items()}
print("measured optimum / eta_solution:", {K: round(x, 3) for K, x in shares.items()})
assert all(a < b for a, b in pairwise(shares.values())) and 0.85 < shares[24] < shares[40] < 0.95
