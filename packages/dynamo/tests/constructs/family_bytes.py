"""Bytes that change in place: bytearray, memoryview and array.array, their methods, errors, aliases and views."""

from __future__ import annotations

import array
import copy
import operator
import re
import struct

import numpy
import torch
import triptych_dynamo
from table import construct

X = torch.arange(6.0).reshape(2, 3)


@construct(X, 3)
def bytearrays_of_everything(x, n):
    made = [
        bytearray(b"ab\xff"),
        bytearray(3),
        bytearray("hé", "utf8"),
        bytearray(range(4)),
        bytearray(i * 2 for i in range(3)),
        bytearray([1, True, n]),
        bytearray(),
        bytearray(source=b"q"),
        bytearray.fromhex("0aff"),
        bytearray(n),
        bytearray(bytearray(b"z")),
    ]
    copied = bytearray(made[0])
    return x * copied[2], made, copied is made[0], [bool(b) for b in made], repr(made[0]), str(made[0]), f"{made[1]}"


@construct(X, bytearray(b"hello"))
def bytearray_changed_by_every_method(x, b):
    same = b
    b[0] = 72
    b += b" w"
    b.append(33)
    b.extend([1, 2])
    b.insert(0, 9)
    popped = b.pop(), b.pop(0)
    b.remove(33)
    b.reverse()
    del b[0]
    b[1:3] = b"XYZ"
    b[::2] = bytes(len(b[::2]))
    del b[-2:]
    b *= 2
    return x * popped[0], popped, b, b[1:3], b[-1], len(b), same is b


@construct(X, bytearray(b"hello"), bytearray(b"q"))
def bytearray_under_several_names(x, b, c):
    names = [b, c, b]
    names[2].append(1)
    c.clear()
    return names, b is names[0], x + len(b)


@construct(X, bytearray(b"hello"))
def bytearray_added_to_unseen(x, b):
    b.append(1)
    b += b"zz"
    b.extend(bytearray(b"y"))
    return x * 2


@construct(X)
def methods_of_bytes(x):
    b = bytearray(b"a,b,c xyz")
    return (
        x,
        (b.find(b"b"), b.index(99), b.rfind(b"zz"), b.count(b","), b.startswith(b"a"), b.endswith((b"q", b"z"))),
        (b.split(b","), b.rsplit(None, 1), b.partition(b","), b.splitlines(), b.join([b"q", bytearray(b"r")])),
        (b.replace(b"a", b"Z"), b.translate(bytes(range(256))), b.strip(b"az"), b.removeprefix(b"a"), b.upper()),
        (b.zfill(12), b.center(12, b"*"), b.ljust(10), b.title(), b.isalpha(), b.expandtabs(), b.copy() is b),
        (b.decode(), b.hex(), b.hex("-"), bytearray(b"%d-%s") % (3, b"k"), bytearray.maketrans(b"a", b"b")[97]),
        (int.from_bytes(b, "big"), "".join(map(chr, b)), b"-".join([b, b"t"])),
    )


@construct(X)
def bytearrays_beside_others(x):
    b = bytearray(b"ab")
    compared = (b == b"ab", b != b"x", b < b"b", b >= bytearray(b"aa"), b == [97, 98], b"ab" == b, b == "ab")
    inside = (97 in b, b"b" in b, 5 in b)
    read = (list(b), sum(b), max(b), sorted(b), tuple(reversed(b)), list(zip(b, b)), dict(enumerate(b)), [*b])
    first, second = b
    sums = (b + b"c", b"c" + b, b * 2, 2 * b, operator.concat(b, b"q"), operator.getitem(b, 0))
    copies = (copy.copy(b), copy.deepcopy([b, b]), isinstance(b, bytearray), bytes(b), hash(bytes(b)))
    match b:
        case bytearray(whole):
            return x * first, second, compared, inside, read, sums, copies, whole is b


@construct(X, bytearray(b"ab"))
def iterator_over_a_bytearray_that_grows(x, b):
    it = iter(b)
    first = next(it)
    b.append(3)
    rest = list(it)
    operator.setitem(b, 0, 4)
    return x * first, rest, next(it, None), operator.iadd(b, b"z") is b, b


@construct(X, bytearray(b"abcd"))
def structures_in_a_bytearray(x, b):
    struct.pack_into("<H", b, 0, 513)
    return x, b, struct.unpack_from("<H", b, 2), struct.Struct("<H").unpack_from(b), struct.unpack("<I", b)


def _text(function):
    try:
        return function()
    except Exception as error:
        return type(error), str(error)


def _of(name, *args, start=b"abc"):
    return _text(lambda: getattr(bytearray(start), name)(*args))


