"""Numba's device memory from Mend.

    NUMBA_CUDA_MEMORY_MANAGER=libmend.numba python program.py

or, before a context is created, `libmend.numba.enable()`. Numba names no stream when it allocates
or frees, and has no current one. So a block is idle for every stream when it is returned, and after
a free its memory is reused only after all earlier work of the device. A program that uses one
stream alone says so: `libmend.numba.enable(stream=cuda.default_stream())`.
"""

from __future__ import annotations

import ctypes
import os
import weakref

from numba import cuda
from numba.cuda.cudadrv import driver

from . import _devices, _unused
from ._errors import OutOfMemoryError

_CUDA_ERROR_OUT_OF_MEMORY = 2

# The handle of the per-thread default stream.
_PER_THREAD = 2


class MendNumbaManager(cuda.HostOnlyCUDAMemoryManager):
    """External memory management for one context. Host memory stays Numba's."""

    stream = _devices.NO_STREAM  # of all blocks

    def initialize(self) -> None:
        """A pool is created at first use."""
        _unused.is_on("numba")

    def memalloc(self, size: int):
        """Allocates a block. It is freed when its MemoryPointer ends, in any thread."""
        device = self.context.device.id
        try:
            address = self._attempt_allocation(lambda: _devices.alloc(device, size, self.stream))
        except OutOfMemoryError as error:
            raise driver.CudaAPIError(_CUDA_ERROR_OUT_OF_MEMORY, str(error)) from error
        # The finalizer may run when the interpreter ends, so it gets its references now.
        free, stream = _devices.function("mend_device_free"), self.stream

        def give_back() -> None:
            free(device, address, size, stream)

        pointer = ctypes.c_void_p(address)
        return cuda.MemoryPointer(weakref.proxy(self.context), pointer, size, finalizer=give_back)

    def _attempt_allocation(self, allocator):
        """Tries once more after Numba's deferred frees."""
        try:
            return allocator()
        except OutOfMemoryError:
            self.deallocations.clear()
            return allocator()

    def get_memory_info(self):
        """The memory that Mend can still allocate, and its limit."""
        figures = _devices.stats(self.context.device.id)
        total = figures["limit_bytes"]
        free = max(total - figures["live_bytes"], 0)  # the limit may be below the live bytes
        return cuda.MemoryInfo(free=free, total=total)

    def get_ipc_handle(self, memory):
        """Not possible: CUDA's handles are only for memory of cuMemAlloc."""
        raise NotImplementedError(
            "libmend.numba: device arrays cannot be shared with other processes; CUDA makes such"
            " handles only for memory of cuMemAlloc. Copy to the host instead"
        )

    @property
    def interface_version(self) -> int:
        """The version of Numba's interface that this implements."""
        return 1


# Numba looks for this in the module that NUMBA_CUDA_MEMORY_MANAGER names.
_numba_memory_manager = MendNumbaManager


def enable(stream: object = None) -> None:
    """Contexts created from now on allocate from Mend. Existing ones keep their allocator. `stream`
    is the only one that the program uses, a stream of Numba's or its number. Raises ValueError for
    one that is another stream in each thread."""
    manager = MendNumbaManager
    if stream is not None:
        # A stream of Numba's has its handle as a number, or as a pointer of ctypes.
        handle = getattr(stream, "handle", stream)
        number = _devices.stream_of(getattr(handle, "value", handle) or 0)
        if number == _PER_THREAD or (number == 0 and _default_is_per_thread()):
            raise ValueError("libmend.numba: a stream of each thread is not one stream")
        manager = type("MendNumbaManager", (MendNumbaManager,), {"stream": number})
    cuda.set_memory_manager(manager)


def _default_is_per_thread() -> bool:
    return os.environ.get("NUMBA_CUDA_PER_THREAD_DEFAULT_STREAM", "0") not in ("", "0")
