"""Transition to the differences of students and teachers: when, and which student has learned which teacher."""

from typing import NamedTuple

import numpy as np
import scipy

from ..gaussian.two_point import LINEAR, QUADRATIC

__all__ = ["can_transition", "transition_error", "quadratic_frame", "reproduces", "unfit"]


class TransitionOptions(NamedTuple):
    """Tunable numbers of the transition."""

    # Standard deviation of lambda_k - a_k, relative to min(1, std of a_k), below which the transition is made. Above
    # it, students may still change the teacher that they learn; empirical.
    max_difference: float = 0.1
    # Largest relative error of eps_g due to the subtraction at the transition. If it is larger, the differences are
    # dominated by rounding already, and the run continues with Q and R.
    max_error: float = 0.01
    # Points at which g(-x) = -g(x) is checked.
    parity_points: tuple[float, ...] = (0.3, 1.7)


TRANSITION = TransitionOptions()


def can_transition(model, state, *, max_difference=TRANSITION.max_difference):
    """Frame F (K, M) in which every student has nearly learned its teacher, and a sentence; else (None, reason).

    The fields of the teachers in this frame are a = F nu, and sum_k v_k g(a_k) is the teacher's output.  F is a
    permutation with signs, from the assignment that maximises the correlations of students and teachers; quadratic
    networks only learn W^T diag(v) W, and F is the orthogonal frame closest to the students.

    Parameters
    ----------
    model : Model
        The learning problem.
    state : State
        Order parameters; bound to the model or not.
    max_difference : float
        Largest standard deviation of lambda_k - a_k, relative to min(1, std of a_k), for which a student has learned
        its teacher.

    Returns
    -------
    (ndarray or None, str)

    Notes
    -----
    Requirements: K = M, the same activation (erf, linear or quadratic) of students and teachers, student output weights
    that are fixed and equal to the teacher's, no label noise, no weight decay, no drift, a teacher that acts on x.
    relu is not supported: its closure is not smooth where students and teachers are aligned, so path integrals do not
    converge there.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> from overlaps.flow.late_transition import can_transition
    >>> model = ov.committee_machine(2, 2, eta=0.5)
    >>> swap = 0.999 * np.eye(2)[::-1]
    >>> can_transition(model, ov.State.from_overlaps(model, Q=np.eye(2), R=swap, T=np.eye(2)))[0]
    array([[0., 1.],
           [1., 0.]])
    >>> can_transition(model, ov.State.from_overlaps(model, Q=np.eye(2), R=0 * swap, T=np.eye(2)))[0] is None
    True
    """
    state = state.on(model) if state.s is None else state  # a bound state is not checked again, which would be slow
    reason = unfit(model, state)
    if reason:
        return None, reason
    frame, reason = _frame(model, state)
    if frame is None:
        return None, reason
    variances = _variances(state, frame)
    T = np.diag(frame @ state.T @ frame.T)
    largest = np.sqrt(np.max(variances / np.maximum(np.minimum(T, 1.0), 1e-300)))
    if largest > max_difference:
        reason = f"not every student has specialised: the largest relative difference is {largest:.2g}"
        return None, f"{reason} > {max_difference}."
    if transition_error(state, frame) > TRANSITION.max_error:
        return None, "students and teachers are equal up to the rounding of Q and R."
    return frame, f"students and teachers differ by {largest:.2g} at most."


def transition_error(state, frame):
    """Relative error of x^2 = sum_k E[(lambda_k - a_k)^2] due to rounding of the overlaps: about 1e-16 tr(Q + T) / x^2.

    The integration of Q and R adds its own error in them, divided by x^2.  Both are smaller for larger differences, so
    that an early transition is more accurate.

    Parameters
    ----------
    state : State
        Order parameters, bound to a model.
    frame : array_like, shape (K, M)
        F with a = F nu, from :func:`can_transition`.

    Returns
    -------
    float
        Infinite where students and teachers are equal.

    Notes
    -----
    Heuristic: the size of the terms that cancel, times half a unit of rounding.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> from overlaps.flow.late_transition import transition_error
    >>> model = ov.committee_machine(1, 1, eta=0.5)
    >>> early, late = (ov.State.from_overlaps(model, Q=[[1.0]], R=[[1 - x]], T=[[1.0]]) for x in (1e-2, 1e-6))
    >>> bool(transition_error(early, np.eye(1)) < 1e-13 < transition_error(late, np.eye(1)))
    True
    """
    rounded = np.trace(state.Q) + 2 * np.abs(np.sum(frame * state.R)) + np.trace(frame @ state.T @ frame.T)
    x2 = np.sum(_variances(state, frame))
    return float(np.finfo(float).eps / 2 * rounded / x2) if x2 > 0 else np.inf


