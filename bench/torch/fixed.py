#!/usr/bin/env python3
"""Each workload at one fixed size under each allocator, then the record_stream race: nothing is
searched for, so that it is known how long it takes. Each row is written as soon as there is one.

    bench/torch/fixed.py --json rows.jsonl
    bench/torch/fixed.py --dry-run            # tiny, on the CPU
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import harness
import workloads

HERE = Path(__file__).resolve().parent


def run(arguments: argparse.Namespace, allocator: str, program: str, *more: str) -> dict:
    """The row of one program. One that prints none, or takes too long, gives a row that says so."""
    command = [sys.executable, "-B", str(HERE / program), *more]
    if arguments.dry_run:
        command.append("--dry-run")
    row = {"allocator": allocator, "program": program, "completed": False}
    if more and not more[0].startswith("-"):
        row["workload"] = more[0]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "MEND_BENCH_ALLOCATOR": allocator},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=arguments.limit,
        )
        row.update(json.loads(done.stdout.strip().split("\n")[-1]), status=done.returncode)
    except subprocess.TimeoutExpired:
        row["error"] = f"stopped after {arguments.limit} s"
    except json.JSONDecodeError:
        row.update(error=done.stderr[-2000:], status=done.returncode)
    return row


def line_of(row: dict) -> str:
    """A line for people."""
    what = f"{row.get('workload', row['program'])} under {row['allocator']}"
    if "error" in row:
        return f"{what}: FAILED: {row['error'].strip().splitlines()[-1:] or 'no output'}"
    if "lost" in row:
        return f"{what}: {row['lost']} of {row['rounds']} readers wrong"
    step = row.get("step_ms", {})
    reserved = row.get("peak_reserved_bytes", 0) / (1 << 20)
    outcome = "" if row["completed"] else ", out of memory"
    return f"{what}: p50 {step.get('p50', 0):.1f} ms, reserved {reserved:.0f} MiB{outcome}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--allocators", default=",".join(harness.ALLOCATORS))
    parser.add_argument("--workloads", default=",".join(workloads.SIZES))
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warm-up", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=100, help="of the race")
    parser.add_argument("--limit", type=int, default=90, help="seconds of one program")
    parser.add_argument("--json", type=Path, help="where rows go")
    parser.add_argument("--dry-run", action="store_true")
    arguments = parser.parse_args()
    rows = []

    def keep(row: dict) -> None:
        rows.append(row)
        print(line_of(row), flush=True)
        if arguments.json:
            with arguments.json.open("a", encoding="utf-8") as out:
                out.write(json.dumps(row) + "\n")

    allocators = arguments.allocators.split(",")
    for allocator in allocators:
        keep(run(arguments, allocator, "race.py", f"--rounds={arguments.rounds}"))
    for workload in filter(None, arguments.workloads.split(",")):
        for allocator in allocators:
            size = workloads.SIZES[workload].fixed
            options = (f"--size={size}", f"--steps={arguments.steps}")
            warm_up = f"--warm-up={arguments.warm_up}"
            keep(run(arguments, allocator, "one.py", workload, *options, warm_up))
    return 1 if any("error" in row or row.get("lost") for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
