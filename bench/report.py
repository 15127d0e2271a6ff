#!/usr/bin/env python3
"""Replays recordings and workloads and prints the tables of docs/benchmarks.md.

    bench/report.py --mend build/release/api/cli/mend [--json rows.json] TRACE|WORKLOAD...

For each: fit factor, reserved over live, host waits, driver time and driver calls, of Mend and of
the models of PyTorch's two allocators, on the simulated device with the reference prices.
"""
import argparse
import json
import os
import subprocess
import sys

POLICIES = ["mend", "caching", "expandable"]
CAPACITIES = "unlimited,1.02x,1.05x,fit"


def replay(program, traces):
    command = [program, "replay", "--json", "--policy", ",".join(POLICIES),
               "--capacity", CAPACITIES] + traces
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def name_of(trace):
    return os.path.basename(trace).removesuffix(".gz").removesuffix(".csv")


def group(rows):
    """{trace: {policy: {capacity: row}}}; the four capacities come in the order asked for."""
    table = {}
    for row in rows:
        runs = table.setdefault(name_of(row["trace"]), {}).setdefault(row["policy"], [])
        runs.append(row)
    for policies in table.values():
        for policy, runs in policies.items():
            policies[policy] = dict(zip(CAPACITIES.split(","), runs))
    return table


def ratio(row):
    return row["peak_reserved_bytes"] / row["peak_live_bytes"]


def cell(values, form):
    return " / ".join(form(value) for value in values)


def milliseconds(row):
    return f"{row['driver_time_us'] / 1000:.0f}" if row["completed"] else "OOM"


def waits(row):
    return str(row["host_syncs"]) if row["completed"] else "OOM"


def calls(row):
    return str(sum(row["driver_calls"].values())) if row["completed"] else "OOM"


def second_half(row):
    return str(sum(row["driver_calls_second_half"].values()))


def print_table(table):
    print("Each cell: mend / caching / expandable.\n")
    print("| workload | fit factor | reserved / live, unlimited | driver ms, unlimited "
          "| driver ms at 1.05x | host waits at 1.02x | driver calls, unlimited "
          "| of these in the second half |")
    print("|---|---|---|---|---|---|---|---|")
    for name, policies in table.items():
        runs = [policies[policy] for policy in POLICIES]
        unlimited = [run["unlimited"] for run in runs]
        print("|", " | ".join([
            name,
            cell([run["fit"]["fit_factor"] for run in runs],
                 lambda fit: "-" if fit is None else f"{fit:.3f}"),
            cell(unlimited, lambda row: f"{ratio(row):.3f}"),
            cell(unlimited, milliseconds),
            cell([run["1.05x"] for run in runs], milliseconds),
            cell([run["1.02x"] for run in runs], waits),
            cell(unlimited, calls),
            cell(unlimited, second_half)]), "|")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mend", required=True, help="the built program")
    parser.add_argument("--json", help="keep the raw rows here")
    parser.add_argument("traces", nargs="+")
    arguments = parser.parse_args()
    rows = replay(arguments.mend, arguments.traces)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows)
    print_table(group(rows))


if __name__ == "__main__":
    main()
