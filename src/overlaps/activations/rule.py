"""Any local rule of learning: a force on the weights, its noise, and where it breaks; its closure by quadrature."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numba import njit
from numba.core.errors import NumbaError

from .._base import check
from .._base.jit import compile_once
from .._base.record import Record
from .._base.types import ArrayLike
from ..gaussian.iterated import MOST, rules, settle
from ..gaussian.rules import legendre
from ..gaussian.tables import tabulate
from . import _rule
from .activation import Activation
from .bound import CLOSURE, Bound

__all__ = ["MAKERS", "Learned", "Rule", "RuleClosure", "again"]

PACKAGE = __name__.partition(".")[0] + "."
PROBES = 64  # random fields at which a force is tried before anything else
BY_CHANCE = 1e-3  # what Sobol points are held to, where a rule asks for more
REACH = 28.0  # of a continuous noise in t = asinh((xi - median) / scale); every other size goes a little further
ASYMMETRY = 1e-6  # of A, relative: above, it has no eigenvectors that structured methods could use
ROUNDING = 1e-12  # of sums over nodes, in units of their terms
FURTHER = 4.0  # a second moment that is infinite grows with the reach
FIRST, PERIOD = (
    60,
    600,
)  # evaluations after which the size of a quadrature is compared with the next, at first and later
LAWFUL = 4  # sizes that are tried beside a continuous noise, which has hundreds of nodes itself
ARGUMENTS = "force(lam (K,), nu (M,), xi, theta (K,), S (K + M, K + M), F (K,), G (K,)), which fills F and G"
NOTHING = np.zeros(0)
NORMED = "perceptron", "hinge", "optimal"  # rules that need a direction of the student


@dataclass(frozen=True, eq=False, repr=False)
class Rule(Record):
    r"""A local rule of learning: every sample moves the weights along the input, by a force that sees the fields.

    .. math:: w_k \mathrel{+}= \eta\, F_k(\lambda, \nu, \xi; \theta, S)\, x/\sqrt N, \qquad
              \theta_k \mathrel{+}= (\eta_\theta/N)\, G_k(\lambda, \nu, \xi; \theta, S)

    with student fields :math:`\lambda`, teacher fields :math:`\nu`, their covariance S, a noise :math:`\xi` that is
    independent of x given :math:`\nu`, and a parameter :math:`\theta_k` of every unit. Any loss is
    :math:`F = -\partial l/\partial\lambda`, :math:`G = -\partial l/\partial\theta`. See the page "Your loss".

    Parameters
    ----------
    force : callable
        ``force(lam, nu, xi, theta, S, F, G)`` fills F (K,) and G (K,), which come as zeros, at unit rate; from
        lam (K,), nu (M,), the number xi, theta (K,) and S (K + M, K + M). Compiled by numba: a plain function, or one
        by ``njit``. Numbers that it uses are frozen when it is compiled; it shall change F and G only.
    K, M : int
        Numbers of student and teacher fields, at most 8 in all.
    error : callable, optional
        ``error(lam, nu, theta) -> float``, whose mean is recorded as eps_g: a 0/1 error, a loss. nan without it.
    noise : optional
        None; "normal", N(0, 1); (values, probabilities); (values, chance), where ``chance(nu, theta, p)`` fills the
        probabilities p; or a frozen continuous distribution of scipy.stats.
    breaks : array_like, optional
        Planes across which the force or the error jumps or kinks: rows (c, t), c . (lam, nu) = t, shape (m, K + M + 1);
        or rows (c, c_xi, t) with a continuous noise, c . (lam, nu) + c_xi xi = t.
    uses_overlaps : bool
        Whether the force reads S: simulations then fill it at every step, which costs them time.
    tolerance : float
        Largest difference of two successive sizes of quadrature, relative, of A, B and eps_g; ten times that for C.
        Rules with breaks and more than three fields, and those of more than four, are known to 1e-3 only.
    name : str, optional
        Name in reprs and files; that of the function by default.
    numbers, closed, recipe, theta
        Of :mod:`overlaps.rules` only: numbers that the force finds behind theta, the closure in closed form, the
        function and arguments that make the rule again, and where theta begins.

    Raises
    ------
    ValueError
        A force that numba cannot compile, that fills nothing or nan at 64 random fields, breaks of a wrong width,
        probabilities that are none, an unknown noise. Later, of models: integrals that do not settle.

    Notes
    -----
    Exact for N -> infinity. P = E[F z^T] determines the flow, because inputs are jointly Gaussian with the fields z
    whatever F is; it is the closure with [A B] = P S^+ and C = E[F F^T]. Between breaks, quadrature converges
    exponentially. Sizes are compared with the next at the start and every fifty steps.

    Examples
    --------
    The perceptron, by hand; :data:`overlaps.rules` has it in closed form.

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
    uses_overlaps: bool = False
    tolerance: float = 1e-8
    name: str | None = None
    numbers: Any = field(default=(), repr=False)  # of a rule of the library, which its force finds behind theta
    closed: Any = field(default=None, repr=False)  # its closure in closed form, a kernel like that of an activation
    recipe: tuple = field(default=(), repr=False)  # the function of ``rules`` that made it, and its arguments
    theta: tuple | None = field(default=None, repr=False)  # where its parameters begin, if not at zero

    def __post_init__(self):
        K, M = check.count("K", self.K), check.count("M", self.M)
        if K + M > MOST:
            raise ValueError(f"K + M = {K + M} fields; expected at most {MOST}. Committees have closures of their own.")
        if not callable(self.force):
            raise ValueError(f"force = {check.shown(self.force)}; expected a function {ARGUMENTS}.")
        if self.error is not None and not callable(self.error):
            raise ValueError(f"error = {check.shown(self.error)}; expected a function error(lam, nu, theta), or None.")
        name = getattr(self.force, "__name__", "force") if self.name is None else self.name
        if not isinstance(name, str):
            raise ValueError(f"name = {check.shown(name)}; expected a string.")
        check.flag("uses_overlaps", self.uses_overlaps)
        self.settle(tolerance=check.number("tolerance", self.tolerance, above=0), name=name, noise=_noise(self.noise))
        self.settle(breaks=_breaks(self.breaks, K + M, self.continuous))
        if self.closed is None:
            self._probe()

    def __repr__(self):
        return self.name

    def __eq__(self, other):
        if isinstance(other, Rule) and self.recipe and self.recipe == other.recipe:
            return (self.name, self.tolerance) == (other.name, other.tolerance)
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self):
        if self.recipe:
            return _made_again, (self.recipe, self.name, self.tolerance)
        return _restored, (self.__getstate__(),)

    def __getstate__(self):
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @property
    def continuous(self):
        """Whether the noise is a continuous variable."""
        return self.noise == "normal" if isinstance(self.noise, str) else hasattr(self.noise, "cdf")

    @cached_property
    def functions(self):
        """(force, error, chance), compiled for their one signature each."""
        chance = self.noise[1] if isinstance(self.noise, tuple) and callable(self.noise[1]) else None
        return (
            _compiled("force", self.force, _rule.FORCE, ARGUMENTS),
            _compiled("error", self.error or _rule.no_error, _rule.ERROR, "error(lam, nu, theta) -> float"),
            _compiled("chance", chance or _rule.no_chance, _rule.CHANCE, "chance(nu, theta, p), which fills p"),
        )

    @cached_property
    def closure(self):
        """The compiled closure: its own, or the quadrature around the force."""
        if self.closed is not None:
            return self.closed
        force, error, chance = self.functions
        average = _rule.pointer(_rule.rule_closure, _rule.SIGNATURE)

        @njit(error_model="numpy", nogil=True)
        def closure(S, w, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
            return average(force, error, chance, S, w, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv)

        if hasattr(closure, "compile"):
            closure.compile(CLOSURE.args)
        return closure

    @cached_property
    def activation(self):
        """What stands in a model where other models have an activation."""
        return Learned(self.name, self._no_function, self._no_function, learning=self)

    def _no_function(self, x):
        raise ValueError(
            f"the model learns by the rule {self.name!r}, which has no activation; expected a committee_machine or "
            "another model with activations here."
        )

    @cached_property
    def sizes(self):
        """(Arrays that the kernel takes behind w, ascending in size; whether they are rules by chance)."""
        n, extra = self.K + self.M, int(isinstance(self.noise, str))
        planes, cuts, law = np.array(self.breaks), np.zeros((0, n + 1)), NOTHING
        values, chances, by_chance = np.zeros(1), np.ones(1), False
        if isinstance(self.noise, tuple):
            values, chances = self.noise[0], self.noise[1]
            if callable(chances):
                chances, by_chance = np.zeros(len(values)), True
        lawful = self.continuous and not extra
        if lawful:
            planes, cuts = _cut_planes(planes)
        found, chancy = rules(n + extra, len(planes) > 0)
        arrays = []
        for i, rule in enumerate(found[: LAWFUL if lawful else None]):
            if lawful:
                law, values, chances = _law(self.noise, REACH + FURTHER * (i % 2), len(cuts) > 0)
            noise = values, chances, by_chance, extra
            arrays.append(_rule.packed(np.array(self.numbers, float), *noise, planes, cuts, law, rule))
        return arrays, chancy

    def draw(self, rng, shape):
        """Noise of this ``shape`` from ``rng``, as steps take it: uniform where its law depends on the teacher."""
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
        """What steps take in the place of functions, after v, now a view into theta with the rule's numbers behind it.

        ``s`` are eigenvalues for the overlaps that the force may read, ``T`` (M, M) those of the teachers.
        """
        K, numbers = self.K, np.array(self.numbers, float)
        theta, S = np.append(v, numbers), np.zeros((K + self.M,) * 2)
        S[K:, K:] = T
        force, _, chance = self.functions
        depends = isinstance(self.noise, tuple) and callable(self.noise[1])
        values = np.array(self.noise[0]) if depends else NOTHING
        pointers = _rule.pointer(force, _rule.FORCE), _rule.pointer(chance, _rule.CHANCE)
        s = np.array(s, float) if self.uses_overlaps else NOTHING
        return theta[:K], ((values, np.zeros(len(values)), *pointers, theta, S, s, np.zeros(K)), 0)

    def _probe(self):
        """Try the functions at random fields."""
        force, error, chance = self.functions
        rng, n = np.random.default_rng(20), self.K + self.M
        S, theta = 0.7 * np.eye(n) + 0.3, np.r_[rng.uniform(0.5, 1.5, self.K), np.array(self.numbers, float)]
        largest, root = 0.0, np.linalg.cholesky(S)
        for _ in range(PROBES):
            z, F, G = root @ rng.standard_normal(n), np.zeros(self.K), np.zeros(self.K)
            lam, nu, xi = z[: self.K], z[self.K :], rng.standard_normal()
            if isinstance(self.noise, tuple):
                values, p = self.noise
                if callable(p):
                    p = np.zeros(len(values))
                    chance(nu, theta, p)
                    _check_probabilities("noise: chance fills", p)
                xi = values[rng.choice(len(values), p=p / p.sum())]
            force(lam, nu, xi, theta, S, F, G)
            found = np.array([*F, *G, error(lam, nu, theta)])
            if not np.all(np.isfinite(found)):
                raise ValueError(
                    f"force gives F = {F}, G = {G} and error {found[-1]:g} at lam = {lam}, nu = {nu}, xi = {xi:.4g}; "
                    "expected finite numbers. F and G are to be filled: F[0] = ..."
                )
            largest = max(largest, np.max(np.abs(found[:-1])))
        if largest == 0:
            raise ValueError(f"force fills neither F nor G at {PROBES} random fields; expected {ARGUMENTS}.")


MAKERS: dict[str, Callable[..., Rule]] = {}  # of rules of the library, by the first word of their recipe


def _restored(state):
    rule = object.__new__(Rule)
    rule.__setstate__(state)
    return rule


def _made_again(recipe, name, tolerance):
    """The same, with a name and a tolerance that may have been changed since."""
    rule = again(*recipe)
    same = (rule.name, rule.tolerance) == (name, tolerance)
    return rule if same else replace(rule, name=name, tolerance=tolerance)


def again(name, *arguments):
    """The rule of a recipe that a file or a pickle keeps."""
    return MAKERS[name](*arguments)


class Learned(Activation):
    """What stands in a model that learns by a rule for the activations of its student and teacher."""

    def __init__(self, name, g, dg, learning=None):
        super().__init__(name, g, dg)
        object.__setattr__(self, "learning", learning)

    def __eq__(self, other):
        return isinstance(other, Learned) and self.learning == other.learning

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self):
        return _learned, (self.learning,)


