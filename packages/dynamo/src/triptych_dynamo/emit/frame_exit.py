"""How a compiled frame ends: it returns, or it stops before an instruction that runs as plain Python and goes on
behind it.

Both are the same code up to the end: call the graph, evaluate what is needed, replay effects. `FrameCode` assembles it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import CellType, CodeType
from typing import TYPE_CHECKING, Any

from torch import fx

from triptych_dynamo.bytecode import Instruction, analysis, assemble, build
from triptych_dynamo.emit.continuation import Layout, free_names_of, parameter_fields
from triptych_dynamo.emit.kept_objects import forget_locals, keep_in_cells
from triptych_dynamo.emit.own_cells import with_own_reads
from triptych_dynamo.emit.recovery import Failed, Recovery
from triptych_dynamo.emit.writer import Usage, Writer, output_name
from triptych_dynamo.errors import RestartTrace, Unsupported
from triptych_dynamo.interpreter.program import program_of
from triptych_dynamo.trace.failures import Failing
from triptych_dynamo.trace.faults import FaultsNamed
from triptych_dynamo.trace.modes import MODE_SETTERS

if TYPE_CHECKING:
    from triptych_dynamo.sources import Source
    from triptych_dynamo.trace.trace import Trace
    from triptych_dynamo.values.base import Value

GraphCompiler = Callable[[fx.GraphModule], Callable[..., Any]]


@dataclass(frozen=True)
class CodeShape:
    """Parameters and closure of the emitted code."""

    origin: CodeType
    parameters: tuple[str, ...]
    free: tuple[str, ...]
    cells: tuple[str, ...] = ()  # cells that the code makes itself

    @classmethod
    def of(cls, layout: Layout, makes_cells: bool) -> CodeShape:
        """The shape for a frame that begins as `layout` says; only code that goes on in the frame needs its cells."""
        origin = layout.origin
        if not layout.is_start:
            return cls(origin, layout.parameters, free_names_of(origin))
        cells = first_cells(origin) if makes_cells else ()
        return cls(origin, parameters_of(origin), origin.co_freevars, cells)

    def assemble(self, instructions: list[Instruction]) -> tuple[CodeType, tuple[CellType, ...]]:
        """The code object, and the cells that its closure has behind `free`."""
        rows = [*build.prologue(self.cells, len(self.free)), *forget_locals(instructions, self.cells)]
        given = [name for name in self.origin.co_cellvars if name in self.free]
        rows = with_own_reads(analysis.remove_unreachable(rows), given)
        names, kept = keep_in_cells(rows)
        fields = parameter_fields(self.origin, self.parameters, (*self.free, *names))
        if self.cells:
            fields["co_cellvars"] = self.origin.co_cellvars
        first_line = (self.origin.co_firstlineno, self.origin.co_firstlineno, 0, 0)
        for row in rows:
            row.position = row.position or first_line
        return assemble(rows, self.origin, **fields), kept


def parameters_of(code: CodeType) -> tuple[str, ...]:
    """Every parameter, `*args` and `**kwargs` included, in the order of the frame's slots."""
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[:count]


def first_cells(code: CodeType) -> tuple[str, ...]:
    """The cells that the code makes at its start."""
    names = []
    for row in program_of(code).instructions:
        if row.opname == "RESUME":
            break
        if row.opname == "MAKE_CELL":
            names.append(row.argval)
    return tuple(names)


