#!/usr/bin/env python3
"""Wakes mutants and demands that tests see them.

Usage: run.py TESTS named ROOM.NAME      the test its entry names passes, and fails with the mutant
       run.py TESTS asleep               the quick programs pass while no mutant is awake
       run.py TESTS matrix [--only ROOM or ROOM.NAME] [--programs PROGRAM...] [--summary DOCUMENT]
                                         each mutant against every test of every program; the
                                         summary is kept when no mutant is left out

TESTS is the folder of the built tests. A crash and a time limit count as seen, and are reported.
"""
import argparse
import concurrent.futures
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time

import summary
import table

PROGRAMS = ("unit", "contract", "fake_cuda", "hooks", "model", "fault", "interleave", "sim")
QUICK_PROGRAMS = PROGRAMS[:4]
MATRIX_PROGRAMS = PROGRAMS[:7]  # fresh seeds of the simulation see by luck
LIMIT_S = 30  # of one test alone, with a mutant awake; longer if the test takes long without
ASLEEP_LIMIT_S = 90  # of one test without a mutant, when every processor is busy
TIMES_OF_ASLEEP = 2
SILENCE_S = 60  # of one test among all others, when every processor is busy
LARGEST_DATA_BYTES = 4 << 30  # a bug may ask for memory in a loop


class Programs:
    """The test programs over the mutated copies."""

    def __init__(self, tests):
        self.tests = tests

    def path_of(self, program):
        return os.path.join(self.tests, "mutants", "mutants_" + program)

    def environment_of(self, program, mutant):
        environment = dict(os.environ)
        environment.pop("MEND_MUTANT", None)
        if mutant is not None:
            environment["MEND_MUTANT"] = mutant
        if program == "fake_cuda":
            environment["LD_LIBRARY_PATH"] = os.path.join(self.tests, "fake_cuda", "new")
            environment["MEND_FAKE_CUDA"] = "new"
        return environment

    def start(self, program, mutant, arguments):
        def limit():
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_DATA, (LARGEST_DATA_BYTES, LARGEST_DATA_BYTES))

        return subprocess.Popen(
            [self.path_of(program), "--gtest_color=no"] + arguments, preexec_fn=limit,
            env=self.environment_of(program, mutant), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)

    def tests_of(self, program):
        """The full names of all its tests."""
        process = self.start(program, None, ["--gtest_list_tests"])
        output = process.communicate()[0].decode()
        names = []
        suite = ""
        for line in output.split("\n"):
            if line.startswith("  "):
                names.append(suite + line.split()[0])
            elif line.strip().endswith("."):
                suite = line.strip()
        return names


def how_it_ended(code):
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"


def end(process):
    """Ends a program that takes too long, with whatever it has forked."""
    os.killpg(process.pid, signal.SIGKILL)
    return process.communicate()[0]


def run_one(programs, mutant, program, test, limit_s):
    """One test alone: ("passed" | "failed" | "crashed" | "limit" | "error", its output)."""
    process = programs.start(program, mutant, ["--gtest_filter=" + test])
    try:
        output = process.communicate(timeout=limit_s)[0].decode(errors="replace")
    except subprocess.TimeoutExpired:
        return "limit", end(process).decode(errors="replace")
    if process.returncode == 0:
        return ("passed" if "[  PASSED  ] 1 test." in output else "error"), output
    if process.returncode == 1 and "[  FAILED  ] 1 test" in output:
        return "failed", output
    return ("crashed" if process.returncode < 0 else "error"), output


def named(programs, name):
    """What CI does for each mutant."""
    mutant = next((m for m in table.read_all() if m.name == name), None)
    if mutant is None:
        return f"{name}: no table has it"
    began = time.monotonic()
    outcome, output = run_one(programs, None, mutant.program, mutant.test, ASLEEP_LIMIT_S)
    asleep_s = time.monotonic() - began
    if outcome != "passed":
        return f"{output}\n{mutant.test} does not pass while no mutant is awake, or does not exist"
    limit_s = max(LIMIT_S, TIMES_OF_ASLEEP * asleep_s)
    outcome, output = run_one(programs, name, mutant.program, mutant.test, limit_s)
    if outcome in ("passed", "error"):
        return f"{output}\n{name} survived {mutant.test}: {mutant.breaks}"
    how = {"failed": "fails", "crashed": "crashes", "limit": "takes too long"}[outcome]
    print(f"{name}: {mutant.test} {how}")
    return None


