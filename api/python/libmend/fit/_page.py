"""The page of `libmend fit -o`: the page of `libmend report`, with the answer above it, memory over
time under each allocator with cards as lines, and the largest sizes by card."""

from __future__ import annotations

import csv
import html
import re
from pathlib import Path

from . import _answer, _cards, _text
from ._runs import ALLOCATORS

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 1000, 300, 76, 812, 10, 262
COLORS = {"default": "--g1", "expandable": "--g4", "mend": "--g2"}


def write(page: Path, report: str, answer: dict, text: str, timeline: Path) -> None:
    """Writes the page from the report's and the lines of `libmend replay`."""
    first, _, rest = text.partition("\n")
    parts = [f'<section class="card"><h2>Does it fit?</h2>{_lines(rest)}</section>']
    if "knob" in answer:
        parts.append(_largest(answer))
    parts.append(_over_time(answer, timeline))
    report = report.replace(_text.NO_STACK, _text.NO_LINE)  # one name for one owner
    head, begin, tail = report.partition("<h1>")
    _, end, tail = tail.partition("</h1>")
    there, close, below = tail.partition("</header>")
    whole = "".join([head, begin, html.escape(first), end, there, close, *parts, below])
    page.write_text(whole, encoding="utf-8")


def _lines(text: str) -> str:
    """Sentences, and tables, which are indented and scroll."""
    parts = []
    for part in re.findall(r"(?:^ .*\n?)+|^[^ \n].*\n?", text, re.MULTILINE):
        if part.startswith(" "):
            style = "overflow-x:auto;white-space:pre;overflow-wrap:normal"
            parts.append(f'<pre style="{style}">{html.escape(part.rstrip())}</pre>')
        else:
            parts.append(f"<p>{html.escape(part.strip())}</p>")
    return "".join(parts)


def _curves(timeline: Path) -> dict[str, list[tuple[int, int, int]]]:
    """By policy: event, bytes in use, bytes held."""
    found: dict[str, list[tuple[int, int, int]]] = {}
    with timeline.open(encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            values = tuple(int(row[key]) for key in ("event", "live_bytes", "reserved_bytes"))
            found.setdefault(row["policy"], []).append(values)
    return found


def _over_time(answer: dict, timeline: Path) -> str:
    """Allocated and reserved memory, and the cards' memory for it: at most, without the rest beside
    it."""
    curves = _curves(timeline)
    if not curves:
        return ""
    rows = next(iter(curves.values()))
    most = max(held for curve in curves.values() for _, _, held in curve)
    cards = {
        card.key: _answer.room_of(card.total_bytes, "default", card)[0] for card in _cards.CARDS
    }
    for target in answer["targets"]:
        cards.pop(target["label"].partition(" ")[0], None)
        cards[target["label"]] = target["room_bytes"]
    shown = {name: room for name, room in cards.items() if most / 3 < room < most * 1.6}
    top = max([most, *shown.values()]) * 1.04

    def x(event: int) -> float:
        return LEFT + (RIGHT - LEFT) * event / max(rows[-1][0], 1)

    def y(size: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * size / top

    def line(points) -> str:
        return " ".join(f"{x(event):.1f},{y(size):.1f}" for event, size in points)

    live = line((event, used) for event, used, _ in rows)
    parts = _axes(rows[-1][0], top, y)
    parts += [
        f'<polygon points="{LEFT},{BOTTOM} {live} {RIGHT},{BOTTOM}" fill="var(--faint)"/>',
        f'<polyline points="{live}" fill="none" stroke="var(--soft)"/>',
    ]
    keys = ['<span><span style="color:var(--soft)">&#9644;</span> in use</span>']
    for name, curve in zip(answer["allocators"], curves.values()):
        points = line((event, held) for event, _, held in curve)
        color = f"var({COLORS[name]})"
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>')
        said = html.escape(f"held by {ALLOCATORS[name]}")
        keys.append(f'<span><span style="color:{color}">&#9644;</span> {said}</span>')
    at = float("inf")
    for name, room in sorted(shown.items(), key=lambda one: one[1]):
        at = min(at - 13, y(room) + 4)  # names do not cover each other
        parts.append(
            f'<line x1="{LEFT}" x2="{RIGHT}" y1="{y(room):.1f}" y2="{y(room):.1f}"'
            ' stroke="var(--bad)" stroke-dasharray="4 4"/>'
            f'<text x="{RIGHT + 6}" y="{at:.1f}" font-size="12" fill="currentColor">'
            f"{html.escape(name)}</text>"
        )
    said = "A dashed line is what a card has for it at least. " if shown else ""
    above = [name for name, room in cards.items() if room >= most * 1.6]
    if above:
        lowest = min(above, key=cards.get)
        others = f" and {len(above) - 1} more" if len(above) > 1 else ""
        said += f"Above the chart: {lowest}, with {_answer.gib(cards[lowest])} for it{others}."
    return f"""<section class="card" style="margin-bottom:30px"><h2>Memory over time, and cards</h2>
<p class="soft">One run, replayed under each allocator without a limit. {html.escape(said)}</p>
<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" style="width:100%"
aria-label="memory over time">{"".join(parts)}</svg><div class="keys">{"".join(keys)}</div>
</section>
"""


def _axes(last: int, top: float, y) -> list[str]:
    """Lines with their sizes, at most five, and the events at both ends."""
    unit, name = next(
        (unit, name)
        for unit, name in ((_cards.GIB, "GiB"), (_cards.MIB, "MiB"), (1, "B"))
        if top >= unit or unit == 1
    )
    steps = (count * 10**power for power in range(5) for count in (1, 2, 5))
    step = next(step for step in (0.5, *steps) if top / unit / step <= 5)
    text = '<text x="{:.0f}" y="{:.1f}" font-size="12" fill="currentColor"{}>{}</text>'
    parts = []
    for number in range(int(top / unit / step) + 1):
        at = y(number * step * unit)
        parts.append(
            f'<line x1="{LEFT}" x2="{RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="var(--line)"/>'
        )
        size = f"{number * step:g} {name}"
        parts.append(text.format(LEFT - 8, at + 4, ' text-anchor="end"', size))
    parts.append(text.format(LEFT, BOTTOM + 20, "", "event 0"))
    parts.append(text.format(RIGHT, BOTTOM + 20, ' text-anchor="end"', f"event {last:,}"))
    return parts


def _largest(answer: dict) -> str:
    """The largest size for each card and allocator, as bars."""
    most = max((s or 0 for one in answer["targets"] for s in one["largest"].values()), default=0)
    rows = []
    for target in answer["targets"]:
        for name, size in target["largest"].items():
            width = 100 * (size or 0) / max(most, 1)
            rows.append(
                f"<tr><td>{html.escape(target['label'])}</td><td>{ALLOCATORS[name]}</td>"
                f'<td style="width:60%"><div style="background:var({COLORS[name]});'
                f'width:{width:.1f}%;height:1em"></div></td><td>{size or "none"}</td></tr>'
            )
    title = html.escape(f"The largest {answer['knob']} by card")
    return (
        f'<section class="card"><h2>{title}</h2><table style="width:100%">{"".join(rows)}'
        "</table></section>"
    )
