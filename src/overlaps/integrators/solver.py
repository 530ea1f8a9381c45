"""What the solvers of this library offer beyond the interface of ``scipy.integrate.OdeSolver``."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple


class Traits(NamedTuple):
    """Properties of a class of solvers; the defaults are those of SciPy's classes and of the user's."""

    interpolates: bool = False  # states inside a step are as accurate as its end, so steps need not end at output times
    discrete: bool = False  # its steps are the dynamics: there are no states between them
    by_blocks: bool = False  # needs the spectral basis
    estimates_error: bool = False  # adds up the errors of eps_g of its steps
    internal: tuple[str, ...] = ()  # options that are not the user's
    least_rtol: float = 1e-13  # smaller ones make steps control rounding
    compiled_steps: Any = None  # the class that makes its steps in compiled code


class FlowSolver(ABC):
    """A solver that uses the structure of a ``System``; a subclass of SciPy's class inherits it first."""

    traits: Traits
    system: Any
    error: float  # accumulated error of eps_g, relative to it
    outputs: Any  # times at which states inside its steps will be needed

    @classmethod
    @abstractmethod
    def kernel_of(cls, system):
        """The compiled closure of a system for compiled steps of this class, or None."""


def traits_of(solver):
    """The traits of a class of solvers; those of SciPy's classes if it is None."""
    return solver.traits if solver is not None and issubclass(solver, FlowSolver) else Traits()
