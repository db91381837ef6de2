"""Shape expressions in the C machine against sympy itself."""

import pytest
import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from triptych_dynamo.guards.facts import Guard, ShapeFact
from triptych_dynamo.guards.program import compile_guards
from triptych_dynamo.guards.shape_program import as_function, compile_shape
from triptych_dynamo.sources import LocalSource, TensorSizeSource

a, b, c = sympy.symbols("a b c", integer=True)
NAMES = {a: "a", b: "b", c: "c"}


def fn(a, b, c):
    return a


def machine(expr, *values):
    """The verdict of the program in C."""
    symbols = tuple((symbol, LocalSource(name)) for symbol, name in NAMES.items())
    guard = Guard("shape", None, ShapeFact(expr, symbols))
    return compile_guards([guard], fn.__code__).failed(values, fn) is None


numbers = st.integers(-20, 40)
leaves = st.sampled_from([a, b, c]) | numbers.map(sympy.Integer)


def combine(children):
    pair = st.tuples(children, children)
    return st.one_of(
        pair.map(lambda p: p[0] + p[1]),
        pair.map(lambda p: p[0] * p[1]),
        pair.map(lambda p: p[0] - p[1]),
        pair.map(lambda p: sympy.Min(*p)),
        pair.map(lambda p: sympy.Max(*p)),
        st.tuples(children, st.integers(1, 9)).map(lambda p: sympy.Mod(p[0], p[1])),
        st.tuples(children, st.integers(0, 3)).map(lambda p: p[0] ** p[1]),
    )


integers = st.recursive(leaves, combine, max_leaves=8)
relations = st.tuples(st.sampled_from([sympy.Eq, sympy.Ne, sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge]), integers, integers)
booleans = st.recursive(
    relations.map(lambda r: r[0](r[1], r[2])),
    lambda kids: st.one_of(
        st.tuples(kids, kids).map(lambda p: sympy.And(*p)),
        st.tuples(kids, kids).map(lambda p: sympy.Or(*p)),
        kids.map(sympy.Not),
    ),
    max_leaves=4,
)


@settings(max_examples=150, deadline=None)
@given(booleans, numbers, numbers, numbers)
def test_machine_agrees_with_sympy(expr, x, y, z):
    expected = bool(sympy.sympify(expr).xreplace({a: sympy.Integer(x), b: sympy.Integer(y), c: sympy.Integer(z)}))
    assert machine(expr, x, y, z) == expected
    assert as_function(expr, [a, b, c])(x, y, z) == expected


@pytest.mark.parametrize("x", [-7, -1, 0, 5, 8])
@pytest.mark.parametrize("y", [-3, 2, 4])
def test_divisions_of_torch(x, y):
    from torch.utils._sympy.functions import CeilDiv, FloorDiv, ModularIndexing, PythonMod

    for function, expected in ((FloorDiv, x // y), (PythonMod, x % y)):
        expr = sympy.Eq(function(a, b), c)
        assert compile_shape(expr, [a, b, c]) is not None
        assert machine(expr, x, y, expected) and not machine(expr, x, y, expected + 1)
    p = sympy.Symbol("p", integer=True, nonnegative=True)
    if x >= 0 and y > 0:
        for expr, expected in ((CeilDiv(p, y), -(-x // y)), (ModularIndexing(p, y, 3), x // y % 3)):
            fact = ShapeFact(sympy.Eq(expr, c), ((p, LocalSource("a")), (c, LocalSource("c"))))
            program = compile_guards([Guard("shape", None, fact)], fn.__code__)
            assert program.failed((x, 0, expected), fn) is None and program.failed((x, 0, expected + 1), fn) == 0


def test_overflow_and_division_by_zero_are_violations():
    assert not machine(sympy.Gt(a * b * c, 0), 2**62, 2**62, 2)
    from torch.utils._sympy.functions import FloorDiv

    assert not machine(sympy.Ge(FloorDiv(a, b), 0), 4, 0, 0)
    assert not machine(sympy.Gt(a, 0), 2**70, 0, 0)


def test_what_the_machine_cannot_say_is_asked_of_python():
    expr = sympy.Gt(sympy.sqrt(a), 2)
    assert compile_shape(expr, [a]) is None
    assert machine(expr, 9, 0, 0) and not machine(expr, 4, 0, 0)
    assert not machine(expr, "text", 0, 0)


def test_sizes():
    fact = ShapeFact(
        sympy.Eq(a * b, 12) & sympy.Ge(a, 2),
        ((a, TensorSizeSource(LocalSource("a"), 0)), (b, TensorSizeSource(LocalSource("b"), 1))),
    )
    program = compile_guards([Guard("shape", None, fact)], fn.__code__)
    assert program.failed((torch.zeros(3), torch.zeros(1, 4), 0), fn) is None
    assert program.failed((torch.zeros(4), torch.zeros(1, 4), 0), fn) == 0
    assert program.failed((torch.zeros(4), torch.zeros(4), 0), fn) == 0
