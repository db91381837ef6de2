"""A run-time plan written to JSON, read again and bound to the same graphs is the function it was made of."""

import json

import pytest
import torch
from triptych_aot_autograd import (
    DoubleBackwardError,
    PlanError,
    RuntimePlan,
    UnsupportedOperationError,
    aot_backend,
    bind_graph,
)
from triptych_aot_autograd.runtime import plan_json
from triptych_aot_autograd.runtime.bind import bind


def views(x, w):
    y = x.t()
    return (y, y[0], (x * w)[1:], x)


def roots(x, w):
    z = x * w
    y = z.detach()
    return (y[1:], y, y[1:][1:], z)


def writes(x, w):
    x.mul_(2)
    w.unsqueeze_(0)
    return (x @ w.t(),)


def trains(x, w):
    y = (x @ w).tanh()
    return (y, y.detach().sum(), y.view(-1))


def draws(x, w):
    return (torch.nn.functional.dropout(x * w, 0.5, training=True),)


def constants(x, w):
    return (x + w, 3, None, 1.5, "text")


def conjugated(x, w):
    return ((x * w).to(torch.complex64).conj(),)


PROGRAMS = [views, roots, writes, trains, draws, constants, conjugated]


def inputs_of(program, grad):
    torch.manual_seed(0)
    w = torch.randn(4) if program is writes else torch.randn(4, 4)
    return [torch.randn(4, 4), w.requires_grad_(grad and program is not writes)]


def compile_and_store(program, inputs):
    """The compiled function, and another made of its plan's JSON form and the graphs that its compilers were given."""
    gm = torch.fx.symbolic_trace(program)
    plans, graphs = [], {}

    def compiler(role):
        def compile(graph, examples):
            graphs[role] = graph
            return graph

        return compile

    backend = aot_backend(
        compiler("forward"), compiler("backward"), inference_compiler=compiler("forward"), on_plan=plans.append
    )
    call = backend(gm, inputs)

    def again():
        plan = RuntimePlan.from_json(json.loads(json.dumps(plans[0].to_json())))
        assert plan == plans[0]
        return bind_graph(gm, plan, graphs["forward"], graphs.get("backward"))

    return call, again


def run(call, inputs):
    torch.manual_seed(1)
    outputs = call(*inputs)
    loss = sum(o.abs().sum() for o in outputs if isinstance(o, torch.Tensor) and o.requires_grad)
    if isinstance(loss, torch.Tensor):
        loss.backward()
    facts = [
        (o.shape, o.stride(), o.requires_grad, o._base is None) if isinstance(o, torch.Tensor) else o for o in outputs
    ]
    values = [o.detach().resolve_conj() for o in outputs if isinstance(o, torch.Tensor)]
    return facts, values, [t.detach() for t in inputs], [t.grad for t in inputs]


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_round_trip(program, grad):
    call, again = compile_and_store(program, inputs_of(program, grad))
    first = run(call, inputs_of(program, grad))
    second = run(again(), inputs_of(program, grad))
    assert first[0] == second[0]
    torch.testing.assert_close(first[1:], second[1:], rtol=0, atol=0)


def test_gradients_of_gradients_and_overlaps_go_to_the_graph_itself():
    x, w = (t.detach().requires_grad_() for t in inputs_of(trains, False))
    call, again = compile_and_store(lambda x, w: ((x**3 * w).sum(),), [x, w])
    call(x, w)[0].backward()
    (grad,) = torch.autograd.grad(again()(x, w)[0], x, create_graph=True)
    torch.testing.assert_close(torch.autograd.grad(grad.sum(), x)[0], 6 * x * w)
    _, again = compile_and_store(lambda x, y: (x.mul_(2) + y,), [torch.ones(4), torch.ones(4)])
    memory = torch.ones(6)
    torch.testing.assert_close(again()(memory[:4], memory[2:])[0], torch.tensor([4.0, 4.0, 3.0, 3.0]))


def test_without_the_function_overlaps_and_double_backwards_are_errors():
    graphs, plans = [], []

    def compiler(graph, examples):
        graphs.append(graph)
        return graph

    example = torch.ones(4, requires_grad=True)
    backend = aot_backend(compiler, on_plan=plans.append)
    backend(torch.fx.symbolic_trace(lambda x, y: (x.mul_(2) + y,)), [torch.ones(4), torch.ones(4)])
    memory = torch.ones(6)
    with pytest.raises(UnsupportedOperationError, match="pass copies"):
        bind(plans[0], graphs[0])(memory[:4], memory[2:])
    compiled = backend(torch.fx.symbolic_trace(lambda x: ((x**3).sum(),)), [example])
    compiled(example)[0].backward()
    (grad,) = torch.autograd.grad(bind(plans[1], graphs[1], lambda inputs: graphs[2](*inputs))(example), example)
    torch.testing.assert_close(grad, example.grad)
    with pytest.raises(DoubleBackwardError):
        run = bind(plans[1], graphs[1], lambda inputs: graphs[2](*inputs))
        torch.autograd.grad(run(example), example, create_graph=True)


@pytest.mark.parametrize(
    "value",
    [1, True, None, "a", 1.5, float("inf"), 2j, (1, [2]), torch.bfloat16, torch.device("cpu"), slice(1, None)]
    + [torch.channels_last, torch.ops.aten.view.default, {"a": (1,)}, {1: 2}, frozenset({3, 1}), torch.Size([2])],
    ids=str,
)
def test_values(value):
    assert plan_json.decode(json.loads(json.dumps(plan_json.encode(value)))) == value


@pytest.mark.parametrize("value", [object(), torch.ones(1), lambda: 0, torch.sin])
def test_what_has_no_form_is_refused(value):
    with pytest.raises(PlanError, match="cannot be stored"):
        plan_json.encode(value)


@pytest.mark.parametrize(
    "data",
    [{"op": "aten.nothing.default"}, {"op": "os.system"}, {"torch": "sin"}, {"record": "Popen", "fields": {}}]
    + [{"unknown": 1}, [1], {"op": "aten", "torch": "float32"}],
    ids=str,
)
def test_foreign_data_is_refused(data):
    with pytest.raises(PlanError):
        plan_json.decode(data)
    with pytest.raises(PlanError, match="not a run-time plan"):
        RuntimePlan.from_json({"inputs": data})
