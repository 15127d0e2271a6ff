"""PyTorch's own allocators over the simulated device replay recorded programs, beside the models of
them that `libmend replay` has. So does Mend inside of PyTorch, beside Mend alone. They must reserve
the same, and run out of memory at the same event.

Run by real.py, by way of `python -m libmend.simulate`. MEND_TEST_RECORDINGS names the recordings.
"""

import csv
import ctypes
import gzip
import json
import math
import os
import sys
import typing
import unittest
from pathlib import Path

import children
import torch
from programs import finished

RECORDINGS = [Path(name) for name in os.environ["MEND_TEST_RECORDINGS"].split(os.pathsep)]
PROGRAM = os.environ["MEND_TEST_PROGRAM"]


def version_of(package):
    return tuple(int(part) for part in package.__version__.split(".")[:2])


# The model of this version: since 2.13, of free blocks of one size PyTorch takes that in the older
# segment, before it the lower one.
CACHING = "caching:2.13" if version_of(torch) >= (2, 13) else "caching"
COLLECTING = f"{CACHING}:gc80"
# By policy of `libmend replay`: PyTorch's settings.
POLICIES = {
    CACHING: "expandable_segments:False",
    "expandable": "expandable_segments:True",
    "mend:torch": "",
    f"{CACHING}:split128": "max_split_size_mb:128",
    COLLECTING: "garbage_collection_threshold:0.8",
}
# The search of the fit factor would take hours, as their peaks are high: these capacities instead.
WITHOUT_FIT = (f"{CACHING}:split128", COLLECTING)
CAPACITIES = ["unlimited", "1.10x", "1.02x"]
# PyTorch collects only where a program may have less than the device, which is larger by this.
BEYOND_BYTES = 1 << 30
# As `libmend replay`: a row is a tick of the clock. A block is in use for so many after its free.
# Each time PyTorch asks for an event that has not come, the stub's clock goes on by a microsecond:
# a tick is far longer than all such questions of a row.
TICK_NS = 1_000_000
LAG_ROWS = 64
# The smallest step of the capacities that `libmend replay` searches.
STEP = 0.002
# A device without a limit, as `libmend replay` has it: so many times the peak of live bytes, and at
# least so many bytes.
UNLIMITED_TIMES = 64
UNLIMITED_BYTES = 1 << 40
GRANULE_BYTES = 512


class Row(typing.NamedTuple):
    is_alloc: bool
    block: str
    size: int
    stream: str


def granules(size):
    """The bytes that a block of this size takes."""
    return (size + GRANULE_BYTES - 1) // GRANULE_BYTES * GRANULE_BYTES


class Recording:
    """The events of a recorded program."""

    def __init__(self, path):
        with gzip.open(path, "rt", encoding="ascii", newline="") as file:
            self.rows = [
                Row(row["Action"] == "allocate", row["Pointer"], int(row["Size"]), row["Stream"])
                for row in csv.DictReader(file)
                if row["Action"] != "allocate failure"
            ]
        self.peak_live_bytes = 0
        self.freed_elsewhere = set()  # numbers of rows: their blocks are freed on another stream
        live = {}
        live_bytes = 0
        for event, row in enumerate(self.rows):
            if row.is_alloc:
                live[row.block] = event
                live_bytes += granules(row.size)
                self.peak_live_bytes = max(self.peak_live_bytes, live_bytes)
            elif row.block in live:
                began = live.pop(row.block)
                live_bytes -= granules(self.rows[began].size)
                if self.rows[began].stream != row.stream:
                    self.freed_elsewhere.add(began)

    def unlimited_bytes(self, policy):
        """Mend's chunks depend on its limit. PyTorch's own allocators need less, but expandable
        segments reserve more than this of addresses for each stream."""
        if policy != "mend:torch":
            return UNLIMITED_BYTES
        return max(UNLIMITED_BYTES, UNLIMITED_TIMES * self.peak_live_bytes)


class RawBlock:
    """A block without a tensor, which costs least."""

    def __init__(self, size, stream):
        handle = getattr(stream, "cuda_stream", 0)
        self.address = torch._C._cuda_cudaCachingAllocator_raw_alloc(size, handle)
        self.size = size

    def free(self, stream):
        torch._C._cuda_cudaCachingAllocator_raw_delete(self.address)


class SharedBlock:
    """A block that another stream uses last, and that is freed behind this use."""

    def __init__(self, size, stream):
        self.stream = stream
        with torch.cuda.stream(stream):
            self.tensor = torch.empty((size,), dtype=torch.uint8, device="cuda")
        self.address = self.tensor.data_ptr()
        self.size = size

    def hand_to(self, stream):
        stream.wait_stream(self.stream)

    def free(self, stream):
        self.tensor.record_stream(stream)
        del self.tensor


