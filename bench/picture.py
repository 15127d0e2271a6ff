#!/usr/bin/env python3
"""Draws what allocators hold over time while a program runs: one SVG for each workload.

    bench/picture.py --mend build/release/api/cli/mend -o docs/images TRACE|WORKLOAD...

The grey area is what the program uses; each line is what an allocator holds, on the simulated
device, by `mend replay --timeline`. Many events fall into one point, which shows the largest value.
"""
import argparse
import collections
import csv
import os
import subprocess
import sys
import tempfile
from xml.sax.saxutils import escape

POLICIES = "mend,caching,expandable,rmm-pool"
COLORS = {"mend": "#0b62a8", "caching": "#c8501e", "expandable": "#1d8a63", "rmm-pool": "#a3589a",
          "rmm-arena": "#8a6d1d", "gmlake": "#2a8fa0", "mend:quiet": "#111827"}
NAMES = {"mend": "Mend", "mend:quiet": "Mend, quiet points", "caching": "PyTorch caching",
         "expandable": "PyTorch expandable", "rmm-pool": "RMM pool", "rmm-arena": "RMM arena",
         "gmlake": "GMLake"}
GIB = 1 << 30
WIDTH, HEIGHT = 760, 360
LEFT, RIGHT, TOP, BOTTOM = 52, 744, 92, 322

Run = collections.namedtuple("Run", "policy events live reserved")


def replay(program, policies, capacity, workload):
    """The runs of one workload, each a list of points."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "timeline.tsv")
        command = [program, "replay", "--policy", policies, "--capacity", capacity,
                   "--timeline", path, workload]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        if done.returncode not in (0, 1):
            sys.exit(f"{' '.join(command)}: exit status {done.returncode}")
        runs = {}
        with open(path, encoding="utf-8", newline="") as table:
            for row in csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE):
                run = runs.setdefault(row["policy"], Run(row["policy"], [], [], []))
                run.events.append(int(row["event"]))
                run.live.append(int(row["live_bytes"]))
                run.reserved.append(int(row["reserved_bytes"]))
    return list(runs.values())


def tick_step(most, count=5):
    """A round step: 1, 2 or 5 times a power of ten."""
    step = 10 ** -3
    while most / step > count:
        for factor in (2, 2.5, 2):
            step *= factor
            if most / step <= count:
                break
    return step


class Chart:
    def __init__(self, runs):
        self.last_event = max(run.events[-1] for run in runs)
        self.most = max(max(run.reserved + run.live) for run in runs) / GIB
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            'font-family="system-ui,-apple-system,Segoe UI,Roboto,DejaVu Sans,sans-serif" '
            'font-size="12" fill="#3b434c">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>']

    def x(self, event):
        return LEFT + event * (RIGHT - LEFT) / max(self.last_event, 1)

    def y(self, count):
        return BOTTOM - count / GIB / self.most * (BOTTOM - TOP)

    def text(self, x, y, text, more=""):
        self.parts.append(f'<text x="{x:g}" y="{y:g}"{more}>{escape(text)}</text>')

    def axes(self):
        step = tick_step(self.most)
        digits = max(0, next(d for d in range(4) if round(step, d) == round(step, 6)))
        at = 0.0
        while at <= self.most:
            y = self.y(at * GIB)
            self.parts.append(f'<path d="M{LEFT} {y:.1f}H{RIGHT}" stroke="#e3e3df"/>')
            self.text(LEFT - 6, round(y + 4, 1), f"{at:.{digits}f}", ' text-anchor="end"')
            at += step
        self.text(LEFT, TOP - 8, "GiB", ' text-anchor="end" dx="-6"')
        self.text(RIGHT, BOTTOM + 20, f"{self.last_event + 1:,} events", ' text-anchor="end"')
        self.text(LEFT, BOTTOM + 20, "time")

    def steps(self, run, values):
        """A path of steps, with a point only where the value changes by half a unit or more."""
        path, drawn, start = "", None, LEFT
        for event, value in zip(run.events, values):
            y = round(self.y(value) * 2) / 2
            if y != drawn:
                x = round(start * 2) / 2
                path += f"M{x:g} {y:g}" if drawn is None else f"H{x:g}V{y:g}"
                drawn = y
            start = self.x(event + 1)
        return path + f"H{min(start, RIGHT):.1f}"

    def area(self, run):
        path = self.steps(run, run.live)
        self.parts.append(f'<path d="M{LEFT} {BOTTOM}L{path[1:]}V{BOTTOM}Z" fill="#d9dcdf"/>')

    def line(self, run):
        color = COLORS.get(run.policy, "#333")
        thick = 2.6 if run.policy.startswith("mend") else 1.6
        self.parts.append(f'<path d="{self.steps(run, run.reserved)}" fill="none" '
                          f'stroke="{color}" stroke-width="{thick}" stroke-linejoin="round"/>')
        if run.events[-1] < self.last_event:
            x, y = self.x(run.events[-1]), self.y(run.reserved[-1])
            self.parts.append(f'<path d="M{x - 5:.1f} {y - 5:.1f}l10 10m0-10l-10 10" '
                              f'stroke="{color}" stroke-width="2.6"/>')

    def legend(self, runs):
        peak = max(max(run.live) for run in runs)
        entries = [("#d9dcdf", f"used by the program: {peak / GIB:.2f} GiB")]
        for run in runs:
            ended = run.events[-1] < self.last_event
            what = "out of memory" if ended else f"{max(run.reserved) / max(peak, 1):.2f}x"
            entries.append((COLORS.get(run.policy, "#333"),
                            f"{NAMES.get(run.policy, run.policy)} {what}"))
        x, y = LEFT, 46
        for color, text in entries:
            width = 17 + len(text) * 7
            if x + width > RIGHT:
                x, y = LEFT, y + 20
            self.parts.append(f'<rect x="{x}" y="{y - 10}" width="12" height="12" rx="2" '
                              f'fill="{color}"/>')
            self.text(x + 17, y, text)
            x += width + 12


def draw(title, runs):
    runs = sorted(runs, key=lambda run: run.policy.startswith("mend"))  # ours over the others
    longest = max(runs, key=lambda run: run.events[-1])
    chart = Chart(runs)
    chart.parts.append(f"<title>{escape(title)}: memory over time</title>")
    chart.text(LEFT, 22, f"{title}: memory held, its peak as a multiple of what is used",
               ' font-size="14" font-weight="600" fill="#1d2228"')
    chart.axes()
    chart.area(longest)
    for run in runs:
        chart.line(run)
    chart.legend(list(reversed(runs)))
    return "\n".join(chart.parts + ["</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mend", required=True, help="the built program")
    parser.add_argument("-o", "--output", default="docs/images", help="the folder")
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--capacity", default="unlimited", help="as for mend replay")
    parser.add_argument("workloads", nargs="+")
    arguments = parser.parse_args()
    os.makedirs(arguments.output, exist_ok=True)
    for workload in arguments.workloads:
        title = os.path.basename(workload).removesuffix(".gz").removesuffix(".csv")
        runs = replay(arguments.mend, arguments.policies, arguments.capacity, workload)
        name = "".join(c if c.isalnum() or c in "-." else "-" for c in title)
        path = os.path.join(arguments.output, f"{name}.svg")
        with open(path, "w", encoding="utf-8") as out:
            out.write(draw(title, runs))
        print(path)


if __name__ == "__main__":
    main()
