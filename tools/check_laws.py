"""``python tools/check_laws.py``: the second law of the house, for product code.

No import of the peer (`FORBIDDEN`), in any form that a syntax tree shows (statements, `importlib.import_module` and
`__import__` with a literal, attribute chains such as `torch._dynamo.x`), and no call of `torch.compile`. The import
contracts of import-linter see module borders only; this also sees calls and attributes. Exits with status 1 and a
line for each breach.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

FORBIDDEN = (
    "torch._dynamo",
    "torch._inductor",
    "torch._functorch.aot_autograd",
    "torch._functorch._aot_autograd",
    "torch._functorch.partitioners",
    "torch._functorch.compilers",
    "torch._export",
    "torch.export",
    "torch._C._dynamo",
    "torch.compile",
)
IMPORTERS = {"import_module", "__import__"}


def _is_forbidden(name: str) -> bool:
    return any(name == law or name.startswith(law + ".") for law in FORBIDDEN)


def _dotted(node: ast.expr) -> str:
    """`a.b.c` of an attribute chain that starts at a name; "" of anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _names(node: ast.AST) -> Iterator[str]:
    """The dotted names that a node imports or reads."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.level == 0:
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Attribute):
        yield _dotted(node)
    elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if function in IMPORTERS and isinstance(node.args[0].value, str):
            yield node.args[0].value


def breaches(source: str) -> list[tuple[int, str]]:
    """Line and name of each breach in Python text."""
    tree = ast.parse(source)
    return sorted(
        {(getattr(n, "lineno", 0), name) for n in ast.walk(tree) for name in _names(n) if _is_forbidden(name)}
    )


def main() -> int:
    """Checks every product file; returns the exit status."""
    failed = False
    for path in sorted(ROOT.glob("packages/*/src/**/*.py")):
        for line, name in breaches(path.read_text()):
            failed = True
            print(f"{path.relative_to(ROOT)}:{line}: {name} is the peer's; product code must not use it (law 2)")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
