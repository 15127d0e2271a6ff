"""Mend for Python: a CUDA memory allocator that makes fragmentation harmless.

The hooks are separate modules: `libmend.torch`, `libmend.cupy`, `libmend.numba`, `libmend.rmm`,
`libmend.onnxruntime`, and `libmend.handler` for cuQuantum and cuDSS. This module has their shared
parts: statistics, owners, regions and history of a device's pool, scopes, sleep and wake, errors,
and a simulated device for tests without a GPU.

Importing it loads no library and calls no driver.
"""

from __future__ import annotations

import importlib

from ._devices import (
    alloc_options,
    compact,
    configure,
    current_device,
    reset_peak_stats,
    available,
    set_limit,
    stats,
    trim,
)
from ._errors import Error, OutOfMemoryError
from ._prometheus import prometheus
from ._scopes import Scope, module_scopes, name_stream, name_tag, plain, scope, scopes
from ._simulation import SimulatedDevice, simulate
from ._sleep import (
    SleepReport,
    TagUsage,
    WakeReport,
    set_backup_cache_limit,
    sleep,
    sleep_tag,
    tag_number,
    usage_by_tag,
    wake,
)
from ._stacks import record_stacks
from ._version import __version__, library_version
from ._views import Event, History, Owner, Region, owners, leaks, regions, report

_LATER = ("cuda_core", "cupy", "fit", "handler", "numba", "onnxruntime", "rmm", "torch")


def __getattr__(name: str) -> object:
    """A module that is imported when it is first named: `libmend.torch.enable()`."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f".{name}", __name__)


__all__ = [
    "Error",
    "Event",
    "History",
    "Owner",
    "OutOfMemoryError",
    "Region",
    "Scope",
    "SimulatedDevice",
    "SleepReport",
    "TagUsage",
    "WakeReport",
    "__version__",
    "alloc_options",
    "compact",
    "configure",
    "current_device",
    "owners",
    "set_backup_cache_limit",
    "leaks",
    "library_version",
    "module_scopes",
    "name_stream",
    "name_tag",
    "plain",
    "prometheus",
    "record_stacks",
    "regions",
    "report",
    "reset_peak_stats",
    "available",
    "scope",
    "scopes",
    "set_limit",
    "simulate",
    "sleep",
    "sleep_tag",
    "stats",
    "tag_number",
    "trim",
    "usage_by_tag",
    "wake",
]
