"""Fewer blocks with the same dynamics: block Gauss quadrature of the overlaps over the eigenvalues."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .._base import ArrayLike, by_name, check, warn
from ..flow.system import System, fastest_rate
from ..integrators.evolve import evolve
from ..models import Model, Spectrum, State
from ..models.features import check_features
from ..models.state import of_state


class KrylovOptions(NamedTuple):
    """Tunable numbers of the block Gauss quadrature."""

    n_powers: int = 3  # Leading functions that are powers of s; moments of s of order below twice this are exact.
    # Fraction of the trace in the lowest eigenvalues. Poles are placed above it, because the error below is smaller.
    uncovered_trace: float = 1e-7
    # Fewest further functions of the finer quadrature in an error estimate. With one the estimate is wrong by up to a
    # factor of 2.5 (empirical).
    min_extra_functions: int = 3
    # Length of a new direction relative to its function below which it is rounding and is dropped. Smaller: rounding
    # becomes nodes.
    dependence_tol: float = 1e-12


KRYLOV = KrylovOptions()


@of_state
@by_name("ov.compress(state, 48)")
def compress(model: Model, state: State, nodes: int, *, until: float | None = None) -> tuple[Model, State]:
    r"""Replace the spectrum by about ``nodes`` eigenvalues on which Q, R and v evolve as before.

    With :math:`z_l` a square root of the plain block overlaps, the dynamics depends on the data through the two
    measures

    .. math:: G(s) = \sum_l \delta(s - s_l) \begin{pmatrix} q^l & r^l \\ r^{lT} & t^l \end{pmatrix}, \qquad
              \rho(s) = \sum_l p_l\, \delta(s - s_l)

    (equations linear in q, r, with the source :math:`s_l p_l C`). Each is replaced by a Gauss quadrature: the
    eigenvalues (Ritz values) of :math:`S = \mathrm{diag}(s_l)` in the block Krylov space of functions
    :math:`f(S) Z`. Nodes of G have overlaps of rank one and p = 0, nodes of rho have p and no overlaps.

    Parameters
    ----------
    model : Model
        Its spectrum is compressed; the model of the state by default, ``compress(state, nodes)``.
    state : State
        Start of the trajectory. The nodes belong to this state, to its random draw or its actual weights.
    nodes : int
        Size of the new spectrum, at least K + M + 1; nodes // (K + M + 1) functions f are used. The result has
        fewer nodes where the overlaps span fewer directions.
    until : float, optional
        Largest alpha of interest. Directions too slow to move until then need no nodes of their own: on a power law the
        others become 10 to 100 times more accurate. By default the quadrature holds at all times.

    Returns
    -------
    model : Model
        The same with another spectrum.
    state : State
        The same Q, R, T, v on its blocks. Both are returned unchanged where ``nodes`` is at least L.

    Raises
    ------
    ValueError
        Too few nodes, or a state that does not fit the model.

    Notes
    -----
    Exact: Q, R, T, v at the start, sum p = 1, and (without ``until``) the moments
    :math:`\sum_l s_l^j (q^l, r^l, t^l)`, :math:`\sum_l s_l^j p_l` for j <= 5 (2 i - 1 with i < 3 functions). The first
    functions are powers, as in block Lanczos; the further ones are resolvents :math:`(S + c)^{-1}` with poles spaced
    geometrically over the spectrum, or from its top to the eigenvalue that is learned at ``until``, because the
    exact solution is made of :math:`e^{-a s \alpha}` on all time scales. The error falls exponentially with the number
    of nodes and grows slowly with alpha. Measured for K = M = 2, largest error of Q, R: 1e-8 from 60 nodes for a random
    covariance with L = N = 2000, to alpha = 60; from 105 nodes for ``power_law(beta=1, L=2000)``, to alpha = 10; and
    with ``until``, L = 400, from 40 nodes to alpha = 3, from 60 to alpha = 30. A plateau amplifies every error,
    and more units need more nodes: with K = M = 4, eta = 0.5 and one random start, 40 nodes leave 2e-2 at
    alpha = 300. :func:`compression_error` estimates it for a given model and state.

    A compressed spectrum corresponds to no N: simulate with the original one.

    References
    ----------
    Golub and Meurant, Matrices, Moments and Quadrature (2010), for block Gauss rules; Guettel (2013), GAMM-Mitt. 36,
    8, for rational Krylov spaces. The application to order parameters is new here.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> model = ov.committee_machine(1, 1, eta=0.5, spectrum=ov.power_law(beta=1.0, L=200))
    >>> start = model.random_start(N=2000, rng=1)
    >>> small, begin = ov.compress(model, start, 48)
    >>> small.spectrum.L
    48
    >>> full, quick = ov.solve(model, start, [0, 5]), ov.solve(small, begin, [0, 5])
    >>> bool(np.allclose(full.Q, quick.Q, rtol=0, atol=1e-8))
    True
    """
    check_features("compress", model)
    state = check.state(state, "state").on(model)
    width = model.K + model.second_layers.size
    nodes = check.count("nodes", nodes)
    until = None if until is None else check.number("until", until, above=0)
    if nodes < width + 1:
        raise ValueError(f"nodes = {nodes}; expected at least K + M + 1 = {width + 1}, one for each vector and p.")
    s, p = model.spectrum.s, model.spectrum.p
    if nodes >= s.size:
        return model, state
    steps = nodes // (width + 1)
    # the eigenvalue whose direction relaxes in the time ``until``
    slowest = 0.0 if until is None else s.max() / (fastest_rate(System(model, state)) * until)
    modes, Z, lengths = _roots(s, model.plain_overlaps(state))
    theta, Z = _gauss_quadrature(modes, Z, steps, slowest)
    rho, root = _gauss_quadrature(s, np.sqrt(p)[:, None], nodes - width * steps, slowest)
    new_s = np.concatenate([theta, rho])
    new_p = np.concatenate([np.zeros(theta.size), root[:, 0] ** 2])
    Z = np.concatenate([Z * lengths, np.zeros((rho.size, width))])
    order = np.argsort(-new_s)
    new_s, new_p, Z = new_s[order], new_p[order], Z[order]
    W, W_star, centroids = np.split(Z, [model.K, model.K + model.M], axis=1)
    W_star = new_s[:, None] * W_star
    fields, overlaps = {"spectrum": Spectrum(new_s, new_p / new_p.sum())}, {}
    if model.n_classes:
        fields |= {"means": None, "gram": _outer(centroids, centroids), "ratios": model.classes.ratios}  # type: ignore[dict-item]
        overlaps = {"m": _outer(W, centroids), "h": _outer(W_star, centroids), "nu": state.nu}
    overlaps |= {"q": _outer(W, W), "r": _outer(W, W_star), "tau": _outer(W_star, W_star)}
    model = replace(model, **fields)  # type: ignore[arg-type]
    return model, State(T=state.T, v=state.v, alpha=state.alpha, **overlaps).on(model)


def _outer(x, y):
    """Outer products (n, k, j) of the rows of x (n, k) and y (n, j)."""
    return x[:, :, None] * y[:, None]


@of_state
@by_name("ov.compression_error(state, 48, [0.0, 10.0])")
def compression_error(
    model: Model, state: State, nodes: int, alpha: ArrayLike, *, until: float | None = None, **options: Any
) -> float:
    """Estimate the error of ``compress(model, state, nodes, until=until)`` without the full spectrum.

    Parameters
    ----------
    model, state : Model, State
        As in :func:`compress`.
    nodes : int
        Number of nodes whose error is estimated.
    alpha : array_like
        Times of the comparison, as in :func:`overlaps.solve`.
    until : float, optional
        As in :func:`compress`.
    **options
        Passed to :func:`overlaps.solve`; the estimate is limited by ``rtol`` (1e-10 by default).

    Returns
    -------
    float
        Largest difference of any entry of Q, R, at any time, between ``nodes`` and half as many nodes again, at least
        3 (K + M + 1) more.

    Raises
    ------
    ValueError
        As in :func:`compress` and :func:`overlaps.solve`.

    Notes
    -----
    Heuristic, as every comparison of two resolutions: the finer quadrature is taken as exact. Where nodes are too few
    the estimate is right up to a factor of about 3.

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.committee_machine(1, 1, eta=0.5, spectrum=ov.power_law(beta=1.0, L=200))
    >>> start = model.random_start(N=2000, rng=1)
    >>> fine, coarse = (ov.compression_error(model, start, n, [5.0], rtol=1e-10) for n in (48, 12))
    >>> fine < 1e-8 < coarse
    True
    """
    options = {"rtol": 1e-10} | options
    pairs = [compress(model, state, nodes, until=until)]
    # at least ``min_extra_functions`` further functions: further nodes alone may add none
    more = max(nodes // 2, KRYLOV.min_extra_functions * (model.K + model.second_layers.size + 1))
    pairs.append(compress(model, state, nodes + more, until=until))
    solutions = [evolve(small, begin, alpha, **options) for small, begin in pairs]
    for solution in solutions:
        if not solution.success:
            warn(solution.message + check.see("integration", "Failed runs"))
    coarse, fine = (_fields(small, solution) for (small, _), solution in zip(pairs, solutions, strict=True))
    return float(max(np.max(np.abs(a - b)) for a, b in zip(coarse, fine, strict=True)))


def _fields(model, solution):
    """Q and R of a solution."""
    return np.einsum("l,nlij->nij", model.spectrum.s, solution.q), solution.r.sum(axis=1)


def _roots(s, joint):
    """(eigenvalues (n,), Z (n, b), lengths (b,)): the rows of Z * lengths that belong to s_l have the Gram matrix G_l.

    The columns of Z have unit length, so that small students are as accurate as large teachers.
    """
    lengths = np.sqrt(np.maximum(np.diagonal(joint.sum(axis=0)), 0.0))
    scale = np.where(lengths > 0, lengths, 1.0)
    values, vectors = np.linalg.eigh(joint / np.outer(scale, scale))
    positive = values > 0  # the others are rounding
    roots = (vectors * np.sqrt(np.maximum(values, 0.0))[:, None]).swapaxes(1, 2)
    return np.repeat(s, positive.sum(axis=1)), roots[positive], lengths


def _gauss_quadrature(s, Z, steps, slowest):
    """Nodes theta (n,) and vectors y (n, b), n <= steps b, with sum_i f(theta_i) y_i y_i^T = Z^T f(diag s) Z.

    For f = f_i f_j and f = s f_i f_j, where f_i are the filters: a Rayleigh-Ritz projection on the span of f_i(S) Z.
    """
    basis = np.empty((s.size, 0))
    for f in _filters(s, np.sum(Z**2, axis=1), steps, slowest):
        basis = np.concatenate([basis, _new_directions(basis, f[:, None] * Z)], axis=1)
    theta, vectors = np.linalg.eigh(basis.T @ (s[:, None] * basis))
    return np.clip(theta, s.min(), s.max()), vectors.T @ (basis.T @ Z)


def _filters(s, weight, steps, slowest):
    """Values at s of the functions that span the space: powers of s, then c / (s + c) with poles -c."""
    top = s.max()
    order = np.argsort(s)
    trace = np.cumsum((s * weight)[order])
    if trace[-1] == 0:
        return [np.ones_like(s)]
    low = s[order][np.searchsorted(trace, KRYLOV.uncovered_trace * trace[-1])]
    low = min(max(low, slowest), top)
    n_powers = min(steps, 1 if slowest else KRYLOV.n_powers)
    powers = [(s / top) ** j for j in range(n_powers)]
    poles = np.geomspace(top, low, 2 * (steps - n_powers) + 1)[1::2]
    return powers + [c / (s + c) for c in poles]


def _new_directions(basis, X):
    """Orthonormal basis of the directions that X (n, b) adds to ``basis``; dependent ones are dropped."""
    size = np.linalg.norm(X)
    for _ in range(2):  # the second pass removes the rounding of the first
        X = X - basis @ (basis.T @ X)
    directions, values, _ = np.linalg.svd(X, full_matrices=False)
    independent = directions[:, values > KRYLOV.dependence_tol * size]
    return np.linalg.qr(independent - basis @ (basis.T @ independent))[0]
