#!/usr/bin/env python3
"""Driver time by every built-in cost table, and the cost of unnamed streams: the tables between
marks "times: NAME" of documents.

    bench/times.py --mend build/release/api/cli/libmend [--rows FILE] [--check] [DOCUMENT...]

Replays the workloads of bench/workloads.txt on the simulated device, the half for tuning and the
half for judging apart, and RMM's. No policy knows a price, so one replay has the times by all
lists. Fills the marks of the documents that are named, else prints all tables. With --rows, replays
are kept in that file and not made again. With --check it writes nothing: it shows the rows of the
documents that are not as they would be now, and then exits with 1.
"""
import argparse
import concurrent.futures
import difflib
import json
import math
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "ablate"))

import ablate  # noqa: E402
import speed_report  # noqa: E402

LISTS = ("h200", "reference", "kvcached-a100")
CAPACITIES = ("80GiB", "1.2x", "1.05x", "1.02x")
HALVES = (("tune", "tuned"), ("judge", "judged"))
# The eleven of the documentation.
ELEVEN = ("bert-large-varlen detector-varboxes fsdp-llama-2stream gpt2-medium-pretrain "
          "llama7b-lora-varlen llama8b-serve-cat llama8b-serve-slots moe-pretrain opt-rl-phases "
          "resnet50-multires sdxl-serve-mixed").split()
STRATEGIES = [f"mend strategy:{level}" for level in (1, 2, 3, 4, 5)]
SETTINGS = ["mend", "mend:compact", "caching", "caching:split128", "caching:gc80"]
# Mend as it is told less and less of streams, with an event of the context and without.
STREAMS = ["mend", "mend:no-stream", "mend:no-stream --no-context-events",
           "mend --short-threads 500",
           "mend --short-threads 500 --no-context-events"]
# Kept numbers of a replay beside the times.
FIGURES = ("host_syncs", "peak_reserved_bytes", "peak_live_bytes")


def is_generated(name):
    return name.startswith("stress:")


class Runs:
    """Rows of `libmend replay`, made when they are first asked for. A policy may name options of
    the command, or a MEND_CONF."""

    def __init__(self, program, path):
        self.program, self.path, self.known = program, path, {}
        if path and os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                self.known = {(name, policy): rows for name, policy, rows in map(json.loads, file)}

    def replay(self, key):
        name, policy = key
        policy, _, settings = policy.partition(" ")
        where = name if is_generated(name) else os.path.join(HERE, "traces", name + ".csv.gz")
        options = settings.split() if settings.startswith("--") else []
        conf = {"MEND_CONF": settings} if settings and not options else {}
        environment = dict(os.environ, **conf)
        done = subprocess.run([self.program, "replay", "--json", "--allocator", policy,
                               "--capacity",
                               ",".join(CAPACITIES), *options, where],
                              capture_output=True, text=True, check=False, env=environment)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        if done.returncode not in (0, 1) or len(rows) != len(CAPACITIES):
            raise SystemExit(f"{name}, {policy}: {done.stderr}")
        return [row["driver_time_by_list_us"] | {name: row.get(name) for name in FIGURES}
                if row["completed"] else None for row in rows]

    def make(self, names, policies):
        self.make_with(self.replay, [(name, policy) for name in names for policy in policies])

    def make_with(self, replay, keys):
        missing = [key for key in keys if key not in self.known]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for key, rows in zip(missing, pool.map(replay, missing)):
                self.known[key] = rows
                if self.path:
                    with open(self.path, "a", encoding="utf-8") as file:
                        file.write(json.dumps([*key, rows]) + "\n")

    def time(self, name, policy, capacity, prices):
        """Microseconds, or one of FIGURES. None: out of memory."""
        times = self.known[name, policy][CAPACITIES.index(capacity)]
        return times and times[prices]

    def ratios(self, names, policy, capacity, prices):
        """Beside expandable segments, where both complete."""
        pairs = [(self.time(name, policy, capacity, prices),
                  self.time(name, "expandable", capacity, prices)) for name in names]
        return [ours / theirs for ours, theirs in pairs if ours and theirs]


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


def interval(values, form="{:.2f}"):
    values = [value for value in values if value is not None]
    ends = [form.format(value) for value in (min(values), max(values))] if values else ["OOM"]
    return " to ".join(dict.fromkeys(ends))


def group_row(runs, title, names, capacity):
    ratios = [runs.ratios(names, "mend", capacity, prices) for prices in LISTS]
    cells = [f"{mean(found):.2f} ({sum(ratio > 1 for ratio in found)}; {max(found):.2f})"
             if found else "-" for found in ratios]
    return [title, capacity_text(capacity), f"{len(ratios[0])} of {len(names)}", *cells]


def capacity_text(capacity):
    return "80 GiB" if capacity == "80GiB" else capacity + " peak"


GROUP_HEAD = ["workloads", "device", "both complete", *(f"`{prices}`" for prices in LISTS)]


def groups_table(kind, generated):
    def make(runs, workloads):
        rows = []
        for half, title in HALVES:
            names = [name for name, at in workloads
                     if at == half and is_generated(name) == generated]
            runs.make(names, ["mend", "expandable"])
            rows += [group_row(runs, f"{title} half: {len(names)} {kind}", names, capacity)
                     for capacity in CAPACITIES if names]
        return speed_report.table(GROUP_HEAD, rows)
    return make


