"""Python models of the C parts of `heapq` and `bisect`.

In: a list that is a heap (or is sorted) and items. Out: as the originals, by the same comparisons (`<` only).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def heappush(heap: list[Any], item: Any, /) -> None:
    """`heapq.heappush`."""
    heap.append(item)
    _sift_down(heap, 0, len(heap) - 1)


def heappop(heap: list[Any], /) -> Any:
    """`heapq.heappop`."""
    last = heap.pop()
    return heapreplace(heap, last) if heap else last


def heapreplace(heap: list[Any], item: Any, /) -> Any:
    """`heapq.heapreplace`."""
    smallest = heap[0]
    heap[0] = item
    _sift_up(heap, 0)
    return smallest


def heappushpop(heap: list[Any], item: Any, /) -> Any:
    """`heapq.heappushpop`."""
    if heap and heap[0] < item:
        item, heap[0] = heap[0], item
        _sift_up(heap, 0)
    return item


def heapify(heap: list[Any], /) -> None:
    """`heapq.heapify`."""
    for position in reversed(range(len(heap) // 2)):
        _sift_up(heap, position)


def heappop_max(heap: list[Any], /) -> Any:
    """`heapq._heappop_max`."""
    last = heap.pop()
    return heapreplace_max(heap, last) if heap else last


def heapreplace_max(heap: list[Any], item: Any, /) -> Any:
    """`heapq._heapreplace_max`."""
    largest = heap[0]
    heap[0] = item
    _sift_up(heap, 0, True)
    return largest


def heapify_max(heap: list[Any], /) -> None:
    """`heapq._heapify_max`."""
    for position in reversed(range(len(heap) // 2)):
        _sift_up(heap, position, True)


def _sift_down(heap: list[Any], start: int, position: int, largest: bool = False) -> None:
    item = heap[position]
    while position > start:
        parent_position = (position - 1) >> 1
        parent = heap[parent_position]
        if not (parent < item if largest else item < parent):
            break
        heap[position] = parent
        position = parent_position
    heap[position] = item


def _sift_up(heap: list[Any], position: int, largest: bool = False) -> None:
    end = len(heap)
    start = position
    item = heap[position]
    child = 2 * position + 1
    while child < end:
        right = child + 1
        if right < end and not (heap[right] < heap[child] if largest else heap[child] < heap[right]):
            child = right
        heap[position] = heap[child]
        position = child
        child = 2 * position + 1
    heap[position] = item
    _sift_down(heap, start, position, largest)


def bisect_left(a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Callable[[Any], Any] | None = None) -> int:
    """`bisect.bisect_left`."""
    if lo < 0:
        raise ValueError("lo must be non-negative")
    end = len(a) if hi is None else hi
    while lo < end:
        middle = (lo + end) // 2
        found = a[middle] if key is None else key(a[middle])
        if found < x:
            lo = middle + 1
        else:
            end = middle
    return lo


def bisect_right(a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Callable[[Any], Any] | None = None) -> int:
    """`bisect.bisect_right`."""
    if lo < 0:
        raise ValueError("lo must be non-negative")
    end = len(a) if hi is None else hi
    while lo < end:
        middle = (lo + end) // 2
        found = a[middle] if key is None else key(a[middle])
        if x < found:
            end = middle
        else:
            lo = middle + 1
    return lo


def insort_left(a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Callable[[Any], Any] | None = None) -> None:
    """`bisect.insort_left`."""
    a.insert(bisect_left(a, x if key is None else key(x), lo, hi, key=key), x)


def insort_right(
    a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Callable[[Any], Any] | None = None
) -> None:
    """`bisect.insort_right`."""
    a.insert(bisect_right(a, x if key is None else key(x), lo, hi, key=key), x)
