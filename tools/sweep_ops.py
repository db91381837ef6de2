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
import warnings
from pathlib import Path
from typing import Any

from tools import shards


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
    gradients = []
    try:
        results = [t for t in pytree.tree_leaves(function(*own)) if isinstance(t, torch.Tensor)]
        heads = [t for t in results if t.requires_grad]
        if heads:
            gradients = torch.autograd.grad(heads, wanted, [torch.ones_like(t) for t in heads], allow_unused=True)
    except Exception as error:
        return type(error), str(error)
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


def check_case(op: Any, dtype: Any, given: argparse.Namespace) -> dict[str, Any]:
    """The first samples of an operator; the result of the first bad one, or of the last."""
    kinds = op.supported_backward_dtypes(given.device) if op.supports_autograd else ()
    result: dict[str, Any] = {"state": "no sample"}
    # Some samples for a backward differ from those without: attention that is differentiated keeps its logsumexp.
    for sample in itertools.islice(op.sample_inputs(given.device, dtype, requires_grad=dtype in kinds), given.samples):
        result = check_sample(op, sample, dtype, kinds)
        if result["state"] in shards.BAD:
            break
    return result


def main() -> int:
    """Sweep, print what is bad and the counts; the exit status is 1 when anything is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shards.add_arguments(parser, dtypes="float32,bfloat16,int64,bool", shards=2, seconds=3000, device="cpu")
    given = parser.parse_args()
    if given.shard:
        import torch

        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        table = shards.operators()
        shards.run_shard(
            given, lambda case: check_case(table[case[:2]], getattr(torch, case[2]), given), lambda error: False
        )
        return 0
    results, _ = shards.sweep("tools.sweep_ops", given)
    bad = shards.show(results, len(shards.cases(given)))
    if given.out:
        Path(given.out).mkdir(parents=True, exist_ok=True)
        (Path(given.out) / f"sweep_{given.device}.json").write_text(json.dumps(results, indent=1))
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
