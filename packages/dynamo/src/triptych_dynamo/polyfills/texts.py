"""Python models of `str.format` and `str.__mod__`, for objects whose texts the program makes, and of file writes."""

from __future__ import annotations

import json.encoder
import math
import re
from _string import formatter_field_name_split, formatter_parser  # type: ignore[import-not-found]
from collections.abc import Mapping
from operator import index
from typing import Any, TextIO

_MAX_DEPTH = 2


def format_(template: str, /, *args: Any, **kwargs: Any) -> str:
    """`str.format`."""
    return _formatted(template, args, kwargs, _MAX_DEPTH, [0])


def format_map(template: str, mapping: Mapping[str, Any], /) -> str:
    """`str.format_map`."""
    return _formatted(template, None, mapping, _MAX_DEPTH, [0])


def _formatted(template: str, args: tuple[Any, ...] | None, named: Any, depth: int, count: list[int]) -> str:
    """The text. count: fields numbered so far; -1 where fields have numbers of their own."""
    if depth == 0:
        raise ValueError("Max string recursion exceeded")
    parts = []
    for literal, field, spec, conversion in formatter_parser(template):
        parts.append(literal)
        if field is None:
            continue
        obj = _field(field, args, named, count)
        if conversion is not None:
            obj = _converted(obj, conversion)
        parts.append(format(obj, _formatted(spec, args, named, depth - 1, count) if spec else ""))
    return "".join(parts)


def _field(name: str, args: tuple[Any, ...] | None, named: Any, count: list[int]) -> Any:
    first, rest = formatter_field_name_split(name)
    if first == "" or isinstance(first, int):
        if args is None:
            raise ValueError("Format string contains positional fields")
        index = _number(first, count)
        if index >= len(args):
            raise IndexError(f"Replacement index {index} out of range for positional args tuple")
        obj = args[index]
    else:
        obj = named[first]
    for is_attribute, key in rest:
        obj = getattr(obj, key) if is_attribute else obj[key]
    return obj


def _number(first: str | int, count: list[int]) -> int:
    """The position of a field; those without a number are counted."""
    if first == "":
        if count[0] < 0:
            raise ValueError("cannot switch from manual field specification to automatic field numbering")
        count[0] += 1
        return count[0] - 1
    if count[0] > 0:
        raise ValueError("cannot switch from automatic field numbering to manual field specification")
    count[0] = -1
    return int(first)


def _converted(obj: Any, conversion: str) -> str:
    if conversion == "r":
        return repr(obj)
    if conversion == "s":
        return str(obj)
    if conversion == "a":
        return ascii(obj)
    raise ValueError(f"Unknown conversion specifier {conversion}")


_PERCENT = re.compile(r"%(?:\(([^()]*)\))?([#0\- +]*)(\*|\d+)?(?:\.(\*|\d+)?)?[hlL]?(.)?", re.DOTALL)


def percent(template: str, values: Any, /) -> str:
    """`str.__mod__`."""
    rest = list(values) if isinstance(values, tuple) else [values]
    parts = []
    end = used = 0
    for found in _PERCENT.finditer(template):
        parts.append(template[end : found.start()])
        end = found.end()
        key, flags, width, precision, kind = found.groups()
        if kind is None:
            raise ValueError("incomplete format")
        if kind == "%":
            parts.append("%")
            continue
        spec = "%" + flags
        if width == "*":
            width, used = _star(rest, used), used + 1
        spec += width or ""
        if precision == "*":
            precision, used = _star(rest, used), used + 1
        spec += "" if precision is None else "." + precision
        if key is None:
            obj, used = _next(rest, used), used + 1
        else:
            obj, used = _named(values, key), len(rest)
        if kind not in "srdiouxXeEfFgGca":
            raise ValueError(f"unsupported format character '{kind}' (0x{ord(kind):x}) at index {end - 1}")
        parts.append(_with_spec(spec, kind, obj))
    if used < len(rest) and (isinstance(values, (tuple, str)) or not hasattr(type(values), "__getitem__")):
        raise TypeError("not all arguments converted during string formatting")
    return "".join(parts) + template[end:]


