"""Warnings for the program that called."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from typing import NamedTuple


class Place(NamedTuple):
    """A line of the program, and what Python keeps of warnings that were given there."""

    file: str
    line: int
    registry: dict


def warn_user(message: str) -> None:
    """A RuntimeWarning for the line of the program that called, not for one of Mend or of PyTorch's
    import machinery."""
    warn_of(message, place_of_user())


def warn_of(message: str, place: Place | None) -> None:
    """The same for a line from before. Without one it is a line on standard error."""
    if place is None:
        print(message, file=sys.stderr)
    else:
        kind = RuntimeWarning
        warnings.warn_explicit(message, kind, place.file, place.line, registry=place.registry)


def place_of_user() -> Place | None:
    """The line of the program that called, if one did."""
    frame = sys._getframe()
    while frame is not None and _is_inside(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return None
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    return Place(frame.f_code.co_filename, frame.f_lineno, registry)


def _is_inside(path: str) -> bool:
    own = os.path.dirname(__file__) + os.sep
    torch = getattr(sys.modules.get("torch"), "__file__", None)
    others = (os.path.dirname(torch) + os.sep,) if torch else ()
    return path.startswith(("<frozen", own, *others)) or path == contextlib.__file__