def _learned(rule):
    return rule.activation


class RuleClosure(Bound):
    """The closure of a rule: in closed form, or by a quadrature whose size is compared with the next."""

    period, asymmetric = 0, False
    gradient_rate = np.inf

    def __init__(self, learning, rule):
        super().__init__(learning.activation, learning.activation, rule)
        self.learning, self._kernel, self._spent, self._size = learning, learning.closure, None, 0
        self.parameters = np.array(learning.numbers, float)
        if learning.closed is None:
            self.period, (self._arrays, self._chancy) = FIRST, learning.sizes
            self.parameters = self._arrays[0]
        if hasattr(self._kernel, "compile"):
            self.compiled = self._kernel

    def __call__(self, S, w, A, B, C, dv):
        """Fill A, B, C, dv; return the mean of the recorded error, nan where none is."""
        if self.period and (self._spent is None or self._spent >= self.period) and np.all(np.isfinite(S)):
            self._certify(S, w)
        if self._spent is not None:
            self._spent += 1
        eps_g = self._at(self.parameters, S, w, A, B, C, dv)
        self.asymmetric = bool(np.max(np.abs(A - A.T)) > ASYMMETRY * np.max(np.abs(A)))
        return eps_g

    def _at(self, parameters, S, w, A, B, C, dv):
        K, eta, eta_v, noise, second_order = self.rule
        w = np.append(w, parameters)
        return self._kernel(np.ascontiguousarray(S), w, K, -1, eta, eta_v, noise, second_order, A, B, C, dv)

    def extended(self, w):
        """As for any closure; compiled code that asks for it makes many evaluations."""
        if self._spent is not None:
            self._spent = self.period
        return super().extended(w)

    def errors(self, S, w):
        """As for any closure; nan where no error is recorded."""
        if self.learning.error is None and self.learning.closed is None:
            return np.full(len(S), np.nan)
        return super().errors(S, w)

    def check(self, S, w):
        """Refuse a state at which the integrals do not settle."""
        if self.period:
            self._certify(S, w)
            return
        name, K = self.learning.recipe[:1], self.rule.K
        if name and name[0] in NORMED and not S[0, 0] > check.ZERO_NORM * S[K, K]:
            raise ValueError(
                f"Q = {S[0, 0]:.3g} with the rule {self.learning.name}, which needs a direction of the student; "
                "expected Q > 0: start from small weights."
            )
        if name == ("optimal",) and not S[0, K] > 0:
            raise ValueError(
                f"R = {S[0, K]:.3g} with the rule optimal(), which knows the overlaps; expected R > 0: start from a "
                "student that has an overlap with the teacher."
            )

    def obstacle(self, S, least=None):
        """Why there is no structured Jacobian."""
        return "A is not symmetric: the rule is no gradient" if self.asymmetric else ""

    def derivatives(self, S, w, *, exact):
        """As for any closure."""
        return self._exact_derivatives(S, w) if exact else self._rough_derivatives(S, w)

    def _values(self, parameters, S, w):
        """(A, B, g and eps_g, C) at unit rate."""
        K, n = self.rule.K, len(S)
        A, B, C, dv = np.zeros((K, K)), np.zeros((K, n - K)), np.zeros((K, K)), np.zeros(K)
        w = np.append(w, parameters)
        eps_g = self._kernel(np.ascontiguousarray(S), w, K, -1, 1.0, 1.0, 0.0, True, A, B, C, dv)
        return np.concatenate([A.ravel(), B.ravel(), dv, [eps_g]]), C

    def _certify(self, S, w):
        """Take the least size that agrees with the next; refuse where there is none."""
        first, self._spent, tolerance = self._spent is None, 0, self.learning.tolerance
        self.period = FIRST if first else min(2 * self.period, PERIOD)
        if self._chancy:
            found = [self._values(x, S, w) for x in self._arrays[1:]]
            tolerance, size = max(tolerance, BY_CHANCE), 0
            goals = tolerance, 10 * tolerance
            gaps = [np.max(np.std(x, axis=0)) / np.max(np.abs(x)) for x in zip(*found, strict=True)]
            if not all(gap <= goal for gap, goal in zip(gaps, goals, strict=True)):
                size = None
        else:
            goals = tolerance, 10 * tolerance if self.rule.second_order else np.inf
            # averages that vanish are known to the rounding of their terms
            size = np.sqrt(np.max(np.abs(self._values(self._arrays[0], S, w)[1])) / np.max(np.diag(S)))
            size, gaps = settle(
                lambda i: self._values(self._arrays[i], S, w), len(self._arrays), self._size, goals, ROUNDING * size
            )
        if size is not None:
            following = size if self._chancy else size + 1  # the better of the two that agree
            self._size, self.parameters, self.message = size, self._arrays[following], ""
            return
        self.message = self._refusal(gaps, goals)
        if first:
            raise ValueError(self.message)
        self.parameters = np.array([np.nan])

    def _refusal(self, gaps, goals):
        rule = self.learning
        if gaps[0] <= goals[0] and rule.continuous:
            return (
                f"the second moment of the force {rule.name!r} does not settle: its sizes differ by {gaps[1]:.1g}. "
                "The noise has heavy tails; expected a bounded force: clip=."
            )
        return (
            f"the integrals of the rule {rule.name!r} do not settle: sizes differ by {max(gaps):.1g}, expected "
            f"{goals[0]:.0e}; declare breaks=[...], the planes on which the force or the error jumps or kinks, or "
            "raise tolerance=."
        )


