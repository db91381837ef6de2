"""Differentiation that the program runs itself: `torch.autograd.grad`, `backward`, kept gradients.

A gradient is one node of the graph. `backward()` is the same node followed by what eager does with the result: the
first gradient of a leaf becomes its `.grad` with the leaf's layout, later ones are added in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from triptych_dynamo._torch_compat import transform_functions
from triptych_dynamo.guards.facts import PythonFact
from triptych_dynamo.runtime_tensors import new_leaf
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.builtin_functions import builtin
from triptych_dynamo.values.callables.builtin_methods import BuiltinMethodValue
from triptych_dynamo.values.common import is_constant_equal, none
from triptych_dynamo.values.containers import iterators
from triptych_dynamo.values.containers.sequences import ListValue
from triptych_dynamo.values.objects.classes import constructs
from triptych_dynamo.values.tensors.tensor import ATTRIBUTES, METHODS, TensorValue, is_dense

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame


def tensors_in(tx: Frame, value: Value | None) -> list[Value]:
    """The tensors of an argument that is a tensor, a sequence of tensors, or None."""
    if value is None or is_constant_equal(value, None):
        return []
    return [value] if isinstance(value, TensorValue) else iterators.items_of(tx, value)


def _fakes(values: list[Value]) -> list[torch.Tensor]:
    return [value.fake for value in values if isinstance(value, TensorValue)]


# -- torch.autograd.grad -----------------------------------------------------------------------------------------------
@builtin(torch.autograd.grad)
def _grad(
    tx: Frame, outputs: Value, inputs: Value, grad_outputs: Value | None = None, *args: Value, **kwargs: Value
) -> Value:
    """A node of the graph, where all that the gradients depend on happened inside the region."""
    tx.trace.autograd_read = True
    given, wanted = tensors_in(tx, outputs), tensors_in(tx, inputs)
    if not _in_transform(given):
        _check_history(tx, given, wanted)
        tx.trace.differentiation.taken = True
    seeds = [] if grad_outputs is None else [grad_outputs]
    return tx.call_graph(torch.autograd.grad, [outputs, inputs, *seeds, *args], kwargs)


def _in_transform(outputs: list[Value]) -> bool:
    """Whether the gradient is taken at a level of a function transform."""
    if transform_functions.maybe_current_level() is not None:
        return True
    return any(transform_functions.is_functorch_wrapped_tensor(fake) for fake in _fakes(outputs))


def _check_history(tx: Frame, outputs: list[Value], inputs: list[Value]) -> None:
    """Break where a gradient may come in from what happened before the region."""
    found = tx.trace.differentiation.reach(_fakes(outputs), _fakes(inputs))
    if found.outside and any(value.source is not None for value in inputs):
        tx.unsupported("backward", "torch.autograd.grad through what happened before the compiled region")
    for value in inputs:
        if isinstance(value, TensorValue):
            _check_hooks(tx, value)


# -- backward ----------------------------------------------------------------------------------------------------------
@builtin(torch.autograd.backward)
def _backward(
    tx: Frame,
    tensors: Value,
    grad_tensors: Value | None = None,
    retain_graph: Value | None = None,
    create_graph: Value | None = None,
    grad_variables: Value | None = None,
    inputs: Value | None = None,
) -> Value:
    """`torch.autograd.backward(tensors, ...)`."""
    roots = tensors_in(tx, tensors)
    seeds = None if grad_tensors is None or is_constant_equal(grad_tensors, None) else grad_tensors
    create = create_graph is not None and create_graph.truth(tx)
    retain = create if retain_graph is None or is_constant_equal(retain_graph, None) else retain_graph.truth(tx)
    run_backward(tx, roots, seeds, retain, create, inputs)
    return none(tx)


def _tensor_backward(tensor: TensorValue, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    names = ("gradient", "retain_graph", "create_graph", "inputs")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    seed = given.pop("gradient", None)
    if seed is not None:
        given["grad_tensors"] = seed
    return _backward(tx, tensor, **given)


def run_backward(
    tx: Frame, roots: list[Value], seeds: Value | None, retain: bool, create: bool, inputs: Value | None
) -> None:
    """Take the gradients of everything that `backward` gives one to, and store them."""
    state = tx.trace.differentiation
    tx.trace.autograd_read = True
    if _in_transform(roots):
        tx.unsupported("backward", "backward() inside a function transform")
    found = state.reach(_fakes(roots))
    if found.outside:
        tx.unsupported("backward", "backward() through what happened before the compiled region")
    if inputs is not None and not is_constant_equal(inputs, None):
        targets = tensors_in(tx, inputs)
    else:
        kept = [value for value in state.retained if value.fake.grad_fn in found.functions]
        targets = [*(state.value_of(leaf) for leaf in found.leaves), *kept]
    if not all(isinstance(target, TensorValue) for target in targets):
        tx.unsupported("backward", "backward() to what is no tensor of the region")
    for target in targets:
        _check_hooks(tx, target)
    state.taken = True
    seed_args = [] if seeds is None else [seeds if not isinstance(seeds, TensorValue) else ListValue([seeds])]
    flags = {"retain_graph": retain, "create_graph": create, "allow_unused": True}
    found_grads = tx.call_graph(torch.autograd.grad, [ListValue(roots), ListValue(targets), *seed_args], flags)
    for target, grad in zip(targets, found_grads.iterate(tx), strict=True):
        if isinstance(grad, TensorValue):
            _accumulate(tx, target, grad, create)


def _accumulate(tx: Frame, target: Value, grad: TensorValue, create: bool) -> None:
    """What eager does with the gradient of a leaf."""
    assert isinstance(target, TensorValue)
    before = target.get_attr(tx, "grad")
    if not isinstance(before, TensorValue):
        tx.trace.tensor_attributes.store(tx, target, "grad", _in_layout_of(tx, target, grad, create))
    elif create:
        tx.trace.tensor_attributes.store(tx, target, "grad", tx.call_graph(torch.add, [before, grad]))
    elif before.fake.requires_grad:
        tx.unsupported("backward", "adding to a gradient that is differentiable itself")
    else:
        tx.call_graph("add_", [before, grad])


def _in_layout_of(tx: Frame, target: TensorValue, grad: TensorValue, create: bool) -> Value:
    """The first gradient as it is stored: memory of its own, strides of the leaf."""
    strides = target.fake.stride()
    if not is_dense(target.fake):
        strides = torch.empty(target.fake.shape, device="meta").stride()
    if grad.fake.stride() == strides and not create and not tx.trace.differentiation.shares_memory(grad.fake):
        return grad
    if target.fake.is_contiguous() or not is_dense(target.fake):
        return tx.call_graph("clone", [grad], {"memory_format": torch.contiguous_format})
    order = sorted(range(len(strides)), key=lambda dim: -strides[dim])
    inner = tx.call_graph("contiguous", [tx.call_graph("permute", [grad, order])])
    back = [order.index(dim) for dim in range(len(order))]
    stored = tx.call_graph("permute", [inner, back])
    return stored if not tx.trace.differentiation.shares_memory(grad.fake) else tx.call_graph("clone", [stored])


def _has_no_hooks(obj: Any) -> bool:
    return not getattr(obj, "_backward_hooks", None) and not getattr(obj, "_post_accumulate_grad_hooks", None)


def _check_hooks(tx: Frame, value: Value) -> None:
    """Hooks that a tensor of the program carries run with its gradient: not part of a graph."""
    assert isinstance(value, TensorValue)
    if value.source is None:
        return
    if value in tx.trace.differentiation.hooked:
        tx.unsupported("backward", f"{value.source} was given a hook in the region")
    if not _has_no_hooks(tx.trace.inputs.real_tensor(value)):
        tx.unsupported("backward", f"{value.source} has hooks of its own")
    tx.guard("python", value.source, PythonFact(_has_no_hooks, f"{value.source} has no gradient hooks"))


def _retain_grad(tensor: TensorValue, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The tensor keeps its gradient: of a `backward()` in the region, and of one behind it."""
    if not tensor.fake.requires_grad:
        return tx.raise_python(RuntimeError, "can't retain_grad on Tensor that has requires_grad=False")
    if tensor.fake.is_leaf:
        return none(tx)
    if tensor.source is not None:
        return tx.unsupported("backward", "retain_grad() of a tensor from outside")
    tensor.fake.retain_grad()
    tx.trace.differentiation.retained.setdefault(tensor, tx.trace.step_of_root())
    return none(tx)


