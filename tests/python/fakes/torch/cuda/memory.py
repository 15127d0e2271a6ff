"""torch.cuda.memory: what is above torch._C, in the shape it has there."""

import collections
import contextlib
import ctypes

from torch import _C

__all__ = [
    "MemPool",
    "empty_cache",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
    "use_mem_pool",
]


class CUDAPluggableAllocator:
    def __init__(self, path_to_so_file, alloc_fn_name, free_fn_name):
        library = ctypes.CDLL(path_to_so_file)
        alloc = ctypes.cast(getattr(library, alloc_fn_name), ctypes.c_void_p).value
        free = ctypes.cast(getattr(library, free_fn_name), ctypes.c_void_p).value
        self._allocator = _C._cuda_customAllocator(alloc, free)

    def allocator(self):
        return self._allocator


def change_current_allocator(allocator):
    _C._cuda_changeCurrentAllocator(allocator.allocator())


def get_allocator_backend():
    return _C._cuda_getAllocatorBackend()


def empty_cache():
    if _cuda().is_initialized():
        _C._cuda_emptyCache()


def set_per_process_memory_fraction(fraction, device=None):
    _cuda()._lazy_init()
    _C._cuda_setMemoryFraction(fraction, device or 0)


def get_per_process_memory_fraction(device=None):
    return _C._cuda_getMemoryFraction(device or 0)


def memory_stats_as_nested_dict(device=None):
    if not _cuda().is_initialized():
        return {}
    return _C._cuda_memoryStats(device or 0)


def memory_stats(device=None):
    flat = []

    def add(prefix, value):
        if isinstance(value, dict):
            for key, inner in value.items():
                add(f"{prefix}.{key}" if prefix else key, inner)
        else:
            flat.append((prefix, value))

    add("", memory_stats_as_nested_dict(device))
    return collections.OrderedDict(sorted(flat))


def memory_allocated(device=None):
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device=None):
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device=None):
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device=None):
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def memory_summary(device=None, abbreviated=False):
    stats = memory_stats(device)
    lines = [f"CUDA OOMs: {stats['num_ooms']} | retries: {stats['num_alloc_retries']}"]
    for metric in (
        "allocated_bytes",
        "active_bytes",
        "requested_bytes",
        "reserved_bytes",
        "inactive_split_bytes",
        "allocation",
        "active",
        "segment",
        "inactive_split",
    ):
        for pool in ("all", "large_pool", "small_pool"):
            lines.append(
                " ".join(
                    str(stats[f"{metric}.{pool}.{m}"])
                    for m in ("current", "peak", "allocated", "freed")
                )
            )
    for metric in ("oversize_allocations", "oversize_segments"):
        lines.append(str(stats[f"{metric}.current"]))
    return "\n".join(lines)


def reset_peak_memory_stats(device=None):
    return _C._cuda_resetPeakMemoryStats(device or 0)


def reset_accumulated_memory_stats(device=None):
    return _C._cuda_resetAccumulatedMemoryStats(device or 0)


def memory_snapshot(mempool_id=None):
    return _C._cuda_memorySnapshot(mempool_id)["segments"]


def _record_memory_history(enabled="all"):
    _C._cuda_record_memory_history(enabled)


def _set_allocator_settings(settings):
    return _C._cuda_cudaCachingAllocator_set_allocator_settings(settings)


def mem_get_info(device=None):
    return _cuda().cudart().cudaMemGetInfo(device)


class MemPool:
    """Segments of an allocator, below PyTorch's cache."""

    def __init__(self, allocator=None):
        self.allocator = allocator
        self.is_used = False

    def segment(self, size):
        """What the cache asks for: NULL is out of memory, after it has emptied itself."""
        made = _C._library.fake_pluggable_segment(self.allocator.handle, size, 0, None)
        if not made:
            raise _C.OutOfMemoryError("CUDA out of memory.")
        return made


@contextlib.contextmanager
def use_mem_pool(pool, device=None):
    if pool.is_used:
        raise RuntimeError("the pool is in use already")
    here = _C._current.here
    before, here.pool = getattr(here, "pool", None), pool
    pool.is_used = True
    try:
        yield
    finally:
        pool.is_used, here.pool = False, before


def _cuda():
    import torch.cuda

    return torch.cuda
