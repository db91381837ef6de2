"""Hooks on the tensors that autograd saves.

Which tensors are saved is a matter of whoever differentiates: the program's hooks would see others than they see in
plain Python. So a graph ends before hooks are installed, and frames under hooks that were installed inside of the
compiled callable run as they are. Forbidding hooks is a mode of the trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from triptych_dynamo._torch_compat import saved_tensor_hook_stack, saved_tensor_hook_switches
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.builtin_functions import builtin
from triptych_dynamo.values.common import constant_of, none

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame

_push, _pop = saved_tensor_hook_stack
_forbid, _allow, _ask = saved_tensor_hook_switches


@builtin(_push)
def _pushed(tx: Frame, pack: Value, unpack: Value) -> Value:
    if tx.trace.saved_tensor_hooks_message is not None:
        return tx.raise_python(RuntimeError, tx.trace.saved_tensor_hooks_message)
    return tx.unsupported("backward", "hooks on the tensors that autograd saves")


@builtin(_pop)
def _popped(tx: Frame, *args: Value) -> Value:
    return tx.unsupported("backward", "hooks on the tensors that autograd saves")


@builtin(_forbid)
def _forbidden(tx: Frame, message: Value, *args: Any) -> Value:
    tx.trace.saved_tensor_hooks_message = constant_of(tx, message, "a message")
    return none(tx)


@builtin(_allow)
def _allowed(tx: Frame) -> Value:
    tx.trace.saved_tensor_hooks_message = None
    return none(tx)


@builtin(_ask)
def _asked(tx: Frame) -> Value:
    return tx.constant(tx.trace.saved_tensor_hooks_message)
