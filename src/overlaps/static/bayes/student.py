"""Experiment for comparison: a student of finite width, trained with Adam on n samples of a finite teacher."""

import math
from typing import Literal

import numpy as np

from ..._base import Immutable, Rng, bar, check
from ._polynomial import train
from .teacher import HierarchicalTeacher

__all__ = ["StudentRun", "train_student"]


class StudentRun(Immutable):
    """A trained student; made by :func:`train_student`.

    Attributes
    ----------
    n, d, width : int
        Samples, input dimension, features of the student.
    steps, eps : ndarray, shape (r,)
        Steps of Adam and the error E[(yhat - y)^2] on noiseless labels there, in closed form, from the start to the
        result.
    U, a : ndarray, shape (width, d), (width,)
        Features (unit vectors) and readouts of the student.
    overlap : ndarray, shape (k,)
        ``|u_i . u_j|`` of each teacher feature with the student feature nearest to it.
    """

    n: int
    d: int
    width: int
    steps: np.ndarray
    eps: np.ndarray
    U: np.ndarray
    a: np.ndarray
    overlap: np.ndarray

    def __repr__(self):
        found = int(np.sum(self.overlap > 0.71))  # above sqrt(1/2): a unit of the student finds at most one feature
        return f"StudentRun(d={self.d}, n={self.n}, width={self.width}, eps={self.eps[-1]:.4g}, {found} features found)"


def train_student(
    teacher: HierarchicalTeacher,
    *,
    d: int,
    n: int,
    width: int,
    rng: Rng,
    start: Literal["random", "teacher"] = "random",
    readouts: Literal["trained", "fixed"] = "trained",
    steps: int = 20_000,
    batch: int = 200,
    rate: float = 0.01,
    progress: bool = False,
) -> "StudentRun":
    r"""Train a student with Adam on n samples of a teacher of input dimension d.

    .. math:: \hat y = \sum_{j \le K} a_j\, \sigma(u_j \cdot x), \qquad |u_j| = 1

    Features, and readouts unless they are fixed, are trained on minibatches of the n samples; the rate falls to zero as
    a cosine.

    *Experiment*: Adam has no guarantee of reaching the Bayes error. From random starts a few features stay unlearned;
    with fixed readouts, many more.

    Parameters
    ----------
    teacher : HierarchicalTeacher
        Readouts, noise and activation; the activation must be a dict {l: c_l}, a finite sum of Hermite polynomials.
    d, n, width : int
        Input dimension, number of samples (nu = n/d), features of the student.
    rng : int or numpy.random.Generator
        Draws teacher features, samples, the student's start and the batches.
    start : {"random", "teacher"}
        "teacher" starts at the strongest features of the teacher: this tests whether Adam stays there.
    readouts : {"trained", "fixed"}
        "fixed" gives the student the strongest readouts of the teacher, a_j = v_j, and trains its features only.
    steps, batch : int
        Steps of Adam and samples per step.
    rate : float
        Learning rate at the start.
    progress : bool
        Show a progress bar.

    Raises
    ------
    ValueError
        An argument out of range, or an activation that is not a dict.

    Examples
    --------
    >>> import overlaps as ov
    >>> teacher = ov.static.HierarchicalTeacher(beta=1.0, k=3, noise=0.3, activation={3: 1.0})
    >>> ov.static.train_student(teacher, d=8, n=500, width=3, rng=1, steps=20).eps.shape
    (21,)
    """
    d, n, width = (check.count(name, x) for name, x in (("d", d), ("n", n), ("width", width)))
    steps, batch = check.count("steps", steps), check.count("batch", batch)
    rate = check.number("rate", rate, above=0)
    check_polynomial(teacher)
    check.choice("start", start, ("random", "teacher"))
    check.choice("readouts", readouts, ("trained", "fixed"))
    if (start, readouts) != ("random", "trained") and width > teacher.k:
        raise ValueError(
            f"start = {start!r}, readouts = {readouts!r} with width = {width}; expected width <= k = {teacher.k}, "
            "because the student begins with features or readouts of the teacher. Try start='random' with "
            "readouts='trained'."
        )
    rng = check.generator(rng)
    correlation, sigma = np.array(teacher.g.c), teacher.g.polynomial
    v = np.sqrt(np.sort(teacher.v2)[::-1])
    U_star, U = sphere(rng, teacher.k, d), sphere(rng, width, d)
    if start == "teacher":
        U = U_star[:width].copy()
    given = start == "teacher" or readouts == "fixed"
    a = v[:width].copy() if given else np.full(width, 1 / math.sqrt(width))
    X = rng.normal(size=(n, d))
    y = np.polynomial.polynomial.polyval(X @ U_star.T, sigma) @ v + teacher.noise * rng.normal(size=n)
    batch, readout_rate = min(batch, n), float(readouts == "trained")

    moments_U, moments_a = np.zeros((2, width, d)), np.zeros((2, width))
    done, times, errors = 0, [0], [error_of_student(correlation, U_star, v, U, a)]
    batches = epochs(rng, n, batch)
    n_records = 50  # times at which the test error is recorded, besides the start
    with bar(progress, steps, "steps") as tick:
        for target in np.unique(np.linspace(0, steps, n_records + 1).astype(int))[1:]:
            chunk = np.array([next(batches) for _ in range(target - done)])
            done = train(X, y, chunk, sigma, U, a, moments_U, moments_a, done, steps, rate, readout_rate)
            times.append(done)
            errors.append(error_of_student(correlation, U_star, v, U, a))
            if tick:
                tick(done)
    overlap = np.abs(U_star @ U.T).max(axis=1)
    return StudentRun(n, d, width, np.array(times), np.array(errors), U, a, overlap)


def check_polynomial(teacher, noisy=False):
    """Refuse all but teachers with a polynomial activation and, if ``noisy``, with noise."""
    good = isinstance(teacher, HierarchicalTeacher) and isinstance(teacher.activation, dict)
    if not good or (noisy and not teacher.noise):
        raise ValueError(
            f"teacher = {check.shown(teacher)}; expected a HierarchicalTeacher{' with noise > 0' * noisy} whose "
            "activation is a dictionary of Hermite components. Try activation={3: 1.0}."
        )


def sphere(rng, count, d):
    """Random unit vectors, (count, d)."""
    U = rng.normal(size=(count, d))
    return U / np.linalg.norm(U, axis=1, keepdims=True)


def epochs(rng, n, batch):
    """Endless batches of indices, each sample once per epoch (the last n mod batch of an epoch are left out)."""
    while True:
        yield from rng.permutation(n)[: n - n % batch].reshape(-1, batch)


def error_of_student(correlation, U_star, v, U, a):
    r"""E[(yhat - y)^2] on noiseless labels: a quadratic form in the correlations g(u.u') of all features."""
    features, weights = np.concatenate([U_star, U]), np.concatenate([v, -a])
    return float(weights @ np.polynomial.polynomial.polyval(features @ features.T, correlation) @ weights)
