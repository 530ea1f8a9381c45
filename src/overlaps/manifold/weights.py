"""Explicit weights on the hidden manifold: W, W* and the features F, drawn or given."""

from fractions import Fraction

import numpy as np

from .._base import check, warn
from .ensemble import Weights
from .realisation import checked_features, normalise_feature_rows
from .test_error import drawn

__all__ = ["Weights", "random_weights"]


def random_weights(model, *, N, rng, student_scale=1.0, F=None):
    """Independent weights of a hidden manifold: W of N(0, student_scale^2), W_star of N(0, 1), F with normalised rows.

    Parameters
    ----------
    model : HiddenManifold
        Defines K, M and D = ratio N.
    N : int
        Input dimension.
    rng : int or numpy.random.Generator
        Seed or generator.
    student_scale : float
        Standard deviation of the students' weights, >= 0.
    F : ndarray, shape (N, D), optional
        Features with normalised rows that several runs share; drawn by default.

    Returns
    -------
    Weights
        For ``model.realisation(**weights._asdict())`` (its overlaps) and ``simulate(..., weights=weights)`` (its runs).

    Raises
    ------
    ValueError
        ratio N is not an integer; the message has the nearest N for which it is.

    Examples
    --------
    >>> import overlaps as ov
    >>> from overlaps.manifold.sgd import random_weights
    >>> weights = random_weights(ov.hidden_manifold(2, 1, ratio=0.5, eta=0.2), N=100, rng=1)
    >>> weights.W.shape, weights.W_star.shape, weights.F.shape
    ((2, 100), (1, 50), (100, 50))
    """
    N, scale = check.count("N", N), check.number("student_scale", student_scale, least=0)
    if not hasattr(model, "ratio"):
        raise check.refused("model", model, "one made by ov.hidden_manifold.")
    rng = check.generator(rng)
    D = _latent_dimension(N, model.ratio)
    W, W_star = scale * rng.standard_normal((model.K, N)), rng.standard_normal((model.M, D))
    return Weights(W, W_star, normalise_feature_rows(rng.standard_normal((N, D))) if F is None else F)


def _latent_dimension(N, ratio):
    D = round(N * ratio)
    if D < 1 or abs(D - N * ratio) > 1e-6 * D:
        unit = Fraction(ratio).limit_denominator(10**6).denominator
        raise ValueError(
            f"N = {N} with ratio = {ratio:g} gives D = {N * ratio:g} latents; expected an integer. "
            f"Try N = {max(1, round(N / unit)) * unit}, or pass weights=, which set D."
        )
    return D


def given_weights(model, N, weights, runs, normalise_rows=True):
    """One checked tuple per run: (W, W_star, F) of a manifold, (W, W_star) of others."""
    names = ("W", "W_star", "F") if hasattr(model, "features") else ("W", "W_star")
    sequence = isinstance(weights, tuple | list) and len(weights) > 0
    if sequence and all(isinstance(w, tuple | list) and len(w) == len(names) and np.ndim(w[0]) == 2 for w in weights):
        if len(weights) != runs:
            raise ValueError(
                f"weights has {len(weights)} tuples ({', '.join(names)}); expected one, or runs = {runs} of them."
            )
        checked: dict = {}  # by id, so that runs with the same array F share its normalised copy
        tuples = [_checked_weights(model, N, w, normalise_rows, checked) for w in weights]
        if len(names) == 3 and len({w.F.shape for w in tuples}) > 1:
            raise ValueError(f"the F in weights differ in shape: {[w.F.shape for w in tuples]}; expected one D.")
        return tuples
    if not sequence or len(weights) != len(names):
        raise check.refused("weights", weights, f"({', '.join(names)}), or a list of one such tuple per run.")
    return [_checked_weights(model, N, weights, normalise_rows, {})] * runs


def _checked_weights(model, N, weights, normalise_rows, checked):
    """The arrays of one run, with shapes checked against the model and each other."""
    W = check.array("W", weights[0], (model.K, N))
    if len(weights) == 2:
        return Weights(W, check.array("W_star", weights[1], (model.M, model.Phi.shape[1])))
    if id(weights[2]) not in checked:
        checked[id(weights[2])] = checked_features(model, weights[2], normalise_rows, N)
    F = checked[id(weights[2])]
    return Weights(W, check.array("W_star", weights[1], (model.M, F.shape[1]), f"F has shape {F.shape}."), F)


def check_inputs(model, D, latents, center, chunk):
    """Check the options of the inputs before any run."""
    check.count("chunk", chunk)
    if not callable(latents):
        raise check.refused("latents", latents, "a callable (rng, n, D) such as overlaps.latents.gaussian().")
    drawn(latents, np.random.default_rng(0), 2, D)
    if not check.flag("center", center) and model.features.a != 0:
        warn(
            f"center=False with features = {model.features}, whose mean is a = {model.features.a:.3g}: the inputs have "
            "a mean vector of squared norm a^2 N, so the mean of every student's field jumps by O(1) in each step. "
            "This noise does not average out, and no equation in alpha describes the run. Expected center=True."
            + check.see("hidden_manifold", "Simulation")
        )
