"""Python models of `itertools` and of the lazy builtins, as generator functions.

In: the arguments of the original. Out: a generator that yields the same values. The interpreter inlines these in
place of the C originals, so laziness, the order of side effects and the moment of exceptions are the originals'.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any

_ABSENT = object()


def chain(*iterables: Iterable[Any]) -> Iterator[Any]:
    """`itertools.chain`."""
    for iterable in iterables:
        yield from iterable


def chain_from_iterable(iterables: Iterable[Iterable[Any]]) -> Iterator[Any]:
    """`itertools.chain.from_iterable`."""
    for iterable in iterables:
        yield from iterable


def islice(iterable: Iterable[Any], *bounds: int | None) -> Iterator[Any]:
    """`itertools.islice(iterable, stop)` and `islice(iterable, start, stop[, step])`."""
    limits = slice(*bounds)
    start = 0 if limits.start is None else limits.start
    stop, step = limits.stop, 1 if limits.step is None else limits.step
    if start < 0 or (stop is not None and stop < 0):
        raise ValueError("Indices for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
    if step < 1:
        raise ValueError("Step for islice() must be a positive integer or None.")
    return _islice(iter(iterable), start, stop, step)


def _islice(iterator: Iterator[Any], start: int, stop: int | None, step: int) -> Iterator[Any]:
    position = 0
    wanted = start
    while stop is None or wanted < stop:
        while position < wanted:
            position += 1
            try:
                next(iterator)
            except StopIteration:
                return
        try:
            item = next(iterator)
        except StopIteration:
            return
        position += 1
        yield item
        wanted += step
    while stop is not None and position < stop:
        position += 1
        try:
            next(iterator)
        except StopIteration:
            return


def repeat(item: Any, times: Any = _ABSENT) -> Iterator[Any]:
    """`itertools.repeat`."""
    if times is _ABSENT:
        while True:
            yield item
    for _ in range(times):
        yield item


def count(start: Any = 0, step: Any = 1) -> Iterator[Any]:
    """`itertools.count`."""
    while True:
        yield start
        start = start + step


def cycle(iterable: Iterable[Any]) -> Iterator[Any]:
    """`itertools.cycle`."""
    saved = []
    for item in iterable:
        yield item
        saved.append(item)
    while saved:
        yield from saved


def product(*iterables: Iterable[Any], repeat: int = 1) -> Iterator[tuple[Any, ...]]:
    """`itertools.product`; the pools are read at the call, as the original does."""
    pools = [tuple(pool) for pool in iterables] * repeat
    return _product(pools)


def _product(pools: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = [()]
    for pool in pools:
        rows = [(*row, item) for row in rows for item in pool]
    yield from rows


def accumulate(
    iterable: Iterable[Any], func: Callable[..., Any] | None = None, *, initial: Any = None
) -> Iterator[Any]:
    """`itertools.accumulate`."""
    if func is None:
        func = operator.add
    iterator = iter(iterable)
    total = initial
    if initial is None:
        try:
            total = next(iterator)
        except StopIteration:
            return
    yield total
    for item in iterator:
        total = func(total, item)
        yield total


def takewhile(predicate: Callable[[Any], Any], iterable: Iterable[Any]) -> Iterator[Any]:
    """`itertools.takewhile`."""
    for item in iterable:
        if not predicate(item):
            return
        yield item


def dropwhile(predicate: Callable[[Any], Any], iterable: Iterable[Any]) -> Iterator[Any]:
    """`itertools.dropwhile`."""
    iterator = iter(iterable)
    for item in iterator:
        if not predicate(item):
            yield item
            break
    yield from iterator


def filterfalse(predicate: Callable[[Any], Any] | None, iterable: Iterable[Any]) -> Iterator[Any]:
    """`itertools.filterfalse`."""
    for item in iterable:
        kept = item if predicate is None else predicate(item)
        if not kept:
            yield item


def starmap(function: Callable[..., Any], iterable: Iterable[Iterable[Any]]) -> Iterator[Any]:
    """`itertools.starmap`."""
    for args in iterable:
        yield function(*args)


def compress(data: Iterable[Any], selectors: Iterable[Any]) -> Iterator[Any]:
    """`itertools.compress`."""
    for item, selected in zip(data, selectors, strict=False):
        if selected:
            yield item


def zip_longest(*iterables: Iterable[Any], fillvalue: Any = None) -> Iterator[tuple[Any, ...]]:
    """`itertools.zip_longest`."""
    return _zip_longest([iter(iterable) for iterable in iterables], fillvalue)


def _zip_longest(iterators: list[Any], fillvalue: Any) -> Iterator[tuple[Any, ...]]:
    alive = len(iterators)
    while alive:
        row = []
        for index, iterator in enumerate(iterators):
            item = fillvalue
            if iterator is not None:
                try:
                    item = next(iterator)
                except StopIteration:
                    alive -= 1
                    if not alive:
                        return
                    iterators[index] = None
            row.append(item)
        yield tuple(row)


def pairwise(iterable: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """`itertools.pairwise`."""
    iterator = iter(iterable)
    try:
        left = next(iterator)
    except StopIteration:
        return
    for right in iterator:
        yield (left, right)
        left = right


def batched(iterable: Iterable[Any], n: int, *, strict: bool = False) -> Iterator[tuple[Any, ...]]:
    """`itertools.batched` (Python 3.12 and later)."""
    if n < 1:
        raise ValueError("n must be at least one")
    return _batched(iter(iterable), n, strict)


def _batched(iterator: Iterator[Any], n: int, strict: bool) -> Iterator[tuple[Any, ...]]:
    row: list[Any] = []
    for item in iterator:
        row.append(item)
        if len(row) == n:
            yield tuple(row)
            row = []
    if row:
        if strict:
            raise ValueError("batched(): incomplete batch")
        yield tuple(row)


def combinations(iterable: Iterable[Any], r: int) -> Iterator[tuple[Any, ...]]:
    """`itertools.combinations`."""
    pool = tuple(iterable)
    if r < 0:
        raise ValueError("r must be non-negative")
    return _choose(pool, r, 0, 1)


def combinations_with_replacement(iterable: Iterable[Any], r: int) -> Iterator[tuple[Any, ...]]:
    """`itertools.combinations_with_replacement`."""
    pool = tuple(iterable)
    if r < 0:
        raise ValueError("r must be non-negative")
    return _choose(pool, r, 0, 0)


def _choose(pool: tuple[Any, ...], r: int, start: int, step: int) -> Iterator[tuple[Any, ...]]:
    if r == 0:
        yield ()
        return
    for index in range(start, len(pool)):
        for rest in _choose(pool, r - 1, index + step, step):
            yield (pool[index], *rest)


def permutations(iterable: Iterable[Any], r: int | None = None) -> Iterator[tuple[Any, ...]]:
    """`itertools.permutations`."""
    pool = tuple(iterable)
    length = len(pool) if r is None else r
    if length < 0:
        raise ValueError("r must be non-negative")
    return _arrange(pool, list(range(len(pool))), length)


def _arrange(pool: tuple[Any, ...], free: list[int], r: int) -> Iterator[tuple[Any, ...]]:
    if r == 0:
        yield ()
        return
    for index in free:
        for rest in _arrange(pool, [other for other in free if other != index], r - 1):
            yield (pool[index], *rest)


def groupby(iterable: Iterable[Any], key: Callable[[Any], Any] | None = None) -> Iterator[tuple[Any, Iterator[Any]]]:
    """`itertools.groupby`; a group is read whole before it is handed out."""
    iterator = iter(iterable)
    try:
        item = next(iterator)
    except StopIteration:
        return
    current = item if key is None else key(item)
    group = [item]
    for item in iterator:
        found = item if key is None else key(item)
        if found != current:
            yield (current, iter(group))
            current, group = found, []
        group.append(item)
    yield (current, iter(group))


def tee(iterable: Iterable[Any], n: int = 2) -> tuple[Iterator[Any], ...]:
    """`itertools.tee`."""
    if n < 0:
        raise ValueError("n must be >= 0")
    iterator = iter(iterable)
    seen: list[Any] = []
    return tuple(_branch(iterator, seen) for _ in range(n))


def _branch(iterator: Iterator[Any], seen: list[Any]) -> Iterator[Any]:
    position = 0
    while True:
        if position == len(seen):
            try:
                seen.append(next(iterator))
            except StopIteration:
                return
        yield seen[position]
        position += 1


def iter_until(function: Callable[[], Any], sentinel: Any) -> Iterator[Any]:
    """`iter(function, sentinel)`."""
    while True:
        item = function()
        if item == sentinel:
            return
        yield item


def iter_by_index(sequence: Any) -> Iterator[Any]:
    """`iter(obj)` of an object that has `__getitem__` alone."""
    index = 0
    while True:
        try:
            item = sequence[index]
        except IndexError:
            return
        yield item
        index += 1
