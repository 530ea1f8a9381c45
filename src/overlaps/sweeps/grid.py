"""Sweeps: one function at every point of a grid, on whatever has workers."""

import functools
import inspect
import itertools
import operator
import pickle
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._base import Function, Immutable, PathLike, Rng, bar, check, warn
from .._base.lazy_compilation import compile_eagerly
from .._base.parallel import run_all, worded
from ..results import labelled
from ..results.files import save
from .checkpoint import open_checkpoint
from .files import item_of, value_of

# Points of a product: they are listed before the first one is computed.
MOST = 10**6


@dataclass(frozen=True, eq=False, repr=False)
class Sweep(Immutable):
    """Values of a function at the points of a grid, in the order of the grid; made by :func:`sweep`.

    Two sweeps are equal when all but their exceptions is. ``save`` writes one file, which :func:`overlaps.load` reads.

    Attributes
    ----------
    function : str
        Name of the function.
    grid : dict of list
        Values of each parameter: the axes of a product, or one value per point.
    dims : tuple of str
        Names of the axes: the parameters of a product, or ("point",).
    points : list of dict
        Arguments of each point.
    values : list
        Values of the function. A failed point holds its exception, one that was not reached holds None.
    errors : dict of int to Exception
        The exceptions of the failed points by index; the traceback is in their notes.
    missing : list of int
        Indices of the points that an interrupted sweep did not finish.
    """

    function: str
    grid: dict[str, list]
    dims: tuple[str, ...]
    points: list[dict]
    values: list
    errors: dict[int, BaseException] = field(compare=False)
    missing: list[int]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the grid: the product's, or (number of points,)."""
        return tuple(len(self.grid.get(name, self.points)) for name in self.dims)

    @property
    def success(self) -> bool:
        """Whether every point returned a value."""
        return not (self.errors or self.missing)

    @property
    def message(self) -> str:
        """One sentence about the end of the sweep."""
        n = len(self)
        if self.success:
            return f"all {n} points of {self.function} finished."
        parts = [f"{n - len(self.errors) - len(self.missing)} of {n} points of {self.function} finished"]
        if self.missing:
            parts.append(f"{len(self.missing)} were interrupted or not begun")
        return worded("; ".join(parts), self.errors, lambda i: f"at {self.points[i]}", "; ")

    def __len__(self) -> int:
        """Number of points."""
        return len(self.points)

    def __getitem__(self, index: Any) -> Any:
        """Value at point ``i``, or at ``i, j, ...`` of the grid."""
        if isinstance(index, tuple):
            if len(index) != len(self.shape):
                raise IndexError(f"{len(index)} indices; expected {len(self.shape)}, one for each of {self.dims}.")
            index = np.ravel_multi_index([range(n)[i] for n, i in zip(self.shape, index, strict=True)], self.shape)
        return self.values[index]

    def array(self, getter: str | Function | None = None) -> NDArray[Any]:
        """Array of numbers in the shape of the grid.

        Parameters
        ----------
        getter : str or callable, optional
            The part of each value to take: a function of it, or the name of an attribute such as ``"eps_g"``. By
            default the value itself.

        Returns
        -------
        ndarray, shape (*grid, *value)
            nan where a point failed or was not reached.

        Raises
        ------
        ValueError
            The values are no numbers, or differ in shape.
        """
        if not (getter is None or isinstance(getter, str) or callable(getter)):
            raise check.refused("getter", getter, "a function of a value, or the name of its attribute.")
        get = operator.attrgetter(getter) if isinstance(getter, str) else getter or (lambda value: value)
        lost = {*self.errors, *self.missing}
        arrays = {i: np.asarray(get(value)) for i, value in enumerate(self.values) if i not in lost}
        wrong = next((i for i, a in arrays.items() if a.dtype.kind not in "biufc"), None)
        if wrong is not None:
            raise ValueError(
                f"the value at {self.points[wrong]} is of type {type(get(self.values[wrong])).__name__}; expected "
                "numbers. Pass what to take from it, e.g. sweep.array(lambda traj: traj.eps_g[-1])."
            )
        shapes = {a.shape: i for i, a in arrays.items()}
        if len(shapes) > 1:
            (one, i), (other, j) = list(shapes.items())[:2]
            raise ValueError(
                f"values differ in shape: {one} at {self.points[i]}, {other} at {self.points[j]}. Pass a function "
                "that reduces them, e.g. sweep.array(lambda traj: traj.eps_g[-1])."
            )
        return self._stacked(arrays, next(iter(shapes), ()))

    def _stacked(self, arrays: dict[int, NDArray], shape: tuple[int, ...]) -> NDArray[Any]:
        """Arrays of the points as one, over the axes of the grid; nan where a point has none."""
        lost = len(arrays) < len(self)
        dtype = np.result_type(*{a.dtype for a in arrays.values()}, *([float] if lost else []))
        result = np.full((len(self), *shape), np.nan if lost else 0, dtype=dtype)
        for i, a in arrays.items():
            result[i] = a
        return result.reshape(self.shape + shape)

    to_xarray = labelled.from_sweep
    to_pandas = labelled.frame_of_sweep

    def save(self, path: PathLike) -> None:
        """Write it to one ``.npz`` file; see :func:`overlaps.save`.

        Values may be results that have a file of their own, numbers, arrays, texts, and lists or dicts of them.
        Exceptions come back as RuntimeError with the same words. Of functions of the user in models only names are
        kept, and such a file is refused when it is read.

        Parameters
        ----------
        path : path-like
            Where; ``.npz`` is added where it is missing.

        Raises
        ------
        ValueError
            A value that no file holds; the message names its place.
        FileNotFoundError
            There is no such folder.

        Examples
        --------
        >>> import os, tempfile, overlaps as ov
        >>> result = ov.sweep(lambda x: {"square": x**2}, {"x": [1.0, 2.0]})
        >>> path = os.path.join(tempfile.mkdtemp(), "squares.npz")
        >>> result.save(path)
        >>> ov.load(path) == result
        True
        """
        save(self, path)

    def _to_file(self) -> tuple[dict, dict]:
        """Contents of a file: (entries of the header, arrays)."""
        arrays: dict[str, NDArray] = {}
        lost = {*self.errors, *self.missing}
        values = [None if i in lost else value for i, value in enumerate(self.values)]
        header = {
            "function": self.function, "dims": list(self.dims), "grid": item_of(self.grid, "grid", arrays),
            "values": [item_of(value, f"values[{i}]", arrays) for i, value in enumerate(values)],
            "errors": {i: f"{type(error).__name__}: {error}" for i, error in self.errors.items()},
            "missing": self.missing,
        }  # fmt: skip
        return header, arrays

    @classmethod
    def _from_file(cls, header: dict, data: dict) -> "Sweep":
        """The sweep of :meth:`_to_file`."""
        grid, dims = value_of(header["grid"], data), tuple(header["dims"])
        errors: dict[int, BaseException] = {int(i): RuntimeError(said) for i, said in header["errors"].items()}
        values = [errors.get(i, value_of(item, data)) for i, item in enumerate(header["values"])]
        return cls(header["function"], grid, dims, _points(grid, dims != ("point",)), values, errors, header["missing"])

    def __repr__(self):
        axes = " x ".join(f"{name}[{n}]" for name, n in zip(self.dims, self.shape, strict=True))
        lost = [f"{len(x)} {name}" for x, name in ((self.errors, "failed"), (self.missing, "missing")) if x]
        return f"Sweep({self.function}, {axes}, {', '.join(lost) or 'success'})"


