"""``python -m tools.cpython_tests [MODULE ...] [--write]``: CPython's tests, plain against compiled.

Prints, per module, how many tests pass plain and how many of these pass compiled, and each test that differs; with
--write its row goes to `results.json` and `docs/cpython_tests.md` is written from all rows. Exits with status 1 when a
test differs that `known.py` does not name.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.cpython_tests.known import KNOWN

PAGE = Path(__file__).resolve().parents[2] / "docs/cpython_tests.md"
RESULTS = Path(__file__).with_name("results.json")  # of the last run of each module
Row = dict[str, Any]  # "plain": how many pass; "differing": what of it does not pass compiled, with the outcome
MODULES = (
    *("test_generators", "test_contextlib", "test_dict", "test_fstring", "test_list", "test_set", "test_tuple"),
    *("test_exceptions", "test_with", "test_scope", "test_listcomps", "test_functools", "test_itertools"),
    *("test_collections", "test_dataclasses", "test_deque", "test_enumerate", "test_range", "test_slice"),
    *("test_raise", "test_exception_variations", "test_yield_from", "test_genexps", "test_setcomps", "test_dictcomps"),
    *(
        "test_unpack",
        "test_unpack_ex",
        "test_keywordonlyarg",
        "test_positional_only_arg",
        "test_augassign",
        "test_bool",
    ),
    *("test_compare", "test_contains", "test_decorators", "test_defaultdict", "test_iter", "test_opcodes"),
    *("test_operator", "test_patma", "test_property", "test_super", "test_userdict", "test_userlist", "test_heapq"),
    *("test_bisect", "test_enum", "test_extcall", "test_funcattrs", "test_ordered_dict", "test_sort", "test_string"),
    *("test_types", "test_copy", "test_math", "test_int", "test_float", "test_complex", "test_named_expressions"),
)


@dataclass
class Comparison:
    """A module's tests: outcomes by name, plain and compiled."""

    module: str
    plain: dict[str, str]
    compiled: dict[str, str]

    @property
    def passing(self) -> list[str]:
        """Tests that pass plain."""
        return [name for name, outcome in self.plain.items() if outcome == "pass"]

    @property
    def differing(self) -> list[str]:
        """Those of them that do not pass compiled."""
        return [name for name in self.passing if self.compiled.get(name) != "pass"]


def outcomes(module: str, mode: str) -> dict[str, str]:
    """The outcomes of a module's tests; one that kills the process is noted and left out of the next run."""
    found: dict[str, str] = {}
    while True:
        command = [sys.executable, "-m", "tools.cpython_tests.worker", module, mode, *found]
        done = subprocess.run(command, capture_output=True, text=True, cwd=PAGE.parents[1])
        begun = ""
        for line in done.stdout.splitlines():
            row = json.loads(line)
            begun = row["test"] if "outcome" not in row else ""
            if "outcome" in row:
                found[row["test"]] = row["outcome"]
        if not begun and done.returncode:
            raise RuntimeError(f"the tests of {module} do not run:\n{done.stderr[-2000:]}")
        if not begun:
            return found
        found[begun] = f"the process ended with status {done.returncode}"


def compare(module: str) -> Comparison:
    """Run a module both ways."""
    return Comparison(module, outcomes(module, "plain"), outcomes(module, "compiled"))


def remember(item: Comparison) -> dict[str, dict[str, Row]]:
    """Put the module's row into the results of this version of Python, and give all results."""
    results: dict[str, dict[str, Row]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    rows = results.setdefault(".".join(map(str, sys.version_info[:2])), {})
    rows[item.module] = {
        "plain": len(item.passing),
        "differing": {name: _one_line(item.compiled.get(name, "")) for name in item.differing},
    }
    RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    return results


def page(results: dict[str, dict[str, Row]]) -> str:
    """The tables and the lists of differences, a section a version of Python."""
    lines = [
        "# CPython's own tests",
        "",
        "Written by `python -m tools.cpython_tests --write`, which may run module by module: each test method runs",
        'compiled with `optimize("eager")`; what it calls runs under the hook.',
    ]
    for version, rows in sorted(results.items()):
        shown = {module: row for module, row in sorted(rows.items()) if row["plain"]}
        total = sum(row["plain"] for row in shown.values())
        passed = total - sum(len(row["differing"]) for row in shown.values())
        lines += ["", f"## Python {version}", ""]
        lines += [f"**{passed} of the {total} tests that pass plain pass compiled.**", ""]
        lines += ["| module | pass plain | pass compiled |", "|---|---|---|"]
        for module, row in shown.items():
            lines.append(f"| {module} | {row['plain']} | {row['plain'] - len(row['differing'])} |")
        lines += ["", "What differs, and why:", ""]
        for row in shown.values():
            lines += [f"- `{name}`: {KNOWN.get(name) or text}" for name, text in row["differing"].items()]
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    return re.sub(r"/\S*/", "", " ".join(text.split()))[:160]


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", default=MODULES)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    comparisons = []
    for module in options.modules:
        item = compare(module)
        comparisons.append(item)
        print(
            f"{module}: {len(item.passing)} pass plain, {len(item.passing) - len(item.differing)} compiled", flush=True
        )
        for name in item.differing:
            print(f"  {name}: {item.compiled.get(name)}", flush=True)
        if options.write:  # after each, so that what ran counts when the rest does not
            PAGE.write_text(page(remember(item)))
    unknown = [name for item in comparisons for name in item.differing if name not in KNOWN]
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
