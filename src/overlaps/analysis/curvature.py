"""The Hessian of the population error over all weights, from the overlaps alone."""

from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
import scipy

from .._base import ArrayLike, Floats, Immutable, Numbers, by_name, check
from ..activations.bound import outputs
from ..flow.binding import bind
from ..flow.closure import check_domain
from ..models.features import check_features
from ..models.model import Model
from ..models.state import State, gram, of_state
from ..results import StagedTrajectory, Trajectory, plotting
from ..stability.linear import check_dense


class HessianOptions(NamedTuple):
    """Tunable numbers of the Hessian spectrum."""

    # Outliers below this fraction of the largest count as zero when negative ones are counted: the error does not
    # depend on their directions, and rounding gives them either sign.
    zero_tol: float = 1e-12
    # Eigenvalues of the joint overlaps below this fraction of the largest are set to zero. Their square roots, about
    # 1e-8 in units of the largest, would split degenerate eigenvalues.
    overlap_tol: float = 1e-14
    peak_width: float = 1 / 200  # Width of a peak of the density, as a fraction of the range of the eigenvalues.


HESSIAN = HessianOptions()


class HessianSpectrum(Immutable):
    """Bulk and outliers of the Hessian of eps_g; made by :func:`overlaps.hessian`, with the equations there.

    At one state the arrays have the shapes below; along a trajectory they have a leading axis of records, and
    ``spectrum[i]`` belongs to one record.

    Attributes
    ----------
    model : Model
        Model of the error.
    alpha : None, float or ndarray, shape (n,)
        Learning time of the records; None for a state.
    eps_g : float or ndarray, shape (n,)
        Generalisation error there.
    bulk : ndarray, shape (L, K)
        Eigenvalues of s_l H_KK, in increasing order; each is one of the Hessian N p_l - K - M times.
    outliers : ndarray, shape (m,)
        Eigenvalues of ``block``, in increasing order.
    block : ndarray, shape (m, m)
        The Hessian in the space of students and teachers, m = (K + M) K L, and K more where v is trained.
    dQ, dR, dv : ndarray, shape (m, K, K), (m, K, M), (m, K)
        First-order change of the overlaps and of v along each eigenvector of ``block``, of length one.
    """

    model: Model
    alpha: Any
    eps_g: Any
    bulk: np.ndarray
    outliers: np.ndarray
    block: np.ndarray
    dQ: np.ndarray
    dR: np.ndarray
    dv: np.ndarray

    def __len__(self) -> int:
        return len(self.outliers) if self.outliers.ndim > 1 else 1

    def __getitem__(self, index: Any) -> "HessianSpectrum":
        if self.outliers.ndim == 1:
            raise TypeError("this is the Hessian of one state; only that of a trajectory has records.")
        values = {f.name: getattr(self, f.name)[index] for f in fields(self) if f.name != "model"}
        return HessianSpectrum(self.model, **values)

    def multiplicities(self, N: int) -> Floats:
        """Multiplicity of each bulk eigenvalue at input dimension N, N p_l - K - M (L,).

        Raises
        ------
        ValueError
            An eigenspace of the inputs has fewer than K + M dimensions.
        """
        N, least, p = check.count("N", N), self.model.K + self.model.M, self.model.spectrum.p
        if np.any((p > 0) & (N * p < least)):
            raise ValueError(
                f"N = {N} leaves {N * p[p > 0].min():g} dimensions to an eigenspace; expected K + M = {least} or more: "
                f"N >= {int(np.ceil(least / p[p > 0].min()))}, or fewer blocks (ov.compress)."
            )
        return np.where(p > 0, N * p - least, 0.0)

    def negative(self, N: int) -> Numbers:
        """Number of negative eigenvalues at input dimension N (the index of a stationary point), (n,) or a float."""
        counts = np.sum(self.bulk < -self._zero[..., None], axis=-1) @ self.multiplicities(N)
        return counts + np.sum(self.outliers < -self._zero, axis=-1)

    @property
    def negative_fraction(self) -> Numbers:
        """Fraction of negative eigenvalues as N -> infinity: their number / (K N), (n,) or a float."""
        return np.sum(self.bulk < -self._zero[..., None], axis=-1) @ self.model.spectrum.p / self.model.K

    @property
    def _zero(self):
        """Size (n, 1) below which eigenvalues are rounding."""
        return HESSIAN.zero_tol * np.max(np.abs(self.outliers), axis=-1, keepdims=True)

    def density(self, x: ArrayLike, N: int | None = None, width: float | None = None) -> Floats:
        """Density of all eigenvalues at x, of integral one, for the Hessian of one state.

        Parameters
        ----------
        x : array_like, shape (...)
            Positions.
        N : int, optional
            Input dimension; without it N -> infinity, where outliers have no weight.
        width : float, optional
            Standard deviation of the Gaussian that replaces each eigenvalue; by default 1/200 of their range.

        Returns
        -------
        ndarray, shape (...)

        Raises
        ------
        ValueError
            An eigenspace with fewer than K + M dimensions; the Hessian of a whole trajectory.
        """
        if self.outliers.ndim > 1:
            raise ValueError("a density belongs to one state; pick a record, hessian[i].density(x).")
        K, p, x = self.model.K, self.model.spectrum.p, check.array("x", x, (...,))
        values, weights = self.bulk.ravel(), np.repeat(p if N is None else self.multiplicities(N), K)
        if N is not None:
            values, weights = np.append(values, self.outliers), np.append(weights, np.ones(self.outliers.size))
        span = max(np.ptp(np.append(self.bulk, self.outliers)), 1e-300)
        width = span * HESSIAN.peak_width if width is None else check.number("width", width, above=0)
        peaks = np.exp(-0.5 * ((x[..., None] - values) / width) ** 2) / (np.sqrt(2 * np.pi) * width)
        return peaks @ (weights / weights.sum())

    plot = plotting.eigenvalues

    def __repr__(self):
        records = f"{len(self)} records, " if self.outliers.ndim > 1 else ""
        return (
            f"HessianSpectrum({records}bulk {self.bulk.min():.4g} to {self.bulk.max():.4g}, "
            f"{self.outliers.shape[-1]} outliers {self.outliers.min():.4g} to {self.outliers.max():.4g})"
        )


