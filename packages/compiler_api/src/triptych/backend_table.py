"""The backends of this package as a table: how each is made, what it needs, and why a known name cannot be had.

Nothing that a row names is imported before the row is used.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from triptych.errors import BackendUnavailableError


@dataclass(frozen=True)
class Row:
    """One backend.

    make: "module:function" that makes the backend of (settings, report). text: what it is, in a line. check:
    "module:function" of the settings that raises for wrong modes and options; "" where there are none. tags: "debug",
    "experimental". aliases: other names for it. needs: module and distribution of a third party, or (). reason: why
    the name is known and yet nothing is behind it; "" for a backend that works.
    """

    make: str
    text: str
    check: str = ""
    tags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    needs: tuple[str, str] | tuple[()] = ()
    reason: str = ""

    @property
    def missing(self) -> str:
        """Why the backend cannot be used here; "" where it can."""
        if self.needs and importlib.util.find_spec(self.needs[0].split(".")[0]) is None:
            return self.reason or f"it needs the package {self.needs[0]}, which is not installed: " + (
                f"pip install {self.needs[1]}"
            )
        return "" if self.needs else self.reason


def _partner(name: str, text: str, needs: tuple[str, str], **more: Any) -> Row:
    module = f"triptych.partners.{name}"
    return Row(f"{module}:backend", text, check=f"{module}:check", needs=needs, **more)


def _ours(name: str, text: str, module: str = "triptych.debug_backends", **more: Any) -> Row:
    return Row(f"{module}:{name}", text, tags=("debug",), **more)


def _absent(text: str, reason: str) -> Row:
    return Row("", text, tags=("debug",), reason=reason)


IPEX_REASON = (
    "intel_extension_for_pytorch is not installed, and its last release (2.8) fits torch 2.8 only; for bfloat16 on "
    "Intel processors use backend='inductor' under torch.autocast('cpu', torch.bfloat16), with "
    "options={'freezing': True} for models that are only evaluated"
)
XLA_REASON = "torch_xla is not installed, and has no release for the versions of torch that are supported here"
SCRIPT_REASON = "TorchScript is deprecated in torch; use 'eager' to run captured graphs, 'inductor' to compile them"
MINIFIER_REASON = (
    "torch's minifier belongs to its own capture; bisect with backend='eager', then 'aot_eager', 'inductor'"
)

TABLE: dict[str, Row] = {
    "inductor": Row(
        "triptych.pipelines:inductor",
        "autograd ahead of time and generated code",
        check="triptych.pipelines:code_options",
    ),
    "cudagraphs": Row(
        "triptych.debug_backends:cudagraphs", "ATen operators, recorded as CUDA graphs and replayed; eager on the CPU"
    ),
    "openvino": _partner("openvino", "Intel's inference engine", ("openvino", "openvino")),
    "onnxrt": _partner("onnxrt", "ONNX Runtime", ("onnxruntime", "onnxruntime onnx"), aliases=("onnxruntime",)),
    "tvm": _partner("tvm", "Apache TVM, through relax", ("tvm", "apache-tvm")),
    "tensorrt": _partner(
        "tensorrt",
        "NVIDIA's inference engine, through torch_tensorrt",
        ("torch_tensorrt", "torch-tensorrt (of the same minor release as torch)"),
        aliases=("torch_tensorrt", "aot_torch_tensorrt_aten"),
    ),
    "openxla": _partner(
        "xla", "XLA, through torch_xla", ("torch_xla", "torch_xla"), reason=XLA_REASON, aliases=("torchxla",)
    ),
    "ipex": _partner(
        "ipex", "Intel's extension", ("intel_extension_for_pytorch", "intel-extension-for-pytorch"), reason=IPEX_REASON
    ),
    "aot_eager": _ours("aot_eager", "autograd ahead of time, ATen operators one by one", "triptych.pipelines"),
    "eager": _ours("eager", "the captured graph, operator by operator", "triptych.pipelines"),
    "eager_debug": _ours("eager_debug", "like eager; each result is compared with what the capture expected"),
    "eager_noexcept": _ours("eager_noexcept", "like eager; an exception inside the graph is an error of the compiler"),
    "pre_dispatch_eager": _ours("pre_dispatch_eager", "ATen operators as they are called, before autograd sees them"),
    "aot_eager_default_partitioner": _ours("aot_eager_default_partitioner", "aot_eager, cut where eager cuts"),
    "aot_eager_decomp_partition": _ours("aot_eager_decomp_partition", "aot_eager with core ATen operators only"),
    "aot_eager_decomp_partition_crossref": _ours(
        "aot_eager_crossref", "the same; each result is compared with what the trace expected"
    ),
    "relu_compile_error_TESTING_ONLY": _ours("relu_compile_error", "fails to compile graphs with a relu"),
    "relu_runtime_error_TESTING_ONLY": _ours("relu_runtime_error", "graphs with a relu fail when they run"),
    "relu_accuracy_error_TESTING_ONLY": _ours("relu_accuracy_error", "relu gives wrong numbers"),
    "ts": _absent("TorchScript", SCRIPT_REASON),
    "aot_ts": _absent("TorchScript after autograd", SCRIPT_REASON),
    "dynamo_minifier_backend": _absent("torch's minifier", MINIFIER_REASON),
    "dynamo_accuracy_minifier_backend": _absent("torch's minifier", MINIFIER_REASON),
}
ALIASES: dict[str, str] = {alias: name for name, row in TABLE.items() for alias in row.aliases}


def find(name: str) -> tuple[str, Row] | None:
    """The row that a name or an alias means, with its own name."""
    name = ALIASES.get(name, name)
    return (name, TABLE[name]) if name in TABLE else None


def check_available(name: str, row: Row) -> None:
    """Raises BackendUnavailableError, which says what is missing."""
    if row.missing:
        raise BackendUnavailableError(f"backend {name!r} cannot be used here: {row.missing}")


def load(path: str) -> Callable[..., Any]:
    """The function at "module:function"."""
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)
