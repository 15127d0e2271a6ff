#!/usr/bin/env python3
"""bench/ablate: the replays that it runs, the rows that it keeps, and its table.

Usage: ablation_test.py FOLDER_OF_BENCH
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BENCH = sys.argv.pop()
ABLATE = os.path.join(BENCH, "ablate")
sys.path.insert(0, ABLATE)
import effects  # noqa: E402
import mechanisms  # noqa: E402

# In place of mend-ablated: the least capacity is 1.01 of the peak, 1.05 without lone-chunks, 1.00
# without front-cache, 1.20 without growing-base. Each replay leaves a line in a log.
PROGRAM = f"#!{sys.executable} -IS\n" + '''
import json, os, sys
off = os.environ.get("MEND_MUTANT", "")
peak = 1000
least = {"policy.growing-base": 1200, "policy.front-cache": 1000}.get(off, 1010)
least = 1050 if "lone-chunks" in off else least
least += 20 if "5000" in sys.argv else 0
asked = sys.argv[sys.argv.index("--capacity") + 1].split(",")
with open(os.environ["LOG"], "a") as log:
    log.write(off + " " + ",".join(asked) + "\\n")
done = True
for text in asked:
    bytes_ = {"80GiB": 10**9, "fit": least}.get(text)
    if bytes_ is None:
        bytes_ = float(text[:-1]) * peak if text.endswith("x") else int(text[:-1])
    completed = bytes_ >= least
    done = done and completed
    print(json.dumps({
        "completed": completed, "peak_live_bytes": peak, "peak_reserved_bytes": least,
        "fit_capacity_bytes": least if text == "fit" else None,
        "fit_factor": least / peak if text == "fit" else None, "host_syncs": 0,
        "driver_time_by_list_us": {"h200": 200.0 if "lone-chunks" in off else 100.0, "two": 100.0},
        "driver_time_second_half_us": 50.0 if "lone-chunks" in off else 40.0,
        "felt": {"longest_us": 6000.0, "p999_us": 1500.0, "above_5_ms": 2, "host_bound_percent": 3,
                 "gpu_bound_percent": 10 * bytes_ / peak}}))
sys.exit(not done)
'''
WORKLOADS = "# a comment\nstress:one tune\nstress:two judge\nthree tune\n"


class Ablation(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.program = self.write("program", PROGRAM)
        self.program.chmod(0o755)
        self.workloads = self.write("workloads.txt", WORKLOADS)
        self.log = self.write("log", "")
        self.results = self.folder / "results.jsonl"

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def run_it(self, *arguments):
        command = [sys.executable, "-B", os.path.join(ABLATE, "ablate.py"), "--mend", self.program,
                   "--workloads", self.workloads, "--results", self.results]
        return subprocess.run([*command, *arguments], capture_output=True, text=True,
                              env={**os.environ, "LOG": str(self.log)})

    def asked(self):
        return self.log.read_text().splitlines()

    def test_a_fit_is_searched_only_where_it_is_far(self):
        done = self.run_it("--half", "tune", "--only", "lone-chunks", "tail-chunks", "front-cache",
                           "growing-base")
        self.assertEqual(0, done.returncode, done.stderr)
        searched = [line.split()[0] for line in self.asked() if line.endswith(" fit")]
        self.assertEqual(["policy.growing-base"] * 2, searched)
        self.assertIn("| lone-chunks | +0.0400 | +0.040 one | 0 | +1 |", done.stdout)
        self.assertIn("| tail-chunks | +0.0000 | 0 | 0 | +0 |", done.stdout)
        self.assertIn("| front-cache | -0.0100 | 0 | -0.010 one | +0 |", done.stdout)
        self.assertIn("| growing-base | +0.1900 | +0.190 one | 0 |", done.stdout)
        self.assertIn("| 0 to +100; +25 |", done.stdout)  # by both price lists; second halves

    def test_recordings_and_generated_workloads_have_tables_of_their_own(self):
        done = self.run_it("--half", "tune", "--only", "lone-chunks")
        recordings, generated = done.stdout.split("1 generated workload:")
        self.assertTrue(recordings.startswith("1 recording:"))
        self.assertIn("+0.040 three", recordings)
        self.assertNotIn("one", recordings.replace("lone", ""))
        self.assertIn("+0.040 one", generated)
        self.assertNotIn("three", generated)
        done = self.run_it("--half", "judge", "--only", "lone-chunks")
        self.assertNotIn("recording", done.stdout)

    def test_only_the_half_that_is_asked_for_is_replayed(self):
        self.run_it("--half", "judge", "--only", "tail-chunks")
        names = {json.loads(line)["workload"] for line in self.results.read_text().splitlines()}
        self.assertEqual({"stress:two"}, names)

    def test_a_second_run_replays_nothing(self):
        first = self.run_it("--only", "tail-chunks")
        count = len(self.asked())
        second = self.run_it("--only", "tail-chunks")
        self.assertEqual(first.stdout, second.stdout)
        self.assertEqual(count, len(self.asked()))

    def test_another_program_begins_again(self):
        self.run_it("--only", "tail-chunks")
        count = len(self.asked())
        self.write("program", PROGRAM + "# changed\n")
        self.run_it("--only", "tail-chunks")
        self.assertEqual(2 * count, len(self.asked()))

    def test_several_are_switched_off_at_once(self):
        done = self.run_it("--only", "tail-chunks", "--together", "lone-chunks,lent-runs")
        self.assertIn("| lone-chunks, lent-runs | +0.0400 |", done.stdout)
        self.assertTrue(any(line.startswith("policy.lone-chunks,policy.lent-runs ")
                            for line in self.asked()))

    def test_the_document_keeps_the_table_of_the_half(self):
        marks = "<!-- tune: made by ./run ablate -->\nthe table before\n<!-- end of tune -->\n"
        document = self.write("page.md", f"before\n{marks}after\n")
        self.run_it("--half", "tune", "--only", "tail-chunks", "--document", document)
        text = document.read_text()
        self.assertTrue(text.startswith("before\n<!-- tune") and text.endswith("-->\nafter\n"))
        self.assertIn("1 recording:\n", text)
        self.assertIn("| tail-chunks | +0.0000 |", text)
        self.assertNotIn("the table before", text)

    def test_what_is_felt_is_the_median_of_capacities_that_complete(self):
        done = self.run_it("--half", "tune", "--felt", "--only", "tail-chunks")
        self.assertEqual(0, done.returncode, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(2 + 3 * 4 * 5, len(lines))
        self.assertIn("| mend | 64 | 1.05x | 5 of 5 | 0 | 0 | 6.0 | 2 | 1.50 | 10.5 | 3.0 |", lines)
        self.assertIn("| expandable | 5,000 | 1.02x | 0 | - | - | - | - | - | - | - |", lines)
        self.assertTrue(any(line.startswith("| without tail-chunks | 0 | 1.4x") for line in lines))

    def test_bad_input_is_told(self):
        for arguments in (("--only", "no-such"), ("--together", "tail-chunks,no-such")):
            done = self.run_it(*arguments)
            self.assertNotEqual(0, done.returncode)
            self.assertIn("no-such", done.stderr)
        document = self.write("bare.md", "no marks\n")
        done = self.run_it("--only", "tail-chunks", "--document", document)
        self.assertIn("without the marks", done.stderr)

    def test_each_mechanism_of_the_table_has_a_name_of_its_own_place(self):
        entries = mechanisms.read_all()
        self.assertIn(len(entries), range(1, 21))
        flags = {entry.name: entry.flag for entry in entries}
        self.assertEqual(len(flags), len(set(flags.values())))

    def test_ratios_are_averaged_as_ratios(self):
        self.assertAlmostEqual(1.0, effects.mean_of_logs([2.0, 0.5]))


if __name__ == "__main__":
    unittest.main()
