"""The real OpenVINO, ONNX Runtime and TVM packages behind our capture and autograd; skipped where not installed."""

import copy
import threading
import warnings

import pytest
import torch
import triptych
from torch import nn
from triptych.errors import BackendFallbackError, BackendFallbackWarning, InvalidModeError, InvalidOptionError

MODULES = {"openvino": "openvino", "onnxrt": "onnxruntime", "tvm": "tvm"}


@pytest.fixture(params=MODULES)
def backend(request):
    pytest.importorskip(MODULES[request.param])
    if request.param == "onnxrt":
        pytest.importorskip("onnx")
    return request.param


@pytest.fixture
def quick(backend):
    """Engines that build a graph in less than a second."""
    if backend == "tvm":
        pytest.skip("builds slowly; the same code path is covered by the others")
    return backend


def network():
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5), nn.Softmax(-1))


def stages(compiled):
    return triptych.report(compiled).partners


def test_inference_of_a_network_with_batch_norm(backend):
    """The peer's default fails here (OpenVINO), or runs nothing in the engine."""
    model = network().eval()
    compiled = triptych.compile(model, backend=backend, fullgraph=True)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", BackendFallbackWarning)
        x = torch.randn(2, 3, 16, 16)
        for _ in range(2):
            torch.testing.assert_close(compiled(x), model(x))
    (stage,) = stages(compiled)
    assert stage.role == "inference" and stage.subgraphs == 1 and stage.executions == 2 and not stage.fallbacks
    assert f"{backend}, graph 0 inference" in str(triptych.report(compiled))


def test_new_sizes_and_weights(quick):
    model = network().eval()
    compiled = triptych.compile(model, backend=quick)
    with torch.no_grad():
        for batch in (2, 3, 5, 3, 1):
            x = torch.randn(batch, 3, 16, 16)
            torch.testing.assert_close(compiled(x), model(x))
        model[7].weight.mul_(3)  # weights are inputs: a change counts
        torch.testing.assert_close(compiled(x), model(x))
    assert all(stage.executions for stage in stages(compiled))


