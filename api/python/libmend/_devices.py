"""The calls of mend.h for hooks: memory of a device, by its ordinal.

They go to the device's default pool, or to the allocator set by mend_set_allocator. They release
the interpreter's lock while they run.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import functools
import operator
import os
import re
from collections.abc import Iterator

from . import _library, _structures, _unused
from ._errors import Error, check

# MEND_NO_STREAM: the block may be used on every stream.
NO_STREAM = 2 ** (8 * ctypes.sizeof(ctypes.c_void_p)) - 1

PAGE_BYTES = 2 << 20  # of devices that are known

_int, _u64, _pointer = ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p
_PROTOTYPES = {
    "mend_device_alloc": [_int, _u64, _pointer, ctypes.POINTER(_pointer)],
    "mend_device_free": [_int, _pointer, _u64, _pointer],
    "mend_device_record_stream": [_int, _pointer, _pointer],
    "mend_device_unregister_stream": [_int, _pointer],
    "mend_device_trim": [_int, _u64, _int, ctypes.POINTER(_u64)],
    "mend_has_pool": [_int],
    "mend_pool_for_device": [_int, ctypes.POINTER(_pointer)],
    "mend_current_device": [ctypes.POINTER(_int)],
    "mend_get_stats": [_pointer, _pointer],
    "mend_get_usage": [_pointer, _pointer, _pointer],
    "mend_get_available": [_pointer, _pointer, _pointer],
    "mend_reset_peak_stats": [_pointer],
    "mend_set_limit": [_pointer, _u64],
    "mend_compact": [_pointer, _pointer, _pointer],
    "mend_set_alloc_options": [_pointer, _pointer],
    "mend_set_default_config": [_int, _pointer],
    "mend_pool_destroy": [_pointer],
    "mend_device_block_info": [_int, _pointer, _pointer],
    "mend_range_get_info": [_pointer, _pointer],
    "mend_range_commit_all": [_pointer, *[ctypes.c_size_t] * 2, _pointer],
    "mend_range_decommit": [_pointer, _u64, _u64, _pointer],
    "mend_range_record_stream": [_pointer, _u64, _u64, _pointer],
    "mend_sleep": [_pointer, _pointer, _pointer],
    "mend_wake": [_pointer, _pointer, ctypes.c_size_t, _pointer],
    "mend_read_backup": [_pointer, _pointer, _u64, _pointer, _pointer],
    "mend_set_backup_cache_limit": [_pointer, _u64],
    "mend_get_scopes": [_pointer, _pointer, *[ctypes.c_size_t] * 2, _pointer],
    "mend_get_owners": [_pointer, ctypes.c_uint, _pointer, *[ctypes.c_size_t] * 2, _pointer],
    "mend_set_name": [_int, _u64, ctypes.c_char_p],
    "mend_stack_set_source": [_pointer, _pointer, _u64],
    "mend_get_regions": [_pointer, _pointer, *[ctypes.c_size_t] * 2, _pointer],
    "mend_history_start": [_pointer, _u64],
    "mend_history_read": [*[_pointer] * 3, *[ctypes.c_size_t] * 2, _pointer],
    "mend_get_sleep_tags": [_pointer, _pointer, *[ctypes.c_size_t] * 2, _pointer],
}


@functools.cache
def function(name: str):
    """A function of libmend that returns a mend_result, with its argument types."""
    found = getattr(_library.load("mend"), name)
    found.restype = _int
    found.argtypes = _PROTOTYPES[name]
    return found


def index_of(device: object) -> int:
    """The ordinal of a device: a number, "cuda", "cuda:1", or an object with a type and an index as
    torch.device. Raises TypeError or ValueError."""
    if isinstance(device, str):
        name = re.fullmatch(r"cuda(?::(\d{1,9}))?", device)
        if name is None:
            raise ValueError(f'libmend: a device is a number or "cuda:1", not {device!r}')
        return current_device() if name.group(1) is None else int(name.group(1))
    if getattr(device, "type", None) == "cuda":
        index = getattr(device, "index", None)
        return current_device() if index is None else index
    try:
        index = operator.index(device)
    except TypeError:
        raise TypeError(
            f'libmend: a device is a number, "cuda:1" or a torch.device, not {device!r}'
        ) from None
    if not -(2**31) <= index < 2**31:  # others would be cut, and name another device
        raise ValueError(f"libmend: there is no device {index}")
    return index


def stream_of(stream: object) -> int:
    """The number of a stream: a number, or an object that has it as `cuda_stream`, as PyTorch's, or
    as `ptr`, as CuPy's. Raises TypeError or ValueError."""
    number = getattr(stream, "cuda_stream", getattr(stream, "ptr", stream))
    try:
        number = operator.index(number)
    except TypeError:
        raise TypeError(
            f"libmend: a stream is its number or a framework's, not {stream!r}"
        ) from None
    if not 0 <= number <= NO_STREAM:
        raise ValueError(f"libmend: there is no stream {number}")
    return number


