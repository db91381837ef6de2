"""torch's own database of ops: forward and backward of sampled inputs against eager.

A quick part runs always; `pytest -m slow` runs every op with more samples. What is expected not to be compiled is in
`DECLARED`.
"""

import itertools
import os

import pytest
import torch
from aot_testing import keep_graph
from torch.testing._internal import common_methods_invocations as invocations
from torch.utils._pytree import tree_leaves, tree_map
from triptych_aot_autograd import DataDependentError, UnsupportedOperationError, aot_function, trace_joint

# The database seeds the generator inside these ops; a seed set inside a traced function is no part of the graph.
invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)

DECLARED = {  # ops with a declared error: what they do depends on numbers in tensors, or on storage
    "item",
    "equal",
    "allclose",
    "narrow",
    "cov",
    "corrcoef",
    "istft",
    "resize_",
    "resize_as_",
    "tensor_split",
    "nn.functional.one_hot",
    "nn.functional.ctc_loss",
    "nn.functional.gaussian_nll_loss",
    "linalg.lstsq",
    "to_sparse",
    "sparse.sampled_addmm",
    "sparse.mm",
    "_segment_reduce",
    "segment_reduce",
}
UNINITIALISED = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}
OPS = [op for op in invocations.op_db if op.supported_dtypes("cpu") and op.name not in UNINITIALISED]
DECLARED_ERRORS = (DataDependentError, UnsupportedOperationError)


def fresh(tree):
    def copy(t):
        return t.detach().clone().requires_grad_(t.requires_grad) if isinstance(t, torch.Tensor) else t

    return tree_map(copy, tree)


def outcome(fn, arguments, tangents=None):
    args, kwargs = fresh(arguments)
    torch.manual_seed(0)
    flat = tree_leaves(fn(*args, **kwargs))
    wanted = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor) and t.requires_grad]
    outputs = [t for t in flat if isinstance(t, torch.Tensor) and t.requires_grad]
    if not outputs or not wanted:
        return flat, []
    torch.manual_seed(1)
    return flat, torch.autograd.grad(outputs, wanted, [torch.randn_like(t) for t in outputs], allow_unused=True)


def check_op(op, count):
    dtypes = op.supported_dtypes("cpu")
    dtype = torch.float32 if torch.float32 in dtypes else sorted(dtypes, key=str)[0]
    samples = op.sample_inputs("cpu", dtype, requires_grad=op.supports_autograd and dtype.is_floating_point)
    for sample in itertools.islice(samples, count):
        arguments = ((sample.input, *sample.args), sample.kwargs)
        try:
            expected, grads = outcome(op.op, arguments)
        except Exception:  # eager does not differentiate this sample
            continue
        found, found_grads = outcome(aot_function(lambda *a, **k: op.op(*a, **k), keep_graph), arguments)
        assert len(found) == len(expected)
        for a, b in zip(expected, found):
            if isinstance(a, torch.Tensor):
                torch.testing.assert_close(b, a, equal_nan=True)
                assert (b.requires_grad, b.stride()) == (a.requires_grad, a.stride())
        for a, b in zip(grads, found_grads, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                torch.testing.assert_close(b, a, equal_nan=True)


def sweep(ops, count):
    failures = []
    for op in ops:
        try:
            check_op(op, count)
        except DECLARED_ERRORS as error:
            if op.name not in DECLARED:
                failures.append((op.full_name, error))
        except Exception as error:
            if op.name not in DECLARED:
                failures.append((op.full_name, error))
    assert not failures, "\n".join(f"{name}: {type(e).__name__} {str(e)[:200]}" for name, e in failures)


@pytest.mark.parametrize("part", range(4))
def test_sample_of_ops(part):
    sweep(OPS[part * 5 :: 20], 1)


def mismatches(joint, flat):
    """Nodes of a joint graph whose value has not the size, strides and dtype that the op really gives."""
    values, inputs = {}, iter(flat)
    for node in joint.graph.nodes:
        if node.op == "placeholder":
            fake = node.meta["val"]
            if node.meta.get("tangent"):
                memory = torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype)
                values[node] = memory.normal_() if fake.dtype.is_floating_point else memory.zero_()
            else:
                values[node] = next(inputs)
        elif node.op == "get_attr":
            values[node] = getattr(joint.graph_module, node.target)
        elif node.op == "call_function":
            args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
            values[node] = node.target(*args, **kwargs)
            for real, fake in zip(tree_leaves(values[node]), tree_leaves(node.meta["val"])):
                if isinstance(fake, torch.Tensor) and (real.shape, real.dtype) != (fake.shape, fake.dtype):
                    yield node.target
                elif isinstance(fake, torch.Tensor) and real.numel() and real.stride() != fake.stride():
                    yield node.target


@pytest.mark.parametrize("part", range(2))
def test_values_match_what_a_sample_of_ops_gives(part):
    found = {}
    for op in [op for op in OPS if torch.float32 in op.supported_dtypes("cpu")][part * 12 :: 24]:
        sample = next(iter(op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd)))
        arguments = ((sample.input, *sample.args), sample.kwargs)
        try:
            joint = trace_joint(lambda *a, **k: op.op(*a, **k), *arguments[0], kwargs=arguments[1])
        except DECLARED_ERRORS:
            continue
        with torch.no_grad():
            wrong = list(mismatches(joint, tree_leaves(arguments)))
        if wrong:
            found[op.full_name] = wrong
    assert not found


@pytest.mark.slow
@pytest.mark.skipif(
    not os.environ.get("TRIPTYCH_FULL_SWEEP"), reason="set TRIPTYCH_FULL_SWEEP=1 to run the whole database"
)
@pytest.mark.parametrize("part", range(8))
def test_all_ops(part):
    sweep(OPS[part::8], 3)
