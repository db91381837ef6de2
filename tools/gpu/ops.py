"""torch's operator database on the GPU: each op's first sample through the code generator alone, against eager.

    python -m tools.gpu.ops --out results --seconds 500 [--shards 12] [--dtypes float32,int64] [--only softmax,add]

Each shard is a process of its own; where one dies (a device assertion ends its use of the GPU) the op at hand is
counted as crashed and a new process goes on behind it.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
import types
import unittest
from collections import Counter
from pathlib import Path
from typing import Any

from tools.gpu import common

DTYPES = ("float32", "bfloat16", "int64")

if (
    importlib.util.find_spec("expecttest") is None
):  # torch's test utilities want a class of it, which this sweep never uses
    sys.modules["expecttest"] = types.ModuleType("expecttest")
    sys.modules["expecttest"].TestCase = unittest.TestCase  # type: ignore[attr-defined]


def cases(dtypes: list[str], only: list[str]) -> list[tuple[str, str, str]]:
    """(op, variant, dtype) of everything that is swept, in a fixed order."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    found = []
    for op in op_db:
        if only and not any(part in op.name for part in only):
            continue
        for name in dtypes:
            if getattr(torch, name) in op.supported_dtypes("cuda"):
                found.append((op.name, op.variant_test_name, name))
    return found


def check_case(op: Any, dtype: Any) -> dict[str, Any]:
    """Compile an op's first sample and compare with eager."""
    import torch
    import triptych_inductor
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.utils import _pytree as pytree

    samples = list(itertools.islice(op.sample_inputs("cuda", dtype, requires_grad=False), 1))
    if not samples:
        return {"state": "no sample"}
    sample = samples[0]
    leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def function(*given: Any) -> Any:
        rest = iter(given)
        own = [next(rest) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        first, args, kwargs = pytree.tree_unflatten(own, spec)
        result = op.op(first, *args, **kwargs)
        return tuple(t for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor))

    with torch.no_grad():
        expected = function(*[t.clone() for t in tensors])
        if not expected:
            return {"state": "no tensor result"}
        try:
            gm = make_fx(function, tracing_mode="fake")(*tensors)
        except Exception as error:
            return {"state": "not traceable", "why": f"{type(error).__name__}: {str(error)[:120]}"}
        examples = [n.meta["val"] for n in gm.graph.nodes if n.op == "placeholder"]
        compiled = triptych_inductor.compile(gm, examples)
        got = compiled(*[t.clone() for t in tensors])
        torch.cuda.synchronize()
    facts = {"kernels": len(compiled.kernels), "fallbacks": dict(compiled.fallbacks)}
    seeded = torch.Tag.nondeterministic_seeded
    if any(seeded in getattr(n.target, "tags", ()) for n in gm.graph.nodes):
        return {"state": "random", **facts}
    for mine, theirs in zip(got, expected, strict=True):
        try:
            torch.testing.assert_close(mine, theirs, equal_nan=True)
        except AssertionError as error:
            return {"state": "wrong", "why": " ".join(str(error).split())[:300], **facts}
    return {"state": "kernel" if not compiled.fallbacks else "fallback", **facts}


def run_shard(given: argparse.Namespace) -> None:
    """Sweep every n-th case, from `--start` on; one JSON line a case."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    torch.backends.cuda.matmul.allow_tf32 = False
    clock = common.Clock(given.seconds)
    table = {(op.name, op.variant_test_name): op for op in op_db}
    number, total = map(int, given.shard.split("/"))
    mine = cases(given.dtypes.split(","), [p for p in given.only.split(",") if p])[number::total]
    with open(given.log, "a", encoding="utf-8") as log:
        for position, (name, variant, dtype) in enumerate(mine):
            if position < given.start:
                continue
            if clock.left < 5:
                break
            head = {"position": position, "op": name, "variant": variant, "dtype": dtype}
            log.write(json.dumps(head | {"state": "started"}) + "\n")
            log.flush()
            start = time.perf_counter()
            try:
                result = check_case(table[(name, variant)], getattr(torch, dtype))
            except Exception as error:
                result = {"state": "failed", "why": f"{type(error).__name__}: {str(error).strip()[-600:]}"}
                if "CUDA error" in str(error) or "device-side" in str(error):
                    raise
            log.write(json.dumps(head | result | {"seconds": round(time.perf_counter() - start, 2)}) + "\n")
            log.flush()


def _start_shard(
    given: argparse.Namespace, number: int, log: Path, start: int, seconds: float
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tools.gpu.ops", "--shard", f"{number}/{given.shards}", "--log", str(log)]
    command += ["--start", str(start), "--seconds", str(seconds), "--dtypes", given.dtypes, "--only", given.only]
    environment = {**os.environ, "TRIPTYCH_BUILD_WORKERS": "1", "OMP_NUM_THREADS": "1"}
    with open(log.with_suffix(".err"), "ab") as errors:
        return subprocess.Popen(command, env=environment, stdout=errors, stderr=errors)


def _results(log: Path) -> list[dict[str, Any]]:
    """Final line of each case; one that was only started is a crash."""
    last: dict[int, dict[str, Any]] = {}
    if log.exists():
        for line in log.read_text(encoding="utf-8").splitlines():
            item = json.loads(line)
            last[item["position"]] = item
    return [item | {"state": "crashed"} if item["state"] == "started" else item for item in last.values()]


def sweep(given: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Run all shards to their end, starting dead ones again behind the op that ended them."""
    clock = common.Clock(given.seconds - 10)
    logs = [folder / f"shard{k}.jsonl" for k in range(given.shards)]
    running = {k: _start_shard(given, k, log, 0, clock.left) for k, log in enumerate(logs)}
    while running and clock.left > 0:
        time.sleep(1)
        for k, process in list(running.items()):
            if process.poll() is None:
                continue
            del running[k]
            done = _results(logs[k])
            if process.returncode != 0 and clock.left > 30:
                start = max((item["position"] for item in done), default=-1) + 1
                running[k] = _start_shard(given, k, logs[k], start, clock.left)
    for process in running.values():
        process.kill()
    return [item for log in logs for item in _results(log)]


def main() -> None:
    """Sweep and print counts, failures first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="")
    parser.add_argument("--seconds", type=float, default=500)
    parser.add_argument("--shards", type=int, default=12)
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--only", default="")
    parser.add_argument("--shard", default="", help=argparse.SUPPRESS)
    parser.add_argument("--log", default="", help=argparse.SUPPRESS)
    parser.add_argument("--start", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.shard:
        run_shard(given)
        return
    with tempfile.TemporaryDirectory() as name:
        results = sweep(given, Path(name))
        errors = "\n".join(p.read_text(errors="replace")[-1500:] for p in Path(name).glob("*.err"))
    common.write(given.out, "ops.json", {"facts": common.facts(), "results": results, "errors": errors[-8000:]})
    bad = [r for r in results if r["state"] in ("wrong", "failed", "crashed")]
    for r in sorted(bad, key=lambda r: (r["state"], r["op"])):
        print(f"{r['state']:8} {r['op']} {r['variant']} {r['dtype']}: {r.get('why', '')[-220:]}")
    print(common.table(["dtype", "state", "count"], sorted((d, s, c) for (d, s), c in _counts(results).items())))
    swept = len(cases(given.dtypes.split(","), [p for p in given.only.split(",") if p]))
    print(f"{len(results)} of {swept} swept, {len(bad)} bad")


def _counts(results: list[dict[str, Any]]) -> Counter[tuple[str, str]]:
    return Counter((r["dtype"], r["state"]) for r in results)


if __name__ == "__main__":
    main()
