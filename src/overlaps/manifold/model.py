r"""The hidden manifold: inputs are a random non-linear map of fewer latents, and the teacher acts on the latents.

    latents  c ~ N(0, I_D)                      features  F (N, D), ratio = D / N
    inputs   x = f(F c / sqrt(D)) - E f         teacher   nu = W* c / sqrt(D)

In the limit it is a spectrum, with its own tau^l and T, for the same right-hand side as all models.  The density form
of the papers (Goldt et al. 2020, Bae and Jeong 2024) is equivalent: :func:`hidden_manifold` has the dictionary.

Corrections to the formulas of Bae and Jeong: time is steps / N (not 1 / N); (4) sums I2(k, n) over n; the coefficient
of W in (9), (S42) and in d(rho), (S46) is c - a^2 - b^2, and the coefficient of the second-order term in (S43) c - a^2,
for centred inputs; (S15), (S16) have f(U_i) - a and E[f_i] E[f_j]; (S33) to (S37) project with tau; the densities
(S38), (S45) are divided by p(rho); the factor of the explicit rho in (S41) is the plain teacher overlap of the mode,
because script-T contains another rho (correct in the mean, 3e-3 off in R at D = 500).
"""

from dataclasses import fields
from itertools import combinations
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .._base import ArrayLike, Function, by_name, check, warn
from ..models import Model, Spectrum, State, committee_machine
from ..models.mixture import GaussianMixture
from ..models.start import bartlett_factor
from .clusters import realise_clusters
from .ensemble import ManifoldEnsemble
from .feature_map import feature_map
from .marchenko_pastur import feature_eigenvalues
from .realisation import realise


class Thresholds(NamedTuple):
    """Limits below which a hidden manifold warns."""

    # Difference of the overlaps of two students: equal up to rounding, 1e-16; half or double changes nothing in
    # practice.
    symmetry_tol: float = 1e-12
    # b^2 / c of the features: zero up to the error of the integrals, 1e-12.
    linear_fraction: float = 1e-10


THRESHOLDS = Thresholds()


class LimitSpectrum(Spectrum):
    """Spectrum computed from features and ratio of a hidden manifold, and computed anew when they change."""

    of_model: ClassVar[bool] = True


