"""Models: student, teacher, inputs and learning rule."""

from dataclasses import fields
from typing import Any, ClassVar, Literal

import numpy as np

from .._base import ArrayLike, Floats, Immutable, Integers, Rng, by_name, check, html
from .._base.signatures import Variants
from ..activations.activation import Activation
from ..activations.classes import NO_CLASSES, Classes
from ..activations.library import erf, named, quadratic, sign
from .equations import Equations, equations_of
from .features import check_features
from .spectrum import Spectrum, isotropic
from .start import random_start, warn_coarse_step
from .state import State, gram, reciprocal


class Model(Variants, Immutable):
    r"""A student, a teacher, the inputs and the learning rule.

    .. math:: \hat y = \sum_k v_k\, g(\lambda_k), \quad y = \sum_m v^*_m\, g_*(\nu_m) + \sigma z, \qquad
              w_k \mathrel{-}= \eta\, v_k g'(\lambda_k)\, (\hat y - y)\, x/\sqrt N

    Constructed by :func:`committee_machine`, :func:`quadratic_network` and :func:`hidden_manifold`; see there for the
    parameters, the validity of the theory and examples. ``model.replace(eta=0.1)`` makes a variant.
    """

    activation: Activation
    teacher_activation: Activation
    spectrum: Spectrum
    v: Any
    v_star: Any
    eta: float
    eta_v: float = 0.0
    noise: float = 0.0
    weight_decay: tuple[float, float] = (0.0, 0.0)
    batch_size: int = 1
    gradient_flow: bool = False
    constraint: str | None = None
    drift: float = 0.0
    frozen: int = 0  # number of teacher units, the first ones, that are frozen students: see ``distill``

    # for data that support random teachers and students only: advice in place of others, for teachers and for students
    only_random: ClassVar[tuple[str, ...]] = ()
    _hides: ClassVar[tuple[str, ...]] = (
        "classes", "combinations", "field_covariance", "frozen", "groups", "latent_teacher", "n_classes", "of_groups",
        "only_random", "plain_overlaps", "rows", "second_layers", "spherical", "split_rows", "tasks", "trains_v",
    )  # fmt: skip

    def __post_init__(self):
        self._set(**{name: named(name, getattr(self, name)) for name in ("activation", "teacher_activation")})
        if self.activation.code == sign.code:
            raise ValueError(
                "activation = sign, whose students have no gradient; expected ov.learner(ov.rules.perceptron())."
            )
        check.kind("spectrum", self.spectrum, Spectrum, "ov.isotropic()")
        decay = self.weight_decay
        pair = tuple(decay) if check.axes("weight_decay", decay) else (decay, decay)
        if len(pair) != 2:
            raise check.refused("weight_decay", decay, "one number or a pair (kappa, kappa_v).")
        self._set(
            v=check.array("v", self.v, ("K",)),
            v_star=check.array("v_star", self.v_star, ("M",)),
            eta=check.number("eta", self.eta, above=0, hint="The learning rate must be positive."),
            eta_v=check.number("eta_v", self.eta_v, least=0),
            noise=check.number("noise", self.noise, least=0, hint="noise is a standard deviation."),
            weight_decay=tuple(check.number("weight_decay", x, least=0) for x in pair),
            batch_size=check.count("batch_size", self.batch_size),
            gradient_flow=check.flag("gradient_flow", self.gradient_flow),
            constraint=None if self.constraint is None else check.choice("constraint", self.constraint, ("sphere",)),
            drift=check.number("drift", self.drift, least=0),
            frozen=check.count("frozen", self.frozen, least=0),
        )
        self._check_data()
        check_features(None, self)

    def __hash__(self) -> int:  # type: ignore[override]  # other records are not hashable
        return hash((type(self).__name__, *(_key(getattr(self, f.name)) for f in fields(self) if f.compare)))

    def _check_data(self) -> None:
        """Check the additional fields of other kinds of inputs, before features are compared."""

    @property
    def K(self) -> int:
        """Number of student units."""
        return self.v.size

    @property
    def M(self) -> int:
        """Number of teacher units."""
        return self.v_star.size

    @property
    def latent_teacher(self) -> bool:
        """Whether the teacher acts on latents instead of the inputs."""
        return False

    # classes of inputs: none here; see GaussianMixture --------------------------------------------------------------

    @property
    def classes(self) -> Classes:
        """Probabilities, labels and variances of the classes of inputs."""
        return NO_CLASSES

    @property
    def rule(self) -> Any:
        """The :class:`overlaps.Rule` of a learner, or None for descent of the squared loss."""
        return self.activation.learning

    @property
    def n_classes(self) -> int:
        """Number of classes of inputs, 0 if there are none."""
        return self.classes.n_classes

    @property
    def groups(self) -> list[Any]:
        """Indices of the blocks whose variances have the same ratios in all classes, group by group."""
        return [np.arange(self.spectrum.L)]

    def block_sizes(self, N: int) -> Integers:
        """Numbers of coordinates of the blocks (L,) of a run at input dimension N."""
        return self.spectrum.block_sizes(N)

    # static rows: teachers and centroids, which do not learn ----------------------------------------------------------

    @property
    def second_layers(self) -> Floats:
        """Second layers of static rows (M + C,) for the closure: -v* of teachers, 0 of centroids."""
        return np.append(-self.v_star, np.zeros(self.n_classes))

    @property
    def _static_factors(self) -> Floats:
        """Factors of static rows in each block (L, M + C): the eigenvalue for teachers, 1 for centroids."""
        s = self.spectrum.s[:, None]
        return np.concatenate([np.tile(s, self.M), np.ones((s.size, self.n_classes))], axis=1)

    def rows(self, record: Any) -> Floats:
        """Overlaps (..., L, K, M + C) of students and static rows in ``record``, a state or records."""
        return record.r

    def split_rows(self, joint: Floats) -> dict[str, Floats]:
        """Arrays r and m, by name, from ``joint`` overlaps with static rows (..., M + C)."""
        return {"r": joint}

    def _static_overlaps(self, record: Any) -> Floats:
        """Overlaps (..., L, M + C, M + C) of static rows with each other in ``record``."""
        return record.tau

    def plain_overlaps(self, state: State) -> Floats:
        """Plain overlaps (L, K + M + C, K + M + C) of students and static rows in each block of ``state``."""
        inverse = reciprocal(self._static_factors)[:, None]
        return gram(
            state.q, self.rows(state) * inverse, self._static_overlaps(state) * inverse * inverse.swapaxes(1, 2)
        )

    def field_covariance(self, record: Any) -> Floats:
        """Covariances (..., K + M, K + M) of all fields in ``record``: the argument S of the closure."""
        return record.S

    def of_groups(self, record: Any) -> Any:
        """(Blocks, Q, R, T) of ``record`` for each of ``groups``: sums over the blocks of the group."""
        s, inverse = self.spectrum.s, reciprocal(self.spectrum.s)
        for blocks in self.groups:
            Q = np.einsum("l,...lij->...ij", s[blocks], record.q[..., blocks, :, :])
            T = np.einsum("l,...lij->...ij", inverse[blocks], record.tau[..., blocks, :, :])
            yield blocks, Q, record.r[..., blocks, :, :].sum(axis=-3), T

    @property
    def combinations(self) -> tuple[str, ...]:
        """Names of features for the table ``features``: how tasks are combined, and whether a teacher is a student."""
        return ("distilled",) if self.frozen else ()

    @property
    def tasks(self) -> tuple:
        """The models from which samples are drawn: this one, or those of :class:`overlaps.Mixed`."""
        return (self,)

    @property
    def trains_v(self) -> bool:
        """Whether the second layer is trained."""
        return self.eta_v > 0

    @property
    def spherical(self) -> bool:
        """Whether every student keeps its norm."""
        return self.constraint == "sphere"

    def equations(self) -> Equations:
        """The equations that ``ov.solve`` integrates for this model, with the terms that are on.

        LaTeX in a notebook, plain text in a terminal; ``.latex`` is the source. Exact for N -> infinity.

        Returns
        -------
        Equations

        Examples
        --------
        >>> import overlaps as ov
        >>> model = ov.committee_machine(1, 1, activation="tanh", eta=0.5, gradient_flow=True)
        >>> print(model.equations())
        dR/dα = A R + B T
        dQ/dα = A Q + Q A^T + B R^T + R B^T
        A_kj = E[∂F_k/∂λ_j], B_km = E[∂F_k/∂ν_m]
        F_k = -η v_k g'(λ_k) Δ, Δ = Σ_k v_k g(λ_k) - Σ_m v^*_m g_*(ν_m)
        g(x) = tanh(x), g_*(x) = tanh(x)
        α = steps/N, K = 1, M = 1, η = 0.5
        """
        return equations_of(self)

    @by_name("model.random_start(N=1000, rng=1)")
    def random_start(
        self,
        *,
        N: int,
        rng: Rng,
        student_scale: float = 1.0,
        teacher: Literal["random", "ideal"] = "random",
        students: Literal["random", "orthonormal"] = "random",
    ) -> State:
        """State of random weights at input dimension N; see :func:`overlaps.models.start.random_start`.

        Models of other data draw from the law in the documentation of their class, and support "random" teachers and
        students only.
        """
        if not self.only_random:
            return random_start(self, N=N, rng=rng, student_scale=student_scale, teacher=teacher, students=students)
        for name, value, hint in zip(("teacher", "students"), (teacher, students), self.only_random, strict=True):
            check.choice(name, value, ("random",), hint)
        scale, rng = check.number("student_scale", student_scale, least=0), check.generator(rng)
        state = self._drawn(check.count("N", N), rng, scale)
        warn_coarse_step(self, N)
        return state

    def _drawn(self, N: int, rng: Any, scale: float) -> State:
        raise NotImplementedError

    def _repr_html_(self):
        rows = {}
        for role, g, v in ("student", self.activation, self.v), ("teacher", self.teacher_activation, self.v_star):
            layer = html.numbers(v) if v.size <= html.VIEW.max_matrix else "..."
            rows[role] = f"{v.size} {g.name} units, second layer {layer}"
        rows["inputs"] = str(self.spectrum)
        rows["eta"] = f"{self.eta:g}" + (", gradient flow" if self.gradient_flow else "")
        for name, usual in {"eta_v": 0, "noise": 0, "weight_decay": (0, 0), "batch_size": 1}.items():
            if (value := getattr(self, name)) != usual:
                rows[name] = str(value)
        return html.table(type(self).__name__, rows)

    def __repr__(self):
        pair = self.activation.name
        if self.teacher_activation != self.activation:
            pair += f"/{self.teacher_activation.name}"
        parts = {
            f"K={self.K}, M={self.M}, {pair}, {self.spectrum}, eta={self.eta:g}": True,
            f"eta_v={self.eta_v:g}": self.eta_v, f"noise={self.noise:g}": self.noise,
            f"weight_decay={self.weight_decay}": any(self.weight_decay),
            f"batch_size={self.batch_size}": self.batch_size > 1, "gradient_flow": self.gradient_flow,
            f"{self.constraint}": self.constraint, f"drift={self.drift:g}": self.drift,
        }  # fmt: skip
        return f"{type(self).__name__}({', '.join(text for text, shown in parts.items() if shown)})"


