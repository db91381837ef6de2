"""The public surface: graphs built by hand, outputs of every kind, options, symbolic sizes, extension points."""

import operator
import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
import triptych_inductor
from torch.fx import Graph, GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from triptych_inductor import LoweringError, Options, OptionsError
from triptych_inductor.wrapper.support import laid_out

aten = torch.ops.aten


def build(body, inputs=1):
    """A hand-built graph: `body(graph, *placeholders)` gives the output."""
    graph = Graph()
    places = [graph.placeholder(f"x{k}") for k in range(inputs)]
    graph.output(body(graph, *places))
    return GraphModule(torch.nn.Module(), graph)


def interpreted(gm, inputs, **options):
    return triptych_inductor.compile(gm, inputs, options={"interpret": True, **options})


@pytest.mark.parametrize("wrap", [lambda y, z: y, lambda y, z: (y, z), lambda y, z: [y, z], lambda y, z: (y, None, 3)])
def test_hand_built_outputs(wrap):
    def body(graph, x):
        y = graph.call_function(aten.sin.default, (x,))
        return wrap(y, graph.call_function(aten.add.Tensor, (y, 1)))

    gm, x = build(body), torch.randn(3, 4)
    actual, expected = interpreted(gm, [x])(x), gm(x)
    assert type(actual) is type(expected)
    torch.testing.assert_close(actual, expected)


def test_compiled_by_cpp():
    gm = build(lambda g, x, y: (g.call_function(aten.mul.Tensor, (g.call_function(aten.gelu.default, (x,)), y)),), 2)
    x, y = torch.randn(5, 33), torch.randn(33)
    compiled = triptych_inductor.compile(gm, [x, y])
    torch.testing.assert_close(compiled(x, y), gm(x, y))
    assert any(name.endswith(".cpp") for name in compiled.files)


def test_graph_of_torch_functions_is_traced():
    def body(graph, x):
        y = graph.call_function(torch.relu, (x,))
        z = graph.call_method("mul", (y, 2))
        return (graph.call_function(operator.add, (z, y)),)

    gm, x = build(body), torch.randn(3, 4)
    torch.testing.assert_close(interpreted(gm, [x])(x), gm(x))


def test_in_place_graph_is_made_functional():
    def body(graph, x):
        y = graph.call_function(aten.clone.default, (x,))
        graph.call_function(aten.add_.Tensor, (y, 1))
        return (y,)

    gm, x = build(body), torch.randn(3)
    torch.testing.assert_close(interpreted(gm, [x])(x), gm(x))


def test_graph_is_not_changed():
    gm = make_fx(lambda x: (F.mse_loss(x.sin().sin(), x.sin()),))(torch.randn(3))
    before, meta = gm.code, [sorted(map(str, n.meta)) for n in gm.graph.nodes]
    interpreted(gm, [torch.randn(3)])
    assert gm.code == before and [sorted(map(str, n.meta)) for n in gm.graph.nodes] == meta


def test_constants_of_the_graph():
    class Owner(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.arange(4.0))

    graph = Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(aten.add.Tensor, (x, graph.get_attr("table"))),))
    gm = GraphModule(Owner(), graph)
    compiled, x = interpreted(gm, [torch.zeros(4)]), torch.randn(4)
    torch.testing.assert_close(compiled(x), gm(x))


def test_boxed_arguments_are_emptied():
    compiled = interpreted(build(lambda g, x: (g.call_function(aten.sin.default, (x,)),)), [torch.randn(3)])
    args = [torch.randn(3)]
    compiled.call(args)
    assert args == []


def test_input_returned_and_views_of_inputs_alias(check):
    x = torch.randn(4, 6)
    compiled = check(lambda x: (x, x.t(), x[1:], x + 1), x)
    outputs = compiled(x)
    assert outputs[0] is x
    assert outputs[1].data_ptr() == x.data_ptr() and outputs[2].data_ptr() == x[1:].data_ptr()


def test_inputs_with_strides(check):
    base = torch.randn(8, 10)
    check(lambda x, y: (x * 2 + y.t(), (x @ y)), base[:, ::2], torch.randn(10, 8)[::2].clone())
    check(lambda x: torch.softmax(x, -1), base.t())
    check(lambda x: x.sum(0) + 1, base[2:5].expand(3, 10))


def test_output_strides_are_eagers(check):
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)

    def fn(x):
        return x.relu(), x.permute(0, 2, 3, 1) + 1, x.transpose(1, 2).contiguous(), x.mean(1), torch.zeros_like(x)

    check(fn, x)


def test_empty_and_scalar_tensors(check):
    check(lambda x: (x + 1, x.sum(), x.sum(0)), torch.randn(0, 3))
    check(lambda x: (x + 1, x.exp(), x.view(1, 1) * 2), torch.randn(()))


