"""Freezing: a graph's own tensors are constants; what follows from them is computed while compiling."""

import pytest
import torch
import torch.nn.functional as F
import triptych_inductor
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from triptych_inductor import ArtifactError, InductorError
from triptych_inductor.freezing import packing
from triptych_inductor.lowering import externs

aten = torch.ops.aten
DTYPES = [torch.float32, torch.float64, torch.bfloat16]
# Sums of another order, relative to the largest element: libraries differ from processor to processor.
LOOSE = {torch.float32: 5e-6, torch.float64: 1e-12, torch.bfloat16: 0.02, torch.float16: 0.02}
HALF = pytest.param(
    torch.bfloat16,
    marks=pytest.mark.skipif(not packing.packs(torch.bfloat16), reason="oneDNN has no bfloat16 on this processor"),
)


def seeded(*modules):
    """The modules with weights and statistics that differ from their defaults, in evaluation."""
    torch.manual_seed(7)
    for module in modules:
        for owned in module.modules():
            if getattr(owned, "running_mean", None) is not None:
                owned.running_mean.uniform_(-1, 1)
                owned.running_var.uniform_(0.5, 2)
        for parameter in module.parameters():
            parameter.data.add_(torch.rand_like(parameter) * 0.2)
        module.eval()
    return modules[0] if len(modules) == 1 else modules


def frozen(module, *inputs, dynamic=False, **options):
    """The compiled graph, and what eager gives."""
    mode = "symbolic" if dynamic else "real"
    with torch.no_grad():
        gm = make_fx(module, tracing_mode=mode, _allow_non_fake_inputs=True)(*inputs)
        compiled = triptych_inductor.compile(gm, inputs, options={"freezing": True, **options})
        return compiled, module(*inputs)


def assert_close(actual, expected, loose):
    """Up to `loose` times the largest element, and of the same type and strides."""
    for got, want in zip(*(v if isinstance(v, tuple) else (v,) for v in (actual, expected)), strict=True):
        finite = want[want.isfinite()] if want.is_floating_point() else want
        atol = loose * max(1.0, float(finite.abs().max())) if finite.numel() else 0.0
        torch.testing.assert_close(got, want, check_stride=True, rtol=loose, atol=atol)


def check(module, *inputs, **options):
    """Compiled and eager agree; gives the counts of the passes."""
    compiled, expected = frozen(module, *inputs, **options)
    assert_close(compiled(*inputs), expected, LOOSE.get(inputs[0].dtype, 5e-6))
    return compiled.provenance["frozen"], compiled


IMAGE = (2, 6, 9, 10)


def block(*modules):
    return nn.Sequential(*modules)


def above(module, level=16.0):
    """The module with results that are far from zero."""
    module.bias.data.fill_(level)
    return module


class After(nn.Module):
    """A module, then a function of its result and of further tensors."""

    def __init__(self, module, fn, *tensors):
        super().__init__()
        self.module, self.fn = module, fn
        for k, tensor in enumerate(tensors):
            self.register_buffer(f"t{k}", tensor)

    def forward(self, x):
        return self.fn(self.module(x), *self.buffers(recurse=False))


