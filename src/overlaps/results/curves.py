"""Quantities that follow from Q, R, T, v along the learning time: shared by solutions and simulated runs."""

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from .._base import ArrayLike, Floats, Immutable, check, html, read_only
from ..activations.classification import misclassified
from ..flow.closure import bind, generalisation_error
from ..models import Mixed, Model
from ..models.schedule import Schedule, factors_on_s
from ..models.start import OVERFLOW
from ..models.state import gram
from . import files, labelled, plotting


class Views(Immutable):
    """Results for keeping and looking: a file, labelled arrays, a table, a picture."""

    save = files.save
    to_xarray = labelled.from_curves
    to_pandas = labelled.frame
    plot = plotting.plot
    animate = plotting.animate

    def __len__(self: Any) -> int:
        return self.alpha.size

    def _covered(self: Any, alpha: float) -> float:
        """The time alpha, which lies between the first and the last record."""
        alpha = check.number("alpha", alpha, hint="One time in each call.")
        if not self.alpha[0] <= alpha <= self.alpha[-1]:
            covered = f"[{self.alpha[0]:g}, {self.alpha[-1]:g}]"
            raise ValueError(f"alpha = {alpha:g}; this trajectory covers {covered}. Solve again up to a later time.")
        return alpha

    def __repr__(self: Any):
        state = "success" if self.success else "FAILED"
        return (
            f"{type(self).__name__}({self.model}, alpha {self.alpha[0]:g}..{self.alpha[-1]:g}, n={len(self)}, "
            f"eps_g {self.eps_g[0]:.3g} -> {self.eps_g[-1]:.3g}, {state}, {self.method})"
        )


