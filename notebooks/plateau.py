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
# # Plateau and specialisation
#
# A two-layer network that learns from another one often stops improving for a long time, and then suddenly improves
# again. This lecture explains this behaviour with a few numbers, the *order parameters*: the position of the plateau (a
# symmetric fixed point), its height, the escape (along an unstable direction, at a rate that is an eigenvalue), the
# effect of the learning rate, and the comparison with runs of finite size.
#
# The setting is that of D. Saad and S. A. Solla, Phys. Rev. E 52, 4225 (1995), and M. Biehl and H. Schwarze, J. Phys.
# A 28, 643 (1995). The eigenvalue picture of the plateau is due to M. Biehl, P. Riegler and C. Wöhler, J. Phys. A 29,
# 4769 (1996); S. Goldt et al. (2019), arXiv:1906.08632, prove the equations and treat students that are larger than
# their teacher.

# %%

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

plt.rcParams.update({"figure.constrained_layout.use": True, "axes.grid": True, "grid.alpha": 0.25})
plt.rcParams.update({"legend.frameon": False, "legend.fontsize": "small", "lines.linewidth": 1.8})
TIME = r"learning time $\alpha$ = steps / $N$"

# %% [markdown]
# ## 1. From weights to order parameters
#
# Student and teacher are **soft committee machines**: all output weights are one, and
# $g(x) = \mathrm{erf}(x/\sqrt 2)$,
#
# $$ \hat y = \sum_{k=1}^K g(\lambda_k), \quad \lambda_k = \frac{w_k \cdot x}{\sqrt N}, \qquad\qquad
#    y = \sum_{m=1}^M g(\nu_m), \quad \nu_m = \frac{w^*_m \cdot x}{\sqrt N}, \qquad x \sim \mathcal N(0, 1_N). $$
#
# Each step of SGD uses a fresh input and the gradient of $\Delta^2/2$, with $\Delta = \hat y - y$:
#
# $$ w_k \leftarrow w_k + F_k\, \frac{x}{\sqrt N}, \qquad F_k = -\eta\, g'(\lambda_k)\, \Delta . $$
#
# The $K + M$ fields $(\lambda, \nu)$ are jointly Gaussian, and the error depends on their covariance only:
#
# $$ Q_{kj} = \frac{w_k \cdot w_j}{N}, \qquad R_{km} = \frac{w_k \cdot w^*_m}{N}, \qquad
#    T_{mn} = \frac{w^*_m \cdot w^*_n}{N}. $$
#
# **The equations.** One step changes $R_{km}$ by $F_k \nu_m/N$. In $N\,d\alpha$ steps these small changes add up to
# their mean, the fluctuations to a relative $1/\sqrt N$. For $Q$ the square of the step contributes, too, because
# $|x|^2/N \to 1$:
#
# $$ \frac{dR_{km}}{d\alpha} = E[F_k \nu_m], \qquad
#    \frac{dQ_{kj}}{d\alpha} = E[F_k \lambda_j + F_j \lambda_k] + E[F_k F_j]. $$
#
# Stein's lemma, $E[F \nu_m] = \sum_j E[\partial F/\partial\lambda_j]\, R_{jm} + \sum_n E[\partial F/\partial\nu_n]\,
# T_{nm}$, leads to the form that the library integrates,
#
# $$ \frac{dR}{d\alpha} = A R + B T, \qquad \frac{dQ}{d\alpha} = A Q + Q A^T + B R^T + R B^T + C, $$
#
# where $A, B \sim \eta$ are mean derivatives of the force and $C = E[F F^T] \sim \eta^2$ is the noise of SGD. For erf
# all three have closed forms.

# %%
K = 3  # units of the student and of the teacher
ETA = 0.5  # learning rate

model = ov.committee_machine(K, K, eta=ETA)
start = model.random_start(N=10_000, rng=2, student_scale=0.3, teacher="ideal")  # orthonormal teachers
traj = ov.solve(model, start, np.linspace(0, 700, 701))

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8))
left.semilogy(traj.alpha, traj.eps_g, "k")
left.set(xlabel=TIME, ylabel=r"generalisation error $\epsilon_g$", ylim=(1e-9, 1))
partner = np.argmax(traj.R[-1], axis=1)  # the teacher unit that each student unit ends up with
for k in range(K):
    for m in range(K):
        style = {"color": f"C{k}", "label": rf"$R_{{{k + 1}{m + 1}}}$"} if m == partner[k] else {"color": "0.7"}
        right.plot(traj.alpha, traj.R[:, k, m], **style)
