"""How often programs whose sizes and numbers change are compiled, here and by torch.compile.

`python -m tools.recompiles` prints the table.

One row a program: graphs handed to a backend that runs them as they are, over all its calls.
"""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Callable
from typing import Any

import torch
import triptych_dynamo

X = torch.ones(4, 4)


class Steps(torch.nn.Module):
    """A counter and a decaying rate."""

    def __init__(self) -> None:
        super().__init__()
        self.step, self.rate = 0, 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.step += 1
        self.rate *= 0.9
        return x * self.rate + self.step


def _sizes(*sizes: int) -> list[tuple[Any, ...]]:
    return [(torch.ones(size, 4),) for size in sizes]


# name -> (what makes the program, its calls, keywords of the compile)
PROGRAMS: dict[str, tuple[Callable[[], Any], list[tuple[Any, ...]], dict[str, Any]]] = {
    "batch sizes 8 to 16": (lambda: lambda x: x * 2, _sizes(*range(8, 17)), {}),
    "rows 2, 5, 1, 0 with `dynamic=True`": (lambda: lambda x: x.sin(), _sizes(2, 5, 1, 0), {"dynamic": True}),
    "twelve floats": (lambda: lambda x, s: x * s, [(X, 0.5 + n) for n in range(12)], {}),
    "integers 0 to 11": (lambda: lambda x, n: x * n, [(X, n) for n in range(12)], {}),
    "a counter and a rate of a module, twelve steps": (Steps, [(X,)] * 12, {}),
    "`x[: n.item()] * 2`, five lengths": (
        lambda: lambda n, x: x[: n.item()] * 2,
        [(torch.tensor(n), X) for n in range(5)],
        {},
    ),
    "`x[x > 0]`, five masks": (lambda: lambda x: x[x > 0] * 2, [(torch.randn(4, 4),) for _ in range(5)], {}),
}


def graphs(compile_with: Callable[..., Any], name: str) -> int:
    """How many graphs the backend is given over the calls of a program."""
    make, calls, keywords = PROGRAMS[name]
    seen: list[int] = []

    def backend(module: Any, inputs: Any) -> Any:
        seen.append(1)
        return module.forward

    compiled = compile_with(make(), backend, **keywords)
    for call in calls:
        compiled(*copy.deepcopy(call))
    return len(seen)


def ours(program: Any, backend: Any, **keywords: Any) -> Any:
    """Compiled here."""
    return triptych_dynamo.optimize(backend, **keywords)(program)


def peers(program: Any, backend: Any, **keywords: Any) -> Any:
    """Compiled by torch."""
    torch.compiler.reset()
    return torch.compile(program, backend=backend, **keywords)


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    logging.getLogger("torch._dynamo").setLevel(logging.CRITICAL)
    print("| program | compiles here | torch.compile |\n|---|---|---|")
    for name in PROGRAMS:
        print(f"| {name} | {graphs(ours, name)} | {graphs(peers, name)} |")


if __name__ == "__main__":
    main()
