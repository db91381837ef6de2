"""A build worker: reads kernels as JSON lines, answers with machine code. Imports Triton alone, never torch.

Run as a script with the path of the device library. One answer a request: `{"id", "binary" (base64), "name", "shared",
"threads"}`, or `{"id", "error"}`.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any


def load(name: str, path: Path) -> Any:
    """A module from a file, under a name that others can import."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def compile_one(request: dict[str, Any], folder: Path, count: int) -> dict[str, Any]:
    """Machine code of one function."""
    from triton import compile as compile_triton  # noqa: PLC0415 - optional
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415 - optional
    from triton.compiler import ASTSource  # noqa: PLC0415 - optional

    path = folder / f"kernel_{count}.py"
    path.write_text(request["source"], encoding="utf-8")
    module = load(f"triptych_kernel_{count}", path)
    names = [p[0] for p in request["params"]]
    signature = {p[0]: p[1] for p in request["params"]} | {name: "constexpr" for name, _ in request["constants"]}
    hints = {(names.index(p[0]),): [["tt.divisibility", p[2]]] for p in request["params"] if p[2] > 1}
    source = ASTSource(getattr(module, request["function"]), signature, dict(request["constants"]), hints)
    made = compile_triton(source, target=GPUTarget(*request["target"]), options=dict(request["options"]))
    metadata = made.metadata
    if getattr(metadata, "global_scratch_size", 0):
        raise RuntimeError("the kernel asks for global scratch memory, which the launcher does not give")
    return {
        "binary": base64.b64encode(made.asm[request["binary"]]).decode("ascii"),
        "text": made.asm["ptx"] if request.get("want_text") else "",
        "name": metadata.name,
        "shared": metadata.shared,
        "threads": metadata.num_warps * request["target"][2],
    }


def main() -> None:
    """Serve requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what compilers print must not mix with the answers
    with tempfile.TemporaryDirectory(prefix="triptych-") as name:
        folder = Path(name)
        os.environ["TRITON_CACHE_DIR"] = str(folder / "cache")
        load("triptych_device_library", Path(sys.argv[1]))
        for count, line in enumerate(sys.stdin):
            request = json.loads(line)
            try:
                answer = compile_one(request, folder, count)
            except BaseException:
                answer = {"error": traceback.format_exc()}
            answers.write(json.dumps({"id": request["id"], **answer}) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