right.plot([], [], color="0.7", label=r"other $R_{km}$")
right.plot(traj.alpha, traj.Q[:, 0, 0], "k:", label="$Q_{11}$")
right.set(xlabel=TIME, ylabel="overlaps")
right.legend(loc="center right")
plt.show()

# %% [markdown]
# There are three phases: a fast decrease, in which all students learn what the teachers have in *common*; a plateau, on
# which all $R_{km}$ are equal; and **specialisation**, in which each student approaches one teacher.
#
# The error itself is a sum of arcsines, $E[g(a) g(b)] = \frac2\pi \arcsin \frac{C_{ab}}{\sqrt{(1 + C_{aa})(1 +
# C_{bb})}}$ for Gaussian fields $a, b$ with covariance $C$. The next cell compares this formula with the library:


# %%
def error_by_hand(Q, R, T):
    """Generalisation error E[(yhat - y)^2] / 2 from the covariance of the fields."""
    S = np.block([[Q, R], [R.T, T]])
    sign = np.r_[np.ones(len(Q)), -np.ones(len(T))]
    norm = np.sqrt(1 + np.diag(S))
    return sign @ np.arcsin(S / np.outer(norm, norm)) @ sign / np.pi


by_hand = np.array([error_by_hand(Q, R, start.T) for Q, R in zip(traj.Q, traj.R, strict=True)])
difference = np.max(np.abs(by_hand - traj.eps_g))
print(f"largest difference on the whole trajectory: {difference:.1e}")

# %% [markdown]
# ## 2. The height of the plateau
#
# Neglect $C$ for the moment: for small $\eta$ SGD is **gradient flow**, $dw_k/d\alpha = -\eta N\,
# \partial\epsilon_g/\partial w_k$. By symmetry, students that are all equal to $c\,(w^*_1 + \dots + w^*_K)$ stay so.
# With orthonormal teachers they have $R = c$ and $Q = K c^2$, and the error becomes a function of one number,
#
# $$ \epsilon_g(c) = \frac1\pi \Big[ K^2 \arcsin\frac{Q}{1 + Q} + \frac{\pi K}{6}
#    - 2 K^2 \arcsin\frac{c}{\sqrt{2(1 + Q)}} \Big], \qquad Q = K c^2 . $$
#
# Setting the derivative to zero and squaring once gives $(2K - 1)\, Q^2 + (2K - 2)\, Q - 1 = 0$, hence
#
# $$ \boxed{\; Q^* = \frac{1}{2K - 1}, \qquad R^* = \frac{1}{\sqrt{K(2K - 1)}}, \qquad
#    \epsilon_g^* = \frac K\pi \Big[ \frac\pi6 - K \arcsin\frac1{2K} \Big] \;} $$
#
# which agrees with Saad and Solla (1995). `ov.fixed_point` finds the same point by Newton's method from any guess with
# this symmetry. Larger committees escape in steps: some students specialise first, and the others stay on a lower
# plateau.


# %%
def height(K):
    """Error on the symmetric plateau of gradient flow."""
    return K / np.pi * (np.pi / 6 - K * np.arcsin(1 / (2 * K)))


def symmetric(model, Q, R, apart=0.0):
    """State with equal overlaps; ``apart`` is Q_kk - Q_kj."""
    K = model.K
    return ov.State.from_overlaps(model, Q=np.full((K, K), Q) + apart * np.eye(K), R=np.full((K, K), R), T=np.eye(K))


SIZES = [2, 3, 4, 5]
flows, plateaus = {}, {}
fig, ax = plt.subplots(figsize=(7, 4))
for i, size in enumerate(SIZES):
    flow = ov.committee_machine(size, size, eta=1.0, gradient_flow=True)  # eta = 1: alpha stands for eta alpha
    plateaus[size] = ov.fixed_point(flow, symmetric(flow, Q=0.3, R=0.2))
    small = flow.random_start(N=10_000, rng=1, student_scale=0.03, teacher="ideal")
    flows[size] = ov.solve(flow, small, np.linspace(0, 450, 901))
    ax.semilogy(flows[size].alpha, flows[size].eps_g, color=f"C{i}", label=f"K = M = {size}")
    ax.axhline(height(size), color=f"C{i}", ls="--", lw=1)
    state = plateaus[size].state
    print(
        f"K = {size}: Q = {state.Q[0, 0]:.6f} (1/(2K-1) = {1 / (2 * size - 1):.6f}), R = {state.R[0, 0]:.6f} "
        f"({(size * (2 * size - 1)) ** -0.5:.6f}), height {height(size):.6f}"
    )
