"""Spike, alignment and bulk of the first layer after one giant gradient step."""

import math
from typing import NamedTuple

import numpy as np

from ..._base import Immutable, check
from ...activations.activation import Activation
from .averages import QUADRATURE, even_part, function_of, hermite_moments, kinks_of

__all__ = ["OneStep", "one_step"]


class DerivativeOptions(NamedTuple):
    """Periodic grid on which a student is differentiated: half width, and first spacing."""

    half_width: float = 12.0
    spacing: float = 0.1


DERIVATIVE = DerivativeOptions()


class OneStep(Immutable, repr=True):
    """First layer after one step; made by :func:`one_step`.

    Attributes
    ----------
    r, c, gamma : float
        Norm of the spike added to every row, squared norm of the rest of a row, overlap of spike and target directions.
    tau : float
        Rescaled learning rate.
    h1, vs : float
        E[sigma'] and Var[sigma'] of the student.
    h1_star, h2_star : float
        E[z sigma_*] and E[sigma_*^2] of the target, label noise included.
    """

    r: float
    c: float
    gamma: float
    tau: float
    h1: float
    vs: float
    h1_star: float
    h2_star: float


def one_step(
    student, target, *, eta_tilde, alpha0, beta, scaling="d", noise=0.0, breakpoints=(), student_breakpoints=()
):
    r"""Parameters (r, c, gamma) of the spiked random features after one gradient step.

    .. math::
        A = \sqrt{h_1^{*2} + h_2^*/\alpha_0}, \qquad r = \tau h_1 A, \qquad \gamma = h_1^*/A, \qquad
        c = 1 + \tau^2\,\mathrm{Var}[\sigma']\, h_2^*/\alpha_0

    with tau = eta_tilde / beta for a learning rate eta_tilde d, and tau = eta_tilde for eta_tilde p. *Asymptotic*: d ->
    infinity at fixed p/d, n0/d; initial rows uniform on the sphere, initial readout 1/sqrt(p). Source: Cui et al.
    (2024), arXiv:2402.04980, Result 3.1: (9), (10), (11), (12); derivation in Appendix A.

    Parameters
    ----------
    student, target : Activation or callable
        sigma, odd, and sigma_*, of zero mean.
    eta_tilde : float
        Learning rate over d (``scaling="d"``) or over p (``scaling="p"``).
    alpha0 : float
        Samples of the gradient step, n0/d; infinity is the population gradient, 0 no step at all.
    beta : float
        Width, p/d.
    scaling : {"d", "p"}
        Unit of the learning rate.
    noise : float
        Standard deviation of the label noise in this step.
    breakpoints, student_breakpoints : sequence of float
        Jumps and kinks of the target; kinks of the student, whose derivative must then be given by an ``Activation``.

    Returns
    -------
    OneStep

    Raises
    ------
    ValueError
        A student that is not odd or jumps, a target of nonzero mean, parameters out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from overlaps.static.spiked.one_step import one_step
    >>> step = one_step(np.tanh, np.sin, eta_tilde=2.0, alpha0=1.0, beta=0.5)
    >>> round(step.r, 8), round(step.gamma, 8), round(step.c, 8)
    (2.16732475, 0.67803214, 1.67460268)
    """
    eta_tilde = check.number("eta_tilde", eta_tilde, least=0, hint="eta_tilde is the learning rate over d or p.")
    beta = check.number("beta", beta, above=0, hint="beta is the width, p/d.")
    noise = check.number("noise", noise, least=0, hint="noise is a standard deviation.")
    check.choice("scaling", scaling, ("d", "p"), "The rate is eta_tilde d or eta_tilde p.")
    if check.axes("alpha0", alpha0) or alpha0 != math.inf:
        alpha0 = check.number("alpha0", alpha0, least=0, hint="alpha0 = n0/d; math.inf is the population gradient.")
    h1, vs = student_moments(student, student_breakpoints)
    h1_star, second = target_moments(target, breakpoints)
    h1_star = 0.0 if abs(h1_star) <= 1e-12 * math.sqrt(second) else h1_star  # rounding of an even target
    h2_star = second + noise**2
    tau = eta_tilde / beta if scaling == "d" else eta_tilde
    if alpha0 == 0:
        return OneStep(0.0, 1.0, 0.0, tau, h1, vs, h1_star, h2_star)
    A = math.sqrt(h1_star**2 + h2_star / alpha0)
    gamma = max(-1.0, min(1.0, h1_star / A)) if A > 0 else 0.0
    return OneStep(tau * h1 * A, 1 + tau**2 * vs * h2_star / alpha0, gamma, tau, h1, vs, h1_star, h2_star)


