"""Which functions are pure: run on constants while tracing, their results are constants of the program.

A table of modules whose C functions are all pure, of single functions, and of types whose instances never change.
"""

from __future__ import annotations

import abc
import builtins
import dataclasses
import datetime
import decimal
import enum
import fractions
import importlib.metadata
import importlib.util
import inspect
import json
import math
import operator
import os
import pathlib
import platform
import re
import shutil
import string
import struct
import sys
import textwrap
import typing
import uuid
from collections.abc import Iterable
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any

import torch

from triptych_dynamo._torch_compat import numpy
from triptych_dynamo.values.atoms import numbers
from triptych_dynamo.values.atoms.scalars import integer_of
from triptych_dynamo.values.atoms.symbolic import SymbolicValue
from triptych_dynamo.values.base import NotConstant, Value
from triptych_dynamo.values.common import fold, is_scalar, supports

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame

_MODULES = frozenset({"math", "cmath", "_json", "_operator", "_struct", "unicodedata", "_sre", "_string"})

_BUILTINS = frozenset(
    "abs ascii bin chr divmod format hash hex oct ord pow repr round callable issubclass len sum min max sorted".split()
)

_FUNCTIONS: frozenset[Any] = frozenset(
    {
        *(getattr(builtins, name) for name in _BUILTINS),
        *(re.compile, re.match, re.fullmatch, re.search, re.sub, re.subn, re.split, re.findall, re.escape),
        *(re._compile, json.dumps, json.loads),  # type: ignore[attr-defined]
        *(inspect.signature, inspect.getfullargspec, inspect.isfunction, inspect.isclass, inspect.ismethod),
        *(inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.getmodule, inspect.unwrap),
        *(os.path.join, os.path.basename, os.path.dirname, os.path.splitext, os.path.split, os.path.normpath),
        *(os.fspath, sys.getrecursionlimit, sys.intern, sys.getdefaultencoding, sys.is_finalizing),
        *(string.capwords, textwrap.dedent, textwrap.indent, struct.pack, struct.unpack, struct.calcsize),
        *(typing.get_origin, typing.get_args, typing.get_type_hints),
        *(importlib.metadata.version, importlib.util.find_spec, importlib.import_module, shutil.which),
        *(platform.system, platform.machine, platform.python_version, os.cpu_count),
        *(abc.get_cache_token, str.maketrans, bytes.maketrans, bytearray.maketrans, math.prod, uuid.UUID),
    }
)

# Instances of these never change, and their methods are pure.
FROZEN_TYPES: tuple[type, ...] = (
    re.Pattern,
    re.Match,
    inspect.Signature,
    inspect.Parameter,
    inspect.BoundArguments,
    inspect.FullArgSpec,
    torch.finfo,
    torch.iinfo,
    dataclasses.Field,
    decimal.Decimal,
    fractions.Fraction,
    datetime.date,
    datetime.timedelta,
    datetime.time,
    datetime.timezone,
    pathlib.PurePath,
    struct.Struct,
    type(sys.version_info),
    type(sys.float_info),
    type(sys.flags),
    *((type(re._zero_sentinel),) if hasattr(re, "_zero_sentinel") else ()),  # 3.13: an argument that was not given
    *((numpy.generic, numpy.dtype) if numpy is not None else ()),
)


def is_pure(function: Any) -> bool:
    """Whether `function` may be run while tracing when all its arguments are constants."""
    try:
        if function in _FUNCTIONS:
            return True
    except TypeError:
        return False
    if isinstance(function, BuiltinFunctionType) and function.__module__ in _MODULES:
        return True
    owner = getattr(function, "__self__", None)
    if isinstance(owner, type):
        return owner in _ATOM_OWNERS and function.__name__ != "__new__"
    return owner is not None and (isinstance(owner, FROZEN_TYPES) or type(owner) in _ATOM_OWNERS)


_ATOM_OWNERS = frozenset({int, float, complex, str, bytes, bool, range})


def is_frozen(obj: Any) -> bool:
    """Whether the object itself can never change."""
    if isinstance(obj, re.Match) and not isinstance(obj.string, (str, bytes)):
        return False  # of bytes that can change: it reads them when it is asked
    return isinstance(obj, FROZEN_TYPES) or is_c_enumeration(type(obj))


def is_c_enumeration(cls: type) -> bool:
    """Whether `cls` is an enumeration of torch written in C++."""
    return hasattr(cls, "__members__") and cls.__module__.startswith("torch.") and not issubclass(cls, enum.Enum)


