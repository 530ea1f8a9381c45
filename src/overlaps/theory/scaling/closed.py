"""Closed forms for many eigenvalues: terms, windows, a random basis, and the best use of compute."""

import numpy as np
from scipy.special import gamma

from ..._base import check
from ..._base.types import ArrayLike, Floats
from .. import features
from . import frontier, terms
from .problem import _Problem


class _Closed(_Problem):
    """Asymptotic statements."""

    def terms(self, alpha: ArrayLike, N_l: int | None = None) -> terms.Terms:
        r"""Bias, floor, noise of the steps and label noise, each in closed form for many eigenvalues.

        .. math:: \epsilon_g \simeq P e_0 + P F_0 + P^2\,[\,c + E_0 k - \tau F_0\,]
           + \tfrac{\sigma^2}2\,[\,\hat k P - P^2 \tau\,]

        .. math:: e_0 = \frac{s_1 n}{2L}\,\frac{\zeta^{-g}\,\Gamma(g, x)}{1+\beta}, \quad
           F_0 = \frac{s_1 n}{2L}\,\frac{(N_l+\frac12)^{-\gamma} - (L+\frac12)^{-\gamma}}{\gamma}, \quad
           k = \frac{\eta^2 s_1^2}{BL}\,\frac{\zeta^{-(1+b)}\,\Gamma(1+b, x)}{1+\beta}, \quad
           \tau = \frac{\eta s_1}{2BL}\,\frac{\zeta^{-b}\,\Gamma(b, x)}{1+\beta}

        with zeta = 2 eta s_1 alpha, x = zeta (N_l + 1/2)^-(1 + beta), gamma = beta + 2 delta, g = gamma/(1 + beta),
        b = beta/(1 + beta), E_0 = n zeta_R(2 delta)/(4 eta L) with Riemann's zeta function, and c, the convolution of
        the two power laws.

        *Asymptotic*: zeta > 10 or so, many eigenvalues; relative corrections of order zeta^(-2 b), slow for small beta,
        and where beta + 2 delta is near zero. Which term rules: the bias where g < 1 + b, that is 2 delta < 1 + beta,
        else the noise of the steps, and then the source no longer matters; the floor from x = 1 on; label noise late.
        Derived here.

        Parameters
        ----------
        alpha : array_like
            Times > 0.
        N_l : int, optional
            Trained features.

        Returns
        -------
        Terms
            Arrays of the shape of alpha.

        Raises
        ------
        ValueError
            Times that are not positive, N_l outside 1..L, a learning rate at which the error does not decay.

        Examples
        --------
        >>> import overlaps as ov
        >>> law = ov.theory.scaling.Law(1.0, 0.3, L=64, eta=0.5, noise=0.1)
        >>> [round(float(x), 6) for x in law.terms(1.0, 16)]
        [0.012287, 0.003164, 0.000586, 0.001494]
        """
        times = check.times("alpha", alpha)
        if not np.all((times > 0) & np.isfinite(times)):
            raise ValueError(f"alpha = {check.shown(times.tolist())}; expected finite times > 0. Else use error.")
        return terms.terms(self, times, self.trained(N_l))

    def asymptote(self, alpha: ArrayLike, N_l: int | None = None) -> Floats:
        """Sum of the four :meth:`terms`.

        *Asymptotic*. At zeta = 1000, beta = 1, eta = 1, L = 4000 within 0.3 % of :meth:`error` for sources from 0 to 1.

        Parameters
        ----------
        alpha : array_like
            Times > 0.
        N_l : int, optional
            Trained features.

        Examples
        --------
        >>> import overlaps as ov
        >>> law = ov.theory.scaling.Law(1.0, 0.3, L=64, eta=0.5, noise=0.1)
        >>> round(float(law.asymptote(1.0, 16) / law.error(1.0, 16)), 4)
        1.0
        """
        # test: tests/theory/scaling/test_terms.py::test_errors_of_the_asymptote
        return sum(self.terms(alpha, N_l), start=np.zeros(()))

    def window(self, N_l: int | None = None, accuracy: float = 0.1) -> tuple[float, float]:
        r"""Times between which gradient flow follows its pure power law to a given accuracy.

        .. math:: 3 < 2\eta s_1\alpha < x (N_l + \tfrac12)^{1+\beta}, \qquad
           x = \big(\Gamma(1+g)\,q\big)^{1/g} \ (N_l = L), \quad
           x = \big((1+g)\,\Gamma(g)\,q\big)^{1/(1+g)} \ (N_l \ll L)

        *Asymptotic*; the first alpha is a rule of thumb. For the source; random students have the window of source 0.

        Parameters
        ----------
        N_l : int, optional
            Trained features. Frozen modes and those not yet learned look alike to first order: the window is longer.
        accuracy : float
            Relative distance q from the power law at the end.

        Returns
        -------
        tuple of float
            First and last alpha.

        Examples
        --------
        >>> import overlaps as ov
        >>> first, last = ov.theory.scaling.Law(1.0, 0.3, L=64, eta=0.5).window()
        >>> round(first, 4), round(last, 4)
        (0.0764, 5.4499)
        """
        N_l, q = self.trained(N_l), check.number("accuracy", accuracy, above=0)
        g = self.exponents.time
        x = (q * gamma(1 + g)) ** (1 / g) if N_l == self.L else (q * (1 + g) * gamma(g)) ** (1 / (1 + g))
        unit = 1 / (2 * self.eta * self.spectrum.s[0])
        return float(3 * unit), float(x * (N_l + 0.5) ** (1 + self.beta) * unit)

    def random_basis(self, N_l: int) -> float:
        r"""Error that is left when N_l directions of a random (Haar) basis are trained, in gradient flow.

        .. math:: F_H = \tfrac12 \sum_l m_l(0)\, \frac{\xi s_l}{s_l + \xi}, \qquad \sum_k \frac{s_k}{s_k + \xi} = N_l

        *Asymptotic*: N_l -> infinity at fixed N_l/L. For 1 << N_l << L it falls as N_l^-(beta + 2 delta), and as
        N_l^-(1 + beta) where 2 delta > 1: there the directions are the limit, not the teacher.
        :func:`overlaps.theory.features.error_haar` is source = 0. Derived here.

        Parameters
        ----------
        N_l : int
            Trained directions.

        Examples
        --------
        >>> import overlaps as ov
        >>> round(ov.theory.scaling.Law(1.0, 0.3, L=64, eta=0.5).random_basis(16), 8)
        0.01392222
        """
        N_l = self.trained(N_l)
        if N_l == self.L:
            return 0.0
        s, xi = self.spectrum.s, features.haar_root(self.spectrum, N_l / self.L)
        return float(0.5 * self.m0 @ (xi * s / (s + xi)))

    def frontier(self, compute: ArrayLike, exact: bool = False) -> frontier.Frontier:
        r"""The best number of features for a given compute c = N_l B alpha, the time left for it, and the error.

        .. math:: N = \Big(\frac{2\eta s_1 c}{B\, x}\Big)^{1/(2+\beta)}, \quad N_l = N - \tfrac12, \qquad
           \epsilon \simeq P\,\frac{s_1 n}{2L} \Big[ f \Big(\frac{2\eta s_1 c}B\Big)^{-\gamma/(2+\beta)}
           - \frac{(L+\frac12)^{-\gamma}}{\gamma}\Big]

        .. math:: (1+\beta)\, x^g (1 - e^{-x}) = \Gamma(g+1, x), \qquad
           f = \frac{x^{-g/(2+\beta)}\,\Gamma(g, x)}{1+\beta} + \frac{x^{\gamma/(2+\beta)}}{\gamma}

        Training stops at a fixed x = zeta/N^(1 + beta), at the end of the window, where neither term is a power law:
        balancing two power laws gives the right exponents and wrong constants. *Asymptotic*: N_l ~ c^(1/(2 + beta)),
        eps ~ c^(-(beta + 2 delta)/(2 + beta)), corrections of order N_l^-beta. With ``exact`` it is *exact* if the
        error has one minimum in N_l, as in all cases met (not proved); the ends 1 and L may be the answer. For 2 delta
        > 1 + beta the noise of the steps has to be outlived, N_l falls below the closed form, and exponents approach
        their limit logarithmically. Derived here.

        Parameters
        ----------
        compute : array_like
            Numbers of operations over N, c = N_l B alpha, > 0.
        exact : bool
            Search the whole N_l of least :meth:`error`, for any learning rate, source, and noise.

        Returns
        -------
        Frontier
            Arrays N_l, alpha, eps of the shape of compute. Closed: N_l is not rounded, and c = (N_l + 1/2) B alpha.

        Raises
        ------
        ValueError
            Closed: label noise, random students, 2 delta >= 1 + beta, an N_l outside 1..L.

        Examples
        --------
        >>> import overlaps as ov
        >>> law = ov.theory.scaling.Law(1.0, 0.3, L=400, eta=0.5)
        >>> closed, exact = law.frontier([4.0, 400.0]), law.frontier([4.0, 400.0], exact=True)
        >>> closed.N_l.round(2), exact.N_l, (exact.eps / closed.eps).round(4)
        (array([10.7 , 51.51]), array([11., 51.]), array([0.9968, 1.0002]))
        """
        compute = check.array("compute", compute, (...,))
        if np.any(compute <= 0):
            raise ValueError(f"compute = {check.shown(compute.tolist())}; expected numbers > 0.")
        return (frontier.exact if check.flag("exact", exact) else frontier.closed)(self, compute)
