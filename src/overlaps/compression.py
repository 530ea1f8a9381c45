"""Fewer blocks with the same dynamics: block Gauss quadrature of the overlaps over the eigenvalues."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ._base import ArrayLike, check, warn
from .flow.system import System, fastest_rate
from .integrators.evolve import evolve
from .models import Model, Spectrum, State
from .models.features import check_features

MOMENTS = 3  # leading filters are powers of s: moments below 2 * MOMENTS come out exactly
# Share of the trace in the lowest eigenvalues. Below, they need no poles of their own: nothing of the error is there.
UNSEEN = 1e-7
EXTRA = 3  # functions more, at least, in the rule that judges another one; one more errs by a factor of 2.5
# Length of a new direction relative to where it came from. Below, it is rounding, and would enter the rule as a node of
# its own.
DEPENDENT = 1e-12


def compress(model: Model, state: State, nodes: int, *, until: float | None = None) -> tuple[Model, State]:
    r"""Replace the spectrum by about ``nodes`` eigenvalues on which Q, R and v evolve as before.

    With :math:`z_l` a square root of the plain block overlaps, the dynamics sees the data through the two measures

    .. math:: G(s) = \sum_l \delta(s - s_l) \begin{pmatrix} q^l & r^l \\ r^{lT} & t^l \end{pmatrix}, \qquad
              \rho(s) = \sum_l p_l\, \delta(s - s_l)

    (equations linear in q, r, source :math:`s_l p_l C`). Each is replaced by a Gauss rule: the eigenvalues (Ritz
    values) of :math:`S = \mathrm{diag}(s_l)` in the block Krylov space of functions :math:`f(S) Z`. Nodes of G carry
    overlaps of rank one and p = 0, nodes of rho carry p and no overlaps.

    Parameters
    ----------
    model : Model
        Its spectrum is compressed.
    state : State
        Where the trajectory starts: the nodes belong to this state, to its random draw or its actual weights.
    nodes : int
        Size of the new spectrum, at least K + M + 1; nodes // (K + M + 1) functions f are used. The result has
        fewer nodes where the overlaps span fewer directions.
    until : float, optional
        Largest alpha of interest. Directions too slow to move until then need no nodes of their own: on a power law the
        others become 10 to 100 times more accurate. By default the rule serves at all times.

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
    geometrically over the spectrum, or from its top to the eigenvalue that is learned ``until`` the end, because the
    exact solution is made of :math:`e^{-a s \alpha}` on all time scales. The error falls exponentially with the number
    of nodes and grows slowly with alpha. Measured for K = M = 2, largest error of Q, R: 1e-8 from 60 nodes for a random
    covariance with L = N = 2000, to alpha = 60; from 105 nodes for ``power_law(beta=1, L=2000)``, to alpha = 10; and
    with ``until``, L = 400, from 40 nodes to alpha = 3, from 60 to alpha = 30. A plateau amplifies every error, this
    one too, and more units need more nodes: with K = M = 4, eta = 0.5 and one random start, 40 nodes leave 2e-2 at
    alpha = 300. :func:`compression_error` measures it for the case at hand.

    A compressed spectrum belongs to no N: simulate with the original one.

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
    # test: tests/test_compress.py::test_two_thousand_given_weights
    # test: tests/test_compress.py::test_a_horizon_saves_nodes
    # test: tests/test_compress.py::test_many_units_behind_a_plateau_need_more_than_a_few_dozen_nodes
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
    # the eigenvalue whose direction relaxes until then
    slowest = 0.0 if until is None else s.max() / (fastest_rate(System(model, state)) * until)
    modes, Z, lengths = _roots(s, model.plain_overlaps(state))
    theta, Z = _gauss_rule(modes, Z, steps, slowest)
    rho, root = _gauss_rule(s, np.sqrt(p)[:, None], nodes - width * steps, slowest)
    new_s = np.concatenate([theta, rho])
    new_p = np.concatenate([np.zeros(theta.size), root[:, 0] ** 2])
    Z = np.concatenate([Z * lengths, np.zeros((rho.size, width))])
    order = np.argsort(-new_s)
    new_s, new_p, Z = new_s[order], new_p[order], Z[order]
    W, W_star, centroids = np.split(Z, [model.K, model.K + model.M], axis=1)
    W_star = new_s[:, None] * W_star
    small, parts = {"spectrum": Spectrum(new_s, new_p / new_p.sum())}, {}
    if model.n_classes:
        small |= {"means": None, "gram": _outer(centroids, centroids), "ratios": model.classes.ratios}  # type: ignore[dict-item]
        parts = {"m": _outer(W, centroids), "h": _outer(W_star, centroids), "nu": state.nu}
    parts |= {"q": _outer(W, W), "r": _outer(W, W_star), "tau": _outer(W_star, W_star)}
    model = replace(model, **small)  # type: ignore[arg-type]
    return model, State(T=state.T, v=state.v, alpha=state.alpha, **parts).on(model)


