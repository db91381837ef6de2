"""Custom ops, autograd functions, and programs that have no functional form."""

import pytest
import torch
from aot_testing import check_against_eager, grad, keep_graph, plain
from triptych_aot_autograd import DataDependentError, UnsupportedOperationError, aot_backend, aot_function, trace_joint


@torch.library.custom_op("aot_tests::add_into", mutates_args=("acc",))
def add_into(acc: torch.Tensor, x: torch.Tensor, scale: float) -> None:
    acc.add_(x, alpha=scale)


@torch.library.custom_op("aot_tests::split_sum", mutates_args=("acc",))
def split_sum(x: torch.Tensor, acc: torch.Tensor) -> torch.Tensor:
    acc.mul_(2)
    return x.sum() + acc


@split_sum.register_fake
def _(x, acc):
    return torch.empty_like(acc)


@torch.library.custom_op("aot_tests::add_to_each", mutates_args=("parts", "total"))
def add_to_each(parts: list[torch.Tensor], total: torch.Tensor | None, x: torch.Tensor) -> list[torch.Tensor]:
    for part in parts:
        part.add_(x)
    if total is not None:
        total.add_(x)
    return [part * 2 for part in parts]


@add_to_each.register_fake
def _(parts, total, x):
    return [torch.empty_like(part) for part in parts]


@torch.library.custom_op("aot_tests::cube", mutates_args=())
def cube(x: torch.Tensor) -> torch.Tensor:
    return x**3


@cube.register_fake
def _(x):
    return torch.empty_like(x)


cube.register_autograd(
    lambda ctx, grad: grad * 3 * ctx.saved_tensors[0] ** 2,
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
)


class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x)
        return x.clamp(min=0), x * y

    @staticmethod
    def backward(ctx, g, h):
        (x,) = ctx.saved_tensors
        return g * (x > 0) * 10, h * 2


def test_custom_op_with_autograd():
    check_against_eager(lambda x: cube(x * 2).sin(), grad(4))


def test_custom_op_that_mutates():
    # How often such an op raises the version counter depends on its body.
    check_against_eager(lambda a, x: (add_into(a, x, 0.5), a * 2)[1], plain(4), plain(4), versions=False)
    check_against_eager(lambda x: (add_into(b := torch.zeros(4), x, 0.5), b * 2)[1], plain(4))


@pytest.mark.parametrize("total", [True, False])
def test_custom_op_that_mutates_a_list(total):
    def program(a, b, x):
        made = add_to_each([a, b.t()], x.sin() if total else None, x)
        return made[0] + 1, made[1], a * 2

    check_against_eager(program, plain(4), plain(4), plain(4), versions=False)
    check_against_eager(lambda a, x: (split_sum(x, a[1]), a * 2), plain(4), plain(4), versions=False)


def test_no_op_in_the_graph_writes():
    joint = trace_joint(lambda a, x: (add_into(a, x, 0.5), x.clone().mul_(3).t_()), torch.ones(2, 2), torch.ones(2, 2))
    for node in joint.graph.nodes:
        if node.op == "call_function" and hasattr(node.target, "_schema"):
            assert not node.target._schema.is_mutable
    written = [n for n in joint.partition().forward.graph.nodes if n.meta.get("epilogue")]
    assert [n.target for n in written] == [torch.ops.aten.copy_.default]


def test_autograd_function_inside():
    check_against_eager(lambda x, y: Clipped.apply(x, y), grad(5), grad(5))
    check_against_eager(lambda x: Clipped.apply(x, x), grad(5))


def test_question_about_a_number_is_a_declared_error():
    with pytest.raises(DataDependentError, match=r"test_ops_of_users.py:\d+"):
        trace_joint(lambda x: x + 1 if x.sum() > 0 else x, torch.ones(3))


def test_literals_keep_their_numbers():
    check_against_eager(lambda x: x + 1 if torch.tensor(3.0) > 2 else x, plain(3))


def test_new_storage_is_a_declared_error():
    def give_storage(x):
        x.set_(torch.ones(5).untyped_storage())
        return x

    with pytest.raises(UnsupportedOperationError, match="storage"):
        trace_joint(give_storage, torch.ones(3))
    with pytest.raises(UnsupportedOperationError, match="layout"):
        trace_joint(lambda x: x * 2, torch.eye(3).to_sparse())


def test_foreign_tensor_that_needs_a_gradient_is_a_declared_error():
    w = torch.ones(3, requires_grad=True)
    with pytest.raises(UnsupportedOperationError, match="not among its inputs"):
        trace_joint(lambda x: x * w, torch.ones(3))


def test_backend_runs_unsupported_graphs_eagerly_with_a_warning():
    gm = torch.fx.symbolic_trace(lambda x: (x.resize_(8).zero_(),))
    with pytest.warns(UserWarning, match="without compilation.*resize_"):
        fn = aot_backend(keep_graph)(gm, [torch.ones(3)])
    assert fn(torch.ones(3))[0].shape == (8,)
    with pytest.raises(UnsupportedOperationError):
        aot_backend(keep_graph, unsupported="raise")(gm, [torch.ones(3)])


def test_backward_that_fails_in_eager_fails_the_same_way_and_not_before():
    gm = torch.fx.symbolic_trace(lambda x: (x.exp().add_(1),))
    with pytest.warns(UserWarning, match="fails in eager too"):
        fn = aot_backend(keep_graph)(gm, [torch.ones(3, requires_grad=True)])
    (out,) = fn(torch.ones(3, requires_grad=True))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_errors_of_the_program_surface_as_they_are():
    with pytest.raises(ZeroDivisionError):
        trace_joint(lambda x: x / (1 // 0), torch.ones(3))
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        trace_joint(lambda x: x.add_(torch.ones(4, 3)), torch.ones(3))
    with pytest.raises(RuntimeError, match="can't be cast"):
        trace_joint(lambda x: x.add_(1.5), torch.ones(3, dtype=torch.int64))


def test_random_draws_with_a_generator_are_a_declared_error():
    with pytest.raises(UnsupportedOperationError, match="Generator"):
        aot_function(lambda x: x + torch.rand(3, generator=torch.Generator()), keep_graph)(torch.ones(3))


def test_backward_inside_is_a_declared_error():
    def program(x):
        x.sum().backward()
        return x * 2

    with pytest.raises(UnsupportedOperationError, match=r"backward\(\) inside"):
        trace_joint(program, torch.ones(3, requires_grad=True))


def test_higher_order_ops_are_a_declared_error():
    with pytest.raises(UnsupportedOperationError, match="higher-order"):
        trace_joint(lambda x: torch.ops.higher_order.cond(x.sum() > 0, torch.sin, torch.cos, (x,)), torch.ones(3))
