#!/usr/bin/env python3
"""bench/torch: the search finds the largest size that runs, figures and tables are made right, and
the programs are all there.

Usage: torch_run_test.py FOLDER_OF_BENCH
"""

import ast
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

FOLDER = Path(sys.argv.pop()) / "torch"
sys.path.insert(0, str(FOLDER))
import fit  # noqa: E402
import fixed  # noqa: E402
import harness  # noqa: E402
import report  # noqa: E402
import run  # noqa: E402
import workloads  # noqa: E402


class Search(unittest.TestCase):
    """Of the largest size that runs. `near` begins at a guess, and ends at 512."""

    sizes = workloads.Sizes("things", smallest=4, largest=1000, fixed=64)

    def search(self, limit, finest=0.0, near=False):
        tried = []

        def runs(size):
            tried.append(size)
            return size <= limit

        if near:
            found = fit.largest_near(runs, self.sizes, finest)
        else:
            found = run.largest_size(runs, 4, 1000, finest)
        self.assertEqual(len(tried), len(set(tried)), "a size was tried twice")
        self.assertTrue(all(size % 4 == 0 and 4 <= size <= 1000 for size in tried), tried)
        return found, tried

    def test_every_limit_is_found(self):
        for near, most in ((False, 1000), (True, 512)):
            for limit in range(4, most, 7):
                self.assertEqual(self.search(limit, near=near)[0], limit // 4 * 4)

    def test_where_nothing_or_everything_runs(self):
        self.assertEqual(self.search(3), (0, [4]))
        self.assertEqual(self.search(10**9)[0], 1000)
        self.assertEqual(self.search(3, near=True), (0, [64, 32, 16, 8, 4]))
        self.assertEqual(self.search(10**9, near=True), (512, [64, 128, 256, 512]))

    def test_a_coarse_search_is_short_and_below(self):
        for limit, near, most in ((700, False, len(self.search(700)[1]) - 1), (300, True, 8)):
            found, tried = self.search(limit, 0.1, near)
            self.assertTrue(limit * 0.9 <= found <= limit, found)
            self.assertLessEqual(len(tried), most)


def printed_by(main, folder, programs, *arguments):
    """The results, output and rows of a main(), beside made-up programs."""
    for name, text in programs.items():
        (Path(folder) / name).write_text(text)
    rows = Path(folder) / "rows.jsonl"
    module = sys.modules[main.__module__]
    argv = [f"{main.__module__}.py", f"--json={rows}", "--workloads=vision", *arguments]
    patches = (unittest.mock.patch.object(sys, "argv", argv),
               unittest.mock.patch.object(module, "HERE", Path(folder)))
    with patches[0], patches[1], contextlib.redirect_stdout(io.StringIO()) as out:
        status = main()
    return status, [json.loads(line) for line in rows.read_text().splitlines()], out.getvalue()


class Fit(unittest.TestCase):
    """bench/torch/fit.py over a program that is made up: sizes up to 40 run, under Mend up to 80.
    One allocator has no such backend, and one dies."""

    program = """
import json, os, sys, time
name = os.environ["MEND_BENCH_ALLOCATOR"]
for line in sys.stdin:
    limit, workload, size = json.loads(line)[:3]
    if name == "async":
        print("no such backend", file=sys.stderr)
        status = 1
    elif name == "expandable":
        sys.exit("died")
    else:
        most = 80 if name == "mend" else 40
        row = {"knob": "x", "completed": int(size.split("=")[1]) <= most}
        print("noise\\n" + json.dumps(row))
        status = 0
    print(json.dumps({"status": status, "timed_out": False}), flush=True)
"""

    def test_each_row_is_kept_and_what_fails_stops_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            programs = {"one.py": self.program.replace("\\\\", "\\")}
            status, rows, out = printed_by(
                fit.main, folder, programs, "--allocators=native,mend,async,expandable",
                "--finest=0")
        self.assertEqual(status, 1)
        (largest,) = [row["largest"] for row in rows if row["what"] == "largest"]
        self.assertEqual(largest, {"native": 40, "mend": 80, "async": 0, "expandable": 0})
        errors = {row["allocator"]: row["error"] for row in rows if "error" in row}
        self.assertIn("no such backend", errors["async"])
        self.assertIn("died", errors["expandable"])
        shared = [row for row in rows if row["what"] == "at a shared size"]
        sizes = [(row["allocator"], row["size"]) for row in shared]
        self.assertEqual(sizes, [("native", 36), ("mend", 36)])
        own = [row for row in rows if row["what"] == "at its largest"]
        sizes = [(row["allocator"], row["size"]) for row in own]
        self.assertEqual(sizes, [("native", 40), ("mend", 80)])
        self.assertIn("vision at its largest (80) under mend", out)


class Figures(unittest.TestCase):
    def test_percentiles(self):
        values = list(range(1, 101))
        self.assertEqual([harness.percentile(values, p) for p in (0.5, 0.99, 1.0)], [50, 99, 100])
        self.assertEqual(harness.percentile([7.0], 0.5), 7.0)

    def test_sizes_in_words(self):
        self.assertEqual(run.bytes_of("24GiB"), 24 << 30)
        self.assertEqual(run.bytes_of("1.5MiB"), 3 << 19)
        self.assertEqual(run.bytes_of("77"), 77)

    def test_an_unknown_allocator_is_refused(self):
        os.environ["MEND_BENCH_ALLOCATOR"] = "other"
        with self.assertRaisesRegex(SystemExit, "it takes native, expandable, async, mend"):
            harness.choose_allocator()


class Table(unittest.TestCase):
    done = {"completed": True, "steps": 100, "peak_reserved_bytes": 3 << 20,
            "step_ms": {"p50": 1.25, "p99": 2.5, "max": 3}}
    failed = {"completed": False, "steps": 4, "peak_reserved_bytes": 5 << 20,
              "step_ms": {"p50": 1.0, "p99": 1.0, "max": 1.0}}

    def table(self):
        result = {
            "workload": "vision",
            "largest": {"native": 8, "mend": 12},
            "shared": 8,
            "at_shared": {"native": self.done, "mend": self.done},
            "at_largest": {"native": self.done, "mend": self.failed},
        }
        return report.table([result], {"native": {"lost": 0, "rounds": 200}, "mend": {}}, 1 << 30)

    def test_a_row_for_each_allocator(self):
        self.assertIn("| vision | native | 8 | 3 | 8 | 3 | 1.2 | 2.5 | 100 | 0 |", self.table())
        self.assertIn("| vision | mend | 12 | 5 | 8 | 3 | 1.2 | 2.5 | 100 | 1 |", self.table())
        self.assertIn("native 0 of 200, mend failed of 0.", self.table())

    def test_a_workload_that_nothing_runs(self):
        result = {"workload": "lora", "largest": {"mend": 0}, "shared": 0, "at_shared": {},
                  "at_largest": {}}
        row = "| lora | mend | none | - | 0 | - | - | - | 0 | 2 |"
        self.assertIn(row, report.table([result], {}, 0))

    def test_it_is_kept_between_its_markers(self):
        with tempfile.TemporaryDirectory() as folder:
            document = Path(folder) / "a.md"
            document.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
            report.keep(document, "new")
            text = document.read_text()
            self.assertEqual(text, f"before\n{report.BEGIN}\n\nnew\n\n{report.END}\nafter\n")
            report.keep(document, "new")
            self.assertEqual(document.read_text(), text)

    def test_the_document_has_the_markers(self):
        document = (FOLDER.parent.parent / "bench/results/simulated.md").read_text(encoding="utf-8")
        self.assertEqual((document.count(report.BEGIN), document.count(report.END)), (1, 1))


class Programs(unittest.TestCase):
    def test_each_workload_is_a_module_with_prepare(self):
        for name in workloads.SIZES:
            path = FOLDER / "workloads" / f"{name.replace('-', '_')}.py"
            tree = ast.parse(path.read_text(encoding="utf-8"))
            functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
            arguments = [a.arg for a in functions["prepare"].args.args]
            self.assertEqual(arguments, ["place", "size", "chance"], name)

    def test_they_differ_by_one_variable_alone(self):
        """No workload asks which allocator it runs under."""
        for path in (FOLDER / "workloads").glob("*.py"):
            text = path.read_text(encoding="utf-8")
            self.assertNotIn("mend", text.lower().replace("recommend", ""), path)
            self.assertNotIn("environ", text, path)


class Fixed(unittest.TestCase):
    """bench/torch/fixed.py over programs that are made up."""

    programs = {
        "race.py": 'print(\'{"workload": "race", "rounds": 4, "lost": 0, "completed": true}\')',
        "one.py": """
import json, os, sys, time
name = os.environ["MEND_BENCH_ALLOCATOR"]
if name == "native":
    time.sleep(10**6)
if name == "async":
    sys.exit("no such backend")
row = {"workload": sys.argv[1], "arguments": sys.argv[2:], "completed": name == "mend"}
print("noise\\n" + json.dumps(row))
""",
    }

    @staticmethod
    def run_patiently(command, run=subprocess.run, **options):
        """Only what hangs is stopped: a busy machine may take long for the others."""
        hangs = options["env"]["MEND_BENCH_ALLOCATOR"] == "native" and "vision" in command
        return run(command, **{**options, "timeout": options["timeout"] if hangs else None})

    def rows(self, *arguments):
        patched = unittest.mock.patch.object(fixed.subprocess, "run", self.run_patiently)
        with tempfile.TemporaryDirectory() as folder, patched:
            return printed_by(fixed.main, folder, self.programs, *arguments)

    def test_a_program_that_hangs_or_fails_has_a_row_and_the_others_run(self):
        status, rows, out = self.rows("--limit=2")
        self.assertEqual(status, 1)
        self.assertEqual([row["allocator"] for row in rows], 2 * list(harness.ALLOCATORS))
        self.assertEqual([row["lost"] for row in rows[:4]], [0, 0, 0, 0])
        native, expandable, asynchronous, own = rows[4:]
        self.assertEqual(native["error"], "stopped after 2 s")
        self.assertIn("no such backend", asynchronous["error"])
        self.assertNotIn("error", expandable)  # out of memory is no failure
        self.assertTrue(own["completed"])
        self.assertIn("--size=64", own["arguments"])
        self.assertIn("vision under expandable: p50 0.0 ms, reserved 0 MiB, out of memory", out)

    def test_sizes_lie_within_the_bounds_of_the_search(self):
        for name, sizes in workloads.SIZES.items():
            self.assertTrue(sizes.smallest <= sizes.fixed <= sizes.largest, name)
            self.assertEqual(sizes.fixed % sizes.smallest, 0, name)


if __name__ == "__main__":
    unittest.main()
