"""The plateau that a generic start meets, without its trajectory: the symmetric path and Newton's method."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ._base import check
from .flow.closure import generalisation_error
from .integrators.evolve import evolve
from .models import Model, State
from .stability.plateaus import SLOW, Plateau, saddle
from .stability.symmetry import averaged, equal_readouts

# Doublings of the time 1/eta along the symmetric path, a million-fold. A path that has not come to rest by then is
# given up with a sentence.
DOUBLINGS = 20
# Relative change of eps_g in a doubling of time. Below, the path has come to its end and Newton's method takes over;
# above, it may be passing a saddle slowly.
REST = 1e-9
# eps_g below which the symmetric path has learned all there is: no plateau, and rounding is next.
LEARNED = 1e-12


def plateau(model: Model, start: str | State = "random", *, student_scale: float = 1.0) -> Plateau:
    r"""Find the plateau that a generic start meets: its height, its growing modes and their rates.

    The start, averaged over permutations of the students with equal second layers, stays symmetric under the flow and
    comes to rest where generic trajectories wait. Newton's method polishes that saddle.

    Parameters
    ----------
    model : Model
        The learning problem.
    start : "random" or State
        Random weights of students and teachers at N -> infinity, that is q^l = student_scale^2 p_l and t^l = p_l times
        identity and r = 0; or overlaps of one's own.
    student_scale : float
        Standard deviation of random student weights.

    Returns
    -------
    Plateau
        ``height``, ``state``, ``rates``, ``growing``; its ``alpha`` is nan: how long a curve waits is known from a
        trajectory (``traj.plateaus()``) or, at finite N, from :func:`overlaps.theory.escape_time.escape`.

    Raises
    ------
    ValueError
        Bad input; a symmetric path that does not wait at a saddle: linear students, a single student, eta above the
        rate up to which the plateau exists.

    Notes
    -----
    The saddle is *exact* to rounding. Which one is met is *heuristic* where several lie near the symmetric path.

    References
    ----------
    Saad and Solla (1995), Phys. Rev. E 52, 4225; Biehl, Riegler and Wöhler (1996), J. Phys. A 29, 4769.

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.plateau(ov.committee_machine(3, 3, eta=0.5))
    plateau at eps_g = 0.0320998: all students equivalent; 4 growing modes, the fastest at rate 0.02053
    """
    check.model(model)
    scale = check.number("student_scale", student_scale, least=0)
    state = random_mean(model, scale) if isinstance(start, str) else check.state(start).on(model)
    if isinstance(start, str):
        check.choice("start", start, ("random",), "Or a State.")
    symmetric = averaged(model, state, equal_readouts(state.v))
    begun, length, before = symmetric.alpha, 1 / model.eta, 0.0
    for _ in range(DOUBLINGS):
        path = evolve(model, symmetric, [begun + length])
        if not path.success:
            raise ValueError(f"the symmetric path ends on no plateau: {path.message}")
        moving = {name: x[-1] for name in ("q", "r", "v", "m") if (x := getattr(path, name)) is not None}
        # rounding breaks the symmetry, and the flow amplifies it: averaged again, the path stays symmetric
        symmetric = averaged(model, replace(symmetric, **moving, alpha=path.alpha[-1]), equal_readouts(state.v))
        eps_g = float(generalisation_error(model, model.field_covariance(symmetric)[None], symmetric.v[None])[0])
        if min(eps_g, before) > 0 and abs(np.log(eps_g / before)) < SLOW * np.log(2):
            candidate = saddle(model, symmetric, eps_g, eps_g)
            if candidate is not None:
                return candidate
            if abs(np.log(eps_g / before)) < REST:
                break
        if eps_g < LEARNED:
            break
        before, length = eps_g, 2 * length
    raise ValueError(
        f"no plateau: the symmetric path of {model} was followed to alpha = {length:.3g} and met no saddle with "
        "growing modes. Linear or single students have none; lower eta, or look at traj.plateaus() of a trajectory."
    )


def random_mean(model, scale):
    """Mean overlaps of random weights at N -> infinity."""
    p = np.array(model.spectrum.p)[:, None, None]
    r = np.zeros((p.size, model.K, model.M))
    return State.from_blocks(model, q=scale**2 * p * np.eye(model.K), r=r, t=p * np.eye(model.M))