@pytest.mark.parametrize("shapes", [[(4, 7), (6, 9), (1, 3), (5, 1)]])
def test_one_graph_serves_many_sizes(shapes):
    def fn(x, w):
        y = torch.softmax(x, -1) * w
        z = F.layer_norm(y, (y.shape[1],)).reshape(-1)
        return z.view(x.shape[1], x.shape[0]).t() + x.shape[0], x.sum(0), torch.arange(x.shape[1])

    x, w = torch.randn(4, 7), torch.randn(7)
    gm = make_fx(fn, tracing_mode="symbolic")(x, w)
    compiled = interpreted(gm, [x, w])
    assert not compiled.fallbacks
    for shape in shapes:
        x, w = torch.randn(shape), torch.randn(shape[1])
        torch.testing.assert_close(compiled(x, w), fn(x, w))


def test_symbolic_sizes_in_cpp():
    def fn(x):
        return torch.softmax(x, -1) * x.shape[0] + x.sum(0)

    x = torch.randn(5, 70)
    compiled = triptych_inductor.compile(make_fx(fn, tracing_mode="symbolic")(x), [x])
    for shape in [(5, 70), (3, 64), (9, 33), (1, 200)]:
        x = torch.randn(shape)
        torch.testing.assert_close(compiled(x), fn(x))


def test_data_dependent_size(check):
    def fn(x):
        return torch.nonzero(x > 0).sum()

    check(fn, torch.randn(9))


def test_options():
    assert Options.make({"exact": True}) == Options(exact=True)
    assert "exact" in triptych_inductor.list_options()
    assert triptych_inductor.list_mode_options("default") == {}
    with pytest.raises(OptionsError, match="did you mean 'fusion'"):
        Options.make({"fuson": True})
    with pytest.raises(OptionsError, match="is a bool, which"):
        Options.make({"fusion": 3})
    with pytest.raises(OptionsError, match="unknown mode 'fast'"):
        triptych_inductor.list_mode_options("fast")


def test_size_asserts():
    x = torch.randn(3, 4)
    compiled = interpreted(make_fx(lambda x: (x + 1,))(x), [x], size_asserts=True)
    compiled(x)
    with pytest.raises(AssertionError, match="compiled for size"):
        compiled(torch.randn(4, 3))


