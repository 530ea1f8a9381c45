"""What the solvers of this library offer beyond the interface of :class:`scipy.integrate.OdeSolver`."""

from abc import ABC, abstractmethod
from functools import cache
from typing import Any, NamedTuple

import scipy


class Traits(NamedTuple):
    """Properties of a class of solvers; the defaults are those of SciPy's classes and of the user's."""

    interpolates: bool = False  # states inside a step are as accurate as its end, so steps need not end at output times
    discrete: bool = False  # its steps are the dynamics: there are no states between them
    by_blocks: bool = False  # needs the spectral basis
    estimates_error: bool = False  # adds up the errors of eps_g of its steps
    internal: tuple[str, ...] = ()  # options that are not the user's
    least_rtol: float = 1e-13  # smaller ones make steps control rounding
    compiled_steps: Any = None  # the class that makes its steps in compiled code
    one_step: bool = False  # h_abs may change between any two steps
    multistep: bool = False  # each step extrapolates those before it
    adjustable: bool = False  # reads t_bound, atol and the state anew at each step


_SciPyClass: Any = object  # for type checkers


class FlowSolver(ABC, _SciPyClass):
    """A solver that uses the structure of a ``System``, in steps of SciPy.

    The class of ``scipy.integrate`` with the name ``scipy_class`` becomes its last base when the first one is made.
    Its import takes a fifth of the time of a first curve, whose compiled steps do without.
    """

    scipy_class: str
    traits: Traits
    system: Any
    error: float  # accumulated error of eps_g, relative to it
    outputs: Any  # times at which states inside its steps will be needed

    def __new__(cls, *args, **options):
        """An object of this class and of SciPy's."""
        return object.__new__(with_scipy(cls))

    @classmethod
    @abstractmethod
    def kernel_of(cls, system):
        """The compiled closure of a system for compiled steps of this class, or None."""


@cache
def with_scipy(solver):
    """A subclass of a class of this library and of its class of SciPy; another class is returned as it is."""
    if not issubclass(solver, FlowSolver) or issubclass(solver, scipy.integrate.OdeSolver):
        return solver
    return type(solver)(solver.__name__, (solver, getattr(scipy.integrate, solver.scipy_class)), {})


def traits_of(solver):
    """The traits of a class of solvers; the defaults if it is None."""
    if solver is None or issubclass(solver, FlowSolver):
        return Traits() if solver is None else solver.traits
    known = scipy.integrate
    one_step, multistep = issubclass(solver, (known.RK23, known.RK45, known.DOP853)), issubclass(solver, known.BDF)
    adjustable = one_step or multistep or issubclass(solver, known.Radau)
    return Traits(one_step=one_step, multistep=multistep, adjustable=adjustable)
