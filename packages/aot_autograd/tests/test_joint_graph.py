"""The joint graph as data: names, provenance, editing, partition, saved bytes, clean-up."""

import pytest
import torch
import torch.nn.functional as F
from aot_testing import keep_graph
from triptych_aot_autograd import default_partition, min_cut_partition, trace_joint
from triptych_aot_autograd._torch_compat import is_random

aten = torch.ops.aten


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 8)
        self.norm = torch.nn.BatchNorm1d(8)
        self.second = torch.nn.Linear(8, 2)

    def forward(self, x, scale=1.0):
        return {"logits": self.second(F.gelu(self.norm(self.first(x)))) * scale}


def make_joint():
    return trace_joint(Net(), torch.randn(5, 4))


def targets(graph):
    return [n.target for n in graph.nodes if n.op == "call_function"]


def test_inputs_and_outputs_are_named():
    joint = make_joint()
    assert [str(d) for d in joint.inputs] == [
        "parameter first.weight",
        "parameter first.bias",
        "parameter norm.weight",
        "parameter norm.bias",
        "parameter second.weight",
        "parameter second.bias",
        "buffer norm.running_mean",
        "buffer norm.running_var",
        "buffer norm.num_batches_tracked",
        "input x",
        "tangent output_0",
    ]
    kinds = [(d.kind, d.target) for d in joint.outputs]
    assert kinds[0] == ("output", "output_0")
    assert [t for k, t in kinds if k == "epilogue"] == [
        "norm.running_mean",
        "norm.running_var",
        "norm.num_batches_tracked",
    ]
    assert [t for k, t in kinds if k == "gradient"] == [str(d)[10:] for d in joint.inputs[:6]]
    assert "gradient second.weight" in str(joint)


def test_every_node_has_a_value_a_phase_and_a_line():
    joint = make_joint()
    for node in joint.graph.nodes:
        if node.op in ("placeholder", "call_function"):
            assert "val" in node.meta
            assert node.meta["phase"] in ("forward", "backward")
        if node.op == "call_function" and node.target is not aten.clone.default:
            assert "test_joint_graph.py" in node.meta["stack_trace"], node
    line = {n.meta["phase"]: n.meta["stack_trace"] for n in joint.graph.nodes if "gelu" in str(n.target)}
    assert "F.gelu" in line["backward"]
    assert line["forward"] == line["backward"]


def test_values_match_what_the_ops_give():
    joint = make_joint()
    values = {}
    for node in joint.graph.nodes:
        if node.op == "placeholder":
            fake = node.meta["val"]
            values[node] = torch.randn(fake.shape).to(fake.dtype).abs().as_strided(fake.size(), fake.stride())
        elif node.op == "call_function":
            args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
            values[node] = node.target(*args, **kwargs)
            for real, fake in zip(*(torch.utils._pytree.tree_leaves(v) for v in (values[node], node.meta["val"]))):
                if isinstance(real, torch.Tensor):
                    facts = lambda t: (t.shape, t.stride(), t.dtype, t.storage_offset())  # noqa: E731
                    assert facts(real) == facts(fake), node


def test_an_edited_graph_is_what_is_compiled():
    joint = trace_joint(lambda x: x.sin().sum(), torch.ones(3, requires_grad=True))
    for node in joint.graph.nodes:
        if node.target is aten.cos.default:
            node.target = aten.neg.default
    fn = joint.compile(keep_graph, partition_fn=default_partition)
    x = torch.ones(3, requires_grad=True)
    fn(x)[0].backward()
    torch.testing.assert_close(x.grad, torch.full((3,), -1.0))


def test_own_partitioner_and_options():
    calls = []

    def mine(joint, *, flavour):
        calls.append(flavour)
        return default_partition(joint)

    joint = trace_joint(lambda x: x.sin().sum(), torch.ones(3, requires_grad=True))
    joint.partition(mine, flavour="vanilla")
    assert calls == ["vanilla"]
    with pytest.raises(ValueError, match="memory_budget"):
        joint.partition(min_cut_partition, memory_budget=2.0)


