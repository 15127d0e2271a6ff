"""Finds and loads Mend's shared libraries, each once in a process.

They are in `lib/` beside this file, and their headers in `include/`. If the process has loaded a
libmend already, that one is used: two would be two allocators that do not know of each other.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from pathlib import Path

from . import _standin

PACKAGE = Path(__file__).resolve().parent
LIBRARIES = PACKAGE / "lib"
HEADERS = PACKAGE / "include"
DRIVER = PACKAGE / "share" / "mend" / "driver"  # where linkers find a libcuda

_loaded: dict[str, ctypes.CDLL] = {}
_lock = threading.Lock()


def path_of(name: str) -> Path:
    """The file of a library. Libraries that programs link have a version in their name. Without it
    they are texts for the linker in a wheel, which has no links."""
    plain = LIBRARIES / f"lib{name}.so"
    for candidate in (*sorted(LIBRARIES.glob(f"lib{name}.so.[0-9]*")), plain):
        if candidate.is_file():
            return candidate
    raise ImportError(f"libmend: there is no {plain}: the package is not installed as a whole")


def cache_folder() -> Path:
    """The folder for compiled parts."""
    chosen = os.environ.get("MEND_CACHE_DIR")
    if chosen:
        return Path(chosen)
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(caches) / "mend"


def load(name: str) -> ctypes.CDLL:
    """Loads a library after libmend, which all others need. Raises ImportError."""
    with _lock:
        for needed in ("mend", name):
            if needed not in _loaded:
                _loaded[needed] = _open(path_of(needed))
                if needed == "mend":
                    # Python's end frees what modules hold, and that is no work of the program.
                    atexit.register(_loaded[needed].mend_recorders_end)
                if needed == "mend" and _standin.is_loaded():
                    _use_simulated_device(_loaded[needed])
        return _loaded[name]


def _use_simulated_device(mend: ctypes.CDLL) -> None:
    """Makes libmend's default pools on the device of the simulated CUDA runtime."""
    from . import _structures

    device = _standin.device()
    if device:
        simulation = _open(path_of("mend_sim"))
        simulation.mend_sim_driver.restype = ctypes.c_void_p
        driver = simulation.mend_sim_driver(ctypes.c_void_p(device))
        config = _structures.made("mend_pool_config", driver=driver)
        mend.mend_set_default_config(-1, ctypes.byref(config))


def _open(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(path.name, mode=os.RTLD_NOLOAD)
    except OSError:
        pass  # none is loaded yet
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(f"libmend: {path} cannot be loaded: {error}") from error


def header(name: str) -> str:
    """The text of a header that is shipped with the library."""
    return (HEADERS / "mend" / name).read_text(encoding="utf-8")
