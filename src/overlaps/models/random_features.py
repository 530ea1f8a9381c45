"""Linear students on random features of their inputs: eigenvalues, a teacher on the features, and what they miss."""

from typing import Any

import numpy as np

from .._base import ArrayLike, Rng, by_name, check
from ..activations import linear
from .model import Model, committee_machine
from .spectrum import Spectrum
from .state import State

__all__ = ["random_features"]


@by_name("ov.random_features(W=W, covariance=Sigma, teacher=w_star, eta=0.1)")
def random_features(
    *, W: ArrayLike | None = None, covariance: ArrayLike | None = None, teacher: ArrayLike | None = None,
    alpha: float | None = None, beta: float | None = None, V: int | None = None, D: int | None = None,
    rng: Rng | None = None, student: ArrayLike | None = None, eta: float, noise: float = 0.0, **learning: Any,
) -> tuple[Model, State]:  # fmt: skip
    r"""Linear student on V features :math:`W^T x`, linear teacher on the D inputs x themselves.

    .. math:: \hat y = \frac{w \cdot W^T x}{\sqrt V}, \qquad y = \frac{w^* \cdot x}{\sqrt D} + \sigma z, \qquad
              x \sim N(0, \Sigma)

    The features are Gaussian with covariance :math:`W^T \Sigma W`; the component of the teacher that no student on
    them has is independent of them. This is therefore an ordinary linear model with N = V inputs, whose label noise is

    .. math:: \sigma^2 + \min_w E[(\hat y - w^* \cdot x/\sqrt D)^2].

    Parameters
    ----------
    W : array_like, shape (D, V)
        The features. Either these, ``covariance`` and ``teacher``, or the four numbers that follow.
    covariance : array_like, shape (D, D) or (D,)
        Covariance Sigma of the inputs, or the variances of independent inputs.
    teacher : array_like, shape (D,)
        Weights w* of the teacher.
    alpha, beta : float
        Power laws :math:`x_j \sim N(0, j^{-2\alpha})` and :math:`y = \sum_j j^{-\beta} x_j + \sigma z`; the entries of
        W are N(0, 1). In :mod:`overlaps.theory.scaling` these exponents are (1 + beta)/2 and ``source``.
    V, D : int
        Numbers of features and of inputs.
    rng : int or numpy.random.Generator
        Seed or generator of W.
    student : array_like, shape (V,), optional
        Weights w at the start; zeros by default.
    eta, noise, **learning
        ``eta``, ``noise`` (sigma), ``weight_decay``, ``batch_size``, ``gradient_flow``, ... of
        :func:`overlaps.committee_machine`. A step is ``w -= eta Delta W^T x / sqrt(V)``, time is steps / V.

    Returns
    -------
    model : Model
        A linear committee machine, K = M = 1, for all functions. ``model.noise**2 / 2`` is the error that the features
        leave, and sigma^2/2; ``traj.eps_g`` does not contain it.
    state : State
        The start of this student.

    Raises
    ------
    ValueError
        Wrong shapes, a covariance that is not positive semi-definite, arguments of both kinds or of neither.

    Notes
    -----
    Exact for this W. Power laws have eigenvalues of order V, for which ``ov.solve`` requires a small eta; the mean of
    SGD at any eta is :func:`overlaps.theory.linear.sgd_mean`. For V = D and invertible W the student is the full one.

    References
    ----------
    Paquette, Paquette, Xiao and Pennington (2024), arXiv:2405.15074, whose gamma is ``eta``, v is D and d is V.

    Examples
    --------
    >>> import overlaps as ov
    >>> model, start = ov.random_features(alpha=0.8, beta=0.4, V=20, D=80, rng=1, eta=0.1)
    >>> ov.solve(model, start, [0.0, 100.0]).eps_g.round(4), round(model.noise**2 / 2, 4)
    (array([0.6194, 0.0068]), 0.0715)
    """
    matrices = {"W": W, "covariance": covariance, "teacher": teacher}
    numbers = {"alpha": alpha, "beta": beta, "V": V, "D": D, "rng": rng}
    given = [name for name, x in (matrices | numbers).items() if x is not None]
    if given == [*numbers]:
        W, covariance, teacher = _power_laws(alpha, beta, check.count("V", V), check.count("D", D), rng)
    elif given != [*matrices]:
        raise ValueError(
            f"got {', '.join(given) or 'neither'}; expected W, covariance and teacher, or alpha, beta, V, D and rng."
        )
    W = check.array("W", W, ("D", "V"), filled=True)
    teacher = check.array("teacher", teacher, (len(W),), f"W has shape {W.shape}.") / np.sqrt(len(W))
    student = check.array("student", np.zeros(W.shape[1]) if student is None else student, (W.shape[1],))
    noise = check.number("noise", noise, least=0)
    *columns, target = _whitened(covariance, np.column_stack([W, teacher])).T
    features = np.transpose(columns)
    spectrum = Spectrum.from_covariance(features.T @ features)
    s, modes = np.repeat(spectrum.s, spectrum.block_sizes(len(student))), features @ spectrum.basis
    seen = np.divide(modes.T @ target, s, out=np.zeros_like(s), where=s > 0)  # teacher along the eigenvectors
    missed = target - modes @ seen
    model = committee_machine(
        1, 1, activation=linear, spectrum=spectrum, eta=eta, noise=float(np.hypot(noise, np.linalg.norm(missed))),
        **learning,
    )  # fmt: skip
    W_star = np.sqrt(len(student)) * spectrum.basis @ seen
    return model, State.from_weights(model, W=student[None], W_star=W_star[None])


def _whitened(covariance, X):
    """Weights (D, n) on independent inputs of variance one in place of X (D, n)."""
    if check.axes("covariance", covariance) == 1:
        variances = check.array("covariance", covariance, (len(X),), "One variance for each row of W.")
        if np.any(variances < 0):
            raise check.refused("covariance", variances.tolist(), "variances >= 0.")
        return np.sqrt(variances)[:, None] * X
    covariance = check.array("covariance", covariance, (len(X),) * 2, "One row for each row of W.")
    check.symmetric("covariance", covariance)
    check.positive_semidefinite("covariance", covariance, "Covariances are; check its signs.")
    values, vectors = np.linalg.eigh(covariance)
    return np.sqrt(np.maximum(values, 0.0))[:, None] * (vectors.T @ X)


def _power_laws(alpha, beta, V, D, rng):
    """Random features (D, V), the variances of the inputs and the teacher, with power laws j^-2alpha and j^-beta."""
    j = np.arange(1.0, D + 1)
    alpha, beta = check.number("alpha", alpha), check.number("beta", beta)
    W = check.generator(rng).standard_normal((D, V))
    return W, j ** (-2 * alpha), np.sqrt(D) * j**-beta
