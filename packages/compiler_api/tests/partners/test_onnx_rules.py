"""Rules from ATen operators to ONNX, each against torch; skipped without onnx and onnxruntime."""

import functools

import pytest
import torch

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import torch.nn.functional as F  # noqa: E402
import triptych  # noqa: E402
from triptych.partners.onnx import UnsupportedError, convert  # noqa: E402

X = torch.linspace(-3, 3, 24).reshape(2, 3, 4)
IMAGE = torch.linspace(-1, 1, 2 * 4 * 7 * 7).reshape(2, 4, 7, 7)
CASES = {
    "unary": lambda: [
        f(X) for f in (torch.sigmoid, torch.erf, torch.round, torch.rsqrt, torch.isnan, F.silu, F.gelu, F.leaky_relu)
    ],
    "tanh gelu": lambda: F.gelu(X, approximate="tanh"),
    "integers to floats": lambda: torch.sqrt(torch.arange(5)),
    "clamps": lambda: [X.clamp(-1, 1), X.clamp(min=0.5), torch.arange(5).clamp(max=2)],
    "arithmetic": lambda: [
        X + 2,
        2 - X,
        torch.add(X, X, alpha=3),
        X / 4,
        torch.arange(6) / 4,
        X**2,
        X.abs() ** 1.5,
        2**X,
    ],
    "promotion": lambda: [X + torch.arange(4), torch.arange(4) * 2.5, torch.arange(4) + True],
    "comparisons": lambda: [X > 0, X == X, X != 0.5, torch.arange(4) <= 2, torch.where(X > 0, X, -1.0)],
    "logic": lambda: [
        (X > 0) & (X < 2),
        ~(X > 0),
        torch.logical_xor(X, X > 1),
        torch.arange(8) ^ 5,
        torch.arange(8) | 1,
    ],
    "reductions": lambda: [
        X.sum(),
        X.mean((0, 2), keepdim=True),
        X.amax(1),
        X.var(2),
        X.std(1, correction=2),
        X.prod(1),
    ],
    "positions": lambda: [X.argmax(), X.argmin(1, keepdim=True), X.cumsum(1), (X > 2).any(), (X > -9).all(1)],
    "shapes": lambda: [
        X.permute(2, 0, 1),
        X.transpose(0, 1),
        X[:, 1:, ::2],
        X[..., -1],
        X.flip(0, 2),
        X.repeat(2, 1, 1),
        X[:, None],
    ],
    "joins": lambda: [
        torch.cat([X, X], 1),
        torch.stack([X, X]),
        *X.split([1, 2], 1),
        *X.unbind(1),
        F.pad(X, (1, 2, 0, 1), value=7.0),
    ],
    "creations": lambda: [
        torch.zeros(2, 3) + X[0, 0, 0],
        torch.arange(1, 9, 2) + 1,
        torch.full_like(X, 3) * X,
        torch.ones_like(X) + X,
    ],
    "triangles": lambda: [X.tril(), X.triu(1)],
    "products": lambda: [
        X @ X.mT,
        torch.baddbmm(X @ X.mT, X, X.mT, beta=0.5, alpha=2),
        F.linear(X, torch.ones(5, 4), torch.ones(5)),
    ],
    "convolutions": lambda: [
        F.conv2d(IMAGE, torch.ones(6, 2, 3, 3) * 0.1, torch.ones(6), stride=2, padding=1, dilation=2, groups=2),
        F.conv_transpose2d(IMAGE, torch.ones(4, 3, 3, 3) * 0.1, stride=2, padding=1, output_padding=1),
        F.conv1d(X, torch.ones(2, 3, 2)),
    ],
    "pooling": lambda: [
        *F.max_pool2d(IMAGE, 3, 2, 1, return_indices=True),
        F.avg_pool2d(IMAGE, 3, 2, 1, count_include_pad=False),
    ],
    "norms": lambda: [
        F.layer_norm(X, (3, 4)),
        F.group_norm(IMAGE, 2),
        F.batch_norm(IMAGE, torch.zeros(4), torch.ones(4), torch.ones(4) * 2, torch.ones(4)),
        X.softmax(1),
        X.log_softmax(-1),
    ],
    "indexing": lambda: [
        X[:, torch.tensor([2, 0])],
        X.index_select(2, torch.tensor([3, 3])),
        X.gather(1, torch.zeros(2, 1, 4).long()),
    ],
    "tables": lambda: F.embedding(torch.tensor([[0, 2], [1, 1]]), torch.arange(12.0).reshape(4, 3)),
    "casts": lambda: [X.to(torch.int64), X.bool(), torch.arange(3).double(), X.half().float()],
}


@pytest.mark.parametrize("case", CASES)
def test_rules(case):
    """Each case has no inputs but the tensors it reads, so all of it is in the graph."""
    fn = CASES[case]
    compiled = triptych.compile(lambda: fn(), backend="onnxrt", fullgraph=True, options={"fallback": "raise"})
    torch.testing.assert_close(compiled(), fn(), equal_nan=True)
    assert triptych.report(compiled).partners[0].executions


def test_forms_without_a_rule():
    from torch.fx.experimental.proxy_tensor import make_fx

    for fn in (
        lambda x: torch.special.zeta(x, x),
        lambda x: x.view(torch.int32),
        lambda x: F.max_pool1d(x, 3, 2, ceil_mode=True),
    ):
        with pytest.raises(UnsupportedError):
            convert(make_fx(functools.partial(_as_tuple, fn), tracing_mode="fake")(torch.rand(1, 2, 8)))


def _as_tuple(fn, x):
    return (fn(x),)
