#!/usr/bin/env python3
"""bench/recorder, under PyTorch: the same seed gives the same bytes, with streams and private
pools.

Usage: recorder_check.py FOLDER_OF_BENCH
"""
import os
import random
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(sys.argv.pop(), "recorder"))
import packing  # noqa: E402
import recorder as recording  # noqa: E402
from graphs import MIB, PrivatePool  # noqa: E402
from layers import Block, adam, empty  # noqa: E402
from notebook import notebook_retries  # noqa: E402
from programs import ALL  # noqa: E402
from scenes import gnn_sampled  # noqa: E402
from tables import growing_tables  # noqa: E402
from video import VideoDecoder  # noqa: E402


def small_training(recorder, seed):
    chance = random.Random(seed)
    block = Block(64, 4, dtype=empty(1).dtype)
    optimizer = adam(block.parameters())
    for _ in range(3):
        block(empty(chance.randint(1, 8), chance.randint(16, 64), 64)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return block, optimizer


def decode(recorder, seed):
    return VideoDecoder()(empty(1, 16, 2 + seed, 8, 8))


PROGRAMS = {
    "training": small_training,
    "decoding": decode,
    "graph network": lambda recorder, seed: gnn_sampled(recorder, seed, steps=2),
    "tables": lambda recorder, seed: growing_tables(recorder, seed, steps=2, batch=64),
    "notebook": lambda recorder, seed: notebook_retries(recorder, seed, cells=4),
}


class Recorder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "recording.csv.gz")

    def bytes_of(self, program, seed):
        recording.record(program, seed, self.path)
        with open(self.path, "rb") as file:
            return file.read()

    def events_of(self, program):
        recording.record(program, 1, self.path)
        return list(packing.read(self.path))

    def test_the_same_seed_gives_the_same_bytes_and_another_one_does_not(self):
        for name, program in PROGRAMS.items():
            with self.subTest(name):
                first = self.bytes_of(program, 1)
                self.assertEqual(self.bytes_of(program, 1), first)
                self.assertNotEqual(self.bytes_of(program, 2), first)

    def test_a_block_has_its_stream_and_its_free_the_last_one_that_used_it(self):
        def program(recorder, seed):
            with recorder.on_stream(3):
                x = empty(1000)
            recorder.record_stream(x, 5)

        self.assertEqual(self.events_of(program),
                         [(True, "0", 2048, "3"), (False, "0", 0, "5")])

    def test_of_a_private_pool_the_recording_has_the_segments_alone(self):
        def program(recorder, seed):
            pool = PrivatePool(recorder)
            with recorder.from_pool(pool):
                for _ in range(3):
                    x = empty(1000)  # its place is used again, and so is its neighbor
                    y = empty(2, MIB)
            with recorder.from_pool(pool):
                z = empty(9, MIB)  # larger than what is left
            return x, y, z

        self.assertEqual([event[:3] for event in self.events_of(program)],
                         [(True, "0", 2 * MIB), (True, "1", 20 * MIB), (True, "2", 18 * MIB)])

    def test_each_program_says_what_it_is(self):
        self.assertEqual([name for name, program in ALL.items() if not program.__doc__], [])


if __name__ == "__main__":
    unittest.main()
