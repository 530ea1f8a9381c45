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
# # How should the learning rate fall?
#
# In practice the learning rate always falls: by steps, along a cosine, as one over time. If the dynamics is known
# exactly, the optimal rate is known, too, and it depends on the problem: with noise on the labels the best rate falls
# as $1/\alpha$; on a plateau it must *not* fall; on data with a power-law spectrum it falls to zero at the end of
# training, and that changes the exponent of the learning curve.
#
# Globally optimal rates for these dynamics go back to D. Saad and M. Rattray (1997), Phys. Rev. Lett. 79, 2578. Power
# laws are from B. Bordelon and F. Mori (2026), arXiv:2602.04774. Sections 1 and 2 require pencil and paper, 3 and 4 a
# computer.

# %%
import numpy as np
from matplotlib import pyplot as plt
from scipy.optimize import minimize_scalar

import overlaps as ov
from overlaps.theory import linear

plt.rcParams.update({"figure.constrained_layout.use": True, "axes.grid": True, "grid.alpha": 0.25})
plt.rcParams.update({"legend.frameon": False, "legend.fontsize": "small", "lines.linewidth": 1.8})
TIME = r"learning time $\alpha$ = steps / $N$"

# %% [markdown]
# ## 1. One linear unit: a problem with one number
#
# Student and teacher are linear, inputs isotropic, labels have noise $\sigma$. The distance
# $m = |w - w^*|^2/N = Q - 2R + T$ obeys
#
# $$ \dot m = -2 \eta\, m + \eta^2 (m + \sigma^2), \qquad \epsilon_g = m/2 . $$
#
# The first term describes learning; the second is the noise of the step, from the labels and from the remaining error.
# At each time the right-hand side is smallest at
#
# $$ \boxed{\; \eta^* = \frac{m}{m + \sigma^2} \;} \qquad\Rightarrow\qquad \dot m = - \frac{m^2}{m + \sigma^2} . $$
#
# The greedy rate is optimal here: there is one variable, and two solutions under the same rate never cross, so that a
# smaller $m$ now implies a smaller $m$ later. With $x = \sigma^2/m$ the equation is $\dot x\,(1 + 1/x) = 1$, that is
# $x + \ln x = \alpha + \mathrm{const}$: for large $\alpha$
#
# $$ m \to \frac{\sigma^2}{\alpha}, \qquad \eta^* \to \frac1\alpha . $$
#
# With a constant rate $m$ converges to $\eta \sigma^2/(2 - \eta)$. The best constant rate for a given horizon is worse
# by a logarithm: $\epsilon_g \to (\sigma^2/8\alpha)\,(\ln(4 \alpha m_0/\sigma^2) + 1)$.

# %%
NOISE, M0, END = 0.5, 0.9, 100.0
model = ov.committee_machine(1, 1, activation=ov.linear, eta=1.0, noise=NOISE)
start = ov.State.from_overlaps(model, Q=[[0.1]], R=[[0.1]], T=[[1.0]])
alpha = np.append(0, np.geomspace(0.1, END, 100))
best_rate = ov.Schedule.from_function(lambda a: float(linear.optimal_eta(a, m0=M0, noise=NOISE)))
along = ov.solve(model, start, alpha, schedule=best_rate, rtol=1e-9)
closed = linear.optimal_error(alpha, m0=M0, noise=NOISE)
gap_closed = np.max(np.abs(along.eps_g / closed - 1))

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8))
for eta in (0.03, 0.1, 0.3, 1.0):
    left.loglog(
        alpha[1:], linear.error(ov.isotropic(), eta, alpha[1:], noise=NOISE, m0=[M0]), lw=1, label=rf"$\eta$ = {eta}"
    )
left.loglog(alpha[1:], along.eps_g[1:], "k", label="best rate")
left.loglog(alpha[1:], NOISE**2 / (2 * alpha[1:]), "k:", lw=1, label=r"$\sigma^2/2\alpha$")
left.set(xlabel=TIME, ylabel=r"$\epsilon_g$", ylim=(8e-4, 0.6), title="every constant rate stops")
right.loglog(alpha[1:], along.eta[1:], "k")
right.loglog(alpha[1:], 1 / alpha[1:], "k:", lw=1)
right.set(xlabel=TIME, ylabel=r"$\eta^*$", title=r"dotted: $1/\alpha$")
left.legend()
plt.show()
print(f"flow along the best rate against the closed form: largest relative difference {gap_closed:.1e}")

# %% [markdown]
# ### A computer finds it, too
#
# `ov.optimal_schedule` does not use this calculation. It varies rates at knots, with straight lines between them, along
# the exact gradient of the error at the horizon (the discrete adjoint of the integrator). Straight lines deviate from
# the best rate by the square of the distance $1/n$ of knots, and the error is stationary at the best rate: the excess
# error falls as $n^{-4}$.

