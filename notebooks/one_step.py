# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # What one gradient step learns
#
# Random features with a trained readout are, in high dimension, no better than a straight line. A *single* gradient
# step on the first layer changes this, if it is large enough. This lecture follows the effect of the step from the
# weights to the learned functions and the test error. It compares the exact asymptotic theory of H. Cui et al. (2024),
# arXiv:2402.04980, with experiments of finite size.
#
# J. Ba et al. (2022), arXiv:2205.01445, showed that a step of the right size leaves a spike in the weights; Y. Dandi et
# al. (2023), arXiv:2305.18270, and B. Moniri et al. (2023), arXiv:2310.07891, treat more steps and other sizes.

# %%
import math

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

plt.rcParams.update({"figure.constrained_layout.use": True, "axes.grid": True, "grid.alpha": 0.25})
plt.rcParams.update({"legend.frameon": False, "legend.fontsize": "small", "lines.linewidth": 1.8})

# %% [markdown]
# ## 1. One giant step
#
# Inputs $x \sim \mathcal N(0, 1_d)$ have labels $y = \sigma_*(\theta \cdot x)$, $|\theta| = 1$. A network of width $p
# = \beta d$ with random unit rows $w_i$ and the readout $a_i = 1/\sqrt p$ takes one step of rate $\eta = \tilde\eta\,
# d$ on $n_0 = \alpha_0 d$ samples:
#
# $$ w_i^1 = w_i + \tau\, \frac{1}{n_0} \sum_\mu \big( y_\mu - f(x_\mu) \big)\, \sigma'(w_i \cdot x_\mu)\, x_\mu, \qquad
#    f(x) = \frac1p \sum_i \sigma(w_i \cdot x), \qquad \tau = \tilde\eta/\beta . $$
#
# **Terms of the step.** Initially $f$ is small and can be neglected. Split $\sigma' = h_1 + (\sigma' - h_1)$, $h_1 =
# E[\sigma'(z)]$.
#
# - The mean gives every neuron the *same* vector $\tau h_1 g$, $g = \frac1{n_0} \sum_\mu y_\mu x_\mu$. Its overlap with
#   the target direction is $g \cdot \theta \to h_1^* = E[z \sigma_*(z)]$; its length has a part from the finite sample,
#   $|g|^2 \to A^2 = h_1^{*2} + E[\sigma_*^2]/\alpha_0$.
# - The rest is noise, different for each neuron, of squared length $\tau^2\, \mathrm{Var}[\sigma']\,
#   E[\sigma_*^2]/\alpha_0$.
#
# So the first layer is a **spike on a random bulk**,
#
# $$ \boxed{\; W^1 \simeq r\, \mathbf 1 \hat v^T + \sqrt c\, W_0, \qquad r = \tau h_1 A, \qquad
#    \gamma = \hat v \cdot \theta = \frac{h_1^*}{A}, \qquad
#    c = 1 + \tau^2\, \mathrm{Var}[\sigma']\, \frac{E[\sigma_*^2]}{\alpha_0} \;} $$
#
# The next cell checks this with explicit matrices.

# %%
STUDENT, TARGET = np.tanh, np.sin  # sigma (odd) and sigma_* (mean zero)
RATE, DATA, WIDTH = 3.0, 8.0, 1.0  # eta / d, samples of the step n0 / d, width p / d
LAM = 0.1  # ridge penalty of the readout


def slope(z):
    """Derivative of the student's activation."""
    return 1 - np.tanh(z) ** 2


d = 1000
p, n0 = round(WIDTH * d), round(DATA * d)
rng = np.random.default_rng(1)
theta = rng.standard_normal(d)
theta /= np.linalg.norm(theta)
W = rng.standard_normal((p, d))
W /= np.linalg.norm(W, axis=1, keepdims=True)

x = rng.standard_normal((n0, d))
y = TARGET(x @ theta)
fields = W @ x.T
residual = y - STUDENT(fields).mean(axis=0)
step = (residual * slope(fields)) @ x / n0
W1 = W + RATE / WIDTH * step

