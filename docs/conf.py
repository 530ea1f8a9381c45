"""Sphinx configuration.

Full build:   python -m sphinx -W --keep-going -n docs docs/_build/html
Quick build:  the same with -D plot_gallery=0 -D nb_execution_mode=off, where nothing is run.
"""

import hashlib
import os
import re
import shutil
import tomllib
import zlib
from pathlib import Path

import jupytext
from pygments.lexers.special import TextLexer

import overlaps

HERE = Path(__file__).parent
BUILD = HERE / "_build"

# Links to the repository and to Binder, and the addresses that shared links show, follow from [project.urls]; without
# them there are none.
URLS = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"].get("urls", {})
REPOSITORY = URLS.get("Source", "")
BINDER = REPOSITORY.replace("https://github.com", "https://mybinder.org/v2/gh") + "/HEAD?labpath=notebooks/"

project = "overlaps"
author = copyright = "The overlaps authors"
version = release = overlaps.__version__

extensions = [
    "myst_nb",  # pages in Markdown, lectures with their outputs
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx.ext.intersphinx",
    "sphinx_copybutton",
    "sphinx_design",  # cards of the first page
    "sphinxext.opengraph",
    "sphinx_gallery.gen_gallery",
    "sphinxcontrib.bibtex",
    "sphinx-mathjax-offline",  # pages are read on trains, too
]
exclude_patterns = ["_build", "README.md", "gallery_header.rst", "gallery/**/*.ipynb"]

# pages ---------------------------------------------------------------------------------------------------------------
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 3
bibtex_bibfiles = ["../src/overlaps/results/references.bib"]
html_theme = "furo"
html_title = f"overlaps {version}"
html_static_path = ["_static", "images/overview.png"]
html_css_files = ["wide.css"]
html_show_sphinx = False
templates_path = ["_templates"]
html_theme_options = {"source_branch": "main", "source_directory": "docs/"}
if REPOSITORY:
    html_theme_options["source_repository"] = REPOSITORY
    html_theme_options["footer_icons"] = [{"name": "Repository", "url": REPOSITORY, "html": "&lt;/&gt;", "class": ""}]
copybutton_selector = "div.highlight pre:not(.output pre, .sphx-glr-script-out pre)"  # code, not what it prints
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
ogp_site_url = URLS.get("Documentation", "")
ogp_image = "_static/overview.png"
ogp_image_alt = "ReLU at finite learning rate against SGD; power-law inputs to alpha = 1e9"
ogp_social_cards = {"enable": False}  # one picture for all pages

# other projects' names: from their pages, or, where the network cannot be reached, from inventories.txt ---------------
intersphinx_timeout = 5  # seconds
intersphinx_mapping = {}
PROJECTS = {
    "python": "https://docs.python.org/3/",
    "numpy": "https://numpy.org/doc/stable/",
    "scipy": "https://docs.scipy.org/doc/scipy/",
    "matplotlib": "https://matplotlib.org/stable/",
}
names = [line.split() for line in (HERE / "inventories.txt").read_text().splitlines() if line[0] != "#"]
BUILD.mkdir(exist_ok=True)
for name, address in PROJECTS.items():
    head = f"# Sphinx inventory version 2\n# Project: {name}\n# Version: \n# Compressed with zlib.\n"
    lines = "".join(f"{target} {role} 1 {place} -\n" for owner, role, target, place in names if owner == name)
    (BUILD / f"{name}.inv").write_bytes(head.encode() + zlib.compress(lines.encode()))
    intersphinx_mapping[name] = (address, (None, str(BUILD / f"{name}.inv")))

# lectures ------------------------------------------------------------------------------------------------------------
# Kept as scripts (notebooks/*.py); the pages show them as notebooks, executed in the full build, with links below the
# title to the executed notebook and, with a repository, to one that runs.
lectures = HERE / "lectures"
shutil.rmtree(lectures, ignore_errors=True)
lectures.mkdir()
for script in sorted((HERE.parent / "notebooks").glob("*.py")):
    lecture = jupytext.read(script)
    binder = f"[Open in Binder]({BINDER}{script.stem}.ipynb) to run and change it. " if REPOSITORY else ""
    lecture.cells[0].source += f"\n\n{binder}Download: {{nb-download}}`notebook with outputs <{script.stem}.ipynb>`."
    lecture.metadata["hide-toc"] = True  # lines of code need its place
    jupytext.write(lecture, lectures / f"{script.stem}.ipynb")

