"""The building blocks and rewritten code, run on any supported interpreter: no pytest, no torch."""

import sys
import types

from triptych_dynamo.bytecode import analysis, assemble, build, copy_instructions, decode, listing
from triptych_dynamo.bytecode.stack import StackError


def function(parameters, body, *, cells=(), closure=(), names=(), flags=0):
    """A function of these positional parameters with this body (instructions after the prologue)."""
    template = (lambda: None).__code__
    free = tuple(name for name, _ in closure)
    code = assemble(
        [*build.prologue(cells, len(free)), *body],
        template,
        co_argcount=len(parameters),
        co_varnames=tuple(parameters),
        co_cellvars=tuple(cells),
        co_freevars=free,
        co_flags=3 | flags | (16 if free else 0),
        co_name="made",
        co_qualname="made",
    )
    return types.FunctionType(
        code, {"__builtins__": __builtins__, **dict(names)}, "made", None, tuple(c for _, c in closure) or None
    )


def show(*args, **kwargs):
    return args, kwargs


def check_calls():
    for count in range(6):
        for named in range(count + 1):
            keywords = tuple(f"k{i}" for i in range(named))
            body = [
                *build.load_global("show"),
                *(r for i in range(count) for r in build.load_const(i)),
                *build.call(count, keywords),
            ]
            made = function((), [*body, *build.return_value()], names={"show": show})
            expected = (tuple(range(count - named)), {k: count - named + i for i, k in enumerate(keywords)})
            for _ in range(40):  # long enough for the interpreter to specialise the call
                assert made() == expected, (count, named, made())
    for callee in (len, str.upper, "abc".upper, Thing, Thing().method, print):
        args = {len: ([1],), str.upper: ("a",), Thing: (7,), print: ()}.get(callee, ())
        args = (5,) if getattr(callee, "__name__", "") == "method" else args
        body = [
            *build.load_fast("f"),
            *(r for a in args for r in build.load_const(a)),
            *build.call(len(args)),
            *build.return_value(),
        ]
        made = function(("f",), body)
        if callee is not print:
            for _ in range(40):
                assert made(callee) == callee(*args)
    for keywords in (False, True):
        loads = [*build.load_fast("a"), *(build.load_fast("k") if keywords else ())]
        made = function(
            ("a", "k"),
            [*build.load_global("show"), *loads, *build.call_ex(keywords), *build.return_value()],
            names={"show": show},
        )
        for _ in range(40):
            assert made((1, 2), {"z": 3}) == ((1, 2), {"z": 3} if keywords else {})


class Thing:
    def __init__(self, value=0):
        self.value = value

    def __eq__(self, other):
        return self.value == other.value

    __hash__ = None

    def method(self, x):
        return x + 1


def check_operators():
    for text in ("+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>", "**", "/"):
        for form in (text, text + "="):
            made = function(
                ("a", "b"), [*build.load_fast("a"), *build.load_fast("b"), *build.binary(form), *build.return_value()]
            )
            assert made(7, 3) == eval(f"7 {text} 3")
    for text in ("<", "<=", "==", "!=", ">", ">="):
        made = function(
            ("a", "b"), [*build.load_fast("a"), *build.load_fast("b"), *build.compare(text), *build.return_value()]
        )
        for _ in range(40):
            assert made(7, 3) is eval(f"7 {text} 3") and made("x", "y") is eval(f"'x' {text} 'y'")
    for text in ("-", "~", "+", "not"):
        made = function(("a",), [*build.load_fast("a"), *build.unary(text), *build.return_value()])
        assert made(5) == eval(f"{text} 5")
    pair = [*build.load_fast("a"), *build.load_fast("b")]
    assert function(("a", "b"), [*pair, *build.is_(), *build.return_value()])(1, 1) is True
    assert function(("a", "b"), [*pair, *build.is_(True), *build.return_value()])(1, 1) is False
    assert function(("a", "b"), [*pair, *build.contains(), *build.return_value()])(1, [1]) is True


def check_stack_and_items():
    loads = [r for name in "abcd" for r in build.load_fast(name)]
    made = function("abcd", [*loads, *build.rotate(3), *build.build("TUPLE", 4), *build.return_value()])
    assert made(1, 2, 3, 4) == (1, 4, 2, 3)
    made = function("abcd", [*loads, *build.swap(4), *build.copy(2), *build.build("LIST", 5), *build.return_value()])
    assert made(1, 2, 3, 4) == [4, 2, 3, 1, 3]
    made = function("abcd", [*loads, *build.build("MAP", 2), *build.return_value()])
    assert made(1, 2, 3, 4) == {1: 2, 3: 4}
    made = function("a", [*build.load_fast("a"), *build.unpack(3), *build.build("TUPLE", 3), *build.return_value()])
    assert made([1, 2, 3]) == (3, 2, 1)
    store = [*build.load_fast("v"), *build.load_fast("c"), *build.load_fast("k")]
    made = function("vck", [*store, *build.store_subscr(), *build.load_fast("c"), *build.return_value()])
    assert made(1, {}, "x") == {"x": 1}
    made = function(
        "vo",
        [
            *build.load_fast("v"),
            *build.load_fast("o"),
            *build.store_attr("q"),
            *build.load_fast("o"),
            *build.load_attr("q"),
            *build.return_value(),
        ],
    )
    assert made(3, Thing()) == 3
    made = function(
        "a",
        [
            *build.build("LIST", 0),
            *build.load_fast("a"),
            *build.list_extend(),
            *build.list_to_tuple(),
            *build.return_value(),
        ],
    )
    assert made(range(3)) == (0, 1, 2)


