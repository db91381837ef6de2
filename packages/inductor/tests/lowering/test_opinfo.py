"""Every op of torch's own table against eager, through the interpreter: kernels and declared fallbacks alike."""

import itertools
import logging
import warnings

import pytest
import torch
import torch.utils._pytree as pytree
import triptych_inductor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.common_methods_invocations import op_db

# The first float32 sample of every op; where it ran without a fallback, other dtypes as well.
MORE = (torch.int64, torch.bfloat16)

UNINITIALISED = {
    "empty",
    "empty_like",
    "new_empty",
    "empty_strided",
    "new_empty_strided",
    "empty_permuted",
    "resize_",
    "resize_as_",
}
NOT_STRIDED = {"sparse.sampled_addmm", "sparse.mm", "to_sparse"}

logging.getLogger("torch.__trace").setLevel(logging.WARNING)


def _flat_function(op, sample):
    leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [k for k, v in enumerate(leaves) if isinstance(v, torch.Tensor)]

    def fn(*tensors):
        values = list(leaves)
        for k, t in zip(places, tensors, strict=True):
            values[k] = t
        input_, args, kwargs = pytree.tree_unflatten(values, spec)
        result = op(input_, *args, **kwargs)
        return tuple(o for o in pytree.tree_leaves(result) if isinstance(o, torch.Tensor))

    return fn, [leaves[k] for k in places]


def _samples(op, dtype, which):
    if dtype not in op.supported_dtypes("cpu"):
        return []
    try:
        return list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), which.start, which.stop))
    except RuntimeError:
        return []


@pytest.mark.parametrize(
    "op", op_db, ids=lambda op: f"{op.name}{'-' if op.variant_test_name else ''}{op.variant_test_name}"
)
def test_op(op):
    if op.name in NOT_STRIDED:
        pytest.skip("sparse tensors are not compiled")
    warnings.simplefilter("ignore")
    samples = _samples(op, torch.float32, slice(0, 1)) or _samples(op, torch.int64, slice(0, 1))
    if all([_compare(op, sample, torch.float32) for sample in samples]):
        for dtype in MORE:
            for sample in _samples(op, dtype, slice(0, 1)):
                _compare(op, sample, dtype)


def _compare(op, sample, dtype):
    """Whether the op was compiled without a fallback; fails where it differs from eager."""
    fn, tensors = _flat_function(op, sample)
    try:
        torch.manual_seed(42)
        expected = fn(*tensors)
        gm = make_fx(fn, tracing_mode="fake")(*tensors)
    except Exception:  # eager refuses the sample, or it has no ATen graph (data-dependent control flow)
        return False
    compiled = triptych_inductor.compile(gm, tensors, options={"interpret": True, "exact": True})
    torch.manual_seed(42)
    actual = compiled(*tensors)
    if op.name in UNINITIALISED:
        assert [a.shape for a in actual] == [e.shape for e in expected]
        return False
    try:
        torch.testing.assert_close(actual, expected, equal_nan=True, check_stride=True)
    except AssertionError:
        if dtype is not torch.bfloat16 or not _as_near_as_eager(fn, tensors, actual, expected):
            raise
    return not compiled.fallbacks


def _as_near_as_eager(fn, tensors, actual, expected):
    """Half precision, judged by a float64 run: our error at most twice eager's, or within a rounding of the largest
    value."""
    torch.manual_seed(42)
    exact = fn(*[t.double() if t.is_floating_point() else t for t in tensors])
    for ours, eager, truth in zip(actual, expected, exact, strict=True):
        if not truth.is_floating_point():
            torch.testing.assert_close(ours, eager, equal_nan=True)
            continue
        rounding = torch.finfo(eager.dtype).eps * truth.abs().nan_to_num(0, 0, 0).max()
        worst = (eager.double() - truth).abs().nan_to_num(0, 0, 0).max()
        if (
            ours.dtype is not eager.dtype
            or (ours.double() - truth).abs().nan_to_num(0, 0, 0).max() > 2 * worst + rounding
        ):
            return False
    return True