ax.set(xlabel=r"$\eta\,\alpha$", ylabel=r"$\epsilon_g$", ylim=(1e-4, 2), title="gradient flow; dashed: the formula")
ax.legend(loc="lower left")
plt.show()

# %% [markdown]
# ## 3. The escape is an eigenvalue
#
# Why does the network leave the plateau? Let the students differ slightly, $w_k = w + \delta_k$ with $\sum_k \delta_k =
# 0$, and write $\rho_{km} = \delta_k \cdot w^*_m/N$. To second order the error depends only on the component of $\rho$
# whose rows sum to zero,
#
# $$ \epsilon_g = \epsilon_g^* - \frac{\gamma}{2} \sum_{km} \rho_{km}^2 . $$
#
# The error *decreases*: the plateau is a saddle. In gradient flow this curvature is a growth rate, $d\rho/d\alpha =
# \eta\,\gamma\,\rho$, and for orthonormal teachers
#
# $$ \gamma = \frac{2K}{\pi \sqrt{2K - 1}\, (2K + 1)^{3/2}} . $$
#
# Rows and columns of $\rho$ sum to zero, which leaves $(K - 1)^2$ growing modes, all with the same rate. Differences
# orthogonal to all teachers neither grow nor decay: eigenvalues zero. (Large ones delay the escape; therefore students
# have small norms at the start, `student_scale=0.03`.) `ov.linearise` computes the whole spectrum of the flow at the
# fixed point.


# %%
def growth(K):
    """Escape rate over eta, in gradient flow."""
    return 2 * K / (np.pi * np.sqrt(2 * K - 1) * (2 * K + 1) ** 1.5)


spectra = {}
for size in SIZES:
    flow = flows[size].model
    spectra[size] = ov.linearise(flow, plateaus[size].state)
    print(
        f"K = {size}: {spectra[size].unstable} growing modes, rate {spectra[size].rate:.8f}; formula {growth(size):.8f}"
    )

# the curvature, by finite differences: students (c + rho) w* have R = c + rho and Q = R R^T
c, rho = (K * (2 * K - 1)) ** -0.5, np.zeros((K, K))
rho[:2, :2] = 1e-3 * np.array([[1, -1], [-1, 1]])
curvature = 2 * (height(K) - error_by_hand((c + rho) @ (c + rho).T, c + rho, np.eye(K))) / np.sum(rho**2)
print(f"curvature at K = {K}: {curvature:.6f}")

# %% [markdown]
# So the difference of the students grows as $e^{\eta\gamma\alpha}$, and the error leaves the plateau at *twice* that
# rate. In a trajectory the asymmetric component of $R$ is a straight line over decades, while $\epsilon_g$ does not
# change visibly.


# %%
def asymmetry(R):
    """Norm of the part of R whose rows and columns sum to zero."""
    rest = R - R.mean(axis=1, keepdims=True) - R.mean(axis=2, keepdims=True) + R.mean(axis=(1, 2), keepdims=True)
    return np.linalg.norm(rest, axis=(1, 2))


