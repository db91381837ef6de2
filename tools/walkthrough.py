"""``python -m tools.walkthrough [--check]``: fills the worked example of docs/architecture.md with what is really made.

The page has regions between ``<!-- begin: NAME -->`` and ``<!-- end: NAME -->``. This compiles `example` and writes
each stage's product into the region of its name; ``--check`` only tells, by its exit status, whether all are there.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import triptych_aot_autograd
import triptych_dynamo
import triptych_inductor
from torch.fx import GraphModule

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
KERNELS = re.compile(r"\n\n((?:// [^\n]*\n)+static void kernel_.*?)\nstatic KernelRow", re.DOTALL)
REGION = re.compile(r"(<!-- begin: (\S+) -->\n)(.*?)(<!-- end: \2 -->)", re.DOTALL)


def example(x: torch.Tensor, weight: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
    """A linear layer, an activation and a softmax."""
    hidden = torch.nn.functional.gelu(x @ weight)
    return torch.softmax(hidden * scale, dim=-1)


def _arguments() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(64, 128), torch.randn(128, 256, requires_grad=True)


def _block(language: str, text: str) -> str:
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    return "\n".join([f"```{language}", *lines, "```", ""]).replace(f"{ROOT}/", "")


def _kernels(files: Mapping[str, str]) -> str:
    """The generated functions of the C++ files, without the vector header before and the tables after them."""
    found = (KERNELS.search(text) for name, text in files.items() if not name.endswith(".py"))
    return "\n".join(match[1] for match in found if match)


def _guards(guards: Iterable[Any]) -> str:
    return "\n".join(re.sub(r" from '.*", " ...>", str(guard)) for guard in guards)


def products() -> dict[str, str]:
    """Region name -> markdown: the program, its guards and graph, the ATen graphs, the generated code."""
    made = {"program": _block("python", inspect.getsource(example))}
    captured = triptych_dynamo.capture(example)(*_arguments())
    made["guards"] = _block("text", _guards(captured.guards))
    made["captured"] = _block("python", captured.graph_module.print_readable(print_output=False))

    def compiler(role: str) -> Callable[[GraphModule, Sequence[Any]], Callable[..., Any]]:
        def run(gm: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
            made[f"{role}-graph"] = _block("python", gm.print_readable(print_output=False))
            compiled = triptych_inductor.compile(gm, inputs)
            made[f"{role}-code"] = _block("python", compiled.source) + "\n" + _block("cpp", _kernels(compiled.files))
            return compiled

        return run

    backend = triptych_aot_autograd.aot_backend(fw_compiler=compiler("forward"), bw_compiler=compiler("backward"))
    args = _arguments()
    result = triptych_dynamo.optimize(backend, fullgraph=True)(example)(*args)
    torch.testing.assert_close(result, example(*args))
    result.square().sum().backward()
    return made


def filled(page: str, made: dict[str, str]) -> str:
    """The page with every region replaced. Raises KeyError for a region that nothing is made for."""
    return REGION.sub(lambda match: f"{match[1]}{made[match[2]]}{match[4]}", page)


def main() -> int:
    """Rewrites the page, or with ``--check`` says whether it has a region for each product; returns the exit status."""
    page, made = PAGE.read_text(), products()
    missing = made.keys() - {match[2] for match in REGION.finditer(page)}
    if missing:
        print(f"{PAGE.name} has no region for: {', '.join(sorted(missing))}")
    if "--check" not in sys.argv:
        PAGE.write_text(filled(page, made))
    return 1 if missing else 0


if __name__ == "__main__":
    raise SystemExit(main())
