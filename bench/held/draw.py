#!/usr/bin/env python3
"""Draws what a program of PyTorch's uses and what three allocators hold for it: PyTorch's own two
and Mend, over the simulated device.

    python bench/held/draw.py -o docs/images/held.svg

Run it by a Python that has PyTorch and the libmend package. Each run is a process of its own. The
picture names its labels at the lines; a narrow one, as on a phone, gets larger text and less of it.
"""
import argparse
import csv
import os
import subprocess
import sys
import tempfile
from xml.sax.saxutils import escape

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = "streams.py"
TURNS = 40
GIB = 1 << 30
RUNS = [  # the class of the line, its label, the environment
    ("d", "PyTorch’s default", {}),
    ("e", "expandable_segments", {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
    ("m", "Mend", {"MEND_TORCH": "1"}),
]

WIDTH, HEIGHT = 800, 360
LEFT, RIGHT, TOP, BOTTOM = 44, 788, 84, 322
STYLE = """
.back{fill:#fff}.t{fill:#1f2328;font-size:20px;font-weight:600}.s{fill:#59636e;font-size:14px}
.g{stroke:#d1d9e0}.u{fill:#d4dae1}.ut{fill:#3d444d;font-size:16px}
.l{fill:none;stroke-linejoin:round}.b{font-size:17px;font-weight:600}
.d{stroke:#bc4c00;stroke-width:2.2}.e{stroke:#1a7f37;stroke-width:2.2}
.m{stroke:#0969da;stroke-width:4}.dt{fill:#bc4c00}.et{fill:#1a7f37}.mt{fill:#0969da}
.a{stroke:#818b98;stroke-width:1.5;fill:none}.narrow{display:none}
@media (max-width:520px){.wide{display:none}.narrow{display:inline}
.t{font-size:29px}.s{font-size:25px}.b{font-size:27px}.ut{font-size:25px}
.m{stroke-width:6}.d,.e{stroke-width:4}}
@media (prefers-color-scheme:dark){.back{fill:#0d1117}.t{fill:#f0f6fc}.s{fill:#9198a1}
.g{stroke:#2a313a}.u{fill:#3d444d}.ut{fill:#d1d7e0}.d{stroke:#f0883e}.e{stroke:#3fb950}
.m{stroke:#58a6ff}.dt{fill:#f0883e}.et{fill:#3fb950}.mt{fill:#58a6ff}}
"""


def sampled(memory, changes):
    """Bytes in use and held after each operation of the program."""
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "MEND_TORCH")}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "samples.csv")
        subprocess.run([sys.executable, "-m", "mend.simulate", f"--memory={memory}",
                        os.path.join(HERE, "sample.py"), os.path.join(HERE, PROGRAM), path],
                       check=True, stdout=subprocess.DEVNULL, env={**environment, **changes})
        with open(path, encoding="utf-8", newline="") as file:
            return [(int(used), int(held)) for used, held in csv.reader(file)]


class Picture:
    def __init__(self, count, most):
        self.count = count
        self.most = most
        self.parts = []

    def x(self, operation):
        return LEFT + operation * (RIGHT - LEFT) / self.count

    def y(self, size):
        return BOTTOM - size / self.most * (BOTTOM - TOP)

    def text(self, x, y, kind, text, end=False):
        anchor = ' text-anchor="end"' if end else ""
        self.parts.append(f'<text class="{kind}" x="{x:g}" y="{y:.0f}"{anchor}>'
                          f"{escape(text)}</text>")

    def path(self, sizes):
        """Steps; of the operations in half a unit of width the largest size."""
        columns = {}
        for operation, size in enumerate(sizes):
            x = round(self.x(operation) * 2) / 2
            columns[x] = max(columns.get(x, 0), size)
        text, before = "", None
        for x, size in columns.items():
            y = round(self.y(size) * 2) / 2
            if y != before:
                text += f"M{x:g} {y:g}" if before is None else f"H{x:g}V{y:g}"
                before = y
        return text + f"H{RIGHT}"

    def grid(self):
        for gib in range(0, int(self.most / GIB) + 1, 5):
            y = self.y(gib * GIB)
            self.parts.append(f'<path class="g" d="M{LEFT} {y:.1f}H{RIGHT}"/>')
            self.text(LEFT - 8, y + 5, "s wide", str(gib), end=True)

    def reason(self, x, low, high):
        """An arrow over what is held and not in use, and why."""
        top, bottom = self.y(high) + 5, self.y(low) - 5
        middle = (top + bottom) / 2
        self.parts.append(f'<path class="a wide" d="M{x} {top:.0f}V{bottom:.0f}'
                          f'M{x - 5} {top + 8:.0f}l5-8 5 8M{x - 5} {bottom - 8:.0f}l5 8 5-8"/>')
        self.text(x + 14, middle - 4, "s wide", "held, not in use: each stream")
        self.text(x + 14, middle + 15, "s wide", "keeps the memory that it freed")


