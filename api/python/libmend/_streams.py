"""Streams of CuPy and cuda.core that have blocks: the pool forgets one before they destroy it.

They destroy a stream with the last reference to it, and another stream may soon get its handle.
Memory that the first one still uses would then count as free. So the pool unregisters a stream
before the last of its blocks drops its reference. A few streams without blocks are kept too, so
that a stream which allocates and frees in turn is not forgotten and registered again each time.
"""

from __future__ import annotations

import collections
import operator
import threading
import weakref
from collections.abc import Callable

from . import _devices

_KEPT = 64

# Handles up to here mean CUDA's default streams, which do not end.
_LAST_DEFAULT = 2


class Holder:
    """Keeps a stream alive by `kept`. When the holder ends, the pool unregisters the stream."""

    def __init__(self, device: int, ptr: int, kept: object) -> None:
        self.ptr = ptr
        self._kept = kept
        self._device = device
        # Kept, because modules may be gone when the interpreter ends.
        self._forget = _devices.function("mend_device_unregister_stream")
        self._ends = self.ptr > _LAST_DEFAULT

    def __del__(self) -> None:
        if self._ends:
            self._forget(self._device, self.ptr)  # there is no caller to report an error to


class Streams:
    """One holder for each stream that has blocks, or was among the last to get its first block."""

    def __init__(
        self,
        external: type | tuple = (),
        ptr_of: Callable = operator.attrgetter("ptr"),
        kept_of: Callable = lambda stream: stream,
    ) -> None:
        self._external, self._ptr_of, self._kept_of = external, ptr_of, kept_of
        self._holders = weakref.WeakValueDictionary()
        self._kept: collections.deque[Holder] = collections.deque()
        self._lock = threading.RLock()  # any allocation may free arrays, and holders with them

    def holder(self, device: int, stream) -> object:
        """The holder of a stream on a device. For a stream of another library, which must
        unregister it itself: the stream."""
        if isinstance(stream, self._external):
            return stream
        key = (device, self._ptr_of(stream))
        holder = self._holders.get(key)
        return holder if holder is not None else self._new(key, stream)

    def _new(self, key: tuple[int, int], stream) -> Holder:
        kept = self._kept_of(stream)
        with self._lock:
            holder = self._holders.get(key)
            if holder is None:
                holder = self._holders[key] = Holder(*key, kept)
                self._kept.append(holder)
            dropped = self._kept.popleft() if len(self._kept) > _KEPT else None
        del dropped  # without the lock, because the pool may call the driver
        return holder