def target_moments(target, breakpoints=()):
    """E[z sigma_*] and E[sigma_*^2] over N(0, 1) of a centred target."""
    points = kinks_of(target, breakpoints, "breakpoints")
    mean, slope, _, second = hermite_moments(function_of(target, "target"), "target", points)
    if abs(mean) > 1e-8 * math.sqrt(second):
        raise ValueError(
            f"target has the mean {mean:.6g} over N(0, 1); expected 0. Subtract it: lambda x: target(x) - {mean:.10g}."
        )
    return slope, second


def student_moments(student, student_breakpoints=()):
    """E[sigma'] and Var[sigma'] over N(0, 1) of an odd student."""
    f, points = function_of(student, "student"), kinks_of(student, student_breakpoints, "student_breakpoints")
    even = even_part(f)
    if not even <= QUADRATURE.odd_tol:
        raise ValueError(
            f"student = {check.shown(student)} is not odd: |sigma(x) + sigma(-x)| reaches {even:.2g} of its size; "
            "expected an odd function, e.g. np.tanh, np.sin, ov.erf. One step on other functions makes more than one "
            "spike." + check.see("spiked", "Cases not covered")
        )
    if points:
        return kinked_moments(student, f, points)
    h1 = hermite_moments(f, "student")[1]
    return h1, square_of_derivative(f) - h1**2


def kinked_moments(student, f, points):
    """The same for a student with kinks, from its derivative."""
    sides = np.array(points)[:, None] + 1e-9 * np.array([-1.0, 1.0])
    jump = np.max(np.abs(np.diff(f(sides)))) / max(np.max(np.abs(f(sides))), 1.0)
    if not isinstance(student, Activation) or jump > 1e-6:
        fault = "jumps" if jump > 1e-6 else "has kinks (student_breakpoints) and no given derivative"
        raise ValueError(
            f"student = {check.shown(student)} {fault}; expected a student with a derivative for the gradient step. "
            "Give ov.Activation(name, g, dg) of a continuous g, or r, c and gamma by hand."
        )
    h1, _, _, square = hermite_moments(student.dg, "student", points)
    return h1, square - h1**2


def square_of_derivative(f):
    """E[f'^2] by Fourier differentiation of f(z) exp(-z^2/4), exponentially accurate for analytic functions."""
    before = error = math.inf
    for n in range(QUADRATURE.max_refinements + 1):
        size = 2 * math.ceil(DERIVATIVE.half_width / (DERIVATIVE.spacing * QUADRATURE.step_ratio**n))
        z = 2 * DERIVATIVE.half_width / size * (np.arange(size) - size // 2)
        F = f(z) * np.exp(-0.25 * z * z)
        wave = 1j * np.pi / DERIVATIVE.half_width * np.arange(size // 2 + 1)
        wave[-1] = 0.0
        slope = np.fft.irfft(wave * np.fft.rfft(F), size) + 0.5 * z * F
        value = float(slope @ slope) * 2 * DERIVATIVE.half_width / size / math.sqrt(2 * math.pi)
        error = abs(value - before) / max(value, 1e-300)
        if error <= QUADRATURE.tol:
            return value
        before = value
    raise ValueError(
        f"student has no smooth derivative: E[sigma'^2] changes by {error:.1e} (relative) with the grid, expected "
        f"{QUADRATURE.tol:g}. Kinked students need ov.Activation(name, g, dg) and student_breakpoints=(t_1, ...)."
    )
