"""What code of the program raises while the tracer runs it natively is the program's; a fault of the tracer says so."""

import enum
import fractions
import signal
import sys

import pytest
import torch
import triptych_dynamo
from triptych_dynamo.errors import TracerFault
from triptych_dynamo.values.callables.builtin_functions import builtin


class Key:
    """A key that is equal to none, loudly."""

    def __init__(self, name):
        self.name = name

    def __hash__(self):
        return 1

    def __eq__(self, other):
        raise ValueError(f"{self.name} is compared")


class Asking(type):
    """A metaclass whose checks fail."""

    def __subclasscheck__(cls, other):
        raise ValueError(f"a subclass? {other.__name__}")

    def __instancecheck__(cls, other):
        raise ValueError("an instance?")


class Asked(metaclass=Asking):
    pass


class Wide(type):
    """A metaclass whose check takes what has one dimension, or is a number."""

    def __instancecheck__(cls, other):
        return isinstance(other, int) or getattr(other, "ndim", 0) == 1


class Broad(metaclass=Wide):
    pass


class Refusing(type):
    def __new__(cls, name, *_args):
        raise KeyError(name)


class Mute(Exception):
    """An error whose text fails as well."""

    def __str__(self):
        raise OSError


class MuteKey(Key):
    __hash__ = Key.__hash__

    def __eq__(self, other):
        raise Mute


class Colour(enum.Enum):
    RED = 1


KEYS, OTHER = {Key("one"): 1}, Key("two")


def class_statement(*bases, metaclass=type, **members):
    """A class made in the region."""

    class Made(*bases, metaclass=metaclass):
        locals().update(members)

    return Made


def more_colours():
    class MoreColours(Colour):
        GREEN = 2

    return MoreColours


def two_metaclasses():
    class One(type):
        pass

    class Two(type):
        pass

    class A(metaclass=One):
        pass

    class B(metaclass=Two):
        pass

    class Both(A, B):
        pass


def reserved_name():
    class Reserved(enum.Enum):
        _new_ = 1


def other_bases():
    class Made(list):
        pass

    Made.__bases__ = (dict,)


def no_text_for_a_name():
    class Made:
        pass

    Made.__name__ = Key("name")


def handled_by_asked():
    try:
        raise TypeError("first")
    except Asked:
        return "handled"


class Five:
    """An index, and nothing else; the text of it is refused where it is negative."""

    def __init__(self, value=5):
        self.value = value

    def __index__(self):
        if self.value < 0:
            raise ValueError("negative")
        return self.value


def bad_descriptor():
    class Descriptor:
        def __set_name__(self, owner, name):
            raise ValueError(name)

    class Made:
        item = Descriptor()


PROGRAMS = {
    "a __set_name__": bad_descriptor,
    "a repetition": lambda: [1] * Five(-1),
    "an index in a text": lambda: "%x" % Five(-1),  # noqa: UP031
    "a text of no number": lambda: "%f" % None,  # noqa: UP031
    "a key of a dictionary": lambda: KEYS[OTHER],
    "a key that is looked for": lambda: OTHER in KEYS,
    "a member of a new set": lambda: {Key("new")} | {Key("newer")},
    "an error without a text": lambda: {MuteKey("a"): 1}[MuteKey("b")],
    "isinstance": lambda: isinstance("x", Asked),
    "issubclass": lambda: issubclass(int, Asked),
    "a handler's class": handled_by_asked,
    "a module that is not there": lambda: __import__("no_such_module_at_all"),
    "a module that fails": lambda: __import__("module_that_divides"),
    "a metaclass": lambda: class_statement(metaclass=Refusing),
    "an enumeration with members": more_colours,
    "a reserved name": reserved_name,
    "two metaclasses": two_metaclasses,
    "a base that cannot be one": lambda: class_statement(bool),
    "bases that do not fit": other_bases,
    "a name that is no text": no_text_for_a_name,
    "a number of too many digits": lambda: str(10**5000),
    "an error that wants five arguments": lambda: UnicodeEncodeError("ascii"),
    "an unknown name of an error": lambda: ImportError("x", nmae="y"),
    "super of another class": lambda: super(Key, 3).__hash__(),
}


def outcome(function, x):
    """A result, or the type and arguments of an error; errors of this Python show their texts."""
    try:
        return function(x)
    except Exception as error:
        return type(error), error.args


