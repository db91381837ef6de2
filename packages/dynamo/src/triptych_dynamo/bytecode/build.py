"""Short instruction sequences by meaning, the same calls on every version.

Each function gives new instructions; the docstring is the stack contract, top of stack on the right:
`a b -> c` takes `b` then `a` and leaves `c`. NULLs that calls want are put in place here: no caller handles them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

from triptych_dynamo.bytecode.decode import decode
from triptych_dynamo.bytecode.instruction import Instruction
from triptych_dynamo.bytecode.tables import BINARY_NAMES, COMPARE_NAMES, FACTS, OPCODES

Code = list[Instruction]


def one(opname: str, argval: Any = None, arg: int | None = None, flags: int = 0) -> Instruction:
    """A single instruction, `arg` being a plain number."""
    return Instruction(opname, arg, arg if argval is None else argval, flags)


# -- variables -------------------------------------------------------------------------------------------------------
def load_fast(name: str) -> Code:
    """`-> value` of a local (UnboundLocalError when it is not set)."""
    return [one("LOAD_FAST_CHECK" if "LOAD_FAST_CHECK" in OPCODES else "LOAD_FAST", name)]


def load_set_fast(name: str) -> Code:
    """`-> value` of a local that is known to be set."""
    return [one("LOAD_FAST", name)]


def store_fast(name: str) -> Code:
    """`value ->`."""
    return [one("STORE_FAST", name)]


def delete_fast(name: str) -> Code:
    """`->`; the local must be set."""
    return [one("DELETE_FAST", name)]


def load_const(value: Any) -> Code:
    """`-> value`. Any object will do, but the garbage collector does not see into code objects: pass what may lead back
    to the code through a cell instead."""
    return [Instruction("LOAD_CONST", None, value)]


def load_global(name: str) -> Code:
    """`-> value` of a global or builtin."""
    return [one("LOAD_GLOBAL", name)]


def store_global(name: str) -> Code:
    """`value ->`."""
    return [one("STORE_GLOBAL", name)]


def delete_global(name: str) -> Code:
    """`->`."""
    return [one("DELETE_GLOBAL", name)]


def load_deref(name: str) -> Code:
    """`-> content` of a cell or free variable."""
    return [one("LOAD_DEREF", name)]


def store_deref(name: str) -> Code:
    """`content ->`."""
    return [one("STORE_DEREF", name)]


def delete_deref(name: str) -> Code:
    """`->`; empties the cell."""
    return [one("DELETE_DEREF", name)]


def load_cell(name: str) -> Code:
    """`-> cell`: the cell object itself of a cell or free variable."""
    return [one("LOAD_CLOSURE", name)]


# -- attributes and items --------------------------------------------------------------------------------------------
def load_attr(name: str) -> Code:
    """`object -> object.name`."""
    return [one("LOAD_ATTR", name)]


def store_attr(name: str) -> Code:
    """`value object ->`: `object.name = value`."""
    return [one("STORE_ATTR", name)]


def delete_attr(name: str) -> Code:
    """`object ->`."""
    return [one("DELETE_ATTR", name)]


def subscr() -> Code:
    """`container key -> item`."""
    return [one("BINARY_SUBSCR")]


def store_subscr() -> Code:
    """`value container key ->`."""
    return [one("STORE_SUBSCR")]


def delete_subscr() -> Code:
    """`container key ->`."""
    return [one("DELETE_SUBSCR")]


# -- building --------------------------------------------------------------------------------------------------------
def build(kind: str, count: int) -> Code:
    """`v1 ... vn -> container`; kind is TUPLE, LIST, SET, STRING, SLICE (2 or 3), or MAP (n pairs `k1 v1 ...`)."""
    return [one(f"BUILD_{kind}", arg=count)]


def unpack(count: int) -> Code:
    """`sequence -> vn ... v1`: the first item ends on top."""
    return [one("UNPACK_SEQUENCE", arg=count)]


def list_extend(depth: int = 1) -> Code:
    """`list ... iterable -> list ...`; the list is `depth` below the iterable."""
    return [one("LIST_EXTEND", arg=depth)]


def dict_merge(depth: int = 1) -> Code:
    """`callable ... dict ... mapping -> callable ... dict ...`: for `**` arguments, a repeated key raises TypeError."""
    return [one("DICT_MERGE", arg=depth)]


def dict_update(depth: int = 1) -> Code:
    """`dict ... mapping -> dict ...`."""
    return [one("DICT_UPDATE", arg=depth)]


def list_to_tuple() -> Code:
    """`list -> tuple`."""
    if "LIST_TO_TUPLE" in OPCODES:
        return [one("LIST_TO_TUPLE")]
    return [one("CALL_INTRINSIC_1", "INTRINSIC_LIST_TO_TUPLE")]


# -- operators -------------------------------------------------------------------------------------------------------
def binary(text: str) -> Code:
    """`a b -> a text b`; `text` is an operator such as `+`, or its in-place form `+=`."""
    if text not in BINARY_NAMES:
        raise ValueError(f"{text!r} is no binary operator")
    return [one("BINARY_OP", text)]


def unary(text: str) -> Code:
    """`a -> text a` for `-`, `~`, `+`, `not`."""
    if text == "+":
        plus = "UNARY_POSITIVE"
        return [one(plus)] if plus in OPCODES else [one("CALL_INTRINSIC_1", "INTRINSIC_UNARY_POSITIVE")]
    if text == "not":
        return [*to_bool(), one("UNARY_NOT")]
    return [one({"-": "UNARY_NEGATIVE", "~": "UNARY_INVERT"}[text])]


def _compare_flags() -> dict[str, int]:
    """The flag bits that this Python's own compiler gives each comparison."""
    flags = {}
    for text in COMPARE_NAMES:
        try:
            code = compile(f"a {text} b", "<probe>", "eval")
        except SyntaxError:
            continue
        flags.update({i.argval: i.flags for i in decode(code) if i.opname == "COMPARE_OP"})
    return flags


