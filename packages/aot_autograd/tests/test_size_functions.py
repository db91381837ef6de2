"""Size arithmetic in a graph: nodes for every function that a symbolic number can be made with, and Python's values."""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable
from typing import Any

import pytest
import sympy
import torch
from torch.fx import Graph, GraphModule
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy import functions
from triptych_aot_autograd.tracing.size_functions import FUNCTIONS
from triptych_aot_autograd.tracing.symbols import SymbolTable

NUMBERS = [(7, 3), (-7, 3), (8, 2), (0, 5), (1, 4), (12, 7)]
MATH = ("sqrt", "log2", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan")
PROGRAMS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b - 3,
    lambda a, b: a * b * 2,
    lambda a, b: -a,
    lambda a, b: abs(a - 4),
    lambda a, b: a // b,
    lambda a, b: a % b,
    lambda a, b: (a // 2) % 5,
    lambda a, b: a / b,
    lambda a, b: a * 0.5 / b,
    lambda a, b: math.floor(a / b),
    lambda a, b: math.ceil(a / b),
    lambda a, b: math.trunc(a / b),
    lambda a, b: round(a / 2),
    lambda a, b: round(a / b, 2),
    lambda a, b: round(a / b),
    lambda a, b: torch.sym_int(a / b),
    lambda a, b: torch.sym_float(a) * 0.3,
    lambda a, b: torch.sym_float(a) ** 2,
    lambda a, b: a**3,
    lambda a, b: b**2,
    lambda a, b: torch.sym_max(a, b) + torch.sym_min(a, 3),
    lambda a, b: torch.sym_max(torch.sym_max(a, b), torch.sym_max(b * 2, 4)),
    lambda a, b: a << b,
    lambda a, b: a >> b,
    lambda a, b: a & b,
    lambda a, b: (a | b) + (a ^ b),
    lambda a, b: torch.sym_ite(a > b, torch.sym_max(a, b), torch.sym_min(a, b)),
    lambda a, b: torch.sym_ite(a > b, 1, 0) * 2,
    lambda a, b: torch.sym_ite(torch.sym_not(a == b), a * 0.5, b * 1.5),
    lambda a, b: (a < b) & (a > 1) | (b != 3),
    lambda a, b: (a <= b) & (b >= 2),
    *[lambda a, b, name=name: getattr(torch, f"_sym_{name}")((abs(a) + 1) / 100) for name in MATH],
]
# What programs cannot write down, and simplification can.
EXPRESSIONS: list[tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = [
    (functions.CleanDiv, operator.floordiv),
    (functions.CeilDiv, lambda a, b: math.ceil(a / b)),
    (functions.Mod, operator.mod),
    (lambda a, b: functions.ModularIndexing(a, b, 4), lambda a, b: a // b % 4),
    (lambda a, b: functions.Identity(a), lambda a, b: a),
    (lambda a, b: functions.Where(a > b, a, b), max),
    (lambda a, b: functions.FloatTrueDiv(a, b) + functions.FloatPow(a, 2.0), lambda a, b: a / b + a**2.0),
    (lambda a, b: functions.PowByNatural(a, b), operator.pow),
    (lambda a, b: functions.RShift(functions.LShift(a, b), 1), lambda a, b: (a << b) >> 1),
    (lambda a, b: functions.TruncToFloat(functions.IntTrueDiv(a, b)), lambda a, b: float(int(a / b))),
    (lambda a, b: sympy.floor(functions.IntTrueDiv(a, b)), lambda a, b: math.floor(a / b)),
    (lambda a, b: sympy.ceiling(functions.IntTrueDiv(a, b)), lambda a, b: math.ceil(a / b)),
    (lambda a, b: sympy.Piecewise((a, a > b), (b, a < 0), (3, True)), lambda a, b: a if a > b else b if a < 0 else 3),
]
# Bases, what no method of a symbolic number makes, and a fact about strides that graphs ask torch for.
NOT_OF_SIZES = {"Application", "Expr", "LatticeOp", "MinMaxBase", "IsNonOverlappingAndDenseIndicator"}
NOT_OF_SIZES |= {f"OpaqueUnaryFn_{name}" for name in ("asinh", "exp", "log")}


def computed(make: Callable[[Any, Any], Any]) -> tuple[GraphModule, Any]:
    """A graph of two numbers that computes what `make` gives for two symbols; and the symbolic value."""
    env, graph = ShapeEnv(), Graph()
    table, symbols = SymbolTable(graph), (env.create_unbacked_symint(), env.create_unbacked_symint())
    for name, symbol in zip("ab", symbols, strict=True):
        node = graph.placeholder(name)
        node.meta["val"] = symbol
        table.bind(symbol.node.expr, node)
    torch._check(symbols[1] >= 1)
    value = make(*symbols)
    graph.output(table.node_of(value))
    return GraphModule({}, graph), value


def same_number(got: Any, expected: Any) -> bool:
    return type(got) is type(expected) and (math.isclose(got, expected, rel_tol=1e-12) or got == expected)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_programs(number: int) -> None:
    program = PROGRAMS[number]
    graph, value = computed(program)
    assert isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))
    for pair in NUMBERS:
        assert same_number(graph(*pair), program(*pair)), (graph.code, pair)


@pytest.mark.parametrize("number", range(len(EXPRESSIONS)))
def test_expressions(number: int) -> None:
    build, expected = EXPRESSIONS[number]

    def make(a: torch.SymInt, b: torch.SymInt) -> Any:
        expr = build(a.node.expr, b.node.expr)
        env = a.node.shape_env
        return (env.create_symintnode if expr.is_integer else env.create_symfloatnode)(expr, hint=None)

    graph, _ = computed(make)
    for a, b in NUMBERS:
        if a >= 0 and (a % b == 0 or build is not functions.CleanDiv):
            assert same_number(graph(a, b), expected(a, b)), (graph.code, a, b)


def test_every_function_of_size_arithmetic_has_a_row() -> None:
    classes = {name for name, cls in vars(functions).items() if inspect.isclass(cls) and issubclass(cls, sympy.Basic)}
    assert classes - FUNCTIONS.keys() == NOT_OF_SIZES
