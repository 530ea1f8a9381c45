"""Results of a trained readout on spiked random features: at one point, along a curve, of a classifier."""

import math
from dataclasses import KW_ONLY
from typing import Any, NamedTuple

import numpy as np

from ..._base.immutable import Immutable
from .model import Spiked

__all__ = ["LearnedOffset", "OptimalLam", "SpikedClassifier", "SpikedCurve", "SpikedSolution"]


class OptimalLam(NamedTuple):
    """Best ridge penalty (math.inf if no finite one is better than lam -> infinity), test error, and a message."""

    lam: float
    mse: float
    message: str


class Readout(Immutable):
    """A trained readout, at one point or at n: see :class:`SpikedSolution`, :class:`SpikedCurve`."""

    model: Spiked
    alpha: Any
    lam: Any
    d: Any
    _: KW_ONLY
    m: Any
    theta: Any
    psi: Any
    q1: Any
    q2: Any
    V1: Any
    V2: Any
    b0: Any
    converged: Any
    residual: Any
    iterations: Any


class Point(Readout):
    """A readout at one point."""

    def C(self, k):
        r"""Mean prediction given the projection k on the spike, of the shape of k: the learned function.

        .. math:: C(k) = m\,\mu_0(k) + \theta\,k\mu_1(k) + b_0

        Its target is h(k) of :attr:`SpikedRandomFeatures.coefficients`. With several blocks, m and theta terms are sums
        over blocks.
        """
        k, directions = np.asarray(k, dtype=float), np.shape(self.model.r)[1:]
        table = self.model.coefficients.at(k.reshape(-1, *directions))
        m, theta = np.atleast_1d(self.m), np.ravel(self.theta)
        predicted = m @ np.atleast_2d(table.mu0) + theta @ np.atleast_2d(table.u) + self.b0
        return predicted.reshape(k.shape[: k.ndim - len(directions)])[()]

    def _line(self, shown):
        size = "" if math.isinf(self.d) else f", d={self.d:g}"
        result = shown if self.converged else "not converged"
        return f"alpha={self.alpha:.6g}, lam={self.lam:.6g}{size}, {result})"


class SpikedSolution(Point, kw_only=True):
    r"""Ridge readout on spiked random features; made by :meth:`SpikedRandomFeatures.solve`.

    Numbers are nan where ``converged`` is False. With B blocks, m, theta, psi, q2, V2 have shape (B,), q1, V1 (B, B).

    Attributes
    ----------
    alpha, lam : float
        Samples n/d of the readout, ridge penalty.
    d : float
        Input dimension, infinite in the limit.
    mse, train : float
        E(y - yhat)^2 on fresh and on training samples, label noise included, without a factor 1/2.
    m : float
        sum_i a_i / sqrt(p), a the trained readout.
    theta : float
        a.b / sqrt(p), b the components of the bulk along the spike's direction.
    psi : float
        Overlap of the effective linear readout with the component of the target orthogonal to the spike.
    q1, q2 : float
        a.Omega a / p and ``|a|^2 / p``, Omega the covariance of the bulk.
    V1, V2 : float
        tr(Omega G) / p and tr(G) / p, G the regularised resolvent.
    b0 : float
        Output bias, zero if none is trained.
    converged : bool
        Whether the residual is below 1e-11, on a finer grid over k below 1e-10, and two forms of the least objective
        agree to 1e-6; at tiny lam, rounding makes them differ for blocks of nearly dependent features.
    residual : float
        Largest change of log(V1, V2) by the fixed-point map.
    iterations : int
        Newton iterations.
    """

    mse: float
    train: float

    def __repr__(self):
        return f"SpikedSolution({self._line(f'mse={self.mse:.6g}, train={self.train:.6g}')}"


class SpikedCurve(Readout, kw_only=True):
    """Solutions at n values of alpha; made by :meth:`SpikedRandomFeatures.curve`.

    Attributes are those of :class:`SpikedSolution` with a leading axis (n,). At points that failed the numbers are nan
    and ``converged`` is False.
    """

    mse: np.ndarray
    train: np.ndarray

    def __len__(self):
        return self.alpha.size

    def __repr__(self):
        failed = int(np.sum(~self.converged))
        errors = f"mse {np.nanmin(self.mse):.4g} to {np.nanmax(self.mse):.4g}" if failed < len(self) else "no result"
        return f"SpikedCurve({len(self)} points, {errors}{f', {failed} not converged' if failed else ''})"


class SpikedClassifier(Point, kw_only=True):
    r"""Readout trained with a convex loss on labels sign(target); made by :meth:`SpikedRandomFeatures.solve`.

    Numbers are nan where ``converged`` is False. With B blocks, m, theta, psi, q2, V2 have shape (B,), q1, V1 (B, B).

    Attributes
    ----------
    alpha, lam, d, loss : float, float, float, str
        Samples n/d of the readout, ridge penalty, input dimension, name of the loss.
    wrong, train_wrong : float
        Probability that sign(yhat) is not the label, on fresh and on training samples.
    test_loss, train_loss : float
        Mean loss l(y yhat) there.
    m, theta, psi, q1, q2, V1, V2, b0
        As in :class:`SpikedSolution`, for the minimum of sum l(y yhat) + (lam/2) ``|a|^2``.
    converged : bool
        Whether all equations hold to 1e-9, and to 1e-7 on grids over k and the predictions that are twice as fine.
    residual, iterations : float, int
        Largest difference of left and right sides; evaluations of the equations.
    message : str
        The reason of a failure, or "".
    """

    loss: str
    wrong: float
    train_wrong: float
    test_loss: float
    train_loss: float
    message: str = ""

    def __repr__(self):
        shown = f"wrong={self.wrong:.6g}, train_wrong={self.train_wrong:.6g}"
        return f"SpikedClassifier({self.loss!r}, {self._line(shown)}"


class LearnedOffset(Immutable):
    """A pre-activation bias trained with the readout; made by :meth:`SpikedRandomFeatures.learn_offset`.

    Attributes
    ----------
    offset, objective : float
        Bias at the minimum of the training objective, and the objective there, over p.
    solution : SpikedSolution or SpikedClassifier
        The readout there; ``solution.model`` has the bias.
    offsets, objectives : ndarray, shape (n,)
        Biases of the scan, and the objective there (nan if the readout did not converge).
    lower, offset_lower : float
        Least lower bound on the squared test error over these biases, and its bias: (132) of Cui et al. (2024).
    message : str
        Whether it is a minimum, or an end of the scan.
    """

    offset: float
    objective: float
    solution: Any
    offsets: np.ndarray
    objectives: np.ndarray
    lower: float
    offset_lower: float
    message: str
    shows = "{0.offset:.6g}, objective={0.objective:.6g}, {0.solution!r}, {0.message!r}"