spike = (W1 - W).mean(axis=0)  # the part common to all neurons
v = spike / np.linalg.norm(spike)
measured = np.linalg.norm(spike), v @ theta, np.mean(np.sum((W1 - spike) ** 2, axis=1))

model = ov.static.SpikedRandomFeatures.after_one_step(STUDENT, TARGET, eta_tilde=RATE, alpha0=DATA, beta=WIDTH)
for name, value, predicted in zip(("r", "gamma", "c"), measured, (model.r, model.gamma, model.c), strict=True):
    print(f"{name:5s} measured at d = {d}: {value:.4f}   theory: {predicted:.4f}")

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8))
for weights, color, label in ((W, "0.5", "before"), (W1, "C3", "after the step")):
    left.semilogy(np.linalg.svd(weights, compute_uv=False)[:300], ".", ms=5, color=color, label=label)
left.axhline(np.sqrt(p) * model.r, color="k", ls="--", lw=1, label=r"$\sqrt{p}\, r$")
left.set(xlabel="index", ylabel="singular value of the first layer", title="one outlier")
left.legend()
alpha0s = np.geomspace(0.1, 100, 60)
steps = [ov.static.SpikedRandomFeatures.after_one_step(STUDENT, TARGET, eta_tilde=RATE, alpha0=a, beta=WIDTH)
         for a in alpha0s]  # fmt: skip
for i, (name, text) in enumerate((("r", "spike $r$"), ("gamma", r"alignment $\gamma$"), ("c", "bulk $c$"))):
    right.semilogx(alpha0s, [getattr(one, name) for one in steps], color=f"C{i}", label=text)
    right.plot(DATA, measured[i], "o", ms=5, color=f"C{i}")
right.set(xlabel=r"samples of the step, $\alpha_0 = n_0/d$", ylim=(0, 4), title="circles: the network above")
right.legend()
plt.show()

# %% [markdown]
# ## 2. Features after the step: two functions
#
# The readout is now fitted by ridge regression on $n = \alpha d$ fresh samples,
#
# $$ \hat a = \mathrm{argmin} \sum_{\mu \le n} \big( y_\mu - \hat y_\mu \big)^2 + \lambda |a|^2, \qquad
#    \hat y = \frac{1}{\sqrt p} \sum_i a_i\, \sigma(w^1_i \cdot x) . $$
#
# Let $k = \hat v \cdot x$. *Given* $k$, the field of a neuron is $r k + \sqrt c\, z$ with a Gaussian $z$ that is nearly
# independent from neuron to neuron, and its feature behaves like a Gaussian variable with the same first two moments
# (conditional Gaussian equivalence):
#
# $$ \begin{gathered}
#    \sigma(w_i^1 \cdot x) \simeq \mu_0(k) + \mu_1(k)\, (\text{bulk field}) + \mu_2(k)\, \xi_i, \\
#    \mu_0(k) = E_z\, \sigma(r k + \sqrt c z), \qquad \mu_1(k) = E_z\, \sigma'(r k + \sqrt c z) .
#    \end{gathered} $$
#
# The bulk row has a small component along $\hat v$, of order $1/\sqrt d$; but there are $p$ neurons, and the readout
# can add up these components. Given $k$, the mean output of the network is therefore
#
# $$ C(k) = m\, \mu_0(k) + \vartheta\, k\, \mu_1(k) , $$
#
# with two numbers $m, \vartheta$ (in the code `m`, `theta`). Without a spike $\mu_0 = 0$ and $\mu_1$ is constant, so
# that $C$ is a straight line. With a spike it is nonlinear. In the theory $m$ and $\vartheta$ follow from a fixed point
# of two equations. The next cell fits the network above and averages its output in bins of $k$.


# %%
def readout(weights, samples, penalty):
    """Ridge readout of the features of the given weights on fresh samples; returns a function x -> prediction."""
    inputs = rng.standard_normal((samples, d))
    features = STUDENT(inputs @ weights.T) / np.sqrt(p)
    a = np.linalg.solve(features.T @ features + penalty * np.eye(p), features.T @ TARGET(inputs @ theta))
    return lambda x: STUDENT(x @ weights.T) @ a / np.sqrt(p)


