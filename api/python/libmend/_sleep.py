"""Sleep and wake (docs/sleep.md): release the memory of live blocks, and restore it at the same
addresses."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import operator
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Union

from . import _devices, _library, _structures
from ._errors import check
from ._scopes import name_later, tell_name
from ._warning import warn_user

Tag = Union[str, int]
Tags = Union[Tag, Iterable[Tag]]
Backups = Mapping[Tag, str]

# Numbers from here on are not the program's: PyTorch's pools have those below, names those above.
_FIRST_OF_POOLS = 1 << 62
_FIRST_OF_NAMES = 1 << 63

# Names whose numbers this process has used.
_names: dict[int, str] = {}


class SleepReport(NamedTuple):
    """The results of a sleep, in bytes: the fields of mend_sleep_report."""

    released_bytes: int
    asleep_bytes: int
    host_bytes: int
    file_bytes: int
    dropped_bytes: int
    stayed_bytes: int
    pinned_bytes: int
    mapped_bytes: int
    matched_bytes: int
    unmatched_tags: int
    unmatched_tag: int


class WakeReport(NamedTuple):
    """The results of a wake, in bytes: the fields of mend_wake_report."""

    woken_bytes: int
    host_bytes: int
    file_bytes: int
    matched_bytes: int
    unmatched_tags: int
    unmatched_tag: int
    reused_bytes: int


class TagUsage(NamedTuple):
    """The memory of one sleep tag: the fields of mend_sleep_tag_info."""

    live_blocks: int
    live_bytes: int
    asleep_live_bytes: int
    graph_bytes: int


def tag_number(tag: Tag) -> int:
    """The number that a tag is for mend_alloc_options: a number itself, and of a name always the
    same one, in every process. Raises TypeError or ValueError."""
    if isinstance(tag, str):
        return number_of(tag, tag)
    try:
        number = operator.index(tag)
    except TypeError:
        raise TypeError(f"libmend: a sleep tag is a name or a number, not {tag!r}") from None
    if not (0 < number < _FIRST_OF_POOLS or _FIRST_OF_NAMES <= number < 1 << 64):
        raise ValueError(f"libmend: the sleep tag is {number}; it takes 1 or more, below 2**62")
    return number


def number_of(tag: str, words: str) -> int:
    """The same of a name, which people read as `words` in owners, recordings and errors."""
    digest = hashlib.sha256(tag.encode()).digest()
    number = int.from_bytes(digest[:8], "little") | _FIRST_OF_NAMES
    if number not in _names:
        _names[number] = tag
        name_later(number, words)
    return number


@contextlib.contextmanager
def sleep_tag(tag: Tag | None) -> Iterator[int]:
    """Allocations of this thread inside the `with` have this sleep tag. None: no tag. Other threads
    are not affected. At its end, by an exception too, the tag before is back. Yields the number of
    the tag. owners(), out of memory, recordings and prometheus() say the name of one that is a
    name. A function can be decorated with it."""
    number = 0 if tag is None else tag_number(tag)
    before = set_tag(number)
    try:
        yield number
    finally:
        set_tag(before)


def sleep(
    tags: Backups | Tags | None = None,
    *,
    others: str | None = None,
    skip_pinned: bool = False,
    keep_free: bool | str = False,
    directory: str | os.PathLike | None = None,
    graphs: str | None = None,
    device: object = 0,
    _needs_all: bool = True,
) -> SleepReport:
    """Releases the physical memory of blocks to the device. Their addresses stay, and wake()
    restores their backups. Nothing may use them until then, and no work may use memory of the pool
    during the call.

    `tags` names the blocks, and their backups: {"weights": "host", "cache": "discard"}. It takes
    "host" (pinned memory of the host), "file" (a file in `directory`), "discard" and "resident"
    (they do not sleep). Tags alone mean "host". `others` is for all other blocks: without it they
    stay awake, or without any tags get a backup on the host. With `skip_pinned` pinned memory stays
    awake. Otherwise it is an error. With `keep_free` free memory of the pool is not released. With
    "all" memory of sleeping blocks is not released either, so other work of this process, and the
    next wake, take it without the driver. Free memory of captured graphs sleeps by the tag of the
    last block there. `graphs` is for memory that no given tag names: "discard" (it sleeps) or
    "resident".

    Warns (RuntimeWarning) of a tag that nothing has: it may be misspelled, and its memory stays.
    Raises libmend.Error, and then no block has changed. Its `name` is the reason:
    "MEND_ERROR_ASLEEP", "MEND_ERROR_CAPTURING", "MEND_ERROR_PINNED", ..."""
    keeps = _backups_of(tags)
    report = put(
        {tag_number(tag): keep for tag, keep in keeps.items()},
        others or ("host" if tags is None else "resident"),
        device,
        skip_pinned=int(skip_pinned),
        keep_free=2 if keep_free == "all" else int(keep_free),
        directory=None if directory is None else os.fsencode(directory),
        graphs=0 if graphs is None else _backup_of(graphs),
    )
    if _needs_all or report.matched_bytes == 0:
        _warn_of_unmatched("sleep", keeps, report)
    return SleepReport(**_structures.figures_of(report))


def wake(tags: Tags | None = None, *, device: object = 0) -> WakeReport:
    """Wakes memory with one of these tags, or all: maps physical memory at the same addresses
    again, and restores backups. All wake, or none. If there is no room, it waits for the GPU, gives
    all free memory of the pool back, and tries once more. Warns (RuntimeWarning) of a tag that
    nothing has.

    Raises libmend.OutOfMemoryError or libmend.Error. Then everything sleeps as before, and can be
    woken later."""
    names = [] if tags is None else _several(tags)
    numbers = [tag_number(tag) for tag in names]
    report = _structures.made("mend_wake_report")
    if tags is None or numbers:  # no tags are all of them for mend_wake
        take_back(numbers, device, report)
        _warn_of_unmatched("wake", names, report)
    return WakeReport(**_structures.figures_of(report))


def usage_by_tag(device: object = 0) -> dict[Tag | None, TagUsage]:
    """The memory of each sleep tag in the device's default pool: by name if this process has used
    it, else by number. None is memory without a tag."""
    kind = _structures.structure("mend_sleep_tag_info")
    call, pool = _devices.function("mend_get_sleep_tags"), _devices.pool(device)
    count, infos = ctypes.c_size_t(8), (kind * 0)()
    while count.value > len(infos):
        infos = (kind * count.value)()
        check(call(pool, infos, ctypes.sizeof(kind), len(infos), ctypes.byref(count)))
    return {
        _names.get(info.tag, info.tag or None): TagUsage(
            *(getattr(info, field) for field in TagUsage._fields)
        )
        for info in infos[: count.value]
    }


def set_backup_cache_limit(most_bytes: int | None = None, *, device: object = 0) -> None:
    """Sets how much pinned host memory wakes may leave for the next sleep, and frees memory above
    it. 0: none. None: all, as at first. Raises libmend.Error."""
    most = 2**64 - 1 if most_bytes is None else _devices.size_of("most_bytes", most_bytes)
    check(_devices.function("mend_set_backup_cache_limit")(_devices.pool(device), most))


@contextlib.contextmanager
def host_memory_stays(stays: bool, device: int) -> Iterator[None]:
    """Whether wakes inside leave their host memory for the next sleep."""
    if stays:
        yield
        return
    set_backup_cache_limit(0, device=device)
    try:
        yield
    finally:
        set_backup_cache_limit(None, device=device)


def put(keeps: Mapping[int, str], others: str, device: object, **options: object):
    """mend_sleep with a rule for each number. Returns its report. Raises libmend.Error."""
    rules = (_structures.structure("mend_sleep_rule") * len(keeps))(
        *((number, _backup_of(keep)) for number, keep in keeps.items())
    )
    made = _structures.made(
        "mend_sleep_options",
        rules=ctypes.addressof(rules) if keeps else None,
        rule_bytes=ctypes.sizeof(rules._type_),
        rule_count=len(rules),
        others=_backup_of(others),
        **options,
    )
    report = _structures.made("mend_sleep_report")
    call = _devices.function("mend_sleep")
    check(call(_devices.pool(device), ctypes.byref(made), ctypes.byref(report)))
    return report


def take_back(numbers: list[int], device: object, report: ctypes.Structure) -> None:
    """mend_wake of these numbers."""
    array = (ctypes.c_uint64 * len(numbers))(*numbers)
    wake = _devices.function("mend_wake")
    check(wake(_devices.pool(device), array, len(numbers), ctypes.byref(report)))


def read_backup(address: int, size_bytes: int, host: int, device: object) -> None:
    """Copies the backup of memory to an address of the host. Raises libmend.Error."""
    call = _devices.function("mend_read_backup")
    check(call(_devices.pool(device), address, size_bytes, host, None))


def get_backup(address: int, size_bytes: int, device: object) -> int | None:
    """Its place on the host. None: in a file, or in several places. Raises libmend.Error."""
    host = ctypes.c_void_p()
    call = _devices.function("mend_read_backup")
    result = call(_devices.pool(device), address, size_bytes, None, ctypes.byref(host))
    if result == _structures.results()["MEND_ERROR_NOT_SUPPORTED"]:
        return None
    check(result)
    return host.value


def is_asleep(address: int) -> bool:
    """Whether the block at an address sleeps. Raises libmend.Error if no block of Mend's is
    there."""
    info = _structures.made("mend_block_info")
    check(_devices.function("mend_device_block_info")(-1, address, ctypes.byref(info)))
    return bool(info.is_asleep)


def tag_of(address: int) -> int:
    """The sleep tag of the block at an address. Raises libmend.Error if no block of Mend is
    there."""
    info = _structures.made("mend_block_info")
    check(_devices.function("mend_device_block_info")(-1, address, ctypes.byref(info)))
    return info.sleep_tag


def contents_dropped(address: int) -> bool:
    """Whether a sleep dropped contents of the block at an address ("discard"), and none since has
    kept all of it. Raises libmend.Error if no block of Mend's is there."""
    info = _structures.made("mend_block_info")
    check(_devices.function("mend_device_block_info")(-1, address, ctypes.byref(info)))
    return bool(info.contents_dropped)


