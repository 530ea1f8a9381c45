"""Results as xarray datasets and pandas tables, with dimensions named by the letters of the notation.

Dimensions: ``alpha`` (time), ``run``, ``k, k2`` (student units), ``m, m2`` (teacher units), ``block`` (eigenspaces),
``c`` (classes of inputs), ``task`` (stages); for a sweep, its parameters. xarray is an optional package, imported at
the first call.
"""

import json
from dataclasses import fields
from importlib import import_module
from typing import Any

import numpy as np

from .._base.version import __version__
from ..models import LowRank, Mixed, Stages
from .descriptions import model_from_text, model_text
from .field_table import FIELDS, LABELLED, dims

__all__ = [
    "frame", "frame_of_batch", "frame_of_fluctuations", "frame_of_sweep", "from_batch", "from_curves",
    "from_fluctuations", "from_stages", "from_sweep", "model_of",
]  # fmt: skip


def _package(name):
    """Import an optional package, which has the same name as its extra."""
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
        xarray is not installed; the message contains the command to install it.

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
    # Directions that adapt a frozen student have other variables. Runs on the hidden manifold have no common blocks,
    # other runs no test error.
    names = ("eps_g", "Q", "R", "u", "a") if isinstance(result.model, LowRank) else LABELLED
    arrays = {name: x for name in names if (x := getattr(result, name, None)) is not None}
    variables = {name: (dims(name, *runs, value=x), x) for name, x in arrays.items()}
    spectrum = result.model.spectrum
    coords = {"alpha": ("alpha", result.alpha)}
    coords |= {"s": ("block", spectrum.s), "p": ("block", spectrum.p)} if blocks else {}
    if result.model.n_classes:
        coords |= {"label": ("c", result.model.labels), "weight": ("c", result.model.weights)}
    return _dataset(result, variables, coords, {"model_json": model_text(result.model)})


def _dataset(result, variables, coords, of_model):
    """Return a dataset with model, method, message, success and version as attributes."""
    attributes = {"model": str(result.model), **of_model, "method": result.method, "message": result.message}
    attributes |= {"success": int(result.success), "version": __version__}  # netCDF has no type bool
    if result.is_ensemble:
        attributes["N"] = result.N
    if isinstance(result.model, Mixed | Stages):
        errors = np.array([result._error_on(i) for i in range(len(result.model))])
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
        their indices; coordinates ``alpha`` and, along it, ``stage``. Overlaps of blocks are not included, because they
        refer to the eigenvalues of a stage; they are in ``result.parts``.

    Raises
    ------
    ImportError
        xarray is not installed; the message contains the command to install it.

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
    """Return the model of a dataset made by ``to_xarray``, from its attributes, which NetCDF and Zarr files preserve.

    Parameters
    ----------
    data : xarray.Dataset
        Dataset of a Trajectory or an Ensemble (:func:`from_curves`), or of a result of Stages (:func:`from_stages`).

    Returns
    -------
    Model or Stages
        Equal to the one that was solved or simulated.

    Raises
    ------
    ValueError
        The attribute is missing, or the model has a user function, which a text cannot contain.

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
        raise ValueError("data has no attribute model_json; expected a dataset made by to_xarray of a result.")
    return model_from_text(data.attrs["model_json"])


def frame(result: Any) -> Any:
    """Table of a result, also of Stages: one row for each record (and run), one column for each number.

    Parameters
    ----------
    result : Trajectory or Ensemble
        Result of ``solve`` or ``simulate``.

    Returns
    -------
    pandas.DataFrame
        Columns ``run`` (for ensembles), ``alpha``, ``eps_g``, ``Q_11, Q_12, ...``, ``R_11, ...``, ``v_1, ...``. Units
        are numbered from 1, as in figures; the symmetric Q has its upper triangle. Stages add ``stage`` (from 0), and
        several tasks the errors on all of them, ``error_1, error_2, ...``; tasks with their own heads have
        ``v_1_1, ...``. Directions that adapt a student have ``u_11, ...`` and ``a_11, ...`` in place of v.

    Raises
    ------
    ImportError
        pandas is not installed; the message contains the command to install it.

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
    if isinstance(result.model, Stages):
        columns["stage"] = np.tile(result.stage, runs)
    if isinstance(result.model, Mixed | Stages):
        columns |= {f"error_{i + 1}": result._error_on(i).ravel() for i in range(len(result.model))}
    return _package("pandas").DataFrame(columns)


