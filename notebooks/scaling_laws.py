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
# # Scaling laws from power-law data
#
# Test errors of large networks fall as power laws of training time, data and size (J. Kaplan et al. (2020),
# arXiv:2001.08361). One mechanism can be solved: the data have directions of very different variance, and the variances
# themselves are a power law. Directions are learned one after the other, those of large variance first, and the error
# at time $\alpha$ comes from the tail of the spectrum.
#
# This lecture follows R. Worschech and B. Rosenow (2024), arXiv:2410.09005. Relatives of the same idea are Y. Bahri et
# al. (2021), arXiv:2102.06701, A. Maloney, D. A. Roberts and J. Sully (2022), arXiv:2210.16859, and B. Bordelon, A.
# Atanasov and C. Pehlevan (2024), arXiv:2402.01092. We first solve linear students exactly (sections 1 to 5), then turn
# to nonlinear ones (6, 7), and end with a warning (8).

# %%
import time
import warnings

import numpy as np
from matplotlib import pyplot as plt
from scipy.special import gamma

import overlaps as ov
from overlaps.theory import features, linear, plateau, scaling

plt.rcParams.update({"figure.constrained_layout.use": True, "axes.grid": True, "grid.alpha": 0.25})
plt.rcParams.update({"legend.frameon": False, "legend.fontsize": "small", "lines.linewidth": 1.8})
TIME = r"learning time $\alpha$ = steps / $N$"

# %% [markdown]
# ## 1. A sum of exponentials that looks like a power law
#
# Inputs $x \in \mathbb R^N$ are Gaussian; their covariance has $L$ distinct eigenvalues
#
# $$ s_l = s_1\, l^{-(1 + \beta)}, \qquad l = 1, \dots, L, \qquad \frac1L \sum_l s_l = 1, $$
#
# each for $N/L$ directions. A linear student $w \cdot x/\sqrt N$ learns a linear teacher $w^* \cdot x/\sqrt N$ by
# one-pass SGD. Let $m_l = |P_l (w - w^*)|^2/N$ be the squared distance in eigenspace $l$. For a small learning rate
# every eigenspace relaxes independently,
#
# $$ \epsilon_g = \frac12 \sum_l s_l m_l, \qquad \frac{dm_l}{d\alpha} = -2 \eta s_l m_l
#    \quad\Rightarrow\quad \epsilon_g(\alpha) = \frac1L \sum_{l=1}^L s_l\, e^{-2 \eta s_l \alpha}, $$
#
# with $m_l(0) = 2/L$ for random $w$ and $w^*$. Replace the sum by an integral and substitute
# $u = \zeta\, l^{-(1 + \beta)}$, $\zeta = 2 \eta s_1 \alpha$:
#
# $$ \epsilon_g \simeq \frac{s_1}{L} \int_1^L dl\; l^{-(1+\beta)}\, e^{-\zeta\, l^{-(1 + \beta)}}
#    = \frac{s_1}{L}\, \frac{\zeta^{-b}}{1 + \beta} \int_{\zeta L^{-(1+\beta)}}^{\zeta} du\; u^{b - 1} e^{-u},
#    \qquad \boxed{\; b = \frac{\beta}{1 + \beta} \;} $$
#
# Between the times at which the first and the last eigenvalue are learned, $1 < \zeta < L^{1+\beta}$, the integral is
# the number $\Gamma(b)$, and the error is a **power law with exponent** $\beta/(1 + \beta)$.

# %%
BETA = 1.0  # exponent of the spectrum
ETA = 0.01  # learning rate
SIZES = [10, 100, 1000, 100_000]  # numbers of eigenvalues

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
flat = {}
for i, L in enumerate(SIZES):
    spectrum = ov.power_law(beta=BETA, L=L)
    zeta = np.geomspace(0.03, 20 * L ** (1 + BETA), 250)
    alpha = zeta / (2 * ETA * spectrum.s[0])
    error = linear.flow_error(spectrum, ETA, alpha)  # the sum
    left.loglog(zeta, error * L / spectrum.s[0], color=f"C{i}", label=f"L = {L}")
    slope = np.gradient(np.log(error), np.log(zeta))
    right.semilogx(zeta, slope, color=f"C{i}")
    b = linear.exponent(BETA)
    flat[L] = np.sum((zeta > 3) & (np.abs(slope + b) < 0.05)) * np.log10(zeta[1] / zeta[0])
