"""torch_memory_saver's interface over Mend: programs written for that package run unchanged.

With MEND_TORCH=1 `import torch_memory_saver` finds this module (docs/sleep.md); a program may also
say `from libmend.torch.memory_saver import torch_memory_saver`. Memory of a region has a sleep tag,
one for each tag of regions and way to back it up. Pause and resume are sleep and wake of those on
every device. There is one kind of hook, so both hook modes mean it.

Differences: where torch_memory_saver ends the process, an exception is raised here. Memory that
other processes know stays awake, with a warning. A backup that lies in several places, or in a
file, is copied when it is read.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import tempfile
import threading
from collections.abc import Iterator
from typing import NamedTuple

from .. import _devices, _sleep, _structures
from .._errors import Error
from .._warning import warn_user
from ._errors import as_pytorch

__all__ = ["TorchMemorySaver", "configure_subprocess", "torch_memory_saver"]

_DEFAULT_TAG = "default"
_BACKENDS = ("mmap", "pinned")
_PAGE_BYTES = 2 << 20

# The tag of a region, and its backup.
_Region = tuple[str, str]


def _is_set(name: str) -> bool:
    return os.environ.get(name, "").lower() in ("1", "true", "yes")


class _Config(NamedTuple):
    """The fate of a thread's allocations."""

    is_inside: bool
    tag: str
    keep: str
    backend: str  # told, and of no effect: both are pinned memory that a resume frees

    @property
    def region(self) -> _Region | None:
        return (self.tag, self.keep) if self.is_inside else None


def _keep_by(on_host: bool, on_disk: bool) -> str:
    if on_host and on_disk:
        raise AssertionError("enable_cpu_backup and enable_disk_backup are mutually exclusive")
    return "host" if on_host else "file" if on_disk else "discard"


def _config_from_environment() -> _Config:
    """TMS_INIT_ENABLE: all that every thread allocates is in a region from the start. Such blocks
    have no sleep tag of their own: to a sleep they are all the others."""
    keep = _keep_by(_is_set("TMS_INIT_ENABLE_CPU_BACKUP"), _is_set("TMS_INIT_ENABLE_DISK_BACKUP"))
    backend = os.environ.get("TMS_INIT_CPU_BACKUP_BACKEND") or "pinned"
    return _Config(_is_set("TMS_INIT_ENABLE"), _DEFAULT_TAG, keep, backend)


class _Process:
    """Shared by all threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.regions: set[_Region] = set()  # that were ever entered
        self.paused: dict[int, str] = {}  # what is kept, by sleep tag
        self.retained: set[int] = set()  # sleep tags with backups that a resume left
        self.config = _config_from_environment()
        self.first = self.config.region
        self.retains = _is_set("TMS_RETAIN_CPU_BACKUP")
        self.directory = os.environ.get("TMS_DISK_BACKUP_DIR") or tempfile.gettempdir()


class _Thread(threading.local):
    def __init__(self) -> None:
        self.config = _process.config


_process = _Process()
_thread = _Thread()
_OUTSIDE = _sleep.number_of("torch_memory_saver: outside", "outside of regions")
# The words after the tag of a region, without a backup none.
_KEPT = {"host": " (kept on host)", "file": " (kept in file)", "discard": ""}


def _number(region: _Region) -> int:
    tag, keep = region
    return _sleep.number_of(f"torch_memory_saver {keep} {tag}", f"{tag}{_KEPT[keep]}")


def _enter(config: _Config) -> int:
    """The thread's allocations are by this from now on. Returns the sleep tag before."""
    _thread.config = config
    if config.is_inside:
        with _process.lock:
            _process.regions.add(config.region)
    return _sleep.set_tag(_number(config.region) if config.is_inside else _OUTSIDE)


@contextlib.contextmanager
def _within(config: _Config) -> Iterator[None]:
    before, tag_before = _thread.config, _enter(config)
    try:
        yield
    finally:
        _thread.config = before
        _sleep.set_tag(tag_before)


