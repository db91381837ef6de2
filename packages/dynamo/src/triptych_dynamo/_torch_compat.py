"""The private names of torch that capture needs, in one place, with the differences between supported releases."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch._functorch import apis as transform_apis
from torch._functorch import eager_transforms, predispatch
from torch._functorch import vmap as vmap_module
from torch._guards import Source as TorchSource
from torch._library.custom_ops import CustomOpDef
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from torch.fx._symbolic_trace import is_fx_symbolic_tracing as is_symbolic_tracing
from torch.fx.experimental import symbolic_shapes
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    GuardOnDataDependentSymNode,
    ShapeEnv,
    expect_true,
    guard_or_false,
    guard_or_true,
    statically_known_true,
)
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.printers import PythonPrinter
from torch.utils._sympy.reference import PythonReferenceAnalysis

__all__ = [
    "advise_is_size",
    "assert_async",
    "assert_scalar",
    "C_NAMESPACES",
    "CANNOT_FAKE",
    "check_number",
    "OtherWay",
    "CustomOpDef",
    "deferred_checks",
    "dispatch_keys",
    "dispatch_mode_count",
    "enable_python_dispatcher",
    "enter_autocast",
    "enter_dual_level",
    "enter_inference_mode",
    "exit_autocast",
    "exit_dual_level",
    "exit_inference_mode",
    "expect_true",
    "FakeTensor",
    "FAKE_LOGGER",
    "FakeTensorMode",
    "fresh_symbols",
    "function_mode_count",
    "has_kernel",
    "HigherOrderOperator",
    "is_fake",
    "in_forward_mode",
    "is_symbolic_tracing",
    "load_batching_rules",
    "make_dual",
    "make_fake_mode",
    "new_symbol",
    "nodes_of_expression",
    "number_of_expression",
    "open_symbol",
    "numpy",
    "numpy_layer",
    "OpOverload",
    "OpOverloadPacket",
    "pop_function_mode",
    "push_function_mode",
    "runtime_assert",
    "runtime_check_size",
    "runtime_check_with",
    "runtime_checks",
    "saved_tensor_hook_stack",
    "saved_tensor_hook_switches",
    "saved_tensor_hooks_message",
    "saved_tensor_hooks_active",
    "set_saved_tensor_hooks_message",
    "set_grad_enabled",
    "ShapeEnv",
    "statically_known_true",
    "spec_parts",
    "symbolic_float",
    "symbolic_guards",
    "symbolic_int",
    "tensor_version",
    "TensorBase",
    "torch_names",
    "to_integer",
    "transform_forms",
    "transform_functions",
    "transform_gradient",
    "leave_transforms",
    "transform_level",
    "transform_wraps",
    "unpack_dual",
    "without_saved_tensor_hooks",
    "written_expression",
]

# What a fake run raises when shapes alone do not tell the result: a limit of tracing, not an error of the program.
CANNOT_FAKE: tuple[type[BaseException], ...] = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
    GuardOnDataDependentSymNode,
)

# -- functions and modes of torch --------------------------------------------------------------------------------------
# Where torch keeps its C functions.
C_NAMESPACES: tuple[Any, ...] = (
    torch._C._VariableFunctions,
    torch._C._nn,
    torch._C._linalg,
    torch._C._fft,
    torch._C._special,
    torch._C._nested,
    torch._C._sparse,
    torch.linalg,
    torch.fft,
    torch.special,
)
set_grad_enabled = torch._C._set_grad_enabled
runtime_check_with = torch._check_with
runtime_check_size = torch._check_is_size
runtime_checks: dict[Any, type[Exception]] = {
    torch._check: RuntimeError,
    torch._check_index: IndexError,
    torch._check_value: ValueError,
    torch._check_type: TypeError,
    torch._check_not_implemented: NotImplementedError,
}
runtime_assert = torch._assert
assert_async = torch._assert_async
assert_scalar = torch.ops.aten._assert_scalar.default
saved_tensor_hook_switches: tuple[Any, ...] = (
    torch._C._autograd._saved_tensors_hooks_disable,
    torch._C._autograd._saved_tensors_hooks_enable,
    torch._C._autograd._saved_tensors_hooks_get_disabled_error_message,
)
saved_tensor_hook_stack: tuple[Any, ...] = (
    torch._C._autograd._push_saved_tensors_default_hooks,
    torch._C._autograd._pop_saved_tensors_default_hooks,
)
saved_tensor_hooks_message = torch._C._autograd._saved_tensors_hooks_get_disabled_error_message


def set_saved_tensor_hooks_message(message: str | None) -> None:
    """Forbid hooks on saved tensors with this text, or allow them."""
    if message is None:
        torch._C._autograd._saved_tensors_hooks_enable()
    else:
        torch._C._autograd._saved_tensors_hooks_disable(message)


def saved_tensor_hooks_active() -> bool:
    """Whether hooks on saved tensors are installed around the caller."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True) is not None


