"""
Features solve XOR, lazy weights do not
=======================================

Four clusters on a cross: those on one axis have label 1, those on the other -1. Four relu units learn the task, while
the units of the same network with six times larger first-layer weights and a frozen second layer hardly rotate. A
linear unit has a classification error of one half. The setting is that of Refinetti, Goldt, Krzakala and Zdeborova
(2021), arXiv:2102.11742.
"""

import numpy as np
from matplotlib import pyplot as plt
from scipy.stats import norm

import overlaps as ov

# %%
# Three students of the four clusters
# -----------------------------------
# In the equations of clusters each class mean is a further static row. The lazy network starts from the overlaps of the
# other one, scaled.
LENGTH, LARGE = 2.5, 6.0  # distance of the class means; scale of lazy weights relative to the others
PAIR = np.array([[1.0, -1.0], [-1.0, 1.0]])
BAYES = 2 * norm.cdf(LENGTH / np.sqrt(2)) * norm.cdf(-LENGTH / np.sqrt(2))
ALPHA = np.array([0, 0.25, 0.5, 1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12.5, 15, 17.5, 20])


def network(K, v, **options):
    """A student of the four clusters."""
    gram = LENGTH**2 * np.kron(np.eye(2), PAIR)[None]
    return ov.gaussian_mixture(K, gram=gram, weights=[0.25] * 4, labels=[1, 1, -1, -1], v=v, eta=0.3, **options)


def starts():
    """(model, start) of the network that learns features, of the lazy one, and of the linear classifier."""
    rich = network(4, [0.5, 0.4, -0.5, -0.6], activation=ov.relu, eta_v=0.2)
    lazy = rich.replace(eta_v=0.0)
    Q, m = 0.4 * np.eye(4) + 0.1, np.array([[0.8, 0.1], [-0.6, 0.2], [0.1, 0.7], [0.2, -0.9]])
    m = m @ np.kron(np.eye(2), [1, -1])
    line = network(1, [1.0], activation=ov.linear)
    return {
        "relu, K = 4": (rich, ov.State.from_overlaps(rich, Q=Q, m=m)),
        "lazy": (lazy, ov.State.from_overlaps(lazy, Q=LARGE**2 * Q, m=LARGE * m)),
        "linear": (line, ov.State.from_overlaps(line, Q=Q[:1, :1], m=m[:1])),
    }


# %%
# The best half-space
# -------------------
# A half-space with a bias, which these networks do not have, misclassifies a third of the inputs.
def best_half_space():
    """Least error of the classifiers sign(n x - b), over directions n in the plane of the means and b."""
    angle, b = np.meshgrid(np.linspace(0, np.pi / 2, 181), np.linspace(0, 4, 401), indexing="ij")
    along, across = LENGTH * np.cos(angle), LENGTH * np.sin(angle)
    right = norm.cdf(along - b) + norm.cdf(-along - b) + norm.cdf(b - across) + norm.cdf(b + across)
    return 1 - np.max(right) / 4


# %%
# Learned features fall below every half-space
# --------------------------------------------
# Left: the errors; dots are means of four runs of SGD at N = 1000. Right: classification errors, the best half-space
# (dotted) and the Bayes error (dashed), the lower bound of all networks.
found = {name: ov.solve(*setting, ALPHA) for name, setting in starts().items()}
model, start = starts()["relu, K = 4"]
runs = ov.simulate(model, N=1000, alpha=[0, 1, 2, 5, 10, 20], rng=1, runs=4, start=start)

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for i, (name, traj) in enumerate(found.items()):
    left.plot(ALPHA, traj.eps_g, color=f"C{i}", label=name)
    right.plot(ALPHA, traj.classification_error(), color=f"C{i}", label=name)
left.plot(runs.alpha, runs.mean("eps_g"), "o", color="C0", ms=4)
right.plot(runs.alpha, runs.classification_error().mean(axis=0), "o", color="C0", ms=4)
right.axhline(best_half_space(), color="0.4", ls=":", lw=1, label="best half-space")
right.axhline(BAYES, color="0.4", ls="--", lw=1, label="Bayes")
left.set(xlabel=r"learning time $\alpha$", ylabel=r"$\epsilon_g$", yscale="log")
right.set(xlabel=r"learning time $\alpha$", ylabel="classification error", ylim=(0, 0.55))
for ax in (left, right):
    ax.grid(alpha=0.25)
right.legend(frameon=False, ncols=2, loc="center right", bbox_to_anchor=(1.0, 0.77))
fig.savefig("xor_mixture.png", dpi=150)

# %%
# The checks
# ----------
# Golden values of the errors, and their order: Bayes error, learned features, half-space, lazy weights.
rich = found["relu, K = 4"]
wrong = {name: traj.classification_error() for name, traj in found.items()}
for name, errors in wrong.items():
    print(f"{name}: eps_g {found[name].eps_g[-1]:.4f}, classification error {errors[-1]:.4f}; Bayes {BAYES:.4f}")
    assert np.all(errors > BAYES - 3 * found[name].classification_error_se())
at = np.searchsorted(ALPHA, [0, 1, 5, 20])
golden = [0.4573183167, 0.4126065444, 0.2923885740, 0.1856982894]
assert np.allclose(rich.eps_g[at], golden, rtol=0, atol=1e-7)
assert np.allclose(wrong["relu, K = 4"][at], [0.353, 0.312, 0.191, 0.098], rtol=0, atol=1.5e-3)
assert abs(wrong["linear"][-1] - 0.5) < 0.01 and found["linear"].eps_g[-1] > 0.5 - 1e-6
half_space = best_half_space()
print(f"best half-space {half_space:.4f}")
assert BAYES < wrong["relu, K = 4"][-1] < 0.5 * half_space
assert wrong["lazy"][-1] > 1.5 * wrong["relu, K = 4"][-1]
gap = abs(runs.mean("eps_g")[-1] - rich.eps_g[-1])
print(f"SGD at N = 1000: {runs.mean('eps_g')[-1]:.4f} +- {runs.standard_error('eps_g')[-1]:.4f}")
assert gap < 4.5 * runs.standard_error("eps_g")[-1] + 3 / 1000
