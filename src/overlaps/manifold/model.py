r"""The hidden manifold: inputs that are a random non-linear map of fewer latents, and a teacher that sees the latents.

    latents  c ~ N(0, I_D)                      features  F (N, D), ratio = D / N
    inputs   x = f(F c / sqrt(D)) - E f         teacher   nu = W* c / sqrt(D)

In the limit it is one more spectrum of the one right-hand side, with tau^l and T of its own.  The papers' density form
(Goldt et al. 2020, Bae and Jeong 2024) says the same in other words: :func:`hidden_manifold` has the dictionary.

Where the formulas of Bae and Jeong are corrected: time is steps / N (not 1 / N); (4) sums I2(k, n) over n; the
coefficient of W in (9), (S42) and in d(rho), (S46) is c - a^2 - b^2, and the coefficient of the second-order term in
(S43) c - a^2, for centred inputs; (S15), (S16) have f(U_i) - a and E[f_i] E[f_j]; (S33) to (S37) project with tau; the
densities (S38), (S45) are divided by p(rho); beside the explicit rho of (S41) stands the plain teacher overlap of the
mode, since script-T has a rho of its own (correct in the mean, 3e-3 off in R at D = 500).
"""

from dataclasses import dataclass, fields
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from .._base import ArrayLike, Function, check, warn
from ..models import Model, Spectrum, State, committee_machine
from ..models.mixture import GaussianMixture
from ..models.start import bartlett_factor
from .clusters import realise_clusters
from .ensemble import ManifoldEnsemble
from .feature_map import feature_map
from .marchenko_pastur import feature_eigenvalues
from .realisation import realise

MATCHED = 1e-12  # students whose overlaps differ by less are exchanged by a symmetry of the state: it warns
NO_LINEAR_PART = 1e-10  # features with a smaller b^2 / c carry nothing of the teacher


class LimitSpectrum(Spectrum):
    """Spectrum that follows from the features and ratio of a hidden manifold, and is made again when they change."""

    of_model: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, repr=False)
