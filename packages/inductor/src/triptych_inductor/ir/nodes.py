"""What lowering produces: buffers, and the nodes that fill them (loop nodes and extern calls), gathered in an
`IRGraph`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from triptych_inductor.ir.extents import Extent, product, storage_extent
from triptych_inductor.ir.index import Index, Var
from triptych_inductor.loops.handlers import Value
from triptych_inductor.loops.table import ORDERED_REDUCTIONS


@dataclass(eq=False)
class Buffer:
    """Memory of one tensor. `offset` is its storage offset, of a graph input and in an arena (its data pointer is
    element 0 here).

    `kind`: "input", "constant" (a tensor attribute of the graph), "temporary" (allocated by the wrapper) or "extern"
    (allocated by the call that makes it).
    """

    name: str
    size: tuple[Extent, ...]
    stride: tuple[Extent, ...]
    dtype: torch.dtype
    device: torch.device
    kind: str = "temporary"
    offset: Extent = 0
    aliased: bool = False  # another buffer may share its memory: never reused

    @property
    def extent(self) -> Extent:
        """Elements from the data pointer to the last reachable one."""
        return storage_extent(self.size, self.stride)

    @property
    def numel(self) -> Extent:
        return product(self.size)

    @property
    def form(self) -> tuple[Any, ...]:
        """What two buffers have in common that can lie in one memory, one after the other."""
        return (self.size, self.stride, self.dtype, self.device)

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.size))
        return f"{self.name}: {str(self.dtype).removeprefix('torch.')}[{shape}]"


@dataclass(frozen=True)
class Strided:
    """A strided window on a buffer; `offset` counts elements from the buffer's data pointer."""

    buffer: Buffer
    size: tuple[Extent, ...]
    stride: tuple[Extent, ...]
    offset: Extent = 0

    @property
    def is_whole(self) -> bool:
        """Whether this is the buffer itself, undistorted."""
        return self.offset == 0 and self.size == self.buffer.size and self.stride == self.buffer.stride


@dataclass(eq=False)
class LoopNode:
    """One loop nest that writes its buffers: pointwise, a reduction or a scan along `reduction`, or a scatter (atomic
    adds, indirect stores).

    `axes` and `reduction` are its loop variables; `values` its body in SSA form over them.
    """

    name: str
    kind: str  # "pointwise" | "reduction" | "scan" | "scatter"
    axes: tuple[Var, ...]
    reduction: tuple[Var, ...]
    values: list[Value]
    device: torch.device
    origin: tuple[str, ...] = ()
    reads: list[tuple[str, Index]] = field(default_factory=list)
    writes: list[tuple[str, Index]] = field(default_factory=list)
    expressions: list[Index] = field(default_factory=list)  # indices used as values
    part: bool = False  # writes a piece of a buffer whose other pieces are written by others (concatenation)
    alone: bool = False  # a kernel of its own: fused with others it would keep their memory longer

    def __post_init__(self) -> None:
        seen: set[tuple[str, Index]] = set()
        for value in walk(self.values):
            if value.op == "load" and value.attrs not in seen:
                seen.add(value.attrs)  # type: ignore[arg-type]
                self.reads.append(value.attrs)  # type: ignore[arg-type]
            elif value.op in ("store", "store_reduction", "store_atomic_add"):
                self.writes.append(value.attrs)  # type: ignore[arg-type]
            elif value.op == "index_expr":
                self.expressions.append(value.attrs[0])

    @property
    def is_ordered(self) -> bool:
        """Whether results depend on the order of the reduction axes (scans, positions of extremes)."""
        return any(
            value.op == "scan" or (value.op == "reduce" and value.attrs[0] in ORDERED_REDUCTIONS)
            for value in self.values
        )

    @property
    def read_names(self) -> set[str]:
        """Buffers whose former contents the node needs."""
        return {name for name, _ in self.reads}

    @property
    def write_names(self) -> set[str]:
        return {name for name, _ in self.writes}

    def __str__(self) -> str:
        axes = ", ".join(f"{v}<{v.extent}" for v in self.axes)
        reduction = ", ".join(f"{v}<{v.extent}" for v in self.reduction)
        body = "\n".join(f"    {v!r}" for v in self.values)
        return f"{self.name}: {self.kind}({axes} | {reduction})\n{body}"


