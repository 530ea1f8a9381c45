"""Sweeps: a function evaluated at every point of a grid, on any executor."""

import functools
import inspect
import itertools
import operator
import pickle
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._base import Function, Immutable, PathLike, Rng, bar, by_name, check, warn
from .._base.lazy_compilation import compile_eagerly
from .._base.parallel import run_all, worded
from ..results import labelled
from ..results.files import save
from .checkpoint import open_checkpoint
from .files import item_of, value_of

# Points of a product, which are listed in memory before the first one is computed.
MAX_POINTS = 10**6


class Sweep(Immutable):
    """Values of a function at the points of a grid, in the order of the grid; made by :func:`sweep`.

    Two sweeps are equal if everything except their exceptions is equal.

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
        Values of the function; the exception of a failed point, None for a point that was not reached.
    errors : dict of int to Exception
        Exceptions of the failed points by index; their notes contain the traceback.
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
        """Shape of the grid: that of the product, or (number of points,)."""
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
        clauses = [f"{n - len(self.errors) - len(self.missing)} of {n} points of {self.function} finished"]
        if self.missing:
            clauses.append(f"{len(self.missing)} were interrupted or not begun")
        return worded("; ".join(clauses), self.errors, lambda i: f"at {self.points[i]}", "; ")

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
            Applied to each value: a function, or the name of an attribute such as ``"eps_g"``. By default the value
            itself is used.

        Returns
        -------
        ndarray, shape (*grid, *value)
            nan where a point failed or was not reached.

        Raises
        ------
        ValueError
            The values are not numbers, or differ in shape.
        """
        if not (getter is None or isinstance(getter, str) or callable(getter)):
            raise check.refused("getter", getter, "a function of a value, or the name of its attribute.")
        get = operator.attrgetter(getter) if isinstance(getter, str) else getter or (lambda value: value)
        excluded = {*self.errors, *self.missing}
        arrays = {i: np.asarray(get(value)) for i, value in enumerate(self.values) if i not in excluded}
        wrong = next((i for i, a in arrays.items() if a.dtype.kind not in "biufc"), None)
        if wrong is not None:
            raise ValueError(
                f"the value at {self.points[wrong]} is of type {type(get(self.values[wrong])).__name__}; expected "
                "numbers. Pass a function that returns numbers, e.g. sweep.array(lambda traj: traj.eps_g[-1])."
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
        """Stack the arrays of the points along the axes of the grid; nan at points without an array."""
        incomplete = len(arrays) < len(self)
        dtype = np.result_type(*{a.dtype for a in arrays.values()}, *([float] if incomplete else []))
        result = np.full((len(self), *shape), np.nan if incomplete else 0, dtype=dtype)
        for i, a in arrays.items():
            result[i] = a
        return result.reshape(self.shape + shape)

    to_xarray = labelled.from_sweep
    to_pandas = labelled.frame_of_sweep

    def save(self, path: PathLike) -> None:
        """Write it to one ``.npz`` file, which :func:`overlaps.load` reads; see :func:`overlaps.save`.

        Values may be results that can be saved, numbers, arrays, texts, and lists or dicts of them. Exceptions are
        restored as RuntimeError with the same message. A file with models that contain functions of the user is refused
        when it is read, because only their names are saved.

        Parameters
        ----------
        path : path-like
            Path of the file; ``.npz`` is added if it is missing.

        Raises
        ------
        ValueError
            A value cannot be saved; the message names it.
        FileNotFoundError
            The folder does not exist.

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
        """Return the contents of a file: (entries of the header, arrays)."""
        arrays: dict[str, NDArray] = {}
        excluded = {*self.errors, *self.missing}
        values = [None if i in excluded else value for i, value in enumerate(self.values)]
        header = {
            "function": self.function, "dims": list(self.dims), "grid": item_of(self.grid, "grid", arrays),
            "values": [item_of(value, f"values[{i}]", arrays) for i, value in enumerate(values)],
            "errors": {i: f"{type(error).__name__}: {error}" for i, error in self.errors.items()},
            "missing": self.missing,
        }  # fmt: skip
        return header, arrays

    @classmethod
    def _from_file(cls, header: dict, data: dict) -> "Sweep":
        """Return the sweep that :meth:`_to_file` described."""
        grid, dims = value_of(header["grid"], data), tuple(header["dims"])
        errors: dict[int, BaseException] = {int(i): RuntimeError(text) for i, text in header["errors"].items()}
        values = [errors.get(i, value_of(item, data)) for i, item in enumerate(header["values"])]
        return cls(header["function"], grid, dims, _points(grid, dims != ("point",)), values, errors, header["missing"])

    def __repr__(self):
        axes = " x ".join(f"{name}[{n}]" for name, n in zip(self.dims, self.shape, strict=True))
        counts = [f"{len(x)} {name}" for x, name in ((self.errors, "failed"), (self.missing, "missing")) if x]
        return f"Sweep({self.function}, {axes}, {', '.join(counts) or 'success'})"


@by_name('ov.sweep(f, {"eta": [0.1, 0.2]})')
def sweep(
    function: Function,
    grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]],
    *,
    rng: Rng | None = None,
    executor: Executor | None = None,
    progress: bool = False,
    checkpoint: PathLike | None = None,
) -> "Sweep":
    """Call a function at every point of a grid; exceptions at single points do not end the sweep.

    ``success`` refers to exceptions only: a diverged Trajectory is a value, with its own ``success``.

    Parameters
    ----------
    function : callable
        Called as ``function(**point)``. It may return any object; with workers or a checkpoint, one that pickles.
    grid : dict of list, or list of dict
        Values of each parameter, for a sweep over all combinations, the last name varying fastest; or the list of
        points, all with the same names.
    rng : int, numpy.random.SeedSequence or numpy.random.Generator, optional
        Seed of the sweep. Point i then receives the argument ``rng``, a :class:`numpy.random.Generator` from the i-th
        spawned child. It does not depend on the executor, the order of evaluation or an interruption.
    executor : concurrent.futures.Executor, optional
        Executor of the points: ``ProcessPoolExecutor(4)``, Dask's ``client.get_executor()``,
        ``mpi4py.futures.MPIPoolExecutor()``, executorlib's executors. By default a loop, with the same result.
    progress : bool
        Show a progress bar over the points.
    checkpoint : path-like, optional
        File to which finished points are appended, one line of JSON each. Points in the file are not computed again:
        an interrupted sweep continues, failed points are repeated, and the grid may be extended (12 values of eta, then
        14). With ``rng`` the seed depends on the position in the grid: add values at the end of the first name.

        A file belongs to one function and one seed. Each line contains digests of the code, closure and globals of the
        function, and of the functions of its module that it calls. If these have changed, the values in the file are
        still used, and a warning names the changes. Only one sweep at a time may write to the file, which is enforced
        if the file system has POSIX locks; any program may read it.

        Values are pickles, which can execute code when they are read: open only trusted files. They are read after the
        function, the seed and the point in their line have been compared with this sweep.

    Returns
    -------
    Sweep
        ``values`` in the order of the grid, ``errors``, ``array(getter)``, ``to_xarray()``. Ctrl-C returns the finished
        points, with ``success=False``. On an executor, it waits for the points that have begun; a second Ctrl-C does
        not wait.

    Raises
    ------
    ValueError
        Invalid arguments, more than a million points, or the checkpoint of another sweep, before any computation.

    Warns
    -----
    RuntimeWarning
        Once each, if points failed or were not reached; if points in the checkpoint were computed by another version of
        the function; if points in the checkpoint cannot be read (they are computed again); if a value cannot be
        pickled; if the checkpoint can no longer be written, e.g. on a full disk. The result contains values that were
        not written.

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
    keys = (seed and list(seed.spawn_key) for seed in seeds)
    file = open_checkpoint(checkpoint, function, _identity(function), seeds[0] and seeds[0].entropy, points, keys)
    with file as (finished, append), bar(progress, len(points), "points") as tick:
        jobs = {i: functools.partial(_at, function, points[i], seeds[i]) for i in range(len(points))}
        values = dict(finished)
        if tick is not None:
            tick(len(values))
        report = tick and (lambda done: tick(len(values) + done))
        added, errors = run_all({i: job for i, job in jobs.items() if i not in values}, executor, report, keep=append)
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
    """Call the function at one point, with its own generator, and with the same result in every worker."""
    compile_eagerly()
    return function(**point, **({} if seed is None else {"rng": np.random.default_rng(seed)}))


# --- arguments -------------------------------------------------------------------------------------------------------


def _columns(grid):
    """Return ({name: list of values}, whether the grid is their product)."""
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
    """Return the arguments of each point, the last name varying fastest."""
    points = itertools.product(*columns.values()) if product else zip(*columns.values(), strict=True)
    return [dict(zip(columns, point, strict=True)) for point in points]


def _check_size(columns, product):
    """Refuse a product with too many points to list."""
    sizes = [len(values) for values in columns.values()]
    if product and prod(sizes) > MAX_POINTS:
        shape = " x ".join(map(str, sizes)) if len(sizes) < 20 else f"the product of {len(sizes)} lists as"
        raise ValueError(
            f"grid has {shape} points; expected at most {MAX_POINTS}. Divide it into several sweeps, or pass a list of "
            "points."
        )


def _text(name):
    if not isinstance(name, str):
        raise ValueError(f"grid has the name {name!r}; expected names of the function's arguments, as strings.")
    return name


def _axis(name, values):
    """Return a list of values; an array of numbers becomes Python numbers."""
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
    """Check that the function accepts the names of the grid, and rng if there is a seed."""
    if seed is not None and "rng" in point:
        raise ValueError("rng is given both in the grid and as the seed of the sweep; expected one of them.")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # built-in functions may have no signature; the first call checks the names
        return
    try:
        signature.bind(**point, **({} if seed is None else {"rng": seed}))
    except TypeError as error:
        hint = "'rng'" in str(error) and (" Pass a seed to the sweep: rng=1." if seed is None else " It takes no seed.")
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
    """Return what a checkpoint compares: module, name, and the arguments of functools.partial or the object."""
    if isinstance(function, functools.partial):
        return (_identity(function.func), function.args, function.keywords)
    name = f"{getattr(function, '__module__', '')}.{_name(function)}"
    return name if inspect.isroutine(function) and not inspect.ismethod(function) else (name, function)