class HiddenManifold(Model):
    r"""A model whose inputs are features of latents; made by :func:`hidden_manifold`, which explains the parameters.

    ``dataclasses.replace(model, eta=0.1)`` makes a variant. The limit spectrum follows ``features``, ``ratio``,
    ``nodes`` and ``latent_scale``; a realisation's stays (``replace(model, spectrum=None)`` is the limit again).

    :meth:`random_start` draws students N(0, student_scale^2), teachers and features N(0, 1), entry by entry, with
    D = ratio N latents. Independently for each node,

    .. math:: \begin{pmatrix} q^l & r^l \\ r^{lT} & \tau^l \end{pmatrix} = S_l \mathcal{W}_l S_l, \quad
        \mathcal{W}_l \sim \mathrm{Wishart}_{K+M}(p_l N, 1), \quad
        S_l = \mathrm{diag}\Big(\frac{1}{\sqrt N}, \frac{\sigma b \sqrt{\mu_l}}{\sqrt D}\Big)

    and T is the sum of the M-blocks before their factor :math:`b^2 \mu_l`, plus the Wishart matrix of the D - N latent
    directions that no input shows where D > N. Weights at given eigenvalues: exact in law. The eigenvalues themselves
    are those of the limit; their own fluctuations are O(1 / N), while weights fluctuate by O(1 / sqrt(N)).
    """

    features: Any = "sign"  # a FeatureMap once checked
    ratio: float = 1.0
    nodes: int = 16
    latent_scale: float = 1.0

    latent_teacher = True
    only_random = "limit_start(T=...) fixes the teacher.", "limit_start(P=...) fixes the students."

    record = ManifoldEnsemble

    def __post_init__(self):
        scale = check.number("latent_scale", self.latent_scale, above=0)
        self._set(
            features=feature_map(self.features, scale=scale),
            ratio=check.number("ratio", self.ratio, above=0, hint="It is D / N, latent over input dimension."),
            nodes=check.count("nodes", self.nodes),
            latent_scale=scale,
        )
        if self.spectrum is None or getattr(self.spectrum, "of_model", False):
            self._set(spectrum=self._limit_spectrum())
        super().__post_init__()

    def _limit_spectrum(self):
        mu, p = feature_eigenvalues(self.ratio, self.nodes)
        scale = "" if self.latent_scale == 1 else f", latent_scale={self.latent_scale:g}"
        name = f"hidden_manifold({self.features}, ratio={self.ratio:g}, nodes={self.nodes}{scale})"
        return LimitSpectrum(self.features.zeta + self.features.b**2 * mu, p, name)

    def _limit_eigenvalues(self, method):
        """Eigenvalues mu and weights p of F F^T / D in the limit, if this model lives there."""
        if not self.spectrum.of_model:
            raise ValueError(
                f"{method} belongs to the limit spectrum; this model has {self.spectrum}. Keep the model that "
                f"hidden_manifold made, or use dataclasses.replace(model, spectrum=None).{method}(...)."
            )
        return feature_eigenvalues(self.ratio, self.nodes)

    def limit_start(
        self, *, P: ArrayLike, T: ArrayLike, alignment: ArrayLike | None = None, v: ArrayLike | None = None
    ) -> State:
        r"""State in the limit N -> infinity, with students in general position but for a given alignment.

        .. math:: q^l = p_l P, \qquad r^l = G \tau^l, \qquad
                  \tau^l = b^2 \mu_l \frac{p_l}{\delta}\, \sigma^2 T, \qquad \delta = D/N

        *Asymptotic*: N -> infinity. Overlaps of one realisation differ from these by O(1 / sqrt(N)).

        Parameters
        ----------
        P : array_like, shape (K, K)
            Student overlaps W W^T / N.
        T : array_like, shape (M, M)
            Teacher overlaps W* W*^T / D. The state's T, the covariance of nu, is latent_scale^2 = sigma^2 times this.
        alignment : array_like, shape (K, M), optional
            G; zero by default, the limit of random weights.
        v : array_like, shape (K,), optional
            Second layer; the model's by default.

        Raises
        ------
        ValueError
            Shapes that differ, overlaps that are not positive semi-definite together, or the model of a realisation.

        Warns
        -----
        RuntimeWarning
            When two students are exchanged by a symmetry of the state: they then stay equivalent for ever and never
            specialise, unlike any finite network.

        Examples
        --------
        >>> import overlaps as ov
        >>> model = ov.hidden_manifold(2, 2, features="sign", ratio=0.5, eta=0.2)
        >>> start = model.limit_start(P=[[1, 0], [0, 1.1]], T=[[1, 0], [0, 1]], alignment=[[0.1, 0], [0, 0.15]])
        >>> start.R.round(4)
        array([[0.1273, 0.    ],
               [0.    , 0.191 ]])
        """
        mu, p = self._limit_eigenvalues("limit_start")
        K, M = self.K, self.M
        P, T = check.array("P", P, (K, K)), check.array("T", T, (M, M))
        G = check.array("alignment", np.zeros((K, M)) if alignment is None else alignment, (K, M))
        T = self.latent_scale**2 * T
        tau = (self.features.b**2 * mu * p / self.ratio)[:, None, None] * T
        v = self.v if v is None else check.array("v", v, (K,))
        state = State(q=p[:, None, None] * P, r=G @ tau, tau=tau, T=T, v=v).on(self)
        _warn_matched(state)
        return state

    def _drawn(self, N, rng, scale):
        mu, p = self._limit_eigenvalues("random_start")
        K, M, D = self.K, self.M, self.ratio * N
        joint = np.zeros((len(p), M + K, M + K))  # teachers first
        for block, n in zip(joint, p * N, strict=True):
            factor = bartlett_factor(rng, M + K, n)
            block[:] = factor @ factor.T
        unseen = bartlett_factor(rng, M, max(D - N, 0.0))  # latent directions outside the row space of F
        T = self.latent_scale**2 * (unseen @ unseen.T + joint[mu > 0, :M, :M].sum(axis=0)) / D
        student = np.full((len(p), 1, 1), scale / np.sqrt(N))
        image = self.latent_scale * self.features.b * np.sqrt(mu / D)[:, None, None]
        q, r, tau = student**2 * joint[:, M:, M:], student * image * joint[:, M:, :M], image**2 * joint[:, :M, :M]
        return State(q=q, r=r, tau=tau, T=T, v=self.v).on(self)

    realisation = realise

    def cluster_realisation(
        self, *, W: ArrayLike, W_star: ArrayLike, F: ArrayLike, latents: Any, v: ArrayLike | None = None
    ) -> tuple[GaussianMixture, State]:
        r"""Model and state of explicit weights where latents come from a mixture whose component all of them share.

        Given its class c the input is a feature of Gaussian latents with a mean, :math:`\beta = F \gamma_c/\sqrt D`,

        .. math:: \bar x_i = E f(\beta_i + s u), \quad \Omega_{ij} = \mathrm{Cov}_c(x_i, x_j), \quad
                  \Phi_c = \mathrm{diag}(E f'(\beta + s u))\, s^2 F/\sqrt D

        and the fields are Gaussian in each class: a mixture of inputs (:func:`overlaps.gaussian_mixture`) with a
        teacher of the latents. *Asymptotic* in D inside each class. The class means have length O(sqrt N): the mean
        fields relax within O(1) steps, and the equations follow what is slow, up to fluctuations of relative order eta.
        At K = M = 2, N = 400 they predict the error on fresh samples within 10 %, where ``eps_g`` of the Gaussian
        theory is wrong by a factor above ten. Source: Refinetti, Goldt, Krzakala and Zdeborova (2021),
        arXiv:2102.11742, for the equations of a mixture.

        Parameters
        ----------
        W, W_star, F : array_like, shape (K, N), (M, D), (N, D)
            As in :meth:`realisation`; rows of F are normalised.
        latents : Mixture
            Of kind "shared" or "shared_vector", not standardised or by the population, with classes of one covariance:
            two components of equal weight that x -> -x exchanges.
        v : array_like, shape (K,), optional
            Second layer; the model's by default.

        Returns
        -------
        model : GaussianMixture
        state : State
            For ``solve`` and ``compress``.

        Raises
        ------
        ValueError
            Other latents; classes whose covariances differ by more than 1e-8: features that are not odd, as "relu" and
            "abs"; rows of F with a correlation above 0.94.

        Examples
        --------
        >>> import overlaps as ov
        >>> from overlaps.manifold.weights import random_weights
        >>> model = ov.hidden_manifold(2, 2, features="sign", ratio=0.5, eta=0.2)
        >>> law = ov.latents.mixture(kind="shared", means=[-3.0, 1.0], standardise="population")
        >>> mixture, start = model.cluster_realisation(**random_weights(model, N=40, rng=1)._asdict(), latents=law)
        >>> mixture.weights, start.m.sum(axis=0).shape
        (array([0.5, 0.5]), (2, 2))
        """
        # test: tests/manifold/test_clusters.py::test_the_cluster_equations_predict_what_is_learned
        return realise_clusters(self, W=W, W_star=W_star, F=F, latents=latents, v=v)


