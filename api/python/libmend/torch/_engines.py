"""Engines that share memory between GPUs by cudaIpcGetMemHandle, which takes no virtual memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from .._warning import warn_user

# Package: the setting that switches its custom all-reduce off, and Mend's plug-in off, by which it
# copies tensors of graphs instead. None: there is no plug-in for it.
_ENGINES = {
    "vllm": ("--disable-custom-all-reduce", "MEND_VLLM"),
    "sglang": ("--disable-custom-all-reduce", "MEND_SGLANG"),
    "aphrodite": ("--disable-custom-all-reduce", None),
}


def warn_of_engines(device_count: Callable[[], int]) -> None:
    """Warns where an engine is loaded whose captures would fail with several GPUs."""
    wish = os.environ.get("MEND_TORCH_GRAPHS", "")
    if wish not in ("", "mend", "native"):
        warn_user(f"libmend.torch: MEND_TORCH_GRAPHS is {wish!r}; it takes native or mend")
    if wish == "native":
        return
    for engine, (switch, plug_in) in _ENGINES.items():
        is_loaded = engine in sys.modules and not _copies(engine, plug_in)
        if is_loaded and device_count() > 1:
            warn_user(
                f"libmend.torch: {engine} is loaded. Its custom all-reduce shares memory of graphs"
                " by cudaIpcGetMemHandle, which takes no virtual memory, so captures fail with"
                f" several GPUs: pass {switch} to it, or set MEND_TORCH_GRAPHS=native"
            )


def _copies(engine: str, plug_in: str | None) -> bool:
    """Whether Mend's plug-in for the engine is on."""
    if plug_in is None or os.environ.get(plug_in, "1") == "0":
        return False
    allowed = os.environ.get("VLLM_PLUGINS") if engine == "vllm" else None
    return allowed is None or "mend" in allowed.split(",")
