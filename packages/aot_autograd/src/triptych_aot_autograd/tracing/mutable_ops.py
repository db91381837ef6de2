"""The functional partner of every op that writes.

`partner(op)` gives a `Partner`: the functional op to record in its place, which arguments to drop (`out=`) and which
arguments its
results are to be written to. The partner is found by schema; `RENAMED` has those with a name of their own. An op
without one (a user's
custom op that mutates its arguments) gets one made: an op of the library `triptych_aot` that copies what would be
written, calls the original on the copies and returns them. Its attribute `writing_op` is the original.
"""

from __future__ import annotations

import functools
import re
import threading
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from triptych_aot_autograd import _torch_compat as compat
from triptych_aot_autograd.errors import UnsupportedOperationError

aten = torch.ops.aten

RENAMED: dict[Any, Any] = {
    aten.normal_.default: aten.normal_functional.default,
    aten._index_put_impl_.default: aten.index_put.default,
    aten.rrelu_with_noise_.default: aten.rrelu_with_noise_functional.default,
    aten.rrelu_with_noise.default: aten.rrelu_with_noise_functional.default,
    aten._batch_norm_with_update.default: aten._batch_norm_with_update_functional.default,
}

# Arguments of the original that the renamed partner does not take.
SURPLUS_ARGS: dict[Any, tuple[str, ...]] = {aten._index_put_impl_.default: ("unsafe",)}

# Ops whose schema hides a write: (functional op, positions of the written arguments, when it writes).
HIDDEN_WRITES: dict[Any, tuple[Any, tuple[int, ...]]] = {
    aten.native_batch_norm.default: (aten._native_batch_norm_legit_functional.default, (3, 4)),
    aten._native_batch_norm_legit.default: (aten._native_batch_norm_legit_functional.default, (3, 4)),
}

REFUSED: dict[str, str] = {
    "set_": "giving a tensor another storage (`set_`, assignment to `.data`)",
    "resize_": "changing the size of a tensor's memory (`resize_`)",
    "resize_as_": "changing the size of a tensor's memory (`resize_as_`)",
    "_resize_output_": "changing the size of a tensor's memory",
    "resize_storage_bytes_": "changing the size of a tensor's memory",
}


@dataclass(frozen=True)
class Partner:
    """`func(arguments without `dropped`)` returns the plain results, then the new values of the arguments `written`."""

    func: Any
    written: tuple[int, ...]  # positions in the schema of the original, in the order of the new values
    dropped: frozenset[str]
    plain_results: int  # leading results of the partner that are the original's own, unaliased results
    returns: tuple[int | None, ...]  # for each return of the original: the written position it aliases, or None
    defaults: tuple[tuple[str, Any], ...] = ()  # arguments that have a default in the original alone


def _key(func: compat.OpOverload, skip: frozenset[str] = frozenset()) -> list[tuple[str, str]]:
    return [(a.name, str(a.type)) for a in func._schema.arguments if a.name not in skip]


def _find(func: compat.OpOverload, name: str, skip: frozenset[str]) -> Any:
    packet = getattr(getattr(torch.ops, func.namespace), name, None)
    wanted = _key(func, skip)
    for overload in packet.overloads() if packet is not None else ():
        candidate = getattr(packet, overload)
        if candidate is not func and not candidate._schema.is_mutable and _key(candidate) == wanted:
            return candidate
    return None


