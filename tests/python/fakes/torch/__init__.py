"""A stub of PyTorch: as much of it as Mend touches before its class is installed.

At its end it loads the extensions of the entry point group torch.backends, as PyTorch does.
"""

import os

from . import _C
from ._C import OutOfMemoryError  # noqa: F401

__version__ = "2.8.0+cu128"

from . import cuda  # noqa: E402


def empty(size, device=None):
    """`size` bytes of PyTorch's own cache: each is a segment of the MemPool that this thread is in,
    if it is in one."""
    pool = getattr(cuda._here, "pool", None)
    return pool.segment(max(size, 20 << 20)) if pool else _C.own_memory()


def _import_device_backends():
    from importlib.metadata import entry_points

    groups = entry_points()
    if hasattr(groups, "select"):
        extensions = groups.select(group="torch.backends")
    else:
        extensions = groups.get("torch.backends", ())
    for extension in extensions:
        try:
            extension.load()()
        except Exception as error:
            raise RuntimeError(
                f"Failed to load the backend extension: {extension.name}."
            ) from error


if os.getenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "1":
    _import_device_backends()
