"""``python tools/size_report.py [--enforce]``: lines of each package, and files and functions over the house's limits.

Limits: 500 lines a file and 60 lines a function, counted from `def` to its last line, docstring left out. The lists of
exceptions below are short and each has a reason; `--enforce` exits with status 1 for anything else over a limit.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILE_LINES, FUNCTION_LINES = 500, 60
SUFFIXES = {".py", ".c", ".h"}

# "path" for a file, "path::name" for a function -> why it may be longer.
EXCEPTIONS: dict[str, str] = {
    "packages/aot_autograd/src/triptych_aot_autograd/runtime/differentiable.py::make_differentiable": (
        "the forward and backward of one autograd function are closures over its graph's facts, for speed"
    ),
}


@dataclass(frozen=True)
class Excess:
    """Something over a limit. where: as in `EXCEPTIONS`."""

    where: str
    lines: int
    limit: int


def product_files() -> list[Path]:
    """Source files of the packages and tools; tests are not counted."""
    folders = [*ROOT.glob("packages/*/src"), *ROOT.glob("packages/*/csrc"), ROOT / "tools"]
    return sorted(p for folder in folders for p in folder.rglob("*") if p.suffix in SUFFIXES and p.is_file())


def function_lengths(path: Path) -> Iterator[tuple[str, int]]:
    """Name and length of each Python function of a file, its docstring left out."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            text = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
            yield node.name, (node.end_lineno or 0) - node.lineno + 1 - text


def excesses() -> list[Excess]:
    """Everything over a limit, exceptions included, longest first."""
    found = []
    for path in product_files():
        name = path.relative_to(ROOT).as_posix()
        lines = len(path.read_text().splitlines())
        if lines > FILE_LINES:
            found.append(Excess(name, lines, FILE_LINES))
        if path.suffix == ".py":
            long = [(f, n) for f, n in function_lengths(path) if n > FUNCTION_LINES]
            found += [Excess(f"{name}::{function}", n, FUNCTION_LINES) for function, n in long]
    return sorted(found, key=lambda excess: -excess.lines)


def main() -> int:
    """Prints the report; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--enforce", action="store_true", help="exit with status 1 for an excess without exception")
    enforce = parser.parse_args().enforce
    totals: dict[str, int] = {}
    for path in product_files():
        parts = path.relative_to(ROOT).parts
        group = parts[1] if parts[0] == "packages" else parts[0]
        totals[group] = totals.get(group, 0) + len(path.read_text().splitlines())
    for group, lines in totals.items():
        print(f"{group:<14}{lines:>7} lines")
    found = excesses()
    for excess in found:
        reason = EXCEPTIONS.get(excess.where)
        print(
            f"{excess.where}: {excess.lines} lines, limit {excess.limit}" + (f" (allowed: {reason})" if reason else "")
        )
    stale = EXCEPTIONS.keys() - {excess.where for excess in found}
    for name in sorted(stale):
        print(f"{name}: listed as an exception, but within the limits")
    failed = stale or any(excess.where not in EXCEPTIONS for excess in found)
    return 1 if enforce and failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