def _compiled(role, function, signature, expected):
    """A function for its one signature, as compiled code calls it."""
    if getattr(function, "__module__", "").startswith(PACKAGE) and hasattr(function, "compile"):
        compile_once(function, signature)  # of the library, kept on disk
        return function
    kernel = njit(error_model="numpy", nogil=True)(getattr(function, "py_func", function))
    if not hasattr(kernel, "compile"):
        return kernel
    try:
        kernel.compile(signature)
    except (NumbaError, TypeError, ValueError, NotImplementedError, AttributeError) as error:
        line = next((x.strip() for x in str(error).splitlines() if x.strip()), type(error).__name__)
        raise ValueError(f"numba cannot compile {role} = {function!r}: {line} Expected {expected}.") from None
    kernel.disable_compile()
    return kernel


def _noise(noise):
    """The noise, checked."""
    if noise is None or (isinstance(noise, str) and noise == "normal"):
        return noise
    if isinstance(noise, tuple | list) and len(noise) == 2:
        values = check.array("noise: values", noise[0], ("m",))
        if callable(noise[1]):
            return values, noise[1]
        chances = check.array("noise: probabilities", noise[1], (len(values),))
        _check_probabilities("noise: probabilities", chances)
        return values, chances
    if all(hasattr(noise, x) for x in ("pdf", "cdf", "ppf", "rvs", "support")):
        return noise
    raise ValueError(
        f"noise = {check.shown(noise)}; expected None, 'normal', (values, probabilities), (values, chance), or a "
        "frozen continuous distribution such as scipy.stats.cauchy(scale=0.5)."
    )


