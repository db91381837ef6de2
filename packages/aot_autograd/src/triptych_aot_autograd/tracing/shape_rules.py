"""Rules that give the metadata of common ops without running a kernel, for static sizes.

Meta kernels written in Python take 0.1 to 1 ms; a rule takes microseconds. Each rule either gives exactly what eager
would, or None where the
case is not plain (strides out of the ordinary, mixed dtypes); then the meta kernel is asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from triptych_aot_autograd import _torch_compat as compat
from triptych_aot_autograd.tracing.facts import Facts, FactsTable, TracedTensor

aten = torch.ops.aten
Rule = Callable[[FactsTable, Any, Any, Any], Any]

# Elementwise ops by what dtype they give: that of the operands' promotion (if it is floating), or bool.
FLOATING = (
    "add sub mul div rsub maximum minimum atan2 fmod remainder pow neg abs exp exp2 expm1 log log2 log1p log10 sqrt "
    "rsqrt "
    "reciprocal sin cos tan tanh sigmoid relu gelu silu erf erfc square sign floor ceil round trunc frac softplus "
    "leaky_relu hardtanh hardswish hardsigmoid elu mish threshold threshold_backward gelu_backward silu_backward "
    "tanh_backward "
    "sigmoid_backward hardtanh_backward leaky_relu_backward elu_backward softplus_backward lerp addcmul addcdiv clamp "
    "clamp_min clamp_max masked_fill where"
)
BOOLEAN = "eq ne lt le gt ge logical_and logical_or logical_not logical_xor isnan isinf isfinite"


def _normal(facts: Facts) -> bool:
    """Row-major, in the strides that a new tensor would get."""
    return facts.stride == compat.contiguous_strides(facts.size)


def _operands(args: Any, kwargs: Any) -> list[TracedTensor]:
    return [a for a in (*args, *kwargs.values()) if isinstance(a, TracedTensor)]


def _broadcast(sizes: Sequence[tuple]) -> tuple | None:
    rank = max(map(len, sizes))
    result = [1] * rank
    for size in sizes:
        for i, n in enumerate(size, rank - len(size)):
            if n != 1:
                if result[i] not in (1, n):
                    return None
                result[i] = n
    return tuple(result)


def _elementwise(table: FactsTable, args: Any, kwargs: Any, boolean: bool) -> Facts | None:
    """All operands row-major (broadcast or not), one floating dtype: the result is row-major and has it."""
    tensors = _operands(args, kwargs)
    numbers = [
        a for a in (*args, *kwargs.values()) if isinstance(a, (complex, torch.Tensor)) and type(a) is not TracedTensor
    ]
    if not tensors or numbers:
        return None
    first = tensors[0]._facts
    dtype, device = None, first.device
    for tensor in tensors:
        facts = tensor._facts
        if facts.symbolic or facts.device != device or not _normal(facts):
            return None
        if facts.dtype is not torch.bool and facts.dtype is not dtype:
            if dtype is not None or not facts.dtype.is_floating_point:
                return None
            dtype = facts.dtype
    if dtype is None:
        return None
    size = _broadcast([t._facts.size for t in tensors])
    if size is None:
        return None
    return table.get(size, compat.contiguous_strides(size), 0, torch.bool if boolean else dtype, device)


def _floating(table: FactsTable, func: Any, args: Any, kwargs: Any) -> Facts | None:
    same = _one_layout(args, kwargs)
    return same if same is not None else _elementwise(table, args, kwargs, False)


def _boolean(table: FactsTable, func: Any, args: Any, kwargs: Any) -> Facts | None:
    return _elementwise(table, args, kwargs, True)


def _one_layout(args: Any, kwargs: Any) -> Facts | None:
    """All operands have the same dense layout without size-one dimensions: so has the result."""
    tensors = _operands(args, kwargs)
    if not tensors:
        return None
    facts = tensors[0]._facts
    if (
        any(t._facts is not facts for t in tensors)
        or facts.symbolic
        or facts.offset
        or not facts.dtype.is_floating_point
    ):
        return None
    if any(isinstance(a, complex) for a in args) or any(isinstance(a, complex) for a in kwargs.values()):
        return None
    if 1 in facts.size or 0 in facts.size or not compat.is_dense(facts.size, facts.stride):
        return None
    return facts


def _new(table: FactsTable, size: Sequence[int], like: Facts, dtype: torch.dtype | None = None) -> Facts:
    size = tuple(size)
    return table.get(size, compat.contiguous_strides(size), 0, dtype or like.dtype, like.device)


def _static(*tensors: Any) -> bool:
    if not all(isinstance(t, TracedTensor) and not t._facts.symbolic for t in tensors):
        return False
    first = tensors[0]._facts
    return all(t._facts.dtype is first.dtype and t._facts.device == first.device for t in tensors)


def _product(table: FactsTable, func: Any, args: Any, kwargs: Any) -> Facts | None:
    """mm, bmm: row-major results."""
    if kwargs or not _static(*args[:2]):
        return None
    a, b = args[0]._facts, args[1]._facts
    rank = 2 if func is aten.mm.default else 3
    if len(a.size) != rank or len(b.size) != rank or a.size[-1] != b.size[-2] or a.size[:-2] != b.size[:-2]:
        return None
    return _new(table, (*a.size[:-1], b.size[-1]), a)


def _added_product(table: FactsTable, func: Any, args: Any, kwargs: Any) -> Facts | None:
    """addmm, baddbmm, with a bias that broadcasts."""
    if not _static(*args[:3]):
        return None
    product = _product(table, aten.mm.default if func is aten.addmm.default else aten.bmm.default, args[1:3], {})
    if product is None or _broadcast([args[0]._facts.size, product.size]) != product.size:
        return None
    return product


def _like(position: int) -> Rule:
    """The facts of argument `position`, made anew: for row-major ones."""

    def rule(table: FactsTable, func: Any, args: Any, kwargs: Any) -> Facts | None:
        if kwargs or not isinstance(args[position], TracedTensor):
            return None
        facts = args[position]._facts
        return _new(table, facts.size, facts) if not facts.symbolic and _normal(facts) else None

    return rule


def _layer_norm_backward(table: FactsTable, func: Any, args: Any, kwargs: Any) -> Any:
    grad, source, shape, weight, bias, mask = args[0], args[1], args[2], args[5], args[6], args[7]
    present = [t for t in (grad, source, weight, bias) if t is not None]
    if not _static(*present) or not _normal(source._facts):
        return None
    like = source._facts
    parts = [like.size, tuple(shape), tuple(shape)]
    wanted = [mask[0], mask[1] and weight is not None, mask[2] and bias is not None]
    return tuple(_new(table, size, like) if want else None for size, want in zip(parts, wanted, strict=True))


def _batch_norm(outputs: int) -> Rule:
    def rule(table: FactsTable, func: Any, args: Any, kwargs: Any) -> Any:
        tensors = [a for a in args[:5] if a is not None]
        if (
            kwargs
            or not _static(*tensors)
            or not args[5]
            or tensors[0]._facts.dtype not in (torch.float32, torch.float64)
        ):
            return None
        facts = args[0]._facts
        if not _normal(facts):
            return None
        stat = _new(table, facts.size[1:2], facts)
        return (_new(table, facts.size, facts), *[stat] * (outputs - 1))

    return rule


def _batch_norm_backward(table: FactsTable, func: Any, args: Any, kwargs: Any) -> Any:
    grad, source, weight = args[0], args[1], args[2]
    tensors = [t for t in args[:7] if isinstance(t, TracedTensor)]
    if kwargs or weight is None or not _static(*tensors) or source._facts.dtype not in (torch.float32, torch.float64):
        return None
    if not _normal(source._facts) or not _normal(grad._facts) or not all(args[9]):
        return None
    stat = _new(table, source._facts.size[1:2], source._facts)
    return (_new(table, source._facts.size, source._facts), stat, stat)


def _embedding(table: FactsTable, func: Any, args: Any, kwargs: Any) -> Facts | None:
    weight, indices = args[0], args[1]
    if not isinstance(weight, TracedTensor) or not isinstance(indices, TracedTensor):
        return None
    w, i = weight._facts, indices._facts
    if w.symbolic or i.symbolic or w.device != i.device or len(w.size) != 2 or not _normal(w):
        return None
    return _new(table, (*i.size, w.size[1]), w)


def _embedding_backward(table: FactsTable, func: Any, args: Any, kwargs: Any) -> Facts | None:
    grad = args[0]
    if kwargs or not isinstance(grad, TracedTensor) or grad._facts.symbolic or not isinstance(args[2], int):
        return None
    return _new(table, (args[2], grad._facts.size[-1]), grad._facts)


def _view(table: FactsTable, func: Any, args: Any, kwargs: Any) -> Facts | None:
    """A view of a row-major tensor."""
    if not isinstance(args[0], TracedTensor):
        return None
    facts, size = args[0]._facts, args[1]
    if facts.symbolic or not _normal(facts) or not all(type(n) is int for n in size):
        return None
    count = math.prod(facts.size)
    size = list(size)
    if -1 in size:
        at = size.index(-1)
        rest = math.prod(size[:at] + size[at + 1 :])
        if rest <= 0 or count % rest:
            return None
        size[at] = count // rest
    if math.prod(size) != count or any(n < 0 for n in size):
        return None
    return table.get(size, compat.contiguous_strides(size), facts.offset, facts.dtype, facts.device)


RULES: dict[Any, Rule] = {
    aten.mm.default: _product,
    aten.bmm.default: _product,
    aten.addmm.default: _added_product,
    aten.baddbmm.default: _added_product,
    aten._safe_softmax.default: _like(0),
    aten._softmax_backward_data.default: lambda t, f, a, k: _like(1)(t, f, a[:2], k),
    aten.native_layer_norm_backward.default: _layer_norm_backward,
    aten._native_batch_norm_legit_functional.default: _batch_norm(5),
    aten.native_batch_norm_backward.default: _batch_norm_backward,
    aten.embedding.default: _embedding,
    aten.embedding_dense_backward.default: _embedding_backward,
    aten.view.default: _view,
    aten._unsafe_view.default: _view,
}
BY_PACKET: dict[Any, Rule] = {getattr(aten, name): _floating for name in FLOATING.split()}
BY_PACKET.update({getattr(aten, name): _boolean for name in BOOLEAN.split()})

# View ops that FakeTensorMode has a rule for for symbolic sizes alone: with static ones the meta kernel is right.
STATIC_META = frozenset(
    (
        aten.view.default,
        aten._unsafe_view.default,
        aten.slice.Tensor,
        aten.select.int,
        aten.expand.default,
        aten._reshape_alias.default,
    )
)

# Ops whose meta kernel asks on which device it would run; a meta tensor cannot answer, a fake tensor can.
ASK_DEVICE = frozenset(
    getattr(aten, name)
    for name in (
        "linalg_eig _linalg_svd _linalg_eigh reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d "
        "replication_pad2d replication_pad3d _fft_c2c _fft_r2c _fft_c2r nonzero_static _embedding_bag "
        "_embedding_bag_forward_only median nanmedian mode _scaled_dot_product_flash_attention "
        "_scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention _flash_attention_forward "
        "_efficient_attention_forward _scaled_mm pixel_shuffle pixel_unshuffle histc channel_shuffle "
        "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training _batch_norm_no_update "
        "_native_batch_norm_legit_functional _batch_norm_with_update_functional native_layer_norm log_sigmoid_forward "
        "upsample_nearest2d upsample_bilinear2d upsample_bicubic2d upsample_linear1d upsample_trilinear3d "
        "native_channel_shuffle native_group_norm _convert_weight_to_int4pack _weight_int4pack_mm"
    ).split()
    if hasattr(aten, name)
)


def rule_for(func: Any) -> Rule | None:
    """The rule of an op, if it has one."""
    return RULES.get(func) or BY_PACKET.get(func._overloadpacket)
