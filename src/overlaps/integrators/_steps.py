"""Common parts of the compiled steps: indices of their state, return codes, and the check after each step.

``advance`` of each solver is one compiled function that makes steps until it has a reason to return.  Python owns all
arrays; ``advance`` changes them in place, so the next call continues where the last one ended, after Ctrl-C, too.
A structured array of one entry, ``state``, holds the numbers between calls; each solver adds fields of its own to
``STEP_FIELDS``.  ``out`` takes the recorded points: a row is (y, accumulated error, t).  Python empties it after each
return, and sets ``n_recorded`` to 0.

``advance`` returns to Python when

* the step size has become too small: ``RETURN.step_too_small``;
* the budget of evaluations is spent, the last output time is reached, or ``out`` is full: ``RETURN.pause``.  Python
  then handles a pressed key, moves the progress bar and tests quadratures;
* ``out`` is full in the middle of a step: ``RETURN.out_full``.  Python empties it and calls again;
* the last step may be a reason to stop: ``RETURN.check_in_python``.  This happens if an overlap exceeds
  ``max_overlap``, if eps_g is at ``level`` or below, if a student with a kink or under a learning rule has lost its
  norm, if a covariance is not positive, or if kinked students are nearly parallel.  The step itself is accepted, but
  its end is not recorded: Python decides how to continue and records it.
"""

from math import inf, sqrt
from typing import NamedTuple

import numpy as np
from numba import from_dtype, types

from .._base.jit import BOOL, REAL, compile_once, jit, typed_namedtuple
from ..activations.bound import CLOSURE
from ..flow import FLOW

STEP_FIELDS = {
    "t": float,  # time of the last accepted step
    "h": float,  # length of the next step
    "accumulated_error": float,  # sum of the errors of eps_g that the steps have left, relative to eps_g
    "t_before": float,  # time before the last step
    "next_output": int,  # index of the next output time
    "n_recorded": int,  # rows of ``out`` that are filled
    "evaluations": int,  # evaluations of the right-hand side so far
}


def state_type(own):
    """The type of a state for NumPy, with the fields of a solver besides those of all, and for numba."""
    dtype = np.dtype((np.record, [*(STEP_FIELDS | own).items()]))
    return dtype, types.Array(from_dtype(dtype), 1, "C")


class Return(NamedTuple):
    """Return codes of ``advance``; ``step_accepted`` is internal."""

    step_too_small: int = 0
    pause: int = 1
    check_in_python: int = 2
    new_jacobian: int = 3  # the BDF needs a Jacobian
    step_accepted: int = 4
    out_full: int = 5  # more output times lie inside the last step of DOP853 than ``out`` has rows left


class StepChecks(NamedTuple):
    """Tunable numbers of the checks after a step."""

    # Evaluations between two returns to Python. Doubled: Ctrl-C waits longer; halved: small closures lose time in
    # Python.
    max_evaluations: int = 10_000
    # Squared norm of a student under a learning rule, in units of atol, below which its angle is lost in the tolerance;
    # the run may then end with a message.
    unresolved_norm: float = 1e-2
    # Sine^2 of the angle of two kinked students below which every step is checked, because the smallest angle of a run
    # limits the accuracy that rtol can give. Doubled: more steps return to Python.
    parallel_sine2: float = 1e-5


RETURN, STEP_CHECKS = Return(), StepChecks()


@typed_namedtuple
class Control(NamedTuple):
    """Conditions under which a step is accepted, or needs a check in Python."""

    rtol: REAL
    atol: REAL
    max_step: REAL
    max_overlap: REAL  # larger overlaps are a divergence
    kinked: BOOL  # whether students have a kink
    level: REAL  # eps_g at which a run may stop; -inf for none, nan to check every step
    slack: REAL  # negative eigenvalue of the fields, over their trace, that is allowed


@jit(fast=True, no_reference_counting=True)
def positive(S, shift, c):
    """Whether S + shift is positive definite, by Cholesky's decomposition in the workspace c; False for nan."""
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
    """Whether sine^2 of the angle of two students is below ``parallel_sine2``, in some group of blocks."""
    for at in range(0, S.shape[0], S.shape[1]):
        for i in range(K):
            for j in range(i):
                sine2 = abs(1.0 - S[at + i, j] * S[at + i, j] / max(S[at + i, i] * S[at + j, j], 1e-300))
                if sine2 < STEP_CHECKS.parallel_sine2:
                    return True
    return False


@jit(no_reference_counting=True)
def largest(x):
    """Largest |x_l|; inf where one is nan."""
    a = b = c = d = bad = 0.0  # four independent chains, because a comparison waits for the one before
    for l in range(0, x.size - 3, 4):
        a, b, c, d = max(a, abs(x[l])), max(b, abs(x[l + 1])), max(c, abs(x[l + 2])), max(d, abs(x[l + 3]))
        bad += 0.0 * (x[l] + x[l + 1]) + 0.0 * (x[l + 2] + x[l + 3])
    for l in range(x.size - x.size % 4, x.size):
        a, bad = max(a, abs(x[l])), bad + 0.0 * x[l]
    return max(max(a, b), max(c, d)) if bad == 0.0 else inf


@jit(no_reference_counting=True)
def needs_check(constants, work, control, y, eps_g):
    """(Whether y may be a reason to stop, whether two kinked students are nearly parallel) at the last evaluation."""
    K, by_rule, S = constants.K, constants.gradient_rate == inf, work.S
    kinked, atol = control.kinked, control.atol
    n, stop = S.shape[1], not largest(y) <= control.max_overlap or not eps_g > control.level
    for at in range(0, len(S), n):
        group, trace = S[at : at + n], 0.0
        for i in range(n):
            trace += group[i, i]
            stop = stop or (kinked and i < K and group[i, i] < 2 * atol)
            stop = stop or (by_rule and i < K and group[i, i] < STEP_CHECKS.unresolved_norm * atol)
        stop = stop or not positive(group, control.slack * trace, work.dS)
    return stop, kinked and parallel(S, K)


_compiled: dict = {}  # by identity, because hashing a signature takes as long as the steps of a short run


def compile_steps(flow, kernel, advance, signature):
    """The kernels of a flow and a closure; ``advance`` is compiled for the one signature, or read from the disk."""
    key = id(flow), id(kernel), id(advance)
    if key not in _compiled:
        compile_once(advance, signature)
        flow.compile(FLOW.args)  # without a return type, because numba would compile what Python calls once more
        kernel.compile(CLOSURE.args)
        _compiled[key] = flow, kernel, advance  # so that they live as long as their identity is a key
    return flow, kernel