def replay(recording, policy, fraction):
    """Makes the calls of a recording, with this fraction of the device. Returns {"failed_at_event":
    ..., "peak_reserved_bytes": ...} and the first broken rule of the driver."""
    import libmend.torch

    if policy == "mend:torch":
        libmend.torch.enable()
    torch.cuda.init()
    if fraction < 1:
        torch.cuda.set_per_process_memory_fraction(fraction)
    device = libmend.simulate()
    device._library.mend_sim_now_ns.restype = ctypes.c_uint64

    def now_ns():
        return device._library.mend_sim_now_ns(device._sim)

    streams = {"0": torch.cuda.default_stream()}
    blocks = {}
    failed_at = None
    start_ns = now_ns()
    for event, row in enumerate(recording.rows):
        device.advance(TICK_NS - (now_ns() - start_ns) % TICK_NS)  # a wait on the host ends at one
        if row.is_alloc and row.size == 0 or not row.is_alloc and row.block not in blocks:
            continue  # no allocator is called for a block of 0 bytes
        if row.stream not in streams:
            streams[row.stream] = torch.cuda.Stream()
        stream = streams[row.stream]
        if row.is_alloc:
            kind = SharedBlock if event in recording.freed_elsewhere else RawBlock
            try:
                blocks[row.block] = kind(row.size, stream)
            except torch.OutOfMemoryError:
                failed_at = event
                break
        else:
            block = blocks.pop(row.block)
            if isinstance(block, SharedBlock):
                block.hand_to(stream)
            finish_ns = now_ns() + LAG_ROWS * TICK_NS
            device.launch(stream.cuda_stream, block.address, granules(block.size), finish_ns)
            block.free(stream)
    return {
        "failed_at_event": failed_at,
        "peak_reserved_bytes": torch.cuda.max_memory_reserved(),
        "violation": device.first_violation,
    }


def replay_in_child(recording, policy, memory_bytes):
    """The same in a process of its own, which may have so much memory. None: it ended early."""
    device_bytes = memory_bytes + BEYOND_BYTES * (policy == COLLECTING)
    fraction = math.nextafter(memory_bytes / device_bytes, 1)
    assert int(fraction * device_bytes) == memory_bytes  # as PyTorch takes it

    def work():
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = POLICIES[policy]
        os.environ["MEND_SIMULATE_MEMORY"] = str(device_bytes)
        return replay(recording, policy, fraction)

    done = children.run(work)
    if done.answer is None:
        print(done.log, file=sys.stderr)
    return done.answer


def models_of(recording, capacities, policies=POLICIES):
    """The results of `libmend replay`, by policy and capacity, in the given order."""
    kept = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    command = [PROGRAM, "replay", "--json", "--allocator", ",".join(policies)]
    done = finished([*command, "--capacity", ",".join(capacities), str(recording)], kept)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {policy: [row for row in rows if row["policy"] == policy] for policy in policies}


class Replay(unittest.TestCase):
    def agree(self, recording, policy, model):
        memory_bytes = model["capacity_bytes"] or recording.unlimited_bytes(policy)
        real = replay_in_child(recording, policy, memory_bytes)
        self.assertIsNotNone(real, "the replay ended early")
        self.assertEqual(real["violation"], "")
        what = f"{policy}, {memory_bytes} bytes"
        self.assertEqual(real["failed_at_event"], model["failed_at_event"], what)
        if model["completed"]:
            self.assertEqual(real["peak_reserved_bytes"], model["peak_reserved_bytes"], what)


def add_test(path):
    def test_settings(self):
        recording = Recording(path)
        for policy, models in models_of(path, CAPACITIES, WITHOUT_FIT).items():
            with self.subTest(policy=policy):
                for model in models:
                    self.agree(recording, policy, model)
                done = [at for at, model in zip(CAPACITIES, models) if model["completed"]]
                print(f"{path.name}: {policy}: completes at {', '.join(done)}", flush=True)

    def test(self):
        recording = Recording(path)
        with_fit = [policy for policy in POLICIES if policy not in WITHOUT_FIT]
        models = models_of(path, ["unlimited", "fit"], with_fit)
        for policy, (unlimited, fit) in models.items():
            with self.subTest(policy=policy):
                self.agree(recording, policy, unlimited)
                self.agree(recording, policy, fit)
                less = f"{fit['fit_factor'] - STEP:.3f}x"
                below = models_of(path, [less], [policy])[policy][0]
                self.assertFalse(below["completed"])
                self.agree(recording, policy, below)
                print(f"{path.name}: {policy}: fit factor {fit['fit_factor']:.3f}", flush=True)

    name = path.name.partition(".")[0]
    identifier = name.replace("-", "_")
    setattr(Replay, f"test_{identifier}_as_modelled", test)
    setattr(Replay, f"test_{identifier}_with_settings_as_modelled", test_settings)


for path in RECORDINGS:
    add_test(path)
