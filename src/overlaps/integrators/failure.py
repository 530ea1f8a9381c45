"""Why a step has failed, in a sentence: divergence, vanished norms, lost positivity, a vanished step size."""

from typing import NamedTuple

import numpy as np

from .._base import check
from ._steps import STEP_CHECKS
from .monitors import Monitor, Stop


class FailureOptions(NamedTuple):
    """Tunable numbers of the reasons."""

    # Growth of the largest overlap, relative to the larger one of the start and 1, that ends a run as diverged.
    # Smaller: networks that would still return to a plateau are stopped.
    divergence_factor: float = 1e10
    # Q_kk of a kinked student, relative to teachers, below which it explains why the step size became too small; and
    # the same for a student whose norm falls, because implicit methods stop at up to a thousandth of the teachers'
    # norm. Larger: students that are small for other reasons are taken for the cause.
    lost_norm: float = 1e-8
    lost_falling_norm: float = 1e-6
    # Relative time ahead of a step that became too small at which the closure is evaluated for its failure reason.
    # Halved: rounding may hide the reason; much larger: the state there is far from the run.
    ahead: float = 1e-6


FAILURE = FailureOptions()
LOST_POSITIVITY = "the field covariance lost positivity"  # message of a run that ``evolve`` repeats with a projection


class Failure(Monitor):
    """Ends a run after a step that failed, and names the reason."""

    def __init__(self, system, options, y):
        self.system, self.rtol, self.atol = system, options["rtol"], options["atol"]
        self.step = options.get("step")
        # at least the factor itself, because small starts may grow by large factors without a divergence
        self.max_overlap = FAILURE.divergence_factor * max(1.0, np.max(np.abs(y)))

    def after_step(self, integrator):
        """Stop if there is a reason; the failed step is not recorded."""
        reason, alpha = self.reason(integrator), integrator.before[0]
        return Stop(f"stopped at alpha = {alpha:.6g}: {reason}", until=alpha) if reason else None

    def reason(self, integrator):
        """A sentence if the step failed, else None; S, A, B are then those at its end."""
        system, y, failure = self.system, integrator.y, integrator.failure
        rates, size = (system.model.eta, self.step), np.max(np.abs(y))
        # an invalid factor of the schedule: its own message is more specific than a step size that became too small
        if failure and system.refusal:
            return system.refusal
        # half of the decades to divergence: a step that fails there fails because of the growth
        growing = not size <= self.max_overlap**0.5  # also true for nan
        if not size <= self.max_overlap or (failure and growing):
            return diverged(size, *rates)
        system.close(y)
        lost = self._lost_direction(integrator)
        if failure and lost is None:
            return self._vanished_step(integrator, size)
        return lost or self._unresolved_norm() or self._lost_positivity(integrator, growing and diverged(size, *rates))

    def _vanished_step(self, integrator, size):
        system, t, y = self.system, integrator.t, integrator.y
        failure = integrator.failure.rstrip(".")
        vanished = f"{failure}: the step size vanished while the overlaps were finite (largest {size:.3g})."
        change = FAILURE.ahead * max(abs(t), 1.0) * system.rhs(t, y)
        system.rhs(t, y + change)  # the closure may have a reason there, which the run appends
        if system.closure.message:
            return vanished
        no_jacobian_reason = system.no_jacobian_reason()
        if no_jacobian_reason:
            return f"{vanished} Here {no_jacobian_reason}, which implicit methods need: try method='DOP853'."
        stiff = ", or the problem is stiff: try a smaller eta or method='structured'"
        advice = stiff if integrator.traits.one_step else ": try a smaller eta"
        return f"{vanished} They may blow up in finite time (eta = {system.model.eta:g} too large){advice}."

    def _lost_direction(self, integrator):
        """A sentence about a kinked student whose norm a gradient flow has driven to zero, or None.

        Its norm falls at a finite speed, |w|' = -c, and the direction of the force c turns with w: at |w| = 0 the
        velocity jumps, and any solver would shorten its steps without end.  SGD has no such point, because Q_kk'
        contains C_kk > 0.  Where the step did not fail, norms below atol count as zero.
        """
        system, t = self.system, integrator.t
        if system.second_order > 0 or not system.closure.kinked:
            return None
        (K, fields), fraction, atol = system.unit_fields(system.S), check.LIMITS.zero_norm, self.atol
        norms = np.diag(fields)
        k = int(np.argmin(norms[:K]))
        phrase = f"Q_kk = {norms[k]:.3g}"
        if integrator.failure:
            system._gather(system.rhs(t, integrator.y), system.dS, system.dw)
            speed = system.unit_fields(system.dS)[1][k, k]
            atol, fraction = np.inf, FAILURE.lost_falling_norm if speed < 0 else FAILURE.lost_norm
            phrase += f", 0 near alpha = {t - 2 * norms[k] / speed:.6g}" if speed < 0 else ""
        if not norms[k] <= min(atol, fraction * max(norms[K:].max(), 1.0)):  # also true for nan
            return None
        return (
            f"student {k} has shrunk to norm zero ({phrase}). The gradient of a unit "
            "with a kink at the origin has no direction there, so the flow cannot be continued. Leave this student out "
            "from here on, or take SGD, whose noise keeps norms positive (gradient_flow=False)."
        )

    def _unresolved_norm(self):
        """A sentence about a student under a learning rule whose falling norm is below the tolerance, or None."""
        system = self.system
        if np.isfinite(system.closure.gradient_rate):
            return None
        K, fields = system.unit_fields(system.S)
        norms = np.diag(fields)[:K]
        k = int(np.argmin(norms))
        if not (norms[k] < STEP_CHECKS.unresolved_norm * self.atol and system.A[k, k] < 0):
            return None
        return (
            f"student {k} has shrunk to Q_kk = {norms[k]:.3g}: the norm fell below what atol resolves; lower eta, "
            "or constraint='sphere'."
        )

    def _lost_positivity(self, integrator, diverged):
        """A sentence about a negative eigenvalue of the fields' covariance, or None; ``diverged`` is a better one."""
        system, rounding = self.system, allowed_negative_eigenvalue(self.rtol)
        S = system.S.reshape(-1, *2 * system.S.shape[1:])
        if check.positive_definite(S):
            return None
        lowest, trace = np.linalg.eigvalsh(S)[:, 0], np.trace(S, axis1=1, axis2=2)
        worst = np.argmax(-rounding * trace - lowest)
        lowest = lowest[worst]
        if lowest >= -rounding * trace[worst]:
            return None
        if diverged:
            return diverged
        # the internal state of LSODA cannot be replaced by a projected one
        projected = system.psd is None or integrator.traits.adjustable
        singular = "From a singular start try method='DOP853' or 'structured'."
        remedy = "Try smaller rtol and atol." if projected else singular
        return f"{LOST_POSITIVITY} (lowest eigenvalue {lowest:.3g}), an integration error. {remedy}"


def allowed_negative_eigenvalue(rtol):
    """Negative eigenvalue of the fields, relative to their trace, that may be due to errors of the steps."""
    return max(check.LIMITS.psd_tol, 10 * rtol)


def diverged(size, eta, step=None):
    """Message about overlaps that diverge."""
    if step is not None:
        return (
            f"the overlaps diverge (largest |overlap| = {size:.3g}); eta * step = {eta * step:g} is probably above "
            "2/sharpness, the stability limit: 2 over the largest eigenvalue of ov.hessian, less if C is large. Try a "
            "smaller step or eta."
        )
    return (
        f"the overlaps diverge (largest |overlap| = {size:.3g}); eta = {eta:g} is probably above the stability limit. "
        "Try a smaller eta, or gradient_flow=True for the small-eta limit."
    )
