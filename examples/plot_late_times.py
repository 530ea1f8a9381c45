r"""
Late errors fall as two families of exponentials
================================================

Erf networks that have found their teachers, K = M = 2. In linear order the block overlaps :math:`(x_l, y_l)` of w - w*
decay as two families of exponentials, one for the common deviation of the students and a slower one for their
differences. Their sum is the power law :math:`\alpha^{-\beta/(1+\beta)}`. Worschech and Rosenow (2024),
arXiv:2410.09005, Figs. 6 and 20 (eta = 0.25, sigma_J = 0.01; 40 students: eta = 0.01, sigma_J = 1e-6, with SGD to alpha
= 50000).
"""

import sys
from inspect import currentframe
from pathlib import Path
from time import process_time

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov
from overlaps.theory import late_time

# %%
# First and second order of the error
# -----------------------------------
# The first order, from its value at :math:`\alpha = 1000`, is
#
# .. math:: \epsilon_1 = \sum_l s_l \Big[ \mu_u u_l\, e^{-a(2+(M-1)\sqrt3)s_l\alpha}
#           + \mu_d d_l\, e^{-a(2-\sqrt3)s_l\alpha} \Big];
#
# the true leading order :math:`\epsilon_2` also contains squares of R - T. With more eigenvalues :math:`\epsilon_1` is
# more accurate.
ETA = 0.25
BETAS = 0.5, 0.75, 1.0, 1.25, 1.5
STORED = Path(currentframe().f_code.co_filename).parent / "data" / "late_times_wide.npz"
COLORS = {3: "teal", 9: "firebrick", 0.75: "teal", 1.0: "darkorange", 1.5: "firebrick"}


def learn(beta, L, N, alpha, **options):
    spectrum = ov.power_law(beta=beta, L=L)
    model = ov.committee_machine(2, 2, eta=ETA, normalised=True, spectrum=spectrum, gradient_flow=True)
    start = model.random_start(N=N, rng=1, student_scale=0.01, teacher="ideal")
    return ov.solve(model, start, alpha, **options)


def draw_errors(left, middle):
    """Error, its first and second order for L = 3, 9; ratios to the error (eps_1, eps_2) at alpha = 5000."""
    ratios = {}
    for L in (3, 9):
        traj = learn(1.0, L, 9000, np.linspace(100, 5000, 99), rtol=1e-10)
        late = traj.alpha >= 1000
        spectrum, first = traj.model.spectrum, np.argmax(late)
        x, y = late_time.differences(traj[int(first)])
        closed = late_time.first_order(traj.alpha[late] - traj.alpha[first], spectrum, 2, eta=ETA, x=x, y=y)
        order = np.argmax(traj.R[-1], axis=0)  # students in the order of their teachers
        second = late_time.second_order(traj.Q[:, order][:, :, order], traj.R[:, order], traj.T)[late]
        now = [late_time.first_order(0.0, spectrum, 2, eta=ETA, x=x, y=y)
               for x, y in (late_time.differences(traj[int(i)]) for i in np.flatnonzero(late))]  # fmt: skip
        color, eps, alpha = COLORS[L], traj.eps_g[late], traj.alpha[late]
        left.plot(traj.alpha, traj.eps_g, color=color, lw=2, label=rf"$\epsilon_g$, L = {L}")
        left.plot(alpha, closed, "--", color="k", lw=1.2, label=r"$\epsilon_1$, closed form" if L == 9 else None)
        left.plot(alpha[::6], second[::6], "o", color=color, ms=4, label=rf"$\epsilon_2$, L = {L}")
        middle.plot(alpha, np.array(now) / eps, "--", color=color, label=rf"$\epsilon_1 / \epsilon_g$, L = {L}")
        middle.plot(alpha, second / eps, "-", color=color, label=rf"$\epsilon_2 / \epsilon_g$, L = {L}")
        ratios[L] = now[-1] / eps[-1], second[-1] / eps[-1]
    left.set(yscale="log", xlabel=r"$\alpha$", ylabel="error", title=r"$\beta$ = 1", ylim=(1e-9, 3e-2))
    left.legend(frameon=False, fontsize="small")
    middle.axhline(1, color="0.7", lw=1, zorder=0)
    middle.set(xlabel=r"$\alpha$", ylabel="in units of the error", ylim=(0.95, 1.5), title="two orders")
    middle.legend(frameon=False, fontsize="small")
    return ratios


# %%
# Local exponents with 512 eigenvalues
# ------------------------------------
# The full equations, from small random students that leave the plateau near :math:`\alpha = 5`, reach the power law and
# leave it between the two families, where the closed form explains a shoulder of slope -1.2.
def draw_slopes(ax):
    """Local exponents at L = 512, of the full equations and of the closed form; {beta: (alpha, full, closed)}."""
    slopes, alpha = {}, np.geomspace(1, 1e5, 101)
    for beta in (0.75, 1.0, 1.5):
        traj = learn(beta, 512, 8192, alpha, method="structured", rtol=1e-7)
        full = np.gradient(np.log(traj.eps_g), np.log(alpha))
        closed = late_time.local_slope(alpha, traj.model.spectrum, 2, eta=ETA)
        ax.plot(alpha, full, color=COLORS[beta], lw=2, label=rf"$\beta$ = {beta:g}")
        ax.plot(alpha, closed, "k--", lw=1, label="closed form" if beta == 1.5 else None)
        ax.axhline(-late_time.exponent(beta), color=COLORS[beta], ls=":", lw=1.2)
        slopes[beta] = alpha, full, closed
    ax.set(xscale="log", xlabel=r"$\alpha$", ylabel=r"$d\ln\epsilon_g / d\ln\alpha$", ylim=(-2, -0.3), xlim=(10, 1e5))
    ax.set_title("local exponents, L = 512")
    ax.legend(frameon=False, loc="lower left")
    return slopes


