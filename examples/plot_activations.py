r"""
Only the full equations describe SGD at a finite rate
=====================================================

ReLU, tanh, the absolute value, and a custom smooth function: the equations depend on the activation through the
Gaussian averages A, B, C only, so that ``ov.solve`` works for all of them. Equations with all terms of order
:math:`\eta^2` agree with SGD; without these terms (gradient flow) they do not.
"""

import numpy as np
from matplotlib import pyplot as plt
from scipy.special import expit

import overlaps as ov


# %%
# A custom activation
# -------------------
# A function and its derivative suffice: ``ov.Activation.from_function`` integrates the averages by quadrature and
# checks its own accuracy. The other three have closed forms; for the matrix C of ReLU the probability that four
# correlated Gaussians are all positive is computed exactly.
def swish(x):
    return x * expit(x)


def swish_slope(x):
    return expit(x) * (1 + x * (1 - expit(x)))


SETTINGS = {
    "ReLU": (ov.relu, 0.8),
    "tanh": (ov.tanh, 1.5),
    "absolute value": (ov.absolute, 0.25),
    "swish, by quadrature": (ov.Activation.from_function(swish, swish_slope), 1.2),
}

# %%
# Full lines describe SGD, dashed lines do not
# --------------------------------------------
# Full lines integrate every term of order :math:`\eta^2`, dashed lines drop them, and markers are SGD at N = 1000 from
# the same overlaps.
alpha, gaps = np.linspace(0, 20, 41), {}
fig, axes = plt.subplots(2, 2, figsize=(9, 6.5), layout="constrained")
for ax, (name, (activation, eta)) in zip(axes.flat, SETTINGS.items(), strict=True):
    model = ov.committee_machine(2, 2, activation=activation, eta=eta, noise=0.3)
    start = ov.State.from_overlaps(model, Q=[[0.5, 0.1], [0.1, 0.6]], R=[[0.2, 0], [0, 0.3]], T=np.eye(2))
    full = ov.solve(model, start, alpha, rtol=1e-6)
    flow = ov.solve(model.replace(gradient_flow=True), start, alpha, rtol=1e-6)
    sgd = ov.simulate(model, N=1000, alpha=alpha, rng=1, start=start, runs=8)
    full.plot(ax=ax, color="C0", label=r"ODE with the $O(\eta^2)$ term")
    flow.plot(ax=ax, color="C0", linestyle="--", label="gradient flow")
    sgd.plot(ax=ax, color="C3", label="SGD, N = 1000, 8 runs")
    ax.set(title=rf"{name}, $\eta = {eta}$", xlabel=r"$\alpha$ = steps / $N$", ylabel=r"$\epsilon_g$", yscale="log")
    if ax is not axes[0, 0]:
        ax.get_legend().remove()
    mean = sgd.mean("eps_g")[20:]
    gaps[name] = [np.mean(np.abs(np.log(mean / t.eps_g[20:]))) for t in (full, flow)]
fig.savefig("activations.png", dpi=150)

# %%
# The checks
# ----------
# SGD is at least five times as far from gradient flow as from the full equations.
for name, (full, flow) in gaps.items():
    print(f"{name:22s} SGD is off the ODE by {full:6.1%} of eps_g, off gradient flow by {flow:7.1%}")
    assert full < 0.2 and flow > 5 * full