class FrameCode:
    """Writes the code of one traced frame.

    Args:
        trace: the finished trace.
        shape: parameters and closure.
        compile_graph: gives the callable for the finished graph.
        failed: see `Recovery`.
    """

    def __init__(self, trace: Trace, shape: CodeShape, compile_graph: GraphCompiler, failed: Failed) -> None:
        self.trace = trace
        self.shape = shape
        self.compile_graph = compile_graph
        self.failed = failed
        self.graph_module: fx.GraphModule | None = None

    def write(self, body: Callable[[Writer], None]) -> tuple[CodeType, tuple[CellType, ...]]:
        """Run `body` twice (counting, emitting) around the compiled graph and assemble the result: code and cells."""
        cells = frozenset((*self.shape.free, *self.shape.cells))
        counting = Writer(self.trace, cells)
        with FaultsNamed(self.trace):
            body(counting)
        self._check_generators(counting)
        outputs = list(counting.usage.outputs)
        self.trace.differentiation.check_outputs(outputs)
        self.trace.shapes.copies.decide(outputs, list(self.trace.graph.inputs))
        self.graph_module = self.trace.graph.finish(outputs)
        if self.graph_module is not None:
            for source in self.trace.graph.inputs.values():
                counting.load_source(source)
        writer = Writer(self.trace, cells, counting.usage)
        handler = [] if self.graph_module is None else self._call_graph(writer, counting.usage)
        with FaultsNamed(self.trace):
            body(writer)
        writer.emit(handler)
        return self.shape.assemble(writer.code)

    def _check_generators(self, counting: Writer) -> None:
        """Generators that are dropped while they stand in a `try` or `with` block would have to be closed."""
        for generator in self.trace.generators:
            if generator.has_an_end_to_run and generator not in counting.usage.values:
                error = Unsupported("generator", "a generator is dropped inside of a try or with block of it")
                error.step = generator.made_at
                raise error

    def _check_other_ways(self, module: fx.GraphModule) -> None:
        """Where a graph that fails cannot be taken back, branches that raise have to end it.

        Raises:
            RestartTrace: they do, next time.
        """
        if self.trace.unbacked.other_ways and not Failing(self.trace, module).leaves_nothing:
            self.trace.plan.checks_raises = False
            raise RestartTrace

    def _call_graph(self, writer: Writer, usage: Usage) -> list[Instruction]:
        """Emit the call; what is to follow all other code is returned."""
        assert self.graph_module is not None
        self._check_other_ways(self.graph_module)
        compiled = self.compile_graph(self.graph_module)
        sources: list[Source] = list(self.trace.graph.inputs.values())
        recovery = Recovery(self.trace, self.graph_module, compiled, self.failed)
        recovery.emit_note(writer)
        writer.load_object(compiled)
        for source in sources:
            writer.load_source(source)
        count = len(sources)
        if takes_list(compiled):
            writer.build("LIST", count)
            count = 1
        start = len(writer.code) - 1  # 3.13 looks one step before a call for who handles what its callee raises
        writer.call(count)
        handler = recovery.handler(writer.code[start:])
        writer.emit(build.unpack(len(usage.outputs)) if usage.outputs else build.pop())
        for index in range(len(usage.outputs)):
            writer.emit(build.store_fast(output_name(index)))
        return handler


def takes_list(compiled: Callable[..., Any]) -> bool:
    """Whether a graph's callable takes its arguments as one list, which it may empty.

    The mark alone does not say so: wrappers that take `*args` carry it over from what they wrap.
    """
    if not getattr(compiled, "_boxed_call", False):
        return False
    try:
        parameters = list(inspect.signature(compiled).parameters.values())
    except (TypeError, ValueError):  # a callable of an extension module
        return True
    return len(parameters) == 1 and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL


def return_body(value: Value) -> Callable[[Writer], None]:
    """The end of a frame that returns `value`."""

    def body(cg: Writer) -> None:
        if cg.trace.effects:
            cg.replay_effects([value])
            set_modes(cg)
            cg.load(value)
        else:
            set_modes(cg)
            cg.load(value)
            if cg.has_later:
                cg.replay_effects([])
        cg.emit(build.return_value())

    return body


def set_modes(cg: Writer) -> None:
    """Set the modes that the program leaves changed."""
    for name, state in cg.trace.final_modes.items():
        cg.load_object(MODE_SETTERS[name])
        cg.load_const(state)
        cg.call(1)
        cg.pop()