AFFINE = {
    "conv2d, batch norm": (lambda: block(nn.Conv2d(6, 8, 3), nn.BatchNorm2d(8)), IMAGE, 1),
    "no bias": (lambda: block(nn.Conv2d(6, 8, 3, bias=False), nn.BatchNorm2d(8)), IMAGE, 1),
    "no affine": (lambda: block(nn.Conv2d(6, 8, 3), nn.BatchNorm2d(8, affine=False)), IMAGE, 1),
    "groups": (lambda: block(nn.Conv2d(6, 12, 3, groups=3, stride=2), nn.BatchNorm2d(12)), IMAGE, 1),
    "depthwise": (lambda: block(nn.Conv2d(6, 6, 3, groups=6, padding=1), nn.BatchNorm2d(6)), IMAGE, 1),
    "transposed": (lambda: block(nn.ConvTranspose2d(6, 8, 3), nn.BatchNorm2d(8)), IMAGE, 1),
    "conv1d": (lambda: block(nn.Conv1d(6, 8, 3), nn.BatchNorm1d(8)), (2, 6, 11), 1),
    "conv3d": (lambda: block(nn.Conv3d(2, 4, 3), nn.BatchNorm3d(4)), (1, 2, 5, 6, 7), 1),
    "two in a row": (lambda: block(nn.Conv2d(6, 8, 3), nn.BatchNorm2d(8), nn.BatchNorm2d(8)), IMAGE, 2),
    "linear": (lambda: block(nn.Linear(6, 8), nn.BatchNorm1d(8)), (5, 6), 1),
    "linear without bias": (lambda: block(nn.Linear(6, 8, bias=False), nn.BatchNorm1d(8)), (5, 6), 1),
    "conv times": (lambda: After(nn.Conv2d(6, 8, 3), lambda y, t: y * t, torch.rand(8, 1, 1)), IMAGE, 1),
    "times conv": (lambda: After(nn.Conv2d(6, 8, 3), lambda y, t: t * y, torch.rand(1, 8, 1, 1)), IMAGE, 1),
    "conv minus": (lambda: After(nn.Conv2d(6, 8, 3), lambda y, t: y - t, torch.rand(8, 1, 1)), IMAGE, 1),
    "minus conv": (lambda: After(nn.Conv2d(6, 8, 3), lambda y, t: t - y, torch.rand(8, 1, 1)), IMAGE, 1),
    "conv over": (lambda: After(nn.Conv2d(6, 8, 3), lambda y, t: y / t, torch.rand(8, 1, 1) + 1), IMAGE, 1),
    "numbers": (lambda: After(nn.Conv2d(6, 8, 3), lambda y: (y * 2 + 1) / 4), IMAGE, 3),
    "one element": (lambda: After(nn.Conv2d(6, 8, 3), lambda y, t: y + t, torch.rand(1)), IMAGE, 1),
    "linear, behind a view": (lambda: After(nn.Linear(6, 8), lambda y, t: y * t + 1, torch.rand(8)), (2, 5, 6), 2),
    "layer scale": (lambda: After(nn.Linear(6, 8, bias=False), lambda y, t: y + t, torch.rand(8)), (2, 5, 6), 1),
}
LEFT_ALONE = {
    "a constant over": (lambda: After(above(nn.Conv2d(6, 8, 3)), lambda y, t: t / y, torch.rand(8, 1, 1)), IMAGE),
    "over zero": (lambda: After(nn.Conv2d(6, 8, 3), lambda y, t: y / t, torch.zeros(8, 1, 1)), IMAGE),
    "of each place": (lambda: After(nn.Conv2d(6, 8, 3), lambda y, t: y * t, torch.rand(7, 8)), IMAGE),
    "of the last axis": (lambda: After(nn.Conv2d(6, 8, 3), lambda y, t: y * t, torch.rand(8)), IMAGE),
    "grows": (lambda: After(nn.Linear(6, 1), lambda y, t: y * t, torch.rand(8)), (5, 6)),
    "a wider type": (lambda: After(nn.Conv2d(6, 8, 3), lambda y, t: y * t, torch.rand(8, 1, 1).double()), IMAGE),
    "read twice": (lambda: After(nn.Conv2d(6, 8, 3), lambda y, t: (y * t, y), torch.rand(8, 1, 1)), IMAGE),
    "its square": (lambda: After(nn.Conv2d(6, 8, 3), lambda y: y * y), IMAGE),
    "alpha": (lambda: After(nn.Conv2d(6, 8, 3), lambda y, t: torch.add(y, t, alpha=2), torch.rand(8, 1, 1)), IMAGE),
    "grouped transposed": (lambda: block(nn.ConvTranspose2d(6, 8, 3, groups=2), nn.BatchNorm2d(8)), IMAGE),
    "rows, behind a view": (lambda: After(nn.Linear(6, 8), lambda y, t: y * t, torch.rand(5, 1)), (2, 5, 6)),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", AFFINE)
def test_affine_maps_are_folded(name, dtype):
    make, size, count = AFFINE[name]
    module = seeded(make()).to(dtype)
    counts, compiled = check(module, torch.randn(size, dtype=dtype))
    assert counts["fold_affine"] == count
    assert "batch_norm" not in compiled.source


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_what_is_no_affine_map_of_channels_is_left_alone(name):
    make, size = LEFT_ALONE[name]
    counts, _ = check(seeded(make()), torch.randn(size))
    assert counts["fold_affine"] == 0


def test_batch_norm_in_training_is_left_alone():
    module = seeded(block(nn.Conv2d(6, 8, 3), nn.BatchNorm2d(8, track_running_stats=False)))
    counts, _ = check(module, torch.randn(IMAGE))
    assert counts["fold_affine"] == 0


def test_weights_that_a_half_type_cannot_hold_are_left_alone():
    module = After(nn.Conv2d(6, 8, 3), lambda y, t: y * t, torch.full((8, 1, 1), 6e4)).half().eval()
    module.module.weight.data.fill_(2.0)
    module.module.bias.data.zero_()
    counts, _ = check(module, torch.full(IMAGE, 2.0**-10, dtype=torch.float16))
    assert counts["fold_affine"] == 0


# -- constants ---------------------------------------------------------------------------------------------------------
class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(32, 8)
        self.register_buffer("numbers", torch.arange(32).unsqueeze(0))

    def forward(self, x):
        place = self.numbers[:, : x.shape[1]]
        return x + self.table(place) * self.table.weight.sum().sigmoid()


def test_what_is_computed_of_constants_alone_is_a_constant():
    counts, compiled = check(seeded(Positions()), torch.randn(2, 5, 8))
    assert counts["constants_left"] == 1 and counts["fold_constants"] > 3
    assert len(compiled.kernels) == 1


def test_large_results_of_small_constants_are_computed_at_each_call():
    module = After(nn.Identity(), lambda x, t: x + (t[:, None] <= t[None, :]), torch.arange(1100.0))
    counts, compiled = check(module, torch.randn(1100, 1100))
    assert counts["fold_constants"] == 2  # the views
    assert len({c.untyped_storage().data_ptr() for c in compiled._program.constants.values()}) == 1


def test_results_that_leave_the_graph_are_new_memory_at_each_call():
    module = After(nn.Identity(), lambda x, t: (x + 1, t * 2, t), torch.arange(4.0))
    compiled, expected = frozen(module, torch.randn(3))
    first, second = compiled(torch.zeros(3)), compiled(torch.zeros(3))
    torch.testing.assert_close(first[1], expected[1])
    assert first[1].data_ptr() != second[1].data_ptr()


def test_random_numbers_are_drawn_at_each_call():
    module = After(nn.Identity(), lambda x, t: x + torch.bernoulli(t), torch.full((64,), 0.5))
    compiled, _ = frozen(module, torch.zeros(64))
    assert not torch.equal(compiled(torch.zeros(64)), compiled(torch.zeros(64)))


@pytest.mark.parametrize("excluded", [(), ("pack_weights",), ("fold_constants", "pack_weights")])
def test_changing_a_tensor_afterwards_has_no_effect(excluded):
    module = seeded(block(nn.Conv2d(6, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(448, 3)))
    x = torch.randn(IMAGE)
    compiled, expected = frozen(module, x, exclude_passes=excluded)
    with torch.no_grad():
        for tensor in [*module.parameters(), *module.buffers()]:
            tensor.zero_()
    torch.testing.assert_close(compiled(x), expected)


def test_without_the_option_a_change_has_an_effect():
    module = seeded(nn.Linear(3, 4))
    x = torch.randn(2, 3)
    compiled, _ = frozen(module, x, freezing=False)
    module.weight.data.zero_()
    torch.testing.assert_close(compiled(x), module(x))


def test_discarded_parameters_are_not_copied():
    module = After(nn.Identity(), lambda x, t: x + t, torch.randn(4))
    for discard in (False, True):
        compiled, _ = frozen(module, torch.zeros(4), freezing_discard_parameters=discard)
        (constant,) = compiled._program.constants.values()
        assert (constant.data_ptr() == module.t0.data_ptr()) is discard


def test_tied_constants_are_copied_once():
    module = seeded(nn.Embedding(6, 4))
    tied = After(module, lambda y, t: F.linear(y, t))
    tied.forward = lambda i: (F.linear(module(i), module.weight), module(i))
    compiled, _ = frozen(tied, torch.tensor([1, 2]), exclude_passes=("pack_weights",))
    constants = list(compiled._program.constants.values())
    assert len({c.untyped_storage().data_ptr() for c in constants}) == 1


# -- products ----------------------------------------------------------------------------------------------------------
class Projections(nn.Module):
    def __init__(self, biases=(True, True, True)):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(8, 8, bias=b) for b in biases)

    def forward(self, x):
        heads = [layer(x).view(*x.shape[:2], 2, 4).transpose(1, 2) for layer in (self.q, self.k, self.v)]
        return F.scaled_dot_product_attention(*heads)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("biases", "count"), [((True, True, True), 2), ((False,) * 3, 2), ((True, False, True), 1)], ids=str
)
def test_products_of_one_matrix_are_one(biases, count, dtype):
    module = seeded(Projections(biases)).to(dtype)
    counts, compiled = check(module, torch.randn(2, 5, 8, dtype=dtype))
    assert counts["concatenate_products"] == count
    calls = [line for line in compiled.source.splitlines() if "mm(" in line or "= _linear_pointwise(" in line]
    assert len(calls) == 3 - count


