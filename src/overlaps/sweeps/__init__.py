"""Sweeps: a function evaluated at many points, on any executor, with checkpoints."""

from .grid import Sweep, sweep

__all__ = ["Sweep", "sweep"]
