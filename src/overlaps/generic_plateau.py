"""The plateaus that a generic start meets, without its trajectory: a curve from overlaps that nearly vanish."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, overload

import numpy as np

from ._base import Rng, check, warn
from .integrators.evolve import evolve
from .models import Model, State
from .models.features import check_features
from .results.trajectory import Trajectory
from .stability.linear import growing_rates
from .stability.plateaus import GROWING, SLOW, Plateau, find
from .stability.symmetry import averaged, equal_readouts

# Relative size of the random differences between students at the start: that of N = 10^16 random inputs. They grow for
# 18 growth times; with 1e-4, N = 10^8, curves pass some saddles before they have come near, with 1e-12 all is slower.
SMALL = 1e-8
# Doublings of the time 1/eta, a million-fold, after which a curve that still moves is left.
DOUBLINGS = 20
# Records in a doubling of time, as many as ``traj.plateaus()`` takes, and time before the first doubling, in doublings.
RECORDS, BEFORE = 75, 7
# Relative change of eps_g in a doubling of time. Below, the curve has come to rest; above, it may be passing a saddle.
REST = 1e-9
# eps_g below which a curve has learned all there is: no plateau, and rounding is next.
LEARNED = 1e-12


@overload
def plateau(
    model: Model, start: str | State = ..., *, student_scale: float = ..., all: Literal[False] = ..., rng: Rng = ...
) -> Plateau: ...
@overload
def plateau(
    model: Model, start: str | State = ..., *, student_scale: float = ..., all: Literal[True], rng: Rng = ...
) -> list[Plateau]: ...
def plateau(
    model: Model, start: str | State = "random", *, student_scale: float = 1.0, all: bool = False, rng: Rng = 0
) -> Plateau | list[Plateau]:
    r"""Find the plateau that a generic start meets first: its height, its growing modes and their rates.

    The start, averaged over permutations of the students with equal second layers, is moved by :math:`10^{-8}` in a
    random direction, and its curve followed until it has left the first saddle at which it waits for longer than the
    growth time of the fastest mode there: the limit of large N. Newton's method polishes the saddle.

    Parameters
    ----------
    model : Model
        The learning problem.
    start : "random" or State
        Random weights of students and teachers at N -> infinity, that is q^l = student_scale^2 p_l and t^l = p_l times
        identity and r = 0; or overlaps of one's own.
    student_scale : float
        Standard deviation of random student weights.
    all : bool
        Whether to follow the curve to its end, at most to alpha = 10^6/eta, for all plateaus in the order of time.
    rng : int or numpy.random.Generator
        Seed of the direction. The plateaus after the first may depend on it, as they do on the weights of a run.

    Returns
    -------
    Plateau, or list of Plateau with ``all``
        ``height``, ``state``, ``rates``, ``growing``; its ``alpha`` is nan: how long a curve waits is known from a
        trajectory (``traj.plateaus()``) or, at finite N, from :func:`overlaps.theory.escape_time.escape`.

    Raises
    ------
    ValueError
        Bad input; a curve that waits at no saddle: linear students, a single student, eta above the rate up to which
        the plateau exists. With ``all`` such a curve has an empty list.

    Warns
    -----
    RuntimeWarning
        With ``all``, a curve that ends early, diverging for example: the list has the plateaus until then.

    Notes
    -----
    The saddle is *exact* to rounding; which passages count as waiting is a *convention*, that of ``traj.plateaus()``.
    Which saddle is named where several lie near the curve is *heuristic*, and so is that none is: students without a
    symmetry may wait at errors a few per cent from all saddles. At smaller N a curve may leave before it has come near
    the first saddle, and wait at later ones only.

    References
    ----------
    Saad and Solla (1995), Phys. Rev. E 52, 4225; Biehl, Riegler and Wöhler (1996), J. Phys. A 29, 4769.

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.plateau(ov.committee_machine(3, 3, eta=0.5))
    plateau at eps_g = 0.0320998: all students equivalent; 4 growing modes, the fastest at rate 0.02053

    Students of which one has a smaller second layer, at a rate so high that its differences from the others grow:

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
    found, message = _followed(model, _moved(model, symmetric, rng), every)
    found = [replace(one, alpha=(np.nan, np.nan)) for one in found]
    if every or found:
        return found if every else found[0]
    raise ValueError(
        f"no plateau: a curve of {model} from overlaps that nearly vanish {message}, and waited at no saddle with "
        "growing modes. Linear or single students have none; lower eta, or look at traj.plateaus() of a trajectory."
    )