class HiddenManifold(Model):
    r"""A model whose inputs are features of latents; made by :func:`hidden_manifold`, which describes the parameters.

    ``model.replace(eta=0.1)`` makes a variant. The limit spectrum is computed from ``features``,
    ``ratio``, ``nodes`` and ``latent_scale``; the spectrum of a realisation is fixed (``replace(model, spectrum=None)``
    has the limit spectrum).

    :meth:`random_start` draws students N(0, student_scale^2), teachers and features N(0, 1), entry by entry, with
    D = ratio N latents. Independently for each node,

    .. math:: \begin{pmatrix} q^l & r^l \\ r^{lT} & \tau^l \end{pmatrix} = S_l \mathcal{W}_l S_l, \quad
        \mathcal{W}_l \sim \mathrm{Wishart}_{K+M}(p_l N, 1), \quad
        S_l = \mathrm{diag}\Big(\frac{1}{\sqrt N}, \frac{\sigma b \sqrt{\mu_l}}{\sqrt D}\Big)

    and T is the sum of the M-blocks before their factor :math:`b^2 \mu_l`, plus, for D > N, the Wishart matrix of the
    D - N latent directions without effect on the inputs. Exact in law for weights at given eigenvalues. The eigenvalues
    are those of the limit; their fluctuations are O(1 / N), while those of weights are O(1 / sqrt(N)).
    """

    features: Any = "sign"  # the attribute is a FeatureMap
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
        """Eigenvalues mu and weights p of F F^T / D in the limit; an error for the model of a realisation."""
        if not self.spectrum.of_model:
            raise ValueError(
                f"{method} belongs to the limit spectrum; this model has {self.spectrum}. Use the model that "
                f"hidden_manifold made, or model.replace(spectrum=None).{method}(...)."
            )
        return feature_eigenvalues(self.ratio, self.nodes)

    def limit_start(
        self, *, P: ArrayLike, T: ArrayLike, alignment: ArrayLike | None = None, v: ArrayLike | None = None
    ) -> State:
        r"""State in the limit N -> infinity, with random students except for a given alignment.

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
            If a symmetry of the state exchanges two students: they then stay equivalent and never specialise, unlike
            those of a finite network.

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
        _warn_of_symmetry(state)
        return state

    def _drawn(self, N, rng, scale):
        mu, p = self._limit_eigenvalues("random_start")
        K, M, D = self.K, self.M, self.ratio * N
        joint = np.zeros((len(p), M + K, M + K))  # teachers first
        for block, n in zip(joint, p * N, strict=True):
            factor = bartlett_factor(rng, M + K, n)
            block[:] = factor @ factor.T
        hidden = bartlett_factor(rng, M, max(D - N, 0.0))  # latent directions outside the row space of F
        T = self.latent_scale**2 * (hidden @ hidden.T + joint[mu > 0, :M, :M].sum(axis=0)) / D
        student = np.full((len(p), 1, 1), scale / np.sqrt(N))
        image = self.latent_scale * self.features.b * np.sqrt(mu / D)[:, None, None]
        q, r, tau = student**2 * joint[:, M:, M:], student * image * joint[:, M:, :M], image**2 * joint[:, :M, :M]
        return State(q=q, r=r, tau=tau, T=T, v=self.v).on(self)

    realisation = realise

    def cluster_realisation(
        self, *, W: ArrayLike, W_star: ArrayLike, F: ArrayLike, latents: Any, v: ArrayLike | None = None
    ) -> tuple[GaussianMixture, State]:
        r"""Model and state of explicit weights for latents from a mixture with one component for all coordinates.

        Given its class c the input is a feature of Gaussian latents with a mean, :math:`\beta = F \gamma_c/\sqrt D`,

        .. math:: \bar x_i = E f(\beta_i + s u), \quad \Omega_{ij} = \mathrm{Cov}_c(x_i, x_j), \quad
                  \Phi_c = \mathrm{diag}(E f'(\beta + s u))\, s^2 F/\sqrt D

        and the fields are Gaussian in each class: a mixture of inputs (:func:`overlaps.gaussian_mixture`) with a
        teacher on the latents. *Asymptotic* in D inside each class. The class means have length O(sqrt N): the mean
        fields relax within O(1) steps, and the equations describe the slow variables, up to fluctuations of relative
        order eta. At K = M = 2, N = 400 they predict the error on fresh samples within 10 %, while ``eps_g`` of the
        Gaussian theory is wrong by a factor above ten. Source: Refinetti, Goldt, Krzakala and Zdeborova (2021),
        arXiv:2102.11742, for the equations of a mixture.

        Parameters
        ----------
        W, W_star, F : array_like, shape (K, N), (M, D), (N, D)
            As in :meth:`realisation`, which normalises the rows of F.
        latents : Mixture
            Kind "shared" or "shared_vector", standardised by "none" or "population", with one covariance for all
            classes: two components of equal weight, exchanged by x -> -x.
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
            Other latents; classes whose covariances differ by more than 1e-8, because features such as "relu" and "abs"
            are not odd; rows of F with a correlation above 0.94.

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
        return realise_clusters(self, W=W, W_star=W_star, F=F, latents=latents, v=v)


@by_name("ov.hidden_manifold(2, 2, ratio=0.5, eta=0.2)")
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

    which follows the Marchenko-Pastur law; its integrals use Gauss quadrature, with an atom of weight 1 - D/N at mu = 0
    if D < N. *Asymptotic*: N, D -> infinity at fixed D / N, alpha = steps / N, F of independent entries with
    rows of squared length D. Gaussian equivalence needs latents that are nearly independent, not Gaussian.

    Inputs must be **centred**, x = f(U) - a, in simulations too. Otherwise they have a mean vector of squared norm
    a^2 N, and no closed equation in alpha describes the run (see :func:`overlaps.manifold.feature_map.statistics`).

    Dictionary to the density form of the papers: for eigenvalues rho = (D/N) mu of F^T F / N, and p_l = 1/N,
    sigma_kl(rho) = N rho q^l, r_km(rho) = (D/b) r^l, d(rho) = (D/N) s_l, Sigma = sum_l mu_l q^l, W = sum_l q^l, Q =
    zeta W + b^2 Sigma. The docstring of the module lists their misprints. Source: Goldt, Mezard, Krzakala and
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
        Points at which a user function f, or its derivative, jumps.
    ratio : float
        D / N > 0, latent over input dimension.
    nodes : int
        Gauss nodes, the atom not counted. Errors of Q, R with 16 nodes are 1e-7 up to alpha = 100. At alpha = 1000 they
        are 1e-7 for sign and relu features, 1e-3 for erf, and 0.1 for linear features at D = N: take 64 nodes for small
        zeta and long times.
    latent_scale : float
        Standard deviation sigma of a latent coordinate. Independent, centred latents of another variance than one
        (unstandardised mixtures) follow the theory with their sigma.
    eta : float
        Learning rate of the first layer.
    **learning
        ``activation, teacher_activation, v, v_star, normalised, eta_v, noise, weight_decay, batch_size`` and
        ``gradient_flow``, as in :func:`overlaps.committee_machine`, but no ``spectrum``.

    Returns
    -------
    HiddenManifold
        A Model with ``limit_start``, ``random_start`` and ``realisation``.

    Raises
    ------
    ValueError
        An argument out of range; the message names it. A ``spectrum``, because the features determine it.
    TypeError
        An unknown option.

    Warns
    -----
    RuntimeWarning
        If f has no linear term (b = 0, as "abs"): the inputs are then uncorrelated with the teacher, and R stays 0.

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
            "features and ratio. Use model.replace(spectrum=...) for another one."
        )
    network = committee_machine(K, M, eta=eta, **learning)
    common = {f.name: getattr(network, f.name) for f in fields(network)} | {"spectrum": None}
    features = feature_map(features, kinks, check.number("latent_scale", latent_scale, above=0))
    if features.b**2 <= THRESHOLDS.linear_fraction * features.c:
        warn(
            f"features = {features} have no linear part (b = 0): inputs are uncorrelated with the teacher, so R stays "
            "0 and the student only shrinks. Expected features that are not even, e.g. 'sign' or 'relu'."
            + check.see("hidden_manifold", "One more spectrum")
        )
    return HiddenManifold(**common, features=features, ratio=ratio, nodes=nodes, latent_scale=latent_scale)


def _warn_of_symmetry(state):
    """Warn if exchanging two students does not change a state."""
    for j, k in combinations(range(state.K), 2):
        swap = np.arange(state.K)
        swap[[j, k]] = k, j
        swapped = state.q[:, swap][:, :, swap], state.r[:, swap], state.v[swap]
        pairs = zip(swapped, (state.q, state.r, state.v), strict=True)
        if all(np.allclose(a, b, rtol=0, atol=THRESHOLDS.symmetry_tol) for a, b in pairs):
            warn(
                f"students {j} and {k} are exchanged by a symmetry of this start (equal P, alignment and v): they stay "
                "equivalent and never specialise. Set them apart, or use random_start or realisation."
                + check.see("hidden_manifold", "Three starts")
            )
            return