def amount_of(what: str, size: object, least: int = 0) -> int:
    """A number of bytes, or of something else. Raises TypeError or ValueError."""
    try:
        number = operator.index(size)
    except TypeError:
        raise TypeError(f"libmend: {what} is a whole number, not {size!r}") from None
    if not least <= number < 2**64:
        raise ValueError(f"libmend: {what} is {number}; it takes {least} or more, below 2**64")
    return number


def size_of(what: str, size: object, least: int = 0) -> int:
    """A number of bytes, or a size in words such as "24GiB". Raises TypeError or ValueError."""
    if isinstance(size, str):
        read = bytes_of(size)
        if read < 0:
            raise ValueError(f"libmend: {what} is {size!r}; it takes bytes, or a size as 24GiB")
        size = read
    return amount_of(what, size, least)


def bytes_of(text: str) -> int:
    """The bytes of "24GiB" or "1073741824", or -1."""
    size = r"(\d{1,20}(?:\.\d+)?)\s*([kmgt]?)(ib)?"
    match = re.fullmatch(size, text.strip(), re.IGNORECASE | re.ASCII)
    if not match or bool(match[2]) != bool(match[3]):
        return -1
    return int(float(match[1]) * 1024 ** " kmgt".index(match[2].lower() or " "))


def device_size_of(what: str, size: object, least: int = 0) -> int:
    """The same of a device's memory: a page at least, or 0."""
    read = size_of(what, size, least)
    if 0 < read < PAGE_BYTES:
        raise ValueError(
            f"libmend: {what} is {size!r}, less than a page of 2 MiB; did you forget the unit?"
            ' "24GiB" has one'
        )
    return read


def device_size(text: str) -> int:
    """The same of an option of a command: a size of a device."""
    size = bytes_of(text)
    if not 0 < size <= 1 << 44:
        raise argparse.ArgumentTypeError(f"{text!r} is no size of a device: 24GiB is one")
    if size < PAGE_BYTES:
        raise argparse.ArgumentTypeError(
            f"{text!r} is less than a page of 2 MiB; did you forget the unit?"
        )
    return size


def alloc(device: int, size: int, stream: int = NO_STREAM) -> int:
    """Allocates `size` bytes for use in the order of `stream`, and returns the address, or 0 for
    size 0. Without a stream, the memory is idle for every stream. Raises libmend.OutOfMemoryError
    or libmend.Error."""
    address = _pointer()
    check(function("mend_device_alloc")(device, size, stream, ctypes.byref(address)))
    return address.value or 0


def free(device: int, address: int, size: int, stream: int = NO_STREAM) -> None:
    """Frees a block after all work queued on `stream` so far, or without one after all work of the
    device. Raises libmend.Error."""
    check(function("mend_device_free")(device, address, size, stream))


def record_stream(device: int, address: int, stream: int) -> None:
    """Declares that `stream` also uses the block. Raises libmend.Error."""
    check(function("mend_device_record_stream")(device, address, stream))


def trim(device: object = 0, keep_bytes: int | str = 0, wait: bool = False) -> int:
    """Gives free memory back to the driver until at most `keep_bytes` stay reserved. Memory that
    work of the GPU still uses stays, unless `wait` waits for that work. Returns the bytes
    released."""
    released = _u64()
    kept = size_of("keep_bytes", keep_bytes)
    _unused.note()
    mode = 1 if wait else 0  # MEND_TRIM_WAIT, MEND_TRIM_IDLE
    check(function("mend_device_trim")(index_of(device), kept, mode, ctypes.byref(released)))
    return released.value


def compact(device: object = 0) -> int:
    """Joins free memory that lies beside live blocks of the device's default pool: copies these
    blocks to other chunks, at the same addresses, and waits for all work of the context. No thread
    or process may launch work that touches memory of the pool meanwhile. Returns the bytes that any
    request can have now and none could before. Raises Error, also while a stream is captured."""
    done = _structures.made("mend_compact_report")
    check(function("mend_compact")(pool(device), None, ctypes.byref(done)))
    return done.gained_bytes


