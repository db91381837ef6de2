# ruff: noqa: UP031, UP032, F601
"""Lists, tuples, dictionaries, sets, deques and their relatives: value, type, identity, mutation, exceptions."""

from __future__ import annotations

import collections
import types
import typing
from collections import ChainMap, Counter, OrderedDict, defaultdict, deque, namedtuple

import torch
from table import construct

Point = namedtuple("Point", ["x", "y"])


class Typed(typing.NamedTuple):
    a: int
    b: object = None

    def total(self):
        return self.a + 1


class MyList(list):
    def head(self):
        return self[0]


class MyDict(dict):
    def __missing__(self, key):
        return key * 2


X = torch.arange(6.0).reshape(2, 3)


@construct(X)
def list_methods(x):
    a = [x, 2, 3]
    a.append(4)
    a.extend((5, 6))
    a.insert(1, "in")
    c = a.pop(0)
    a.remove(3)
    b = a.pop()
    a.reverse()
    return a, b, c, a.index(4), a.count(2), len(a), a.copy(), a[1:], a[-1], a[::-1]


@construct(X)
def list_operators(x):
    a = [1, 2] + [3] * 2
    a += [x]
    a *= 2
    a[0] = 9
    a[1:3] = [7, 7, 7]
    del a[0], a[0:2]
    return a, [1, 2] == [1, 2], [1, 2] < [1, 3], [1] != [2], 3 in [1, 2, 3], 3 not in [1], [] or "e"


@construct(X)
def list_sort(x):
    a = [3, 1, 2]
    a.sort()
    b = sorted(["bb", "a", "ccc"], key=len, reverse=True)
    c = [(1, "b"), (0, "z"), (1, "a")]
    c.sort(key=lambda t: t[0], reverse=True)
    return a, b, c, sorted({3: 1, 2: 2}), min(a), max(a, key=lambda v: -v)


@construct(X)
def list_of_tensors_sorted_by_size(x):
    return sorted([x, x[:1], x.view(-1)], key=lambda t: t.shape[0])


@construct(X)
def list_errors(x):
    found = []
    for thunk in (lambda: [][0], lambda: [].pop(), lambda: [1].remove(2), lambda: [1].index(5), lambda: [1] < ["a"]):
        try:
            thunk()
        except (IndexError, ValueError, TypeError) as error:
            found.append((type(error).__name__, str(error)))
    return found, x


@construct(X, [1, 2])
def list_argument(x, items):
    items.append(x)
    items[0] = "changed"
    return items, items is items


@construct(X, [1, 2])
def list_aliases(x, items):
    other = items
    other.append(1)
    return len(items), items, other


@construct(X, [[1], {"k": 0}])
def list_nested(x, items):
    items[0].append(x.sum())
    items[1]["k"] = items[0]
    return items


@construct(X, [1, 2])
def list_copy_is_new(x, items):
    a = items.copy()
    b = list(items)
    c = items[:]
    a.append(1)
    b.append(2)
    c.append(3)
    return items, a, b, c, a is items


@construct(X)
def tuples(x):
    a = (1, x, "s")
    b = a + (4,)
    first, *rest = b
    return (
        a[1:],
        b,
        first,
        rest,
        len(a),
        ("q", "s").index("s"),
        (1, 1).count(1),
        (1, 2) < (1, 3),
        hash((1, 2)) == hash((1, 2)),
        a * 2,
    )


@construct(X)
def named_tuples(x):
    p = Point(x, y=2)
    q = p._replace(y=3)
    a, b = q
    return p, q, p.x, q[1], p._fields, p._asdict(), Point._make([1, 2]), isinstance(p, tuple), b, p == p


@construct(X)
def typed_named_tuple(x):
    t = Typed(3)
    return t, t.total(), t._replace(b=x), Typed(1, 2) == Typed(1, 2)


@construct(X, Point(X, 2))
def named_tuple_argument(x, p):
    return p.x + x, p._replace(y=1), p[1]


@construct(X)
def sizes(x):
    s = x.shape
    return s, s[0], s[1:], s + (3,), (1, *s), list(s), s.numel(), len(s), s == (2, 3), torch.Size([1, 2]), x.view(s)


