"""Runs every script of examples/, two at a time, in the current folder; exits with 1 if one fails.

Scripts that draw begin in a process that has imported the library: importing is most of what a short one costs.
Those that start processes of their own begin as a user's would.
"""

import contextlib
import multiprocessing
import runpy
import subprocess
import sys
import tempfile
import time
import traceback
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

SCRIPTS = sorted((Path(__file__).resolve().parents[1] / "examples").glob("*.py"))
TOGETHER = 2


def run(script):
    """Whether it ended well, seconds, what it printed."""
    begun = time.monotonic()
    with tempfile.TemporaryFile("w+") as said:
        try:
            passed = begin(script, said)
        except BaseException:  # whatever a script ends with; it is printed, and the script has failed
            traceback.print_exc(file=said)
            passed = False
        said.seek(0)
        return passed, time.monotonic() - begun, said.read()


def begin(script, said):
    """Run one script, which prints into a file; whether it ended well."""
    if not script.name.startswith("plot_"):
        return subprocess.run([sys.executable, script], stdout=said, stderr=subprocess.STDOUT).returncode == 0
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        sys.argv = [str(script)]
        runpy.run_path(str(script), run_name="__main__")
    return True


def main():
    """Print script by script what it said, and exit with 1 if one failed."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["overlaps", "matplotlib.pyplot"])
    failed = 0
    with ProcessPoolExecutor(TOGETHER, mp_context=context, max_tasks_per_child=1) as pool:
        jobs = {pool.submit(run, script): script for script in SCRIPTS}
        for job in as_completed(jobs):
            passed, seconds, said = job.result()
            failed += not passed
            print(f"-- {jobs[job].name} {'passed' if passed else 'FAILED'} ({seconds:.0f}s)\n{said}", flush=True)
    print(f"{len(SCRIPTS)} examples, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
