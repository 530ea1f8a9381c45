"""Several spikes: random features whose spikes span up to three directions, and targets of several indices."""

import math
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np

from ..._base import ArrayLike, Function, check
from ...activations.activation import Activation
from . import solving
from .averages import function_of, kinks_of
from .bounds import Bounds, bounds
from .directions import DIRECTIONS, GiantSteps, several_spikes
from .draws import derivative_of, subspace_draw
from .letters import law_of, merged_letters
from .one_step import student_moments
from .simulation import simulate_srf


class SpikedSubspace(solving.Solvable):
    r"""Ridge regression of a target of several indices on random features with spikes in several directions.

    .. math::
        w_i = \sum_{a \le R} r_{ba} \hat v_a + \sqrt{c_b}\, w_i^0 \quad (i \mbox{ in block } b), \qquad
        y = \sigma_*(\theta_1 \cdot x, \dots, \theta_m \cdot x) + \sqrt\Delta\,\xi, \qquad
        \theta_j \cdot \hat v_a = \gamma_{ja}

    The theory of :class:`SpikedRandomFeatures` holds with functions of the projections :math:`k \in R^R` on the
    spikes: the mean activation :math:`\mu_{0,b}(r_b \cdot k)`, the linear component :math:`k_a \mu_{1,b}` along each
    direction, and the component of the target that is linear in each direction orthogonal to the spikes. *Asymptotic*,
    d -> infinity, and derived here; exact given the conditional Gaussian equivalence. With one direction and one index
    it is :class:`SpikedRandomFeatures`; additional directions without a spike change nothing.

    Parameters
    ----------
    student : Activation or callable
        sigma, vectorised.
    target : callable
        sigma_*(z_1, ..., z_m) of m <= 3 arrays, smooth and of zero mean unless a bias is trained.
    r : array_like, shape (B, R)
        Spikes of the blocks of neurons in orthonormal directions, R <= 3.
    gamma : array_like, shape (m, R)
        Overlaps of these directions with the target's orthonormal ones.
    c : float or sequence of float, shape (B,)
        Variances of the bulk.
    beta, noise, bias, fractions, rows
        As in :class:`SpikedRandomFeatures`.

    Raises
    ------
    ValueError
        More than three directions, overlaps that orthonormal vectors cannot have, equal blocks, functions with jumps or
        kinks or a mean, parameters out of range.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> model = ov.static.SpikedSubspace(
    ...     np.tanh, lambda x, y: x + y * (x**2 - 1), r=[[1, 0], [0.5, 1]], gamma=[[0.9, 0], [0, 0.8]], beta=1.0
    ... )
    >>> model.solve(alpha=2.0, lam=0.1)
    SpikedSolution(alpha=2, lam=0.1, mse=2.54073, train=1.45624)
    """

    def __post_init__(self):
        hint = "One row for each block, one column for each direction."
        r = check.array("r", self.r, ("B", "R"), hint, filled=True)
        gamma = check.array("gamma", self.gamma, ("m", r.shape[1]), hint="One row for each index of the target.")
        if not (0 < len(gamma) <= DIRECTIONS.max_rank and r.shape[1] <= DIRECTIONS.max_rank):
            raise ValueError(
                f"r has {r.shape[1]} directions, gamma {len(gamma)} indices; expected 1 to {DIRECTIONS.max_rank} of "
                "each: the nodes of the quadratures grow exponentially with it."
                + check.see("spiked", "Cases not covered")
            )
        if np.linalg.norm(gamma, 2) > 1 + 1e-12:
            raise ValueError(
                f"gamma = {check.shown(self.gamma)} has the singular value {np.linalg.norm(gamma, 2):.6g}; expected at "
                "most 1, overlaps of orthonormal vectors."
            )
        self._set(r=r, gamma=gamma, **self._width(), **self._blocks(r, np.zeros(len(r))))
        table = self.coefficients
        mean, second = table.weight @ table.h, table.weight @ table.hh
        if not self.bias and abs(mean) > 1e-8 * math.sqrt(second):
            raise ValueError(f"target has the mean {mean:.6g} over N(0, 1); expected 0, or bias=True. Subtract it.")

    @classmethod
    def after_steps(
        cls,
        student: Activation | Function,
        target: Function,
        *,
        indices: int,
        eta_tilde: ArrayLike,
        alpha0: ArrayLike,
        beta: float,
        scaling: Literal["d", "p"] = "d",
        noise: float = 0.0,
        readout: ArrayLike = (1.0,),
        fractions: ArrayLike | None = None,
        **options: Any,
    ) -> "SpikedSubspace":
        r"""The features after giant gradient steps on the first layer, each on fresh samples.

        With F(k) the network's output before a step and e = y - F, a step adds to the rows of block b

        .. math::
            \tau t_b \Big( E[e\, k \mu_{1,b}]\cdot\hat v + E[e\,\zeta\,\mu_{1,b}]\cdot\hat\zeta + g_b \Big), \qquad
            g_b \cdot g_{b'} = \frac{E[e^2 \mu_{1,b}\mu_{1,b'}]}{\alpha_0}, \qquad
            c_b \leftarrow c_b (1 + \tau t_b E[e \sigma''])^2 + \frac{\tau^2 t_b^2}{\alpha_0}
            E[e^2 {\rm Var}_z\,\sigma'] .

        At the first step F = 0 and :math:`\mu_1 = E\sigma'`: all spikes are multiples of the mean of y x, for any
        number of indices. Later steps learn from the residual of the earlier ones; neurons with different readouts t
        move in different directions, at most as many as there are letters. *Asymptotic* for spikes, overlaps and c. As
        after one step, the rows of the network have correlations of order 1/sqrt(d), which the features leave out.

        Parameters
        ----------
        student : Activation or callable
            sigma, odd and smooth.
        target : callable
            sigma_*(z_1, ..., z_m).
        indices : int
            Their number m <= 3.
        eta_tilde, alpha0 : float or sequence of float
            Learning rate and samples n0/d (``math.inf``: the population gradient) of each step.
        beta, scaling, noise, readout, fractions
            As in :meth:`SpikedRandomFeatures.after_one_step`, but without continuous laws.
        **options
            ``rows``, ``bias``, as in the class.

        Raises
        ------
        ValueError
            Spikes in more than three directions, a student that is not odd, or arguments that the class refuses.

        Examples
        --------
        >>> import numpy as np, overlaps as ov
        >>> net = ov.static.SpikedSubspace.after_steps(
        ...     np.tanh, lambda x, y: x + y * (x**2 - 1), indices=2, eta_tilde=(1.5, 1.5), alpha0=8, beta=1.0,
        ...     readout=(0.5, 1.5),
        ... )
        >>> net.r.shape, net.gamma.shape
        ((2, 2), (2, 2))
        """
        m = check.count("indices", indices)
        if m > DIRECTIONS.max_rank:
            raise ValueError(f"indices = {m}; expected at most {DIRECTIONS.max_rank}.")
        student_moments(student)  # refuses a student that is not odd
        if kinks_of(student, (), "student"):
            raise check.refused("student", student, "a smooth one, e.g. np.tanh, ov.erf.", after=" has kinks")
        if law_of(readout) is not None:
            raise ValueError(
                f"readout = {check.shown(readout)}; expected letters t_b: a law has more than {DIRECTIONS.max_rank} "
                "spikes." + check.see("spiked", "Several directions, several steps")
            )
        t, rho = merged_letters(readout, fractions)
        noise = check.number("noise", noise, least=0, hint="noise is a standard deviation.")
        rates, samples = (np.atleast_1d(check.times(*x)) for x in (("eta_tilde", eta_tilde), ("alpha0", alpha0)))
        for name, values in ("eta_tilde", rates), ("alpha0", samples):
            if values.ndim > 1 or values.size == 0:
                raise ValueError(f"{name} has shape {values.shape}; expected a number, or one for each step.")
        try:
            rates, samples = np.broadcast_arrays(rates, samples)
        except ValueError:
            raise ValueError(
                f"eta_tilde = {check.shown(eta_tilde)}, alpha0 = {check.shown(alpha0)}; expected one of each a step."
            ) from None
        check.choice("scaling", scaling, ("d", "p"))
        beta = check.number("beta", beta, above=0, hint="beta is the width, p/d.")
        f, derivative = function_of(student, "student"), derivative_of(student)
        state = GiantSteps(np.zeros((t.size, m)), np.ones(t.size))
        for rate, size in zip(rates, samples, strict=True):
            rate = check.number("eta_tilde", rate, least=0) / (beta if scaling == "d" else 1.0)
            size = size if size == math.inf else check.number("alpha0", size, above=0)
            state = state.step(f, derivative, target, m, rate * t, t * rho, size, noise)
        r, basis = state.basis()
        if not r.shape[1]:
            raise ValueError(
                f"eta_tilde = {check.shown(eta_tilde)} leaves no spike; expected a rate > 0 and a target with "
                "E[y x] != 0, or a finite alpha0." + check.see("spiked", "Several directions, several steps")
            )
        spikes = {"r": r, "c": state.c, "gamma": basis[:, :m].T, "beta": beta, "fractions": rho, "noise": noise}
        return cls(student, target, **spikes, **options)

    @cached_property
    def coefficients(self):
        """Tables of the conditional Gaussian coefficients over k, as :class:`.conditional.Coefficients`.

        k has shape (n, R), u (B R, n), h1 (J, n): one row for each direction of the target orthogonal to the spikes.
        """
        return several_spikes(self.student, self.target, self.r, self.c, self.gamma).resolved()

    def bounds(self) -> Bounds:
        """Bounds on the test error at these spikes, d -> infinity; see :func:`overlaps.static.spiked.bounds.bounds`."""
        return bounds(self)

    simulate = simulate_srf

    def _draw(self, setup):
        """One draw of these features."""
        H = several_spikes(self.student, self.target, self.r, self.c, self.gamma).beyond_spikes
        return partial(subspace_draw, setup._replace(target=self._labels), self.r, self.gamma, self.c, H)

    def _labels(self, z):
        return self.target(*np.moveaxis(z, -1, 0))

    def __repr__(self):
        r, gamma = np.round(self.r, 4).tolist(), np.round(self.gamma, 4).tolist()
        return f"SpikedSubspace(r={r}, gamma={gamma}, c={np.round(self.c, 4).tolist()}, beta={self.beta:g})"