class TorchMemorySaver:
    """As torch_memory_saver's class. The differences are at the top of the module."""

    def __init__(self) -> None:
        self._impl: _Impl | None = None  # once something was asked of it, as there

    @contextlib.contextmanager
    def region(
        self,
        tag: str = _DEFAULT_TAG,
        enable_cpu_backup: bool = False,
        enable_disk_backup: bool = False,
        cpu_backup_backend: str | None = None,
    ) -> Iterator[None]:
        """Allocations of this thread inside can be paused by the tag. A backup on the host is
        pinned memory, by either name of the backend."""
        if cpu_backup_backend is not None and not enable_cpu_backup:
            raise ValueError("cpu_backup_backend requires enable_cpu_backup=True")
        if cpu_backup_backend not in (None, *_BACKENDS):
            raise ValueError(f"cpu_backup_backend is {cpu_backup_backend!r}; it takes {_BACKENDS}")
        keep = _keep_by(enable_cpu_backup, enable_disk_backup)
        self._ensure_initialized()
        backend = cpu_backup_backend or _thread.config.backend
        with _within(_Config(True, tag, keep, backend)):
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
        if not _thread.config.is_inside:
            raise AssertionError("disable() should be called only when tms is active")
        import torch

        with _within(_thread.config._replace(is_inside=False)):
            yield
        torch.cuda.empty_cache()  # there a pool of its own goes at the end

    def pause(self, tag: str | None = None) -> None:
        """Regions of the tag, or all, give their memory back. Raises libmend.Error, a RuntimeError,
        if all of it is paused already."""
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
        torch.OutOfMemoryError. Then all is paused as before on the device that is full."""
        self._ensure_initialized()
        keeps, _ = _chosen(tag)
        numbers = list(_that_sleep(keeps))
        if not numbers:
            return
        with _process.lock:
            is_all = all(number in numbers for number in _process.paused)
        retains = _process.retains
        for device in _used_devices():
            with as_pytorch(), _sleep.host_memory_stays(retains, device):
                # pools of PyTorch's own have tags that no region knows
                wanted = [] if is_all and 0 in numbers else numbers
                _sleep.take_back(wanted, device, _structures.made("mend_wake_report"))
        with _process.lock:
            for number in numbers:
                _process.paused.pop(number, None)
            left = {number for number, keep in keeps.items() if keep == "host" and retains}
            _process.retained = (_process.retained - keeps.keys()) | left

    def get_cpu_backup(self, x, zero_copy: bool = False):
        """The backup of a tensor that is paused, or that a resume left, as a tensor on the host.
        None: there is none. With `zero_copy` it is the backup itself, until the resume, where that
        lies in one place. It is a copy otherwise: a tensor of several chunks, in a file, or awake,
        since the next pause of any tag may take that memory."""
        import torch

        if not (x.is_cuda and x.is_contiguous()):
            raise AssertionError(f"{x.device=} {x.shape=} {x.stride()=}")
        if x.numel() == 0:
            return None
        number = _sleep.tag_of(x.data_ptr())
        with _process.lock:
            keep = _process.paused.get(number)
            is_retained = keep is None and number in _process.retained
        if keep not in ("host", "file") and not is_retained:
            return None
        found = _found(x) if zero_copy and not is_retained else None
        if found is None:
            found = torch.empty_like(x, device="cpu")
            into, of = (tensor.view(-1).view(torch.uint8) for tensor in (found, x.detach()))
            if not _has_read(into, of, may_be_awake=not is_retained):
                return None
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
        """So much of each device stays free of PyTorch's allocations: a limit of the pool."""
        import torch

        self._ensure_initialized()
        for device in range(torch.cuda.device_count()):
            total = torch.cuda.get_device_properties(device).total_memory
            _devices.set_limit(max(total - value, _devices.PAGE_BYTES) if value else 0, device)

    @property
    def retain_cpu_backup(self) -> bool:
        return _process.retains

    @retain_cpu_backup.setter
    def retain_cpu_backup(self, value: bool) -> None:
        """Whether resumes leave the memory of backups pinned, for the next pause, which is several
        times as fast then. Without, a resume frees that of all regions."""
        self._ensure_initialized()
        _process.retains = bool(value)

    def _ensure_initialized(self) -> None:
        from . import enable

        enable()
        self._impl = self._impl or _Impl()


class _Library:
    """The functions of torch_memory_saver's library that programs call by its private names, for
    the calling thread. Other names are the CUDA runtime's, which that library is linked with."""

    def __getattr__(self, name: str):
        import torch

        major = (torch.version.cuda or "12").partition(".")[0]
        return getattr(ctypes.CDLL(f"libcudart.so.{major}"), name)

    def tms_get_interesting_region(self) -> bool:
        return _thread.config.is_inside

    def tms_set_interesting_region(self, value: bool) -> None:
        _enter(_thread.config._replace(is_inside=bool(value)))

    def tms_get_current_tag(self) -> bytes:
        return _thread.config.tag.encode()

    def tms_set_current_tag(self, tag: bytes) -> None:
        self._change(tag=tag.decode())

    def tms_get_enable_cpu_backup(self) -> bool:
        return _thread.config.keep == "host"

    def tms_set_enable_cpu_backup(self, value: bool) -> None:
        self._change(keep=_keep_by(value, value is False and self.tms_get_enable_disk_backup()))

    def tms_get_enable_disk_backup(self) -> bool:
        return _thread.config.keep == "file"

    def tms_set_enable_disk_backup(self, value: bool) -> None:
        self._change(keep=_keep_by(value is False and self.tms_get_enable_cpu_backup(), value))

    def tms_get_cpu_backup_backend(self) -> bytes:
        return _thread.config.backend.encode()

    def tms_set_cpu_backup_backend(self, backend: bytes) -> None:
        self._change(backend=backend.decode())

    def tms_pause(self, tag: bytes | None) -> int:
        torch_memory_saver.pause(tag.decode() if tag else None)
        return 0

    def tms_resume(self, tag: bytes | None) -> int:
        torch_memory_saver.resume(tag.decode() if tag else None)
        return 0

    def tms_get_retain_cpu_backup(self) -> bool:
        return _process.retains

    def tms_set_retain_cpu_backup(self, value: bool) -> None:
        torch_memory_saver.retain_cpu_backup = value

    def tms_set_disk_backup_dir(self, path: bytes) -> None:
        torch_memory_saver.set_disk_backup_dir(path.decode())

    def set_memory_margin_bytes(self, value: int) -> None:
        torch_memory_saver.memory_margin_bytes = value

    @staticmethod
    def _change(**what: str) -> None:
        config = _thread.config._replace(**what)
        if config.is_inside:
            _enter(config)
        else:
            _thread.config = config


