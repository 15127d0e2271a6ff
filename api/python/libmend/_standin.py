"""The simulated CUDA runtime, in a process that `python -m libmend.simulate` started.

It is preloaded and has a simulated device of its own. Mend's pools are made on the same one, so
that hooks, PyTorch and the program see one memory.
"""

from __future__ import annotations

import ctypes
import functools

LIBRARIES = ("mend_cuda_standin", "mend_nvml_standin")

_u64, _int, _pointer = ctypes.c_uint64, ctypes.c_int, ctypes.c_void_p
_FUNCTIONS = {
    "mend_simulate_device": _pointer,
    "mend_simulate_memory_bytes": _u64,
    "mend_simulate_device_count": _int,
}


@functools.cache
def _process() -> ctypes.CDLL | None:
    process = ctypes.CDLL(None)
    if not hasattr(process, "mend_simulate_device"):
        return None
    for name, result in _FUNCTIONS.items():
        getattr(process, name).restype = result
    return process


def is_loaded() -> bool:
    """This process runs over the simulated runtime."""
    return _process() is not None


def device() -> int:
    """The device of the simulated runtime, as the number of a mend_sim pointer. 0: this process has
    none, or it could not be made, with a message on standard error."""
    process = _process()
    return (process.mend_simulate_device() or 0) if process else 0


def memory_bytes() -> int:
    """The memory of each of its devices."""
    return _process().mend_simulate_memory_bytes()


def device_count() -> int:
    """The number of its devices."""
    return _process().mend_simulate_device_count()