@pytest.fixture(autouse=True)
def failing_module(tmp_path, monkeypatch):
    """A module that cannot be imported."""
    (tmp_path / "module_that_divides.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_error_of_the_program_surfaces_and_is_handled(name):
    program = PROGRAMS[name]

    def surfaces(x):
        return x + 1, program()

    def handled(x):
        x = x + 1
        try:
            program()
        except Exception as error:
            return (x * 2).tolist(), type(error), error.args
        return "nothing was raised"

    for function in (surfaces, handled):
        expected = outcome(function, torch.ones(2))
        assert isinstance(expected[1 if function is surfaces else 2], tuple)  # the plain program does raise
        compiled = triptych_dynamo.optimize("eager")(function)
        assert [outcome(compiled, torch.ones(2)) for _ in range(2)] == [expected] * 2


def test_an_instance_check_of_the_program_is_asked():
    def program(x):
        return x + 1, [isinstance(item, (str, Broad)) for item in (x * 2, x[0], 3, [x], None, Broad(), "text")]

    compiled = triptych_dynamo.optimize("eager", fullgraph=True)(program)
    assert compiled(torch.ones(2))[1] == program(torch.ones(2))[1] == [True, False, True, False, False, True, True]


def test_an_index_is_a_number_in_repetitions_and_texts():
    def program(x):
        five, items = Five(), [x]
        items *= five
        texts = "%d %x %o %5.1f %c" % (five, five, five, five, Five(65)), "%d" % fractions.Fraction(7, 2)  # noqa: UP031
        return items, (1, 2) * five, five * "ab", "ab" * five, b"a" * five, texts

    compiled = triptych_dynamo.optimize("eager", fullgraph=True)(program)
    assert repr(compiled(torch.ones(2))) == repr(program(torch.ones(2)))


def test_an_import_by_the_function_takes_all_its_arguments():
    def program(x):
        return x + 1, __import__("xml.dom"), __import__("xml.dom", fromlist=["Node"])

    compiled = triptych_dynamo.optimize("eager")(program)
    assert compiled(torch.ones(2))[1:] == program(torch.ones(2))[1:]


def test_a_break_names_the_error():
    with pytest.raises(triptych_dynamo.GraphBreakError, match="DYN0037 native-error: TypeError: metaclass conflict"):
        triptych_dynamo.capture(lambda x: (x + 1, two_metaclasses()))(torch.ones(2))


def faulty():
    """A function on which the tracer fails."""
    return 3


@builtin(faulty)
def _faulty(tx):
    return tx.raise_caught(None)  # which is no exception: the tracer's own code fails


def use_of_faulty(x):
    return x + faulty()


def test_a_fault_of_the_tracer_names_the_line_and_the_way_on():
    with pytest.raises(TracerFault, match="AttributeError: ") as caught:
        triptych_dynamo.optimize("eager")(use_of_faulty)(torch.ones(2))
    line = use_of_faulty.__code__.co_firstlineno + 1
    assert f"{__file__}:{line}" in str(caught.value) and 'on_error="eager"' in str(caught.value)
    assert isinstance(caught.value.__cause__, AttributeError)


def test_a_fault_is_a_warning_where_the_options_say_so():
    options = triptych_dynamo.Options(on_error="eager")
    compiled = triptych_dynamo.optimize("eager", options=options)(use_of_faulty)
    with pytest.warns(UserWarning, match="the tracer failed at .*; the frame runs eagerly"):
        assert compiled(torch.ones(2)).tolist() == [4, 4]
    assert compiled(torch.ones(2)).tolist() == [4, 4]


class Alarm(Exception):
    pass


def ring(_number, _frame):
    raise Alarm


class Slow(type):
    """A signal comes while the tracer asks."""

    def __subclasscheck__(cls, other):
        signal.raise_signal(signal.SIGUSR1)
        return True


class Slowed(metaclass=Slow):
    pass


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_what_a_handler_of_signals_raises_is_not_swallowed():
    former = signal.signal(signal.SIGUSR1, ring)
    try:
        with pytest.raises(Alarm):
            triptych_dynamo.optimize("eager")(lambda x: (x + 1, issubclass(int, Slowed)))(torch.ones(2))
    finally:
        signal.signal(signal.SIGUSR1, former)
