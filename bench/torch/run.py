#!/usr/bin/env python3
"""Each workload under each allocator near a memory limit, and the record_stream race.

    bench/torch/run.py --memory 24GiB --raw results.json >table.md
    bench/torch/run.py --dry-run                       # tiny, on the CPU: do the programs work?

For each workload: the largest size that runs, by a search in processes of their own. Then every
allocator runs --steps steps at its largest size, and at the largest that all can run, where times
can be compared. --keep FILE writes the table between the markers of a document.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import report
import workloads

HERE = Path(__file__).resolve().parent
PROBE_STEPS = 20


class Runner:
    """Runs programs, and keeps every line they print."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.rows: list[dict] = []

    def run(self, program: str, allocator: str, *more: str) -> dict:
        """The line of one run. One that prints none has failed: that is reported, and a row."""
        command = [sys.executable, str(HERE / program), *more]
        if self.arguments.dry_run:
            command.append("--dry-run")
        done = subprocess.run(
            command,
            env={**os.environ, "MEND_BENCH_ALLOCATOR": allocator},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        lines = done.stdout.strip().split("\n")
        try:
            row = json.loads(lines[-1])
        except json.JSONDecodeError:
            row = {"allocator": allocator, "completed": False, "error": done.stderr[-2000:]}
            print(f"{' '.join(command)} under {allocator}:\n{done.stderr}", file=sys.stderr)
        row["arguments"] = [program, *more]
        self.rows.append(row)
        return row

    def step(self, workload: str, allocator: str, size: int, steps: int, warm_up: int) -> dict:
        """A workload at a size."""
        return self.run(
            "one.py",
            allocator,
            workload,
            f"--size={size}",
            f"--steps={steps}",
            f"--warm-up={warm_up}",
            f"--memory={self.arguments.memory}",
        )


def largest_size(runs, smallest: int, largest: int, finest: float) -> int:
    """The largest multiple of `smallest` for which runs(size) holds, to a fraction `finest` of it.
    0 where even the smallest does not. Doubles, then halves the interval."""
    good, bad = 0, largest + smallest
    size = smallest
    while size <= largest:
        if not runs(size):
            bad = size
            break
        good, size = size, size * 2
    while good and bad - good > max(smallest, int(good * finest)):
        middle = (good + bad) // 2 // smallest * smallest
        good, bad = (middle, bad) if runs(middle) else (good, middle)
    return good


def measure(runner: Runner, workload: str, allocators: list[str]) -> dict:
    """The table's words for a workload."""
    arguments, sizes = runner.arguments, workloads.SIZES[workload]
    largest = {}
    probe = (1, 0) if arguments.dry_run else (PROBE_STEPS, 0)
    for allocator in allocators:

        def runs(size: int, allocator: str = allocator) -> bool:
            return runner.step(workload, allocator, size, *probe)["completed"]

        most = sizes.smallest if arguments.dry_run else sizes.largest
        largest[allocator] = largest_size(runs, sizes.smallest, most, arguments.finest)
        print(f"{workload} under {allocator}: {largest[allocator]}", file=sys.stderr)
    shared = min(largest.values())
    result = {
        "workload": workload,
        "largest": largest,
        "shared": shared,
        "at_shared": {},
        "at_largest": {},
    }
    for allocator in allocators if shared else ():
        steps = (3, 1) if arguments.dry_run else (arguments.steps, 5)
        result["at_shared"][allocator] = runner.step(workload, allocator, shared, *steps)
        own = largest[allocator]
        result["at_largest"][allocator] = (
            result["at_shared"][allocator]
            if own == shared
            else runner.step(workload, allocator, own, *steps)
        )
    return result


def bytes_of(text: str) -> int:
    """24GiB, 512MiB or a number."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20)):
        if text.endswith(unit):
            return int(float(text[: -len(unit)]) * factor)
    return int(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", default=",".join(sorted(workloads.SIZES)))
    parser.add_argument("--allocators", default="native,expandable,mend")
    parser.add_argument("--memory", type=bytes_of, default=24 << 30)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--finest", type=float, default=0.03, help="of the search for the largest")
    parser.add_argument("--raw", type=Path, help="where all rows go")
    parser.add_argument("--keep", type=Path, help="a document whose table is replaced")
    parser.add_argument("--dry-run", action="store_true")
    arguments = parser.parse_args()
    runner, allocators = Runner(arguments), arguments.allocators.split(",")

    results = [measure(runner, name, allocators) for name in arguments.workloads.split(",")]
    rounds = "--rounds=4" if arguments.dry_run else "--rounds=200"
    races = {name: runner.run("race.py", name, rounds) for name in allocators}
    table = report.table(results, races, arguments.memory)
    print(table)
    if arguments.raw:
        kept = {"results": results, "races": races, "rows": runner.rows}
        arguments.raw.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    if arguments.keep:
        report.keep(arguments.keep, table)
    failed = [row for row in runner.rows if "error" in row]
    failed += [race for race in races.values() if race.get("lost")]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
