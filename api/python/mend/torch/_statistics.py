"""PyTorch's memory statistics with Mend's values.

torch.cuda's functions stay as they are: they all read a few functions of torch._C, which are
replaced. So memory_allocated, memory_stats, memory_summary and the others work under every name
that a program knows, with their usual keys. torch.cuda.mem_get_info still asks the driver: memory
that Mend holds is counted once, as reserved.
"""

from __future__ import annotations

import threading

from .. import _devices

_POOLS = ("all", "large_pool", "small_pool")

# The statistics at the last reset_accumulated_memory_stats, by device.
_bases: dict[int, dict[str, int]] = {}
_lock = threading.Lock()


def nested(device: int) -> dict[str, object]:
    """The value of torch._C._cuda_memoryStats."""
    now = _devices.stats(device)
    with _lock:
        base = _bases.get(device, dict.fromkeys(now, 0))
    since = {name: now[name] - base[name] for name in now}
    blocks = _by_pool(now, since, "live_blocks", "allocations")
    live = _by_pool(now, since, "live_bytes", "allocated_bytes")
    none = _metric(0, 0, 0, 0)
    return {
        "allocation": blocks,
        "active": blocks,
        "segment": _by_pool(now, since, "chunks", "chunks_created"),
        "inactive_split": dict.fromkeys(_POOLS, none),
        "allocated_bytes": live,
        "active_bytes": live,
        "requested_bytes": _by_pool(now, since, "requested_bytes", "allocated_requested_bytes"),
        "reserved_bytes": _by_pool(now, since, "reserved_bytes", "created_bytes"),
        "inactive_split_bytes": _idle(now),
        "reserved_bytes_by_private_pools": {},
        "oversize_allocations": none,
        "oversize_segments": none,
        "max_split_size": -1,
        "num_alloc_retries": since["host_waits"],
        "num_ooms": since["out_of_memory"],
        "num_oom_rejections": 0,
        "num_sync_all_streams": since["host_waits"],
        "num_device_alloc": since["chunks_created"],
        "num_device_free": since["chunks_released"],
    }


def _metric(current: int, peak: int, allocated: int, freed: int) -> dict[str, int]:
    return {"current": current, "peak": peak, "allocated": allocated, "freed": freed}


def _by_pool(
    now: dict[str, int], since: dict[str, int], name: str, total: str
) -> dict[str, dict[str, int]]:
    """The metric of a statistic, for both zones; `total` names its count of allocations. If a zone
    has no such count (chunks, which move between zones), the zone's current value is used."""

    def metric(zone: str, current: int, grown: int, came: int) -> dict[str, int]:
        peak = now.get(f"peak_{zone}{name}", current)
        came = max(came, grown, 0)  # a change of zone since the last reset counts in neither
        return _metric(current, peak, came, came - grown)

    small, small_grown = now[f"small_{name}"], since[f"small_{name}"]
    came = since[total]
    small_came = since.get(f"small_{total}", small_grown)
    return {
        "all": metric("", now[name], since[name], came),
        "large_pool": metric(
            "large_", now[name] - small, since[name] - small_grown, came - small_came
        ),
        "small_pool": metric("small_", small, small_grown, small_came),
    }


def _idle(now: dict[str, int]) -> dict[str, dict[str, int]]:
    """Free memory in partly used chunks, which cannot be released."""
    large, small = now["free_partial_bytes"], now["free_small_bytes"]
    metrics = [_metric(idle, idle, idle, 0) for idle in (large + small, large, small)]
    return dict(zip(_POOLS, metrics))


def reset_peaks(device: int) -> None:
    """torch.cuda.reset_peak_memory_stats."""
    _devices.reset_peak_stats(device)


def reset_accumulated(device: int) -> None:
    """torch.cuda.reset_accumulated_memory_stats: counters start again from here."""
    now = _devices.stats(device)
    with _lock:
        _bases[device] = now


def memory_fraction(device: int) -> float:
    """torch.cuda.get_per_process_memory_fraction: the limit, as a fraction of the device."""
    now = _devices.stats(device)
    return now["limit_bytes"] / now["device_bytes"]


def replacements(torch) -> dict[str, object]:
    """The functions of torch._C that are replaced, by name. Not every PyTorch has all of them."""
    return {
        # Always false for a pluggable allocator; torch.accelerator then asks nothing else.
        "_accelerator_isAllocatorInitialized": torch.cuda.is_initialized,
        "_cuda_memoryStats": nested,
        "_cuda_resetPeakMemoryStats": reset_peaks,
        "_cuda_resetAccumulatedMemoryStats": reset_accumulated,
        "_cuda_getMemoryFraction": memory_fraction,
        "_accelerator_getDeviceStats": nested,
        "_accelerator_resetPeakStats": reset_peaks,
        "_accelerator_resetAccumulatedStats": reset_accumulated,
    }