def random_mean(model, scale):
    """Mean overlaps of random weights at N -> infinity."""
    p = np.array(model.spectrum.p)[:, None, None]
    r = np.zeros((p.size, model.K, model.M))
    return State.from_blocks(model, q=scale**2 * p * np.eye(model.K), r=r, t=p * np.eye(model.M))


def _moved(model, state, rng):
    """The state of students w_k + SMALL (sum of students and static rows at random), block by block.

    Overlaps of vectors stay overlaps of vectors. Like those of random weights, their changes are as small as students.
    """
    q, r, source = state.q, model.rows(state), model._static_overlaps(state)
    own = np.eye(model.K) + SMALL * rng.standard_normal(q.shape)
    size = np.sqrt(np.einsum("lkk->lk", q))[:, :, None]
    other = SMALL * size * rng.standard_normal(r.shape)
    mixed, turned = own @ r, other.swapaxes(1, 2)
    q = own @ q @ own.swapaxes(1, 2) + mixed @ turned + (mixed @ turned).swapaxes(1, 2) + other @ source @ turned
    return replace(state, q=q, **model.split_rows(mixed + other @ source))


def _followed(model, state, every):
    """Plateaus of the curve from a state, until it has left the first one or, if ``every``, to the end; and its end."""
    begun, length, before, waited = state.alpha, 1 / model.eta, np.inf, False
    times, parts, found = np.append(0.0, np.geomspace(0.5**BEFORE, 1.0, BEFORE * RECORDS + 1)), [], []
    for _ in range(DOUBLINGS):
        run = Trajectory(**vars(evolve(model, state, begun + length * times)))
        parts.append(run)
        eps_g, state = run.eps_g[-1], run[-1]
        if not run.success:
            if every:
                known = f"plateau: the curve is known to alpha = {state.alpha:.3g} only: {run.message}"
                warn(known + check.see("committee", "Plateau, specialisation, stability"))
            return _plateaus(model, parts), f"ended early ({run.message})"
        if eps_g < LEARNED:
            return _plateaus(model, parts), f"learned all there is by alpha = {state.alpha:.3g}"
        rests, before = abs(eps_g - before) < REST * eps_g, eps_g
        waits = bool(np.min(np.abs(np.diff(np.log(run.eps_g)))) < SLOW * np.log(2) / RECORDS)
        # Newton's method is most of the work: not while the curve waits, nor once more while it falls
        if not every and (rests or (waited and not waits)):
            found = _plateaus(model, parts)
            if found and (rests or found[0].alpha[1] < run.alpha[0]):
                return found, ""
        waited = waits
        if rests and not growing_rates(model, state, GROWING).size:
            return found or _plateaus(model, parts), f"came to rest by alpha = {state.alpha:.3g}"
        length, times = 2 * length, np.geomspace(0.5, 1.0, RECORDS + 1)[1:]
    return _plateaus(model, parts), f"was followed to alpha = {state.alpha:.3g}"


def _plateaus(model, parts):
    """Plateaus of the curve that consists of ``parts``, trajectories one after the other."""
    ends = np.cumsum([len(part.alpha) for part in parts])
    alpha, eps_g, floor = (
        np.concatenate([getattr(x, name) for x in parts]) for name in ("alpha", "eps_g", "eps_floor")
    )

    def state(i):
        part = int(np.searchsorted(ends, i, side="right"))
        return parts[part][int(i - ends[part])]

    return find(model, alpha, eps_g, floor, state)