_COMPARE_FLAGS = _compare_flags()


def compare(text: str) -> Code:
    """`a b -> a text b` for `< <= == != > >=`."""
    return [one("COMPARE_OP", text, flags=_COMPARE_FLAGS[text])]


def is_(invert: bool = False) -> Code:
    """`a b -> a is b` (`is not` with `invert`)."""
    return [one("IS_OP", arg=int(invert))]


def contains(invert: bool = False) -> Code:
    """`a b -> a in b` (`not in` with `invert`)."""
    return [one("CONTAINS_OP", arg=int(invert))]


def to_bool() -> Code:
    """`a -> bool(a)` where a branch wants an exact bool; nothing where it does not."""
    return [one("TO_BOOL")] if FACTS.branch_needs_bool else []


# -- stack -----------------------------------------------------------------------------------------------------------
def pop(count: int = 1) -> Code:
    """`v1 ... vn ->`."""
    return [one("POP_TOP") for _ in range(count)]


def copy(depth: int = 1) -> Code:
    """`v_depth ... v1 -> v_depth ... v1 v_depth`: 1 duplicates the top."""
    return [one("COPY", arg=depth)]


def swap(depth: int) -> Code:
    """Exchange the top and the `depth`-th from it (2: its neighbour)."""
    return [one("SWAP", arg=depth)] if depth > 1 else []


def rotate(depth: int) -> Code:
    """`v_depth ... v2 v1 -> v1 v_depth ... v2`: the top goes below the `depth - 1` others."""
    return [row for position in range(depth, 1, -1) for row in swap(position)]


# -- control ---------------------------------------------------------------------------------------------------------
def jump(target: Instruction) -> Code:
    """`->`; either direction."""
    return [Instruction("JUMP", target=target)]


