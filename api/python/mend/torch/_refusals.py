"""What PyTorch cannot do with memory from Mend, refused with messages that help.

A pluggable allocator is not asked about these. Some would fail with less clear messages. Captured
graphs would go wrong without any: their memory would be reused between two launches.
"""

from __future__ import annotations

import functools
import os
import sys
import warnings

_SHARE = "Copy the tensor to the host to share it"
_GRAPH = "Run without CUDA graphs: torch.compile without 'reduce-overhead' and 'max-autotune'"
_WATCH = "mend.stats() and torch.cuda.memory_stats() tell what memory is used"

# What is refused, and what to do instead, by the names in torch._C.
_FUNCTIONS = {
    "_cuda_memorySnapshot": ("memory snapshots", _WATCH),
    "_cuda_attach_out_of_memory_observer": (
        "an out-of-memory observer",
        "Catch torch.OutOfMemoryError",
    ),
    "_cuda_getCheckpointState": ("CUDA graph trees", _GRAPH),
    "_cuda_setCheckpointPoolState": ("CUDA graph trees", _GRAPH),
    "_cuda_checkPoolLiveAllocations": ("CUDA graph trees", _GRAPH),
    "_cuda_beginAllocateToPool": ("a memory pool of PyTorch's", _GRAPH),
    "_cuda_beginAllocateCurrentStreamToPool": ("a memory pool of PyTorch's", _GRAPH),
    "_cuda_beginAllocateCurrentThreadToPool": ("a memory pool of PyTorch's", _GRAPH),
}

# Refused if it turns recording on; turning it off works.
_RECORDERS = (
    "_cuda_record_memory_history",
    "_cuda_record_memory_history_legacy",
    "_cuda_recordMemoryHistory",
)

# These change settings of PyTorch's own allocator, by the names in torch._C.
_SETTERS = (
    "_cuda_cudaCachingAllocator_set_allocator_settings",
    "_accelerator_setAllocatorSettings",
)
_SETTINGS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


def refusing(what: str, instead: str):
    """A function that takes any arguments and raises an error with the reason."""

    def refuse(*_arguments: object, **_options: object):
        raise RuntimeError(
            f"mend.torch: {what} cannot work while PyTorch's memory comes from Mend. {instead}."
            " See docs/frameworks/pytorch.md"
        )

    return refuse


def install(torch) -> None:
    """Replaces everything that cannot work, and that this PyTorch has, by a refusal."""
    for name, (what, instead) in _FUNCTIONS.items():
        if hasattr(torch._C, name):
            setattr(torch._C, name, refusing(what, instead))
    for name in _RECORDERS:
        if hasattr(torch._C, name):
            setattr(torch._C, name, _recording_nothing)
    share = refusing("sharing a CUDA tensor with another process", _SHARE)
    storage = torch.UntypedStorage
    storage._share_cuda_ = share
    storage._new_shared_cuda = staticmethod(share)
    _refuse_captures(torch)
    if hasattr(torch.cuda, "MemPool"):
        torch.cuda.MemPool.__init__ = refusing(
            "a torch.cuda.MemPool", "All memory is Mend's already"
        )
    _switch_benchmark_off(torch)
    _tell_of_settings(torch)


def _recording_nothing(enabled: object = None, *_arguments: object, **_options: object) -> None:
    """Turns recording off; it is off already."""
    if enabled:
        refusing("recording the history of memory", _WATCH)()


def _refuse_captures(torch) -> None:
    """Refuses before anything has changed: torch.cuda.graph makes a stream of its own current
    before it begins. Captures from C++ are refused by the allocator (mend_torch_begin_pool)."""
    refuse = refusing("capturing a CUDA graph", _GRAPH)
    torch.cuda.graph.__enter__ = refuse
    torch.cuda.CUDAGraph.capture_begin = refuse
    if hasattr(torch._C, "_CUDAGraph"):
        torch._C._CUDAGraph.capture_begin = refuse


def _tell_of_settings(torch) -> None:
    """Settings of PyTorch's own allocator have no effect here; one warning says so."""
    for name in _SETTINGS:
        if os.environ.get(name):
            warn_user(f"mend.torch: {name} has no effect on memory from Mend; MEND_CONF has")
    told: list[str] = []

    def telling(set_settings):
        @functools.wraps(set_settings)
        def set_and_tell(settings: str) -> None:
            if not told:
                told.append(settings)
                warn_user(
                    f"mend.torch: the allocator settings {settings!r} have no effect on memory"
                    " from Mend; MEND_CONF has"
                )
            set_settings(settings)

        return set_and_tell

    for name in _SETTERS:
        if hasattr(torch._C, name):
            setattr(torch._C, name, telling(getattr(torch._C, name)))


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


def _switch_benchmark_off(torch) -> None:
    """cuDNN's search for the fastest algorithm asks the allocator for its largest free block. A
    pluggable allocator cannot answer, and the first convolution would fail."""
    cudnn = torch.backends.cudnn
    was_on = cudnn.benchmark
    set_benchmark = torch._C._set_cudnn_benchmark

    @functools.wraps(set_benchmark)
    def set_off(is_on: bool) -> None:
        if is_on:
            warn_user(
                "mend.torch: torch.backends.cudnn.benchmark stays off: PyTorch's search for the"
                " fastest algorithm does not work with a pluggable allocator"
            )
        set_benchmark(False)

    class Benchmark:
        """The attribute torch.backends.cudnn.benchmark."""

        def __get__(self, _module: object, _kind: object = None) -> bool:
            return False

        def __set__(self, _module: object, is_on: bool) -> None:
            set_off(is_on)

    torch._C._set_cudnn_benchmark = set_off
    type(cudnn).benchmark = Benchmark()
    if was_on:
        set_off(True)
