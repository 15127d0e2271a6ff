#!/usr/bin/env python3
"""Small programs of PyTorch that show one thing each, under the allocator of MEND_BENCH_ALLOCATOR.
A line of JSON for each result. Exit status 1 after wrong bytes.

    MEND_BENCH_ALLOCATOR=mend bench/torch/small.py fuzz --seed 1 --seconds 25 --limit 4GiB
    MEND_BENCH_ALLOCATOR=mend bench/torch/small.py near     # host time of a pair near a limit
    MEND_BENCH_ALLOCATOR=mend bench/torch/small.py held --limit 8GiB   # four streams in turn
    MEND_BENCH_ALLOCATOR=mend bench/torch/small.py sleep    # 8 GiB of weights, 24 GiB of cache
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import random
import time

import harness
from run import bytes_of

MIB = 1 << 20


class Program:
    """Shared parts of the programs."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.allocator = harness.choose_allocator()
        self.place = harness.Place(is_dry=False)
        self.torch = self.place.torch
        self.place.limit(options.limit)

    def block(self, size: int):
        return self.torch.empty(size, dtype=self.torch.uint8, device="cuda")

    def say(self, **row: object) -> None:
        row = {"program": self.options.program, "allocator": self.allocator, **row}
        print(json.dumps({**row, **self.place.figures()}), flush=True)

    def fuzz(self) -> None:
        """Blocks come and go on four streams, some read by another stream before they are freed.
        Every byte is compared."""
        torch, chance = self.torch, random.Random(self.options.seed)
        streams = [torch.cuda.default_stream(), *(torch.cuda.Stream() for _ in range(3))]
        bad = torch.zeros(1, dtype=torch.int64, device="cuda")
        live, refused, compared, operations, total = [], 0, 0, 0, 0
        last = None  # the sum is of all streams: they take turns

        def compare(tensor, value: int, stream) -> None:
            nonlocal compared, last
            if last is not None:
                stream.wait_event(last)
            with torch.cuda.stream(stream):
                for part in tensor.split(16 * MIB):
                    bad.add_(part.ne(value).any())
            compared += tensor.numel()
            last = torch.cuda.Event()
            last.record(stream)

        def take():
            nonlocal total
            entry = live.pop(chance.randrange(len(live)))
            total -= entry[0].numel()
            return entry

        end = time.monotonic() + self.options.seconds
        while time.monotonic() < end:
            operations += 1
            what, stream = chance.random(), chance.choice(streams)
            try:
                if what < 0.5 or len(live) < 8:
                    size, value = int(2 ** chance.uniform(9, 29)), chance.randrange(1, 255)
                    with torch.cuda.stream(stream):
                        live.append((self.block(size).fill_(value), value, stream))
                    total += size
                elif what < 0.8:
                    compare(*take())
                else:
                    tensor, value, home = take()
                    written = torch.cuda.Event()
                    written.record(home)
                    stream.wait_event(written)
                    compare(tensor, value, stream)
                    tensor.record_stream(stream)
                    del tensor
            except harness.out_of_memory(torch):
                refused += 1
                for _ in range(max(len(live) // 4, 1)):
                    take()
            if self.options.limit and total > self.options.limit * 0.97:
                take()
        for entry in live:
            compare(*entry)
        self.place.synchronize()
        self.say(operations=operations, compared_bytes=compared, bad=int(bad), refused=refused)
        if bad:
            raise SystemExit("wrong bytes")

    def near(self) -> None:
        """500 live blocks of 1 to 64 MiB, one at random replaced: no kernels."""

        def draws(seed: int):
            chance = random.Random(seed)
            return chance, lambda: int(2 ** chance.uniform(20, 26))

        chance, size = draws(3)
        sizes = [size() for _ in range(500)]
        total = most = sum(sizes)
        for _ in range(6000):
            at, new = chance.randrange(500), size()
            total, sizes[at] = total + new - sizes[at], new
            most = max(most, total)
        for factor in (4, 2, 1.5, 1.25, 1.1, 1.075, 1.05):
            gc.collect()
            self.torch.cuda.empty_cache()
            self.torch.cuda.reset_peak_memory_stats()
            self.place.limit(int(most * factor) + 64 * MIB)
            chance, size = draws(3)
            live, times = [], []
            try:
                live = [self.block(size()) for _ in range(500)]
                for _ in range(6000):
                    at, new = chance.randrange(500), size()
                    begin = time.perf_counter_ns()
                    live[at] = None
                    live[at] = self.block(new)
                    times.append(time.perf_counter_ns() - begin)
            except harness.out_of_memory(self.torch):
                self.say(factor=factor, completed=False)
            else:
                later = times[len(times) // 2 :]
                mean = sum(later) / len(later)
                figures = {**harness.figures_of(later), "mean": mean}
                self.say(factor=factor, completed=True, pair_ns=figures)
            del live

    def held(self) -> None:
        """bench/held/streams.py, and every tensor is filled."""
        chance = random.Random(0)
        streams = [self.torch.cuda.Stream() for _ in range(4)]

        def tensor():
            return self.block(chance.randint(20, 200) * MIB).fill_(1)

        tensor()
        self.place.synchronize()
        begin, completed = time.monotonic(), True
        try:
            for turn in range(40):
                with self.torch.cuda.stream(streams[turn % 4]):
                    held = [tensor() for _ in range(24)]
                    for _ in range(100):
                        at = chance.randrange(24)
                        held[at] = None
                        held[at] = tensor()
                del held
            self.place.synchronize()
        except harness.out_of_memory(self.torch):
            completed = False
        waits = self.torch.cuda.memory_stats().get("num_sync_all_streams", 0)
        self.say(completed=completed, seconds=time.monotonic() - begin, host_waits=waits)

    def sleep(self) -> None:
        """Weights go to the host and the cache is dropped, another has the memory, all comes back.
        Without Mend a program copies its tensors, frees them and makes new ones."""
        torch = self.torch
        is_mend = self.allocator == "mend"
        if is_mend:
            import libmend.torch

        def tagged(tag: str):
            return libmend.torch.sleep_tag(tag) if is_mend else contextlib.nullcontext()

        def make_cache():
            with tagged("cache"):
                return [self.block(256 * MIB) for _ in range(96)]

        with tagged("weights"):
            weights = [self.block(128 * MIB).fill_(i) for i in range(64)]
        cache, host = make_cache(), []
        for cycle in range(4):
            self.place.synchronize()
            marks = [time.monotonic()]
            if is_mend:
                libmend.torch.sleep({"weights": "host", "cache": "discard"})
            else:
                host = host or [torch.empty(128 * MIB, dtype=torch.uint8, pin_memory=True)
                                for _ in weights]
                for kept, tensor in zip(host, weights):
                    kept.copy_(tensor, non_blocking=True)
                self.place.synchronize()
                weights = cache = tensor = None
                torch.cuda.empty_cache()
            marks.append(time.monotonic())
            others = [self.block(random.Random(cycle).randint(20, 400) * MIB) for _ in range(100)]
            del others
            marks.append(time.monotonic())
            if is_mend:
                libmend.torch.wake("weights")
            else:
                weights = [kept.to("cuda", non_blocking=True) for kept in host]
            self.place.synchronize()
            marks.append(time.monotonic())
            if is_mend:
                libmend.torch.wake("cache")
            else:
                cache = make_cache()
            self.place.synchronize()
            marks.append(time.monotonic())
            steps = [later - earlier for earlier, later in zip(marks, marks[1:])]
            names = ("sleep", "others", "wake_weights", "wake_cache")
            right = all(bool((tensor == i).all()) for i, tensor in enumerate(weights))
            self.say(cycle=cycle, seconds=dict(zip(names, steps)), right=right)
            if not right:
                raise SystemExit("wrong bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("program", choices=("fuzz", "near", "held", "sleep"))
    parser.add_argument("--limit", type=bytes_of, default=0, help="bytes the allocator may take")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=25, help="of fuzz")
    options = parser.parse_args()
    getattr(Program(options), options.program)()


if __name__ == "__main__":
    main()
