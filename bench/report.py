#!/usr/bin/env python3
"""Runs allocators over recordings and workloads, and prints tables.

    bench/report.py --mend build/release/api/cli/libmend [--rows rows.json] TRACE|WORKLOAD...

One table for each figure, a row for each workload and a column for each allocator, with the target
and whether Mend meets it. Then each allocator's geometric mean and worst. With --compact: one table
of Mend beside PyTorch's two allocators. All on the simulated device. bench/times.py has the tables
of driver time. With --rows, runs are kept in that file and not made again. --again NAME,... repeats
some allocators.
"""
import argparse
import concurrent.futures
import gzip
import json
import math
import os
import subprocess
import sys
import urllib.parse

POLICIES = ["mend", "mend:compact", "caching", "expandable", "rmm-pool", "rmm-arena"]
CAPACITIES = ["unlimited", "1.02x", "1.05x", "fit"]
OURS = ("mend", "mend:compact")
# Their fit is searched at up to ten thousand capacities where their peak is high: recordings only.
WITH_SETTINGS = ("caching:split128", "caching:gc80")

# Recordings whose steps are all alike: there the second half has no excuse.
FIXED_SHAPES = {"gpt2-medium-pretrain", "fsdp-llama-2stream"}
HANDFUL = 5
# It takes all it may have at once: without a limit its price is the device's.
WITHOUT_PRICE = ("rmm-arena",)
MEMORY_CALLS = ("create", "map", "unmap", "set_access", "malloc", "free")

# Workload: figure: (must, aim). The small checkerboard has others where copies are allowed.
STRESS_TARGETS = {
    "checkerboard": {"fit": (1.06, 1.03)},
    "checkerboard of small blocks": {"fit": (1.22, 1.05)},
    "small-pins": {"fit": (1.02, 1.01)},
    "phase-shift": {"fit": (1.09, 1.03)},
    "random-mix": {"fit": (1.06, 1.02)},
    "many-streams": {"fit": (1.04, 1.02), "reserved": (1.3, 1.05)},
    "staircase": {"fit": (1.006, 1.003), "reserved": (1.06, 1.01)},
}
SMALL_CHECKERBOARD_QUIET = (1.17, 1.05)


# ---- runs ----------------------------------------------------------------------------------------

def knows(program, policy):
    done = subprocess.run([program, "replay", "--allocator", policy, "--list"], check=False,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return done.returncode == 0


def replay(program, workload, policy):
    """The rows of one allocator on one workload, by capacity."""
    command = [program, "replay", "--json", "--allocator", policy,
               "--capacity", ",".join(CAPACITIES), workload]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)}: exit status {done.returncode}")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return dict(zip(CAPACITIES, rows))


def load_rows(path):
    if path is None or not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as lines:
        kept = [json.loads(line) for line in lines]
    return {(entry["workload"], entry["policy"]): entry["rows"] for entry in kept}


def save_rows(path, runs):
    if path is not None:
        with open(path + ".new", "w", encoding="utf-8") as out:
            for (workload, policy), rows in sorted(runs.items()):
                entry = {"workload": workload, "policy": policy, "rows": rows}
                out.write(json.dumps(entry) + "\n")
        os.replace(path + ".new", path)


def runs_on(workload, policy):
    return policy not in WITH_SETTINGS or not workload.startswith("stress:")


def run_all(arguments, policies):
    """{(name of the workload, policy): {capacity: row}}"""
    runs = load_rows(arguments.rows)
    again = set(arguments.again.split(",")) if arguments.again else set()
    missing = [(workload, policy) for workload in arguments.workloads for policy in policies
               if runs_on(workload, policy) and
               (policy in again or (name_of(workload), policy) not in runs)]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        jobs = {pool.submit(replay, arguments.mend, workload, policy): (workload, policy)
                for workload, policy in missing}
        for done, job in enumerate(concurrent.futures.as_completed(jobs), start=1):
            workload, policy = jobs[job]
            runs[name_of(workload), policy] = job.result()
            save_rows(arguments.rows, runs)
            print(f"{done} of {len(jobs)}: {name_of(workload)}, {policy}", file=sys.stderr)
    return runs


# ---- workloads -----------------------------------------------------------------------------------

def name_of(workload):
    return os.path.basename(workload).removesuffix(".gz").removesuffix(".csv")


def stream_count(workload):
    if workload.startswith("stress:"):
        return 0
    reader = gzip.open if workload.endswith(".gz") else open
    with reader(workload, "rt", encoding="utf-8") as lines:
        next(lines)
        return len({line.rstrip().rsplit(",", 1)[1] for line in lines if "," in line})