METHODS["backward"] = _tensor_backward
METHODS["retain_grad"] = _retain_grad


# -- histories as objects ----------------------------------------------------------------------------------------------
class HistoryValue(Value):
    """`tensor.grad_fn`: programs ask whether there is one."""

    def __init__(self, tensor: TensorValue) -> None:
        super().__init__()
        self.tensor = tensor

    def python_type(self) -> type:
        return type(self.tensor.fake.grad_fn)

    def truth(self, tx: Frame) -> bool:
        return True

    def get_attr(self, tx: Frame, name: str) -> Value:
        if name == "__class__":
            return super().get_attr(tx, name)
        if name == "name" and self.tensor.source is None:
            return BuiltinMethodValue(self, name)
        return tx.unsupported("backward", f"reading {name!r} of a tensor's grad_fn")

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "name" and self.tensor.source is None:
            return tx.constant(self.tensor.fake.grad_fn.name())
        if name in ("__eq__", "__ne__") and isinstance(args[0], ConstantValue):
            return ConstantValue(name == "__ne__")
        return super().call_method(tx, name, args, kwargs)

    def reconstruct(self, cg: Writer) -> None:
        cg.load(self.tensor)
        cg.load_attr("grad_fn")


def _grad_fn(tensor: TensorValue, tx: Frame) -> Value:
    return ConstantValue(None) if tensor.fake.grad_fn is None else HistoryValue(tensor)