@pytest.mark.parametrize("layout", ["never", "always"])
def test_weights_are_laid_out_as_gpus_want_them(monkeypatch, layout):
    """No kernel lays a constant weight out at a call."""
    monkeypatch.setattr(externs, "OWN_LAYOUT", frozenset({"cpu"}))
    first, second = seeded(nn.Conv2d(6, 5, 3), nn.Conv2d(5, 4, 2))
    module = block(first, nn.ReLU(), second, nn.BatchNorm2d(4).eval(), nn.ReLU())
    counts, compiled = check(module, torch.randn(IMAGE), channels_last=layout)
    assert counts["pack_weights"] == (2 if layout == "always" else 0)
    text = compiled.source[compiled.source.index("def call") :]
    calls = [line for line in text.splitlines() if "convolution_" in line]
    assert len(calls) == 2 and all(", constant" in line for line in calls)
    assert len(compiled.kernels) == (3 if layout == "always" else 2)


def test_products_that_leave_the_graph_have_memory_of_their_own():
    module = seeded(Projections())
    module.forward = lambda x: (module.q(x), module.k(x))
    counts, _ = check(module, torch.randn(5, 8))
    assert counts["concatenate_products"] == 0


def test_large_products_stay_apart():
    counts, _ = check(seeded(Projections()), torch.randn(3, 100, 8))
    assert counts["concatenate_products"] == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, HALF], ids=str)
