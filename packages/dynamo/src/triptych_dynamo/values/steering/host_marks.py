"""Functions that carry marks of `torch.compiler`: disabled by torch or by the program, or compiled by torch.compile.

torch keeps its compiler out of functions of its own, such as the steps of optimizers: those are traced as what they
are. A function that the program disabled is a graph break.
"""

from __future__ import annotations

import weakref
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch._compile

from triptych_dynamo.sources import Source
from triptych_dynamo.steering import RegionMark, region_name
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.common import is_trusted_name
from triptych_dynamo.values.registry import wraps_if
from triptych_dynamo.values.steering.directives import DirectiveValue, as_region

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame

_LAZY = torch._compile._disable_dynamo(lambda: None).__code__  # that of every function disabled at its definition
_INNER = "_torchdynamo_orig_callable"


def _is_marked(obj: Any) -> bool:
    return type(obj) is FunctionType and (obj.__code__ is _LAZY or bool(vars(obj).get("_torchdynamo_disable")))


def _is_compiled(obj: Any) -> bool:
    return type(obj) is FunctionType and _INNER in vars(obj) and not _is_marked(obj)


@wraps_if(_is_compiled, order=70)
def wrap_function_of_torch_compile(tx: Frame, obj: Any, source: Source | None) -> Value:
    """What torch.compile compiled runs as that compiler has it."""
    tx.guard("is", source, obj)
    text = f"{obj.__qualname__}, compiled with torch.compile"
    return DirectiveValue(obj, lambda tx, args, kwargs: tx.unsupported("disabled", text), source)


@wraps_if(_is_marked, order=70)
def wrap_disabled_function(tx: Frame, obj: Any, source: Source | None) -> Value:
    """A function under one of the marks."""
    inner = vars(obj).get(_INNER) or vars(obj).get("__wrapped__")
    if inner is None:
        return tx.unsupported("disabled", obj.__qualname__)
    tx.guard("is", source, obj)
    if is_trusted_name(getattr(inner, "__module__", None) or ""):
        return tx.wrap(inner, None)
    text = f"{inner.__qualname__}, disabled with torch.compiler.disable"
    return DirectiveValue(obj, lambda tx, args, kwargs: tx.unsupported("disabled", text), source)


_KEPT_OUT = "torch.distributed.fsdp._fully_shard._fsdp_common"


def _is_kept_out(obj: Any) -> bool:
    """What torch keeps its compiler out of at each call: the hooks that gather and free the parts of parameters."""
    return (
        type(obj) is FunctionType
        and obj.__code__.co_qualname == "_dynamo_disable.<locals>.wrapper"
        and obj.__globals__.get("__name__") == _KEPT_OUT
    )


@wraps_if(_is_kept_out, order=70)
def wrap_kept_out(tx: Frame, obj: Any, source: Source | None) -> Value:
    """A break: these run between the graphs."""
    tx.guard("is", source, obj)
    text = f"{obj.__qualname__}, a hook that torch keeps compilers out of"
    return DirectiveValue(obj, lambda tx, args, kwargs: tx.unsupported("disabled", text), source)


_REGION = "__marked_compile_region_fn__"
_region_marks: weakref.WeakKeyDictionary[Any, RegionMark] = weakref.WeakKeyDictionary()


@wraps_if(lambda obj: type(obj) is FunctionType and _REGION in vars(obj), order=70)
def wrap_region(tx: Frame, obj: Any, source: Source | None) -> Value:
    """A function marked with torch.compiler's `nested_compile_region`: the function that it wraps, as a region."""
    fn = vars(obj)[_REGION]
    tx.guard("is", source, obj)
    if type(fn) is not FunctionType:
        return tx.wrap(fn, None)
    known = vars(fn)
    mark = _region_marks.get(fn)
    if mark is None:
        entries = known.get("__marked_compile_region_max_reuse_entries__", 8)
        tag = known.get("__marked_compile_region_reuse_hash_fn__")
        mark = _region_marks[fn] = RegionMark(region_name(fn), entries, tag)
    return as_region(tx, fn, mark, None)


def _is_tagging(obj: Any) -> bool:
    """What torch's own compiler, once it ran, puts into the making of every module: a note for itself."""
    return type(obj) is FunctionType and obj.__name__ == "tag" and obj.__module__ == "torch._dynamo.mutation_guard"


@wraps_if(_is_tagging, order=70)
def wrap_tagging(tx: Frame, obj: Any, source: Source | None) -> Value:
    """Not part of the program."""
    return DirectiveValue(obj, lambda tx, args, kwargs: tx.constant(None), source)
