"""Command line of the library: ``python -m overlaps COMMAND``.

``demo`` compares theory and simulation in one figure; ``info`` prints versions and the cache folder.
``run config.toml`` executes a run described in a file (:mod:`overlaps.configuration`); ``init`` prints such a file, and
``schema`` its JSON schema for editors.
``warm [erf relu ... | all]`` compiles the kernels of these students, with teachers of the same kind, into the cache,
for container images, clusters and lectures; without a name, those of erf.
"""

import argparse
import json
import math
import os
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

import overlaps as ov
from overlaps._base.accounts import account_files
from overlaps._base.folders import UNWRITABLE, why_unsafe
from overlaps._base.jit import cache_folder, watch
from overlaps._base.kernel_cache import kernel_files
from overlaps._base.numba_internals import why_unsupported
from overlaps._base.signatures import bar
from overlaps._base.version import versions
from overlaps.configuration import TEMPLATE, run, schema
from overlaps.flow import flow

# students that ``warm`` accepts
STUDENTS = {
    "linear": ov.linear, "quadratic": ov.quadratic, "relu": ov.relu, "erf": ov.erf, "tanh": ov.tanh,
    "leaky_relu": ov.leaky_relu(0.1), "polynomial": ov.polynomial([0.0, 0.5, 0.0, 0.05]),
}  # fmt: skip


def demo(output):
    """Draw plateau and specialisation of a soft committee machine: SGD, and the band predicted for its N."""
    import matplotlib

    matplotlib.use("agg")
    start_time = time.perf_counter()
    fluct, runs = demo_results()
    print(f"{fluct.model}\n\n{demo_table(fluct, runs)}")
    ax = fluct.plot()
    for i, one in enumerate(runs):
        one.plot(ax=ax, color="C1", markersize=2.5, label="_" if i else f"{len(runs)} runs of SGD, N = {fluct.N}")
    ax[0].set_title("plateau, then specialisation", fontsize="medium")
    ax[1].set_title("bands: predicted without simulation", fontsize="medium")
    ax[0].figure.savefig(output, dpi=150)
    print(f"\nfigure: {output}     {time.perf_counter() - start_time:.0f} s")


def demo_results(*, N=4000, runs=16):
    """Return the fluctuations predicted for SGD at this N, and a list of single runs.

    The plateau amplifies the 1 / sqrt(N) noise of SGD. At N = 4000 eps_g of the last record has a standard deviation of
    15 % and the expansion in 1 / sqrt(N) still describes it; half that N spreads the runs 1.4 times as much.
    """
    model = ov.committee_machine(2, 2, activation=ov.erf, eta=1.5)
    start = ov.State.from_overlaps(model, Q=[[0.5, 0.0], [0.0, 0.4]], R=[[0.06, 0.0], [0.0, 0.08]], T=np.eye(2))
    alpha = np.r_[0:6:0.5, 6:71:2]
    sgd = partial(ov.simulate, model, N=N, alpha=alpha, start=start)
    with ThreadPoolExecutor(2) as pool:  # two threads run SGD, which needs no lock of Python, beside the prediction
        done = pool.map(lambda seed: sgd(rng=seed), range(runs))
        fluct = ov.fluctuations(ov.solve(model, start, alpha), N=N)
        return fluct, list(done)


