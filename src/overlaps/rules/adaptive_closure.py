"""The closure of a rule of learning: in closed form, or by a quadrature whose size is compared with the next."""

from itertools import combinations
from typing import NamedTuple

import numpy as np

from .._base import check
from ..activations.bound import Bound, outputs
from ..activations.finite_differences import exact_differences, inner_steps
from ..gaussian.iterated import SIZES, Sizes, discrepancy, rules, settled_size
from ..gaussian.packed import packed
from ..gaussian.tables import NO_TABLE
from . import _rule
from .laws import LAWS, law_of, panel_nodes, proper


class AdaptiveOptions(NamedTuple):
    """Tunable numbers of the closure of a rule; tolerances are relative."""

    sobol_tol: float = 1e-3  # smallest tolerance of averages over Sobol points; 1e-6 requires 2^25 points
    # Factor on the tolerance of Sobol points once a run has begun. Smaller ones stop runs whose error estimate
    # fluctuates; larger ones accept larger errors.
    running_factor: float = 3.0
    asymmetry: float = 1e-6  # difference of A and A^T from which structured methods cannot use its eigenvectors
    divergent_growth: float = 0.5  # growth of a second moment with the range of the noise from which it is infinite
    layer_tol: float = 1e-4  # discrepancy to graded panels from which equal panels have missed a layer at a break
    sum_rounding: float = 1e-12  # rounding error of sums over nodes, relative to their terms
    field_rounding: float = 1e-15  # rounding error of the fields at the nodes, relative to the largest
    first_period: int = 60  # evaluations before the first comparison of the size with the next one
    max_period: int = 600  # the period doubles up to this number; halved, comparisons cost twice as much
    controlled_tol: float = 1e-8  # largest tolerance of averages with which eps_g enters the error control of a run


ADAPTIVE = AdaptiveOptions()


