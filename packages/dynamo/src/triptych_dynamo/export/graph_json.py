"""fx graphs as JSON: nodes, targets by name, and what is known of the inputs; the rest is propagated anew on loading.

Only functions that compute on tensors and numbers are written or read: torch's own operators and functions, `operator`
and `math`. Anything else is refused by name. Of higher-order operators the bodies are written in place, as graphs with
inputs of their own, and what is known of the results is written too.
"""

from __future__ import annotations

import builtins
import itertools
from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch import fx

from triptych_dynamo._torch_compat import (
    HigherOrderOperator,
    OpOverload,
    OpOverloadPacket,
    ShapeEnv,
    enable_python_dispatcher,
    make_fake_mode,
    new_symbol,
    symbolic_float,
    symbolic_int,
)
from triptych_dynamo.codec import Codec, Json, NotPortable, make_codec, name_of, resolve
from triptych_dynamo.guards.portable import expression_of
from triptych_dynamo.guards.shape_program import compile_shape
from triptych_dynamo.trace.regions import inlined

_MODULES = frozenset(
    {
        *("torch", "torch.functional", "torch.nn.functional", "torch._C._nn", "torch._C._linalg", "torch._C._fft"),
        *("torch._C._special", "torch._C._VariableFunctions", "_operator", "operator", "math", "torch.special"),
        *("torch._jit_internal", "torch.fx.experimental.symbolic_shapes"),
    }
)
_FUNCTIONS: tuple[Any, ...] = (
    *(builtins.getattr, torch._C._set_grad_enabled, torch.autograd.grad),
    *(torch.amp.autocast_mode._enter_autocast, torch.amp.autocast_mode._exit_autocast),
    *(torch.autograd.grad_mode._enter_inference_mode, torch.autograd.grad_mode._exit_inference_mode),
)
HIGHER_ORDER = frozenset({"cond", "while_loop", "scan", "map_impl"})  # operators over bodies


# -- targets -----------------------------------------------------------------------------------------------------------
def target_to_json(node: fx.Node) -> Json:
    """The name of what a node calls.

    Raises:
        NotPortable: it is no function of torch, `operator` or `math`.
    """
    target = node.target
    if node.op != "call_function":
        return target
    if isinstance(target, OpOverload):
        return f"op:{target.namespace}.{target._opname}.{target._overloadname}"
    if isinstance(target, OpOverloadPacket):
        return f"op:{target._qualified_op_name.replace('::', '.')}"
    if isinstance(target, HigherOrderOperator):
        if target.name() not in HIGHER_ORDER:
            raise NotPortable(f"{target.name()} is no higher-order operator that a saved graph may call")
        return f"higher:{target.name()}"
    name = name_of(target)
    _require_known(name, target)
    return name


def _require_known(name: str, target: Any) -> None:
    module, _, path = name.partition(":")
    plain = module in _MODULES and "." not in path and callable(target) and not isinstance(target, type)
    if not plain and not any(target is function for function in _FUNCTIONS):
        raise NotPortable(f"{name} is no function that a saved graph may call")


def target_from_json(op: str, data: str) -> Any:
    """The inverse of `target_to_json`; names that it would not write are refused."""
    if op == "call_method":
        if not callable(getattr(torch.Tensor, data, None)):
            raise NotPortable(f"tensors have no method {data}")
        return data
    if op != "call_function":
        return data
    if data.startswith("higher:"):
        name = data.removeprefix("higher:")
        if name not in HIGHER_ORDER:
            raise NotPortable(f"{name} is no higher-order operator that a saved graph may call")
        return getattr(torch.ops.higher_order, name)
    if data.startswith("op:"):
        found: Any = torch.ops
        for part in data.removeprefix("op:").split("."):
            found = getattr(found, part)
        if not isinstance(found, (OpOverload, OpOverloadPacket)):
            raise NotPortable(f"{data} is no operator")
        return found
    found = resolve(data)
    if name_of(found) != data:
        raise NotPortable(f"{data} is not the name of {name_of(found)}")
    _require_known(data, found)
    return found