def sweep(
    function: Function,
    grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]],
    *,
    rng: Rng | None = None,
    executor: Executor | None = None,
    progress: bool = False,
    checkpoint: PathLike | None = None,
) -> "Sweep":
    """Call a function at every point of a grid; one failed point does not lose the others.

    ``success`` speaks of exceptions only: a diverged Trajectory is a value, with a ``success`` of its own.

    Parameters
    ----------
    function : callable
        Called as ``function(**point)``; may return anything (that pickles, if workers or a checkpoint are used).
    grid : dict of list, or list of dict
        Values of each parameter: all combinations are computed, the last name running fastest. Or the points
        themselves, all with the same names.
    rng : int, numpy.random.SeedSequence or numpy.random.Generator, optional
        Seed of the whole sweep. Point i then receives the argument ``rng``, a ``numpy.random.Generator`` from the i-th
        spawned child: the same whatever the executor, the order, or a resumption.
    executor : concurrent.futures.Executor, optional
        Where the points are computed: ``ProcessPoolExecutor(4)``, Dask's ``client.get_executor()``,
        ``mpi4py.futures.MPIPoolExecutor()``, executorlib's executors. By default a plain loop, with the same result.
    progress : bool
        Show a progress bar over the points.
    checkpoint : path-like, optional
        File to which finished points are appended, a line of JSON each. Points that are in it are not computed again:
        a killed sweep goes on, failed points are tried again, and the grid may have further points (12 values of eta,
        then 14). With ``rng`` the seed belongs to the place in the grid: add values at the end of the first name. The
        file belongs to one function and one seed. Each line holds digests of the function's code, closure and globals,
        and of the functions of its module that it calls: where they changed, values in the file are kept, and a
        warning names what changed. One sweep at a
        time may write it (enforced where the file system has POSIX locks), any may read it. Values are pickles, which
        can run code when they are read: open only files that you trust. They are read once the function, the seed and
        the point beside them are found to belong to this sweep.

    Returns
    -------
    Sweep
        ``values`` in the order of the grid, ``errors``, ``array(getter)``, ``to_xarray()``. Ctrl-C returns what is
        finished, with ``success=False``; on an executor, points that have begun are waited for, and a second Ctrl-C
        leaves them.

    Raises
    ------
    ValueError
        Bad input, more than a million points, or the checkpoint of another sweep, before any work.

    Warns
    -----
    RuntimeWarning
        Once, when points failed or were not reached; once, when points in the checkpoint were computed by another form
        of the function; once, when the checkpoint can be written no longer (a full disk):
        the values are then kept in memory, and the result is complete if the process lives; when points in the
        checkpoint cannot be read (they are computed again); for each value that does not pickle.

    Examples
    --------
    >>> import overlaps as ov
    >>> def final_error(eta, K):
    ...     model = ov.committee_machine(K, 1, eta=eta)
    ...     return ov.solve(model, model.random_start(N=1000, rng=1), (0, 2)).eps_g[-1]
    >>> result = ov.sweep(final_error, {"eta": [0.2, 0.5, 1.0], "K": [1, 2]})
    >>> result
    Sweep(final_error, eta[3] x K[2], success)
    >>> result.array().shape
    (3, 2)
    >>> result.points[1], bool(result[0, 1] == result.values[1])
    ({'eta': 0.2, 'K': 2}, True)
    """
    if not callable(function):
        raise check.refused("function", function, "a callable, called as function(**point).")
    columns, product = _columns(grid)
    _check_size(columns, product)
    points = _points(columns, product)
    # children as SeedSequence, which pickles and spawns in every version of NumPy
    seeds = [None] * len(points) if rng is None else check.generator(rng).bit_generator.seed_seq.spawn(len(points))
    _check_signature(function, points[0], seeds[0])
    _check_executor(executor, function, points[0])
    if isinstance(checkpoint, str) and not checkpoint:
        raise ValueError("checkpoint = ''; expected the path of a file.")
    places = (seed and list(seed.spawn_key) for seed in seeds)
    kept = open_checkpoint(checkpoint, function, _identity(function), seeds[0] and seeds[0].entropy, points, places)
    with kept as (finished, append), bar(progress, len(points), "points") as tick:
        jobs = {i: functools.partial(_at, function, points[i], seeds[i]) for i in range(len(points))}
        values = dict(finished)
        if tick is not None:
            tick(len(values))
        finished = tick and (lambda done: tick(len(values) + done))
        added, errors = run_all({i: job for i, job in jobs.items() if i not in values}, executor, finished, keep=append)
    values = {**values, **added}
    result = Sweep(
        function=_name(function), grid=columns, dims=tuple(columns) if product else ("point",), points=points,
        values=[values.get(i, errors.get(i)) for i in range(len(points))], errors=dict(sorted(errors.items())),
        missing=[i for i in range(len(points)) if i not in values and i not in errors],
    )  # fmt: skip
    if not result.success:
        warn(result.message + check.see("howto/cluster", "Interrupted and resumed"))
    return result