def jump_if(condition: bool | None, target: Instruction, *, invert: bool = False) -> Code:
    """`value ->`: jump when its truth is `condition`; with None, when it is None (`invert`: is not None)."""
    if condition is None:
        return [Instruction("POP_JUMP_IF_NOT_NONE" if invert else "POP_JUMP_IF_NONE", target=target)]
    name = "POP_JUMP_IF_TRUE" if condition != invert else "POP_JUMP_IF_FALSE"
    return [*to_bool(), Instruction(name, target=target)]


def return_value() -> Code:
    """`value ->` and out."""
    return [one("RETURN_VALUE")]


def raise_(count: int = 1) -> Code:
    """`exception ->` (1), `exception cause ->` (2), or re-raise what is handled (0)."""
    return [one("RAISE_VARARGS", arg=count)]


def nop() -> Code:
    """Nothing: a place to jump to."""
    return [one("NOP")]


def get_iter() -> Code:
    """`iterable -> iterator`."""
    return [one("GET_ITER")]


# -- calls -----------------------------------------------------------------------------------------------------------
def _null_under(count: int) -> Code:
    """Put the NULL where a call wants it, `callable` being below `count` operands."""
    depth = count + (2 if FACTS.null_first else 1)
    return [one("PUSH_NULL"), *rotate(depth)]


def call(count: int, keywords: Sequence[str] = ()) -> Code:
    """`callable a1 ... an -> result`; the last `len(keywords)` arguments are passed by those names."""
    # A call with the callable in the method's place and the first argument in that of `self` means just this.
    place: Code = [] if count else _null_under(0)
    passed = count - 1 if count else 0
    if not keywords:
        return [*place, *(one(name, arg=passed) for name in FACTS.call_prefix), one("CALL", arg=passed)]
    names = tuple(keywords)
    if FACTS.keyword_call == "CALL_KW":
        return [*place, *load_const(names), one("CALL_KW", arg=passed)]
    before = [Instruction("KW_NAMES", None, names), *(one(name, arg=passed) for name in FACTS.call_prefix)]
    return [*place, *before, one("CALL", arg=passed)]


def call_ex(keywords: bool = False) -> Code:
    """`callable tuple -> result`, or `callable tuple dict -> result`: `callable(*tuple, **dict)`."""
    if FACTS.null_for_keywords:
        absent: Code = [] if keywords else [one("PUSH_NULL")]
        return [*_null_under(2 if keywords else 1), *absent, one("CALL_FUNCTION_EX")]
    return [*_null_under(2 if keywords else 1), one("CALL_FUNCTION_EX", arg=int(keywords))]


def make_function(code: CodeType, closure: bool = False) -> Code:
    """`-> function`, or `tuple of cells -> function`: `code` with the running frame's globals.

    The function's name and qualified name are the code's.
    """
    if FACTS.function_flags:
        return [*load_const(code), one("MAKE_FUNCTION", arg=8 if closure else 0)]
    attach = [one("SET_FUNCTION_ATTRIBUTE", arg=8)] if closure else []  # `closure function -> function`
    return [*load_const(code), one("MAKE_FUNCTION"), *attach]


def prologue(cells: Sequence[str] = (), free_count: int = 0) -> Code:
    """What a function's code starts with: free variables copied in, cells made (of parameters too), RESUME."""
    copied = [one("COPY_FREE_VARS", arg=free_count)] if free_count else []
    return [*copied, *(one("MAKE_CELL", name) for name in cells), one("RESUME", arg=0)]


# Names of operators by function, for callers that hold functions of the `operator` module.
OPERATOR_TEXT: dict[Callable[..., Any], str] = {
    operator.add: "+",
    operator.and_: "&",
    operator.floordiv: "//",
    operator.lshift: "<<",
    operator.matmul: "@",
    operator.mul: "*",
    operator.mod: "%",
    operator.or_: "|",
    operator.pow: "**",
    operator.rshift: ">>",
    operator.sub: "-",
    operator.truediv: "/",
    operator.xor: "^",
}