def stress_kind(name):
    """Which row of STRESS_TARGETS a workload belongs to, whatever its seed. None: a recording."""
    if not name.startswith("stress:"):
        return None
    kind, _, parameters = name.removeprefix("stress:").partition("?")
    given = urllib.parse.parse_qs(parameters)
    if kind == "checkerboard" and given.get("lo") == ["600KiB"]:
        return "checkerboard of small blocks"
    return kind


def target_of(figure, name, policy, streams, runs):
    """(must, aim) of Mend, or None."""
    kind = stress_kind(name)
    if kind is not None:
        if kind == "checkerboard of small blocks" and figure == "fit" and policy == "mend:compact":
            return SMALL_CHECKERBOARD_QUIET
        return STRESS_TARGETS.get(kind, {}).get(figure)
    if figure == "fit":
        return (1.020, 1.003 if policy == "mend:compact" else 1.005)
    if figure == "reserved":
        return (1.04 if streams <= 1 else 1.07, 1.01)
    if figure == "time":
        caching = value_of(figure, name, "caching", runs)
        return (0.75, min(0.75, caching) if caching is not None else 0.75)
    if figure == "calls":
        return (0, 0) if name in FIXED_SHAPES else (HANDFUL, 0)
    return (0, 0) if figure == "waits" else None


# ---- figures -------------------------------------------------------------------------------------

def value_of(figure, name, policy, runs):
    """A number, or None: out of memory, or no such run."""
    rows = runs.get((name, policy))
    if rows is None:
        return None
    unlimited = rows["unlimited"]
    if figure == "fit":
        return rows["fit"]["fit_factor"]
    if figure == "reserved":
        return unlimited["peak_reserved_bytes"] / unlimited["peak_live_bytes"]
    if figure == "time":
        expandable = runs.get((name, "expandable"))
        if expandable is None or policy in WITHOUT_PRICE:
            return None
        theirs = expandable["unlimited"]["driver_time_by_list_us"]
        ours = unlimited["driver_time_by_list_us"]
        return max(ours[prices] / theirs[prices] for prices in theirs)
    if figure == "calls":
        return sum(unlimited["driver_calls_second_half"][call] for call in MEMORY_CALLS)
    return rows["1.02x"]["host_syncs"] if rows["1.02x"]["completed"] else None


# Figure: heading, how a value is written, the meaning of None, whether means make sense.
FIGURES = {
    "fit": ("Fit factor", "{:.3f}", "none", True),
    "reserved": ("Peak reserved over peak live, unlimited", "{:.3f}", "-", True),
    "time": ("Driver time, unlimited, relative to expandable, by the least favourable price list",
             "{:.2f}", "-", True),
    "calls": ("Calls that create, map, unmap, give access, allocate or free: second half, "
              "unlimited", "{:d}", "-", False),
    "waits": ("Host waits at 1.02x", "{:d}", "OOM", False),
}


def verdict(figure, name, streams, runs, policies):
    """Mend's targets, and whether it meets them: without copies, then with safe points."""
    targets, words = [], []
    for policy in (policy for policy in policies if policy in OURS):
        target = target_of(figure, name, policy, streams, runs)
        if target is None or (name, policy) not in runs:
            continue
        value = value_of(figure, name, policy, runs)
        form = FIGURES[figure][1]
        targets.append(f"{form.format(target[0])} ({form.format(target[1])})")
        shown = None if value is None else float(form.format(value))
        words.append("**no**" if shown is None or shown > target[0]
                     else "aim" if shown <= float(form.format(target[1])) else "yes")
    same = len(set(targets)) <= 1
    return " / ".join(targets[:1] if same else targets), " / ".join(words)


def print_figure(figure, names, streams, runs, policies):
    heading, form, nothing, _ = FIGURES[figure]
    print(f"### {heading}\n")
    print("| workload |", " | ".join(policies), "| target (aim) | met? |")
    print("|---" * (len(policies) + 3) + "|")
    for name in names:
        cells = []
        for policy in policies:
            value = value_of(figure, name, policy, runs)
            cells.append(nothing if value is None else form.format(value))
        print("|", " | ".join([name.replace("|", "\\|"), *cells,
                               *verdict(figure, name, streams[name], runs, policies)]), "|")
    print()