def _check_probabilities(what, p):
    if not (np.all(p >= 0) and abs(np.sum(p) - 1) < 1e-9):
        raise ValueError(f"{what} {p}; expected probabilities >= 0 that sum to 1.")


def _breaks(breaks, n, continuous):
    """Planes (m, n + 1), or (m, n + 2) where the noise is continuous."""
    width = n + 1 + continuous
    if breaks is None or np.size(breaks) == 0:
        return np.zeros((0, width))
    expected = f"rows (c, t) of length {n + 1}" + (f", or (c, c_xi, t) of length {n + 2}" if continuous else "")
    planes = np.asarray(breaks)
    if planes.ndim != 2 or planes.shape[1] not in {n + 1, width}:
        raise ValueError(f"breaks has shape {planes.shape}; expected {expected}: planes c . (lam, nu) = t.")
    planes = check.array("breaks", breaks, planes.shape)
    if planes.shape[1] < width:
        planes = np.insert(planes, n, 0.0, axis=1)
    if len(planes) > 8:
        raise ValueError(f"breaks has {len(planes)} rows; expected at most 8 planes.")
    for i, row in enumerate(planes):
        if not np.any(row[:-1]):
            raise ValueError(f"breaks[{i}] = {row} has no coefficients; expected {expected}.")
    return planes


