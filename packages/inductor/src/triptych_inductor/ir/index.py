"""Index arithmetic: `const + sum(coefficient * atom)`, the small integer form in which all addressing is done.

An atom is a loop variable, an indirect variable (a loaded index), or a quotient or remainder of another index by an
extent. Coefficients and constants are extents: ints for static shapes, sympy expressions otherwise. sympy is reached
only for symbolic coefficients and when an index is handed to a code generator (`to_sympy`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sympy

from triptych_inductor._torch_compat import FloorDiv, Mod
from triptych_inductor.ir.extents import Extent, at_least, quotient, tidy, times


class Var:
    """A loop variable that runs from 0 to `extent` - 1. Compared by identity."""

    __slots__ = ("name", "extent")

    def __init__(self, name: str, extent: Extent) -> None:
        self.name = name
        self.extent = extent

    @property
    def upper(self) -> Extent:
        """The largest value."""
        return self.extent - 1

    def __repr__(self) -> str:
        return self.name


class Indirect:
    """A loaded index into an axis of `extent`. Identified by the number of the value that makes it, within one
    record."""

    __slots__ = ("number", "extent")

    def __init__(self, number: int, extent: Extent) -> None:
        self.number = number
        self.extent = extent

    @property
    def upper(self) -> Extent:
        return self.extent - 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Indirect) and other.number == self.number

    def __hash__(self) -> int:
        return hash(("indirect", self.number))

    def __repr__(self) -> str:
        return f"indirect{self.number}"


class Quotient:
    """`inner // divisor` or `inner % divisor` (`remainder`), where `inner` is nonnegative."""

    __slots__ = ("inner", "divisor", "remainder", "_hash")

    def __init__(self, inner: Index, divisor: Extent, remainder: bool) -> None:
        self.inner = inner
        self.divisor = divisor
        self.remainder = remainder
        self._hash = hash((inner, divisor, remainder))

    @property
    def upper(self) -> Extent:
        if self.remainder:
            return self.divisor - 1
        top = self.inner.upper
        if type(top) is int and type(self.divisor) is int:
            return top // self.divisor
        exact = quotient(top + 1, self.divisor)
        return top if exact is None else exact - 1

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Quotient)
            and self._hash == other._hash
            and self.remainder == other.remainder
            and self.divisor == other.divisor
            and self.inner == other.inner
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"({self.inner} {'%' if self.remainder else '//'} {self.divisor})"


Atom = Any  # Var | Indirect | Quotient


class Index:
    """An affine form over atoms. Immutable; `+`, `-` with indices and extents, `*` with extents."""

    __slots__ = ("terms", "const", "_hash")

    def __init__(self, terms: dict[Atom, Extent], const: Extent = 0) -> None:
        self.terms = terms
        self.const = const
        self._hash: int | None = None

    @staticmethod
    def of(value: Any) -> Index:
        """A `Var`, an atom, an extent or an index as an index."""
        if isinstance(value, Index):
            return value
        if isinstance(value, (Var, Indirect, Quotient)):
            return Index({value: 1})
        return Index({}, value)

    def __add__(self, other: Any) -> Index:
        if not isinstance(other, Index):
            other = Index.of(other)
        if not other.terms and other.const == 0:
            return self
        if not self.terms and self.const == 0:
            return other
        terms = dict(self.terms)
        for atom, coefficient in other.terms.items():
            total = tidy(terms.get(atom, 0) + coefficient)
            if total == 0:
                terms.pop(atom, None)
            else:
                terms[atom] = total
        return _rejoined(terms, tidy(self.const + other.const))

    __radd__ = __add__

    def __mul__(self, factor: Extent) -> Index:
        if type(factor) is int:
            if factor == 1:
                return self
            if factor == 0:
                return ZERO
        return Index({a: times(c, factor) for a, c in self.terms.items()}, times(self.const, factor))

    __rmul__ = __mul__

    def __neg__(self) -> Index:
        return self * -1

    def __sub__(self, other: Any) -> Index:
        return self + -Index.of(other)

    def __rsub__(self, other: Any) -> Index:
        return Index.of(other) + -self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Index) and self.const == other.const and self.terms == other.terms

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((frozenset(self.terms.items()), self.const))
        return self._hash

    def __repr__(self) -> str:
        parts = [f"{a}" if c == 1 else f"{c}*{a}" for a, c in self.terms.items()]
        if self.const != 0 or not parts:
            parts.append(str(self.const))
        return " + ".join(parts)

    @property
    def upper(self) -> Extent:
        """An upper bound (terms with negative coefficients counted as 0)."""
        top = self.const
        for atom, coefficient in self.terms.items():
            if at_least(coefficient, 0):
                top = top + times(coefficient, atom.upper)
        return tidy(top)

    @property
    def nonnegative(self) -> bool:
        """Whether the index is known to be at least 0."""
        low = self.const
        for atom, coefficient in self.terms.items():
            if not at_least(coefficient, 0):
                low = low + times(coefficient, atom.upper)
        return at_least(low, 0)

    def below(self, bound: Extent) -> bool:
        """Whether 0 <= index < bound is known."""
        return self.nonnegative and at_least(bound, self.upper + 1)

    def atoms(self) -> set[Atom]:
        """All atoms, those inside quotients included."""
        found: set[Atom] = set()
        for atom in self.terms:
            found.add(atom)
            if isinstance(atom, Quotient):
                found |= atom.inner.atoms()
        return found

    def variables(self) -> set[Var]:
        """The loop variables that the index depends on (not through indirect ones)."""
        return {a for a in self.atoms() if isinstance(a, Var)}

    @property
    def is_affine(self) -> bool:
        """Whether all atoms are loop variables."""
        return all(isinstance(a, Var) for a in self.terms)

    def map_atoms(self, change: Callable[[Atom], Index | None]) -> Index:
        """Each variable and indirect atom replaced by what `change` gives (None: kept); quotients simplified again."""
        result = Index({}, self.const)
        for atom, coefficient in self.terms.items():
            if isinstance(atom, Quotient):
                inner = atom.inner.map_atoms(change)
                piece = (remainder if atom.remainder else floordiv)(inner, atom.divisor)
            else:
                piece = change(atom) or Index({atom: 1})
            result = result + piece * coefficient
        return result

    def substitute(self, mapping: Mapping[Atom, Index]) -> Index:
        """Variables replaced by indices."""
        return self.map_atoms(mapping.get) if mapping else self

    def to_sympy(self, symbols: Mapping[Atom, Any]) -> Any:
        """As a sympy expression (or int) for a code generator; quotients become torch's `FloorDiv` and `Mod`."""
        parts = [] if self.const == 0 else [sympy.sympify(self.const)]
        for atom, coefficient in self.terms.items():
            if isinstance(atom, Quotient):
                inner = atom.inner.to_sympy(symbols)
                maker = Mod if atom.remainder else FloorDiv
                piece = maker(sympy.sympify(inner), sympy.sympify(atom.divisor))
            else:
                piece = sympy.sympify(symbols[atom])
            parts.append(piece if coefficient == 1 else coefficient * piece)
        return sympy.Add(*parts) if parts else sympy.Integer(0)