def _at(function, point, seed):
    """The function at one point, with random numbers of its own, and the same digits in every worker."""
    compile_eagerly()
    return function(**point, **({} if seed is None else {"rng": np.random.default_rng(seed)}))


# --- what came in ----------------------------------------------------------------------------------------------------


def _columns(grid):
    """({name: list of values}, whether their product is meant)."""
    if isinstance(grid, dict) and grid:
        return {_text(name): _axis(name, values) for name, values in grid.items()}, True
    if isinstance(grid, list | tuple) and grid and all(isinstance(point, dict) and point for point in grid):
        names = list(grid[0])
        for i, point in enumerate(grid):
            if set(point) != set(names):
                raise ValueError(f"grid[{i}] has the names {list(point)}; expected {names}, as in the first point.")
        return {_text(name): [point[name] for point in grid] for name in names}, False
    raise ValueError(
        f"grid = {check.shown(grid)}; expected a dict of lists such as {{'eta': [0.1, 0.2], 'K': [2, 3]}}, or a list "
        "of dicts (points); neither may be empty."
    )


def _points(columns, product):
    """Arguments of each point, the last name running fastest."""
    rows = itertools.product(*columns.values()) if product else zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _check_size(columns, product):
    """A grid whose points can be listed."""
    sizes = [len(values) for values in columns.values()]
    if product and prod(sizes) > MOST:
        shape = " x ".join(map(str, sizes)) if len(sizes) < 20 else f"the product of {len(sizes)} lists as"
        raise ValueError(
            f"grid has {shape} points; expected at most {MOST}. Sweep it in parts, or pass a list of the points that "
            "matter."
        )


