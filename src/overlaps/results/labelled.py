"""Results as xarray datasets and pandas tables, with dimensions named by the letters of the notation.

Dimensions: ``alpha`` (time), ``run``, ``k, l`` (student units), ``m, n`` (teacher units), ``e`` (eigenspaces), ``c``
(classes of inputs), ``task`` (stages); of a sweep, its parameters. xarray is an optional package and is imported at the
first call.
"""

import json
from importlib import import_module
from typing import Any

import numpy as np

from .._base.version import __version__
from ..models import LowRank, Mixed, Stages
from .descriptions import model_from_text, model_text
from .field_table import ADAPTED, FIELDS, LABELLED, dims

__all__ = [
    "frame", "frame_of_fluctuations", "frame_of_sweep", "from_batch", "from_curves", "from_stages", "from_sweep",
    "model_of",
]  # fmt: skip


def _package(name):
    """An optional package of the same name as its extra."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f'to_{name} needs the package {name}: pip install "overlaps[{name}]"') from error


def from_curves(result: Any) -> Any:
    """Dataset of a Trajectory or an Ensemble.

    Parameters
    ----------
    result : Trajectory or Ensemble
        Result of ``solve`` or ``simulate``.

    Returns
    -------
    xarray.Dataset
        Variables ``eps_g, Q, R, v, q, r`` with dimensions (run,) alpha and those of their indices, teacher constants
        ``T, tau``, coordinates ``alpha, s, p``; model, method, message, success and version as attributes.

    Raises
    ------
    ImportError
        xarray is not installed; the message says how to install it.

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.committee_machine(2, 2, eta=0.5)
    >>> data = ov.solve(model, model.random_start(N=1000, rng=1), [0, 1, 2]).to_xarray()
    >>> float(data.eps_g.sel(alpha=2)) < float(data.eps_g.sel(alpha=0))
    True
    >>> data.R.dims
    ('alpha', 'k', 'm')
    """
    runs = ("run",) if result.is_ensemble else ()
    blocks = hasattr(result, "q")
    # runs on the hidden manifold have no blocks in common, others no test error
    names = ADAPTED if isinstance(result.model, LowRank) else LABELLED
    known = {name: x for name in names if (x := getattr(result, name, None)) is not None}
    variables = {name: (dims(name, *runs, value=x), x) for name, x in known.items()}
    spectrum = result.model.spectrum
    coords = {"alpha": ("alpha", result.alpha)}
    coords |= {"s": ("e", spectrum.s), "p": ("e", spectrum.p)} if blocks else {}
    if result.model.n_classes:
        coords |= {"label": ("c", result.model.labels), "weight": ("c", result.model.weights)}
    return _dataset(result, variables, coords, {"model_json": model_text(result.model)})


def _dataset(result, variables, coords, of_model):
    """Dataset with what every result says of itself as attributes."""
    attributes = {"model": str(result.model), **of_model, "method": result.method, "message": result.message}
    attributes |= {"success": int(result.success), "version": __version__}  # netCDF knows no bool
    if result.is_ensemble:
        attributes["N"] = result.N
    if hasattr(result.model, "models"):  # several tasks
        errors = np.array([result.error(i) for i in range(len(result.model))])
        variables["error"] = ("task", *["run"] * result.is_ensemble, "alpha"), errors
    data = _package("xarray").Dataset(variables, coords, attributes)
    for name in data.variables:
        data[name].attrs["long_name"] = FIELDS[name].words
    return data


def from_stages(result: Any) -> Any:
    """Dataset of a solution or of runs through several tasks.

    Parameters
    ----------
    result : StagedTrajectory or StagedEnsemble
        Result of ``solve`` or ``simulate`` for :class:`overlaps.Stages`.

    Returns
    -------
    xarray.Dataset
        Variables ``eps_g, Q, R, v, eta`` and ``error`` on each task, with dimensions (task,) (run,) alpha and those of
        their indices; coordinates ``alpha`` and ``stage`` along it. Overlaps of blocks belong to the eigenvalues of a
        stage and stay in ``result.parts``.

    Raises
    ------
    ImportError
        xarray is not installed; the message says how to install it.

    Examples
    --------
    >>> import overlaps as ov
    >>> tasks = [ov.committee_machine(1, 2, eta=0.5, v_star=v_star) for v_star in ([1.0, 0.0], [0.0, 1.0])]
    >>> stages = ov.Stages(tasks, until=[5.0, 10.0])
    >>> data = ov.solve(stages, tasks[0].random_start(N=1000, rng=1), [0.0, 5.0, 10.0]).to_xarray()
    >>> data.error.dims, bool(data.error.sel(task=0, alpha=10.0) > data.error.sel(task=0, alpha=5.0))
    (('task', 'alpha'), True)
    >>> ov.results.labelled.model_of(data) == stages
    True
    """
    runs, stages = ("run",) if result.is_ensemble else (), result.model
    variables = {name: (dims(name, *runs), getattr(result, name)) for name in ("eps_g", "Q", "R", "v")}
    variables["eta"] = ("alpha",), result.eta
    coords = {"alpha": result.alpha, "stage": ("alpha", result.stage), "task": np.arange(len(stages))}
    heads = None if stages.heads is None else stages.heads.tolist()
    texts = {"models": [model_text(model) for model in stages.models], "until": stages.until.tolist(), "heads": heads}
    return _dataset(result, variables, coords, {"stages_json": json.dumps(texts)})


def model_of(data):
    """Return the model of a data set made by ``to_xarray``, from its attributes, which NetCDF and Zarr files keep.

    Parameters
    ----------
    data : xarray.Dataset
        Made by :func:`from_curves` of a Trajectory or an Ensemble, or by :func:`from_stages`.

    Returns
    -------
    Model or Stages
        Equal to the one that was solved or simulated.

    Raises
    ------
    ValueError
        No such attribute, or a model with a user function, which a text cannot hold.

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.committee_machine(2, 2, activation=ov.leaky_relu(0.1), eta=0.5, noise=0.1)
    >>> data = ov.solve(model, model.random_start(N=1000, rng=1), [0, 1]).to_xarray()
    >>> ov.results.labelled.model_of(data) == model
    True
    """
    if "stages_json" in data.attrs:
        texts = json.loads(data.attrs["stages_json"])
        return Stages([model_from_text(text) for text in texts["models"]], texts["until"], texts["heads"])
    if "model_json" not in data.attrs:
        raise ValueError("data has no attribute model_json; expected a data set made by to_xarray of a result.")
    return model_from_text(data.attrs["model_json"])


def frame(result: Any) -> Any:
    """Table of a result (through Stages, too), one row for each record (and run), one column for each number.

    Parameters
    ----------
    result : Trajectory or Ensemble
        Result of ``solve`` or ``simulate``.

    Returns
    -------
    pandas.DataFrame
        Columns ``run`` (of ensembles), ``alpha``, ``eps_g``, ``Q_11, Q_12, ...``, ``R_11, ...``, ``v_1, ...``: units
        are counted from 1, as on plots; of the symmetric Q the upper half. Through Stages also ``stage`` (from 0), and
        of several tasks the errors on all of them, ``error_1, error_2, ...``; heads of their own are ``v_1_1, ...``.
        Of adapted students ``u_11, ...`` and ``a_11, ...`` in place of v.

    Raises
    ------
    ImportError
        pandas is not installed; the message says how to install it.

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.committee_machine(2, 1, eta=0.5)
    >>> list(ov.solve(model, model.random_start(N=1000, rng=1), [0, 1]).to_pandas().columns)
    ['alpha', 'eps_g', 'Q_11', 'Q_12', 'Q_22', 'R_11', 'R_21', 'v_1', 'v_2']
    """
    n, runs = result.alpha.size, len(result) if result.is_ensemble else 1
    columns = {"run": np.repeat(np.arange(runs), n)} if result.is_ensemble else {}
    columns |= {"alpha": np.tile(result.alpha, runs)}
    columns |= _columns(result.model, lambda name: getattr(result, name))
    if hasattr(result, "stage"):
        columns["stage"] = np.tile(result.stage, runs)
    if hasattr(result.model, "models"):
        columns |= {f"error_{i + 1}": result.error(i).ravel() for i in range(len(result.model))}
    return _package("pandas").DataFrame(columns)


def _columns(model, curve, end=""):
    """One column for each number of ``curve(name)``, names ending in ``end``."""
    low, network = isinstance(model, LowRank), getattr(model, "model", model)
    K, M, between = network.K, network.M, "" if max(network.K, network.M) < 10 else "_"

    def entries(letter, array, shape, symmetric=False, between=between):
        array, kept = array.reshape(-1, *shape), (x for x in np.ndindex(shape) if not symmetric or x[0] <= x[1])
        return {f"{letter}_{between.join(str(i + 1) for i in x)}{end}": array[:, *x] for x in kept}

    columns = {f"eps_g{end}": curve("eps_g").ravel()} | entries("Q", curve("Q"), (K, K), symmetric=True)
    columns |= entries("R", curve("R"), (K, M))
    if low:
        columns |= entries("u", curve("u"), (model.rank, model.rank), symmetric=True)
        return columns | entries("a", curve("v"), (K, model.rank))
    if isinstance(model, Mixed) and model.heads is not None:  # readouts of several tasks, one after the other
        return columns | entries("v", curve("v"), (model.heads.size // K, K), between="_")
    return columns | entries("v", curve("v"), (K,))


def frame_of_fluctuations(result: Any) -> Any:
    """Table of a Fluctuations, one row for each record: its trajectory's, then means and standard deviations.

    Parameters
    ----------
    result : Fluctuations
        Result of ``fluctuations``.

    Returns
    -------
    pandas.DataFrame
        The columns of :func:`frame`, the solution for N -> infinity; ``eps_g_mean, Q_11_mean, ...`` and ``eps_g_std,
        Q_11_std, ...`` at this N.

    Raises
    ------
    ImportError
        pandas is not installed; the message says how to install it.

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.committee_machine(1, 1, eta=0.5)
    >>> traj = ov.solve(model, model.random_start(N=1000, rng=1), [0, 1])
    >>> list(ov.fluctuations(traj, N=100).to_pandas().columns)[5:]
    ['eps_g_mean', 'Q_11_mean', 'R_11_mean', 'v_1_mean', 'eps_g_std', 'Q_11_std', 'R_11_std', 'v_1_std']
    """
    columns = _columns(result.model, result.mean, "_mean") | _columns(result.model, result.std, "_std")
    return frame(result.trajectory).assign(**columns)


def frame_of_sweep(result: Any) -> Any:
    """Table of a sweep: the parameters of each point, and what the function returned there.

    Parameters
    ----------
    result : Sweep
        Values that are numbers (column ``value``), dicts of numbers (a column each), or results and tables of their
        own, whose rows all carry the parameters of their point.

    Returns
    -------
    pandas.DataFrame
        A point that failed or was not reached is one row of missing values; a column ``error`` then says why.

    Raises
    ------
    ValueError
        Values that are no rows of a table, or a parameter that is named like one of their columns.
    ImportError
        pandas is not installed; the message says how to install it.

    Examples
    --------
    >>> import overlaps as ov
    >>> table = ov.sweep(lambda x, y: {"product": x * y}, {"x": [1, 2], "y": [10, 20]}).to_pandas()
    >>> table[table.x == 2]["product"].tolist()
    [20, 40]
    """
    pandas, parts, lost = _package("pandas"), [], _lost(result)
    for i, point in enumerate(result.points):
        rows = pandas.DataFrame(index=[0]) if i in lost else _rows(pandas, point, result.values[i])
        if clash := sorted(set(point) & {*rows.columns, *(["error"] if lost else [])}):
            raise ValueError(f"{clash} are parameters of the grid and columns of the values; rename the parameters.")
        front = {name: [x] * len(rows) for name, x in point.items()}
        rows = pandas.concat([pandas.DataFrame(front, index=rows.index), rows], axis=1)
        parts.append(rows.assign(error=lost.get(i, "")) if lost else rows)
    return pandas.concat(parts, ignore_index=True)


def _rows(pandas, point, value):
    """The rows of one value."""
    value = value.to_pandas() if hasattr(value, "to_pandas") else value
    if isinstance(value, pandas.DataFrame):
        return value
    items = value if isinstance(value, dict) else {"value": value}
    for name, x in items.items():
        if np.ndim(x) or np.asarray(x).dtype.kind not in "biufc":
            raise ValueError(
                f"{name} at {point} is {type(x).__name__}; expected numbers, dicts of them, results or tables. Arrays "
                "have axes: sweep.to_xarray() keeps them."
            )
    return pandas.DataFrame(items, index=[0])


def _lost(result):
    """{index: why} of the points of a sweep without a value."""
    texts = {i: f"{type(error).__name__}: {error}" for i, error in result.errors.items()}
    return texts | dict.fromkeys(result.missing, "interrupted or not begun")


def from_batch(batch, coords=None):
    """Dataset of a Batch.

    Parameters
    ----------
    batch : Batch
        Result of ``solve_many``.
    coords : dict of array_like, optional
        Varied: the axes of a grid whose product has as many points as the batch, the last one running fastest, or
        one value for each trajectory.

    Returns
    -------
    xarray.Dataset
        Variables ``eps_g, Q, R, v`` with the dimensions of the grid (or ``trajectory``), alpha and those of their
        indices; ``success``, ``end`` and ``nfev`` of each trajectory.

    Raises
    ------
    ValueError
        Coordinates that do not fit the number of trajectories.
    ImportError
        xarray is not installed; the message says how to install it.

    Examples
    --------
    >>> import dataclasses, overlaps as ov
    >>> model, etas, noises = ov.committee_machine(1, 1, eta=0.5), [0.2, 0.5, 1.0], [0.0, 0.1]
    >>> models = [dataclasses.replace(model, eta=eta, noise=noise) for eta in etas for noise in noises]
    >>> batch = ov.solve_many(models, model.random_start(N=1000, rng=1), [0, 5])
    >>> batch.to_xarray(eta=etas, noise=noises).eps_g.dims
    ('eta', 'noise', 'alpha')
    """
    xr, b = _package("xarray"), len(batch)
    axes = {name: np.asarray(values) for name, values in (coords or {}).items()}
    lengths = [values.size for values in axes.values()]
    grid = bool(axes) and int(np.prod(lengths)) == b
    if any(x.ndim != 1 for x in axes.values()) or not (grid or all(n == b for n in lengths)):
        raise ValueError(
            f"coordinates of lengths {dict(zip(axes, lengths, strict=True))} for {b} trajectories; expected the axes "
            "of a grid of that many points, or one value for each."
        )
    which, shape = (tuple(axes), tuple(lengths)) if grid else (("trajectory",), (b,))
    if clash := set(axes) & {"alpha", "trajectory", *"klmn", *LABELLED, "success", "end", "nfev"}:
        raise ValueError(f"{sorted(clash)} are names of coordinates and of what the batch holds; rename the first.")
    variables = {}
    for name in ("eps_g", "Q", "R", "v", *["mean_fields"] * bool(batch.models[0].n_classes), "success", "end", "nfev"):
        values = getattr(batch, name)
        values = values.astype(np.int8) if name == "success" else values  # netCDF knows no bool
        values = values.reshape(shape + values.shape[1:])
        variables[name] = dims(name, *which), values, {"long_name": FIELDS[name].words}
    labels = {name: (name if grid else "trajectory", values) for name, values in axes.items()}
    labels |= {"alpha": ("alpha", batch.alpha)}
    return xr.Dataset(variables, labels, {"models": f"{b} x {batch.models[0]}", "version": __version__})


def from_sweep(result: Any) -> Any:
    """Dataset of a sweep: the values' own variables and dimensions, after those of the grid.

    Parameters
    ----------
    result : Sweep
        Values that are numbers or arrays (variable ``value``, dimensions ``dim_0``, ...), dicts of them (one variable
        each), or trajectories or ensembles recorded at the same times; one that ended early is filled up with nan.

    Returns
    -------
    xarray.Dataset
        Dimensions are the parameters of a product, with their values as coordinates (the text of what is no number or
        string), or ``point`` for a list of points. Where points failed, a variable ``error`` holds the messages.

    Raises
    ------
    ValueError
        The values do not fit together, or a parameter is named like a variable or dimension of the values.
    ImportError
        xarray is not installed; the message says how to install it.

    Examples
    --------
    >>> import overlaps as ov
    >>> data = ov.sweep(lambda x, y: x * y, {"x": [1, 2, 3], "y": [10, 20]}).to_xarray()
    >>> int(data.value.sel(x=3, y=20))
    60
    """
    xr, lost = _package("xarray"), _lost(result)
    parts = {i: _dataset_of(xr, value) for i, value in enumerate(result.values) if i not in lost}
    if len({frozenset(part.data_vars) for part in parts.values()}) > 1:
        raise ValueError("the values hold different variables; let the function return the same kind at every point.")
    parts = dict(zip(parts, _aligned(xr, list(parts.values())), strict=True))
    first = next(iter(parts.values()), xr.Dataset())
    clash = set(result.grid) & {*first.variables, *first.dims}
    if clash:
        raise ValueError(f"{sorted(clash)} are parameters of the grid and names in the values; rename the parameters.")
    variables = {name: _stacked(result, parts, name) for name in first.data_vars}
    coords = {name: (name if name in result.dims else "point", _labels(x)) for name, x in result.grid.items()}
    for name, coord in first.coords.items():
        same = all(coord.identical(part[name]) for part in parts.values())
        coords[name] = coord if same else _stacked(result, parts, name)  # spectra may differ between points
    if lost:
        messages = np.array([lost.get(i, "") for i in range(len(result))]).reshape(result.shape)
        variables["error"] = (result.dims, messages)
    attributes = {"function": result.function, "message": result.message, "version": __version__}
    return xr.Dataset(variables, coords, attributes)


def _dataset_of(xr, value):
    if hasattr(value, "to_xarray"):
        return value.to_xarray()
    if isinstance(value, xr.Dataset):
        return value
    items = value if isinstance(value, dict) else {"value": value}
    arrays = {name: np.asarray(x) for name, x in items.items()}
    wrong = next((name for name, x in arrays.items() if x.dtype.kind not in "biufc"), None)
    if wrong is not None:
        raise ValueError(
            f"{wrong} is of type {type(items[wrong]).__name__}; expected numbers, arrays, dicts of them, Trajectory or "
            "Ensemble. Reduce the values first, e.g. sweep.array(lambda value: ...)."
        )
    single = len(arrays) == 1 and not isinstance(value, dict)
    prefix = {name: "" if single else f"{name}_" for name in arrays}
    return xr.Dataset({name: (tuple(f"{prefix[name]}dim_{d}" for d in range(x.ndim)), x) for name, x in arrays.items()})


def _aligned(xr, parts):
    """The same coordinates everywhere; times of one that ended early are a subset of the others'."""
    if not parts:
        return parts
    longest = max(part.sizes.get("alpha", 0) for part in parts)
    try:
        joined = xr.align(*parts, join="outer")
    except ValueError as error:
        raise ValueError(f"the values differ in shape, so no common array holds them: {error}") from None
    if joined[0].sizes.get("alpha", 0) > longest:
        raise ValueError(
            "the trajectories were recorded at different times; pass an array of times to solve (a tuple records every "
            "step of the solver), or reduce each to numbers with sweep.array(getter)."
        )
    return joined


def _stacked(result, parts, name):
    """Variable ``name`` of all points as one, with the dimensions of the sweep in front; nan where a point is lost."""
    one = next(iter(parts.values()))[name]
    array = result._stacked({i: part[name].values for i, part in parts.items()}, one.shape)
    return result.dims + one.dims, array, one.attrs


def _labels(values):
    """Coordinate of one parameter: numbers and strings as they are, the text of anything else."""
    kinds = {x if x in (bool, str) else float for x in map(type, values)}
    if len(kinds) == 1 and all(isinstance(x, int | float | str | np.number) for x in values):
        return np.array(values)
    return np.array([str(x) for x in values])
