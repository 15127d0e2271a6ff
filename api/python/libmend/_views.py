"""Views of a pool: its owners, leaks, regions and history (docs/history.md)."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterable
from typing import NamedTuple

from . import _devices, _stacks, _structures, _unused
from ._errors import check
from ._scopes import paths, scopes

_SHOWN, _SHOWN_SUMS = 8, 4
_BY = {"scope": 1, "tag": 2, "stream": 4, "stack": 8}  # MEND_BY_...


class Owner(NamedTuple):
    """Live blocks of one scope and tag, of one stream, or of one size: the figures of
    mend_owner."""

    name: str  # "step/forward, tag 7", "blocks of 2.00 MiB"
    tag: int
    block_bytes: int
    live_bytes: int
    live_blocks: int
    oldest: int  # allocations of the pool since its oldest block
    growth_bytes: int  # above 0: a suspect of a leak


def owners(
    device: object = 0, *, by: str | Iterable[str] = ("scope", "tag", "stack")
) -> list[Owner]:
    """The owners of memory in the device's default pool, the largest first, by any of "scope",
    "tag", "stack" and "stream". Blocks without any of these are grouped by size."""
    if _unused.warn(device):
        return []
    found = []
    kinds = [by] if isinstance(by, str) else list(by)
    if not kinds or not _BY.keys() >= set(kinds):
        raise ValueError(f'libmend.owners: by is any of {", ".join(_BY)}, not {by!r}')
    asked = sum(_BY[kind] for kind in set(kinds))
    for owner in _devices.listed("mend_get_owners", "mend_owner", _devices.pool(device), asked):
        figures = [getattr(owner, field) for field in Owner._fields[1:]]
        found.append(Owner(owner.name.decode(errors="replace"), *figures))
    return found


def leaks(device: object = 0) -> list[Owner]:
    """The owners that may leak, the fastest-growing first: they have kept blocks from most of the
    time. A cache that fills, or a list of results, looks the same."""
    return _suspects(owners(device))


def _suspects(found: list[Owner]) -> list[Owner]:
    return sorted((h for h in found if h.growth_bytes > 0), key=lambda h: -h.growth_bytes)


def report(device: object = 0) -> str:
    """Where the memory of the device's default pool is now, and its owners, in lines for people, as
    `libmend report` for a running program. If it comes from elsewhere, one line says so."""
    why = _unused.why_not(device)
    if why is not None:
        return why + "\n"
    figures = _devices.stats(device)
    if figures["pending_bytes"]:
        usage = _structures.made("mend_usage")  # which asks the GPU about finished work
        check(_devices.function("mend_get_usage")(_devices.pool(device), None, ctypes.byref(usage)))
        figures = _devices.stats(device)
    found = owners(device)
    shown = found[:_SHOWN]
    suspects = _suspects(found)
    if suspects and suspects[0] not in shown:
        shown[-1] = suspects[0]
    lines = [
        f"live  {_size(figures['live_bytes'])} in {figures['live_blocks']:,} blocks, "
        f"peak {_size(figures['peak_live_bytes'])}",
        f"held  {_size(figures['reserved_bytes'])} of {_size(figures['limit_bytes'])}, "
        f"peak {_size(figures['peak_reserved_bytes'])}; free of it "
        f"{_size(figures['free_empty_bytes'])} in whole chunks, "
        f"{_size(figures['free_partial_bytes'] + figures['free_small_bytes'])} beside live blocks",
        *_pending(figures["pending_bytes"]),
        f"waits {figures['host_waits']:,} of the CPU, {figures['stream_waits']:,} of streams; "
        f"out of memory {figures['out_of_memory']:,} times",
    ]
    if shown:
        title = ("Owners", "now", "share", "blocks", "oldest")
        lines += ["", "{:<44} {:>10} {:>6} {:>9} {:>11}  growth".format(*title)]
    growing = _stacks.growing()
    for owner in shown:
        share = f"{100 * owner.live_bytes // max(figures['live_bytes'], 1)} %"
        growth = _trend(owner, growing)
        lines.append(
            f"  {_cut(owner.name, 42):<42} {_size(owner.live_bytes):>10} {share:>6} "
            f"{owner.live_blocks:>9,} {owner.oldest:>11,}  {growth}"
        )
    lines += _sums_of_scopes(device)
    if shown and not _stacks.has_recorded():
        lines.append("Lines of the program: libmend.record_stacks(), or MEND_STACKS=1MiB")
    return "\n".join(lines) + "\n"


def _pending(size_bytes: int) -> list[str]:
    text = (
        f"wait  {_size(size_bytes)} of the free memory, for streams that still use it"
        " (record_stream); soft_limit bounds that"
    )
    return [text] if size_bytes else []


def _sums_of_scopes(device: object) -> list[str]:
    """The largest scopes with inner ones, with the sums of their owners."""
    found = [scope for scope in scopes(device) if scope.live_bytes > scope.own_live_bytes]
    largest = sorted(found, key=lambda scope: -scope.live_bytes)[:_SHOWN_SUMS]
    return [
        f"  {_cut(scope.path, 42):<42} {_size(scope.live_bytes):>10} with the scopes inside it"
        for scope in largest
    ]


def _trend(owner: Owner, growing: dict[str, int]) -> str:
    """As `libmend report` says it."""
    if owner.growth_bytes:
        return f"+{_size(owner.growth_bytes)} LEAK?"
    grown = next((grown for name, grown in growing.items() if owner.name.endswith(name)), 0)
    return f"+{_size(grown * owner.live_blocks)} grows" if grown else "steady"


class Region(NamedTuple):
    """A stretch of memory in one state: the fields of mend_region."""

    kind: str  # "live", "free", "waiting" or "page"
    address: int
    size_bytes: int
    requested_bytes: int
    segment: int
    stream: int
    tag: int
    scope: str | None  # its path
    is_small: bool
    is_pinned: bool
    is_for_graphs: bool
    is_unmapped: bool
    is_asleep: bool
    contents_dropped: bool
    sleep_tag: int
    is_pending: bool  # waiting, also for the stream that freed it


class Event(NamedTuple):
    """Something that happened to a pool: the fields of mend_history_event."""

    kind: str  # "alloc", "free", "map", ...: as mend_event_kind
    cause: str  # "hit", "moved", "created", ...: as mend_event_cause
    sequence: int
    time_ns: int
    address: int
    size_bytes: int
    requested_bytes: int
    stream: int
    tag: int  # without one the sleep tag
    chunk: int
    duration_ns: int
    scope: str | None  # its path
    is_for_graphs: bool


def regions(device: object = 0) -> list[Region]:
    """All memory of the device's default pool by rising address, as one consistent picture."""
    pool, names = _devices.pool(device), paths(device)
    found = _devices.listed("mend_get_regions", "mend_region", pool)
    return [_as(Region, element, names) for element in found]


