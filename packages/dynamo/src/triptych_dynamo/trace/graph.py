"""`GraphBuilder`: the fx graph under construction; each call is run on fake tensors and recorded."""

from __future__ import annotations

import linecache
import operator
import re
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import fx

from triptych_dynamo._torch_compat import CANNOT_FAKE, enable_python_dispatcher, tensor_version
from triptych_dynamo.trace.conflicts import conflict
from triptych_dynamo.trace.devices import note_devices
from triptych_dynamo.trace.geometry import EntryForms, Results
from triptych_dynamo.trace.list_writes import CountedWrites
from triptych_dynamo.trace.mode_facts import note_modes
from triptych_dynamo.trace.program_errors import Quietly, may_be_looked_at
from triptych_dynamo.trace.purity import has_effect
from triptych_dynamo.trace.refusals import refusal
from triptych_dynamo.trace.regions import outlined
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.results import wrap_result

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.sources import Source
    from triptych_dynamo.trace.trace import Trace

_NOT_IDENTIFIER = re.compile(r"[^0-9a-zA-Z]+")


def readable_name(source: Source) -> str:
    """An identifier made of a source: `L['self']._modules['fc']._parameters['weight']` gives `self_fc_weight`."""
    text = str(source)
    for noise in ("__dict__", "_modules", "_parameters", "_buffers"):
        text = text.replace(f"[{noise!r}]", "").replace(f".{noise}", "")
    words = [word for word in _NOT_IDENTIFIER.split(text) if word]
    if len(words) > 1 and words[0] in ("L", "G", "C"):
        words = words[1:]
    name = "_".join(words)
    return name if not name[:1].isdigit() else f"_{name}"


