"""vLLM's sleep mode over Mend, without a changed line:

    MEND_TORCH=1 vllm serve ... --enable-sleep-mode

vLLM loads this as a plug-in (entry point group vllm.general_plugins) in each of its processes. If
Mend is PyTorch's allocator, this `CuMemAllocator` replaces vLLM's own: weights, cache and all else
are then blocks of one pool with sleep tags, and not a pool beside PyTorch's cache. MEND_VLLM=0:
vLLM keeps its own. MEND_VLLM=keep_free: memory of sleeping blocks stays in the pool, for a trainer
in the same process, and is not released to the device. docs/sleep.md
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import NamedTuple

from . import _later, _sleep, _structures

# A wake by tags leaves these asleep unless it names them. All else wakes with every call.
_DEFERRED = ("weights", "kv_cache")
# Kept on the host at every level. For graphs these are live blocks. Free memory which they use is
# never kept.
_KEPT_ALWAYS = ("runtime", "cudagraph")


class AllocationData(NamedTuple):
    """The fields of an allocation that vLLM's tests and tools read."""

    handle: tuple[int, int, int, int]  # device, bytes, address. The last has no use here
    tag: str
    is_asleep: bool
    cpu_backup_tensor: None = None


class CuMemAllocator:
    """vLLM's class of this name, over the current device's pool of Mend. Memory that other
    processes know stays awake."""

    instance: CuMemAllocator | None = None
    default_tag = "default"
    cudagraph_tag = "cudagraph"

    @staticmethod
    def get_instance() -> CuMemAllocator:
        if CuMemAllocator.instance is None:
            CuMemAllocator.instance = CuMemAllocator()
        return CuMemAllocator.instance

    def __init__(self) -> None:
        self.current_tag = self.default_tag
        self._tags: set[str] = set()  # that were ever used
        self._graph_pool: object = None

    @contextlib.contextmanager
    def use_memory_pool(self, tag: str | None = None) -> Iterator[None]:
        tag = self.default_tag if tag is None else tag
        assert isinstance(tag, str)
        before, self.current_tag = self.current_tag, tag
        self._tags.add(tag)
        try:
            with _sleep.sleep_tag(_number(tag)):
                yield
        finally:
            self.current_tag = before

    @contextlib.contextmanager
    def use_cudagraph_pool(self, pool: object = None) -> Iterator[object]:
        """Memory of graphs that are captured inside sleeps too. Yields the pool for them: the one
        given, or one for all."""
        import torch

        if pool is None:
            self._graph_pool = self._graph_pool or torch.cuda.graph_pool_handle()
            pool = self._graph_pool
        with self.use_memory_pool(self.cudagraph_tag):
            yield pool

    def release_cudagraph_pool(self, pool: object = None) -> None:
        """Later graphs have a new pool. The memory of those before goes with them."""
        self._graph_pool = None

    def release_pools(self) -> None:
        """Nothing to release: free memory is Mend's."""

    def sleep(self, offload_tags: tuple[str, ...] | str | None = None) -> None:
        """Memory with one of these tags gets a backup on the host, all other memory of
        use_memory_pool is dropped. Sleeping memory sleeps on, with its backup."""
        kept = (self.default_tag,) if offload_tags is None else _several(offload_tags)
        kept += _KEPT_ALWAYS
        self._put({tag: "host" if tag in kept else "discard" for tag in self._tags})

    def discard(self, tags: tuple[str, ...] | str) -> None:
        """Drops memory with these tags. The rest stays awake."""
        self._put(dict.fromkeys(_several(tags), "discard"))

    def wake_up(self, tags: list[str] | None = None) -> None:
        """Wakes these tags, and every other that vLLM does not delay, or without tags all. Out of
        memory is torch.OutOfMemoryError, which is a RuntimeError. All sleeps as before. Backups
        leave their pinned memory to the next sleep, unless vLLM's variable says to release it."""
        from .torch._errors import as_pytorch

        deferred = set() if tags is None else set(_DEFERRED) - set(tags)
        wanted = [_number(tag) for tag in self._tags - deferred]
        if wanted:  # none are all for mend_wake
            stays = os.environ.get("VLLM_SLEEP_MODE_RELEASE_HOST_MEMORY", "0") in ("", "0")
            with as_pytorch(), _sleep.host_memory_stays(stays, _device()):
                _sleep.take_back(wanted, _device(), _structures.made("mend_wake_report"))

    def get_current_usage(self) -> int:
        """Bytes of blocks with a tag of use_memory_pool, asleep or not."""
        usage = _sleep.usage_by_tag(_device())
        return sum(usage[key].live_bytes for key in map(_name, self._tags) if key in usage)

    @property
    def allocator_and_pools(self) -> dict[str, list[object]]:
        return {tag: [] for tag in self._tags}

    @property
    def pointer_to_data(self) -> dict[int, AllocationData]:
        """All live blocks with a tag of use_memory_pool, by address."""
        import torch

        device = _device()
        names = {_number(tag): tag for tag in self._tags}
        found = {}
        for segment in torch.cuda.memory_snapshot():
            blocks = segment["blocks"] if segment["device"] == device else ()
            for block in blocks:
                address = block["address"]
                is_live = block["state"].startswith("active")
                tag = names.get(_sleep.tag_of(address)) if is_live else None
                if tag is not None:
                    handle = (device, block["size"], address, 0)
                    found[address] = AllocationData(handle, tag, _sleep.is_asleep(address))
        return found

    def _put(self, keeps: dict[str, str]) -> None:
        from .torch._errors import as_pytorch

        rules = {_number(tag): keep for tag, keep in keeps.items()}
        if not rules:
            return
        keep_free = 2 if os.environ.get("MEND_VLLM") == "keep_free" else 0
        try:
            with as_pytorch():
                _sleep.put(rules, "resident", _device(), skip_pinned=1, keep_free=keep_free)
        except RuntimeError as error:
            if getattr(error, "name", "") != "MEND_ERROR_ASLEEP":
                raise


def register() -> None:
    """vLLM calls this in each process, before it makes a worker. Does nothing unless Mend is on."""
    from . import torch as _torch

    if os.environ.get("MEND_VLLM", "1") == "0" or not _torch.is_enabled():
        return
    _later.when_imported("vllm.device_allocator.cumem", _take_the_place)
    _later.when_imported(
        "vllm.distributed.device_communicators.custom_all_reduce", _later.copy_what_graphs_reduce
    )


def _take_the_place(cumem: ModuleType) -> None:
    cumem.cumem_available = True
    theirs, cumem.CuMemAllocator = cumem.CuMemAllocator, CuMemAllocator
    for name, module in list(sys.modules.items()):  # importers of the class before
        if name.startswith("vllm.") and getattr(module, "CuMemAllocator", None) is theirs:
            module.CuMemAllocator = CuMemAllocator


def _device() -> int:
    import torch

    return torch.cuda.current_device()


def _several(tags: tuple[str, ...] | str) -> tuple[str, ...]:
    return (tags,) if isinstance(tags, str) else tuple(tags)


def _name(tag: str) -> str:
    """Which people read, too: "weights" alone is the program's own."""
    return f"vllm {tag}"


def _number(tag: str) -> int:
    return _sleep.tag_number(_name(tag))
