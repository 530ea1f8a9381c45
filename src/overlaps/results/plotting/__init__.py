"""Figures of results. Only this package draws; matplotlib is imported at the first figure.

``styles`` defines sizes, colours and axes; ``units`` draws Q, R and v of many units. A new figure takes its Axes from
``styles.pair_of_axes`` or ``styles.single_axes``, so that it follows the style of the user.
"""

from .animation import animate
from .comparison import approach, compare, distance, fluctuations, plot_fluctuations
from .curves import eigenvalues, plot, plot_batch, schedule
from .sliders import explore
from .styles import style

__all__ = [
    "animate", "approach", "compare", "distance", "eigenvalues", "explore", "fluctuations", "plot", "plot_batch",
    "plot_fluctuations", "schedule", "style",
]  # fmt: skip
