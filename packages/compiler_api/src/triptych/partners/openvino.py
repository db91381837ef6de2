"""The backend `openvino`: Intel's inference engine, through its front end for fx graphs.

The engine's own entry point for torch.compile is not used: it captures a second time, keeps options in a global, and
runs what it cannot convert in torch without a word.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Mapping
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
NAME = "openvino"
OV_TYPES = {
    torch.float32: "f32",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "boolean",
}


# Operators that OpenVINO converts to something that gives other numbers than torch, and those with integers only.
_OTHER = "OpenVINO gives other numbers"
DENIED: dict[Any, str] = {
    op: _OTHER
    for op in (
        aten.var.correction,
        aten.var_mean.correction,
        aten.std.correction,
        aten._safe_softmax.default,
        aten._cdist_forward.default,
        aten.erfinv.default,
        aten.topk.default,
        aten.gcd.default,
        aten.repeat.default,
        aten.sort.default,
    )
} | dict.fromkeys(INDEXING, UNCHECKED)
INTEGERS_DENIED: dict[Any, str] = {
    op: f"{_OTHER} for integers"
    for op in (
        aten.div.Tensor_mode,
        aten.div.Scalar_mode,
        aten.floor_divide.default,
        aten.avg_pool2d.default,
        aten.avg_pool3d.default,
    )
}


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the backend.

    device: OpenVINO's name of a device ("CPU", "GPU", "AUTO:..."). config: its properties, such as
    {"INFERENCE_PRECISION_HINT": "bf16"}; unless given, floating point is computed in float32, where OpenVINO itself
    would choose bfloat16 on processors that have it. cache_dir: folder of its cache of compiled models. model_caching:
    use that cache (in "openvino_cache" when no folder is given). disabled_ops: operators ("aten.relu.default") that
    torch runs itself. fallback: what happens with operators that cannot be converted: "warn", "raise", "ignore".
    """

    device: str = "CPU"
    config: dict[str, Any] = dataclasses.field(default_factory=dict)
    cache_dir: str | None = None
    model_caching: bool = False
    disabled_ops: tuple[str, ...] = ()
    fallback: str = "warn"

    def properties(self) -> dict[str, Any]:
        """What OpenVINO is given when it compiles a model."""
        folder = self.cache_dir or ("openvino_cache" if self.model_caching else None)
        chosen: dict[str, Any] = {"INFERENCE_PRECISION_HINT": "f32"}
        if folder:
            chosen["CACHE_DIR"] = folder
        return chosen | dict(self.config)


def backend(settings: Settings, report: Report) -> Backend:
    """The backend for `triptych.compile(..., backend="openvino", options={...})`; see `Options`."""
    options = check(settings)
    return host.backend(OpenVino(options), settings, report, options.fallback)


def check(settings: Settings) -> Options:
    """The options. Raises InvalidOptionError, also for a device that OpenVINO does not find."""
    options = parse(Options, NAME, settings)
    if options.fallback not in host.POLICIES:
        raise InvalidOptionError(f"fallback={options.fallback!r}: {suggestion(options.fallback, host.POLICIES)}")
    if not isinstance(options.config, Mapping) or not all(isinstance(key, str) for key in options.config):
        raise InvalidOptionError(f"option 'config' maps names of OpenVINO properties to values, not {options.config!r}")
    known = _core().available_devices
    family = options.device.split(":")[0].split(".")[0]
    if family not in {*(name.split(".")[0] for name in known), "AUTO", "HETERO", "MULTI"}:
        raise InvalidOptionError(
            f"OpenVINO finds no device {options.device!r} here: {suggestion(options.device, known)}"
        )
    return options


@functools.cache
def _core() -> Any:
    return host.require("openvino", "openvino", NAME).Core()


@functools.cache
def _front_end() -> tuple[Any, Any]:
    """The front end for PyTorch and its manager, which has to live as long."""
    manager = host.require("openvino.frontend", "openvino", NAME).FrontEndManager()
    return manager.load_by_framework("pytorch"), manager


