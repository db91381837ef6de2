"""C++ names for what others named: buffers, locals, kernels, size symbols."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

SECTIONS = ("base", "arithmetic", "math", "library", "reductions", "scans", "support", "launcher")
"""The vector headers, in the order in which a unit has them."""

_KEYWORDS = frozenset(
    """alignas alignof and asm auto bitand bitor bool break case catch char class compl const constexpr continue
    decltype default delete do double else enum explicit export extern false float for friend goto if inline int
    long mutable namespace new noexcept not nullptr operator or private protected public register return short
    signed sizeof static static_assert struct switch template this throw true try typedef typeid typename union
    unsigned using virtual void volatile wchar_t while xor main a begin end thread t q k l u at bad base failure
    given sizes work points width blocks total tiles first_lane last_lane first_row last_row kernels stop""".split()
)
_GENERATED = re.compile(r"[ir]\d+|v\d+_.*|local_.*|row_.*|_.*|.*_part|.*__.*")


@cache
def header(section: str) -> str:
    """Text of one of the vector headers."""
    return resources.files(__package__).joinpath(f"header/{section}.h").read_text(encoding="utf-8")


@cache
def _taken() -> frozenset[str]:
    """Every word of the headers: a name among them could hide something that generated code uses."""
    return _KEYWORDS.union(*(re.findall(r"[A-Za-z_]\w*", header(s)) for s in SECTIONS))


@cache
def c_name(name: str) -> str:
    """`name` as a C++ identifier that hides nothing.

    >>> c_name("in0"), c_name("double"), c_name("a.b")
    ('in0', 'x_double', 'a_b')
    """
    clean = re.sub(r"\W", "_", name)
    if not clean or clean[0].isdigit() or clean in _taken() or _GENERATED.fullmatch(clean):
        return f"x_{clean}"
    return clean
