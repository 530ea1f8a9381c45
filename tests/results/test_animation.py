"""Animations: every frame shows the overlaps of its time, in files and in notebooks."""

import warnings
from io import BytesIO
from itertools import pairwise

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.animation import AbstractMovieWriter
from PIL import Image

import overlaps as ov

MODEL = ov.committee_machine(2, 3, eta=1.0, v=[0.5, 1.5], v_star=[1.0, 0.5, 2.0])
START = ov.State.from_overlaps(
    MODEL, Q=[[0.5, 0.1], [0.1, 0.3]], R=[[0.1, 0.2, 0.0], [0.05, -0.1, 0.3]], T=np.diag([1.0, 0.8, 0.6])
)
TRAJ = ov.solve(MODEL, START, np.linspace(0, 30, 7))
PERMUTED = [0, 2, 1]  # student 1 learns teacher 1, student 2 teacher 3


class Records(AbstractMovieWriter):
    """In place of a file: what each frame shows."""

    frame_size = (1, 1)

    def setup(self, fig, outfile, dpi=None):
        self.fig, self.shown = fig, []

    def grab_frame(self, **_):
        axes = {ax.get_title(): ax for ax in self.fig.axes}
        error = self.fig.axes[0]
        matrices = [axes[name].images[0].get_array().copy() for name in ("$Q$", "$R$") if name in axes]
        self.shown.append((error.texts[-1].get_text(), error.lines[-1].get_xydata()[0].copy(), *matrices))

    def finish(self):
        pass


def shown(film):
    writer = Records()
    film.save("nowhere", writer=writer)
    plt.close("all")
    return writer.shown


