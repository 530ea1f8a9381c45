"""Minima of the error where gradient flow from random weights ends, and how often."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from .._base import ArrayLike, Immutable, Rng, check, quietly
from ..dynamics import solve_many
from ..flow.closure import generalisation_error
from ..models import Model, State
from ..models.features import check_features
from .curvature import hessian
from .stationary import SEARCH, search, separated_hessian

__all__ = ["Minimum", "minima"]


class MinimaOptions(NamedTuple):
    """Tunable numbers of the search for minima."""

    # Times eta alpha after which the flow is polished; starts without a minimum then flow on. Shorter: more of them are
    # still on saddles; longer: more steps.
    flow_times: tuple[float, ...] = (300.0, 3000.0)
    # Standard deviation of the students' entries, in units of the teachers' norm. From larger ones more starts end in
    # bad minima of some networks, from smaller ones the flow waits longer on plateaus.
    student_scale: float = 0.3
    # Error, relative to that of students without weights, below which a start has learned the teacher.
    solved_tol: float = 1e-10
    # Largest difference of overlaps, relative to the largest, under an exchange of units that is a symmetry. Smaller:
    # the slow end of learning, where overlaps are accurate to the root of ``solved_tol``, has none.
    symmetry_tol: float = 1e-3


MINIMA = MinimaOptions()


class Minimum(Immutable):
    """A minimum of the error; made by :func:`minima`.

    Attributes
    ----------
    state : State
        Order parameters; one representative of those that differ by a permutation of the units.
    eps_g : float
        Generalisation error.
    least_curvature : float
        Least eigenvalue of the Hessian of eps_g over all weights, 0 on a manifold of minima; nan where the closure has
        no derivative. Where kinked units are aligned it is accurate to about 1e-4.
    symmetry : str
        Exchanges of teachers that exchanges of students undo: "S5" if five teachers are equivalent and the others are
        not, "S3 x S2", or "none".
    share : float
        Fraction of the starts that ended there.
    """

    state: State
    eps_g: float
    least_curvature: float
    symmetry: str
    share: float

    def __repr__(self):
        numbers = f"eps_g={self.eps_g:.6g}, least_curvature={self.least_curvature:.3g}"
        return f"Minimum({numbers}, symmetry={self.symmetry}, share={self.share:.3g})"


def minima(model: Model, *, T: ArrayLike | None = None, starts: int = 300, rng: Rng = 0) -> "list[Minimum]":
    r"""Minima of the error in which gradient flow from random weights ends, in the order of eps_g.

    Students are drawn in K + M dimensions, those of the teachers among them: the flow never leaves the span of both.
    The flow of all starts is solved in batches, ends are polished by Newton's method (:func:`overlaps.fixed_point`) and
    kept where the Hessian (:func:`overlaps.hessian`) has no negative eigenvalue.

    Parameters
    ----------
    model : Model
        Isotropic inputs. Rates, noise and batches do not matter.
    T : array_like, shape (M, M), optional
        Teacher overlaps; orthonormal by default.
    starts : int
        Number of random starts.
    rng : int or numpy.random.Generator
        Seed or generator of the starts.

    Raises
    ------
    ValueError
        Bad input; several eigenvalues of the inputs, weight decay, spheres, drifting teachers, classes, rules.

    Notes
    -----
    Each minimum is exact to rounding, except perfect learning of kinked students, which the flow approaches until eps_g
    is 1e-10 of its value without weights. The list is *heuristic*: rare minima need more starts, and shares depend on
    the law of the starts. They sum to less than one if starts are still on saddles at ``eta alpha = 3300``.

    References
    ----------
    Safran and Shamir (2018), arXiv:1712.08968, for the bad minima of six and more relu units.

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.theory.minima(ov.committee_machine(3, 2, eta=1.0), starts=20)
    [Minimum(eps_g=..., symmetry=S2, share=1)]
    """
    check_features("theory.minima", model)
    model = replace(model, gradient_flow=True)
    T = np.eye(model.M) if T is None else check.array("T", T, (model.M, model.M))
    check.symmetric("T", T)
    check.positive_semidefinite("T", T, "Overlaps of teachers are.")
    rng, n = check.generator(rng), check.count("starts", starts)
    states, found = [_random_start(model, T, rng) for _ in range(n)], []
    zero = np.zeros((1, model.K + model.M, model.K + model.M))
    zero[0, model.K :, model.K :] = T
    scale = float(generalisation_error(model, zero, model.v[None])[0])
    for time in MINIMA.flow_times:
        if not states:
            break
        with quietly():  # starts that diverge or stop are followed no further
            ends = solve_many([model] * len(states), states, [0.0, time / model.eta])
        states = [replace(end[-1], alpha=0.0) for end in ends if end.success]
        kept = [_minimum(model, state, scale) for state in states]
        found += [x for x in kept if x is not None]
        states = [state for state, x in zip(states, kept, strict=True) if x is None]
    found.sort(key=lambda x: x.eps_g)
    kinds: list[list[Minimum]] = []
    for x in found:
        same = kinds and x.eps_g - kinds[-1][0].eps_g <= SEARCH.eps_g_tol * scale
        same = same and x.symmetry == kinds[-1][0].symmetry
        kinds[-1].append(x) if same else kinds.append([x])
    return [replace(kind[0], share=len(kind) / n) for kind in kinds]


def _random_start(model, T, rng):
    """Overlaps of random students in K + M dimensions, the first M of which contain the teachers."""
    K, M = model.K, model.M
    values, vectors = np.linalg.eigh(T)
    teachers = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    W = MINIMA.student_scale * np.sqrt(np.trace(T) / M) * rng.standard_normal((K, K + M)) / np.sqrt(K + M)
    return State.from_overlaps(model, Q=W @ W.T, R=W[:, :M] @ teachers, T=T)


def _minimum(model, state, scale):
    """The minimum that the flow approaches, or None on a saddle and before Newton's method converges."""

    def error(x):
        return max(float(generalisation_error(model, x.S[None], x.v[None])[0]), 0.0)

    if error(state) > MINIMA.solved_tol * scale or not model.activation.kinks:
        polished = search(model, state)
        # Newton's method may leave for a higher saddle
        if polished is None or error(polished) > error(state) + MINIMA.solved_tol * scale:
            return None
        state = polished
    try:
        spectrum, tol = hessian(model, state), SEARCH.zero_tol
    except ValueError:  # aligned kinked units
        spectrum, tol = separated_hessian(model, state), 10 * SEARCH.separation_angle
    if spectrum is None:
        return Minimum(state, error(state), np.nan, _symmetry(state), 0.0)
    values = np.append(spectrum.outliers, spectrum.bulk)
    if values.min() < -tol * np.max(np.abs(values)):
        return None
    return Minimum(state, error(state), float(values.min()), _symmetry(state), 0.0)


def _symmetry(state):
    """Name of the group of exchanges of teachers that exchanges of students undo."""
    classes: list[list[int]] = []
    for m in range(state.M):
        mates = next((x for x in classes if _exchanges(state, x[0], m)), None)
        mates.append(m) if mates else classes.append([m])
    sizes = sorted((len(x) for x in classes if len(x) > 1), reverse=True)
    return " x ".join(f"S{size}" for size in sizes) or "none"


def _exchanges(state, m, n):
    """Whether a permutation of the students undoes the exchange of teachers m and n."""
    order = np.arange(state.M)
    order[[m, n]] = n, m
    rows = np.column_stack([state.R, np.diag(state.Q), state.v])
    exchanged = np.column_stack([state.R[:, order], np.diag(state.Q), state.v])
    _, students = linear_sum_assignment(np.abs(rows[:, None] - exchanged[None]).max(axis=2))
    joint = np.concatenate([students, state.K + order])
    gap = np.abs(state.S[np.ix_(joint, joint)] - state.S).max()
    return max(gap, np.abs(state.v[students] - state.v).max()) <= MINIMA.symmetry_tol * np.abs(state.S).max()