def _cut_planes(planes):
    """(Planes of the fields, cuts xi = c . z + t of the noise): where two cuts meet, the average over xi breaks."""
    fields, of_xi = planes[planes[:, -2] == 0], planes[planes[:, -2] != 0]
    cuts = np.column_stack([-of_xi[:, :-2] / of_xi[:, -2:-1], of_xi[:, -1] / of_xi[:, -2]])
    met = [np.r_[a[:-1] - b[:-1], b[-1] - a[-1]] for a, b in combinations(cuts, 2) if np.any(a[:-1] != b[:-1])]
    return np.array([*np.delete(fields, -2, axis=1), *met]).reshape(-1, planes.shape[1] - 1), cuts


def _law(law, reach, cut):
    """(Array of a noise for ``noise_nodes``, fixed values, probabilities): a table where the force cuts it."""
    median, scale = float(law.median()), float(law.ppf(0.75) - law.ppf(0.25)) / 2
    low, high = (float(np.clip(np.arcsinh((x - median) / scale), -reach, reach)) for x in law.support())

    def density(t):
        return law.pdf(median + scale * np.sinh(t)) * scale * np.cosh(t)

    if cut:
        table = tabulate((lambda t: np.where(np.abs(t) <= 40, density(np.clip(t, -40, 40)), 0.0),), "the noise").data
        return np.concatenate([[median, scale, low, high], table]), np.zeros(1), np.ones(1)
    parts = int(np.ceil((high - low) / _rule.PANEL))
    x, p = legendre(16)
    t = low + (high - low) * (np.arange(parts)[:, None] + x).ravel() / parts
    return NOTHING, median + scale * np.sinh(t), np.tile(p, parts) * (high - low) / parts * density(t)
