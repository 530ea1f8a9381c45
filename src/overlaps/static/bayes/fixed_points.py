"""All solutions of nu = s (Delta + eps(s)), s = nu / (Delta + eps): where the curve nu(s) rises through nu.

nu(s) falls at every transition and may fall between; solutions on falling pieces are maxima of the free energy. Both
ends of the set of solutions are limits of the iteration s <- nu / (Delta + eps(s)), which is monotone: increasing from
nu / (Delta + g(1)), decreasing from nu / Delta.
"""

import math

import numpy as np
from scipy.optimize import brentq

SAME = 1e-11  # relative distance in s of two solutions that are one
POINTS = 400  # of the scan between the least and the largest solution
TRANSITIONS = 2_000  # positions in the scan; more are thinned out, and looked at again near the best solution
ITERATIONS = 60
FAR = 1e12  # lam of the weakest feature beyond which a noiseless solution is s = infinity


class FixedPoints:
    """The curve nu(s) of given readouts and noise, and its intersections with nu."""

    def __init__(self, channel, v2, tail, Delta):
        self.channel, self.v2, self.tail, self.Delta = channel, v2, tail, Delta

    def nu(self, s):
        return s * (self.Delta + self.channel.totals(s, self.v2, self.tail)[0])

    def potential(self, s, nu):
        r"""Phi = sum_i s(q_i) - nu ln(Delta + eps); the free entropy is d/2 times this."""
        if math.isinf(s):
            return math.inf
        eps, price, _ = self.channel.totals(s, self.v2, self.tail)
        return -price - nu * math.log(self.Delta + eps)

    def solve(self, nu):
        """All solutions found, ascending in s; infinity is the perfect one without noise."""
        perfect = [math.inf] if self.Delta == 0 and nu > len(self.v2) else []
        low, settled = self._climb(nu, nu / (self.Delta + self.channel.total))
        if low is None:
            return perfect
        above = self._above(nu, low)
        high, settled_above = (above, False) if self.nu(above) <= nu else self._climb(nu, above)
        if settled and settled_above and high <= low * (1 + 10 * SAME):
            return [self._polish(nu, low), *perfect]
        found = self._crossings(nu, low, high)
        if self._inside(low, high).size > TRANSITIONS and found:
            best = max(found, key=lambda s: self.potential(s, nu))
            width = (high / low) ** (4 / TRANSITIONS)  # a few thinned-out transitions on either side
            found = merge(found, self._crossings(nu, max(best / width, low), min(best * width, high)))
        # nothing at all would be a failure of the scan: the residual of what is returned then says so
        return (found or [min((low, high), key=lambda s: abs(self.nu(s) - nu))]) + perfect

    def _climb(self, nu, s):
        """Limit of the monotone iteration, or where it stands when it is slow: a bound on all solutions either way."""
        if not self.v2[-1] * s < FAR:
            return None, False
        for _ in range(ITERATIONS):
            before, s = s, nu / (self.Delta + self.channel.totals(s, self.v2, self.tail)[0])
            if abs(s - before) <= SAME * s:
                return s, True
            if self.Delta == 0 and self.v2[-1] * s > FAR:
                return None, False
        return s, False

    def _above(self, nu, low):
        """A bound above all finite solutions."""
        if self.Delta:
            return nu / self.Delta
        high = 2 * low
        while self.v2[-1] * high < FAR and (self.nu(high) <= nu or self.v2[-1] * high < 100):
            high *= 2
        return high

    def _polish(self, nu, s):
        """The single solution at s to rounding, unless a transition is too close for a bracket."""
        for width in (3 * SAME, 1e3 * SAME):
            a, b = s * (1 - width), s * (1 + width)
            if not self._inside(a, b).size and self.nu(a) < nu < self.nu(b):
                return brentq(lambda x: self.nu(x) - nu, a, b, xtol=1e-300, rtol=1e-15)
        return s

    def _inside(self, a, b):
        """Transition positions lam_jump / v_i^2 between a and b, ascending."""
        ascending, found = self.v2[::-1], [np.empty(0)]
        for jump in self.channel.jumps:
            first, last = np.searchsorted(ascending, [jump.lam / b, jump.lam / a])
            found.append(jump.lam / ascending[first:last])
        return np.unique(np.concatenate(found))

    def _crossings(self, nu, a, b):
        a, b = a * (1 - 100 * SAME), b * (1 + 100 * SAME)
        transitions = self._inside(a, b)
        if transitions.size > TRANSITIONS:
            transitions = transitions[np.linspace(0, transitions.size - 1, TRANSITIONS).astype(int)]
        sides = np.concatenate([transitions * (1 - 1e-12), transitions * (1 + 1e-12)])
        s = np.unique(np.concatenate([np.geomspace(a, b, POINTS), sides]))
        excess = np.array([self.nu(x) for x in s]) - nu
        rising = np.flatnonzero((excess[:-1] < 0) & (excess[1:] >= 0))
        roots = [brentq(lambda x: self.nu(x) - nu, s[i], s[i + 1], xtol=1e-300, rtol=1e-15) for i in rising]
        return [s for s in roots if abs(self.nu(s) - nu) <= 1e-9 * nu]  # not at a jump within a thinned-out interval


def merge(first, second):
    """Both lists of solutions in order, those that agree once."""
    result: list[float] = []
    for s in sorted([*first, *second]):
        if not result or s > result[-1] * (1 + SAME):
            result.append(s)
    return result
