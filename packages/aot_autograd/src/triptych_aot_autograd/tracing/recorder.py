"""The recorder: a dispatch mode below autograd that writes each ATen op into an fx graph.

`Recorder` sees every op that the traced function (and autograd's engine, for the backward) runs on traced tensors.
For each it finds the
result's metadata, records one node, and hands back traced tensors. Writing ops are recorded as their functional
partners.
What kind of op it is (`KINDS`) is found once for each op.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, Node

from triptych_aot_autograd import _torch_compat as compat
from triptych_aot_autograd.errors import AotError, UnsupportedOperationError
from triptych_aot_autograd.tracing import mutable_ops, special_ops
from triptych_aot_autograd.tracing.facts import Facts, FactsTable, TracedTensor, new_traced, new_view
from triptych_aot_autograd.tracing.metadata import Metadata
from triptych_aot_autograd.tracing.provenance import Provenance, user_line
from triptych_aot_autograd.tracing.storages import adopt, adopt_view, change_metadata, current_value, write
from triptych_aot_autograd.tracing.symbols import SYMBOLIC, SymbolTable
from triptych_aot_autograd.tracing.views import ViewStep, single_output_step

aten = torch.ops.aten
NUMBERS = (int, float, bool)
SERIAL = "serial"  # in a node's meta: as how many-th op it was recorded
CONSTANT_TYPES = (
    int,
    float,
    bool,
    complex,
    str,
    torch.dtype,
    torch.device,
    torch.memory_format,
    torch.layout,
    type(None),
)


class Recorder(compat.TorchDispatchMode):
    """One trace. `graph` grows as ops arrive; `constants` are real tensors met on the way, by attribute name."""

    supports_higher_order_operators = True  # they arrive here, and are refused with a reason

    def __init__(
        self, fake_mode: Callable[[], compat.FakeTensorMode], decompositions: dict[Any, Any] | None = None
    ) -> None:
        super().__init__()
        self.graph = Graph()
        self.fake_mode = fake_mode
        self.facts = FactsTable()
        self.metadata = Metadata(self.facts, fake_mode)
        self.provenance = Provenance()
        self.symbols = SymbolTable(self.graph)
        self.decompositions = dict(decompositions or {})
        self.constants: dict[str, torch.Tensor] = {}
        self.ops = 0
        self._constant_of: dict[int, TracedTensor] = {}
        self._kinds: dict[Any, Callable[..., Any]] = {}
        self._names: dict[Any, str] = {}
        self._views = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No wrapper around the dispatch function: it would import the compiler that is in torch itself."""
        return False

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Not a mode of the user's."""
        return True

    # -- entry ---------------------------------------------------------------------------------------------------------
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.dispatch(func, args, kwargs or {})

    def dispatch(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Record `func(*args, **kwargs)` and give its traced results."""
        kind = self._kinds.get(func)
        try:
            if kind is None:
                kind = self._kinds[func] = self._kind_of(func)
            return kind(func, args, kwargs)
        except AotError as error:
            if not error.user_line:
                line = user_line(self.provenance.origin())
                raise type(error)(str(error), line) from error
            raise

    def __call__(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        """Record an op of functionalisation's own."""
        return self.dispatch(func, args, kwargs)

    def _kind_of(self, func: Any) -> Callable[..., Any]:
        if not isinstance(func, compat.OpOverload):
            raise UnsupportedOperationError(f"{func}: higher-order ops cannot be traced")
        if func in self.decompositions:
            return self._decompose
        if func in special_ops.RULES:
            rule = special_ops.RULES[func]
            return lambda func, args, kwargs: rule(self, func, args, kwargs)
        if func._schema.is_mutable:
            return self._metadata_write if torch.Tag.inplace_view in func.tags else self._write
        if compat.has_composite_kernel(func) and not compat.has_meta_kernel_of_its_own(func):
            return self._composite
        return self._view if func.is_view else self._functional

    # -- kinds ---------------------------------------------------------------------------------------------------------
    def _decompose(self, func: Any, args: Any, kwargs: Any) -> Any:
        with compat.below_autograd(), self:
            result = self.decompositions[func](*args, **kwargs)
        if result is NotImplemented:
            kind = special_ops.RULES.get(func)
            return kind(self, func, args, kwargs) if kind else self._functional(func, args, kwargs)
        return result

    def _composite(self, func: Any, args: Any, kwargs: Any) -> Any:
        with compat.below_autograd(), self:
            return func.decompose(*args, **kwargs)

    def _functional(self, func: Any, args: Any, kwargs: Any) -> Any:
        template, node = self.record(func, args, kwargs)
        if type(template) is Facts:
            if template.symbolic:
                self.symbols.bind_new_sizes(template.size, node)
            result = adopt(new_traced(template), template, node)
            if args and (type(args[0]) in NUMBERS or getattr(args[0], "_constant", None) is not None):
                special_ops.fold_literals(result, func, args, kwargs)
            return result
        return self.wrap(template, node)

    def _view(self, func: Any, args: Any, kwargs: Any) -> Any:
        template, node = self.record(func, args, kwargs)
        source = args[0] if isinstance(args[0], TracedTensor) else self.as_traced(args[0])
        grad_mode = torch.is_grad_enabled()
        if type(template) is Facts:
            step = ViewStep(func, tuple(args[1:]), kwargs, source._facts, template, grad_mode)
            return adopt_view(new_view(template, source), template, node, source, step)
        views = []
        for index, facts in enumerate(template):
            single, rest = single_output_step(func, args, index)
            step = ViewStep(single, rest, {}, source._facts, facts, grad_mode)
            views.append(adopt_view(new_view(facts, source), facts, self._item(node, index, facts), source, step))
        return views if isinstance(template, list) else tuple(views)

    def _write(self, func: Any, args: Any, kwargs: Any) -> Any:
        partner = mutable_ops.partner(func)
        names = [a.name for a in func._schema.arguments]

        def argument(position: int) -> Any:
            return args[position] if position < len(args) else kwargs.get(names[position])

        kept_args = [a for a, name in zip(args, names, strict=False) if name not in partner.dropped]
        kept_kwargs = {name: value for name, value in kwargs.items() if name not in partner.dropped}
        given = names[: len(args)]
        kept_kwargs.update(
            {name: value for name, value in partner.defaults if name not in kwargs and name not in given}
        )
        result = self.dispatch(partner.func, kept_args, kept_kwargs)
        results = (
            list(result) if isinstance(result, (tuple, list)) and len(partner.func._schema.returns) > 1 else [result]
        )
        for position, value in zip(partner.written, results[partner.plain_results :], strict=True):
            self._write_argument(func, argument(position), value)
        plain = iter(results[: partner.plain_results])
        returned = [argument(r) if r is not None else next(plain) for r in partner.returns]
        return returned[0] if len(returned) == 1 else (tuple(returned) if returned else None)

    def _write_argument(self, func: Any, target: Any, value: Any) -> None:
        if isinstance(target, (list, tuple)):
            for one, new in zip(target, value, strict=True):
                self._write_argument(func, one, new)
                if not one.is_inference():
                    torch.autograd.graph.increment_version(one)  # autograd does not count for lists of tensors
        elif target is not None:
            special_ops.assign(self, func, self.as_traced(target), value)

    def _metadata_write(self, func: Any, args: Any, kwargs: Any) -> Any:
        partner = mutable_ops.partner(func)
        target = args[0]
        view = self.dispatch(partner.func, args, kwargs)
        change_metadata(target, view, func, tuple(args[1:]), kwargs)
        compat.set_geometry(target, view)
        return target

    # -- recording -----------------------------------------------------------------------------------------------------
    def record(self, func: Any, args: Any, kwargs: Any) -> tuple[Any, Node]:
        """Infer the result's template and record the node."""
        self.ops += 1
        key: list[Any] = [func]
        args = [self._prepare(a) for a in args] if self._has_foreign(args) else args
        node_args = tuple([self._argument(a, key) for a in args])
        node_kwargs = {}
        for name, value in kwargs.items():
            key.append(name)
            node_kwargs[name] = self._argument(value, key)
        template = self.metadata.infer(func, args, kwargs, tuple(key))
        name = self._names.get(func) or self._names.setdefault(func, func._schema.name.split("::")[1])
        node = self.graph.create_node("call_function", func, node_args, node_kwargs, name)
        meta = node.meta
        meta.update(self.provenance.origin())
        meta["phase"] = self.provenance.phase
        meta["facts"] = template
        meta[SERIAL] = self.ops
        return template, node

    def _has_foreign(self, args: Any) -> bool:
        for arg in args:
            if isinstance(arg, torch.Tensor):
                if type(arg) is not TracedTensor:
                    return True
            elif type(arg) in (list, tuple) and self._has_foreign(arg):
                return True
        return False

    def _prepare(self, arg: Any) -> Any:
        if isinstance(arg, torch.Tensor):
            return self.as_traced(arg)
        return [self._prepare(a) for a in arg] if type(arg) in (list, tuple) else arg

    def _argument(self, arg: Any, key: list[Any]) -> Any:
        """The argument as the node has it; appends to `key` what tells it apart for metadata."""
        kind = type(arg)
        if kind is TracedTensor:
            key.append(arg._facts)
            if arg._generation == arg._storage.generation:
                return arg._value
            return current_value(arg, self)
        if kind is list or kind is tuple:
            key.append((kind, len(arg)))
            return [self._argument(a, key) for a in arg]
        if kind in SYMBOLIC:
            key.append((kind, arg.node.expr))
            return self.symbols.node_of(arg)
        if isinstance(arg, torch.Tensor):
            return self._argument(self.as_traced(arg), key)
        if isinstance(arg, torch.Size):
            return self._argument(tuple(arg), key)
        if isinstance(arg, CONSTANT_TYPES):
            key.append((kind, arg))
            return arg
        if isinstance(arg, torch.Generator):
            raise UnsupportedOperationError("an explicit torch.Generator cannot be part of a graph")
        raise UnsupportedOperationError(f"an argument of type {kind.__name__} cannot be part of a graph")

    def wrap(self, template: Any, node: Node) -> Any:
        """Traced tensors for a result template; items of lists and tuples become `getitem` nodes."""
        if type(template) is Facts:
            if template.symbolic:
                self.symbols.bind_new_sizes(template.size, node)
            return adopt(new_traced(template), template, node)
        if isinstance(template, (list, tuple)):
            parts = [self.wrap(t, self._item(node, i, t)) if t is not None else None for i, t in enumerate(template)]
            return type(template)(parts)
        if isinstance(template, SYMBOLIC):
            node.meta["val"] = template
            self.symbols.bind_number(template, node)
        return template

    def _item(self, node: Node, index: int, template: Any) -> Node:
        item = self.graph.create_node("call_function", operator.getitem, (node, index), {})
        item.meta.update({k: v for k, v in node.meta.items() if k != "facts"})
        item.meta["facts"] = template
        return item

    def handle(self, facts: Facts, node: Node) -> TracedTensor:
        """A traced tensor for a value that is in the graph already."""
        return adopt(new_traced(facts), facts, node)

    def as_traced(self, tensor: torch.Tensor) -> TracedTensor:
        """`tensor`, or a graph constant for a real tensor that the function met outside its inputs."""
        if type(tensor) is TracedTensor:
            return tensor
        known = self._constant_of.get(id(tensor))
        if known is None:
            known = self._constant_of[id(tensor)] = self._new_constant(tensor)
        return known

    def _new_constant(self, tensor: torch.Tensor) -> TracedTensor:
        if tensor.requires_grad:
            raise UnsupportedOperationError(
                "the function uses a tensor that requires grad and is not among its inputs: pass it as an argument"
            )
        if isinstance(tensor, compat.FakeTensor):
            raise UnsupportedOperationError("the function uses a fake tensor that is not among its inputs")
        name = f"_constant{len(self.constants)}"
        self.constants[name] = tensor
        node = self.graph.create_node("get_attr", name, (), {})
        facts = self.facts.of(tensor)
        node.meta.update(facts=facts, phase=self.provenance.phase)
        traced = self.handle(facts, node)
        traced._constant = tensor if tensor.numel() == 1 and tensor.device.type == "cpu" else None
        return traced

    def write(self, tensor: TracedTensor, value: TracedTensor) -> None:
        """All elements of `tensor` become those of `value`."""
        write(tensor, value, self)
