"""Settings of PyTorch's own allocator, most of which mean nothing to Mend."""

from __future__ import annotations

import ctypes
import os

from .. import _library
from .._warning import warn_user

_NAMES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


def without_effect(settings: str) -> str:
    """The names of settings that have no effect on memory from Mend: "one, another"."""
    names = ctypes.create_string_buffer(1024)
    call = _library.load("mend_torch").mend_torch_settings_without_effect
    call.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
    call.restype = ctypes.c_size_t
    call(os.fsencode(settings), names, len(names))
    return os.fsdecode(names.value)


def warn_of_settings() -> None:
    """Warns of settings in the environment that have no effect."""
    for name in _NAMES:
        found = without_effect(os.environ.get(name, ""))
        if found:
            warn_user(
                f"libmend.torch: {found} in {name} has no effect on memory from Mend;"
                " MEND_CONF has (docs/tuning.md)"
            )


def make_shareable() -> None:
    """Lets tensors be sent to other processes, where the device can share memory, unless MEND_CONF
    says something of that. It is read when a pool is created, and by child processes."""
    conf = os.environ.get("MEND_CONF", "")
    if "shareable" not in (item.partition(":")[0] for item in conf.split(",")):
        os.environ["MEND_CONF"] = f"{conf},shareable:auto" if conf else "shareable:auto"


def pass_through() -> None:
    """Each request is an allocation of the driver if the program wants PyTorch without a cache, for
    compute-sanitizer, unless MEND_CONF sets it."""
    conf = os.environ.get("MEND_CONF", "")
    is_said = "plain" in (item.partition(":")[0] for item in conf.split(","))
    if "PYTORCH_NO_CUDA_MEMORY_CACHING" in os.environ and not is_said:
        os.environ["MEND_CONF"] = f"{conf},plain:on" if conf else "plain:on"
