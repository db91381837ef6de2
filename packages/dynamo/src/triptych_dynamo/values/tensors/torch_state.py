"""Questions to torch about modes, versions and devices: answered while tracing, from the state of the trace.

A row is a function of torch; asked with constants, it is simply run. Answers that can change between calls are
guarded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import overrides

from triptych_dynamo._torch_compat import set_grad_enabled, torch_names
from triptych_dynamo.guards.facts import PythonFact
from triptych_dynamo.sources import PinnedSource
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.builtin_functions import builtin, call_pure, wrap_substituted
from triptych_dynamo.values.common import none
from triptych_dynamo.values.registry import wraps_object
from triptych_dynamo.values.tensors.overrides import overriding_any
from triptych_dynamo.values.tensors.tensor import TensorValue

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame


_QUESTIONS = torch_names(
    *("is_grad_enabled", "is_inference_mode_enabled", "is_autocast_enabled", "is_autocast_cpu_enabled"),
    *("is_autocast_cache_enabled", "get_autocast_dtype", "get_autocast_cpu_dtype", "get_autocast_gpu_dtype"),
    *("get_default_dtype", "get_default_device", "are_deterministic_algorithms_enabled", "get_num_threads"),
    *("is_deterministic_algorithms_warn_only_enabled", "get_deterministic_debug_mode"),
    *("get_float32_matmul_precision", "is_warn_always_enabled", "get_num_interop_threads"),
    *("_C._get_tracing_state", "_C._is_tracing", "_C._is_torch_function_enabled", "_C._get_cudnn_enabled"),
    *(
        "_C._is_torch_function_all_disabled",
        "_C._is_torch_function_mode_enabled",
        "_C._get_mkldnn_enabled",
    ),
    *("_C._get_cudnn_allow_tf32", "_C._get_cublas_allow_tf32", "_C._get_flash_sdp_enabled", "_C._get_math_sdp_enabled"),
    *("_C._get_mem_efficient_sdp_enabled", "_C._get_cudnn_sdp_enabled", "_C._get_overrideable_sdp_enabled"),
    *("_C._get_sdp_priority_order", "_C._is_multithreading_enabled", "_C._are_functorch_transforms_active"),
    *("_C._get_deterministic_algorithms", "_C._get_default_device", "_C._is_xnnpack_enabled", "_C._get_nnpack_enabled"),
    *("_C._get_autocast_dtype", "_C._cuda_getDeviceCount", "_C._accelerator_getAccelerator"),
    *(
        "_C._is_any_autocast_enabled",
        "is_any_autocast_enabled",
        "_C._get_cudnn_benchmark",
        "_C._get_cudnn_deterministic",
    ),
    *("cuda.is_available", "cuda.device_count", "cuda.current_device", "cuda.get_device_capability"),
    *("cuda.get_device_name", "cuda.is_bf16_supported", "cuda.is_initialized", "xpu.is_available", "mps.is_available"),
    *("backends.mps.is_available", "backends.mps.is_built", "backends.cuda.is_built", "backends.mkldnn.is_available"),
    *("backends.cudnn.is_available", "backends.cudnn.version", "backends.openmp.is_available", "xpu.device_count"),
    *("backends.cuda.flash_sdp_enabled", "backends.cuda.math_sdp_enabled", "backends.cuda.mem_efficient_sdp_enabled"),
    *("distributed.is_available", "distributed.is_initialized", "jit.is_tracing", "is_storage", "typename"),
    *("accelerator.is_available", "accelerator.current_accelerator", "_C._get_privateuse1_backend_name"),
    *(
        "_C._functorch.get_inplace_requires_grad_allowed",
        "_C._functorch.maybe_current_level",
        "_C._is_fwd_grad_enabled",
    ),
    *("_C._functorch.get_single_level_autograd_function_allowed", "_C._functorch.current_level"),
    *(
        "promote_types",
        "can_cast",
        "is_vulkan_available",
        "broadcast_shapes",
        "amp.autocast_mode.is_autocast_available",
    ),
    *("amp.is_autocast_available", "_C._is_autocast_available", "_utils._get_device_index"),
)


# Of these the answer can change between calls: by the name of a mode that guards know, or None for a question that the
# guard asks again. (Gradients, inference mode, autocast, default dtype: guarded where a trace depends on them.)
_CHANGEABLE: dict[str, str | None] = {
    "get_default_device": "default_device",
    "are_deterministic_algorithms_enabled": "deterministic",
    "get_num_threads": "num_threads",
    "get_float32_matmul_precision": "float32_matmul_precision",
    "is_autocast_cache_enabled": "autocast_cache",
    "is_deterministic_algorithms_warn_only_enabled": None,
    "get_deterministic_debug_mode": None,
    "is_warn_always_enabled": None,
    "get_num_interop_threads": None,
    "current_device": None,
    "flash_sdp_enabled": None,
    "math_sdp_enabled": None,
    "mem_efficient_sdp_enabled": None,
}
_ABOUT_GRADIENTS = frozenset({"is_grad_enabled", "is_inference_mode_enabled", "_is_fwd_grad_enabled"})
_CHANGEABLE_STEMS = ("_get_cudnn", "_get_cublas", "_get_mkldnn", "_get_nnpack", "_get_sdp")


@dataclass(frozen=True)
class SameAnswer:
    """A check: the function still gives `expected`."""

    arguments: tuple[Any, ...]
    expected: Any

    def __call__(self, function: Any) -> bool:
        return bool(function(*self.arguments) == self.expected)


def _guard_answer(tx: Frame, function: Any, arguments: list[Value], answer: Value) -> None:
    name = function.__name__
    tx.trace.autograd_read |= name in _ABOUT_GRADIENTS
    if "autocast" in name or "default_dtype" in name:
        tx.trace.modes_read.add("autocast" if "autocast" in name else "default_dtype")
    changeable = name in _CHANGEABLE or name.startswith(_CHANGEABLE_STEMS) or name.endswith("_sdp_enabled")
    if not changeable or tx.trace.undo or not answer.is_constant():
        return
    mode = _CHANGEABLE.get(name)
    if mode is not None:
        tx.guard("mode", None, (mode, answer.as_constant()))
        return
    plain = tuple(argument.as_constant() for argument in arguments)
    fact = PythonFact(SameAnswer(plain, answer.as_constant()), f"{name}{plain} == {answer.as_constant()!r}")
    tx.guard("python", PinnedSource(function, name), fact)


def _question(function: Any) -> None:
    def answer(tx: Frame, *args: Value, **kwargs: Value) -> Value:
        result = call_pure(tx, function, list(args), kwargs)
        _guard_answer(tx, function, [*args, *kwargs.values()], result)
        return result

    builtin(function)(answer)
    wraps_object(function)(wrap_substituted)


for _function in _QUESTIONS:
    _question(_function)

# Answers that are the same in every trace.
_FIXED: list[tuple[Any, list[Any]]] = [
    (
        True,
        torch_names("compiler.is_compiling", "compiler.is_dynamo_compiling", "_utils_internal.is_compiling"),
    ),
    (
        False,
        [
            *torch_names("jit.is_scripting", "_jit_internal.is_scripting", "compiler.is_exporting"),
            *torch_names("fx._symbolic_trace.is_fx_tracing", "fx._symbolic_trace.is_fx_symbolic_tracing"),
            *torch_names("onnx.is_in_onnx_export", "_jit_internal.is_tracing"),
        ],
    ),
    (None, torch_names("_C._log_api_usage_once", "_C._log_api_usage_metadata")),
]


# A call of a module that leaves out, when it is compiled, the hooks that run although the module raised.
_ASKS_FOR_LESS = torch.nn.Module._call_impl.__code__


def _fixed(function: Any, answer: Any) -> None:
    def reply(tx: Frame, *args: Value, **kwargs: Value) -> Value:
        return tx.constant(None if answer is None else answer and tx.code is not _ASKS_FOR_LESS)

    builtin(function)(reply)
    wraps_object(function)(wrap_substituted)


for _answer, _functions in _FIXED:
    for _function in _functions:
        _fixed(_function, _answer)


@builtin(
    *{
        overrides.has_torch_function,
        overrides.has_torch_function_unary,
        overrides.has_torch_function_variadic,
        *torch_names(*(f"nn.functional.has_torch_function{suffix}" for suffix in ("", "_unary", "_variadic"))),
    }
)
def _has_torch_function(tx: Frame, *args: Value, **kwargs: Value) -> Value:
    """Asked by functions written in Python that are traced through: what they would do then is not."""
    overrides_met = overriding_any(tx, [*args, *kwargs.values()])
    return tx.unsupported("subclass", "a function of torch under an override") if overrides_met else tx.constant(False)


@builtin(torch.is_tensor)
def _is_tensor(tx: Frame, value: Value, /) -> Value:
    return tx.constant(isinstance(value, TensorValue))


# Switches: (setter, getter). Set for real while tracing, undone at the end of the trace, set again by the graph.
_SWITCHES: tuple[tuple[str, str], ...] = (
    ("_C._set_sdp_use_flash", "_C._get_flash_sdp_enabled"),
    ("_C._set_sdp_use_mem_efficient", "_C._get_mem_efficient_sdp_enabled"),
    ("_C._set_sdp_use_math", "_C._get_math_sdp_enabled"),
    ("_C._set_sdp_use_cudnn", "_C._get_cudnn_sdp_enabled"),
    ("_C._set_sdp_use_overrideable", "_C._get_overrideable_sdp_enabled"),
    ("_C._set_sdp_priority_order", "_C._get_sdp_priority_order"),
    ("_C._set_cudnn_enabled", "_C._get_cudnn_enabled"),
    ("_C._set_cudnn_benchmark", "_C._get_cudnn_benchmark"),
    ("_C._set_cudnn_deterministic", "_C._get_cudnn_deterministic"),
    ("_C._set_cudnn_allow_tf32", "_C._get_cudnn_allow_tf32"),
    ("_C._set_cublas_allow_tf32", "_C._get_cublas_allow_tf32"),
    ("_C._set_mkldnn_enabled", "_C._get_mkldnn_enabled"),
    ("_C._set_default_dtype", "get_default_dtype"),
    ("_C._set_float32_matmul_precision", "_C._get_float32_matmul_precision"),
    ("_C._functorch.set_inplace_requires_grad_allowed", "_C._functorch.get_inplace_requires_grad_allowed"),
    (
        "_C._functorch.set_single_level_autograd_function_allowed",
        "_C._functorch.get_single_level_autograd_function_allowed",
    ),
    ("_C._set_fwd_grad_enabled", "_C._is_fwd_grad_enabled"),
    ("set_autocast_cache_enabled", "is_autocast_cache_enabled"),
)


def _switch(setter: Any, getter: Any) -> None:
    def switch(tx: Frame, wanted: Value, /) -> Value:
        before = getter()
        tx.trace.modes_read |= {"default_dtype"} if getter is torch.get_default_dtype else set()
        tx.trace.undo.append((setter, before))
        setter(wanted.as_constant())
        node = tx.trace.graph.graph.call_function(setter, (wanted.as_constant(),))
        node.meta.update(val=None, effect=True, stack_trace=tx.trace.graph.stack_trace())
        return none(tx)

    builtin(setter)(switch)
    wraps_object(setter)(wrap_substituted)


for _setter, _getter in _SWITCHES:
    for _found, _reader in zip(torch_names(_setter), torch_names(_getter), strict=False):
        _switch(_found, _reader)


@builtin(set_grad_enabled)
def _set_grad_enabled(tx: Frame, mode: Value, /) -> Value:
    """Really set while tracing, and a node of the graph; setting what is set already is neither."""
    wanted = mode.truth(tx)
    tx.trace.autograd_read = True
    if wanted != torch.is_grad_enabled():
        tx.call_graph(set_grad_enabled, [tx.constant(wanted)])
    return none(tx)
