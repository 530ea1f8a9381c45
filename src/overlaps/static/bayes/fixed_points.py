"""All solutions of nu = s (Delta + eps(s)), s = nu / (Delta + eps): where the curve nu(s) rises through nu.

nu(s) falls at every transition and may fall between; solutions on decreasing intervals are maxima of the free energy.
The least and the largest solution are limits of the iteration s <- nu / (Delta + eps(s)), which is monotone: it
increases from nu / (Delta + g(1)) and decreases from nu / Delta.
"""

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from ..._base.search import minimum
from .branches import BRANCHES, crossings, merge, overlapping


class FixedPointOptions(NamedTuple):
    """Tunable numbers of the search for all solutions."""

    # Relative distance in s from a transition to the points evaluated on both of its sides; a few roundings.
    side_rtol: float = 1e-14
    # Points of the scan between the least and the largest solution, besides the transitions. With fewer points, close
    # pairs of solutions between transitions may be missed.
    scan_points: int = 400
    # Transitions in a scan. If there are more, some are left out, and the scan is repeated near the best solution.
    max_transitions: int = 2_000
    # Iterations towards the least and the largest solution; if they do not suffice, a scan begins where they end.
    max_iterations: int = 60
    # Iterations of the shorter test whether a point of a curve is the only solution; if they do not suffice, all are
    # computed.
    max_uniqueness_iterations: int = 20
    # lam of the weakest feature beyond which nu(s) = s Delta + k to 1e-6 and increases.
    asymptotic_lam: float = 1e12
    # A solution at larger s is reported as infinity.
    max_s: float = 1e304
    # Errors are equal if they differ by less than this fraction of g(1).
    eps_tol: float = 1e-8


FIXED_POINTS = FixedPointOptions()