def test_no_transposed_or_unpacked_weight_is_left(dtype):
    module = seeded(block(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 5, bias=False))).to(dtype)
    counts, compiled = check(module, torch.randn(4, 6, dtype=dtype))
    assert counts["pack_weights"] == 2
    assert ".t()" not in compiled.source and "window_" not in compiled.source
    assert ("_linear_pointwise" in compiled.source) == (dtype is torch.bfloat16)


def test_a_type_that_the_library_does_not_have_is_left_alone(monkeypatch):
    monkeypatch.setitem(packing.CHECKS, torch.bfloat16, "_is_mkldnn_fp16_supported")
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_fp16_supported", lambda: False, raising=False)
    module = seeded(After(block(nn.Conv2d(6, 8, 3), nn.BatchNorm2d(8)), F.relu)).to(torch.bfloat16)
    counts, _ = check(module, torch.randn(IMAGE, dtype=torch.bfloat16))
    assert counts["pack_weights"] == counts["fuse_post_operations"] == 0


def test_large_float32_weights_are_packed():
    module = seeded(nn.Linear(1024, 2048))
    _, compiled = check(module, torch.randn(8, 1024))
    assert "_linear_pointwise" in compiled.source
    _, compiled = check(module, torch.randn(1, 1024))
    assert "_linear_pointwise" not in compiled.source


# -- what the library does as it writes --------------------------------------------------------------------------------
ACTIVATIONS = {
    "relu": F.relu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "silu": F.silu,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "gelu": F.gelu,
    "gelu tanh": lambda y: F.gelu(y, approximate="tanh"),
    "relu6": F.relu6,
    "hardtanh": lambda y: F.hardtanh(y, -0.3, 0.7),
    "leaky": lambda y: F.leaky_relu(y, 0.2),
}


