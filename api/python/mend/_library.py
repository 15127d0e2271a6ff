"""Finds and loads Mend's shared libraries, each once in a process.

They lie in `lib/` beside this file, and their headers in `include/`. Where the process has a
libmend already, it is that one which counts: two would be two allocators that do not know of each
other.
"""

from __future__ import annotations

import ctypes
import os
import threading
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
LIBRARIES = PACKAGE / "lib"
HEADERS = PACKAGE / "include"

_loaded: dict[str, ctypes.CDLL] = {}
_lock = threading.Lock()


def path_of(name: str) -> Path:
    """The file of a library. Those that programs link have a version behind their name."""
    plain = LIBRARIES / f"lib{name}.so"
    for candidate in (plain, *sorted(LIBRARIES.glob(f"lib{name}.so.[0-9]*"))):
        if candidate.is_file():
            return candidate
    raise ImportError(f"mend: there is no {plain}: the package is not installed as a whole")


def load(name: str) -> ctypes.CDLL:
    """The library, loaded after libmend, which all others need. Raises ImportError."""
    with _lock:
        for needed in ("mend", name):
            if needed not in _loaded:
                _loaded[needed] = _open(path_of(needed))
        return _loaded[name]


def _open(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(path.name, mode=os.RTLD_NOLOAD)
    except OSError:
        pass  # the process has none yet
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(f"mend: {path} cannot be loaded: {error}") from error


def address_of(library: ctypes.CDLL, function: str) -> int:
    """The address of an exported function, for frameworks that take it as a number."""
    return ctypes.cast(getattr(library, function), ctypes.c_void_p).value or 0


def header(name: str) -> str:
    """The text of a header of the library that is shipped."""
    return (HEADERS / "mend" / name).read_text(encoding="utf-8")
