#!/usr/bin/env python3
"""Wakes mutants and demands that tests see them.

Usage: run.py TESTS all                 each mutant is seen by the test that its line names, and
                                        these tests, but for sweeps, pass while none is awake
       run.py TESTS named ROOM.NAME...  the same, of some
       run.py TESTS tests               names each mutant whose test does not exist
       run.py TESTS applies [--strict]  names each mutant that does not apply; 5 % may, or none

TESTS is the folder of the built tests. A failure, a crash and a deadlock count as seen: a test is
in a deadlock when each of its threads sleeps and none has run for a while, however busy the machine
is. A test that runs into a limit does not count.
"""
import argparse
import concurrent.futures
import fnmatch
import glob
import os
import re
import resource
import signal
import subprocess
import sys
import time

import table

LEAST_APPLYING = 540  # fewer have been lost by mistake
MOST_MISFITS = 0.05
PROCESSOR_LIMIT_S = 60  # of the processors, with a mutant awake; most take milliseconds
LIMIT_S = 900  # of any clock
DEADLOCK_S = 10
LOOK_AFTER_S = 2
LARGEST_DATA_BYTES = 4 << 30  # a bug may ask for memory in a loop
SWEEPS = os.path.join(table.ROOT, "tests", "unit", "sweeps.txt")


class Programs:
    """The test programs over the mutated copies."""

    def __init__(self, tests):
        self.tests = tests
        with open(SWEEPS, encoding="utf-8") as file:
            self.sweeps = file.read().split()

    def start(self, program, mutant, argument):
        """A program in a session of its own. None wakes no mutant."""
        environment = {**os.environ, "MEND_MUTANT": mutant or ""}
        if mutant is None:
            environment.pop("MEND_MUTANT")
        if program.startswith("fake_"):
            environment["LD_LIBRARY_PATH"] = os.path.join(self.tests, "fake_cuda", "new")
            environment["MEND_FAKE_CUDA"] = "new"
        if program == "fake_contract":  # as on a GPU, through driver/cuda.c
            environment["MEND_TEST_DEVICE"] = "cuda"
            program = "contract"

        def limit():
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_DATA, (LARGEST_DATA_BYTES, LARGEST_DATA_BYTES))
            if mutant is not None:
                resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_LIMIT_S, PROCESSOR_LIMIT_S + 9))

        return subprocess.Popen(
            [os.path.join(self.tests, "mutants", "mutants_" + program), "--gtest_color=no",
             "--gtest_fail_fast", argument], preexec_fn=limit, env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True)

    def filter(self, program, tests, named_sweeps=True):
        """The filter for some tests. The sweeps take long, so only named ones run."""
        sweeps = [sweep for sweep in self.sweeps if not named_sweeps or
                  not any(fnmatch.fnmatch(test, sweep) for test in tests)]
        return (f"--gtest_filter={':'.join(tests)}" +
                (f"-{':'.join(sweeps)}" if program == "unit" else ""))

    def tests_of(self, program):
        """The full names of all its tests."""
        names, suite = [], ""
        output = self.start(program, None, "--gtest_list_tests").communicate()[0].decode()
        for line in output.split("\n"):
            if line.startswith("  "):
                names.append(suite + line.split()[0])
            elif line.strip().endswith("."):
                suite = line.strip()
        return [name for name in names if program != "unit" or name not in self.sweeps], names


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def sleepers(session):
    """How often each thread of a session has run so far. None while one of them can run."""
    runs = []
    try:
        for stat in glob.glob("/proc/[0-9]*/stat"):
            if int(read(stat).rpartition(")")[2].split()[3]) != session:
                continue
            for thread in glob.glob(os.path.dirname(stat) + "/task/*/status"):
                text = read(thread)
                if not re.search(r"^State:\s+[SZ]", text, re.MULTILINE):
                    return None
                runs.append((thread, re.findall(r"ctxt_switches:\s+(\d+)", text)))
    except (OSError, IndexError):  # something has ended meanwhile
        return None
    return sorted(runs)


