"""
The trajectory leaves its plateau along the descending directions
=================================================================

The Hessian of the generalisation error over all N K weights is known from the overlaps alone. A soft committee machine
(erf, K = M = 3) in gradient flow reaches its symmetric plateau, which has :math:`(K-1)^2` descending directions of
nearly the same curvature, and leaves it in their span. At the end all outliers are positive.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# The Hessian along the way
# -------------------------
# A bulk of K eigenvalues, each N - K - M times, and K (K + M) outliers in the space of students and teachers,
#
# .. math:: \nabla^2\epsilon_g = H_{KK}\otimes 1 + V^T \frac{\partial^2 \epsilon_g}{\partial u\,\partial u'} V,
#           \qquad u = (Q, R).
K = 3
MODEL = ov.committee_machine(K, K, eta=1.0, gradient_flow=True)  # alpha is then eta alpha

start = MODEL.random_start(N=10_000, rng=3, teacher="ideal")
traj = ov.solve(MODEL, start, np.linspace(0, 450, 301))
path = ov.hessian(MODEL, traj)


# %%
# Where the plateau is slowest, and the change of R after it
# ----------------------------------------------------------
# The cosine compares the change of R with its projection on the descending directions at the slowest record.
def departure(traj, path):
    """Slowest record of the plateau, and the cosine between its descending directions and the change of R after it."""
    speed = np.linalg.norm(np.gradient(traj.R, traj.alpha, axis=0), axis=(1, 2))
    waits = (traj.eps_g < 0.5 * traj.eps_g[0]) & (traj.eps_g > 0.2 * traj.eps_g[len(traj.alpha) // 4])
    slowest = int(np.flatnonzero(waits)[np.argmin(speed[waits])])
    left = slowest + int(np.argmax(traj.eps_g[slowest:] < 0.9 * traj.eps_g[slowest]))
    way = (traj.R[left] - traj.R[slowest]).ravel()
    down = path[slowest].dR[path[slowest].outliers < -1e-3].reshape(-1, K * K)
    inside = np.linalg.lstsq(down.T, way, rcond=None)[0] @ down
    return slowest, left, np.linalg.norm(inside) / np.linalg.norm(way), len(down)


slowest, left, cosine, directions = departure(traj, path)

# %%
# Four directions down, and none at the end
# -----------------------------------------
# Above: the error; the band marks the escape. Below: bulk and outliers of the Hessian. On the plateau the bulk is
# almost flat.
fig, (top, bottom) = plt.subplots(2, 1, figsize=(8, 7), sharex=True, layout="constrained", height_ratios=(1, 2))
top.plot(traj.alpha, traj.eps_g, color="black")
top.set(ylabel=r"$\epsilon_g$", yscale="log", title=f"erf, K = M = {K}, gradient flow")
path.plot(ax=bottom)
bottom.axhline(0, color="black", linewidth=0.6)
bottom.set(yscale="symlog", xlabel=r"$\eta\,\alpha$")
bottom.set_yscale("symlog", linthresh=0.02)
for ax in (top, bottom):
    ax.axvspan(traj.alpha[slowest], traj.alpha[left], color="C1", alpha=0.12)
bottom.annotate(
    f"{directions} directions down", (traj.alpha[slowest], path.outliers[slowest, 0]), (20, -34),
    textcoords="offset points", color="C3",
)  # fmt: skip
fig.savefig("landscape.png", dpi=150)

# %%
# The checks
# ----------
lowest = path.outliers[slowest, :5].round(4)
print(f"plateau at eta alpha = {path.alpha[slowest]:.0f}: {directions} directions down, {lowest}")
print(f"R leaves it in their span: cosine {cosine:.4f}")
print(f"lowest eigenvalue at the end: {path.outliers[-1, 0]:.2e}")
assert directions == (K - 1) ** 2 and cosine > 0.99 and path.outliers[-1, 0] > -1e-3
