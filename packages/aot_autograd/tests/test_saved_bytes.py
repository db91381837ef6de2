"""What the minimum cut keeps for the backward, rule by rule, and that gradients stay eager's."""

import pytest
import torch
from torch.nn import functional as F
from triptych_aot_autograd import aot_function, min_cut_partition, trace_joint

aten = torch.ops.aten


def compiler(graph_module, example_inputs):
    return graph_module


def saved(fn, *args):
    """(target, dtype) of each tensor that is kept, by the forward's nodes."""
    partition = trace_joint(fn, *args).partition(min_cut_partition)
    nodes = {n.name: n for n in partition.forward.graph.nodes}
    return [(nodes[name].target, nodes[name].meta["val"]) for name in partition.saved_tensors]


def large(kept, count):
    """Targets of those of the kept that have this many elements."""
    return [target for target, value in kept if value.numel() == count]


def gradients(fn, args, between=None):
    """Gradients of the sum of the first result; `between` is done to the results before the backward."""
    args = [a.detach().clone().requires_grad_(a.requires_grad) for a in args]
    results = fn(*args)
    results = results if isinstance(results, tuple) else (results,)
    loss = results[0].double().square().sum()
    if between is not None:
        with torch.no_grad():
            between(args, results)
    loss.backward()
    return [a.grad for a in args if a.requires_grad]


def agree(fn, args, between=None):
    expected = gradients(fn, args, between)
    found = gradients(aot_function(fn, compiler), args, between)
    torch.testing.assert_close(found, expected)


def batch_norm_inputs(channels=6):
    torch.manual_seed(0)
    x = torch.randn(4, channels, 5, 5) * 3 + 1
    weights = [torch.rand(channels) + 0.5, torch.randn(channels)]
    kernel = torch.randn(channels, channels, 3, 3)
    return [t.double().requires_grad_() for t in (x, *weights, kernel)]


@pytest.mark.parametrize("tracked", [False, True], ids=["batch", "running"])
@pytest.mark.parametrize("activation", [F.hardswish, F.silu, F.relu6, F.softplus, F.mish, F.elu])
def test_the_result_of_a_batch_norm_is_made_again_of_its_statistics(activation, tracked):
    def fn(x, weight, bias, kernel):
        y = F.batch_norm(x, *running, weight, bias, training=True)
        return F.conv2d(activation(y), kernel)

    running = (torch.zeros(6).double(), torch.ones(6).double()) if tracked else (None, None)
    args = batch_norm_inputs()
    count = args[0].numel()
    kept = large(saved(fn, *args), count)
    assert len(kept) == 1  # the convolution's input, and nothing else
    agree(fn, args)


def test_a_bias_that_changes_before_the_backward():
    def fn(x, weight, bias, kernel):
        return F.conv2d(F.hardswish(F.batch_norm(x, None, None, weight, bias, training=True)), kernel)

    agree(fn, batch_norm_inputs(), lambda args, results: args[2].add_(5))


def test_layer_norm_is_made_again_where_it_is_read_elementwise():
    def fn(x, weight, bias):
        y = F.layer_norm(x, (16,), weight, bias)
        return (y * y.sigmoid()).sum(-1)

    torch.manual_seed(0)
    args = [t.requires_grad_() for t in (torch.randn(8, 4, 16), torch.rand(16), torch.randn(16))]
    assert large(saved(fn, *args), 8 * 4 * 16) == []
    agree(fn, args)


def test_layer_norm_of_a_narrow_value_keeps_it_narrow():
    def fn(x, kernel, weight, bias):
        y = (x @ kernel).float()
        return F.layer_norm(y, (16,), weight, bias).sum(-1)

    torch.manual_seed(0)
    x, kernel = torch.randn(8, 16).bfloat16(), torch.randn(16, 16).bfloat16()
    args = [t.requires_grad_() for t in (x, kernel, torch.rand(16), torch.randn(16))]
    kept = [value.dtype for _, value in saved(fn, *args) if value.numel() == 8 * 16]
    assert kept == [torch.bfloat16]
    agree(fn, args)


