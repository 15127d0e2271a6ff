"""Calls and settings that do nothing, because nothing in this process allocates from Mend."""

from __future__ import annotations

import atexit
import os
import sys

from . import _devices, _warning

_DEVICES = 64  # MEND_DEVICE_LIMIT

# Settings that mean nothing in a process without a pool.
_SETTINGS = ("MEND_CONF", "MEND_RECORD", "MEND_STACKS")

# Modules that have memory of their own until a hook is on, and how one turns it on.
_OWN = {
    "torch": "PyTorch uses its own allocator. Set MEND_TORCH=1, or call libmend.torch.enable()"
    " before the first tensor on a GPU",
    "cupy": "CuPy uses its own pool. Call libmend.cupy.enable()",
    "rmm": "RMM uses its own resources. Call libmend.rmm.enable()",
    "numba.cuda": "Numba uses its own memory. Set NUMBA_CUDA_MEMORY_MANAGER=libmend.numba",
}

_served: set[str] = set()  # the hooks that are on, or "pool"
_place: _warning.Place | None = None  # of the first call that was in vain so far
_is_configured = False  # MEND_CONF is not the user's
_is_told = False


def is_on(hook: str) -> None:
    """A hook serves its framework from Mend."""
    _served.add(hook)


def is_served() -> bool:
    """Whether a hook is on, or a default pool has allocated something: one that was made for a
    question or a limit serves nobody."""
    for number in () if _served else range(_DEVICES):
        if _devices.has_pool(number):
            figures = _devices.stats_of(_devices.pool(number, is_asked=False))
            _served.update(["pool"] * (figures["allocations"] > 0))
    return bool(_served)


def note() -> None:
    """A call of the program needs memory of Mend. Its line is warned of, once a process, if there
    is none when PyTorch begins to use a GPU, or at the end."""
    global _place
    if _place is not None or is_served():
        return
    _place = _warning.place_of_user()
    atexit.register(_tell_at_end)
    watch()


def note_configured() -> None:
    """The same of configure(), before it sets MEND_CONF."""
    global _is_configured
    _is_configured = _is_configured or not os.environ.get("MEND_CONF")
    note()


def note_settings() -> None:
    """The same of settings in the environment, which are told at the end."""
    names = [name for name in _SETTINGS if os.environ.get(name)]
    if names and not (names == ["MEND_CONF"] and _is_configured):
        atexit.register(_tell_of, ", ".join(names))


def watch() -> None:
    """PyTorch is imported, with its own allocator so far."""
    torch = sys.modules.get("torch")
    if _place is not None and hasattr(getattr(torch, "cuda", None), "_lazy_call"):
        torch.cuda._lazy_call(lambda: _tell("torch"))  # now, if it uses a GPU already


def why_not(device: object) -> str | None:
    """The reason why a report of the device would be empty, with the way out."""
    global _is_told
    own = next((name for name in _OWN if name in sys.modules), None)
    if own is None or is_served():
        is_empty = not _devices.has_pool(device)
        return "libmend: nothing was allocated through Mend yet" if is_empty else None
    _is_told = True
    return f"libmend: no memory of this process comes from Mend: {_OWN[own]}"


def warn(device: object) -> bool:
    """Warns that there is nothing to report of a device, which is the answer."""
    was_told = _is_told
    why = why_not(device)
    if why is not None and not was_told:
        _warning.warn_user(why)
    return why is not None


def _in_use() -> str | None:
    """A framework that used its own memory. Of PyTorch it is known whether it used a GPU."""
    used = (name for name in _OWN if name in sys.modules)
    return next((n for n in used if n != "torch" or sys.modules[n].cuda.is_initialized()), None)


def _tell_at_end() -> None:
    used = _in_use()
    if used is not None:
        _tell(used)


def _tell(name: str) -> None:
    global _is_told
    if not _is_told and not is_served():
        _is_told = True
        what = "this has no effect, because no memory of this process comes from Mend"
        _warning.warn_of(f"libmend: {what}: {_OWN[name]}", _place)


def _tell_of(names: str) -> None:
    used = _in_use()
    if used is not None and not _is_told and not is_served():
        print(
            f"libmend: {names}: no memory of this process came from Mend, so nothing came of it:"
            f" {_OWN[used]}",
            file=sys.stderr,
        )
