"""``python -m tools.graph_breaks``: writes `docs/graph_breaks.md` from the registry of graph breaks."""

from __future__ import annotations

from pathlib import Path

from triptych_dynamo.breaks import BREAKS, DOCUMENT

PAGE = Path(__file__).resolve().parents[1] / DOCUMENT
_HEAD = """# Graph breaks

This page is written by `python -m tools.graph_breaks` from the registry `triptych_dynamo.breaks`. Numbers are stable
across releases.

Where the tracer meets something that no graph holds, the graph ends: what was computed so far runs as one graph, the
instruction runs as plain Python, with the real values and inside the `with` and `try` blocks that cover it, and what
follows is captured anew. A break inside calls does not repeat anything: the callee goes on behind the break, then its
callers, in one graph. With `fullgraph=True` a break is a `GraphBreakError` in its place.

To see the breaks of a program:

```python
import torch
import triptych_dynamo as td

def step(x):
    y = x * 2
    if y.sum() > 0:
        y = y + 1
    return y

for item in td.explain(step)(torch.ones(3)).breaks:
    print(item.id, item.kind, "|", item.reason)
```

```output
DYN0006 truth | a branch on the value of a tensor
```

or set `TRIPTYCH_LOGS=graph_breaks` (`+graph_breaks` for the calls that lead there).
"""


def page() -> str:
    """The text of the page."""
    parts = [_HEAD]
    for kind in BREAKS.values():
        parts.append(f"## {kind.id} {kind.name}\n\n{kind.explanation}\n\nWhat to do: {kind.hint}.\n")
        if kind.example:
            parts.append(f"```text\n{kind.example}\n```\n")
    return "\n".join(parts)


def main() -> None:
    """Write the page."""
    PAGE.write_text(page())
    print(f"{PAGE}: {len(BREAKS)} kinds")


if __name__ == "__main__":
    main()