def summary_cell(figure, names, policy, runs):
    form = FIGURES[figure][1]
    values = [value_of(figure, name, policy, runs) for name in names]
    found = [value for value in values if value is not None]
    if not found:
        return "-"
    mean = math.exp(sum(math.log(value) for value in found) / len(found))
    missing = len(values) - len(found)
    return (f"{form.format(mean)}, {form.format(max(found))}" +
            (f", {missing} without" if missing else ""))


def print_summary(title, names, runs, policies):
    figures = [figure for figure, parts in FIGURES.items() if parts[3]]
    print(f"### {title}: geometric mean, worst\n")
    print("| allocator |", " | ".join(FIGURES[figure][0] for figure in figures),
          "| out of memory at 1.02x |")
    print("|---" * (len(figures) + 2) + "|")
    for policy in policies:
        cells = [summary_cell(figure, names, policy, runs) for figure in figures]
        failed = sum(value_of("waits", name, policy, runs) is None for name in names)
        print("|", " | ".join([policy, *cells, f"{failed} of {len(names)}"]), "|")
    print()


# ---- Mend beside PyTorch's two -------------------------------------------------------------------

COMPACT = ("mend", "caching", "expandable")
COMPACT_FIGURES = {"fit": "fit factor", "reserved": "reserved / live",
                   "calls": "calls in the second half", "waits": "host waits at 1.02x"}
# The word for a target that is not met.
MISSED = {**COMPACT_FIGURES, "time": "driver time"}


def compact_cell(figure, name, runs):
    _, form, nothing, _ = FIGURES[figure]
    values = [value_of(figure, name, policy, runs) for policy in COMPACT]
    return " / ".join(nothing if value is None else form.format(value) for value in values)


def missed(name, streams, runs):
    """The figures in which Mend, without copies, does not reach its target."""
    return [MISSED[figure] for figure in MISSED
            if "**no**" in verdict(figure, name, streams, runs, ["mend"])[1]]


def fits(policy, names, runs):
    """A column of one allocator's fit factors, empty where it was not run."""
    _, form, nothing, _ = FIGURES["fit"]
    cells = []
    for name in names:
        was_run = (name, policy) in runs
        value = value_of("fit", name, policy, runs) if was_run else None
        cells.append(form.format(value) if value is not None else nothing * was_run)
    return cells


def compact_rows(names, streams, runs, policies):
    """The columns, by their headings, a value for each workload."""
    columns = {"workload": names}
    for figure in COMPACT_FIGURES:
        columns[COMPACT_FIGURES[figure]] = [compact_cell(figure, name, runs) for name in names]
        if figure == "fit":
            columns |= {f"`{policy}`": fits(policy, names, runs)
                        for policy in ("mend:compact", *WITH_SETTINGS) if policy in policies}
    columns["not met"] = [", ".join(missed(name, streams[name], runs)) for name in names]
    return columns


def print_compact(names, streams, runs, policies):
    columns = compact_rows(names, streams, runs, policies)
    print("|", " | ".join(columns), "|")
    print("|---" * len(columns) + "|")
    for cells in zip(*columns.values()):
        print("|", " | ".join(cells), "|")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mend", required=True, help="the built program")
    parser.add_argument("--policies", default=",".join(POLICIES),
                        help="those the program does not know are left out")
    parser.add_argument("--rows", metavar="FILE", help="keep the runs here, and use those kept")
    parser.add_argument("--again", metavar="POLICY,...", help="do not use those of these")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--compact", action="store_true",
                        help="one table; each cell: mend / caching / expandable")
    parser.add_argument("workloads", nargs="+", metavar="TRACE|WORKLOAD")
    arguments = parser.parse_args()
    policies = [policy for policy in arguments.policies.split(",")
                if knows(arguments.mend, policy)]
    runs = run_all(arguments, policies)
    names = [name_of(workload) for workload in arguments.workloads]
    streams = {name_of(workload): stream_count(workload) for workload in arguments.workloads}
    if arguments.compact:
        print_compact(names, streams, runs, policies)
        return
    print("Met: **no**, yes, or the aim as well" +
          ("; " + " / ".join(OURS) if OURS[1] in policies else "") + ".\n")
    for figure in FIGURES:
        print_figure(figure, names, streams, runs, policies)
    for title, chosen in (("Recordings", [n for n in names if stress_kind(n) is None]),
                          ("Stress workloads", [n for n in names if stress_kind(n) is not None])):
        if chosen:
            print_summary(title, chosen, runs, policies)


if __name__ == "__main__":
    main()