@pytest.mark.parametrize("dtype", [torch.float32, HALF], ids=str)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_part_of_the_convolution(name, dtype):
    module = seeded(After(block(nn.Conv2d(6, 8, 3), nn.BatchNorm2d(8)), ACTIVATIONS[name])).to(dtype)
    counts, compiled = check(module, torch.randn(IMAGE, dtype=dtype))
    assert counts["fuse_post_operations"] == 1
    assert len(compiled.kernels) <= 2  # the layouts of what comes in and goes out


@pytest.mark.parametrize("dtype", [HALF], ids=str)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_part_of_the_product(name, dtype):
    module = seeded(After(nn.Linear(6, 8), ACTIVATIONS[name])).to(dtype)
    counts, compiled = check(module, torch.randn(2, 3, 6, dtype=dtype))
    assert counts["fuse_post_operations"] == 1 and not compiled.kernels


@pytest.mark.parametrize("dtype", [torch.float32, HALF], ids=str)
@pytest.mark.parametrize(
    ("options", "packed"),
    [({}, 1), ({"stride": 2, "padding": 1, "output_padding": 1}, 1), ({"dilation": 2}, 1), ({"groups": 2}, 0)],
    ids=str,
)
def test_transposed_convolutions(options, packed, dtype):
    module = seeded(block(nn.ConvTranspose2d(6, 8, 3, **options), nn.ReLU())).to(dtype)
    counts, compiled = check(module, torch.randn(IMAGE, dtype=dtype))
    assert counts["pack_weights"] == counts["fuse_post_operations"] == packed
    assert ("_convolution_transpose_pointwise(" in compiled.source) == bool(packed)


class Residual(nn.Module):
    def __init__(self, activation=F.relu):
        super().__init__()
        self.a, self.b = nn.Conv2d(6, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1)
        self.norm = nn.BatchNorm2d(6)
        self.activation = activation

    def forward(self, x):
        x = x * 2
        return self.activation(x + self.norm(self.b(F.relu(self.a(x)))))


@pytest.mark.parametrize("dtype", [torch.float32, HALF], ids=str)
@pytest.mark.parametrize(("activation", "count"), [(F.relu, 3), (torch.tanh, 2), (lambda y: y, 2)])
def test_sums_are_part_of_the_convolution(activation, count, dtype):
    module = seeded(Residual(activation)).to(dtype)
    counts, compiled = check(module, torch.randn(2, 6, 5, 7, dtype=dtype))
    assert counts["fuse_post_operations"] == count
    assert "'add', None" in compiled.source


def test_a_sum_that_broadcasts_is_left_to_kernels():
    module = seeded(Residual())
    module.forward = lambda x: module.a(x) + x.mean((2, 3), keepdim=True)
    counts, _ = check(module, torch.randn(2, 6, 5, 7))
    assert counts["fuse_post_operations"] == 0


@pytest.mark.parametrize("dtype", [HALF], ids=str)
def test_activations_whose_result_is_read_by_loops_are_part_of_these(dtype):
    module = seeded(Residual()).to(dtype)
    x = torch.randn(2, 6, 5, 7, dtype=dtype)
    for activation, count in ((F.silu, 0), (F.relu, 1)):
        module.forward = lambda x, activation=activation: activation(module.a(x)) * x
        counts, compiled = check(module, x)
        assert counts["fuse_post_operations"] == count


def test_an_activation_of_something_read_twice_is_left_to_kernels():
    module = seeded(Residual())
    module.forward = lambda x: (lambda y: F.relu(y) * y)(module.a(x))
    counts, _ = check(module, torch.randn(2, 6, 5, 7))
    assert counts["fuse_post_operations"] == 0


