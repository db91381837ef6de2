"""Reductions as text: accumulators over a loop, the step of each block, the final step along the axis, and identities.

One `Spec` a kind. Half types and small integers are accumulated wider and rounded once; `any` and `all` work on 0 and
1.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from triptych_inductor.codegen.triton.dtypes import DTYPES


@dataclass(frozen=True)
class Spec:
    """Texts of one kind. `parts`: components of its state ("value", "index", "count"), all of the work dtype but
    "index".

    An extreme starts at position 0: where no element exceeds the identity, all are equal and the first one is meant.
    `step` combines state `{a0}`.. with a block's value `{v}`, its position `{i}` and mask `{m}`; `final` reduces
    state `{a0}`..
    along `{axis}`. `start` is the identity of each component.
    """

    parts: tuple[str, ...]
    start: tuple[str, ...]
    step: str
    final: str


_SPECS = {
    "sum": Spec(("value",), ("0",), "{a0} + {v}", "lib.reduce_sum({a0}, {axis})"),
    "prod": Spec(("value",), ("1",), "{a0} * {v}", "lib.reduce_prod({a0}, {axis})"),
    "max": Spec(("value",), ("low",), "{maximum}", "lib.reduce_max({a0}, {axis})"),
    "min": Spec(("value",), ("high",), "{minimum}", "lib.reduce_min({a0}, {axis})"),
    "any": Spec(("value",), ("0",), "{a0} | {v}", "lib.reduce_max({a0}, {axis})"),
    "all": Spec(("value",), ("1",), "{a0} & {v}", "lib.reduce_min({a0}, {axis})"),
    "xor": Spec(("value",), ("0",), "{a0} ^ {v}", "lib.reduce_xor({a0}, {axis})"),
    "argmax": Spec(
        ("value", "index"),
        ("low", "0"),
        "lib.step_argmax({a0}, {a1}, {v}, {i})",
        "lib.reduce_argmax({a0}, {a1}, {axis})",
    ),
    "argmin": Spec(
        ("value", "index"),
        ("high", "0"),
        "lib.step_argmin({a0}, {a1}, {v}, {i})",
        "lib.reduce_argmin({a0}, {a1}, {axis})",
    ),
    "welford": Spec(
        ("mean", "m2", "count"),
        ("0", "0", "0"),
        "lib.step_welford({a0}, {a1}, {a2}, {v}, {m})",
        "lib.reduce_welford({a0}, {a1}, {a2}, {axis})",
    ),
}


def spec(kind: str) -> Spec:
    """The texts of a kind of reduction; `TypeError` for unknown ones."""
    if kind not in _SPECS:
        raise TypeError(f"no Triton text for the reduction {kind!r}")
    return _SPECS[kind]


def work_dtype(kind: str, dtype: torch.dtype) -> torch.dtype:
    """The dtype that the state of a reduction has."""
    if kind in ("any", "all"):
        return torch.int32
    row = DTYPES[dtype]
    if row.kind == "half":
        return torch.float32
    if row.bits < 32:
        return torch.int32
    return dtype


def low_text(dtype: torch.dtype) -> str:
    """The smallest value of a dtype, as text."""
    return "float('-inf')" if dtype.is_floating_point else str(torch.iinfo(dtype).min)


def high_text(dtype: torch.dtype) -> str:
    """The largest value of a dtype, as text."""
    return "float('inf')" if dtype.is_floating_point else str(torch.iinfo(dtype).max)


def identity_text(word: str, dtype: torch.dtype, wide: bool) -> str:
    """Text of an identity: a number, "low" and "high" (the dtype's extremes), "top" (past every position)."""
    if word == "low":
        return low_text(dtype)
    if word == "high":
        return high_text(dtype)
    if word == "top":
        return str(2**63 - 1 if wide else 2**31 - 1)
    return word


def part_dtypes(kind: str, dtype: torch.dtype, wide: bool) -> list[torch.dtype]:
    """Dtype of each component of the state."""
    work = work_dtype(kind, dtype)
    index = torch.int64 if wide else torch.int32
    return [index if part == "index" else work for part in spec(kind).parts]


EXTREMES = {"argmax": "max", "argmin": "min"}
"""Kinds that give a position, and the kind of the value there."""


def step_text(
    kind: str, dtype: torch.dtype, state: list[str], value: str, position: str, mask: str, rising: bool = False
) -> str:
    """The state after one block. `rising`: each block's positions lie behind those of the blocks before."""
    if rising and kind in EXTREMES:
        return f"lib.later_{kind}({state[0]}, {state[1]}, {value}, {position})"
    floating = work_dtype(kind, dtype).is_floating_point
    words = {f"a{k}": name for k, name in enumerate(state)}
    library = "lib" if floating else "tl"
    return spec(kind).step.format(
        **words,
        v=value,
        i=position,
        m=mask,
        maximum=f"{library}.maximum({state[0]}, {value})",
        minimum=f"{library}.minimum({state[0]}, {value})",
    )


def final_text(kind: str, state: list[str], axis: int) -> str:
    """The state reduced along an axis."""
    return spec(kind).final.format(**{f"a{k}": name for k, name in enumerate(state)}, axis=axis)
