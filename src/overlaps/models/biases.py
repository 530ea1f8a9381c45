"""Trained biases: a constant input, which is a class mean in an eigenspace without variance."""

from dataclasses import fields, replace

import numpy as np

from .._base import ArrayLike, check
from .features import check_features
from .mixture import GaussianMixture
from .model import Model
from .start import checked_start
from .state import State

__all__ = ["biased"]


def biased(
    model: Model, state: State, *, b: ArrayLike, b_star: ArrayLike | None = None, rate: float
) -> tuple[GaussianMixture, State]:
    r"""Units with biases, :math:`\hat y = \sum_k v_k\, g(\lambda_k + b_k)`, those of the students trained.

    .. math:: y = \sum_m v^*_m\, g_*(\nu_m + b^*_m) + \sigma z, \qquad
              b_k \mathrel{-}= \frac{\eta_b}{N}\, v_k g'(\lambda_k + b_k)\, (\hat y - y)

    A bias is the weight of a constant input: one additional class mean in an eigenspace without variance.

    Parameters
    ----------
    model : Model
        A committee machine or a quadratic network on any spectrum, or a Gaussian mixture.
    state : State
        Overlaps of the weights at the start.
    b : array_like, shape (K,)
        Biases of the students at the start.
    b_star : array_like, shape (M,), optional
        Biases of the teachers; zeros by default.
    rate : float
        Learning rate eta_b of the biases, > 0; 1e-6 keeps them fixed for all practical times. A schedule on eta, a
        weight decay and ``batch_size`` act on biases as on weights.

    Returns
    -------
    model : GaussianMixture
        For all functions that take inputs in classes: ``solve``, ``solve_many``, ``simulate``, ``plateaus``, ...
    state : State
        The start. ``traj.biases`` (n, K) are the biases of a solution, ``runs.biases`` (runs, n, K) those of runs.

    Raises
    ------
    ValueError
        Wrong shapes, a rate that is not positive, biases twice; learning rules, teachers of latents or that drift,
        students of fixed norm, frozen students.

    Notes
    -----
    Exact for N -> infinity; ``db/dalpha = (rate / eta) E[F]``. For erf, linear and quadratic students all averages are
    closed forms; C of relu students is an integral. In ``simulate`` the constant input is one more than N.

    References
    ----------
    Refinetti, Goldt, Krzakala and Zdeborova (2021), arXiv:2102.11742, for inputs with means.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> network = ov.committee_machine(1, 1, activation="relu", eta=0.3)
    >>> state = ov.State.from_overlaps(network, Q=[[0.6]], R=[[0.2]], T=[[1.0]])
    >>> model, start = ov.biased(network, state, b=[0.2], b_star=[0.4], rate=0.5)
    >>> ov.solve(model, start, [0.0, 4.0]).biases.round(6)
    array([[0.2     ],
           [0.330524]])
    """
    check_features("biases", model)
    state, K, M = checked_start(model, state, "state"), model.K, model.M
    b = check.array("b", b, (K,))[:, None]
    b_star = check.array("b_star", np.zeros(M) if b_star is None else b_star, (M,))[:, None]
    G = check.number("rate", rate, above=0, hint="A rate of 1e-6 keeps biases fixed.") / model.eta
    model, state = _in_classes(model, state)
    if np.any(model.constant_inputs):
        raise ValueError(f"model = {model} has biases; expected one without, and all biases in one call of ov.biased.")
    inputs = model.spectrum
    inputs = replace(inputs, s=_added(inputs.s), p=_added(inputs.p), name=f"{inputs} and a constant input")
    ratios = np.append(model.ratios, np.ones((model.n_classes, 1)), axis=1)
    model = replace(model, means=None, spectrum=inputs, gram=_added(model.gram, G), ratios=ratios)
    blocks = {"q": b @ b.T / G, "r": 0.0, "tau": 0.0, "m": b, "h": 0.0}  # overlaps of vectors in one direction
    blocks = {name: _added(getattr(state, name), value) for name, value in blocks.items()}
    return model, replace(state, s=None, nu=state.nu + b_star, **blocks).on(model)


def _in_classes(model, state):
    """The problem with inputs in classes: in one class at the origin, if there are none."""
    if model.n_classes:
        return model, state
    data = {field.name: getattr(model, field.name) for field in fields(model)}
    model = GaussianMixture(**data, weights=[1.0], labels=[0.0], gram=np.zeros((state.L, 1, 1)))
    m, h = np.zeros((state.L, state.K, 1)), np.zeros((state.L, state.M, 1))
    return model, replace(state, m=m, h=h, nu=h[0])


def _added(x, value=0.0):
    """An array over blocks with one block more."""
    return np.append(x, np.broadcast_to(value, x[:1].shape), axis=0)
