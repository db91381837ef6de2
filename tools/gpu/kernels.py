"""Kernels on tensors of 2 GB in bfloat16: bandwidth as a share of the device copy, against eager and the peer.

    python -m tools.gpu.kernels --out results --seconds 500 [--peer] [--only softmax,layer_norm] [--tune]

Bytes are those of a perfect kernel: each input read once, each output written once.
"""

from __future__ import annotations

import argparse
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
import triptych_inductor
from torch.fx.experimental.proxy_tensor import make_fx

from tools.gpu import common

DTYPE = torch.bfloat16
Tensors = list[torch.Tensor]


@dataclass(frozen=True)
class Case:
    """One kernel: a function of tensors, and how its inputs are made."""

    name: str
    function: Callable[..., Any]
    inputs: Callable[[], Tensors]
    forward: Callable[..., Any] | None = None  # where `function` differentiates: what it differentiates


def _randn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, device="cuda", dtype=DTYPE)


def _moments(rows: int) -> torch.Tensor:
    return torch.rand(rows, 1, device="cuda") + 0.5


def _rms_norm(x: torch.Tensor, residual: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    hidden = x + residual
    wide = hidden.float()
    return hidden, (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(hidden.dtype) * w


def _layer_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, (x.shape[-1],), w, b)


def _softmax(x: torch.Tensor) -> torch.Tensor:
    return F.softmax(x, -1)


def _with_gradients(function: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """(output, gradients of all inputs) of a function, from inputs and the output's gradient."""

    def run(*args: torch.Tensor) -> Any:
        *given, grad = args
        leaves = [t.detach().requires_grad_() for t in given]
        with torch.enable_grad():
            out = function(*leaves)
        return (out.detach(), *torch.autograd.grad(out, leaves, grad))

    return run


WIDE, ROWS, SIDE = 4096, 262144, 32768
CASES = [
    Case(
        "gelu(x+y)*w+b",
        lambda x, y, w, b: F.gelu(x + y) * w + b,
        lambda: [_randn(ROWS, WIDE), _randn(ROWS, WIDE), _randn(WIDE), _randn(WIDE)],
    ),
    Case("softmax 4096", _softmax, lambda: [_randn(ROWS, WIDE)]),
    Case(
        "layer norm",
        _layer_norm,
        lambda: [_randn(ROWS, WIDE), _randn(WIDE), _randn(WIDE)],
    ),
    Case("rms norm + residual", _rms_norm, lambda: [_randn(ROWS, WIDE), _randn(ROWS, WIDE), _randn(WIDE)]),
    Case("sum last", lambda x: x.sum(-1), lambda: [_randn(SIDE, SIDE)]),
    Case("sum first", lambda x: x.sum(0), lambda: [_randn(SIDE, SIDE)]),
    Case("sum all", lambda x: x.sum(), lambda: [_randn(SIDE, SIDE)]),
    Case("max with argmax", lambda x: tuple(x.max(-1)), lambda: [_randn(ROWS, WIDE)]),
    Case("x + x.T", lambda x: x + x.t(), lambda: [_randn(SIDE, SIDE)]),
    Case("transposed copy", lambda x: x.t().contiguous(), lambda: [_randn(SIDE, SIDE)]),
    Case(
        "cross entropy 32768",
        lambda x, t: F.cross_entropy(x, t),
        lambda: [_randn(SIDE, SIDE), torch.randint(0, SIDE, (SIDE,), device="cuda")],
    ),
    Case("cumsum", lambda x: x.cumsum(-1), lambda: [_randn(ROWS, WIDE)]),
    Case(
        "layer norm fw+bw",
        _with_gradients(_layer_norm),
        lambda: [_randn(ROWS, WIDE), _randn(WIDE), _randn(WIDE), _randn(ROWS, WIDE)],
        _layer_norm,
    ),
    Case(
        "layer norm bw 1024",
        lambda dy, x, mean, rstd, w: torch.ops.aten.native_layer_norm_backward(
            dy, x, [1024], mean, rstd, w, w, [True, True, True]
        ),
        lambda: [*(_randn(2**20, 1024) for _ in range(2)), *(_moments(2**20) for _ in range(2)), _randn(1024)],
    ),
    Case("cumsum of columns", lambda x: x.cumsum(0), lambda: [_randn(SIDE, SIDE)]),
    Case("cumsum of 4 rows", lambda x: x.cumsum(-1), lambda: [_randn(4, 2**28)]),
    Case("cummax", lambda x: tuple(x.cummax(-1)), lambda: [_randn(ROWS // 4, WIDE)]),
    Case("softmax fw+bw", _with_gradients(_softmax), lambda: [_randn(ROWS, WIDE), _randn(ROWS, WIDE)], _softmax),
]


def _flat(value: Any) -> Tensors:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def _bytes(tensors: Tensors) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


def worst_error(mine: torch.Tensor, theirs: torch.Tensor) -> float:
    """Largest difference over the largest magnitude, in pieces, so that little memory is needed."""
    if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
        return float("inf")
    if not mine.is_floating_point():
        return float((mine != theirs).float().mean())
    top = error = 0.0
    for a, b in zip(mine.reshape(-1).split(2**26), theirs.reshape(-1).split(2**26), strict=True):
        error = max(error, float((a.float() - b.float()).abs().max()))
        top = max(top, float(b.float().abs().max()))
    return error / max(top, 1e-30)


def compile_case(case: Case, inputs: Tensors, options: dict[str, Any] | None = None) -> tuple[Any, float]:
    """The compiled graph of a case, and the seconds that took (trace left out)."""
    gm = make_fx(case.function, tracing_mode="fake")(*inputs)
    examples = [n.meta["val"] for n in gm.graph.nodes if n.op == "placeholder"]
    start = time.perf_counter()
    compiled = triptych_inductor.compile(gm, examples, options=options)
    return compiled, time.perf_counter() - start


def _peer(case: Case) -> Callable[..., Any]:
    """The case through torch.compile."""
    if case.forward is None:
        return torch.compile(case.function, dynamic=False)
    return _with_gradients(torch.compile(case.forward, dynamic=False))


def host_costs(peer: bool) -> dict[str, float]:
    """Host microseconds of small calls: `x + 1`, and thirty pairs of a product 64 wide and a tanh on 16 rows."""

    def chain(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        for _ in range(30):
            x = torch.tanh(x @ w)
        return x

    cases = {"x + 1": (lambda x: x + 1, [torch.zeros(16, device="cuda")])}
    cases["30 mm and tanh"] = (chain, [torch.randn(16, 64, device="cuda"), torch.randn(64, 64, device="cuda") / 8])
    found: dict[str, float] = {}
    with torch.no_grad():
        for name, (function, inputs) in cases.items():
            calls = {"eager": function, "ours": compile_case(Case(name, function, lambda: []), inputs)[0]}
            if peer:
                calls["peer"] = torch.compile(function)
            for who, call in calls.items():
                found[f"{name}: {who}"] = 1e6 * common.host_time(partial(call, *inputs))
    return found


def run_case(
    case: Case, bandwidth: float, peer: bool, repeats: int, options: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Measure one case."""
    torch.manual_seed(0)
    inputs = case.inputs()
    row: dict[str, Any] = {"name": case.name}
    with torch.no_grad():
        eager = _flat(case.function(*inputs))
        ideal = (_bytes(inputs) + _bytes(eager)) / bandwidth
        row["gigabytes"] = (_bytes(inputs) + _bytes(eager)) / 1e9
        try:
            compiled, row["compile_s"] = compile_case(case, inputs, options)
            for choice in compiled.tuning:
                print(choice, flush=True)
            mine = _flat(compiled(*inputs))
            torch.cuda.synchronize()
            row["error"] = max(worst_error(a, b) for a, b in zip(mine, eager, strict=True))
            del mine
            row["kernels"], row["fallbacks"] = len(compiled.kernels), compiled.fallbacks
            row["ours"] = ideal / common.measure(lambda: compiled(*inputs), repeats)
        except Exception as error:
            row["failed"] = f"{type(error).__name__}: {error}"
            traceback.print_exc()
        del eager
        row["eager"] = ideal / common.measure(lambda: case.function(*inputs), repeats)
        if peer:
            try:
                function = _peer(case)
                row["peer"] = ideal / common.measure(lambda: function(*inputs), repeats)
            except Exception as error:
                row["peer_failed"] = f"{type(error).__name__}: {str(error)[:300]}"
    return row


def main() -> None:
    """Run the cases and print shares of the copy bandwidth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="")
    parser.add_argument("--seconds", type=float, default=500)
    parser.add_argument("--only", default="", help="parts of names, by comma")
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--tune", action="store_true", help="time candidate layouts, and print what was tried")
    given = parser.parse_args()
    clock = common.Clock(given.seconds)
    bandwidth = common.copy_bandwidth()
    rows: list[dict[str, Any]] = []
    wanted = [part for part in given.only.split(",") if part]
    for case in CASES:
        if wanted and not any(part in case.name for part in wanted):
            continue
        if clock.left < 25:
            rows.append({"name": case.name, "failed": "no time left"})
            continue
        torch.cuda.empty_cache()
        rows.append(run_case(case, bandwidth, given.peer, given.repeats, {"max_autotune": given.tune}))
        print(rows[-1], flush=True)
        common.write(given.out, "kernels.json", {"facts": common.facts(), "copy_tb_s": bandwidth / 1e12, "rows": rows})
    try:
        print("host µs:", {k: round(v, 1) for k, v in host_costs(given.peer and clock.left > 40).items()})
    except Exception:
        traceback.print_exc()
    print(f"device copy {bandwidth / 1e12:.2f} TB/s; columns ours, eager, peer: share of it")
    head = ["kernel", "GB", "ours", "eager", "peer", "error", "kernels", "fallbacks", "compile s"]
    keys = ["name", "gigabytes", "ours", "eager", "peer", "error", "kernels", "fallbacks", "compile_s"]
    print(common.table(head, [[row.get(k) for k in keys] for row in rows]))


if __name__ == "__main__":
    main()
