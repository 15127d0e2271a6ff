#!/usr/bin/env python3
"""How close the simulated GPU comes to results of PyTorch's allocators on GPUs. Runs each row of
bench/results/*/torch-*.jsonl again, with its own size, steps and limit. `./run fit-accuracy`.

Left out are rows of a GPU that neighbours had filled, by device_used_bytes, and vision, which needs
cuDNN. A row that held 97 % of its own limit or more counts for its outcome alone. Mend's rows are
of earlier policies than this tree's, which adds to their error.

    bench/torch/fit_accuracy.py [--seconds 600] [--at-once 2] [--peers 900] [--json ROWS]
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

from libmend.fit import _answer, _cards

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results"
ALLOCATORS = {"expandable": "expandable segments", "native": "default", "mend": "Mend"}
NEEDS_CUDNN = ("vision",)
GIB = 1 << 30
FULL = 0.97


def total_of(folder: Path) -> int:
    """The memory of the GPU that a folder of results is of."""
    words = re.search(r"memory +([\d.]+) GiB", (folder / "device.txt").read_text())
    return int(float(words[1]) * GIB)


def rows() -> list[dict]:
    """The measured rows, with the GPU's memory, and the steps that were to be made."""
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


class Work:
    """Rows that threads take one by one, and their predictions: equal rows once."""

    def __init__(self, measured: list[dict], seconds: int, out) -> None:
        keys = ("allocator", "total", "workload", "size", "asked", "memory_bytes")
        self.alike: dict[tuple, list[dict]] = collections.defaultdict(list)
        for row in measured:
            self.alike[tuple(row[key] for key in keys)].append(row)
        self.left = list(reversed(self.alike))
        self.end = time.monotonic() + seconds
        self.out, self.lock = out, threading.Lock()
        self.pairs: list[tuple[dict, dict]] = []

    def take(self) -> tuple | None:
        with self.lock:
            return self.left.pop() if self.left and time.monotonic() < self.end else None

    def keep(self, key: tuple, predicted: dict) -> None:
        with self.lock:
            if "completed" not in predicted:
                print(f"no answer for {key}", file=sys.stderr)
                return
            for row in self.alike[key]:
                self.pairs.append((row, predicted))
                if self.out:
                    line = json.dumps({"measured": row, "predicted": predicted})
                    print(line, file=self.out, flush=True)

    def serve(self) -> None:
        """A thread's share, with a server for each allocator and GPU."""
        servers: dict = {}
        while key := self.take():
            if key[:2] not in servers:
                servers[key[:2]] = Server(*key[:2])
            self.keep(key, servers[key[:2]].run(self.alike[key][0]))
        for server in servers.values():
            server.process.stdin.close()
            server.process.wait()


