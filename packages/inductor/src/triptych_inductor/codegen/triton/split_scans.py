"""Scans of rows that several programs share: before the pass that writes results, what each share begins with.

One function adds up each share of a row (its input is read once more), a second one turns these totals into what lies
before each share. Only scans that do not depend on one another in the same loop can be split.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from triptych_inductor.codegen.triton import prologue, reductions
from triptych_inductor.codegen.triton.dtypes import text_of
from triptych_inductor.codegen.triton.facts import LocalDef, StageFacts
from triptych_inductor.codegen.triton.groups import closure
from triptych_inductor.codegen.triton.layout import total
from triptych_inductor.codegen.triton.scans import SCANS, scans_of
from triptych_inductor.codegen.triton.sections import SectionWriter
from triptych_inductor.codegen.triton.tiles import TileDim
from triptych_inductor.codegen.triton.writer import HEAD
from triptych_inductor.loops.handlers import Value

Scan = tuple[StageFacts, Value]


def independent(stages: Sequence[StageFacts], definitions: Mapping[tuple[int, int], LocalDef]) -> bool:
    """Whether no scan among the stages needs another one's results."""
    scans = scans_of(stages)
    numbers = {(stage.number, node.number) for stage, node in scans}
    return not any(closure([(stage, node.args[0])], definitions) & numbers for stage, node in scans)


def write_totals(
    writer: SectionWriter, scans: Sequence[Scan], number: int, along: Callable[[SectionWriter], str]
) -> list[list[str]]:
    """The total of each scan over each program's share of a row; the workspaces that hold them.

    `along` writes what a share is and gives the header of its loop.
    """
    header = along(writer)
    writer.open_loop()
    assert writer.loop is not None and writer.layout.reduction is not None
    writer.loop += prologue.along(writer, writer.layout, writer.layout.reduction, "roffset + ")
    writer.run([(stage, node.args[0]) for stage, node in scans])
    states = [writer.gather(stage, node) for stage, node in scans]
    writer.close_loop([header])
    writer.forget_loop()
    carries = [writer.gathered(node, state) for (_, node), state in zip(scans, states, strict=True)]
    outer = frozenset(d.position for d in writer.layout.outer)
    masks = writer.mask(outer)
    suffix = f", {' & '.join(masks)}" if masks else ""
    found = []
    points = total(writer.layout.outer) * writer.layout.splits
    for count, ((_, node), carry) in enumerate(zip(scans, carries, strict=True)):
        names = []
        for k, (part, name) in enumerate(zip(writer.scan_types(node), carry, strict=True)):
            names.append(writer.context.workspace(f"total{number}_{count}_{k}", part, points))
            writer.line(f"tl.store({writer.use(names[-1])} + ({writer.share_address()}), {name}{suffix})", HEAD)
        found.append(names)
    return found


def write_starts(
    writer: SectionWriter, scans: Sequence[Scan], totals: Sequence[list[str]], dim: TileDim, number: int
) -> dict[tuple[int, int], list[str]]:
    """What lies before each share, from the totals; the workspaces that hold it, by (stage, value)."""
    layout = writer.layout
    writer.head += prologue.along(writer, layout, dim, "")
    points = writer.extent(total(layout.outer))
    whole = frozenset(d.position for d in layout.dims)
    masks = writer.mask(whole)
    found: dict[tuple[int, int], list[str]] = {}
    for count, ((stage, node), names) in enumerate(zip(scans, totals, strict=True)):
        types, starts = writer.scan_types(node), SCANS[node.attrs[0]].start
        suffix = f", {' & '.join(masks)}" if masks else ""
        loaded = [f"tl.load({writer.use(name)} + (sindex * {points} + {writer.flat()}){suffix})" for name in names]
        parts = [writer.assign(text, part, whole, HEAD).name for text, part in zip(loaded, types, strict=True)]
        running = [f"run{count}_{k}" for k in range(len(parts))]
        writer.head.append(f"{', '.join(running)} = lib.scan_{node.attrs[0]}({', '.join(parts)}, {dim.position})")
        own = []
        for k, (part, word, name) in enumerate(zip(types, starts, running, strict=True)):
            own.append(writer.context.workspace(f"start{number}_{count}_{k}", part, total(layout.outer) * dim.numel))
            place = f"{writer.use(own[-1])} + (sindex * {points} + {writer.flat()})"
            more = " & ".join([*masks, f"(sindex < {int(dim.numel) - 1})"])
            writer.head.append(f"tl.store({place} + {points}, {name}, {more})")
            identity = reductions.identity_text(word, part, layout.wide)
            first = " & ".join([*masks, "(sindex == 0)"])
            writer.head.append(
                f"tl.store({place}, tl.full({layout.shape(whole)}, {identity}, {text_of(part)}), {first})"
            )
        found[(stage.number, node.number)] = own
    return found


__all__: list[str] = ["independent", "write_starts", "write_totals"]
