"""Every built page, opened in a browser as readers do: ``python docs/check_pages.py docs/_build/html``.

Fails on pages that scroll sideways (on a desk, 1400 px, and on a phone, 400 px), formulas that are not rendered or need
a network, missing or blank pictures, dead links, and objects that print as an address.  Needs Chromium (Debian:
``apt-get install chromium``) and ``pip install "overlaps[pages]"``.
"""

import argparse
import re
import shutil
import sys
from collections import ChainMap, defaultdict
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import numpy as np

WIDTHS = 1400, 400
BROWSERS = 2  # at a time
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
  return {
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
    from matplotlib.image import imread

    def blank(path):
        pixels = imread(path)[..., :3]
        return np.mean(np.abs(pixels - pixels[0, 0]).max(axis=-1) > 0.05) < INK

    return [path for path in paths if blank(path)]


def look(pages):
    """{page: what is wrong in it, window by window}; one browser, every page is loaded once and then made narrow."""
    from playwright.sync_api import sync_playwright

    wrong = defaultdict(list)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=_browser(), args=["--no-sandbox"])
        tab = browser.new_page()
        asked: list[str] = []
        tab.on("request", lambda request: asked.append(request.url))
        for page in pages:
            asked.clear()
            for width in WIDTHS:
                tab.set_viewport_size({"width": width, "height": 1000})
                if width == WIDTHS[0]:
                    tab.goto(page.as_uri())
                seen = tab.evaluate(LOOK)
                found = [f"{seen['over']} px wider than the window: {seen['wide']}"] if seen["over"] > 1 else []
                found += [f"formula not rendered: {x}" for x in seen["raw"] + seen["wrong"]]
                found += [f"picture missing: {x}" for x in seen["missing"]]
                if "_modules" not in page.parts:
                    found += [f"prints as an object: {x}" for x in set(REPR.findall(seen["text"]))]
                wrong[page] += [f"{width} px: {x}" for x in found]
            outside = {x for x in asked if not x.startswith(("file:", "data:"))}
            wrong[page] += [f"needs the network: {x}" for x in sorted(outside)]
        browser.close()
    return wrong


def _browser():
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        sys.exit("no browser found; expected chromium, chromium-browser or google-chrome on the path.")
    return found


def main():
    """Command line: print what is wrong, page by page, and exit with 1 if anything is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="what sphinx built")
    parser.add_argument("pictures", type=Path, nargs="*", help="further pictures: what the examples saved")
    options = parser.parse_args()
    folder = options.folder.resolve()
    pages = sorted(folder.rglob("*.html"))
    if not pages:
        sys.exit(f"folder = {folder} holds no pages; build them first: python -m sphinx docs {folder}")
    with ThreadPoolExecutor(BROWSERS) as pool:
        seen = ChainMap(*pool.map(look, (pages[i::BROWSERS] for i in range(BROWSERS))))
    dead = dead_links(folder)
    faults = 0
    for page in pages:
        found = seen[page] + [f"dead link: {x}" for x in dead[page]]
        faults += len(found)
        for fault in found:
            print(f"{page.relative_to(folder)}: {fault}")
    pictures = [*sorted((folder / "_images").glob("*.png")), *options.pictures]
    for picture in blank_pictures(pictures):
        faults += 1
        print(f"{picture}: blank")
    print(f"{len(pages)} pages, {len(pictures)} pictures, {faults} faults")
    sys.exit(faults > 0)


if __name__ == "__main__":
    main()
