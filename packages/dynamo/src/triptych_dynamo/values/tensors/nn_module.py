"""`torch.nn.Module` instances: objects whose parameters, buffers and submodules live in dictionaries of their own.

A call whose hook dictionaries are all empty is a call of `forward`; with hooks the module's own `_call_impl` is
inlined, so their order and meaning are torch's. Backward hooks ask autograd for the very nodes of the module's
results: where gradients are recorded, the call runs as it is and what it calls is compiled. Attribute reads go to the
dictionary that holds the name and guard what is read there, nothing else of the module.
"""

from __future__ import annotations

from collections import OrderedDict
from types import FunctionType
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.utils.hooks import BackwardHook

from triptych_dynamo.sources import ItemSource, Source
from triptych_dynamo.values import attributes
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.builtin_functions import builtin
from triptych_dynamo.values.callables.functions import wrap_function
from triptych_dynamo.values.common import is_constant_equal, none, origin_of
from triptych_dynamo.values.containers import iterators
from triptych_dynamo.values.containers.mappings import DictValue, Entry, fill
from triptych_dynamo.values.objects import instances
from triptych_dynamo.values.objects.objects import ObjectValue, attach_real
from triptych_dynamo.values.registry import wraps_if
from triptych_dynamo.values.tensors.tensor import TensorValue

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame

_TABLES = ("_parameters", "_buffers", "_modules")
_BACKWARD_HOOKS = ("_backward_hooks", "_backward_pre_hooks")
_FORWARD_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_REGISTRATION_HOOKS = {
    "_parameters": "_global_parameter_registration_hooks",
    "_buffers": "_global_buffer_registration_hooks",
    "_modules": "_global_module_registration_hooks",
}
_module_namespace = vars(torch.nn.modules.module)


class NNModuleValue(ObjectValue):
    """A module."""

    def table(self, tx: Frame, name: str) -> DictValue:
        """`self._parameters`, `self._buffers` or `self._modules`."""
        found = self.field(tx, name)
        if not isinstance(found, DictValue):
            return self.raise_absent(tx, name)  # type: ignore[return-value]
        return found

    def field(self, tx: Frame, name: str) -> Value | None:
        """The instance dictionary; a name that a table holds is not looked for there (`__setattr__` keeps them
        apart).
        """
        if self.registered_in(tx, name) is not None:
            return None
        return super().field(tx, name)

    def registered_in(self, tx: Frame, name: str) -> str | None:
        """The table that holds `name` at this point of the trace, looked up without guards."""
        assert self.fields is not None
        if name in self.fields.entries or attributes.defines(self.cls, "__setattr__") is not _module_setattr:
            return None
        for table_name in _TABLES:
            entry = self.fields.entries.get(table_name)
            if entry is not None and isinstance(entry.value, DictValue) and name in entry.value.entries:
                return table_name
        return None

    def fallback_attr(self, tx: Frame, name: str) -> Value:
        if attributes.defines(self.cls, "__getattr__") is _module_getattr:
            return self.registered(tx, name)
        return super().fallback_attr(tx, name)

    def registered(self, tx: Frame, name: str) -> Value:
        """`nn.Module.__getattr__`: the parameter, buffer or submodule `name`, or the traced AttributeError.

        Registration keeps the names of the three tables apart, so only an absent name is looked for in all of them.
        """
        home = self.registered_in(tx, name)
        for table_name in _TABLES if home is None else (home,):
            entry = self.table(tx, table_name).peek(tx, name)
            if entry is not None:
                return entry.value
        return self.raise_absent(tx, name)

    # -- stores --------------------------------------------------------------------------------------------------------
    def set_attr(self, tx: Frame, name: str, value: Value) -> None:
        if attributes.defines(self.cls, "__setattr__") is _module_setattr:
            self.register(tx, name, value)
        else:
            super().set_attr(tx, name, value)

    def register(self, tx: Frame, name: str, value: Value) -> None:
        """`nn.Module.__setattr__`."""
        home = self._home_of(tx, name, value)
        if home is None:
            self.generic_set(tx, name, value)
            return
        assert self.fields is not None
        if name in self.fields.entries:
            self.fields.remove(tx, tx.constant(name))
        value = self._registered_by_hooks(tx, home, name, value)
        for other in _TABLES:
            if other != home and self.table(tx, other).find(tx, tx.constant(name)) is not None:
                self.table(tx, other).remove(tx, tx.constant(name))
        self.table(tx, home).put(tx, tx.constant(name), value)

    def _registered_by_hooks(self, tx: Frame, home: str, name: str, value: Value) -> Value:
        """What the hooks of registrations (`register_module_parameter_registration_hook` ...) make of the value."""
        hooks = tx.trace.scope_of(_module_namespace).load(tx, _REGISTRATION_HOOKS[home])
        if not hooks.truth(tx) or (home == "_parameters" and is_constant_equal(value, None)):
            return value
        for hook in iterators.items_of(tx, hooks.call_method(tx, "values", [], {})):
            output = tx.call(hook, [self, tx.constant(name), value])
            if not is_constant_equal(output, None):
                value = output
        return value

    def _home_of(self, tx: Frame, name: str, value: Value) -> str | None:
        """The table that takes the value; None for an ordinary attribute."""
        if isinstance(value, TensorValue) and issubclass(value.cls, nn.Parameter):
            return "_parameters"
        key = tx.constant(name)
        if self.table(tx, "_parameters").find(tx, key) is not None:
            if is_constant_equal(value, None):
                return "_parameters"
            kind = torch.typename(value.python_type()) if not isinstance(value, TensorValue) else "torch.FloatTensor"
            text = f"cannot assign '{kind}' as parameter '{name}' (torch.nn.Parameter or None expected)"
            return tx.raise_python(TypeError, text)
        if issubclass(value.python_type(), nn.Module):
            return "_modules"
        if self.table(tx, "_modules").find(tx, key) is not None and is_constant_equal(value, None):
            return "_modules"
        if isinstance(value, TensorValue) and issubclass(value.cls, nn.Buffer):
            return tx.unsupported("module-construction", "assigning an nn.Buffer")
        if self.table(tx, "_buffers").find(tx, key) is not None:
            return "_buffers"
        return None

    def del_attr(self, tx: Frame, name: str) -> None:
        key = tx.constant(name)
        for table_name in _TABLES:
            if self.table(tx, table_name).find(tx, key) is not None:
                self.table(tx, table_name).remove(tx, key)
                return
        super().del_attr(tx, name)

    # -- calls ---------------------------------------------------------------------------------------------------------
    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if attributes.defines(self.cls, "__call__") is not _module_call or self.has_own(tx, "_call_impl"):
            return super().call(tx, args, kwargs)
        hooked_backward = self.has_hooks(tx, _BACKWARD_HOOKS)
        if hooked_backward and torch.is_grad_enabled():
            return tx.unsupported("backward", f"a call of a {self.cls.__name__} with backward hooks")
        if self.has_hooks(tx, _FORWARD_HOOKS) or hooked_backward:
            return tx.call(tx.wrap(nn.Module._call_impl, None), [self, *args], kwargs)
        forward = self.get_attr(tx, "forward")
        tx.pass_on(self, forward)
        return tx.call(forward, args, kwargs)

    def has_own(self, tx: Frame, name: str) -> bool:
        """Whether the class overrides a method of `nn.Module`."""
        return attributes.defines(self.cls, name) is not vars(nn.Module)[name]

    def has_hooks(self, tx: Frame, names: tuple[str, ...]) -> bool:
        """Whether any hook of these kinds would run at a call; guards that it stays so."""
        scope = tx.trace.scope_of(_module_namespace)
        for name in names:
            if scope.load(tx, f"_global{name}").truth(tx):
                return True
        return any(self._has_hook(tx, name) for name in names)

    def _has_hook(self, tx: Frame, name: str) -> bool:
        """Whether a hook dictionary has entries; of an empty one of the program only its emptiness is guarded."""
        assert self.fields is not None
        found = vars(self.real).get(name) if not self.is_new else None
        if type(found) is OrderedDict and not found and tx.source_of(found) is None and self.fields.source is not None:
            tx.guard("truth", ItemSource(self.fields.source, name), False)
            return False
        hooks = self.field(tx, name)
        return hooks is not None and hooks.truth(tx)


