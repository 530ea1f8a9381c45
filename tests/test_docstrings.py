"""Every example in a docstring of the installed package runs and prints what it says."""

import doctest
import importlib
import pkgutil

import pytest

import overlaps

OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
MODULES = sorted(m.name for m in pkgutil.walk_packages(overlaps.__path__, "overlaps.") if "__main__" not in m.name)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=OPTIONS)
    assert failed == 0
