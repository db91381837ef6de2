"""Python models of builtins and of functions of `functools`, `operator` and `math` that consume iterables.

In: the arguments of the original. Out: the same result, by the same order of comparisons and additions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

_ABSENT = object()


def any_(iterable: Iterable[Any]) -> bool:
    """`any`."""
    for item in iterable:
        if item:
            return True
    return False


def all_(iterable: Iterable[Any]) -> bool:
    """`all`."""
    for item in iterable:
        if not item:
            return False
    return True


def sum_(iterable: Iterable[Any], /, start: Any = 0) -> Any:
    """`sum`."""
    if isinstance(start, str):
        raise TypeError("sum() can't sum strings [use ''.join(seq) instead]")
    total = start
    for item in iterable:
        total = total + item
    return total


def _text_of_none() -> str:
    """How this version of Python refuses the least of nothing."""
    try:
        return str(min(()))
    except ValueError as error:
        return str(error).replace("min", "{}")


_OF_NONE = _text_of_none()


def min_(*args: Any, key: Callable[[Any], Any] | None = None, default: Any = _ABSENT) -> Any:
    """`min`."""
    candidates = args[0] if len(args) == 1 else args
    best: Any = _ABSENT
    best_key: Any = None
    for item in candidates:
        found = item if key is None else key(item)
        if best is _ABSENT or found < best_key:
            best, best_key = item, found
    if best is not _ABSENT:
        return best
    if default is _ABSENT:
        raise ValueError(_OF_NONE.format("min"))
    return default


def max_(*args: Any, key: Callable[[Any], Any] | None = None, default: Any = _ABSENT) -> Any:
    """`max`."""
    candidates = args[0] if len(args) == 1 else args
    best: Any = _ABSENT
    best_key: Any = None
    for item in candidates:
        found = item if key is None else key(item)
        if best is _ABSENT or found > best_key:
            best, best_key = item, found
    if best is not _ABSENT:
        return best
    if default is _ABSENT:
        raise ValueError(_OF_NONE.format("max"))
    return default


def reduce(function: Callable[[Any, Any], Any], iterable: Iterable[Any], initial: Any = _ABSENT, /) -> Any:
    """`functools.reduce`."""
    iterator = iter(iterable)
    total = initial
    if initial is _ABSENT:
        try:
            total = next(iterator)
        except StopIteration:
            raise TypeError("reduce() of empty iterable with no initial value") from None
    for item in iterator:
        total = function(total, item)
    return total


def prod(iterable: Iterable[Any], /, *, start: Any = 1) -> Any:
    """`math.prod`."""
    total = start
    for item in iterable:
        total = total * item
    return total


def count_of(sequence: Iterable[Any], wanted: Any) -> int:
    """`operator.countOf`, `list.count`, `tuple.count`."""
    found = 0
    for item in sequence:
        if item is wanted or item == wanted:
            found += 1
    return found


def index_of(sequence: Iterable[Any], wanted: Any) -> int:
    """`operator.indexOf`."""
    index = 0
    for item in sequence:
        if item is wanted or item == wanted:
            return index
        index += 1
    raise ValueError("sequence.index(x): x not in sequence")


def contains(iterable: Iterable[Any], wanted: Any) -> bool:
    """`wanted in iterable` by iteration."""
    for item in iterable:
        if item is wanted or item == wanted:
            return True
    return False


def divmod_(left: Any, right: Any) -> tuple[Any, Any]:
    """`divmod` of numbers that are not constants."""
    return (left // right, left % right)


def attrgetter(*names: str) -> Callable[[Any], Any]:
    """`operator.attrgetter`."""

    def resolve(obj: Any, path: str) -> Any:
        for name in path.split("."):
            obj = getattr(obj, name)
        return obj

    def get(obj: Any) -> Any:
        if len(names) == 1:
            return resolve(obj, names[0])
        return tuple([resolve(obj, name) for name in names])

    return get


def itemgetter(*keys: Any) -> Callable[[Any], Any]:
    """`operator.itemgetter`."""

    def get(obj: Any) -> Any:
        if len(keys) == 1:
            return obj[keys[0]]
        return tuple([obj[key] for key in keys])

    return get


def methodcaller(name: str, /, *args: Any, **kwargs: Any) -> Callable[[Any], Any]:
    """`operator.methodcaller`."""

    def call(obj: Any) -> Any:
        return getattr(obj, name)(*args, **kwargs)

    return call


class ComparisonKey:
    """What `functools.cmp_to_key(compare)` makes of an object: ordered by `compare`."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, compare: Callable[[Any, Any], Any], obj: Any) -> None:
        self.compare = compare
        self.obj = obj

    def __lt__(self, other: Any) -> bool:
        return self.compare(self.obj, other.obj) < 0  # type: ignore[no-any-return]

    def __gt__(self, other: Any) -> bool:
        return self.compare(self.obj, other.obj) > 0  # type: ignore[no-any-return]

    def __le__(self, other: Any) -> bool:
        return self.compare(self.obj, other.obj) <= 0  # type: ignore[no-any-return]

    def __ge__(self, other: Any) -> bool:
        return self.compare(self.obj, other.obj) >= 0  # type: ignore[no-any-return]

    def __eq__(self, other: Any) -> bool:
        return self.compare(self.obj, other.obj) == 0  # type: ignore[no-any-return]


def cmp_to_key(mycmp: Callable[[Any, Any], Any]) -> Callable[[Any], ComparisonKey]:
    """`functools.cmp_to_key`."""

    def key(obj: Any) -> ComparisonKey:
        return ComparisonKey(mycmp, obj)

    return key


def length_hint(obj: Any, default: int = 0, /) -> int:
    """`operator.length_hint`."""
    cls = type(obj)
    if hasattr(cls, "__len__"):
        return len(obj)
    if not hasattr(cls, "__length_hint__"):
        return default
    found = cls.__length_hint__(obj)
    return default if found is NotImplemented else found  # type: ignore[no-any-return]


def lru_cache_wrapper(function: Callable[..., Any], maxsize: int | None, typed: bool, info: Any) -> Callable[..., Any]:
    """What `functools.lru_cache` makes of a function, as a Python function."""
    results: dict[Any, Any] = {}
    hits = misses = 0

    def cached(*args: Any, **kwargs: Any) -> Any:
        nonlocal hits, misses
        key: tuple[Any, ...] = (args, tuple(kwargs.items()))
        if typed:
            key += tuple([type(item) for item in (*args, *kwargs.values())])
        if key in results:
            hits += 1
            result = results[key] = results.pop(key)
            return result
        misses += 1
        result = function(*args, **kwargs)
        if maxsize is None or maxsize > 0:
            if maxsize is not None and len(results) >= maxsize:
                del results[next(iter(results))]
            results[key] = result
        return result

    def cache_clear() -> None:
        nonlocal hits, misses
        results.clear()
        hits = misses = 0

    cached.cache_info = lambda: info(hits, misses, maxsize, len(results))  # type: ignore[attr-defined]
    cached.cache_clear = cache_clear  # type: ignore[attr-defined]
    return cached
