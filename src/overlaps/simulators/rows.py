"""Direct SGD on the rows of a data set in place of Gaussian inputs, and the error on other rows."""

from typing import Any, NamedTuple

import numpy as np

from .._base import check, warn


class RowOptions(NamedTuple):
    """Deviations above which rows with other second moments than those of the model give a warning."""

    # Standard errors: with 5 a deviation is chance once in 10^6 eigenspaces, with half as many once in 80.
    sigmas: float = 5
    # Fraction of the largest eigenvalue; empirical. eps_g changes by about as much.
    fraction: float = 0.05


OPTIONS = RowOptions()


class Rows(NamedTuple):
    """Inputs X (n, N), test inputs (m, N) or None, and weights (W, W_star) at the start or None.

    All are in the coordinates of the eigenvectors of the model.
    """

    X: Any
    test: Any
    replace: bool
    weights: Any

    @classmethod
    def checked(cls, model, N, rows, rows_test, replace, weights):
        """The rows that ``simulate`` was given, or None; warn if their second moments are not those of the model."""
        check.flag("replace", replace)
        if rows is None:
            if rows_test is not None or weights is not None or not replace:
                raise ValueError("rows_test=, replace= and weights= without rows=; expected rows=X, a matrix (n, N).")
            return None
        if rows_test is not None and model.rule is not None:
            raise ValueError("rows_test= measures the squared error, which a rule of learning does not have; omit it.")
        X, test = (_in_eigenspaces(model, N, name, x) for name, x in (("rows", rows), ("rows_test", rows_test)))
        warn_of_moments(X, model.spectrum.s, model.spectrum.block_sizes(N))
        if weights is not None:
            weights = [x if model.spectrum.basis is None else x @ model.spectrum.basis for x in weights]
        return cls(X, test, replace, weights)

    def check_supply(self, rates, steps):
        """Raise an error if so many steps take more rows than there are, each of them once."""
        needed = 0
        while steps and not self.replace:
            n, _ = rates.left(steps)
            needed, steps, rates.step = needed + n * rates.batch, steps - n, rates.step + n * rates.stride
        if needed > len(self.X):
            raise ValueError(
                f"a run takes {needed} of {len(self.X)} rows without replacement; expected a smaller alpha or batch, "
                "more rows, or replace=True."
            )

    def error(self, model, W, W_star, v):
        """Mean over the test rows of Delta^2 / 2 without label noise, and its standard error; () without test rows."""
        if self.test is None:
            return ()
        lam, nu = (self.test @ w.T / np.sqrt(w.shape[1]) for w in (W, W_star))
        with np.errstate(over="ignore", invalid="ignore"):  # of a run that diverges
            error = (model.activation.g(lam) @ v - model.teacher_activation.g(nu) @ model.v_star) ** 2 / 2
            return np.mean(error, keepdims=True), np.std(error, ddof=1, keepdims=True) / np.sqrt(len(error))


def _in_eigenspaces(model, N, name, x):
    if x is None:
        return None
    x = check.array(name, x, ("n", "N"))
    if x.shape[1] != N or len(x) < 2:
        raise ValueError(f"{name} has shape {x.shape}; expected at least two samples as rows (n, N = {N}).")
    return x if model.spectrum.basis is None else x @ model.spectrum.basis


def warn_of_moments(X, s, sizes):
    """Warn if E[x^2] in an eigenspace is not its eigenvalue, as for rows with a mean, or in other units."""
    n, edges, present = len(X), np.cumsum(sizes) - sizes, sizes > 0
    power = np.add.reduceat(X**2, edges[present], axis=1) / sizes[present]
    gap, error = np.abs(power.mean(axis=0) - s[present]), power.std(axis=0) / np.sqrt(n)
    if np.any((gap > OPTIONS.sigmas * error) & (gap > OPTIONS.fraction * s.max())):
        i = np.argmax(gap)
        warn(
            f"rows have E[x^2] = {power[:, i].mean():.3g} in an eigenspace of the model with s = {s[present][i]:.3g}: "
            "Q, R and eps_g are not those of the rows. Expected spectrum=ov.Spectrum.from_covariance(data=rows), which "
            "subtracts the mean of the rows; subtract it from the rows, too."
            + check.see("limits", "Inputs are Gaussian")
        )
