"""What a pool shows of itself: its memory, region by region, and what happened to it
(docs/history.md)."""

from __future__ import annotations

import ctypes
import functools
from typing import NamedTuple

from . import _devices, _library, _structures
from ._errors import check


class Region(NamedTuple):
    """A stretch of memory in one state: the fields of mend_region."""

    kind: str  # "live", "free", "waiting" or "page"
    address: int
    size_bytes: int
    requested_bytes: int
    segment: int
    stream: int
    tag: int
    scope: int
    is_small: bool
    is_pinned: bool
    is_for_graphs: bool
    is_unmapped: bool
    is_asleep: bool
    is_on_host: bool
    contents_dropped: bool


class Event(NamedTuple):
    """Something that happened to a pool: the fields of mend_history_event."""

    kind: str  # "alloc", "free", "map", ...: those of mend_event_kind
    cause: str  # "hit", "moved", "created", ...: those of mend_event_cause
    sequence: int
    time_ns: int
    address: int
    size_bytes: int
    requested_bytes: int
    stream: int
    tag: int
    chunk: int
    duration_ns: int
    scope: int
    is_for_graphs: bool


def regions(device: object = 0) -> list[Region]:
    """All memory of the device's default pool by rising address, as one consistent picture."""
    found = listed("mend_get_regions", "mend_region", _devices.pool(device))
    return [_as(Region, element) for element in found]


class History:
    """Keeps the last events of the device's default pool while it is open:

    with mend.History() as events:
        step()
        for event in events.read(): ...

    A pool has one history: another one of it changes how much is kept."""

    def __init__(self, capacity_events: int = 1 << 16, device: object = 0) -> None:
        self._capacity = _devices.amount_of("capacity_events", capacity_events, least=1)
        self._pool = _devices.pool(device)
        self._cursor = ctypes.c_uint64()

    def __enter__(self) -> History:
        _start(self._pool, self._capacity)
        return self

    def __exit__(self, *exception: object) -> None:
        _start(self._pool, 0)

    def read(self, most: int = 4096) -> list[Event]:
        """The events since the last read, the oldest first; at most so many. A gap in their
        sequence: they were overwritten before they were read."""
        kind = _structures.structure("mend_history_event")
        events, count = (kind * most)(), ctypes.c_size_t()
        sizes = ctypes.sizeof(kind), len(events)
        call = _function("mend_history_read", *[ctypes.c_void_p] * 3, *[ctypes.c_size_t] * 2)
        check(call(self._pool, ctypes.byref(self._cursor), events, *sizes, ctypes.byref(count)))
        return [_as(Event, event) for event in events[: count.value]]


def listed(call: str, element: str, pool: ctypes.c_void_p) -> list[ctypes.Structure]:
    """The elements that a call of mend_views.h lists."""
    kind = _structures.structure(element)
    get = _function(call, *[ctypes.c_void_p] * 2, *[ctypes.c_size_t] * 2)
    count, found = ctypes.c_size_t(64), (kind * 0)()
    while count.value > len(found):
        found = (kind * count.value)()
        check(get(pool, found, ctypes.sizeof(kind), len(found), ctypes.byref(count)))
    return found[: count.value]


def _start(pool: ctypes.c_void_p, capacity: int) -> None:
    call = _library.load("mend").mend_history_start
    call.restype, call.argtypes = ctypes.c_int, [ctypes.c_void_p, ctypes.c_uint64]
    check(call(pool, capacity))


def _function(name: str, *types: type):
    """A function whose last argument points to a count."""
    call = getattr(_library.load("mend"), name)
    call.restype, call.argtypes = ctypes.c_int, [*types, ctypes.c_void_p]
    return call


@functools.cache
def _words(enumeration: str, prefix: str) -> dict[int, str]:
    numbers = _structures.numbers_of(enumeration)
    return {number: name.removeprefix(prefix).lower() for name, number in numbers.items()}


_NAMED = {
    (Region, "kind"): ("mend_region_kind", "MEND_REGION_"),
    (Event, "kind"): ("mend_event_kind", "MEND_EVENT_"),
    (Event, "cause"): ("mend_event_cause", "MEND_CAUSE_"),
}


def _as(kind: type, element: ctypes.Structure):
    """A tuple of the fields of a structure; numbers of an enumeration as words."""
    values = []
    for field in kind._fields:
        value = getattr(element, field) or 0  # of a pointer that is NULL ctypes makes None
        if (kind, field) in _NAMED:
            value = _words(*_NAMED[kind, field]).get(value, str(value))
        values.append(bool(value) if field.startswith(("is_", "contents_")) else value)
    return kind(*values)
