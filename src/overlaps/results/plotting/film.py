"""Films: an animation whose frames are drawn quickly. Imported at the first one, because it imports matplotlib."""

from io import BytesIO
from pathlib import Path

from matplotlib import image, rcParams
from matplotlib import pyplot as plt
from matplotlib.animation import AbstractMovieWriter, FuncAnimation, writers
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image


@writers.register("overlaps-gif")
class GifWriter(AbstractMovieWriter):
    """Writer of GIF with one palette; the bar beside the matrices contains their colours already in the first frame."""

    @classmethod
    def isAvailable(cls):
        """Return True: matplotlib requires Pillow."""
        return True

    def setup(self, fig, outfile, dpi=None):
        """Begin a film."""
        super().setup(fig, outfile, dpi)
        self._images = []

    def grab_frame(self, **options):
        """Add the figure as it is."""
        pixels = BytesIO()
        self.fig.savefig(pixels, **options | {"format": "rgba", "dpi": self.dpi})
        frame = Image.frombuffer("RGBA", self.frame_size, pixels.getvalue()).convert("RGB")
        if not self._images:
            self._palette = bytes(frame.quantize(method=Image.Quantize.MAXCOVERAGE).getpalette() or ())
            # Pillow finds the nearest colour of a palette to the lower end of each 4 levels; white would become 252
            self._cells = Image.new("P", (1, 1))
            self._cells.putpalette(bytes(x & 252 for x in self._palette))
        frame = frame.quantize(palette=self._cells, dither=Image.Dither.NONE)
        frame.putpalette(self._palette)
        self._images.append(frame)

    def finish(self):
        """Write the file."""
        first, *others = self._images
        first.save(self.outfile, save_all=True, append_images=others, duration=1000 / self.fps, loop=0)


class FilmCanvas(FigureCanvasAgg):
    """Canvas of a film that is saved: the artists that move are drawn on one picture of all others.

    Writers ask for each frame by ``savefig``, which calls ``print_figure``.
    """

    def __init__(self, figure, moving):
        super().__init__(figure)
        self._moving, self._still = moving, None

    def draw_idle(self, *args, **options):
        """Draw nothing: ``save`` of matplotlib asks for it before each frame."""

    def print_figure(self, filename, *args, **options):
        """Write a frame as raw pixels or as an image."""
        format = options["format"]
        if self._still is None:
            self.figure.dpi = options["dpi"]
            self._show(False)
            super().print_figure(BytesIO(), *args, **options | {"format": "rgba"})
            self._show(True)
            self._still = self.copy_from_bbox(self.figure.bbox)
        self.restore_region(self._still)
        for artist in self._moving:
            self.figure.draw_artist(artist)
        if format in ("rgba", "raw"):
            filename.write(self.buffer_rgba())
        else:
            image.imsave(filename, self.buffer_rgba(), format=format, dpi=self.figure.dpi)

    def _show(self, visible):
        for artist in self._moving:
            artist.set_visible(visible)


class Film(FuncAnimation):
    """Animation that a notebook displays; files are written by a canvas that draws only what moves."""

    def __init__(self, figure, show, **options):
        self._figure, self._show = figure, show
        super().__init__(figure, show, blit=True, **options)

    def save(self, filename, writer=None, *args, **options):
        """Save the film as :meth:`matplotlib.animation.Animation.save` does."""
        writer = _available_writer(filename, writer)
        canvas, dpi = self._figure.canvas, self._figure.dpi
        FilmCanvas(self._figure, sorted(self._show(0), key=lambda artist: artist.get_zorder()))
        try:
            super().save(filename, writer, *args, **options)
        finally:
            self._figure.dpi = dpi
            self._figure.set_canvas(canvas)

    def _repr_html_(self):
        html = self.to_jshtml()
        plt.close(self._figure)  # otherwise the inline backend also shows the last frame
        return html


def _available_writer(filename, writer):
    """Return a writer, or the name of one that can be used; matplotlib itself would fail after the last frame."""
    if writer is None:
        writer = "overlaps-gif" if Path(filename).suffix.lower() == ".gif" else rcParams["animation.writer"]
    if isinstance(writer, str) and not writers.is_available(writer):
        raise ValueError(
            f"filename = {str(filename)!r}; the program {writer!r} that writes such files was not found. Install it "
            f"(conda, apt or brew install {writer}), or save a GIF: .save({str(Path(filename).with_suffix('.gif'))!r})."
        )
    return writer
