"""Pictures of results: the only room that draws; matplotlib is imported at the first picture.

``looks`` knows sizes, hues and axes, ``units`` how Q, R and v of many units become readable. A new picture of a record
takes its Axes from ``looks.pair_of_axes`` or ``looks.single_axes``, so that it follows the style of the user.
"""

from .animation import animate
from .comparison import approach, compare, distance, fluctuations, plot_fluctuations
from .curves import eigenvalues, plot, plot_batch, plot_stages, schedule
from .sliders import explore
from .styles import style

__all__ = [
    "animate", "approach", "compare", "distance", "eigenvalues", "explore", "fluctuations", "plot", "plot_batch",
    "plot_fluctuations", "plot_stages", "schedule", "style",
]  # fmt: skip
