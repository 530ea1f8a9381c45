"""Runs of SGD with a teacher on latents; on the hidden manifold every run has its own features and spectrum."""

from typing import Any, NamedTuple

import numpy as np

from .._base import check
from ..models import Model, State
from ..results.curves import Runs


class Weights(NamedTuple):
    """Start of a run: students W (K, N), teachers on the latents W_star (M, D), features F (N, D) of a manifold."""

    W: Any
    W_star: Any
    F: Any = None


class CovariatesEnsemble(Runs, kw_only=True):
    """Independent runs of SGD with a teacher on latents, at common times; made by :func:`overlaps.simulate`.

    The weights are exact at finite N; Gaussian fields are exact for Gaussian samples, *heuristic* for others.

    Attributes
    ----------
    model : GaussianCovariates
        The learning problem.
    alpha : ndarray, shape (n,)
        Recorded times, whole steps / N.
    Q, R : ndarray, shape (runs, n, K, K), (runs, n, K, M)
        From the weights, Q = W Omega W^T / N and R = W Phi W*^T / sqrt(N D), with Omega and Phi of the model (for any
        samples of the runs).
    v, eps_g : ndarray, shape (runs, n, K), (runs, n)
        Second layer, and the error of Gaussian fields with these overlaps. On other samples the true error may differ:
        see ``test_error``.
    test_error, test_error_se : ndarray, shape (runs, n), or None
        E[(yhat - y)^2] / 2 without label noise, on fresh samples, and its standard error; ``simulate(..., test=)``.
    T : ndarray, shape (runs, M, M)
        Teacher covariance of each run.
    W, W_star : ndarray, shape (runs, K, N), (runs, M, D)
        Weights at the start of each run.
    N : int
        Input dimension.
    success, message, method
        Whether all runs reached the end, a sentence about the end, the simulator.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> rng = np.random.default_rng(1)
    >>> X = np.tanh(rng.standard_normal((500, 20)) @ rng.standard_normal((20, 40)) / 4)
    >>> model, _ = ov.gaussian_covariates(*ov.covariates.from_data(X), 2, 1, eta=0.2)
    >>> runs = ov.simulate(model, N=40, alpha=[0, 1], rng=1, runs=2, samples=ov.covariates.rows(X))
    >>> runs.test_error.shape, runs.realisation(1)[1]
    ((2, 2), State(L=40, K=2, M=1, ...))
    """

    Q: np.ndarray
    R: np.ndarray
    W: np.ndarray
    W_star: np.ndarray

    def __post_init__(self):
        super().__post_init__()
        given = {x: getattr(self, x, None) for x in ("W", "W_star", "F")}  # one copy may serve all runs
        self._set(**{x: np.broadcast_to(a, (len(self), *a.shape[1:])) for x, a in given.items() if a is not None})

    def weights(self, run: int = 0) -> Any:
        """Weights (W, W_star) of run number ``run`` at its start; ``simulate(..., weights=)`` takes them back."""
        run = check.index("run", run, len(self))
        return self.W[run], self.W_star[run]

    def realisation(self, run: int = 0, *, nodes: int | None = None) -> Any:
        """Model and state at the start of run number ``run``: the start of the ODE for a comparison.

        Parameters
        ----------
        run : int
            Which run.
        nodes : int, optional
            Compress the spectrum to this many eigenvalues, see :func:`overlaps.compress`.

        Returns
        -------
        model : GaussianCovariates
            The model of the runs, or the same with a compressed spectrum.
        state : State
            Its overlaps at the start.
        """
        W, W_star = self.weights(run)
        model: Any = self.model
        return model.start(W=W, W_star=W_star, nodes=nodes)


class ManifoldEnsemble(CovariatesEnsemble, kw_only=True):
    """Independent runs of SGD on the hidden manifold, recorded at common times; made by :func:`overlaps.simulate`.

    The weights are exact at finite N; the covariances of the fields are exact for "exact" moments and Gaussian latents,
    asymptotic in D otherwise.

    Attributes
    ----------
    model : HiddenManifold
        The learning problem.
    alpha : ndarray, shape (n,)
        Recorded times, whole steps / N.
    Q, R : ndarray, shape (runs, n, K, K), (runs, n, K, M)
        From the weights, Q = W Omega W^T / N and R = W Phi W*^T / sqrt(N D), with the second moments Omega, Phi of the
        inputs for Gaussian latents of standard deviation ``model.latent_scale`` (for any latents of the runs).
    v, eps_g : ndarray, shape (runs, n, K), (runs, n)
        Second layer, and the error of Gaussian fields with these overlaps. On other latents the true error may differ:
        see ``test_error``.
    test_error, test_error_se : ndarray, shape (runs, n), or None
        E[(yhat - y)^2] / 2 without label noise, on fresh samples of the latents of the run, and its standard error;
        ``simulate(..., test=)``.
    T : ndarray, shape (runs, M, M)
        Teacher covariance of each run.
    W, W_star, F : ndarray, shape (runs, K, N), (runs, M, D), (runs, N, D)
        Weights at the start of each run, and its features.
    N, moments : int, str
        Input dimension; "ge" or "exact" second moments in Q and R.
    success, message, method
        Whether all runs reached the end, a sentence about the end, the simulator.

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.hidden_manifold(2, 2, ratio=0.5, eta=0.2)
    >>> runs = ov.simulate(model, N=100, alpha=[0, 1, 2], rng=1, runs=3)
    >>> runs.R.shape, runs.mean("eps_g").shape
    ((3, 3, 2, 2), (3,))
    """

    F: np.ndarray
    moments: str

    def weights(self, run: int = 0) -> Any:
        """Weights (W, W_star, F) of run number ``run`` at its start; ``simulate(..., weights=)`` takes them back."""
        run = check.index("run", run, len(self))
        return Weights(self.W[run], self.W_star[run], self.F[run])

    def realisation(self, run: int = 0, *, nodes: int | None = None) -> tuple[Model, State]:
        """Model and state at the start of run number ``run``: the start of the ODE for a comparison.

        Parameters
        ----------
        run : int
            Which run.
        nodes : int, optional
            Compress the spectrum to this many eigenvalues, see :meth:`HiddenManifold.realisation`.

        Returns
        -------
        model : HiddenManifold
            With the spectrum of the features of this run.
        state : State
            Its overlaps at the start.

        Examples
        --------
        >>> import overlaps as ov
        >>> model = ov.hidden_manifold(2, 2, ratio=0.5, eta=0.2)
        >>> runs = ov.simulate(model, N=400, alpha=[0, 1, 2], rng=1)
        >>> own, start = runs.realisation(0)
        >>> theory = ov.solve(own, start, runs.alpha)
        >>> bool(abs(theory.eps_g[0] - runs.eps_g[0, 0]) < 1e-6), bool(abs(theory.eps_g - runs.eps_g[0]).max() < 0.03)
        (True, True)
        """
        weights = self.weights(run)._asdict()
        model: Any = self.model
        return model.realisation(**weights, moments=self.moments, normalise_rows=False, nodes=nodes)
