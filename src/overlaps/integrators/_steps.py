"""Common parts of all compiled steps: how they are controlled, and which of them are worth a look from Python.

A ``advance`` is one compiled function that makes steps until it has a reason to come back.  Python owns all arrays; a
march changes them in place, so that the next call goes on where the last one ended, after Ctrl-C, too.  Two small
arrays hold what is kept between calls, under names instead of numbers:

``clock`` (reals): T, the time of the last accepted step; H, the length of the next one; ACCOUNT, the sum of the errors
of eps_g that steps have left, relative to it; BEFORE, the time before the last step.
``place`` (integers): OUTPUT, the index of the next output time; RECORDED, rows of ``out`` that are filled; SPENT,
evaluations of the right-hand side so far.

Each solver appends slots of its own.  ``out`` is the room for records: a row is (y, account, t).  Python empties it
whenever a march comes back, and sets RECORDED to 0.

A march comes back, and Python looks, when

* no step is small enough: VANISHED;
* the budget of evaluations is spent, the last output time is reached, or ``out`` is full: PLAIN.  Python then looks for
  a key that was pressed, moves the progress bar and tests rules of quadrature;
* the last step may be a reason to stop: LOOK.  Overlaps beyond ``most``, eps_g at ``level`` or below, a student with a
  kink or under a rule whose norm is lost, a covariance that is not positive, kinked students nearly parallel.  The
  step itself is accepted but not recorded: Python decides what it means and records it.
"""

from functools import cache
from math import inf, sqrt
from typing import NamedTuple

from .._base.jit import BOOL, REAL, compile_once, jit, typed_namedtuple
from ..activations.bound import CLOSURE
from ..flow import FLOW

T, H, ACCOUNT, BEFORE = range(4)  # of ``clock``
OUTPUT, RECORDED, SPENT = range(3)  # of ``place``
VANISHED, PLAIN, LOOK = 0, 1, 2  # how a march comes back
# Evaluations between two looks at most: more, and Ctrl-C is late; fewer, and Python shows in the time of small
# closures.
LARGEST = 10_000
# Of atol: squared norm of a student that learns by a rule. Below, its angle is lost in the tolerance, and the run may
# end with a sentence.
UNRESOLVED = 1e-2
# Sine^2 of the angle of two kinked students. Below, every step is watched, because the smallest angle of a run decides
# what rtol is worth.
NEAR = 1e-5


@typed_namedtuple
class Control(NamedTuple):
    """Conditions that accept a step, or make it worth a look."""

    rtol: REAL
    atol: REAL
    max_step: REAL
    most: REAL  # the largest overlap that is no divergence
    kinks: BOOL  # whether students have one
    level: REAL  # of eps_g at which a run may stop; -inf for none, nan to look at every step
    slack: REAL  # negative eigenvalue of the fields, over their trace, that is excused


@jit(fast=True, no_reference_counting=True)
def positive(S, shift, c):
    """Whether S + shift is positive definite, by Cholesky's decomposition, for which c has room; False for nan."""
    for i in range(S.shape[1]):
        for j in range(i + 1):
            total = S[i, j] + (shift if i == j else 0.0)
            for k in range(j):
                total -= c[i, k] * c[j, k]
            if i > j:
                c[i, j] = total * c[j, j]
            elif total > 0.0:
                c[i, i] = 1.0 / sqrt(total)
            else:
                return False
    return True


@jit(no_reference_counting=True)
def parallel(S, K):
    """Whether two students are parallel up to an angle whose sine^2 is NEAR, in some group of blocks."""
    for at in range(0, S.shape[0], S.shape[1]):
        for i in range(K):
            for j in range(i):
                if abs(1.0 - S[at + i, j] * S[at + i, j] / max(S[at + i, i] * S[at + j, j], 1e-300)) < NEAR:
                    return True
    return False


@jit(no_reference_counting=True)
def largest(x):
    """Largest |x_l|; inf where one is nan."""
    a = b = c = d = bad = 0.0  # four chains: a comparison waits for the one before
    for l in range(0, x.size - 3, 4):
        a, b, c, d = max(a, abs(x[l])), max(b, abs(x[l + 1])), max(c, abs(x[l + 2])), max(d, abs(x[l + 3]))
        bad += 0.0 * (x[l] + x[l + 1]) + 0.0 * (x[l + 2] + x[l + 3])
    for l in range(x.size - x.size % 4, x.size):
        a, bad = max(a, abs(x[l])), bad + 0.0 * x[l]
    return max(max(a, b), max(c, d)) if bad == 0.0 else inf


@jit(no_reference_counting=True)
def needs_check(constants, work, control, y, eps_g):
    """(Whether y may be a reason to stop, whether two kinked students are nearly parallel) at the last evaluation."""
    K, ruled, S = constants.K, constants.gradient_rate == inf, work.S
    kinks, atol = control.kinks, control.atol
    n, stop = S.shape[1], not largest(y) <= control.most or not eps_g > control.level
    for at in range(0, len(S), n):
        part, trace = S[at : at + n], 0.0
        for i in range(n):
            trace += part[i, i]
            stop = stop or (kinks and i < K and part[i, i] < 2 * atol)
            stop = stop or (ruled and i < K and part[i, i] < UNRESOLVED * atol)
        stop = stop or not positive(part, control.slack * trace, work.dS)
    return stop, kinks and parallel(S, K)


@cache
def ready(flow, kernel, advance, signature):
    """The kernels of a flow and a closure; ``advance`` is compiled for the one signature, or read from the disk."""
    compile_once(advance, signature)
    flow.compile(FLOW.args)  # with a return type numba would compile what Python calls once more
    kernel.compile(CLOSURE.args)
    return flow, kernel
