"""CUDA graphs on the device: right over many steps, kept outputs, several shapes, written inputs; host time of a chain.

python -m tools.gpu.replay
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import triptych_inductor
from torch.fx.experimental.proxy_tensor import make_fx

from tools.gpu import common


def compiled_graph(function: Any, inputs: list[torch.Tensor], **options: Any) -> Any:
    """A function compiled by the code generator alone."""
    gm = make_fx(function, tracing_mode="fake")(*inputs)
    examples = [n.meta["val"] for n in gm.graph.nodes if n.op == "placeholder"]
    return triptych_inductor.compile(gm, examples, options=options)


def chain(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Thirty pairs of a product and a tanh."""
    for _ in range(30):
        x = torch.tanh(x @ w)
    return x


def check_steps() -> str:
    """Two hundred steps with changing inputs, weights updated in place, all outputs kept."""
    w = torch.randn(64, 64, device="cuda") / 8
    call = compiled_graph(chain, [torch.randn(16, 64, device="cuda"), w], cudagraphs=True)
    kept = []
    for step in range(200):
        x = torch.randn(16, 64, device="cuda")
        kept.append((x, w.clone(), call(x, w)))
        w.mul_(1.001)
        if step == 100:
            w = w.clone()
    worst = max(float((out - chain(x, old)).abs().max()) for x, old, out in kept)
    state = call.replay
    return f"worst of 200 kept outputs {worst:.2g}, recordings {len(state.recordings)}, reason {state.reason!r}"


def check_written_inputs() -> str:
    """A running sum that the graph writes into its input."""

    def count(x: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        total.add_(x)
        return x * 2

    total, expected = torch.zeros(8, device="cuda"), torch.zeros(8, device="cuda")
    call = compiled_graph(count, [torch.ones(8, device="cuda"), total.clone()], cudagraphs=True)
    for k in range(20):
        x = torch.full((8,), float(k), device="cuda")
        call(x, total)
        expected += x
    return f"written input right: {torch.equal(total, expected)}"


def main() -> None:
    """Print what was found."""
    with torch.no_grad():
        print(check_steps())
        print(check_written_inputs())
        inputs = [torch.randn(16, 64, device="cuda"), torch.randn(64, 64, device="cuda") / 8]
        for name, options in (("plain", {}), ("reduce-overhead", {"cudagraphs": True})):
            call = compiled_graph(chain, inputs, **options)
            print(f"30 mm and tanh, {name}: {1e6 * common.host_time(partial(call, *inputs)):.1f} µs")


if __name__ == "__main__":
    main()
