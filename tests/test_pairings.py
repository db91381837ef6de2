"""Any front end with any back end: our capture and torch.compile's, our back end, eager and torch's code generator."""

import copy

import pytest
import torch
import triptych
from torch import nn
from triptych import backend_table

pytestmark = pytest.mark.slow

OURS = {"ours": "inductor", "ours, no codegen": "aot_eager", "eager": "eager", "torch": "torch inductor"}
TORCHS = {"ours": "triptych", "ours, no codegen": "triptych_aot_eager", "eager": "eager", "torch": "inductor"}


class Small(nn.Module):
    """Convolution, normalisations, attention, an embedding and a branch: something of everything."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.layer_norm = nn.LayerNorm(8)
        self.table = nn.Embedding(10, 8)
        self.head = nn.Linear(8, 4)

    def forward(self, images, ids, flip=False):
        x = torch.relu(self.norm(self.conv(images))).flatten(2).transpose(1, 2)
        x = x + self.table(ids)[:, None]
        x = self.layer_norm(x + self.attention(x, x, x, need_weights=False)[0])
        if flip:
            x = x.flip(1)
        return {"logits": self.head(x.mean(1)), "hidden": x}


def torch_inductor(gm, example_inputs):
    """torch's autograd and code generator behind our capture, through its public entry."""
    from torch._dynamo import lookup_backend

    return lookup_backend("inductor")(gm, example_inputs)


def step(call, owner):
    torch.manual_seed(1)
    images, ids = torch.randn(2, 3, 6, 6), torch.tensor([3, 7])
    owner.zero_grad()
    output = call(images, ids, flip=True)
    (output["logits"].square().mean() + output["hidden"].mean()).backward()
    tensors = {name: p.grad.clone() for name, p in owner.named_parameters()}
    return tensors | {key: value.detach() for key, value in output.items()} | dict(owner.named_buffers())


def compile_with(front, back, model):
    if front == "torch":
        return torch.compile(model, backend=TORCHS[back], fullgraph=True)
    backend = torch_inductor if back == "torch" else OURS[back]
    return triptych.compile(model, backend=backend, fullgraph=True)


# Every backend of ours that runs graphs whole and right, and partners as far as their packages are installed here.
WRONG_ON_PURPOSE = "TESTING_ONLY"
NO_GRADIENTS = {"openvino", "onnxrt", "tvm", "tensorrt"}


def backends():
    names = set(triptych.compiler.list_backends(())) - {"cudagraphs"}
    rows = {name: backend_table.find(name) for name in names if WRONG_ON_PURPOSE not in name}
    return sorted(name for name, row in rows.items() if row is None or not row[1].missing)


PAIRS = [(front, back) for front in ("ours", "torch") for back in OURS if (front, back) != ("torch", "torch")]


@pytest.mark.parametrize(("front", "back"), PAIRS)
def test_pairing(front, back):
    torch.manual_seed(0)
    model = Small()
    plain = copy.deepcopy(model)
    torch._dynamo.reset()
    compiled = compile_with(front, back, model)
    for _ in range(2):
        torch.testing.assert_close(step(compiled, model), step(plain, plain), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", backends())
def test_every_backend_under_our_front_end(name):
    torch.manual_seed(0)
    model = Small()
    plain = copy.deepcopy(model)
    if name in NO_GRADIENTS:
        model.eval(), plain.eval()
    compiled = triptych.compile(model, backend=name, fullgraph=True)
    with torch.set_grad_enabled(name not in NO_GRADIENTS):
        for _ in range(2):
            if name in NO_GRADIENTS:
                images, ids = torch.randn(2, 3, 6, 6), torch.tensor([3, 7])
                torch.testing.assert_close(compiled(images, ids), plain(images, ids), rtol=1e-3, atol=1e-4)
            else:
                torch.testing.assert_close(step(compiled, model), step(plain, plain), rtol=1e-4, atol=1e-5)
