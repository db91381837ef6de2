"""`write_program(seed)`: the text of a random program, the same for the same seed and edition."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

from tools.random_programs.blocks import WideWriter
from tools.random_programs.editions import EDITIONS, LATEST
from tools.random_programs.writer import ProgramWriter

_FOLDER = Path(__file__).parent
_FIRST_PRELUDE = (_FOLDER / "prelude.py").read_text()
_WIDE_PRELUDE = (
    (_FOLDER / "prelude_wide.py").read_text().replace("from tools.random_programs.prelude import", "# of above:")
)
_THIRD_PRELUDE = (
    (_FOLDER / "prelude_third.py").read_text().replace("from tools.random_programs.prelude import", "# of above:")
)
PRELUDES = {1: _FIRST_PRELUDE + "\n", 2: _FIRST_PRELUDE + "\nimport sys\n" + _WIDE_PRELUDE + "\n"}
PRELUDES[3] = PRELUDES[2] + _THIRD_PRELUDE + "\n"
QUIET = 0.35  # of the later editions' programs have a `say` that does not break: more than scraps reach a graph
_LOUD = "@triptych_dynamo.disable\ndef say("


def write_program(seed: int, edition: int = LATEST) -> str:
    """The program of a seed."""
    if edition == 1:
        return PRELUDES[1] + ProgramWriter(seed, EDITIONS[1]).program()
    quiet = random.Random(seed).random() < QUIET
    prelude = PRELUDES[edition].replace(_LOUD, "def say(") if quiet else PRELUDES[edition]
    return prelude + next(text for text in _attempts(seed, edition) if is_program(text))


def _attempts(seed: int, edition: int) -> Iterator[str]:
    """Programs of a seed: some of the grammar's programs are none of Python's (a `:=` where none may be)."""
    for attempt in itertools.count():
        yield WideWriter(seed + (attempt << 32), EDITIONS[edition]).program()


def is_program(text: str) -> bool:
    """Whether a text compiles."""
    try:
        compile(text, "<candidate>", "exec")
    except SyntaxError:
        return False
    return True


def split(text: str) -> tuple[str, str]:
    """A program's prelude and its `main`."""
    at = text.index("def main(")
    return text[:at], text[at:]
