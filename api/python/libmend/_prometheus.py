"""The statistics of a device's default pool in the text format of Prometheus: for each metric its
help, its type and its values."""

from __future__ import annotations

from collections.abc import Iterable

from . import _devices, _structures
from ._scopes import scopes

_MOST_SCOPES, _MOST_OWNERS, _DEEPEST = 256, 64, 8

# Statistics that count events and never fall. All others are gauges.
COUNTERS = frozenset(
    """allocated_bytes allocated_requested_bytes allocations cache_hits chunks_created
    chunks_moved chunks_released chunks_remade background_trimmed_bytes compactions context_fences
    copied_bytes created_bytes driver_failures dropped_bytes frees history_events history_lost
    host_waits moves_avoided out_of_memory
    pages_committed pages_decommitted peer_pool_trims placed_at_new_address
    placed_by_extension placed_in_run pressure_calls record_lost
    small_allocated_bytes small_allocated_requested_bytes small_allocations sleeps
    soft_limit_passed stream_waits waited_requests wakes""".split()
)


def prometheus(device: object = 0) -> str:
    """The statistics of the device's default pool in the text format of Prometheus 0.0.4: each one
    as mend_<name>. Also the live bytes of the first 256 scopes of at most eight names and of the 64
    largest tags and streams. A counter's name ends in _total. Every series has the label `device`.
    Holds the lock that allocations need for steps of some 50 us. No driver call."""
    label = {"device": _devices.index_of(device)}
    meanings = _structures.meanings_of("MEND_STATS")
    lines = []
    for name, value in _devices.stats(device).items():
        lines += _metric(name, meanings[name], name in COUNTERS, [(label, value)])
    shown = [s for s in scopes(device) if s.path.count("/") - s.path.count("\\/") < _DEEPEST]
    for name, field, meaning, is_counter in (
        ("scope_live_bytes", "live_bytes", "live bytes of the scope and those inside it", False),
        ("scope_peak_live_bytes", "peak_live_bytes", "largest of these", False),
        ("scope_allocations", "allocations", "allocations of the scope and those inside it", True),
    ):
        values = [({**label, "scope": s.path}, getattr(s, field)) for s in shown[:_MOST_SCOPES]]
        lines += _metric(name, meaning, is_counter, values)
    for kind, asked in ("tag", 2), ("stream", 4):  # MEND_BY_...
        found = _devices.listed("mend_get_owners", "mend_owner", _devices.pool(device), asked)
        numbered = [(h.tag if kind == "tag" else f"{h.stream or 0:x}", h) for h in found]
        values = [
            ({**label, kind: number, "name": h.name.decode(errors="replace")}, h.live_bytes)
            for number, h in numbered
            if number  # blocks without a tag have none
        ][:_MOST_OWNERS]
        lines += _metric(f"{kind}_live_bytes", f"live bytes of the {kind}", False, values)
    return "".join(line + "\n" for line in lines)


def _metric(
    name: str, meaning: str, is_counter: bool, values: Iterable[tuple[dict, int]]
) -> list[str]:
    name = f"mend_{name}{'_total' if is_counter else ''}"
    series = [
        f"{name}{{{','.join(f'{key}={_quoted(value)}' for key, value in labels.items())}}} {value}"
        for labels, value in values
    ]
    kind = "counter" if is_counter else "gauge"
    return [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}", *series] if series else []


def _quoted(value: object) -> str:
    text = str(value).replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return f'"{text}"'
