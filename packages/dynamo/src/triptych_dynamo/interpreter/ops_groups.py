"""Instructions of `except*`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from triptych_dynamo.interpreter.handlers import op
from triptych_dynamo.interpreter.ops_call import INTRINSICS
from triptych_dynamo.polyfills import groups
from triptych_dynamo.values.common import is_constant_equal

if TYPE_CHECKING:
    from triptych_dynamo.bytecode.instruction import Instruction
    from triptych_dynamo.interpreter.frame import Frame


@op("CHECK_EG_MATCH")
def check_group_match(frame: Frame, instruction: Instruction) -> None:
    """`error classes -> rest match`; without a match `error None`."""
    classes = frame.pop()
    error = frame.stack[-1]
    parts = frame.call(frame.wrap(groups.match, None), [error, classes])
    matched, rest = list(parts.iterate(frame))
    if not is_constant_equal(matched, None):
        frame.stack[-1] = rest
        frame.handled[-1] = matched
    frame.push(matched)


@op("PREP_RERAISE_STAR")
def prepare_reraise(frame: Frame, instruction: Instruction) -> None:
    """`original errors -> what goes on, or None`."""
    original, errors = frame.popn(2)
    frame.push(frame.call(frame.wrap(groups.prepare_reraise, None), [original, errors]))


INTRINSICS["INTRINSIC_PREP_RERAISE_STAR"] = prepare_reraise