traj_flow = flows[3]
grown, gap = asymmetry(traj_flow.R), np.abs(traj_flow.eps_g / height(3) - 1)
straight = (traj_flow.alpha > 60) & (grown < 0.03)
fitted = np.polyfit(traj_flow.alpha[straight], np.log(grown[straight]), 1)[0]
print(f"rate fitted to the trajectory {fitted:.6f}; eigenvalue {spectra[3].rate:.6f}")

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8))
left.semilogy(traj_flow.alpha, grown, label="asymmetric part of $R$")
left.semilogy(traj_flow.alpha, gap, label=r"$|\epsilon_g/\epsilon_g^* - 1|$")
guide = traj_flow.alpha[straight]
left.semilogy(
    guide, 2 * grown[straight][0] * np.exp(spectra[3].rate * (guide - guide[0])), "k--", label="rate from $J$"
)
left.set(xlabel=r"$\eta\,\alpha$", xlim=(0, 250), ylim=(1e-6, 10), title="K = M = 3, gradient flow")
left.legend(loc="lower right")
right.axhline(0, color="0.6", lw=1)
for i, size in enumerate(SIZES):
    values = spectra[size].eigenvalues.real
    right.plot(np.full(values.size, size), values, "o", color=f"C{i}", ms=7)
    right.text(size + 0.12, spectra[size].rate, rf"$\times${spectra[size].unstable}", va="center", color=f"C{i}")
    right.text(size + 0.12, 0.004, rf"$\times${np.sum(np.abs(values) < 1e-9)}", va="center", color=f"C{i}")
sizes = np.linspace(1.9, 5.1, 60)
right.plot(sizes, growth(sizes), "k--", lw=1, zorder=0, label=r"$\gamma$, the formula")
right.set(xlabel="K = M", ylabel=r"eigenvalues of $J$, over $\eta$", xticks=SIZES, title="growing and neutral modes")
right.set(xlim=(1.7, 5.6), ylim=(-0.01, 0.08))
right.legend(loc="upper right")
plt.show()

# %% [markdown]
# ## 4. The learning rate: the term of order $\eta^2$
#
# In gradient flow $\eta$ only sets the time scale. In SGD it also sets the strength of the noise $C = E[F F^T]$, which
# has three effects:
#
# 1. It **lifts the plateau**. Students get different noise in directions orthogonal to all teachers, so that
#    $Q_{kk} > Q_{kj}$ by an amount of order $\eta$.
# 2. It **weakens the symmetry breaking**: the rate $\lambda(\eta)$ grows more slowly than $\eta$, has a maximum and
#    falls again.
# 3. Beyond a **critical learning rate** $\eta_c$ even perfect learning is unstable (`ov.critical_eta`).
#
# At finite $\eta$ identical students are still a fixed point (their common noise keeps them identical), but the plateau
# of trajectories is another one, with $Q_{kk} > Q_{kj}$. To find it, start from students that differ but are
# equivalent. The flow conserves this symmetry, so that it cannot escape and converges to the plateau. Newton's method
# then finds the fixed point accurately.


# %%
def on_plateau(K, eta):
    """Height of the plateau and rate of the escape from it, at a finite learning rate."""
    model = ov.committee_machine(K, K, eta=eta)
    # not longer: rounding seeds the escape
    late = ov.solve(model, symmetric(model, Q=0.0, R=0.1, apart=0.3), (0, 60 / eta), rtol=1e-9)[-1]
    state = ov.fixed_point(model, late).state
    return ov.closure(model, state.Q, state.R, state.T).eps_g, ov.linearise(model, state).rate


SHOWN = [0.2, 0.5, 0.8, 1.1]
fine = np.union1d(np.round(np.arange(0.02, 1.4, 0.08), 2), SHOWN)
heights, rates = np.transpose([on_plateau(3, eta) for eta in fine])

fig, axes = plt.subplots(1, 3, figsize=(12.5, 3.9))
for i, eta in enumerate(SHOWN):
    one = model.replace(eta=eta)
    path = ov.solve(one, start, np.linspace(0, 400 / eta, 801))
    axes[0].semilogy(eta * path.alpha, path.eps_g, color=f"C{i}", label=rf"$\eta$ = {eta}")
    axes[0].axhline(heights[fine == eta][0], color=f"C{i}", ls="--", lw=1)
axes[0].set(xlabel=r"$\eta\,\alpha$", ylabel=r"$\epsilon_g$", ylim=(1e-4, 1), title="K = M = 3; dashed: fixed point")
axes[0].legend(loc="lower left")
axes[1].plot(fine, heights)
axes[1].plot(0, height(3), "o", color="k", label="gradient flow")
axes[1].set(xlabel=r"learning rate $\eta$", ylabel=r"height $\epsilon_g^*(\eta)$", title="the noise lifts the plateau")
axes[1].legend()
best = {}
for i, size in enumerate((2, 3, 4)):
    one, ones = ov.committee_machine(size, size, eta=0.5), np.eye(size)
    limit = ov.critical_eta(one, ov.State.from_overlaps(one, Q=ones, R=ones, T=ones))  # student = teacher
    etas = np.linspace(0.02, limit, 25)[:-1]
    curve = np.array([on_plateau(size, eta)[1] for eta in etas])
    best[size] = etas[np.argmax(curve)] / limit
    axes[2].plot(etas / limit, curve, color=f"C{i}", label=rf"K = M = {size}, $\eta_c$ = {limit:.2f}")
    axes[2].plot(etas / limit, growth(size) * etas, color=f"C{i}", ls=":", lw=1)
