"""CuPy's memory from Mend.

    import libmend.cupy
    libmend.cupy.enable()

In the mode "object" every array is a block of Mend, allocated and freed in the order of the stream
that was CuPy's current one when the array was created. In the mode "pooled" CuPy keeps its own
pool, and only the pool's segments are blocks of Mend, each in the order of the stream whose arrays
it holds: CuPy's statistics and hooks work, but free memory between its arrays stays its own.
"""

from __future__ import annotations

import threading

from . import _devices, _library
from ._errors import OutOfMemoryError
from ._streams import Streams

_here = threading.local()

# cudaErrorMemoryAllocation: CuPy's pool then gives back what it can, and tries again.
_OUT_OF_MEMORY = 2

# The handle of the per-thread default stream: another stream in each thread.
_PER_THREAD = 2


def enable(mode: str = "object") -> None:
    """From now on CuPy allocates from Mend, in all threads. `mode` is "object" or "pooled". Memory
    that CuPy holds already stays where it is, and is freed where it came from."""
    import cupy

    if mode not in ("object", "pooled"):
        raise ValueError(f'libmend.cupy: the mode is "object" or "pooled", not {mode!r}')
    _library.load("mend")
    if mode == "object":
        cupy.cuda.set_allocator(_allocator(cupy, _error_of_arrays))
    else:
        pool = cupy.cuda.MemoryPool(_allocator(cupy, _error_of_segments))
        cupy.cuda.set_allocator(pool.malloc)


class _Block:
    """A block, and the stream it is freed on. CuPy drops its reference with the last array, or with
    the segment."""

    def __init__(self, device: int, size: int, stream) -> None:
        self.address = 0  # __del__ runs even if the allocation fails
        # Kept, because modules may be gone when the interpreter ends.
        self.free, self.no_stream = _devices.function("mend_device_free"), _devices.NO_STREAM
        self.here = _here
        self.stream = stream
        self.thread = _this_thread() if stream.ptr == _PER_THREAD else None
        self.device = device
        self.size = size
        self.address = _devices.alloc(device, size, stream.ptr)

    def __del__(self) -> None:
        if not self.address:
            return
        stream = self.stream.ptr
        if self.thread is not None and self.thread is not getattr(self.here, "thread", None):
            stream = self.no_stream  # the handle means another stream here
        self.free(self.device, self.address, self.size, stream)  # no caller to report an error to


def _this_thread() -> object:
    """A number for the calling thread that no other thread gets, not even a later one."""
    if not hasattr(_here, "thread"):
        _here.thread = object()
    return _here.thread


def _error_of_arrays(cupy, device: int, size: int):
    return cupy.cuda.memory.OutOfMemoryError(size, _devices.stats(device)["live_bytes"])


def _error_of_segments(cupy, device: int, size: int):
    return cupy.cuda.runtime.CUDARuntimeError(_OUT_OF_MEMORY)


def _allocator(cupy, error_of):
    """What gives CuPy blocks in the order of its current stream, or an error that it knows."""
    memory = cupy.cuda.memory
    streams = Streams(getattr(cupy.cuda, "ExternalStream", ()))

    def allocate(size: int):
        device = cupy.cuda.device.get_device_id()
        if size == 0:
            return memory.MemoryPointer(memory.UnownedMemory(0, 0, None, device), 0)
        try:
            stream = streams.holder(device, cupy.cuda.get_current_stream())
            block = _Block(device, size, stream)
        except OutOfMemoryError as error:
            raise error_of(cupy, device, size) from error
        return memory.MemoryPointer(memory.UnownedMemory(block.address, size, block, device), 0)

    return allocate
