"""A stand-in for PyTorch: as much of it as Mend touches, with the behaviour that matters.

At its end it loads the extensions of the entry point group torch.backends, as PyTorch does.
"""

import os

from . import _C
from ._C import OutOfMemoryError  # noqa: F401

__version__ = "2.99.0"


class UntypedStorage:
    """Memory that may be shared with other processes."""

    def _share_cuda_(self):
        raise RuntimeError("CUDAPluggableAllocator does not yet support shareIpcHandle.")


class Tensor:
    """A block of memory: its data_ptr, and the allocator it goes back to."""

    def __init__(self, size, device, stream):
        self._allocator = _C._current
        self._pointer = _C._current.malloc(size, device, stream)

    def data_ptr(self):
        return self._pointer

    def record_stream(self, stream):
        _C._library.fake_pluggable_record_stream(
            self._allocator.handle, self._pointer, stream.cuda_stream
        )

    def untyped_storage(self):
        return UntypedStorage()

    def __del__(self):
        if getattr(self, "_pointer", None) is not None:
            self._allocator.raw_delete(self._pointer)


def empty(size, device="cuda"):
    """`size` bytes on the current device, in the order of the current stream."""
    cuda._lazy_init()
    return Tensor(size, cuda.current_device(), cuda.current_stream().cuda_stream)


from . import backends, cuda  # noqa: E402


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
