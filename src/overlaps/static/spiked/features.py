"""Random features with a spike: test error of a two-layer network after one giant gradient step."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from ..._base import check
from ..._base.record import Record
from ..._base.types import ArrayLike, Function, Rng
from ...activations.activation import Activation
from . import blocks, simulation
from . import bounds as spiked_bounds
from . import ridge as _ridge
from . import spectrum as spiked_spectrum
from .averages import kinks_of
from .conditional import conditional
from .one_step import one_step, target_moments

if TYPE_CHECKING:
    from .bounds import Bounds
    from .simulation import OneStepRuns
    from .spectrum import FeatureSpectrum

__all__ = ["OptimalLam", "SpikedCurve", "SpikedRandomFeatures", "SpikedSolution"]

LEVELS = 9  # rules over k, each about twice as fine as the one before
RESOLVED = 1e-10  # relative change of V1, V2 by the next finer rule over k that is allowed
DECADES = np.arange(-9.0, 9.01, 0.5)  # of lam, relative to the bulk's variance, in the search for its optimum


class OptimalLam(NamedTuple):
    """Best ridge penalty (math.inf where no finite one beats the limit lam -> infinity), test error, and a sentence."""

    lam: float
    mse: float
    message: str


@dataclass(frozen=True, eq=False, repr=False)
class Readout(Record):
    """What is known of a trained readout, at one point or at n: see :class:`SpikedSolution`, :class:`SpikedCurve`."""

    model: "SpikedRandomFeatures"
    alpha: Any
    lam: Any
    d: Any
    mse: Any
    train: Any
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


@dataclass(frozen=True, eq=False, repr=False)
class SpikedSolution(Readout):
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
        a.b / sqrt(p), b the part of the bulk along the spike's direction.
    psi : float
        Overlap of the effective linear readout with the part of the target orthogonal to the spike.
    q1, q2 : float
        a.Omega a / p and ``|a|^2 / p``, Omega the covariance of the bulk.
    V1, V2 : float
        tr(Omega G) / p and tr(G) / p, G the regularised resolvent.
    b0 : float
        Output bias, zero where none is trained.
    converged : bool
        Whether the residual is below 1e-11, that of a finer rule over k below 1e-10, and two forms of the least
        objective agree to 1e-6: rounding spoils blocks of all but dependent features at tiny lam.
    residual : float
        Largest change of log(V1, V2) by the fixed-point map.
    iterations : int
        Newton iterations.
    """

    def C(self, k):
        r"""Mean prediction given the projection k on the spike, of the shape of k: the learned function.

        .. math:: C(k) = m\,\mu_0(k) + \theta\,k\mu_1(k) + b_0

        Its target is h(k) of :attr:`SpikedRandomFeatures.coefficients`. Sums over blocks where there are several.
        """
        k = np.asarray(k, dtype=float)
        table = self.model.coefficients.at(k.ravel())
        m, theta = np.atleast_1d(self.m), np.atleast_1d(self.theta)
        return (m @ np.atleast_2d(table.mu0) + theta @ np.atleast_2d(table.u) + self.b0).reshape(k.shape)[()]

    def __repr__(self):
        found = f"mse={self.mse:.6g}, train={self.train:.6g}" if self.converged else "not converged"
        size = "" if math.isinf(self.d) else f", d={self.d:g}"
        return f"SpikedSolution(alpha={self.alpha:.6g}, lam={self.lam:.6g}{size}, {found})"


@dataclass(frozen=True, eq=False, repr=False)
class SpikedCurve(Readout):
    """Solutions at n values of alpha; made by :meth:`SpikedRandomFeatures.curve`.

    Every attribute of :class:`SpikedSolution` with a leading axis (n,); points that failed hold nan and have
    ``converged`` False.
    """

    def __len__(self):
        return self.alpha.size

    def __repr__(self):
        failed = int(np.sum(~self.converged))
        found = f"mse {np.nanmin(self.mse):.4g} to {np.nanmax(self.mse):.4g}" if failed < len(self) else "no result"
        return f"SpikedCurve({len(self)} points, {found}{f', {failed} not converged' if failed else ''})"


