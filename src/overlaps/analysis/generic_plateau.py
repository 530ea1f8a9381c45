"""Plateaus of a generic start: they are found on one curve, which starts from overlaps that nearly vanish."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple, overload

import numpy as np

from .._base import Rng, by_name, check, warn
from ..integrators.evolve import evolve
from ..models import Model, State
from ..models.features import check_features
from ..models.state import of_state
from ..results.trajectory import Trajectory
from ..stability.equator import hidden_reason
from ..stability.linear import growing_rates
from ..stability.plateaus import CRITERIA, Plateau, find
from ..stability.symmetry import averaged, equal_readouts


class CurveOptions(NamedTuple):
    """Tunable numbers of the curve on which plateaus are searched."""

    # Relative size of the random differences between students at the start: that of random weights at N = 10^16. They
    # grow for 18 growth times. With 1e-4 (N = 10^8) curves pass some saddles at a distance; with 1e-12 they are longer.
    perturbation: float = 1e-8
    max_doublings: int = 20  # Integrations of doubling length, from 1/eta to 2^19/eta, where a curve is abandoned.
    records_per_doubling: int = 75  # Records in a doubling of time, as many as ``traj.plateaus()`` uses.
    doublings_before: int = 7  # The first integration, to 1/eta, has records from 2^-7/eta on.
    # Relative change of eps_g in a doubling of time below which the curve is at rest. Larger: curves that pass a
    # saddle count as being at rest.
    rest_tol: float = 1e-9
    learned_eps_g: float = 1e-12  # eps_g below which learning is complete: rounding comes next.


CURVE = CurveOptions()


@overload
def plateau(
    model: Model | State,
    start: str | State = ...,
    *,
    student_scale: float = ...,
    all: Literal[False] = ...,
    rng: Rng = ...,
) -> Plateau: ...
@overload
def plateau(
    model: Model | State, start: str | State = ..., *, student_scale: float = ..., all: Literal[True], rng: Rng = ...
) -> list[Plateau]: ...
@of_state
@by_name("ov.plateau(model)")
def plateau(
    model: Model, start: str | State = "random", *, student_scale: float = 1.0, all: bool = False, rng: Rng = 0
) -> Plateau | list[Plateau]:
    r"""Find the plateau that a generic start meets first: its height, its growing modes and their rates.

    The start is averaged over permutations of the students with equal second layers, and moved by :math:`10^{-8}` in a
    random direction. Its curve is followed until it has left the first saddle near which it stays for longer than the
    growth time of the fastest mode there: the limit of large N. Newton's method refines the saddle.

    Parameters
    ----------
    model : Model
        The learning problem; ``plateau(state)`` starts from the state, with its model.
    start : "random" or State
        Random weights of students and teachers at N -> infinity, that is q^l = student_scale^2 p_l and t^l = p_l times
        identity and r = 0; or given overlaps.
    student_scale : float
        Standard deviation of random student weights.
    all : bool
        Whether to follow the curve to its end, at most to alpha = 10^6/eta, and return all plateaus in order of time.
    rng : int or numpy.random.Generator
        Seed of the direction. The plateaus after the first may depend on it, as they do on the weights of a run.

    Returns
    -------
    Plateau, or list of Plateau with ``all``
        ``height``, ``state``, ``rates``, ``growing``; its ``alpha`` is nan. The duration of a plateau follows from a
        trajectory (``traj.plateaus()``) or, at finite N, from :func:`overlaps.analysis.escape_time.escape`.

    Raises
    ------
    ValueError
        Bad input; a curve without a plateau: linear students, a single student, except at R = 0 for an information
        exponent of 2, eta above the rate up to which the plateau exists. With ``all`` such a curve has an empty list.

    Warns
    -----
    RuntimeWarning
        With ``all``, a curve that ends early, diverging for example: the list has the plateaus until then.

    Notes
    -----
    The saddle is *exact* to rounding; which passages count as plateaus is a *convention*, that of ``traj.plateaus()``.
    The choice among several saddles near the curve is *heuristic*, and so is the answer that there is none: students
    without a symmetry may be slow at errors a few per cent from all saddles. At smaller N a curve may turn away before
    it comes near the first saddle, and have later plateaus only.

    References
    ----------
    Saad and Solla (1995), Phys. Rev. E 52, 4225; Biehl, Riegler and Wöhler (1996), J. Phys. A 29, 4769.

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.plateau(ov.committee_machine(3, 3, eta=0.5))
    plateau at eps_g = 0.0320998: all students equivalent; 4 growing modes, the fastest at rate 0.02053

    One student has a smaller second layer, and the learning rate is so high that its differences from the others grow:

    >>> model = ov.committee_machine(3, 1, eta=0.25, spectrum=ov.Spectrum(s=[3.0], p=[1.0]), v=[1.0, 1.0, 0.5])
    >>> [round(one.height, 4) for one in ov.plateau(model, all=True)]
    [0.0391, 0.0145]
    """
    check_features("plateau", model)
    scale = check.number("student_scale", student_scale, least=0)
    every, rng = check.flag("all", all), check.generator(rng)
    if isinstance(start, str):
        check.choice("start", start, ("random",), "Or a State.")
    state = random_mean(model, scale) if isinstance(start, str) else check.state(start).on(model)
    symmetric = averaged(model, state, equal_readouts(state.v))
    if model.K == 1 and not symmetric.r.any() and (reason := hidden_reason(model, symmetric)):
        raise ValueError(f"no plateau: {reason}.")
    found, message = _follow(model, _perturbed(model, symmetric, rng), every)
    found = [replace(one, alpha=(np.nan, np.nan)) for one in found]
    if every or found:
        return found if every else found[0]
    raise ValueError(
        f"no plateau: a curve of {model} from overlaps that nearly vanish {message}, and no part of it is slow "
        "near a saddle with growing modes. Linear students have none, and single ones but R = 0; lower eta, or try "
        "traj.plateaus()."
    )


def random_mean(model, scale):
    """Mean overlaps of random weights at N -> infinity."""
    p = np.array(model.spectrum.p)[:, None, None]
    r = np.zeros((p.size, model.K, model.M))
    return State.from_blocks(model, q=scale**2 * p * np.eye(model.K), r=r, t=p * np.eye(model.M))


def _perturbed(model, state, rng):
    """The state of students w_k + perturbation (random sum of students and static rows), block by block.

    Overlaps of vectors stay overlaps of vectors. Changes are proportional to the students' norms, as for random
    weights.
    """
    q, r, static = state.q, model.rows(state), model._static_overlaps(state)
    own = np.eye(model.K) + CURVE.perturbation * rng.standard_normal(q.shape)
    size = np.sqrt(np.einsum("lkk->lk", q))[:, :, None]
    other = CURVE.perturbation * size * rng.standard_normal(r.shape)
    mixed, turned = own @ r, other.swapaxes(1, 2)
    q = own @ q @ own.swapaxes(1, 2) + mixed @ turned + (mixed @ turned).swapaxes(1, 2) + other @ static @ turned
    return replace(state, q=q, **model.split_rows(mixed + other @ static))


def _follow(model, state, every):
    """Plateaus of the curve from a state, up to the first one or, with ``every``, all; and how the curve ends."""
    start, length, before, was_slow = state.alpha, 1 / model.eta, np.inf, False
    records, n = CURVE.records_per_doubling, CURVE.doublings_before
    times, runs, found = np.append(0.0, np.geomspace(0.5**n, 1.0, n * records + 1)), [], []
    for _ in range(CURVE.max_doublings):
        run = Trajectory(**vars(evolve(model, state, start + length * times)))
        runs.append(run)
        eps_g, state = run.eps_g[-1], run[-1]
        if not run.success:
            if every:
                message = f"plateau: the curve is known to alpha = {state.alpha:.3g} only: {run.message}"
                warn(message + check.see("committee", "Plateau, specialisation, stability"))
            return _plateaus(model, runs), f"ended early ({run.message})"
        if eps_g < CURVE.learned_eps_g:
            return _plateaus(model, runs), f"learned the task by alpha = {state.alpha:.3g}"
        at_rest, before = abs(eps_g - before) < CURVE.rest_tol * eps_g, eps_g
        slow = bool(np.min(np.abs(np.diff(np.log(run.eps_g)))) < CRITERIA.max_slope * np.log(2) / records)
        # Newton's method takes most of the time: only where a slow stretch has ended, or at rest
        if not every and (at_rest or (was_slow and not slow)):
            found = _plateaus(model, runs)
            if found and (at_rest or found[0].alpha[1] < run.alpha[0]):
                return found, ""
        was_slow = slow
        if at_rest and not growing_rates(model, state, CRITERIA.growth_tol).size:
            return found or _plateaus(model, runs), f"became stationary by alpha = {state.alpha:.3g}"
        length, times = 2 * length, np.geomspace(0.5, 1.0, records + 1)[1:]
    return _plateaus(model, runs), f"was followed to alpha = {state.alpha:.3g}"


def _plateaus(model, runs):
    """Plateaus of the curve that consists of ``runs``, trajectories one after the other."""
    ends = np.cumsum([len(run.alpha) for run in runs])
    alpha, eps_g, floor = (np.concatenate([getattr(x, name) for x in runs]) for name in ("alpha", "eps_g", "eps_floor"))

    def state(i):
        run = int(np.searchsorted(ends, i, side="right"))
        return runs[run][int(i - ends[run])]

    return find(model, alpha, eps_g, floor, state)