ALPHA = 3.0  # samples of the readout, n / d
fresh = rng.standard_normal((20_000, d))
trained, random = (readout(weights, round(ALPHA * d), LAM) for weights in (W1, W))
outputs = {"one step": trained(fresh), "random features": random(fresh)}
solution = model.solve(alpha=ALPHA, lam=LAM)
no_step = ov.static.SpikedRandomFeatures(STUDENT, TARGET, r=0.0, gamma=1.0, beta=WIDTH)
flat = no_step.solve(alpha=ALPHA, lam=LAM)
print(f"m = {solution.m:.4f}, theta = {solution.theta:.4f}")
by_hand = {name: np.mean((TARGET(fresh @ theta) - output) ** 2) for name, output in outputs.items()}
print(f"test error after one step: this network {by_hand['one step']:.4f}, theory {solution.mse:.4f}")
print(f"random features:           this network {by_hand['random features']:.4f}, theory {flat.mse:.4f}")

grid, edges = np.linspace(-3.5, 3.5, 141), np.linspace(-3, 3, 25)
centres = (edges[1:] + edges[:-1]) / 2
fig, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
binned = {}
cases = (("random features", theta, flat, no_step), ("one step", v, solution, model))
for ax, (name, direction, solved, system) in zip(axes, cases, strict=True):
    k = fresh @ direction
    which = np.digitize(k, edges)
    binned[name] = np.array([outputs[name][which == i].mean() for i in range(1, edges.size)])
    ax.plot(grid, system.coefficients.at(grid).h, "k", lw=1.2, label="$h(k) = E[y | k]$, the best")
    ax.plot(grid, solved.C(grid), "C3", label="$C(k)$, theory")
    ax.plot(centres, binned[name], "o", ms=4, color="C0", label=f"network, d = {d}, averaged")
    ax.set(xlabel="projection $k$ of the input", title=f"{name}: test error {solved.mse:.3f}", ylim=(-1.2, 1.2))
axes[0].set(ylabel="prediction")
axes[1].legend(loc="upper left")
axes[0].set_xlabel(r"projection $k = \theta \cdot x$ of the input")
plt.show()

# %% [markdown]
# ## 3. The test error against the data
#
# The theory takes a few milliseconds per point, so that whole learning curves are cheap. The experiments are networks
# with $d = 300$, with the step on one set of samples and the readout on another.
#
# Note three results. One step is better than random features everywhere, and the difference grows with the number of
# its samples. With enough samples the error falls below that of the best *linear* predictor, $E[\sigma_*^2] -
# h_1^{*2}$, which random features do not reach at any $n, p \propto d$. The crosses deviate from the curves by a few
# per cent, because the spike model neglects correlations of order $1/\sqrt d$ between neurons (see
# `examples/plot_spiked_finite_batch.py`).

# %%
alphas, points = np.geomspace(0.1, 20, 60), np.array([0.25, 0.5, 1.0, 2.0, 4.0])
DIMENSION, DRAWS = 300, 4
fig, ax = plt.subplots(figsize=(7, 4.6))
curves, networks = {}, {}
for i, alpha0 in enumerate((1.0, 4.0, 16.0)):
    after = {"eta_tilde": RATE, "alpha0": alpha0, "beta": WIDTH}
    one = ov.static.SpikedRandomFeatures.after_one_step(STUDENT, TARGET, **after)
    curves[alpha0] = one.curve(alphas, LAM).mse
    found = ov.static.simulate_one_step(
        STUDENT, TARGET, **after, alpha=points, lam=LAM, d=DIMENSION, rng=3, draws=DRAWS
    )
    networks[alpha0] = found.mean() / one.curve(points, LAM).mse - 1
    label = rf"one step, $\alpha_0$ = {alpha0:g} ($\gamma$ = {one.gamma:.2f})"
    ax.loglog(alphas, curves[alpha0], color=f"C{i}", label=label)
    ax.errorbar(points, found.mean(), found.error(), fmt="x", color=f"C{i}", lw=1.2)