def _node_codec(nodes: dict[str, fx.Node]) -> Codec:
    """A codec for the arguments of nodes; `nodes` gives those of a name."""
    codec = make_codec()
    codec.row(fx.Node, "node", lambda node: node.name, nodes.__getitem__)
    items = fx.immutable_collections.immutable_list
    codec.row(items, "items", lambda obj: codec.encode(list(obj)), codec.decode)
    codec.alias(fx.immutable_collections.immutable_dict, dict)
    return codec


# -- nodes -------------------------------------------------------------------------------------------------------------
def graph_to_json(module: fx.GraphModule) -> Json:
    """The graph, with sizes of its inputs and the user's lines."""
    symbols: dict[Any, int] = {}
    nodes = _nodes_to_json(module, symbols)
    return {"symbols": [[str(symbol), hint] for symbol, hint in symbols.items()], "nodes": nodes}


def _nodes_to_json(module: fx.GraphModule, symbols: dict[Any, int]) -> list[Json]:
    codec, module = _node_codec({}), inlined(module)
    bodies: dict[str, Json] = {}
    for node in module.graph.find_nodes(op="get_attr"):
        body = getattr(module, node.target, None)
        if not isinstance(body, fx.GraphModule):
            raise NotPortable(f"the graph has a node of kind {node.op}: {node.target}")
        bodies[node.target] = bodies.get(node.target) or _nodes_to_json(body, symbols)
    return [_node_to_json(codec, node, symbols, bodies) for node in module.graph.nodes]


def _node_to_json(codec: Codec, node: fx.Node, symbols: dict[Any, int], bodies: dict[str, Json]) -> Json:
    if node.op == "get_attr":  # a body is written where it is read first
        return {"op": node.op, "name": node.name, "target": node.target, "body": bodies.pop(str(node.target), None)}
    row = {
        "op": node.op,
        "name": node.name,
        "target": target_to_json(node),
        "args": codec.encode(tuple(node.args)),
        "kwargs": codec.encode(dict(node.kwargs)),
        "trace": node.meta.get("stack_trace"),
    }
    if node.meta.get("effect"):
        row["effect"] = True
    if node.op == "placeholder":
        row["val"] = _input_to_json(codec, node.meta["val"], symbols)
    elif isinstance(node.target, HigherOrderOperator):
        row["val"] = [_input_to_json(codec, val, symbols) for val in node.meta["val"]]
    return row


def _input_to_json(codec: Codec, val: Any, symbols: dict[Any, int]) -> Json:
    if isinstance(val, torch.Tensor):
        return {
            "dtype": codec.encode(val.dtype),
            "device": codec.encode(val.device),
            "sizes": [_size_to_json(size, symbols) for size in val.shape],
            "strides": [_size_to_json(stride, symbols) for stride in val.stride()],
            "requires_grad": val.requires_grad,
            "parameter": isinstance(val, torch.nn.Parameter),
        }
    if isinstance(val, (int, torch.SymInt)):
        return {"number": _size_to_json(val, symbols)}
    if isinstance(val, torch.SymFloat) and val.node.expr.is_Symbol and val.node.has_hint():
        return {"float": val.node.hint}
    raise NotPortable(f"an input that is a {type(val).__name__}")


def _size_to_json(size: Any, symbols: dict[Any, int]) -> Json:
    if isinstance(size, int):
        return size
    expression, hints = size.node.expr, size.node.shape_env.backed_var_to_val
    for symbol in sorted(expression.free_symbols, key=str):
        if symbol not in hints:
            raise NotPortable(f"the size {expression} is known only when the graph runs")
        symbols.setdefault(symbol, int(hints[symbol]))
    steps = compile_shape(expression, list(symbols))
    if steps is None:
        raise NotPortable(f"the size {expression} is no arithmetic of integers")
    return [list(step) for step in steps]


# -- and back ----------------------------------------------------------------------------------------------------------
class _Sizes:
    """What a graph and its bodies share: symbols of sizes, and fake tensors of these sizes."""

    def __init__(self, symbols: Json) -> None:
        self.env = ShapeEnv()
        self.fake_mode = make_fake_mode(self.env)
        self.symbols = [new_symbol(self.env, hint, f"saved_{name}", duck=False) for name, hint in symbols]
        self.floats = itertools.count()


