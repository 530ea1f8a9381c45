"""Base of both models: spikes, bulk and blocks of the neurons, and the response of their rows."""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY
from functools import cached_property
from typing import Any, cast

import numpy as np

from ..._base import Immutable, check
from . import blocks, ridge
from .averages import QUADRATURE, even_part, function_of
from .letters import checked_fractions


class Levels:
    """Tables and features on finer and finer grids over k, computed when a sharp fixed point needs them."""

    def __init__(self, table):
        self.tables, self.features = [table], [ridge.Features(table)]

    def __getitem__(self, n):
        while len(self.features) <= n:
            self.tables.append(self.tables[0].refined(len(self.tables)))
            self.features.append(ridge.Features(self.tables[-1]))
        return self.features[n]


class Spiked(Immutable):
    """Random features with spikes: base of :class:`.SpikedRandomFeatures` and :class:`.SpikedSubspace`.

    A single block of neurons has numbers r and c and no fractions; B blocks have arrays. ``spikes``, ``variances`` and
    ``block_fractions`` are arrays in both cases.
    """

    student: Callable[..., Any]
    target: Callable[..., Any]
    _: KW_ONLY
    r: Any
    gamma: Any
    c: Any = 1.0
    beta: float
    noise: float = 0.0
    bias: bool = False
    fractions: Any = None
    rows: str = "iid"
    law = bulk = cast(Any, None)  # fields of SpikedRandomFeatures
    offset = kap = 0.0

    @property
    def variances(self):
        """Variances of the bulk, (B,)."""
        return np.atleast_1d(self.c)

    @property
    def block_fractions(self):
        """Fractions of the neurons in each block, (B,)."""
        return np.ones(1) if self.fractions is None else self.fractions

    @property
    def spikes(self):
        """Spikes of the blocks along R orthonormal directions, (B, R)."""
        return np.reshape(self.r, (self.variances.size, -1))

    @property
    def coefficients(self):
        """Tables of the conditional Gaussian coefficients over k; independent of alpha, lam and beta."""
        raise NotImplementedError

    @cached_property
    def _levels(self):
        return Levels(self.coefficients)

    def _draw(self, setup):
        """One draw of these features at finite size: a function of its generator."""
        raise NotImplementedError

    def response(self, lam):
        """Response of the rows' resolvent to the data at the penalty ``lam``: a function Vh -> ``ridge.Response``."""
        if np.ndim(self.r) == 0 and self.rows == "iid" and self.bulk is None:
            return ridge.marchenko_pastur(self.c, self.beta, lam)
        law: Any = blocks.independent(self.beta) if self.rows == "iid" else blocks.orthonormal
        if self.bulk is not None:
            law = blocks.Eigenvalues(self.bulk)
        response, rank = blocks.rows_of(law, self.variances, self.beta, lam, self.block_fractions), self.spikes.shape[1]
        return response if rank == 1 else blocks.along_directions(response, rank)

    def neurons(self, d):
        """Neurons of each block (B,) at input dimension ``d``, rho_b beta d; at least one, without a continuous law."""
        size = d
        if check.axes("d", d) or d != math.inf:
            size = check.number("d", d, above=0, hint="d is the dimension of the inputs; math.inf is the limit.")
        neurons = self.block_fractions * self.beta * size
        if self.law is not None:
            if math.isinf(size):
                raise ValueError(
                    "d = inf with a continuous law of the readout: as d -> infinity the mu0 of all letters are fitted "
                    "freely, whatever their number; expected the input dimension d of the experiment."
                    + check.see("spiked", "Continuous readouts")
                )
            return neurons
        if np.any(neurons < 1):
            raise ValueError(
                f"d = {check.shown(d)} leaves {np.min(neurons):.2g} neurons to one of {neurons.size} blocks; expected "
                f"at least one in each, d >= {math.ceil(size / np.min(neurons))}." + check.see("spiked", "Finite d")
            )
        return neurons

    def _width(self):
        """Checked width, rows, noise and bias."""
        beta = check.number("beta", self.beta, above=0, hint="beta is the width, p/d.")
        if check.choice("rows", self.rows, ("iid", "orthonormal")) == "orthonormal" and beta > 1:
            raise check.refused("beta", beta, "beta <= 1: p rows in d dimensions.", after=" with rows='orthonormal'")
        noise = check.number("noise", self.noise, least=0, hint="noise is a standard deviation.")
        return {"beta": beta, "noise": noise, "bias": check.flag("bias", self.bias)}

    def _blocks(self, r, offset):
        """Checked variances and fractions of blocks with spikes r (B, R) and biases (B,), no two of them the same."""
        B = len(r)
        c = check.array("c", np.full(B, self.c) if check.axes("c", self.c) == 0 else self.c, (B,))
        if B == 0 or np.any(c <= 0):
            wrong = f"r = {check.shown(self.r)}" if B == 0 else f"c = {check.shown(self.c)}"
            raise ValueError(f"{wrong}; expected at least one block, and variances > 0.")
        odd = even_part(function_of(self.student, "student")) < QUADRATURE.odd_tol
        inner = np.column_stack([r, offset])
        first = inner[np.arange(B), np.argmax(inner != 0, axis=1)]
        names = np.column_stack([np.where((first < 0) & odd, -1.0, 1.0)[:, None] * inner, c])
        if len(np.unique(names, axis=0)) < B:
            raise ValueError(
                f"r = {check.shown(self.r)}, c = {check.shown(self.c)} has equal blocks"
                f"{' up to a sign of r' if odd else ''}; expected distinct ones. Merge them: one block with the sum of "
                "their fractions."
            )
        return {"c": c, "fractions": checked_fractions("r", B, self.fractions)}