def asleep(programs):
    for program in QUICK_PROGRAMS:
        process = programs.start(program, None, ["--gtest_brief=1"])
        output = process.communicate()[0].decode(errors="replace")
        if process.returncode != 0:
            return f"{output}\n{program} fails while no mutant is awake"
    return None


def lines_of(process):
    """The lines a program prints; ends it after a silence."""
    timer = None
    try:
        timer = threading.Timer(SILENCE_S, lambda: os.killpg(process.pid, 9))
        timer.start()
        for line in process.stdout:
            timer.cancel()
            timer = threading.Timer(SILENCE_S, lambda: os.killpg(process.pid, 9))
            timer.start()
            yield line.decode(errors="replace")
    finally:
        timer.cancel()


def run_all(programs, mutant, program):
    """Every test of a program: what saw the mutant. A crash ends one test, and the rest go on."""
    seen = []
    left = programs.tests_of(program)
    while left:
        with tempfile.NamedTemporaryFile("w", suffix=".flags") as flags:
            flags.write("--gtest_filter=" + ":".join(left) + "\n")
            flags.flush()
            process = programs.start(program, mutant, ["--gtest_flagfile=" + flags.name])
            running = None
            for line in lines_of(process):
                begun = re.match(r"\[ RUN      \] (\S+)", line)
                ended = re.match(r"\[ +(OK|FAILED) +\] (\S+) \(", line)
                if begun:
                    running = begun.group(1)
                elif ended:
                    left.remove(running)
                    seen += [running] if ended.group(1) == "FAILED" else []
                    running = None
            code = process.wait()
        if running is None:
            if left:
                raise RuntimeError(f"{program}: {how_it_ended(code)} between its tests")
            break
        left.remove(running)
        seen.append(running + "!")
    return seen


def has(program, mutant):
    """Whether the program has the mutant's code; None: all are asleep."""
    return mutant is None or (program == "hooks") == (mutant.room == "torch")


def matrix(programs, only, kinds, document):
    mutants = [m for m in table.read_all() if only in (None, m.room, m.name)]
    by_name = {None: None, **{m.name: m for m in mutants}}
    rows = {name: [] for name in by_name}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = {pool.submit(run_all, programs, name, program): name
                for name in rows for program in kinds if has(program, by_name[name])}
        for run in concurrent.futures.as_completed(runs):
            rows[runs[run]] += run.result()
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print(summary.rows(mutants, rows))
    if rows[None]:
        return "tests fail while no mutant is awake: " + ", ".join(rows[None])
    missed = [m.name for m in mutants if m.program in kinds
              and m.test not in [name.rstrip("!") for name in rows[m.name]]]
    if missed:
        return "not seen by their own tests: " + ", ".join(missed)
    if document is not None and only is None:
        summary.write(document, mutants, rows, {k: len(programs.tests_of(k)) for k in kinds})
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tests")
    jobs = parser.add_subparsers(dest="job", required=True)
    jobs.add_parser("named").add_argument("mutant")
    jobs.add_parser("asleep")
    full = jobs.add_parser("matrix")
    full.add_argument("--only")
    full.add_argument("--programs", nargs="+", choices=PROGRAMS, default=MATRIX_PROGRAMS)
    full.add_argument("--summary")
    given = parser.parse_args()
    programs = Programs(given.tests)
    if given.job == "named":
        return named(programs, given.mutant)
    if given.job == "asleep":
        return asleep(programs)
    return matrix(programs, given.only, given.programs, given.summary)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (table.TableError, OSError, RuntimeError) as error:
        sys.exit(f"mutants: {error}")