def test_training(backend):
    model, x = network(), torch.randn(4, 3, 8, 8)
    mine, reference = copy.deepcopy(model), copy.deepcopy(model)
    compiled = triptych.compile(mine, backend=backend, options={"fallback": "ignore"})
    for call, owner in ((compiled, mine), (reference, reference)):
        optimizer = torch.optim.SGD(owner.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            call(x).square().sum().backward()
            optimizer.step()
    torch.testing.assert_close(dict(mine.state_dict()), dict(reference.state_dict()))
    roles = {stage.role: stage for stage in stages(compiled)}
    assert roles["forward"].executions and roles["backward"].executions
    assert "aten.convolution_backward.default" in roles["backward"].fallbacks


def test_what_an_engine_cannot_take_is_reported(quick):
    def fn(x):
        return torch.special.zeta(x.exp() + 1.5, torch.full_like(x, 2.0)).sin() + x

    x = torch.rand(8)
    compiled = triptych.compile(fn, backend=quick)
    with pytest.warns(BackendFallbackWarning, match="aten.special_zeta.default x1"):
        torch.testing.assert_close(compiled(x), fn(x))
    (stage,) = stages(compiled)
    assert dict(stage.fallbacks) == {"aten.special_zeta.default": 1} and stage.subgraphs and stage.executions
    with pytest.raises(BackendFallbackError, match="special_zeta"):
        triptych.compile(fn, backend=quick, options={"fallback": "raise"})(x)


def test_mutation_aliasing_strides_and_random_numbers(quick):
    def fn(x, y):
        x.mul_(2)
        z = (x + y).t()
        return x, z, torch.rand_like(y) + z.t(), y[0]

    found = []
    for call in (triptych.compile(fn, backend=quick, options={"fallback": "ignore"}), fn):
        x, y = torch.ones(2, 3), torch.arange(6.0).reshape(2, 3)
        torch.manual_seed(0)
        out = call(x, y)
        assert out[0] is x and out[3].data_ptr() == y.data_ptr() and out[1].stride() == (1, 3)
        found.append([x, *out])
    torch.testing.assert_close(*found)


def test_an_input_that_is_a_result_stays_as_it_is(quick):
    def fn(x):
        return x.clone(), x.relu()

    x = torch.randn(4)
    before = x.clone()
    same, positive = triptych.compile(fn, backend=quick)(x)
    torch.testing.assert_close([x, same, positive], [before, before, before.relu()])
    same.add_(1)
    torch.testing.assert_close(x, before)


def test_indices_out_of_range_raise_as_in_eager(quick):
    table = torch.randn(4, 3)
    compiled = triptych.compile(
        lambda t, i: torch.nn.functional.embedding(i, t) + 1, backend=quick, options={"fallback": "ignore"}
    )
    good = torch.tensor([0, 3])
    torch.testing.assert_close(compiled(table, good), table[good] + 1)
    for wrong in ([0, 4], [0, -1]):
        with pytest.raises(IndexError):
            compiled(table, torch.tensor(wrong))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
def test_dtypes_are_right_or_run_in_torch(quick, dtype):
    x = torch.arange(-4, 4).to(dtype)
    fn = (lambda x: x.logical_not() | x) if dtype == torch.bool else (lambda x: (x * x + x).abs())
    compiled = triptych.compile(fn, backend=quick, options={"fallback": "ignore"})
    torch.testing.assert_close(compiled(x), fn(x))


def test_settings_of_two_callables_do_not_mix(quick):
    x = torch.randn(5)
    one = triptych.compile(lambda x: x.relu() + 1, backend=quick)
    two = triptych.compile(lambda x: x.relu() + 2, backend=quick, options={"fallback": "raise"})
    for _ in range(2):
        torch.testing.assert_close(two(x) - one(x), torch.ones(5))
    assert stages(one)[0].executions == stages(two)[0].executions == 2


def test_threads(quick):
    compiled = triptych.compile(lambda x: (x @ x).relu(), backend=quick)
    inputs = [torch.randn(16, 16) for _ in range(4)]
    failures = []

    def work(x):
        try:
            for _ in range(20):
                torch.testing.assert_close(compiled(x), (x @ x).relu())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(x,)) for x in inputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_wrong_options(backend):
    for options, text in (
        ({"no_such": 1}, "has no option 'no_such'"),
        ({"device": 3}, "must be str"),
        ({"device": "TOASTER"}, "TOASTER"),
        ({"fallback": "maybe"}, "maybe"),
    ):
        with pytest.raises(InvalidOptionError, match=text):
            triptych.compile(torch.sin, backend=backend, options=options)
    with pytest.raises(InvalidModeError, match="no modes"):
        triptych.compile(torch.sin, backend=backend, mode="max-autotune")


def test_options_of_openvino():
    pytest.importorskip("openvino")
    model, x = nn.Linear(64, 64), torch.randn(8, 64)
    with torch.no_grad():
        exact = triptych.compile(model, backend="openvino")
        torch.testing.assert_close(exact(x), model(x))
        options = {
            "config": {"INFERENCE_PRECISION_HINT": "bf16"},
            "disabled_ops": ["aten.t.default"],
            "fallback": "ignore",
        }
        rough = triptych.compile(model, backend="openvino", options=options)
        torch.testing.assert_close(rough(x), model(x), rtol=0.05, atol=0.05)


def test_options_of_onnxrt():
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    with pytest.raises(InvalidOptionError, match="CUDAExecutionProvider"):
        triptych.compile(torch.sin, backend="onnxrt", options={"device": "cuda"})
    options = {"providers": ["CPUExecutionProvider"], "threads": 1, "config": {"session.intra_op.allow_spinning": "0"}}
    x = torch.randn(4)
    torch.testing.assert_close(triptych.compile(torch.sin, backend="onnxrt", options=options)(x), x.sin())
