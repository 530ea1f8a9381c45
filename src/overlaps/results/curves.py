"""Base classes of solutions and simulated runs: quantities that follow from Q, R, T, v along the learning time."""

from dataclasses import fields, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from .._base import ArrayLike, Floats, Immutable, check, html, read_only
from .._base.signatures import Listed
from ..activations.classification import misclassified
from ..flow.binding import bind
from ..flow.closure import generalisation_error
from ..models import Mixed, Model
from ..models.schedule import Schedule, factors_on_s
from ..models.start import LIMITS
from ..models.state import OfModel, gram
from . import files, labelled, plotting


class Views(OfModel, Listed, Immutable):
    """Base of results along the learning time: files, labelled arrays, tables and figures."""

    save = files.save
    to_xarray = labelled.from_curves
    to_pandas = labelled.frame
    plot = plotting.plot
    animate = plotting.animate

    def __len__(self: Any) -> int:
        return self.alpha.size

    @property
    def status(self: Any) -> int:
        """How it ended, as in SciPy: 0 at the last time, 1 where the condition ``stop`` was met, -1 before."""
        return int(self.stopped) if self.success else -1

    def slope(self: Any, window: tuple[float, float] | None = None) -> Any:
        r"""Local exponent of the error, :math:`d\ln\epsilon_g/d\ln\alpha`: -b where eps_g falls as alpha^-b.

        Parameters
        ----------
        window : tuple of two floats, optional
            Times (from, to). With it, the slope of the line through the records of the window that is nearest to
            ln eps_g as a function of ln alpha, in least squares; the records count equally, so use times that are
            geometric (``np.geomspace``) for a slope that is not that of the end of the window.

        Returns
        -------
        ndarray, shape (..., n), or (...) with a window
            Without a window the slope at each record, of the parabola through its neighbours (of second order in their
            distance); nan where alpha or eps_g is 0, and beside. For runs one for each run.

        Raises
        ------
        ValueError
            A window of less than two records with alpha > 0, or a curve of less than three.

        Examples
        --------
        >>> import numpy as np, overlaps as ov
        >>> model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.1, spectrum=ov.power_law(beta=1.0, L=400))
        >>> traj = ov.solve(model.random_start(N=4000, rng=1, teacher="ideal"), np.geomspace(1.0, 1e4, 41))
        >>> round(traj.slope((1.0, 10.0)), 1)
        -0.5
        """
        x, y = (np.log(np.where(z > 0, z, np.nan)) for z in (self.alpha, self.eps_g))
        if window is None:
            if len(x) < 3:
                raise ValueError(f"slope() of {len(x)} records; expected three or more.")
            return np.gradient(y, x, axis=-1)
        first, last = (check.number("window", a, above=0) for a in check.array("window", window, (2,)).tolist())
        inside = (self.alpha >= first) & (self.alpha <= last)
        if np.sum(inside) < 2:
            covered = f"[{self.alpha[0]:g}, {self.alpha[-1]:g}]"
            raise check.refused("window", window, f"(from, to) with two or more of the records in {covered}.")
        x = x[inside] - x[inside].mean()
        slopes = y[..., inside] @ x / (x @ x)
        return slopes if np.ndim(slopes) else float(slopes)

    def _covered(self: Any, alpha: float) -> float:
        """Return the time alpha, checked to lie between the first and the last record."""
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

    Monotone cubics interpolate the logarithm of the four records around that time.
    """
    if not np.any(curve < level):
        return np.nan
    from scipy.interpolate import PchipInterpolator  # imported here, because the import is slow and rarely needed

    i = max(int(np.argmax(curve < level)), 1)
    # a monotone cubic depends on two records on each side only
    around = slice(max(i - 2, 0), i + 2)
    height = np.log(np.maximum(curve[around], np.finfo(float).tiny))
    roots = PchipInterpolator(alpha[around], height).solve(np.log(level), extrapolate=False)
    return float(np.min(roots[roots >= alpha[i - 1]], initial=alpha[i] if curve[0] >= level else alpha[0]))


class _Curves(Views, kw_only=True):
    """Base of solutions and of runs: model, end, and the quantities that follow from Q, R, T, v."""

    model: Model
    alpha: np.ndarray
    v: np.ndarray
    T: np.ndarray
    success: bool
    message: str
    method: str
    schedule: Schedule | dict | None = None
    step: float | None = None
    stopped: bool = False
    _hides: ClassVar[tuple[str, ...]] = (
        "changing", "classification_error_se", "curves", "eps_error", "rounding", "solver", "stopped",
    )  # fmt: skip

    def __post_init__(self):
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        self._set(**{name: read_only(value) for name, value in values.items() if isinstance(value, np.ndarray)})

    @property
    def eta(self) -> Floats:
        """Learning rate (n,) at the records: that of the model, times the factor of the schedule."""
        f = self.schedule.get("eta") if isinstance(self.schedule, dict) else self.schedule
        return np.full(self.alpha.shape, self.model.eta) if f is None else self.model.eta * f(self.alpha)

    @property
    def S(self: Any) -> Floats:
        """Covariance of all fields (..., n, K + M, K + M)."""
        return gram(self.Q, self.R, self.T if self.changing else np.expand_dims(self.T, -3))

    @property
    def changing(self) -> bool:
        """Whether a schedule changes the variances of the inputs; T then has an axis of records, (..., n, M, M)."""
        return isinstance(self.schedule, dict) and "s" in self.schedule

    @cached_property
    def eps_g(self: Any) -> Floats:
        """Generalisation error E[(yhat - y)^2] / 2 without the noise, (..., n), computed from the overlaps.

        The closed form is a difference of numbers of order one. Where it is negative, its true value is below the
        rounding error of the overlaps (about 1e-16), and 0 is returned.
        """
        if isinstance(self.model, Mixed):
            return read_only(sum(fraction * self._of_task(i) for i, fraction in enumerate(self.model.at(self.alpha))))
        return read_only(_error(self.model, self.model.field_covariance(self), self.v))

    def against(self, v_star: ArrayLike) -> Floats:
        """Error (..., n) on the labels of the same teachers with other second layers ``v_star`` (M,)."""
        v_star = check.array("v_star", v_star, (self.model.M,), "One number for each teacher.")
        return _error(replace(self.model, v_star=v_star), self.model.field_covariance(self), self.v)

    def classification_error(self, s: ArrayLike | None = None) -> Floats:
        r"""Probability (..., n) that the output has the wrong sign, compared with the label or with one teacher.

        .. math:: \sum_c \pi_c \big[ P_c(y_c\, \hat y < 0) + P_c(\hat y = 0) / 2 \big], \qquad
                  P(y\, \hat y < 0) = \frac1\pi\, \mathrm{atan2}\big(\sqrt{QT - R^2},\, v v^* R\big)

        The second formula is for inputs without classes: K = M = 1, and units with the sign of their field (erf, tanh,
        linear, sign). It is exact. ``s`` (L,) are the variances of test inputs, by default those of training.

        The first is a closed form for linear units and for a single unit, and an integral over one field for two erf or
        relu units. Otherwise 2^16 antithetic Sobol points are used, with the standard error
        ``classification_error_se()``. A tie counts one half: the output of a relu network is zero where all its fields
        are negative.

        Raises
        ------
        ValueError
            For inputs in classes: a teacher, or a label that is zero. For inputs without classes: several units, or
            units without the sign of their field (:func:`overlaps.field_average` accepts any function); ``s`` of
            another length, or > 0 for an eigenvalue that is zero in training.
        """
        if self.model.n_classes and s is not None:
            raise ValueError(f"s = {check.shown(s)} for inputs in classes, which have their own variances; omit s.")
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
        """Standard error (..., n) of :meth:`classification_error`; zero if no points are sampled."""
        return self._misclassified[1]

    @cached_property
    def _misclassified(self):
        """Probabilities of a wrong class at the records, and their standard errors."""
        if not self.model.n_classes:
            raise ValueError("the inputs of this model have no classes; expected one made by ov.gaussian_mixture.")
        S, v, bound = self.model.field_covariance(self), self.v, bind(self.model, second_order=False)
        both = misclassified(bound, S.reshape(-1, *S.shape[-2:]), v.reshape(-1, v.shape[-1]))
        return [read_only(x.reshape(v.shape[:-1])) for x in both]

    def _repr_html_(self: Any):
        mean = self.eps_g.mean(axis=0) if self.is_ensemble else self.eps_g
        runs = {"runs": f"{len(self)} at N = {self.N}"} if self.is_ensemble else {}
        entries = {"model": self.model} | runs | {"alpha": f"{self.alpha[0]:g} … {self.alpha[-1]:g}"}
        entries |= {"method": self.method, "eps_g": html.curve(self.alpha, mean), "": self.message}
        return html.table(type(self).__name__, entries)


class _Blocks(_Curves, kw_only=True):
    """Base of results with overlaps of every block, from which Q and R are computed."""

    q: np.ndarray
    r: np.ndarray
    tau: np.ndarray
    m: np.ndarray | None = None
    h: np.ndarray | None = None
    nu: np.ndarray | None = None

    def _of_inputs(self, s):
        """Return the covariance of all fields on inputs with other variances s (L,)."""
        trained = self.model.spectrum.s
        s = check.array("s", s, trained.shape, "One variance for each block.")
        if self.model.latent_teacher or np.any(s < 0) or np.any((trained == 0) & (s > 0)):
            raise check.refused("s", s.tolist(), "variances >= 0, and 0 where that of training is 0.")
        return self._scaled_covariance(np.divide(s, trained, out=np.zeros_like(trained), where=trained > 0))

    def _scaled_covariance(self, u):
        """Return the covariance of all fields for eigenvalues multiplied by u (L,) or (n, L)."""
        s = self.model.spectrum.s
        terms = (u * s, self.q), (u, self.r), (u / np.where(s > 0, s, np.inf), np.expand_dims(self.tau, -4))
        return gram(*(np.einsum("...l,...lij->...ij", c, x) for c, x in terms))

    def _factors_at(self: Any, alpha):
        """Return the factors (n, L) of the schedule on the eigenvalues at times alpha (n,); 1 without a schedule."""
        return factors_on_s(self.schedule["s"] if self.changing else None, self.model.spectrum.L, np.asarray(alpha))

    def _task(self: Any, i):
        """Return the covariance of all fields (..., n, K + M, K + M) and the second layer (..., n, K) of task i."""
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
    def biases(self: Any) -> Floats:
        """Biases of the students (..., n, K); only for a model made by :func:`overlaps.biased`."""
        if self.m is None or not np.any(self.model.constant_inputs):
            raise AttributeError("biases: the units of this model have none; see ov.biased.")
        return self.m[..., 0][..., self.model.constant_inputs, :].sum(axis=-2)

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
    """Return the error (...) on the task of a model for covariances S (..., K + M, K + M), second layers v (..., K)."""
    n = S.shape[-2:]
    errors = generalisation_error(model, S.reshape(-1, *n), v.reshape(-1, v.shape[-1]))
    largest = np.max(np.abs(S.reshape(-1, n[0] * n[1])), axis=1)
    # products of such overlaps overflow, so the error is infinite
    errors[np.isnan(errors) & (largest > LIMITS.max_overlap)] = np.inf
    errors[~np.isfinite(largest)] = np.nan  # records after the end of a run
    return np.maximum(errors, 0.0).reshape(v.shape[:-1])


class Statistics:
    """Statistics over independent runs, the leading axis of all curves."""

    v: np.ndarray
    is_ensemble: ClassVar[bool] = True
    curves: ClassVar[tuple[str, ...]] = ("Q", "R", "v", "eps_g")  # names that the statistics accept

    def __len__(self) -> int:
        """Number of runs."""
        return len(self.v)

    def mean(self, name: str) -> Floats:
        """Mean over runs of the curve ``name``: "Q", "R", "v" or "eps_g"; with blocks also "q" or "r"."""
        return self._curve(name).mean(axis=0)

    def standard_error(self, name: str) -> Floats:
        """Standard error of :meth:`mean` of the curve ``name``; needs at least two runs."""
        return self.std(name) / np.sqrt(len(self))

    def std(self, name: str) -> Floats:
        """Standard deviation of the curve ``name`` of one run about the mean over runs; needs at least two runs."""
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


class Runs(Statistics, _Curves, kw_only=True):
    """Base of the results of simulations."""

    N: int
    final_W: np.ndarray | None = None
    test_error: np.ndarray | None = None
    test_error_se: np.ndarray | None = None
    curves: ClassVar[tuple[str, ...]] = (*Statistics.curves, "test_error")

    def _curve(self, name):
        if name == "test_error" and self.test_error is None:
            raise ValueError("these runs were not tested on other samples; simulate with test=4096, or rows_test=.")
        return super()._curve(name)

    def final_weights(self, run: int = 0) -> tuple[Floats, Floats]:
        """Students (K, N) and second layer (K,) of run number ``run`` at its last record.

        Weights are in the coordinates of the inputs. Raises a ValueError without ``simulate(..., keep_weights=True)``.
        """
        run = check.index("run", run, len(self))
        if self.final_W is None:
            raise ValueError("the weights of these runs were not stored; simulate with keep_weights=True.")
        reached = np.flatnonzero(np.isfinite(self.v[run]).all(axis=(*range(1, self.v.ndim - 1),)))
        return self.final_W[run], self.v[run, reached[-1] if reached.size else 0]
