r"""
The edge of stability, and what lies beyond
===========================================

Gradient descent on the population loss is stable up to 2 over the largest eigenvalue of the Hessian. Beyond, two erf
units come to rest with weights that swing; a quadratic unit doubles its period, becomes chaotic, and in some windows is
thrown off the line of its teacher. Cohen et al. (2021), arXiv:2103.00065; Chen et al. (2023), arXiv:2310.01687.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# Two erf units
# -------------
# ``ov.hessian`` gives the curvature at perfect learning; its largest eigenvalue belongs to the bulk, N directions.
T = np.array([[1.0, 0.2], [0.2, 0.9]])
net = ov.committee_machine(2, 2, eta=1.0, v=[1, 0.8], v_star=[1, 0.8], gradient_flow=True)
curvature = ov.hessian(net, ov.State.from_overlaps(net, Q=T, R=T, T=T))
edge = 2 / max(curvature.bulk.max(), curvature.outliers.max())
near = ov.State.from_overlaps(net, Q=T + 0.02 * np.eye(2), R=0.99 * T, T=T)
FACTORS = (0.9, 0.98, 1.02, 1.1)
curves = {f: ov.solve(net, near, (0, 300 * f * edge), step=f * edge) for f in FACTORS}

# %%
# A quadratic unit
# ----------------
# On the line of its teacher w = x w*, and x obeys the cubic map :math:`x' = (1 + c)x - c x^3`, c = 6h. Each step
# multiplies the part across the teacher by 1 + h(2 - 6Q). Equations with such a part, Q - R^2 = 0.5, against the map:
quadratic = ov.committee_machine(1, 1, activation="quadratic", eta=1.0, gradient_flow=True)
aside = ov.State.from_overlaps(quadratic, Q=[[0.59]], R=[[0.3]], T=[[1.0]])
CHECKED = np.array([0.9, 1.1, 1.2, 1.26, 1.5])
orbits = [ov.solve(quadratic, aside, np.arange(300, 364) * c / 6, step=c / 6).R[:, 0, 0] for c in CHECKED]

c, x = np.linspace(0.8, 2.0, 1201), np.full(1201, 0.3)
along, across, attractor = np.zeros_like(c), np.zeros_like(c), []
for n in range(20_000):
    if n >= 1000:
        along += np.log(np.abs(1 + c - 3 * c * x**2)) / 19_000
        across += np.log((1 + c / 6 * (2 - 6 * x**2)) ** 2) / 19_000
    if n % 151 == 150:  # odd, or only one branch of a period of two is seen
        attractor.append(x)
    x = (1 + c) * x - c * x**3
thrown = across > 0

# %%
# Beyond the edge
# ---------------
# Left: the error of two erf units at multiples of the edge. Middle: where the map ends (grey) and late steps of the
# equations (dots). Right: growth per step along the orbit and across it; in the shaded windows the line is unstable.
fig, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
for f, traj in curves.items():
    left.semilogy(np.maximum(traj.eps_g, 1e-16), label=f"{f:g} of the edge")
left.set(xlabel="step", ylabel=r"$\epsilon_g$", ylim=(1e-17, 1))
left.legend(fontsize="small", frameon=False, loc=(0.52, 0.5))
for values in attractor[10:]:
    middle.plot(c, values, ",", color="0.6")
middle.plot(np.repeat(CHECKED, 64), np.ravel(orbits), ".", color="C1", ms=3)
middle.set(xlabel="c = 6h", ylabel="R")
right.plot(c, along, lw=0.8, color="0.4", label="along")
right.plot(c, across, lw=0.8, color="C3", label="across the teacher")
right.fill_between(c, -3, 2, where=thrown, color="C3", alpha=0.25, lw=0)
right.axhline(0, color="k", lw=0.8)
right.set(xlabel="c = 6h", ylabel="exponent per step", ylim=(-3, 1.5))
right.legend(fontsize="small", frameon=False)
fig.savefig("edge_of_stability.png", dpi=150)

# %%
# The checks
# ----------
print(f"edge: h = {edge:.10f}; windows across: c = {c[thrown].round(3)}")
assert abs(edge - 3.4758652923) < 1e-9
assert curves[0.9].eps_g[-1] < 1e-12 and curves[1.02].eps_g[-1] > 1e-3
for rate, orbit in zip(CHECKED, orbits, strict=True):
    mapped = orbit[0]
    for value in orbit[1:10]:
        mapped = (1 + rate) * mapped - rate * mapped**3
        assert abs(value - mapped) < 1e-6
assert not thrown[c < 1.5].any() and thrown[np.isclose(c, 1.7)].all() and (along[np.isclose(c, 1.7)] < 0).all()
