"""Settings of PyTorch's own allocator, most of which mean nothing to Mend."""

from __future__ import annotations

import os
import sys
import warnings

_NAMES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
# What Mend obeys, and what is about pinned memory of the host, which stays PyTorch's.
_MEANT = (
    "roundup_power2_divisions",
    "per_process_memory_fraction",
    "throw_on_cudamalloc_oom",
    "pinned_",
)


def without_effect(settings: str) -> list[str]:
    """The keys of a setting that have no effect on memory from Mend."""
    keys, depth, key = [], 0, ""
    for character in settings + ",":
        depth += {"[": 1, "]": -1}.get(character, 0)
        if character == "," and depth == 0:
            keys.append(key.partition(":")[0].strip())
            key = ""
        else:
            key += character
    return [key for key in keys if key and not key.startswith(_MEANT)]


def warn_of_settings() -> None:
    """Warns of settings in the environment that have no effect."""
    for name in _NAMES:
        keys = without_effect(os.environ.get(name, ""))
        if keys:
            warn_user(
                f"mend.torch: {', '.join(keys)} in {name} has no effect on memory from Mend;"
                " MEND_CONF has (docs/configuration.md)"
            )


def make_shareable() -> None:
    """Lets tensors be sent to other processes, unless MEND_CONF says something of that. It is read
    when a pool is created, and by child processes."""
    conf = os.environ.get("MEND_CONF", "")
    if "shareable" not in conf:
        os.environ["MEND_CONF"] = f"{conf},shareable:on" if conf else "shareable:on"


def warn_user(message: str) -> None:
    """A RuntimeWarning for the line of the program that called, not for one of Mend or of PyTorch's
    import machinery."""
    level, frame = 1, sys._getframe()
    while frame is not None and _is_inside(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, RuntimeWarning, stacklevel=level)


def _is_inside(path: str) -> bool:
    folders = f"{os.sep}mend{os.sep}", f"{os.sep}torch{os.sep}"
    return path.startswith("<frozen") or any(folder in path for folder in folders)