class GraphBuilder:
    """Builds the graph of one trace.

    `inputs` maps placeholder nodes to the sources that the compiled code loads them from, in order.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.graph = fx.Graph()
        self.inputs: dict[fx.Node, Source] = {}
        self.by_fake: dict[int, tuple[Any, Value]] = {}  # id of a fake tensor -> (it, its value)
        self.input_versions: dict[fx.Node, int] = {}
        self.entry_forms = EntryForms()
        self.modules: dict[str, fx.GraphModule] = {}  # subgraphs, by the name of the attribute that holds them
        self.calls = 0
        self.grad_enabled = False  # some call was made with gradients enabled
        self._last_input: fx.Node | None = None

    # -- inputs ------------------------------------------------------------------------------------------------------
    def add_input(self, source: Source, fake: Any) -> fx.Node:
        """A placeholder for what is read at `source`; `fake` becomes its `meta["val"]`."""
        before = self.graph._root if self._last_input is None else self._last_input
        with self.graph.inserting_after(before):
            node = self.graph.placeholder(readable_name(source))
        self._last_input = node
        node.meta["val"] = fake
        node.meta["source"] = source
        self.inputs[node] = source
        if isinstance(fake, torch.Tensor):
            self.input_versions[node] = tensor_version(fake)
            self.entry_forms.note(node, fake)
        return node

    # -- calls -------------------------------------------------------------------------------------------------------
    def call(self, tx: Frame, target: Any, args: Any, kwargs: dict[str, Any]) -> Value:
        """See `Frame.call_graph`."""
        graph_args = tuple(as_argument(tx, arg) for arg in args)
        graph_kwargs = {key: as_argument(tx, arg) for key, arg in kwargs.items()}
        fake_args = fx.node.map_arg(graph_args, fake_of)
        fake_kwargs = fx.node.map_arg(graph_kwargs, fake_of)
        operands = [node for node in _nodes_in(graph_args, graph_kwargs)]
        before = [_version(node) for node in operands]
        refused = refusal(target, fake_args, fake_kwargs) or conflict(target, fake_args, fake_kwargs)
        if refused is not None:
            tx.raise_python(type(refused), *refused.args)
        writes, given = CountedWrites(target, fake_args, fake_kwargs), Results(target, fake_args, fake_kwargs)
        try:
            result = self.run_fake(tx, target, fake_args, fake_kwargs)
        except _TruthWantedError as error:
            decided = [_decided(tx, arg) for arg in args], {name: _decided(tx, arg) for name, arg in kwargs.items()}
            if decided == (list(args), kwargs):
                tx.unsupported("graph-argument", str(error))
            return self.call(tx, target, *decided)
        writes.count()
        given.check(tx, operands, name_of(target))
        self.trace.unbacked.before_node(target)
        kind = "call_method" if isinstance(target, str) else "call_function"
        node = self.graph.create_node(kind, target, graph_args, graph_kwargs)
        node.meta["val"] = result
        node.meta["stack_trace"] = self.stack_trace()
        if has_effect(target) or before != [_version(operand) for operand in operands]:
            node.meta["effect"] = True
        self.calls += 1
        self.grad_enabled |= torch.is_grad_enabled()
        note_devices(tx, target, graph_args, graph_kwargs)
        self.trace.unbacked.after_node(node, result, name_of(target))
        self.trace.shapes.copies.note(target, fake_args, fake_kwargs, result, tx.user_line)
        return wrap_result(tx, node, result)

    def run_fake(self, tx: Frame, target: Any, args: Any, kwargs: Any) -> Any:
        """Run the function on fake tensors under the modes that the traced program has set."""
        try:
            shapes = self.trace.shapes
            with shapes.blaming(tx.user_line), enable_python_dispatcher(), shapes.fake_mode, Quietly():
                if isinstance(target, str):
                    return getattr(args[0], target)(*args[1:], **kwargs)
                return target(*args, **kwargs)
        except CANNOT_FAKE as error:
            self._cannot_fake(tx, target, error)
        except Exception as error:  # the program's own error
            if type(error) is TypeError and "not SymBool" in str(error):
                raise _TruthWantedError(str(error)) from error
            cause = error.__cause__
            if isinstance(cause, CANNOT_FAKE):
                self._cannot_fake(tx, target, cause)
            if "FakeTensor" in str(error):  # torch asked a tensor for its number: real ones have one
                tx.unsupported("data-dependent", f"{name_of(target)} of a number that a tensor holds")
            if may_be_looked_at(tx):
                tx.unsupported("tensor-error", f"{name_of(target)} raises {type(error).__name__}: {str(error)[:200]}")
            tx.raise_python(type(error), *[arg for arg in error.args if type(arg) in ConstantValue.ATOMS])

    def _cannot_fake(self, tx: Frame, target: Any, error: BaseException) -> NoReturn:
        """The function wants to know a number that only the run knows, or cannot run on shapes at all."""
        condition = getattr(error, "cond", None)
        if condition is not None:
            tx.trace.shapes.undecided(tx, condition, f"{name_of(target)} needs to know")
        tx.unsupported("fake", f"{name_of(target)}: {str(error)[:300]}")

    def item_of(self, node: fx.Node, index: int, result: Any) -> fx.Node:
        """The node of `node[index]`."""
        item = self.graph.call_function(operator.getitem, (node, index))
        item.meta["val"] = result
        item.meta["stack_trace"] = node.meta["stack_trace"]
        return item

    def stack_trace(self) -> str:
        """The traced call stack as text, outermost first, as Python prints tracebacks."""
        lines = []
        for frame in self.trace.frames:
            number = frame.line_number()
            lines.append(f'  File "{frame.code.co_filename}", line {number}, in {frame.code.co_name}')
            text = linecache.getline(frame.code.co_filename, number).strip()
            if text:
                lines.append(f"    {text}")
        return "\n".join(lines) + "\n"

    # -- finish ------------------------------------------------------------------------------------------------------
    def finish(self, outputs: list[fx.Node]) -> fx.GraphModule | None:
        """The graph that returns `outputs` as a tuple, without dead nodes; None when nothing is left to run."""
        output = self.graph.output(tuple(outputs))
        output.meta["val"] = tuple(node.meta["val"] for node in outputs)
        note_modes(self.trace)
        self.remove_dead_nodes()
        if all(node.op in ("placeholder", "output") for node in self.graph.nodes) and not outputs:
            return None
        self.entry_forms.restore()
        root = torch.nn.Module()
        for node in self.graph.find_nodes(op="get_attr"):
            root.register_module(str(node.target), self.modules[str(node.target)])
        module = fx.GraphModule(root, self.graph)
        module.meta["fake_mode"] = self.trace.shapes.fake_mode
        module.meta["owned_inputs"] = self.trace.inputs.owned
        return outlined(module)

    def remove_dead_nodes(self) -> None:
        """Erase nodes without users and without effects, then unused placeholders."""
        for node in reversed(self.graph.nodes):
            if node.users or node.op == "output" or node.meta.get("effect"):
                continue
            if node.op == "placeholder":
                self.inputs.pop(node)
            self.graph.erase_node(node)

    def mutated_inputs(self) -> list[fx.Node]:
        """Placeholders whose tensors the graph writes."""
        now, versions = self.entry_forms.now, self.input_versions
        return [node for node, version in versions.items() if tensor_version(now(node)) != version]


class _TruthWantedError(Exception):
    """A function takes no comparison of symbolic numbers where it wants True or False."""


def _decided(tx: Frame, arg: Any) -> Any:
    """An argument; for a comparison of symbolic numbers what it is in this run, guarded."""
    return ConstantValue(arg.truth(tx)) if isinstance(getattr(arg, "sym", None), torch.SymBool) else arg


def as_argument(tx: Frame, arg: Any) -> Any:
    """A value, constant or nest of them as an argument of an fx node."""
    if isinstance(arg, Value):
        return arg.as_graph_arg(tx)
    if isinstance(arg, (list, tuple)):
        items = [as_argument(tx, item) for item in arg]
        return type(arg)(*items) if hasattr(arg, "_fields") else type(arg)(items)
    if isinstance(arg, dict):
        return {key: as_argument(tx, item) for key, item in arg.items()}
    if isinstance(arg, slice):
        return slice(as_argument(tx, arg.start), as_argument(tx, arg.stop), as_argument(tx, arg.step))
    return arg


def fake_of(node: fx.Node) -> Any:
    """What a node is run with during the trace."""
    return node.meta["val"]


def name_of(target: Any) -> str:
    """A function's name for messages."""
    return target if isinstance(target, str) else getattr(target, "__qualname__", None) or str(target)


def _nodes_in(args: Any, kwargs: Any) -> list[fx.Node]:
    found: dict[fx.Node, None] = {}
    fx.node.map_arg((args, kwargs), lambda node: found.setdefault(node) or node)
    return list(found)


def _version(node: fx.Node) -> int:
    fake = node.meta["val"]
    return tensor_version(fake) if isinstance(fake, torch.Tensor) else 0
