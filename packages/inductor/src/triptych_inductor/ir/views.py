"""Views as index translations: reshape, permute, expand, slice and their kin, each with its strided form where it has
one."""

from __future__ import annotations

from collections.abc import Sequence

from triptych_inductor.ir.extents import Extent, product, quotient, same, tidy, times
from triptych_inductor.ir.index import ZERO, Index, floordiv, remainder
from triptych_inductor.ir.nodes import Strided
from triptych_inductor.ir.tensors import Indices, LazyTensor, view

# Weight from which a recipe is stored rather than evaluated once for each element it is broadcast to.
BROADCAST_WEIGHT = 4


def permute(x: LazyTensor, dims: Sequence[int]) -> LazyTensor:
    """Dimensions in the order `dims`."""
    dims = [d % x.ndim for d in dims] if x.ndim else []
    inverse = {d: k for k, d in enumerate(dims)}

    def restride(w: Strided) -> Strided:
        return Strided(w.buffer, tuple([w.size[d] for d in dims]), tuple([w.stride[d] for d in dims]), w.offset)

    return view(x, [x.size[d] for d in dims], lambda i: [i[inverse[d]] for d in range(len(dims))], restride)


def expand(x: LazyTensor, size: Sequence[Extent]) -> LazyTensor:
    """Broadcast to `size`; dimensions of size 1 repeat, missing leading ones are added."""
    size = tuple(size)
    lead = len(size) - x.ndim
    grown = [x.size[d] == 1 and size[lead + d] != 1 for d in range(x.ndim)]
    if not lead and not any(grown):
        return x
    if x.strided is None and sum(t.weight for t in x.pending()) >= BROADCAST_WEIGHT and size != (1,) * len(size):
        x.builder.realise(x)

    def translate(i: Indices) -> list[Index]:
        return [ZERO if x.size[d] == 1 else i[lead + d] for d in range(x.ndim)]

    def restride(w: Strided) -> Strided:
        strides = tuple([0 if grown[d] else w.stride[d] for d in range(x.ndim)])
        return Strided(w.buffer, size, (0,) * lead + strides, w.offset)

    return view(x, size, translate, restride)


def _groups(old: Sequence[Extent], new: Sequence[Extent]) -> list[tuple[list[int], list[int]]]:
    """Split two shapes of equal element count into the shortest runs of dimensions with equal products."""
    a = [k for k, e in enumerate(old) if e != 1]
    b = [k for k, e in enumerate(new) if e != 1]
    groups = []
    while a and b:
        left, right = [a.pop(0)], [b.pop(0)]
        p, q = old[left[0]], new[right[0]]
        while not same(p, q):
            grow_left = quotient(q, p) is not None or (type(p) is int and type(q) is int and p < q)
            if (grow_left or not b) and a:
                left.append(a.pop(0))
                p = times(p, old[left[-1]])
            elif b:
                right.append(b.pop(0))
                q = times(q, new[right[-1]])
            else:
                break
        groups.append((left, right))
    if groups and (a or b):
        groups[-1][0].extend(a)
        groups[-1][1].extend(b)
    return groups


def _reshape_stride(
    w: Strided, old: Sequence[Extent], new: Sequence[Extent], groups: list[tuple[list[int], list[int]]]
) -> Strided | None:
    """The strided form of a reshape: every run of old dimensions must be evenly spaced in memory."""
    strides: list[Extent] = [1] * len(new)
    for left, right in groups:
        for outer, inner in zip(left, left[1:], strict=False):
            if not same(w.stride[outer], times(w.stride[inner], old[inner])):
                return None
        step = w.stride[left[-1]]
        for d in reversed(right):
            strides[d] = step
            step = times(step, new[d])
    for d in range(len(new) - 1, -1, -1):  # torch's choice for dimensions of size 1
        if new[d] == 1:
            strides[d] = times(strides[d + 1], new[d + 1]) if d + 1 < len(new) else 1
    return Strided(w.buffer, tuple(new), tuple(strides), w.offset)


def reshape(x: LazyTensor, size: Sequence[Extent]) -> LazyTensor:
    """The same elements in row-major order with other dimensions."""
    new, old = tuple(size), x.size
    if new == old:
        return x
    empty = any(e == 0 for e in old)
    groups = [] if empty else _groups(old, new)

    def translate(i: Indices) -> list[Index]:
        result = [ZERO] * len(old)
        for left, right in groups:
            linear, step = ZERO, 1
            for d in reversed(right):
                linear = linear + i[d] * step
                step = times(step, new[d])
            step = 1
            for d in reversed(left[1:]):
                result[d] = remainder(floordiv(linear, step), old[d])
                step = times(step, old[d])
            result[left[0]] = floordiv(linear, step)
        return result

    def restride(w: Strided) -> Strided | None:
        return None if empty else _reshape_stride(w, old, new, groups)

    return view(x, new, translate, restride)


