"""RMM's current device resource from Mend, and with it what RAPIDS allocates.

    import mend.rmm
    mend.rmm.enable()

Each allocation is a call of a Python function, which takes the interpreter's lock: RMM itself calls
this a way for debugging. In stream order, as RMM asks.
"""

from __future__ import annotations

from . import _devices

_kept: dict[int, object] = {}


def resource(device: int):
    """An rmm.mr.CallbackMemoryResource on Mend's memory of a device. RMM wants it alive as long as
    any of its buffers."""
    import rmm

    def allocate(size: int, stream) -> int:
        return _devices.alloc(device, size, _handle_of(stream))

    def deallocate(address: int, size: int, stream) -> None:
        _devices.free(device, address, size, _handle_of(stream))

    return rmm.mr.CallbackMemoryResource(allocate, deallocate)


def enable(device: int | None = None) -> None:
    """Makes Mend the resource of a device: the current one, unless another is named. Buffers that
    live keep the resource they came from."""
    import rmm

    ordinal = _devices.current_device() if device is None else device
    if ordinal not in _kept:
        _kept[ordinal] = resource(ordinal)
    rmm.mr.set_per_device_resource(ordinal, _kept[ordinal])


def _handle_of(stream) -> int:
    """The number of an rmm.pylibrmm.stream.Stream, by the protocol that all such objects share."""
    return stream.__cuda_stream__()[1]
