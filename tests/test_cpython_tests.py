"""A few of CPython's own test modules, plain and compiled (`python -m tools.cpython_tests` runs them all)."""

import importlib.util

import pytest

from tools.cpython_tests.__main__ import compare
from tools.cpython_tests.known import KNOWN

MODULES = {"test_property": 15, "test_super": 20}  # how many pass plain, at least


@pytest.mark.parametrize("module", MODULES)
def test_module(module):
    if importlib.util.find_spec("test") is None or importlib.util.find_spec(f"test.{module}") is None:
        pytest.skip("this Python comes without its tests")
    result = compare(module)
    assert len(result.passing) >= MODULES[module]
    assert {name: result.compiled.get(name) for name in result.differing if name not in KNOWN} == {}
