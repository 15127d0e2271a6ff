#!/usr/bin/env python3
"""Counts the instructions of calls on pools with ever more of one thing: no call looks at all.

    bench/crowded.py --build build/bench                         1,000, 100,000 and 1,000,000
    bench/crowded.py --build build/bench --most 1.25 2000 4000   1 when any grows more than so
    bench/crowded.py --build build/bench --only alloc,free       these operations alone

Instructions are counted in Mend and the C library for one operation, as in bench/counts.py.
Operations that look at everything are counted for one block or page. Things are live blocks, and
where the name of an operation says so ranges, pages, sleeping blocks, streams, threads, exported
blocks or imports. Of ranges, pages and imports a simulated device holds 40,000. Needs valgrind. A
million take some minutes.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import counts


def measure(program, operations, sizes):
    """{operation: instructions of one among each number}, by one process."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}",
                   "--instr-atstart=no", "--collect-atstart=no", "--toggle-collect=mend_counted",
                   program, *operations, "among", *map(str, sizes)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{operations}: exit status {done.returncode}\n{done.stderr}")
        figures = []
        for number, times in enumerate(done.stdout.split(), start=1):
            if not os.path.exists(f"{out}.{number}"):
                sys.exit("mend_crowded was built without valgrind's headers")
            with open(f"{out}.{number}", encoding="utf-8") as file:
                total, simulated = counts.parse(file.read())
            if total == 0:
                sys.exit("callgrind has counted nothing")
            figures.append((total - simulated) / int(times))
    return {name: figures[i * len(sizes):(i + 1) * len(sizes)]
            for i, name in enumerate(operations)}


def ratio(figures):
    """How many times the first the last one is."""
    return figures[-1] / figures[0]


def markdown(sizes, rows):
    head = ["operation"] + [f"{size:,}" for size in sizes] + ["last / first"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for operation, figures in rows.items():
        cells = [f"{figure:,.0f}" for figure in figures] + [f"{ratio(figures):.2f}"]
        lines.append("| " + " | ".join([operation] + cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, help="the folder of an optimised build")
    parser.add_argument("--most", type=float, help="how many times the first the last may be")
    parser.add_argument("--allow", action="append", default=[], metavar="NAME=TIMES",
                        help="another --most for one operation")
    parser.add_argument("--only", help="names of operations; all without it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("sizes", nargs="*", type=int, default=[1000, 100000, 1000000],
                        help="how many, rising")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        sys.exit("counts need valgrind")
    program = os.path.join(options.build, "bench", "mend_crowded")
    listing = subprocess.run([program, "--list"], check=True, capture_output=True, text=True)
    operations = options.only.split(",") if options.only else listing.stdout.split()
    shares = [share for i in range(options.jobs) if (share := operations[i::options.jobs])]
    with ThreadPoolExecutor(options.jobs) as pool:
        figures = pool.map(lambda share: measure(program, share, options.sizes), shares)
    measured = {name: line for share in figures for name, line in share.items()}
    rows = {name: measured[name] for name in operations}
    print(markdown(options.sizes, rows))
    allowed = {name: float(times) for name, times in (a.split("=") for a in options.allow)}
    unknown = allowed.keys() - rows.keys()
    if unknown:
        sys.exit(f"--allow: no operation is named {', '.join(sorted(unknown))}")
    grown = [name for name, line in rows.items()
             if options.most is not None and ratio(line) > allowed.get(name, options.most)]
    if grown:
        print(f"More times as many than allowed: {', '.join(grown)}.")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
