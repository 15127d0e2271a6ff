#!/usr/bin/env python3
"""How close the simulated GPU comes to what GPUs said of PyTorch's allocators: runs each row of
bench/results/*/torch-*.jsonl again, with its own size, steps and limit. `./run fit-accuracy`.

Left out are rows of a GPU that neighbours had filled, by device_used_bytes; vision, which needs
cuDNN; and Mend's, which are of earlier policies. A row that held 97 % of its own limit or more
counts for its outcome alone.

    bench/torch/fit_accuracy.py [--seconds 600] [--json ROWS]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results"
ALLOCATORS = {"native": "default", "expandable": "expandable segments"}
NEEDS_CUDNN = ("vision",)
GIB = 1 << 30
FULL = 0.97


def total_of(folder: Path) -> int:
    """The memory of the GPU that a folder of results is of."""
    words = re.search(r"memory +([\d.]+) GiB", (folder / "device.txt").read_text())
    return int(float(words[1]) * GIB)


def rows() -> list[dict]:
    """What was measured, with the GPU's memory, and the steps that were to be made."""
    found = []
    for path in sorted(RESULTS.glob("*/torch-*.jsonl")):
        total = total_of(path.parent)
        here = [json.loads(line) for line in path.read_text().splitlines()]
        searched = [row["steps"] for row in here if row.get("what") == "search"]
        for row in here:
            wanted = row.get("allocator") in ALLOCATORS and row["workload"] not in NEEDS_CUDNN
            if not wanted or "peak_reserved_bytes" not in row:
                continue
            if row["device_used_bytes"] >= FULL * total:
                continue
            steps = max(searched) if row["what"] == "search" else max(row["steps"], 1)
            if row["what"] != "search" and not row["completed"]:
                steps = 48
            found.append({**row, "gpu": path.parent.name, "total": total, "asked": steps})
    return sorted(found, key=lambda row: (not row["completed"], row["size"]))


class Server:
    """one.py under an allocator on a simulated GPU, which forks for each row."""

    def __init__(self, allocator: str, total: int) -> None:
        command = ["-m", "libmend.simulate", f"--memory={total}", str(HERE / "one.py"), "--serve"]
        self.process = subprocess.Popen(
            [sys.executable, "-B", *command],
            env={
                **os.environ,
                "MEND_BENCH_ALLOCATOR": allocator,
                "MEND_SIMULATE_CONTENTS": "small",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def run(self, row: dict) -> dict:
        options = [f"--size={row['size']}", f"--steps={row['asked']}", "--warm-up=0"]
        limit = f"--memory={row['memory_bytes']}"
        self.process.stdin.write(json.dumps([300, row["workload"], *options, limit]) + "\n")
        self.process.stdin.flush()
        answer: dict = {}
        for line in self.process.stdout:
            one = json.loads(line) if line.startswith("{") else {}
            if "timed_out" in one:
                break
            answer.update(one)
        return answer


def predict(measured: list[dict], seconds: int, out) -> list[tuple[dict, dict]]:
    servers: dict = {}
    known: dict = {}
    pairs = []
    end = time.monotonic() + seconds
    for row in measured:
        keys = ("allocator", "total", "workload", "size", "asked", "memory_bytes")
        key = tuple(row[name] for name in keys)
        if key not in known:
            if time.monotonic() > end:
                continue
            if key[:2] not in servers:
                servers[key[:2]] = Server(*key[:2])
            known[key] = servers[key[:2]].run(row)
        if "completed" not in known[key]:
            print(f"no answer for {row['workload']} {row['size']}", file=sys.stderr)
            continue
        pairs.append((row, known[key]))
        if out:
            out.write(json.dumps({"measured": row, "predicted": known[key]}) + "\n")
            out.flush()
    for server in servers.values():
        server.process.stdin.close()
        server.process.wait()
    return pairs


def errors(pairs: list[tuple[dict, dict]], key: str) -> str:
    """Median and worst of the errors, in percent, of rows that are not at their limit."""
    found = [
        abs(predicted[key] / row[key] - 1) * 100
        for row, predicted in pairs
        if row["completed"] == predicted["completed"]
        and row["peak_reserved_bytes"] < FULL * row["memory_bytes"]
    ]
    return f"{statistics.median(found):.3f}, {max(found):.3f}" if found else "none"


def largest(pairs: list[tuple[dict, dict]]) -> tuple[int, int]:
    """How many searches found the largest size that the simulation has, of how many."""
    found: dict[tuple, list[int]] = {}
    for row, predicted in pairs:
        if row["what"] == "search":
            key = (row["gpu"], row["workload"], row["allocator"], row["memory_bytes"])
            best = found.setdefault(key, [0, 0])
            for at, one in enumerate((row, predicted)):
                if one["completed"]:
                    best[at] = max(best[at], row["size"])
    return sum(one == other for one, other in found.values()), len(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=1800, help="for all of it")
    parser.add_argument("--json", type=argparse.FileType("w"), help="where rows go")
    options = parser.parse_args()
    measured = rows()
    pairs = predict(measured, options.seconds, options.json)
    print("| allocator | on the GPU | rows | same outcome | reserved, % off | allocated, % off |")
    print("|---|---|---:|---:|---:|---:|")
    for allocator, name in ALLOCATORS.items():
        for completed in (True, False):
            some = [
                pair
                for pair in pairs
                if pair[0]["allocator"] == allocator and pair[0]["completed"] == completed
            ]
            same = sum(row["completed"] == predicted["completed"] for row, predicted in some)
            outcome = "completed" if completed else "ran out"
            sizes = [errors(some, f"peak_{key}_bytes") for key in ("reserved", "allocated")]
            print(f"| {name} | {outcome} | {len(some)} | {same} | {sizes[0]} | {sizes[1]} |")
    same, count = largest(pairs)
    versions = sorted({row["torch"] for row, _ in pairs})
    here = pairs[0][1]["torch"] if pairs else "none"
    there = ", ".join(versions)
    print(f"\nLargest sizes: {same} of {count}. PyTorch here {here}, on the GPUs {there}.")
    if len(pairs) < len(measured):
        print(f"{len(measured) - len(pairs)} of {len(measured)} rows were not run: --seconds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