@functools.lru_cache(maxsize=4096)
def partner(func: compat.OpOverload) -> Partner:
    """The functional partner of a mutating op. Raises `UnsupportedOperationError` for those that can have none."""
    schema = func._schema
    base_name = schema.name.split("::")[1]
    if func.namespace == "aten" and base_name in REFUSED:
        raise UnsupportedOperationError(f"{REFUSED[base_name]} has no functional form")
    written = tuple(i for i, a in enumerate(schema.arguments) if a.alias_info is not None and a.alias_info.is_write)
    returns = tuple(_aliased_argument(func, r, written) for r in schema.returns)
    outs = frozenset(schema.arguments[i].name for i in written if schema.arguments[i].kwarg_only)
    found = RENAMED.get(func)
    dropped = frozenset(SURPLUS_ARGS.get(func, ()))
    if found is None and outs and len(outs) == len(written):
        dropped = outs
        found = _find(func, base_name, outs) or _find(func, base_name.removesuffix("_out"), outs)
    elif found is None and base_name.endswith("_"):
        found = _find(func, base_name[:-1], frozenset())
    plain = sum(r is None for r in returns)
    if found is not None and len(found._schema.returns) == plain + len(written):
        return Partner(found, written, dropped, plain, returns, _lost_defaults(func, found))
    return Partner(_make_functional(func, written, returns), written, frozenset(), plain, returns)


def _lost_defaults(func: compat.OpOverload, found: compat.OpOverload) -> tuple[tuple[str, Any], ...]:
    required = {a.name for a in found._schema.arguments if not a.has_default_value()}
    return tuple(
        (a.name, a.default_value) for a in func._schema.arguments if a.has_default_value() and a.name in required
    )


def _aliased_argument(func: compat.OpOverload, result: Any, written: tuple[int, ...]) -> int | None:
    if result.alias_info is None:
        return None
    for i in written:
        if func._schema.arguments[i].alias_info.before_set & result.alias_info.before_set:
            return i
    return None


_NEST = re.compile(r"\b(List|Optional)\[([^\[\]]*(?:\[\])?\??)\]")
_lock = threading.Lock()
_made: dict[str, Any] = {}


def _make_functional(func: compat.OpOverload, written: tuple[int, ...], returns: tuple[int | None, ...]) -> Any:
    """Define `triptych_aot::<namespace>_<op>_<overload>`, which copies the written arguments and returns the copies."""
    name = re.sub(r"\W", "_", f"{func.namespace}_{func._schema.name.split('::')[1]}_{func._overloadname}")
    with _lock:
        if name not in _made:
            _define(name, func, written, returns)
            _made[name] = getattr(torch.ops.triptych_aot, name).default
    return _made[name]


def _schema_text(kind: Any) -> str:
    """A type as schemas write it: `List[Optional[Tensor]]` prints what they call `Tensor?[]`."""
    text, found = str(kind), 1
    while found:
        text, found = _NEST.subn(lambda nest: nest[2] + {"List": "[]", "Optional": "?"}[nest[1]], text)
    return text


def _define(name: str, func: compat.OpOverload, written: tuple[int, ...], returns: tuple[int | None, ...]) -> None:
    arguments = func._schema.arguments
    plain = [i for i, r in enumerate(returns) if r is None]
    text = re.sub(r"\((?:\w|\*)+!?(?: -> [^()]*)?\)", "", str(func._schema))  # without alias annotations
    arguments_text = text[text.index("(") : text.rindex(" -> ")]
    types = [
        _schema_text(r.type) for r in (*(func._schema.returns[i] for i in plain), *(arguments[i] for i in written))
    ]
    torch.library.define(f"triptych_aot::{name}", f"{arguments_text} -> ({', '.join(types)})")

    def functional(*args: Any, **kwargs: Any) -> Any:
        args_list = list(args)
        copies = []
        for i in written:
            argument = arguments[i]
            value = args_list[i] if i < len(args_list) else kwargs[argument.name]
            fresh = tree_map_only(torch.Tensor, torch.clone, value)
            copies.append(fresh)
            if i < len(args_list):
                args_list[i] = fresh
            else:
                kwargs[argument.name] = fresh
        result = func(*args_list, **kwargs)
        results = result if isinstance(result, (tuple, list)) and len(returns) > 1 else (result,)
        flat = tuple([results[i] for i in plain] + copies)
        return flat[0] if len(flat) == 1 else flat

    torch.library.impl(f"triptych_aot::{name}", "default", functional)
    torch.library.register_fake(f"triptych_aot::{name}", functional)
    made = getattr(torch.ops.triptych_aot, name).default
    made.writing_op = func  # for compilers that can call the original on memory of their own, without the copies
