"""PyTorch's memory from Mend.

    import libmend.torch
    libmend.torch.enable()          # the whole process, before the first tensor on a GPU

    with libmend.torch.pool():      # or a part of a program, under PyTorch's own cache
        model = build()

    with libmend.torch.sleep_tag("weights"):      # after enable()
        model = build()
    libmend.torch.sleep({"weights": "host"})      # releases its memory
    libmend.torch.wake()                          # the same tensors, at the same addresses

`MEND_TORCH=1` in the environment turns it on in programs that cannot be edited, at the end of their
`import torch`. `MEND_STACKS=1MiB` beside it records the lines that allocate. Supported features:
docs/frameworks/pytorch.md.
"""

from __future__ import annotations

import os
import sys
import threading

from .. import _stacks, _unused
from . import _engines, _stand_ins
from ._growing import GrowingTensor, grow_all
from ._pool import mem_pool, pool
from ._settings import make_shareable, pass_through, warn_of_settings
from ._sleep import contents_dropped, is_asleep, move_to_tag, sleep, sleep_tag, wake

__all__ = [
    "GrowingTensor",
    "contents_dropped",
    "enable",
    "grow_all",
    "is_asleep",
    "is_enabled",
    "mem_pool",
    "move_to_tag",
    "pool",
    "sleep",
    "sleep_tag",
    "wake",
]

_ON, _OFF = ("1", "on", "true", "yes"), ("", "0", "off", "false", "no")

_lock = threading.RLock()
# The library with the class, never unloaded. Not empty once Mend is on.
_kept: list[object] = []


def is_enabled() -> bool:
    """Whether PyTorch's memory comes from Mend in this process."""
    return bool(_kept)


def enable() -> None:
    """From now on all of PyTorch's CUDA memory comes from Mend. Call it before PyTorch's own
    allocator has allocated memory. A second call does nothing. It cannot be undone. Raises
    RuntimeError."""
    import torch

    from . import _build, _class

    with _lock:
        if _kept:
            return
        if not hasattr(torch._C, "_cuda_customAllocator"):
            raise RuntimeError(
                f"libmend.torch: PyTorch {torch.__version__} cannot take another CUDA allocator: it"
                " is older than 2.0, or built without CUDA"
            )
        try:
            library = _class.load(torch)
        except _build.NotAvailable as reason:
            raise RuntimeError(
                f"libmend.torch: its class for PyTorch {torch.__version__} is not available: "
                f"{reason}"
            ) from reason
        _stacks.record_as_asked()
        make_shareable()
        pass_through()
        is_initialized = torch.cuda.is_initialized()
        count = torch.cuda.device_count() if is_initialized else 0
        reason = _class.install(library, count)
        if reason:
            raise RuntimeError(
                "libmend.torch.enable() cannot put Mend in the place of PyTorch's allocator:"
                f" {reason}. {_cure()}"
            )
        _kept.append(library)
        _unused.is_on("torch")
        warn_of_settings()
        _engines.warn_of_engines(torch.cuda.device_count)


def _cure() -> str:
    """The remedies if PyTorch's allocator cannot be replaced."""
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        if "cudaMallocAsync" in os.environ.get(name, ""):
            return (
                f"Take backend:cudaMallocAsync out of {name} (ComfyUI: start it with"
                " --disable-cuda-malloc)"
            )
    return "Call it before the first tensor on a GPU, or set MEND_TORCH=1"


def _autoload() -> None:
    """PyTorch calls this at the end of `import torch` (entry point group torch.backends). A failure
    is printed, and PyTorch stays as it was."""
    wish = os.environ.get("MEND_TORCH", "0")
    if wish.lower() in _OFF:
        _unused.note_settings()
        _unused.watch()
        return
    try:
        if wish.lower() not in _ON:
            raise RuntimeError(f"MEND_TORCH is {wish!r}; it takes 1 or 0")
        enable()
        _stand_ins.install()
    except Exception as error:  # an exception would make `import torch` fail
        print(f"libmend: PyTorch keeps its own allocator: {error}", file=sys.stderr)
