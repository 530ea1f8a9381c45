"""
executorlib finds the rate that leaves the plateau first
========================================================

A soft committee machine (erf, K = M = 2) stays on its symmetric plateau for a time that falls like 1/eta for small eta,
and grows again when the O(eta^2) term C weakens the symmetry breaking. ``ov.sweep`` calls one function at every
learning rate on any ``concurrent.futures`` executor; the scripts ``sweep_*.py`` differ in the line that creates the
pool. Saad and Solla (1995), Phys. Rev. E 52, 4225.

``SlurmClusterExecutor`` or ``FluxClusterExecutor`` in place of ``SingleNodeExecutor`` submit to a queue, with resources
for each point. Needs ``pip install "overlaps[executorlib]"``; without it the sweep runs in this process and prints a
line.
"""

from contextlib import nullcontext
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# The pool
# --------
# Change this line for another machine.
ETAS = np.linspace(0.1, 2.2, 40)


def make_pool():
    try:
        from executorlib import SingleNodeExecutor
    except ImportError:
        print('executorlib is NOT used: pip install "overlaps[executorlib]". The sweep runs in this process.')
        return nullcontext()

    return SingleNodeExecutor(max_workers=2, block_allocation=True)


# %%
# One point of the sweep
# ----------------------
# The function must be importable and have named parameters.
def escape_time(eta):
    """Time alpha at which eps_g falls below 0.005, half the height of the plateau."""
    model = ov.committee_machine(2, 2, eta=eta)
    start = ov.State.from_overlaps(model, Q=[[0.5, 0], [0, 0.4]], R=[[0.02, 0], [0, 0.03]], T=np.eye(2))
    return ov.solve(model, start, (0, 3000), stop=5e-3).alpha[-1]


def sweep(pool=None):
    return ov.sweep(escape_time, {"eta": ETAS}, executor=pool)


# %%
# The picture
# -----------
# The escape takes a time :math:`\sim 1/\eta` at first (dashed), and longer beyond the best rate.
def draw(result):
    fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    alpha = result.array()
    ax.plot(ETAS, alpha, "o-", label="K = M = 2")
    ax.plot(ETAS, ETAS[0] * alpha[0] / ETAS, "k--", linewidth=1, label=r"$\propto 1/\eta$")
    ax.axvline(ETAS[np.argmin(alpha)], color="0.7", linewidth=1, zorder=0)
    ax.set(xlabel=r"$\eta$", ylabel=r"escape from the plateau, $\alpha$", yscale="log")
    ax.legend(frameon=False)
    return fig


# %%
# The sweep, and the checks
# -------------------------
# Worker processes import this script; therefore the sweep stands behind the guard. The number of workers does not
# change the result.
if __name__ == "__main__":
    with make_pool() as pool:
        result = sweep(pool)
    print(result, "in this process" if pool is None else f"on {type(pool).__name__}")
    draw(result).savefig(f"{Path(__file__).stem}.png", dpi=150)
    alpha = result.array()
    best = np.argmin(alpha)
    print(f"fastest escape at eta = {ETAS[best]:.2f}, alpha = {alpha[best]:.1f}")
    assert result.success and 0 < best < len(ETAS) - 1 and alpha[-1] > 1.2 * alpha[best]
    assert result.values == sweep().values
