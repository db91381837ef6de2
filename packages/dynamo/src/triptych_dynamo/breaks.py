"""The kinds of graph break: a registry of plain data. Each has a number that is stable across releases.

`docs/graph_breaks.md` is written from this table by `python -m tools.graph_breaks`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

DOCUMENT = "docs/graph_breaks.md"


@dataclass(frozen=True)
class BreakKind:
    """A kind of graph break.

    Attributes:
        name: a word for it, used in the code.
        id: its number, such as "DYN0006"; it appears in messages.
        explanation: what the program does there, and why no graph holds it.
        hint: what the user can do.
        example: a line of a program that breaks in this way.
    """

    name: str
    id: str
    explanation: str
    hint: str
    example: str = ""


class _Row(NamedTuple):
    name: str
    explanation: str
    hint: str
    example: str = ""


# The number of a row is its place: append, never insert, never remove.
_ROWS: tuple[_Row, ...] = (
    _Row(
        "opcode",
        "The function contains an instruction that the tracer does not interpret.",
        "move the construct out of the compiled region",
    ),
    _Row(
        "call",
        "Something is called that cannot be traced: it is written in C or it is an object of an unknown kind, and it "
        "is not a function of tensors that could be put into the graph as it is.",
        "call it outside of the compiled region; mark it with triptych_dynamo.disable if the break is meant; give a "
        "Python form of it with substitute_in_graph, or put it into the graph with allow_in_graph",
        "ctypes.string_at(address)",
    ),
    _Row(
        "attribute",
        "An attribute is read that the tracer cannot read: C code computes it, or its value depends on the run.",
        "read the attribute before the compiled region and pass its value in",
        "x.data_ptr()",
    ),
    _Row(
        "attribute-store",
        "An attribute is set on an object whose changes the tracer cannot record and replay.",
        "set the attribute outside of the compiled region",
    ),
    _Row(
        "attribute-delete",
        "An attribute is deleted from an object whose changes the tracer cannot record and replay.",
        "delete the attribute outside of the compiled region",
    ),
    _Row(
        "truth",
        "The program branches on a value that only the running program knows, mostly the content of a tensor. Which "
        "way it goes is decided by running it.",
        "use torch.where or torch.cond where both ways can be computed; move the branch out; or keep it: the graph "
        "ends here and goes on behind the branch",
        "if x.sum() > 0: ...",
    ),
    _Row(
        "iterate",
        "The program iterates over an object that the tracer cannot step through.",
        "make it a list before the compiled region",
        "for line in open(path): ...",
    ),
    _Row(
        "dict-key",
        "A dictionary or set is asked for a key whose hash and equality the tracer does not know.",
        "use a constant, a tuple of constants or an object that compares by identity as the key",
    ),
    _Row(
        "graph-argument",
        "A tensor function is given an argument that a graph node cannot hold.",
        "pass tensors, numbers, strings, dtypes, devices, or lists, tuples and dicts of those",
    ),
    _Row(
        "graph-output",
        "A tensor function gave something else than tensors, numbers and nests of them, or resizes one it is given.",
        "call it outside of the compiled region",
    ),
    _Row(
        "fake",
        "A tensor function cannot run on shapes alone, so the tracer does not know the shape of its result.",
        "register a fake implementation with torch.library.register_fake, or call it outside of the compiled region",
    ),
    _Row(
        "data-dependent",
        "A Python number, or the size of a tensor, depends on the content of a tensor.",
        "keep it a tensor; or promise bounds with torch._check; or move it out of the compiled region",
        "n = int(x.max())",
    ),
    _Row(
        "explicit",
        "The program asked for a break: graph_break() was called.",
        "remove the call when the break is not wanted any more",
        "triptych_dynamo.graph_break()",
    ),
    _Row(
        "disabled",
        "A callable was called that is marked with disable: it runs as plain Python.",
        "remove the mark, or call it before or behind the compiled region",
        "save_checkpoint(model)  # marked with triptych_dynamo.disable",
    ),
    _Row(
        "rebuild",
        "An object that the program made while it was traced is still in use where the graph ends, and the code after "
        "the graph cannot make it again.",
        "do not hold the object over a graph break: make it behind the break, or remove the break",
    ),
    _Row(
        "backward",
        "Autograd is run inside of the compiled region in a form that one graph does not hold.",
        "call backward() or torch.autograd.grad outside of the compiled region",
    ),
    _Row(
        "random-state",
        "Random numbers come from a generator that a graph does not draw from: Python's, numpy's, one of the program.",
        "draw the numbers outside of the compiled region, or from torch's own generator",
        "random.random()",
    ),
    _Row(
        "input-output",
        "The program reads or writes something outside of itself: a file, the terminal, the clock.",
        "print, read and write outside of the compiled region; logging and warnings do not break",
        "input()",
    ),
    _Row(
        "numpy",
        "A numpy function or array is used that has no counterpart among tensors.",
        "use torch functions in its place",
    ),
    _Row(
        "context-manager",
        "A context manager is entered or left that the tracer cannot enter or leave.",
        "enter it outside of the compiled region",
    ),
    _Row(
        "generator",
        "A generator is used in a way that the tracer does not follow.",
        "make it a list before it is used",
    ),
    _Row(
        "module-construction",
        "A module or a parameter is made inside of the compiled region.",
        "build modules and parameters outside of the compiled region",
        "torch.nn.Linear(3, 3)(x)",
    ),
    _Row(
        "recursion",
        "Calls are nested too deeply for the tracer, which runs inside of Python's own limit.",
        "turn the recursion into a loop, or move it out of the compiled region",
    ),
    _Row(
        "import",
        "A module is imported that was not imported before, so its code would run.",
        "import it at the top of the file",
    ),
    _Row(
        "subclass",
        "A subclass of Tensor is used whose operations the tracer does not model.",
        "unwrap it before the compiled region and wrap the result behind it",
    ),
    _Row(
        "limit",
        "A limit of the tracer was reached: the program is too long to be one graph.",
        "compile a smaller part of the program",
    ),
    _Row(
        "class-definition",
        "A class is defined in a way that the tracer does not follow.",
        "define the class outside of the compiled region",
        "class Local: ...",
    ),
    _Row(
        "async",
        "A coroutine or an asynchronous generator is made or awaited.",
        "await outside of the compiled region",
        "await fetch(x)",
    ),
    _Row(
        "library",
        "A function of a library is called that is not traced, and whose results are not known to be constant.",
        "call it outside of the compiled region",
    ),
    _Row(
        "compare",
        "Two objects are compared whose comparison the tracer cannot decide.",
        "compare numbers, strings or containers of them; or compare with `is`",
    ),
    _Row(
        "operator",
        "An operator is applied to operands for which the tracer has no model.",
        "apply it outside of the compiled region",
    ),
    _Row(
        "not-constant",
        "A Python value is needed while the graph is made, and only the running program knows it.",
        "pass a constant",
    ),
    _Row(
        "method",
        "A method is called that the tracer does not model.",
        "call it outside of the compiled region",
    ),
    _Row(
        "loop",
        "A loop does not end while it is traced: what ends it depends on the run.",
        "bound the loop, or move it out of the compiled region",
        "while True: ...",
    ),
    _Row(
        "higher-order",
        "The body of an operator such as torch.cond does what a subgraph cannot hold, or the operator is not modelled.",
        "let the body compute new tensors from its arguments and from what it closes over, and return them",
        "torch.cond(p, lambda x: x.add_(1), lambda x: x - 1, (x,))",
    ),
    _Row(
        "tensor-error",
        "A tensor function refuses its arguments where a `try` or `with` block is open: the program may look at the "
        "error, which has its exact text only when the function runs.",
        "check the arguments before the call; nothing is lost where this is rare",
        "try: x + y  # of sizes that do not fit",
    ),
    _Row(
        "native-error",
        "Code of the program that runs as it is while the frame is traced, such as the `__eq__` of a key or a "
        "`__subclasscheck__`, raises. Plain Python runs it again, and its error is the program's.",
        "nothing, if the program means to raise here; else look at the error that the text names",
        "isinstance(x, Checked)  # whose metaclass raises",
    ),
)

BREAKS: dict[str, BreakKind] = {
    row.name: BreakKind(row.name, f"DYN{number:04}", row.explanation, row.hint, row.example)
    for number, row in enumerate(_ROWS, start=1)
}
