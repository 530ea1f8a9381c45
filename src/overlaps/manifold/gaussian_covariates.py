"""Inputs and latents with any joint covariance: a student on the former, a teacher on the latter."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np

from .._base import ArrayLike, by_name, check
from ..analysis.compression import compress
from ..models import Model, State, committee_machine
from ..models.spectrum import Spectrum, block_edges
from .covariates import checked_blocks
from .ensemble import CovariatesEnsemble


class GaussianCovariates(Model):
    """A model with given covariances of inputs and latents; see :func:`gaussian_covariates`, which makes it.

    ``model.replace(eta=0.1)`` makes a variant with the same spectrum. :meth:`random_start` draws students
    N(0, student_scale^2) and teachers N(0, 1), entry by entry, where N is the size of Omega.
    """

    Omega: Any = None  # array_like as argument, a read-only float array as attribute
    Phi: Any = None
    Psi: Any = None

    latent_teacher = True
    only_random = "start(W_star=...) fixes the teacher.", "start(W=...) fixes the students."

    record = CovariatesEnsemble

    def __post_init__(self):
        self._set(**dict(zip(("Omega", "Phi", "Psi"), checked_blocks(self.Omega, self.Phi, self.Psi), strict=True)))
        super().__post_init__()

    def start(
        self, *, W: ArrayLike, W_star: ArrayLike, v: ArrayLike | None = None, nodes: int | None = None
    ) -> "tuple[GaussianCovariates, State]":
        r"""Pair of this model and the state of explicit weights, ``ov.solve(*model.start(W=W, W_star=W_star), alpha)``.

        .. math:: q^l = \frac{W P_l W^T}{N}, \quad r^l = \frac{W P_l \Phi W_*^T}{\sqrt{N D}}, \quad
                  \tau^l = \frac{W_* \Phi^T P_l \Phi W_*^T}{D}, \quad T = \frac{W_* \Psi W_*^T}{D}

        Parameters
        ----------
        W : array_like, shape (K, N)
            Student weights, in the coordinates of Omega.
        W_star : array_like, shape (M, D)
            Teacher weights on the latents.
        v : array_like, shape (K,), optional
            Second layer; the model's by default.
        nodes : int, optional
            Compress the spectrum to this many eigenvalues by :func:`overlaps.compress`.

        Returns
        -------
        model : GaussianCovariates
            This model, or the same with a compressed spectrum.
        state : State
            Exact overlaps of these weights.

        Raises
        ------
        ValueError
            Wrong shapes; a model with a compressed spectrum.

        Examples
        --------
        >>> import numpy as np, overlaps as ov
        >>> model, start = ov.gaussian_covariates(np.eye(3), 0.5 * np.eye(3), np.eye(3), 1, 1, eta=0.1)
        >>> same, state = start(W=[[1, 0, 0]], W_star=[[1, 1, 1]])
        >>> state.R.round(6)
        array([[0.166667]])
        """
        N, D = self.Phi.shape
        if self.spectrum.basis is None:
            raise ValueError(
                f"this model has the spectrum {self.spectrum}, without the eigenvectors of Omega; expected the model "
                "that gaussian_covariates made."
            )
        W, W_star = check.array("W", W, (self.K, N)), check.array("W_star", W_star, (self.M, D))
        s = np.repeat(self.spectrum.s, self.spectrum.block_sizes(N))
        _, _, q, r, tau = on_modes(s, self.spectrum.basis, 0.0, W, W_star @ self.Phi.T * np.sqrt(N / D))
        v = self.v if v is None else check.array("v", v, (self.K,))
        state = State(q=q, r=r, tau=tau, T=W_star @ self.Psi @ W_star.T / D, v=v).on(self)
        return (self, state) if nodes is None else compress(self, state, nodes)  # type: ignore[return-value]

    def _drawn(self, N, rng, scale):
        W, W_star = drawn_weights(self, N, rng, scale)
        return self.start(W=W, W_star=W_star)[1]


@by_name("ov.gaussian_covariates(Omega, Phi, Psi, 2, 1, eta=0.1)")
def gaussian_covariates(
    Omega: ArrayLike, Phi: ArrayLike, Psi: ArrayLike, K: int, M: int, *, eta: float, **learning: Any
) -> "tuple[GaussianCovariates, Callable[..., Any]]":
    r"""Two-layer student on inputs x, two-layer teacher on latents c, of any joint covariance.

    .. math:: \lambda = \frac{W x}{\sqrt N}, \quad \nu = \frac{W_* c}{\sqrt D}, \qquad
              \Omega = E[x x^T], \quad \Phi = E[x c^T], \quad \Psi = E[c c^T]

    Student, teacher and SGD are those of :func:`overlaps.committee_machine`; only the fields differ. If the fields are
    Gaussian, the dynamics depends on inputs and latents only through the three matrices: features of any generator, any
    data set (:func:`overlaps.manifold.covariates.from_data`), the hidden manifold (which uses the same code).

    The overlaps are exact. The dynamics is exact for jointly Gaussian (x, c) and N -> infinity; the terms of nu that
    are not linear in x enter through T alone. For other inputs it is *heuristic* (Gaussian equivalence) and has errors
    of tens of percent on images: ``simulate(..., samples=)`` measures the true error. Source: Goldt, Loureiro, Reeves,
    Krzakala, Mezard and Zdeborova (2022), arXiv:2006.14709, for generators; Loureiro et al. (2021), arXiv:2102.08127,
    for the Gaussian covariate model; Goldt, Mezard, Krzakala and Zdeborova (2020), arXiv:1909.11500, for the dynamics.

    Parameters
    ----------
    Omega : array_like, shape (N, N)
        Covariance of the centred inputs. Eigenvalues below 1e-12 of the largest count as zero.
    Phi : array_like, shape (N, D)
        Covariance of inputs and latents.
    Psi : array_like, shape (D, D)
        Covariance of the latents. If x = c, all three are equal and the model is a committee machine.
    K, M : int
        Numbers of student and teacher units.
    eta : float
        Learning rate of the first layer.
    **learning
        ``activation, teacher_activation, v, v_star, normalised, eta_v, noise, weight_decay, batch_size,
        gradient_flow`` and ``constraint``, as in :func:`overlaps.committee_machine`.

    Returns
    -------
    model : GaussianCovariates
        A Model for all functions that take models.
    start : callable
        ``start(W=, W_star=, v=None, nodes=None)`` returns the pair (model, state) of explicit weights, for ``solve``;
        :meth:`GaussianCovariates.start`.

    Raises
    ------
    ValueError
        Wrong shapes, matrices that are not symmetric, a joint covariance that is not positive semi-definite.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> Omega, Phi, Psi = [[1.2, 0.3], [0.3, 0.8]], [[0.5], [0.2]], [[1.0]]
    >>> model, start = ov.gaussian_covariates(Omega, Phi, Psi, 1, 1, eta=0.2)
    >>> ov.solve(*start(W=[[1.0, 0.5]], W_star=[[1.0]]), [0, 10]).eps_g.round(4)
    array([0.177 , 0.1549])
    """
    for name in ("spectrum", "drift"):
        if name in learning:
            raise check.refused(
                name, learning[name], "none: Omega is the covariance of the inputs, and the teacher does not drift."
            )
    network = committee_machine(K, M, eta=eta, **learning)
    Omega, Phi, Psi = checked_blocks(Omega, Phi, Psi)
    _check_joint(Omega, Phi, Psi)
    spectrum = Spectrum.from_covariance(Omega)
    common = {f.name: getattr(network, f.name) for f in fields(network)}
    common["spectrum"] = replace(spectrum, name=f"gaussian_covariates(N={Phi.shape[0]}, D={Phi.shape[1]})")
    model = GaussianCovariates(**common, Omega=Omega, Phi=Phi, Psi=Psi)
    return model, model.start


def _check_joint(Omega, Phi, Psi, *, tol=1e-9):
    """Raise an error if the joint matrix has an eigenvalue below -``tol``, relative to its trace.

    Rounding is far smaller; twice the value accepts twice as negative matrices.
    """
    check.symmetric("Omega", Omega)
    check.symmetric("Psi", Psi)
    joint = np.block([[Omega, Phi], [Phi.T, Psi]])
    lowest = np.linalg.eigvalsh(joint)[0]
    if lowest < -tol * np.trace(joint):
        raise ValueError(
            f"[[Omega, Phi], [Phi^T, Psi]] is not positive semi-definite: its lowest eigenvalue is {lowest:.3g}. The "
            "three are covariances of one pair (x, c); expected them from the same samples (covariates.from_data)."
        )


def drawn_weights(model, N, rng, student_scale=1.0):
    """Students W (K, N) of N(0, student_scale^2) and teachers W_star (M, D) of N(0, 1)."""
    scale = check.number("student_scale", student_scale, least=0)
    model.spectrum.block_sizes(N)  # raises an error for another N than the size of Omega
    return scale * rng.standard_normal((model.K, N)), rng.standard_normal((model.M, model.Phi.shape[1]))


def on_modes(s, U, rest, W, visible):
    """Blocks (s, p, q, r, tau) of students W (K, N) and of teachers with weights ``visible`` (M, N) on the inputs.

    ``visible`` is sqrt(N / D) W* Phi^T. Columns of U (N, n) are eigenvectors of the input covariance with eigenvalues s
    (n,); all other directions have the eigenvalue ``rest`` and no overlap with the teachers. Equal eigenvalues are
    merged.
    """
    N = W.shape[1]
    students, teachers = W @ U / np.sqrt(N), np.where(s > 0, visible @ U / np.sqrt(N), 0.0)
    q, r, tau = _outer(students, students), _outer(students, teachers), _outer(teachers, teachers)
    p = np.full(len(s), 1 / N)
    if len(s) < N:
        other = W / np.sqrt(N) - students @ U.T
        s, p = np.append(s, rest), np.append(p, 1 - len(s) / N)
        q = np.concatenate([q, [other @ other.T]])
        r, tau = (np.concatenate([x, np.zeros((1, *x.shape[1:]))]) for x in (r, tau))
    order = np.argsort(-s, kind="stable")
    edges = block_edges(s[order])
    q, r, tau = (np.add.reduceat(x[order], edges, axis=0) for x in (q, r, tau))
    n, s = np.add.reduceat(p[order], edges), np.add.reduceat((p * s)[order], edges)
    return s / n, n / n.sum(), q, r, tau


def _outer(x, y):
    """Outer products (n, K, M) of the columns of x (K, n) and y (M, n)."""
    return np.einsum("kn,mn->nkm", x, y)
