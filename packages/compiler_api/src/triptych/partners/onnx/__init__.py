"""ATen graphs to ONNX models: `convert(gm) -> onnx.ModelProto`. Rules are rows of tables, one file per family."""

from triptych.partners.onnx.convert import UnsupportedError as UnsupportedError
from triptych.partners.onnx.convert import convert as convert
