#!/usr/bin/env python3
"""Numbers in sentences of documents, beside the present output of the commands beside them.

    bench/said.py --mend build/release/api/cli/libmend [--rows FILE]

Each of CLAIMS is a sentence with its figures left open, and how they are made of replays. With
--rows, replays are kept in that file, which times.py may use, too. Exit status 1: one differs, or a
sentence is gone.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys

import times

ROOT = os.path.dirname(times.HERE)
POLICIES = ("mend", "expandable", "caching")


class Figures:
    """Of the bundled recordings: replays at the capacities of times.py, and fits."""

    def __init__(self, program, rows):
        self.runs = times.Runs(program, rows)
        folder = os.path.join(times.HERE, "traces")
        self.names = sorted(name[:-7] for name in os.listdir(folder) if name.endswith(".csv.gz"))

    def of(self, policy, capacity, figure, names=None):
        names = names or self.names
        self.runs.make(names, [policy])
        return [self.runs.time(name, policy, capacity, figure) for name in names]

    def fit(self, key):
        name, policy = key
        path = os.path.join(times.HERE, "traces", name + ".csv.gz")
        done = subprocess.run([self.runs.program, "replay", "--json", "--allocator",
                               policy.partition(" ")[0], "--capacity", "fit", path], check=True,
                              capture_output=True, text=True)
        return json.loads(done.stdout)["fit_factor"]

    def fit_of(self, policy, names=None):
        keys = [(name, policy + " fit") for name in names or self.names]
        self.runs.make_with(self.fit, keys)
        return [self.runs.known[key] for key in keys]


def near_the_limit(figures):
    waits = {policy: figures.of(policy, "1.02x", "host_syncs") for policy in POLICIES}
    out = {policy: sum(count is None for count in found) for policy, found in waits.items()}
    waiting = {policy: sum(bool(count) for count in found) for policy, found in waits.items()}
    completing = [str(len(figures.names) - out[policy]) for policy in POLICIES]
    quiet = [str(len(figures.names) - out[policy] - waiting[policy]) for policy in POLICIES]
    return (len(figures.names), *completing[::-1], *quiet[::-1])


def with_room(figures):
    ours, theirs = (figures.of(policy, "80GiB", "h200") for policy in ("mend", "expandable"))
    return [f"{statistics.geometric_mean(a / b for a, b in zip(ours, theirs)):.2f}"]


def most(figures, names=None):
    return [f"{max(figures.fit_of(policy, names)):.3f}" for policy in POLICIES]


def of_the_eleven(figures):
    return [*most(figures, times.ELEVEN), *less_and_more(figures, times.ELEVEN)]


def of_all(figures):
    ours, theirs, default = most(figures)
    return [ours, f"{statistics.mean(figures.fit_of('mend')):.3f}", theirs, default,
            *less_and_more(figures)]


def less_and_more(figures, names=None):
    pairs = list(zip(figures.fit_of("expandable", names), figures.fit_of("mend", names)))
    return [sum(theirs < ours for theirs, ours in pairs),
            sum(theirs > ours for theirs, ours in pairs)]


def driver_time_ms(figures, policy, capacity, prices):
    return sum(figures.of(policy, capacity, prices, times.ELEVEN)) / 1000


def less_by_h200(figures):
    def ratio(capacity):
        return (driver_time_ms(figures, "mend", capacity, "h200") /
                driver_time_ms(figures, "expandable", capacity, "h200"))

    return [f"{100 - 100 * ratio(capacity):.0f}" for capacity in ("1.2x", "1.05x", "1.02x")]


def held(figures):
    ratios = [reserved / live for reserved, live in zip(
        figures.of("mend", "80GiB", "peak_reserved_bytes"),
        figures.of("mend", "80GiB", "peak_live_bytes"))]
    fits = figures.fit_of("mend")
    return [f"{statistics.mean(fits):.3f}", f"{max(fits):.3f}",
            f"{statistics.geometric_mean(ratios):.2f}"]


N = r"(\d+)"
RATIO = r"(\d\.\d+)"
MOST = (f"Expandable segments: at most {RATIO}\\. PyTorch's default: at most {RATIO}\\. Expandable "
        f"segments need less on {N}")
SIMULATED = "bench/results/simulated.md"
CLAIMS = (
    ("README.md", rf"\| {N} recorded programs, [^|]*\| simulated \| {N} \| {N} \| \*\*{N}\*\* \|\n"
     rf"\|[^|]*\| simulated \| {N} \| {N} \| \*\*{N}\*\* \|", near_the_limit),
    ("README.md", rf"Driver time on 80&nbsp;GiB[^|]*\| simulated \| \| 1&times; "
     rf"\| \*\*{RATIO}&times;\*\* \|", with_room),
    (SIMULATED, f"{N} % less at 1.2 times the peak, {N} % less at 1.05, {N} % less at "
     "1.02", less_by_h200),
    (SIMULATED, f"Mend: at most {RATIO} times its peak of live memory, on eleven "
     f"recordings\\. {MOST} of the 11, Mend on {N}", of_the_eleven),
    (SIMULATED, f"Mend: at most {RATIO}, {RATIO} in the mean\\. {MOST}, Mend on {N}",
     of_all),
    (SIMULATED, f"need {RATIO} in the mean and {RATIO} at most, and hold {RATIO}", held),
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mend", required=True, help="the built program")
    parser.add_argument("--rows", metavar="FILE", help="keep the replays here, and use those kept")
    options = parser.parse_args()
    figures, wrong = Figures(options.mend, options.rows), 0
    for document, sentence, make in CLAIMS:
        with open(os.path.join(ROOT, document), encoding="utf-8") as file:
            said = re.search(sentence.replace(" ", r"\s+"), file.read())
        now = [str(figure) for figure in make(figures)]
        is_so = said is not None and list(said.groups()) == now
        wrong += not is_so
        print(f"{'ok     ' if is_so else 'DIFFERS'} {document}: {', '.join(now)}" + (
            "" if is_so else f"; it says {', '.join(said.groups()) if said else 'nothing of it'}"))
    print(f"{len(CLAIMS)} sentences, {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