def _warn_of_unmatched(call: str, names: Iterable[Tag], report: ctypes.Structure) -> None:
    count = report.unmatched_tags
    if count > 0:
        name = next(name for name in names if tag_number(name) == report.unmatched_tag)
        others = f", nor {count - 1} more of its tags" if count > 1 else ""
        warn_user(f"libmend.{call}: nothing has the sleep tag {name!r}{others}; is it misspelt?")


def set_tag(number: int) -> int:
    """Sets the sleep tag of this thread, and returns the one before."""
    tell_name(number)
    return _devices.set_option("sleep_tag", number)


def _several(tags: Tags) -> list[Tag]:
    return [tags] if isinstance(tags, str) or not isinstance(tags, Iterable) else list(tags)


def _backups_of(tags: Backups | Tags | None) -> dict[Tag, str]:
    if tags is None:
        return {}
    return dict(tags) if isinstance(tags, Mapping) else dict.fromkeys(_several(tags), "host")


def _backup_of(name: str) -> int:
    numbers = _structures.numbers_of("mend_backup").items()
    number = {word.rpartition("_")[2].lower(): value for word, value in numbers}.get(str(name), 0)
    if number == 0:
        raise ValueError(
            f'libmend: what is kept is "host", "file", "discard" or "resident", not {name!r}'
        )
    return number
