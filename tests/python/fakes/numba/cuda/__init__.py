"""numba.cuda: base classes and results of external memory managers, and their callers."""

import ctypes
import importlib
import os

from .cudadrv import driver
from .cudadrv.driver import (  # noqa: F401
    HostOnlyCUDAMemoryManager,
    MemoryInfo,
    MemoryPointer,
    set_memory_manager,
)


class _Device:
    id = 0


class Stream:
    def __init__(self, number):
        self.handle = ctypes.c_void_p(number)


def default_stream():
    return Stream(0)


class Context:
    """Asks NUMBA_CUDA_MEMORY_MANAGER for a manager, and makes one of its kind for itself."""

    device = _Device()

    def __init__(self):
        if driver._memory_manager is None:
            name = os.environ["NUMBA_CUDA_MEMORY_MANAGER"]
            try:
                set_memory_manager(importlib.import_module(name)._numba_memory_manager)
            except Exception:
                raise RuntimeError(f"Failed to use memory manager from {name}")
        self.memory_manager = driver._memory_manager(context=self)
        self.memory_manager.initialize()

    def memalloc(self, size):
        return self.memory_manager.memalloc(size)


def device_array(context, size):
    """Without a stream: Numba's interface has none."""
    return context.memalloc(size)
