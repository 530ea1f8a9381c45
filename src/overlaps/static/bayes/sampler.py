"""Hamiltonian Monte Carlo for the features: the potential of one data set, a chain, and the mixing of chains."""

import math
from typing import NamedTuple

import numpy as np

from ._polynomial import respond
from .student import sphere


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