def first_below(alpha: Floats, curve: Floats, level: float) -> float:
    """First time at which a positive curve (n,) at times alpha (n,) falls below a level; nan if it does not.

    By monotone cubics of its logarithm through the four records about that time.
    """
    if not np.any(curve < level):
        return np.nan
    from scipy.interpolate import PchipInterpolator  # here: an import that every process would pay

    i = max(int(np.argmax(curve < level)), 1)
    # monotone cubics need two records on either side, and nothing beyond
    near = slice(max(i - 2, 0), i + 2)
    height = np.log(np.maximum(curve[near], np.finfo(float).tiny))
    roots = PchipInterpolator(alpha[near], height).solve(np.log(level), extrapolate=False)
    return float(np.min(roots[roots >= alpha[i - 1]], initial=alpha[i] if curve[0] >= level else alpha[0]))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class _Curves(Views):
    """Base of the records of solutions and of runs: parameters, how it ended, and what follows from Q, R, T, v."""

    model: Model
    alpha: np.ndarray
    v: np.ndarray
    T: np.ndarray
    success: bool
    message: str
    method: str
    schedule: Schedule | dict | None = None
    is_ensemble: ClassVar[bool] = False
    is_state: ClassVar[bool] = False

    def __post_init__(self):
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        self._set(**{name: read_only(value) for name, value in values.items() if isinstance(value, np.ndarray)})

    @property
    def eta(self) -> Floats:
        """Learning rate (n,) at the records: the model's times the factor of the schedule."""
        f = self.schedule.get("eta") if isinstance(self.schedule, dict) else self.schedule
        return np.full(self.alpha.shape, self.model.eta) if f is None else self.model.eta * f(self.alpha)

    @property
    def S(self: Any) -> Floats:
        """Covariance of all fields (..., n, K + M, K + M)."""
        return gram(self.Q, self.R, self.T if self.changing else np.expand_dims(self.T, -3))

    @property
    def changing(self) -> bool:
        """Whether a schedule changes the variances of the inputs, and so T at the records (..., n, M, M)."""
        return isinstance(self.schedule, dict) and "s" in self.schedule

    @cached_property
    def eps_g(self: Any) -> Floats:
        """Generalisation error E[(yhat - y)^2] / 2 without the noise, (..., n), computed from the overlaps.

        Never negative: where the closed form, a difference of numbers of order one, comes out below zero, its true
        value is below the rounding error of the overlaps (about 1e-16) and 0 is returned.
        """
        if isinstance(self.model, Mixed):
            return read_only(sum(share * self._of_task(i) for i, share in enumerate(self.model.at(self.alpha))))
        return read_only(_error(self.model, self.model.field_covariance(self), self.v))

    def against(self, v_star: ArrayLike) -> Floats:
        """Error (..., n) on the labels of the same teachers with other second layers ``v_star`` (M,)."""
        v_star = check.array("v_star", v_star, (self.model.M,), "One number for each teacher.")
        return _error(replace(self.model, v_star=v_star), self.model.field_covariance(self), self.v)

    def classification_error(self, s: ArrayLike | None = None) -> Floats:
        r"""Probability (..., n) that the output has the wrong sign, against the label or one teacher.

        .. math:: \sum_c \pi_c \big[ P_c(y_c\, \hat y < 0) + P_c(\hat y = 0) / 2 \big], \qquad
                  P(y\, \hat y < 0) = \frac1\pi\, \mathrm{atan2}\big(\sqrt{QT - R^2},\, v v^* R\big)

        The second for K = M = 1 and units with the sign of their field (erf, tanh, linear, sign), exact; ``s`` (L,) are
        variances of the inputs of a test in place of those learned from.

        Closed for linear units and a single one; an integral over one field for two erf or relu units; otherwise 2^16
        antithetic Sobol points, to the standard error ``classification_error_se()``. A tie counts one half: relu
        networks are silent where all their fields are negative.

        Raises
        ------
        ValueError
            Inputs in classes with a teacher or a label that is zero; several units, or units without the sign of their
            field, of inputs without classes (:func:`overlaps.field_average` takes any function); ``s`` of another
            length, or > 0 where nothing was learned of an eigenspace.
        """
        if self.model.n_classes and s is not None:
            raise ValueError(f"s = {check.shown(s)} for inputs in classes, whose variances are their own; leave s out.")
        return self._misclassified[0] if self.model.n_classes else self._wrong_sign(s)

    def _wrong_sign(self: Any, s):
        model, x = self.model, np.linspace(0.01, 9.0, 100)
        units = (model.activation, model.teacher_activation)
        signed = model.rule is None and all(np.all(g(x) > 0) and np.all(g(-x) < 0) for g in units)
        if (model.K, model.M) != (1, 1) or not signed:
            raise ValueError(
                f"the sign of {model} against its teacher's; expected K = M = 1 and units with the sign of theirs, "
                "or ov.field_average(traj, f)."
            )
        S = self.S if s is None else self._of_inputs(s)
        Q, R, T = S[..., 0, 0], S[..., 0, 1], S[..., 1, 1]
        return np.arctan2(np.sqrt(np.maximum(Q * T - R**2, 0.0)), R * np.sign(self.v[..., 0] * model.v_star[0])) / np.pi

    def classification_error_se(self) -> Floats:
        """Standard error (..., n) of :meth:`classification_error`: zero where no points are sampled."""
        return self._misclassified[1]

    @cached_property
    def _misclassified(self):
        """Chances of a wrong class at the records, and their errors."""
        if not self.model.n_classes:
            raise ValueError("the inputs of this model have no classes; expected one made by ov.gaussian_mixture.")
        S, v, bound = self.model.field_covariance(self), self.v, bind(self.model, second_order=False)
        both = misclassified(bound, S.reshape(-1, *S.shape[-2:]), v.reshape(-1, v.shape[-1]))
        return [read_only(x.reshape(v.shape[:-1])) for x in both]

    def _repr_html_(self: Any):
        mean = self.eps_g.mean(axis=0) if self.is_ensemble else self.eps_g
        runs = {"runs": f"{len(self)} at N = {self.N}"} if self.is_ensemble else {}
        rows = {"model": self.model} | runs | {"alpha": f"{self.alpha[0]:g} … {self.alpha[-1]:g}"}
        rows |= {"method": self.method, "eps_g": html.curve(self.alpha, mean), "": self.message}
        return html.table(type(self).__name__, rows)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class _Blocks(_Curves):
    """Q and R from the kernel's blocks."""

    q: np.ndarray
    r: np.ndarray
    tau: np.ndarray
    m: np.ndarray | None = None
    h: np.ndarray | None = None
    nu: np.ndarray | None = None

    def _of_inputs(self, s):
        """Covariance of all fields on inputs with other variances s (L,)."""
        learned = self.model.spectrum.s
        s = check.array("s", s, learned.shape, "One variance for each block.")
        if self.model.latent_teacher or np.any(s < 0) or np.any((learned == 0) & (s > 0)):
            raise check.refused("s", s.tolist(), "variances >= 0 of inputs that were learned from.")
        return self._scaled_covariance(np.divide(s, learned, out=np.zeros_like(learned), where=learned > 0))

    def _scaled_covariance(self, u):
        """Covariance of all fields where eigenvalues have factors u (L,) or (n, L)."""
        s = self.model.spectrum.s
        parts = (u * s, self.q), (u, self.r), (u / np.where(s > 0, s, np.inf), np.expand_dims(self.tau, -4))
        return gram(*(np.einsum("...l,...lij->...ij", c, x) for c, x in parts))

    def _factors_at(self: Any, alpha):
        """Factors (n, L) of the schedule on the eigenvalues at times alpha (n,); 1 without."""
        return factors_on_s(self.schedule["s"] if self.changing else None, self.model.spectrum.L, np.asarray(alpha))

    def _task(self: Any, i):
        """Covariance of all fields (..., n, K + M, K + M) and second layer (..., n, K) of task i."""
        ratio, u = self.model.ratios[i], self._factors_at(self.alpha)
        return self.S if np.all(ratio == 1) else self._scaled_covariance(u * ratio), self.model.of(i, self.v)

    def _of_task(self: Any, i):
        return _error(self.model.models[i], *self._task(i))

    @property
    def mean_fields(self) -> Floats:
        """Means of the student fields in each class, sum_l m^l (..., n, K, C); only for inputs in classes."""
        if self.m is None:
            raise AttributeError("mean_fields: the inputs of this model have no classes; see ov.gaussian_mixture.")
        return self.m.sum(axis=-3)

    @property
    def Q(self) -> Floats:
        """Covariance of the student fields, Q = sum_l s_l q^l (..., n, K, K)."""
        if self.changing:
            return np.einsum("...l,...lij->...ij", self._factors_at(self.alpha) * self.model.spectrum.s, self.q)
        return np.einsum("l,...lij->...ij", self.model.spectrum.s, self.q)

    @property
    def R(self) -> Floats:
        """Covariance of student and teacher fields, R = sum_l r^l (..., n, K, M)."""
        if self.changing:
            return np.einsum("...l,...lij->...ij", self._factors_at(self.alpha), self.r)
        return self.r.sum(axis=-3)


