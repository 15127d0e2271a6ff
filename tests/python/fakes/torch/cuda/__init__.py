"""torch.cuda: one device, a current stream for each thread, and the functions of memory."""

import threading

from torch import _C

_initialized = False
_here = threading.local()


class _utils:
    @staticmethod
    def _get_device_index(device, optional=False):
        return 0 if device is None else int(device)


def is_initialized():
    return _initialized


def _lazy_init():
    global _initialized
    if not _initialized:
        _C._cuda_init()
        _initialized = True


def current_device():
    return 0


class device:
    def __init__(self, index):
        self.index = index

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None


class Stream:
    def __init__(self, cuda_stream):
        self.cuda_stream = cuda_stream


def current_stream():
    return getattr(_here, "stream", None) or Stream(None)


class stream:
    """with torch.cuda.stream(s)."""

    def __init__(self, of):
        self.of = of

    def __enter__(self):
        self.before = current_stream()
        _here.stream = self.of

    def __exit__(self, *exception):
        _here.stream = self.before


class CUDAGraph(_C._CUDAGraph):
    def capture_begin(self, pool=None, capture_error_mode="global"):
        super().capture_begin(pool, capture_error_mode)


class graph:
    """with torch.cuda.graph(g): the capture's side stream is current before it begins, and stays
    so where that fails."""

    def __init__(self, of):
        self.of = of
        self.side = stream(Stream(65536))

    def __enter__(self):
        self.side.__enter__()
        self.of.capture_begin()

    def __exit__(self, *exception):
        self.side.__exit__(*exception)


class _Runtime:
    @staticmethod
    def cudaMemGetInfo(index):
        return (600 << 20, 1 << 30)


def cudart():
    return _Runtime


from .memory import *  # noqa: E402,F401,F403
from . import memory  # noqa: E402,F401
