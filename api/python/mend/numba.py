"""Numba's device memory from Mend.

    NUMBA_CUDA_MEMORY_MANAGER=mend.numba python program.py

or, before a context is made, `mend.numba.enable()`. Numba names no stream when it allocates or
frees: memory is idle for every stream when it is handed out, and handed on only when all work of
the device is done.
"""

from __future__ import annotations

import ctypes
import weakref

from numba import cuda
from numba.cuda.cudadrv import driver

from . import _devices
from ._errors import OutOfMemoryError

_CUDA_ERROR_OUT_OF_MEMORY = 2


class MendNumbaManager(cuda.HostOnlyCUDAMemoryManager):
    """External memory management for one context. Host memory stays Numba's."""

    def initialize(self) -> None:
        """Nothing to do: a pool is made on first use."""

    def memalloc(self, size: int):
        """A block that goes back when its MemoryPointer dies, by whatever thread collects it."""
        device = self.context.device.id
        try:
            address = self._attempt_allocation(lambda: _devices.alloc(device, size))
        except OutOfMemoryError as error:
            raise driver.CudaAPIError(_CUDA_ERROR_OUT_OF_MEMORY, str(error)) from error
        # What the finalizer needs is bound here: it may run when the interpreter ends.
        free = _devices.function("mend_device_free")

        def give_back() -> None:
            free(device, address, size, _devices.NO_STREAM)

        pointer = ctypes.c_void_p(address)
        return cuda.MemoryPointer(weakref.proxy(self.context), pointer, size, finalizer=give_back)

    def _attempt_allocation(self, allocator):
        """Once more after what Numba was about to free has been freed."""
        try:
            return allocator()
        except OutOfMemoryError:
            self.deallocations.clear()
            return allocator()

    def get_memory_info(self):
        """What Mend can still hand out, and all it may hold."""
        figures = _devices.stats(self.context.device.id)
        total = figures["limit_bytes"]
        free = max(total - figures["live_bytes"], 0)  # the limit may be below what lives
        return cuda.MemoryInfo(free=free, total=total)

    def get_ipc_handle(self, memory):
        """Not possible: CUDA's handles are for memory of cuMemAlloc alone."""
        raise NotImplementedError(
            "mend.numba: device arrays cannot be shared with other processes; CUDA makes such"
            " handles only for memory of cuMemAlloc. Copy to the host instead"
        )

    @property
    def interface_version(self) -> int:
        """That of Numba's interface which this is written for."""
        return 1


# What Numba looks for in the module that NUMBA_CUDA_MEMORY_MANAGER names.
_numba_memory_manager = MendNumbaManager


def enable() -> None:
    """From now on contexts that are made allocate from Mend; those that exist keep what they
    have."""
    cuda.set_memory_manager(MendNumbaManager)