@contextlib.contextmanager
def without_saved_tensor_hooks() -> Iterator[None]:
    """Tensors that are saved in the block are not shown to hooks."""
    before = torch._C._autograd._saved_tensors_hooks_set_tracing(True)
    try:
        yield
    finally:
        torch._C._autograd._saved_tensors_hooks_set_tracing(before)


enter_inference_mode = torch.autograd.grad_mode._enter_inference_mode
exit_inference_mode = torch.autograd.grad_mode._exit_inference_mode
enter_autocast = torch.amp.autocast_mode._enter_autocast
exit_autocast = torch.amp.autocast_mode._exit_autocast


def torch_names(*paths: str) -> list[Any]:
    """What torch has at these dotted paths (without `torch.`), as far as this release has it."""
    found = []
    for path in paths:
        obj: Any = torch
        for part in path.split("."):
            obj = getattr(obj, part, None)
        if obj is not None:
            found.append(obj)
    return found


# -- function transforms --------------------------------------------------------------------------------
transform_functions = torch._C._functorch  # levels of vmap, grad and jvp, and their functions of tensors
enter_dual_level = torch._C._enter_dual_level
exit_dual_level = torch._C._exit_dual_level
make_dual, unpack_dual = torch._VF._make_dual, torch._VF._unpack_dual
transform_gradient = eager_transforms._autograd_grad
transform_wraps = getattr(transform_apis, "_wraps_without_dynamo_attrs", None)  # of newer releases
load_batching_rules = getattr(predispatch, "lazy_load_decompositions", None) or vmap_module.lazy_load_decompositions


def transform_forms(name: str, function: Any) -> list[Any]:
    """A C function of the transforms and the wrapper that this release may have for it."""
    wrapper = getattr(predispatch, name, None)
    return [function] if wrapper is None else [function, wrapper]


# -- symbols and fake tensors ---------------------------------------------------------------------------------------
class NamedSource(TorchSource):
    """The name that torch's shape environment wants for a symbol."""

    def __init__(self, name: str) -> None:
        self._text = name

    @property
    def _name_template(self) -> str:
        return self._text

    @property
    def name(self) -> str:
        """The text of the source."""
        return self._text

    def guard_source(self) -> Any:
        """Not used: guards are our own."""
        return None


def make_fake_mode(shape_env: ShapeEnv) -> FakeTensorMode:
    """A fake tensor mode over `shape_env` that lets constants (real tensors of the program) be mixed in."""
    return FakeTensorMode(shape_env=shape_env, allow_non_fake_inputs=True)


def new_symbol(shape_env: ShapeEnv, value: int, name: str, *, duck: bool) -> Any:
    """A sympy symbol for a number that is `value` in this run.

    With `duck` it is a size (at least 2), and sizes that are equal now share a symbol; else any integer.
    """
    if duck:
        return shape_env.create_symbol(value, NamedSource(name), DimDynamic.DUCK)
    return shape_env.create_symbol(
        value, NamedSource(name), DimDynamic.DYNAMIC, positive=None, do_not_specialize_zero_one=True
    )


def symbolic_int(shape_env: ShapeEnv, expression: Any) -> Any:
    """A SymInt of a sympy expression over symbols of `shape_env`; without a hint where one is open."""
    value = expression.xreplace(dict(shape_env.backed_var_to_val))
    return shape_env.create_symintnode(expression, hint=int(value) if value.is_number else None)


def open_symbol(shape_env: ShapeEnv, least: int, most: int | None, hint: int) -> Any:
    """A symbol for a size of which the trace knows its bounds only; `hint` is for code generators."""
    number = shape_env.create_unbacked_symint()
    shape_env.pending_fresh_unbacked_symbols.clear()
    symbol = number.node.expr
    shape_env.constrain_symbol_range(symbol, compiler_min=least, compiler_max=sys.maxsize if most is None else most)
    symbolic_shapes._advise_is_size(number)
    if hasattr(shape_env, "var_to_hint_override"):
        shape_env.var_to_hint_override[symbol] = hint
    return symbol


