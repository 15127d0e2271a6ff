"""Loads Mend's class for the PyTorch that is there: the one that came with the package, or one that
is compiled now and kept, and puts it in the place of PyTorch's own allocator."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from .. import _library
from . import _build

_TEXT_BYTES = 4096


def load(torch) -> ctypes.CDLL:
    """The library with the class. Raises _build.NotAvailable."""
    libraries = [_library.load(name) for name in ("mend", "mend_torch")]
    path = path_for(torch)
    try:
        found = ctypes.CDLL(str(path))
        found.mend_torch_install.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t]
    except (OSError, AttributeError) as error:
        raise _build.NotAvailable(f"{path} cannot be loaded: {error}") from error
    found.needed = libraries  # they stay as long as it does
    return found


def install(library: ctypes.CDLL, device_count: int) -> str:
    """Puts the class in the place of PyTorch's own allocator. "": done; otherwise why not."""
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    failed = library.mend_torch_install(device_count, text, len(text))
    return text.value.decode(errors="replace").split("\nException raised from")[0] if failed else ""


def path_for(torch) -> Path:
    """The library with the class, made if it is not there. Raises _build.NotAvailable."""
    version = _build.check_version(torch.__version__)
    prebuilt = _build.PREBUILT / _build.prebuilt_name(version)
    has_usual_abi = bool(torch._C._GLIBCXX_USE_CXX11_ABI)
    if prebuilt.is_file() and has_usual_abi and os.environ.get("MEND_TORCH_PREBUILT") != "0":
        return prebuilt
    root = Path(torch.__file__).resolve().parent
    make = _build.command(
        _build.compiler(),
        version,
        "OUTPUT",
        [root / "include"],
        _build.cuda_headers_of(root),
        [_library.path_of("mend"), _library.path_of("mend_torch")],
        root / "lib",
        has_usual_abi,
    )
    return _build.compiled(f"torch-{torch.__version__}", make, make.index("OUTPUT"))
