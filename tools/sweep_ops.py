"""torch's operator database through the whole stack: each op compiled, forward and backward, against eager.

    python -m tools.sweep_ops [--device cpu] [--dtypes float32,int64] [--samples 1] [--shards 2] [--seconds 3000]
        [--only add,softmax] [--out results]

Compared are values, dtypes, shapes, strides of dense results, gradients, and the type of a raised exception. Each shard
is a process of its own; where one dies, the op at hand counts as crashed and a new process goes on behind it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

DTYPES = "float32,bfloat16,int64,bool"
BAD = ("wrong", "failed", "crashed")


def cases(device: str, dtypes: list[str], only: list[str]) -> list[tuple[str, str, str]]:
    """(op, variant, dtype) of everything that is swept, in a fixed order."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    return [
        (op.name, op.variant_test_name, name)
        for op in op_db
        for name in dtypes
        if (not only or any(part in op.name for part in only)) and getattr(torch, name) in op.supported_dtypes(device)
    ]


def run(function: Any, leaves: list[Any], differentiable: bool) -> tuple[Any, ...]:
    """(results, gradients of floating inputs), or (type of the exception, its text)."""
    import torch
    from torch.utils import _pytree as pytree

    own = [leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    wanted = [
        t for t in own if differentiable and isinstance(t, torch.Tensor) and (t.is_floating_point() or t.is_complex())
    ]
    for tensor in wanted:
        tensor.requires_grad_()
    torch.manual_seed(7)
    try:
        results = [t for t in pytree.tree_leaves(function(*own)) if isinstance(t, torch.Tensor)]
    except Exception as error:
        return type(error), str(error)
    gradients = []
    heads = [t for t in results if t.requires_grad]
    if heads:
        gradients = torch.autograd.grad(heads, wanted, [torch.ones_like(t) for t in heads], allow_unused=True)
    return [t.detach() for t in results], list(gradients)


def error_against(reference: tuple[Any, ...], got: tuple[Any, ...]) -> float:
    """Largest distance of results and gradients from a float64 run, relative to each tensor's largest number."""
    import torch

    worst = 0.0
    for part in (0, 1):
        for one, exact in zip(got[part], reference[part], strict=True):
            if one is None or exact is None or not exact.numel():
                continue
            exact = torch.nan_to_num(exact.to(torch.float64))
            distance = (torch.nan_to_num(one.to(torch.float64)) - exact).abs().max() / exact.abs().max().clamp_min(
                1e-30
            )
            worst = max(worst, distance.item())
    return worst


def near_enough(function: Any, leaves: list[Any], expected: tuple[Any, ...], got: tuple[Any, ...]) -> bool:
    """Whether half precision results lie as near to a float64 run as eager's, within a factor of two."""
    import torch

    wide = [
        leaf.to(torch.float64) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf
        for leaf in leaves
    ]
    reference = run(function, wide, True)
    if isinstance(reference[0], type) or isinstance(got[0], type):
        return False
    return error_against(reference, got) <= 2 * error_against(reference, expected) + 1e-3


def difference(expected: tuple[Any, ...], got: tuple[Any, ...], dtype: Any) -> str | None:
    """What is not equal, or None."""
    import torch

    if isinstance(expected[0], type) or isinstance(got[0], type):
        same = isinstance(expected[0], type) and isinstance(got[0], type) and issubclass(got[0], expected[0])
        return None if same else f"raised {got if isinstance(got[0], type) else 'nothing'}, eager {str(expected)[:200]}"
    for what, mine, theirs in (("result", got[0], expected[0]), ("gradient", got[1], expected[1])):
        if len(mine) != len(theirs):
            return f"{len(mine)} {what}s, eager {len(theirs)}"
        for one, two in zip(mine, theirs, strict=True):
            if (one is None) != (two is None):
                return f"{what} is {'missing' if one is None else 'there'}"
            if one is None:
                continue
            try:
                torch.testing.assert_close(
                    one, two, equal_nan=True, check_stride=what == "result" and two.layout == torch.strided
                )
            except AssertionError as error:
                return f"{what}: {' '.join(str(error).split())[:250]}"
    return None


def check_sample(op: Any, sample: Any, dtype: Any, kinds: Any) -> dict[str, Any]:
    """One sample, eager twice (is it random beyond the seed?) and compiled."""
    import torch
    import triptych
    from torch.utils import _pytree as pytree

    leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))

    def function(*own: Any) -> Any:
        first, args, kwargs = pytree.tree_unflatten(list(own), spec)
        return op.op(first, *args, **kwargs)

    differentiable = dtype in kinds
    expected = run(function, leaves, differentiable)
    if difference(expected, run(function, leaves, differentiable), dtype):
        return {"state": "random"}
    compiled = triptych.compile(function)
    got = run(compiled, leaves, differentiable)
    why = difference(expected, got, dtype)
    if why and dtype in (torch.bfloat16, torch.float16) and near_enough(function, leaves, expected, got):
        return {"state": "right"}
    return {"state": "wrong", "why": why} if why else {"state": "right"}


