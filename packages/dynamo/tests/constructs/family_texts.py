"""Texts: formatting of objects and values, exceptions with texts of their own, files and streams."""

from __future__ import annotations

import string
import warnings

import torch
from table import construct

X = torch.arange(6.0).reshape(2, 3)


class Coded(Exception):
    def __init__(self, text, *, code=0):
        super().__init__(text)
        self.code = code

    def __str__(self):
        return f"{self.args[0]} ({self.code})"


@construct(X)
def exception_with_a_text_of_its_own(x):
    try:
        raise Coded("bad", code=3)
    except Coded as error:
        print(error)
        return x * error.code, str(error), f"{error}", repr(error), error.args


@construct(X)
def formatter_object(x):
    return x, string.Formatter().format("{a}-{0}", 5, a=1), list(string.Formatter().parse("a{b}"))


@construct(X, breaks="call")
def warning_that_a_filter_raises(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            warnings.warn("inside", stacklevel=1)
        except UserWarning as error:
            return x * 2, str(error)


def quantized_twice(x):
    return torch.quantize_per_tensor(x, 0.1, 0, torch.quint8).dequantize() * 2


quantized_twice(X)  # torch warns of the function once a process


@construct(X, breaks="fake")
def quantized(x):
    return quantized_twice(x)
