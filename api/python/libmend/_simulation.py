"""A simulated GPU under the hooks, to test programs without a GPU.

    with libmend.simulate(memory_bytes=4 << 30) as device:
        ...  # hooks allocate its memory. The CPU cannot use the addresses
        assert device.violations == 0

The device checks all use of memory, by Mend and the program, against the rules of the CUDA driver.
"""

from __future__ import annotations

import ctypes
import functools

from . import _devices, _library, _standin, _structures
from ._devices import amount_of, device_size_of, stream_of
from ._errors import DRIVER_ERROR, Error, check, name_of

_u64, _pointer = ctypes.c_uint64, ctypes.c_void_p

TOUCH, WRITE, VERIFY = 0, 1, 2


@functools.cache
def _library_of_simulation() -> ctypes.CDLL:
    library = _library.load("mend_sim")
    library.mend_sim_driver.restype = _pointer
    library.mend_sim_first_violation.restype = ctypes.c_char_p
    return library


class SimulatedDevice:
    """One or more simulated GPUs under the default pools of this process."""

    def __init__(self, memory_bytes: int, device_count: int, has_bytes: bool) -> None:
        self._sim = _pointer()
        self._device_count = device_count
        config = _sim_config(memory_bytes, device_count, has_bytes)
        self._call("create", ctypes.byref(config), ctypes.byref(self._sim))
        try:
            self._serve_default_pools()
        except Error:
            self._library.mend_sim_destroy(self._sim)
            raise

    @property
    def _library(self) -> ctypes.CDLL:
        return _library_of_simulation()

    def _open(self) -> ctypes.CDLL:
        if not self._sim:
            raise Error("libmend: the simulated device is closed")
        return self._library

    def _call(self, name: str, *arguments: object) -> None:
        library = self._library if name == "create" else self._open()
        result = getattr(library, f"mend_sim_{name}")(*arguments)
        if result != 0:
            what = "libmend.simulate" if name == "create" else f"SimulatedDevice.{name}"
            library.mend_sim_last_message.restype = ctypes.c_char_p
            why = library.mend_sim_last_message().decode() if result == 1 else ""
            raise Error(f"{what}: {name_of(result)}{why and ': '}{why}", result)

    def _serve_default_pools(self) -> None:
        config = _structures.made(
            "mend_pool_config", driver=self._library.mend_sim_driver(self._sim)
        )
        check(_devices.function("mend_set_default_config")(-1, ctypes.byref(config)))

    def __enter__(self) -> SimulatedDevice:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Destroys the default pools, including blocks that are still live, and the device. Hooks
        then use the machine's own driver again."""
        if not self._sim:
            return
        self._destroy_pools()
        check(_devices.function("mend_set_default_config")(-1, None))
        self._library.mend_sim_destroy(self._sim)
        self._sim = _pointer()

    def _destroy_pools(self) -> None:
        for device in range(self._device_count):
            pool = _devices.pool(device, is_asked=False)
            result = _devices.function("mend_pool_destroy")(pool)
            if result != DRIVER_ERROR:  # a rule of the device was broken, and the pool is gone
                check(result)

    def stream(self) -> int:
        """Creates a stream of device 0, and returns the number by which frameworks know it."""
        stream = _pointer()
        self._call("stream_create", self._sim, None, ctypes.byref(stream))
        return stream.value or 0

    def destroy_stream(self, stream: int) -> None:
        """Destroys a stream."""
        self._call("stream_destroy", self._sim, _pointer(stream_of(stream)))

    def launch(
        self,
        stream: int,
        address: int,
        size: int,
        finish_ns: int = 0,
        kind: int = TOUCH,
        tag: int = 0,
    ) -> None:
        """Queues work on a stream that uses a range of memory until the virtual clock shows
        `finish_ns`. It is judged when it completes: the range must be mapped then. WRITE writes
        `tag` at that time. VERIFY counts differences from it as content_errors."""
        work = _structures.made(
            "mend_sim_work",
            kind=kind,
            address=amount_of("address", address),
            size_bytes=amount_of("size", size),
            tag=amount_of("tag", tag),
            finish_ns=amount_of("finish_ns", finish_ns),
        )
        self._call("launch", self._sim, _pointer(stream_of(stream)), ctypes.byref(work))

    def synchronize(self, stream: object = 0) -> None:
        """Advances the virtual clock until all work of a stream is complete."""
        self._call("synchronize", self._sim, _pointer(stream_of(stream)))

    def advance(self, duration_ns: int) -> None:
        """Advances the virtual clock, which completes due work."""
        duration = amount_of("duration_ns", duration_ns)
        self._open().mend_sim_advance(self._sim, _u64(duration))

    def fail(self, call: str, count: int = 1, above_bytes: int = 0, status: int = 0) -> None:
        """Makes the next driver calls `call` ("create", "map", ...) fail."""
        if not isinstance(call, str):
            raise TypeError(f"libmend: a driver call is given by its name, not {call!r}")
        fault = _structures.made(
            "mend_sim_fault",
            call=call.encode(),
            status=status,
            count=amount_of("count", count),
            above_bytes=amount_of("above_bytes", above_bytes),
        )
        self._call("fail", self._sim, ctypes.byref(fault))

    def clear_faults(self) -> None:
        """Removes all faults."""
        self._open().mend_sim_clear_faults(self._sim)

    def ledger(self) -> dict[str, int]:
        """The memory in use on the device, and counts of events, by the names of
        mend_sim_ledger."""
        ledger = _structures.made("mend_sim_ledger")
        self._call("get_ledger", self._sim, ctypes.byref(ledger))
        return _structures.figures_of(ledger)

    @property
    def violations(self) -> int:
        """The number of broken rules of the driver."""
        return self.ledger()["violations"]

    @property
    def first_violation(self) -> str:
        """The explanation of the first violation, "" if there is none."""
        return (self._open().mend_sim_first_violation(self._sim) or b"").decode()


