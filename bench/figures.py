#!/usr/bin/env python3
"""Every figure of Mend on every bundled recording and workload, to compare two states of the code.

    bench/figures.py --mend build/release/api/cli/libmend -o before.jsonl
    bench/figures.py --mend build/release/api/cli/libmend --same-as before.jsonl

A change that is to change nothing leaves all of them as they were, to the last driver call. One
line for each workload and capacity. Times of the CPU are left out. Exit status 1: they differ.
"""
import argparse
import concurrent.futures
import glob
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CAPACITIES = "unlimited,1.2x,1.05x,1.02x"
HOST_TIMES = ("alloc_ns", "free_ns")


def workloads(mend):
    listed = subprocess.run([mend, "replay", "--list"], check=True, capture_output=True, text=True)
    lines = listed.stdout.splitlines()
    built_in = [line.split()[0] for line in lines if line.startswith("stress:")]
    return sorted(glob.glob(os.path.join(HERE, "traces", "*.csv.gz"))) + built_in


def figures(mend, policy, workload):
    """Running out of memory, exit status 1, is a figure, too."""
    done = subprocess.run([mend, "replay", "--json", "--allocator", policy, "--capacity",
                           CAPACITIES,
                           workload], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{workload}: {done.stderr}")
    rows = []
    for line in done.stdout.splitlines():
        row = json.loads(line)
        row["trace"] = os.path.basename(row["trace"])
        rows.append({name: value for name, value in row.items() if name not in HOST_TIMES})
    return rows


def key(row):
    return row["trace"], row["policy"], row["capacity_bytes"]


def compare(rows, before):
    """The names of the figures that differ, workload by workload."""
    known = {key(row): row for row in before}
    differences = [f"{key(row)}: not known before" for row in rows if key(row) not in known]
    differences += [f"{at}: is gone" for at in known.keys() - {key(row) for row in rows}]
    for row in rows:
        was = known.get(key(row), row)
        differences += [f"{key(row)}: {name} was {was.get(name)}, is {value}"
                        for name, value in row.items() if was.get(name) != value]
    return differences


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mend", required=True, help="an optimised `libmend` program")
    parser.add_argument("--allocator", default="mend")
    parser.add_argument("-o", "--output", metavar="FILE.jsonl")
    parser.add_argument("--same-as", metavar="FILE.jsonl")
    parser.add_argument("workloads", nargs="*", help="else all that are bundled or built in")
    options = parser.parse_args()
    chosen = options.workloads or workloads(options.mend)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        parts = pool.map(lambda w: figures(options.mend, options.allocator, w), chosen)
        rows = [row for part in parts for row in part]
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    if options.same_as:
        with open(options.same_as, encoding="utf-8") as file:
            differences = compare(rows, [json.loads(line) for line in file])
        print("\n".join(differences) or f"{len(rows)} rows of figures are the same")
        sys.exit(bool(differences))


if __name__ == "__main__":
    main()
