#!/usr/bin/env python3
"""Runs one workload at one size under the allocator that MEND_BENCH_ALLOCATOR names, and prints one
line of JSON. Exit status 0 also where it ran out of memory: `completed` tells.

    MEND_BENCH_ALLOCATOR=mend bench/torch/one.py language-model --size 16 --steps 100
    MEND_BENCH_ALLOCATOR=mend bench/torch/one.py --serve

With --serve it imports PyTorch once and then runs each line of standard input, a JSON list of these
arguments, in a process of its own that begins there. That saves seconds each time.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import traceback

import harness
import workloads


def serve() -> int:
    """A line of JSON for each line read. A program that ends without one has failed."""
    harness.prepare_allocator()
    for line in sys.stdin:
        limit_s, *arguments = json.loads(line)
        child = os.fork()
        if child == 0:
            signal.alarm(limit_s)
            sys.argv[1:] = arguments
            status = 1
            try:
                status = main()
            except BaseException:  # whatever it is: the process ends here
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        print(json.dumps({"status": code, "timed_out": code == -signal.SIGALRM}), flush=True)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=sorted(workloads.SIZES))
    parser.add_argument("--size", type=int, help="batch or length; default: the smallest")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--warm-up", type=int, default=5)
    parser.add_argument("--memory", type=int, default=0, help="bytes the allocator may take")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--dry-run", action="store_true", help="tiny, on the CPU")
    arguments = parser.parse_args()

    allocator = harness.choose_allocator()
    place = harness.Place(arguments.dry_run)
    place.limit(arguments.memory)
    sizes = workloads.SIZES[arguments.workload]
    size = arguments.size or sizes.smallest
    result = {
        "workload": arguments.workload,
        "allocator": allocator,
        "knob": sizes.knob,
        "size": size,
        "memory_bytes": arguments.memory,
        "torch": place.torch.__version__,
    }
    try:
        step = workloads.load(arguments.workload).prepare(place, size, place.seed(arguments.seed))
        result.update(harness.measure(place, step, arguments.steps, arguments.warm_up))
    except harness.out_of_memory(place.torch):
        result.update(completed=False, failed_at_step=-1, steps=0, **place.figures())
    print(json.dumps(result), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(serve() if sys.argv[1:] == ["--serve"] else main())
