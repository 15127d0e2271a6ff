"""Streams of CuPy's that the pool knows: none ends before the pool has heard of it.

A stream dies with the last reference to it, and its handle soon means another one, for which memory
that the first still uses would count as free. So the pool forgets a stream before the last of its
blocks lets go of it. Of those without a block a few are kept, so that a stream which allocates and
frees in turn is not forgotten and met again each time.
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
    """Keeps a stream of CuPy's alive. Its end is the stream's, for the pool."""

    def __init__(self, device: int, stream) -> None:
        self.ptr = stream.ptr
        self._stream = stream
        self._device = device
        # Kept, for modules may be gone when the interpreter ends.
        self._forget = _devices.function("mend_device_forget_stream")
        self._ends = self.ptr > _LAST_DEFAULT

    def __del__(self) -> None:
        if self._ends:
            self._forget(self._device, self.ptr)  # an error has nobody to go to


class Streams:
    """One holder for each stream that has blocks, or was among the last to get its first."""

    def __init__(self, external: type | tuple) -> None:
        self._external = external
        self._holders = weakref.WeakValueDictionary()
        self._kept: collections.deque[Holder] = collections.deque()
        self._lock = threading.RLock()  # arrays may die, and holders with them, in any allocation

    def holder(self, device: int, stream) -> object:
        """That of a stream on a device; of somebody else's, who tells of its end, the stream."""
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
        del dropped  # without the lock, for the pool may call the driver
        return holder
