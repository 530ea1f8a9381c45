r"""
Inputs of two random layers are as good as Gaussian
===================================================

Latents :math:`c \sim N(0, 1)` of D dimensions pass two random layers, :math:`x = \tanh(B \tanh(A c))`; the student acts
on x, the teacher on c. The covariances of inputs and latents have no closed form; they are estimated from samples of
the generator. Fields stay Gaussian after random layers of large width; this is proved for one layer and conjectured for
many. After Goldt, Loureiro, Reeves, Krzakala, Mezard and Zdeborova (2022), arXiv:2006.14709.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# A generator and a student
# -------------------------
# The equations are those of Gaussian fields with the three estimated covariances. SGD draws fresh samples of the
# generator (``simulate(..., samples=)``).
N, HIDDEN, D, RUNS = 400, 300, 100, 4
ALPHA = np.concatenate([[0], np.geomspace(0.2, 30, 13)])


class Generator:
    """Samples (x, c) of two random layers, called as ``simulate`` does."""

    def __init__(self, rng):
        self.A, self.B = rng.standard_normal((D, HIDDEN)) / np.sqrt(D), rng.standard_normal((HIDDEN, N))
        self.B /= np.sqrt(HIDDEN / 2)

    def __call__(self, rng, n):
        """The generator is odd, so that inputs have mean zero."""
        c = rng.standard_normal((n, D))
        return np.tanh(np.tanh(c @ self.A) @ self.B), c

    def __repr__(self):
        return "two random layers"


def learn(student, rng):
    generator = Generator(rng)
    covariances = ov.covariates.from_data(*generator(rng, 40_000))
    model, start = ov.gaussian_covariates(
        *covariances, 2, 2, activation=student, eta=0.3, eta_v=0.2, v=[0.45, 0.55], v_star=[0.9, 0.7]
    )
    W, W_star = rng.standard_normal((2, N)), rng.standard_normal((2, D))
    runs = ov.simulate(model, N=N, alpha=ALPHA, rng=rng, runs=RUNS, weights=(W, W_star), samples=generator)
    return ov.solve(*start(W=W, W_star=W_star, nodes=60), runs.alpha), runs


# %%
# Both deviations are a few percent
# ---------------------------------
# Left: points are errors of the network on further samples, averaged over runs. Right: two kinds of deviation: the
# order parameters deviate from the equations by fluctuations of order :math:`1/\sqrt N`, and the closed form at the
# overlaps of the runs deviates from the true error because the fields are not exactly Gaussian. Features of digits
# deviate more (see the example on digits).
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
found = {}
for color, student in ("C0", ov.erf), ("C3", ov.relu):
    theory, runs = learn(student, np.random.default_rng(3))
    true, se = runs.mean("test_error"), runs.standard_error("test_error")
    left.plot(theory.alpha, theory.eps_g, color, label=f"ODE, {student}")
    left.errorbar(runs.alpha, true, se, fmt="o", color=color, ms=4, label="error on fresh samples")
    right.plot(theory.alpha, theory.eps_g / true, color, label=f"ODE, {student}")
    right.plot(theory.alpha, runs.mean("eps_g") / true, color + "--", label="closed form at the runs' overlaps")
    found[student] = theory.eps_g / true, runs.mean("eps_g") / true, se / true, true
right.axhline(1, color="0.6", lw=0.8)
left.set(xscale="symlog", yscale="log", xlabel=r"$\alpha$ = steps / $N$", ylabel=r"$\epsilon_g$")
right.set(
    xscale="symlog",
    xlabel=r"$\alpha$ = steps / $N$",
    ylabel="over the true error",
    xlim=(-0.05, 32),
    ylim=(0.9, 1.1),
)
left.legend(frameon=False)
right.legend(frameon=False, fontsize="small")
fig.savefig("generator_covariates.png", dpi=150)

# %%
# The checks
# ----------
for student, (ode, closed, se, true) in found.items():
    print(f"{student}: true error {true[0]:.4f} at the start, {true[-1]:.4f} at the end")
    worst, far = np.max(np.abs(closed - 1)), np.max(np.abs(ode - 1))
    print(f"  closed form / true error within {worst:.3f}, ODE / true error within {far:.3f}; sampling {se.max():.3f}")
    assert true[-1] < 0.5 * true[0]
    assert worst < 0.1 and far < 0.15
