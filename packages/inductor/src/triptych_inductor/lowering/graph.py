"""`lower`: walks an ATen graph and lowers each node, giving an `IRGraph`."""

from __future__ import annotations

import operator
from typing import Any

import sympy
import torch
from torch.fx import GraphModule
from torch.fx import Node as FxNode

from triptych_inductor._torch_compat import expression, free_symbols, symbol_hints, written_expression
from triptych_inductor.backends import CODE_GENERATORS
from triptych_inductor.errors import InductorError, LoweringError
from triptych_inductor.ir.alignment import room_for
from triptych_inductor.ir.builder import Builder
from triptych_inductor.ir.extents import as_extent, as_extents
from triptych_inductor.ir.nodes import Buffer, IRGraph, Strided
from triptych_inductor.ir.tensors import LazyTensor
from triptych_inductor.lowering.casts import CastBatches
from triptych_inductor.lowering.common import to_dtype
from triptych_inductor.lowering.fallback import lower_fallback
from triptych_inductor.lowering.registry import Context, find_lowering
from triptych_inductor.lowering.table import LOWERINGS as LOWERINGS
from triptych_inductor.options import Options
from triptych_inductor.passes.layout import wants_channels_last


def lower(gm: GraphModule, options: Options) -> IRGraph:
    """The IR of a graph whose nodes carry `meta["val"]`.

    In: functional ATen overloads (plus `copy_` to inputs), symbolic sizes allowed. Out: nodes in program order; every
    output realised with eager's strides.
    """
    return GraphLowering(gm, options).run()


