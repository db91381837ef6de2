"""Every private name of torch that this package touches, with the differences between the supported releases."""

from __future__ import annotations

import contextlib
import operator
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._prims_common import suggest_memory_format as suggest_memory_format
from torch._subclasses import fake_impls
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
)
from torch._subclasses.fake_tensor import FakeTensor as FakeTensor
from torch._subclasses.fake_tensor import FakeTensorMode as FakeTensorMode
from torch.autograd import _unsafe_preserve_version_counter as preserved_version  # noqa: F401
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode as GuardOnDataDependentSymNode
from torch.fx.experimental.symbolic_shapes import ShapeEnv as ShapeEnv
from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode
from torch.utils._python_dispatch import _disable_current_modes

OpOverload = torch._ops.OpOverload
HigherOrderOperator = torch._ops.HigherOrderOperator
recurrent_functions = (torch._VF.lstm, torch._VF.gru, torch._VF.rnn_tanh, torch._VF.rnn_relu, torch.lstm, torch.gru)
no_torch_function = torch._C._disabled_torch_function_impl
below_autograd = (
    torch._C._AutoDispatchBelowADInplaceOrView
)  # context manager: autograd, view tracking, version bumps off
no_autocast = torch._C._DisableAutocast  # context manager
current_autograd_node = torch._C._current_autograd_node  # () -> Node | None
sequence_number = torch._C._autograd._get_sequence_nr  # () -> int; the next autograd node's number
backward_keeps_graph = (
    torch._C._autograd._get_current_graph_task_keep_graph
)  # () -> bool; `retain_graph` of this backward
exclude_keys = torch._C._ExcludeDispatchKeyGuard


def _runtime_keys() -> Any:
    key, key_set = torch._C.DispatchKey, torch._C.DispatchKeySet
    names = [n for n in dir(key) if n.startswith(("Autograd", "Autocast")) and n != "AutogradFunctionality"]
    keys = key_set(key.ADInplaceOrView)
    for name in names:
        keys = keys | key_set(getattr(key, name))
    return keys


RUNTIME_EXCLUDED_KEYS = _runtime_keys()  # what compiled graphs run without: autograd, view tracking, autocast


def make_traced(
    cls: type, size: Sequence[Any], stride: Sequence[Any], offset: Any, dtype: torch.dtype, device: Any
) -> Any:
    """A tensor of subclass `cls` that has metadata and no memory."""
    return torch.Tensor._make_wrapper_subclass(cls, size, stride, offset, dtype=dtype, device=device)


def needs_fake_rule(func: torch._ops.OpOverload) -> bool:
    """Whether FakeTensorMode has a rule of its own for `func`, beyond running the meta kernel."""
    if func in fake_impls.op_implementations_dict:
        return True
    return any(check(func) for check, _ in fake_impls.op_implementations_checks)


def has_composite_kernel(func: torch._ops.OpOverload) -> bool:
    """Whether `func` is defined by other ops for every backend and for autograd (CompositeImplicitAutograd)."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")


def has_meta_kernel(func: torch._ops.OpOverload) -> bool:
    """Whether the meta device has a kernel for `func` (its own, or one that covers all backends)."""
    name = func.name()
    has = torch._C._dispatch_has_computed_kernel_for_dispatch_key
    return has(name, "Meta")


def fake_mode_of(values: Iterable[Any]) -> FakeTensorMode | None:
    """The mode of the first fake tensor among `values`, or None."""
    for value in values:
        if isinstance(value, FakeTensor):
            return value.fake_mode
    return None


def shape_env_of(values: Iterable[Any]) -> ShapeEnv | None:
    """The ShapeEnv of the first symbolic integer among `values`, or None."""
    for value in values:
        if isinstance(value, torch.SymInt) and value.node is not None:
            return getattr(value.node, "shape_env", None)
    return None


def written_expression(number: Any) -> Any:
    """A symbolic number's expression as the program wrote it: without what checks have shown to be equal."""
    return number.node._expr


def new_fake_tensor(mode: FakeTensorMode, meta: torch.Tensor, device: torch.device) -> FakeTensor:
    """A fake tensor of `mode` on `device` whose metadata and storage identity are those of the meta tensor."""
    return FakeTensor(mode, meta, device)


def set_conj(tensor: torch.Tensor, value: bool) -> None:
    """Set the lazy-conjugation bit."""
    torch._C._set_conj(tensor, value)


