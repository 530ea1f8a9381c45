"""Every notebook converts, runs to its last assertion, and shows figures; needs the extra ``overlaps[notebooks]``."""

import json
import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.py"))
INLINE = "module://matplotlib_inline.backend_inline"  # whatever MPLBACKEND says outside


@pytest.mark.slow
@pytest.mark.timeout(1200)  # a process of its own, and kernels to compile
@pytest.mark.parametrize("script", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook(script, tmp_path):
    import jupytext
    from nbclient import NotebookClient

    notebook = jupytext.read(script)
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}})
    client.execute(env={**os.environ, "MPLBACKEND": INLINE})  # raises at the first error
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [x for x in outputs if x.output_type == "error"]
    assert "".join(x.text for x in outputs if x.get("name") == "stderr") == "", "a cell warns"
    assert outputs[-1].text == "all checks passed\n"
    assert sum("image/png" in x.get("data", {}) for x in outputs) >= 4


def test_there_are_notebooks():
    assert [x.stem for x in NOTEBOOKS] == ["annealing", "one_step", "plateau", "scaling_laws"]


@pytest.mark.parametrize("script", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_has_the_cells_of_its_script(script):
    """``jupytext --to ipynb --update notebooks/*.py`` makes them equal again."""
    _, *cells = re.split(r"^# %%(.*)\n", script.read_text(), flags=re.MULTILINE)
    markers, texts = cells[::2], [text.strip("\n") for text in cells[1::2]]
    unmarked = [re.sub("^# ?", "", x, flags=re.MULTILINE) if m else x for m, x in zip(markers, texts, strict=True)]
    written = json.loads(script.with_suffix(".ipynb").read_text())["cells"]
    assert ["".join(cell["source"]).strip("\n") for cell in written] == unmarked
    assert [cell["cell_type"] for cell in written] == ["markdown" if marker else "code" for marker in markers]
    assert not any(cell.get("outputs") for cell in written), "stored without outputs"


@pytest.mark.parametrize("script", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_page_of_the_guide_links_its_lecture(script):
    pages = [page for page in (ROOT / "docs").glob("*.md") if page.stem != "notebooks"]
    assert any(f"{{doc}}`lectures/{script.stem}`" in page.read_text() for page in pages)
