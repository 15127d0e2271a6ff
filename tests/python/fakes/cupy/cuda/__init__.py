"""cupy.cuda: a current stream for each thread, and one allocator for all."""

import threading

from . import device, memory, runtime  # noqa: F401
from .memory import MemoryPointer, MemoryPool, UnownedMemory  # noqa: F401

_here = threading.local()
_allocator = None


class Stream:
    """`with stream:` makes it current in this thread."""

    def __init__(self, ptr=0):
        self.ptr = ptr

    def __enter__(self):
        self._before = get_current_stream()
        _here.stream = self
        return self

    def __exit__(self, *exception):
        _here.stream = self._before


class ExternalStream(Stream):
    """Of another owner, which destroys it."""


def get_current_stream():
    return getattr(_here, "stream", None) or Stream()


memory._current_stream = get_current_stream


def set_allocator(allocator):
    global _allocator
    _allocator = allocator


def alloc(size):
    """Only a MemoryPointer will do, as in CuPy, where the types are C's."""
    pointer = _allocator(size)
    if not isinstance(pointer, MemoryPointer):
        raise TypeError(f"Expected MemoryPointer, got {type(pointer).__name__}")
    return pointer
