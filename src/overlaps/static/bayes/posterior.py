"""The posterior of the features at finite size, sampled: Hamiltonian Monte Carlo."""

import math
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from ..._base import ArrayLike, Immutable, Rng, bar, check, warn
from ..._base.parallel import run_all, worded
from ._polynomial import respond
from .exact import standard_error
from .student import check_polynomial, sphere
from .teacher import HierarchicalTeacher

__all__ = ["PosteriorSample", "sample_posterior"]


class SamplerOptions(NamedTuple):
    """Tunable numbers of Hamiltonian Monte Carlo."""

    # Acceptance to which the warm-up adapts the step size. A larger one needs smaller steps.
    target_acceptance: float = 0.8
    # Step size at the beginning of the warm-up.
    initial_step: float = 0.3
    # Largest R-hat and least effective sample size of a run that counts as converged.
    max_rhat: float = 1.1
    min_ess: int = 50


HMC = SamplerOptions()


class PosteriorSample(Immutable):
    """Draws from the posterior; made by :func:`sample_posterior`.

    Attributes
    ----------
    d, n : int
        Input dimension and samples.
    eps, eps_err : float
        Bayes error on noiseless labels, half the squared distance of posterior draws from the teacher.
    q, q_err : ndarray, shape (k,)
        Overlaps of draws with the features, in the order of v2.
    noise, noise_err : float
        Mean squared residual of the data, which is the noise variance Delta at every d (Nishimori's identity).
    ess, rhat : ndarray, shape (runs,)
        Effective sample size of eps in each run, all its chains together, and split R-hat.
    acceptance : float
        Fraction of accepted proposals.
    draws : ndarray, shape (runs, chains, steps)
        eps of every draw; nan where the run was interrupted.
    converged : bool
        Whether every run has R-hat <= 1.1 and an effective size of at least 50.
    success, message : bool, str
        Whether all draws were made, and their number or the reason.
    """

    d: int
    n: int
    eps: float
    eps_err: float
    q: np.ndarray
    q_err: np.ndarray
    noise: float
    noise_err: float
    ess: np.ndarray
    rhat: np.ndarray
    acceptance: float
    draws: np.ndarray
    converged: bool
    success: bool
    message: str

    def __repr__(self):
        runs, chains, steps = self.draws.shape
        size = f"{runs} runs x {chains} chains x {steps} draws"
        return f"PosteriorSample(d={self.d}, n={self.n}, {size}, eps={self.eps:.4g}+-{self.eps_err:.1g})"