left.loglog(zeta, gamma(b) / (1 + BETA) * zeta**-b, "k--", lw=1, label="power law")
left.set(xlabel=r"$\zeta = 2\eta s_1\alpha$", ylabel=r"$\epsilon_g\, L/s_1$", ylim=(1e-7, 3), title="the sum")
left.legend(loc="lower left")
right.axhline(-b, color="k", ls="--", lw=1)
right.set(xlabel=r"$\zeta = 2\eta s_1\alpha$", ylabel=r"$d\ln\epsilon_g/d\ln\alpha$", ylim=(-2, 0.05))
right.set_title(rf"local exponent; dashed: $-\beta/(1+\beta)$ = {-b:.2f}")
plt.show()
print("decades with an exponent within 0.05:", {L: round(float(x), 1) for L, x in flat.items()})

# %% [markdown]
# The window is $1 < \zeta < \mathrm{const} \cdot L^{1 + \beta}$ (`linear.window`), but its upper end deviates from the
# power law because of the last eigenvalues. With a hundred eigenvalues the power law extends over about one decade.
# Remember this when you fit exponents.
#
# ## 2. Any learning rate, exactly
#
# The step also adds noise: $|x|^2/N$ does not vanish, and the error in one direction adds noise to all others,
#
# $$ \frac{dm_l}{d\alpha} = -2 \eta s_l m_l + \eta^2 s_l p_l \sum_k s_k m_k, \qquad p_l = \frac1L . $$
#
# With $m_l = \sqrt{p_l}\, y_l$ this is $\dot y = (-2\eta S + \eta^2 z z^T)\, y$, $z_l = s_l \sqrt{p_l}$: a diagonal
# matrix plus one of rank one. Its eigenvalues $-2 \eta \mu_j$ lie between those of the diagonal part and solve the
# secular equation
#
# $$ 1 = \frac\eta2 \sum_l \frac{p_l s_l^2}{s_l - \mu} . $$
#
# Two consequences. The slowest rate vanishes at $\mu = 0$, that is at $\eta_c = 2/\langle s \rangle = 2$, for *every*
# spectrum. And inside the power-law window the noise only multiplies the error by $2/(2 - \eta)$ and does not change
# the exponent.

# %%
spectrum, eta = ov.power_law(beta=BETA, L=200), 1.0
s, p = spectrum.s, spectrum.p
z = s * np.sqrt(p)
dense = np.sort(np.linalg.eigvalsh(2 * eta * np.diag(s) - eta**2 * np.outer(z, z)))[::-1] / (2 * eta)
mu, c = linear.modes(spectrum, eta)  # the secular equation
print(f"rates: secular equation against dense matrix, largest relative difference {np.max(np.abs(mu / dense - 1)):.1e}")

# the general integrator does not use these formulas: K = M = 1 with linear activation is one of its models
student = ov.committee_machine(1, 1, activation=ov.linear, eta=eta, spectrum=spectrum)
start = student.random_start(N=200_000, rng=1)
alpha = np.append(0, np.geomspace(1e-3, 1e3, 40))
traj = ov.solve(student, start, alpha)
exact = linear.error(spectrum, eta, alpha, m0=linear.reduce(student, start)[1])
gap = np.max(np.abs(traj.eps_g / exact - 1)[exact > 1e-7])  # below, rounding of Q and R
print(f"integrator: {traj.method}; largest relative difference to the exact curve {gap:.1e}")

big = ov.power_law(beta=BETA, L=2048)
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8))
zeta = np.geomspace(0.1, 1e6, 100)
ratios = {}
for i, eta in enumerate((0.1, 0.5, 1.0, 1.5)):
    alpha = zeta / (2 * eta * big.s[0])
    left.loglog(zeta, linear.error(big, eta, alpha), color=f"C{i}", label=rf"$\eta$ = {eta}")
    ratio = linear.error(big, eta, alpha) / linear.flow_error(big, eta, alpha)
    ratios[eta] = np.interp(1e4, zeta, ratio)
    right.semilogx(zeta, ratio, color=f"C{i}")
    right.axhline(2 / (2 - eta), color=f"C{i}", ls="--", lw=1)
