"""Regions that a program calls many times (`nested_compile_region`): each becomes a subgraph that its calls share.

A region is traced like any code, so that it may do whatever a program does; only its nodes are labelled. When the graph
is finished, the nodes of each call are written as a module of their own. Calls whose nodes are equal, what differs
being the values that go in, share one module: the graph then reads as a list of calls.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

if TYPE_CHECKING:
    from triptych_dynamo.steering import RegionMark
    from triptych_dynamo.trace.trace import Trace
    from triptych_dynamo.values.base import Value

LABELS = "regions"  # in a node's meta: the calls of regions that it is part of, the outermost first
SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
CROSSING = (torch.Tensor, *SYMBOLIC, int, float, bool)


@dataclass(eq=False)
class RegionCall:
    """One call of a region. tag: what the region's `reuse_hash_fn` says of it."""

    mark: RegionMark
    tag: Any = None


def traced(trace: Trace, call: RegionCall, run: Callable[[], Value]) -> Value:
    """The value of `run()`; the nodes that it adds are those of the call."""
    graph = trace.graph.graph
    before = set(graph.nodes)
    result = run()
    for node in graph.nodes:
        if node not in before and node.op != "placeholder":
            node.meta[LABELS] = (call, *node.meta.get(LABELS, ()))
    return result


def outlined(module: fx.GraphModule) -> fx.GraphModule:
    """The graph with its region calls as calls of modules; `module` itself where it has none."""
    nodes = list(module.graph.nodes)
    if not any(LABELS in node.meta for node in nodes):
        return module
    outline = _Outline(module, nodes)
    made = outline.written(nodes, 0, fx.Graph(), {}, type(module).__name__)
    made.meta.update(module.meta)
    return made


def inlined(module: fx.GraphModule) -> fx.GraphModule:
    """The graph with the modules of its regions written out at each call; `module` itself where it calls none."""
    if not any(node.op == "call_module" for node in module.graph.nodes):
        return module
    graph, root = fx.Graph(), torch.nn.Module()
    output = _write_out(module, graph, root, None)
    graph.output(output).meta.update(module.graph.output_node().meta)
    made = fx.GraphModule(root, graph)
    made.meta.update(module.meta)
    return made


def _write_out(module: fx.GraphModule, graph: fx.Graph, root: torch.nn.Module, given: Sequence[Any] | None) -> Any:
    """Copy the nodes of a module; gives what stands in its output.

    root: gets what the nodes read. given: what stands for the module's placeholders.
    """
    copies: dict[fx.Node, Any] = {}
    arguments = iter(given or ())
    for node in module.graph.nodes:
        args = fx.node.map_arg(node.args, copies.__getitem__)
        if node.op == "placeholder" and given is not None:
            copies[node] = next(arguments)
        elif node.op == "call_module":
            copies[node] = _write_out(getattr(module, str(node.target)), graph, root, args)
        elif node.op == "output":
            return args[0]
        elif node.target is operator.getitem and isinstance(copies[node.args[0]], tuple):
            copies[node] = copies[node.args[0]][node.args[1]]
        else:
            copies[node] = graph.node_copy(node, copies.__getitem__)
            if node.op == "get_attr":  # names are the trace's: one in several modules is one thing
                setattr(root, str(node.target), getattr(module, str(node.target)))
    raise ValueError("the graph has no output")


@dataclass
class _Shared:
    """The modules of one region, by what they contain."""

    modules: dict[Any, fx.GraphModule] = field(default_factory=dict)


class _Outline:
    """The writing of one graph."""

    def __init__(self, module: fx.GraphModule, nodes: list[fx.Node]) -> None:
        self.module = module
        self.shared: dict[int, _Shared] = {}
        self.position = {node: index for index, node in enumerate(nodes)}

    def written(
        self, nodes: Sequence[fx.Node], depth: int, graph: fx.Graph, copies: dict[fx.Node, fx.Node], name: str
    ) -> fx.GraphModule:
        """A module of these nodes, whose labels count from `depth` on."""
        root = torch.nn.Module()
        self._write(nodes, depth, graph, copies, root)
        return fx.GraphModule(root, graph, name)

    def _write(
        self,
        nodes: Sequence[fx.Node],
        depth: int,
        graph: fx.Graph,
        copies: dict[fx.Node, fx.Node],
        root: torch.nn.Module,
    ) -> None:
        for call, group in itertools.groupby(nodes, key=lambda node: _label(node, depth)):
            part = list(group)
            if call is None:
                for node in part:
                    copies[node] = graph.node_copy(node, copies.__getitem__)
                    copies[node].meta.pop(LABELS, None)
                    if node.op == "get_attr":
                        root.register_module(str(node.target), getattr(self.module, str(node.target)))
            elif not self._call(call, part, depth + 1, graph, copies, root):
                self._write(part, depth + 1, graph, copies, root)

    def _call(
        self,
        call: RegionCall,
        part: list[fx.Node],
        depth: int,
        graph: fx.Graph,
        copies: dict[fx.Node, fx.Node],
        root: torch.nn.Module,
    ) -> bool:
        """Write one call; False where the part cannot be a module, or the region has enough of them."""
        own = set(part)
        given = list(dict.fromkeys(used for node in part for used in node.all_input_nodes if used not in own))
        results = [node for node in part if any(user not in own for user in node.users)]
        if not all(isinstance(node.meta.get("val"), CROSSING) for node in (*given, *results)):
            return False
        module = self._module(call, part, depth, given, results)
        if module is None:
            return False
        node = graph.call_module(_attribute(root, call, module), tuple(copies[used] for used in given))
        node.meta.update(val=tuple(n.meta["val"] for n in results), stack_trace=part[0].meta.get("stack_trace", ""))
        node.meta.update(_common(part))
        if any(n.meta.get("effect") for n in part):
            node.meta["effect"] = True
        for index, result in enumerate(results):
            item = graph.create_node("call_function", operator.getitem, (node, index), name=result.name)
            item.meta.update({k: v for k, v in result.meta.items() if k not in (LABELS, "effect")})
            copies[result] = item
        return True

    def _module(
        self, call: RegionCall, part: list[fx.Node], depth: int, given: list[fx.Node], results: list[fx.Node]
    ) -> fx.GraphModule | None:
        key = (call.tag, *_Content(self.module, part, depth, given, results).rows())
        known = self.shared.setdefault(id(call.mark), _Shared()).modules
        if key not in known:
            if len(known) >= call.mark.max_reuse_entries:
                return None
            known[key] = self._new_module(call, part, depth, given, results)
        return known[key]

    def _new_module(
        self, call: RegionCall, part: list[fx.Node], depth: int, given: list[fx.Node], results: list[fx.Node]
    ) -> fx.GraphModule:
        graph, copies, root = fx.Graph(), {}, torch.nn.Module()
        for number, used in enumerate(given):
            copies[used] = graph.placeholder(f"arg{number}")
            copies[used].meta["val"] = used.meta["val"]
        self._write(part, depth, graph, copies, root)
        graph.output(tuple(copies[node] for node in results))
        for name in _common(part):
            for node in graph.nodes:
                node.meta.pop(name, None)
        return fx.GraphModule(root, graph, _class_name(call))