axes[2].set(xlabel=r"$\eta/\eta_c$", ylabel=r"escape rate $\lambda$", ylim=(0, 0.13), title=r"dotted: $\eta\,\gamma$")
axes[2].legend(loc="upper left")
plt.show()
print("fastest escape at", ", ".join(f"{ratio:.2f} eta_c (K = {size})" for size, ratio in best.items()))

# %% [markdown]
# ## 5. Finite size: SGD with error bars
#
# The equations hold for $N \to \infty$. A run at finite $N$ fluctuates around them by $1/\sqrt N$. `ov.simulate` starts
# from weights whose overlaps are *exactly* those of `start`, so that all differences are fluctuations. (It does not
# store the weights: overlaps can be drawn from their exact law, at a cost that does not grow with $N$.)
#
# While the students are on the plateau, their differences are amplified by $e^{\lambda\alpha}$, including the
# fluctuations. The *time* of the escape therefore differs from run to run, and error bars are largest there.

# %%
FAST = 0.8  # learning rate
fast = model.replace(eta=FAST)
times = np.arange(10, 201, 10)
begin = ov.State.from_overlaps(fast, Q=0.3 * np.eye(K), R=np.diag(np.linspace(0.02, 0.04, K)), T=np.eye(K))
theory = ov.solve(fast, begin, np.arange(0, 201, 2))
sgd = {N: ov.simulate(fast, N=N, alpha=times, rng=1, start=begin, runs=runs) for N, runs in ((300, 16), (1200, 16))}

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), sharex=True)
left.semilogy(theory.alpha, theory.eps_g, "k", label=r"ODE, $N \to \infty$")
own, cross = np.eye(K, dtype=bool), ~np.eye(K, dtype=bool)
for mask, text in ((own, "own teacher"), (cross, "other teachers")):
    right.plot(theory.alpha, theory.R[:, mask].mean(axis=1), "k", ls="-" if mask is own else "--", label=f"ODE, {text}")
for color, (N, runs) in zip(("C0", "C3"), sgd.items(), strict=True):
    shift = 0.8 if N == 1200 else -0.8  # side by side
    low, middle, high = runs.quantile("eps_g", [0.16, 0.5, 0.84])
    bars = [middle - low, high - middle]
    left.errorbar(times + shift, middle, bars, fmt="o", ms=3, color=color, lw=1, label=f"SGD, N = {N}")
    for mask in (own, cross):
        curves = runs.R[:, :, mask].mean(axis=2)
        label = f"SGD, N = {N}" if mask is own else None
        right.errorbar(times + shift, curves.mean(0), curves.std(0), fmt="o", ms=3, color=color, lw=1, label=label)
left.set(xlabel=TIME, ylabel=r"$\epsilon_g$", ylim=(1e-4, 1), title="median and 68 % of 16 runs")
right.set(xlabel=TIME, ylabel="overlap with teachers", ylim=(-0.1, 1.45), title="mean and standard deviation")
left.legend()
right.legend(loc="upper left")
plt.show()
spread = {N: runs.R[:, 1].std(axis=0).mean() for N, runs in sgd.items()}  # at alpha = 20
print(f"fluctuations of R at alpha = 20: {spread[300]:.4f} (N = 300), {spread[1200]:.4f} (N = 1200)")

# %% [markdown]
# **How long is the plateau?** Random weights have overlaps of size $1/\sqrt N$, which have to grow to order one:
#
# $$ \frac{1}{\sqrt N}\, e^{\lambda\alpha} \sim 1 \quad\Rightarrow\quad
#    \alpha_{\rm escape} \simeq \frac{\ln N}{2\lambda} . $$
#
# The plateau grows only with the logarithm of the dimension; the slope is our eigenvalue. `stop` ends each integration
# at a given error.