class OpenVino:
    """OpenVINO as a `Partner`. Converted graphs take their weights as inputs, so that later changes to them count."""

    name = NAME
    dtypes = frozenset(OV_TYPES)
    devices = frozenset({"cpu"})

    def __init__(self, options: Options) -> None:
        self.options = options
        self._denied = {_operator(name): "disabled by option" for name in options.disabled_ops} | DENIED

    def refuses(self, target: Any, dtypes: set[torch.dtype]) -> str:
        """Rows of the tables above."""
        integral = any(not dtype.is_floating_point for dtype in dtypes)
        return self._denied.get(target) or (INTEGERS_DENIED.get(target, "") if integral else "")

    def convert(self, gm: GraphModule) -> Any:
        """An `openvino.Model`; raises OpConversionFailure with the operators that have no rule."""
        decoder = host.require("openvino.frontend.pytorch.fx_decoder", "openvino", NAME).TorchFXPythonDecoder
        values = [node.meta["val"] for node in gm.graph.nodes if node.op == "placeholder"]
        shapes, types = [v.shape for v in values], [v.dtype for v in values]
        front_end, _ = _front_end()
        source = decoder(gm, input_shapes=shapes, input_types=types)  # has to live until the graph is converted
        model = front_end.convert(front_end.load(source))
        _check_results(model, gm)
        return model

    def build(self, gm: GraphModule) -> Executable:
        """A function that runs the compiled model on the memory of its inputs, without copying them.

        Results are copied: where OpenVINO finds that a result is an input, the two share memory.
        """
        openvino = host.require("openvino", "openvino", NAME)
        compiled = _core().compile_model(self.convert(gm), self.options.device, self.options.properties())
        request, lock = compiled.create_infer_request(), threading.Lock()
        names = [node.name for node in gm.graph.nodes if node.op == "placeholder"]
        used = [k for k, name in enumerate(names) if any(name in value.get_names() for value in compiled.inputs)]
        dtypes = [dtype for _, dtype in _results(gm)]

        def run(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
            given = {names[k]: _shared(openvino, inputs[k].contiguous()) for k in used}
            with lock:
                request.infer(given)
                return [_copied(request.get_output_tensor(k), dtype) for k, dtype in enumerate(dtypes)]

        return run


def _operator(name: str) -> Any:
    """The operator of a name such as "aten.relu.default" or "torch.ops.aten.relu.default"."""
    found: Any = torch.ops
    for part in name.removeprefix("torch.ops.").split("."):
        found = getattr(found, part)
    return found


def _results(gm: GraphModule) -> list[tuple[torch.Size, torch.dtype]]:
    return [(node.meta["val"].shape, node.meta["val"].dtype) for node in gm.graph.output_node().args[0]]


def _check_results(model: Any, gm: GraphModule) -> None:
    """Raises where the converted graph does not promise the shapes and dtypes that torch gives."""
    expected = [(list(shape), OV_TYPES[dtype]) for shape, dtype in _results(gm)]
    found = []
    for output in model.outputs:
        shape = output.get_partial_shape()
        found.append((list(output.get_shape()) if shape.is_static else None, output.get_element_type().get_type_name()))
    if expected != found:
        raise ValueError(f"converted, it gives {found} where torch gives {expected}")


def _copied(tensor: Any, dtype: torch.dtype) -> torch.Tensor:
    """A tensor of torch with the elements of an `openvino.Tensor`."""
    array = tensor.data
    if dtype == torch.bfloat16:
        return torch.from_numpy(array.view("int16").copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def _shared(openvino: Any, tensor: torch.Tensor) -> Any:
    """An `openvino.Tensor` over the memory of a contiguous tensor."""
    if tensor.dtype == torch.bfloat16:
        array = tensor.view(torch.int16).numpy()
        return openvino.Tensor(array, list(tensor.shape), openvino.Type.bf16)
    return openvino.Tensor(tensor.numpy(), shared_memory=True)