def test_register_lowering_and_fallback_of_custom_op():
    @torch.library.custom_op("triptych_test::double", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @double.register_fake
    def _(x):
        return torch.empty_like(x)

    x = torch.randn(4)
    gm = make_fx(lambda x: (double(x) + 1,), tracing_mode="fake")(x)
    compiled = interpreted(gm, [x])
    assert compiled.fallbacks == {"triptych_test.double.default": 1}
    torch.testing.assert_close(compiled(x), (x * 2 + 1,))

    @triptych_inductor.register_lowering(torch.ops.triptych_test.double.default)
    def lower_double(ctx, x):
        return ctx.pointwise(lambda v: ctx.ops.add(v, v), x)

    compiled = interpreted(gm, [x])
    assert not compiled.fallbacks and len(compiled.kernels) == 1
    torch.testing.assert_close(compiled(x), (x * 2 + 1,))


def test_register_lowering_wants_ops():
    with pytest.raises(TypeError, match="takes ops such as"):
        triptych_inductor.register_lowering(torch.relu)


def test_lowering_error_names_op_and_cause():
    @torch.library.custom_op("triptych_test::bad", mutates_args=())
    def bad(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @bad.register_fake
    def _(x):
        return torch.empty_like(x)

    @triptych_inductor.register_lowering(torch.ops.triptych_test.bad.default)
    def lower_bad(ctx, x):
        return x.nonsense

    gm = make_fx(lambda x: (bad(x),), tracing_mode="fake")(torch.randn(2))
    with pytest.raises(LoweringError, match="triptych_test.bad.*AttributeError"):
        interpreted(gm, [torch.randn(2)])


def test_register_pass():
    seen = []

    @triptych_inductor.register_pass("count_nodes")
    def count(gm):
        seen.append(len(gm.graph.nodes))

    try:
        interpreted(make_fx(lambda x: (x + 1,))(torch.randn(2)), [torch.randn(2)])
        assert seen
        interpreted(make_fx(lambda x: (x + 1,))(torch.randn(2)), [torch.randn(2)], exclude_passes=("count_nodes",))
        assert len(seen) == 1
    finally:
        triptych_inductor.unregister_pass("count_nodes")
    with pytest.raises(OptionsError, match="built-in"):
        triptych_inductor.register_pass("remove_dead_code")


def test_out_of_range_index_raises(check):
    x, good = torch.randn(5, 3), torch.tensor([0, 4, -1])
    check(lambda x, i: x[i], x, good)
    compiled = interpreted(make_fx(lambda x, i: (x[i],))(x, good), [x, good])
    with pytest.raises(IndexError):
        compiled(x, torch.tensor([0, 5, 1]))
    compiled = interpreted(make_fx(lambda w, i: (F.embedding(i, w),))(x, good.abs()), [x, good.abs()])
    with pytest.raises(IndexError):
        compiled(x, torch.tensor([0, -1, 1]))


def test_grad_mode_does_not_matter():
    w = torch.nn.Parameter(torch.randn(3, 3))
    x = torch.randn(3, 3)
    compiled = interpreted(make_fx(lambda x, w: (x @ w + 1,))(x, w.detach()), [x, w])
    assert not compiled(x, w)[0].requires_grad


def test_random_numbers_follow_eager(check):
    check(lambda x: F.dropout(x, 0.3, True) + torch.rand_like(x), torch.randn(50))


def test_equal_graphs_have_equal_keys():
    x = torch.randn(3, 4)
    keys = {interpreted(make_fx(lambda x: (x.sin() + 1,))(x), [x]).key for _ in range(2)}
    other = interpreted(make_fx(lambda x: (x.sin() + 2,))(x), [x]).key
    assert len(keys) == 1 and other not in keys


def test_missing_compiler_is_a_clear_error(monkeypatch, tmp_path):
    x = torch.randn(3, 41)
    gm = make_fx(lambda x: (x.sin() * 1.2345,))(x)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("TRIPTYCH_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(triptych_inductor.CompilerNotFoundError):
        triptych_inductor.compile(gm, [x])


def test_symbolic_float_argument():
    """A Python float that changes between calls reaches kernels through memory."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    environment = ShapeEnv()
    mode = FakeTensorMode(shape_env=environment)
    symbol = environment.create_unbacked_symfloat()
    gm = build(lambda g, x, f: (g.call_function(aten.add.Tensor, (g.call_function(aten.mul.Tensor, (x, f)), 1)),), 2)
    x = torch.randn(4, 5)
    fake = mode.from_tensor(x, static_shapes=True)
    for node, value in zip(gm.graph.nodes, [fake, symbol, fake, fake], strict=False):
        node.meta["val"] = value
    compiled = interpreted(gm, [fake, symbol])
    for number in (0.5, -3.0):
        torch.testing.assert_close(compiled(x, number)[0], x * number + 1)


def test_layout_of_library_results_is_checked():
    """A call whose real strides differ from what shape propagation says: kernels still read the right elements."""

    @torch.library.custom_op("triptych_test::column_major", mutates_args=())
    def column_major(x: torch.Tensor) -> torch.Tensor:
        return x.t().contiguous().t() if x.ndim == 2 else x.clone()

    @column_major.register_fake
    def _(x):
        return torch.empty_like(x)

    x = torch.randn(3, 5)
    gm = make_fx(lambda x: (column_major(x) + torch.arange(5), column_major(x)), tracing_mode="fake")(x)
    actual, plain = interpreted(gm, [x])(x)
    torch.testing.assert_close(actual, x + torch.arange(5))
    assert plain.stride() == (5, 1)


def test_results_of_lapack_in_a_kernel(check):
    x = torch.randn(4, 4)
    check(lambda x: torch.linalg.svd(x)[1] * 2 + torch.linalg.qr(x)[0].abs().sum(), x)
    check(lambda x: torch.linalg.cholesky(x @ x.t() + torch.eye(4)) * 2, x)


def test_text_does_not_depend_on_the_process():
    """Generated text is the same in every process: else nothing in the cache would be found again."""
    script = (
        "import torch, triptych_inductor, hashlib\n"
        "from torch.fx.experimental.proxy_tensor import make_fx\n"
        "F = torch.nn.functional\n"
        "def fn(x, w, b, m):\n"
        "    y = F.layer_norm(F.gelu(x) * m, (16,), w, b)\n"
        "    return torch.softmax(y, -1) * m, y.sum(0), (y @ y.t()).relu().mean()\n"
        "args = [torch.ones(8, 16), torch.ones(16), torch.ones(16), torch.ones(8, 16)]\n"
        "gm = make_fx(fn, tracing_mode='fake')(*args)\n"
        "print(triptych_inductor.compile(gm, args, options={'interpret': True}).key)\n"
    )
    keys = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        keys.add(
            subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True).stdout
        )
    assert len(keys) == 1


def test_results_a_library_leaves_out_pass_through():
    assert laid_out(None, (3, 1)) is None
    tensor = torch.randn(3, 1, 4)
    assert laid_out(tensor, (4, 99, 1)) is tensor
    assert laid_out(tensor.transpose(0, 2), (3, 3, 1)).stride() == (3, 3, 1)
    empty = torch.empty(2, 0).t()  # as a GPU's `nonzero` gives it
    assert laid_out(empty, (1, 0)) is empty and empty.stride() == (1, 1)
