"""The backend `tvm`: Apache TVM, through the front end of its graph language, relax, for ATen graphs."""

from __future__ import annotations

import dataclasses
import functools
from collections import OrderedDict
from types import SimpleNamespace
from typing import Any

import torch
from torch.fx import GraphModule

from triptych.errors import InvalidOptionError, suggestion
from triptych.partners import host
from triptych.partners.acceptance import INDEXING, UNCHECKED, Executable
from triptych.partners.options import parse
from triptych.reports import Report
from triptych.settings import Backend, Settings

aten = torch.ops.aten
NAME = "tvm"
TARGETS = {"cpu": "llvm", "cuda": "cuda"}


# Operators that relax converts to something that gives other numbers than torch.
_OTHER = "relax gives other numbers"
_STATISTICS = "relax gives other statistics for the backward"
DENIED: dict[Any, str] = {
    aten._native_batch_norm_legit_functional.default: _STATISTICS,
    aten._native_batch_norm_legit.no_stats: _STATISTICS,
    aten.std.correction: _OTHER,
    aten.elu.default: _OTHER,
    aten.avg_pool2d.default: _OTHER,
    aten.avg_pool3d.default: _OTHER,
    aten.var.correction: _OTHER,
    aten._upsample_bilinear2d_aa.default: _OTHER,
    **dict.fromkeys(INDEXING, UNCHECKED),
}


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the backend.

    pipeline: name of the relax pipeline that optimises. device: "cpu" or "cuda". target: TVM's description of the
    processor; that of the device by default. fallback: what happens with operators that relax cannot take: "warn",
    "raise", "ignore".
    """

    pipeline: str = "default"
    device: str = "cpu"
    target: str | None = None
    fallback: str = "warn"


def backend(settings: Settings, report: Report) -> Backend:
    """The backend for `triptych.compile(..., backend="tvm", options={...})`; see `Options`."""
    options = check(settings)
    return host.backend(Tvm(options), settings, report, options.fallback)


def check(settings: Settings) -> Options:
    """The options. Raises InvalidOptionError."""
    options = parse(Options, NAME, settings)
    if options.fallback not in host.POLICIES:
        raise InvalidOptionError(f"fallback={options.fallback!r}: {suggestion(options.fallback, host.POLICIES)}")
    if options.device not in TARGETS:
        raise InvalidOptionError(f"device={options.device!r}: {suggestion(options.device, TARGETS)}")
    return options


@functools.cache
def _importer() -> Any:
    """Relax's front end for ATen graphs; inputs are the placeholders, not those of an export signature."""
    relax = host.require("tvm.relax", "apache-tvm", NAME)
    front_end: Any = host.require("tvm.relax.frontend.torch.exported_program_translator", "apache-tvm", NAME)

    class Importer(front_end.ExportedProgramImporter):  # type: ignore[name-defined]
        def create_input_vars(self, exported_program: Any) -> Any:
            values = {n.name: n.meta["val"] for n in exported_program.graph.nodes if n.op == "placeholder"}
            inputs = OrderedDict(
                (name, relax.Var(name, relax.TensorType(list(v.shape), self._convert_data_type(v.dtype))))
                for name, v in values.items()
            )
            return OrderedDict(), inputs, {}

    return Importer


class Tvm:
    """TVM as a `Partner`."""

    name = NAME
    dtypes = frozenset(
        (torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool)
    )

    def __init__(self, options: Options) -> None:
        self.options = options
        self.devices = frozenset({options.device})

    def refuses(self, target: Any, dtypes: set[torch.dtype]) -> str:
        """Rows of the table above."""
        return DENIED.get(target, "")

    def convert(self, gm: GraphModule) -> Any:
        """The relax module; raises where relax has no form of an operator, or gives it another shape or dtype."""
        module = _importer()().from_exported_program(_program(gm), False, False, False, None)
        _check_results(module, gm)
        return module

    def build(self, gm: GraphModule) -> Executable:
        """A function that runs the compiled module on the memory of its inputs."""
        tvm = host.require("tvm", "apache-tvm", NAME)
        target = tvm.target.Target(self.options.target or TARGETS[self.options.device])
        module = self.convert(gm).with_attr("target", target)
        with target:
            module = tvm.relax.get_pipeline(self.options.pipeline)(module)
            executable = tvm.relax.build(module, target=target)
        device = tvm.cpu(0) if self.options.device == "cpu" else tvm.cuda(0)
        main = tvm.relax.VirtualMachine(executable.mod, device=device)["main"]

        def run(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
            outputs = main(*[tensor.contiguous() for tensor in inputs])
            return [torch.from_dlpack(output) for output in outputs]

        return run


def _program(gm: GraphModule) -> Any:
    """The graph in the shape of an exported program without parameters, as far as relax's front end looks at one."""
    return SimpleNamespace(
        graph=gm.graph,
        graph_module=gm,
        graph_signature=SimpleNamespace(input_specs=[], output_specs=[]),
        named_parameters=dict,
        named_buffers=dict,
        constants={},
    )


def _check_results(module: Any, gm: GraphModule) -> None:
    """Raises where the module does not promise the shapes and dtypes that torch gives."""
    expected = [_described(n.meta["val"]) for n in gm.graph.output_node().args[0]]
    fields = module["main"].ret_ty.fields
    found = [(list(map(int, f.shape.values)), str(f.dtype)) for f in fields]
    if expected != found:
        raise ValueError(f"converted, it gives {found} where torch gives {expected}")


def _described(value: torch.Tensor) -> tuple[list[int], str]:
    return list(value.shape), str(value.dtype).removeprefix("torch.")
