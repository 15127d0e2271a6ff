"""The memory handler for cuStateVec, cuTensorNet and cuDSS, with Mend's memory of a device.

    import libmend.handler
    handler = libmend.handler.handler()
    custatevec.set_device_mem_handler(library_handle, handler.addresses)

Libraries that take the address of the struct get `handler.pointer`. They call C functions, without
the interpreter's lock.
"""

from __future__ import annotations

import ctypes

from . import _library, _structures, _unused
from ._errors import check


class DeviceHandler(ctypes.Structure):
    """mend_device_handler of mend_devices.h, with the layout of those libraries' own struct."""

    _fields_ = _structures.fields_of("mend_device_handler")

    @property
    def pointer(self) -> int:
        """The address of this struct, which the library copies."""
        return ctypes.addressof(self)

    @property
    def addresses(self) -> tuple[int, int, int, str]:
        """(context, alloc, free, name), for the libraries' Python interfaces."""
        return (self.ctx or 0, self.alloc or 0, self.free or 0, self.name.decode())


_kept: dict[int, DeviceHandler] = {}


def handler(device: int = 0) -> DeviceHandler:
    """The handler of a device, valid as long as the process."""
    if device not in _kept:
        _unused.is_on("handler")
        made = DeviceHandler()
        check(_library.load("mend_hooks").mend_hook_handler(device, ctypes.byref(made)))
        _kept[device] = made
    return _kept[device]
