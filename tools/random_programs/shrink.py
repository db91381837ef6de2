"""Making the program of a difference small: lines of `main` are dropped while the difference stays."""

from __future__ import annotations

from collections.abc import Callable

from tools.random_programs.programs import is_program, split


def shrink(text: str, differs: Callable[[str], bool]) -> str:
    """A program with as few lines of `main` as greedy deletion of lines and blocks finds.

    Args:
        text: the program.
        differs: whether a program (that compiles) still shows the difference.
    """
    prelude, main = split(text)
    lines = main.strip("\n").split("\n")
    changed = True
    while changed:
        changed = False
        index = len(lines) - 1
        while index > 0:
            for candidate in _without(lines, index):
                if is_program("\n".join(candidate)) and differs(prelude + "\n".join(candidate) + "\n"):
                    lines, changed = candidate, True
                    break
            index = min(index, len(lines)) - 1
    return "\n".join(lines)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _without(lines: list[str], index: int) -> list[list[str]]:
    """The lines without the block that begins at `index`; with its body in its place; without the line alone."""
    end = index + 1
    while end < len(lines) and _indent(lines[end]) > _indent(lines[index]):
        end += 1
    block = [lines[:index] + lines[end:]]
    if end > index + 1:
        shift = _indent(lines[index + 1]) - _indent(lines[index])
        block.append(lines[:index] + [line[shift:] for line in lines[index + 1 : end]] + lines[end:])
        block.append(lines[:index] + lines[index + 1 :])
    return block
