r"""
After one step a network learns a nonlinear function
====================================================

After a giant step every row of the first layer carries the same spike of norm r, whose direction v has the overlap
gamma with the target's; the rest of a row has the squared norm c. Along k = v.x the ridge readout learns

.. math:: C(k) = m\,\mu_0(k) + \theta\,k\,\mu_1(k), \qquad \mu_0(k) = E_z \sigma(rk + \sqrt c z), \quad
          \mu_1(k) = E_z \sigma'(rk + \sqrt c z)

a combination of two functions at every width, while random features learn a straight line. Cui et al. (2024),
arXiv:2402.04980, figure 1.
"""

import sys

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# Parameters and coefficients
# ---------------------------
# Spike, alignment and bulk against the data of the step, with measurements on networks; the coefficients in C against
# the data of the readout.
RATE = {"student": np.tanh, "target": np.sin, "eta_tilde": 3.0, "beta": 1.0}


def parameters(ax, d, draws):
    alpha0s, points = np.geomspace(0.1, 50, 60), (0.3, 1.0, 3.0, 10.0)
    models = [ov.static.SpikedRandomFeatures.after_one_step(**RATE, alpha0=a) for a in alpha0s]
    sizes = {"alpha": 0.1, "lam": 1.0, "d": d, "rng": 2, "draws": draws, "test": 10}
    runs = {a: ov.static.simulate_one_step(**RATE, alpha0=a, **sizes) for a in points}
    for i, (name, text) in enumerate((("r", "spike r"), ("gamma", r"alignment $\gamma$"), ("c", "bulk c"))):
        ax.plot(alpha0s, [getattr(x, name) for x in models], color=f"C{i}", label=text)
        values = np.array([[getattr(x, name).mean(), getattr(x, name).std() / np.sqrt(draws)] for x in runs.values()])
        ax.errorbar(points, values[:, 0], values[:, 1], fmt="o", ms=4, color=f"C{i}")
    ax.set(xscale="log", xlabel=r"data of the step, $\alpha_0 = n_0/d$", ylim=(0, None))
    ax.set_title(rf"tanh learns sin, $\tilde\eta = 3$, $\beta = 1$; circles: networks, d = {d}", fontsize="medium")
    ax.legend(frameon=False)
    return runs


def coefficients(ax):
    model = ov.static.SpikedRandomFeatures.after_one_step(**RATE, alpha0=4.0)
    alphas = np.geomspace(0.1, 100, 80)
    curve = model.curve(alphas, 0.1)
    for i, (name, text) in enumerate((("m", "m"), ("theta", r"$\theta$"), ("psi", r"$\psi$"))):
        ax.plot(alphas, getattr(curve, name), color=f"C{i + 3}", label=text)
    ax.axhline(0, color="0.7", lw=0.8)
    ax.set(xscale="log", xlabel=r"data of the readout, $\alpha = n/d$")
    ax.set_title(r"readout at $\alpha_0 = 4$, $\lambda = 0.1$: $C = m\,\mu_0 + \theta\, k \mu_1$", fontsize="medium")
    ax.legend(frameon=False)


# %%
# Learned functions
# -----------------
# For several learning rates, hence spikes, after a perfectly aligned step; and for steps on an increasing amount of
# data, whose direction approaches that of the target.
def rates(ax, alpha=5.0):
    k, gaps = np.linspace(-4, 4, 201), []
    ax.plot(k, np.sin(k), "k", lw=2, label="target")
    for i, rate in enumerate((0.0, 1.0, 3.0, 6.0)):
        model = ov.static.SpikedRandomFeatures.after_one_step(**(RATE | {"eta_tilde": rate}), alpha0=np.inf)
        solution = model.solve(alpha=alpha, lam=0.1)
        name = "no step" if rate == 0 else rf"$\tilde\eta = {rate:g}$"
        ax.plot(k, solution.C(k), color=plt.cm.plasma(0.25 * i), label=f"{name}, r = {model.r:.2f}")
        gaps.append(mean_square_gap(model, solution))
    decorate(ax, k, rf"larger rates, larger spikes: $\alpha_0 = \infty$, $\alpha = {alpha:g}$")
    return gaps


