"""Integration of many problems of one shape at once."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._base import check
from ._base.quiet import warn
from ._base.types import ArrayLike, Function
from .integrators.many import evolve_many
from .models.model import Model
from .models.schedule import Schedule
from .models.state import State
from .results.batch import Batch


def solve_many(
    models: Model | Sequence[Model],
    starts: State | Sequence[State],
    alpha: ArrayLike,
    *,
    threads: int | None = None,
    stop: float | Function | None = None,
    method: str | type = "auto",
    rtol: float = 1e-8,
    atol: float | None = None,
    blocks: bool = True,
    max_memory: float = 4e9,
    progress: bool = False,
    schedule: Schedule | dict[str, Schedule] | None | Sequence[Schedule | dict[str, Schedule] | None] = None,
    lanes: bool | None = None,
    **options: Any,
) -> Batch:
    """Integrate many problems of one shape: the equations and the steps of :func:`overlaps.solve`, in threads.

    Trajectories are stepped by DOP853 in compiled code, without Python in between: side by side in the lanes of vector
    registers where that pays, else one after another in each thread.
    Problems beyond that code go through ``solve`` in the same threads, at its speed: stiff problems, other
    methods, schedules and activations of Python functions, the step in which ``stop`` is met, kinked students that are
    nearly parallel, divergence.

    Parameters
    ----------
    models : Model or sequence of Model
        The learning problem: equal K, M, L and activations, with all second layers trained or none; rates, noise,
        second layers, teachers and eigenvalues may differ, and weights, labels, means and variances of C classes.
    starts : State or sequence of State
        Initial order parameters. One model, or one start, serves all.
    alpha : array_like, shape (n,)
        Increasing output times >= 0, shared by all, with the start at alpha = 0.
    threads : int, optional
        Number of threads; all cores by default. Results do not depend on it, digit by digit.
    stop, method, rtol, atol, **options
        As in :func:`overlaps.solve`, for each trajectory; ``late`` and ``certify`` are left to it.
    blocks : bool
        Whether to keep the overlaps of every block; otherwise Q, R and v only.
    max_memory : float
        Bytes above which nothing is begun; the records take 8 b (n + 1) (L (K M + K (K + 1) / 2) + 1).
    progress : bool
        Show a progress bar over trajectories.
    schedule : Schedule or dict, or sequence of them, optional
        As in :func:`overlaps.solve`; a sequence has one for each trajectory, or None where nothing changes.
    lanes : bool, optional
        Whether trajectories are stepped side by side: erf, linear or quadratic students of teachers of their kind, at
        most 12 of both and 8 eigenvalues, and of the last two kinds 128 overlaps in all blocks. By default batches of
        at least 64 of these are; ``False`` keeps the last bit of ``solve``, ``True`` takes fewer.

    Returns
    -------
    Batch
        With ``success``, ``message`` and ``end`` of each trajectory. Ctrl-C returns what is finished, the rest with
        ``success=False``. A trajectory whose ``schedule`` or ``stop`` raises has the exception for a message.

    Raises
    ------
    ValueError
        Bad input, models that differ in shape (the first is named), or too little memory, before any integration.
    RuntimeError, ValueError
        Every trajectory raised; the exception of the first is the cause.

    Warns
    -----
    RuntimeWarning
        Once, when some integrations did not succeed.

    Notes
    -----
    Neither company nor order nor threads change a bit. Side by side, sums are added up in another order than by
    ``solve``, which agrees to rounding and to what a plateau makes of it (1e-13 to 1e-8). One after another
    (``lanes=False``) all is equal to ``solve`` to the last bit; with ``blocks=False`` and several eigenvalues to
    rounding (1e-15). Whether lanes are taken hangs on K, M, L, the activations and the number of trajectories alone,
    never on values or load.

    References
    ----------
    Saad and Solla (1995), Phys. Rev. E 52, 4225; Yoshida and Okada (2019); Goldt et al. (2020), arXiv:1909.11500.

    Examples
    --------
    >>> import dataclasses, numpy as np, overlaps as ov
    >>> model = ov.committee_machine(2, 2, eta=0.5)
    >>> models = [dataclasses.replace(model, noise=noise) for noise in np.linspace(0, 0.5, 20)]
    >>> batch = ov.solve_many(models, model.random_start(N=1000, rng=1), np.linspace(0, 50, 11))
    >>> batch.eps_g.shape, bool(batch.success.all()), bool(np.all(np.diff(batch.eps_g[:, -1]) > 0))
    ((20, 11), True, True)
    """
    controls: dict[str, Any] = {"stop": stop, "method": method, "rtol": rtol, "atol": atol, "blocks": blocks}
    controls |= {"progress": progress, "schedule": schedule, "lanes": lanes}
    solutions = evolve_many(models, starts, alpha, threads=threads, max_memory=max_memory, **controls, **options)
    batch = Batch(**vars(solutions))
    lost = np.flatnonzero(~batch.success)
    if lost.size:
        warn(
            f"{lost.size} of {len(batch)} trajectories did not succeed; number {lost[0]}: {batch.message[lost[0]]}"
            + check.see("integration", "When it does not end well")
        )
    return batch
