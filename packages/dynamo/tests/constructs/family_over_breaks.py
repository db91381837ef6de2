"""Values held over a graph break are rebuilt as the objects that they stand for, shared and in place."""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple

import torch
import triptych_dynamo
from specimens import Child, Color, Data, Output, Plain, Slotted
from table import construct

X = torch.arange(6.0).reshape(2, 3)
Point = namedtuple("Point", "x y")


@construct(X, breaks="explicit")
def containers(x):
    a = [x, 1]
    b = {"k": a, "t": (x * 2, a)}
    c = {1, 2}
    d, e, f = deque([1], maxlen=2), OrderedDict(a=1), defaultdict(list, z=[x])
    g, h, i = Counter("ab"), Point(x, 1), x.max(1)
    triptych_dynamo.graph_break()
    a.append(2)
    f["new"].append(3)
    return a, b, c, d, e, f, g, h, i, b["k"] is a, x.shape


@construct(X, breaks="explicit")
def ranges_and_slices(x):
    r, s = range(2, 8, 2), slice(1, None)
    triptych_dynamo.graph_break()
    return list(r), x[s]


@construct(X, breaks="explicit")
def iterators(x):
    a, b, c = iter([1, 2, 3]), enumerate("abc", 4), zip([1, 2], "xy")
    d, e, f = map(lambda v: v * 2, [1, 2]), filter(None, [0, 1]), reversed([1, 2, 3])
    g, h = iter({"k": 1}), iter(range(4))
    next(a), next(b), next(f), next(h)
    triptych_dynamo.graph_break()
    return [list(it) for it in (a, b, c, d, e, f, g, h)]


@construct(X, breaks="explicit")
def objects(x):
    p, q = Plain(x), Child(x * 2)
    p.friend = q
    s = Slotted(x)
    s.b = [p]
    d = Data(p, c=[1])
    o = Output(logits=x + 1)
    triptych_dynamo.graph_break()
    p.a = p.a + 1
    return p, q, s.b[0] is p, d, d.a is p, o, o[0], s.a


@construct(X, breaks="explicit")
def cyclic_objects(x):
    a, b = Plain(1), Plain(x)
    a.other, b.other = b, a
    triptych_dynamo.graph_break()
    return a.other.a, b.other is a


@construct(X, breaks="explicit")
def functions(x):
    total = 0

    def add(n, k=1):
        nonlocal total
        total += n * k
        return total

    add(1)
    bound, part = Plain(x).method, functools.partial(add, k=3)
    triptych_dynamo.graph_break()
    part(2)
    return total, add(1), bound(2), (lambda v: v + total)(1)


@construct(X, breaks="explicit")
def constants(x):
    c, t, dt, dev = Color.RED, Plain, torch.float32, x.device
    triptych_dynamo.graph_break()
    return c, t, dt, dev, c.next(), x.to(dt)


@construct(X, breaks="explicit")
def exceptions(x):
    try:
        raise ValueError("a", 1)
    except ValueError as error:
        kept = error
    triptych_dynamo.graph_break()
    return kept.args, type(kept).__name__


@construct(X, breaks="explicit")
def references(x):
    p = Plain(1)
    r, i = weakref.ref(p), id(p)
    triptych_dynamo.graph_break()
    return r() is p, i == id(p)


@construct(X, breaks="explicit")
def loop(x):
    log = []
    for i in range(3):
        x = x + i
        triptych_dynamo.graph_break()
        log.append(x.sum())
    return x, log


@construct(X, breaks="explicit")
def managers(x):
    with contextlib.nullcontext(3) as v, torch.no_grad():
        y = x * v
        triptych_dynamo.graph_break()
        z = y + 1
    return z


@construct(X, [1], Plain(2), breaks="explicit")
def mutated_argument(x, items, p):
    items.append(x)
    p.a = 5
    triptych_dynamo.graph_break()
    items.append(p.a)
    p.b = items
    return p.b is items


@construct(X.clone().requires_grad_(), breaks="explicit")
def gradients_before_a_break_without_them(w):
    y = w * 2
    (grad,) = torch.autograd.grad((w**2).sum(), w)
    with torch.no_grad():
        triptych_dynamo.graph_break()
        z = y + 1
    return y * 3, z, grad


@construct(X.clone().requires_grad_(), breaks="explicit")
def gradients_behind_a_break_with_them(w):
    with torch.no_grad():
        y = w * 2
        with torch.enable_grad():
            z = w * 3
            triptych_dynamo.graph_break()
            z = z * w
    return y, z


def _filled(items):
    triptych_dynamo.graph_break()
    items += [1, 2, 3]
    return items


@construct(X, breaks="explicit")
def iterators_of_what_was_filled_before_a_break(x):
    log = []
    for kind in (iter, reversed):
        for item in kind(_filled([])):
            triptych_dynamo.graph_break()
            log.append(item)
    for item in _filled(deque()):
        triptych_dynamo.graph_break()
        log.append(item)
    for item in reversed(_filled(deque())):
        triptych_dynamo.graph_break()
        log.append(item)
    return log, x + 1


@construct(X, [], [4], breaks="explicit")
def iterators_over_lists_that_the_graph_fills(x, items, others):
    steps = iter(items)
    items += [1, 2, 3]
    next(steps)
    next(steps)
    others += [5, 6]
    back = reversed(others)
    next(back)
    triptych_dynamo.graph_break()
    return x + 1, list(steps), list(back), items, others