# The Python functions among them: run whole instead of being traced into, where their arguments are constants.
PURE_PYTHON: tuple[FunctionType, ...] = tuple(function for function in _FUNCTIONS if isinstance(function, FunctionType))


def name_of(function: Any) -> str:
    """Module and name of a callable, for texts."""
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", None) or repr(function)
    return f"{module}.{name}" if module and module != "builtins" else name


_WRITES_TO_BUFFER = frozenset(("pack_into",))
# Their results hold the argument itself, and read it later.
_KEEPS_BUFFER = frozenset("match fullmatch search finditer scanner iter_unpack".split())


# They call functions that they are given.
_CALLING = frozenset(("json", "re"))


def calls_argument(function: Any, values: Iterable[Value]) -> bool:
    """Whether a pure function would run code of the program: a replacement of `re.sub`, a hook of `json`."""
    module = getattr(function, "__module__", None) or type(getattr(function, "__self__", None)).__module__
    if (module or "").partition(".")[0] not in _CALLING:
        return False
    return any(supports(value, "__call__") and not is_scalar(value) for value in values)


def keeps_buffer(function: Any, args: list[Value]) -> bool:
    """Whether the result would hold an argument whose bytes can change."""
    return any(arg.is_buffer for arg in args) and getattr(function, "__name__", "") in _KEEPS_BUFFER


def call_pure(tx: Frame, function: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Run a pure function on constant arguments.

    Arithmetic on numbers that change is left to the run; other functions of them see the numbers of this run, guarded.
    """
    if keeps_buffer(function, args):
        return tx.unsupported("call", f"{name_of(function)} of bytes that can change")
    if any(arg.is_buffer for arg in args) and getattr(function, "__name__", "") in _WRITES_TO_BUFFER:
        return fold(tx, function, [arg.written(tx) if arg.is_buffer else constant_or_special(tx, arg) for arg in args])
    number = _on_numbers(tx, function, args) if not kwargs else None
    if number is not None:
        return number
    try:
        plain = [constant_or_special(tx, arg) for arg in args]
        named = {key: constant_or_special(tx, arg) for key, arg in kwargs.items()}
    except NotConstant:
        return tx.unsupported("call", f"{name_of(function)} of values that are not known while tracing")
    return fold(tx, function, plain, named)


# Functions of numbers that give numbers: with changing numbers they are run by the compiled code.
_ARITHMETIC: frozenset[Any] = frozenset(
    {
        *(function for function in vars(math).values() if isinstance(function, BuiltinFunctionType)),
        *(int, float, round, pow, abs, min, max),
    }
) - {math.prod, math.fsum, math.dist, math.frexp, math.modf}
_TO_INTEGER = (math.floor, math.ceil, math.trunc)
# The same for numbers that are known only inside the graph.
_IN_GRAPH: dict[Any, Any] = {
    **{function: function for function in _TO_INTEGER},
    **{
        getattr(math, name): sym
        for name in ("sqrt", "sin", "cos", "tan", "tanh", "sinh", "cosh", "asin", "acos")
        if (sym := getattr(torch, f"_sym_{name}", None)) is not None
    },
    math.pow: operator.pow,
}


def _on_numbers(tx: Frame, function: Any, args: list[Value]) -> Value | None:
    """The result of arithmetic with a symbolic number among its arguments; None where it has to be specialised."""
    if function not in _ARITHMETIC or not all(map(numbers.is_number, args)):
        return None
    in_graph = function in _IN_GRAPH and len(args) <= 2 and numbers.only_in_graph(tx, args)
    rounds = function in _TO_INTEGER or (function is round and len(args) == 1)
    if rounds and args[0].python_type() is float and numbers.only_in_graph(tx, args):
        return integer_of(tx, args[0], function.__name__)
    if in_graph or (function in _TO_INTEGER and isinstance(args[0], SymbolicValue)):
        return tx.call_graph(_IN_GRAPH[function], args)
    if numbers.has_number(args) or any(isinstance(arg, SymbolicValue) for arg in args):
        return numbers.apply(tx, function, args)
    return None


def constant_or_special(tx: Frame, value: Value) -> Any:
    """The constant that a value is in this run."""
    specialize = getattr(value, "specialize", None)
    return (specialize(tx) if specialize is not None else value).as_constant()
