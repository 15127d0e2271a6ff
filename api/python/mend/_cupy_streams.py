"""CuPy's streams that have blocks: the pool forgets a stream before CuPy destroys it.

CuPy destroys a stream with the last reference to it, and another stream may soon get its handle.
Memory that the first one still uses would then count as free. So the pool forgets a stream before
the last of its blocks drops its reference. A few streams without blocks are kept too, so that a
stream which allocates and frees in turn is not forgotten and registered again each time.
"""

from __future__ import annotations

import collections
import threading
import weakref

from . import _devices

_KEPT = 64

# Handles up to here mean CUDA's default streams, which do not end.
_LAST_DEFAULT = 2


class Holder:
    """Keeps a CuPy stream alive. When the holder ends, the pool forgets the stream."""

    def __init__(self, device: int, stream) -> None:
        self.ptr = stream.ptr
        self._stream = stream
        self._device = device
        # Kept, because modules may be gone when the interpreter ends.
        self._forget = _devices.function("mend_device_forget_stream")
        self._ends = self.ptr > _LAST_DEFAULT

    def __del__(self) -> None:
        if self._ends:
            self._forget(self._device, self.ptr)  # there is no caller to report an error to


class Streams:
    """One holder for each stream that has blocks, or was among the last to get its first block."""

    def __init__(self, external: type | tuple) -> None:
        self._external = external
        self._holders = weakref.WeakValueDictionary()
        self._kept: collections.deque[Holder] = collections.deque()
        self._lock = threading.RLock()  # any allocation may free arrays, and holders with them

    def holder(self, device: int, stream) -> object:
        """The holder of a stream on a device. For a stream of another library, which must call
        forget itself: the stream."""
        if isinstance(stream, self._external):
            return stream
        holder = self._holders.get((device, stream.ptr))
        return holder if holder is not None else self._new(device, stream)

    def _new(self, device: int, stream) -> Holder:
        key = (device, stream.ptr)
        with self._lock:
            holder = self._holders.get(key)
            if holder is None:
                holder = self._holders[key] = Holder(device, stream)
                self._kept.append(holder)
            dropped = self._kept.popleft() if len(self._kept) > _KEPT else None
        del dropped  # without the lock, because the pool may call the driver
        return holder
