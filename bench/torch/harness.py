"""One program under one allocator: the setting, the steps, the measurements.

Which allocator PyTorch uses is the only thing the environment decides, by MEND_BENCH_ALLOCATOR:
`native`, `expandable` (PyTorch's own with expandable segments), `async` (cudaMallocAsync) or
`mend`. The programs are the same, step for step, with the same seeds.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import time

ALLOCATORS = ("native", "expandable", "async", "mend")
CONFIGURATIONS = {"expandable": "expandable_segments:True", "async": "backend:cudaMallocAsync"}


def prepare_allocator() -> str:
    """Sets up the allocator of MEND_BENCH_ALLOCATOR, before any import of torch, as far as that
    needs no GPU: a process that forks may do it."""
    name = os.environ.get("MEND_BENCH_ALLOCATOR", "native")
    if name not in ALLOCATORS:
        raise SystemExit(f"MEND_BENCH_ALLOCATOR is {name!r}; it takes {', '.join(ALLOCATORS)}")
    if name in CONFIGURATIONS:
        for variable in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
            os.environ[variable] = CONFIGURATIONS[name]
    import torch  # noqa: F401

    return name


def choose_allocator() -> str:
    """Sets up the allocator of MEND_BENCH_ALLOCATOR, before any import of torch."""
    name = prepare_allocator()
    if name == "mend":
        import libmend.torch

        libmend.torch.enable()
    return name


class Place:
    """Where a program runs: the GPU, or without one the CPU, for a dry run."""

    def __init__(self, is_dry: bool) -> None:
        import torch

        self.torch = torch
        self.is_dry = is_dry
        self.device = torch.device("cpu" if is_dry else "cuda")

    def limit(self, memory_bytes: int) -> None:
        """The most memory the allocator may take."""
        if not self.is_dry and memory_bytes:
            total = self.torch.cuda.get_device_properties(0).total_memory
            self.torch.cuda.set_per_process_memory_fraction(min(memory_bytes / total, 1.0))

    def seed(self, seed: int) -> random.Random:
        """Seeds the weights and the data, and gives the chance that shapes are drawn from."""
        self.torch.manual_seed(seed)
        return random.Random(seed)

    def synchronize(self) -> None:
        """Waits for all that was queued."""
        if not self.is_dry:
            self.torch.cuda.synchronize()

    def stream(self):
        """A stream of its own, or None on the CPU."""
        return None if self.is_dry else self.torch.cuda.Stream()

    def on(self, stream):
        """`with place.on(stream)`: work queued inside goes there."""
        return contextlib.nullcontext() if stream is None else self.torch.cuda.stream(stream)

    def autocast(self):
        """bfloat16 where it pays."""
        return self.torch.autocast(self.device.type, self.torch.bfloat16, enabled=not self.is_dry)

    def _used(self) -> int:
        """Memory that the driver counts as taken, with the context and other processes."""
        free, total = self.torch.cuda.mem_get_info()
        return total - free

    def figures(self) -> dict[str, int]:
        """The allocator's own statistics."""
        if self.is_dry:
            return {}
        stats = self.torch.cuda.memory_stats()
        return {
            "peak_reserved_bytes": stats.get("reserved_bytes.all.peak", 0),
            "peak_allocated_bytes": stats.get("allocated_bytes.all.peak", 0),
            "num_alloc_retries": stats.get("num_alloc_retries", 0),
            "num_ooms": stats.get("num_ooms", 0),
            "device_used_bytes": self._used(),
        }


def percentile(values: list[float], part: float) -> float:
    """The smallest value that at least `part` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * part) - 1, 0)]


def out_of_memory(torch) -> type[BaseException]:
    """The error that PyTorch raises. Older ones have it elsewhere."""
    return getattr(torch, "OutOfMemoryError", None) or torch.cuda.OutOfMemoryError


def measure(place: Place, step, steps: int, warm_up: int) -> dict[str, object]:
    """Runs the steps, and stops at the first that runs out of memory."""
    times, failed_at = [], None
    for index in range(warm_up + steps):
        begin = time.perf_counter()
        try:
            step(index)
            place.synchronize()
        except out_of_memory(place.torch):
            failed_at = index
            break
        if index >= warm_up:
            times.append((time.perf_counter() - begin) * 1000)
    result = {"completed": failed_at is None, "failed_at_step": failed_at, "steps": len(times)}
    if times:
        result["step_ms"] = figures_of(times)
    if len(times) > 1:
        half = len(times) // 2
        result["step_ms_by_half"] = [figures_of(times[:half]), figures_of(times[half:])]
    return {**result, **place.figures()}


def figures_of(times: list[float]) -> dict[str, float]:
    """Statistics of durations."""
    return {"p50": percentile(times, 0.5), "p99": percentile(times, 0.99), "max": max(times)}
