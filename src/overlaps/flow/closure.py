"""The closure of a model: order parameters -> A, B, C, dv and eps_g."""

from typing import ClassVar, overload

import numpy as np

from .._base import ArrayLike, Immutable, by_name, check
from ..activations.bound import LearningNumbers, outputs
from ..activations.classes import Classes
from ..gaussian.quadrature import gauss_hermite
from ..models.features import check_features
from ..models.model import Model
from ..models.start import check_size
from ..models.state import State, of_state
from ..rules.adaptive_closure import half_correlated
from .binding import bind, bind_units

# Largest number of states whose rounding is estimated at once: 4 MB for four units. Ten times as many need 40 MB.
CHUNK = 1000


class Closure(Immutable):
    """Closure matrices at one state, with their equations in :func:`overlaps.closure`, which makes them.

    Attributes
    ----------
    A, B : ndarray, shape (K, K), (K, M)
        Drift: E[dF_k/dlambda_j], E[dF_k/dnu_m], per unit alpha.
    C : ndarray, shape (K, K)
        Noise of one SGD step, E[F_k F_l], of order eta^2.
    dv : ndarray, shape (K,)
        Velocity of the second layer.
    eps_g : float
        Generalisation error, without the label noise.
    f : ndarray, shape (K,), or None
        E[F_k], where means were given.
    """

    A: np.ndarray
    B: np.ndarray
    C: np.ndarray
    dv: np.ndarray
    eps_g: float
    f: np.ndarray | None = None

    shows: ClassVar[str] = "K={0.B.shape[0]}, M={0.B.shape[1]}, eps_g={0.eps_g:.6g}"


@overload
def closure(state: State, /) -> Closure: ...
@overload
def closure(model: Model, state: State, /) -> Closure: ...
@overload
def closure(
    model: Model,
    Q: ArrayLike,
    R: ArrayLike,
    T: ArrayLike,
    v: ArrayLike | None = ...,
    means: ArrayLike | None = ...,
    label: float = ...,
) -> Closure: ...
@of_state
@by_name("ov.closure(state), or ov.closure(model, Q, R, T)")
def closure(
    model: Model,
    Q: ArrayLike | State,
    R: ArrayLike | None = None,
    T: ArrayLike | None = None,
    v: ArrayLike | None = None,
    means: ArrayLike | None = None,
    label: float = 0.0,
) -> Closure:
    r"""Gaussian averages that drive the order parameters, at one state.

    .. math:: A_{kj} = E[\partial F_k/\partial\lambda_j], \quad B_{km} = E[\partial F_k/\partial\nu_m], \quad
              C_{kl} = E[F_k F_l], \quad dv_k = -\eta_v E[g(\lambda_k)\Delta], \quad \epsilon_g = E[\Delta_0^2]/2

    with :math:`F_k = -\eta v_k g'(\lambda_k)\Delta`, :math:`\Delta = \hat y - y` and :math:`\Delta_0` its part without
    label noise. Fields of one class of :func:`overlaps.gaussian_mixture` have means, and
    :math:`\Delta_0 = \sum_k v_k g(\lambda_k) - \sum_m v^*_m g_*(\nu_m) - y`; the force then has a mean, too,
    :math:`f_k = E[F_k]`.

    Parameters
    ----------
    model : Model
        Activations, second layers, eta, eta_v, noise; that of the state by default, ``closure(state)``.
    Q, R, T : array_like, shape (K, K), (K, M), (M, M)
        Covariances of the student and teacher fields; or a State in their place, with its v.
    v : array_like, shape (K,), optional
        Second layer; the model's by default.
    means : array_like, shape (K + M,), optional
        Means of the student and teacher fields. For erf, quadratic and piecewise-linear units, and for smooth functions
        of at most four fields by quadrature.
    label : float
        The label y of the class, with ``means``.

    Returns
    -------
    Closure
        ``A`` (K, K), ``B`` (K, M), ``C`` (K, K) of one sample, ``dv`` (K,), ``eps_g``; ``f`` (K,) with means. A
        gradient flow does not use C; C is returned all the same, or is nan if integrals are taken by quadrature.

    Raises
    ------
    ValueError
        Wrong shapes, overlaps that are not positive semi-definite, a student with a kink and zero norm, integrals of
        a user function that do not converge.

    Notes
    -----
    Exact to rounding for every pair of a student and a teacher among polynomials (``linear``, ``quadratic``,
    ``polynomial``), piecewise-linear functions with a kink at 0 (``relu``, ``leaky_relu``, ``absolute``) and error
    functions (``erf``, and the sum that represents ``tanh``).  If two fields with kinks are parallel within an angle
    eps, the error of C is 1e-16 / eps.  If one of the two is an :meth:`Activation.from_function`, all averages are
    taken by quadrature: A, B, dv and eps_g to 1e-8, C to its ``tolerance``, or ``ValueError`` is raised.

    References
    ----------
    Saad and Solla (1995), Phys. Rev. E 52, 4225; Yoshida and Okada (2019); Goldt et al. (2020), arXiv:1909.11500. In
    Worschech and Rosenow (2024), arXiv:2410.09005, eps_g is (19) = (94) with the I_2 (89); A and B
    stand for the I_3 (90) of (18), C for the I_4 (91), whose signs are misprinted.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5)
    >>> ov.closure(model, Q=[[1.0]], R=[[0.5]], T=[[1.0]]).eps_g
    0.5
    >>> ov.closure(model.random_start(N=1000, rng=1)).A
    array([[-0.5]])
    """
    check_features("closure", model)
    if model.n_classes and means is None:
        raise ValueError("model has inputs in classes; expected means= of the fields in one of them, and its label=.")
    K, M = model.K, model.M
    if isinstance(Q, State):
        if R is not None or T is not None or v is not None:
            raise ValueError("closure() got a state and R, T or v; expected ov.closure(state), or (model, Q, R, T, v).")
        state = Q.on(model)
        Q, R, T, v = state.Q, state.R, state.T, state.v
    Q, R, T = check.array("Q", Q, (K, K)), check.array("R", R, (K, M)), check.array("T", T, (M, M))
    for name, value in (("Q", Q), ("T", T)):
        check.symmetric(name, value)
    v = model.v if v is None else check.array("v", v, (K,))
    S = np.ascontiguousarray(np.block([[Q, R], [R.T, T]]))
    check.positive_semidefinite("[[Q, R], [R^T, T]]", S, "Overlaps of real vectors always are.")
    check_size(S, "Q, R, T")
    label, w = check.number("label", label), np.concatenate([v, -model.v_star])
    if means is not None:
        bound, S, w = _of_one_class(model, S, w, check.array("means", means, (K + M,)), label)
    elif label:
        raise ValueError(f"label = {label:g} without means; expected means of all fields, zeros if they have none.")
    else:
        bound = bind(model, second_order=True)
    A, B, C, dv = outputs(S, K)
    if model.gradient_flow and bound.by_quadrature and means is None:  # C by quadrature may be too expensive
        bound.change(second_order=False)
        C[...] = np.nan
    bound.check(S, w)
    eps_g = bound(S, w, A, B, C, dv)
    return Closure(A, B[:, :M], C, dv, eps_g, None if means is None else B[:, M])


