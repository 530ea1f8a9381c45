"""Names and words that the library no longer uses stay away."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = """
    Cold Told Twins Burst Pace Pieces Leg Cone SeenAgain LaneWork SIDE_BY_SIDE LANES excused louder notable paced
    can_hand_over handover handover_error evolve_many march march_all march_lanes drive_of pieces_of closure_in_lanes
    side_by_side at_hand is_part of_parts plan_for keep_cone seen_again erf_room symmetric_path
""".split()
# words of comments, docstrings and pages; a name of a test may be a sentence with any word
WORDS = r"twins?|bursts?|march(?:es|ed)?|handover|patience|worth a look|at hand|house|rooms?|doors?|tiers?"
FOLDERS = {"src/overlaps": f"{'|'.join(NAMES)}|{WORDS}", "docs": WORDS, "README.md": WORDS, "tests": "|".join(NAMES)}


@pytest.mark.parametrize("folder", FOLDERS)
def test_old_names_and_words_are_gone(folder):
    path = ROOT / folder
    files = (
        [path]
        if path.is_file()
        else [x for x in path.rglob("*") if x.suffix in (".py", ".md") and "_build" not in x.parts]
    )
    old = re.compile(rf"(?<![\w.])(?:{FOLDERS[folder]})(?!\w)")
    mine = {Path(__file__), ROOT / "docs" / "changelog.md"}
    found = [f"{x.relative_to(ROOT)}: {m[0]}" for x in files if x not in mine for m in old.finditer(x.read_text())]
    assert files and not found, "\n".join(found)
