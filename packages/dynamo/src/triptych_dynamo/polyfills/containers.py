"""Python models of container methods written in C whose result depends on comparisons of items.

In: the arguments of the original, `self` first. Out: the same result or exception.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

_ABSENT = object()
_NAMES_THE_ITEM = sys.version_info < (3, 14)  # the error of `index` does


def index(sequence: Any, wanted: Any, start: int = 0, stop: int | None = None, /) -> int:
    """`list.index`, `tuple.index`."""
    length = len(sequence)
    if start < 0:
        start = max(start + length, 0)
    if stop is None or stop > length:
        stop = length
    elif stop < 0:
        stop += length
    position = start
    while position < stop and position < len(sequence):  # comparing may take items away
        item = sequence[position]
        if item is wanted or item == wanted:
            return position
        position += 1
    kind = "tuple" if isinstance(sequence, tuple) else "list"
    if _NAMES_THE_ITEM and kind != "tuple":
        raise ValueError(f"{wanted!r} is not in {kind}")
    raise ValueError(f"{kind}.index(x): x not in {kind}")


def remove(sequence: Any, wanted: Any, /) -> None:
    """`list.remove`."""
    position = 0
    for item in sequence:
        if item is wanted or item == wanted:
            del sequence[position]
            return
        position += 1
    raise ValueError("list.remove(x): x not in list")


def deque_index(items: Any, wanted: Any, start: int = 0, stop: int | None = None, /) -> int:
    """`deque.index`, which notices what comparisons do to the deque."""
    size = len(items)
    for position in range(*slice(start, stop).indices(size)):
        item = items[position]
        if item is wanted or item == wanted:
            return position
        if len(items) != size:
            raise RuntimeError("deque mutated during iteration")
    raise ValueError(f"{wanted!r} is not in deque" if _NAMES_THE_ITEM else "deque.index(x): x not in deque")


def deque_remove(items: Any, wanted: Any, /) -> None:
    """`deque.remove`, likewise."""
    size = len(items)
    for position in range(size):
        item = items[position]
        found = item is wanted or item == wanted
        if len(items) != size:
            raise IndexError("deque mutated during iteration")
        if found:
            del items[position]
            return
    raise ValueError(f"{wanted!r} is not in deque" if _NAMES_THE_ITEM else "deque.remove(x): x not in deque")


def _contained(left: Any, right: Any) -> bool:
    for item in left:
        if item not in right:
            return False
    return True


def view_eq(left: Any, right: Any) -> bool:
    """`==` of keys or items of a dictionary and such a view, or a set."""
    return len(left) == len(right) and _contained(left, right)


def view_lt(left: Any, right: Any) -> bool:
    """`<`, likewise."""
    return len(left) < len(right) and _contained(left, right)


def view_le(left: Any, right: Any) -> bool:
    """`<=`, likewise."""
    return len(left) <= len(right) and _contained(left, right)


def view_gt(left: Any, right: Any) -> bool:
    """`>`, likewise."""
    return len(left) > len(right) and _contained(right, left)


def view_ge(left: Any, right: Any) -> bool:
    """`>=`, likewise."""
    return len(left) >= len(right) and _contained(right, left)


def sequence_eq(left: Any, right: Any) -> bool:
    """`==` of two lists, tuples or deques of one family."""
    if len(left) != len(right):
        return False
    for a, b in zip(left, right, strict=False):
        if not (a is b or a == b):
            return False
    return True


def sequence_lt(left: Any, right: Any) -> bool:
    """`<` of two lists or tuples."""
    for a, b in zip(left, right, strict=False):
        if not (a is b or a == b):
            return a < b
    return len(left) < len(right)


def sequence_le(left: Any, right: Any) -> bool:
    """`<=` of two lists or tuples."""
    for a, b in zip(left, right, strict=False):
        if not (a is b or a == b):
            return a <= b
    return len(left) <= len(right)


def sequence_gt(left: Any, right: Any) -> bool:
    """`>` of two lists or tuples."""
    for a, b in zip(left, right, strict=False):
        if not (a is b or a == b):
            return a > b
    return len(left) > len(right)


def sequence_ge(left: Any, right: Any) -> bool:
    """`>=` of two lists or tuples."""
    for a, b in zip(left, right, strict=False):
        if not (a is b or a == b):
            return a >= b
    return len(left) >= len(right)


def sorted_by_first(pairs: list[tuple[Any, Any]], reverse: bool) -> list[tuple[Any, Any]]:
    """The pairs of (key, item) in the order of `list.sort`: a stable merge sort that compares keys by `<` alone."""
    if reverse:
        pairs.reverse()
    ordered = _merge_sort(pairs)
    if reverse:
        ordered.reverse()
    return ordered


def _merge_sort(pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    if len(pairs) < 2:
        return pairs
    middle = len(pairs) // 2
    left, right = _merge_sort(pairs[:middle]), _merge_sort(pairs[middle:])
    merged = []
    i = j = 0
    while i < len(left) and j < len(right):
        if right[j][0] < left[i][0]:
            merged.append(right[j])
            j += 1
        else:
            merged.append(left[i])
            i += 1
    merged.extend(left[i:])
    merged.extend(right[j:])
    return merged


def mapping_eq(left: Mapping[Any, Any], right: Mapping[Any, Any]) -> bool:
    """`==` of two dictionaries (order does not matter)."""
    if len(left) != len(right):
        return False
    for key, a in left.items():
        if key not in right:
            return False
        b = right[key]
        if not (a is b or a == b):
            return False
    return True


def ordered_mapping_eq(left: Mapping[Any, Any], right: Mapping[Any, Any]) -> bool:
    """`==` of two `OrderedDict`s (order matters)."""
    return mapping_eq(left, right) and list(left) == list(right)


def mutable_mapping_update(target: Any, /, *others: Any, **named: Any) -> None:
    """`dict.update` over any source that `dict` takes: a mapping with `keys`, pairs, keywords."""
    for other in others:
        if hasattr(other, "keys"):
            for key in other.keys():
                target[key] = other[key]
        else:
            for key, item in other:
                target[key] = item
    for key, item in named.items():
        target[key] = item


def count_elements(counter: Any, iterable: Iterable[Any]) -> None:
    """`collections._count_elements`, the inner loop of `Counter`."""
    for item in iterable:
        counter[item] = counter.get(item, 0) + 1


def rotate(queue: Any, n: int = 1, /) -> None:
    """`deque.rotate`."""
    length = len(queue)
    if length < 2:
        return
    steps = n % length
    for _ in range(steps):
        queue.appendleft(queue.pop())


def is_subset(left: Iterable[Any], right: Any) -> bool:
    """`left <= right` of sets."""
    for item in left:
        if item not in right:
            return False
    return True


def namespace_eq(self: SimpleNamespace, other: Any, /) -> Any:
    """`SimpleNamespace.__eq__`."""
    return self.__dict__ == other.__dict__ if isinstance(other, SimpleNamespace) else NotImplemented


def namespace_ne(self: SimpleNamespace, other: Any, /) -> Any:
    """`SimpleNamespace.__ne__`."""
    return self.__dict__ != other.__dict__ if isinstance(other, SimpleNamespace) else NotImplemented


def namespace_repr(self: SimpleNamespace, /) -> str:
    """`SimpleNamespace.__repr__`."""
    name = "namespace" if type(self) is SimpleNamespace else type(self).__name__
    return f"{name}({', '.join([f'{key}={value!r}' for key, value in self.__dict__.items()])})"