@construct(X)
def result_tuples(x):
    m = x.max(dim=1)
    values, indices = torch.sort(x, dim=1, descending=True)
    return m.values, m.indices, m[0], values, indices, torch.topk(x, 2)


@construct(X)
def list_subclass(x):
    a = MyList([1, 2])
    a.append(x)
    return a, a.head(), len(a), isinstance(a, list)


@construct(X, MyList([1]))
def list_subclass_argument(x, a):
    a.append(x)
    return a.head(), a


@construct(X)
def dict_methods(x):
    d = {"a": 1, "b": x}
    d["c"] = 3
    d.update({"d": 4}, e=5)
    d.update([("f", 6)])
    got = [
        d.get("a"),
        d.get("z"),
        d.get("z", 7),
        d.setdefault("g", 8),
        d.setdefault("a", 9),
        d.pop("a"),
        d.pop("q", None),
    ]
    last = d.popitem()
    del d["c"]
    return d, got, last, list(d), list(d.values()), list(d.items()), len(d), "b" in d, "zz" in d, dict.fromkeys("ab", 0)


@construct(X)
def dict_operators(x):
    a = {"x": 1} | {"y": x}
    a |= {"z": 2}
    merged = {**a, "w": 1}
    return (
        a,
        merged,
        {"a": 1} == {"a": 1},
        {1: 2} != {1: 3},
        dict(zip("ab", (1, 2))),
        dict(a=1),
        {v: k for k, v in {1: 2}.items()},
    )


@construct(X)
def dict_order_and_keys(x):
    d = {3: "c", 1: "a", (1, 2): "t", None: "n", True: "overwrites 1"}
    return d, list(d), list(reversed(d)), d[1], max(k for k in d if isinstance(k, int))


@construct(X)
def dict_views(x):
    d = {"a": 1, "b": 2}
    keys = d.keys()
    d["c"] = 3
    return (
        list(keys),
        len(keys),
        "c" in keys,
        keys & {"a", "z"},
        sorted(keys | {"q"}),
        sorted(keys - {"a"}),
        2 in d.values(),
        ("a", 1) in d.items(),
    )


@construct(X)
def dict_errors(x):
    found = []
    for thunk in (lambda: {}["k"], lambda: {}.pop("k"), lambda: {}.popitem(), lambda: {[]: 1}):
        try:
            thunk()
        except (KeyError, TypeError) as error:
            found.append((type(error).__name__, str(error)))
    return found


@construct(X, raises=True)
def dict_changed_while_iterated(x):
    d = {"a": 1}
    for key in d:
        d[key + "x"] = 2


@construct(X, {"k": 1, "gone": 2, "z": X})
def dict_argument(x, d):
    d["new"] = x
    d["k"] = d["k"] + 1
    del d["gone"]
    d["gone"] = "back at the end"
    return d.get("absent"), "k" in d, len(d)


@construct(X, {"k": 1})
def dict_argument_cleared(x, d):
    d.clear()
    d["only"] = 1
    return d


@construct(X)
def dict_missing(x):
    d = MyDict(a=1)
    return d["a"], d["q"], d.get("q"), d, len(d)


@construct(X)
def ordered_dict(x):
    d = OrderedDict([("a", 1), ("b", x), ("c", 3)])
    d.move_to_end("a")
    d.move_to_end("c", last=False)
    first = d.popitem(last=False)
    return d, first, OrderedDict(a=1) == OrderedDict(a=1), list(reversed(d))


@construct(X, OrderedDict(a=1, b=2))
def ordered_dict_argument(x, d):
    d.move_to_end("a")
    d["z"] = 1
    return d


@construct(X)
def default_dict(x):
    d = defaultdict(list)
    d["a"].append(x)
    d["b"].append(1)
    c = defaultdict(int)
    for letter in "abca":
        c[letter] += 1
    return d, dict(c), d["a"], "zz" in d


@construct(X, defaultdict(list, k=[1]))
def default_dict_argument(x, d):
    d["k"].append(x)
    return d