@dataclass(frozen=True, eq=False, repr=False)
class SpikedRandomFeatures(Record):
    r"""Ridge regression on random features with a spike, sigma(W x), learning a single-index target.

    .. math::
        W = r\,1\hat v^T + \sqrt c\,W_0, \qquad y = \sigma_*(\theta\cdot x) + \sqrt\Delta\,\xi, \qquad
        \theta = \gamma\hat v + \sqrt{1-\gamma^2}\,\hat\zeta, \qquad \hat y = a\cdot\sigma(Wx)/\sqrt p, \\
        a = \mathop{\rm argmin} \sum_{\mu\le n} (y_\mu - \hat y_\mu)^2 + \lambda |a|^2

    x is N(0, 1) in d dimensions; the p rows of W_0 are uniform on the unit sphere, v and zeta orthonormal. This is the
    first layer after one giant gradient step: see :meth:`after_one_step`.

    Parameters
    ----------
    student, target : Activation or callable
        sigma and sigma_*, vectorised; the target has zero mean unless a bias is trained.
    r : float or sequence of float
        Norm of the spike in every row; a sequence (B,) for blocks of neurons.
    gamma : float
        Overlap of the spike's direction with the target's, ``|gamma| <= 1``.
    c : float or sequence of float
        Variance of the bulk: squared norm of its rows.
    beta : float
        Width, p/d.
    noise : float
        Standard deviation sqrt(Delta) of the label noise.
    bias : bool
        Train an output bias, without penalty.
    fractions : sequence of float, optional
        Fractions of the neurons in each block; equal by default.
    rows : {"iid", "orthonormal"}
        W_0 with independent rows, or (beta <= 1) with orthonormal ones.
    bulk : array_like, shape (p,), optional
        Eigenvalues >= 0 of W_0 W_0^T, of mean one: any number that represents their law, zeros included. In place of
        ``rows``; for one block. The spike, the target and 1 are generic with respect to W_0.
    offset : float or sequence of float, shape (B,)
        Quenched pre-activation biases, sigma(w.x + offset) in each block.
    breakpoints, student_breakpoints : sequence of float
        Jumps and kinks of the target and of the student. Those of ``np.sign``, ``np.abs`` and the library's
        piecewise-linear activations are known.
    kap : float
        Weight of the direction of the row norms in the readout, 2 tau h1* E[sigma'''] after a step with alpha0 = inf.
    step, law : OneStep, frozen law of scipy.stats
        Where the features come from; set by :meth:`after_one_step`. With ``law`` the blocks are the nodes of a rule.

    Raises
    ------
    ValueError
        Parameters out of range, a target of nonzero mean without bias, functions that jump elsewhere or grow too fast
        for Gaussian integrals, blocks that are equal.

    Notes
    -----
    *Asymptotic*, d -> infinity at fixed n/d, p/d, and exact there, given the conditional Gaussian equivalence
    (confirmed by simulation, not proven). r = 0, plain random features, is not the limit r -> 0: an infinitesimal spike
    has the norm sqrt(p) r, and at finite d the crossover lies at r ~ 1/sqrt(d): ``solve(..., d=)``.
    *Derived* here: blocks with independent rows without a trace of large matrices, orthonormal rows, the bias.

    References
    ----------
    Cui et al. (2024), arXiv:2402.04980, Results 3.1, 3.2 and 3.3, model (6), (7), error (25), and Appendix D.
    *Corrected*: the readout along the bulk's component on the spike (theta) does not vanish; the spectra of large
    matrices are eliminated.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> model = ov.static.SpikedRandomFeatures(np.tanh, np.sin, r=1.2, c=1.1, gamma=0.9, beta=0.8)
    >>> model.solve(alpha=1.3, lam=0.05)
    SpikedSolution(alpha=1.3, lam=0.05, mse=0.0919348, train=0.0284783)
    """

    student: Callable
    target: Callable
    r: Any = field(kw_only=True)
    gamma: float = field(kw_only=True)
    c: Any = field(default=1.0, kw_only=True)
    beta: float = field(kw_only=True)
    noise: float = field(default=0.0, kw_only=True)
    bias: bool = field(default=False, kw_only=True)
    fractions: Any = field(default=None, kw_only=True)
    rows: str = field(default="iid", kw_only=True)
    bulk: Any = field(default=None, kw_only=True)
    offset: Any = field(default=0.0, kw_only=True)
    breakpoints: tuple = field(default=(), kw_only=True)
    student_breakpoints: tuple = field(default=(), kw_only=True)
    kap: float = field(default=0.0, kw_only=True)
    step: Any = field(default=None, kw_only=True)
    law: Any = field(default=None, kw_only=True)

    def __post_init__(self):
        checked = {
            "beta": check.number("beta", self.beta, above=0, hint="beta is the width, p/d."),
            "gamma": check.number("gamma", self.gamma, hint="gamma is an overlap."),
            "noise": check.number("noise", self.noise, least=0, hint="noise is a standard deviation."),
            "kap": check.number("kap", self.kap),
            "bias": check.flag("bias", self.bias),
            "breakpoints": kinks_of(self.target, self.breakpoints, "breakpoints"),
            "student_breakpoints": kinks_of(self.student, self.student_breakpoints, "student_breakpoints"),
            **blocks.checked(self),
        }
        if abs(checked["gamma"]) > 1:
            raise ValueError(
                f"gamma = {check.shown(self.gamma)}; expected -1 <= gamma <= 1, the overlap of two unit vectors."
            )
        self.settle(**checked)
        if not self.bias:
            target_moments(self.target, self.breakpoints)  # refuses one that is not centred
        self.coefficients  # noqa: B018 - built now, so that bad functions are refused here

    @classmethod
    def after_one_step(
        cls,
        student: Activation | Function,
        target: Activation | Function,
        *,
        eta_tilde: float,
        alpha0: float,
        beta: float,
        scaling: Literal["d", "p"] = "d",
        noise: float = 0.0,
        step_noise: float | None = None,
        readout: ArrayLike | None = None,
        fractions: ArrayLike | None = None,
        letters: int = 8,
        **options: Any,
    ) -> "SpikedRandomFeatures":
        r"""The features that one giant gradient step on the first layer leaves behind.

        .. math::
            r = \tau h_1 A, \quad \gamma = h_1^*/A, \quad c = 1 + \tau^2\,\mathrm{Var}[\sigma']\,h_2^*/\alpha_0, \quad
            A = \sqrt{h_1^{*2} + h_2^*/\alpha_0}, \quad \tau = \tilde\eta/\beta

        Parameters
        ----------
        student, target : Activation or callable
            sigma, odd, and sigma_*.
        eta_tilde : float
            Learning rate over d, or over p with ``scaling="p"`` (tau = eta_tilde).
        alpha0 : float
            Samples of the step, n0/d; ``math.inf`` is the population gradient, 0 no step.
        beta : float
            Width, p/d.
        scaling : {"d", "p"}
            Unit of the learning rate.
        noise, step_noise : float
            Standard deviations of the label noise in the readout's samples and in the step's (the same by default).
        readout, fractions : sequence of float, optional
            Letters t_b of the initial readout, a_i = t_b / sqrt(p) for a fraction of the neurons; all 1 by default.
            Block b has the spike t_b r and the variance 1 + t_b^2 (c - 1). Letters t and -t are merged: blocks
            are the distinct values of ``|t|``, ascending. Or a continuous law of t: ``"gaussian"``, ``"uniform"`` (of
            mean square one), or a frozen one of ``scipy.stats``; all results then need a finite ``d``.
        letters : int
            Number of letters that stand for a continuous law, the nodes of Gauss's rule in t^2. Errors of the rule fall
            exponentially with it; compare two numbers.
        **options
            ``bias``, ``rows``, ``breakpoints``, ``student_breakpoints``, as in the class.

        Returns
        -------
        SpikedRandomFeatures
            ``step`` holds the step's parameters.

        Raises
        ------
        ValueError
            A student that is not odd, a target of nonzero mean, parameters out of range, a law without density.

        Notes
        -----
        *Asymptotic* and exact for r, c, gamma. The network itself also has correlations of order 1/sqrt(d) that this
        model omits: their effect on the test error is below 10 % in the settings tested (alpha0 >= 1) and grows with
        c - 1 and as alpha0 falls.

        Examples
        --------
        >>> import numpy as np, overlaps as ov
        >>> ov.static.SpikedRandomFeatures.after_one_step(np.tanh, np.sin, eta_tilde=2, alpha0=1, beta=0.5)
        SpikedRandomFeatures(tanh, sin, r=2.16732, c=1.6746, gamma=0.678032, beta=0.5)
        """
        # test: tests/static/spiked/test_simulation.py::test_model_and_network_meet_theory
        if np.any(options.get("offset", 0.0)):
            raise ValueError(
                f"offset = {check.shown(options['offset'])} after a step; expected none: with biases the student is "
                "not odd, and its step leaves more than one spike. Give r, c, gamma and offset by hand."
            )
        if step_noise is None:
            step_noise = noise
        check.number("step_noise", step_noise, least=0, hint="step_noise is a standard deviation.")
        rates = {"eta_tilde": eta_tilde, "alpha0": alpha0, "beta": beta, "scaling": scaling}
        points = {x: options.get(x, ()) for x in ("breakpoints", "student_breakpoints")}
        step = one_step(student, target, noise=step_noise, **rates, **points)
        law = blocks.law_of(readout)
        if law is not None:
            if fractions is not None:
                raise ValueError(f"fractions = {check.shown(fractions)} with a continuous law; expected none.")
            t, rho = blocks.gauss_letters(law, check.count("letters", letters))
        else:
            t, rho = (np.ones(1), np.ones(1)) if readout is None else blocks.letters(readout, fractions)
        if readout is None and fractions is not None:
            raise ValueError(
                f"fractions = {check.shown(fractions)} without readout; expected the letters readout=(t_1, ...)."
            )
        r, c = t * step.r, 1 + t**2 * (step.c - 1)
        if step.r == 0 and step.c == 1:  # no step: all letters leave the same features
            r, c = r[:1], c[:1]
        if r.size == 1:
            r, c, rho = float(r[0]), float(c[0]), None
        found = {"r": r, "c": c, "gamma": step.gamma, "fractions": rho, "step": step, "law": law}
        return cls(student, target, beta=beta, noise=noise, **found, **options)

    @cached_property
    def coefficients(self):
        """Tables of the conditional Gaussian coefficients over k; independent of alpha, lam and beta."""
        points = self.breakpoints, self.student_breakpoints
        return conditional(
            self.student, self.target, self.r, self.c, self.gamma, *points, kap=self.kap, offset=self.offset
        )

    @cached_property
    def _features(self):
        return _ridge.Features(self.coefficients)

    @cached_property
    def _finer(self):
        """Features on finer and finer rules over k, made when a sharp fixed point asks for them."""
        return [self._features]

    def _level(self, n):
        while len(self._finer) <= n:
            self._finer.append(_ridge.Features(self.coefficients.refined(len(self._finer))))
        return self._finer[n]

    def _response(self, lam):
        if self.bulk is not None:
            return blocks.given_rows(self.c, self.beta, lam, self.bulk)
        if np.ndim(self.r) == 0 and self.rows == "iid":
            return _ridge.marchenko_pastur(self.c, self.beta, lam)
        rows = blocks.iid_rows if self.rows == "iid" else blocks.orthonormal_rows
        fractions = np.ones(1) if self.fractions is None else self.fractions
        return rows(np.atleast_1d(self.c), self.beta, lam, fractions)

    def _fit(self, alpha, lam, d, start=None, iterations=100):
        kappa, response = alpha / self.beta, self._response(lam)
        options = {"lam": lam, "kappa": kappa, "beta": self.beta, "noise": self.noise, "bias": self.bias, "d": d}
        misfit = math.nan
        for n in range(LEVELS):  # den(k) = 1/(1 + V(k)) may be far sharper than the tables; seldom more than one round
            fit = _ridge.fit(self._level(n), response, **options, start=start, iterations=iterations)
            if not fit.converged:
                return fit
            start, misfit = fit.v, _ridge.misfit(self._level(n + 1), response, kappa, fit.v)
            if misfit <= RESOLVED:
                return fit
        return _ridge.failed(self._features.packing, misfit, fit.iterations)

    def _dimension(self, d):
        blocks.neurons(self, d)
        return float(d)

    def solve(self, *, alpha: float, lam: float, d: float = math.inf, iterations: int = 100) -> "SpikedSolution":
        r"""Test and training error, and order parameters, of the ridge readout.

        Parameters
        ----------
        alpha : float
            Samples, n/d > 0.
        lam : float
            Ridge penalty > 0 of the objective ``sum (y - yhat)^2 + lam |a|^2`` (no factor 1/n).
        d : float
            Input dimension. At finite d the ridge also acts on the mean of the readout in each block, :math:`m_b`:

            .. math:: E\Big[\frac{\mu_{0,b}\,(h - C)}{1 + V}\Big] = \frac{m_b}{n V_{2,b}}, \qquad n = \alpha d
        iterations : int
            Most Newton iterations.

        Returns
        -------
        SpikedSolution
            With ``converged`` False and nan instead of numbers where Newton's method or its accuracy fails.

        Raises
        ------
        ValueError
            alpha or lam that are not positive, a d at which a block has less than one neuron.

        Notes
        -----
        *Asymptotic*: the solution for d -> infinity, unique for lam > 0, to about 1e-12. With ``d``: exact where
        d -> infinity at fixed r sqrt(d), the crossover from random to spiked features; *heuristic* elsewhere: of all
        terms of order 1/d it holds the one that close or weak spikes make large.
        """
        alpha, lam, d = _positive_alpha(alpha), _positive_lam(lam), self._dimension(d)
        return self._describe(alpha, lam, d, self._fit(alpha, lam, d, iterations=check.count("iterations", iterations)))

    def _describe(self, alpha, lam, d, fit):
        packing = self._features.packing
        (V1, V2), (q1, q2) = packing.unpack(fit.v), packing.unpack(fit.q)
        parts: tuple = fit.m, fit.theta, fit.psi, q1, q2, V1, V2
        if np.ndim(self.r) == 0:
            parts = tuple(float(x.item()) for x in parts)
        end: tuple = fit.b0, fit.converged, fit.residual, fit.iterations
        return SpikedSolution(self, alpha, lam, d, fit.mse, fit.train, *parts, *end)

    def curve(self, alphas: ArrayLike, lam: ArrayLike, d: float = math.inf) -> "SpikedCurve":
        """Solutions at several sample sizes, each started from the one before.

        Parameters
        ----------
        alphas : array_like, shape (n,)
            Samples, n/d > 0.
        lam : float or array_like, shape (n,)
            Ridge penalty > 0, common or one for each point.
        d : float
            Input dimension, as in :meth:`solve`.

        Returns
        -------
        SpikedCurve

        Raises
        ------
        ValueError
            alphas or lam that are not positive, or of different lengths.

        Examples
        --------
        >>> import numpy as np, overlaps as ov
        >>> model = ov.static.SpikedRandomFeatures(np.tanh, np.sin, r=1.2, gamma=0.9, beta=1.0)
        >>> model.curve([0.5, 1.0, 2.0], lam=0.1).mse.round(6).tolist()
        [0.096505, 0.083744, 0.068]
        """
        alphas = check.array("alphas", alphas, ("n",))
        lams = check.array("lam", lam, alphas.shape if np.ndim(lam) else ())
        lams = np.broadcast_to(lams, alphas.shape)
        if alphas.size == 0:
            raise ValueError("alphas is empty; expected at least one value n/d > 0.")
        d = self._dimension(d)
        start, points = None, []
        for alpha, one in zip(alphas.tolist(), lams.tolist(), strict=True):
            fit = self._fit(_positive_alpha(alpha), _positive_lam(one), d, start)
            if not fit.converged and start is not None:
                fit = self._fit(alpha, one, d)
            start = fit.v if fit.converged else None
            points.append(self._describe(alpha, one, d, fit))
        stacked = {x.name: np.array([getattr(point, x.name) for point in points]) for x in fields(Readout)[1:]}
        return SpikedCurve(self, **stacked)

    def optimal_lam(self, alpha: float, d: float = math.inf) -> "OptimalLam":
        """Ridge penalty of least test error.

        Parameters
        ----------
        alpha : float
            Samples, n/d > 0.
        d : float
            Input dimension, as in :meth:`solve`.

        Returns
        -------
        OptimalLam
            ``lam`` is infinite where no finite penalty beats the limit: there the readout uses the mean activation
            mu0 alone, and ``mse`` is the upper bound of Cui et al., eq. (26); at finite d it uses nothing.

        Notes
        -----
        *Asymptotic*, as the solution. 18 decades of lam are scanned; the best stretch is refined by SciPy.

        Examples
        --------
        >>> import numpy as np, overlaps as ov
        >>> model = ov.static.SpikedRandomFeatures(np.tanh, np.sin, r=1.2, gamma=0.9, beta=1.0)
        >>> best = model.optimal_lam(2.0)
        >>> bool(best.mse < model.solve(alpha=2.0, lam=0.1).mse)
        True
        """
        alpha, d = _positive_alpha(alpha), self._dimension(d)
        table = self._features
        variance = np.sum(table.S[table.packing.positive] @ table.weight)  # of what fluctuates given k
        logs = DECADES * math.log(10) + math.log(max(variance, 1e-300))

        def error(log_lam):
            mse = self._fit(alpha, math.exp(log_lam), d).mse
            return mse if math.isfinite(mse) else math.inf

        scan = [error(x) for x in logs]
        best = int(np.argmin(scan))
        if math.isinf(d):
            what, limit = "mu0 alone", _ridge.strong_ridge(table, self.noise, self.bias)
        else:
            mean = table.weight @ table.h if self.bias else 0.0
            what, limit = "nothing", float(table.weight @ table.hh - mean**2 + self.noise**2)
        rounding = 1e-9 * limit + 1e-10 * (table.weight @ table.hh)
        if best == len(scan) - 1 or scan[best] >= limit - rounding:
            message = f"no finite lam is better than lam -> infinity, where {what} is fitted"
            return OptimalLam(math.inf, limit, message)
        if best == 0:
            return OptimalLam(math.exp(logs[0]), scan[0], "lam -> 0 is best: this is the least lam searched")
        found = minimize_scalar(error, bounds=logs[[best - 1, best + 1]], options={"xatol": 1e-7})
        return OptimalLam(math.exp(found.x), float(found.fun), "minimum at a finite lam")

    def bounds(self, d: float = math.inf) -> "Bounds":
        """Bounds on the test error at this spike; see :func:`overlaps.static.spiked.bounds.bounds`."""
        return spiked_bounds.bounds(self, d)

    def spectrum(self, *, alpha: float, points: int = 400) -> "FeatureSpectrum":
        """Eigenvalues of the features; see :func:`overlaps.static.spiked.spectrum.feature_spectrum`."""
        return spiked_spectrum.feature_spectrum(self, alpha=alpha, points=points)

    def simulate(
        self, *, alpha: float | ArrayLike, lam: float | ArrayLike, d: int, rng: Rng, **options: Any
    ) -> "OneStepRuns":
        """Draws of these features at finite size; see :func:`overlaps.static.spiked.simulation.simulate_srf`."""
        return simulation.simulate_srf(self, alpha=alpha, lam=lam, d=d, rng=rng, **options)

    def __repr__(self):
        names = ", ".join(getattr(f, "__name__", str(f)) for f in (self.student, self.target))
        r, c = (f"{x:.6g}" if np.ndim(x) == 0 else str(np.round(x, 4).tolist()) for x in (self.r, self.c))
        more = f", noise={self.noise:g}" * bool(self.noise) + ", bias=True" * self.bias
        more += f", rows={self.rows!r}" * (self.rows != "iid") + f", kap={self.kap:.6g}" * bool(self.kap)
        return f"SpikedRandomFeatures({names}, r={r}, c={c}, gamma={self.gamma:.6g}, beta={self.beta:g}{more})"


def _positive_alpha(alpha):
    return check.number("alpha", alpha, above=0, hint="alpha is the number of readout samples over d, n/d.")


def _positive_lam(lam):
    return check.number("lam", lam, above=0, hint="lam is the ridge penalty of sum (y - yhat)^2 + lam |a|^2; try 1e-8.")