class GraphLowering:
    """One walk over one graph."""

    def __init__(self, gm: GraphModule, options: Options) -> None:
        self.gm = gm
        self.options = options
        self.graph = IRGraph()
        self.builder = Builder(self.graph, options.exact, wants_channels_last(gm, options))
        self.builder.main_device = self._main_device()
        self.env: dict[FxNode, Any] = {}
        self.casts = CastBatches(gm.graph)
        self.symbols: set[sympy.Symbol] = set()  # those that have a value at this place of the program

    def run(self) -> IRGraph:
        self.graph.hints = symbol_hints(n.meta.get("val") for n in self.gm.graph.nodes if n.op == "placeholder")
        for node in self.gm.graph.nodes:
            self.builder.origin = _origin(node)
            self.env[node] = getattr(self, "on_" + node.op)(node)
            self.symbols |= free_symbols(node.meta.get("val"))
        return self.graph

    # -- node kinds ---------------------------------------------------------------------------------------------------

    def on_placeholder(self, node: FxNode) -> Any:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            buffer = self._buffer_of(value, f"arg{len(self.graph.inputs)}", "input")
            self.graph.inputs.append(buffer)
            return self.builder.of_buffer(buffer)
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            expr = expression(value)
            self.graph.inputs.append(expr if isinstance(expr, sympy.Symbol) else None)
            if isinstance(value, torch.SymFloat) and isinstance(expr, sympy.Symbol):
                self.builder.number(expr)
            return as_extent(value) if isinstance(value, torch.SymInt) else expr
        self.graph.inputs.append(None)
        return value

    def _main_device(self) -> torch.device:
        """The accelerator that the graph's tensors live on, or the CPU."""
        values = [n.meta.get("val") for n in self.gm.graph.nodes]
        devices = [v.device for v in values if isinstance(v, torch.Tensor)]
        return next((d for d in devices if d.type != "cpu"), torch.device("cpu"))

    def _buffer_of(self, value: torch.Tensor, name: str, kind: str) -> Buffer:
        return self.builder.add_buffer(
            Buffer(
                name,
                as_extents(value.shape),
                as_extents(value.stride()) if value.layout is torch.strided else (),
                value.dtype,
                value.device,
                kind,
                as_extent(value.storage_offset()) if value.layout is torch.strided else 0,
                aliased=True,
            )
        )

    def on_get_attr(self, node: FxNode) -> Any:
        value = operator.attrgetter(str(node.target))(self.gm)
        if not isinstance(value, torch.Tensor):
            return value
        name = f"constant{len(self.graph.constants)}"
        self.graph.constants[name] = value.detach()
        self.graph.attributes[name] = str(node.target)
        return self.builder.of_buffer(self._buffer_of(value, name, "constant"))

    def on_call_function(self, node: FxNode) -> Any:
        value = node.meta.get("val")
        if node.target is operator.getitem:
            return self.env[node.args[0]][node.args[1]]  # type: ignore[index]
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)) and not self._defines_symbol(node):
            return as_extent(value) if isinstance(value, torch.SymInt) else self._number(value)
        if isinstance(value, (int, float, bool)) and not isinstance(node.target, torch._ops.OpOverload):
            return value
        cast = self.casts.result(node, self.builder, self.env)
        if cast is not None:
            return cast
        args, kwargs = self._arguments(node)
        ctx = Context(self.builder, node, self.options)
        result = self._lower_call(ctx, node, args, kwargs)
        return self._finish(node, result)

    def _defines_symbol(self, node: FxNode) -> bool:
        """Whether the number is known only once the call has run."""
        if not free_symbols(node.meta["val"]) <= self.symbols:
            return True
        reads = any(isinstance(a, FxNode) and isinstance(a.meta.get("val"), torch.Tensor) for a in node.args)
        return reads and "sym_" not in str(node.target)

    def _number(self, value: Any) -> Any:
        """The expression of a float or bool; a condition as it was written, for it is what a check asks."""
        written = written_expression(value)
        as_written = isinstance(value, torch.SymBool) and written.free_symbols <= self.symbols
        return written if as_written else expression(value)

    def _arguments(self, node: FxNode) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args = torch.fx.node.map_arg(node.args, self.env.__getitem__)
        kwargs = torch.fx.node.map_arg(node.kwargs, self.env.__getitem__)
        return _plain(args), _plain(kwargs)

    def _lower_call(self, ctx: Context, node: FxNode, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        rule = find_lowering(node.target)
        if rule is None or _needs_fallback(node) or self._takes_number_elsewhere(node):
            return lower_fallback(ctx, args, kwargs, counted=node.target not in _CALLS)
        if self._depends_on_data(node):
            return lower_fallback(ctx, args, kwargs, counted=False)
        try:
            result = rule(ctx, *args, **kwargs)
            return lower_fallback(ctx, args, kwargs) if result is NotImplemented else result
        except InductorError:
            raise
        except Exception as error:
            where = "".join(f"\n  at {line}" for line in self.builder.origin)
            raise LoweringError(
                f"lowering of {node.format_node()} failed: {type(error).__name__}: {error}{where}"
            ) from error

    def _takes_number_elsewhere(self, node: FxNode) -> bool:
        """Whether a kernel on another than the main device would load a symbolic float, which lies there."""
        value = node.meta.get("val")
        if not any(isinstance(n.meta.get("val"), torch.SymFloat) for n in node.all_input_nodes):
            return False
        return isinstance(value, torch.Tensor) and value.device != self.builder.main_device

    def _depends_on_data(self, node: FxNode) -> bool:
        """Whether only the call itself tells the size of the result, or has to check its bounds."""
        if not free_symbols(node.meta.get("val")) <= self.symbols:
            return True
        if getattr(node.target, "overloadpacket", None) not in _CHECKED_BY_CALL:
            return False
        numbers = [n.meta.get("val") for n in node.all_input_nodes]
        return any(isinstance(n, torch.SymInt) and not n.node.has_hint() for n in numbers)

    def _finish(self, node: FxNode, result: Any) -> Any:
        """Give results their declared dtype and eager strides, and realise them where several users would recompute."""
        value = node.meta.get("val")
        if isinstance(result, LazyTensor):
            result.room = room_for(node, value)
            result = self._finish_tensor(result, value, len(node.users))
            if _only_kept_narrow(node):
                self.builder.realise(result)
            return result
        if isinstance(result, (tuple, list)) and isinstance(value, (tuple, list)):
            users = _users_by_position(node)
            return [
                self._finish_item(r, v, users.get(k, 0)) for k, (r, v) in enumerate(zip(result, value, strict=True))
            ]
        return result

    def _finish_item(self, result: Any, value: Any, users: int) -> Any:
        """One of several results; users of a list are taken for users of each tensor in it."""
        if isinstance(result, LazyTensor):
            return self._finish_tensor(result, value, users)
        if isinstance(result, (tuple, list)):
            return [self._finish_item(r, v, users) for r, v in zip(result, value, strict=True)]
        return result

    def _finish_tensor(self, result: LazyTensor, value: Any, users: int) -> LazyTensor:
        if not isinstance(value, torch.Tensor):
            return result
        if result.dtype is not value.dtype:
            result = to_dtype(result, value.dtype)
        if len(result.size) != value.ndim:
            raise LoweringError(f"lowering gave size {result.size} where {tuple(value.shape)} was expected")
        if result.stride is None and value.layout is torch.strided:
            result.stride = as_extents(value.stride())
        if result.strided is None:
            if self.builder.channels_last:
                self.builder.choose_layout(result)
            self.builder.consider(result, users)
            self.builder.results.append(result)
        return result

    def on_output(self, node: FxNode) -> None:
        returned = node.args[0]
        self.graph.output_kind = (
            "tuple" if isinstance(returned, tuple) else "list" if isinstance(returned, list) else "single"
        )
        items = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        self.graph.outputs = [self._output(item) for item in items]

    def _output(self, item: Any) -> Any:
        if not isinstance(item, FxNode):
            return item
        value = self.env[item]
        if not isinstance(value, LazyTensor):
            return value
        expected = item.meta.get("val")
        if not isinstance(expected, torch.Tensor) or expected.layout is not torch.strided:
            return self.builder.realise(value)
        stride = as_extents(expected.stride())
        window = self.builder.realise_with(value, stride)
        return Strided(window.buffer, window.size, stride, window.offset)


def _only_kept_narrow(node: FxNode) -> bool:
    """Whether the result is a narrower copy that is only returned: stored at once, so that what it is of can go."""
    if node.target is not torch.ops.aten._to_copy.default or any(user.op != "output" for user in node.users):
        return False
    wide, narrow = (n.meta.get("val") for n in (node.args[0], node))
    tensors = isinstance(wide, torch.Tensor) and isinstance(narrow, torch.Tensor)
    return tensors and narrow.dtype.itemsize < wide.dtype.itemsize


def _plain(structure: Any) -> Any:
    """fx's immutable containers as ordinary ones, SymInts as extents."""
    if isinstance(structure, tuple):
        return tuple([_plain(s) for s in structure])
    if isinstance(structure, list):
        return [_plain(s) for s in structure]
    if isinstance(structure, dict):
        return {k: _plain(v) for k, v in structure.items()}
    if isinstance(structure, torch.SymInt):
        return as_extent(structure)
    if isinstance(structure, (torch.SymFloat, torch.SymBool)):
        return expression(structure)
    return structure


def _users_by_position(node: FxNode) -> dict[int, int]:
    """For each part of a tuple result, how many nodes use it."""
    count: dict[int, int] = {}
    for user in node.users:
        if user.target is operator.getitem:
            count[user.args[1]] = count.get(user.args[1], 0) + len(user.users)  # type: ignore[index]
    return count


def _needs_fallback(node: FxNode) -> bool:
    """Whether a tensor of the node is of a kind that loop bodies do not compute: complex, quantised, sparse, or on a
    device without a code generator; or whether its tensors are on several devices."""
    stack: list[Any] = [node.meta.get("val"), *[a.meta.get("val") for a in node.all_input_nodes]]
    devices: set[torch.device] = set()
    while stack:
        value = stack.pop()
        if isinstance(value, (tuple, list)):
            stack.extend(value)
        elif isinstance(value, torch.Tensor):
            if value.dtype not in _LOOP_DTYPES or value.layout is not torch.strided:
                return True
            devices.add(value.device)
    return len(devices) > 1 or any(d.type not in CODE_GENERATORS for d in devices)


# Not computed by any kernel: the number in a tensor, and a check of one.
_CALLS = frozenset({torch.ops.aten._local_scalar_dense.default, torch.ops.aten._assert_scalar.default})

# Views whose bounds eager checks against the numbers given: as windows they would read outside of the tensor.
_CHECKED_BY_CALL = frozenset({torch.ops.aten.select, torch.ops.aten.split_with_sizes, torch.ops.aten.as_strided})

_LOOP_DTYPES = frozenset(
    {torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool, torch.uint8, torch.int8, torch.int16}
    | {torch.int32, torch.int64}
)


def _origin(node: FxNode) -> tuple[str, ...]:
    """The op, and the user's line that it comes from (file name without folders)."""
    if node.op != "call_function":
        return ()
    op = str(node.target) if isinstance(node.target, torch._ops.OpOverload) else getattr(node.target, "__name__", "op")
    trace = node.meta.get("stack_trace")
    if not trace:
        return (op,)
    lines = [line.strip() for line in trace.strip().splitlines()]
    for k in range(len(lines) - 1, -1, -1):
        if lines[k].startswith('File "'):
            path, _, rest = lines[k][6:].partition('"')
            number = rest.split("line ")[1].split(",")[0] if "line " in rest else "?"
            code = lines[k + 1] if k + 1 < len(lines) else ""
            return (f"{op}: {path.rsplit('/', 1)[-1]}:{number} {code}".rstrip(),)
    return (op,)
