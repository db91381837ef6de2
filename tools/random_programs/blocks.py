"""`WideWriter`: programs of the second edition, with the statements that `writer` has no method for."""

from __future__ import annotations

from tools.random_programs.writer import ProgramWriter

_PATTERNS = [
    "Box(count=1 | 2 as number)",
    "Record(value=_, count=number) if number > 1",
    "Slot(level=0)",
    "{'a': found, **rest}",
    "[first, *others]",
    "(1, *_) | (2, *_)",
    "'ab' | 'a' as text",
    "int(number) if number % 2",
    "Color.RED",
    "None | True",
]
_CLASSES = [
    ("(Slot)", "__slots__ = ('own',)", "A"),
    ("(DeepSlot)", "limit = 3", "A"),
    ("(Special)", "made = 5", "O"),
    ("(Box)", "count = 8", "O"),
]


class WideWriter(ProgramWriter):
    """Writes one program of the second edition."""

    def _lines(self, template: str) -> None:
        """Some lines at the present indentation; each is filled, and what it assigns counts as set."""
        for line in template.split("\n"):
            stripped = line.lstrip()
            self.line(line[: len(line) - len(stripped)] + self.assigning(stripped))

    def _plain(self, count: int = 1) -> None:
        """Statements without blocks, where nothing may be left by `break`, `continue` or `return`."""
        before, self.in_loop = self.in_loop, False
        with self.block():
            self.statements(count, 0)
        self.in_loop = before

    def write_star_handlers(self, depth: int) -> None:
        """A group of exceptions, and handlers of parts of it."""
        self.line("try:")
        self._plain()
        members = ", ".join(f"{self.expression('E')}({self.expression('S')})" for _ in range(self.random.randint(1, 3)))
        self.line(f"    raise ExceptionGroup('group', [{members}])")
        for caught in self.random.sample(["ValueError", "KeyError", "(Trouble, RuntimeError)", "LookupError"], 2):
            self.line(f"except* {caught} as group:")
            self.line("    log.append([(type(e).__name__, str(e)) for e in group.exceptions])")
            self._plain()

    def write_leaving_finally(self, depth: int) -> None:
        """A `finally` that leaves a loop, whatever was going on."""
        self._lines("for {+I} in range({I} % 4):")
        self.line("    try:")
        self.indent += 1
        self.body(0)
        self.indent -= 1
        self._lines("    finally:\n        log.append({I})")
        if self.random.random() < 0.6:
            self._lines(f"        if {{B}}:\n            {self.random.choice(['break', 'continue'])}")

    def write_stack(self, depth: int) -> None:
        """An `ExitStack`."""
        self.line("with contextlib.ExitStack() as stack:")
        self._lines("    {+I} = stack.enter_context(scope(log, {c}))\n    stack.callback(log.append, {I})")
        if self.random.random() < 0.5:
            self._lines("    stack.enter_context(Manager(log, {B}))")
        self.body(depth)

    def write_thrown(self, depth: int) -> None:
        """A generator that is driven by hand."""
        name = self.new("Y")
        self._lines(f"{name} = {self.random.choice(['catching', 'outer'])}({{T}}, log)\nlog.append(next({name}))")
        for _ in range(self.random.randint(1, 3)):
            step = self.random.choice([f"{name}.send({{T}})", f"{name}.throw(KeyError({{S}}))", f"next({name}, None)"])
            self._lines(f"log.append({step})" if self.random.random() < 0.7 else "say(log, {I})")
        end = [f"{name}.close()", "pass", f"log.append(list({name}))", f"{name}.throw({{E}}('end'))"]
        self._lines(self.random.choice(end))

    def write_recursion(self, depth: int) -> None:
        """A nested function that calls itself."""
        name = self._fresh("F")
        self._lines(f"def {name}(t, left={{c}}):\n    if left <= 0:\n        return t - {{T}}")
        self._lines("    log.append(left)" if self.random.random() < 0.5 else "    say(log, left)")
        self._lines(f"    return {name}(t * {{c}}, left - 1) + left")
        self.scope.own.setdefault("F", []).append(name)
        self._lines(f"{{+T}} = {name}({{T}})")

    def write_late_closures(self, depth: int) -> None:
        """Functions made in a loop, which share its variable or keep its value."""
        made = f"made{self.names}"
        self._lines(f"{made} = []\nfor step in range({{I}} % 4):")
        kept = self.random.choice(
            ["lambda t: t + step", "lambda t, step=step: t * step", "functools.partial(many, b=step)"]
        )
        self._lines(f"    {made}.append({kept})" + "\n    say(log, step)" * (self.random.random() < 0.4))
        self._lines(f"{{+L}} = [f({{T}}) for f in {made}]")

    def write_decorated(self, depth: int) -> None:
        """A decorated nested function."""
        name = self._fresh("F")
        self.line("@" + self.random.choice(["traced(log)", "functools.cache", "traced(log, 'x')"]))
        self._lines(f"def {name}(t, k={{c}}, *rest):\n    log.append(k)")
        self._lines("    say(log, t)" if self.random.random() < 0.4 else "    log.append(len(rest))")
        self._lines(f"    return t * k + {{T}}\n{{+T}} = {name}({{T}})\n{{+T}} = {name}(t={{T}}, k={{I}})")

    def write_deleted(self, depth: int) -> None:
        """A variable that is deleted, and read."""
        name = f"gone{self.names}"
        self._lines(f"{name} = {{T}}\nif {{B}}:\n    del {name}\nsay(log, {{I}})\ntry:\n    {{+T}} = {name} + 1")
        self.line("except NameError as error:")
        self.line("    log.append(str(error))")

    def write_own_class(self, depth: int) -> None:
        """A class of the function, with `super`, a property and names of the function inside."""
        base, row, kind = self.random.choice(_CLASSES)
        name = self._fresh("C")
        self._lines(f"class {name}{base}:\n    {row}")
        self._lines("    def __init__(self, *args):\n        super().__init__(*args)\n        self.own = {I}")
        self._lines("    @property\n    def seen(self):\n        return (self.own, {S})")
        if self.random.random() < 0.5:
            self._lines("    def __len__(self):\n        say(log, 'len')\n        return super().__len__() + 1")
        self._lines(
            f"{{+{kind}}} = {name}({{T}}, {{I}})\nlog.append({{={kind}}}.seen if hasattr({{={kind}}}, 'seen') else 0)"
        )

    def write_patterns(self, depth: int) -> None:
        """A `match` of objects, mappings and sequences."""
        subject = self.random.choice(["{O}", "{D}", "{U}", "{S}", "{I}", "{A}", "{N}", "Color({c} % 2 + 1)"])
        self._lines(f"match {subject}:")
        self.indent += 1
        for pattern in self.random.sample(_PATTERNS, 4):
            self.line(f"case {pattern}:")
            self.body(0)
        self.line("case other:")
        self.line("    log.append(type(other).__name__)")
        self.indent -= 1

    def write_forever(self, depth: int) -> None:
        """`while True`, left from inside of a `with` or `try`."""
        if self.loops >= 2:
            return self.write_if(depth)
        left = f"left{self.names}"
        self.names += 1
        self._lines(f"{left} = {{c}}\nwhile True:\n    {left} -= 1")
        opening = self.random.choice([f"with scope(log, {left}):", "try:", "with Counted() as level:"])
        self.line(f"    {opening}")
        self._lines(
            f"        if {left} < 0:\n            {self.random.choice(['break', 'break', 'raise KeyError(1)'])}"
        )
        self.indent += 1
        self.loops += 1
        self._plain()
        self.loops -= 1
        if opening == "try:":
            self._lines("except KeyError:\n    break")
        self.indent -= 1

    def write_as_target(self, depth: int) -> None:
        """A `with` whose value is used."""
        self._lines(self.random.choice(["with scope(log, {I}) as {+I}:", "with Counted() as {+I}, scope(log, {c}):"]))
        self.body(depth)

    def write_cells(self, depth: int) -> None:
        """Two functions that share a variable of the function around them."""
        base = f"shared{self.names}"
        self.names += 1
        self._lines(f"{base} = {{I}}\ndef put_{base}(number):\n    nonlocal {base}\n    {base} = number")
        self._lines("    say(log, number)" if self.random.random() < 0.5 else "    return number")
        self._lines(f"def get_{base}():\n    return {base} + {{c}}\nput_{base}({{I}})\n{{+I}} = get_{base}()")
        self._lines(f"for {base} in range(2):\n    log.append(get_{base}())")

    def write_chained(self, depth: int) -> None:
        """An exception raised while another is handled, and what the handler around sees."""
        self._lines("try:\n    try:\n        {+T} = {T}\n        raise {E}({S})\n    except Exception as inner:")
        self._lines("        say(log, 'in')" if self.random.random() < 0.5 else "        log.append(repr(inner))")
        how = self.random.choice(["raise {E}('new')", "raise {E}('new') from inner", "raise", "inner.args[5]"])
        self._lines(f"        {how}\nexcept Exception as caught:")
        self.line("    log.append((repr(caught), repr(caught.__cause__), repr(caught.__context__)))")
        self.line("    log.append(sys.exc_info()[1] is caught)")

    def write_nested_function_break(self, depth: int) -> None:
        """A function whose blocks hold what breaks, called where its caller has blocks of its own."""
        name = self._fresh("F")
        self._lines(f"def {name}(t, k=1):\n    with scope(log, k):\n        try:\n            say(log, t)")
        self._lines(
            "            fail_if({B}, {E}, log)\n            return t + k\n        finally:\n            log.append(k)"
        )
        self.scope.own.setdefault("F", []).append(name)
        self._lines(f"try:\n    {{+T}} = {name}({{T}}, k={{I}}) * 2\nexcept ValueError:\n    {{+T}} = {{=T}}")