def run_shard(given: argparse.Namespace) -> None:
    """Sweep every n-th case from `--start` on; JSON lines into `--log`."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    end = time.monotonic() + given.seconds
    table = {(op.name, op.variant_test_name): op for op in op_db}
    number, total = map(int, given.shard.split("/"))
    mine = cases(given.device, given.dtypes.split(","), _parts(given.only))[number::total]
    with open(given.log, "a", encoding="utf-8") as log:
        for position, (name, variant, dtype_name) in enumerate(mine):
            if position < given.start or time.monotonic() > end:
                continue
            head = {"position": position, "op": name, "variant": variant, "dtype": dtype_name}
            log.write(json.dumps(head | {"state": "started"}) + "\n")
            log.flush()
            op, dtype = table[(name, variant)], getattr(torch, dtype_name)
            result: dict[str, Any] = {"state": "no sample"}
            for sample in itertools.islice(op.sample_inputs(given.device, dtype), given.samples):
                try:
                    result = check_sample(
                        op, sample, dtype, op.supported_backward_dtypes(given.device) if op.supports_autograd else ()
                    )
                except Exception as error:
                    result = {"state": "failed", "why": f"{type(error).__name__}: {str(error).strip()[:400]}"}
                if result["state"] in BAD:
                    break
            log.write(json.dumps(head | result) + "\n")
            log.flush()


def _parts(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


def _results(log: Path) -> list[dict[str, Any]]:
    last: dict[int, dict[str, Any]] = {}
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else ():
        item = json.loads(line)
        last[item["position"]] = item
    return [item | {"state": "crashed"} if item["state"] == "started" else item for item in last.values()]


def sweep(given: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Run all shards to their end, starting dead ones again behind the op that ended them."""
    end = time.monotonic() + given.seconds
    logs = [folder / f"shard{k}.jsonl" for k in range(given.shards)]

    def start(k: int, position: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tools.sweep_ops", "--shard", f"{k}/{given.shards}", "--log", str(logs[k])]
        command += ["--start", str(position), "--seconds", str(end - time.monotonic()), "--dtypes", given.dtypes]
        command += ["--only", given.only, "--samples", str(given.samples), "--device", given.device]
        return subprocess.Popen(command, stderr=subprocess.DEVNULL)

    running = {k: start(k, 0) for k in range(given.shards)}
    while running and time.monotonic() < end + 10:
        time.sleep(0.5)
        for k, process in list(running.items()):
            if process.poll() is None:
                continue
            del running[k]
            if process.returncode != 0 and time.monotonic() < end:
                running[k] = start(k, max((item["position"] for item in _results(logs[k])), default=-1) + 1)
    for process in running.values():
        process.kill()
    return [item for log in logs for item in _results(log)]


def main() -> int:
    """Sweep, print what is bad and the counts; the exit status is 1 when anything is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtypes", default=DTYPES)
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3000)
    parser.add_argument("--only", default="")
    parser.add_argument("--out", default="")
    for hidden in ("shard", "log"):
        parser.add_argument(f"--{hidden}", default="", help=argparse.SUPPRESS)
    parser.add_argument("--start", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.shard:
        run_shard(given)
        return 0
    with tempfile.TemporaryDirectory() as name:
        results = sweep(given, Path(name))
    bad = sorted((r for r in results if r["state"] in BAD), key=lambda r: (r["state"], r["op"], r["dtype"]))
    for r in bad:
        print(f"{r['state']:8} {r['op']} {r['variant']} {r['dtype']}: {r.get('why', '')[:260]}")
    for (dtype, state), count in sorted(Counter((r["dtype"], r["state"]) for r in results).items()):
        print(f"{dtype:10} {state:10} {count:6}")
    total = len(cases(given.device, given.dtypes.split(","), _parts(given.only)))
    print(f"{len(results)} of {total} swept, {len(bad)} bad")
    if given.out:
        Path(given.out).mkdir(parents=True, exist_ok=True)
        (Path(given.out) / f"sweep_{given.device}.json").write_text(json.dumps(results, indent=1))
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
