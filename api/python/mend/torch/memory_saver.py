"""torch_memory_saver's interface over Mend: programs written for that package run unchanged.

With MEND_TORCH=1 `import torch_memory_saver` finds this module (docs/sleep.md); a program may also
say `from mend.torch.memory_saver import torch_memory_saver`. What a region allocates has a sleep
tag, one for each tag of regions and way to keep it; pause and resume are sleep and wake of those on
every device. There is one kind of hook, so both hook modes mean it.

What differs: what torch_memory_saver ends the process for is an exception here; memory that other
processes know stays awake, with a warning; a backup is always copied when it is read, and ends with
the resume.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Iterator

from .. import _devices, _sleep, _structures
from .._errors import Error
from .._warning import warn_user
from ._errors import as_pytorch

__all__ = ["TorchMemorySaver", "configure_subprocess", "torch_memory_saver"]

_DEFAULT_TAG = "default"
_BACKENDS = ("mmap", "pinned")
_PAGE_BYTES = 2 << 20

# The tag of a region, and what is kept of it.
_Region = tuple[str, str]


def _is_set(name: str) -> bool:
    return os.environ.get(name, "").lower() in ("1", "true", "yes")


class _Process:
    """What all threads share."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.regions: set[_Region] = set()  # that were ever entered
        self.paused: dict[int, str] = {}  # what is kept, by sleep tag
        # With TMS_INIT_ENABLE all that every thread allocates is in a region from the start. Such
        # blocks have no sleep tag of their own: to a sleep they are all the others.
        self.first: _Region | None = None
        if _is_set("TMS_INIT_ENABLE"):
            keep = "host" if _is_set("TMS_INIT_ENABLE_CPU_BACKUP") else "nothing"
            self.first = (_DEFAULT_TAG, keep)
        self.directory = os.environ.get("TMS_DISK_BACKUP_DIR") or tempfile.gettempdir()


class _Thread(threading.local):
    """The region that the thread is in; None: in none."""

    def __init__(self) -> None:
        self.region: _Region | None = _process.first


_process = _Process()
_thread = _Thread()
_OUTSIDE = _sleep.tag_number("torch_memory_saver: outside")


def _number(region: _Region) -> int:
    tag, keep = region
    return _sleep.tag_number(f"torch_memory_saver {keep} {tag}")


@contextlib.contextmanager
def _within(region: _Region | None) -> Iterator[None]:
    before, _thread.region = _thread.region, region
    if region is not None:
        with _process.lock:
            _process.regions.add(region)
    try:
        with _sleep.sleep_tag(_OUTSIDE if region is None else _number(region)):
            yield
    finally:
        _thread.region = before


class TorchMemorySaver:
    """As torch_memory_saver's class; what differs is said at the top of the module."""

    @contextlib.contextmanager
    def region(
        self,
        tag: str = _DEFAULT_TAG,
        enable_cpu_backup: bool = False,
        enable_disk_backup: bool = False,
        cpu_backup_backend: str | None = None,
    ) -> Iterator[None]:
        """What this thread allocates inside can be paused by the tag. A backup on the host is
        pinned memory, by either name of the backend."""
        if cpu_backup_backend is not None and not enable_cpu_backup:
            raise ValueError("cpu_backup_backend requires enable_cpu_backup=True")
        if cpu_backup_backend not in (None, *_BACKENDS):
            raise ValueError(f"cpu_backup_backend is {cpu_backup_backend!r}; it takes {_BACKENDS}")
        if enable_cpu_backup and enable_disk_backup:
            raise AssertionError("enable_cpu_backup and enable_disk_backup are mutually exclusive")
        self._ensure_initialized()
        keep = "host" if enable_cpu_backup else "file" if enable_disk_backup else "nothing"
        with _within((tag, keep)):
            yield

    @contextlib.contextmanager
    def cuda_graph(
        self,
        cuda_graph,
        pool=None,
        stream=None,
        capture_error_mode: str = "global",
        tag: str = _DEFAULT_TAG,
        enable_cpu_backup: bool = False,
        cpu_backup_backend: str | None = None,
    ) -> Iterator[None]:
        """torch.cuda.graph, of which all memory can be paused by the tag: the graph must not be
        replayed until it is resumed."""
        import torch

        graph = torch.cuda.graph(
            cuda_graph, pool=pool, stream=stream, capture_error_mode=capture_error_mode
        )
        with graph, self.region(tag, enable_cpu_backup, False, cpu_backup_backend):
            yield

    @contextlib.contextmanager
    def disable(self, dispose_mem_pool_after_use: bool = True) -> Iterator[None]:
        if not dispose_mem_pool_after_use:
            raise AssertionError("Only dispose_mem_pool_after_use=true is supported now")
        if _thread.region is None:
            raise AssertionError("disable() should be called only when tms is active")
        import torch

        with _within(None):
            yield
        torch.cuda.empty_cache()  # there a pool of its own goes at the end

    def pause(self, tag: str | None = None) -> None:
        """Regions of the tag, or all, give their memory back. Raises mend.Error, a RuntimeError, if
        all of it is paused already."""
        self._ensure_initialized()
        keeps, others = _chosen(tag)
        if not keeps:
            return
        pinned_bytes, refusal, has_slept = 0, None, False
        for device in _used_devices():
            try:
                report = _pause_on(device, keeps, others)
            except Error as error:
                if error.name != "MEND_ERROR_ASLEEP":
                    raise
                refusal = error
                continue
            has_slept = has_slept or report.asleep_bytes > 0
            pinned_bytes += report.pinned_bytes
        if refusal is not None and not has_slept:
            raise refusal
        with _process.lock:
            _process.paused.update(_that_sleep(keeps))
        if pinned_bytes > 0:
            warn_user(
                f"torch_memory_saver over Mend: {pinned_bytes} bytes stay awake, because other"
                " processes or libraries know their memory"
            )

    def resume(self, tag: str | None = None) -> None:
        """Regions of the tag, or all, have memory again, at the same addresses. Out of memory is
        torch.OutOfMemoryError; then all is paused as before on the device that has no room."""
        self._ensure_initialized()
        keeps, _ = _chosen(tag)
        numbers = list(_that_sleep(keeps))
        if not numbers:
            return
        with _process.lock:
            is_all = all(number in numbers for number in _process.paused)
        for device in _used_devices():
            with as_pytorch():  # pools of PyTorch's own have tags that no region knows
                wanted = [] if is_all and 0 in numbers else numbers
                _sleep.take_back(wanted, device, _structures.made("mend_wake_report"))
        with _process.lock:
            for number in numbers:
                _process.paused.pop(number, None)

    def get_cpu_backup(self, x, zero_copy: bool = False):
        """What is kept of a tensor that is paused, as a tensor on the host, always a copy; None if
        it is not paused, or nothing is kept of it."""
        import torch

        if not (x.is_cuda and x.is_contiguous()):
            raise AssertionError(f"{x.device=} {x.shape=} {x.stride()=}")
        if x.numel() == 0:
            return None
        with _process.lock:
            keep = _process.paused.get(_sleep.tag_of(x.data_ptr()))
        if keep not in ("host", "file"):
            return None
        found = torch.empty_like(x, device="cpu")
        _read_into(found.view(-1).view(torch.uint8), x.detach().view(-1).view(torch.uint8))
        return found

    def set_disk_backup_dir(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)
        _process.directory = path

    @property
    def enabled(self) -> bool:
        return True

    @property
    def hook_mode(self) -> str:
        raise AttributeError("hook_mode is only set")

    @hook_mode.setter
    def hook_mode(self, mode: str) -> None:
        if mode not in ("preload", "torch"):
            raise ValueError(f"hook_mode is {mode!r}; it takes 'preload' or 'torch'")

    @property
    def memory_margin_bytes(self) -> int:
        raise NotImplementedError("Only setter is supported")

    @memory_margin_bytes.setter
    def memory_margin_bytes(self, value: int) -> None:
        """So much of each device stays free of what PyTorch allocates: a limit of the pool."""
        import torch

        self._ensure_initialized()
        for device in range(torch.cuda.device_count()):
            total = torch.cuda.get_device_properties(device).total_memory
            _devices.set_limit(max(total - value, 1) if value else 0, device)

    @property
    def retain_cpu_backup(self) -> bool:
        return False

    @retain_cpu_backup.setter
    def retain_cpu_backup(self, value: bool) -> None:
        if value:
            warn_user("torch_memory_saver over Mend: a backup ends with the resume")

    def _ensure_initialized(self) -> None:
        from . import enable

        enable()


