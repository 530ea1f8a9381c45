"""Any local rule of learning: a force on the weights, its noise, and where it breaks."""

from collections.abc import Callable
from dataclasses import KW_ONLY, field, replace
from functools import cached_property
from pickle import PicklingError
from typing import Any

import numpy as np

from .._base import ArrayLike, Immutable, check
from .._base.jit import compile_once
from ..activations.activation import Activation
from ..gaussian.iterated import MAX_VARIABLES as MAX_FIELDS
from ..gaussian.tables import NO_TABLE
from . import _rule
from ._token_rules import closure_of_groups, closure_of_one, force_on_all_tokens
from .adaptive_closure import arrays_of
from .validation import ROLES, check_others, checked_breaks, checked_noise, checked_tokens, compiled, probe

TOLERANCES = (1e-8, 1e-3)  # defaults of ``Rule.tolerance`` for up to four fields, and for more
MAKERS: dict[str, Callable[..., "Rule"]] = {}  # functions that make the rules of the library, by name


class Rule(Immutable):
    r"""A local rule of learning: every sample moves the weights along the input, by a force that depends on the fields.

    .. math:: w_k \mathrel{+}= \eta\, F_k(\lambda, \nu, \xi; \theta, S)\, x/\sqrt N, \qquad
              \theta_k \mathrel{+}= (\eta_\theta/N)\, G_k(\lambda, \nu, \xi; \theta, S)

    with student fields :math:`\lambda`, teacher fields :math:`\nu`, their covariance S, a noise :math:`\xi` that is
    independent of x given :math:`\nu`, and a parameter :math:`\theta_k` of every unit. Any loss is
    :math:`F = -\partial l/\partial\lambda`, :math:`G = -\partial l/\partial\theta`. See the page "Your loss".

    Parameters
    ----------
    force : callable
        ``force(lam, nu, xi, theta, S, F, G)`` fills F (K,) and G (K,), which come as zeros, at unit rate; from
        lam (K,), nu (M,), the number xi, theta (K,) and S (K + M, K + M). A plain function or one by ``njit``, which
        numba compiles; global numbers are constants of the compiled code. It may change F and G only.
    K, M : int
        Numbers of student and teacher fields, at most 8 in all.
    error : callable, optional
        ``error(lam, nu, theta) -> float``, whose mean is recorded as eps_g: a 0/1 error, a loss. Without it, eps_g is
        nan.
    noise : optional
        None; "normal", N(0, 1); (values, probabilities); (values, chance), where ``chance(nu, theta, p)`` fills the
        probabilities p; or a frozen continuous distribution of scipy.stats.
    breaks : array_like, optional
        Planes across which the force or the error jumps or kinks: rows (c, t), c . (lam, nu) = t, shape (m, K + M + 1);
        or rows (c, c_xi, t) with a continuous noise, c . (lam, nu) + c_xi xi = t.
    uses_overlaps : bool, optional
        Whether the force reads S: simulations then fill S at every step, which costs time. By default this is
        determined from the code of the force and from calls with two different S. False is refused if such calls
        differ.
    tolerance : float, optional
        Largest relative difference of A, B and eps_g between two successive sizes of quadrature; ten times that for C.
        1e-8 by default, and 1e-3 for five to eight fields, where 1e-6 costs half a million points and more. For rules
        with breaks and more than three fields, which are averaged over Sobol points, the tolerance is at least 1e-3.
    name : str, optional
        Name in reprs and files; the function's by default.
    tokens : int
        T inputs x^a in every sample (page "Several inputs in a sample"). With T > 1 the functions take lam (T, K) and
        nu (T, M), F is (T, K), w_k moves by the sum of F^a_k x^a, and breaks have T (K + M) coefficients: those of lam
        row by row, then those of nu. At most eight fields, T (K + M). Time counts samples.
    token_covariance : array_like, shape (T, T) or (L, T, T), optional
        Cov(x^a, x^b) = c_ab Sigma with c_aa = 1, or a c for each eigenvalue of the spectrum; independent by default.
    others : callable, optional
        ``others(lam, nu, theta) -> float`` of one token, for T independent tokens that interact only through its sum.
        The force and the error then take one token, with lam (K,), nu (M,), and xi is the sum over the other T - 1
        tokens, so that integrals are those of one token, for any T. Its values are 0 or 1, or the force is linear in
        xi.
    numbers, closed, recipe, theta
        For :mod:`overlaps.rules` only: numbers that the force reads behind theta, the closure in closed form, the
        function and arguments that make the rule again, and the initial theta.

    Raises
    ------
    ValueError
        A force that numba cannot compile, that fills nothing or nan at 64 random fields, has an index beyond its
        arrays, changes anything but F and G, draws random numbers, or reads S despite ``uses_overlaps=False``; breaks
        of a wrong width, improper probabilities, an unknown noise, a matrix that is no covariance of tokens. Models
        raise it later for integrals that do not converge.

    Notes
    -----
    Exact for N -> infinity. P = E[F z^T] determines the flow, because inputs are jointly Gaussian with the fields z
    for any F; it is the closure with [A B] = P S^+ and C = E[F F^T]. With tokens, P = sum_a E[F^a z^aT] and
    C = sum_ab c_ab E[F^a F^bT]. Between breaks, quadrature converges exponentially. Its size is compared with the next
    one at the start and about every fifty steps.

    Examples
    --------
    The perceptron as a force; :mod:`overlaps.rules` contains its closed form.

    >>> import numpy as np, overlaps as ov
    >>> def force(lam, nu, xi, theta, S, F, G):
    ...     if lam[0] * nu[0] < 0:
    ...         F[0] = np.sign(nu[0])
    >>> def error(lam, nu, theta):
    ...     return 1.0 if lam[0] * nu[0] < 0 else 0.0
    >>> rule = ov.Rule(force, K=1, M=1, error=error, breaks=[[1, 0, 0], [0, 1, 0]], name="perceptron by hand")
    >>> model = ov.learner(rule, eta=1.0)
    >>> print(round(ov.closure(model, Q=[[0.8]], R=[[0.5]], T=[[1.2]]).eps_g, 10))
    0.3295305273
    """

    force: Callable[..., Any]
    _: KW_ONLY
    K: int
    M: int
    error: Callable[..., Any] | None = None
    noise: Any = None
    breaks: ArrayLike | None = None
    uses_overlaps: bool | None = None
    tolerance: float | None = None
    name: str | None = None
    tokens: int = 1
    token_covariance: ArrayLike | None = None
    others: Callable[..., Any] | None = None
    numbers: Any = field(default=(), repr=False)  # read by the force of a rule of the library behind theta
    closed: Any = field(default=None, repr=False)  # closure in closed form, with the arguments of all closures
    recipe: tuple = field(default=(), repr=False)  # name of the function of ``rules`` that made it, and its arguments
    theta: tuple | None = field(default=None, repr=False)  # initial theta; zero if None

    def __post_init__(self):
        K, M = check.count("K", self.K), check.count("M", self.M)
        if K + M > MAX_FIELDS:
            raise ValueError(
                f"K + M = {K + M} fields; expected at most {MAX_FIELDS}. Committees have closures of their own."
            )
        if not callable(self.force):
            raise check.refused("force", self.force, f"a function {ROLES['force'].form}.")
        if self.error is not None and not callable(self.error):
            raise check.refused("error", self.error, "a function error(lam, nu, theta), or None.")
        name = getattr(self.force, "__name__", "force") if self.name is None else self.name
        if not isinstance(name, str):
            raise check.refused("name", name, "a string.")
        if self.uses_overlaps is not None:
            check.flag("uses_overlaps", self.uses_overlaps)
        self._set(name=name, noise=checked_noise(self.noise))
        by_token = self.others is not None
        T, c = checked_tokens(self.tokens, self.token_covariance, K + M, by_token or self.closed is not None)
        independent = T > 1 and self.noise is None and np.array_equal(c, np.eye(T))
        if by_token and not (independent and callable(self.others)):
            raise ValueError(
                f"others = {check.shown(self.others)} with tokens = {T}; expected a function others(lam, nu, theta) of "
                "one of several independent tokens, without noise."
            )
        self._set(tokens=T, token_covariance=c)
        fields = (1 if by_token else T) * (K + M)  # in one integral
        self._set(breaks=checked_breaks(self.breaks, fields, self.continuous))
        default = TOLERANCES[fields + isinstance(self.noise, str) > 4]
        self._set(tolerance=default if self.tolerance is None else check.number("tolerance", self.tolerance, above=0))
        reads = probe(self) if self.closed is None else False
        self._set(uses_overlaps=reads if self.uses_overlaps is None else self.uses_overlaps)

    def __repr__(self):
        return self.name

    def __eq__(self, other):
        if isinstance(other, Rule) and self.recipe and self.recipe == other.recipe:
            return (self.name, self.tolerance) == (other.name, other.tolerance)
        return super().__eq__(other)

    __hash__ = None

    def __reduce_ex__(self, protocol):
        if self.recipe:
            return _restored, (self.recipe, self.name, self.tolerance)
        for function in (self.force, self.error, self.others, *(self.noise if isinstance(self.noise, tuple) else ())):
            if "<" in getattr(function, "__qualname__", "") and not hasattr(function, "py_func"):
                raise PicklingError(
                    f"{function.__qualname__} of the rule {self.name!r} has no name in a module; expected a function "
                    "at the top level of one, or one by numba.njit, to go elsewhere."
                )
        return super().__reduce_ex__(protocol)

    def __deepcopy__(self, memo):
        return self

    def __getstate__(self):
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @property
    def continuous(self):
        """Whether the noise is a continuous variable."""
        return self.noise == "normal" if isinstance(self.noise, str) else hasattr(self.noise, "cdf")

    @property
    def by_chance(self):
        """Whether the probabilities of the noise depend on the teacher or on theta."""
        return isinstance(self.noise, tuple) and callable(self.noise[1])

    @property
    def records_error(self):
        """Whether eps_g is recorded: the mean of ``error``, or the value that a closure in closed form returns."""
        return self.error is not None or self.closed is not None

    @cached_property
    def functions(self):
        """(force, error, chance), each compiled for its signature."""
        chance = self.noise[1] if self.by_chance else None
        tokens = (self.tokens, self.K, self.M) if self.tokens > 1 and self.others is None else ()
        force = compiled("force", self.force, _rule.SIGNATURES.force, tokens)
        if self.others is not None:
            force = force_on_all_tokens(self.token_functions, self.tokens, self.K, self.M)
            compile_once(force, _rule.SIGNATURES.force)
        error = compiled("error", self.error or _rule.no_error, _rule.SIGNATURES.error, tokens)
        return force, error, compiled("chance", chance or _rule.no_chance, _rule.SIGNATURES.chance, tokens)

    @cached_property
    def token_functions(self):
        """(Force, others) of one token, compiled, for tokens that interact through a sum."""
        others = compiled("others", self.others, _rule.SIGNATURES.error)
        return compiled("force", self.force, _rule.SIGNATURES.force), others

    @cached_property
    def others_moments(self):
        """(Whether ``others`` is 0 or 1, largest force of one token at random fields)."""
        return check_others(self)

    @cached_property
    def pointers(self):
        """``functions`` as pointers, for kernels that are compiled once for all rules."""
        return [_rule.pointer(*x) for x in zip(self.functions, _rule.SIGNATURES, strict=True)]

    @cached_property
    def closure(self):
        """The compiled closure: in closed form, or by quadrature of the force."""
        if self.closed is not None:
            return self.closed
        force, error, chance = self.functions
        if self.by_block:
            return closure_of_groups(force, error, chance, self.token_groups[0])
        if self.others is not None:
            return closure_of_one(self.token_functions, error, self.tokens, self.others_moments[0])
        average = _rule.pointer(_rule.rule_closure, _rule.AVERAGE_SIGNATURE)

        @_rule.kernel
        def closure(S, w, parameters, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
            return average(force, error, chance, S, w, parameters, K, eta, eta_v, noise, second_order, A, B, C, dv)

        return closure

    @cached_property
    def activation(self):
        """The placeholder for the activations of other models."""
        return Learned(self.name, self._no_function, self._no_function, learning=self)

    def _no_function(self, x):
        raise ValueError(
            f"the model learns by the rule {self.name!r}, which has no activation; expected a committee_machine or "
            "another model with activations here."
        )

    @cached_property
    def sizes(self):
        """(Parameters of the kernel, ascending in size; whether their nodes are Sobol points)."""
        return arrays_of(self)

    @property
    def by_block(self):
        """Whether the covariance of tokens differs between eigenspaces."""
        return np.asarray(self.token_covariance).ndim == 3

    @cached_property
    def token_groups(self):
        """Distinct covariances (groups, T, T) of tokens, and the index (L,) of that of each eigenspace."""
        distinct, index = np.unique(np.asarray(self.token_covariance), axis=0, return_inverse=True)
        return distinct, np.ravel(index)

    @cached_property
    def token_root(self):
        """The lower triangular root (T, T) or (L, T, T) of the tokens' covariance, which may be singular."""
        if self.by_block:
            return np.array([root_of_tokens(c) for c in np.array(self.token_covariance)])
        return root_of_tokens(self.token_covariance)

    def draw(self, rng, shape):
        """Draw noise of this ``shape`` by ``rng``: uniform numbers if the law of the noise depends on the teacher."""
        if self.noise is None:
            return np.zeros(shape)
        if isinstance(self.noise, str):
            return rng.standard_normal(shape)
        if not isinstance(self.noise, tuple):
            return np.asarray(self.noise.rvs(size=shape, random_state=rng), dtype=float)
        values, chances = self.noise
        uniform = rng.random(shape)
        return uniform if callable(chances) else values[np.searchsorted(np.cumsum(chances)[:-1], uniform, side="right")]

    def simulated(self, v, s, T):
        """(v, (arguments of the steps of a simulation, 0)); v becomes a view into theta and the numbers of the rule.

        ``s`` are eigenvalues for the overlaps that the force may read, ``T`` (M, M) are the overlaps of the teachers.
        """
        K, numbers = self.K, np.array(self.numbers, float)
        theta, S = np.append(v, numbers), np.zeros((K + self.M,) * 2)
        S[K:, K:] = T
        force, _, chance = self.pointers
        values = np.array(self.noise[0]) if self.by_chance else NO_TABLE
        s = np.array(s, float) if self.uses_overlaps else NO_TABLE
        return theta[:K], (
            _rule.TypedArguments((values, np.zeros(len(values)), force, chance, theta, S, s, np.zeros(K))),
            0,
        )


def root_of_tokens(c):
    """The lower triangular root (T, T) of a covariance."""
    values, vectors = np.linalg.eigh(np.array(c, float))
    root = np.transpose(np.array(np.linalg.qr((vectors * np.sqrt(np.maximum(values, 0.0))).T, mode="r")))
    return np.ascontiguousarray(root * np.where(np.diag(root) < 0, -1.0, 1.0))


def _restored(recipe, name, tolerance):
    """The rule of a recipe, with a name and a tolerance that may differ from the defaults."""
    rule = again(*recipe)
    same = (rule.name, rule.tolerance) == (name, tolerance)
    return rule if same else replace(rule, name=name, tolerance=tolerance)


def again(name, *arguments):
    """The rule of a recipe from a file or a pickle."""
    return MAKERS[name](*arguments)


class Learned(Activation):
    """Placeholder for the activations of student and teacher in a model that learns by a rule."""

    def __init__(self, name, g, dg, learning=None):
        super().__init__(name, g, dg)
        object.__setattr__(self, "learning", learning)

    def __eq__(self, other):
        return isinstance(other, Learned) and self.learning == other.learning

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self):
        return getattr, (self.learning, "activation")
