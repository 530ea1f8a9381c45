"""The gallery's first row, and its thumbnails: one panel of a script's first figure, drawn anew for 200 pixels."""

import runpy
from pathlib import Path

from matplotlib import pyplot as plt
from sphinx_gallery.scrapers import matplotlib_scraper

FOLDER = Path(__file__).parent / "_build" / "thumbnails"
START = ["soft_committee", "activations", "perceptrons", "power_law_spectrum", "fluctuations"]  # the first row
PANELS = {
    "plot_fluctuations": 1,
    "plot_landscape": 1,
    "plot_overview": 1,
}  # script: which of the axes; elsewhere the first
LONG = 24  # letters of a label that would not fit
WIDTH, HEIGHT, PIXELS = 2.4, 1.68, 400  # inches: ten points are as high as on the page when 200 pixels are shown


def order(path):
    """Key that sorts scripts of a small gallery: those of the first row in its order, others behind them by name."""
    name = Path(path).stem.removeprefix("plot_")
    return START.index(name) if name in START else len(START), name


def scrape(block, block_vars, gallery_conf, **options):
    """Save the figures of a block as usual; from the script's first one, make its thumbnail."""
    figures = [plt.figure(number) for number in plt.get_fignums()]
    shown = matplotlib_scraper(block, block_vars, gallery_conf, **options)
    script = Path(block_vars["src_file"]).stem
    if figures and len(block_vars["image_path_iterator"]) == len(figures):
        FOLDER.mkdir(parents=True, exist_ok=True)
        draw(figures[0], script, FOLDER / f"{script}.png")
    return shown


def draw_sweeps(folder):
    """Thumbnails of scripts that start processes, which are shown and not run: the same sweeps in this process."""
    for script in folder.glob("*.py"):
        sweep = runpy.run_path(str(script), run_name="thumbnail")
        draw(sweep["draw"](sweep["sweep"]()), script.stem, FOLDER / f"{script.stem}.png")
        plt.close("all")


def draw(fig, script, path):
    """Leave one panel of a figure, without titles, texts and long legends, and save it at the size of a thumbnail."""
    panel = fig.axes[PANELS.get(script, 0)]
    twins = [ax for ax in fig.axes if ax.get_position().bounds == panel.get_position().bounds]
    for image in (*panel.images, *panel.collections):
        if image.colorbar is not None:
            image.colorbar.remove()
    for other in [*fig.axes, *fig.legends, *panel.child_axes]:
        if other not in twins:
            other.remove()
    fig.suptitle("")
    fig.set_size_inches(WIDTH, HEIGHT)
    cell = fig.add_gridspec(1, 1)[0]
    for ax in twins:
        ax.set_subplotspec(cell)
        ax.set_title("")
        ax.tick_params(which="both", labelsize=7, labelleft=ax is panel, labelbottom=True)
        ax.tick_params(which="minor", labelleft=False, labelbottom=False)
        for axis in (ax.xaxis, ax.yaxis):
            axis.label.set_size(8)
            if len(axis.label.get_text()) > LONG:
                axis.label.set_text("")
        for text in list(ax.texts):
            text.remove()
        for line in ax.lines:
            line.set_markersize(0.6 * line.get_markersize())
        shorten_legend(ax)
    fig.savefig(path, dpi=PIXELS / WIDTH)


def shorten_legend(ax):
    """Leave a legend of few short entries, where it is least in the way, and no other."""
    legend = ax.get_legend()
    if legend is not None:
        entries = [text.get_text() for text in legend.get_texts()]
        handles = legend.legend_handles
        legend.remove()
        if len(entries) <= 5 and max(map(len, entries)) < 20:
            ax.legend(handles, entries, fontsize=6.5, frameon=False, handlelength=1.2, labelspacing=0.2)
