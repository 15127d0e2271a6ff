"""A stub of RMM: the resource of a device, and buffers that come from it."""

from . import mr  # noqa: F401

__version__ = "26.10.0"


class Stream:
    """rmm.pylibrmm.stream.Stream: its handle by the protocol alone."""

    def __init__(self, handle=0):
        self._handle = handle

    def __cuda_stream__(self):
        return (0, self._handle)


class DeviceBuffer:
    """Keeps the resource it is from, the size it asked for, and its stream."""

    def __init__(self, size, stream=None):
        self.size, self._stream = size, stream or Stream()
        self._mr = mr.get_per_device_resource(0)
        self.ptr = self._mr.allocate(size, self._stream) if size else 0

    def __del__(self):
        if getattr(self, "ptr", 0):
            self._mr.deallocate(self.ptr, self.size, self._stream)
