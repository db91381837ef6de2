"""Whole graphs through lowering and scheduling to Triton code, interpreted, against eager."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F
import triptych_inductor
from torch.fx.experimental.proxy_tensor import make_fx
from triptych_inductor import backends
from triptych_inductor.codegen.triton import columns as columns_module
from triptych_inductor.codegen.triton.devices import EXAMPLES
from triptych_inductor.codegen.triton.generate import generate
from triptych_inductor.codegen.triton.interpret import run_interpreted
from triptych_inductor.ir import alignment
from triptych_inductor.lowering import products


class InterpretedTriton:
    """A code generator for the table of devices: Triton text, run by the interpreter."""

    made = []

    def __init__(self, kernels, options):
        self.made.append(self)
        self.programs = {k.name: generate(k, EXAMPLES["h200"]) for k in kernels}

    def result(self):
        return {name: self.call(program) for name, program in self.programs.items()}

    def binaries(self):
        return []

    @staticmethod
    def call(program):
        count = len(program.buffers)
        return lambda *args: run_interpreted(program, args[:count], args[count:])


@pytest.fixture(autouse=True)
def triton_for_cpu(monkeypatch):
    monkeypatch.setattr(InterpretedTriton, "made", [])
    own = dataclasses.replace(backends.CODE_GENERATORS["cpu"], build=InterpretedTriton, pairs=True)
    monkeypatch.setitem(backends.CODE_GENERATORS, "cpu", own)


def check(function, *inputs, dynamic=False, fallbacks=0, **tolerance):
    """Compile, run, compare every output with eager."""
    gm = make_fx(function, tracing_mode="symbolic" if dynamic else "fake")(*inputs)
    placeholders = [n.meta["val"] for n in gm.graph.nodes if n.op == "placeholder"]
    compiled = triptych_inductor.compile(gm, placeholders)
    assert sum(compiled.fallbacks.values()) <= fallbacks, compiled.fallbacks
    got = compiled(*[t.clone() if isinstance(t, torch.Tensor) else t for t in inputs])
    want = function(*inputs)
    for mine, theirs in zip(_flat(got), _flat(want), strict=True):
        torch.testing.assert_close(mine, theirs, equal_nan=True, **tolerance)
    return compiled


def _flat(value):
    return list(value) if isinstance(value, (tuple, list)) else [value]


def grads(function, *inputs):
    """A function of inputs and of a gradient: (output, gradients of the inputs)."""

    def run(*args):
        *given, grad = args
        leaves = [t.detach().requires_grad_() if t.is_floating_point() else t for t in given]
        out = function(*leaves)
        made = torch.autograd.grad(out, [t for t in leaves if t.requires_grad], grad)
        return (out.detach(), *made)

    return run


X = torch.randn(6, 20)
CASES = {
    "gelu chain": (lambda x, y: F.gelu(x + y) * 2 + x, X, torch.randn(20)),
    "softmax": (lambda x: F.softmax(x, -1), X),
    "log softmax of the first axis": (lambda x: F.log_softmax(x, 0), X),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (20,), w, b), X, torch.randn(20), torch.randn(20)),
    "rms norm": (lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w, X, torch.randn(20)),
    "transpose": (lambda x: (x @ x.t()) + 0 * x.sum() + (x[:, :6] + x[:, :6].t()), X),
    "mirrored": (lambda x: x + x.t() * 2, torch.randn(100, 100)),
    "permute": (lambda x: x.permute(0, 2, 3, 1).contiguous() * 2, torch.randn(2, 5, 3, 4)),
    "sums": (lambda x: (x.sum(0), x.sum(1), x.sum(), x.mean((0, 1))), X),
    "variance": (lambda x: torch.var_mean(x, dim=1, correction=1), X),
    "argmax": (lambda x: (x.max(1).values, x.argmax(1), x.argmax()), X),
    "any all": (lambda x: ((x > 1).any(1), (x > -3).all()), X),
    "embedding": (lambda i, w: F.embedding(i, w) + 1, torch.tensor([[1, 2, 0], [4, 4, 3]]), torch.randn(5, 7)),
    "gather": (lambda x, i: x.gather(1, i), X, torch.randint(0, 20, (6, 3))),
    "index": (lambda x, i: x[i] * 2, X, torch.tensor([0, -1, 3, 3])),
    "cat": (lambda x, y: torch.cat([x, y * 2, x], 0).relu(), X, torch.randn(3, 20)),
    "pad": (lambda x: F.pad(x, (1, 2, 0, 1), value=3.0) + 1, X),
    "where": (lambda x: torch.where(x > 0, x, x * 0.1), X),
    "integers": (lambda a, b: (a // b, a % b, a << 1, a >> 2, a * b), torch.arange(-10, 10), torch.arange(1, 21)),
    "bfloat16": (lambda x: F.gelu(x.float() + 1).to(torch.bfloat16), X.bfloat16()),
    "max pool": (lambda x: F.max_pool2d(x, 2), torch.randn(1, 2, 6, 6)),
    "mean pool": (lambda x: F.avg_pool2d(x, 2), torch.randn(1, 2, 6, 6)),
    "batch norm": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        torch.randn(4, 3, 5, 5), torch.randn(3), torch.randn(3)
    ),
    "cross entropy": (lambda x, t: F.cross_entropy(x, t), X, torch.randint(0, 20, (6,))),
    "strides": (lambda x: x.sin() + 1, torch.randn(20, 6).t()),
}  # fmt: skip


@pytest.mark.parametrize("name", list(CASES))
def test_inference(name):
    function, *inputs = CASES[name]
    check(function, *inputs, fallbacks=1 if "pool" in name else 0)


BACKWARD = {
    "gelu": (lambda x: F.gelu(x), X),
    "softmax": (lambda x: F.softmax(x, -1), X),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (20,), w, b), X, torch.randn(20), torch.randn(20)),
    "bias": (lambda x, b: torch.tanh(x + b), X, torch.randn(20)),
    "embedding": (lambda w: F.embedding(torch.tensor([[1, 2, 0], [4, 4, 3]]), w), torch.randn(5, 7)),
    "max pool": (lambda x: F.max_pool2d(x, 2), torch.randn(1, 2, 6, 6)),
    "batch norm": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        torch.randn(4, 3, 5, 5), torch.randn(3), torch.randn(3)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(BACKWARD))
def test_backward(name):
    function, *inputs = BACKWARD[name]
    out = function(*inputs)
    check(grads(function), *inputs, torch.randn_like(out), fallbacks={"max pool": 2, "embedding": 1}.get(name, 0))


def check_column_sums(rows, columns):
    """Layer norm's backward reads its two inputs once: the gradients of weight and bias come from the row kernel."""
    backward = torch.ops.aten.native_layer_norm_backward
    x, w, b = torch.randn(rows, columns), torch.randn(columns), torch.randn(columns)
    _, mean, rstd = torch.native_layer_norm(x, (columns,), w, b, 1e-5)
    run = lambda dy, x, mean, rstd, w, b: backward(dy, x, [columns], mean, rstd, w, b, [True, True, True])  # noqa: E731
    compiled = check(run, torch.randn(rows, columns), x, mean, rstd, w, b, rtol=1e-4, atol=1e-4)
    assert len(compiled.kernels) == 1


