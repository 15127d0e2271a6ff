"""PyTorch's own allocators over the simulated device replay recorded programs, beside the models
of them that `mend replay` has; so does Mend inside of PyTorch, beside Mend alone. They must reserve
the same, and run out of memory at the same event.

Run by real.py, by way of `python -m mend.simulate`. MEND_TEST_RECORDINGS names what is replayed.
"""

import csv
import ctypes
import gzip
import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

import children
import torch

RECORDINGS = [Path(name) for name in os.environ["MEND_TEST_RECORDINGS"].split(os.pathsep)]
PROGRAM = os.environ["MEND_TEST_PROGRAM"]

# By policy of `mend replay`: PyTorch's settings.
POLICIES = {
    "caching": "expandable_segments:False",
    "expandable": "expandable_segments:True",
    "mend": "",
}
# As `mend replay`: a row is a tick of the clock; a block is in use for so many after its free.
TICK_NS = 1000
LAG_ROWS = 64
# The smallest step of the capacities that `mend replay` searches.
STEP = 0.002
UNLIMITED_BYTES = 1 << 40
# Among blocks of one size the lower address wins, so a run near the limit goes by chance: these do,
# where PyTorch is later than the version that the model was checked with.
BY_CHANCE = {("fsdp-llama-2stream", "caching")}
CHECKED_VERSION = (2, 8)


class Work(ctypes.Structure):
    """mend_sim_work: a touch of a range until `finish_ns`."""

    _fields_ = (
        ("kind", ctypes.c_int),
        ("address", ctypes.c_uint64),
        ("size_bytes", ctypes.c_uint64),
        ("tag", ctypes.c_uint64),
        ("finish_ns", ctypes.c_uint64),
    )


def version_of(package):
    return tuple(int(part) for part in package.__version__.split(".")[:2])


def rows_of(recording):
    """(is it an allocation, block, size, stream) for each row."""
    with gzip.open(recording, "rt", encoding="ascii", newline="") as file:
        return [
            (row["Action"] == "allocate", row["Pointer"], int(row["Size"]), row["Stream"])
            for row in csv.DictReader(file)
            if row["Action"] != "allocate failure"
        ]


def replay(rows, policy):
    """Makes the calls of a recording. Returns {"failed_at_event": ..., "peak_reserved_bytes": ...}
    and what rule of the driver was broken first."""
    import mend.torch
    from mend import _library, _standin

    if policy == "mend":
        mend.torch.enable()
    torch.cuda.init()
    simulation = _library.load("mend_sim")
    simulation.mend_sim_now_ns.restype = ctypes.c_uint64
    simulation.mend_sim_first_violation.restype = ctypes.c_char_p
    device = ctypes.c_void_p(_standin.device())
    streams = {"0": 0}
    blocks = {}
    alloc = torch._C._cuda_cudaCachingAllocator_raw_alloc
    free = torch._C._cuda_cudaCachingAllocator_raw_delete
    failed_at = None
    tick = ctypes.c_uint64(TICK_NS)
    for event, (is_alloc, block, size, stream) in enumerate(rows):
        simulation.mend_sim_advance(device, tick)
        if is_alloc and size == 0 or not is_alloc and block not in blocks:
            continue  # no allocator is called for a block of 0 bytes
        if stream not in streams:
            streams[stream] = torch.cuda.Stream()
        handle = getattr(streams[stream], "cuda_stream", 0)
        if is_alloc:
            try:
                blocks[block] = alloc(size, handle), size
            except torch.OutOfMemoryError:
                failed_at = event
                break
        else:
            address, size = blocks.pop(block)
            finish_ns = simulation.mend_sim_now_ns(device) + LAG_ROWS * TICK_NS
            work = Work(0, address, (size + 511) // 512 * 512, 0, finish_ns)
            if simulation.mend_sim_launch(device, ctypes.c_void_p(handle), ctypes.byref(work)):
                raise RuntimeError("the work that used a block could not be queued")
            free(address)
    return {
        "failed_at_event": failed_at,
        "peak_reserved_bytes": torch.cuda.max_memory_reserved(),
        "violation": simulation.mend_sim_first_violation(device).decode(),
    }


def replay_in_child(rows, policy, memory_bytes):
    """The same in a process of its own, on a device of this size. None: it ended early."""

    def work():
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = POLICIES[policy]
        os.environ["MEND_SIMULATE_MEMORY"] = str(memory_bytes)
        return replay(rows, policy)

    done = children.run(work)
    if done.answer is None:
        print(done.log, file=sys.stderr)
    return done.answer


def models_of(recording, capacities, policies=POLICIES):
    """What `mend replay` says, by policy and capacity, in the order they were asked for."""
    kept = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    done = subprocess.run(
        [PROGRAM, "replay", "--json", "--policy", ",".join(policies)]
        + ["--capacity", ",".join(capacities), str(recording)],
        env=kept,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {policy: [row for row in rows if row["policy"] == policy] for policy in policies}


class Replay(unittest.TestCase):
    def agree(self, rows, policy, model):
        memory_bytes = model["capacity_bytes"] or UNLIMITED_BYTES
        real = replay_in_child(rows, policy, memory_bytes)
        self.assertIsNotNone(real, "the replay ended early")
        self.assertEqual(real["violation"], "")
        what = f"{policy}, {memory_bytes} bytes"
        self.assertEqual(real["failed_at_event"], model["failed_at_event"], what)
        if model["completed"]:
            self.assertEqual(real["peak_reserved_bytes"], model["peak_reserved_bytes"], what)


def add_test(recording):
    def test(self):
        rows = rows_of(recording)
        for policy, (unlimited, fit) in models_of(recording, ["unlimited", "fit"]).items():
            with self.subTest(policy=policy):
                self.agree(rows, policy, unlimited)
                if (name, policy) in BY_CHANCE and version_of(torch) > CHECKED_VERSION:
                    continue
                self.agree(rows, policy, fit)
                less = f"{fit['fit_factor'] - STEP:.3f}x"
                below = models_of(recording, [less], [policy])[policy][0]
                self.assertFalse(below["completed"])
                self.agree(rows, policy, below)
                print(f"{recording.name}: {policy}: fit factor {fit['fit_factor']:.3f}", flush=True)

    name = recording.name.partition(".")[0]
    setattr(Replay, f"test_{name.replace('-', '_')}_as_modelled", test)


for path in RECORDINGS:
    add_test(path)

if __name__ == "__main__":
    unittest.main()