ZERO = Index({}, 0)


def _rejoined(terms: dict[Atom, Extent], const: Extent) -> Index:
    """`d * (x // d) + x % d` put together to `x` again, wherever both halves are present."""
    for atom, coefficient in terms.items():
        if isinstance(atom, Quotient) and atom.remainder:
            other = Quotient(atom.inner, atom.divisor, False)
            if other in terms and tidy(terms[other] - times(coefficient, atom.divisor)) == 0:
                rest = {a: c for a, c in terms.items() if a != atom and a != other}
                return Index(rest, const) + atom.inner * coefficient
    return Index(terms, const)


def _split_by(index: Index, divisor: Extent) -> tuple[Index, Index]:
    """(q, r) with index = divisor * q + r, all multiples of the divisor in q."""
    whole: dict[Atom, Extent] = {}
    rest: dict[Atom, Extent] = {}
    for atom, coefficient in index.terms.items():
        exact = quotient(coefficient, divisor)
        if exact is None:
            rest[atom] = coefficient
        else:
            whole[atom] = exact
    exact = quotient(index.const, divisor)
    if exact is not None:
        return Index(whole, exact), Index(rest, 0)
    if type(index.const) is int and type(divisor) is int:
        return Index(whole, index.const // divisor), Index(rest, index.const % divisor)
    return Index(whole, 0), Index(rest, index.const)


def floordiv(index: Index, divisor: Extent) -> Index:
    """`index // divisor` for a nonnegative index and a positive divisor, simplified where bounds allow."""
    if divisor == 1:
        return index
    whole, rest = _split_by(index, divisor)
    if (not rest.terms and rest.const == 0) or rest.below(divisor):
        return whole
    if not rest.nonnegative:
        whole, rest = ZERO, index
    if len(rest.terms) == 1 and rest.const == 0:
        ((atom, coefficient),) = rest.terms.items()
        if isinstance(atom, Quotient) and not atom.remainder and coefficient == 1:
            return whole + Index({Quotient(atom.inner, times(atom.divisor, divisor), False): 1})
    return whole + Index({Quotient(rest, divisor, False): 1})


def remainder(index: Index, divisor: Extent) -> Index:
    """`index % divisor` for a nonnegative index and a positive divisor, simplified where bounds allow."""
    if divisor == 1:
        return ZERO
    _, rest = _split_by(index, divisor)
    if (not rest.terms and rest.const == 0) or rest.below(divisor):
        return rest
    if not rest.nonnegative:
        rest = index
    if len(rest.terms) == 1 and rest.const == 0:
        ((atom, coefficient),) = rest.terms.items()
        if isinstance(atom, Quotient) and atom.remainder and coefficient == 1:
            if quotient(atom.divisor, divisor) is not None:
                return remainder(atom.inner, divisor)
    return Index({Quotient(rest, divisor, True): 1})
