"""The closure of a rule of learning: in closed form, or by a quadrature whose size is compared with the next."""

from itertools import combinations

import numpy as np

from .._base import check
from ..gaussian.iterated import GRADED, Sizes, discrepancy, rules, settled_size
from ..gaussian.tables import NOTHING
from . import _rule
from .bound import Bound, inner_steps, outputs
from .laws import FURTHER, REACH, law_of, panel_rule, proper

BY_CHANCE = 1e-3  # what Sobol points are held to, where a rule asks for more; 1e-6 would take 2^25 of them
BEYOND = 3.0  # times that, once a run has begun: less stops runs whose spread fluctuates, more would hide a worse one
ASYMMETRY = 1e-6  # of A, relative: above, it has no eigenvectors that structured methods could use
INFINITE = 0.5  # growth of a second moment with the reach of the noise from which it has no limit
MISSED = 1e-4  # discrepancy to panels that shrink to the breaks from which equal ones have missed a layer there
ROUNDING = 1e-12  # of sums over nodes, in units of their terms
FIELDS = 1e-15  # rounding of the fields at the nodes, in units of the largest
FIRST, PERIOD = 60, 600  # evaluations after which the size is compared with the next, at first and later
FINE = 1e-8  # tolerance of averages up to which the error control of a run includes the recorded error
NORMED = "perceptron", "hinge", "optimal", "episode"  # rules that need a direction of the student


