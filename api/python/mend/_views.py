"""What a pool shows of itself: who holds its memory, what leaks, its regions and its history
(docs/history.md)."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

from . import _devices, _structures
from ._errors import check
from ._scopes import paths

_SHOWN = 8
_NO_STREAM = _devices.NO_STREAM


class Holder(NamedTuple):
    """Live blocks of one scope and tag, or of one size: the figures of mend_holder."""

    name: str  # "step/forward, tag 7", "blocks of 2.00 MiB"
    tag: int
    block_bytes: int
    live_bytes: int
    live_blocks: int
    oldest: int  # allocations of the pool since its oldest block
    growth_bytes: int  # above 0: a suspect of a leak


def holders(device: object = 0) -> list[Holder]:
    """Who holds the memory of the device's default pool, the largest first."""
    found = []
    for holder in _devices.listed("mend_get_holders", "mend_holder", _devices.pool(device)):
        figures = [getattr(holder, field) for field in Holder._fields[1:]]
        found.append(Holder(holder.name.decode(errors="replace"), *figures))
    return found


def leaks(device: object = 0) -> list[Holder]:
    """The holders that look like a leak, what grew most first: they have kept blocks of most of
    the time. A cache that fills, or a list of results, looks the same."""
    suspects = [holder for holder in holders(device) if holder.growth_bytes > 0]
    return sorted(suspects, key=lambda holder: -holder.growth_bytes)


def report(device: object = 0) -> str:
    """Where the memory of the device's default pool is now, and who holds it, in lines for people:
    those of `mend report` for a program that runs."""
    figures = _devices.stats(device)
    found = holders(device)
    shown = found[:_SHOWN]
    suspects = leaks(device)
    if suspects and suspects[0] not in shown:
        shown[-1] = suspects[0]
    lines = [
        f"live  {_size(figures['live_bytes'])} in {figures['live_blocks']:,} blocks, "
        f"peak {_size(figures['peak_live_bytes'])}",
        f"held  {_size(figures['reserved_bytes'])} of {_size(figures['limit_bytes'])}, "
        f"peak {_size(figures['peak_reserved_bytes'])}; free of it "
        f"{_size(figures['free_empty_bytes'])} in whole chunks, "
        f"{_size(figures['free_partial_bytes'])} beside live blocks",
        f"waits {figures['host_waits']:,} of the host, {figures['stream_waits']:,} of streams; "
        f"out of memory {figures['out_of_memory']:,} times",
    ]
    if shown:
        title = ("Who holds it", "now", "share", "blocks", "oldest")
        lines += ["", "{:<44} {:>10} {:>6} {:>9} {:>11}  growth".format(*title)]
    for holder in shown:
        share = f"{100 * holder.live_bytes // max(figures['live_bytes'], 1)} %"
        growth = f"+{_size(holder.growth_bytes)} LEAK?" if holder.growth_bytes else "steady"
        lines.append(
            f"  {_cut(holder.name, 42):<42} {_size(holder.live_bytes):>10} {share:>6} "
            f"{holder.live_blocks:>9,} {holder.oldest:>11,}  {growth}"
        )
    return "\n".join(lines) + "\n"


def regions(device: object = 0) -> list[dict[str, object]]:
    """The mapped memory of the device's default pool by rising address, piece by piece, by the
    names of mend_region (docs/api.md); `kind` is "live", "free", "waiting" or "page", `scope` a
    path or None, `stream` None where it is MEND_NO_STREAM."""
    names = paths(device)
    kinds = _kinds("mend_region_kind", "MEND_REGION_")
    found = _devices.listed("mend_get_regions", "mend_region", _devices.pool(device))
    return [_row(at, kinds, names) for at in found]


def keep_history(events: int, device: object = 0) -> None:
    """Keeps the last `events` events of the device's default pool from now on, 96 bytes each; 0
    ends that. It costs some 215 instructions an event."""
    amount = _devices.amount_of("events", events)
    check(_devices.function("mend_history_start")(_devices.pool(device), amount))


def history(device: object = 0, after: int = 0) -> list[dict[str, object]]:
    """What happened to the memory of the device's default pool since keep_history, by the names of
    mend_history_event; `kind` and `cause` are words ("alloc", "host_wait"). Pass the `sequence` of
    the last event that was read as `after` to go on there; a gap in the numbers are events that
    the ring no longer had."""
    kind = _structures.structure("mend_history_event")
    call = _devices.function("mend_history_read")
    pool, names = _devices.pool(device), paths(device)
    kinds = _kinds("mend_event_kind", "MEND_EVENT_")
    causes = _kinds("mend_event_cause", "MEND_CAUSE_")
    cursor, count = ctypes.c_uint64(after + 1 if after else 0), ctypes.c_size_t(1)
    events, found = (kind * 1024)(), []
    while count.value > 0:
        room = ctypes.sizeof(kind), len(events)
        check(call(pool, ctypes.byref(cursor), events, *room, ctypes.byref(count)))
        for at in events[: count.value]:
            found.append({**_row(at, kinds, names), "cause": causes.get(at.cause)})
    return found


def prometheus(device: object = 0) -> str:
    """The statistics and scopes of the device's default pool in Prometheus's text format."""
    call = _devices.function("mend_stats_prometheus")
    pool = _devices.pool(device)
    length, text = ctypes.c_size_t(1 << 15), ctypes.create_string_buffer(1)
    while length.value >= len(text):
        text = ctypes.create_string_buffer(length.value + 1)
        check(call(pool, text, len(text), ctypes.byref(length)))
    return text.raw[: length.value].decode()


def _row(at: ctypes.Structure, kinds: dict[int, str], names: dict[int, str]) -> dict[str, object]:
    """A struct by the names of its fields, with words for numbers."""
    row = _structures.figures_of(at)
    row["kind"] = kinds.get(at.kind)
    row["scope"] = names.get(at.scope)
    row["stream"] = None if at.stream == _NO_STREAM else at.stream or 0
    return row


def _kinds(enum: str, prefix: str) -> dict[int, str]:
    numbers = _structures.numbers_of(enum)
    return {number: name.removeprefix(prefix).lower() for name, number in numbers.items()}


def _size(number: int) -> str:
    """Three digits, as `mend report` writes it: "1.11 GiB"."""
    size, units = float(number), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    if units[0] == "B":
        return f"{number} B"
    return f"{size:.{2 if size < 10 else 1 if size < 100 else 0}f} {units[0]}"


def _cut(text: str, columns: int) -> str:
    return text if len(text) <= columns else text[: columns - 1] + "~"
