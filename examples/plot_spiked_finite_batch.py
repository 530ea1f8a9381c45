r"""
Rows remember the samples of their step
=======================================

Spiked random features describe a network after a giant step by r, gamma and c. Its rows also remember the
:math:`n_0 = \alpha_0 d` samples of the step: few of them make the network worse than this model, many make it better.
The model is Cui et al. (2024), arXiv:2402.04980, (9) to (12) and (18) to (20); the covariance of the rows and the error
that follows from it are derived here (asymptotic, not proved, and without correlations that the third moment of
:math:`\sigma' - E\sigma'` makes between a row's norm and the samples).
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# What the rows remember
# ----------------------
# .. math:: w_i = r \hat v + \Sigma^{1/2} g_i / \sqrt d, \qquad
#           \Sigma = 1 + \frac{\kappa_0}{n_0} \sum_{\mu \le n_0} y_\mu^2\, x_\mu x_\mu^\top, \qquad
#           \kappa_0 = \frac{\tau^2 {\rm Var}[\sigma']}{\alpha_0}, \qquad g_i \sim N(0, 1)
#
# The model replaces :math:`\Sigma` by its mean eigenvalue c. Here tanh learns sin at width p = d, so that
# :math:`\tau = \tilde\eta`.
RATE, ALPHA, LAM = 3.0, 2.0, 0.1  # rate of the step; samples n/d and penalty of the readout
Z = np.linspace(-9, 9, 361)
P = np.exp(-(Z**2) / 2) / np.sum(np.exp(-(Z**2) / 2))  # Gaussian averages are P @ f(Z)
Y, S = np.sin(Z), 1 / np.cosh(Z) ** 2  # labels along the target, sigma'
H1, VAR = P @ S, P @ S**2 - (P @ S) ** 2
SLOPE, POWER = P @ (Y * Z), P @ Y**2  # h1* and h2*


def eigenvalues_of_rows(alpha0, d, rng):
    """Eigenvalues of the rows' bulk, largest first: a network after its step, rows with Sigma, the spiked model."""
    x, g = rng.standard_normal((round(alpha0 * d), d)), rng.standard_normal((d, d))
    start, y = g / np.linalg.norm(g, axis=1, keepdims=True), np.sin(x[:, 0])
    network = start + RATE / y.size * ((1 / np.cosh(start @ x.T) ** 2 - H1) * y) @ x
    kappa0 = RATE**2 * VAR / alpha0
    Sigma = np.eye(d) + kappa0 / y.size * (x.T * y**2) @ x
    with_samples = start @ np.linalg.cholesky(Sigma).T
    model = start * np.sqrt(1 + kappa0 * POWER)
    return [np.linalg.svd(rows, compute_uv=False) ** 2 for rows in (network, with_samples, model)]


# %%
# Their response to the data
# --------------------------
# .. math:: N = (1 + x\Sigma)^{-1}, \quad x = g \hat V_1, \qquad V_2 = g = \frac{{\rm tr} N/d}{\lambda + \hat V_2},
#           \quad V_1 = g\, {\rm tr}\, \Sigma N/d, \quad T = g\, \Sigma N
#
# T stands between the spike, the norms of the rows (one more feature) and the target orthogonal to the spike. Traces
# and elements of N are averages over one label, left out of the others, with the weight
# :math:`w(y) = 1/(1 + \kappa_0 x n y^2/\alpha_0)`, :math:`n = {\rm tr} N/d`.
def response(Vh, n, alpha0):
    A, k0, s = np.sqrt(SLOPE**2 + POWER / alpha0), RATE**2 * VAR / alpha0, S - H1
    g = n / (LAM + Vh[1])  # n = tr N / d; the iteration of least_objective solves for it
    x = Vh[0] * g
    w = P / (1 + k0 / alpha0 * x * n * Y**2)
    trace, a, e = n * (1 + k0 * (w @ Y**2)), k0 / alpha0 * n, w @ (Y * Z)
    theta = 1 + k0 * (w @ (Y * Z) ** 2)
    theta, less = theta / (1 + x * theta), a * (w @ (Y**3 * Z))
    vv = (a * (w @ Y**4) + trace * (w @ Y**2)) / alpha0 + less * (SLOPE + e) + theta * e**2
    vv, vt, gamma = vv / A**2, (less + theta * e) / A, SLOPE / A  # (1 - N)/x between v and theta
    rho = np.sqrt(1 - gamma**2)
    vz, zz = (vt - gamma * vv) / rho, (theta - 2 * gamma * vt + gamma**2 * vv) / rho**2
    h3 = P @ (s * Z**2)
    kap, Nvv, Nvz = 2 * RATE * A * h3, 1 - x * vv, -x * vz
    norm = kap**2 * (1 - x * Nvv) + 4 * RATE**2 * POWER / alpha0 * (P @ (s * Z) ** 2 - h3**2)
    norm += RATE**4 * (P @ Y**4 / alpha0**3 * (P @ s**4 - VAR**2) + 2 * (POWER * VAR / alpha0) ** 2)
    T = g * np.array([[vv, kap * Nvv, vz], [kap * Nvv, norm, kap * Nvz], [vz, kap * Nvz, zz]])
    T += Vh[0] * np.outer(T[0], T[0]) / Nvv  # without the penalty of V1 on the spike itself
    return np.array([g * trace, g]), T, 1 / (1 + x * (1 + k0 * (w @ Y**2)))


