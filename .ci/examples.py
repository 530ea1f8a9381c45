"""Runs the scripts of examples/ that the gallery shows and does not run, in this folder; exits with 1 if one fails.

They start processes of their own, and begin as a user's would. All others run where the pages are built.
"""

import subprocess
import sys
import time
from pathlib import Path

SCRIPTS = sorted(x for x in Path(__file__).resolve().parents[1].glob("examples/*.py") if not x.name.startswith("plot_"))


def main():
    """Print script by script what it said, and exit with 1 if one failed."""
    failed = 0
    for script in SCRIPTS:
        begun = time.monotonic()
        done = subprocess.run([sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        failed += done.returncode != 0
        passed = "passed" if done.returncode == 0 else "FAILED"
        print(f"-- {script.name} {passed} ({time.monotonic() - begun:.0f}s)\n{done.stdout}", flush=True)
    print(f"{len(SCRIPTS)} examples, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