_module_setattr = nn.Module.__setattr__
_module_getattr = nn.Module.__getattr__
_module_call = nn.Module.__call__


@builtin(_module_setattr)
def _setattr(tx: Frame, module: Value, name: Value, value: Value) -> Value:
    """`nn.Module.__setattr__`, reached through `super()`."""
    if not isinstance(module, NNModuleValue):
        return tx.unsupported("attribute-store", f"nn.Module.__setattr__ of {module!r}")
    module.register(tx, name.as_constant(), value)
    return none(tx)


@builtin(_module_getattr)
def _getattr(tx: Frame, module: Value, name: Value) -> Value:
    """`nn.Module.__getattr__`, reached through `super()`."""
    if not isinstance(module, NNModuleValue):
        return tx.unsupported("attribute", f"nn.Module.__getattr__ of {module!r}")
    return module.registered(tx, name.as_constant())


def _autograd_nodes_of_a_call(method: FunctionType) -> None:
    """A compiled call of a hooked module itself: its hooks are put on real tensors, between graphs."""

    def stop(tx: Frame, *args: Value) -> Value:
        if torch.is_grad_enabled():
            return tx.unsupported("backward", f"{method.__qualname__} of a module with backward hooks")
        return tx.call(wrap_function(tx, method, None), list(args), {})

    builtin(method)(stop)


for _method in (BackwardHook.setup_input_hook, BackwardHook.setup_output_hook):
    _autograd_nodes_of_a_call(_method)


@instances.makes(lambda cls: issubclass(cls, nn.Module))
def _make_module(tx: Frame, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A new module: its `__init__` is inlined; one that makes parameters ends the graph there."""
    return NNModuleValue(cls)


@wraps_if(lambda obj: isinstance(obj, nn.Module), order=30)
def wrap_nn_module(tx: Frame, obj: nn.Module, source: Source | None) -> Value:
    """A module of the program."""
    source = origin_of(obj, source)
    tx.guard("type_is", source, type(obj))
    if isinstance(obj, torch.jit.ScriptModule):
        return tx.unsupported("call", "a scripted module")
    value = NNModuleValue(type(obj), source, obj)
    tx.trace.remember(obj, value)
    attach_real(tx, value, obj, source)
    attach_tables(tx, value, obj)
    return value


def attach_tables(tx: Frame, value: NNModuleValue, obj: nn.Module) -> None:
    """Give the module its tables of parameters, buffers and submodules without guards on the tables themselves."""
    assert value.fields is not None
    origin = value.fields.source
    for name in _TABLES:
        real = vars(obj).get(name)
        if origin is None or type(real) not in (dict, OrderedDict) or tx.source_of(real) is not None:
            continue
        table = fill(tx, DictValue((), ItemSource(origin, name), type(real)), real, ItemSource(origin, name))
        tx.trace.remember(real, table)
        value.fields.entries[name] = Entry(tx.constant(name), table)
