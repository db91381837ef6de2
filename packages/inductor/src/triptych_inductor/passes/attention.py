"""Attention written out, as `scaled_dot_product_attention`.

Works on graphs of torch functions, before autograd, so that forward and backward both use fused kernels and the matrix
of scores is never kept. What is found: a product of queries and transposed keys; then, in any number and order, scaling
by numbers and additions of masks or biases; a softmax over the keys; casts; dropout; a product with the values. Nobody
else may read what lies between.

A row that is hidden altogether by infinities gives NaN when written out, and what the kernel gives (zeros) when fused.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import Graph, GraphModule, Node

HALF = (torch.float16, torch.bfloat16)
FLOATS = (*HALF, torch.float32, torch.float64)


def _functions(*names: str, methods: Sequence[str] = (), more: Sequence[Any] = ()) -> frozenset[Any]:
    """Targets of one meaning: functions of torch by name, methods by name, and others."""
    return frozenset([getattr(torch, n) for n in names] + list(methods) + list(more))


PRODUCT = _functions("matmul", "bmm", methods=("matmul", "bmm", "__matmul__"), more=(operator.matmul,))
TIMES = _functions("mul", methods=("mul", "mul_"), more=(operator.mul, operator.imul))
OVER = _functions("div", "true_divide", methods=("div", "div_"), more=(operator.truediv, operator.itruediv))
PLUS = _functions("add", methods=("add", "add_"), more=(operator.add, operator.iadd))
SOFTMAX = _functions("softmax", methods=("softmax",), more=(F.softmax, torch.special.softmax))
DROPOUT = frozenset({F.dropout})
CAST = frozenset({"to", "type_as", "float", "half", "bfloat16", "type"})
TRANSPOSE = _functions("transpose", methods=("transpose", "swapaxes"))
LAID_OUT = frozenset({"contiguous", "reshape", "flatten"})


@dataclass
class Found:
    """One attention: the nodes of its result and of its first product, and what it is made of."""

    result: Node
    product: Node
    query: Node
    keys: Node  # transposed: [..., features, keys]
    value: Node
    scale: float = 1.0
    masks: tuple[Node, ...] = ()
    dropout: float = 0.0


def fuse_attention(gm: GraphModule) -> tuple[GraphModule, int]:
    """The graph with attentions fused (the same object where there are none), and how many there were."""
    if not any(node.target in SOFTMAX for node in gm.graph.nodes):
        return gm, 0
    if not any(_match(node) for node in gm.graph.nodes):
        return gm, 0
    graph = Graph()
    copies: dict[Node, Node] = {}
    graph.output(graph.graph_copy(gm.graph, copies))
    graph.output_node().meta = dict(gm.graph.output_node().meta)
    count = 0
    for node in list(graph.nodes):
        found = _match(node)
        if found is not None:
            _replace(graph, found)
            count += 1
    return GraphModule(gm, graph), count


# -- matching ----------------------------------------------------------------------------------------------------------


def _match(node: Node) -> Found | None:
    """The attention whose result `node` is, if it is one and fusing it is worth it."""
    if node.target not in PRODUCT or len(node.args) < 2 or node.kwargs:
        return None
    probabilities, value = node.args[:2]
    if not isinstance(probabilities, Node) or not isinstance(value, Node):
        return None
    inner, dropout = _through_dropout(_through_casts(probabilities))
    softmax = _through_casts(inner) if inner is not None else None
    if softmax is None or dropout is None or not _is_softmax_over_keys(softmax):
        return None
    found = _scores(softmax.args[0], Found(node, node, node, node, value, dropout=dropout))
    if found is None or not _fits(found) or not _is_worth_it(found) or _writes_between(found):
        return None
    return found


def _value(node: Any) -> Any:
    return node.meta.get("val", node.meta.get("example_value")) if isinstance(node, Node) else None


def _private(node: Any) -> bool:
    """Whether one node alone reads the value (`x.type_as(node)` reads its type only)."""
    if not isinstance(node, Node):
        return False
    return len(node.users) == 1 or sum(not (u.target == "type_as" and u.args[0] is not node) for u in node.users) == 1


def _through_casts(node: Any) -> Node | None:
    """What a chain of casts between floating-point types starts from; None where somebody else reads in between."""
    while _private(node) and node.op == "call_method" and node.target in CAST:
        source = node.args[0]
        if not isinstance(_value(source), torch.Tensor) or _value(source).dtype not in FLOATS:
            return None
        if not isinstance(_value(node), torch.Tensor) or _value(node).dtype not in FLOATS:
            return None
        node = source
    return node if _private(node) else None


def _through_dropout(node: Node | None) -> tuple[Node | None, float | None]:
    """The argument and the probability of a dropout; the node itself, and 0, where it is none."""
    if node is None or node.target not in DROPOUT:
        return node, 0.0
    given = dict(zip(("input", "p", "training", "inplace"), node.args, strict=False)) | node.kwargs
    p, training = given.get("p", 0.5), given.get("training", True)
    if not isinstance(p, (int, float)) or not isinstance(training, bool):
        return None, None
    return _through_casts(given["input"]), float(p) if training else 0.0


def _is_softmax_over_keys(node: Node) -> bool:
    if node.target not in SOFTMAX or not node.args or not _private(node.args[0]):
        return False
    scores = _value(node.args[0])
    dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    return isinstance(scores, torch.Tensor) and dim in (-1, scores.ndim - 1)


def _scores(node: Any, found: Found) -> Found | None:
    """Follow scaling and additions down to the product of queries and keys."""
    scale = 1.0  # of what is below, by operations already passed
    while _private(node):
        source, other = (*node.args, None, None)[:2]
        if _is_number(source) and node.target in TIMES:
            source, other = other, source
        if node.target in CAST and node.op == "call_method":
            node = _through_casts(node)
        elif node.target in TIMES | OVER and _is_number(other) and isinstance(source, Node) and not node.kwargs:
            if node.target in OVER and other == 0:
                return None
            scale = scale * other if node.target in TIMES else scale / other  # type: ignore[operator]
            node = source
        elif node.target in PLUS and not node.kwargs and scale == 1.0:
            mask = _mask_of(source, other)
            if mask is None:
                return None
            node, found.masks = (source if mask is other else other), (*found.masks, mask)
        elif node.target in PRODUCT and isinstance(source, Node) and isinstance(other, Node) and not node.kwargs:
            found.product, found.query, found.keys, found.scale = node, source, other, scale
            return found
        else:
            return None
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _mask_of(a: Any, b: Any) -> Node | None:
    """Which of two summands is the mask: the other one leads to the product."""
    for mask, scores in ((b, a), (a, b)):
        if isinstance(mask, Node) and _private(scores) and _leads_to_product(scores):
            value = _value(mask)
            return mask if isinstance(value, torch.Tensor) and value.dtype in FLOATS else None
    return None


def _leads_to_product(node: Any) -> bool:
    while _private(node):
        if node.target in PRODUCT:
            return True
        if node.target in PLUS:
            return any(_leads_to_product(a) for a in node.args[:2])
        if node.target not in TIMES | OVER and not (node.op == "call_method" and node.target in CAST):
            return False
        node = node.args[1] if _is_number(node.args[0]) else node.args[0]
    return False


def _fits(found: Found) -> bool:
    """Whether shapes and types are those of attention."""
    query, keys, value, result = map(_value, (found.query, found.keys, found.value, found.result))
    tensors = (query, keys, value, result)
    if not all(isinstance(t, torch.Tensor) and t.dtype in FLOATS and t.ndim == query.ndim for t in tensors):
        return False
    if query.ndim not in (3, 4) or not query.dtype == keys.dtype == value.dtype:
        return False
    if result.dtype is not query.dtype and result.dtype not in HALF:  # autocast rounds what attention is given
        return False
    lead = [t.shape[:-2] for t in tensors]
    if any(list(shape) != list(lead[0]) for shape in lead) or len({t.device for t in tensors}) != 1:
        return False
    scores = (*lead[0], query.shape[-2], keys.shape[-1])
    return all(_broadcasts(_value(mask), scores) and _value(mask).device == query.device for mask in found.masks)


def _writes_between(found: Found) -> bool:
    """Whether something is changed in place between the first product and the result, which then must stay in order."""
    own, node = _chain(found), found.result
    while node is not found.product:
        node = node.prev
        if node not in own and _is_in_place(node):
            return True
    return False


def _is_in_place(node: Node) -> bool:
    if node.op == "call_method":
        return str(node.target).endswith("_") and not str(node.target).endswith("__")
    name = getattr(node.target, "__name__", "")
    in_place = (
        name.endswith("_") or node.target in IN_PLACE or "out" in node.kwargs or node.kwargs.get("inplace") is True
    )
    return node.op == "call_function" and in_place


IN_PLACE = frozenset(
    [getattr(operator, f"i{n}") for n in "add sub mul matmul truediv floordiv mod pow and or xor lshift rshift".split()]
    + [operator.setitem]
)


def _chain(found: Found) -> list[Node]:
    """The nodes from the first product to before the result."""
    chain: list[Node] = []
    stack = [found.result.args[0]]
    while stack:
        node = stack.pop()
        if not isinstance(node, Node) or node in chain or node in found.masks:
            continue
        chain.append(node)
        if node is not found.product:
            stack.extend(node.args[:1] if node.target in CAST else (*node.args, *node.kwargs.values()))
    return chain


def _broadcasts(mask: torch.Tensor, scores: Sequence[Any]) -> bool:
    if mask.ndim > len(scores):
        return False
    pairs = zip(mask.shape, scores[len(scores) - mask.ndim :], strict=True)
    return all(type(a) is int and a == 1 or a == b for a, b in pairs)


def _cpu(found: Found) -> bool:
    """Its fused kernel takes no dropout, and gains nothing on few tokens."""
    query, keys = _value(found.query), _value(found.keys)
    sizes = (query.shape[-2], keys.shape[-1])
    return found.dropout == 0 and all(type(n) is not int or n >= 32 for n in sizes)


WORTH_IT: dict[str, Callable[[Found], bool]] = {
    "cpu": _cpu,
    "cuda": lambda found: True,
}
"""Device type -> whether the fused kernel is the better choice."""


def _is_worth_it(found: Found) -> bool:
    rule = WORTH_IT.get(_value(found.query).device.type)
    return rule is not None and rule(found)


# -- rewriting ---------------------------------------------------------------------------------------------------------


def _replace(graph: Graph, found: Found) -> None:
    """Put one call in the place of an attention."""
    result, value = found.result, _value(found.result)
    with graph.inserting_before(result):
        keys = _untransposed(graph, found.keys)
        kwargs: dict[str, Any] = {"scale": found.scale}
        if found.masks:
            kwargs["attn_mask"] = _mask(graph, found, value.dtype)
        if found.dropout:
            kwargs["dropout_p"] = found.dropout
        call = graph.call_function(F.scaled_dot_product_attention, (found.query, keys, found.value), kwargs)
        call.meta = dict(result.meta)
        if not all(_lays_out_anew(user) for user in result.users):
            call = graph.call_method("contiguous", (call,))  # products give contiguous results, attention need not
            call.meta = dict(result.meta)
    chain = sorted(_chain(found), reverse=True)
    result.replace_all_uses_with(call)
    for node in [result, *chain]:
        if not node.users:
            graph.erase_node(node)


def _untransposed(graph: Graph, keys: Node) -> Node:
    """The keys as attention takes them: what was transposed, or its transpose."""
    value = _value(keys)
    if keys.target in TRANSPOSE and not keys.kwargs and len(keys.args) == 3:
        axes = {d % value.ndim if isinstance(d, int) else d for d in keys.args[1:]}
        if axes == {value.ndim - 2, value.ndim - 1}:
            return keys.args[0]  # type: ignore[return-value]
    node = graph.call_method("transpose", (keys, -2, -1))
    node.meta = {k: v for k, v in keys.meta.items() if k not in ("val", "example_value")}
    return node


def _mask(graph: Graph, found: Found, dtype: torch.dtype) -> Node:
    """The sum of what is added, of the type that attention computes in, with no infinities made by rounding to it."""
    masks = found.masks
    total = masks[0]
    for mask in masks[1:]:
        total = graph.call_function(operator.add, (total, mask))
    types = {_value(mask).dtype for mask in masks}
    if types != {dtype}:
        if any(torch.finfo(t).max > torch.finfo(dtype).max for t in types):
            least = torch.finfo(dtype).min
            total = graph.call_method("clamp", (total,), {"min": least})
        total = graph.call_method("to", (total, dtype))
    if max(_value(mask).ndim for mask in masks) < 2:
        total = graph.call_method("unsqueeze", (total, 0))
    return total


def _lays_out_anew(user: Node) -> bool:
    """Whether a user of the result gives the same whatever the strides: a transpose that is then copied."""
    if user.target in TRANSPOSE:
        return all(u.op == "call_method" and u.target in LAID_OUT for u in user.users)
    return user.op == "call_method" and user.target in LAID_OUT
