#!/usr/bin/env python3
"""The use of one memory limit by each allocator: the largest size of each workload that runs. Then
step times and the most memory held, at a size that all can run and at their own largest. Within a
time: each row is written as soon as there is one, and no run is begun that would end too late.

    bench/torch/fit.py --memory 12GiB --seconds 450 --json rows.jsonl
    bench/torch/fit.py --dry-run              # tiny, on the CPU

The largest sizes are searched for under all allocators and for several workloads at once
(--at-once, as many as the GPU has memory for), since they do not depend on speed. A timed run has
the GPU for itself. Each program is a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import workloads
from run import bytes_of

HERE = Path(__file__).resolve().parent
ORDER = "language-model,serving,vision,lora,two-streams,generate-train"


class Failed(Exception):
    """A program failed for another reason than memory: larger or smaller ones would as well."""


class Server:
    """A process that has imported PyTorch under one allocator, and runs programs one by one."""

    def __init__(self, allocator: str, limit_s: int, *more: str) -> None:
        self.allocator, self.limit_s, self.more = allocator, limit_s, more
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-B", str(HERE / "one.py"), "--serve"],
            env={**os.environ, "MEND_BENCH_ALLOCATOR": allocator},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )

    def run(self, workload: str, size: int, steps: int, memory: int) -> dict:
        """The row of one program. One that prints none gives a row with the reason."""
        row = {"workload": workload, "allocator": self.allocator, "size": size, "completed": False}
        options = [f"--size={size}", f"--steps={steps}", "--warm-up=0", f"--memory={memory}"]
        begin = time.monotonic()
        try:
            request = [self.limit_s, workload, *options, *self.more]
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            for line in self.process.stdout:
                answer = json.loads(line) if line.startswith("{") else {}
                if "timed_out" in answer:
                    break
                row.update(answer)
            else:
                answer = {"status": self.process.wait(), "timed_out": False}
        except BrokenPipeError:
            answer = {"status": self.process.wait(), "timed_out": False}
        if answer["timed_out"]:
            row["error"] = f"stopped after {self.limit_s} s"
        elif "knob" not in row:
            self.errors.seek(0)
            row.update(error=self.errors.read()[-2000:] or "no output", status=answer["status"])
        self.errors.seek(0)
        self.errors.truncate()
        row["seconds"] = round(time.monotonic() - begin, 2)
        return row

    def close(self) -> None:
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.wait()
        self.process.stdout.close()
        self.errors.close()


def largest_near(runs, sizes: workloads.Sizes, finest: float) -> int:
    """The largest multiple of the smallest size for which runs(size) holds, to a fraction `finest`.
    0 where none does. Doubles or halves from the fixed size, then halves the interval."""
    unit = sizes.smallest
    good, bad, size = 0, 0, sizes.fixed
    while not (good and bad):
        if runs(size):
            good, size = size, size * 2
            if size > sizes.largest:
                return good
        else:
            bad, size = size, size // 2 // unit * unit
            if size < unit:
                return 0
    while bad - good > max(unit, int(good * finest)):
        middle = (good + bad) // 2 // unit * unit
        good, bad = (middle, bad) if runs(middle) else (good, middle)
    return good


class Fit:
    """The searches and the timed runs of one workload after the other."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.end = time.monotonic() + arguments.seconds
        self.lock = threading.Lock()
        self.failed = False
        self.allocators = arguments.allocators.split(",")
        self.servers: dict[tuple[str, str], Server] = {}

    def left(self) -> float:
        return self.end - time.monotonic()

    def keep(self, row: dict, what: str) -> dict:
        row["what"] = what
        with self.lock:
            if "error" in row:
                self.failed = True
            if self.arguments.json:
                with self.arguments.json.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(row) + "\n")
        return row

    def search(self, workload: str, allocator: str, found: dict) -> None:
        arguments, sizes = self.arguments, workloads.SIZES[workload]

        def runs(size: int) -> bool:
            if self.left() < 0:
                return False
            server = self.servers[workload, allocator]
            row = server.run(workload, size, arguments.search_steps, arguments.memory)
            if "error" in self.keep(row, "search"):
                last = row["error"].strip().splitlines()[-1]
                print(f"{workload} under {allocator}: FAILED: {last}", flush=True)
                raise Failed
            return row["completed"]

        if arguments.dry_run:
            sizes = sizes._replace(fixed=sizes.smallest, largest=sizes.smallest)
        try:
            found[allocator] = largest_near(runs, sizes, arguments.finest)
        except Failed:
            found[allocator] = 0

    def timed(self, workload: str, allocator: str, size: int, what: str) -> dict:
        arguments = self.arguments
        server = self.servers[workload, allocator]
        row = self.keep(server.run(workload, size, arguments.steps, arguments.memory), what)
        step = row.get("step_ms", {})
        halves = row.get("step_ms_by_half", [{}, {}])
        outcome = "" if row["completed"] else "  " + str(row.get("error", "out of memory"))[-80:]
        print(
            f"{workload} {what} ({size}) under {allocator}: p50 {step.get('p50', 0):.1f} ms, "
            f"p99 {step.get('p99', 0):.1f} (halves {halves[0].get('p99', 0):.1f} and "
            f"{halves[1].get('p99', 0):.1f}), held {row.get('peak_reserved_bytes', 0) >> 20} MiB"
            f"{outcome}",
            flush=True,
        )
        return row

    def largest(self, workloads_of: list[str]) -> dict[str, dict[str, int]]:
        """The largest size that runs, for each workload under each allocator. 0 where none does."""
        more = ["--dry-run"] if self.arguments.dry_run else []
        found: dict[str, dict[str, int]] = {workload: {} for workload in workloads_of}
        threads = []
        for workload in workloads_of:
            for name in self.allocators:
                self.servers[workload, name] = Server(name, self.arguments.limit, *more)
                threads.append(
                    threading.Thread(target=self.search, args=(workload, name, found[workload]))
                )
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for workload, sizes in found.items():
            row = {"workload": workload, "largest": sizes, "seconds_left": self.left()}
            self.keep(row, "largest")
            print(f"{workload}: the largest that runs: {sizes}", flush=True)
        return found

    def measure(self, workloads_of: list[str]) -> None:
        found = self.largest(workloads_of)
        for what in ("at a shared size", "at its largest"):
            for workload in workloads_of:
                # A tenth below the common size: more steps than in the search need more at times.
                unit = workloads.SIZES[workload].smallest
                sizes = {name: size for name, size in found[workload].items() if size}
                shared = max(min(sizes.values(), default=0) * 9 // 10 // unit * unit, unit)
                for name in (name for name in self.allocators if name in sizes):
                    if self.left() > 0:
                        size = shared if what == "at a shared size" else sizes[name]
                        self.timed(workload, name, size, what)
        for workload in workloads_of:
            for name in self.allocators:
                self.servers.pop((workload, name)).close()

    def run(self) -> int:
        took = 0.0
        every = self.arguments.workloads.split(",")
        for first in range(0, len(every), self.arguments.at_once):
            some = every[first : first + self.arguments.at_once]
            if self.left() < took * 0.7:
                print(f"{','.join(some)}: not begun, {self.left():.0f} s are left", flush=True)
                continue
            begin = time.monotonic()
            self.measure(some)
            took = max(took, time.monotonic() - begin)
        return 1 if self.failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", default=ORDER)
    parser.add_argument("--allocators", default="native,expandable,mend")
    parser.add_argument("--memory", type=bytes_of, default=12 << 30, help="for each program")
    parser.add_argument("--at-once", type=int, default=2, help="workloads, in the search")
    parser.add_argument("--seconds", type=int, default=450, help="for everything")
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--search-steps", type=int, default=16)
    parser.add_argument("--finest", type=float, default=0.06, help="of the search for the largest")
    parser.add_argument("--limit", type=int, default=60, help="seconds of one program")
    parser.add_argument("--json", type=Path, help="where rows go")
    parser.add_argument("--dry-run", action="store_true", help="tiny, on the CPU")
    return Fit(parser.parse_args()).run()


if __name__ == "__main__":
    sys.exit(main())
