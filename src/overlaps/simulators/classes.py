"""Inputs in classes: which class each sample has, and what that adds to centred Gaussian coordinates."""

import numpy as np


class Draws:
    """Classes of samples, from a stream of their own.

    ``centroids`` (C, n) are the class means in some coordinates, ``block`` (n,) tells of each the eigenspace.
    """

    def __init__(self, model, rng, centroids, block):
        self.rng, self.edges = rng, np.cumsum(model.weights)[:-1]
        self.labels, self.centroids = model.labels, centroids
        scaled = np.any(model.ratios != 1)
        self.roots = np.sqrt(model.ratios)[:, block] if scaled else None

    def enter_frame(self, x, s):
        """The same for coordinates x (steps, L, b, d) in frames: centroids lie in the first of each block.

        The Gaussian part comes in units of its standard deviation, sqrt(s), and leaves in units of the inputs.
        """
        steps, L, b, _ = x.shape
        c = self._classes((steps, b))
        n = self.centroids.shape[1] // L
        x *= np.sqrt(s)[:, None, None]
        if self.roots is not None:
            x *= np.swapaxes(self.roots[c][..., ::n], 1, 2)[..., None]
        x[..., :n] += np.swapaxes(self.centroids[c].reshape(steps, b, L, n), 1, 2)
        return self.labels[c]

    def _classes(self, shape):
        return np.searchsorted(self.edges, self.rng.random(shape), side="right")

    def enter(self, X):
        """Put centred samples X (..., n) into classes, in place; return their labels (...,)."""
        c = self._classes(X.shape[:-1])
        if self.roots is not None:
            X *= self.roots[c]
        X += self.centroids[c]
        return self.labels[c]
