"""How many stack items an instruction takes: a table, for the instructions before which a frame can be cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from triptych_dynamo.bytecode.tables import FACTS
from triptych_dynamo.errors import Unsupported

if TYPE_CHECKING:
    from triptych_dynamo.bytecode import Instruction

_FIXED: dict[str, int] = {
    **dict.fromkeys(("LOAD_GLOBAL", "LOAD_FAST", "LOAD_DEREF", "LOAD_CONST", "LOAD_CLOSURE", "LOAD_BUILD_CLASS"), 0),
    **dict.fromkeys(("DELETE_FAST", "DELETE_DEREF", "DELETE_GLOBAL", "NOP", "RESUME", "JUMP_FORWARD"), 0),
    **dict.fromkeys(("LOAD_FAST_CHECK", "LOAD_ASSERTION_ERROR", "JUMP_BACKWARD", "PUSH_NULL", "WITH_EXCEPT_START"), 0),
    **dict.fromkeys(("LOAD_COMMON_CONSTANT", "NOT_TAKEN"), 0),
    **dict.fromkeys(("LOAD_ATTR", "LOAD_METHOD", "DELETE_ATTR", "GET_ITER", "FOR_ITER", "POP_TOP"), 1),
    **dict.fromkeys(("UNARY_NOT", "UNARY_NEGATIVE", "UNARY_POSITIVE", "UNARY_INVERT", "TO_BOOL"), 1),
    **dict.fromkeys(("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE"), 1),
    **dict.fromkeys(("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP", "UNPACK_SEQUENCE", "UNPACK_EX"), 1),
    **dict.fromkeys(("STORE_FAST", "STORE_GLOBAL", "STORE_DEREF", "IMPORT_FROM", "BEFORE_WITH", "RETURN_VALUE"), 1),
    **dict.fromkeys(("LIST_EXTEND", "LIST_APPEND", "SET_ADD", "SET_UPDATE", "DICT_UPDATE", "DICT_MERGE"), 1),
    **dict.fromkeys(("LIST_TO_TUPLE", "CALL_INTRINSIC_1", "FORMAT_SIMPLE", "CONVERT_VALUE", "GET_LEN"), 1),
    **dict.fromkeys(
        ("GET_YIELD_FROM_ITER", "MATCH_SEQUENCE", "MATCH_MAPPING", "END_FOR", "POP_ITER", "LOAD_SPECIAL"), 1
    ),
    **dict.fromkeys(("BINARY_OP", "COMPARE_OP", "IS_OP", "CONTAINS_OP", "BINARY_SUBSCR", "DELETE_SUBSCR"), 2),
    **dict.fromkeys(("STORE_ATTR", "IMPORT_NAME", "FORMAT_WITH_SPEC", "MAP_ADD", "CHECK_EXC_MATCH"), 2),
    **dict.fromkeys(("MATCH_KEYS", "CALL_INTRINSIC_2", "SET_FUNCTION_ATTRIBUTE"), 2),
    **dict.fromkeys(("STORE_SUBSCR", "BINARY_SLICE", "LOAD_SUPER_ATTR", "MATCH_CLASS"), 3),
    "STORE_SLICE": 4,
}
# Change of depth (past, on the way of the jump) of branches, whose names differ between versions.
BRANCH_EFFECTS: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE"), (-1, -1)),
    **dict.fromkeys(("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP"), (-1, 0)),
    "FOR_ITER": (1, -1),
}
_BY_ARG: dict[str, Callable[[int], int]] = {
    "CALL": lambda arg: arg + 2,
    "CALL_KW": lambda arg: arg + 3,
    "CALL_FUNCTION_EX": lambda arg: 4 if FACTS.null_for_keywords else 3 + (arg & 1),
    "BUILD_TUPLE": lambda arg: arg,
    "BUILD_LIST": lambda arg: arg,
    "BUILD_SET": lambda arg: arg,
    "BUILD_STRING": lambda arg: arg,
    "BUILD_SLICE": lambda arg: arg,
    "BUILD_MAP": lambda arg: 2 * arg,
    "BUILD_CONST_KEY_MAP": lambda arg: arg + 1,
    "FORMAT_VALUE": lambda arg: 2 if arg & 4 else 1,
    "RAISE_VARARGS": lambda arg: arg,
    "SWAP": lambda arg: arg,
    "COPY": lambda arg: arg,
}


def operands_of(instruction: Instruction) -> int:
    """The number of items that the instruction may change at the top of the stack.

    Raises:
        Unsupported: the instruction is no place for a cut.
    """
    if instruction.opname in _FIXED:
        return _FIXED[instruction.opname]
    by_arg = _BY_ARG.get(instruction.opname)
    if by_arg is None:
        raise Unsupported("rebuild", f"a frame cannot be cut before {instruction.opname}")
    return by_arg(instruction.arg or 0)
