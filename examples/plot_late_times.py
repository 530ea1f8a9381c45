r"""
Late times: power laws of the error
===================================

Erf networks that have found their teachers, K = M = 2. In linear order the block overlaps (x_l, y_l) of w - w* decay as
two families of exponentials, one for what the students share and a slower one for their differences, so that

.. math:: \epsilon_1 = \sum_l s_l \Big[ \mu_u u_l\, e^{-a(2+(M-1)\sqrt3)s_l\alpha}
          + \mu_d d_l\, e^{-a(2-\sqrt3)s_l\alpha} \Big] \sim \alpha^{-\beta/(1+\beta)}.

Left: the error (lines), epsilon_1 from its value at alpha = 1000 (dashed), and its true leading order epsilon_2 (dots),
which has squares of R - T as well. Middle: their ratios to the error; epsilon_1 is the better, the more eigenvalues
there are. Right: local exponents with L = 512. The full equations (colours, from small random students that leave the
plateau near alpha = 5) reach the power law beta/(1 + beta) (dotted) and leave it between the two families, where the
closed form (black) explains a shoulder of slope -1.2.

Worschech and Rosenow (2024), arXiv:2410.09005, Figs. 6 and 20 (eta = 0.25, sigma_J = 0.01). ``--full`` runs its
K = M = 40, L = N = 512 as well.
"""

import sys
from time import perf_counter

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov
from overlaps.theory import late_time

ETA = 0.25
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


def wide():
    """The paper's width, K = M = 40, eta = 0.01, L = N = 512, to alpha = 20000: 330 evaluations at beta = 1."""
    alpha = np.r_[0, np.geomspace(1, 2e4, 60)]
    fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    for beta in (0.5, 1.0, 1.5):
        spectrum = ov.power_law(beta=beta, L=512)
        model = ov.committee_machine(40, 40, eta=0.01, normalised=True, spectrum=spectrum, gradient_flow=True)
        began = perf_counter()
        start = model.random_start(N=512, rng=1, student_scale=1e-6)
        traj = ov.solve(model, start, alpha, method="exponential", rtol=1e-3, blocks=False)
        print(f"K = M = 40, beta = {beta:g}: alpha = 20000 in {perf_counter() - began:.0f} s, {traj.nfev} evaluations")
        ax.plot(traj.alpha[1:], traj.eps_g[1:], label=rf"$\beta$ = {beta:g}")
    ax.set(xscale="log", yscale="log", xlabel=r"$\alpha$", ylabel=r"$\epsilon_g$", title="K = M = 40, L = N = 512")
    ax.legend(frameon=False)
    fig.savefig("late_times_wide.png", dpi=150)


def main():
    fig, (left, middle, right) = plt.subplots(1, 3, figsize=(13.5, 4.3), layout="constrained")
    results = draw_errors(left, middle), draw_slopes(right)
    fig.savefig("late_times.png", dpi=150)
    return results


if __name__ == "__main__":
    ratios, slopes = main()
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
    alpha, full, closed = slopes[1.0]
    shoulder = (alpha > 3e3) & (alpha < 3e4)
    print(f"shoulder at beta = 1: {full[shoulder].min():.3f}, closed form {closed[shoulder].min():.3f}")
    assert -1.35 < full[shoulder].min() < -1.15
    for M in (2, 40):
        for beta in (1.0, 1.5):
            spectrum = ov.power_law(beta=beta, L=10**6)
            _, slow = late_time.windows(spectrum, M, eta=ETA)
            slope = late_time.local_slope(300 * slow.start, spectrum, M, eta=ETA)
            print(
                f"closed form, M = {M}, L = 10^6, beta = {beta:g}: {slope:.4f}, theory {-late_time.exponent(beta):.3f}"
            )
            assert abs(slope + late_time.exponent(beta)) < 2e-3
    if "--full" in sys.argv:
        wide()
