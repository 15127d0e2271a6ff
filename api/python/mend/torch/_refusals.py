"""What PyTorch cannot do with its memory from Mend, refused with words that help.

A pluggable allocator has no say in these; some would fail with less clear words, and captured
graphs would go wrong without any: their memory would be handed to others between two replays.
"""

from __future__ import annotations

import functools
import warnings

_SHARE = "Copy the tensor to the host to share it"
_GRAPH = "Run without CUDA graphs: torch.compile without 'reduce-overhead' and 'max-autotune'"
_WATCH = "mend.stats() and torch.cuda.memory_stats() tell what memory is used"

# What is refused, and what to do instead, by the names of torch._C.
_FUNCTIONS = {
    "_cuda_memorySnapshot": ("memory snapshots", _WATCH),
    "_cuda_record_memory_history": ("recording the history of memory", _WATCH),
    "_cuda_record_memory_history_legacy": ("recording the history of memory", _WATCH),
    "_cuda_recordMemoryHistory": ("recording the history of memory", _WATCH),
    "_cuda_attach_out_of_memory_observer": (
        "an out-of-memory observer",
        "Catch torch.OutOfMemoryError",
    ),
    "_cuda_getCheckpointState": ("CUDA graph trees", _GRAPH),
    "_cuda_setCheckpointPoolState": ("CUDA graph trees", _GRAPH),
    "_cuda_checkPoolLiveAllocations": ("CUDA graph trees", _GRAPH),
    "_cuda_beginAllocateToPool": ("a memory pool of PyTorch's", _GRAPH),
    "_cuda_beginAllocateCurrentStreamToPool": ("a memory pool of PyTorch's", _GRAPH),
}


def refusing(what: str, instead: str):
    """A function that takes anything, and says why it cannot be done."""

    def refuse(*_arguments: object, **_options: object):
        raise RuntimeError(
            f"mend.torch: {what} cannot work while PyTorch's memory comes from Mend. {instead}."
            " See docs/frameworks/pytorch.md"
        )

    return refuse


def install(torch) -> None:
    """Puts a refusal in place of all that cannot work and that this PyTorch has."""
    for name, (what, instead) in _FUNCTIONS.items():
        if hasattr(torch._C, name):
            setattr(torch._C, name, refusing(what, instead))
    share = refusing("sharing a CUDA tensor with another process", _SHARE)
    storage = torch.UntypedStorage
    storage._share_cuda_ = share
    storage._new_shared_cuda = staticmethod(share)
    torch.cuda.CUDAGraph.capture_begin = refusing("capturing a CUDA graph", _GRAPH)
    if hasattr(torch.cuda, "MemPool"):
        torch.cuda.MemPool.__init__ = refusing(
            "a torch.cuda.MemPool", "All memory is Mend's already"
        )
    _switch_benchmark_off(torch)


def _switch_benchmark_off(torch) -> None:
    """cuDNN's search for the fastest algorithm asks the allocator for its largest free block, which
    a pluggable one cannot answer: the first convolution would fail."""
    cudnn = torch.backends.cudnn
    was_on = cudnn.benchmark
    set_benchmark = torch._C._set_cudnn_benchmark

    @functools.wraps(set_benchmark)
    def set_off(is_on: bool) -> None:
        if is_on:
            warnings.warn(
                "mend.torch: torch.backends.cudnn.benchmark stays off: PyTorch's search for the"
                " fastest algorithm does not work with a pluggable allocator",
                RuntimeWarning,
                stacklevel=3,
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