def _key(value):
    """What is equal for equal values of a field, and hashable: numbers themselves, of other objects their names."""
    if isinstance(value, Spectrum):
        return _key(value.s), _key(value.p)
    if isinstance(value, np.ndarray):
        return value.shape, (value + 0.0).tobytes()  # -0.0 equals 0.0
    if isinstance(value, Activation):
        return value.name
    return value if isinstance(value, int | float | str | tuple | None) else type(value).__name__


def of_units(kind, K, M, activation, teacher_activation, spectrum, v, v_star, **numbers):
    """A model of this kind; by default with isotropic inputs, second layers of ones, and teachers like students."""
    return kind(
        activation=activation, teacher_activation=activation if teacher_activation is None else teacher_activation,
        spectrum=isotropic() if spectrum is None else spectrum,
        v=check.array("v", np.ones(K) if v is None else v, (K,)),
        v_star=check.array("v_star", np.ones(M) if v_star is None else v_star, (M,)), **numbers,
    )  # fmt: skip


@by_name("ov.committee_machine(2, 2, activation=ov.erf, eta=0.5)")
def committee_machine(
    K: int,
    M: int,
    *,
    activation: Activation | str = erf,
    teacher_activation: Activation | str | None = None,
    spectrum: Spectrum | None = None,
    v: ArrayLike | None = None,
    v_star: ArrayLike | None = None,
    normalised: bool = False,
    eta: float,
    eta_v: float = 0.0,
    noise: float = 0.0,
    weight_decay: float | tuple[float, float] = 0.0,
    batch_size: int = 1,
    gradient_flow: bool = False,
    constraint: Literal["sphere"] | None = None,
    drift: float = 0.0,
) -> "Model":
    r"""Two-layer student and teacher on Gaussian inputs, trained by one-pass SGD.

    .. math:: \hat y = \sum_k v_k\, g(w_k \cdot x/\sqrt N), \qquad
              y = \sum_m v^*_m\, g_*(w^*_m \cdot x/\sqrt N) + \sigma z

    Each step draws a new sample and descends :math:`\Delta^2/2`, :math:`\Delta = \hat y - y`:
    :math:`w_k \mathrel{-}= \eta\, v_k g'(\lambda_k) \Delta\, x/\sqrt N` and
    :math:`v_k \mathrel{-}= (\eta_v/N)\, g(\lambda_k) \Delta`.

    Parameters
    ----------
    K, M : int
        Numbers of student and teacher units.
    activation, teacher_activation : Activation or str
        g and g*, or their names: "erf", "relu", "tanh", "linear", "quadratic", "absolute". g* = g by default;
        "sign" is for teachers of erf, tanh, linear and quadratic students only.
    spectrum : Spectrum
        Covariance of x; isotropic by default.
    v, v_star : array_like, shape (K,), (M,)
        Second layers (the student's is its initial value if it is trained). All ones by default: the soft
        committee machine.
    normalised : bool
        Use v = sqrt(M)/K and v* = 1/sqrt(M) instead; v and v_star must then be omitted.
    eta : float
        Learning rate of the first layer.
    eta_v : float
        Learning rate of the second layer; 0 keeps it fixed.
    noise : float
        Standard deviation sigma of the label noise.
    weight_decay : float or pair
        kappa in ``w *= 1 - eta kappa / N`` per step (and ``v *= 1 - eta_v kappa / N`` if v is trained), or a pair
        (kappa, kappa_v) with different numbers.
    batch_size : int
        Samples averaged in one step; alpha counts steps / N.
    gradient_flow : bool
        Drop the O(eta^2) term C, the noise of SGD.
    constraint : {None, "sphere"}
        "sphere" scales every student back to its initial norm after each step.
    drift : float
        Rate delta of the drift of teachers, ``w* = sqrt(1 - 2 delta/N) w* + sqrt(2 delta/N) xi`` per step with
        Gaussian xi of the teachers' own covariance in each eigenspace: their overlaps are conserved, and r decays by
        delta r.

    Returns
    -------
    Model

    Raises
    ------
    ValueError
        An argument out of range; the message names it.

    Notes
    -----
    The dynamics of the overlaps is exact for N -> infinity at fixed alpha = steps / N.

    With ``constraint="sphere"`` the norm of a student, :math:`n_k = |w_k|^2/N = \sum_l q^l_{kk}`, changes in a step by
    the component of the step along w_k and by its square. The projection multiplies w_k by :math:`1 - \mu_k/N`, which
    cancels both:

    .. math:: \mu_k = \frac{1}{n_k} \Big[ (AQ)_{kk} + (BR^T)_{kk} + \frac{\bar s}{2b}\, C_{kk} \Big], \qquad
              \frac{dr^l_{km}}{d\alpha} \mathrel{-}= \mu_k r^l_{km}, \quad
              \frac{dq^l_{ij}}{d\alpha} \mathrel{-}= (\mu_i + \mu_j)\, q^l_{ij}

    with A, B, C of :func:`overlaps.closure`, batch size b and mean eigenvalue :math:`\bar s`. This is exact, too.

    References
    ----------
    Saad and Solla (1995), Phys. Rev. E 52, 4225; Goldt et al. (2019), arXiv:1906.08632. With ``normalised=True``
    Worschech and Rosenow (2024), arXiv:2410.09005: students (2), steps (3).

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.committee_machine(2, 2, eta=0.5)
    Model(K=2, M=2, erf, isotropic(), eta=0.5)
    """
    K, M = check.count("K", K), check.count("M", M)
    if check.flag("normalised", normalised) and not (v is None and v_star is None):
        raise ValueError("normalised=True sets v and v_star; expected both to be left out.")
    if normalised:
        v, v_star = np.full(K, np.sqrt(M) / K), np.full(M, 1 / np.sqrt(M))
    return of_units(
        Model, K, M, activation, teacher_activation, spectrum, v, v_star, eta=eta, eta_v=eta_v, noise=noise,
        weight_decay=weight_decay, batch_size=batch_size, gradient_flow=gradient_flow, constraint=constraint,
        drift=drift,
    )  # fmt: skip


