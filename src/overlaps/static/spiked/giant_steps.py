"""Spikes of blocks of neurons from one giant gradient step to the next."""

from typing import NamedTuple

import numpy as np

from ..._base.pages import see
from .directions import RANK, conditional, setting


class Spikes(NamedTuple):
    """Spikes (B, D) of the blocks between steps, and c (B,); the first coordinates are the target's directions."""

    S: np.ndarray
    c: np.ndarray

    def basis(self):
        """Spikes (B, R) in an orthonormal basis (R, D) of their span."""
        left, size, right = np.linalg.svd(self.S, full_matrices=False)
        rank = int(np.sum(size > 1e-9 * max(size.max(), 1.0)))
        if rank > RANK:
            raise ValueError(
                f"readout leaves spikes in {rank} directions, one for each of {len(self.S)} letters; expected at most "
                f"{RANK}. Try fewer letters, or one step." + see("spiked", "Several directions, several steps")
            )
        sign = np.where(left[:, :rank].sum(axis=0) < 0, -1.0, 1.0)
        return left[:, :rank] * size[:rank] * sign, right[:rank] * sign[:, None]

    def step(self, f, derivative, target, m, tau, weight, alpha0, noise):
        """After a step of rates tau (B,); the network's output is the sum over blocks of weight mu0."""
        r, basis = self.basis()
        here = setting(f, target, r, self.c, basis[:, :m].T)
        table = conditional(here)
        mu1, bend, _, left = here.of_neurons(derivative, table.k, table.step)  # bend is sqrt(c) E[sigma'']
        F = weight @ table.mu0
        e, square = table.h - F, table.hh - 2 * F * table.h + F**2 + noise**2
        along, across = mu1 * table.weight @ (e[:, None] * table.k), mu1 * table.weight @ table.h1.T
        H = here.rest
        zeta = (H / np.sum(H**2, axis=0)).T @ (np.eye(m, basis.shape[1]) - basis[:, :m].T @ basis)
        common = np.linalg.eigh((mu1 * (table.weight * square)) @ mu1.T / alpha0)
        fresh = common[1] * np.sqrt(np.maximum(common[0], 0.0))
        S = np.hstack([self.S + tau[:, None] * (along @ basis + across @ zeta), tau[:, None] * fresh])
        own = (bend**2 + left) @ (table.weight * square) / alpha0
        grown = np.sqrt(self.c) * (1 + tau * (bend @ (table.weight * e)) / np.sqrt(self.c))
        return Spikes(S, grown**2 + tau**2 * own)
