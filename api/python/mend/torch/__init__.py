"""PyTorch's memory from Mend.

    import mend.torch
    mend.torch.enable()          # the whole process, before anything was allocated on a GPU

    with mend.torch.pool():      # or a part of a program, under PyTorch's own cache
        model = build()

`MEND_TORCH=1` in the environment turns it on in programs that cannot be edited, at the end of their
`import torch`. What works, and what cannot: docs/frameworks/pytorch.md.
"""

from __future__ import annotations

import os
import sys
import threading

from .. import _library
from . import _refusals
from ._pool import mem_pool, pool

__all__ = ["enable", "is_enabled", "mem_pool", "pool"]

_lock = threading.RLock()
# PyTorch has addresses of these, so they are never freed; not empty once Mend is on.
_kept: list[object] = []

# The other functions that PyTorch calls: the setter of its allocator, and our function.
_SETTERS = {
    "set_record_stream_fn": "mend_torch_record_stream",
    "set_base_alloc_fn": "mend_torch_base_alloc",
    "set_init_fn": "mend_torch_init",
    "set_memory_fraction_fn": "mend_torch_memory_fraction",
    "set_reset_fn": "mend_torch_reset",
    "set_begin_allocate_to_pool": "mend_torch_begin_pool",
}


def is_enabled() -> bool:
    """Whether PyTorch's memory comes from Mend in this process."""
    return bool(_kept)


def enable() -> None:
    """From now on all of PyTorch's CUDA memory comes from Mend. Call it before anything was
    allocated on a GPU; a second call does nothing; it cannot be undone. Raises RuntimeError."""
    import torch

    from . import _adapter, _statistics

    with _lock:
        if _kept:
            return
        _check(torch)
        library = _library.load("mend_torch")
        allocator = _allocator(torch, _adapter)
        _connect(allocator._allocator, library)
        try:
            torch.cuda.memory.change_current_allocator(allocator)
        except RuntimeError as error:
            raise RuntimeError(_TOO_LATE) from error
        _kept.extend((allocator, library))
        for name, function in _statistics.replacements(torch).items():
            if hasattr(torch._C, name):
                setattr(torch._C, name, function)
        _refusals.install(torch)


_TOO_LATE = (
    "mend.torch.enable() comes too late: PyTorch has initialised CUDA already, its own allocator"
    " with it, and cannot change that any more. So do tensors on a GPU, torch.cuda.set_device,"
    " current_device, synchronize and get_device_name. Call it right after `import torch`, or set"
    " MEND_TORCH=1"
)


def _check(torch) -> None:
    if not hasattr(torch._C, "_cuda_customAllocator"):
        raise RuntimeError(
            f"mend.torch: PyTorch {torch.__version__} cannot take another CUDA allocator: it is"
            " older than 2.0, or built without CUDA"
        )


def _allocator(torch, adapter):
    """PyTorch's pluggable allocator, with the C++ part if that is available."""
    try:
        names = (str(adapter.load(torch)), "mend_torch_adapter_alloc", "mend_torch_adapter_free")
    except adapter.NotAvailable as reason:
        _refusals.warn_user(
            "mend.torch: without its C++ part out of memory is a RuntimeError, not a"
            f" torch.OutOfMemoryError, and the profiler sees no memory: {reason}"
        )
        names = (str(_library.path_of("mend_torch")), "mend_torch_alloc", "mend_torch_free")
    return torch.cuda.memory.CUDAPluggableAllocator(*names)


def _connect(allocator, library) -> None:
    """Gives PyTorch the functions other than allocation and free. record_stream is required:
    without it the memory of a tensor that another stream uses would be reused too early."""
    if not hasattr(allocator, "set_record_stream_fn"):
        raise RuntimeError(
            "mend.torch: this PyTorch does not tell its allocator of record_stream; tensors that"
            " several streams use would not be safe"
        )
    for setter, function in _SETTERS.items():
        if hasattr(allocator, setter):
            getattr(allocator, setter)(_library.address_of(library, function))


def _autoload() -> None:
    """PyTorch calls this at the end of `import torch` (entry point group torch.backends). A failure
    is printed, and PyTorch stays as it was."""
    wish = os.environ.get("MEND_TORCH", "0")
    if wish in ("", "0"):
        return
    try:
        if wish != "1":
            raise RuntimeError(f"MEND_TORCH is {wish!r}; it takes 1 or 0")
        enable()
    except Exception as error:  # an exception would make `import torch` fail
        print(f"mend: PyTorch keeps its own allocator: {error}", file=sys.stderr)