def gib(size):
    return f"{size / GIB:.1f} GiB"


def draw(memory, torch_version, runs):
    """`runs` are lists of (in use, held), in the order of RUNS."""
    held = [max(sample[1] for sample in run) for run in runs]
    used = max(sample[0] for sample in runs[-1])
    picture = Picture(len(runs[-1]), max(held) * 1.06)
    words = ", ".join(f"{run[1]} holds {gib(most)}" for run, most in zip(RUNS, held))
    picture.parts += [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-labelledby="t d" font-family="system-ui,-apple-system,Segoe UI,Roboto,DejaVu Sans,'
        'sans-serif">',
        '<title id="t">Memory held by three allocators while one program runs</title>',
        f'<desc id="d">Four streams take {TURNS} turns and use at most {gib(used)}. '
        f"{escape(words)}.</desc>",
        f"<style>{STYLE}</style>",
        f'<rect class="back" width="{WIDTH}" height="{HEIGHT}" rx="8"/>']
    picture.text(16, 34, "t wide", "GPU memory held, one program, three allocators")
    picture.text(16, 32, "t narrow", "GPU memory held by one program")
    picture.text(16, 60, "s wide", f"GiB over time: four streams take {TURNS} turns. "
                 f"PyTorch {torch_version} on a simulated GPU of {memory.replace('GiB', ' GiB')}.")
    picture.text(16, 62, "s narrow", f"four streams, {TURNS} turns")
    picture.grid()
    picture.parts.append(f'<path class="u" d="M{LEFT} {BOTTOM}L'
                         f'{picture.path([used for used, _ in runs[-1]])[1:]}V{BOTTOM}Z"/>')
    for (kind, _, _), run in zip(RUNS, runs):
        path = picture.path([size for _, size in run])
        picture.parts.append(f'<path class="l {kind}" d="M{LEFT} {BOTTOM}L{path[1:]}"/>')
    for (kind, label, _), most in zip(RUNS, held):
        kinds = f"b {kind}t" + (" wide" if kind == "e" else "")
        picture.text(RIGHT - 4, picture.y(most) - 9, kinds, f"{label} {gib(most)}", end=True)
        if kind == "e":  # between two lines there is no room for large text
            picture.text(RIGHT - 4, picture.y(most) + 36, "b et narrow", f"{label} {gib(most)}",
                         end=True)
    picture.text(RIGHT - 8, BOTTOM - 14, "ut", f"in use: at most {gib(used)}", end=True)
    picture.reason(450, held[2], held[1])
    picture.text(LEFT, BOTTOM + 24, "s wide", "turn 1")
    picture.text(RIGHT, BOTTOM + 24, "s wide", f"turn {TURNS}", end=True)
    picture.text(LEFT, BOTTOM + 30, "s narrow", f"simulated GPU of {memory.replace('GiB', ' GiB')}")
    picture.text(RIGHT, BOTTOM + 30, "s narrow", "time", end=True)
    return "\n".join(picture.parts + ["</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", default="docs/images/held.svg")
    parser.add_argument("--memory", default="24GiB", help="of the simulated GPU")
    arguments = parser.parse_args()
    version = subprocess.run([sys.executable, "-c", "import torch; print(torch.__version__)"],
                             check=True, capture_output=True, text=True).stdout
    runs = [sampled(arguments.memory, environment) for _, _, environment in RUNS]
    for (_, label, _), run in zip(RUNS, runs):
        print(f"{label}: in use at most {max(used for used, _ in run):,} B, "
              f"held at most {max(held for _, held in run):,} B")
    with open(arguments.output, "w", encoding="utf-8") as file:
        file.write(draw(arguments.memory, ".".join(version.split(".")[:2]), runs))


if __name__ == "__main__":
    main()
