"""Files in memory: `io.StringIO` and `io.BytesIO` made by the program, and output that goes to them."""

from __future__ import annotations

import contextlib
import io
import sys

import torch
import triptych_dynamo
from table import construct

X = torch.arange(6.0).reshape(2, 3)


class Shown:
    def __str__(self):
        return "shown"


@construct(X, 4)
def text_written_and_read(x, n):
    s = io.StringIO()
    count = s.write("abc")
    print("d", 1, n, Shown(), file=s, sep="-")
    s.writelines(["x", "y\n"])
    s.seek(0)
    read = s.read(2), s.tell(), s.readline(), s.getvalue()
    s.truncate(3)
    facts = s.closed, s.readable(), bool(s), isinstance(s, io.TextIOBase), s == s, s != io.StringIO()
    return x * count, read, s.getvalue(), facts


@construct(X)
def a_file_in_memory_as_manager_and_iterator(x):
    with io.StringIO("a\nb\nc") as s:
        first = next(s)
        rest = [line for line in s]
    try:
        s.read()
    except ValueError as error:
        return x, first, rest, s.closed, str(error)


def _text(function, *args):
    try:
        return function(*args)
    except (TypeError, OSError, ValueError) as error:
        return type(error), str(error)


@construct(X)
def errors_of_files_in_memory(x):
    s, b = io.StringIO(), io.BytesIO()
    view = b.getbuffer()
    texts = [_text(s.write, b"q"), _text(io.BytesIO, "q"), _text(s.fileno), _text(s.seek, -1), _text(b.read, "x")]
    return x, texts, len(view)


@construct(X)
def bytes_written_and_read(x):
    b = io.BytesIO(b"abc")
    first = b.read(1)
    b.write(b"zz")
    view = b.getbuffer()
    view[0] = 65
    view.release()
    into = bytearray(2)
    b.seek(0)
    count = b.readinto(into)
    b.write(b"longer")
    return x * count, first, b.getvalue(), b.tell(), into, torch.tensor(list(b.getvalue()))


@construct(X)
def output_into_a_file_in_memory(x):
    s = io.StringIO()
    print("before")
    with contextlib.redirect_stdout(s), contextlib.redirect_stderr(io.StringIO()) as errors:
        print("hi", x.shape)
        print("err", file=sys.stderr)
        print("yo", end="")
    print("after")
    return x * 2, s.getvalue(), errors.getvalue()


@construct(X)
def stdout_put_back(x):
    s, before = io.StringIO(), sys.stdout
    sys.stdout = s
    try:
        print("inside")
    finally:
        sys.stdout = before
    sys.stdout.write("outside\n")
    print("end")
    return x, s.getvalue()


@construct(X, breaks="explicit")
def output_redirected_over_a_break(x):
    s = io.StringIO()
    with contextlib.redirect_stdout(s):
        print("a")
        triptych_dynamo.graph_break()
        print("b", x.sum())
    return x, s.getvalue()


@construct(X, breaks="input-output")
def a_tensor_printed_into_memory(x):
    s = io.StringIO()
    with contextlib.redirect_stdout(s):
        print(x)
    return x + 1, s.getvalue()


@construct(X, breaks="explicit")
def files_in_memory_over_a_break(x):
    s, b, done = io.StringIO("ab\n"), io.BytesIO(b"qq"), io.StringIO()
    s.seek(1)
    b.seek(0, 2)
    done.close()
    triptych_dynamo.graph_break()
    s.write("Q")
    b.write(b"r")
    return x * 2, s.getvalue(), b.getvalue(), s.tell(), done.closed