def test_frames_are_the_overlaps_of_their_times():
    frames = shown(TRAJ.animate(frames=13))  # records and the middles between them
    assert len(frames) == 13
    for i, (title, point, Q, R) in enumerate(frames):
        k, half = divmod(i, 2)
        both = [k, k + half]
        assert title == rf"$\alpha$ = {2.5 * i:.3g}"
        np.testing.assert_allclose(Q, TRAJ.Q[both].mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(R, TRAJ.R[both].mean(axis=0)[:, PERMUTED], rtol=1e-12)
        # on the line that is drawn: straight on a logarithmic axis, where the mean is the geometric one
        spread = TRAJ.eps_g.max() / TRAJ.eps_g.min() > 30
        error = np.sqrt(TRAJ.eps_g[both].prod()) if spread else TRAJ.eps_g[both].mean()
        np.testing.assert_allclose(point, [2.5 * i, error], rtol=1e-12)


def test_frames_are_equidistant_on_a_logarithmic_axis_and_means_over_runs():
    runs = ov.simulate(MODEL, N=50, alpha=[0, 1, 4, 16], rng=1, start=START, runs=3)
    frames = shown(runs.animate(frames=5, xscale="log"))
    np.testing.assert_allclose([point[0] for _, point, _, _ in frames], [1, 2, 4, 8, 16], rtol=1e-12)
    np.testing.assert_allclose(frames[2][2], runs.mean("Q")[2], rtol=1e-12)
    np.testing.assert_allclose(frames[4][2], runs.mean("Q")[3], rtol=1e-12)


class Pixels(AbstractMovieWriter):
    """In place of a file: the pixels of each frame."""

    def setup(self, fig, outfile, dpi=None):
        super().setup(fig, outfile, dpi)
        self.frames = []

    def grab_frame(self, **options):
        self.frames.append(pixels(self.fig, dpi=self.dpi, **options))

    def finish(self):
        pass


def pixels(fig, **options):
    """The figure as an array (height, width, 4)."""
    buffer = BytesIO()
    fig.savefig(buffer, format="raw", **options)
    shape = *np.rint(fig.get_size_inches()[::-1] * options["dpi"]).astype(int), 4
    return np.frombuffer(buffer.getvalue(), np.uint8).reshape(shape)


@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_frames_are_those_of_figures_drawn_whole(style):
    """At the points per inch of the file, not of the figure; the canvas of the figure is as before."""
    with plt.style.context(style):
        film, writer = TRAJ.animate(frames=4), Pixels()
        fig = plt.gcf()
        before, dpi = fig.canvas, fig.dpi
        film.save("nowhere", writer=writer, dpi=60)
        assert (fig.canvas, fig.dpi) == (before, dpi) and len(writer.frames) == 4
        for i in (0, 2, 3):
            film._func(i)
            differences = np.abs(pixels(fig, dpi=60).astype(int) - writer.frames[i]).max(axis=-1)
            # equal but for the ends of the nine ticks of the matrices, which touch their frames: antialiased edges
            assert differences.max() <= 32 and np.count_nonzero(differences) <= 9
    assert all(np.abs(a.astype(int) - b).max() > 50 for a, b in pairwise(writer.frames))
    plt.close("all")


def test_a_gif_has_the_colours_of_its_frames(tmp_path):
    """Sixty-four levels of each colour and 256 colours in all: edges of letters differ most."""
    film = TRAJ.animate(frames=3)
    film.save(tmp_path / "film.gif", dpi=60)
    with Image.open(tmp_path / "film.gif") as gif:
        assert (gif.n_frames, gif.info["duration"], gif.info["loop"]) == (3, 50, 0)
        for i in range(3):
            gif.seek(i)
            film._func(i)
            whole = pixels(plt.gcf(), dpi=60)[..., :3].astype(int)
            differences = np.abs(np.asarray(gif.convert("RGB")) - whole).max(axis=-1)
            assert differences.mean() < 2 and np.mean(differences > 16) < 1e-3
            assert np.all(differences[whole.min(axis=-1) == 255] == 0)  # white paper stays white
    plt.close("all")


def test_videos_without_their_program_are_refused_before_the_first_frame(tmp_path):
    film = TRAJ.animate(frames=3)
    with plt.rc_context({"animation.ffmpeg_path": "no-such-program"}):
        for writer in (None, "ffmpeg"):
            with pytest.raises(ValueError, match=r"film.mp4'; .*'ffmpeg'.* not found. Install it .*film.gif"):
                film.save(tmp_path / "film.mp4", writer=writer, progress_callback=lambda *_: pytest.fail("a frame"))
    assert list(tmp_path.iterdir()) == []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # matplotlib warns that no frame was drawn
        del film
        plt.close("all")


def test_notebooks_hold_every_frame():
    before = plt.get_fignums()
    film = TRAJ.animate(frames=4)
    assert film._repr_html_().count("data:image/png") == 4
    assert plt.get_fignums() == before  # shown once


def test_classes_without_a_teacher_have_one_matrix():
    gram = [[[2.25, -2.25], [-2.25, 2.25]]]
    model = ov.gaussian_mixture(2, gram=gram, weights=[0.4, 0.6], labels=[1, -1], v=[0.6, 0.4], eta=0.5)
    traj = ov.solve(model, model.random_start(N=1000, rng=1), [0.0, 5.0, 20.0])
    (_, _, Q), last = shown(traj.animate(frames=2))
    np.testing.assert_allclose([Q, last[2]], traj.Q[[0, 2]], rtol=1e-12)


def test_stages_move_and_bad_input_does_not():
    tasks = [ov.committee_machine(1, 2, eta=0.5, v_star=v_star) for v_star in ([1.0, 0.0], [0.0, 1.0])]
    staged = ov.solve(ov.Stages(tasks, until=[5.0, 10.0]), tasks[0].random_start(N=1000, rng=1), [0.0, 5.0, 10.0])
    np.testing.assert_allclose(shown(staged.animate(frames=3))[1][2], staged.Q[1], rtol=1e-12)
    with pytest.raises(ValueError, match="single record"):
        ov.solve(MODEL, START, [0.0]).animate()
    with pytest.raises(ValueError, match="frames = 1"):
        TRAJ.animate(frames=1)
    for name in ("xscale", "yscale"):
        with pytest.raises(ValueError, match=f"{name} = 'symlog'"):
            TRAJ.animate(**{name: "symlog"})
    plt.close("all")