def _outer(x, y):
    """Outer products (n, k, j) of the rows of x (n, k) and y (n, j)."""
    return x[:, :, None] * y[:, None]


def compression_error(
    model: Model, state: State, nodes: int, alpha: ArrayLike, *, until: float | None = None, **options: Any
) -> float:
    """Estimate the error of ``compress(model, state, nodes, until=until)`` without the full spectrum.

    Parameters
    ----------
    model, state : Model, State
        As in :func:`compress`.
    nodes : int
        Number of nodes to be judged.
    alpha : array_like
        Times of the comparison, as in :func:`overlaps.solve`.
    until : float, optional
        As in :func:`compress`.
    **options
        Passed to :func:`overlaps.solve`; the estimate sees nothing below ``rtol`` (1e-10 by default).

    Returns
    -------
    float
        Largest difference of any entry of Q, R, at any time, between ``nodes`` and half as many nodes again, at least
        3 (K + M + 1) more.

    Raises
    ------
    ValueError
        As in :func:`compress` and :func:`overlaps.solve`; alpha given as an interval.

    Notes
    -----
    Heuristic, as every comparison of two resolutions: the finer rule is taken for the truth. Where nodes are too few
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
    if isinstance(alpha, tuple):
        raise ValueError(f"alpha = {alpha} is an interval; expected an array of times, at which both rules are known.")
    options = {"rtol": 1e-10} | options
    rules = [compress(model, state, nodes, until=until)]
    # a finer rule has further functions, not only further nodes
    more = max(nodes // 2, EXTRA * (model.K + model.second_layers.size + 1))
    rules.append(compress(model, state, nodes + more, until=until))
    solutions = [evolve(small, begin, alpha, **options) for small, begin in rules]
    for solution in solutions:
        if not solution.success:
            warn(solution.message + check.see("integration", "When it does not end well"))
    coarse, fine = (_fields(small, solution) for (small, _), solution in zip(rules, solutions, strict=True))
    return float(max(np.max(np.abs(a - b)) for a, b in zip(coarse, fine, strict=True)))


def _fields(model, solution):
    """Q and R of a solution."""
    return np.einsum("l,nlij->nij", model.spectrum.s, solution.q), solution.r.sum(axis=1)


def _roots(s, joint):
    """(eigenvalues (n,), rows Z (n, b), lengths (b,)): rows of Z * lengths that belong to s_l have the Gram matrix G_l.

    The columns of Z have unit length, so that small students get as many digits as large teachers.
    """
    lengths = np.sqrt(np.maximum(np.diagonal(joint.sum(axis=0)), 0.0))
    scale = np.where(lengths > 0, lengths, 1.0)
    values, vectors = np.linalg.eigh(joint / np.outer(scale, scale))
    kept = values > 0  # the others are rounding
    rows = (vectors * np.sqrt(np.maximum(values, 0.0))[:, None]).swapaxes(1, 2)
    return np.repeat(s, kept.sum(axis=1)), rows[kept], lengths


def _gauss_rule(s, Z, steps, slowest):
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
    _static_factors = np.cumsum((s * weight)[order])
    if _static_factors[-1] == 0:
        return [np.ones_like(s)]
    low = s[order][np.searchsorted(_static_factors, UNSEEN * _static_factors[-1])]
    low = min(max(low, slowest), top)
    moments = min(steps, 1 if slowest else MOMENTS)
    powers = [(s / top) ** j for j in range(moments)]
    poles = np.geomspace(top, low, 2 * (steps - moments) + 1)[1::2]
    return powers + [c / (s + c) for c in poles]


def _new_directions(basis, X):
    """Orthonormal basis of what X (n, b) adds to ``basis``; dependent directions are dropped."""
    size = np.linalg.norm(X)
    for _ in range(2):  # twice is enough
        X = X - basis @ (basis.T @ X)
    directions, values, _ = np.linalg.svd(X, full_matrices=False)
    independent = directions[:, values > DEPENDENT * size]
    return np.linalg.qr(independent - basis @ (basis.T @ independent))[0]