@of_state
@by_name("ov.hessian(state)")
def hessian(model: Model, state: State | Trajectory) -> "HessianSpectrum":
    r"""Spectrum of the Hessian of the generalisation error over all weights, from the overlaps alone.

    With weights of length :math:`\sqrt{Q_{kk}}` (w_k / sqrt(N)), inputs of covariance :math:`\Omega`, c_m = E[x nu_m]
    and the mean Hessian H of the loss in the space of the fields (:func:`overlaps.closure`: A, B = -eta H),

    .. math:: \frac{\partial\epsilon_g}{\partial w_k} = \sum_j H_{kj}\,\Omega w_j + \sum_m H_{km}\,c_m, \qquad
              \nabla^2\epsilon_g = H_{KK}\otimes\Omega + V^T\,\frac{\partial^2\epsilon_g}{\partial u\,\partial u'}\,V,

    where u are the entries of Q and R (and v, where it is trained) and V = du/dw lives in the span of students and
    teachers. The span has K + M dimensions in every eigenspace of the inputs. Outside of it the Hessian is :math:`s_l
    H_{KK}`, the bulk; inside, it is a block of side (K + M) K L, which the derivatives of the closure give. Exact at
    every N for Gaussian inputs, where each eigenspace has K + M dimensions or more. For functions with a kink it is the
    Hessian of the mean, which is smooth where the loss of a sample is not. Derivatives of the closure are exact for
    erf, linear, quadratic and relu students, differences otherwise (as in :func:`overlaps.linearise`). Derived here;
    Bocchi et al. (2026), arXiv:2604.03068, (25), is the case of quadratic students (of the risk, twice as large).

    Parameters
    ----------
    model : Model
        Activations, second layers, spectrum. Learning rates, batches, noise and weight decay do not matter. By
        default that of the state, ``hessian(state)``.
    state : State or Trajectory
        A state, or a trajectory: then at all of its records.

    Returns
    -------
    HessianSpectrum
        ``bulk``, ``outliers``, ``block``; ``density(x, N)``, ``negative(N)``, ``plot()``. Along a trajectory each array
        has a leading axis; all blocks are stored, 8 m^2 bytes a record.

    Raises
    ------
    ValueError
        Bad input; a closure without derivative (kinked students aligned with each other or with a teacher); a block of
        more than 3000 numbers a side.

    Examples
    --------
    On the plateau of the student there is one descending direction for each teacher and student:

    >>> import numpy as np, overlaps as ov
    >>> model = ov.quadratic_network(2, 1, eta=0.1)
    >>> plateau = ov.State.from_overlaps(model, Q=np.eye(2) / 2, R=np.zeros((2, 1)), T=[[1.0]])
    >>> spectrum = ov.hessian(plateau)
    >>> spectrum.outliers.round(12) + 0.0
    array([-2.,  -2.,  0.,  1.,  1.,  2.])
    >>> spectrum.bulk.round(12) + 0.0
    array([[0., 0.]])
    """
    curve: Any = state if isinstance(state, Trajectory | StagedTrajectory) else None
    check_features("hessian", model, None if curve is None else curve.schedule)
    if curve is not None:
        spectra = [_at(model, curve[i], float(alpha)) for i, alpha in enumerate(curve.alpha)]
        names = [f.name for f in fields(HessianSpectrum) if f.name != "model"]
        return HessianSpectrum(model, **{name: np.array([getattr(x, name) for x in spectra]) for name in names})
    check.state(state, "state", "State.from_overlaps(model, Q=, R=, T=), traj[-1], or a Trajectory")
    return _at(model, state, None)