_MATH = ("sqrt", "log2", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan")
SYMBOLIC_MATH = {name: getattr(torch, f"_sym_{name}") for name in _MATH}  # functions of floats, plain or symbolic


def as_symbolic_float(number: Any, like: torch.SymBool) -> torch.SymFloat:
    """A number, plain or symbolic, as a symbolic float of the shape environment of `like`."""
    return torch.sym_float(number) if is_symbolic(number) else torch.SymFloat(like.node.wrap_float(float(number)))


def as_symbolic_int(number: Any, like: torch.SymBool) -> torch.SymInt:
    """An integer, plain or symbolic, as a symbolic one of the shape environment of `like`."""
    return number if is_symbolic(number) else torch.SymInt(like.node.wrap_int(number))


SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def is_symbolic(number: Any) -> bool:
    """Whether a number is not a plain one of Python."""
    return isinstance(number, SYMBOLIC)


pad_sequence = torch._C._nn.pad_sequence  # what torch.nn.utils.rnn.pad_sequence calls
data_dependent_errors = (DataDependentOutputException, DynamicOutputShapeException)  # FakeTensorMode raises these


def set_geometry(tensor: torch.Tensor, like: torch.Tensor) -> None:
    """Give `tensor`, which has no memory, the size, stride and offset of `like`."""
    numbers = (like.storage_offset(), *like.size(), *like.stride())
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction(), below_autograd():
        if all(type(number) is int for number in numbers):
            tensor.set_(like.untyped_storage(), like.storage_offset(), like.size(), like.stride())
        else:  # the kernel of `set_` takes plain numbers alone
            tensor.data = like


def has_meta_kernel_of_its_own(func: torch._ops.OpOverload) -> bool:
    """Whether a composite op is nevertheless kept whole below autograd."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeExplicitAutograd")


getitem = operator.getitem


def is_view_target(target: Any) -> bool:
    """Whether an fx target is an ATen op whose result shows the memory of its first argument."""
    if not isinstance(target, torch._ops.OpOverload):
        return False
    return target.is_view or target is torch.ops.aten._unsafe_view.default


def is_random(target: Any) -> bool:
    """Whether an op draws from a random number generator.

    Backwards of attention carry the tag of random ops, but take the seed of the forward as an argument.
    """
    if not isinstance(target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    return all(argument.name != "philox_seed" for argument in target._schema.arguments)


def draws(node: torch.fx.Node) -> bool:
    """Whether a node draws from a random number generator: attention without dropout does not, though its op can."""
    if not is_random(node.target):
        return False
    for position, argument in enumerate(node.target._schema.arguments):  # type: ignore[union-attr]
        if argument.name == "dropout_p":
            given = node.args[position] if position < len(node.args) else node.kwargs.get("dropout_p", 0.0)
            return not (isinstance(given, (int, float)) and given == 0)
    return True


def has_effect(node: torch.fx.Node) -> bool:
    """Whether a node matters although its results are not used: it draws random numbers, or gives nothing (a check)."""
    return draws(node) or (isinstance(node.target, OpOverload) and not node.target._schema.returns)


def fake_view(mode: FakeTensorMode, source: Any, size: Any, stride: Any, offset: Any, dtype: torch.dtype) -> FakeTensor:
    """A fake tensor over the storage of the fake tensor `source`."""
    meta = torch.empty(0, dtype=dtype, device="meta")
    with below_autograd():
        meta.set_(source.untyped_storage(), offset, size, stride)
    return FakeTensor(mode, meta, source.fake_device)


def new_fake_mode(shape_env: ShapeEnv | None) -> FakeTensorMode:
    """A fake mode of our own, for inputs that bring none."""
    return FakeTensorMode(allow_non_fake_inputs=True, shape_env=shape_env or ShapeEnv())


BOXED_GRADS = hasattr(torch.autograd.Function, "boxed_grads_call")
"""Whether a backward may get its gradients in a list, which it can empty (from torch 2.12 on)."""

FREED_GRAPH = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors "
    "after calling backward."
)
"""torch's own words for it."""


def saved_tensor_hooks_active() -> bool:
    """Whether hooks on saved tensors are installed around the caller."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True) is not None


@contextlib.contextmanager
def suspend_saved_tensor_hooks() -> Iterator[None]:
    """Without the saved-tensor hooks that the caller has installed."""
    hooks = []
    autograd = torch._C._autograd
    while (top := autograd._top_saved_tensors_default_hooks(True)) is not None:
        hooks.append(top)
        autograd._pop_saved_tensors_default_hooks()
    try:
        yield
    finally:
        for pack, unpack in reversed(hooks):
            autograd._push_saved_tensors_default_hooks(pack, unpack)


def check_supported(tensor: torch.Tensor, name: str, error: type[Exception]) -> None:
    """Raise `error` for an input whose kind of tensor a trace cannot stand in for."""
    if tensor.layout is not torch.strided:
        raise error(f"input {name} has layout {tensor.layout}; only strided tensors can be traced")
    if not isinstance(tensor, FakeTensor) and type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        raise error(f"input {name} is a {type(tensor).__name__}; tensor subclasses with own dispatch cannot be traced")


def identity_with_history(leaf: torch.Tensor, make: Callable[[], torch.Tensor]) -> Any:
    """A tensor equal to `leaf` whose history says that it was computed from it."""
    return _Identity.apply(leaf, make)


class _Identity(torch.autograd.Function):
    """Hands the gradient through unchanged; the result is made by `make`."""

    @staticmethod
    def forward(ctx: Any, leaf: torch.Tensor, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        return make()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad, None


def contiguous_strides(size: Sequence[Any]) -> tuple:
    """Row-major strides of `size`, ints or symbolic."""
    strides: list[Any] = []
    step: Any = 1
    for extent in reversed(size):
        strides.append(step)
        step = step * (extent if not isinstance(extent, int) or extent > 1 else 1)
    return tuple(reversed(strides))


def is_dense(size: Sequence[Any], stride: Sequence[Any]) -> bool:
    """Whether the elements fill their memory without gaps or overlap. Symbolic numbers are compared by their hints."""
    hinted = [(_hint(s), _hint(n)) for s, n in zip(stride, size, strict=True)]
    if any(None in pair for pair in hinted):  # sizes that depend on numbers in tensors: compared as expressions
        return list(map(_expression, stride)) == list(map(_expression, contiguous_strides(size)))
    expected = 1
    for step, extent in sorted(hinted):
        if extent == 1:
            continue
        if step != expected:
            return False
        expected *= extent
    return True


def layout_order(size: Sequence[Any], stride: Sequence[Any]) -> tuple[int, ...]:
    """Dimensions from the outermost to the innermost in memory, for a dense tensor; else the dimensions in order."""
    long = [d for d, n in enumerate(size) if _hint(n) != 1]  # the others lie anywhere
    if not is_dense(size, stride) or any(_hint(stride[d]) is None for d in long):
        return tuple(range(len(size)))
    inwards = sorted(long, key=lambda d: -_hint(stride[d]))
    rest = [d for d in range(len(size)) if d not in long]
    return tuple(range(len(size))) if inwards == long else (*rest, *inwards)


def ordered_strides(size: Sequence[Any], order: Sequence[int]) -> tuple:
    """Strides of a dense tensor with this order of dimensions in memory."""
    found = dict(zip(order, contiguous_strides([size[d] for d in order]), strict=True))
    return tuple(found[d] for d in range(len(size)))


def _expression(value: Any) -> Any:
    return value.node.expr if isinstance(value, torch.SymInt) else value


def _hint(value: Any) -> Any:
    return value.node.hint if isinstance(value, torch.SymInt) else value


without_dispatch_modes = _disable_current_modes  # context manager: as if no dispatch mode were active
python_dispatcher = enable_python_dispatcher  # context manager: ops go through torch's Python decompositions


class compiling_flag(contextlib.ContextDecorator):  # noqa: N801 - used like a function
    """`torch.compiler.is_compiling()` is True inside: libraries ask it before they look at numbers in tensors.

    The flag is torch's, and global; overlapping users are counted, so the last one out puts it back.
    """

    _lock = threading.Lock()
    _users = 0
    _before = False

    def __enter__(self) -> None:
        with self._lock:
            if compiling_flag._users == 0:
                compiling_flag._before = torch.compiler._is_compiling_flag
                torch.compiler._is_compiling_flag = True
            compiling_flag._users += 1

    def __exit__(self, *exc: Any) -> None:
        with self._lock:
            compiling_flag._users -= 1
            if compiling_flag._users == 0:
                torch.compiler._is_compiling_flag = compiling_flag._before


def function_apply(function: type[torch.autograd.Function]) -> Callable[..., Any]:
    """`function.apply` without its Python wrapper, which only serves function transforms (`torch.func`)."""
    apply, direct = function.apply, super(torch.autograd.Function, function).apply  # type: ignore[misc]
    transforms_active = torch._C._are_functorch_transforms_active

    def run(*args: Any) -> Any:
        return apply(*args) if transforms_active() else direct(*args)

    return run


FORWARD_ONLY_DECOMPOSITIONS = frozenset({torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default})
"""Ops whose decomposition in torch gives the right result and wrong numbers for what their backward is to get."""

set_grad_enabled: Any = torch._C._set_grad_enabled  # what grad modes in graphs call


def forget_unclaimed_symbols(mode: FakeTensorMode) -> None:
    """Sizes that depend on data have nodes here; torch's tracers take them for lost while they are on this list."""
    if mode.shape_env is not None:
        mode.shape_env.pending_fresh_unbacked_symbols.clear()
