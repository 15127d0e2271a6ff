"""torch._C over a copy of the contract of CUDAPluggableAllocator, in libpluggable.so.

The native allocator is "initialised" by the first tensor, and can be replaced no more then.
"""

import ctypes
import itertools
import threading
from pathlib import Path

_GLIBCXX_USE_CXX11_ABI = True

_library = ctypes.CDLL(str(Path(__file__).parent / "lib" / "libpluggable.so"))
_pointer, _size = ctypes.c_void_p, ctypes.c_size_t
_text = [ctypes.c_char_p, _size]
_library.fake_pluggable_create.restype = _pointer
_library.fake_pluggable_create.argtypes = [_pointer, _pointer]
_library.fake_pluggable_set.argtypes = [_pointer, ctypes.c_char_p, _pointer]
_library.fake_pluggable_malloc.argtypes = [
    _pointer,
    _size,
    ctypes.c_int,
    _pointer,
    ctypes.POINTER(_pointer),
    *_text,
]
_library.fake_pluggable_free.argtypes = [_pointer, _pointer, *_text]
_library.fake_pluggable_segment.restype = _pointer
_library.fake_pluggable_segment.argtypes = [_pointer, _size, ctypes.c_int, _pointer]
_library.fake_pluggable_record_stream.argtypes = [_pointer, _pointer]
_library.fake_pluggable_base.restype = _pointer
_library.fake_pluggable_base.argtypes = [_pointer, _pointer, ctypes.POINTER(_size)]
_library.fake_pluggable_fraction.argtypes = [_pointer, ctypes.c_double, ctypes.c_int]
_library.fake_pluggable_reset.argtypes = [_pointer]
_library.fake_pluggable_init.argtypes = [_pointer, ctypes.c_int]
_library.fake_pluggable_begin_pool.argtypes = [_pointer, ctypes.c_int, *_text]


class OutOfMemoryError(RuntimeError):
    """torch.OutOfMemoryError."""


def _check(outcome, text):
    if outcome != 0:
        kind = OutOfMemoryError if outcome == 1 else RuntimeError
        raise kind(text.value.decode())


class _CUDAPluggableAllocator:
    """Keeps addresses, and no object they belong to."""

    def __init__(self, alloc, free):
        self.handle = _library.fake_pluggable_create(alloc, free)
        self.is_initialized = False

    def malloc(self, size, device, stream):
        text, made = ctypes.create_string_buffer(8192), _pointer()
        _check(
            _library.fake_pluggable_malloc(
                self.handle, size, device, stream, ctypes.byref(made), text, len(text)
            ),
            text,
        )
        return made.value or 0

    def raw_delete(self, pointer):
        text = ctypes.create_string_buffer(8192)
        _check(_library.fake_pluggable_free(self.handle, pointer, text, len(text)), text)


def _add_setter(setter, what):
    def set_function(self, address):
        _library.fake_pluggable_set(self.handle, what, address)

    setattr(_CUDAPluggableAllocator, setter, set_function)


for _setter, _what in {
    "set_record_stream_fn": b"record_stream",
    "set_base_alloc_fn": b"base_alloc",
    "set_memory_fraction_fn": b"memory_fraction",
    "set_reset_fn": b"reset",
    "set_init_fn": b"init",
    "set_begin_allocate_to_pool": b"begin_pool",
}.items():
    _add_setter(_setter, _what)


def _begin_pool(device):
    """at::cuda::CUDAGraph::capture_begin, from C++ too, tells the allocator first."""
    if not isinstance(_current, _Native):
        text = ctypes.create_string_buffer(8192)
        _check(
            _library.fake_pluggable_begin_pool(_current.handle, device, text, len(text)), text
        )


class _CUDAGraph:
    def capture_begin(self, pool=None, capture_error_mode="global"):
        _begin_pool(0)


class _Native:
    """PyTorch's own allocator, as far as it can be seen from here: for each tensor a segment, from
    the MemPool that this thread is in, or else of cudaMalloc. It keeps them."""

    is_initialized = False
    SEGMENT = 20 << 20

    def __init__(self):
        self.here = threading.local()
        self.addresses = itertools.count(1 << 46, 1 << 32)

    def malloc(self, size, device, stream):
        pool = getattr(self.here, "pool", None)
        return pool.segment(max(size, self.SEGMENT)) if pool else next(self.addresses)

    def raw_delete(self, pointer):
        """The segment stays in the cache."""


_current = _Native()


def _cuda_customAllocator(alloc, free):
    return _CUDAPluggableAllocator(alloc, free)


def _cuda_changeCurrentAllocator(allocator):
    global _current
    if _current.is_initialized:
        raise RuntimeError("Can't swap an already initialized allocator")
    _current = allocator


def _cuda_getAllocatorBackend():
    return "native" if isinstance(_current, _Native) else "pluggable"


def _cuda_init():
    _current.is_initialized = True
    if not isinstance(_current, _Native):
        _library.fake_pluggable_init(_current.handle, 1)


def _cuda_emptyCache():
    if not isinstance(_current, _Native):
        _library.fake_pluggable_reset(_current.handle)


def _cuda_setMemoryFraction(fraction, device):
    if not isinstance(_current, _Native):
        _library.fake_pluggable_fraction(_current.handle, fraction, device)


def _unsupported(what):
    def function(*_arguments):
        if isinstance(_current, _Native):
            return None
        raise RuntimeError(
            f"CUDAPluggableAllocator does not yet support {what}. If you need it, "
            "please file an issue describing your use case."
        )

    return function


_cuda_memoryStats = _unsupported("getDeviceStats")
_cuda_resetPeakMemoryStats = _unsupported("resetPeakStats")
_cuda_resetAccumulatedMemoryStats = _unsupported("resetAccumulatedStats")
_cuda_getMemoryFraction = _unsupported("getMemoryFraction")
_cuda_memorySnapshot = _unsupported("snapshot")
_cuda_record_memory_history = _unsupported("recordHistory")
_allocator_settings = []


def _cuda_cudaCachingAllocator_set_allocator_settings(settings):
    _allocator_settings.append(settings)


_cuda_attach_out_of_memory_observer = _unsupported("attachOutOfMemoryObserver")
_cuda_getCheckpointState = _unsupported("getCheckpointState")
_cuda_checkPoolLiveAllocations = _unsupported("checkPoolLiveAllocations")


def _accelerator_isAllocatorInitialized():
    return False


def _accelerator_getMemoryInfo(index):
    return (600 << 20, 1 << 30)


_cudnn_benchmark = False


def _set_cudnn_benchmark(is_on):
    global _cudnn_benchmark
    _cudnn_benchmark = is_on


def _get_cudnn_benchmark():
    return _cudnn_benchmark
