"""`TensorValue`: a tensor of the traced program, computed by a node of the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from triptych_dynamo.runtime_tensors import as_class
from triptych_dynamo.sources import GradSource
from triptych_dynamo.values import attributes
from triptych_dynamo.values.atoms import scalars
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.atoms.symbolic import SymbolicValue
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.common import ABSENT, lookup
from triptych_dynamo.values.containers.tensor_keys import RealKey
from triptych_dynamo.values.objects.opaque import PLAIN_CLASSES, describe, wrap_opaque_tensor
from triptych_dynamo.values.registry import wraps

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.sources import Source

# Attributes that are plain facts of the fake tensor.
_FACTS = frozenset(
    {
        *("dtype", "device", "layout", "ndim", "requires_grad", "is_leaf", "is_cuda", "is_cpu", "is_sparse"),
        *("is_quantized", "is_meta", "is_mps", "is_xpu", "is_nested", "is_mkldnn", "itemsize", "is_sparse_csr"),
        *("is_vulkan", "is_xla", "is_hpu", "is_ipu", "is_mtia", "is_ort", "names"),
    }
)
# Attributes and methods whose answer hangs on gradients, or on inference mode.
_AUTOGRAD = frozenset(
    {
        *("requires_grad", "is_leaf", "retains_grad", "output_nr", "is_inference", "grad", "grad_fn", "backward"),
        *("requires_grad_", "detach_", "retain_grad", "register_hook", "register_post_accumulate_grad_hook"),
    }
)
# Attributes that are tensors: one graph node each.
_VIEWS = frozenset({"T", "mT", "H", "mH", "real", "imag", "data"})
# Methods that answer with facts known while tracing.
_FACT_METHODS = frozenset(
    {
        *("dim", "ndimension", "is_floating_point", "is_complex", "is_contiguous", "element_size", "get_device"),
        *("is_signed", "is_conj", "is_neg", "is_inference", "is_coalesced", "is_same_size", "has_names"),
    }
)
# Methods whose result depends on data or leaves torch.
_BREAKS: dict[str, str] = {
    "__complex__": "data-dependent",
    "__array__": "numpy",
    "data_ptr": "data-dependent",
    "untyped_storage": "graph-output",
    "storage": "graph-output",
    "share_memory_": "graph-output",
    "set_": "graph-output",
    "resize_": "graph-output",
    "__repr__": "input-output",
    "__str__": "input-output",
    "__format__": "input-output",
    "__reduce_ex__": "input-output",
    "__dlpack__": "graph-output",
}


# How operators, methods and attributes of tensors are overridden: filled by the family of overrides.
OVERRIDES: dict[str, Callable[..., Value | None]] = {}


class TensorValue(Value):
    """A tensor. `fake` is its fake tensor, `node` computes it; `cls` is its Python type."""

    real_key: RealKey | None = None  # of an input: what its real tensor is found by in dictionaries of the program

    def __init__(
        self, node: fx.Node, fake: torch.Tensor, cls: type = torch.Tensor, source: Source | None = None
    ) -> None:
        super().__init__(source)
        self.node = node
        self.fake = fake
        self.cls = cls

    def python_type(self) -> type:
        return self.cls

    def as_graph_arg(self, tx: Frame) -> fx.Node:
        return self.node

    def key(self, tx: Frame) -> Any:
        return self if self.real_key is None else self.real_key

    def truth(self, tx: Frame) -> bool:
        if self.fake.numel() == 0:
            return tx.unsupported("truth", "truth of an empty tensor")
        return tx.unsupported("truth", "a branch on the value of a tensor")

    # -- attributes ----------------------------------------------------------------------------------------------------
    def get_attr(self, tx: Frame, name: str) -> Value:
        if tx.trace.function_modes.stack or self.cls not in PLAIN_CLASSES:
            overridden = OVERRIDES["attribute"](tx, self, name)
            if overridden is not None:
                return overridden
        own = self._own_attribute(tx, name)
        if own is not None:
            return own
        tx.trace.autograd_read |= name in _AUTOGRAD
        if name in _FACTS:
            return tx.constant(getattr(self.fake, name))
        if name in ATTRIBUTES:
            return ATTRIBUTES[name](self, tx)
        if name in _VIEWS:
            return tx.call_graph(getattr, [self, name])
        static = getattr(self.cls, name, None)
        if static is None and not hasattr(self.cls, name):
            return self._instance_attribute(tx, name)
        if callable(static):
            return TensorMethod(self, name)
        return tx.unsupported("attribute", f"attribute {name!r} of a tensor")

    def redefines(self, name: str) -> bool:
        """Whether a class of the program has the attribute."""
        if self.cls in PLAIN_CLASSES:
            return False
        owner, raw = lookup(self.cls, name)
        return raw is not ABSENT and owner is not object and (owner.__module__ or "").partition(".")[0] != "torch"

    def _own_attribute(self, tx: Frame, name: str) -> Value | None:
        """What a class of the program adds to tensors."""
        if not self.redefines(name):
            return None
        owner, raw = lookup(self.cls, name)
        return attributes.bind(tx, self, owner, raw, name)

    def _instance_attribute(self, tx: Frame, name: str) -> Value:
        """What the program itself put on a tensor object."""
        return tx.trace.tensor_attributes.load(tx, self, name)

    def set_attr(self, tx: Frame, name: str, value: Value) -> None:
        if name == "data":
            if not self._is_own_memory(value):
                tx.unsupported("attribute-store", "assigning to .data of a tensor")
            return
        if name == "requires_grad":
            tx.call_graph("requires_grad_", [self, value])
            return
        tx.trace.tensor_attributes.store(tx, self, name, value)

    def _is_own_memory(self, value: Value) -> bool:
        """Whether `value` is this very tensor, or another over its memory in the same way: no change of `.data`."""
        if value is self:
            return True
        other = value.fake if isinstance(value, TensorValue) else None
        if other is None or other.layout is not torch.strided or self.fake.layout is not torch.strided:
            return False
        same = (other.dtype, other.shape, other.stride()) == (self.fake.dtype, self.fake.shape, self.fake.stride())
        return (
            same
            and other.storage_offset() == self.fake.storage_offset()
            and other.untyped_storage()._cdata == self.fake.untyped_storage()._cdata
        )

    # -- calls ---------------------------------------------------------------------------------------------------------
    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        own = self._own_attribute(tx, name)
        if own is not None:
            return tx.call(own, args, kwargs)
        return self.call_c_method(tx, self.cls, name, args, kwargs)

    def call_c_method(self, tx: Frame, cls: type, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """A method that torch gives tensors, or what overrides it."""
        tx.trace.autograd_read |= name in _AUTOGRAD
        overridden = OVERRIDES["method"](tx, self, name, args, kwargs)
        if overridden is not None:
            return overridden
        handler = METHODS.get(name)
        if handler is not None:
            result = handler(self, tx, args, kwargs)
            if result is not None:
                return result
        if name in _BREAKS:
            return tx.unsupported(_BREAKS[name], f"Tensor.{name}()")
        if name in _FACT_METHODS and not args and not kwargs:
            return tx.constant(getattr(self.fake, name)())
        if not hasattr(self.cls, name):
            tx.raise_python(AttributeError, f"'{self.cls.__name__}' object has no attribute {name!r}")
        return tx.call_graph(name, [self, *args], kwargs)

    def iterate(self, tx: Frame) -> Iterator[Value]:
        if self.fake.ndim == 0:
            tx.raise_python(TypeError, "iteration over a 0-d tensor")
        rows = self.call_method(tx, "unbind", [ConstantValue(0)], {})
        return rows.iterate(tx)

    def size(self, tx: Frame, dim: int) -> Value:
        """`tensor.size(dim)`: a constant, or a symbolic number."""
        size = self.fake.size(dim)
        if isinstance(size, int):
            return ConstantValue(size)
        return tx.trace.shapes.size_value(tx, self, dim % self.fake.ndim, size)

    def reconstruct(self, cg: Writer) -> None:
        differentiation = cg.trace.differentiation
        if differentiation.rebuild(cg, self):
            return
        if self.cls is not torch.Tensor:
            cg.load_object(as_class)
            cg.load_graph_output(self.node)
            cg.load_object(self.cls)
            cg.call(2)
            return
        cg.load_graph_output(self.node)
        if self in differentiation.retained:
            cg.copy()
            cg.load_attr("retain_grad")
            cg.call(0)
            cg.pop()

    def __repr__(self) -> str:
        return f"Tensor({self.node.name}: {tuple(self.fake.shape)}, {self.fake.dtype})"


class TensorMethod(Value):
    """A method read from a tensor."""

    def __init__(self, owner: TensorValue, name: str) -> None:
        super().__init__()
        self.owner = owner
        self.name = name

    def python_type(self) -> type:
        return type(getattr(torch.Tensor, self.name))

    def truth(self, tx: Frame) -> bool:
        return True

    def get_attr(self, tx: Frame, name: str) -> Value:
        if name == "__self__":
            return self.owner
        if name == "__name__":
            return ConstantValue(self.name)
        return super().get_attr(tx, name)

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.owner.call_method(tx, self.name, args, kwargs)

    def reconstruct(self, cg: Writer) -> None:
        cg.load(self.owner)
        cg.load_attr(self.name)


# -- attributes and methods with an answer of their own ----------------------------------------------------------------
def _shape(tensor: TensorValue, tx: Frame) -> Value:
    return tx.trace.make_sequence(torch.Size, [tensor.size(tx, dim) for dim in range(tensor.fake.ndim)])


def _grad(tensor: TensorValue, tx: Frame) -> Value:
    written = tx.trace.tensor_attributes.written(tensor, "grad")
    if written is not None:
        return written
    if tensor.source is None:
        return ConstantValue(None)
    real = tx.trace.inputs.real_tensor(tensor)
    return tx.wrap(real.grad, GradSource(tensor.source))


def _nbytes(tensor: TensorValue, tx: Frame) -> Value:
    return tx.constant(tensor.fake.nbytes)


ATTRIBUTES: dict[str, Callable[[TensorValue, Any], Value]] = {
    "shape": _shape,
    "grad": _grad,
    "nbytes": _nbytes,
    "__class__": lambda tensor, tx: tx.constant(tensor.cls),
    "_version": lambda tensor, tx: tx.unsupported("attribute", "reading ._version"),
}


def _size(tensor: TensorValue, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    given = [*args, *kwargs.values()]
    if not given or (given[0].is_constant() and given[0].as_constant() is None):
        return _shape(tensor, tx)
    if not given[0].is_constant():
        return None
    dim = given[0].as_constant()
    rank = tensor.fake.ndim
    if not isinstance(dim, int) or not -max(rank, 1) <= dim < max(rank, 1) or rank == 0:
        text = f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})"
        tx.raise_python(IndexError, text)
    return tensor.size(tx, dim)


def _numel(tensor: TensorValue, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    count = tensor.fake.numel()
    if isinstance(count, int):
        return ConstantValue(count)
    return tx.trace.shapes.product_of_sizes(tx, tensor)


def _length(tensor: TensorValue, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    if tensor.fake.ndim == 0:
        tx.raise_python(TypeError, "len() of a 0-d tensor")
    return tensor.size(tx, 0)


def _strides(tensor: TensorValue, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    strides = tensor.fake.stride()
    if not all(isinstance(item, int) for item in strides):
        return None
    if args or kwargs:
        dim = [*args, *kwargs.values()][0]
        return tx.constant(tensor.fake.stride(dim.as_constant()))
    return tx.constant(strides)


def _contiguous(tensor: TensorValue, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    formats = [arg.as_constant() for arg in [*args, *kwargs.values()]]
    return ConstantValue(
        tensor.fake.is_contiguous(memory_format=formats[0]) if formats else tensor.fake.is_contiguous()
    )


def _type(tensor: TensorValue, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    return None if args or kwargs else ConstantValue(tensor.fake.type())


def _same_value(tensor: TensorValue, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    return tensor


def _hash(tensor: TensorValue, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    return tx.unsupported("data-dependent", "the hash of a tensor is its address")


def is_dense(fake: torch.Tensor) -> bool:
    """Whether a tensor fills its memory without gaps or overlaps."""
    expected = 1
    for size, stride in sorted(zip(fake.shape, fake.stride(), strict=True), key=lambda pair: (pair[1], pair[0])):
        if size != 1:
            if stride != expected:
                return False
            expected = expected * size
    return True


def _deep_copy(tensor: TensorValue, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """`copy.deepcopy(tensor)`: of a leaf, or of a tensor without gradients, whose memory is its own."""
    fake = tensor.fake
    if not fake.is_leaf:
        text = (
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  "
            "If you were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, "
            "see https://github.com/pytorch/pytorch/pull/103001"
        )
        tx.raise_python(RuntimeError, text)
    if tensor.cls is not torch.Tensor or fake.is_conj() or fake.is_neg():
        return tx.unsupported("input-output", f"copying a {tensor.cls.__name__}")
    whole = fake.untyped_storage().nbytes() == fake.nbytes and fake.storage_offset() == 0
    if not whole or not is_dense(fake):
        return tx.unsupported("input-output", "copying a tensor that shows a part of its memory")
    copied = tx.call_graph("clone", [tx.call_graph("detach", [tensor])])
    if fake.requires_grad:
        copied = tx.call_graph("requires_grad_", [copied])
    args[0].call_method(tx, "__setitem__", [tx.call(tx.wrap(id, None), [tensor]), copied], {})
    return copied


METHODS: dict[str, Callable[..., Value | None]] = {
    **scalars.METHODS,
    "size": _size,
    "numel": _numel,
    "nelement": _numel,
    "__len__": _length,
    "stride": _strides,
    "is_contiguous": _contiguous,
    "type": _type,
    "__hash__": _hash,
    "__deepcopy__": _deep_copy,
    "__pos__": _same_value,
}


@wraps(torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
def wrap_tensor(tx: Frame, obj: torch.Tensor, source: Source | None) -> Value:
    """A tensor of the program: a placeholder of the graph, or an opaque object where no graph holds its kind."""
    if describe(obj) is not None:
        return wrap_opaque_tensor(tx, obj, source)
    return tx.trace.inputs.tensor(tx, obj, source)


def is_symbolic(value: Value) -> bool:
    """Whether the value is a number that only the run knows."""
    return isinstance(value, SymbolicValue)
