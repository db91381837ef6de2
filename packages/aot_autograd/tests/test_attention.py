"""Attention in the trace: one op, forward and backward, asked for without masks that say nothing."""

import pytest
import torch
import torch.nn.functional as F
from aot_testing import check_against_eager, grad
from triptych_aot_autograd import _torch_compat as compat
from triptych_aot_autograd import trace_joint
from triptych_aot_autograd.tracing import attention

ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"


def attention_node(fn, *args, **options):
    """The one attention node of the trace of `fn`, as (mask, is_causal)."""
    graph = trace_joint(fn, *args, **options).graph_module.graph
    (node,) = [n for n in graph.nodes if str(n.target) == f"aten.{ATTENTION}.default"]
    return node.kwargs.get("attn_mask"), node.args[4] if len(node.args) > 4 else False


def no_padding(length, batch=2):
    """As libraries build it: index arithmetic, broadcast."""
    rows = (torch.arange(length) + 0)[None, None, :, None]
    return (rows >= 0).expand(batch, -1, length, length)


def past(length):
    rows, columns = torch.arange(length)[:, None], torch.arange(length)[None, :]
    return (columns <= rows)[None, None]


def additive(hidden, number):
    return torch.zeros(hidden.shape).masked_fill(~hidden, number)


SAYS_NOTHING = {
    "index arithmetic": lambda n: no_padding(n),
    "ones": lambda n: torch.ones(n, n, dtype=torch.bool),
    "combined": lambda n: no_padding(n) & torch.ones((), dtype=torch.bool),
    "zeros where seen": lambda n: torch.where(no_padding(n), torch.zeros(2, 3, n, n), torch.finfo(torch.float32).min),
    "seen as one row": lambda n: (
        ((torch.arange(n) >= 0)[:, None] & torch.ones(n, dtype=torch.bool)).view(n * n).view(n, n)
    ),
    "zeros added": lambda n: torch.zeros(1, 1, n, n),
}
HIDES_THE_FUTURE = {
    "comparison": past,
    "tril": lambda n: torch.ones(n, n, dtype=torch.bool).tril(),
    "infinities": lambda n: additive(past(n), float("-inf")),
    "least numbers": lambda n: additive(past(n), torch.finfo(torch.float32).min),
}
MATTERS = {
    "window": lambda n: past(n) & (torch.arange(n)[None, :] > torch.arange(n)[:, None] - 3),
    "one hidden": lambda n: torch.ones(n, n, dtype=torch.bool).index_put(
        (torch.tensor([1]), torch.tensor([0])), torch.tensor(False)
    ),
    "small numbers": lambda n: additive(past(n), -1.0),
    "shifted": lambda n: torch.ones(n, n, dtype=torch.bool).tril(1),
}


def queries():
    return [torch.randn(2, 3, 8, 16, requires_grad=True) for _ in range(3)]


@pytest.mark.parametrize("name", SAYS_NOTHING)
def test_mask_that_hides_nothing_is_left_out(name):
    run = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=SAYS_NOTHING[name](8))
    assert attention_node(run, *queries()) == (None, False)
    check_against_eager(run, *[grad(2, 3, 8, 16)] * 3)


@pytest.mark.parametrize("name", HIDES_THE_FUTURE)
def test_mask_that_hides_the_future_is_causal(name):
    run = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, HIDES_THE_FUTURE[name](8), scale=0.3)
    assert attention_node(run, *queries()) == (None, True)
    check_against_eager(run, *[grad(2, 3, 8, 16)] * 3)


@pytest.mark.parametrize("name", MATTERS)
def test_mask_that_matters_stays(name):
    run = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=MATTERS[name](8))
    assert attention_node(run, *queries())[0] is not None
    check_against_eager(run, *[grad(2, 3, 8, 16)] * 3)


def test_large_masks_are_evaluated_where_they_repeat():
    length = 2048  # 2 * 3 * 2048 * 2048 elements, more than are looked at one by one
    mask = lambda: torch.where(no_padding(length), torch.zeros(2, 3, length, length), -1e9)
    run = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask())
    fake = torch._subclasses.FakeTensorMode()
    with fake:
        arguments = [torch.empty(2, 3, length, 8) for _ in range(3)]
    assert attention_node(run, *arguments) == (None, False)


def test_mask_from_an_input_stays():
    seen = torch.ones(8, 8, dtype=torch.bool)
    run = lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m & torch.ones((), dtype=torch.bool))
    assert attention_node(run, *queries(), seen)[0] is not None


def test_mask_changed_in_place_is_read_as_changed():
    def run(q, k, v):
        mask = torch.ones(8, 8, dtype=torch.bool)
        mask[0, 5] = False
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    assert attention_node(run, *queries())[0] is not None
    check_against_eager(run, *[grad(2, 3, 8, 16)] * 3)


def test_causal_between_different_lengths_is_left_alone():
    hidden = lambda: torch.ones(8, 12, dtype=torch.bool).tril()
    run = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=hidden())
    q, (k, v) = torch.randn(2, 3, 8, 16), [torch.randn(2, 3, 12, 16) for _ in range(2)]
    assert attention_node(run, q, k, v)[0] is not None


def test_a_learned_mask_keeps_its_gradient():
    run = lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m * 0)
    check_against_eager(run, *[grad(2, 3, 8, 16)] * 3, grad(8, 8))


def test_a_permuted_bias_is_laid_out_for_fused_kernels(monkeypatch):
    """As position biases come: looked up by pairs of positions, the heads then moved in front."""
    monkeypatch.setattr(attention, "FUSED_ONLY_CONTIGUOUS", frozenset({"cpu"}))
    run = lambda q, k, v, bias: F.scaled_dot_product_attention(q, k, v, attn_mask=bias.permute(2, 0, 1)[None])
    mask, _ = attention_node(run, *queries(), torch.randn(8, 8, 3))
    assert mask.meta["val"].stride()[-1] == 1
    check_against_eager(run, *[grad(2, 3, 8, 16)] * 3, grad(8, 8, 3))


def test_wrong_arguments_raise_as_torch():
    def run(q):
        return F.scaled_dot_product_attention(q, q)

    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        trace_joint(run, torch.randn(1, 1, 4, 4))


OF_GPUS = ["flash", "cudnn", "efficient"]


@pytest.mark.parametrize("kind", OF_GPUS)
def test_attention_draws_only_for_dropout(kind):
    """Its op can draw; without dropout no state of the generator is kept for a call."""
    op = getattr(torch.ops.aten, f"_scaled_dot_product_{kind}_attention").default
    names = [a.name for a in op._schema.arguments]
    for probability in (0.0, 0.5):
        node = torch.fx.Graph().call_function(op, tuple([probability if n == "dropout_p" else None for n in names]))
        assert compat.draws(node) == (probability > 0)
    assert not compat.draws(torch.fx.Graph().call_function(op, (None,)))  # left out: no dropout


def test_attention_with_dropout_draws():
    run = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    assert trace_joint(run, *queries()).facts.random
    assert not trace_joint(lambda q, k, v: F.scaled_dot_product_attention(q, k, v), *queries()).facts.random
