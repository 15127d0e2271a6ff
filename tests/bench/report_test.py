#!/usr/bin/env python3
"""bench/report.py: driver time is in its tables by both price lists, and what it misses by
either is named.

Usage: report_test.py FOLDER_OF_BENCH
"""
import contextlib
import io
import sys
import unittest

sys.path.insert(0, sys.argv.pop())
import report  # noqa: E402


def row(reference_us, mapping_us, completed=True):
    return {"costs": "reference", "compared_costs": "per-mapping", "completed": completed,
            "driver_time_us": reference_us, "compared_time_us": mapping_us, "fit_factor": 1.0,
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
                    [cell.strip() for cell in line.split("|")[1:-1]])), head, line


class Report(unittest.TestCase):
    def test_driver_time_is_given_by_both_lists(self):
        _, head, line = compact()
        self.assertIn("| driver time / expandable's | ... `per-mapping` |", head)
        self.assertIn("| 0.50 / 0.20 | 0.90 / 0.20 |", line)
        self.assertIn("| driver ms at 1.05x | ... `per-mapping` |", head)
        self.assertIn("| 7 / 3 / 5 | 8 / 3 / 6 |", line)

    def test_what_either_list_misses_is_named(self):
        cells, _, _ = compact()
        self.assertEqual(cells["not met"], "driver time by `per-mapping`")

    def test_pytorchs_settings_have_columns_that_are_empty_for_generated_workloads(self):
        runs = dict(RUNS)
        runs["one", "caching:gc80"] = rows((20, 20), (3000, 3000))
        for policy in ("mend", "caching", "expandable"):
            runs["stress:two", policy] = RUNS["one", policy]
        policies = ["mend", "caching", "expandable", "caching:gc80"]
        table = report.compact_rows(("fit",), ["one", "stress:two"], None, runs, policies)
        self.assertEqual(table["`caching:gc80`"], ["1.000", ""])
        self.assertNotIn("`caching:split128`", table)
        self.assertTrue(report.runs_on("recording.csv.gz", "caching:gc80"))
        self.assertFalse(report.runs_on("stress:two", "caching:gc80"))

    def test_runs_of_other_lists_are_not_taken(self):
        other = {"one": row(1, 1)}
        other["one"]["costs"] = "prices.txt"
        with self.assertRaises(AssertionError):
            report.time_of("time", other["one"])


if __name__ == "__main__":
    unittest.main()
