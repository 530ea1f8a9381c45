"""Inputs in classes: Gaussian mixtures whose components have means."""

from functools import cached_property
from typing import Any

import numpy as np

from .._base import ArrayLike, Floats, Integers, by_name, check
from ..activations import Activation, erf
from ..activations.classes import Classes
from .model import Model, of_units
from .spectrum import Spectrum
from .start import bartlett_factor, overlap_factor
from .state import State, gram, reciprocal


class GaussianMixture(Model):
    r"""Inputs in classes, :math:`x = \mu_c + z`, with a label for each class, a teacher, or both.

    Constructed by :func:`gaussian_mixture`; see there for the parameters. ``model.replace(eta=0.1)`` makes
    a variant.

    :meth:`random_start` draws students N(0, student_scale^2) and teachers N(0, 1), entry by entry, given the class
    means. In block l, with centroids X of rank rho, :math:`XX^T = G^l`, the weights along the centroids are N(0, 1) and
    the remaining overlaps are a Wishart matrix of :math:`n_l - \rho` degrees of freedom; means of the fields are
    :math:`O(N^{-1/2})`. This is exact in law. It raises ``ValueError`` if block sizes are no integers or smaller than
    the rank of the means, for another N than that of the means, and for a teacher of latents.

    Additional attributes, besides those of :class:`Model`:

    Attributes
    ----------
    weights, labels : ndarray, shape (C,)
        Probabilities and labels of the classes.
    gram : ndarray, shape (L, C, C)
        Overlaps of the class means in each eigenspace.
    ratios : ndarray, shape (C, L)
        Variances of the classes, relative to the eigenvalues of the spectrum.
    means : ndarray, shape (C, N), or None
        The class means, if the model was constructed from them; they fix N.
    latent : bool
        Whether the teacher acts on latent variables; its overlaps with the inputs are then given by the state.
    """

    weights: Any = None
    labels: Any = None
    gram: Any = None
    ratios: Any = None
    means: Any = None
    latent: bool = False

    only_random = ("Inputs in classes support random weights only.",) * 2

    def _check_data(self) -> None:
        weights = check.array("weights", self.weights, ("C",))
        C, L = weights.size, self.spectrum.L
        if C == 0 or np.any(weights < 0) or abs(weights.sum() - 1) > 1e-10:
            raise check.refused("weights", weights.tolist(), "probabilities, whose sum is 1.")
        ratios = np.ones((C, 1)) if self.ratios is None else check.floats("ratios", self.ratios, "shape (C, L)")
        if ratios.shape == (C, 1):
            ratios = np.repeat(ratios, L, axis=1)
        ratios = check.array("ratios", ratios, (C, L), "Variances of each class relative to the spectrum, or (C, 1).")
        if np.any(ratios < 0):
            raise check.refused("ratios", ratios.tolist(), "numbers >= 0.")
        self._set(
            weights=weights,
            labels=check.array("labels", self.labels, (C,), "One for each class; zeros if there is only a teacher."),
            ratios=ratios,
            latent=check.flag("latent", self.latent),
        )
        if self.means is not None:
            self._set(means=check.array("means", self.means, (C, "N")))
            self._set(gram=_gram_of_means(self.spectrum, self.means))
        gram = check.array("gram", self.gram, (L, C, C), "Overlaps of the class means in each eigenspace.")
        check.symmetric("gram", gram)
        check.positive_semidefinite("gram", gram, "It contains the scalar products of the class means.")
        self._set(gram=gram)

    @property
    def latent_teacher(self) -> bool:
        """Whether the teacher acts on latents instead of the inputs."""
        return self.latent

    @cached_property
    def groups(self) -> list[Any]:
        """Indices of the blocks whose variances have the same ratios in all classes, group by group.

        Blocks without variance belong to the group of the first block with variance, whatever their ratios.
        """
        with_variance = self.spectrum.s > 0
        ratios = np.where(with_variance, self.ratios, self.ratios[:, [np.argmax(with_variance)]])
        _, first, group = np.unique(ratios, axis=1, return_index=True, return_inverse=True)
        return [np.flatnonzero(np.ravel(group) == g) for g in np.argsort(first)]

    @cached_property
    def classes(self) -> Classes:
        """Probabilities, labels and ratios, for the closure."""
        firsts = [blocks[np.argmax(self.spectrum.s[blocks])] for blocks in self.groups]
        return Classes(self.weights, self.labels, self.ratios[:, firsts])

    @property
    def constant_inputs(self) -> Any:
        """Whether a block consists of inputs that are constant in each class (L,): those of biases."""
        return (self.spectrum.s == 0) & (self.spectrum.p == 0) & np.any(self.gram, axis=(1, 2))

    def block_sizes(self, N: int) -> Integers:
        """Numbers of coordinates of the blocks (L,) of a run; constant inputs are more than the N."""
        return self.spectrum.block_sizes(N) + self.constant_inputs * np.linalg.matrix_rank(self.gram, hermitian=True)

    # A centroid mu_c is an additional static row sqrt(N) mu_c. Its overlaps with the students are the means of their
    # fields. In the arrays of the flow, rows [r, m] and sources [[tau, h], [h^T, G]], entries of teachers contain the
    # eigenvalue of their block and those of centroids do not. The same right-hand side then applies to both.

    def rows(self, record: Any) -> Floats:
        """Overlaps (..., L, K, M + C) of students and static rows in ``record``, a state or records."""
        return np.concatenate([record.r, record.m], axis=-1)

    def split_rows(self, joint: Floats) -> dict[str, Floats]:
        """Arrays r and m, by name, from ``joint`` overlaps with static rows (..., M + C)."""
        return {"r": joint[..., : self.M], "m": joint[..., self.M :]}

    def _static_overlaps(self, record: Any) -> Floats:
        """Overlaps (..., L, M + C, M + C) of static rows with each other in ``record``."""
        return gram(record.tau, record.h, self.gram)

    def plain_overlaps(self, state: State) -> Floats:
        """Plain overlaps of a ``state``; in blocks with s = 0 teachers are linear combinations of centroids."""
        joint, (K, M, C) = super().plain_overlaps(state), (self.K, self.M, self.n_classes)
        constant = self.spectrum.s == 0
        if self.latent or not (M and np.any(constant)):
            return joint
        # the teachers' means from these blocks determine the coefficients of the combinations
        means, total = state.nu - self._means_with_variance(state).sum(axis=0), self.gram[constant].sum(axis=0)
        coefficients = means @ np.linalg.pinv(total, rcond=check.LIMITS.psd_tol, hermitian=True)
        if np.max(np.abs(coefficients @ total - means)) > check.LIMITS.psd_tol * max(1.0, np.max(np.abs(state.nu))):
            raise check.refused("nu", state.nu.tolist(), "sums of h / s and, where s = 0, of rows of gram.")
        rows = np.zeros((K + M + C, K + C))
        rows[:K, :K], rows[K : K + M, K:], rows[K + M :, K:] = np.eye(K), coefficients, np.eye(C)
        joint[constant] = rows @ gram(state.q, state.m, self.gram)[constant] @ rows.T
        return joint

    def _means_with_variance(self, record):
        """Contributions (..., L, M, C) of the eigenspaces with variance to the means of the teachers."""
        return reciprocal(self.spectrum.s)[:, None, None] * record.h

    def field_covariance(self, record: Any) -> Floats:
        """Covariances of all fields in ``record``, and their means: the argument S of the closure.

        Shape (..., groups n, n), n = K + M + C: for each group of blocks the covariance, and in the rows and columns of
        the centroids the means.  The block of the centroids completes it to a Gram matrix.
        """
        s, matrices = self.spectrum.s, []
        bounded, of_teachers = np.maximum(s, 1e-9 * s.max()), self._means_with_variance(record)
        # contribution of blocks without variance; means are additive, so that it may be assigned to any group
        constant = record.nu - of_teachers.sum(axis=-3)
        for g, (blocks, Q, R, T) in enumerate(self.of_groups(record)):
            m = record.m[..., blocks, :, :].sum(axis=-3)
            corner = np.tensordot(1 / bounded[blocks], self.gram[blocks], axes=1)
            T, nu = T if len(self.groups) > 1 else record.T, record.nu
            if len(self.groups) > 1:
                nu = of_teachers[..., blocks, :, :].sum(axis=-3) + (constant if g == 0 else 0.0)
            if not record.is_state:
                T, nu = np.expand_dims(T, -3), np.expand_dims(nu, -3)
            means = np.concatenate([m, np.broadcast_to(nu, (*m.shape[:-2], *nu.shape[-2:]))], axis=-2)
            matrices.append(gram(gram(Q, R, T), means, corner))
        return np.concatenate(matrices, axis=-2)

    def means_at(self, N: int) -> Floats:
        """The class means (C, N) of a model that was constructed from them.

        Parameters
        ----------
        N : int
            Input dimension; that of the means.

        Raises
        ------
        ValueError
            The model contains ``gram`` only, or means of another N.
        """
        if self.means is None:
            raise ValueError(
                "the model contains only gram, the overlaps of its class means; expected one made with means=."
            )
        self.check_size(N)
        return self.means

    def check_size(self, N: int) -> None:
        """Raise ``ValueError`` for an N other than that of the means, if the model was constructed from them.

        Parameters
        ----------
        N : int
            Input dimension.

        Raises
        ------
        ValueError
            The class means have another number of coordinates.
        """
        if self.means is not None and N != self.means.shape[1]:
            raise ValueError(
                f"N = {N}; the class means have N = {self.means.shape[1]} coordinates. Make it with gram=."
            )

    def _drawn(self, N, rng, scale):
        if self.latent:
            raise ValueError("the teacher acts on latents, whose law is not in the model; expected a given State.")
        sizes = self.block_sizes(N)
        self.check_size(N)
        K, P = self.K, self.K + self.M
        # standard deviations of the entries, as in ``random_start``
        length = np.r_[np.full(K, scale), np.ones(self.M)][:, None]
        joint, with_means = np.zeros((sizes.size, P, P)), np.zeros((sizes.size, P, self.labels.size))
        for block, n in enumerate(sizes):
            X = overlap_factor(self.gram[block], n, block)
            X = X[:, np.any(X != 0, axis=0)]  # directions orthogonal to all class means belong to ``outside``
            inside = length * rng.standard_normal((P, X.shape[1])) / np.sqrt(N)
            outside = length * bartlett_factor(rng, P, n - X.shape[1]) / np.sqrt(N)
            joint[block], with_means[block] = inside @ inside.T + outside @ outside.T, inside @ X.T
        return State.from_blocks(
            self, q=joint[:, :K, :K], r=joint[:, :K, K:], t=joint[:, K:, K:], m=with_means[:, :K], n=with_means[:, K:]
        )

    def __repr__(self):
        return super().__repr__().replace(f"M={self.M}", f"M={self.M}, C={self.labels.size}", 1)