def predict(measured: list[dict], seconds: int, at_once: int, out) -> list[tuple[dict, dict]]:
    """The rows that were run within the time, and the simulation's results."""
    work = Work(measured, seconds, out)
    threads = [threading.Thread(target=work.serve) for _ in range(at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return work.pairs


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


def peers(pairs: list[tuple[dict, dict]], seconds: int, at_once: int) -> dict[tuple, dict]:
    """Results of other tools for the same programs, by workload and size."""
    end = time.monotonic() + seconds

    def ask(key: tuple) -> dict:
        program = [str(HERE / "peers.py"), *map(str, key)]
        command = ["-m", "libmend.simulate", "--memory=140GiB", *program]
        left = end - time.monotonic()
        if left <= 0:
            return {}
        try:
            done = subprocess.run([sys.executable, "-B", *command], capture_output=True, text=True,
                                  timeout=left, check=False)  # fmt: skip
        except subprocess.TimeoutExpired:
            return {}
        return next((json.loads(l) for l in done.stdout.splitlines() if l.startswith("{")), {})

    keys = sorted({(row["workload"], row["size"]) for row, _ in pairs})
    with ThreadPoolExecutor(at_once) as threads:
        return dict(zip(keys, threads.map(ask, keys)))


def print_peers(pairs: list[tuple[dict, dict]], said: dict[tuple, dict]) -> None:
    """Beside PyTorch's default on the GPUs: held memory, and the largest sizes."""
    print("\n| who | rows answered | held, % off: median, worst | largest sizes |")
    print("|---|---:|---:|---:|")
    pairs = [pair for pair in pairs if pair[0]["allocator"] == "native"]
    names = ("libmend fit", "MemTracker", "accelerate's rule", "DeepSpeed's rule")
    for name in names:
        mine = []
        for row, predicted in pairs:
            held = said[row["workload"], row["size"]].get(name)
            if name == names[0]:
                mine.append((row, predicted))
            elif held is not None:
                outcome = {"completed": held <= row["memory_bytes"]}
                mine.append((row, {**outcome, "peak_reserved_bytes": held}))
        same, count = largest(mine)
        done = [pair for pair in mine if pair[0]["completed"]]
        off = [
            (other["peak_reserved_bytes"] / row["peak_reserved_bytes"] - 1) * 100
            for row, other in done
            if row["peak_reserved_bytes"] < FULL * row["memory_bytes"]
        ]
        middle = f"{statistics.median(off):+.1f}, {max(off, key=abs):+.1f}" if off else "none"
        print(f"| {name} | {len(mine)} of {len(pairs)} | {middle} | {same} of {count} |")


def judged(row: dict, predicted: dict, total: int, card) -> str:
    """The verdict of `libmend fit` on a device with so much memory. The predicted run answers for
    runs with its held memory or more, and for runs with less than it used."""

    def limited(memory: int):
        if predicted["peak_allocated_bytes"] <= memory < predicted["peak_reserved_bytes"]:
            raise LookupError("only a run can say")
        return SimpleNamespace(completes=memory >= predicted["peak_reserved_bytes"], ooms=[])

    free = SimpleNamespace(
        reserved_bytes=predicted["peak_reserved_bytes"],
        allocated_bytes=predicted["peak_allocated_bytes"],
        unknown=(),
    )
    allocator = row["allocator"].replace("native", "default")
    try:
        return _answer.judge(total, allocator, card, free, limited).what
    except LookupError:
        return "not judged"


def verdicts(pairs: list[tuple[dict, dict]]) -> None:
    """Of devices around the limit of each program that completed on a GPU and waited for no memory.
    It completes with the memory that it held there, and cannot with less than it used."""
    found = {completes: collections.Counter() for completes in (True, False)}
    programs = {}
    for row, predicted in pairs:
        if row["allocator"] != "mend" and row["completed"] and predicted["completed"]:
            if not row["num_alloc_retries"] and not predicted["num_alloc_retries"]:
                keys = ("gpu", "workload", "allocator", "size", "asked")
                programs[tuple(row[key] for key in keys)] = row, predicted
    for row, predicted in programs.values():
        card = _cards.find(row["gpu"].rpartition("-")[2])
        for percent in (1, 2.5, 5, 7.5, 10):
            for beside in (card.least_beside_bytes, card.most_beside_bytes):
                for completes, size in (
                    (True, row["peak_reserved_bytes"] * (1 + percent / 100)),
                    (False, row["peak_allocated_bytes"] * (1 - percent / 100)),
                ):
                    total = int(size) + beside
                    found[completes][judged(row, predicted, total, card)] += 1
    print(f"\n| devices of 1 to 10 % more or less, {len(programs)} programs | fits | not sure |"
          " does not fit | not judged |\n|---|---:|---:|---:|---:|")  # fmt: skip
    for completes, count in found.items():
        cells = [str(count[what]) for what in ("fits", "not sure", "does not fit", "not judged")]
        name = "more than it held" if completes else "less than it used"
        print(f"| {name} | {' | '.join(cells)} |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=1800, help="for all of it")
    parser.add_argument("--at-once", type=int, default=2, help="runs")
    parser.add_argument("--peers", type=int, metavar="SECONDS", help="what others say, too")
    parser.add_argument("--known", type=Path, metavar="ROWS", help="of --json: run no row again")
    parser.add_argument("--json", type=argparse.FileType("w"), help="where rows go")
    options = parser.parse_args()
    measured = rows()
    if options.known:
        lines = map(json.loads, options.known.read_text().splitlines())
        pairs = [(line["measured"], line["predicted"]) for line in lines]
    else:
        pairs = predict(measured, options.seconds, options.at_once, options.json)
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
    verdicts(pairs)
    if options.peers:
        print_peers(pairs, peers(pairs, options.peers, options.at_once))
    if len(pairs) < len(measured):
        print(f"{len(measured) - len(pairs)} of {len(measured)} rows were not run: --seconds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
