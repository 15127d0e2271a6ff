#!/usr/bin/env python3
"""The worth of each mechanism of the policy: replays with it switched off.

    bench/ablate/ablate.py --mend build/ablate/bench/ablate/mend-ablated [--half tune|judge]
        [--only MECHANISM ...] [--together A,B] [--results FILE.jsonl]
        [--document bench/results/ablation.md]

    bench/ablate/ablate.py --mend build/ablate/bench/ablate/mend-ablated --felt [--half tune|judge]
        [--only MECHANISM ...]

Every workload of bench/workloads.txt is replayed at eight capacities, under all cost tables, once
with all mechanisms and once without each. The results are kept in FILE.jsonl and used again by the
same program, so that a stopped run continues. bench/results/ablation.md explains the columns.
--felt measures the delays of recordings (felt.py), beside expandable segments.
"""
import argparse
import concurrent.futures
import functools
import hashlib
import json
import os
import subprocess
import sys
import threading

import effects
import felt
import mechanisms

HERE = os.path.dirname(os.path.abspath(__file__))
BENCH = os.path.dirname(HERE)
CAPACITIES = ("80GiB", "2x", "1.4x", "1.2x", "1.1x", "1.05x", "1.02x")  # and then the fit
STEPS_IN_ONE = 500  # of the peak of live bytes: the grid of `libmend replay --capacity fit`
STEPS_WALKED = 25
LIMIT_S = 900
KEPT = ("completed", "peak_live_bytes", "peak_reserved_bytes", "fit_capacity_bytes", "fit_factor",
        "host_syncs", "driver_time_by_list_us", "driver_time_second_half_us", "felt")


class Program:
    """mend-ablated: it replays one workload without some mechanisms."""

    def __init__(self, path):
        self.path = path
        with open(path, "rb") as file:
            self.version = hashlib.sha256(file.read()).hexdigest()[:16]

    def replay(self, workload, without, capacities, lag=64, policy="mend"):
        environment = {**os.environ, "MEND_MUTANT": without} if without else dict(os.environ)
        if not without:
            environment.pop("MEND_MUTANT", None)
        done = subprocess.run(
            [self.path, "replay", "--json", "--allocator", policy, "--free-latency", str(lag),
             "--capacity",
             ",".join(capacities), workload],
            capture_output=True, text=True, env=environment, timeout=LIMIT_S)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        if done.returncode not in (0, 1) or len(rows) != len(capacities):
            raise SystemExit(f"{workload} without {without or 'nothing'}: {done.stderr}")
        return [{name: row.get(name) for name in KEPT} for row in rows]


class Results:
    """The known rows, in memory and in a file of one JSON object a line."""

    def __init__(self, path, version):
        self.path = path
        self.version = version
        self.known = {}
        self.lock = threading.Lock()
        if path and os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                for line in map(json.loads, file):
                    if line["version"] == version:
                        self.known[line["workload"], line["without"]] = line["rows"]

    def keep(self, workload, without, rows):
        with self.lock:
            self.known[workload, without] = rows
            if self.path:
                with open(self.path, "a", encoding="utf-8") as file:
                    file.write(json.dumps({"version": self.version, "workload": workload,
                                           "without": without, "rows": rows}) + "\n")


def read_workloads(path, half):
    """[(name, arguments of `libmend replay`)] of one half, or of both."""
    workloads = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.split("#")[0].split()
            if not words or (half and words[1] != half):
                continue
            name = words[0]
            is_recording = not name.startswith("stress:")
            where = os.path.join(BENCH, "traces", name + ".csv.gz") if is_recording else name
            workloads.append((name, where))
    return workloads


def fit_beside(program, where, without, usual):
    """The least capacity that is enough, walked to in steps from that with all mechanisms. A whole
    search begins far above both: it is made only where they lie far apart. None: no such capacity.
    """
    peak = usual["peak_live_bytes"]
    first = round((usual["fit_factor"] - 1) * STEPS_IN_ONE)

    @functools.cache
    def is_enough(step):
        capacity = peak - -peak * step // STEPS_IN_ONE  # rounded up
        return program.replay(where, without, (f"{capacity}B",))[0]["completed"]

    step = first
    while step > 0 and is_enough(step) and is_enough(step - 1):
        step -= 1
    while step - first < STEPS_WALKED and not (is_enough(step) and is_enough(step + 1)):
        step += 1
    if step - first == STEPS_WALKED:
        return program.replay(where, without, ("fit",))[0]["fit_factor"]
    return 1 + step / STEPS_IN_ONE


def measure(program, results, workload, without):
    """The rows by capacity, the least sufficient capacity last."""
    name, where = workload
    rows = results.known.get((name, without))
    if rows is not None:
        return
    if not without:
        rows = program.replay(where, without, CAPACITIES + ("fit",))
    else:
        rows = program.replay(where, without, CAPACITIES)
        fit = fit_beside(program, where, without, results.known[name, ""][-1])
        rows.append({"fit_factor": fit, "completed": fit is not None})
    results.keep(name, without, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mend", required=True, help="the program mend-ablated")
    parser.add_argument("--workloads", default=os.path.join(BENCH, "workloads.txt"))
    parser.add_argument("--half", choices=("tune", "judge"))
    parser.add_argument("--only", nargs="+", metavar="MECHANISM", default=[])
    parser.add_argument("--together", action="append", default=[], metavar="A,B",
                        help="these switched off at once, as one more row")
    parser.add_argument("--results", metavar="FILE.jsonl")
    parser.add_argument("--document", metavar="FILE.md", help="keeps the table there")
    parser.add_argument("--felt", action="store_true",
                        help="only the table of what a program feels, of the recordings")
    options = parser.parse_args()
    program = Program(options.mend)
    results = Results(options.results, program.version)
    workloads = read_workloads(options.workloads, options.half)
    entries = mechanisms.read_all()
    known = list(dict.fromkeys(entry.name for entry in entries))
    rows = [f"policy.{name}" for name in options.only] or known
    rows += [",".join(f"policy.{part}" for part in group.split(",")) for group in options.together]
    unknown = {part for row in rows for part in row.split(",")} - set(known)
    if unknown or not workloads:
        raise SystemExit(f"no such mechanisms: {sorted(unknown)}" if unknown else "no workloads")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        if options.felt:
            recordings = [where for name, where in workloads if not name.startswith("stress:")]
            names = [("mend", "", "mend"), ("expandable", "", "expandable")]
            names += [(f"without {name}", f"policy.{name}", "mend") for name in options.only]
            print(felt.table(program.replay, lambda one: list(pool.map(one, recordings)), names))
            return
        for withouts in ([""], rows):
            tasks = [pool.submit(measure, program, results, workload, without)
                     for without in withouts for workload in workloads]
            for task in tasks:
                task.result()
    tables = effects.tables(results.known, [name for name, _ in workloads], rows, CAPACITIES)
    print(tables)
    if options.document:
        effects.keep(options.document, options.half, tables)


if __name__ == "__main__":
    sys.exit(main())
