"""The setting: inputs (``spectrum``), order parameters (``state``), their law at the start (``start``), and the model.

A new data model is a new ``Spectrum`` and a start, and nothing else.
"""

from .model import Model, committee_machine, quadratic_network
from .spectrum import Spectrum, isotropic, power_law
from .state import State

__all__ = ["Model", "Spectrum", "State", "committee_machine", "isotropic", "power_law", "quadratic_network"]