def _of_one_class(model, S, w, means, label):
    """(Closure, S, w) of inputs in one class, whose centroid is one more static row."""
    learning = LearningNumbers(model.K, model.M + 1, model.eta, model.eta_v, model.noise, True)
    classes = Classes(np.ones(1), np.array([label]), np.ones((1, 1)))
    bound = bind_units(model.activation, model.teacher_activation, learning, classes)
    return bound, np.ascontiguousarray(np.block([[S, means[:, None]], [means, 0.0]])), np.append(w, 0.0)


def _rounding_floor_of_rule(model, S, v):
    """``rounding_floor`` of the error that a learning rule records: its change if norms in S grow by their rounding.

    The relative growth is machine precision, or twice the negative eigenvalue of S if that is larger. The result is at
    least machine precision times the error at half the correlations.
    """
    eps, n = np.finfo(float).eps, S.shape[2]
    groups = S.reshape(len(S), -1, n, n)
    negative = np.max(-np.linalg.eigvalsh(groups)[..., 0] / np.trace(groups, axis1=2, axis2=3), axis=1)
    perturbed = (groups * (1 + np.maximum(2 * negative, eps)[:, None, None, None] * n * np.eye(n))).reshape(S.shape)
    error, changed, typical = (generalisation_error(model, x, v) for x in (S, perturbed, half_correlated(S)))
    return np.maximum(np.abs(changed - error), eps * typical)


def check_domain(model, S, v):
    """Raise ``ValueError`` for field covariances at which the closure is undefined or not accurate enough."""
    bind(model).check(S, np.concatenate([v, -model.v_star]))


def generalisation_error(model, S, v):
    """eps_g (n,) at field covariances S (n, K + M, K + M) and second layers v (n, K)."""
    w = np.ascontiguousarray(np.concatenate([v, np.broadcast_to(-model.v_star, (len(v), model.M))], axis=1))
    return bind(model, second_order=False).errors(S, w)


def rounding_floor(model, S, v):
    """Rounding error (n,) of eps_g at field covariances S (n, K + M, K + M): eps times the terms that cancel in it."""
    if len(S) > CHUNK:
        parts = [slice(i, i + CHUNK) for i in range(0, len(S), CHUNK)]
        return np.concatenate([rounding_floor(model, S[i], v[i]) for i in parts])
    if model.rule is not None:
        return _rounding_floor_of_rule(model, S, v)
    x, weight = gauss_hermite(40)
    if not model.n_classes:
        means, S = np.zeros((len(S), 1, S.shape[1])), S[:, None]
    else:
        means, S = bind(model, second_order=False).fields(S)
    fields = means[..., None] + np.sqrt(np.maximum(np.diagonal(S, axis1=2, axis2=3), 0.0))[..., None] * x
    K = model.K
    g = np.concatenate([model.activation.g(fields[:, :, :K]), model.teacher_activation.g(fields[:, :, K:])], axis=2)
    size = np.sqrt(np.max(np.square(g) @ weight, axis=1))
    w = np.concatenate([np.abs(v), np.broadcast_to(np.abs(model.v_star), (len(v), model.M))], axis=1)
    labels = np.max(np.abs(model.classes.labels), initial=0.0)
    return np.finfo(float).eps * (np.sum(w * size, axis=1) + labels) ** 2