class FixedPoints:
    """The curve nu(s) of given readouts and noise, and its intersections with nu."""

    def __init__(self, channel, v2, tail, Delta):
        self.channel, self.v2, self.tail, self.Delta = channel, v2, tail, Delta
        self.far = FIXED_POINTS.asymptotic_lam / float(v2[-1])

    def noisy(self, s):
        """Delta + eps(s), which decreases with s."""
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
        """All solutions found, ascending in s; s is infinite if the error is zero or below the least float."""
        ends = self._ends(nu)
        return self._with_last(nu, ends) if len(ends) < 2 else self._between(nu, ends, self._scan(*ends))

    def optimal(self, s, eps):
        """Whether each point of the curve, s ascending, is the solution of largest potential at its nu."""
        nu, end = s * (self.Delta + eps), self.noisy(self.far)
        known = np.array([[0.0, *s, self.far], [self.Delta + self.channel.total, *(self.Delta + eps), end]])
        inner = self.channel.convex & (s < self.far) & (nu < self.far * end)
        optimal = np.array([inner[j] and self._is_unique(j + 1, *known) for j in range(s.size)])
        rest = np.flatnonzero(~optimal)
        best = [0.0 if math.isinf(x) else self.noisy(x) - self.Delta for x in self._best(nu[rest])]
        optimal[rest] = np.abs(eps[rest] - best) <= FIXED_POINTS.eps_tol * self.channel.total
        return optimal

    def _is_unique(self, j, s, noisy):
        """Whether point j of a known curve is certainly the only solution at its nu; False also if undecided.

        There is no solution between points a < b if b (Delta + eps(a)) < nu or a (Delta + eps(b)) > nu. The monotone
        iterations narrow the remaining interval about s_j until it contains no transition. There eps is convex: if a
        chord before s_j is not too steep, nu(s) < nu(s_j) for s < s_j and nu(s) > nu(s_j) for s > s_j.
        """
        s_j, nu = s[j], s[j] * noisy[j]
        i = np.searchsorted(self._transitions, s_j)
        left = self._transitions[i - 1] * (1 + FIXED_POINTS.side_rtol)
        right = self._transitions[i] * (1 - FIXED_POINTS.side_rtol)
        low = nu / noisy[np.argmax(s[1 : j + 1] * noisy[:j] >= nu)]
        high = nu / noisy[-1 - np.argmax((s[j:-1] * noisy[j + 1 :] <= nu)[::-1])]
        for _ in range(FIXED_POINTS.max_uniqueness_iterations):
            if low > left and high < min(right, 1.1 * s_j):
                break
            low = low if low > left else nu / self.noisy(low)
            high = high if high < min(right, 1.1 * s_j) else nu / self.noisy(high)
        else:
            return False
        before = max(left, min(low, (1 - 1e-4) * s_j))  # the difference of two closer points would be rounding
        return before < (1 - 1e-8) * s_j and high * (self.noisy(before) - noisy[j]) < (s_j - before) * noisy[j]

    def _best(self, nu):
        """The solution of largest potential at each of many nu; nu with overlapping intervals use one scan."""
        result, intervals = np.empty(len(nu)), []
        for i, ends in enumerate(map(self._ends, nu)):
            if len(ends) < 2:
                result[i] = self._largest(nu[i], self._with_last(nu[i], ends))
            else:
                intervals.append((*ends, i))
        for group in overlapping(sorted(intervals)):
            low, high = group[0][0], max(b for _, b, _ in group)
            n_intervals = math.ceil(math.log(high / low) / max(math.log(b / a) for a, b, _ in group))
            scan = self._scan(low, high, n_intervals)
            for a, b, i in group:
                result[i] = self._largest(nu[i], self._between(nu[i], (a, b), scan))
        return result

    def window(self, s):
        """(least nu of all solutions beyond s, largest nu of all before s), for a transition at s."""
        after, before = s * (1 + FIXED_POINTS.side_rtol), s * (1 - FIXED_POINTS.side_rtol)
        begin, end = self.nu(after), self.nu(before)
        last = (self._ends(begin) or [self.far])[-1]
        first = (self._ends(end) or [self.far])[0]
        begin = min(begin, self._extreme(after, last, 1.0)) if last > after else begin
        end = max(end, self._extreme(first, before, -1.0)) if first < before else end
        # without noise there is a perfect solution for nu > k
        return (min(begin, float(len(self.v2))) if self.Delta == 0 else begin), end

    def _largest(self, nu, roots):
        return max(roots, key=lambda s: self.potential(s, nu))

    def _with_last(self, nu, roots):
        """The given solutions and the one beyond ``far``, where nu(s) = s Delta + k up to terms of order k/lam."""
        k = len(self.v2)
        if self.Delta == 0:
            return [*roots, math.inf] if nu > k or not roots else roots
        if self.nu(self.far) > nu and roots:
            return roots
        s = (nu - k) / self.Delta
        if s > FIXED_POINTS.max_s:
            return [*roots, math.inf]
        for _ in range(3):
            s -= (self.nu(s) - nu) / self.Delta
        return merge(roots, [s])

    def _ends(self, nu):
        """Least and largest solution below ``far``, or bounds on them; one if they are equal, none if there is none."""
        low, converged = self._climb(nu, nu / (self.Delta + self.channel.total))
        if low is None:
            return []
        if low == 0:  # by underflow
            return [low]
        above = self._above(nu, low)
        high, above_converged = (above, False) if self.nu(above) <= nu else self._climb(nu, above)
        if converged and above_converged and high <= low * (1 + 10 * BRANCHES.same_rtol):
            return [self._polish(nu, low)]
        return sorted({low, high})

    def _climb(self, nu, s):
        """Limit of the monotone iteration, or its last iterate if it is slow; both bound all solutions."""
        if s > self.far:
            return None, False
        for _ in range(FIXED_POINTS.max_iterations):
            before, s = s, nu / self.noisy(s)
            if abs(s - before) <= BRANCHES.same_rtol * s:
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
        for width in (3 * BRANCHES.same_rtol, 1e3 * BRANCHES.same_rtol):
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

    def _scan(self, a, b, n_intervals=1):
        """The curve between a and b: s, nu(s), and whether transitions were left out."""
        a, b = a * (1 - 100 * BRANCHES.same_rtol), b * (1 + 100 * BRANCHES.same_rtol)
        transitions = self._inside(a, b)
        thinned = transitions.size > FIXED_POINTS.max_transitions
        if thinned:
            transitions = transitions[np.linspace(0, transitions.size - 1, FIXED_POINTS.max_transitions).astype(int)]
        sides = np.concatenate([transitions * (1 - FIXED_POINTS.side_rtol), transitions * (1 + FIXED_POINTS.side_rtol)])
        s = np.unique(np.concatenate([np.geomspace(a, b, n_intervals * FIXED_POINTS.scan_points), sides]))
        return s, np.array([self.nu(x) for x in s]), thinned

    def _between(self, nu, extent, scan):
        """All solutions; those below ``far`` are found in a scan of their extent."""
        low, high = extent
        roots = self._crossings(nu, *scan[:2])
        if scan[2] and roots:
            best = self._largest(nu, roots)
            width = (high / low) ** (4 / FIXED_POINTS.max_transitions)  # several left-out transitions wide
            local_scan = self._scan(max(best / width, low), min(best * width, high))
            roots = merge(roots, self._crossings(nu, *local_scan[:2]))
        # If the scan fails to find any, return the better end; its residual then shows the failure.
        return self._with_last(nu, roots or [min((low, high), key=lambda s: abs(self.nu(s) - nu))])

    def _crossings(self, nu, s, values):
        roots = crossings(lambda x: self.nu(x) - nu, s, values >= nu, xtol=1e-300, rtol=1e-15)
        # a change of sign at a left-out transition is no root
        return [s for s in roots if abs(self.nu(s) - nu) <= 1e-9 * nu]

    def _extreme(self, a, b, sign):
        """Minimum (sign = 1) or maximum (sign = -1) of nu(s) between a and b."""
        for _ in range(2):  # the second time with all transitions
            s, values, thinned = self._scan(a, b)
            inside = (s >= a) & (s <= b)
            s, values = s[inside], sign * values[inside]
            i = int(np.argmin(values))
            a, b = s[max(i - 1, 0)], s[min(i + 1, s.size - 1)]
            if not thinned:
                break
        return sign * minimum(lambda u: sign * self.nu(math.exp(u)), np.log(s), values, xatol=1e-9)[1]