torch_memory_saver = TorchMemorySaver()


@contextlib.contextmanager
def configure_subprocess() -> Iterator[None]:
    """Processes that are started inside have Mend on: nothing is preloaded."""
    before = os.environ.get("MEND_TORCH")
    os.environ["MEND_TORCH"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["MEND_TORCH"]
        else:
            os.environ["MEND_TORCH"] = before


def _chosen(tag: str | None) -> tuple[dict[int, str], str]:
    """What is kept of the regions of a tag, or of all, by sleep tag; and of blocks that no number
    here names. 0 stands for blocks without a sleep tag."""
    with _process.lock:
        chosen = {region for region in _process.regions if tag is None or region[0] == tag}
        rest = _process.regions - chosen
    keeps = {_number(region): region[1] for region in chosen}
    if _process.first is None or tag not in (None, _DEFAULT_TAG):
        return keeps, "awake"
    keeps.update({_number(region): "awake" for region in rest})
    keeps[_OUTSIDE] = "awake"
    keeps[0] = _process.first[1]
    return keeps, _process.first[1]


def _that_sleep(keeps: dict[int, str]) -> dict[int, str]:
    return {number: keep for number, keep in keeps.items() if keep != "awake"}


def _used_devices() -> list[int]:
    """Those that PyTorch has allocated memory of."""
    import torch

    def is_used(device: int) -> bool:
        figures = torch.cuda.memory_stats(device)
        names = ("allocation.all.allocated", "allocation.all.current", "reserved_bytes.all.current")
        return any(figures.get(name, 0) > 0 for name in names)

    if not torch.cuda.is_initialized():
        return []
    return [device for device in range(torch.cuda.device_count()) if is_used(device)]


def _pause_on(device: int, keeps: dict[int, str], others: str):
    graphs = "MEND_KEEP_DEFAULT" if others == "awake" else "MEND_KEEP_NOTHING"
    return _sleep.put(
        keeps,
        others,
        device,
        skip_pinned=1,
        directory=os.fsencode(_process.directory),
        graphs=_structures.numbers_of("mend_keep")[graphs],
    )


def _read_into(found, tensor) -> None:
    """The bytes of a tensor of a paused region. Pages that blocks outside of regions share are
    awake."""
    address, device = tensor.data_ptr(), tensor.device.index
    at = 0
    while at < tensor.numel():
        end = min(tensor.numel(), at + _PAGE_BYTES - (address + at) % _PAGE_BYTES)
        try:
            _sleep.read_kept(address + at, end - at, found.data_ptr() + at, device)
        except Error as error:
            if error.name != "MEND_ERROR_INVALID_ARGUMENT":
                raise
            found[at:end].copy_(tensor[at:end])
        at = end