def sample_posterior(
    teacher: HierarchicalTeacher,
    *,
    d: int,
    nu: float,
    rng: Rng,
    start: Literal["teacher", "random"] = "teacher",
    chains: int = 1,
    runs: int = 1,
    steps: int = 1000,
    warmup: int = 200,
    leapfrog: int = 20,
    data: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
    progress: bool = False,
) -> "PosteriorSample":
    r"""Sample the posterior of the features at finite d and k by Hamiltonian Monte Carlo.

    .. math::
        U(W) = \frac{1}{2\Delta} \sum_{\mu \le n} \Big(y_\mu - \sum_i v_i\, \sigma(x_\mu \cdot w_i/|w_i|)\Big)^2 +
        \frac{|W|^2}{2}, \qquad w_i \in R^d

    *Sampled*: exact at finite d and k up to the error bars, overlaps between different features included. Directions
    of Gaussian vectors are uniform on the sphere, which is the prior. A chain may stay in one of several modes. R-hat
    does not detect this if all chains begin in the same mode: from the teacher, eps is then too small, with any number
    of data sets. If runs from both starts agree within their errors, the chains have mixed between the modes.

    Parameters
    ----------
    teacher : HierarchicalTeacher
        Readouts (v_i > 0), noise > 0 and an activation given as a dict.
    d : int
        Input dimension.
    nu : float
        Data, n/d > 0; n is rounded.
    rng : int or numpy.random.Generator
        Seed; run i uses its i-th child.
    start : {"teacher", "random"}
        The teacher is a sample of the posterior, so that the chain begins in equilibrium: U and ``noise`` need no
        warm-up. But q is the overlap with that start: q falls from 1, and eps rises from 0, until the chain is
        decorrelated from it. From a random start, q rises and eps falls; a chain that stays at q = 0 has not found the
        posterior.
    chains, runs : int
        Chains on one data set; data sets.
    steps, warmup, leapfrog : int
        Draws recorded of each chain, draws before them that adapt the step size, leapfrog steps between draws.
    data : tuple of array_like, optional
        (X (n, d), y (n,), features (k, d) of norm one) in place of drawn data; one run.
    progress : bool
        Show a progress bar.

    Returns
    -------
    PosteriorSample
        Error bars cover the true value in 68 of 100 cases. With one data set they are sd/sqrt(ess). With more, they are
        the standard error over data sets times Student's factor (1.84 for two, 1.20 for four, 1.06 for ten), but not
        less than the sampling error of the draws.

    Raises
    ------
    ValueError
        An argument out of range, no noise, an activation that is not a dict, data of other sizes.

    Warns
    -----
    RuntimeWarning
        A run has R-hat > 1.1 or an effective size below 50, or Ctrl-C was pressed: the result contains the draws made.

    Examples
    --------
    >>> import overlaps as ov
    >>> teacher = ov.static.HierarchicalTeacher(v2=[1.0], noise=1.0, activation={3: 1.0})
    >>> found = ov.static.sample_posterior(teacher, d=10, nu=20, rng=1, steps=200)
    >>> found.draws.shape, bool(found.q[0] > 0.8)
    ((1, 1, 200), True)
    """
    check_polynomial(teacher, noisy=True)
    d, chains, runs = (check.count(name, x) for name, x in (("d", d), ("chains", chains), ("runs", runs)))
    steps, warmup = check.count("steps", steps, least=4), check.count("warmup", warmup, least=0)
    leapfrog = check.count("leapfrog", leapfrog)
    nu = check.number("nu", nu, above=0)
    check.choice("start", start, ("teacher", "random"))
    n = max(1, round(nu * d))
    data = None if data is None else _data(data, teacher.k, d, runs)
    draws = np.full((runs, chains, steps, teacher.k + 2), np.nan)
    accepted: list[bool] = []
    with bar(progress, runs * (warmup + steps), "draws") as tick:

        def sample(i, child):
            """Fill draws[i]; return whether Ctrl-C ended it."""
            # Each run has its own data set, common to its chains: runs differ by their data, chains by sampling.
            problem = Problem(teacher, *(data or data_set(teacher, d, n, child)))
            try:
                walkers = [Chain(problem, start, x) for x in child.spawn(chains)]
                for t in range(-warmup, steps):
                    accept = [walker.step(leapfrog, t + warmup if t < 0 else None) for walker in walkers]
                    if t >= 0:
                        draws[i, :, t] = [problem.measure(walker.W, walker.squares) for walker in walkers]
                        accepted.extend(accept)
                    if tick:
                        tick(i * (warmup + steps) + warmup + t + 1)
            except KeyboardInterrupt:
                return True
            return False

        jobs = {i: partial(sample, i, child) for i, child in enumerate(check.generator(rng).spawn(runs))}
        cut, errors = run_all(jobs, cut=bool, needed=True)
    # runs that Ctrl-C ended have fewer draws; R-hat needs at least four
    finished = [x[:, np.isfinite(x[0, :, 0])] for x in draws]
    finished = [x for x in finished if x.shape[1] >= 4]
    if not finished:
        raise KeyboardInterrupt
    success, message = len(cut) == runs and not any(cut.values()), f"{runs * chains * steps} draws made."
    if not success:
        reason = "The draws made are kept" if errors else "Interrupted; the draws made are kept"
        message = worded(reason, errors, lambda i: f"is data set {i}")
        warn(message + check.see("start", "When something is wrong"))
    return _result(d, n if data is None else len(data[1]), draws, finished, accepted, success, message)


