"""Which pointers a Triton kernel writes through, from its source.

A flow of names: every local variable stands for the set of parameters that it may have been computed from. What is
stored through (`tl.store`, atomics, stores of block pointers and descriptors) marks those parameters as written;
loading cuts the flow. Helper functions are followed. What cannot be followed (inline assembly, a callable parameter,
a pointer made of a number, missing source) counts as writing all it is given: too much is copied then, nothing missed.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

_STORES = frozenset(
    "store store_tensor_descriptor atomic_add atomic_max atomic_min atomic_and atomic_or atomic_xor atomic_xchg "
    "atomic_cas scatter atomic_store".split()
)
_LOADS = frozenset({"load", "load_tensor_descriptor", "gather", "num_programs", "program_id"})
_OPAQUE = frozenset({"inline_asm_elementwise", "extern_elementwise", "call"})
_ROUNDS = 12  # passes over a body until nothing new flows; each carries taint at least one loop further

Origins = frozenset[str]
_NONE: Origins = frozenset()


@dataclass(frozen=True)
class Writes:
    """`written`: parameters written through; `returned`: parameters that the result may be computed from."""

    written: Origins
    returned: Origins


def innermost(kernel: Any) -> Any:
    """The Python function under a kernel and its wrappers (`jit`, `autotune`, `heuristics`)."""
    while not isinstance(kernel, FunctionType) and getattr(kernel, "fn", None) is not None:
        kernel = kernel.fn
    return kernel


def written_parameters(kernel: Any) -> Origins:
    """Names of the parameters that a kernel may write through; all of them where its source cannot be read."""
    return _analyse(innermost(kernel), ()).written


def _analyse(function: Any, above: Sequence[Any]) -> Writes:
    """What a function does with its parameters. `above`: functions being analysed, for recursion."""
    names = _parameters(function)
    everything = Writes(frozenset(names), frozenset(names))
    if function in above:
        return everything
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return everything
    definition = next((n for n in tree.body if isinstance(n, ast.FunctionDef)), None)
    if definition is None or any(isinstance(n, ast.Attribute) and n.attr == "pointer_type" for n in ast.walk(tree)):
        return everything
    flow = _Flow(names, _namespace(function), (*above, function))
    for _ in range(_ROUNDS):
        before = dict(flow.origins), flow.written, flow.returned
        for statement in definition.body:
            flow.visit(statement)
        if before == (flow.origins, flow.written, flow.returned):
            return Writes(flow.written, flow.returned)
    return everything


def _parameters(function: Any) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def _namespace(function: FunctionType) -> Mapping[str, Any]:
    """Globals and closure of a function."""
    found = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


class _Flow(ast.NodeVisitor):
    """One pass over statements; `origins` only grows."""

    def __init__(self, parameters: Sequence[str], namespace: Mapping[str, Any], above: Sequence[Any]) -> None:
        self.origins: dict[str, Origins] = {name: frozenset({name}) for name in parameters}
        self.namespace = namespace
        self.above = above
        self.written: Origins = _NONE
        self.returned: Origins = _NONE

    # Statements.

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self.assign(target, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign(node.target, node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.bind(node.target, self.of(node.value))

    def visit_For(self, node: ast.For) -> None:
        self.bind(node.target, self.of(node.iter))
        for statement in (*node.body, *node.orelse):
            self.visit(statement)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None:
            self.returned |= self.of(node.value)

    def visit_Expr(self, node: ast.Expr) -> None:
        self.of(node.value)

    def visit_If(self, node: ast.If) -> None:
        self._branch(node.test, (*node.body, *node.orelse))

    def visit_While(self, node: ast.While) -> None:
        self._branch(node.test, (*node.body, *node.orelse))

    def _branch(self, test: ast.expr, body: Sequence[ast.stmt]) -> None:
        self.of(test)
        for statement in body:
            self.visit(statement)

    def assign(self, target: ast.expr, value: ast.expr) -> None:
        """Bind a target; tuples item by item where both sides show them."""
        pair = isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List))
        if pair and len(target.elts) == len(value.elts):  # type: ignore[attr-defined]
            for one, other in zip(target.elts, value.elts, strict=True):  # type: ignore[attr-defined]
                self.assign(one, other)
        else:
            self.bind(target, self.of(value))

    def bind(self, target: ast.expr, origins: Origins) -> None:
        """Names of a target may from now on come from `origins` too."""
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                self.origins[node.id] = self.origins.get(node.id, _NONE) | origins

    # Expressions.

    def of(self, node: ast.AST | None) -> Origins:
        """The parameters that an expression's value may be computed from; stores in it are noted."""
        if node is None or isinstance(node, ast.Constant):
            return _NONE
        if isinstance(node, ast.Name):
            return self.origins.get(node.id, _NONE)
        if isinstance(node, ast.Call):
            return self.call(node)
        if isinstance(node, ast.Compare):
            self.all_of(ast.iter_child_nodes(node))
            return _NONE
        return self.all_of(ast.iter_child_nodes(node))

    def all_of(self, nodes: Any) -> Origins:
        """The union over several expressions."""
        return _NONE.union(*(self.of(n) for n in nodes))

    def call(self, node: ast.Call) -> Origins:
        given = [*node.args, *(k.value for k in node.keywords)]
        origins = self.all_of(given)
        function = self.resolve(node.func)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        module = getattr(innermost(function), "__module__", None) or ""
        if function is None:
            return self._method(node, name, origins)
        if module.startswith("triton") or not module:
            return self._of_triton(node, name, origins)
        if getattr(function, "fn", None) is not None or isinstance(function, FunctionType):
            return self._helper(node, innermost(function))
        return origins  # range, min, len, a dtype ...

    def _of_triton(self, node: ast.Call, name: str, origins: Origins) -> Origins:
        if name in _STORES:
            target = node.args[0] if node.args else next((k.value for k in node.keywords if k.arg), None)
            named = [k.value for k in node.keywords if k.arg in ("pointer", "desc")]
            self.written |= self.of(named[0] if named else target)
            return _NONE
        if name in _OPAQUE:
            self.written |= origins
        return _NONE if name in _LOADS else origins

    def _method(self, node: ast.Call, name: str, origins: Origins) -> Origins:
        """A method of a value (`x.to(...)`, `descriptor.store(...)`), or a callable that is not known."""
        if not isinstance(node.func, ast.Attribute):
            self.written |= origins
            return origins
        owner = self.of(node.func.value)
        if name in _STORES:
            self.written |= owner
            return _NONE
        return _NONE if name in _LOADS else owner | origins

    def _helper(self, node: ast.Call, function: Any) -> Origins:
        """A function of the user's: its parameters stand for what they are given here."""
        found = _analyse(function, self.above)
        names = _parameters(function)
        given: dict[str, Origins] = {}
        for name, value in zip(names, node.args, strict=False):
            given[name] = self.of(value)
        for keyword in node.keywords:
            given[keyword.arg or ""] = self.of(keyword.value)
        if any(isinstance(a, ast.Starred) for a in node.args) or "" in given:
            everything = self.all_of([*node.args, *(k.value for k in node.keywords)])
            self.written |= everything if found.written else _NONE
            return everything
        self.written |= _NONE.union(*(given.get(name, _NONE) for name in found.written))
        return _NONE.union(*(given.get(name, _NONE) for name in found.returned))

    def resolve(self, node: ast.expr) -> Any:
        """The object that a dotted name stands for outside the function; None for values of the function."""
        if isinstance(node, ast.Name):
            return None if node.id in self.origins else self.namespace.get(node.id, _builtin(node.id))
        if isinstance(node, ast.Attribute):
            owner = self.resolve(node.value)
            return None if owner is None else getattr(owner, node.attr, None)
        return None


def _builtin(name: str) -> Any:
    return __builtins__.get(name) if isinstance(__builtins__, dict) else getattr(__builtins__, name, None)
