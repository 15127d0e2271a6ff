"""Mend's out of memory as programs of PyTorch catch it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

from .._errors import OutOfMemoryError


@functools.cache
def _class(torch) -> type[OutOfMemoryError]:
    return type(
        "OutOfMemoryError",
        (OutOfMemoryError, torch.OutOfMemoryError),
        {"__module__": "libmend.torch", "__doc__": "mend's and torch's OutOfMemoryError."},
    )


@contextlib.contextmanager
def as_pytorch() -> Iterator[None]:
    """libmend.OutOfMemoryError that is raised inside becomes one that is torch.OutOfMemoryError
    too."""
    import torch

    try:
        yield
    except OutOfMemoryError as error:
        names = ("result", "name", "driver_status", "driver_name", "driver_call")
        values = {name: getattr(error, name) for name in names}
        raise _class(torch)(str(error), **values) from None
