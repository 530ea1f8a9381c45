"""``python -m overlaps demo``: theory against simulation in one figure.  ``python -m overlaps info``: the set-up.

``python -m overlaps run config.toml``: one run, described in a file (:mod:`overlaps.configuration`).
``python -m overlaps warm [erf relu ... | all]``: kernels of these students, like their teachers, compiled into the
cache, for images, clusters and lectures; of erf, if none is named.
"""

import argparse
import os
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

import overlaps as ov
from overlaps._base.folders import UNWRITABLE, why_unsafe
from overlaps._base.jit import cache_folder, watch
from overlaps._base.kernel_cache import kernel_files
from overlaps._base.signatures import bar
from overlaps._base.version import versions
from overlaps.configuration import run
from overlaps.flow import flow

UNREAD = 60  # days after which ``warm --prune`` takes a kernel for one of old code: each load touches its file


def demo(output):
    """Plateau and specialisation of a soft committee machine: direct SGD in the band that is predicted for its N."""
    import matplotlib

    matplotlib.use("agg")
    clock = time.perf_counter()
    model = ov.committee_machine(2, 2, activation=ov.erf, eta=1.5)
    start = ov.State.from_overlaps(model, Q=[[0.5, 0.0], [0.0, 0.4]], R=[[0.06, 0.0], [0.0, 0.08]], T=np.eye(2))
    alpha = np.linspace(0, 70, 71)
    fluct = ov.fluctuations(ov.solve(model, start, alpha), N=400)  # normal draws are most of the time: N^2 of them
    sgd = partial(ov.simulate, model, N=fluct.N, alpha=alpha, start=start, method="direct")
    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(lambda seed: sgd(rng=seed), range(8)))
    print(f"{model}\n")
    print_table(fluct, runs)
    ax = fluct.plot()
    for i, one in enumerate(runs):
        one.plot(ax=ax, color="C1", markersize=2.5, label="_" if i else f"{len(runs)} runs of SGD, N = {fluct.N}")
    ax[0].set_title("plateau, then specialisation", fontsize="medium")
    ax[1].set_title("bands: predicted without simulation", fontsize="medium")
    ax[0].figure.savefig(output, dpi=150)
    print(f"\nfigure: {output}     {time.perf_counter() - clock:.0f} s")
    return fluct, runs


def print_table(fluct, runs):
    """Error of the ODE, its mean and deviation at finite N, single runs; how many overlaps lie in the band."""
    mean, std, theory = fluct.mean("eps_g"), fluct.std("eps_g"), fluct.trajectory
    columns = {"alpha": 6, "ODE": 10, "predicted mean": 15, "predicted std": 14, "run 1": 10, "run 2": 10, "run 3": 10}
    print(f"eps_g at N = {fluct.N}")
    print(" ".join(f"{name:>{width}}" for name, width in columns.items()))
    for i in range(0, len(fluct), 10):
        row = theory.eps_g[i], mean[i], std[i], *(one.eps_g[0, i] for one in runs[:3])
        cells = zip(row, list(columns.values())[1:], strict=True)
        print(f"{fluct.alpha[i]:6.1f} " + " ".join(f"{x:{width}.3e}" for x, width in cells))
    inside = [np.abs(one.R[0] - fluct.mean("R"))[1:] < 2 * fluct.std("R")[1:] for one in runs]
    print(f"\n{np.mean(inside):.0%} of all R within two standard deviations of their mean")


def info():
    """Versions, threads and the folder of compiled kernels."""
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
        print(f"compiled kernels are not kept: {why_unsafe() or UNWRITABLE}, so every process compiles anew; ", end="")
        print("set NUMBA_CACHE_DIR to a folder that can")


def prune():
    """Remove the compiled kernels that no process has read for ``UNREAD`` days: of older versions and of other code."""
    oldest, removed = time.time() - 86400 * UNREAD, 0
    for path in kernel_files():
        if path.stat().st_mtime < oldest:
            path.unlink(missing_ok=True)
            removed += 1
    print(f"{removed} kernels removed that were not read for {UNREAD} days; {len(kernel_files())} are kept")


def warm(students):
    """Compile kernels of the students named, by solving, simulating and linearising the smallest problems there are."""
    os.environ["OVERLAPS_QUIET"] = "1"  # the bar says it
    named = [*KNOWN] if "all" in students else students
    tasks = [*_integrations(named), *_simulations(named)]
    clock, before = time.perf_counter(), watch.count
    with bar(True, len(tasks), "tasks") as tick, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for done, task in enumerate(tasks, 1):
            task()
            tick(done)
    n, folder, seconds = watch.count - before, cache_folder(flow), time.perf_counter() - clock
    if n == 0:
        print(f"nothing to compile: all kernels were found in {folder}" if folder else "nothing to compile")
    elif folder is not None:
        print(f"{n} kernels compiled in {seconds:.0f} s, kept in {folder} for this processor and these versions")
    else:
        print(f"{n} kernels compiled in {seconds:.0f} s, but not kept: set NUMBA_CACHE_DIR to a writable folder")