def cross_entropy(x, kernel, labels):
    logits = x @ kernel
    return F.cross_entropy(logits.float(), labels), logits


def cross_entropy_inputs():
    torch.manual_seed(0)
    x, kernel = torch.randn(12, 8).bfloat16(), (torch.randn(8, 40) * 4).bfloat16()
    return [x.requires_grad_(), kernel.requires_grad_(), torch.randint(0, 40, (12,))]


def test_of_a_log_softmax_the_narrow_logits_are_kept():
    kept = [value.dtype for _, value in saved(cross_entropy, *cross_entropy_inputs()) if value.numel() == 12 * 40]
    assert kept == [torch.bfloat16]
    agree(cross_entropy, cross_entropy_inputs())


def test_a_result_that_the_program_overwrites_before_the_backward():
    agree(cross_entropy, cross_entropy_inputs(), lambda args, results: results[1].zero_())


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_log_softmax_over_any_axis(dim):
    def fn(x):
        y = F.log_softmax(x * 3, dim)
        return y.square(), y

    torch.manual_seed(0)
    agree(fn, [(torch.randn(3, 4, 5) * 100).requires_grad_()])


@pytest.mark.parametrize(("pixels", "dtype"), [(10, torch.uint8), (40, torch.int16)])
def test_indices_of_a_pooling_are_kept_narrow(pixels, dtype):
    def fn(x):
        return F.max_pool2d(x.exp(), 3, 2, 1)

    torch.manual_seed(0)
    x = torch.randn(2, 3, pixels, pixels, requires_grad=True)
    count = 2 * 3 * (pixels // 2) ** 2
    assert [value.dtype for _, value in saved(fn, x) if value.numel() == count] == [dtype]
    agree(fn, [x])


def test_a_value_made_wide_and_narrow_again_is_itself():
    def fn(x, kernel):
        y = F.relu(x @ kernel)
        return y.float().to(torch.bfloat16) @ kernel

    torch.manual_seed(0)
    args = [torch.randn(8, 8).bfloat16().requires_grad_() for _ in range(2)]
    joint = trace_joint(fn, *args)
    assert joint.graph.find_nodes(op="call_function", target=aten._to_copy.default) == []
    agree(fn, args)


def test_a_value_made_narrow_and_wide_again_is_not():
    def fn(x):
        return x.sin().to(torch.bfloat16).float().sin()

    assert len(trace_joint(fn, torch.randn(4)).graph.find_nodes(op="call_function", target=aten._to_copy.default)) == 2
    agree(fn, [torch.randn(64, requires_grad=True)])


def test_equal_copies_are_one_unless_the_program_holds_them():
    def inside(x, a, b):
        return x.bfloat16() @ a + x.bfloat16() @ b

    def returned(x):
        return x.bfloat16(), x.bfloat16()

    a, b = torch.randn(8, 8).bfloat16(), torch.randn(8, 8).bfloat16()
    copies = lambda fn, *args: trace_joint(fn, *args).graph.find_nodes(op="call_function", target=aten._to_copy.default)  # noqa: E731
    assert len(copies(inside, torch.randn(8, 8), a, b)) == 1
    assert len(copies(returned, torch.randn(8, 8))) == 2


def test_statistics_are_kept_under_a_memory_budget_too():
    def fn(x, weight, bias, kernel):
        y = F.hardswish(F.batch_norm(x, None, None, weight, bias, training=True))
        return F.conv2d(F.max_pool2d(y, 2, 1), kernel)

    args = batch_norm_inputs()
    expected = gradients(fn, args)
    for budget in (0.0, 0.4, 0.8):
        part = lambda joint, budget=budget: min_cut_partition(joint, memory_budget=budget)  # noqa: E731
        found = gradients(aot_function(fn, compiler, partition_fn=part), args)
        torch.testing.assert_close(found, expected)
