"""Films and sliders, which draw only what moves, beside whole drawings of the same figures by matplotlib."""

import tempfile
from io import BytesIO
from itertools import cycle
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.animation import FuncAnimation
from timing import row, show

import overlaps as ov

PART = "Films and sliders"
FRAMES = 25
MODEL = ov.committee_machine(2, 2, eta=0.5)
START = MODEL.random_start(N=2000, rng=1)


def curve(eta):
    return ov.solve(ov.committee_machine(2, 2, eta=eta), START, (0, 100))


def rows():
    matplotlib.use("agg")
    film = ov.solve(MODEL, START, np.linspace(0, 200, 201)).animate(frames=FRAMES)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "film.gif"
        whole = {"whole figures": lambda: FuncAnimation.save(film, path, writer="pillow")}
        yield row(PART, f"GIF of Q, R and the error, {FRAMES} frames, each", lambda: film.save(path), whole, per=FRAMES)
    for panels in (1, 2):
        view, rates = ov.explore(curve, panels=panels, eta=(0.1, 2.0)), cycle(np.linspace(0.5, 0.6, 6))

        def drawn(panels=panels, rates=rates):
            axes = plt.subplots(1, panels, figsize=(5.5 * panels, 4), layout="constrained", squeeze=False)[1][0]
            curve(next(rates)).plot(ax=axes if panels == 2 else axes[0])
            axes[0].figure.savefig(BytesIO(), format="raw")
            plt.close(axes[0].figure)

        def move(view=view, rates=rates):
            view.controls["eta"].set_val(next(rates))

        yield row(PART, f"move of a slider, {panels} panel{'s' * (panels > 1)}", move, {"new figure": drawn})
    plt.close("all")


if __name__ == "__main__":
    show(rows())