@pytest.mark.parametrize("size", [(1, 1, 5, 5), (2, 1, 1, 1), (1, 6, 1, 1)], ids=str)
def test_images_whose_layout_is_in_doubt(size):
    module = seeded(block(nn.Conv2d(size[1], 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()))
    check(module, torch.randn(size))


# -- symbolic sizes, passes, artifacts ---------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_symbolic_sizes(dtype):
    net = block(
        nn.Conv2d(6, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)
    )
    module = seeded(net).to(dtype)
    compiled, _ = frozen(module, torch.randn(IMAGE, dtype=dtype), dynamic=True)
    with torch.no_grad():
        for size in (IMAGE, (3, 6, 12, 11)):
            x = torch.randn(size, dtype=dtype)
            loose = {"rtol": 0.05, "atol": 0.05} if dtype is torch.bfloat16 else {}
            torch.testing.assert_close(compiled(x), module(x), **loose)
    assert compiled.provenance["frozen"]["fold_affine"] == 1


def test_passes_can_be_left_out():
    module = seeded(block(nn.Conv2d(6, 8, 3), nn.BatchNorm2d(8), nn.ReLU()))
    x = torch.randn(IMAGE)
    everything = triptych_inductor.compile(make_fx(module)(x), [x], options={"freezing": True}).provenance["frozen"]
    for name in ("fold_affine", "pack_weights", "fuse_post_operations"):
        counts, _ = check(module, x, exclude_passes=(name,))
        assert everything[name] and name not in counts


def test_placeholders_become_constants():
    linear = seeded(nn.Linear(6, 8))
    gm = make_fx(lambda w, x, b: F.linear(x, w, b))(linear.weight, torch.randn(3, 6), linear.bias)
    names = [n.name for n in gm.graph.nodes if n.op == "placeholder"]
    made = triptych_inductor.freeze(gm, {names[0]: linear.weight, names[2]: linear.bias})
    assert [n.name for n in made.graph.nodes if n.op == "placeholder"] == [names[1]]
    x = torch.randn(3, 6)
    torch.testing.assert_close(triptych_inductor.compile(made, [x], options={"freezing": True})(x), linear(x).detach())
    assert len([n for n in gm.graph.nodes if n.op == "placeholder"]) == 3
    with pytest.raises(InductorError, match="no placeholder 'nonsense'"):
        triptych_inductor.freeze(gm, {"nonsense": linear.weight})


# -- on disk -----------------------------------------------------------------------------------------------------------
def network(width=64, factor=1.0):
    torch.manual_seed(int(factor * 10))
    made = block(nn.Conv2d(6, width, 3), nn.BatchNorm2d(width), nn.ReLU(), nn.Flatten(), nn.Linear(width * 56, 96))
    for parameter in made.parameters():
        parameter.data.mul_(factor)
    return seeded(made)


def test_code_is_kept_and_weights_are_not(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIPTYCH_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRIPTYCH_GRAPH_CACHE", "1")
    x = torch.randn(IMAGE)
    found = [check(module, x)[1] for module in (network(), network(), network(factor=2.0))]
    assert [graph.from_cache for graph in found] == [False, True, True]
    assert found[0].source == found[1].source and found[0].provenance["frozen"] == found[1].provenance["frozen"]
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 64 * 56 * 96 * 4
    wider, _ = frozen(network(width=48), x)
    other, expected = frozen(network(), x, exclude_passes=("pack_weights",))
    assert not wider.from_cache and not other.from_cache
    again, _ = frozen(network(), x, exclude_passes=("pack_weights",))
    assert again.from_cache
    for graph in (other, again, type(again).from_bytes(again.to_bytes())):
        assert_close(graph(x), expected, LOOSE[torch.float32])


def test_a_record_needs_its_weights(tmp_path, monkeypatch):
    compiled, expected = frozen(nn.Linear(4, 4), torch.ones(1, 4), exclude_passes=("pack_weights",))
    bound = {name: position for position, name in enumerate(compiled.constants)}
    data = compiled.to_bytes(bound)
    torch.testing.assert_close(
        type(compiled).from_bytes(data, list(compiled.constants.values()))(torch.ones(1, 4)), expected
    )
    with pytest.raises(ArtifactError, match="without its constants"):
        type(compiled).from_bytes(data)


def test_artifacts_of_frozen_graphs(tmp_path):
    module = seeded(block(nn.Conv2d(6, 8, 3), nn.BatchNorm2d(8), nn.ReLU()))
    x = torch.randn(IMAGE)
    with torch.no_grad():
        expected = module(x)
        gm = make_fx(module)(x)
    triptych_inductor.aot_compile(gm, [x], tmp_path / "a", options={"freezing": True})
    torch.testing.assert_close(triptych_inductor.load(tmp_path / "a")(x), expected)
    compiled = triptych_inductor.compile(gm, [x], options={"freezing": True})
    with pytest.raises(ArtifactError, match="pack_weights"):
        compiled.to_bytes()
