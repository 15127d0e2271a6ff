"""Mend for a part of a program: segments of PyTorch's own cache, through torch.cuda.MemPool.

PyTorch calls for a segment under the lock of its cache, and understands NULL as out of memory; its
figures, snapshots and graphs keep working.
"""

from __future__ import annotations

import contextlib
import threading

from .. import _library

_lock = threading.Lock()
# One pool for each device, for ever: PyTorch holds addresses of what they are made of.
_pools: dict[int, object] = {}
_inside = threading.local()


@contextlib.contextmanager
def pool(device: int | None = None):
    """What this thread allocates in PyTorch meanwhile lies in memory of Mend's, on `device` or the
    current one; other threads, those of backward included, do not take part. Yields the
    torch.cuda.MemPool, of which a process has one for each device. After enable() all memory is
    Mend's already: it does nothing then, and yields None."""
    import torch

    from . import is_enabled

    if is_enabled():
        yield None
        return
    index = torch.cuda.current_device() if device is None else device
    mem_pool = _pool_of(torch, index)
    depths = _inside.__dict__
    if depths.get(str(index)):  # PyTorch does not take the same pool twice
        yield mem_pool
        return
    depths[str(index)] = True
    try:
        with torch.cuda.use_mem_pool(mem_pool, device=index):
            yield mem_pool
    finally:
        depths[str(index)] = False


def _pool_of(torch, index: int):
    if not hasattr(torch.cuda, "MemPool"):
        raise RuntimeError(
            f"mend.torch: PyTorch {torch.__version__} has no torch.cuda.MemPool; 2.5 is the first"
            " with one. mend.torch.enable() works with all of the process's memory"
        )
    with _lock:
        if index not in _pools:
            allocator = torch.cuda.memory.CUDAPluggableAllocator(
                str(_library.path_of("mend_torch")), "mend_torch_alloc_or_null", "mend_torch_free"
            )
            with torch.cuda.device(index):
                _pools[index] = torch.cuda.MemPool(allocator.allocator())
            _kept.append(allocator)
        return _pools[index]


_kept: list[object] = []
