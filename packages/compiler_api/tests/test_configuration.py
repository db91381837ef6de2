"""`triptych.compiler.config`: where a value comes from, and how a wrong one is told."""

import threading

import pytest
import torch
import triptych
from triptych import configuration, overrides
from triptych.compiler import config
from triptych.errors import ConfigError, TriptychError


@pytest.fixture(autouse=True)
def _clean(monkeypatch):
    for row in configuration.TABLE.values():
        for variable in row.variables:
            monkeypatch.delenv(variable, raising=False)
    yield
    for name in configuration.TABLE:
        configuration.unassign(name)


def double(x):
    return x * 2


def test_every_row_has_its_default_and_documentation():
    assert config.as_dict() == {name: row.default for name, row in configuration.TABLE.items()}
    assert set(configuration.TABLE) <= set(dir(config))
    for name, row in configuration.TABLE.items():
        assert configuration.check(name, row.default) == row.default
        assert row.variables and all(v.isupper() for v in row.variables) and row.text


def test_the_order_of_sources(monkeypatch):
    assert config.recompile_limit == 8
    monkeypatch.setenv("TRIPTYCH_RECOMPILE_LIMIT", "5")
    assert config.recompile_limit == 5
    config.recompile_limit = 4
    assert config.recompile_limit == 4
    with config.patch(recompile_limit=3):
        assert config.recompile_limit == 3
        with config.patch({"recompile_limit": 2}):
            assert config.recompile_limit == 2
        assert config.recompile_limit == 3
    del config.recompile_limit
    assert config.recompile_limit == 5


def test_patch_is_of_this_thread_and_a_decorator():
    seen = []
    with config.patch(on_error="eager"):
        thread = threading.Thread(target=lambda: seen.append(config.on_error))
        thread.start()
        thread.join()
    assert seen == ["raise"]

    @config.patch(on_error="eager")
    def inside():
        return config.on_error

    assert inside() == "eager" and config.on_error == "raise"


def test_values_are_taken_when_compile_is_called():
    with config.patch(recompile_limit=1, on_recompile_limit="eager"):
        compiled = triptych.compile(double, backend="eager", dynamic=False)
    with pytest.warns(UserWarning, match="limit"):
        for n in (2, 3, 4):
            compiled(torch.ones(n))
    assert len(triptych.report(compiled).graphs) == 1
    keyword = triptych.compile(double, backend="eager", dynamic=False, recompile_limit=2, on_recompile_limit="error")
    keyword(torch.ones(2)), keyword(torch.ones(3))
    with pytest.raises(RuntimeError, match="limit"):
        keyword(torch.ones(4))


WRONG = [
    ("recompile_limit", 0, "recompile_limit must be a positive integer, not 0"),
    ("recompile_limit", True, "must be a positive integer"),
    ("on_error", "eagre", "on_error cannot be 'eagre': did you mean 'eager'"),
    ("disable", "yes", "disable must be True or False, not 'yes'"),
    ("recompil_limit", 3, "unknown setting 'recompil_limit': did you mean 'recompile_limit'"),
]


@pytest.mark.parametrize(("name", "value", "text"), WRONG)
def test_wrong_values(name, value, text):
    for attempt in (lambda: setattr(config, name, value), lambda: config.patch({name: value})):
        with pytest.raises(ConfigError, match=text):
            attempt()


def test_unknown_names_and_environment(monkeypatch):
    assert not hasattr(config, "zzz")
    with pytest.raises(AttributeError, match=r"docs/configuration\.md"):
        _ = config.zzz
    monkeypatch.setenv("TRIPTYCH_RECOMPILE_LIMIT", "many")
    with pytest.raises(ConfigError, match="environment variable TRIPTYCH_RECOMPILE_LIMIT='many' is wrong"):
        triptych.compile(double)
    assert issubclass(ConfigError, (TriptychError, ValueError, AttributeError))


# -- overrides ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("selector", "inside", "outside"),
    [("3", [3], [2, 4]), ("0-2", [0, 2], [3]), (">7", [8, 99], [7]), (">=7", [7], [6]), ("<2", [0, 1], [2])]
    + [("<=2", [2], [3])],
)
def test_selectors(selector, inside, outside):
    (rule,) = overrides.parse("override_backends", f"{selector}:eager")
    assert all(map(rule.holds, inside)) and not any(map(rule.holds, outside))


def test_graphs_get_other_backends_and_options(monkeypatch):
    monkeypatch.setattr(overrides, "_numbers", iter(range(100)))
    used = []

    def backend(gm, example_inputs):
        used.append(gm)
        return gm.forward

    with config.patch(override_backends="1:eager;2-3:aot_eager"):
        for _ in range(4):
            compiled = triptych.compile(double, backend=backend)
            torch.testing.assert_close(compiled(torch.ones(2)), torch.full((2,), 2.0))
    assert len(used) == 1
    with config.patch(override_options=">3:fusion=0,max-fusion-nodes=7"):
        compiled = triptych.compile(double)
        torch.testing.assert_close(compiled(torch.ones(2)), torch.full((2,), 2.0))
    assert overrides.options_of("fusion=0,max-fusion-nodes=7,channels_last=never") == {
        "fusion": False,
        "max-fusion-nodes": 7,
        "channels_last": "never",
    }


@pytest.mark.parametrize("text", ["eager", "x:eager", "3-:eager", "3:", ">:eager"])
def test_wrong_rules(text):
    with config.patch(override_backends=text), pytest.raises(ConfigError, match="rules look like 3:eager"):
        triptych.compile(double)