def _columns(model, curve, end=""):
    """Return one column for each number of ``curve(name)``; the names end in ``end``."""
    network = model.model if isinstance(model, LowRank) else model
    K, M, separator = network.K, network.M, "" if max(network.K, network.M) < 10 else "_"

    def entries(letter, array, shape, symmetric=False, separator=separator):
        array, indices = array.reshape(-1, *shape), (x for x in np.ndindex(shape) if not symmetric or x[0] <= x[1])
        return {f"{letter}_{separator.join(str(i + 1) for i in x)}{end}": array[:, *x] for x in indices}

    columns = {f"eps_g{end}": curve("eps_g").ravel()} | entries("Q", curve("Q"), (K, K), symmetric=True)
    columns |= entries("R", curve("R"), (K, M))
    if isinstance(model, LowRank):
        columns |= entries("u", curve("u"), (model.rank, model.rank), symmetric=True)
        return columns | entries("a", curve("v"), (K, model.rank))
    if isinstance(model, Mixed) and model.heads is not None:  # the readouts of all tasks in order
        return columns | entries("v", curve("v"), (model.heads.size // K, K), separator="_")
    return columns | entries("v", curve("v"), (K,))


def frame_of_fluctuations(result: Any) -> Any:
    """Table of Fluctuations, one row for each record: the trajectory, then means and standard deviations.

    Parameters
    ----------
    result : Fluctuations
        Result of ``fluctuations``.

    Returns
    -------
    pandas.DataFrame
        The columns of :func:`frame` for the solution (N -> infinity); ``eps_g_mean, Q_11_mean, ...`` and ``eps_g_std,
        Q_11_std, ...`` at this N.

    Raises
    ------
    ImportError
        pandas is not installed; the message contains the command to install it.

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


def from_fluctuations(result: Any) -> Any:
    """Dataset of Fluctuations: that of the trajectory, with means and standard deviations over runs at this N.

    Parameters
    ----------
    result : Fluctuations
        Result of ``fluctuations``.

    Returns
    -------
    xarray.Dataset
        The variables of :func:`from_curves` for the solution (N -> infinity), and ``eps_g_mean``, ``eps_g_std``,
        ``Q_mean``, ... for eps_g, Q, R, v; attributes ``N`` and ``start``.

    Raises
    ------
    ImportError
        xarray is not installed; the message contains the command to install it.

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.committee_machine(1, 1, eta=0.5)
    >>> data = ov.fluctuations(ov.solve(model.random_start(N=1000, rng=1), [0, 1]), N=100).to_xarray()
    >>> data.R_std.dims, data.attrs["N"]
    (('alpha', 'k', 'm'), 100)
    """
    data = from_curves(result.trajectory)
    for name in ("eps_g", "Q", "R", "v"):
        for kind, words in (("mean", "mean over runs of the"), ("std", "standard deviation over runs of the")):
            value = getattr(result, kind)(name)
            data[f"{name}_{kind}"] = dims(name, value=value), value, {"long_name": f"{words} {FIELDS[name].words}"}
    return data.assign_attrs(N=result.N, start=result.start)


def frame_of_batch(batch: Any) -> Any:
    """Table of a Batch: one row for each trajectory and time, with the numbers in which the models differ.

    Parameters
    ----------
    batch : Batch
        Result of ``solve_many``.

    Returns
    -------
    pandas.DataFrame
        Columns ``trajectory``, the coordinates of :func:`from_batch` without ``coords``, then those of :func:`frame`;
        nan after the end of a trajectory.

    Raises
    ------
    ImportError
        pandas is not installed; the message contains the command to install it.

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.committee_machine(1, 1, eta=0.5)
    >>> models = [model.replace(eta=eta, noise=noise) for eta in (0.2, 0.5) for noise in (0.0, 0.1, 0.2)]
    >>> table = ov.solve_many(models, model.random_start(N=1000, rng=1), [0, 5]).to_pandas()
    >>> table[table.alpha == 5].pivot(index="eta", columns="noise", values="eps_g").shape
    (2, 3)
    """
    n, b = batch.alpha.size, len(batch)
    columns = {"trajectory": np.repeat(np.arange(b), n)}
    columns |= {name: np.repeat(values, n) for name, values in differences_of(batch.models).items()}
    columns |= {"alpha": np.tile(batch.alpha, b)} | _columns(batch.models[0], lambda name: getattr(batch, name))
    return _package("pandas").DataFrame(columns)


def differences_of(models: Any) -> dict[str, Any]:
    """The numbers in which models differ, by name, one for each model; of spectra their text."""
    values = {f.name: [getattr(model, f.name) for model in models] for f in fields(models[0])}
    pair = values.pop("weight_decay")
    values |= {"weight_decay": [x[0] for x in pair], "weight_decay_v": [x[1] for x in pair]}
    values["spectrum"] = [str(x) for x in values["spectrum"]]
    return {x: np.array(y) for x, y in values.items() if isinstance(y[0], int | float | str) and len({*y}) > 1}


def frame_of_sweep(result: Any) -> Any:
    """Table of a sweep: the parameters of each point, and the value of the function.

    Parameters
    ----------
    result : Sweep
        The values are numbers (column ``value``), dicts of numbers (one column each), or results and tables; each row
        of these begins with the parameters of its point.

    Returns
    -------
    pandas.DataFrame
        A point that failed or was not reached is one row of missing values; a column ``error`` then gives the reason.

    Raises
    ------
    ValueError
        The values cannot be rows of a table, or a parameter has the name of one of their columns.
    ImportError
        pandas is not installed; the message contains the command to install it.

    Examples
    --------
    >>> import overlaps as ov
    >>> table = ov.sweep(lambda x, y: {"product": x * y}, {"x": [1, 2], "y": [10, 20]}).to_pandas()
    >>> table[table.x == 2]["product"].tolist()
    [20, 40]
    """
    pandas, tables, missing = _package("pandas"), [], _missing(result)
    for i, point in enumerate(result.points):
        table = pandas.DataFrame(index=[0]) if i in missing else _table(pandas, point, result.values[i])
        if clash := sorted(set(point) & {*table.columns, *(["error"] if missing else [])}):
            raise ValueError(f"{clash} are parameters of the grid and columns of the values; rename the parameters.")
        parameters = {name: [x] * len(table) for name, x in point.items()}
        table = pandas.concat([pandas.DataFrame(parameters, index=table.index), table], axis=1)
        tables.append(table.assign(error=missing.get(i, "")) if missing else table)
    return pandas.concat(tables, ignore_index=True)


def _table(pandas, point, value):
    """Return the table of one value."""
    value = value.to_pandas() if hasattr(value, "to_pandas") else value
    if isinstance(value, pandas.DataFrame):
        return value
    items = value if isinstance(value, dict) else {"value": value}
    for name, x in items.items():
        if np.ndim(x) or np.asarray(x).dtype.kind not in "biufc":
            raise ValueError(
                f"{name} at {point} is {type(x).__name__}; expected numbers, dicts of them, results or tables. For "
                "arrays use sweep.to_xarray()."
            )
    return pandas.DataFrame(items, index=[0])


def _missing(result):
    """Return {index: reason} of the points of a sweep without a value."""
    texts = {i: f"{type(error).__name__}: {error}" for i, error in result.errors.items()}
    return texts | dict.fromkeys(result.missing, "interrupted or not begun")


def from_batch(batch, coords=None):
    """Dataset of a Batch.

    Parameters
    ----------
    batch : Batch
        Result of ``solve_many``.
    coords : dict of array_like, optional
        Varied quantities: the axes of a grid with as many points as the batch, the last axis varying fastest; or one
        value for each trajectory. By default the numbers in which the models differ, one for each trajectory.

    Returns
    -------
    xarray.Dataset
        Variables ``eps_g, Q, R, v`` with the dimensions of the grid (or ``trajectory``), alpha and those of their
        indices; ``success``, ``end`` and ``nfev`` of each trajectory.

    Raises
    ------
    ValueError
        The coordinates do not match the number of trajectories.
    ImportError
        xarray is not installed; the message contains the command to install it.

    Examples
    --------
    >>> import overlaps as ov
    >>> model, etas, noises = ov.committee_machine(1, 1, eta=0.5), [0.2, 0.5, 1.0], [0.0, 0.1]
    >>> models = [model.replace(eta=eta, noise=noise) for eta in etas for noise in noises]
    >>> batch = ov.solve_many(models, model.random_start(N=1000, rng=1), [0, 5])
    >>> batch.to_xarray(eta=etas, noise=noises).eps_g.dims
    ('eta', 'noise', 'alpha')
    """
    xr, b = _package("xarray"), len(batch)
    axes = {name: np.asarray(values) for name, values in (coords or differences_of(batch.models)).items()}
    lengths = [values.size for values in axes.values()]
    grid = bool(coords) and int(np.prod(lengths)) == b
    if any(x.ndim != 1 for x in axes.values()) or not (grid or all(n == b for n in lengths)):
        raise ValueError(
            f"coordinates of lengths {dict(zip(axes, lengths, strict=True))} for {b} trajectories; expected the axes "
            "of a grid of that many points, or one value for each."
        )
    of_batch, shape = (tuple(axes), tuple(lengths)) if grid else (("trajectory",), (b,))
    if clash := set(axes) & {"alpha", "trajectory", "k", "k2", "m", "m2", *LABELLED, "success", "end", "nfev"}:
        raise ValueError(f"{sorted(clash)} are names of coordinates and of arrays of the batch; rename the first.")
    variables = {}
    for name in ("eps_g", "Q", "R", "v", *["mean_fields"] * bool(batch.models[0].n_classes), "success", "end", "nfev"):
        values = getattr(batch, name)
        values = values.astype(np.int8) if name == "success" else values  # netCDF has no type bool
        values = values.reshape(shape + values.shape[1:])
        variables[name] = dims(name, *of_batch), values, {"long_name": FIELDS[name].words}
    labels = {name: (name if grid else "trajectory", values) for name, values in axes.items()}
    labels |= {"alpha": ("alpha", batch.alpha)}
    return xr.Dataset(variables, labels, {"models": f"{b} x {batch.models[0]}", "version": __version__})


def from_sweep(result: Any) -> Any:
    """Dataset of a sweep: the variables of the values, with the dimensions of the grid followed by their own.

    Parameters
    ----------
    result : Sweep
        The values are numbers or arrays (variable ``value``, dimensions ``dim_0``, ...), dicts of them (one variable
        each), or trajectories or ensembles recorded at the same times; one that ended early is padded with nan.

    Returns
    -------
    xarray.Dataset
        Dimensions are the parameters of a product, with their values as coordinates (numbers and strings unchanged,
        other values as text), or ``point`` for a list of points. If points failed, a variable ``error`` contains the
        messages.

    Raises
    ------
    ValueError
        The values differ in variables or shape, or a parameter has the name of a variable or dimension of the values.
    ImportError
        xarray is not installed; the message contains the command to install it.

    Examples
    --------
    >>> import overlaps as ov
    >>> data = ov.sweep(lambda x, y: x * y, {"x": [1, 2, 3], "y": [10, 20]}).to_xarray()
    >>> int(data.value.sel(x=3, y=20))
    60
    """
    xr, missing = _package("xarray"), _missing(result)
    datasets = {i: _dataset_of(xr, value) for i, value in enumerate(result.values) if i not in missing}
    if len({frozenset(data.data_vars) for data in datasets.values()}) > 1:
        raise ValueError("the values have different variables; let the function return the same kind at every point.")
    datasets = dict(zip(datasets, _aligned(xr, list(datasets.values())), strict=True))
    first = next(iter(datasets.values()), xr.Dataset())
    clash = set(result.grid) & {*first.variables, *first.dims}
    if clash:
        raise ValueError(f"{sorted(clash)} are parameters of the grid and names in the values; rename the parameters.")
    variables = {name: _stacked(result, datasets, name) for name in first.data_vars}
    coords = {name: (name if name in result.dims else "point", _labels(x)) for name, x in result.grid.items()}
    for name, coord in first.coords.items():
        same = all(coord.identical(data[name]) for data in datasets.values())
        coords[name] = coord if same else _stacked(result, datasets, name)  # spectra may differ between points
    if missing:
        messages = np.array([missing.get(i, "") for i in range(len(result))]).reshape(result.shape)
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


def _aligned(xr, datasets):
    """Align the coordinates of all datasets; the times of one that ended early are a subset of the others."""
    if not datasets:
        return datasets
    max_records = max(data.sizes.get("alpha", 0) for data in datasets)
    try:
        joined = xr.align(*datasets, join="outer")
    except ValueError as error:
        raise ValueError(f"the values differ in shape, so they do not fit into a common array: {error}") from None
    if joined[0].sizes.get("alpha", 0) > max_records:
        raise ValueError(
            "the trajectories were recorded at different times; pass the same times to solve, without every_step=True, "
            "or reduce each to numbers with sweep.array(getter)."
        )
    return joined


def _stacked(result, datasets, name):
    """Stack variable ``name`` of all points, with the dimensions of the sweep first; nan at points without a value."""
    one = next(iter(datasets.values()))[name]
    array = result._stacked({i: data[name].values for i, data in datasets.items()}, one.shape)
    return result.dims + one.dims, array, one.attrs


def _labels(values):
    """Return the coordinate of one parameter: numbers and strings unchanged, other values as text."""
    kinds = {x if x in (bool, str) else float for x in map(type, values)}
    if len(kinds) == 1 and all(isinstance(x, int | float | str | np.number) for x in values):
        return np.array(values)
    return np.array([str(x) for x in values])