def _gram_of_means(spectrum, means):
    """Overlaps (L, C, C) of the class means in each eigenspace."""
    means = means if spectrum.basis is None else means @ spectrum.basis
    blocks = np.split(means, np.cumsum(spectrum.block_sizes(means.shape[1]))[:-1], axis=1)
    return np.array([X @ X.T for X in blocks])


@by_name("ov.gaussian_mixture(2, weights=[0.5, 0.5], labels=[1, -1], means=means, eta=0.1)")
def gaussian_mixture(
    K: int,
    M: int = 0,
    *,
    weights: ArrayLike,
    labels: ArrayLike,
    means: ArrayLike | None = None,
    gram: ArrayLike | None = None,
    spectrum: Spectrum | None = None,
    ratios: ArrayLike | None = None,
    activation: Activation | str = erf,
    teacher_activation: Activation | str | None = None,
    v: ArrayLike | None = None,
    v_star: ArrayLike | None = None,
    eta: float,
    eta_v: float = 0.0,
    noise: float = 0.0,
    weight_decay: float | tuple[float, float] = 0.0,
    batch_size: int = 1,
    gradient_flow: bool = False,
) -> "GaussianMixture":
    r"""Student on inputs in classes, :math:`x = \mu_c + z`, with labels of the classes, a teacher on x, or both.

    .. math:: c \sim \pi, \quad z \sim N\Big(0, \sum_l \rho_{cl} s_l P_l\Big), \qquad
              \Delta = \sum_k v_k\, g(\lambda_k) - \sum_m v^*_m\, g_*(\nu_m) - y_c - \sigma \zeta

    trained by one-pass SGD on the squared loss :math:`\Delta^2/2` as in :func:`committee_machine`. For classification,
    use labels of +1 and -1 without a teacher. Additional order parameters are the means of the student fields,
    :math:`m^l_{kc} = w_k P_l \mu_c/\sqrt N`. A centroid acts like an additional teacher, and

    .. math:: \frac{dm^l_{kd}}{d\alpha} = \sum_c \pi_c \Big[ f_{kc} G^l_{cd} + \rho_{cl} s_l (A^c m^l)_{kd}
              + \rho_{cl} (B^c h^l)_{kd} \Big], \quad f_{kc} = E_c[F_k], \quad G^l_{cd} = \mu_c P_l \mu_d, \quad
              h^l_{mc} = s_l w^*_m P_l \mu_c/\sqrt N .

    Parameters
    ----------
    K, M : int
        Numbers of student and teacher units; M = 0 for labels only.
    weights, labels : array_like, shape (C,)
        Probabilities pi_c and labels y_c of the classes.
    means : array_like, shape (C, N)
        The class means mu_c, in the coordinates of the inputs (consecutive blocks, or those of the spectrum's basis).
        They fix N. Pass either these or ``gram``.
    gram : array_like, shape (L, C, C)
        Scalar products of the class means in each eigenspace, for every N.
    spectrum : Spectrum
        Eigenvalues s_l of the covariance within classes; isotropic by default.
    ratios : array_like, shape (C, L) or (C, 1)
        Variances of the classes relative to the spectrum, rho_cl; one by default.
    activation, teacher_activation : Activation or str
        ``erf``, ``linear``, ``quadratic``, ``relu``, ``leaky_relu(slope)`` or ``absolute``, in any pair. Smooth
        functions without closed forms, as ``tanh``, where K + M <= 4: by quadrature, a few milliseconds for each class
        and evaluation.
    v, v_star : array_like, shape (K,), (M,)
        Second layers; all ones by default.
    eta, eta_v, noise, weight_decay, batch_size, gradient_flow
        As in :func:`committee_machine`.

    Returns
    -------
    GaussianMixture

    Raises
    ------
    ValueError
        Weights that do not sum to one, wrong shapes, negative ratios, ``gram`` that is not positive semi-definite, both
        or neither of ``means`` and ``gram``.

    Notes
    -----
    Exact for N -> infinity at fixed alpha = steps / N and fixed lengths of the class means: ``|mu_c|^2`` of order one,
    not N. Class covariances commute. All averages are closed forms for erf, linear and quadratic students; C of relu
    and leaky students is an integral by quadrature, with an error estimate.

    References
    ----------
    Refinetti, Goldt, Krzakala and Zdeborova (2021), arXiv:2102.11742, where the averages are sampled.

    Examples
    --------
    Two clusters at distance 3, with labels:

    >>> import overlaps as ov
    >>> model = ov.gaussian_mixture(
    ...     2, gram=[[[2.25, -2.25], [-2.25, 2.25]]], weights=[0.4, 0.6], labels=[1, -1], v=[0.6, 0.4], eta=0.5
    ... )
    >>> traj = ov.solve(model, model.random_start(N=1000, rng=1), [0, 5, 20])
    >>> traj.m.shape, traj.success
    ((3, 1, 2, 2), True)
    """
    K, M = check.count("K", K), check.count("M", M, least=0)
    if (means is None) == (gram is None):
        raise ValueError(
            f"got {'neither' if gram is None else 'both'}; expected either means= or gram=, their overlaps."
        )
    return of_units(
        GaussianMixture, K, M, activation, teacher_activation, spectrum, v, v_star, eta=eta, eta_v=eta_v, noise=noise,
        weight_decay=weight_decay, batch_size=batch_size, gradient_flow=gradient_flow, weights=weights, labels=labels,
        gram=gram, means=means, ratios=ratios,
    )  # fmt: skip
