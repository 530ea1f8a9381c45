"""Schedules: factors on the numbers of a model, as functions of the learning time."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from .._base import ArrayLike, Floats, Immutable, Numbers, check
from . import _schedule

# Numbers of a model that a schedule may multiply, in the order of the channels of compiled code; "s" is allowed, too.
NAMES = "eta", "eta_v", "noise", "weight_decay", "batch_size"
# Times at which factors are checked before a run, besides knots and ends. Halved, narrower invalid values are missed.
N_CHECKED_TIMES = 200


class Schedule(Immutable):
    r"""A factor on a number of the model, as a function of the learning time alpha.

    .. math:: \eta(\alpha) = u(\alpha)\, \eta

    The model contains plain numbers, so that one schedule can be used in a sweep over eta and for both layers, as in
    deep learning. Products of schedules are schedules. ``ov.solve(model, start, alpha, schedule=f)`` scales eta and
    eta_v. A dict scales the numbers that are its keys: "eta", "eta_v", "noise", "weight_decay" (kappa and kappa_v),
    "batch_size", and "s", the variances of the inputs: one factor for all, or a tuple with one for each eigenvalue,
    None for 1.

    Parameters
    ----------
    knots : array_like, shape (n,)
        Increasing times. Integrators end a step at each of them.
    values : array_like, shape (n,)
        Factors >= 0 there.
    kind : {"linear", "constant", "cosine"}
        Straight lines between the values, ``values[i]`` on [knots[i], knots[i + 1]), or half a period of a cosine from
        each value to the next; constant before the first knot and after the last.
    factors, function : tuple of Schedule, callable
        Arguments of products and of :meth:`from_function`.

    Raises
    ------
    ValueError
        Knots that do not increase, values that are negative, not finite or of another number, an unknown kind.

    Notes
    -----
    N -> infinity at fixed alpha = steps / N: schedules vary on the scale of N steps. With tau = int u dalpha as time
    the flow depends on eta / batch_size only: a rate 1 / (1 + alpha) at one sample per step is equivalent to a constant
    rate with batches of exp(tau) samples, tau = ln(1 + alpha). The numbers of samples differ.

    Examples
    --------
    >>> import overlaps as ov
    >>> f = ov.Schedule.warmup(5.0) * ov.Schedule.step([50.0], [0.1])
    >>> f(2.5), f(49.0), f(50.0), f.knots
    (0.5, 1.0, 0.1, array([ 0.,  5., 50.]))
    """

    knots: Any
    values: Any
    kind: str = "linear"
    factors: tuple[Any, ...] = ()
    function: Any = None

    def __post_init__(self):
        check.kind("factors", self.factors, tuple | list, "of a product, which a * b makes")
        knots = check.array("knots", self.knots, ("n",))
        values = check.array("values", self.values, ("n",))
        by_knot = "constant", "linear", "cosine"  # kinds with one value at each knot
        if not isinstance(self.kind, str) or not self._is_complete(knots, values):
            check.choice("kind", self.kind, by_knot, "Schedule.power, .polynomial, .from_function and * make others.")
        if np.any(np.diff(knots) <= 0):
            raise check.refused("knots", knots.tolist(), "increasing times.")
        if self.kind in by_knot:
            if values.size != knots.size or not knots.size:
                raise ValueError(f"values has {values.size} entries; expected one for each of the {knots.size} knots.")
            if values.min() < 0:
                raise check.refused("values", values.tolist(), "factors >= 0.")
        self._set(knots=knots, values=values, factors=tuple(self.factors))

    def _is_complete(self, knots, values):
        """Whether these are arguments as of the class methods; compiled code reads them without checks."""
        if self.kind == "product":
            return len(self.factors) > 1 and all(isinstance(f, Schedule) for f in self.factors)
        if self.kind == "function":
            return callable(self.function)
        sizes = {"power": (1, 2), "polynomial": (2, 3)}  # numbers of knots and values
        least = [-np.inf, np.nextafter(0, 1)] if self.kind == "power" else [0, 0, 0]
        return (knots.size, values.size) == sizes.get(self.kind) and bool(np.all(values >= least))

    @classmethod
    def constant(cls, value: float = 1.0) -> "Schedule":
        """The same factor at all times."""
        return cls([0.0], [check.number("value", value, least=0)], "constant")

    @classmethod
    def step(cls, times: ArrayLike, values: ArrayLike) -> "Schedule":
        """Factor 1 before ``times[0]`` and ``values[i]`` from ``times[i]`` on."""
        times, values = check.array("times", times, ("n",)), check.array("values", values, ("n",))
        if times.size == 0:
            raise ValueError("times is empty; expected at least one time at which the factor changes.")
        before = times[0] > 0
        return cls(np.r_[0.0, times], np.r_[1.0, values], "constant") if before else cls(times, values, "constant")

    @classmethod
    def cosine(cls, end: float, *, begin: float = 0.0, last: float = 0.0) -> "Schedule":
        """Factor 1 until ``begin``, then half a period of a cosine down to ``last`` at ``end``."""
        return cls(_span(begin, end), [1.0, check.number("last", last, least=0)], "cosine")

    @classmethod
    def power(cls, exponent: float, *, scale: float, begin: float = 0.0) -> "Schedule":
        """Factor (1 + max(alpha - begin, 0) / scale)^(-exponent)."""
        numbers = check.number("exponent", exponent), check.number("scale", scale, above=0)
        return cls([check.number("begin", begin)], numbers, "power")

    @classmethod
    def polynomial(cls, end: float, exponent: float = 1.0, *, begin: float = 0.0, last: float = 0.0) -> "Schedule":
        """Factor 1 until ``begin``, then last + (1 - last) ((end - alpha)/(end - begin))^exponent down to ``last``."""
        numbers = check.number("exponent", exponent, least=0), 1.0, check.number("last", last, least=0)
        return cls(_span(begin, end), numbers, "polynomial")

    @classmethod
    def warmup(cls, length: float, *, first: float = 0.0) -> "Schedule":
        """Factor that rises linearly from ``first`` to 1 at ``length`` and stays there."""
        return cls([0.0, check.number("length", length, above=0)], [check.number("first", first, least=0), 1.0])

    @classmethod
    def from_function(cls, f: Callable[[float], float], *, knots: ArrayLike = ()) -> "Schedule":
        """Factor f(alpha), a function of one float that returns one >= 0; ``knots`` are times where it is not smooth.

        Files do not contain functions: pass them to ``load(path, schedule=)``. Integrations run in Python throughout.
        """
        if not callable(f):
            raise check.refused("f", f, "a function of alpha that returns a factor >= 0.")
        return cls(np.atleast_1d(check.floats("knots", knots)), [], "function", function=f)

    def __mul__(self, other):
        if not isinstance(other, Schedule):
            return NotImplemented
        factors = tuple(x for f in (self, other) for x in (f.factors or (f,)))
        return Schedule(np.union1d(self.knots, other.knots), [], "product", factors=factors)

    @property
    def pieces(self) -> "list[Schedule] | tuple[Schedule, ...]":
        """The schedules of which this one is the product."""
        return self.factors or (self,)

    @cached_property
    def _program(self):
        return _Program([(0, self)])

    @property
    def jumps(self) -> Floats:
        """Knots at which the factor may jump (n,)."""
        knots = []
        for piece in self.pieces:
            if piece.kind == "constant":
                knots.append(piece.knots[1:][np.diff(piece.values) != 0])
            elif piece.kind == "function":
                knots.append(piece.knots)
        return np.unique(np.concatenate([*knots, []]))

    def __call__(self, alpha: ArrayLike) -> Numbers:
        """Factor at alpha: a float for a number, an array for an array."""
        times = check.floats("alpha", alpha, "times")
        factors = self._program.table(np.array(times.ravel()))[0].reshape(times.shape)
        return factors if times.ndim else float(factors)

    def __repr__(self):
        if self.kind == "product":
            return " * ".join(map(repr, self.factors))
        inside = f"knots={check.shown(self.knots.tolist())}, values={check.shown(self.values.tolist())}, {self.kind}"
        return f"Schedule({inside if self.kind != 'function' else check.shown(self.function)})"


def _span(begin, end):
    """The two knots of a descent."""
    begin, end = check.number("begin", begin), check.number("end", end)
    if not begin < end:
        raise ValueError(f"begin = {begin:g}, end = {end:g}; expected begin < end.")
    return [begin, end]


class _Program:
    """Factors of all numbers at a time: arrays of pieces for compiled code, and a list of Python functions."""

    def __init__(self, named):
        pieces = [(channel, piece) for channel, schedule in named for piece in schedule.pieces]
        self.functions = [(channel, piece.function) for channel, piece in pieces if piece.kind == "function"]
        pieces = [(channel, piece) for channel, piece in pieces if piece.kind != "function"]
        data, codes = [np.concatenate([piece.knots, piece.values]) for _, piece in pieces], _schedule.CODES._asdict()
        self.arrays = (
            np.asarray([channel for channel, _ in pieces], dtype=np.int64),
            np.asarray([codes[piece.kind] for _, piece in pieces], dtype=np.int64),
            np.cumsum([0, *map(len, data)], dtype=np.int64),
            np.concatenate([*data, []]),
        )

    def __call__(self, t):
        out = np.empty(len(NAMES))
        _schedule.factors(t, *self.arrays, out)
        for channel, f in self.functions:
            out[channel] *= f(float(t))
        return out

    def table(self, times):
        """Factors (5, n) at times (n,)."""
        out = np.empty((len(NAMES), times.size))
        _schedule.table(times, *self.arrays, out)
        for channel, f in self.functions:
            out[channel] *= [f(t) for t in times.tolist()]
        return out

    def steps(self, first, n, N, stride=1):
        """Factors (5, n) of the steps ``first``, ``first`` + stride, ... at size N."""
        return self.table((first + stride * np.arange(n)) / N)


class ScheduleEvaluator:
    """The schedules of one run: factors (eta, eta_v, noise, weight_decay, batch_size) at each time.

    Parameters
    ----------
    model : Model
        The model whose numbers are multiplied.
    schedule : Schedule or dict of them
        As in :func:`overlaps.solve`; None if only the shares of mixed tasks change.

    Raises
    ------
    ValueError
        Neither a Schedule nor a dict of them; unknown names; a factor on a number that is zero.
    """

    variances: Any = None  # function from times (n,) to factors (n, L) on the eigenvalues

    def __init__(self, model, schedule):
        self.model, shares = model, getattr(model, "schedules", ())
        if schedule is None:
            named = {}
        elif isinstance(schedule, Schedule):
            named = {"eta": schedule} | ({"eta_v": schedule} if model.trains_v else {})
        else:
            named = _numbers_named(model, schedule)
        of_variances = _on_variances(model, named.pop("s")) if "s" in named else ()
        if of_variances:
            self.variances = lambda times: factors_on_s(of_variances, len(of_variances), times)
        self.named, self.noisy = named, "noise" in named
        self.program = _Program([(NAMES.index(name), f) for name, f in named.items()])
        everything = [*named.values(), *shares, *(f for f in of_variances if f is not None)]
        self.knots = np.unique(np.concatenate([f.knots for f in everything] + [[]]))
        self.jumps = np.unique(np.concatenate([f.jumps for f in everything] + [[]]))
        self.batch_jumps = named["batch_size"].jumps if "batch_size" in named else np.empty(0)
        self.factors, self.steps = self.program, self.program.steps

    def inside(self, begin, end):
        """Knots in (begin, end)."""
        return self.knots[(self.knots > begin) & (self.knots < end)]

    def probe(self, begin, end):
        """Largest factors (5,) on [begin, end]; ``ValueError`` if one is negative or not finite."""
        times = np.unique(np.r_[np.linspace(begin, end, N_CHECKED_TIMES), self.inside(begin, end)])
        factors = self.program.table(times)
        if self.variances is not None:
            u = self.variances(times)
            if not np.all(np.isfinite(u) & (u >= 0)):
                raise ValueError(f"schedule: the least factor of s is {np.min(u):g}; expected finite numbers >= 0.")
        if hasattr(self.model, "schedules"):
            self.model.probe(begin, end)
        for name, row in zip(NAMES, factors, strict=True):
            bad = np.flatnonzero(~(np.isfinite(row) & (row >= 0) & ((row > 0) | (name != "batch_size"))))
            if bad.size:
                least = "> 0" if name == "batch_size" else ">= 0"
                raise ValueError(
                    f"schedule: the factor of {name} is {row[bad[0]]:g} at alpha = {times[bad[0]]:g}; expected a "
                    f"finite number {least}."
                )
        return factors.max(axis=1)


def in_model(model, name):
    """The number of a model that a factor of this name multiplies."""
    check.choice("schedule", name, (*NAMES, "s"))
    if name == "s":
        return model.spectrum.mean
    return np.max([getattr(task, name) for task in model.tasks])


def _numbers_named(model, schedule):
    if not isinstance(schedule, dict):
        raise ValueError(
            f"schedule = {check.shown(schedule)}; expected a Schedule such as ov.Schedule.cosine(100.0), or a dict of "
            f"them by name: {', '.join(NAMES)}."
        )
    for name, f in schedule.items():
        if name == "s":
            continue
        check.kind(f"schedule[{name!r}]", f, Schedule, "ov.Schedule.cosine(100.0)")
        if in_model(model, name) == 0:
            raise ValueError(
                f"schedule: {name} is 0 in the model, and a factor has nothing to multiply; expected {name} > 0, such "
                f"as model.replace({name}=0.1)."
            )
    return dict(schedule)


def factors_on_s(given, L, alpha):
    """Factors (n, L) of a Schedule, of one for each eigenvalue, or of None, at times alpha (n,)."""
    each = given if isinstance(given, tuple | list) else (given,) * L
    return np.stack([np.ones(len(alpha)) if f is None else f(alpha) for f in each], axis=-1)


def teachers_at(model, tau, T, schedule, alpha):
    """T of a state; if a schedule changes the variances of the inputs, T at each recorded time (..., n, M, M)."""
    if not isinstance(schedule, dict) or "s" not in schedule:
        return T
    s = model.spectrum.s
    u = factors_on_s(schedule["s"], s.size, alpha) / np.where(s > 0, s, np.inf)
    return np.einsum("...l,...lij->...ij", u, np.expand_dims(tau, -4))


def _on_variances(model, factors):
    """One Schedule or None for each eigenvalue, from one for all or a tuple."""
    L, s = model.spectrum.L, model.spectrum.s
    # one schedule for all is not applied to eigenvalues of 0
    each = tuple(factors if x > 0 else None for x in s) if isinstance(factors, Schedule) else factors
    if not isinstance(each, tuple | list) or len(each) != L:
        raise check.refused("schedule['s']", factors, f"a Schedule, or a tuple of L = {L} of them.")
    for l, f in enumerate(each):
        if f is not None:
            check.kind(f"schedule['s'][{l}]", f, Schedule, "ov.Schedule.step([4.0], [1.5]), or None for 1")
            if s[l] == 0:
                raise ValueError(
                    f"schedule['s'][{l}]: s[{l}] is 0, and a factor has nothing to multiply; expected None."
                )
    return tuple(each)
