#!/usr/bin/env python3
"""A tensor that another stream still reads is freed, and memory of its size requested and written
at once. With record_stream the reader must see the first contents. Prints one line of JSON. Exit
status 1: a reader saw something else.

    MEND_BENCH_ALLOCATOR=mend bench/torch/race.py --rounds 200
"""

from __future__ import annotations

import argparse
import json
import sys

import harness

SIZES = (1 << 10, 1 << 18, 3 << 20, 40 << 20)
SLEEP_CYCLES = 20_000_000


def race(place, size: int, value: int) -> bool:
    """Whether the reader saw its value only."""
    torch, reader = place.torch, place.stream()
    tensor = torch.full((size,), value % 251, dtype=torch.uint8, device=place.device)
    result = torch.zeros((), dtype=torch.int64, device=place.device)
    if reader is not None:
        reader.wait_stream(torch.cuda.current_stream())
    with place.on(reader):
        if reader is not None:
            torch.cuda._sleep(SLEEP_CYCLES)  # the tensor is gone long before this ends
        result.add_((tensor == value % 251).sum())
    if reader is not None:
        tensor.record_stream(reader)
    del tensor
    # The program that gets its memory writes there.
    writers = [torch.full((size,), 255, dtype=torch.uint8, device=place.device) for _ in range(4)]
    place.synchronize()
    return int(result) == size and len(writers) == 4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--dry-run", action="store_true", help="tiny, on the CPU")
    arguments = parser.parse_args()
    allocator = harness.choose_allocator()
    place = harness.Place(arguments.dry_run)
    sizes = SIZES[:1] if arguments.dry_run else SIZES
    lost = sum(
        not race(place, sizes[index % len(sizes)], index) for index in range(arguments.rounds)
    )
    print(
        json.dumps(
            {
                "workload": "race",
                "allocator": allocator,
                "rounds": arguments.rounds,
                "lost": lost,
                "torch": place.torch.__version__,
            }
        )
    )
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