def wait_for(process):
    """A program's output, and None or the reason of its end: "deadlock" or "limit"."""
    began = since = time.monotonic()
    before = why = None
    while why is None:
        try:
            return process.communicate(timeout=LOOK_AFTER_S)[0].decode(errors="replace"), None
        except subprocess.TimeoutExpired:
            now = sleepers(process.pid)
            if now is None or now != before:
                before, since = now, time.monotonic()
            if time.monotonic() - since > DEADLOCK_S:
                why = "deadlock"
            elif time.monotonic() - began > LIMIT_S:
                why = "limit"
    os.killpg(process.pid, signal.SIGKILL)  # with whatever it has forked
    return process.communicate()[0].decode(errors="replace"), why


def survives(programs, mutant):
    """How a mutant was not seen by its test. None where it was."""
    program, test = mutant.caught()
    process = programs.start(program, mutant.name, programs.filter(program, [test]))
    output, why = wait_for(process)
    code = process.returncode
    if why == "deadlock" or (code == 1 and "[  FAILED  ]" in output):
        return None
    if why == "limit" or code in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"{output}\n{mutant.name} ran into a limit: {mutant.last}"
    return None if code < 0 else f"{output}\n{mutant.name} survived: {mutant.last}"


def fails_asleep(programs, program, tests):
    """Why some tests of a program do not pass while no mutant is awake. None where they do. Sweeps
    pass over the product itself (the label sweep), and are the same code here."""
    process = programs.start(program, None, programs.filter(program, tests, named_sweeps=False))
    output, why = wait_for(process)
    if why is None and process.returncode == 0 and "[  PASSED  ]" in output:
        return None
    return f"{output}\n{program} fails while no mutant is awake"


def see(programs, mutants):
    """The faults of some mutants and their tests, one after the other on each processor."""
    tests = {}
    for mutant in mutants:
        program, test = mutant.caught()
        tests.setdefault(program, {})[test] = None
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        asleep = pool.map(lambda each: fails_asleep(programs, each, list(tests[each])), tests)
        awake = pool.map(lambda mutant: (mutant.name, survives(programs, mutant)), mutants)
        wrong = [text for text in asleep if text is not None]
        left = [(name, text) for name, text in awake if text is not None]
    wrong += [f"{text}\nagain: python3 tests/mutants/run.py {programs.tests} named {name}"
              for name, text in left]
    print("\n\n".join(wrong), f"{len(mutants) - len(left)} of {len(mutants)} mutants are seen",
          sep="\n")
    return bool(wrong)


def without_tests(programs, mutants):
    """Names each mutant whose test does not exist."""
    names = {program: programs.tests_of(program)
             for program in {mutant.caught()[0] for mutant in mutants}}
    lost = [mutant for mutant in mutants for program, test in [mutant.caught()]
            if not fnmatch.filter(names[program]["*" not in test], test)]
    for mutant in lost:
        print(f"{mutant.name}: there is no {mutant.last}")
    return bool(lost)


def count_misfits(mutants, misfits, strict):
    """Names each mutant that does not apply. Returns whether these are too many."""
    print("".join(f"does not apply: {misfit}\n" for misfit in misfits) +
          f"{len(mutants)} mutants apply, {len(misfits)} do not")
    return (len(misfits) > (0 if strict else MOST_MISFITS * len(mutants)) or
            len(mutants) < LEAST_APPLYING)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tests")
    jobs = parser.add_subparsers(dest="job", required=True)
    jobs.add_parser("all")
    jobs.add_parser("tests")
    jobs.add_parser("named").add_argument("mutants", nargs="+")
    jobs.add_parser("applies").add_argument("--strict", action="store_true")
    given = parser.parse_args()
    mutants, misfits = table.applying(table.read_all())
    programs = Programs(given.tests)
    if given.job == "applies":
        return count_misfits(mutants, misfits, given.strict)
    if given.job == "tests":
        return without_tests(programs, mutants)
    if given.job == "all":
        too_many = count_misfits(mutants, misfits, False)
        return see(programs, mutants) or too_many
    named = [mutant for mutant in mutants if mutant.name in given.mutants]
    for name in set(given.mutants) - {mutant.name for mutant in named}:
        sys.exit(f"{name}: no table has it, or it does not apply")
    return see(programs, named)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (table.TableError, OSError) as error:
        sys.exit(f"mutants: {error}")
