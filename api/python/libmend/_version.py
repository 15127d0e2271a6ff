"""The versions of the package and of the loaded library."""

from __future__ import annotations

from . import _library

# The header's version. A test compares them.
__version__ = "0.1.0"


def library_version() -> str:
    """The version of the libmend in this process, as "0.1.0"."""
    number = _library.load("mend").mend_version()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
