"""The backend `onnxrt`: ATen graphs as ONNX models, run by ONNX Runtime."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import torch
from torch.fx import GraphModule

from triptych.errors import InvalidOptionError, suggestion
from triptych.partners import host
from triptych.partners.acceptance import Executable
from triptych.partners.options import parse
from triptych.reports import Report
from triptych.settings import Backend, Settings

NAME = "onnxrt"
# Device type of tensors by execution provider. The others of ONNX Runtime's providers take tensors of the CPU.
PROVIDER_OF = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
NUMPY_TYPES = {
    torch.float32: 1,
    torch.float64: 11,
    torch.float16: 10,
    torch.bfloat16: 16,
    torch.int64: 7,
    torch.int32: 6,
    torch.int16: 5,
    torch.int8: 3,
    torch.uint8: 2,
    torch.bool: 9,
}  # numbers of ONNX element types, which bound memory is described by


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the backend.

    device: where tensors live and the model runs, "cpu" or "cuda". providers: ONNX Runtime's execution providers, by
    preference; that of the device by default. config: entries of its session configuration, name to text. threads:
    number of threads (0: torch's). fallback: what happens with operators that have no ONNX form: "warn", "raise",
    "ignore".
    """

    device: str = "cpu"
    providers: tuple[str, ...] = ()
    config: dict[str, Any] = dataclasses.field(default_factory=dict)
    threads: int = 0
    fallback: str = "warn"

    def chosen(self) -> list[str]:
        """The providers to use."""
        return list(self.providers) or [PROVIDER_OF[self.device]]


def backend(settings: Settings, report: Report) -> Backend:
    """The backend for `triptych.compile(..., backend="onnxrt", options={...})`; see `Options`."""
    options = check(settings)
    return host.backend(OnnxRuntime(options), settings, report, options.fallback)


def check(settings: Settings) -> Options:
    """The options. Raises InvalidOptionError, also for a provider that this build of ONNX Runtime lacks."""
    options = parse(Options, NAME, settings)
    if options.fallback not in host.POLICIES:
        raise InvalidOptionError(f"fallback={options.fallback!r}: {suggestion(options.fallback, host.POLICIES)}")
    if options.device not in PROVIDER_OF:
        raise InvalidOptionError(f"device={options.device!r}: {suggestion(options.device, PROVIDER_OF)}")
    available = _runtime().get_available_providers()
    for provider in options.chosen():
        if provider not in available:
            raise InvalidOptionError(
                f"this build of onnxruntime has no {provider}: {suggestion(provider, available)} "
                "(packages onnxruntime and onnxruntime-gpu differ in this)"
            )
    return options


@functools.cache
def _runtime() -> Any:
    return host.require("onnxruntime", "onnxruntime", NAME)


class OnnxRuntime:
    """ONNX Runtime as a `Partner`."""

    name = NAME
    dtypes = frozenset(NUMPY_TYPES)

    def __init__(self, options: Options) -> None:
        self.options = options
        self.devices = frozenset({options.device})

    def refuses(self, target: Any, dtypes: set[torch.dtype]) -> str:
        """Nothing: the rules are ours."""
        return ""

    def convert(self, gm: GraphModule) -> Any:
        """The model, for which the runtime has all kernels; raises where a rule or a kernel is missing."""
        model = host.require("triptych.partners.onnx", "onnx", NAME).convert(gm).SerializeToString()
        self._session(model, optimize=False)
        return model

    def build(self, gm: GraphModule) -> Executable:
        """A function that runs the model on the memory of its inputs, into memory of torch."""
        model = host.require("triptych.partners.onnx", "onnx", NAME).convert(gm).SerializeToString()
        session = self._session(model, optimize=True)
        results = [(n.meta["val"].shape, n.meta["val"].dtype) for n in gm.graph.output_node().args[0]]
        names = [value.name for value in session.get_inputs()], [value.name for value in session.get_outputs()]
        device = self.options.device

        def run(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
            outputs = [torch.empty(shape, dtype=dtype, device=device) for shape, dtype in results]
            given = [tensor.contiguous() for tensor in inputs]
            binding = session.io_binding()
            for name, tensor in zip(names[0], given, strict=True):
                binding.bind_input(name, *_memory(tensor))
            for name, tensor in zip(names[1], outputs, strict=True):
                binding.bind_output(name, *_memory(tensor))
            session.run_with_iobinding(binding)
            return outputs

        return run

    def _session(self, model: bytes, optimize: bool) -> Any:
        runtime = _runtime()
        chosen = runtime.SessionOptions()
        chosen.log_severity_level = 4  # what it reports, it also raises
        chosen.intra_op_num_threads = self.options.threads or torch.get_num_threads()
        level = runtime.GraphOptimizationLevel
        chosen.graph_optimization_level = level.ORT_ENABLE_ALL if optimize else level.ORT_DISABLE_ALL
        for key, value in self.options.config.items():
            chosen.add_session_config_entry(str(key), str(value))
        return runtime.InferenceSession(model, chosen, providers=self.options.chosen())


def _memory(tensor: torch.Tensor) -> tuple[str, int, int, list[int], int]:
    """Memory as a binding wants it: device type, its number, element type, sizes, address."""
    return (
        tensor.device.type,
        tensor.device.index or 0,
        NUMPY_TYPES[tensor.dtype],
        list(tensor.shape),
        tensor.data_ptr(),
    )
