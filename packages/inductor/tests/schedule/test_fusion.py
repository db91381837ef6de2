"""How many kernels common patterns take, and that fusing them keeps the result."""

import pytest
import torch
import torch.nn.functional as F

X = torch.randn(6, 40)
W, B = torch.randn(40), torch.randn(40)


def test_pointwise_chain_is_one_kernel(check):
    def chain(x):
        for _ in range(5):
            x = F.gelu(x) * 2 + x.sin()
        return (x,)

    assert len(check(chain, X).kernels) == 1


@pytest.mark.parametrize("dim", [0, 1])
def test_softmax_is_one_kernel(check, dim):
    assert len(check(lambda x: torch.softmax(x * 2, dim) + 1, X).kernels) == 1 if dim else 2


def test_log_softmax_is_one_kernel(check):
    assert len(check(lambda x: torch.log_softmax(x, -1), X).kernels) == 1


def test_layer_norm_with_neighbours_is_one_kernel(check):
    def fn(x, w, b):
        return F.gelu(F.layer_norm(F.relu(x) + 1, (40,), w, b))

    assert len(check(fn, X, W, B).kernels) == 1


def test_rms_norm_is_one_kernel(check):
    def fn(x, w):
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)) * w

    assert len(check(fn, X, W).kernels) == 1


def _gradients(fn, *args):
    args = [a.detach().requires_grad_() for a in args]
    return torch.autograd.grad(fn(*args), args, torch.ones(()))


def test_layer_norm_backward_is_two_kernels(check):
    def fn(x, w, b, g):
        output, mean, rstd = torch.ops.aten.native_layer_norm(x, [40], w, b, 1e-5)
        return torch.ops.aten.native_layer_norm_backward(g, x, [40], mean, rstd, w, b, [True, True, True])

    # One for the forward statistics and the row-wise gradient, one for the column sums.
    assert len(check(fn, X, W, B, torch.randn(6, 40)).kernels) <= 3


def test_softmax_backward_is_one_kernel(check):
    def fn(g, y):
        return torch.ops.aten._softmax_backward_data(g, y, 1, torch.float32)

    assert len(check(fn, X, torch.softmax(X, 1)).kernels) == 1


def test_two_reductions_share_one_read(check):
    compiled = check(lambda x: (x.sum(1), x.amax(1)), X)
    assert len(compiled.kernels) == 1
    assert len(compiled.kernels[0].inputs) == 1


def test_pointwise_feeds_column_sum(check):
    """A bias gradient: the pointwise result is stored and summed in one pass."""
    compiled = check(lambda x, g: (F.relu(x) * g, (F.relu(x) * g).sum(0)), X, torch.randn(6, 40))
    assert len(compiled.kernels) == 1


def test_views_cost_nothing(check):
    def fn(x):
        y = x.view(6, 8, 5).permute(1, 0, 2)
        return (y + 1).reshape(8, 30) * 2

    assert len(check(fn, X).kernels) == 1


def test_transposed_operand_fuses(check):
    x = torch.randn(12, 12)
    assert len(check(lambda x: x + x.t(), x).kernels) == 1


def test_cat_parts_are_stored_by_their_producers(check):
    compiled = check(lambda x, y: torch.cat([x.sin(), y.cos()], 1), X, X + 1)
    assert "cat" not in "".join(compiled.fallbacks)
    assert len(compiled.kernels) <= 2


def test_batch_norm_training_in_few_kernels(check):
    x, w, b = torch.randn(4, 3, 5, 5), torch.randn(3), torch.randn(3)
    mean, var = torch.zeros(3), torch.ones(3)

    def fn(x, w, b, mean, var):
        return torch.ops.aten._native_batch_norm_legit_functional(x, w, b, mean, var, True, 0.1, 1e-5)

    assert len(check(fn, x, w, b, mean, var).kernels) == 1
    channels_last = x.to(memory_format=torch.channels_last)
    assert len(check(fn, channels_last, w, b, mean, var).kernels) <= 2


def test_extern_separates_kernels(check):
    def fn(x, y):
        return (F.relu(x) @ y).sin()

    compiled = check(fn, torch.randn(4, 5), torch.randn(5, 6))
    assert len(compiled.kernels) == 2
    assert "mm(buf" in compiled.source


def test_no_fusion_option(check):
    def fn(x):
        return torch.softmax(x, 1)

    assert len(check(fn, X, fusion=False).kernels) > 1


def test_equal_kernels_are_built_once(check):
    def fn(x, w):
        for _ in range(4):
            x = F.gelu(x @ w)
        return x

    assert len(check(fn, torch.randn(8, 8), torch.randn(8, 8)).kernels) == 1


