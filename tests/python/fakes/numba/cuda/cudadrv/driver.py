"""numba.cuda.cudadrv.driver: abstract methods must be there, and the version must be 1."""

import abc
import collections
import ctypes
import weakref

MemoryInfo = collections.namedtuple("MemoryInfo", "free,total")
_memory_manager = None


class CudaAPIError(Exception):
    def __init__(self, code, msg):
        self.code, self.msg = code, msg
        super().__init__(code, msg)


class BaseCUDAMemoryManager(metaclass=abc.ABCMeta):
    def __init__(self, *args, **kwargs):
        if "context" not in kwargs:
            raise RuntimeError("Memory manager requires a context")
        self.context = kwargs.pop("context")

    @abc.abstractmethod
    def memalloc(self, size): ...

    @abc.abstractmethod
    def initialize(self): ...

    @abc.abstractmethod
    def get_ipc_handle(self, memory): ...

    @abc.abstractmethod
    def get_memory_info(self): ...

    @property
    @abc.abstractmethod
    def interface_version(self): ...


class HostOnlyCUDAMemoryManager(BaseCUDAMemoryManager):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.allocations = {}
        self.deallocations = _PendingDeallocs()

    def reset(self):
        self.allocations.clear()
        self.deallocations.clear()

    def defer_cleanup(self):
        return None


class _PendingDeallocs:
    def __init__(self):
        self.cleared = 0

    def clear(self):
        self.cleared += 1


class MemoryPointer:
    """The finalizer takes no argument, and runs once, in whatever thread collects the pointer."""

    def __init__(self, context, pointer, size, owner=None, finalizer=None):
        if isinstance(pointer, ctypes.c_void_p):
            pointer = pointer.value
        self.context, self.device_pointer, self.size = context, pointer, size
        if finalizer is not None:
            self._finalizer = weakref.finalize(self, finalizer)


def set_memory_manager(plugin):
    global _memory_manager
    if plugin(context=None).interface_version != 1:
        raise RuntimeError("EMM Plugin interface version 1 required")
    _memory_manager = plugin