# %%
# The test error
# --------------
# The readout fits :math:`C(k) = m \mu_0 + \theta_1 k \mu_1 + \theta_2 E[\sigma'']/2` of the projection k on the spike.
# The test error is the derivative of the least objective by the weight of infinitely many more samples.
def least_objective(alpha0, extra):
    A = np.sqrt(SLOPE**2 + POWER / alpha0)
    r, c, gamma = RATE * H1 * A, 1 + RATE**2 * VAR * POWER / alpha0, SLOPE / A
    t = np.tanh(r * Z[:, None] + np.sqrt(c) * Z)
    mu0, mu1, half = t @ P, (1 - t**2) @ P, -(t * (1 - t**2)) @ P
    y = gamma * Z[:, None] + np.sqrt(1 - gamma**2) * Z
    h, h1, hh = np.sin(y) @ P, (np.sin(y) * Z) @ P, np.sin(y) ** 2 @ P
    squares = np.array([mu1**2, t**2 @ P - mu0**2 - c * mu1**2])
    V, n, change = np.ones(2), 1.0, 1.0
    while change > 1e-12:
        weight = P * (ALPHA / (1 + V @ squares) + extra)
        v, T, now = response(squares @ weight, n, alpha0)
        change = max(np.max(np.abs(v / V - 1)), abs(now / n - 1))
        V, n = v, (n + now) / 2
    f, across = np.array([mu0, Z * mu1, half]), weight @ (mu1 * h1)
    gram, data = (f * weight) @ f.T, f @ (weight * h)
    M = np.vstack([gram[:1], np.eye(3)[1:] + T[:2, :2] @ gram[1:]])
    fit = np.linalg.solve(M, [data[0], *(T[:2, :2] @ data[1:] + T[:2, 2] * across)])
    psi = T[2] @ [*(data[1:] - gram[1:] @ fit), across]
    return weight @ hh - fit @ data - psi * across


def test_error(alpha0, h=1e-3):
    return (least_objective(alpha0, h) - least_objective(alpha0, -h)) / (2 * h)


def spiked(alpha0):
    return ov.static.SpikedRandomFeatures.after_one_step(np.tanh, np.sin, eta_tilde=RATE, alpha0=alpha0, beta=1.0)


# %%
# Worse with few samples of the step, better with many
# ----------------------------------------------------
# Left: the network's rows have the spectrum of rows with covariance :math:`\Sigma`. Right: differences of error between
# networks and the model with their own spikes, on the same rows and data (points, with standard errors), theory
# (line), and its limit, which ``ov.static.large_batch_network`` solves exactly.
def compared(alpha0):
    """Mean and standard error of the relative change of the error, at finite d."""
    step = {"eta_tilde": RATE, "alpha0": alpha0, "beta": 1.0, "alpha": ALPHA, "lam": LAM}
    runs = ov.static.simulate_one_step(np.tanh, np.sin, **step, d=300, draws=16, rng=2, test=2000, paired=True)
    ratio = (runs.mse - runs.srf.mse) / runs.srf.mean()
    return ratio.mean(), ratio.std(ddof=1) / np.sqrt(len(runs))


