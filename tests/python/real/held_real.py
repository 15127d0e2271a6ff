"""PyTorch's own allocators and Mend run the programs of bench/held over the simulated device: Mend
holds the least, does not wait, and completes. The table of docs/sleep.md has their output.
"""

import os
import re
import sys
import unittest
from pathlib import Path

import torch
from programs import finished

ROOT = Path(__file__).resolve().parents[3]
HELD = ROOT / "bench" / "held"
SETTINGS = (
    {},
    {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    {"MEND_TORCH": "1"},
)
LINE = re.compile(r"in use at most ([\d,]+) MiB, held at most ([\d,]+) MiB, host waits (\d+)")
OUT_OF_MEMORY = "OutOfMemoryError"
SLEEP = (ROOT / "docs" / "sleep.md").read_text(encoding="utf-8")
TURNS = re.compile(r"([\d,]+) calls, ([\d,]+) creations, ([\d,]+ MiB) held after a wake")


def done_by(program, memory, setting, *arguments):
    kept = {name: value for name, value in os.environ.items() if "ALLOC_CONF" not in name}
    simulated = [sys.executable, "-m", "libmend.simulate", f"--memory={memory}"]
    return finished([*simulated, HELD / program, *arguments], {**kept, **setting})


def run(program, memory, setting):
    """MiB in use, MiB held, waits. None: out of memory."""
    done = done_by(program, memory, setting)
    found = LINE.search(done.stdout)
    if found is None and OUT_OF_MEMORY in done.stderr:
        return None
    assert found and done.returncode == 0, done.stderr
    return tuple(int(figure.replace(",", "")) for figure in found.groups())


def runs(program, memory):
    return [run(program, memory, setting) for setting in SETTINGS]


class Held(unittest.TestCase):
    def test_memory_held(self):
        held = [most for _, most, _ in runs("streams.py", "24GiB")]
        self.assertEqual(held[2], min(held))

    def test_host_waits(self):
        self.assertEqual([count for _, _, count in runs("streams.py", "8GiB")][2], 0)

    def test_the_least_memory(self):
        self.assertIsNotNone(run("streams.py", "3600MiB", SETTINGS[2]))

    def test_one_stream(self):
        default, expandable, mend = (most for _, most, _ in runs("train.py", "24GiB"))
        self.assertLess(mend, default)
        self.assertLess(mend, 1.02 * expandable)

    def test_an_engine_and_a_trainer_in_turns(self):
        """The table of docs/sleep.md. With another PyTorch its own figures may be others."""
        found = []
        larger = {**SETTINGS[2], "MEND_CONF": "strategy:2"}
        for setting, *arguments in (*zip(SETTINGS[1:]), (larger,), (SETTINGS[2], "all")):
            done = done_by("turns.py", "8GiB", setting, *arguments)
            found.append(TURNS.search(done.stdout))
            self.assertTrue(found[-1], done.stderr)
        calls = [int(line[1].replace(",", "")) for line in found]
        self.assertLess(max(calls[1:]), 1.2 * calls[0])
        said = [f"| {' | '.join(line.groups())} |" for line in found]
        table = SLEEP.partition("PyTorch 2.15's expandable segments")[2].splitlines()
        is_of_the_table = torch.__version__.startswith("2.15.")
        for figures, row in list(zip(said, table))[0 if is_of_the_table else 1 :]:
            self.assertIn(figures, row)
