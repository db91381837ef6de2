"""Facts about the running interpreter's instruction set, one row a version.

What differs between CPython 3.11 to 3.14 is data here, so that nothing else tests the version. What the
interpreter itself says (`opcode`, `dis`) is read from it.
"""

from __future__ import annotations

import dis
import opcode
import sys
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any

OPCODES: dict[str, int] = {name: number for name, number in dis.opmap.items() if number < 256}
OPNAMES: dict[int, str] = {number: name for name, number in OPCODES.items()}


@dataclass(frozen=True)
class VersionFacts:
    """What a version does its own way."""

    null_first: bool  # a call's NULL lies under the callable (else between it and the arguments)
    name_shifts: dict[str, int]  # operands that share their number with flag bits: how many
    compare_shift: int
    directional_branches: bool  # POP_JUMP_{FORWARD,BACKWARD}_IF_* (else POP_JUMP_IF_*, which only go forward)
    call_prefix: tuple[str, ...]  # instructions with the argument count before CALL
    keyword_call: str  # "KW_NAMES": constant before the call; "CALL_KW": names on the stack
    closure_load: str  # loads a cell object itself
    method_load: bool  # LOAD_METHOD exists (else a flag of LOAD_ATTR)
    branch_needs_bool: bool  # POP_JUMP_IF_TRUE wants an exact bool: TO_BOOL comes first
    generator_entry_depth: int  # the stack depth at which a generator's code starts
    function_flags: bool  # MAKE_FUNCTION takes closure and defaults by flags (else SET_FUNCTION_ATTRIBUTE)
    fused: dict[str, tuple[str, str]] = field(default_factory=dict)  # one instruction for two neighbours
    aliases: dict[str, str] = field(default_factory=dict)  # another way to run the same instruction
    # Instructions of other versions that are an operand of one here; decoded by the name that they have there.
    spelled: dict[str, tuple[str, Hashable]] = field(default_factory=dict)
    small_ints: bool = False  # LOAD_SMALL_INT exists
    null_for_keywords: bool = False  # CALL_FUNCTION_EX takes keywords or NULL (else a flag says whether they are there)
    marks_branches: bool = False  # NOT_TAKEN follows each branch
    tagged_offsets: bool = False  # the offset that a handler finds on the stack is no object
    special_methods: bool = False  # LOAD_SPECIAL twice (else BEFORE_WITH): the `__exit__` of a `with` takes two places


_3_13 = VersionFacts(
    null_first=False,
    name_shifts={"LOAD_GLOBAL": 1, "LOAD_ATTR": 1, "LOAD_SUPER_ATTR": 2},
    compare_shift=5,
    directional_branches=False,
    call_prefix=(),
    keyword_call="CALL_KW",
    closure_load="LOAD_FAST",
    method_load=False,
    branch_needs_bool=True,
    generator_entry_depth=0,
    function_flags=False,
    fused={
        "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
        "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
        "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
    },
)
ROWS: dict[tuple[int, int], VersionFacts] = {
    (3, 11): VersionFacts(
        null_first=True,
        name_shifts={"LOAD_GLOBAL": 1},
        compare_shift=0,
        directional_branches=True,
        call_prefix=("PRECALL",),
        keyword_call="KW_NAMES",
        closure_load="LOAD_CLOSURE",
        method_load=True,
        branch_needs_bool=False,
        generator_entry_depth=1,
        function_flags=True,
    ),
    (3, 12): VersionFacts(
        null_first=True,
        name_shifts={"LOAD_GLOBAL": 1, "LOAD_ATTR": 1, "LOAD_SUPER_ATTR": 2},
        compare_shift=4,
        directional_branches=False,
        call_prefix=(),
        keyword_call="KW_NAMES",
        closure_load="LOAD_CLOSURE",
        method_load=False,
        branch_needs_bool=False,
        generator_entry_depth=1,
        function_flags=True,
    ),
    (3, 13): _3_13,
    (3, 14): replace(
        _3_13,
        # A load that borrows is right only where the compiler saw that the variable outlives the use.
        aliases={
            "LOAD_FAST_BORROW": "LOAD_FAST",
            "LOAD_FAST_BORROW_LOAD_FAST_BORROW": "LOAD_FAST_LOAD_FAST",
        },
        spelled={
            "BINARY_SUBSCR": ("BINARY_OP", "[]"),
            "LOAD_ASSERTION_ERROR": ("LOAD_COMMON_CONSTANT", AssertionError),
        },
        small_ints=True,
        null_for_keywords=True,
        marks_branches=True,
        tagged_offsets=True,
        special_methods=True,
    ),
}


