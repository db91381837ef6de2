"""`ProgramWriter`: the text of a random program, the same for the same seed and grammar."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tools.random_programs.editions import Grammar

_HOLE = re.compile(r"\{\{|\}\}|\{([=+!]?)([A-Z]|c|s)([^{}]*)\}")


class Scope:
    """The variables of one function: names by type, and those of the function around it."""

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self.own: dict[str, list[str]] = {}

    def of(self, kind: str) -> list[str]:
        """Names that may be read."""
        outer = self.parent.of(kind) if self.parent is not None else []
        return [*self.own.get(kind, []), *outer]


class ProgramWriter:
    """Writes one program.

    Args:
        seed: decides everything.
        grammar: what programs are made of.
    """

    def __init__(self, seed: int, grammar: Grammar) -> None:
        self.random = random.Random(seed)
        self.grammar = grammar
        self.lines: list[str] = []
        self.indent = 1
        self.names = 0
        self.scope = Scope()
        self.loops = 0  # how deep in loops the writer is
        self.in_generator = False
        self.in_loop = False  # whether `break` may be written

    # -- texts ---------------------------------------------------------------------------------------------------------
    def line(self, text: str) -> None:
        """Append a line at the present indentation."""
        self.lines.append("    " * self.indent + text)

    def pick(self, rows: list[tuple[int, str]]) -> str:
        """A row by weight."""
        return self.random.choices([text for _, text in rows], [weight for weight, _ in rows])[0]

    def expression(self, kind: str, depth: int = 2) -> str:
        """An expression of a type."""
        if depth <= 0 and self.scope.of(kind):
            return self.existing(kind)
        rows = self.grammar.expressions[kind]
        return self.fill(self.pick(rows if depth > 0 else rows[:1]), depth - 1)

    def fill(self, template: str, depth: int) -> str:
        """A template with its holes filled, from left to right."""

        def hole(match: re.Match[str]) -> str:
            whole, mark, kind, rest = match.group(0), match.group(1), match.group(2), match.group(3)
            if whole in ("{{", "}}"):
                return whole[0]
            if kind == "c":
                return str(self.random.randint(0, 4))
            if kind == "s":
                return self.random.choice(["a", "b", "key", "abba"])
            makers: dict[str, Callable[[], str]] = {
                "": lambda: self.expression(kind, depth),
                "=": lambda: self.existing(kind),
                "!": lambda: self.own(kind),
                "+": lambda: self.target(kind),
            }
            return makers[mark]() + rest

        return _HOLE.sub(hole, template)

    # -- variables -----------------------------------------------------------------------------------------------------
    def existing(self, kind: str) -> str:
        """A variable that can be read."""
        return self.random.choice(self.scope.of(kind))

    def own(self, kind: str) -> str:
        """A variable of the running function, or a new one, assigned first."""
        names = self.scope.own.get(kind)
        if names:
            return self.random.choice(names)
        value = self.existing(kind)
        name = self.new(kind)
        self.line(f"{name} = {value}")
        return name

    def target(self, kind: str) -> str:
        """A variable to assign: noted as set once the statement is written."""
        names = self.scope.own.get(kind, [])
        name = self.random.choice(names) if names and self.random.random() < 0.5 else self._fresh(kind)
        self._assigned.append((kind, name))
        return name

    def _fresh(self, kind: str) -> str:
        self.names += 1
        return f"{kind.lower()}{self.names}"

    def new(self, kind: str) -> str:
        """A new variable, taken as set."""
        name = self._fresh(kind)
        self.scope.own.setdefault(kind, []).append(name)
        return name

    # -- statements ----------------------------------------------------------------------------------------------------
    def assigning(self, template: str, depth: int = 2) -> str:
        """A filled template; what it assigns counts as set from here on."""
        self._assigned: list[tuple[str, str]] = []
        text = self.fill(template, depth)
        for kind, name in self._assigned:
            if name not in self.scope.own.setdefault(kind, []):
                self.scope.own[kind].append(name)
        return text

    def statement(self, depth: int) -> None:
        """A statement, with blocks inside while `depth` lasts."""
        if depth > 0 and self.random.random() < 0.35:
            getattr(self, f"write_{self.pick(self.grammar.blocks)}")(depth - 1)
        else:
            self.line(self.assigning(self.pick(self.grammar.statements)))

    def statements(self, count: int, depth: int) -> None:
        """Statements; inside loops and generators some leave or yield."""
        for _ in range(count):
            self.statement(depth)
            chance = self.random.random()
            if self.in_generator and chance < 0.4:
                self.line(f"yield {self.expression('T')}")
            elif self.in_loop and chance < 0.12:
                self.line(f"if {self.expression('B')}:")
                self.line("    " + self.random.choice(["break", "continue"]))

    @contextmanager
    def block(self) -> Iterator[None]:
        """An indented block: variables that it makes are, mostly, forgotten behind it."""
        before = {kind: list(names) for kind, names in self.scope.own.items()}
        self.indent += 1
        yield
        self.indent -= 1
        if self.random.random() > 0.02:
            self.scope.own = before

    def body(self, depth: int, least: int = 1) -> None:
        """A block of statements."""
        with self.block():
            self.statements(self.random.randint(least, 3), depth)
            if self.random.random() < 0.05 and not self.in_generator:
                self.line(f"return {self.expression('T')}")

    def write_if(self, depth: int) -> None:
        """`if`, with or without the rest."""
        self.line(f"if {self.expression('B')}:")
        self.body(depth)
        if self.random.random() < 0.3:
            self.line(f"elif {self.expression('B')}:")
            self.body(depth)
        if self.random.random() < 0.6:
            self.line("else:")
            self.body(depth)

    def _loop_body(self, depth: int) -> None:
        before, self.in_loop = self.in_loop, True
        self.loops += 1
        self.body(depth)
        self.loops -= 1
        self.in_loop = before
        if self.random.random() < 0.15:
            self.line("else:")
            self.body(depth)

    def write_for(self, depth: int) -> None:
        """A `for` loop."""
        if self.loops >= 2:
            return self.write_if(depth)
        before = {kind: list(names) for kind, names in self.scope.own.items()}
        self.line(f"for {self.assigning(self.pick(self.grammar.loops))}:")
        self._loop_body(depth)
        self.scope.own = before

    def write_while(self, depth: int) -> None:
        """A `while` loop that ends."""
        if self.loops >= 2:
            return self.write_if(depth)
        count = self.new("I") + "_left"
        self.line(f"{count[:-5]} = {count} = {self.random.randint(1, 3)}")
        self.line(f"while {count} > 0 and {self.expression('B')}:")
        self.line(f"    {count} -= 1")
        self._loop_body(depth)

    def write_try(self, depth: int) -> None:
        """A `try` with handlers, `else` and `finally`, at least one of them."""
        self.line("try:")
        with self.block():
            self.statements(self.random.randint(1, 2), depth)
            if self.random.random() < 0.5:
                self.line(f"fail_if({self.expression('B')}, {self.expression('E')}, log)")
            elif self.random.random() < 0.6:
                self.line(f"raise {self.expression('E')}({self.expression('S')})")
        handlers = self.random.choice([0, 1, 1, 2])
        for _ in range(handlers):
            self._handler(depth)
        if handlers and self.random.random() < 0.3:
            self.line("else:")
            self.body(depth)
        if not handlers or self.random.random() < 0.3:
            self.line("finally:")
            before, self.in_loop = self.in_loop, False
            with self.block():
                self.statements(self.random.randint(1, 2), depth)
            self.in_loop = before

    def _handler(self, depth: int) -> None:
        caught = self.random.choice(["ValueError", "KeyError", "(ValueError, Trouble)", "Exception", "RuntimeError"])
        name = f"error{self.names}"
        self.line(f"except {caught} as {name}:")
        with self.block():
            self.line(f"log.append((type({name}).__name__, str({name}), repr({name}.__context__)))")
            self.statements(self.random.randint(1, 2), depth)
            ending = self.random.random()
            if ending < 0.08:
                self.line("raise")
            elif ending < 0.2:
                self.line(f"raise {self.expression('E')}('again') from {self.random.choice([name, 'None'])}")
            elif ending < 0.3:
                self.line(f"say(log, {name}.args)")

    def write_with(self, depth: int) -> None:
        """A `with` block."""
        manager = self.fill(self.pick(self.grammar.managers), 1)
        self.line(f"with {manager}:")
        self.body(depth)

    def write_function(self, depth: int) -> None:
        """A nested function that closes over what is around it; sometimes it rebinds a variable of it."""
        name = self._fresh("F")
        self.line(f"def {name}(t, *rest, k={self.expression('I', 0)}):")
        outer, self.scope = self.scope, Scope(self.scope)
        loop, self.in_loop, generator, self.in_generator = self.in_loop, False, self.in_generator, False
        self.indent += 1
        numbers = [number for number in outer.own.get("I", []) if number != "k"]
        changed = self.random.choice(numbers) if numbers and self.random.random() < 0.5 else ""
        if changed:
            self.line(f"nonlocal {changed}")
            self.line(f"{changed} += 1")
        self.scope.own["T"], self.scope.own["I"] = ["t"], ["k"]
        self.statements(self.random.randint(1, 3), depth)
        self.line(f"return {self.expression('T')}")
        self.indent -= 1
        self.scope, self.in_loop, self.in_generator = outer, loop, generator
        self.scope.own.setdefault("F", []).append(name)
        self.line(self.assigning(f"{{+T}} = {name}({{T}})"))

    def write_generator(self, depth: int) -> None:
        """A generator function, and what is done with a generator of it."""
        name = self._fresh("G")
        self.line(f"def {name}(t):")
        outer, self.scope = self.scope, Scope(self.scope)
        loop, self.in_loop, generator, self.in_generator = self.in_loop, False, self.in_generator, True
        self.indent += 1
        self.scope.own["T"] = ["t"]
        self.statements(self.random.randint(1, 3), depth)
        self.line(f"yield {self.expression('T')}")
        self.indent -= 1
        self.scope, self.in_loop, self.in_generator = outer, loop, generator
        use = self.random.choice(["list", "next", "loop", "send", "kept"])
        made = f"{name}({self.expression('T', 1)})"
        if use == "list":
            self.line(self.assigning(f"{{+L}} = list({made})"))
        elif use == "next":
            self.line(self.assigning(f"{{+T}} = next({made}, {{=T}})"))
        elif use == "send":
            self.line(f"sender = {made}")
            self.line("log.append(next(sender, None))")
            self.line(f"say(log, {self.expression('I')})")
            self.line("sender.close()")
        elif use == "kept":
            self.line(f"kept = {made}")
            self.line(self.assigning("{+T} = next(kept, {=T})"))
            self.line(f"say(log, {self.expression('I')})")
            self.line(self.assigning("{+L} = list(kept)"))
        else:
            self.line(f"for {self.assigning('{+T}')} in {made}:")
            self._loop_body(depth)

    def write_match(self, depth: int) -> None:
        """A `match` statement."""
        self.line(f"match ({self.expression('I')}, {self.expression('S')}):")
        self.indent += 1
        for pattern in self.random.sample(["(0, _)", "(int() as number, 'ab')", "(1 | 2 | 3, word)", "[_, str()]"], 2):
            self.line(f"case {pattern}:")
            self.body(depth)
        self.indent -= 1

    def write_class(self, depth: int) -> None:
        """A class defined on the way, with a method that closes over the function's variables."""
        name = self._fresh("C")
        self.line(f"class {name}(Box):")
        self.line("    def scaled(self, t):")
        self.line(f"        return t - {self.expression('T', 1)} + self.count")
        self.line(self.assigning(f"{{+O}} = {name}({{T}})"))

    # -- the whole -----------------------------------------------------------------------------------------------------
    def program(self) -> str:
        """The text of `main`."""
        for row in self.grammar.first:
            kind, value = row.split(" = ")
            self.line(f"{self.new(kind)} = {value}")
        self.statements(self.grammar.size, 3)
        shown = [self.scope.own[kind][-2:] for kind in self.grammar.shown]
        self.line(f"return [{', '.join(name for names in shown for name in names)}]")
        return "\n".join([f"def main({self.grammar.parameters}):", *self.lines, ""])
