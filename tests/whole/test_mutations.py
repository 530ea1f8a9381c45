"""Small faults in a copy of the package are caught by the tests that stand beside them."""

import numpy as np
import pytest
from mutations import FAULTS, PACKAGE, ROOT, caught

DOZEN = 12


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_changes_one_place_and_names_tests_that_are_there(name):
    fault = FAULTS[name]
    assert (PACKAGE / fault.file).read_text().count(fault.old) == 1 and fault.new != fault.old
    for test in fault.tests.split():
        file, _, function = test.partition("::")
        assert (
            f"def {function}(" in (ROOT / "tests" / file).read_text() if function else (ROOT / "tests" / file).exists()
        )


@pytest.mark.slow
@pytest.mark.timeout(3600)  # a dozen runs of pytest, most of which compile kernels
def test_a_random_dozen_is_caught():
    """Another dozen in each run: the seed is in the message, and `python tests/mutations.py name` tries one again."""
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    names = np.random.default_rng(seed).choice(list(FAULTS), DOZEN, replace=False)
    print(f"seed {seed}: {', '.join(names)}")
    survivors = {name: said for name in names for dead, said in [caught(name)] if not dead}
    assert not survivors, f"seed {seed}: {', '.join(survivors)} survived\n" + "\n".join(survivors.values())