# %%
dims = 10.0 ** np.array([3, 5, 7, 9, 11])
ends = np.array([
    [ov.solve(model, model.random_start(N=int(N), rng=seed), (0, 3000), rtol=1e-6, stop=5e-3).alpha[-1] for N in dims]
    for seed in range(3)
])  # fmt: skip
rate = np.interp(ETA, fine, rates)
slope = np.polyfit(np.log(dims[1:]), ends[:, 1:].mean(axis=0), 1)[0]
print(f"slope against ln N: {slope:.2f}; 1 / (2 lambda) = {1 / (2 * rate):.2f}")

fig, ax = plt.subplots(figsize=(6, 3.6))
ax.semilogx(dims, ends.T, "o", color="0.6")
ax.semilogx(dims, ends[:, -1].mean() + np.log(dims / dims[-1]) / (2 * rate), "C3", label=r"slope $1/(2\lambda)$")
ax.set(xlabel="dimension $N$ of the random start", ylabel=r"$\alpha$ at which $\epsilon_g = 0.005$")
ax.set_title(rf"K = M = 3, $\eta$ = {ETA}; three draws", fontsize="medium")
ax.legend()
plt.show()

# %% [markdown]
# ## Exercises
#
# 1. **More students than teachers.** Take $K = 4$, $M = 2$ in the first section. Which students find a teacher, and
#    what do the others do? Find the plateau height for general $K, M$ and compare it with
#    `ov.theory.plateau.plateau(np.eye(M), K=K, v=1.0, v_star=1.0)`. *Hint:* students $c \sum_m w^*_m$ again, now with
#    $Q = M c^2$; $\epsilon_g(c)$ has $K^2$, $M$ and $KM$ in place of $K^2$, $K$ and $K^2$.
# 2. **Noise.** Add label noise, `noise=0.3`. The error no longer vanishes; how does its limit depend on $\eta$, and
#    what does annealing $\eta$ achieve? *Hint:* `ov.fixed_point` from the end of a trajectory; continue from
#    `traj[-1]`, which contains its time, with `model.replace(eta=...)`.
# 3. **Another activation.** Give `on_plateau` an argument `activation` and repeat section 4 with `ov.relu`. How many
#    modes grow, and is the escape faster than that of erf at the same $\eta$? *Hint:* exactly equal ReLU students, as
#    in section 2, cannot be linearised (their closure depends on the angle between them); students that are merely
#    equivalent can.
# 4. **Neutral modes.** On the plateau of gradient flow $(K - 1)(K + 2)/2$ eigenvalues vanish. Which changes of $Q$ and
#    $R$ do they belong to, why do they not decay, and what becomes of them at finite $\eta$? *Hint:* `.dQ` and `.dR`
#    of `ov.linearise(...)` are the modes; think of $\delta_k$ orthogonal to all teachers, and along their sum.

# %% [markdown]
# ## Checks
#
# The claims of this notebook, as assertions. They hold for the parameters above; change these, and find out which
# assertions still hold.

# %%
assert traj.success and difference < 1e-12
for size in SIZES:
    state = plateaus[size].state
    assert plateaus[size].converged and np.allclose(state.Q, 1 / (2 * size - 1), rtol=1e-10)
    assert np.allclose(ov.closure(flows[size].model, state.Q, state.R, state.T).eps_g, height(size), rtol=1e-10)
    assert np.isclose(ov.theory.plateau.symmetric_plateau(size, v=1.0, v_star=1.0).eps_g, height(size), rtol=1e-12)
    assert spectra[size].unstable == (size - 1) ** 2 and np.isclose(spectra[size].rate, growth(size), rtol=1e-8)
assert np.isclose(curvature, growth(K), rtol=1e-3) and np.isclose(fitted, growth(3), rtol=0.01)
assert np.all(np.diff(heights) > 0) and heights[0] > height(3)  # the noise lifts the plateau
assert all(0.4 < ratio < 0.9 for ratio in best.values())  # the fastest escape is below eta_c
assert 1.5 < spread[300] / spread[1200] < 2.7  # 2 = sqrt(1200 / 300), within the error of 16 runs
assert np.isclose(slope, 1 / (2 * rate), rtol=0.03)
print("all checks passed")
