"""Sleep and wake for PyTorch: libmend.sleep and libmend.wake for tensors and modules, on the
current device. After libmend.torch.enable() alone: in a segment of PyTorch's own cache tensors of
several tags lie side by side, and it would give out memory that sleeps."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from .. import _sleep
from .._errors import error_named
from .._sleep import Backups, SleepReport, Tag, Tags, WakeReport
from ._errors import as_pytorch

# As vLLM names its levels and tags.
LEVELS = {
    1: {"weights": "host", "kv_cache": "discard"},
    2: {"weights": "discard", "kv_cache": "discard"},
}


@contextlib.contextmanager
def sleep_tag(tag: Tag | None) -> Iterator[int]:
    """Tensors that this thread makes inside the `with` have this sleep tag, as by
    libmend.sleep_tag: a module's parameters and buffers, and all else that the thread allocates.
    Threads of backward are others, so gradients that it makes have none. Raises RuntimeError before
    enable()."""
    _need_enabled("sleep_tag")
    with _sleep.sleep_tag(tag) as number:
        yield number


def sleep(
    tags: Backups | Tags | None = None,
    *,
    level: int | None = None,
    others: str | None = None,
    skip_pinned: bool = False,
    keep_free: bool | str = False,
    directory: str | os.PathLike | None = None,
    graphs: str | None = None,
    device: object | None = None,
) -> SleepReport:
    """libmend.sleep for the current device, or another. Instead of tags it takes a `level`, as
    vLLM: at 1 "weights" get a backup on the host and "kv_cache" is dropped, at 2 both are dropped,
    and all else stays awake. Raises RuntimeError before enable()."""
    _need_enabled("sleep")
    if level is not None:
        if tags is not None or level not in LEVELS:
            raise ValueError(
                f"libmend.torch.sleep: level is {level!r}; it takes 1 or 2, without tags"
            )
        tags = LEVELS[level]
    if _is_capturing():
        raise error_named("MEND_ERROR_CAPTURING", "the current stream is being captured")
    with as_pytorch():
        return _sleep.sleep(
            tags,
            others=others,
            skip_pinned=skip_pinned,
            keep_free=keep_free,
            directory=directory,
            graphs=graphs,
            device=_device(device),
            _needs_all=level is None,
        )


def wake(tags: Tags | None = None, *, device: object | None = None) -> WakeReport:
    """libmend.wake for the current device, or another. Out of memory is torch.OutOfMemoryError too.
    Raises RuntimeError before enable()."""
    _need_enabled("wake")
    with as_pytorch():
        return _sleep.wake(tags, device=_device(device))


def is_asleep(tensor) -> bool:
    """Whether any memory of a tensor's block sleeps. Raises libmend.Error if it is no memory of
    Mend's."""
    return tensor.numel() > 0 and _sleep.is_asleep(tensor.data_ptr())


def contents_dropped(tensor) -> bool:
    """Whether a sleep dropped contents of a tensor's block ("discard", or a level of sleep()), and
    no later sleep had a backup of all of it. Stays true after the contents were loaded again.
    Raises libmend.Error if it is no memory of Mend's."""
    return tensor.numel() > 0 and _sleep.contents_dropped(tensor.data_ptr())


def move_to_tag(of: object, tag: Tag | None) -> int:
    """Gives the parameters and buffers of a module, or tensors, a sleep tag. The tag of memory does
    not change, so each storage on a GPU is copied to memory with the tag. Tensors that share one
    still do, and parameters are the same objects, but their addresses are new. Others that know the
    old ones keep them: views outside of the module, captured graphs. Returns the bytes moved."""
    import torch

    tensors = [*of.parameters(), *of.buffers()] if hasattr(of, "parameters") else list(of)
    tensors = list({id(tensor): tensor for tensor in tensors if tensor.is_cuda}.values())
    for device in {tensor.device for tensor in tensors}:
        torch.cuda.synchronize(device)  # they may be written on any stream
    moved: dict[int, object] = {}
    with torch.no_grad(), sleep_tag(tag):
        for tensor in tensors:
            old = tensor.untyped_storage()
            with torch.cuda.device(tensor.device):
                if old._cdata not in moved:
                    moved[old._cdata] = old.clone()
                    tensor.record_stream(torch.cuda.current_stream())
                view = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
                tensor.data = view.set_(
                    moved[old._cdata], tensor.storage_offset(), tensor.shape, tensor.stride()
                )
    return sum(storage.nbytes() for storage in moved.values())


def _need_enabled(call: str) -> None:
    from . import is_enabled

    if not is_enabled():
        raise RuntimeError(f"libmend.torch.{call}() needs libmend.torch.enable()")


def _is_capturing() -> bool:
    """A wait for the context would end the capture, and Mend may not know the stream yet."""
    import torch

    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def _device(device: object | None) -> object:
    import torch

    return torch.cuda.current_device() if device is None else device