# code of pages and lectures ------------------------------------------------------------------------------------------
# Its outputs are kept by what was run: the text of the page's cells, as the file name of the cache, and the package's.
drawn = [HERE / "figures.py", HERE.parent / "benchmarks" / "results" / "performance.json"]
package = sorted((HERE.parent / "src" / "overlaps").rglob("*.py")) + drawn
fingerprint = hashlib.sha256(b"".join(path.read_bytes() for path in package)).hexdigest()[:16]
nb_execution_mode = "cache"
nb_execution_cache_path = str(BUILD / "executed" / fingerprint)
nb_execution_in_temp = True  # files that a page writes are not kept
nb_execution_timeout = 600  # kernels are compiled on the way
nb_execution_raise_on_error = True
nb_render_markdown_format = "myst"  # tables in the outputs of cells
nb_ipywidgets_js = {}  # sliders need a kernel: no script is fetched for them
nb_merge_streams = True  # what one cell prints is one output
os.environ.pop("MPLBACKEND", None)  # kernels draw into the page; the gallery takes Agg by itself
os.environ["OVERLAPS_QUIET"] = "1"  # a page is the same whether or not kernels had to be compiled for it
os.environ["MATPLOTLIBRC"] = str(HERE / "matplotlibrc")
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))  # figures.py

# docstrings: types are prose ("array_like, shape (L,)"), not links ----------------------------------------------------
autodoc_typehints = "none"
autodoc_member_order = "groupwise"
autosummary_generate = True  # a page for each function and class, from _templates
autosummary_generate_overwrite = True
autosummary_imported_members = True
autosummary_ignore_module_all = False
napoleon_google_docstring = False
napoleon_use_param = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]
nitpick_ignore_regex = [("py:class", r"overlaps\.integrators\.compiled_steps\.\w+")]  # internal to the solvers

# gallery -------------------------------------------------------------------------------------------------------------
# Scripts save their figure in the current folder; a copy of them, by topic, keeps the pictures out of the repository.
FIRST_ROW = ["soft_committee", "activations", "perceptrons", "power_law_spectrum", "fluctuations"]  # of the gallery
TOPICS = {  # folder: (title, beginnings of file names)
    "networks": ("Networks", ()),  # the rest
    "power_law": (
        "Power-law data",
        ("power_law", "linear", "feature", "scaling", "plateau_h", "plateau_l", "late", "crossover", "hierarchy"),
    ),
    "quadratic": ("Quadratic networks", ("quadratic",)),
    "manifold": ("Hidden manifold", ("hidden", "manifold", "mixture", "latent", "generator", "digits")),
    "one_step": ("One gradient step", ("spiked", "one_step")),
    "bayes": ("Bayes-optimal learning", ("bayes",)),
    "protocols": (
        "Protocols",
        ("schedules", "optimal_schedule", "forgetting", "replay", "curriculum", "distillation", "low_rank", "averages"),
    ),
    "sweeps": ("Sweeps", ("sweep", "batches")),
}


def topic(script):
    """Folder of the gallery for a script, by the beginning of its name."""
    stem = script.stem.removeprefix("plot_")
    return next((key for key, (_, begins) in TOPICS.items() if stem.startswith(begins)), "networks")


scripts = BUILD / "examples"
shutil.rmtree(scripts, ignore_errors=True)
for key, (title, _) in TOPICS.items():
    (scripts / key).mkdir(parents=True)
    (scripts / key / "GALLERY_HEADER.rst").write_text(f"{title}\n{'-' * len(title)}\n")
for script in sorted((HERE.parent / "examples").glob("*.py")):
    shutil.copy2(script, scripts / topic(script))
for path in (HERE / "images" / "thumbnails").glob("*.png"):  # a script that is run replaces its own
    folder = HERE / "gallery" / topic(Path(path.stem[len("sphx_glr_") : -len("_thumb")])) / "images" / "thumb"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, folder)
for key in TOPICS:  # results of long runs, beside the scripts that draw them
    shutil.copytree(HERE.parent / "examples" / "data", scripts / key / "data")
scripts_path = os.path.relpath(scripts, HERE)
first_row = "".join(f"    {scripts_path}/*/plot_{name}.py\n" for name in FIRST_ROW)
header = (HERE / "gallery_header.rst").read_text()
(scripts / "GALLERY_HEADER.rst").write_text(f"{header}\n.. minigallery::\n\n{first_row}")
sphinx_gallery_conf = {
    "examples_dirs": scripts_path,
    "gallery_dirs": "gallery",
    "subsection_order": [f"{scripts_path}/{key}" for key in TOPICS],
    "parallel": 2,
    "default_thumb_file": str(HERE / "images" / "overview.png"),  # of scripts that are shown and not run
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("overlaps",),
    "filename_pattern": r"/(plot|explore)_",  # sweep_*.py are shown and not run
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_signature": False,
    "write_computation_times": False,  # a table that needs a network
}


