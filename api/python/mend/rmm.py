"""RMM's current device resource from Mend, and with it the memory of RAPIDS.

    import mend.rmm
    mend.rmm.enable()

Each allocation calls a Python function, which takes the interpreter's lock: RMM's documentation
recommends this only for debugging. Memory is used in stream order, as RMM requires.
"""

from __future__ import annotations

from . import _devices

_kept: dict[int, object] = {}


def resource(device: int):
    """An rmm.mr.CallbackMemoryResource with Mend's memory of a device. RMM requires it to live as
    long as any of its buffers."""
    import rmm

    def allocate(size: int, stream) -> int:
        return _devices.alloc(device, size, _handle_of(stream))

    def deallocate(address: int, size: int, stream) -> None:
        _devices.free(device, address, size, _handle_of(stream))

    return rmm.mr.CallbackMemoryResource(allocate, deallocate)


def enable(device: int | None = None) -> None:
    """Makes Mend the resource of a device (default: the current one). Live buffers keep the
    resource they came from."""
    import rmm

    ordinal = _devices.current_device() if device is None else device
    if ordinal not in _kept:
        _kept[ordinal] = resource(ordinal)
    rmm.mr.set_per_device_resource(ordinal, _kept[ordinal])


def _handle_of(stream) -> int:
    """The handle of an rmm.pylibrmm.stream.Stream, by the protocol of such objects."""
    return stream.__cuda_stream__()[1]