def _output_number(tensor: TensorValue, tx: Frame) -> Value:
    """Which result of its autograd node a tensor is: outside of the region that node is another one."""
    if tensor.fake.grad_fn is not None and tensor.fake.requires_grad:
        return tx.unsupported("backward", "reading which result of its grad_fn a tensor is")
    return ConstantValue(0)


def _retains_grad(tensor: TensorValue, tx: Frame) -> Value:
    """Of a tensor from outside the real one is asked."""
    if tensor.source is None or tensor.fake.is_leaf:
        return ConstantValue(tensor.fake.retains_grad)
    answer = tx.trace.inputs.real_tensor(tensor).retains_grad
    fact = PythonFact(lambda obj: obj.retains_grad == answer, f"{tensor.source}.retains_grad is {answer}")
    tx.guard("python", tensor.source, fact)
    return ConstantValue(answer)


def _base(tensor: TensorValue, tx: Frame) -> Value:
    """`tensor._base`, where both are the region's own; of an argument it is known to be none."""
    if tensor.source is not None and not tx.trace.inputs.real_tensor(tensor)._is_view():
        tx.guard("python", tensor.source, PythonFact(_is_no_view, f"{tensor.source} is no view"))
        if not tensor.fake._is_view():
            return ConstantValue(None)
    if tensor.source is not None or (tensor.fake._is_view() and id(tensor.fake._base) not in tx.trace.graph.by_fake):
        return tx.unsupported("attribute", "reading ._base of a view from outside")
    base = tensor.fake._base
    return ConstantValue(None) if base is None else tx.trace.graph.by_fake[id(base)][1]


def _is_no_view(obj: Any) -> bool:
    return isinstance(obj, torch.Tensor) and not obj._is_view()


def _is_view(tensor: TensorValue, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return ConstantValue(not is_constant_equal(_base(tensor, tx), None))


ATTRIBUTES["grad_fn"] = _grad_fn
ATTRIBUTES["output_nr"] = _output_number
ATTRIBUTES["retains_grad"] = _retains_grad
ATTRIBUTES["_base"] = _base
METHODS["_is_view"] = _is_view


# -- parameters --------------------------------------------------------------------------------------------------------
@constructs(torch.nn.Parameter)
def _parameter(tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`nn.Parameter(data, requires_grad)`: a leaf of the graph."""
    given = {**dict(zip(("data", "requires_grad"), args, strict=False)), **kwargs}
    data = given.get("data")
    if data is None or is_constant_equal(data, None):
        data = tx.call_graph(torch.empty, [0])
    if not isinstance(data, TensorValue):
        return tx.unsupported("module-construction", "a parameter of what is no tensor")
    wanted = given["requires_grad"].truth(tx) if "requires_grad" in given else True
    made = tx.call_graph(new_leaf, [data, wanted])
    assert isinstance(made, TensorValue)
    made.cls = torch.nn.Parameter
    return made
