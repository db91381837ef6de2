"""Calls that are tried for real, on tensors made for it: what torch says against a call before it is recorded."""

from __future__ import annotations

import warnings
from typing import Any

import torch


def error_of(target: Any, args: Any, kwargs: Any) -> Exception | None:
    """What a call raises, without its traceback, or None.

    Args:
        target: the name of a method of the first argument, or a function.
        args: real arguments.
        kwargs: the same by name.
    """
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if isinstance(target, str):
                getattr(args[0], target)(*args[1:], **kwargs)
            else:
                target(*args, **kwargs)
    except Exception as error:
        return error.with_traceback(None)
    return None
