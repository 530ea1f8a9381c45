r"""
With divided tolerances errors do not add up over eigenvalues
=============================================================

The error of a linear student is a sum over the eigenvalues of the inputs, :math:`\frac12 \sum_l s_l m_l`, and so is the
error of its numerical integration. With one absolute tolerance for all overlaps the L errors add up if the spectrum is
flat. If the tolerance is divided among the eigenvalues, each block contributes the same fraction of :math:`\epsilon_g`,
and the error does not depend on L. The structured BDF divides it in this way for linear and quadratic networks.
"""

from unittest import mock

import numpy as np
from matplotlib import pyplot as plt
from scipy.optimize import brentq

import overlaps as ov
from overlaps.flow.system import System
from overlaps.theory import linear

# %%
# Both against the exact solution
# -------------------------------
# The fraction is :math:`p_l \max(1, \langle s\rangle/s_l)` for :math:`q^l` and :math:`s_l` times this for :math:`r^l`.
# The reference is a sum of exponentials.
ETA = 0.5
BETAS = {0.1: "C0", 0.5: "C2", 1.0: "C1", 2.0: "C3"}
SIZES = 16, 64, 256, 1024, 4096
LEVELS = 10.0 ** -np.arange(1, 8.6, 0.5)
SIX, EIGHT = 10, 14  # where eps_g is 1e-6 and 1e-8


def run(beta, L):
    """(levels, solution with one tolerance, with divided ones), at the times when the exact error is at a level."""
    spectrum = ov.power_law(beta=beta, L=L)
    mu, c = linear.modes(spectrum, ETA)
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=ETA, spectrum=spectrum)
    zero, t = np.zeros((L, 1, 1)), spectrum.p[:, None, None]
    start = ov.State.from_blocks(model, q=zero, r=zero, t=t)

    def exact(ln_alpha):
        return 0.5 * c @ np.exp(-2 * ETA * mu * np.exp(ln_alpha))

    times = [brentq(lambda x, level=level: exact(x) - level, -15, 40, rtol=1e-14) for level in LEVELS]
    errors = np.array([exact(x) for x in times])
    with mock.patch.object(System, "polynomial", False):  # one tolerance, as for erf and relu
        one = ov.solve(model, start, np.exp(times), method="structured")
    return errors, one, ov.solve(model, start, np.exp(times), method="structured")


results = {(beta, L): run(beta, L) for beta in BETAS for L in SIZES}

# %%
# One tolerance and divided tolerances
# ------------------------------------
# Left: relative error along one run, with one tolerance (dashed) and with divided tolerances (lines), and ``eps_floor``
# of the latter (dotted). Right: at :math:`\epsilon_g = 10^{-6}` against L.
fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained")
for beta, colour in BETAS.items():
    exact, one, shares = results[beta, SIZES[-1]]
    left.loglog(exact, np.abs(one.eps_g / exact - 1), "--", color=colour)
    left.loglog(exact, np.abs(shares.eps_g / exact - 1), color=colour, label=rf"$\beta$ = {beta:g}")
    left.loglog(exact, shares.eps_floor / exact, ":", color=colour)
    at_six = [[abs(traj.eps_g[SIX] / exact[SIX] - 1) for exact, *both in (results[beta, L],) for traj in both]
              for L in SIZES]  # fmt: skip
    right.loglog(SIZES, [x for x, _ in at_six], "o--", mfc="none", color=colour)
    right.loglog(SIZES, [x for _, x in at_six], "o-", color=colour, label=rf"$\beta$ = {beta:g}")
left.axhline(1e-8, color="0.7", lw=1, zorder=0)
left.set(xlabel=r"$\epsilon_g$", ylabel=r"relative error of $\epsilon_g$", title=f"L = {SIZES[-1]}, rtol = 1e-8")
left.invert_xaxis()
right.set(xlabel="number of eigenvalues L", title=r"at $\epsilon_g = 10^{-6}$: one tolerance (open), shares")
for ax in (left, right):
    ax.legend(frameon=False)
    ax.grid(alpha=0.25)
fig.savefig("linear_tolerances.png", dpi=150)

# %%
# The checks
# ----------
# Spectra with beta of 0.1 and 0.5 are the flat ones, whose errors add up.
print("  L     beta   error at 1e-6: one, shares    at 1e-8: one, shares     evaluations: one, shares")
for (beta, L), (exact, one, shares) in results.items():
    before, after = (np.abs(traj.eps_g / exact - 1) for traj in (one, shares))
    print(f"{L:5d}   {beta:4g}   {before[SIX]:.1e}, {after[SIX]:.1e}             {before[EIGHT]:.1e}, "
          f"{after[EIGHT]:.1e}         {one.nfev}, {shares.nfev}")  # fmt: skip
    assert np.all(after[: SIX + 1] < 6e-8) and after[EIGHT] * 1e-8 < 2e-14
    assert shares.nfev < 1.5 * one.nfev
    assert np.all(shares.eps_floor > 0.7 * after * exact)
for beta in (0.1, 0.5):
    errors = {L: np.abs(results[beta, L][1].eps_g[SIX] / results[beta, L][0][SIX] - 1) for L in (64, 4096)}
    assert errors[4096] > 1.5 * errors[64]
    exact, one, shares = results[beta, 4096]
    assert abs(one.eps_g[SIX] - exact[SIX]) > 10 * abs(shares.eps_g[SIX] - exact[SIX])
