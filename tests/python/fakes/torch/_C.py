"""torch._C: the pluggable allocator, as far as a MemPool needs it."""

import ctypes
import itertools

_GLIBCXX_USE_CXX11_ABI = True

_pointer, _size = ctypes.c_void_p, ctypes.c_size_t
_addresses = itertools.count(1 << 46, 1 << 32)


class OutOfMemoryError(RuntimeError):
    """torch.OutOfMemoryError."""


class _CUDAPluggableAllocator:
    """Keeps addresses of functions, and its allocations: size, device and stream."""

    def __init__(self, alloc, free):
        self.alloc = ctypes.CFUNCTYPE(_pointer, _size, ctypes.c_int, _pointer)(alloc)
        self.free = ctypes.CFUNCTYPE(None, _pointer, _size, ctypes.c_int, _pointer)(free)
        self.blocks = {}

    def segment(self, size, device, stream):
        made = self.alloc(size, device, stream)
        if made:
            self.blocks[made] = (size, device, stream)
        return made

    def raw_delete(self, pointer):
        self.free(pointer, *self.blocks.pop(pointer))


def _cuda_customAllocator(alloc, free):
    return _CUDAPluggableAllocator(alloc, free)


def own_memory():
    return next(_addresses)
