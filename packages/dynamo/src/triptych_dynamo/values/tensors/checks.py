"""Checks that programs make: `torch._check` and its kin, `torch._assert`, and `assert` on what only the run knows.

A check of known or guarded numbers is decided while tracing. One of a number in the graph becomes a node there, which
raises when it does not hold; the trace goes on under the condition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from triptych_dynamo._torch_compat import (
    OtherWay,
    advise_is_size,
    assert_async,
    expect_true,
    runtime_assert,
    runtime_check_size,
    runtime_check_with,
    runtime_checks,
    statically_known_true,
    symbolic_guards,
)
from triptych_dynamo.errors import Unsupported
from triptych_dynamo.values.atoms import scalars
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.atoms.symbolic import SymbolicValue
from triptych_dynamo.values.atoms.text import text_of
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables import operators
from triptych_dynamo.values.callables.builtin_functions import builtin
from triptych_dynamo.values.common import none
from triptych_dynamo.values.tensors.tensor import TensorValue

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame


def in_graph(tx: Frame, value: Value) -> bool:
    """Whether the value is a number that only the run knows."""
    return isinstance(value, SymbolicValue) and tx.trace.unbacked.is_unbacked(value.sym)


def require(tx: Frame, error: type[Exception], condition: Value, message: Value | None) -> Value:
    """`error` with the message is raised unless `condition` holds."""
    if isinstance(condition, TensorValue) or condition.python_type() is not bool:
        return _refuse(tx, condition, error)
    if in_graph(tx, condition):
        tx.trace.unbacked.require(tx, condition, error, _known_text(tx, message))  # type: ignore[arg-type]
        return none(tx)
    if isinstance(condition, SymbolicValue):
        with tx.trace.shapes.blaming(tx.user_line):
            holds = expect_true(condition.sym)
    else:
        holds = condition.truth(tx)
    return none(tx) if holds else tx.raise_python(error, _text(tx, message, error))


def _refuse(tx: Frame, condition: Value, error: type[Exception]) -> Value:
    """What torch says of a condition that is no bool."""
    stand_in = torch.ones(1) if isinstance(condition, TensorValue) else condition.python_type()()
    try:
        runtime_check_with(error, stand_in, None)
    except TypeError as refused:
        return tx.raise_python(TypeError, *refused.args)
    return tx.unsupported("truth", f"a check of {condition!r}")


def _text(tx: Frame, message: Value | None, error: type[Exception]) -> str:
    if message is not None and not (message.is_constant() and message.as_constant() is None):
        return text_of(tx, tx.call(message, [], {}), "__str__")
    try:
        runtime_check_with(error, False, None)
    except error as failed:
        return str(failed)
    return ""


def _known_text(tx: Frame, message: Value | None) -> str | None:
    """The message where it is known while tracing (it may speak of the number)."""
    try:
        return _text(tx, message, RuntimeError)
    except Unsupported:
        return None


def _register(function: Any, error: type[Exception]) -> None:
    @builtin(function)
    def check(tx: Frame, cond: Value, message: Value | None = None) -> Value:
        return require(tx, error, cond, message)


for _function, _error in runtime_checks.items():
    _register(_function, _error)


@builtin(runtime_check_with)
def _check_with(tx: Frame, error_type: Value, cond: Value, message: Value | None = None) -> Value:
    return require(tx, error_type.as_constant(), cond, message)


@builtin(runtime_check_size)
def _check_size(tx: Frame, i: Value, message: Value | None = None, *, max: Value | None = None) -> Value:
    """`torch._check_is_size`: at least 0, and treated like a size."""
    require(tx, RuntimeError, operators.compare(tx, ">=", i, ConstantValue(0)), message)
    if isinstance(i, SymbolicValue):
        advise_is_size(i.sym)
    if max is not None and not (max.is_constant() and max.as_constant() is None):
        require(tx, RuntimeError, operators.compare(tx, "<=", i, max), message)
    return none(tx)


@builtin(runtime_assert)
def _assert(tx: Frame, condition: Value, message: Value) -> Value:
    """`torch._assert`: a check in the graph for tensors and numbers of the graph, a Python assertion otherwise."""
    if isinstance(condition, TensorValue):
        return tx.call_graph(assert_async, [condition, message])
    if in_graph(tx, condition):
        return require(tx, AssertionError, condition, tx.constant(lambda: message.as_constant()))
    if condition.truth(tx):
        return none(tx)
    return tx.raise_python(AssertionError, message)


def assertion(tx: Frame, condition: Value, message: str) -> bool:
    """`assert condition, message` on what only the run knows: a check in the graph, where nothing of the program could
    tell the difference (no handler around it, no change of objects before it).

    Returns:
        whether it became one.
    """
    covered = any(frame.program.instructions[frame.position].handler is not None for frame in tx.trace.frames)
    if covered or tx.trace.effects:
        return False
    if isinstance(condition, TensorValue):
        if condition.fake.numel() != 1:
            return False
        condition = scalars.as_bool(condition, tx)
    if not in_graph(tx, condition) or condition.python_type() is not bool:
        return False
    tx.trace.unbacked.require(tx, condition, AssertionError, message)  # type: ignore[arg-type]
    return True


def goes_on(tx: Frame, condition: Value, wanted: bool) -> bool:
    """A branch on what only the run knows whose other way only raises: a check in the graph that it is not taken.

    Where it is, the graph fails and the frame runs again as plain Python, which raises what the program raises, with
    all that comes before it. So there is no check in graphs that leave the program, nor where a failed graph cannot be
    taken back (`Plan.checks_raises`).

    Returns:
        whether there is such a check, so that the truth of `condition` is `wanted`.
    """
    if tx.trace.options.exporting or not tx.trace.plan.checks_raises:
        return False
    if isinstance(condition, TensorValue):
        count = condition.fake.numel()
        if not isinstance(count, int) or count != 1 or condition.fake.device.type == "meta":
            return False
        asked = condition if wanted else tx.call_graph(torch.logical_not, [condition])
        condition = scalars.as_bool(asked, tx)  # type: ignore[arg-type]
    elif in_graph(tx, condition) and condition.python_type() is bool:
        condition = condition if wanted else tx.call(tx.wrap(torch.sym_not, None), [condition])
    if condition.is_constant():  # of a tensor that is the same in every run
        return bool(condition.as_constant())
    if not in_graph(tx, condition):
        return False
    tx.trace.unbacked.other_ways = True
    tx.trace.unbacked.require(tx, condition, OtherWay, "")  # type: ignore[arg-type]
    return True


# -- questions about symbolic numbers ----------------------------------------------------------------------------------
def _register_question(function: Any) -> None:
    @builtin(function)
    def ask(tx: Frame, condition: Value) -> Value:
        if isinstance(condition, SymbolicValue):
            return tx.constant(bool(function(condition.sym)))
        return tx.constant(condition.truth(tx))


for _function in (*symbolic_guards, statically_known_true):
    _register_question(_function)
