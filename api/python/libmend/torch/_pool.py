"""Mend for a part of a program: segments of PyTorch's own cache, through torch.cuda.MemPool.

PyTorch calls for a segment with the lock of its cache held, and takes NULL as out of memory. Its
statistics, snapshots and graphs work as usual.
"""

from __future__ import annotations

import contextlib
import threading

from .. import _library, _unused

_FIRST_THAT_GIVES_BACK = (2, 7)

_lock = threading.Lock()
# One for each device, never freed.
_shared: dict[int, object] = {}
# PyTorch has addresses of these, so they are never freed either.
_allocators: list[object] = []
_inside = threading.local()


@contextlib.contextmanager
def pool(of: object | None = None, device: int | None = None):
    """Memory that this thread allocates in PyTorch inside the `with` comes from Mend. Other
    threads, also of backward, are not affected. `of` is a pool from mem_pool(). The default is one
    pool of the process for the device, whose memory is reused but never released. Yields the
    torch.cuda.MemPool. After enable(), without `of`, it does nothing and yields None, because all
    memory is Mend's already."""
    import torch

    from . import is_enabled

    if is_enabled() and of is None:
        yield None
        return
    index = torch.cuda.current_device() if device is None else device
    chosen = _shared_pool(torch, index) if of is None else of
    entered = _inside.__dict__.setdefault("pools", [])
    if chosen in entered:  # PyTorch does not take the same pool twice
        yield chosen
        return
    entered.append(chosen)
    try:
        with torch.cuda.use_mem_pool(chosen, device=index):
            yield chosen
    finally:
        entered.remove(chosen)


def mem_pool(device: int | None = None):
    """A new torch.cuda.MemPool over Mend. Its memory returns to Mend when the pool and its tensors
    are gone and PyTorch's cache is emptied. After enable() a torch.cuda.MemPool as the program
    makes it, which is Mend's then. Raises RuntimeError if PyTorch is older than 2.7."""
    import torch

    from . import is_enabled

    if is_enabled():
        with torch.cuda.device(torch.cuda.current_device() if device is None else device):
            return torch.cuda.MemPool()
    if _version_of(torch) < _FIRST_THAT_GIVES_BACK:
        raise RuntimeError(
            f"libmend.torch: PyTorch {torch.__version__} frees the memory of a torch.cuda.MemPool"
            " wrongly; 2.7 is the first that does not. libmend.torch.pool() keeps it, and works"
        )
    return _made(torch, device)


def _made(torch, device: int | None):
    if not hasattr(torch.cuda, "MemPool"):
        raise RuntimeError(
            f"libmend.torch: PyTorch {torch.__version__} has no torch.cuda.MemPool; 2.5 is the"
            " first with one. libmend.torch.enable() works with all of the process's memory"
        )
    _unused.is_on("pool of torch")
    _library.load("mend_torch")  # so that libmend is set up before PyTorch opens it
    allocator = torch.cuda.memory.CUDAPluggableAllocator(
        str(_library.path_of("mend_torch")), "mend_torch_alloc_or_null", "mend_torch_free"
    )
    _allocators.append(allocator)
    with torch.cuda.device(torch.cuda.current_device() if device is None else device):
        return torch.cuda.MemPool(allocator.allocator())


def _shared_pool(torch, index: int):
    with _lock:
        if index not in _shared:
            _shared[index] = _made(torch, index)
        return _shared[index]


def _version_of(torch) -> tuple[int, ...]:
    return tuple(int(part) for part in torch.__version__.split(".")[:2])
