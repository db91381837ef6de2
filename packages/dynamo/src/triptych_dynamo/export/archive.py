"""The container of a saved graph: a zip file of one JSON text and raw tensors. Written beside, then renamed."""

from __future__ import annotations

import ctypes
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import torch

from triptych_dynamo.codec import Json, NotPortable, make_codec

FORMAT = "triptych captured graph 2"


def write(path: Path, data: Json, tensors: dict[str, torch.Tensor]) -> None:
    """Write `data` and named tensors."""
    codec = make_codec()
    index = {}
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with zipfile.ZipFile(partial, "w") as archive:
            for number, (name, tensor) in enumerate(tensors.items()):
                index[name] = {"file": f"tensors/{number}", **_describe(codec, tensor)}
                archive.writestr(f"tensors/{number}", _raw(tensor))
            archive.writestr("graph.json", json.dumps({"format": FORMAT, "tensors": index, **data}))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _describe(codec: Any, tensor: torch.Tensor) -> dict[str, Json]:
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise NotPortable(f"a tensor of layout {tensor.layout} cannot be saved")
    return {
        "dtype": codec.encode(tensor.dtype),
        "device": codec.encode(tensor.device),
        "sizes": list(tensor.shape),
        "strides": list(tensor.stride()),
        "requires_grad": tensor.requires_grad,
        "parameter": isinstance(tensor, torch.nn.Parameter),
    }


def _raw(tensor: torch.Tensor) -> bytes:
    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    return ctypes.string_at(plain.data_ptr(), plain.numel() * plain.element_size()) if plain.numel() else b""


def read(path: Path) -> tuple[Json, dict[str, torch.Tensor]]:
    """What `write` was given.

    Raises:
        ValueError: the file is no saved graph, or damaged.
    """
    codec = make_codec()
    try:
        with zipfile.ZipFile(path) as archive:
            data = json.loads(archive.read("graph.json"))
            if data.get("format") != FORMAT:
                raise ValueError(f"{path} has the format {data.get('format')!r}, not {FORMAT!r}")
            rows = data["tensors"].items()
            return data, {name: _tensor(codec, row, archive.read(row["file"])) for name, row in rows}
    except (zipfile.BadZipFile, KeyError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is no saved graph: {error}") from error


def _tensor(codec: Any, row: Json, raw: bytes) -> torch.Tensor:
    dtype, device = codec.decode(row["dtype"]), codec.decode(row["device"])
    flat = torch.frombuffer(bytearray(raw), dtype=dtype) if raw else torch.empty(0, dtype=dtype)
    values = flat.reshape(row["sizes"])
    tensor = torch.empty_strided(row["sizes"], row["strides"], dtype=dtype, device=device)
    tensor.copy_(values)
    if row["parameter"]:
        return torch.nn.Parameter(tensor, requires_grad=row["requires_grad"])
    return tensor.requires_grad_(row["requires_grad"])
