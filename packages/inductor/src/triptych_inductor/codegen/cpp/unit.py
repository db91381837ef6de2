"""Translation units: the headers that are needed, the kernels, and the table by which the runtime finds them.

A unit includes nothing from the file system, so its text alone (with flags and compiler) is the key of its binary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from triptych_inductor.codegen.cpp.kernel import KernelText, write_kernel
from triptych_inductor.codegen.cpp.naming import SECTIONS, c_name, header
from triptych_inductor.loops.kernel import Kernel

ALWAYS = ("base", "arithmetic", "reductions", "support", "launcher")
NEEDS = {"library": ("math",), "scans": ("math",)}


@dataclass(frozen=True)
class Unit:
    """One C++ source and the kernels in it: (name, argument names)."""

    source: str
    kernels: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.kernels)


def make_unit(texts: Sequence[KernelText]) -> Unit:
    """One unit of several kernels."""
    wanted = set(ALWAYS).union(*(t.sections for t in texts)) - {""}
    for section in list(wanted):
        wanted.update(NEEDS.get(section, ()))
    most = max([len(t.arguments) for t in texts], default=0)
    parts = [f"#define MOST_ARGUMENTS {max(most, 1)}\n"]
    parts += [header(section) for section in SECTIONS if section in wanted]
    parts += [t.text for t in texts]
    parts.append(_table(texts))
    return Unit("\n".join(parts), tuple((t.name, t.arguments) for t in texts))


def _table(texts: Sequence[KernelText]) -> str:
    rows = [f'  {{"{t.name}", {c_name(t.name)}, {len(t.arguments)}, {{"{t.name}", launch, 0x80, 0}}}},' for t in texts]
    return "\n".join(
        [
            "static KernelRow kernels[] = {",
            *rows,
            "};",
            'extern "C" __attribute__((visibility("default"))) void triptych_bind(const Runtime *given) {',
            "  runtime = *given;",
            "  max_threads = (int (*)())given->max_threads;",
            "  thread_number = (int (*)())given->thread_number;",
            "  thread_count = (int (*)())given->thread_count;",
            "  gomp_parallel = (void (*)(void (*)(void *), void *, unsigned, unsigned))given->gomp_parallel;",
            "}",
            'extern "C" __attribute__((visibility("default"))) Object *triptych_kernel(long k) {',
            "  return PyCFunction_NewEx(&kernels[k].method, PyLong_FromVoidPtr(&kernels[k]), 0);",
            "}",
            "",
        ]
    )


def make_units(kernels: Sequence[Kernel], lanes: int, count: int) -> list[Unit]:
    """Source text for `kernels`, spread over at most `count` units of about equal length.

    Raises `TypeError` where a kernel has no C++ form.
    """
    texts = sorted((write_kernel(k, lanes) for k in kernels), key=lambda t: -len(t.text))
    bins: list[list[KernelText]] = [[] for _ in range(max(1, min(count, len(texts))))]
    sizes = [0] * len(bins)
    for text in texts:
        smallest = sizes.index(min(sizes))
        bins[smallest].append(text)
        sizes[smallest] += len(text.text) + 200
    return [make_unit(b) for b in bins if b]