def _data(data, k, d, runs):
    if runs != 1 or not isinstance(data, tuple) or len(data) != 3:
        raise ValueError(f"data with runs = {runs}; expected data=(X, y, features) and runs=1.")
    y = check.array("data y", data[1], ("n",))
    X, features = check.array("data X", data[0], (y.size, d)), check.array("data features", data[2], (k, d))
    if np.any(np.abs(np.linalg.norm(features, axis=1) - 1) > 1e-8):
        raise ValueError("data features have norms other than 1; expected unit vectors. Divide them by their norms.")
    return X, y, features


def data_set(teacher, d, n, rng):
    """(X, y, features) of a teacher of dimension d."""
    features, X = sphere(rng, teacher.k, d), rng.normal(size=(n, d))
    clean = np.polynomial.polynomial.polyval(X @ features.T, teacher.g.polynomial) @ np.sqrt(teacher.v2)
    return X, clean + teacher.noise * rng.normal(size=n), features


class Problem:
    """The potential U(W) of one data set, and the observables of W."""

    def __init__(self, teacher, X, y, features):
        self.X, self.y, self.features, self.Delta = X, y, features, teacher.Delta
        self.v, self.sigma, self.c = np.sqrt(teacher.v2), teacher.g.polynomial, np.array(teacher.g.c)
        # Curvature of U at the teacher for each feature, so that all directions have the same time scale.
        self.mass = 1 + len(y) / X.shape[1] * teacher.v2 * teacher.feature.slope / self.Delta
        self.teacher_square = self._product(features, features)

    def potential(self, W):
        """(U, dU/dW, sum of squared residuals)."""
        length = np.linalg.norm(W, axis=1, keepdims=True)
        u = W / length
        Z = self.X @ u.T
        squares = respond(Z, self.sigma, self.v, self.y)
        pull = Z.T @ self.X / self.Delta
        # The data depend on the direction of w_i only; the force along w_i is that of the prior.
        pull -= np.sum(pull * u, axis=1, keepdims=True) * u
        return 0.5 * squares / self.Delta + 0.5 * np.sum(W * W), pull / length + W, squares

    def measure(self, W, squares):
        """(eps, mean squared residual, overlaps) of one draw."""
        u = W / np.linalg.norm(W, axis=1, keepdims=True)
        eps = 0.5 * (self.teacher_square - 2 * self._product(self.features, u) + self._product(u, u))
        return np.concatenate([[eps, squares / self.y.size], np.sum(u * self.features, axis=1)])

    def _product(self, a, b):
        return self.v @ np.polynomial.polynomial.polyval(a @ b.T, self.c) @ self.v


class Chain:
    """One chain: its state W with potential and gradient, and its step size."""

    def __init__(self, problem, start, rng, options=HMC):
        self.problem, self.rng, self.options, self.log_step = problem, rng, options, math.log(options.initial_step)
        self.W = rng.normal(size=problem.features.shape)
        if start == "teacher":
            # directions of the teacher, lengths of the prior, because the data do not depend on lengths
            self.W = np.linalg.norm(self.W, axis=1, keepdims=True) * problem.features
        self.U, self.slope, self.squares = problem.potential(self.W)

    def step(self, leaps, time):
        """Make one proposal and return whether it was accepted; in the warm-up (time given), adapt the step size."""
        mass = self.problem.mass[:, None]
        p = np.sqrt(mass) * self.rng.normal(size=self.W.shape)
        # A random step size, because trajectories of a fixed length may be periodic.
        h = math.exp(self.log_step) * self.rng.uniform(0.8, 1.2)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # a diverging proposal is rejected below
            W, end, U, slope, squares = leap(self.problem, self.W, p, self.slope, h, leaps)
            change = U - self.U + 0.5 * float(np.sum((end * end - p * p) / mass))
        chance = math.exp(min(0.0, -change)) if math.isfinite(change) else 0.0
        accept = bool(self.rng.random() < chance)
        if accept:
            self.W, self.U, self.slope, self.squares = W, U, slope, squares
        if time is not None:
            # Robbins-Monro: the acceptance converges to its target during the warm-up; the step is constant afterwards
            self.log_step += 1.5 * (chance - self.options.target_acceptance) / (time + 3) ** 0.6
        return accept