def test_cycle_is_not_made(check):
    """b depends on a through a matrix product; the sum that reads both cannot share the kernel of a."""

    def fn(x):
        a = x.sin()
        b = a @ x
        return a.cos() + b.sum(0), a

    check(fn, torch.randn(5, 5))


def test_mutated_input_is_read_before_it_is_written(check):
    def fn(x, y):
        z = x.sin()
        x.copy_(y * 2)
        return z

    check(fn, torch.randn(7), torch.randn(7))


def test_mutation_reads_its_own_target(check):
    def fn(x, y):
        new = x * 0.9 + y * 0.1
        total = (x + y).sum()
        x.copy_(new)
        return total

    check(fn, torch.randn(7), torch.randn(7))


def test_mutation_through_transposed_read(check):
    def fn(x):
        new = x.t() + 1
        x.copy_(new)
        return (new * 2,)

    check(fn, torch.randn(5, 5))


def test_reduction_over_everything_and_back(check):
    check(lambda x: x / x.abs().sum() + x.mean(), torch.randn(300, 40))


def test_memory_is_reused(check):
    def fn(x, w):
        for _ in range(6):
            x = torch.relu(x @ w)
        return x

    compiled = check(fn, torch.randn(8, 8), torch.randn(8, 8))
    assert compiled.source.count("= new_") <= 5
    plain = check(fn, torch.randn(8, 8), torch.randn(8, 8), inplace_buffers=False)
    assert "# reuse" not in plain.source


def test_casts_of_inputs_share_kernels(check):
    """Weights cast for autocast: one kernel for all of one size."""

    def fn(*weights):
        return tuple(w.to(torch.bfloat16) for w in weights)

    assert len(check(fn, *[torch.randn(8, 6) for _ in range(6)], torch.randn(6), torch.randn(6)).kernels) == 2


def test_embedding_sum_is_gathered_once_for_its_norm(check):
    def fn(i, a, b, w):
        x = F.embedding(i, a) + b
        return F.layer_norm(x, (6,), w)

    compiled = check(fn, torch.tensor([[1, 2], [0, 1]]), torch.randn(3, 6), torch.randn(2, 6), torch.randn(6))
    assert len(compiled.kernels) == 1


def test_numbers_read_from_tensors_are_known_before_their_users(check):
    def fn(x, n):
        y = x * 2
        k = n.sum().item()
        return y + x * k, x.sin()

    check(fn, torch.randn(4, 3), torch.tensor([0.5, 1.0]))


def test_cheap_producer_goes_into_a_pooling_whose_windows_overlap_little(check):
    x, w, b = torch.randn(2, 5, 11, 11), torch.randn(5, 1, 1), torch.randn(5, 1, 1)
    assert len(check(lambda x, w, b: F.max_pool2d(F.relu(x * w + b), 3, 2, 1), x, w, b).kernels) == 1
    assert len(check(lambda x, w, b: F.max_pool2d(F.relu(x * w + b), 3, 1, 1), x, w, b).kernels) == 2
    assert len(check(lambda x, w, b: F.max_pool2d(torch.tanh(x * w + b), 3, 2, 1), x, w, b).kernels) == 2


def block_of_images(x, w, gamma, beta, inner):
    """As in ConvNeXt under autocast: the rows of a norm lie together where the image is channels-last."""
    y = F.conv2d(x, w, padding=1, groups=x.shape[1]) + 1
    y = F.layer_norm(y.permute(0, 2, 3, 1).double(), (x.shape[1],), gamma, beta).float()
    return x + (F.gelu(y @ inner) @ inner.t()).permute(0, 3, 1, 2)


def test_norms_behind_channels_last_convolutions_are_one_kernel(check):
    c = 12
    x = torch.randn(2, c, 5, 7).to(memory_format=torch.channels_last)
    norm = [torch.randn(c, dtype=torch.float64) for _ in range(2)]
    compiled = check(block_of_images, x, torch.randn(c, 1, 3, 3), *norm, torch.randn(c, 8), channels_last="always")
    text = compiled.source[compiled.source.index("def call") :]
    between = text[text.index("convolution") : text.index(" mm(")]
    assert between.count("kernel_") == 1


def test_layouts_through_views_of_channels_last_images(check):
    c = 12
    x = torch.randn(2, c, 5, 7)

    def fn(x, w):
        y = F.conv2d(x, w) * 2
        parts = y.transpose(1, 2) + 1, y.permute(3, 2, 1, 0).relu(), y.view(2, 3, 4, -1) * 3, y[:, ::2] - 1
        return *parts, y.permute(0, 2, 3, 1).softmax(-1), y.flip(1) + y, y.expand(3, *y.shape)[1].tanh()

    check(fn, x, torch.randn(c, c, 1, 1), channels_last="always")