def hidden_manifold(
    K: int,
    M: int,
    *,
    features: str | Function = "sign",
    kinks: ArrayLike = (),
    ratio: float,
    nodes: int = 16,
    latent_scale: float = 1.0,
    eta: float,
    **learning: Any,
) -> "HiddenManifold":
    r"""Two-layer student on features of latents, two-layer teacher on the latents.

    .. math:: x = f(F c/\sqrt D) - E f, \qquad \lambda = W x/\sqrt N, \qquad \nu = W_* c/\sqrt D, \qquad
              c \sim N(0, \sigma^2 I_D)

    Student, teacher and SGD are those of :func:`overlaps.committee_machine`; only the fields differ. With the averages
    a = E f, b, c of the feature map (:func:`overlaps.manifold.feature_map.statistics`) and
    zeta = c - a^2 - b^2, the fields are Gaussian for D -> infinity and the inputs have the spectrum

    .. math:: s = \zeta + b^2 \mu, \qquad \mu \text{ an eigenvalue of } F F^T/D,

    which follows the Marchenko-Pastur law; its integrals are taken by Gauss nodes, with an atom of weight 1 - D/N at mu
    = 0 where D < N. *Asymptotic*: N, D -> infinity at fixed D / N, alpha = steps / N, F of independent entries with
    rows of squared length D. Gaussian equivalence needs latents that are nearly independent, not Gaussian.

    Inputs must be **centred**, x = f(U) - a, in simulations too. Otherwise they have a mean vector of squared norm
    a^2 N, and no closed equation in alpha describes the run (see :func:`overlaps.manifold.feature_map.statistics`).

    Dictionary to the density form of the papers: for eigenvalues rho = (D/N) mu of F^T F / N, and p_l = 1/N,
    sigma_kl(rho) = N rho q^l, r_km(rho) = (D/b) r^l, d(rho) = (D/N) s_l, Sigma = sum_l mu_l q^l, W = sum_l q^l, Q =
    zeta W + b^2 Sigma. The module's docstring lists what is misprinted there. Source: Goldt, Mezard, Krzakala and
    Zdeborova (2020), Phys. Rev. X 10, 041044, arXiv:1909.11500; Bae and Jeong (2024), arXiv:2405.00642: model (1), (2),
    (3); order parameters (9), (10), (11) = (S22), (S23), (S24); equations (4) = (S47), (S41), (S43), (S46); density of
    rho (S40).

    Parameters
    ----------
    K, M : int
        Numbers of student and teacher units.
    features : str or callable
        f: "sign", "erf" (of u / sqrt(2)), "relu", "linear", "abs", or any vectorised function.
    kinks : sequence of float
        Where a user's f, or its derivative, jumps.
    ratio : float
        D / N > 0, latent over input dimension.
    nodes : int
        Gauss nodes, the atom not counted. 16 bring Q, R to 1e-7 up to alpha = 100; at alpha = 1000 to 1e-7 for sign and
        relu features, to 1e-3 for erf, and at D = N to 0.1 for linear ones: take 64 where zeta is small and times long.
    latent_scale : float
        Standard deviation sigma of a latent coordinate. Latents that are independent, centred, but not of unit variance
        (unstandardised mixtures) follow the theory at their own sigma.
    eta : float
        Learning rate of the first layer.
    **learning
        ``activation, teacher_activation, v, v_star, normalised, eta_v, noise, weight_decay, batch_size`` and
        ``gradient_flow``, as in :func:`overlaps.committee_machine`. A spectrum is none of them.

    Returns
    -------
    HiddenManifold
        A Model with ``limit_start``, ``random_start`` and ``realisation``.

    Raises
    ------
    ValueError
        An argument out of range; the message names it. A spectrum: it follows from the features.
    TypeError
        An option that is not known.

    Warns
    -----
    RuntimeWarning
        When f has no linear part (b = 0, as "abs"): the student then sees nothing of the teacher, R = 0 for ever.

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.hidden_manifold(2, 2, features="sign", ratio=0.5, nodes=3, eta=0.2)
    >>> model
    HiddenManifold(K=2, M=2, erf, hidden_manifold(sign, ratio=0.5, nodes=3), eta=0.2)
    >>> model.spectrum.s.round(4)
    array([0.3634, 0.7817, 1.9736, 3.4278])
    """
    if "spectrum" in learning:
        raise ValueError(
            f"spectrum = {check.shown(learning['spectrum'])}; expected none: that of a hidden manifold follows from "
            "features and ratio. Use dataclasses.replace(model, spectrum=...) for another one."
        )
    network = committee_machine(K, M, eta=eta, **learning)
    common = {f.name: getattr(network, f.name) for f in fields(network)} | {"spectrum": None}
    features = feature_map(features, kinks, check.number("latent_scale", latent_scale, above=0))
    if features.b**2 <= NO_LINEAR_PART * features.c:
        warn(
            f"features = {features} have no linear part (b = 0): inputs show nothing of the teacher, so R stays 0 and "
            "the student only shrinks. Expected features that are not even, e.g. 'sign' or 'relu'."
            + check.see("hidden_manifold", "One more spectrum")
        )
    return HiddenManifold(**common, features=features, ratio=ratio, nodes=nodes, latent_scale=latent_scale)


def _warn_matched(state):
    """Warn where exchanging two students changes nothing in a state."""
    for j, k in combinations(range(state.K), 2):
        swap = np.arange(state.K)
        swap[[j, k]] = k, j
        swapped = state.q[:, swap][:, :, swap], state.r[:, swap], state.v[swap]
        pairs = zip(swapped, (state.q, state.r, state.v), strict=True)
        if all(np.allclose(a, b, rtol=0, atol=MATCHED) for a, b in pairs):
            warn(
                f"students {j} and {k} are exchanged by a symmetry of this start (equal P, alignment and v): they stay "
                "equivalent and never specialise. Set them apart, or use random_start or realisation."
                + check.see("hidden_manifold", "Three starts")
            )
            return
