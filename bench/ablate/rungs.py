#!/usr/bin/env python3
"""The share of each rung of the ladder in what succeeds near the limit, as a table.

    bench/ablate/rungs.py --mend build/release/api/cli/mend [--capacity 1.05x,1.02x]

Replays every workload of bench/workloads.txt. A row has the sums over the workloads of one kind
that complete at that capacity; bench/results/ablation.md explains the columns.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import subprocess
import sys

import ablate

WAYS = ("in_run", "by_extension", "at_new_address", "by_alias")


def replay(mend, where, capacities):
    done = subprocess.run([mend, "replay", "--json", "--capacity", capacities, where],
                          capture_output=True, text=True, timeout=ablate.LIMIT_S)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{where}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def line(kind, capacity, rows):
    completed = [row for row in rows if row["completed"]]
    sums = collections.Counter()
    for row in completed:
        sums.update(row["placed"])
        sums["host_waits"] += row["host_syncs"]
    total = sum(sums[way] for way in WAYS) or 1
    shares = " | ".join(f"{100 * sums[way] / total:.3f} %" for way in WAYS)
    return (f"| {kind}, {capacity} | {len(completed)} of {len(rows)} | {total} | {shares} "
            f"| {sums['chunks_remade']} | {sums['moves_avoided']} | {sums['host_waits']} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mend", required=True)
    parser.add_argument("--capacity", default="1.05x,1.02x")
    parser.add_argument("--workloads", default=os.path.join(ablate.BENCH, "workloads.txt"))
    options = parser.parse_args()
    workloads = ablate.read_workloads(options.workloads, None)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda workload: replay(options.mend, workload[1],
                                                        options.capacity), workloads))
    print("| | complete | requests | in a run | by extension | at a new address | by alias "
          "| chunks remade | moves avoided | host waits |\n|" + "---|" * 10)
    for at, capacity in enumerate(options.capacity.split(",")):
        for kind, is_generated in (("recordings", False), ("generated", True)):
            rows = [rows[at] for (name, _), rows in zip(workloads, results)
                    if name.startswith("stress:") == is_generated]
            if rows:
                print(line(kind, capacity, rows))


if __name__ == "__main__":
    sys.exit(main())
