#!/usr/bin/env python3
"""bench/traces and bench/recorder/packing.py: the README's table, the halves, and the packing.

Usage: recordings_test.py FOLDER_OF_BENCH
"""
import os
import re
import sys
import tempfile
import unittest
from pathlib import Path

BENCH = sys.argv.pop()
TRACES = os.path.join(BENCH, "traces")
sys.path.insert(0, os.path.join(BENCH, "recorder"))
import packing  # noqa: E402

ROW = re.compile(r"\| `(.+)\.csv\.gz` \| .+ \| ([\d,]+) \| ([\d.]+) GiB \| (\d+) \|")


def recordings():
    return {name.removesuffix(".csv.gz") for name in os.listdir(TRACES) if name.endswith(".gz")}


def path_of(name):
    return os.path.join(TRACES, f"{name}.csv.gz")


def described():
    """Name: (events, peak live in GiB, streams), as the README says."""
    with open(os.path.join(TRACES, "README.md"), encoding="utf-8") as file:
        rows = [ROW.match(line) for line in file]
    return {row[1]: (int(row[2].replace(",", "")), row[3], int(row[4])) for row in rows if row}


def measured(path):
    """The same, of a file. Sizes are multiples of 512 B."""
    live, now, peak, count, streams = {}, 0, 0, 0, set()
    for is_allocation, name, size, stream in packing.read(path):
        count += 1
        streams.add(stream)
        if is_allocation:
            live[name] = size
            now += size
            peak = max(peak, now)
        else:
            now -= live.pop(name)
    return count, f"{peak / 2 ** 30:.2f}", len(streams)


class Recordings(unittest.TestCase):
    def test_the_readme_has_each_with_its_figures(self):
        said = described()
        self.assertEqual(set(said), recordings())
        for name in sorted(said):
            with self.subTest(name):
                self.assertEqual(measured(path_of(name)), said[name])

    def test_each_is_in_one_half(self):
        with open(os.path.join(BENCH, "workloads.txt"), encoding="utf-8") as file:
            rows = [line.split() for line in file if not line.startswith(("#", "stress:"))]
        self.assertEqual(sorted(name for name, _ in rows), sorted(recordings()))
        halves = [half for _, half in rows]
        self.assertEqual(set(halves), {"judge", "tune"})
        self.assertLessEqual(abs(halves.count("tune") - halves.count("judge")), 1)


class Packing(unittest.TestCase):
    def test_a_packed_recording_packed_again_has_the_same_rows(self):
        events = list(packing.read(path_of("fsdp-llama-2stream")))
        again = [line.strip().split(",") for line in packing.packed_rows(events)]
        self.assertEqual([(row[2] == "allocate", row[3], int(row[4]), row[5]) for row in again],
                         events)

    def test_the_same_events_give_the_same_bytes(self):
        events = [(True, "a", 512, 0), (True, "b", 1024, 1), (False, "a", 512, 2)]
        with tempfile.TemporaryDirectory() as folder:
            written = []
            for name in ("one.gz", "two.gz"):
                path = Path(folder) / name
                packing.write(path, events)
                written.append(path.read_bytes())
            self.assertEqual(written[0], written[1])
            self.assertEqual(list(packing.read(path)), [
                (True, "0", 512, "0"), (True, "1", 1024, "1"), (False, "0", 0, "2")])


if __name__ == "__main__":
    unittest.main()