def chain(x, w):
    for _ in range(4):
        x = torch.tanh((x @ w) * 2 + 1).sigmoid() * x
    return x


def test_min_cut_saves_less_than_eager_and_gives_equal_gradients():
    joint = trace_joint(chain, torch.randn(16, 16, requires_grad=True), torch.randn(16, 16, requires_grad=True))
    default, cut = joint.partition(default_partition), joint.partition(min_cut_partition)
    assert cut.saved_bytes() < default.saved_bytes()
    assert not any(t in (aten.mm.default,) for t in targets(cut.backward.graph)[:0])
    products = [sum(t is aten.mm.default for t in targets(p.backward.graph)) for p in (default, cut)]
    assert products[0] == products[1]  # no product is computed twice
    x, w = torch.randn(16, 16, requires_grad=True), torch.randn(16, 16, requires_grad=True)
    grads = []
    for fn in (default_partition, min_cut_partition):
        out = joint.compile(keep_graph, partition_fn=fn)(x, w)[0]
        grads.append(torch.autograd.grad(out.sum(), (x, w)))
    torch.testing.assert_close(grads[1], grads[0])


def test_memory_budget_lowers_saved_bytes():
    joint = trace_joint(chain, torch.randn(16, 16, requires_grad=True), torch.randn(16, 16, requires_grad=True))
    sizes = [joint.partition(min_cut_partition, memory_budget=b).saved_bytes() for b in (1.0, 0.7, 0.3, 0.0)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0]
    x, w = torch.randn(16, 16, requires_grad=True), torch.randn(16, 16, requires_grad=True)
    expected = torch.autograd.grad(chain(x, w).sum(), (x, w))
    for budget in (0.3, 0.0):
        out = joint.compile(keep_graph, memory_budget=budget)(x, w)[0]
        torch.testing.assert_close(torch.autograd.grad(out.sum(), (x, w)), expected)


def test_random_ops_are_never_computed_twice():
    joint = trace_joint(lambda x: F.dropout(x.exp(), 0.5).exp(), torch.randn(64, requires_grad=True))
    for budget in (1.0, 0.0):
        backward = joint.partition(min_cut_partition, memory_budget=budget).backward
        assert not any("bernoulli" in str(t) for t in targets(backward.graph))


def test_equal_nodes_are_merged_and_dead_ones_go():
    joint = trace_joint(lambda x: (x.exp() + x.exp(), x.sin() if False else x.cos().detach() * 0 + x)[0], torch.ones(3))
    assert targets(joint.graph).count(aten.exp.default) == 1
    assert aten.cos.default not in targets(joint.graph)


def test_decompositions_are_applied_while_tracing():
    def decomposed(x, approximate="none"):
        return x * torch.sigmoid(1.702 * x)

    joint = trace_joint(lambda x: F.gelu(x), torch.ones(3), decompositions={aten.gelu.default: decomposed})
    assert targets(joint.graph) == [aten.mul.Tensor, aten.sigmoid.default, aten.mul.Tensor]


def test_partition_prints_what_crosses():
    text = str(make_joint().partition())
    assert "saved tensors:" in text
    assert "backward graph" in text


def test_values_have_the_strides_of_the_device():
    joint = trace_joint(lambda x: torch.linalg.svdvals(x), torch.randn(5, 4, requires_grad=True))
    (svd,) = [n for n in joint.graph.nodes if n.target is aten._linalg_svd.default]
    real = aten._linalg_svd.default(torch.randn(5, 4), False, True)
    assert [t.stride() for t in svd.meta["val"]] == [t.stride() for t in real]


def test_attention_backwards_draw_nothing():
    """They repeat the forward's numbers from its seed, though torch tags them as random."""
    assert is_random(aten._scaled_dot_product_efficient_attention.default)
    assert not is_random(aten._scaled_dot_product_efficient_attention_backward.default)
    assert not is_random(aten._scaled_dot_product_cudnn_attention_backward.default)
    assert is_random(aten.bernoulli.p)