KNOWN = {
    "linear": ov.linear, "quadratic": ov.quadratic, "relu": ov.relu, "erf": ov.erf, "tanh": ov.tanh,
    "leaky_relu": ov.leaky_relu(0.1), "polynomial": ov.polynomial([0.0, 0.5, 0.0, 0.05]),
}  # fmt: skip


def _integrations(named):
    """Integrations by every method, stability and late times, students like their teachers.

    Teachers of another family have kernels that compile at their first use: half of all, and seldom met.
    """
    spectrum = ov.Spectrum([1.5, 0.5])
    for student in (KNOWN[name] for name in named):
        model = ov.committee_machine(2, 1, activation=student, eta=0.1, spectrum=spectrum)
        start = model.random_start(N=20, rng=1)
        for method in ("DOP853", "structured", "exponential"):
            yield partial(ov.solve, model, start, (0.0, 0.1), method=method)
        yield partial(_batch, model, start)
    for student in (KNOWN[name] for name in named if name in ("erf", "linear", "quadratic")):
        model = ov.committee_machine(1, 1, activation=student, eta=0.1)
        near = ov.State.from_overlaps(model, Q=[[1.0]], R=[[0.999]], T=[[1.0]])
        yield partial(ov.linearise, model, near)
        for method in ("DOP853", "structured"):
            yield partial(ov.solve, model, near, [1.0], method=method, late=True)


def _batch(model, start):
    return ov.solve_many(model, start, np.linspace(0.0, 0.1, 30), blocks=False).eps_g


def _simulations(named):
    """Both simulators and the hidden manifold's."""
    for student in (KNOWN[name] for name in named):
        model = ov.committee_machine(2, 2, activation=student, eta=0.1)
        for method in ("direct", "reduced"):
            yield partial(ov.simulate, model, N=20, alpha=[0, 1], rng=1, method=method)
    yield partial(ov.simulate, ov.hidden_manifold(2, 2, ratio=0.5, eta=0.1), N=20, alpha=[0, 1], rng=1)


EXAMPLES = """
  python -m overlaps demo               SGD in the band predicted for it, in seconds
  python -m overlaps run config.toml    one run: trajectory, figure and configuration in a folder
  python -m overlaps info               versions, cores, cache folder: what a report needs
  python -m overlaps warm erf relu      kernels of these students compiled ahead
"""


def main(arguments=None):
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m overlaps", description=ov.__doc__, epilog=f"examples:{EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"overlaps {ov.__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    job = commands.add_parser(
        "demo", help="SGD beside its equations and their error bars; prints a table, saves a figure"
    )
    job.add_argument("--output", default="overlaps-demo.png", help="where the figure goes (default: %(default)s)")
    job.set_defaults(act=lambda given: demo(given.output))
    job = commands.add_parser("run", help="solve and simulate what a TOML file describes, keep all of it in a folder")
    job.add_argument("config", help="the file, see overlaps.configuration")
    job.set_defaults(act=lambda given: _run(parser, given.config))
    commands.add_parser("info", help="versions, cores, cache folder").set_defaults(act=lambda _: info())
    job = commands.add_parser("warm", help="compile kernels into the cache, with a progress bar")
    job.add_argument("students", nargs="*", choices=[*KNOWN, "all"], default="erf", help="whose kernels (default: erf)")
    job.add_argument("--prune", action="store_true", help=f"only remove kernels not read for {UNREAD} days")
    # the default is no list
    job.set_defaults(act=lambda given: prune() if given.prune else warm(np.atleast_1d(given.students).tolist()))
    options = parser.parse_args(arguments)
    options.act(options)


def _run(parser, path):
    import matplotlib

    matplotlib.use("agg")
    try:
        made = run(path, progress=sys.stderr.isatty())
    except (ValueError, OSError, MemoryError) as error:
        parser.exit(2, f"{error}\n")
    for name in ("trajectory", "runs"):
        if made[name] is not None:
            print(f"{made[name]}\n  {made[name].message}")
    print(f"kept in {made['folder']}: {', '.join(sorted(file.name for file in made['folder'].iterdir()))}")


if __name__ == "__main__":
    main()
