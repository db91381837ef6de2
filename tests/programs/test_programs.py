"""Whole programs give compiled what they give plainly, in as few graphs as when they came into the table."""

import importlib

import pytest

from tests.programs.program import PROGRAMS, Compiled, as_it_is, assert_equal, outcome

for theme in ("training_programs", "module_programs", "numeric_programs", "python_programs"):
    importlib.import_module(f"tests.programs.{theme}")


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    entry, compiled = PROGRAMS[name], Compiled()
    (expected, drawn), (got, drawn_compiled) = outcome(entry.run, as_it_is), outcome(entry.run, compiled)
    assert_equal(got, expected)
    assert drawn_compiled == drawn
    assert compiled.counts() == (entry.graphs, entry.breaks)