@by_name("ov.quadratic_network(3, 3, eta=0.2)")
def quadratic_network(
    K: int, M: int, *, eta: float, v: ArrayLike | None = None, v_star: ArrayLike | None = None, **options: Any
) -> "Model":
    r"""Quadratic student and teacher, g(x) = x^2, with v = 1/K and v* = 1/M by default.

    .. math:: \hat y = \frac1K \sum_k \lambda_k^2, \qquad y = \frac1M \sum_m \nu_m^2

    Parameters
    ----------
    K, M : int
        Numbers of student and teacher units.
    eta : float
        Learning rate for the loss Delta^2/2. The reference uses the loss Delta^2 (its risk is 2 eps_g); its learning
        rate is half of this one.
    v, v_star : array_like, shape (K,), (M,)
        Second layers.
    **options
        As in :func:`committee_machine`, without ``activation`` and ``normalised``.

    Returns
    -------
    Model

    Raises
    ------
    ValueError
        As :func:`committee_machine`; another activation.

    Notes
    -----
    The dynamics of the overlaps is exact for N -> infinity at fixed alpha = steps / N.

    References
    ----------
    Bocchi et al. (2026), arXiv:2604.03068: teacher (1), student (2), steps (4), (5), equations (6) = (31), (33), (34).

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.quadratic_network(3, 3, eta=0.2).v_star.round(4)
    array([0.3333, 0.3333, 0.3333])
    """
    K, M = check.count("K", K), check.count("M", M)
    if options.pop("normalised", False):
        raise ValueError("normalised=True belongs to committee_machine; quadratic_network has v = 1/K and v* = 1/M.")
    if "activation" in options:
        raise ValueError(
            f"activation = {check.shown(options['activation'])}; expected none: the students of a quadratic_network "
            "are quadratic. Use committee_machine(K, M, activation=...), or teacher_activation= for the teacher alone."
        )
    v = np.full(K, 1 / K) if v is None else v
    v_star = np.full(M, 1 / M) if v_star is None else v_star
    return committee_machine(K, M, activation=quadratic, v=v, v_star=v_star, eta=eta, **options)