population = ov.static.SpikedRandomFeatures.after_one_step(STUDENT, TARGET, eta_tilde=RATE, alpha0=math.inf, beta=WIDTH)
curves[math.inf] = population.curve(alphas, LAM).mse
ax.loglog(alphas, curves[math.inf], color="C3", label=r"one step, $\alpha_0 = \infty$ ($\gamma$ = 1)")
random_curve, best_linear = no_step.curve(alphas, LAM).mse, no_step.bounds().linear
ax.loglog(alphas, random_curve, "k:", label="random features")
ax.axhline(best_linear, color="0.5", ls="--", lw=1.2, label="best linear predictor")
ax.plot([], [], "kx", label=f"networks, d = {DIMENSION}")
ax.set(xlabel=r"samples of the readout, $\alpha = n/d$", ylabel=r"test error $E(y - \hat y)^2$", ylim=(0.004, 1))
ax.set_title(rf"tanh learns sin, $\tilde\eta$ = {RATE:g}, $\beta$ = {WIDTH:g}, $\lambda$ = {LAM}", fontsize="medium")
ax.legend(loc="lower left", ncols=2)
plt.show()
for alpha0, off in networks.items():
    print(f"alpha0 = {alpha0:g}: networks off by", np.round(100 * off, 1), "%")

# %% [markdown]
# ## 4. How large a step?
#
# A small step leaves the features (almost) linear; a huge one saturates them, and its noise $c$ grows as $\tau^2$. The
# best rate lies in between, and the functions that one step can express are limited for any amount of data:
#
# - As $\lambda \to \infty$ the readout can only use what all neurons share, $m\, \mu_0(k)$. Hence an **upper bound** on
#   the error at the best $\lambda$, $U = E[h^2] - E[h \mu_0]^2/E[\mu_0^2]$ for $\gamma = 1$.
# - With unlimited data and width it finds the best combination of $\mu_0(k)$ and $k \mu_1(k)$: a **lower bound** $L$,
#   the distance of the target from a plane in function space.

# %%
rates = np.geomspace(0.3, 30, 21)
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
optimum = {}
for i, alpha0 in enumerate((1.0, 4.0, 16.0, math.inf)):
    errors = [
        ov.static.SpikedRandomFeatures.after_one_step(STUDENT, TARGET, eta_tilde=rate, alpha0=alpha0, beta=WIDTH)
        .optimal_lam(4.0)
        .mse
        for rate in rates
    ]
    best = np.argmin(errors)
    optimum[alpha0] = rates[best], errors[best]
    label = rf"$\alpha_0$ = {alpha0:g}" if alpha0 < math.inf else r"$\alpha_0 = \infty$"
    left.loglog(rates, errors, color=f"C{i}", label=label)
    left.plot(*optimum[alpha0], "o", color=f"C{i}")
left.axhline(best_linear, color="0.5", ls="--", lw=1.2, label="best linear predictor")
left.set(xlabel=r"learning rate $\tilde\eta$", ylabel=r"test error at the best $\lambda$", title=r"$\alpha$ = 4")
left.legend()

spikes = np.geomspace(0.1, 5, 43)
aligned = [ov.static.SpikedRandomFeatures(STUDENT, TARGET, r=r, gamma=1.0, beta=WIDTH) for r in spikes]
upper, lower, _ = np.transpose([one.bounds() for one in aligned])
right.loglog(spikes, upper, "C0", label="upper bound $U$")
right.loglog(spikes, lower, "C0--", label="lower bound $L$")
between = []
for marker, alpha, beta in (("v", 4.0, 1.0), ("o", 50.0, 10.0), ("^", 1000.0, 100.0)):
    some = [ov.static.SpikedRandomFeatures(STUDENT, TARGET, r=r, gamma=1.0, beta=beta) for r in spikes[::3]]
    found = [one.optimal_lam(alpha).mse for one in some]
    between.append(np.all((found < upper[::3] * (1 + 1e-9)) & (found > lower[::3])))
    right.loglog(spikes[::3], found, marker, ms=4, color="0.3", label=rf"$\alpha$ = {alpha:g}, $\beta$ = {beta:g}")