def _facts() -> VersionFacts:
    running = sys.version_info[:2]
    if running not in ROWS:
        low, high = min(ROWS), max(ROWS)
        raise RuntimeError(
            f"triptych.compile is not supported on Python {running[0]}.{running[1]} "
            f"(supported: {low[0]}.{low[1]} to {high[0]}.{high[1]})"
        )
    return ROWS[running]


FACTS = _facts()


def _cache_sizes() -> dict[str, int]:
    table: Any = opcode._inline_cache_entries  # type: ignore[attr-defined]
    if isinstance(table, dict):
        return dict(table)
    return {OPNAMES[number]: size for number, size in enumerate(table) if size and number in OPNAMES}


CACHES: dict[str, int] = _cache_sizes()  # inline cache entries (code units) that follow an instruction

NAME_OPS = frozenset(dis.opname[number] for number in dis.hasname if number < 256)
CONST_OPS = frozenset(dis.opname[number] for number in dis.hasconst if number < 256)
_NOT_LOCAL = {*FACTS.fused, *FACTS.aliases, "LOAD_DEREF"}  # 3.14 counts LOAD_DEREF among the locals
LOCAL_OPS = frozenset(dis.opname[number] for number in dis.haslocal if number < 256) - _NOT_LOCAL
CELL_OPS = frozenset(
    name for name in (dis.opname[number] for number in dis.hasfree if number < 256) if not name.startswith("<")
) | {"LOAD_CLOSURE", "LOAD_DEREF"}
# Instructions that name another one, for monitoring, to which control does not go.
NOTE_OPS = frozenset(("END_ASYNC_FOR",)) & {dis.opname[number] for number in dis.hasjrel}
JUMP_OPS = frozenset(dis.opname[number] for number in dis.hasjrel if number < 256) - NOTE_OPS
# The name, on other versions, of an instruction with this operand.
NAMED_OPERANDS = {spelling: name for name, spelling in FACTS.spelled.items()}
BINARY_NAMES: tuple[str, ...] = tuple(text for _, text in opcode._nb_ops)  # type: ignore[attr-defined]
COMPARE_NAMES: tuple[str, ...] = tuple(dis.cmp_op)

_INTRINSICS = {
    f"CALL_INTRINSIC_{count}": tuple(
        getattr(dis, f"_intrinsic_{count}_descs", getattr(opcode, f"_intrinsic_{count}_descs", ()))
    )
    for count in (1, 2)
}
# Operands that index a fixed table of texts, or of objects.
TEXT_OPERANDS: dict[str, tuple[Any, ...]] = {
    "BINARY_OP": BINARY_NAMES,
    "LOAD_COMMON_CONSTANT": tuple(getattr(opcode, "_common_constants", ())),
    "LOAD_SPECIAL": tuple(getattr(opcode, "_special_method_names", ())),
    **{name: texts for name, texts in _INTRINSICS.items() if texts},
}

# Unconditional ends: control never falls through to the next instruction.
NO_FALL_THROUGH = frozenset(
    (
        "RETURN_VALUE",
        "RETURN_CONST",
        "RAISE_VARARGS",
        "RERAISE",
        "JUMP",
        "JUMP_FORWARD",
        "JUMP_BACKWARD",
        "JUMP_BACKWARD_NO_INTERRUPT",
        "INTERPRETER_EXIT",
    )
)
BRANCH_OPPOSITE = {
    "POP_JUMP_IF_TRUE": "POP_JUMP_IF_FALSE",
    "POP_JUMP_IF_FALSE": "POP_JUMP_IF_TRUE",
    "POP_JUMP_IF_NONE": "POP_JUMP_IF_NOT_NONE",
    "POP_JUMP_IF_NOT_NONE": "POP_JUMP_IF_NONE",
}


def has_plain_arg(opname: str) -> bool:
    """Whether the instruction's `arg` is a plain number (counts, flags), not an index of something."""
    indexed = NAME_OPS | CONST_OPS | LOCAL_OPS | CELL_OPS | JUMP_OPS | NOTE_OPS
    return opname not in indexed and opname not in TEXT_OPERANDS and opname != "COMPARE_OP"
