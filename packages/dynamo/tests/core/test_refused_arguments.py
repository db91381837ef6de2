"""Errors of tensor functions that refuse their arguments: the text is eager's, and nobody else hears of it."""

from __future__ import annotations

import logging

import pytest
import torch
import triptych_dynamo


def sizes(x, y):
    return x + y


def view(x, y):
    with torch.no_grad():
        return x.view(7)


def index(x, y):
    return y[10]


def join(x, y):
    return torch.cat([x, y.unsqueeze(0)])


def product(x, y):
    return x @ torch.ones(5)


def inside(x, y):
    def stack(*tensors):
        return torch.stack(tensors)

    return stack(x, y)


def number(x, y):
    return torch.linspace(0, 1, -3)


PROGRAMS = [sizes, view, index, join, product, inside, number]
ARGUMENTS = (torch.ones(3), torch.ones(4))


@pytest.mark.parametrize("refused", PROGRAMS)
def test_a_caught_error_has_its_text(refused):
    def program(x, y):
        try:
            return refused(x * 2, y)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
        return x + 1, text

    result, text = triptych_dynamo.optimize("eager")(program)(*ARGUMENTS)
    assert (result.tolist(), text) == (program(*ARGUMENTS)[0].tolist(), program(*ARGUMENTS)[1])


def test_a_manager_sees_the_text():
    class Noting:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, traceback):
            self.text = str(error)
            return True

    def program(x, y):
        with Noting() as noting:
            x + y
        return x, noting.text

    assert triptych_dynamo.optimize("eager")(program)(*ARGUMENTS)[1] == program(*ARGUMENTS)[1]


@pytest.mark.parametrize("fullgraph", [False, True])
def test_an_error_that_leaves_has_its_text(fullgraph):
    with pytest.raises(RuntimeError) as plain:
        sizes(*ARGUMENTS)
    with pytest.raises(RuntimeError) as compiled:
        triptych_dynamo.optimize("eager", fullgraph=fullgraph)(sizes)(*ARGUMENTS)
    assert str(compiled.value) == str(plain.value)


def test_nothing_is_logged(caplog, capfd):
    logging.getLogger("torch._subclasses.fake_tensor").addHandler(caplog.handler)
    with pytest.raises(RuntimeError):
        triptych_dynamo.optimize("eager")(sizes)(*ARGUMENTS)
    logging.getLogger("torch._subclasses.fake_tensor").removeHandler(caplog.handler)
    assert not caplog.records and capfd.readouterr().err == ""


def test_what_others_run_on_shapes_is_logged(caplog):
    from torch._subclasses.fake_tensor import FakeTensorMode

    triptych_dynamo.optimize("eager")(sizes)(torch.ones(3), torch.ones(3))
    logging.getLogger("torch._subclasses.fake_tensor").addHandler(caplog.handler)
    with FakeTensorMode() as mode, pytest.raises(RuntimeError):
        mode.from_tensor(torch.ones(3)) + mode.from_tensor(torch.ones(4))
    logging.getLogger("torch._subclasses.fake_tensor").removeHandler(caplog.handler)
    assert caplog.records