def eleven_table(runs, _):
    policies = ["mend", "expandable", "caching"]
    runs.make(ELEVEN, policies)
    rows = []
    for capacity in CAPACITIES:
        cells = []
        for prices in LISTS:
            sums = []
            for policy in policies:
                times = [runs.time(name, policy, capacity, prices) for name in ELEVEN]
                sums.append("OOM" if None in times else f"{sum(times) / 1000:,.0f}")
            cells.append(" / ".join(sums))
        rows.append([capacity_text(capacity), *cells])
    return speed_report.table(["device"] + GROUP_HEAD[3:], rows)


def ratio_cell(runs, name, policy, capacity):
    ours = [runs.time(name, policy, capacity, prices) for prices in LISTS]
    theirs = [runs.time(name, "expandable", capacity, prices) for prices in LISTS]
    if None in ours:
        return "OOM"
    return "expandable OOM" if None in theirs else interval(map(lambda a, b: a / b, ours, theirs))


def workloads_table(runs, workloads):
    runs.make([name for name, _ in workloads], ["mend", "expandable", "caching"])
    rows = [[name.replace("|", "\\|"), title,
             *(ratio_cell(runs, name, "mend", capacity) for capacity in CAPACITIES),
             ratio_cell(runs, name, "caching", "80GiB")]
            for half, title in HALVES for name, at in workloads if at == half]
    return speed_report.table(["workload", "half", *(f"`mend`, {capacity_text(capacity)}"
                                                     for capacity in CAPACITIES),
                               "`caching`, 80 GiB"], rows)


def policies_table(policies):
    def make(runs, workloads):
        names = {half: [name for name, at in workloads if at == half and not is_generated(name)]
                 for half, _ in HALVES}
        runs.make(sum(names.values(), []), ["expandable", *policies])
        rows = []
        for policy in policies:
            cells = []
            for half, capacity in ((half, capacity) for half, _ in HALVES
                                   for capacity in CAPACITIES):
                ratios = [runs.ratios(names[half], policy, capacity, prices) for prices in LISTS]
                few = len(ratios[0]) < len(names[half])
                cells.append(interval(map(mean, ratios)) + f", {len(ratios[0])}" * few)
            rows.append([f"`{policy}`", *cells])
        return speed_report.table(["policy"] + [f"{title}: {capacity_text(capacity)}"
                                                for _, title in HALVES for capacity in CAPACITIES],
                                  rows)
    return make


def streams_table(runs, workloads):
    """A row for each recording. Each cell: as STREAMS."""
    names = [name for name, _ in workloads if not is_generated(name)]
    runs.make(names, ["expandable", *STREAMS])

    def cell(form, of):
        values = [of(policy) for policy in STREAMS]
        return " / ".join("OOM" if value is None else form.format(value) for value in values)

    rows = []
    for name in sorted(names):
        def over(policy, figure, least):
            ours = runs.time(name, policy, "80GiB", figure)
            return ours and ours / least

        def reserved(policy):
            return over(policy, "peak_reserved_bytes",
                        runs.time(name, "expandable", "80GiB", "peak_live_bytes"))

        def ratio(policy):
            return over(policy, "h200", runs.time(name, "expandable", "80GiB", "h200"))

        rows.append([name, cell("{:.2f}", reserved), cell("{:.2f}", ratio),
                     *(cell("{:,}", lambda policy: runs.time(name, policy, capacity, "host_syncs"))
                       for capacity in ("80GiB", "1.05x"))])
    return speed_report.table(["recording", "reserved / live", "driver time / expandable",
                               "host waits", "host waits at 1.05x"], rows)


def rmm_table(runs, _):
    names = speed_report.rmm_workloads()
    runs.make(names, speed_report.MODELS)
    rows = [[speed_report.rmm_name(name)] +
            [interval([time and time / 1000 for time in (runs.time(name, policy, "80GiB", prices)
                                                         for prices in LISTS)], "{:.0f}")
             for policy in speed_report.MODELS] for name in names]
    return speed_report.table(["benchmark"] + [f"`{policy}`" for policy in speed_report.MODELS],
                              rows)


TABLES = {"recordings": groups_table("recordings", False), "eleven": eleven_table,
          "generated": groups_table("generated workloads", True),
          "workloads": workloads_table, "strategy": policies_table(STRATEGIES),
          "settings": policies_table(SETTINGS), "streams": streams_table, "rmm": rmm_table}
MARKED = re.compile(r"(<!-- times: (\w+); bench/times\.py writes from here -->\n).*?"
                    r"(<!-- times: to here -->)", re.S)


def fill(text, make):
    return MARKED.sub(lambda at: f"{at[1]}\n{make(at[2])}\n{at[3]}", text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mend", required=True, help="the built program")
    parser.add_argument("--rows", metavar="FILE", help="keep the replays here, and use those kept")
    parser.add_argument("--check", action="store_true", help="write nothing, show what differs")
    parser.add_argument("--workloads", default=os.path.join(HERE, "workloads.txt"))
    parser.add_argument("documents", nargs="*", metavar="DOCUMENT")
    options = parser.parse_args()
    runs = Runs(options.mend, options.rows)
    workloads = [(name, half) for half, _ in HALVES
                 for name, _ in ablate.read_workloads(options.workloads, half)]
    differ = False
    for path in options.documents:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        filled = fill(text, lambda name: TABLES[name](runs, workloads))
        if options.check:
            differ = differ or filled != text
            sys.stdout.writelines(difflib.unified_diff(text.splitlines(True),
                                                       filled.splitlines(True), path, "now", n=0))
            continue
        with open(path, "w", encoding="utf-8") as file:
            file.write(filled)
    if not options.documents:
        for name, make in TABLES.items():
            print(f"{name}\n\n{make(runs, workloads)}")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
