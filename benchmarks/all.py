"""Every benchmark in one table, in under five minutes: times, and ratios to baselines that it runs itself.

    python benchmarks/all.py                                  # the table, kept in benchmarks.json
    python benchmarks/all.py --against before.json            # and what became slower by more than 20 %
    python benchmarks/all.py --read benchmarks.json --write docs/performance.md

Two runs are compared by times in units of a yardstick that is measured beside each row (``timing``), not in seconds.
"""

import argparse
import json
import os
import platform
import time
from importlib import import_module
from pathlib import Path

MODULES = (
    "rhs",
    "relu",
    "derivatives",
    "solve",
    "batches",
    "sgd",
    "functions",
    "schedules",
    "static",
    "figures",
    "startup",
)
SLOWER = 1.2
DECISIVE = (  # rows that users decide by: the page shows them, the file keeps all
    "C, erf, K = M = 2",
    "C, erf, K = M = 40",
    "C, relu, K = M = 4",
    "solve, K = M = 2, η = 0.2, to α = 0.001, 1 record",
    "solve, K = M = 2, η = 0.2, to α = 100, 51 records",
    "solve, K = M = 2, η = 0.2, to α = 1000, 1000 records",
    "DOP853, K = M = 2, η = 0.2, to α = 1000",
    "BDF, K = M = 2, 512 eigenvalues, to α = 1e9",
    "BDF, K = M = 6, 512 eigenvalues, to α = 1e6",
    "solve_many, 900 × (K = M = 2, to α = 100), each",
    "solve_many, 2000 × (K = M = 2, to α = 100, 201 records), each",
    "direct, erf, K = M = 2, N = 1000",
    "direct, erf, K = M = 2, N = 10000",
    "reduced, erf, K = M = 2, any N",
    "reduced, erf, K = M = 2, batches of 100",
    "solve, K = M = 2, to α = 100",
    "Bayes-optimal curve, He₃, k = 10000, 100 points",
    "first solve, erf, nothing compiled",
    "first solve, erf, compiled",
    "first solve, erf, kernels kept",
    "600 curves, erf, nothing compiled",
)
NAMES = {  # rows whose part of the file is needed to understand them
    **{
        name: f"SGD, one step: {name}"
        for name in (
            "direct, erf, K = M = 2, N = 1000",
            "direct, erf, K = M = 2, N = 10000",
            "reduced, erf, K = M = 2, any N",
            "reduced, erf, K = M = 2, batches of 100",
        )
    },
    "solve, K = M = 2, to α = 100": "gelu as a function of the user, K = M = 2, to α = 100",
}
MARKS = "<!-- rows of benchmarks/all.py -->", "<!-- end of rows -->"


def machine():
    """What the numbers were measured on, and with."""
    from overlaps._base.version import versions

    names = [line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "load": round(os.getloadavg()[0], 1),
        "versions": " ".join(versions().split()),
        "date": time.strftime("%Y-%m-%d"),
    }


def _lines(path):
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def measure(names, path):
    """Run the benchmarks of these names; return what was found, which is kept in a file after each of them."""
    from timing import show

    found, began = {"machine": machine(), "rows": []}, time.perf_counter()
    print(heading(found))
    for name in names:
        found["rows"] += show(import_module(name).rows())
        found["machine"]["seconds"] = round(time.perf_counter() - began)
        Path(path).write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    return found


def heading(found):
    """Machine and versions in a sentence."""
    m = found["machine"]
    spent = f", {m['seconds']} s in all" if "seconds" in m else ""
    return (
        f"{m['processor']}, {m['cores']} cores (load {m['load']}), {m['system']}; {m['versions']}; {m['date']}{spent}."
    )


def compare(new, old):
    """Lines that name what became slower, or faster, by more than 20 %, and rows that only one of the two has."""
    costs = [{(row["part"], row["name"]): row["cost"] for row in run["rows"]} for run in (new, old)]
    lines = []
    for key in [*costs[0], *(key for key in costs[1] if key not in costs[0])]:
        after, before = (cost.get(key) for cost in costs)
        if after is None or before is None:
            lines.append(f"{'new' if before is None else 'missing'}: {', '.join(key)}")
        elif not 1 / SLOWER <= after / before <= SLOWER:
            word, times = ("slower", after / before) if after > before else ("faster", before / after)
            lines.append(f"{word}: {', '.join(key)}: {times:.2f} times")
    return sorted(lines, key=lambda line: ["slower", "missing", "new", "faster"].index(line.partition(":")[0]))


def page(found):
    """The decisive rows as one table of a page."""
    from timing import cells

    lines = [heading(found), "", "| | time | baseline |", "|---|---|---|"]
    for row in found["rows"]:
        if row["name"] in DECISIVE:
            name, *rest = cells(row)[:3]
            lines.append(f"| {NAMES.get(name, name)} | {' | '.join(rest)} |")
    return "\n".join(lines)


def write(found, path):
    """Put the table between the marks of a page."""
    text = Path(path).read_text()
    before, rest = text.split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    Path(path).write_text(f"{before}{MARKS[0]}\n\n{page(found)}\n\n{MARKS[1]}{after}")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="name", help=f"some of {', '.join(MODULES)}; all without")
    parser.add_argument("--output", default="benchmarks.json", help="where the rows go (default: %(default)s)")
    parser.add_argument("--against", metavar="FILE", help="an earlier file to compare with; exit code 1 if slower")
    parser.add_argument("--read", metavar="FILE", help="rows of a file, instead of measuring")
    parser.add_argument("--write", metavar="PAGE", help="a page whose table is written anew")
    options = parser.parse_args(arguments)
    if unknown := sorted({*options.names} - {*MODULES}):
        parser.error(f"no benchmark {', '.join(unknown)}; expected some of {', '.join(MODULES)}")
    if options.read:
        found = json.loads(Path(options.read).read_text())
    else:
        found = measure(options.names or MODULES, options.output)
        print(f"\n{len(found['rows'])} rows in {found['machine']['seconds']} s, kept in {options.output}")
    if options.write:
        write(found, options.write)
    if options.against:
        lines = compare(found, json.loads(Path(options.against).read_text()))
        print("\n".join(lines) or "nothing changed by more than 20 %")
        return int(any(line.startswith("slower") for line in lines))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
