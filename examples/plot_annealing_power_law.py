r"""
Annealing on a power-law spectrum
=================================

A linear unit learns from noisy labels, on inputs with a power-law spectrum (beta = 1, 512 eigenvalues). Small
eigenvalues need many fast steps, and fast steps leave noise behind: a constant rate has to trade one for the other. The
memory of the noise falls as tau^(-1-chi), chi = beta / (1 + beta), in the time tau that the rate has passed, so that
the noise of early steps is forgotten: the rate that loses least at a given tau falls as

.. math:: \eta(\alpha) \propto (1 - \alpha/\alpha_f)^{1 + 2\beta}

and reaches the exponent of noiseless learning, beta / (1 + beta) = 1/2, where the best constant rate has
beta / (1 + 2 beta) = 1/3. Measured between horizons of 3 and 30, whose window of power laws is finite: 0.53 and 0.35.
On the right the error along the way to the longest horizon: the fast rate brings it down early, its noise holds it up,
and when the rate falls the error falls far below that of the best constant rate.

Derived for this library; exponents as in Bordelon and Mori (2026), arXiv:2602.04774, for the easy phase.
"""

import dataclasses

import numpy as np
from matplotlib import pyplot as plt
from scipy.optimize import minimize_scalar

import overlaps as ov

HORIZONS = np.array([3.0, 10.0, 30.0, 100.0])
MODEL = ov.committee_machine(
    1, 1, activation=ov.linear, eta=1.0, noise=1.0, spectrum=ov.power_law(beta=1.0, L=512)
)  # fmt: skip
P = MODEL.spectrum.p[:, None, None]
START = ov.State.from_blocks(MODEL, q=P, r=0 * P, t=P)  # m_l(0) = 2 p_l


def best_constant(horizon):
    """(eta, eps_g) of the best constant rate, by the closed form."""

    def error(log_eta):
        return ov.theory.linear.error(MODEL.spectrum, np.exp(log_eta), [horizon], noise=1.0)[0]

    found = minimize_scalar(error, bounds=np.log([1e-3, 1.5]), method="bounded", options={"xatol": 1e-6})
    return np.exp(found.x), found.fun


def annealed(horizon, peak=1.086, records=2):
    """Solution under the rate peak (1 - alpha / horizon)^3, a product of three straight lines."""
    line = ov.Schedule([0.0, horizon], [1.0, 0.0])
    model = dataclasses.replace(MODEL, eta=peak)
    times = np.linspace(0, horizon, records)
    return ov.solve(model, START, times, schedule=line * line * line, method="structured", rtol=1e-7, blocks=False)


def main():
    constant = np.array([best_constant(horizon) for horizon in HORIZONS])
    falling = np.array([annealed(horizon).eps_g[-1] for horizon in HORIZONS])
    fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    left.loglog(HORIZONS, constant[:, 1], "o-", label="best constant rate")
    left.loglog(HORIZONS, falling, "s-", label=r"$\eta \propto (1 - \alpha/\alpha_f)^3$")
    for curve, exponent in ((constant[:, 1], 1 / 3), (falling, 1 / 2)):
        left.loglog(HORIZONS, curve[0] * (HORIZONS / 3) ** -exponent, ":", color="0.6", zorder=0)
    left.set(xlabel=r"horizon $\alpha_f$", ylabel=r"$\epsilon_g$ at the horizon", title="dotted: exponents 1/3 and 1/2")
    whole = annealed(HORIZONS[-1], records=201)
    later = whole.alpha[1:]
    error = ov.theory.linear.error(MODEL.spectrum, constant[-1, 0], later, noise=1.0)
    right.loglog(later, error, label=rf"$\eta$ = {constant[-1, 0]:.3f}")
    right.loglog(later, whole.eps_g[1:], label=r"$\eta = 1.086\,(1 - \alpha/100)^3$")
    right.set(xlabel=r"learning time $\alpha$", ylabel=r"$\epsilon_g$", title="on the way to the longest horizon")
    for ax in (left, right):
        ax.legend(frameon=False)
        ax.grid(alpha=0.25)
    fig.savefig("annealing_power_law.png", dpi=150)
    return constant, falling


if __name__ == "__main__":
    constant, falling = main()
    for horizon, (eta, error), annealing in zip(HORIZONS, constant, falling, strict=True):
        print(f"alpha_f = {horizon:g}: constant {error:.7f} (eta = {eta:.4f}), annealed {annealing:.5f}")
    # an independent code found the first; the second is a Runge-Kutta integration of the m_l with 20000 equal steps
    assert np.allclose(constant[:, 1], [0.0646063, 0.0424700, 0.0289142, 0.0188797], rtol=1e-5)
    assert np.isclose(falling[0], 0.03734376, rtol=1e-5)
    slopes = [np.log(curve[0] / curve[2]) / np.log(10) for curve in (constant[:, 1], falling)]
    print(f"exponents between 3 and 30: {slopes[0]:.3f}, {slopes[1]:.3f}")
    assert abs(slopes[0] - 0.35) < 0.01 and abs(slopes[1] - 0.52) < 0.02