class _Binary:
    def __init__(self) -> None:
        self.cdll = _Library()

    def set_config(
        self,
        *,
        tag: str,
        interesting_region: bool,
        enable_cpu_backup: bool,
        cpu_backup_backend: str | None = None,
        enable_disk_backup: bool = False,
    ) -> None:
        keep = _keep_by(enable_cpu_backup, enable_disk_backup)
        backend = cpu_backup_backend or _thread.config.backend
        _enter(_Config(interesting_region, tag, keep, backend))


class _Impl:
    """Programs reach it as torch_memory_saver._impl, some only to see whether it is None."""

    def __init__(self) -> None:
        self._binary_wrapper = _Binary()

    def __getattr__(self, name: str):
        return getattr(torch_memory_saver, name)

    def _with_region_config(
        self,
        tag: str,
        enable_cpu_backup: bool,
        cpu_backup_backend: str | None = None,
        enable_disk_backup: bool = False,
    ):
        return torch_memory_saver.region(
            tag, enable_cpu_backup, enable_disk_backup, cpu_backup_backend
        )


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
    """The backups of the regions of a tag, or of all, by sleep tag, and of blocks that no number
    here names. 0 stands for blocks without a sleep tag."""
    with _process.lock:
        chosen = {region for region in _process.regions if tag is None or region[0] == tag}
        rest = _process.regions - chosen
    keeps = {_number(region): region[1] for region in chosen}
    if _process.first is None or tag not in (None, _DEFAULT_TAG):
        return keeps, "resident"
    keeps.update({_number(region): "resident" for region in rest})
    keeps[_OUTSIDE] = "resident"
    keeps[0] = _process.first[1]
    return keeps, _process.first[1]


def _that_sleep(keeps: dict[int, str]) -> dict[int, str]:
    return {number: keep for number, keep in keeps.items() if keep != "resident"}


def _used_devices() -> list[int]:
    """The devices that PyTorch has allocated memory of."""
    import torch

    def is_used(device: int) -> bool:
        figures = torch.cuda.memory_stats(device)
        names = ("allocation.all.allocated", "allocation.all.current", "reserved_bytes.all.current")
        return any(figures.get(name, 0) > 0 for name in names)

    if not torch.cuda.is_initialized():
        return []
    return [device for device in range(torch.cuda.device_count()) if is_used(device)]


def _pause_on(device: int, keeps: dict[int, str], others: str):
    graphs = "MEND_BACKUP_DEFAULT" if others == "resident" else "MEND_DISCARD"
    return _sleep.put(
        keeps,
        others,
        device,
        skip_pinned=1,
        directory=os.fsencode(_process.directory),
        graphs=_structures.numbers_of("mend_backup")[graphs],
    )


def _found(x):
    """The backup itself, if it lies in one place."""
    import torch

    size, device = x.numel() * x.element_size(), x.device.index
    try:
        address = _sleep.get_backup(x.data_ptr(), size, device)
    except Error as error:
        if error.name != "MEND_ERROR_INVALID_ARGUMENT":
            raise
        return None
    if address is None:
        return None
    memory = (ctypes.c_ubyte * size).from_address(address)
    return torch.frombuffer(memory, dtype=torch.uint8).view(x.dtype).view(x.shape)


def _has_read(into, tensor, may_be_awake: bool) -> bool:
    """Reads the backup of a tensor, in one call, or page by page: pages shared with blocks outside
    of regions are awake. False: there is no such backup."""
    address, size, device = tensor.data_ptr(), tensor.numel(), tensor.device.index
    if _is_read(address, size, into.data_ptr(), device):
        return True
    at = 0
    while at < size and may_be_awake:
        end = min(size, at + _PAGE_BYTES - (address + at) % _PAGE_BYTES)
        if not _is_read(address + at, end - at, into.data_ptr() + at, device):
            into[at:end].copy_(tensor[at:end])
        at = end
    return may_be_awake


def _is_read(address: int, size: int, host: int, device: int) -> bool:
    try:
        _sleep.read_backup(address, size, host, device)
    except Error as error:
        if error.name != "MEND_ERROR_INVALID_ARGUMENT":
            raise
        return False
    return True
