"""Warnings for the program that called."""

from __future__ import annotations

import os
import sys
import warnings


def warn_user(message: str) -> None:
    """A RuntimeWarning for the line of the program that called, not for one of Mend or of PyTorch's
    import machinery."""
    level, frame = 1, sys._getframe()
    while frame is not None and _is_inside(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, RuntimeWarning, stacklevel=level)


def _is_inside(path: str) -> bool:
    own = os.path.dirname(__file__) + os.sep
    return path.startswith(("<frozen", own)) or f"{os.sep}torch{os.sep}" in path
