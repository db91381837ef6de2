"""What compiled functions do at run time: gradients of every kind, hooks, aliasing inputs, autocast, threads."""

import threading
import warnings

import pytest
import torch
import torch.nn.functional as F
from aot_testing import check_against_eager, grad, keep_graph, plain
from triptych_aot_autograd import DoubleBackwardError, aot_backend, aot_function, aot_module, trace_joint
from triptych_aot_autograd.graph_module import LazyGraphModule


def leaf(*size, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*size, generator=generator).requires_grad_()


class Counting:
    def __init__(self):
        self.graphs = []

    def __call__(self, gm, example_inputs):
        self.graphs.append(gm)
        return gm


def both(fn):
    return fn, aot_function(fn, keep_graph)


# -- gradients ---------------------------------------------------------------------------------------------------------
def test_backward_is_compiled_at_first_use_and_once():
    forward, backward = Counting(), Counting()
    fn = aot_function(lambda x: x.sin().sum(), forward, backward)
    x = leaf(4)
    loss = fn(x)
    assert (len(forward.graphs), len(backward.graphs)) == (1, 0)
    loss.backward()
    fn(x).backward()
    assert (len(forward.graphs), len(backward.graphs)) == (1, 1)
    torch.testing.assert_close(x.grad, 2 * x.detach().cos())


def test_retain_graph():
    x = leaf(4)
    loss = aot_function(lambda x: x.exp().sum(), keep_graph)(x)
    loss.backward(retain_graph=True)
    loss.backward()
    torch.testing.assert_close(x.grad, 2 * x.detach().exp())
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_missing_tangents_give_missing_gradients():
    results = []
    for fn in both(lambda a, b, c: (a * c, b * c)):
        a, b, c = leaf(3), leaf(3, seed=1), leaf(3, seed=2)
        first, _ = fn(a, b, c)
        first.sum().backward()
        results.append([a.grad, b.grad, c.grad])
    for eager, ours in zip(*results):
        assert (eager is None) == (ours is None)
        if eager is not None:
            torch.testing.assert_close(ours, eager)


def test_tangent_with_other_strides():
    for fn in both(lambda x: x.relu() * 2):
        x = leaf(3, 4)
        y = fn(x)
        y.backward(torch.arange(12.0).view(4, 3).t())
        torch.testing.assert_close(x.grad, (x.detach() > 0) * 2 * torch.arange(12.0).view(4, 3).t())


def second_order(fn, *inputs):
    out = fn(*inputs)
    out = out if isinstance(out, torch.Tensor) else sum(o.sum() for o in out)
    first = torch.autograd.grad(out.sum(), inputs, create_graph=True)
    loss = sum(g.pow(2).sum() for g in first)
    return [*first, *torch.autograd.grad(loss, inputs)]


@pytest.mark.parametrize(
    "program",
    [
        lambda x, w: (x @ w).tanh(),
        lambda x, w: ((y := (x @ w).sin()), y.t(), y[0]),
        lambda x, w: ((y := (x @ w).sin()).t()[0], y[1]),
        lambda x, w: F.layer_norm(x @ w, (3,)),
    ],
)
def test_double_backward(program):
    expected = second_order(program, leaf(4, 3), leaf(3, 3, seed=1))
    found = second_order(aot_function(program, keep_graph), leaf(4, 3), leaf(3, 3, seed=1))
    torch.testing.assert_close(found, expected)


def test_double_backward_of_inputs_that_depend_on_each_other():
    """The gradient of a weight counts the way through another input once."""

    def program(scaled, w):
        return (scaled @ w).pow(2).sum()

    found = []
    for fn in both(program):
        w = torch.linspace(-1, 1, 9).view(3, 3).requires_grad_()
        first = torch.autograd.grad(fn(torch.ones(2, 3) * w.norm(), w), w, create_graph=True)[0]
        found.append((first, *torch.autograd.grad(first.pow(2).sum(), w)))
    torch.testing.assert_close(found[0], found[1])


def test_double_backward_repeats_random_draws():
    def program(x):
        return F.dropout(x.sin(), 0.5) * x

    torch.manual_seed(3)
    expected = second_order(program, leaf(40))
    torch.manual_seed(3)
    found = second_order(aot_function(program, keep_graph), leaf(40))
    torch.testing.assert_close(found, expected)


def test_double_backward_of_overwritten_input_is_an_error():
    buffer = torch.zeros(3)
    fn = aot_function(lambda x, b: (x * x + b.add_(1)).sum(), keep_graph)
    x = leaf(3)
    with pytest.raises(DoubleBackwardError, match="overwrites its inputs"):
        torch.autograd.grad(fn(x, buffer), x, create_graph=True)