def symbolic_float(shape_env: ShapeEnv, value: float, name: str) -> tuple[Any, Any]:
    """A new symbol for a float that is `value` (finite) in this run, and its SymFloat."""
    symbol = shape_env.create_symbol(
        value, NamedSource(name), DimDynamic.DYNAMIC, positive=None, do_not_specialize_zero_one=True
    )
    return symbol, shape_env.create_symfloatnode(symbol, hint=value)


class _NumberPrinter(PythonPrinter):
    """Python text of an expression, floats with all their digits."""

    def _print_Float(self, expr: Any) -> str:  # noqa: N802 - sympy's name
        return repr(float(expr))


_EXPRESSIONS: dict[Any, Callable[..., Any]] = {}


def number_of_expression(expression: Any, symbols: Sequence[Any]) -> Callable[..., Any]:
    """A sympy expression over numbers as a Python function of the symbols, one for equal expressions."""
    key = (expression, tuple(symbols))
    function = _EXPRESSIONS.get(key)
    if function is None:
        text = _NumberPrinter().doprint(expression)
        source = f"lambda {', '.join(map(str, symbols))}: {text}"
        function = eval(source, {"math": math, "torch": torch})
        function.__name__ = text
        _EXPRESSIONS[key] = function
    return function


# -- numbers that only the run knows ---------------------------------------------------------------------------------
advise_is_size = symbolic_shapes._advise_is_size
symbolic_guards: tuple[Any, ...] = (guard_or_false, guard_or_true)


def deferred_checks(shape_env: ShapeEnv) -> list[Any]:
    """What shape functions took for granted so far, in order: records with `expr`."""
    found = [check for checks in shape_env.deferred_runtime_asserts.values() for check in checks]
    order = shape_env.__dict__.setdefault("_triptych_check_order", {})
    for check in found:
        order.setdefault(id(check), (len(order), check))
    return [check for _, check in sorted(order.values(), key=lambda entry: entry[0])]


def fresh_symbols(shape_env: ShapeEnv) -> list[Any]:
    """Unbacked symbols that were made since the list was cleared."""
    return shape_env.pending_fresh_unbacked_symbols  # type: ignore[no-any-return]


def written_expression(number: Any) -> Any:
    """A symbolic number's expression as the program wrote it: without what checks have shown to be equal."""
    return number.node._expr


def nodes_of_expression(graph: fx.Graph, expression: Any, nodes: dict[Any, fx.Node]) -> Any:
    """Nodes at the end of `graph` that compute an expression; `nodes` has those of its symbols."""
    tracer = fx.proxy.GraphAppendingTracer(graph)
    last = next(iter(reversed(graph.nodes)))
    proxies = {symbol: fx.Proxy(node, tracer) for symbol, node in nodes.items()}
    result = sympy_interp(PythonReferenceAnalysis, proxies, expression)
    node = last.next
    while node.op != "root":
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
        node.meta.update(val=node.target(*args, **kwargs), stack_trace="")
        node = node.next
    return result.node if isinstance(result, fx.Proxy) else result


class OtherWay(RuntimeError):
    """A graph was made for one way of a branch, and the run goes the other."""


_OPS = torch.library.Library("triptych_dynamo", "FRAGMENT")
FAKE_LOGGER = "torch._subclasses.fake_tensor"
_OPS.define("check(Scalar condition, str error, str message) -> ()")
_OPS.define("to_integer(Scalar number, str how) -> SymInt")
_ERRORS: dict[str, Any] = {
    **{error.__name__: error for error in runtime_checks.values()},
    "AssertionError": AssertionError,
    "OtherWay": OtherWay,
}


@torch.library.impl(_OPS, "check", "CompositeExplicitAutograd")
def _check_number(condition: Any, error: str, message: str) -> None:
    """Raise the error with its message unless the condition holds."""
    if not condition:
        raise _ERRORS[error](message)


@torch.library.register_fake("triptych_dynamo::check", lib=_OPS)
def _fake_check_number(condition: Any, error: str, message: str) -> None:
    expect_true(condition)


_ROUNDINGS: dict[str, Callable[[float], int]] = {
    "int": int,
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "round": round,
}