def _at(model, state, alpha):
    """The Hessian at one state."""
    state = state.on(model)
    L, K, M = state.L, state.K, state.M
    check_dense((K + M) * K * L)
    check_domain(model, state.S, state.v)
    eps_g, H, curvature = _closure(model, state)
    bulk = state.s[:, None] * np.linalg.eigvalsh(H)
    size = L * K * (K + M)
    V = _overlap_derivatives(state).reshape(-1, size)
    V = scipy.linalg.block_diag(V, np.eye(K)) if model.trains_v else V
    block = V.T @ curvature @ V
    block[:size, :size] += np.einsum("l,jk,ab,lm->ljamkb", state.s, H, np.eye(K + M), np.eye(L)).reshape(size, size)
    values, vectors = np.linalg.eigh((block + block.T) / 2)
    du = (V @ vectors).T
    rows, columns = np.triu_indices(K)
    dQ = np.empty((len(du), K, K))
    dQ[:, rows, columns] = dQ[:, columns, rows] = du[:, : rows.size]
    dR, dv = np.split(du[:, rows.size :], [K * M], axis=1)
    dv = dv if model.trains_v else np.zeros((len(du), K))
    return HessianSpectrum(model, alpha, eps_g, bulk, values, block, dQ, dR.reshape(-1, K, M), dv)


def _closure(model, state):
    """eps_g, the mean Hessian H_KK, and the second derivatives (d, d) of eps_g along triangle of Q, R and trained v."""
    K, trained = state.K, model.trains_v
    bound, w = bind(model, second_order=False), np.concatenate([state.v, -model.v_star])
    A, B, C, dv = outputs(state.S, K)
    eps_g = bound(state.S, w, A, B, C, dv)
    dA, dB, _, ddv = bound.derivatives(state.S, w, exact=True)
    d = len(dA) - (0 if trained else K)
    rows, columns = np.triu_indices(K)
    # d eps_g = sum_{i<=j} (1 - delta_ij / 2) H_ij dQ_ij + sum_km H_km dR_km + E[g_k Delta] dv_k
    dA = np.where(rows == columns, 0.5, 1.0) * dA[:d, rows, columns]
    second = np.hstack([dA, dB[:d].reshape(d, -1)]) / -model.eta
    if trained:
        second = np.hstack([second, ddv[:d] / -model.eta_v])
    return eps_g, A / -model.eta, (second + second.T) / 2


def _overlap_derivatives(state):
    """V (d, L, K, K + M): change of (triangle of Q, R) by steps of the weights in the span of students and teachers."""
    L, K, M = state.L, state.K, state.M
    values, frame = np.linalg.eigh(gram(state.q, state.r, state.tau))
    values[values < HESSIAN.overlap_tol * values[:, -1:]] = 0.0
    X = frame * np.sqrt(values)[:, None]  # rows are students and c in an orthonormal frame, X X^T = gram
    one, pairs, students = np.eye(K), np.triu_indices(K), state.s[:, None, None] * X[:, :K]
    of_Q = sum(np.einsum("dk,lda->dlka", one[i], students[:, j]) for i, j in (pairs, pairs[::-1]))
    return np.concatenate([of_Q, np.einsum("jk,lma->jmlka", one, X[:, K:]).reshape(-1, L, K, K + M)])
