"""All solutions of nu = s (Delta + eps(s)), s = nu / (Delta + eps): where the curve nu(s) rises through nu.

nu(s) falls at every transition and may fall between; solutions on falling pieces are maxima of the free energy. Both
ends of the set of solutions are limits of the iteration s <- nu / (Delta + eps(s)), which is monotone: increasing from
nu / (Delta + g(1)), decreasing from nu / Delta.
"""

import math
from functools import cached_property

import numpy as np
from scipy.optimize import brentq

from ..._base.search import minimum
from .branches import SAME, crossings, merge, overlapping

SIDE = 1e-14  # relative distance in s of the two sides of a transition
POINTS = 400  # the scan between the least and the largest solution has these, and all transitions
TRANSITIONS = 2_000  # positions in the scan; more are thinned out, and looked at again near the best solution
ITERATIONS = 60
FAR = 1e12  # beyond this lam of the weakest feature nu(s) is s Delta + k to 1e-6, and rises
LARGEST = 1e304  # a solution at larger s is infinite
EQUAL = 1e-8  # errors that differ by less of g(1) are one
STEPS = 20  # an iteration that is not close to a point of the curve after these leaves it to a full solution


class FixedPoints:
    """The curve nu(s) of given readouts and noise, and its intersections with nu."""

    def __init__(self, channel, v2, tail, Delta):
        self.channel, self.v2, self.tail, self.Delta = channel, v2, tail, Delta
        self.far = FAR / float(v2[-1])

    def noisy(self, s):
        """Delta + eps(s), which falls."""
        return self.Delta + self.channel.totals(s, self.v2, self.tail)[0]

    def nu(self, s):
        """Data n/d at which s is a solution."""
        return s * self.noisy(s)

    def potential(self, s, nu):
        r"""Phi = sum_i s(q_i) - nu ln(Delta + eps); the free entropy is d/2 times this."""
        if math.isinf(s) and self.Delta == 0:
            return math.inf
        if math.isinf(s):  # q_i = 1 - 1/(lam_i g'(1)), with lam_i = nu v_i^2 / Delta beyond the largest float
            log_t = np.log(self.v2 * self.channel.slope) + math.log(nu) - math.log(self.Delta)
            return float(np.sum(1 - log_t)) - nu * math.log(self.Delta)
        eps, price, _ = self.channel.totals(s, self.v2, self.tail)
        return -price - nu * math.log(self.Delta + eps)

    def solve(self, nu):
        """All solutions found, ascending in s; infinity is one whose error is zero, or below the least float."""
        ends = self._ends(nu)
        return self._with_last(nu, ends) if len(ends) < 2 else self._between(nu, ends, self._scan(*ends))

    def optimal(self, s, eps):
        """Whether each point of the curve, s ascending, is the solution of largest potential at its nu."""
        nu, end = s * (self.Delta + eps), self.noisy(self.far)
        known = np.array([[0.0, *s, self.far], [self.Delta + self.channel.total, *(self.Delta + eps), end]])
        inner = self.channel.convex & (s < self.far) & (nu < self.far * end)
        optimal = np.array([inner[j] and self._alone(j + 1, *known) for j in range(s.size)])
        rest = np.flatnonzero(~optimal)
        best = [0.0 if math.isinf(x) else self.noisy(x) - self.Delta for x in self._best(nu[rest])]
        optimal[rest] = np.abs(eps[rest] - best) <= EQUAL * self.channel.total
        return optimal

    def _alone(self, j, s, noisy):
        """Whether point j of a known curve is seen to be the only solution at its nu; False where that stays open.

        Between points a < b is none if b (Delta + eps(a)) < nu or a (Delta + eps(b)) > nu. The interval left about s_j
        is narrowed by the monotone iterations until it holds no transition. There eps is convex, and if a chord before
        s_j is not too steep, nu(s) lies below nu(s_j) before s_j and above it beyond.
        """
        s_j, nu = s[j], s[j] * noisy[j]
        i = np.searchsorted(self._transitions, s_j)
        left, right = self._transitions[i - 1] * (1 + SIDE), self._transitions[i] * (1 - SIDE)
        low = nu / noisy[np.argmax(s[1 : j + 1] * noisy[:j] >= nu)]
        high = nu / noisy[-1 - np.argmax((s[j:-1] * noisy[j + 1 :] <= nu)[::-1])]
        for _ in range(STEPS):
            if low > left and high < min(right, 1.1 * s_j):
                break
            low = low if low > left else nu / self.noisy(low)
            high = high if high < min(right, 1.1 * s_j) else nu / self.noisy(high)
        else:
            return False
        before = max(left, min(low, (1 - 1e-4) * s_j))  # far enough for the digits of the difference
        return before < (1 - 1e-8) * s_j and high * (self.noisy(before) - noisy[j]) < (s_j - before) * noisy[j]

    def _best(self, nu):
        """The solution of largest potential at each of many nu; those whose solutions overlap share one scan."""
        result, shared = np.empty(len(nu)), []
        for i, ends in enumerate(map(self._ends, nu)):
            if len(ends) < 2:
                result[i] = self._largest(nu[i], self._with_last(nu[i], ends))
            else:
                shared.append((*ends, i))
        for group in overlapping(sorted(shared)):
            low, high = group[0][0], max(b for _, b, _ in group)
            pieces = math.ceil(math.log(high / low) / max(math.log(b / a) for a, b, _ in group))
            scan = self._scan(low, high, pieces)
            for a, b, i in group:
                result[i] = self._largest(nu[i], self._between(nu[i], (a, b), scan))
        return result

    def window(self, s):
        """(least nu of all solutions beyond s, largest nu of all before s), for a transition at s."""
        after, before = s * (1 + SIDE), s * (1 - SIDE)
        begin, end = self.nu(after), self.nu(before)
        last = (self._ends(begin) or [self.far])[-1]
        first = (self._ends(end) or [self.far])[0]
        begin = min(begin, self._extreme(after, last, 1.0)) if last > after else begin
        end = max(end, self._extreme(first, before, -1.0)) if first < before else end
        # without noise the perfect solution begins at k
        return (min(begin, float(len(self.v2))) if self.Delta == 0 else begin), end

    def _largest(self, nu, roots):
        return max(roots, key=lambda s: self.potential(s, nu))

    def _with_last(self, nu, roots):
        """The solutions found and the one beyond ``far``, where nu(s) = s Delta + k up to terms of order k/lam."""
        k = len(self.v2)
        if self.Delta == 0:
            return [*roots, math.inf] if nu > k or not roots else roots
        if self.nu(self.far) > nu and roots:
            return roots
        s = (nu - k) / self.Delta
        if s > LARGEST:
            return [*roots, math.inf]
        for _ in range(3):
            s -= (self.nu(s) - nu) / self.Delta
        return merge(roots, [s])

    def _ends(self, nu):
        """Least and largest solution below ``far``, or bounds on them; one if they are equal, none if there is none."""
        low, settled = self._climb(nu, nu / (self.Delta + self.channel.total))
        if low is None:
            return []
        if low == 0:  # by underflow
            return [low]
        above = self._above(nu, low)
        high, settled_above = (above, False) if self.nu(above) <= nu else self._climb(nu, above)
        if settled and settled_above and high <= low * (1 + 10 * SAME):
            return [self._polish(nu, low)]
        return sorted({low, high})

    def _climb(self, nu, s):
        """Limit of the monotone iteration, or where it stands when it is slow: a bound on all solutions either way."""
        if s > self.far:
            return None, False
        for _ in range(ITERATIONS):
            before, s = s, nu / self.noisy(s)
            if abs(s - before) <= SAME * s:
                return s, True
            if s > self.far:
                return None, False
        return s, False

    def _above(self, nu, low):
        """A bound above all solutions below ``far``."""
        if self.Delta and (nu / self.Delta <= self.far or self.nu(self.far) > nu):
            return min(nu / self.Delta, self.far)
        high = 2 * low
        while high < self.far and (self.nu(high) <= nu or self.v2[-1] * high < 100):
            high *= 2
        return min(high, self.far)

    def _polish(self, nu, s):
        """The single solution at s to rounding, unless a transition is too close for a bracket."""
        for width in (3 * SAME, 1e3 * SAME):
            a, b = s * (1 - width), s * (1 + width)
            if not self._inside(a, b).size and self.nu(a) < nu < self.nu(b):
                return brentq(lambda x: self.nu(x) - nu, a, b, xtol=1e-300, rtol=1e-15)
        return s

    @cached_property
    def _transitions(self):
        """Positions lam_jump / v_i^2, ascending, between 0 and infinity."""
        return np.unique(np.concatenate([[0.0, math.inf], *(jump.lam / self.v2 for jump in self.channel.jumps)]))

    def _inside(self, a, b):
        """Transition positions between a and b, ascending."""
        return self._transitions[slice(*np.searchsorted(self._transitions, [a, b], side="right"))]

    def _scan(self, a, b, pieces=1):
        """The curve between a and b: s, nu(s), and whether transitions were left out."""
        a, b = a * (1 - 100 * SAME), b * (1 + 100 * SAME)
        transitions = self._inside(a, b)
        thinned = transitions.size > TRANSITIONS
        if thinned:
            transitions = transitions[np.linspace(0, transitions.size - 1, TRANSITIONS).astype(int)]
        sides = np.concatenate([transitions * (1 - SIDE), transitions * (1 + SIDE)])
        s = np.unique(np.concatenate([np.geomspace(a, b, pieces * POINTS), sides]))
        return s, np.array([self.nu(x) for x in s]), thinned

    def _between(self, nu, extent, scan):
        """All solutions, those below ``far`` from a scan that covers their extent."""
        low, high = extent
        roots = self._crossings(nu, *scan[:2])
        if scan[2] and roots:
            best, width = self._largest(nu, roots), (high / low) ** (4 / TRANSITIONS)  # a few that were left out
            near = self._scan(max(best / width, low), min(best * width, high))
            roots = merge(roots, self._crossings(nu, *near[:2]))
        # nothing at all would be a failure of the scan: the residual of what is returned then says so
        return self._with_last(nu, roots or [min((low, high), key=lambda s: abs(self.nu(s) - nu))])

    def _crossings(self, nu, s, values):
        roots = crossings(lambda x: self.nu(x) - nu, s, values >= nu, xtol=1e-300, rtol=1e-15)
        return [s for s in roots if abs(self.nu(s) - nu) <= 1e-9 * nu]  # not at a jump within a thinned-out interval

    def _extreme(self, a, b, sign):
        """Least of sign * nu(s) between a and b, times sign: at a transition or in between."""
        for _ in range(2):  # the second time with all transitions
            s, values, thinned = self._scan(a, b)
            inside = (s >= a) & (s <= b)
            s, values = s[inside], sign * values[inside]
            i = int(np.argmin(values))
            a, b = s[max(i - 1, 0)], s[min(i + 1, s.size - 1)]
            if not thinned:
                break
        return sign * minimum(lambda u: sign * self.nu(math.exp(u)), np.log(s), values, xatol=1e-9)[1]