def test_gradcheck():
    def program(x, w):
        h = torch.tanh(x @ w)
        return h.softmax(-1), h.cumsum(0)

    x, w = (torch.randn(3, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(aot_function(program, keep_graph), (x, w))
    assert torch.autograd.gradgradcheck(aot_function(program, keep_graph), (x, w))


# -- hooks -------------------------------------------------------------------------------------------------------------
def test_tensor_hooks_outside_the_region():
    for fn in both(lambda x: x * x):
        seen = []
        x = leaf(3)
        h = x * 1
        h.register_hook(lambda g: seen.append("input") or g * 2)
        y = fn(h)
        y.register_hook(lambda g: seen.append("output") or g + 1)
        y.sum().backward()
        assert seen == ["output", "input"]
        torch.testing.assert_close(x.grad, 8 * x.detach())


def test_saved_tensor_hooks_apply_to_what_is_saved():
    fn = aot_function(lambda x: x.exp().sum(), keep_graph)
    x = leaf(5)
    packed = []

    def pack(t):
        packed.append(t.clone())
        return len(packed) - 1

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda i: packed[i]):
        loss = fn(x)
    assert len(packed) == 1
    loss.backward()
    torch.testing.assert_close(x.grad, x.detach().exp())


# -- what the program does to tensors after the call -------------------------------------------------------------------
def test_overwriting_a_saved_output_is_an_error_as_in_eager():
    for fn in both(lambda x: x.exp()):
        y = fn(leaf(3))
        with torch.no_grad():
            y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


@pytest.mark.parametrize(
    "program",
    [
        lambda x: ((y := x * 2), y.sin().exp()),
        lambda x: ((y := x + 2), (y * 0.5).clone().exp()),
        lambda x: (x + 1).exp(),
    ],
)
def test_overwriting_what_eager_does_not_save_is_harmless(program):
    results = []
    for fn in both(program):
        x = leaf(5)
        h = x + 0
        out = fn(h)
        outs = out if isinstance(out, tuple) else (out,)
        if len(outs) == 2 and fn is not None:
            pass
        with torch.no_grad():
            h.zero_()
        outs[-1].sum().backward()
        results.append(x.grad)
    torch.testing.assert_close(results[1], results[0])


def test_output_may_be_changed_in_place():
    for fn in both(lambda x: ((y := x * 2), y.view(-1), x.t())):
        x = leaf(3, 4)
        y, flat, t = fn(x * 1)
        flat.mul_(3)
        t.add_(1)
        torch.testing.assert_close(y, x.detach() * 6)
        (y.sum() + t.sum()).backward()
        torch.testing.assert_close(x.grad, torch.full((3, 4), 7.0))


# -- aliasing inputs ---------------------------------------------------------------------------------------------------
def test_overlap_seen_at_the_first_call_runs_eagerly():
    memory = torch.arange(6.0)
    fn = aot_function(lambda a, b: (a.add_(1), b * 2)[1], keep_graph)
    with pytest.warns(UserWarning, match="share memory"):
        out = fn(memory[:4], memory[2:])
    torch.testing.assert_close(memory, torch.tensor([1.0, 2, 3, 4, 4, 5]))
    torch.testing.assert_close(out, torch.tensor([6.0, 8, 8, 10]))


def test_overlap_seen_later_runs_eagerly():
    gm = torch.fx.symbolic_trace(lambda a, b: (a.add_(1), b * 2))
    compiler = Counting()
    fn = aot_backend(compiler)(gm, [torch.zeros(4), torch.zeros(4)])
    assert len(compiler.graphs) == 1
    memory = torch.arange(6.0)
    _, out = fn(memory[:4], memory[2:])
    torch.testing.assert_close(out, torch.tensor([6.0, 8, 8, 10]))
    _, out = fn(torch.zeros(4), torch.ones(4))
    torch.testing.assert_close(out, torch.full((4,), 2.0))


def test_disjoint_parts_of_one_memory_are_compiled():
    memory = torch.arange(6.0)
    compiler = Counting()
    fn = aot_function(lambda a, b: (a.add_(1), b * 2)[1], compiler)
    torch.testing.assert_close(fn(memory[:3], memory[3:]), torch.tensor([6.0, 8, 10]))
    assert len(compiler.graphs) == 1
    torch.testing.assert_close(memory, torch.tensor([1.0, 2, 3, 3, 4, 5]))


def test_one_tensor_as_two_arguments():
    for fn in both(lambda a, b: a * b):
        x = leaf(3)
        fn(x, x).sum().backward()
        torch.testing.assert_close(x.grad, 2 * x.detach())
    with pytest.warns(UserWarning, match="share memory"):
        x = torch.ones(3)
        out = aot_function(lambda a, b: a.add_(1) + b, keep_graph)(x, x)
    torch.testing.assert_close(out, torch.full((3,), 4.0))


# -- modes -------------------------------------------------------------------------------------------------------------
def test_inference_has_its_own_compiler_and_no_backward():
    forward, inference = Counting(), Counting()
    fn = aot_function(lambda x: x * 2, forward, inference_compiler=inference)
    with torch.no_grad():
        assert not fn(leaf(3)).requires_grad
    fn(torch.ones(3))
    assert (len(forward.graphs), len(inference.graphs)) == (0, 2)
    fn(leaf(3))
    assert (len(forward.graphs), len(inference.graphs)) == (1, 2)


def test_inference_mode():
    with torch.inference_mode():
        fn = aot_function(lambda x, w: F.linear(x, w).relu_(), keep_graph)
        x, w = torch.randn(2, 3), torch.randn(4, 3)
        out = fn(x, w)
        torch.testing.assert_close(out, F.linear(x, w).relu())


def test_autocast_is_traced_and_not_applied_twice():
    def program(x, w):
        return (x @ w).float().softmax(-1) @ w.t()

    for fn in both(program):
        x, w = leaf(4, 3), leaf(3, 3, seed=1)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = fn(x, w)
            out.float().sum().backward()
        assert out.dtype == torch.bfloat16
        assert x.grad.dtype == torch.float32
        if fn is program:
            expected = [out, x.grad, w.grad]
    torch.testing.assert_close([out, x.grad, w.grad], expected)


def test_a_graph_compiled_without_autocast_is_not_changed_by_it():
    gm = torch.fx.symbolic_trace(lambda x, w: (x @ w,))
    fn = aot_backend(keep_graph)(gm, [leaf(2, 2), leaf(2, 2)])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        (out,) = fn(leaf(2, 2), leaf(2, 2))
        assert out.dtype == torch.float32
        out.sum().backward()


def test_mutation_of_an_input_bumps_its_version_as_eager_does():
    check_against_eager(lambda x: (x.add_(1), x.mul_(2), x.sum())[2], plain(3))
    check_against_eager(lambda x, y: (x.add_(y), x[0].mul_(2), x.sum())[2], grad(3), grad(3))


# -- compilers ---------------------------------------------------------------------------------------------------------
def test_boxed_compilers_get_a_list():
    sizes = []

    def compiler(gm, example_inputs):
        def run(args):
            sizes.append(len(args))
            values = list(args)
            args.clear()
            return gm(*values)

        run._boxed_call = True
        return run

    x, w = leaf(3), leaf(3, seed=1)
    aot_function(lambda x, w: (x * w).sum(), compiler)(x, w).backward()
    torch.testing.assert_close(x.grad, w.detach())
    assert sizes == [2, 3]
    with torch.no_grad():
        torch.testing.assert_close(aot_function(lambda x: x + 1, compiler)(x), x + 1)


def test_compilers_run_without_ambient_state():
    seen = []

    def compiler(gm, example_inputs):
        seen.append((torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")))
        assert all(type(t).__name__ == "FakeTensor" for t in example_inputs)
        return gm

    with torch.autocast("cpu"):
        aot_function(lambda x: x.exp().sum(), compiler)(leaf(3)).backward()
    assert [grad for grad, _ in seen] == [False, False]


def test_threads_compile_once_each_signature():
    compiler = Counting()
    fn = aot_function(lambda x: x.sin().exp(), compiler)
    errors = []

    def work():
        try:
            for _ in range(20):
                x = leaf(8)
                fn(x).sum().backward()
                torch.testing.assert_close(x.grad, (x.sin().exp() * x.cos()).detach())
        except Exception as error:  # reported below, in the main thread
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    assert len(compiler.graphs) == 2


# -- modules -----------------------------------------------------------------------------------------------------------
class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(7, 4)
        self.head = torch.nn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight
        self.norm = torch.nn.BatchNorm1d(4)
        self.drop = torch.nn.Dropout(0.3)

    def forward(self, ids):
        return self.head(self.drop(self.norm(self.embedding(ids))))


def test_module_with_tied_weights_buffers_and_dropout():
    torch.manual_seed(0)
    eager = Tied()
    torch.manual_seed(0)
    compiled = aot_module(Tied(), keep_graph)
    ids = torch.randint(0, 7, (6,))
    for _ in range(2):
        for module in (eager, compiled):
            torch.manual_seed(1)
            F.cross_entropy(module(ids), ids).backward()
    ours = dict(compiled.module.named_parameters())
    for name, p in eager.named_parameters():
        torch.testing.assert_close(ours[name].grad, p.grad)
    for (name, a), (_, b) in zip(eager.named_buffers(), compiled.module.named_buffers()):
        torch.testing.assert_close(b, a, msg=name)
    assert compiled.module.norm.num_batches_tracked == 2
    eager.eval()
    compiled.eval()
    torch.testing.assert_close(compiled(ids), eager(ids))


def test_backend_of_a_graph_that_holds_its_parameters():
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    gm = torch.fx.symbolic_trace(module)
    x = torch.randn(5, 3)
    fn = aot_backend(keep_graph)(gm, [x])
    torch.testing.assert_close(fn(x), module(x))
    fn(x).sum().backward()
    found = [p.grad.clone() for p in module.parameters()]
    module.zero_grad()
    module(x).sum().backward()
    torch.testing.assert_close(found, [p.grad for p in module.parameters()])


def test_checkpoint_recomputes_with_the_same_dropout():
    from torch.utils.checkpoint import checkpoint

    def block(x, w):
        return F.dropout(torch.tanh(x @ w), 0.4) @ w

    def program(x, w):
        return checkpoint(block, x, w, use_reentrant=False).sin()

    check_against_eager(program, grad(5, 4), grad(4, 4))
    joint = trace_joint(program, leaf(5, 4), leaf(4, 4))
    plain_joint = trace_joint(lambda x, w: block(x, w).sin(), leaf(5, 4), leaf(4, 4))
    assert joint.partition().saved_bytes() < plain_joint.partition().saved_bytes()


def test_no_warnings_from_an_ordinary_program():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        aot_function(lambda x: x.exp().sum(), keep_graph)(leaf(3)).backward()


def test_lazily_conjugated_inputs():
    x = torch.randn(3, 4, dtype=torch.complex64)
    results = []
    for fn in both(lambda a, b: (a * b).imag.sum() + (a @ b.t()).real.sum()):
        a = x.clone().requires_grad_()
        out = fn(a.conj(), a)
        out.backward()
        results.append([out.detach(), a.grad])
    torch.testing.assert_close(results[1], results[0])
    check_against_eager(lambda a: torch.view_as_complex(a).conj().imag * 2, grad(3, 2))
    double = aot_function(lambda t: t * 2, keep_graph)
    torch.testing.assert_close(double(x.conj().imag), -x.imag * 2)


def test_gradient_taken_inside():
    def force(x):
        (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        return g.sin()

    x = leaf(4)
    expected, found = force(x), aot_function(force, keep_graph)(x)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.autograd.grad(found.sum(), x), torch.autograd.grad(expected.sum(), x))


def test_function_transforms_inside():
    def program(x, w):
        per_row = torch.func.vmap(torch.func.grad(lambda row: (row * row.sin()).sum()))(x)
        return per_row @ w

    check_against_eager(program, grad(3, 4), grad(4, 2))


def test_checks_are_kept():
    def program(x):
        torch._assert_async(x.sum() > 0)
        return x * 2

    fn = aot_function(program, keep_graph)
    torch.testing.assert_close(fn(torch.ones(3)), torch.full((3,), 2.0))
    with pytest.raises(RuntimeError):
        fn(-torch.ones(3))


def test_recurrent_layers():
    torch.manual_seed(0)
    for layer in (torch.nn.LSTM(3, 4), torch.nn.GRU(3, 4), torch.nn.RNN(3, 4)):
        x = torch.randn(5, 2, 3)
        expected, found = layer(x)[0], aot_module(layer, keep_graph)(x)[0]
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
        grads = [torch.autograd.grad(o.sum(), list(layer.parameters())) for o in (expected, found)]
        torch.testing.assert_close(grads[1], grads[0], atol=1e-4, rtol=1e-4)


def test_threads_run_a_graph_whose_code_one_of_them_writes():
    """None of them may find the graph half ready."""
    for _ in range(20):
        graph = torch.fx.symbolic_trace(lambda x: sum(x + i for i in range(300))).graph
        module, failures = LazyGraphModule(torch.nn.Module(), graph), []
        start = threading.Barrier(4)

        def run(module=module, failures=failures, start=start):
            start.wait()
            try:
                module(torch.ones(1))
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