left.set(xlabel=r"$2\eta s_1\alpha$", ylabel=r"$\epsilon_g$", title=f"L = 2048, $\\beta$ = {BETA:g}")
left.legend()
right.set(xlabel=r"$2\eta s_1\alpha$", ylabel=r"exact / small $\eta$", ylim=(0.8, 6), title=r"dashed: $2/(2 - \eta)$")
plt.show()

# %% [markdown]
# ## 3. Features: training only a part of the weights
#
# Let a student train the weights along the $N_l$ leading eigenvectors only, one eigenvalue per direction ($L = N$). The
# others keep their random values, and their contribution to the error remains:
#
# $$ \epsilon_g = \frac1N \Big[ \sum_{k \le N_l} s_k\, e^{-2 \eta s_k \alpha} + \sum_{k > N_l} s_k \Big], \qquad
#    \epsilon_\infty \simeq \frac{s_1}{\beta N} \big( N_l^{-\beta} - N^{-\beta} \big) . $$
#
# Two scaling laws, with two exponents: $\beta/(1 + \beta)$ in time, $\beta$ in the number of features.
#
# **Compute.** A step costs $N_l$ operations, so that $\mathcal C \propto \alpha N_l$. The best $N_l$ for a given
# $\mathcal C$ is where both laws meet, $\alpha \sim N_l^{1 + \beta}$: a larger student would not converge, and a
# smaller one would have converged earlier. This gives $N_l \sim \mathcal C^{1/(2 + \beta)}$ and the *compute-optimal*
# law
#
# $$ \epsilon_g \sim \mathcal C^{-\beta/(2 + \beta)} , $$
#
# the envelope of the curves on the right (compare J. Hoffmann et al. (2022), arXiv:2203.15556, for language models).

# %%
N, ETA_FEATURES = 100_000, 0.05
TRAINED = [10, 30, 100, 300, 1000, 3000, 10_000]
spectrum = ov.power_law(beta=BETA, L=N)
alpha = np.geomspace(1e-4, 1e7, 150)

with warnings.catch_warnings():
    warnings.simplefilter("ignore", RuntimeWarning)  # L = N: what the library warns of is the subject of section 8
    curves = {n: features.error(spectrum, ETA_FEATURES, alpha, N_l=n) for n in TRAINED}

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2))
compute = np.geomspace(1e2, 1e8, 60)
best = np.min([np.interp(np.log(compute), np.log(alpha * n), np.log(e)) for n, e in curves.items()], axis=0)
for i, (n, error) in enumerate(curves.items()):
    color = plt.cm.viridis(i / len(TRAINED))
    left.loglog(alpha, error, color=color, label=f"$N_l$ = {n}")
    left.axhline(features.asymptote(BETA, N, n), color=color, ls=":", lw=1)
    right.loglog(alpha * n, error, color=color)
left.set(xlabel=TIME, ylabel=r"$\epsilon_g$", ylim=(3e-5, 3), title="dotted: what frozen features leave")
left.legend(ncols=2, loc="upper right")
middle = (compute > 1e3) & (compute < 1e7)
optimal = np.polyfit(np.log(compute[middle]), best[middle], 1)[0]
predicted = -BETA / (2 + BETA)
right.loglog(compute, 0.5 * np.exp(best[30]) * (compute / compute[30]) ** predicted, "k--", lw=1,
             label=rf"slope $-\beta/(2 + \beta)$ = {predicted:.3f}")  # fmt: skip
right.set(xlabel=r"compute $\alpha N_l$", ylabel=r"$\epsilon_g$", ylim=(3e-5, 3), xlim=(1e0, 1e9))
right.set_title("the envelope is the best use of compute")
right.legend(loc="upper right")
plt.show()
print(f"slope of the envelope {optimal:.3f}; -beta / (2 + beta) = {predicted:.3f}")
levels = np.array([features.asymptote(BETA, N, n) for n in TRAINED])
in_features = np.polyfit(np.log(TRAINED[1:4]), np.log(levels[1:4]), 1)[0]
print(f"exponent in the number of features {in_features:.3f}; -beta = {-BETA}")