def _next(rest: list[Any], used: int) -> Any:
    if used >= len(rest):
        raise TypeError("not enough arguments for format string")
    return rest[used]


def _star(rest: list[Any], used: int) -> str:
    number = _next(rest, used)
    if not isinstance(number, int):
        raise TypeError("* wants int")
    return str(number)


def _named(values: Any, key: str) -> Any:
    if isinstance(values, (tuple, str)) or not hasattr(type(values), "__getitem__"):
        raise TypeError("format requires a mapping")
    return values[key]


def _with_spec(spec: str, kind: str, obj: Any) -> str:
    if kind in "sra":
        return (spec + "s") % (str(obj) if kind == "s" else repr(obj) if kind == "r" else ascii(obj),)
    if not isinstance(obj, (int, float, str)):
        obj = _as_number(kind, obj)
    return (spec + kind) % (obj,)


_NUMBERS: dict[str, tuple[tuple[str, ...], Any]] = {
    **dict.fromkeys("oxXc", (("__index__",), index)),
    **dict.fromkeys("diu", (("__int__", "__index__"), int)),
    **dict.fromkeys("eEfFgG", (("__float__", "__index__"), float)),
}


def _as_number(kind: str, obj: Any) -> Any:
    """An object as the number that its format takes."""
    names, convert = _NUMBERS[kind]
    for name in names:
        if hasattr(type(obj), name):
            return convert(obj)
    if convert is float:
        raise TypeError(f"must be real number, not {type(obj).__name__}")
    needed = "an integer" if kind in "oxX" else "a real number"
    raise TypeError(f"%{kind} format: {needed} is required, not {type(obj).__name__}")


def write(self: TextIO, text: str, /) -> int:
    """`TextIOWrapper.write`, `StringIO.write`."""
    if not isinstance(text, str):
        raise TypeError(f"write() argument must be str, not {type(text).__name__}")
    print(text, end="", file=self)
    return len(text)


def flush(self: TextIO, /) -> None:
    """`TextIOWrapper.flush`."""
    print(end="", file=self, flush=True)


def sub(self: re.Pattern[Any], repl: Any, string: Any, count: int = 0) -> Any:
    """`Pattern.sub` with a function."""
    return subn(self, repl, string, count)[0]


def subn(self: re.Pattern[Any], repl: Any, string: Any, count: int = 0) -> tuple[Any, int]:
    """`Pattern.subn` with a function."""
    parts = []
    end = number = 0
    for found in self.finditer(string):
        if count and number == count:
            break
        number += 1
        start = found.start()
        if start > end:
            parts.append(string[end:start])
        made = repl(found)
        if made is not None:
            parts.append(made)
        end = found.end()
    if end < len(string):
        parts.append(string[end:])
    return string[:0].join(parts), number


def make_encoder(
    markers: Any,
    default: Any,
    encoder: Any,
    indent: Any,
    key_separator: str,
    item_separator: str,
    sort_keys: bool,
    skipkeys: bool,
    allow_nan: bool,
) -> Any:
    """`json.encoder.c_make_encoder`: the encoder in Python that stands beside it."""

    def text_of_float(number: float) -> str:
        if number != number:
            text = "NaN"
        elif number in (math.inf, -math.inf):
            text = "Infinity" if number > 0 else "-Infinity"
        else:
            return float.__repr__(number)
        if not allow_nan:
            raise ValueError("Out of range float values are not JSON compliant: " + repr(number))
        return text

    return json.encoder._make_iterencode(  # type: ignore[attr-defined]
        markers, default, encoder, indent, text_of_float, key_separator, item_separator, sort_keys, skipkeys, True
    )