def widen_gallery(app, docname, source):
    """Take the right sidebar from pages of the gallery: rows of thumbnails and lines of code need its width."""
    if docname.startswith("gallery/"):
        source[0] = f":hide-toc:\n\n{source[0]}"


def simplify(app, pagename, templatename, context, doctree):
    """Open the tree of the sidebar at the page only, because 400 trees of 400 pages take most of the build's time.

    Generated pages have no link to edit them.
    """
    tree = context["toctree"]
    context["toctree"] = lambda **options: tree(**{**options, "collapse": True})
    if pagename.startswith(("gallery/", "lectures/", "api/generated/")):
        context["page_source_suffix"] = ""


# references by another path than that of the page ---------------------------------------------------------------------
def resolve(app, env, node, contnode):
    """Link ``overlaps.models.Model`` or, from anywhere, ``HiddenManifold.realisation``, where one object ends so."""
    if node.get("refdomain") != "py":
        return None
    domain, parts = env.get_domain("py"), node["reftarget"].split(".")
    for first in range(len(parts)):
        names = [name for name in domain.objects if name.endswith("." + ".".join(parts[first:]))]
        if len(names) == 1:
            return domain.resolve_xref(env, node["refdoc"], app.builder, node["reftype"], names[0], node, contnode)
    return None


def keep_colon(app, what, name, obj, options, lines):
    """Keep napoleon from taking the words before a colon in a property's summary for its type: give it an empty one."""
    if what in ("property", "attribute") and lines:
        lines[0] = f": {lines[0]}"


ARXIV = re.compile(r"(?<![\[/`])\barXiv:(\d{4}\.\d{5})")
PAPER = re.compile(r"\[WR\]")  # as docstrings call it


def link_papers(app, what, name, obj, options, lines):
    """Docstrings: a paper is a link to where it can be read."""
    for number, line in enumerate(lines):
        line = ARXIV.sub(r"`arXiv:\1 <https://arxiv.org/abs/\1>`__", line)
        lines[number] = PAPER.sub(":cite:`WR24`", line)


# Pages with code are notebooks for myst_nb, which asks for this at their top.
NOTEBOOK = "---\nfile_format: mystnb\nkernelspec: {name: python3, language: python}\n---\n\n"


def run_code_of_pages(app, docname, source):
    """Pages in Markdown with cells are run; they say so here and not each by itself."""
    if "```{code-cell}" in source[0] and str(app.env.doc2path(docname)).endswith(".md"):
        source[0] = NOTEBOOK + source[0]


def link_papers_on_pages(app, docname, source):
    """Pages and lectures, in Markdown, and scripts of the gallery: the same."""
    markdown = not str(app.env.doc2path(docname)).endswith(".rst")
    link = r"[arXiv:\1](https://arxiv.org/abs/\1)" if markdown else r"`arXiv:\1 <https://arxiv.org/abs/\1>`__"
    source[0] = ARXIV.sub(link, source[0])


def mend_back_links(app, error):
    """Point "[docs]" of a source page to the name an object is documented by, where another module hands it on."""
    if error or app.builder.name != "html":
        return
    objects = app.env.get_domain("py").objects

    def documented(link):
        page, name = link["page"], link["name"]
        docname = page.rpartition("../")[2]
        here = [known for known, entry in objects.items() if entry.docname == docname]
        parts = name.split(".")
        tails = (".".join(parts[first:]) for first in range(len(parts)))
        found = [known for tail in tails for known in here if known == tail or known.endswith("." + tail)]
        return f'class="viewcode-back" href="{page}.html#{objects[found[0]].node_id if found else ""}"'

    pattern = re.compile(r'class="viewcode-back" href="(?P<page>[^"#]*)\.html#(?P<name>[^"]*)"')
    for page in (Path(app.outdir) / "_modules").rglob("*.html"):
        page.write_text(pattern.sub(documented, page.read_text()))


def setup(app):
    """Connect all of them to the build."""
    app.add_lexer("mermaid", TextLexer)  # drawn where the repository is shown, readable as text here
    app.connect("build-finished", mend_back_links)
    app.connect("autodoc-process-docstring", keep_colon, priority=400)
    app.connect("autodoc-process-docstring", link_papers)
    app.connect("source-read", link_papers_on_pages)
    app.connect("source-read", run_code_of_pages)
    app.connect("source-read", widen_gallery)
    app.connect("missing-reference", resolve)
    app.connect("html-page-context", simplify, priority=400)  # before the theme asks for the tree