# %% [markdown]
# ## 4. A random basis
#
# Features that are not eigenvectors but coordinates of a random basis are worse by a factor, not by an exponent. The
# level is the root of one equation, $\sum_k s_k/(s_k + \xi) = N_l$, $\epsilon_\infty = (N_l/N)\, \xi$.

# %%
haar = np.array([features.error_haar(spectrum, N_l=n) for n in TRAINED])
fig, ax = plt.subplots(figsize=(6, 3.6))
ax.loglog(TRAINED, levels, "o-", label="eigenbasis")
ax.loglog(TRAINED, haar, "s-", label="random basis")
ax.set(xlabel="trained features $N_l$", ylabel=r"$\epsilon_\infty$", title=rf"N = {N}, $\beta$ = {BETA:g}")
ax.legend()
plt.show()
print("ratio", np.round(haar / levels, 3), f"; for 1 << N_l << N: {features.haar_ratio(BETA):.3f}")

# %% [markdown]
# ## 5. A second exponent
#
# So far the teacher was independent of the inputs. Now let its coefficients along the eigenvectors fall as
# $l^{-\delta}$: then $m_l(0) \propto l^{-2\delta}$, and the integral of section 1 has the exponent
#
# $$ g = \frac{\beta + 2\delta}{1 + \beta} \quad\text{in time}, \qquad
#    \gamma = \beta + 2\delta \quad\text{in features}. $$
#
# Can learning be arbitrarily fast for easy teachers? No: every step along the strong directions adds noise, and this
# noise decays with its own exponent. Solve the equation of section 2 for the error,
#
# $$ \epsilon(\alpha) = \epsilon_0(\alpha) + \int_0^\alpha k(\alpha - t)\, \epsilon(t)\, dt , \qquad
#    k(\alpha) = \eta^2 \sum_l p_l s_l^2\, e^{-2\eta s_l\alpha} \sim \alpha^{-(1 + b)} , $$
#
# with the error $\epsilon_0$ of gradient flow. If $\epsilon_0$ falls faster than $k$, the noise dominates: for $2\delta
# > 1 + \beta$ the exponent is $1 + b = (1 + 2\beta)/(1 + \beta)$ **for every teacher**. `scaling.Law` computes all
# terms with their constants, and the exact optimum of compute in place of the estimate of section 3.

# %%
SOURCES = [0.0, 0.3, 1.0, 1.5]
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2))
endings = {}
for i, source in enumerate(SOURCES):
    law = scaling.Law(BETA, source, L=4000, eta=0.5)
    zeta = np.geomspace(1, 1e6, 50)
    alpha = zeta / (2 * law.eta * law.spectrum.s[0])
    exact = law.error(alpha)
    left.loglog(
        zeta, exact, color=f"C{i}", lw=4, alpha=0.4, label=rf"$\delta$ = {source:g}, g = {law.exponents.time:g}"
    )
    left.loglog(zeta[zeta > 10], law.asymptote(alpha[zeta > 10]), "k--", lw=1)
    late = (zeta > 1e3) & (zeta < 1e4)
    endings[source] = -np.polyfit(np.log(zeta[late]), np.log(exact[late]), 1)[0]
left.set(xlabel=r"$2\eta s_1\alpha$", ylabel=r"$\epsilon_g$", ylim=(1e-11, 1), title="dashed: sum of closed forms")
left.legend(loc="lower left")

law = scaling.Law(BETA, 0.3, L=3000, eta=0.5)
cost = np.geomspace(1e3, 1e7, 7) / (2 * law.eta * law.spectrum.s[0])  # c = N_l alpha
closed, searched = law.frontier(cost), law.frontier(cost, exact=True)
for j, n in enumerate([10, 30, 100, 300, 1000]):
    fine = np.geomspace(cost[0] / 10, 10 * cost[-1], 80)
    right.loglog(fine, law.error(fine / n, n), color=plt.cm.viridis(j / 5), label=f"$N_l$ = {n}")
