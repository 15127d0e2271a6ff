#!/usr/bin/env python3
"""Says where each lost percent goes, in tables.

    bench/explain.py --mend build/release/api/cli/libmend [--json rows.json] TRACE|WORKLOAD...

For each: Mend with unlimited memory, at 1.05 times the peak of live bytes, and 0.2 % of it below
the smallest sufficient capacity, where it fails. On the simulated device, driver time by both
built-in cost tables.
"""
import argparse
import json
import os
import subprocess
import sys

LISTS = ("h200", "reference")
STEP = 0.002  # of the grid on which `fit` searches
MIB = 1 << 20
SMALL_OWNER_BYTES = 16 * MIB
CAUSES = {"growing": ["growing"], "moving": ["moving"], "retiring": ["retiring"],
          "giving back": ["giving_back"], "fences and waits": ["fences", "host_waits"],
          "other": ["undoing", "addresses", "copying", "asking"]}


def replay(program, trace, arguments):
    command = [program, "replay", "--json"] + arguments + [trace]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def rows_of(program, trace):
    """The rows at unlimited, 1.05x and, where there is a fit above 1, below it. By each table."""
    fit = replay(program, trace, ["--capacity", "fit"])[0]["fit_factor"]
    below = [f"{fit - STEP:.3f}x"] if fit is not None and fit > 1 else []
    capacities = ",".join(["unlimited", "1.05x"] + below)
    return [replay(program, trace, ["--explain", "--capacity", capacities, "--costs", prices])
            for prices in LISTS]


def name_of(row):
    return os.path.basename(row["trace"]).removesuffix(".gz").removesuffix(".csv")


def capacity_of(row):
    if row["capacity_bytes"] is None:
        return "unlimited"
    return f"{row['capacity_bytes'] / row['peak_live_bytes']:.3f}"


def total(zones, places, reasons=None):
    """Free bytes of these zones, places and reasons. None: all reasons."""
    return sum(count for zone in zones for place in places
               for reason, count in zone[place].items() if reasons is None or reason in reasons)


def memory_of(row):
    """Bytes by cause: at the failure, or at the peak of reserved memory."""
    memory = row["explain"]["memory"]
    moment = memory["failure"] or memory["peak_reserved"]
    small, large = moment["small"], moment["large"]
    by_size = [kind for kind in large["partial_by_size"]
               if (kind["owner_up_to_bytes"] or sys.maxsize) <= SMALL_OWNER_BYTES]
    return {
        "live": moment["live_bytes"],
        "not live": moment["reserved_bytes"] - moment["live_bytes"],
        "empty": moment["unmapped_bytes"] + total([small, large], ["whole"]),
        "edges": total([large], ["edge"]),
        "holes": total([large], ["hole"]),
        "small zone": total([small], ["edge", "hole"]),
        "reached into": large["reached_into"]["free_bytes"],
        "held by up to 16 MiB": sum(kind["free_bytes"] for kind in by_size),
        "waits": total([small, large], ["whole", "edge", "hole"],
                       ["streams", "streamless", "graph_pools"]),
        "asked for": moment["size_bytes"] if moment["action"] == "allocate" else 0,
    }


def print_memory(rows):
    heads = list(memory_of(rows[0]))
    print("\n| workload | capacity |", " | ".join(heads), "|")
    print("|---" * (2 + len(heads)) + "|")
    for row in rows:
        memory = memory_of(row)
        causes = ["empty", "edges", "holes", "small zone"]
        assert memory["not live"] == sum(memory[cause] for cause in causes)
        percents = [f"{100 * memory[head] / row['peak_live_bytes']:.2f}" for head in heads]
        print("|", " | ".join([name_of(row), capacity_of(row)] + percents), "|")


def times_of(row):
    """Milliseconds: all, and by cause."""
    costs = row["explain"]["driver_time"]
    times = [sum(costs[cause]["us"] for cause in causes) / 1000 for causes in CAUSES.values()]
    assert abs(sum(times) - row["driver_time_us"] / 1000) < 1e-3
    return [sum(times)] + times


def print_time(runs):
    print("\n| workload | driver ms |", " | ".join(CAUSES), "|")
    print("|---" * (2 + len(CAUSES)) + "|")
    for rows in runs:
        columns = zip(*[times_of(row) for row in rows])
        cells = [" / ".join(f"{time:.1f}" for time in column) for column in columns]
        print("|", " | ".join([name_of(rows[0])] + cells), "|")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mend", required=True, help="the built program")
    parser.add_argument("--json", help="keep the raw rows here")
    parser.add_argument("traces", nargs="+")
    arguments = parser.parse_args()
    by_list = list(zip(*[rows_of(arguments.mend, trace) for trace in arguments.traces]))
    runs = by_list[0]
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as out:
            out.writelines(json.dumps(row) + "\n"
                           for each in by_list for rows in each for row in rows)
    print("At the failure:")
    print_memory([row for rows in runs for row in rows if row["explain"]["memory"]["failure"]])
    print("\nAt the peak of reserved memory, which nothing limits:")
    print_memory([rows[0] for rows in runs])
    print("\nDriver time, each cell: unlimited / 1.05x / below the fit.")
    for prices, each in zip(LISTS, by_list):
        print(f"\nBy the list `{prices}`:")
        print_time(each)


if __name__ == "__main__":
    main()