@construct(X)
def errors_of_bytearrays(x):
    b = bytearray(b"a")
    return (
        x,
        [
            _of("__getitem__", 5),
            _of("append", 256),
            _of("pop", 5),
            _of("pop", start=b""),
            _of("remove", 3),
            _of("nope"),
        ],
        [_of("__getitem__", "x"), _of("__setitem__", 0, "a"), _of("__setitem__", slice(None, None, 2), b"a")],
        [_of("append"), _of("extend", [300]), _of("extend", "ab"), _of("insert", 0), _of("index", b"q")],
        [_text(lambda: b + 1), _text(lambda: b * 1.5), _text(lambda: b < 3), _text(lambda: operator.iadd(b, 1))],
        [_text(lambda: hash(b)), _text(lambda: {b: 1}), _text(lambda: b"a" + [])],
        [_text(lambda: bytearray("a")), _text(lambda: bytearray([300])), _text(lambda: bytearray(-1))],
    )


@construct(X)
def views_read_and_write(x):
    b = bytearray(b"abcdef")
    m = memoryview(b)
    m[0] = 65
    m[1:3] = b"zz"
    part = m[2:]
    part[0] = 66
    wide, fixed = m.cast("H"), m.toreadonly()
    return (
        x * m[0],
        b,
        (m.tolist(), part.tobytes(), wide.shape, wide[0], m[::-1].tolist(), bytes(part), list(part), [v for v in m]),
        (m.nbytes, len(m), m.format, m.itemsize, m.ndim, fixed.readonly, m.obj is b, m.c_contiguous, part.hex()),
        (66 in m, m == b, m == memoryview(b"q"), memoryview(b"xyz")[1], bool(m)),
    )


@construct(X)
def views_let_go_of(x):
    b = bytearray(b"abc")
    with memoryview(b) as m:
        m[0] = 1
    b.append(4)
    tail = bytes(memoryview(b)[1:])
    b.append(5)
    return x, b, tail, _text(lambda: m[0])


@construct(X, bytearray(b"abc"))
def a_view_holds_the_size(x, b):
    m = memoryview(b)
    failed = _text(lambda: b.append(4))
    b[0] = 7
    return x * m[0], failed, b


@construct(X)
def errors_of_views(x):
    m = memoryview(b"ab")
    texts = [_text(lambda: operator.setitem(m, 0, 1)), _text(lambda: m[5]), _text(lambda: m.cast("H").cast("I"))]
    texts.append(_text(lambda: memoryview("ab")))
    m.release()
    return x, texts, _text(lambda: m.tolist())


@construct(X, bytearray(b"ab"), breaks="explicit")
def a_view_over_a_break(x, b):
    m = memoryview(b)[1:]
    new = bytearray(b"new")
    shown = memoryview(new)
    triptych_dynamo.graph_break()
    m[0] = 1
    shown[0] = 65
    return x * b[1], b, bytes(m), new


GLOBAL = bytearray(b"glob")


class Holder:
    def __init__(self):
        self.data = bytearray(b"attr")

    def use(self):
        self.data[0] ^= 1
        return self.data.decode()


def _closing():
    kept = bytearray(b"q")

    def add(number):
        kept[0] = number
        return bytes(kept)

    return add


CLOSED = _closing()


@construct(X, Holder())
def bytes_of_globals_attributes_and_closures(x, holder):
    return x * len(GLOBAL), GLOBAL[0], holder.use(), CLOSED(5), holder


@construct(X, bytearray(b"abcd"), breaks="call")
def a_match_keeps_its_bytes(x, b):
    found = re.match(b"a", b)
    b[0] = 9
    return x, found.group(), found.string is b, re.findall(b"b", b), re.sub(b"b", b"q", b)


@construct(X, bytearray(b"abcd1234"), breaks="graph-argument")
def a_tensor_over_a_bytearray(x, b):
    t = torch.frombuffer(b, dtype=torch.uint8)
    b[0] = 9
    total = t.sum()
    t.add_(1)
    return x, total, b[1], t + 1


@construct(X, bytearray(b"abcd1234"), breaks="call")
def an_array_over_a_bytearray(x, b):
    a = numpy.frombuffer(b, dtype=numpy.uint8)
    b[0] = 7
    return x, a[0], a + 1


@construct(X, array.array("d", [1.5, 2.5]))
def arrays_of_numbers(x, given):
    given[0] += 1
    given.append(7.0)
    a = array.array("i", [1, 2, 3])
    a.extend([5])
    a += array.array("i", [6])
    a.insert(0, 9)
    a.frombytes(array.array("i", [8]).tobytes())
    made = array.array("d"), array.array("B", b"ab"), array.array("f", [1.5])
    view = memoryview(made[1])
    view[0] = 99
    return (
        x * given[1] * a[0],
        (given, a, a[1:3], a * 2, repr(a), made, list(given), a.tolist(), sum(a), a.pop(), a.index(3), a.count(3)),
        (a.typecode, a.itemsize, a == array.array("i", [1]), view.tolist()),
        [_text(lambda: a + [1]), _text(lambda: operator.iadd(a, [1])), _text(lambda: array.array("i", [1.5]))],
        [_text(lambda: array.array("z")), _text(lambda: array.array("i").pop())],
    )
