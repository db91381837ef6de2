"""The debug folder: for each captured graph what every stage made of it, readable, and generated code that runs alone.

`TRIPTYCH_DEBUG=folder` (or `config.debug_directory`) gives, for each `compile` call and each of its graphs,

    folder/NAME_0/graph_0/captured.py              the captured graph
                          forward_graph.py         the ATen graph (also backward_graph.py or inference_graph.py)
                          forward/call.py          the generated module, and the kernels beside it
                          forward/run.py           calls it on random inputs: `python run.py`
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule
from triptych_inductor import ArtifactError, CompiledGraph

ARTIFACT = "graph.triptych"
RUN = '''"""Calls the generated code beside this file on random inputs, and tells how long a call takes.

Changes of call.py count; kernels are the compiled ones in {artifact}.
"""

import time
from pathlib import Path

import torch
import triptych_inductor

here = Path(__file__).resolve().parent
namespace = triptych_inductor.load(here / "{artifact}").namespace()
exec(compile((here / "call.py").read_text(), str(here / "call.py"), "exec"), namespace)


def inputs():
    torch.manual_seed(0)
    return [
{inputs}
    ]


def outputs():
    with torch.no_grad():
        return namespace["call"](inputs())


found = outputs()
for number, output in enumerate(found if isinstance(found, (tuple, list)) else [found]):
    text = f"{{tuple(output.shape)}} {{output.dtype}}" if isinstance(output, torch.Tensor) else repr(output)
    print(f"output {{number}}: {{text}}")
start = time.perf_counter()
for _ in range(10):
    outputs()
print(f"{{(time.perf_counter() - start) * 100:.3f}} ms a call, inputs included")
'''


class DebugFolder:
    """The folder of one `compile` call."""

    def __init__(self, parent: str, name: str) -> None:
        self.root = _fresh(Path("triptych_debug" if parent in ("1", "true") else parent), re.sub(r"\W+", "_", name))

    def captured(self, index: int, gm: GraphModule) -> None:
        """A captured graph."""
        self._write(f"graph_{index}/captured.py", readable(gm))

    def lowered(self, index: int, role: str, gm: GraphModule) -> None:
        """An ATen graph."""
        self._write(f"graph_{index}/{role}_graph.py", readable(gm))

    def compiled(self, index: int, role: str, example_inputs: Sequence[Any], compiled: CompiledGraph) -> None:
        """What the code generator made of an ATen graph."""
        folder = f"graph_{index}/{role}"
        for name, text in compiled.files.items():
            self._write(f"{folder}/{name}", text)
        self._write(f"{folder}/schedule.txt", compiled.schedule)
        try:
            data = compiled.to_bytes()
        except ArtifactError as error:
            self._write(f"{folder}/run.txt", f"This graph does not run alone: {error}\n")
            return
        (self.root / folder / ARTIFACT).write_bytes(data)
        lines = "\n".join(f"        {_input_text(value)}," for value in example_inputs)
        self._write(f"{folder}/run.py", RUN.format(artifact=ARTIFACT, inputs=lines))

    def _write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _fresh(parent: Path, name: str) -> Path:
    """A new folder `name_N`."""
    for number in itertools.count():
        path = parent / f"{name}_{number}"
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        return path
    raise AssertionError("unreachable")


def readable(gm: GraphModule) -> str:
    """A graph as Python text, with the user's lines."""
    if not isinstance(gm, GraphModule):
        gm = GraphModule(gm.owner, gm.graph)
    return str(gm.print_readable(print_output=False))


def _input_text(value: Any) -> str:
    """Python text of a value like an example input; symbolic sizes become their hints."""
    if not isinstance(value, torch.Tensor):
        return repr(value.node.hint if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)) else value)
    size, stride = (tuple(_hint(n) for n in numbers) for numbers in (value.size(), value.stride()))
    where = f"dtype={value.dtype}, device={str(value.device)!r}"
    made = f"torch.empty_strided({size}, {stride}, {where})"
    if value.dtype.is_floating_point or value.dtype.is_complex:
        return f"{made}.normal_()"
    return f"{made}.zero_()"  # indices stay within any bounds


def _hint(number: Any) -> int:
    return number if isinstance(number, int) else int(number.node.hint)
