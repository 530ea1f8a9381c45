r"""
With fewer latents the final error is smaller
=============================================

What is the final error? Newton's method (``fixed_point``), started from the end of a trajectory, computes it without
long integrations, for D latents, N inputs, K students and two teachers. Inputs are :math:`\mathrm{sgn}(F c/\sqrt D)`.
With fewer latents the inputs determine the latents better, and the final error is smaller. Model of Goldt, Mezard,
Krzakala and Zdeborova (2020), arXiv:1909.11500, whose figures show the final error along D / N from simulations.
"""

import warnings

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov
from overlaps.manifold.weights import random_weights

# %%
# Ends of learning, and simulations of them
# -----------------------------------------
# ``linearise`` distinguishes final states from plateaus, to which Newton's method converges, too. SGD at N = 400 gives
# the error on fresh samples of its inputs, ``runs.test_error``, without a Gaussian assumption.
RATIOS = np.geomspace(0.05, 1.6, 6)
WIDTHS = 1, 2, 3
ETA = 0.2


def network(K, ratio, eta=ETA):
    return ov.hidden_manifold(K, 2, features="sign", ratio=ratio, nodes=8, eta=eta)


def final_error(K, ratio, eta=ETA):
    """eps_g where the trajectory of generic students ends, orthonormal teachers; whether it is a stable fixed point."""
    model = network(K, ratio, eta)
    alignment = 0.15 * min(ratio, 1.0) * np.random.default_rng(K).standard_normal((K, 2))
    start = model.limit_start(P=np.eye(K), T=np.eye(2), alignment=alignment)
    for until in 100, 1000:  # in units of 1 / eta: some ends are far
        start = ov.solve(model, start, [until / eta], rtol=1e-5)[-1]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # Newton's method did not converge: continue
            end = ov.fixed_point(model, start)
        stable = end.converged and ov.linearise(end.state).unstable == 0  # and no plateau
        if stable:
            break
    S = end.state
    return ov.closure(model, S.Q, S.R, S.T, S.v).eps_g, stable


def simulated(K, ratio, N=400, alpha=100):
    """Mean over two late records of the error on fresh samples."""
    model = network(K, ratio)
    rng = np.random.default_rng(1)
    W, W_star, F = random_weights(model, N=N, rng=rng)
    W_star = np.linalg.qr(W_star.T)[0].T * np.sqrt(W_star.shape[1])
    runs = ov.simulate(model, N=N, alpha=[alpha - 20, alpha], rng=rng, weights=(W, W_star, F), test=4096)
    return runs.mean("test_error").mean()


# %%
# Against latents and against students
# ------------------------------------
# Left: the final error against D / N; the part of the teachers' fields that is not linear in x, :math:`T - \sum_l
# \tau^l/s_l`, vanishes for :math:`D/N \to 0`. Crosses are SGD. A curve ends where no stable end was reached by
# :math:`\alpha = 1000/\eta`: several students on many latents take longer. Right: the same against K. If the inputs
# determine the latents, K = M students reach a smaller error than one. A third student adds noise of SGD, and less of
# it at a fourth of the learning rate (dashed).
curves = {K: np.array([final_error(K, ratio) for ratio in RATIOS]) for K in WIDTHS}
points = {(K, ratio): simulated(K, ratio) for K, ratio in ((1, 0.25), (1, 1.0), (2, 1.0))}
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for i, (K, curve) in enumerate(curves.items()):
    left.loglog(RATIOS, np.where(curve[:, 1], curve[:, 0], np.nan), f"C{i}.-", label=f"$K = {K}$")
for (K, ratio), error in points.items():
    left.plot(ratio, error, f"C{WIDTHS.index(K)}x", ms=9, mew=2)
left.plot([], [], "kx", ms=9, mew=2, label="SGD, $N = 400$, true error")
left.set(xlabel="$D/N$", ylabel=r"final $\epsilon_g$", title=rf"two teachers, $\eta = {ETA}$")
slow = {}
for i, ratio in enumerate((0.1, 0.25)):
    for eta, style in (ETA, "o-"), (ETA / 4, "s--"):
        slow[ratio, eta] = np.array([final_error(K, ratio, eta) for K in WIDTHS])
        label = f"$D/N = {ratio:g}$" if eta == ETA else None
        right.semilogy(WIDTHS, slow[ratio, eta][:, 0], f"C{i + 4}" + style, ms=4, label=label)
right.plot([], [], "ks--", ms=4, label=rf"$\eta = {ETA / 4:g}$")
right.set(xlabel="$K$", xticks=WIDTHS)
left.legend(frameon=False)
right.legend(frameon=False)
fig.savefig("manifold_final_error.png", dpi=150)

# %%
# The checks
# ----------
for name, found in (*curves.items(), *slow.items()):
    print(name, "final errors", found[:, 0].round(5), "stable", found[:, 1].astype(bool))
    assert found[:4, 1].all()
assert all(np.all(np.diff(curve[:, 0]) > 0) for curve in curves.values())  # fewer latents, better inputs
for at_ratio in 0.1, 0.25:
    one, two, three = slow[at_ratio, ETA][:, 0]
    assert two < 0.85 * one and three - two > 2 * np.diff(slow[at_ratio, ETA / 4][1:, 0])[0] > 0
for (K, ratio), error in points.items():
    end = final_error(K, ratio)[0]
    print(f"K = {K}, D / N = {ratio}: SGD {error:.4f}, fixed point {end:.4f}")
    assert abs(error / end - 1) < 0.1  # one set of weights at N = 400, and one of 4096 samples