class RuleClosure(Bound):
    """The closure of a rule: in closed form, or by a quadrature whose size is compared with the next."""

    period, asymmetric = 0, False
    gradient_rate = np.inf

    def __init__(self, learning, rule):
        super().__init__(learning.activation, learning.activation, rule)
        self.learning, self._kernel, self._spent, self._size = learning, learning.closure, None, 0
        self.controls_error = learning.records_error
        self._steepest = 0.0  # largest change of the force so far by a change of a field by its deviation
        self.parameters = np.array(learning.numbers, float)
        if learning.closed is None:
            self.period, (self._arrays, self._chancy) = FIRST, learning.sizes
            self.by_chance = self._chancy
            self.controls_error = learning.error is not None and not self._chancy and learning.tolerance <= FINE
            self._layered = len(learning.breaks) > 0 and learning.breaks.shape[1] == 3 and not learning.continuous
            self.parameters = self._arrays[0]
        if hasattr(self._kernel, "compile"):
            self.compiled = self._kernel

    def __call__(self, S, w, A, B, C, dv):
        """Fill A, B, C, dv; return the mean of the recorded error, nan where none is."""
        if self.period and (self._spent is None or self._spent >= self.period) and np.all(np.isfinite(S)):
            self._certify(S, w)
        if self._spent is not None:
            self._spent += 1
        eps_g = self._at(self.parameters, self.rule, S, w, A, B, C, dv)
        if self.learning.by_chance and self.parameters[0] >= 0 and np.all(np.isfinite(S)) and np.all(np.isfinite(w)):
            self.message = improper(self.learning, S, w) if np.isnan(A[0, 0]) else ""
        parts = A.reshape(-1, A.shape[1], A.shape[1])
        self.asymmetric = bool(np.max(np.abs(parts - parts.swapaxes(1, 2))) > ASYMMETRY * np.max(np.abs(A)))
        return eps_g

    def error_at(self, S, w):
        """The mean of the recorded error alone."""
        return self._at(self.parameters, self.rule._replace(second_order=False), S, w, *outputs(S, self.rule.K))

    def error_size(self, S, w):
        """As for any closure: eps_g at half the correlations; 0 where none is recorded, or averages are too coarse."""
        return self.error_at(half_correlated(S), w) if self.controls_error else 0.0

    def _at(self, parameters, numbers, S, w, *arrays):
        K, *numbers = numbers
        return self._kernel(np.ascontiguousarray(S), np.append(w, parameters), K, -1, *numbers, *arrays)

    def extended(self, w):
        """As for any closure; compiled code that asks for it makes many evaluations."""
        if self._spent is not None:
            self._spent = self.period
        return super().extended(w)

    def errors(self, S, w):
        """As for any closure; nan where no error is recorded."""
        if not self.learning.records_error:
            return np.full(len(S), np.nan)
        if self.learning.by_block:
            return np.array([self._values(self.parameters, *both)[0][-1] for both in zip(S, w, strict=True)])
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

    def no_jacobian_reason(self, S, least=None):
        """Why there is no structured Jacobian."""
        return "A is not symmetric: the rule is no gradient" if self.asymmetric else ""

    def samples(self, size, S, w):
        """(Fields (T, n, P), F (T, K, P), G (K, P) at unit rate, weights (P,)) at the nodes of a size of quadrature."""
        w, K, T = np.append(w, self.learning.sizes[0][size]), self.rule.K, self.learning.tokens
        rows = _rule.rule_samples(*self.learning.pointers, np.ascontiguousarray(S), w, K).T.copy()
        ends = np.cumsum([T * K, T * (len(S) - K), len(rows) - T * (len(S) + K) - K - 1, T * K, K])
        lam, nu, _, F, G, (weights,) = np.split(rows, ends)
        lam, nu, F = (x.reshape(T, -1, len(weights)) for x in (lam, nu, F))
        return np.concatenate([lam, nu], axis=1), F, G, weights

    def _step_sizes(self, S):
        return inner_steps(S)  # their integrals change as fast as angles

    def _values(self, parameters, S, w):
        """(A, B, g and eps_g, C) at unit rate."""
        A, B, C, dv = outputs(S, self.rule.K)
        eps_g = self._at(parameters, (self.rule.K, 1.0, 1.0, 0.0, True), S, w, A, B, C, dv)
        return np.concatenate([A.ravel(), B.ravel(), dv, [eps_g]]), C

    def _certify(self, S, w):
        """Take the least size that agrees with the next; refuse where there is none."""
        first, tolerance = self._spent is None, self.learning.tolerance
        self.period = FIRST if first else min(2 * self.period, PERIOD)
        if self._chancy:
            scrambles = [self._values(x, S, w) for x in [*self._arrays][1:]]
            goals, root = np.array([1, 10]) * max(tolerance, BY_CHANCE), np.sqrt(len(scrambles))  # their mean is in use
            goals = goals if first else BEYOND * goals
            gaps = [np.max(np.std(x, axis=0, ddof=1)) / np.max(np.abs(x)) / root for x in zip(*scrambles, strict=True)]
            self.chance = self.averaging_error = max(self.chance, gaps[0])
            size = 0 if np.all(np.less_equal(gaps, goals)) else None
        else:
            goals = tolerance, 10 * tolerance if self.rule.second_order else np.inf
            size, gaps = self._settle(S, w, goals, self._rounding(S, w))
            self.averaging_error = max(self.averaging_error, ROUNDING, gaps[0] if size is not None else 0.0)
        self._spent = 0
        if size is not None:
            many = S.shape[1] * self.learning.tokens > 4 and self.learning.others is None
            following = size if self._chancy or many else size + 1  # the better of two that agree, if it is not dear
            self._size, self.parameters, self.message = size, self._arrays[following], ""
            return
        self.message = self._refusal(S, w, gaps, goals)
        if first:
            raise ValueError(self.message)
        self.parameters = np.array([np.nan])

    def _rounding(self, S, w):
        """Rounding of (A, B, g and eps_g, C): differences of two sizes below are none.

        Averages that vanish are known to the rounding of their terms. Where the force F is a small difference of large
        fields z, it is known to what the rounding of z changes it by, and A and B to this over the least deviation of a
        field given the others.
        """
        (first, C), K, n = self._values(self._arrays[0], S, w), self.rule.K, S.shape[1]
        deviations = np.sqrt(np.max(np.diagonal(S.reshape(-1, n, n), axis1=1, axis2=2), axis=0))
        A, B = np.split(first[: -1 - K], [K * len(S) // n * K])
        by_field = np.abs(A.reshape(-1, K)) * deviations[:K], np.abs(B.reshape(-1, n - K)) * deviations[K:]
        self._steepest = max(self._steepest, *map(np.max, by_field))
        force, blurred = np.sqrt(np.max(np.abs(C))), FIELDS * self._steepest
        self.accuracy = max(self.rule.eta, self.rule.eta**2) * ROUNDING * force / np.max(deviations)
        return ROUNDING * force / np.max(deviations) + blurred / least_deviation(S), (2 * force + blurred) * blurred

    def _settle(self, S, w, goals, rounding):
        """(Size that agrees with the next, or None; discrepancies). Equal panels may both miss the layer of a break."""

        def values(i):
            return self._values(self._arrays[i], S, w)

        count = len(self._arrays)
        if self._spent is None and self.learning.continuous and self.rule.second_order:  # the second reaches further
            settled = settled_size(values, 2, 0, (np.inf, INFINITE))
            if settled[0] is None:
                return settled
        settled, shrinking = settled_size(values, count, self._size, goals, rounding), count - len(GRADED)
        if not self._layered or settled[0] is None or settled[0] + 1 >= shrinking:
            return settled
        layers = zip(values(settled[0] + 1), values(shrinking), rounding, strict=True)
        missed = max(discrepancy(*both) for both in layers) > MISSED
        return settled_size(values, count, shrinking, goals, rounding) if missed else settled

    def _refusal(self, S, w, gaps, goals):
        rule = self.learning
        if rule.by_chance and np.any(np.isnan(gaps)):
            return improper(rule, S, w)
        if rule.continuous and (gaps[0] <= goals[0] or gaps[1] > INFINITE):
            return (
                f"the second moment of the force {rule.name!r} does not settle: its sizes differ by {gaps[1]:.1g}. "
                "The noise has heavy tails; expected a bounded force: clip=."
            )
        return (
            f"the integrals of the rule {rule.name!r} do not settle: sizes differ by {max(gaps):.1g}, expected "
            f"{goals[0]:.0e}; declare breaks=[...], the planes on which the force or the error jumps or kinks, or "
            "raise tolerance=."
        )


def improper(rule, S, w):
    """The sentence about probabilities of a noise that are none at a state."""
    S, theta, p = S[-S.shape[1] :], np.append(w[: rule.K], np.array(rule.numbers, float)), np.zeros(len(rule.noise[0]))
    spread = np.sqrt(np.tile(np.diag(S)[rule.K :], rule.tokens))
    for far in np.linspace(0.0, 8.0, 17):  # standard deviations of the teachers, as far as integrals go
        for nu in (far * spread, -far * spread):
            rule.functions[2](nu, theta, p)
            if not proper(p):
                return f"noise: chance fills {p} at nu = {nu}, theta = {theta}; expected probabilities >= 0 of sum 1."
    return f"noise: chance fills what are no probabilities at theta = {theta}; expected them >= 0 and of sum 1."


def least_deviation(S):
    """Least standard deviation of a field given the others, of those that are no rounding."""
    n = S.shape[1]
    scale = np.sqrt(np.maximum(np.diagonal(S.reshape(-1, n, n), axis1=1, axis2=2), 0.0))
    unit = np.where(scale > 0, scale, np.inf)
    values = np.linalg.eigvalsh(S.reshape(-1, n, n) / (unit[:, :, None] * unit[:, None, :]))
    return np.sqrt(np.min(values[values > _rule.DROPPED * np.max(values)])) * np.min(scale[scale > 0])


def half_correlated(S):
    """Covariances (..., groups n, n) of fields whose correlations are half of those in S."""
    rows, n = S.shape[-2:]
    return np.where(np.arange(rows)[:, None] % n == np.arange(n), S, S / 2)


def arrays_of(rule):
    """(Arrays that ``_rule.rule_closure`` takes behind w, ascending in size; whether they are rules by chance)."""
    alone = rule.others is not None
    root = np.eye(1) if alone or rule.by_block else rule.token_root
    n, extra = (1 if alone else rule.tokens) * (rule.K + rule.M), int(isinstance(rule.noise, str))
    planes, cuts = np.array(rule.breaks), np.zeros((0, n + 1))
    values, chances = rule.noise if isinstance(rule.noise, tuple) else (np.zeros(1), np.ones(1))
    if rule.by_chance:
        chances = np.zeros(len(values))
    if alone:  # the sum over the other tokens, see ``_of_tokens``
        values = np.arange(float(rule.tokens)) if rule.sees[0] else np.zeros(2)
        chances = np.zeros(len(values))
    laws, given = [], (values, chances, NOTHING)
    if rule.continuous and not extra:
        planes, cuts = _cut_planes(planes, rule.noise.support())
        laws = [law_of(rule.noise, reach) for reach in (REACH, REACH + FURTHER)]
    sizes, chancy = rules(n + extra, len(planes) > 0)
    tables = [law.table() for law in laws] if len(cuts) else []

    def of_noise(i):
        if len(cuts):
            return *panel_rule(i), tables[i % 2]
        return *laws[i % 2].nodes(i), NOTHING

    def array(i):
        values, chances, law = of_noise(i) if laws else given
        arrays = np.array(rule.numbers, float), values, chances, planes, cuts, law, root
        return _rule.packed(rule.by_chance, extra, rule.tokens if rule.by_block else 1, sizes[i], *arrays)

    return Sizes(len(sizes), array), chancy


def _cut_planes(planes, ends):
    """(Planes of the fields, cuts xi = c . z + t of the noise).

    Where two cuts meet, or one an end of the law, the average over xi breaks.
    """
    fields, of_xi = planes[planes[:, -2] == 0], planes[planes[:, -2] != 0]
    cuts = np.column_stack([-of_xi[:, :-2] / of_xi[:, -2:-1], of_xi[:, -1] / of_xi[:, -2]])
    met = [np.r_[a[:-1] - b[:-1], b[-1] - a[-1]] for a, b in combinations(cuts, 2) if np.any(a[:-1] != b[:-1])]
    ended = [np.r_[a[:-1], end - a[-1]] for a in cuts for end in ends if np.isfinite(end) and np.any(a[:-1])]
    return np.array([*np.delete(fields, -2, axis=1), *met, *ended]).reshape(-1, planes.shape[1] - 1), cuts
