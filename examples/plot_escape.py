"""
The fastest escape lies well below the rate that breaks learning
================================================================

A soft committee machine (erf, K = M) stays on a plateau where all students are equivalent. The linearised flow
determines how it leaves. The noise of SGD keeps the students apart and weakens the symmetry breaking, so that the
escape is fastest at a finite learning rate. Saad and Solla (1995), Phys. Rev. E 52, 4225; Biehl, Riegler and Wöhler
(1996), J. Phys. A 29, 4769.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# The plateau is a fixed point
# ----------------------------
# Newton's method finds it from a guess with the same symmetry, and follows it from one learning rate to the next. Its
# eigenvalues are the rates of
#
# .. math:: \frac{d\,\delta y}{d\alpha} = J\,\delta y, \qquad \delta y \propto e^{\lambda\alpha}.
SIZES = [2, 3, 4]
SHOWN = {0.2: "indigo", 0.5: "teal", 1.0: "olive"}  # learning rates of the trajectories, K = 3
KICK = 1e-4  # their distance from the plateau at the start


def plateau(K, eta, guess=None):
    """The fixed point with equivalent students, Q_kk > Q_kj; identical students would stay identical."""
    model = ov.committee_machine(K, K, eta=eta)
    if guess is None:
        Q = np.full((K, K), 1 / (2 * K - 1)) + 0.02 * np.eye(K)
        guess = ov.State.from_overlaps(model, Q=Q, R=np.full((K, K), (K * (2 * K - 1)) ** -0.5), T=np.eye(K))
    point = ov.fixed_point(model, guess)
    assert point.converged, point.message
    return model, point.state


def spectra(K, etas):
    """Plateaus, followed from one learning rate to the next, and the real parts of their eigenvalues (n_eta, n)."""
    states, rates = [], []
    for eta in etas:
        model, state = plateau(K, eta, states[-1] if states else None)
        states.append(state)
        rates.append(ov.linearise(model, state).eigenvalues.real)
    return states, np.array(rates)


# %%
# The escape mode and the limit of stability
# ------------------------------------------
# :math:`(K-1)^2` modes share one growing rate. Another mode grows faster at large rates; the escape mode is followed
# through this crossing. ``ov.critical_eta`` gives the rate at which student = teacher becomes unstable.
def escape_mode(etas, rates):
    """The growing rate at small eta, followed through crossings with other modes."""
    mode = list(rates[:2, 0])
    for i in range(2, len(etas)):
        ahead = mode[-1] + (mode[-1] - mode[-2]) * (etas[i] - etas[i - 1]) / (etas[i - 1] - etas[i - 2])
        mode.append(rates[i, np.argmin(np.abs(rates[i] - ahead))])
    return np.array(mode)


def stability_limit(K):
    """Learning rate at which student = teacher becomes unstable."""
    model = ov.committee_machine(K, K, eta=0.5)
    return ov.critical_eta(model, ov.State.from_overlaps(model, Q=np.eye(K), R=np.eye(K), T=np.eye(K)))


# %%
# A trajectory from beside the plateau
# ------------------------------------
# R is perturbed by 1e-4, and its distance from the symmetric point is recorded.
def escape(model, state, rate):
    """Solution from a random point near the plateau: times, and the distance of R from the symmetric point."""
    kick = KICK * np.random.default_rng(1).standard_normal(state.R.shape)
    start = ov.State.from_overlaps(model, Q=state.Q, R=state.R + kick, T=state.T)
    traj = ov.solve(model, start, np.linspace(0, 14 / rate, 281), rtol=1e-10)
    asymmetric = traj.R - traj.R.mean(axis=1, keepdims=True)
    asymmetric -= asymmetric.mean(axis=2, keepdims=True)
    return traj.alpha, np.linalg.norm(asymmetric, axis=(1, 2))


# %%
# Spectrum, escape rates, trajectories
# ------------------------------------
# Left: the escape rate (red) among all others. Middle: it has a maximum between 0.4 and 0.9 of the critical rate.
# Right: trajectories agree with the linearised flow (dashed).
fig, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")

etas = np.concatenate([[0.02], np.arange(0.05, 1.51, 0.05)])
states, rates = spectra(3, etas)
left.axhline(0, color="0.8", linewidth=1, zorder=0)
left.plot(etas, rates / etas[:, None], color="0.55", linewidth=1.2)
left.plot(etas, rates[:, 0] / etas, color="C3", linewidth=2.5)
left.text(0.5, 0.0455, "escape (4 modes)", color="C3")
left.text(0.06, -0.043, "students' differences,\nkept up by the noise of SGD", color="0.4", fontsize="small")
left.set(title="spectrum of the plateau, K = M = 3", xlabel=r"learning rate $\eta$", ylim=(-0.05, 0.055))
left.set_ylabel(r"rates Re $\lambda\,/\,\eta$")

best, small = {}, {}
for i, K in enumerate(SIZES):
    limit = stability_limit(K)
    grid = np.concatenate([[0.02], np.linspace(0.05, limit, 40)])
    growth = escape_mode(grid, spectra(K, grid)[1])
    top = np.argmax(growth)
    best[K], small[K] = grid[top] / limit, growth[0] / grid[0]
    middle.plot(grid / limit, growth, color=f"C{i}", label=rf"K = M = {K}, $\eta_c = {limit:.2f}$")
    middle.plot(grid[top] / limit, growth[top], "o", color=f"C{i}")
middle.set(title="fastest escape", xlabel=r"$\eta / \eta_c$", ylabel=r"escape rate $\lambda$", ylim=(0, 0.105))
middle.legend(frameon=False)

fits = {}
for eta, color in SHOWN.items():
    model, state = plateau(3, eta, states[np.argmin(np.abs(etas - eta))])
    rate = ov.linearise(model, state).rate
    alpha, distance = escape(model, state, rate)
    straight = (distance > 3 * distance[0]) & (distance < 0.02)
    fits[eta] = rate, np.polyfit(alpha[straight], np.log(distance[straight]), 1)[0]
    middle_of = np.argmin(np.abs(np.log(distance / 3e-3)))
    predicted = distance[middle_of] * np.exp(rate * (alpha - alpha[middle_of]))
    right.plot(alpha, distance, color=color, linewidth=3, alpha=0.5, label=rf"$\eta = {eta}$")
    right.plot(alpha, predicted, "k--", linewidth=1, label=r"$e^{\lambda\alpha}$, linearised" if eta == 1.0 else None)
right.set(title="trajectories from near the plateau", xlabel=r"$\alpha$ = steps / $N$", yscale="log")
right.set(ylabel="distance of R from symmetric", ylim=(5e-5, 5), xlim=(0, 1300))
right.legend(frameon=False, loc="lower right")
fig.savefig("escape.png", dpi=150)

# %%
# The checks
# ----------
# At small rates the escape rate is
#
# .. math:: \frac{\lambda}{\eta} \to \frac{2K}{\pi \sqrt{2K - 1}\,(2K + 1)^{3/2}}, \qquad \eta \to 0.
for K in SIZES:
    limit = 2 * K / (np.pi * np.sqrt(2 * K - 1) * (2 * K + 1) ** 1.5)
    print(f"K = {K}: fastest escape at {best[K]:.2f} eta_c; rate/eta = {small[K]:.5f}, {limit:.5f} in the limit")
    assert 0.4 < best[K] < 0.9 and abs(small[K] / limit - 1) < 0.01
for eta, (rate, fitted) in fits.items():
    print(f"eta = {eta}: escape rate {rate:.6f}, fitted to the trajectory {fitted:.6f}")
    assert abs(fitted / rate - 1) < 0.01
