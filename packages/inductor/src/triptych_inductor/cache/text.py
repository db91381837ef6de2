"""`graph_text`: everything that determines what a compiler makes of an fx graph, as text; equal graphs, equal texts.

Names of nodes and the user's lines are left out. `Uncacheable` says which part of a graph has no such text.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule, Node

from triptych_inductor.errors import InductorError

PLAIN = (type(None), bool, int, float, complex, str, bytes)
TORCH_PLAIN = (torch.dtype, torch.device, torch.layout, torch.memory_format)
SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
OWN_NAMESPACES = frozenset({"aten", "prims", "prim", "quantized", "mkldnn", "torchvision"})
TRUSTED_MODULES = ("torch", "_operator", "operator", "math", "builtins", "triptych_dynamo")
LARGEST_CONSTANT = 16 << 20  # bytes of a tensor held by a graph, beyond which hashing it costs more than it saves


class Uncacheable(InductorError):
    """A graph that is compiled anew in each process; the text says why."""


def graph_text(
    gm: GraphModule, example_inputs: Sequence[Any] = (), *, constants: bool = True, foreign_operators: bool = True
) -> str:
    """The text of a graph and its inputs.

    gm: a graph whose nodes may carry `meta["val"]`. constants: tensors held by `gm` count with their content, else by
    their metadata alone. foreign_operators: False refuses operators of other libraries, whose autograd formulas and
    decompositions may have changed since.
    """
    writer = _Writer(gm, constants, foreign_operators)
    inputs = [writer.value(value) for value in example_inputs]
    return "\n".join([*inputs, *(writer.line(node) for node in gm.graph.nodes)])


def ambient_text() -> str:
    """The modes of this thread and switches of this process that compilers of graphs look at."""
    autocast = [
        (kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind), torch.is_autocast_cache_enabled())
        for kind in ("cpu", "cuda")
    ]
    facts = (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_float32_matmul_precision(),
        torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled,
        torch.backends.cudnn.deterministic,
        _attention_switches(),
        autocast,
    )
    return repr(facts)


def _attention_switches() -> tuple[bool, ...]:
    """Which kernels of attention a trace may choose between."""
    kinds = ("flash", "mem_efficient", "math", "cudnn")
    return tuple(getattr(torch.backends.cuda, f"{kind}_sdp_enabled")() for kind in kinds)


@functools.cache
def source_fingerprint(*packages: str) -> str:
    """Hash of the source files of importable packages: a compiler's own code is part of every key."""
    state = hashlib.sha256()
    for package in packages:
        spec = importlib.util.find_spec(package)
        assert spec is not None and spec.origin is not None, f"{package} is not installed"
        root = Path(spec.origin).parent
        for path in sorted(p for p in root.rglob("*") if p.suffix in (".py", ".h", ".cpp", ".so")):
            state.update(f"{package}/{path.relative_to(root)}\0".encode())
            state.update(path.read_bytes())
    return state.hexdigest()


def versions_text() -> str:
    """Releases of torch and Python."""
    return f"{torch.__version__} {torch.version.git_version} {sys.version_info[:2]}"