def alignments(ax, alpha=5.0):
    k, gaps = np.linspace(-4, 4, 201), []
    for i, alpha0 in enumerate((0.5, 3.0, 30.0)):
        model = ov.static.SpikedRandomFeatures.after_one_step(**RATE, alpha0=alpha0)
        solution = model.solve(alpha=alpha, lam=0.1)
        label = rf"$\alpha_0 = {alpha0:g}$, $\gamma = {model.gamma:.2f}$"
        ax.plot(k, solution.C(k), color=f"C{i}", label=label)
        ax.plot(k, model.coefficients.at(k).h, color=f"C{i}", ls="--", lw=1.2)
        gaps.append(mean_square_gap(model, solution))
    decorate(ax, k, rf"$\tilde\eta = 3$, $\alpha = {alpha:g}$; dashed: best prediction h(k)")
    return gaps


def decorate(ax, k, title):
    ax.fill_between(k, -1.7, -1.7 + 0.7 * np.exp(-k * k / 2), color="0.9", label="density of k")
    ax.set(xlabel="k, projection of the input on the spike", ylabel="learned function C(k)", ylim=(-1.7, 2.7))
    ax.set_title(title, fontsize="medium")
    ax.legend(frameon=False, loc="upper left", fontsize="small")


def mean_square_gap(model, solution):
    table = model.coefficients
    return table.weight @ (table.h - solution.C(table.k)) ** 2


# %%
# Larger spikes are more nonlinear, better aligned ones predict better
# --------------------------------------------------------------------
# Top: the parameters (circles: networks) and the coefficients. Bottom left: C for several rates. Bottom right: C (full)
# and the best prediction :math:`h(k) = E[y | k]` (dashed).
fig, axes = plt.subplots(2, 2, figsize=(11, 7.6), layout="constrained")
runs = parameters(axes[0, 0], *(1500, 5) if "--full" in sys.argv else (500, 3))
coefficients(axes[0, 1])
gaps = rates(axes[1, 0]), alignments(axes[1, 1])
fig.savefig("spiked_learned_functions.png", dpi=150)


# %%
# From a straight line to the target
# ----------------------------------
# The mean prediction of inputs whose projection on the target's direction is t, their figure 1, follows from C and from
# the overlap :math:`\psi` orthogonal to the spike: with :math:`\rho^2 = 1 - \gamma^2` and a normal w
#
# .. math:: F(t) = E_w[C(\gamma t + \rho w) + \psi\,\mu_1(\gamma t + \rho w)\,(\rho t - \gamma w)]
#
# Left: F (lines) and networks of 300 neurons (circles, two standard errors of six). Right: its distance from the target
# with more data of the step. Without a step it stays above that of the best straight line; a step on few samples
# (:math:`\alpha_0 < 0.4`) is worse than none.
ALPHA, LAM = 5.0, 0.1
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(61)
WEIGHTS /= WEIGHTS.sum()


def along_target(alpha0, t):
    """The function F of spiked features after a step on alpha0 d samples, or without a step."""
    if alpha0 == 0:
        model = ov.static.SpikedRandomFeatures(np.tanh, np.sin, r=0.0, gamma=0.0, beta=1.0)
    else:
        model = ov.static.SpikedRandomFeatures.after_one_step(**RATE, alpha0=alpha0)
    point, rho = model.solve(alpha=ALPHA, lam=LAM), np.sqrt(1 - model.gamma**2)
    k, rest = model.gamma * t[:, None] + rho * NODES, rho * t[:, None] - model.gamma * NODES
    mu1 = model.coefficients.at(k.ravel()).mu1.reshape(k.shape)
    return (point.C(k) + point.psi * mu1 * rest) @ WEIGHTS


def network_along_target(alpha0, t, d, rng):
    """The same of one network of d neurons, averaged over 2000 inputs with the projection t."""
    W = rng.standard_normal((d, d))
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    if alpha0 > 0:
        x = rng.standard_normal((round(alpha0 * d), d))
        fields = x @ W.T
        error = np.sin(x[:, 0]) - np.tanh(fields).mean(axis=1)
        W = W + RATE["eta_tilde"] / len(x) * (error[:, None] / np.cosh(fields) ** 2).T @ x
    x = rng.standard_normal((round(ALPHA * d), d))
    X = np.tanh(x @ W.T) / np.sqrt(d)
    readout = np.linalg.solve(X.T @ X + LAM * np.eye(d), X.T @ np.sin(x[:, 0])) / np.sqrt(d)
    x = rng.standard_normal((2000, d))
    x[:, 0] = 0.0
    return np.array([np.mean(np.tanh(x @ W.T + u * W[:, 0]) @ readout) for u in t])