def _error(model, S, v):
    """Error (...) on the task of a model, at covariances S (..., K + M, K + M) and second layers v (..., K)."""
    n = S.shape[-2:]
    flat = generalisation_error(model, S.reshape(-1, *n), v.reshape(-1, v.shape[-1]))
    largest = np.max(np.abs(S.reshape(-1, n[0] * n[1])), axis=1)
    # products of such overlaps are no numbers: the error is larger than any
    flat[np.isnan(flat) & (largest > OVERFLOW)] = np.inf
    flat[~np.isfinite(largest)] = np.nan  # what a run did not reach
    return np.maximum(flat, 0.0).reshape(v.shape[:-1])


class Statistics:
    """Statistics over independent runs, the leading axis of all curves."""

    v: np.ndarray
    is_ensemble: ClassVar[bool] = True
    curves: ClassVar[tuple[str, ...]] = ("Q", "R", "v", "eps_g")  # what can be averaged over runs

    def __len__(self) -> int:
        """Number of runs."""
        return len(self.v)

    def mean(self, name: str) -> Floats:
        """Mean over runs of the curve ``name``: "Q", "R", "v", "eps_g", and "q" or "r" where there are blocks."""
        return self._curve(name).mean(axis=0)

    def standard_error(self, name: str) -> Floats:
        """Standard error of :meth:`mean` of the curve ``name``; needs at least two runs."""
        return self.std(name) / np.sqrt(len(self))

    def std(self, name: str) -> Floats:
        """Standard deviation over runs of the curve ``name``, of one run about the mean; needs at least two runs."""
        if len(self) < 2:
            raise ValueError("one run has no standard deviation; simulate with runs >= 2.")
        return self._curve(name).std(axis=0, ddof=1)

    def quantile(self, name: str, q: ArrayLike) -> Floats:
        """Quantiles over runs of the curve ``name`` at levels q, e.g. ``runs.quantile("eps_g", [0.16, 0.84])``."""
        levels = check.array("q", q, (...,), filled=True)
        if np.any((levels < 0) | (levels > 1)):
            raise check.refused("q", q, "levels between 0 and 1.")
        return np.quantile(self._curve(name), levels, axis=0)

    def _curve(self, name):
        return getattr(self, check.choice("name", name, self.curves))

    def __repr__(self: Any):
        state = "success" if self.success else "INCOMPLETE"
        return (
            f"{type(self).__name__}({self.model}, N={self.N}, runs={len(self)}, "
            f"alpha {self.alpha[0]:g}..{self.alpha[-1]:g}, {state}, {self.method})"
        )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Runs(Statistics, _Curves):
    """Base of the records of simulations."""

    N: int
    final_W: np.ndarray | None = None

    def final_weights(self, run: int = 0) -> tuple[Floats, Floats]:
        """Students (K, N) and second layer (K,) of run number ``run`` at its last record.

        In the coordinates of the inputs. Raises a ValueError without ``simulate(..., keep_weights=True)``.
        """
        run = check.index("run", run, len(self))
        if self.final_W is None:
            raise ValueError("these runs did not keep their weights; simulate with keep_weights=True.")
        reached = np.flatnonzero(np.isfinite(self.v[run]).all(axis=-1))
        return self.final_W[run], self.v[run, reached[-1] if reached.size else 0]
