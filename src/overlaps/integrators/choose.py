"""What ``method="auto"`` chooses, and the sentence that says why."""

from ..flow.system import fastest_rate

MEMORY = 1e9  # bytes that the derivatives of the closure may take


def choose_method(system, span, rtol, rate=None, fastest=1.0):
    """Name of a method for the System over an interval of alpha, and why, in parentheses; ``rate`` if it is known.

    The costs are estimates, in evaluations of the right-hand side: DOP853 makes steps of 12 evaluations not longer
    than 6 / (fastest rate); BDF, of order 5, needs about 500 rtol^(-1/5) at any length (its solves counted), the
    exponential step, of order 2, about 300 rtol^(-1/2). ``fastest`` is the largest factor of a schedule on eta.
    """
    rate = max(fastest, 1e-300) * (fastest_rate(system) if rate is None else rate)
    explicit, structured, exponential = 2 * span * rate, 500 * rtol**-0.2, 300 * rtol**-0.5
    stiff = f"DOP853 would need {explicit:.1g} evaluations for stability alone"
    obstacle = _obstacle(system)
    if explicit < structured:
        return "DOP853", " (auto: not stiff over this interval)"
    if system.model.spherical:
        return "DOP853", f" (auto: {stiff}, but implicit methods of this library know no spheres)"
    if obstacle is None:
        return "structured", f" (auto: {stiff})"
    grouped = len(system.model.groups) > 1 or system.model.rule is not None
    if exponential < explicit and not grouped:
        return "exponential", f" (auto: {stiff}; no structured BDF because {obstacle})"
    return "DOP853", f" (auto: stiff, but no structured BDF because {obstacle})"


def _obstacle(system):
    """Why the structured BDF cannot run, or None."""
    _, K, M = system.shape
    size = 8 * (K * (K + 1) // 2 + K * M + K) * (2 * K * K + K * M + K)
    if size > MEMORY:
        return f"the closure has derivatives of {size / 1e9:.1f} GB"
    return system.obstacle() or None
