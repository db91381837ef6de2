"""Index arithmetic against plain integers."""

import itertools

import sympy
from hypothesis import given
from hypothesis import strategies as st
from triptych_inductor.ir.extents import contiguous_strides, is_dense, quotient, same, tidy
from triptych_inductor.ir.index import Index, Quotient, Var, floordiv, remainder


def value(index, assignment):
    total = index.const
    for atom, coefficient in index.terms.items():
        if isinstance(atom, Quotient):
            inner = value(atom.inner, assignment)
            number = inner % atom.divisor if atom.remainder else inner // atom.divisor
        else:
            number = assignment[atom]
        total += coefficient * number
    return total


@st.composite
def indices(draw):
    variables = [Var(f"v{k}", draw(st.integers(1, 5))) for k in range(draw(st.integers(1, 3)))]
    index = Index({}, draw(st.integers(0, 7)))
    for var in variables:
        index = index + Index({var: 1}) * draw(st.integers(0, 12))
    return variables, index


@given(indices(), st.integers(1, 12), st.integers(1, 6))
def test_quotients_agree_with_python(drawn, a, b):
    variables, index = drawn
    results = {
        "floor": (floordiv(index, a), lambda n: n // a),
        "mod": (remainder(index, a), lambda n: n % a),
        "floor of floor": (floordiv(floordiv(index, a), b), lambda n: n // a // b),
        "mod of floor": (remainder(floordiv(index, a), b), lambda n: n // a % b),
        "mod of mod": (remainder(remainder(index, a * b), b), lambda n: n % (a * b) % b),
        "joined": (floordiv(index, a) * a + remainder(index, a), lambda n: n),
    }
    for point in itertools.product(*[range(v.extent) for v in variables]):
        assignment = dict(zip(variables, point, strict=True))
        number = value(index, assignment)
        for name, (result, expected) in results.items():
            assert value(result, assignment) == expected(number), name


@given(indices())
def test_bounds_hold(drawn):
    variables, index = drawn
    for point in itertools.product(*[range(v.extent) for v in variables]):
        number = value(index, dict(zip(variables, point, strict=True)))
        assert 0 <= number <= index.upper
    assert index.below(index.upper + 1) and not index.below(index.upper)


def test_split_and_join_of_an_axis_is_the_axis():
    i = Index({Var("i", 24): 1})
    assert floordiv(i, 6) * 6 + remainder(i, 6) == i
    j, k = Var("j", 4), Var("k", 6)
    linear = Index({j: 6, k: 1})
    assert floordiv(linear, 6) == Index({j: 1}) and remainder(linear, 6) == Index({k: 1})


def test_symbolic_split():
    s = sympy.Symbol("s", integer=True, positive=True)
    j, k = Var("j", 4), Var("k", s)
    linear = Index({j: s, k: 1})
    assert floordiv(linear, s) == Index({j: 1}) and remainder(linear, s) == Index({k: 1})
    assert quotient(tidy(s * 12), s) == 12 and quotient(s, 2) is None
    assert same(s * (s + 1), s * s + s)


def test_dense_strides():
    assert contiguous_strides((2, 3, 4)) == (12, 4, 1)
    assert is_dense((2, 3, 4), (1, 2, 6)) and not is_dense((2, 3), (4, 1)) and not is_dense((2, 3), (0, 1))


def test_to_sympy():
    i, j = Var("i", 10), Var("j", 4)
    a, b = sympy.symbols("a b", integer=True)
    assert Index({i: 3, j: 1}, 2).to_sympy({i: a, j: b}) == 3 * a + b + 2
