"""`torch.utils.checkpoint.checkpoint`: the function is inlined, its nodes are marked for being computed again.

A function that does more than compute (it changes objects or buffers, prints, draws numbers anew when it runs again)
does so twice in plain Python: such a checkpoint is a graph break, and runs with all that is under it as plain Python,
so that both runs of the function are the same.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import torch
import torch.utils.checkpoint
from torch import fx
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts, noop_context_fn

from triptych_dynamo._eval_frame import Unhooked
from triptych_dynamo._torch_compat import set_grad_enabled, tensor_version
from triptych_dynamo.errors import Unsupported
from triptych_dynamo.runtime_output import warn_at
from triptych_dynamo.trace.purity import draws_numbers
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.builtin_functions import BuiltinFunctionValue, builtin
from triptych_dynamo.values.callables.partials import PartialValue
from triptych_dynamo.values.common import is_constant_equal
from triptych_dynamo.values.steering.deferred import defer
from triptych_dynamo.values.tensors.tensor import TensorValue

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame

_OPTIONS = ("use_reentrant", "context_fn", "determinism_check", "debug", "early_stop", "preserve_rng_state")


@builtin(checkpoint)
def _checkpoint(tx: Frame, function: Value, *args: Value, **kwargs: Value) -> Value:
    """Values and gradients are those of the plain call. `meta["recompute"]` numbers the region a node belongs to."""
    options = {name: kwargs.pop(name) for name in _OPTIONS if name in kwargs}
    reentrant = _is_reentrant(tx, options, kwargs)
    _check_contexts(tx, options.get("context_fn"))
    without_gradients = reentrant and torch.is_grad_enabled() and not any(map(_wants_gradient, args))
    if without_gradients:
        _say(tx, torch.utils.checkpoint.check_backward_validity, ())
        tx.call_graph(set_grad_enabled, [tx.constant(False)])
    before = set(tx.trace.graph.graph.nodes)
    result = _run(tx, function, list(args), kwargs)
    made = [node for node in tx.trace.graph.graph.nodes if node not in before and node.op != "placeholder"]
    keeps_state = "preserve_rng_state" not in options or options["preserve_rng_state"].truth(tx)
    if not keeps_state and any(draws_numbers(node.target) for node in made):
        tx.unsupported("random-state", "a checkpoint that draws other numbers when it runs again")
    if without_gradients:
        tx.call_graph(set_grad_enabled, [tx.constant(True)])
    _mark(before, made)
    return result


def _mark(before: set[fx.Node], made: list[fx.Node]) -> None:
    region = 1 + max((node.meta.get("recompute", 0) for node in before), default=0)
    for node in made:
        node.meta.setdefault("recompute", region)


def _wants_gradient(value: Value) -> bool:
    return isinstance(value, TensorValue) and value.fake.requires_grad


def _run(tx: Frame, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The function's result; a break where it does not only compute."""
    frames = len(tx.trace.frames)
    nodes = [node for node in tx.trace.graph.graph.nodes if isinstance(node.meta.get("val"), torch.Tensor)]
    versions = {node: tensor_version(node.meta["val"]) for node in nodes}
    effects = tx.effects.count
    try:
        result = tx.call(function, args, kwargs)
    except Unsupported as error:
        del tx.trace.frames[frames:]
        tx.unsupported(error.kind.name, f"{error.text}, in a checkpoint")
    if tx.effects.count != effects:
        tx.unsupported("backward", "a checkpoint of a function with side effects, which has them again")
    written = {*(node for node, known in versions.items() if tensor_version(node.meta["val"]) != known)}
    if written or any(node not in versions for node in tx.trace.graph.mutated_inputs()):
        tx.unsupported("backward", "a checkpoint of a function that writes to tensors from outside, and does so again")
    return result


# -- options -----------------------------------------------------------------------------------------------------------
def _is_reentrant(tx: Frame, options: dict[str, Value], rest: dict[str, Value]) -> bool:
    """Which of the two kinds it is; what eager says to wrong options is said."""
    given = options.get("use_reentrant")
    unsaid = given is None or is_constant_equal(given, None)
    reentrant = True if unsaid else given.truth(tx)  # type: ignore[union-attr]
    context, debug = options.get("context_fn"), options.get("debug")
    if debug is not None and debug.truth(tx) and not reentrant:
        tx.unsupported("input-output", "a checkpoint that tells what it computes")
    if unsaid:
        _say(tx, checkpoint, lambda: None)
    wrong: dict[str, Any] = dict.fromkeys(rest)
    if context is not None and not _is_constant(context, noop_context_fn):
        wrong["context_fn"] = None
    if debug is not None and debug.truth(tx):
        wrong["debug"] = True
    if reentrant and wrong:
        try:
            checkpoint(lambda: None, use_reentrant=True, **wrong)
        except ValueError as error:
            tx.raise_python(ValueError, *error.args)
    return reentrant


def _say(tx: Frame, function: Any, argument: Any) -> None:
    """The warning that a function of torch gives for an argument, as one of torch's own code."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(argument)
    place = torch.utils.checkpoint.CheckpointFunction.forward.__code__
    for item in caught[:1]:
        known = [tx.constant(str(item.message)), tx.constant(item.category)]
        where = [tx.constant(place.co_filename), tx.constant(place.co_firstlineno)]
        defer(tx, tx.wrap(warn_at, None), [*known, *where, tx.trace.make_dict([])], {})


def _is_constant(value: Value, function: Any) -> bool:
    return value.is_constant() and value.as_constant() is function


def _check_contexts(tx: Frame, context: Value | None) -> None:
    """What selects the values to keep is left to who differentiates; contexts of the program run around both runs."""
    if context is None or _is_constant(context, noop_context_fn):
        return
    if isinstance(context, PartialValue) and _is_constant(context.function, create_selective_checkpoint_contexts):
        return
    tx.unsupported("context-manager", "contexts of the program around a checkpoint")


# -- as plain Python ---------------------------------------------------------------------------------------------------
class AloneValue(Value):
    """A callable under which no frame is compiled."""

    def __init__(self, function: Value) -> None:
        super().__init__()
        self.function = function

    def python_type(self) -> type:
        return Unhooked

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(Unhooked)
        cg.load(self.function)
        cg.call(1)


def runs_alone(value: Value) -> bool:
    """Whether an operand of a call that ends a graph is a checkpoint."""
    if isinstance(value, PartialValue):
        return runs_alone(value.function)
    return isinstance(value, BuiltinFunctionValue) and value.obj is checkpoint