alphas, points = np.geomspace(0.3, 100, 25), np.array([0.35, 0.7, 1.5, 4.0, 16.0])
changes = np.array([test_error(x) / spiked(x).solve(alpha=ALPHA, lam=LAM).mse - 1 for x in alphas])
networks = [ov.static.large_batch_network(spiked(np.inf)), spiked(np.inf)]
limit = np.divide(*[x.solve(alpha=ALPHA, lam=LAM).mse for x in networks]) - 1
mean, error = np.transpose([compared(x) for x in points])
spectra = eigenvalues_of_rows(0.5, 600, np.random.default_rng(1))

fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
rank = np.arange(1, 601) / 600
left.plot(rank, spectra[0], "C3", lw=6, alpha=0.4, label="network")
left.plot(rank, spectra[1], "k", lw=1.4, label=r"rows with covariance $\Sigma$")
left.plot(rank, spectra[2], "--", color="0.5", lw=2, label=r"spiked random features: $\Sigma \to c$")
left.set(xlim=(0, 1), yscale="log", ylim=(0.03, 30), xlabel="rank / d", ylabel="eigenvalues of the rows' bulk")
left.set_title(r"tanh after one step on $n_0 = d/2$ samples of sin", fontsize="medium")
right.axhline(0, color="0.5", ls="--", lw=2)
right.text(95, 0.4, "spiked random features", color="0.4", ha="right")
right.axhline(100 * limit, color="k", ls=":", lw=1.2, label=r"limit $\alpha_0 \to \infty$")
right.errorbar(points, 100 * mean, 100 * error, fmt="o", color="C3", ms=6, capsize=3, label="networks, d = 300")
right.plot(alphas, 100 * changes, "k", lw=1.6, label="rows that remember the samples")
right.set(xscale="log", xlabel=r"samples of the step, $\alpha_0 = n_0/d$", ylabel="change of the test error in %")
right.set_xticks([0.3, 1, 3, 10, 30, 100], ["0.3", "1", "3", "10", "30", "100"])
right.minorticks_off()
right.set_title(r"$\tilde\eta = 3$, $\beta = 1$; readout: $\alpha = 2$, $\lambda = 0.1$", fontsize="medium")
for ax in (left, right):
    ax.legend(frameon=False)
fig.savefig("spiked_finite_batch.png", dpi=150)

# %%
# The checks
# ----------
theory = np.interp(np.log(points), np.log(alphas), changes)
print(f"changes in %: theory {(100 * theory).round(2)}, limit {100 * limit:.2f}")
print(f"networks {(100 * mean).round(2)} +- {(100 * error).round(2)}")
# terms of order 1/d: at alpha0 = 1/2 (theory 9.7 %) draws at d = 200, 400, 800 give 7.7(7), 9.6(6), 10.3(8) %
assert np.all(np.abs(mean - theory) < 4 * error + 0.15 * np.abs(theory))
assert changes[0] > 0.1 and mean[0] > 5 * error[0] and changes[-1] < 0 and mean[-1] < -5 * error[-1]
assert abs(test_error(1e6) / networks[1].solve(alpha=ALPHA, lam=LAM).mse - 1 - limit) < 1e-4
network, with_samples, model = np.log([x[:540] for x in spectra])  # the smallest tenth differs from draw to draw
assert np.max(np.abs(network - with_samples)) < 0.1 < np.max(np.abs(network - model))
Vh, n = np.array([0.8, 0.2]), 1.0
for _ in range(60):
    V, _, now = response(Vh, n, alpha0=0.5)
    n = (n + now) / 2
resolvent = 1 / (LAM + Vh[1] + Vh[0] * spectra[0])
assert np.allclose(V, [np.mean(spectra[0] * resolvent), np.mean(resolvent)], rtol=0.02)  # rows at d = 600
