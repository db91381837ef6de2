"""What `python -m triptych` does for programs and for the cache: `explain`, `report`, `cache`."""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import triptych_dynamo
from triptych_inductor.build.cache import cache_directory
from triptych_inductor.cache import records

from triptych.entry import compile
from triptych.reports import report


class CommandError(Exception):
    """A mistake in the command line."""


def load_target(target: str) -> tuple[Any, dict[str, Any]]:
    """What `FILE:NAME` names, and the namespace of the file, which is run as a module."""
    file, separator, name = target.rpartition(":")
    path = Path(file)
    if not separator or not name:
        raise CommandError(f"{target!r} names no function: write FILE:FUNCTION, such as model.py:forward")
    if not path.is_file():
        raise CommandError(f"there is no file {file!r}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise CommandError(f"{file!r} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.resolve().parent))
    spec.loader.exec_module(module)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            names = ", ".join(key for key, value in vars(module).items() if inspect.isfunction(value)) or "none"
            raise CommandError(f"{file} has no {name!r} (functions in it: {names})")
        found = getattr(found, part)
    if not callable(found):
        raise CommandError(f"{target} is a {type(found).__name__}, not a function or module")
    return found, vars(module)


def arguments_of(fn: Callable[..., Any], text: str | None, namespace: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments to call `fn` with: an expression in the file's namespace, or none where it takes none."""
    if text is not None:
        made = eval(f"({text},)", {**namespace, "torch": torch})  # the user's own text
        return tuple(made)
    function = fn.forward if isinstance(fn, torch.nn.Module) else fn
    needed = [
        p.name
        for p in inspect.signature(function).parameters.values()
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]
    if needed:
        raise CommandError(
            f"the function needs {', '.join(needed)}: give them with --args, as in --args 'torch.ones(3)'"
        )
    return ()


def explain(options: argparse.Namespace) -> int:
    """Run a function once with its graphs executed eagerly, and print what was captured and where it broke."""
    fn, namespace = load_target(options.target)
    print(triptych_dynamo.explain(fn)(*arguments_of(fn, options.args, namespace)))
    return 0


def show_report(options: argparse.Namespace) -> int:
    """Compile a function, run it twice, and print what it was compiled to."""
    fn, namespace = load_target(options.target)
    compiled = compile(fn, backend=options.backend)
    arguments = arguments_of(fn, options.args, namespace)
    for _ in range(2):
        compiled(*arguments)
    print(report(compiled))
    return 0


def cache(options: argparse.Namespace) -> int:
    """Look at, check or empty the cache folder."""
    return {"info": _info, "clear": _clear, "verify": _verify}[options.action](options)


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def _info(options: argparse.Namespace) -> int:
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for record in records.records(kinds=options.kind):
        counts[record.kind] += 1
        sizes[record.kind] += record.size
    print(f"{cache_directory()}: {counts.total()} records, {_size(sizes.total())}")
    for kind in sorted(counts):
        print(f"  {kind:<10} {counts[kind]:>6}  {_size(sizes[kind])}")
    return 0


def _clear(options: argparse.Namespace) -> int:
    removed = records.remove(records.records(kinds=options.kind), options.older_than * 86400)
    print(f"removed {len(removed)} records, {_size(sum(record.size for record in removed))}")
    return 0


def _verify(options: argparse.Namespace) -> int:
    found = list(records.records(kinds=options.kind))
    damaged = [record for record in found if record.damaged()]
    for record in damaged:
        print(f"damaged: {record.path}")
    print(f"{len(found)} records, {len(damaged)} damaged" + (" (they count as missing)" if damaged else ""))
    return 1 if damaged else 0