class _Loader:
    """One graph in the making, from the rows of its nodes."""

    def __init__(self, rows: list[Json], sizes: _Sizes) -> None:
        self.rows, self.sizes = rows, sizes
        self.env, self.fake_mode, self.symbols = sizes.env, sizes.fake_mode, sizes.symbols
        self.root = torch.nn.Module()
        self.graph = fx.Graph()
        self.nodes: dict[str, fx.Node] = {}
        self.codec = _node_codec(self.nodes)

    def run(self) -> fx.GraphModule:
        """All nodes, run on fake tensors as they come."""
        for row in self.rows:
            node = self._body(row) if "body" in row else self._call(row)
            if node.name != row["name"]:
                raise NotPortable(f"two nodes are called {row['name']}")
            self.nodes[row["name"]] = node
            if row.get("effect"):
                node.meta["effect"] = True
        module = fx.GraphModule(self.root, self.graph)
        module.meta["fake_mode"] = self.fake_mode
        return module

    def _body(self, row: Json) -> fx.Node:
        name = row["target"]
        if row["body"] is not None:
            if not name.isidentifier() or hasattr(self.root, name):
                raise NotPortable(f"{name} cannot be the name of a body")
            self.root.register_module(name, _Loader(row["body"], self.sizes).run())
        module = self.root.get_submodule(name)
        node = self.graph.create_node("get_attr", name, (), {}, row["name"])
        node.meta.update(module=module, val=None, stack_trace="")
        return node

    def _call(self, row: Json) -> fx.Node:
        args, kwargs = self.codec.decode(row["args"]), self.codec.decode(row["kwargs"])
        node = self.graph.create_node(row["op"], target_from_json(row["op"], row["target"]), args, kwargs, row["name"])
        node.meta.update(val=self._value(node, row), stack_trace=row["trace"])
        return node

    def _value(self, node: fx.Node, row: Json) -> Any:
        if node.op == "placeholder":
            return self._input(row["val"])
        if isinstance(node.target, HigherOrderOperator):
            return tuple(self._result(data) for data in row["val"])
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda item: item.meta["val"])
        if node.op == "output":
            return args[0]
        with enable_python_dispatcher(), self.fake_mode:
            if node.op == "call_method":
                return getattr(args[0], str(node.target))(*args[1:], **kwargs)
            return node.target(*args, **kwargs)  # type: ignore[operator]

    def _input(self, data: Json) -> Any:
        if "number" in data:
            return self._size(data["number"])
        if "float" in data:
            return symbolic_float(self.env, data["float"], f"saved_float_{next(self.sizes.floats)}")[1]
        with self.fake_mode, torch.enable_grad():
            val = torch.empty_strided(
                [self._size(size) for size in data["sizes"]],
                [self._size(stride) for stride in data["strides"]],
                dtype=self.codec.decode(data["dtype"]),
                device=self.codec.decode(data["device"]),
            )
            if data["parameter"]:
                return torch.nn.Parameter(val, requires_grad=data["requires_grad"])
            return val.requires_grad_() if data["requires_grad"] else val

    def _result(self, data: Json) -> Any:
        """What a higher-order operator gives: as an input, but no leaf."""
        val = self._input(data)
        if not isinstance(val, torch.Tensor):
            return val
        with self.fake_mode, torch.enable_grad():
            return val.clone(memory_format=torch.preserve_format)

    def _size(self, data: Json) -> Any:
        if isinstance(data, int):
            return data
        expression = expression_of(data, self.symbols)
        return int(expression) if expression.is_number else symbolic_int(self.env, sympy.sympify(expression))


def graph_from_json(data: Json) -> fx.GraphModule:
    """The graph module, its nodes' `meta["val"]` made anew.

    Raises:
        NotPortable: the data names something that a saved graph may not call.
    """
    grad: Callable[..., Any] = torch._C._set_grad_enabled
    before = torch.is_grad_enabled()
    try:
        return _Loader(data["nodes"], _Sizes(data["symbols"])).run()
    finally:
        grad(before)
