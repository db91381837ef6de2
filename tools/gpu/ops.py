"""torch's operator database on the GPU: each op's first sample through the code generator alone, against eager.

    python -m tools.gpu.ops --out results --seconds 500 [--shards 12] [--dtypes float32,int64] [--only softmax,add]

Each shard is a process of its own; where one dies (a device assertion ends its use of the GPU) the op at hand is
counted as crashed and a new process goes on behind it.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import sys
import types
import unittest
from typing import Any

from tools import shards
from tools.gpu import common

if (
    importlib.util.find_spec("expecttest") is None
):  # torch's test utilities want a class of it, which this sweep never uses
    sys.modules["expecttest"] = types.ModuleType("expecttest")
    sys.modules["expecttest"].TestCase = unittest.TestCase  # type: ignore[attr-defined]


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


def _is_fatal(error: Exception) -> bool:
    """Whether an error means that the process can use the GPU no more."""
    return "CUDA error" in str(error) or "device-side" in str(error)


def main() -> int:
    """Sweep and print counts, failures first; the exit status is 1 when anything is bad."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shards.add_arguments(parser, dtypes="float32,bfloat16,int64", shards=12, seconds=500, device="cuda")
    given = parser.parse_args()
    import torch

    if given.shard:
        torch.backends.cuda.matmul.allow_tf32 = False
        table = shards.operators()
        shards.run_shard(given, lambda case: check_case(table[case[:2]], getattr(torch, case[2])), _is_fatal)
        return 0
    results, errors = shards.sweep("tools.gpu.ops", given, {"TRIPTYCH_BUILD_WORKERS": "1", "OMP_NUM_THREADS": "1"})
    common.write(given.out, "ops.json", {"facts": common.facts(), "results": results, "errors": errors[-8000:]})
    return 1 if shards.show(results, len(shards.cases(given))) else 0


if __name__ == "__main__":
    raise SystemExit(main())
