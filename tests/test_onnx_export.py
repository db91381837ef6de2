"""Captured graphs go to ONNX through `torch.onnx` and run in onnxruntime with the same numbers."""

import pytest
import torch
import triptych_dynamo as td

pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.slow


class Block(torch.nn.Module):
    """A layer of attention and a perceptron with a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(16)
        self.qkv = torch.nn.Linear(16, 48)
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)
        self.register_buffer("scale", torch.full((16,), 0.5))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        x = x + torch.softmax(q @ k.transpose(-1, -2) / 4, dim=-1) @ v
        return {"out": x + self.down(torch.nn.functional.gelu(self.up(x))) * self.scale}


@pytest.mark.parametrize("parameters", ["inputs", "attributes"])
def test_onnx(parameters, tmp_path):
    torch.manual_seed(0)
    model, x = Block().eval(), torch.randn(2, 5, 16)
    with torch.no_grad():
        graph = td.capture(model, parameters=parameters)(x)
        inputs = graph.input_values(x)
        path = tmp_path / "graph.onnx"
        torch.onnx.export(graph.graph_module, tuple(inputs), str(path), verbose=False)
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        named = {item.name: value.numpy() for item, value in zip(session.get_inputs(), inputs, strict=True)}
        (result,) = session.run(None, named)
        torch.testing.assert_close(torch.from_numpy(result), model(x)["out"], rtol=1e-4, atol=1e-5)
