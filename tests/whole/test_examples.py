"""Every example runs to its last assertion."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.slow
@pytest.mark.timeout(1200)  # a process of its own, and kernels to compile
@pytest.mark.parametrize("script", EXAMPLES, ids=lambda p: p.stem)
def test_example(script, tmp_path):
    env = {**os.environ, "MPLBACKEND": "agg"}
    run = subprocess.run([sys.executable, str(script)], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    pictures = list(tmp_path.glob("**/*.png"))
    assert pictures, "the example saved no figure"
    for picture in pictures:
        pixels = imread(picture)[..., :3]
        drawn = np.mean(np.abs(pixels - pixels[0, 0]).max(axis=-1) > 0.05)
        assert drawn > 0.025, f"{picture.name} is blank"  # axes without curves cover 0.016


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda p: p.stem)
def test_a_figure_is_made_drawn_and_saved_in_one_block(script):
    """The gallery shows, block by block, what is open at its end: a figure made in an earlier block would be blank."""
    for block in re.split(r"^# %%.*$", script.read_text(), flags=re.MULTILINE):
        makes = re.search(r"plt\.(subplot|figure)|ov\.explore|\.plot\(|\bplot\w*\(|\bdraw\w*\(|\bax\w* = ", block)
        assert "savefig" not in block or makes


@pytest.mark.parametrize("script", [path for path in EXAMPLES if path.stem.startswith("plot_")], ids=lambda p: p.stem)
def test_the_gallery_tells(script):
    """A script is cells of text, code and figure, not a main() with all of them; the last checks what was claimed."""
    head, *cells = re.split(r"^# %%\n", script.read_text(), flags=re.MULTILINE)
    assert len(cells) >= 3 and "def main" not in script.read_text()
    assert all(re.match(r"# .+\n# -+\n", cell) for cell in cells), "a cell has no title"
    assert re.search(r"^\s*assert ", cells[-1], flags=re.MULTILINE), "the last cell checks nothing"
    assert "savefig" not in head + cells[-1]
