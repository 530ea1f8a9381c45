"""Open every built page in a browser, as readers do: ``python docs/check_pages.py docs/_build/html``.

Fails on pages that scroll sideways (1400 px, a desk, and 400 px, a phone), code of cells that is cut on a desk, errors
of scripts, formulas that are not rendered, anything that needs a network, missing or blank pictures, and objects that
print as an address.  Sphinx itself checks references (``-n -W``) and links (``-b linkcheck``).  Needs Chromium (Debian:
``apt-get install chromium``) and ``pip install "overlaps[pages]"``.
"""

import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

WIDTHS = 1400, 400
BROWSERS = 2  # at a time
LEAST_INK = 0.025  # fraction of pixels unlike the corner's below which a picture is blank: empty axes have 0.016
REPR = re.compile(r"<(?:Figure size|matplotlib\.|Axes)[^>]*>|\bobject at 0x[0-9a-f]+|=<factory>")
SCRIPT = """
async () => {
  if (window.MathJax && MathJax.startup) await MathJax.startup.promise;
  const root = document.documentElement, width = root.clientWidth + 1, text = e => e.textContent.trim().slice(0, 60);
  const all = query => [...document.querySelectorAll(query)];
  const over = all("article *").filter(e => e.getBoundingClientRect().right > width).slice(0, 3);
  const cells = all(".cell_input pre, .sphx-glr-example-title ~ * .highlight-Python pre");
  return {
    "scrolls sideways": root.scrollWidth > width ? ["", ...over.map(e => e.tagName + "." + e.className)] : [],
    "code is cut": width > 1000 ? cells.filter(e => e.scrollWidth > e.clientWidth + 1).map(text) : [],
    "formula not rendered": all(".math").filter(e => !e.querySelector("mjx-container")).map(text),
    "formula is wrong": all("mjx-merror").map(text),
    "picture missing": [...document.images].filter(i => i.complete && i.naturalWidth === 0).map(i => i.src),
    "text": [document.body.innerText],
  };
}
"""


def browser():
    """Path of Chromium or Chrome."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    return found or sys.exit("no browser found; expected chromium, chromium-browser or google-chrome on the path.")


def faults(pages):
    """One sentence for each fault of these pages; a page is loaded once, then made narrow."""
    from playwright.sync_api import sync_playwright

    found = []
    with sync_playwright() as play, play.chromium.launch(executable_path=browser(), args=["--no-sandbox"]) as opened:
        tab, events = opened.new_page(), []
        tab.on("request", lambda x: x.url.startswith("http") and events.append(f"needs the network: {x.url}"))
        tab.on("pageerror", lambda error: events.append(f"error of a script: {error}"))
        for page in pages:
            events.clear()
            tab.goto(page.as_uri())
            for width in WIDTHS:
                tab.set_viewport_size({"width": width, "height": 1000})
                seen = tab.evaluate(SCRIPT)
                text = seen.pop("text")[0]
                seen["prints as an object"] = [] if "_modules" in page.parts else {*REPR.findall(text)}
                found += [f"{page.name}, {width} px: {fault}: {x}" for fault, those in seen.items() for x in those]
            found += [f"{page.name}: {x}" for x in dict.fromkeys(events)]
    return found


def is_blank(picture):
    """Whether a picture has almost nothing on it."""
    pixels = np.asarray(Image.open(picture).convert("RGB"), dtype=np.int16)
    return np.mean(np.abs(pixels - pixels[0, 0]).max(axis=-1) > 12) < LEAST_INK


def main():
    """Print the faults of the pages in a folder and exit with 1 if there are any."""
    folder = Path(sys.argv[1]).resolve()
    pages = sorted(folder.rglob("*.html"))
    if not pages:
        sys.exit(f"{folder} holds no pages; build them first: python -m sphinx docs {folder}")
    with ThreadPoolExecutor(BROWSERS) as pool:
        found = sum(pool.map(faults, (pages[i::BROWSERS] for i in range(BROWSERS))), [])
    pictures = sorted((folder / "_images").glob("*.png"))
    found += [f"{picture.name}: blank" for picture in pictures if is_blank(picture)]
    print(*found, f"{len(pages)} pages, {len(pictures)} pictures, {len(found)} faults", sep="\n")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
