#!/usr/bin/env python3
"""Counts the instructions of small fixed programs, and tells when they have grown.

    bench/counts.py --build build/bench                 measure and compare; 1 when any has grown
    bench/counts.py --build build/bench --keep          and keep these figures from now on

Instructions are the same on a busy machine as on a quiet one, so that a call that has become slower
shows. They count Mend and the C library for one operation, without the simulated device. Other
compilers and C libraries make other instructions: figures are compared with those kept for the same
ones, in bench/results/counts.csv. Needs valgrind.
"""
import argparse
import csv
import datetime
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KEPT = os.path.join(ROOT, "bench", "results", "counts.csv")
COLUMNS = ["build", "date", "case", "instructions"]
SIMULATED = "libmend_sim"
LIMIT_PERCENT = 5.0
SLACK = 2.0  # instructions: what a small count may grow by


def objects_named(line, names):
    """The object of "ob=(3) path": callgrind gives the path the first time only."""
    number, path = re.match(r"c?ob=\((\d+)\)(?: (.*))?$", line).groups()
    if path is not None:
        names[number] = path
    return names[number]


def parse(text):
    """(all instructions, those inside the simulated device) of callgrind's output."""
    total = simulated = 0
    names, here, called, is_call = {}, "", None, False
    for line in text.splitlines():
        if line.startswith("ob="):
            here = objects_named(line, names)
        elif line.startswith("cob="):
            called = objects_named(line, names)
        elif line.startswith("calls="):
            is_call = True
        elif re.match(r"[+\-*\d]", line):
            # A line of its own cost, or, behind "calls=", all that the called function took.
            cost = int(line.split()[1])
            if not is_call:
                total += cost
            elif called is not None and SIMULATED in called and SIMULATED not in here:
                simulated += cost
            if is_call:
                is_call, called = False, None
    return total, simulated


def measure(program, case, operations):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}",
                   "--collect-atstart=no", "--toggle-collect=mend_counted", program, case]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{case}: exit status {done.returncode}\n{done.stderr}")
        with open(out, encoding="utf-8") as file:
            total, simulated = parse(file.read())
    if total == 0:
        sys.exit(f"{case}: callgrind has counted nothing")
    return round((total - simulated) / operations, 1)


def measure_all(program, jobs):
    listing = subprocess.run([program, "--list"], check=True, capture_output=True, text=True)
    cases = [line.split() for line in listing.stdout.splitlines()]
    with ThreadPoolExecutor(jobs) as pool:
        counts = pool.map(lambda case: measure(program, case[0], int(case[1])), cases)
    return dict(zip((name for name, _ in cases), counts))


def read_kept(path):
    """{build: {case: (instructions, date)}}"""
    kept = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                kept.setdefault(row["build"], {})[row["case"]] = (float(row["instructions"]),
                                                                  row["date"])
    return kept


def write_kept(path, kept):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for build in sorted(kept):
            for case, (count, date) in kept[build].items():
                writer.writerow([build, date, case, f"{count:.1f}"])


def has_grown(now, before, limit_percent):
    return now > before * (1 + limit_percent / 100) + SLACK


def compare(now, before, limit_percent):
    """Rows (case, instructions, those kept or None, "" or the fault). A case that is no longer
    there is reported as well: no other one watches the same code."""
    rows = []
    for case, count in now.items():
        kept = before[case][0] if case in before else None
        grown = kept is not None and has_grown(count, kept, limit_percent)
        rows.append((case, count, kept, "GROWN" if grown else ""))
    rows += [(case, None, before[case][0], "GONE") for case in before if case not in now]
    return rows


def change(now, kept):
    return "new" if kept is None else "-" if now is None else f"{100 * (now / kept - 1):+.1f} %"


def print_rows(rows):
    print(f"{'':32} {'now':>10} {'kept':>10}")
    for case, now, kept, wrong in rows:
        cells = ["-" if cell is None else f"{cell:.1f}" for cell in (now, kept)]
        print(f"{case:32} {cells[0]:>10} {cells[1]:>10} {change(now, kept):>9} {wrong}".rstrip())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, help="the folder of an optimised build")
    parser.add_argument("--keep", action="store_true", help="keep these figures")
    parser.add_argument("--limit", type=float, default=LIMIT_PERCENT,
                        help="percent that a count may grow by (%(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--kept", default=KEPT, help="the file of kept figures")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        sys.exit("counts need valgrind")
    program = os.path.join(options.build, "bench", "mend_counts")
    build = subprocess.run([program, "--build"], check=True, capture_output=True,
                           text=True).stdout.strip() + ", " + os.uname().machine
    kept = read_kept(options.kept)
    now = measure_all(program, options.jobs)
    rows = compare(now, kept.get(build, {}), options.limit)
    print(f"Instructions of one operation ({build}).")
    print_rows(rows)
    wrong = [case for case, _, _, what in rows if what]
    if options.keep:
        today = datetime.date.today().isoformat()
        kept[build] = {case: (count, today) for case, count in now.items()}
        write_kept(options.kept, kept)
        print("These are kept.")
        return 0
    remedy = f"bench/counts.py --build {os.path.relpath(options.build, ROOT)} --keep"
    if build not in kept:
        print(f"None are kept for this compiler; `{remedy}` keeps these.")
    if wrong:
        print(f"{len(wrong)} have grown by more than {options.limit:g} %, or are gone; if that is "
              f"meant, `{remedy}` keeps the new figures.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