@dataclass(eq=False)
class ExternNode:
    """A call of a torch function or ATen op on buffers.

    `args` and `kwargs` are nested structures whose leaves are `Strided` windows, extents and plain constants.
    `outputs` are the buffers made (None where the op gives none). With `out` the call writes into `outputs[0]`, which
    the wrapper allocates.
    `symbols`: symbol -> position in the outputs of a number that the call gives. `mutates`: buffers written in place.
    `nest`: where each output lies in results that are nested, as positions in lists and tuples; None for a flat tuple.
    """

    name: str
    target: Callable[..., Any] | str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: list[Buffer | None]
    single: bool  # the call gives one tensor, not a tuple
    out: str | None = None  # text of the out= function, such as "torch.mm"
    fallback: bool = False
    ordered: bool = False  # draws random numbers or has effects: keeps its place among its like
    origin: tuple[str, ...] = ()
    symbols: dict[Any, int] = field(default_factory=dict)
    mutates: frozenset[str] = frozenset()
    nest: Any = None

    @property
    def read_names(self) -> set[str]:
        return {leaf.buffer.name for leaf in leaves((self.args, self.kwargs)) if isinstance(leaf, Strided)}

    @property
    def write_names(self) -> set[str]:
        return {b.name for b in self.outputs if b is not None} | self.mutates

    def __str__(self) -> str:
        made = ", ".join(str(b) for b in self.outputs)
        return f"{self.name}: {self.target}({', '.join(sorted(self.read_names))}) -> {made}"


Node = LoopNode | ExternNode


def leaves(structure: Any) -> Iterator[Any]:
    """Leaves of nested tuples, lists and dicts."""
    if isinstance(structure, (tuple, list)):
        for item in structure:
            yield from leaves(item)
    elif isinstance(structure, dict):
        for item in structure.values():
            yield from leaves(item)
    else:
        yield structure


def map_leaves(change: Callable[[Any], Any], structure: Any) -> Any:
    """The structure with `change` applied to each leaf of tuples, lists and dicts."""
    if isinstance(structure, (tuple, list)) and not isinstance(structure, torch.Size):
        return type(structure)([map_leaves(change, item) for item in structure])
    if isinstance(structure, torch.Size):
        return [change(item) for item in structure]
    if isinstance(structure, dict):
        return {key: map_leaves(change, item) for key, item in structure.items()}
    return change(structure)


def walk(values: list[Value]) -> Iterator[Value]:
    """All values of a body, those of masked regions included."""
    for value in values:
        if value.region is not None:
            yield from walk(value.region.nodes)
        yield value


@dataclass
class IRGraph:
    """A lowered graph: buffers by name, nodes in program order, what comes in and what goes out.

    `inputs` holds a buffer, a symbol, or None (unused scalar) for each argument. `outputs` holds `Strided` windows,
    extents and plain constants; `output_kind` is "single", "tuple" or "list".
    """

    buffers: dict[str, Buffer] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    inputs: list[Any] = field(default_factory=list)
    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)  # constant -> the attribute of the fx graph that it is
    outputs: list[Any] = field(default_factory=list)
    output_kind: str = "tuple"
    hints: dict[Any, int] = field(default_factory=dict)  # symbol -> typical value
    fallbacks: dict[str, int] = field(default_factory=dict)  # op -> count

    @property
    def returned(self) -> set[str]:
        """Names of the buffers that go out."""
        return {leaf.buffer.name for leaf in self.outputs if isinstance(leaf, Strided)}

    @property
    def dtypes(self) -> dict[str, torch.dtype]:
        return {name: buffer.dtype for name, buffer in self.buffers.items()}

    def __str__(self) -> str:
        return "\n".join(map(str, self.nodes))