def _variances(state, frame):
    """E[(lambda_k - a_k)^2] (K,), a = F nu; zero if rounding makes it negative."""
    crossed = state.R @ frame.T
    return np.maximum(np.diag(state.Q - crossed - crossed.T + frame @ state.T @ frame.T), 0.0)


def unfit(model, state):
    """Why the differences do not describe this problem, or an empty string.

    Parameters
    ----------
    model, state : Model, State
        The learning problem and its order parameters, bound to it.

    Returns
    -------
    str
        One clause for each requirement of :func:`can_transition` that is not met.

    Examples
    --------
    >>> import overlaps as ov
    >>> from overlaps.flow.late_transition import unfit
    >>> model = ov.committee_machine(2, 2, eta=0.5, noise=0.1)
    >>> unfit(model, model.random_start(N=100, rng=1))
    'noise = 0.1 keeps eps_g at a finite value; expected 0'
    """
    kernels = model.activation.closed_forms
    reasons = {
        f"K = {model.K} students and M = {model.M} teachers; expected K = M": model.K != model.M,
        f"activation {model.activation.name}; expected erf, linear or quadratic, whose closures are smooth":
            kernels is None or kernels.differences is None,
        "student and teacher activations differ": model.activation != model.teacher_activation,
        f"eta_v = {model.eta_v:g}; expected a fixed second layer": model.trains_v,
        f"noise = {model.noise:g} keeps eps_g at a finite value; expected 0": model.noise > 0,
        f"weight_decay = {model.weight_decay[0]:g} moves the fixed point; expected 0": model.weight_decay[0] > 0,
        f"constraint = {model.constraint!r} restricts the students; expected none": model.spherical,
        f"drift = {model.drift:g} moves the teachers; expected 0": model.drift > 0,
        "the teacher does not act on x (T differs from sum_l tau^l/s_l)": not state.sees_inputs,
    }  # fmt: skip
    return "; ".join(reason for reason, holds in reasons.items() if holds)


def _frame(model, state):
    """A frame F in which the teacher is sum_k v_k g((F nu)_k): (F, sentence) or (None, reason)."""
    v, v_star, R = state.v, model.v_star, state.R
    if model.activation.code == QUADRATIC:
        frame = quadratic_frame(v, v_star, R)
        if frame is not None:
            return frame, "quadratic: orthogonal frame."
    norms = np.sqrt(np.outer(np.diag(state.Q), np.diag(state.T)))
    k, m = scipy.optimize.linear_sum_assignment(np.abs(R) / np.maximum(norms, 1e-300), maximize=True)
    frame = np.zeros((model.K, model.M))
    frame[k, m] = np.where(R[k, m] < 0, -1.0, 1.0)
    if not reproduces(model, v, frame):
        return None, f"students align to the teachers {m}; v = {v} does not reproduce v* = {v_star} in this order."
    return frame, f"students align to the teachers {m}."


def reproduces(model, v, frame):
    """Whether sum_k v_k g((F nu)_k) is the teacher, up to rounding."""
    if model.activation.code == QUADRATIC:
        return np.allclose(frame.T * v @ frame, np.diag(model.v_star), rtol=0, atol=1e-14 * np.abs(v).max())
    linear = model.activation.code == LINEAR
    units = linear or (np.all(np.isin(frame, (-1, 0, 1))) and np.all(np.abs(frame).sum(axis=1) == 1))
    g, x = model.activation.g, np.array(TRANSITION.parity_points)
    if not linear and np.any(frame < 0) and not np.array_equal(g(-x), -g(x)):
        return False  # a student opposite to its teacher equals it for odd activations only
    return units and np.allclose(v @ frame, model.v_star, rtol=1e-15, atol=0)


def quadratic_frame(v, v_star, R):
    """F with F^T diag(v) F = diag(v*) that minimises sum_k v_k E[(lambda_k - (F nu)_k)^2], or None.

    For output weights of one sign this is the orthogonal Procrustes problem.
    """
    sign = np.sign(v[0])
    if not (np.all(sign * v > 0) and np.all(sign * v_star > 0)):
        return None
    left, right = np.sqrt(sign * v), np.sqrt(sign * v_star)
    U, _, Vt = np.linalg.svd(left[:, None] * R * right)
    return (U @ Vt) * right / left[:, None]
