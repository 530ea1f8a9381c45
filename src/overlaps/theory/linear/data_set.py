r"""Linear students on a finite data set: exact training and test errors of several passes over the same samples.

n = a N samples are drawn once.  With the sample covariance :math:`\hat S = X^TX/n` the weights are functions of it,

.. math:: w = f(\hat S)\, w_0 + u(\hat S)\, w^* + \sigma\, g(\hat S)\, X^Tz\sqrt N/n, \qquad u(s) = s\, g(s),

with :math:`f = e^{-\eta\alpha(s+\kappa)}` in gradient flow, :math:`(1 - h(s+\kappa))^k` after k steps of gradient
descent of length h, and :math:`g = (1 - f)/(s+\kappa)`.  Overlaps are averages of products of such functions: contour
integrals over resolvents, which the companion transform m(z) gives for any spectrum (``companion.py``).
"""

from typing import NamedTuple

import numpy as np

from ..._base import ArrayLike, Floats, Immutable, check
from ...activations.library import linear as linear_activation
from ...models import Model, State
from ...models.features import check_features
from .companion import Contour, edge, from_laplace, resolvent

__all__ = ["MultiPass", "multi_pass"]


class NodeOptions(NamedTuple):
    """Tunable numbers of the contour integrals."""

    first_nodes: int = 60  # First number of nodes of the upper half of the contour; each trial has half as many more.
    # Number of nodes above which none are added, because the kernels need memory as its square; the error is returned.
    max_nodes: int = 460
    # Nodes of the inverse Laplace transforms: of the estimate of the error, and of the result. Fewer: truncation
    # dominates; more: rounding.
    laplace_nodes: tuple[int, int] = (22, 26)
    error_tol: float = 1e-10  # Error, in units of the largest result, below which no nodes are added.


NODES = NodeOptions()


class MultiPass(Immutable, repr=True):
    r"""Overlaps and errors of a linear student in several passes over a data set; made by :func:`multi_pass`.

    Attributes
    ----------
    alpha : ndarray, shape (n,)
        Times, steps / N with one sample in a step.
    R, Q : ndarray, shape (n,)
        Overlaps with the teacher and of the student with itself, weighted with the input covariance.
    eps_g : ndarray, shape (n,)
        Test error E[(lambda - nu)^2]/2 on fresh inputs, without label noise.
    train : ndarray, shape (n,)
        Mean of Delta^2/2 over the data set, labels with their noise.
    error_estimate : float
        Largest change of these arrays when the contour has half as many nodes more; or of the training error of SGD
        when its inverse Laplace transform has four nodes more, if that is larger.
    """

    alpha: Floats
    R: Floats
    Q: Floats
    eps_g: Floats
    train: Floats
    error_estimate: float