# %%
KNOTS = [6, 11, 21, 41]
found = [ov.optimal_schedule(model, start, 10.0, knots=n, tol=1e-7) for n in KNOTS]
excess = [best.value / linear.optimal_error(10.0, m0=M0, noise=NOISE) - 1 for best in found]
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8))
found[1].plot(ax=left)
times = np.linspace(0, 10, 200)
left.plot(times, linear.optimal_eta(times, m0=M0, noise=NOISE), "k:", lw=1, label="closed form")
left.legend()
right.loglog(KNOTS, excess, "o-")
right.loglog(KNOTS, excess[1] * (np.array(KNOTS) / 11.0) ** -4, "k:", lw=1)
right.set(xlabel="knots", ylabel=r"$\epsilon_g$ / optimum - 1", title=r"dotted: $n^{-4}$")
plt.show()

# %% [markdown]
# ## 2. Fast or slow? It is the same in another time
#
# Learning is linear in $\eta$ and noise is quadratic. As a function of $\tau = \int \eta\, d\alpha$ the dynamics
# therefore depends only on the ratio of rate and batch size. *Do not lower the learning rate, increase the batch size*
# is an identity here: a rate $1/(1 + \alpha)$ at batch size one equals a constant rate at batch size $e^\tau$ after
# $\tau = \ln(1 + \alpha)$ steps per input dimension. The number of samples is the same in both cases.

# %%
net = ov.committee_machine(2, 2, eta=1.0, noise=0.3)
begin = ov.State.from_overlaps(net, Q=np.eye(2) / 2, R=[[0.3, 0.05], [0.1, 0.2]], T=np.eye(2))
falling = ov.solve(net, begin, [50.0], schedule=ov.Schedule.power(1.0, scale=1.0), rtol=1e-9)
batches = ov.solve(net, begin, [np.log(51.0)], schedule={"batch_size": ov.Schedule.from_function(np.exp)}, rtol=1e-9)
gap_batches = abs(falling.eps_g[0] / batches.eps_g[0] - 1)
print(f"eps_g with a falling rate {falling.eps_g[0]:.8f}, with growing batches {batches.eps_g[0]:.8f}")

# %% [markdown]
# ## 3. A plateau: do not be greedy
#
# Two erf students of two teachers first learn what both teachers have in common, and stay on a plateau until they
# specialise. While they begin to differ the error hardly changes: steps mainly add noise, and the rate at which the
# error falls fastest *now* goes to zero. The best rate for the horizon stays large until the students have specialised,
# and then falls.

# %%
net = ov.committee_machine(2, 2, eta=1.0, noise=0.1)
begin = ov.State.from_overlaps(net, Q=np.eye(2) / 2, R=1e-3 * np.eye(2), T=np.eye(2))
HORIZON = 200.0
best = ov.optimal_schedule(net, begin, HORIZON, knots=21, tol=1e-4)
greedy = ov.greedy_schedule(net, begin, HORIZON, knots=41)
times = np.linspace(0, HORIZON, 201)
runs = {
    "best": ov.solve(net, begin, times, schedule=best.schedule),
    "greedy": ov.solve(net, begin, times, schedule=greedy),
    "best constant": ov.solve(net, begin, times, schedule=ov.Schedule.constant(best.constant[0])),
}
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8))
for name, run in runs.items():
    left.semilogy(times, run.eps_g, label=name)
    right.plot(times, run.eta)
left.set(xlabel=TIME, ylabel=r"$\epsilon_g$")
right.set(xlabel=TIME, ylabel=r"$\eta$", ylim=(0, 2))
left.legend()
plt.show()
print({name: f"{run.eps_g[-1]:.2e}" for name, run in runs.items()})

# %% [markdown]
# The problem is not convex: the computed schedule is a local optimum, which is guaranteed only to be better than the
# best constant rate. It has three phases, as Saad and Rattray found: a moderate rate on the way to the plateau, a
# larger one during the escape, and annealing.
#
# ## 4. Power laws: the end decides the exponent
#
# Inputs have eigenvalues $s_l \propto l^{-(1 + \beta)}$, and small eigenvalues require many steps at a large rate. As a
# function of $\tau = \int \eta\, d\alpha$ the error of a linear unit is the error of gradient flow plus the remaining
# noise,
#
# $$ 2 \epsilon_g = F(\tau_f) + \int d\tau\; \eta(\tau)\, K(\tau_f - \tau)\, (2 \epsilon_g + \sigma^2), \qquad
#    F \sim \tau^{-\chi}, \quad K \sim x^{-(1 + \chi)}, \quad \chi = \frac{\beta}{1 + \beta} . $$
#
# A constant rate balances $(\eta\alpha_f)^{-\chi}$ with noise $\propto \eta$: $\eta \sim \alpha_f^{-\beta/(1 +
# 2\beta)}$, and the error falls with the same exponent. But the noise of early steps decays. For fixed $\tau_f$ the
# noise $\int \eta K d\tau$ with $\int d\tau/\eta = \alpha_f$ is smallest at $\eta \sim K^{-1/2}$, that is
#
# $$ \boxed{\; \eta(\alpha) \propto \left(1 - \frac{\alpha}{\alpha_f}\right)^{1 + 2\beta} \;} $$
#
# with a peak that does not depend on the horizon, and the error falls as $\alpha_f^{-\beta/(1 + \beta)}$, as if there
# were no noise.