def _label(node: fx.Node, depth: int) -> RegionCall | None:
    labels = node.meta.get(LABELS, ())
    return labels[depth] if depth < len(labels) else None


def _common(part: list[fx.Node]) -> dict[str, Any]:
    """What the call as a whole is marked with: being computed again, where all of its nodes are."""
    found = {node.meta.get("recompute") for node in part}
    return {"recompute": found.pop()} if len(found) == 1 and None not in found else {}


def _class_name(call: RegionCall) -> str:
    return re.sub(r"\W+", "_", call.mark.name).strip("_") or "region"


def _attribute(root: torch.nn.Module, call: RegionCall, module: fx.GraphModule) -> str:
    """The attribute of `root` that holds the module."""
    for name, held in root.named_children():
        if held is module:
            return name
    stem = f"{_class_name(call)}_region"
    name = next(n for n in (f"{stem}_{k}" for k in itertools.count()) if not hasattr(root, n))
    root.register_module(name, module)
    return name


class _Content:
    """What tells the part of one call from that of another; equal rows, equal modules."""

    def __init__(
        self,
        module: fx.GraphModule,
        part: list[fx.Node],
        depth: int,
        given: list[fx.Node],
        results: list[fx.Node],
    ) -> None:
        self.module, self.part, self.depth, self.given, self.results = module, part, depth, given, results
        self.numbers = {node: number for number, node in enumerate([*given, *part])}

    def rows(self) -> Iterable[Any]:
        """The rows: values that go in, then nodes, then results."""
        for node in self.given:
            yield self.value(node.meta["val"])
        recompute = "recompute" not in _common(self.part)
        for node in self.part:
            target: Any = node.target
            if node.op == "get_attr":
                target = id(getattr(self.module, str(node.target)))
            labels = tuple(id(label.mark) for label in node.meta[LABELS][self.depth :])
            tag = node.meta.get("recompute") if recompute else None
            numbers = _numbers(node.meta.get("val"))  # those that a run finds out are another run's others
            yield node.op, target, self.argument(node.args), self.argument(node.kwargs), labels, tag, numbers
        yield tuple(self.numbers[node] for node in self.results)

    def argument(self, arg: Any) -> Any:
        """An argument as something that compares and hashes by what it says."""
        if isinstance(arg, fx.Node):
            return "node", self.numbers[arg]
        if isinstance(arg, (list, tuple)):
            return type(arg).__name__, tuple(map(self.argument, arg))
        if isinstance(arg, dict):
            return "dict", tuple((self.argument(k), self.argument(v)) for k, v in arg.items())
        if isinstance(arg, slice):
            return "slice", self.argument((arg.start, arg.stop, arg.step))
        if isinstance(arg, (int, float, complex, str, bytes, type(None))):
            return type(arg).__name__, repr(arg)  # tells 1 from True, and 0.0 from -0.0
        return type(arg).__name__, arg if _hashes_by_value(arg) else id(arg)

    def value(self, val: Any) -> Any:
        """A value that goes in. Whether it wants a gradient, and whose memory it shows, is a matter of each call."""
        if not isinstance(val, torch.Tensor):
            return type(val).__name__, str(val)
        sizes = (*val.shape, *val.stride()) if val.layout is torch.strided else tuple(val.shape)
        flags = (val.is_conj(), val.is_neg(), val.is_inference())
        return type(val), val.dtype, val.device, val.layout, tuple(map(str, sizes)), flags


def _numbers(val: Any) -> tuple[str, ...]:
    """The symbolic numbers of a result."""
    if isinstance(val, torch.Tensor):
        return tuple(str(size) for size in val.shape if not isinstance(size, int))
    if isinstance(val, (list, tuple)):
        return tuple(number for item in val for number in _numbers(item))
    return (str(val),) if isinstance(val, SYMBOLIC) else ()


def _hashes_by_value(arg: Any) -> bool:
    return isinstance(arg, (torch.dtype, torch.device, torch.memory_format, torch.layout, type))
