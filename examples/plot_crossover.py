"""
Exponentials add up to a power law, until the last one is learned
=================================================================

With one eigenvalue an erf network that has found its teacher learns exponentially fast. Every further eigenvalue adds
a slower mode, and the sum of exponentials is a power law, until the smallest eigenvalue is learned. Setting of
Worschech and Rosenow (2024), arXiv:2410.09005, beyond its sizes: beta = 1.5, eta = 0.1, sigma_J = 0.01.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov
from overlaps.theory import late_time

# %%
# Nine decades of time
# --------------------
# K = M = 2 from small random students to :math:`\alpha = 10^9` or :math:`\epsilon_g = 10^{-12}`, every term of order
# :math:`\eta^2` included, for one to 4096 eigenvalues.
BETA, ETA, N, LEAST = 1.5, 0.1, 8192, 1e-12
alpha = np.concatenate([[0], np.geomspace(0.1, 1e9, 201)])
curves = {}
for L in (1, 8, 64, 512, 4096):
    model = ov.committee_machine(2, 2, eta=ETA, normalised=True, spectrum=ov.power_law(beta=BETA, L=L))
    start = model.random_start(N=N, rng=1, student_scale=0.01, teacher="ideal")
    curves[L] = ov.solve(model, start, alpha, method="structured", rtol=1e-6, stop=LEAST)
    print(f"L = {L:4d}: to alpha = {curves[L].alpha[-1]:.3g} in {curves[L].nfev} evaluations")

# %%
# Power laws that end
# -------------------
# Rates of modes are :math:`\sim s_l \sim l^{-(1+\beta)}`, so that
#
# .. math:: \epsilon_g \sim \alpha^{-\beta/(1+\beta)} \qquad\text{until}\qquad
#           \alpha_L = \frac{1}{a (2 - \sqrt3) s_L} \sim \frac{L^\beta}{\eta}.
#
# Left: each curve has a plateau at first, shorter as L grows. Right: in units of :math:`\alpha_L` the ends fall onto
# one curve, that of the closed form (dashed).
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
for (L, traj), color in zip(curves.items(), plt.get_cmap("viridis")(np.linspace(0, 0.9, len(curves))), strict=True):
    spectrum = traj.model.spectrum
    end = late_time.windows(spectrum, 2, eta=ETA)[1].end
    left.plot(traj.alpha[1:], traj.eps_g[1:], color=color, lw=2, label=f"L = {L}")
    if L >= 64:
        right.plot(traj.alpha[1:] / end, traj.eps_g[1:] * L**BETA, color=color, lw=2, label=f"L = {L}")
x = np.geomspace(1e-5, 12, 300)
right.plot(x, late_time.first_order(x * end, spectrum, 2, eta=ETA) * L**BETA, "k--", lw=1.2, label="closed form")
guide = np.array([1e2, 3e6])
left.plot(guide, 0.03 * guide ** -late_time.exponent(BETA), "k:", label=r"$\alpha^{-\beta/(1+\beta)}$")
left.set(xscale="log", yscale="log", xlabel=r"$\alpha$ = steps / $N$", ylabel=r"$\epsilon_g$")
left.set(xlim=(0.1, 1e9), ylim=(LEAST, 0.5), title=r"K = M = 2, $\beta$ = 1.5")
right.set(xscale="log", yscale="log", xlabel=r"$\alpha / \alpha_L$", ylabel=r"$L^\beta\, \epsilon_g$")
right.set(xlim=(1e-5, 10), ylim=(1e-5, 1e2), title=r"in units of $\alpha_L$")
left.legend(frameon=False, loc="lower left")
right.legend(frameon=False, loc="lower left")
fig.savefig("crossover.png", dpi=150)

# %%
# The checks
# ----------
# When one exponential has fallen by ten decades, the sum of 4096 has fallen by three.
fitted = {}
for L, traj in curves.items():
    assert traj.success
    common, differences = late_time.windows(traj.model.spectrum, 2, eta=ETA)
    if L >= 512:
        # behind the plateau, before the end of the common modes
        window = (traj.alpha > 100) & (traj.alpha < common.end / 100)
        fitted[L] = np.polyfit(np.log(traj.alpha[window]), np.log(traj.eps_g[window]), 1)[0]
        print(f"L = {L}: exponent {fitted[L]:.3f}, theory {-late_time.exponent(BETA):.3f}")
    ratio = traj.alpha[-1] / differences.end
    print(f"L = {L:4d}: eps_g = 1e-12 at {ratio:.1f} alpha_L")
    late = (traj.alpha > 0.3 * differences.end) & (traj.eps_g > 1e-10)
    if L >= 64:
        closed = late_time.first_order(traj.alpha[late], traj.model.spectrum, 2, eta=ETA)
        gap = np.max(np.abs(closed / traj.eps_g[late] - 1))
        print(f"          closed form and solution differ by {gap:.3f} at most beyond 0.3 alpha_L")
        assert gap < 0.3
assert abs(fitted[512] + 0.6) < 0.05 and abs(fitted[4096] + 0.6) < 0.02
one, many = (np.interp(1e4, curves[L].alpha, curves[L].eps_g) for L in (1, 4096))
assert one <= 1.1e-12 < 1e-6 < many