def check_flow():
    yes = build.nop()[0]
    for condition, value, expected in (
        (True, 1, "yes"),
        (True, 0, "no"),
        (False, [], "yes"),
        (None, None, "yes"),
        (None, 0, "no"),
    ):
        body = [
            *build.load_fast("a"),
            *build.jump_if(condition, yes),
            *build.load_const("no"),
            *build.return_value(),
            yes,
            *build.load_const("yes"),
            *build.return_value(),
        ]
        assert function("a", body)(value) == expected
    top = build.nop()[0]  # a loop whose condition jumps backwards, which 3.12 and later cannot say in one instruction
    filler = [row for _ in range(300) for row in (*build.load_const(None), *build.pop())]
    body = [
        top,
        *filler,
        *build.load_fast("n"),
        *build.load_const(1),
        *build.binary("-="),
        *build.store_fast("n"),
        *build.load_fast("n"),
        *build.jump_if(True, top),
        *build.load_const("done"),
        *build.return_value(),
    ]
    assert function("n", body)(5) == "done"
    try:
        function("n", [*build.pop(), *build.load_const(1), *build.return_value()])
    except StackError:
        pass
    else:
        raise AssertionError("an underflow was not found")
    many = [row for i in range(700) for row in (*build.load_const(float(i)), *build.pop())]
    assert function((), [*many, *build.load_const(-0.0), *build.return_value()])().hex() == "-0x0.0p+0"


def check_cells():
    cell = types.CellType(5)
    made = function(
        (),
        [
            *build.load_deref("x"),
            *build.load_const(1),
            *build.binary("+"),
            *build.store_deref("x"),
            *build.load_cell("x"),
            *build.return_value(),
        ],
        closure=[("x", cell)],
    )
    assert made() is cell and cell.cell_contents == 6
    made = function(
        ("x", "y"),
        [
            *build.load_cell("x"),
            *build.load_deref("x"),
            *build.load_cell("z"),
            *build.build("TUPLE", 3),
            *build.return_value(),
        ],
        cells=("x", "z"),
    )
    first, content, second = made(3, 4)
    assert first.cell_contents == 3 == content and isinstance(second, types.CellType)
    inner = function(
        ("p",),
        [*build.load_deref("x"), *build.load_fast("p"), *build.build("TUPLE", 2), *build.return_value()],
        closure=[("x", cell)],
    ).__code__
    body = [
        *build.load_cell("x"),
        *build.build("TUPLE", 1),
        *build.make_function(inner, closure=True),
        *build.return_value(),
    ]
    assert function(("x",), body, cells=("x",))(8)(9) == (8, 9)


def check_liveness():
    def sample(a, b, c):
        d = a
        try:
            d = b()
        except ValueError:
            return d
        for c in d:
            print(c)
        return None

    rows = decode(sample.__code__)
    live = analysis.live_variables(rows)
    assert live[rows[0]] == {"a", "b"}, live[rows[0]]
    call = next(i for i, row in enumerate(rows) if row.opname == "CALL")
    assert live[rows[call]] == {"d"}
    ret = next(row for row in rows if row.opname.startswith("RETURN"))
    assert "b" not in live[ret]
    assert len(analysis.remove_unreachable([*rows, *build.nop()])) == len(rows)
    assert "STORE_FAST" in listing(rows)
    try:
        analysis.reachable(build.jump(build.nop()[0]))
    except ValueError as error:
        assert "not among" in str(error)
    else:
        raise AssertionError("a jump out of the code was not found")
    twin = copy_instructions(rows)
    assert all((x.target is None) == (y.target is None) and x is not y for x, y in zip(rows, twin))
    assert all(y.target in set(twin) for y in twin if y.target)
    again = types.FunctionType(assemble(twin, sample.__code__), {"print": lambda *_: None, "ValueError": ValueError})

    def fail():
        raise ValueError

    assert again(1, fail, 2) == 1 and again(1, lambda: [1], 2) is None


def check_sample_runs():
    """Whole modules of the standard library, every function of them rewritten, still do their work."""
    import colorsys
    import heapq
    import json.decoder
    import json.encoder
    import textwrap

    def rewrite(namespace):
        for value in list(vars(namespace).values()):
            if isinstance(value, types.FunctionType):
                value.__code__ = assemble(decode(value.__code__), value.__code__)
            elif isinstance(value, type) and value.__module__ == getattr(namespace, "__name__", None):
                rewrite(value)

    before = (
        textwrap.fill("some words " * 30, 33),
        colorsys.rgb_to_hsv(0.2, 0.4, 0.7),
        list(heapq.merge([1, 4], [2, 3])),
    )
    for module in (textwrap, colorsys, heapq, json.decoder, json.encoder):
        rewrite(module)
    after = (
        textwrap.fill("some words " * 30, 33),
        colorsys.rgb_to_hsv(0.2, 0.4, 0.7),
        list(heapq.merge([1, 4], [2, 3])),
    )
    assert before == after
    data = {"a": [1, 2.5, None, "x\u1234"], "b": {"c": True}}
    assert json.decoder.JSONDecoder().decode("".join(json.encoder.JSONEncoder(indent=2).iterencode(data))) == data


CHECKS = {name[6:]: value for name, value in list(globals().items()) if name.startswith("check_")}

if __name__ == "__main__":
    for name in sys.argv[1:] or CHECKS:
        CHECKS[name]()
        print("ok", name)
    assert "torch" not in sys.modules
