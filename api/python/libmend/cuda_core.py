"""The memory resource of cuda.core from Mend, for nvmath-python and programs on cuda.core.

    import libmend.cuda_core
    libmend.cuda_core.enable()          # the resource of the current device
    mr = libmend.cuda_core.MendResource(device=1)

Buffers come and go in the order of the stream that each call names. Needs cuda-core 1.2 or later:
earlier ones free a buffer on the default stream, whatever it was allocated on. Streams with buffers
live on for a while after the last buffer, so that the pool learns of their end. If you made a
stream of a bare handle (`Stream.from_handle`), call mend_device_unregister_stream before it ends.
"""

from __future__ import annotations

from cuda.core import Buffer, Device, MemoryResource

from . import _devices, _unused
from ._errors import Error
from ._streams import Streams


class MendResource(MemoryResource):
    """Mend's memory of a device. Lives as long as any of its buffers, which keep it."""

    is_device_accessible = True
    is_host_accessible = False
    is_managed = False

    def __init__(self, device: object = None) -> None:
        _unused.is_on("cuda_core")
        self._device = _devices.current_device() if device is None else _devices.index_of(device)
        self._holders: dict[int, object] = {}  # of the streams that buffers were made on

    @property
    def device_id(self) -> int:
        return self._device

    def allocate(self, size: int, *, stream: object) -> Buffer:
        """Raises libmend.OutOfMemoryError, libmend.Error, or TypeError for a stream that is not of
        cuda.core: `Device.create_stream` makes one of another library's."""
        holder = _streams.holder(self._device, stream)
        address = _devices.alloc(self._device, _devices.amount_of("size", size), holder.ptr)
        try:
            buffer = _buffer_of(address, size, self, stream)
        except BaseException:
            _devices.free(self._device, address, size, holder.ptr)
            raise
        self._holders[address] = holder
        return buffer

    def deallocate(self, ptr: object, size: int, *, stream: object) -> None:
        # The holder of its last stream is kept, the other may end.
        self._holders.pop(int(ptr), None)
        _devices.free(self._device, int(ptr), size, _streams.holder(self._device, stream).ptr)


class _Nothing(MemoryResource):
    """Of a buffer that only keeps its stream: the program may close the stream's own object."""

    is_device_accessible = True
    is_host_accessible = False
    is_managed = False
    device_id = -1

    def deallocate(self, ptr: object, size: int, *, stream: object) -> None:
        pass


def _buffer_of(address: int, size: int, resource: MemoryResource, stream: object) -> Buffer:
    try:
        return Buffer.from_handle(address, size, mr=resource, stream=stream)
    except TypeError as failure:
        if "keyword argument" not in str(failure):
            raise  # as for a stream of another library
        raise Error("libmend.cuda_core: needs cuda-core 1.2 or later") from failure


def enable(device: object = None) -> MendResource:
    """Makes Mend the memory resource of a device (default: the current one). Live buffers keep the
    resource they came from. Returns the resource."""
    resource = MendResource(device)
    Device(resource.device_id).memory_resource = resource
    return resource


def _number_of(stream: object) -> int:
    """The handle of a stream, by the protocol of such objects."""
    if any(kind.__name__ == "GraphBuilder" for kind in type(stream).__mro__):
        raise Error(
            "libmend.cuda_core: memory of a GraphBuilder is not served: its graphs would use it"
            " after the buffer's end. Allocate on a stream before, or with GraphMemoryResource"
        )
    return stream.__cuda_stream__()[1]


_streams = Streams(
    ptr_of=_number_of, kept_of=lambda stream: _buffer_of(1, 1, _Nothing(), stream)
)