# %%
# Forty students: the flow of the weights
# ---------------------------------------
# K = M = 40 students of random teachers at L = N = 512, in gradient flow from one draw, to four times the paper's last
# time. Each block contains a single eigenvector, so that its overlaps are products of weights. The flow of the 40 x 512
# weights, :math:`dw_l/d\alpha = s_l (A w_l + B w^*_l)`, is therefore equivalent to the flow of the overlaps, at 2 % of
# the cost. Steps are exponential midpoint steps, which are exact if the closure does not change.
class Weights:
    """Gradient flow of erf students with one eigenvector per eigenvalue, closure fixed at W (K, N): linear in W."""

    def __init__(self, W, W_star, s, eta):
        self.W, self.W_star, self.s, self.eta = W, W_star, s, eta
        N, v, v_star = len(s), np.full(len(W), len(W) ** -0.5), np.full(len(W_star), len(W_star) ** -0.5)
        self.Q, R, T = (W * s) @ W.T / N, (W * s) @ W_star.T / N, (W_star * s) @ W_star.T / N
        q, t = 1 + np.diag(self.Q), 1 + np.diag(T)
        X, Y, c = (np.outer(q, q) - self.Q**2) ** -0.5, (np.outer(q, t) - R**2) ** -0.5, 2 * eta / np.pi
        self.A, self.B = -c * np.outer(v, v) * X, c * np.outer(v, v_star) * Y
        self.A[np.diag_indices_from(self.A)] += c * v / q * ((self.Q * X) @ v - (R * Y) @ v_star)
        angles = (np.arcsin(G / np.sqrt(np.outer(x, y))) for G, x, y in ((self.Q, q, q), (R, q, t), (T, t, t)))
        QQ, QT, TT = angles
        self.eps_g = (v @ QQ @ v - 2 * v @ QT @ v_star + v_star @ TT @ v_star) / np.pi

    def advance(self, W, h):
        """W after a time h."""
        if not hasattr(self, "frame"):
            self.rates, self.frame = np.linalg.eigh(self.A)
            self.drive = (self.frame.T @ self.B) @ self.W_star * self.s
        z = h * np.outer(self.rates, self.s)
        phi = np.where(np.abs(z) > 1e-12, np.expm1(z) / np.where(z == 0, 1, z), 1.0)
        return self.frame @ (np.exp(z) * (self.frame.T @ W) + h * phi * self.drive)

    def at(self, W):
        """The same with other weights."""
        return Weights(W, self.W_star, self.s, self.eta)


def follow(flow, alpha, rtol):
    """Errors at alpha, and the number of closures; half of each step is repeated with closures at middle and end."""
    t, h, errors, count = alpha[0], 1.0, [flow.eps_g], 1
    for end in alpha[1:]:
        while t < end:
            step = min(h, end - t)
            half = flow.advance(flow.W, step / 2)
            middle = flow.at(half)
            new = flow.at(middle.advance(flow.W, step))
            count, error = count + 2, 0.0
            for other in (flow.at(frozen.advance(half, step / 2)) for frozen in (middle, new)):
                of_eps_g = abs(other.eps_g - new.eps_g) / (rtol * new.eps_g)
                error = max(error, of_eps_g, np.abs(other.Q - new.Q).max() / (0.1 * rtol * new.Q.max()))
            if error <= 1:
                t, flow = t + step, new
            if step == h or error > 1:
                h = step * min(max(0.9 / np.sqrt(max(error, 1e-9)), 0.2), 4.0)
        errors.append(flow.eps_g)
    return np.array(errors), count


def weights(K, N, beta, eta, scale):
    """A spectrum, random weights of K students and K teachers, and their flow."""
    spectrum, rng = ov.power_law(beta=beta, L=N), np.random.default_rng(1)
    W, W_star = scale * rng.standard_normal((K, N)), rng.standard_normal((K, N))
    return spectrum, Weights(W, W_star, spectrum.s, eta)


def agreement():
    """Largest relative difference of eps_g between the flow of the weights and that of the overlaps, K = 3, N = 24."""
    spectrum, flow = weights(3, 24, 1.0, 0.1, 1e-2)
    model = ov.committee_machine(3, 3, eta=0.1, normalised=True, spectrum=spectrum, gradient_flow=True)
    start = ov.State.from_weights(model, W=flow.W, W_star=flow.W_star)
    traj = ov.solve(model, start, np.r_[0, np.geomspace(1, 3000, 13)])
    return np.max(np.abs(follow(flow, traj.alpha, 1e-3)[0] / traj.eps_g - 1))


