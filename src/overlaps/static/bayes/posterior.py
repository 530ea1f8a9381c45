"""The posterior of the features at finite size, sampled: runs, error bars, convergence."""

from functools import partial
from typing import Literal

import numpy as np

from ..._base import ArrayLike, Immutable, Rng, bar, check, warn
from ..._base.parallel import run_all, worded
from .exact import standard_error
from .sampler import HMC, Chain, Problem, chains_agree, data_set
from .student import check_polynomial
from .teacher import HierarchicalTeacher

__all__ = ["PosteriorSample", "sample_posterior"]


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
            + check.see("bayes", "Where the equations fail")
        )
    return PosteriorSample(
        d=d, n=n, eps=float(value[0]), eps_err=float(errors[0]), q=value[2:], q_err=errors[2:], noise=float(value[1]),
        noise_err=float(errors[1]), ess=ess, rhat=rhat, acceptance=float(np.mean(accepted)), draws=draws[..., 0],
        converged=converged, success=success, message=message,
    )  # fmt: skip
