"""
On spheres wide students escape fastest
=======================================

Scaling every student back to its norm after each step (``constraint="sphere"``) adds one term to the flow: a decay that
compensates the change of the norm by a step, including its noise. At small rates the noise of SGD slows students of
norm one more than free students. At larger rates it increases the norm of free students, and wide students escape
fastest on spheres. In the spirit of Arnaboldi, Krzakala, Loureiro and Stephan (2023), arXiv:2305.18502, who compare the
two for a single teacher; the rates are derived here (``ov.theory.quadratic.sphere_plateau``).
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov
from overlaps.theory import quadratic

# %%
# Two kinds of students
# ---------------------
# The closed form of the escape rate is compared with eigenvalues of the flow. Trajectories of both kinds begin at the
# same start of norm one.
M = 3
KINDS = {"free": None, "sphere": "sphere"}
RATES = {"free": quadratic.plateau, "sphere": quadratic.sphere_plateau}


def eigenvalue(K, eta, kind):
    """Growth rate of R from the linearised flow, at the plateau of this kind."""
    model = ov.quadratic_network(K, M, eta=eta, constraint=KINDS[kind])
    q = RATES[kind](K, M, eta=eta).q
    state = ov.State.from_overlaps(model, Q=q * np.eye(K), R=np.zeros((K, M)), T=np.eye(M))
    modes = ov.linearise(model, state)
    return modes.eigenvalues[np.argmax(np.abs(modes.dR).max(axis=(1, 2)))].real


def curves(K, eta, alpha, N):
    """(theory, SGD) of both kinds from one start of norm one."""
    R = np.random.default_rng(2).normal(scale=0.15, size=(K, M))
    found = {}
    for kind, constraint in KINDS.items():
        model = ov.quadratic_network(K, M, eta=eta, constraint=constraint)
        start = ov.State.from_overlaps(model, Q=np.eye(K), R=R, T=np.eye(M))
        few = alpha[(alpha > 1) & (alpha < 100)][::12]
        found[kind] = ov.solve(model, start, alpha), ov.simulate(model, N=N, alpha=few, rng=1, start=start, runs=6)
    return found


# %%
# Escape rates and errors
# -----------------------
# Left: the rate of escape against the learning rate; at small rates both are :math:`4\eta/(KM)`, and the norm of free
# students on the plateau is K/(K + 2). Crosses are eigenvalues of the flow. Right: the same start, free and on spheres;
# dots are SGD at N = 4000. With more students than teachers both ends are algebraic.
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
escapes = {}
for color, K in zip(("C0", "C1"), (3, 10), strict=True):
    for kind, style in (("free", "-"), ("sphere", "--")):
        most = quadratic.eta_plateau(K, M) if kind == "free" else 2 * quadratic.sphere_eta_escape(K, M)
        eta = np.linspace(0.01, 0.9999, 200) * most
        rate = [RATES[kind](K, M, eta=x).escape for x in eta]
        left.plot(eta / K, rate, color + style, label=f"K = {K}, {kind}")
        few = eta[20::45]
        escapes[K, kind] = [(x, RATES[kind](K, M, eta=x).escape, eigenvalue(K, x, kind)) for x in few]
        left.plot(few / K, [x[2] for x in escapes[K, kind]], color + "x", ms=5)
    left.axvline(quadratic.eta_solution(K, M) / K, color=color, lw=0.8, ls=":")
left.set(xlabel=r"$\eta / K$", ylabel="rate of escape", ylim=(0, 0.32), title="M = 3; dotted: solutions are unstable")
left.legend(frameon=False, loc="upper right", ncols=2)
alpha = np.geomspace(0.1, 2e4, 300)
found = curves(6, 0.6, alpha, 4000)
for color, (kind, (theory, runs)) in zip(("k", "C3"), found.items(), strict=True):
    right.loglog(theory.alpha, theory.eps_g, color, label=kind)
    right.errorbar(runs.alpha, runs.mean("eps_g"), runs.eps_g.std(0) / np.sqrt(5), fmt=color + "o", ms=3)
right.set(xlabel=r"$\alpha$", ylabel=r"$\epsilon_g$", title=r"K = 6, M = 3, $\eta$ = 0.6")
right.loglog(alpha[-80:], 30 / alpha[-80:] ** 2, "0.6", lw=0.8, label=r"$\alpha^{-2}$")
right.legend(frameon=False)
fig.savefig("quadratic_spheres.png", dpi=150)

# %%
# The checks
# ----------
for (K, kind), rows in escapes.items():
    print(f"K = {K}, {kind}:", ", ".join(f"{a:.5f} at eta = {eta:.3g}" for eta, a, _ in rows))
    assert all(abs(formula - measured) < 1e-10 for _, formula, measured in rows)
best = {
    (3, "free"): quadratic.plateau(3, M, eta=quadratic.eta_escape(3, M)).escape,
    (3, "sphere"): quadratic.sphere_plateau(3, M, eta=quadratic.sphere_eta_escape(3, M)).escape,
    (10, "free"): quadratic.plateau(10, M, eta=quadratic.eta_escape(10, M)).escape,
    (10, "sphere"): quadratic.sphere_plateau(10, M, eta=quadratic.sphere_eta_escape(10, M)).escape,
}
print("fastest escapes:", {key: round(x, 4) for key, x in best.items()})
assert best[3, "free"] > 1.5 * best[3, "sphere"] and best[10, "sphere"] > 1.1 * best[10, "free"]
for kind, (theory, runs) in found.items():
    slope = np.polyfit(np.log(theory.alpha[-20:]), np.log(theory.eps_g[-20:]), 1)[0]
    at = np.searchsorted(theory.alpha, runs.alpha)
    apart = np.max(np.abs(np.log(runs.mean("eps_g") / theory.eps_g[at])))
    print(f"{kind}: slope of the end {slope:.3f}; SGD within {apart:.2f} of the theory in log eps_g")
    assert abs(slope + 2) < 0.02 and apart < 0.25
norms = np.einsum("nkk->nk", found["sphere"][0].Q)
assert np.abs(norms - 1).max() < 1e-12