# %%
# Stored curves of forty students
# -------------------------------
# ``python examples/plot_late_times.py --full`` makes them again. The response of the closure to the fastest overlaps
# limits late steps to 46, so that the cost is proportional to the time.
def compute_wide():
    """K = M = 40, L = N = 512 to alpha = 2e5."""
    alpha, found = np.r_[0, np.geomspace(1, 2e5, 86)], []
    for beta in BETAS:
        began = process_time()
        errors, count = follow(weights(40, 512, beta, 0.01, 1e-6)[1], alpha, 1e-2)
        print(f"K = M = 40, beta = {beta:g}: {count} closures, {process_time() - began:.0f} s", flush=True)
        found.append(errors)
    np.savez(STORED, command="python examples/plot_late_times.py --full", beta=BETAS, alpha=alpha, eps_g=found)


def draw_wide(ax):
    """Stored errors of 40 students; {beta: exponent in the last decade}."""
    stored, found = np.load(STORED), {}
    alpha, late = stored["alpha"], stored["alpha"] > 1.9e4
    for beta, eps in zip(stored["beta"], stored["eps_g"], strict=True):
        (line,) = ax.loglog(alpha[1:], eps[1:], lw=1.5, label=rf"$\beta$ = {beta:g}")
        power = (alpha[late] / alpha[-1]) ** -late_time.exponent(beta)
        ax.loglog(alpha[late], eps[-1] * power, ":", color=line.get_color())
        found[float(beta)] = -np.polyfit(np.log(alpha[late]), np.log(eps[late]), 1)[0]
    ax.set(xlabel=r"$\alpha$", ylabel=r"$\epsilon_g$", title="K = M = 40, L = N = 512, random teachers")
    ax.legend(frameon=False)
    return found


if "--full" in sys.argv:
    compute_wide()

# %%
# Two orders, a shoulder, forty students
# --------------------------------------
# Top: the error (lines), :math:`\epsilon_1` (dashed) and :math:`\epsilon_2` (dots), and their ratios to the error.
# Bottom left: local exponents, closed form (black), power laws (dotted). Bottom right: 40 students, with power laws
# through their ends (dotted).
fig, axes = plt.subplots(2, 2, figsize=(10.5, 8), layout="constrained")
ratios, slopes, wide = draw_errors(*axes[0]), draw_slopes(axes[1, 0]), draw_wide(axes[1, 1])
fig.savefig("late_times.png", dpi=150)

# %%
# The checks
# ----------
# There is one draw of 40 students: teachers are neither orthonormal nor of equal norm, and the last students specialise
# late.
for L, (first, second) in ratios.items():
    print(f"L = {L}: eps_1/eps_g = {first:.4f}, eps_2/eps_g = {second:.5f} at alpha = 5000")
assert abs(ratios[3][0] - 1.12) < 0.01 and abs(ratios[9][0] - 1.05) < 0.02
assert abs(ratios[3][1] - 1) < 4e-4 and abs(ratios[9][1] - 1) < 3e-3
for beta, low, high, bounds in ((1.5, 40, 1300, (-0.66, -0.58)), (1.0, 40, 160, (-0.62, -0.53))):
    alpha, full, closed = slopes[beta]
    window = (alpha >= low) & (alpha <= high)
    found = f"{full[window].min():.3f} to {full[window].max():.3f}"
    print(f"beta = {beta:g}: exponent {found} for alpha = {low}..{high}, theory {-late_time.exponent(beta):.3f}")
    assert bounds[0] < full[window].min() and full[window].max() < bounds[1]
    later = (alpha > 100) & (alpha < 3e4)
    assert np.max(np.abs(full - closed)[later]) < 0.01
distance = agreement()
print(f"flow of the weights against that of the overlaps: {distance:.1e}")
assert distance < 3e-3  # steps with a tolerance of 1e-3, and a plateau
for beta, exponent in wide.items():
    print(f"K = M = 40, beta = {beta:g}: exponent {exponent:.3f} in the last decade, theory "
          f"{late_time.exponent(beta):.3f}")  # fmt: skip
    assert abs(exponent - late_time.exponent(beta)) < 0.08
assert sorted(wide.values()) == list(wide.values())
alpha, full, closed = slopes[1.0]
shoulder = (alpha > 3e3) & (alpha < 3e4)
print(f"shoulder at beta = 1: {full[shoulder].min():.3f}, closed form {closed[shoulder].min():.3f}")
assert -1.35 < full[shoulder].min() < -1.15
for M in (2, 40):
    for beta in (1.0, 1.5):
        spectrum = ov.power_law(beta=beta, L=10**6)
        _, slow = late_time.windows(spectrum, M, eta=ETA)
        slope = late_time.local_slope(300 * slow.start, spectrum, M, eta=ETA)
        print(f"closed form, M = {M}, L = 10^6, beta = {beta:g}: {slope:.4f}, theory {-late_time.exponent(beta):.3f}")
        assert abs(slope + late_time.exponent(beta)) < 2e-3