class History:
    """Keeps the last events of the device's default pool while it is open:

    with libmend.History() as events:
        step()
        for event in events.read(): ...

    A pool has one history: another one of it changes how much is kept."""

    def __init__(self, capacity_events: int = 1 << 16, device: object = 0) -> None:
        self._capacity = _devices.amount_of("capacity_events", capacity_events, least=1)
        self._device, self._pool = device, _devices.pool(device)
        self._cursor = ctypes.c_uint64()

    def __enter__(self) -> History:
        self._start(self._capacity)
        return self

    def __exit__(self, *exception: object) -> None:
        self._start(0)

    def _start(self, capacity: int) -> None:
        check(_devices.function("mend_history_start")(self._pool, ctypes.c_uint64(capacity)))

    def read(self, most: int = 4096) -> list[Event]:
        """The events since the last read, the oldest first, at most so many. A gap in their
        sequence: they were overwritten before they were read."""
        kind = _structures.structure("mend_history_event")
        events, count = (kind * most)(), ctypes.c_size_t()
        sizes = ctypes.sizeof(kind), len(events)
        call, cursor = _devices.function("mend_history_read"), ctypes.byref(self._cursor)
        check(call(self._pool, cursor, events, *sizes, ctypes.byref(count)))
        names = paths(self._device)
        return [_as(Event, event, names) for event in events[: count.value]]


@functools.cache
def _words(enumeration: str, prefix: str) -> dict[int, str]:
    numbers = _structures.numbers_of(enumeration)
    return {number: name.removeprefix(prefix).lower() for name, number in numbers.items()}


_NAMED = {
    (Region, "kind"): ("mend_region_kind", "MEND_REGION_"),
    (Event, "kind"): ("mend_event_kind", "MEND_EVENT_"),
    (Event, "cause"): ("mend_event_cause", "MEND_CAUSE_"),
}


def _as(kind: type, element: ctypes.Structure, names: dict[int, str]):
    """A tuple of the fields of a structure, with words for numbers of enumerations and scopes."""
    values = []
    for field in kind._fields:
        value = getattr(element, field) or 0  # of a pointer that is NULL ctypes makes None
        if (kind, field) in _NAMED:
            value = _words(*_NAMED[kind, field]).get(value, str(value))
        elif field == "scope":
            value = names.get(value)
        values.append(bool(value) if field.startswith(("is_", "contents_")) else value)
    return kind(*values)


def _size(number: int) -> str:
    """Three digits, as `libmend report` writes it: "1.11 GiB"."""
    size, units = float(number), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    if units[0] == "B":
        return f"{number} B"
    return f"{size:.{2 if size < 10 else 1 if size < 100 else 0}f} {units[0]}"


def _cut(text: str, columns: int) -> str:
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    if len(text) <= columns:
        return text
    begin = columns // 2  # names of lines begin alike and end alike
    return text[:begin] + "~" + text[begin + 1 - columns :]