def multi_pass(
    model: Model,
    start: State,
    ratio: float,
    alpha: ArrayLike,
    *,
    method: str = "flow",
    step: float | None = None,
    nodes: int | None = None,
) -> MultiPass:
    r"""Exact learning curves of a linear student that uses each of n = ratio N samples several times.

    .. math:: Q = \frac1N \langle w^T\Sigma w\rangle, \quad R = \frac1N \langle w^T\Sigma w^*\rangle, \quad
       \epsilon_g = \frac{Q - 2R + T}{2}, \quad
       \epsilon_{\rm train} = \frac{1}{2n} \Big\langle\Big|\frac{X(w - w^*)}{\sqrt N} - \sigma z\Big|^2\Big\rangle

    Parameters
    ----------
    model : Model
        Linear, K = M = 1, with a fixed second layer. Its eta, noise, weight_decay (a ridge penalty), spectrum and,
        for ``"sgd"``, batch_size are used.
    start : State
        Initial overlaps.
    ratio : float
        a = n / N > 0, samples for each input dimension.
    alpha : array_like, shape (n,)
        Times >= 0: steps / N with one sample in a step.
    method : {"flow", "descent", "sgd"}
        Gradient flow on the mean error of the data set; gradient descent on it; SGD that draws samples with
        replacement.
    step : float, optional
        Length h of a step of gradient descent, in the units of eta alpha: k steps reach alpha = h k / eta.
    nodes : int, optional
        Nodes in the upper half of the contour. By default as many as reduce ``error_estimate`` below 1e-10.

    Raises
    ------
    ValueError
        A model outside this theory; ratio <= 0; alpha between two steps; steps or rates at which training diverges.

    Notes
    -----
    *Exact* for N, n -> infinity at fixed ratio. For ``"sgd"`` R equals gradient flow's, and the training error obeys
    a Volterra equation, which its Laplace transform solves in closed form. It converges for
    eta tr(S^2/(S + kappa))/N < 2 batch_size. Epochs without replacement are not covered: the first one is one-pass
    SGD (:func:`overlaps.solve`), and later ones have smaller errors than SGD with replacement.

    References
    ----------
    Silverstein and Choi (1995), J. Multivariate Anal. 54, 295 (companion transform); Paquette, Lee, Pedregosa and
    Paquette (2021), arXiv:2102.04396 (Volterra equation of SGD). The two-resolvent formula is derived here.

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.8, noise=0.3, weight_decay=0.05)
    >>> start = ov.State.from_overlaps(model, Q=[[0.6]], R=[[0.1]], T=[[1.0]])
    >>> curve = ov.theory.linear.multi_pass(model, start, 2.0, [1.0, 4.0, 16.0])
    >>> curve.eps_g.round(6), curve.train.round(6)
    (array([0.228535, 0.06881 , 0.039026]), array([0.143453, 0.037191, 0.024992]))
    """
    problem = _Problem(model, start, check.number("ratio", ratio, above=0))
    times = np.atleast_1d(check.times("alpha", alpha))
    if times.ndim != 1 or times.size == 0 or not np.all(np.isfinite(times)):
        raise ValueError(f"alpha has shape {times.shape}; expected finite times in one dimension, at least one.")
    check.choice("method", method, ("flow", "descent", "sgd"))
    counts = problem.steps(times, method, step)
    if method == "sgd":
        problem.check_convergence()
    n = NODES.first_nodes if nodes is None else check.count("nodes", nodes, 8)
    curves = problem.overlaps(times, counts, step, n)
    while True:
        coarser, curves = curves, problem.overlaps(times, counts, step, n := n + n // 2)
        change = float(np.max(np.abs(curves - coarser)))
        if nodes is not None or n > NODES.max_nodes or change <= NODES.error_tol * np.max(np.abs(curves)):
            break
    R, Q, train = curves
    if method == "sgd":
        (coarse, _), (train, excess) = (problem.sgd(times, train, n) for n in NODES.laplace_nodes)
        Q, change = Q + 2 * excess, max(change, float(np.max(np.abs(train - coarse))))
    v, v_star = problem.v, problem.v_star
    return MultiPass(times, R / (v * v_star), Q / v**2, (Q - 2 * R + problem.T) / 2, train, change)


class _Problem:
    """A checked model and start in the units of the student's output v w: rates, overlaps per block, c = N/n."""

    def __init__(self, model, start, ratio):
        check_features("theory.linear.multi_pass", model)
        start = check.state(start).on(model)
        if model.K > 1 or model.M > 1 or not model.activation == model.teacher_activation == linear_activation:
            raise ValueError(f"{model}; expected activation=ov.linear for student and teacher, and K = M = 1.")
        self.v, self.v_star = float(start.v[0]), float(model.v_star[0])
        if self.v == 0.0 or self.v_star == 0.0:
            raise ValueError(f"v = {self.v:g}, v_star = {self.v_star:g}; expected second layers that are not zero.")
        q, r, t = (x[:, 0, 0] for x in start.plain)
        self.q0, self.r0, self.t = self.v**2 * q, self.v * self.v_star * r, self.v_star**2 * t
        self.s, self.p, self.c = model.spectrum.s, model.spectrum.p, 1 / ratio
        self.eta, self.kappa = model.eta * self.v**2, model.weight_decay[0] / self.v**2
        self.noise, self.batch_size = model.noise, model.batch_size
        self.T, self.edge = float(self.s @ self.t), edge(self.s, self.p, self.c)

    def steps(self, times, method, step):
        """Numbers of steps of gradient descent (n,), None for the other methods."""
        if method != "descent":
            if step is not None:
                raise ValueError(f"step = {step!r} with method = {method!r}; steps belong to method='descent'.")
            return None
        step = check.number("step", np.nan if step is None else step, above=0, hint="The length of a step of descent.")
        limit = 2 / (self.edge + self.kappa)
        if step >= limit:
            raise ValueError(
                f"step = {step:g}; expected below 2/(edge + kappa) = {limit:.10g}, where gradient descent diverges: "
                f"the largest eigenvalue of the sample covariance is {self.edge:.6g}."
            )
        counts = self.eta * times / step
        if np.any(np.abs(counts - np.rint(counts)) > 1e-9 * np.maximum(counts, 1)):
            raise ValueError(f"alpha lies between two steps; expected multiples of step/eta = {step / self.eta:.10g}.")
        return np.rint(counts)

    def overlaps(self, times, counts, step, nodes):
        """R, Q and the training error (3, n) of gradient flow or descent, from contour integrals."""
        delta, last = 1 / (2 * self.eta * max(times.max(), 1e-300)), np.inf
        if counts is not None:  # (1 - h x)^k grows beyond x = 2/h
            last = self.edge + 2 * (2 / step - self.kappa - self.edge + min(delta, self.edge))
        ring = Contour(self.s, self.p, self.c, self.edge, delta, last, nodes)
        sources = [ring.kernel(o) for o in (self.q0, self.r0, self.t)]
        x, z = ring.z + self.kappa, ring.z
        first = [ring.single(w) for w in (self.s * self.r0, self.s * self.t, self.q0, self.r0, self.t, self.p)]
        trace, curves = ring.single(self.p * self.s), []
        for i, t in enumerate(times):
            if counts is None:
                f, g = np.exp(-self.eta * t * x), -np.expm1(-self.eta * t * x) / x
            else:
                f = (1 - step * x) ** int(counts[i])
                g = (1 - f) / x
            u, mean = z * g, ring.integral
            R = mean(first[0], f) + mean(first[1], u)
            Q = ring.double(sources[0], f, f) + 2 * ring.double(sources[1], f, u) + ring.double(sources[2], u, u)
            Q += self.noise**2 * self.c * mean(trace, z * g * g)
            train = mean(first[2], z * f * f) + 2 * mean(first[3], z * f * (u - 1)) + mean(first[4], z * (u - 1) ** 2)
            train += self.noise**2 * (1 - self.c + self.c * mean(first[5], (1 - u) ** 2))
            curves.append((R, Q, train / 2))
        return np.array(curves).T

    def check_convergence(self):
        """Refuse learning rates at which SGD with replacement diverges: the integral of its Volterra kernel is >= 1."""
        mean = self.p @ self.s
        if self.kappa > 1e-12 * self.edge:  # otherwise these terms are rounding
            E = resolvent(self.s, self.p, self.c, np.array([complex(-self.kappa)]))[:, 0].real
            mean += -self.kappa + self.kappa**2 * (self.p @ E)
        limit = 2 * self.batch_size / mean
        if self.eta >= limit:
            raise ValueError(
                f"eta = {self.eta / self.v**2:g}; expected below {limit / self.v**2:.10g}, where SGD with replacement "
                "diverges. Try a smaller eta or a larger batch_size."
            )

    def sgd(self, times, train, nodes):
        """Training error of SGD with replacement and its excess test error (n,), by inverse Laplace transforms.

        At time zero the training error is that of the flow, ``train``.
        """
        train, excess, late = np.array(train), np.zeros_like(times), times > 0
        if late.any():
            omega, weight = from_laplace(times[late], nodes)
            L, G = self._volterra(omega)
            train[late], excess[late] = ((weight * y).sum(axis=0).real for y in (L, G * L))
        return train, excess

    def _volterra(self, omega):
        """Laplace transforms of the training error, L = L_flow/(1 - K), and of the kernel of the test error."""
        eta, kappa, c, p = self.eta, self.kappa, self.c, self.p
        x1, x2 = -omega / eta, -omega / (2 * eta)
        z1, z2 = x1 - kappa, x2 - kappa
        # each function of s is rational; its poles lie at z1 (from f), z2 (from f^2), the one at -kappa cancels
        E1, E2 = (np.moveaxis(resolvent(self.s, p, c, z), 0, -1) for z in (z1, z2))
        flow = E2 @ self.q0 * z2 + 2 * (-2 * kappa * z1 / x1 * (E1 @ self.r0) - z2**2 / x2 * (E2 @ self.r0))
        flow += 4 * kappa * z1**2 / x1**2 * (E1 @ self.t) + z2**3 / x2**2 * (E2 @ self.t)
        flow += np.sum(self.q0 - 2 * self.r0 + self.t)
        label = 4 * kappa * z1 / x1**2 * (E1 @ p) + z2**2 / x2**2 * (E2 @ p)
        flow = (flow / (2 * eta) + self.noise**2 * ((1 - c) / omega + c * label / (2 * eta))) / 2
        noise_weight, weight = eta / (2 * self.batch_size), p * self.s
        kernel = noise_weight * (weight.sum() + z2 + z2**2 * (E2 @ p))
        return flow / (1 - kernel), noise_weight * (weight.sum() + z2 * (E2 @ weight))
