"""What a newcomer sees first: pictures in which SGD agrees with the equations, and commands that the checks execute."""

import re
import tomllib
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from PIL import Image
from scipy.special import erf

import overlaps as ov
from overlaps.__main__ import demo, demo_results, demo_table, fraction_inside

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
CELL = re.compile(r"^```\{code-cell\}\n(.*?)^```", re.MULTILINE | re.DOTALL)
SCATTER = 0.14  # standard deviation over runs of the fraction of R in the band, from 128 runs of the demo


def names_after(page, cells):
    """Names that the first cells of a page define."""
    names = {}
    for code in CELL.findall((ROOT / page).read_text())[:cells]:
        exec(code, names)
    plt.close("all")
    return names


@pytest.mark.parametrize("count", [4, pytest.param(16, marks=pytest.mark.slow)])
def test_runs_of_the_demo_lie_in_the_band(count):
    """Within three standard deviations of the fraction, and four of the mean at the end."""
    fluct, runs = demo_results(runs=count)
    fraction, _ = fraction_inside(fluct, runs)
    assert abs(fraction - erf(np.sqrt(2))) < 3 * SCATTER / np.sqrt(count)
    std = fluct.std("eps_g")[-1]
    assert abs(np.mean([one.eps_g[0, -1] for one in runs]) - fluct.mean("eps_g")[-1]) < 4 * std / np.sqrt(count)
    assert std < 0.2 * fluct.trajectory.eps_g[-1]  # runs follow the curve visibly
    assert f"{fraction:.0%}" in demo_table(fluct, runs) and "expected 95%" in demo_table(fluct, runs)


@pytest.mark.parametrize(
    "page, cells",
    [
        ("docs/index.md", 1),
        pytest.param("docs/start.md", 3, marks=pytest.mark.slow),
        pytest.param("docs/howto/figure.md", 1, marks=pytest.mark.slow),
    ],
)
def test_the_first_figures_agree_with_the_curve(page, cells, tmp_path, monkeypatch):
    """The end of SGD lies within three predicted standard errors of the curve, and these are below a tenth of it."""
    monkeypatch.chdir(tmp_path)
    names = names_after(page, cells)
    traj, sgd = names["traj"], names["sgd"]
    end = sgd.mean("eps_g")[-1]
    fluct = ov.fluctuations(ov.solve(traj.model, traj[0], [0, traj.alpha[-1]]), N=sgd.N)
    error = fluct.std("eps_g")[-1] / np.sqrt(len(sgd))
    assert sgd.alpha[-1] == traj.alpha[-1] and error < 0.1 * traj.eps_g[-1]
    assert abs(end - traj.eps_g[-1]) < 3 * error


@pytest.mark.slow
def test_the_picture_of_the_readme_is_that_of_the_demo(tmp_path, capsys):
    """Bit by bit with the Matplotlib that drew it; another version draws other letters, seen in averages of 25 x 25."""
    demo(tmp_path / "demo.png")
    images = [Image.open(path) for path in (tmp_path / "demo.png", ROOT / "docs" / "images" / "demo.png")]
    drawn, kept = (np.asarray(image.convert("L"), float) for image in images)
    assert drawn.shape == kept.shape == (600, 1500)
    if images[0].text["Software"] == images[1].text["Software"]:
        assert np.mean(drawn != kept) < 1e-3  # of the pixels: rounding may move an edge
    coarse = [image.reshape(24, 25, 60, 25).mean(axis=(1, 3)).ravel() for image in (drawn, kept)]
    assert np.corrcoef(coarse)[0, 1] > 0.95  # Matplotlib 3.9 and 3.11: 0.99; with N = 400: 0.5
    fraction, error = re.search(r"(\d+)% \+- (\d+)% of all R", capsys.readouterr().out).groups()
    assert f"{fraction} ± {error} % do" in README


def test_commands_of_the_readme_are_those_of_the_checks():
    """Each command stands in .ci/run, where options may be added."""
    commands = re.findall(r"^```bash\n(.*?)\n```", README, re.MULTILINE | re.DOTALL)
    executed = [set(line.split()) for line in (ROOT / ".ci" / "run").read_text().splitlines()]
    assert len(commands) == 2
    for command in commands:
        words = set(command.split()) - {"python", "-m"}
        assert any(words <= line for line in executed), command
    assert README.index("docs/images/demo.png") < README.index(commands[0]) < README.index("pip install overlaps`")


def test_every_extra_is_explained():
    table = README[README.index("| extra |") : README.index("## Test")]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(re.findall(r"`(\w+)`", table)) == set(extras)
