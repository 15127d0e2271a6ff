"""CuPy's memory from Mend.

    import libmend.cupy
    libmend.cupy.enable()

In the mode "object" every array is a block of Mend, allocated and freed in the order of the stream
that was CuPy's current one when the array was created. In the mode "pooled" CuPy keeps its own
pool, and only its segments are blocks of Mend, each in the order of the stream of its arrays.
CuPy's statistics and hooks work, but free memory between its arrays stays its own.

In both modes the limits of CuPy's default pool hold: CUPY_GPU_MEMORY_LIMIT, and
`cupy.get_default_memory_pool().set_limit()`, also when it is called later.
"""

from __future__ import annotations

import collections
import threading

from . import _devices, _library, _unused
from ._errors import OutOfMemoryError
from ._streams import Streams

_here = threading.local()

# CuPy's memory from Mend on each device, and the devices and sizes of blocks freed since the last
# allocation: __del__ may run anywhere, and takes no lock.
_held: collections.Counter[int] = collections.Counter()
_ended: collections.deque[tuple[int, int]] = collections.deque()
_counting = threading.RLock()  # __del__ of the program's may allocate

# cudaErrorMemoryAllocation: CuPy's pool then releases free memory, and tries again.
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
    _unused.is_on("cupy")
    if mode == "object":
        cupy.cuda.set_allocator(_allocator(cupy, _error_of_arrays))
    else:
        pool = cupy.cuda.MemoryPool(_allocator(cupy, _error_of_segments))
        cupy.cuda.set_allocator(pool.malloc)


class _Block:
    """A block, and the stream it is freed on. CuPy drops its reference with the last array, or with
    the segment."""

    def __init__(self, device: int, size: int, stream) -> None:
        self.address, self.device, self.size = 0, device, size  # for __del__ even after a failure
        # Kept, because modules may be gone when the interpreter ends.
        self.free, self.no_stream = _devices.function("mend_device_free"), _devices.NO_STREAM
        self.ended = _ended
        self.here = _here
        self.stream = stream
        self.thread = _this_thread() if stream.ptr == _PER_THREAD else None
        self.address = _devices.alloc(device, size, stream.ptr)

    def __del__(self) -> None:
        self.ended.append((self.device, self.size))
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


def _error_of_arrays(cupy, size: int, held: int, limit: int):
    return cupy.cuda.memory.OutOfMemoryError(size, held, limit)


def _error_of_segments(cupy, size: int, held: int, limit: int):
    return cupy.cuda.runtime.CUDARuntimeError(_OUT_OF_MEMORY)


def _counted(device: int, size: int, limit: int) -> int:
    """Counts a block that is to come, unless it is beyond the limit. Returns CuPy's allocator
    without it."""
    with _counting:
        while _ended:
            before, gone = _ended.popleft()
            _held[before] -= gone
        held = _held[device]
        if not limit or held + size <= limit:
            _held[device] = held + size
        return held


def _allocator(cupy, error_of):
    """Allocates CuPy's blocks in the order of its current stream, or raises an error that CuPy
    knows."""
    memory = cupy.cuda.memory
    streams = Streams(getattr(cupy.cuda, "ExternalStream", ()))

    def allocate(size: int):
        device = cupy.cuda.device.get_device_id()
        if size == 0:
            return memory.MemoryPointer(memory.UnownedMemory(0, 0, None, device), 0)
        stream = streams.holder(device, cupy.cuda.get_current_stream())
        limit = cupy.get_default_memory_pool().get_limit()
        held = _counted(device, size, limit)
        if limit and held + size > limit:
            raise error_of(cupy, size, held, limit)
        try:
            block = _Block(device, size, stream)
        except OutOfMemoryError as error:
            raise error_of(cupy, size, held, limit) from error
        return memory.MemoryPointer(memory.UnownedMemory(block.address, size, block, device), 0)

    return allocate