@construct(X)
def counter(x):
    c = Counter("abca")
    c.update("bb")
    c["z"] += 1
    return c, c.most_common(1), c["none"], sum(c.values()), Counter(a=1) + Counter(a=2, b=1), list(c.elements())


@construct(X)
def chain_map(x):
    c = ChainMap({"a": 1}, {"a": 2, "b": 3})
    c["n"] = 4
    return c["a"], c["b"], len(c), dict(c), c.maps


@construct(X)
def mapping_proxy(x):
    p = types.MappingProxyType({"a": 1})
    return p["a"], len(p), list(p), p.get("b"), "a" in p


@construct(X)
def sets(x):
    s = {1, 2, 3}
    s.add(4)
    s.discard(9)
    s.remove(1)
    t = frozenset([3, 4, 5])
    s |= {7}
    s -= {2}
    return (
        s,
        s & t,
        s | t,
        s - t,
        s ^ t,
        3 in s,
        len(t),
        s.issubset({3, 4, 7, 8}),
        t.isdisjoint({1}),
        {1} < {1, 2},
        s == {3, 4, 7},
    )


@construct(X)
def set_algebra(x):
    s = {1, 2}
    return (
        s.union([3], (4,)),
        s.intersection([2]),
        s.difference({1}),
        s.symmetric_difference({2, 3}),
        {i % 2 for i in range(5)},
        set("aab") == {"a", "b"},
    )


@construct(X)
def set_order(x):
    s = {30, 1, 2}
    s.add(0)
    return list(s), [i for i in {5, 3, 4}], max(frozenset((9, 8))), list({7, 6} | {1}), sorted({"b", "a"}), s.pop()


@construct(X, {"a", "b"})
def set_argument(x, s):
    s.add("new")
    s.discard("a")
    return "b" in s, len(s)


@construct(X)
def deques(x):
    d = deque([1, 2, 3], maxlen=3)
    d.append(x)
    d.appendleft(0)
    e = deque()
    e.extend([1, 2, 3])
    e.extendleft([9, 8])
    e.rotate(2)
    popped = e.pop(), e.popleft()
    return d, d.maxlen, e, popped, list(d)[0], len(e), 2 in e, e[0]


@construct(X, deque([1, 2, 3]))
def deque_argument(x, d):
    d.append(x)
    d.popleft()
    return len(d)


@construct(X)
def ranges(x):
    r = range(1, 10, 3)
    return (
        list(r),
        len(r),
        r[1],
        r[-1],
        r[::-1],
        4 in r,
        5 in r,
        r.index(7),
        r == range(1, 11, 3),
        r.start,
        list(reversed(r)),
        range(3),
    )


@construct(X)
def slices(x):
    s = slice(1, None, 2)
    return [0, 1, 2, 3][s], x[:, s], s.start, s.indices(4), "abcdef"[s], x[..., 0], x[None, 1:, :2].shape


@construct(X)
def strings(x):
    a = "abc,def"
    return (
        a.split(","),
        a.upper(),
        ",".join(["x", "y"]),
        a[1:3],
        a.replace("a", "z"),
        "%s-%d" % ("q", 3),
        f"{1:>5}",
        f"{1.5:.2f}|{a!r}|{x.shape}",
        "b" in a,
        len(a),
        a * 2,
        a.startswith("ab"),
        b"xy"[0],
        "a" < "b",
        list("ab"),
    )


@construct(X)
def unpacking(x):
    a, (b, *c), d = 1, (2, 3, 4), [5]
    *e, f = "xyz"
    g = [*c, *d, *{"k": 1}]
    return a, b, c, d, e, f, g, {**{"a": 1}, **{"b": 2}}, (*c,)


@construct(X)
def comprehension(x):
    return (
        [i * j for i in range(3) for j in range(i) if i != j],
        {i: x[i] for i in range(2)},
        tuple(i for i in "ab"),
        [[j for j in range(i)] for i in range(3)],
    )


@construct(X)
def user_dict(x):
    u = collections.UserDict(a=1)
    u["b"] = x
    return u["a"], len(u), "b" in u, dict(u)


def check_identity(fn, *args):
    import triptych_dynamo

    return triptych_dynamo.optimize("eager", fullgraph=True)(fn)(X, *args)
