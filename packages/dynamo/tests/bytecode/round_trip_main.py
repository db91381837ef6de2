"""Round trip of code objects, for any supported interpreter: no pytest, no torch.

python round_trip_main.py [every]     checks each `every`-th file of the standard library, exits 1 on a difference
"""

import sys
import sysconfig
import time
import warnings
from pathlib import Path
from types import CodeType

from triptych_dynamo.bytecode import assemble, decode, exception_table
from triptych_dynamo.bytecode.tables import OPCODES


def plain(instructions):
    """The instructions with positions in the list in place of references."""
    number = {row: index for index, row in enumerate(instructions)}
    rows = []
    for row in instructions:
        caught = row.handler and (number[row.handler.target], row.handler.depth, row.handler.lasti)
        target = row.target and number[row.target]
        value = row.argval
        rows.append(
            (
                row.opname,
                type(value),
                repr(value) if not isinstance(value, CodeType) else id(value),
                row.flags,
                target,
                caught,
                row.position,
            )
        )
    return rows


def differences(code):
    """What the round trip changes, as text; empty when nothing."""
    before = decode(code)
    again = assemble(before, code)
    found = []
    if plain(before) != plain(decode(again)):
        found.append("instructions")
    if again.co_code == code.co_code:  # else constants or names have another order, which may take an EXTENDED_ARG
        if list(again.co_positions()) != list(code.co_positions()):
            found.append("positions")
        if covered(again) != covered(code):
            found.append("exception table")
    if again.co_stacksize > max(1, code.co_stacksize):
        found.append(f"stack size {again.co_stacksize} for {code.co_stacksize}")
    for name in (
        "co_varnames",
        "co_cellvars",
        "co_freevars",
        "co_flags",
        "co_argcount",
        "co_name",
        "co_qualname",
        "co_nlocals",
    ):
        if getattr(again, name) != getattr(code, name):
            found.append(name)
    return found


def covered(code):
    """The exception table's entry of each code unit; the marks of branches, which cannot raise, count for nothing."""
    mark = OPCODES.get("NOT_TAKEN")
    units = [None] * (len(code.co_code) // 2)
    for entry in exception_table.parse(code.co_exceptiontable):
        units[entry.start : entry.end] = [entry[2:]] * (entry.end - entry.start)
    return [None if code.co_code[2 * unit] == mark else caught for unit, caught in enumerate(units)]


def nested(code):
    """The code object and all inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested(constant)


def check_library(every):
    """Counts of code objects and of those that differ, by what differs."""
    warnings.simplefilter("ignore")
    count, bad, start = 0, {}, time.time()
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py"))
    for path in [p for p in files if "site-packages" not in p.parts and p.exists()][::every]:
        try:
            module = compile(path.read_bytes(), str(path), "exec")
        except (SyntaxError, ValueError, RecursionError):
            continue  # files of the test suite that are wrong on purpose
        for code in nested(module):
            count += 1
            for what in differences(code):
                bad.setdefault(what.split(" ")[0], []).append(
                    f"{path.name}:{code.co_qualname}:{code.co_firstlineno} {what}"
                )
    return count, bad, time.time() - start


if __name__ == "__main__":
    assert "torch" not in sys.modules
    count, bad, seconds = check_library(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    print(f"{count} code objects in {seconds:.1f} s")
    for what, where in bad.items():
        print(f"{what}: {len(where)}", *where[:5], sep="\n  ")
    sys.exit(bool(bad) or not count)
