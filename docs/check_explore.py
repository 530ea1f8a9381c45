"""A notebook page with ``ov.explore``, in a real browser: ``python docs/check_explore.py``.

Serves a notebook and moves the slider as a reader does, by the keyboard. The picture in the page has to be, pixel by
pixel, that of the same moves in this process, which a test compares with whole drawings; at a value that is refused it
stays, with a message. Needs Chromium and ``pip install "overlaps[pages]"``.
"""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import nbformat
import numpy as np
from check_pages import browser as path_of_browser
from PIL import Image

SECONDS = 300  # for a server and a kernel to start, on a busy machine
CURVE = """
import matplotlib
matplotlib.use("agg")
import overlaps as ov
start = ov.State.from_overlaps(ov.committee_machine(1, 1, eta=1.0), Q=[[0.5]], R=[[0.1]], T=[[1.0]])
def curve(eta):
    return ov.solve(ov.committee_machine(1, 1, eta=eta), start, (0, 20))
"""
PATIENCE = 60  # seconds for a picture to change
SHOW = "view = ov.explore(curve, eta=(0.0, 2.0))"  # from the middle, 1, in steps of 0.02
MOVES = 5  # to the right


@contextlib.contextmanager
def served(folder):
    """Address of the notebook page, its kernel in this environment."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "voila", "page.ipynb", "--no-browser", f"--port={port}", "--Voila.ip=127.0.0.1"]
    with open(folder / "log", "w") as log:
        server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=os.environ)
    try:
        for _ in range(SECONDS):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            if server.poll() is not None:
                sys.exit((folder / "log").read_text())
            time.sleep(1)
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.terminate()
        server.wait()


def picture(tab):
    """Pixels of the picture in the page."""
    data = tab.evaluate(
        """async () => {
             const blob = await (await fetch(document.querySelector(".widget-image").src)).blob();
             return [...new Uint8Array(await blob.arrayBuffer())];
           }"""
    )
    return np.asarray(Image.open(BytesIO(bytes(data))).convert("RGB")).astype(int)


def direct(*etas):
    """Pixels of the sliders' figure in this process, after the same moves."""
    import IPython

    names = {}
    exec(CURVE, names)
    IPython.get_ipython = lambda: SimpleNamespace(kernel=None)  # sliders of a notebook
    IPython.display.display = lambda *_: None
    view = names["ov"].explore(names["curve"], eta=(0.0, 2.0))
    for eta in etas:
        view.set(eta=eta)
    picture = Image.open(BytesIO(bytes(view._sliders._image.value)))
    return np.asarray(picture.convert("RGB")).astype(int)


def wait(tab, met, what):
    """Until the picture in the page meets a condition; in vain it is said what was expected."""
    for _ in range(2 * PATIENCE):
        if met(picture(tab)):
            return
        tab.wait_for_timeout(500)
    sys.exit(f"expected {what}; the slider reads {tab.inner_text('.widget-readout')}")


def main():
    """Exit with a sentence if anything is wrong."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name:
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(x) for x in (CURVE, SHOW)])
        nbformat.write(notebook, Path(name) / "page.ipynb")
        with served(Path(name)) as home, sync_playwright() as play:
            browser = play.chromium.launch(executable_path=path_of_browser(), args=["--no-sandbox"])
            tab = browser.new_page()
            tab.goto(home, timeout=1000 * SECONDS)
            tab.wait_for_selector(".widget-image", timeout=1000 * SECONDS)
            wait(tab, lambda seen: np.array_equal(seen, direct()), "the curve of eta = 1")
            tab.focus(".noUi-handle")
            for _ in range(MOVES):
                tab.keyboard.press("ArrowRight")
            moved = direct(*(1.0 + 0.02 * i for i in range(1, MOVES + 1)))
            wait(tab, lambda seen: np.array_equal(seen, moved), "the curve of eta = 1.1")
            tab.keyboard.press("Home")  # eta = 0, which the library refuses
            half = len(moved) // 2  # the message stands below
            told = lambda seen: np.array_equal(seen[:half], moved[:half]) and not np.array_equal(seen, moved)  # noqa: E731
            wait(tab, told, "the last curve, and a message below")
            browser.close()
    print("the slider of a notebook page moves the curve, pixel by pixel as in a process of its own")


if __name__ == "__main__":
    main()