@pytest.mark.parametrize("rows,columns", [(640, 40), (530, 96)])
def test_column_sums_run_with_rows(rows, columns):
    check_column_sums(rows, columns)


@pytest.mark.parametrize("depth,stages", [(8, 3)])
def test_layouts_of_row_walks(monkeypatch, depth, stages):
    """Several rows of a tile are added up in a thread where each has all of a column; loads may run ahead."""
    plain = columns_module.row_layout

    def chosen(kernel, facts):
        layout = plain(kernel, facts)
        return dataclasses.replace(
            layout, blocks={"x": depth, "r": 512}, num_warps=2, num_stages=stages, row_programs=7
        )

    monkeypatch.setattr(columns_module, "row_layout", chosen)
    check_column_sums(520, 300)


def test_column_sums_of_what_the_row_kernel_makes():
    """Forward and backward in one graph: the sums over rows need mean and deviation that the row kernel stores."""
    inputs = [torch.randn(512, 48), torch.randn(48), torch.randn(48)]
    check(grads(lambda x, w, b: F.layer_norm(x, (48,), w, b)), *inputs, torch.randn(512, 48), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["gelu chain", "softmax", "layer norm", "variance", "permute", "cat"])
def test_symbolic_sizes(name):
    function, *inputs = CASES[name]
    check(function, *inputs, dynamic=True)


def test_index_out_of_range_is_found():
    function, x, index = CASES["gather"]
    compiled = check(function, x, index)
    with pytest.raises(Exception, match="index out of range"):
        compiled(x, torch.full((6, 3), 20))


def test_scans_from_the_end():
    """One kernel, its rows walked as those of any scan are."""
    torch.manual_seed(0)
    reverse = lambda x: (x * 2).flip(1).cumsum(1).flip(1)
    x = torch.randn(6, 700)
    compiled = check(reverse, x, rtol=1e-4, atol=1e-4)
    (program,) = InterpretedTriton.made[-1].programs.values()
    assert len(compiled.kernels) == 1 and program.notes[0].startswith("persistent [x:1 of 6 x r:1024 of 700]")
    check(reverse, torch.randn(2, 9000), rtol=1e-4, atol=1e-4)
    check(lambda x: x.flip(0).cumprod(0).flip(0), torch.rand(40, 30) + 0.5, rtol=1e-5, atol=1e-5)
    check(grads(lambda x: x.cumsum(1).tanh(), x), x, torch.randn_like(x), rtol=1e-4, atol=1e-4)
    x, gradient = torch.randn(6, 20), torch.randn(6, 20)
    check(grads(lambda x: x.cumprod(1), x), x, gradient, rtol=1e-5, atol=1e-5)
    check(grads(lambda x: x.logcumsumexp(1), x), x, gradient, rtol=1e-5, atol=1e-5)
    check(grads(lambda x: x.cummax(1).values, x), x, gradient, fallbacks=1)


@pytest.mark.parametrize("bias", [None, (37,), (1, 37), (40, 37)])
def test_pieces_of_odd_products_are_moved_within_their_result(monkeypatch, bias):
    monkeypatch.setitem(alignment.ALIGNMENT, "cpu", 16)
    monkeypatch.setattr(alignment, "LEAST_WORK", 1)
    monkeypatch.setattr(products, "LEAST_ROWS", 32)
    monkeypatch.setattr(products, "LAST_ROWS", 8)
    x, w = torch.randn(40, 8).bfloat16(), torch.randn(8, 37).bfloat16()
    if bias is None:
        compiled = check(torch.mm, x, w, rtol=2e-2, atol=2e-2)
    else:
        b = torch.randn(bias).bfloat16()
        compiled = check(lambda x, w, b: torch.addmm(b, x, w), x, w, b, rtol=4e-2, atol=4e-2)
    assert compiled.source.count("mm(") > 1
