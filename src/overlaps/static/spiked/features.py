"""Random features with a spike: test error of a two-layer network after one giant gradient step."""

import math
from functools import cached_property, partial
from typing import Any, Literal, overload

import numpy as np

from ..._base import ArrayLike, Function, check
from ...activations.activation import Activation
from . import bounds as spiked_bounds
from . import classifier, solving
from .averages import kinks_of
from .conditional import conditional
from .draws import srf_draw
from .letters import gauss_letters, law_of, letters_of_law, merged_letters
from .losses import LossName, SignLabels
from .model import Levels
from .one_step import one_step, target_moments
from .simulation import simulate_srf
from .solutions import SpikedClassifier, SpikedSolution
from .spectrum import feature_spectrum


class SpikedRandomFeatures(solving.Solvable, kw_only=True):
    r"""Ridge regression of a single-index target on random features with a spike, sigma(W x).

    .. math::
        W = r\,1\hat v^T + \sqrt c\,W_0, \qquad y = \sigma_*(\theta\cdot x) + \sqrt\Delta\,\xi, \qquad
        \theta = \gamma\hat v + \sqrt{1-\gamma^2}\,\hat\zeta, \qquad \hat y = a\cdot\sigma(Wx)/\sqrt p, \\
        a = \mathop{\rm argmin} \sum_{\mu\le n} (y_\mu - \hat y_\mu)^2 + \lambda |a|^2

    x is N(0, 1) in d dimensions; the p rows of W_0 are uniform on the unit sphere, v and zeta orthonormal. This is the
    first layer after one giant gradient step: see :meth:`after_one_step`. *Asymptotic*, d -> infinity at fixed n/d,
    p/d, and exact there, given the conditional Gaussian equivalence (confirmed by simulation, not proven). r = 0, plain
    random features, is not the limit r -> 0: a small spike has the norm sqrt(p) r, and at finite d the crossover is at
    r ~ 1/sqrt(d): ``solve(..., d=)``. *Derived* here: blocks with independent rows without a trace of large matrices,
    orthonormal rows, the bias. Source: Cui et al. (2024), arXiv:2402.04980, Results 3.1, 3.2 and 3.3, model (6), (7),
    error (25), and Appendix D. *Corrected*: the readout along the bulk's component on the spike (theta) does not
    vanish; the spectra of large matrices are eliminated.

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
        Eigenvalues >= 0 of W_0 W_0^T, of mean one, in place of ``rows``. Any number of them may represent their law,
        zeros included. The spike, the target and the blocks are generic with respect to W_0.
    offset : float or sequence of float, shape (B,)
        Quenched pre-activation biases, sigma(w.x + offset) in each block.
    breakpoints, student_breakpoints : sequence of float
        Jumps and kinks of the target and of the student. Those of ``np.sign``, ``np.abs`` and the library's
        piecewise-linear activations are known.
    kap : float
        Weight of the direction of the row norms in the readout, 2 tau h1* E[sigma'''] after a step with alpha0 = inf.
    step, law : OneStep, frozen law of scipy.stats
        Origin of the features, set by :meth:`after_one_step`. With ``law`` the blocks are the nodes of a quadrature.

    Raises
    ------
    ValueError
        Parameters out of range, a target of nonzero mean without bias, functions with undeclared jumps or too fast
        growth for Gaussian integrals, blocks that are equal.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> model = ov.static.SpikedRandomFeatures(np.tanh, np.sin, r=1.2, c=1.1, gamma=0.9, beta=0.8)
    >>> model.solve(alpha=1.3, lam=0.05)
    SpikedSolution(alpha=1.3, lam=0.05, mse=0.0919348, train=0.0284783)
    """

    bulk: Any = None
    offset: Any = 0.0
    breakpoints: tuple[float, ...] = ()
    student_breakpoints: tuple[float, ...] = ()
    kap: float = 0.0
    step: Any = None
    law: Any = None

    def __post_init__(self):
        checked = {
            **self._width(),
            "gamma": check.number("gamma", self.gamma, hint="gamma is an overlap."),
            "kap": check.number("kap", self.kap),
            "breakpoints": kinks_of(self.target, self.breakpoints, "breakpoints"),
            "student_breakpoints": kinks_of(self.student, self.student_breakpoints, "student_breakpoints"),
            **self._neurons(),
        }
        if abs(checked["gamma"]) > 1:
            raise check.refused("gamma", self.gamma, "-1 <= gamma <= 1, the overlap of two unit vectors.")
        self._set(**checked)
        if not self.bias:
            target_moments(self.target, self.breakpoints)  # refuses a target of nonzero mean
        self.coefficients  # noqa: B018 - computed here so that bad functions are refused here

    def _neurons(self):
        """Checked bulk, r, c, offset and fractions: numbers for one block, arrays (B,) for several."""
        law = {}
        if self.bulk is not None:
            bulk = check.array("bulk", self.bulk, ("p",), hint="It lists the eigenvalues of W0 W0^T.")
            rank = np.mean(bulk > 1e-10) * self.beta if bulk.size else math.nan
            if bulk.size == 0 or np.any(bulk < 0) or abs(bulk.mean() - 1) > 1e-6 or rank > 1 + 1e-9:
                raise ValueError(
                    f"bulk = {check.shown(self.bulk)}; expected eigenvalues >= 0 of mean 1 (rows of norm 1), at most "
                    f"the fraction 1/beta = {1 / self.beta:.4g} of them not zero."
                )
            if self.rows != "iid":
                raise ValueError(
                    f"rows = {self.rows!r} with bulk=; expected one of the two: bulk is the law of the rows."
                )
            law = {"bulk": bulk}
        if check.axes("r", self.r) == check.axes("c", self.c) == 0:
            if self.fractions is not None:
                raise check.refused("fractions", self.fractions, "r as a sequence.", after=" with a single block")
            one = {"r": check.number("r", self.r), "c": check.number("c", self.c, above=0, hint="c is a variance.")}
            return law | one | {"offset": check.number("offset", self.offset, hint="Several go with r as a sequence.")}
        r = check.array("r", self.r, ("B",), hint=f"One spike for each entry of c = {check.shown(self.c)}.")
        offset = self.offset
        if check.axes("offset", offset) == 0:
            offset = np.full(r.shape, check.number("offset", offset))
        offset = check.array("offset", offset, r.shape, hint="One for each block.")
        return law | {"r": r, "offset": offset, **self._blocks(r[:, None], offset)}

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
        r"""The features after one giant gradient step on the first layer.

        .. math::
            r = \tau h_1 A, \quad \gamma = h_1^*/A, \quad c = 1 + \tau^2\,\mathrm{Var}[\sigma']\,h_2^*/\alpha_0, \quad
            A = \sqrt{h_1^{*2} + h_2^*/\alpha_0}, \quad \tau = \tilde\eta/\beta

        *Asymptotic* and exact for r, c, gamma. The network itself also has correlations of order 1/sqrt(d) that this
        model omits. Their effect on the test error is below 10 % in the settings tested (alpha0 >= 1) and grows with
        c - 1 and as alpha0 falls; an example of the gallery, ``plot_spiked_finite_batch``, includes them.

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
            Number of letters that represent a continuous law, the nodes of a Gauss quadrature in t^2. Its error falls
            exponentially with this number; compare two numbers.
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

        Examples
        --------
        >>> import numpy as np, overlaps as ov
        >>> ov.static.SpikedRandomFeatures.after_one_step(np.tanh, np.sin, eta_tilde=2, alpha0=1, beta=0.5)
        SpikedRandomFeatures(tanh, sin, r=2.16732, c=1.6746, gamma=0.678032, beta=0.5)
        """
        if np.any(options.get("offset", 0.0)):
            raise ValueError(
                f"offset = {check.shown(options['offset'])} after a step; expected none: with biases the student is "
                "not odd, and its step makes more than one spike. Give r, c, gamma and offset by hand."
                + check.see("spiked", "Cases not covered")
            )
        if step_noise is not None:
            check.number("step_noise", step_noise, least=0, hint="step_noise is a standard deviation.")
        rates = {"eta_tilde": eta_tilde, "alpha0": alpha0, "beta": beta, "scaling": scaling}
        points = {x: options.get(x, ()) for x in ("breakpoints", "student_breakpoints")}
        step = one_step(student, target, noise=noise if step_noise is None else step_noise, **rates, **points)
        law = law_of(readout)
        if fractions is not None and (readout is None or law is not None):
            wrong = "without readout" if readout is None else "with a continuous law"
            raise check.refused("fractions", fractions, "them with the letters readout=(t_1, ...).", after=f" {wrong}")
        if law is not None:
            t, rho = gauss_letters(law, check.count("letters", letters))
        else:
            t, rho = merged_letters((1.0,) if readout is None else readout, fractions)
        r, c = t * step.r, 1 + t**2 * (step.c - 1)
        if step.r == 0 and step.c == 1:  # no step: all letters have the same features
            r, c = r[:1], c[:1]
        if r.size == 1:
            r, c, rho = float(r[0]), float(c[0]), None
        spikes = {"r": r, "c": c, "gamma": step.gamma, "fractions": rho, "step": step, "law": law}
        return cls(student, target, beta=beta, noise=noise, **spikes, **options)

    def _draw(self, setup):
        """One draw of these features; with a continuous law each neuron has its own letter."""
        r, c = np.atleast_1d(self.r), self.variances
        if self.law is not None:
            t = letters_of_law(self.law, setup.p)
            r, c = t * self.step.r, 1 + t**2 * (self.step.c - 1)
            setup = setup._replace(letter=np.arange(setup.p))
        return partial(srf_draw, setup, r, self.gamma, c, self.kap)

    @cached_property
    def coefficients(self):
        """Tables of the conditional Gaussian coefficients over k; independent of alpha, lam and beta."""
        return self._table(self.target, self.breakpoints)

    def _table(self, target, breakpoints):
        options = {"kap": self.kap, "offset": self.offset}
        points = breakpoints, self.student_breakpoints
        return conditional(self.student, target, self.r, self.c, self.gamma, *points, **options)

    @cached_property
    def _labelled(self):
        """Labels sign(target), and features with tables of the labels in place of the target."""
        labels = SignLabels(self.target, self.breakpoints)
        return labels, Levels(self._table(labels, labels.zeros))

    @overload
    def solve(
        self, *, alpha: float, lam: float, d: float = math.inf, loss: None = None, iterations: int = 100
    ) -> SpikedSolution: ...

    @overload
    def solve(
        self, *, alpha: float, lam: float, d: float = math.inf, loss: LossName, iterations: int = 100
    ) -> SpikedClassifier: ...

    def solve(
        self, *, alpha: float, lam: float, d: float = math.inf, loss: LossName | None = None, iterations: int = 100
    ) -> SpikedSolution | SpikedClassifier:
        r"""Test and training error, and order parameters, of the trained readout.

        *Asymptotic*: the solution for d -> infinity, unique for lam > 0, to about 1e-12. With ``d``: exact as d ->
        infinity at fixed r sqrt(d), the crossover from random to spiked features; *heuristic* elsewhere, because it
        includes only that term of order 1/d that is large for close or weak spikes. Classifiers are solved to 1e-9. If
        the mean activation alone separates the labels (gamma = 1 and an odd target such as sign), m is infinite as d ->
        infinity for logistic and hinge loss: ``converged`` is then False; finite d has a solution. Source: Cui et al.
        (2024), arXiv:2402.04980, Result 3.3; (118), (119), (120) for the losses.

        Parameters
        ----------
        alpha : float
            Samples, n/d > 0.
        lam : float
            Ridge penalty > 0 of the objective ``sum (y - yhat)^2 + lam |a|^2`` (no factor 1/n).
        d : float
            Input dimension. At finite d the ridge also acts on the mean of the readout in each block, :math:`m_b`:

            .. math:: E\Big[\frac{\mu_{0,b}\,(h - C)}{1 + V}\Big] = \frac{m_b}{n V_{2,b}}, \qquad n = \alpha d
        loss : {"square", "logistic", "hinge"}, optional
            Classification: labels are y = sign(target), and the readout minimises ``sum l(y yhat) + (lam/2) |a|^2``
            with l(m) = (1 - m)^2/2, log(1 + exp(-m)) or max(0, 1 - m). The default is ridge regression on the target
            itself.
        iterations : int
            Most Newton iterations (of ridge regression).

        Returns
        -------
        SpikedSolution or, with ``loss``, SpikedClassifier
            If the method or its accuracy fails, ``converged`` is False and the numbers are nan.

        Raises
        ------
        ValueError
            alpha or lam that are not positive, a d at which a block has less than one neuron, a loss that is not one
            of these, label noise with a loss, a target whose sign changes too often.

        Examples
        --------
        >>> import numpy as np, overlaps as ov
        >>> model = ov.static.SpikedRandomFeatures(np.tanh, np.sign, r=1.2, c=1.1, gamma=0.9, beta=0.8)
        >>> model.solve(alpha=2.0, lam=0.1, loss="hinge")
        SpikedClassifier('hinge', alpha=2, lam=0.1, wrong=0.137924, train_wrong=0.0330922)
        """
        if loss is None:
            return super().solve(alpha=alpha, lam=lam, d=d, iterations=iterations)
        alpha, lam, d = solving.positive_alpha(alpha), solving.positive_lam(lam), solving.dimension(self, d)
        return classifier.classify(self, alpha, lam, d, loss)

    learn_offset = solving.learn_offset
    bounds = spiked_bounds.bounds
    spectrum = feature_spectrum
    simulate = simulate_srf

    def __repr__(self):
        names = ", ".join(getattr(f, "__name__", str(f)) for f in (self.student, self.target))
        r, c = (f"{x:.6g}" if np.ndim(x) == 0 else str(np.round(x, 4).tolist()) for x in (self.r, self.c))
        extra = f", noise={self.noise:g}" * bool(self.noise) + ", bias=True" * self.bias
        extra += f", rows={self.rows!r}" * (self.rows != "iid") + f", kap={self.kap:.6g}" * bool(self.kap)
        return f"SpikedRandomFeatures({names}, r={r}, c={c}, gamma={self.gamma:.6g}, beta={self.beta:g}{extra})"