class RuleClosure(Bound):
    """The closure of a rule: in closed form, or by a quadrature whose size is compared with the next."""

    period, asymmetric = 0, False
    gradient_rate = np.inf

    def __init__(self, rule, learning):
        super().__init__(rule.activation, rule.activation, learning)
        self.rule, self._kernel, self._size = rule, rule.closure, 0
        self._evaluations: int | None = None  # since the last comparison of sizes; None before the first
        self.controls_error = rule.records_error
        self._steepest = 0.0  # largest change so far of the force with a field, per standard deviation of the field
        self.parameters = np.array(rule.numbers, float)
        if rule.closed is None:
            self.period, (self._arrays, self.by_chance) = ADAPTIVE.first_period, rule.sizes
            accurate = not self.by_chance and rule.tolerance <= ADAPTIVE.controlled_tol
            self.controls_error = rule.error is not None and accurate
            self._may_have_layers = len(rule.breaks) > 0 and rule.breaks.shape[1] == 3 and not rule.continuous
            self.parameters = self._arrays[0]
        if hasattr(self._kernel, "compile"):
            self.compiled = self._kernel

    def __call__(self, S, w, A, B, C, dv):
        """Fill A, B, C, dv; return the mean of the recorded error, nan if none is recorded."""
        due = self.period and (self._evaluations is None or self._evaluations >= self.period)
        if due and np.all(np.isfinite(S)):
            self._compare_sizes(S, w)
        if self._evaluations is not None:
            self._evaluations += 1
        eps_g = self._at(self.parameters, self.learning, S, w, A, B, C, dv)
        if self.rule.by_chance and self.parameters[0] >= 0 and np.all(np.isfinite(S)) and np.all(np.isfinite(w)):
            self.message = improper_probabilities(self.rule, S, w) if np.isnan(A[0, 0]) else ""
        blocks = A.reshape(-1, A.shape[1], A.shape[1])
        difference = np.max(np.abs(blocks - blocks.swapaxes(1, 2)))
        self.asymmetric = bool(difference > ADAPTIVE.asymmetry * np.max(np.abs(A)))
        return eps_g

    def error_at(self, S, w):
        """The mean of the recorded error alone."""
        return self._at(self.parameters, self.learning._replace(second_order=False), S, w, *outputs(S, self.learning.K))

    def error_size(self, S, w):
        """eps_g at half the correlations; 0 if no error is recorded or averages are not accurate enough."""
        return self.error_at(half_correlated(S), w) if self.controls_error else 0.0

    def _at(self, parameters, numbers, S, w, *arrays):
        K, _, *numbers = numbers
        return self._kernel(np.ascontiguousarray(S), w, parameters, K, -1, *numbers, *arrays)

    def compiled_parameters(self):
        """The parameters; the next call in Python compares sizes, after many compiled evaluations."""
        if self._evaluations is not None:
            self._evaluations = self.period
        return self.parameters

    def errors(self, S, w):
        """Eps_g (n,) at S and w; nan if no error is recorded."""
        if not self.rule.records_error:
            return np.full(len(S), np.nan)
        if self.rule.by_block:
            return np.array([self._values(self.parameters, *both)[0][-1] for both in zip(S, w, strict=True)])
        return super().errors(S, w)

    def check(self, S, w):
        """Refuse a state at which the integrals do not converge."""
        if self.period:
            self._compare_sizes(S, w)
            return
        name, K = self.rule.recipe[:1], self.learning.K
        directed = "perceptron", "hinge", "optimal", "episode"  # rules undefined for a student of zero norm
        if name and name[0] in directed and not S[0, 0] > check.LIMITS.zero_norm * S[K, K]:
            raise ValueError(
                f"Q = {S[0, 0]:.3g} with the rule {self.rule.name}, which needs a direction of the student; "
                "expected Q > 0: start from small weights."
            )
        if name == ("optimal",) and not S[0, K] > 0:
            raise ValueError(
                f"R = {S[0, K]:.3g} with the rule optimal(), which reads the overlaps; expected R > 0: start from a "
                "student that has an overlap with the teacher."
            )

    def no_jacobian_reason(self, S, least=None):
        """Reason why there is no structured Jacobian, or an empty string."""
        return "A is not symmetric: the rule is no gradient" if self.asymmetric else ""

    def samples(self, size, S, w):
        """(Fields (T, n, P), F (T, K, P), G (K, P) at unit rate, weights (P,)) at the nodes of a size of quadrature."""
        parameters, K, T = self.rule.sizes[0][size], self.learning.K, self.rule.tokens
        rows = _rule.rule_samples(*self.rule.pointers, np.ascontiguousarray(S), w, parameters, K).T.copy()
        ends = np.cumsum([T * K, T * (len(S) - K), len(rows) - T * (len(S) + K) - K - 1, T * K, K])
        lam, nu, _, F, G, (weights,) = np.split(rows, ends)
        lam, nu, F = (x.reshape(T, -1, len(weights)) for x in (lam, nu, F))
        return np.concatenate([lam, nu], axis=1), F, G, weights

    def _exact_derivatives(self, S, w):
        return exact_differences(self, S, w, inner_steps(S))  # integrals of forces with breaks vary like angles

    def _values(self, parameters, S, w):
        """(A, B, g and eps_g, C) at unit rate."""
        A, B, C, dv = outputs(S, self.learning.K)
        unit = self.learning._replace(eta=1.0, eta_v=1.0, noise=0.0, second_order=True)
        eps_g = self._at(parameters, unit, S, w, A, B, C, dv)
        return np.concatenate([A.ravel(), B.ravel(), dv, [eps_g]]), C

    def _compare_sizes(self, S, w):
        """Choose the least size that agrees with the next; refuse the state if there is none."""
        first, tolerance = self._evaluations is None, self.rule.tolerance
        self.period = ADAPTIVE.first_period if first else min(2 * self.period, ADAPTIVE.max_period)
        if self.by_chance:
            scrambles = [self._values(x, S, w) for x in [*self._arrays][1:]]
            goals = np.array([1, 10]) * max(tolerance, ADAPTIVE.sobol_tol)
            goals, root = goals if first else ADAPTIVE.running_factor * goals, np.sqrt(len(scrambles))
            gaps = [np.max(np.std(x, axis=0, ddof=1)) / np.max(np.abs(x)) / root for x in zip(*scrambles, strict=True)]
            self.chance = self.averaging_error = max(self.chance, gaps[0])
            size = 0 if np.all(np.less_equal(gaps, goals)) else None
        else:
            goals = tolerance, 10 * tolerance if self.learning.second_order else np.inf
            size, gaps = self._agreeing_size(S, w, goals, self._rounding(S, w))
            gap = gaps[0] if size is not None else 0.0
            self.averaging_error = max(self.averaging_error, ADAPTIVE.sum_rounding, gap)
        self._evaluations = 0
        if size is not None:
            expensive = S.shape[1] * self.rule.tokens > 4 and self.rule.others is None
            following = size if self.by_chance or expensive else size + 1  # the larger of the two sizes that agree
            self._size, self.parameters, self.message = size, self._arrays[following], ""
            return
        self.message = self._refusal(S, w, gaps, goals)
        if first:
            raise ValueError(self.message)
        self.parameters = np.array([np.nan])

    def _rounding(self, S, w):
        """Rounding errors of (A, B, g and eps_g) and of C, below which two sizes agree.

        The error of an average is at least the rounding of its terms. If the force F is a small difference of large
        fields z, rounding of z changes F, and A and B change by this over the least deviation of a field given the
        others.
        """
        (first, C), K, n = self._values(self._arrays[0], S, w), self.learning.K, S.shape[1]
        deviations = np.sqrt(np.max(np.diagonal(S.reshape(-1, n, n), axis1=1, axis2=2), axis=0))
        A, B = np.split(first[: -1 - K], [K * len(S) // n * K])
        by_field = np.abs(A.reshape(-1, K)) * deviations[:K], np.abs(B.reshape(-1, n - K)) * deviations[K:]
        self._steepest = max(self._steepest, *map(np.max, by_field))
        force, change = np.sqrt(np.max(np.abs(C))), ADAPTIVE.field_rounding * self._steepest
        rounding = ADAPTIVE.sum_rounding * force / np.max(deviations)
        rate = max(self.learning.eta, self.learning.eta**2)
        self.accuracy = rate * ADAPTIVE.sum_rounding * force / np.max(deviations)
        return rounding + change / least_deviation(S), (2 * force + change) * change

    def _agreeing_size(self, S, w, goals, rounding):
        """(Size that agrees with the next, or None; discrepancies).

        Two sizes with equal panels may agree because both miss a layer at a break; graded panels reveal this.
        """

        def values(i):
            return self._values(self._arrays[i], S, w)

        count = len(self._arrays)
        if self._evaluations is None and self.rule.continuous and self.learning.second_order:
            moments = settled_size(values, 2, 0, (np.inf, ADAPTIVE.divergent_growth))  # the second has a wider range
            if moments[0] is None:
                return moments
        found, graded = settled_size(values, count, self._size, goals, rounding), count - len(SIZES.graded)
        if not self._may_have_layers or found[0] is None or found[0] + 1 >= graded:
            return found
        layers = zip(values(found[0] + 1), values(graded), rounding, strict=True)
        missed = max(discrepancy(*both) for both in layers) > ADAPTIVE.layer_tol
        return settled_size(values, count, graded, goals, rounding) if missed else found

    def _refusal(self, S, w, gaps, goals):
        rule = self.rule
        if rule.by_chance and np.any(np.isnan(gaps)):
            return improper_probabilities(rule, S, w)
        if rule.continuous and (gaps[0] <= goals[0] or gaps[1] > ADAPTIVE.divergent_growth):
            return (
                f"the second moment of the force {rule.name!r} does not converge: its sizes differ by {gaps[1]:.1g}. "
                "The noise has heavy tails; expected a bounded force: clip=."
            )
        return (
            f"the integrals of the rule {rule.name!r} do not converge: sizes differ by {max(gaps):.1g}, expected "
            f"{goals[0]:.0e}; declare breaks=[...], the planes on which the force or the error jumps or kinks, or "
            "raise tolerance=."
        )


def improper_probabilities(rule, S, w):
    """Message about a noise whose probabilities are improper at a state."""
    S, theta, p = S[-S.shape[1] :], np.append(w[: rule.K], np.array(rule.numbers, float)), np.zeros(len(rule.noise[0]))
    spread = np.sqrt(np.tile(np.diag(S)[rule.K :], rule.tokens))
    for distance in np.linspace(0.0, 8.0, 17):  # in standard deviations of the teachers, over the range of integrals
        for nu in (distance * spread, -distance * spread):
            rule.functions[2](nu, theta, p)
            if not proper(p):
                return f"noise: chance fills {p} at nu = {nu}, theta = {theta}; expected probabilities >= 0 of sum 1."
    return f"noise: chance fills improper probabilities at theta = {theta}; expected them >= 0 and of sum 1."


def least_deviation(S):
    """Least standard deviation of a field given the others, without those that are rounding errors."""
    n = S.shape[1]
    scale = np.sqrt(np.maximum(np.diagonal(S.reshape(-1, n, n), axis1=1, axis2=2), 0.0))
    unit = np.where(scale > 0, scale, np.inf)
    values = np.linalg.eigvalsh(S.reshape(-1, n, n) / (unit[:, :, None] * unit[:, None, :]))
    rounding = _rule.NODE_LIMITS.min_eigenvalue * np.max(values)
    return np.sqrt(np.min(values[values > rounding])) * np.min(scale[scale > 0])


def half_correlated(S):
    """Covariances (..., groups n, n) of fields whose correlations are half of those in S."""
    rows, n = S.shape[-2:]
    return np.where(np.arange(rows)[:, None] % n == np.arange(n), S, S / 2)


def arrays_of(rule):
    """(Parameters of ``_rule.rule_closure``, ascending in size; whether their nodes are Sobol points)."""
    by_token = rule.others is not None
    root = np.eye(1) if by_token or rule.by_block else rule.token_root
    n, extra = (1 if by_token else rule.tokens) * (rule.K + rule.M), int(isinstance(rule.noise, str))
    planes, cuts = np.array(rule.breaks), np.zeros((0, n + 1))
    values, chances = rule.noise if isinstance(rule.noise, tuple) else (np.zeros(1), np.ones(1))
    if rule.by_chance:
        chances = np.zeros(len(values))
    if by_token:  # the noise is the sum over the other tokens, see ``_token_rules``
        values = np.arange(float(rule.tokens)) if rule.others_moments[0] else np.zeros(2)
        chances = np.zeros(len(values))
    laws, no_law = [], 3 * (NO_TABLE,)
    if rule.continuous and not extra:
        planes, cuts = _cut_planes(planes, rule.noise.support())
        laws = [law_of(rule.noise, reach) for reach in (LAWS.reach, LAWS.reach + LAWS.extra_reach)]
    sizes, by_chance = rules(n + extra, len(planes) > 0)
    tables = [law.arrays() for law in laws] if len(cuts) else []

    def array(i):
        noise = (values, chances) if not laws else panel_nodes(i) if len(cuts) else laws[i % 2].nodes(i)
        points, weights, given, width, x, p = sizes[i]
        kind = rule.by_chance, extra, given, width, rule.tokens if rule.by_block else 1
        law = tables[i % 2] if tables else no_law
        return packed(kind, rule.numbers, *noise, planes, cuts, *law, root, points, weights, x, p)

    return Sizes(len(sizes), array), by_chance


def _cut_planes(planes, ends):
    """(Planes of the fields, cuts xi = c . z + t of the noise).

    The average over xi breaks where two cuts meet, and where a cut meets an end of the law.
    """
    fields, noisy = planes[planes[:, -2] == 0], planes[planes[:, -2] != 0]
    cuts = np.column_stack([-noisy[:, :-2] / noisy[:, -2:-1], noisy[:, -1] / noisy[:, -2]])
    met = [np.r_[a[:-1] - b[:-1], b[-1] - a[-1]] for a, b in combinations(cuts, 2) if np.any(a[:-1] != b[:-1])]
    ended = [np.r_[a[:-1], end - a[-1]] for a in cuts for end in ends if np.isfinite(end) and np.any(a[:-1])]
    return np.array([*np.delete(fields, -2, axis=1), *met, *ended]).reshape(-1, planes.shape[1] - 1), cuts
