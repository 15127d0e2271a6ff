"""torch.cuda.memory: pools of memory."""

import contextlib
import ctypes

from torch import _C

__all__ = ["MemPool", "use_mem_pool"]


class CUDAPluggableAllocator:
    def __init__(self, path_to_so_file, alloc_fn_name, free_fn_name):
        library = ctypes.CDLL(path_to_so_file)
        alloc = ctypes.cast(getattr(library, alloc_fn_name), ctypes.c_void_p).value
        free = ctypes.cast(getattr(library, free_fn_name), ctypes.c_void_p).value
        self._allocator = _C._cuda_customAllocator(alloc, free)

    def allocator(self):
        return self._allocator


class MemPool:
    """Segments of an allocator, below PyTorch's cache."""

    def __init__(self, allocator=None):
        self.allocator = allocator
        self.is_used = False

    def segment(self, size):
        """The cache's request: NULL is out of memory, after it has emptied itself."""
        made = self.allocator.segment(size, 0, None)
        if not made:
            raise _C.OutOfMemoryError("CUDA out of memory.")
        return made


@contextlib.contextmanager
def use_mem_pool(pool, device=None):
    import torch.cuda

    if pool.is_used:
        raise RuntimeError("the pool is in use already")
    here = torch.cuda._here
    before, here.pool = getattr(here, "pool", None), pool
    pool.is_used = True
    try:
        yield
    finally:
        pool.is_used, here.pool = False, before