def distance(alpha0):
    """E (F(t) - sin t)^2."""
    return WEIGHTS @ (along_target(alpha0, NODES) - np.sin(NODES)) ** 2


t, few = np.linspace(-4, 4, 161), np.linspace(-3.6, 3.6, 13)
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
left.plot(t, np.sin(t), "k", lw=2, label="target, sin t")
shown = {}
for i, alpha0 in enumerate((0.0, 0.5, 2.0, 8.0, np.inf)):
    label = {0.0: "no step", np.inf: r"$\alpha_0 = \infty$"}.get(alpha0, rf"$\alpha_0 = {alpha0:g}$")
    left.plot(t, along_target(alpha0, t), color=plt.cm.viridis(i / 4.4), label=label)
    if alpha0 < np.inf:
        runs_of_six = [network_along_target(alpha0, few, 300, np.random.default_rng(seed)) for seed in range(6)]
        mean, error = np.mean(runs_of_six, axis=0), np.std(runs_of_six, axis=0, ddof=1) / np.sqrt(6)
        left.errorbar(few, mean, 2 * error, fmt="o", ms=4, mfc="none", color=plt.cm.viridis(i / 4.4))
        shown[alpha0] = mean, error, along_target(alpha0, few)
left.set(xlabel=r"$t = \theta\cdot x$, projection on the target's direction", ylabel="mean prediction F(t)")
left.set_ylim(-2, 2)
left.set_title(rf"tanh learns sin, $\tilde\eta = 3$, $\beta = 1$, $\alpha = {ALPHA:g}$", fontsize="medium")
left.legend(frameon=False, fontsize="small", loc="upper left")
alpha0s = np.geomspace(0.1, 100, 13)
distances = np.array([distance(alpha0) for alpha0 in alpha0s])
right.loglog(alpha0s, distances, color=plt.cm.viridis(0.5), label="after a step")
levels = distance(0.0), WEIGHTS @ np.sin(NODES) ** 2 - (WEIGHTS @ (NODES * np.sin(NODES))) ** 2, distance(np.inf)
names = "no step", "best straight line", r"$\alpha_0 = \infty$"
for value, style, text in zip(levels, (":", "--", "-"), names, strict=True):
    right.plot(alpha0s[[0, -1]], [value, value], "k" + style, lw=1, label=text)
right.set(xlabel=r"data of the step, $\alpha_0 = n_0/d$", ylabel=r"$E\,(F(t) - \sin t)^2$")
right.legend(frameon=False, fontsize="small")
fig.savefig("spiked_learned_functions_target.png", dpi=150)

# %%
# The checks
# ----------
# 0.05: rows of networks remember the samples of their step.
for alpha0, (mean, error, theory) in shown.items():
    print(f"alpha0 = {alpha0:3g}: networks differ from F by at most {np.max(np.abs(mean - theory)):.3f}")
    assert np.all(np.abs(mean - theory) < 4 * error + (0.0 if alpha0 == 0 else 0.05))
none, best_line, perfect = levels
print(f"E (F - sin)^2: no step {none:.4f}, then {distances.round(4)}, at infinity {perfect:.4f}")
assert np.all(np.diff(distances)[alpha0s[1:] < 20] < 0) and abs(distances[-1] / perfect - 1) < 0.01
assert distances[0] > 1.5 * none and none > best_line > 3 * perfect
line = along_target(0.0, t)
assert np.max(np.abs(line - t * line[-1] / t[-1])) < 1e-12
for alpha0, found in runs.items():
    model = ov.static.SpikedRandomFeatures.after_one_step(**RATE, alpha0=alpha0)
    pairs = [(name, getattr(found, name).mean(), getattr(model, name)) for name in ("r", "gamma", "c")]
    print(f"alpha0 = {alpha0:4g}: " + ", ".join(f"{name} = {x:.3f} (theory {y:.3f})" for name, x, y in pairs))
    assert all(abs(x / y - 1) < 0.1 for _, x, y in pairs)  # 1/sqrt(d) in each draw
print(f"E(h - C)^2 = {np.round(gaps[0], 4)} at learning rates 0, 1, 3, 6")
print(f"E(h - C)^2 = {np.round(gaps[1], 4)} at alpha0 = 0.5, 3, 30")
assert gaps[0][0] > 0.06 > max(gaps[0][1:])  # a straight line leaves 0.0645; spikes bend it
