"""The table of bench/torch/run.py, and its place in a document."""

from __future__ import annotations

from pathlib import Path

BEGIN, END = "<!-- torch: bench/torch/run.py --keep writes from here -->", "<!-- end of torch -->"


def _mib(row: dict, key: str) -> str:
    return f"{row[key] / (1 << 20):.0f}" if row.get(key) is not None else "-"


def _ms(row: dict, key: str) -> str:
    return f"{row['step_ms'][key]:.1f}" if row.get("step_ms") else "-"


def _row(result: dict, allocator: str) -> str:
    shared, own = result["at_shared"].get(allocator, {}), result["at_largest"].get(allocator, {})
    failures = sum(not row.get("completed", False) for row in (shared, own))
    cells = (
        result["workload"],
        allocator,
        result["largest"][allocator] or "none",
        _mib(own, "peak_reserved_bytes"),
        result["shared"],
        _mib(shared, "peak_reserved_bytes"),
        _ms(shared, "p50"),
        _ms(shared, "p99"),
        shared.get("steps", 0),
        failures,
    )
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def table(results: list[dict], races: dict[str, dict], memory_bytes: int) -> str:
    """In Markdown: a row for each workload and allocator, then the race."""
    lines = [
        f"At most {memory_bytes / (1 << 30):.1f} GiB for the allocator.",
        "",
        "| workload | allocator | largest size | peak reserved there, MiB | shared size |"
        " peak reserved there, MiB | step p50, ms | step p99, ms | steps | out of memory |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for result in results:
        lines += [_row(result, allocator) for allocator in result["largest"]]
    lost = [
        f"{name} {race.get('lost', 'failed')} of {race.get('rounds', 0)}"
        for name, race in races.items()
    ]
    lines += ["", f"Race of record_stream, rounds with a wrong reader: {', '.join(lost)}."]
    return "\n".join(lines)


def keep(document: Path, text: str) -> None:
    """Puts the text between the markers."""
    old = document.read_text(encoding="utf-8")
    before, rest = old.split(BEGIN + "\n", 1)
    after = rest.split(END, 1)[1]
    document.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")
