#!/usr/bin/env python3
"""Draws how long four streams in turn take on 8 GiB of an H200, and how often the CPU waits there.

    python3 bench/held/draw.py -o docs/images/h200.svg

The rows are in bench/results: PyTorch's allocators and Mend ran `bench/torch/small.py held` there.
"""
import argparse
import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = os.path.join(HERE, "..", "results", "2026-11-26-H200", "programs.jsonl")
LIMIT_GIB = 8.0
RUNS = [("native", "PyTorch’s default", "d"), ("expandable", "expandable segments", "e"),
        ("mend", "Mend", "m")]
WIDTH, HEIGHT = 800, 232
STYLE = """
.back{fill:#fff}.t{fill:#1f2328;font-size:20px;font-weight:600}.s{fill:#59636e;font-size:15px}
.n{fill:#1f2328;font-size:16px}.d{fill:#bc4c00}.e{fill:#1a7f37}.m{fill:#0969da}
@media (prefers-color-scheme:dark){.back{fill:#0d1117}.t,.n{fill:#f0f6fc}.s{fill:#9198a1}
.d{fill:#f0883e}.e{fill:#3fb950}.m{fill:#58a6ff}}
"""


def measured(path=ROWS):
    """(seconds, waits) of each run: with kernels, at the limit, by the newest Mend of the file."""
    found = {}
    with open(path, encoding="utf-8") as file:
        for row in map(json.loads, file):
            if row.get("what") == "held" and row["fill"] and row["limit_GiB"] == LIMIT_GIB:
                found[row["kind"]] = row["seconds"], row["waits"]
    return [found[kind] for kind, _, _ in RUNS]


def bars(x, title, values, form, most_px):
    lines = [f'<text class="s" x="{x}" y="88">{title}</text>']
    for at, ((_, _, kind), value) in enumerate(zip(RUNS, values)):
        y, width = 104 + 40 * at, max(2, round(most_px * value / max(values)))
        lines.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="26" rx="3"/>')
        lines.append(f'<text class="n" x="{x + width + 8}" y="{y + 19}">{form(value)}</text>')
    return lines


def draw(runs):
    seconds, waits = zip(*runs)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
             'font-family="-apple-system,Segoe UI,Helvetica,Arial,sans-serif" role="img">',
             f"<style>{STYLE}</style>",
             f'<rect class="back" width="{WIDTH}" height="{HEIGHT}"/>',
             '<text class="t" x="16" y="32">Four streams share 8 GiB of an H200</text>',
             '<text class="s" x="16" y="56">PyTorch 2.11. A kernel fills every tensor. '
             'At most 3.4 GiB are in use. Shorter is better.</text>']
    lines += [f'<text class="n" x="176" y="{123 + 40 * at}" text-anchor="end">{label}</text>'
              for at, (_, label, _) in enumerate(RUNS)]
    lines += bars(192, "time", seconds, "{:.2f} s".format, 190)
    lines += bars(480, "times the CPU waits for the GPU", waits, str, 250)
    return "\n".join([*lines, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", default="docs/images/h200.svg")
    options = parser.parse_args()
    with open(options.output, "w", encoding="utf-8") as file:
        file.write(draw(measured()))


if __name__ == "__main__":
    main()
