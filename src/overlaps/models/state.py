"""The order parameters at one time: block overlaps, teacher constants, second layer."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import field, replace
from typing import Any, ClassVar, Protocol, TypeVar, cast, overload

import numpy as np

from .._base import ArrayLike, Floats, Immutable, by_name, check, html
from .._base.signatures import Variants

__all__ = ["State"]

_MEANING = "Overlaps of real vectors always are; check signs and scales of Q, R, T."


class Network(Protocol):
    """The attributes of a :class:`~overlaps.models.model.Model` that a state uses."""

    @property
    def K(self) -> int: ...
    @property
    def M(self) -> int: ...
    @property
    def spectrum(self) -> Any: ...
    @property
    def v(self) -> Any: ...
    @property
    def n_classes(self) -> int: ...
    @property
    def latent_teacher(self) -> bool: ...


class OfModel:
    """Base of states and results, which carry the model that they belong to."""

    model: Any
    schedule: Any = None
    is_state: ClassVar[bool] = False
    is_ensemble: ClassVar[bool] = False


R = TypeVar("R", covariant=True)


class TakesState(Protocol[R]):
    """A function of (model, state, ...), or of a state that carries its model; as editors can follow it."""

    @overload
    def __call__(self, model: Any, state: Any, /, *args: Any, **named: Any) -> R: ...
    @overload
    def __call__(self, state: OfModel, /, *args: Any, **named: Any) -> R: ...


def of_state(function: Callable[..., R]) -> TakesState[R]:
    """Decorator of a function of (model, state, ...): without a model, that of the state is used."""
    name, second = function.__name__, [*inspect.signature(function).parameters][1]

    @functools.wraps(function)
    def call(*args, **named):
        first = args[0] if args else None if "model" in named else named.get(second)
        if not isinstance(first, OfModel):
            return function(*args, **named)
        if len(args) > 1 and isinstance(args[1], Immutable):
            raise check.refused("model", first, f"a Model first, or the state alone: {name}({second}, ...).")
        if first.model is None:
            raise ValueError(
                f"{name}() of a state without a model, from a file, another process or State(...), or of other "
                f"sizes; expected {name}(model, {second}, ...), or state.on(model)."
            )
        return function(first.model, *args, **named)

    return cast(TakesState[R], call)


class State(OfModel, Variants, Immutable):
    r"""Order parameters, in the arrays of the right-hand side.

    With the projector :math:`P_l` on eigenspace l of the inputs and a teacher that acts on x,

    .. math:: q^l = W P_l W^T/N, \quad r^l = s_l\, W P_l W_*^T/N, \quad \tau^l = s_l^2\, W_* P_l W_*^T/N,
       \qquad Q = \sum_l s_l q^l, \quad R = \sum_l r^l, \quad T = E[\nu \nu^T].

    Most users call :meth:`from_overlaps`, :meth:`from_blocks` or :meth:`from_weights` (or ``model.random_start``). Any
    consistent overlaps are those of some weights, for N -> infinity or at one N.

    Parameters
    ----------
    q : array_like, shape (L, K, K)
        Student block overlaps.
    r : array_like, shape (L, K, M)
        Student-teacher block overlaps, times s_l.
    tau : array_like, shape (L, M, M)
        Teacher source, constant in time.
    T : array_like, shape (M, M)
        Covariance of the teacher fields, constant in time.
    v : array_like, shape (K,)
        Second layer of the student; (n, K) if each of n :class:`Mixed` tasks has its own.
    s : array_like, shape (L,), optional
        Eigenvalues of the blocks, >= 0. By default ``solve`` and ``simulate`` take them from the model.
    alpha : float
        The time of the state, steps / N, at which ``solve`` and ``simulate`` begin. Records of solutions and runs have
        their own; change it with ``state.replace(alpha=0.0)``. It is ignored by ``==``.
    m : array_like, shape (L, K, C), optional
        With inputs in classes (:func:`overlaps.gaussian_mixture`): :math:`m^l_{kc} = w_k P_l \mu_c/\sqrt N`, whose sum
        over l is the mean of field k in class c. Without classes m, h, nu are None.
    h : array_like, shape (L, M, C), optional
        Overlaps of teachers and class means, times s_l, constant in time.
    nu : array_like, shape (M, C), optional
        Means of the teacher fields, constant in time.
    factors : array_like, shape (L,), optional
        Factors on the eigenvalues at the time of a record, if there is a schedule on "s": Q, R, T are those of the
        inputs at this time. q, r, tau remain in units of s. A run from such a state begins with the variances of its
        model.
    model : Model, optional
        The model that the state belongs to, with which functions of a state are called: ``ov.hessian(state)``. States
        made from a model and records of results have it; ``state.on(model)`` sets it. It is ignored by ``==``, and
        neither in files nor in pickles, which would contain the basis of the inputs and functions of the user.

    Raises
    ------
    ValueError
        Shapes that do not fit, no blocks, nan, negative eigenvalues, matrices that are not symmetric or (once a model
        is known) not positive semi-definite.

    References
    ----------
    Saad and Solla (1995), Phys. Rev. E 52, 4225, for Q, R, T; Yoshida and Okada (2019) and Goldt et al. (2020),
    arXiv:1909.11500, for their contributions of the eigenspaces.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> model = ov.committee_machine(1, 1, eta=0.5)
    >>> start = ov.State.from_overlaps(model, Q=[[0.5]], R=[[0.1]], T=[[1.0]])
    >>> start.S
    array([[0.5, 0.1], [0.1, 1. ]])
    """

    q: Any  # array_like in, read-only float arrays once checked
    r: Any
    tau: Any
    T: Any
    v: Any
    s: Any = None
    alpha: float = field(default=0.0, compare=False)
    m: Any = None
    h: Any = None
    nu: Any = None
    factors: Any = None
    model: Any = field(default=None, compare=False, kw_only=True)

    _hides: ClassVar[tuple[str, ...]] = "sees_inputs", "under"
    is_state: ClassVar[bool] = True

    def __post_init__(self):
        self._set(alpha=check.number("alpha", self.alpha, least=0))
        r = check.array("r", self.r, ("L", "K", "M"))
        L, K, M = r.shape
        if self.m is not None:
            self._check_classes(L, K, M)
        shapes = {"q": (L, K, K), "r": (L, K, M), "tau": (L, M, M), "T": (M, M), "v": (K,)}
        if check.axes("v", self.v) == 2:
            shapes["v"] = ("n", K)  # one second layer for each task
        shapes |= {name: (L,) for name in ("s", "factors") if getattr(self, name) is not None}
        for name, shape in shapes.items():
            self._set(**{name: check.array(name, getattr(self, name), shape, f"r has shape {r.shape}.")})
        for name in ("q", "tau", "T"):
            check.symmetric(name, getattr(self, name))
        if 0 in r.shape[:2] or (M == 0 and self.m is None):
            raise ValueError(f"r has shape {r.shape}; expected (L, K, M) with at least one block, student and teacher.")
        for name in ("s", "factors"):
            if (numbers := getattr(self, name)) is not None and numbers.min() < 0:
                raise check.refused(name, numbers.tolist(), f"{'eigenvalues' if name == 's' else 'numbers'} >= 0.")
        is_model = isinstance(self.model, Variants) and not isinstance(self.model, State)
        if self.model is not None and not is_model:
            raise check.refused("model", self.model, f"a Model such as {check.EXAMPLES['Model']}.")
        if self.model is not None and (L, K, M) != (self.model.spectrum.L, self.model.K, self.model.M):
            self._set(model=None)  # a copy with fewer teachers, for example

    def __getstate__(self):
        return self.__dict__ | {"model": None}

    def __copy__(self):
        return replace(self)

    def __deepcopy__(self, memo):
        return replace(self)

    def _check_classes(self, L, K, M):
        m = check.array("m", self.m, (L, K, "C"))
        C = m.shape[2]
        h = np.zeros((L, M, C)) if self.h is None and M == 0 else self.h
        nu = np.zeros((M, C)) if self.nu is None and M == 0 else self.nu
        if C == 0 or h is None or nu is None:
            raise ValueError(f"m has shape {m.shape}, h and nu {check.shown((h, nu))}; expected all three of a class.")
        self._set(m=m, h=check.array("h", h, (L, M, C)), nu=check.array("nu", nu, (M, C)))

    # sizes and order parameters -------------------------------------------------------------------------------------

    @property
    def L(self) -> int:
        """Number of blocks."""
        return self.r.shape[0]

    @property
    def K(self) -> int:
        """Number of student units."""
        return self.r.shape[1]

    @property
    def M(self) -> int:
        """Number of teacher units."""
        return self.r.shape[2]

    @property
    def Q(self) -> Floats:
        """Covariance of the student fields, sum_l s_l q^l (K, K)."""
        s = self._eigenvalues if self.factors is None else self.factors * self._eigenvalues
        return s[0] * self.q[0] if len(s) == 1 else np.tensordot(s, self.q, axes=1)

    @property
    def R(self) -> Floats:
        """Covariance of student and teacher fields, sum_l r^l (K, M)."""
        return self.r.sum(axis=0) if self.factors is None else np.tensordot(self.factors, self.r, axes=1)

    @property
    def S(self) -> Floats:
        """Covariance of all fields (lambda, nu), shape (K + M, K + M)."""
        return gram(self.Q, self.R, self.T)

    @property
    def _eigenvalues(self):
        if self.s is None:
            raise ValueError("this State has no eigenvalues; pass s= or bind it with state.on(model).")
        return self.s

    @property
    def plain(self) -> tuple[Floats, Floats, Floats]:
        """Plain block overlaps (q, r, t) = W P_l W^T/N, W P_l W*^T/N, W* P_l W*^T/N; r and t are zero if s_l = 0."""
        s = self._eigenvalues
        inverse = reciprocal(s)[:, None, None]
        return self.q, self.r * inverse, self.tau * inverse**2

    @property
    def sees_inputs(self) -> bool:
        """Whether the teacher acts on x, T = sum_l tau^l / s_l up to rounding, and not on latents."""
        with_variance, T = self.s > 0, self.under(self.factors).T
        return not np.any(self.tau[~with_variance]) and np.max(np.abs(T - self.T)) <= 1e-10 * np.max(np.abs(self.T))

    def under(self, factors: ArrayLike | None) -> "State":
        """The same for inputs with eigenvalues multiplied by ``factors`` (L,), None for 1; teachers must act on x."""
        u = np.ones(self.L) if factors is None else np.asarray(factors)
        return replace(self, factors=factors, T=np.tensordot(u * reciprocal(self._eigenvalues), self.tau, axes=1))

    # checks ---------------------------------------------------------------------------------------------------------

    def on(self, model: Network) -> "State":
        """Return this state of ``model``, with its eigenvalues, after checking that it fits the model.

        Raises
        ------
        ValueError
            Sizes differ from the model's, or overlaps are not positive semi-definite.
        """
        if (self.L, self.K, self.M) != (check.model(model).spectrum.L, model.K, model.M):
            raise ValueError(
                f"the state has (L, K, M) = {(self.L, self.K, self.M)}; the model expects "
                f"{(model.spectrum.L, model.K, model.M)}. Build it with one of the State.from_... constructors."
            )
        bound = self.s is not None and np.array_equal(self.s, model.spectrum.s)
        state = self if bound else replace(self, s=model.spectrum.s, model=None)
        state = state if self.factors is None else state.under(None)
        if (model.n_classes == 0) != (self.m is None):
            given, wanted = ("none", "m, h, nu") if self.m is None else ("m, h, nu", "none")
            raise ValueError(f"the state has overlaps with class means: {given}; this model expects {wanted}.")
        if self.m is None:
            check.positive_semidefinite("[[q, r], [r^T, tau]]", gram(state.q, state.r, state.tau), _MEANING)
        else:
            if self.m.shape[2] != model.n_classes:
                raise ValueError(f"m has shape {self.m.shape}; expected (L, K, C) with C = {model.n_classes} classes.")
            joint = gram(gram(state.q, state.r, state.tau), np.concatenate([state.m, state.h], axis=1), model.gram)  # type: ignore[attr-defined]  # with classes
            check.positive_semidefinite("[[q, r, m], [., tau, h], [., ., G]]", joint, _MEANING)
        check.positive_semidefinite("[[Q, R], [R^T, T]]", state.S, _MEANING)
        if model.latent_teacher:
            _check_latent_teacher(state)
        return state._with_model(model)

    def _with_model(self, model):
        """Return this state with another model that it fits; nothing is checked."""
        if self.model is model:
            return self
        state = object.__new__(State)
        state.__dict__.update(self.__dict__, model=model)
        return state

    # constructors ---------------------------------------------------------------------------------------------------

    @classmethod
    @by_name("ov.State.from_overlaps(model, Q=Q, R=R, T=T)")
    def from_overlaps(
        cls,
        model: Network,
        *,
        Q: ArrayLike,
        R: ArrayLike | None = None,
        T: ArrayLike | None = None,
        v: ArrayLike | None = None,
        alpha: float = 0.0,
        m: ArrayLike | None = None,
        n: ArrayLike | None = None,
    ) -> "State":
        """State of a model with one block (isotropic inputs) from Q (K, K), R (K, M), T (M, M).

        Parameters
        ----------
        model : Model
            Its K, M and eigenvalue are used, and its ``v`` by default.
        Q, R, T : array_like
            Covariances of the local fields. Omit R and T without a teacher, M = 0.
        v : array_like, shape (K,), optional
            Second layer; the model's by default.
        alpha : float
            The time of the state.
        m, n : array_like, shape (K, C), (M, C), optional
            Means of the student and teacher fields in each class (:func:`overlaps.gaussian_mixture`).

        Returns
        -------
        State

        Raises
        ------
        ValueError
            Several blocks, or inputs of variance zero; wrong shapes; overlaps that no real vectors have.

        Examples
        --------
        >>> import numpy as np, overlaps as ov
        >>> model = ov.committee_machine(2, 2, eta=0.5)
        >>> ov.State.from_overlaps(model, Q=np.eye(2), R=np.zeros((2, 2)), T=np.eye(2))
        State(L=1, K=2, M=2, Q=[[1, 0], [0, 1]], R=[[0, 0], [0, 0]], T=[[1, 0], [0, 1]])
        """
        _check_teacher(model)
        if model.spectrum.L != 1:
            raise ValueError(
                f"Q, R, T do not determine the state of a spectrum with L = {model.spectrum.L} blocks; "
                "use State.from_blocks, State.from_weights or model.random_start."
            )
        K, M, s = model.K, model.M, model.spectrum.s[0]
        R, T = _teacher(model, R=(R, (K, M)), T=(T, (M, M)))
        Q = check.array("Q", Q, (K, K))
        check.symmetric("Q", Q)
        check.symmetric("T", T)
        if s == 0:
            raise ValueError(
                "the inputs of this model have variance s = 0, so all fields vanish and Q, R, T do not determine the "
                "overlaps; expected s > 0. Use State.from_blocks or State.from_weights."
            )
        given, C = (("m", m, K), ("n", n, M)), model.n_classes or "C"
        means = _means(model, *(x if x is None else check.array(name, x, (k, C))[None] for name, x, k in given))
        v = _second_layer(model, v)
        return cls(q=Q[None] / s, r=R[None], tau=s * T[None], T=T, v=v, alpha=alpha, **means).on(model)

    @classmethod
    @by_name("ov.State.from_blocks(model, q=q, r=r, t=t)")
    def from_blocks(
        cls,
        model: Network,
        *,
        q: ArrayLike,
        r: ArrayLike | None = None,
        t: ArrayLike | None = None,
        v: ArrayLike | None = None,
        alpha: float = 0.0,
        m: ArrayLike | None = None,
        n: ArrayLike | None = None,
    ) -> "State":
        """State from the plain block overlaps, q (L, K, K), r (L, K, M), t (L, M, M).

        These are W P_l W^T / N, W P_l W*^T / N and W* P_l W*^T / N, without eigenvalues.

        Parameters
        ----------
        model : Model
            Its K, M and spectrum are used, and its ``v`` by default.
        q, r, t : array_like, shape (L, K, K), (L, K, M), (L, M, M)
            Plain block overlaps. Omit r and t without a teacher, M = 0.
        v : array_like, shape (K,), optional
            Second layer at the start; the model's by default.
        alpha : float
            The time of the state.
        m, n : array_like, shape (L, K, C), (L, M, C), optional
            W P_l mu_c / sqrt(N) and W* P_l mu_c / sqrt(N), for inputs in classes.

        Returns
        -------
        State

        Raises
        ------
        ValueError
            Wrong shapes, overlaps that no real vectors have, or a teacher that acts on latents.

        Examples
        --------
        >>> import numpy as np, overlaps as ov
        >>> model = ov.committee_machine(1, 1, eta=0.5, spectrum=ov.power_law(beta=1.0, L=2))
        >>> half = np.full((2, 1, 1), 0.5)
        >>> ov.State.from_blocks(model, q=half, r=0 * half, t=half).Q
        array([[1.]])
        """
        _check_teacher(model)
        L, K, M = model.spectrum.L, model.K, model.M
        q, s = check.array("q", q, (L, K, K)), model.spectrum.s[:, None, None]
        r, t = _teacher(model, r=(r, (L, K, M)), t=(t, (L, M, M)))
        T, means = np.sum(s * t, axis=0), _means(model, m, n)
        return cls(q=q, r=s * r, tau=s**2 * t, T=T, v=_second_layer(model, v), alpha=alpha, **means).on(model)

    @classmethod
    @by_name("ov.State.from_weights(model, W=W, W_star=W_star)")
    def from_weights(
        cls,
        model: Network,
        *,
        W: ArrayLike,
        W_star: ArrayLike | None = None,
        v: ArrayLike | None = None,
        alpha: float = 0.0,
    ) -> "State":
        """State of explicit weights, W (K, N) and W_star (M, N).

        Weights are in the coordinates of the inputs. Block l consists of n_l = p_l N consecutive coordinates, in the
        order of ``model.spectrum.s``, or of the eigenvectors in the spectrum, if it has a basis.

        Parameters
        ----------
        model : Model
            Its K, M and spectrum are used, and its ``v`` by default.
        W, W_star : array_like, shape (K, N), (M, N)
            Rows are the weights of students and teachers; fields are W x / sqrt(N). Omit W_star without a teacher.
            For inputs in classes the model must have ``means``.
        v : array_like, shape (K,), optional
            Second layer at the start; the model's by default.
        alpha : float
            The time of the state.

        Returns
        -------
        State

        Raises
        ------
        ValueError
            Shapes differ, or N does not split into whole blocks (the message names an N that does).

        Examples
        --------
        >>> import numpy as np, overlaps as ov
        >>> model = ov.committee_machine(1, 1, eta=0.5)
        >>> ov.State.from_weights(model, W=np.ones((1, 10)), W_star=-np.ones((1, 10))).R
        array([[-1.]])
        """
        _check_teacher(model)
        W = check.array("W", W, (model.K, "N"))
        W_star = check.array("W_star", np.zeros((0, W.shape[1])) if model.M == 0 else W_star, (model.M, "N"))
        if W.shape[1] != W_star.shape[1]:
            raise ValueError(f"W has {W.shape[1]} columns and W_star {W_star.shape[1]}; expected the same N.")
        sizes, basis, M, static = model.spectrum.block_sizes(W.shape[1]), model.spectrum.basis, model.M, W_star
        if model.n_classes:
            static = np.concatenate([W_star, np.sqrt(W.shape[1]) * model.means_at(W.shape[1])])  # type: ignore[attr-defined]  # with classes
        if basis is not None:
            W, static = W @ basis, static @ basis
        q, r, t = block_overlaps(W, static, sizes)
        means = {"m": r[..., M:], "n": t[..., :M, M:]} if model.n_classes else {}
        return cls.from_blocks(model, q=q, r=r[..., :M], t=t[..., :M, :M], v=v, alpha=alpha, **means)

    def __repr__(self):
        size = f"L={self.L}, K={self.K}, M={self.M}" + (f", alpha={self.alpha:g}" if self.alpha else "")
        if self.s is None or max(self.K, self.M) > 2:
            return f"State({size})"
        return f"State({size}, " + ", ".join(f"{x}={html.numbers(getattr(self, x))}" for x in "QRT") + ")"

    def _repr_html_(self):
        rows = {"alpha": f"{self.alpha:g}", "L, K, M": f"{self.L}, {self.K}, {self.M}"}
        if self.s is not None:
            rows |= {name: html.matrix(getattr(self, name)) for name in "QRT"}
        return html.table("State", rows | {"v": html.matrix(self.v)})


def _check_latent_teacher(state):
    """Check that T - sum_l tau^l / s_l is PSD: the covariance of the component of nu that is not linear in x."""
    with_variance = state.s > 0
    nonlinear = state.T - np.sum(state.tau[with_variance] / state.s[with_variance, None, None], axis=0)
    lowest = np.linalg.eigvalsh(nonlinear)[0]
    if lowest < -check.LIMITS.psd_tol * np.trace(state.T):
        raise ValueError(
            f"T - sum_l tau^l / s_l is not positive semi-definite: its lowest eigenvalue is {lowest:.3g}. The linear "
            "component of the teacher cannot exceed the teacher; check the scales of tau and T."
        )


def _check_teacher(model):
    """Raise ``ValueError`` for teachers of latents: these constructors take overlaps of teachers that act on x."""
    if check.model(model).latent_teacher:
        raise ValueError(
            "the teacher acts on the latents, so overlaps with x-space teachers do not determine the state; use "
            "model.limit_start, model.random_start, model.realisation (of a hidden manifold), model.start (of given "
            "covariances), or State(q=, r=, tau=, T=, v=)."
        )


def _teacher(model, **given):
    """Checked overlaps with teachers, given as (array, shape) by name; None is allowed without a teacher."""
    if model.M and (missing := [f"{name}, of shape {shape}" for name, (x, shape) in given.items() if x is None]):
        raise TypeError(f"missing {' and '.join(missing)}: the model has a teacher, M = {model.M}")
    return tuple(
        check.array(name, np.zeros(shape) if value is None and model.M == 0 else value, shape)
        for name, (value, shape) in given.items()
    )


def _means(model, m, n):
    """The arrays m, h, nu of a state from plain overlaps with the centroids."""
    if not model.n_classes:
        if m is not None or n is not None:
            raise ValueError("m and n belong to inputs in classes; expected a model made by ov.gaussian_mixture.")
        return {}
    L, K, M, C = model.spectrum.L, model.K, model.M, model.n_classes
    m = check.array("m", m, (L, K, C), "Overlaps of students and class means.")
    n = check.array("n", np.zeros((L, 0, C)) if n is None and M == 0 else n, (L, M, C))
    return {"m": m, "h": model.spectrum.s[:, None, None] * n, "nu": n.sum(axis=0)}


def _second_layer(model, v):
    return model.v if v is None else check.array("v", v, (model.K,))


def reciprocal(s):
    """1/s, and 0 if s = 0, because overlaps of inputs without variance do not change."""
    return np.divide(1.0, s, out=np.zeros_like(s), where=s > 0)


def gram(q, r, t):
    """Joint overlaps [[q, r], [r^T, t]] of students and teachers, shape (..., K + M, K + M)."""
    K, n = q.shape[-1], q.shape[-1] + t.shape[-1]
    joint = np.empty((*q.shape[:-2], n, n), dtype=np.result_type(q, r, t))
    joint[..., :K, :K], joint[..., :K, K:], joint[..., K:, K:] = q, r, t
    joint[..., K:, :K] = np.swapaxes(r, -1, -2)
    return joint


def block_overlaps(W, W_star, sizes):
    """Plain block overlaps (q, r, t) of weights, where block l consists of ``sizes[l]`` consecutive coordinates."""
    K, N = W.shape
    weights = np.concatenate([W, W_star])
    if np.ptp(sizes) == 0:  # one product for all blocks, because they may be many and small
        blocks = np.swapaxes(weights.reshape(len(weights), len(sizes), -1), 0, 1)
        joint = blocks @ np.swapaxes(blocks, 1, 2) / N
    else:
        joint = np.array([X @ X.T / N for X in np.split(weights, np.cumsum(sizes)[:-1], axis=1)])
    return joint[:, :K, :K], joint[:, :K, K:], joint[:, K:, K:]
