"""Small faults in a copy of the package are caught by the tests that stand beside them."""

import zlib

import numpy as np
import pytest
from mutations import FAULTS, PACKAGE, ROOT, caught

FEW = 6  # of them in each run of the long tests: a compiled one takes half a minute


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
@pytest.mark.timeout(1200)  # a pytest of its own, which may have to compile kernels
@pytest.mark.parametrize("which", range(FEW))
def test_a_random_few_are_caught(which, testrun_uid):
    """Others in each run, the same on all its workers; `python tests/mutations.py name` tries one again."""
    rng = np.random.default_rng(zlib.crc32(testrun_uid.encode()))
    name = rng.choice(list(FAULTS), FEW, replace=False)[which]
    dead, said = caught(name)
    assert dead, f"{name} survived\n{said}"