def leap(problem, W, p, slope, h, leaps):
    """Leapfrog steps of size h: (W, p, U, dU/dW, sum of squared residuals) at the end."""
    for _ in range(leaps):
        p = p - 0.5 * h * slope
        W = W + h * p / problem.mass[:, None]
        U, slope, squares = problem.potential(W)
        p = p - 0.5 * h * slope
    return W, p, U, slope, squares


def chains_agree(x):
    """(effective sample size, split R-hat, standard deviation) of draws (chains, steps), by Geyer's sequence."""
    half = x.shape[1] // 2
    # Each half of a chain counts as a chain, so that a drift within a chain appears as a difference between chains.
    x = np.concatenate([x[:, :half], x[:, -half:]])
    centred = x - x.mean(axis=1, keepdims=True)
    transform = np.fft.rfft(centred, 2 * half)
    covariance = np.fft.irfft(np.abs(transform) ** 2, 2 * half)[:, :half].mean(axis=0) / half
    within = covariance[0] * half / (half - 1)
    total = covariance[0] + np.var(x.mean(axis=1), ddof=1)
    if within == 0:
        return (float(x.size), 1.0, 0.0) if total == 0 else (1.0, math.inf, math.sqrt(total))
    rho = 1 - (within - covariance) / total
    rho[0] = 1.0
    pairs = rho[: half - half % 2].reshape(-1, 2).sum(axis=1)
    # Geyer: sums of neighbouring correlations are positive and decrease; beyond the first that is not, they are noise.
    positive = pairs[: np.argmax(pairs <= 0)] if np.any(pairs <= 0) else pairs
    correlated = 2 * np.sum(np.minimum.accumulate(positive)) - 1
    return float(min(x.size / max(correlated, 1 / x.size), x.size)), math.sqrt(total / within), math.sqrt(total)


def _result(d, n, draws, finished, accepted, success, message):
    """The result of all runs that have enough draws, each of shape (chains, draws, values)."""
    statistics = np.array([[chains_agree(run[:, :, j]) for j in range(run.shape[2])] for run in finished])
    means = np.array([run.mean(axis=(0, 1)) for run in finished])
    within = np.mean(statistics[:, :, 2] ** 2 / statistics[:, :, 0], axis=0) / len(finished)
    # a few data sets may agree by chance better than their sampling errors allow
    errors = np.maximum(standard_error(means), np.sqrt(within))
    value, (ess, rhat) = means.mean(axis=0), statistics[:, 0, :2].T
    converged = bool(np.all(rhat <= HMC.max_rhat) and np.all(ess >= HMC.min_ess))
    if not converged:
        warn(
            f"The posterior is not well sampled: R-hat up to {rhat.max():.3g}, effective size down to {ess.min():.3g}; "
            f"expected at most {HMC.max_rhat} and at least {HMC.min_ess}. Try more steps."
            + check.see("bayes", "When not to believe the equations")
        )
    return PosteriorSample(
        d=d, n=n, eps=float(value[0]), eps_err=float(errors[0]), q=value[2:], q_err=errors[2:], noise=float(value[1]),
        noise_err=float(errors[1]), ess=ess, rhat=rhat, acceptance=float(np.mean(accepted)), draws=draws[..., 0],
        converged=converged, success=success, message=message,
    )  # fmt: skip
