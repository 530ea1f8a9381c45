"""A frozen student that learns in a few directions: low-rank adaptation."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from .._base import check
from .._base.record import Record
from .._base.types import ArrayLike
from .model import Model
from .start import checked_start
from .state import State, gram


@dataclass(frozen=True, eq=False, repr=False)
class LowRank(Record):
    """A frozen student and trained directions beside it; made by :func:`low_rank`, which explains it.

    Attributes
    ----------
    model : Model
        The network whose weights are adapted.
    rank : int
        Number of directions.
    eta_a : float
        Rate of their amplitudes.
    """

    model: Model
    rank: int
    eta_a: float

    def __getattr__(self, name):
        if name.startswith("_") or "model" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.flow, name)

    @cached_property
    def flow(self) -> Model:
        """The model whose students are the directions and whose static rows are frozen students, then teachers."""
        base = self.model
        v_star = np.concatenate([-base.v, base.v_star])
        return replace(base, v=np.ones(self.rank), v_star=v_star, eta_v=self.eta_a)

    def enter(self, start: State) -> State:
        """The start, checked; its v are the amplitudes (K, rank)."""
        start = checked_start(self.flow, start)
        check.array("v", start.v, (self.model.K, self.rank), "Amplitudes of the directions.")
        return start

    def places(self, a):
        """The map (..., K + M, rank + K + M) to the network's fields from all rows, at amplitudes a (..., K, rank)."""
        a = np.asarray(a)
        n = self.model.K + self.model.M
        rest = np.broadcast_to(np.eye(n), (*a.shape[:-2], n, n))
        still = np.zeros((*a.shape[:-2], self.model.M, self.rank))
        return np.concatenate([np.concatenate([a, still], axis=-2), rest], axis=-1)

    def __repr__(self):
        return f"LowRank({self.model}, rank={self.rank}, eta_a={self.eta_a:g})"


def low_rank(
    model: Model, state: State, *, a: ArrayLike, X: ArrayLike, G: ArrayLike | None = None, eta_a: float = 0.0
) -> tuple[LowRank, State]:
    r"""A frozen student plus trained directions, :math:`w_k = w^0_k + \sum_r a_{kr} u_r`.

    The directions learn with the model's eta, the amplitudes stay or learn like a second layer,

    .. math:: u_r \mathrel{+}= \sum_k a_{kr} F_k\, x/\sqrt N, \qquad
              a_{kr} \mathrel{+}= \frac{\eta_a}{\eta N} F_k\, u_r \cdot x/\sqrt N

    so that with A, B, C of the network at :math:`Q = a X a^T + a G_0 + (a G_0)^T + Q_0`, :math:`R = a G_* + R_0`,

    .. math:: A_u = a^T A a, \quad B_u = a^T [A\; B], \quad C_u = a^T C a, \quad
              \frac{da}{d\alpha} = \frac{\eta_a}{\eta} \big[ A (a X + G_0^T) + B G_*^T \big]

    Parameters
    ----------
    model : Model
        The network, with the rate of the directions; its second layer is fixed.
    state : State
        The frozen student and the teachers: any record of a committee machine of this size.
    a : array_like, shape (K, rank)
        Amplitudes at the start.
    X : array_like, shape (rank, rank) or (L, rank, rank)
        Covariance of the directions' fields, for directions that know nothing of the eigenspaces; or plain overlaps.
    G : array_like, shape (rank, K + M) or (L, rank, K + M), optional
        The same of directions with frozen students and teachers; zeros by default. For L > 1 plain overlaps.
    eta_a : float
        Rate of the amplitudes; 0 keeps them.

    Returns
    -------
    model : LowRank
        For ``solve`` and ``simulate``.
    state : State
        The start, at alpha = 0; its v are the amplitudes.

    Raises
    ------
    ValueError
        Shapes that differ, overlaps of no real vectors, a second layer that is trained, classes, latents, rules.

    Notes
    -----
    Exact for N -> infinity, for every spectrum, activation and schedule. ``traj.Q``, ``traj.R``, ``traj.eps_g`` are
    those of the adapted weights, ``traj.u`` (n, rank, rank) and ``traj.a`` (n, K, rank) those of the directions. With
    rank K, an orthogonal a that stays, and u = 0, it is the training of all weights; an invertible a is another metric.

    References
    ----------
    Hu et al. (2021), arXiv:2106.09685.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> network = ov.committee_machine(2, 2, eta=0.8)
    >>> state = ov.State.from_overlaps(network, Q=np.eye(2) / 2, R=[[0.3, 0.1], [0.1, 0.2]], T=np.eye(2))
    >>> model, start = ov.low_rank(network, state, a=[[0.8], [0.6]], X=[[1.0]], eta_a=0.5)
    >>> traj = ov.solve(model, start, [0.0, 20.0])
    >>> traj.Q.shape, traj.a.shape, bool(traj.eps_g[1] < traj.eps_g[0])
    ((2, 2, 2), (2, 2, 1), True)
    """
    check.needs(model, "low_rank")
    state, K, M, L = checked_start(model, state, "state"), model.K, model.M, model.spectrum.L
    if model.trains_v or state.v.ndim > 1:
        raise ValueError(f"model = {model} trains its second layer; expected eta_v = 0, beside trained amplitudes.")
    a = check.array("a", a, (K, "rank"))
    rank, s, p = a.shape[1], model.spectrum.s[:, None, None], model.spectrum.p[:, None, None]
    if check.axes("X", X) == 2:
        X = p * check.array("X", X, (rank, rank)) / np.sum(s * p)
    G = np.zeros((L, rank, K + M)) if G is None else G
    if L == 1 and check.axes("G", G) == 2:
        G = check.array("G", G, (rank, K + M))[None] / s
    X, G = check.array("X", X, (L, rank, rank)), check.array("G", G, (L, rank, K + M), "Plain overlaps.")
    adapted = LowRank(replace(model, v=state.v), rank, check.number("eta_a", eta_a, least=0))
    return adapted, adapted.enter(State(q=X, r=s * G, tau=s**2 * gram(*state.plain), T=state.S, v=a))