right.axhline(best_linear, color="0.5", ls="--", lw=1.2)
right.set(xlabel="spike $r$", ylabel=r"test error at the best $\lambda$", ylim=(5e-6, 1))
right.set_title(r"$\gamma = c = 1$: a perfect step")
right.legend(loc="lower left")
plt.show()
over_rate = ov.static.bounds_over_rate(STUDENT, TARGET)
print(f"least upper bound {over_rate.upper:.5f} at r = {over_rate.r_upper:.2f}; ", end="")
print(f"least lower bound {over_rate.lower:.2e} at r = {over_rate.r_lower:.2f}")

# %% [markdown]
# Note the limit on the left: $r \to 0$ differs from $r = 0$. A small spike, the same in all $p$ neurons, has the norm
# $\sqrt p\, r$ and matters as soon as $r \gg 1/\sqrt d$. At infinite $d$ *any* step has an effect.
#
# ## Exercises
#
# 1. **A target without linear part.** Take $\sigma_*(z) = (3z - z^3)/\sqrt6 + \varepsilon z$. What does the step learn
#    at $\varepsilon = 0$? For $\varepsilon = 0.5$, how large must $\alpha_0$ be until one step beats the best linear
#    predictor? Why is the opposite sign of the cubic part so much harder for tanh? *Hint:* look at $h_1^*$, and at the
#    cubic part of $\mu_0$. The first Hermite coefficient that does not vanish decides how hard a target is for
#    gradient descent (G. Ben Arous, R. Gheissari and A. Jagannath (2021), arXiv:2003.10409).
# 2. **Perfect learning.** Let both functions be `ov.erf`. Show that $U = 0$ at $r = \sqrt 2$ for $\gamma = c = 1$, and
#    find the learning rate that gives this spike. *Hint:* $E_z\, \mathrm{erf}((rk + z)/\sqrt2)$ is an error function
#    again.
# 3. **Wide or narrow?** At a fixed $\tilde\eta$ the spike shrinks with the width, $\tau = \tilde\eta/\beta$. Plot the
#    error at the best $\lambda$ against $\beta$ for $\tilde\eta$ fixed and for $\tau$ fixed (`scaling="p"`). Where
#    does width help?
# 4. **More functions.** Neurons that start with different readouts $a_i = t_i/\sqrt p$ get different spikes. Compare
#    `readout=(1.0,)` with `readout=(0.5, 1.32)` (the same mean square) in `after_one_step`: bounds, learned function,
#    learning curve. *Hint:* four functions instead of two; `model.solve(...).C`.

# %% [markdown]
# ## Checks
#
# The claims of this notebook, as assertions. They hold for the parameters above; change these, and find out which
# assertions still hold.

# %%
theory = (model.r, model.gamma, model.c)
assert np.allclose(measured, theory, rtol=0.05)  # one draw, fluctuations of order 1/sqrt(d)
assert abs(by_hand["one step"] / solution.mse - 1) < 0.1 and abs(by_hand["random features"] / flat.mse - 1) < 0.1
assert np.max(np.abs(binned["one step"] - solution.C(centres))[np.abs(centres) < 2]) < 0.1
straight = flat.C(grid)
assert np.allclose(straight, straight[-1] * grid / grid[-1])  # without a step: a line
assert all(np.all(curve < random_curve) for curve in curves.values())
assert random_curve.min() > best_linear > curves[16.0].min() > curves[math.inf].min()
assert all(np.max(np.abs(off)) < 0.2 for off in networks.values())  # finite size, four draws
assert optimum[1.0][1] > optimum[4.0][1] > optimum[16.0][1] > optimum[math.inf][1]
assert np.all(lower < upper) and all(between) and over_rate.upper <= upper.min() and over_rate.lower <= lower.min()
perfect = ov.static.SpikedRandomFeatures(ov.erf, ov.erf, r=math.sqrt(2), gamma=1.0, beta=1.0)
assert perfect.bounds().upper < 1e-12  # exercise 2
print("all checks passed")