@torch.library.impl(_OPS, "to_integer", "CompositeExplicitAutograd")
def _to_integer(number: Any, how: str) -> int:
    """The float as an integer; raises what Python raises for NaN and infinities."""
    return _ROUNDINGS[how](number)


@torch.library.register_fake("triptych_dynamo::to_integer", lib=_OPS)
def _fake_to_integer(number: Any, how: str) -> Any:
    return number.node.shape_env.create_unbacked_symint()


check_number = torch.ops.triptych_dynamo.check.default
to_integer = torch.ops.triptych_dynamo.to_integer.default


# -- specifications of shapes ------------------------------------------------------------------------------------
_SPECS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "ShapesSpec": ("parameters", lambda spec: _plain_spec(spec)),
    "ParamsSpec": ("parameters", lambda spec: dict(spec._named_args)),
    "TensorSpec": ("tensor", list),
    "ObjectSpec": ("object", lambda spec: dict(spec.items())),
    "DictSpec": ("mapping", lambda spec: dict(spec.items())),
    "SeqSpec": ("sequence", lambda spec: list(spec._entries)),
    "ShapeVar": ("variable", lambda spec: spec),
    "IntVar": ("variable", lambda spec: spec),
}


def _plain_spec(spec: Any) -> Any:
    if spec.assumptions:
        raise TypeError("assumptions of a ShapesSpec are not taken: say them with torch._check in the program")
    return {} if spec._params is None else dict(spec._params._named_args)


def spec_parts(spec: Any) -> tuple[str, Any] | None:
    """Kind and content of a record of `torch.fx.experimental.dynamic_spec` (of newer releases); None for others."""
    if not type(spec).__module__.startswith("torch."):
        return None
    row = _SPECS.get(type(spec).__name__)
    if row is None:
        raise TypeError(f"a {type(spec).__name__} does not describe a size: derived sizes are not taken")
    return row[0], row[1](spec)


def is_fake(obj: Any) -> bool:
    """Whether `obj` is a fake tensor."""
    return isinstance(obj, FakeTensor)


def tensor_version(tensor: torch.Tensor) -> int:
    """How often the tensor was written in place; -1 for inference tensors, which do not count."""
    return -1 if tensor.is_inference() else tensor._version


lazy_property: Any = torch.distributions.utils.lazy_property
group_tensors: Any = torch._C._group_tensors_by_device_and_dtype
TensorBase: Any = torch._C.TensorBase  # the class in C whose objects hold the tensor's pointer


def has_kernel(operator: str, key: str) -> bool:
    """Whether an operator (its qualified name) has a kernel of its own for a dispatch key."""
    try:
        return bool(torch._C._dispatch_has_kernel_for_dispatch_key(operator, key))
    except RuntimeError:  # an overload that only TorchScript has
        return False


def dispatch_keys(tensor: torch.Tensor) -> int:
    """The raw set of dispatch keys of a tensor."""
    return torch._C._dispatch_keys(tensor).raw_repr()


def dispatch_mode_count() -> int:
    """How many modes see each operation of the thread; torch.jit's tracer is one."""
    return torch._C._len_torch_dispatch_stack() + torch._C._is_tracing()


function_mode_count: Callable[[], int] = torch._C._len_torch_function_stack
push_function_mode: Callable[[Any], None] = torch._C._push_on_torch_function_stack
pop_function_mode: Callable[[], Any] = torch._C._pop_torch_function_stack


def transform_level() -> int:
    """How many transforms (vmap, grad ...) are under way; 0 outside of all."""
    return torch._C._functorch.maybe_current_level() or 0


def in_forward_mode() -> bool:
    """Whether a level of forward-mode differentiation is under way (torch refuses to enter a second one)."""
    try:
        exit_dual_level(level=enter_dual_level())
    except RuntimeError:
        return True
    return False


def leave_transforms(level: int, keep_forward_mode: bool) -> None:
    """Leave the transforms inside of that level, and forward mode, as the exits of their contexts would."""
    if not keep_forward_mode and in_forward_mode():
        exit_dual_level(level=0)
    functions = torch._C._functorch
    while transform_level() > level:
        functions.pop_dynamic_layer_stack_and_undo_to_depth(functions.get_dynamic_layer_stack_depth() - 1)


# -- numpy -------------------------------------------------------------------------------------------------------------
try:
    import numpy as numpy
    from torch import _numpy as numpy_layer
except ImportError:  # torch works without numpy
    numpy = numpy_layer = None  # type: ignore[assignment]
