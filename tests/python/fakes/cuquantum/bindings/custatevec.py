"""cuquantum.bindings.custatevec: takes addresses of a handler, and allocates workspace by them."""

import ctypes

_pointer, _size, _int = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_ALLOC = ctypes.CFUNCTYPE(_int, _pointer, ctypes.POINTER(_pointer), _size, _pointer)
_FREE = ctypes.CFUNCTYPE(_int, _pointer, _pointer, _size, _pointer)
_handlers = {}


def create():
    return 1


def set_device_mem_handler(handle, handler):
    """(context, alloc, free, name): addresses, and a name of at most 63 characters."""
    context, alloc, free, name = handler
    assert len(name) < 64
    _handlers[handle] = (context, _ALLOC(alloc), _FREE(free))
    _use(handle)


def _use(handle, size=1 << 20, stream=None):
    context, alloc, free = _handlers[handle]
    workspace = _pointer()
    if alloc(context, ctypes.byref(workspace), size, stream) != 0:
        raise MemoryError("CUSTATEVEC_STATUS_DEVICE_ALLOCATOR_ERROR")
    free(context, workspace, size, stream)
