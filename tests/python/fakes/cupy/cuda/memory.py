"""cupy.cuda.memory."""

import os

from . import runtime
from .device import get_device_id

_CUDA_ERROR_MEMORY_ALLOCATION = 2
_current_stream = None


class OutOfMemoryError(MemoryError):
    def __init__(self, size, total, limit=0):
        self.limit = limit
        super().__init__(f"Out of memory allocating {size} bytes (allocated so far: {total}).")


class UnownedMemory:
    """Memory of another owner, which stays referenced. Without a device the driver would be
    asked."""

    def __init__(self, ptr, size, owner, device_id=-1):
        if device_id < 0:
            raise RuntimeError("cudaPointerGetAttributes: there is no driver")
        self.ptr, self.size, self.device_id, self._owner = ptr, size, device_id, owner


class MemoryPointer:
    def __init__(self, mem, offset):
        self.mem, self.ptr = mem, mem.ptr + offset


class _Pooled:
    """A piece that returns to its arena, not to the source of the arena."""

    def __init__(self, pointer, arena):
        self.ptr, self.size = pointer.ptr, pointer.mem.size
        self._pointer, self._arena = pointer, arena

    def __del__(self):
        self._arena.append(self._pointer)


class MemoryPool:
    """Rounds to 512 B, has an arena for each stream, and when the allocator says
    cudaErrorMemoryAllocation gives everything back that is free and tries once more."""

    def __init__(self, allocator):
        self._allocator, self._arenas, self.retries = allocator, {}, 0
        self.set_limit(int(os.environ.get("CUPY_GPU_MEMORY_LIMIT", "0")))

    def set_limit(self, size=0):
        self._limit = size

    def get_limit(self):
        return self._limit

    def malloc(self, size):
        size = -(-size // 512) * 512
        arena = self._arenas.setdefault((get_device_id(), _current_stream().ptr), [])
        fitting = [i for i, free in enumerate(arena) if free.mem.size == size]
        segment = arena.pop(fitting[0]) if fitting else self._segment(size)
        return MemoryPointer(_Pooled(segment, arena), 0)

    def _segment(self, size):
        try:
            return self._allocator(size)
        except runtime.CUDARuntimeError as error:
            if error.status != _CUDA_ERROR_MEMORY_ALLOCATION:
                raise
        self.retries += 1
        self.free_all_blocks()
        try:
            return self._allocator(size)
        except runtime.CUDARuntimeError as error:
            raise OutOfMemoryError(size, 0) from error

    def free_all_blocks(self):
        for arena in self._arenas.values():
            arena.clear()
