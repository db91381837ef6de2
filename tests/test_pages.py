"""Pages that are written from tables are up to date, and the migration page has every name."""

import inspect
import re
from pathlib import Path

import pytest
import torch
from triptych import compiler, configuration
from triptych.settings import Keywords

from tools import pages

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.mark.parametrize("name", pages.pages())
def test_generated_parts_are_fresh(name):
    assert (DOCS / name).read_text() == pages.page(name), "run python -m tools.pages"


def first_cells():
    """Names in the first column of the migration page's tables."""
    text = (DOCS / "migration.md").read_text()
    return set(re.findall(r"`([^`]+)`", "\n".join(re.findall(r"^\| ([^|]*)\|", text, re.MULTILINE))))


def test_the_migration_page_has_every_name_of_torch_compiler():
    wanted = set(torch.compiler.__all__) | {"nonstrict_trace", "precompile", "PrecompileError"}
    wanted |= {"cudagraph_mark_warmup_incomplete"}
    assert wanted <= first_cells()
    assert all(hasattr(compiler, name) for name in wanted)


def test_the_migration_page_has_every_setting_of_torch_compiler():
    import torch.compiler.config  # noqa: PLC0415

    assert set(torch.compiler.config._config) <= first_cells()


@pytest.mark.slow
def test_the_migration_page_has_every_name_of_torch_dynamo():
    import torch._dynamo  # noqa: PLC0415  (the peer, for its list of names)

    assert set(torch._dynamo.__all__) <= first_cells()


def test_the_migration_page_has_every_argument_of_compile():
    wanted = set(inspect.signature(torch.compile).parameters)
    assert wanted <= first_cells()
    peer = {"model", "fullgraph", "dynamic", "backend", "mode", "options", "name", "disable", "recompile_limit"}
    assert peer | {"isolate_recompiles", "shapes_spec", "dynamic_shapes"} <= first_cells()
    ours = set(Keywords.__annotations__) - {"on_error", "on_recompile_limit"}
    assert ours <= first_cells()


def test_every_setting_is_documented():
    text = (DOCS / "configuration.md").read_text()
    for name, row in configuration.TABLE.items():
        assert f"| `{name}` |" in text and all(f"`{variable}`" in text for variable in row.variables)
