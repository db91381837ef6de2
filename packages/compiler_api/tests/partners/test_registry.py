"""The table of backends: names, aliases, tags, reasons, and adapters against what their packages promise."""

import sys
import types

import pytest
import torch
import triptych
from torch import nn
from triptych import backend_table, backends
from triptych.errors import (
    BackendUnavailableError,
    InvalidBackendError,
    InvalidModeError,
    InvalidOptionError,
    TriptychError,
)


def double(x, weight):
    hidden = torch.relu(x @ weight)
    return hidden.sum(), hidden * 2


def check(backend, **settings):
    compiled = triptych.compile(double, backend=backend, fullgraph=True, **settings)
    x, weight = torch.randn(3, 4), torch.randn(4, 5, requires_grad=True)
    for _ in range(2):
        found, expected = compiled(x, weight), double(x, weight)
        torch.testing.assert_close(found, expected)
        gradients = [torch.autograd.grad(a + b.sum(), weight) for a, b in (found, expected)]
        torch.testing.assert_close(*gradients)
    return compiled


WORKING = [
    name for name, row in backend_table.TABLE.items() if not row.needs and not row.reason and "TESTING" not in name
]


@pytest.mark.parametrize("name", WORKING)
def test_every_backend_of_ours(name):
    check(name)


def test_names_and_tags():
    shown, everything = backends.list_backends(), backends.list_backends(())
    assert {"inductor", "cudagraphs"} <= set(shown) and shown == sorted(shown)
    assert not {"eager", "aot_eager", "ts"} & set(shown)
    assert set(backend_table.TABLE) <= set(everything) and backends.list_backends(None) == everything
    assert {"triptych", "triptych_aot_eager"} <= set(everything)  # entry points


@pytest.mark.parametrize("name", [n for n, row in backend_table.TABLE.items() if row.reason or row.needs])
def test_names_without_anything_behind_them_say_why(name, monkeypatch):
    monkeypatch.setattr(backend_table.importlib.util, "find_spec", lambda module: None)
    assert name not in backends.list_backends()
    with pytest.raises(BackendUnavailableError, match="cannot be used here: .{20}"):
        triptych.compile(double, backend=name)


def test_the_needs_of_intel_processors_are_named():
    with pytest.raises(BackendUnavailableError, match="2.8.*inductor"):
        triptych.compile(double, backend="ipex")


def test_unknown_names():
    with pytest.raises(InvalidBackendError, match="did you mean 'openvino'"):
        triptych.compile(double, backend="openvno")
    with pytest.raises(InvalidModeError):
        triptych.compile(double, backend="eager_debug", mode="max-autotune")
    with pytest.raises(InvalidOptionError):
        triptych.compile(double, backend="cudagraphs", options={"a": 1})


def test_an_entry_point_is_loaded_when_it_is_used(monkeypatch):
    loads = []

    class Point:
        name = "somebodys"

        def load(self):
            loads.append(self.name)
            return lambda gm, inputs, **kwargs: gm.forward

    import triptych_dynamo.backends as registry

    monkeypatch.setattr(registry, "entry_points", lambda group: [Point()])
    monkeypatch.setattr(registry, "_TABLE", dict(registry._TABLE))
    assert "somebodys" in backends.list_backends() and not loads
    check("somebodys")
    assert loads == ["somebodys"]


def test_debug_backends_find_what_they_are_for():
    def wrong(gm, inputs):
        return triptych.debug_backends._checked(gm)

    def raises(x):
        return torch.linalg.cholesky(x)

    with pytest.raises(TriptychError, match="captured graph raised"):
        triptych.compile(raises, backend="eager_noexcept")(-torch.eye(2))
    relu = nn.ReLU()
    with pytest.raises(TriptychError, match="on purpose"):
        triptych.compile(relu, backend="relu_compile_error_TESTING_ONLY")(torch.ones(2))
    with pytest.raises(TriptychError, match="on purpose"):
        triptych.compile(relu, backend="relu_runtime_error_TESTING_ONLY")(torch.ones(2))
    assert triptych.compile(relu, backend="relu_accuracy_error_TESTING_ONLY")(torch.ones(2)).tolist() == [2, 2]


def test_metadata_is_checked():
    from triptych.debug_backends import MetadataError, _checked

    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(torch.sin, (x,))
    y.meta.update(val=torch.empty(3, dtype=torch.float64), stack_trace='  File "a.py", line 3, in f\n    y = x.sin()')
    graph.output((y,))
    with pytest.raises(MetadataError, match=r"float64.*a.py.*line 3"):
        _checked(torch.fx.GraphModule(nn.Module(), graph))(torch.ones(3))


# -- adapters, against stand-ins that behave as the packages document --------------------------------------------------
@pytest.fixture
def installed(monkeypatch):
    """Puts a module tree in place of a package."""

    def put(name, **attributes):
        parts = name.split(".")
        for k in range(len(parts)):
            path = ".".join(parts[: k + 1])
            module = sys.modules.get(path) or types.ModuleType(path)
            module.__spec__ = types.SimpleNamespace(name=path)
            module.__path__ = []
            monkeypatch.setitem(sys.modules, path, module)
        vars(module).update(attributes)
        find_spec = backend_table.importlib.util.find_spec
        monkeypatch.setattr(
            backend_table.importlib.util, "find_spec", lambda m: object() if m == parts[0] else find_spec(m)
        )

    return put


@pytest.mark.parametrize("name", ["tensorrt", "torch_tensorrt", "aot_torch_tensorrt_aten"])
def test_tensorrt_is_given_the_graph_and_told_not_to_fall_back(installed, name):
    seen = {}

    def torch_tensorrt_backend(gm, sample_inputs, **kwargs):
        seen.update(kwargs["options"], graph=gm, count=len(sample_inputs))
        return gm.forward

    installed("torch_tensorrt.dynamo.backend", torch_tensorrt_backend=torch_tensorrt_backend)
    compiled = check(name, options={"min_block_size": 3})
    assert seen["min_block_size"] == 3 and seen["pass_through_build_failures"] is True and seen["count"] == 2
    assert triptych.report(compiled).partners[0].executions == 2
    with pytest.raises(InvalidModeError):
        triptych.compile(double, backend=name, mode="max-autotune")


def test_xla_compiles_at_the_first_run_with_real_inputs(installed):
    seen = []

    def extract_compiled_graph(gm, inputs):
        seen.append([type(i) for i in inputs])
        return gm.forward

    installed("torch_xla._dynamo.dynamo_bridge", extract_compiled_graph=extract_compiled_graph)
    check("openxla")
    assert len(seen) == 2 and all(issubclass(kind, torch.Tensor) for kinds in seen for kind in kinds)  # two graphs
    assert not any("Fake" in kind.__name__ for kinds in seen for kind in kinds)


def test_ipex_compiles_each_graph(installed):
    seen = []

    def compile(gm, inputs):
        seen.append(gm)
        return gm.forward

    installed("intel_extension_for_pytorch", compile=compile)
    check("ipex")
    assert len(seen) == 2
    with pytest.raises(InvalidOptionError):
        triptych.compile(double, backend="ipex", options={"a": 1})