@contextlib.contextmanager
def alloc_options(*, in_one_chunk: bool | None = None, alignment: int = 0) -> Iterator[None]:
    """Sets options of each block that this thread allocates inside the `with`, by any hook. With
    `in_one_chunk` it lies in one physical allocation, for libraries that register memory. False
    means that it need not. None leaves the choice to the pool. The block begins at a multiple of
    `alignment` (a power of two, or 0 for 512). Other threads are not affected. Its end restores the
    earlier options. A function can be decorated with it. Raises ValueError."""
    size = amount_of("alignment", alignment)
    if size & (size - 1) or size > 1 << 40:
        raise ValueError(f"libmend: alignment is {alignment}; it takes a power of two up to 2**40")
    in_chunk = 0 if in_one_chunk is None else 1 if in_one_chunk else -1
    options = {"alignment_bytes": size, "in_one_chunk": in_chunk}
    before = {field: set_option(field, value) for field, value in options.items()}
    try:
        yield
    finally:
        for field, value in before.items():
            set_option(field, value)


def set_option(field: str, value: int) -> int:
    """Sets one of the thread's mend_alloc_options, and returns its earlier value."""
    _unused.note()
    options, call = _structures.made("mend_alloc_options"), function("mend_set_alloc_options")
    check(call(None, ctypes.byref(options)))
    before = getattr(options, field)
    setattr(options, field, value)
    check(call(ctypes.byref(options), None))
    return before


def current_device() -> int:
    """The device that is current in this thread, or 0 if none is."""
    device = _int()
    check(function("mend_current_device")(ctypes.byref(device)))
    return device.value


def pool(device: object, is_asked: bool = True) -> ctypes.c_void_p:
    """The device's default pool, created at first use. `is_asked`: for a call of the program."""
    if is_asked:
        _unused.note()
    found = _pointer()
    check(function("mend_pool_for_device")(index_of(device), ctypes.byref(found)))
    return found


def listed(call: str, name: str, pool: ctypes.c_void_p, *asked: int) -> list[ctypes.Structure]:
    """The elements that a call on a pool lists, and their number."""
    kind = _structures.structure(name)
    count, found = ctypes.c_size_t(64), (kind * 0)()
    while count.value > len(found):
        found = (kind * count.value)()
        room = ctypes.sizeof(kind), len(found)
        check(function(call)(pool, *asked, found, *room, ctypes.byref(count)))
    return list(found[: count.value])


def has_pool(device: object) -> bool:
    """Whether the device has a default pool. Makes none."""
    return bool(function("mend_has_pool")(index_of(device)))


def configure(**options: object) -> None:
    """Sets options of the pools that are created from now on, by their names in MEND_CONF
    (docs/tuning.md): configure(limit="8GiB", idle_ms=500, record="/tmp/run.mend"). True and False
    are "on" and "off". None removes an option. Others that MEND_CONF has stay. Raises libmend.Error
    if a device has its default pool already. A wrong name or value is reported when the first pool
    is created, as one of MEND_CONF is."""
    if function("mend_has_pool")(-1):
        raise Error(
            "libmend.configure: a pool exists already. Call it before the first allocation, or set"
            " MEND_CONF"
        )
    _unused.note_configured()
    items = dict(item.split(":", 1) for item in _items(os.environ.get("MEND_CONF", "")))
    for key, value in options.items():
        items.pop(key, None)
        if value is not None:
            items[key] = ("off", "on")[value] if isinstance(value, bool) else str(value)
    os.environ["MEND_CONF"] = ",".join(f"{key}:{value}" for key, value in items.items())


def _items(settings: str) -> list[str]:
    """The items of MEND_CONF. One without a key belongs to the value before it."""
    items: list[str] = []
    for part in settings.split(","):
        if ":" in part and not part.startswith("/"):  # as a path of observe does
            items.append(part)
        elif items:
            items[-1] += "," + part
    return items


def stats(device: object = 0) -> dict[str, int]:
    """The statistics of the device's default pool, by the names of mend_stats (docs/api.md)."""
    return stats_of(pool(device))


def stats_of(pool: ctypes.c_void_p) -> dict[str, int]:
    """The same of a pool."""
    figures = _structures.made("mend_stats")
    check(function("mend_get_stats")(pool, ctypes.byref(figures)))
    return _structures.figures_of(figures)


def available(device: object = 0, stream: object = 0) -> dict[str, int]:
    """How much memory could be allocated on a stream in the device's default pool, by the names of
    mend_available (docs/api.md)."""
    answer = _structures.made("mend_available")
    check(function("mend_get_available")(pool(device), stream_of(stream), ctypes.byref(answer)))
    return _structures.figures_of(answer)


def reset_peak_stats(device: object = 0) -> None:
    """Sets every peak_... statistic of the device's default pool to its current value."""
    check(function("mend_reset_peak_stats")(pool(device)))


def set_limit(limit_bytes: int | str, device: object = 0) -> None:
    """Sets the most physical memory that the device's default pool may hold, in bytes or as
    "24GiB". 0: all of the device. Raises ValueError for less than 2 MiB, a page of the device."""
    limit = device_size_of("limit_bytes", limit_bytes)
    check(function("mend_set_limit")(pool(device), limit))
