#!/usr/bin/env python3
"""How much of the second half of each recording repeats its first half.

    bench/ablate/repeats.py [RECORDING.csv.gz ...]

Prints the part of the stretches of 200 requests in the second half that occur in the first half
with exactly these sizes in this order: what a plan recorded from one step could serve.
"""
import csv
import glob
import gzip
import os
import sys

STRETCH = 200
TRACES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "traces")


def read_sizes(path):
    with gzip.open(path, "rt") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return [row["Size"] for row in rows if row["Action"] == "allocate"]


def repeated_part(sizes):
    half = len(sizes) // 2
    known = {hash(tuple(sizes[at:at + STRETCH])) for at in range(half - STRETCH + 1)}
    starts = range(half, len(sizes) - STRETCH + 1, STRETCH // 4)
    hits = sum(hash(tuple(sizes[at:at + STRETCH])) in known for at in starts)
    return hits / len(starts) if starts else 0.0


def main():
    for path in sys.argv[1:] or sorted(glob.glob(os.path.join(TRACES, "*.csv.gz"))):
        sizes = read_sizes(path)
        print(f"{os.path.basename(path).split('.')[0]:24} {repeated_part(sizes):.2f} "
              f"of {len(sizes)} requests")


if __name__ == "__main__":
    sys.exit(main())