def _text(name):
    if not isinstance(name, str):
        raise ValueError(f"grid has the name {name!r}; expected names of the function's arguments, as strings.")
    return name


def _axis(name, values):
    """List of values; an array of numbers becomes plain Python numbers."""
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "biufc":
        values = values.tolist()
    if np.ndim(values) == 0 if isinstance(values, np.ndarray) else not isinstance(values, list | tuple | range):
        raise ValueError(
            f"grid[{name!r}] = {check.shown(values)}; expected a list or an array of values. Try [{values!r}]."
        )
    if len(values) == 0:
        raise ValueError(f"grid[{name!r}] is empty; expected at least one value.")
    return list(values)


def _check_signature(function, point, seed):
    """The function takes the names of the grid, and rng if there is one."""
    if seed is not None and "rng" in point:
        raise ValueError("rng is given both in the grid and as the seed of the sweep; expected one of them.")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a built-in: the first call will tell
        return
    try:
        signature.bind(**point, **({} if seed is None else {"rng": seed}))
    except TypeError as error:
        hint = "'rng'" in str(error) and (" Give the sweep a seed: rng=1." if seed is None else " It takes no seed.")
        raise ValueError(
            f"{_name(function)}{signature} cannot be called with the names {list(point)} of the grid"
            f"{'' if seed is None else ' and rng'}: {error}.{hint or ''}"
        ) from None


def _check_executor(executor, function, point):
    check.executor(executor)
    if isinstance(executor, ProcessPoolExecutor):
        try:
            pickle.dumps((function, point))
        except Exception as error:
            raise ValueError(
                f"{_name(function)} and its arguments cannot be sent to a worker process ({error}). Define it "
                "with def at the top of a module (no lambda, no inner function), fix further arguments with "
                "functools.partial; or use ThreadPoolExecutor."
            ) from error


def _name(function):
    function = function.func if isinstance(function, functools.partial) else function
    return getattr(function, "__qualname__", type(function).__qualname__)


def _identity(function: Callable):
    """Names that a checkpoint compares: module, name, and arguments fixed by functools.partial or held by an object."""
    if isinstance(function, functools.partial):
        return (_identity(function.func), function.args, function.keywords)
    name = f"{getattr(function, '__module__', '')}.{_name(function)}"
    return name if inspect.isroutine(function) and not inspect.ismethod(function) else (name, function)
