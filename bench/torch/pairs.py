#!/usr/bin/env python3
"""The CPU time of an allocation and its free in PyTorch, from C++ and from Python, under each
allocator: processes in turns, medians, and the ratios to PyTorch's own. No kernel runs, so that it
also measures over the simulated GPU:

    python -m libmend.simulate --memory=64GiB bench/torch/pairs.py
    bench/torch/pairs.py --rounds 9 --json pairs.jsonl

The rows "random" keep 500 live blocks, and replace a random one.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import harness

HERE = Path(__file__).resolve().parent
ALLOCATORS = ("native", "expandable", "mend")
MIB = 1 << 20
PAIRS = {"pair of 4 KiB": 4096, "pair of 1 MiB": MIB, "pair of 64 MiB": 64 * MIB}
RANDOM = {"random, 512 B to 1 MiB": (512, MIB), "random, 1 to 64 MiB": (MIB, 64 * MIB)}
LIVE = 500


def compile_pairs(folder: Path) -> Path:
    """pairs.cpp as a library, against the installed PyTorch."""
    import torch
    from libmend.torch import _build

    root = Path(torch.__file__).parent
    output = folder / "pairs.so"
    make = _build.command(_build.compiler(), _build.version_of(torch.__version__), output,
                          [root / "include", _build.SOURCE.parent], _build.cuda_headers_of(root),
                          [], root / "lib", torch.compiled_with_cxx11_abi(), HERE / "pairs.cpp")
    subprocess.run(make, check=True)
    return output


def from_cpp(library: Path, count: int, seed: int) -> dict[str, float]:
    """ns for each row, through c10."""
    pairs = ctypes.CDLL(str(library))
    pairs.pair_ns.argtypes = [ctypes.c_uint64, ctypes.c_int]
    pairs.random_ns.argtypes = [ctypes.c_uint64, ctypes.c_uint64] + 2 * [ctypes.c_int] + [
        ctypes.c_uint32]
    pairs.pair_ns.restype = pairs.random_ns.restype = ctypes.c_double
    rows = {name: pairs.pair_ns(size, count) for name, size in PAIRS.items()}
    for name, (least, most) in RANDOM.items():
        rows[name] = pairs.random_ns(least, most, LIVE, count, seed)
    return rows


def random_tensors(torch, least: int, most: int, count: int, seed: int) -> float:
    """Replaces tensors of random sizes, as pairs.cpp does."""
    chance = random.Random(seed)
    sizes = [chance.randint(least, most) for _ in range(LIVE + 2 * count)]
    places = [chance.randrange(LIVE) for _ in range(2 * count)]
    tensors = [torch.empty(sizes.pop(), dtype=torch.uint8, device="cuda") for _ in range(LIVE)]
    start = 0
    for index, place in enumerate(places):
        if index == count:
            start = time.thread_time_ns()
        tensors[place] = None
        tensors[place] = torch.empty(sizes.pop(), dtype=torch.uint8, device="cuda")
    return (time.thread_time_ns() - start) / count


def from_python(torch, count: int, seed: int) -> dict[str, float]:
    """ns for each row, by tensors."""
    rows = {}
    for name, size in PAIRS.items():
        torch.empty(size, dtype=torch.uint8, device="cuda")
        start = time.thread_time_ns()
        for _ in range(count):
            torch.empty(size, dtype=torch.uint8, device="cuda")
        rows[name] = (time.thread_time_ns() - start) / count
    for name, (least, most) in RANDOM.items():
        rows[name] = random_tensors(torch, least, most, count, seed)
    return rows


def measure_one(arguments: argparse.Namespace) -> None:
    """In a process of its own, under the allocator of the environment."""
    harness.choose_allocator()
    import torch

    torch.cuda.init()
    rows = {"C++, " + name: ns for name, ns in
            from_cpp(arguments.library, arguments.count, arguments.seed).items()}
    rows.update({"Python, " + name: ns for name, ns in
                 from_python(torch, arguments.count, arguments.seed).items()})
    print(json.dumps(rows))


def measure(arguments: argparse.Namespace, library: Path) -> list[dict]:
    """One row of each allocator for each round."""
    rows = []
    for turn in range(arguments.rounds):
        for allocator in ALLOCATORS:
            done = subprocess.run(
                [sys.executable, str(HERE / "pairs.py"), "--library", str(library),
                 "--count", str(arguments.count), "--seed", str(turn)],
                env={**os.environ, "MEND_BENCH_ALLOCATOR": allocator},
                stdout=subprocess.PIPE, text=True, check=True)
            rows.append({"allocator": allocator, "round": turn,
                         "ns": json.loads(done.stdout.splitlines()[-1])})
    return rows


def table(rows: list[dict]) -> str:
    """Medians of the rounds, and of the ratios within a round."""
    lines = ["| CPU ns | " + " | ".join(ALLOCATORS) + " | mend/native | mend/expandable |",
             "|---" * (len(ALLOCATORS) + 3) + "|"]
    ns = {(row["allocator"], row["round"]): row["ns"] for row in rows}
    rounds = sorted({row["round"] for row in rows})
    for name in rows[0]["ns"]:
        values = [statistics.median(ns[allocator, turn][name] for turn in rounds)
                  for allocator in ALLOCATORS]
        ratios = [statistics.median(ns["mend", turn][name] / ns[peer, turn][name]
                                    for turn in rounds) for peer in ("native", "expandable")]
        cells = [f"{value:.0f}" for value in values] + [f"{ratio:.2f}" for ratio in ratios]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="keeps every row there")
    parser.add_argument("--library", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.library:
        measure_one(arguments)
        return 0
    folder = Path(tempfile.mkdtemp())
    try:
        rows = measure(arguments, compile_pairs(folder))
    finally:
        shutil.rmtree(folder)
    if arguments.json:
        arguments.json.write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