def demo_table(fluct, runs):
    """Return a table of eps_g: the ODE, mean and deviation predicted at finite N, single runs; and how these agree."""
    mean, std, theory = fluct.mean("eps_g"), fluct.std("eps_g"), fluct.trajectory
    columns = {"alpha": 6, "ODE": 10, "predicted mean": 15, "predicted std": 14, "run 1": 10, "run 2": 10, "run 3": 10}
    lines = [f"eps_g at N = {fluct.N}", " ".join(f"{name:>{width}}" for name, width in columns.items())]
    for i in np.flatnonzero(fluct.alpha % 10 == 0):
        numbers = theory.eps_g[i], mean[i], std[i], *(one.eps_g[0, i] for one in runs[:3])
        cells = zip(numbers, list(columns.values())[1:], strict=True)
        lines.append(f"{fluct.alpha[i]:6.1f} " + " ".join(f"{x:{width}.3e}" for x, width in cells))
    (fraction, error), normal = fraction_inside(fluct, runs), math.erf(math.sqrt(2))
    end, error_of_end = np.mean([one.eps_g[0, -1] for one in runs]), std[-1] / np.sqrt(len(runs))
    lines += [
        f"\n{fraction:.0%} +- {error:.0%} of all R within two standard deviations of their mean; expected {normal:.0%}",
        f"mean of {len(runs)} runs at the end {end:.2e}; expected {mean[-1]:.2e} +- {error_of_end:.0e}",
    ]
    return "\n".join(lines)


def fraction_inside(fluct, runs):
    """Return the fraction of the R within two standard deviations of their mean, and its standard error over runs.

    All R of one run are correlated, so each run is one sample of the fraction.
    """
    inside = [np.abs(one.R[0] - fluct.mean("R"))[1:] < 2 * fluct.std("R")[1:] for one in runs]
    fractions = np.mean(inside, axis=(1, 2, 3))
    return fractions.mean(), fractions.std(ddof=1) / np.sqrt(len(runs))


def info():
    """Print versions, the number of cores and the folder of compiled kernels."""
    print(versions())
    compiled = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
    folder = cache_folder(flow)
    print(f"cores {os.cpu_count()}    jit {'on' if compiled else 'off'}")
    if folder is not None:
        files = kernel_files()
        size = sum(path.stat().st_size for path in files)
        print(
            f"compiled kernels in {folder}: {len(files)} files, {size / 1e6:.1f} MB (set NUMBA_CACHE_DIR to move them)"
        )
    elif compiled:
        reason = why_unsupported() or why_unsafe() or UNWRITABLE
        advice = "" if why_unsupported() else "; set NUMBA_CACHE_DIR to a writable folder"
        print(f"compiled kernels are not cached: {reason}, so every process compiles anew{advice}")


def prune(*, max_unread_days=60):
    """Remove compiled kernels that no process has read for this many days: those of older versions or old code.

    Each load updates the time of the file. With half as many days, kernels that are used every other month are compiled
    again; with twice as many, kernels of old code stay longer.
    """
    oldest, removed = time.time() - 86400 * max_unread_days, 0
    for path in (*account_files(), *kernel_files()):
        if path.stat().st_mtime < oldest:
            path.unlink(missing_ok=True)
            removed += 1
    print(f"{removed} kernels removed that were not read for {max_unread_days} days; {len(kernel_files())} remain")


def warm(students):
    """Compile the kernels of the named students, by solving, simulating and linearising very small problems."""
    os.environ["OVERLAPS_QUIET"] = "1"  # the progress bar replaces the messages about compilation
    named = [*STUDENTS] if "all" in students else students
    tasks = [*_integrations(named), *_simulations(named)]
    start_time, before = time.perf_counter(), watch.count
    with bar(True, len(tasks), "tasks") as tick, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for done, task in enumerate(tasks, 1):
            task()
            tick(done)
    n, folder, seconds = watch.count - before, cache_folder(flow), time.perf_counter() - start_time
    if n == 0:
        print(f"nothing to compile: all kernels were found in {folder}" if folder else "nothing to compile")
    elif folder is not None:
        print(f"{n} kernels compiled in {seconds:.0f} s, cached in {folder} for this processor and these versions")
    else:
        print(f"{n} kernels compiled in {seconds:.0f} s, but not cached: set NUMBA_CACHE_DIR to a writable folder")


