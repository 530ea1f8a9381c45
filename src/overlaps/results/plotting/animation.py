"""Animation of the overlap matrices and the error."""

from typing import Any

import numpy as np

from ..._base import check
from .curves import plot
from .styles import LAYOUT, figure_size, grey, hues, resolved
from .units import partners_of


def animate(result: Any, frames: int = 100, xscale: str | None = None, yscale: str | None = None) -> Any:
    r"""Animate the matrices Q, R of a solution or of runs, and a point on the curve of the error.

    The times of the frames are equidistant on the axis of alpha; between records overlaps are interpolated linearly.
    For runs the means are shown. Teachers are in the order of the students that learn them, so that R becomes diagonal.

    Parameters
    ----------
    result : Trajectory, Ensemble, or a result of Stages
        The result to show.
    frames : int
        Number of frames, twenty per second.
    xscale, yscale : {"linear", "log"}, optional
        Scales of alpha and of the error, as in :func:`plot`.

    Returns
    -------
    matplotlib.animation.FuncAnimation
        ``.save("plateau.gif")`` writes a GIF, ``.save("plateau.mp4")`` a video by the program ffmpeg; a notebook shows
        it with buttons. Only the point, the time and the matrices are drawn anew in each frame.

    Raises
    ------
    ValueError
        The result has a single record, there are less than two frames, or a scale is unknown. By ``save``, before the
        first frame: ffmpeg is not installed.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import overlaps as ov
    >>> model = ov.committee_machine(2, 2, eta=0.5)
    >>> animation = ov.solve(model, model.random_start(N=1000, rng=1), (0, 10)).animate(frames=3)
    >>> animation.to_jshtml().count("data:image/png")
    3
    >>> matplotlib.pyplot.close("all")
    """
    from matplotlib import pyplot as plt
    from matplotlib.colors import LinearSegmentedColormap

    from .film import Film

    frames = check.count("frames", frames, least=2)
    if result.alpha.size < 2:
        raise ValueError("animate() of a single record; solve or simulate over an interval, such as (0, 500).")
    names = ["Q", "R"] if result.model.M else ["Q"]
    width, height = figure_size(4.4 + 3.2 * len(names), 3.4)
    stacked = width < LAYOUT.stacked_below
    panels: Any = [["error"] * len(names), names] if stacked else [["error", *names]]
    ratios = None if stacked else (1.4, *(1 for _ in names))
    height = height + 2 if stacked else height
    fig, axes = plt.subplot_mosaic(panels, figsize=(width, height), layout="constrained", width_ratios=ratios)
    ax = axes["error"]
    plot(result, ax=ax, xscale=xscale, yscale=yscale)
    teachers = _teachers(result)
    times, error, matrices = _frames(result, frames, ax.get_xscale() == "log", ax.get_yscale() == "log")
    if "R" in names:
        matrices["R"] = matrices["R"][..., teachers]
    largest = max(np.nanmax(np.abs(matrices[name])) for name in names)
    colours = LinearSegmentedColormap.from_list("overlaps", [hues(ax)[0], grey(ax, 0.0), hues(ax)[1]])
    images = []
    for name in names:
        columns = teachers if name == "R" else np.arange(result.model.K)
        images.append(axes[name].imshow(matrices[name][0], cmap=colours, vmin=-largest, vmax=largest))
        axes[name].set(title=f"${name}$", ylabel="student", xlabel="teacher" if name == "R" else "student")
        axes[name].set_xticks(range(len(columns)), [str(k + 1) for k in columns])
        axes[name].set_yticks(range(result.model.K), [str(k + 1) for k in range(result.model.K)])
    fig.colorbar(images[-1], ax=[axes[name] for name in names], shrink=0.8)
    (point,) = ax.plot(times[:1], error[:1], marker="o", color=grey(ax, 0.8), zorder=6)
    time = ax.text(0.03, 0.04, "", transform=ax.transAxes, zorder=6)
    frame = [spine for name in names for spine in axes[name].spines.values()]  # drawn on the matrices

    def show(i):
        point.set_data(times[i : i + 1], error[i : i + 1])
        time.set_text(rf"$\alpha$ = {times[i]:.3g}")
        for name, image in zip(names, images, strict=True):
            image.set_data(matrices[name][i])
        return [*images, *frame, time, point]

    show(0)
    fig.draw_without_rendering()
    fig.set_layout_engine("none")  # the layout is computed once, not for every frame
    return Film(fig, show, frames=frames, interval=50)  # milliseconds for each frame


def _teachers(result):
    """Return the teachers in the order of the students that learn them, followed by the others."""
    partners = partners_of(result)
    partnered = [int(partners[k]) for k in range(result.model.K) if k in partners]
    return np.array([*partnered, *(m for m in range(result.model.M) if m not in partnered)], dtype=int)


def _frames(result, count, log_time, log_error):
    """Return the times of the frames, the error on the drawn line and the matrices at these times."""
    curves = {"Q": result.Q, "R": result.R, "eps_g": resolved(result, log_error)}
    mean = {x: curve.mean(axis=0) if result.is_ensemble else curve for x, curve in curves.items()}
    begin = result.alpha[result.alpha > 0][0] if log_time else result.alpha[0]
    times = (np.geomspace if log_time else np.linspace)(begin, result.alpha[-1], count)
    scale = np.log if log_time else np.asarray
    with np.errstate(divide="ignore"):
        error = np.interp(scale(times), scale(result.alpha), np.log(mean["eps_g"]) if log_error else mean["eps_g"])
    matrices = {x: np.empty((count, *mean[x].shape[1:])) for x in ("Q", "R")}
    for x, values in matrices.items():
        for index in np.ndindex(values.shape[1:]):
            values[:, *index] = np.interp(times, result.alpha, mean[x][:, *index])
    return times, np.exp(error) if log_error else error, matrices