def resolve_sizes(size: Sequence[Extent], numel: Extent) -> tuple[Extent, ...]:
    """The size list of `view` with -1 worked out."""
    if not any(type(e) is int and e == -1 for e in size):
        return tuple(size)
    rest = product([e for e in size if not (type(e) is int and e == -1)])
    found = quotient(numel, rest) if rest != 0 else 0
    missing = found if found is not None else tidy(numel // rest)
    return tuple([missing if type(e) is int and e == -1 else e for e in size])


def unsqueeze(x: LazyTensor, dim: int) -> LazyTensor:
    """A dimension of size 1 before `dim`."""
    dim = dim % (x.ndim + 1)

    def restride(w: Strided) -> Strided:
        step = times(w.stride[dim], w.size[dim]) if dim < x.ndim else 1
        stride = (*w.stride[:dim], step, *w.stride[dim:])
        return Strided(w.buffer, (*w.size[:dim], 1, *w.size[dim:]), stride, w.offset)

    return view(x, (*x.size[:dim], 1, *x.size[dim:]), lambda i: [*i[:dim], *i[dim + 1 :]], restride)


def squeeze(x: LazyTensor, dims: Sequence[int]) -> LazyTensor:
    """Without those of `dims` that have size 1."""
    gone = {d % x.ndim for d in dims if x.size[d % x.ndim] == 1} if x.ndim else set()
    kept = [d for d in range(x.ndim) if d not in gone]
    place = {d: k for k, d in enumerate(kept)}
    if not gone:
        return x

    def restride(w: Strided) -> Strided:
        return Strided(w.buffer, tuple([w.size[d] for d in kept]), tuple([w.stride[d] for d in kept]), w.offset)

    def translate(i: Indices) -> list[Index]:
        return [i[place[d]] if d in place else ZERO for d in range(x.ndim)]

    return view(x, [x.size[d] for d in kept], translate, restride)


def strided_slice(x: LazyTensor, dim: int, start: Extent, length: Extent, step: Extent = 1) -> LazyTensor:
    """`length` elements of `dim` from `start`, `step` apart; bounds already resolved."""
    if start == 0 and step == 1 and same(length, x.size[dim]):
        return x
    size = (*x.size[:dim], length, *x.size[dim + 1 :])

    def translate(i: Indices) -> list[Index]:
        return [ix * step + start if d == dim else ix for d, ix in enumerate(i)]

    def restride(w: Strided) -> Strided:
        stride = (*w.stride[:dim], times(w.stride[dim], step), *w.stride[dim + 1 :])
        return Strided(w.buffer, size, stride, tidy(w.offset + times(start, w.stride[dim])))

    return view(x, size, translate, restride)


def select(x: LazyTensor, dim: int, position: Extent) -> LazyTensor:
    """The slice at one (nonnegative) position of `dim`, without that dimension."""

    def translate(i: Indices) -> list[Index]:
        return [*i[:dim], Index.of(position), *i[dim:]]

    def restride(w: Strided) -> Strided:
        offset = tidy(w.offset + times(position, w.stride[dim]))
        return Strided(w.buffer, w.size[:dim] + w.size[dim + 1 :], w.stride[:dim] + w.stride[dim + 1 :], offset)

    return view(x, x.size[:dim] + x.size[dim + 1 :], translate, restride)


def flip(x: LazyTensor, dims: Sequence[int]) -> LazyTensor:
    """Reversed along `dims`; no strided form."""
    chosen = {d % x.ndim for d in dims} if x.ndim else set()

    def translate(i: Indices) -> list[Index]:
        return [Index.of(tidy(x.size[d] - 1)) - ix if d in chosen and x.size[d] != 1 else ix for d, ix in enumerate(i)]

    return view(x, x.size, translate, lambda w: None)


def unfold(x: LazyTensor, dim: int, length: Extent, step: Extent, count: Extent) -> LazyTensor:
    """Windows of `length` along `dim`, `step` apart, as a new last dimension (`Tensor.unfold`)."""
    size = (*x.size[:dim], count, *x.size[dim + 1 :], length)

    def translate(i: Indices) -> list[Index]:
        return [ix * step + i[-1] if d == dim else ix for d, ix in enumerate(i[:-1])]

    def restride(w: Strided) -> Strided:
        inner = w.stride[dim]
        stride = (*w.stride[:dim], times(inner, step), *w.stride[dim + 1 :], inner)
        return Strided(w.buffer, size, stride, w.offset)

    return view(x, size, translate, restride)


def diagonal(x: LazyTensor, offset: int, dim1: int, dim2: int, length: Extent) -> LazyTensor:
    """The diagonal of two dimensions as a new last dimension."""
    kept = [d for d in range(x.ndim) if d not in (dim1, dim2)]
    row, column = max(-offset, 0), max(offset, 0)
    size = (*[x.size[d] for d in kept], length)

    def translate(i: Indices) -> list[Index]:
        place = dict(zip(kept, i, strict=False))
        return [i[-1] + row if d == dim1 else i[-1] + column if d == dim2 else place[d] for d in range(x.ndim)]

    def restride(w: Strided) -> Strided:
        stride = (*[w.stride[d] for d in kept], tidy(w.stride[dim1] + w.stride[dim2]))
        start = tidy(w.offset + times(row, w.stride[dim1]) + times(column, w.stride[dim2]))
        return Strided(w.buffer, size, stride, start)

    return view(x, size, translate, restride)


def squeeze_dims(x: LazyTensor, dims: Sequence[int]) -> LazyTensor:
    """Without `dims`, all of size 1 (a kept reduction's result as if it had not been kept)."""
    return squeeze(x, dims) if dims else x