class _Writer:
    """Writes one graph; nodes are numbered, storages too."""

    def __init__(self, gm: GraphModule, constants: bool, foreign_operators: bool) -> None:
        self.gm = gm
        self.constants = constants
        self.foreign_operators = foreign_operators
        self.numbers: dict[Node, int] = {}
        self.storages: dict[int, int] = {}
        self.attributes: dict[str, str] = {}

    def line(self, node: Node) -> str:
        number = self.numbers[node] = len(self.numbers)
        target = self.target(node)
        args = self.value(tuple(node.args))
        kwargs = self.value(dict(node.kwargs)) if node.kwargs else ""
        result = node.meta.get("val", node.meta.get("example_value"))
        text = "" if node.op == "output" else self.value(result)
        return f"{number} {node.op} {target} {args} {kwargs} -> {text}"

    def target(self, node: Node) -> str:
        if node.op in ("placeholder", "output"):
            return ""
        if node.op == "call_method":
            return str(node.target)
        if node.op in ("get_attr", "call_module"):
            name = str(node.target)
            if name not in self.attributes:
                self.attributes[name] = self.attribute(name)
            return self.attributes[name]
        if node.op == "call_function":
            return self.function(node.target)
        raise AssertionError(f"fx has no nodes of kind {node.op}")

    def attribute(self, name: str) -> str:
        found = attrgetter(name)(self.gm)
        if isinstance(found, torch.Tensor):
            return f"{self.tensor(found)} {_content(found) if self.constants else ''}"
        if isinstance(found, GraphModule):
            inner = graph_text(found, constants=self.constants, foreign_operators=self.foreign_operators)
            return f"{{{inner}}}"
        raise Uncacheable(f"the attribute {name} is a {type(found).__name__}")

    def function(self, fn: Any) -> str:
        if isinstance(fn, torch._ops.OpOverload):
            if not self.foreign_operators and fn.namespace not in OWN_NAMESPACES:
                raise Uncacheable(f"the operator {fn} belongs to another library")
            return str(fn)
        return function_text(fn)

    def value(self, value: Any) -> str:
        if isinstance(value, Node):
            return f"%{self.numbers[value]}"
        if isinstance(value, PLAIN):
            return repr(value)
        if isinstance(value, TORCH_PLAIN):
            return str(value)
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if isinstance(value, SYMBOLIC):
            return f"<{type(value).__name__} {value.node.expr}>"
        if isinstance(value, (list, tuple)):
            kind = "[" if isinstance(value, list) else "("
            return f"{kind}{', '.join(map(self.value, value))})"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{self.value(k)}: {self.value(v)}' for k, v in value.items())}}}"
        if isinstance(value, slice):
            return f"slice{self.value((value.start, value.stop, value.step))}"
        if callable(value):
            return self.function(value)
        raise Uncacheable(f"a constant of type {type(value).__name__}")

    def tensor(self, tensor: torch.Tensor) -> str:
        if tensor.layout is not torch.strided:
            raise Uncacheable(f"a tensor of layout {tensor.layout}")
        if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ and not _is_fake(tensor):
            raise Uncacheable(f"a tensor of type {type(tensor).__name__}")
        storage = self.storages.setdefault(tensor.untyped_storage()._cdata, len(self.storages))
        flags = (tensor.requires_grad, _is_leaf(tensor), tensor.is_conj(), tensor.is_neg(), tensor.is_inference())
        bits = "".join(letter for letter, on in zip("glcni", flags, strict=True) if on)
        size, stride = _numbers(tensor.size()), _numbers(tensor.stride())
        return f"{tensor.dtype}{size}{stride}+{_numbers([tensor.storage_offset()])}@{tensor.device}#{storage}{bits}"


def _numbers(values: Iterable[Any]) -> str:
    return f"({','.join(str(v) if type(v) is int else str(v.node.expr) for v in values)})"


def _is_leaf(tensor: torch.Tensor) -> bool:
    try:
        return tensor.is_leaf
    except RuntimeError:  # a view made without gradients whose base was written to with them
        return False


def _is_fake(tensor: torch.Tensor) -> bool:
    return any(cls.__name__ == "FakeTensor" and cls.__module__.startswith("torch.") for cls in type(tensor).__mro__)


def _content(tensor: torch.Tensor) -> str:
    if _is_fake(tensor):
        raise Uncacheable("a tensor constant without data")
    if tensor.untyped_storage().nbytes() > LARGEST_CONSTANT:
        raise Uncacheable(f"a tensor constant of more than {LARGEST_CONSTANT >> 20} MiB")
    data = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8) if tensor.numel() else None
    return hashlib.sha256(b"" if data is None else data.numpy().tobytes()).hexdigest()


_OWNERS: tuple[Callable[[], Any], ...] = (
    lambda: torch,
    lambda: torch.Tensor,
    lambda: torch._C._nn,
    lambda: torch._C._linalg,
    lambda: torch._C._fft,
    lambda: torch._C._special,
)


@functools.lru_cache(maxsize=4096)
def function_text(fn: Any) -> str:
    """A name under which a function of torch or Python is found; `Uncacheable` for functions of users."""
    if isinstance(fn, torch._ops.HigherOrderOperator):
        return f"higher_order.{fn._name}"
    if isinstance(fn, torch._ops.OpOverloadPacket):
        return f"packet.{fn}"
    name = getattr(fn, "__name__", "")
    for owner in _OWNERS:
        if name and getattr(owner(), name, None) is fn:
            return f"{getattr(owner(), '__name__', owner())}.{name}"
    module, qualified = getattr(fn, "__module__", None) or "", getattr(fn, "__qualname__", name)
    if module.split(".")[0] in TRUSTED_MODULES and _found(sys.modules.get(module), qualified.split(".")) is fn:
        return f"{module}.{qualified}"
    kind = "function" if isinstance(fn, types.FunctionType) else type(fn).__name__
    raise Uncacheable(f"the {kind} {module}.{qualified} is not one of torch")


def _found(owner: Any, path: Sequence[str]) -> Any:
    for part in path:
        owner = getattr(owner, part, None)
    return owner
