"""
A learning curve follows its sliders
====================================

``ov.explore`` calls a function of the learning rate and of the noise whenever a slider moves, and draws its result:
ipywidgets in a notebook (``pip install "overlaps[explore]"``), sliders of matplotlib in a window. For invalid values
the figure shows the error message, and the last curve stays.
"""

# %%
# A function of the parameters
# ----------------------------
# It returns anything that has ``.plot(ax=)``: here the error and the overlaps of two students, from one start.
import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

start = ov.committee_machine(2, 2, eta=1.0).random_start(N=800, rng=1)


def curve(eta, noise, activation="erf"):
    """Learning curve at these values of the sliders."""
    return ov.solve(ov.committee_machine(2, 2, eta=eta, noise=noise, activation=activation), start, (0, 250))


# %%
# The sliders
# -----------
# A pair of numbers makes a continuous slider, a list makes a choice. ``view.set`` sets values in code.
view = ov.explore(curve, panels=2, eta=(0.1, 2.0), noise=(0.0, 0.3), activation=["erf", "relu", "linear"])
view.set(eta=0.5, noise=0.0)
first = view.result
view.set(eta=-0.5)
refused, kept = view.message, view.axes[0].lines[0].get_ydata()  # the previous curve
view.set(eta=1.2, noise=0.05)
drawn = view.axes[0].lines[0].get_ydata()
view.figure.savefig("explore_eta.png", dpi=150)

# %%
# The checks
# ----------
# After a refused negative rate the line shows the previous result; at the end it shows the result of the last values.
assert len(first.plateaus()) == 1 and view.params == {"eta": 1.2, "noise": 0.05, "activation": "erf"}
assert np.array_equal(drawn, view.result.eps_g) and np.array_equal(kept, first.eps_g)
assert refused.startswith("eta = -0.5")
if plt.get_backend().lower() != "agg":
    plt.show()
