"""Limits of recompilation, errors of the program, of backends and of the tracer, hooks of `optimize`."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import triptych_dynamo as td


def test_recompile_limit_is_announced() -> None:
    compiled = td.optimize("eager", recompile_limit=2)(lambda x, text: x + len(text))
    x = torch.ones(2)
    compiled(x, "a"), compiled(x, "bb")
    with pytest.warns(td.RecompileLimitWarning, match=r"compiled 2 times.*'text'.*test_errors_and_limits.py"):
        assert torch.equal(compiled(x, "ccc"), x + 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(compiled(x, "dddd"), x + 4)
        assert torch.equal(compiled(x, "bb"), x + 2)


def test_recompile_limit_under_fullgraph_raises() -> None:
    compiled = td.optimize("eager", recompile_limit=1, fullgraph=True)(lambda x, text: x + len(text))
    compiled(torch.ones(2), "a")
    with pytest.raises(RuntimeError, match="limit"):
        compiled(torch.ones(2), "bb")


def test_fullgraph_break_names_id_line_and_hint() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        td.graph_break()
        return y

    with pytest.raises(td.GraphBreakError) as caught:
        td.optimize("eager", fullgraph=True)(fn)(torch.ones(2))
    assert caught.value.id.startswith("DYN")
    text = str(caught.value)
    assert f"{__file__}:{fn.__code__.co_firstlineno + 2}" in text and "hint:" in text


@pytest.mark.parametrize("fullgraph", [False, True])
def test_exceptions_are_the_programs_own(fullgraph: bool) -> None:
    class Mine(ValueError):
        pass

    def inner(x: torch.Tensor) -> torch.Tensor:
        raise Mine(x.shape[0])

    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return inner(y)

    with pytest.raises(Mine) as caught:
        td.optimize("eager", fullgraph=fullgraph)(fn)(torch.ones(2))
    assert caught.value.args == (2,)
    assert [entry.name for entry in caught.traceback][-2:] == ["fn", "inner"]
    with pytest.raises(RuntimeError, match="must match"):
        td.optimize("eager", fullgraph=fullgraph)(lambda x, y: x + y)(torch.ones(2), torch.ones(3))


def test_effects_of_a_failing_program() -> None:
    seen: list[int] = []

    def fn(x: torch.Tensor) -> None:
        seen.append(1)
        raise KeyError("k")

    compiled = td.optimize("eager")(fn)
    with pytest.raises(KeyError):
        compiled(torch.ones(1))
    assert seen == [1]


def test_backend_contract() -> None:
    seen: dict[str, Any] = {}

    def backend(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Any:
        seen["inputs"] = example_inputs
        seen["nodes"] = list(gm.graph.nodes)
        seen["modes"] = torch._C._len_torch_dispatch_stack()

        def run(args: list[Any]) -> Any:
            items = list(args)
            args.clear()
            return gm.forward(*items)

        run._boxed_call = True
        return run

    compiled = td.optimize(backend, fullgraph=True)(lambda x, y: (x @ y).relu())
    x = torch.ones(2, 3)
    assert torch.equal(compiled(x, x.t()), torch.full((2, 2), 3.0))
    assert [tuple(item.shape) for item in seen["inputs"]] == [(2, 3), (3, 2)]
    assert seen["modes"] == 0
    calls = [node for node in seen["nodes"] if node.op.startswith("call")]
    assert all("test_errors_and_limits.py" in node.meta["stack_trace"] for node in calls)
    assert all("val" in node.meta for node in calls)
    assert [tuple(node.meta["val"].shape) for node in calls] == [(2, 2), (2, 2)]


def test_backends_by_name() -> None:
    @td.register_backend(name="counting-for-test")
    def counting(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Any:
        calls.append(gm)
        return gm.forward

    calls: list[Any] = []
    td.optimize("counting-for-test")(lambda x: x + 1)(torch.ones(1))
    assert len(calls) == 1
    assert "counting-for-test" in td.list_backends()
    assert "eager" in td.list_backends(()) and "eager" not in td.list_backends()
    with pytest.raises(td.InvalidBackend, match="did you mean 'eager'"):
        td.optimize("eagr")
    with pytest.raises(TypeError, match="the backend returned"):
        td.optimize(lambda gm, inputs: None)(lambda x: x + 1)(torch.ones(1))


def test_hooks() -> None:
    seen: dict[str, list[Any]] = {name: [] for name in ("graph", "guards", "bytecode", "recompile", "break")}
    hooks = td.Hooks(
        lambda gm, inputs: seen["graph"].append(gm),
        seen["guards"].append,
        lambda old, new: seen["bytecode"].append((old, new)),
        seen["recompile"].append,
        seen["break"].append,
    )

    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        td.graph_break("stop")
        return y + 1

    compiled = td.optimize("eager", hooks=hooks)(fn)
    compiled(torch.ones(2)), compiled(torch.ones(3))
    assert [len(seen[name]) for name in ("graph", "bytecode", "guards")] == [4, 4, 4]
    assert seen["bytecode"][0][0] is fn.__code__
    assert "size mismatch" in seen["recompile"][0]
    assert "stop" in str(seen["break"][0])


def test_faults_of_the_tracer(monkeypatch: pytest.MonkeyPatch) -> None:
    from triptych_dynamo.trace.graph import GraphBuilder

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    ours: dict[str, Any] = {"__name__": GraphBuilder.__module__}  # what the code of a program raises is its own error
    exec("def broken(*args):\n    raise KeyError('a bug')", ours)
    monkeypatch.setattr(GraphBuilder, "call", ours["broken"])
    with pytest.raises(
        td.TracerFault, match=f"test_errors_and_limits.py:{fn.__code__.co_firstlineno + 1}: KeyError"
    ) as caught:
        td.optimize("eager")(fn)(torch.ones(1))
    assert isinstance(caught.value.__cause__, KeyError)
    compiled = td.optimize("eager", options=td.Options(on_error="eager"))(fn)
    with pytest.warns(UserWarning, match="the frame runs eagerly"):
        assert compiled(torch.ones(1)).item() == 2
    assert compiled(torch.ones(1)).item() == 2


def test_faults_where_code_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    from triptych_dynamo.emit.frame_part import FramePart

    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        td.graph_break()
        return y

    def broken(self: FramePart) -> list[Any]:
        return [next(iter(()))]

    monkeypatch.setattr(FramePart, "stack_values", broken)
    with pytest.raises(td.TracerFault, match=r"test_errors_and_limits.py:\d+: StopIteration"):
        td.optimize("eager")(fn)(torch.ones(1))


def test_what_modules_do_when_imported_is_nothing_to_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import torch\ndef made(n):\n    return torch.ones(n) * 2\nVALUE = made(3)\n"
    (tmp_path / "imported_by_a_region.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))

    @td.disable(recursive=False)
    def load() -> torch.Tensor:
        import imported_by_a_region

        return imported_by_a_region.made(2) + imported_by_a_region.VALUE.sum()

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x + load()

    compiled = td.optimize("eager")(fn)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 9.0))
    names = [record.name for record in td.region_of(compiled).records]
    assert [name for name in names if name.startswith("made")] == ["made+0"]  # the call by `load`, not the module's own
    assert sys.modules.pop("imported_by_a_region").VALUE.shape == (3,)