class _DeviceOfProcess(SimulatedDevice):
    """The device of the simulated CUDA runtime, which lives as long as the process."""

    def __init__(self) -> None:
        _library_of_simulation()  # libmend is then on this device
        self._sim = _pointer(_standin.device())
        self._device_count = _standin.device_count()
        if not self._sim:
            raise Error("libmend: the simulated device of this process could not be made")

    def close(self) -> None:
        """Destroys the default pools, including blocks that are still live. The device stays."""
        if self._sim:
            self._destroy_pools()
            self._sim = _pointer()


def _sim_config(memory_bytes: int, device_count: int, has_bytes: bool) -> ctypes.Structure:
    return _structures.made(
        "mend_sim_config",
        memory_bytes=device_size_of("memory_bytes", memory_bytes, least=1),
        device_count=amount_of("device_count", device_count, least=1),
        content=int(has_bytes),
    )


def simulate(
    memory_bytes: int | None = None,
    device_count: int | None = None,
    has_bytes: bool | None = None,
) -> SimulatedDevice:
    """Puts simulated GPUs under the default pools of this process, before any hook has used them:
    one of 1 GiB, where nothing else is asked for. With `has_bytes` the host can use the addresses,
    up to about 65,000 mappings. Raises libmend.Error, for example if a pool exists already.

    In a program that `python -m libmend.simulate` runs, it returns the device of the program, and
    raises libmend.Error if that does not have these properties."""
    if not _standin.is_loaded():
        return SimulatedDevice(
            1 << 30 if memory_bytes is None else memory_bytes,
            1 if device_count is None else device_count,
            bool(has_bytes),
        )
    found = _DeviceOfProcess()
    there = (_standin.memory_bytes(), _standin.device_count(), True)
    asked_for = (memory_bytes, device_count, has_bytes)
    names = ("memory_bytes", "device_count", "has_bytes")
    for asked, has, what in zip(asked_for, there, names):
        if asked is not None and asked != has:
            raise Error(
                f"libmend: this program runs on a simulated device with {what}={has}, not {asked}:"
                " say so to python -m libmend.simulate"
            )
    return found