right.loglog(cost, searched.eps, "ko", ms=4, label="best of all $N_l$")
right.loglog(cost, closed.eps, "r--", lw=1.2, label="closed form")
right.set(xlabel=r"compute $\alpha N_l$", ylabel=r"$\epsilon_g$", ylim=(1e-6, 0.1), title=r"$\delta$ = 0.3")
right.legend(fontsize="x-small", loc="lower left")
plt.show()
print("exponents at late times:", {d: round(float(e), 3) for d, e in endings.items()})
alpha = np.geomspace(1e-3, 10, 80)
measured = scaling.fit(alpha, law.error(alpha))
print(f"fit for delta = 0.3: {measured.exponent:.3f} +- {measured.error:.3f}; theory {law.exponents.time}")

# %% [markdown]
# ## 6. Nonlinear students: the plateau melts
#
# Now $K = M = 2$ error-function units. With isotropic inputs ($L = 1$) learning stays on a symmetric plateau, where
# both students are equal. How do correlations change this? Students that differ by $\delta_k$ move apart along
# $\rho_{km} = w^*_m \Sigma\, \delta_k/N$, and the equation of $\rho$ contains one more factor of the covariance,
#
# $$ \frac{d\rho_k}{d\alpha} = -\eta\, T^{(2)} S \rho_k, \qquad T^{(2)}_{mn} = \frac{w^*_m \Sigma^2 w^*_n}{N}
#    \simeq \langle s^2 \rangle\, \delta_{mn} \sim L , $$
#
# where $S$, the curvature of the error on the plateau, does not depend on the spectrum. The escape becomes faster
# proportionally to $L$: strong directions break the symmetry for all others.

# %%
BLOCKS = [1, 4, 16, 64]
fig, ax = plt.subplots(figsize=(7, 4.2))
ends, times = {}, {}
for i, L in enumerate(BLOCKS):
    model = ov.committee_machine(2, 2, eta=0.1, normalised=True, spectrum=ov.power_law(beta=BETA, L=L))
    begin = model.random_start(N=6400, rng=3, student_scale=0.01)
    path = ov.solve(model, begin, np.append(0, np.geomspace(0.1, 4000, 300)))
    T, T2 = plateau.teacher_moments(begin, [1, 2])
    height, times[L] = plateau.plateau(T).eps_g, 1 / plateau.escape_rates(T, T2, eta=model.eta)[0]
    ends[L] = path.alpha[np.argmax((path.alpha > 3) & (path.eps_g < 0.5 * height))]
    ax.loglog(path.alpha, path.eps_g, color=f"C{i}", label=rf"L = {L}, $1/\gamma$ = {times[L]:.0f}")
ax.axhline(height, color="k", ls=":", lw=1, label="height of the plateau")
ax.set(xlabel=TIME, ylabel=r"$\epsilon_g$", ylim=(1e-5, 0.3), xlim=(0.1, 4000))
ax.set_title(rf"erf, K = M = 2, $\beta$ = {BETA:g}, $\eta$ = 0.1", fontsize="medium")
ax.legend(loc="lower left")
plt.show()
print("half of the plateau is left at alpha =", {L: round(float(x)) for L, x in ends.items()})

# %% [markdown]
# ## 7. The scaling law of a nonlinear student, to $\alpha = 10^9$
#
# Close to its teacher the student is linear in $w - w^*$ again, with two groups of modes: the common deviation of the
# students, and their differences. Both decay with rates proportional to $s_l$, so both show the exponent $\beta/(1 +
# \beta)$, in windows that are shifted against each other by the ratio of the rates, $(2 + \sqrt 3)/(2 - \sqrt 3) =
# 13.9$ for $M = 2$.
#
# Rates spread over $L^{1 + \beta}$: an explicit integrator would need more than $10^{10}$ steps. The library detects
# this and uses implicit steps, whose linear algebra exploits the structure of the equations (diagonal in the
# eigenspaces plus a few collective variables).

