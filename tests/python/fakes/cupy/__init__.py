"""A stand-in for CuPy: allocation, streams and its memory pool, as Mend's hook meets them."""

from . import cuda


class ndarray:
    """An array of bytes: its memory dies with it."""

    def __init__(self, size):
        self.data = cuda.alloc(size)


def empty(size):
    return ndarray(size)
