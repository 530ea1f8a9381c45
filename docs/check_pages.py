"""Every built page, opened in a browser as readers do: ``python docs/check_pages.py docs/_build/html``.

Fails on pages that scroll sideways (on a desk, 1400 px, and on a phone, 400 px), code of cells that is cut on a desk,
errors of scripts, formulas that are not rendered or need a network, missing or blank pictures, dead links, and objects
that print as an address.  Needs Chromium (Debian: ``apt-get install chromium``) and ``pip install "overlaps[pages]"``.
"""

import argparse
import contextlib
import re
import shutil
import sys
import threading
from collections import ChainMap, defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote, urldefrag, urlsplit

import numpy as np

WIDTHS = 1400, 400
BROWSERS = 2  # at a time
FROM_DISK = 10  # one page in so many is opened as a file, as offline, where scripts may do less
INK = 0.025  # share of pixels unlike the corner's, below which a picture is blank: empty axes have 0.016
REPR = re.compile(r"<(?:Figure size|matplotlib\.|Axes)[^>]*>|\bobject at 0x[0-9a-f]+|=<factory>")
LOOK = """
async () => {
  if (window.MathJax && MathJax.startup) await MathJax.startup.promise;
  const root = document.documentElement, wide = [];
  if (root.scrollWidth > root.clientWidth + 1) {
    // the widest thing that no box of its own lets scroll
    for (const e of document.querySelectorAll("article *")) {
      const box = e.getBoundingClientRect();
      if (box.right > root.clientWidth + 1) wide.push(e.tagName + "." + e.className + " " + Math.round(box.right));
    }
  }
  const formulas = [...document.querySelectorAll(".math")].filter(e => !e.querySelector("mjx-container"));
  const cells = document.querySelectorAll(".cell_input pre, .sphx-glr-example-title ~ * .highlight-Python pre");
  return {
    cut: [...cells].filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent.trim().slice(0, 60)),
    over: root.scrollWidth - root.clientWidth,
    wide: wide.slice(0, 3),
    raw: formulas.map(e => e.textContent.slice(0, 60)),
    wrong: [...document.querySelectorAll("mjx-merror")].map(e => e.textContent.slice(0, 60)),
    missing: [...document.images].filter(i => i.complete && i.naturalWidth === 0).map(i => i.src),
    text: document.body.innerText,
  };
}
"""


class _Links(HTMLParser):
    """What a page points to, and what can be pointed to in it."""

    def __init__(self, page):
        super().__init__()
        self.links, self.anchors = [], {""}
        self.feed(page.read_text())

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.anchors |= {attrs[key] for key in ("id", "name") if attrs.get(key)}
        self.links += [attrs[key] for key in ("href", "src") if attrs.get(key)]


def dead_links(folder):
    """{page: links to a file or an anchor that does not exist}."""
    pages = {page.resolve(): _Links(page) for page in folder.rglob("*.html")}
    dead = defaultdict(list)
    for page, found in pages.items():
        for link in found.links:
            if urlsplit(link).scheme or link.startswith("//"):
                continue
            path, anchor = urldefrag(link)
            target = (page.parent / unquote(urlsplit(path).path)).resolve() if path else page
            target = target / "index.html" if target.is_dir() else target
            known = pages[target].anchors if target in pages else None
            if not target.exists() or (anchor and known is not None and unquote(anchor) not in known):
                dead[page].append(link)
    return dead


def blank_pictures(paths):
    """Those with (almost) nothing on them."""
    from PIL import Image  # comes with Matplotlib

    def blank(path):
        pixels = np.asarray(Image.open(path).convert("RGB"), dtype=np.int16)
        return np.mean(np.abs(pixels - pixels[0, 0]).max(axis=-1) > 12) < INK

    return [path for path in paths if blank(path)]


class _Quiet(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # one connection for all that a page asks for

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def served(folder):
    """Address of the folder: a browser keeps what it parsed of scripts and styles for the next page, of files not."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def look(folder, home, pages):
    """{page: what is wrong in it, window by window}; one browser, every page is loaded once and then made narrow."""
    from playwright.sync_api import sync_playwright

    wrong = defaultdict(list)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=_browser(), args=["--no-sandbox"])
        tab = browser.new_page()
        asked: list[str] = []
        errors: list[str] = []
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.on("console", lambda line: errors.append(line.text) if _is_fault(line) else None)
        for i, page in enumerate(pages):
            asked.clear()
            errors.clear()
            address = home + quote(page.relative_to(folder).as_posix()) if i % FROM_DISK else page.as_uri()
            for width in WIDTHS:
                tab.set_viewport_size({"width": width, "height": 1000})
                if width == WIDTHS[0]:
                    tab.goto(address)
                seen = tab.evaluate(LOOK)
                found = [f"{seen['over']} px wider than the window: {seen['wide']}"] if seen["over"] > 1 else []
                found += [f"code is cut: {x}" for x in seen["cut"] if width == WIDTHS[0]]
                found += [f"formula not rendered: {x}" for x in seen["raw"] + seen["wrong"]]
                found += [f"picture missing: {x}" for x in seen["missing"]]
                if "_modules" not in page.parts:
                    found += [f"prints as an object: {x}" for x in set(REPR.findall(seen["text"]))]
                wrong[page] += [f"{width} px: {x}" for x in found]
            outside = {x for x in asked if not x.startswith((home, "file:", "data:"))}
            wrong[page] += [f"needs the network: {x}" for x in sorted(outside)]
            wrong[page] += [f"error of a script: {x}" for x in errors]
        browser.close()
    return wrong


def _is_fault(line):
    """Whether a line of the console tells of an error; browsers ask for an icon that need not be there."""
    return line.type == "error" and not line.location.get("url", "").endswith("favicon.ico")


def _browser():
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        sys.exit("no browser found; expected chromium, chromium-browser or google-chrome on the path.")
    return found


def main():
    """Command line: print what is wrong, page by page, and exit with 1 if anything is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", type=Path, nargs="+", help="folders that sphinx built, and pictures")
    paths = parser.parse_args().paths
    for path in paths:
        if not path.exists():
            sys.exit(f"{path} does not exist; pages are built by python -m sphinx docs {path}")
    pictures, faults = [path for path in paths if not path.is_dir()], 0
    for folder in paths:
        if folder.is_dir():
            faults += faults_of(folder.resolve())
            pictures += sorted((folder / "_images").glob("*.png"))
    for picture in blank_pictures(pictures):
        faults += 1
        print(f"{picture}: blank")
    print(f"{len(pictures)} pictures, {faults} faults")
    sys.exit(faults > 0)


def faults_of(folder):
    """Print what is wrong with the pages of a folder; how much that is."""
    pages = sorted(folder.rglob("*.html"))
    if not pages:
        sys.exit(f"{folder} holds no pages; build them first: python -m sphinx docs {folder}")
    with served(folder) as home, ThreadPoolExecutor(BROWSERS) as pool:
        seen = ChainMap(*pool.map(partial(look, folder, home), (pages[i::BROWSERS] for i in range(BROWSERS))))
    dead = dead_links(folder)
    faults = 0
    for page in pages:
        found = seen[page] + [f"dead link: {x}" for x in dead[page]]
        faults += len(found)
        for fault in found:
            print(f"{page.relative_to(folder)}: {fault}")
    print(f"{len(pages)} pages")
    return faults


if __name__ == "__main__":
    main()
