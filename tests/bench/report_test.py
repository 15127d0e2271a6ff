#!/usr/bin/env python3
"""bench/report.py: missed targets are named, driver time by any cost table included.

Usage: report_test.py FOLDER_OF_BENCH
"""
import contextlib
import io
import sys
import unittest

sys.path.insert(0, sys.argv.pop())
import report  # noqa: E402


def row(reference_us, mapping_us, completed=True):
    return {"completed": completed, "fit_factor": 1.0,
            "driver_time_by_list_us": {"reference": reference_us, "per-mapping": mapping_us},
            "host_syncs": 0, "peak_reserved_bytes": 100, "peak_live_bytes": 100,
            "driver_calls_second_half": {call: 0 for call in report.MEMORY_CALLS}}


def rows(unlimited, near_limit):
    return {"unlimited": row(*unlimited), "1.02x": row(1, 1), "1.05x": row(*near_limit),
            "fit": row(1, 1)}


# Mend takes half of expandable's time by the one list, nine tenths by the other.
RUNS = {("one", "mend"): rows((50, 90), (7000, 8000)),
        ("one", "caching"): rows((20, 20), (3000, 3000)),
        ("one", "expandable"): rows((100, 100), (5000, 6000))}


def compact():
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        report.print_compact(["one"], {"one": 1}, RUNS, ["mend", "caching", "expandable"])
    lines = [line for line in out.getvalue().splitlines() if line.startswith("| ")]
    head, line = "".join(lines[0::2]), "".join(lines[1::2])
    return dict(zip([cell.strip(" `.") for cell in head.split("|")[1:-1]],
                    [cell.strip() for cell in line.split("|")[1:-1]]))


class Report(unittest.TestCase):
    def test_what_either_list_misses_is_named(self):
        cells = compact()
        self.assertEqual(cells["not met"], "driver time")
        self.assertEqual(cells["fit factor"], "1.000 / 1.000 / 1.000")

    def test_pytorchs_settings_have_columns_that_are_empty_for_generated_workloads(self):
        runs = dict(RUNS)
        runs["one", "caching:gc80"] = rows((20, 20), (3000, 3000))
        for policy in ("mend", "caching", "expandable"):
            runs["stress:two", policy] = RUNS["one", policy]
        policies = ["mend", "caching", "expandable", "caching:gc80"]
        table = report.compact_rows(["one", "stress:two"], {"one": 1, "stress:two": 0}, runs,
                                    policies)
        self.assertEqual(table["`caching:gc80`"], ["1.000", ""])
        self.assertNotIn("`caching:split128`", table)
        self.assertTrue(report.runs_on("recording.csv.gz", "caching:gc80"))
        self.assertFalse(report.runs_on("stress:two", "caching:gc80"))


if __name__ == "__main__":
    unittest.main()
