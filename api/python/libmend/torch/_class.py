"""Loads Mend's class for the installed PyTorch, from the package or compiled now and cached, and
replaces PyTorch's own allocator by it."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from .. import _library
from . import _build

_TEXT_BYTES = 4096
_HINT = ": about ten seconds. Do it beforehand with python -m libmend.torch build"


def load(torch) -> ctypes.CDLL:
    """The library with the class. Raises _build.NotAvailable."""
    libraries = [_library.load(name) for name in ("mend", "mend_torch")]
    path = path_for(torch, is_for_gpu=True)
    try:
        found = ctypes.CDLL(str(path))
        found.mend_torch_install.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t]
    except (OSError, AttributeError) as error:
        raise _build.NotAvailable(f"{path} cannot be loaded: {error}") from error
    found.needed = libraries  # they stay as long as it does
    return found


def install(library: ctypes.CDLL, device_count: int) -> str:
    """Puts the class in the place of PyTorch's own allocator. "": done. Otherwise the reason why
    not."""
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    failed = library.mend_torch_install(device_count, text, len(text))
    return text.value.decode(errors="replace").split("\nException raised from")[0] if failed else ""


def path_for(torch, is_for_gpu: bool) -> Path:
    """The library with the class, made if it is not there. One that is for a GPU of this process is
    not made where it has none, as PyTorch counts them by NVML. Raises _build.NotAvailable."""
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
    path = _build.path_in_cache(f"torch-{torch.__version__}", make)
    if is_for_gpu and not _build.is_ours(path) and torch.cuda.device_count() == 0:
        raise _build.NotAvailable(
            "PyTorch finds no GPU, so it is not compiled; python -m libmend.torch build does it"
            " without one"
        )
    return _build.compiled(path, make, make.index("OUTPUT"), _HINT)
