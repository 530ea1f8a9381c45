"""Optimisers with a memory of order N steps: families of vectors that pull on each other, beside the students.

Each function returns a pair for ``solve`` and ``simulate``, from :func:`overlaps.low_rank`: the weights of the state
are frozen, and the families are displacements from them, of K vectors each, which begin at zero. A memory of a finite
number of steps only multiplies the learning rate.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from .._base import Immutable, by_name, check, public_dir
from .features import check_features
from .frozen import LowRank, directions
from .model import Model
from .schedule import Schedule
from .start import duplicate_units
from .state import State, of_state

__all__ = ["anchor", "average", "momentum", "schedule_free"]
__dir__ = public_dir(__name__)

Rate: TypeAlias = float | Schedule | Callable[[float], float]


class VaryingPull(Immutable, repr=True):
    """A pull ``fixed`` + rate(alpha) ``varying`` as a function of alpha; its rate is a Schedule or another function."""

    fixed: Any
    varying: Any
    rate: Any

    def __call__(self, alpha):
        return self.fixed + self.rate(alpha) * self.varying


def _families(model, state, read, write, varying, rate, fixed=0.0):
    """Families that the network reads and its forces write by these numbers, under the pull fixed + rate varying."""
    check_features("low_rank", model)
    if model.weight_decay[0] > 0:
        expected = "0, because it would pull at displacements. A decay of weights is a pull: ov.low_rank(..., pull=)."
        raise check.refused("weight_decay", model.weight_decay, expected + check.see("averages", "Traps"))
    n, K, unit, begin = len(read), model.K, np.eye(model.K), check.state(state, "state").alpha

    def matrix(of_families):
        pull = np.kron(np.broadcast_to(np.asarray(of_families, float), (n, n)), unit)
        return np.concatenate([pull, np.zeros((n * K, K + model.M))], axis=1)

    fixed, varying = matrix(fixed), matrix(varying)
    pull = VaryingPull(fixed, varying, rate) if callable(rate) else fixed + rate * varying
    a, write = np.kron([read], unit), np.kron(np.transpose([write]), unit)
    pair = directions(model, state, a, np.zeros((n * K, n * K)), write=write, pull=pull, begin=begin)
    if duplicate_units(model, state.on(model)) is not None:
        raise check.refused("state", state, "students that differ, because rounding would separate equal ones.")
    return pair


def _checked(name, rate, state):
    """A rate >= 0; a function is called at three times."""
    if not callable(rate):
        return check.number(name, rate, least=0)
    hint = "Try 1/(1 + alpha), or begin from a record at alpha > 0."
    for alpha in check.state(state, "state").alpha + np.array([0.0, 0.5, 1.0]):
        with np.errstate(divide="ignore"):
            check.number(f"{name}({alpha:g})", rate(alpha), least=0, hint=hint)
    return rate


@of_state
@by_name("ov.memory.average(state, rate=0.5)")
def average(model: Model, state: State, rate: Rate) -> tuple[LowRank, State]:
    r"""SGD and, beside it, an average of its weights (EMA): :math:`\bar w \mathrel{+}= (c/N) (w - \bar w)`.

    A constant rate c forgets exponentially, over N/c steps. With :math:`c = 1/(1 + \alpha)` all steps have the same
    weight (Polyak).

    Parameters
    ----------
    model : Model
        The learning problem, with a fixed second layer and without weight decay. By default the model of the state.
    state : State
        Weights at the start of SGD and of the average; records of a run start it there, at their time.
    rate : float, Schedule or callable
        c, >= 0, or a function of alpha (a float).

    Returns
    -------
    model : LowRank
        For ``solve`` and ``simulate``.
    state : State
        The start. Solutions and runs are those of SGD; ``traj.reading_error([0, 1])`` is the error of the average.

    Raises
    ------
    ValueError
        A rate that is negative or not finite at the start; weight decay; equal students; what :func:`overlaps.low_rank`
        refuses.

    Notes
    -----
    Exact for N -> infinity. On a linear problem with isotropic inputs the error of the average ends at c/(c + eta) of
    that of SGD.

    References
    ----------
    Polyak and Juditsky (1992); Li and Gu (2025), arXiv:2502.14123, for linear regression.

    Examples
    --------
    >>> import overlaps as ov
    >>> network = ov.committee_machine(1, 1, activation="linear", eta=0.6, noise=0.5)
    >>> state = ov.State.from_overlaps(network, Q=[[0.5]], R=[[0.2]], T=[[1.0]])
    >>> traj = ov.solve(*ov.memory.average(network, state, rate=0.2), [0.0, 100.0])
    >>> traj.reading_error([0, 1]) / traj.eps_g
    array([1.  , 0.25])
    """
    return _families(model, state, [1, 0], [1, 0], [[0, 0], [1, -1]], _checked("rate", rate, state))


@of_state
@by_name("ov.memory.momentum(state, rate=0.5)")
def momentum(
    model: Model, state: State, rate: Rate, direct: float = 0.0, gain: float | None = None
) -> tuple[LowRank, State]:
    r"""SGD with a heavy ball: forces enter a memory u, at which the weights move.

    .. math:: u \mathrel{+}= F x/\sqrt N - (c/N)\, u, \qquad w \mathrel{+}= d\, F x/\sqrt N + (\gamma/N)\, u

    Programs that write :math:`m \leftarrow \beta m - \mathrm{lr}\, \nabla`, :math:`w \leftarrow w + m` have
    :math:`\beta = 1 - c/N` and :math:`\mathrm{lr} = \eta c/N` (for :math:`\gamma = c`): the long-run rate is eta.

    Parameters
    ----------
    model, state
        As in :func:`average`.
    rate : float, Schedule or callable
        c, >= 0, at which the memory forgets, or a function of alpha.
    direct : float
        d, which the forces move the weights at once. The long-run learning rate is ``(direct + gain / rate) eta``.
    gain : float, optional
        gamma, >= 0; the rate c by default, also if that is a function. With a gain and a rate that falls like 1/alpha
        this is dimension-adapted Nesterov acceleration (DANA).

    Returns
    -------
    model : LowRank
        For ``solve`` and ``simulate``.
    state : State
        The start, with an empty memory.

    Raises
    ------
    ValueError
        Rates that are negative or not finite; weight decay; what :func:`overlaps.low_rank` refuses.

    Notes
    -----
    Exact for N -> infinity.

    References
    ----------
    Ferbach et al. (2025), arXiv:2505.16098, for linear students on power laws: their gamma_1, gamma_2, gamma_3 and
    Delta are eta, d eta, gamma/N and c/N.

    Examples
    --------
    >>> import overlaps as ov
    >>> network = ov.committee_machine(2, 2, eta=0.5)
    >>> traj = ov.solve(*ov.memory.momentum(network, network.random_start(N=1000, rng=1), rate=2.0), [0.0, 100.0])
    >>> bool(traj.eps_g[1] < traj.eps_g[0])
    True
    """
    rate, direct = _checked("rate", rate, state), check.number("direct", direct)
    if gain is None:
        return _families(model, state, [1, 0], [direct, 1], [[0, 1], [0, -1]], rate)
    gain = check.number("gain", gain, least=0)
    return _families(model, state, [1, 0], [direct, 1], [[0, 0], [0, -1]], rate, [[0, gain], [0, 0]])


@of_state
@by_name("ov.memory.schedule_free(state)")
def schedule_free(model: Model, state: State, beta: float = 0.9, first: float = 1.0) -> tuple[LowRank, State]:
    r"""Schedule-free SGD: gradients at :math:`y = \beta x + (1 - \beta) z`, where z descends and x is its mean.

    .. math:: z \mathrel{+}= F(y)\, x/\sqrt N, \qquad x \mathrel{+}= \frac{z - x}{N (\alpha_0 + \alpha)}

    Parameters
    ----------
    model, state
        As in :func:`average`.
    beta : float
        Between 0 (Polyak averaging of SGD) and 1 (gradients at the mean).
    first : float
        alpha_0 > 0: the start counts in the mean as this time. With 1/N the mean would be that of the steps alone.

    Returns
    -------
    model : LowRank
        For ``solve`` and ``simulate``.
    state : State
        The start. Solutions and runs are those of the network at y; ``traj.reading_error([1, 0])`` is the error of the
        mean x, which programs evaluate.

    Raises
    ------
    ValueError
        beta outside [0, 1], first <= 0; weight decay; what :func:`overlaps.low_rank` refuses.

    Notes
    -----
    Exact for N -> infinity.

    References
    ----------
    Defazio et al. (2024), arXiv:2405.15682.

    Examples
    --------
    >>> import overlaps as ov
    >>> network = ov.committee_machine(1, 1, activation="linear", eta=0.6, noise=0.5)
    >>> state = ov.State.from_overlaps(network, Q=[[0.5]], R=[[0.2]], T=[[1.0]])
    >>> traj = ov.solve(*ov.memory.schedule_free(network, state), [0.0, 100.0])
    >>> bool(traj.reading_error([1, 0])[1] < traj.eps_g[1])
    True
    """
    beta, first = check.number("beta", beta, least=0, most=1), check.number("first", first, above=0)
    rate = Schedule.power(1.0, scale=first)  # first/(first + alpha)
    return _families(model, state, [beta, 1 - beta], [0, 1], [[-1 / first, 1 / first], [0, 0]], rate)


@of_state
@by_name("ov.memory.anchor(state, strength=0.1)")
def anchor(model: Model, state: State, strength: Rate) -> tuple[LowRank, State]:
    r"""SGD with an elastic pull to the weights of ``state``: :math:`w \mathrel{-}= (c/N) (w - w_0)`.

    Parameters
    ----------
    model, state
        As in :func:`average`; the state is the start and the anchor.
    strength : float, Schedule or callable
        c, >= 0, or a function of alpha.

    Returns
    -------
    model : LowRank
        For ``solve`` and ``simulate``.
    state : State
        The start.

    Raises
    ------
    ValueError
        A strength that is negative or not finite; weight decay; what :func:`overlaps.low_rank` refuses.

    Notes
    -----
    Exact for N -> infinity: elastic weight consolidation with equal weights. A pull to other weights, such as teachers,
    is ``pull=`` of :func:`overlaps.low_rank`.

    References
    ----------
    Kirkpatrick et al. (2017), arXiv:1612.00796.

    Examples
    --------
    >>> import overlaps as ov
    >>> network = ov.committee_machine(1, 1, eta=0.5)
    >>> state = ov.State.from_overlaps(network, Q=[[0.5]], R=[[0.2]], T=[[1.0]])
    >>> free, held = (ov.solve(*ov.memory.anchor(network, state, c), [50.0]) for c in (0.0, 0.2))
    >>> free.R[0] > held.R[0]
    array([[ True]])
    """
    return _families(model, state, [1], [1], [[-1]], _checked("strength", strength, state))
