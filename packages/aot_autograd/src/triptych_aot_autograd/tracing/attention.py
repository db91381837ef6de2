"""Masks of attention, made fit before `scaled_dot_product_attention` chooses its kernel.

Libraries build a mask from index arithmetic alone where they cannot know, while they are traced, that none is needed.
With such a mask attention takes a slower kernel, or none at all (a mask that is the same for all keys has a last stride
of 0, which fused kernels refuse). A mask computed from constants is evaluated here: one that hides nothing is left out,
and one that hides exactly the future becomes `is_causal`.

Numbers to be added whose last axis is not contiguous (a table of position biases, permuted) would send attention to
plain products in float32; they are laid out anew, which costs a copy of the mask.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from triptych_aot_autograd import _torch_compat as compat
from triptych_aot_autograd.tracing.facts import Facts, TracedTensor

aten = torch.ops.aten
LARGEST = 1 << 22  # elements of any value that is evaluated
MOST_OPS = 64  # that a mask may be computed by
FUSED_ONLY_CONTIGUOUS = frozenset({"cuda"})  # devices whose fused kernels want masks with a contiguous last axis


def _sdpa(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: Any = 0.0,
    is_causal: Any = False,
    *,
    scale: Any = None,
    enable_gqa: Any = False,
) -> None:
    """The signature of `torch.nn.functional.scaled_dot_product_attention`."""


_SIGNATURE = inspect.signature(_sdpa)


class MaskReader:
    """What the masks of one trace are; each is looked at once."""

    def __init__(self) -> None:
        self._kinds: dict[Node, str] = {}

    def attention(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """`scaled_dot_product_attention(*args, **kwargs)`, without a mask that says nothing."""
        try:
            bound = _SIGNATURE.bind(*args, **kwargs)
        except TypeError:
            return func(*args, **kwargs)  # raises what torch raises
        given = bound.arguments
        mask = given.get("attn_mask")
        if type(mask) is TracedTensor and not given.get("is_causal"):
            kind = self._kind(mask) if not mask.requires_grad else ""
            if kind:
                given.update(attn_mask=None, is_causal=kind == "causal")
            elif _refused_for_its_layout(mask):
                given["attn_mask"] = mask.contiguous()
        return func(*bound.args, **bound.kwargs)

    def _kind(self, mask: TracedTensor) -> str:
        """ "full": nothing is hidden; "causal": keys behind the query are; "": neither, or not known."""
        if mask._generation != mask._storage.generation or mask.dim() < 2:
            return ""
        node = mask._value
        found = self._kinds.get(node)
        if found is None:
            with compat.without_dispatch_modes(), compat.below_autograd(), compat.no_autocast():
                value = _Evaluation().value(node)
                found = "" if value is None else _kind_of(value)
            self._kinds[node] = found
        return found


def _refused_for_its_layout(mask: TracedTensor) -> bool:
    if mask.device.type not in FUSED_ONLY_CONTIGUOUS or not mask.is_floating_point() or mask.dim() < 2:
        return False
    return mask._facts.stride[-1] not in (0, 1) and not mask._facts.symbolic


def _kind_of(mask: torch.Tensor) -> str:
    core = mask[tuple([slice(0, 1) if step == 0 else slice(None) for step in mask.stride()])]
    hidden = ~core if core.dtype is torch.bool else core != 0
    if not bool(hidden.any()):
        return "full"
    queries, keys = mask.shape[-2:]
    if queries != keys or core.shape[-2:] != mask.shape[-2:]:
        return ""
    future = torch.ones(queries, keys, dtype=torch.bool).triu(1)
    if not bool((hidden == future).all()):
        return ""
    # An added number hides a score where nothing of it survives beside the scores that stay.
    return "causal" if core.dtype is torch.bool or bool((core[hidden] <= torch.finfo(core.dtype).min).all()) else ""


class _Evaluation:
    """Computes one node from constants on the CPU; None where it depends on anything else, or would be dear."""

    def __init__(self) -> None:
        self._known: dict[Node, torch.Tensor | None] = {}

    def value(self, node: Node) -> torch.Tensor | None:
        """The numbers of the node. Sizes that are symbolic count as 1 where an axis is only repeated."""
        if node not in self._known:
            self._known[node] = None  # until it is known
            if len(self._known) <= MOST_OPS and self._allowed(node):
                self._known[node] = self._compute(node)
        return self._known[node]

    def _allowed(self, node: Node) -> bool:
        target, facts = node.target, node.meta.get("facts")
        if node.op != "call_function" or not isinstance(target, compat.OpOverload) or type(facts) is not Facts:
            return False
        if compat.has_effect(node) or target._schema.is_mutable or target in OF_STRIDES:
            return False
        if target is aten.expand.default:
            return True
        if facts.symbolic:
            return False
        cheap = compat.is_view_target(target) or target in UNIFORM or torch.Tag.pointwise in target.tags
        return cheap or torch.Size(facts.size).numel() <= LARGEST

    def _compute(self, node: Node) -> torch.Tensor | None:
        target: Any = node.target
        facts = node.meta["facts"]
        if target in UNIFORM:
            number = UNIFORM[target](node.args)
            return None if isinstance(number, Node) else torch.full((), number, dtype=facts.dtype).expand(facts.size)
        inputs = {n: self.value(n) for n in node.all_input_nodes if type(n.meta.get("facts")) is Facts}
        if any(v is None for v in inputs.values()):
            return None
        if target is aten.expand.default:
            source: Any = inputs[node.args[0]]  # type: ignore[index]
            return source.expand(_repeats(node.args[1], source.shape))
        if len(inputs) != len(node.all_input_nodes):
            return None
        if torch.Tag.pointwise in target.tags:
            inputs = _without_repeats(inputs, facts.size)
            if any(v.numel() > LARGEST for v in inputs.values() if v is not None):
                return None
        if target in VIEWS:
            (given,) = inputs.values()
            return None if given is None else _viewed(given, facts.size)
        args, kwargs = map_arg((node.args, node.kwargs), inputs.__getitem__)
        result = target(*_on_cpu(args), **{name: _on_cpu(v) for name, v in kwargs.items()})
        return result.expand(facts.size) if torch.Tag.pointwise in target.tags else result


VIEWS = frozenset({aten.view.default, aten._unsafe_view.default, aten.reshape.default})
OF_STRIDES = frozenset({aten.as_strided.default, aten.view.dtype})
"""Ops whose result depends on how their argument lies in memory."""

UNIFORM: dict[Any, Callable[[Any], Any]] = {
    aten.zeros.default: lambda args: 0,
    aten.zeros_like.default: lambda args: 0,
    aten.new_zeros.default: lambda args: 0,
    aten.ones.default: lambda args: 1,
    aten.ones_like.default: lambda args: 1,
    aten.new_ones.default: lambda args: 1,
    aten.full.default: lambda args: args[1],
    aten.full_like.default: lambda args: args[1],
    aten.new_full.default: lambda args: args[2],
    aten.scalar_tensor.default: lambda args: args[0],
}
"""Ops that fill their result with one number: which, from their arguments."""


def _without_repeats(inputs: dict[Node, torch.Tensor | None], size: Any) -> dict[Node, torch.Tensor | None]:
    """The operands of an elementwise op of this size, cut to one element along axes where all of them repeat."""
    grown = {n: v.expand(*[1] * (len(size) - v.dim()), *v.shape) for n, v in inputs.items() if v is not None}
    repeated = [all(v.size(d) == 1 or v.stride(d) == 0 for v in grown.values()) for d in range(len(size))]
    cut = tuple([slice(0, 1) if r else slice(None) for r in repeated])
    return {n: v[cut] for n, v in grown.items()}


def _viewed(tensor: torch.Tensor, size: Any) -> torch.Tensor | None:
    """A view; a copy where axes repeat that do not in the graph, if it is small enough."""
    try:
        return tensor.view(size)
    except RuntimeError:
        return tensor.reshape(size) if tensor.numel() <= LARGEST else None


def _repeats(size: Any, source: torch.Size) -> list[int]:
    """The sizes to expand to, with a symbolic one as it is before."""
    before = [1] * (len(size) - len(source)) + list(source)
    return [n if type(n) is int else old for n, old in zip(size, before, strict=True)]


def _on_cpu(value: Any) -> Any:
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return type(value)([_on_cpu(v) for v in value]) if isinstance(value, (list, tuple)) else value