# %%
HORIZONS = np.array([1.0, 3.0, 10.0, 30.0])
unit = ov.committee_machine(1, 1, activation=ov.linear, eta=1.086, noise=1.0, spectrum=ov.power_law(beta=1.0, L=256))
p = unit.spectrum.p[:, None, None]
state = ov.State.from_blocks(unit, q=p, r=0 * p, t=p)


def constant(horizon):
    """The least error of a constant rate."""
    bounds = np.log([1e-3, 1.5])
    error = lambda x: linear.error(unit.spectrum, np.exp(x), [horizon], noise=1.0)[0]  # noqa: E731
    return minimize_scalar(error, bounds=bounds, method="bounded").fun


def annealed(horizon, power):
    """The error under 1.086 (1 - alpha / horizon)^power, a product of straight lines."""
    line = ov.Schedule([0.0, horizon], [1.0, 0.0])
    schedule = line
    for _ in range(power - 1):
        schedule = schedule * line
    return ov.solve(unit, state, [horizon], schedule=schedule, rtol=1e-6, blocks=False).eps_g[-1]


curves = {"best constant rate": [constant(x) for x in HORIZONS]}
curves |= {rf"$(1 - \alpha/\alpha_f)^{n}$": [annealed(x, n) for x in HORIZONS] for n in (1, 3)}
fig, ax = plt.subplots(figsize=(5.5, 3.8))
for name, curve in curves.items():
    ax.loglog(HORIZONS, curve, "o-", label=name)
for first, exponent in zip(
    (curves["best constant rate"][1], list(curves.values())[-1][1]), (1 / 3, 1 / 2), strict=True
):
    ax.loglog(HORIZONS, first * (HORIZONS / 3) ** -exponent, ":", color="0.6", lw=1, zorder=0)
ax.set(xlabel=r"horizon $\alpha_f$", ylabel=r"$\epsilon_g$ at the horizon", title="dotted: exponents 1/3 and 1/2")
ax.legend()
plt.show()
exponents = {name: np.log(curve[1] / curve[3]) / np.log(10) for name, curve in curves.items()}
print({name: round(float(x), 3) for name, x in exponents.items()})

# %% [markdown]
# ## 5. Does SGD follow?
#
# All of this holds for $N \to \infty$. In a simulation step $n$ uses the rate at $\alpha = n/N$.

# %%
schedule = ov.Schedule.warmup(2.0) * ov.Schedule.cosine(30.0)
net = ov.committee_machine(2, 2, eta=1.5, noise=0.3)
begin = ov.State.from_overlaps(net, Q=np.eye(2) / 2, R=[[0.3, 0.05], [0.1, 0.2]], T=np.eye(2))
theory = ov.solve(net, begin, np.linspace(0, 30, 31), schedule=schedule)
sgd = ov.simulate(net, N=1000, alpha=theory.alpha, rng=1, runs=12, start=begin, schedule=schedule)
ax = theory.plot()
sgd.plot(ax=ax)
plt.show()
error = sgd.standard_error("eps_g")[-1]
gap_sgd = abs(sgd.mean("eps_g")[-1] - theory.eps_g[-1])

# %% [markdown]
# ## Exercises
#
# 1. Show that $\eta = 1/\alpha$ from the first step on diverges for $m_0 > 0$, and what $\eta^*$ does instead.
# 2. Without label noise the best rate of the linear unit is one. What is the best rate of `net` without noise? Let
#    `ov.optimal_schedule` find it, and explain why it *rises* at the end.
# 3. Add `drift=0.05` to the model of section 1. Which constant rate is best (`linear.tracking_error`)? Does annealing
#    still help?
# 4. Repeat section 4 for $\beta = 1/2$. At which $L$ do you see the exponents?

# %%
assert gap_closed < 1e-7 and gap_batches < 1e-6
assert 3 < np.log(excess[1] / excess[2]) / np.log(2) < 5
assert runs["best"].eps_g[-1] < 0.2 * runs["best constant"].eps_g[-1] < runs["greedy"].eps_g[-1]
found_exponents = list(exponents.values())
assert abs(found_exponents[0] - 0.35) < 0.02 and abs(found_exponents[2] - 0.53) < 0.03
assert gap_sgd < 4.5 * error + 3 / 1000
print("all checks passed")