def _integrations(named):
    """Yield integrations by every method, of stability and of late times, with teachers like the students.

    The kernels for teachers of another kind, half of all and seldom used, are compiled at their first use.
    """
    spectrum = ov.Spectrum([1.5, 0.5])
    for student in (STUDENTS[name] for name in named):
        model = ov.committee_machine(2, 1, activation=student, eta=0.1, spectrum=spectrum)
        start = model.random_start(N=20, rng=1)
        for method in ("DOP853", "structured"):
            yield partial(ov.solve, model, start, (0.0, 0.1), method=method)
        yield partial(_batch, model, start)
    for student in (STUDENTS[name] for name in named if name in ("erf", "linear", "quadratic")):
        model = ov.committee_machine(1, 1, activation=student, eta=0.1)
        nearly_learned = ov.State.from_overlaps(model, Q=[[1.0]], R=[[0.999]], T=[[1.0]])
        yield partial(ov.linearise, model, nearly_learned)
        for method in ("DOP853", "structured"):
            yield partial(ov.solve, model, nearly_learned, [1.0], method=method, late=True)


def _batch(model, start):
    return ov.solve_many(model, start, np.linspace(0.0, 0.1, 30), blocks=False).eps_g


def _simulations(named):
    """Yield runs of both simulators, and of that of the hidden manifold."""
    for student in (STUDENTS[name] for name in named):
        model = ov.committee_machine(2, 2, activation=student, eta=0.1)
        for method in ("direct", "reduced"):
            yield partial(ov.simulate, model, N=20, alpha=[0, 1], rng=1, method=method)
    yield partial(ov.simulate, ov.hidden_manifold(2, 2, ratio=0.5, eta=0.1), N=20, alpha=[0, 1], rng=1)


def main(arguments=None):
    """Parse the command line and execute the command."""
    examples = """examples:
  python -m overlaps demo               SGD and the band predicted for it, in seconds
  python -m overlaps init > run.toml    a file that describes one run, to be edited
  python -m overlaps run run.toml       one run: trajectory, figure and configuration in a folder
  python -m overlaps info               versions, cores and cache folder, for bug reports
  python -m overlaps warm erf relu      compile the kernels of these students ahead
"""
    parser = argparse.ArgumentParser(
        prog="python -m overlaps", description=ov.__doc__, epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"overlaps {ov.__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    job = commands.add_parser("demo", help="compare SGD with its equations and error bars: a table and a figure")
    job.add_argument("--output", default="overlaps-demo.png", help="path of the figure (default: %(default)s)")
    job.set_defaults(act=lambda given: demo(given.output))
    job = commands.add_parser("run", help="solve and simulate the problem of a TOML file; write results to a folder")
    job.add_argument("config", help="the file, see overlaps.configuration")
    job.set_defaults(act=lambda given: _run(parser, given.config))
    job = commands.add_parser("init", help="print a TOML file that describes a run")
    job.set_defaults(act=lambda _: print(TEMPLATE, end=""))
    job = commands.add_parser("schema", help="print the JSON schema of such files, with which editors complete them")
    job.set_defaults(act=lambda _: print(json.dumps(schema(), indent=1)))
    commands.add_parser("info", help="versions, cores, cache folder").set_defaults(act=lambda _: info())
    job = commands.add_parser("warm", help="compile kernels into the cache, with a progress bar")
    job.add_argument(
        "students", nargs="*", choices=[*STUDENTS, "all"], default="erf", help="kernels to compile (default: erf)"
    )
    job.add_argument("--prune", action="store_true", help="only remove kernels not read for 60 days")
    # given.students is a list, or the default, a string
    job.set_defaults(act=lambda given: prune() if given.prune else warm(np.atleast_1d(given.students).tolist()))
    options = parser.parse_args(arguments)
    options.act(options)


def _run(parser, path):
    import matplotlib

    matplotlib.use("agg")
    try:
        results = run(path, progress=sys.stderr.isatty())
    except (ValueError, OSError, MemoryError) as error:
        parser.exit(2, f"{error}\n")
    for name in ("trajectory", "runs"):
        if results[name] is not None:
            print(f"{results[name]}\n  {results[name].message}")
    print(f"written to {results['folder']}: {', '.join(sorted(file.name for file in results['folder'].iterdir()))}")


if __name__ == "__main__":
    main()