# %%
L = 2048
runs = {}
for beta in (1.0, 1.5):
    model = ov.committee_machine(2, 2, eta=0.1, normalised=True, spectrum=ov.power_law(beta=beta, L=L))
    began = time.perf_counter()
    runs[beta] = ov.solve(model, model.random_start(N=1000 * L, rng=1), (0.0, 1e9), every_step=True)
    print(f"beta = {beta}: {len(runs[beta])} steps in {time.perf_counter() - began:.1f} s; {runs[beta].method}")

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2))
slopes = {}
for color, (beta, path) in zip(("C0", "C3"), runs.items(), strict=True):
    seen = (path.alpha > 1e-2) & (path.eps_g > 1e3 * path.eps_floor)  # below, eps_g is rounding
    left.loglog(path.alpha[seen], path.eps_g[seen], color=color, label=rf"$\beta$ = {beta}")
    grid = np.geomspace(1e-1, path.alpha[seen][-1], 120)
    smooth = np.interp(np.log(grid), np.log(path.alpha[seen]), np.log(path.eps_g[seen]))
    right.semilogx(grid, np.gradient(smooth, np.log(grid)), color=color)
    right.axhline(-linear.exponent(beta), color=color, ls="--", lw=1)
    window = (grid > 20) & (grid < 500)
    slopes[beta] = np.polyfit(np.log(grid[window]), smooth[window], 1)[0]
left.set(xlabel=TIME, ylabel=r"$\epsilon_g$", xlim=(1e-2, 1e9), ylim=(1e-13, 1), title=f"erf, K = M = 2, L = {L}")
left.legend()
right.set(xlabel=TIME, ylabel=r"$d\ln\epsilon_g/d\ln\alpha$", xlim=(1e-1, 1e9), ylim=(-2, 0))
right.set_title(r"local exponent; dashed: $-\beta/(1+\beta)$")
plt.show()
for beta, slope in slopes.items():
    print(f"beta = {beta}: slope {slope:.3f} for alpha = 20 to 500; -beta / (1 + beta) = {-linear.exponent(beta):.3f}")

# %% [markdown]
# The shoulder on the right is the end of the first window (common deviation of the students); the second window (their
# differences) follows. A fit across the shoulder gives an exponent that no theory predicts.
#
# ## 8. A warning: when is $N$ infinite?
#
# Everything above holds for $N \to \infty$ at fixed $L$. With one direction per eigenvalue, $L = N$, the largest one is
# $s_1 \simeq N/\zeta(1 + \beta)$: a single step moves the student along that direction by a *finite* amount,
# $\eta s_1/N$. For linear students the mean over runs of SGD is still exactly solvable,
#
# $$ m_l \leftarrow \Big( 1 - \frac{2 \eta s_l}{N} + \frac{2 \eta^2 s_l^2}{N^2} \Big) m_l
#    + \frac{\eta^2}{N} s_l p_l \sum_k s_k m_k , $$
#
# and the largest stable learning rate falls from 2 to about 1. The library warns wherever $N$ is given.

# %%
alpha, fine = np.array([0.3, 1, 3, 10]), np.geomspace(0.1, 10, 100)
results = {}
for n, repeats in ((64, 300), (1024, 10)):
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.6, spectrum=ov.power_law(beta=BETA, L=64))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sgd = ov.simulate(model, N=n, alpha=alpha, rng=7, runs=repeats)
        at_runs, at_fine = (linear.sgd_mean(model.spectrum, model.eta, np.rint(n * t), N=n) for t in (alpha, fine))
    results[n] = sgd, at_runs, at_fine
    print(
        f"N = {n}, L = 64: eta_c = {linear.eta_critical(model.spectrum, N=n):.3f}.", *{str(w.message) for w in caught}
    )
limit = linear.error(model.spectrum, model.eta, fine)

fig, ax = plt.subplots(figsize=(6.5, 4))
ax.loglog(fine, limit, "k", label=r"ODE, $N \to \infty$")
for color, (n, (sgd, _, curve)) in zip(("C3", "C0"), results.items(), strict=True):
    label = "mean of SGD, exact" if n == 64 else None
    ax.loglog(np.rint(n * fine) / n, curve, color=color, ls="--", lw=1.2, label=label)
    bars = sgd.standard_error("eps_g")
    ax.errorbar(sgd.alpha, sgd.mean("eps_g"), bars, fmt="o", ms=4, color=color, label=f"SGD, N = {n}, {len(sgd)} runs")
