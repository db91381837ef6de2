"""The kinds of graph break: a registry of plain data, one row a kind, each with a stable id, an explanation and
a hint.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BreakKind:
    """A row of the table; `id` is stable across releases and appears in messages."""

    name: str
    id: str
    explanation: str
    hint: str


_ROWS: tuple[tuple[str, str, str], ...] = (
    # name, explanation, hint. The id is DYN and the row number: append, never insert.
    ("opcode", "an instruction that the tracer does not interpret", "move the construct out of the compiled region"),
    (
        "call",
        "a call of something that cannot be traced",
        "mark the callee with triptych_dynamo.disable, or move it out",
    ),
    ("attribute", "an attribute that the tracer cannot read", "read it before the compiled region"),
    ("attribute-store", "an attribute that the tracer cannot set", "set it outside the compiled region"),
    ("attribute-delete", "an attribute that the tracer cannot delete", "delete it outside the compiled region"),
    ("truth", "a branch on a value that only the running program knows", "use torch.where, or move the branch out"),
    ("iterate", "iteration over an object that the tracer cannot step through", "make it a list first"),
    ("dict-key", "a dictionary key whose value the tracer does not know", "use a constant as the key"),
    ("graph-argument", "a value that cannot be an argument of a graph node", "pass tensors, numbers or nests of them"),
    (
        "graph-output",
        "a tensor function gave a result that the tracer cannot hold",
        "call it outside the compiled region",
    ),
    ("fake", "a tensor function that cannot run on shapes alone", "register a fake implementation, or move it out"),
    ("data-dependent", "a Python number that depends on tensor data", "keep it a tensor"),
    ("explicit", "graph_break() was called", ""),
    ("disabled", "the callee is marked with disable", ""),
    ("rebuild", "an object that generated code cannot build again", "do not hold it over a graph break"),
    ("backward", "autograd is run inside the compiled region", "call backward() outside of it"),
    ("random-state", "the state of a random number generator is read or set", "do it outside the compiled region"),
    ("input-output", "input or output of the program", "print and write outside the compiled region"),
    ("numpy", "a numpy object", "use torch functions"),
    ("context-manager", "a context manager that the tracer cannot enter", "enter it outside the compiled region"),
    ("generator", "a generator that the tracer cannot run", "make it a list first"),
    ("module-construction", "a module or parameter is built inside the compiled region", "build it outside"),
    ("recursion", "calls nested too deeply for the tracer", "move the recursion out of the compiled region"),
    ("import", "an import that runs module code", "import at the top of the module"),
    ("subclass", "a tensor subclass that the tracer does not model", ""),
    ("limit", "a limit of the tracer was reached", ""),
    ("class-definition", "a class is defined inside the compiled region", "define it outside"),
    ("async", "a coroutine or asynchronous generator", "await outside the compiled region"),
    ("library", "a call into a library that is not traced", ""),
    ("compare", "a comparison that the tracer cannot decide", ""),
    ("operator", "an operator on operands that the tracer does not model", ""),
    ("not-constant", "a Python value that is needed now but known only when the program runs", "make it a constant"),
    ("method", "a method that the tracer does not model", "call it outside the compiled region"),
    ("loop", "a loop that does not end while tracing", "bound the loop, or move it out of the compiled region"),
)

BREAKS: dict[str, BreakKind] = {
    name: BreakKind(name, f"DYN{number:04}", explanation, hint)
    for number, (name, explanation, hint) in enumerate(_ROWS, start=1)
}
