"""Results written over operands: where that is sound, and only there."""

from __future__ import annotations

import pytest
import torch
import triptych_inductor
from torch.fx.experimental.proxy_tensor import make_fx
from triptych_inductor.ir.nodes import Buffer, IRGraph
from triptych_inductor.schedule.memory import Usage, plan

MAKER = torch.Generator().manual_seed(0)
X, W = torch.randn(16, 16, generator=MAKER), torch.randn(16, 16, generator=MAKER) / 4


def chain(x, w):
    """The tanh is the last to read the product."""
    return torch.tanh(x @ w) @ w


def two_results(x, w):
    """One operand, two results of its kind: one takes it."""
    product = x @ w
    return product.sin() @ w + product.cos() @ w


def goes_out(x, w):
    """A result that is returned takes the place of an operand that is not."""
    return (x @ w).exp()


def with_sums(x, w):
    """A kernel that sums besides: it reads each element once."""
    made = (x @ w).sin() * w
    return made @ w, made.sum(0)


def with_a_mean(x, w):
    """The sum goes through another stage, over columns alone."""
    made = (x @ w).sin()
    return made @ w, made.mean(0) * 2


def two_operands(x, w):
    one, other = x @ w, w @ x
    return (one + other).relu() @ w


def channels(x, w):
    """A convolution's result is taken, though torch allocates it."""
    images, weights = x.reshape(1, 1, 16, 16), w[:4, :9].reshape(4, 1, 3, 3)
    return torch.relu(torch.nn.functional.conv2d(images, weights) * 2).reshape(-1, 14) @ w[:14]


def viewed(x, w):
    """The result has another shape, in the same order."""
    return torch.bmm((x @ w).view(2, 8, 16).relu(), w.expand(2, 16, 16))


def needed_later(x, w):
    product = x @ w
    return (product + 1) @ w @ (product @ x)


def part_of(x, w):
    """The result is made of some of the elements."""
    return ((x @ w)[:8] + 1) @ w


def turned(x, w):
    """Elements are read by other points than those that overwrite them."""
    return ((x @ w).t().contiguous() + 1) @ w


def read_both_ways(x, w):
    product = x @ w
    return (product + product.t()).contiguous() @ w


def returned(x, w):
    product = x @ w
    return product, product.sin() @ w


def other_dtype(x, w):
    return (x @ w).double() @ w.double()


def unrelated(x, w):
    """A result that is not made of the operand of its kind."""
    product = x @ w
    total = product.sum()
    return total, (x + 1) @ w


def returned_otherwise(x, w):
    """What goes out has eager's strides, not those of the operand."""
    return (x @ w).view(4, 64).exp()


def scanned(x, w):
    """Kernels may read what they scan twice."""
    return torch.cumsum(x @ w, 1) @ w


def read_by_two_loops(x, w):
    product = x @ w
    return (product - product.amax(1, keepdim=True)) @ w


def gathered(x, w):
    return (x @ w)[torch.arange(15, -1, -1)].sigmoid() @ w


def reduced(x, w):
    return torch.softmax(x @ w, -1) @ w


OVERWRITES = {chain: 1, two_results: 2, two_operands: 1, channels: 1, viewed: 1, goes_out: 1}
OVERWRITES |= {with_sums: 1, with_a_mean: 1}
KEEPS = [needed_later, part_of, turned, read_both_ways, returned, returned_otherwise]
KEEPS += [other_dtype, unrelated, gathered, reduced, scanned, read_by_two_loops]


def compiled(function, **options):
    gm = make_fx(function, tracing_mode="fake")(X, W)
    examples = [node.meta["val"] for node in gm.graph.nodes if node.op == "placeholder"]
    return triptych_inductor.compile(gm, examples, options=options)


@pytest.mark.parametrize("arenas", [False, True])
@pytest.mark.parametrize(
    ("function", "count"), [*OVERWRITES.items(), *((f, 0) for f in KEEPS)], ids=lambda v: getattr(v, "__name__", v)
)
def test_where_it_is_sound(function, count, arenas):
    call = compiled(function, memory_arenas=arenas)
    if not arenas:
        assert call.source.count("# written over it") == count
    for x, w in ((X, W), (W, X)):
        torch.testing.assert_close(call(x, w), function(x, w))


@pytest.mark.parametrize("shapes", [1, 2])
def test_in_an_arena_both_have_one_place(shapes):
    """Every second buffer is written over the one before; each two are of a size of their own."""
    names = [f"b{k}" for k in range(12)]
    graph = IRGraph()
    for k, name in enumerate(names):
        size = (64 << k // 2,) if k % shapes == 0 else (16, 4 << k // 2)
        stride = (1,) if len(size) == 1 else (size[1], 1)
        graph.buffers[name] = Buffer(name, size, stride, torch.float32, torch.device("cuda"))
    steps = [Usage({name, *names[max(k - 1, 0) : k]}, [name]) for k, name in enumerate(names)]
    over = dict(zip(names[1::2], names[::2], strict=True))
    (apart,) = [arena for step in plan(graph, steps, True, int, True) for arena in step.opens]
    memory = plan(graph, steps, True, int, True, over)
    (arena,) = [arena for step in memory for arena in step.opens]
    places = {place.buffer.name: place.offset for place in arena.places}
    assert all(places[result] == places[operand] for result, operand in over.items())
    assert all(places[a] != places[b] for a, b in zip(names[1:-1:2], names[2::2], strict=True))
    assert arena.size < apart.size
    twins = [place.twin for place in arena.places if place.buffer.name in over]
    assert all((twin is None) == (shapes == 2) for twin in twins)
    made = [place.buffer.name for step in memory for place in step.places]
    assert made == names  # each before the step that makes it


def test_not_without_the_option():
    assert "# written over it" not in compiled(chain, inplace_buffers=False).source


def test_arguments_are_never_written_over():
    before = X.clone()
    call = compiled(lambda x, w: torch.tanh(x) @ w)
    torch.testing.assert_close(call(X, W), torch.tanh(X) @ W)
    assert torch.equal(X, before)