ax.set(xlabel=TIME, ylabel=r"$\epsilon_g$", ylim=(1e-2, 1), title=rf"linear, L = 64, $\eta$ = {model.eta}")
ax.legend()
plt.show()
excess = {n: curve[-1] / limit[-1] for n, (_, _, curve) in results.items()}
print("mean error of SGD over that of the ODE at alpha = 10:", {n: round(float(x), 3) for n, x in excess.items()})

# %% [markdown]
# ## Exercises
#
# 1. **Exponent and window.** Repeat section 1 for $\beta = 0.3$ and $\beta = 2$. How large must $L$ be for two clean
#    decades? *Hint:* the error at the end of the window is that of the missing piece of the gamma function,
#    $\Gamma(b) - \Gamma(b, \zeta L^{-(1 + \beta)}) \simeq u^b/b$ with $u = \zeta L^{-(1 + \beta)}$.
# 2. **The best learning rate.** At a fixed $\alpha$ inside the window, which $\eta$ gives the least error? Show that it
#    is $2\beta/(1 + 2\beta)$ and check it with `linear.error`. *Hint:* minimise $\eta^{-b} \cdot 2/(2 - \eta)$.
# 3. **Label noise.** `linear.error(..., noise=0.1)` saturates. Where does the power law end, and which schedule
#    $\eta(\alpha)$ keeps it going? *Hint:* balance `linear.limit_error` with the power law; chain `ov.solve` with
#    `model.replace(eta=...)`, starting from `traj[-1]`.
# 4. **Annealing.** With `scaling.Law(1.0, 0.5, L=1000, eta=0.5, noise=0.5)` compare `law.error`, `law.decayed` and
#    `law.annealed` at the same $\alpha$. Which power of the decay is best? *Hint:* balance the bias,
#    $(\int\eta)^{-g}$, with the noise, $\propto \eta(\alpha)$.
# 5. **Melting.** Measure the end of the plateau in section 6 for $\beta = 0.25$ and $L$ up to 512 ($N$ a multiple of
#    $L$). Is it proportional to $1/\gamma$? *Hint:* `plateau.length`; the logarithm is that of the initial difference
#    of the students.

# %% [markdown]
# ## Checks
#
# The claims of this notebook, as assertions. They hold for the parameters above; change these, and find out which
# assertions still hold.

# %%
assert flat[10] < 1 < flat[100] < flat[1000] < flat[100_000]  # decades of power law grow with L
assert np.allclose(mu, dense, rtol=1e-9) and np.isclose(c.sum(), 1.0)
assert gap < 1e-6 and "BDF" in traj.method
assert all(np.isclose(ratio, 2 / (2 - eta), rtol=0.01) for eta, ratio in ratios.items())
assert np.isclose(optimal, predicted, atol=0.02) and np.isclose(in_features, -BETA, atol=0.02)
assert np.isclose(haar[2] / levels[2], features.haar_ratio(BETA), rtol=0.05)
assert np.allclose(closed.eps, searched.eps, rtol=0.01)
assert all(np.isclose(endings[d], e, atol=0.05) for d, e in zip(SOURCES, (0.5, 0.8, 1.5, 1.5), strict=True))
assert measured.clean and abs(measured.exponent - 0.8) < measured.error
assert list(ends.values()) == sorted(ends.values(), reverse=True) and times[1] > 10 * times[64]
assert all(path.success and path.alpha[-1] == 1e9 for path in runs.values())
assert all(np.isclose(slope, -linear.exponent(beta), rtol=0.1) for beta, slope in slopes.items())
for sgd, mean, _ in results.values():  # the exact mean of SGD, within its standard error
    assert np.all(np.abs(sgd.mean("eps_g") - mean) < 4 * sgd.standard_error("eps_g"))
assert excess[64] > 1.1 > excess[1024]  # N = L = 64 is not infinite
print("all checks passed")
